/* Questions about addresses, and advice about managed memory.
 *
 * The advice has no effect, since host and device share every byte: it is checked and forgotten.
 */
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

static CUresult pointer_attribute(struct CUctx_st *c, void *ret, CUpointer_attribute a, CUdeviceptr p)
{
    uint64_t base, bytes;
    CU_REQUIRE(sg_mem_find(c->dev->sg, p, &base, &bytes), CUDA_ERROR_INVALID_VALUE);
    const struct cu_range *r = cu_range_at(c, p, true);
    bool host = r && (r->kind == CU_RANGE_HOST || r->kind == CU_RANGE_REGISTERED),
         managed = r && r->kind == CU_RANGE_MANAGED;
    const void *owner = sg_mem_owner(c->dev->sg, p);
    switch (a) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)ret = cu_is(owner, CU_CTX) ? (CUcontext)(uintptr_t)owner : c;
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)ret = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)ret = p; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        CU_REQUIRE(host || managed, CUDA_ERROR_INVALID_VALUE);
        *(void **)ret = (void *)(uintptr_t)p;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)ret = managed; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)ret = cu_device_ordinal(c->dev); break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(unsigned *)ret = 0; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)ret = base; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)ret = bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned char *)ret = 1; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: *(unsigned long long *)ret = 0; break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *(unsigned *)ret = 0; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(unsigned long long *)ret = CU_MEM_ACCESS_FLAGS_PROT_READWRITE; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)ret = cu_pool_of(c, p); break;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *(size_t *)ret = bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: *(CUdeviceptr *)ret = base; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)ret = base; break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)ret = 0; break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS: return CUDA_ERROR_NOT_SUPPORTED;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *ret, CUpointer_attribute a, CUdeviceptr p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    return pointer_attribute(c, ret, a, p);
}

/* Bytes of an answer; 0: there is no such attribute. */
static size_t size_of(CUpointer_attribute a)
{
    switch (a) {
    case CU_POINTER_ATTRIBUTE_MAPPED: return 1;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: return 4;
    default: return a > 0 && a <= CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID ? 8 : 0;
    }
}

CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *a, void **ret, CUdeviceptr p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(!n || (a && ret), CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < n; i++)
        CU_REQUIRE(ret[i] && size_of(a[i]) && a[i] != CU_POINTER_ATTRIBUTE_P2P_TOKENS, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < n; i++)
        if (pointer_attribute(c, ret[i], a[i], p) != CUDA_SUCCESS) { /* what does not apply is 0, the ordinal -2 */
            memset(ret[i], 0, size_of(a[i]));
            if (a[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
                *(int *)ret[i] = -2;
        }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute a, CUdeviceptr p)
{
    CU_CONTEXT(c);
    CU_REQUIRE(value && a == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && sg_mem_find(c->dev->sg, p, NULL, NULL),
               CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS; /* they are synchronous anyway */
}

/* ---- managed memory: device memory is refused as NVIDIA's driver does, registered and host memory is not ---- */
static bool managed(struct CUctx_st *c, CUdeviceptr p, size_t n)
{
    const struct cu_range *r = cu_range_at(c, p, true);
    return n && r && r->kind != CU_RANGE_ARENA && n <= r->bytes - (p - r->base);
}

static CUresult where_ok(CUmemLocation where)
{
    switch (where.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: return cu_device_at(where.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr p, size_t n, CUmemLocation where, unsigned flags, CUstream stream)
{
    CU_CONTEXT(c);
    CU_REQUIRE(cu_stream(c, stream), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(!flags && managed(c, p, n), CUDA_ERROR_INVALID_VALUE);
    return where_ok(where); /* it is where it is needed already */
}

CUresult cuMemAdvise(CUdeviceptr p, size_t n, CUmem_advise advice, CUmemLocation where)
{
    CU_CONTEXT(c);
    CU_REQUIRE(advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY && managed(c, p, n),
               CUDA_ERROR_INVALID_VALUE);
    if (advice == CU_MEM_ADVISE_SET_READ_MOSTLY || advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
        advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
        return CUDA_SUCCESS; /* `where` does not count */
    return where_ok(where);
}

static CUresult batch(struct CUctx_st *c, CUdeviceptr *p, size_t *n, size_t count, CUstream stream,
                      unsigned long long flags)
{
    CU_REQUIRE(cu_stream(c, stream), CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(p && n && count && !flags, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++)
        CU_REQUIRE(managed(c, p[i], n[i]), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr *p, size_t *n, size_t count, CUmemLocation *where, size_t *index,
                                 size_t nwhere, unsigned long long flags, CUstream stream)
{
    CU_CONTEXT(c);
    CU_TRY(batch(c, p, n, count, stream, flags));
    CU_REQUIRE(where && index && nwhere && nwhere <= count && !index[0], CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < nwhere; i++) {
        CU_REQUIRE(index[i] < count && (!i || index[i] > index[i - 1]), CUDA_ERROR_INVALID_VALUE);
        CU_TRY(where_ok(where[i]));
    }
    return CUDA_SUCCESS;
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr *p, size_t *n, size_t count, unsigned long long flags, CUstream stream)
{
    CU_CONTEXT(c);
    return batch(c, p, n, count, stream, flags); /* the content may be lost, and is not */
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *p, size_t *n, size_t count, CUmemLocation *where, size_t *index,
                                           size_t nwhere, unsigned long long flags, CUstream stream)
{
    return cuMemPrefetchBatchAsync(p, n, count, where, index, nwhere, flags, stream);
}

CUresult cuMemRangeGetAttribute(void *ret, size_t size, CUmem_range_attribute a, CUdeviceptr p, size_t n)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && managed(c, p, n), CUDA_ERROR_INVALID_VALUE);
    switch (a) { /* no advice is kept: nothing is preferred, nothing was prefetched */
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        CU_REQUIRE(size == 4, CUDA_ERROR_INVALID_VALUE);
        *(int *)ret = 0;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        CU_REQUIRE(size == 4, CUDA_ERROR_INVALID_VALUE);
        *(int *)ret = CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        CU_REQUIRE(size && size % 4 == 0, CUDA_ERROR_INVALID_VALUE);
        for (size_t i = 0; i < size / 4; i++)
            ((int *)ret)[i] = CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        CU_REQUIRE(size == sizeof(CUmemLocationType), CUDA_ERROR_INVALID_VALUE);
        *(CUmemLocationType *)ret = CU_MEM_LOCATION_TYPE_INVALID;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        CU_REQUIRE(size == 4, CUDA_ERROR_INVALID_VALUE);
        *(int *)ret = CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemRangeGetAttributes(void **ret, size_t *size, CUmem_range_attribute *a, size_t count, CUdeviceptr p,
                                 size_t n)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && size && a && count, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++)
        CU_TRY(cuMemRangeGetAttribute(ret[i], size[i], a[i], p, n));
    return CUDA_SUCCESS;
}
