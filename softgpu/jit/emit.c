/* Pieces of LLVM's language: one instruction a call, its result's name returned.
 *
 * Names are numbers (jit-priv.h). In the first of the two passes over a region (e->scan) nothing is written, but names
 * are counted all the same. Constants stand at the function's entry, once each.
 */
#include "softgpu/jit/jit-priv.h"

#include "softgpu/exec/bits.h"

const char *const sg_jit_type[] = {"<32 x i32>", "<32 x i64>", "<32 x float>", "<32 x double>", "<32 x i1>"};
#define T(t) sg_jit_type[t]

void sg_jit_line(struct emit *e, const char *fmt, ...)
{
    va_list ap;
    if (e->scan)
        return;
    va_start(ap, fmt);
    dt_str_add(&e->s, "  ");
    dt_str_addfv(&e->s, fmt, ap);
    dt_str_addc(&e->s, '\n');
    va_end(ap);
}

val sg_jit_let(struct emit *e, const char *fmt, ...)
{
    va_list ap;
    val v = ++e->n;
    if (e->scan)
        return v;
    va_start(ap, fmt);
    dt_str_addf(&e->s, "  %%t%u = ", v);
    dt_str_addfv(&e->s, fmt, ap);
    dt_str_addc(&e->s, '\n');
    va_end(ap);
    return v;
}

val sg_jit_bin(struct emit *e, const char *what, enum vt t, val a, val b)
{
    return sg_jit_let(e, "%s %s %%t%u, %%t%u", what, T(t), a, b);
}

val sg_jit_cmp(struct emit *e, const char *what, enum vt t, val a, val b) { return sg_jit_bin(e, what, t, a, b); }

val sg_jit_select(struct emit *e, val cond, enum vt t, val a, val b)
{
    return sg_jit_let(e, "select <32 x i1> %%t%u, %s %%t%u, %s %%t%u", cond, T(t), a, T(t), b);
}

val sg_jit_cast(struct emit *e, const char *what, enum vt from, val a, enum vt to)
{
    return sg_jit_let(e, "%s %s %%t%u to %s", what, T(from), a, T(to));
}

val sg_jit_call1(struct emit *e, const char *f, enum vt t, val a)
{
    return sg_jit_let(e, "call %s @%s(%s %%t%u)", T(t), f, T(t), a);
}

static const char *emit_scalar(enum vt t)
{
    static const char *const name[] = {"i32", "i64", "float", "double", "i1"};
    return name[t];
}

val sg_jit_spread(struct emit *e, enum vt t, val x)
{
    val one = sg_jit_let(e, "insertelement %s poison, %s %%t%u, i64 0", T(t), emit_scalar(t), x);
    return sg_jit_let(e, "shufflevector %s %%t%u, %s poison, <32 x i32> zeroinitializer", T(t), one, T(t));
}

/* Constants are made once, at the region's entry. */
val sg_jit_splat(struct emit *e, enum vt t, uint64_t bits)
{
    bool wide = t == I64 || t == F64;
    if (!wide)
        bits = (uint32_t)bits;
    for (size_t i = e->constant.n; i-- > 0;)
        if (e->constant.p[i].bits == bits && e->constant.p[i].t == t)
            return e->constant.p[i].v;
    val one = ++e->n, all = ++e->n, v = t == F32 || t == F64 ? ++e->n : all;
    if (!dt_push(&e->constant, (struct constant){bits, t, v}))
        e->s.failed = true;
    if (e->scan)
        return v;
    enum vt as = wide ? I64 : I32;
    dt_str_addf(&e->head, "  %%t%u = insertelement %s poison, %s %lld, i64 0\n", one, T(as), wide ? "i64" : "i32",
                wide ? (long long)bits : (long long)(int)(uint32_t)bits);
    dt_str_addf(&e->head, "  %%t%u = shufflevector %s %%t%u, %s poison, <32 x i32> zeroinitializer\n", all, T(as), one,
                T(as));
    if (v != all)
        dt_str_addf(&e->head, "  %%t%u = bitcast %s %%t%u to %s\n", v, T(as), all, T(t));
    return v;
}

/* Through an empty piece of assembly: LLVM 19 goes round in circles over some sums of masks as bits and as lanes. */
val sg_jit_lanes(struct emit *e, val bits)
{
    val x = sg_jit_let(e, "call i32 asm \"\", \"=r,0\"(i32 %%t%u)", bits);
    return sg_jit_let(e, "bitcast i32 %%t%u to <32 x i1>", x);
}

val sg_jit_canon(struct emit *e, enum vt t, val bits, val raw)
{
    enum vt f = t == I64 ? F64 : F32;
    val x = sg_jit_cast(e, "bitcast", t, bits, f), nan = sg_jit_cmp(e, "fcmp uno", f, x, x);
    if (raw) { /* i1: it may have NaNs of its own */
        val all = sg_jit_spread(e, B1, raw);
        nan = sg_jit_bin(e, "and", B1, nan, all);
    }
    return sg_jit_select(e, nan, t, sg_jit_splat(e, t, t == I64 ? SG_NAN64 : SG_NAN32), bits);
}
