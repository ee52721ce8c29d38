/* Bulk copies (PTX §9.7.9.25): cp.async.bulk and cp.reduce.async.bulk, done at once by each active lane.
 *
 * Addresses and sizes must be multiples of 16; else it is a fault. A copy to shared memory then takes its bytes off the
 * tx-count of the mbarrier, which must be in the block that the copy goes to. Multicast writes the same offsets in
 * every block of the mask, and signals there. Reductions compute element by element what red computes
 * (sg_atomic_value).
 */
#include "softgpu/exec/exec-priv.h"

#include <string.h>

struct sg_op sg_bulk_part(const struct sg_warp *w, const struct sg_op *op, unsigned which, unsigned space)
{
    const uint32_t *ext = w->code->ext + op->x + which;
    struct sg_op part = *op;
    part.a = ext[0];
    part.flags = (uint8_t)ext[1];
    part.imm = (int32_t)ext[2];
    part.space = (uint8_t)space;
    part.site = op->site + which / 3;
    part.size = 0; /* for the race detector: not a row of lanes */
    return part;
}

/* `n` bytes, a multiple of 16, that lie together; NULL with the fault set. */
uint8_t *sg_bulk_reach(struct sg_warp *w, const struct sg_op *part, unsigned lane, uint64_t addr, uint32_t n,
                       enum sg_access how)
{
    if (part->space != PTX_GLOBAL) {
        uint8_t *p = sg_resolve(w, part, lane, addr, 16, how != SG_READ);
        if (!p || !sg_resolve(w, part, lane, addr + n - 16, 16, how != SG_READ))
            return NULL;
        return !w->wk->check || sg_check_async(w, part, lane, p, n, how) ? p : NULL;
    }
    const struct sg_range *r = sg_find_range(w, part, addr, n);
    if (!r || (r->read_only && how != SG_READ)) {
        for (uint32_t k = 0; k < n; k += 16)
            if (!sg_resolve(w, part, lane, addr + k, 16, how != SG_READ))
                return NULL;
        return NULL;
    }
    if (w->wk->track) {
        uint32_t mask = w->mask;
        w->mask = 1u << lane; /* whose access it is */
        sg_track_range(w, part, r, addr, n, how);
        w->mask = mask;
    }
    if (w->wk->check && !sg_check_async(w, part, lane, (uint8_t *)(uintptr_t)addr, n, how))
        return NULL;
    return (uint8_t *)(uintptr_t)addr;
}

int sg_bulk_targets(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t to, uint64_t bar,
                    uint64_t ret_to[SG_MAX_CLUSTER], uint64_t ret_bar[SG_MAX_CLUSTER])
{
    uint32_t ref = w->code->ext[op->x + SG_BULK_CTAS];
    const uint32_t low = (1u << SG_RANK_SHIFT) - 1;
    if (ref == SG_NONE) {
        uint64_t x = to >> SG_RANK_SHIFT, y = bar >> SG_RANK_SHIFT;
        if ((x ? x - 1 : w->blk->rank) != (y ? y - 1 : w->blk->rank)) {
            sg_fault_at(w, op, DT_E_TRAP, lane, to, 0, "the destination and the mbarrier are in different blocks");
            return -1;
        }
        ret_to[0] = to;
        ret_bar[0] = bar;
        return 1;
    }
    uint32_t ctas = SG_P(uint32_t, ref)[lane] & 0xFFFF, size = w->blk->cl->size;
    int n = 0;
    if (ctas >> size) {
        sg_fault_at(w, op, DT_E_TRAP, lane, to, 0, "multicast to blocks 0x%x in a cluster of %u", ctas, size);
        return -1;
    }
    for (; ctas; ctas &= ctas - 1) {
        uint64_t rank = (uint64_t)(__builtin_ctz(ctas) + 1) << SG_RANK_SHIFT;
        ret_to[n] = rank | (to & low);
        ret_bar[n++] = rank | (bar & low);
    }
    return n;
}

bool sg_bulk_reduces(enum ptx_mod m, enum ptx_type t, bool global)
{
    bool word = t == PTX_U32 || t == PTX_S32 || t == PTX_U64 || (global && t == PTX_S64),
         half = global && (t == PTX_F16 || t == PTX_BF16);
    switch (m) {
    case PTX_M_ADD: return (word && t != PTX_S64) || half || (global && (t == PTX_F32 || t == PTX_F64));
    case PTX_M_MIN:
    case PTX_M_MAX: return (word && (global || ptx_type_bytes(t) == 4)) || half;
    case PTX_M_INC:
    case PTX_M_DEC: return t == PTX_U32;
    case PTX_M_AND:
    case PTX_M_OR:
    case PTX_M_XOR: return !ptx_type_is_float(t) && (ptx_type_bytes(t) == 4 || ptx_type_bytes(t) == 8);
    default: return false;
    }
}

void sg_bulk_reduce(const struct sg_warp *w, const struct sg_op *op, uint8_t *to, const uint8_t *from, uint32_t n,
                    enum ptx_type t, bool global)
{
    struct sg_op one = *op;
    one.sub = (uint8_t)(w->code->ext[op->x + SG_BULK_OP] - PTX_M_ADD);
    one.type = (uint8_t)t;
    one.size = (uint8_t)ptx_type_bytes(t);
    for (uint32_t k = 0; k + one.size <= n; k += one.size) {
        uint64_t old = 0, v = 0;
        memcpy(&old, to + k, one.size);
        memcpy(&v, from + k, one.size);
        v = sg_atomic_value(&one, old, v, 0, global);
        memcpy(to + k, &v, one.size);
    }
}

static bool bulk_aligned(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t from, uint64_t to,
                         uint32_t n)
{
    if (!((from | to | n) % 16))
        return true;
    sg_fault_at(w, op, DT_E_BOUNDS, lane, to, n,
                "a bulk copy of %u bytes from 0x%llx to 0x%llx: all must be multiples of 16", n,
                (unsigned long long)from, (unsigned long long)to);
    return false;
}

static bool copy(struct sg_warp *w, const struct sg_op *op, unsigned lane)
{
    const uint32_t *ext = w->code->ext + op->x;
    struct sg_op to = sg_bulk_part(w, op, SG_BULK_TO, op->space), from = sg_bulk_part(w, op, SG_BULK_FROM, op->sub),
                 bar = sg_bulk_part(w, op, SG_BULK_BAR, op->space);
    bool group = ext[SG_BULK_BAR] == SG_NONE;
    uint32_t n = SG_P(uint32_t, ext[SG_BULK_SIZE])[lane],
             bytes = ext[SG_BULK_BYTES] == SG_NONE ? 0xFFFF : SG_P(uint32_t, ext[SG_BULK_BYTES])[lane];
    uint64_t src = sg_address(w, &from, lane), dst[SG_MAX_CLUSTER] = {sg_address(w, &to, lane)}, signal[SG_MAX_CLUSTER];
    int targets = 1;
    if (!bulk_aligned(w, op, lane, src, dst[0], n))
        return false;
    if (!group && (targets = sg_bulk_targets(w, op, lane, dst[0], sg_address(w, &bar, lane), dst, signal)) < 0)
        return false;
    const uint8_t *q = n ? sg_bulk_reach(w, &from, lane, src, n, SG_READ) : NULL;
    if (n && !q)
        return false;
    for (int i = 0; i < targets; i++) {
        uint8_t *p = n ? sg_bulk_reach(w, &to, lane, dst[i], n, ext[SG_BULK_OP] ? SG_ATOMIC : SG_WRITE) : NULL;
        if (n && !p)
            return false;
        if (n && w->wk->check && !ext[SG_BULK_OP])
            sg_check_carry(w, p, q, n);
        if (n && ext[SG_BULK_OP])
            sg_bulk_reduce(w, op, p, q, n, (enum ptx_type)ext[SG_BULK_TYPE], to.space == PTX_GLOBAL);
        else if (n && (bytes & 0xFFFF) == 0xFFFF)
            memmove(p, q, n);
        else
            for (uint32_t k = 0; k < n; k++)
                p[k] = bytes >> (k & 15) & 1 ? q[k] : p[k];
        if (!group && !sg_mbarrier_complete(w, &bar, lane, signal[i], n))
            return false;
    }
    return true;
}

const struct sg_op *sg_bulk_copy(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1)
        if (!copy(w, op, (unsigned)__builtin_ctz(m)))
            return NULL;
    return op + 1;
}

const struct sg_op *sg_bulk_prefetch(struct sg_warp *w, const struct sg_op *op)
{
    struct sg_op from = sg_bulk_part(w, op, SG_BULK_FROM, PTX_GLOBAL);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t at = sg_address(w, &from, l);
        uint32_t n = SG_P(uint32_t, w->code->ext[op->x + SG_BULK_SIZE])[l];
        if (!bulk_aligned(w, op, l, at, 0, n))
            return NULL;
        if (!sg_fetch_bulk(w->wk, at, n)) {
            sg_fault_at(w, op, DT_E_BOUNDS, l, at, n,
                        "prefetch of %u bytes at 0x%llx, which are outside every allocation", n,
                        (unsigned long long)at);
            return NULL;
        }
    }
    return op + 1;
}
