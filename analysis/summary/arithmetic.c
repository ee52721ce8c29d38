/* Arithmetic on forms.
 *
 * Three sorts, tried in this order by form-inst.c: sums, products and choices keep forms as they are; division, rest,
 * shift to the right and masks by a constant take the digits of a form apart; everything else is computed lane by lane
 * from numbers that are made to stand still. A result that PTX does not define (division by zero) ends the summary.
 */
#include "analysis/summary/inst-priv.h"

/* The steps of x in dimension d: NULL where they are the same in all lanes, and *ret is it. */
static const int64_t *steps(const struct ana_form *x, unsigned d, uint64_t *ret)
{
    bool there = x->dims >> d & 1, one = !there || x->flat >> d & 1;
    *ret = there && one ? (uint64_t)x->step[d][0] : 0;
    return one ? NULL : x->step[d];
}

/* ---- arithmetic that keeps forms --------------------------------------------------------------------------------- */
/* out = x + f * y; out may be x. */
void ana_inst_add(struct ana_sum *s, struct ana_form *out, const struct ana_form *x, const struct ana_form *y, int f)
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
void ana_inst_multiply(struct ana_sum *s, struct ana_form *out, const struct ana_form *x, const struct ana_form *y,
                       bool wide, unsigned bits, bool sign)
{
    ana_inst_number(s, x);
    ana_inst_number(s, y);
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

void ana_inst_choose(struct ana_sum *s, struct ana_form *out, const struct ana_form *x, const struct ana_form *y,
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

bool ana_inst_divide(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x, const struct ana_form *y,
                     unsigned bits, bool sign)
{
    struct ana_form *out = &s->tmp[OUT];
    if (ana_moves(s, y) || !positive(s, y, bits, sign, s->tmp[OTHER].base) ||
        !ana_digits(s, x, s->tmp[OTHER].base, bits, sign, i->op == PTX_OP_DIV ? out : NULL,
                    i->op == PTX_OP_REM ? out : NULL))
        return false;
    ana_inst_put(s, &i->opnd[0], out);
    return true;
}

bool ana_inst_shift_right(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x,
                          const struct ana_form *y, unsigned bits, bool sign)
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
    ana_inst_put(s, &i->opnd[0], &s->tmp[OUT]);
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
bool ana_inst_mask(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x, const struct ana_form *y,
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
        ana_inst_add(s, &s->tmp[OTHER], x, rest, -1);
    ana_inst_put(s, &i->opnd[0], low == 0 ? &s->tmp[OTHER] : rest);
    return true;
}

/* or, xor of numbers that share no bit: all of y lies below the lowest bit of x that may be set. */
bool ana_inst_join(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *x, const struct ana_form *y,
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
    ana_inst_add(s, &s->tmp[OUT], x, y, 1);
    ana_inst_put(s, &i->opnd[0], &s->tmp[OUT]);
    return true;
}

/* ---- lane by lane ------------------------------------------------------------------------------------------------ */
static uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, unsigned table)
{
    uint32_t r = 0;
    for (unsigned k = 0; k < 8; k++)
        if (table >> k & 1)
            r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return r;
}

uint32_t ana_inst_prmt(uint64_t ab, uint32_t sel)
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
static int64_t arithmetic_one(struct ana_sum *s, const struct ptx_inst *i, const int64_t *v, unsigned bits, bool sign)
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
    case PTX_OP_PRMT: return ana_inst_prmt((uint64_t)(uint32_t)v[1] << 32 | (uint32_t)v[0], (uint32_t)v[2]);
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

/* What arithmetic_one() says, for all lanes in one loop: the commonest. */
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

void ana_inst_by_lane(struct ana_sum *s, const struct ptx_inst *i, const struct ana_form *const *x, unsigned n,
                      unsigned bits, bool sign)
{
    struct ana_form *out = &s->tmp[OUT];
    for (unsigned k = 0; k < n; k++) {
        ana_inst_number(s, x[k]);
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
        out->base[l] = arithmetic_one(s, i, v, bits, sign);
    }
}
