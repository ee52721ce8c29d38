/* The runtime library, inside: what its files share.
 *
 * Everything here goes to the driver by a table of its public entries (driver.def), filled by dlopen when a program
 * first asks for something. The runtime keeps three things of its own: a thread's device and last error (state.c), and
 * what programs registered of their kernels and variables (register.c). Handles (streams, events, graphs, kernels) are
 * the driver's and pass through.
 *
 * The static archive is linked into other people's programs: every name that is not CUDA's begins with dtrt_, and
 * nothing of base/ is used.
 */
#ifndef DT_SOFTGPU_RT_PRIV_H
#define DT_SOFTGPU_RT_PRIV_H

#pragma GCC visibility push(default) /* what the headers declare is what is exported (and libcudart.map allows) */
#include <cuda.h>
#include <cuda_runtime_api.h>
/* cuda_profiler_api.h and cudaProfiler.h, which not every installation has */
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);
#pragma GCC visibility pop
#include <stdbool.h>
#include <stddef.h>

#include "softgpu/libcuda/extension.h"

/* ---- driver.c ---------------------------------------------------------------------------------------------------- */
struct dtrt_driver {
#define DRV(name) __typeof__(&name) name;
#include "softgpu/runtime/driver.def"
#undef DRV
    dovetailSetFollow_t dovetailSetFollow;
};
extern struct dtrt_driver dtrt_drv; /* filled once dtrt_open() has given cudaSuccess */
cudaError_t dtrt_open(void);        /* the driver is loaded and initialised; else why not, said once on stderr */

/* ---- state.c ----------------------------------------------------------------------------------------------------- */
cudaError_t dtrt_ready(void);         /* dtrt_open(), and a context is current in this thread */
cudaError_t dtrt_fail(cudaError_t e); /* keeps it for cudaGetLastError; gives it back */
cudaError_t dtrt_is(CUresult r);      /* the same of a driver's result: the numbers are equal */
cudaError_t dtrt_primary(int device, CUcontext *ret);
void dtrt_timed(void); /* the program times something: what later launches cost is followed */

/* ---- register.c -------------------------------------------------------------------------------------------------- */
/* The kernel behind the address of its stub, or behind a cudaKernel_t. */
cudaError_t dtrt_kernel(const void *stub, CUkernel *ret);
const void *dtrt_stub(const void *kernel); /* the other way; what it was given where there is none */
cudaError_t dtrt_symbol(const void *shadow, CUdeviceptr *ret, size_t *bytes);

/* ---- copy.c ------------------------------------------------------------------------------------------------------ */
cudaError_t dtrt_copy_3d(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *ret);
void dtrt_copy_3d_back(const CUDA_MEMCPY3D *p, struct cudaMemcpy3DParms *ret);
bool dtrt_copy_1d(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind, struct cudaMemcpy3DParms *ret);

/* ---- array.c ----------------------------------------------------------------------------------------------------- */
cudaError_t dtrt_format(const struct cudaChannelFormatDesc *d, CUarray_format *ret, unsigned *ret_channels);
struct cudaChannelFormatDesc dtrt_channels(CUarray_format f, unsigned channels);
/* What an array is, and the bytes of a texel (may be NULL). */
cudaError_t dtrt_array(cudaArray_const_t a, CUDA_ARRAY3D_DESCRIPTOR *ret, size_t *ret_texel);

/* ---- refused.c --------------------------------------------------------------------------------------------------- */
int dtrt_refuse(const char *name, const char *why); /* says so once on stderr; cudaErrorNotSupported */

#define DTRT_CONTEXT()                                                                                                 \
    do {                                                                                                               \
        cudaError_t ready_ = dtrt_ready();                                                                             \
        if (ready_ != cudaSuccess)                                                                                     \
            return dtrt_fail(ready_);                                                                                  \
    } while (0)
#define DTRT_OPEN()                                                                                                    \
    do {                                                                                                               \
        cudaError_t open_ = dtrt_open();                                                                               \
        if (open_ != cudaSuccess)                                                                                      \
            return dtrt_fail(open_);                                                                                   \
    } while (0)
#define DTRT_REQUIRE(cond, error)                                                                                      \
    do {                                                                                                               \
        if (!(cond))                                                                                                   \
            return dtrt_fail(error);                                                                                   \
    } while (0)
#define DTRT_TRY(expr)                                                                                                 \
    do {                                                                                                               \
        cudaError_t try_ = (expr);                                                                                     \
        if (try_ != cudaSuccess)                                                                                       \
            return dtrt_fail(try_);                                                                                    \
    } while (0)
/* An entry that is one entry of the driver. */
#define PASS(name, params, call)                                                                                       \
    cudaError_t name params                                                                                            \
    {                                                                                                                  \
        DTRT_CONTEXT();                                                                                                \
        return dtrt_is(dtrt_drv.call);                                                                                 \
    }
#define SAME_SIZE(a, b) _Static_assert(sizeof(a) == sizeof(b), #a " and " #b)

#endif
