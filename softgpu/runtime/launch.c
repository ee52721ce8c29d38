/* Launches, attributes of kernels, occupancy, libraries.
 *
 * `k<<<grid, block, shared, stream>>>(…)` is compiled to __cudaPushCallConfiguration, and a call of the stub, which
 * pops it and launches. The configuration is a stack a thread, since arguments may launch, too. A configuration that
 * the device cannot have is cudaErrorInvalidConfiguration here, where the driver says CUDA_ERROR_INVALID_VALUE.
 */
#include <string.h>

#include "softgpu/runtime/rt-priv.h"

enum { DEPTH = 64 };
struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};
static __thread struct configuration pushed[DEPTH];
static __thread unsigned npushed;

SAME_SIZE(cudaLaunchAttribute, CUlaunchAttribute);

#pragma GCC visibility push(default)
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream);
#pragma GCC visibility pop

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream)
{
    if (npushed == DEPTH)
        return 1;
    pushed[npushed++] = (struct configuration){grid, block, shared, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    DTRT_REQUIRE(npushed, cudaErrorMissingConfiguration);
    const struct configuration *c = &pushed[--npushed];
    *grid = c->grid;
    *block = c->block;
    *shared = c->shared;
    *(cudaStream_t *)stream = c->stream;
    return cudaSuccess;
}

/* Is it the configuration that the driver did not take? */
static bool configuration_wrong(const CUlaunchConfig *c, CUfunction f)
{
    unsigned long long threads = (unsigned long long)c->blockDimX * c->blockDimY * c->blockDimZ;
    int most = 1024, dynamic = 0;
    CUdevice d;
    if (!threads || !c->gridDimX || !c->gridDimY || !c->gridDimZ || threads > 1024 || c->gridDimY > 65535 ||
        c->gridDimZ > 65535 || c->gridDimX > 2147483647u || c->blockDimZ > 64)
        return true;
    if (dtrt_drv.cuCtxGetDevice(&d) != CUDA_SUCCESS)
        return false;
    dtrt_drv.cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f);
    dtrt_drv.cuFuncGetAttribute(&dynamic, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f);
    return threads > (unsigned)most || c->sharedMemBytes > (unsigned)dynamic;
}

static cudaError_t launch(CUkernel k, const CUlaunchConfig *c, void **args)
{
    CUfunction f = (CUfunction)(void *)k;
    CUresult r = dtrt_drv.cuLaunchKernelEx(c, f, args, NULL);
    if (r == CUDA_ERROR_INVALID_VALUE && configuration_wrong(c, f))
        return dtrt_fail(cudaErrorInvalidConfiguration);
    return dtrt_is(r);
}

static CUlaunchConfig config_of(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    return (CUlaunchConfig){.gridDimX = grid.x,
                            .gridDimY = grid.y,
                            .gridDimZ = grid.z,
                            .blockDimX = block.x,
                            .blockDimY = block.y,
                            .blockDimZ = block.z,
                            .sharedMemBytes = shared > 0x7fffffff ? 0x7fffffff : (unsigned)shared,
                            .hStream = stream};
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream)
{
    DTRT_CONTEXT();
    DTRT_REQUIRE(kernel, cudaErrorInvalidDeviceFunction);
    CUlaunchConfig c = config_of(grid, block, shared, stream);
    CUresult r = dtrt_drv.cuLaunchKernelEx(&c, (CUfunction)(void *)kernel, args, NULL);
    return r == CUDA_SUCCESS ? cudaSuccess : cudaLaunchKernel((void *)kernel, grid, block, args, shared, stream);
}

cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    CUkernel k;
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_kernel(stub, &k));
    CUlaunchConfig c = config_of(grid, block, shared, stream);
    return launch(k, &c, args);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *stub, void **args)
{
    CUkernel k;
    DTRT_CONTEXT();
    DTRT_REQUIRE(config, cudaErrorInvalidConfiguration);
    DTRT_TRY(dtrt_kernel(stub, &k));
    CUlaunchConfig c = config_of(config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream);
    c.attrs = (CUlaunchAttribute *)config->attrs;
    c.numAttrs = config->numAttrs;
    return launch(k, &c, args);
}

cudaError_t cudaLaunchCooperativeKernel(const void *stub, dim3 grid, dim3 block, void **args, size_t shared,
                                        cudaStream_t stream)
{
    CUkernel k;
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    DTRT_CONTEXT();
    DTRT_TRY(dtrt_kernel(stub, &k));
    CUlaunchConfig c = config_of(grid, block, shared, stream);
    c.attrs = &a;
    c.numAttrs = 1;
    return launch(k, &c, args);
}

/* An entry of a kernel: f is the driver's handle of it. */
#define OF_KERNEL(name, params, call)                                                                                  \
    cudaError_t name params                                                                                            \
    {                                                                                                                  \
        CUkernel k;                                                                                                    \
        DTRT_CONTEXT();                                                                                                \
        DTRT_TRY(dtrt_kernel(stub, &k));                                                                               \
        CUfunction f = (CUfunction)(void *)k;                                                                          \
        return dtrt_is(dtrt_drv.call);                                                                                 \
    }
OF_KERNEL(cudaFuncSetCacheConfig, (const void *stub, enum cudaFuncCache c), cuFuncSetCacheConfig(f, (CUfunc_cache)c))
OF_KERNEL(cudaFuncSetSharedMemConfig, (const void *stub, enum cudaSharedMemConfig c),
          cuFuncSetSharedMemConfig(f, (CUsharedconfig)c))
OF_KERNEL(cudaFuncSetAttribute, (const void *stub, enum cudaFuncAttribute a, int v),
          cuFuncSetAttribute(f, (CUfunction_attribute)a, v))
OF_KERNEL(cudaFuncGetName, (const char **ret, const void *stub), cuFuncGetName(ret, f))
OF_KERNEL(cudaFuncGetParamInfo, (const void *stub, size_t i, size_t *offset, size_t *size),
          cuFuncGetParamInfo(f, i, offset, size))
OF_KERNEL(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *ret, const void *stub, int threads, size_t shared),
          cuOccupancyMaxActiveBlocksPerMultiprocessor(ret, f, threads, shared))
OF_KERNEL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
          (int *ret, const void *stub, int threads, size_t shared, unsigned flags),
          cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(ret, f, threads, shared, flags))
OF_KERNEL(cudaOccupancyAvailableDynamicSMemPerBlock, (size_t * ret, const void *stub, int blocks, int threads),
          cuOccupancyAvailableDynamicSMemPerBlock(ret, f, blocks, threads))

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute a, int v, int device)
{
    DTRT_CONTEXT();
    return dtrt_is(dtrt_drv.cuKernelSetAttribute((CUfunction_attribute)a, v, (CUkernel)kernel, device));
}

static CUlaunchConfig config_from(const cudaLaunchConfig_t *c)
{
    CUlaunchConfig d = config_of(c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream);
    d.attrs = (CUlaunchAttribute *)c->attrs;
    d.numAttrs = c->numAttrs;
    return d;
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *ret, const void *stub, const cudaLaunchConfig_t *config)
{
    CUkernel k;
    DTRT_CONTEXT();
    DTRT_REQUIRE(config, cudaErrorInvalidValue);
    DTRT_TRY(dtrt_kernel(stub, &k));
    CUlaunchConfig c = config_from(config);
    return dtrt_is(dtrt_drv.cuOccupancyMaxPotentialClusterSize(ret, (CUfunction)(void *)k, &c));
}

cudaError_t cudaOccupancyMaxActiveClusters(int *ret, const void *stub, const cudaLaunchConfig_t *config)
{
    CUkernel k;
    DTRT_CONTEXT();
    DTRT_REQUIRE(config, cudaErrorInvalidValue);
    DTRT_TRY(dtrt_kernel(stub, &k));
    CUlaunchConfig c = config_from(config);
    return dtrt_is(dtrt_drv.cuOccupancyMaxActiveClusters(ret, (CUfunction)(void *)k, &c));
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *ret, const void *stub)
{
    CUkernel k;
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    DTRT_TRY(dtrt_kernel(stub, &k));
    int v[CU_FUNC_ATTRIBUTE_MAX] = {0};
    for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX; i++)
        DTRT_TRY((cudaError_t)dtrt_drv.cuFuncGetAttribute(&v[i], (CUfunction_attribute)i, (CUfunction)(void *)k));
    *ret = (struct cudaFuncAttributes){
        .sharedSizeBytes = (size_t)v[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES],
        .constSizeBytes = (size_t)v[CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES],
        .localSizeBytes = (size_t)v[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES],
        .maxThreadsPerBlock = v[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
        .numRegs = v[CU_FUNC_ATTRIBUTE_NUM_REGS],
        .ptxVersion = v[CU_FUNC_ATTRIBUTE_PTX_VERSION],
        .binaryVersion = v[CU_FUNC_ATTRIBUTE_BINARY_VERSION],
        .cacheModeCA = v[CU_FUNC_ATTRIBUTE_CACHE_MODE_CA],
        .maxDynamicSharedSizeBytes = v[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES],
        .preferredShmemCarveout = v[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT],
        .clusterDimMustBeSet = v[CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET],
        .requiredClusterWidth = v[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH],
        .requiredClusterHeight = v[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT],
        .requiredClusterDepth = v[CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH],
        .clusterSchedulingPolicyPreference = v[CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE],
        .nonPortableClusterSizeAllowed = v[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED]};
    return cudaSuccess;
}

/* ---- libraries --------------------------------------------------------------------------------------------------- */
PASS(cudaLibraryLoadData,
     (cudaLibrary_t * ret, const void *code, enum cudaJitOption *opt, void **val, unsigned n,
      enum cudaLibraryOption *lopt, void **lval, unsigned nl),
     cuLibraryLoadData((CUlibrary *)ret, code, (CUjit_option *)opt, val, n, (CUlibraryOption *)lopt, lval, nl))
PASS(cudaLibraryLoadFromFile,
     (cudaLibrary_t * ret, const char *path, enum cudaJitOption *opt, void **val, unsigned n,
      enum cudaLibraryOption *lopt, void **lval, unsigned nl),
     cuLibraryLoadFromFile((CUlibrary *)ret, path, (CUjit_option *)opt, val, n, (CUlibraryOption *)lopt, lval, nl))
PASS(cudaLibraryUnload, (cudaLibrary_t l), cuLibraryUnload((CUlibrary)l))
PASS(cudaLibraryGetKernel, (cudaKernel_t * ret, cudaLibrary_t l, const char *name),
     cuLibraryGetKernel((CUkernel *)ret, (CUlibrary)l, name))
PASS(cudaLibraryGetGlobal, (void **ret, size_t *bytes, cudaLibrary_t l, const char *name),
     cuLibraryGetGlobal((CUdeviceptr *)ret, bytes, (CUlibrary)l, name))
PASS(cudaLibraryGetManaged, (void **ret, size_t *bytes, cudaLibrary_t l, const char *name),
     cuLibraryGetManaged((CUdeviceptr *)ret, bytes, (CUlibrary)l, name))
PASS(cudaLibraryGetKernelCount, (unsigned *ret, cudaLibrary_t l), cuLibraryGetKernelCount(ret, (CUlibrary)l))
PASS(cudaLibraryEnumerateKernels, (cudaKernel_t * ret, unsigned n, cudaLibrary_t l),
     cuLibraryEnumerateKernels((CUkernel *)ret, n, (CUlibrary)l))
