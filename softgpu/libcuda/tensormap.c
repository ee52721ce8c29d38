/* Tensor maps: cuTensorMapEncodeTiled and its likes. The requirements are in ptx/tensormap.c; im2col is refused. */
#include <string.h>

#include "ptx/tensormap.h"
#include "softgpu/libcuda/cu-priv.h"

CUresult cuTensorMapEncodeTiled(CUtensorMap *ret, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *dim, const cuuint64_t *stride, const cuuint32_t *box,
                                const cuuint32_t *step, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && (uintptr_t)ret % 64 == 0 && rank >= 1 && rank <= 5 && dim && box && step && (stride || rank == 1),
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE((unsigned)type < PTX_TM_TYPES && (unsigned)interleave <= 2 &&
                   (unsigned)swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B && (unsigned)l2 <= 3 && (unsigned)fill <= 1,
               CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(c->dev->model->cc_major >= 9, CUDA_ERROR_NOT_SUPPORTED);
    struct ptx_tensormap m = {.address = (uint64_t)(uintptr_t)address,
                              .rank = (uint8_t)rank,
                              .type = (uint8_t)type,
                              .interleave = (uint8_t)interleave,
                              .l2 = (uint8_t)l2,
                              .fill = (uint8_t)fill};
    m.swizzle = (uint8_t)(swizzle > CU_TENSOR_MAP_SWIZZLE_128B ? PTX_TM_SWIZZLE_128B : swizzle);
    m.atom = (uint8_t)(swizzle > CU_TENSOR_MAP_SWIZZLE_128B ? swizzle - CU_TENSOR_MAP_SWIZZLE_128B : 0);
    for (unsigned i = 0; i < 5; i++) {
        bool in = i < rank;
        CU_REQUIRE(!in || (box[i] <= 256 && step[i] <= 256), CUDA_ERROR_INVALID_VALUE);
        m.dim[i] = in ? dim[i] : 1;
        m.stride[i] = i && in ? stride[i - 1] : 0;
        m.box[i] = in ? box[i] : 1;
        m.step[i] = in && (i || interleave) ? step[i] : 1; /* without interleave the first is ignored */
    }
    CU_REQUIRE(!ptx_tensormap_check(&m), CUDA_ERROR_INVALID_VALUE);
    ptx_tensormap_encode(&m, (uint8_t *)ret);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    CU_CONTEXT(c);
    struct ptx_tensormap m;
    CU_REQUIRE(map && ptx_tensormap_decode((const uint8_t *)map, &m), CUDA_ERROR_INVALID_VALUE);
    m.address = (uint64_t)(uintptr_t)address;
    CU_REQUIRE(!ptx_tensormap_check(&m), CUDA_ERROR_INVALID_VALUE);
    ptx_tensormap_encode(&m, (uint8_t *)map);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *ret, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                 const cuuint64_t *dim, const cuuint64_t *stride, const int *lower, const int *upper,
                                 cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *step,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
{
    CU_CONTEXT(c);
    return CUDA_ERROR_NOT_SUPPORTED;
}
