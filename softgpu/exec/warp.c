/* Control within a warp: branches, divergence, exit, barriers; clocks and programmatic dependencies.
 *
 * A warp is one running fragment (position, mask) and the waiting ones in w->frag:
 *
 *     RUN  ── picked: lowest position first, equal positions merged ──▶ running
 *     running ── bar.sync ──▶ BAR ── barrier complete ──▶ RUN
 *     running ── barrier.cluster.wait ──▶ CLUSTER ── all threads of the cluster have arrived ──▶ RUN
 *     running ── collective with lanes missing ──▶ WARP ── they arrive, or exit ──▶ RUN or joint execution
 *
 * Lowest-first gives reconvergence without post-dominators. By itself it would starve a fragment that the running one
 * spins for. So a fragment that has waited for PATIENCE basic blocks (SPIN_PATIENCE if the running one does atomics)
 * runs for STICK of them.
 *
 * Barriers count threads. A barrier of all threads waits for those that have not exited. At a counted barrier, lanes
 * that do not exist or have exited count as arrived when their warp arrives, as the hardware counts warps. Nothing here
 * knows `.aligned`: a barrier under divergence completes when its threads are there.
 *
 * Operations in which lanes exchange values are in collective.c.
 */
#include "softgpu/exec/exec-priv.h"

enum { PATIENCE = 4096, SPIN_PATIENCE = 64, STICK = 256 };

void sg_park(struct sg_warp *w, const struct sg_op *op, uint32_t mask, enum sg_frag_state state, unsigned bar)
{
    for (uint32_t i = 0; i < w->nfrag; i++)
        if (w->frag[i].op == op && w->frag[i].state == state && w->frag[i].bar == bar) {
            w->frag[i].mask |= mask;
            return;
        }
    w->frag[w->nfrag++] = (struct sg_frag){op, mask, (uint8_t)state, (uint8_t)bar, w->tick};
}

/* Take fragment i as the running one, with every other runnable one at the same place. */
static const struct sg_op *warp_take(struct sg_warp *w, uint32_t i)
{
    const struct sg_op *op = w->frag[i].op;
    uint32_t mask = 0;
    for (i = 0; i < w->nfrag;)
        if (w->frag[i].op == op && w->frag[i].state == SG_F_RUN) {
            mask |= w->frag[i].mask;
            sg_unpark(w, i);
        } else {
            i++;
        }
    sg_set_mask(w, mask);
    return op;
}

const struct sg_op *sg_switch(struct sg_warp *w, const struct sg_op *bb)
{
    w->tick++;
    uint32_t mask = w->mask, lowest = UINT32_MAX, oldest = UINT32_MAX;
    for (uint32_t i = 0; i < w->nfrag;) {
        struct sg_frag *f = &w->frag[i];
        if (f->state == SG_F_RUN && f->op == bb) {
            mask |= f->mask;
            sg_unpark(w, i);
        } else {
            i++;
        }
    }
    sg_set_mask(w, mask);
    for (uint32_t i = 0; i < w->nfrag; i++) {
        struct sg_frag *f = &w->frag[i];
        if (f->state != SG_F_RUN)
            continue;
        if (lowest == UINT32_MAX || f->op < w->frag[lowest].op)
            lowest = i;
        if (oldest == UINT32_MAX || w->tick - f->tick > w->tick - w->frag[oldest].tick)
            oldest = i;
    }
    if (lowest == UINT32_MAX)
        return bb;
    if (w->stick) {
        w->stick--;
        return bb;
    }
    uint32_t next = UINT32_MAX;
    if (w->tick - w->frag[oldest].tick > (w->spin ? SPIN_PATIENCE : PATIENCE)) {
        next = oldest;
        w->stick = STICK;
    } else if (w->frag[lowest].op < bb) {
        next = lowest;
    }
    if (next == UINT32_MAX)
        return bb;
    w->spin = false;
    sg_park(w, bb, w->mask, SG_F_RUN, 0);
    return warp_take(w, next);
}

const struct sg_op *sg_pick(struct sg_warp *w)
{
    do {
        uint32_t lowest = UINT32_MAX;
        for (uint32_t i = 0; i < w->nfrag; i++)
            if (w->frag[i].state == SG_F_RUN && (lowest == UINT32_MAX || w->frag[i].op < w->frag[lowest].op))
                lowest = i;
        if (lowest != UINT32_MAX)
            return warp_take(w, lowest);
    } while (sg_joint(w));
    w->mask = 0;
    w->full = 0;
    w->ready = 0;
    w->stop = w->alive ? SG_BLOCKED : SG_DONE;
    return NULL;
}

const struct sg_op *sg_out_of_fuel(struct sg_warp *w, const struct sg_op *bb)
{
    sg_park(w, bb, w->mask, SG_F_RUN, 0);
    w->stop = w->wk->fault ? SG_FAULT : SG_YIELD;
    return NULL;
}

static inline uint32_t guard(const struct sg_warp *w, const struct sg_op *op)
{
    if (op->guard == SG_NONE)
        return w->mask;
    uint32_t p = *SG_P(uint32_t, op->guard);
    return w->mask & (op->flags & SG_GUARD_NOT ? ~p : p);
}

/* An operation behind a predicate: run it with the mask narrowed. */
const struct sg_op *sg_guarded(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t m = guard(w, op), mask = w->mask, full = w->full;
    if (m == mask)
        return op->inner(w, op);
    if (!m)
        return op + 1;
    w->mask = m;
    w->full = 0;
    const struct sg_op *next = op->inner(w, op);
    w->mask = mask;
    w->full = full;
    return next;
}

/* ---- branches ---------------------------------------------------------------------------------------------------- */
const struct sg_op *sg_bra(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t m = w->mask, t = guard(w, op);
    if (t == m)
        return op + op->imm;
    if (!t)
        return op + 1;
    sg_park(w, op + op->imm, t, SG_F_RUN, 0);
    sg_set_mask(w, m & ~t);
    return op + 1;
}

/* brx.idx: ext[x] is the number of targets, their distances follow. An index past the end is undefined in PTX; here a
 * fault. */
const struct sg_op *sg_brx(struct sg_warp *w, const struct sg_op *op)
{
    const uint32_t *ext = w->code->ext + op->x, *index = SG_P(uint32_t, op->a);
    uint32_t m = w->mask;
    for (uint32_t r = m; r; r &= r - 1) {
        unsigned l = (unsigned)__builtin_ctz(r);
        if (index[l] >= ext[0])
            return sg_fault_at(w, op, DT_E_TRAP, l, 0, 0, "index %u into %u branch targets", index[l], ext[0]);
        sg_park(w, op + (int32_t)ext[1 + index[l]], 1u << l, SG_F_RUN, 0);
    }
    return sg_pick(w);
}

/* bar.red's result, for lanes that wait at the barrier, as it completes: before they go on others may use the same
 * barrier again. */
static void give_result(struct sg_warp *w, struct sg_frag *f, const struct sg_barrier *bar)
{
    const struct sg_op *op = f->op;
    if (op->fn != sg_bar_result && (op->fn != sg_guarded || op->inner != sg_bar_result))
        return;
    for (uint32_t m = f->mask; m && op->sub == SG_BAR_POPC; m &= m - 1)
        SG_P(uint32_t, op->d)[__builtin_ctz(m)] = bar->count;
    if (op->sub != SG_BAR_POPC) {
        uint32_t *p = SG_P(uint32_t, op->d);
        *p = (*p & ~f->mask) | ((op->sub == SG_BAR_AND ? bar->all : bar->any) ? f->mask : 0);
    }
    f->op++;
}

/* ---- exit, trap -------------------------------------------------------------------------------------------------- */
static void complete(struct sg_block *b, unsigned n)
{
    struct sg_barrier *bar = &b->bar[n];
    bool done = bar->expected ? bar->arrived >= bar->expected : bar->blocked && bar->arrived >= b->alive;
    if (!done)
        return;
    if (b->check && n < SG_BARRIERS)
        sg_check_complete(b, n);
    const struct sg_barrier was = *bar;
    *bar = (struct sg_barrier){.all = 1};
    for (uint32_t i = 0; i < b->nwarp; i++) {
        struct sg_warp *w = &b->warp[i];
        for (uint32_t k = 0; k < w->nfrag; k++)
            if (w->frag[k].state == SG_F_BAR && w->frag[k].bar == n) {
                give_result(w, &w->frag[k], &was);
                w->frag[k].state = SG_F_RUN;
                w->frag[k].bar = 0;
                w->frag[k].tick = w->tick;
                w->ready = 1;
            }
    }
}

const struct sg_op *sg_exit(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t t = guard(w, op), m = w->mask;
    if (!t)
        return op + 1;
    struct sg_block *b = w->blk;
    if (b->check)
        sg_check_exit(w, t);
    w->alive &= ~t;
    b->alive -= sg_count(t);
    for (uint32_t met = b->met & ((1u << SG_BARRIERS) - 1); met; met &= met - 1) {
        const unsigned n = (unsigned)__builtin_ctz(met);
        if (b->bar[n].blocked && !b->bar[n].expected)
            complete(b, n);
    }
    sg_cluster_leave(w, t);
    for (uint32_t i = 0; i < w->nfrag; i++)
        if (w->frag[i].state == SG_F_WARP)
            w->frag[i].state = SG_F_RUN;
    if (t == m)
        return sg_pick(w);
    sg_set_mask(w, m & ~t);
    return op + 1;
}

const struct sg_op *sg_trap(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t t = guard(w, op);
    if (!t)
        return op + 1;
    return sg_fault_at(
        w, op, DT_E_TRAP, (unsigned)__builtin_ctz(t), 0, 0,
        op->sub
            ? "an indirect call of an address that is no function with these parameters, or is one that runs already"
            : "trap");
}

/* %clock, %clock64, %globaltimer: thread-instructions that this CPU thread executed so far; grows, and is the same in
 * every run. */
const struct sg_op *sg_clock(struct sg_warp *w, const struct sg_op *op)
{
    uint64_t t = w->wk->executed + ++w->wk->ticks;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        if (op->flags & SG_D64)
            SG_P(uint64_t, op->d)[l] = t;
        else
            SG_P(uint32_t, op->d)[l] = (uint32_t)(t >> op->imm);
    }
    return op + 1;
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */
const struct sg_op *sg_bar(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t m = w->mask;
    unsigned first = (unsigned)__builtin_ctz(m);
    uint32_t n = SG_P(uint32_t, op->a)[first], count = op->b == SG_NONE ? 0 : SG_P(uint32_t, op->b)[first];
    struct sg_block *b = w->blk;
    if (n >= SG_BARRIERS)
        return sg_fault_at(w, op, DT_E_TRAP, first, 0, 0, "there is no barrier %u", n);
    if (op->b != SG_NONE && (!count || count % SG_LANES || count > b->nwarp * SG_LANES))
        return sg_fault_at(w, op, DT_E_DEADLOCK, first, 0, 0, "barrier %u for %u threads in a block of %u", n, count,
                           b->wk->run->threads);
    struct sg_barrier *bar = &b->bar[n];
    b->met |= 1u << n;
    uint32_t lanes = sg_count(m), add = lanes;
    if (count && m >> __builtin_ctz(w->alive) & 1)
        add += (uint32_t)__builtin_popcount(~w->alive);
    if (b->check && !sg_check_arrive(w, op, n, m, count))
        return NULL;
    bar->expected = count;
    bar->arrived += add;
    if (op->sub != SG_BAR_ARRIVE) {
        if (op->sub != SG_BAR_SYNC) {
            uint32_t p = *SG_P(uint32_t, op->c) ^ (op->flags & SG_C_NOT ? SG_ALL : 0);
            bar->count += (uint32_t)__builtin_popcount(p & m);
            bar->any |= (p & m) != 0;
            bar->all &= (p & m) == m;
        }
        bar->blocked += lanes;
        sg_park(w, op + 1, m, SG_F_BAR, n);
    }
    complete(b, n);
    return op->sub == SG_BAR_ARRIVE ? op + 1 : sg_pick(w);
}

const struct sg_op *sg_meet_group(struct sg_warp *w, const struct sg_op *op, bool *ret_last)
{
    struct sg_block *b = w->blk;
    unsigned n = SG_BARRIERS + w->index / 4, first = w->index & ~3u;
    *ret_last = false;
    if (first + 4 > b->nwarp || w->mask != SG_ALL)
        return sg_fault_at(w, op, DT_E_TRAP, (unsigned)__builtin_ctz(w->mask), 0, 0,
                           "a warpgroup of less than 128 threads");
    struct sg_barrier *bar = &b->bar[n];
    if (bar->arrived && bar->op != op)
        return sg_fault_at(w, op, DT_E_TRAP, 0, 0, 0,
                           "another warp of the warpgroup is at another instruction, on line %u",
                           w->code->src[bar->op->src].f->inst[w->code->src[bar->op->src].inst].line);
    b->met |= 1u << n;
    bar->op = op;
    bar->expected = 4 * SG_LANES;
    bar->arrived += SG_LANES;
    if (bar->arrived < bar->expected) {
        sg_park(w, op + 1, w->mask, SG_F_BAR, n);
        return sg_pick(w);
    }
    complete(b, n);
    *ret_last = true;
    return op + 1;
}

/* Second half of bar.red. It never runs: give_result() has done it. */
const struct sg_op *sg_bar_result(struct sg_warp *w, const struct sg_op *op) { return op + 1; }

/* ---- odds and ends ----------------------------------------------------------------------------------------------- */
const struct sg_op *sg_activemask(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1)
        SG_P(uint32_t, op->d)[__builtin_ctz(m)] = w->mask;
    return op + 1;
}

const struct sg_op *sg_setmaxnreg(struct sg_warp *w, const struct sg_op *op)
{
    if (w->mask != w->alive)
        return sg_fault_at(w, op, DT_E_TRAP, (unsigned)__builtin_ctz(w->mask), 0, 0,
                           "lanes 0x%x of the warp do not execute it", w->alive & ~w->mask);
    return op + 1;
}

/* Where kernels run one after the other, what a kernel waits for is complete. Noted for the timing model: how much
 * comes before. */
const struct sg_op *sg_griddepcontrol(struct sg_warp *w, const struct sg_op *op)
{
    struct sg_block *b = w->blk;
    struct sg_beside *beside = w->wk->run->l->beside;
    if (op->sub) {
        if (!b->triggers) {
            b->triggered = w->issued;
            if (beside)
                beside->let_go++;
        }
        b->triggers = true;
        if (!beside)
            return op + 1;
        sg_park(w, op + 1, w->mask, SG_F_RUN, 0); /* the others may begin now: let them */
        w->stop = SG_YIELD;
        return NULL;
    }
    if (beside && !beside->may_pass(beside->user)) { /* again when it has the turn again */
        sg_park(w, op, w->mask, SG_F_RUN, 0);
        w->stop = SG_YIELD;
        w->wk->held = true;
        return NULL;
    }
    if (!w->waited && (!b->waits || w->issued > b->waited))
        b->waited = w->issued;
    w->waited = b->waits = true;
    return op + 1;
}
