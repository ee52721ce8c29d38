/* Warp collectives that some lanes of their warp may have left.
 *
 * A lane that has exited no longer counts for `shfl.sync` and its kin, whatever the mask says. A lane that branched to
 * the phase's end is still waited for, and waits itself at the next barrier. So a collective that names all 32 lanes
 * must not stand in the region of a branch that differs within a warp, nor under such a predicate. It names all lanes
 * if its mask is all ones or not known, or if it has none (matrix instructions). A collective whose mask names fewer
 * lanes was written for a divergent place: it is left alone where lanes meet again, but not where some may have left
 * the kernel, since they may be among those it names.
 *
 * Each register has one of these states, joined over all its definitions (`hi` bounds the value, UINT64_MAX: unknown):
 *   CONST v    known: immediates, scalar arguments, sizes of the launch
 *   MULT       the same for a whole warp, and a multiple of 32
 *   UNIFORM    the same for a whole warp
 *   LANE       the low five bits are the lane number, the others the same for a whole warp: %tid.x of warp-wide rows,
 *              i = block * 32 n + tid
 *   VARY       anything
 * What a shuffle gives all lanes from one of them is UNIFORM.
 * LANE >> 5, LANE & ~31 and LANE < 32 n are uniform: one warp a row, and loops that step by whole warps. What is
 * assigned in the region of a branch that differs within a warp is VARY. This is iterated to a fixpoint, as in vary.c,
 * whose regions are used here.
 */
#include "rewrite/facts/facts-priv.h"

#include <stdlib.h>
#include <string.h>

enum kind { NONE, CONST, MULT, UNIFORM, LANE, VARY };

struct value {
    enum kind k;
    uint64_t v, hi;
};

struct lanes {
    const struct rw_body *b;
    const struct ptx_function *f;
    struct ptx_cfg cfg;
    struct value *reg;
    bool *region, *mark;
    bool *left; /* blocks where lanes of the warp may be gone: behind a branch after which they do not all meet */
    uint32_t *stack;
    struct value out; /* of the instruction at hand */
    bool changed, worst;
};

static struct value of(enum kind k) { return (struct value){k, 0, UINT64_MAX}; }
static struct value constant(uint64_t v) { return (struct value){CONST, v, v}; }
static bool is_mult(struct value x) { return x.k == MULT || (x.k == CONST && x.v % 32 == 0); }
static bool is_uniform(struct value x) { return x.k == CONST || x.k == MULT || x.k == UNIFORM; }

static struct value lanes_join(struct value x, struct value y)
{
    if (x.k == NONE)
        return y;
    if (y.k == NONE || (x.k == y.k && x.v == y.v && x.hi == y.hi))
        return x;
    if (x.k == LANE && y.k == LANE)
        return of(LANE);
    if (is_mult(x) && is_mult(y))
        return of(MULT);
    return is_uniform(x) && is_uniform(y) ? of(UNIFORM) : of(VARY);
}

static struct value sreg(const struct rw_body *b, unsigned s, int comp)
{
    uint32_t warp_rows = b->block[0] % 32 == 0 || (b->block[1] == 1 && b->block[2] == 1);
    struct value v = of(UNIFORM);
    if (comp < 0 || comp > 2)
        return of(s == PTX_SR_LANEID ? LANE : VARY);
    switch (s) {
    case PTX_SR_NTID: return constant(b->block[comp]);
    case PTX_SR_NCTAID: return constant(b->grid[comp]);
    case PTX_SR_CTAID: v.hi = b->grid[comp] - 1; return b->grid[comp] == 1 ? constant(0) : v;
    case PTX_SR_TID:
        if (b->block[comp] == 1)
            return constant(0);
        v.k = comp == 0 ? (warp_rows ? LANE : VARY)
              : b->block[0] % 32 == 0 || (comp == 2 && (uint64_t)b->block[0] * b->block[1] % 32 == 0) ? UNIFORM
                                                                                                      : VARY;
        v.hi = b->block[comp] - 1;
        return v;
    default: return of(VARY);
    }
}

/* A scalar argument's value where `o` is all of it. */
static struct value param(const struct lanes *w, const struct ptx_inst *i)
{
    const struct ptx_opnd *o = &i->opnd[1];
    const struct dt_launch *l = w->b->step->launch;
    if (o->kind != PTX_O_ADDR || o->base_kind != PTX_O_VAR)
        return of(UNIFORM);
    for (uint32_t k = 0; k < w->f->nparam && k < l->narg; k++)
        if (w->f->param[k] == o->var) {
            unsigned size = ptx_type_bytes(i->type[0]);
            if (l->arg[k].kind != DT_ARG_SCALAR || o->off || i->vec > 1 || size != w->f->param[k]->bytes || size < 4)
                return of(UNIFORM);
            return constant(size == 4 ? (uint32_t)l->arg[k].bits : l->arg[k].bits);
        }
    return of(VARY); /* what a call returned */
}

static struct value lanes_operand(const struct lanes *w, const struct ptx_opnd *o)
{
    struct value v = of(UNIFORM);
    switch (o->kind) {
    case PTX_O_REG:
        return o->reg < w->f->nreg && !o->neg                      ? w->reg[o->reg]
               : o->reg < w->f->nreg && is_uniform(w->reg[o->reg]) ? v
                                                                   : of(VARY);
    case PTX_O_IMM: return constant(o->bits);
    case PTX_O_SREG: return sreg(w->b, o->sreg, o->comp);
    case PTX_O_ADDR:
        return o->base_kind == PTX_O_REG && o->reg < w->f->nreg && !is_uniform(w->reg[o->reg]) ? of(VARY) : v;
    case PTX_O_VEC:
        for (unsigned k = 0; k < o->n; k++)
            if (!is_uniform(lanes_operand(w, &o->elem[k])))
                return of(VARY);
        return v;
    default: return v;
    }
}

static struct value bounded(enum kind k, bool known, uint64_t hi)
{
    struct value v = of(k);
    if (known && hi < (1u << 31))
        v.hi = hi;
    return v;
}

static struct value lanes_sum(struct value x, struct value y)
{
    bool known = x.hi < (1u << 31) && y.hi < (1u << 31);
    if (x.k == CONST && y.k == CONST && known && x.v + y.v < (1u << 31))
        return constant(x.v + y.v);
    enum kind k = x.k == LANE && is_mult(y)        ? LANE
                  : y.k == LANE && is_mult(x)      ? LANE
                  : is_mult(x) && is_mult(y)       ? MULT
                  : is_uniform(x) && is_uniform(y) ? UNIFORM
                                                   : VARY;
    return bounded(k, known, x.hi + y.hi);
}

static struct value product(struct value x, struct value y)
{
    bool known = x.hi < (1u << 31) && y.hi < (1u << 31);
    if (x.k == CONST && y.k == CONST && known && x.v * y.v < (1u << 31))
        return constant(x.v * y.v);
    if (!is_uniform(x) || !is_uniform(y))
        return (x.k == CONST && x.v == 1) ? y : (y.k == CONST && y.v == 1) ? x : of(VARY);
    return bounded(is_mult(x) || is_mult(y) ? MULT : UNIFORM, known, x.hi * y.hi);
}

static struct value lanes_compare(const struct ptx_inst *i, struct value x, struct value y)
{
    if (is_uniform(x) && is_uniform(y))
        return of(UNIFORM);
    enum ptx_mod c = ptx_mod_of(i, PTX_MC_CMP);
    bool lo = ptx_has(i, PTX_M_LO), hi = ptx_has(i, PTX_M_HI);
    bool low = c == PTX_M_LT || c == PTX_M_GE || c == PTX_M_HS || lo; /* x < y or its opposite */
    bool high = c == PTX_M_GT || c == PTX_M_LE || c == PTX_M_LS || hi;
    if (ptx_type_is_float(i->type[0]) || low == high)
        return of(VARY);
    if (y.k == LANE) { /* the other way round */
        struct value t = x;
        x = y;
        y = t;
        bool b = low;
        low = high;
        high = b;
    }
    if (x.k != LANE)
        return of(VARY);
    return of((low && is_mult(y)) || (high && y.k == CONST && y.v % 32 == 31) ? UNIFORM : VARY);
}

static bool holds(const struct lanes *w, const struct ptx_inst *i, unsigned opnd, uint32_t below)
{
    const struct ptx_opnd *o = &i->opnd[opnd];
    uint64_t v = o->bits;
    if (o->kind == PTX_O_REG && (o->neg || !ptx_constant_before(w->f, &w->cfg, (uint32_t)(i - w->f->inst), o->reg, &v)))
        return false;
    return (o->kind == PTX_O_REG || o->kind == PTX_O_IMM) && (below ? (uint32_t)v < below : (uint32_t)v == UINT32_MAX);
}

/* shfl.sync.idx d|p, a, lane, 31, -1: all lanes get what one of them has, and p says that it is there */
static bool from_one_lane(const struct lanes *w, const struct ptx_inst *i)
{
    unsigned k = i->dst2 ? 2 : 1;
    return i->op == PTX_OP_SHFL && ptx_has(i, PTX_M_IDX) && i->pred == PTX_NO_REG && i->nopnd == k + 4 &&
           holds(w, i, k + 1, 32) && holds(w, i, k + 2, 32) && !holds(w, i, k + 2, 31) && holds(w, i, k + 3, 0);
}

static struct value evaluate(const struct lanes *w, const struct ptx_inst *i)
{
    const struct ptx_op_info *o = ptx_op_info(i->op);
    bool integer = i->ntype && !ptx_type_is_float(i->type[0]) && ptx_type_bytes(i->type[0]) >= 4;
    struct value x[4];
    unsigned n = 0;
    if (from_one_lane(w, i))
        return of(UNIFORM);
    if (i->op == PTX_OP_CALL || (o->flags & PTX_F_ATOMIC) || i->op == PTX_OP_SHFL || i->op == PTX_OP_MATCH ||
        i->op == PTX_OP_ACTIVEMASK)
        return of(VARY);
    if (i->op == PTX_OP_BAR_RED || i->op == PTX_OP_BARRIER_RED)
        return of(UNIFORM); /* the same for all that take part, whatever went in */
    /* and here, where all of the warp do: not where halves vote apart */
    if (i->op == PTX_OP_VOTE || i->op == PTX_OP_REDUX) {
        struct value m = i->nopnd ? lanes_operand(w, &i->opnd[i->nopnd - 1]) : of(VARY);
        return of(m.k == NONE ? NONE : m.k == CONST && (uint32_t)m.v == UINT32_MAX ? UNIFORM : VARY);
    }
    if (o->flags & PTX_F_CONVERGENT)
        return of(VARY);
    if (i->op == PTX_OP_LD && i->space == PTX_PARAM)
        return param(w, i);
    if ((o->flags & PTX_F_READS) && (i->space == PTX_LOCAL || i->space == PTX_GENERIC || i->space == PTX_PARAM_FUNC))
        return of(VARY);
    bool uniform = true;
    for (unsigned k = i->dst2 ? 2 : 1; k < i->nopnd; k++) {
        struct value v = lanes_operand(w, &i->opnd[k]);
        uniform &= is_uniform(v);
        if (n < 4)
            x[n++] = v;
        if (v.k == NONE)
            return of(NONE); /* not reached yet */
    }
    struct value rest = of(uniform ? UNIFORM : VARY);
    if (i->op == PTX_OP_SETP && n == 2)
        return lanes_compare(i, x[0], x[1]);
    if (!integer || !n || i->vec > 1)
        return rest;
    switch (i->op) {
    case PTX_OP_MOV: return i->opnd[0].kind == PTX_O_REG ? x[0] : rest;
    case PTX_OP_CVT:
        return i->ntype > 1 && !ptx_type_is_float(i->type[1]) && ptx_type_bytes(i->type[1]) >= 4 && !i->nmod ? x[0]
                                                                                                             : rest;
    case PTX_OP_ADD: return n == 2 && !i->nmod ? lanes_sum(x[0], x[1]) : rest;
    case PTX_OP_SUB: return n == 2 && x[0].k == LANE && is_mult(x[1]) ? of(LANE) : rest;
    case PTX_OP_MUL: return n == 2 && (ptx_has(i, PTX_M_LO) || ptx_has(i, PTX_M_WIDE)) ? product(x[0], x[1]) : rest;
    case PTX_OP_MAD: return n == 3 && ptx_has(i, PTX_M_LO) ? lanes_sum(product(x[0], x[1]), x[2]) : rest;
    case PTX_OP_SHL: return uniform && x[1].k == CONST && x[1].v >= 5 && x[1].v < 32 ? of(MULT) : rest;
    case PTX_OP_SHR:
        if (n != 2 || x[1].k != CONST)
            return rest;
        if (x[1].v >= 31 && x[1].v < 64 && x[0].hi < (1u << 31))
            return constant(0);
        if (x[0].k == CONST && x[0].v < (1u << 31))
            return constant(x[1].v < 32 ? x[0].v >> x[1].v : 0);
        return bounded(x[0].k == LANE && x[1].v >= 5 ? UNIFORM : rest.k, x[1].v < 32, x[0].hi >> (x[1].v & 31));
    case PTX_OP_DIV:
        return n == 2 && x[0].k == LANE && x[0].hi < (1u << 31) && is_mult(x[1]) && x[1].k == CONST ? of(UNIFORM)
                                                                                                    : rest;
    case PTX_OP_AND:
        for (int k = 0; k < 2 && n == 2; k++)
            if (x[k].k == LANE && x[1 - k].k == CONST) {
                if (x[1 - k].v % 32 == 31)
                    return bounded(LANE, true, x[1 - k].v);
                if (x[1 - k].v % 32 == 0)
                    return of(MULT);
            }
        return rest;
    default: return rest;
    }
}

static void lanes_on_reg(uint32_t reg, bool write, void *user)
{
    struct lanes *w = user;
    if (!write || reg >= w->f->nreg)
        return;
    struct value v = lanes_join(w->reg[reg], w->worst ? of(VARY) : w->out), *old = &w->reg[reg];
    if (old->k != NONE && v.hi != old->hi) /* a bound that grows is none */
        v.hi = UINT64_MAX;
    if (v.k == old->k && v.v == old->v && v.hi == old->hi)
        return;
    *old = v;
    w->changed = true;
}

static bool skipped(const struct ptx_inst *i)
{
    return i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS ||
           i->op == PTX_OP_CALLPROTO || i->op == PTX_OP_OPAQUE;
}

static bool pred_varies(const struct lanes *w, const struct ptx_inst *i)
{
    return i->pred != PTX_NO_REG && i->pred < w->f->nreg && w->reg[i->pred].k == VARY;
}

static void iterate(struct lanes *w)
{
    do {
        w->changed = false;
        for (uint32_t n = 0; n < w->cfg.nblock; n++) {
            const struct ptx_block *b = &w->cfg.block[n];
            if (!b->reachable)
                continue;
            for (uint32_t k = b->first; k <= b->last && k < w->f->ninst; k++) {
                const struct ptx_inst *i = &w->f->inst[k];
                if (skipped(i))
                    continue;
                w->worst = w->region[n] || pred_varies(w, i);
                w->out = evaluate(w, i);
                ptx_inst_regs(i, lanes_on_reg, w);
            }
            const struct ptx_inst *last = &w->f->inst[b->last];
            bool jump = !skipped(last) && (ptx_op_info(last->op)->flags & (PTX_F_BRANCH | PTX_F_TERMINATOR));
            if (jump && (pred_varies(w, last) ||
                         (last->op == PTX_OP_BRX_IDX && !is_uniform(lanes_operand(w, &last->opnd[0]))))) {
                w->changed |= rw_mark_region(&w->cfg, n, w->mark, w->stack, w->region);
                if (b->ipdom == UINT32_MAX)
                    rw_mark_region(&w->cfg, n, w->mark, w->stack, w->left);
            }
        }
    } while (w->changed);
}

/* Does the collective wait for lanes that may be gone? */
static bool names_all(const struct lanes *w, const struct ptx_inst *i)
{
    switch (i->op) {
    case PTX_OP_BAR_WARP_SYNC:
    case PTX_OP_SHFL:
    case PTX_OP_VOTE:
    case PTX_OP_MATCH:
    case PTX_OP_REDUX: {
        struct value m = i->nopnd ? lanes_operand(w, &i->opnd[i->nopnd - 1]) : of(VARY);
        return m.k != CONST || (uint32_t)m.v == UINT32_MAX;
    }
    case PTX_OP_BARRIER_CLUSTER_ARRIVE: /* each thread by itself: facts/meets.c */
    case PTX_OP_BARRIER_CLUSTER_WAIT: return false;
    default: return true;
    }
}

int rw_lanes(struct rw_body *body, struct dt_err *e)
{
    struct lanes w = {.b = body, .f = body->f};
    int r = 0;
    if (!body->convergent)
        return 0;
    if ((r = ptx_cfg_build(body->f, &w.cfg, e)) < 0)
        return r;
    w.reg = dt_calloc((size_t)w.f->nreg + 1, sizeof *w.reg);
    w.region = dt_calloc(w.cfg.nblock + 1, 1);
    w.left = dt_calloc(w.cfg.nblock + 1, 1);
    w.mark = dt_calloc(w.cfg.nblock + 1, 1);
    w.stack = dt_calloc(w.cfg.nblock + 1, sizeof *w.stack);
    if (!w.reg || !w.region || !w.left || !w.mark || !w.stack) {
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
        goto out;
    }
    iterate(&w);
    for (uint32_t n = 0; n < w.cfg.nblock && !body->find[RW_COLLECTIVE_VARYING].set; n++)
        for (uint32_t k = w.cfg.block[n].first; k <= w.cfg.block[n].last && k < w.f->ninst; k++) {
            const struct ptx_inst *i = &w.f->inst[k];
            if (skipped(i) || !w.cfg.block[n].reachable || !(w.region[n] || pred_varies(&w, i)))
                continue;
            bool call = i->op == PTX_OP_CALL && body->func_convergent;
            bool here = (ptx_op_info(i->op)->flags & PTX_F_CONVERGENT) && !rw_is_block_barrier(i->op) &&
                        (w.left[n] || names_all(&w, i));
            if (!call && !here)
                continue;
            body->find[RW_COLLECTIVE_VARYING] = (struct rw_find){true, i->line, ptx_op_info(i->op)->mnemonic};
            break;
        }
out:
    free(w.reg);
    free(w.region);
    free(w.left);
    free(w.mark);
    free(w.stack);
    ptx_cfg_done(&w.cfg);
    return r;
}
