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
    default: return (enum sg_video_kind)(SG_V_EQ + ptx_mod_of(i, PTX_MC_CMP) - PTX_M_EQ);
    }
}

int sg_decode_video(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
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
