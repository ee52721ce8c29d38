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
