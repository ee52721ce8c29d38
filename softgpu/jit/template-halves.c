/* Arithmetic of f16 and bf16 and of pairs of them as machine code: the bits of exec/half.h, 16 lanes at a time.
 *
 * A half becomes an f32, which is exact, is computed with there, and is rounded to the nearest half. The f32 that fma
 * makes is rounded to odd, so that rounding twice gives what rounding once does: the sum rounded down differs from the
 * sum rounded up where it is not exact, and there the last place of the sum rounded to zero is set. An f32 has 13
 * digits more than an f16 and 16 more than a bf16, and reaches as far as a bf16, subnormals included.
 *
 * The smaller and the greater of halves are found as words of 16 bits: bits that are ordered as their numbers are
 * (sg_half_key).
 */
#include "softgpu/jit/template-priv.h"

enum { DOWN = 1, UP, ZERO, NEAREST_EVEN = 0, SELECT_KEY = 0x6C /* b ^ (a & c) */, NEQ_UQ = 4 };

static struct sg_x86_mem spare(unsigned i) { return SG_AT(RSP, SPARE_AT + 64 * i); }

/* The halves of register s, the lower ones of pairs or the upper ones, as f32 in t. */
static void half_value(struct template *m, unsigned t, unsigned s, unsigned how, bool upper)
{
    struct sg_x86 *x = &m->x;
    if (how & SG_BF16) {
        if (upper)
            sg_x86_vmb(x, V_AND32, t, s, TABLE(high16), -1);
        else
            sg_x86_v(x, V_SHI32, SHI_SHL, t, s, 16);
        return;
    }
    if (!(how & SG_PAIR)) {
        sg_x86_v(x, V_LOW16, s, 0, t, -1);
        s = t;
    } else if (upper) {
        sg_x86_v(x, V_UPPER, s, 0, t, 1);
        s = t;
    }
    sg_x86_v(x, V_PS_H, t, 0, s, -1);
}

/* The f32 in register t to halves: of f16 the lower half of t, of bf16 in the low words of its lanes. more: used. */
static void half_round(struct template *m, unsigned t, unsigned more, unsigned how)
{
    struct sg_x86 *x = &m->x;
    sg_x86_v(x, V_CMPPS, 7, t, t, SG_FCMP_UNORD);
    sg_x86_vmk(x, V_SPREAD32, t, 0, how & SG_BF16 ? TABLE(nan_bf16) : TABLE(nan32), -1, 7, false, false);
    if (!(how & SG_BF16)) {
        sg_x86_v(x, V_H_PS, t, 0, t, NEAREST_EVEN);
        return;
    }
    sg_x86_v(x, V_SHI32, SHI_SHR, more, t, 16);
    sg_x86_vmb(x, V_AND32, more, more, TABLE(one), -1);
    sg_x86_v(x, V_ADD32, t, t, more, -1);
    sg_x86_vmb(x, V_ADD32, t, t, TABLE(below_half), -1);
    sg_x86_v(x, V_SHI32, SHI_SHR, t, t, 16);
}

void sg_template_half_of(struct template *m, unsigned t, unsigned more, unsigned how)
{
    half_round(m, t, more, how);
    if (!(how & SG_BF16))
        sg_x86_v(&m->x, V_ZX16, t, 0, t, -1);
}

/* One f32 operation in T0, of up to three registers with halves. T1 to ZNAN are used. */
static void half_compute(struct template *m, const unsigned s[3], const struct sg_template_way *y, bool upper)
{
    struct sg_x86 *x = &m->x;
    half_value(m, T0, s[0], y->imm, upper);
    half_value(m, T1, s[1], y->imm, upper);
    if (y->form == HALF) {
        sg_x86_v(x, (enum sg_x86_v)y->v, T0, T0, T1, -1);
        return;
    }
    half_value(m, T2, s[2], y->imm, upper);
    for (unsigned round = DOWN; round <= UP; round++) {
        sg_x86_v(x, V_LOAD32, ZNAN, 0, T2, -1);
        sg_x86_vround(x, V_FMA231PS, ZNAN, T0, T1, round);
        if (round == DOWN)
            sg_x86_vm(x, V_STOREU32, ZNAN, 0, spare(0), -1);
        else
            sg_x86_vm(x, V_CMPPS, 7, ZNAN, spare(0), NEQ_UQ);
    }
    sg_x86_vround(x, V_FMA231PS, T2, T0, T1, ZERO);
    sg_x86_vmk(x, V_OR32, T2, T2, TABLE(one), -1, 7, false, true);
    sg_x86_v(x, V_LOAD32, T0, 0, T2, -1);
}

static void half_arithmetic(struct template *m, const unsigned s[3], const struct sg_template_way *y)
{
    struct sg_x86 *x = &m->x;
    if (y->imm & SG_PAIR) {
        half_compute(m, s, y, true);
        half_round(m, T0, T1, y->imm);
        if (y->imm & SG_BF16)
            sg_x86_v(x, V_SHI32, SHI_SHL, T0, T0, 16);
        sg_x86_vm(x, V_STOREU32, T0, 0, spare(1), -1);
    }
    half_compute(m, s, y, false);
    half_round(m, T0, T1, y->imm);
    if (!(y->imm & SG_PAIR)) {
        if (!(y->imm & SG_BF16))
            sg_x86_v(x, V_ZX16, T0, 0, T0, -1);
    } else if (y->imm & SG_BF16) {
        sg_x86_vm(x, V_OR32, T0, T0, spare(1), -1);
    } else {
        sg_x86_vm(x, V_JOIN, T0, T0, spare(1), 1);
    }
}

/* Words of register s that are NaNs, in mask k; T2 has the infinity. t is used. */
static void half_nan(struct template *m, unsigned k, unsigned s, unsigned t)
{
    sg_x86_vmb(&m->x, V_AND32, t, s, TABLE(magnitude16), -1);
    sg_x86_v(&m->x, V_CMPU16, k, t, T2, CMP_GT);
}

static void half_choose(struct template *m, const unsigned s[3], const struct sg_template_way *y)
{
    struct sg_x86 *x = &m->x;
    for (unsigned i = 0; i < 2; i++) {
        unsigned t = i ? T1 : T0;
        sg_x86_v(x, V_SHI16, SHI_SAR, t, s[i], 15);
        sg_x86_vmb(x, V_TERN32, t, s[i], TABLE(magnitude16), SELECT_KEY);
    }
    sg_x86_v(x, (enum sg_x86_v)y->v, T1, T0, T1, -1);
    sg_x86_v(x, V_SHI16, SHI_SAR, T0, T1, 15);
    sg_x86_vmb(x, V_TERN32, T0, T1, TABLE(magnitude16), SELECT_KEY);
    sg_x86_vm(x, V_SPREAD32, T2, 0, y->imm & SG_BF16 ? TABLE(inf_bf16) : TABLE(inf_f16), -1);
    half_nan(m, 6, s[0], T1);
    half_nan(m, 7, s[1], T1);
    if (y->imm & SG_NAN_WINS) {
        sg_x86_vm(x, V_SPREAD32, T1, 0, TABLE(magnitude16), -1);
        sg_x86_vk(x, V_BLEND16, T0, T0, T1, -1, 6, false);
        sg_x86_vk(x, V_BLEND16, T0, T0, T1, -1, 7, false);
        return;
    }
    sg_x86_vk(x, V_BLEND16, T0, T0, s[1], -1, 6, false);
    sg_x86_vk(x, V_BLEND16, T0, T0, s[0], -1, 7, false);
    half_nan(m, 7, T0, T1);
    sg_x86_vm(x, V_SPREAD32, T1, 0, TABLE(magnitude16), -1);
    sg_x86_vk(x, V_BLEND16, T0, T0, T1, -1, 7, false);
}

static void half_sign(struct template *m, const unsigned s[3], const struct sg_template_way *y)
{
    struct sg_x86 *x = &m->x;
    sg_x86_vm(x, V_SPREAD32, T2, 0, y->imm & SG_BF16 ? TABLE(inf_bf16) : TABLE(inf_f16), -1);
    half_nan(m, 7, s[0], T0);
    if (y->v == V_XOR32)
        sg_x86_vmb(x, V_XOR32, T0, s[0], TABLE(sign16), -1);
    sg_x86_vm(x, V_SPREAD32, T1, 0, TABLE(magnitude16), -1);
    sg_x86_vk(x, V_BLEND16, T0, T0, T1, -1, 7, false);
}

void sg_template_halves(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    const uint32_t ref[3] = {op->a, op->b, op->c};
    unsigned n = y->form == HALF_SIGN ? 1 : y->form == HALF_FMA ? 3 : 2;
    for (unsigned p = 0; p < 2; p++) {
        unsigned s[3] = {0};
        for (unsigned i = 0; i < n; i++)
            s[i] = sg_template_get(m, ref[i], p, true);
        if (y->form == HALF_FMA)
            m->nan = false; /* ZNAN is used */
        if (y->form == HALF_SIGN)
            half_sign(m, s, y);
        else if (y->form == HALF_CHOOSE)
            half_choose(m, s, y);
        else
            half_arithmetic(m, s, y);
        if (!(y->imm & SG_PAIR) && (y->form == HALF_SIGN || y->form == HALF_CHOOSE))
            sg_x86_vmb(&m->x, V_AND32, T0, T0, TABLE(low16), -1);
        sg_template_made(m, op->d, p, NOT_RAW, false);
    }
}
