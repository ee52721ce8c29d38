/* Conversions, rounding to integral values, and float arithmetic of more than one instruction, as machine code: the
 * bits of the rows of exec/lanes.def, which exec/bits.h and exec/convert.h define.
 *
 * The CPU's conversions to integers give one value for all that do not fit, PTX the nearest that does, and for a NaN 0
 * or the top bit alone: what does not fit is put right before or after.
 */
#include "softgpu/jit/template-priv.h"

enum { ROUND_EXACT = 8, HALF_BY_SIGN = 0xF8 /* a | (b & c) */ };

/* Register a, which has f32, rounded as imm of vrndscaleps says, or not: to s32 in d. T1 is used; d is none of them. */
static void to_s32(struct template *m, unsigned d, unsigned a, int imm)
{
    struct sg_x86 *x = &m->x;
    if (imm)
        sg_x86_v(x, V_RNDPS, T1, 0, a, imm);
    else
        sg_x86_v(x, V_LOAD32, T1, 0, a, -1);
    sg_x86_v(x, V_CVT_S_F, d, 0, T1, -1);
    sg_x86_vmk(x, V_CMPPS, 7, T1, TABLE(limit_f), SG_FCMP_GE, 0, false, true);
    sg_x86_vmk(x, V_SPREAD32, d, 0, TABLE(limit_s), -1, 7, false, false);
    sg_x86_v(x, V_CMPPS, 7, T1, T1, SG_FCMP_UNORD);
    sg_x86_vk(x, V_XOR32, d, d, d, -1, 7, false);
}

/* To u32: the greater of a number and 0, of a NaN 0, and what is too large as the CPU has it, all ones. */
static void to_u32(struct template *m, unsigned d, unsigned a, int imm)
{
    struct sg_x86 *x = &m->x;
    if (imm) {
        sg_x86_v(x, V_RNDPS, T2, 0, a, imm);
        a = T2;
    }
    sg_x86_v(x, V_XOR32, T1, T1, T1, -1);
    sg_x86_v(x, V_MAXPS, T1, a, T1, -1);
    sg_x86_v(x, V_CVT_U_F, d, 0, T1, -1);
}

/* f64 of 16 lanes, of which register `half` has 8, to integers of 32 bits: the lower half of d. */
static void from_f64(struct template *m, unsigned d, unsigned half, const struct sg_template_way *y)
{
    struct sg_x86 *x = &m->x;
    if (y->imm) {
        sg_x86_v(x, V_RNDPD, d, 0, half, y->imm);
        half = d;
    }
    if (y->v == V_S_PD) { /* too small, and NaNs: the top bit alone, as the CPU has it */
        sg_x86_vm(x, V_SPREAD64, T0, 0, TABLE(most_s), -1);
        sg_x86_v(x, V_MINPD, d, T0, half, -1);
    } else { /* PTX has the top bit for a NaN, too; the CPU all ones */
        sg_x86_v(x, V_CMPPD, 7, half, half, SG_FCMP_UNORD);
        sg_x86_v(x, V_XOR64, T0, T0, T0, -1);
        sg_x86_v(x, V_MAXPD, d, half, T0, -1);
        sg_x86_vmk(x, V_SPREAD64, d, 0, TABLE(top_bit), -1, 7, false, false);
    }
    sg_x86_v(x, (enum sg_x86_v)y->v, d, 0, d, -1);
}

/* Eight lanes of a piece of 32 bits, from its lower or upper half: what V_PD_PS and the like read. */
static unsigned half_piece(struct template *m, unsigned s, unsigned p)
{
    if (!(p & 1))
        return s;
    sg_x86_v(&m->x, V_UPPER, s, 0, T1, 1);
    return T1;
}

static void to_wide(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    enum raw_kind raw = (enum raw_kind)y->raw;
    for (unsigned p = 0; p < 4; p++) {
        unsigned s = sg_template_get(m, op->a, p / 2, !raw);
        if (y->imm) { /* subnormals are flushed */
            sg_template_flushed(m, T2, s);
            s = T2;
        }
        sg_x86_v(&m->x, (enum sg_x86_v)y->v, T0, 0, half_piece(m, s, p), -1);
        sg_template_made(m, op->d, p, raw, true);
    }
}

static void to_narrow(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    bool floats = y->form == F32_F64 || y->form == Z32_F64;
    for (unsigned p = 0; p < 2; p++) {
        unsigned s[2] = {sg_template_get(m, op->a, 2 * p, false), sg_template_get(m, op->a, 2 * p + 1, false)};
        for (unsigned k = 0; k < 2; k++)
            if (floats)
                sg_x86_v(&m->x, V_PS_PD, T1 + k, 0, s[k], -1);
            else
                from_f64(m, T1 + k, s[k], y);
        sg_x86_v(&m->x, V_JOIN, T0, T1, T2, 1);
        if (y->form == Z32_F64)
            sg_template_flushed(m, T0, T0);
        sg_template_made(m, op->d, p, floats ? RAW32 : NOT_RAW, false);
    }
}

/* Float arithmetic with subnormals flushed, or saturated, or both. */
static void by_steps(struct template *m, const struct sg_op *op, const struct sg_template_way *y, unsigned p)
{
    struct sg_x86 *x = &m->x;
    bool z = y->imm & SG_STEP_FLUSH;
    unsigned a = sg_template_get(m, op->a, p, false), b = 0, c = 0;
    if (y->imm & (SG_STEP_TWO | SG_STEP_THREE))
        b = sg_template_get(m, op->b, p, false);
    if (y->imm & SG_STEP_THREE)
        c = sg_template_get(m, op->c, p, false);
    if (z) {
        sg_template_flushed(m, T1, a);
        a = T1;
        if (y->imm & (SG_STEP_TWO | SG_STEP_THREE))
            sg_template_flushed(m, T2, b), b = T2;
    }
    if (y->imm & SG_STEP_THREE) {
        if (z)
            sg_template_flushed(m, T0, c);
        else
            sg_x86_v(x, V_LOAD32, T0, 0, c, -1);
        sg_x86_v(x, (enum sg_x86_v)y->v, T0, a, b, -1);
    } else if (y->imm & SG_STEP_TWO) {
        sg_x86_v(x, (enum sg_x86_v)y->v, T0, a, b, -1);
    } else if (y->imm & SG_STEP_ONE_BY) {
        sg_x86_vm(x, V_SPREAD32, T0, 0, TABLE(one_f), -1);
        sg_x86_v(x, (enum sg_x86_v)y->v, T0, T0, a, -1);
    } else {
        sg_x86_v(x, (enum sg_x86_v)y->v, T0, 0, a, y->imm & SG_STEP_INTEGRAL ? ROUND_EXACT | (y->imm & 3) : -1);
    }
    if (y->imm & SG_STEP_SATURATE) { /* NaN is not greater than 0 */
        sg_x86_v(x, V_XOR32, T1, T1, T1, -1);
        sg_x86_v(x, V_MAXPS, T0, T0, T1, -1);
        sg_x86_vm(x, V_SPREAD32, T1, 0, TABLE(one_f), -1);
        sg_x86_v(x, V_MINPS, T0, T1, T0, -1);
    }
    if (z && !(y->imm & SG_STEP_INTEGRAL))
        sg_template_flushed(m, T0, T0);
}

/* a / b; where 2^126 < |b| < infinity, 0 with the quotient's sign, or a NaN of an a that is not finite. */
static void quotient(struct template *m, const struct sg_op *op, const struct sg_template_way *y, unsigned p)
{
    struct sg_x86 *x = &m->x;
    unsigned a = sg_template_get(m, op->a, p, false), b = sg_template_get(m, op->b, p, false);
    if (y->imm & SG_STEP_FLUSH) {
        sg_template_flushed(m, T1, a), a = T1;
        sg_template_flushed(m, T2, b), b = T2;
    }
    sg_x86_v(x, V_DIVPS, T0, a, b, -1);
    sg_x86_v(x, V_SUBPS, T1, a, a, -1);
    sg_x86_vmb(x, V_AND32, T2, b, TABLE(magnitude), -1);
    sg_x86_vmb(x, V_CMPU32, 7, T2, TABLE(large_f), CMP_GT);
    sg_x86_vmk(x, V_CMPU32, 7, T2, TABLE(exponent), CMP_LT, 7, false, true);
    sg_x86_vmb(x, V_TERN32, T1, T0, TABLE(sign), HALF_BY_SIGN);
    sg_x86_vk(x, V_BLEND32, T0, T0, T1, -1, 7, false);
    if (y->imm & SG_STEP_FLUSH)
        sg_template_flushed(m, T0, T0);
}

/* f32 from f16 and bf16 and the other way, and from integers of 8 and 16 bits. */
static void small(struct template *m, const struct sg_op *op, const struct sg_template_way *y, unsigned p)
{
    struct sg_x86 *x = &m->x;
    bool from_float = y->form == HALF_F32 || y->form == PAIR_F32;
    unsigned a = sg_template_get(m, op->a, p, !from_float),
             b = y->form == PAIR_F32 ? sg_template_get(m, op->b, p, false) : 0;
    switch (y->form) {
    case F32_HALF:
        if (y->imm & SG_BF16) { /* a NaN that signals would stay one */
            sg_x86_v(x, V_SHI32, SHI_SHL, T0, a, 16);
            sg_x86_v(x, V_CMPPS, 7, T0, T0, SG_FCMP_UNORD);
            sg_x86_vmk(x, V_SPREAD32, T0, 0, TABLE(nan32), -1, 7, false, false);
        } else {
            sg_x86_v(x, V_LOW16, a, 0, T0, -1);
            sg_x86_v(x, V_PS_H, T0, 0, T0, -1);
        }
        return;
    case PAIR_F32:
        sg_x86_v(x, V_LOAD32, T2, 0, a, -1);
        sg_template_half_of(m, T2, T1, y->imm);
        sg_x86_v(x, V_SHI32, SHI_SHL, T2, T2, 16);
        sg_x86_v(x, V_LOAD32, T0, 0, b, -1);
        sg_template_half_of(m, T0, T1, y->imm);
        sg_x86_v(x, V_OR32, T0, T0, T2, -1);
        return;
    case HALF_F32:
        sg_x86_v(x, V_LOAD32, T0, 0, a, -1);
        sg_template_half_of(m, T0, T1, y->imm);
        return;
    default: /* F32_SMALL: imm bits, by their sign or not */
        sg_x86_v(x, V_SHI32, SHI_SHL, T0, a, 32 - (y->imm & 31));
        sg_x86_v(x, V_SHI32, y->imm & SG_SIGN ? SHI_SAR : SHI_SHR, T0, T0, 32 - (y->imm & 31));
        sg_x86_v(x, V_CVT_F_S, T0, 0, T0, -1);
    }
}

void sg_template_convert(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    if (y->form == F64_NARROW) {
        to_wide(m, op, y);
        return;
    }
    if (y->form == F32_F64 || y->form == Z32_F64 || y->form == NARROW_F64) {
        to_narrow(m, op, y);
        return;
    }
    if (y->form == INTEGRAL64) {
        for (unsigned p = 0; p < 4; p++) {
            sg_x86_v(&m->x, V_RNDPD, T0, 0, sg_template_get(m, op->a, p, false), y->imm);
            sg_template_made(m, op->d, p, RAW64, true);
        }
        return;
    }
    for (unsigned p = 0; p < 2; p++) {
        unsigned t;
        switch (y->form) {
        case STEPS: by_steps(m, op, y, p); break;
        case QUOTIENT: quotient(m, op, y, p); break;
        case SIGN_Z: /* neg, abs: a NaN of memory may be a signalling one */
            t = sg_template_quiet(m, T1, op->a, p);
            sg_template_flushed(m, T0, t);
            sg_x86_vmb(&m->x, (enum sg_x86_v)y->v, T0, T0, y->v == V_XOR32 ? TABLE(sign) : TABLE(magnitude), -1);
            break;
        case MINMAX_Z:
            t = sg_template_quiet(m, T1, op->a, p);
            unsigned u = sg_template_quiet(m, T2, op->b, p);
            sg_template_flushed(m, T1, t);
            sg_template_flushed(m, T2, u);
            sg_x86_v(&m->x, V_RANGEPS, T0, T1, T2, y->imm);
            break;
        case S32_F32: to_s32(m, T0, sg_template_get(m, op->a, p, false), y->imm); break;
        case U32_F32: to_u32(m, T0, sg_template_get(m, op->a, p, false), y->imm); break;
        default: small(m, op, y, p);
        }
        sg_template_made(m, op->d, p, (enum raw_kind)y->raw, false);
    }
}
