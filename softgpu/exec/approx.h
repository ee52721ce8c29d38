/* Approximations: sin, cos, lg2, tanh, rsqrt, div.approx; ex2 of f32 is in bits.h.
 *
 * They are evaluated in double and rounded once to nearest; that is inside the manual's error bounds, and the same on
 * every CPU: no libm but sqrt, floor and fmod, which are exact or correctly rounded, and no contraction. There are
 * choices instead of branches, so that the lane loops (lanes.def) are vectors.
 */
#ifndef DT_SOFTGPU_APPROX_H
#define DT_SOFTGPU_APPROX_H

#include <math.h>
#include <stdbool.h>

#include "softgpu/exec/bits.h"

#define SG_SMALL_ANGLE 1e6f

static inline double sg_exp2_d(double x)
{
    x = x < -1070 ? -1070 : x;
    x = x > 1023 ? 1023 : x;
    double n = floor(x + 0.5), y = (x - n) * 0x1.62e42fefa39efp-1, p = 1.0;
    _Pragma("GCC unroll 14") for (int k = 14; k > 0; k--) p = 1.0 + p * y / k;
    int e = (int)n;
    return e < -1022 ? p * sg_double((uint64_t)(e + 1023 + 60) << 52) * 0x1p-60
                     : p * sg_double((uint64_t)(e + 1023) << 52);
}

static inline double sg_lg2_d(double x)
{
    const bool fine = x > 0 && x < (double)INFINITY;
    uint64_t u = sg_bits64(fine ? x : 1.0); /* a normal double, whatever it was before */
    int32_t e = (int32_t)(u >> 52) - 1023;
    double m = sg_double((u & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
    const bool high = m > 0x1.6a09e667f3bcdp0;
    m = high ? m * 0.5 : m;
    e = high ? e + 1 : e;
    double s = (m - 1) / (m + 1), z = s * s, p = 0;
    _Pragma("GCC unroll 11") for (int k = 21; k > 0; k -= 2) p = p * z + 1.0 / k;
    const double r = e + 2 * s * p * 0x1.71547652b82fep0;
    return fine ? r : x == 0 ? -(double)INFINITY : x > 0 ? x : (double)NAN;
}

/* |x| <= SG_SMALL_ANGLE */
static inline double sg_sincos_d(double x, bool cosine)
{
    double k = floor(x * 0x1.45f306dc9c883p-1 + 0.5);
    double r = (x - k * 0x1.921fb544p0) - k * 0x1.0b4611a626331p-34, z = r * r;
    int q = (int)k + cosine;
    double s = r * (1 + z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 - z / 39916800)))));
    double c = 1 + z * (-1.0 / 2 +
                        z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800 + z / 479001600)))));
    double v = q & 1 ? c : s;
    return q & 2 ? -v : v;
}

static inline double sg_reduced(double x) /* fmod is exact */
{
    return fabs(x) > (double)SG_SMALL_ANGLE ? fmod(x, 0x1.921fb54442d18p2) : x;
}
static inline double sg_sin_d(double x)
{
    return x - x != 0 ? (double)NAN : x == 0 ? x : sg_sincos_d(sg_reduced(x), false);
}
static inline double sg_cos_d(double x) { return x - x != 0 ? (double)NAN : sg_sincos_d(sg_reduced(x), true); }

static inline double sg_tanh_d(double x)
{
    double a = fabs(x), e = sg_exp2_d(2 * (a < 20 ? a : 20) * 0x1.71547652b82fep0), t = 1 - 2 / (e + 1);
    t = a > 20 ? 1 : t;
    t = x < 0 ? -t : t;
    t = a < 1e-4 ? x * (1 - x * x / 3) : t;
    return x != x ? x : t;
}

static inline double sg_rsqrt_d(double x) { return x < 0 ? (double)NAN : 1 / sqrt(x); }
/* (float)sg_rsqrt_d of a float, without the two slow instructions: a guess from the exponent (3.5 % off), and three
 * steps that cube what it is off. Equal for all floats: their reciprocal roots are further from the middle of two
 * floats than this is off (tests/unit/test-softgpu-rsqrt.c tries every mantissa). */
static inline float sg_rsqrt_f(float a)
{
    const double x = (double)a;
    double y = sg_double(0x5FE6EB50C7B537A9u - (sg_bits64(x) >> 1));
    _Pragma("GCC unroll 3") for (int k = 0; k < 3; k++)
    {
        const double e = 1 - x * y * y;
        y = y + y * e * (0.5 + 0.375 * e);
    }
    const uint32_t u = sg_bits(a);
    uint32_t r = sg_bits((float)y);
    r = u - 1 < 0x7F7FFFFF ? r : u == 0x7F800000 ? 0 : SG_NAN32;
    return sg_float(u << 1 ? r : u | 0x7F800000);
}

/* a / b; for 2^126 < |b| < 2^128 the quotient is 0 (§9.7.3.8), infinity over such b NaN. */
static inline float sg_div_approx(float a, float b)
{
    const float r = a / b, m = fabsf(b), none = a - a != 0 ? NAN : copysignf(0, r);
    return m > 0x1p126f && m < INFINITY ? none : r;
}

#endif
