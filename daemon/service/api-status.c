/* GET /, /healthz, /v1/devices: how the service is. GET /metrics is in metrics.c.
 *
 * Health is 200 when this loop and the default device's worker answer, else 503 with Retry-After: while the first
 * worker opens its device (the service manager's socket is served from the start), while a worker is replaced or
 * silent, and while the service drains.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "cache/cache.h"
#include "daemon/service/service.h"
#include "daemon/service/share.h"

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
#define RETRY_AFTER "Retry-After: 2\r\n"

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
    struct cache_figures store;
    h->r->gone = NULL;
    cache_figures(h->s->cache, &store);
    if (ok && !h->s->draining) {
        dtd_reply_json(h->r, 200, NULL,
                       json_pack("{s:s, s:o, s:s, s:s, s:s, s:f, s:i, s:i, s:o, s:O*, s:o*}", "status",
                                 store.open && store.writable ? "ok" : "degraded", "store",
                                 cache_figures_json(h->s->cache), "worker", what, "version", DOVETAIL_VERSION, "device",
                                 h->s->cfg.device, "uptime_s", (double)(dt_now_us() - h->s->start_us) / 1e6, "queued",
                                 (int)js->count[DTD_QUEUED], "running", (int)js->count[DTD_RUNNING], "workers",
                                 dtd_pool_json(h->s->pool), "confinement", confinement(h->s), "cluster",
                                 dtd_share_json(h->s->share)));
    } else {
        struct dt_err e = {0};
        dt_err_set(&e, h->s->draining ? DT_E_UNAVAILABLE : DT_E_WORKER_LOST, "%s",
                   h->s->draining ? "the service stops" : what);
        dtd_reply_problem(h->r, 503, RETRY_AFTER, &e);
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

bool dtd_closed(struct dtd_service *s, struct dtd_req *r)
{
    struct dt_err e = {0};
    if (s->ready && !s->draining)
        return false;
    dt_err_set(&e, DT_E_UNAVAILABLE, "%s",
               s->draining ? "the service stops" : "the service starts: no worker has answered yet");
    dtd_reply_problem(r, 503, RETRY_AFTER, &e);
    return true;
}

void api_healthz(struct dtd_service *s, struct dtd_req *r)
{
    if (dtd_closed(s, r))
        return;
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

/* ---- devices ---------------------------------------------------------------------------------------------------- */
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
