/* Barriers that some threads of a block might not reach.
 *
 * Joined bodies turn `ret` into a branch and bar.sync into barrier.sync. On the device a thread that has exited no
 * longer counts for `bar.sync 0`; a thread that branched past it would still be waited for. So a barrier must not be
 * reachable from one side only of a branch (or predicated exit) that differs between threads of the block.
 *
 * Flow-insensitive: a register is *varying* if it may differ between threads of a block. Sources: thread and lane
 * numbers, atomics, warp results, local memory, call results, loads at a varying address. A load at the same address by
 * all threads gives the same value, as the original has no race (gate/verify.c runs it under the detector). Values
 * assigned in the region of a varying branch (its successors up to the immediate post-dominator, loops included) vary
 * too. Iterated to a fixpoint. Then: a block barrier in the region of a varying branch, or under a varying predicate,
 * is a find.
 *
 * Barriers with a count are left alone: exits never release those, so the original reaches them with just that many
 * threads, and so does the joined kernel (its own phases with fewer threads are made of them).
 *
 * A dimension of the block that is 1 makes its thread number the constant 0.
 */
#include "rewrite/facts/facts-priv.h"

#include <stdlib.h>
#include <string.h>

struct vary {
    const struct rw_body *b;
    const struct ptx_function *f;
    struct ptx_cfg cfg;
    bool *reg;       /* varying registers */
    bool *region;    /* per basic block: inside the region of a varying branch */
    uint32_t *stack; /* of blocks */
    bool *mark;
    bool changed;
};

struct io {
    struct vary *v;
    bool any;  /* a varying register is read */
    bool make; /* mark what is written */
};

static void vary_on_reg(uint32_t reg, bool write, void *user)
{
    struct io *io = user;
    if (reg >= io->v->f->nreg)
        return;
    if (!write && !io->make && io->v->reg[reg])
        io->any = true;
    if (write && io->make && !io->v->reg[reg])
        io->v->reg[reg] = io->v->changed = true;
}

static bool varying_opnd(const struct vary *v, const struct ptx_opnd *o)
{
    if (o->kind == PTX_O_VEC) {
        for (unsigned k = 0; k < o->n; k++)
            if (varying_opnd(v, &o->elem[k]))
                return true;
        return false;
    }
    if (o->kind != PTX_O_SREG)
        return false;
    switch (o->sreg) {
    case PTX_SR_TID:
        if (o->comp >= 0 && o->comp < 3)
            return v->b->block[o->comp] > 1;
        return o->comp != 3;
    case PTX_SR_NTID:
    case PTX_SR_CTAID:
    case PTX_SR_NCTAID:
    case PTX_SR_CLUSTERID:
    case PTX_SR_NCLUSTERID:
    case PTX_SR_CLUSTER_CTAID:
    case PTX_SR_CLUSTER_NCTAID:
    case PTX_SR_CLUSTER_CTARANK:
    case PTX_SR_CLUSTER_NCTARANK: return false;
    default: return true;
    }
}

static bool source_varies(const struct vary *v, const struct ptx_inst *i)
{
    if (i->op == PTX_OP_OPAQUE || i->op == PTX_OP_CALL)
        return true;
    const struct ptx_op_info *o = ptx_op_info(i->op);
    if (i->op == PTX_OP_BAR_RED || i->op == PTX_OP_BARRIER_RED)
        return false; /* the same for the whole block, whatever went in; the predicate is looked at below */
    if (o->flags & (PTX_F_ATOMIC | PTX_F_CONVERGENT))
        return true;
    if (o->flags & PTX_F_READS) {
        if (i->space == PTX_LOCAL || i->space == PTX_GENERIC || i->space == PTX_PARAM_FUNC)
            return true;
        const struct ptx_opnd *p = o->addr_opnd >= 0 && o->addr_opnd < i->nopnd ? &i->opnd[o->addr_opnd] : NULL;
        if (i->space == PTX_PARAM && p && p->kind == PTX_O_ADDR && p->base_kind == PTX_O_VAR) {
            for (uint32_t k = 0; k < v->f->nparam; k++)
                if (v->f->param[k] == p->var)
                    return false;
            return true; /* what a call returned */
        }
    }
    for (unsigned k = 0; k < i->nopnd; k++)
        if (varying_opnd(v, &i->opnd[k]))
            return true;
    return false;
}

static bool reads_varying(struct vary *v, const struct ptx_inst *i)
{
    struct io io = {.v = v};
    ptx_inst_regs(i, vary_on_reg, &io);
    return io.any;
}

static bool branch_varies(struct vary *v, const struct ptx_inst *i)
{
    if (i->op == PTX_OP_BRX_IDX)
        return reads_varying(v, i);
    return i->pred != PTX_NO_REG && v->reg[i->pred];
}

static bool ends_block(const struct ptx_inst *i)
{
    return i->op != PTX_OP_OPAQUE && (ptx_op_info(i->op)->flags & (PTX_F_BRANCH | PTX_F_TERMINATOR));
}

bool rw_mark_region(const struct ptx_cfg *cfg, uint32_t from, bool *mark, uint32_t *stack, bool *region)
{
    bool changed = false;
    memset(mark, 0, cfg->nblock);
    ptx_mark_region(cfg, from, mark, stack);
    for (uint32_t b = 0; b < cfg->nblock; b++) {
        changed |= mark[b] && !region[b];
        region[b] |= mark[b];
    }
    return changed;
}

static void iterate(struct vary *v)
{
    const struct ptx_function *f = v->f;
    do {
        v->changed = false;
        for (uint32_t n = 0; n < v->cfg.nblock; n++) {
            const struct ptx_block *b = &v->cfg.block[n];
            if (!b->reachable)
                continue;
            for (uint32_t k = b->first; k <= b->last && k < f->ninst; k++) {
                const struct ptx_inst *i = &f->inst[k];
                if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS ||
                    i->op == PTX_OP_CALLPROTO)
                    continue;
                bool red = i->op == PTX_OP_BAR_RED || i->op == PTX_OP_BARRIER_RED;
                bool guard = i->pred != PTX_NO_REG && v->reg[i->pred];
                if (v->region[n] || source_varies(v, i) || (red ? guard : reads_varying(v, i))) {
                    struct io io = {.v = v, .make = true};
                    ptx_inst_regs(i, vary_on_reg, &io);
                }
            }
            const struct ptx_inst *last = &f->inst[b->last];
            if (ends_block(last) && branch_varies(v, last))
                v->changed |= rw_mark_region(&v->cfg, n, v->mark, v->stack, v->region);
        }
    } while (v->changed);
}

/* A barrier for all threads: one without a count. */
static bool is_barrier(const struct ptx_inst *i)
{
    if (i->op == PTX_OP_BAR_RED || i->op == PTX_OP_BARRIER_RED)
        return i->nopnd < 4;
    return (i->op == PTX_OP_BAR_SYNC || i->op == PTX_OP_BARRIER_SYNC) && i->nopnd < 2;
}

/* Which registers vary, and where threads go different ways. */
static int vary_open(struct vary *v, struct dt_err *e)
{
    int r = ptx_cfg_build(v->f, &v->cfg, e);
    if (r < 0)
        return r;
    v->reg = dt_calloc(v->f->nreg + 1, 1);
    v->region = dt_calloc(v->cfg.nblock + 1, 1);
    v->mark = dt_calloc(v->cfg.nblock + 1, 1);
    v->stack = dt_calloc(v->cfg.nblock + 1, sizeof *v->stack);
    if (!v->reg || !v->region || !v->mark || !v->stack)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    iterate(v);
    return 0;
}

static void vary_done(struct vary *v)
{
    free(v->reg);
    free(v->region);
    free(v->mark);
    free(v->stack);
    ptx_cfg_done(&v->cfg);
}

int rw_vary(struct rw_body *body, struct dt_err *e)
{
    struct vary v = {.b = body, .f = body->f};
    if (!body->barriers)
        return 0;
    int r = vary_open(&v, e);
    for (uint32_t n = 0; r == 0 && n < v.cfg.nblock; n++)
        for (uint32_t k = v.cfg.block[n].first; k <= v.cfg.block[n].last && k < v.f->ninst; k++) {
            const struct ptx_inst *i = &v.f->inst[k];
            if (!is_barrier(i) || !v.cfg.block[n].reachable)
                continue;
            bool guard = i->pred != PTX_NO_REG && v.reg[i->pred];
            if ((v.region[n] || guard) && !body->find[RW_BARRIER_VARYING].set)
                body->find[RW_BARRIER_VARYING] = (struct rw_find){true, i->line, ptx_op_info(i->op)->mnemonic};
        }
    vary_done(&v);
    return r;
}

int rw_varying_branches(const struct rw_body *body, bool *ret, struct dt_err *e)
{
    struct vary v = {.b = body, .f = body->f};
    int r = vary_open(&v, e);
    for (uint32_t n = 0; r == 0 && n < v.cfg.nblock; n++) {
        const struct ptx_inst *last = &v.f->inst[v.cfg.block[n].last];
        if (v.cfg.block[n].reachable && ends_block(last))
            ret[v.cfg.block[n].last] = branch_varies(&v, last);
    }
    vary_done(&v);
    return r;
}
