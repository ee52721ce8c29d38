/* Conversions: every pair of types of cvt, every rounding, by integer arithmetic on sign, exponent and mantissa.
 *
 * A float is taken apart exactly (sg_parts_of), and put together in the target format with one rounding
 * (sg_parts_round), so the result is the same on every CPU whatever its rounding state. Rules of PTX ISA 9.0 §9.7.9.21:
 * float to integer saturates; NaN to integer is 0, or 1 << (width - 1) when either side has 64 bits; `.sat` clamps
 * floats to [0, 1] with NaN to 0 and integers to the target's range; NaN to float is the target's canonical NaN; `.ftz`
 * flushes subnormal f32 on either side.
 */
#include "softgpu/exec/exec-priv.h"

#include <string.h>

#include "softgpu/exec/bits.h"

uint64_t sg_get_lane(const struct sg_warp *w, uint32_t ref, enum ptx_type t, unsigned lane)
{
    unsigned bytes = ptx_type_bytes(t);
    if (bytes == 8)
        return SG_P(uint64_t, ref)[lane];
    uint32_t v = SG_P(uint32_t, ref)[lane];
    return bytes == 4 ? v : bytes == 2 ? v & 0xFFFF : v & 0xFF;
}

void sg_put_lane(const struct sg_warp *w, uint32_t ref, enum ptx_type t, unsigned lane, uint64_t v)
{
    if (ptx_type_bytes(t) == 8)
        SG_P(uint64_t, ref)[lane] = v;
    else
        SG_P(uint32_t, ref)[lane] = (uint32_t)v;
}

/* Bits of the mantissa with the hidden one, least exponent of the last place, greatest exponent of the first. */
struct format {
    int bits, low, high;
    uint64_t nan, inf;
    unsigned width;
};
static struct format format_of(enum ptx_type t)
{
    switch (t) {
    case PTX_F16: return (struct format){11, -24, 15, SG_NAN16, 0x7C00, 16};
    case PTX_BF16: return (struct format){8, -133, 127, SG_NAN16, 0x7F80, 16};
    case PTX_TF32: return (struct format){11, -136, 127, SG_NAN32, 0x7F800000, 32}; /* low 13 bits of an f32 are zero */
    case PTX_F32: return (struct format){24, -149, 127, SG_NAN32, 0x7F800000, 32};
    default: return (struct format){53, -1074, 1023, SG_NAN64, 0x7FF0000000000000, 64};
    }
}

struct sg_parts sg_parts_of(uint64_t bits, enum ptx_type t)
{
    struct format f = format_of(t == PTX_TF32 ? PTX_F32 : t);
    unsigned mbits = (unsigned)f.bits - 1;
    struct sg_parts p = {.sign = bits >> (f.width - 1) & 1};
    uint64_t mag = bits & ((1ull << (f.width - 1)) - 1), e = mag >> mbits, m = mag & ((1ull << mbits) - 1);
    if (mag > f.inf)
        p.nan = true;
    else if (mag == f.inf)
        p.inf = true;
    else {
        p.mant = e ? m | 1ull << mbits : m;
        p.exp = f.low + (e ? (int)e - 1 : 0);
    }
    return p;
}

/* Shift right by n, keeping what falls off as (half, rest). */
static uint64_t shift_out(uint64_t m, int n, bool *half, bool *rest)
{
    if (n <= 0)
        return m << -n;
    if (n > 64) {
        *rest |= m != 0;
        return 0;
    }
    if (n == 64) {
        *rest |= (m << 1) != 0;
        *half = m >> 63;
        return 0;
    }
    *half = m >> (n - 1) & 1;
    *rest |= (m & ((1ull << (n - 1)) - 1)) != 0;
    return m >> n;
}

static bool round_up(unsigned rnd, bool sign, uint64_t m, bool half, bool rest)
{
    switch (rnd & SG_RND_MASK) {
    case SG_RZ: return false;
    case SG_RM: return sign && (half || rest);
    case SG_RP: return !sign && (half || rest);
    case SG_RNA: return half;
    default: return half && (rest || (m & 1));
    }
}

uint64_t sg_parts_round(struct sg_parts p, enum ptx_type t, unsigned rnd)
{
    struct format f = format_of(t);
    uint64_t sign = (uint64_t)p.sign << (f.width - 1);
    unsigned drop = t == PTX_TF32 ? 13 : 0;
    if (p.nan)
        return rnd & SG_SAT ? 0 : f.nan;
    if (rnd & SG_RELU && p.sign)
        return 0;
    if (p.inf && rnd & SG_SATFINITE)
        return sign | (f.inf - (1ull << drop));
    if (rnd & SG_SAT && (p.sign || p.inf || (p.mant && 64 - __builtin_clzll(p.mant) + p.exp > 0))) {
        uint64_t one = t == PTX_F64 ? 0x3FF0000000000000 : t == PTX_F16 ? 0x3C00 : t == PTX_BF16 ? 0x3F80 : 0x3F800000;
        return p.sign ? 0 : one;
    }
    if (p.inf)
        return sign | f.inf;
    bool half = false, rest = p.sticky;
    if (!p.mant)
        return p.sticky && round_up(rnd, p.sign, 0, false, true) ? sign | 1ull << drop : sign;
    int top = 63 - __builtin_clzll(p.mant) + p.exp; /* exponent of the first bit */
    int low = top - (f.bits - 1);
    if (low < f.low)
        low = f.low;
    uint64_t m = shift_out(p.mant, low - p.exp, &half, &rest);
    if (round_up(rnd, p.sign, m, half, rest))
        m++;
    if (m >> f.bits) {
        m >>= 1;
        low++;
    }
    if (!m)
        return sign;
    uint64_t out;
    if (m >> (f.bits - 1)) { /* normal */
        if (low + f.bits - 1 > f.high) {
            bool to_inf = !(rnd & SG_SATFINITE) && ((rnd & SG_RND_MASK) == SG_RN || (rnd & SG_RND_MASK) == SG_RNA ||
                                                    (rnd & SG_RND_MASK) == (p.sign ? SG_RM : SG_RP));
            return sign | (to_inf ? f.inf : f.inf - (1ull << drop));
        }
        out = (uint64_t)(low - f.low + 1) << (f.bits - 1) | (m & ((1ull << (f.bits - 1)) - 1));
    } else {
        out = m;
    }
    out <<= drop;
    if (rnd & SG_FTZ && t == PTX_F32)
        out = sg_flush_bits((uint32_t)out);
    return sign | out;
}

/* To an integral value in the same scale (cvt.rni.f32.f32 …): the fraction is rounded away. */
static struct sg_parts integral(struct sg_parts p, unsigned rnd)
{
    if (p.nan || p.inf || p.exp >= 0)
        return p;
    bool half = false, rest = p.sticky;
    uint64_t m = shift_out(p.mant, -p.exp, &half, &rest);
    p.mant = m + round_up(rnd, p.sign, m, half, rest);
    p.exp = 0;
    p.sticky = false;
    return p;
}

static uint64_t to_int(struct sg_parts p, enum ptx_type from, enum ptx_type to, unsigned rnd)
{
    unsigned width = ptx_type_bytes(to) * 8;
    bool sign = ptx_type_is_signed(to);
    uint64_t max = sign ? (1ull << (width - 1)) - 1 : width == 64 ? UINT64_MAX : (1ull << width) - 1;
    uint64_t lowest = sign ? 0ull - (1ull << (width - 1)) : 0;
    if (p.nan)
        return from != PTX_F64 && width != 64 ? 0 : 1ull << (width - 1);
    p = integral(p, rnd);
    bool big = p.inf || (p.mant && 64 - __builtin_clzll(p.mant) + p.exp > 64);
    uint64_t m = big ? UINT64_MAX : p.mant << p.exp;
    if (p.sign)
        return !sign ? 0 : big || m > max + 1 ? lowest : 0 - m;
    return big || m > max ? max : m;
}

static struct sg_parts of_int(uint64_t v, bool sign)
{
    bool neg = sign && v >> 63;
    return (struct sg_parts){.sign = neg, .mant = neg ? 0 - v : v};
}

static uint64_t int_to_int(uint64_t v, enum ptx_type from, enum ptx_type to, bool sat)
{
    unsigned width = ptx_type_bytes(to) * 8;
    bool neg = ptx_type_is_signed(from) && v >> 63, sign = ptx_type_is_signed(to);
    uint64_t max = sign ? (1ull << (width - 1)) - 1 : width == 64 ? UINT64_MAX : (1ull << width) - 1;
    if (!sat)
        return v;
    if (neg)
        return !sign ? 0 : (int64_t)v < -(int64_t)max - 1 ? 0ull - max - 1 : v;
    return v > max ? max : v;
}

static uint64_t convert(uint64_t v, enum ptx_type from, enum ptx_type to, unsigned rnd)
{
    bool ff = ptx_type_is_float(from), ft = ptx_type_is_float(to);
    unsigned bytes = ptx_type_bytes(from);
    if (!ff) {
        if (ptx_type_is_signed(from) && bytes < 8)
            v = (uint64_t)((int64_t)(v << (64 - 8 * bytes)) >> (64 - 8 * bytes));
        return ft ? sg_parts_round(of_int(v, ptx_type_is_signed(from)), to, rnd)
                  : int_to_int(v, from, to, rnd & SG_SAT);
    }
    if (rnd & SG_FTZ && from == PTX_F32)
        v = sg_flush_bits((uint32_t)v);
    struct sg_parts p = sg_parts_of(v, from);
    if (!ft)
        return to_int(p, from, to, rnd);
    if (rnd & SG_INTEGRAL)
        p = integral(p, rnd);
    return sg_parts_round(p, to, rnd);
}

const struct sg_op *sg_cvt(struct sg_warp *w, const struct sg_op *op)
{
    enum ptx_type from = (enum ptx_type)op->type, to = (enum ptx_type)op->sub;
    unsigned bytes = ptx_type_bytes(to);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t v = convert(sg_get_lane(w, op->a, from, l), from, to, op->rnd);
        if (bytes < 8)
            v &= (1ull << (8 * bytes)) - 1;
        /* wider destination registers: integers are extended by the sign of the target type */
        if (ptx_type_is_signed(to) && bytes < 8 && op->size > bytes)
            v = (uint64_t)((int64_t)(v << (64 - 8 * bytes)) >> (64 - 8 * bytes));
        if (op->size == 8)
            SG_P(uint64_t, op->d)[l] = v;
        else
            SG_P(uint32_t, op->d)[l] = (uint32_t)v & (op->size == 2 ? 0xFFFFu : SG_ALL);
    }
    return op + 1;
}

/* cvt.f16x2.f32 d, a, b: a becomes the upper half. */
const struct sg_op *sg_cvt_x2(struct sg_warp *w, const struct sg_op *op)
{
    enum ptx_type to = op->sub == PTX_F16X2 ? PTX_F16 : PTX_BF16;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t hi = convert(SG_P(uint32_t, op->a)[l], PTX_F32, to, op->rnd),
                 lo = convert(SG_P(uint32_t, op->b)[l], PTX_F32, to, op->rnd);
        SG_P(uint32_t, op->d)[l] = (uint32_t)(hi << 16 | lo);
    }
    return op + 1;
}
