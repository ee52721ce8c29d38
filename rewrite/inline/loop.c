/* A guest whose elements are in a loop: its text becomes that of one round.
 *
 *     i = tid + ctaid * 256;  @(i >= n) bra END;         i = tid + ctaid * 256;  @(i >= n) bra END;
 *     HEAD:                                              i = i + round * stride;
 *     ld v, [x + 4i]; … st [y + 4i], w;                  mov v, element; … st [y + 4i], w;
 *     i = i + stride;  @(i < n) bra HEAD;                bra END
 *
 * Every register that the text carries from one round into the next must be an induction: each round adds the same
 * amount to it, a constant or a register that the loop does not change. In round r its value is r times that amount
 * more than at the loop's start. The add must be done in every round that is followed by another: it dominates each
 * branch back to the header. The loop may contain no other loop, and the guest may store nothing to global memory
 * outside it. The guest's trace shows that the thread makes this round, so no earlier round has left the loop.
 */
#include "rewrite/inline/inline-priv.h"

#include <stdlib.h>

#include "base/subject.h"

bool rw_inline_again(const struct rw_inline *n, const struct ptx_function *f, uint32_t inst)
{
    const struct ptx_inst *i = &f->inst[inst];
    if (!n->loop || !n->in_loop || !n->in_loop[inst] || i->op != PTX_OP_BRA)
        return false;
    for (uint32_t k = n->loop - 1; k < f->ninst && f->inst[k].op == PTX_OP_LABEL; k++)
        if (f->inst[k].opnd[0].label == i->opnd[0].label)
            return true;
    return false;
}

/* Mark the loop's blocks: all that reach a branch back to the header without passing the header. */
static void loop_mark(const struct ptx_cfg *c, uint32_t header, bool *in, uint32_t *stack)
{
    in[header] = true;
    for (uint32_t q = 0; q < c->block[header].npred; q++) {
        uint32_t p = c->block[header].pred[q];
        if (c->block[p].reachable && ptx_dominates(c, header, p))
            ptx_mark_loop(c, header, p, in, stack);
    }
}

struct defs {
    uint32_t reg, n, last, at;
};

static void on_def(uint32_t reg, bool write, void *user)
{
    struct defs *d = user;
    if (write && reg == d->reg) {
        d->n++;
        d->last = d->at;
    }
}

/* The definitions of the register in the loop, or in the whole text. */
static struct defs defs_of(const struct rw_inline *n, const struct ptx_function *f, uint32_t reg, bool everywhere)
{
    struct defs d = {.reg = reg};
    for (d.at = 0; d.at < f->ninst; d.at++)
        if ((everywhere || n->in_loop[d.at]) && f->inst[d.at].op > PTX_OP_OPAQUE)
            ptx_inst_regs(&f->inst[d.at], on_def, &d);
    return d;
}

/* Is the instruction done in every round that is followed by another? */
static bool always(const struct rw_inline *n, const struct ptx_function *f, const struct ptx_cfg *c, uint32_t inst)
{
    bool good = f->inst[inst].pred == PTX_NO_REG;
    for (uint32_t k = 0; k < f->ninst && good; k++)
        if (rw_inline_again(n, f, k))
            good = ptx_inst_dominates(c, inst, k);
    return good;
}

static bool is_induction(const struct rw_inline *n, const struct ptx_function *f, const struct ptx_cfg *c, uint32_t reg,
                         uint32_t *ret_add)
{
    static const uint8_t types[] = {PTX_S32, PTX_U32, PTX_S64, PTX_U64};
    struct defs d = defs_of(n, f, reg, false);
    if (d.n != 1 || !always(n, f, c, d.last))
        return false;
    const struct ptx_inst *i = &f->inst[d.last];
    if (i->op == PTX_OP_MOV && i->opnd[1].kind == PTX_O_REG && !i->nmod) {
        struct defs copy = defs_of(n, f, i->opnd[1].reg, true);
        if (copy.n != 1 || !n->in_loop[copy.last] || !always(n, f, c, copy.last))
            return false;
        d.last = copy.last;
        i = &f->inst[d.last];
    }
    bool whole = false;
    for (unsigned k = 0; k < sizeof types; k++)
        whole |= i->type[0] == types[k];
    if (i->op != PTX_OP_ADD || !whole || i->nmod || i->nopnd != 3 ||
        ptx_type_bytes(i->type[0]) != ptx_type_bytes(f->reg[reg].type))
        return false;
    if (i->opnd[1].kind != PTX_O_REG || i->opnd[1].reg != reg)
        return false;
    *ret_add = d.last;
    return i->opnd[2].kind == PTX_O_IMM ||
           (i->opnd[2].kind == PTX_O_REG && i->opnd[2].reg != reg && !defs_of(n, f, i->opnd[2].reg, false).n);
}

int rw_inline_loop(struct rw_cand *c, struct dt_arena *a, struct dt_err *e)
{
    struct rw_inline *n = c->in;
    const struct ptx_function *f = c->facts.body[n->guest].f;
    struct ptx_cfg cfg;
    if (!n->loop)
        return 0;
    int r = ptx_cfg_build(f, &cfg, e);
    if (r < 0)
        return r;
    bool *in = dt_new_array(a, bool, cfg.nblock + 1);
    uint32_t *stack = dt_new_array(a, uint32_t, cfg.nblock + 1);
    uint32_t *label = dt_new_array(a, uint32_t, f->nlabel + 1);
    n->in_loop = dt_new_array(&c->arena, bool, f->ninst + 1);
    n->induction = dt_new_array(&c->arena, struct rw_induction, f->nreg + 1);
    if (!in || !stack || !label || !n->in_loop || !n->induction) {
        ptx_cfg_done(&cfg);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    loop_mark(&cfg, cfg.block_of[n->loop - 1], in, stack);
    for (uint32_t k = 0; k < f->ninst; k++) {
        n->in_loop[k] = in[cfg.block_of[k]];
        if (f->inst[k].op == PTX_OP_LABEL)
            label[f->inst[k].opnd[0].label] = k;
    }
    for (uint32_t k = 0; k < f->ninst; k++) {
        const struct ptx_inst *i = &f->inst[k];
        if (i->op == PTX_OP_BRX_IDX ||
            (i->op == PTX_OP_BRA && n->in_loop[k] && label[i->opnd[0].label] <= k && !rw_inline_again(n, f, k)))
            rw_no(c, RW_NO_own_ways, "a loop of " DT_LAUNCH " has another one in it (PTX line %u)",
                  rw_launch_name(c, n->guest), i->line);
        if (i->op == PTX_OP_ST && rw_is_global_access(i) && !n->in_loop[k])
            rw_no(c, RW_NO_own_ways, DT_LAUNCH " stores (PTX line %u) outside of the loop that its elements are in",
                  rw_launch_name(c, n->guest), i->line);
    }
    ptx_cfg_done(&cfg);
    return 0;
}

static void on_set(uint32_t reg, bool write, void *user)
{
    bool *set = user;
    set[reg] |= write;
}

int rw_inline_carried(struct rw_cand *c, const bool *need, struct dt_err *e)
{
    struct rw_inline *n = c->in;
    const struct ptx_function *f = c->facts.body[n->guest].f;
    struct ptx_cfg cfg;
    struct ptx_live live;
    int r = ptx_cfg_build(f, &cfg, e);
    if (r < 0)
        return r;
    if ((r = ptx_live_build(f, &cfg, &live, e)) < 0) {
        ptx_cfg_done(&cfg);
        return r;
    }
    const uint64_t *at = live.in[cfg.block_of[n->loop - 1]];
    bool *set = dt_calloc((size_t)f->nreg + 1, sizeof *set);
    for (uint32_t k = 0; set && k < f->ninst; k++)
        if (n->in_loop[k] && f->inst[k].op > PTX_OP_OPAQUE)
            ptx_inst_regs(&f->inst[k], on_set, set);
    for (uint32_t reg = 0; set && reg < f->nreg && !n->no[RW_NO_own_ways]; reg++) {
        uint32_t add = 0, q = 0;
        if (!need[reg] || !set[reg] || !(at[reg / 64] >> reg % 64 & 1))
            continue;
        while (q < n->ninduction && n->induction[q].reg != reg)
            q++;
        if (q < n->ninduction)
            continue;
        if (is_induction(n, f, &cfg, reg, &add))
            n->induction[n->ninduction++] = (struct rw_induction){reg, add};
        else
            rw_no(c, RW_NO_own_ways, DT_LAUNCH " carries %s from one round of its loop to the next",
                  rw_launch_name(c, n->guest), f->reg[reg].name);
    }
    r = set ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    free(set);
    ptx_live_done(&live);
    ptx_cfg_done(&cfg);
    return r;
}
