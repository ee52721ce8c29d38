/* Launches of a bound plan, into a stream or as a CUDA graph. Launching into a stream allocates nothing.
 *
 * Stream 0 of the plan is the caller's stream. The plan's other streams wait at the start for the work in it, and it
 * waits at the end for the last launch of each of them. So the whole plan behaves in the caller's stream like one
 * launch, and is captured like one. An event stands for its latest record at the time of the wait. Recording and
 * waiting of two launches of the plan must therefore not interleave: a lock keeps them apart.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "client/plan-priv.h"
#include "graph/cuda-launch.h"

static int launch_one(const struct dovetail_bound *b, int side, uint32_t i, CUstream stream, struct dt_err *e)
{
    const struct plan_side *s = &b->plan->side[side];
    const struct plan_driver *cu = b->plan->cu;
    const struct dt_launch *l = &s->graph->launch[i];
    CUlaunchAttribute attr[DT_CUDA_ATTRIBUTES];
    CUresult c;
    if (l->kind == DT_MEMSET) {
        c = l->bytes ? cu->cuMemsetD8Async(b->at[l->dst] + l->dst_offset, l->value, l->bytes, stream) : CUDA_SUCCESS;
    } else if (l->kind == DT_COPY) {
        c = l->bytes
                ? cu->cuMemcpyDtoDAsync(b->at[l->dst] + l->dst_offset, b->at[l->src] + l->src_offset, l->bytes, stream)
                : CUDA_SUCCESS;
    } else {
        CUlaunchConfig cfg = dt_cuda_config(l);
        cfg.hStream = stream;
        cfg.attrs = attr;
        cfg.numAttrs = dt_cuda_attributes(l, attr);
        c = cu->cuLaunchKernelEx(&cfg, s->function[i], b->param[side][i], NULL);
    }
    return plan_cu(cu, c, l->name, e);
}

/* All launches; *ret_done: how many were put into a stream. */
static int launch_all(const struct dovetail_bound *b, int side, CUstream stream, uint32_t *ret_done, struct dt_err *e)
{
    const struct plan_side *s = &b->plan->side[side];
    const struct plan_driver *cu = b->plan->cu;
    const struct dt_graph *g = s->graph;
    int r = 0;
    *ret_done = 0;
    if (s->nstream > 1)
        r = plan_cu(cu, cu->cuEventRecord(s->begin, stream), "cuEventRecord", e);
    for (uint32_t k = 1; k < s->nstream && r == 0; k++)
        r = plan_cu(cu, cu->cuStreamWaitEvent(s->stream[k], s->begin, 0), "cuStreamWaitEvent", e);
    for (uint32_t i = 0; i < g->nlaunch && r == 0; i++) {
        const struct dt_launch *l = &g->launch[i];
        CUstream to = l->stream ? s->stream[l->stream] : stream;
        for (uint32_t k = 0; k < l->nafter && r == 0; k++) {
            uint32_t j = dt_graph_find_launch(g, l->after[k]);
            if (g->launch[j].stream != l->stream)
                r = plan_cu(cu, cu->cuStreamWaitEvent(to, s->end[j], 0), "cuStreamWaitEvent", e);
        }
        if (r == 0)
            r = launch_one(b, side, i, to, e);
        *ret_done += r == 0;
        if (r == 0 && s->end[i])
            r = plan_cu(cu, cu->cuEventRecord(s->end[i], to), "cuEventRecord", e);
    }
    /* also after an error: what was put into a branch must not outlive the caller's stream, nor a capture of it */
    for (uint32_t k = 1; k < s->nstream; k++) {
        uint32_t last = DT_NAME_NONE;
        for (uint32_t i = 0; i < *ret_done; i++)
            if (g->launch[i].stream == k)
                last = i;
        if (last != DT_NAME_NONE && s->end[last]) {
            int x = plan_cu(cu, cu->cuStreamWaitEvent(stream, s->end[last], 0), "cuStreamWaitEvent", e);
            r = r == 0 ? x : r;
        }
    }
    return r;
}

/* The posted launches from here on. */
static bool go_back(struct dovetail_bound *b, const struct dt_err *why)
{
    if (!b->ready[PLAN_OLD])
        return false;
    if (!b->why &&
        asprintf(&b->why, "the driver refused the plan: %s", why->detail ? why->detail : dt_err_text(why->num)) < 0)
        b->why = NULL;
    atomic_store(&b->side, PLAN_OLD);
    return true;
}

int dovetail_plan_launch(struct dovetail_bound *b, struct CUstream_st *stream, char **ret_problem)
{
    struct dovetail_plan *p = b->plan;
    struct dt_err e = {0};
    uint32_t done;
    int r = plan_enter(p, &e);
    if (r < 0)
        return plan_failed(&e, ret_problem);
    int side = atomic_load(&b->side);
    bool locked = p->side[side].nstream > 1;
    if (locked)
        pthread_mutex_lock(&p->lock);
    r = launch_all(b, side, stream, &done, &e);
    if (locked)
        pthread_mutex_unlock(&p->lock);
    if (r < 0 && side == PLAN_NEW) {
        pthread_mutex_lock(&p->lock);
        bool back = go_back(b, &e);
        if (back && done == 0) { /* nothing has run: the posted launches do all of the work */
            dt_err_done(&e);
            r = launch_all(b, PLAN_OLD, stream, &done, &e);
        }
        pthread_mutex_unlock(&p->lock);
    }
    plan_leave(p);
    return r < 0 ? plan_failed(&e, ret_problem) : 0;
}

/* ---- as a graph -------------------------------------------------------------------------------------------------- */

static int add_node(const struct dovetail_bound *b, int side, uint32_t i, CUgraph graph, CUgraphNode *ret,
                    struct dt_err *e)
{
    const struct plan_side *s = &b->plan->side[side];
    const struct plan_driver *cu = b->plan->cu;
    const struct dt_launch *l = &s->graph->launch[i];
    CUresult c;
    if (l->kind != DT_KERNEL && !l->bytes) {
        c = cu->cuGraphAddEmptyNode(ret, graph, NULL, 0);
    } else if (l->kind == DT_MEMSET) {
        CUDA_MEMSET_NODE_PARAMS n = {
            .dst = b->at[l->dst] + l->dst_offset, .value = l->value, .elementSize = 1, .width = l->bytes, .height = 1};
        c = cu->cuGraphAddMemsetNode(ret, graph, NULL, 0, &n, b->plan->ctx);
    } else if (l->kind == DT_COPY) {
        CUDA_MEMCPY3D n = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = b->at[l->src] + l->src_offset,
                           .dstDevice = b->at[l->dst] + l->dst_offset,
                           .WidthInBytes = l->bytes,
                           .Height = 1,
                           .Depth = 1};
        c = cu->cuGraphAddMemcpyNode(ret, graph, NULL, 0, &n, b->plan->ctx);
    } else {
        CUDA_KERNEL_NODE_PARAMS n = dt_cuda_node(l);
        n.func = s->function[i];
        n.kernelParams = b->param[side][i];
        CUlaunchAttribute attr[DT_CUDA_ATTRIBUTES];
        c = cu->cuGraphAddKernelNode(ret, graph, NULL, 0, &n);
        if (c == CUDA_SUCCESS && l->cluster[0]) { /* the first; edges say the rest */
            dt_cuda_attributes(l, attr);
            c = cu->cuGraphKernelNodeSetAttribute(*ret, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &attr[0].value);
        }
    }
    return plan_cu(cu, c, l->name, e);
}

/* The launch right before i in its stream, or DT_NAME_NONE. */
static uint32_t plan_launch_before(const struct dt_graph *g, uint32_t i)
{
    for (uint32_t k = i; k-- > 0;)
        if (g->launch[k].stream == g->launch[i].stream)
            return k;
    return DT_NAME_NONE;
}

static int add_edges(const struct dovetail_bound *b, int side, uint32_t i, CUgraph graph, const CUgraphNode *node,
                     struct dt_err *e)
{
    const struct plan_driver *cu = b->plan->cu;
    const struct dt_graph *g = b->plan->side[side].graph;
    const struct dt_launch *l = &g->launch[i];
    uint32_t first = plan_launch_before(g, i);
    int r = 0;
    if (first != DT_NAME_NONE) {
        CUgraphEdgeData how = {0};
        if (l->programmatic && g->launch[first].kind == DT_KERNEL) {
            how.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
            how.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
        }
        r = plan_cu(cu, cu->cuGraphAddDependencies(graph, &node[first], &node[i], &how, 1), "cuGraphAddDependencies",
                    e);
    }
    for (uint32_t k = 0; k < l->nafter && r == 0; k++) {
        uint32_t j = dt_graph_find_launch(g, l->after[k]);
        if (g->launch[j].stream != l->stream) /* else the stream's own order has it */
            r = plan_cu(cu, cu->cuGraphAddDependencies(graph, &node[j], &node[i], NULL, 1), "cuGraphAddDependencies",
                        e);
    }
    return r;
}

static int make_graph(const struct dovetail_bound *b, int side, CUgraph *ret, struct dt_err *e)
{
    const struct plan_driver *cu = b->plan->cu;
    const struct dt_graph *g = b->plan->side[side].graph;
    CUgraph graph = NULL;
    dt_free_ CUgraphNode *node = dt_calloc(g->nlaunch + 1, sizeof *node);
    int r = node ? plan_cu(cu, cu->cuGraphCreate(&graph, 0), "cuGraphCreate", e)
                 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < g->nlaunch && r == 0; i++)
        if ((r = add_node(b, side, i, graph, &node[i], e)) == 0)
            r = add_edges(b, side, i, graph, node, e);
    if (r < 0 && graph)
        cu->cuGraphDestroy(graph);
    if (r == 0)
        *ret = graph;
    return r;
}

int dovetail_plan_graph(struct dovetail_bound *b, struct CUgraph_st **ret, char **ret_problem)
{
    struct dovetail_plan *p = b->plan;
    struct dt_err e = {0};
    int r = plan_enter(p, &e);
    if (r < 0)
        return plan_failed(&e, ret_problem);
    int side = atomic_load(&b->side);
    r = make_graph(b, side, ret, &e);
    if (r < 0 && side == PLAN_NEW) {
        pthread_mutex_lock(&p->lock);
        bool back = go_back(b, &e);
        pthread_mutex_unlock(&p->lock);
        if (back) {
            dt_err_done(&e);
            r = make_graph(b, PLAN_OLD, ret, &e);
        }
    }
    plan_leave(p);
    return r < 0 ? plan_failed(&e, ret_problem) : 0;
}
