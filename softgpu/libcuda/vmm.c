/* Virtual memory management: reserve addresses, create memory, map the one at the other, say who may touch it.
 *
 * A reservation is a range of host addresses without pages; memory is a memfd; mapping is mmap at the address. Device
 * access is granted by registering what is mapped: adjacent mappings with access are registered as one, so that a copy
 * may run across them. Sizes and addresses are multiples of 2 MiB, as on hardware. Sharing with other processes is
 * refused.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/libcuda/cu-priv.h"

#define GRANULE ((size_t)2 << 20)

struct memory { /* behind a CUmemGenericAllocationHandle */
    CUmemAllocationProp prop;
    size_t bytes;
    int fd;
    unsigned refs; /* of the program and of mappings */
    unsigned held; /* of the program alone */
};

struct mapping {
    uint64_t at, bytes;
    struct memory *memory;
    CUmemAccess_flags access;
    bool registered; /* the first of a run that is */
};

struct reservation {
    uint64_t base, bytes;
    struct cu_device *dev;             /* of the registered mappings; NULL: none */
    struct dt_vec(struct mapping) map; /* sorted */
};

static struct dt_vec(struct reservation) all;

static bool granular(uint64_t v) { return v % GRANULE == 0; }

static struct reservation *reserved(uint64_t p, uint64_t bytes)
{
    for (size_t i = 0; i < all.n; i++)
        if (p >= all.p[i].base && p - all.p[i].base < all.p[i].bytes && bytes <= all.p[i].bytes - (p - all.p[i].base))
            return &all.p[i];
    return NULL;
}

static struct mapping *mapped(uint64_t p)
{
    struct reservation *r = reserved(p, 1);
    for (size_t i = 0; r && i < r->map.n; i++)
        if (p >= r->map.p[i].at && p - r->map.p[i].at < r->map.p[i].bytes)
            return &r->map.p[i];
    return NULL;
}

static void unregister(struct reservation *r)
{
    for (size_t i = 0; i < r->map.n; i++) {
        if (r->map.p[i].registered && r->dev && r->dev->sg)
            sg_mem_unregister(r->dev->sg, (void *)(uintptr_t)r->map.p[i].at);
        r->map.p[i].registered = false;
    }
}

/* Register runs of adjacent mappings with the same access. */
static CUresult reregister(struct reservation *r, struct cu_device *d)
{
    unregister(r);
    r->dev = d;
    for (size_t i = 0, k; i < r->map.n; i = k) {
        uint64_t end = r->map.p[i].at + r->map.p[i].bytes;
        for (k = i + 1; k < r->map.n && r->map.p[k].at == end && r->map.p[k].access == r->map.p[i].access; k++)
            end += r->map.p[k].bytes;
        if (r->map.p[i].access == CU_MEM_ACCESS_FLAGS_PROT_NONE || !d || !d->sg)
            continue;
        CU_TRY(cu_from_dt(sg_mem_register(d->sg, (void *)(uintptr_t)r->map.p[i].at, end - r->map.p[i].at,
                                          r->map.p[i].access == CU_MEM_ACCESS_FLAGS_PROT_READ)));
        r->map.p[i].registered = true;
    }
    return CUDA_SUCCESS;
}

void cu_vmm_reset(struct cu_device *d)
{
    for (size_t i = 0; i < all.n; i++)
        for (size_t k = 0; all.p[i].dev == d && k < all.p[i].map.n; k++)
            all.p[i].map.p[k].registered = false;
}

CUresult cuMemAddressReserve(CUdeviceptr *ret, size_t size, size_t align, CUdeviceptr want, unsigned long long flags)
{
    CU_READY();
    CU_REQUIRE(ret && size && granular(size) && !flags && !(align & (align - 1)), CUDA_ERROR_INVALID_VALUE);
    align = align < GRANULE ? GRANULE : align;
    size_t room;
    CU_REQUIRE(!__builtin_add_overflow(size, align, &room), CUDA_ERROR_OUT_OF_MEMORY);
    char *p = mmap((void *)(uintptr_t)want, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CU_REQUIRE(p != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
    uintptr_t from = (uintptr_t)p, base = (from + align - 1) / align * align;
    if (base > from)
        munmap(p, base - from);
    if (from + room > base + size)
        munmap((char *)base + size, from + room - (base + size));
    if (!dt_push(&all, (struct reservation){.base = base, .bytes = size})) {
        munmap((void *)base, size);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = base;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr p, size_t size)
{
    CU_READY();
    struct reservation *r = reserved(p, size);
    CU_REQUIRE(r && r->base == p && r->bytes == size && !r->map.n, CUDA_ERROR_INVALID_VALUE);
    munmap((void *)(uintptr_t)p, size);
    free(r->map.p);
    *r = all.p[--all.n];
    return CUDA_SUCCESS;
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
    CU_REQUIRE(prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE &&
                   prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE,
               CUDA_ERROR_NOT_SUPPORTED);
    CU_REQUIRE(!prop->allocFlags.compressionType && !prop->allocFlags.gpuDirectRDMACapable, CUDA_ERROR_NOT_SUPPORTED);
    CU_REQUIRE(cu_device_at(prop->location.id), CUDA_ERROR_INVALID_DEVICE);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *ret, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    CU_READY();
    CU_REQUIRE(ret && (unsigned)option <= CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(check_prop(prop));
    *ret = GRANULE;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    CU_READY();
    CU_REQUIRE(ret && size && granular(size) && !flags, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(check_prop(prop));
    CU_REQUIRE(size <= cu_device_at(prop->location.id)->model->dram_bytes, CUDA_ERROR_OUT_OF_MEMORY);
    struct memory *m = dt_calloc(1, sizeof *m);
    CU_REQUIRE(m, CUDA_ERROR_OUT_OF_MEMORY);
    m->fd = memfd_create("dovetail", MFD_CLOEXEC);
    if (m->fd < 0 || ftruncate(m->fd, (off_t)size) < 0 || !cu_handle_add(m, CU_MEMORY)) {
        if (m->fd >= 0)
            close(m->fd);
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->prop = *prop;
    m->bytes = size;
    m->refs = m->held = 1;
    *ret = (CUmemGenericAllocationHandle)(uintptr_t)m;
    return CUDA_SUCCESS;
}

static void release(struct memory *m)
{
    if (--m->refs)
        return;
    close(m->fd);
    cu_handle_free(m);
}

static struct memory *memory_of(CUmemGenericAllocationHandle h)
{
    struct memory *m = (struct memory *)(uintptr_t)h;
    return cu_is(m, CU_MEMORY) && m->held ? m : NULL;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
    CU_READY();
    struct memory *m = memory_of(h);
    CU_REQUIRE(m, CUDA_ERROR_INVALID_VALUE);
    m->held--;
    release(m);
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret, void *p)
{
    CU_READY();
    struct mapping *m = mapped((uint64_t)(uintptr_t)p);
    CU_REQUIRE(ret && m, CUDA_ERROR_INVALID_VALUE);
    m->memory->held++;
    m->memory->refs++;
    *ret = (CUmemGenericAllocationHandle)(uintptr_t)m->memory;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *ret, CUmemGenericAllocationHandle h)
{
    CU_READY();
    CU_REQUIRE(ret && memory_of(h), CUDA_ERROR_INVALID_VALUE);
    *ret = memory_of(h)->prop;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr p, size_t size, size_t offset, CUmemGenericAllocationHandle h, unsigned long long flags)
{
    CU_READY();
    struct memory *m = memory_of(h);
    struct reservation *r = reserved(p, size);
    CU_REQUIRE(m && r && size && granular(size) && granular(p) && !offset && !flags && size <= m->bytes,
               CUDA_ERROR_INVALID_VALUE);
    size_t i = 0;
    while (i < r->map.n && r->map.p[i].at + r->map.p[i].bytes <= p)
        i++;
    CU_REQUIRE(i == r->map.n || r->map.p[i].at >= p + size, CUDA_ERROR_INVALID_VALUE); /* something is mapped there */
    CU_REQUIRE(dt_reserve(&r->map, r->map.n + 1), CUDA_ERROR_OUT_OF_MEMORY);
    CU_REQUIRE(mmap((void *)(uintptr_t)p, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, m->fd, 0) != MAP_FAILED,
               CUDA_ERROR_OUT_OF_MEMORY);
    memmove(r->map.p + i + 1, r->map.p + i, (r->map.n - i) * sizeof *r->map.p);
    r->map.p[i] = (struct mapping){.at = p, .bytes = size, .memory = m};
    r->map.n++;
    m->refs++;
    return CUDA_SUCCESS;
}

/* Do mappings cover [p, p + size) without a hole, and begin and end with it? */
static bool covers(const struct reservation *r, uint64_t p, uint64_t size)
{
    uint64_t at = p;
    for (size_t i = 0; i < r->map.n && at < p + size; i++)
        if (r->map.p[i].at == at)
            at += r->map.p[i].bytes;
    return at == p + size;
}

CUresult cuMemUnmap(CUdeviceptr p, size_t size)
{
    CU_READY();
    struct reservation *r = reserved(p, size);
    CU_REQUIRE(r && size && covers(r, p, size), CUDA_ERROR_INVALID_VALUE);
    struct cu_device *d = r->dev;
    unregister(r);
    size_t at = 0;
    for (size_t i = 0; i < r->map.n; i++) {
        struct mapping *m = &r->map.p[i];
        if (m->at < p || m->at >= p + size) {
            r->map.p[at++] = *m;
            continue;
        }
        mmap((void *)(uintptr_t)m->at, m->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0);
        release(m->memory);
    }
    r->map.n = at;
    return reregister(r, d);
}

CUresult cuMemSetAccess(CUdeviceptr p, size_t size, const CUmemAccessDesc *desc, size_t n)
{
    CU_READY();
    struct reservation *r = reserved(p, size);
    CU_REQUIRE(desc && n && r && size && covers(r, p, size), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++) {
        struct cu_device *d =
            desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE ? cu_device_at(desc[i].location.id) : NULL;
        CU_REQUIRE(d, CUDA_ERROR_INVALID_DEVICE);
        CU_REQUIRE(desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
                       desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                   CUDA_ERROR_INVALID_VALUE);
        for (size_t k = 0; k < r->map.n; k++)
            if (r->map.p[k].at >= p && r->map.p[k].at < p + size) {
                /* no peers */
                CU_REQUIRE(r->map.p[k].memory->prop.location.id == desc[i].location.id, CUDA_ERROR_INVALID_DEVICE);
                r->map.p[k].access = desc[i].flags;
            }
        CU_TRY(reregister(r, d));
    }
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *ret, const CUmemLocation *where, CUdeviceptr p)
{
    CU_READY();
    const struct mapping *m = mapped(p);
    CU_REQUIRE(ret && where && m && where->type == CU_MEM_LOCATION_TYPE_DEVICE && cu_device_at(where->id),
               CUDA_ERROR_INVALID_VALUE);
    *ret = m->memory->prop.location.id == where->id ? m->access : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}
