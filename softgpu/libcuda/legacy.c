/* The launch calls from before CUDA 4, which are still in cuda.h: block shape and parameters are set on the function,
 * then it is launched.
 *
 * They are kept with the function and end in cuLaunchKernel with a packed parameter buffer.
 */
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

enum { MOST = 4096 };

struct cu_legacy {
    unsigned block[3], shared, size;
    unsigned char params[MOST];
};

#define CU_LEGACY(c, f, l, handle)                                                                                     \
    CU_CONTEXT(c);                                                                                                     \
    struct CUfunc_st *f;                                                                                               \
    CU_TRY(cu_function(c, handle, &f));                                                                                \
    struct cu_legacy *l = f->legacy ? f->legacy : (f->legacy = dt_calloc(1, sizeof *l));                               \
    CU_REQUIRE(l, CUDA_ERROR_OUT_OF_MEMORY)

CUresult cuFuncSetBlockShape(CUfunction handle, int x, int y, int z)
{
    CU_LEGACY(c, f, l, handle);
    CU_REQUIRE(x > 0 && y > 0 && z > 0, CUDA_ERROR_INVALID_VALUE);
    l->block[0] = (unsigned)x, l->block[1] = (unsigned)y, l->block[2] = (unsigned)z;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction handle, unsigned bytes)
{
    CU_LEGACY(c, f, l, handle);
    l->shared = bytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction handle, unsigned bytes)
{
    CU_LEGACY(c, f, l, handle);
    CU_REQUIRE(bytes <= MOST, CUDA_ERROR_INVALID_VALUE);
    l->size = bytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetv(CUfunction handle, int offset, void *p, unsigned bytes)
{
    CU_LEGACY(c, f, l, handle);
    CU_REQUIRE(p && offset >= 0 && offset <= MOST && bytes <= MOST - (unsigned)offset, CUDA_ERROR_INVALID_VALUE);
    memcpy(l->params + offset, p, bytes);
    return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction handle, int offset, unsigned v) { return cuParamSetv(handle, offset, &v, sizeof v); }

CUresult cuParamSetf(CUfunction handle, int offset, float v) { return cuParamSetv(handle, offset, &v, sizeof v); }

CUresult cuLaunchGridAsync(CUfunction handle, int x, int y, CUstream stream)
{
    CU_LEGACY(c, f, l, handle);
    CU_REQUIRE(x > 0 && y > 0, CUDA_ERROR_INVALID_VALUE);
    size_t size = l->size;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, l->params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(handle, (unsigned)x, (unsigned)y, 1, l->block[0], l->block[1], l->block[2], l->shared, stream,
                          NULL, extra);
}

CUresult cuLaunchGrid(CUfunction handle, int x, int y) { return cuLaunchGridAsync(handle, x, y, NULL); }

CUresult cuLaunch(CUfunction handle) { return cuLaunchGridAsync(handle, 1, 1, NULL); }
