/* Memory that graphs allocate and free (allocation and free nodes), and what a device says about it.
 *
 * The address of such memory is decided when the allocation node is made, and is the same in every launch, so other
 * nodes can name it. For kernels and copies the memory exists only from the run of the allocation node to a free node,
 * cuMemFree or cuMemFreeAsync: meanwhile it is registered with the device (its pages stay). A node and its copies in
 * clones and execs share one memory. It goes when the last of these nodes is gone and the memory is not allocated.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "softgpu/libcuda/cu-priv.h"

struct cu_graph_memory {
    struct cu_graph_memory *next;
    struct cu_device *dev;
    unsigned refs;
    bool live;   /* allocated */
    char *pages; /* a first page that belongs to nobody, the bytes, and another */
    size_t bytes, room;
};

enum { PAGE = 4096 };
static struct cu_graph_memory *all;
static uint64_t used[2], reserved[2]; /* now, and at most */

static void graph_memory_count(uint64_t v[2], int64_t by)
{
    v[0] += (uint64_t)by;
    v[1] = v[0] > v[1] ? v[0] : v[1];
}

CUresult cu_graph_memory_new(struct cu_device *d, size_t bytes, struct cu_graph_memory **ret)
{
    CU_REQUIRE(bytes <= d->model->dram_bytes, CUDA_ERROR_OUT_OF_MEMORY);
    struct cu_graph_memory *m = dt_calloc(1, sizeof *m);
    CU_REQUIRE(m, CUDA_ERROR_OUT_OF_MEMORY);
    m->room = (bytes + PAGE - 1) / PAGE * PAGE + 2 * PAGE;
    m->pages = mmap(NULL, m->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->pages == MAP_FAILED) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->dev = d;
    m->refs = 1;
    m->bytes = bytes;
    m->next = all;
    all = m;
    graph_memory_count(reserved, (int64_t)m->room);
    *ret = m;
    return CUDA_SUCCESS;
}

struct cu_graph_memory *cu_graph_memory_share(struct cu_graph_memory *m)
{
    if (m)
        m->refs++;
    return m;
}

static void release(struct cu_graph_memory *m)
{
    if (m->refs || m->live)
        return;
    for (struct cu_graph_memory **p = &all; *p; p = &(*p)->next)
        if (*p == m) {
            *p = m->next;
            break;
        }
    graph_memory_count(reserved, -(int64_t)m->room);
    munmap(m->pages, m->room);
    free(m);
}

void cu_graph_memory_drop(struct cu_graph_memory *m)
{
    if (!m)
        return;
    m->refs--;
    release(m);
}

CUdeviceptr cu_graph_memory_address(const struct cu_graph_memory *m)
{
    return (CUdeviceptr)(uintptr_t)(m->pages + PAGE);
}

static struct cu_graph_memory *at(CUdeviceptr p)
{
    for (struct cu_graph_memory *m = all; m; m = m->next)
        if (cu_graph_memory_address(m) == p)
            return m;
    return NULL;
}

bool cu_graph_memory_starts(CUdeviceptr p) { return at(p) != NULL; }

bool cu_graph_memory_holds(CUdeviceptr p, size_t bytes)
{
    for (struct cu_graph_memory *m = all; m; m = m->next) {
        CUdeviceptr base = cu_graph_memory_address(m);
        if (p >= base && p - base <= m->bytes && bytes <= m->bytes - (p - base))
            return true;
    }
    return false;
}

CUresult cu_graph_memory_alloc(struct cu_graph_memory *m)
{
    CU_REQUIRE(!m->live && m->dev->sg, CUDA_ERROR_INVALID_VALUE);
    CU_TRY(cu_from_dt(sg_mem_register(m->dev->sg, m->pages + PAGE, m->bytes, false)));
    memset(m->pages + PAGE, 0xFF, m->bytes);
    sg_mem_forget(m->dev->sg, cu_graph_memory_address(m), m->bytes);
    m->live = true;
    graph_memory_count(used, (int64_t)m->bytes);
    return CUDA_SUCCESS;
}

CUresult cu_graph_memory_free(CUdeviceptr p)
{
    struct cu_graph_memory *m = at(p);
    CU_REQUIRE(m && m->live, CUDA_ERROR_INVALID_VALUE);
    if (m->dev->sg)
        sg_mem_unregister(m->dev->sg, m->pages + PAGE);
    m->live = false;
    graph_memory_count(used, -(int64_t)m->bytes);
    release(m);
    return CUDA_SUCCESS;
}

void cu_graph_memory_reset(struct cu_device *d)
{
    for (struct cu_graph_memory *m = all, *next; m; m = next) {
        next = m->next;
        if (m->dev == d && m->live) {
            m->live = false;
            graph_memory_count(used, -(int64_t)m->bytes);
            release(m);
        }
    }
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute a, void *ret)
{
    CU_READY();
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    CU_REQUIRE(ret, CUDA_ERROR_INVALID_VALUE);
    switch (a) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)ret = used[0]; return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: *(cuuint64_t *)ret = used[1]; return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)ret = reserved[0]; return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)ret = reserved[1]; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, CUgraphMem_attribute a, void *value)
{
    CU_READY();
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    /* the high marks may be set back to 0, which means: to now */
    CU_REQUIRE(value && !*(cuuint64_t *)value, CUDA_ERROR_INVALID_VALUE);
    switch (a) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH: used[1] = used[0]; return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH: reserved[1] = reserved[0]; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
    CU_READY();
    CU_REQUIRE(cu_device_at(dev), CUDA_ERROR_INVALID_DEVICE);
    return CUDA_SUCCESS; /* nothing is kept that no graph needs */
}
