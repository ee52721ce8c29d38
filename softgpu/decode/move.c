/* Decoding of moves and conversions: mov, with vectors that are packed and unpacked; cvt, cvt.pack.
 *
 * A conversion is a lane loop where there is one for its types and rounding, else an operation of exec/cvt.c or
 * exec/narrow.c. cvt.rs (stochastic rounding) is refused by name.
 */
#include "softgpu/decode/inst.h"

/* ---- moves ------------------------------------------------------------------------------------------------------- */
static enum ptx_type piece_type(unsigned bytes)
{
    return bytes == 1 ? PTX_B8 : bytes == 2 ? PTX_B16 : bytes == 4 ? PTX_B32 : PTX_B64;
}

static uint32_t half(struct sg_dec *d, uint32_t ref, unsigned bytes, bool hi, uint32_t to)
{
    static const uint16_t h[4][2] = {{SG_H_LO_u16, SG_H_HI_u16},
                                     {SG_H_LO_u32, SG_H_HI_u32},
                                     {SG_H_LO_u64, SG_H_HI_u64},
                                     {SG_H_LO_u128, SG_H_HI_u128}};
    struct sg_op *op = sg_emit_h(d, h[bytes == 2 ? 0 : bytes == 4 ? 1 : bytes == 8 ? 2 : 3][hi]);
    op->d = to;
    op->a = ref;
    return to;
}

static int move_unpack(struct sg_dec *d, enum ptx_type t)
{
    const struct ptx_opnd *to = &d->i->opnd[0];
    unsigned bytes = ptx_type_bytes(t), piece = to->n ? bytes / to->n : 0;
    if ((to->n != 2 && to->n != 4) || !piece || piece > 8)
        return sg_dec_unsupported(d);
    uint32_t src = sg_source(d, &d->i->opnd[1], t);
    for (unsigned e = 0; e < to->n; e++) {
        if (to->elem[e].kind == PTX_O_SINK)
            continue;
        uint32_t from = src;
        if (to->n == 4)
            from = half(d, src, bytes, e >= 2, sg_temp(d));
        uint32_t dst = sg_dest(d, &to->elem[e], piece_type(piece));
        half(d, from, to->n == 4 ? bytes / 2 : bytes, e & 1, dst);
    }
    return 0;
}

static uint32_t move_join(struct sg_dec *d, unsigned bytes, uint32_t lo, uint32_t hi, uint32_t to)
{
    struct sg_op *op = sg_emit_h(d, bytes == 2   ? SG_H_PACK_u16
                                    : bytes == 4 ? SG_H_PACK_u32
                                    : bytes == 8 ? SG_H_PACK_u64
                                                 : SG_H_PACK_u128);
    op->d = to;
    op->a = lo;
    op->b = hi;
    return to;
}

static int pack(struct sg_dec *d, enum ptx_type t)
{
    const struct ptx_opnd *from = &d->i->opnd[1];
    unsigned bytes = ptx_type_bytes(t), piece = from->n ? bytes / from->n : 0;
    if ((from->n != 2 && from->n != 4) || !piece || piece > 8)
        return sg_dec_unsupported(d);
    uint32_t s[4];
    for (unsigned e = 0; e < from->n; e++)
        s[e] = sg_source(d, &from->elem[e], piece_type(piece));
    uint32_t dst = sg_dest(d, &d->i->opnd[0], t);
    if (from->n == 4) {
        s[0] = move_join(d, bytes / 2, s[0], s[1], sg_temp(d));
        s[1] = move_join(d, bytes / 2, s[2], s[3], sg_temp(d));
    }
    move_join(d, bytes, s[0], s[1], dst);
    return 0;
}

static int mov(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_type t = (enum ptx_type)i->type[0];
    if (t == PTX_PRED) {
        bool neg;
        uint32_t a = sg_pred(d, &i->opnd[1], &neg), p = sg_pred_dest(d, &i->opnd[0]);
        struct sg_op *op = sg_emit_h(d, SG_H_PMOV);
        op->d = p;
        op->a = a;
        op->flags |= neg ? SG_SIGNED : 0;
        return 0;
    }
    if (i->opnd[0].kind == PTX_O_VEC)
        return move_unpack(d, t);
    if (i->opnd[1].kind == PTX_O_VEC)
        return pack(d, t);
    uint32_t a = sg_source(d, &i->opnd[1], t);
    if (sg_width(t) < 16 && sg_alias(d, &i->opnd[0], t, a))
        return 0;
    uint32_t dst = sg_dest(d, &i->opnd[0], t);
    struct sg_op *op = sg_emit_h(d, sg_width(t) == 16 ? SG_H_MOV_u128 : sg_width(t) == 8 ? SG_H_MOV_u64 : SG_H_MOV_u32);
    op->d = dst;
    op->a = a;
    return 0;
}

/* ---- conversion -------------------------------------------------------------------------------------------------- */
/* The lane loop that does a conversion to a register of its own width exactly as the slow handler would; 0: none. */
static unsigned fast_cvt(enum ptx_type to, enum ptx_type from, unsigned rnd)
{
    static const struct {
        uint8_t to, from;
        uint16_t rnd, h;
    } row[] = {
        {PTX_F32, PTX_S32, SG_RN, SG_H_CVT_f32_s32},
        {PTX_F32, PTX_U32, SG_RN, SG_H_CVT_f32_u32},
        {PTX_F64, PTX_S32, SG_RN, SG_H_CVT_f64_s32},
        {PTX_F64, PTX_U32, SG_RN, SG_H_CVT_f64_u32},
        {PTX_F64, PTX_F32, SG_RN, SG_H_CVT_f64_f32},
        {PTX_F32, PTX_F64, SG_RN, SG_H_CVT_f32_f64},
        {PTX_S32, PTX_F32, SG_RZ | SG_INTEGRAL, SG_H_CVT_s32_f32_rz},
        {PTX_F32, PTX_F32, SG_SAT, SG_H_SAT_f32},
        {PTX_F32, PTX_F16, SG_RN, SG_H_CVT_f32_f16},
        {PTX_F16, PTX_F32, SG_RN, SG_H_CVT_f16_f32},
        {PTX_F32, PTX_BF16, SG_RN, SG_H_CVT_f32_bf16},
        {PTX_BF16, PTX_F32, SG_RN, SG_H_CVT_bf16_f32},
        {PTX_F32, PTX_F32, SG_RN | SG_INTEGRAL, SG_H_RNI_f32},
        {PTX_F32, PTX_F32, SG_RZ | SG_INTEGRAL, SG_H_RZI_f32},
        {PTX_F32, PTX_F32, SG_RM | SG_INTEGRAL, SG_H_RMI_f32},
        {PTX_F32, PTX_F32, SG_RP | SG_INTEGRAL, SG_H_RPI_f32},
        {PTX_F64, PTX_F64, SG_RN | SG_INTEGRAL, SG_H_RNI_f64},
        {PTX_F64, PTX_F64, SG_RZ | SG_INTEGRAL, SG_H_RZI_f64},
        {PTX_F64, PTX_F64, SG_RM | SG_INTEGRAL, SG_H_RMI_f64},
        {PTX_F64, PTX_F64, SG_RP | SG_INTEGRAL, SG_H_RPI_f64},
        {PTX_F32, PTX_F32, SG_RN | SG_INTEGRAL | SG_FTZ, SG_H_RNI_z32},
        {PTX_F32, PTX_F32, SG_RZ | SG_INTEGRAL | SG_FTZ, SG_H_RZI_z32},
        {PTX_F32, PTX_F32, SG_RM | SG_INTEGRAL | SG_FTZ, SG_H_RMI_z32},
        {PTX_F32, PTX_F32, SG_RP | SG_INTEGRAL | SG_FTZ, SG_H_RPI_z32},
        {PTX_F32, PTX_F32, SG_RN | SG_FTZ, SG_H_CVT_z32_z32},
        {PTX_S32, PTX_F32, SG_RN | SG_INTEGRAL, SG_H_CVT_s32_f32_rn},
        {PTX_S32, PTX_F32, SG_RM | SG_INTEGRAL, SG_H_CVT_s32_f32_rm},
        {PTX_S32, PTX_F32, SG_RP | SG_INTEGRAL, SG_H_CVT_s32_f32_rp},
        {PTX_U32, PTX_F32, SG_RZ | SG_INTEGRAL, SG_H_CVT_u32_f32_rz},
        {PTX_U32, PTX_F32, SG_RN | SG_INTEGRAL, SG_H_CVT_u32_f32_rn},
        {PTX_S32, PTX_F32, SG_RZ | SG_INTEGRAL | SG_FTZ, SG_H_CVT_s32_f32_rz},
        {PTX_S32, PTX_F32, SG_RN | SG_INTEGRAL | SG_FTZ, SG_H_CVT_s32_f32_rn},
        {PTX_U32, PTX_F32, SG_RZ | SG_INTEGRAL | SG_FTZ, SG_H_CVT_u32_f32_rz},
        {PTX_U32, PTX_F32, SG_RN | SG_INTEGRAL | SG_FTZ, SG_H_CVT_u32_f32_rn},
        {PTX_S32, PTX_F64, SG_RZ | SG_INTEGRAL, SG_H_CVT_s32_f64_rz},
        {PTX_S32, PTX_F64, SG_RN | SG_INTEGRAL, SG_H_CVT_s32_f64_rn},
        {PTX_S32, PTX_F64, SG_RM | SG_INTEGRAL, SG_H_CVT_s32_f64_rm},
        {PTX_S32, PTX_F64, SG_RP | SG_INTEGRAL, SG_H_CVT_s32_f64_rp},
        {PTX_U32, PTX_F64, SG_RZ | SG_INTEGRAL, SG_H_CVT_u32_f64_rz},
        {PTX_S64, PTX_F32, SG_RZ | SG_INTEGRAL, SG_H_CVT_s64_f32_rz},
        {PTX_S64, PTX_F32, SG_RZ | SG_INTEGRAL | SG_FTZ, SG_H_CVT_s64_f32_rz},
        {PTX_S64, PTX_F64, SG_RZ | SG_INTEGRAL, SG_H_CVT_s64_f64_rz},
        {PTX_F32, PTX_S64, SG_RN, SG_H_CVT_f32_s64},
        {PTX_F64, PTX_S64, SG_RN, SG_H_CVT_f64_s64},
        {PTX_U64, PTX_F32, SG_RZ | SG_INTEGRAL, SG_H_CVT_u64_f32_rz},
        {PTX_U64, PTX_F32, SG_RZ | SG_INTEGRAL | SG_FTZ, SG_H_CVT_u64_f32_rz},
        {PTX_U64, PTX_F64, SG_RZ | SG_INTEGRAL, SG_H_CVT_u64_f64_rz},
        {PTX_F32, PTX_U64, SG_RN, SG_H_CVT_f32_u64},
        {PTX_F64, PTX_U64, SG_RN, SG_H_CVT_f64_u64},
        {PTX_F32, PTX_U8, SG_RN, SG_H_CVT_f32_u8},
        {PTX_F32, PTX_S8, SG_RN, SG_H_CVT_f32_s8},
        {PTX_F32, PTX_U16, SG_RN, SG_H_CVT_f32_u16},
        {PTX_F32, PTX_S16, SG_RN, SG_H_CVT_f32_s16},
        {PTX_F64, PTX_F32, SG_RN | SG_FTZ, SG_H_CVT_f64_z32},
        {PTX_F32, PTX_F64, SG_RN | SG_FTZ, SG_H_CVT_z32_f64},
        {PTX_F16, PTX_F32, SG_RN | SG_FTZ, SG_H_CVT_f16_f32},
        {PTX_F32, PTX_F16, SG_RN | SG_FTZ, SG_H_CVT_f32_f16},
        {PTX_U32, PTX_U16, SG_RN, SG_H_ZX16_u32},
        {PTX_S32, PTX_U16, SG_RN, SG_H_ZX16_u32},
        {PTX_S32, PTX_S16, SG_RN, SG_H_SX16_u32},
        {PTX_U32, PTX_S16, SG_RN, SG_H_SX16_u32},
        {PTX_U64, PTX_U32, SG_RN, SG_H_ZX_u64},
        {PTX_S64, PTX_U32, SG_RN, SG_H_ZX_u64},
        {PTX_S64, PTX_S32, SG_RN, SG_H_SX_u64},
        {PTX_U64, PTX_S32, SG_RN, SG_H_SX_u64},
        {PTX_S64, PTX_S16, SG_RN, SG_H_SX16_u64},
        {PTX_S64, PTX_S8, SG_RN, SG_H_SX8_u64},
        {PTX_U32, PTX_U64, SG_RN, SG_H_LO_u64},
        {PTX_S32, PTX_S64, SG_RN, SG_H_LO_u64},
        {PTX_U32, PTX_S64, SG_RN, SG_H_LO_u64},
        {PTX_S32, PTX_U64, SG_RN, SG_H_LO_u64},
        {PTX_U16, PTX_U32, SG_RN, SG_H_LO_u32},
        {PTX_S16, PTX_S32, SG_RN, SG_H_LO_u32},
        {PTX_U16, PTX_S32, SG_RN, SG_H_LO_u32},
        {PTX_S16, PTX_U32, SG_RN, SG_H_LO_u32},
        {PTX_U32, PTX_U8, SG_RN, SG_H_ZX8_u32},
        {PTX_S32, PTX_U8, SG_RN, SG_H_ZX8_u32},
        {PTX_U16, PTX_U8, SG_RN, SG_H_ZX8_u32},
        {PTX_S32, PTX_S8, SG_RN, SG_H_SX8_u32},
        {PTX_S16, PTX_S8, SG_RN, SG_H_SX8_u16},
    };
    for (unsigned k = 0; k < sizeof row / sizeof *row; k++)
        if (row[k].to == to && row[k].from == from && row[k].rnd == rnd)
            return row[k].h;
    return 0;
}

static bool narrow(enum ptx_type t)
{
    return t == PTX_E4M3X2 || t == PTX_E5M2X2 || t == PTX_E2M3X2 || t == PTX_E3M2X2 || t == PTX_E2M1X2 ||
           t == PTX_UE8M0X2;
}

/* cvt.rn.satfinite{.relu}.NARROW.f32 d, a, b; .NARROW.f16x2 d, a; cvt.rn{.relu}.f16x2.NARROW d, a; ue8m0x2 with rz, rp
 * and bf16x2 */
static int cvt_narrow(struct sg_dec *d, unsigned rnd)
{
    const struct ptx_inst *i = d->i;
    enum ptx_type to = (enum ptx_type)i->type[0], from = (enum ptx_type)i->type[1];
    bool e8 = to == PTX_UE8M0X2 || from == PTX_UE8M0X2, down = narrow(to), pair = from != PTX_F32;
    enum ptx_type half = e8 ? PTX_BF16X2 : PTX_F16X2;
    unsigned mode = rnd & SG_RND_MASK;
    bool ok = down ? from == PTX_F32 || from == half : to == half;
    ok = ok && i->nopnd == (pair ? 2 : 3) &&
         (e8 && down ? mode == SG_RZ || mode == SG_RP : mode == SG_RN && (!down || rnd & SG_SATFINITE));
    if (!ok || ptx_mod_of(i, PTX_MC_RND) == PTX_M_RS)
        return sg_dec_unsupported(d);
    uint32_t a = sg_source(d, &i->opnd[1], pair ? PTX_B32 : PTX_F32),
             b = pair ? SG_NONE : sg_source(d, &i->opnd[2], PTX_F32);
    uint32_t dst = sg_dest(d, &i->opnd[0], PTX_B32);
    struct sg_op *op = sg_emit(d, sg_cvt_narrow);
    op->d = dst;
    op->a = a;
    op->b = b;
    op->type = (uint8_t)from;
    op->sub = (uint8_t)to;
    op->rnd = (uint16_t)rnd;
    return 0;
}

static int cvt(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_type to = (enum ptx_type)i->type[0], from = (enum ptx_type)i->type[1];
    unsigned rnd = sg_dec_rounding(i);
    if ((to == PTX_F16X2 || to == PTX_BF16X2) && from == PTX_F32 && i->nopnd == 3) {
        if (rnd == SG_RN) {
            sg_dec_bin(d, to == PTX_F16X2 ? SG_H_CVT_f16x2_f32 : SG_H_CVT_bf16x2_f32, to, PTX_F32, PTX_F32);
            return 0;
        }
        struct sg_op *op = sg_dec_bin(d, SG_H_MOV_u32, to, PTX_F32, PTX_F32);
        *(op->inner ? &op->inner : &op->fn) = sg_cvt_x2;
        op->sub = (uint8_t)to;
        op->rnd = (uint16_t)rnd;
        return 0;
    }
    if (narrow(to) || narrow(from))
        return cvt_narrow(d, rnd);
    bool ok = i->nopnd == 2;
    const enum ptx_type both[2] = {to, from};
    for (unsigned k = 0; k < 2; k++)
        switch (both[k]) {
        case PTX_U8:
        case PTX_U16:
        case PTX_U32:
        case PTX_U64:
        case PTX_S8:
        case PTX_S16:
        case PTX_S32:
        case PTX_S64:
        case PTX_F16:
        case PTX_BF16:
        case PTX_F32:
        case PTX_F64: break;
        case PTX_TF32: ok = ok && k == 0; break;
        default: ok = false;
        }
    if (!ok || ptx_mod_of(i, PTX_MC_RND) == PTX_M_RS)
        return sg_dec_unsupported(d);
    const struct ptx_opnd *o = &i->opnd[0];
    unsigned have = o->kind == PTX_O_REG ? ptx_type_bytes((enum ptx_type)d->f->reg[o->reg].type) : ptx_type_bytes(to);
    if (have < ptx_type_bytes(to))
        return sg_dec_error(d, DT_E_PTX, "cvt into a register narrower than its type");
    /* float to integer always saturates */
    if (!ptx_type_is_float(to) && ptx_type_is_float(from))
        rnd &= ~(unsigned)SG_SAT;
    unsigned h = have == ptx_type_bytes(to) ? fast_cvt(to, from, rnd) : 0;
    uint32_t a = sg_source(d, &i->opnd[1], from);
    uint32_t dst = sg_dest(d, o, have == 8 ? PTX_B64 : PTX_B32);
    if (h) {
        struct sg_op *op = sg_emit_h(d, h);
        op->d = dst;
        op->a = a;
        return 0;
    }
    struct sg_op *op = sg_emit(d, sg_cvt);
    op->d = dst;
    op->a = a;
    op->type = (uint8_t)from;
    op->sub = (uint8_t)to;
    op->rnd = (uint16_t)rnd;
    op->size = (uint8_t)have;
    return 0;
}

/* cvt.pack.sat.CONVERT.s32{.b32} d, a, b{, c} */
static int cvt_pack(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_type to = (enum ptx_type)i->type[0];
    if (ptx_type_is_float(to) || ptx_type_bytes(to) > 2 || i->ntype < 2 || i->type[1] != PTX_S32)
        return sg_dec_unsupported(d);
    uint32_t a = sg_source(d, &i->opnd[1], PTX_S32), b = sg_source(d, &i->opnd[2], PTX_S32);
    uint32_t c = i->nopnd > 3 ? sg_source(d, &i->opnd[3], PTX_B32) : SG_NONE, dst = sg_dest(d, &i->opnd[0], PTX_B32);
    struct sg_op *op = sg_emit(d, sg_odd_int);
    op->d = dst;
    op->a = a;
    op->b = b;
    op->c = c;
    op->sub = SG_I_CVT_PACK;
    /* bits */
    op->size = (uint8_t)(to == PTX_S4 || to == PTX_U4 ? 4 : to == PTX_S2 || to == PTX_U2 ? 2 : ptx_type_bytes(to) * 8);
    op->flags |= ptx_type_is_signed(to) ? SG_SIGNED : 0;
    return 0;
}

int sg_decode_move(struct sg_dec *d)
{
    switch (d->i->op) {
    case PTX_OP_MOV: return mov(d);
    case PTX_OP_CVT: return cvt(d);
    case PTX_OP_CVT_PACK: return cvt_pack(d);
    default: return SG_ELSEWHERE;
    }
}
