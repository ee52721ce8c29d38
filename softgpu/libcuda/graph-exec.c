/* Instantiated graphs: run the nodes in one topological order, time them as the graph allows.
 *
 * With a schedule (dovetailSetSchedule) nodes that the edges do not order run side by side instead (graph-beside.c).
 *
 * An exec is a sorted clone. A launch flushes the stream's log, runs every node, simulates the graph as a timeline of
 * its own (so that the footprint that decides about L2 is the graph's), and moves the context's clock to its end. Two
 * graph launches never overlap. Child graphs run in place; their nodes follow the parents' predecessors and end before
 * its successors.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret, CUgraph g, unsigned long long flags)
{
    static unsigned last;
    CU_CONTEXT(c);
    const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    CU_REQUIRE(ret && cu_is(g, CU_GRAPH) && !g->capturing && !(flags & ~known), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH), CUDA_ERROR_NOT_SUPPORTED);
    struct CUgraphExec_st *x = dt_calloc(1, sizeof *x);
    CU_REQUIRE(x, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult r = cu_graph_clone(g, true, &x->graph);
    if (r == CUDA_SUCCESS && !cu_handle_add(x, CU_EXEC)) {
        cu_graph_free(x->graph);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r != CUDA_SUCCESS) {
        free(x);
        return r;
    }
    x->ctx = c;
    x->flags = flags;
    x->id = ++last;
    *ret = x;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *ret, CUgraph g, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    if (p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        CU_REQUIRE(cu_stream(c, p->hUploadStream), CUDA_ERROR_INVALID_HANDLE);
    CUresult r = cuGraphInstantiateWithFlags(ret, g, p->flags);
    p->hErrNode_out = NULL;
    p->result_out = r == CUDA_SUCCESS               ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                    : r == CUDA_ERROR_NOT_SUPPORTED ? CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
                                                    : CUDA_GRAPH_INSTANTIATE_ERROR;
    return r;
}

CUresult cuGraphExecDestroy(CUgraphExec x)
{
    CU_READY();
    CU_REQUIRE(cu_is(x, CU_EXEC), CUDA_ERROR_INVALID_VALUE);
    cu_handle_drop(x);
    if (x->busy) { /* a host function of it runs: the launch frees it */
        x->doomed = true;
        return CUDA_SUCCESS;
    }
    cu_graph_free(x->graph);
    cu_handle_free(x);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec x, cuuint64_t *ret)
{
    CU_READY();
    CU_REQUIRE(ret && cu_is(x, CU_EXEC), CUDA_ERROR_INVALID_VALUE);
    *ret = x->flags;
    return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec x, CUstream stream)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(x, CU_EXEC), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_stream(c, stream), CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}

struct run { /* a launch of an exec */
    struct CUctx_st *c;
    struct dt_vec(struct sg_work) work;
    struct dt_vec(struct CUgraphNode_st *) node; /* of each work */
};

/* Do the node now. */
static CUresult run_node(struct run *r, struct CUgraphNode_st *n, struct sg_work *ret)
{
    struct sg_work w = {.kind = SG_WORK_EVENT};
    struct sg_stats stats = {0};
    switch (n->disabled ? CU_GRAPH_NODE_TYPE_EMPTY : n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        CU_REQUIRE(!cu_launch_stale(&n->launch) && n->launch.f->mod->ctx == r->c, CUDA_ERROR_INVALID_HANDLE);
        CU_TRY(cu_launch_run(r->c, &n->launch, &stats));
        w = cu_launch_work(&n->launch, &stats);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        CU_TRY(cu_copy_run(r->c, &n->copy));
        w = cu_copy_work(&n->copy);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        CU_TRY(cu_set_check(r->c, &n->set, false)); /* the memory may be gone since */
        cu_set_run(r->c, &n->set);
        w = cu_set_work(&n->set);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        cu_call_host(n->host.fn, n->host.userData);
        CU_REQUIRE(cu_is(r->c, CU_CTX), CUDA_ERROR_CONTEXT_IS_DESTROYED); /* it may do anything */
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: CU_TRY(cu_graph_memory_alloc(n->memory)); break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE: CU_TRY(cu_graph_memory_free(n->free)); break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: CU_TRY(cu_memop_run(r->c, n->nop, n->op)); break;
    default: break;
    }
    *ret = w;
    return CUDA_SUCCESS;
}

/* Append the node's work. `after` is allocated here. */
static CUresult add_work(struct run *r, struct CUgraphNode_st *n, struct sg_work w, const uint32_t *before,
                         uint32_t nbefore)
{
    w.in_graph = true;
    size_t room = n->dep.n + nbefore + 1;
    uint32_t *after = dt_calloc(room, sizeof *after + 1); /* and a byte each for `early` */
    CU_REQUIRE(after, CUDA_ERROR_OUT_OF_MEMORY);
    uint8_t *early = (uint8_t *)(after + room);
    for (size_t i = 0; i < n->dep.n; i++) {
        early[w.nafter] = n->edge.p[i].from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        after[w.nafter++] = n->dep.p[i]->mark;
    }
    w.early = early;
    for (uint32_t i = 0; i < nbefore && !n->dep.n; i++)
        after[w.nafter++] = before[i];
    w.after = after;
    if (!dt_push(&r->work, w)) {
        free(after);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CU_REQUIRE(dt_push(&r->node, n), CUDA_ERROR_OUT_OF_MEMORY);
    n->mark = (uint32_t)r->work.n - 1;
    return r->c->sticky;
}

static CUresult run_beside(struct run *r, struct CUgraph_st *g)
{
    struct sg_work *w = dt_calloc(g->node.n + 1, sizeof *w);
    CU_REQUIRE(w, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult res = cu_graph_beside(r->c, g, w);
    for (size_t i = 0; i < g->node.n && res == CUDA_SUCCESS; i++)
        res = add_work(r, g->node.p[i], w[i], NULL, 0);
    free(w);
    return res;
}

static CUresult run_graph(struct run *r, struct CUgraph_st *g, const uint32_t *before, uint32_t nbefore)
{
    for (size_t i = 0; i < g->node.n; i++) {
        struct CUgraphNode_st *n = g->node.p[i];
        struct sg_work w;
        CU_TRY(run_node(r, n, &w));
        CU_TRY(add_work(r, n, w, before, nbefore));
        if (n->type != CU_GRAPH_NODE_TYPE_GRAPH)
            continue;
        /* the child's roots follow an empty work that stands for its start; an empty work after all of it stands for
         * the node */
        uint32_t start = n->mark, first = (uint32_t)r->work.n;
        CU_TRY(run_graph(r, n->child, &start, 1));
        struct sg_work end = {.kind = SG_WORK_EVENT, .in_graph = true};
        uint32_t count = (uint32_t)r->work.n - first, *after = dt_reallocarray(NULL, count + 1, sizeof *after);
        CU_REQUIRE(after, CUDA_ERROR_OUT_OF_MEMORY);
        after[end.nafter++] = start;
        for (uint32_t k = 0; k < count; k++)
            after[end.nafter++] = first + k;
        end.after = after;
        if (!dt_push(&r->work, end)) {
            free(after);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        CU_REQUIRE(dt_push(&r->node, n), CUDA_ERROR_OUT_OF_MEMORY);
        n->mark = (uint32_t)r->work.n - 1;
    }
    return CUDA_SUCCESS;
}

static CUresult give_times(struct run *r)
{
    CU_TRY(cu_from_dt(sg_timeline_of(r->c->dev->model, r->work.p, (uint32_t)r->work.n, r->c->distinct, NULL)));
    double end = 0;
    for (size_t i = 0; i < r->work.n; i++) {
        struct CUgraphNode_st *n = r->node.p[i];
        const struct sg_work *w = &r->work.p[i];
        n->start_us = w->start_us;
        n->end_us = w->end_us;
        if (w->end_us > end)
            end = w->end_us;
        if (n->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && cu_is(n->event, CU_EVENT) && n->event->ctx == r->c) {
            n->event->recorded = n->event->timed = true;
            n->event->time_us = r->c->clock_us + w->end_us;
        }
    }
    r->c->clock_us += end;
    return CUDA_SUCCESS;
}

static void free_on_launch(struct CUgraph_st *g)
{
    for (size_t i = 0; i < g->node.n; i++)
        if (g->node.p[i]->memory)
            cu_graph_memory_free(cu_graph_memory_address(g->node.p[i]->memory));
        else if (g->node.p[i]->child)
            free_on_launch(g->node.p[i]->child);
}

CUresult cuGraphLaunch(CUgraphExec x, CUstream stream)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(cu_is(x, CU_EXEC) && x->ctx == c, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    if (s->capture)
        return cu_capture_graph(s, x->graph);
    CU_REQUIRE(!x->busy, CUDA_ERROR_ILLEGAL_STATE); /* a host function of it launches it again */
    CU_TRY(cu_log_flush(c));
    struct run r = {.c = c};
    if (x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
        free_on_launch(x->graph);
    x->busy++;
    CUresult res = cu_graph_may_beside(c, x->graph) ? run_beside(&r, x->graph) : run_graph(&r, x->graph, NULL, 0);
    x->busy--;
    bool gone = !cu_is(c, CU_CTX);
    if (res == CUDA_SUCCESS && !gone)
        res = give_times(&r);
    x->ran = res == CUDA_SUCCESS;
    if (x->doomed) {
        cu_graph_free(x->graph);
        free(x);
    }
    for (size_t i = 0; i < r.work.n; i++)
        free((void *)(uintptr_t)r.work.p[i].after);
    free(r.work.p);
    free(r.node.p);
    return !gone && c->sticky ? CUDA_SUCCESS : res; /* a fault shows at the next call that waits */
}

CUresult dovetailGraphNodeTime(CUgraphExec x, CUgraphNode node, double *start_us, double *end_us)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(x, CU_EXEC) && x->ran && cu_is(node, CU_NODE) && start_us && end_us, CUDA_ERROR_INVALID_VALUE);
    const struct CUgraphNode_st *n = cu_graph_find(x->graph, node->id);
    CU_REQUIRE(n, CUDA_ERROR_INVALID_VALUE);
    *start_us = n->start_us;
    *end_us = n->end_us;
    return CUDA_SUCCESS;
}
