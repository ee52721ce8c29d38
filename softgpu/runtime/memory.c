/* Memory: allocation, pools, what is known about an address, advice.
 *
 * Device, pinned and managed memory are the driver's. cudaMalloc of no bytes gives NULL, and cudaFree(NULL) makes the
 * context, which is how many programs begin.
 */
#include <stdint.h>
#include <string.h>

#include "softgpu/runtime/rt-priv.h"

SAME_SIZE(struct cudaMemPoolProps, CUmemPoolProps);
SAME_SIZE(struct cudaMemAccessDesc, CUmemAccessDesc);
SAME_SIZE(struct cudaMemLocation, CUmemLocation);

cudaError_t cudaMalloc(void **ret, size_t n)
{
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    *ret = NULL;
    return n ? dtrt_is(dtrt_drv.cuMemAlloc((CUdeviceptr *)ret, n)) : cudaSuccess;
}

cudaError_t cudaMallocHost(void **ret, size_t n) { return cudaHostAlloc(ret, n, cudaHostAllocDefault); }

cudaError_t cudaHostAlloc(void **ret, size_t n, unsigned flags)
{
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    *ret = NULL;
    return n ? dtrt_is(dtrt_drv.cuMemHostAlloc(ret, n, flags)) : cudaSuccess;
}

PASS(cudaMallocManaged, (void **ret, size_t n, unsigned flags), cuMemAllocManaged((CUdeviceptr *)ret, n, flags))

cudaError_t cudaMallocPitch(void **ret, size_t *pitch, size_t width, size_t height)
{
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret && pitch, cudaErrorInvalidValue);
    if (!width || !height) {
        *ret = NULL;
        *pitch = 0;
        return cudaSuccess;
    }
    return dtrt_is(dtrt_drv.cuMemAllocPitch((CUdeviceptr *)ret, pitch, width, height, 4));
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *ret, struct cudaExtent e)
{
    void *p;
    size_t pitch;
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    DTRT_REQUIRE(!e.depth || e.height <= SIZE_MAX / e.depth, cudaErrorMemoryAllocation);
    cudaError_t r = cudaMallocPitch(&p, &pitch, e.width, e.height * e.depth);
    if (r == cudaSuccess)
        *ret = (struct cudaPitchedPtr){.ptr = p, .pitch = pitch, .xsize = e.width, .ysize = e.height};
    return r;
}

cudaError_t cudaFree(void *p)
{
    DTRT_CONTEXT();
    return p ? dtrt_is(dtrt_drv.cuMemFree((CUdeviceptr)p)) : cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
    DTRT_CONTEXT();
    return p ? dtrt_is(dtrt_drv.cuMemFreeHost(p)) : cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t n, unsigned flags)
{
    DTRT_CONTEXT();
    return dtrt_is(dtrt_drv.cuMemHostRegister(p, n, flags));
}

PASS(cudaHostUnregister, (void *p), cuMemHostUnregister(p))
PASS(cudaHostGetDevicePointer, (void **ret, void *p, unsigned flags),
     cuMemHostGetDevicePointer((CUdeviceptr *)ret, p, flags))
PASS(cudaHostGetFlags, (unsigned *ret, void *p), cuMemHostGetFlags(ret, p))
PASS(cudaMemGetInfo, (size_t * left, size_t *total), cuMemGetInfo(left, total))

/* The device side of what cudaMallocAsync and pools give. */
PASS(cudaMallocAsync, (void **ret, size_t n, cudaStream_t s), cuMemAllocAsync((CUdeviceptr *)ret, n, s))
PASS(cudaFreeAsync, (void *p, cudaStream_t s), cuMemFreeAsync((CUdeviceptr)p, s))
PASS(cudaMallocFromPoolAsync, (void **ret, size_t n, cudaMemPool_t pool, cudaStream_t s),
     cuMemAllocFromPoolAsync((CUdeviceptr *)ret, n, pool, s))
PASS(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep), cuMemPoolTrimTo(pool, keep))
PASS(cudaMemPoolSetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr a, void *v),
     cuMemPoolSetAttribute(pool, (CUmemPool_attribute)a, v))
PASS(cudaMemPoolGetAttribute, (cudaMemPool_t pool, enum cudaMemPoolAttr a, void *v),
     cuMemPoolGetAttribute(pool, (CUmemPool_attribute)a, v))
PASS(cudaMemPoolSetAccess, (cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t n),
     cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)list, n))
PASS(cudaMemPoolGetAccess, (enum cudaMemAccessFlags * ret, cudaMemPool_t pool, struct cudaMemLocation *where),
     cuMemPoolGetAccess((CUmemAccess_flags *)ret, pool, (CUmemLocation *)where))
PASS(cudaMemPoolCreate, (cudaMemPool_t * ret, const struct cudaMemPoolProps *p),
     cuMemPoolCreate(ret, (const CUmemPoolProps *)p))
PASS(cudaMemPoolDestroy, (cudaMemPool_t pool), cuMemPoolDestroy(pool))
PASS(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * ret, int device), cuDeviceGetDefaultMemPool(ret, device))
PASS(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool), cuDeviceSetMemPool(device, pool))
PASS(cudaDeviceGetMemPool, (cudaMemPool_t * ret, int device), cuDeviceGetMemPool(ret, device))
PASS(cudaMemGetDefaultMemPool, (cudaMemPool_t * ret, struct cudaMemLocation *where, enum cudaMemAllocationType type),
     cuMemGetDefaultMemPool(ret, (CUmemLocation *)where, (CUmemAllocationType)type))
PASS(cudaMemGetMemPool, (cudaMemPool_t * ret, struct cudaMemLocation *where, enum cudaMemAllocationType type),
     cuMemGetMemPool(ret, (CUmemLocation *)where, (CUmemAllocationType)type))
PASS(cudaMemSetMemPool, (struct cudaMemLocation * where, enum cudaMemAllocationType type, cudaMemPool_t pool),
     cuMemSetMemPool((CUmemLocation *)where, (CUmemAllocationType)type, pool))

static CUmemLocation location_of(struct cudaMemLocation l)
{
    return (CUmemLocation){.type = (CUmemLocationType)l.type, .id = l.id};
}
PASS(cudaMemPrefetchAsync, (const void *p, size_t n, struct cudaMemLocation to, unsigned flags, cudaStream_t s),
     cuMemPrefetchAsync((CUdeviceptr)p, n, location_of(to), flags, s))
PASS(cudaMemAdvise, (const void *p, size_t n, enum cudaMemoryAdvise a, struct cudaMemLocation where),
     cuMemAdvise((CUdeviceptr)p, n, (CUmem_advise)a, location_of(where)))
PASS(cudaMemRangeGetAttribute, (void *ret, size_t bytes, enum cudaMemRangeAttribute a, const void *p, size_t n),
     cuMemRangeGetAttribute(ret, bytes, (CUmem_range_attribute)a, (CUdeviceptr)p, n))
PASS(cudaMemRangeGetAttributes,
     (void **ret, size_t *bytes, enum cudaMemRangeAttribute *a, size_t na, const void *p, size_t n),
     cuMemRangeGetAttributes(ret, bytes, (CUmem_range_attribute *)a, na, (CUdeviceptr)p, n))
PASS(cudaMemPrefetchBatchAsync,
     (void **p, size_t *n, size_t count, struct cudaMemLocation *to, size_t *at, size_t nto, unsigned long long flags,
      cudaStream_t s),
     cuMemPrefetchBatchAsync((CUdeviceptr *)p, n, count, (CUmemLocation *)to, at, nto, flags, s))
PASS(cudaMemDiscardBatchAsync, (void **p, size_t *n, size_t count, unsigned long long flags, cudaStream_t s),
     cuMemDiscardBatchAsync((CUdeviceptr *)p, n, count, flags, s))
PASS(cudaMemDiscardAndPrefetchBatchAsync,
     (void **p, size_t *n, size_t count, struct cudaMemLocation *to, size_t *at, size_t nto, unsigned long long flags,
      cudaStream_t s),
     cuMemDiscardAndPrefetchBatchAsync((CUdeviceptr *)p, n, count, (CUmemLocation *)to, at, nto, flags, s))

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *ret, const void *p)
{
    unsigned type = 0, managed = 0;
    int device = 0;
    CUdeviceptr on_device = 0;
    void *on_host = NULL;
    CUpointer_attribute a[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                               CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                               CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *v[] = {&type, &managed, &device, &on_device, &on_host};
    DTRT_CONTEXT();
    DTRT_REQUIRE(ret, cudaErrorInvalidValue);
    DTRT_TRY((cudaError_t)dtrt_drv.cuPointerGetAttributes(5, a, v, (CUdeviceptr)p));
    *ret = (struct cudaPointerAttributes){.type = managed                        ? cudaMemoryTypeManaged
                                                  : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                                                  : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                                                                 : cudaMemoryTypeUnregistered,
                                          .device = type ? device : -2 /* cudaInvalidDeviceId */,
                                          .devicePointer = (void *)on_device,
                                          .hostPointer = type ? on_host : (void *)(uintptr_t)p};
    return cudaSuccess;
}
