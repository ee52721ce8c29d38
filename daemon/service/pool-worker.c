/* One worker process: its start, its requests, its deadline, its end.
 *
 * The worker gets a session of its own: a Ctrl-C for the service does not reach it, and one SIGKILL reaches it together
 * with the compilers that it forked. Its first request is `devices`; the answer has what look-ups in the cache need.
 *
 * A worker is finished when its process is reaped *and* its pipe is at its end: an answer that was written before its
 * death still counts.
 *
 * Not here: what it says, and whether it may (pool-frames.c).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/wire.h"
#include "daemon/service/pool-priv.h"
#include "daemon/service/share.h"

#define PING_MS 5000
#define END_MS 3000
#define MAX_TRIES 3

extern char **environ;

static void on_handle_closed(uv_handle_t *h)
{
    struct dtd_worker *w = h->data;
    if (--w->handles)
        return;
    struct dtd_pool *p = w->pool;
    char device[sizeof w->device];
    bool failed = !w->hello;
    snprintf(device, sizeof device, "%s", w->device);
    struct dtd_worker **at = &p->workers;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    p->nworkers--;
    if (w->job) /* it never had a look at the job: settle() left it */
        w->job->request = w->body;
    else
        free(w->body);
    dt_str_done(&w->frame);
    dt_err_done(&w->refusal);
    free(w);
    pool_worker_gone(p, device, failed);
}

/* What happened to a worker, as a sentence. */
static void pool_worker_describe(const struct dtd_worker *w, char *out, size_t n)
{
    if (w->why)
        snprintf(out, n, "the worker was ended: %s", w->why);
    else if (w->signal == SIGSYS)
        snprintf(out, n, "the worker was ended: it made a system call that it may not make (SIGSYS)");
    else if (w->signal)
        snprintf(out, n, "the worker died of signal %d (%s)", w->signal, strsignal(w->signal));
    else
        snprintf(out, n, "the worker ended with status %lld", (long long)w->exit_status);
}

void worker_count(struct dtd_worker *w, const struct dtd_job *j)
{
    struct dtd_metrics *m = &w->pool->service->metrics;
    uint64_t now = uv_hrtime();
    if (j->begun_ns)
        dtd_observe(&m->job, (double)(now - j->begun_ns) / 1e9);
    dtd_spent_end(&w->spent, m, now);
}

/* Both the process and the pipe have ended: the verdict on what it had, then release. */
static void settle(struct dtd_worker *w)
{
    if (!w->exited || !w->at_end)
        return;
    struct dtd_pool *p = w->pool;
    struct dtd_jobs *js = &p->service->jobs;
    char text[256];
    dtd_share_left(p->service->share, w, false);
    pool_worker_describe(w, text, sizeof text);
    if (w->job && w->job->state == DTD_QUEUED && (!w->killed || w->broke) && ++w->job->tries < MAX_TRIES) {
        dt_log(DT_LOG_INFO, "job %s: its worker was of no use; it goes to the next", w->job->id);
    } else if (w->job) {
        struct dt_err e = {0};
        struct dtd_job *j = w->job;
        w->job = NULL;
        j->kills++;
        dt_err_set(&e, w->why_num ? w->why_num : DT_E_WORKER_LOST, "%s", text);
        worker_count(w, j);
        dtd_log_job(DT_LOG_WARN, j, NULL, "%s", text);
        dtd_job_fail_err(js, j, &e);
    }
    if (!w->hello && w->end == DTD_END_NONE && !w->killed)
        w->end = DTD_END_START;
    else if (w->end == DTD_END_NONE && !w->killed && (w->signal || w->exit_status))
        w->end = w->signal ? DTD_END_CRASH : DTD_END_EXIT;
    p->count.ends[w->end]++;
    if (w->signal || w->exit_status) {
        p->count.lost++;
        dt_log(w->killed && !w->broke ? DT_LOG_INFO : DT_LOG_WARN, "worker %d (%s): %s", (int)w->process.pid, w->device,
               text);
    }
    if (!w->hello && !(p->stopping && w->killed)) {
        struct dt_err e = {0};
        if (w->refusal.num)
            dt_err_move(&e, &w->refusal);
        else
            dt_err_set(&e, DT_E_NO_DEVICE, "the worker for %s could not start: %s", w->device, text);
        dt_free_ char *problem = dt_problem_json(&e);
        dt_log(DT_LOG_ERROR, "worker for %s: %s", w->device, e.detail ? e.detail : text);
        if (problem)
            pool_fail_queued(w, problem);
        if (!w->aside && !strcmp(w->device, p->service->cfg.device)) {
            pool_answer_pings(p, false, e.detail ? e.detail : text);
            if (p->ready) {
                void (*ready)(struct dtd_service *, struct dt_err *) = p->ready;
                p->ready = NULL;
                ready(p->service, &e);
            }
        }
        dt_err_done(&e);
    } /* else: pings are answered by the next worker */
    w->state = WORKER_ENDING;
    uv_close((uv_handle_t *)&w->process, on_handle_closed);
    uv_close((uv_handle_t *)&w->in, on_handle_closed);
    uv_close((uv_handle_t *)&w->out, on_handle_closed);
    uv_close((uv_handle_t *)&w->timer, on_handle_closed);
    uv_close((uv_handle_t *)&w->watch, on_handle_closed);
}

void worker_kill(struct dtd_worker *w, enum dtd_end end, const char *why)
{
    if (w->killed)
        return;
    dtd_share_left(w->pool->service->share, w, false);
    w->killed = true;
    w->end = end;
    w->why = why;
    w->pool->count.killed++;
    w->state = WORKER_ENDING;
    if (!w->exited) /* else it is on_left's */
        uv_timer_stop(&w->timer);
    uv_timer_stop(&w->watch);
    if (!w->exited && kill(-w->process.pid, SIGKILL) < 0)
        uv_process_kill(&w->process, SIGKILL);
}

void worker_broke(struct dtd_worker *w, const char *why)
{
    w->broke |= !w->killed;
    worker_kill(w, DTD_END_PROTOCOL, why);
}

static void on_deadline(uv_timer_t *t)
{
    struct dtd_worker *w = t->data;
    switch (w->state) {
    case WORKER_BUSY:
        w->why_num = DT_E_TIMEOUT;
        worker_kill(w, DTD_END_TIME, "the job's time limit passed");
        break;
    case WORKER_STARTING: worker_kill(w, DTD_END_START, "it did not open its device in time"); break;
    case WORKER_PINGING: worker_kill(w, DTD_END_SILENT, "it did not answer"); break;
    default: worker_kill(w, DTD_END_NONE, "it did not end by itself"); break;
    }
}

struct out { /* a request on its way */
    uv_write_t w;
    struct dtd_worker *worker;
    uint32_t number;
    char *body;
    unsigned char head[DT_WIRE_HEAD];
    char limit[48];
};

void worker_begin(struct dtd_worker *w)
{
    dtd_job_start(&w->pool->service->jobs, w->job);
    uint64_t now = uv_hrtime();
    w->job->begun_ns = now;
    w->spent = (struct dtd_spent){0};
    dtd_spent_enter(&w->spent, DTD_STAGE_OTHER, now);
    if (w->job->posted_ns)
        dtd_observe(&w->pool->service->metrics.queue, (double)(now - w->job->posted_ns) / 1e9);
    dtd_log_job(DT_LOG_INFO, w->job, NULL, "%s on %s, worker %d", w->job->want, w->job->device, (int)w->process.pid);
}

/* A request that is written is not yet read: the worker may be dead already; and the job may have to yield. So its body
 * is kept until the answer comes. */
static void on_written(uv_write_t *r, int status)
{
    struct out *o = r->data;
    struct dtd_worker *w = o->worker;
    if (o->number == w->number && w->job) {
        w->body = o->body;
        o->body = NULL;
    }
    free(o->body);
    free(o);
    if (status < 0 && status != UV_ECANCELED) /* else it would be waited for until the job's time is over */
        worker_broke(w, "it does not take requests any more");
}

/* Send a request; `body` is taken. limit: seconds that a job has, the first member of what is sent; 0: it is none. */
static void send_request(struct dtd_worker *w, char *body, size_t len, uint64_t deadline_ms, double limit)
{
    struct out *o = body ? dt_malloc(sizeof *o) : NULL;
    if (!o) {
        free(body);
        w->why_num = DT_E_NOMEM;
        worker_kill(w, DTD_END_EXIT, "out of memory");
        return;
    }
    *o = (struct out){.worker = w, .number = ++w->number, .body = body};
    o->w.data = o;
    bool told = limit > 0 && len > 1 && *body == '{';
    int n = told ? snprintf(o->limit, sizeof o->limit, "{\"limit_s\":%.3f,", limit) : 0;
    dt_wire_head(o->head, 'Q', o->number, len - told + (size_t)n);
    uv_buf_t b[3] = {uv_buf_init((char *)o->head, DT_WIRE_HEAD), uv_buf_init(o->limit, (unsigned)n),
                     uv_buf_init(body + told, (unsigned)(len - told))};
    w->apart = 0;
    uv_timer_start(&w->timer, on_deadline, deadline_ms, 0);
    if (uv_write(&o->w, (uv_stream_t *)&w->in, b, 3, on_written) < 0) {
        free(body);
        free(o);
        worker_kill(w, DTD_END_EXIT, "its pipe is closed");
    }
}

void worker_give(struct dtd_worker *w, struct dtd_job *j)
{
    double limit = (double)w->pool->service->cfg.job_timeout;
    if (j->timeout > 0 && j->timeout < limit)
        limit = j->timeout;
    limit -= (double)j->ran_us / 1e6; /* all turns count */
    if (limit < 0.001)
        limit = 0.001;
    char *body = j->request;
    j->request = NULL;
    w->state = WORKER_BUSY;
    w->job = j;
    w->jobs++;
    worker_watch(w);
    send_request(w, body, j->request_len, (uint64_t)(limit * 1000) + 1, limit);
}

void worker_ping(struct dtd_worker *w)
{
    static const char body[] = "{\"verb\":\"ping\"}";
    w->state = WORKER_PINGING;
    send_request(w, dt_strdup(body), sizeof body - 1, PING_MS, 0);
}

static void on_shut(uv_shutdown_t *s, int status) { free(s); }

void worker_end(struct dtd_worker *w)
{
    w->state = WORKER_ENDING;
    if (w->exited)
        return;
    uv_shutdown_t *s = dt_malloc(sizeof *s);
    if (!s || uv_shutdown(s, (uv_stream_t *)&w->in, on_shut) < 0) {
        free(s);
        worker_kill(w, DTD_END_NONE, "it is not needed");
        return;
    }
    uv_timer_start(&w->timer, on_deadline, END_MS, 0);
}

uint64_t worker_left_ms(const struct dtd_worker *w) { return uv_timer_get_due_in(&w->timer); }

static void on_alloc(uv_handle_t *h, size_t want, uv_buf_t *b)
{
    static char chunk[65536]; /* one loop, one thread: used up before the next call */
    *b = uv_buf_init(chunk, sizeof chunk);
}

static void on_out(uv_stream_t *st, ssize_t n, const uv_buf_t *b)
{
    struct dtd_worker *w = st->data;
    if (n < 0) {
        uv_read_stop(st);
        w->at_end = true;
        if (!w->exited) { /* it closed its output: of no use any more */
            if (w->state != WORKER_ENDING)
                uv_timer_start(&w->timer, on_deadline, END_MS, 0);
            if (w->state == WORKER_IDLE) /* no job for it */
                w->state = WORKER_ENDING;
        }
        settle(w);
        return;
    }
    w->heard = uv_now(w->pool->service->loop);
    worker_take(w, b->base, (size_t)n);
    dtd_pool_kick(w->pool);
}

/* Something that it started, and that has left its session, keeps its pipe open: what was written is read. */
static void on_left(uv_timer_t *t)
{
    struct dtd_worker *w = t->data;
    if (w->at_end)
        return;
    dt_log(DT_LOG_WARN, "worker %d (%s): it has ended, and its pipe has not", (int)w->process.pid, w->device);
    uv_read_stop((uv_stream_t *)&w->out);
    w->at_end = true;
    settle(w);
}

static void on_process_exit(uv_process_t *pr, int64_t status, int sig)
{
    struct dtd_worker *w = pr->data;
    w->exited = true;
    if (w->state == WORKER_IDLE)
        w->state = WORKER_ENDING;
    w->exit_status = status;
    w->signal = sig;
    uv_timer_stop(&w->timer);
    if (!w->at_end) {
        kill(-pr->pid, SIGKILL); /* compilers it left behind hold the pipe open */
        uv_timer_start(&w->timer, on_left, END_MS, 0);
    }
    settle(w);
}

/* What the configuration says, as the worker's options; `memory` is room for a number. */
static void worker_options(const struct dtd_config *c, char **args, char *memory, size_t n)
{
    snprintf(memory, n, "%ld", c->worker_memory_mb);
    char *const pair[3][2] = {{(char *)"--cache", c->cache},
                              {(char *)"--confine", c->confine},
                              {(char *)"--memory", c->worker_memory_mb ? memory : NULL}};
    for (int i = 0; i < 3; i++)
        if (pair[i][1]) {
            *args++ = pair[i][0];
            *args++ = pair[i][1];
        }
    if (c->shared)
        *args = (char *)"--netless";
}

/* The environment without what says where the cluster is and how to get in: none of a worker's business. Caller frees
 * the array alone; NULL: memory. */
static char **worker_environment(void)
{
    static const char *const secret[] = {"PG", "DOVETAIL_SHARED=", "CREDENTIALS_DIRECTORY="};
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    char **all = dt_calloc(n + 1, sizeof *all);
    for (size_t i = 0; all && i < n; i++) {
        bool out = false;
        for (size_t k = 0; k < sizeof secret / sizeof *secret; k++)
            out |= !strncmp(environ[i], secret[k], strlen(secret[k]));
        if (!out)
            all[kept++] = environ[i];
    }
    return all;
}

bool worker_spawn(struct dtd_pool *p, const char *device, bool aside)
{
    struct dtd_service *s = p->service;
    dt_free_ char **env = s->cfg.shared ? worker_environment() : NULL;
    struct dtd_worker *w = s->cfg.shared && !env ? NULL : dt_calloc(1, sizeof *w);
    if (!w) {
        dt_log(DT_LOG_ERROR, "out of memory for a worker");
        return false;
    }
    w->pool = p;
    snprintf(w->device, sizeof w->device, "%s", device);
    w->handles = 5;
    w->storeless = !pool_store(p);
    w->aside = aside;
    uv_pipe_init(s->loop, &w->in, 0);
    uv_pipe_init(s->loop, &w->out, 0);
    uv_timer_init(s->loop, &w->timer);
    uv_timer_init(s->loop, &w->watch);
    w->in.data = w->out.data = w->timer.data = w->watch.data = w->process.data = w;
    w->next = p->workers;
    p->workers = w;
    p->nworkers++;
    p->count.started++;
    char memory[24], beat[16], *args[13] = {s->cfg.worker, (char *)"--device", w->device};
    snprintf(beat, sizeof beat, "%d", DTD_BEAT_MS);
    args[3] = (char *)"--beat";
    args[4] = beat;
    worker_options(&s->cfg, args + 5, memory, sizeof memory);
    uv_stdio_container_t io[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&w->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&w->out},
        {.flags = UV_INHERIT_FD, .data.fd = 2},
    };
    uv_process_options_t o = {.file = s->cfg.worker,
                              .args = args,
                              .exit_cb = on_process_exit,
                              .flags = UV_PROCESS_DETACHED,
                              .stdio = io,
                              .stdio_count = 3};
    o.env = env;
    int r = uv_spawn(s->loop, &w->process, &o);
    if (r < 0) {
        dt_err_set(&w->refusal, DT_E_NO_DEVICE, "%s: %s", s->cfg.worker, uv_strerror(r));
        w->exited = w->at_end = true;
        w->exit_status = 127;
        settle(w);
        return true;
    }
    static const char hello[] = "{\"verb\":\"devices\"}";
    uv_read_start((uv_stream_t *)&w->out, on_alloc, on_out);
    send_request(w, dt_strdup(hello), sizeof hello - 1, (uint64_t)s->cfg.start_timeout * 1000, 0);
    return true;
}
