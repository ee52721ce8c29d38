/* Fetches from textures, and questions about textures, samplers and surfaces.
 *
 * A fetch is, for each lane, a list of texels with weights (sample.c). The n-th texels of all lanes are one load of a
 * warp, so that bounds, counters and the checking modes see a texture as they see other memory. The handle is looked up
 * lane by lane, as it may differ. Faults: a handle that names no texture, or one that nobody has bound; a geometry that
 * is not the texture's; what sample.c cannot do.
 */
#include "softgpu/exec/exec-priv.h"

#include "softgpu/exec/bits.h"
#include "softgpu/exec/sample.h"

static const struct sg_texture *reference(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t handle,
                                          enum sg_reference kind)
{
    static const char *const name[] = {
        [SG_REF_TEXTURE] = "texture", [SG_REF_SAMPLER] = "sampler", [SG_REF_SURFACE] = "surface"};
    const struct sg_texture *t = sg_texture_find(w->wk->run->device, handle);
    if (!t || t->kind != kind)
        sg_fault_at(w, op, DT_E_BOUNDS, lane, handle, 0, "0x%llx is no %s", (unsigned long long)handle, name[kind]);
    else if (!t->bound)
        sg_fault_at(w, op, DT_E_BOUNDS, lane, handle, 0, "the %s is not bound to any memory", name[kind]);
    else
        return t;
    return NULL;
}

const struct sg_texture *sg_reference_of(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t handle,
                                         enum sg_reference kind, uint32_t shape)
{
    const struct sg_texture *t = reference(w, op, lane, handle, kind);
    if (!t)
        return NULL;
    bool cube = shape & SG_SHAPE_CUBE, layered = shape & SG_SHAPE_LAYERED;
    /* a surface of a cube is one of layers */
    bool fits = kind == SG_REF_SURFACE && t->cube
                    ? layered && (shape & SG_SHAPE_DIMS) == 2
                    : t->cube == cube && t->layered == layered && (cube || t->dims == (shape & SG_SHAPE_DIMS));
    if (fits)
        return t;
    sg_fault_at(w, op, DT_E_BOUNDS, lane, handle, 0, "the %s is %s%s of %u dimensions",
                kind == SG_REF_SURFACE ? "surface" : "texture", t->cube ? "a cube" : "one",
                t->layered ? " with layers," : "", t->dims);
    return NULL;
}

static float float_at(const struct sg_warp *w, uint32_t ref, unsigned lane)
{
    return ref == SG_NONE ? 0 : sg_float(SG_P(uint32_t, ref)[lane]);
}
static int32_t int_at(const struct sg_warp *w, uint32_t ref, unsigned lane)
{
    return ref == SG_NONE ? 0 : (int32_t)SG_P(uint32_t, ref)[lane];
}

/* What a lane fetches; NULL: fault. */
static const struct sg_texture *texture_lane(struct sg_warp *w, const struct sg_op *op, unsigned l,
                                             const struct sg_sampler **ret_sampler, struct sg_taps *ret)
{
    const uint32_t *ext = w->code->ext + op->x, shape = ext[SG_FX_SHAPE];
    const struct sg_texture *t =
        sg_reference_of(w, op, l, SG_P(uint64_t, ext[SG_FX_TEXTURE])[l], SG_REF_TEXTURE, shape);
    if (!t)
        return NULL;
    const struct sg_sampler *s = &t->sampler;
    if (ext[SG_FX_SAMPLER] != SG_NONE) {
        const struct sg_texture *x = reference(w, op, l, SG_P(uint64_t, ext[SG_FX_SAMPLER])[l], SG_REF_SAMPLER);
        if (!x)
            return NULL;
        s = &x->sampler;
    }
    struct sg_fetch f = {.dims = shape & SG_SHAPE_DIMS,
                         .cube = shape & SG_SHAPE_CUBE,
                         .layered = shape & SG_SHAPE_LAYERED,
                         .integer = shape & SG_SHAPE_INTEGER,
                         .gather = op->sub == SG_FETCH_GATHER,
                         .level = op->sub == SG_FETCH_LEVEL,
                         .grad = op->sub == SG_FETCH_GRAD,
                         .layer = (uint32_t)int_at(w, ext[SG_FX_LAYER], l),
                         .lod = float_at(w, ext[SG_FX_LOD], l),
                         .mip = int_at(w, ext[SG_FX_LOD], l)};
    for (unsigned k = 0; k < 3; k++) {
        f.coord[k] = float_at(w, ext[SG_FX_COORD + k], l);
        f.texel[k] = int_at(w, ext[SG_FX_COORD + k], l);
        f.dx[k] = float_at(w, ext[SG_FX_DX + k], l);
        f.dy[k] = float_at(w, ext[SG_FX_DY + k], l);
        f.offset[k] = int_at(w, ext[SG_FX_OFFSET + k], l);
        if (f.offset[k] < -8 || f.offset[k] > 7) {
            sg_fault_at(w, op, DT_E_TRAP, l, 0, 0, "an offset of %d: -8 to 7", f.offset[k]);
            return NULL;
        }
    }
    bool scaled = t->integers || t->texel == SG_TEXEL_U32 || t->texel == SG_TEXEL_S32;
    const char *why = s->linear && !f.integer && !f.gather && scaled             ? "a linear filter of integers"
                      : scaled && (op->type == PTX_F16 || op->type == PTX_F16X2) ? "halves of integers"
                                                                                 : sg_sample(t, s, &f, ret);
    if (why) {
        sg_fault_at(w, op, DT_E_UNSUPPORTED, l, 0, 0, "the software device cannot do this: %s", why);
        return NULL;
    }
    *ret_sampler = s;
    return t;
}

static void texture_put(struct sg_warp *w, const struct sg_op *op, unsigned l, const uint32_t v[4])
{
    const uint32_t *dst = w->code->ext + op->x + SG_FX_DST;
    for (unsigned k = 0; k < 4; k++)
        if (op->type == PTX_F16X2 && k < 2)
            SG_P(uint32_t, dst[k])[l] = sg_f32_to_f16(v[2 * k]) | sg_f32_to_f16(v[2 * k + 1]) << 16;
        else if (op->type != PTX_F16X2)
            SG_P(uint32_t, dst[k])[l] = op->type == PTX_F16 ? sg_f32_to_f16(v[k]) : v[k];
}

const struct sg_op *sg_fetch(struct sg_warp *w, const struct sg_op *op)
{
    const struct sg_texture *t[SG_LANES];
    const struct sg_sampler *s[SG_LANES];
    struct sg_taps taps[SG_LANES];
    uint32_t value[SG_LANES][SG_TAPS][4];
    uint64_t ad[SG_LANES];
    uint8_t *at[SG_LANES];
    unsigned most = 0;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        if (!(t[l] = texture_lane(w, op, l, &s[l], &taps[l])))
            return NULL;
        most = taps[l].n > most ? taps[l].n : most;
    }
    for (unsigned k = 0; k < most; k++) {
        for (unsigned bytes = 1; bytes <= 16; bytes *= 2) { /* textures of one kind of texel, mostly */
            uint32_t mask = 0;
            for (uint32_t m = w->mask; m; m &= m - 1) {
                unsigned l = (unsigned)__builtin_ctz(m);
                if (k < taps[l].n && taps[l].at[k] && sg_texel_bytes(t[l]->texel) * t[l]->channels == bytes) {
                    ad[l] = taps[l].at[k];
                    mask |= 1u << l;
                }
            }
            if (!sg_read_lanes(w, op, ad, mask, bytes, at))
                return NULL;
            for (uint32_t m = mask; m; m &= m - 1) {
                unsigned l = (unsigned)__builtin_ctz(m);
                sg_texel_read(t[l], s[l], at[l], value[l][k]);
            }
        }
        for (uint32_t m = w->mask; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);
            if (k < taps[l].n && !taps[l].at[k])
                sg_texel_read(t[l], s[l], NULL, value[l][k]);
        }
    }
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t v[4];
        if (op->sub == SG_FETCH_GATHER)
            for (unsigned k = 0; k < 4; k++)
                v[k] = value[l][k][op->n];
        else
            sg_texel_sum(t[l], &taps[l], (const uint32_t(*)[4])value[l], v);
        texture_put(w, op, l, v);
    }
    uint32_t pred = w->code->ext[op->x + SG_FX_PRED];
    if (pred != SG_NONE)
        *SG_P(uint32_t, pred) |= w->mask; /* everything is resident */
    return op + 1;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */
static uint32_t answer(const struct sg_texture *t, const struct sg_level *l, enum ptx_mod query)
{
    static const uint8_t mode[] = {[SG_EDGE_WRAP] = 0, [SG_EDGE_MIRROR] = 1, [SG_EDGE_CLAMP] = 3, [SG_EDGE_BORDER] = 4};
    switch (query) {
    case PTX_M_WIDTH: return l->width;
    case PTX_M_HEIGHT: return t->dims > 1 ? l->height : 0;
    case PTX_M_DEPTH: return t->dims > 2 ? l->depth : 0;
    case PTX_M_ARRAY_SIZE: return t->layered ? l->depth : 0;
    case PTX_M_NORMALIZED_COORDS: return t->sampler.normalized;
    case PTX_M_FORCE_UNNORMALIZED_COORDS: return !t->sampler.normalized;
    case PTX_M_NUM_MIPMAP_LEVELS: return t->nlevel;
    case PTX_M_FILTER_MODE: return t->sampler.linear;
    case PTX_M_ADDR_MODE_0:
    case PTX_M_ADDR_MODE_1:
    default: return mode[t->sampler.edge[query - PTX_M_ADDR_MODE_0]];
    }
}

const struct sg_op *sg_texture_query(struct sg_warp *w, const struct sg_op *op)
{
    enum ptx_mod query = (enum ptx_mod)(op->sub + PTX_M_WIDTH);
    static const struct sg_level none;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t handle = SG_P(uint64_t, op->a)[l];
        const struct sg_texture *x = sg_texture_find(w->wk->run->device, handle);
        enum sg_reference kind = op->n ? SG_REF_SURFACE
                                 : x && x->kind == SG_REF_SAMPLER && query >= PTX_M_FORCE_UNNORMALIZED_COORDS
                                     ? SG_REF_SAMPLER
                                     : SG_REF_TEXTURE;
        const struct sg_texture *t = reference(w, op, l, handle, kind);
        uint32_t level = op->b == SG_NONE ? 0 : SG_P(uint32_t, op->b)[l];
        if (!t)
            return NULL;
        if (level >= t->nlevel && op->b != SG_NONE)
            return sg_fault_at(w, op, DT_E_BOUNDS, l, handle, 0, "level %u of %u", level, t->nlevel);
        SG_P(uint32_t, op->d)[l] = answer(t, t->nlevel ? &t->level[level] : &none, query);
    }
    return op + 1;
}

const struct sg_op *sg_texture_kind(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t r = 0, *p = SG_P(uint32_t, op->d);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        const struct sg_texture *t = sg_texture_find(w->wk->run->device, SG_P(uint64_t, op->a)[l]);
        r |= (uint32_t)(t && t->kind == (enum sg_reference)op->sub) << l;
    }
    *p = (*p & ~w->mask) | r;
    return op + 1;
}
