/* The heap of malloc and free in kernels: one allocation of the device, cut into blocks.
 *
 * It is made when a kernel that uses it is first launched, as large as that launch says (CU_LIMIT_MALLOC_HEAP_SIZE),
 * and lives as long as the device, so that one launch may free what another took. Blocks are multiples of 16 bytes at
 * multiples of 16, first fit; what there is to know of them lies outside the heap, where no kernel can spoil it.
 * Kernels that use the heap run on one CPU thread (code->ordered), so the same launches give the same addresses, and
 * nothing here needs a lock.
 *
 * The calls of kernels are in exec/extern.c.
 */
#include "softgpu/memory/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { UNIT = 16 };

struct sg_heap {
    uint64_t base, bytes;
    struct piece { /* of the whole heap, in order, without gaps; free neighbours are one */
        uint64_t at, bytes;
        bool used;
    } * piece;
    size_t n, cap;
};

int sg_heap_make(struct sg_device *d, uint64_t bytes)
{
    if (d->heap) {
        if (d->heap->bytes)
            sg_mem_forget(d, d->heap->base, 0); /* from now on it is known what is written, if that is tracked */
        return 0;
    }
    struct sg_heap *h = dt_calloc(1, sizeof *h);
    if (!h)
        return DT_E_NOMEM;
    h->cap = 64;
    h->bytes = bytes / UNIT * UNIT;
    h->piece = dt_calloc(h->cap, sizeof *h->piece);
    int r = h->piece ? h->bytes ? sg_mem_alloc(d, h->bytes, &h->base) : 0 : DT_E_NOMEM;
    if (r < 0) {
        free(h->piece);
        free(h);
        return r;
    }
    h->piece[0] = (struct piece){.at = h->base, .bytes = h->bytes};
    h->n = h->bytes ? 1 : 0;
    if (h->bytes)
        sg_mem_name(d, h->base, "the heap of kernels");
    d->heap = h;
    return 0;
}

void sg_heap_free(struct sg_device *d)
{
    if (d->heap)
        free(d->heap->piece);
    free(d->heap);
    d->heap = NULL;
}

bool sg_heap_made(const struct sg_device *d) { return d->heap != NULL; }

uint64_t sg_heap_take(struct sg_device *d, uint64_t bytes, uint64_t *ret_bytes)
{
    struct sg_heap *h = d->heap;
    if (!h || !bytes || bytes > h->bytes)
        return 0;
    *ret_bytes = bytes = (bytes + UNIT - 1) / UNIT * UNIT;
    for (size_t i = 0; i < h->n; i++) {
        struct piece *p = &h->piece[i];
        if (p->used || p->bytes < bytes)
            continue;
        if (p->bytes > bytes) {
            if (h->n == h->cap) {
                struct piece *more = dt_reallocarray(h->piece, h->cap * 2, sizeof *more);
                if (!more)
                    return 0;
                h->piece = more;
                h->cap *= 2;
                p = &h->piece[i];
            }
            memmove(p + 2, p + 1, (h->n - i - 1) * sizeof *p);
            p[1] = (struct piece){.at = p->at + bytes, .bytes = p->bytes - bytes};
            h->n++;
        }
        p->bytes = bytes;
        p->used = true;
        return p->at;
    }
    return 0;
}

/* The piece that holds addr; NULL: outside. */
static struct piece *heap_find(struct sg_heap *h, uint64_t addr)
{
    size_t lo = 0, hi = h->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (h->piece[mid].at + h->piece[mid].bytes <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < h->n && h->piece[lo].at <= addr ? &h->piece[lo] : NULL;
}

/* The piece is free, and one with free neighbours. */
static void heap_merge(struct sg_heap *h, struct piece *p)
{
    size_t i = (size_t)(p - h->piece), first = i, last = i;
    p->used = false;
    if (i + 1 < h->n && !p[1].used)
        last++;
    if (i > 0 && !p[-1].used)
        first--;
    if (first == last)
        return;
    h->piece[first].bytes = h->piece[last].at + h->piece[last].bytes - h->piece[first].at;
    memmove(h->piece + first + 1, h->piece + last + 1, (h->n - last - 1) * sizeof *p);
    h->n -= last - first;
}

const char *sg_heap_give(struct sg_device *d, uint64_t at)
{
    struct piece *p = d->heap ? heap_find(d->heap, at) : NULL;
    if (!p || (p->used && p->at != at))
        return "which malloc has not given";
    if (!p->used)
        return "which is free already";
    heap_merge(d->heap, p);
    return NULL;
}
