/* Decoding of arithmetic: add to fma, division, minimum and maximum, functions of one value. A lane loop where rounding
 * is to nearest and no modifier asks for more, else the exact operation of exec/slow.c. Integers with carry and packed
 * half-words have operations of their own there.
 */
#include "softgpu/decode/inst.h"

/* Lane loops of f32 with a rounding mode or saturation; 0: none. */
static unsigned rounded_f32(unsigned sub, unsigned rnd)
{
    static const struct {
        uint8_t sub;
        uint16_t rnd, h;
    } row[] = {
        {SG_S_FMA, SG_RZ, SG_H_FMA_RZ_f32},
        {SG_S_FMA, SG_RM, SG_H_FMA_RM_f32},
        {SG_S_FMA, SG_RP, SG_H_FMA_RP_f32},
        {SG_S_ADD, SG_RZ, SG_H_FADD_RZ_f32},
        {SG_S_ADD, SG_RM, SG_H_FADD_RM_f32},
        {SG_S_ADD, SG_RP, SG_H_FADD_RP_f32},
        {SG_S_MUL, SG_RZ, SG_H_FMUL_RZ_f32},
        {SG_S_MUL, SG_RM, SG_H_FMUL_RM_f32},
        {SG_S_MUL, SG_RP, SG_H_FMUL_RP_f32},
        {SG_S_FMA, SG_SAT, SG_H_FMA_SAT_f32},
        {SG_S_FMA, SG_SAT | SG_FTZ, SG_H_FMA_SAT_z32},
        {SG_S_ADD, SG_SAT, SG_H_FADD_SAT_f32},
        {SG_S_MUL, SG_SAT, SG_H_FMUL_SAT_f32},
    };
    for (unsigned k = 0; k < sizeof row / sizeof *row; k++)
        if (row[k].sub == sub && row[k].rnd == rnd)
            return row[k].h;
    return 0;
}

/* Lane loops of halves and their pairs, to nearest; 0: none. */
static unsigned half_op(unsigned sub, unsigned rnd, enum ptx_type t)
{
#define ROW(N)                                                                                                         \
    {                                                                                                                  \
        SG_H_##N##_f16, SG_H_##N##_bf16, SG_H_##N##_f16x2, SG_H_##N##_bf16x2                                           \
    }
    static const uint16_t row[][4] = {
        [SG_S_ADD] = ROW(HADD), [SG_S_SUB] = ROW(HSUB), [SG_S_MUL] = ROW(HMUL), [SG_S_FMA] = ROW(HFMA),
        [SG_S_MIN] = ROW(HMIN), [SG_S_MAX] = ROW(HMAX), [SG_S_ABS] = ROW(HABS), [SG_S_NEG] = ROW(HNEG)};
    static const uint16_t nan[2][4] = {ROW(HMINN), ROW(HMAXN)};
#undef ROW
    unsigned k = t == PTX_F16 ? 0 : t == PTX_BF16 ? 1 : t == PTX_F16X2 ? 2 : 3;
    if (rnd == SG_NANP && (sub == SG_S_MIN || sub == SG_S_MAX))
        return nan[sub == SG_S_MAX][k];
    return rnd || sub >= sizeof row / sizeof *row ? 0 : row[sub][k];
}

/* add sub fma .f32.f16: all sources but the last are halves, which are f32 values too. */
static int mixed_op(struct sg_dec *d, unsigned sub, unsigned n)
{
    uint32_t s[3] = {SG_NONE, SG_NONE, SG_NONE};
    for (unsigned k = 0; k < n; k++)
        s[k] = k + 1 < n ? sg_dec_half(d, &d->i->opnd[1 + k], (enum ptx_type)d->i->type[1], false)
                         : sg_source(d, &d->i->opnd[1 + k], PTX_F32);
    sg_dec_slow_op(d, sg_slow_float, sub, s);
    return 0;
}

/* add sub mul fma min max … of floats: the lane loop where rounding is to nearest and nothing else is asked, else the
 * slow one. */
static int float_op(struct sg_dec *d, unsigned f32, unsigned z32, unsigned f64, unsigned sub, unsigned n)
{
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    unsigned r = sg_dec_rounding(d->i), h = 0;
    if (d->i->ntype == 2)
        return mixed_op(d, sub, n);
    if (t == PTX_F32 && !(r & ~(unsigned)SG_FTZ))
        h = r & SG_FTZ ? z32 : f32;
    else if (t == PTX_F64 && !r)
        h = f64;
    else if (t == PTX_F32)
        h = rounded_f32(sub, r);
    if (t == PTX_F32X2 && sub <= SG_S_FMA) {
        sg_dec_slow(d, sg_f32x2, sub, n);
        return 0;
    }
    if (t != PTX_F32 && t != PTX_F64 && t != PTX_F16 && t != PTX_BF16 && t != PTX_F16X2 && t != PTX_BF16X2)
        return sg_dec_unsupported(d);
    if (ptx_has(d->i, PTX_M_OOB) && (t == PTX_F32 || t == PTX_F64))
        return sg_dec_unsupported(d);
    if (ptx_has(d->i, PTX_M_OOB)) {
        sg_dec_slow(d, sg_fma_oob, sub, n);
        return 0;
    }
    if (t != PTX_F32 && t != PTX_F64)
        h = half_op(sub, r, t);
    if (!h)
        sg_dec_slow(d, sg_slow_float, sub, n);
    else if (n == 1)
        sg_dec_un(d, h, t, t);
    else if (n == 2)
        sg_dec_bin(d, h, t, t, t);
    else
        sg_dec_tri(d, h, t, t, t, t);
    return 0;
}

static void carry(struct sg_dec *d, unsigned sub, bool in, bool three)
{
    struct sg_op *op = sg_dec_slow(d, sg_carry, sub, three ? 3 : 2);
    op->imm = (in ? SG_CC_IN : 0) | (ptx_has(d->i, PTX_M_CC) ? SG_CC_OUT : 0);
}

static void int_x2(struct sg_dec *d, unsigned kind)
{
    struct sg_op *op = sg_dec_slow(d, sg_odd_int, SG_I_X2, 2);
    op->size = (uint8_t)kind;
    op->flags |= d->i->type[0] == PTX_S16X2 ? SG_SIGNED : 0;
}

static int add_sub(struct sg_dec *d)
{
    static const uint16_t add[3] = W3(ADD), sub[3] = W3(SUB);
    const struct ptx_inst *i = d->i;
    enum ptx_type t = (enum ptx_type)i->type[0];
    bool minus = i->op == PTX_OP_SUB || i->op == PTX_OP_SUBC;
    if (i->op == PTX_OP_ADDC || i->op == PTX_OP_SUBC || ptx_has(i, PTX_M_CC)) {
        carry(d, minus ? SG_I_SUB : SG_I_ADD, i->op == PTX_OP_ADDC || i->op == PTX_OP_SUBC, false);
        return 0;
    }
    if (ptx_type_is_float(t))
        return minus ? float_op(d, SG_H_FSUB_f32, SG_H_FSUB_z32, SG_H_FSUB_f64, SG_S_SUB, 2)
                     : float_op(d, SG_H_FADD_f32, SG_H_FADD_z32, SG_H_FADD_f64, SG_S_ADD, 2);
    if (t == PTX_U16X2 || t == PTX_S16X2) {
        if (minus)
            return sg_dec_unsupported(d);
        int_x2(d, SG_S_ADD);
    } else if (ptx_has(i, PTX_M_SAT)) {
        sg_dec_bin(d, minus ? SG_H_SUBSAT_s32 : SG_H_ADDSAT_s32, t, t, t);
    } else {
        sg_dec_bin(d, minus ? sub[sg_by_width(t)] : add[sg_by_width(t)], t, t, t);
    }
    return 0;
}

static enum ptx_type twice(enum ptx_type t) { return ptx_type_bytes(t) == 2 ? PTX_B32 : PTX_B64; }

static int mul(struct sg_dec *d)
{
    static const uint16_t lo[3] = W3(MUL), hi[2][3] = {W3(MULHI), S3(MULHI)};
    static const uint16_t wide[2][2] = {{SG_H_MULW_u16, SG_H_MULW_u32}, {SG_H_MULW_s16, SG_H_MULW_s32}};
    const struct ptx_inst *i = d->i;
    enum ptx_type t = (enum ptx_type)i->type[0];
    bool s = ptx_type_is_signed(t);
    if (ptx_type_is_float(t))
        return float_op(d, SG_H_FMUL_f32, SG_H_FMUL_z32, SG_H_FMUL_f64, SG_S_MUL, 2);
    if (ptx_has(i, PTX_M_WIDE) && ptx_type_bytes(t) < 8)
        sg_dec_bin(d, wide[s][sg_by_width(t)], twice(t), t, t);
    else
        sg_dec_bin(d, ptx_has(i, PTX_M_HI) ? hi[s][sg_by_width(t)] : lo[sg_by_width(t)], t, t, t);
    return 0;
}

static int mad(struct sg_dec *d)
{
    static const uint16_t lo[3] = W3(MAD), hi[2][3] = {W3(MADHI), S3(MADHI)};
    static const uint16_t wide[2][2] = {{SG_H_MADW_u16, SG_H_MADW_u32}, {SG_H_MADW_s16, SG_H_MADW_s32}};
    const struct ptx_inst *i = d->i;
    enum ptx_type t = (enum ptx_type)i->type[0];
    bool s = ptx_type_is_signed(t), h = ptx_has(i, PTX_M_HI);
    if (i->op == PTX_OP_FMA || ptx_type_is_float(t))
        return float_op(d, SG_H_FMA_f32, SG_H_FMA_z32, SG_H_FMA_f64, SG_S_FMA, 3);
    if (i->op == PTX_OP_MADC || ptx_has(i, PTX_M_CC))
        carry(d, h ? SG_I_MADHI : SG_I_MADLO, i->op == PTX_OP_MADC, true);
    else if (ptx_has(i, PTX_M_WIDE) && ptx_type_bytes(t) < 8)
        sg_dec_tri(d, wide[s][sg_by_width(t)], twice(t), t, t, twice(t));
    else if (h && ptx_has(i, PTX_M_SAT))
        sg_dec_tri(d, SG_H_MADHISAT_s32, t, t, t, t);
    else
        sg_dec_tri(d, h ? hi[s][sg_by_width(t)] : lo[sg_by_width(t)], t, t, t, t);
    return 0;
}

static int mul24(struct sg_dec *d)
{
    static const uint16_t mulh[2][2] = {{SG_H_MUL24LO_u32, SG_H_MUL24HI_u32}, {SG_H_MUL24LO_s32, SG_H_MUL24HI_s32}};
    static const uint16_t madh[2][2] = {{SG_H_MAD24LO_u32, SG_H_MAD24HI_u32}, {SG_H_MAD24LO_s32, SG_H_MAD24HI_s32}};
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    bool s = ptx_type_is_signed(t), hi = ptx_has(d->i, PTX_M_HI);
    if (d->i->op == PTX_OP_MUL24)
        sg_dec_bin(d, mulh[s][hi], t, t, t);
    else
        sg_dec_tri(d, ptx_has(d->i, PTX_M_SAT) ? SG_H_MAD24HISAT_s32 : madh[s][hi], t, t, t, t);
    return 0;
}

static int minmax(struct sg_dec *d)
{
    static const uint16_t mn[2][3] = {W3(MIN), S3(MIN)}, mx[2][3] = {W3(MAX), S3(MAX)};
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    bool max = d->i->op == PTX_OP_MAX;
    if (ptx_type_is_float(t)) {
        if (d->i->nopnd > 3) {
            sg_dec_slow(d, sg_slow_float, max ? SG_S_MAX3 : SG_S_MIN3, 3);
            return 0;
        }
        return max ? float_op(d, SG_H_FMAX_f32, SG_H_FMAX_z32, SG_H_FMAX_f64, SG_S_MAX, 2)
                   : float_op(d, SG_H_FMIN_f32, SG_H_FMIN_z32, SG_H_FMIN_f64, SG_S_MIN, 2);
    }
    if (t == PTX_U16X2 || t == PTX_S16X2) {
        int_x2(d, max ? SG_S_MAX : SG_S_MIN);
        return 0;
    }
    if (ptx_has(d->i, PTX_M_RELU)) { /* min/max.relu.s32: then not below zero */
        struct sg_op *op = sg_dec_bin(d, max ? SG_H_MAX_s32 : SG_H_MIN_s32, t, t, t);
        uint32_t dst = op->d, zero = sg_konst(d, 0, false);
        sg_dec_put(d, SG_H_MAX_s32, dst, dst, zero);
        return 0;
    }
    sg_dec_bin(d, (max ? mx : mn)[ptx_type_is_signed(t)][sg_by_width(t)], t, t, t);
    return 0;
}

static int arith_divide(struct sg_dec *d)
{
    static const uint16_t dv[2][3] = {W3(DIV), S3(DIV)}, rm[2][3] = {W3(REM), S3(REM)};
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    if (!ptx_type_is_float(t)) {
        sg_dec_bin(d, (d->i->op == PTX_OP_REM ? rm : dv)[ptx_type_is_signed(t)][sg_by_width(t)], t, t, t);
        return 0;
    }
    enum ptx_mod m = ptx_mod_of(d->i, PTX_MC_APPROX);
    if (m == PTX_M_NONE)
        return float_op(d, SG_H_FDIV_f32, SG_H_FDIV_z32, SG_H_FDIV_f64, SG_S_DIV, 2);
    if (m == PTX_M_FULL)
        return float_op(d, SG_H_FDIV_f32, SG_H_FDIV_z32, 0, SG_S_DIV, 2);
    return float_op(d, SG_H_DIVA_f32, SG_H_DIVA_z32, 0, SG_S_DIV, 2);
}

/* rcp sqrt rsqrt ex2 and the other functions of one value */
static int function(struct sg_dec *d)
{
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    bool approx = ptx_has(d->i, PTX_M_APPROX);
    switch (d->i->op) {
    case PTX_OP_RCP:
        if (t == PTX_F64 && approx) {
            sg_dec_slow(d, sg_slow_float, SG_S_RCP, 1)->imm = 1;
            return 0;
        }
        return float_op(d, SG_H_RCP_f32, SG_H_RCP_z32, SG_H_RCP_f64, SG_S_RCP, 1);
    case PTX_OP_SQRT: return float_op(d, SG_H_SQRT_f32, SG_H_SQRT_z32, SG_H_SQRT_f64, SG_S_SQRT, 1);
    case PTX_OP_EX2:
        if (t == PTX_F32)
            return float_op(d, SG_H_EX2_f32, SG_H_EX2_z32, 0, SG_S_EX2, 1);
        sg_dec_slow(d, sg_slow_float, SG_S_EX2, 1);
        return 0;
    case PTX_OP_RSQRT:
        if (t == PTX_F32)
            return float_op(d, SG_H_RSQRT_f32, SG_H_RSQRT_z32, 0, SG_S_RSQRT, 1);
        sg_dec_slow(d, sg_slow_float, SG_S_RSQRT, 1)->imm = t == PTX_F64 && ptx_has(d->i, PTX_M_FTZ);
        return 0;
    case PTX_OP_SIN: sg_dec_slow(d, sg_sincos, SG_S_SIN, 1); return 0;
    case PTX_OP_COS: sg_dec_slow(d, sg_sincos, SG_S_COS, 1); return 0;
    case PTX_OP_LG2: return float_op(d, SG_H_LG2_f32, SG_H_LG2_z32, 0, SG_S_LG2, 1);
    default:
        if (t == PTX_F32)
            return float_op(d, SG_H_TANH_f32, SG_H_TANH_z32, 0, SG_S_TANH, 1);
        sg_dec_slow(d, sg_slow_float, SG_S_TANH, 1);
        return 0;
    }
}

static int dot(struct sg_dec *d)
{
    static const uint16_t h[2][2] = {{SG_H_DP4A_uu, SG_H_DP4A_us}, {SG_H_DP4A_su, SG_H_DP4A_ss}};
    const struct ptx_inst *i = d->i;
    bool sa = ptx_type_is_signed((enum ptx_type)i->type[0]), sb = ptx_type_is_signed((enum ptx_type)i->type[1]);
    if (i->op == PTX_OP_DP4A)
        sg_dec_tri(d, h[sa][sb], PTX_U32, PTX_U32, PTX_U32, PTX_U32);
    else
        sg_dec_slow(d, sg_odd_int, SG_I_DP2A, 3)->imm = (sa ? 1 : 0) | (sb ? 2 : 0) | (ptx_has(i, PTX_M_HI) ? 4 : 0);
    return 0;
}

int sg_decode_arith(struct sg_dec *d)
{
    static const uint16_t sad[2][3] = {W3(SAD), S3(SAD)}, iabs[3] = S3(ABS), ineg[3] = S3(NEG);
    enum ptx_type t = d->i->ntype ? (enum ptx_type)d->i->type[0] : PTX_T_NONE;
    switch (d->i->op) {
    case PTX_OP_ADD:
    case PTX_OP_ADDC:
    case PTX_OP_SUB:
    case PTX_OP_SUBC: return add_sub(d);
    case PTX_OP_MUL: return mul(d);
    case PTX_OP_MAD:
    case PTX_OP_MADC:
    case PTX_OP_FMA: return mad(d);
    case PTX_OP_MUL24:
    case PTX_OP_MAD24: return mul24(d);
    case PTX_OP_SAD: sg_dec_tri(d, sad[ptx_type_is_signed(t)][sg_by_width(t)], t, t, t, t); return 0;
    case PTX_OP_DIV:
    case PTX_OP_REM: return arith_divide(d);
    case PTX_OP_ABS:
        if (ptx_type_is_float(t))
            return float_op(d, SG_H_FABS_f32, SG_H_FABS_z32, SG_H_FABS_f64, SG_S_ABS, 1);
        sg_dec_un(d, iabs[sg_by_width(t)], t, t);
        return 0;
    case PTX_OP_NEG:
        if (ptx_type_is_float(t))
            return float_op(d, SG_H_FNEG_f32, SG_H_FNEG_z32, SG_H_FNEG_f64, SG_S_NEG, 1);
        sg_dec_un(d, ineg[sg_by_width(t)], t, t);
        return 0;
    case PTX_OP_MIN:
    case PTX_OP_MAX: return minmax(d);
    case PTX_OP_RCP:
    case PTX_OP_SQRT:
    case PTX_OP_RSQRT:
    case PTX_OP_SIN:
    case PTX_OP_COS:
    case PTX_OP_LG2:
    case PTX_OP_EX2:
    case PTX_OP_TANH: return function(d);
    case PTX_OP_COPYSIGN: sg_dec_bin(d, t == PTX_F64 ? SG_H_COPYSIGN_f64 : SG_H_COPYSIGN_f32, t, t, t); return 0;
    case PTX_OP_DP4A:
    case PTX_OP_DP2A: return dot(d);
    default: return SG_ELSEWHERE;
    }
}
