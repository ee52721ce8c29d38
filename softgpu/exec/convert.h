/* Conversions by choices instead of branches, so that the lane loops (lanes.def) are vectors: to integral values in all
 * roundings, floats to integers of 32 and 64 bits.
 *
 * The bits are those of cvt.c. A sum with 2^23 (2^52 for f64) leaves no room for a fraction, so that the CPU rounds to
 * the nearest even integer; the other roundings go one up or down from there. Signs are kept: ceil(-0.3) is -0.
 * Integers saturate; a NaN is 0 where both sides have 32 bits, otherwise the value of the top bit alone.
 */
#ifndef DT_SOFTGPU_EXEC_CONVERT_H
#define DT_SOFTGPU_EXEC_CONVERT_H

#include "softgpu/exec/bits.h"

static inline float sg_signed_as(float mag, float a)
{
    return sg_float((sg_bits(mag) & 0x7FFFFFFFu) | (sg_bits(a) & 0x80000000u));
}
static inline double sg_signed_as64(double mag, double a)
{
    return sg_double((sg_bits64(mag) & ~(1ull << 63)) | (sg_bits64(a) & 1ull << 63));
}
static inline float sg_rni(float a)
{
    float m = sg_float(sg_bits(a) & 0x7FFFFFFFu), r = (m + 0x1p23f) - 0x1p23f;
    return sg_signed_as(m < 0x1p23f ? r : m, a);
}
static inline float sg_rmi(float a)
{
    float r = sg_rni(a);
    return sg_signed_as(r > a ? r - 1.0f : r, a);
}
static inline float sg_rpi(float a)
{
    float r = sg_rni(a);
    return sg_signed_as(r < a ? r + 1.0f : r, a);
}
static inline float sg_rzi(float a) { return sg_signed_as(sg_rmi(sg_float(sg_bits(a) & 0x7FFFFFFFu)), a); }

static inline double sg_rni64(double a)
{
    double m = sg_double(sg_bits64(a) & ~(1ull << 63)), r = (m + 0x1p52) - 0x1p52;
    return sg_signed_as64(m < 0x1p52 ? r : m, a);
}
static inline double sg_rmi64(double a)
{
    double r = sg_rni64(a);
    return sg_signed_as64(r > a ? r - 1.0 : r, a);
}
static inline double sg_rpi64(double a)
{
    double r = sg_rni64(a);
    return sg_signed_as64(r < a ? r + 1.0 : r, a);
}
static inline double sg_rzi64(double a) { return sg_signed_as64(sg_rmi64(sg_double(sg_bits64(a) & ~(1ull << 63))), a); }

/* Toward zero; other roundings come here with an integral value. nan: what a NaN is. */
static inline uint32_t sg_to_s32(double a, double nan)
{
    double d = a == a ? a : nan;
    d = d < -2147483648.0 ? -2147483648.0 : d;
    d = d > 2147483647.0 ? 2147483647.0 : d;
    return (uint32_t)(int32_t)d;
}
static inline uint32_t sg_to_u32(double a, double nan)
{
    double d = a == a ? a : nan;
    d = d < 0.0 ? 0.0 : d;
    d = d > 4294967295.0 ? 4294967295.0 : d;
    return (uint32_t)d;
}
static inline uint64_t sg_to_s64(double a)
{
    double d = a >= -0x1p63 && a < 0x1p63 ? a : -0x1p63; /* a NaN, too */
    return a >= 0x1p63 ? INT64_MAX : (uint64_t)(int64_t)d;
}
static inline uint64_t sg_to_u64(double a)
{
    double d = a > 0.0 && a < 0x1p64 ? a : 0.0;
    uint64_t r = a >= 0x1p64 ? UINT64_MAX : (uint64_t)d;
    return a == a ? r : 1ull << 63;
}

#endif
