/* Memory pools and allocation in stream order.
 *
 * Work runs inside the call that asks for it. So an allocation in stream order is made at once, and a free is done at
 * once: all earlier work of every stream has run. A pool is therefore a set of properties and a count. Freed memory
 * goes back to the host, so the reserved bytes of a pool are its used bytes. In a capture both calls become nodes
 * (graph-memory.c).
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/libcuda/cu-priv.h"

struct CUmemPoolHandle_st {
    struct cu_device *dev;
    CUmemPoolProps props;
    bool is_default, doomed; /* doomed: destroyed while it has allocations */
    int reuse[3];            /* the three attributes of reuse: kept and handed back */
    uint64_t threshold, used, high, count;
};

static CUresult pool_new(struct cu_device *d, const CUmemPoolProps *props, struct CUmemPoolHandle_st **ret)
{
    struct CUmemPoolHandle_st *p = dt_calloc(1, sizeof *p);
    if (!p || !cu_handle_add(p, CU_POOL)) {
        free(p);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    p->dev = d;
    p->props = *props;
    p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
    *ret = p;
    return CUDA_SUCCESS;
}

static void pool_release(struct CUmemPoolHandle_st *p)
{
    if (!p->doomed || p->count)
        return;
    cu_handle_free(p);
}

static CUresult default_pool(struct cu_device *d, struct CUmemPoolHandle_st **ret)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, cu_device_ordinal(d)}};
    if (!d->default_pool) {
        CU_TRY(pool_new(d, &props, &d->default_pool));
        d->default_pool->is_default = true;
    }
    *ret = d->default_pool;
    return CUDA_SUCCESS;
}

static CUresult current_pool(struct cu_device *d, struct CUmemPoolHandle_st **ret)
{
    if (!cu_is(d->pool, CU_POOL) || d->pool->doomed)
        return default_pool(d, ret);
    *ret = d->pool;
    return CUDA_SUCCESS;
}

#define CU_POOL_OF(p)                                                                                                  \
    CU_READY();                                                                                                        \
    CU_REQUIRE(cu_is(p, CU_POOL) && !p->doomed, CUDA_ERROR_INVALID_VALUE)

CUresult cuMemPoolCreate(CUmemoryPool *ret, const CUmemPoolProps *props)
{
    CU_READY();
    CU_REQUIRE(ret && props, CUDA_ERROR_INVALID_VALUE);
    /* no sharing with other processes */
    CU_REQUIRE(props->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
    CU_REQUIRE(props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(props->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    CU_REQUIRE(cu_device_at(props->location.id), CUDA_ERROR_INVALID_DEVICE);
    return pool_new(cu_device_at(props->location.id), props, ret);
}

CUresult cuMemPoolDestroy(CUmemoryPool p)
{
    CU_POOL_OF(p);
    CU_REQUIRE(!p->is_default, CUDA_ERROR_INVALID_VALUE);
    if (p->dev->pool == p)
        p->dev->pool = NULL;
    p->doomed = true;
    pool_release(p);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool p, size_t keep)
{
    CU_POOL_OF(p);
    return CUDA_SUCCESS; /* nothing is kept */
}

CUresult cuMemPoolSetAttribute(CUmemoryPool p, CUmemPool_attribute a, void *value)
{
    CU_POOL_OF(p);
    CU_REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    switch (a) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        p->reuse[a - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: p->threshold = *(cuuint64_t *)value; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        CU_REQUIRE(!*(cuuint64_t *)value, CUDA_ERROR_INVALID_VALUE); /* back to now */
        p->high = p->used;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool p, CUmemPool_attribute a, void *ret)
{
    CU_POOL_OF(p);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    switch (a) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)ret = p->reuse[a - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)ret = p->threshold; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)ret = p->used; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)ret = p->high; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool p, const CUmemAccessDesc *map, size_t n)
{
    CU_POOL_OF(p);
    CU_REQUIRE(!n || map, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++) {
        CU_REQUIRE(map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
        /* there are no peers */
        CU_REQUIRE(cu_device_at(map[i].location.id) == p->dev, CUDA_ERROR_INVALID_DEVICE);
        /* not for its own device */
        CU_REQUIRE(map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CUDA_ERROR_INVALID_VALUE);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *ret, CUmemoryPool p, CUmemLocation *where)
{
    CU_POOL_OF(p);
    CU_REQUIRE(ret && where && where->type == CU_MEM_LOCATION_TYPE_DEVICE && cu_device_at(where->id),
               CUDA_ERROR_INVALID_VALUE);
    *ret = cu_device_at(where->id) == p->dev ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

/* ---- which pool a device uses ---- */
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret, CUdevice dev)
{
    CU_READY();
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    return default_pool(cu_device_at(dev), ret);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *ret, CUdevice dev)
{
    CU_READY();
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    return current_pool(cu_device_at(dev), ret);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool p)
{
    CU_READY();
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    CU_REQUIRE(cu_is(p, CU_POOL) && !p->doomed && p->dev == cu_device_at(dev), CUDA_ERROR_INVALID_VALUE);
    p->dev->pool = p;
    return CUDA_SUCCESS;
}

static CUresult located(const CUmemLocation *where, CUmemAllocationType type, CUdevice *ret)
{
    CU_REQUIRE(where && type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(where->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    *ret = where->id;
    return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *ret, CUmemLocation *where, CUmemAllocationType type)
{
    CU_READY();
    CUdevice dev;
    CU_TRY(located(where, type, &dev));
    return cuDeviceGetDefaultMemPool(ret, dev);
}

CUresult cuMemGetMemPool(CUmemoryPool *ret, CUmemLocation *where, CUmemAllocationType type)
{
    CU_READY();
    CUdevice dev;
    CU_TRY(located(where, type, &dev));
    return cuDeviceGetMemPool(ret, dev);
}

CUresult cuMemSetMemPool(CUmemLocation *where, CUmemAllocationType type, CUmemoryPool p)
{
    CU_READY();
    CUdevice dev;
    CU_TRY(located(where, type, &dev));
    return cuDeviceSetMemPool(dev, p);
}

/* ---- allocation: c->pooled is sorted by address ---- */
static size_t pool_place(const struct CUctx_st *c, CUdeviceptr p)
{
    size_t lo = 0, hi = c->pooled.n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c->pooled.p[mid].base + c->pooled.p[mid].bytes > p)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

struct CUmemPoolHandle_st *cu_pool_of(struct CUctx_st *c, CUdeviceptr p)
{
    size_t i = pool_place(c, p);
    return i < c->pooled.n && c->pooled.p[i].base <= p ? c->pooled.p[i].pool : NULL;
}

static void give_back(struct cu_pooled *a)
{
    a->pool->used -= a->bytes;
    a->pool->count--;
    pool_release(a->pool);
}

CUresult cu_pool_free(struct CUctx_st *c, CUdeviceptr p)
{
    size_t i = pool_place(c, p);
    CU_REQUIRE(i < c->pooled.n && c->pooled.p[i].base == p, CUDA_ERROR_NOT_FOUND);
    sg_mem_free(c->dev->sg, p);
    give_back(&c->pooled.p[i]);
    memmove(c->pooled.p + i, c->pooled.p + i + 1, (c->pooled.n - i - 1) * sizeof *c->pooled.p);
    c->pooled.n--;
    return CUDA_SUCCESS;
}

void cu_pool_leave(struct CUctx_st *c)
{
    for (size_t i = 0; i < c->pooled.n; i++)
        give_back(&c->pooled.p[i]);
    free(c->pooled.p);
    c->pooled.p = NULL;
    c->pooled.n = 0;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ret, size_t bytes, CUmemoryPool p, CUstream stream)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    uint64_t addr;
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_REQUIRE(ret && bytes && cu_is(p, CU_POOL) && !p->doomed && p->dev == c->dev, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_legacy(c, s));
    if (s->capture)
        return cu_capture_alloc(s, &p->props, bytes, ret);
    CU_REQUIRE(!p->props.maxSize || bytes <= p->props.maxSize - p->used, CUDA_ERROR_OUT_OF_MEMORY);
    CU_REQUIRE(dt_reserve(&c->pooled, c->pooled.n + 1), CUDA_ERROR_OUT_OF_MEMORY);
    CU_TRY(cu_from_dt(sg_mem_alloc_for(c->dev->sg, bytes, c, &addr)));
    size_t i = pool_place(c, addr);
    memmove(c->pooled.p + i + 1, c->pooled.p + i, (c->pooled.n - i) * sizeof *c->pooled.p);
    c->pooled.p[i] = (struct cu_pooled){addr, bytes, p};
    c->pooled.n++;
    p->count++;
    p->used += bytes;
    p->high = p->used > p->high ? p->used : p->high;
    *ret = addr;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *ret, size_t bytes, CUstream stream)
{
    CU_CONTEXT(c);
    struct CUmemPoolHandle_st *p;
    CU_TRY(current_pool(c->dev, &p));
    return cuMemAllocFromPoolAsync(ret, bytes, p, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream)
{
    CU_CONTEXT(c);
    struct CUstream_st *s = cu_stream(c, stream);
    CU_REQUIRE(s, CUDA_ERROR_INVALID_HANDLE);
    CU_TRY(cu_capture_legacy(c, s));
    if (s->capture)
        return cu_capture_free(s, p);
    CU_REQUIRE(p, CUDA_ERROR_INVALID_VALUE);
    return cu_pool_free(c, p) == CUDA_SUCCESS ? CUDA_SUCCESS : cuMemFree(p);
}
