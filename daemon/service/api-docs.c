/* GET /v1/plans/SIGNATURE, /v1/analyses/SIGNATURE, /v1/cache: documents and figures of the cache. Documents come with
 * canonical names (b0, l0, m0 …), since a signature does not say which names the poster used.
 *
 * A document that was given out before is in memory (replies.h) and goes out at once if the store has not changed
 * since; else a pool thread looks whether the newest row is still the same, and reads and writes it anew if not.
 *
 * Tags: a reply has one ETag for each encoding, made of the row's checksum and of what was asked for. If-None-Match is
 * held against the tag of the encoding that would be sent.
 *
 * A user who is no admin finds the documents of graphs that they posted, and no others: who asks is part of the key
 * under which memory has a reply.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/alloc.h"
#include "cache/cache.h"
#include "daemon/shared/shared.h"
#include "daemon/service/hits.h"
#include "daemon/service/service.h"
#include "report/html.h"
#include "report/report.h"

struct docs {
    struct dtd_async a;                                       /* first */
    const char *want;                                         /* NULL: figures */
    enum docs_form { FORM_JSON, FORM_HTML, FORM_TRACE } form; /* the document, a plan's report, its timelines */
    char signature[DT_SHA256_TEXT], device[192], key[DT_SHA256_TEXT];
    uint64_t version; /* of the store, before anything was looked up */
    struct dtd_reply *reply;
    unsigned uid;
    bool admin;
    int rc;
    struct dt_err err;
    char *text;
};

/* ---- giving out a finished reply --------------------------------------------------------------------------------- */
static void docs_sent(void *reply) { dtd_reply_unref(reply); }

/* With or without compression, as the client takes it. */
static struct dtd_shared docs_shared(const struct dtd_req *r, struct dtd_reply *f, bool *ret_zstd)
{
    bool z = *ret_zstd = f->of.zstd && dtd_takes_encoding(dtd_req_header(r, "accept-encoding"), "zstd");
    return (struct dtd_shared){.body = z ? f->of.zstd : f->of.body,
                               .len = z ? f->of.zstd_len : f->of.len,
                               .file = z ? -1 : f->file,
                               .release = docs_sent,
                               .owner = dtd_reply_ref(f)};
}

void dtd_reply_finished(struct dtd_service *s, struct dtd_req *r, struct dtd_reply *f)
{
    char h[480], etag[64];
    bool z;
    struct dtd_shared what = docs_shared(r, f, &z);
    snprintf(etag, sizeof etag, "\"%s%s\"", f->tag, z ? "-zstd" : "");
    snprintf(h, sizeof h, "%sVary: Accept-Encoding\r\nCache-Control: private, no-cache\r\nETag: %s\r\n%s",
             z ? "Content-Encoding: zstd\r\n" : "", etag,
             strncmp(f->type, "text/html", 9) ? "" : "Content-Security-Policy: " HTML_POLICY "\r\n");
    if (dtd_tag_matches(dtd_req_header(r, "if-none-match"), etag)) {
        s->not_modified++;
        what.body = NULL;
        what.len = 0;
        what.file = -1;
        dtd_reply_shared(r, 304, NULL, h, &what);
    } else {
        dtd_reply_shared(r, 200, f->type, h, &what);
    }
}

void dtd_reply_hit(struct dtd_req *r, struct dtd_reply *f, bool stale)
{
    char h[400];
    bool z;
    struct dtd_shared what = docs_shared(r, f, &z);
    struct dtd_head *head = &f->head[z];
    if (stale || !head->n)
        snprintf(h, sizeof h,
                 "Dovetail-Cache: %s\r\nDovetail-Signature: %s\r\nDovetail-Digest: %s\r\n%sVary: Accept-Encoding\r\n",
                 stale ? "stale" : "hit", f->of.signature, f->of.digest, z ? "Content-Encoding: zstd\r\n" : "");
    if (!stale && !head->n)
        dtd_head_make(head, 200, f->type, h, what.len);
    what.head = stale || !head->n ? NULL : head;
    dtd_reply_shared(r, 200, f->type, what.head ? NULL : h, &what);
}

/* ---- finding it -------------------------------------------------------------------------------------------------- */
static const char *docs_type(const struct docs *d)
{
    return d->form == FORM_HTML ? "text/html; charset=utf-8" : DTD_REPLY_TYPE;
}

static int docs_key(struct docs *d)
{
    static const char *const forms[] = {"json", "html", "trace"};
    char user[24] = "";
    if (!d->admin)
        snprintf(user, sizeof user, "%u", d->uid);
    const char *const part[] = {"get " DOVETAIL_VERSION, d->want, forms[d->form], d->signature, d->device, user};
    struct dt_sha256 h;
    int r = dt_sha256_init(&h);
    for (size_t i = 0; r >= 0 && i < sizeof part / sizeof *part; i++)
        dt_sha256_addstr(&h, part[i]);
    if (r >= 0)
        dt_sha256_final(&h, d->key);
    return r;
}

static int docs_tag(struct docs *d, const char *generation)
{
    char text[DT_SHA256_TEXT];
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0)
        return DT_E_NOMEM;
    dt_sha256_addstr(&h, d->key);
    dt_sha256_addstr(&h, generation);
    dt_sha256_final(&h, text);
    snprintf(d->reply->tag, sizeof d->reply->tag, "%.32s", text + 7);
    return 0;
}

/* Is the reply that memory has still that of the newest row? */
static bool docs_sound(struct docs *d, struct cache *c)
{
    char generation[DT_SHA256_TEXT];
    int64_t id;
    return d->reply && c &&
           cache_row_newest(c, d->want, d->signature, *d->device ? d->device : NULL, &id, generation) &&
           id == d->reply->of.entry && !strcmp(generation, d->reply->of.generation) &&
           cache_row_sound(c, id, generation);
}

/* The newest document, and its row: by the connection that does not wait; if that has none, by the one that removes
 * what is damaged. */
static int docs_read(struct docs *d, struct cache_reply *of, json_t **ret)
{
    struct dtd_service *s = d->a.s;
    const char *device = *d->device ? d->device : NULL;
    struct cache *c = dtd_hits_read(s->hits);
    int r = c ? cache_find(c, d->want, d->signature, device, ret, NULL) : 0;
    if (r == 1)
        cache_last_row(c, &of->entry, of->generation);
    dtd_hits_read_end(s->hits);
    if (r == 1)
        return 1;
    uv_mutex_lock(&s->cache_lock);
    r = s->cache ? cache_find(s->cache, d->want, d->signature, device, ret, &d->err) : 0;
    if (r == 1)
        cache_last_row(s->cache, &of->entry, of->generation);
    uv_mutex_unlock(&s->cache_lock);
    return r;
}

/* A plan as a page or a trace, with the analysis of the same graph where there is one. Names are canonical in both, and
 * the kernels' text may be that of any user who posted an equal graph. */
static char *docs_picture(struct docs *d, const json_t *plan)
{
    struct dtd_service *s = d->a.s;
    json_t *analysis = NULL;
    struct cache *c = dtd_hits_read(s->hits);
    if (c && cache_find(c, "analysis", d->signature, NULL, &analysis, NULL) != 1)
        analysis = NULL;
    dtd_hits_read_end(s->hits);
    struct rep_source of = {.plan = plan, .analysis = analysis, .foreign = true};
    char *text = d->form == FORM_HTML ? rep_html(&of) : rep_trace(&of, &d->err);
    json_decref(analysis);
    return text;
}

static int docs_make(struct docs *d, struct cache_reply *of, const json_t *doc)
{
    of->body = d->form == FORM_JSON ? dt_json_dumps(doc, JSON_COMPACT) : docs_picture(d, doc);
    if (!of->body)
        return d->err.num ? d->err.num : dt_err_set(&d->err, DT_E_NOMEM, "out of memory");
    of->len = strlen(of->body);
    char generation[DT_SHA256_TEXT];
    memcpy(generation, of->generation, sizeof generation);
    memcpy(of->signature, d->signature, sizeof of->signature);
    d->reply = dtd_reply_new(of->len > dtd_replies_limit(d->a.s->replies) ? "" : d->key, docs_type(d), of);
    if (!d->reply || docs_tag(d, generation) < 0)
        return dt_err_set(&d->err, DT_E_NOMEM, "out of memory");
    return 1;
}

/* May who asks have it? */
static bool docs_theirs(struct docs *d)
{
    struct dtd_service *s = d->a.s;
    if (d->admin)
        return true;
    uv_mutex_lock(&s->cache_lock);
    dtd_hits_flush(s->hits); /* who posted may stand there only */
    bool theirs = s->cache && cache_owned(s->cache, d->signature, d->uid);
    uv_mutex_unlock(&s->cache_lock);
    return theirs;
}

static void docs_document(struct docs *d)
{
    struct dtd_service *s = d->a.s;
    struct cache_reply of = {0};
    json_t *doc = NULL;
    struct cache *c = d->reply ? dtd_hits_read(s->hits) : NULL;
    bool sound = docs_sound(d, c);
    if (d->reply)
        dtd_hits_read_end(s->hits);
    d->rc = 1;
    if (sound)
        return;
    dtd_reply_unref(d->reply);
    d->reply = NULL;
    if (!docs_theirs(d)) {
        d->rc = 0; /* for this user there is none */
        return;
    }
    d->rc = docs_read(d, &of, &doc);
    if (d->rc == 1)
        d->rc = docs_make(d, &of, doc);
    json_decref(doc);
    cache_reply_done(&of);
}

static void docs_figures(struct docs *d)
{
    struct dtd_service *s = d->a.s;
    uv_mutex_lock(&s->cache_lock);
    dtd_hits_flush(s->hits);
    json_t *doc = s->cache ? cache_stats(s->cache) : NULL;
    uv_mutex_unlock(&s->cache_lock);
    d->rc = doc ? 1 : dt_err_set(&d->err, DT_E_CACHE, "the cache cannot be read");
    d->text = doc ? dt_json_dumps(doc, JSON_COMPACT) : NULL;
    if (doc && !d->text)
        d->rc = dt_err_set(&d->err, DT_E_NOMEM, "out of memory");
    json_decref(doc);
}

static void docs_work(struct dtd_async *a)
{
    struct docs *d = (struct docs *)a;
    if (d->want)
        docs_document(d);
    else
        docs_figures(d);
}

static void docs_after(struct dtd_async *a)
{
    struct docs *d = (struct docs *)a;
    struct dtd_service *s = a->s;
    if (d->want && d->rc == 1 && *d->reply->key)
        dtd_replies_put(s->replies, d->reply, d->version);
    else if (d->want)
        dtd_replies_drop(s->replies, d->key);
    if (!a->req)
        return;
    if (d->rc < 0) {
        dtd_reply_problem(a->req, 0, NULL, &d->err);
    } else if (!d->rc) {
        dtd_reply_err(a->req, DT_E_NOT_FOUND, "there is no %s with this signature%s", d->want,
                      *d->device ? " and device" : "");
    } else if (d->want) {
        dtd_reply_finished(s, a->req, d->reply);
    } else {
        dtd_reply_take(a->req, 200, "application/json", NULL, d->text, strlen(d->text));
        d->text = NULL;
    }
}

static void docs_release(struct dtd_async *a)
{
    struct docs *d = (struct docs *)a;
    dtd_reply_unref(d->reply);
    dt_err_done(&d->err);
    free(d->text);
    free(d);
}

static int docs_query(struct docs *d, const struct dtd_req *r, struct dt_err *e)
{
    char name[32], value[192];
    int q;
    if (!dt_sha256_ok(r->param[0]))
        return dt_err_set(e, DT_E_NOT_FOUND, "a signature is sha256: and 64 hexadecimal digits");
    for (const char *at = r->query; (q = dtd_query_next(&at, name, sizeof name, value, sizeof value));) {
        if (q < 0 || strcmp(name, "device"))
            return dt_err_set(e, DT_E_USAGE, "the query may hold device=… only");
        snprintf(d->device, sizeof d->device, "%s", value);
    }
    if (!strcmp(d->device, "soft"))
        snprintf(d->device, sizeof d->device, "%s", "soft:h200");
    snprintf(d->signature, sizeof d->signature, "%s", r->param[0]);
    return docs_key(d) < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

static void api_docs_start(struct dtd_service *s, struct dtd_req *r, const char *want, enum docs_form form)
{
    struct docs *d = dt_calloc(1, sizeof *d);
    struct dt_err e = {0};
    bool sound = false;
    int rc = d ? 0 : dt_err_set(&e, DT_E_NOMEM, "out of memory");
    if (rc >= 0) {
        d->a = (struct dtd_async){.s = s, .req = r, .work = docs_work, .after = docs_after, .release = docs_release};
        d->want = want;
        d->form = form;
        d->uid = dtd_peer_uid(r);
        d->admin = dtd_peer_admin(s, r);
        rc = want ? docs_query(d, r, &e) : 0;
    }
    if (rc < 0) {
        free(d);
        dtd_reply_problem(r, 0, NULL, &e);
        return;
    }
    if (want) {
        d->version = dtd_hits_version(s->hits);
        d->reply = dtd_replies_get(s->replies, d->key, d->version, &sound);
    }
    if (sound) {
        dtd_reply_finished(s, r, d->reply);
        docs_release(&d->a);
    } else {
        dtd_async_start(&d->a);
    }
}

void api_plan(struct dtd_service *s, struct dtd_req *r) { api_docs_start(s, r, "plan", FORM_JSON); }
void api_report(struct dtd_service *s, struct dtd_req *r) { api_docs_start(s, r, "plan", FORM_HTML); }
void api_trace(struct dtd_service *s, struct dtd_req *r) { api_docs_start(s, r, "plan", FORM_TRACE); }
void api_analysis(struct dtd_service *s, struct dtd_req *r) { api_docs_start(s, r, "analysis", FORM_JSON); }
void api_cache(struct dtd_service *s, struct dtd_req *r) { api_docs_start(s, r, NULL, FORM_JSON); }
