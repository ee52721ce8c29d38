/* Lane loops (exec/lanes.def) as machine code: the same bits as the C expressions there, a piece of 64 bytes at a time.
 *
 * An operation behind a predicate computes all lanes and merges those whose predicate holds. Results of float
 * arithmetic may have NaNs of the CPU's own ("raw", template-rows.c). What is not here is done by its handler.
 */
#include "softgpu/jit/template-priv.h"

bool sg_template_knows(const struct sg_op *op, int h)
{
    if (h >= SG_H_LD_GLOBAL_8 && h <= SG_H_ST_SHARED_64)
        return sg_template_access(NULL, op, h);
    if (h == SG_H_SHFL && op->fn == sg_guarded)
        return false; /* not all lanes may be there */
    return sg_template_ways[h].form != NOTHING;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */
static bool known_source(const struct sg_template_way *y) { return !y->raw; } /* its sources are looked at as bits */

static void binary(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    bool bits = known_source(y);
    for (unsigned p = 0; p < (y->wide ? 4u : 2u); p++) {
        unsigned a = sg_template_get(m, op->a, p, bits);
        struct operand b = sg_template_operand(m, op->b, p, bits);
        unsigned d = sg_template_to(m, op->d, p, (enum raw_kind)y->raw);
        sg_template_op(m, (enum sg_x86_v)y->v, d, a, &b, -1);
        if (y->form == BIN16)
            sg_x86_vmb(&m->x, V_AND32, d, d, TABLE(low16), -1);
        sg_template_done(m, op->d, p, (enum raw_kind)y->raw, y->wide);
    }
}

static void unary(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    bool bits = known_source(y);
    for (unsigned p = 0; p < (y->wide ? 4u : 2u); p++) {
        struct operand a = sg_template_operand(m, op->a, p, bits);
        unsigned d = sg_template_to(m, op->d, p, (enum raw_kind)y->raw);
        sg_template_op(m, (enum sg_x86_v)y->v, d, 0, &a, -1);
        sg_template_done(m, op->d, p, (enum raw_kind)y->raw, y->wide);
    }
}

static void with_constant(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    for (unsigned p = 0; p < (y->wide ? 4u : 2u); p++) {
        unsigned a = sg_template_get(m, op->a, p, true), d = sg_template_to(m, op->d, p, NOT_RAW);
        sg_x86_vmb(&m->x, (enum sg_x86_v)y->v, d, a, SG_AT(R13, y->imm), -1);
        sg_template_done(m, op->d, p, NOT_RAW, y->wide);
    }
}

static void flushed_binary(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    for (unsigned p = 0; p < 2; p++) {
        sg_template_flushed(m, T1, sg_template_get(m, op->a, p, false));
        sg_template_flushed(m, T2, sg_template_get(m, op->b, p, false));
        unsigned d = sg_template_to(m, op->d, p, RAW32);
        sg_x86_v(&m->x, (enum sg_x86_v)y->v, d, T1, T2, -1);
        sg_template_flushed(m, d, d);
        sg_template_done(m, op->d, p, RAW32, false);
    }
}

static void fma_flushed(struct template *m, const struct sg_op *op)
{
    for (unsigned p = 0; p < 2; p++) {
        sg_template_flushed(m, T1, sg_template_get(m, op->a, p, false));
        sg_template_flushed(m, T2, sg_template_get(m, op->b, p, false));
        sg_template_flushed(m, T0, sg_template_get(m, op->c, p, false));
        sg_x86_v(&m->x, V_FMA231PS, T0, T1, T2, -1);
        sg_template_flushed(m, T0, T0);
        if (!m->guard)
            sg_x86_v(&m->x, V_LOAD32, sg_template_out(m, op->d, p, RAW32, false), 0, T0, -1);
        sg_template_done(m, op->d, p, RAW32, false);
    }
}

/* d = a b + c: where c is d it stays in its register. */
static void multiply_add(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    for (unsigned p = 0; p < (y->wide ? 4u : 2u); p++) {
        uint32_t a = op->a, b = op->b;
        enum raw_kind raw = (enum raw_kind)y->raw;
        if (!sg_template_near(m, a, p) && sg_template_near(m, b, p))
            a = op->b, b = op->a;
        unsigned x = sg_template_get(m, a, p, false), d = T0;
        struct operand times = sg_template_operand(m, b, p, false);
        if (op->d == op->c && !m->guard) {
            d = sg_template_out(m, op->d, p, raw, true);
        } else {
            bool apart = !m->guard && op->d != op->a && op->d != op->b;
            if (!apart || op->c == op->a || op->c == op->b || !sg_template_become(m, op->c, op->d, p, raw, &d)) {
                struct operand c = sg_template_operand(m, op->c, p, false);
                if (apart)
                    d = sg_template_out(m, op->d, p, raw, false);
                sg_template_op(m, V_LOADU32, d, 0, &c, -1);
            }
        }
        sg_template_op(m, (enum sg_x86_v)y->v, d, x, &times, -1);
        if (!m->guard && d == T0)
            sg_x86_v(&m->x, V_LOAD32, sg_template_out(m, op->d, p, raw, false), 0, T0, -1);
        sg_template_done(m, op->d, p, raw, y->wide);
    }
}

static void lane_rounded(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    for (unsigned p = 0; p < 2; p++) {
        unsigned a = sg_template_get(m, op->a, p, false), b = sg_template_get(m, op->b, p, false), d;
        if (y->form == FMA_ROUND) {
            sg_x86_v(&m->x, V_LOAD32, T0, 0, sg_template_get(m, op->c, p, false), -1);
            sg_x86_vround(&m->x, (enum sg_x86_v)y->v, T0, a, b, y->imm);
            if (!m->guard)
                sg_x86_v(&m->x, V_LOAD32, sg_template_out(m, op->d, p, RAW32, false), 0, T0, -1);
        } else {
            d = sg_template_to(m, op->d, p, RAW32);
            sg_x86_vround(&m->x, (enum sg_x86_v)y->v, d, a, b, y->imm);
        }
        sg_template_done(m, op->d, p, RAW32, false);
    }
}

static void lane_lop3(struct template *m, const struct sg_op *op)
{
    for (unsigned p = 0; p < 2; p++) {
        unsigned a = sg_template_get(m, op->a, p, true), b = sg_template_get(m, op->b, p, true),
                 c = sg_template_get(m, op->c, p, true);
        sg_x86_v(&m->x, V_LOAD32, T0, 0, a, -1);
        sg_x86_v(&m->x, V_TERN32, T0, b, c, (int)(op->imm & 0xFF));
        if (!m->guard)
            sg_x86_v(&m->x, V_LOAD32, sg_template_out(m, op->d, p, NOT_RAW, false), 0, T0, -1);
        sg_template_done(m, op->d, p, NOT_RAW, false);
    }
}

static void reciprocal(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    for (unsigned p = 0; p < (y->wide ? 4u : 2u); p++) {
        unsigned a = sg_template_get(m, op->a, p, false), d = sg_template_to(m, op->d, p, (enum raw_kind)y->raw);
        sg_x86_vm(&m->x, y->wide ? V_SPREAD64 : V_SPREAD32, T1, 0, SG_AT(R13, y->imm), -1);
        sg_x86_v(&m->x, (enum sg_x86_v)y->v, d, T1, a, -1);
        sg_template_done(m, op->d, p, (enum raw_kind)y->raw, y->wide);
    }
}

static void lane_minmax(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    for (unsigned p = 0; p < 2; p++) {
        unsigned a = sg_template_quiet(m, T1, op->a, p), b = sg_template_quiet(m, T2, op->b, p),
                 d = sg_template_to(m, op->d, p, RAW32);
        sg_x86_v(&m->x, V_RANGEPS, d, a, b, y->imm);
        sg_template_done(m, op->d, p, RAW32, false);
    }
}

/* v d, a, (piece of ref), looked at as bits; d is a temporary. */
static void with(struct template *m, enum sg_x86_v v, unsigned d, unsigned a, uint32_t ref, unsigned p)
{
    struct operand b = sg_template_operand(m, ref, p, true);
    sg_template_op(m, v, d, a, &b, -1);
}

/* ---- predicates -------------------------------------------------------------------------------------------------- */
/* Predicate ref in register r, negated or not. */
static void predicate(struct template *m, unsigned r, uint32_t ref, bool negated)
{
    sg_x86_load(&m->x, r, sg_template_scalar(m, ref), false);
    if (negated)
        sg_x86_not(&m->x, r);
}

/* The lanes that the operation is for, in register r. */
static void guard_lanes(struct template *m, unsigned r, const struct sg_op *op)
{
    struct sg_x86_mem mask = SG_AT(RBX, offsetof(struct sg_warp, mask));
    if (op->fn == sg_guarded) {
        predicate(m, r, op->guard, op->flags & SG_GUARD_NOT);
        if (m->masked)
            sg_x86_alu_mem(&m->x, X_AND, r, mask, false);
    } else {
        sg_x86_load(&m->x, r, mask, false);
    }
}

/* The same for a row: where no living lane is left out, dead ones are computed as well, as the interpreter does. */
static void row_lanes(struct template *m, unsigned r, const struct sg_op *op)
{
    size_t less = 0;
    bool guarded = op->fn == sg_guarded;
    if (guarded)
        guard_lanes(m, r, op);
    if (!m->masked)
        return;
    if (guarded) {
        sg_x86_alu_mem(&m->x, X_CMP, r, SG_AT(RBX, offsetof(struct sg_warp, mask)), false);
        less = sg_x86_jcc(&m->x, CC_NE);
    }
    sg_x86_load(&m->x, r, SG_AT(RSP, ROWS_AT), false);
    if (guarded)
        sg_x86_here(&m->x, less);
}

/* Register r to predicate ref, for the lanes of the guard, which is in rdx. */
static void put_predicate(struct template *m, const struct sg_op *op, uint32_t ref, unsigned r)
{
    struct sg_x86_mem at = sg_template_scalar(m, ref);
    if (m->guard) {
        guard_lanes(m, RDX, op);
        sg_x86_alu(&m->x, X_AND, r, RDX, false);
        sg_x86_not(&m->x, RDX);
        sg_x86_alu_mem(&m->x, X_AND, RDX, at, false);
        sg_x86_alu(&m->x, X_OR, r, RDX, false);
    }
    sg_x86_store(&m->x, at, r, false);
}

static void lane_compare(struct template *m, const struct sg_op *op, const struct sg_template_way *y)
{
    unsigned n = y->wide ? 4 : 2;
    bool bits = known_source(y);
    for (unsigned p = 0; p < n; p++) {
        unsigned a = sg_template_get(m, op->a, p, bits);
        if (y->form == COMPARE_Z) {
            sg_template_flushed(m, T1, a);
            sg_template_flushed(m, T2, sg_template_get(m, op->b, p, false));
            sg_x86_v(&m->x, (enum sg_x86_v)y->v, 3 + p, T1, T2, y->imm);
        } else {
            struct operand b = sg_template_operand(m, op->b, p, bits);
            sg_template_op(m, (enum sg_x86_v)y->v, 3 + p, a, &b, y->imm);
        }
    }
    sg_x86_k_to(&m->x, RCX, 3, false);
    for (unsigned p = 1; p < n; p++) {
        sg_x86_k_to(&m->x, RAX, 3 + p, false);
        sg_x86_shl(&m->x, RAX, 32 / n * p);
        sg_x86_alu(&m->x, X_OR, RCX, RAX, false);
    }
    if (op->flags & SG_HAS_Q) {
        sg_x86_mov(&m->x, RSI, RCX, false);
        sg_x86_not(&m->x, RSI);
    }
    if (op->sub) {
        enum sg_x86_alu how = op->sub == 1 ? X_AND : op->sub == 2 ? X_OR : X_XOR;
        predicate(m, RDI, op->c, op->flags & SG_C_NOT);
        sg_x86_alu(&m->x, how, RCX, RDI, false);
        if (op->flags & SG_HAS_Q)
            sg_x86_alu(&m->x, how, RSI, RDI, false);
    }
    /* as the interpreter: the guard is read before, and d may be it */
    if (m->guard && op->flags & SG_HAS_Q) {
        guard_lanes(m, R8, op);
        put_predicate(m, op, op->d, RCX);
        struct sg_x86_mem at = sg_template_scalar(m, op->x);
        sg_x86_alu(&m->x, X_AND, RSI, R8, false);
        sg_x86_not(&m->x, R8);
        sg_x86_alu_mem(&m->x, X_AND, R8, at, false);
        sg_x86_alu(&m->x, X_OR, RSI, R8, false);
        sg_x86_store(&m->x, at, RSI, false);
        return;
    }
    put_predicate(m, op, op->d, RCX);
    if (op->flags & SG_HAS_Q)
        put_predicate(m, op, op->x, RSI);
}

static void of_predicates(struct template *m, const struct sg_op *op, int h)
{
    predicate(m, RCX, op->a, op->flags & SG_SIGNED);
    if (h == SG_H_PNOT)
        sg_x86_not(&m->x, RCX);
    if (h == SG_H_PAND || h == SG_H_POR || h == SG_H_PXOR) {
        predicate(m, RSI, op->b, op->flags & SG_C_NOT);
        sg_x86_alu(&m->x, h == SG_H_PAND ? X_AND : h == SG_H_POR ? X_OR : X_XOR, RCX, RSI, false);
    }
    put_predicate(m, op, op->d, RCX);
}

/* The lanes in rcx as masks k<first> …, one for each piece. */
static void masks(struct template *m, unsigned first, bool wide)
{
    sg_x86_k_from(&m->x, first, RCX, true);
    for (unsigned p = 1; p < (wide ? 4u : 2u); p++)
        sg_x86_k_shr(&m->x, first + p, first, (wide ? 8 : 16) * p);
}

static void lane_choose(struct template *m, const struct sg_op *op, bool wide)
{
    predicate(m, RCX, op->c, op->flags & SG_C_NOT);
    masks(m, m->guard ? 5 : 1, wide && !m->guard);
    for (unsigned p = 0; p < (wide ? 4u : 2u); p++) {
        unsigned k = m->guard ? 5 : 1 + p;
        if (m->guard && p) { /* k1 to k4 are the guard's */
            sg_x86_k_from(&m->x, 5, RCX, true);
            sg_x86_k_shr(&m->x, 5, 5, (wide ? 8 : 16) * p);
        }
        unsigned a = sg_template_get(m, op->a, p, true), b = sg_template_get(m, op->b, p, true),
                 d = sg_template_to(m, op->d, p, NOT_RAW);
        sg_x86_vk(&m->x, wide ? V_BLEND64 : V_BLEND32, d, b, a, -1, k, false);
        sg_template_done(m, op->d, p, NOT_RAW, wide);
    }
}

/* ---- widths ------------------------------------------------------------------------------------------------------ */
/* Eight lanes of a 32-bit row as 64 bits: piece p of the wide row, in register t. */
static void widen(struct template *m, unsigned t, uint32_t ref, unsigned p, bool sign)
{
    enum sg_x86_v v = sign ? V_SX : V_ZX;
    if (!sg_template_near(m, ref, p / 2)) {
        struct sg_x86_mem at = sg_template_place(m, sg_template_key(ref, p / 2));
        at.disp += (int32_t)(p & 1) * 32;
        sg_x86_vm(&m->x, v, t, 0, at, -1);
        return;
    }
    unsigned s = sg_template_get(m, ref, p / 2, true);
    if (p & 1) {
        sg_x86_v(&m->x, V_UPPER, s, 0, t, 1);
        s = t;
    }
    sg_x86_v(&m->x, v, t, 0, s, -1);
}

/* Piece p of a 32-bit row from the low halves of registers a and b, or their high ones. */
static void lane_narrow(struct template *m, unsigned d, uint32_t ref, unsigned p, bool high)
{
    for (unsigned k = 0; k < 2; k++) {
        unsigned s = sg_template_get(m, ref, 2 * p + k, true), t = k ? T2 : T1;
        if (high) {
            sg_x86_v(&m->x, V_SHI64, SHI_SHR, t, s, 32);
            s = t;
        }
        sg_x86_v(&m->x, V_LOW, s, 0, t, -1);
    }
    sg_x86_v(&m->x, V_JOIN, d, T1, T2, 1);
}

static void wide_one(struct template *m, const struct sg_op *op, int h, unsigned p, unsigned d)
{
    struct sg_x86 *x = &m->x;
    switch (h) {
    case SG_H_ZX_u64:
    case SG_H_SX_u64: widen(m, d, op->a, p, h == SG_H_SX_u64); return;
    case SG_H_MULW_u32:
    case SG_H_MULW_s32:
    case SG_H_MADW_u32:
    case SG_H_MADW_s32: {
        bool sign = h == SG_H_MULW_s32 || h == SG_H_MADW_s32, sum = h == SG_H_MADW_u32 || h == SG_H_MADW_s32;
        widen(m, T1, op->a, p, false);
        widen(m, T2, op->b, p, false);
        sg_x86_v(x, sign ? V_MULS : V_MULU, sum ? T1 : d, T1, T2, -1);
        if (sum)
            with(m, V_ADD64, d, T1, op->c, p);
        return;
    }
    case SG_H_PACK_u64:
        widen(m, T2, op->b, p, false);
        sg_x86_v(x, V_SHI64, SHI_SHL, T2, T2, 32);
        widen(m, T1, op->a, p, false);
        sg_x86_v(x, V_OR64, d, T1, T2, -1);
        return;
    case SG_H_MAD_u64: {
        unsigned a = sg_template_get(m, op->a, p, true);
        with(m, V_MUL64, T1, a, op->b, p);
        with(m, V_ADD64, d, T1, op->c, p);
        return;
    }
    case SG_H_NEG_s64:
        sg_x86_v(x, V_XOR64, T1, T1, T1, -1);
        with(m, V_SUB64, d, T1, op->a, p);
        return;
    case SG_H_NOT_u64: {
        unsigned a = sg_template_get(m, op->a, p, true);
        sg_x86_v(x, V_TERN64, d, a, a, 0x55);
        return;
    }
    default: { /* shifts */
        unsigned a = sg_template_get(m, op->a, p, true);
        widen(m, T1, op->b, p, false);
        sg_x86_v(x, h == SG_H_SHL_u64 ? V_SHL64 : h == SG_H_SHR_u64 ? V_SHR64 : V_SAR64, d, a, T1, -1);
    }
    }
}

/* shf: the two words a and b, b above, by counts that wrap or end at 32. d is a temporary. */
static void funnel(struct template *m, const struct sg_op *op, int h, unsigned p, unsigned d)
{
    struct sg_x86 *x = &m->x;
    bool left = h == SG_H_SHF_L_WRAP || h == SG_H_SHF_L_CLAMP, wrap = h == SG_H_SHF_L_WRAP || h == SG_H_SHF_R_WRAP;
    unsigned a = sg_template_get(m, op->a, p, true), b = sg_template_get(m, op->b, p, true),
             c = sg_template_get(m, op->c, p, true);
    sg_x86_vmb(x, wrap ? V_AND32 : V_MINU32, T1, c, wrap ? TABLE(low5) : TABLE(bits32), -1);
    sg_x86_v(x, left ? V_SHL32 : V_SHR32, T2, left ? b : a, T1, -1);
    sg_x86_vm(x, V_SPREAD32, d, 0, TABLE(bits32), -1);
    sg_x86_v(x, V_SUB32, d, d, T1, -1);
    sg_x86_v(x, left ? V_SHR32 : V_SHL32, d, left ? a : b, d, -1);
    sg_x86_v(x, V_OR32, d, d, T2, -1);
}

/* What is made in d may read its sources after d's first write only where d is none of them. */
static void narrow_one(struct template *m, const struct sg_op *op, int h, unsigned p, unsigned d)
{
    struct sg_x86 *x = &m->x;
    bool bits = h != SG_H_SAT_f32 && h != SG_H_FMA_SAT_f32;
    unsigned a = h == SG_H_LO_u64 || h == SG_H_HI_u64 ? 0 : sg_template_get(m, op->a, p, bits), b, c;
    switch (h) {
    case SG_H_LO_u64:
    case SG_H_HI_u64: lane_narrow(m, d, op->a, p, h == SG_H_HI_u64); return;
    case SG_H_MAD_u32:
        with(m, V_MUL32, T1, a, op->b, p);
        with(m, V_ADD32, d, T1, op->c, p);
        return;
    case SG_H_MULHI_s32:
    case SG_H_MULHI_u32: /* even lanes, then odd ones */
        b = sg_template_get(m, op->b, p, true);
        sg_x86_v(x, V_SHI64, SHI_SHR, T1, a, 32);
        sg_x86_v(x, V_SHI64, SHI_SHR, T2, b, 32);
        sg_x86_v(x, h == SG_H_MULHI_s32 ? V_MULS : V_MULU, T2, T1, T2, -1);
        sg_x86_v(x, h == SG_H_MULHI_s32 ? V_MULS : V_MULU, T1, a, b, -1);
        sg_x86_v(x, V_SHI64, SHI_SHR, T1, T1, 32);
        sg_x86_mov_imm(x, RCX, 0xAAAA);
        sg_x86_k_from(x, 7, RCX, false);
        sg_x86_vk(x, V_BLEND32, d, T1, T2, -1, 7, false);
        return;
    case SG_H_SHF_L_WRAP:
    case SG_H_SHF_L_CLAMP:
    case SG_H_SHF_R_WRAP:
    case SG_H_SHF_R_CLAMP: funnel(m, op, h, p, d); return;
    case SG_H_BFE_u32:
        b = sg_template_get(m, op->b, p, true);
        c = sg_template_get(m, op->c, p, true);
        sg_x86_vmb(x, V_AND32, T1, b, TABLE(low8), -1);
        sg_x86_vmb(x, V_AND32, T2, c, TABLE(low8), -1);
        sg_x86_v(x, V_SHR32, T1, a, T1, -1);
        sg_x86_v(x, V_TERN32, d, d, d, 0xFF); /* all ones */
        sg_x86_v(x, V_SHL32, d, d, T2, -1);
        sg_x86_v(x, V_TERN32, d, T1, T1, 0x0C); /* T1 & ~d */
        return;
    case SG_H_FMA_SAT_f32:
        b = sg_template_get(m, op->b, p, false);
        sg_x86_v(x, V_LOAD32, T2, 0, sg_template_get(m, op->c, p, false), -1);
        sg_x86_v(x, V_FMA231PS, T2, a, b, -1);
        a = T2;        /* fall through */
    case SG_H_SAT_f32: /* NaN is not greater than 0 */
        sg_x86_v(x, V_XOR32, T1, T1, T1, -1);
        sg_x86_v(x, V_MAXPS, d, a, T1, -1);
        sg_x86_vm(x, V_SPREAD32, T1, 0, TABLE(one_f), -1);
        sg_x86_v(x, V_MINPS, d, T1, d, -1);
        return;
    case SG_H_NEG_s32:
        sg_x86_v(x, V_XOR32, T1, T1, T1, -1);
        sg_x86_v(x, V_SUB32, d, T1, a, -1);
        return;
    case SG_H_NOT_u32: sg_x86_v(x, V_TERN32, d, a, a, 0x55); return;
    case SG_H_HI_u32: sg_x86_v(x, V_SHI32, SHI_SHR, d, a, 16); return;
    case SG_H_SX16_u32:
    case SG_H_SX8_u32:
        sg_x86_v(x, V_SHI32, SHI_SHL, T1, a, h == SG_H_SX8_u32 ? 24 : 16);
        sg_x86_v(x, V_SHI32, SHI_SAR, d, T1, h == SG_H_SX8_u32 ? 24 : 16);
        return;
    default: /* PACK_u32 */
        b = sg_template_get(m, op->b, p, true);
        sg_x86_vmb(x, V_AND32, T1, a, TABLE(low16), -1);
        sg_x86_v(x, V_SHI32, SHI_SHL, T2, b, 16);
        sg_x86_v(x, V_OR32, d, T1, T2, -1);
    }
}

/* shfl of a whole warp: which lane each takes from, then the words of both pieces by that. */
static void exchange(struct template *m, const struct sg_op *op)
{
    struct sg_x86 *x = &m->x;
    uint32_t q = m->c->ext[op->x + 1];
    bool up = op->sub == SG_SHFL_UP;
    unsigned a[2] = {sg_template_get(m, op->a, 0, true), sg_template_get(m, op->a, 1, true)};
    for (unsigned p = 0; p < 2; p++) {
        unsigned b = sg_template_get(m, op->b, p, true), c = sg_template_get(m, op->c, p, true), t = p ? T1 : T0;
        struct sg_x86_mem lane = TABLE(lane);
        lane.disp += 64 * (int32_t)p;
        m->nan = false;
        sg_x86_v(x, V_SHI32, SHI_SHR, T2, c, 8); /* the segment's bits; bits above 5 go in the end */
        sg_x86_vm(x, V_LOADU32, ZNAN, 0, lane, -1);
        sg_x86_vmb(x, V_AND32, t, b, TABLE(low5), -1);
        if (op->sub == SG_SHFL_IDX)
            sg_x86_v(x, V_TERN32, t, T2, ZNAN, 0xB8); /* T2 ? ZNAN : t */
        else
            sg_x86_v(x, up ? V_SUB32 : op->sub == SG_SHFL_DOWN ? V_ADD32 : V_XOR32, t, ZNAN, t, -1);
        sg_x86_v(x, V_TERN32, T2, ZNAN, c, 0xCA); /* T2 ? ZNAN : c */
        sg_x86_vmb(x, V_AND32, T2, T2, TABLE(low5), -1);
        sg_x86_v(x, V_CMPS32, 3 + p, t, T2, up ? CMP_GE : CMP_LE);
        sg_x86_vk(x, V_BLEND32, t, ZNAN, t, -1, 3 + p, false);
        sg_x86_v(x, V_PICK, t, a[0], a[1], -1);
    }
    for (unsigned p = 0; p < 2; p++)
        sg_x86_v(x, V_LOAD32, sg_template_out(m, op->d, p, NOT_RAW, false), 0, p ? T1 : T0, -1);
    if (q == SG_NONE)
        return;
    sg_x86_k_to(x, RCX, 3, false);
    sg_x86_k_to(x, RAX, 4, false);
    sg_x86_shl(x, RAX, 16);
    sg_x86_alu(x, X_OR, RCX, RAX, false);
    sg_x86_store(x, sg_template_scalar(m, q), RCX, false);
}

static void special(struct template *m, const struct sg_op *op, int h)
{
    bool wide = false;
    switch (h) {
    case SG_H_SHFL: exchange(m, op); return;
    case SG_H_PMOV:
    case SG_H_PNOT:
    case SG_H_PAND:
    case SG_H_POR:
    case SG_H_PXOR: of_predicates(m, op, h); return;
    case SG_H_SELP_u32:
    case SG_H_SELP_u64: lane_choose(m, op, h == SG_H_SELP_u64); return;
    case SG_H_MOV_u32:
    case SG_H_MOV_u64:
        wide = h == SG_H_MOV_u64;
        for (unsigned p = 0; p < (wide ? 4u : 2u); p++) {
            bool raw = sg_template_is_raw(m, op->a, p) && !wide;
            struct operand a = sg_template_operand(m, op->a, p, !raw);
            unsigned d = sg_template_to(m, op->d, p, raw ? RAW32 : NOT_RAW);
            sg_template_op(m, V_LOADU32, d, 0, &a, -1);
            sg_template_done(m, op->d, p, raw ? RAW32 : NOT_RAW, wide);
        }
        return;
    case SG_H_FNEG_f32:
    case SG_H_FABS_f32:
        for (unsigned p = 0; p < 2; p++) {
            unsigned a = sg_template_quiet(m, T1, op->a, p), d = sg_template_to(m, op->d, p, RAW32);
            bool neg = h == SG_H_FNEG_f32;
            sg_x86_vmb(&m->x, neg ? V_XOR32 : V_AND32, d, a, neg ? TABLE(sign) : TABLE(magnitude), -1);
            sg_template_done(m, op->d, p, RAW32, false);
        }
        return;
    case SG_H_ZX_u64:
    case SG_H_SX_u64:
    case SG_H_MULW_u32:
    case SG_H_MULW_s32:
    case SG_H_MADW_u32:
    case SG_H_MADW_s32:
    case SG_H_PACK_u64:
    case SG_H_MAD_u64:
    case SG_H_NEG_s64:
    case SG_H_NOT_u64:
    case SG_H_SHL_u64:
    case SG_H_SHR_u64:
    case SG_H_SHR_s64: wide = true; break;
    default: break;
    }
    for (unsigned p = 0; p < (wide ? 4u : 2u); p++) {
        (wide ? wide_one : narrow_one)(m, op, h, p, T0);
        if (!m->guard)
            sg_x86_v(&m->x, V_LOAD32, sg_template_out(m, op->d, p, NOT_RAW, false), 0, T0, -1);
        sg_template_done(m, op->d, p, NOT_RAW, wide);
    }
}

bool sg_template_lane(struct template *m, const struct sg_op *op, int h)
{
    const struct sg_template_way *y = &sg_template_ways[h];
    enum lane_type d = (enum lane_type)sg_jit_lane_rows_of[h].d;
    bool wide = d == L_u64 || d == L_s64 || d == L_f64 || h == SG_H_SELP_u64;
    m->guard = op->fn == sg_guarded || m->masked;
    if (m->guard && y->form != COMPARE && y->form != COMPARE_Z && (h < SG_H_PMOV || h > SG_H_PNOT)) {
        row_lanes(m, RCX, op);
        masks(m, 1, wide);
    }
    switch (y->form) {
    case NOTHING: return false;
    case BIN:
    case BIN16: binary(m, op, y); break;
    case UN: unary(m, op, y); break;
    case FLUSHED: flushed_binary(m, op, y); break;
    case FMA: multiply_add(m, op, y); break;
    case FMA_Z: fma_flushed(m, op); break;
    case ROUND:
    case FMA_ROUND: lane_rounded(m, op, y); break;
    case TERN: lane_lop3(m, op); break;
    case CONSTANT: with_constant(m, op, y); break;
    case ONE_BY: reciprocal(m, op, y); break;
    case MINMAX: lane_minmax(m, op, y); break;
    case COMPARE:
    case COMPARE_Z: lane_compare(m, op, y); break;
    case HALF:
    case HALF_FMA:
    case HALF_CHOOSE:
    case HALF_SIGN: sg_template_halves(m, op, y); break;
    case SPECIAL: special(m, op, h); break;
    default: sg_template_convert(m, op, y);
    }
    return true;
}
