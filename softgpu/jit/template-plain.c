/* Accesses of any shape and width, lane by lane in general registers, so that compiled code keeps its vector registers
 * over the call: what template-access.c has no way for, or finds at run time to be of no simple shape.
 *
 * All addresses are looked at before anything is done. What is out of bounds, misaligned, or in an allocation that the
 * operation did not meet last is the handler's (exec/lanes-mem.inc): false, and nothing is done. The order is the
 * handler's: of lanes that store to one place, the last one.
 */
#include "softgpu/jit/template-plain.h"
#include "softgpu/jit/template-priv.h"

#define ROW(T, w, ref) ((T *)(void *)((w)->base[(ref)&3] + ((ref) & ~3u)))

/* Lanes of `m` at op's addresses, in at[]: those of lanes that are not in it mean nothing. */
SG_GENERAL_INLINE bool plain_find(const struct sg_warp *w, const struct sg_op *op, uint32_t m, bool shared, bool write,
                                  uint64_t at[SG_LANES])
{
    const uint64_t step = (uint64_t)op->size * op->n, low = step - 1, more = (uint64_t)op->imm;
    uint64_t from, bytes;
    struct sg_worker *wk = w->wk;
    const struct sg_range *r = NULL;
    if (shared) {
        from = 0;
        bytes = w->shared_bytes;
    } else {
        if (!(op->flags & SG_A64) || wk->race)
            return false;
        r = wk->site[op->site];
        from = r->base;
        bytes = r->end - r->base;
        if (write && r->read_only)
            return false;
    }
    if (bytes < step)
        return false;
    const uint64_t limit = bytes - step, base = shared ? (uint64_t)(uintptr_t)w->shared : 0;
    const struct sg_plain_bounds bounds = {more, from, limit, base, low, 1ull << 63};
    if (sg_plain_stray(ROW(void, w, op->a), op->flags & SG_A64, m, &bounds, at))
        return false;
    return shared || !wk->track || !m || sg_track_plain(wk, r, write, at, m);
}

SG_GENERAL_INLINE uint32_t plain_lanes(const struct sg_warp *w, const struct sg_op *op)
{
    if (op->fn != sg_guarded)
        return w->mask;
    uint32_t p = *ROW(uint32_t, w, op->guard);
    return w->mask & (op->flags & SG_GUARD_NOT ? ~p : p);
}

/* Element e of all lanes: sources and destinations of these types. */
#define EACH(DO)                                                                                                       \
    if (m == SG_ALL)                                                                                                   \
        _Pragma("GCC unroll 8") for (unsigned l = 0; l < SG_LANES; l++) { DO; }                                        \
    else                                                                                                               \
        for (unsigned l = 0; l < SG_LANES; l++)                                                                        \
            if (m >> l & 1) {                                                                                          \
                DO;                                                                                                    \
            }
#define LOAD(TO, FROM, AND)                                                                                            \
    for (unsigned e = 0; e < n; e++) {                                                                                 \
        TO *d = ROW(TO, w, n == 1 ? op->d : w->code->ext[op->x + e]);                                                  \
        EACH(d[l] = (TO)(((const FROM *)(uintptr_t)at[l])[e])AND)                                                      \
    }                                                                                                                  \
    break
#define STORE(TO, FROM)                                                                                                \
    for (unsigned e = 0; e < n; e++) {                                                                                 \
        const FROM *v = ROW(FROM, w, n == 1 ? op->b : w->code->ext[op->x + e]);                                        \
        EACH(((TO *)(uintptr_t)at[l])[e] = (TO)v[l])                                                                   \
    }                                                                                                                  \
    break

SG_GENERAL_INLINE bool plain_load(struct sg_warp *w, const struct sg_op *op, bool shared)
{
    uint64_t at[SG_LANES];
    const unsigned n = op->n;
    const uint32_t m = plain_lanes(w, op);
    if (w->full && w->mask != SG_ALL) /* the handler gives dead lanes something, too */
        return false;
    if (!plain_find(w, op, m, shared, false, at))
        return false;
    if (op->size == 4 && n == 4 && m == SG_ALL && !(op->flags & SG_D64)) {
        const uint32_t *to = &w->code->ext[op->x];
        uint32_t *d[4] = {ROW(uint32_t, w, to[0]), ROW(uint32_t, w, to[1]), ROW(uint32_t, w, to[2]),
                          ROW(uint32_t, w, to[3])};
        sg_plain_load4(at, d);
        return true;
    }
    const uint32_t keep = op->type == 2 ? 0xFFFFu : SG_ALL; /* as the handler: a destination of 16 bits */
    switch (op->size << 2 | !!(op->flags & SG_D64) << 1 | !!(op->flags & SG_SIGNED)) {
    case 1 << 2: LOAD(uint32_t, uint8_t, );
    case 1 << 2 | 1: LOAD(uint32_t, int8_t, &keep);
    case 1 << 2 | 2: LOAD(uint64_t, uint8_t, );
    case 1 << 2 | 3: LOAD(uint64_t, int8_t, );
    case 2 << 2: LOAD(uint32_t, uint16_t, );
    case 2 << 2 | 1: LOAD(uint32_t, int16_t, &keep);
    case 2 << 2 | 2: LOAD(uint64_t, uint16_t, );
    case 2 << 2 | 3: LOAD(uint64_t, int16_t, );
    case 4 << 2 | 2: LOAD(uint64_t, uint32_t, );
    case 4 << 2 | 3: LOAD(uint64_t, int32_t, );
    case 4 << 2:
    case 4 << 2 | 1: LOAD(uint32_t, uint32_t, );
    default: LOAD(uint64_t, uint64_t, );
    }
    return true;
}

SG_GENERAL_INLINE bool plain_store(struct sg_warp *w, const struct sg_op *op, bool shared)
{
    uint64_t at[SG_LANES];
    const unsigned n = op->n;
    const uint32_t m = plain_lanes(w, op);
    if (!plain_find(w, op, m, shared, true, at))
        return false;
    if (op->size == 4 && n == 4 && m == SG_ALL) {
        const uint32_t *of = &w->code->ext[op->x];
        const uint32_t *v[4] = {ROW(uint32_t, w, of[0]), ROW(uint32_t, w, of[1]), ROW(uint32_t, w, of[2]),
                                ROW(uint32_t, w, of[3])};
        sg_plain_store4(at, v);
        return true;
    }
    switch (op->size) {
    case 1: STORE(uint8_t, uint32_t);
    case 2: STORE(uint16_t, uint32_t);
    case 4: STORE(uint32_t, uint32_t);
    default: STORE(uint64_t, uint64_t);
    }
    return true;
}

SG_GENERAL_ONLY bool sg_template_load_shared(struct sg_warp *w, const struct sg_op *op)
{
    return plain_load(w, op, true);
}
SG_GENERAL_ONLY bool sg_template_load_global(struct sg_warp *w, const struct sg_op *op)
{
    return plain_load(w, op, false);
}
SG_GENERAL_ONLY bool sg_template_store_shared(struct sg_warp *w, const struct sg_op *op)
{
    return plain_store(w, op, true);
}
SG_GENERAL_ONLY bool sg_template_store_global(struct sg_warp *w, const struct sg_op *op)
{
    return plain_store(w, op, false);
}
