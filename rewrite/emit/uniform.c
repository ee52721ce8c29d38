/* Which instructions of a kernel the threads of one block may come to: constants are followed through the kernel, as a
 * compiler does that propagates them along the branches that they leave open.
 *
 *   known      the block's numbers, geometry, scalar arguments, and what integer instructions make of them
 *              (reach-values.c). Thread numbers, loaded data, pointers and all else are not
 *   a register has one value for the whole kernel: that which all of its writes that may be done agree on. So no order
 *              of instructions matters, and loops need no rounds
 *   a branch   whose guard is known leads one way; what no way leads to is not done, and writes nothing
 *   the end    nothing changes any more. Values only ever go from "none yet" to a number to "unknown", so it comes
 *              soon. A guard that is then made of registers that nobody writes is unknown
 *
 * What is left out is left out for every thread of the block, whatever memory holds; what stays may still not be done.
 */
#include "rewrite/emit/uniform.h"
#include "rewrite/emit/reach-priv.h"

#include <stdlib.h>
#include <string.h>

#include "ptx/flow.h"

struct rw_uniform {
    struct rw_walk w;
    struct rw_body body; /* what the values need of it */
    struct rw_path path;
    struct ptx_cfg cfg;
    uint32_t *target; /* by label: its basic block */
    bool *some;       /* by register: it has a value */
    bool *reached;    /* by basic block */
    uint8_t *done;
    uint32_t wanted; /* instructions that make values that matter */
    bool changed;
};

struct uniform_mark {
    struct rw_uniform *u;
    bool wanted, more;
};

static void uniform_want(uint32_t reg, bool write, void *user)
{
    struct uniform_mark *m = user;
    if (!write && reg < m->u->w.f->nreg && !m->u->w.slot[reg])
        m->u->w.slot[reg] = reg + 1, m->more = true;
}

static void uniform_makes(uint32_t reg, bool write, void *user)
{
    struct uniform_mark *m = user;
    m->wanted |= write && reg < m->u->w.f->nreg && m->u->w.slot[reg];
}

static bool uniform_code(const struct ptx_inst *i)
{
    return i->op != PTX_OP_LABEL && i->op != PTX_OP_PRAGMA && i->op != PTX_OP_BRANCHTARGETS &&
           i->op != PTX_OP_CALLPROTO && i->op != PTX_OP_OPAQUE;
}

/* The registers that guards are made of. */
static void uniform_slots(struct rw_uniform *u)
{
    const struct ptx_function *f = u->w.f;
    struct uniform_mark m = {.u = u};
    for (uint32_t n = 0; n < f->ninst; n++) {
        const struct ptx_inst *i = &f->inst[n];
        if (uniform_code(i) && i->pred != PTX_NO_REG)
            uniform_want(i->pred, false, &m);
        if (i->op == PTX_OP_SELP && i->nopnd == 4 && i->opnd[3].kind == PTX_O_REG)
            uniform_want(i->opnd[3].reg, false, &m);
    }
    do {
        m.more = false;
        u->wanted = 0;
        for (uint32_t n = f->ninst; n-- > 0;) {
            m.wanted = false;
            if (uniform_code(&f->inst[n]))
                ptx_inst_regs(&f->inst[n], uniform_makes, &m);
            u->wanted += m.wanted;
            if (m.wanted)
                ptx_inst_regs(&f->inst[n], uniform_want, &m);
        }
    } while (m.more);
}

int rw_uniform_new(struct dt_arena *a, const struct ptx_function *f, const struct dev_step *step,
                   struct rw_uniform **ret, struct dt_err *e)
{
    struct rw_uniform *u = dt_new_array(a, struct rw_uniform, 1);
    if (!u)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    *u = (struct rw_uniform){.body = {.f = f, .step = step}, .w = {.f = f, .whole = true}};
    u->w.b = &u->body;
    for (int d = 0; d < 3; d++) {
        u->body.grid[d] = step->launch->grid[d];
        u->body.block[d] = step->launch->block[d];
    }
    int r = ptx_cfg_build(f, &u->cfg, e);
    if (r < 0)
        return r;
    u->w.slot = dt_new_array(a, uint32_t, (size_t)f->nreg + 1);
    u->path.reg = dt_new_array(a, struct rw_value, (size_t)f->nreg + 1);
    u->some = dt_new_array(a, bool, (size_t)f->nreg + 1);
    u->target = dt_new_array(a, uint32_t, (size_t)f->nlabel + 1);
    u->reached = dt_new_array(a, bool, (size_t)u->cfg.nblock + 1);
    u->done = dt_new_array(a, uint8_t, (size_t)f->ninst + 1);
    if (!u->w.slot || !u->path.reg || !u->some || !u->target || !u->reached || !u->done) {
        rw_uniform_done(u);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    for (uint32_t n = 0; n < f->ninst; n++)
        if (f->inst[n].op == PTX_OP_LABEL)
            u->target[f->inst[n].opnd[0].label] = u->cfg.block_of[n];
    uniform_slots(u);
    *ret = u;
    return 0;
}

void rw_uniform_done(struct rw_uniform *u)
{
    if (u)
        ptx_cfg_done(&u->cfg);
}

uint64_t rw_uniform_steps(const struct rw_uniform *u) { return u->wanted + u->w.f->ninst / 4 + 16; }

/* ---- one block --------------------------------------------------------------------------------------------------- */

static void uniform_set(struct rw_uniform *u, uint32_t reg, struct rw_value v)
{
    struct rw_value *have = &u->path.reg[reg];
    if (!u->some[reg])
        *have = v, u->some[reg] = u->changed = true;
    else if (have->mem != RW_REACH_UNKNOWN && (v.mem != have->mem || v.v != have->v))
        *have = rw_value_unknown(), u->changed = true;
}

static void uniform_lose(uint32_t reg, bool write, void *user)
{
    struct rw_uniform *u = user;
    if (write && reg < u->w.f->nreg && u->w.slot[reg])
        uniform_set(u, reg, rw_value_unknown());
}

/* -1: nothing is known of it yet; else RW_DONE, RW_SKIPPED or both. */
static int uniform_guard(const struct rw_uniform *u, uint32_t pred, bool neg)
{
    if (!u->some[pred])
        return -1;
    const struct rw_value *v = &u->path.reg[pred];
    return v->mem ? RW_DONE | RW_SKIPPED : (v->v & 1) != neg ? RW_DONE : RW_SKIPPED;
}

/* What the instruction makes, if all that it takes has a value. */
static void uniform_make(struct rw_uniform *u, const struct ptx_inst *i)
{
    const struct ptx_opnd *to = &i->opnd[0];
    bool one = i->nopnd && to->kind == PTX_O_REG && to->comp < 0 && !i->dst2 && i->op != PTX_OP_CALL;
    if (one && (to->reg >= u->w.f->nreg || !u->w.slot[to->reg]))
        return;
    for (unsigned k = 1; one && k < i->nopnd; k++)
        if (i->opnd[k].kind == PTX_O_REG && i->opnd[k].reg < u->w.f->nreg && u->w.slot[i->opnd[k].reg] &&
            !u->some[i->opnd[k].reg])
            return;
    if (one)
        uniform_set(u, to->reg, rw_value_of(&u->w, &u->path, i));
    else
        ptx_inst_regs(i, uniform_lose, u);
}

static void uniform_reach(struct rw_uniform *u, uint32_t block)
{
    if (block < u->cfg.nblock && !u->reached[block])
        u->reached[block] = u->changed = true;
}

static void uniform_goes(struct rw_uniform *u, uint32_t at, const struct ptx_inst *i, int how)
{
    const struct ptx_block *b = &u->cfg.block[at];
    bool leaves = uniform_code(i) && (ptx_op_info(i->op)->flags & (PTX_F_BRANCH | PTX_F_TERMINATOR));
    if (!leaves || how & RW_SKIPPED)
        uniform_reach(u, at + 1);
    if (!leaves || !(how & RW_DONE))
        return;
    if (i->op == PTX_OP_BRA)
        uniform_reach(u, u->target[i->opnd[i->nopnd - 1].label]);
    else if (ptx_op_info(i->op)->flags & PTX_F_BRANCH)
        for (uint32_t k = 0; k < b->nsucc; k++)
            uniform_reach(u, b->succ[k]);
}

static void uniform_pass(struct rw_uniform *u, uint32_t at)
{
    const struct ptx_block *b = &u->cfg.block[at];
    for (uint32_t n = b->first; n <= b->last; n++) {
        const struct ptx_inst *i = &u->w.f->inst[n];
        int how = RW_DONE;
        if (uniform_code(i) && i->pred != PTX_NO_REG)
            how = uniform_guard(u, i->pred, i->pred_neg);
        if (how < 0) {
            if (n == b->last)
                return;
            continue;
        }
        if (i->op == PTX_OP_SELP && i->nopnd == 4 && i->opnd[3].kind == PTX_O_REG) {
            int which = uniform_guard(u, i->opnd[3].reg, i->opnd[3].neg);
            how |= which < 0 ? 0 : (which & RW_DONE ? RW_FIRST : 0) | (which & RW_SKIPPED ? RW_SECOND : 0);
        }
        u->changed |= (how & ~u->done[n]) != 0;
        u->done[n] |= how;
        if (uniform_code(i) && how & RW_DONE)
            uniform_make(u, i);
        else if (i->op == PTX_OP_OPAQUE) /* it may write any register */
            for (uint32_t k = 0; k < u->w.f->nreg; k++)
                uniform_lose(k, true, u);
        if (n == b->last)
            uniform_goes(u, at, i, how);
    }
}

/* Guards of which nothing is known in the end: made of what nobody writes. */
static void uniform_open(struct rw_uniform *u)
{
    for (uint32_t k = 0; k < u->cfg.nblock; k++)
        for (uint32_t n = u->cfg.block[k].first; u->reached[k] && n <= u->cfg.block[k].last; n++) {
            const struct ptx_inst *i = &u->w.f->inst[n];
            if (uniform_code(i) && i->pred != PTX_NO_REG && !u->some[i->pred])
                uniform_set(u, i->pred, rw_value_unknown());
            if (i->op == PTX_OP_SELP && i->nopnd == 4 && i->opnd[3].kind == PTX_O_REG && !u->some[i->opnd[3].reg])
                uniform_set(u, i->opnd[3].reg, rw_value_unknown());
        }
}

const uint8_t *rw_uniform_block(struct rw_uniform *u, const uint32_t *ctaid)
{
    u->w.ctaid = ctaid;
    memset(u->some, 0, u->w.f->nreg);
    memset(u->reached, 0, u->cfg.nblock);
    memset(u->done, 0, u->w.f->ninst);
    if (u->cfg.nblock)
        u->reached[0] = true;
    do {
        do {
            u->changed = false;
            for (uint32_t k = 0; k < u->cfg.nblock; k++)
                if (u->reached[k])
                    uniform_pass(u, k);
        } while (u->changed);
        uniform_open(u);
    } while (u->changed);
    return u->done;
}
