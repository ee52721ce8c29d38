/* Device memory: a sorted table of disjoint allocations.
 *
 * A device address is the host address of the same byte. Each allocation is a mapping of its own with at least 512
 * bytes on either side that belong to no allocation (the red zones), so that an overrun never lands in the next one.
 * Memory starts as bytes 0xFF, a NaN in every float type, so that a read before the first write shows in the results.
 *
 * Limits: the model's memory, and what the host has to spare (MemAvailable of /proc/meminfo, for large requests),
 * because Linux would otherwise promise the memory and kill the process when it is touched.
 *
 * What has been written is known only while it is tracked (sg_mem_track): a bit a byte beside each allocation made
 * since.
 *
 * Not here: checks of single accesses. The executor does them on a snapshot (sg_mem_pin).
 */
#include "softgpu/memory/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"

#define HUGE_FROM (UINT64_C(4) << 20) /* bytes from which an allocation asks for huge pages */

enum { ALIGN = 512, RED_ZONE = 512, BIG = 64 << 20 };

int sg_device_new(const struct sg_model *m, struct sg_device **ret)
{
    struct sg_device *d = dt_calloc(1, sizeof *d);
    if (!d)
        return DT_E_NOMEM;
    d->model = m;
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->exec_lock, NULL);
    *ret = d;
    return 0;
}

static void alloc_done(struct sg_alloc *a)
{
    if (a->raw)
        munmap(a->raw, a->raw_bytes);
    free(a->name);
    free(a->init);
    free(a->fetched);
}

struct sg_device *sg_device_free(struct sg_device *d)
{
    if (!d)
        return NULL;
    for (size_t i = 0; i < d->nalloc; i++)
        alloc_done(&d->alloc[i]);
    sg_heap_free(d);
    sg_textures_free(d);
    free(d->alloc);
    for (unsigned i = 0; i < SG_SPARES; i++)
        free(d->spare[i].p);
    pthread_mutex_destroy(&d->lock);
    pthread_mutex_destroy(&d->exec_lock);
    free(d);
    return NULL;
}

const struct sg_model *sg_device_model(const struct sg_device *d) { return d->model; }

#define SPARE_MAX (UINT64_C(8) << 20) /* larger pieces go back to the host at once */

void *sg_spare_get(struct sg_device *d, size_t *bytes)
{
    struct sg_spare *best = NULL;
    void *p = NULL;
    pthread_mutex_lock(&d->lock);
    for (struct sg_spare *s = d->spare; s < d->spare + SG_SPARES; s++)
        if (s->bytes >= *bytes && (!best || s->bytes < best->bytes))
            best = s;
    if (best && best->p) {
        p = best->p;
        *bytes = best->bytes;
        *best = (struct sg_spare){0};
    }
    pthread_mutex_unlock(&d->lock);
    if (!p && posix_memalign(&p, 128, *bytes))
        return NULL;
    return p;
}

void sg_spare_put(struct sg_device *d, void *p, size_t bytes)
{
    struct sg_spare *least = d->spare;
    pthread_mutex_lock(&d->lock);
    for (struct sg_spare *s = d->spare; s < d->spare + SG_SPARES; s++)
        if (s->bytes < least->bytes)
            least = s;
    if (p && bytes <= SPARE_MAX && bytes > least->bytes) {
        void *old = least->p;
        *least = (struct sg_spare){p, bytes};
        p = old;
    }
    pthread_mutex_unlock(&d->lock);
    free(p);
}

/* Index of the first allocation whose end is over `addr`. */
static size_t lower(const struct sg_alloc *a, size_t n, uint64_t addr)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (a[mid].end > addr)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

const struct sg_alloc *sg_mem_search(const struct sg_alloc *a, size_t n, uint64_t addr)
{
    size_t i = lower(a, n, addr);
    return i < n && a[i].base <= addr ? &a[i] : NULL;
}

void sg_mem_describe(const struct sg_alloc *a, size_t n, uint64_t addr, char *out, size_t size)
{
    size_t i = lower(a, n, addr);
    uint64_t before = i > 0 ? addr - a[i - 1].end : UINT64_MAX, after = i < n ? a[i].base - addr : UINT64_MAX;
    if (i < n && a[i].base <= addr)
        snprintf(out, size, "%llu bytes before the end of the %llu bytes at 0x%llx",
                 (unsigned long long)(a[i].end - addr), (unsigned long long)(a[i].end - a[i].base),
                 (unsigned long long)a[i].base);
    else if (i > 0 && before <= after && before < BIG)
        snprintf(out, size, "%llu bytes past the end of the %llu bytes at 0x%llx", (unsigned long long)before,
                 (unsigned long long)(a[i - 1].end - a[i - 1].base), (unsigned long long)a[i - 1].base);
    else if (i < n && after < BIG)
        snprintf(out, size, "%llu bytes before the %llu bytes at 0x%llx", (unsigned long long)after,
                 (unsigned long long)(a[i].end - a[i].base), (unsigned long long)a[i].base);
    else
        snprintf(out, size, "near no allocation");
}

/* Room in the table for one more at its place. The caller holds the lock. */
static int insert(struct sg_device *d, struct sg_alloc a)
{
    size_t i = lower(d->alloc, d->nalloc, a.base);
    if (i < d->nalloc && d->alloc[i].base < a.end)
        return DT_E_USAGE; /* overlaps */
    if (d->nalloc == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 64;
        struct sg_alloc *p = dt_reallocarray(d->alloc, cap, sizeof *p);
        if (!p)
            return DT_E_NOMEM;
        d->alloc = p;
        d->cap = cap;
    }
    memmove(d->alloc + i + 1, d->alloc + i, (d->nalloc - i) * sizeof *d->alloc);
    d->alloc[i] = a;
    d->nalloc++;
    d->used += a.end - a.base;
    return 0;
}

static uint64_t host_available(void)
{
    uint64_t kb = UINT64_MAX >> 10;
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f)
        return kb << 10;
    char line[128];
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, "MemAvailable:", 13))
            kb = strtoull(line + 13, NULL, 10);
    fclose(f);
    return kb << 10;
}

void *sg_pages(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (bytes >= HUGE_FROM)
        madvise(p, bytes, MADV_HUGEPAGE); /* else half the time of a short run is page faults */
    return p;
}

int sg_mem_alloc_as(struct sg_device *d, uint64_t bytes, bool read_only, uint64_t *ret_addr)
{
    if (!bytes)
        return DT_E_USAGE;
    uint64_t total = d->model ? d->model->dram_bytes : UINT64_MAX / 2;
    pthread_mutex_lock(&d->lock);
    bool fits = d->used <= total && bytes <= total - d->used;
    pthread_mutex_unlock(&d->lock);
    if (!fits || bytes > UINT64_MAX / 4)
        return DT_E_NOMEM;
    if (bytes >= BIG && bytes > host_available() / 16 * 15)
        return DT_E_NOMEM;

    /* mmap is page-aligned: a first page before and 512 bytes behind keep the neighbours away. */
    uint64_t raw_bytes = 4096 + bytes + RED_ZONE;
    void *raw = sg_pages(raw_bytes);
    if (!raw)
        return DT_E_NOMEM;
    memset(raw, 0xFF, raw_bytes);
    uint64_t base = (uint64_t)(uintptr_t)raw + 4096;
    struct sg_alloc a = {.base = base, .end = base + bytes, .raw = raw, .raw_bytes = raw_bytes, .read_only = read_only};
    pthread_mutex_lock(&d->lock);
    int r = insert(d, a);
    pthread_mutex_unlock(&d->lock);
    if (r < 0) {
        munmap(raw, raw_bytes);
        return r;
    }
    *ret_addr = base;
    return 0;
}

int sg_mem_alloc(struct sg_device *d, uint64_t bytes, uint64_t *ret_addr)
{
    int r = sg_mem_alloc_as(d, bytes, false, ret_addr);
    if (r == 0)
        sg_mem_forget(d, *ret_addr, bytes);
    return r;
}

int sg_mem_alloc_for(struct sg_device *d, uint64_t bytes, const void *owner, uint64_t *ret_addr)
{
    int r = sg_mem_alloc(d, bytes, ret_addr);
    if (r < 0)
        return r;
    pthread_mutex_lock(&d->lock);
    size_t i = lower(d->alloc, d->nalloc, *ret_addr);
    if (i < d->nalloc && d->alloc[i].base == *ret_addr)
        d->alloc[i].owner = owner;
    pthread_mutex_unlock(&d->lock);
    return 0;
}

const void *sg_mem_owner(const struct sg_device *cd, uint64_t addr)
{
    struct sg_device *d = (struct sg_device *)cd;
    pthread_mutex_lock(&d->lock);
    const struct sg_alloc *a = sg_mem_search(d->alloc, d->nalloc, addr);
    const void *owner = a ? a->owner : NULL;
    pthread_mutex_unlock(&d->lock);
    return owner;
}

void sg_mem_free_owned(struct sg_device *d, const void *owner)
{
    pthread_mutex_lock(&d->exec_lock);
    pthread_mutex_lock(&d->lock);
    size_t n = 0;
    for (size_t i = 0; i < d->nalloc; i++) {
        struct sg_alloc a = d->alloc[i];
        if (!a.raw || a.owner != owner) {
            d->alloc[n++] = a;
            continue;
        }
        d->used -= a.end - a.base;
        alloc_done(&a);
    }
    d->nalloc = n;
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_unlock(&d->exec_lock);
}

static int memory_drop(struct sg_device *d, uint64_t addr, bool registered)
{
    pthread_mutex_lock(&d->exec_lock);
    pthread_mutex_lock(&d->lock);
    size_t i = lower(d->alloc, d->nalloc, addr);
    int r = DT_E_NOT_FOUND;
    struct sg_alloc a = {0};
    if (i < d->nalloc && d->alloc[i].base == addr && !d->alloc[i].raw == registered) {
        a = d->alloc[i];
        memmove(d->alloc + i, d->alloc + i + 1, (d->nalloc - i - 1) * sizeof a);
        d->nalloc--;
        d->used -= a.end - a.base;
        r = 0;
    }
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_unlock(&d->exec_lock);
    alloc_done(&a);
    return r;
}

int sg_mem_free(struct sg_device *d, uint64_t addr) { return memory_drop(d, addr, false); }
int sg_mem_unregister(struct sg_device *d, void *p) { return memory_drop(d, (uint64_t)(uintptr_t)p, true); }

int sg_mem_protect(struct sg_device *d, uint64_t addr, bool on)
{
    pthread_mutex_lock(&d->lock);
    size_t i = lower(d->alloc, d->nalloc, addr);
    bool there = i < d->nalloc && d->alloc[i].base == addr;
    if (there)
        d->alloc[i].read_only = on;
    pthread_mutex_unlock(&d->lock);
    return there ? 0 : DT_E_NOT_FOUND;
}

int sg_mem_register(struct sg_device *d, void *p, uint64_t bytes, bool read_only)
{
    uint64_t base = (uint64_t)(uintptr_t)p;
    if (!p || !bytes || base + bytes < base)
        return DT_E_USAGE;
    pthread_mutex_lock(&d->lock);
    int r = insert(d, (struct sg_alloc){.base = base, .end = base + bytes, .read_only = read_only});
    pthread_mutex_unlock(&d->lock);
    return r;
}

bool sg_mem_find(const struct sg_device *cd, uint64_t addr, uint64_t *ret_base, uint64_t *ret_bytes)
{
    struct sg_device *d = (struct sg_device *)cd;
    pthread_mutex_lock(&d->lock);
    const struct sg_alloc *a = sg_mem_search(d->alloc, d->nalloc, addr);
    if (a) {
        if (ret_base)
            *ret_base = a->base;
        if (ret_bytes)
            *ret_bytes = a->end - a->base;
    }
    pthread_mutex_unlock(&d->lock);
    return a != NULL;
}

bool sg_mem_ok(const struct sg_device *cd, uint64_t addr, uint64_t bytes)
{
    uint64_t base, n;
    return sg_mem_find(cd, addr, &base, &n) && bytes <= n - (addr - base);
}

void sg_mem_info(const struct sg_device *cd, uint64_t *ret_free, uint64_t *ret_total)
{
    struct sg_device *d = (struct sg_device *)cd;
    uint64_t total = d->model ? d->model->dram_bytes : 0;
    pthread_mutex_lock(&d->lock);
    *ret_free = total > d->used ? total - d->used : 0;
    pthread_mutex_unlock(&d->lock);
    *ret_total = total;
}

/* ---- names, and what is written ---------------------------------------------------------------------------------- */
static struct sg_alloc *holder(struct sg_device *d, uint64_t addr)
{
    return (struct sg_alloc *)(uintptr_t)sg_mem_search(d->alloc, d->nalloc, addr);
}

void sg_mem_name(struct sg_device *d, uint64_t addr, const char *name)
{
    char *copy = name ? dt_strdup(name) : NULL;
    pthread_mutex_lock(&d->exec_lock); /* a launch may be looking at the old one */
    pthread_mutex_lock(&d->lock);
    struct sg_alloc *a = holder(d, addr);
    if (a) {
        free(a->name);
        a->name = copy;
    } else {
        free(copy);
    }
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_unlock(&d->exec_lock);
}

bool sg_bits_all(const uint64_t *map, uint64_t lo, uint64_t n)
{
    for (uint64_t hi = lo + n; lo < hi;) {
        uint64_t k = 64 - lo % 64 < hi - lo ? 64 - lo % 64 : hi - lo,
                 m = (k == 64 ? UINT64_MAX : ((UINT64_C(1) << k) - 1)) << lo % 64;
        if ((map[lo / 64] & m) != m)
            return false;
        lo += k;
    }
    return true;
}

void sg_bits_put(uint64_t *map, uint64_t lo, uint64_t n, bool on)
{
    for (uint64_t hi = lo + n; lo < hi;) {
        uint64_t k = 64 - lo % 64 < hi - lo ? 64 - lo % 64 : hi - lo,
                 m = (k == 64 ? UINT64_MAX : ((UINT64_C(1) << k) - 1)) << lo % 64;
        map[lo / 64] = on ? map[lo / 64] | m : map[lo / 64] & ~m;
        lo += k;
    }
}

/* The part of [addr, addr + n) in its allocation. */
static uint64_t clip(const struct sg_alloc *a, uint64_t addr, uint64_t n)
{
    return n < a->end - addr ? n : a->end - addr;
}

void sg_mem_track(struct sg_device *d, bool on)
{
    pthread_mutex_lock(&d->exec_lock);
    pthread_mutex_lock(&d->lock);
    d->track = on;
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_unlock(&d->exec_lock);
}

void sg_mem_written(struct sg_device *d, uint64_t addr, uint64_t bytes)
{
    pthread_mutex_lock(&d->lock);
    struct sg_alloc *a = holder(d, addr);
    if (a && a->init)
        sg_bits_put(a->init, addr - a->base, clip(a, addr, bytes), true);
    pthread_mutex_unlock(&d->lock);
}

void sg_mem_forget(struct sg_device *d, uint64_t addr, uint64_t bytes)
{
    pthread_mutex_lock(&d->lock);
    struct sg_alloc *a = holder(d, addr);
    if (a && d->track) {
        uint64_t words = (a->end - a->base + 63) / 64;
        if (!a->init && (a->init = dt_malloc(words * 8)))
            memset(a->init, 0xFF, words * 8);
        if (a->init) /* else it counts as written */
            sg_bits_put(a->init, addr - a->base, clip(a, addr, bytes), false);
    }
    pthread_mutex_unlock(&d->lock);
}

void sg_mem_copied(struct sg_device *d, uint64_t to, uint64_t from, uint64_t bytes)
{
    pthread_mutex_lock(&d->lock);
    struct sg_alloc *a = holder(d, to), *b = holder(d, from);
    if (a && a->init) {
        uint64_t n = clip(a, to, bytes);
        if (b && b->init) {
            n = n < clip(b, from, bytes) ? n : clip(b, from, bytes);
            for (uint64_t i = 0; i < n; i++) { /* backwards where the copy overlaps itself so */
                uint64_t k = to > from ? n - 1 - i : i;
                sg_bits_put(a->init, to - a->base + k, 1, sg_bits_all(b->init, from - b->base + k, 1));
            }
        } else {
            sg_bits_put(a->init, to - a->base, n, true);
        }
    }
    pthread_mutex_unlock(&d->lock);
}

int sg_mem_fetch_maps(struct sg_device *d)
{
    int r = 0;
    pthread_mutex_lock(&d->exec_lock); /* a launch has copies of the pointers */
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->nalloc && r == 0; i++)
        if (!d->alloc[i].fetched &&
            !(d->alloc[i].fetched = dt_calloc(((d->alloc[i].end >> 5) - (d->alloc[i].base >> 5)) / 64 + 2, 8)))
            r = DT_E_NOMEM;
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_unlock(&d->exec_lock);
    return r;
}

int sg_mem_pin(struct sg_device *d, bool blind, bool hold, struct sg_alloc **ret, size_t *ret_n)
{
    if (hold)
        pthread_mutex_lock(&d->exec_lock);
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; blind && i < d->nalloc; i++) {
        free(d->alloc[i].init);
        d->alloc[i].init = NULL;
    }
    struct sg_alloc *p = dt_malloc((d->nalloc + 1) * sizeof *p);
    size_t n = d->nalloc;
    if (p && n)
        memcpy(p, d->alloc, n * sizeof *p);
    pthread_mutex_unlock(&d->lock);
    if (!p) {
        if (hold)
            pthread_mutex_unlock(&d->exec_lock);
        return DT_E_NOMEM;
    }
    *ret = p;
    *ret_n = n;
    return 0;
}

void sg_mem_unpin(struct sg_device *d) { pthread_mutex_unlock(&d->exec_lock); }
