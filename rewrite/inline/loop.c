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

#include "base/subject.h"

/* Is the instruction a branch to the next round? */
static bool leads_back(const struct rw_inline *n, const struct ptx_function *f, uint32_t inst)
{
    const struct ptx_inst *i = &f->inst[inst];
    if (!n->in_loop[inst] || i->op != PTX_OP_BRA)
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
        if (n->again[k])
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

static void on_set(uint32_t reg, bool write, void *user)
{
    struct rw_carry *carry = user;
    carry[reg].on |= write;
}

/* Which registers a round passes on to the next: they are set in the loop, and read before that. */
static int find_carried(struct rw_inline *n, const struct ptx_cfg *cfg, struct dt_err *e)
{
    const struct ptx_function *f = n->body[n->guest]->f;
    struct ptx_live live;
    int r = ptx_live_build(f, cfg, &live, e);
    if (r < 0)
        return r;
    const uint64_t *at = live.in[cfg->block_of[n->loop - 1]];
    for (uint32_t k = 0; k < f->ninst; k++)
        if (n->in_loop[k] && f->inst[k].op > PTX_OP_OPAQUE)
            ptx_inst_regs(&f->inst[k], on_set, n->carry);
    for (uint32_t reg = 0; reg < f->nreg; reg++) {
        struct rw_carry *x = &n->carry[reg];
        x->on = x->on && (at[reg / 64] >> reg % 64 & 1);
        x->steady = x->on && is_induction(n, f, cfg, reg, &x->add);
    }
    ptx_live_done(&live);
    return 0;
}

/* Mark what is in the loop, and what goes back to its begin. */
static int mark_text(struct rw_inline *n, struct rw_refusals *no, const struct ptx_cfg *cfg, struct dt_arena *a)
{
    const struct ptx_function *f = n->body[n->guest]->f;
    bool *in = dt_new_array(a, bool, cfg->nblock + 1);
    uint32_t *stack = dt_new_array(a, uint32_t, cfg->nblock + 1);
    uint32_t *label = dt_new_array(a, uint32_t, f->nlabel + 1);
    if (!in || !stack || !label)
        return DT_E_NOMEM;
    loop_mark(cfg, cfg->block_of[n->loop - 1], in, stack);
    for (uint32_t k = 0; k < f->ninst; k++) {
        n->in_loop[k] = in[cfg->block_of[k]];
        if (f->inst[k].op == PTX_OP_LABEL)
            label[f->inst[k].opnd[0].label] = k;
        n->again[k] = leads_back(n, f, k);
    }
    for (uint32_t k = 0; k < f->ninst; k++) {
        const struct ptx_inst *i = &f->inst[k];
        if (i->op == PTX_OP_BRX_IDX ||
            (i->op == PTX_OP_BRA && n->in_loop[k] && label[i->opnd[0].label] <= k && !n->again[k]))
            rw_no(no, RW_NO_own_ways, "a loop of " DT_LAUNCH " has another one in it (PTX line %u)", n->name[n->guest],
                  i->line);
        if (i->op == PTX_OP_ST && rw_is_global_access(i) && !n->in_loop[k])
            rw_no(no, RW_NO_own_ways, DT_LAUNCH " stores (PTX line %u) outside of the loop that its elements are in",
                  n->name[n->guest], i->line);
    }
    return 0;
}

int rw_inline_loop(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e)
{
    const struct ptx_function *f = n->body[n->guest]->f;
    struct ptx_cfg cfg;
    n->in_loop = dt_new_array(n->arena, bool, f->ninst + 1);
    n->again = dt_new_array(n->arena, bool, f->ninst + 1);
    n->carry = dt_new_array(n->arena, struct rw_carry, f->nreg + 1);
    n->induction = dt_new_array(n->arena, struct rw_induction, f->nreg + 1);
    if (!n->in_loop || !n->again || !n->carry || !n->induction)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (!n->loop)
        return 0;
    int r = ptx_cfg_build(f, &cfg, e);
    if (r < 0)
        return r;
    if (mark_text(n, no, &cfg, a) < 0)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0 && !no->any)
        r = find_carried(n, &cfg, e);
    ptx_cfg_done(&cfg);
    return r;
}
