/* Streams.
 *
 * Their order is kept by running everything in the order of the calls; what may overlap is the timeline's matter.
 */
#include <stdlib.h>

#include "softgpu/libcuda/cu-priv.h"

CUresult cu_stream_new(struct CUctx_st *c, unsigned flags, int priority, struct CUstream_st **ret)
{
    static uint64_t next_id = 1;
    struct CUstream_st *s = dt_calloc(1, sizeof *s);
    CU_REQUIRE(s, CUDA_ERROR_OUT_OF_MEMORY);
    s->magic = CU_STREAM;
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
    if (s->capture && s->capture_origin)
        cu_graph_free(s->capture);
    free(s->waits.p);
    free(s->tail.p);
    s->magic = 0;
    free(s);
}

struct CUstream_st *cu_stream(struct CUctx_st *c, CUstream s)
{
    if (!s || s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD)
        return c->null_stream;
    return s->magic == CU_STREAM && s->ctx == c ? s : NULL;
}

#define CU_STREAM_OF(c, s, handle)                                                                                                 \
    CU_CONTEXT(c);                                                                                                                 \
    struct CUstream_st *s = cu_stream(c, handle);                                                                                  \
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE)

CUresult cuStreamCreateWithPriority(CUstream *ret, unsigned flags, int priority)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && !(flags & ~(unsigned)CU_STREAM_NON_BLOCKING), CUDA_ERROR_INVALID_VALUE);
    return cu_stream_new(c, flags, priority, ret);
}

CUresult cuStreamCreate(CUstream *ret, unsigned flags)
{
    return cuStreamCreateWithPriority(ret, flags, 0);
}

CUresult cuStreamDestroy(CUstream handle)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(s != c->null_stream, CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(cu_log_flush(c)); /* the log's order may name its work */
    cu_stream_free(s);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(!s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return cu_log_wait(c, s);
}

CUresult cuStreamQuery(CUstream handle)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(!s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent e, unsigned flags)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(CU_IS(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
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
    if (s->capture)
        return cu_capture_host(s, fn, user);
    fn(user);
    return CUDA_SUCCESS;
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback fn, void *user, unsigned flags)
{
    CU_STREAM_OF(c, s, handle);
    CU_REQUIRE(fn && !flags, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    fn(handle, CUDA_SUCCESS, user);
    return CUDA_SUCCESS;
}
