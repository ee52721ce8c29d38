/* Inside exec: which texels a fetch reads, and what it makes of them (sample.c, texel.c). */
#ifndef DT_SOFTGPU_SAMPLE_H
#define DT_SOFTGPU_SAMPLE_H

#include "softgpu/sg.h"

struct sg_fetch { /* one lane's */
    unsigned dims;
    bool cube, layered, integer, gather, level, grad;
    uint32_t layer;
    float coord[3], lod, dx[3], dy[3];
    int32_t texel[3], mip; /* integer: instead of coord and lod */
    int32_t offset[3];
};
enum { SG_TAPS = 16 }; /* eight of two levels each */
struct sg_taps {
    unsigned n;
    uint64_t at[SG_TAPS]; /* address; 0: the border */
    double weight[SG_TAPS];
    bool single; /* one texel as it is: no arithmetic */
};
/* NULL, or why the software device cannot do it. `s`: the texture's own sampler, or another. */
const char *sg_sample(const struct sg_texture *t, const struct sg_sampler *s, const struct sg_fetch *f,
                      struct sg_taps *ret);

/* Four channels of a texel as registers hold them: bits of floats, or integers. `p` NULL: the border. */
void sg_texel_read(const struct sg_texture *t, const struct sg_sampler *s, const uint8_t *p, uint32_t ret[4]);
/* The texel that sust.p stores: `n` values of 32 bits, the others are 0. */
void sg_texel_write(const struct sg_texture *t, const uint32_t *v, unsigned n, uint8_t ret[16]);
/* Sum of weighted texels, each [4]. */
void sg_texel_sum(const struct sg_texture *t, const struct sg_taps *taps, const uint32_t (*v)[4], uint32_t ret[4]);

#endif
