/* Surfaces: suld, sust and sured, as loads, stores and atomics at addresses that are worked out here.
 *
 * The first coordinate is in bytes (.b) or in texels (.p). What is outside is a fault (.trap), the nearest element
 * inside (.clamp), or nothing: a load gives 0, a store does not happen (.zero). Layers are clamped. The operation has a
 * row for the addresses; what remains is done by the handlers of plain accesses (access.c), so that bounds, counters
 * and the checking modes see a surface as they see other memory.
 */
#include "softgpu/exec/exec-priv.h"

#include <string.h>

#include "softgpu/exec/sample.h"

/* The address of a lane's element; 0 and no fault: outside, under .zero. */
static uint64_t surface_element(struct sg_warp *w, const struct sg_op *op, unsigned lane, unsigned bytes,
                                const struct sg_texture **ret)
{
    const uint32_t *ext = w->code->ext + op->imm, shape = ext[SG_SX_SHAPE];
    const struct sg_texture *t =
        sg_reference_of(w, op, lane, SG_P(uint64_t, ext[SG_SX_SURFACE])[lane], SG_REF_SURFACE, shape);
    if (!t)
        return 0;
    *ret = t;
    const struct sg_level *l = &t->level[0];
    unsigned texel = sg_texel_bytes(t->texel) * t->channels, how = op->sub & SG_SURFACE_HOW;
    bool samples = op->sub & SG_SURFACE_SAMPLES;
    int64_t size[3] = {(int64_t)l->width * texel, l->height, l->depth}, x[3] = {0, 0, 0}, slice = 0;
    unsigned dims = shape & SG_SHAPE_DIMS;
    bool outside = false;
    for (unsigned k = 0; k < dims; k++) {
        int64_t step = k ? 1 : bytes;
        x[k] = (int64_t)(int32_t)SG_P(uint32_t, ext[SG_SX_COORD + k])[lane] * (k || !samples ? 1 : texel);
        if (!k && x[0] % step) {
            bool first = !w->wk->fault;
            sg_fault_at(w, op, DT_E_BOUNDS, lane, (uint64_t)x[0], bytes, "byte %lld of a row, misaligned for %u bytes",
                        (long long)x[0], bytes);
            w->wk->f.misaligned |= first;
            return 0;
        }
        if (x[k] >= 0 && x[k] <= size[k] - step)
            continue;
        outside = true;
        if (how == SG_SURFACE_TRAP) {
            sg_fault_at(w, op, DT_E_BOUNDS, lane, 0, bytes,
                        "coordinate %lld is outside of the surface, which has %lld%s", (long long)x[k],
                        (long long)size[k], k ? "" : " bytes in a row");
            return 0;
        }
        x[k] = x[k] < 0 ? 0 : size[k] - step;
    }
    if (outside && how == SG_SURFACE_ZERO)
        return 0;
    if (ext[SG_SX_LAYER] != SG_NONE) {
        uint32_t layer = SG_P(uint32_t, ext[SG_SX_LAYER])[lane];
        slice = layer < l->depth ? layer : l->depth - 1;
    }
    return l->base + (uint64_t)(dims > 2 ? x[2] : slice) * l->slice + (uint64_t)x[1] * l->pitch + (uint64_t)x[0];
}

static void surface_clear(struct sg_warp *w, const struct sg_op *op, uint32_t mask)
{
    for (unsigned e = 0; e < op->n; e++) {
        uint32_t ref = op->n == 1 ? op->d : w->code->ext[op->x + e];
        for (uint32_t m = mask; m; m &= m - 1) {
            unsigned l = (unsigned)__builtin_ctz(m);
            if (op->size == 8 || op->flags & SG_D64)
                SG_P(uint64_t, ref)[l] = 0;
            else
                SG_P(uint32_t, ref)[l] = 0;
        }
    }
}

/* What sust.p stores, in the rows of a store of its texels: four words at most. */
static void surface_convert(struct sg_warp *w, const struct sg_op *op, const struct sg_texture *t, unsigned lane)
{
    const uint32_t *ext = w->code->ext + op->imm;
    uint32_t v[4] = {0}, n = ext[SG_SX_DATA], word[4];
    uint8_t raw[16];
    for (unsigned k = 0; k < n; k++)
        v[k] = SG_P(uint32_t, ext[SG_SX_DATA + 1 + k])[lane];
    sg_texel_write(t, v, n, raw);
    memcpy(word, raw, sizeof word);
    for (unsigned k = 0; k < 4; k++)
        SG_P(uint32_t, w->code->ext[op->x + k])[lane] = word[k];
}

static const struct sg_op *surface(struct sg_warp *w, const struct sg_op *op, sg_fn access)
{
    struct sg_op plain = *op; /* with its rows, elements and type */
    const struct sg_texture *t[SG_LANES];
    uint32_t mask = w->mask, inside = 0, done = 0;
    bool samples = op->sub & SG_SURFACE_SAMPLES;
    unsigned bytes = op->size * op->n;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        t[l] = NULL;
        if (access == sg_store_slow && samples) {
            const uint32_t *ext = w->code->ext + op->imm;
            const struct sg_texture *x =
                sg_reference_of(w, op, l, SG_P(uint64_t, ext[SG_SX_SURFACE])[l], SG_REF_SURFACE, ext[SG_SX_SHAPE]);
            if (!x)
                return NULL;
            bytes = sg_texel_bytes(x->texel) * x->channels;
        }
        uint64_t at = surface_element(w, op, l, bytes, &t[l]);
        if (w->stop == SG_FAULT)
            return NULL;
        SG_P(uint64_t, op->a)[l] = at;
        inside |= (uint32_t)(at != 0) << l;
    }
    if (access == sg_load_slow)
        surface_clear(w, op, mask & ~inside);
    plain.imm = 0;
    plain.sub = (uint8_t)op->c;
    plain.flags |= SG_A64;
    const struct sg_op *r = op;
    while (r && done != inside) { /* lanes whose texels have the same format, mostly all */
        uint32_t turn = inside & ~done;
        if (samples) {
            const struct sg_texture *of = t[__builtin_ctz(turn)];
            for (uint32_t m = turn; m; m &= m - 1) {
                unsigned l = (unsigned)__builtin_ctz(m);
                if (t[l]->texel != of->texel || t[l]->channels != of->channels)
                    turn &= ~(1u << l);
                else if (access == sg_store_slow)
                    surface_convert(w, op, t[l], l);
            }
            unsigned texel = sg_texel_bytes(of->texel) * of->channels;
            bool sign = of->texel == SG_TEXEL_S32;
            if (access == sg_store_slow) {
                plain.size = (uint8_t)(texel < 4 ? texel : 4);
                plain.n = (uint8_t)(texel <= 4 ? 1 : texel / 4);
                plain.b = w->code->ext[op->x];
            } else if (of->channels != 1 || (of->texel != SG_TEXEL_U32 && of->texel != SG_TEXEL_S32)) {
                return sg_fault_at(w, op, DT_E_UNSUPPORTED, (unsigned)__builtin_ctz(turn), 0, 0,
                                   "the software device reduces surfaces of one integer of 32 bits only");
            } else {
                plain.type = sign ? PTX_S32 : PTX_U32;
            }
        }
        w->mask = turn;
        r = access(w, &plain);
        w->mask = mask;
        done |= turn;
    }
    return r ? op + 1 : NULL;
}

const struct sg_op *sg_surface_load(struct sg_warp *w, const struct sg_op *op) { return surface(w, op, sg_load_slow); }
const struct sg_op *sg_surface_store(struct sg_warp *w, const struct sg_op *op)
{
    return surface(w, op, sg_store_slow);
}
const struct sg_op *sg_surface_reduce(struct sg_warp *w, const struct sg_op *op) { return surface(w, op, sg_atomic); }
