/* Decoding of video instructions: what a lane computes goes into op->sub, the places and signs of the lanes into
 * op->imm (enum sg_video_imm). exec/video.c executes them.
 */
#include "softgpu/decode/decode-priv.h"

static enum sg_video_kind video_kind_of(const struct ptx_inst *i)
{
    switch (i->op) {
    case PTX_OP_VADD2:
    case PTX_OP_VADD4: return SG_V_ADD;
    case PTX_OP_VSUB2:
    case PTX_OP_VSUB4: return SG_V_SUB;
    case PTX_OP_VAVRG2:
    case PTX_OP_VAVRG4: return SG_V_AVRG;
    case PTX_OP_VABSDIFF2:
    case PTX_OP_VABSDIFF4: return SG_V_ABSDIFF;
    case PTX_OP_VMIN2:
    case PTX_OP_VMIN4: return SG_V_MIN;
    case PTX_OP_VMAX2:
    case PTX_OP_VMAX4: return SG_V_MAX;
    case PTX_OP_VADD: return SG_V_ADD;
    case PTX_OP_VSUB: return SG_V_SUB;
    case PTX_OP_VABSDIFF: return SG_V_ABSDIFF;
    case PTX_OP_VMIN: return SG_V_MIN;
    case PTX_OP_VMAX: return SG_V_MAX;
    case PTX_OP_VSHL: return SG_V_SHL;
    case PTX_OP_VSHR: return SG_V_SHR;
    case PTX_OP_VMAD: return SG_V_MAD;
    default: return (enum sg_video_kind)(SG_V_EQ + ptx_mod_of(i, PTX_MC_CMP) - PTX_M_EQ);
    }
}

static int one_lane(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    uint64_t sel = i->opnd[i->nopnd - 1].bits, imm = 0;
    enum ptx_mod second = ptx_mod_of(i, PTX_MC_ATOM);
    bool c = i->nopnd == 5;
    for (unsigned k = 0; k < PTX_SELS; k++) {
        struct ptx_part p = ptx_video_part(i, k);
        imm |= (uint64_t)(p.at | p.bits << 5) << 11 * k;
    }
    for (unsigned k = 0; k < i->ntype; k++) /* signs of d, a, b; the result of vset has none */
        imm |= (uint64_t)ptx_type_is_signed((enum ptx_type)i->type[k]) << (SG_VIDEO1_SIGN_AT + k + (i->ntype == 2));
    imm |= (uint64_t)ptx_has(i, PTX_M_SAT) << SG_VIDEO1_SAT_AT;
    imm |= (second == PTX_M_ADD   ? UINT64_C(1)
            : second == PTX_M_MIN ? UINT64_C(2)
            : second == PTX_M_MAX ? UINT64_C(3)
                                  : 0)
           << SG_VIDEO1_SECOND_AT;
    imm |= (uint64_t)ptx_has(i, PTX_M_WRAP) << SG_VIDEO1_WRAP_AT;
    imm |= (uint64_t)ptx_has(i, PTX_M_PO) << SG_VIDEO1_PO_AT;
    imm |= ((sel >> PTX_SEL_NEG_A ^ sel >> PTX_SEL_NEG_B) & 1) << SG_VIDEO1_NEG_AT;
    imm |= (sel >> PTX_SEL_NEG_C & 1) << SG_VIDEO1_NEG_C_AT;
    imm |= (uint64_t)(ptx_has(i, PTX_M_SHR7) ? 7 : ptx_has(i, PTX_M_SHR15) ? 15 : 0) << SG_VIDEO1_SHIFT_AT;
    uint32_t a = sg_source(d, &i->opnd[1], PTX_B32), b = sg_source(d, &i->opnd[2], PTX_B32),
             from = c ? sg_source(d, &i->opnd[3], PTX_B32) : sg_konst(d, 0, false);
    uint32_t to = sg_dest(d, &i->opnd[0], PTX_B32);
    struct sg_op *op = sg_emit(d, sg_video1);
    op->d = to;
    op->a = a;
    op->b = b;
    op->c = from;
    op->sub = (uint8_t)video_kind_of(i);
    op->imm = (int64_t)imm;
    return 0;
}

int sg_decode_video(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    if (ptx_video_lanes(i->op) == 1)
        return one_lane(d);
    struct ptx_video v = ptx_video_of(i);
    uint64_t imm = v.mask | (uint64_t)v.lanes << SG_VIDEO_LANES_AT |
                   (uint64_t)ptx_has(i, PTX_M_ADD) << SG_VIDEO_ADD_AT |
                   (uint64_t)ptx_has(i, PTX_M_SAT) << SG_VIDEO_SAT_AT;
    for (unsigned side = 0; side < 2; side++)
        for (unsigned k = 0; k < v.lanes; k++)
            imm |= (uint64_t)v.from[side][k] << (SG_VIDEO_FROM_AT + 12 * side + 3 * k);
    for (unsigned k = 0; k < i->ntype; k++) /* signs of d, a, b; vset has those of a, b */
        imm |= (uint64_t)ptx_type_is_signed((enum ptx_type)i->type[k]) << (SG_VIDEO_SIGN_AT + k + (i->ntype == 2));
    uint32_t a = sg_source(d, &i->opnd[1], PTX_B32), b = sg_source(d, &i->opnd[2], PTX_B32),
             c = sg_source(d, &i->opnd[3], PTX_B32);
    uint32_t to = sg_dest(d, &i->opnd[0], PTX_B32);
    struct sg_op *op = sg_emit(d, sg_video);
    op->d = to;
    op->a = a;
    op->b = b;
    op->c = c;
    op->sub = (uint8_t)video_kind_of(i);
    op->imm = (int64_t)imm;
    return 0;
}
