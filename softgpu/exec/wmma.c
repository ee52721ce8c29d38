/* wmma.load and wmma.store: the fragments of matrix.c from memory and to it.
 *
 * An operation has the stride in op->c (in elements, of which op->n make one here), in op->x its number in code->mma
 * (whose `d` is the fragment), and refs from ext[op->b] on. PTX wants one address and one stride of all lanes. Where
 * they are so, and all of the matrix lies in shared memory or in one allocation, bounds are checked once, and
 * matrix.inc moves the rest: words where the elements of a register lie beside each other, 16 bytes where those of
 * four lanes do. Sectors count as by_lane() counts them: once for each element of a register, as if each were an
 * access.
 *
 * by_lane() does everything else, an element of a lane at a time: other windows, faults, the checking modes, races,
 * matrices whose lines overlap, lanes with addresses of their own.
 */
#include "softgpu/exec/exec-priv.h"

#include <string.h>

static const struct sg_op *by_lane(struct sg_warp *w, const struct sg_op *op, bool write)
{
    const struct sg_mma *s = &w->code->mma[op->x];
    const struct sg_fragment *f = &s->d;
    const uint32_t *ref = w->code->ext + op->b;
    unsigned bytes = op->size;
    uint64_t at[SG_LANES] = {0};
    for (unsigned r = 0; r < f->regs; r++) {
        uint64_t value[SG_LANES] = {0};
        for (unsigned e = 0; e < f->per; e++) {
            uint32_t global = 0;
            uint8_t *host[SG_LANES];
            for (unsigned l = 0; l < SG_LANES; l++) {
                uint64_t stride =
                    op->c == SG_NONE ? (s->by_column ? f->rows : f->cols) : SG_P(uint32_t, op->c)[l] / op->n;
                unsigned index = f->at[(r * f->per + e) * SG_LANES + l], row = index / f->cols, col = index % f->cols;
                at[l] = sg_address(w, op, l) + (s->by_column ? col * stride + row : row * stride + col) * bytes;
                uint8_t *p = sg_resolve(w, op, l, at[l], bytes, write);
                host[l] = p;
                if (!p)
                    return NULL;
                if (op->space == PTX_GLOBAL || (op->space == PTX_GENERIC && !(at[l] >> SG_WINDOW_SHIFT)))
                    global |= 1u << l;
                if (write) {
                    uint64_t v = bytes == 8 ? SG_P(uint64_t, ref[r])[l] : SG_P(uint32_t, ref[r])[l] >> (8 * bytes * e);
                    memcpy(p, &v, bytes);
                } else {
                    uint64_t v = 0;
                    memcpy(&v, p, bytes);
                    value[l] |= v << 8 * bytes * e;
                }
            }
            if (global && w->wk->track && r < s->copies)
                sg_track_lanes(w, op, at, global, bytes, write ? SG_WRITE : SG_READ);
            if (w->wk->check && r < s->copies &&
                !sg_check_lanes(w, op, host, w->mask, bytes, write ? SG_WRITE : SG_READ, 0))
                return NULL;
        }
        for (unsigned l = 0; !write && l < SG_LANES; l++)
            if (bytes == 8)
                SG_P(uint64_t, ref[r])[l] = value[l];
            else
                SG_P(uint32_t, ref[r])[l] = (uint32_t)value[l];
    }
    return op + 1;
}

/* All lanes the same? */
static bool wmma_alike(const struct sg_warp *w, uint32_t ref, bool wide)
{
    uint64_t differ = 0;
    if (wide) {
        const uint64_t *p = SG_P(uint64_t, ref);
        for (unsigned l = 1; l < SG_LANES; l++)
            differ |= p[l] ^ p[0];
    } else {
        const uint32_t *p = SG_P(uint32_t, ref);
        for (unsigned l = 1; l < SG_LANES; l++)
            differ |= p[l] ^ p[0];
    }
    return !differ;
}

/* Where the matrix lies; false: by_lane() has to look. *ret_range: the allocation, NULL in shared memory. */
static bool whole(struct sg_warp *w, const struct sg_op *op, const struct sg_mma *s, bool write, struct sg_lines *ret,
                  const struct sg_range **ret_range)
{
    const struct sg_fragment *f = &s->d;
    const uint32_t lines = s->by_column ? f->cols : f->rows, length = s->by_column ? f->rows : f->cols;
    if (w->wk->check || w->wk->race || !wmma_alike(w, op->a, op->flags & SG_A64) ||
        (op->c != SG_NONE && !wmma_alike(w, op->c, false)))
        return false;
    const uint64_t stride = (op->c == SG_NONE ? length : *SG_P(uint32_t, op->c) / op->n) * (uint64_t)op->size,
                   bytes = (lines - 1) * stride + length * op->size, addr = sg_address(w, op, 0),
                   at = op->space == PTX_GENERIC ? addr & ((1ull << SG_WINDOW_SHIFT) - 1) : addr;
    if (addr & (op->size - 1u) || f->cols & (f->cols - 1) || bytes > UINT32_MAX ||
        (write && stride < length * op->size))
        return false;
    const unsigned window = op->space == PTX_SHARED    ? 1
                            : op->space == PTX_GENERIC ? (unsigned)(addr >> SG_WINDOW_SHIFT)
                                                       : 0;
    *ret = (struct sg_lines){.row = s->by_column ? op->size : (uint32_t)stride,
                             .col = s->by_column ? (uint32_t)stride : op->size,
                             .size = op->size};
    *ret_range = NULL;
    if (window == 1) {
        ret->base = w->shared + at;
        return !(at >> SG_RANK_SHIFT) && at <= w->shared_bytes && bytes <= w->shared_bytes - at;
    }
    if (window || (op->space != PTX_GLOBAL && op->space != PTX_GENERIC))
        return false;
    const struct sg_range *r = w->wk->site[op->site];
    if (addr < r->base || addr > r->end || bytes > r->end - addr)
        r = sg_find_range(w, op, addr, bytes);
    ret->base = (uint8_t *)(uintptr_t)addr;
    *ret_range = r;
    return r && !(write && r->read_only);
}

static void track(struct sg_warp *w, const struct sg_op *op, const struct sg_mma *s, const struct sg_lines *m,
                  const struct sg_range *range, bool write)
{
    const struct sg_fragment *f = &s->d;
    const uint64_t base = (uintptr_t)m->base;
    /* elements in one word are in one sector */
    const bool word = sg_lines_beside(f, m) && !((base | (m->row == m->size ? m->col : m->row)) & 3);
    const unsigned n = s->copies < f->regs ? s->copies : f->regs;
    for (unsigned i = 0; i < n * f->per; i += word ? f->per : 1) {
        uint32_t off[SG_LANES];
        uint64_t before = w->wk->sectors[write];
        sg_isa_products()->offsets(f, m, i, off);
        sg_track_offsets(w, op, range, base, off, m->size, write ? SG_WRITE : SG_READ);
        if (word)
            w->wk->sectors[write] += (w->wk->sectors[write] - before) * (f->per - 1);
    }
}

static const struct sg_op *wmma_memory(struct sg_warp *w, const struct sg_op *op, bool write)
{
    if (!sg_whole_warp(w, op))
        return NULL;
    const struct sg_mma *s = &w->code->mma[op->x];
    const struct sg_range *range;
    struct sg_lines m;
    if (!whole(w, op, s, write, &m, &range))
        return by_lane(w, op, write);
    const uint32_t *ref = w->code->ext + op->b;
    void *row[16];
    for (unsigned r = 0; r < s->d.regs; r++)
        row[r] = SG_P(uint32_t, ref[r]);
    (write ? sg_isa_products()->put : sg_isa_products()->fetch)(&s->d, &m, row);
    if (range && w->wk->track)
        track(w, op, s, &m, range, write);
    return op + 1;
}

const struct sg_op *sg_wmma_load(struct sg_warp *w, const struct sg_op *op) { return wmma_memory(w, op, false); }
const struct sg_op *sg_wmma_store(struct sg_warp *w, const struct sg_op *op) { return wmma_memory(w, op, true); }
