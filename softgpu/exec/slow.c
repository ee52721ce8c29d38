/* Arithmetic that the lane loops do not have, one lane at a time: directed rounding, saturation, half types,
 * approximations, carries, and the odd integer operations.
 *
 * f32, f16 and bf16 are computed in double with the error of the double operation kept as a sticky bit ("round to odd":
 * a result with at least two more bits than the target, its last bit set when inexact), then rounded once into the
 * target format by sg_parts_round. That is correctly rounded in every mode without touching the CPU's state. f64 uses
 * fesetround; operands and results pass through memory on either side of the call, so the compiler cannot move the
 * operation across it.
 *
 * Approximations (approx.h) of f32 are lane loops; here are the other types, and angles that are large.
 */
#include "softgpu/exec/exec-priv.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#include "softgpu/exec/approx.h"
#include "softgpu/exec/bits.h"

/* ---- round to odd ------------------------------------------------------------------------------------------------ */
/* `s` is the nearest double to a value that exceeds it by something of the sign of `err`. */
static double odd(double s, double err)
{
    if (err == 0 || err != err || s - s != 0)
        return s;
    uint64_t u = sg_bits64(s);
    if (u & 1)
        return s;
    if (s == 0)
        return err > 0 ? sg_double(1) : sg_double(1ull << 63 | 1);
    return sg_double((err > 0) == (s > 0) ? u + 1 : u - 1);
}

static double add_odd(double a, double b)
{
    double s = a + b, t = s - a;
    return odd(s, (a - (s - t)) + (b - t));
}

static double div_odd(double a, double b)
{
    double q = a / b;
    if (q - q != 0 || b - b != 0 || a == 0)
        return q;
    double r = fma(-q, b, a); /* exact: a, b are of float range */
    return odd(q, b < 0 ? -r : r);
}

static double sqrt_odd(double a)
{
    double s = sqrt(a);
    if (s - s != 0 || s == 0)
        return s;
    return odd(s, fma(-s, s, a));
}

static double approximate(unsigned kind, double x)
{
    switch (kind) {
    case SG_S_RCP: return 1 / x;
    case SG_S_SQRT: return sqrt(x);
    case SG_S_RSQRT: return sg_rsqrt_d(x);
    case SG_S_SIN: return sg_sin_d(x);
    case SG_S_COS: return sg_cos_d(x);
    case SG_S_LG2: return sg_lg2_d(x);
    case SG_S_EX2: return x != x ? x : x - x != 0 ? (x > 0 ? x : 0) : sg_exp2_d(x);
    default: return sg_tanh_d(x);
    }
}

/* ---- one float operation, correctly rounded into type t (f32, f16, bf16) ----------------------------------------- */
static double slow_value(uint64_t bits, enum ptx_type t)
{
    switch (t) {
    case PTX_F32: return (double)sg_float((uint32_t)bits);
    case PTX_F16: return (double)sg_float(sg_f16_to_f32((uint32_t)bits));
    case PTX_BF16: return (double)sg_float((uint32_t)bits << 16);
    default: return sg_double(bits);
    }
}

static uint64_t rounded(double x, enum ptx_type t, unsigned rnd)
{
    return sg_parts_round(sg_parts_of(sg_bits64(x), PTX_F64), t, rnd);
}

/* min and max: -0 below +0; NaN loses, or wins with .NaN; .xorsign.abs. On the bits, so that nothing is rounded. */
static uint64_t minmax(uint64_t a, uint64_t b, enum ptx_type t, unsigned rnd, bool max)
{
    uint64_t top = t == PTX_F64 ? 1ull << 63 : t == PTX_F32 ? 1u << 31 : 1u << 15, sign = (a ^ b) & top;
    uint64_t nan = t == PTX_F64 ? SG_NAN64 : t == PTX_F32 ? SG_NAN32 : SG_NAN16;
    if (rnd & SG_XORSIGN)
        a &= ~top, b &= ~top;
    double x = slow_value(a, t), y = slow_value(b, t);
    uint64_t r;
    if (x != x || y != y) {
        if (rnd & SG_NANP || (x != x && y != y))
            return nan;
        r = x != x ? b : a;
    } else {
        bool less = x < y || (x == y && (a & top) > (b & top));
        r = less != max ? a : b;
    }
    return rnd & SG_XORSIGN ? (r & ~top) | sign : r;
}

uint64_t sg_slow_one(const struct sg_op *op, uint64_t a, uint64_t b, uint64_t c, enum ptx_type t)
{
    unsigned rnd = op->rnd;
    if (rnd & SG_FTZ && t == PTX_F32) {
        a = sg_flush_bits((uint32_t)a);
        b = sg_flush_bits((uint32_t)b);
        c = sg_flush_bits((uint32_t)c);
    } else if (rnd & SG_FTZ && t == PTX_F16) {
        a = a & 0x7C00 ? a : a & 0x8000;
        b = b & 0x7C00 ? b : b & 0x8000;
        c = c & 0x7C00 ? c : c & 0x8000;
    }
    uint64_t top = t == PTX_F64 ? 1ull << 63 : t == PTX_F32 ? 1u << 31 : 1u << 15;
    double x = slow_value(a, t), y = slow_value(b, t), z = slow_value(c, t), r;
    switch (op->sub) {
    case SG_S_MIN: return minmax(a, b, t, rnd, false);
    case SG_S_MAX: return minmax(a, b, t, rnd, true);
    case SG_S_MIN3:
    case SG_S_MAX3:
        if (rnd & SG_ABS)
            a &= ~top, b &= ~top, c &= ~top;
        return minmax(minmax(a, b, t, rnd, op->sub == SG_S_MAX3), c, t, rnd, op->sub == SG_S_MAX3);
    case SG_S_ABS: return x != x ? (t == PTX_F32 ? SG_NAN32 : t == PTX_F64 ? a & ~top : SG_NAN16) : a & ~top;
    case SG_S_NEG: return x != x ? (t == PTX_F32 ? SG_NAN32 : t == PTX_F64 ? a ^ top : SG_NAN16) : a ^ top;
    case SG_S_ADD: r = add_odd(x, y); break;
    case SG_S_SUB: r = add_odd(x, -y); break;
    case SG_S_MUL: r = x * y; break;
    case SG_S_FMA: r = add_odd(x * y, z); break;
    case SG_S_DIV: r = div_odd(x, y); break;
    case SG_S_RCP: r = div_odd(1, x); break;
    case SG_S_SQRT: r = sqrt_odd(x); break;
    default: r = approximate(op->sub, x); break;
    }
    /* The sign of an exact zero sum depends on the rounding mode. */
    if (r == 0 && (rnd & SG_RND_MASK) == SG_RM && (op->sub == SG_S_ADD || op->sub == SG_S_SUB || op->sub == SG_S_FMA)) {
        double u = op->sub == SG_S_FMA ? x * y : x, v = op->sub == SG_S_FMA ? z : op->sub == SG_S_SUB ? -y : y;
        if (!(u == 0 && v == 0 && !signbit(u) && !signbit(v)))
            r = -0.0;
    }
    uint64_t out = rounded(r, t, rnd);
    if (rnd & SG_FTZ && t == PTX_F16 && !(out & 0x7C00))
        out &= 0x8000;
    return out;
}

/* ---- f64: the CPU's own rounding --------------------------------------------------------------------------------- */
static const int host_rounding[] = {
    [SG_RN] = FE_TONEAREST, [SG_RZ] = FE_TOWARDZERO, [SG_RM] = FE_DOWNWARD, [SG_RP] = FE_UPWARD};

static __attribute__((noinline)) void f64_op(unsigned kind, const double *a, const double *b, const double *c,
                                             double *d)
{
    switch (kind) {
    case SG_S_ADD: *d = *a + *b; break;
    case SG_S_SUB: *d = *a - *b; break;
    case SG_S_MUL: *d = *a * *b; break;
    case SG_S_FMA: *d = fma(*a, *b, *c); break;
    case SG_S_DIV: *d = *a / *b; break;
    case SG_S_RCP: *d = 1 / *a; break;
    default: *d = sqrt(*a); break;
    }
}

static uint64_t one64(const struct sg_op *op, uint64_t a, uint64_t b, uint64_t c)
{
    unsigned mode = op->rnd & SG_RND_MASK;
    if (op->sub == SG_S_MIN || op->sub == SG_S_MAX || op->sub == SG_S_ABS || op->sub == SG_S_NEG)
        return sg_slow_one(op, a, b, c, PTX_F64);
    /* rcp.approx.ftz.f64, rsqrt.approx.ftz.f64: the low 32 bits are ignored and zero */
    if (op->sub == SG_S_RSQRT || op->imm) {
        uint64_t in = a & 0xFFFFFFFF00000000ull;
        in = in >> 52 & 0x7FF ? in : in & 1ull << 63;
        double r = approximate(op->sub, sg_double(in));
        if (op->sub == SG_S_RSQRT && !op->imm) { /* rsqrt.approx.f64 */
            r = approximate(op->sub, sg_double(a));
            return r != r ? SG_NAN64 : sg_bits64(r);
        }
        uint64_t u = sg_bits64(r);
        if (r != r)
            return 0x7FFFFFFF00000000ull;
        u = u >> 52 & 0x7FF ? u : u & 1ull << 63;
        return u & 0xFFFFFFFF00000000ull;
    }
    double x = sg_double(a), y = sg_double(b), z = sg_double(c), r;
    fesetround(host_rounding[mode & 3]);
    f64_op(op->sub, &x, &y, &z, &r);
    fesetround(FE_TONEAREST);
    if (op->rnd & SG_SAT)
        r = !(r > 0) ? 0 : r > 1 ? 1 : r;
    return r != r ? SG_NAN64 : sg_bits64(r);
}

const struct sg_op *sg_slow_float(struct sg_warp *w, const struct sg_op *op)
{
    enum ptx_type t = (enum ptx_type)op->type, half = t == PTX_F16X2 ? PTX_F16 : PTX_BF16;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t a = sg_get_lane(w, op->a, t, l), b = op->b == SG_NONE ? 0 : sg_get_lane(w, op->b, t, l);
        uint64_t c = op->c == SG_NONE ? 0 : sg_get_lane(w, op->c, t, l), r;
        if (t == PTX_F16X2 || t == PTX_BF16X2)
            r = sg_slow_one(op, a & 0xFFFF, b & 0xFFFF, c & 0xFFFF, half) |
                sg_slow_one(op, a >> 16, b >> 16, c >> 16, half) << 16;
        else if (t == PTX_F64)
            r = one64(op, a, b, c);
        else
            r = sg_slow_one(op, a, b, c, t);
        sg_put_lane(w, op->d, t, l, r);
    }
    return op + 1;
}

/* sin.approx and cos.approx of f32: the lane loop, which knows angles that need no fmod. Finite ones, too: a NaN fails
 * the comparison. */
const struct sg_op *sg_sincos(struct sg_warp *w, const struct sg_op *op)
{
    const float *a = SG_P(float, op->a);
    bool small = true;
    for (unsigned l = 0; l < SG_LANES; l++)
        small &= fabsf(a[l]) <= SG_SMALL_ANGLE;
    if (!small)
        return sg_slow_float(w, op);
    const bool ftz = op->rnd & SG_FTZ;
    return sg_isa()[op->sub == SG_S_SIN ? (ftz ? SG_H_SIN_z32 : SG_H_SIN_f32) : (ftz ? SG_H_COS_z32 : SG_H_COS_f32)](
        w, op);
}

const struct sg_op *sg_testp(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t r = 0;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        double x = slow_value(sg_get_lane(w, op->a, (enum ptx_type)op->type, l), (enum ptx_type)op->type);
        bool nan = x != x, inf = !nan && x - x != 0,
             normal = fabs(x) >= (op->type == PTX_F32 ? 0x1p-126 : 0x1p-1022) && !nan && !inf, yes;
        switch (op->sub) {
        case SG_T_FINITE: yes = !nan && !inf; break;
        case SG_T_INFINITE: yes = inf; break;
        case SG_T_NUMBER: yes = !nan; break;
        case SG_T_NAN: yes = nan; break;
        case SG_T_NORMAL: yes = normal; break;
        default: yes = !nan && !inf && !normal && x != 0; break;
        }
        r |= (uint32_t)yes << l;
    }
    uint32_t *p = SG_P(uint32_t, op->d);
    *p = (*p & ~w->mask) | r;
    return op + 1;
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */
/* The extended-precision family. The flag is one bit, and it is always a carry: sub is a + ~b + 1 and subc a + ~b +
 * flag, so that after a subtraction it is set where nothing was borrowed, and addc after sub.cc, or subc after add.cc,
 * take it as it stands. That is what ptxas makes of them for sm_75, sm_80 and sm_90 (tests/ptx/carry-asm.py):
 *
 *     sub.cc d, a, b      IADD3   Rd, P0, Ra, -Rb, RZ             (-Rb: + ~b + 1, with its carry, also where b is 0)
 *     subc   d, a, b      IADD3.X Rd, Ra, ~Rb, RZ, P0, !PT
 *     addc   d, a, b      IADD3.X Rd, Ra, Rb, RZ, P0, !PT         the same P0 whatever set it
 *
 * mad.hi's carry is that of adding c to the upper half, as one unsigned number. Where the flag was never set PTX leaves
 * it open: 0 here. */
const struct sg_op *sg_carry(struct sg_warp *w, const struct sg_op *op)
{
    enum ptx_type t = (enum ptx_type)op->type;
    unsigned bits = ptx_type_bytes(t) * 8;
    bool sign = ptx_type_is_signed(t);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t a = sg_get_lane(w, op->a, t, l), b = sg_get_lane(w, op->b, t, l),
                 c = op->c == SG_NONE ? 0 : sg_get_lane(w, op->c, t, l);
        unsigned in = op->imm & SG_CC_IN ? w->cc >> l & 1 : op->sub == SG_I_SUB;
        uint64_t x, y;
        switch (op->sub) {
        case SG_I_ADD: x = a, y = b; break;
        case SG_I_SUB: x = a, y = ~b; break;
        case SG_I_MADLO: x = a * b, y = c; break;
        default:
            if (bits == 64)
                x = sign ? (uint64_t)sg_mulhi_s64((int64_t)a, (int64_t)b) : sg_mulhi_u64(a, b);
            else
                x = sign ? (uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32 : a * b >> 32;
            y = c;
        }
        if (bits == 32)
            x = (uint32_t)x, y = (uint32_t)y;
        unsigned __int128 s = (unsigned __int128)x + y + in;
        sg_put_lane(w, op->d, t, l, (uint64_t)s);
        if (op->imm & SG_CC_OUT)
            w->cc = (w->cc & ~(1u << l)) | (unsigned)(s >> bits & 1) << l;
    }
    return op + 1;
}

/* fns: the n-th set (or for n < 0, towards bit 0) bit of a from position b; 0xFFFFFFFF if there is none. */
static uint32_t fns(uint32_t mask, uint32_t base, int32_t n)
{
    if (!n)
        return base < 32 && mask >> base & 1 ? base : ~0u;
    int step = n > 0 ? 1 : -1;
    uint32_t left = n > 0 ? (uint32_t)n : 0u - (uint32_t)n;
    for (int p = (int)(base & 31); p >= 0 && p < 32; p += step)
        if (mask >> p & 1 && !--left)
            return (uint32_t)p;
    return ~0u;
}

static uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c, bool sa, bool sb, bool hi)
{
    for (unsigned i = 0; i < 2; i++) {
        int64_t x = sa ? (int16_t)(a >> 16 * i) : (uint16_t)(a >> 16 * i);
        uint32_t byte = b >> (8 * i + (hi ? 16 : 0));
        c += (uint32_t)(x * (sb ? (int8_t)byte : (uint8_t)byte));
    }
    return c;
}

/* cvt.pack.sat.{s16 u16 s8 u8 …}.s32{.b32} d, a, b{, c}: saturated values packed, c shifted above them. */
static uint32_t cvt_pack(const struct sg_op *op, int32_t a, int32_t b, uint32_t c)
{
    unsigned bits = op->size;
    bool sign = op->flags & SG_SIGNED;
    int64_t max = sign ? (1 << (bits - 1)) - 1 : (1 << bits) - 1, min = sign ? -max - 1 : 0;
    uint32_t mask = (1u << bits) - 1,
             x = (uint32_t)(a > max   ? max
                            : a < min ? min
                                      : a) &
                 mask,
             y = (uint32_t)(b > max   ? max
                            : b < min ? min
                                      : b) &
                 mask;
    uint32_t r = x << bits | y;
    return 2 * bits < 32 && op->c != SG_NONE ? r | c << (2 * bits) : r;
}

/* add, min, max of u16x2 and s16x2 */
static uint32_t int_x2(const struct sg_op *op, uint32_t a, uint32_t b)
{
    uint32_t r = 0;
    for (unsigned i = 0; i < 32; i += 16) {
        int32_t x = op->flags & SG_SIGNED ? (int16_t)(a >> i) : (uint16_t)(a >> i);
        int32_t y = op->flags & SG_SIGNED ? (int16_t)(b >> i) : (uint16_t)(b >> i);
        int32_t v = op->size == SG_S_ADD ? x + y : (x < y) == (op->size == SG_S_MIN) ? x : y;
        if (op->rnd & SG_RELU && v < 0)
            v = 0;
        r |= ((uint32_t)v & 0xFFFF) << i;
    }
    return r;
}

const struct sg_op *sg_odd_int(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t *d = SG_P(uint32_t, op->d);
    const uint32_t *pa = SG_P(uint32_t, op->a), *pb = SG_P(uint32_t, op->b),
                   *pc = op->c == SG_NONE ? NULL : SG_P(uint32_t, op->c);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t a = pa[l], b = pb[l], c = pc ? pc[l] : 0;
        switch (op->sub) {
        case SG_I_FNS: d[l] = fns(a, b, (int32_t)c); break;
        case SG_I_DP2A: d[l] = dp2a(a, b, c, op->imm & 1, op->imm & 2, op->imm & 4); break;
        case SG_I_CVT_PACK: d[l] = cvt_pack(op, (int32_t)a, (int32_t)b, c); break;
        default: d[l] = int_x2(op, a, b); break;
        }
    }
    return op + 1;
}
