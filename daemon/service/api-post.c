/* POST /v1/jobs: a graph comes in; the document goes out at once when the cache has it, else a job.
 *
 * On a pool thread: parse and check the document (JSON only: kernels are the worker's business), digest it, look under
 * the digest for a signature and under the signature for the document, put the caller's names back. Back on the loop:
 * 200 with the document, or 202 with a job, shared by everybody who posts the same graph with the same options
 * meanwhile. Graphs that cannot be parsed are refused here, with the same problem document that the worker would give.
 *
 * The look-up needs the architecture, device key and toolchain of the worker for the device (its first answer brings
 * them); before that, and for want=run and want=explain, there is none: the worker looks itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "cache/cache.h"
#include "daemon/shared/shared.h"
#include "daemon/service/service.h"
#include "graph/graph.h"

struct post {
    struct dtd_async a; /* first */
    char want[16], device[80];
    struct dtd_options opt;
    unsigned uid;
    bool known;
    char arch[16], key[192], toolchain[256];
    char *body;
    size_t len;
    /* results */
    int rc;
    struct dt_err err;
    char share[DT_SHA256_TEXT], digest[DT_SHA256_TEXT], signature[DT_SHA256_TEXT];
    char *document; /* cache hit */
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
    dt_free_ char *text = json_dumps(graph, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text || dt_sha256_init(&h) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    dt_sha256_addstr(&h, text);
    dt_sha256_addstr(&h, want);
    dt_sha256_addstr(&h, device);
    dt_sha256_addstr(&h, options);
    dt_sha256_final(&h, share);
    return 0;
}

static void post_work(struct dtd_async *a)
{
    struct post *p = (struct post *)a;
    struct dt_graph *g = NULL;
    bool cached = false;
    const char *verb = verb_of(p->want, &cached);
    p->rc = dt_graph_parse(p->body, p->len, &g, &p->err);
    if (p->rc < 0)
        return;
    json_t *oj = dtd_options_to_json(&p->opt);
    dt_free_ char *options = oj ? json_dumps(oj, JSON_COMPACT | JSON_SORT_KEYS) : NULL, *shared = NULL;
    json_decref(oj);
    char limit[40] = ""; /* part of the key: a post does not join a job with a shorter time limit */
    if (p->opt.timeout > 0)
        snprintf(limit, sizeof limit, " timeout=%.17g", p->opt.timeout);
    if (options && asprintf(&shared, "%s%s", options, limit) < 0)
        shared = NULL;
    p->rc = shared ? dtd_share_key(g->json, p->want, p->device, shared, p->share, &p->err)
                   : dt_err_set(&p->err, DT_E_NOMEM, "out of memory");
    if (p->rc >= 0 && cached && p->known && !g->is_plan) {
        struct dtd_lookup l = {p->want, p->arch, p->key, p->toolchain, &p->opt};
        json_t *doc = NULL;
        uv_mutex_lock(&a->s->cache_lock);
        int r = dtd_lookup(a->s->cache, &l, g, p->digest, p->signature, &doc);
        if (r == 1)
            cache_own(a->s->cache, p->signature, p->uid);
        uv_mutex_unlock(&a->s->cache_lock);
        if (r == 1) {
            p->document = json_dumps(doc, JSON_COMPACT);
            json_decref(doc);
        }
    }
    if (p->rc >= 0 && !p->document) {
        struct dt_str s = {0};
        dt_str_addf(&s, "{\"verb\":\"%s\",\"options\":%s,\"graph\":", verb, options);
        dt_str_addn(&s, p->body, p->len);
        dt_str_addc(&s, '}');
        p->nrequest = s.len;
        p->request = dt_str_take(&s);
        if (!p->request)
            p->rc = dt_err_set(&p->err, DT_E_NOMEM, "out of memory");
    }
    dt_graph_free(g);
}

static void post_after(struct dtd_async *a)
{
    struct post *p = (struct post *)a;
    struct dtd_service *s = a->s;
    struct dtd_job *j = NULL;
    if (!a->req)
        return;
    if (p->rc < 0) {
        dtd_reply_problem(a->req, 0, NULL, &p->err);
        return;
    }
    if (p->document) {
        struct dt_str h = {0};
        dt_str_addf(&h, "Dovetail-Cache: hit\r\nDovetail-Signature: %s\r\nDovetail-Digest: %s\r\n", p->signature,
                    p->digest);
        s->cache_hits++;
        size_t n = strlen(p->document);
        dtd_reply_take(a->req, 200, "application/json", h.s, p->document, n);
        p->document = NULL;
        dt_str_done(&h);
        return;
    }
    if (s->draining) {
        dtd_reply_err(a->req, DT_E_BUSY, "the service stops");
        return;
    }
    s->cache_misses++;
    char *request = p->request;
    p->request = NULL;
    int r = dtd_jobs_post(&s->jobs, p->share, p->want, p->device, p->opt.timeout, request, p->nrequest, &j, &p->err);
    if (r < 0) {
        dtd_reply_problem(a->req, 0, "Retry-After: 5\r\n", &p->err);
        return;
    }
    if (!r)
        dt_log(DT_LOG_INFO, "job %s: %s on %s, queued", j->id, j->want, j->device);
    dtd_job_own(j, dtd_peer_uid(a->req), true);
    struct dt_str h = {0};
    dt_str_addf(&h, "Location: /v1/jobs/%s\r\nDovetail-Cache: miss\r\n", j->id);
    dtd_reply_json(a->req, 202, h.s, dtd_job_json(j));
    dt_str_done(&h);
    dtd_pool_kick(s->pool);
}

static void post_release(struct dtd_async *a)
{
    struct post *p = (struct post *)a;
    dtd_options_done(&p->opt);
    dt_err_done(&p->err);
    free(p->body);
    free(p->document);
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

void api_post_job(struct dtd_service *s, struct dtd_req *r)
{
    struct post *p = dt_calloc(1, sizeof *p);
    struct dt_err e = {0};
    if (!p || api_post_read_query(p, s, r->query, &e) < 0) {
        if (!p)
            dt_err_set(&e, DT_E_NOMEM, "out of memory");
        else
            post_release(&p->a);
        dtd_reply_problem(r, 0, NULL, &e);
        return;
    }
    const struct dtd_device *d = dtd_pool_device(s->pool, p->device);
    if (d) {
        p->known = true;
        snprintf(p->arch, sizeof p->arch, "%s", d->arch);
        snprintf(p->key, sizeof p->key, "%s", d->key);
        snprintf(p->toolchain, sizeof p->toolchain, "%s", d->toolchain);
    }
    p->uid = dtd_peer_uid(r);
    p->body = r->body;
    p->len = r->body_len;
    r->body = NULL;
    p->a = (struct dtd_async){.s = s, .req = r, .work = post_work, .after = post_after, .release = post_release};
    dtd_async_start(&p->a);
}
