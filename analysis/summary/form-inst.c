/* What one instruction of a slice does to forms (form.c).
 *
 *   sums, products with a number that stands still, shifts to the left (prmt too), negations     keep a form
 *   division, rest, shift to the right, masks, all by a constant     take the digits of a form apart: with
 *                                                                    i = 256 b + t and t below 256, i / 256 is b and
 *                                                                    i % 256 is t
 *   comparisons                                                      decide for all rounds and blocks that are left
 *   all else                                                         is computed thread by thread from numbers that are
 *                                                                    made to stand still (ana_hold): one round, one
 *                                                                    block at a time
 *
 * The address of a buffer is an offset in it. It may be moved, compared with another address in the same buffer, and
 * chosen; arithmetic on its bits ends the summary. An instruction that is not here (floating point, loads of memory
 * that the kernel writes, exchange between threads) means that no summary is begun.
 */
#include <string.h>

#include "analysis/summary/inst-priv.h"

bool ana_inst_known(const struct ana_sum *s, const struct ptx_inst *i)
{
    (void)s;
    for (unsigned k = 0; k < i->ntype; k++)
        if (ptx_type_is_float(i->type[k]) && i->op != PTX_OP_MOV && i->op != PTX_OP_SELP)
            return false;
    switch (i->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU:
        return i->space == PTX_PARAM || i->space == PTX_GLOBAL || i->space == PTX_CONST || i->space == PTX_GENERIC;
    case PTX_OP_MOV:
    case PTX_OP_CVTA:
    case PTX_OP_ADD:
    case PTX_OP_SUB:
    case PTX_OP_MUL:
    case PTX_OP_MAD:
    case PTX_OP_DIV:
    case PTX_OP_REM:
    case PTX_OP_ABS:
    case PTX_OP_NEG:
    case PTX_OP_MIN:
    case PTX_OP_MAX:
    case PTX_OP_POPC:
    case PTX_OP_CLZ:
    case PTX_OP_BREV:
    case PTX_OP_BFE:
    case PTX_OP_BFI:
    case PTX_OP_SETP:
    case PTX_OP_SELP:
    case PTX_OP_AND:
    case PTX_OP_OR:
    case PTX_OP_XOR:
    case PTX_OP_NOT:
    case PTX_OP_LOP3:
    case PTX_OP_SHF:
    case PTX_OP_SHL:
    case PTX_OP_SHR:
    case PTX_OP_PRMT:
    case PTX_OP_CVT: return true;
    }
    return false;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */
static void set_predicate(struct ana_sum *s, const struct ptx_inst *i, unsigned bits)
{
    unsigned first = i->dst2 ? 2 : 1;
    enum ptx_mod cmp = ptx_mod_of(i, PTX_MC_CMP), join = ptx_mod_of(i, PTX_MC_BOOL);
    bool sign = ptx_type_is_signed(i->type[0]);
    const struct ptx_opnd *o = &i->opnd[first + 1];
    const struct ana_form *x = ana_operand(s, &i->opnd[first], bits, A), *y = ana_operand(s, o, bits, B);
    struct ana_form *out = &s->tmp[OUT];
    bool equal = cmp == PTX_M_EQ || cmp == PTX_M_NE,
         swap = cmp == PTX_M_GT || cmp == PTX_M_LE || cmp == PTX_M_HI || cmp == PTX_M_LS;
    bool negate = cmp == PTX_M_NE || cmp == PTX_M_LE || cmp == PTX_M_GE || cmp == PTX_M_LS || cmp == PTX_M_HS;
    if (cmp == PTX_M_LO || cmp == PTX_M_LS || cmp == PTX_M_HI || cmp == PTX_M_HS)
        sign = false;
    else if (!equal && cmp != PTX_M_LT && cmp != PTX_M_LE && cmp != PTX_M_GT && cmp != PTX_M_GE)
        ana_cannot(s, "a comparison");
    if (x->points && x->dims == 0 && equal && o->kind == PTX_O_IMM && !o->bits) { /* no buffer lies at address 0 */
        for (uint32_t l = 0; l < s->n; l++) {
            uint64_t at = (uint64_t)x->base[l];
            if (s->mask[l] && (!x->mem[l] || at > s->in->mem[x->mem[l] - 1].bytes))
                ana_cannot(s, "a comparison of an address");
            s->pred[l] = false;
        }
    } else {
        ana_compare(s, swap ? y : x, swap ? x : y, bits, sign, equal, s->pred);
    }
    const struct ana_form *z = join ? ana_operand(s, &i->opnd[first + 2], 8, C) : NULL;
    for (unsigned k = 0; k < first; k++) {
        ana_form_number(out);
        const uint8_t flip = (uint8_t)(negate ^ (k == 1));
        const uint8_t *pred = s->pred;
        int64_t *ob = out->base;
        LANES(ob[l] = pred[l] ^ flip)
        for (uint32_t l = 0; z && l < s->n; l++) {
            int64_t v = out->base[l], w = z->base[l];
            out->base[l] = join == PTX_M_AND ? v & w : join == PTX_M_OR ? v | w : v ^ w;
        }
        if (z && join != PTX_M_AND && join != PTX_M_OR && join != PTX_M_XOR)
            ana_cannot(s, "a comparison");
        if (k + 1 < first && z && i->opnd[k].kind == PTX_O_REG && i->opnd[first + 2].kind == PTX_O_REG &&
            i->opnd[first + 2].reg == i->opnd[k].reg)
            ana_cannot(s, "a comparison over its own operand");
        ana_inst_put(s, &i->opnd[k], out);
    }
}

static void convert(struct ana_sum *s, const struct ptx_inst *i)
{
    unsigned to = ptx_type_bytes(i->type[0]) * 8, from = ptx_type_bytes(i->type[1]) * 8;
    bool sign = i->ntype > 1 && ptx_type_is_signed(i->type[1]);
    if (i->ntype != 2 || i->nmod || i->nopnd != 2) {
        ana_cannot(s, "a conversion");
        return;
    }
    const struct ana_form *x = ana_operand(s, &i->opnd[1], from, A);
    struct ana_form *out = &s->tmp[OUT];
    if (x->points && to == 64 && from == 64) {
        ana_inst_put(s, &i->opnd[0], x);
        return;
    }
    ana_inst_number(s, x);
    ana_form_copy(s, out, x);
    unsigned have = i->opnd[1].kind == PTX_O_REG ? s->bits[i->opnd[1].reg] : 64;
    if (have > from) {
        int64_t *ob = out->base;
        LANES(ob[l] = ana_canon((uint64_t)ob[l], from))
        ana_inst_cut_steps(s, out, from);
    }
    if (to > from) {
        ana_fit(s, out, from, sign);
        ana_inst_extend(s, out, from, sign);
    }
    ana_inst_put_extended(s, &i->opnd[0], out, to, ptx_type_is_signed(i->type[0]));
}

static void move(struct ana_sum *s, const struct ptx_inst *i, unsigned bits)
{
    const struct ptx_opnd *d = &i->opnd[0], *x = &i->opnd[1];
    struct ana_form *out = &s->tmp[OUT];
    if (d->kind == PTX_O_VEC && x->kind == PTX_O_SREG) {
        for (unsigned k = 0; k < d->n; k++) {
            struct ptx_opnd o = *x;
            o.comp = (int8_t)k;
            ana_inst_put(s, &d->elem[k], ana_operand(s, &o, 32, A));
        }
    } else if (d->kind == PTX_O_VEC) { /* unpack */
        unsigned part = bits / (d->n ? d->n : 1);
        const struct ana_form *f = ana_operand(s, x, bits, A);
        ana_inst_number(s, f);
        for (unsigned k = 0; k < d->n; k++) {
            if (k)
                ana_hold(s, f); /* the low part needs no proof */
            ana_form_copy(s, out, f);
            if (k)
                ana_form_number(out);
            LANES(out->base[l] = ana_canon((uint64_t)f->base[l] >> k * part, part))
            if (k + 1 < d->n && x->kind == PTX_O_REG && d->elem[k].kind == PTX_O_REG && d->elem[k].reg == x->reg)
                ana_cannot(s, "a move over its own source");
            ana_inst_put(s, &d->elem[k], out);
        }
    } else if (x->kind == PTX_O_VEC) { /* pack */
        unsigned part = bits / (x->n ? x->n : 1);
        ana_form_number(out);
        LANES(out->base[l] = 0)
        for (unsigned k = 0; k < x->n; k++) {
            const struct ana_form *f = ana_operand(s, &x->elem[k], part, A);
            ana_inst_number(s, f);
            ana_hold(s, f);
            LANES(out->base[l] |= (int64_t)(bits_of(f->base[l], part) << k * part))
        }
        ana_inst_put(s, d, out);
    } else {
        ana_inst_put(s, d, ana_operand(s, x, bits, A));
    }
}

/* prmt whose upper bytes are the low ones of an operand, in their order, and whose other bytes stand still: a shift to
 * the left and a sum. So a compiler writes row * 256 + column. */
static bool place_bytes(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *const *x)
{
    struct ana_form *out = &s->tmp[OUT];
    const uint32_t sel = (uint32_t)x[2]->base[0];
    if (ana_moves(s, x[2]) || !ana_uniform(s, x[2]->base))
        return false;
    for (unsigned which = 0; which < 2; which++)
        for (unsigned low = 0; low < 4; low++) { /* bytes below it */
            bool good = true;
            for (unsigned k = 0; k < 4 && good; k++) {
                unsigned from = sel >> 4 * k & 15;
                good = k >= low ? from == 4 * which + k - low : !ana_moves(s, x[from >> 2 & 1]);
            }
            if (!good)
                continue;
            ana_inst_number(s, x[0]);
            ana_inst_number(s, x[1]);
            ana_form_copy(s, out, x[which]);
            for (uint32_t l = 0; l < s->n; l++) {
                uint64_t both = (uint64_t)(uint32_t)x[1]->base[l] << 32 | (uint32_t)x[0]->base[l];
                out->base[l] = (int64_t)(((uint64_t)x[which]->base[l] << 8 * low) +
                                         (ana_inst_prmt(both, sel) & ((UINT32_C(1) << 8 * low) - 1)));
            }
            for (unsigned m = out->dims; m; m &= m - 1) {
                unsigned d = (unsigned)__builtin_ctz(m);
                int64_t *step = ana_form_step(s, out, d);
                LANES(step[l] = (int64_t)((uint64_t)step[l] << 8 * low))
            }
            ana_inst_put(s, &i->opnd[0], out);
            return true;
        }
    return false;
}

static void shift_left(int64_t *v, const int64_t *by, unsigned bits, uint32_t n)
{
    for (uint32_t l = 0; l < n; l++)
        v[l] = (uint32_t)by[l] < bits ? (int64_t)((uint64_t)v[l] << (uint32_t)by[l]) : 0;
}

void ana_inst_run(struct ana_sum *s, const struct ptx_inst *i)
{
    unsigned bits = i->ntype ? i->type[0] == PTX_PRED ? 8 : ptx_type_bytes(i->type[0]) * 8 : 32, n = i->nopnd;
    bool sign = i->ntype && ptx_type_is_signed(i->type[0]);
    struct ana_form *out = &s->tmp[OUT];
    const struct ana_form *x[4];
    s->work += s->n;
    switch (i->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU: ana_inst_load(s, i); return;
    case PTX_OP_MOV: move(s, i, bits); return;
    case PTX_OP_CVT: convert(s, i); return;
    case PTX_OP_SETP: set_predicate(s, i, bits); return;
    }
    if (n < 2 || n > 5 || i->dst2 || ptx_has(i, PTX_M_CC) || ptx_has(i, PTX_M_SAT) || ptx_mod_of(i, PTX_MC_PRMT)) {
        ana_cannot(s, "an instruction's modifiers");
        return;
    }
    static const uint8_t slot[4] = {A, B, C, 5};
    for (unsigned k = 0; k + 1 < n; k++) {
        bool count = k && (i->op == PTX_OP_SHL || i->op == PTX_OP_SHR || (k > 1 && i->op == PTX_OP_SHF));
        x[k] = ana_operand(s, &i->opnd[k + 1], count || (k == 3 && i->op == PTX_OP_LOP3) ? 32 : bits, slot[k]);
    }
    if (s->no)
        return;
    switch (i->op) {
    case PTX_OP_CVTA: ana_inst_put(s, &i->opnd[0], x[0]); return;
    case PTX_OP_ADD:
    case PTX_OP_SUB: ana_inst_add(s, out, x[0], x[1], i->op == PTX_OP_ADD ? 1 : -1); break;
    case PTX_OP_NEG:
        ana_inst_number(s, x[0]);
        ana_form_number(&s->tmp[OTHER]);
        memset(s->tmp[OTHER].base, 0, s->n * sizeof(int64_t));
        ana_inst_add(s, out, &s->tmp[OTHER], x[0], -1);
        break;
    case PTX_OP_MUL:
    case PTX_OP_MAD: {
        bool wide = ptx_has(i, PTX_M_WIDE);
        if (ptx_has(i, PTX_M_HI))
            ana_inst_by_lane(s, i, x, 2, bits, sign);
        else
            ana_inst_multiply(s, out, x[0], x[1], wide, bits, sign);
        if (i->op == PTX_OP_MAD)
            ana_inst_add(s, out, out, x[2], 1);
        break;
    }
    case PTX_OP_SHL:
        ana_inst_number(s, x[0]);
        ana_hold(s, x[1]);
        ana_form_copy(s, out, x[0]);
        shift_left(out->base, x[1]->base, bits, s->n);
        for (unsigned m = out->dims, one = m && ana_uniform(s, x[1]->base); m; m &= m - 1) {
            unsigned d = (unsigned)__builtin_ctz(m);
            if (one && out->flat >> d & 1) {
                shift_left(out->step[d], x[1]->base, bits, 1);
                ana_form_flat(s, out, d, out->step[d][0]);
            } else {
                shift_left(ana_form_step(s, out, d), x[1]->base, bits, s->n);
            }
        }
        break;
    case PTX_OP_NOT:
        ana_inst_number(s, x[0]);
        if (i->type[0] == PTX_PRED) {
            ana_form_number(out);
            LANES(out->base[l] = !x[0]->base[l])
            break;
        }
        ana_form_number(&s->tmp[OTHER]);
        memset(s->tmp[OTHER].base, 0xff, s->n * sizeof(int64_t));
        ana_inst_add(s, out, &s->tmp[OTHER], x[0], -1);
        break;
    case PTX_OP_MIN:
    case PTX_OP_MAX:
        ana_inst_number(s, x[0]);
        ana_inst_number(s, x[1]);
        ana_compare(s, x[0], x[1], bits, sign, false, s->pred);
        ana_inst_choose(s, out, x[i->op == PTX_OP_MAX], x[i->op == PTX_OP_MIN], s->pred);
        break;
    case PTX_OP_SELP:
        LANES(s->pred[l] = x[2]->base[l] != 0)
        ana_inst_choose(s, out, x[0], x[1], s->pred);
        break;
    case PTX_OP_DIV:
    case PTX_OP_REM:
        ana_inst_number(s, x[0]);
        ana_inst_number(s, x[1]);
        if (ana_moves(s, x[0]) && ana_inst_divide(s, i, x[0], x[1], bits, sign))
            return;
        ana_inst_by_lane(s, i, x, 2, bits, sign);
        break;
    case PTX_OP_SHR:
        ana_inst_number(s, x[0]);
        if (ana_moves(s, x[0]) && ana_inst_shift_right(s, i, x[0], x[1], bits, sign))
            return;
        ana_inst_by_lane(s, i, x, 2, bits, sign);
        break;
    case PTX_OP_AND:
    case PTX_OP_OR:
    case PTX_OP_XOR:
        ana_inst_number(s, x[0]);
        ana_inst_number(s, x[1]);
        for (unsigned k = 0; k < 2 && i->type[0] != PTX_PRED && (ana_moves(s, x[0]) || ana_moves(s, x[1])); k++)
            if (i->op == PTX_OP_AND ? ana_inst_mask(s, i, x[k], x[!k], bits) : ana_inst_join(s, i, x[k], x[!k], bits))
                return;
        ana_inst_by_lane(s, i, x, 2, bits, sign);
        break;
    case PTX_OP_PRMT:
        if ((ana_moves(s, x[0]) || ana_moves(s, x[1])) && place_bytes(s, i, x))
            return;
        ana_inst_by_lane(s, i, x, 3, bits, sign);
        break;
    default: ana_inst_by_lane(s, i, x, n - 1, bits, sign);
    }
    ana_inst_put(s, &i->opnd[0], out);
}
