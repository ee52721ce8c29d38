/* POST /v1/jobs: a graph comes in; the document goes out at once when the cache has it, else a job.
 *
 * First by the exact body (replies.h): hashed on the loop's thread if it is short, found in memory, and sent if the
 * store has not changed since. No JSON is read, nothing is written, no thread is waited for. A body that has a reply
 * was within the limits of json-scan.c when it was first posted, so a short one is held against them only if memory has
 * no reply. If the store has changed, or memory has no such reply, a pool thread looks: is the reply's row still there
 * and sound? Does the store have the reply? This thread reads by a connection that never waits for a writer.
 *
 * Then by the graph's signature: parse and check the document (JSON only: kernels are the worker's business), digest
 * it, look under the digest for a signature and under the signature for the document, put the caller's names back. What
 * comes out is kept as the finished reply to this body. A document of an older toolchain that is still right goes out
 * as stale, and is not kept; the graph is queued to be planned again (stale.c).
 *
 * Back on the loop: 200 with the document, or 202 with a job, shared by everybody who posts the same graph with the
 * same options meanwhile (accept.c). Graphs that cannot be parsed are refused here, with the same problem document that
 * the worker would give.
 *
 * The look-up needs what the worker for the device says of itself (its first answer brings it); before that, and for
 * want=run and want=explain, there is none: the worker looks itself.
 *
 * Who posts is part of the options where users share nothing (share = uid), and for want=explain, which compares with
 * stored entries: a user's own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "cache/cache.h"
#include "daemon/shared/shared.h"
#include "daemon/service/hits.h"
#include "daemon/service/night.h"
#include "daemon/service/service.h"
#include "graph/graph.h"

struct post {
    struct dtd_async a; /* first */
    char want[16], device[80];
    struct dtd_options opt;
    unsigned uid;
    bool known, cached;
    struct dtd_device dev; /* known; its JSON belongs to the pool */
    char *body;
    size_t len;
    char key[DT_SHA256_TEXT]; /* of the reply, "" */
    uint64_t version;         /* of the store, before anything was looked up */
    /* results */
    int rc;
    struct dt_err err;
    char share[DT_SHA256_TEXT], digest[DT_SHA256_TEXT], signature[DT_SHA256_TEXT];
    struct dtd_reply *reply; /* cache hit; before `work` one that may be out of date */
    enum dtd_hit_from from;
    bool stale;            /* the reply is of an older toolchain: the request is made, too */
    struct dtd_keep *keep; /* for the job */
    const char *missed;    /* the factor of the key, NULL: not looked for */
    char graph[64];        /* its name */
    char *request;
    size_t nrequest;
};

static const struct {
    const char *want, *verb;
    bool cached;
} wants[] = {
    {"plan", "optimize", true},
    {"analysis", "analyze", true},
    {"run", "run", false},
    {"explain", "explain", false},
};

static const char *verb_of(const char *want, bool *ret_cached)
{
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++)
        if (!strcmp(wants[i].want, want)) {
            *ret_cached = wants[i].cached;
            return wants[i].verb;
        }
    return NULL;
}

/* SHA-256 over everything that makes two posts the same job: document (members in any order), want, device, options. */
int dtd_share_key(const json_t *graph, const char *want, const char *device, const char *options,
                  char share[DT_SHA256_TEXT], struct dt_err *e)
{
    struct dt_sha256 h;
    dt_free_ char *text = dt_json_dumps(graph, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text || dt_sha256_init(&h) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    dt_sha256_addstr(&h, text);
    dt_sha256_addstr(&h, want);
    dt_sha256_addstr(&h, device);
    dt_sha256_addstr(&h, options);
    dt_sha256_final(&h, share);
    return 0;
}

/* Who may have the reply: see `share` in docs/CONTRACT.md. */
static void post_user(const struct post *p, char *out, size_t n)
{
    out[0] = 0;
    if (p->opt.apart)
        snprintf(out, n, "%u", p->opt.uid);
}

/* The key of the reply; "" where there can be none. */
static void post_key(struct post *p)
{
    char user[24];
    dt_free_ char *options = p->cached && p->known && !*p->key ? dtd_options_text(&p->opt) : NULL;
    post_user(p, user, sizeof user);
    struct dtd_asked q = {p->body, p->len, p->want, options, user, &p->dev};
    if (options && dtd_reply_key(&q, p->key) < 0)
        p->key[0] = 0;
}

/* By the exact body, on a pool thread. */
static bool post_by_body(struct post *p)
{
    struct dtd_service *s = p->a.s;
    struct dtd_reply *r = p->reply;
    struct cache_reply of = {0};
    bool sound = false;
    p->reply = NULL;
    post_key(p);
    if (!*p->key)
        return false;
    if (!r)
        r = dtd_replies_get(s->replies, p->key, p->version, &sound);
    struct cache *c = sound ? NULL : dtd_hits_read(s->hits);
    if (r && c)
        sound = cache_row_sound(c, r->of.entry, r->of.generation);
    bool stored = !sound && c && cache_reply_get(c, p->key, &of);
    if (c || !sound)
        dtd_hits_read_end(s->hits);
    p->from = stored ? DTD_HIT_STORE : DTD_HIT_MEMORY;
    if (stored && (p->reply = dtd_reply_new(p->key, DTD_REPLY_TYPE, &of)))
        sound = true;
    else if (sound)
        p->reply = dtd_reply_ref(r);
    else if (r)
        dtd_replies_drop(s->replies, p->key);
    dtd_reply_unref(r);
    return p->reply != NULL;
}

/* By the graph's signature. 1 found: the reply's row and text are in `of`. */
static int post_find(struct post *p, struct dt_graph *g, struct cache_reply *of)
{
    struct dtd_service *s = p->a.s;
    struct dtd_lookup l = {p->want, p->dev.arch, p->dev.key, p->dev.toolchain, &p->opt};
    struct cache *c = dtd_hits_read(s->hits);
    json_t *doc = NULL;
    int r = c ? dtd_lookup(c, &l, g, of->digest, of->signature, &doc) : 0;
    struct cache_key k = {p->want, of->signature, p->dev.key, p->dev.toolchain, ""};
    if (r == 0 && *of->signature) {
        r = dtd_lookup_stale(c, &l, p->dev.sound_since, g, of->digest, of->signature, &doc);
        p->stale = r == 1;
    }
    if (r == 1)
        cache_last_row(c, &of->entry, of->generation);
    else if (c)
        p->missed = cache_missed(c, &k);
    dtd_hits_read_end(s->hits);
    memcpy(p->digest, of->digest, sizeof p->digest);
    if (r != 1)
        return 0;
    of->body = dt_json_dumps(doc, JSON_COMPACT);
    of->len = of->body ? strlen(of->body) : 0;
    json_decref(doc);
    return of->body != NULL;
}

static void post_by_signature(struct post *p, struct dt_graph *g)
{
    struct cache_reply of = {0};
    if (post_find(p, g, &of)) {
        if (of.len > dtd_replies_limit(p->a.s->replies))
            p->key[0] = 0;                                                     /* too long to keep */
        p->reply = dtd_reply_new(p->stale ? "" : p->key, DTD_REPLY_TYPE, &of); /* what is stale is not kept */
        p->from = DTD_HIT_SIGNATURE;
    }
    cache_reply_done(&of);
}

/* What the finished job needs to keep its document as the reply to this body. */
static struct dtd_keep *post_keep(const struct post *p)
{
    dt_free_ char *policy = *p->key ? dtd_policy(&p->opt, p->want) : NULL;
    struct dtd_keep *k = policy ? dt_calloc(1, sizeof *k + strlen(policy) + 1) : NULL;
    if (k && dtd_device_key(&p->dev, k->device) < 0) {
        free(k);
        return NULL;
    }
    if (k) {
        snprintf(k->key, sizeof k->key, "%s", p->key);
        memcpy(k->policy, policy, strlen(policy) + 1);
    }
    return k;
}

static void post_share(struct post *p, const struct dt_graph *g, const char *options)
{
    char limit[40] = ""; /* part of the key: a post does not join a job with a shorter time limit */
    dt_free_ char *shared = NULL;
    if (p->opt.timeout > 0)
        snprintf(limit, sizeof limit, " timeout=%.17g", p->opt.timeout);
    if (options && asprintf(&shared, "%s%s", options, limit) < 0)
        shared = NULL;
    p->rc = shared ? dtd_share_key(g->json, p->want, p->device, shared, p->share, &p->err)
                   : dt_err_set(&p->err, DT_E_NOMEM, "out of memory");
}

static void post_work(struct dtd_async *a)
{
    struct post *p = (struct post *)a;
    struct dt_graph *g = NULL;
    bool cached = false;
    const char *verb = verb_of(p->want, &cached);
    if (post_by_body(p))
        return;
    p->rc = dt_graph_parse(p->body, p->len, &g, &p->err);
    if (p->rc < 0)
        return;
    snprintf(p->graph, sizeof p->graph, "%s", dt_json_text(g->json, "name"));
    if (cached && p->known && !g->is_plan)
        post_by_signature(p, g);
    bool made = p->reply && !p->stale;
    json_t *oj = made ? NULL : dtd_options_to_json(&p->opt);
    dt_free_ char *options = oj ? dt_json_dumps(oj, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(oj);
    if (!made)
        post_share(p, g, options);
    if (p->rc >= 0 && !made) {
        struct dt_str s = {0};
        dt_str_addf(&s, "{\"verb\":\"%s\",%s\"options\":%s,\"graph\":", verb, p->stale ? "\"afresh\":true," : "",
                    options);
        dt_str_addn(&s, p->body, p->len);
        dt_str_addc(&s, '}');
        p->nrequest = s.len;
        p->request = dt_str_take(&s);
        if (!p->request)
            p->rc = dt_err_set(&p->err, DT_E_NOMEM, "out of memory");
        p->keep = post_keep(p);
    }
    dt_graph_free(g);
}

/* 200 with a finished reply. On the loop's thread. */
static void post_hit(struct dtd_service *s, struct dtd_req *r, struct dtd_reply *f, const char *want,
                     enum dtd_hit_from from, unsigned uid, bool stale)
{
    s->cache_hits++;
    s->hits_from[from]++;
    dtd_hits_note(s->hits, f, want, uid, from == DTD_HIT_SIGNATURE && *f->key, true);
    dtd_reply_hit(r, f, stale);
}

/* What was served is stale: plan it again. */
static void post_again(struct post *p)
{
    struct dtd_post post = {p->uid, true, p->share, p->want, p->device, p->opt.timeout, p->request, p->nrequest};
    p->request = NULL;
    dtd_requeue(p->a.s, &post, p->digest, p->graph, p->keep);
    p->keep = NULL;
}

static void post_after(struct dtd_async *a)
{
    struct post *p = (struct post *)a;
    struct dtd_service *s = a->s;
    if (p->reply && *p->reply->key)
        dtd_replies_put(s->replies, p->reply, p->version);
    if (!a->req)
        return;
    if (p->rc < 0) {
        dtd_reply_problem(a->req, 0, NULL, &p->err);
        return;
    }
    if (p->reply) {
        post_hit(s, a->req, p->reply, p->want, p->from, p->uid, p->stale);
        if (p->stale)
            post_again(p);
        return;
    }
    if (dtd_closed(s, a->req))
        return;
    s->cache_misses++;
    dtd_missed(&s->metrics, p->missed);
    char *request = p->request;
    p->request = NULL;
    struct dtd_post post = {p->uid, true, p->share, p->want, p->device, p->opt.timeout, request, p->nrequest};
    struct dtd_job *j = dtd_accept(s, a->req, &post);
    if (j) {
        snprintf(j->graph, sizeof j->graph, "%s", p->graph);
        dtd_log_job(DT_LOG_INFO, j, p->digest, "%s on %s, queued", j->want, j->device);
        j->keep = p->keep;
        p->keep = NULL;
        dtd_requeue_look();
        dtd_night_look();
    }
    dtd_pool_kick(s->pool);
}

static void post_release(struct dtd_async *a)
{
    struct post *p = (struct post *)a;
    dtd_options_done(&p->opt);
    dt_err_done(&p->err);
    dtd_reply_unref(p->reply);
    free(p->keep);
    free(p->body);
    free(p->request);
    free(p);
}

static int api_post_read_query(struct post *p, struct dtd_service *s, const char *query, struct dt_err *e)
{
    char name[32], value[2048], device[80] = "";
    int q, r;
    bool cached;
    snprintf(p->want, sizeof p->want, "%s", "plan");
    snprintf(device, sizeof device, "%s", s->cfg.device);
    for (const char *at = query; (q = dtd_query_next(&at, name, sizeof name, value, sizeof value));) {
        if (q < 0)
            return dt_err_set(e, DT_E_USAGE, "the query is broken or too long");
        if (!strcmp(name, "want")) {
            if (!verb_of(value, &cached))
                return dt_err_set(e, DT_E_USAGE, "want is plan, analysis, run or explain");
            snprintf(p->want, sizeof p->want, "%s", value);
        } else if (!strcmp(name, "device")) {
            if (strlen(value) >= sizeof device)
                return dt_err_set(e, DT_E_USAGE, "the device must be auto, cuda[:N] or soft[:MODEL]");
            snprintf(device, sizeof device, "%s", value);
        } else if ((r = dtd_options_set(&p->opt, name, value, e))) {
            return r < 0 ? r : dt_err_set(e, DT_E_USAGE, "there is no option %s", name);
        }
    }
    return dtd_device_normal(*device ? device : s->cfg.device, p->device, sizeof p->device, e);
}

/* true: the reply was in memory and is sent. */
static bool post_at_once(struct post *p, struct dtd_service *s, struct dtd_req *r)
{
    bool sound = false;
    if (!p->cached || !p->known)
        return false;
    p->version = dtd_hits_version(s->hits);
    if (p->len > DTD_HASH_HERE)
        return false;
    post_key(p);
    p->reply = *p->key ? dtd_replies_get(s->replies, p->key, p->version, &sound) : NULL;
    if (!sound)
        return false;
    post_hit(s, r, p->reply, p->want, DTD_HIT_MEMORY, p->uid, false);
    return true;
}

void api_post_job(struct dtd_service *s, struct dtd_req *r)
{
    if (dtd_closed(s, r))
        return;
    struct post *p = dt_calloc(1, sizeof *p);
    struct dt_err e = {0};
    int rc = p ? 0 : dt_err_set(&e, DT_E_NOMEM, "out of memory");
    if (rc >= 0)
        rc = api_post_read_query(p, s, r->query, &e);
    if (rc < 0) {
        if (p)
            post_release(&p->a);
        dtd_reply_problem(r, 0, NULL, &e);
        return;
    }
    const struct dtd_device *d = dtd_pool_device(s->pool, p->device);
    verb_of(p->want, &p->cached);
    if (d) {
        p->known = true;
        p->dev = *d;
    }
    p->uid = p->opt.uid = dtd_peer_uid(r);
    p->opt.apart = s->cfg.share_uid;
    p->opt.shared = s->share && !s->cfg.share_uid && !p->opt.local;
    p->opt.own_rows = !strcmp(p->want, "explain") && !dtd_peer_admin(s, r);
    p->body = r->body;
    p->len = r->body_len;
    r->body = NULL;
    p->a = (struct dtd_async){.s = s, .req = r, .work = post_work, .after = post_after, .release = post_release};
    if (post_at_once(p, s, r) || !dtd_req_scan(r, p->body, p->len))
        post_release(&p->a);
    else
        dtd_async_start(&p->a);
}
