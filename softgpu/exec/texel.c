/* Texels as bytes and as values.
 *
 * A texel has one, two or four channels. Channels that it lacks read as 0, the fourth as 1. Integers of 8 and 16 bits
 * that are not read as they are become v / 255, v / 65535, or v / 127 and v / 32767 but not less than -1 (CUDA
 * Programming Guide, "Texture Fetching"). Halves become floats. sust.p stores what fits: integers outside a channel's
 * range become the nearest in it, which the manual leaves open, halves are rounded to nearest.
 */
#include <string.h>

#include "softgpu/exec/bits.h"
#include "softgpu/exec/sample.h"

static bool texel_floats(const struct sg_texture *t)
{
    return t->texel == SG_TEXEL_F16 || t->texel == SG_TEXEL_F32 ||
           (!t->integers && t->texel != SG_TEXEL_U32 && t->texel != SG_TEXEL_S32);
}

static uint32_t scaled(int32_t v, float most) { return sg_bits((float)v / most); }

static uint32_t texel_channel(const struct sg_texture *t, const uint8_t *p)
{
    uint16_t h;
    uint32_t w;
    memcpy(&h, p, sg_texel_bytes(t->texel) == 1 ? 1 : 2);
    if (sg_texel_bytes(t->texel) == 1)
        h = *p;
    switch (t->texel) {
    case SG_TEXEL_U8: return t->integers ? h : scaled(h, 255);
    case SG_TEXEL_S8: return t->integers ? (uint32_t)(int8_t)h : scaled((int8_t)h < -127 ? -127 : (int8_t)h, 127);
    case SG_TEXEL_U16: return t->integers ? h : scaled(h, 65535);
    case SG_TEXEL_S16:
        return t->integers ? (uint32_t)(int16_t)h : scaled((int16_t)h < -32767 ? -32767 : (int16_t)h, 32767);
    case SG_TEXEL_F16: return sg_f16_to_f32(h);
    default: memcpy(&w, p, 4); return w;
    }
}

void sg_texel_read(const struct sg_texture *t, const struct sg_sampler *s, const uint8_t *p, uint32_t ret[4])
{
    for (unsigned k = 0; k < 4; k++)
        ret[k] = k == 3 ? texel_floats(t) ? 0x3F800000u : 1 : 0;
    for (unsigned k = 0; k < t->channels; k++)
        ret[k] = p ? texel_channel(t, p + k * sg_texel_bytes(t->texel)) : s->border[k];
}

void sg_texel_sum(const struct sg_texture *t, const struct sg_taps *taps, const uint32_t (*v)[4], uint32_t ret[4])
{
    (void)t;
    for (unsigned c = 0; c < 4; c++) {
        double sum = 0;
        for (unsigned k = 0; k < taps->n; k++)
            sum += taps->weight[k] * (double)sg_float(v[k][c]);
        ret[c] = taps->single ? v[0][c] : sum == sum ? sg_bits((float)sum) : SG_NAN32;
    }
}

static uint32_t clamped(uint32_t v, bool sign, unsigned bits)
{
    if (sign) {
        int32_t most = (int32_t)(UINT32_MAX >> (33 - bits)), s = (int32_t)v;
        return (uint32_t)(s > most ? most : s < -most - 1 ? -most - 1 : s);
    }
    uint32_t most = UINT32_MAX >> (32 - bits);
    return v > most ? most : v;
}

void sg_texel_write(const struct sg_texture *t, const uint32_t *v, unsigned n, uint8_t ret[16])
{
    unsigned bytes = sg_texel_bytes(t->texel);
    memset(ret, 0, 16);
    for (unsigned k = 0; k < t->channels && k < n; k++) {
        bool sign = t->texel == SG_TEXEL_S8 || t->texel == SG_TEXEL_S16 || t->texel == SG_TEXEL_S32;
        uint32_t x = t->texel == SG_TEXEL_F16   ? sg_f32_to_f16(v[k])
                     : t->texel == SG_TEXEL_F32 ? v[k]
                                                : clamped(v[k], sign, 8 * bytes);
        memcpy(ret + k * bytes, &x, bytes);
    }
}
