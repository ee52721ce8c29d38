/* Decoding of comparisons and of what chooses by them: setp, set, selp, slct, testp.
 *
 * Halves are compared as floats, of packed ones each half by itself. A third predicate (.and, .or, .xor) is part of the
 * comparison's operation.
 */
#include "softgpu/decode/inst.h"

/* The lane loop for a comparison of type t; 0: none. */
static unsigned compare_one(enum ptx_mod m, enum ptx_type t, bool ftz)
{
#define ROW4(T)                                                                                                        \
    {                                                                                                                  \
        SG_H_LT_##T, SG_H_LE_##T, SG_H_GT_##T, SG_H_GE_##T                                                             \
    }
#define ROWF(T)                                                                                                        \
    {                                                                                                                  \
        SG_H_EQ_##T, SG_H_NE_##T, SG_H_LT_##T, SG_H_LE_##T, SG_H_GT_##T, SG_H_GE_##T, SG_H_EQU_##T, SG_H_NEU_##T,      \
            SG_H_LTU_##T, SG_H_LEU_##T, SG_H_GTU_##T, SG_H_GEU_##T, SG_H_NUM_##T, SG_H_NAN_##T                         \
    }
    static const uint16_t order[2][3][4] = {{ROW4(u16), ROW4(u32), ROW4(u64)}, {ROW4(s16), ROW4(s32), ROW4(s64)}};
    static const uint16_t eq[3] = W3(EQ), ne[3] = W3(NE);
    static const uint16_t flt[3][14] = {ROWF(f32), ROWF(z32), ROWF(f64)};
    static const uint16_t fmods[14] = {PTX_M_EQ,  PTX_M_NE,  PTX_M_LT,  PTX_M_LE,  PTX_M_GT,  PTX_M_GE,  PTX_M_EQU,
                                       PTX_M_NEU, PTX_M_LTU, PTX_M_LEU, PTX_M_GTU, PTX_M_GEU, PTX_M_NUM, PTX_M_NAN};
    if (ptx_type_is_float(t)) {
        for (unsigned k = 0; k < 14; k++)
            if (fmods[k] == m)
                return flt[t == PTX_F64 ? 2 : ftz ? 1 : 0][k];
        return 0;
    }
    bool s = ptx_type_is_signed(t);
    switch (m) {
    case PTX_M_EQ: return eq[sg_by_width(t)];
    case PTX_M_NE: return ne[sg_by_width(t)];
    case PTX_M_LT:
    case PTX_M_LO: return order[s][sg_by_width(t)][0];
    case PTX_M_LE:
    case PTX_M_LS: return order[s][sg_by_width(t)][1];
    case PTX_M_GT:
    case PTX_M_HI: return order[s][sg_by_width(t)][2];
    case PTX_M_GE:
    case PTX_M_HS: return order[s][sg_by_width(t)][3];
    default: return 0;
    }
}

/* What a comparison does with its third predicate. */
static void with_third(struct sg_op *op, enum ptx_mod b, uint32_t c, bool neg)
{
    op->c = c;
    op->sub = b == PTX_M_AND ? 1 : b == PTX_M_OR ? 2 : b == PTX_M_XOR ? 3 : 0;
    op->flags |= neg ? SG_C_NOT : 0;
}

/* p{|q} = (a cmp b) {bool c}; with `set`, into a temporary predicate. */
static int comparison(struct sg_dec *d, enum ptx_type t, unsigned first, uint32_t p, uint32_t q)
{
    const struct ptx_inst *i = d->i;
    enum ptx_mod m = ptx_mod_of(i, PTX_MC_CMP), b = ptx_mod_of(i, PTX_MC_BOOL);
    if (m == PTX_M_NONE)
        m = ptx_mod_of(i, PTX_MC_HALF);
    bool ftz = ptx_has(i, PTX_M_FTZ), half = t == PTX_F16 || t == PTX_BF16, neg = false;
    unsigned h = compare_one(m, half ? PTX_F32 : t, ftz && !half);
    if (!h || t == PTX_F16X2 || t == PTX_BF16X2)
        return sg_dec_unsupported(d);
    uint32_t x = half ? sg_dec_half(d, &i->opnd[first], t, ftz) : sg_source(d, &i->opnd[first], t);
    uint32_t y = half ? sg_dec_half(d, &i->opnd[first + 1], t, ftz) : sg_source(d, &i->opnd[first + 1], t), c = 0;
    if (b != PTX_M_NONE) {
        if (i->nopnd <= first + 2)
            return sg_dec_error(d, DT_E_PTX, "a boolean operation without its predicate");
        c = sg_pred(d, &i->opnd[first + 2], &neg);
    }
    struct sg_op *op = sg_emit_h(d, h);
    op->d = p;
    op->x = q;
    op->a = x;
    op->b = y;
    with_third(op, b, c, neg);
    op->flags |= q != SG_NONE ? SG_HAS_Q : 0;
    return 0;
}

/* One half of two packed sources compared by handler h, into predicate p. */
static struct sg_op *compare_half(struct sg_dec *d, const uint32_t s[2], bool hi, enum ptx_type t, unsigned h,
                                  uint32_t p)
{
    uint32_t x[2], zero = sg_konst(d, 0, false);
    for (unsigned k = 0; k < 2; k++) {
        uint32_t piece = sg_temp(d);
        x[k] = sg_temp(d);
        struct sg_op *op = sg_emit_h(d, hi ? SG_H_HI_u32 : SG_H_LO_u32);
        op->d = piece;
        op->a = s[k];
        if (ptx_has(d->i, PTX_M_FTZ) && t == PTX_F16) {
            op = sg_emit(d, sg_slow_float);
            op->d = op->a = piece;
            op->b = zero;
            op->c = SG_NONE;
            op->sub = SG_S_ADD;
            op->type = PTX_F16;
            op->rnd = SG_FTZ;
        }
        op = sg_emit_h(d, t == PTX_F16 ? SG_H_CVT_f32_f16 : SG_H_CVT_f32_bf16);
        op->d = x[k];
        op->a = piece;
    }
    struct sg_op *op = sg_emit_h(d, h);
    op->d = p;
    op->a = x[0];
    op->b = x[1];
    return op;
}

/* setp.cmp{.bool}.f16x2 p{|q}, a, b{, c}: p is about the low halves, q about the high ones */
static int setp_x2(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_mod b = ptx_mod_of(i, PTX_MC_BOOL);
    unsigned h = compare_one(ptx_mod_of(i, PTX_MC_CMP), PTX_F32, false);
    bool neg = false;
    const struct ptx_opnd *from = &i->opnd[1 + i->dst2];
    if (!h || i->nopnd != 3u + i->dst2 + (b != PTX_M_NONE))
        return sg_dec_unsupported(d);
    uint32_t s[2] = {sg_source(d, &from[0], PTX_B32), sg_source(d, &from[1], PTX_B32)};
    uint32_t p[2] = {sg_pred_dest(d, &i->opnd[0]), i->dst2 ? sg_pred_dest(d, &i->opnd[1]) : 0},
             c = b == PTX_M_NONE ? 0 : sg_pred(d, &from[2], &neg);
    for (unsigned k = 0; k < 1u + i->dst2; k++) {
        unsigned hi = i->dst2 && b != PTX_M_NONE && c == p[0] ? !k : k; /* c may be a destination: that one last */
        with_third(compare_half(d, s, hi, i->type[0] == PTX_F16X2 ? PTX_F16 : PTX_BF16, h, p[hi]), b, c, neg);
    }
    return 0;
}

/* set.cmp{.bool}.{f16x2 u32}.f16x2 d, a, b{, c}: each half by itself, 1.0 or all ones into its half of d */
static int set_x2(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_type to = (enum ptx_type)i->type[0], t = i->type[1] == PTX_F16X2 ? PTX_F16 : PTX_BF16;
    enum ptx_mod b = ptx_mod_of(i, PTX_MC_BOOL);
    unsigned h = compare_one(ptx_mod_of(i, PTX_MC_CMP), PTX_F32, false);
    bool neg = false;
    if (!h || i->nopnd != (b == PTX_M_NONE ? 3 : 4) || (ptx_type_is_float(to) && to != i->type[1]))
        return sg_dec_unsupported(d);
    uint32_t c = b == PTX_M_NONE ? 0 : sg_pred(d, &i->opnd[3], &neg);
    uint32_t one = sg_konst(d,
                            to == PTX_F16X2    ? 0x3C00
                            : to == PTX_BF16X2 ? 0x3F80
                                               : 0xFFFF,
                            false),
             zero = sg_konst(d, 0, false);
    uint32_t s[2] = {sg_source(d, &i->opnd[1], PTX_B32), sg_source(d, &i->opnd[2], PTX_B32)}, r[2];
    for (unsigned hi = 0; hi < 2; hi++) {
        uint32_t p = sg_ptemp(d);
        struct sg_op *op = compare_half(d, s, hi, t, h, p);
        with_third(op, b, c, neg);
        op = sg_emit_h(d, SG_H_SELP_u32);
        op->d = r[hi] = sg_temp(d);
        op->a = one;
        op->b = zero;
        op->c = p;
    }
    uint32_t dst = sg_dest(d, &i->opnd[0], PTX_B32);
    sg_dec_put(d, SG_H_PACK_u32, dst, r[0], r[1]);
    return 0;
}

static int compare_set(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_type to = (enum ptx_type)i->type[0];
    if (i->type[1] == PTX_F16X2 || i->type[1] == PTX_BF16X2)
        return set_x2(d);
    uint32_t p = sg_ptemp(d);
    int r = comparison(d, (enum ptx_type)i->type[1], 1, p, SG_NONE);
    if (r < 0)
        return r;
    uint64_t one = to == PTX_F32             ? 0x3F800000
                   : to == PTX_F16           ? 0x3C00
                   : to == PTX_BF16          ? 0x3F80
                   : ptx_type_bytes(to) == 2 ? 0xFFFF
                                             : 0xFFFFFFFF;
    uint32_t yes = sg_konst(d, one, false), no = sg_konst(d, 0, false), dst = sg_dest(d, &i->opnd[0], to);
    struct sg_op *op = sg_emit_h(d, SG_H_SELP_u32);
    op->d = dst;
    op->a = yes;
    op->b = no;
    op->c = p;
    return 0;
}

static int selp(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_type t = (enum ptx_type)i->type[0];
    bool neg;
    uint32_t c = sg_pred(d, &i->opnd[3], &neg), a = sg_source(d, &i->opnd[1], t), b = sg_source(d, &i->opnd[2], t),
             dst = sg_dest(d, &i->opnd[0], t);
    struct sg_op *op = sg_emit_h(d, sg_width(t) == 8 ? SG_H_SELP_u64 : SG_H_SELP_u32);
    op->d = dst;
    op->a = a;
    op->b = b;
    op->c = c;
    op->flags |= neg ? SG_C_NOT : 0;
    return 0;
}

static int testp(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_mod m = ptx_mod_of(i, PTX_MC_TESTP);
    unsigned sub = m == PTX_M_FINITE       ? SG_T_FINITE
                   : m == PTX_M_INFINITE   ? SG_T_INFINITE
                   : m == PTX_M_NUMBER     ? SG_T_NUMBER
                   : m == PTX_M_NOTANUMBER ? SG_T_NAN
                   : m == PTX_M_NORMAL     ? SG_T_NORMAL
                                           : SG_T_SUBNORMAL;
    uint32_t a = sg_source(d, &i->opnd[1], (enum ptx_type)i->type[0]), p = sg_pred_dest(d, &i->opnd[0]);
    struct sg_op *op = sg_emit(d, sg_testp);
    op->d = p;
    op->a = a;
    op->type = i->type[0];
    op->sub = (uint8_t)sub;
    return 0;
}

static int slct(struct sg_dec *d)
{
    enum ptx_type t = (enum ptx_type)d->i->type[0], c = (enum ptx_type)d->i->type[1];
    bool w = sg_width(t) == 8;
    if (c != PTX_S32 && c != PTX_F32)
        return sg_dec_unsupported(d);
    if (ptx_has(d->i, PTX_M_FTZ)) { /* c + -0: a subnormal becomes a zero */
        uint32_t from = sg_source(d, &d->i->opnd[3], c), minus = sg_konst(d, 0x80000000, false), z = sg_temp(d);
        sg_dec_put(d, SG_H_FADD_z32, z, from, minus);
        sg_dec_bin(d, w ? SG_H_SLCT_u64_f32 : SG_H_SLCT_u32_f32, t, t, t)->c = z;
        return 0;
    }
    sg_dec_tri(d,
               c == PTX_S32 ? (w ? SG_H_SLCT_u64_s32 : SG_H_SLCT_u32_s32) : (w ? SG_H_SLCT_u64_f32 : SG_H_SLCT_u32_f32),
               t, t, t, c);
    return 0;
}

static int setp(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_type t = (enum ptx_type)i->type[0];
    if (t == PTX_F16X2 || t == PTX_BF16X2)
        return setp_x2(d);
    uint32_t p = sg_pred_dest(d, &i->opnd[0]), q = i->dst2 ? sg_pred_dest(d, &i->opnd[1]) : SG_NONE;
    return comparison(d, t, i->dst2 ? 2 : 1, p, q);
}

int sg_decode_compare(struct sg_dec *d)
{
    switch (d->i->op) {
    case PTX_OP_SETP: return setp(d);
    case PTX_OP_SET: return compare_set(d);
    case PTX_OP_SELP: return selp(d);
    case PTX_OP_SLCT: return slct(d);
    case PTX_OP_TESTP: return testp(d);
    default: return SG_ELSEWHERE;
    }
}
