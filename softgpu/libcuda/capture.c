/* Stream capture: work of a capturing stream becomes graph nodes.
 *
 * A capture belongs to the stream that began it. Other streams join it when they wait for an event that was recorded in
 * it. They must be joined back (by an event that the first stream waits for) before the capture ends. `tail` is what
 * the next node of a stream follows. The graph of a capture has what all its streams share.
 *
 * Some calls may not be made while a stream captures: allocation, a wait of the host, work of the legacy stream. Such a
 * call fails and breaks the capture, which then ends in CUDA_ERROR_STREAM_CAPTURE_INVALIDATED. The mode of the capture
 * says whose calls count: `global` forbids them in every thread, `thread-local` in the capturing thread, `relaxed`
 * nowhere. A thread may exempt itself (cuThreadExchangeStreamCaptureMode).
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult cu_capture_unsafe(struct CUctx_st *c)
{
    CUresult r = CUDA_SUCCESS;
    for (struct CUstream_st *s = c->streams; s && thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED; s = s->next) {
        struct CUgraph_st *g = s->capture;
        if (!g || g->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
            continue;
        bool mine = g->thread == cu_thread();
        if (mine || (g->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) {
            g->broken = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return r;
}

CUresult cu_capture_legacy(struct CUctx_st *c, const struct CUstream_st *s)
{
    CUresult r = CUDA_SUCCESS;
    for (struct CUstream_st *t = c->streams; t && s == c->null_stream; t = t->next)
        if (t->capture && !(t->flags & CU_STREAM_NON_BLOCKING)) { /* it would have to wait for work that does not run */
            t->capture->broken = true;
            r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return r;
}

static bool set_tail(struct CUstream_st *s, struct CUgraphNode_st *n)
{
    s->tail.n = 0;
    return dt_push(&s->tail, n);
}

static CUresult new_node(struct CUstream_st *s, CUgraphNodeType type, struct CUgraphNode_st **ret)
{
    CU_REQUIRE(!s->capture->broken, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CU_TRY(cu_node_new(s->capture, type, s->tail.p, s->tail.n, ret));
    return set_tail(s, *ret) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cu_capture_launch(struct CUstream_st *s, struct cu_launch *l)
{
    struct CUgraphNode_st *n;
    CU_TRY(new_node(s, CU_GRAPH_NODE_TYPE_EMPTY, &n)); /* so that a failure leaves a node that can run */
    bool programmatic = l->programmatic;
    CU_TRY(cu_node_set_launch(n, l));
    n->type = CU_GRAPH_NODE_TYPE_KERNEL;
    for (size_t i = 0; programmatic && i < n->dep.n; i++)
        if (n->dep.p[i]->type == CU_GRAPH_NODE_TYPE_KERNEL)
            n->edge.p[i] = (CUgraphEdgeData){.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                             .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    return CUDA_SUCCESS;
}

CUresult cu_capture_copy(struct CUstream_st *s, const CUDA_MEMCPY3D *p)
{
    struct CUgraphNode_st *n;
    CU_TRY(new_node(s, CU_GRAPH_NODE_TYPE_MEMCPY, &n));
    n->copy = *p;
    return CUDA_SUCCESS;
}

CUresult cu_capture_set(struct CUstream_st *s, const struct cu_set *set)
{
    struct CUgraphNode_st *n;
    CU_TRY(new_node(s, CU_GRAPH_NODE_TYPE_MEMSET, &n));
    n->set = *set;
    return CUDA_SUCCESS;
}

CUresult cu_capture_host(struct CUstream_st *s, CUhostFn fn, void *user)
{
    struct CUgraphNode_st *n;
    CU_TRY(new_node(s, CU_GRAPH_NODE_TYPE_HOST, &n));
    n->host = (CUDA_HOST_NODE_PARAMS){fn, user};
    return CUDA_SUCCESS;
}

CUresult cu_capture_event(struct CUstream_st *s, CUgraphNodeType type, struct CUevent_st *e)
{
    struct CUgraphNode_st *n;
    CU_TRY(new_node(s, type, &n));
    n->event = e;
    return CUDA_SUCCESS;
}

/* A node whose parameters cu_node_set makes; on failure the node stays, empty. */
static CUresult general(struct CUstream_st *s, const CUgraphNodeParams *p, struct CUgraphNode_st **ret)
{
    CU_TRY(new_node(s, p->type, ret));
    CUresult r = cu_node_set(s->ctx, *ret, p);
    if (r != CUDA_SUCCESS)
        (*ret)->type = CU_GRAPH_NODE_TYPE_EMPTY;
    return r;
}

CUresult cu_capture_alloc(struct CUstream_st *s, const CUmemPoolProps *props, size_t bytes, CUdeviceptr *ret)
{
    struct CUgraphNode_st *n;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    p.alloc.poolProps = *props;
    p.alloc.bytesize = bytes;
    CU_TRY(general(s, &p, &n));
    *ret = n->alloc.dptr;
    return CUDA_SUCCESS;
}

CUresult cu_capture_free(struct CUstream_st *s, CUdeviceptr p)
{
    struct CUgraphNode_st *n;
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    q.free.dptr = p;
    CU_REQUIRE(cu_graph_memory_starts(p), CUDA_ERROR_INVALID_VALUE);
    return general(s, &q, &n);
}

CUresult cu_capture_memop(struct CUstream_st *s, unsigned count, const CUstreamBatchMemOpParams *op)
{
    struct CUgraphNode_st *n;
    CUgraphNodeParams q = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    q.memOp.count = count;
    q.memOp.paramArray = (CUstreamBatchMemOpParams *)(uintptr_t)op;
    return general(s, &q, &n);
}

CUresult cu_capture_graph(struct CUstream_st *s, const struct CUgraph_st *g)
{
    struct CUgraphNode_st *n;
    CU_TRY(new_node(s, CU_GRAPH_NODE_TYPE_EMPTY, &n));
    CU_TRY(cu_graph_clone(g, false, &n->child));
    n->child->owner = n;
    n->type = CU_GRAPH_NODE_TYPE_GRAPH;
    return CUDA_SUCCESS;
}

CUresult cu_capture_record(struct CUstream_st *s, struct CUevent_st *e)
{
    CU_REQUIRE(!s->capture->broken, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    e->tail.n = 0;
    for (size_t i = 0; i < s->tail.n; i++)
        CU_REQUIRE(dt_push(&e->tail, s->tail.p[i]), CUDA_ERROR_OUT_OF_MEMORY);
    e->capture = s->capture;
    e->capture_id = s->capture->capture_id;
    return CUDA_SUCCESS;
}

static CUresult capture_follow(struct CUstream_st *s, CUgraphNode const *n, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool there = false;
        for (size_t k = 0; k < s->tail.n; k++)
            there = there || s->tail.p[k] == n[i];
        if (!there)
            CU_REQUIRE(dt_push(&s->tail, n[i]), CUDA_ERROR_OUT_OF_MEMORY);
    }
    return CUDA_SUCCESS;
}

CUresult cu_capture_wait(struct CUstream_st *s, struct CUevent_st *e)
{
    if (!e->capture) {
        s->capture->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    struct CUgraph_st *g = e->capture;
    CU_REQUIRE(cu_is(g, CU_GRAPH) && g->capturing && g->capture_id == e->capture_id, CUDA_ERROR_CAPTURED_EVENT);
    CU_REQUIRE(!g->broken, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (s->capture && s->capture != g) {
        s->capture->broken = g->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!s->capture) {
        if (s == s->ctx->null_stream) {
            g->broken = true;
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
        s->capture = g;
        s->capture_origin = false;
        s->tail.n = 0;
    }
    return capture_follow(s, e->tail.p, e->tail.n);
}

static CUresult capture_begin(struct CUstream_st *s, struct CUgraph_st *g, CUstreamCaptureMode mode)
{
    static uint64_t last;
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL ||
                   mode == CU_STREAM_CAPTURE_MODE_RELAXED,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(s != s->ctx->null_stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CU_REQUIRE(!s->capture, CUDA_ERROR_ILLEGAL_STATE);
    bool borrowed = g != NULL;
    if (!g)
        g = cu_graph_new();
    CU_REQUIRE(g, CUDA_ERROR_OUT_OF_MEMORY);
    g->capturing = true;
    g->broken = false;
    g->borrowed = borrowed;
    g->mode = mode;
    g->thread = cu_thread();
    g->capture_id = ++last;
    s->capture = g;
    s->capture_origin = true;
    s->tail.n = 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    CU_CONTEXT(c);
    return capture_begin(cu_stream(c, stream), NULL, mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph g, const CUgraphNode *dep, const CUgraphEdgeData *edge,
                                     size_t n, CUstreamCaptureMode mode)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(cu_is(g, CU_GRAPH) && !g->capturing && (!n || dep), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++)
        CU_REQUIRE(cu_is(dep[i], CU_NODE) && dep[i]->graph == g, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(capture_begin(s, g, mode));
    return capture_follow(s, dep, n);
}

/* Every stream leaves the capture. */
static void capture_leave(struct CUctx_st *c, struct CUgraph_st *g)
{
    for (struct CUstream_st *t = c->streams; t; t = t->next)
        if (t->capture == g) {
            t->capture = NULL;
            t->capture_origin = false;
            t->tail.n = 0;
        }
    g->capturing = false;
}

void cu_capture_abandon(struct CUstream_st *s)
{
    struct CUgraph_st *g = s->capture;
    bool origin = s->capture_origin;
    if (!origin) { /* what it did must be joined like that of streams that live */
        for (size_t i = 0; i < s->tail.n; i++)
            s->tail.p[i]->left = true;
        return;
    }
    capture_leave(s->ctx, g);
    s->capture = NULL; /* it is off its context's list already */
    if (!g->borrowed)
        cu_graph_free(g);
}

/* Has every stream of the capture been joined: is its tail among what leads to the origin's tail? */
static CUresult joined(const struct CUstream_st *s, bool *ret)
{
    struct CUgraph_st *g = s->capture;
    struct CUgraphNode_st **stack = dt_reallocarray(NULL, g->node.n + 1, sizeof *stack);
    size_t depth = 0;
    CU_REQUIRE(stack, CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < g->node.n; i++)
        g->node.p[i]->mark = 0;
    for (size_t i = 0; i < s->tail.n; i++)
        if (!s->tail.p[i]->mark) {
            s->tail.p[i]->mark = 1;
            stack[depth++] = s->tail.p[i];
        }
    while (depth) {
        const struct CUgraphNode_st *n = stack[--depth];
        for (size_t i = 0; i < n->dep.n; i++)
            if (!n->dep.p[i]->mark) {
                n->dep.p[i]->mark = 1;
                stack[depth++] = n->dep.p[i];
            }
    }
    free(stack);
    *ret = true;
    for (const struct CUstream_st *t = s->ctx->streams; t; t = t->next)
        for (size_t i = 0; t->capture == g && i < t->tail.n; i++)
            *ret = *ret && t->tail.p[i]->mark;
    for (size_t i = 0; i < g->node.n; i++) {
        *ret = *ret && (!g->node.p[i]->left || g->node.p[i]->mark);
        g->node.p[i]->left = false;
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *ret)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(s->capture, CUDA_ERROR_ILLEGAL_STATE);
    CU_REQUIRE(s->capture_origin, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    struct CUgraph_st *g = s->capture;
    CU_REQUIRE(g->mode == CU_STREAM_CAPTURE_MODE_RELAXED || g->thread == cu_thread(),
               CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    bool all = true;
    CUresult r = g->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : joined(s, &all);
    if (r == CUDA_SUCCESS && !all)
        r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    capture_leave(c, g);
    *ret = r == CUDA_SUCCESS ? g : NULL;
    if (r != CUDA_SUCCESS && !g->borrowed)
        cu_graph_free(g);
    return r;
}

static CUstreamCaptureStatus status(const struct CUstream_st *s)
{
    return !s->capture          ? CU_STREAM_CAPTURE_STATUS_NONE
           : s->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *ret)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = status(s);
    return CUDA_SUCCESS;
}

/* The list of nodes is the stream's own, good until the next call for this stream. Edges carry no data here. */
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *ret, cuuint64_t *id, CUgraph *g,
                                const CUgraphNode **dep, const CUgraphEdgeData **edge, size_t *n)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = status(s);
    bool active = *ret == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (id)
        *id = active ? s->capture->capture_id : 0;
    if (g)
        *g = active ? s->capture : NULL;
    if (dep)
        *dep = active ? s->tail.p : NULL;
    if (edge)
        *edge = NULL;
    if (n)
        *n = active ? s->tail.n : 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *dep, const CUgraphEdgeData *edge, size_t n,
                                           unsigned flags)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(s->capture, CUDA_ERROR_ILLEGAL_STATE);
    CU_REQUIRE(!s->capture->broken, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CU_REQUIRE((flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES || flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) &&
                   (!n || dep),
               CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++)
        CU_REQUIRE(cu_is(dep[i], CU_NODE) && dep[i]->graph == s->capture, CUDA_ERROR_INVALID_VALUE);
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        s->tail.n = 0;
    return capture_follow(s, dep, n);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CU_READY();
    CU_REQUIRE(mode && (unsigned)*mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureMode was = thread_mode;
    thread_mode = *mode;
    *mode = was;
    return CUDA_SUCCESS;
}
