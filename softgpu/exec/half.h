/* Arithmetic of f16 and bf16 to nearest, by choices instead of branches, so that the lane loops (lanes.def) are
 * vectors. The bits are those of slow.c.
 *
 * Sums, differences and products are rounded to f32 and then to the half: f32 has more than twice the half's digits and
 * two more, so that rounding twice gives what rounding once does. That does not hold for fma, whose exact value may lie
 * next to the middle of two halves; there what is lost on the way sets the last place ("round to odd"). A product of
 * two halves is exact in double. With an f16 added, what a double loses is of no account: either the sum is infinite,
 * or the product is far below half a place of the addend. With a bf16 added it may decide.
 */
#ifndef DT_SOFTGPU_EXEC_HALF_H
#define DT_SOFTGPU_EXEC_HALF_H

#include "softgpu/exec/bits.h"

/* a double as f32 with an odd last place, unless it is one */
static inline uint32_t sg_f32_odd(double s)
{
    uint32_t u = sg_bits((float)s);
    double d = (double)sg_float(u);
    uint32_t inexact = d != s, away = (d > s) == (s > 0) ? inexact : 0;
    return (u - away) | inexact;
}

/* f16 and bf16: F_value, F_round, F_inf */
static inline float sg_h_value(uint32_t a) { return sg_float(sg_f16_to_f32(a)); }
static inline float sg_e_value(uint32_t a) { return sg_float(a << 16); }
#define sg_h_round sg_f32_to_f16
#define sg_e_round sg_f32_to_bf16
#define sg_h_inf 0x7C00u
#define sg_e_inf 0x7F80u

static inline uint32_t sg_h_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return sg_h_round(sg_f32_odd((double)sg_h_value(a) * (double)sg_h_value(b) + (double)sg_h_value(c)));
}
static inline uint32_t sg_e_fma(uint32_t a, uint32_t b, uint32_t c)
{
    double p = (double)sg_e_value(a) * (double)sg_e_value(b), z = (double)sg_e_value(c), s = p + z, t = s - p;
    return sg_e_round(sg_f32_odd(sg_odd(s, (p - (s - t)) + (z - t))));
}

/* in the order of the numbers, -0 below +0 */
static inline int32_t sg_half_key(uint32_t a)
{
    int32_t s = (int16_t)a;
    return s ^ (s >> 15 & 0x7FFF);
}
/* the smaller of two; a NaN loses, or wins where `nan` */
static inline uint32_t sg_half_min(uint32_t a, uint32_t b, uint32_t inf, int32_t max, int nan)
{
    int32_t x = sg_half_key(a) ^ max, y = sg_half_key(b) ^ max;
    int na = (a & 0x7FFF) > inf, nb = (b & 0x7FFF) > inf;
    uint32_t r = x < y ? a : b;
    r = na ? b : r;
    r = nb ? a : r;
    return (nan ? na | nb : na & nb) ? SG_NAN16 : r;
}

#define SG_HALVES(F)                                                                                                   \
    static inline uint32_t sg_##F##_add(uint32_t a, uint32_t b)                                                        \
    {                                                                                                                  \
        return sg_##F##_round(sg_bits(sg_##F##_value(a) + sg_##F##_value(b)));                                         \
    }                                                                                                                  \
    static inline uint32_t sg_##F##_sub(uint32_t a, uint32_t b)                                                        \
    {                                                                                                                  \
        return sg_##F##_round(sg_bits(sg_##F##_value(a) - sg_##F##_value(b)));                                         \
    }                                                                                                                  \
    static inline uint32_t sg_##F##_mul(uint32_t a, uint32_t b)                                                        \
    {                                                                                                                  \
        return sg_##F##_round(sg_bits(sg_##F##_value(a) * sg_##F##_value(b)));                                         \
    }                                                                                                                  \
    static inline uint32_t sg_##F##_min(uint32_t a, uint32_t b) { return sg_half_min(a, b, sg_##F##_inf, 0, 0); }      \
    static inline uint32_t sg_##F##_max(uint32_t a, uint32_t b) { return sg_half_min(a, b, sg_##F##_inf, -1, 0); }     \
    static inline uint32_t sg_##F##_min_nan(uint32_t a, uint32_t b) { return sg_half_min(a, b, sg_##F##_inf, 0, 1); }  \
    static inline uint32_t sg_##F##_max_nan(uint32_t a, uint32_t b) { return sg_half_min(a, b, sg_##F##_inf, -1, 1); } \
    static inline uint32_t sg_##F##_neg(uint32_t a) { return (a & 0x7FFF) > sg_##F##_inf ? SG_NAN16 : a ^ 0x8000; }    \
    static inline uint32_t sg_##F##_abs(uint32_t a) { return (a & 0x7FFF) > sg_##F##_inf ? SG_NAN16 : a & 0x7FFF; }
SG_HALVES(h)
SG_HALVES(e)
#undef SG_HALVES

/* of a pair */
#define SG_PAIR1(f, a) (f((a)&0xFFFF) | f((a) >> 16) << 16)
#define SG_PAIR2(f, a, b) (f((a)&0xFFFF, (b)&0xFFFF) | f((a) >> 16, (b) >> 16) << 16)
#define SG_PAIR3(f, a, b, c) (f((a)&0xFFFF, (b)&0xFFFF, (c)&0xFFFF) | f((a) >> 16, (b) >> 16, (c) >> 16) << 16)

#endif
