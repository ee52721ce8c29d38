/* mbarrier objects.
 *
 * An object is 64 bits of shared memory. PTX leaves their meaning open; here, from the low end:
 *
 *     20 bits  arrivals that a phase wants      20 bits  arrivals still missing in this phase
 *      1 bit   parity of the current phase      21 bits  bytes still to come (tx-count), signed
 *      2 bits  01 where there is an object: neither fresh memory (all ones) nor what inval leaves (zero)
 *
 * A phase ends when no arrival is missing and tx-count is zero: the parity flips, and the missing arrivals are what a
 * phase wants. arrive returns the object as it was before; a wait on that token is over when the parity differs, a wait
 * on a parity when the current one differs from it. Waits never block: when false is the answer the warp gives way to
 * others at its next basic block. Threads arrive one by one, in order of their lanes; the blocks of a cluster run on
 * one CPU thread, so nothing here is atomic.
 *
 * Copies happen at once (cp.async, cp.async.bulk), so cp.async.mbarrier.arrive without .noinc, which adds one to what
 * is missing and takes it away when the copies are done, changes nothing.
 *
 * More arrivals than are missing, counts out of range, and objects that were never initialised are faults.
 */
#include "softgpu/exec/exec-priv.h"

#include <string.h>

enum { COUNT_BITS = 20, COUNT_MAX = (1 << COUNT_BITS) - 1, TX_MAX = (1 << COUNT_BITS) - 1 };

#define VALID (1ull << 62)

struct object {
    uint32_t expected, pending, phase;
    int32_t tx;
};

static struct object mbarrier_unpack(uint64_t v)
{
    return (struct object){(uint32_t)v & COUNT_MAX, (uint32_t)(v >> COUNT_BITS) & COUNT_MAX, v >> (2 * COUNT_BITS) & 1,
                           (int32_t)((int64_t)(v << 2) >> (2 * COUNT_BITS + 3))};
}

static uint64_t pack(struct object o)
{
    return o.expected | (uint64_t)o.pending << COUNT_BITS | (uint64_t)o.phase << (2 * COUNT_BITS) |
           (uint64_t)(int64_t)o.tx << (2 * COUNT_BITS + 3) >> 2 | VALID;
}

static uint8_t *resolve(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t a)
{
    if (op->space == PTX_GENERIC && a >> SG_WINDOW_SHIFT != SG_WINDOW_SHARED >> SG_WINDOW_SHIFT) {
        sg_fault_at(w, op, DT_E_BOUNDS, lane, a, 8, "address 0x%llx of an mbarrier is not in shared memory",
                    (unsigned long long)a);
        return NULL;
    }
    return sg_resolve(w, op, lane, a, 8, true);
}

static bool valid(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t v)
{
    if (v >> 62 == 1)
        return true;
    sg_fault_at(w, op, DT_E_TRAP, lane, 0, 8, "an mbarrier that is not initialised");
    return false;
}

/* `arrive` arrivals, `tx` more bytes to come (fewer if negative) on one object; false: fault. */
static bool update(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint8_t *p, uint32_t arrive, int64_t tx,
                   bool drop)
{
    uint64_t v;
    memcpy(&v, p, 8);
    struct object o = mbarrier_unpack(v);
    if (!valid(w, op, lane, v))
        return false;
    if (arrive > o.pending || (drop && arrive > o.expected)) {
        sg_fault_at(w, op, DT_E_TRAP, lane, 0, 8, "%u arrivals at an mbarrier where %u are missing", arrive, o.pending);
        return false;
    }
    if (o.tx + tx > TX_MAX || o.tx + tx < -TX_MAX) {
        sg_fault_at(w, op, DT_E_TRAP, lane, 0, 8, "the tx-count of an mbarrier leaves its range");
        return false;
    }
    o.tx += (int32_t)tx;
    o.pending -= arrive;
    if (drop)
        o.expected -= arrive;
    if (!o.pending && !o.tx) {
        o.phase ^= 1;
        o.pending = o.expected;
        if (w->wk->check && !sg_clock_mbarrier(w, op, lane, p, SG_ME_FLIP))
            return false;
    }
    v = pack(o);
    memcpy(p, &v, 8);
    return true;
}

bool sg_mbarrier_complete(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t addr, uint32_t bytes)
{
    uint8_t *p = resolve(w, op, lane, addr);
    return p && (!w->wk->check || sg_clock_mbarrier(w, op, lane, p, SG_ME_ASYNC)) &&
           update(w, op, lane, p, 0, -(int64_t)bytes, false);
}

/* The checking modes' view of an operation that is about to happen: an atomic one on the object but for init and inval,
 * which are writes. */
static bool mbarrier_checked(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint8_t *p)
{
    /* cp.async.mbarrier.arrive, st.async, red.async */
    bool ends = op->sub == SG_MB_INIT || op->sub == SG_MB_INVAL, copies = op->n == 2;
    uint8_t *at[SG_LANES];
    at[lane] = p;
    if (!sg_check_lanes(w, op, at, 1u << lane, 8, ends ? SG_WRITE : SG_ATOMIC, SG_SEM_MBARRIER) ||
        (ends && !sg_clock_mbarrier(w, op, lane, p, SG_ME_FORGET)) ||
        (copies && !sg_clock_mbarrier(w, op, lane, p, SG_ME_ASYNC)))
        return false;
    bool arrives =
        op->sub == SG_MB_ARRIVE || op->sub == SG_MB_DROP || op->sub == SG_MB_ARRIVE_TX || op->sub == SG_MB_DROP_TX;
    bool counts = op->sub == SG_MB_EXPECT_TX || op->sub == SG_MB_COMPLETE_TX;
    return !(arrives || counts) || sg_clock_mbarrier(w, op, lane, p, arrives ? SG_ME_ARRIVE : SG_ME_COUNT);
}

/* sub: what; a: address; b: count, bytes, token or parity (SG_NONE: one arrival); d: token or predicate (SG_NONE:
 * none) */
const struct sg_op *sg_mbarrier(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t yes = 0;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        bool token = op->sub == SG_MB_WAIT;
        uint8_t *p = resolve(w, op, l, sg_address(w, op, l));
        if (!p)
            return NULL;
        if (w->wk->check && !mbarrier_checked(w, op, l, p))
            return NULL;
        uint64_t old, b = op->b == SG_NONE ? 1 : token ? SG_P(uint64_t, op->b)[l] : SG_P(uint32_t, op->b)[l];
        memcpy(&old, p, 8);
        struct object o = mbarrier_unpack(old);
        switch (op->sub) {
        case SG_MB_INIT:
            if (!b || b > COUNT_MAX)
                return sg_fault_at(w, op, DT_E_TRAP, l, 0, 8, "an mbarrier of %llu arrivals", (unsigned long long)b);
            old = pack((struct object){(uint32_t)b, (uint32_t)b, 0, 0});
            memcpy(p, &old, 8);
            break;
        case SG_MB_INVAL: memset(p, 0, 8); break;
        case SG_MB_ARRIVE:
        case SG_MB_DROP:
            if (!update(w, op, l, p, (uint32_t)b, 0, op->sub == SG_MB_DROP))
                return NULL;
            break;
        case SG_MB_ARRIVE_TX:
        case SG_MB_DROP_TX:
            if (!update(w, op, l, p, 0, (int64_t)b, false) || !update(w, op, l, p, 1, 0, op->sub == SG_MB_DROP_TX))
                return NULL;
            break;
        case SG_MB_EXPECT_TX:
            if (!update(w, op, l, p, 0, (int64_t)b, false))
                return NULL;
            break;
        case SG_MB_COMPLETE_TX:
            if (!update(w, op, l, p, 0, -(int64_t)b, false))
                return NULL;
            break;
        case SG_MB_WAIT:
        case SG_MB_PARITY:
            if (!valid(w, op, l, old))
                return NULL;
            if (w->wk->check && (token ? mbarrier_unpack(b).phase : (uint32_t)b & 1) != o.phase &&
                !sg_clock_mbarrier(w, op, l, p, SG_ME_WAITED))
                return NULL;
            yes |= (uint32_t)((token ? mbarrier_unpack(b).phase : (uint32_t)b & 1) != o.phase) << l;
            break;
        default: break; /* cp.async.mbarrier.arrive: the address was checked */
        }
        if (op->flags & SG_D64)
            SG_P(uint64_t, op->d)[l] = old;
    }
    if (op->sub == SG_MB_WAIT || op->sub == SG_MB_PARITY) {
        uint32_t *p = SG_P(uint32_t, op->d);
        *p = (*p & ~w->mask) | yes;
        if (yes != w->mask) { /* others have to run before this one can go on */
            w->spin = true;
            w->fuel = 0;
        }
    }
    return op + 1;
}

const struct sg_op *sg_mbarrier_count(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        SG_P(uint32_t, op->d)[l] = mbarrier_unpack(SG_P(uint64_t, op->a)[l]).pending;
    }
    return op + 1;
}
