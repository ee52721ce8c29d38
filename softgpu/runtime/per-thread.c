/* The forms that programs call which are compiled for per-thread default streams (nvcc --default-stream per-thread):
 * stream 0 is the thread's own.
 *
 * per-thread.def has those that only pass their stream on; what is left is here.
 */
#include "softgpu/runtime/rt-priv.h"

#define OWN(s) ((s) ? (s) : cudaStreamPerThread)

#pragma GCC visibility push(default)
#define FORM(name, own, params, args) cudaError_t own params;
#include "softgpu/runtime/per-thread.def"
#undef FORM
cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t k, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s);
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *stub, void **args);
cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *ret, cudaGraph_t g, cudaGraphInstantiateParams *p);
cudaError_t cudaGetDriverEntryPoint_ptsz(const char *name, void **ret, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *how);
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *name, void **ret, unsigned version,
                                                  unsigned long long flags, enum cudaDriverEntryPointQueryResult *how);
#pragma GCC visibility pop

#define FORM(name, own, params, args)                                                                                  \
    cudaError_t own params { return name args; }
#include "softgpu/runtime/per-thread.def"
#undef FORM

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t k, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t s)
{
    return __cudaLaunchKernel(k, grid, block, args, shared, OWN(s));
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *stub, void **args)
{
    DTRT_REQUIRE(config, cudaErrorInvalidConfiguration);
    cudaLaunchConfig_t own = *config;
    own.stream = OWN(own.stream);
    return cudaLaunchKernelExC(&own, stub, args);
}

cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *ret, cudaGraph_t g, cudaGraphInstantiateParams *p)
{
    return cudaGraphInstantiateWithParams(ret, g, p); /* nothing is uploaded */
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *name, void **ret, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *how)
{
    return cudaGetDriverEntryPoint(name, ret, flags ? flags : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, how);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *name, void **ret, unsigned version,
                                                  unsigned long long flags, enum cudaDriverEntryPointQueryResult *how)
{
    return cudaGetDriverEntryPointByVersion(name, ret, version,
                                            flags ? flags : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, how);
}
