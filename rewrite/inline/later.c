/* Stores of guests in an epilogue, put behind the loads of the guests that follow.
 *
 *     before   ld r0; st [y], f0 + r0; ld r1; st [y + 4], f1 + r1; …
 *     after    ld r0; ld r1; …         st [y], f0 + r0; st [y + 4], f1 + r1; …
 *
 * A host stores its elements one after the other, and each guest's text stands where one was stored: what it loads
 * would wait for the store of the guest before, and that one for what it had loaded. No machine and no assembler
 * changes that, as it cannot know that the two never meet. Here it is known: what a guest loads nobody writes, or it is
 * its element's own place (bystanders). So a guest's stores wait until there are RW_LATER of them, and go out in their
 * order before the host does anything but arithmetic.
 *
 * Only of instances that are one run of instructions (ways.c): a store that a thread may pass by stays where it is.
 */
#include "rewrite/inline/inline-priv.h"

#include <stdlib.h>
#include <string.h>

static int later_nomem(struct rw_join *j) { return dt_err_set(j->e, DT_E_NOMEM, "out of memory"); }

/* *reg becomes a new register with the same value, which no later instance writes. */
static int keep(struct rw_join *j, uint32_t *reg)
{
    uint8_t type = j->f->reg[*reg].type;
    unsigned bytes = type == PTX_PRED ? 0 : ptx_type_bytes((enum ptx_type)type);
    uint32_t to = ptx_reg_new(j->f, (enum ptx_type)type, "dt_l");
    if (to == PTX_NO_REG)
        return later_nomem(j);
    struct ptx_opnd two[2] = {{.kind = PTX_O_REG, .comp = -1, .reg = to}, {.kind = PTX_O_REG, .comp = -1, .reg = *reg}};
    struct ptx_inst i = {.op = PTX_OP_MOV, .nopnd = 2, .ntype = 1, .pred = PTX_NO_REG, .vec = 1, .opnd = two};
    i.type[0] = (uint8_t)(bytes == 8 ? PTX_B64 : bytes == 4 ? PTX_B32 : bytes == 2 ? PTX_B16 : PTX_PRED);
    *reg = to;
    return ptx_append(j->f, i) ? 0 : later_nomem(j);
}

static int keep_operand(struct rw_join *j, struct ptx_opnd *o)
{
    int r = 0;
    if (o->kind == PTX_O_REG || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG))
        return keep(j, &o->reg);
    for (unsigned k = 0; o->kind == PTX_O_VEC && k < o->n && r == 0; k++)
        r = keep_operand(j, &o->elem[k]);
    return r;
}

/* Put the store into the list: its operands as they are now. */
static int put_off(struct rw_join *j, struct rw_later *l, const struct ptx_inst *i)
{
    struct ptx_inst *to = &l->inst[l->n];
    int r = 0;
    *to = *i;
    to->opnd = dt_new_array(&j->m->arena, struct ptx_opnd, i->nopnd + 1);
    if (!to->opnd)
        return later_nomem(j);
    memcpy(to->opnd, i->opnd, sizeof *i->opnd * i->nopnd);
    for (unsigned k = 0; k < i->nopnd && r == 0; k++) {
        if (i->opnd[k].kind == PTX_O_VEC) {
            if (!(to->opnd[k].elem = dt_new_array(&j->m->arena, struct ptx_opnd, i->opnd[k].n + 1)))
                return later_nomem(j);
            memcpy(to->opnd[k].elem, i->opnd[k].elem, sizeof *i->opnd * i->opnd[k].n);
        }
        r = keep_operand(j, &to->opnd[k]);
    }
    if (r == 0 && i->pred != PTX_NO_REG)
        r = keep(j, &to->pred);
    l->n++;
    return r;
}

static bool may_wait(const struct ptx_inst *i)
{
    return i->op == PTX_OP_ST && i->space == PTX_GLOBAL && ptx_type_bytes((enum ptx_type)i->type[0]) <= 8;
}

/* Are the instructions from `start` on one run, whose stores may wait? *ret: how many there are. */
static bool one_run(const struct ptx_function *f, uint32_t start, unsigned *ret)
{
    *ret = 0;
    for (uint32_t k = start; k < f->ninst; k++) {
        const struct ptx_inst *i = &f->inst[k];
        unsigned flags = i->op > PTX_OP_OPAQUE ? ptx_op_info(i->op)->flags : PTX_F_BRANCH;
        if (i->op == PTX_OP_LABEL) /* of the instance: without its branches nothing leads there */
            continue;
        if ((flags & (PTX_F_BRANCH | PTX_F_TERMINATOR | PTX_F_CALL | PTX_F_SIDE | PTX_F_BARRIER)) ||
            ((flags & PTX_F_WRITES) && !may_wait(i)))
            return false;
        *ret += may_wait(i);
    }
    return *ret > 0;
}

int rw_later_flush(struct rw_join *j, struct rw_later *l)
{
    for (unsigned k = 0; k < l->n; k++)
        if (!ptx_append(j->f, l->inst[k]))
            return later_nomem(j);
    l->n = 0;
    return 0;
}

int rw_later_take(struct rw_join *j, struct rw_later *l, uint32_t start)
{
    unsigned stores;
    int r = 0;
    bool run_on = one_run(j->f, start, &stores) && stores <= RW_LATER;
    uint32_t n = j->f->ninst - start;
    struct ptx_inst *run = malloc(n * sizeof *run);
    if (!run)
        return later_nomem(j);
    memcpy(run, &j->f->inst[start], n * sizeof *run);
    j->f->ninst = start;
    for (uint32_t k = 0; k < n && r == 0; k++)
        if (!run_on || !may_wait(&run[k]))
            r = ptx_append(j->f, run[k]) ? 0 : later_nomem(j);
        else if (l->n < RW_LATER || (r = rw_later_flush(j, l)) == 0)
            r = put_off(j, l, &run[k]);
    free(run);
    return r < 0 || l->n < RW_LATER ? r : rw_later_flush(j, l);
}

bool rw_later_may_wait_for(const struct ptx_inst *i)
{
    if (i->op <= PTX_OP_OPAQUE)
        return i->op == PTX_OP_PRAGMA;
    unsigned flags = ptx_op_info(i->op)->flags;
    bool parameter = i->op == PTX_OP_LD && i->space == PTX_PARAM;
    return parameter || !(flags & (PTX_F_READS | PTX_F_WRITES | PTX_F_ATOMIC | PTX_F_BARRIER | PTX_F_CONVERGENT |
                                   PTX_F_BRANCH | PTX_F_TERMINATOR | PTX_F_CALL | PTX_F_SIDE));
}
