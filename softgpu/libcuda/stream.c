/* Streams.
 *
 * All work runs in the order of the calls, which keeps the order of each stream. The timeline (timeline.c) decides what
 * overlaps in time.
 */
#include <stdlib.h>

#include "softgpu/libcuda/cu-priv.h"

CUresult cu_stream_new(struct CUctx_st *c, unsigned flags, int priority, struct CUstream_st **ret)
{
    static uint64_t next_id = 1;
    struct CUstream_st *s = dt_calloc(1, sizeof *s);
    CU_REQUIRE(s, CUDA_ERROR_OUT_OF_MEMORY);
    if (!cu_handle_add(s, CU_STREAM)) {
        free(s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    s->ctx = c;
    s->flags = flags;
    s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    s->id = next_id++;
    s->next = c->streams;
    c->streams = s;
    *ret = s;
    return CUDA_SUCCESS;
}

void cu_stream_free(struct CUstream_st *s)
{
    for (struct CUstream_st **p = &s->ctx->streams; *p; p = &(*p)->next)
        if (*p == s) {
            *p = s->next;
            break;
        }
    if (s->capture)
        cu_capture_abandon(s);
    free(s->waits.p);
    free(s->tail.p);
    cu_handle_free(s);
}

_Thread_local bool cu_per_thread; /* per-thread.c: an entry of the per-thread default stream runs */

static struct CUstream_st *of_thread(struct CUctx_st *c)
{
    uint64_t me = cu_thread();
    struct CUstream_st *s;
    for (s = c->streams; s; s = s->next)
        if (s->owner == me)
            return s;
    if (cu_stream_new(c, CU_STREAM_DEFAULT, 0, &s) != CUDA_SUCCESS)
        return NULL;
    s->owner = me;
    return s;
}

struct CUstream_st *cu_stream(struct CUctx_st *c, CUstream s)
{
    if (s == CU_STREAM_PER_THREAD || (!s && cu_per_thread))
        return of_thread(c);
    if (!s || s == CU_STREAM_LEGACY)
        return c->null_stream;
    /* those have no handle of their own */
    return cu_is(s, CU_STREAM) && s->ctx == c && s != c->null_stream && !s->owner ? s : NULL;
}

#define CU_STREAM_OF(c, s, handle)                                                                                     \
    CU_CONTEXT(c);                                                                                                     \
    struct CUstream_st *s = cu_stream(c, handle);                                                                      \
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE)

CUresult cuStreamCreateWithPriority(CUstream *ret, unsigned flags, int priority)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && !(flags & ~(unsigned)CU_STREAM_NON_BLOCKING), CUDA_ERROR_INVALID_VALUE);
    return cu_stream_new(c, flags, priority, ret);
}

CUresult cuStreamCreate(CUstream *ret, unsigned flags) { return cuStreamCreateWithPriority(ret, flags, 0); }

CUresult cuStreamDestroy(CUstream handle)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(s != c->null_stream && !s->owner, CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(cu_log_flush(c)); /* the log's order may name its work */
    cu_stream_free(s);
    return CUDA_SUCCESS;
}

/* A call that makes no sense for a capturing stream breaks the capture. */
static CUresult not_captured(struct CUstream_st *s)
{
    if (!s->capture)
        return CUDA_SUCCESS;
    s->capture->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuStreamSynchronize(CUstream handle)
{
    CU_STREAM_OF(c, s, handle);
    CU_TRY(cu_capture_legacy(c, s));
    CU_TRY(not_captured(s));
    return cu_log_wait(c, s);
}

CUresult cuStreamQuery(CUstream handle)
{
    CU_STREAM_OF(c, s, handle);
    CU_TRY(cu_capture_legacy(c, s));
    CU_TRY(not_captured(s));
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent e, unsigned flags)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(cu_is(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(!(flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_legacy(c, s));
    if (s->capture && flags & CU_EVENT_WAIT_EXTERNAL)
        return cu_capture_event(s, CU_GRAPH_NODE_TYPE_WAIT_EVENT, e);
    if (s->capture || e->capture)
        return cu_capture_wait(s, e);
    return cu_log_follow(s, e);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned *ret)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = s->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream handle, int *ret)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = s->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *ret)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = s->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *ret)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = s->ctx;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *ret, CUgreenCtx *green)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = s->ctx;
    if (green)
        *green = NULL;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *ret)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = NULL;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice *ret)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = cu_device_ordinal(c->dev);
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *user)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(fn, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_legacy(c, s));
    if (s->capture)
        return cu_capture_host(s, fn, user);
    cu_call_host(fn, user);
    return CUDA_SUCCESS;
}

struct callback {
    CUstreamCallback fn;
    CUstream stream;
    void *user;
};

static void call_back(void *arg)
{
    const struct callback *b = arg;
    b->fn(b->stream, CUDA_SUCCESS, b->user);
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback fn, void *user, unsigned flags)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(fn && !flags, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_legacy(c, s));
    CU_TRY(not_captured(s));
    cu_call_host(call_back, &(struct callback){fn, handle, user});
    return CUDA_SUCCESS;
}

/* ---- attributes ---- */
CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID id, const CUstreamAttrValue *v)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(v, CUDA_ERROR_INVALID_VALUE);
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: s->window = v->accessPolicyWindow; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        CU_REQUIRE(v->syncPolicy >= CU_SYNC_POLICY_AUTO && v->syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC,
                   CUDA_ERROR_INVALID_VALUE);
        s->sync_policy = v->syncPolicy;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        s->priority = v->priority > 0 ? 0 : v->priority < -5 ? -5 : v->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: s->domain = v->memSyncDomain; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: s->domain_map = v->memSyncDomainMap; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID id, CUstreamAttrValue *ret)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: ret->accessPolicyWindow = s->window; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        ret->syncPolicy = s->sync_policy ? s->sync_policy : CU_SYNC_POLICY_AUTO;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: ret->priority = s->priority; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: ret->memSyncDomain = s->domain; return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: ret->memSyncDomainMap = s->domain_map; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
    CU_STREAM_OF(c, d, to);
    struct CUstream_st *s = cu_stream(c, from);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    d->window = s->window, d->sync_policy = s->sync_policy, d->priority = s->priority, d->domain = s->domain,
    d->domain_map = s->domain_map;
    return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr p, size_t bytes, unsigned flags)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    const struct cu_range *r = cu_range_at(c, p, false);
    CU_REQUIRE(r && (r->kind == CU_RANGE_MANAGED || r->kind == CU_RANGE_REGISTERED), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS; /* every stream may touch it at any time */
}
