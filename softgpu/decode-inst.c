/* Decoding of arithmetic, logic, comparison, moves and conversions: which lane loop or slow handler an instruction's
 * mnemonic × type × modifiers means. What is not here goes to decode-mem.c, which refuses what it does not know by
 * name.
 */
#include "softgpu/decode.h"

#define W3(N)                                                                                                          \
    {                                                                                                                  \
        SG_H_##N##_u16, SG_H_##N##_u32, SG_H_##N##_u64                                                                 \
    }
#define S3(N)                                                                                                          \
    {                                                                                                                  \
        SG_H_##N##_s16, SG_H_##N##_s32, SG_H_##N##_s64                                                                 \
    }

static unsigned w3(enum ptx_type t) { return ptx_type_bytes(t) == 8 ? 2 : ptx_type_bytes(t) == 4 ? 1 : 0; }

static unsigned rounding(const struct ptx_inst *i)
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

static struct sg_op *un(struct sg_dec *d, unsigned h, enum ptx_type td, enum ptx_type ta)
{
    uint32_t a = sg_source(d, &d->i->opnd[1], ta), t = sg_dest(d, &d->i->opnd[0], td);
    struct sg_op *op = sg_emit_h(d, h);
    op->d = t;
    op->a = a;
    return op;
}

static struct sg_op *put(struct sg_dec *d, unsigned h, uint32_t dst, uint32_t a, uint32_t b)
{
    struct sg_op *op = sg_emit_h(d, h);
    op->d = dst;
    op->a = a;
    op->b = b;
    return op;
}

static struct sg_op *bin(struct sg_dec *d, unsigned h, enum ptx_type td, enum ptx_type ta, enum ptx_type tb)
{
    uint32_t a = sg_source(d, &d->i->opnd[1], ta), b = sg_source(d, &d->i->opnd[2], tb),
             t = sg_dest(d, &d->i->opnd[0], td);
    return put(d, h, t, a, b);
}

static struct sg_op *tri(struct sg_dec *d, unsigned h, enum ptx_type td, enum ptx_type ta, enum ptx_type tb,
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

/* An operation of exec-slow.c. */
static struct sg_op *slow_op(struct sg_dec *d, sg_fn fn, unsigned sub, const uint32_t s[3])
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
    op->rnd = (uint16_t)rounding(d->i);
    return op;
}

/* With n sources of the instruction's type. */
static struct sg_op *slow(struct sg_dec *d, sg_fn fn, unsigned sub, unsigned n)
{
    uint32_t s[3] = {SG_NONE, SG_NONE, SG_NONE};
    for (unsigned k = 0; k < n; k++)
        s[k] = sg_source(d, &d->i->opnd[1 + k], (enum ptx_type)d->i->type[0]);
    return slow_op(d, fn, sub, s);
}

static int unsupported(struct sg_dec *d)
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

/* A half operand as f32. */
static uint32_t as_f32(struct sg_dec *d, const struct ptx_opnd *o, enum ptx_type t, bool ftz)
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

/* add sub fma .f32.f16: all sources but the last are halves, which are f32 values too. */
static int mixed_op(struct sg_dec *d, unsigned sub, unsigned n)
{
    uint32_t s[3] = {SG_NONE, SG_NONE, SG_NONE};
    for (unsigned k = 0; k < n; k++)
        s[k] = k + 1 < n ? as_f32(d, &d->i->opnd[1 + k], (enum ptx_type)d->i->type[1], false)
                         : sg_source(d, &d->i->opnd[1 + k], PTX_F32);
    slow_op(d, sg_slow_float, sub, s);
    return 0;
}

/* add sub mul fma min max … of floats: the lane loop where rounding is to nearest and nothing else is asked, else the
 * slow one. */
static int float_op(struct sg_dec *d, unsigned f32, unsigned z32, unsigned f64, unsigned sub, unsigned n)
{
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    unsigned r = rounding(d->i), h = 0;
    if (d->i->ntype == 2)
        return mixed_op(d, sub, n);
    if (t == PTX_F32 && !(r & ~(unsigned)SG_FTZ))
        h = r & SG_FTZ ? z32 : f32;
    else if (t == PTX_F64 && !r)
        h = f64;
    else if (t == PTX_F32)
        h = rounded_f32(sub, r);
    if (t == PTX_F32X2 && sub <= SG_S_FMA) {
        slow(d, sg_f32x2, sub, n);
        return 0;
    }
    if (t != PTX_F32 && t != PTX_F64 && t != PTX_F16 && t != PTX_BF16 && t != PTX_F16X2 && t != PTX_BF16X2)
        return unsupported(d);
    if (ptx_has(d->i, PTX_M_OOB) && (t == PTX_F32 || t == PTX_F64))
        return unsupported(d);
    if (ptx_has(d->i, PTX_M_OOB)) {
        slow(d, sg_fma_oob, sub, n);
        return 0;
    }
    if (!h)
        slow(d, sg_slow_float, sub, n);
    else if (n == 1)
        un(d, h, t, t);
    else if (n == 2)
        bin(d, h, t, t, t);
    else
        tri(d, h, t, t, t, t);
    return 0;
}

static void carry(struct sg_dec *d, unsigned sub, bool in, bool three)
{
    struct sg_op *op = slow(d, sg_carry, sub, three ? 3 : 2);
    op->imm = (in ? SG_CC_IN : 0) | (ptx_has(d->i, PTX_M_CC) ? SG_CC_OUT : 0);
}

static void int_x2(struct sg_dec *d, unsigned kind)
{
    struct sg_op *op = slow(d, sg_odd_int, SG_I_X2, 2);
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
            return unsupported(d);
        int_x2(d, SG_S_ADD);
    } else if (ptx_has(i, PTX_M_SAT)) {
        bin(d, minus ? SG_H_SUBSAT_s32 : SG_H_ADDSAT_s32, t, t, t);
    } else {
        bin(d, minus ? sub[w3(t)] : add[w3(t)], t, t, t);
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
        bin(d, wide[s][w3(t)], twice(t), t, t);
    else
        bin(d, ptx_has(i, PTX_M_HI) ? hi[s][w3(t)] : lo[w3(t)], t, t, t);
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
        tri(d, wide[s][w3(t)], twice(t), t, t, twice(t));
    else if (h && ptx_has(i, PTX_M_SAT))
        tri(d, SG_H_MADHISAT_s32, t, t, t, t);
    else
        tri(d, h ? hi[s][w3(t)] : lo[w3(t)], t, t, t, t);
    return 0;
}

static int mul24(struct sg_dec *d)
{
    static const uint16_t mulh[2][2] = {{SG_H_MUL24LO_u32, SG_H_MUL24HI_u32}, {SG_H_MUL24LO_s32, SG_H_MUL24HI_s32}};
    static const uint16_t madh[2][2] = {{SG_H_MAD24LO_u32, SG_H_MAD24HI_u32}, {SG_H_MAD24LO_s32, SG_H_MAD24HI_s32}};
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    bool s = ptx_type_is_signed(t), hi = ptx_has(d->i, PTX_M_HI);
    if (d->i->op == PTX_OP_MUL24)
        bin(d, mulh[s][hi], t, t, t);
    else
        tri(d, ptx_has(d->i, PTX_M_SAT) ? SG_H_MAD24HISAT_s32 : madh[s][hi], t, t, t, t);
    return 0;
}

static int minmax(struct sg_dec *d)
{
    static const uint16_t mn[2][3] = {W3(MIN), S3(MIN)}, mx[2][3] = {W3(MAX), S3(MAX)};
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    bool max = d->i->op == PTX_OP_MAX;
    if (ptx_type_is_float(t)) {
        if (d->i->nopnd > 3) {
            slow(d, sg_slow_float, max ? SG_S_MAX3 : SG_S_MIN3, 3);
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
        struct sg_op *op = bin(d, max ? SG_H_MAX_s32 : SG_H_MIN_s32, t, t, t);
        uint32_t dst = op->d, zero = sg_konst(d, 0, false);
        put(d, SG_H_MAX_s32, dst, dst, zero);
        return 0;
    }
    bin(d, (max ? mx : mn)[ptx_type_is_signed(t)][w3(t)], t, t, t);
    return 0;
}

static int divide(struct sg_dec *d)
{
    static const uint16_t dv[2][3] = {W3(DIV), S3(DIV)}, rm[2][3] = {W3(REM), S3(REM)};
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    if (!ptx_type_is_float(t)) {
        bin(d, (d->i->op == PTX_OP_REM ? rm : dv)[ptx_type_is_signed(t)][w3(t)], t, t, t);
        return 0;
    }
    enum ptx_mod m = ptx_mod_of(d->i, PTX_MC_APPROX);
    if (m == PTX_M_NONE)
        return float_op(d, SG_H_FDIV_f32, SG_H_FDIV_z32, SG_H_FDIV_f64, SG_S_DIV, 2);
    slow(d, sg_slow_float, SG_S_DIV, 2)->imm = m == PTX_M_FULL ? 2 : 1;
    return 0;
}

/* rcp sqrt rsqrt ex2 and the other functions of one value */
static int function(struct sg_dec *d)
{
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    bool approx = ptx_has(d->i, PTX_M_APPROX);
    switch (d->i->op) {
    case PTX_OP_RCP:
        if (t == PTX_F64 && approx) {
            slow(d, sg_slow_float, SG_S_RCP, 1)->imm = 1;
            return 0;
        }
        return float_op(d, SG_H_RCP_f32, SG_H_RCP_z32, SG_H_RCP_f64, SG_S_RCP, 1);
    case PTX_OP_SQRT: return float_op(d, SG_H_SQRT_f32, SG_H_SQRT_z32, SG_H_SQRT_f64, SG_S_SQRT, 1);
    case PTX_OP_EX2:
        if (t == PTX_F32)
            return float_op(d, SG_H_EX2_f32, SG_H_EX2_z32, 0, SG_S_EX2, 1);
        slow(d, sg_slow_float, SG_S_EX2, 1);
        return 0;
    case PTX_OP_RSQRT: slow(d, sg_slow_float, SG_S_RSQRT, 1)->imm = t == PTX_F64 && ptx_has(d->i, PTX_M_FTZ); return 0;
    case PTX_OP_SIN: slow(d, sg_slow_float, SG_S_SIN, 1); return 0;
    case PTX_OP_COS: slow(d, sg_slow_float, SG_S_COS, 1); return 0;
    case PTX_OP_LG2: slow(d, sg_slow_float, SG_S_LG2, 1); return 0;
    default: slow(d, sg_slow_float, SG_S_TANH, 1); return 0;
    }
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */
/* The lane loop for a comparison of type t; 0: none. */
static unsigned compare(enum ptx_mod m, enum ptx_type t, bool ftz)
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
    case PTX_M_EQ: return eq[w3(t)];
    case PTX_M_NE: return ne[w3(t)];
    case PTX_M_LT:
    case PTX_M_LO: return order[s][w3(t)][0];
    case PTX_M_LE:
    case PTX_M_LS: return order[s][w3(t)][1];
    case PTX_M_GT:
    case PTX_M_HI: return order[s][w3(t)][2];
    case PTX_M_GE:
    case PTX_M_HS: return order[s][w3(t)][3];
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
    unsigned h = compare(m, half ? PTX_F32 : t, ftz && !half);
    if (!h || t == PTX_F16X2 || t == PTX_BF16X2)
        return unsupported(d);
    uint32_t x = half ? as_f32(d, &i->opnd[first], t, ftz) : sg_source(d, &i->opnd[first], t);
    uint32_t y = half ? as_f32(d, &i->opnd[first + 1], t, ftz) : sg_source(d, &i->opnd[first + 1], t), c = 0;
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

/* setp.cmp{.bool}.f16x2 p|q, a, b{, c}: p is about the low halves, q about the high ones */
static int setp_x2(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    enum ptx_mod b = ptx_mod_of(i, PTX_MC_BOOL);
    unsigned h = compare(ptx_mod_of(i, PTX_MC_CMP), PTX_F32, false);
    bool neg = false;
    if (!h || !i->dst2 || i->nopnd != (b == PTX_M_NONE ? 4 : 5))
        return unsupported(d);
    uint32_t s[2] = {sg_source(d, &i->opnd[2], PTX_B32), sg_source(d, &i->opnd[3], PTX_B32)};
    uint32_t p[2] = {sg_pred_dest(d, &i->opnd[0]), sg_pred_dest(d, &i->opnd[1])},
             c = b == PTX_M_NONE ? 0 : sg_pred(d, &i->opnd[4], &neg);
    for (unsigned k = 0; k < 2; k++) {
        unsigned hi = b != PTX_M_NONE && c == p[0] ? !k : k; /* c may be a destination: that one last */
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
    unsigned h = compare(ptx_mod_of(i, PTX_MC_CMP), PTX_F32, false);
    bool neg = false;
    if (!h || i->nopnd != (b == PTX_M_NONE ? 3 : 4) || (ptx_type_is_float(to) && to != i->type[1]))
        return unsupported(d);
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
    put(d, SG_H_PACK_u32, dst, r[0], r[1]);
    return 0;
}

static int set(struct sg_dec *d)
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

/* ---- logic ------------------------------------------------------------------------------------------------------- */
static int logic(struct sg_dec *d)
{
    static const uint16_t h[3][3] = {W3(AND), W3(OR), W3(XOR)};
    const struct ptx_inst *i = d->i;
    enum ptx_type t = (enum ptx_type)i->type[0];
    unsigned k = i->op == PTX_OP_AND ? 0 : i->op == PTX_OP_OR ? 1 : 2;
    if (t != PTX_PRED) {
        bin(d, h[k][w3(t)], t, t, t);
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
        un(d, i->op == PTX_OP_NOT ? nt[w3(t)] : cn[w3(t)], t, t);
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
    tri(d, SG_H_LOP3, PTX_B32, PTX_B32, PTX_B32, PTX_B32)->imm = (int64_t)i->opnd[4].bits;
    return 0;
}

static int shift(struct sg_dec *d)
{
    static const uint16_t shl[3] = W3(SHL), shr[2][3] = {W3(SHR), S3(SHR)};
    static const uint16_t shf[2][2] = {{SG_H_SHF_L_CLAMP, SG_H_SHF_L_WRAP}, {SG_H_SHF_R_CLAMP, SG_H_SHF_R_WRAP}};
    enum ptx_type t = (enum ptx_type)d->i->type[0];
    if (d->i->op == PTX_OP_SHF)
        tri(d, shf[ptx_has(d->i, PTX_M_R)][ptx_has(d->i, PTX_M_WRAP)], t, t, t, PTX_U32);
    else
        bin(d, d->i->op == PTX_OP_SHL ? shl[w3(t)] : shr[ptx_type_is_signed(t)][w3(t)], t, t, PTX_U32);
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
    tri(d, mode ? SG_H_PRMT_MODE : SG_H_PRMT, PTX_B32, PTX_B32, PTX_B32, PTX_U32)->sub = (uint8_t)mode;
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
    case PTX_OP_POPC: un(d, popc[w], PTX_U32, t); return 0;
    case PTX_OP_CLZ: un(d, clz[w], PTX_U32, t); return 0;
    case PTX_OP_BREV: un(d, brev[w], t, t); return 0;
    case PTX_OP_BFIND: un(d, find[ptx_has(i, PTX_M_SHIFTAMT)][s][w], PTX_U32, t); return 0;
    case PTX_OP_BFE: tri(d, bfe[s][w], t, t, PTX_U32, PTX_U32); return 0;
    case PTX_OP_SZEXT: bin(d, szext[s][ptx_has(i, PTX_M_WRAP)], t, t, PTX_U32); return 0;
    case PTX_OP_BMSK: bin(d, ptx_has(i, PTX_M_WRAP) ? SG_H_BMSK_WRAP : SG_H_BMSK_CLAMP, t, PTX_U32, PTX_U32); return 0;
    case PTX_OP_FNS: slow(d, sg_odd_int, SG_I_FNS, 3); return 0;
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

static int dot(struct sg_dec *d)
{
    static const uint16_t h[2][2] = {{SG_H_DP4A_uu, SG_H_DP4A_us}, {SG_H_DP4A_su, SG_H_DP4A_ss}};
    const struct ptx_inst *i = d->i;
    bool sa = ptx_type_is_signed((enum ptx_type)i->type[0]), sb = ptx_type_is_signed((enum ptx_type)i->type[1]);
    if (i->op == PTX_OP_DP4A)
        tri(d, h[sa][sb], PTX_U32, PTX_U32, PTX_U32, PTX_U32);
    else
        slow(d, sg_odd_int, SG_I_DP2A, 3)->imm = (sa ? 1 : 0) | (sb ? 2 : 0) | (ptx_has(i, PTX_M_HI) ? 4 : 0);
    return 0;
}

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

static int unpack(struct sg_dec *d, enum ptx_type t)
{
    const struct ptx_opnd *to = &d->i->opnd[0];
    unsigned bytes = ptx_type_bytes(t), piece = to->n ? bytes / to->n : 0;
    if ((to->n != 2 && to->n != 4) || !piece || piece > 8)
        return unsupported(d);
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

static uint32_t join(struct sg_dec *d, unsigned bytes, uint32_t lo, uint32_t hi, uint32_t to)
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
        return unsupported(d);
    uint32_t s[4];
    for (unsigned e = 0; e < from->n; e++)
        s[e] = sg_source(d, &from->elem[e], piece_type(piece));
    uint32_t dst = sg_dest(d, &d->i->opnd[0], t);
    if (from->n == 4) {
        s[0] = join(d, bytes / 2, s[0], s[1], sg_temp(d));
        s[1] = join(d, bytes / 2, s[2], s[3], sg_temp(d));
    }
    join(d, bytes, s[0], s[1], dst);
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
        return unpack(d, t);
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
        return unsupported(d);
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
    unsigned rnd = rounding(i);
    if ((to == PTX_F16X2 || to == PTX_BF16X2) && from == PTX_F32 && i->nopnd == 3) {
        struct sg_op *op = bin(d, SG_H_MOV_u32, to, PTX_F32, PTX_F32);
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
        return unsupported(d);
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
        return unsupported(d);
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
        return unsupported(d);
    if (ptx_has(d->i, PTX_M_FTZ)) { /* c + -0: a subnormal becomes a zero */
        uint32_t from = sg_source(d, &d->i->opnd[3], c), minus = sg_konst(d, 0x80000000, false), z = sg_temp(d);
        put(d, SG_H_FADD_z32, z, from, minus);
        bin(d, w ? SG_H_SLCT_u64_f32 : SG_H_SLCT_u32_f32, t, t, t)->c = z;
        return 0;
    }
    tri(d, c == PTX_S32 ? (w ? SG_H_SLCT_u64_s32 : SG_H_SLCT_u32_s32) : (w ? SG_H_SLCT_u64_f32 : SG_H_SLCT_u32_f32), t,
        t, t, c);
    return 0;
}

int sg_decode_inst(struct sg_dec *d)
{
    static const uint16_t sad[2][3] = {W3(SAD), S3(SAD)}, iabs[3] = S3(ABS), ineg[3] = S3(NEG);
    const struct ptx_inst *i = d->i;
    enum ptx_type t = i->ntype ? (enum ptx_type)i->type[0] : PTX_T_NONE;
    switch (i->op) {
    case PTX_OP_MOV: return mov(d);
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
    case PTX_OP_SAD: tri(d, sad[ptx_type_is_signed(t)][w3(t)], t, t, t, t); return 0;
    case PTX_OP_DIV:
    case PTX_OP_REM: return divide(d);
    case PTX_OP_ABS:
        if (ptx_type_is_float(t))
            return float_op(d, SG_H_FABS_f32, SG_H_FABS_z32, SG_H_FABS_f64, SG_S_ABS, 1);
        un(d, iabs[w3(t)], t, t);
        return 0;
    case PTX_OP_NEG:
        if (ptx_type_is_float(t))
            return float_op(d, SG_H_FNEG_f32, SG_H_FNEG_z32, SG_H_FNEG_f64, SG_S_NEG, 1);
        un(d, ineg[w3(t)], t, t);
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
    case PTX_OP_COPYSIGN: bin(d, t == PTX_F64 ? SG_H_COPYSIGN_f64 : SG_H_COPYSIGN_f32, t, t, t); return 0;
    case PTX_OP_TESTP: return testp(d);
    case PTX_OP_SETP: {
        if (t == PTX_F16X2 || t == PTX_BF16X2)
            return setp_x2(d);
        uint32_t p = sg_pred_dest(d, &i->opnd[0]), q = i->dst2 ? sg_pred_dest(d, &i->opnd[1]) : SG_NONE;
        return comparison(d, t, i->dst2 ? 2 : 1, p, q);
    }
    case PTX_OP_SET: return set(d);
    case PTX_OP_SELP: return selp(d);
    case PTX_OP_SLCT: return slct(d);
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
    case PTX_OP_DP4A:
    case PTX_OP_DP2A: return dot(d);
    case PTX_OP_CVT: return cvt(d);
    case PTX_OP_CVT_PACK: return cvt_pack(d);
    default: return ptx_video_lanes(i->op) ? sg_decode_video(d) : sg_decode_memory(d);
    }
}
