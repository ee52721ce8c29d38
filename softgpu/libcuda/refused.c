/* The entries of cuda.h that this device does not offer: each exists, so that a program that names it can be linked,
 * and answers CUDA_ERROR_NOT_SUPPORTED. entries.def lists them with the reason.
 */
#include "softgpu/libcuda/cu-priv.h"

#define ENTRY(name, symbol, since, file)
#define REFUSED(name, symbol, since, why)                                                                              \
    __attribute__((visibility("default"))) CUresult refuse_##symbol(void) __asm__(#symbol);                            \
    CUresult refuse_##symbol(void)                                                                                     \
    {                                                                                                                  \
        CU_READY();                                                                                                    \
        return CUDA_ERROR_NOT_SUPPORTED;                                                                               \
    }
#define EXTENSION(name, file)
#include "softgpu/libcuda/entries.def"
