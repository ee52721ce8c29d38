/* GET /v1/jobs, GET and DELETE /v1/jobs/ID, GET /v1/jobs/ID/result. `?wait=SECONDS` holds the answer back until the job
 * has ended, the time is over, or the service stops; the answer is the job as it is then.
 *
 * A user sees the jobs that they posted; other ids are unknown to them, as ids are that were never given out.
 *
 * The result of a job that ended before a restart is not in memory. A plan or an analysis is found in the cache, under
 * the key that its worker had, and gets the names of the graph that was posted, which the cache has under its digest.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cache/cache.h"
#include "daemon/shared/shared.h"
#include "daemon/service/service.h"
#include "graph/graph.h"

#define WAIT_MAX 600.0

struct dtd_job *dtd_asked_job(struct dtd_service *s, struct dtd_req *r)
{
    struct dtd_job *j = dtd_jobs_find(&s->jobs, r->param[0]);
    if (j && !dtd_peer_sees(s, r, j))
        j = NULL;
    if (!j)
        dtd_reply_err(r, DT_E_NOT_FOUND, "there is no job %.60s (finished jobs are remembered for a while only)",
                      r->param[0]);
    return j;
}

void api_jobs(struct dtd_service *s, struct dtd_req *r)
{
    json_t *list = json_array();
    const unsigned uid = dtd_peer_uid(r);
    const bool admin = dtd_peer_admin(s, r);
    for (const struct dtd_job *j = s->jobs.head; j; j = j->next)
        if (admin || dtd_job_owned(j, uid))
            json_array_append_new(list, dtd_job_json(j));
    dtd_reply_json(r, 200, NULL, json_pack("{s:o}", "jobs", list));
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */
struct waiter {
    struct dtd_watch watch; /* first: the callback gets its address */
    struct dtd_service *s;
    struct dtd_req *r;
    uv_timer_t timer;
};

static void api_jobs_on_closed(uv_handle_t *h) { free(h->data); }

static void waiter_end(struct waiter *w)
{
    dtd_job_unwatch(&w->s->jobs, &w->watch);
    uv_close((uv_handle_t *)&w->timer, api_jobs_on_closed);
}

static void waiter_reply(struct waiter *w)
{
    struct dtd_req *r = w->r;
    json_t *o = dtd_job_json(w->watch.job);
    w->watch.job->seen |= w->watch.job->state == DTD_FAILED;
    waiter_end(w);
    r->gone = NULL;
    dtd_reply_json(r, 200, NULL, o);
}

static void api_jobs_on_event(struct dtd_watch *watch, struct dtd_job *j)
{
    struct waiter *w = (struct waiter *)watch;
    if (dtd_waited_enough(w->s, j))
        waiter_reply(w);
}

static void on_time(uv_timer_t *t) { waiter_reply(t->data); }

static void on_gone(struct dtd_req *r) { waiter_end(r->state); }

void api_job(struct dtd_service *s, struct dtd_req *r)
{
    char name[32], value[32], *end;
    double wait = 0;
    int q;
    for (const char *at = r->query; (q = dtd_query_next(&at, name, sizeof name, value, sizeof value));) {
        bool ok = q > 0 && !strcmp(name, "wait");
        if (ok) {
            wait = strtod(value, &end);
            ok = end != value && !*end && isfinite(wait) && wait >= 0;
        }
        if (!ok) {
            dtd_reply_err(r, DT_E_USAGE, "the query may hold wait=SECONDS only");
            return;
        }
    }
    struct dtd_job *j = dtd_asked_job(s, r);
    if (!j)
        return;
    j->seen |= j->state == DTD_FAILED; /* of a result, its state is not enough */
    struct waiter *w = wait > 0 && !dtd_state_final(j->state) ? dt_calloc(1, sizeof *w) : NULL;
    if (!w) {
        dtd_reply_json(r, 200, NULL, dtd_job_json(j));
        return;
    }
    w->watch.fn = api_jobs_on_event;
    w->s = s;
    w->r = r;
    uv_timer_init(s->loop, &w->timer);
    w->timer.data = w;
    uv_timer_start(&w->timer, on_time, (uint64_t)((wait < WAIT_MAX ? wait : WAIT_MAX) * 1000), 0);
    dtd_job_watch(j, &w->watch);
    r->state = w;
    r->gone = on_gone;
}

void api_cancel(struct dtd_service *s, struct dtd_req *r)
{
    struct dtd_job *j = dtd_asked_job(s, r);
    if (!j)
        return;
    bool admin = dtd_peer_admin(s, r);
    /* a user who joined another's job, by posting the same graph, can only leave it */
    if (!dtd_state_final(j->state) && (admin || !dtd_job_disown(&s->jobs, j, dtd_peer_uid(r)))) {
        dtd_pool_cancel(s->pool, j);
        dtd_job_cancel(&s->jobs, j, "the job was cancelled by a client");
    }
    dtd_reply_json(r, 200, NULL, dtd_job_json(j));
}

/* ---- results ---------------------------------------------------------------------------------------------------- */
struct kept {           /* the result of a job that ended before a restart */
    struct dtd_async a; /* first */
    char want[16], signature[DT_SHA256_TEXT], digest[DT_SHA256_TEXT];
    json_t *head; /* options, arch, key, toolchain */
    int rc;
    char *text;
};

static void kept_work(struct dtd_async *a)
{
    struct kept *k = (struct kept *)a;
    struct dtd_options opt = {0};
    struct dt_graph *g = NULL;
    json_t *graph = NULL, *doc = NULL;
    struct dtd_lookup l = {k->want, dt_json_text(k->head, "arch"), dt_json_text(k->head, "key"),
                           dt_json_text(k->head, "toolchain"), &opt};
    k->rc = dtd_options_from_json(&opt, json_object_get(k->head, "options"), NULL);
    uv_mutex_lock(&a->s->cache_lock);
    if (k->rc >= 0)
        k->rc = dtd_graph_get(a->s->cache, k->digest, &graph, NULL);
    uv_mutex_unlock(&a->s->cache_lock);
    dt_free_ char *body = k->rc == 1 ? dt_json_dumps(graph, JSON_COMPACT) : NULL;
    if (body && dt_graph_parse(body, strlen(body), &g, NULL) >= 0) {
        uv_mutex_lock(&a->s->cache_lock);
        k->rc = dtd_lookup_signature(a->s->cache, &l, g, k->digest, k->signature, &doc);
        uv_mutex_unlock(&a->s->cache_lock);
        k->text = k->rc == 1 ? dt_json_dumps(doc, JSON_COMPACT) : NULL;
    }
    json_decref(graph);
    json_decref(doc);
    dt_graph_free(g);
    dtd_options_done(&opt);
}

static void kept_after(struct dtd_async *a)
{
    struct kept *k = (struct kept *)a;
    if (!a->req)
        return;
    if (k->text)
        dtd_reply_take(a->req, 200, "application/json", "Dovetail-Cache: hit\r\n", k->text, strlen(k->text));
    else
        dtd_reply_err(a->req, DT_E_NOT_FOUND,
                      "the job has ended, but its result is gone: the service has been started again since, and the "
                      "cache does not have it. Post the graph again");
    k->text = NULL;
}

static void kept_release(struct dtd_async *a)
{
    struct kept *k = (struct kept *)a;
    json_decref(k->head);
    free(k->text);
    free(k);
}

static void kept_reply(struct dtd_service *s, struct dtd_req *r, const struct dtd_job *j)
{
    struct kept *k = dt_calloc(1, sizeof *k);
    if (!k) {
        dtd_reply_err(r, DT_E_NOMEM, "out of memory");
        return;
    }
    k->a = (struct dtd_async){.s = s, .req = r, .work = kept_work, .after = kept_after, .release = kept_release};
    snprintf(k->want, sizeof k->want, "%s", j->want);
    snprintf(k->signature, sizeof k->signature, "%s", j->signature);
    snprintf(k->digest, sizeof k->digest, "%s", j->digest);
    k->head = j->head ? json_loads(j->head, 0, NULL) : NULL;
    dtd_async_start(&k->a);
}

void api_result(struct dtd_service *s, struct dtd_req *r)
{
    struct dtd_job *j = dtd_asked_job(s, r);
    if (!j)
        return;
    j->seen |= dtd_state_final(j->state);
    if (j->state == DTD_DONE && !j->result) {
        kept_reply(s, r, j);
    } else if (j->state == DTD_DONE) {
        char *copy = dt_memdup(j->result, j->result_len), header[40];
        snprintf(header, sizeof header, "Dovetail-Cache: %s\r\n", j->cache);
        dtd_reply_take(r, copy ? 200 : 503, "application/json", header, copy, j->result_len);
    } else if (dtd_job_problem(j)) {
        json_t *o = NULL;
        dt_json_load(dtd_job_problem(j), strlen(dtd_job_problem(j)), &o, NULL);
        int status = (int)json_integer_value(json_object_get(o, "status"));
        json_decref(o);
        dtd_reply_take(r, status >= 400 && status < 600 ? status : 500, "application/problem+json", NULL,
                       dt_strdup(dtd_job_problem(j)), strlen(dtd_job_problem(j)));
    } else {
        dtd_reply_err(r, DT_E_NOT_FOUND, "the job is %s: there is no result yet", dtd_state_text(j->state));
    }
}
