/* Pairs: conversions from and to floats of 8, 6 and 4 bits, f32x2 arithmetic, and fma.oob.
 *
 * Narrow formats (PTX §5.2.3) have sign, exponent and mantissa, with subnormals:
 *
 *   e5m2               infinities and NaNs
 *   e4m3               a NaN (all ones), no infinity
 *   e2m3, e3m2, e2m1   neither
 *   ue8m0              an exponent alone, 2^(x - 127); 0xFF is its NaN; the sign is dropped
 *
 * Conversions to them always saturate (.satfinite is part of the instruction): NaN becomes the NaN where there is one,
 * else the largest number. In a pair the first source is the upper half. Elements of 6 bits have two zero bits on top
 * of each byte; elements of 4 bits share one byte.
 *
 * fma.oob: the result is +0 where a or b is the NaN that tensor copies fill with (0x7FF7, tensor.c).
 */
#include "softgpu/exec/exec-priv.h"

#include "softgpu/exec/bits.h"

struct narrow {
    int bits, low;    /* of the mantissa with the hidden one; exponent of the last place of subnormals */
    uint8_t max, nan; /* codes; nan 0: there is none */
    bool inf;
    unsigned width, step; /* bits of a code; bits from one element of a pair to the next */
};

static struct narrow narrow_of(enum ptx_type t)
{
    switch (t) {
    case PTX_E4M3X2: return (struct narrow){4, -9, 0x7E, 0x7F, false, 8, 8};
    case PTX_E5M2X2: return (struct narrow){3, -16, 0x7B, 0x7F, true, 8, 8};
    case PTX_E2M3X2: return (struct narrow){4, -3, 0x1F, 0, false, 6, 8};
    case PTX_E3M2X2: return (struct narrow){3, -4, 0x1F, 0, false, 6, 8};
    default: return (struct narrow){2, -1, 0x7, 0, false, 4, 4}; /* e2m1x2 */
    }
}

static uint32_t to_narrow(struct sg_parts p, struct narrow n, bool relu)
{
    uint32_t sign = (uint32_t)p.sign << (n.width - 1);
    if (p.nan)
        return n.nan ? n.nan : n.max;
    if (relu && p.sign)
        return 0;
    if (p.inf)
        return sign | n.max;
    if (!p.mant)
        return sign;
    int top = 63 - __builtin_clzll(p.mant) + p.exp, low = top - (n.bits - 1) < n.low ? n.low : top - (n.bits - 1),
        drop = low - p.exp;
    uint64_t m = drop > 63 ? 0 : drop <= 0 ? p.mant << -drop : p.mant >> drop;
    if (drop > 0 && drop < 64) { /* to nearest, ties to even */
        uint64_t rest = p.mant & ((1ull << drop) - 1), half = 1ull << (drop - 1);
        m += rest > half || (rest == half && (m & 1));
    }
    if (m >> n.bits)
        m >>= 1, low++;
    uint64_t code =
        m >> (n.bits - 1) ? (uint64_t)(low - n.low + 1) << (n.bits - 1) | (m & ((1u << (n.bits - 1)) - 1)) : m;
    return sign | (uint32_t)(code > n.max ? n.max : code);
}

static struct sg_parts of_narrow(uint32_t v, struct narrow n)
{
    uint32_t mag = v & ((1u << (n.width - 1)) - 1), e = mag >> (n.bits - 1), m = mag & ((1u << (n.bits - 1)) - 1);
    struct sg_parts p = {.sign = v >> (n.width - 1) & 1};
    p.inf = n.inf && mag == n.max + 1u;
    p.nan = n.nan && mag > n.max + (n.inf ? 1u : 0u);
    p.mant = e ? m | 1u << (n.bits - 1) : m;
    p.exp = n.low + (e ? (int)e - 1 : 0);
    return p;
}

static uint32_t to_e8(struct sg_parts p, bool up, bool finite)
{
    if (p.nan)
        return 0xFF;
    if (p.inf)
        return finite ? 0xFE : 0xFF;
    if (!p.mant)
        return 0;
    int top = 63 - __builtin_clzll(p.mant) + p.exp;
    bool more = p.mant & (p.mant - 1);
    int code = top + 127 + (up && more);
    return code < 0 ? 0 : code >= 0xFF ? (finite ? 0xFE : 0xFF) : (uint32_t)code;
}

/* type from, sub to, a and b sources (b SG_NONE: a is a pair) */
const struct sg_op *sg_cvt_narrow(struct sg_warp *w, const struct sg_op *op)
{
    enum ptx_type from = (enum ptx_type)op->type, to = (enum ptx_type)op->sub;
    bool e8 = from == PTX_UE8M0X2 || to == PTX_UE8M0X2, down = to != PTX_F16X2 && to != PTX_BF16X2;
    struct narrow n = narrow_of(down ? to : from);
    if (e8)
        n.step = 8;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t a = SG_P(uint32_t, op->a)[l], out = 0;
        for (unsigned k = 0; k < 2; k++) { /* the lower half first */
            if (!down) {
                uint32_t v = a >> (k * n.step) & ((1u << n.step) - 1);
                uint64_t h;
                if (e8)
                    h = v == 0xFF ? SG_NAN16 : v ? v << 7 : 0x40;
                else
                    h = sg_parts_round(of_narrow(v, n), PTX_F16, op->rnd);
                out |= (uint32_t)h << (16 * k);
                continue;
            }
            struct sg_parts p = from == PTX_F32
                                    ? sg_parts_of(SG_P(uint32_t, k ? op->a : op->b)[l], PTX_F32)
                                    : sg_parts_of(a >> (16 * k) & 0xFFFF, from == PTX_F16X2 ? PTX_F16 : PTX_BF16);
            uint32_t v = e8 ? to_e8(p, (op->rnd & SG_RND_MASK) == SG_RP, op->rnd & SG_SATFINITE)
                            : to_narrow(p, n, op->rnd & SG_RELU);
            out |= v << (k * n.step);
        }
        SG_P(uint32_t, op->d)[l] = out;
    }
    return op + 1;
}

/* add sub mul fma of two f32 in 64 bits */
const struct sg_op *sg_f32x2(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t a = SG_P(uint64_t, op->a)[l], b = SG_P(uint64_t, op->b)[l],
                 c = op->c == SG_NONE ? 0 : SG_P(uint64_t, op->c)[l];
        uint64_t lo = sg_slow_one(op, a & 0xFFFFFFFF, b & 0xFFFFFFFF, c & 0xFFFFFFFF, PTX_F32);
        SG_P(uint64_t, op->d)[l] = lo | sg_slow_one(op, a >> 32, b >> 32, c >> 32, PTX_F32) << 32;
    }
    return op + 1;
}

const struct sg_op *sg_fma_oob(struct sg_warp *w, const struct sg_op *op)
{
    enum ptx_type t = (enum ptx_type)op->type, half = t == PTX_F16 || t == PTX_F16X2 ? PTX_F16 : PTX_BF16;
    unsigned n = t == half ? 1 : 2;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t out = 0;
        for (unsigned k = 0; k < n; k++) {
            uint32_t a = SG_P(uint32_t, op->a)[l] >> (16 * k) & 0xFFFF,
                     b = SG_P(uint32_t, op->b)[l] >> (16 * k) & 0xFFFF,
                     c = SG_P(uint32_t, op->c)[l] >> (16 * k) & 0xFFFF;
            if (a != SG_OOB_NAN && b != SG_OOB_NAN)
                out |= (uint32_t)sg_slow_one(op, a, b, c, half) << (16 * k);
        }
        SG_P(uint32_t, op->d)[l] = out;
    }
    return op + 1;
}
