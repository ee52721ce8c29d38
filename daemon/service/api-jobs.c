/* GET /v1/jobs, GET and DELETE /v1/jobs/ID, GET /v1/jobs/ID/result. `?wait=SECONDS` holds the answer back until the job
 * has ended or the time is over; the answer is the job as it is then.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "daemon/service/service.h"

#define WAIT_MAX 600.0

static struct dtd_job *api_jobs_find(struct dtd_service *s, struct dtd_req *r)
{
    struct dtd_job *j = dtd_jobs_find(&s->jobs, r->param[0]);
    if (!j)
        dtd_reply_err(r, DT_E_NOT_FOUND, "there is no job %.60s (finished jobs are remembered for a while only)",
                      r->param[0]);
    return j;
}

void api_jobs(struct dtd_service *s, struct dtd_req *r)
{
    json_t *list = json_array();
    for (const struct dtd_job *j = s->jobs.head; j; j = j->next)
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
    waiter_end(w);
    r->gone = NULL;
    dtd_reply_json(r, 200, NULL, o);
}

static void api_jobs_on_event(struct dtd_watch *watch, struct dtd_job *j)
{
    struct waiter *w = (struct waiter *)watch;
    if (dtd_state_final(j->state))
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
    struct dtd_job *j = api_jobs_find(s, r);
    if (!j)
        return;
    struct waiter *w = wait > 0 && !dtd_state_final(j->state) && !s->draining ? dt_calloc(1, sizeof *w) : NULL;
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
    struct dtd_job *j = api_jobs_find(s, r);
    if (!j)
        return;
    bool admin = dtd_peer_admin(s, r);
    if (!admin && !dtd_job_owned(j, dtd_peer_uid(r))) {
        dtd_reply_err(r, DT_E_FORBIDDEN, DTD_ADMINS_ONLY "cancel what others posted");
        return;
    }
    /* a user who joined another's job, by posting the same graph, can only leave it */
    if (!dtd_state_final(j->state) && (admin || !dtd_job_disown(j, dtd_peer_uid(r)))) {
        dtd_pool_cancel(s->pool, j);
        dtd_job_cancel(&s->jobs, j, "the job was cancelled by a client");
    }
    dtd_reply_json(r, 200, NULL, dtd_job_json(j));
}

void api_result(struct dtd_service *s, struct dtd_req *r)
{
    struct dtd_job *j = api_jobs_find(s, r);
    if (!j)
        return;
    if (j->state == DTD_DONE) {
        char *copy = dt_memdup(j->result, j->result_len);
        if (copy)
            dtd_reply_take(r, 200, "application/json",
                           !strcmp(j->cache, "hit") ? "Dovetail-Cache: hit\r\n" : "Dovetail-Cache: miss\r\n", copy,
                           j->result_len);
        else
            dtd_reply_err(r, DT_E_NOMEM, "out of memory");
    } else if (j->problem) {
        json_t *o = json_loads(j->problem, 0, NULL);
        int status = (int)json_integer_value(json_object_get(o, "status"));
        json_decref(o);
        dtd_reply_take(r, status >= 400 && status < 600 ? status : 500, "application/problem+json", NULL,
                       dt_strdup(j->problem), strlen(j->problem));
    } else {
        dtd_reply_err(r, DT_E_NOT_FOUND, "the job is %s: there is no result yet", dtd_state_text(j->state));
    }
}
