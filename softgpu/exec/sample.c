/* Which texels a fetch reads and with what weights (CUDA Programming Guide, "Texture Fetching"; PTX §9.7.10).
 *
 * In unnormalised coordinates x of N texels, the nearest one is floor(x). A linear filter takes i = floor(x - 0.5) and
 * i + 1 with weights 1 - a and a, where a is the fraction of x - 0.5 in 9-bit fixed point with 8 bits of fraction,
 * rounded to nearest, so that 1 can come out. A normalised coordinate is N times as much. Then each index meets the
 * edge: clamp to 0 … N - 1, border, and, of normalised coordinates, wrap (modulo N) and mirror (of period 2 N).
 * Unnormalised ones wrap and mirror by clamping. Everything is computed in double, and a texel of weight 0 is not read.
 *
 * Layers are clamped. A cube is six layers; the face is that of the largest coordinate, x before y before z where two
 * are equal, and filters stay within the face. A level of detail, with the sampler's bias, is clamped to its range and
 * to the levels there are; between levels the fraction has 8 bits, too; without .level and .grad it is 0, without bias.
 * .grad takes the longer of the two gradients in texels; its logarithm is the level. Anisotropy and the gradients of
 * cubes are not modelled: no formula is published.
 *
 * Integer coordinates name a texel and are not filtered. Linear memory reads as 0 outside.
 */
#include "softgpu/exec/sample.h"

#include <math.h>

#include "softgpu/exec/approx.h"

struct axis { /* up to two texels along an axis; -1: the border */
    int64_t i[2];
    double weight[2];
    unsigned n;
};

static int64_t floored(double x) /* NaN: 0 */
{
    return x != x ? 0 : x < -0x1p62 ? -(INT64_C(1) << 62) : x > 0x1p62 ? INT64_C(1) << 62 : (int64_t)floor(x);
}

static int64_t edged(int64_t i, int64_t n, enum sg_edge edge)
{
    switch (edge) {
    case SG_EDGE_WRAP: return (i % n + n) % n;
    case SG_EDGE_MIRROR: i = (i % (2 * n) + 2 * n) % (2 * n); return i < n ? i : 2 * n - 1 - i;
    case SG_EDGE_BORDER: return i < 0 || i >= n ? -1 : i;
    default: return i < 0 ? 0 : i >= n ? n - 1 : i;
    }
}

/* In texels, near enough to the texture for an index where that makes no difference. */
static double in_texels(double x, double n, bool normalized, enum sg_edge edge)
{
    if (!normalized)
        return x;
    if (edge == SG_EDGE_WRAP)
        x -= floor(x);
    else if (edge == SG_EDGE_MIRROR)
        x -= 2 * floor(x / 2);
    return x * n;
}

static struct axis axis_of(double x, uint32_t n, bool normalized, enum sg_edge edge, bool linear, bool gather,
                           int32_t offset)
{
    struct axis a = {.n = 1, .weight = {1, 0}};
    if (!normalized && (edge == SG_EDGE_WRAP || edge == SG_EDGE_MIRROR))
        edge = SG_EDGE_CLAMP;
    x = in_texels(x, n, normalized, edge);
    if (!linear && !gather) {
        a.i[0] = edged(floored(x) + offset, n, edge);
        return a;
    }
    double from = x - 0.5, part = from - floor(from);
    int64_t i = floored(from) + offset;
    a.n = 2;
    a.weight[1] = part == part ? floor(part * 256 + 0.5) / 256 : 0;
    a.weight[0] = 1 - a.weight[1];
    for (unsigned k = 0; k < 2; k++)
        a.i[k] = edged(i + k, n, edge);
    return a;
}

/* The face, and coordinates in it from 0 to 1. */
static unsigned face_of(const float c[3], double ret[2])
{
    double x = (double)c[0], y = (double)c[1], z = (double)c[2], ax = fabs(x), ay = fabs(y), az = fabs(z), s, t, m;
    unsigned face;
    if (ax >= ay && ax >= az) {
        face = x < 0;
        m = ax, s = x < 0 ? z : -z, t = -y;
    } else if (ay >= az) {
        face = 2 + (y < 0);
        m = ay, s = x, t = y < 0 ? -z : z;
    } else {
        face = 4 + (z < 0);
        m = az, s = z < 0 ? -x : x, t = -y;
    }
    ret[0] = (s / m + 1) / 2;
    ret[1] = (t / m + 1) / 2;
    return face;
}

static void sample_level(const struct sg_texture *t, const struct sg_sampler *s, const struct sg_fetch *f, unsigned at,
                         double weight, struct sg_taps *ret)
{
    const struct sg_level *l = &t->level[at];
    unsigned dims = f->cube ? 2 : f->dims, texel = sg_texel_bytes(t->texel) * t->channels;
    uint32_t size[3] = {l->width, l->height, l->depth};
    struct axis a[3] = {{.n = 1, .weight = {1, 0}}, {.n = 1, .weight = {1, 0}}, {.n = 1, .weight = {1, 0}}};
    uint64_t slice = 0;
    double x[3] = {(double)f->coord[0], (double)f->coord[1], (double)f->coord[2]};
    uint32_t layers = f->cube ? l->depth / 6 : l->depth;
    if (f->layered)
        slice = f->layer < layers ? f->layer : layers - 1;
    if (f->cube)
        slice = slice * 6 + face_of(f->coord, x);
    for (unsigned k = 0; k < dims; k++) {
        enum sg_edge edge = f->cube ? SG_EDGE_CLAMP : t->memory ? SG_EDGE_BORDER : s->edge[k];
        if (f->integer) {
            if (edge != SG_EDGE_BORDER)
                edge = SG_EDGE_CLAMP;
            a[k].i[0] = edged((int64_t)f->texel[k] + f->offset[k], size[k], edge);
        } else {
            a[k] = axis_of(x[k], size[k], f->cube || s->normalized, edge, s->linear, f->gather, f->offset[k]);
        }
    }
    unsigned first = ret->n;
    for (unsigned k = 0; k < a[0].n * a[1].n * a[2].n; k++) {
        unsigned e[3] = {k % a[0].n, k / a[0].n % a[1].n, k / a[0].n / a[1].n};
        double w = weight * a[0].weight[e[0]] * a[1].weight[e[1]] * a[2].weight[e[2]];
        if (w == 0 && !f->gather)
            continue;
        int64_t i = a[0].i[e[0]], j = a[1].i[e[1]], h = dims > 2 ? a[2].i[e[2]] : (int64_t)slice;
        bool outside = i < 0 || j < 0 || h < 0;
        ret->weight[ret->n] = w;
        ret->at[ret->n++] =
            outside ? 0 : l->base + (uint64_t)h * l->slice + (uint64_t)j * l->pitch + (uint64_t)i * texel;
    }
    if (f->gather) { /* counter-clockwise from the lower left, where the second coordinate is larger */
        uint64_t *four = ret->at + first, q[4] = {four[2], four[3], four[1], four[0]};
        for (unsigned k = 0; k < 4; k++)
            four[k] = q[k];
    }
}

static double sample_lod(const struct sg_texture *t, const struct sg_sampler *s, const struct sg_fetch *f)
{
    double lod = 0, most = t->nlevel - 1.0;
    if (f->level)
        lod = f->integer ? (double)f->mip : (double)f->lod;
    if (f->grad) {
        uint32_t size[3] = {t->level[0].width, t->level[0].height, t->level[0].depth};
        double x = 0, y = 0;
        for (unsigned k = 0; k < f->dims; k++) {
            double n = s->normalized ? size[k] : 1, dx = (double)f->dx[k] * n, dy = (double)f->dy[k] * n;
            x += dx * dx;
            y += dy * dy;
        }
        lod = sg_lg2_d(x > y ? x : y) / 2;
    }
    if (f->level || f->grad)
        lod += (double)s->bias;
    lod = lod != lod ? 0 : lod;
    lod = lod < (double)s->least ? (double)s->least : lod > (double)s->most ? (double)s->most : lod;
    return lod < 0 ? 0 : lod > most ? most : lod;
}

const char *sg_sample(const struct sg_texture *t, const struct sg_sampler *s, const struct sg_fetch *f,
                      struct sg_taps *ret)
{
    if (f->grad && f->cube)
        return "gradients of a cube";
    if (f->grad && s->anisotropy > 1)
        return "anisotropic filtering";
    ret->n = 0;
    double lod = sample_lod(t, s, f), part = 0;
    unsigned low = (unsigned)lod;
    if (f->gather)
        low = 0;
    else if (!s->mip_linear || f->integer)
        low = (unsigned)(lod + 0.5);
    else
        part = floor((lod - low) * 256 + 0.5) / 256;
    if (part < 1)
        sample_level(t, s, f, low, 1 - part, ret);
    if (part > 0)
        sample_level(t, s, f, low + 1, part, ret);
    ret->single = !f->gather && ret->n == 1 && ret->weight[0] == 1;
    return NULL;
}
