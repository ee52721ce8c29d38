/* Decoding of bulk copies, copies of tensors, and of what changes tensor maps; exec/bulk.c and exec/tensor.c do them.
 *
 * Their operands are too many for a struct sg_op: enum sg_bulk_ext says where each lies in code->ext. Completion: by
 * mbarrier, or by bulk groups, which need nothing as copies happen at once. Hints are dropped. Not here: im2col,
 * gather4 and scatter4 (refused by name).
 */
#include "softgpu/decode/decode-priv.h"

static int bulk_address(struct sg_dec *d, const struct ptx_opnd *o, uint32_t ext[3])
{
    struct ptx_opnd plain = *o;
    struct sg_address ad;
    plain.n = 0; /* coordinates: apart */
    int r = sg_decode_address(d, &plain, &ad);
    if (r < 0)
        return r;
    if (ad.imm != (int32_t)ad.imm)
        return sg_dec_error(d, DT_E_UNSUPPORTED, "a bulk copy at an offset over 31 bits");
    ext[0] = ad.a;
    ext[1] = ad.flags;
    ext[2] = (uint32_t)(int32_t)ad.imm;
    return 0;
}

static int coordinates(struct sg_dec *d, const struct ptx_opnd *o, uint32_t ext[SG_BULK_EXT])
{
    enum ptx_mod dim = ptx_mod_of(d->i, PTX_MC_DIM);
    unsigned n = dim == PTX_M_NONE ? 0 : (unsigned)dim - PTX_M_D1 + 1;
    if (!n || o->kind != PTX_O_ADDR || o->n != n)
        return sg_dec_error(d, DT_E_PTX, "a tensor of %u dimensions with %u coordinates", n,
                            o->kind == PTX_O_ADDR ? o->n : 0);
    ext[SG_BULK_COORDS] = n;
    for (unsigned k = 0; k < n; k++)
        ext[SG_BULK_COORD + k] = sg_source(d, &o->elem[k], PTX_U32);
    return 0;
}

static enum ptx_mod operation(const struct ptx_inst *i)
{
    enum ptx_mod m = ptx_mod_of(i, PTX_MC_ATOM);
    return m == PTX_M_NONE ? ptx_mod_of(i, PTX_MC_BOOL) : m;
}

static bool in_cluster(unsigned space) { return space == PTX_SHARED || space == PTX_SHARED_CLUSTER; }

static void emit(struct sg_dec *d, sg_fn fn, unsigned space, unsigned space2, const uint32_t ext[SG_BULK_EXT])
{
    uint32_t x = sg_ext(d, ext[0]);
    for (unsigned k = 1; k < SG_BULK_EXT; k++)
        sg_ext(d, ext[k]);
    struct sg_op *op = sg_emit(d, fn);
    op->x = x;
    op->site = d->nsite;
    d->nsite += 3; /* destination, source, mbarrier or tensor map */
    op->space = (uint8_t)space;
    op->sub = (uint8_t)space2;
}

/* cp.async.bulk, cp.reduce.async.bulk: [dst], [src], size{, [mbar]}{, ctaMask}{, policy}{, byteMask} */
static int bulk_plain(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    uint32_t ext[SG_BULK_EXT] = {[SG_BULK_BAR] = SG_NONE, [SG_BULK_CTAS] = SG_NONE, [SG_BULK_BYTES] = SG_NONE};
    bool group = ptx_has(i, PTX_M_BULK_GROUP), reduce = i->op == PTX_OP_CP_REDUCE_ASYNC_BULK,
         to_global = i->space == PTX_GLOBAL;
    bool ok = to_global
                  ? group && i->space2 == PTX_SHARED
                  : !group && in_cluster(i->space) &&
                        (i->space2 == PTX_SHARED ? i->space == PTX_SHARED_CLUSTER : i->space2 == PTX_GLOBAL && !reduce);
    if (!ok)
        return sg_dec_error(d, DT_E_PTX, "a bulk copy between these spaces, or that completes in this way");
    unsigned at = 3, last = i->nopnd;
    int r;
    if ((r = bulk_address(d, &i->opnd[0], ext + SG_BULK_TO)) < 0 ||
        (r = bulk_address(d, &i->opnd[1], ext + SG_BULK_FROM)) < 0)
        return r;
    ext[SG_BULK_SIZE] = sg_source(d, &i->opnd[2], PTX_U32);
    unsigned want = 3 + !group + ptx_has(i, PTX_M_MULTICAST) + ptx_has(i, PTX_M_L2_HINT) + ptx_has(i, PTX_M_CP_MASK);
    if (last != want)
        return sg_dec_error(d, DT_E_PTX, "%u operands where its modifiers want %u", last, want);
    if (!group && (r = bulk_address(d, &i->opnd[at++], ext + SG_BULK_BAR)) < 0)
        return r;
    if (ptx_has(i, PTX_M_MULTICAST)) {
        if (i->space != PTX_SHARED_CLUSTER || i->space2 != PTX_GLOBAL)
            return sg_dec_error(d, DT_E_PTX, "multicast from global to .shared::cluster only");
        ext[SG_BULK_CTAS] = sg_source(d, &i->opnd[at++], PTX_U16);
    }
    if (ptx_has(i, PTX_M_L2_HINT))
        at++;
    if (ptx_has(i, PTX_M_CP_MASK)) {
        if (!to_global)
            return sg_dec_error(d, DT_E_PTX, ".cp_mask to global memory only");
        ext[SG_BULK_BYTES] = sg_source(d, &i->opnd[at], PTX_U16);
    }
    if (reduce) {
        ext[SG_BULK_OP] = operation(i);
        ext[SG_BULK_TYPE] = i->type[0];
        if (!sg_bulk_reduces(operation(i), (enum ptx_type)i->type[0], to_global))
            return sg_dec_error(d, DT_E_PTX, "this operation and type of cp.reduce.async.bulk");
        d->c->ordered |= to_global;
    }
    emit(d, sg_bulk_copy, i->space, i->space2, ext);
    return 0;
}

/* cp.async.bulk.tensor: [dst], [map, coordinates], [mbar]{, ctaMask}{, policy}, or [map, coordinates], [src]{, policy};
 * reductions as the latter */
static int tensor(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    uint32_t ext[SG_BULK_EXT] = {[SG_BULK_BAR] = SG_NONE, [SG_BULK_CTAS] = SG_NONE, [SG_BULK_BYTES] = SG_NONE};
    bool load = in_cluster(i->space);
    if (ptx_has(i, PTX_M_IM2COL))
        return sg_dec_error(d, DT_E_UNSUPPORTED, "the software device cannot run im2col copies");
    bool ok = load ? i->space2 == PTX_GLOBAL && ptx_has(i, PTX_M_COMPLETE_TX)
                   : i->space == PTX_GLOBAL && i->space2 == PTX_SHARED && ptx_has(i, PTX_M_BULK_GROUP);
    if (!ok)
        return sg_dec_error(d, DT_E_PTX, "a tensor copy between these spaces, or that completes in this way");
    unsigned want = 2 + load + ptx_has(i, PTX_M_MULTICAST) + ptx_has(i, PTX_M_L2_HINT);
    if (i->nopnd != want)
        return sg_dec_error(d, DT_E_PTX, "%u operands where its modifiers want %u", i->nopnd, want);
    const struct ptx_opnd *map = &i->opnd[load ? 1 : 0];
    int r;
    if ((r = bulk_address(d, &i->opnd[load ? 0 : 1], ext + SG_BULK_TO)) < 0 ||
        (r = bulk_address(d, map, ext + SG_BULK_FROM)) < 0 || (r = coordinates(d, map, ext)) < 0 ||
        (load && (r = bulk_address(d, &i->opnd[2], ext + SG_BULK_BAR)) < 0))
        return r;
    if (ptx_has(i, PTX_M_MULTICAST)) {
        if (i->space != PTX_SHARED_CLUSTER)
            return sg_dec_error(d, DT_E_PTX, "multicast to .shared::cluster only");
        ext[SG_BULK_CTAS] = sg_source(d, &i->opnd[3], PTX_U16);
    }
    if (i->op == PTX_OP_CP_REDUCE_ASYNC_BULK_TENSOR) {
        ext[SG_BULK_OP] = operation(i);
        if (load || !ext[SG_BULK_OP])
            return sg_dec_error(d, DT_E_PTX, "a reduction into shared memory, or without an operation");
        d->c->ordered = true;
    }
    emit(d, load ? sg_tensor_load : sg_tensor_store, i->space, i->space2, ext);
    return 0;
}

/* Prefetches: their addresses are checked, nothing is read; the timing model wants to know what plain ones fetch into
 * the L2. */
static int prefetch(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    uint32_t ext[SG_BULK_EXT] = {[SG_BULK_BAR] = SG_NONE};
    bool map = i->op == PTX_OP_CP_ASYNC_BULK_PREFETCH_TENSOR;
    if (ptx_has(i, PTX_M_IM2COL))
        return sg_dec_error(d, DT_E_UNSUPPORTED, "the software device cannot run im2col copies");
    int r = bulk_address(d, &i->opnd[0], ext + SG_BULK_FROM);
    if (r < 0 || (map && (r = coordinates(d, &i->opnd[0], ext)) < 0))
        return r;
    if (!map) {
        ext[SG_BULK_SIZE] = sg_source(d, &i->opnd[1], PTX_U32);
        d->c->prefetches = true;
    }
    emit(d, map ? sg_tensor_prefetch : sg_bulk_prefetch, PTX_GLOBAL, PTX_GLOBAL, ext);
    return 0;
}

/* tensormap.replace.tile.FIELD [map], {ordinal, }value */
static int replace(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_mod field = ptx_mod_of(i, PTX_MC_FIELD);
    bool many = field >= PTX_M_BOX_DIM && field <= PTX_M_ELEMENT_STRIDE, wide = i->type[1] == PTX_B64;
    if (field == PTX_M_NONE || i->type[0] != PTX_B1024 || i->nopnd != 2u + many ||
        (i->space != PTX_SHARED && i->space != PTX_GLOBAL && i->space != PTX_GENERIC) ||
        wide != (field == PTX_M_GLOBAL_ADDRESS || field == PTX_M_GLOBAL_STRIDE))
        return sg_dec_error(d, DT_E_PTX, "this form of tensormap.replace");
    if (many && (i->opnd[1].kind != PTX_O_IMM || i->opnd[1].bits > (field == PTX_M_GLOBAL_STRIDE ? 3 : 4)))
        return sg_dec_error(d, DT_E_PTX, "the ordinal is no constant below 5 (4)");
    uint32_t ext[SG_BULK_EXT] = {
        [SG_BULK_BAR] = SG_NONE, [SG_BULK_OP] = field, [SG_BULK_TYPE] = many ? (uint32_t)i->opnd[1].bits : 0};
    int r = bulk_address(d, &i->opnd[0], ext + SG_BULK_TO);
    if (r < 0)
        return r;
    ext[SG_BULK_SIZE] = sg_source(d, &i->opnd[1 + many], wide ? PTX_U64 : PTX_U32);
    ext[SG_BULK_COORDS] = wide;
    emit(d, sg_tensormap_replace, i->space, i->space, ext);
    return 0;
}

/* tensormap.cp_fenceproxy: 128 bytes from shared to global memory, once a warp */
static int copy_map(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    uint32_t ext[SG_BULK_EXT] = {[SG_BULK_BAR] = SG_NONE};
    if (i->space != PTX_GLOBAL || i->space2 != PTX_SHARED || i->opnd[2].kind != PTX_O_IMM || i->opnd[2].bits != 128)
        return sg_dec_error(d, DT_E_PTX, "this form of tensormap.cp_fenceproxy");
    int r;
    if ((r = bulk_address(d, &i->opnd[0], ext + SG_BULK_TO)) < 0 ||
        (r = bulk_address(d, &i->opnd[1], ext + SG_BULK_FROM)) < 0)
        return r;
    if (!ptx_has(i, PTX_M_CTA) && !ptx_has(i, PTX_M_CLUSTER))
        d->c->ordered = true;
    emit(d, sg_tensormap_copy, i->space, i->space2, ext);
    return 0;
}

int sg_decode_bulk(struct sg_dec *d)
{
    switch (d->i->op) {
    case PTX_OP_CP_ASYNC_BULK:
    case PTX_OP_CP_REDUCE_ASYNC_BULK: return bulk_plain(d);
    case PTX_OP_CP_ASYNC_BULK_TENSOR:
    case PTX_OP_CP_REDUCE_ASYNC_BULK_TENSOR: return tensor(d);
    case PTX_OP_TENSORMAP_REPLACE: return replace(d);
    case PTX_OP_TENSORMAP_CP_FENCEPROXY: return copy_map(d);
    default: return prefetch(d);
    }
}
