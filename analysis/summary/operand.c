/* Operands of an instruction as forms, destinations, and loads.
 *
 * A register is its own form; constants, special registers and addresses of variables are made into one of the spare
 * forms of the walk (ana_sum.tmp). Loads are of parameters, whose addresses are named (ana_pointer), and of memory that
 * no launch changes; any other load ends the summary.
 */
#include <string.h>

#include "analysis/summary/inst-priv.h"

/* ---- operands ---------------------------------------------------------------------------------------------------- */
static void operand_special(struct ana_sum *s, const struct ptx_opnd *o, struct ana_form *f)
{
    const uint32_t *b = s->in->block, *g = s->in->grid;
    unsigned c = o->comp > 0 ? (unsigned)o->comp : 0;
    if (c > 2) { /* mov.v4: the fourth is 0 */
        memset(f->base, 0, s->n * sizeof *f->base);
        return;
    }
    switch (o->sreg) {
    case PTX_SR_TID: memcpy(f->base, s->tid[c], s->n * sizeof *f->base); return;
    case PTX_SR_NTID: LANES(f->base[l] = b[c]) return;
    case PTX_SR_NCTAID: LANES(f->base[l] = g[c]) return;
    case PTX_SR_LANEID: LANES(f->base[l] = l % 32) return;
    case PTX_SR_LANEMASK_EQ: LANES(f->base[l] = (int32_t)(1u << l % 32)) return;
    case PTX_SR_LANEMASK_LT: LANES(f->base[l] = (int32_t)((1u << l % 32) - 1)) return;
    case PTX_SR_LANEMASK_LE: LANES(f->base[l] = (int32_t)((2u << l % 32) - 1)) return;
    case PTX_SR_LANEMASK_GT: LANES(f->base[l] = (int32_t) ~((2u << l % 32) - 1)) return;
    case PTX_SR_LANEMASK_GE: LANES(f->base[l] = (int32_t) ~((1u << l % 32) - 1)) return;
    case PTX_SR_CTAID:
        LANES(f->base[l] = s->lo[c])
        if (s->ext[c] > 1)
            ana_form_flat(s, f, c, s->stride[c]);
        return;
    }
    ana_cannot(s, "a special register");
}

static void variable(struct ana_sum *s, const struct ptx_var *v, int64_t off, struct ana_form *f)
{
    const struct ptx_module *m = s->code->f->module;
    uint32_t k = 0;
    while (k < s->in->nvar && m->var[k] != v)
        k++;
    if (k == s->in->nvar || s->in->var_mem[k] == UINT32_MAX) {
        ana_cannot(s, "the address of a variable that is not global");
        return;
    }
    uint32_t *mem = ana_form_mem(s, f);
    LANES(f->base[l] = off; mem[l] = s->in->var_mem[k] + 1)
}

const struct ana_form *ana_operand(struct ana_sum *s, const struct ptx_opnd *o, unsigned bits, unsigned slot)
{
    struct ana_form *f = &s->tmp[slot];
    if (o->kind == PTX_O_REG && !o->neg)
        return &s->reg[o->reg];
    ana_form_number(f);
    if (o->kind == PTX_O_REG && s->code->f->reg[o->reg].type == PTX_PRED) {
        LANES(f->base[l] = !s->reg[o->reg].base[l])
    } else if (o->kind == PTX_O_IMM && !o->neg) {
        int64_t v = ana_canon(o->bits, bits);
        int64_t *to = f->base;
        LANES(to[l] = v)
    } else if (o->kind == PTX_O_SREG) {
        operand_special(s, o, f);
    } else if (o->kind == PTX_O_VAR) {
        variable(s, o->var, o->off, f);
    } else {
        ana_cannot(s, "an operand");
    }
    return f;
}

void ana_inst_number(struct ana_sum *s, const struct ana_form *x)
{
    for (uint32_t l = 0; x->points && l < s->n; l++)
        if (s->mask[l] && x->mem[l])
            ana_cannot(s, "arithmetic on the bits of an address");
}

void ana_inst_put(struct ana_sum *s, const struct ptx_opnd *o, const struct ana_form *v)
{
    if (o->kind == PTX_O_REG)
        ana_form_put(s, &s->reg[o->reg], v, s->bits[o->reg]);
    else if (o->kind != PTX_O_SINK)
        ana_cannot(s, "a destination");
}

/* From a canonical number to the integer of `bits` bits that it is. */
void ana_inst_extend(struct ana_sum *s, struct ana_form *v, unsigned bits, bool sign)
{
    const uint64_t cut = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    int64_t *to = v->base;
    if (!sign)
        LANES(to[l] = (int64_t)((uint64_t)to[l] & cut))
}

/* Steps as those of a number of `bits` bits. */
void ana_inst_cut_steps(struct ana_sum *s, struct ana_form *v, unsigned bits)
{
    for (unsigned m = v->dims; m; m &= m - 1) {
        unsigned d = (unsigned)__builtin_ctz(m);
        if (v->flat >> d & 1)
            ana_form_flat(s, v, d, ana_canon((uint64_t)v->step[d][0], bits));
        else
            LANES(v->step[d][l] = ana_canon((uint64_t)v->step[d][l], bits))
    }
}

/* A number of type `bits`, `sign`, that is put into a wider register is extended. */
void ana_inst_put_extended(struct ana_sum *s, const struct ptx_opnd *o, struct ana_form *v, unsigned bits, bool sign)
{
    if (o->kind == PTX_O_REG && s->bits[o->reg] > bits) {
        for (uint32_t l = 0; l < s->n; l++)
            v->base[l] = ana_canon((uint64_t)v->base[l], bits);
        ana_inst_cut_steps(s, v, bits);
        ana_fit(s, v, bits, sign);
        ana_inst_extend(s, v, bits, sign);
    }
    ana_inst_put(s, o, v);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static void load_param(struct ana_sum *s, const struct ptx_inst *i, const struct ptx_opnd *to, uint64_t at)
{
    unsigned bytes = ptx_type_bytes(i->type[0]);
    struct ana_form *out = &s->tmp[OUT];
    uint64_t v = 0;
    ana_form_number(out);
    if (at > s->in->param_bytes || s->in->param_bytes - at < bytes || bytes > 8) {
        ana_cannot(s, "a parameter");
        return;
    }
    memcpy(&v, s->in->param + at, bytes);
    for (uint32_t k = 0; k < s->in->npointer; k++) {
        const struct ana_pointer *p = &s->in->pointer[k];
        if (p->at + 8 <= at || at + bytes <= p->at)
            continue;
        if (p->at != at || bytes != 8) {
            ana_cannot(s, "a part of an address");
            return;
        }
        uint32_t *mem = ana_form_mem(s, out);
        LANES(out->base[l] = (int64_t)p->offset; mem[l] = p->mem + 1)
        ana_inst_put(s, to, out);
        return;
    }
    int64_t x = ana_canon(v, bytes * 8);
    x = (int64_t)ana_value(x, bytes * 8, ptx_type_is_signed(i->type[0]));
    int64_t *ob = out->base;
    LANES(ob[l] = x)
    ana_inst_put(s, to, out);
}

/* Content that no launch changes. */
static void operand_load(struct ana_sum *s, const struct ptx_inst *i, const struct ptx_opnd *a,
                         const struct ptx_opnd *to, int64_t off)
{
    unsigned bytes = ptx_type_bytes(i->type[0]);
    const struct ana_form *x;
    struct ana_form *out = &s->tmp[OUT];
    if (a->base_kind == PTX_O_REG) {
        x = &s->reg[a->reg];
    } else {
        ana_form_number(&s->tmp[A]);
        variable(s, a->var, 0, &s->tmp[A]);
        x = &s->tmp[A];
    }
    ana_hold(s, x);
    ana_form_number(out);
    for (uint32_t l = 0; l < s->n && !s->no; l++) {
        uint32_t mem = x->points ? x->mem[l] : 0;
        uint64_t at = (uint64_t)x->base[l] + (uint64_t)off, v = 0;
        if (!s->mask[l])
            continue;
        const struct ana_mem *m = mem ? &s->in->mem[mem - 1] : NULL;
        const uint8_t *data = m ? s->in->content(s->in->user, mem - 1) : NULL;
        if (!data || bytes > 8 || at > m->bytes || m->bytes - at < bytes || at % bytes) {
            ana_cannot(s, "a load");
            return;
        }
        memcpy(&v, data + at, bytes);
        out->base[l] = (int64_t)ana_value(ana_canon(v, bytes * 8), bytes * 8, ptx_type_is_signed(i->type[0]));
    }
    ana_inst_put(s, to, out);
}

void ana_inst_load(struct ana_sum *s, const struct ptx_inst *i)
{
    const struct ptx_opnd *a = &i->opnd[1], *to = &i->opnd[0];
    unsigned n = to->kind == PTX_O_VEC ? to->n : 1;
    uint64_t base = 0;
    if (a->kind != PTX_O_ADDR || a->base_kind == PTX_O_NONE || (i->space == PTX_PARAM && a->base_kind != PTX_O_VAR)) {
        ana_cannot(s, "an address");
        return;
    }
    if (i->space == PTX_PARAM) {
        uint32_t k = 0;
        while (k < s->code->f->nparam && s->code->f->param[k] != a->var)
            k++;
        if (k >= s->in->nparam) {
            ana_cannot(s, "a parameter");
            return;
        }
        base = s->in->param_offset[k] + (uint64_t)a->off;
    }
    if (n > 1 && a->base_kind == PTX_O_REG) /* an element must not be the address of the next */
        for (unsigned k = 0; k < n; k++)
            if (to->elem[k].kind == PTX_O_REG && to->elem[k].reg == a->reg)
                ana_cannot(s, "a load over its own address");
    for (unsigned k = 0; k < n && !s->no; k++) {
        const struct ptx_opnd *t = to->kind == PTX_O_VEC ? &to->elem[k] : to;
        unsigned at = k * ptx_type_bytes(i->type[0]);
        if (i->space == PTX_PARAM)
            load_param(s, i, t, base + at);
        else
            operand_load(s, i, a, t, a->off + at);
    }
}
