/* Stream capture: work of a capturing stream becomes graph nodes.
 *
 * A capture belongs to the stream that began it; other streams join when they wait for an event that was recorded in it, and must be
 * joined back (by an event that the origin waits for) before it ends. `tail` is what the next node of a stream follows. Modes
 * (global, thread-local, relaxed) are accepted alike: unsafe calls are refused only on the capturing stream and for whole-context waits.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

bool cu_capturing(const struct CUctx_st *c)
{
    for (const struct CUstream_st *s = c->streams; s; s = s->next)
        if (s->capture)
            return true;
    return false;
}

static bool set_tail(struct CUstream_st *s, struct CUgraphNode_st *n)
{
    s->tail.n = 0;
    return dt_push(&s->tail, n);
}

static CUresult new_node(struct CUstream_st *s, CUgraphNodeType type, struct CUgraphNode_st **ret)
{
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
            n->edge.p[i] = (CUgraphEdgeData){.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
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

CUresult cu_capture_record(struct CUstream_st *s, struct CUevent_st *e)
{
    e->tail.n = 0;
    for (size_t i = 0; i < s->tail.n; i++)
        CU_REQUIRE(dt_push(&e->tail, s->tail.p[i]), CUDA_ERROR_OUT_OF_MEMORY);
    e->capture = s->capture;
    e->capture_id = s->capture_id;
    return CUDA_SUCCESS;
}

CUresult cu_capture_wait(struct CUstream_st *s, struct CUevent_st *e)
{
    CU_REQUIRE(e->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    bool alive = false;
    for (struct CUstream_st *t = s->ctx->streams; t; t = t->next)
        alive = alive || (t->capture == e->capture && t->capture_id == e->capture_id);
    CU_REQUIRE(alive, CUDA_ERROR_CAPTURED_EVENT);
    if (!s->capture) {
        CU_REQUIRE(s != s->ctx->null_stream, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        s->capture = e->capture;
        s->capture_id = e->capture_id;
        s->capture_origin = false;
        s->tail.n = 0;
    }
    CU_REQUIRE(s->capture == e->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    for (size_t i = 0; i < e->tail.n; i++) {
        bool there = false;
        for (size_t k = 0; k < s->tail.n; k++)
            there = there || s->tail.p[k] == e->tail.p[i];
        if (!there)
            CU_REQUIRE(dt_push(&s->tail, e->tail.p[i]), CUDA_ERROR_OUT_OF_MEMORY);
    }
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    static uint64_t next_id = 1;
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(s != c->null_stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CU_REQUIRE(!s->capture, CUDA_ERROR_ILLEGAL_STATE);
    s->capture = cu_graph_new();
    CU_REQUIRE(s->capture, CUDA_ERROR_OUT_OF_MEMORY);
    s->capture_origin = true;
    s->capture_id = next_id++;
    s->tail.n = 0;
    return CUDA_SUCCESS;
}

static bool follows(const struct CUgraphNode_st *n, const struct CUgraphNode_st *target)
{
    if (n == target)
        return true;
    for (size_t i = 0; i < n->dep.n; i++)
        if (follows(n->dep.p[i], target))
            return true;
    return false;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *ret)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s && ret, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(s->capture, CUDA_ERROR_ILLEGAL_STATE);
    CU_REQUIRE(s->capture_origin, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    struct CUgraph_st *g = s->capture;
    bool joined = true;
    for (struct CUstream_st *t = c->streams; t; t = t->next) {
        if (t == s || t->capture != g)
            continue;
        for (size_t i = 0; i < t->tail.n; i++) {
            bool found = false;
            for (size_t k = 0; k < s->tail.n; k++)
                found = found || follows(s->tail.p[k], t->tail.p[i]);
            joined = joined && found;
        }
        t->capture = NULL;
        t->tail.n = 0;
    }
    s->capture = NULL;
    s->capture_origin = false;
    s->tail.n = 0;
    if (!joined) {
        cu_graph_free(g);
        *ret = NULL;
        return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    *ret = g;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *ret)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s && ret, CUDA_ERROR_INVALID_VALUE);
    *ret = s->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CU_REQUIRE(mode, CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureMode was = now;
    now = *mode;
    *mode = was;
    return CUDA_SUCCESS;
}
