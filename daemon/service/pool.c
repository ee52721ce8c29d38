/* The pool of workers: which worker gets which job. pool.h draws the life of a worker; pool-worker.c has its process
 * and its frames.
 *
 * There is one worker per device at a time. The queued jobs of a device are served oldest first. A device that had no
 * worker so far gets one when a slot is free, or when an idle worker of another device can be ended. A worker that dies
 * or is killed costs exactly the job it had. The default device's worker is restarted after a pause that doubles
 * from 100 ms to 10 s while it keeps failing to start; jobs for a device whose worker cannot start fail with its
 * reason.
 */
#include "daemon/service/pool-priv.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

int dtd_pool_new(struct dtd_service *s, struct dtd_pool **ret, struct dt_err *e)
{
    struct dtd_pool *p = dt_calloc(1, sizeof *p);
    if (!p)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    p->service = s;
    p->restart_ms = RESTART_MIN_MS;
    uv_timer_init(s->loop, &p->restart);
    p->restart.data = p;
    uv_unref((uv_handle_t *)&p->restart);
    *ret = p;
    return 0;
}

static struct dtd_worker *find_worker(const struct dtd_pool *p, const char *device)
{
    for (struct dtd_worker *w = p->workers; w; w = w->next)
        if (w->state != WORKER_ENDING && !strcmp(w->device, device))
            return w;
    return NULL;
}

static struct known *known_device(const struct dtd_pool *p, const char *spec)
{
    struct known *k = p->known;
    while (k && strcmp(k->spec, spec))
        k = k->next;
    return k;
}

const struct dtd_device *dtd_pool_device(const struct dtd_pool *p, const char *spec)
{
    const struct known *k = known_device(p, spec);
    return k ? &k->device : NULL;
}

static void copy_text(char *to, size_t n, const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    to[0] = 0;
    if (s && strlen(s) < n)
        snprintf(to, n, "%s", s);
}

int pool_learn(struct dtd_pool *p, const char *spec, const json_t *doc)
{
    struct known *k = known_device(p, spec);
    if (!k) {
        k = dt_calloc(1, sizeof *k);
        if (!k)
            return DT_E_NOMEM;
        snprintf(k->spec, sizeof k->spec, "%s", spec);
        k->next = p->known;
        p->known = k;
    }
    copy_text(k->device.arch, sizeof k->device.arch, doc, "arch");
    copy_text(k->device.key, sizeof k->device.key, doc, "key");
    copy_text(k->device.toolchain, sizeof k->device.toolchain, doc, "toolchain");
    copy_text(k->device.figures, sizeof k->device.figures, doc, "figures");
    copy_text(k->device.driver, sizeof k->device.driver, doc, "driver");
    copy_text(k->device.calibration, sizeof k->device.calibration, doc, "calibration");
    copy_text(k->device.settings, sizeof k->device.settings, doc, "settings");
    json_decref(k->device.info);
    json_decref(k->device.devices);
    k->device.info = json_incref(json_object_get(doc, "device"));
    k->device.devices = json_incref(json_object_get(doc, "devices"));
    return *k->device.arch && *k->device.key && *k->device.toolchain ? 0 : DT_E_INTERNAL;
}

/* Fail every queued job of a device. */
void pool_fail_queued(struct dtd_pool *p, const char *device, const char *problem)
{
    struct dtd_jobs *js = &p->service->jobs;
    struct dtd_job *next;
    for (struct dtd_job *j = js->head; j; j = next) {
        next = j->next;
        if (j->state == DTD_QUEUED && !strcmp(j->device, device))
            dtd_job_fail(js, j, dt_strdup(problem));
    }
}

static bool wanted(const struct dtd_pool *p, const char *device)
{
    if (!strcmp(device, p->service->cfg.device))
        return true;
    for (const struct dtd_job *j = p->service->jobs.head; j; j = j->next)
        if (j->state == DTD_QUEUED && !strcmp(j->device, device))
            return true;
    return false;
}

void dtd_pool_kick(struct dtd_pool *p)
{
    struct dtd_job *next;
    if (p->kicking)
        return;
    p->kicking = true;
    for (struct dtd_job *j = p->service->jobs.head; j; j = next) {
        next = j->next;
        if (j->state != DTD_QUEUED || !j->request) /* no request: a worker is being given it */
            continue;
        struct dtd_worker *w = find_worker(p, j->device);
        if (w && w->state == WORKER_IDLE) {
            worker_give(w, j);
            continue;
        }
        if (w || p->stopping)
            continue;
        if (p->nworkers < (unsigned)p->service->cfg.max_workers) {
            if (!strcmp(j->device, p->service->cfg.device) && uv_is_active((uv_handle_t *)&p->restart))
                continue;
            if (!worker_spawn(p, j->device))
                break;
            /* a start that fails at once fails jobs, which may be forgotten: begin again */
            next = p->service->jobs.head;
            continue;
        }
        for (struct dtd_worker *o = p->workers; o; o = o->next)
            if (o->state == WORKER_IDLE && !wanted(p, o->device)) {
                worker_end(o);
                break;
            }
    }
    p->kicking = false;
}

void dtd_pool_cancel(struct dtd_pool *p, struct dtd_job *j)
{
    for (struct dtd_worker *w = p->workers; w; w = w->next)
        if (w->job == j) {
            w->job = NULL;
            worker_kill(w, "the job was cancelled");
        }
}

static void on_restart(uv_timer_t *t)
{
    struct dtd_pool *p = t->data;
    if (!p->stopping && !find_worker(p, p->service->cfg.device))
        worker_spawn(p, p->service->cfg.device);
}

/* A worker is gone for good (its memory is being released): replace it, use the free slot. */
void pool_worker_gone(struct dtd_pool *p, const char *device, bool failed_to_start)
{
    if (p->stopping)
        return;
    if (!strcmp(device, p->service->cfg.device) && !find_worker(p, device)) {
        uv_timer_start(&p->restart, on_restart, failed_to_start ? p->restart_ms : 0, 0);
        if (failed_to_start && p->restart_ms < RESTART_MAX_MS)
            p->restart_ms *= 2;
    }
    dtd_pool_kick(p);
}

void pool_answer_pings(struct dtd_pool *p, bool ok, const char *what)
{
    while (p->pings) {
        struct dtd_ping *g = p->pings;
        p->pings = g->next;
        g->fn(g, ok, what);
    }
}

void dtd_pool_ping(struct dtd_pool *p, struct dtd_ping *g)
{
    struct dtd_worker *w = find_worker(p, p->service->cfg.device);
    if (w && w->state == WORKER_BUSY) {
        g->fn(g, true, "busy");
        return;
    }
    g->next = p->pings;
    p->pings = g;
    if (w && w->state == WORKER_IDLE)
        worker_ping(w);
}

void dtd_pool_unping(struct dtd_pool *p, struct dtd_ping *g)
{
    struct dtd_ping **at = &p->pings;
    while (*at && *at != g)
        at = &(*at)->next;
    if (*at)
        *at = g->next;
}

void dtd_pool_start(struct dtd_pool *p, void (*ready)(struct dtd_service *s, struct dt_err *err))
{
    p->ready = ready;
    worker_spawn(p, p->service->cfg.device);
}

void dtd_pool_stop(struct dtd_pool *p, bool kill_busy)
{
    if (!p->stopping)
        uv_close((uv_handle_t *)&p->restart, NULL);
    p->stopping = true;
    for (struct dtd_worker *w = p->workers; w; w = w->next) {
        if (w->state == WORKER_BUSY && !kill_busy)
            continue;
        if (w->state == WORKER_BUSY || w->state == WORKER_STARTING || w->state == WORKER_PINGING)
            worker_kill(w, "the service stops");
        else
            worker_end(w);
    }
    pool_answer_pings(p, false, "the service stops");
}

bool dtd_pool_empty(const struct dtd_pool *p) { return !p->workers; }

struct dtd_pool *dtd_pool_free(struct dtd_pool *p)
{
    if (!p)
        return NULL;
    assert(!p->workers);
    while (p->known) {
        struct known *k = p->known;
        p->known = k->next;
        json_decref(k->device.info);
        json_decref(k->device.devices);
        free(k);
    }
    free(p);
    return NULL;
}

const struct dtd_pool_counts *dtd_pool_counts(struct dtd_pool *p)
{
    p->count.alive = p->nworkers;
    p->count.busy = 0;
    for (const struct dtd_worker *w = p->workers; w; w = w->next)
        p->count.busy += w->state == WORKER_BUSY;
    return &p->count;
}

json_t *dtd_pool_json(const struct dtd_pool *p)
{
    static const char *const names[] = {"starting", "idle", "busy", "pinging", "ending"};
    json_t *a = json_array();
    for (const struct dtd_worker *w = p->workers; w; w = w->next)
        json_array_append_new(a, json_pack("{s:s, s:s, s:i, s:i}", "device", w->device, "state", names[w->state], "pid",
                                           (int)w->process.pid, "jobs", (int)w->jobs));
    return a;
}
