/* Decoding of operations on bits: logic, shifts, permutations of bytes, bit fields and counts. Logic of predicates has
 * operations of its own, a bit per lane.
 */
#include "softgpu/decode/inst.h"

static int logic(struct sg_dec *d)
{
    static const uint16_t h[3][3] = {W3(AND), W3(OR), W3(XOR)};
    const struct ptx_inst *i = d->i;
    enum ptx_type t = (enum ptx_type)i->type[0];
    unsigned k = i->op == PTX_OP_AND ? 0 : i->op == PTX_OP_OR ? 1 : 2;
    if (t != PTX_PRED) {
        sg_dec_bin(d, h[k][sg_by_width(t)], t, t, t);
        return 0;
    }
    static const uint16_t ph[3] = {SG_H_PAND, SG_H_POR, SG_H_PXOR};
    bool na, nb;
    uint32_t a = sg_pred(d, &i->opnd[1], &na), b = sg_pred(d, &i->opnd[2], &nb), p = sg_pred_dest(d, &i->opnd[0]);
    struct sg_op *op = sg_emit_h(d, ph[k]);
    op->d = p;
    op->a = a;
    op->b = b;
    op->flags |= (uint8_t)((na ? SG_SIGNED : 0) | (nb ? SG_C_NOT : 0));
    return 0;
}

static int not_op(struct sg_dec *d)
{
    static const uint16_t nt[3] = W3(NOT), cn[3] = W3(CNOT);
    const struct ptx_inst *i = d->i;
    enum ptx_type t = (enum ptx_type)i->type[0];
    if (t != PTX_PRED) {
        sg_dec_un(d, i->op == PTX_OP_NOT ? nt[sg_by_width(t)] : cn[sg_by_width(t)], t, t);
        return 0;
    }
    bool neg;
    uint32_t a = sg_pred(d, &i->opnd[1], &neg), p = sg_pred_dest(d, &i->opnd[0]);
    struct sg_op *op = sg_emit_h(d, SG_H_PNOT);
    op->d = p;
    op->a = a;
    op->flags |= neg ? SG_SIGNED : 0;
    return 0;
}

static int lop3(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    if (i->dst2) { /* lop3.BoolOp d|p, a, b, c, lut, q: p = (d != 0) BoolOp q */
        bool neg;
        uint32_t a = sg_source(d, &i->opnd[2], PTX_B32), b = sg_source(d, &i->opnd[3], PTX_B32),
                 c = sg_source(d, &i->opnd[4], PTX_B32);
        uint32_t q = sg_pred(d, &i->opnd[6], &neg), t = sg_temp(d), p = sg_pred_dest(d, &i->opnd[1]),
                 zero = sg_konst(d, 0, false);
        struct sg_op *op = sg_emit_h(d, SG_H_LOP3);
        op->d = t;
        op->a = a;
        op->b = b;
        op->c = c;
        op->imm = (int64_t)i->opnd[5].bits;
        op = sg_emit_h(d, SG_H_NE_u32);
        op->d = p;
        op->a = t;
        op->b = zero;
        op->c = q;
        op->sub = ptx_has(i, PTX_M_AND) ? 1 : 2;
        op->flags |= neg ? SG_C_NOT : 0;
        uint32_t dst = sg_dest(d, &i->opnd[0], PTX_B32);
        op = sg_emit_h(d, SG_H_MOV_u32);
        op->d = dst;
        op->a = t;
        return 0;
    }
    sg_dec_tri(d, SG_H_LOP3, PTX_B32, PTX_B32, PTX_B32, PTX_B32)->imm = (int64_t)i->opnd[4].bits;
    return 0;
}

static int shift(struct sg_dec *d)
{
    static const uint16_t shl[3] = W3(SHL), shr[2][3] = {W3(SHR), S3(SHR)};
    static const uint16_t shf[2][2] = {{SG_H_SHF_L_CLAMP, SG_H_SHF_L_WRAP}, {SG_H_SHF_R_CLAMP, SG_H_SHF_R_WRAP}};
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    if (d->i->op == PTX_OP_SHF)
        sg_dec_tri(d, shf[ptx_has(d->i, PTX_M_R)][ptx_has(d->i, PTX_M_WRAP)], t, t, t, PTX_U32);
    else
        sg_dec_bin(d, d->i->op == PTX_OP_SHL ? shl[sg_by_width(t)] : shr[ptx_type_is_signed(t)][sg_by_width(t)], t, t,
                   PTX_U32);
    return 0;
}

static int prmt(struct sg_dec *d)
{
    unsigned mode = 0;
    switch (ptx_mod_of(d->i, PTX_MC_PRMT)) {
    case PTX_M_F4E: mode = 1; break;
    case PTX_M_B4E: mode = 2; break;
    case PTX_M_RC8: mode = 3; break;
    case PTX_M_ECL: mode = 4; break;
    case PTX_M_ECR: mode = 5; break;
    case PTX_M_RC16: mode = 6; break;
    default: break;
    }
    sg_dec_tri(d, mode ? SG_H_PRMT_MODE : SG_H_PRMT, PTX_B32, PTX_B32, PTX_B32, PTX_U32)->sub = (uint8_t)mode;
    return 0;
}

static int bits(struct sg_dec *d)
{
    static const uint16_t popc[2] = {SG_H_POPC_u32, SG_H_POPC_u64}, clz[2] = {SG_H_CLZ_u32, SG_H_CLZ_u64},
                          brev[2] = {SG_H_BREV_u32, SG_H_BREV_u64};
    static const uint16_t find[2][2][2] = {
        {{SG_H_BFIND_u32, SG_H_BFIND_u64}, {SG_H_BFIND_s32, SG_H_BFIND_s64}},
        {{SG_H_BFINDSH_u32, SG_H_BFINDSH_u64}, {SG_H_BFINDSH_s32, SG_H_BFINDSH_s64}}};
    static const uint16_t bfe[2][2] = {{SG_H_BFE_u32, SG_H_BFE_u64}, {SG_H_BFE_s32, SG_H_BFE_s64}};
    static const uint16_t szext[2][2] = {{SG_H_SZEXT_CLAMP_u32, SG_H_SZEXT_WRAP_u32},
                                         {SG_H_SZEXT_CLAMP_s32, SG_H_SZEXT_WRAP_s32}};
    const struct ptx_inst *i = d->i;
    enum ptx_type t = (enum ptx_type)i->type[0];
    bool w = ptx_type_bytes(t) == 8, s = ptx_type_is_signed(t);
    switch (i->op) {
    case PTX_OP_POPC: sg_dec_un(d, popc[w], PTX_U32, t); return 0;
    case PTX_OP_CLZ: sg_dec_un(d, clz[w], PTX_U32, t); return 0;
    case PTX_OP_BREV: sg_dec_un(d, brev[w], t, t); return 0;
    case PTX_OP_BFIND: sg_dec_un(d, find[ptx_has(i, PTX_M_SHIFTAMT)][s][w], PTX_U32, t); return 0;
    case PTX_OP_BFE: sg_dec_tri(d, bfe[s][w], t, t, PTX_U32, PTX_U32); return 0;
    case PTX_OP_SZEXT: sg_dec_bin(d, szext[s][ptx_has(i, PTX_M_WRAP)], t, t, PTX_U32); return 0;
    case PTX_OP_BMSK:
        sg_dec_bin(d, ptx_has(i, PTX_M_WRAP) ? SG_H_BMSK_WRAP : SG_H_BMSK_CLAMP, t, PTX_U32, PTX_U32);
        return 0;
    case PTX_OP_FNS: sg_dec_slow(d, sg_odd_int, SG_I_FNS, 3); return 0;
    default: { /* bfi */
        uint32_t a = sg_source(d, &i->opnd[1], t), b = sg_source(d, &i->opnd[2], t),
                 c = sg_source(d, &i->opnd[3], PTX_U32);
        uint32_t x = sg_source(d, &i->opnd[4], PTX_U32), dst = sg_dest(d, &i->opnd[0], t);
        struct sg_op *op = sg_emit_h(d, w ? SG_H_BFI_u64 : SG_H_BFI_u32);
        op->d = dst;
        op->a = a;
        op->b = b;
        op->c = c;
        op->x = x;
        return 0;
    }
    }
}

int sg_decode_logic(struct sg_dec *d)
{
    switch (d->i->op) {
    case PTX_OP_AND:
    case PTX_OP_OR:
    case PTX_OP_XOR: return logic(d);
    case PTX_OP_NOT:
    case PTX_OP_CNOT: return not_op(d);
    case PTX_OP_LOP3: return lop3(d);
    case PTX_OP_SHF:
    case PTX_OP_SHL:
    case PTX_OP_SHR: return shift(d);
    case PTX_OP_PRMT: return prmt(d);
    case PTX_OP_POPC:
    case PTX_OP_CLZ:
    case PTX_OP_BREV:
    case PTX_OP_BFIND:
    case PTX_OP_BFE:
    case PTX_OP_BFI:
    case PTX_OP_SZEXT:
    case PTX_OP_BMSK:
    case PTX_OP_FNS: return bits(d);
    default: return SG_ELSEWHERE;
    }
}
