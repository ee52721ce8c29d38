/* The time of one pass, as a CUDA graph. Plans are compared with graphs because plain stream launches are an easier
 * baseline.
 *
 * The graph has one explicit node a step, and the edges of order.c, programmatic ones among them. On a real device the
 * graph is replayed: warm-up, then `reps` replays between two events. The result is the median, with 1.57 times the
 * interquartile range over the root of the number as its confidence (95 % for a median). Times of single steps come
 * from a second graph with an event record after every node, in program order. On the software device one replay is
 * enough, because its time is modelled and always the same; steps come from dovetailGraphNodeTime.
 *
 * Not done: CUPTI.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/run-priv.h"
#include "graph/cuda-launch.h"

#define MATRIX 32 /* operations of matrices, which take the software device as long as an instruction of a thread */
#define WARM_UP 3
#define MAX_REPS 10000

void dev_run_forget_graph(struct dev_run *r)
{
    if (r->exec)
        r->dev->cu->cuGraphExecDestroy(r->exec);
    if (r->graph)
        r->dev->cu->cuGraphDestroy(r->graph);
    r->exec = NULL;
    r->graph = NULL;
}

static int add_node(struct dev_run *r, uint32_t i, CUgraph graph, const CUgraphNode *dep, size_t ndep, CUgraphNode *ret,
                    struct dt_err *e)
{
    const struct dt_launch *l = &r->prog->graph->launch[i];
    const struct dev_step *s = &r->prog->step[i];
    struct dev_device *d = r->dev;
    if (l->kind == DT_MEMSET) {
        CUDA_MEMSET_NODE_PARAMS p = {.dst = r->addr[l->dst] + l->dst_offset,
                                     .value = l->value,
                                     .elementSize = 1,
                                     .width = l->bytes,
                                     .height = 1};
        return dev_cu(d, d->cu->cuGraphAddMemsetNode(ret, graph, dep, ndep, &p, d->ctx), l->name, e);
    }
    if (l->kind == DT_COPY) {
        CUDA_MEMCPY3D p = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = r->addr[l->src] + l->src_offset,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = r->addr[l->dst] + l->dst_offset,
                           .WidthInBytes = l->bytes,
                           .Height = 1,
                           .Depth = 1};
        return dev_cu(d, d->cu->cuGraphAddMemcpyNode(ret, graph, dep, ndep, &p, d->ctx), l->name, e);
    }
    size_t n = s->param_total;
    dt_free_ uint8_t *params = dt_malloc(n + 1);
    if (!params)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int err = dev_run_params(r, i, params);
    if (err < 0)
        return dt_err_set(e, err, "launch %.200s: its arguments cannot be bound", l->name);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &n, CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS p = dt_cuda_node(l);
    p.func = r->function[i];
    p.extra = n ? extra : NULL;
    err = dev_cu(d, d->cu->cuGraphAddKernelNode(ret, graph, dep, ndep, &p), l->name, e);
    if (!err && l->cluster[0]) {
        CUkernelNodeAttrValue v = {.clusterDim = {l->cluster[0], l->cluster[1], l->cluster[2]}};
        err = dev_cu(d, d->cu->cuGraphKernelNodeSetAttribute(*ret, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &v), l->name,
                     e);
    }
    return err;
}

/* The edges into node i, from launches that are there. */
static int time_connect(struct dev_run *r, const struct dev_order *o, uint32_t first, uint32_t i, struct dt_err *e)
{
    static const CUgraphEdgeData programmatic = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                                 .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    struct dev_device *d = r->dev;
    int err = 0;
    for (uint32_t k = o->at[i]; k < o->at[i + 1] && !err; k++)
        err = o->after[k] < first ? 0
                                  : dev_cu(d,
                                           d->cu->cuGraphAddDependencies(r->graph, &r->node[o->after[k]], &r->node[i],
                                                                         o->early[k] ? &programmatic : NULL, 1),
                                           r->prog->graph->launch[i].name, e);
    return err;
}

/* Launches first to first + n - 1. */
static int build_part(struct dev_run *r, uint32_t first, uint32_t n, struct dt_err *e)
{
    const struct dt_graph *g = r->prog->graph;
    struct dev_device *d = r->dev;
    struct dev_order o = {0};
    if (r->exec && r->exec_first == first && r->exec_n == n)
        return 0;
    dev_run_forget_graph(r);
    free(r->node);
    r->node = dt_calloc(g->nlaunch + 1, sizeof *r->node);
    int err = r->node && dev_order_new(g, &o) == 0 ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (!err)
        err = dev_cu(d, d->cu->cuGraphCreate(&r->graph, 0), "cuGraphCreate", e);
    for (uint32_t i = first; i < first + n && !err; i++) {
        err = add_node(r, i, r->graph, NULL, 0, &r->node[i], e);
        if (!err)
            err = time_connect(r, &o, first, i, e);
    }
    if (!err)
        err = dev_cu(d, d->cu->cuGraphInstantiateWithFlags(&r->exec, r->graph, 0), "cuGraphInstantiate", e);
    if (err < 0)
        dev_run_forget_graph(r);
    r->exec_first = first;
    r->exec_n = n;
    dev_order_done(&o);
    return err;
}

static int time_build(struct dev_run *r, struct dt_err *e) { return build_part(r, 0, r->prog->graph->nlaunch, e); }

int dev_run_build(struct dev_run *r, struct dt_err *e) { return time_build(r, e); }

int dev_run_beside(struct dev_run *r, uint32_t first, uint32_t n, struct dt_err *e)
{
    struct dev_device *d = r->dev;
    struct dovetail_fault f = {0};
    uint32_t i = first;
    int err = build_part(r, first, n, e);
    if (!err)
        err = dev_cu(d, d->cu->cuGraphLaunch(r->exec, r->stream[0]), "cuGraphLaunch", e);
    if (!err)
        err = dev_sync(d, e);
    if (err < 0 && d->cu->dovetailGetFault(&f) == CUDA_SUCCESS && f.num)
        while (i + 1 < first + n &&
               (r->prog->graph->launch[i].kind != DT_KERNEL || strcmp(r->prog->graph->launch[i].entry, f.kernel)))
            i++;
    return dev_run_fault(r, i, err, e);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(const double *sorted, unsigned n, double q)
{
    double i = q * (n - 1);
    unsigned lo = (unsigned)i;
    return lo + 1 < n ? sorted[lo] + (sorted[lo + 1] - sorted[lo]) * (i - lo) : sorted[n - 1];
}

/* Replays between events, on stream 0. */
static int replay(struct dev_run *r, unsigned warm, unsigned reps, double *us, struct dt_err *e)
{
    struct dev_device *d = r->dev;
    CUevent ev[2] = {NULL, NULL};
    CUstream s = r->stream[0];
    int err = 0;
    for (int i = 0; i < 2 && !err; i++)
        err = dev_cu(d, d->cu->cuEventCreate(&ev[i], CU_EVENT_DEFAULT), "cuEventCreate", e);
    for (unsigned i = 0; i < warm + reps && !err; i++) {
        float ms = 0;
        err = dev_cu(d, d->cu->cuEventRecord(ev[0], s), "cuEventRecord", e);
        if (!err)
            err = dev_cu(d, d->cu->cuGraphLaunch(r->exec, s), "cuGraphLaunch", e);
        if (!err)
            err = dev_cu(d, d->cu->cuEventRecord(ev[1], s), "cuEventRecord", e);
        if (!err)
            err = dev_wait_event(d, ev[1], e);
        if (!err)
            err = dev_cu(d, d->cu->cuEventElapsedTime(&ms, ev[0], ev[1]), "cuEventElapsedTime", e);
        if (i >= warm)
            us[i - warm] = ms * 1000.0;
    }
    for (int i = 0; i < 2; i++)
        if (ev[i])
            d->cu->cuEventDestroy(ev[i]);
    return err;
}

/* The model hears what the launches touch at most, all together: the buffers that they use, each once. Scratch takes no
 * more than the posted intermediates that no launch has any more, if there are some: it will share their bytes
 * (rewrite/normal/layout.c). */
static int tell_distinct(struct dev_device *d, const struct dt_graph *g, struct dt_err *e)
{
    size_t bytes = 0;
    dt_free_ bool *used = dt_calloc(g->nbuffer + 1, sizeof *used);
    if (!used)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < g->nlaunch; i++) {
        const struct dt_launch *l = &g->launch[i];
        if (l->kind != DT_KERNEL)
            used[l->dst] = true;
        if (l->kind == DT_COPY)
            used[l->src] = true;
        for (uint32_t k = 0; k < l->narg; k++) {
            if (l->arg[k].kind == DT_ARG_BUFFER || l->arg[k].kind == DT_ARG_TENSOR_MAP)
                used[l->arg[k].buffer] = true;
            for (uint32_t p = 0; l->arg[k].kind == DT_ARG_BYTES && p < l->arg[k].npointer; p++)
                used[l->arg[k].pointer[p].buffer] = true;
        }
    }
    size_t scratch = 0, left = 0;
    for (uint32_t i = 0; i < g->nbuffer; i++) {
        bytes += used[i] && g->buffer[i].role != DT_SCRATCH ? g->buffer[i].bytes : 0;
        scratch += used[i] && g->buffer[i].role == DT_SCRATCH ? g->buffer[i].bytes : 0;
        left += !used[i] && g->buffer[i].role == DT_INTERMEDIATE ? g->buffer[i].bytes : 0;
    }
    bytes += left && left < scratch ? left : scratch;
    return dev_cu(d, d->cu->dovetailSetDistinct(bytes), "dovetailSetDistinct", e);
}

static int modelled(struct dev_run *r, struct dev_time *ret, double *step_us, struct dt_err *e)
{
    const struct dt_graph *g = r->prog->graph;
    struct dev_device *d = r->dev;
    int err = tell_distinct(d, g, e);
    if (!err)
        err = dev_cu(d, d->cu->cuGraphLaunch(r->exec, r->stream[0]), "cuGraphLaunch", e);
    if (!err)
        err = dev_sync(d, e);
    double start, end, total = 0;
    for (uint32_t i = 0; i < g->nlaunch && !err; i++) {
        err = dev_cu(d, d->cu->dovetailGraphNodeTime(r->exec, r->node[i], &start, &end), "dovetailGraphNodeTime", e);
        if (err < 0)
            break;
        if (step_us)
            step_us[i] = end - start;
        total = end > total ? end : total;
    }
    if (!err) {
        *ret = (struct dev_time){.time_us = total, .ci95_us = 0, .launches = g->nlaunch};
        snprintf(ret->method, sizeof ret->method, "modeled:%s", d->info.model);
    }
    return err;
}

int dev_run_timeline(struct dev_run *r, double *start_us, double *end_us, struct dt_err *e)
{
    int err = 0;
    if (!r->dev->info.soft || !r->exec)
        return dt_err_set(e, DT_E_UNSUPPORTED, "there is no modelled timeline");
    for (uint32_t i = 0; i < r->prog->graph->nlaunch && !err; i++)
        err = dev_cu(r->dev, r->dev->cu->dovetailGraphNodeTime(r->exec, r->node[i], &start_us[i], &end_us[i]),
                     "dovetailGraphNodeTime", e);
    return err;
}

/* Every step alone in a row, an event after each. */
static int measure_steps(struct dev_run *r, unsigned reps, double *step_us, struct dt_err *e)
{
    const struct dt_graph *g = r->prog->graph;
    struct dev_device *d = r->dev;
    uint32_t n = g->nlaunch;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node = NULL, step;
    CUevent *ev = dt_calloc(n + 1, sizeof *ev);
    double *us = dt_reallocarray(NULL, (size_t)n * reps + 1, sizeof *us);
    int err = ev && us ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i <= n && !err; i++)
        err = dev_cu(d, d->cu->cuEventCreate(&ev[i], CU_EVENT_DEFAULT), "cuEventCreate", e);
    if (!err)
        err = dev_cu(d, d->cu->cuGraphCreate(&graph, 0), "cuGraphCreate", e);
    if (!err)
        err = dev_cu(d, d->cu->cuGraphAddEventRecordNode(&node, graph, NULL, 0, ev[0]), "cuGraphAddEventRecordNode", e);
    for (uint32_t i = 0; i < n && !err; i++) {
        err = add_node(r, i, graph, &node, 1, &step, e);
        if (!err)
            err = dev_cu(d, d->cu->cuGraphAddEventRecordNode(&node, graph, &step, 1, ev[i + 1]),
                         "cuGraphAddEventRecordNode", e);
    }
    if (!err)
        err = dev_cu(d, d->cu->cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiate", e);
    for (unsigned k = 0; k < WARM_UP + reps && !err; k++) {
        err = dev_cu(d, d->cu->cuGraphLaunch(exec, r->stream[0]), "cuGraphLaunch", e);
        if (!err)
            err = dev_sync(d, e);
        for (uint32_t i = 0; i < n && !err && k >= WARM_UP; i++) {
            float ms = 0;
            err = dev_cu(d, d->cu->cuEventElapsedTime(&ms, ev[i], ev[i + 1]), "cuEventElapsedTime", e);
            us[(size_t)i * reps + k - WARM_UP] = ms * 1000.0;
        }
    }
    for (uint32_t i = 0; i < n && !err; i++) {
        qsort(us + (size_t)i * reps, reps, sizeof *us, ascending);
        step_us[i] = at(us + (size_t)i * reps, reps, 0.5);
    }
    if (exec)
        d->cu->cuGraphExecDestroy(exec);
    if (graph)
        d->cu->cuGraphDestroy(graph);
    for (uint32_t i = 0; ev && i <= n; i++)
        if (ev[i])
            d->cu->cuEventDestroy(ev[i]);
    free(ev);
    free(us);
    return err;
}

int dev_run_time(struct dev_run *r, unsigned reps, struct dev_time *ret, double *step_us, struct dt_err *e)
{
    int err = dev_run_live(r, e);
    if (!err && !r->prog->graph->nlaunch)
        err = dt_err_set(e, DT_E_USAGE, "the graph has no launches");
    if (!err)
        err = time_build(r, e);
    if (err < 0)
        return err;
    if (r->dev->cu->soft)
        return modelled(r, ret, step_us, e);
    reps = reps < 1 ? 1 : reps > MAX_REPS ? MAX_REPS : reps;
    double *us = dt_reallocarray(NULL, reps, sizeof *us);
    if (!us)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    err = replay(r, WARM_UP, reps, us, e);
    if (!err) {
        qsort(us, reps, sizeof *us, ascending);
        struct dev_time t = {.time_us = at(us, reps, 0.5), .launches = r->prog->graph->nlaunch};
        t.ci95_us = 1.57 * (at(us, reps, 0.75) - at(us, reps, 0.25)) / sqrt(reps);
        snprintf(t.method, sizeof t.method, "measured:events");
        *ret = t;
    }
    free(us);
    return !err && step_us ? measure_steps(r, reps < 20 ? reps : 20, step_us, e) : err;
}

/* ---- from costs -------------------------------------------------------------------------------------------------- */

int dev_run_cost(struct dev_run *r, uint32_t step, struct dev_cost *ret, struct dt_err *e)
{
    struct dev_device *d = r->dev;
    struct dovetail_work w;
    _Static_assert(sizeof w == sizeof ret->work, "a cost holds a work");
    int err = dev_run_live(r, e);
    if (!err && (!d->cu->soft || step >= r->prog->graph->nlaunch))
        err = dt_err_set(e, DT_E_UNSUPPORTED, "only the software device has costs");
    if (err < 0 || r->prog->graph->launch[step].kind != DT_KERNEL)
        return err;
    err = dev_cu(d, d->cu->dovetailLastWork(&w), "dovetailLastWork", e);
    if (!err) {
        memcpy(ret->work, &w, sizeof w);
        struct dovetail_launch_stats s;
        err = dev_cu(d, d->cu->dovetailLastStats(&s), "dovetailLastStats", e);
        ret->instructions = err ? 0 : s.instructions + s.tensor_flops / MATRIX;
        ret->known = !err;
    }
    return err;
}

bool dev_cost_fits(struct dev_device *d, const struct dev_prog *p, uint32_t step, const struct dev_cost *c)
{
    struct dovetail_work w;
    if (dev_use(d, NULL) < 0 || !d->cu->soft)
        return false;
    memcpy(&w, c->work, sizeof w);
    return c->known && d->cu->dovetailCheckWork(&w, p->step[step].blocks, p->step[step].threads) == CUDA_SUCCESS;
}

static int work_ready(struct dev_device *d, const struct dev_cost *c, struct dovetail_work *ret, struct dt_err *e)
{
    int err = dev_use(d, e);
    if (!err && !d->cu->soft)
        err = dt_err_set(e, DT_E_UNSUPPORTED, "only the software device has costs");
    if (!err && !c->known)
        err = dt_err_set(e, DT_E_INTERNAL, "the cost of a launch is not known");
    memcpy(ret, c->work, sizeof *ret);
    return err;
}

bool dev_cost_even(struct dev_device *d, const struct dev_cost *c)
{
    struct dovetail_work w;
    int even = 0;
    return work_ready(d, c, &w, NULL) == 0 && d->cu->dovetailWorkEven(&w, &even) == CUDA_SUCCESS && even;
}

int dev_cost_fetched(struct dev_device *d, const struct dev_cost *c, struct dev_fetched *ret, struct dt_err *e)
{
    struct dovetail_work w;
    int err = work_ready(d, c, &w, e);
    return err ? err
               : dev_cu(d, d->cu->dovetailWorkFetched(&w, &ret->prefetched, &ret->read), "dovetailWorkFetched", e);
}

int dev_cost_set_fetched(struct dev_device *d, struct dev_cost *c, struct dev_fetched f, struct dt_err *e)
{
    struct dovetail_work w;
    int err = work_ready(d, c, &w, e);
    if (!err)
        err = dev_cu(d, d->cu->dovetailWorkSetFetched(&w, f.prefetched, f.read), "dovetailWorkSetFetched", e);
    if (!err)
        memcpy(c->work, &w, sizeof w);
    return err;
}

const char *dev_doubt(struct dev_device *d, unsigned doubt, bool *ret_moot)
{
    const char *name = NULL;
    int moot = 0;
    bool there = dev_use(d, NULL) == 0 && d->cu->soft && d->cu->dovetailDoubt(doubt, &name, &moot) == CUDA_SUCCESS;
    *ret_moot = moot;
    return there ? name : NULL;
}

static int work_of(struct dev_device *d, const struct dt_launch *l, const struct dev_cost *cost,
                   struct dovetail_work *ret, struct dt_err *e)
{
    if (l->kind != DT_KERNEL)
        return dev_cu(d, d->cu->dovetailSetWork(ret, l->bytes, l->kind == DT_COPY), l->name, e);
    if (!cost->known)
        return dt_err_set(e, DT_E_INTERNAL, "the cost of %.200s is not known", l->name);
    memcpy(ret, cost->work, sizeof *ret);
    return 0;
}

int dev_burden(struct dev_device *d, const struct dev_prog *p, const struct dev_cost *cost, uint32_t step,
               double ret[DEV_BURDENS], double *ret_in_flight, struct dt_err *e)
{
    _Static_assert(DEV_BURDENS == DOVETAIL_BURDENS, "the same numbers");
    struct dovetail_work w;
    int err = dev_use(d, e);
    if (!err && !d->cu->soft)
        err = dt_err_set(e, DT_E_UNSUPPORTED, "only the software device has costs");
    if (!err)
        err = work_of(d, &p->graph->launch[step], &cost[step], &w, e);
    return err ? err : dev_cu(d, d->cu->dovetailBurden(&w, ret, ret_in_flight), "dovetailBurden", e);
}

int dev_bound(struct dev_device *d, const struct dev_prog *p, const struct dev_cost *cost, uint32_t step, uint32_t n,
              double bytes, double *ret_us, struct dt_err *e)
{
    dt_free_ struct dovetail_work *w = dt_calloc((size_t)n + 1, sizeof *w);
    int err = w ? dev_use(d, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (!err && !d->cu->soft)
        err = dt_err_set(e, DT_E_UNSUPPORTED, "only the software device has costs");
    for (uint32_t i = 0; i < n && !err; i++)
        err = work_of(d, &p->graph->launch[step + i], &cost[step + i], &w[i], e);
    return err ? err : dev_cu(d, d->cu->dovetailBound(n, w, bytes, ret_us), "dovetailBound", e);
}

/* What the timing model is asked with: works in their order. */
struct asked {
    struct dovetail_work *w;
    struct dev_order o;
};

static void asked_done(struct asked *x)
{
    free(x->w);
    dev_order_done(&x->o);
}

static int ask(struct dev_device *d, const struct dev_prog *p, const struct dev_cost *cost, struct asked *ret,
               struct dt_err *e)
{
    const struct dt_graph *g = p->graph;
    *ret = (struct asked){0};
    int err = dev_use(d, e);
    if (!err && (!d->cu->soft || !g->nlaunch))
        err = dt_err_set(e, DT_E_UNSUPPORTED,
                         g->nlaunch ? "only the software device has costs" : "the graph has no launches");
    if (err < 0)
        return err;
    ret->w = dt_calloc(g->nlaunch, sizeof *ret->w);
    if (!ret->w || dev_order_new(g, &ret->o) < 0)
        err = dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < g->nlaunch && !err; i++)
        err = work_of(d, &g->launch[i], &cost[i], &ret->w[i], e);
    if (!err)
        err = tell_distinct(d, g, e);
    if (err < 0)
        asked_done(ret);
    return err;
}

int dev_model_time(struct dev_device *d, const struct dev_prog *p, const struct dev_cost *cost, const uint8_t *made,
                   unsigned doubt, struct dev_time *ret, double *step_us, double *start_us, double *end_us,
                   struct dt_err *e)
{
    uint32_t n = p->graph->nlaunch;
    int same = 0;
    struct asked x;
    int err = ask(d, p, cost, &x, e);
    if (err < 0)
        return err;
    dt_free_ double *start = dt_calloc(n, sizeof *start), *end = dt_calloc(n, sizeof *end);
    err = start && end
              ? dev_cu(d, d->cu->dovetailTimeline(doubt, n, x.w, x.o.at, x.o.after, x.o.early, made, start, end, &same),
                       "dovetailTimeline", e)
              : dt_err_set(e, DT_E_NOMEM, "out of memory");
    asked_done(&x);
    if (err < 0 || same)
        return err < 0 ? err : 1;
    *ret = (struct dev_time){.launches = n};
    snprintf(ret->method, sizeof ret->method, "modeled:%s", d->info.model);
    for (uint32_t i = 0; i < n; i++) {
        if (step_us)
            step_us[i] = end[i] - start[i];
        if (start_us)
            start_us[i] = start[i];
        if (end_us)
            end_us[i] = end[i];
        ret->time_us = end[i] > ret->time_us ? end[i] : ret->time_us;
    }
    return 0;
}

int dev_model_spans(struct dev_device *d, const struct dev_prog *p, const struct dev_cost *cost, struct dev_place **ret,
                    size_t *ret_n, struct dt_err *e)
{
    uint32_t n = p->graph->nlaunch;
    unsigned count = 0;
    struct asked x;
    int err = ask(d, p, cost, &x, e);
    if (err < 0)
        return err;
    dt_free_ struct dovetail_span *span = dt_calloc(DOVETAIL_SPANS(n), sizeof *span);
    err = span ? dev_cu(d, d->cu->dovetailSpans(n, x.w, x.o.at, x.o.after, x.o.early, span, &count), "dovetailSpans", e)
               : dt_err_set(e, DT_E_NOMEM, "out of memory");
    asked_done(&x);
    if (err < 0)
        return err;
    struct dev_place *v = dt_calloc((size_t)count + 1, sizeof *v);
    if (!v)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (unsigned i = 0; i < count; i++)
        v[i] = (struct dev_place){span[i].work, span[i].first_sm, span[i].last_sm, span[i].blocks,
                                  span[i].mean, span[i].begin_us, span[i].end_us};
    *ret = v;
    *ret_n = count;
    return 0;
}

int dev_model_doubts(struct dev_device *d, const struct dev_prog *p, const struct dev_cost *cost, const uint8_t *made,
                     unsigned ndoubt, double *us, struct dt_err *e)
{
    struct asked x;
    int err = ask(d, p, cost, &x, e);
    if (err < 0)
        return err;
    err = dev_cu(d, d->cu->dovetailTimelines(ndoubt, p->graph->nlaunch, x.w, x.o.at, x.o.after, x.o.early, made, us),
                 "dovetailTimelines", e);
    asked_done(&x);
    return err;
}
