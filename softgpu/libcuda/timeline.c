/* The log of device work and the times that come from it.
 *
 * Each launch, copy, memset and event record appends a sg_work to its context's log with what it comes after: the
 * newest work of its stream, the events it waits for, and the rules of the default stream (work of the default stream
 * follows all ordinary streams' work and is followed by it; CU_STREAM_NON_BLOCKING streams stand apart). A flush
 * simulates the whole log (sg_timeline), gives events their times and starts an empty log at the modelled end. The log
 * is flushed by a query for a time, by a wait that covers everything, by a graph launch, and when it has grown long.
 * Works in two different logs never overlap: the model is coarse there.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

#define LOG_MAX 4096

static void fresh(struct CUstream_st *s)
{
    if (s->generation != s->ctx->generation) {
        s->generation = s->ctx->generation;
        s->last = 0;
        s->waits.n = 0;
    }
}

static bool timeline_add(uint32_t *list, uint32_t *n, uint32_t work)
{
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] == work)
            return false;
    list[(*n)++] = work;
    return true;
}

static CUresult timeline_append(struct CUstream_st *s, struct sg_work w, struct CUevent_st *event, bool programmatic)
{
    struct CUctx_st *c = s->ctx;
    if (c->log.n >= LOG_MAX)
        CU_TRY(cu_log_flush(c));
    fresh(s);
    uint32_t streams = 0, n = 0;
    for (struct CUstream_st *t = c->streams; t; t = t->next)
        streams++;
    /* and a byte each for `early` */
    uint32_t room = streams + (uint32_t)s->waits.n + 1, *after = dt_calloc(room, sizeof *after + 1);
    CU_REQUIRE(after, CUDA_ERROR_OUT_OF_MEMORY);
    uint8_t *early = (uint8_t *)(after + room);
    if (s->last && programmatic && c->log.p[s->last - 1].w.kind == SG_WORK_KERNEL) {
        early[0] = 1;
        w.early = early;
    }
    if (s->last)
        timeline_add(after, &n, s->last - 1);
    for (size_t i = 0; i < s->waits.n; i++)
        timeline_add(after, &n, s->waits.p[i]);
    for (struct CUstream_st *t = c->streams; t; t = t->next) {
        fresh(t);
        if (t->last && t != s && (s == c->null_stream || t == c->null_stream) &&
            !((s->flags | t->flags) & CU_STREAM_NON_BLOCKING))
            timeline_add(after, &n, t->last - 1);
    }
    w.after = after;
    w.nafter = n;
    if (!dt_push(&c->log, (struct cu_work){w, event})) {
        free(after);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    s->waits.n = 0;
    s->last = (uint32_t)c->log.n;
    if (event) {
        event->recorded = true;
        event->timed = false;
        event->generation = c->generation;
        event->at = (uint32_t)c->log.n - 1;
    }
    return CUDA_SUCCESS;
}

CUresult cu_log(struct CUstream_st *s, struct sg_work w, struct CUevent_st *event)
{
    return timeline_append(s, w, event, false);
}
CUresult cu_log_kernel(struct CUstream_st *s, struct sg_work w, bool programmatic)
{
    return timeline_append(s, w, NULL, programmatic);
}

static void clear(struct CUctx_st *c)
{
    for (size_t i = 0; i < c->log.n; i++)
        free((void *)(uintptr_t)c->log.p[i].w.after);
    c->log.n = 0;
    c->generation++;
}

CUresult cu_log_flush(struct CUctx_st *c)
{
    size_t n = c->log.n;
    if (!n)
        return CUDA_SUCCESS;
    struct sg_work *w = dt_reallocarray(NULL, n, sizeof *w);
    CU_REQUIRE(w, CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < n; i++)
        w[i] = c->log.p[i].w;
    int r = sg_timeline(c->dev->model, w, (uint32_t)n);
    double end = 0;
    for (size_t i = 0; i < n && !r; i++) {
        struct CUevent_st *e = c->log.p[i].event;
        if (w[i].end_us > end)
            end = w[i].end_us;
        if (e && e->generation == c->generation && e->at == i) {
            e->timed = true;
            e->time_us = c->clock_us + w[i].end_us;
        }
    }
    c->clock_us += end;
    clear(c);
    free(w);
    return cu_from_dt(r);
}

CUresult cu_log_wait(struct CUctx_st *c, struct CUstream_st *s)
{
    bool alone = true;
    if (!c->log.n)
        return CUDA_SUCCESS;
    for (struct CUstream_st *t = c->streams; t; t = t->next)
        alone = alone && (t == s || t->generation != c->generation || !t->last);
    if (!s || alone)
        return cu_log_flush(c);
    return cu_log(s, (struct sg_work){.kind = SG_WORK_HOST}, NULL);
}

CUresult cu_log_follow(struct CUstream_st *s, const struct CUevent_st *e)
{
    fresh(s);
    if (!e->recorded || e->timed || e->ctx != s->ctx || e->generation != s->ctx->generation)
        return CUDA_SUCCESS; /* before this log, or never: nothing to wait for */
    return dt_push(&s->waits, e->at) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void cu_log_forget(struct CUctx_st *c, const struct CUevent_st *e)
{
    for (size_t i = 0; i < c->log.n; i++)
        if (c->log.p[i].event == e)
            c->log.p[i].event = NULL;
}

void cu_log_done(struct CUctx_st *c)
{
    clear(c);
    free(c->log.p);
    c->log.p = NULL;
}
