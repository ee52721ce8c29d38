/* The pool of workers: which worker gets which job. pool.h draws the life of a worker; pool-worker.c has its process,
 * pool-frames.c what it says.
 *
 * There is one worker per device at a time, and on the software device a second, `aside`, for the jobs that nobody
 * waits for (stale.c, night.c): a user's job that comes meanwhile does not wait for a worker to start, nor finds one
 * that has to load the assembler first. A GPU has one: another process on it would disturb what is measured, and so
 * there the worker is ended, and started for the user's job. Where a second one cannot start, the first has all jobs.
 *
 * Whose job a worker gets, and when a running job yields to another user's, is decided in fair.h; a job that yields is
 * given back to the queue and its worker is ended. A device that had no worker so far gets one when a slot is free, or
 * when an idle worker of another device can be ended. A worker that dies or is killed costs exactly the job it had. The
 * default device's worker is restarted after a pause that doubles from 100 ms to 10 s while it keeps failing to start;
 * jobs for a device whose worker cannot start fail with its reason.
 */
#include "daemon/service/pool-priv.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/service/fair.h"

#define ASIDE_IDLE_MS 10000 /* then a worker that is aside ends */
#define ALONE_MS 60000      /* without one, where it could not start */

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
    uv_timer_init(s->loop, &p->turn);
    p->turn.data = p;
    uv_unref((uv_handle_t *)&p->turn);
    uv_timer_init(s->loop, &p->beat);
    p->beat.data = p;
    uv_unref((uv_handle_t *)&p->beat);
    *ret = p;
    return 0;
}

static struct dtd_worker *find_worker(const struct dtd_pool *p, const char *device, bool aside)
{
    for (struct dtd_worker *w = p->workers; w; w = w->next)
        if (w->state != WORKER_ENDING && w->aside == aside && !strcmp(w->device, device))
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

static bool soft(const struct dtd_device *d) { return !strncmp(d->key, "soft", 4); }

/* Has it a worker that users' jobs do not get? */
static bool pool_aside(const struct dtd_pool *p, const struct dtd_job *j)
{
    const struct dtd_device *d = dtd_pool_device(p, j->device);
    return j->aside && j->posts <= 1 && p->service->cfg.max_workers > 1 && d && soft(d) &&
           uv_now(p->service->loop) >= p->alone;
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
    copy_text(k->device.sound_since, sizeof k->device.sound_since, doc, "sound_since");
    copy_text(k->device.figures, sizeof k->device.figures, doc, "figures");
    copy_text(k->device.driver, sizeof k->device.driver, doc, "driver");
    copy_text(k->device.calibration, sizeof k->device.calibration, doc, "calibration");
    copy_text(k->device.settings, sizeof k->device.settings, doc, "settings");
    json_decref(k->device.info);
    json_decref(k->device.devices);
    json_decref(k->device.confinement);
    k->device.info = json_incref(json_object_get(doc, "device"));
    k->device.confinement = json_incref(json_object_get(doc, "confinement"));
    k->device.devices = json_incref(json_object_get(doc, "devices"));
    return *k->device.arch && *k->device.key && *k->device.toolchain ? 0 : DT_E_INTERNAL;
}

/* A worker for the device could not start: fail its queued jobs, unless a later one has started meanwhile. Jobs that
 * are with that one have not begun, and count as queued. */
void pool_fail_queued(const struct dtd_worker *failed, const char *problem)
{
    struct dtd_pool *p = failed->pool;
    struct dtd_jobs *js = &p->service->jobs;
    struct dtd_job *next;
    if (failed->aside) { /* its jobs are for the other worker */
        p->alone = uv_now(p->service->loop) + ALONE_MS;
        return;
    }
    for (const struct dtd_worker *w = p->workers; w; w = w->next)
        if (w->hello && w->state != WORKER_ENDING && !w->aside && !strcmp(w->device, failed->device))
            return;
    for (struct dtd_job *j = js->head; j; j = next) {
        next = j->next;
        if (j->state != DTD_QUEUED || strcmp(j->device, failed->device) || pool_aside(p, j))
            continue;
        for (struct dtd_worker *w = p->workers; w; w = w->next)
            if (w->job == j) /* an ending one that would still give it back */
                w->job = NULL;
        dtd_job_fail(js, j, dt_strdup(problem));
    }
}

bool pool_store(const struct dtd_pool *p)
{
    struct cache_figures f = {.open = true};
    if (p->service->cache)
        cache_figures(p->service->cache, &f);
    return f.open;
}

static bool wanted(const struct dtd_worker *w)
{
    const struct dtd_pool *p = w->pool;
    if (!w->aside && !strcmp(w->device, p->service->cfg.device))
        return true;
    for (const struct dtd_job *j = p->service->jobs.head; j; j = j->next)
        if (j->state == DTD_QUEUED && !strcmp(j->device, w->device) && pool_aside(p, j) == w->aside)
            return true;
    return false;
}

struct choice { /* of a queued job */
    const struct dtd_pool *pool;
    const struct dtd_worker *worker; /* NULL: one that has no worker */
};

static bool pool_takes(const struct dtd_job *j, const void *user)
{
    const struct choice *c = user;
    const struct dtd_pool *p = c->pool;
    if (!j->request) /* a worker is being given it */
        return false;
    bool aside = pool_aside(p, j);
    if (c->worker)
        return !strcmp(j->device, c->worker->device) && aside == c->worker->aside;
    bool later = !strcmp(j->device, p->service->cfg.device) && uv_is_active((const uv_handle_t *)&p->restart);
    return !later && !find_worker(p, j->device, aside);
}

static struct dtd_job *pool_next(const struct dtd_pool *p, const struct dtd_job *except, const struct dtd_worker *w)
{
    struct choice c = {p, w};
    return dtd_fair_next(&p->service->jobs, except, pool_takes, &c);
}

static void spawn_later(struct dtd_pool *p); /* there was no memory for a worker: again after a pause */

/* Workers for devices that have none: in free slots, then in that of an idle worker whose device nobody wants. */
static void pool_fill(struct dtd_pool *p)
{
    struct dtd_job *j;
    while ((j = pool_next(p, NULL, NULL)) && p->nworkers < (unsigned)p->service->cfg.max_workers)
        if (!worker_spawn(p, j->device, pool_aside(p, j))) {
            spawn_later(p);
            return;
        }
    for (struct dtd_worker *w = p->workers; j && w; w = w->next)
        if (w->state == WORKER_IDLE && !wanted(w)) {
            worker_end(w);
            return;
        }
}

static void pool_give_back(struct dtd_worker *w, bool turn, const char *why)
{
    struct dtd_job *j = w->job;
    dt_log(DT_LOG_INFO, "job %s: back to the queue: %s", j->id, why);
    j->request = w->body;
    w->body = NULL;
    w->job = NULL;
    worker_kill(w, DTD_END_TURN, why);
    dtd_job_give_back(&w->pool->service->jobs, j, turn);
}

/* Does this worker's job yield to the one that waits? Else *soonest is no later than the time when it will. */
static bool pool_yields(struct dtd_worker *w, const struct dtd_job *waiting, double *soonest)
{
    if (!waiting || w->state != WORKER_BUSY || !w->job || w->job->state != DTD_RUNNING)
        return false;
    double later = dtd_fair_yields(&w->pool->service->jobs, w->job, waiting);
    if (later == 0 && w->body) {
        pool_give_back(w, true, "it is another user's turn");
        return true;
    }
    if (later >= 0 && later < *soonest)
        *soonest = later;
    return false;
}

static void on_turn(uv_timer_t *t) { dtd_pool_kick(t->data); }

/* End turns that are over; look again when the next one may be. */
static void pool_turns(struct dtd_pool *p)
{
    double soonest = 3600;
    struct dtd_worker *ahead = NULL;
    for (struct dtd_worker *w = p->workers; w; w = w->next) {
        if (w->state == WORKER_BUSY && pool_yields(w, pool_next(p, w->job, w), &soonest))
            continue;
        if (w->state == WORKER_BUSY && w->job && w->job->state == DTD_RUNNING &&
            (!ahead || dtd_fair_ahead(&p->service->jobs, w->job, ahead->job)))
            ahead = w;
    }
    if (ahead && p->nworkers >= (unsigned)p->service->cfg.max_workers)
        pool_yields(ahead, pool_next(p, ahead->job, NULL), &soonest);
    uint64_t ms = soonest < 0.02 ? 20 : (uint64_t)(soonest * 1000) + 1;
    uv_timer_start(&p->turn, on_turn, ms, 0);
}

/* A worker may touch only what was there when it started (daemon/worker/confine.c). One that began without the store
 * makes room for another when the store is there. */
static void pool_renew(struct dtd_pool *p)
{
    bool open = pool_store(p);
    for (struct dtd_worker *w = p->workers; w; w = w->next)
        if (open && w->storeless && w->state == WORKER_IDLE && !p->stopping)
            worker_end(w);
}

void dtd_pool_kick(struct dtd_pool *p)
{
    struct dtd_job *j;
    if (p->kicking)
        return;
    p->kicking = true;
    p->service->jobs.slice = (double)p->service->cfg.job_slice;
    pool_renew(p);
    for (struct dtd_worker *w = p->workers; w; w = w->next)
        if (w->state == WORKER_IDLE && (j = pool_next(p, NULL, w)))
            worker_give(w, j);
    if (!p->stopping) {
        pool_fill(p);
        pool_turns(p);
    }
    p->kicking = false;
}

void dtd_pool_give_back(struct dtd_pool *p, struct dtd_job *j)
{
    for (struct dtd_worker *w = p->workers; w; w = w->next)
        if (w->job == j && j->state == DTD_RUNNING && w->body) {
            pool_give_back(w, false, "the service stops");
            return;
        }
}

void dtd_pool_cancel(struct dtd_pool *p, struct dtd_job *j)
{
    for (struct dtd_worker *w = p->workers; w; w = w->next)
        if (w->job == j) {
            w->job = NULL;
            worker_kill(w, DTD_END_CANCELLED, "the job was cancelled");
        }
}

void dtd_pool_fresh(struct dtd_pool *p, const char *device)
{
    const struct dtd_device *d = dtd_pool_device(p, device);
    struct dtd_worker *w = find_worker(p, device, false);
    if (w && w->jobs && w->state == WORKER_IDLE && d && !soft(d))
        worker_end(w);
}

static void on_restart(uv_timer_t *t)
{
    struct dtd_pool *p = t->data;
    const char *device = p->service->cfg.device;
    if (!p->stopping && !find_worker(p, device, false) && !worker_spawn(p, device, false))
        spawn_later(p);
    else
        dtd_pool_kick(p);
}

static void spawn_later(struct dtd_pool *p) { uv_timer_start(&p->restart, on_restart, RESTART_MIN_MS, 0); }

/* A worker is gone for good (its memory is being released): replace it, use the free slot. */
void pool_worker_gone(struct dtd_pool *p, const char *device, bool failed_to_start)
{
    if (p->stopping)
        return;
    if (!strcmp(device, p->service->cfg.device) && !find_worker(p, device, false)) {
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
    struct dtd_worker *w = find_worker(p, p->service->cfg.device, false);
    if (w && w->state == WORKER_BUSY) {
        bool heard = uv_now(p->service->loop) - w->heard <= (uint64_t)p->service->cfg.worker_silence * 500;
        g->fn(g, heard, heard ? "busy" : "the worker has given no sign of life for a while");
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

const char *dtd_end_text(enum dtd_end e)
{
    static const char *const text[DTD_NENDS] = {"none",     "crash",      "exit",      "start",  "device", "silent",
                                                "protocol", "time-limit", "cancelled", "limits", "turn"};
    return text[e];
}

/* Workers beat by themselves. When this loop was away itself (stopped, or a long turn), what they sent is still in
 * their pipes, and says nothing about them. */
static void on_beat(uv_timer_t *t)
{
    struct dtd_pool *p = t->data;
    uint64_t now = uv_now(p->service->loop);
    bool away = now - p->last_beat > 2 * DTD_BEAT_MS;
    p->last_beat = now;
    for (struct dtd_worker *w = p->workers; w; w = w->next) {
        if (away && w->heard)
            w->heard = now;
        worker_look(w, now);
        if (w->aside && w->state == WORKER_IDLE && now - w->idle >= ASIDE_IDLE_MS)
            worker_end(w);
    }
}

bool dtd_pool_heard(const struct dtd_pool *p)
{
    uint64_t now = uv_now(p->service->loop), limit = (uint64_t)p->service->cfg.worker_silence * 1000;
    for (const struct dtd_worker *w = p->workers; w; w = w->next)
        if (w->state != WORKER_ENDING && w->heard && now - w->heard > limit)
            return false;
    return true;
}

void dtd_pool_start(struct dtd_pool *p, void (*ready)(struct dtd_service *s, struct dt_err *err))
{
    p->ready = ready;
    p->last_beat = uv_now(p->service->loop);
    uv_timer_start(&p->beat, on_beat, DTD_BEAT_MS, DTD_BEAT_MS);
    if (!worker_spawn(p, p->service->cfg.device, false))
        spawn_later(p);
}

void dtd_pool_stop(struct dtd_pool *p, bool kill_busy)
{
    if (!p->stopping) {
        uv_close((uv_handle_t *)&p->restart, NULL);
        uv_close((uv_handle_t *)&p->turn, NULL);
        uv_close((uv_handle_t *)&p->beat, NULL);
    }
    p->stopping = true;
    for (struct dtd_worker *w = p->workers; w; w = w->next) {
        if (w->state == WORKER_BUSY && !kill_busy)
            continue;
        if (w->state == WORKER_BUSY || w->state == WORKER_STARTING || w->state == WORKER_PINGING)
            worker_kill(w, DTD_END_NONE, "the service stops");
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
        json_decref(k->device.confinement);
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
