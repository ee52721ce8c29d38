/* /v1/cache/…: entries, verify, gc, export, import, nearest.
 *
 * The query, or for import the body, becomes the arguments of dtd_cache_op, which does the work on a pool thread. Only
 * admins may remove, import or check entries (dtd_peer_admin): a check reads the whole file. Lists, comparisons and
 * exports hold everything for an admin, and for anybody else what belongs to graphs that they posted themselves.
 *
 * Bundles are bytes in a body, and base64 in the arguments and the document of dtd_cache_op. Whom an import believes,
 * and how large and old a bundle may be, the configuration says; a query can ask for less and not for more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/str.h"
#include "daemon/shared/shared.h"
#include "daemon/service/hits.h"
#include "daemon/service/service.h"

struct op {
    struct dtd_async a; /* first */
    const char *name;
    json_t *args;
    char *body; /* import */
    size_t len; /* of body, then of text */
    int rc;
    struct dt_err err;
    char *text;
};

/* The bytes of a bundle as a member of the arguments, and back. */
static int op_take_body(struct op *o)
{
    struct dt_str text = {0};
    dt_base64_encode((const uint8_t *)o->body, o->len, &text);
    free(o->body);
    o->body = NULL;
    json_t *v = text.failed ? NULL : json_stringn_nocheck(text.s ? text.s : "", text.len);
    dt_str_done(&text);
    return v && json_object_set_new(o->args, "bundle", v) == 0 ? 0 : DT_E_NOMEM;
}

static char *op_bytes(const json_t *bundle, size_t *ret_len)
{
    size_t n = json_string_length(bundle);
    char *bytes = dt_malloc(dt_base64_room(n) + 1);
    long len = bytes ? dt_base64_decode(json_string_value(bundle), n, (uint8_t *)bytes) : -1;
    if (len < 0) {
        free(bytes);
        return NULL;
    }
    *ret_len = (size_t)len;
    return bytes;
}

static void op_work(struct dtd_async *a)
{
    struct op *o = (struct op *)a;
    json_t *doc = NULL;
    if (o->body && op_take_body(o) < 0) {
        o->rc = dt_err_set(&o->err, DT_E_NOMEM, "out of memory");
        return;
    }
    uv_mutex_lock(&a->s->cache_lock);
    dtd_hits_flush(a->s->hits);
    o->rc = dtd_cache_op(a->s->cache, o->name, o->args, &doc, &o->err);
    uv_mutex_unlock(&a->s->cache_lock);
    if (o->rc < 0)
        return;
    const json_t *bundle = json_object_get(doc, "bundle");
    o->text = bundle ? op_bytes(bundle, &o->len) : dt_json_dumps(doc, JSON_COMPACT);
    if (o->text && !bundle)
        o->len = strlen(o->text);
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
    dtd_reply_take(a->req, 200, strcmp(o->name, "export") ? "application/json" : "application/zstd", NULL, o->text,
                   o->len);
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

/* One member: a text where the name says so, else a number if it is one. `signature` may come several times: a list. */
static int api_cache_put(json_t *args, const char *name, const char *value)
{
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    bool number = *value && !*end && !errno && strcmp(name, "device") && strcmp(name, "require");
    json_t *v = number ? json_integer(n) : json_string(value), *was = json_object_get(args, name), *list;
    if (!was || strcmp(name, "signature"))
        return json_object_set_new(args, name, v);
    if (json_is_array(was))
        return json_array_append_new(was, v);
    if (!v || !(list = json_pack("[O, o]", was, v)))
        return -1;
    return json_object_set_new(args, name, list);
}

/* The query's members into args. `allowed`: names between blanks. */
static int api_cache_read_query(const char *query, const char *allowed, json_t *args, struct dt_err *e)
{
    char name[32], value[192], padded[40];
    int q;
    for (const char *at = query; (q = dtd_query_next(&at, name, sizeof name, value, sizeof value));) {
        snprintf(padded, sizeof padded, " %s ", name);
        if (q < 0 || !strstr(allowed, padded))
            return dt_err_set(e, DT_E_USAGE,
                              *allowed == ' ' && allowed[1] ? "the query may hold%sonly" : "there is no query here%.0s",
                              allowed);
        long failed = dt_alloc_failed();
        if (api_cache_put(args, name, value) < 0)
            return dt_alloc_failed() != failed ? dt_err_set(e, DT_E_NOMEM, "out of memory")
                                               : dt_err_set(e, DT_E_USAGE, "the query is no UTF-8 text");
    }
    return 0;
}

/* What the configuration says of imports; the query can ask for less and not for more. */
static int import_args(const struct dtd_config *c, json_t *args, struct dt_err *e)
{
    const char *asked = json_string_value(json_object_get(args, "require"));
    const json_t *age = json_object_get(args, "max_age"), *bytes = json_object_get(args, "max_bytes");
    const json_int_t days = (json_int_t)c->import_max_days * 86400, most = (json_int_t)c->import_max_mb << 20;
    bool ok = true, one = c->require_signer && strcmp(c->require_signer, "any") != 0;
    if (one && asked && strcmp(asked, c->require_signer) != 0)
        return dt_err_set(e, DT_E_USAGE, "require: this service takes what %s signed, and nothing else",
                          c->require_signer);
    if (c->signers)
        ok = json_object_set_new(args, "signers", json_string(c->signers)) == 0;
    if (one)
        ok = ok && json_object_set_new(args, "require", json_string(c->require_signer)) == 0;
    if (c->require_signer)
        ok = ok && json_object_set_new(args, "require_any", json_true()) == 0;
    if (days && (!age || json_integer_value(age) > days))
        ok = ok && json_object_set_new(args, "max_age", json_integer(days)) == 0;
    if (!bytes || json_integer_value(bytes) > most || !json_integer_value(bytes))
        ok = ok && json_object_set_new(args, "max_bytes", json_integer(most)) == 0;
    return ok ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
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
    if (!e.num && !strcmp(name, "import"))
        import_args(&s->cfg, args, &e);
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
void api_cache_export(struct dtd_service *s, struct dtd_req *r)
{
    api_cache_start(s, r, "export", " signature device newer_than used_within min_hits ", false);
}
void api_cache_import(struct dtd_service *s, struct dtd_req *r)
{
    api_cache_start(s, r, "import", " require max_age max_bytes ", true);
}
void api_cache_nearest(struct dtd_service *s, struct dtd_req *r) { api_cache_start(s, r, "nearest", " want ", false); }
