/* cp.async: copies from global to shared memory that each thread asks for. They are done at once.
 *
 * Where all lanes copy all of their 4, 8 or 16 bytes, the warp is bounds and alignment once, as in the lane loops of
 * loads (lanes-mem.inc). Otherwise a lane at a time: copies that read less and
 * fill, faults, the checking modes.
 */
#include "softgpu/exec/exec-priv.h"

#include <string.h>

/* Tiles move on along their rows: what stands behind each line that was read comes next. There are too many rows for
 * the CPU to see it by itself. */
static void copy_ahead(const uint8_t *base, const uint32_t off[SG_LANES], uint32_t size)
{
    unsigned run = 1;
    while (run < SG_LANES && off[run] == off[run - 1] + size)
        run++;
    for (unsigned l = 0; l < SG_LANES; l += 64 / size)
        __builtin_prefetch(base + off[l] + run * size);
}

/* All 32 lanes, whole, of one allocation, into the block's own shared memory: bounds and alignment at once. False:
 * nothing happened, lane by lane. */
static bool cp_async_whole(struct sg_warp *w, const struct sg_op *op, const uint32_t *ext)
{
    if (w->mask != SG_ALL || w->wk->check || op->space != PTX_SHARED || op->flags & SG_A64)
        return false;
    const uint32_t *a = SG_P(uint32_t, op->a), size = op->size,
                   *n = ext[0] == UINT32_MAX ? NULL : SG_P(uint32_t, ext[0]);
    bool some = false;
    for (unsigned l = 0; n && l < SG_LANES; l++)
        some |= n[l] < size;
    if (some)
        return false;
    const uint64_t *b = SG_P(uint64_t, op->b), more = (uint64_t)(int64_t)(int32_t)ext[1];
    uint32_t to[SG_LANES], off[SG_LANES], top = 0, odd = 0;
    uint64_t low = b[0] + more, high = low;
    for (unsigned l = 0; l < SG_LANES; l++) {
        to[l] = a[l] + (uint32_t)op->imm;
        top = to[l] > top ? to[l] : top;
        const uint64_t from = b[l] + more;
        odd |= to[l] | (uint32_t)from;
        low = from < low ? from : low;
        high = from > high ? from : high;
    }
    if (odd & (size - 1) || (uint64_t)top + size > w->shared_bytes || high - low > UINT32_MAX - size)
        return false;
    const uint64_t bytes = high - low + size;
    const struct sg_range *r = w->wk->site[op->site];
    if (low < r->base || low > r->end || bytes > r->end - low)
        r = sg_find_range(w, op, low, bytes);
    if (!r)
        return false;
    for (unsigned l = 0; l < SG_LANES; l++)
        off[l] = (uint32_t)(b[l] + more - low);
#define COPY(N)                                                                                                        \
    for (unsigned l = 0; l < SG_LANES; l++)                                                                            \
        memcpy(w->shared + to[l], (const uint8_t *)(uintptr_t)low + off[l], N);
    if (size == 16)
        COPY(16)
    else if (size == 8)
        COPY(8)
    else
        COPY(4)
#undef COPY
    copy_ahead((const uint8_t *)(uintptr_t)low, off, size);
    if (w->wk->track) {
        uint64_t before = w->wk->sectors[0];
        sg_track_offsets(w, op, r, low, off, size, SG_READ);
        w->wk->sectors[0] = before + SG_LANES; /* each lane for itself, as below */
    }
    return true;
}

/* `size` bytes from global memory (address: ref b, 64 bits, plus ext[x + 1]) to shared memory (address a). ext[x]: ref
 * of the number of bytes to read, the rest are zero; UINT32_MAX: all. */
const struct sg_op *sg_cp_async(struct sg_warp *w, const struct sg_op *op)
{
    const uint32_t *ext = w->code->ext + op->x;
    if (cp_async_whole(w, op, ext))
        return op + 1;
    struct sg_op from = *op;
    from.space = PTX_GLOBAL;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t ad[SG_LANES];
        uint8_t *to = sg_resolve(w, op, l, sg_address(w, op, l), op->size, true);
        if (!to)
            return NULL;
        uint32_t n = ext[0] == UINT32_MAX ? op->size : SG_P(uint32_t, ext[0])[l];
        if (n > op->size)
            n = op->size;
        ad[l] = SG_P(uint64_t, op->b)[l] + (uint64_t)(int64_t)(int32_t)ext[1];
        if (n) {
            /* `n` bytes are read, but the address is aligned to the whole size */
            uint8_t *p = ad[l] & (op->size - 1u) ? sg_resolve(w, &from, l, ad[l], op->size, false)
                                                 : sg_resolve(w, &from, l, ad[l], n & (0u - n), false);
            if (!p || !sg_find_range(w, op, ad[l], n)) {
                sg_resolve(w, &from, l, ad[l], op->size, false);
                return NULL;
            }
            if (w->wk->track)
                sg_track_lanes(w, op, ad, 1u << l, n, SG_READ);
            if (w->wk->check && !sg_check_copy(w, op, l, to, p, n))
                return NULL;
            memcpy(to, p, n);
        }
        if (w->wk->check && n < op->size && !sg_check_copy(w, op, l, to + n, NULL, op->size - n))
            return NULL;
        memset(to + n, 0, op->size - n);
    }
    return op + 1;
}
