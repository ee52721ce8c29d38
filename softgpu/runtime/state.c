/* A thread's device and last error, contexts, versions.
 *
 * A thread uses the primary context of its device (cudaSetDevice; 0 at first), unless the program has made another one
 * current by the driver API. The first call that needs a context retains and sets it. Errors of calls are kept a
 * thread; those of kernels are the context's, and come back from every call until cudaDeviceReset.
 */
#include <pthread.h>
#include <string.h>

#include "softgpu/runtime/rt-priv.h"

#pragma GCC visibility push(default)
extern const int dovetailCudart;
#pragma GCC visibility pop
const int dovetailCudart = CUDART_VERSION; /* by which driver.c tells this runtime from NVIDIA's */

enum { DEVICES = 64 };
static __thread int state_device;
static __thread cudaError_t state_last;
static pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext state_primary[DEVICES];
static int state_timed; /* an event that can measure was made */

cudaError_t dtrt_fail(cudaError_t e)
{
    if (e != cudaSuccess)
        state_last = e;
    return e;
}

cudaError_t dtrt_is(CUresult r) { return dtrt_fail((cudaError_t)r); }

/* Make a context current. What launches cost is followed from the first event on that can measure a time. */
static CUresult state_use(CUcontext c)
{
    CUresult r = dtrt_drv.cuCtxSetCurrent(c);
    if (r == CUDA_SUCCESS && !__atomic_load_n(&state_timed, __ATOMIC_RELAXED))
        dtrt_drv.dovetailSetFollow(0);
    return r;
}

void dtrt_timed(void)
{
    if (!__atomic_exchange_n(&state_timed, 1, __ATOMIC_RELAXED))
        for (CUdevice d = 0; d < DEVICES; d++) {
            CUcontext was;
            if (state_primary[d] && dtrt_drv.cuCtxPushCurrent(state_primary[d]) == CUDA_SUCCESS) {
                dtrt_drv.dovetailSetFollow(1);
                dtrt_drv.cuCtxPopCurrent(&was);
            }
        }
}

cudaError_t dtrt_primary(int device, CUcontext *ret)
{
    if (device < 0 || device >= DEVICES)
        return cudaErrorInvalidDevice;
    cudaError_t e = cudaSuccess;
    pthread_mutex_lock(&state_lock);
    if (!state_primary[device])
        e = (cudaError_t)dtrt_drv.cuDevicePrimaryCtxRetain(&state_primary[device], device);
    *ret = state_primary[device];
    pthread_mutex_unlock(&state_lock);
    return e;
}

cudaError_t dtrt_ready(void)
{
    CUcontext c = NULL;
    cudaError_t e = dtrt_open();
    if (e != cudaSuccess)
        return e;
    if (dtrt_drv.cuCtxGetCurrent(&c) == CUDA_SUCCESS && c)
        return cudaSuccess;
    e = dtrt_primary(state_device, &c);
    return e == cudaSuccess ? (cudaError_t)state_use(c) : e;
}

cudaError_t cudaSetDevice(int device)
{
    CUcontext c;
    DTRT_OPEN();
    DTRT_TRY(dtrt_primary(device, &c));
    state_device = device;
    return dtrt_is(state_use(c));
}

cudaError_t cudaInitDevice(int device, unsigned flags, unsigned more)
{
    CUcontext c;
    DTRT_OPEN();
    return dtrt_fail(dtrt_primary(device, &c));
}

cudaError_t cudaGetDevice(int *ret)
{
    CUcontext c = NULL;
    CUdevice d;
    DTRT_OPEN();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    *ret = state_device;
    if (dtrt_drv.cuCtxGetCurrent(&c) == CUDA_SUCCESS && c && dtrt_drv.cuCtxGetDevice(&d) == CUDA_SUCCESS)
        *ret = d;
    return cudaSuccess;
}

cudaError_t cudaSetValidDevices(int *device, int n)
{
    DTRT_OPEN();
    int have;
    DTRT_TRY((cudaError_t)dtrt_drv.cuDeviceGetCount(&have));
    for (int i = 0; i < n; i++)
        DTRT_REQUIRE(device && device[i] >= 0 && device[i] < have, cudaErrorInvalidDevice);
    return cudaSuccess; /* the first one that works is device 0, which always does */
}

cudaError_t cudaSetDeviceFlags(unsigned flags)
{
    DTRT_OPEN();
    return dtrt_is(dtrt_drv.cuDevicePrimaryCtxSetFlags(state_device, flags & ~(unsigned)cudaDeviceMapHost));
}

cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
    int active;
    DTRT_OPEN();
    DTRT_TRY((cudaError_t)dtrt_drv.cuDevicePrimaryCtxGetState(state_device, flags, &active));
    *flags |= cudaDeviceMapHost;
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    DTRT_OPEN();
    pthread_mutex_lock(&state_lock);
    CUcontext was = state_device < DEVICES ? state_primary[state_device] : NULL;
    CUresult r = CUDA_SUCCESS;
    if (was) {
        dtrt_drv.cuCtxSetCurrent(NULL);
        r = dtrt_drv.cuDevicePrimaryCtxReset(state_device);
        if (r == CUDA_SUCCESS)
            r = dtrt_drv.cuDevicePrimaryCtxRelease(state_device);
        state_primary[state_device] = NULL;
    }
    pthread_mutex_unlock(&state_lock);
    state_last = cudaSuccess;
    return dtrt_is(r);
}

PASS(cudaDeviceSynchronize, (void), cuCtxSynchronize())
PASS(cudaCtxResetPersistingL2Cache, (void), cuCtxResetPersistingL2Cache())
PASS(cudaDeviceSetLimit, (enum cudaLimit l, size_t v), cuCtxSetLimit((CUlimit)l, v))
PASS(cudaDeviceGetLimit, (size_t * v, enum cudaLimit l), cuCtxGetLimit(v, (CUlimit)l))
PASS(cudaDeviceSetCacheConfig, (enum cudaFuncCache c), cuCtxSetCacheConfig((CUfunc_cache)c))
PASS(cudaDeviceGetCacheConfig, (enum cudaFuncCache * c), cuCtxGetCacheConfig((CUfunc_cache *)c))
PASS(cudaDeviceSetSharedMemConfig, (enum cudaSharedMemConfig c), cuCtxSetSharedMemConfig((CUsharedconfig)c))
PASS(cudaDeviceGetSharedMemConfig, (enum cudaSharedMemConfig * c), cuCtxGetSharedMemConfig((CUsharedconfig *)c))
PASS(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest), cuCtxGetStreamPriorityRange(least, greatest))
PASS(cudaProfilerStart, (void), cuProfilerStart())
PASS(cudaProfilerStop, (void), cuProfilerStop())

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = cudaPeekAtLastError();
    state_last = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void) { return state_last; }

cudaError_t cudaDriverGetVersion(int *ret)
{
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    *ret = 0; /* as CUDA says where there is no driver */
    return dtrt_open() == cudaSuccess ? dtrt_is(dtrt_drv.cuDriverGetVersion(ret)) : cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *ret)
{
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    *ret = CUDART_VERSION;
    return cudaSuccess;
}

static cudaError_t entry_point(const char *name, void **ret, int version, unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *how)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    DTRT_OPEN();
    CUresult r = dtrt_drv.cuGetProcAddress(name, ret, version, flags, &found);
    if (how)
        *how = (enum cudaDriverEntryPointQueryResult)found;
    return r == CUDA_ERROR_NOT_FOUND && how ? cudaSuccess : dtrt_is(r);
}

cudaError_t cudaGetDriverEntryPoint(const char *name, void **ret, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *how)
{
    return entry_point(name, ret, CUDART_VERSION, flags, how);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **ret, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *how)
{
    return entry_point(name, ret, (int)version, flags, how);
}
