/* Questions about the current context.
 *
 * Making, pushing and popping contexts is not here (state.c keeps them). Synchronising waits for the timeline
 * (cu_log_wait) and returns the sticky error.
 */
#include "softgpu/libcuda/cu-priv.h"

CUresult cuCtxSynchronize(void)
{
    CU_CONTEXT(c);
    CU_TRY(cu_capture_unsafe(c));
    return cu_log_wait(c, NULL);
}

CUresult cuCtxGetDevice(CUdevice *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = cu_device_ordinal(c->dev);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned flags)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_flags_ok(flags), CUDA_ERROR_INVALID_VALUE);
    c->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = c->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    if (!ctx)
        CU_TRY(cu_current(&ctx));
    CU_REQUIRE(cu_is(ctx, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    *ret = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ret)
{
    CU_READY();
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    if (!ctx)
        CU_TRY(cu_current(&ctx));
    CU_REQUIRE(cu_is(ctx, CU_CTX), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    *ret = ctx->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t v)
{
    CU_CONTEXT(c);
    CU_REQUIRE((unsigned)limit < CU_LIMIT_MAX, CUDA_ERROR_INVALID_VALUE);
    /* it is in use */
    CU_REQUIRE(limit != CU_LIMIT_MALLOC_HEAP_SIZE || !sg_heap_made(c->dev->sg), CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(limit != CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH && limit != CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT &&
                   limit != CU_LIMIT_SHMEM_SIZE && limit != CU_LIMIT_CIG_ENABLED &&
                   limit != CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED,
               CUDA_ERROR_UNSUPPORTED_LIMIT); /* no launches from the device, no graphics */
    CU_REQUIRE(limit != CU_LIMIT_MAX_L2_FETCH_GRANULARITY || v <= 128, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(limit != CU_LIMIT_STACK_SIZE || v <= 512 * 1024, CUDA_ERROR_INVALID_VALUE);
    if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE && v > c->dev->model->l2_bytes)
        v = c->dev->model->l2_bytes; /* clamped, as documented */
    c->limit[limit] = v;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *ret, CUlimit limit)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && (unsigned)limit < CU_LIMIT_MAX, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(limit != CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH && limit != CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT &&
                   limit != CU_LIMIT_SHMEM_SIZE && limit != CU_LIMIT_CIG_ENABLED &&
                   limit != CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED,
               CUDA_ERROR_UNSUPPORTED_LIMIT);
    *ret = c->limit[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = c->cache;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    CU_CONTEXT(c);
    CU_REQUIRE((unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL, CUDA_ERROR_INVALID_VALUE);
    c->cache = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    CU_CONTEXT(c);
    CU_REQUIRE((unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS; /* the banks of today's devices cannot be set */
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    CU_CONTEXT(c);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *ret, CUexecAffinityType type)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && (unsigned)type < CU_EXEC_AFFINITY_TYPE_MAX, CUDA_ERROR_INVALID_VALUE);
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/* ---- peers: there is one device ---- */
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CU_CONTEXT(c);
    CU_REQUIRE(!flags, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(cu_is(peer, CU_CTX) && peer != c, CUDA_ERROR_INVALID_CONTEXT);
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_is(peer, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

/* ---- all streams of a context at once: everything asked for has run ---- */
CUresult cuCtxRecordEvent(CUcontext ctx, CUevent e)
{
    CU_READY();
    CU_REQUIRE(cu_is(ctx, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CU_REQUIRE(cu_is(e, CU_EVENT) && e->ctx == ctx, CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(ctx->sticky);
    CU_TRY(cu_capture_unsafe(ctx));
    e->capture = NULL;
    CU_TRY(cu_log_flush(ctx));
    return cu_log(ctx->null_stream, (struct sg_work){.kind = SG_WORK_EVENT}, e);
}

CUresult cuCtxWaitEvent(CUcontext ctx, CUevent e)
{
    CU_READY();
    CU_REQUIRE(cu_is(ctx, CU_CTX), CUDA_ERROR_INVALID_CONTEXT);
    CU_REQUIRE(cu_is(e, CU_EVENT), CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(ctx->sticky);
    CU_REQUIRE(!e->capture, CUDA_ERROR_CAPTURED_EVENT);
    return cu_log_flush(ctx);
}

/* ---- the profiler's calls: there is nothing to start ---- */
CUresult cuProfilerInitialize(const char *config, const char *out, CUoutput_mode mode)
{
    CU_CONTEXT(c);
    return CUDA_ERROR_PROFILER_DISABLED;
}

CUresult cuProfilerStart(void)
{
    CU_CONTEXT(c);
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
    CU_CONTEXT(c);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CU_CONTEXT(c);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}
