/* Inside exec: operations of PTX on bits and numbers, as C expressions that gcc can compile for many lanes at once.
 *
 * Everything here gives the same bits on every CPU: integer operations, IEEE operations rounded once, and polynomials
 * evaluated in double in a fixed order (the build passes -ffp-contract=off). Sources: PTX ISA 9.0 §9.7.
 */
#ifndef DT_SOFTGPU_BITS_H
#define DT_SOFTGPU_BITS_H

#include <stdint.h>
#include <string.h>

#define SG_NAN32 0x7FFFFFFFu
#define SG_NAN64 0xFFF8000000000000ull /* CUDART_NAN */
#define SG_NAN16 0x7FFFu

static inline uint32_t sg_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float sg_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint64_t sg_bits64(double f)
{
    uint64_t u;
    memcpy(&u, &f, 8);
    return u;
}
static inline double sg_double(uint64_t u)
{
    double f;
    memcpy(&f, &u, 8);
    return f;
}

/* ---- integers */
static inline uint64_t sg_mulhi_u64(uint64_t a, uint64_t b) { return (uint64_t)((unsigned __int128)a * b >> 64); }
static inline int64_t sg_mulhi_s64(int64_t a, int64_t b) { return (int64_t)((__int128)a * b >> 64); }
static inline int32_t sg_sat_s32(int64_t x)
{
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}
static inline int64_t sg_s24(uint32_t a) { return (int32_t)(a << 8) >> 8; }
/* Quotients of 32 bits by f64, which CPUs have for vectors: both are exact there, and where a / b is no integer it is
 * further from one than 2^-53 of it, so that rounding does not get there. */
static inline uint32_t sg_div_u32(uint32_t a, uint32_t b)
{
    const uint32_t q = (uint32_t)(int64_t)((double)a / (double)(b ? b : 1));
    return b ? q : ~0u;
}
static inline uint32_t sg_rem_u32(uint32_t a, uint32_t b) { return b ? a - sg_div_u32(a, b) * b : a; }
static inline uint32_t sg_div_s32(int32_t a, int32_t b)
{
    const uint32_t q = (uint32_t)(int32_t)((double)a / (double)(b && b != -1 ? b : 1));
    return !b ? ~0u : b == -1 ? 0u - (uint32_t)a : q;
}
static inline uint64_t sg_div_s64(int64_t a, int64_t b)
{
    return !b ? ~0ull : b == -1 ? 0ull - (uint64_t)a : (uint64_t)(a / b);
}
static inline uint32_t sg_rem_s32(int32_t a, int32_t b)
{
    return b ? (uint32_t)a - sg_div_s32(a, b) * (uint32_t)b : (uint32_t)a;
}
static inline uint64_t sg_rem_s64(int64_t a, int64_t b) { return !b ? (uint64_t)a : b == -1 ? 0u : (uint64_t)(a % b); }
static inline uint32_t sg_popc(uint32_t a)
{
    a -= a >> 1 & 0x55555555;
    a = (a & 0x33333333) + (a >> 2 & 0x33333333);
    return ((a + (a >> 4)) & 0x0F0F0F0F) * 0x01010101u >> 24;
}
static inline uint32_t sg_brev(uint32_t a)
{
    a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
    a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
    a = (a >> 4 & 0x0F0F0F0F) | (a & 0x0F0F0F0F) << 4;
    return __builtin_bswap32(a);
}
static inline uint32_t sg_bfind(uint64_t a) { return a ? 63u - (uint32_t)__builtin_clzll(a) : ~0u; }
/* bfe: bits past the top are zero (unsigned) or the sign bit min(pos + len - 1, msb) (signed). */
static inline uint32_t sg_bfe_u32(uint32_t a, uint32_t pos, uint32_t len)
{
    pos &= 0xFF;
    len &= 0xFF;
    uint32_t v = pos > 31 ? 0 : a >> (pos & 31);
    return len > 31 ? v : v & ((1u << (len & 31)) - 1);
}
static inline uint32_t sg_bfe_s32(uint32_t a, uint32_t pos, uint32_t len)
{
    pos &= 0xFF;
    len &= 0xFF;
    uint32_t top = pos + len - 1 > 31 ? 31 : pos + len - 1;
    uint32_t sign = len && (a >> (top & 31) & 1) ? ~0u : 0;
    uint32_t v = pos > 31 ? sign : a >> (pos & 31);
    uint32_t have = pos > 31 ? 0 : 32 - pos, keep = len < have ? len : have;
    uint32_t m = keep > 31 ? ~0u : (1u << (keep & 31)) - 1;
    return len ? (v & m) | (sign & ~m) : 0;
}
static inline uint64_t sg_bfe_u64(uint64_t a, uint32_t pos, uint32_t len)
{
    pos &= 0xFF;
    len &= 0xFF;
    uint64_t v = pos > 63 ? 0 : a >> (pos & 63);
    return len > 63 ? v : v & ((1ull << (len & 63)) - 1);
}
static inline uint64_t sg_bfe_s64(uint64_t a, uint32_t pos, uint32_t len)
{
    pos &= 0xFF;
    len &= 0xFF;
    uint32_t top = pos + len - 1 > 63 ? 63 : pos + len - 1;
    uint64_t sign = len && (a >> (top & 63) & 1) ? ~0ull : 0;
    uint64_t v = pos > 63 ? sign : a >> (pos & 63);
    uint32_t have = pos > 63 ? 0 : 64 - pos, keep = len < have ? len : have;
    uint64_t m = keep > 63 ? ~0ull : (1ull << (keep & 63)) - 1;
    return len ? (v & m) | (sign & ~m) : 0;
}
static inline uint64_t sg_bfi(uint64_t a, uint64_t b, uint32_t pos, uint32_t len, uint32_t width)
{
    pos &= 0xFF;
    len &= 0xFF;
    if (!len || pos >= width)
        return b;
    if (len > width - pos)
        len = width - pos;
    uint64_t m = (len > 63 ? ~0ull : (1ull << len) - 1) << pos;
    return (b & ~m) | (a << pos & m);
}
static inline uint32_t sg_sext(uint32_t a, uint32_t n) /* the low n < 32 bits, sign-extended; n 0 gives 0 */
{
    return n ? (uint32_t)((int32_t)(a << (32 - n)) >> (32 - n)) : 0;
}
static inline uint32_t sg_bmsk(uint32_t pos, uint32_t len)
{
    uint32_t m = len > 31 ? ~0u : (1u << (len & 31)) - 1;
    return pos > 31 ? 0 : m << (pos & 31);
}
static inline uint32_t sg_dp4a_uu(uint32_t a, uint32_t b, uint32_t c)
{
    for (int i = 0; i < 32; i += 8)
        c += (a >> i & 0xFF) * (b >> i & 0xFF);
    return c;
}
static inline uint32_t sg_dp4a_us(uint32_t a, uint32_t b, uint32_t c)
{
    for (int i = 0; i < 32; i += 8)
        c += (uint32_t)((int32_t)(a >> i & 0xFF) * (int8_t)(b >> i));
    return c;
}
static inline uint32_t sg_dp4a_ss(uint32_t a, uint32_t b, uint32_t c)
{
    for (int i = 0; i < 32; i += 8)
        c += (uint32_t)((int32_t)(int8_t)(a >> i) * (int8_t)(b >> i));
    return c;
}
static inline uint32_t sg_lop3(uint32_t a, uint32_t b, uint32_t c, unsigned lut)
{
    uint32_t r = 0;
    for (unsigned i = 0; i < 8; i++)
        r |= (0u - (lut >> i & 1)) & (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}
static inline uint32_t sg_prmt(uint32_t a, uint32_t b, uint32_t sel)
{
    uint64_t v = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t s = sel >> (i * 4), byte = (uint32_t)(v >> ((s & 7) * 8)) & 0xFF;
        byte = s & 8 ? (byte & 0x80 ? 0xFF : 0) : byte;
        r |= byte << (i * 8);
    }
    return r;
}
enum { SG_PRMT_F4E = 1, SG_PRMT_B4E, SG_PRMT_RC8, SG_PRMT_ECL, SG_PRMT_ECR, SG_PRMT_RC16 };
/* The selector that a mode of prmt stands for (§9.7.9.7, table). */
static inline uint32_t sg_prmt_selector(unsigned mode, uint32_t c)
{
    static const uint16_t table[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                         {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                         {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    return table[mode - 1][c & 3];
}

/* ---- floats as bits */
static inline uint32_t sg_flush_bits(uint32_t u) { return u & 0x7F800000u ? u : u & 0x80000000u; }
static inline float sg_flush(float f) { return sg_float(sg_flush_bits(sg_bits(f))); }
static inline int sg_nan_bits(uint32_t u) { return (u & 0x7FFFFFFFu) > 0x7F800000u; }
static inline int sg_nan_bits64(uint64_t u) { return (u & ~(1ull << 63)) > 0x7FF0000000000000ull; }
static inline uint32_t sg_fneg(uint32_t u) { return sg_nan_bits(u) ? SG_NAN32 : u ^ 0x80000000u; }
static inline uint32_t sg_fabs(uint32_t u) { return sg_nan_bits(u) ? SG_NAN32 : u & 0x7FFFFFFFu; }
static inline uint64_t sg_fneg64(uint64_t u) { return u ^ 1ull << 63; }
static inline uint64_t sg_fabs64(uint64_t u) { return u & ~(1ull << 63); }
/* Order of floats as order of integers: -0 below +0. */
static inline int32_t sg_key(uint32_t u) { return (int32_t)(u ^ ((uint32_t)((int32_t)u >> 31) >> 1)); }
static inline int64_t sg_key64(uint64_t u) { return (int64_t)(u ^ ((uint64_t)((int64_t)u >> 63) >> 1)); }
static inline uint32_t sg_fmin(uint32_t a, uint32_t b)
{
    uint32_t r = sg_key(a) < sg_key(b) ? a : b;
    r = sg_nan_bits(a) ? b : r;
    r = sg_nan_bits(b) ? a : r;
    return sg_nan_bits(r) ? SG_NAN32 : r;
}
static inline uint32_t sg_fmax(uint32_t a, uint32_t b)
{
    uint32_t r = sg_key(a) > sg_key(b) ? a : b;
    r = sg_nan_bits(a) ? b : r;
    r = sg_nan_bits(b) ? a : r;
    return sg_nan_bits(r) ? SG_NAN32 : r;
}
static inline uint64_t sg_fmin64(uint64_t a, uint64_t b)
{
    uint64_t r = sg_key64(a) < sg_key64(b) ? a : b;
    r = sg_nan_bits64(a) ? b : r;
    r = sg_nan_bits64(b) ? a : r;
    return sg_nan_bits64(r) ? SG_NAN64 : r;
}
static inline uint64_t sg_fmax64(uint64_t a, uint64_t b)
{
    uint64_t r = sg_key64(a) > sg_key64(b) ? a : b;
    r = sg_nan_bits64(a) ? b : r;
    r = sg_nan_bits64(b) ? a : r;
    return sg_nan_bits64(r) ? SG_NAN64 : r;
}

/* ---- conversions */
static inline float sg_u32_to_f32(uint32_t a) { return (float)(double)a; /* exact, then rounded once */ }
static inline uint32_t sg_f32_to_s32_rz(float a) /* NaN gives 0, out of range saturates */
{
    double d = a == a ? (double)a : 0.0;
    d = d < -2147483648.0 ? -2147483648.0 : d;
    d = d > 2147483647.0 ? 2147483647.0 : d;
    return (uint32_t)(int32_t)d;
}
static inline uint32_t sg_f16_to_f32(uint32_t h)
{
    uint32_t sign = (h & 0x8000u) << 16, e = h >> 10 & 31, m = h & 0x3FF;
    uint32_t normal = (e + 112) << 23 | m << 13;
    /* Subnormals: m * 2^-24, exact. */
    uint32_t small = sg_bits((float)(int32_t)m * 0x1p-24f);
    uint32_t special = m ? SG_NAN32 : 0x7F800000u | sign;
    return e == 31 ? special : (e ? normal : small) | sign;
}
/* To nearest even; overflow gives infinity, NaN 0x7FFF. */
static inline uint32_t sg_f32_to_f16(uint32_t u)
{
    uint32_t sign = u >> 16 & 0x8000u, x = u & 0x7FFFFFFFu;
    uint32_t normal = (x + 0xFFF + (x >> 13 & 1) - (112u << 23)) >> 13;
    /* Below 2^-14: add 0.5, whose last place is 2^-24, and take the low bits. */
    uint32_t small = sg_bits(sg_float(x) + 0.5f) - 0x3F000000u;
    uint32_t r = x < 0x38800000u ? small : normal;
    r = x >= 0x477FF000u ? 0x7C00u : r;
    return x > 0x7F800000u ? SG_NAN16 : r | sign;
}
static inline uint32_t sg_bf16_to_f32(uint32_t h) { return sg_nan_bits(h << 16) ? SG_NAN32 : h << 16; }
static inline uint32_t sg_f32_to_bf16(uint32_t u)
{
    return sg_nan_bits(u) ? SG_NAN16 : (u + 0x7FFF + (u >> 16 & 1)) >> 16;
}

/* ---- directed rounding of f32, in double. `s` is the nearest double to a value, `err` has the sign of what it lacks:
 * the result is the double with an odd last place next to the value (the value itself if it is exact), which no longer
 * rounds twice. */
static inline double sg_odd(double s, double err)
{
    uint64_t u = sg_bits64(s), away = (uint64_t)((err > 0) == (s > 0));
    uint64_t v = s == 0 ? (err > 0 ? 1 : 1ull << 63 | 1) : away ? u + 1 : u - 1;
    int fix = err == err && err != 0 && s - s == 0 && !(u & 1);
    return sg_double(fix ? v : u);
}
enum { SG_DIR_RZ = 1, SG_DIR_RM, SG_DIR_RP }; /* as SG_RZ, SG_RM, SG_RP */
static inline float sg_directed(double s, int mode)
{
    float r = (float)s;
    uint32_t u = sg_bits(r);
    double d = (double)r;
    int up = mode == SG_DIR_RP ? d < s : 0; /* r is below the value */
    int down = mode == SG_DIR_RM ? d > s : mode == SG_DIR_RZ ? (s > 0 ? d > s : d < s) : 0;
    int neg = (int)(u >> 31);
    uint32_t step = mode == SG_DIR_RZ ? (down ? u - 1 : u)
                    : up              ? (neg ? u - 1 : u + 1)
                    : down            ? ((u & 0x7FFFFFFF) == 0 ? 0x80000001u
                                         : neg                 ? u + 1
                                                               : u - 1)
                                      : u;
    step = up && (u & 0x7FFFFFFF) == 0 ? 1u : step;
    return sg_float(step);
}
static inline float sg_fma_directed(float a, float b, float c, int mode)
{
    double p = (double)a * b, z = (double)c, s = p + z, t = s - p;
    double err = (p - (s - t)) + (z - t);
    float r = sg_directed(sg_odd(s, err), mode);
    /* an exact sum of zero is -0 when rounding down, unless both terms are +0 */
    int minus = mode == SG_DIR_RM && s == 0 && !(sg_bits64(p) == 0 && sg_bits64(z) == 0);
    return minus ? sg_float(0x80000000u) : r;
}
static inline uint32_t sg_sat(float x) /* to [0, 1]; NaN gives 0 */
{
    x = x > 0 ? x : 0;
    return sg_bits(x > 1 ? 1.0f : x);
}

/* ---- approximations: in double, rounded to float at the end */
static inline uint32_t sg_ex2(float a)
{
    double x = a == a ? (double)a : 0.0;
    x = x < -160.0 ? -160.0 : x;
    x = x > 129.0 ? 129.0 : x;
    double t = x + 0x1.8p52; /* nearest integer in the low bits */
    double f = x - (t - 0x1.8p52);
    /* 2^f, |f| <= 1/2: Taylor in f*ln2 to the 9th power, error under 2^-38 */
    double y = f * 0x1.62e42fefa39efp-1;
    double p = 1.0 / 362880;
    p = p * y + 1.0 / 40320;
    p = p * y + 1.0 / 5040;
    p = p * y + 1.0 / 720;
    p = p * y + 1.0 / 120;
    p = p * y + 1.0 / 24;
    p = p * y + 1.0 / 6;
    p = p * y + 0.5;
    p = p * y + 1.0;
    p = p * y + 1.0;
    float r = (float)sg_double(sg_bits64(p) + (sg_bits64(t) << 52));
    return a == a ? sg_bits(r) : SG_NAN32;
}

/* Elements of two vectors of type T, chosen by number: those of b follow those of a. */
#if defined __clang__
#define SHUFFLE(T, a, b, ...) ((T)__builtin_shufflevector(a, b, __VA_ARGS__))
#else
#define SHUFFLE(T, a, b, ...) __builtin_shuffle(a, b, (T){__VA_ARGS__})
#endif

#endif
