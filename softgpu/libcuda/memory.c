/* Allocation: device, pinned host, managed; what is known about a pointer.
 *
 * Device memory is host memory (softgpu/memory/memory.c), so host allocations and managed memory are the same bytes for
 * both sides; they are registered with the device so that kernels may touch them, and only them. Allocation in stream
 * order is done at once: all earlier work of every stream has already run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "softgpu/libcuda/cu-priv.h"

/* Linux promises memory that it does not have and kills who touches it: do not ask for more than is to be had. */
static bool host_has(size_t bytes)
{
    unsigned long long kb = 0;
    char line[128];
    FILE *f = bytes > (64u << 20) ? fopen("/proc/meminfo", "re") : NULL;
    if (!f)
        return true;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, "MemAvailable:", 13))
            kb = strtoull(line + 13, NULL, 10);
    fclose(f);
    return !kb || bytes / 1024 < kb;
}

CUresult cuMemAlloc(CUdeviceptr *ret, size_t bytes)
{
    CU_CONTEXT(c);
    uint64_t addr = 0;
    CU_REQUIRE(ret && bytes, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_unsafe(c));
    CU_TRY(cu_from_dt(sg_mem_alloc_for(c->dev->sg, bytes, c, &addr)));
    *ret = addr;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch(CUdeviceptr *ret, size_t *pitch, size_t width, size_t height, unsigned element)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && pitch && width && height, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(element == 4 || element == 8 || element == 16, CUDA_ERROR_INVALID_VALUE);
    size_t p = 0, bytes;
    CU_REQUIRE(!__builtin_add_overflow(width, 511, &p) && p <= INT32_MAX, CUDA_ERROR_INVALID_VALUE); /* MAX_PITCH */
    p = p / 512 * 512;
    CU_REQUIRE(!__builtin_mul_overflow(p, height, &bytes), CUDA_ERROR_OUT_OF_MEMORY);
    CU_TRY(cuMemAlloc(ret, bytes));
    *pitch = p;
    return CUDA_SUCCESS;
}

struct cu_range *cu_range_at(struct CUctx_st *c, CUdeviceptr p, bool inside)
{
    for (size_t i = 0; i < c->range.n; i++) {
        struct cu_range *r = &c->range.p[i];
        if (r->kind == CU_RANGE_ALLOWED)
            continue;
        if (inside ? p >= r->base && p - r->base < r->bytes : p == r->base)
            return r;
    }
    return NULL;
}

static void memory_drop(struct CUctx_st *c, struct cu_range *r)
{
    sg_mem_unregister(c->dev->sg, (void *)(uintptr_t)r->base);
    free(r->host);
    *r = c->range.p[--c->range.n];
}

static CUresult host_alloc(struct CUctx_st *c, void **ret, size_t bytes, int kind, unsigned flags)
{
    void *p = NULL;
    CU_REQUIRE(ret && bytes, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_unsafe(c));
    CU_REQUIRE(bytes <= PTRDIFF_MAX - 4096 && host_has(bytes) && !posix_memalign(&p, 4096, bytes),
               CUDA_ERROR_OUT_OF_MEMORY);
    CUresult r = cu_from_dt(sg_mem_register(c->dev->sg, p, bytes, false));
    if (r == CUDA_SUCCESS && !dt_push(&c->range, (struct cu_range){(CUdeviceptr)(uintptr_t)p, bytes, kind, p, flags})) {
        sg_mem_unregister(c->dev->sg, p);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r != CUDA_SUCCESS)
        free(p);
    else
        *ret = p;
    return r;
}

CUresult cuMemFree(CUdeviceptr p)
{
    CU_CONTEXT(c);
    if (!p)
        return CUDA_SUCCESS;
    CU_TRY(cu_capture_unsafe(c));
    struct cu_range *r = cu_range_at(c, p, false);
    if (r && r->kind == CU_RANGE_MANAGED) {
        memory_drop(c, r);
        return CUDA_SUCCESS;
    }
    if (cu_pool_free(c, p) == CUDA_SUCCESS || cu_graph_memory_free(p) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    CU_REQUIRE(sg_mem_owner(c->dev->sg, p), CUDA_ERROR_INVALID_VALUE); /* variables of modules have none */
    return sg_mem_free(c->dev->sg, p) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *ret, size_t bytes, unsigned flags)
{
    CU_CONTEXT(c);
    void *p;
    CU_REQUIRE(ret && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST), CUDA_ERROR_INVALID_VALUE);
    CU_TRY(host_alloc(c, &p, bytes, CU_RANGE_MANAGED, flags));
    *ret = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
    CU_CONTEXT(c);
    CU_REQUIRE(
        !(flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)),
        CUDA_ERROR_INVALID_VALUE);
    return host_alloc(c, ret, bytes, CU_RANGE_HOST, flags | CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult cuMemAllocHost(void **ret, size_t bytes) { return cuMemHostAlloc(ret, bytes, 0); }

CUresult cuMemFreeHost(void *p)
{
    CU_CONTEXT(c);
    CU_TRY(cu_capture_unsafe(c));
    struct cu_range *r = cu_range_at(c, (CUdeviceptr)(uintptr_t)p, false);
    CU_REQUIRE(r && r->kind == CU_RANGE_HOST, CUDA_ERROR_INVALID_VALUE);
    memory_drop(c, r);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *p, size_t bytes, unsigned flags)
{
    CU_CONTEXT(c);
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
    CU_REQUIRE(p && bytes, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(!(flags & CU_MEMHOSTREGISTER_IOMEMORY), CUDA_ERROR_NOT_SUPPORTED);
    CU_REQUIRE(!(flags & ~known) && bytes <= UINTPTR_MAX - (uintptr_t)p, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_capture_unsafe(c));
    CU_REQUIRE(!cu_range_at(c, (CUdeviceptr)(uintptr_t)p, true), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    int r = sg_mem_register(c->dev->sg, p, bytes, (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0);
    CU_REQUIRE(r != DT_E_USAGE, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED); /* a part of it */
    CU_TRY(cu_from_dt(r));
    if (!dt_push(&c->range, (struct cu_range){(CUdeviceptr)(uintptr_t)p, bytes, CU_RANGE_REGISTERED, NULL, flags})) {
        sg_mem_unregister(c->dev->sg, p);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *p)
{
    CU_CONTEXT(c);
    struct cu_range *r = cu_range_at(c, (CUdeviceptr)(uintptr_t)p, false);
    CU_REQUIRE(r && r->kind == CU_RANGE_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    memory_drop(c, r);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *ret, void *p, unsigned flags)
{
    CU_CONTEXT(c);
    const struct cu_range *r = cu_range_at(c, (CUdeviceptr)(uintptr_t)p, true);
    CU_REQUIRE(ret && !flags && r && r->kind != CU_RANGE_ARENA, CUDA_ERROR_INVALID_VALUE);
    *ret = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned *ret, void *p)
{
    CU_CONTEXT(c);
    const struct cu_range *r = cu_range_at(c, (CUdeviceptr)(uintptr_t)p, true);
    CU_REQUIRE(ret && r && r->kind == CU_RANGE_HOST, CUDA_ERROR_INVALID_VALUE);
    *ret = r->flags;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *ret_free, size_t *ret_total)
{
    CU_CONTEXT(c);
    uint64_t f, t;
    sg_mem_info(c->dev->sg, &f, &t);
    if (ret_free)
        *ret_free = f;
    if (ret_total)
        *ret_total = t;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
    CU_CONTEXT(c);
    uint64_t b, n;
    CU_REQUIRE(sg_mem_find(c->dev->sg, p, &b, &n), CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = b;
    if (size)
        *size = n;
    return CUDA_SUCCESS;
}

/* ---- extension: an arena of which only parts may be touched ---- */

static void spare_drop(struct cu_range *spare)
{
    if (spare->base)
        munmap((void *)(uintptr_t)spare->base, spare->room);
    *spare = (struct cu_range){0};
}

void cu_spare_drop(struct CUctx_st *c)
{
    for (unsigned k = 0; k < CU_SPARES; k++)
        spare_drop(&c->spare[k]);
}

/* The one with least room that has at least so much. Of 0: the one with least of all, which may be empty. */
static struct cu_range *spare_of(struct CUctx_st *c, uint64_t room)
{
    struct cu_range *best = NULL;
    for (struct cu_range *s = c->spare; s < c->spare + CU_SPARES; s++)
        if (s->room >= room && (!best || s->room < best->room))
            best = s;
    return best;
}

/* A spare arena of so much room: the one with most has its pages moved to where there is more behind them, as pages
 * that are there need not be made and cleared; those that nobody touches cost nothing. NULL: there is no memory. */
static struct cu_range *spare_grown(struct CUctx_st *c, uint64_t room)
{
    struct cu_range *most = c->spare;
    for (struct cu_range *s = c->spare; s < c->spare + CU_SPARES; s++)
        most = s->room > most->room ? s : most;
    void *p = most->base ? mremap((void *)(uintptr_t)most->base, most->room, room, MREMAP_MAYMOVE) : MAP_FAILED;
    if (p == MAP_FAILED) {
        spare_drop(most);
        if (!(p = sg_pages(room)))
            return NULL;
    }
    most->base = (CUdeviceptr)(uintptr_t)p;
    most->room = room;
    return most;
}

CUresult dovetailArenaAlloc(CUdeviceptr *ret, size_t bytes)
{
    CU_CONTEXT(c);
    CU_REQUIRE(ret && bytes, CUDA_ERROR_INVALID_VALUE);
    CU_REQUIRE(bytes <= c->dev->model->dram_bytes, CUDA_ERROR_OUT_OF_MEMORY);
    struct cu_range *spare = spare_of(c, bytes), arena;
    if (!spare) {
        CU_REQUIRE(host_has(bytes), CUDA_ERROR_OUT_OF_MEMORY);
        spare = spare_grown(c, bytes + bytes / 8); /* the next one may be a little larger */
        CU_REQUIRE(spare, CUDA_ERROR_OUT_OF_MEMORY);
    }
    arena = *spare;
    arena.bytes = bytes;
    arena.kind = CU_RANGE_ARENA;
    CU_REQUIRE(dt_push(&c->range, arena), CUDA_ERROR_OUT_OF_MEMORY);
    *spare = (struct cu_range){0};
    *ret = arena.base;
    return CUDA_SUCCESS;
}

CUresult dovetailArenaAllow(CUdeviceptr p, size_t bytes)
{
    CU_CONTEXT(c);
    const struct cu_range *r = cu_range_at(c, p, true);
    CU_REQUIRE(r && r->kind == CU_RANGE_ARENA && bytes && bytes <= r->bytes - (p - r->base), CUDA_ERROR_INVALID_VALUE);
    void *host = (void *)(uintptr_t)p;
    CU_TRY(cu_from_dt(sg_mem_register(c->dev->sg, host, bytes, false)));
    if (!dt_push(&c->range, (struct cu_range){p, bytes, CU_RANGE_ALLOWED, NULL})) {
        sg_mem_unregister(c->dev->sg, host);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_mem_forget(c->dev->sg, p, bytes);
    return CUDA_SUCCESS;
}

CUresult dovetailArenaProtect(CUdeviceptr p, int on)
{
    CU_CONTEXT(c);
    const struct cu_range *r = cu_range_at(c, p, true);
    CU_REQUIRE(r && r->kind == CU_RANGE_ARENA, CUDA_ERROR_INVALID_VALUE);
    return cu_from_dt(sg_mem_protect(c->dev->sg, p, on));
}

CUresult dovetailArenaFree(CUdeviceptr base)
{
    CU_CONTEXT(c);
    struct cu_range *r = cu_range_at(c, base, false);
    CU_REQUIRE(r && r->kind == CU_RANGE_ARENA, CUDA_ERROR_INVALID_VALUE);
    struct cu_range arena = *r;
    *r = c->range.p[--c->range.n];
    for (size_t i = 0; i < c->range.n;) {
        const struct cu_range *q = &c->range.p[i];
        if (q->kind == CU_RANGE_ALLOWED && q->base >= arena.base && q->base - arena.base < arena.bytes)
            memory_drop(c, &c->range.p[i]);
        else
            i++;
    }
    struct cu_range *least = spare_of(c, 0);
    if (arena.room < least->room) {
        spare_drop(&arena);
        return CUDA_SUCCESS;
    }
    spare_drop(least);
    *least = arena; /* its pages would have to be made and cleared again: a tenth of planning large graphs */
    return CUDA_SUCCESS;
}
