/* Surplus lanes: a phase whose threads are no whole warps, in a fused block that has more threads.
 *
 *   gemm<<<64, (12, 4)>>>     a block of 48 threads, with barriers: one warp, and half of another
 *   act<<<256, 256>>>         fused, the block has 256 threads. A barrier counts whole warps and waits for every lane
 *                             of each, so lanes 48 … 63 cannot skip the phase: they have to pass gemm's barriers
 *
 *   t = %tid.x                                        after:  t = min(%tid.x, 47); own = %tid.x < 48
 *   if (t >= 48) skip                                         if (%tid.x >= 64) skip
 *   ld.global.f32 %f1, [x + 4 t]                              ld.global.f32 %f1, [x + 4 t]
 *   st.shared.f32 [s + 4 t], %f1                       @own   st.shared.f32 [s + 4 t], %f1
 *   bar.sync 0                                                barrier.sync 0, 64
 *
 * A surplus lane has the number of the phase's last thread, runs the same text, and comes to the same barriers; it
 * stores nothing. It may have to load, since branches need values. What it loads is what the last thread loads, if no
 * thread can have written there meanwhile. A load is made by posted threads alone (`left out`) where that is not
 * certain:
 *
 *   global memory    the launch writes a byte of that buffer that it reads, or nobody knows which buffer it is
 *   shared memory    a store to shared memory can come before it or after it without a barrier between. It is the last
 *                    thread's own: a store of another thread would race with the last thread's load as well
 *   anything         the address is made of a value that was left out, or generic
 *   volatile         any access to shared memory that is: see below
 *
 * Stores to global and shared memory and atomics are left out everywhere. Local memory is a lane's own: it is written
 * and read. A register that an instruction that was left out would have set is *unknown* in the surplus lanes, and so
 * is what is made of it. Products and sums may be unknown, nobody sees them. Branches may not: then a lane could go
 * another way than the last thread, pass other barriers, or never come to an end (`surplus_paths`).
 *
 * By induction along the last thread's way: a register that is not unknown has the last thread's value, so every branch
 * goes the last thread's way, with the same barriers in the same order, and it ends where that ends.
 *
 * `surplus_lanes` is what this cannot do: reductions over a barrier, which would count the lanes; counts of the body's
 * own; lane numbers; collectives, asynchronous copies, calls and clusters; and accesses with an order. A body that is
 * alone in its block, or with others of equally many threads, has no surplus lanes; neither has one without a barrier,
 * whose threads skip it one by one.
 *
 * Volatile shared memory is how old kernels let the lanes of a warp work together without a barrier: what one stores,
 * the others load in the next instruction. It is left to posted threads whatever else is there (`posted_lanes`), and
 * these have the lanes that they had, next to the same others. A surplus lane goes their way beside them; it can part
 * nobody who was together, as it takes the side of each branch that the last thread takes. Behind the barriers of such
 * a body stands a bar.warp.sync: the posted ones are aligned, with the warp together behind them, the frame's are not.
 * What the manual does not promise of the posted kernel, it does not promise here either; the plan has a warning
 * (plan/plan.c).
 *
 * This is done as a fused body is written, not to the posted launch beforehand: a launch of 48 threads gains nothing by
 * itself from lanes that do nothing, and only here it is known which block it has to fit in. Not here: the registers
 * and predicates (join.c, copy.c).
 */
#include "rewrite/emit/emit-priv.h"
#include "rewrite/facts/hooks.h"

#include <stdlib.h>
#include <string.h>

struct surplus {
    const struct rw_facts *facts;
    const struct rw_body *b;
    const struct ptx_function *f;
    uint8_t *out;      /* by instruction: it is left out */
    bool *unknown;     /* by register */
    bool *near;        /* by instruction: a store to shared memory is before or behind it, with no barrier between */
    bool carry, local; /* the carry flag, or something in local memory, is unknown */
    bool any, give, changed;
};

uint32_t rw_surplus_threads(const struct rw_cand *c, uint32_t s)
{
    const struct rw_body *b = &c->facts.body[s];
    return b->threads % 32 && b->barriers && b->threads != c->threads ? (b->threads + 31) / 32 * 32 : b->threads;
}

static bool skipped(const struct ptx_inst *i)
{
    return i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS ||
           i->op == PTX_OP_CALLPROTO || i->op == PTX_OP_OPAQUE;
}

static unsigned flags_of(const struct ptx_inst *i) { return skipped(i) ? 0 : ptx_op_info(i->op)->flags; }

static bool is_volatile(const struct ptx_inst *i)
{
    enum ptx_mod sem = ptx_mod_of(i, PTX_MC_SEM);
    return (i->op == PTX_OP_LD || i->op == PTX_OP_ST) && sem != PTX_M_NONE && sem != PTX_M_WEAK;
}

/* ---- what surplus lanes cannot take part in ---------------------------------------------------------------------- */

static const char *cannot(const struct ptx_inst *i)
{
    unsigned flags = flags_of(i);
    switch (i->op) {
    case PTX_OP_BAR_RED:
    case PTX_OP_BARRIER_RED: return "reduces over a barrier";
    case PTX_OP_BAR_SYNC:
    case PTX_OP_BARRIER_SYNC: return i->nopnd > 1 ? "counts the threads of a barrier itself" : NULL;
    case PTX_OP_LD:
    case PTX_OP_ST:
        return is_volatile(i) && !rw_is_lockstep(i) ? "has ordered accesses, by which threads may wait for others"
                                                    : NULL;
    case PTX_OP_ATOM:
    case PTX_OP_RED:
    case PTX_OP_MEMBAR:
    case PTX_OP_FENCE:
    case PTX_OP_PREFETCH:
    case PTX_OP_PREFETCHU: return NULL;
    default: break;
    }
    if (flags & (PTX_F_BARRIER | PTX_F_CONVERGENT))
        return "has more barriers than those of the block, or collectives";
    return flags & (PTX_F_READS | PTX_F_WRITES | PTX_F_ATOMIC | PTX_F_CALL | PTX_F_SIDE)
               ? "does something that lanes cannot just leave out"
               : NULL;
}

bool rw_surplus_lanes(const struct rw_body *b, struct rw_find *ret)
{
    if (b->find[RW_LANE].set) {
        *ret = (struct rw_find){true, b->find[RW_LANE].line, b->find[RW_LANE].what};
        return false;
    }
    for (uint32_t n = 0; n < b->f->ninst; n++) {
        const struct ptx_inst *i = &b->f->inst[n];
        const char *no = skipped(i) ? NULL : cannot(i);
        if (no) {
            *ret = (struct rw_find){true, i->line, no};
            return false;
        }
    }
    return true;
}

/* ---- shared memory: stores within reach of a load ---------------------------------------------------------------- */

static bool may_be_shared(const struct ptx_inst *i) { return i->space == PTX_SHARED || i->space == PTX_GENERIC; }

static bool writes_shared(const struct ptx_inst *i)
{
    return (flags_of(i) & (PTX_F_WRITES | PTX_F_ATOMIC)) && may_be_shared(i);
}

/* A barrier that all threads of the block pass wherever one does. */
static bool cuts(const struct ptx_inst *i)
{
    return (i->op == PTX_OP_BAR_SYNC || i->op == PTX_OP_BARRIER_SYNC) && i->nopnd == 1 && i->pred == PTX_NO_REG;
}

/* The state behind the instructions of a block, from the state before them (or, `back`, the other way round): is a
 * store within reach? Sets near[] where it is. */
static bool across(struct surplus *u, const struct ptx_block *b, bool state, bool back)
{
    for (uint32_t k = 0; k <= b->last - b->first; k++) {
        uint32_t n = back ? b->last - k : b->first + k;
        const struct ptx_inst *i = &u->f->inst[n];
        u->near[n] |= state;
        state = cuts(i) ? false : state || writes_shared(i);
    }
    return state;
}

/* near[] of the instructions that have a store to shared memory before them, or, `back`, behind them. out: of nblock
 * blocks, the state at their other ends. */
static void reach(struct surplus *u, const struct ptx_cfg *cfg, bool *out, bool back)
{
    bool changed = true;
    memset(out, 0, cfg->nblock);
    while (changed) {
        changed = false;
        for (uint32_t n = 0; n < cfg->nblock; n++) {
            const struct ptx_block *b = &cfg->block[n];
            bool in = false;
            for (uint32_t k = 0; k < (back ? b->nsucc : b->npred); k++)
                in |= out[back ? b->succ[k] : b->pred[k]];
            bool now = across(u, b, in, back);
            changed |= now && !out[n];
            out[n] |= now;
        }
    }
}

/* ---- what is left out, and what is unknown ----------------------------------------------------------------------- */

static void surplus_on_reg(uint32_t reg, bool write, void *user)
{
    struct surplus *u = user;
    if (reg >= u->f->nreg)
        return;
    if (!u->give && !write)
        u->any |= u->unknown[reg];
    if (u->give && write && !u->unknown[reg])
        u->unknown[reg] = u->changed = true;
}

static bool reads_unknown(struct surplus *u, const struct ptx_inst *i)
{
    u->any = u->carry && ptx_reads_carry(i);
    u->give = false;
    ptx_inst_regs(i, surplus_on_reg, u);
    return u->any;
}

static void sets_unknown(struct surplus *u, const struct ptx_inst *i)
{
    if (flags_of(i) & PTX_F_NODST)
        return;
    u->give = true;
    ptx_inst_regs(i, surplus_on_reg, u);
    if (ptx_has(i, PTX_M_CC) && !u->carry)
        u->carry = u->changed = true;
}

/* May the launch have written what the global load reads? */
static bool written_meanwhile(const struct surplus *u, const struct ptx_inst *i)
{
    const struct ana_launch *l = &u->facts->ana->launch[u->facts->launch[u->b - u->facts->body]];
    uint64_t from = rw_prov_of(u->b, i);
    bool found = !from;
    struct dt_arena tmp = {0};
    for (uint32_t k = 0; k < l->naccess && !found; k++) {
        const struct ana_access *a = &l->access[k];
        uint64_t args = rw_args_of(u->b->step->launch, a->buffer);
        if (!a->writes || !a->reads || (!(args & from) && !(from & RW_PROV_OTHER)))
            continue;
        uint32_t at = u->facts->launch[u->b - u->facts->body];
        struct ana_set r = rw_launch_bytes(&tmp, u->facts->ana, at, a->buffer, false);
        struct ana_set w = rw_launch_bytes(&tmp, u->facts->ana, at, a->buffer, true);
        found = a->widened || a->atomics || dt_arena_failed(&tmp) || ana_set_overlaps(r, w);
    }
    dt_arena_done(&tmp);
    return found;
}

static bool is_local(const struct ptx_inst *i) { return i->space == PTX_LOCAL; }

/* Is the instruction left out for what it is? */
static bool left_out(const struct surplus *u, uint32_t n)
{
    const struct ptx_inst *i = &u->f->inst[n];
    unsigned flags = flags_of(i);
    if (rw_is_lockstep(i))
        return !RW_SPOILT("lockstep");
    if (flags & (PTX_F_WRITES | PTX_F_ATOMIC))
        return !is_local(i);
    if (i->op == PTX_OP_PREFETCH || i->op == PTX_OP_PREFETCHU)
        return true;
    if (!(flags & PTX_F_READS))
        return false;
    switch (i->space) {
    case PTX_LOCAL:
    case PTX_PARAM:
    case PTX_CONST: return false;
    case PTX_SHARED: return u->near[n];
    case PTX_GLOBAL: return written_meanwhile(u, i);
    default: return true;
    }
}

static void step(struct surplus *u, uint32_t n)
{
    const struct ptx_inst *i = &u->f->inst[n];
    unsigned flags = flags_of(i);
    bool memory = flags & (PTX_F_READS | PTX_F_WRITES | PTX_F_ATOMIC), unknown = reads_unknown(u, i);
    if (memory && unknown && !u->out[n]) {
        u->out[n] = 1;
        u->changed = true;
    }
    bool writes_local = (flags & PTX_F_WRITES) && (is_local(i) || i->space == PTX_GENERIC);
    if (writes_local && !u->local && (unknown || u->out[n]))
        u->local = u->changed = true;
    if (unknown || u->out[n] || (u->local && (flags & PTX_F_READS) && is_local(i)))
        sets_unknown(u, i);
}

/* A branch, or a barrier's predicate, that is unknown; UINT32_MAX: there is none. */
static uint32_t lost(struct surplus *u)
{
    for (uint32_t n = 0; n < u->f->ninst; n++) {
        const struct ptx_inst *i = &u->f->inst[n];
        unsigned flags = flags_of(i);
        bool goes = (flags & (PTX_F_BRANCH | PTX_F_TERMINATOR)) || rw_is_block_barrier(i->op);
        if (goes && reads_unknown(u, i))
            return n;
    }
    return UINT32_MAX;
}

int rw_surplus(struct dt_arena *a, const struct rw_facts *facts, uint32_t s, uint8_t **ret_out,
               struct rw_find *ret_lost, struct dt_err *e)
{
    const struct rw_body *b = &facts->body[s];
    struct surplus u = {.facts = facts, .b = b, .f = b->f};
    struct ptx_cfg cfg;
    int r = ptx_cfg_build(b->f, &cfg, e);
    if (r < 0)
        return r;
    u.out = dt_new_array(a, uint8_t, u.f->ninst + 1);
    u.unknown = dt_calloc((size_t)u.f->nreg + 1, sizeof *u.unknown);
    u.near = dt_calloc((size_t)u.f->ninst + 1, sizeof *u.near);
    bool *end = dt_calloc((size_t)cfg.nblock + 1, sizeof *end);
    if (!u.out || !u.unknown || !u.near || !end) {
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
        goto out;
    }
    reach(&u, &cfg, end, false);
    reach(&u, &cfg, end, true);
    for (uint32_t n = 0; n < u.f->ninst; n++)
        u.out[n] = left_out(&u, n);
    do {
        u.changed = false;
        for (uint32_t n = 0; n < u.f->ninst; n++)
            step(&u, n);
    } while (u.changed);
    uint32_t at = lost(&u);
    *ret_lost = (struct rw_find){0};
    if (at != UINT32_MAX)
        *ret_lost = (struct rw_find){true, u.f->inst[at].line, ptx_op_info(u.f->inst[at].op)->mnemonic};
    *ret_out = u.out;
out:
    free(u.unknown);
    free(u.near);
    free(end);
    ptx_cfg_done(&cfg);
    return r;
}
