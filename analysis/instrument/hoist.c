/* Hoisting: where to record an access that data may skip.
 *
 *     if (x[i] > 0)        NVRTC makes a branch of it that depends on data;
 *         y[i] = …         the address of y[i] does not.
 *
 * Such an access counts at its own address whether the branch is taken or not. So its address is computed, and the
 * access recorded, before the branch. Let B be the access's block, and D its nearest dominator that is reached
 * whatever the data are; recording goes to the end of D. Let R be the blocks on ways from D to B that do not come back
 * through D. Going backward from the address register:
 *   - a register without a definition in R has the same value at D as at B: nothing to compute;
 *   - a register with one definition in R, which dominates the use, is computed at D by a copy of that instruction, if
 *     that is plain arithmetic (no memory but kernel parameters, nothing convergent, no predicate); so are its
 *     operands;
 *   - anything else (counters of loops inside R, values that meet from two sides): there is no such place, and the
 *     access is left to ghost.c, or widened.
 * Branches between D and B that do not depend on data, and that must go one way for B to be reached, become conditions
 * of the recording in the same manner; so does an untainted predicate of the access itself. A condition that cannot be
 * copied is left out: what is recorded then is a superset.
 */
#include "analysis/instrument/instrument-priv.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SLICE 256
#define MAX_COND 16

struct slicer {
    const struct ptx_function *f;
    const struct ptx_cfg *cfg;
    const struct ana_tainted *t;
    struct dt_arena tmp;
    uint8_t *in_r;        /* per block */
    uint32_t *ndef, *def; /* per register: definitions in R, one of them */
    uint8_t *done;        /* per instruction: 1 in progress, 2 in the slice */
    uint32_t slice[MAX_SLICE], nslice;
    uint32_t use; /* at hand */
    bool ok;
};

struct defs {
    struct slicer *s;
    uint32_t at;
};

static void count_def(uint32_t r, bool write, void *user)
{
    struct defs *d = user;
    if (!write)
        return;
    if (!d->s->ndef[r] || d->s->def[r] != d->at)
        d->s->ndef[r]++;
    d->s->def[r] = d->at;
}

bool ana_copyable(const struct ptx_inst *i)
{
    const struct ptx_op_info *op = ptx_op_info(i->op);
    if (i->op <= PTX_OP_OPAQUE)
        return false;
    if (i->op == PTX_OP_LD)
        return i->space == PTX_PARAM && i->opnd[1].kind == PTX_O_ADDR && i->opnd[1].base_kind == PTX_O_VAR;
    return !(op->flags & (PTX_F_READS | PTX_F_WRITES | PTX_F_ATOMIC | PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_BRANCH |
                          PTX_F_TERMINATOR | PTX_F_CALL | PTX_F_SIDE)) &&
           !ptx_has(i, PTX_M_CC) && !ptx_reads_carry(i);
}

static void need(struct slicer *s, uint32_t reg, uint32_t use);

static void need_operand(uint32_t r, bool write, void *user)
{
    struct slicer *s = user;
    if (!write && s->ok)
        need(s, r, s->use);
}

/* Register `reg`, as instruction `use` reads it, can be had before D's end. */
static void need(struct slicer *s, uint32_t reg, uint32_t use)
{
    if (!s->ndef[reg])
        return;
    uint32_t d = s->def[reg];
    if (s->ndef[reg] != 1 || !ptx_inst_dominates(s->cfg, d, use) || s->done[d] == 1 || !ana_copyable(&s->f->inst[d]) ||
        s->f->inst[d].pred != PTX_NO_REG || s->t->reg[reg] == ANA_DATA_DEPENDENT) {
        s->ok = false;
        return;
    }
    if (s->done[d] == 2)
        return;
    s->done[d] = 1;
    uint32_t keep = s->use;
    s->use = d;
    ptx_inst_regs(&s->f->inst[d], need_operand, s);
    s->use = keep;
    if (s->nslice >= MAX_SLICE)
        s->ok = false;
    if (!s->ok)
        return;
    s->done[d] = 2;
    s->slice[s->nslice++] = d;
}

/* Take reg's slice in if it can be copied, else leave the slice as it was. */
static bool try_condition(struct slicer *s, uint32_t reg, uint32_t use)
{
    uint32_t n = s->nslice;
    uint8_t *done = dt_new_array(&s->tmp, uint8_t, s->f->ninst);
    if (!done)
        return false;
    memcpy(done, s->done, s->f->ninst);
    s->ok = true;
    need(s, reg, use);
    if (s->ok)
        return true;
    s->nslice = n;
    memcpy(s->done, done, s->f->ninst);
    return false;
}

static bool conditional(const struct ptx_function *f, const struct ptx_block *b)
{
    const struct ptx_inst *i = &f->inst[b->last];
    return b->nsucc == 2 && b->succ[0] != b->succ[1] && i->pred != PTX_NO_REG && i->op == PTX_OP_BRA;
}

/* The block's successor when its branch is taken. */
static uint32_t taken(const struct ptx_function *f, const struct ptx_cfg *c, const struct ptx_block *b)
{
    const struct ptx_opnd *o = &f->inst[b->last].opnd[0];
    for (uint32_t i = 0; i < b->nsucc; i++) {
        const struct ptx_block *s = &c->block[b->succ[i]];
        for (uint32_t k = s->first; k <= s->last && f->inst[k].op == PTX_OP_LABEL; k++)
            if (f->inst[k].opnd[0].label == o->label)
                return b->succ[i];
    }
    return UINT32_MAX;
}

static bool setup(struct slicer *s, uint32_t b, uint32_t d, uint32_t at)
{
    const struct ptx_cfg *c = s->cfg;
    bool *after = dt_new_array(&s->tmp, bool, c->nblock), *before = dt_new_array(&s->tmp, bool, c->nblock),
         *again = dt_new_array(&s->tmp, bool, c->nblock);
    uint32_t *stack = dt_new_array(&s->tmp, uint32_t, (size_t)c->nblock + 1);
    s->ndef = dt_new_array(&s->tmp, uint32_t, (size_t)s->f->nreg + 1);
    s->def = dt_new_array(&s->tmp, uint32_t, (size_t)s->f->nreg + 1);
    s->done = dt_new_array(&s->tmp, uint8_t, (size_t)s->f->ninst + 1);
    if (s->tmp.failed)
        return false;
    if (b == d)
        return true; /* right before the access: every register is a leaf */
    for (uint32_t i = 0; i < c->block[d].nsucc; i++)
        ptx_mark_reached(c, c->block[d].succ[i], d, after, stack);
    ptx_mark_reaching(c, b, d, before, stack);
    for (uint32_t i = 0; i < c->block[b].nsucc; i++) /* may B come back to itself without D? */
        ptx_mark_reached(c, c->block[b].succ[i], d, again, stack);
    for (uint32_t x = 0; x < c->nblock; x++) {
        if (!after[x] || !before[x])
            continue;
        uint32_t end = x == b && !again[b] ? at : c->block[x].last + 1;
        for (uint32_t i = c->block[x].first; i < end; i++)
            ptx_inst_regs(&s->f->inst[i], count_def, &(struct defs){s, i});
    }
    return true;
}

int ana_hoist(struct dt_arena *a, const struct ptx_function *f, const struct ana_tainted *t,
              const struct ana_site *site, struct ana_hoist *ret)
{
    struct slicer s = {.f = f, .cfg = &t->cfg, .t = t};
    const struct ptx_inst *x = &f->inst[site->inst];
    uint32_t b = t->cfg.block_of[site->inst], d = b;
    struct ana_cond cond[MAX_COND];
    uint32_t ncond = 0;
    while (d != UINT32_MAX && t->block[d] == ANA_DATA_DEPENDENT)
        d = t->cfg.block[d].idom;
    if (d == UINT32_MAX || site->opnd == 0xFF)
        return 0;
    struct ana_hoist h = {.at = site->inst};
    int rc = setup(&s, b, d, site->inst) ? 0 : DT_E_NOMEM;
    if (!rc && b != d) {
        const struct ptx_block *k = &t->cfg.block[d];
        unsigned flags = ptx_op_info(f->inst[k->last].op)->flags;
        h.at = flags & (PTX_F_BRANCH | PTX_F_TERMINATOR) ? k->last : k->last + 1;
    }
    const struct ptx_opnd *o = &x->opnd[site->opnd];
    s.ok = true;
    if (!rc && o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG)
        need(&s, o->reg, site->inst);
    const struct ptx_opnd *more[ANA_LOG_VALUES];
    for (unsigned k = 0, n = ana_span_operands(x, site, more); k < n && !rc && s.ok; k++)
        if (more[k]->kind == PTX_O_REG)
            need(&s, more[k]->reg, site->inst);
    bool found = !rc && s.ok;
    if (found && x->pred != PTX_NO_REG && t->reg[x->pred] != ANA_DATA_DEPENDENT &&
        try_condition(&s, x->pred, site->inst))
        cond[ncond++] = (struct ana_cond){x->pred, x->pred_neg};
    for (uint32_t y = b; found && b != d && ncond < MAX_COND;) {
        y = t->cfg.block[y].idom;
        const struct ptx_block *k = &t->cfg.block[y];
        const struct ptx_inst *br = &f->inst[k->last];
        if (conditional(f, k) && t->reg[br->pred] != ANA_DATA_DEPENDENT) {
            uint32_t yes = taken(f, &t->cfg, k), no = k->succ[0] == yes ? k->succ[1] : k->succ[0];
            bool via_yes = yes != UINT32_MAX && t->cfg.block[yes].npred == 1 && ptx_dominates(&t->cfg, yes, b);
            bool via_no = yes != UINT32_MAX && t->cfg.block[no].npred == 1 && ptx_dominates(&t->cfg, no, b);
            if (via_yes != via_no && try_condition(&s, br->pred, k->last))
                cond[ncond++] = (struct ana_cond){br->pred, via_yes ? br->pred_neg : !br->pred_neg};
        }
        if (y == d)
            break;
    }
    if (found) {
        h.slice = dt_new_array(a, uint32_t, (size_t)s.nslice + 1);
        h.cond = dt_new_array(a, struct ana_cond, (size_t)ncond + 1);
        if (h.slice && h.cond) {
            memcpy(h.slice, s.slice, s.nslice * sizeof *h.slice);
            memcpy(h.cond, cond, ncond * sizeof *cond);
            h.nslice = s.nslice;
            h.ncond = ncond;
        } else {
            rc = DT_E_NOMEM;
        }
    }
    rc = s.tmp.failed ? DT_E_NOMEM : rc;
    dt_arena_done(&s.tmp);
    if (rc)
        return rc;
    if (found)
        *ret = h;
    return found;
}
