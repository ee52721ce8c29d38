/* Some blocks of a launch are followed operation by operation: how long each would take alone on an SM, and what its
 * warps ask of the SM. The timing model (model/cost.c) takes the mean of them for all.
 *
 * Time of a warp. Issue is in order between basic blocks and free within one, as ptxas reorders: an instruction begins
 * when its operands are there and its basic block has begun; loads wait for earlier stores to the same space, nothing
 * passes a barrier. A basic block ends when its last instruction has begun, and takes a clock for each at least. A
 * short loop counts as one basic block for `unroll` rounds. At a barrier of the block all warps go on when the last one
 * is there, and the SM has done what all of them asked of its pipes since they met last. Fences take so many ways to
 * the L2, those of several warps one after the other. Looks at the same place again (it waits for another block) take
 * nothing: what is waited for is up to the timeline. Two clocks run side by side, one in which what the L1 lacks comes
 * from the L2 (`near`) and one in which it comes from DRAM (`far`). A line of the L1 that another load asked for is
 * there when that one has it. Of what the warps ask for first, the last comes when the SM's way from the L2 has carried
 * all. Loads that the assembler joins are one (joins.c).
 *
 * What is asked of the SM: issued machine instructions by pipe; passes over shared memory (bank conflicts) and over the
 * L1 (lines); sectors that the L1 lacks. The L1 has what shared memory leaves, divided by the blocks that an SM
 * holds, and is empty at a block's start and after an acquire. Of atomics, how many meet at the busiest address. Of
 * DRAM, how many pages a block reads or writes pieces of, and how many of these the block before it had. A cluster's
 * barrier takes its time; that its blocks wait for each other is not followed.
 *
 * Clocks and the like are constants of the model (softgpu/constants.def).
 *
 * Not followed: register limits, instruction caches, bank conflicts of registers, replays of partial warps beyond what
 * a warp issues. Copies of bulks and tensors cost what they count elsewhere.
 */
#include "softgpu/exec/profile-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "softgpu/exec/costs.h"
#include "softgpu/exec/exec-priv.h"

/* ---- blocks that are followed --------------------------------------------------------------------------------------
 */
static void profile_free(struct sg_profiler *p)
{
    free(p->warp), free(p->ready), free(p->l1), free(p->chains), free(p->seen[READ].at), free(p->seen[WRITTEN].at),
        free(p->meet), free(p->pattern), free(p);
}

void sg_profile_free(struct sg_worker *wk)
{
    for (struct sg_profiler *p = wk->profile, *next; p; p = next) {
        next = p->next;
        profile_free(p);
    }
    wk->profile = NULL;
}

/* Lines of the L1 that a block has: what shared memory leaves, by the blocks that an SM holds. */
static unsigned lines_of(const struct sg_run *run, const struct sg_model *m)
{
    struct sg_occupancy o = sg_occupancy(m, run->threads, run->l->kernel->info.registers, run->shared_bytes);
    uint64_t resident = o.blocks_per_sm ? o.blocks_per_sm : 1, waves = (run->nblocks + m->sms - 1) / m->sms;
    if (waves < resident)
        resident = waves;
    uint64_t shared = resident * ((uint64_t)run->shared_bytes + m->shared_reserved),
             n = m->l1_bytes > shared ? (m->l1_bytes - shared) / resident / LINE : 1;
    return n > LINES ? LINES : n ? (unsigned)n : 1;
}

int sg_profile_block_start(struct sg_block *b)
{
    struct sg_worker *wk = b->wk;
    const struct sg_run *run = wk->run;
    const struct sg_model *m = sg_device_model(run->device);
    const struct sg_costs *costs = run->code->costs;
    struct sg_profiler *p = dt_calloc(1, sizeof *p);
    if (!p)
        return DT_E_NOMEM;
    double ghz = m->clock_khz * 1e-6;
    p->model = m;
    p->nwarp = b->nwarp;
    sg_profile_met(p);
    p->next = wk->profile;
    wk->profile = p;
    p->block = b->linear;
    p->costs = costs;
    p->l1_bytes_clock = m->l1_bytes_clock ? m->l1_bytes_clock : LINE;
    p->turns = m->lsu_lanes && m->lsu_lanes < SG_LANES ? SG_LANES / m->lsu_lanes : 1;
    p->l2_clocks = (unsigned)(m->l2_near_ns * ghz + 0.5);
    p->home_clocks = (unsigned)((m->l2_halves > 1 ? (m->l2_near_ns + m->l2_far_ns) / 2 : m->l2_near_ns) * ghz + 0.5);
    p->dram_clocks = (unsigned)(m->dram_latency_ns * ghz + 0.5);
    p->far_clocks = (unsigned)(m->dsm_ns * ghz + 0.5);
    p->meet_clocks = (unsigned)(m->cluster_sync_ns * ghz + 0.5);
    p->lines = lines_of(run, m);
    p->newest = p->oldest = NO_LINE;
    p->seen[READ].cap = p->seen[WRITTEN].cap = SEEN_FIRST;
    p->warp = dt_calloc(run->nwarp, sizeof *p->warp);
    p->ready = dt_calloc((size_t)run->nwarp * (costs->nreg + 1) * CLOCKS, sizeof *p->ready);
    p->l1 = dt_calloc(p->lines, sizeof *p->l1);
    p->chains = dt_malloc(LINES * sizeof *p->chains);
    p->npattern = run->code->nsite < PATTERNS ? run->code->nsite + 1 : PATTERNS;
    p->pattern = dt_calloc(p->npattern, sizeof *p->pattern);
    for (unsigned k = 0; k < 2; k++)
        p->seen[k].at = dt_calloc(p->seen[k].cap, sizeof *p->seen[k].at);
    if (!p->warp || !p->ready || !p->l1 || !p->chains || !p->pattern || !p->seen[READ].at || !p->seen[WRITTEN].at)
        return DT_E_NOMEM;
    memset(p->chains, 0xFF, LINES * sizeof *p->chains);
    for (uint32_t i = 0; i < b->nwarp; i++)
        p->warp[i].bb = UINT32_MAX;
    b->follow = p;
    return 0;
}

/* ---- an operation --------------------------------------------------------------------------------------------------
 */
static uint32_t guard_of(const struct sg_warp *w, const struct sg_op *op)
{
    if (op->fn != sg_guarded || op->guard == SG_NONE)
        return w->mask;
    uint32_t q = *SG_P(uint32_t, op->guard);
    return w->mask & (op->flags & SG_GUARD_NOT ? ~q : q);
}

static int64_t *ready_of(struct sg_profiler *p, const struct sg_warp *w, uint32_t reg)
{
    return sg_profile_ready(p, w->index) + (size_t)reg * CLOCKS;
}

/* When all that the instruction reads is there. */
static void operands(struct sg_profiler *p, const struct sg_warp *w, const struct warp_time *t, const struct sg_cost *c,
                     int64_t at[CLOCKS])
{
    const int64_t *ready = ready_of(p, w, 0);
    const uint32_t *reg = p->costs->reg.p + c->reg;
    int64_t near = t->clock[NEAR], far = t->clock[FAR];
    for (unsigned i = 0; i < c->reads; i++) {
        const int64_t *r = ready + (size_t)reg[i] * CLOCKS;
        near = r[NEAR] > near ? r[NEAR] : near;
        far = r[FAR] > far ? r[FAR] : far;
    }
    at[NEAR] = near;
    at[FAR] = far;
}

static void result(struct sg_profiler *p, const struct sg_warp *w, struct warp_time *t, const struct sg_cost *c,
                   const int64_t at[CLOCKS], const int64_t latency[CLOCKS])
{
    for (unsigned i = 0; i < c->writes; i++) {
        int64_t *r = ready_of(p, w, p->costs->reg.p[c->dest + i]);
        for (unsigned k = 0; k < CLOCKS; k++)
            r[k] = at[k] + latency[k];
    }
    for (unsigned k = 0; k < CLOCKS && c->total; k++)
        t->last[k] = at[k] > t->last[k] ? at[k] : t->last[k];
}

static void earlier(int64_t at[CLOCKS], const int64_t than[CLOCKS])
{
    for (unsigned k = 0; k < CLOCKS; k++)
        at[k] = than[k] < at[k] ? than[k] : at[k];
}

static void later(int64_t at[CLOCKS], const int64_t than[CLOCKS])
{
    for (unsigned k = 0; k < CLOCKS; k++)
        at[k] = than[k] > at[k] ? than[k] : at[k];
}

/* What others wrote is seen from here on: the L1 is emptied. */
static void acquire(struct sg_profiler *p)
{
    memset(p->chains, 0xFF, LINES * sizeof *p->chains);
    p->nline = 0;
    p->newest = p->oldest = NO_LINE;
}

/* What was written before is seen by others before anything behind goes on: so many ways to the L2. */
static void fence(struct sg_profiler *p, struct warp_time *t, unsigned trips)
{
    t->fixed = true;
    sg_profile_close(t);
    for (unsigned k = 0; k < CLOCKS; k++)
        t->last[k] = t->clock[k] += trips * p->home_clocks;
    t->fences += trips * p->home_clocks;
    p->met.fences += t->fenced != p->met.times + 1;
    t->fenced = p->met.times + 1;
}

/* The lanes whose address is in another block's shared memory. */
static uint32_t others(const struct sg_warp *w, const uint64_t *addr, uint32_t mask)
{
    uint32_t far = 0;
    uint64_t any = 0;
    for (unsigned l = 0; l < SG_LANES; l++)
        any |= addr[l];
    if (!((any & (SG_WINDOW_SHARED - 1)) >> SG_RANK_SHIFT))
        return 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t rank = (addr[l] & (SG_WINDOW_SHARED - 1)) >> SG_RANK_SHIFT;
        far |= (uint32_t)(rank && rank != w->blk->rank + 1u) << l;
    }
    return far;
}

/* Of all lanes; those of inactive ones mean nothing. copy: where a copy reads. */
static void addresses(const struct sg_warp *w, const struct sg_op *op, bool copy, uint64_t addr[SG_LANES])
{
    uint64_t more = (uint64_t)op->imm;
    if (copy)
        more = (uint64_t)(int64_t)(int32_t)w->code->ext[op->x + 1];
    if (copy || op->flags & SG_A64) {
        const uint64_t *a = SG_P(uint64_t, copy ? op->b : op->a);
        for (unsigned l = 0; l < SG_LANES; l++)
            addr[l] = a[l] + more;
    } else {
        const uint32_t *a = SG_P(uint32_t, op->a);
        for (unsigned l = 0; l < SG_LANES; l++)
            addr[l] = a[l] + (uint32_t)more;
    }
}

static void memory(struct sg_profiler *p, struct sg_warp *w, struct warp_time *t, const struct sg_cost *c,
                   const struct sg_op *op)
{
    uint64_t addr[SG_LANES];
    uint32_t mask = guard_of(w, op), global = 0, shared = 0;
    unsigned bytes = (unsigned)op->size * (op->n ? op->n : 1u), passes = 1;
    const struct sg_constants *con = p->costs->k;
    if (c->release)
        fence(p, t, con->release_trips);
    bool load = c->kind == SG_COST_LOAD, store = c->kind == SG_COST_STORE, hit = true;
    int64_t at[CLOCKS], latency[CLOCKS] = {con->l1_hit, con->l1_hit};
    operands(p, w, t, c, at);
    addresses(w, op, c->kind == SG_COST_COPY, addr);
    if (c->kind == SG_COST_COPY || op->space == PTX_GLOBAL || op->space == PTX_CONST)
        global = mask;
    else if (op->space == PTX_SHARED || op->space == PTX_SHARED_CLUSTER)
        shared = mask;
    else if (op->space == PTX_GENERIC)
        for (unsigned l = 0; l < SG_LANES; l++) {
            shared |= (uint32_t)(addr[l] >> SG_WINDOW_SHIFT == 1) << l;
            global |= (uint32_t) !(addr[l] >> SG_WINDOW_SHIFT) << l;
        }
    shared &= mask;
    global &= mask;
    if (op->space == PTX_CONST && load) {
        latency[NEAR] = latency[FAR] = con->const_hit;
    } else if (shared) {
        for (uint32_t m = c->joined ? shared : 0; m; m &= m - 1)
            addr[__builtin_ctz(m)] -= c->back;
        passes = c->absorbed ? 1 : sg_profile_passes(p, op, addr, shared, c->joined ? c->joined : bytes, NULL);
        latency[NEAR] = latency[FAR] = con->shared_hit;
        if (load || c->kind == SG_COST_ATOM)
            later(at, t->shared_store);
        if (c->kind == SG_COST_ATOM || c->kind == SG_COST_RED) /* one lane after the other at an address */
            for (uint32_t m = shared; m; m &= m - 1) {
                unsigned equal = 0;
                for (uint32_t o = shared; o; o &= o - 1)
                    equal += addr[__builtin_ctz(o)] == addr[__builtin_ctz(m)];
                passes = equal > passes ? equal : passes;
            }
        p->sum.shared_passes += c->absorbed ? 0 : passes > p->turns ? passes : p->turns;
        if (p->far_clocks && others(w, addr, shared)) {
            latency[NEAR] = latency[FAR] = p->far_clocks;
            later(at, t->far);
            for (unsigned k = 0; k < CLOCKS; k++)
                t->far[k] = at[k] + p->far_clocks / con->far_in_flight;
        }
    } else if (global) {
        p->touched.n = 0;
        uint64_t read = p->sum.l2_read;
        hit = sg_profile_global(p, c, op, addr, global, bytes, &passes);
        if (at[NEAR] < p->met.at[NEAR] + p->l2_clocks)
            p->met.first += p->sum.l2_read - read;
        p->sum.l1_quarters += passes > 4 * p->turns ? passes : 4 * p->turns;
        passes = (passes + 3) / 4;
        sg_profile_under_way(p, at, latency);
        if (c->kind == SG_COST_ATOM || c->kind == SG_COST_RED) {
            sg_profile_atomics(p, c, op, addr, global);
            hit = false;
        }
        if (!hit)
            latency[NEAR] = p->l2_clocks, latency[FAR] = p->dram_clocks;
        if (c->kind == SG_COST_ATOM)
            latency[NEAR] = latency[FAR] = p->home_clocks + con->atomic_more;
        if (load)
            later(at, t->global_store);
        if (store)
            earlier(p->met.store, at);
        if (c->strong && load) { /* at the same place again; what it waits for comes while a look is under way */
            t->looks = t->look == addr[__builtin_ctz(global)];
            latency[NEAR] = latency[FAR] = t->looks ? 0 : p->home_clocks * 3 / 2;
            t->look = addr[__builtin_ctz(global)];
        }
    }
    for (unsigned k = 0; k < CLOCKS; k++)
        latency[k] += passes - 1;
    t->slots += passes - 1 < con->lsu_queue ? passes - 1
                                            : con->lsu_queue; /* the way from the warp to the memory pipe is held up */
    result(p, w, t, c, at, latency);
    t->fixed |= !load;
    if (store || c->kind == SG_COST_ATOM || c->kind == SG_COST_RED)
        later(shared ? t->shared_store : t->global_store, at);
    if (c->acquire && global)
        acquire(p);
    for (unsigned k = 0; k < CLOCKS && c->kind == SG_COST_COPY; k++)
        t->copy[k] = at[k] + latency[k] > t->copy[k] ? at[k] + latency[k] : t->copy[k];
}

/* One machine instruction of a fragment: all lanes' addresses. True: a load that the L1 had. */
static bool piece(struct sg_profiler *p, struct warp_time *t, const struct sg_cost *c, const uint64_t *addr,
                  bool shared, unsigned bytes, unsigned *total)
{
    unsigned passes;
    p->touched.n = 0;
    bool hit = true;
    if (shared) {
        p->sum.shared_passes += passes = sg_profile_banks(addr, SG_ALL, bytes, NULL);
    } else {
        hit = sg_profile_global(p, c, NULL, addr, SG_ALL, bytes, &passes);
        p->sum.l1_quarters += passes;
        passes = (passes + 3) / 4;
    }
    *total += passes;
    t->slots += passes - 1 < 8 ? passes - 1 : 8;
    return hit;
}

/* wmma.load, wmma.store: registers that lie side by side in memory are one access of up to 8 bytes a lane, those whose
 * elements do not, one for each element. Four from shared memory are one ldmatrix, which takes as many passes. */
static void wmma(struct sg_profiler *p, struct sg_warp *w, struct warp_time *t, const struct sg_cost *c,
                 const struct sg_op *op)
{
    const struct sg_mma *s = &w->code->mma[op->x];
    const struct sg_fragment *f = &s->d;
    bool load = c->writes > 0, shared = false, hit = true;
    struct sg_cost like = *c;
    like.kind = load ? SG_COST_LOAD : SG_COST_STORE;
    int64_t at[CLOCKS], latency[CLOCKS];
    unsigned passes = 0, n = 0, bytes = op->size, copies = s->copies && s->copies < f->regs ? s->copies : f->regs;
    operands(p, w, t, c, at);
    for (unsigned first = 0, side; first < copies * f->per; first += side) {
        uint64_t addr[4][SG_LANES];
        unsigned most = copies * f->per - first < 4 ? copies * f->per - first : 4;
        for (unsigned e = 0; e < most; e++)
            for (unsigned l = 0; l < SG_LANES; l++) {
                uint64_t stride =
                    op->c == SG_NONE ? (s->by_column ? f->rows : f->cols) : SG_P(uint32_t, op->c)[l] / op->n;
                unsigned index = f->at[(first + e) * SG_LANES + l], row = index / f->cols, col = index % f->cols;
                addr[e][l] = sg_address(w, op, l) + (s->by_column ? col * stride + row : row * stride + col) * bytes;
            }
        for (side = 1; side < most && addr[side][0] == addr[side - 1][0] + bytes && (side + 1) * bytes <= 8; side++)
            ;
        side = side == 3 ? 2 : side;
        shared = op->space == PTX_SHARED || (op->space == PTX_GENERIC && addr[0][0] >> SG_WINDOW_SHIFT == 1);
        hit &= piece(p, t, &like, addr[0], shared, side * bytes, &passes);
        n++;
    }
    unsigned more = shared && load && bytes == 2 ? (copies + 3) / 4 - 1 : n - 1;
    p->sum.slots[SG_PIPE_LSU] += more;
    t->slots += more;
    if (load)
        later(at, shared ? t->shared_store : t->global_store);
    latency[NEAR] = latency[FAR] = shared ? p->costs->k->matrix_hit : p->costs->k->l1_hit;
    if (!hit)
        latency[NEAR] = p->l2_clocks, latency[FAR] = p->dram_clocks;
    for (unsigned k = 0; k < CLOCKS; k++)
        latency[k] += passes - 1;
    result(p, w, t, c, at, latency);
    t->fixed |= !load;
    if (!load)
        later(shared ? t->shared_store : t->global_store, at);
}

/* Flops of a product, as many of f16 as take the same time: NVIDIA's rates by type, sm_80 to sm_100. */
static uint64_t profile_product(const struct sg_mma *s)
{
    uint64_t flops = s->quads ? 2048 : 2ull * s->a.rows * s->a.cols * s->b.cols;
    switch (s->a.type) {
    case PTX_F64: return 16 * flops;
    case PTX_TF32: return 2 * flops;
    case PTX_S8:
    case PTX_U8:
    case PTX_E4M3:
    case PTX_E5M2: return flops / 2;
    case PTX_S4:
    case PTX_U4: return flops / 4;
    case PTX_B1: return flops / 16;
    default: return flops;
    }
}

/* A part of a cluster's barrier: of the whole, a fence takes three quarters, the way between SMs one (fitted to
 * cluster: sync2, sync2-relaxed). */
static void meet_cluster(struct sg_profiler *p, struct warp_time *t, unsigned clocks)
{
    t->fixed = true;
    sg_profile_close(t);
    for (unsigned k = 0; k < CLOCKS && p->meet_clocks; k++)
        t->last[k] = t->clock[k] += clocks;
    t->bb = UINT32_MAX;
}

static void wait_copies(struct warp_time *t, const struct ptx_inst *i)
{
    uint32_t left = i->op == PTX_OP_CP_ASYNC_WAIT_GROUP && i->nopnd ? (uint32_t)i->opnd[0].bits : 0;
    sg_profile_close(t);
    if (i->op == PTX_OP_CP_ASYNC_WAIT_ALL)
        later(t->clock, t->copy);
    for (uint32_t g = t->ngroup > GROUPS ? t->ngroup - GROUPS : 0; g + left < t->ngroup; g++)
        later(t->clock, t->group[g % GROUPS]);
    memcpy(t->last, t->clock, sizeof t->last);
    t->bb = UINT32_MAX;
}

static void follow(struct sg_profiler *p, struct sg_warp *w, const struct sg_op *op)
{
    struct warp_time *t = &p->warp[w->index];
    if (t->waits)
        sg_profile_leave(p, t);
    if (op->flags & SG_IS_BB) {
        if (w->fuel <= 0)
            return; /* it stops here, and begins the basic block in its next turn */
        sg_profile_enter(p->costs, t, op->x);
        if (t->same > SPIN) {
            p->spun = true;
            return;
        }
        p->executed += (uint64_t)__builtin_popcount(w->mask) * w->code->bb[op->x].instructions;
        return;
    }
    if (t->same > SPIN || t->stopped == op)
        return;
    t->stopped = NULL;
    p->steps++;
    const struct sg_cost *c = &p->costs->inst[op->src];
    bool first = p->costs->first[op - w->code->op];
    if (first) {
        for (unsigned k = 0; k < SG_PIPES; k++)
            p->sum.slots[k] += c->slots[k];
        t->slots += c->total;
    }
    switch (c->kind) {
    case SG_COST_LOAD:
    case SG_COST_STORE:
    case SG_COST_ATOM:
    case SG_COST_RED:
    case SG_COST_COPY:
        if (op->size && guard_of(w, op))
            memory(p, w, t, c, op);
        return;
    case SG_COST_BARRIER:
        if (op->fn == sg_bar || (op->fn == sg_guarded && op->inner == sg_bar && guard_of(w, op))) {
            uint32_t n = SG_P(uint32_t, op->a)[__builtin_ctz(w->mask)];
            if (n < SG_BARRIERS)
                sg_profile_arrive(p, t, n);
        }
        return;
    case SG_COST_BRANCH:
        if (first && c->reads) {
            int64_t known[CLOCKS];
            operands(p, w, t, c, known);
            for (unsigned k = 0; k < CLOCKS; k++)
                t->branch[k] = known[k] + p->costs->k->to_branch;
        }
        return;
    case SG_COST_FRAGMENT:
        if (op->fn == sg_wmma_load || op->fn == sg_wmma_store)
            wmma(p, w, t, c, op);
        return;
    case SG_COST_ARRIVE:
        if (first && !c->relaxed)
            meet_cluster(p, t, p->meet_clocks * 3 / 4);
        return;
    case SG_COST_MEET:
        if (op->fn == sg_cluster_wait) {
            meet_cluster(p, t, p->meet_clocks / 4);
            t->stopped = op;
        }
        return;
    case SG_COST_COMMIT: memcpy(t->group[t->ngroup++ % GROUPS], t->copy, sizeof t->copy); return;
    case SG_COST_WAIT:
        if (first)
            wait_copies(t, &w->code->src[op->src].f->inst[w->code->src[op->src].inst]);
        return;
    case SG_COST_FENCE:
        if (first) {
            fence(p, t, p->costs->k->fence_trips);
            acquire(p);
        }
        return;
    case SG_COST_PRODUCT:
        if (op->fn == sg_mma)
            p->sum.tensor += profile_product(&w->code->mma[op->x]);
        break;
    default: break;
    }
    if (!first)
        return;
    int64_t at[CLOCKS], latency[CLOCKS] = {c->latency, c->latency};
    operands(p, w, t, c, at);
    if (c->slots[SG_PIPE_FP64])
        earlier(p->met.fp64, at);
    if (c->kind == SG_COST_MATRIX) { /* rows of 16 bytes */
        uint64_t addr[SG_LANES];
        bool known = op->fn == sg_ldmatrix || op->fn == sg_stmatrix;
        unsigned lanes = known ? op->n * 8u : 0;
        for (unsigned l = 0; l < lanes; l++)
            addr[l] = sg_address(w, op, l);
        unsigned passes = known ? sg_profile_banks(addr, lanes < SG_LANES ? (1u << lanes) - 1 : SG_ALL, 16, NULL) : 4;
        p->sum.shared_passes += passes;
        t->slots += passes - 1 < 8 ? passes - 1 : 8;
        latency[NEAR] = latency[FAR] = p->costs->k->matrix_hit + (passes > 4 ? passes - 4 : 0);
        later(at, t->shared_store);
    }
    if (c->branches)
        sg_profile_close(t);
    if (c->branches)
        operands(p, w, t, c, at);
    result(p, w, t, c, at, latency);
    for (unsigned k = 0; k < CLOCKS && c->branches; k++) /* it ends when its last instruction has begun */
        t->last[k] = at[k] + latency[k] - p->costs->k->fma_clocks;
    if (c->branches)
        sg_profile_close(t);
}

void sg_profile_run(struct sg_warp *w, const struct sg_op *op)
{
    struct sg_profiler *p = w->blk->follow;
    struct warp_time *t = &p->warp[w->index];
    const struct sg_op *first = w->code->op;
    while (op) {
        uint32_t n = p->costs->plain[op - first];
        if (n > 1 && p->steps + n <= MAX_STEPS && !t->waits && !t->stopped && t->same <= SPIN) {
            /* what they do and what they take have nothing to do with each other */
            const struct sg_op *from = op, *next;
            do {
                next = sg_step(w, op++);
            } while (next == op && op < from + n);
            sg_profile_plain(p, t, w->code, w->index, (uint32_t)(from - first), (uint32_t)(op - from));
            op = next;
            continue;
        }
        if (p->steps < MAX_STEPS)
            follow(p, w, op);
        op = sg_step(w, op);
    }
}

/* The sectors are put in order, to be compared with what a neighbour did. Returns the pages of DRAM where they lie. */
static uint64_t pages_of(struct sectors *s)
{
    uint32_t n = 0;
    uint64_t pages = 0;
    for (uint32_t i = 0; i < s->cap; i++)
        if (s->at[i])
            s->at[n++] = s->at[i];
    sg_profile_sort(s, n);
    for (uint32_t i = 0; i < n; i++)
        pages += !i || (s->at[i] - 1) / PAGE_SECTORS != (s->at[i - 1] - 1) / PAGE_SECTORS;
    return pages;
}

void sg_profile_block_end(struct sg_block *b)
{
    struct sg_profiler *p = b->follow;
    int64_t alone[CLOCKS] = {0}, fences = 0;
    for (uint32_t i = 0; i < b->nwarp; i++) {
        fences = p->warp[i].fences > fences ? p->warp[i].fences : fences;
        sg_profile_close(&p->warp[i]);
        later(alone, p->warp[i].clock);
    }
    p->sum.done_near = (uint64_t)sg_profile_asked(p, NEAR);
    p->sum.done_far = (uint64_t)sg_profile_asked(p, FAR);
    p->sum.fences += (uint64_t)fences;
    p->sum.alone_near = (uint64_t)(alone[NEAR] + sg_profile_queued(p)) + 1;
    p->sum.alone_far = (uint64_t)(alone[FAR] + sg_profile_queued(p)) + 1;
    p->sum.pages = pages_of(&p->seen[READ]);
    p->sum.write_pages = pages_of(&p->seen[WRITTEN]);
    p->sum.written = p->seen[WRITTEN].n;
    p->ended = true;
    b->follow = NULL;
}
