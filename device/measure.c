/* Arms measured in turns: pass by pass, in rotating order, so that drift of clocks and temperature affects all alike.
 *
 *   1. Warm-up: passes of every arm for 0.3 s, so that the clocks have risen, and a few before each set of rounds, so
 *      that nothing is loaded or compiled inside a measured pass. Rounds during which something disturbed the device
 *      are measured again, up to three times in all; the verdict is on the last.
 *   2. `reps` rounds by events. Each pass lies between two events on its first stream. For a cold L2, twice its size is
 *      overwritten before the first event. Ratios to the first arm are taken within a round.
 *   3. Fewer rounds under CUPTI. A pass is then the time from the first start to the last end of what it ran, its steps
 *      are the durations of their records, and the slowdown by tracing is reported (events with over events without).
 *      Graphs are instantiated anew for this, since node ids are given then.
 *
 * CUPTI's time of a pass is published, unless tracing slowed passes down by more than a tenth, as it does where a graph
 * has many tiny nodes. Then the time is that of events, and the method says so.
 *
 * Records of one pass are assigned to steps in order of start: each goes to the first free step with its entry's name
 * and grid. Steps that are equal in both and run side by side may swap; their times are those of one kernel.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "device/measure.h"
#include "device/run-priv.h"

#define REPS 50
#define WARM_UP 5
#define TRACED_REPS 20
#define MAX_REPS 10000
#define NOISE 0.05
#define AWAKE_US 300000
#define ATTEMPTS 3
#define MOST_OVERHEAD 1.1

struct bench {
    struct dev_device *d;
    const struct dev_arm *arm;
    unsigned narm, warm, reps;
    bool cold;
    CUevent ev[2];
    CUdeviceptr flush;
    size_t flush_bytes;
};

static int measure_pass(struct bench *b, unsigned a, double *ret_us, struct dt_err *e)
{
    struct dev_device *d = b->d;
    struct dev_run *r = b->arm[a].run;
    CUstream s = r->stream[0];
    float ms = 0;
    int err = 0;
    if (b->flush)
        err = dev_cu(d, d->cu->cuMemsetD8Async(b->flush, 0x5a, b->flush_bytes, s), "overwriting the L2", e);
    if (!err && b->flush) /* the pass must not be issued while this still runs: its launch cost would hide */
        err = dev_sync(d, e);
    if (!err)
        err = dev_cu(d, d->cu->cuEventRecord(b->ev[0], s), "cuEventRecord", e);
    if (!err)
        err = b->arm[a].stream ? dev_run_issue(r, e) : dev_cu(d, d->cu->cuGraphLaunch(r->exec, s), "cuGraphLaunch", e);
    if (!err)
        err = dev_cu(d, d->cu->cuEventRecord(b->ev[1], s), "cuEventRecord", e);
    if (!err)
        err = dev_wait_event(d, b->ev[1], e);
    if (!err)
        err = dev_cu(d, d->cu->cuEventElapsedTime(&ms, b->ev[0], b->ev[1]), "cuEventElapsedTime", e);
    *ret_us = ms * 1000.0;
    return err;
}

/* us[arm * reps + round]; with a tracer each measured pass is marked 1 + arm + narm * round. */
static int rounds(struct bench *b, unsigned reps, struct dev_tracer *t, double *us, struct dt_err *e)
{
    double ignored;
    int err = 0;
    for (unsigned k = 0; k < b->warm + reps && !err; k++)
        for (unsigned q = 0; q < b->narm && !err; q++) {
            unsigned a = (q + k) % b->narm;
            bool counts = k >= b->warm;
            if (t)
                err = dev_trace_mark(t, counts ? 1 + a + (uint64_t)b->narm * (k - b->warm) : 0, e);
            if (!err)
                err = measure_pass(b, a, counts ? &us[(size_t)a * reps + k - b->warm] : &ignored, e);
        }
    return err;
}

static int measure_build(struct bench *b, bool anew, struct dt_err *e)
{
    int err = 0;
    for (unsigned a = 0; a < b->narm && anew; a++) /* arms may share a run: all are forgotten before any is built */
        dev_run_forget_graph(b->arm[a].run);
    for (unsigned a = 0; a < b->narm && !err; a++)
        if (!b->arm[a].stream)
            err = dev_run_build(b->arm[a].run, e);
    return err;
}

/* ---- what CUPTI saw ---------------------------------------------------------------------------------------------- */
static bool measure_fits(const struct dev_record *r, const struct dt_launch *l)
{
    if (l->kind == DT_MEMSET)
        return r->what == DEV_ACT_MEMSET && r->bytes == l->bytes;
    if (l->kind == DT_COPY)
        return r->what == DEV_ACT_COPY && r->bytes == l->bytes;
    size_t n = strnlen(l->entry, sizeof r->name - 1);
    return r->what == DEV_ACT_KERNEL && strlen(r->name) == n && !memcmp(r->name, l->entry, n) &&
           !memcmp(r->grid, l->grid, sizeof r->grid);
}

/* Times of the steps of pass `mark`, into us[step * reps + round]; false: a step has no record. */
static bool steps_of(const struct dev_trace *t, uint64_t mark, const struct dt_graph *g, bool *taken, double *us,
                     unsigned reps, unsigned round, uint32_t *registers)
{
    uint32_t found = 0;
    memset(taken, 0, g->nlaunch);
    for (size_t i = 0; i < t->nrecord; i++) {
        const struct dev_record *r = &t->record[i];
        if (r->external != mark)
            continue;
        for (uint32_t k = 0; k < g->nlaunch; k++)
            if (!taken[k] && measure_fits(r, &g->launch[k])) {
                taken[k] = true;
                us[(size_t)k * reps + round] = (double)(r->end_ns - r->start_ns) / 1000;
                registers[k] = r->registers;
                found++;
                break;
            }
    }
    return found == g->nlaunch;
}

static int understand(struct bench *b, const struct dev_trace *t, unsigned reps, struct dev_measured *ret, char *why,
                      size_t nwhy, struct dt_err *e)
{
    for (unsigned a = 0; a < b->narm; a++) {
        const struct dt_graph *g = b->arm[a].run->prog->graph;
        struct dev_measured *m = &ret[a];
        dt_free_ double *span = dt_calloc(reps, sizeof *span), *idle = dt_calloc(reps, sizeof *idle);
        dt_free_ double *us = dt_calloc((size_t)g->nlaunch * reps + 1, sizeof *us);
        dt_free_ bool *taken = dt_calloc(g->nlaunch + 1, sizeof *taken);
        double *step = dt_calloc(g->nlaunch + 1, sizeof *step);
        uint32_t *registers = dt_calloc(g->nlaunch + 1, sizeof *registers);
        bool all = span && idle && us && taken && step && registers;
        int err = all ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
        for (unsigned k = 0; k < reps && all; k++) {
            uint64_t mark = 1 + a + (uint64_t)b->narm * k;
            struct dev_span s = dev_activity_span(t, mark);
            span[k] = s.span_us;
            idle[k] = s.idle_us;
            all = steps_of(t, mark, g, taken, us, reps, k, registers);
        }
        if (all) {
            struct dev_stats x;
            dev_stats(span, reps, &m->time);
            dev_stats(idle, reps, &x);
            m->idle_us = x.median;
            for (uint32_t k = 0; k < g->nlaunch; k++) {
                dev_stats(us + (size_t)k * reps, reps, &x);
                step[k] = x.median;
            }
            snprintf(m->method, sizeof m->method, "measured:cupti");
            m->step_us = step;
            m->registers = registers;
        } else {
            free(step);
            free(registers);
            if (!err)
                snprintf(why, nwhy, "CUPTI's records do not cover every launch (%zu records, %llu dropped)", t->nrecord,
                         (unsigned long long)t->dropped);
        }
        if (err < 0)
            return err;
    }
    return 0;
}

/* Failing to trace is no failure: why has the reason. */
static int traced(struct bench *b, struct dev_measured *ret, struct dev_verdict *v, struct dt_err *e)
{
    struct dev_tracer *t = NULL;
    struct dev_trace trace = {0};
    struct dt_err no = {0};
    unsigned reps = b->reps < TRACED_REPS ? b->reps : TRACED_REPS;
    dt_free_ double *us = dt_calloc((size_t)reps * b->narm, sizeof *us);
    if (!us)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (dev_trace_begin(b->d, &t, NULL, &no) < 0) {
        snprintf(v->trace, sizeof v->trace, "%s", no.detail ? no.detail : "no CUPTI");
        dt_err_done(&no);
        return 0;
    }
    int err = measure_build(b, true, e);
    if (!err)
        err = rounds(b, reps, t, us, e);
    if (err < 0) {
        dev_trace_cancel(t);
        return err;
    }
    if (dev_trace_end(t, &trace, &no) < 0) {
        snprintf(v->trace, sizeof v->trace, "%s", no.detail ? no.detail : "CUPTI failed");
        dt_err_done(&no);
        return measure_build(b, true, e);
    }
    err = understand(b, &trace, reps, ret, v->trace, sizeof v->trace, e);
    for (unsigned a = 0; a < b->narm && !err; a++) {
        struct dev_stats with;
        dev_stats(us + (size_t)a * reps, reps, &with);
        ret[a].overhead = ret[a].events.median > 0 ? with.median / ret[a].events.median : 0;
    }
    dev_trace_done(&trace);
    return err < 0 ? err : measure_build(b, true, e);
}

/* An idle GPU lowers its clocks, and small passes with gaps between raise them slowly: work until they have had time to
 * rise. */
static int awake(struct bench *b, struct dt_err *e)
{
    uint64_t start = dt_now_us();
    double ignored;
    int err = 0;
    do
        for (unsigned a = 0; a < b->narm && !err; a++)
            err = measure_pass(b, a, &ignored, e);
    while (!err && dt_now_us() - start < AWAKE_US);
    return err;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */
static int modelled(struct dev_device *d, const struct dev_arm *arm, unsigned narm, struct dev_measured *ret,
                    struct dt_err *e)
{
    for (unsigned a = 0; a < narm; a++) {
        struct dev_measured *m = &ret[a];
        struct dev_time t;
        uint32_t n = arm[a].run->prog->graph->nlaunch;
        m->idle_us = -1;
        m->step_us = dt_calloc(n + 1, sizeof *m->step_us);
        int err =
            m->step_us ? dev_run_time(arm[a].run, 1, &t, m->step_us, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
        if (err < 0)
            return err;
        dev_stats(&t.time_us, 1, &m->time);
        m->events = m->time;
        double r = m->time.median > 0 ? ret[0].time.median / m->time.median : 1;
        dev_stats(&r, 1, &m->ratio);
        r = ret[0].time.median - m->time.median;
        dev_stats(&r, 1, &m->gain);
        snprintf(m->method, sizeof m->method, "%s", t.method);
    }
    return 0;
}

static void judge(struct bench *b, struct dev_measured *ret, double noise, struct dev_verdict *v)
{
    char text[200];
    const char *why = dev_disturbed(&v->before, &v->after, text, sizeof text);
    v->publish = !why;
    if (why)
        snprintf(v->why, sizeof v->why, "%s", why);
    for (unsigned a = 0; a < b->narm; a++) {
        const struct dev_stats *s = &ret[a].time;
        if (v->publish && s->hi - s->lo > 2 * noise * s->median) {
            v->publish = false;
            snprintf(v->why, sizeof v->why,
                     "the 95 %% interval of arm %u is %.3f to %.3f us round %.3f: over %.0f %% either way", a, s->lo,
                     s->hi, s->median, noise * 100);
        }
    }
}

int dev_measure(struct dev_device *d, const struct dev_arm *arm, unsigned narm, const struct dev_measure_options *o,
                struct dev_measured *ret, struct dev_verdict *v, struct dt_err *e)
{
    struct bench b = {.d = d, .arm = arm, .narm = narm, .warm = o->warm_up ? o->warm_up : WARM_UP, .cold = o->cold};
    b.reps = o->reps ? o->reps < MAX_REPS ? o->reps : MAX_REPS : REPS;
    memset(ret, 0, narm * sizeof *ret);
    memset(v, 0, sizeof *v);
    int err = narm ? 0 : dt_err_set(e, DT_E_USAGE, "there is nothing to measure");
    for (unsigned a = 0; a < narm && !err; a++) {
        ret[a].idle_us = -1;
        err = dev_run_live(arm[a].run, e);
        if (!err && !arm[a].run->prog->graph->nlaunch)
            err = dt_err_set(e, DT_E_USAGE, "the graph has no launches");
    }
    if (err < 0)
        return err;
    if (d->cu->soft) {
        v->publish = true;
        return modelled(d, arm, narm, ret, e);
    }
    double *us = dt_calloc((size_t)b.reps * narm, sizeof *us), *ratio = dt_calloc(b.reps, sizeof *ratio);
    if (!us || !ratio)
        err = dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (int i = 0; i < 2 && !err; i++)
        err = dev_cu(d, d->cu->cuEventCreate(&b.ev[i], CU_EVENT_DEFAULT), "cuEventCreate", e);
    if (!err && o->cold) {
        b.flush_bytes = 2 * (size_t)d->info.l2_bytes;
        err =
            dev_cu(d, d->cu->cuMemAlloc(&b.flush, b.flush_bytes ? b.flush_bytes : 1), "memory to overwrite the L2", e);
    }
    if (!err)
        err = measure_build(&b, false, e);
    for (unsigned attempt = 0; attempt < ATTEMPTS && !err; attempt++) {
        char text[200];
        err = awake(&b, e);
        dev_state(d, &v->before);
        if (!err)
            err = rounds(&b, b.reps, NULL, us, e);
        dev_state(d, &v->after);
        if (!err && !dev_disturbed(&v->before, &v->after, text, sizeof text))
            break;
    }
    for (unsigned a = narm; a-- && !err;) { /* dev_stats sorts: the first arm last */
        for (unsigned k = 0; k < b.reps; k++)
            ratio[k] = us[(size_t)a * b.reps + k] > 0 ? us[k] / us[(size_t)a * b.reps + k] : 1;
        dev_stats(ratio, b.reps, &ret[a].ratio);
        for (unsigned k = 0; k < b.reps; k++)
            ratio[k] = us[k] - us[(size_t)a * b.reps + k];
        dev_stats(ratio, b.reps, &ret[a].gain);
        dev_stats(us + (size_t)a * b.reps, b.reps, &ret[a].events);
        ret[a].time = ret[a].events;
        snprintf(ret[a].method, sizeof ret[a].method, "measured:events");
    }
    if (!err && !o->no_trace)
        err = traced(&b, ret, v, e);
    bool all = true; /* by one method, or they do not compare */
    for (unsigned a = 0; a < narm && !err; a++) {
        if (ret[a].overhead > MOST_OVERHEAD)
            snprintf(v->trace, sizeof v->trace, "tracing made arm %u %.2f times as long: passes are timed by events", a,
                     ret[a].overhead);
        all = all && ret[a].overhead <= MOST_OVERHEAD && !strcmp(ret[a].method, "measured:cupti");
    }
    for (unsigned a = 0; a < narm && !err && !all; a++) {
        ret[a].time = ret[a].events;
        snprintf(ret[a].method, sizeof ret[a].method, "measured:events");
    }
    if (!err)
        judge(&b, ret, o->noise > 0 ? o->noise : NOISE, v);
    for (int i = 0; i < 2; i++)
        if (b.ev[i])
            d->cu->cuEventDestroy(b.ev[i]);
    if (b.flush)
        d->cu->cuMemFree(b.flush);
    for (unsigned a = 0; a < narm && err < 0; a++)
        dev_measured_done(&ret[a]);
    free(us);
    free(ratio);
    return err;
}

void dev_measured_done(struct dev_measured *m)
{
    free(m->step_us);
    free(m->registers);
    m->step_us = NULL;
    m->registers = NULL;
}
