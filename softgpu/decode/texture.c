/* Decoding of texture and surface instructions; exec/texture.c and exec/surface.c do them.
 *
 * Their operands are too many for a struct sg_op: enum sg_fetch_ext and enum sg_surface_ext say where each lies in
 * code->ext. A handle is a 64-bit row: a register, a constant (a variable of the module) or a parameter. Refused by
 * name, since no program can make such a texture here or nobody has published what comes out: samples, comparison of
 * depths, gradients of cubes, what channels are called, the layout of memory, sured.p of 64 bits.
 */
#include "softgpu/decode/inst.h"

static uint32_t handle_of(struct sg_dec *d, const struct ptx_opnd *o)
{
    if (o->kind == PTX_O_VAR && sg_is_kernel_param(d, o->var)) {
        uint64_t at = 0;
        sg_var_address(d, o->var, &at);
        return sg_param_row(d, (uint32_t)at, 8);
    }
    return sg_source(d, o, PTX_U64);
}

static uint32_t texture_shape(const struct ptx_texture *t)
{
    return t->dims | (t->cube ? SG_SHAPE_CUBE : 0) | (t->layer ? SG_SHAPE_LAYERED : 0);
}

static uint32_t ext_of(struct sg_dec *d, const uint32_t *ext, unsigned n)
{
    uint32_t x = sg_ext(d, ext[0]);
    for (unsigned k = 1; k < n; k++)
        sg_ext(d, ext[k]);
    return x;
}

static const struct ptx_opnd *texture_element(const struct ptx_opnd *o, unsigned k)
{
    return o->kind == PTX_O_VEC ? &o->elem[k] : o;
}

static int fetch(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    struct ptx_texture t = ptx_texture_of(d->f, i);
    enum ptx_type dt = (enum ptx_type)i->type[0];
    bool integer = i->type[1] == PTX_S32;
    if (t.samples || t.compare || (t.dx && t.cube))
        return sg_dec_unsupported(d);
    uint32_t ext[SG_FX_COUNT];
    for (unsigned k = 0; k < SG_FX_COUNT; k++)
        ext[k] = SG_NONE;
    ext[SG_FX_TEXTURE] = handle_of(d, t.name);
    if (t.sampler)
        ext[SG_FX_SAMPLER] = handle_of(d, t.sampler);
    if (t.layer)
        ext[SG_FX_LAYER] = sg_source(d, t.layer, PTX_U32);
    for (unsigned k = 0; k < t.dims; k++) {
        ext[SG_FX_COORD + k] = sg_source(d, &t.coord[k], integer ? PTX_S32 : PTX_F32);
        if (t.dx) {
            ext[SG_FX_DX + k] = sg_source(d, texture_element(t.dx, k), PTX_F32);
            ext[SG_FX_DY + k] = sg_source(d, texture_element(t.dy, k), PTX_F32);
        }
        if (t.offset)
            ext[SG_FX_OFFSET + k] = sg_source(d, texture_element(t.offset, k), PTX_S32);
    }
    if (t.lod)
        ext[SG_FX_LOD] = sg_source(d, t.lod, integer ? PTX_S32 : PTX_F32);
    ext[SG_FX_SHAPE] = texture_shape(&t) | (integer ? SG_SHAPE_INTEGER : 0);
    for (unsigned k = 0; k < i->opnd[0].n; k++)
        ext[SG_FX_DST + k] = sg_dest(d, &i->opnd[0].elem[k], dt);
    if (i->dst2)
        ext[SG_FX_PRED] = sg_pred_dest(d, &i->opnd[1]);
    uint32_t x = ext_of(d, ext, SG_FX_COUNT);
    struct sg_op *op = sg_emit(d, sg_fetch);
    op->x = x;
    op->site = d->nsite++;
    op->space = PTX_GLOBAL;
    op->type = (uint8_t)dt;
    op->sub = i->op == PTX_OP_TEX_LEVEL  ? SG_FETCH_LEVEL
              : i->op == PTX_OP_TEX_GRAD ? SG_FETCH_GRAD
              : i->op == PTX_OP_TLD4     ? SG_FETCH_GATHER
                                         : SG_FETCH_PLAIN;
    op->n = ptx_has(i, PTX_M_G) ? 1 : ptx_has(i, PTX_M_B) ? 2 : ptx_has(i, PTX_M_A) ? 3 : 0;
    return 0;
}

static int query(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_mod q = ptx_mod_of(i, PTX_MC_QUERY);
    if (q == PTX_M_CHANNEL_DATA_TYPE || q == PTX_M_CHANNEL_ORDER || q == PTX_M_NUM_SAMPLES || q == PTX_M_MEMORY_LAYOUT)
        return sg_dec_unsupported(d);
    uint32_t a = handle_of(d, &i->opnd[1].elem[0]), level = SG_NONE;
    if (i->op == PTX_OP_TXQ_LEVEL)
        level = sg_source(d, &i->opnd[2], PTX_U32);
    uint32_t dst = sg_dest(d, &i->opnd[0], PTX_B32);
    struct sg_op *op = sg_emit(d, sg_texture_query);
    op->d = dst;
    op->a = a;
    op->b = level;
    op->sub = (uint8_t)(q - PTX_M_WIDTH);
    op->n = i->op == PTX_OP_SUQ;
    return 0;
}

static int is_kind(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    uint32_t a = sg_source(d, &i->opnd[1], PTX_U64), dst = sg_pred_dest(d, &i->opnd[0]);
    struct sg_op *op = sg_emit(d, sg_texture_kind);
    op->d = dst;
    op->a = a;
    op->sub = i->type[0] == PTX_TEXREF ? SG_REF_TEXTURE : i->type[0] == PTX_SURFREF ? SG_REF_SURFACE : SG_REF_SAMPLER;
    return 0;
}

static int surface(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    struct ptx_texture t = ptx_texture_of(d->f, i);
    bool load = i->op == PTX_OP_SULD_B, store = i->op == PTX_OP_SUST_B || i->op == PTX_OP_SUST_P,
         samples = i->op == PTX_OP_SUST_P || i->op == PTX_OP_SURED_P;
    enum ptx_type ty = (enum ptx_type)i->type[0];
    const struct ptx_opnd *data = &i->opnd[load ? 0 : 1];
    unsigned bytes = ptx_type_bytes(ty), n = data->kind == PTX_O_VEC ? data->n : 1;
    if (i->op == PTX_OP_SURED_P && bytes == 8)
        return sg_dec_unsupported(d);
    uint32_t ext[SG_SX_COUNT];
    for (unsigned k = 0; k < SG_SX_COUNT; k++)
        ext[k] = SG_NONE;
    ext[SG_SX_SURFACE] = handle_of(d, t.name);
    if (t.layer)
        ext[SG_SX_LAYER] = sg_source(d, t.layer, PTX_U32);
    for (unsigned k = 0; k < t.dims; k++)
        ext[SG_SX_COORD + k] = sg_source(d, &t.coord[k], PTX_S32);
    ext[SG_SX_SHAPE] = texture_shape(&t);
    uint32_t row[5] = {SG_NONE, SG_NONE, SG_NONE, SG_NONE, SG_NONE};
    bool wide = false;
    if (i->op == PTX_OP_SUST_P) {
        ext[SG_SX_DATA] = n;
        for (unsigned k = 0; k < n; k++)
            ext[SG_SX_DATA + 1 + k] = sg_source(d, texture_element(data, k), ty);
        for (unsigned k = 0; k < 4; k++)
            row[k] = sg_temp(d);
    } else {
        for (unsigned k = 0; k < n; k++) {
            const struct ptx_opnd *o = texture_element(data, k);
            enum ptx_type as = load && o->kind == PTX_O_REG ? (enum ptx_type)d->f->reg[o->reg].type : ty;
            row[k] = load ? sg_dest(d, o, as) : sg_source(d, o, ty);
            bool w = load && sg_width(as) == 8 && bytes < 8;
            if (k && w != wide)
                return sg_dec_error(d, DT_E_UNSUPPORTED, "a vector of registers of different widths");
            wide = w;
        }
    }
    uint32_t addresses = sg_temp(d), at = ext_of(d, ext, SG_SX_COUNT);
    /* as decode/memory.c lays out ld, st and red */
    uint32_t x = store || load ? ext_of(d, row, 4) : ext_of(d, (const uint32_t[]){SG_NONE}, 1);
    struct sg_op *op = sg_emit(d, load ? sg_surface_load : store ? sg_surface_store : sg_surface_reduce);
    enum ptx_mod m = ptx_mod_of(i, PTX_MC_ATOM);
    op->a = addresses;
    op->imm = (int64_t)at;
    op->x = x;
    op->site = d->nsite++;
    op->space = PTX_GLOBAL;
    op->size = (uint8_t)bytes;
    op->n = (uint8_t)n;
    op->sub = (uint8_t)((ptx_has(i, PTX_M_CLAMP)       ? SG_SURFACE_CLAMP
                         : ptx_has(i, PTX_M_EDGE_ZERO) ? SG_SURFACE_ZERO
                                                       : SG_SURFACE_TRAP) |
                        (samples ? SG_SURFACE_SAMPLES : 0));
    if (load) {
        op->d = row[0];
        op->flags |= wide ? SG_D64 : 0;
    } else {
        op->b = row[0];
    }
    if (!load && !store) {
        d->c->ordered = true;
        op->d = SG_NONE;
        op->flags |= SG_NO_RESULT;
        op->c = (uint32_t)((m == PTX_M_NONE ? ptx_mod_of(i, PTX_MC_BOOL) : m) - PTX_M_ADD);
        op->type = (uint8_t)ty;
        op->rnd = SG_SEM_STRONG;
    }
    return 0;
}

int sg_decode_texture(struct sg_dec *d)
{
    switch (d->i->op) {
    case PTX_OP_TEX:
    case PTX_OP_TEX_BASE:
    case PTX_OP_TEX_LEVEL:
    case PTX_OP_TEX_GRAD:
    case PTX_OP_TLD4: return fetch(d);
    case PTX_OP_TXQ:
    case PTX_OP_TXQ_LEVEL:
    case PTX_OP_SUQ: return query(d);
    case PTX_OP_ISTYPEP: return is_kind(d);
    default: return surface(d);
    }
}
