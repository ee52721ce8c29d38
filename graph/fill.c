/* What a buffer starts with, bit for bit as docs/CONTRACT.md §2 says.
 *
 * Element i of a uniform fill is lo + (hi - lo) * u, every operation rounded to the element's type and none contracted
 * (the build sets -ffp-contract=off); u comes from the top bits of splitmix64(seed, i). Integers are computed in f64
 * with the 24-bit u. f16 and bf16 are rounded from the f32 value. Values depend on the element's index alone, so that
 * any piece can be made by itself. The parser has checked ranges and that the buffer is a whole number of elements.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph-priv.h"

static float uniform32(const struct dt_fill *f, uint64_t seed, uint64_t i)
{
    float lo = (float)f->lo, hi = (float)f->hi, u = (float)(dt_splitmix64(seed, i) >> 40) * 0x1p-24f;
    float width = hi - lo, step = width * u;
    return lo + step;
}

/* Pieces of f32 and of halves rounded from them as vectors: the same operations on each element, compiled for several
 * instruction sets. */
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__ && !defined __SANITIZE_ADDRESS__ &&                   \
    !defined __SANITIZE_THREAD__
#define MANY __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MANY
#endif
enum { MANY_N = 512 };

MANY static void many32(float lo, float width, uint64_t seed, uint64_t first, float *restrict out)
{
    for (uint64_t i = 0; i < MANY_N; i++) {
        float u = (float)(int32_t)(dt_splitmix64(seed, first + i) >> 40) * 0x1p-24f, step = width * u;
        out[i] = lo + step;
    }
}

/* dt_f32_to_f16 of numbers; false: there is a NaN. A subnormal half is what is left of the sum with 0.5, whose last
 * place is 2^-24. */
MANY static bool many_f16(const float *restrict v, uint16_t *restrict out)
{
    uint32_t nan = 0;
    for (unsigned i = 0; i < MANY_N; i++) {
        uint32_t u, s, mag;
        memcpy(&u, &v[i], 4);
        mag = u & 0x7fffffff;
        float small, magnitude;
        memcpy(&magnitude, &mag, 4);
        small = magnitude + 0.5f;
        memcpy(&s, &small, 4);
        uint32_t normal = (mag + 0xfff + (mag >> 13 & 1) - (112u << 23)) >> 13;
        uint32_t h = mag < 0x38800000 ? s - 0x3f000000 : normal;
        h = mag >= 0x477ff000 ? 0x7c00 : h;
        nan |= mag > 0x7f800000;
        out[i] = (uint16_t)(h | (u >> 16 & 0x8000));
    }
    return !nan;
}

/* The same of dt_f32_to_bf16. */
MANY static bool many_bf16(const float *restrict v, uint16_t *restrict out)
{
    uint32_t nan = 0;
    for (unsigned i = 0; i < MANY_N; i++) {
        uint32_t u;
        memcpy(&u, &v[i], 4);
        nan |= (u & 0x7fffffff) > 0x7f800000;
        out[i] = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    }
    return !nan;
}

/* As many whole pieces as there are; how many elements. */
static uint64_t many(const struct dt_fill *f, uint64_t seed, uint64_t first, uint64_t n, uint8_t *out)
{
    float v[MANY_N], lo = (float)f->lo, width = (float)f->hi - lo;
    uint16_t h[MANY_N];
    uint64_t done = 0;
    for (; done + MANY_N <= n; done += MANY_N) {
        many32(lo, width, seed, first + done, v);
        if (f->dtype == DT_F32) {
            memcpy(out + 4 * done, v, sizeof v);
            continue;
        }
        if (!(f->dtype == DT_F16 ? many_f16 : many_bf16)(v, h))
            for (unsigned i = 0; i < MANY_N; i++)
                h[i] = f->dtype == DT_F16 ? dt_f32_to_f16(v[i]) : dt_f32_to_bf16(v[i]);
        memcpy(out + 2 * done, h, sizeof h);
    }
    return done;
}

static double uniform64(const struct dt_fill *f, uint64_t seed, uint64_t i)
{
    double u = (double)(dt_splitmix64(seed, i) >> 11) * 0x1p-53, width = f->hi - f->lo, step = width * u;
    return f->lo + step;
}

/* The low bytes of the integer; both ends are clamped because lo + floor(…) may round up to hi = max + 1. */
static uint64_t uniform_int(const struct dt_fill *f, uint64_t seed, uint64_t i)
{
    double u = (double)(dt_splitmix64(seed, i) >> 40) * 0x1p-24, step = floor((f->hi - f->lo) * u), v = f->lo + step;
    unsigned size = dt_dtype_bytes(f->dtype);
    if (f->dtype >= DT_U8) {
        uint64_t top = size == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * size)) - 1;
        return v >= ldexp(1, (int)(8 * size)) ? top : (uint64_t)v;
    }
    int64_t top = size == 8 ? INT64_MAX : (INT64_C(1) << (8 * size - 1)) - 1;
    return v >= ldexp(1, (int)(8 * size - 1)) ? (uint64_t)top : (uint64_t)(int64_t)v;
}

static void uniform(const struct dt_fill *f, uint64_t seed, uint64_t first, uint64_t n, uint8_t *out)
{
    unsigned size = dt_dtype_bytes(f->dtype);
    uint64_t i = first / size, end = (first + n) / size;
    if (f->dtype == DT_F32 || f->dtype == DT_F16 || f->dtype == DT_BF16) {
        uint64_t done = many(f, seed, i, end - i, out);
        i += done;
        out += done * size;
    }
    switch (f->dtype) {
    case DT_F32:
        for (; i < end; i++, out += 4) {
            float v = uniform32(f, seed, i);
            memcpy(out, &v, 4);
        }
        break;
    case DT_F64:
        for (; i < end; i++, out += 8) {
            double v = uniform64(f, seed, i);
            memcpy(out, &v, 8);
        }
        break;
    case DT_F16:
    case DT_BF16:
        for (; i < end; i++, out += 2) {
            float v = uniform32(f, seed, i);
            uint16_t h = f->dtype == DT_F16 ? dt_f32_to_f16(v) : dt_f32_to_bf16(v);
            memcpy(out, &h, 2);
        }
        break;
    default:
        for (; i < end; i++, out += size) {
            uint64_t v = uniform_int(f, seed, i);
            memcpy(out, &v, size); /* little-endian hosts only, as CUDA is */
        }
    }
}

void dt_fill_range(const struct dt_buffer *b, uint64_t seed_add, uint64_t first, uint64_t n, uint8_t *out)
{
    const struct dt_fill *f = &b->fill;
    bool fixed = b->role == DT_WEIGHT || b->constant;
    switch (f->kind) {
    case DT_FILL_UNIFORM: uniform(f, f->seed + (fixed ? 0 : seed_add), first, n, out); break;
    case DT_FILL_ZERO: memset(out, 0, n); break;
    case DT_FILL_DATA: memcpy(out, f->data + first, n); break;
    default: memset(out, 0xff, n);
    }
}

void dt_fill_bytes(const struct dt_buffer *b, uint64_t seed_add, uint8_t *out)
{
    dt_fill_range(b, seed_add, 0, b->bytes, out);
}

int dt_fill_sha256(const struct dt_buffer *b, char text[DT_SHA256_TEXT])
{
    enum { PIECE = 1 << 16 };
    struct dt_sha256 h;
    dt_free_ uint8_t *piece = dt_malloc(PIECE);
    if (!piece || dt_sha256_init(&h) < 0)
        return DT_E_NOMEM;
    for (uint64_t at = 0; at < b->bytes; at += PIECE) {
        uint64_t n = b->bytes - at < PIECE ? b->bytes - at : PIECE;
        dt_fill_range(b, 0, at, n, piece);
        dt_sha256_add(&h, piece, n);
    }
    dt_sha256_final(&h, text);
    return 0;
}
