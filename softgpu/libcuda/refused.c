/* The entries of cuda.h that this device does not offer: each exists, so that a program that names it can be linked,
 * and answers CUDA_ERROR_NOT_SUPPORTED. entries.def lists them with the reason.
 *
 * One of them says why on stderr: NVIDIA's runtime asks for private tables of NVIDIA's driver before anything else, and
 * tells the program no more than that the driver is wrong.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

static void refused_say(const char *symbol)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!strcmp(symbol, "cuGetExportTable") && !atomic_flag_test_and_set(&said))
        fputs("dovetail's libcuda.so.1: a library of NVIDIA's (its CUDA runtime?) asks for private tables of NVIDIA's "
              "driver, which the software device has not; link the program with dovetail's runtime: `dovetail soft "
              "--flags`\n",
              stderr);
}

#define ENTRY(name, symbol, since, file)
#define REFUSED(name, symbol, since, why)                                                                              \
    __attribute__((visibility("default"))) CUresult refuse_##symbol(void) __asm__(#symbol);                            \
    CUresult refuse_##symbol(void)                                                                                     \
    {                                                                                                                  \
        refused_say(#symbol);                                                                                          \
        CU_READY();                                                                                                    \
        return CUDA_ERROR_NOT_SUPPORTED;                                                                               \
    }
#define EXTENSION(name, file)
#include "softgpu/libcuda/entries.def"
