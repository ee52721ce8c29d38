/* Decoding of one instruction: which family it belongs to, and the forms that most instructions have (destination and
 * one to three sources, with a rounding mode and modifiers).
 *
 * The families are asked in turn; what none of them knows is refused by name.
 */
#include "softgpu/decode/inst.h"

unsigned sg_dec_rounding(const struct ptx_inst *i)
{
    unsigned r = 0;
    switch (ptx_mod_of(i, PTX_MC_RND)) {
    case PTX_M_RZ: r = SG_RZ; break;
    case PTX_M_RM: r = SG_RM; break;
    case PTX_M_RP: r = SG_RP; break;
    case PTX_M_RNA: r = SG_RNA; break;
    case PTX_M_RNI: r = SG_RN | SG_INTEGRAL; break;
    case PTX_M_RZI: r = SG_RZ | SG_INTEGRAL; break;
    case PTX_M_RMI: r = SG_RM | SG_INTEGRAL; break;
    case PTX_M_RPI: r = SG_RP | SG_INTEGRAL; break;
    default: break;
    }
    static const struct {
        uint16_t mod;
        uint16_t bit;
    } bits[] = {
        {PTX_M_FTZ, SG_FTZ},   {PTX_M_SAT, SG_SAT},         {PTX_M_RELU, SG_RELU}, {PTX_M_SATFINITE, SG_SATFINITE},
        {PTX_M_NANP, SG_NANP}, {PTX_M_XORSIGN, SG_XORSIGN}, {PTX_M_ABS, SG_ABS}};
    for (unsigned k = 0; k < sizeof bits / sizeof *bits; k++)
        if (ptx_has(i, (enum ptx_mod)bits[k].mod))
            r |= bits[k].bit;
    return r;
}

struct sg_op *sg_dec_un(struct sg_dec *d, unsigned h, enum ptx_type td, enum ptx_type ta)
{
    uint32_t a = sg_source(d, &d->i->opnd[1], ta), t = sg_dest(d, &d->i->opnd[0], td);
    struct sg_op *op = sg_emit_h(d, h);
    op->d = t;
    op->a = a;
    return op;
}

struct sg_op *sg_dec_put(struct sg_dec *d, unsigned h, uint32_t dst, uint32_t a, uint32_t b)
{
    struct sg_op *op = sg_emit_h(d, h);
    op->d = dst;
    op->a = a;
    op->b = b;
    return op;
}

struct sg_op *sg_dec_bin(struct sg_dec *d, unsigned h, enum ptx_type td, enum ptx_type ta, enum ptx_type tb)
{
    uint32_t a = sg_source(d, &d->i->opnd[1], ta), b = sg_source(d, &d->i->opnd[2], tb),
             t = sg_dest(d, &d->i->opnd[0], td);
    return sg_dec_put(d, h, t, a, b);
}

struct sg_op *sg_dec_tri(struct sg_dec *d, unsigned h, enum ptx_type td, enum ptx_type ta, enum ptx_type tb,
                         enum ptx_type tc)
{
    uint32_t a = sg_source(d, &d->i->opnd[1], ta), b = sg_source(d, &d->i->opnd[2], tb),
             c = sg_source(d, &d->i->opnd[3], tc);
    uint32_t t = sg_dest(d, &d->i->opnd[0], td);
    struct sg_op *op = sg_emit_h(d, h);
    op->d = t;
    op->a = a;
    op->b = b;
    op->c = c;
    return op;
}

/* An operation of exec/slow.c. */
struct sg_op *sg_dec_slow_op(struct sg_dec *d, sg_fn fn, unsigned sub, const uint32_t s[3])
{
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    uint32_t dst = sg_dest(d, &d->i->opnd[0], t);
    struct sg_op *op = sg_emit(d, fn);
    op->d = dst;
    op->a = s[0];
    op->b = s[1];
    op->c = s[2];
    op->sub = (uint8_t)sub;
    op->type = (uint8_t)t;
    op->rnd = (uint16_t)sg_dec_rounding(d->i);
    return op;
}

/* With n sources of the instruction's type. */
struct sg_op *sg_dec_slow(struct sg_dec *d, sg_fn fn, unsigned sub, unsigned n)
{
    uint32_t s[3] = {SG_NONE, SG_NONE, SG_NONE};
    for (unsigned k = 0; k < n; k++)
        s[k] = sg_source(d, &d->i->opnd[1 + k], (enum ptx_type)d->i->type[0]);
    return sg_dec_slow_op(d, fn, sub, s);
}

int sg_dec_unsupported(struct sg_dec *d)
{
    struct dt_str s = {0};
    ptx_print_inst(d->f, d->i, &s);
    const char *t = s.s ? s.s : "";
    while (*t == ' ' || *t == '\t')
        t++;
    int r = sg_dec_error(d, DT_E_UNSUPPORTED, "the software device cannot run `%.160s`", t);
    dt_str_done(&s);
    return r;
}

/* A half operand as f32. */
uint32_t sg_dec_half(struct sg_dec *d, const struct ptx_opnd *o, enum ptx_type t, bool ftz)
{
    uint32_t a = sg_source(d, o, t), r = sg_temp(d);
    if (ftz) { /* f16 subnormals are f32 normals: flush them by a conversion of their own */
        struct sg_op *op = sg_emit(d, sg_slow_float);
        op->d = r;
        op->a = a;
        op->b = sg_konst(d, 0, false);
        op->c = SG_NONE;
        op->sub = SG_S_ADD;
        op->type = (uint8_t)t;
        op->rnd = SG_FTZ;
        a = r;
        r = sg_temp(d);
    }
    struct sg_op *op = sg_emit_h(d, t == PTX_F16 ? SG_H_CVT_f32_f16 : SG_H_CVT_f32_bf16);
    op->d = r;
    op->a = a;
    return r;
}

/* The families that have files of their own, and what no family knows. */
static int other(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    if (ptx_video_lanes(i->op))
        return sg_decode_video(d);
    if (ptx_op_info((enum ptx_op)i->op)->flags & PTX_F_TEXTURE)
        return sg_decode_texture(d);
    switch (i->op) {
    case PTX_OP_MBARRIER_INIT:
    case PTX_OP_MBARRIER_INVAL:
    case PTX_OP_MBARRIER_EXPECT_TX:
    case PTX_OP_MBARRIER_COMPLETE_TX:
    case PTX_OP_MBARRIER_ARRIVE:
    case PTX_OP_MBARRIER_ARRIVE_EXPECT_TX:
    case PTX_OP_MBARRIER_ARRIVE_DROP:
    case PTX_OP_MBARRIER_ARRIVE_DROP_EXPECT_TX:
    case PTX_OP_MBARRIER_TEST_WAIT:
    case PTX_OP_MBARRIER_TRY_WAIT:
    case PTX_OP_MBARRIER_PENDING_COUNT:
    case PTX_OP_CP_ASYNC_MBARRIER_ARRIVE: return sg_decode_mbarrier(d);
    case PTX_OP_CP_ASYNC_BULK:
    case PTX_OP_CP_ASYNC_BULK_PREFETCH:
    case PTX_OP_CP_REDUCE_ASYNC_BULK:
    case PTX_OP_CP_ASYNC_BULK_TENSOR:
    case PTX_OP_CP_ASYNC_BULK_PREFETCH_TENSOR:
    case PTX_OP_CP_REDUCE_ASYNC_BULK_TENSOR:
    case PTX_OP_TENSORMAP_REPLACE:
    case PTX_OP_TENSORMAP_CP_FENCEPROXY: return sg_decode_bulk(d);
    case PTX_OP_WGMMA_MMA_ASYNC:
    case PTX_OP_WGMMA_FENCE:
    case PTX_OP_WGMMA_COMMIT:
    case PTX_OP_WGMMA_WAIT:
    case PTX_OP_MMA_SP:
    case PTX_OP_MMA_SP_ORDERED:
    case PTX_OP_MMA:
    case PTX_OP_WMMA_MMA:
    case PTX_OP_WMMA_LOAD_A:
    case PTX_OP_WMMA_LOAD_B:
    case PTX_OP_WMMA_LOAD_C:
    case PTX_OP_WMMA_STORE_D:
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX:
    case PTX_OP_MOVMATRIX: return sg_decode_matrix(d);
    case PTX_OP_OPAQUE:
        return sg_dec_error(d, DT_E_UNSUPPORTED, "the software device cannot run `%.160s`", i->text ? i->text : "");
    default:
        return sg_dec_error(d, DT_E_UNSUPPORTED, "the software device cannot run `%s`",
                            ptx_op_info((enum ptx_op)i->op)->mnemonic);
    }
}

int sg_decode_inst(struct sg_dec *d)
{
    static int (*const family[])(struct sg_dec *) = {sg_decode_arith, sg_decode_compare, sg_decode_logic,
                                                     sg_decode_move,  sg_decode_memory,  sg_decode_sync};
    for (unsigned k = 0; k < sizeof family / sizeof *family; k++) {
        int r = family[k](d);
        if (r != SG_ELSEWHERE)
            return r;
    }
    return other(d);
}
