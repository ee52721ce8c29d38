/* Lane loops (exec/lanes.def) in LLVM's language: the same results, bit for bit, as the C expressions there. Rows that
 * are not here are done by their handlers.
 *
 * 8- and 16-bit values are kept zero-extended in 32 bits, as in the interpreter. `z32` is f32 with subnormals flushed,
 * in and out. NaNs: rows.c.
 */
#include "softgpu/exec/bits.h"
#include "softgpu/jit/jit-priv.h"

/* ---- expressions ------------------------------------------------------------------------------------------------- */
static val k32(struct emit *e, uint32_t x) { return sg_jit_splat(e, I32, x); }
static val k64(struct emit *e, uint64_t x) { return sg_jit_splat(e, I64, x); }
static val kf32(struct emit *e, float x) { return sg_jit_splat(e, F32, sg_bits(x)); }
static val kf64(struct emit *e, double x) { return sg_jit_splat(e, F64, sg_bits64(x)); }
static val flush(struct emit *e, val x) /* F32 */
{
    val u = sg_jit_cast(e, "bitcast", F32, x, I32), big = sg_jit_bin(e, "and", I32, u, k32(e, 0x7F800000u));
    val sub = sg_jit_cmp(e, "icmp eq", I32, big, k32(e, 0)), sign = sg_jit_bin(e, "and", I32, u, k32(e, 0x80000000u));
    return sg_jit_cast(e, "bitcast", I32, sg_jit_select(e, sub, I32, sign, u), F32);
}
static val low16(struct emit *e, val x) { return sg_jit_bin(e, "and", I32, x, k32(e, 0xFFFF)); }
static val sext16(struct emit *e, val x)
{
    return sg_jit_bin(e, "ashr", I32, sg_jit_bin(e, "shl", I32, x, k32(e, 16)), k32(e, 16));
}

static enum vt vt_of(enum lane_type t)
{
    return t == L_u64 || t == L_s64 ? I64 : t == L_f32 || t == L_z32 ? F32 : t == L_f64 ? F64 : I32;
}

static val source(struct emit *e, uint32_t ref, enum lane_type t)
{
    val v = sg_jit_row(e, ref, vt_of(t));
    return t == L_u16 ? low16(e, v) : t == L_s16 ? sext16(e, v) : t == L_z32 ? flush(e, v) : v;
}

static void lanes_result(struct emit *e, uint32_t ref, enum lane_type t, val v)
{
    if (t == L_u16 || t == L_s16)
        v = low16(e, v);
    if (t == L_z32) { /* canonical first: a NaN has no exponent 0, so the order does not matter */
        v = flush(e, v);
    }
    sg_jit_put(e, ref, vt_of(t), v);
}

static val bin(struct emit *e, const char *what, enum vt t, val a, val b) { return sg_jit_bin(e, what, t, a, b); }
static val pick(struct emit *e, const char *cmp, enum vt t, val a, val b, enum vt to, val x, val y)
{
    return sg_jit_select(e, sg_jit_cmp(e, cmp, t, a, b), to, x, y);
}

/* a shifted by b, or `over` where b is more than `last` */
static val lanes_shift(struct emit *e, const char *what, enum vt t, val a, val b, unsigned last, val over)
{
    val far = sg_jit_cmp(e, "icmp ugt", I32, b, k32(e, last)), by = bin(e, "and", I32, b, k32(e, last));
    if (t == I64)
        by = sg_jit_cast(e, "zext", I32, by, I64);
    val v = bin(e, what, t, a, by);
    return over ? sg_jit_select(e, far, t, over, v) : v;
}

static val shift_signed(struct emit *e, enum vt t, val a, val b, unsigned last)
{
    val by = pick(e, "icmp ugt", I32, b, k32(e, last), I32, k32(e, last), b);
    return bin(e, "ashr", t, a, t == I64 ? sg_jit_cast(e, "zext", I32, by, I64) : by);
}

static val funnel(struct emit *e, const char *f, val a, val b, val c)
{
    return sg_jit_let(e, "call <32 x i32> @llvm.%s.v32i32(<32 x i32> %%t%u, <32 x i32> %%t%u, <32 x i32> %%t%u)", f, b,
                      a, c);
}

static val lanes_lop3(struct emit *e, val a, val b, val c, unsigned lut)
{
    val r = k32(e, 0), ones = k32(e, SG_ALL);
    val n[3] = {bin(e, "xor", I32, a, ones), bin(e, "xor", I32, b, ones), bin(e, "xor", I32, c, ones)};
    for (unsigned i = 0; i < 8; i++)
        if (lut >> i & 1) {
            val t = bin(e, "and", I32, i & 4 ? a : n[0], i & 2 ? b : n[1]);
            r = bin(e, "or", I32, r, bin(e, "and", I32, t, i & 1 ? c : n[2]));
        }
    return r;
}

static val prmt(struct emit *e, val a, val b, uint32_t sel)
{
    val r = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint32_t s = sel >> 4 * i;
        val from = (s & 7) < 4 ? a : b, x;
        if (s & 8)
            x = bin(e, "and", I32, bin(e, "ashr", I32, bin(e, "shl", I32, from, k32(e, 24 - (s & 3) * 8)), k32(e, 31)),
                    k32(e, 0xFF));
        else
            x = bin(e, "and", I32, bin(e, "lshr", I32, from, k32(e, (s & 3) * 8)), k32(e, 0xFF));
        x = bin(e, "shl", I32, x, k32(e, 8 * i));
        r = r ? bin(e, "or", I32, r, x) : x;
    }
    return r;
}

static val nan_of(struct emit *e, val u) /* I32 bits of f32: B1 */
{
    return sg_jit_cmp(e, "icmp ugt", I32, bin(e, "and", I32, u, k32(e, 0x7FFFFFFFu)), k32(e, 0x7F800000u));
}

/* sg_fmin, sg_fmax: on bits whose NaNs may be any */
static val lanes_minmax(struct emit *e, val a, val b, bool max)
{
    val key[2], in[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        val sign = bin(e, "lshr", I32, bin(e, "ashr", I32, in[i], k32(e, 31)), k32(e, 1));
        key[i] = bin(e, "xor", I32, in[i], sign);
    }
    val r = pick(e, max ? "icmp sgt" : "icmp slt", I32, key[0], key[1], I32, a, b);
    val na = nan_of(e, a), nb = nan_of(e, b);
    r = sg_jit_select(e, na, I32, b, r);
    r = sg_jit_select(e, nb, I32, a, r);
    return sg_jit_cast(e, "bitcast", I32, r, F32); /* where both are NaNs: any */
}

static val ex2(struct emit *e, val a) /* sg_ex2: F32 to F32 with any NaN */
{
    val d = sg_jit_cast(e, "fpext", F32, a, F64);
    val x = sg_jit_select(e, sg_jit_cmp(e, "fcmp oeq", F32, a, a), F64, d, kf64(e, 0));
    x = pick(e, "fcmp olt", F64, x, kf64(e, -160.0), F64, kf64(e, -160.0), x);
    x = pick(e, "fcmp ogt", F64, x, kf64(e, 129.0), F64, kf64(e, 129.0), x);
    val t = bin(e, "fadd", F64, x, kf64(e, 0x1.8p52));
    val f = bin(e, "fsub", F64, x, bin(e, "fsub", F64, t, kf64(e, 0x1.8p52)));
    val y = bin(e, "fmul", F64, f, kf64(e, 0x1.62e42fefa39efp-1));
    static const double k[] = {1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0};
    val p = kf64(e, 1.0 / 362880);
    for (unsigned i = 0; i < sizeof k / sizeof *k; i++)
        p = bin(e, "fadd", F64, bin(e, "fmul", F64, p, y), kf64(e, k[i]));
    val up = bin(e, "shl", I64, sg_jit_cast(e, "bitcast", F64, t, I64), k64(e, 52));
    val bits = bin(e, "add", I64, sg_jit_cast(e, "bitcast", F64, p, I64), up);
    val r = sg_jit_cast(e, "fptrunc", F64, sg_jit_cast(e, "bitcast", I64, bits, F64), F32);
    return sg_jit_select(e, sg_jit_cmp(e, "fcmp oeq", F32, a, a), F32, r, a);
}

static val saturate(struct emit *e, val x) /* sg_sat, F32 */
{
    x = pick(e, "fcmp ogt", F32, x, kf32(e, 0), F32, x, kf32(e, 0));
    return pick(e, "fcmp ogt", F32, x, kf32(e, 1), F32, kf32(e, 1), x);
}

static val fused(struct emit *e, enum vt t, val a, val b, val c)
{
    return sg_jit_let(e, "call %s @llvm.fma.%s(%s %%t%u, %s %%t%u, %s %%t%u)", sg_jit_type[t],
                      t == F32 ? "v32f32" : "v32f64", sg_jit_type[t], a, sg_jit_type[t], b, sg_jit_type[t], c);
}

val sg_jit_half(struct emit *e, const char *element, val v, unsigned h) /* 16 lanes of 32 */
{
    if (e->scan)
        return ++e->n;
    val r = ++e->n;
    dt_str_addf(&e->s, "  %%t%u = shufflevector <32 x %s> %%t%u, <32 x %s> poison, <16 x i32> <", r, element, v,
                element);
    for (unsigned i = 0; i < 16; i++)
        dt_str_addf(&e->s, "%si32 %u", i ? ", " : "", 16 * h + i);
    dt_str_add(&e->s, ">\n");
    return r;
}

val sg_jit_whole(struct emit *e, const char *element, val a, val b) /* of two halves */
{
    if (e->scan)
        return ++e->n;
    val r = ++e->n;
    dt_str_addf(&e->s, "  %%t%u = shufflevector <16 x %s> %%t%u, <16 x %s> %%t%u, <32 x i32> <", r, element, a, element,
                b);
    for (unsigned i = 0; i < 32; i++)
        dt_str_addf(&e->s, "%si32 %u", i ? ", " : "", i);
    dt_str_add(&e->s, ">\n");
    return r;
}

/* Directed rounding, as AVX-512 has it in the instruction; mode: 1 down, 2 up, 3 to zero. */
static bool directed(struct emit *e, const struct sg_op *op, int h)
{
    static const struct {
        int h;
        char what, mode;
    } all[] = {{SG_H_FMA_RZ_f32, 'f', 3},  {SG_H_FMA_RM_f32, 'f', 1},  {SG_H_FMA_RP_f32, 'f', 2},
               {SG_H_FADD_RZ_f32, 'a', 3}, {SG_H_FADD_RM_f32, 'a', 1}, {SG_H_FADD_RP_f32, 'a', 2},
               {SG_H_FMUL_RZ_f32, 'm', 3}, {SG_H_FMUL_RM_f32, 'm', 1}, {SG_H_FMUL_RP_f32, 'm', 2}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].h != h)
            continue;
        val x[3] = {sg_jit_row(e, op->a, F32), sg_jit_row(e, op->b, F32), 0}, half[2];
        if (all[i].what == 'f')
            x[2] = sg_jit_row(e, op->c, F32);
        for (unsigned p = 0; p < 2; p++) {
            val a = sg_jit_half(e, "float", x[0], p), b = sg_jit_half(e, "float", x[1], p);
            unsigned mode = 8u | (unsigned)all[i].mode;
            if (all[i].what == 'f') {
                val c = sg_jit_half(e, "float", x[2], p);
                half[p] = sg_jit_let(e,
                                     "call <16 x float> @llvm.x86.avx512.vfmadd.ps.512(<16 x float> %%t%u, <16 x "
                                     "float> %%t%u, <16 x float> %%t%u, i32 %u)",
                                     a, b, c, mode);
            } else {
                half[p] = sg_jit_let(
                    e, "call <16 x float> @llvm.x86.avx512.%s.ps.512(<16 x float> %%t%u, <16 x float> %%t%u, i32 %u)",
                    all[i].what == 'a' ? "add" : "mul", a, b, mode);
            }
        }
        sg_jit_put(e, op->d, F32, sg_jit_whole(e, "float", half[0], half[1]));
        return true;
    }
    return false;
}

/* ---- comparisons, predicates, selections ------------------------------------------------------------------------- */
/* clang-format off */
static const char *lanes_comparison(int h)
{
    switch (h) {
#define CASE(N, T, what) case SG_H_##N##_##T: return what;
#define INTS(T, S)                                                                                                     \
    CASE(LT, T, "icmp " S "lt") CASE(LE, T, "icmp " S "le") CASE(GT, T, "icmp " S "gt") CASE(GE, T, "icmp " S "ge")
#define EQS(T) CASE(EQ, T, "icmp eq") CASE(NE, T, "icmp ne")
    EQS(u16) EQS(u32) EQS(u64)
    INTS(u16, "u") INTS(u32, "u") INTS(u64, "u") INTS(s16, "s") INTS(s32, "s") INTS(s64, "s")
#define FLOATS(T)                                                                                                      \
    CASE(EQ, T, "fcmp oeq") CASE(NE, T, "fcmp one") CASE(LT, T, "fcmp olt") CASE(LE, T, "fcmp ole")                    \
    CASE(GT, T, "fcmp ogt") CASE(GE, T, "fcmp oge") CASE(EQU, T, "fcmp ueq") CASE(NEU, T, "fcmp une")                  \
    CASE(LTU, T, "fcmp ult") CASE(LEU, T, "fcmp ule") CASE(GTU, T, "fcmp ugt") CASE(GEU, T, "fcmp uge")                \
    CASE(NUM, T, "fcmp ord") CASE(NAN, T, "fcmp uno")
    FLOATS(f32) FLOATS(z32) FLOATS(f64)
    default: return NULL;
    }
}
/* clang-format on */

static val lanes_scalar(struct emit *e, const char *what, val a, val b)
{
    return sg_jit_let(e, "%s i32 %%t%u, %%t%u", what, a, b);
}
static val flip(struct emit *e, val a, bool yes) { return yes ? sg_jit_let(e, "xor i32 %%t%u, -1", a) : a; }

static void compare(struct emit *e, const struct sg_op *op, int h)
{
    const struct lane_row *l = &sg_jit_lane_rows_of[h];
    val c = sg_jit_cmp(e, lanes_comparison(h), vt_of(l->a), source(e, op->a, l->a), source(e, op->b, l->a));
    val r = sg_jit_let(e, "bitcast <32 x i1> %%t%u to i32", c), q = flip(e, r, true);
    if (op->sub) {
        val p = flip(e, sg_jit_pred(e, op->c), op->flags & SG_C_NOT);
        const char *how = op->sub == 1 ? "and" : op->sub == 2 ? "or" : "xor";
        r = lanes_scalar(e, how, r, p);
        q = lanes_scalar(e, how, q, p);
    }
    sg_jit_put_pred(e, op->d, r);
    if (op->flags & SG_HAS_Q)
        sg_jit_put_pred(e, op->x, q);
}

static bool predicates(struct emit *e, const struct sg_op *op, int h)
{
    if (h != SG_H_PMOV && h != SG_H_PNOT && h != SG_H_PAND && h != SG_H_POR && h != SG_H_PXOR)
        return false;
    val a = flip(e, sg_jit_pred(e, op->a), op->flags & SG_SIGNED);
    if (h == SG_H_PMOV || h == SG_H_PNOT) {
        sg_jit_put_pred(e, op->d, flip(e, a, h == SG_H_PNOT));
        return true;
    }
    val b = flip(e, sg_jit_pred(e, op->b), op->flags & SG_C_NOT);
    sg_jit_put_pred(e, op->d, lanes_scalar(e, h == SG_H_PAND ? "and" : h == SG_H_POR ? "or" : "xor", a, b));
    return true;
}

static void selp(struct emit *e, const struct sg_op *op, bool wide)
{
    val p = flip(e, sg_jit_pred(e, op->c), op->flags & SG_C_NOT);
    val m = sg_jit_lanes(e, p);
    enum vt t = wide ? I64 : I32;
    sg_jit_put(e, op->d, t, sg_jit_select(e, m, t, sg_jit_row(e, op->a, t), sg_jit_row(e, op->b, t)));
}

/* shfl of a whole warp with distances that are constants. */
static bool shuffle(struct emit *e, const struct sg_op *op)
{
    uint64_t b, c;
    if (e->masked || e->only || !sg_jit_known(e, op->b, false, &b) || !sg_jit_known(e, op->c, false, &c))
        return false;
    uint32_t q = 0, from[SG_LANES];
    for (unsigned l = 0; l < SG_LANES; l++) {
        uint32_t seg = (uint32_t)c >> 8 & 31, max = (l & seg) | ((uint32_t)c & ~seg & 31), n = (uint32_t)b & 31;
        int j = op->sub == SG_SHFL_UP     ? (int)l - (int)n
                : op->sub == SG_SHFL_DOWN ? (int)(l + n)
                : op->sub == SG_SHFL_BFLY ? (int)(l ^ n)
                                          : (int)((l & seg) | (n & ~seg));
        bool ok = op->sub == SG_SHFL_UP ? j >= (int)max : j <= (int)max;
        from[l] = ok ? (uint32_t)j & 31 : l;
        q |= (uint32_t)ok << l;
    }
    val a = sg_jit_row(e, op->a, I32), r = ++e->n;
    if (!e->scan) {
        dt_str_addf(&e->s, "  %%t%u = shufflevector <32 x i32> %%t%u, <32 x i32> poison, <32 x i32> <", r, a);
        for (unsigned l = 0; l < SG_LANES; l++)
            dt_str_addf(&e->s, "%si32 %u", l ? ", " : "", from[l]);
        dt_str_add(&e->s, ">\n");
    }
    sg_jit_put(e, op->d, I32, r);
    uint32_t dq = e->code->ext[op->x + 1];
    if (dq != SG_NONE)
        sg_jit_put_pred(e, dq, sg_jit_let(e, "add i32 %d, 0", (int)q));
    return true;
}

/* ---- rows with one to three sources ------------------------------------------------------------------------------ */
/* The value of row h; 0: not here. */
static val value(struct emit *e, const struct sg_op *op, int h, val a, val b, val c)
{
    uint64_t k;
    switch (h) {
        /* clang-format off */
#define SIMPLE(N, T, what, V) case SG_H_##N##_##T: return bin(e, what, V, a, b);
#define UINTS(N, what) SIMPLE(N, u16, what, I32) SIMPLE(N, u32, what, I32) SIMPLE(N, u64, what, I64)
#define FLTS(N, what) SIMPLE(N, f32, what, F32) SIMPLE(N, z32, what, F32) SIMPLE(N, f64, what, F64)
    UINTS(ADD, "add") UINTS(SUB, "sub") UINTS(MUL, "mul") UINTS(AND, "and") UINTS(OR, "or") UINTS(XOR, "xor")
    FLTS(FADD, "fadd") FLTS(FSUB, "fsub") FLTS(FMUL, "fmul") FLTS(FDIV, "fdiv")
            /* clang-format on */
            case SG_H_MULHI_u16 : return bin(e, "lshr", I32, bin(e, "mul", I32, a, b), k32(e, 16));
    case SG_H_MULHI_s16: return bin(e, "ashr", I32, bin(e, "mul", I32, a, b), k32(e, 16));
    case SG_H_MULHI_u32:
    case SG_H_MULHI_s32:
    case SG_H_MULW_u32:
    case SG_H_MULW_s32:
    case SG_H_MADW_u32:
    case SG_H_MADW_s32: {
        bool sign = h == SG_H_MULHI_s32 || h == SG_H_MULW_s32 || h == SG_H_MADW_s32;
        const char *ext = sign ? "sext" : "zext";
        val p = bin(e, "mul", I64, sg_jit_cast(e, ext, I32, a, I64), sg_jit_cast(e, ext, I32, b, I64));
        if (h == SG_H_MULHI_u32 || h == SG_H_MULHI_s32)
            return sg_jit_cast(e, "trunc", I64, bin(e, "lshr", I64, p, k64(e, 32)), I32);
        return c ? bin(e, "add", I64, p, c) : p;
    }
    case SG_H_MULW_u16:
    case SG_H_MULW_s16: return bin(e, "mul", I32, a, b);
    case SG_H_MAD_u16:
    case SG_H_MAD_u32:
    case SG_H_MADW_u16:
    case SG_H_MADW_s16: return bin(e, "add", I32, bin(e, "mul", I32, a, b), c);
    case SG_H_MAD_u64:
        return bin(e, "add", I64, bin(e, "mul", I64, a, b), c);
        /* clang-format off */
#define MM(N, T, cmp, V) case SG_H_##N##_##T: return pick(e, cmp, V, a, b, V, a, b);
    MM(MIN, u16, "icmp ult", I32) MM(MIN, u32, "icmp ult", I32) MM(MIN, u64, "icmp ult", I64)
    MM(MIN, s16, "icmp slt", I32) MM(MIN, s32, "icmp slt", I32) MM(MIN, s64, "icmp slt", I64)
    MM(MAX, u16, "icmp ugt", I32) MM(MAX, u32, "icmp ugt", I32) MM(MAX, u64, "icmp ugt", I64)
    MM(MAX, s16, "icmp sgt", I32) MM(MAX, s32, "icmp sgt", I32) MM(MAX, s64, "icmp sgt", I64)
            /* clang-format on */
            case SG_H_ABS_s16 : case SG_H_ABS_s32
            : return pick(e, "icmp slt", I32, a, k32(e, 0), I32, bin(e, "sub", I32, k32(e, 0), a), a);
    case SG_H_ABS_s64: return pick(e, "icmp slt", I64, a, k64(e, 0), I64, bin(e, "sub", I64, k64(e, 0), a), a);
    case SG_H_NEG_s16:
    case SG_H_NEG_s32: return bin(e, "sub", I32, k32(e, 0), a);
    case SG_H_NEG_s64: return bin(e, "sub", I64, k64(e, 0), a);
    case SG_H_POPC_u32: return sg_jit_call1(e, "llvm.ctpop.v32i32", I32, a);
    case SG_H_BREV_u32: return sg_jit_call1(e, "llvm.bitreverse.v32i32", I32, a);
    case SG_H_NOT_u16:
    case SG_H_NOT_u32: return bin(e, "xor", I32, a, k32(e, SG_ALL));
    case SG_H_NOT_u64: return bin(e, "xor", I64, a, k64(e, ~0ull));
    case SG_H_SHL_u16: return lanes_shift(e, "shl", I32, a, b, 15, k32(e, 0));
    case SG_H_SHL_u32: return lanes_shift(e, "shl", I32, a, b, 31, k32(e, 0));
    case SG_H_SHL_u64: return lanes_shift(e, "shl", I64, a, b, 63, k64(e, 0));
    case SG_H_SHR_u16: return lanes_shift(e, "lshr", I32, a, b, 15, k32(e, 0));
    case SG_H_SHR_u32: return lanes_shift(e, "lshr", I32, a, b, 31, k32(e, 0));
    case SG_H_SHR_u64: return lanes_shift(e, "lshr", I64, a, b, 63, k64(e, 0));
    case SG_H_SHR_s16: return shift_signed(e, I32, a, b, 15);
    case SG_H_SHR_s32: return shift_signed(e, I32, a, b, 31);
    case SG_H_SHR_s64: return shift_signed(e, I64, a, b, 63);
    case SG_H_SHF_L_WRAP: return funnel(e, "fshl", a, b, c);
    case SG_H_SHF_R_WRAP: return funnel(e, "fshr", a, b, c);
    case SG_H_SHF_L_CLAMP: return pick(e, "icmp ugt", I32, c, k32(e, 31), I32, a, funnel(e, "fshl", a, b, c));
    case SG_H_SHF_R_CLAMP: return pick(e, "icmp ugt", I32, c, k32(e, 31), I32, b, funnel(e, "fshr", a, b, c));
    case SG_H_LOP3: return lanes_lop3(e, a, b, c, (unsigned)op->imm);
    case SG_H_PRMT: return sg_jit_known(e, op->c, false, &k) ? prmt(e, a, b, (uint32_t)k) : 0;
    case SG_H_PACK_u64: {
        val hi = bin(e, "shl", I64, sg_jit_cast(e, "zext", I32, b, I64), k64(e, 32));
        return bin(e, "or", I64, hi, sg_jit_cast(e, "zext", I32, a, I64));
    }
    case SG_H_PACK_u32: return bin(e, "or", I32, low16(e, a), bin(e, "shl", I32, b, k32(e, 16)));
    case SG_H_LO_u64: return sg_jit_cast(e, "trunc", I64, a, I32);
    case SG_H_HI_u64: return sg_jit_cast(e, "trunc", I64, bin(e, "lshr", I64, a, k64(e, 32)), I32);
    case SG_H_LO_u32: return low16(e, a);
    case SG_H_HI_u32: return bin(e, "lshr", I32, a, k32(e, 16));
    case SG_H_SLCT_u32_s32: return pick(e, "icmp sge", I32, c, k32(e, 0), I32, a, b);
    case SG_H_ZX8_u32: return bin(e, "and", I32, a, k32(e, 0xFF));
    case SG_H_SX8_u32: return bin(e, "ashr", I32, bin(e, "shl", I32, a, k32(e, 24)), k32(e, 24));
    case SG_H_ZX16_u32:
    case SG_H_SX16_u32: return a;
    case SG_H_ZX_u64: return sg_jit_cast(e, "zext", I32, a, I64);
    case SG_H_SX_u64:
    case SG_H_SX16_u64: return sg_jit_cast(e, "sext", I32, a, I64);
    case SG_H_FMA_f32:
    case SG_H_FMA_z32: return fused(e, F32, a, b, c);
    case SG_H_FMA_f64: return fused(e, F64, a, b, c);
    case SG_H_FMA_SAT_f32: return sg_jit_cast(e, "bitcast", F32, saturate(e, fused(e, F32, a, b, c)), I32);
    case SG_H_FADD_SAT_f32: return sg_jit_cast(e, "bitcast", F32, saturate(e, bin(e, "fadd", F32, a, b)), I32);
    case SG_H_FMUL_SAT_f32: return sg_jit_cast(e, "bitcast", F32, saturate(e, bin(e, "fmul", F32, a, b)), I32);
    case SG_H_SAT_f32: return sg_jit_cast(e, "bitcast", F32, saturate(e, a), I32);
    case SG_H_RCP_f32:
    case SG_H_RCP_z32: return bin(e, "fdiv", F32, kf32(e, 1), a);
    case SG_H_RCP_f64: return bin(e, "fdiv", F64, kf64(e, 1), a);
    case SG_H_SQRT_f32:
    case SG_H_SQRT_z32: return sg_jit_call1(e, "llvm.sqrt.v32f32", F32, a);
    case SG_H_SQRT_f64: return sg_jit_call1(e, "llvm.sqrt.v32f64", F64, a);
    case SG_H_FNEG_f64: return bin(e, "xor", I64, a, k64(e, 1ull << 63));
    case SG_H_FABS_f64: return bin(e, "and", I64, a, k64(e, ~(1ull << 63)));
    case SG_H_CVT_f32_s32: return sg_jit_cast(e, "sitofp", I32, a, F32);
    case SG_H_CVT_f32_u32: return sg_jit_cast(e, "uitofp", I32, a, F32);
    case SG_H_CVT_f64_s32: return sg_jit_cast(e, "sitofp", I32, a, F64);
    case SG_H_CVT_f64_u32: return sg_jit_cast(e, "uitofp", I32, a, F64);
    case SG_H_CVT_f64_f32: return sg_jit_cast(e, "fpext", F32, a, F64);
    case SG_H_CVT_f32_f64: return sg_jit_cast(e, "fptrunc", F64, a, F32);
    case SG_H_CVT_s32_f32_rz: {
        val d = sg_jit_select(e, sg_jit_cmp(e, "fcmp oeq", F32, a, a), F64, sg_jit_cast(e, "fpext", F32, a, F64),
                              kf64(e, 0));
        d = pick(e, "fcmp olt", F64, d, kf64(e, -2147483648.0), F64, kf64(e, -2147483648.0), d);
        d = pick(e, "fcmp ogt", F64, d, kf64(e, 2147483647.0), F64, kf64(e, 2147483647.0), d);
        return sg_jit_cast(e, "fptosi", F64, d, I32);
    }
    default: return 0;
    }
}

/* Rows whose results are floats though lanes.def says u32: their NaNs may be any until somebody looks. */
static bool as_bits(struct emit *e, const struct sg_op *op, int h)
{
    val r;
    bool z = h == SG_H_FMIN_z32 || h == SG_H_FMAX_z32 || h == SG_H_FNEG_z32 || h == SG_H_FABS_z32;
    switch (h) {
    case SG_H_FMIN_f32:
    case SG_H_FMAX_f32:
    case SG_H_FMIN_z32:
    case SG_H_FMAX_z32: {
        val a = sg_jit_row_any(e, op->a, I32), b = sg_jit_row_any(e, op->b, I32);
        if (z) {
            a = sg_jit_cast(e, "bitcast", F32, flush(e, sg_jit_cast(e, "bitcast", I32, a, F32)), I32);
            b = sg_jit_cast(e, "bitcast", F32, flush(e, sg_jit_cast(e, "bitcast", I32, b, F32)), I32);
        }
        r = lanes_minmax(e, a, b, h == SG_H_FMAX_f32 || h == SG_H_FMAX_z32);
        break;
    }
    case SG_H_FNEG_f32:
    case SG_H_FNEG_z32:
    case SG_H_FABS_f32:
    case SG_H_FABS_z32: {
        bool neg = h == SG_H_FNEG_f32 || h == SG_H_FNEG_z32;
        val a = sg_jit_row(e, op->a, F32);
        if (z)
            a = flush(e, a);
        a = sg_jit_cast(e, "bitcast", F32, a, I32);
        r = bin(e, neg ? "xor" : "and", I32, a, k32(e, neg ? 0x80000000u : 0x7FFFFFFFu));
        r = sg_jit_cast(e, "bitcast", I32, r, F32);
        break;
    }
    case SG_H_EX2_f32: r = ex2(e, sg_jit_row(e, op->a, F32)); break;
    case SG_H_EX2_z32: r = flush(e, ex2(e, flush(e, sg_jit_row(e, op->a, F32)))); break;
    case SG_H_CVT_f32_bf16: {
        val a = bin(e, "shl", I32, sg_jit_row(e, op->a, I32), k32(e, 16));
        r = sg_jit_cast(e, "bitcast", I32, a, F32);
        break;
    }
    case SG_H_CVT_f32_f16: {
        val a = sg_jit_row(e, op->a, I32), half[2];
        for (unsigned p = 0; p < 2; p++) {
            half[p] = sg_jit_let(e, "trunc <16 x i32> %%t%u to <16 x i16>", sg_jit_half(e, "i32", a, p));
            half[p] = sg_jit_let(e,
                                 "call <16 x float> @llvm.x86.avx512.mask.vcvtph2ps.512(<16 x i16> %%t%u, <16 x float> "
                                 "zeroinitializer, i16 -1, i32 4)",
                                 half[p]);
        }
        r = sg_jit_whole(e, "float", half[0], half[1]);
        break;
    }
    default: return false;
    }
    sg_jit_put(e, op->d, F32, r);
    return true;
}

static bool to_half(struct emit *e, const struct sg_op *op, int h)
{
    if (h != SG_H_CVT_f16_f32 && h != SG_H_CVT_bf16_f32)
        return false;
    val a = sg_jit_row(e, op->a, F32), nan = sg_jit_cmp(e, "fcmp uno", F32, a, a), r;
    if (h == SG_H_CVT_f16_f32) {
        val half[2]; /* by the CPU's own instruction: LLVM 19 goes round in circles over vectors of half */
        for (unsigned p = 0; p < 2; p++) {
            half[p] = sg_jit_let(e,
                                 "call <16 x i16> @llvm.x86.avx512.mask.vcvtps2ph.512(<16 x float> %%t%u, i32 0, <16 x "
                                 "i16> zeroinitializer, i16 -1)",
                                 sg_jit_half(e, "float", a, p));
            half[p] = sg_jit_let(e, "zext <16 x i16> %%t%u to <16 x i32>", half[p]);
        }
        r = sg_jit_whole(e, "i32", half[0], half[1]);
    } else {
        val u = sg_jit_cast(e, "bitcast", F32, a, I32);
        val odd = bin(e, "and", I32, bin(e, "lshr", I32, u, k32(e, 16)), k32(e, 1));
        r = bin(e, "lshr", I32, bin(e, "add", I32, bin(e, "add", I32, u, k32(e, 0x7FFF)), odd), k32(e, 16));
    }
    r = sg_jit_select(e, nan, I32, k32(e, SG_NAN16), r);
    sg_jit_put(e, op->d, I32, low16(e, r));
    return true;
}

bool sg_jit_lane(struct emit *e, const struct sg_op *op, int h)
{
    const struct lane_row *l = &sg_jit_lane_rows_of[h];
    if (l->sources == 4) {
        compare(e, op, h);
        return true;
    }
    switch (h) {
    case SG_H_MOV_u32: sg_jit_copy(e, op->d, op->a, false); return true;
    case SG_H_MOV_u64: sg_jit_copy(e, op->d, op->a, true); return true;
    case SG_H_SELP_u32:
    case SG_H_SELP_u64: selp(e, op, h == SG_H_SELP_u64); return true;
    case SG_H_SHFL: return shuffle(e, op);
    default: break;
    }
    if (predicates(e, op, h) || directed(e, op, h) || as_bits(e, op, h) || to_half(e, op, h))
        return true;
    if (!l->sources)
        return false;
    val a = source(e, op->a, l->a), b = l->sources > 1 ? source(e, op->b, l->b) : 0,
        c = l->sources > 2 ? source(e, op->c, l->c) : 0, r = value(e, op, h, a, b, c);
    if (!r)
        return false;
    lanes_result(e, op->d, l->d, r);
    return true;
}
