/* Steady launches: those that execute the same instructions at the same addresses whatever memory holds.
 *
 * `y[i] = a * x[i]` under `if (i < n)` is steady; under `if (x[i] > 0)` it is not. What a steady launch costs in the
 * software device's model (device.h: dev_cost) is a function of kernel, geometry and arguments, so that a figure found
 * on one input holds for all. A launch is steady where the taint pass (taint.c) finds untainted
 *     every guard of an instruction and every branch, so that the same threads execute the same instructions;
 *     every address, in whatever memory, and the number of bytes of a copy;
 *     all operands of barriers, and of instructions that few kernels have.
 * Calls, and instructions that ops.def does not know, make a launch count as not steady. The content of constant
 * buffers counts as data here: whoever keeps a figure need not know it.
 *
 * A launch touches the same bytes where that holds of what touches memory, synchronises or ends a thread. What only
 * computes may hang on data: a branch in an error function, or the call of one. It races, or reads what nothing has
 * written, whatever memory holds, or never; but what it costs is a matter of its data.
 *
 * How often a thread asks whether an mbarrier's phase is over is a matter of time, and so is each answer. A loop that
 * does nothing but ask, and is left by the answer alone, counts as touching the same: behind it the phase is over,
 * however often it went round. A launch that asks in another way touches who knows what.
 */
#include <stdlib.h>

#include "analysis/taint/taint-priv.h"
#include "base/alloc.h"

struct looked {
    const struct ana_tainted *t;
    bool data;
};

static void steady_look(uint32_t r, bool write, void *user)
{
    struct looked *x = user;
    x->data |= !write && x->t->reg[r] == DATA;
}

/* May the instruction take data as an operand? */
static bool value_only(const struct ptx_inst *i, const struct ptx_op_info *op)
{
    switch (i->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU:
    case PTX_OP_ST:
    case PTX_OP_ATOM:
    case PTX_OP_RED:
    case PTX_OP_SHFL:
    case PTX_OP_VOTE:
    case PTX_OP_STMATRIX:
    case PTX_OP_MMA: return true;
    default:
        return !(op->flags &
                 (PTX_F_READS | PTX_F_WRITES | PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_BRANCH | PTX_F_SIDE));
    }
}

static bool asks(const struct ptx_inst *i)
{
    return i->op == PTX_OP_MBARRIER_TRY_WAIT || i->op == PTX_OP_MBARRIER_TEST_WAIT;
}

/* Does what it does hang on no data, if it is no question about an mbarrier? */
static bool steady_operands(const struct ana_tainted *t, const struct ptx_inst *i)
{
    const struct ptx_op_info *op = ptx_op_info(i->op);
    struct looked x = {t, false};
    if (ptx_is_opaque(i) || op->flags & PTX_F_CALL)
        return false;
    if (i->pred != PTX_NO_REG && t->reg[i->pred] == DATA)
        return false;
    if (i->op == PTX_OP_WGMMA_MMA_ASYNC) { /* values are vectors; descriptors and the scale are not */
        for (unsigned k = 0; k < i->nopnd; k++)
            x.data |= i->opnd[k].kind == PTX_O_REG && t->reg[i->opnd[k].reg] == DATA;
    } else if (!value_only(i, op)) {
        ptx_inst_regs(i, steady_look, &x);
    }
    for (unsigned k = 0; k < i->nopnd; k++)
        if (i->opnd[k].kind == PTX_O_ADDR && i->opnd[k].base_kind == PTX_O_REG)
            x.data |= t->reg[i->opnd[k].reg] == DATA;
    return !x.data;
}

static bool steady_inst(const struct ana_tainted *t, const struct ptx_inst *i)
{
    return !asks(i) && steady_operands(t, i);
}

/* Does the instruction touch memory, meet other threads, or end the thread? */
static bool touching(const struct ptx_inst *i, const struct ptx_op_info *op)
{
    unsigned acts = PTX_F_READS | PTX_F_WRITES | PTX_F_ATOMIC | PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_SIDE;
    return (op->flags & acts && i->space != PTX_PARAM) || i->op == PTX_OP_EXIT || i->op == PTX_OP_RET ||
           i->op == PTX_OP_TRAP || i->op == PTX_OP_BRKPT;
}

/* ---- loops that wait for an mbarrier ----------------------------------------------------------------------------- */

struct defined {
    const struct ptx_inst *wait;
    bool any;
};

static void defined_look(uint32_t r, bool write, void *user)
{
    struct defined *x = user;
    for (unsigned k = 1; write && k < x->wait->nopnd; k++) {
        const struct ptx_opnd *o = &x->wait->opnd[k];
        x->any |= (o->kind == PTX_O_REG || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG)) && o->reg == r;
    }
}

/* May what the wait asks for change where data decides what runs? */
static bool wait_changes(const struct ana_tainted *t, const struct ptx_function *f, const struct ptx_inst *wait)
{
    struct defined x = {wait, false};
    for (uint32_t i = 0; i < f->ninst && !x.any; i++)
        if (t->block[t->cfg.block_of[i]] == DATA)
            ptx_inst_regs(&f->inst[i], defined_look, &x);
    return x.any;
}

/* Is there nothing in the block but its labels, its last branch and instruction `at`? */
static bool nothing_else(const struct ptx_function *f, const struct ptx_block *k, uint32_t at)
{
    bool alone = f->inst[k->last].op == PTX_OP_BRA;
    for (uint32_t n = k->first; n < k->last && alone; n++)
        alone = n == at || f->inst[n].op == PTX_OP_LABEL || f->inst[n].op == PTX_OP_PRAGMA;
    return alone;
}

/* Is block b reached or not by data at another block's end? 1, 0; negative: out of memory. */
static int decided_elsewhere(const struct ana_tainted *t, const struct ptx_function *f, uint32_t b)
{
    const struct ptx_cfg *c = &t->cfg;
    dt_free_ bool *mark = dt_calloc((size_t)c->nblock + 1, sizeof *mark);
    dt_free_ uint32_t *stack = dt_calloc((size_t)c->nblock + 1, sizeof *stack);
    if (!mark || !stack)
        return DT_E_NOMEM;
    for (uint32_t x = 0; x < c->nblock; x++) {
        const struct ptx_block *k = &c->block[x];
        if (x == b || k->nsucc < 2 || k->last >= f->ninst || k->first > k->last)
            continue;
        const struct ptx_inst *i = &f->inst[k->last];
        if (i->op != PTX_OP_BRX_IDX && (i->pred == PTX_NO_REG || t->reg[i->pred] != DATA))
            continue;
        ptx_mark_region(c, x, mark, stack);
        if (mark[b])
            return 1;
    }
    return 0;
}

/* Is the question `at` the only thing that a loop does, and its answer all that ends the loop? The loop is its block,
 * or that and one that only leads back to it. 1, 0; negative: out of memory. */
static int asks_in_loop(const struct ana_tainted *t, const struct ptx_function *f, uint32_t at)
{
    const struct ptx_inst *i = &f->inst[at];
    uint32_t b = t->cfg.block_of[at];
    const struct ptx_block *k = &t->cfg.block[b], *s;
    if (i->pred != PTX_NO_REG || i->opnd[0].kind != PTX_O_REG || k->nsucc != 2 || k->last + 1 >= f->ninst ||
        !nothing_else(f, k, at) || f->inst[k->last].pred != i->opnd[0].reg)
        return 0;
    /* the ways of "not yet" and "over" */
    uint32_t falls = t->cfg.block_of[k->last + 1], taken = k->succ[k->succ[0] == falls],
             stay = f->inst[k->last].pred_neg ? taken : falls, leave = f->inst[k->last].pred_neg ? falls : taken;
    s = &t->cfg.block[stay];
    bool back = stay == b || (s->nsucc == 1 && s->succ[0] == b && s->last < f->ninst && nothing_else(f, s, s->last));
    if (falls == taken || (k->succ[0] != falls && k->succ[1] != falls) || !back || leave == b ||
        !steady_operands(t, i) || wait_changes(t, f, i))
        return 0;
    int r = decided_elsewhere(t, f, b);
    return r < 0 ? r : !r;
}

/* The same of what touches memory. 1, 0; negative: out of memory. */
static int same_inst(const struct ana_tainted *t, const struct ptx_function *f, uint32_t at)
{
    const struct ptx_inst *i = &f->inst[at];
    const struct ptx_op_info *op = ptx_op_info(i->op);
    if (i->op != PTX_OP_OPAQUE && op->flags & PTX_F_CALL)
        return ana_only_computes(i);
    if (ptx_is_opaque(i) || !touching(i, op))
        return !ptx_is_opaque(i);
    return asks(i) ? asks_in_loop(t, f, at) : t->block[t->cfg.block_of[at]] != DATA && steady_inst(t, i);
}

int ana_steady(const struct dev_prog *p, uint32_t launch, bool *ret, bool *ret_same, struct dt_err *e)
{
    const struct dt_launch *l = &p->graph->launch[launch];
    const struct ptx_function *f = p->step[launch].entry;
    struct ana_tainted t;
    *ret = l->kind != DT_KERNEL;
    if (ret_same)
        *ret_same = *ret;
    if (*ret)
        return 0;
    bool *pointer = dt_calloc((size_t)l->narg + 1, sizeof *pointer);
    if (!pointer)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < l->narg; i++)
        pointer[i] = arg_buffers(&l->arg[i], NULL, 0) > 0;
    struct ana_taint_in in = {.pointer_param = pointer, .nparam = l->narg, .arg = l->arg};
    int rc = ana_taint_run(f, &in, &t, e);
    free(pointer);
    if (rc)
        return rc;
    bool steady = !t.sites.opaque;
    for (uint32_t i = 0; steady && i < f->ninst; i++)
        steady = t.block[t.cfg.block_of[i]] != DATA && steady_inst(&t, &f->inst[i]);
    int same = ret_same && (steady || !t.sites.opaque);
    for (uint32_t i = 0; same == 1 && !steady && i < f->ninst; i++)
        same = same_inst(&t, f, i);
    ana_tainted_done(&t);
    *ret = steady;
    if (ret_same)
        *ret_same = same == 1;
    return same < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}
