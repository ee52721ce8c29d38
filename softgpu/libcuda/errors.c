/* Names and words of CUresult. */
#include "softgpu/libcuda/cu-priv.h"

CUresult cuGetErrorName(CUresult error, const char **ret)
{
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    switch (error) {
#define ROW(name, words)                                                                                               \
    case name:                                                                                                         \
        *ret = #name;                                                                                                  \
        return CUDA_SUCCESS;
#include "softgpu/libcuda/errors.def"
#undef ROW
    default: *ret = NULL; return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuGetErrorString(CUresult error, const char **ret)
{
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    switch (error) {
#define ROW(name, words)                                                                                               \
    case name:                                                                                                         \
        *ret = words;                                                                                                  \
        return CUDA_SUCCESS;
#include "softgpu/libcuda/errors.def"
#undef ROW
    default: *ret = NULL; return CUDA_ERROR_INVALID_VALUE;
    }
}
