/* GET /, /healthz, /metrics, /v1/devices: how the service is.
 *
 * Metrics are in the Prometheus text format.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "daemon/service/hits.h"
#include "daemon/service/journal.h"
#include "daemon/service/service.h"

void api_root(struct dtd_service *s, struct dtd_req *r)
{
    json_t *list = json_array();
    for (const struct dtd_route *t = dtd_routes; t->path; t++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "method", llhttp_method_name(t->method), "path",
                                              t->path, "what", t->summary));
    dtd_reply_json(r, 200, NULL,
                   json_pack("{s:s, s:s, s:[s], s:[s,s,s,s], s:o}", "server", "dovetaild", "version", DOVETAIL_VERSION,
                             "api", "v1", "extensions", "want=run", "want=explain", "job-result", "timeout",
                             "endpoints", list));
}

/* ---- health ----------------------------------------------------------------------------------------------------- */
#define HEALTH_MS 10000

struct health {
    struct dtd_ping ping; /* first: the callback gets its address */
    struct dtd_service *s;
    struct dtd_req *r;
    uv_timer_t timer;
};

static void api_status_on_closed(uv_handle_t *h) { free(h->data); }

static json_t *confinement(struct dtd_service *s)
{
    const struct dtd_device *d = dtd_pool_device(s->pool, s->cfg.device);
    return d ? d->confinement : NULL;
}

static void health_done(struct dtd_ping *g, bool ok, const char *what)
{
    struct health *h = (struct health *)g;
    struct dtd_jobs *js = &h->s->jobs;
    h->r->gone = NULL;
    if (ok && !h->s->draining) {
        dtd_reply_json(h->r, 200, NULL,
                       json_pack("{s:s, s:s, s:s, s:s, s:f, s:i, s:i, s:o, s:O*}", "status", "ok", "worker", what,
                                 "version", DOVETAIL_VERSION, "device", h->s->cfg.device, "uptime_s",
                                 (double)(dt_now_us() - h->s->start_us) / 1e6, "queued", (int)js->count[DTD_QUEUED],
                                 "running", (int)js->count[DTD_RUNNING], "workers", dtd_pool_json(h->s->pool),
                                 "confinement", confinement(h->s)));
    } else {
        struct dt_err e = {0};
        dt_err_set(&e, DT_E_WORKER_LOST, "%s", h->s->draining ? "the service stops" : what);
        dtd_reply_problem(h->r, 503, NULL, &e);
    }
    uv_close((uv_handle_t *)&h->timer, api_status_on_closed);
}

static void health_gone(struct dtd_req *r)
{
    struct health *h = r->state;
    dtd_pool_unping(h->s->pool, &h->ping);
    uv_close((uv_handle_t *)&h->timer, api_status_on_closed);
}

static void health_late(uv_timer_t *t)
{
    struct health *h = t->data;
    dtd_pool_unping(h->s->pool, &h->ping);
    health_done(&h->ping, false, "the worker does not answer");
}

void api_healthz(struct dtd_service *s, struct dtd_req *r)
{
    struct health *h = dt_calloc(1, sizeof *h);
    if (!h) {
        dtd_reply_err(r, DT_E_NOMEM, "out of memory");
        return;
    }
    h->ping.fn = health_done;
    h->s = s;
    h->r = r;
    r->state = h;
    r->gone = health_gone;
    uv_timer_init(s->loop, &h->timer);
    h->timer.data = h;
    uv_timer_start(&h->timer, health_late, HEALTH_MS, 0);
    dtd_pool_ping(s->pool, &h->ping);
}

/* ---- metrics ---------------------------------------------------------------------------------------------------- */
static void metric(struct dt_str *o, const char *name, const char *type, const char *help)
{
    dt_str_addf(o, "# HELP dovetail_%s %s\n# TYPE dovetail_%s %s\n", name, help, name, type);
}

static void api_status_one(struct dt_str *o, const char *name, const char *type, const char *help, double v)
{
    metric(o, name, type, help);
    dt_str_addf(o, "dovetail_%s %.17g\n", name, v);
}

/* 1 for what is in force: of the default device's worker and its compilers, files and system calls. */
static void metric_confinement(struct dtd_service *s, struct dt_str *o)
{
    static const char *const who[] = {"worker", "compiler"}, *const what[] = {"files", "calls"};
    metric(o, "confined", "gauge", "1: the kernel enforces what a process of the default device may do.");
    for (int i = 0; i < 4; i++) {
        const char *is = dt_json_text(json_object_get(confinement(s), who[i / 2]), what[i % 2]);
        dt_str_addf(o, "dovetail_confined{process=\"%s\",what=\"%s\"} %d\n", who[i / 2], what[i % 2],
                    !strcmp(is, "enforced"));
    }
}

void api_metrics(struct dtd_service *s, struct dtd_req *r)
{
    struct dt_str o = {0};
    const struct dtd_http_counts *h = dtd_http_counts(s->http);
    const struct dtd_pool_counts *p = dtd_pool_counts(s->pool);
    metric(&o, "info", "gauge", "Version of the service.");
    dt_str_addf(&o, "dovetail_info{version=\"%s\"} 1\n", DOVETAIL_VERSION);
    api_status_one(&o, "uptime_seconds", "gauge", "Seconds since start.", (double)(dt_now_us() - s->start_us) / 1e6);
    metric(&o, "http_responses_total", "counter", "Replies by class of status.");
    for (int i = 2; i < 6; i++)
        dt_str_addf(&o, "dovetail_http_responses_total{class=\"%dxx\"} %llu\n", i, (unsigned long long)h->by_class[i]);
    api_status_one(&o, "http_requests_total", "counter", "Complete requests.", (double)h->requests);
    api_status_one(&o, "http_connections", "gauge", "Open connections.", h->connections);
    api_status_one(&o, "http_connections_total", "counter", "Connections accepted.", (double)h->accepted);
    api_status_one(&o, "http_held_bytes", "gauge", "Bytes of bodies and of replies that are not yet taken.",
                   (double)h->held_bytes);
    api_status_one(&o, "http_over_share_total", "counter", "Requests refused because their user holds a share already.",
                   (double)h->over_share);
    api_status_one(&o, "http_turned_away_total", "counter", "Connections over the limit.", (double)h->turned_away);
    metric(&o, "jobs_total", "counter", "Jobs that entered a state.");
    for (int i = 0; i < DTD_NSTATES; i++)
        dt_str_addf(&o, "dovetail_jobs_total{state=\"%s\"} %llu\n", dtd_state_text(i),
                    (unsigned long long)s->jobs.total[i]);
    metric(&o, "jobs", "gauge", "Jobs in a state now.");
    for (int i = 0; i < DTD_NSTATES; i++)
        dt_str_addf(&o, "dovetail_jobs{state=\"%s\"} %u\n", dtd_state_text(i), s->jobs.count[i]);
    api_status_one(&o, "jobs_shared_total", "counter", "Posts that joined a job under way.", (double)s->jobs.shared);
    api_status_one(&o, "job_turns_lost_total", "counter", "Jobs that went back to the queue for another user.",
                   (double)s->jobs.turns_lost);
    api_status_one(&o, "job_rows_failed_total", "counter", "Writes of jobs' rows that failed.",
                   (double)dtd_journal_failures(s->journal));
    api_status_one(&o, "job_run_seconds_total", "counter", "Seconds that finished jobs ran.", s->jobs.run_seconds);
    api_status_one(&o, "job_result_bytes", "gauge", "Bytes of results that are remembered.",
                   (double)s->jobs.result_bytes);
    api_status_one(&o, "cache_hits_total", "counter", "Posts answered from the cache at once.", (double)s->cache_hits);
    metric(&o, "reply_hits_total", "counter", "Posts answered from the cache, by where the reply was found.");
    for (int i = 0; i < DTD_HIT_FROMS; i++)
        dt_str_addf(&o, "dovetail_reply_hits_total{from=\"%s\"} %llu\n", dtd_hit_names[i],
                    (unsigned long long)s->hits_from[i]);
    api_status_one(&o, "replies_not_modified_total", "counter", "Replies 304.", (double)s->not_modified);
    uint64_t replies, reply_bytes;
    dtd_replies_size(s->replies, &replies, &reply_bytes);
    api_status_one(&o, "replies", "gauge", "Finished replies in memory.", (double)replies);
    api_status_one(&o, "reply_bytes", "gauge", "Bytes of finished replies in memory.", (double)reply_bytes);
    api_status_one(&o, "cache_misses_total", "counter", "Posts that became or joined a job.", (double)s->cache_misses);
    api_status_one(&o, "workers", "gauge", "Worker processes.", p->alive);
    api_status_one(&o, "workers_busy", "gauge", "Worker processes with a job.", p->busy);
    api_status_one(&o, "workers_started_total", "counter", "Worker processes started.", (double)p->started);
    api_status_one(&o, "workers_lost_total", "counter", "Worker processes that ended badly.", (double)p->lost);
    api_status_one(&o, "workers_killed_total", "counter", "Worker processes killed: deadline, cancel, protocol.",
                   (double)p->killed);
    api_status_one(&o, "workers_over_limits_total", "counter", "Worker processes killed for memory or CPU time.",
                   (double)p->over_limits);
    metric_confinement(s, &o);
    size_t n = o.len;
    dtd_reply_take(r, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, dt_str_take(&o), n);
}

void api_devices(struct dtd_service *s, struct dtd_req *r)
{
    const struct dtd_device *d = dtd_pool_device(s->pool, s->cfg.device);
    json_t *o = json_pack("{s:s, s:o}", "default", s->cfg.device, "workers", dtd_pool_json(s->pool));
    if (o && d) {
        json_object_set(o, "device", d->info);
        json_object_set(o, "devices", d->devices);
        json_object_set(o, "confinement", d->confinement);
        json_object_set_new(o, "toolchain", json_string(d->toolchain));
        json_object_set_new(o, "key", json_string(d->key));
        if (*d->figures)
            json_object_set_new(o, "figures", json_string(d->figures));
    }
    dtd_reply_json(r, 200, NULL, o);
}
