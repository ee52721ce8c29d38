/* Questions about the current context.
 *
 * Making, pushing and popping contexts is elsewhere (state.c keeps them). Synchronising waits for the timeline (cu_log_wait) and hands out
 * the sticky error.
 */
#include "softgpu/libcuda/cu-priv.h"

CUresult cuCtxSynchronize(void)
{
    CU_CONTEXT(c);
    CU_REQUIRE(!cu_capturing(c), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return cu_log_wait(c, NULL);
}

CUresult cuCtxGetDevice(CUdevice *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = cu_device_ordinal(c->dev);
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
    CU_REQUIRE(!ctx || cu_context_live(ctx), CUDA_ERROR_INVALID_CONTEXT);
    *ret = CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = (unsigned long long)(uintptr_t)(ctx ? ctx : c);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t v)
{
    CU_CONTEXT(c);
    CU_REQUIRE((unsigned)limit < CU_LIMIT_MAX, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(limit != CU_LIMIT_MALLOC_HEAP_SIZE || !sg_heap_made(c->dev->sg), CUDA_ERROR_INVALID_VALUE); /* it is in use */
    c->limit[limit] = v;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *ret, CUlimit limit)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && (unsigned)limit < CU_LIMIT_MAX, CUDA_ERROR_INVALID_VALUE);
    *ret = c->limit[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *ret)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    *ret = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache unused)
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
