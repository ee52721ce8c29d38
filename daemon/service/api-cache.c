/* /v1/cache/…: entries, verify, gc, export, import, nearest.
 *
 * The query, or for import the body, becomes the arguments of dtd_cache_op, which does the work on a pool thread. Only
 * admins may remove, import or check entries (dtd_peer_admin): a check reads the whole file. Lists, comparisons and
 * exports hold everything for an admin, and for anybody else what belongs to graphs that they posted themselves.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "daemon/shared/shared.h"
#include "daemon/service/hits.h"
#include "daemon/service/service.h"

struct op {
    struct dtd_async a; /* first */
    const char *name;
    json_t *args;
    char *body; /* import */
    size_t len;
    int rc;
    struct dt_err err;
    char *text;
};

static void op_work(struct dtd_async *a)
{
    struct op *o = (struct op *)a;
    json_t *doc = NULL;
    if (o->body) {
        json_t *bundle = json_stringn(o->body, o->len); /* NULL: no UTF-8, which import says */
        free(o->body);
        o->body = NULL;
        if (bundle)
            json_object_set_new(o->args, "bundle", bundle);
    }
    uv_mutex_lock(&a->s->cache_lock);
    dtd_hits_flush(a->s->hits);
    o->rc = dtd_cache_op(a->s->cache, o->name, o->args, &doc, &o->err);
    uv_mutex_unlock(&a->s->cache_lock);
    if (o->rc < 0)
        return;
    const char *bundle = json_string_value(json_object_get(doc, "bundle"));
    o->text = bundle ? dt_strdup(bundle) : json_dumps(doc, JSON_COMPACT);
    if (!o->text)
        o->rc = dt_err_set(&o->err, DT_E_NOMEM, "out of memory");
    json_decref(doc);
}

static void op_after(struct dtd_async *a)
{
    struct op *o = (struct op *)a;
    if (!a->req)
        return;
    if (o->rc < 0) {
        dtd_reply_problem(a->req, 0, NULL, &o->err);
        return;
    }
    dtd_reply_take(a->req, 200, strcmp(o->name, "export") ? "application/json" : "application/x-ndjson", NULL, o->text,
                   strlen(o->text));
    o->text = NULL;
}

static void op_release(struct dtd_async *a)
{
    struct op *o = (struct op *)a;
    json_decref(o->args);
    dt_err_done(&o->err);
    free(o->body);
    free(o->text);
    free(o);
}

/* The query's members into args: numbers as such. `allowed`: names between blanks. */
static int api_cache_read_query(const char *query, const char *allowed, json_t *args, struct dt_err *e)
{
    char name[32], value[192], padded[40], *end;
    int q;
    for (const char *at = query; (q = dtd_query_next(&at, name, sizeof name, value, sizeof value));) {
        snprintf(padded, sizeof padded, " %s ", name);
        if (q < 0 || !strstr(allowed, padded))
            return dt_err_set(e, DT_E_USAGE,
                              *allowed == ' ' && allowed[1] ? "the query may hold%sonly" : "there is no query here%.0s",
                              allowed);
        errno = 0;
        long long n = strtoll(value, &end, 10);
        bool number = *value && !*end && !errno;
        long failed = dt_alloc_failed();
        if (json_object_set_new(args, name, number ? json_integer(n) : json_string(value)) < 0)
            return dt_alloc_failed() != failed ? dt_err_set(e, DT_E_NOMEM, "out of memory")
                                               : dt_err_set(e, DT_E_USAGE, "the query is no UTF-8 text");
    }
    return 0;
}

static void api_cache_start(struct dtd_service *s, struct dtd_req *r, const char *name, const char *allowed,
                            bool admins)
{
    struct dt_err e = {0};
    struct op *o = dt_calloc(1, sizeof *o);
    json_t *args = json_object();
    if (!o || !args)
        dt_err_set(&e, DT_E_NOMEM, "out of memory");
    else if (admins && !dtd_peer_admin(s, r))
        dt_err_set(&e, DT_E_FORBIDDEN, DTD_ADMINS_ONLY "change the cache, or check all of it");
    else
        api_cache_read_query(r->query, allowed, args, &e);
    if (!e.num && !strcmp(name, "nearest") && json_object_set_new(args, "signature", json_string(r->param[0])) < 0)
        dt_err_set(&e, DT_E_USAGE, "a signature is sha256: and 64 hexadecimal digits");
    bool own = !admins && !dtd_peer_admin(s, r);
    if (!e.num && own && dtd_peer_uid(r) == (uid_t)-1)
        dt_err_set(&e, DT_E_FORBIDDEN, "it is not known who asks");
    if (!e.num && (own || !strcmp(name, "import")) &&
        json_object_set_new(args, "uid", json_integer(dtd_peer_uid(r))) < 0)
        dt_err_set(&e, DT_E_NOMEM, "out of memory");
    if (e.num) {
        free(o);
        json_decref(args);
        dtd_reply_problem(r, 0, NULL, &e);
        return;
    }
    o->a = (struct dtd_async){.s = s, .req = r, .work = op_work, .after = op_after, .release = op_release};
    o->name = name;
    o->args = args;
    if (!strcmp(name, "import")) {
        o->body = r->body;
        o->len = r->body_len;
        r->body = NULL;
    }
    dtd_async_start(&o->a);
}

void api_cache_entries(struct dtd_service *s, struct dtd_req *r)
{
    api_cache_start(s, r, "list", " limit signature ", false);
}
void api_cache_verify(struct dtd_service *s, struct dtd_req *r) { api_cache_start(s, r, "verify", "", true); }
void api_cache_gc(struct dtd_service *s, struct dtd_req *r)
{
    api_cache_start(s, r, "gc", " max_age max_bytes ", true);
}
void api_cache_export(struct dtd_service *s, struct dtd_req *r) { api_cache_start(s, r, "export", "", false); }
void api_cache_import(struct dtd_service *s, struct dtd_req *r) { api_cache_start(s, r, "import", "", true); }
void api_cache_nearest(struct dtd_service *s, struct dtd_req *r) { api_cache_start(s, r, "nearest", " want ", false); }
