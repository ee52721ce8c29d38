/* Where addresses come from: for each register, the set of buffer arguments from which its value may have been
 * computed.
 *
 * The sets are flow-insensitive unions over all instructions: a result may point wherever one of its register operands
 * may point. A load from memory gives whatever this entry ever stored (one cell for all of memory), so a pointer that
 * goes through local or shared memory or a call is not lost. The sources are loads of parameters: an argument that is a
 * buffer, or a struct with addresses in it. Scalars give nothing. A set is a superset, so "this site reaches buffer B
 * alone" may be relied on. It says nothing about which bytes are reached.
 *
 * The address of a module variable, of shared or of local memory is marked RW_PROV_LOCAL. Arguments from number 62 on
 * share the mark RW_PROV_OTHER.
 */
#include "rewrite/facts/facts-priv.h"

#include <stdlib.h>
#include <string.h>

struct flow {
    struct rw_body *b;
    uint64_t in, out; /* union of the sets of the registers read; the set to add to the registers written */
    bool give, changed;
};

static void prov_on_reg(uint32_t reg, bool write, void *user)
{
    struct flow *w = user;
    if (reg >= w->b->f->nreg)
        return;
    if (!w->give && !write)
        w->in |= w->b->prov[reg];
    if (w->give && write && (w->b->prov[reg] | w->out) != w->b->prov[reg]) {
        w->b->prov[reg] |= w->out;
        w->changed = true;
    }
}

/* May a load of `bytes` bytes at offset `off` of a struct read part of one of its addresses? */
static bool sees_address(const struct dt_arg *a, int64_t off, uint64_t bytes)
{
    if (off < 0 || off > DT_MAX_ARG_BYTES)
        return true;
    for (uint32_t k = 0; k < a->npointer; k++)
        if (off < (int64_t)a->pointer[k].at + 8 && off + (int64_t)bytes > (int64_t)a->pointer[k].at)
            return true;
    return false;
}

/* The set of the variable or parameter that the operand names directly. */
static uint64_t named(const struct rw_body *b, const struct ptx_inst *i, const struct ptx_opnd *o)
{
    if (o->kind == PTX_O_VEC) {
        uint64_t m = 0;
        for (unsigned k = 0; k < o->n; k++)
            m |= named(b, i, &o->elem[k]);
        return m;
    }
    bool addr = o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR;
    if (o->kind != PTX_O_VAR && !addr)
        return 0;
    if (o->var->space != PTX_PARAM)
        return RW_PROV_LOCAL;
    for (uint32_t k = 0; k < b->f->nparam; k++) {
        if (b->f->param[k] != o->var)
            continue;
        const struct dt_launch *l = b->step->launch;
        if (k >= l->narg)
            return RW_PROV_OTHER;
        switch (l->arg[k].kind) {
        case DT_ARG_SCALAR: return 0;
        case DT_ARG_BYTES:
            if (i->op == PTX_OP_LD && addr &&
                !sees_address(&l->arg[k], o->off, (uint64_t)ptx_type_bytes(i->type[0]) * (i->vec ? i->vec : 1)))
                return 0;
            return l->arg[k].npointer ? rw_arg_bit(k) : 0;
        default: return rw_arg_bit(k);
        }
    }
    return 0; /* a call's argument or result: covered by the memory cell */
}

uint64_t rw_prov_of(const struct rw_body *b, const struct ptx_inst *i)
{
    uint64_t m = 0;
    bool any = false;
    if (i->op == PTX_OP_OPAQUE)
        return ~UINT64_C(0);
    for (unsigned k = 0; k < i->nopnd; k++) {
        const struct ptx_opnd *o = &i->opnd[k];
        if (o->kind != PTX_O_ADDR)
            continue;
        any = true;
        if (o->base_kind == PTX_O_REG)
            m |= o->reg < b->f->nreg ? b->prov[o->reg] : ~UINT64_C(0);
        else
            m |= named(b, i, o);
    }
    /* An address that comes from no known source may be any. */
    return any && m ? m : ~UINT64_C(0);
}

int rw_prov(struct dt_arena *a, struct rw_body *b, struct dt_err *e)
{
    const struct ptx_function *f = b->f;
    b->prov = dt_new_array(a, uint64_t, (size_t)f->nreg + 1);
    if (!b->prov)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    bool changed;
    do {
        changed = false;
        for (uint32_t n = 0; n < f->ninst; n++) {
            const struct ptx_inst *i = &f->inst[n];
            if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS ||
                i->op == PTX_OP_CALLPROTO || i->op == PTX_OP_OPAQUE)
                continue;
            const struct ptx_op_info *o = ptx_op_info(i->op);
            struct flow w = {.b = b};
            ptx_inst_regs(i, prov_on_reg, &w);
            for (unsigned k = 0; k < i->nopnd; k++)
                w.in |= named(b, i, &i->opnd[k]);
            if (o->flags & (PTX_F_WRITES | PTX_F_CALL)) {
                /* `in` also has the address: take only the sets of the value operands */
                uint64_t value = 0;
                for (unsigned k = 0; k < i->nopnd; k++) {
                    const struct ptx_opnd *q = &i->opnd[k];
                    if (q->kind == PTX_O_REG && q->reg < f->nreg)
                        value |= b->prov[q->reg];
                    for (unsigned j = 0; q->kind == PTX_O_VEC && j < q->n; j++)
                        if (q->elem[j].kind == PTX_O_REG && q->elem[j].reg < f->nreg)
                            value |= b->prov[q->elem[j].reg];
                }
                if ((b->stored_prov | value) != b->stored_prov) {
                    b->stored_prov |= value;
                    changed = true;
                }
            }
            if (o->flags & (PTX_F_READS | PTX_F_CALL)) {
                const struct ptx_opnd *p = o->addr_opnd >= 0 && o->addr_opnd < i->nopnd ? &i->opnd[o->addr_opnd] : NULL;
                if (p && i->space == PTX_PARAM && p->kind == PTX_O_ADDR && p->base_kind == PTX_O_VAR)
                    w.out = named(b, i, p) | b->stored_prov;
                else
                    w.out = b->stored_prov;
            } else {
                w.out = w.in;
            }
            w.give = true;
            ptx_inst_regs(i, prov_on_reg, &w);
            changed |= w.changed;
        }
    } while (changed);
    return 0;
}

/* ---- module variables -------------------------------------------------------------------------------------------- */

struct derived {
    bool *reg;
    uint32_t nreg;
    bool in, give, changed;
};

static void on_derived(uint32_t reg, bool write, void *user)
{
    struct derived *d = user;
    if (reg >= d->nreg)
        return;
    if (!d->give && !write && d->reg[reg])
        d->in = true;
    if (d->give && write && !d->reg[reg])
        d->reg[reg] = d->changed = true;
}

static bool prov_names(const struct ptx_inst *i, const struct ptx_var *v)
{
    for (unsigned k = 0; k < i->nopnd; k++) {
        const struct ptx_opnd *o = &i->opnd[k];
        if ((o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)) && o->var == v)
            return true;
    }
    return false;
}

/* Does the function use the variable's address only, perhaps after arithmetic, as the address of loads? */
static bool only_loaded(const struct ptx_function *f, const struct ptx_var *v)
{
    bool used = false, ok = true;
    for (uint32_t n = 0; n < f->ninst && !used; n++)
        used = f->inst[n].op == PTX_OP_OPAQUE || prov_names(&f->inst[n], v);
    if (!used)
        return true;
    struct derived d = {.reg = dt_calloc((size_t)f->nreg + 1, 1), .nreg = f->nreg};
    if (!d.reg)
        return false;
    do {
        d.changed = false;
        for (uint32_t n = 0; n < f->ninst && ok; n++) {
            const struct ptx_inst *i = &f->inst[n];
            if (i->op == PTX_OP_OPAQUE) {
                ok = false;
                break;
            }
            if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS ||
                i->op == PTX_OP_CALLPROTO)
                continue;
            d.in = prov_names(i, v);
            d.give = false;
            ptx_inst_regs(i, on_derived, &d);
            if (!d.in)
                continue;
            unsigned flags = ptx_op_info(i->op)->flags;
            if (flags & (PTX_F_WRITES | PTX_F_CALL | PTX_F_ATOMIC)) {
                ok = false; /* the variable is stored to, or its address is stored or passed on */
            } else if (!(flags & PTX_F_READS)) {
                d.give = true;
                ptx_inst_regs(i, on_derived, &d);
            }
        }
    } while (ok && d.changed);
    free(d.reg);
    return ok;
}

static bool is_map_copy(const struct ptx_inst *i)
{
    return i->op == PTX_OP_CP_ASYNC_BULK_TENSOR || i->op == PTX_OP_CP_REDUCE_ASYNC_BULK_TENSOR ||
           i->op == PTX_OP_CP_ASYNC_BULK_PREFETCH_TENSOR || i->op == PTX_OP_PREFETCH;
}

/* Only where a copy has its map: another operand would be a number made of the address. */
static bool as_map(const struct ptx_inst *i, const struct derived *d)
{
    bool ok = true;
    for (unsigned k = 0; k < i->nopnd; k++) {
        const struct ptx_opnd *o = &i->opnd[k];
        ok &= !(o->kind == PTX_O_REG && o->reg < d->nreg && d->reg[o->reg]);
        bool more = o->kind == PTX_O_VEC || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG);
        for (unsigned x = 0; more && x < o->n; x++)
            ok &= !(o->elem[x].kind == PTX_O_REG && o->elem[x].reg < d->nreg && d->reg[o->elem[x].reg]);
    }
    return ok;
}

bool rw_map_only_named(const struct ptx_function *f, const struct ptx_var *v)
{
    struct derived d = {.reg = dt_calloc((size_t)f->nreg + 1, 1), .nreg = f->nreg};
    bool ok = d.reg != NULL;
    do {
        d.changed = false;
        for (uint32_t n = 0; n < f->ninst && ok; n++) {
            const struct ptx_inst *i = &f->inst[n];
            if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS ||
                i->op == PTX_OP_CALLPROTO)
                continue;
            d.in = i->op == PTX_OP_OPAQUE || prov_names(i, v);
            d.give = false;
            ptx_inst_regs(i, on_derived, &d);
            if (!d.in)
                continue;
            d.give = true;
            if (i->op == PTX_OP_MOV || i->op == PTX_OP_CVT || i->op == PTX_OP_CVTA)
                ptx_inst_regs(i, on_derived, &d);
            else
                ok = is_map_copy(i) && as_map(i, &d);
        }
    } while (ok && d.changed);
    free(d.reg);
    return ok;
}

bool rw_readonly_variable(const struct ptx_module *m, const struct ptx_var *v)
{
    for (uint32_t k = 0; k < m->nvar; k++)
        for (uint32_t j = 0; j < m->var[k]->nreloc; j++)
            if (m->var[k]->reloc[j].var == v)
                return false;
    for (uint32_t k = 0; k < m->nfunc; k++)
        if (m->func[k]->has_body && !only_loaded(m->func[k], v))
            return false;
    return v->nreloc == 0;
}
