/* What a register hangs on from thread to thread of a block: on nothing, on some bits of the thread's number, or nobody
 * knows.
 *
 *   shr.u32 %r2, %tid.x, 5;        bits 5, 6, …        the warp's number
 *   and.b32 %r3, %r2, 1;           bit 5               so warps 0, 2, 4 … have the same, and warps 1, 3, 5 …
 *   shl.b32 %r4, %r3, 6;           bit 5; six low bits are 0
 *   or.b32  %r5, %r4, %r1;         bit 5, if %r1 (made of %ctaid) is the same for all
 *
 * Flow-insensitive, to a fixpoint, as facts/vary.c: a register is the union over its definitions. What loads, atomics,
 * votes, elections and calls return is unknown; a shuffle from lane 0 to its whole warp loses the lane's bits. What is
 * assigned in the region of a branch hangs on what the branch hangs on (ptx_mark_region). So it holds for the values of
 * threads that have come to one place the same number of times, as behind a barrier of the block.
 *
 * A window, (%tid.x >> shift) & mask, is known as such, so that `and` and `shr` of it take bits away.
 *
 * rw_warps_value evaluates a register for one thread: by its one definition, the one definitions of what that reads,
 * and so on down to %tid.x and constants; of a shuffle from lane 0, for that lane.
 */
#include "rewrite/emit/warps.h"
#include "rewrite/emit/reach-priv.h"

#include <stdlib.h>
#include <string.h>

#include "ptx/flow.h"

#define DEEP 16 /* definitions, one behind the other */

struct state {
    bool seen, any, window;
    uint8_t shift;
    uint32_t mask; /* of a window */
    uint32_t bits;
    unsigned zeros;
};

struct rw_warps {
    const struct rw_body *b;
    const struct ptx_function *f;
    struct ptx_cfg cfg;
    struct state *reg;
    struct state *region; /* by basic block: of the branches in whose region it is */
    uint32_t *def, *ndef;
    uint32_t *slot; /* for rw_value_of: every register has one */
    bool *lane_0;   /* by instruction: a shuffle from lane 0 to its whole warp */
    const bool *without;
    bool changed;
};

static struct state one_value(unsigned zeros) { return (struct state){.seen = true, .zeros = zeros}; }
static struct state unknown(void) { return (struct state){.seen = true, .any = true}; }
static struct state window(unsigned shift, uint32_t mask)
{
    struct state s = {.seen = true, .window = mask != 0, .shift = (uint8_t)shift, .mask = mask, .bits = mask << shift};
    if (!mask)
        return one_value(64);
    s.zeros = (unsigned)__builtin_ctz(mask);
    return s;
}

static unsigned fewer(unsigned a, unsigned b) { return a < b ? a : b; }

/* What is made of both, in some way. */
static struct state warps_both(struct state a, struct state b)
{
    if (!a.seen || !b.seen)
        return a.seen ? a : b;
    return (struct state){.seen = true, .any = a.any || b.any, .bits = a.bits | b.bits};
}

/* One or the other. */
static struct state warps_join(struct state a, struct state b)
{
    if (!a.seen || !b.seen)
        return a.seen ? a : b;
    struct state s = warps_both(a, b);
    s.zeros = fewer(a.zeros, b.zeros);
    if (a.window && b.window && a.shift == b.shift && a.mask == b.mask && !s.any) {
        s.window = true;
        s.shift = a.shift;
        s.mask = a.mask;
    }
    return s;
}

static struct state of_number(uint64_t v) { return one_value(v ? (unsigned)__builtin_ctzll(v) : 64); }

static struct state of_sreg(const struct rw_body *b, unsigned sreg, int comp)
{
    bool line = b->block[1] == 1 && b->block[2] == 1;
    uint32_t most = 1;
    switch (sreg) {
    case PTX_SR_TID:
        if (comp >= 0 && comp < 3 && b->block[comp] == 1)
            return one_value(64);
        while (most < b->threads)
            most *= 2;
        return comp == 0 && line ? window(0, most - 1) : unknown();
    case PTX_SR_CTAID:
    case PTX_SR_NTID:
    case PTX_SR_NCTAID: return comp >= 0 && comp < 3 ? one_value(0) : unknown();
    default: return unknown();
    }
}

static struct state warps_operand(const struct rw_warps *w, const struct ptx_opnd *o)
{
    struct state s = {0};
    switch (o->kind) {
    case PTX_O_REG: return o->reg < w->f->nreg ? w->reg[o->reg] : unknown();
    case PTX_O_IMM: return o->imm_type == PTX_F32 || o->imm_type == PTX_F64 ? one_value(0) : of_number(o->bits);
    case PTX_O_SREG: return of_sreg(w->b, o->sreg, o->comp);
    case PTX_O_VAR: return one_value(0);
    case PTX_O_VEC:
        for (unsigned k = 0; k < o->n; k++)
            s = warps_both(s, warps_operand(w, &o->elem[k]));
        s.zeros = 0;
        s.window = false;
        return s;
    case PTX_O_SINK: return one_value(64);
    default: return unknown();
    }
}

/* Operand o of instruction `at` is this constant, or a register that holds it there. */
static bool is_constant(const struct rw_warps *w, uint32_t at, const struct ptx_opnd *o, uint32_t c)
{
    uint64_t v = o->bits;
    uint32_t def = o->kind == PTX_O_REG ? rw_warps_def(w, o->reg) : UINT32_MAX;
    if (o->kind == PTX_O_REG && !o->neg && def != UINT32_MAX && w->f->inst[def].op == PTX_OP_MOV &&
        w->f->inst[def].pred == PTX_NO_REG && w->f->inst[def].nopnd == 2)
        o = &w->f->inst[def].opnd[1];
    if (o->kind == PTX_O_REG)
        return !o->neg && ptx_constant_before(w->f, &w->cfg, at, o->reg, &v) && (uint32_t)v == c;
    return o->kind == PTX_O_IMM && (uint32_t)o->bits == c;
}

/* shfl.sync.idx d, a, 0, 31, -1: every lane gets lane 0's */
static bool is_from_lane_0(const struct rw_warps *w, uint32_t at)
{
    const struct ptx_inst *i = &w->f->inst[at];
    unsigned k = i->dst2 ? 2 : 1;
    return i->op == PTX_OP_SHFL && ptx_has(i, PTX_M_IDX) && i->pred == PTX_NO_REG && i->nopnd == k + 4 &&
           is_constant(w, at, &i->opnd[k + 1], 0) && is_constant(w, at, &i->opnd[k + 2], 31) &&
           is_constant(w, at, &i->opnd[k + 3], UINT32_MAX);
}

static struct state from_lane_0(const struct rw_warps *w, const struct ptx_inst *i)
{
    struct state s = w->lane_0[i - w->f->inst] ? warps_operand(w, &i->opnd[i->dst2 ? 2 : 1]) : unknown();
    if (s.bits & 31)
        s.window = false;
    s.bits &= ~UINT32_C(31);
    return s;
}

/* An instruction that only computes: its result, from what it reads. */
static struct state computed(const struct rw_warps *w, const struct ptx_inst *i)
{
    const struct ptx_opnd *o = i->opnd;
    struct state all = {0}, x = {0}, y = {0};
    bool whole =
        i->ntype && !ptx_type_is_float(i->type[0]) && i->type[0] != PTX_PRED && !i->dst2 && !ptx_has(i, PTX_M_SAT);
    unsigned bytes = i->ntype ? ptx_type_bytes(i->type[0]) : 0;
    for (unsigned k = i->dst2 ? 2 : 1; k < i->nopnd; k++)
        all = warps_both(all, warps_operand(w, &o[k]));
    all.seen = true;
    all.window = false;
    all.zeros = 0;
    if (!whole || i->nopnd < 2 || bytes < 4)
        return all;
    x = warps_operand(w, &o[1]);
    y = i->nopnd > 2 ? warps_operand(w, &o[2]) : one_value(0);
    bool number = i->nopnd == 3 && o[2].kind == PTX_O_IMM;
    if (!x.seen || !y.seen)
        return (struct state){0};
    switch (i->op) {
    case PTX_OP_MOV:
    case PTX_OP_CVTA: return i->nopnd == 2 && o[0].kind == PTX_O_REG && o[1].kind != PTX_O_VEC ? x : all;
    case PTX_OP_CVT:
        return i->ntype == 2 && !ptx_type_is_float(i->type[1]) && ptx_type_bytes(i->type[1]) >= 4 && !i->nmod ? x : all;
    case PTX_OP_SHR:
        if (x.window && number && o[2].bits < 32)
            return window(x.shift + (unsigned)o[2].bits, x.mask >> o[2].bits);
        return all;
    case PTX_OP_SHL:
        if (number && o[2].bits < 64)
            all.zeros = fewer(x.zeros + (unsigned)o[2].bits, 64);
        return all;
    case PTX_OP_AND:
        if (x.window && number)
            return window(x.shift, x.mask & (uint32_t)o[2].bits);
        all.zeros = x.zeros > y.zeros ? x.zeros : y.zeros;
        return all;
    case PTX_OP_OR:
    case PTX_OP_XOR:
    case PTX_OP_ADD:
    case PTX_OP_SUB: all.zeros = fewer(x.zeros, y.zeros); return all;
    case PTX_OP_MUL:
        if (!ptx_has(i, PTX_M_HI))
            all.zeros = fewer(x.zeros + y.zeros, 64);
        return all;
    case PTX_OP_MAD:
        if (!ptx_has(i, PTX_M_HI) && i->nopnd == 4)
            all.zeros = fewer(fewer(x.zeros + y.zeros, 64), warps_operand(w, &o[3]).zeros);
        return all;
    case PTX_OP_SELP: all.zeros = fewer(x.zeros, y.zeros); return all;
    default: return all;
    }
}

static bool loads_parameter(const struct rw_warps *w, const struct ptx_inst *i)
{
    if (i->op != PTX_OP_LD || i->space != PTX_PARAM || i->opnd[1].kind != PTX_O_ADDR ||
        i->opnd[1].base_kind != PTX_O_VAR)
        return false;
    for (uint32_t k = 0; k < w->f->nparam; k++)
        if (w->f->param[k] == i->opnd[1].var)
            return true;
    return false;
}

static struct state warps_result(const struct rw_warps *w, const struct ptx_inst *i)
{
    const unsigned never = PTX_F_READS | PTX_F_WRITES | PTX_F_ATOMIC | PTX_F_CALL | PTX_F_CONVERGENT | PTX_F_BARRIER |
                           PTX_F_SIDE | PTX_F_DST_READ;
    if (i->op == PTX_OP_SHFL)
        return from_lane_0(w, i);
    if (loads_parameter(w, i))
        return one_value(0);
    if (i->op <= PTX_OP_OPAQUE || (ptx_op_info(i->op)->flags & never) || ptx_reads_carry(i))
        return unknown();
    return computed(w, i);
}

struct warps_write {
    struct rw_warps *w;
    const struct ptx_inst *i;
    uint32_t at;
    struct state v;
    bool count;
};

static void on_write(uint32_t reg, bool write, void *user)
{
    struct warps_write *x = user;
    struct rw_warps *w = x->w;
    if (!write || reg >= w->f->nreg)
        return;
    if (x->count) {
        w->def[reg] = x->at;
        w->ndef[reg]++;
        return;
    }
    struct state old = w->reg[reg], v = warps_join(old, x->v);
    /* the second destination of a shuffle says whether the lane was there */
    if (x->i->op == PTX_OP_SHFL && x->i->dst2 && !(x->i->opnd[0].kind == PTX_O_REG && x->i->opnd[0].reg == reg))
        v = unknown();
    if (old.seen != v.seen || old.any != v.any || old.window != v.window || old.bits != v.bits ||
        old.zeros != v.zeros) {
        w->reg[reg] = v;
        w->changed = true;
    }
}

static bool warps_code(const struct ptx_inst *i)
{
    return i->op != PTX_OP_LABEL && i->op != PTX_OP_PRAGMA && i->op != PTX_OP_BRANCHTARGETS &&
           i->op != PTX_OP_CALLPROTO;
}

/* What the blocks between a branch and the place where its ways meet hang on. */
static void spread_region(struct rw_warps *w, uint32_t block, bool *mark, uint32_t *stack)
{
    const struct ptx_inst *last = &w->f->inst[w->cfg.block[block].last];
    struct state by = last->op == PTX_OP_OPAQUE || last->op == PTX_OP_BRX_IDX ? unknown()
                      : last->pred != PTX_NO_REG                              ? w->reg[last->pred]
                                                                              : one_value(0);
    if (!warps_code(last) || (w->without && w->without[w->cfg.block[block].last]) ||
        (last->op != PTX_OP_OPAQUE && !(ptx_op_info(last->op)->flags & (PTX_F_BRANCH | PTX_F_TERMINATOR))) ||
        (!by.any && !by.bits))
        return;
    memset(mark, 0, w->cfg.nblock * sizeof *mark);
    ptx_mark_region(&w->cfg, block, mark, stack);
    for (uint32_t b = 0; b < w->cfg.nblock; b++) {
        struct state *r = &w->region[b];
        if (!mark[b] || ((r->any || !by.any) && !(by.bits & ~r->bits)))
            continue;
        r->any |= by.any;
        r->bits |= by.bits;
        w->changed = true;
    }
}

static void warps_iterate(struct rw_warps *w, bool *mark, uint32_t *stack)
{
    do {
        w->changed = false;
        for (uint32_t n = 0; n < w->cfg.nblock; n++) {
            const struct ptx_block *b = &w->cfg.block[n];
            for (uint32_t k = b->first; k <= b->last && k < w->f->ninst && b->reachable; k++) {
                const struct ptx_inst *i = &w->f->inst[k];
                if (!warps_code(i))
                    continue;
                struct warps_write x = {.w = w, .i = i, .at = k, .v = warps_result(w, i)};
                struct state by = w->region[n];
                if (i->pred != PTX_NO_REG)
                    by = warps_both(by, w->reg[i->pred]);
                if (x.v.seen && (by.any || by.bits)) {
                    x.v.any |= by.any;
                    x.v.bits |= by.bits;
                    x.v.window = false;
                }
                if (x.v.seen)
                    ptx_inst_regs(i, on_write, &x);
            }
            if (b->reachable && b->last < w->f->ninst)
                spread_region(w, n, mark, stack);
        }
    } while (w->changed);
}

int rw_warps_new(struct dt_arena *a, const struct rw_body *b, const bool *without, struct rw_warps **ret,
                 struct dt_err *e)
{
    struct rw_warps *w = dt_new(a, struct rw_warps);
    uint32_t nreg = b->f->nreg + 1;
    if (!w)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    *w = (struct rw_warps){.b = b, .f = b->f, .without = without};
    int r = ptx_cfg_build(b->f, &w->cfg, e);
    if (r < 0)
        return r;
    w->reg = dt_new_array(a, struct state, nreg);
    w->region = dt_new_array(a, struct state, w->cfg.nblock + 1);
    w->def = dt_new_array(a, uint32_t, nreg);
    w->ndef = dt_new_array(a, uint32_t, nreg);
    w->slot = dt_new_array(a, uint32_t, nreg);
    w->lane_0 = dt_new_array(a, bool, b->f->ninst + 1);
    bool *mark = dt_new_array(a, bool, w->cfg.nblock + 1);
    uint32_t *stack = dt_new_array(a, uint32_t, w->cfg.nblock + 1);
    if (!w->reg || !w->region || !w->def || !w->ndef || !w->slot || !w->lane_0 || !mark || !stack) {
        ptx_cfg_done(&w->cfg);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    for (uint32_t k = 0; k < nreg; k++)
        w->slot[k] = k + 1;
    for (uint32_t k = 0; k < b->f->ninst; k++)
        if (b->f->inst[k].op != PTX_OP_OPAQUE && warps_code(&b->f->inst[k]))
            ptx_inst_regs(&b->f->inst[k], on_write, &(struct warps_write){.w = w, .at = k, .count = true});
    for (uint32_t k = 0; k < b->f->ninst; k++)
        w->lane_0[k] = w->cfg.block[w->cfg.block_of[k]].reachable && is_from_lane_0(w, k);
    warps_iterate(w, mark, stack);
    ptx_cfg_done(&w->cfg);
    *ret = w;
    return 0;
}

struct rw_spread rw_warps_of(const struct rw_warps *w, const struct ptx_opnd *o)
{
    struct ptx_opnd base = *o;
    if (o->kind == PTX_O_ADDR) {
        base.kind = o->base_kind == PTX_O_REG ? PTX_O_REG : PTX_O_VAR;
        base.comp = -1;
    }
    struct state s = warps_operand(w, &base);
    if (o->kind == PTX_O_ADDR && o->off)
        s.zeros = fewer(s.zeros, (unsigned)__builtin_ctzll((uint64_t)o->off));
    return (struct rw_spread){s.any || !s.seen, s.bits, s.zeros};
}

struct rw_spread rw_warps_region(const struct rw_warps *w, uint32_t block)
{
    return (struct rw_spread){w->region[block].any, w->region[block].bits, 0};
}

uint32_t rw_warps_def(const struct rw_warps *w, uint32_t reg)
{
    return reg < w->f->nreg && w->ndef[reg] == 1 ? w->def[reg] : UINT32_MAX;
}

struct warps_need {
    uint32_t reg[8];
    unsigned n;
};

static void on_need(uint32_t reg, bool write, void *user)
{
    struct warps_need *x = user;
    if (!write && x->n < 8)
        x->reg[x->n++] = reg;
}

static bool value_in(const struct rw_warps *w, uint32_t reg, uint32_t tid, unsigned deep, uint64_t *ret);

static bool evaluate(const struct rw_warps *w, struct rw_walk *walk, struct rw_path *p, uint32_t reg, unsigned deep)
{
    uint32_t at = rw_warps_def(w, reg);
    struct warps_need need = {.n = 0};
    if (at == UINT32_MAX || deep > DEEP)
        return false;
    const struct ptx_inst *i = &w->f->inst[at];
    if (w->lane_0[at] && i->opnd[0].kind == PTX_O_REG && i->opnd[0].reg == reg) { /* as lane 0 has it */
        const struct ptx_opnd *o = &i->opnd[i->dst2 ? 2 : 1];
        uint64_t v;
        if (o->kind != PTX_O_REG || o->neg || !value_in(w, o->reg, walk->tid[0] & ~UINT32_C(31), deep + 1, &v))
            return false;
        p->reg[reg] = (struct rw_value){v, 0};
        return true;
    }
    if (i->op <= PTX_OP_OPAQUE || i->pred != PTX_NO_REG || i->dst2 || i->op == PTX_OP_LD)
        return false;
    ptx_inst_regs(i, on_need, &need);
    for (unsigned k = 0; k < need.n; k++)
        if (p->reg[need.reg[k]].mem == RW_REACH_UNKNOWN && !evaluate(w, walk, p, need.reg[k], deep + 1))
            return false;
    p->reg[reg] = rw_value_of(walk, p, i);
    return !p->reg[reg].mem;
}

static bool value_in(const struct rw_warps *w, uint32_t reg, uint32_t tid, unsigned deep, uint64_t *ret)
{
    struct rw_walk *walk = dt_calloc(1, sizeof *walk);
    struct rw_path p = {.reg = dt_calloc(w->f->nreg + 1, sizeof *p.reg)};
    bool ok = walk && p.reg && reg < w->f->nreg && w->b->block[1] == 1 && w->b->block[2] == 1;
    if (ok) {
        walk->b = w->b;
        walk->f = w->f;
        walk->slot = w->slot;
        walk->tid[0] = tid;
        for (uint32_t k = 0; k < w->f->nreg; k++)
            p.reg[k] = rw_value_unknown();
        ok = evaluate(w, walk, &p, reg, deep);
        if (ok)
            *ret = p.reg[reg].v;
    }
    free(walk);
    free(p.reg);
    return ok;
}

bool rw_warps_value(const struct rw_warps *w, uint32_t reg, uint32_t tid, uint64_t *ret)
{
    return value_in(w, reg, tid, 0, ret);
}
