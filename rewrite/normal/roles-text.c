/* The kernel of one role (roles.c): the posted text without what no block of it comes to.
 *
 *   an instruction that no block does    is gone, with its label or guard
 *   one that every block does            has lost its guard: a branch is unconditional, and gone if it leads to what
 *                                        follows it
 *   a choice that is always the same     is a move
 *   block numbers                        of a box in the grid: %ctaid plus the box's corner; else from a list
 *                                        (rw_solo_renumber). %nctaid is the posted grid's
 *   a value that nobody takes            is not made: numbers and addresses that other roles needed
 *   variables                            of which nobody speaks any more are gone, and shared memory with them
 *
 * Nothing else is touched: what remains are the posted instructions, in the posted order.
 */
#include "rewrite/normal/roles.h"
#include "rewrite/emit/emit.h"
#include "rewrite/emit/uniform.h"
#include "rewrite/facts/hooks.h"

#include "ptx/flow.h"
#include <stdlib.h>
#include <string.h>

/* A choice that is always the same. */
static void role_choose(struct ptx_inst *i, uint8_t done)
{
    if (i->op != PTX_OP_SELP || !(done & RW_FIRST) == !(done & RW_SECOND))
        return;
    i->op = PTX_OP_MOV;
    if (done & RW_SECOND)
        i->opnd[1] = i->opnd[2];
    i->nopnd = 2;
}

/* What is left of a list of branch targets must have its labels. */
static bool role_lists(const struct ptx_function *f)
{
    for (uint32_t n = 0; n < f->ninst; n++)
        if (f->inst[n].op == PTX_OP_BRANCHTARGETS)
            return true;
    return false;
}

/* A branch to the label right behind it. */
static bool role_falls(const struct ptx_function *f, uint32_t n, uint32_t end)
{
    const struct ptx_inst *i = &f->inst[n];
    if (i->op != PTX_OP_BRA || i->pred != PTX_NO_REG)
        return false;
    for (uint32_t k = n + 1; k < end && f->inst[k].op == PTX_OP_LABEL; k++)
        if (f->inst[k].opnd[0].label == i->opnd[i->nopnd - 1].label)
            return true;
    return false;
}

static void role_prune(struct ptx_function *f, const uint8_t *done, bool spoil)
{
    bool lists = role_lists(f);
    uint32_t n = 0, m = 0;
    for (uint32_t k = 0; k < f->ninst; k++) {
        struct ptx_inst *i = &f->inst[k];
        bool named = i->op == PTX_OP_LABEL || i->op == PTX_OP_BRANCHTARGETS || i->op == PTX_OP_CALLPROTO;
        if (!(done[k] & RW_DONE) && !(lists && named))
            continue;
        if (spoil && i->op == PTX_OP_ST && i->space == PTX_GLOBAL) { /* so that somebody says so */
            i->opnd[0].off += 4;
            spoil = false;
        }
        if (!named && i->op != PTX_OP_PRAGMA && i->op != PTX_OP_OPAQUE && !(done[k] & RW_SKIPPED) && done[k]) {
            i->pred = PTX_NO_REG;
            i->pred_neg = 0;
        }
        role_choose(i, done[k]);
        f->inst[n++] = *i;
    }
    for (uint32_t k = 0; k < n; k++)
        if (!role_falls(f, k, n))
            f->inst[m++] = f->inst[k];
    f->ninst = m;
}

struct role_reads {
    const struct ptx_function *f;
    bool *wanted, *mine; /* by register: somebody else takes it; the instruction at hand makes it */
    bool any;
};

static void role_makes(uint32_t reg, bool write, void *user)
{
    struct role_reads *x = user;
    if (write && reg < x->f->nreg)
        x->mine[reg] = true;
}

static void role_unmakes(uint32_t reg, bool write, void *user)
{
    struct role_reads *x = user;
    if (write && reg < x->f->nreg) {
        x->any |= x->wanted[reg];
        x->mine[reg] = false;
    }
}

static void role_takes(uint32_t reg, bool write, void *user)
{
    struct role_reads *x = user;
    if (!write && reg < x->f->nreg && !x->mine[reg])
        x->wanted[reg] = true;
}

static bool role_code(const struct ptx_inst *i)
{
    return i->op != PTX_OP_LABEL && i->op != PTX_OP_PRAGMA && i->op != PTX_OP_BRANCHTARGETS &&
           i->op != PTX_OP_CALLPROTO && i->op != PTX_OP_OPAQUE;
}

/* Does it do nothing but make a value? */
static bool role_pure(const struct ptx_inst *i)
{
    unsigned flags = role_code(i) ? ptx_op_info(i->op)->flags : PTX_F_SIDE;
    bool param = i->op == PTX_OP_LD && i->space == PTX_PARAM;
    return !(flags & (PTX_F_WRITES | PTX_F_ATOMIC | PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_BRANCH | PTX_F_TERMINATOR |
                      PTX_F_CALL | PTX_F_SIDE | PTX_F_NODST)) &&
           (!(flags & PTX_F_READS) || param) && !ptx_has(i, PTX_M_CC) && !ptx_reads_carry(i);
}

/* Values that nobody takes any more go: numbers and addresses that other roles needed. */
static int role_tidy(struct ptx_function *f, struct dt_err *e)
{
    dt_free_ bool *wanted = dt_calloc((size_t)f->nreg + 1, 1), *mine = dt_calloc((size_t)f->nreg + 1, 1);
    struct role_reads x = {.f = f, .wanted = wanted, .mine = mine};
    uint32_t before;
    if (!wanted || !mine)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    do {
        before = f->ninst;
        memset(wanted, 0, f->nreg);
        for (uint32_t k = 0; k < f->ninst; k++)
            if (role_code(&f->inst[k])) {
                ptx_inst_regs(&f->inst[k], role_makes, &x);
                ptx_inst_regs(&f->inst[k], role_takes, &x);
                ptx_inst_regs(&f->inst[k], role_unmakes, &x);
            }
        uint32_t n = 0;
        for (uint32_t k = 0; k < before; k++) {
            x.any = false;
            if (role_pure(&f->inst[k]))
                ptx_inst_regs(&f->inst[k], role_unmakes, &x);
            if (x.any || !role_pure(&f->inst[k]))
                f->inst[n++] = f->inst[k];
        }
        f->ninst = n;
    } while (f->ninst < before);
    return 0;
}

static bool role_names(const struct ptx_opnd *o, const struct ptx_var *v)
{
    bool any = ((o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR) || o->kind == PTX_O_VAR) && o->var == v;
    for (unsigned k = 0; o->kind == PTX_O_VEC && k < o->n; k++)
        any |= role_names(&o->elem[k], v);
    return any;
}

static bool role_uses(const struct ptx_function *f, const struct ptx_var *v)
{
    for (uint32_t n = 0; n < f->ninst; n++)
        for (unsigned k = 0; f->inst[n].op != PTX_OP_LABEL && k < f->inst[n].nopnd; k++)
            if (role_names(&f->inst[n].opnd[k], v))
                return true;
    return false;
}

/* Shared memory of the function's own that nobody speaks of. Module variables go when the entry is copied alone. */
static void role_variables(struct ptx_function *f)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->nvar; k++)
        if (f->var[k]->space != PTX_SHARED || role_uses(f, f->var[k])) {
            f->var[n] = f->var[k];
            f->var[n]->index = n;
            n++;
        }
    f->nvar = n;
}

static bool role_calls(const struct ptx_function *f)
{
    for (uint32_t n = 0; n < f->ninst; n++)
        if (f->inst[n].op == PTX_OP_CALL || f->inst[n].op == PTX_OP_OPAQUE)
            return true;
    return false;
}

/* Does it speak of dynamic shared memory, or of how much there is? */
static bool role_dynamic(const struct ptx_module *m, const struct ptx_function *f)
{
    bool any = role_calls(f);
    for (uint32_t n = 0; n < f->ninst; n++)
        for (unsigned k = 0; f->inst[n].op != PTX_OP_LABEL && k < f->inst[n].nopnd; k++)
            any |= f->inst[n].opnd[k].kind == PTX_O_SREG && (f->inst[n].opnd[k].sreg == PTX_SR_DYNAMIC_SMEM_SIZE ||
                                                             f->inst[n].opnd[k].sreg == PTX_SR_TOTAL_SMEM_SIZE);
    for (uint32_t k = 0; k < m->nvar; k++)
        any |= m->var[k]->space == PTX_SHARED && !m->var[k]->bytes && role_uses(f, m->var[k]);
    for (uint32_t k = 0; k < f->nvar; k++)
        any |= f->var[k]->space == PTX_SHARED && !f->var[k]->bytes;
    return any;
}

/* %ctaid is that of the box plus its corner, %nctaid the posted grid. */
static int role_box(struct rw_solo *s, const struct rw_role *role, struct dt_err *e)
{
    static const char xyz[] = "xyz";
    const uint32_t *grid = s->prog->graph->launch[s->launch].grid;
    struct ptx_function *f = s->f;
    struct dt_str text = {0};
    dt_str_add(&text, ".reg .b32 %dt_c<3>, %dt_n<3>;\n");
    for (int d = 0; d < 3; d++) {
        dt_str_addf(&text, role->extent[d] > 1 ? "mov.u32 %%dt_c%d, %%ctaid.%c;\n" : "mov.u32 %%dt_c%d, 0;\n", d,
                    xyz[d]);
        if (role->lo[d])
            dt_str_addf(&text, "add.u32 %%dt_c%d, %%dt_c%d, %u;\n", d, d, role->lo[d]);
        dt_str_addf(&text, "mov.u32 %%dt_n%d, %u;\n", d, grid[d]);
    }
    uint32_t before = f->ninst;
    int added = text.failed ? dt_err_set(e, DT_E_NOMEM, "out of memory") : rw_solo_insert(s, 0, text.s, e);
    dt_str_done(&text);
    if (added < 0)
        return added;
    for (uint32_t n = (uint32_t)added; n < before + (uint32_t)added; n++)
        for (unsigned k = 0; k < f->inst[n].nopnd; k++) {
            struct ptx_opnd *o = &f->inst[n].opnd[k];
            char name[8];
            if (o->kind != PTX_O_SREG || (o->sreg != PTX_SR_CTAID && o->sreg != PTX_SR_NCTAID) || o->comp == 3)
                continue;
            snprintf(name, sizeof name, "%%dt_%c%c", o->sreg == PTX_SR_CTAID ? 'c' : 'n', '0' + o->comp);
            uint32_t reg = rw_solo_reg(s, name);
            if (reg == PTX_NO_REG)
                return dt_err_set(e, DT_E_UNSUPPORTED, "a block number cannot be replaced");
            *o = (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = reg};
        }
    return 0;
}

int rw_role_text(struct rw_solo *s, const struct rw_role *role, bool *ret_dynamic, struct dt_err *e)
{
    struct ptx_module *small = NULL;
    role_prune(s->f, role->done, RW_SPOILT("roles") && !role->block[0]);
    int r = role_tidy(s->f, e);
    role_variables(s->f);
    *ret_dynamic = role_dynamic(s->m, s->f);
    if (r < 0)
        return r;
    r = role->box ? role_box(s, role, e) : rw_solo_renumber(s, role->block, role->n, e);
    if (r == 0)
        r = ptx_clone(s->m, s->f->name, &small, e);
    if (r < 0)
        return r;
    ptx_module_free(s->m);
    s->m = small;
    s->f = ptx_find_function(s->m, s->body.f->name);
    return s->f ? 0 : dt_err_set(e, DT_E_INTERNAL, "entry %s is not in its own copy", s->body.f->name);
}
