/* f16 and bf16 to and from f32, and the table of element types.
 *
 * To nearest, ties to even, with subnormals; a value that rounds past the largest finite one becomes infinity; a NaN
 * stays a NaN (quiet, upper payload bits kept). Pure integer arithmetic, so that the result does not depend on the CPU
 * or its modes.
 */
#include <math.h>
#include <string.h>

#include "graph-priv.h"

static const struct {
    const char *text;
    unsigned bytes;
} types[] = {
    [DT_I8] = {"i8", 1},   [DT_I16] = {"i16", 2},   [DT_I32] = {"i32", 4}, [DT_I64] = {"i64", 8},
    [DT_U8] = {"u8", 1},   [DT_U16] = {"u16", 2},   [DT_U32] = {"u32", 4}, [DT_U64] = {"u64", 8},
    [DT_F16] = {"f16", 2}, [DT_BF16] = {"bf16", 2}, [DT_F32] = {"f32", 4}, [DT_F64] = {"f64", 8},
};
#define NTYPE (sizeof types / sizeof *types)

unsigned dt_dtype_bytes(enum dt_dtype t) { return (unsigned)t < NTYPE ? types[t].bytes : 0; }
const char *dt_dtype_text(enum dt_dtype t) { return (unsigned)t < NTYPE ? types[t].text : "?"; }

bool g_dtype(const char *text, enum dt_dtype *ret)
{
    for (size_t i = 0; i < NTYPE; i++)
        if (!strcmp(text, types[i].text)) {
            *ret = (enum dt_dtype)i;
            return true;
        }
    return false;
}

static uint32_t bits32(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float float32(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

uint16_t dt_f32_to_f16(float f)
{
    uint32_t u = bits32(f), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    if (mag > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x3ff));
    if (mag >= 0x47800000) /* 65536 and more */
        return (uint16_t)(sign | 0x7c00);
    uint32_t shift, frac;
    if (mag >= 0x38800000) { /* normal: rebias by 112, then drop 13 bits; a carry goes into the exponent, at the top to
                                infinity */
        shift = 13;
        frac = mag - (112u << 23);
    } else { /* subnormal: 2^-24 units */
        uint32_t e = mag >> 23;
        if (e < 102) /* under 2^-25, half of the smallest: zero */
            return (uint16_t)sign;
        shift = 126 - e;
        frac = (mag & 0x7fffff) | 0x800000;
    }
    uint32_t half = 1u << (shift - 1), rest = frac & ((1u << shift) - 1), q = frac >> shift;
    if (rest > half || (rest == half && (q & 1)))
        q++;
    return (uint16_t)(sign | q);
}

uint16_t dt_f32_to_bf16(float f)
{
    uint32_t u = bits32(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float dt_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    if (e == 31)
        return float32(sign | 0x7f800000 | m << 13);
    if (e)
        return float32(sign | (e + 112) << 23 | m << 13);
    float v = (float)m * 0x1p-24f; /* exact */
    return sign ? -v : v;
}

bool g_float_bits(double v, enum dt_dtype t, uint64_t *ret)
{
    uint64_t bits;
    if (t == DT_F64) {
        memcpy(&bits, &v, 8);
        *ret = bits;
        return isfinite(v);
    }
    float f = (float)v;
    if (t == DT_F32) {
        *ret = bits32(f);
        return isfinite(f);
    }
    uint16_t h = t == DT_F16 ? dt_f32_to_f16(f) : dt_f32_to_bf16(f);
    uint16_t top = t == DT_F16 ? 0x7c00 : 0x7f80;
    *ret = h;
    return (h & top) != top;
}

double g_float_value(uint64_t bits, enum dt_dtype t)
{
    double d;
    switch (t) {
    case DT_F64: memcpy(&d, &bits, 8); return d;
    case DT_F32: return (double)float32((uint32_t)bits);
    case DT_BF16: return (double)float32((uint32_t)bits << 16);
    default: return (double)dt_f16_to_f32((uint16_t)bits);
    }
}
