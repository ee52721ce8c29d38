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

#include "analysis/summary/summary-priv.h"

#define LANES(...)                                                                                                     \
    for (uint32_t l = 0, n_ = s->n; l < n_; l++) {                                                                     \
        __VA_ARGS__;                                                                                                   \
    }
enum { A, B, C, OUT, OTHER }; /* tmp[] */

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

/* ---- operands ---------------------------------------------------------------------------------------------------- */
static void special(struct ana_sum *s, const struct ptx_opnd *o, struct ana_form *f)
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
        special(s, o, f);
    } else if (o->kind == PTX_O_VAR) {
        variable(s, o->var, o->off, f);
    } else {
        ana_cannot(s, "an operand");
    }
    return f;
}

static void number(struct ana_sum *s, const struct ana_form *x)
{
    for (uint32_t l = 0; x->points && l < s->n; l++)
        if (s->mask[l] && x->mem[l])
            ana_cannot(s, "arithmetic on the bits of an address");
}

static void put(struct ana_sum *s, const struct ptx_opnd *o, const struct ana_form *v)
{
    if (o->kind == PTX_O_REG)
        ana_form_put(s, &s->reg[o->reg], v, s->bits[o->reg]);
    else if (o->kind != PTX_O_SINK)
        ana_cannot(s, "a destination");
}

/* From a canonical number to the integer of `bits` bits that it is. */
static void extend(struct ana_sum *s, struct ana_form *v, unsigned bits, bool sign)
{
    const uint64_t cut = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    int64_t *to = v->base;
    if (!sign)
        LANES(to[l] = (int64_t)((uint64_t)to[l] & cut))
}

/* Steps as those of a number of `bits` bits. */
static void cut_steps(struct ana_sum *s, struct ana_form *v, unsigned bits)
{
    for (unsigned m = v->dims; m; m &= m - 1) {
        unsigned d = (unsigned)__builtin_ctz(m);
        if (v->flat >> d & 1)
            ana_form_flat(s, v, d, ana_canon((uint64_t)v->step[d][0], bits));
        else
            LANES(v->step[d][l] = ana_canon((uint64_t)v->step[d][l], bits))
    }
}

/* The steps of x in dimension d: NULL where they are the same in all lanes, and *ret is it. */
static const int64_t *steps(const struct ana_form *x, unsigned d, uint64_t *ret)
{
    bool there = x->dims >> d & 1, one = !there || x->flat >> d & 1;
    *ret = there && one ? (uint64_t)x->step[d][0] : 0;
    return one ? NULL : x->step[d];
}

/* A number of type `bits`, `sign`, that is put into a wider register is extended. */
static void put_extended(struct ana_sum *s, const struct ptx_opnd *o, struct ana_form *v, unsigned bits, bool sign)
{
    if (o->kind == PTX_O_REG && s->bits[o->reg] > bits) {
        for (uint32_t l = 0; l < s->n; l++)
            v->base[l] = ana_canon((uint64_t)v->base[l], bits);
        cut_steps(s, v, bits);
        ana_fit(s, v, bits, sign);
        extend(s, v, bits, sign);
    }
    put(s, o, v);
}

/* ---- arithmetic that keeps forms --------------------------------------------------------------------------------- */
/* out = x + f * y; out may be x. */
static void add(struct ana_sum *s, struct ana_form *out, const struct ana_form *x, const struct ana_form *y, int f)
{
    bool xp = x->points, yp = y->points;
    uint32_t *mem = NULL;
    if (out != x)
        ana_form_number(out);
    if (xp || yp)
        mem = ana_form_mem(s, out);
    for (uint32_t l = 0; l < s->n && mem; l++) {
        uint32_t a = xp ? x->mem[l] : 0, b = yp ? y->mem[l] : 0;
        if (s->mask[l] && b && (f > 0 ? a != 0 : a != b))
            ana_cannot(s, "arithmetic on the bits of an address");
        mem[l] = f > 0 ? a | b : b ? 0 : a;
    }
    /* the compiler takes every store for one that may change s and the forms */
    const int64_t *xb = x->base, *yb = y->base;
    int64_t *ob = out->base;
    if (f > 0)
        LANES(ob[l] = (int64_t)((uint64_t)xb[l] + (uint64_t)yb[l]))
    else
        LANES(ob[l] = (int64_t)((uint64_t)xb[l] - (uint64_t)yb[l]))
    for (unsigned d = 0; d < ANA_DIMS; d++) {
        if (!((x->dims | y->dims) >> d & 1))
            continue;
        uint64_t a, b;
        const int64_t *p = steps(x, d, &a), *q = steps(y, d, &b);
        if (!p && !q) {
            ana_form_flat(s, out, d, (int64_t)(a + (uint64_t)(int64_t)f * b));
            continue;
        }
        int64_t *to = ana_form_step(s, out, d);
        LANES(to[l] = (int64_t)((p ? (uint64_t)p[l] : a) + (uint64_t)(int64_t)f * (q ? (uint64_t)q[l] : b)))
    }
}

/* out = x * y modulo two to the 64; one of them is made to stand still. wide: they are integers of `bits` bits. */
static void multiply(struct ana_sum *s, struct ana_form *out, const struct ana_form *x, const struct ana_form *y,
                     bool wide, unsigned bits, bool sign)
{
    number(s, x);
    number(s, y);
    ana_form_number(out);
    if (wide) {
        ana_fit(s, x, bits, sign);
        ana_fit(s, y, bits, sign);
    }
    if (ana_moves(s, x) && ana_moves(s, y))
        ana_hold(s, y);
    if (ana_moves(s, y)) {
        const struct ana_form *z = x;
        x = y, y = z;
    }
    /* modulo two to the 64 all the same */
    const uint64_t cut = wide && !sign && bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    const bool one = x->dims && ana_uniform(s, y->base);
    const int64_t *xb = x->base, *yb = y->base;
    int64_t *ob = out->base;
    LANES(ob[l] = (int64_t)(((uint64_t)xb[l] & cut) * ((uint64_t)yb[l] & cut)))
    for (unsigned d = 0; d < ANA_DIMS; d++) {
        if (!(x->dims >> d & 1))
            continue;
        uint64_t a;
        const int64_t *p = steps(x, d, &a);
        if (!p && one) {
            ana_form_flat(s, out, d, (int64_t)(a * ((uint64_t)y->base[0] & cut)));
            continue;
        }
        int64_t *to = ana_form_step(s, out, d);
        LANES(to[l] = (int64_t)((p ? (uint64_t)p[l] : a) * ((uint64_t)yb[l] & cut)))
    }
}

static void choose(struct ana_sum *s, struct ana_form *out, const struct ana_form *x, const struct ana_form *y,
                   const uint8_t *first)
{
    ana_form_number(out);
    const int64_t *xb = x->base, *yb = y->base;
    int64_t *ob = out->base;
    LANES(ob[l] = first[l] ? xb[l] : yb[l])
    for (unsigned d = 0; d < ANA_DIMS; d++) {
        if (!((x->dims | y->dims) >> d & 1))
            continue;
        uint64_t a, b;
        const int64_t *p = steps(x, d, &a), *q = steps(y, d, &b);
        if (!p && !q && a == b) {
            ana_form_flat(s, out, d, (int64_t)a);
            continue;
        }
        int64_t *to = ana_form_step(s, out, d);
        LANES(to[l] = first[l] ? p ? p[l] : (int64_t)a : q ? q[l] : (int64_t)b)
    }
    if (x->points || y->points) {
        uint32_t *mem = ana_form_mem(s, out);
        LANES(mem[l] = first[l] ? x->points ? x->mem[l] : 0 : y->points ? y->mem[l] : 0)
    }
}

/* ---- digits ------------------------------------------------------------------------------------------------------ */
/* Do all lanes hold a number >= 1? Into c. */
static bool positive(struct ana_sum *s, const struct ana_form *y, unsigned bits, bool sign, int64_t *c)
{
    for (uint32_t l = 0; l < s->n; l++) {
        __int128 v = ana_value(y->base[l], bits, sign);
        if (s->mask[l] && (v < 1 || v > INT64_MAX))
            return false;
        c[l] = (int64_t)v;
    }
    return true;
}

static bool divide(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x, const struct ana_form *y,
                   unsigned bits, bool sign)
{
    struct ana_form *out = &s->tmp[OUT];
    if (ana_moves(s, y) || !positive(s, y, bits, sign, s->tmp[OTHER].base) ||
        !ana_digits(s, x, s->tmp[OTHER].base, bits, sign, i->op == PTX_OP_DIV ? out : NULL,
                    i->op == PTX_OP_REM ? out : NULL))
        return false;
    put(s, &i->opnd[0], out);
    return true;
}

static bool shift_right(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x, const struct ana_form *y,
                        unsigned bits, bool sign)
{
    int64_t *c = s->tmp[OTHER].base;
    for (uint32_t l = 0; l < s->n; l++) {
        uint32_t by = (uint32_t)y->base[l];
        if (s->mask[l] && (by >= bits || by > 62))
            return false;
        c[l] = INT64_C(1) << (by < 63 ? by : 0);
    }
    if (ana_moves(s, y) || !ana_digits(s, x, c, bits, sign, &s->tmp[OUT], NULL))
        return false;
    put(s, &i->opnd[0], &s->tmp[OUT]);
    return true;
}

/* Bits of x in lane l that are 0 in all rounds and blocks: those below the lowest that is set anywhere. */
static uint64_t zeros_below(const struct ana_sum *s, const struct ana_form *x, uint32_t l)
{
    uint64_t all = (uint64_t)x->base[l];
    for (unsigned d = 0; d < ANA_DIMS; d++)
        if (x->dims >> d & 1 && ana_count(s, d, l) > 1)
            all |= (uint64_t)ana_step(x, d, l);
    return (all & (~all + 1)) - 1; /* all 0: all ones */
}

/* and with 2^j - 1, or with all but these bits; bits that x does not have may be missing from the mask. */
static bool mask_bits(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x, const struct ana_form *y,
                      unsigned bits)
{
    int64_t *c = s->tmp[OTHER].base;
    int low = -1;
    if (ana_moves(s, y))
        return false;
    for (uint32_t l = 0; l < s->n; l++) {
        c[l] = 1;
        if (!s->mask[l])
            continue;
        bool is_low = y->base[l] >= 0;
        uint64_t none = zeros_below(s, x, l),
                 some = (uint64_t)y->base[l] | (none & (((uint64_t)y->base[l] & (~(uint64_t)y->base[l] + 1)) - 1));
        uint64_t v = is_low ? (y->base[l] ? some + 1 : 1) : (uint64_t)0 - (uint64_t)y->base[l];
        if (!v || v & (v - 1) || v > (UINT64_C(1) << 62) || (low >= 0 && low != is_low))
            return false;
        low = is_low;
        c[l] = (int64_t)v;
    }
    struct ana_form *rest = &s->tmp[OUT];
    if (!ana_digits(s, x, c, bits, true, NULL, rest))
        return false;
    if (low == 0)
        add(s, &s->tmp[OTHER], x, rest, -1);
    put(s, &i->opnd[0], low == 0 ? &s->tmp[OTHER] : rest);
    return true;
}

/* or, xor of numbers that share no bit: all of y lies below the lowest bit of x that may be set. */
static bool join_bits(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x, const struct ana_form *y,
                      unsigned bits)
{
    for (uint32_t l = 0; l < s->n; l++) {
        if (s->mask[l] && ana_value(y->base[l], bits, false) > zeros_below(s, x, l))
            return false;
    }
    ana_fit(s, y, bits, false);
    for (uint32_t l = 0; l < s->n; l++) {
        int64_t step[ANA_DIMS] = {0};
        if (!s->mask[l])
            continue;
        for (unsigned d = 0; d < ANA_DIMS; d++)
            step[d] = y->dims >> d & 1 ? ana_step(y, d, l) : 0;
        ana_bound(s, l, ana_value(y->base[l], bits, false), step, y->dims, 0, zeros_below(s, x, l));
    }
    add(s, &s->tmp[OUT], x, y, 1);
    put(s, &i->opnd[0], &s->tmp[OUT]);
    return true;
}

/* ---- lane by lane ------------------------------------------------------------------------------------------------ */
static uint64_t bits_of(int64_t v, unsigned bits) { return (uint64_t)v & (UINT64_MAX >> (64 - bits)); }

static uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, unsigned table)
{
    uint32_t r = 0;
    for (unsigned k = 0; k < 8; k++)
        if (table >> k & 1)
            r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return r;
}

static uint32_t prmt(uint64_t ab, uint32_t sel)
{
    uint32_t r = 0;
    for (unsigned k = 0; k < 4; k++) {
        unsigned n = sel >> 4 * k & 15;
        uint32_t byte = (uint32_t)(ab >> 8 * (n & 7)) & 0xff;
        if (n & 8)
            byte = byte & 0x80 ? 0xff : 0;
        r |= byte << 8 * k;
    }
    return r;
}

static uint64_t bfe(const struct ptx_inst *i, int64_t a, unsigned pos, unsigned len, unsigned bits)
{
    bool sign = ptx_type_is_signed(i->type[0]);
    uint64_t v = bits_of(a, bits), r = 0, fill = 0;
    pos &= 0xff, len &= 0xff;
    if (sign && len)
        fill = v >> (pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1) & 1;
    for (unsigned k = 0; k < bits; k++)
        r |= (uint64_t)(k < len && pos + k < bits ? v >> (pos + k) & 1 : fill) << k;
    return r;
}

static uint64_t bfi(uint64_t a, uint64_t b, unsigned pos, unsigned len, unsigned bits)
{
    pos &= 0xff, len &= 0xff;
    for (unsigned k = 0; k < len && pos + k < bits; k++)
        b = (b & ~(UINT64_C(1) << (pos + k))) | (a >> k & 1) << (pos + k);
    return b;
}

/* v, of `bits` bits; what the manual leaves open (division by 0) ends the summary. */
static int64_t one(struct ana_sum *s, const struct ptx_inst *i, const int64_t *v, unsigned bits, bool sign)
{
    __int128 a = ana_value(v[0], bits, sign), b = ana_value(v[1], bits, sign);
    uint32_t by = (uint32_t)v[1];
    switch (i->op) {
    case PTX_OP_DIV:
    case PTX_OP_REM:
        if (!b || (sign && b == -1 && a == -((__int128)1 << (bits - 1)))) {
            ana_cannot(s, "a division that is not defined");
            return 0;
        }
        return (int64_t)(i->op == PTX_OP_DIV ? a / b : a % b);
    case PTX_OP_MUL:
    case PTX_OP_MAD: /* .hi */
        return bits == 64 && !sign ? (int64_t)(((unsigned __int128)(uint64_t)v[0] * (uint64_t)v[1]) >> 64)
                                   : (int64_t)((a * b) >> bits);
    case PTX_OP_ABS: return (int64_t)(a < 0 ? -(uint64_t)v[0] : (uint64_t)v[0]);
    case PTX_OP_POPC: return __builtin_popcountll(bits_of(v[0], bits));
    case PTX_OP_CLZ: return bits_of(v[0], bits) ? __builtin_clzll(bits_of(v[0], bits)) - (int)(64 - bits) : (int)bits;
    case PTX_OP_BREV: {
        uint64_t r = 0;
        for (unsigned k = 0; k < bits; k++)
            r |= (bits_of(v[0], bits) >> k & 1) << (bits - 1 - k);
        return (int64_t)r;
    }
    case PTX_OP_BFE: return (int64_t)bfe(i, v[0], (unsigned)v[1], (unsigned)v[2], bits);
    case PTX_OP_BFI:
        return (int64_t)bfi(bits_of(v[0], bits), bits_of(v[1], bits), (unsigned)v[2], (unsigned)v[3], bits);
    case PTX_OP_AND: return v[0] & v[1];
    case PTX_OP_OR: return v[0] | v[1];
    case PTX_OP_XOR: return v[0] ^ v[1];
    case PTX_OP_LOP3: return lop3((uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2], (unsigned)v[3]);
    case PTX_OP_PRMT: return prmt((uint64_t)(uint32_t)v[1] << 32 | (uint32_t)v[0], (uint32_t)v[2]);
    case PTX_OP_SHR:
        if (sign)
            return (int64_t)(a >> (by < bits ? by : bits - 1));
        return by < bits ? (int64_t)((uint64_t)a >> by) : 0;
    case PTX_OP_SHF: {
        uint64_t x = (uint64_t)(uint32_t)v[1] << 32 | (uint32_t)v[0];
        by = (uint32_t)v[2];
        by = ptx_has(i, PTX_M_WRAP) ? by & 31 : by > 32 ? 32 : by;
        return (int64_t)(ptx_has(i, PTX_M_L) ? by == 32 ? x & UINT32_MAX : x << by >> 32 : x >> by);
    }
    }
    ana_cannot(s, "an instruction");
    return 0;
}

/* What one() says, for all lanes in one loop: the commonest. */
static bool at_once(struct ana_sum *s, const struct ptx_inst *i, const int64_t *x, const int64_t *y, unsigned bits,
                    bool sign)
{
    const uint64_t cut = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    int64_t *out = s->tmp[OUT].base;
    if (i->op == PTX_OP_AND)
        LANES(out[l] = x[l] & y[l])
    else if (i->op == PTX_OP_OR)
        LANES(out[l] = x[l] | y[l])
    else if (i->op == PTX_OP_XOR)
        LANES(out[l] = x[l] ^ y[l])
    else if (i->op == PTX_OP_SHR && sign)
        LANES(out[l] = x[l] >> ((uint32_t)y[l] < bits ? (uint32_t)y[l] : bits - 1))
    else if (i->op == PTX_OP_SHR)
        LANES(out[l] = (uint32_t)y[l] < bits ? (int64_t)(((uint64_t)x[l] & cut) >> (uint32_t)y[l]) : 0)
    else
        return false;
    return true;
}

static void lane_by_lane(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *const *x, unsigned n,
                         unsigned bits, bool sign)
{
    struct ana_form *out = &s->tmp[OUT];
    for (unsigned k = 0; k < n; k++) {
        number(s, x[k]);
        ana_hold(s, x[k]);
    }
    ana_form_number(out);
    if (n == 2 && at_once(s, i, x[0]->base, x[1]->base, bits, sign))
        return;
    for (uint32_t l = 0; l < s->n && !s->no; l++) {
        int64_t v[4] = {0};
        if (!s->mask[l])
            continue;
        for (unsigned k = 0; k < n; k++)
            v[k] = x[k]->base[l];
        out->base[l] = one(s, i, v, bits, sign);
    }
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
        put(s, to, out);
        return;
    }
    int64_t x = ana_canon(v, bytes * 8);
    x = (int64_t)ana_value(x, bytes * 8, ptx_type_is_signed(i->type[0]));
    int64_t *ob = out->base;
    LANES(ob[l] = x)
    put(s, to, out);
}

/* Content that no launch changes. */
static void load(struct ana_sum *s, const struct ptx_inst *i, const struct ptx_opnd *a, const struct ptx_opnd *to,
                 int64_t off)
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
    put(s, to, out);
}

static void load_inst(struct ana_sum *s, const struct ptx_inst *i)
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
            load(s, i, a, t, a->off + at);
    }
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
        put(s, &i->opnd[k], out);
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
        put(s, &i->opnd[0], x);
        return;
    }
    number(s, x);
    ana_form_copy(s, out, x);
    unsigned have = i->opnd[1].kind == PTX_O_REG ? s->bits[i->opnd[1].reg] : 64;
    if (have > from) {
        int64_t *ob = out->base;
        LANES(ob[l] = ana_canon((uint64_t)ob[l], from))
        cut_steps(s, out, from);
    }
    if (to > from) {
        ana_fit(s, out, from, sign);
        extend(s, out, from, sign);
    }
    put_extended(s, &i->opnd[0], out, to, ptx_type_is_signed(i->type[0]));
}

static void move(struct ana_sum *s, const struct ptx_inst *i, unsigned bits)
{
    const struct ptx_opnd *d = &i->opnd[0], *x = &i->opnd[1];
    struct ana_form *out = &s->tmp[OUT];
    if (d->kind == PTX_O_VEC && x->kind == PTX_O_SREG) {
        for (unsigned k = 0; k < d->n; k++) {
            struct ptx_opnd o = *x;
            o.comp = (int8_t)k;
            put(s, &d->elem[k], ana_operand(s, &o, 32, A));
        }
    } else if (d->kind == PTX_O_VEC) { /* unpack */
        unsigned part = bits / (d->n ? d->n : 1);
        const struct ana_form *f = ana_operand(s, x, bits, A);
        number(s, f);
        for (unsigned k = 0; k < d->n; k++) {
            if (k)
                ana_hold(s, f); /* the low part needs no proof */
            ana_form_copy(s, out, f);
            if (k)
                ana_form_number(out);
            LANES(out->base[l] = ana_canon((uint64_t)f->base[l] >> k * part, part))
            if (k + 1 < d->n && x->kind == PTX_O_REG && d->elem[k].kind == PTX_O_REG && d->elem[k].reg == x->reg)
                ana_cannot(s, "a move over its own source");
            put(s, &d->elem[k], out);
        }
    } else if (x->kind == PTX_O_VEC) { /* pack */
        unsigned part = bits / (x->n ? x->n : 1);
        ana_form_number(out);
        LANES(out->base[l] = 0)
        for (unsigned k = 0; k < x->n; k++) {
            const struct ana_form *f = ana_operand(s, &x->elem[k], part, A);
            number(s, f);
            ana_hold(s, f);
            LANES(out->base[l] |= (int64_t)(bits_of(f->base[l], part) << k * part))
        }
        put(s, d, out);
    } else {
        put(s, d, ana_operand(s, x, bits, A));
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
            number(s, x[0]);
            number(s, x[1]);
            ana_form_copy(s, out, x[which]);
            for (uint32_t l = 0; l < s->n; l++) {
                uint64_t both = (uint64_t)(uint32_t)x[1]->base[l] << 32 | (uint32_t)x[0]->base[l];
                out->base[l] = (int64_t)(((uint64_t)x[which]->base[l] << 8 * low) +
                                         (prmt(both, sel) & ((UINT32_C(1) << 8 * low) - 1)));
            }
            for (unsigned m = out->dims; m; m &= m - 1) {
                unsigned d = (unsigned)__builtin_ctz(m);
                int64_t *step = ana_form_step(s, out, d);
                LANES(step[l] = (int64_t)((uint64_t)step[l] << 8 * low))
            }
            put(s, &i->opnd[0], out);
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
    case PTX_OP_LDU: load_inst(s, i); return;
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
    case PTX_OP_CVTA: put(s, &i->opnd[0], x[0]); return;
    case PTX_OP_ADD:
    case PTX_OP_SUB: add(s, out, x[0], x[1], i->op == PTX_OP_ADD ? 1 : -1); break;
    case PTX_OP_NEG:
        number(s, x[0]);
        ana_form_number(&s->tmp[OTHER]);
        memset(s->tmp[OTHER].base, 0, s->n * sizeof(int64_t));
        add(s, out, &s->tmp[OTHER], x[0], -1);
        break;
    case PTX_OP_MUL:
    case PTX_OP_MAD: {
        bool wide = ptx_has(i, PTX_M_WIDE);
        if (ptx_has(i, PTX_M_HI))
            lane_by_lane(s, i, x, 2, bits, sign);
        else
            multiply(s, out, x[0], x[1], wide, bits, sign);
        if (i->op == PTX_OP_MAD)
            add(s, out, out, x[2], 1);
        break;
    }
    case PTX_OP_SHL:
        number(s, x[0]);
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
        number(s, x[0]);
        if (i->type[0] == PTX_PRED) {
            ana_form_number(out);
            LANES(out->base[l] = !x[0]->base[l])
            break;
        }
        ana_form_number(&s->tmp[OTHER]);
        memset(s->tmp[OTHER].base, 0xff, s->n * sizeof(int64_t));
        add(s, out, &s->tmp[OTHER], x[0], -1);
        break;
    case PTX_OP_MIN:
    case PTX_OP_MAX:
        number(s, x[0]);
        number(s, x[1]);
        ana_compare(s, x[0], x[1], bits, sign, false, s->pred);
        choose(s, out, x[i->op == PTX_OP_MAX], x[i->op == PTX_OP_MIN], s->pred);
        break;
    case PTX_OP_SELP:
        LANES(s->pred[l] = x[2]->base[l] != 0)
        choose(s, out, x[0], x[1], s->pred);
        break;
    case PTX_OP_DIV:
    case PTX_OP_REM:
        number(s, x[0]);
        number(s, x[1]);
        if (ana_moves(s, x[0]) && divide(s, i, x[0], x[1], bits, sign))
            return;
        lane_by_lane(s, i, x, 2, bits, sign);
        break;
    case PTX_OP_SHR:
        number(s, x[0]);
        if (ana_moves(s, x[0]) && shift_right(s, i, x[0], x[1], bits, sign))
            return;
        lane_by_lane(s, i, x, 2, bits, sign);
        break;
    case PTX_OP_AND:
    case PTX_OP_OR:
    case PTX_OP_XOR:
        number(s, x[0]);
        number(s, x[1]);
        for (unsigned k = 0; k < 2 && i->type[0] != PTX_PRED && (ana_moves(s, x[0]) || ana_moves(s, x[1])); k++)
            if (i->op == PTX_OP_AND ? mask_bits(s, i, x[k], x[!k], bits) : join_bits(s, i, x[k], x[!k], bits))
                return;
        lane_by_lane(s, i, x, 2, bits, sign);
        break;
    case PTX_OP_PRMT:
        if ((ana_moves(s, x[0]) || ana_moves(s, x[1])) && place_bytes(s, i, x))
            return;
        lane_by_lane(s, i, x, 3, bits, sign);
        break;
    default: lane_by_lane(s, i, x, n - 1, bits, sign);
    }
    put(s, &i->opnd[0], out);
}
