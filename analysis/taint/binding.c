/* Pointer bits: numbers that change when the same launch is bound to other addresses (docs/LEGALITY.md §1.4).
 *
 * `p + 4 * i` is an address of p's own buffer: it moves with the buffer. `p >> 8` is a number that says where the
 * buffer lies: it must not decide what is touched, or the map would be another for another binding. An address that a
 * kernel makes of a pointer by adding what is the same in every binding is of the first sort; anything else made of a
 * pointer is of the second. Beside its taint each register has a kind, joined over everything that assigns it:
 *
 *   number   the same in every binding
 *   base     one pointer, plus a number
 *   bits     of pointers, where bit i depends on their bits up to i only: sums, products, and, or, the low half of a
 *            pointer
 *
 * What instructions make of them:
 *
 *   and with a constant below ALIGN       a number, if the buffer is aligned accordingly. The alignment is noted for
 *                                         the argument, and a plan assumes it
 *   base == 0, base != 0                  a number: buffers are somewhere
 *   base == base of the same argument     a number
 *   base or bits taken for an integer in any other way, and an address that is bits: data
 *
 * What goes through shared or local memory keeps its kind only as an 8-byte base.
 */
#include "analysis/taint/taint-priv.h"

#define NUMBER 1
#define BASE 2
#define BITS 4
#define ALIGN 256 /* what cuMemAlloc promises, and this project's buffers have */

/* A register's kind as one of them; 0: nothing has assigned it so far. */
static uint8_t binding_one(uint8_t k) { return k == (NUMBER | BASE) || k & BITS ? BITS : k; }

static uint8_t binding_kind_of(const struct ana_taint_state *s, const struct ptx_opnd *o)
{
    switch (o->kind) {
    case PTX_O_REG: return s->f->reg[o->reg].type == PTX_PRED ? NUMBER : binding_one(s->kind[o->reg]);
    case PTX_O_VAR: return o->var->space == PTX_GLOBAL || o->var->space == PTX_CONST ? BASE : NUMBER;
    case PTX_O_VEC: {
        uint8_t k = NUMBER;
        for (unsigned i = 0; i < o->n; i++) {
            uint8_t e = binding_kind_of(s, &o->elem[i]);
            if (!e)
                return 0;
            k = e > k ? e : k;
        }
        return k;
    }
    default: return NUMBER;
    }
}

static bool wide_integer(const struct ptx_inst *i, unsigned type)
{
    return type < i->ntype && ptx_type_bytes(i->type[type]) == 8 && !ptx_type_is_float(i->type[type]);
}

/* The one argument that both come from. */
static bool same_argument(struct ana_taint_state *s, const struct ptx_opnd *a, const struct ptx_opnd *b)
{
    uint32_t found = UINT32_MAX;
    if (a->kind != PTX_O_REG || b->kind != PTX_O_REG)
        return false;
    for (uint32_t i = 0; i <= s->unknown; i++) {
        if (has_bit(reg_prov(s, a->reg), i) != has_bit(reg_prov(s, b->reg), i))
            return false;
        if (has_bit(reg_prov(s, a->reg), i) && (i >= s->f->nparam || may_point(s, i))) {
            if (found != UINT32_MAX || i >= s->f->nparam)
                return false;
            found = i;
        }
    }
    return found != UINT32_MAX;
}

/* `x & mask`: a number, if the arguments that x may come from are aligned. */
static bool binding_aligned(struct ana_taint_state *s, const struct ptx_opnd *x, uint64_t mask)
{
    uint32_t need = 1;
    if (x->kind != PTX_O_REG || mask >= ALIGN)
        return false;
    while (need <= mask)
        need *= 2;
    for (uint32_t i = s->f->nparam; i <= s->unknown; i++)
        if (has_bit(reg_prov(s, x->reg), i) &&
            (i == s->unknown || !module_var(s, i) || module_var(s, i)->space == PTX_GLOBAL))
            return false;
    for (uint32_t i = 0; i < s->f->nparam; i++)
        if (has_bit(reg_prov(s, x->reg), i) && may_point(s, i) && s->align[i] < need) {
            s->align[i] = need;
            s->changed = true;
        }
    return true;
}

bool ana_binding_low(struct ana_taint_state *s, const struct ptx_inst *i)
{
    for (unsigned n = 1; n < 3 && i->nopnd == 3; n++)
        if (i->opnd[n].kind == PTX_O_IMM && i->ntype && i->type[0] != PTX_PRED &&
            binding_aligned(s, &i->opnd[3 - n], i->opnd[n].bits))
            return true;
    return false;
}

/* The kind of what the instruction gives; 0: an operand is not known yet; DATA in *lost: it takes pointer bits for an
 * integer. */
static uint8_t kind_of_result(struct ana_taint_state *s, const struct ptx_inst *i, uint8_t *lost)
{
    const struct ptx_op_info *op = ptx_op_info(i->op);
    uint8_t k[4] = {NUMBER, NUMBER, NUMBER, NUMBER}, most = NUMBER;
    bool vec = false;
    for (unsigned n = 0; n < i->nopnd; n++) {
        vec |= i->opnd[n].kind == PTX_O_VEC;
        if (!n && !(op->flags & PTX_F_NODST))
            continue;
        if (n == 1 && i->dst2)
            continue;
        uint8_t x = binding_kind_of(s, &i->opnd[n]);
        if (!x)
            return 0;
        if (n < 4)
            k[n] = x;
        most = x > most ? x : most;
    }
    if (most == NUMBER)
        return NUMBER;
    bool low = !ptx_has(i, PTX_M_HI) && !ptx_has(i, PTX_M_CC), integer = i->ntype && !ptx_type_is_float(i->type[0]);
    switch (i->op) {
    case PTX_OP_MOV:
        if (!vec)
            return most;
        break;
    case PTX_OP_CVTA: return most;
    case PTX_OP_CVT:
        if (wide_integer(i, 0) && wide_integer(i, 1) && !i->nmod)
            return most;
        if (integer && i->ntype > 1 && !ptx_type_is_float(i->type[1]) && !ptx_has(i, PTX_M_SAT))
            return BITS;
        break;
    case PTX_OP_ADD:
        if (integer && low && !ptx_has(i, PTX_M_SAT))
            return k[1] + k[2] == BASE + NUMBER ? BASE : BITS;
        break;
    case PTX_OP_SUB:
        if (integer && low && !ptx_has(i, PTX_M_SAT))
            return k[1] == BASE && k[2] == NUMBER ? BASE : BITS;
        break;
    case PTX_OP_MAD:
        if (integer && low && !ptx_has(i, PTX_M_SAT))
            return k[1] == NUMBER && k[2] == NUMBER && k[3] == BASE ? BASE : BITS;
        break;
    case PTX_OP_MUL:
        if (integer && low)
            return BITS;
        break;
    case PTX_OP_AND: return ana_binding_low(s, i) ? NUMBER : BITS;
    case PTX_OP_OR:
    case PTX_OP_XOR:
    case PTX_OP_NOT:
    case PTX_OP_SHL:
        if (i->op != PTX_OP_SHL || k[2] == NUMBER)
            return BITS;
        break;
    case PTX_OP_SELP: return most;
    case PTX_OP_ISSPACEP: return NUMBER;
    case PTX_OP_SETP: {
        const struct ptx_opnd *a = &i->opnd[i->dst2 ? 2 : 1], *b = a + 1;
        if (!ptx_has(i, PTX_M_EQ) && !ptx_has(i, PTX_M_NE))
            break;
        if ((binding_kind_of(s, a) == BASE && b->kind == PTX_O_IMM && !b->bits) ||
            (binding_kind_of(s, b) == BASE && a->kind == PTX_O_IMM && !a->bits))
            return NUMBER;
        if (binding_kind_of(s, a) == BASE && binding_kind_of(s, b) == BASE && same_argument(s, a, b))
            return NUMBER;
        break;
    }
    default: break;
    }
    *lost = DATA;
    return NUMBER;
}

struct give {
    struct ana_taint_state *s;
    uint8_t kind;
};

static void give(uint32_t r, bool write, void *user)
{
    struct give *g = user;
    if (!write || (g->s->kind[r] | g->kind) == g->s->kind[r])
        return;
    g->s->kind[r] |= g->kind;
    g->s->changed = true;
}

uint8_t ana_binding(struct ana_taint_state *s, const struct ptx_inst *i)
{
    uint8_t lost = NONE;
    struct give g = {s, kind_of_result(s, i, &lost)};
    ptx_inst_regs(i, give, &g);
    return lost;
}

/* Is there a pointer at these bytes of the argument? */
static bool pointer_at(const struct ana_taint_state *s, uint32_t param, int64_t at)
{
    const struct dt_arg *a = s->in->arg && param < s->in->nparam ? &s->in->arg[param] : NULL;
    if (!may_point(s, param))
        return false;
    if (!a || a->kind != DT_ARG_BYTES || at < 0)
        return true;
    for (uint32_t k = 0; k < a->npointer; k++)
        if (a->pointer[k].at == (uint64_t)at)
            return true;
    return false;
}

uint8_t ana_binding_load(struct ana_taint_state *s, const struct ptx_inst *i, const uint64_t *from, const uint64_t *out)
{
    const struct ptx_opnd *o = &i->opnd[1];
    unsigned bytes = ptx_type_bytes(i->type[0]), n = i->vec ? i->vec : 1;
    uint8_t lost = NONE;
    struct give g = {s, NUMBER};
    if (i->space == PTX_PARAM && s->f->is_entry) {
        for (uint32_t b = 0; b < s->f->nparam; b++) {
            if (!has_bit(from, b) || !may_point(s, b))
                continue;
            if (o->kind != PTX_O_ADDR || o->base_kind != PTX_O_VAR) { /* somewhere in it */
                lost = DATA;
                continue;
            }
            for (unsigned k = 0; k < n; k++)
                if (bytes == 8 && pointer_at(s, b, o->off + k * 8))
                    g.kind = BASE;
            for (int64_t k = 0; bytes < 8 && k < (int64_t)bytes * n; k++)
                if (pointer_at(s, b, (o->off + k) & ~INT64_C(7)))
                    lost = DATA; /* a piece of a pointer */
        }
    } else if (i->space == PTX_SHARED || i->space == PTX_LOCAL || i->space == PTX_GENERIC) {
        for (uint32_t b = 0; b < s->f->nparam; b++)
            if (has_bit(out, b) && may_point(s, b)) {
                if (bytes == 8 && !ptx_type_is_float(i->type[0]))
                    g.kind = BASE;
                else
                    lost = DATA;
            }
    }
    ptx_inst_regs(i, give, &g);
    return lost;
}

bool ana_binding_bits(const struct ana_taint_state *s, const struct ptx_opnd *o)
{
    if (o->kind == PTX_O_ADDR)
        return o->base_kind == PTX_O_REG && binding_one(s->kind[o->reg]) == BITS;
    return binding_kind_of(s, o) == BITS;
}
