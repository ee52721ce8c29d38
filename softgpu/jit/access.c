/* Loads and stores of a whole warp, where its addresses have a simple shape; everything else is the handler's
 * (exec/lanes-mem.inc), which also finds who is at fault.
 *
 * Shared memory, each half of the warp for itself: one word a lane within 64 bytes of the first lane's (one load and
 * one permutation), the same vector for all, or vectors in a line. Global memory: the same element for all 32 lanes, or
 * elements in a line, within the allocation that this operation met last. What a launch counts of them goes through the
 * interpreter's own functions, so that the counters are the same.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/jit/jit-priv.h"

static void access_label(struct emit *e, unsigned l)
{
    if (!e->scan)
        dt_str_addf(&e->s, "l%u:\n", l);
}

static val row_of(struct emit *e, const char *type, unsigned lanes, unsigned step) /* 0, step, 2 step, … */
{
    val r = ++e->n;
    if (e->scan)
        return r;
    dt_str_addf(&e->s, "  %%t%u = add <%u x %s> zeroinitializer, <", r, lanes, type);
    for (unsigned i = 0; i < lanes; i++)
        dt_str_addf(&e->s, "%s%s %u", i ? ", " : "", type, i * step);
    dt_str_add(&e->s, ">\n");
    return r;
}

static val all_of(struct emit *e, unsigned lanes, val c) /* i1: every lane of <lanes x i1> */
{
    val m = sg_jit_let(e, "bitcast <%u x i1> %%t%u to i%u", lanes, c, lanes);
    return sg_jit_let(e, "icmp eq i%u %%t%u, -1", lanes, m);
}

static val spread16(struct emit *e, const char *type, val x)
{
    val one = sg_jit_let(e, "insertelement <16 x %s> poison, %s %%t%u, i64 0", type, type, x);
    return sg_jit_let(e, "shufflevector <16 x %s> %%t%u, <16 x %s> poison, <16 x i32> zeroinitializer", type, one,
                      type);
}

static val and1(struct emit *e, val a, val b) { return sg_jit_let(e, "and i1 %%t%u, %%t%u", a, b); }
static val or1(struct emit *e, val a, val b) { return sg_jit_let(e, "or i1 %%t%u, %%t%u", a, b); }

struct fork sg_jit_fast(struct emit *e, val ok)
{
    struct fork f = {e->labels + 1, e->labels + 3};
    e->labels += 3;
    sg_jit_line(e, "br i1 %%t%u, label %%l%u, label %%l%u, !prof !1", ok, f.slow + 1, f.slow);
    access_label(e, f.slow + 1);
    return f;
}

/* The slow way writes its rows by the handler, the fast one by sg_jit_put: variables, so nothing needs joining by hand.
 * What is dirty is the union; rows that the handler wrote are written again, with what they have. */
void sg_jit_fast_end(struct emit *e, const struct fork *f, const struct sg_op *op)
{
    size_t n = e->var.n;
    struct var *fast = dt_malloc((n + 1) * sizeof *fast);
    if (!fast) {
        e->s.failed = true;
        return;
    }
    memcpy(fast, e->var.p, n * sizeof *fast);
    sg_jit_line(e, "br label %%l%u", f->join);
    access_label(e, f->slow);
    sg_jit_handler(e, op);
    sg_jit_line(e, "br label %%l%u", f->join);
    access_label(e, f->join);
    for (size_t i = 0; i < n && i < e->var.n; i++) {
        struct var *v = &e->var.p[i];
        v->dirty |= fast[i].dirty;
        v->raw = v->raw == fast[i].raw ? v->raw : BY_FLAG;
    }
    free(fast);
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */
static void describe(struct emit *e, struct shape *s, uint32_t ref)
{
    val v = sg_jit_half(e, "i32", sg_jit_row(e, ref, I32), s->half);
    s->first = sg_jit_let(e, "extractelement <16 x i32> %%t%u, i64 0", v);
    val d = sg_jit_let(e, "sub <16 x i32> %%t%u, %%t%u", v, spread16(e, "i32", s->first));
    s->same = all_of(e, 16, sg_jit_let(e, "icmp eq <16 x i32> %%t%u, zeroinitializer", d));
    val aligned = sg_jit_let(e, "icmp eq i32 %%t%u, 0", sg_jit_let(e, "and i32 %%t%u, %u", s->first, s->step - 1)),
        fits;
    if (s->step == 4 && !s->store) {
        val most = spread16(e, "i32", sg_jit_let(e, "add i32 -61, 0")); /* all but the bits of 60 */
        val far = sg_jit_let(e, "and <16 x i32> %%t%u, %%t%u", d, most);
        fits = all_of(e, 16, sg_jit_let(e, "icmp eq <16 x i32> %%t%u, zeroinitializer", far));
        s->near = sg_jit_let(e, "lshr <16 x i32> %%t%u, %%t%u", d, spread16(e, "i32", sg_jit_let(e, "add i32 2, 0")));
    } else {
        fits = all_of(e, 16, sg_jit_let(e, "icmp eq <16 x i32> %%t%u, %%t%u", d, row_of(e, "i32", 16, s->step)));
        fits = s->store ? fits : or1(e, fits, s->same);
    }
    s->fits = and1(e, fits, aligned);
}

static const struct shape *access_shape(struct emit *e, const struct sg_op *op, unsigned half, unsigned step,
                                        bool store)
{
    const struct var *v = (op->a & 3) == 0 ? sg_jit_variable(e, op->a, ROW32) : NULL;
    struct shape want = {.at = op->a, .version = v ? v->version : 0, .half = half, .step = step, .store = store};
    for (unsigned i = 0; v && i < SHAPES; i++) {
        const struct shape *s = &e->shape[i];
        if (s->first && s->at == want.at && s->version == want.version && s->half == half && s->step == step &&
            s->store == store)
            return s;
    }
    describe(e, &want, op->a);
    struct shape *to = &e->shape[e->shapes++ % SHAPES];
    *to = want;
    return to;
}

struct half {
    val at;   /* i32: offset of the first lane */
    val same; /* i1: all lanes there */
    val near; /* see struct shape */
    val ok;
};

static struct half shared_half(struct emit *e, const struct sg_op *op, unsigned h, unsigned step, bool store)
{
    const struct shape *s = access_shape(e, op, h, step, store);
    struct half r = {.same = s->same, .near = s->near};
    r.at = sg_jit_let(e, "add i32 %%t%u, %d", s->first, (int)op->imm);
    /* within shared memory, without going below 0 */
    val last = sg_jit_let(e, "zext i32 %%t%u to i64", r.at), reach;
    if (store)
        reach = sg_jit_let(e, "add i64 %u, 0", 16 * step);
    else
        reach = sg_jit_let(e, "select i1 %%t%u, i64 %u, i64 %u", s->same, step, 16 * step);
    last = sg_jit_let(e, "add i64 %%t%u, %%t%u", last, reach);
    r.ok = and1(e, s->fits, sg_jit_let(e, "icmp ule i64 %%t%u, %%shared_bytes", last));
    return r;
}

static val shared_pointer(struct emit *e, val at)
{
    return sg_jit_let(e, "getelementptr i8, ptr %%shared, i64 %%t%u", sg_jit_let(e, "zext i32 %%t%u to i64", at));
}

static uint32_t access_element(const struct emit *e, const struct sg_op *op, unsigned i, bool store)
{
    return op->n > 1 ? e->code->ext[op->x + i] : store ? op->b : op->d;
}

/* lanes [16 h, 16 h + 16) of n words each: <16 x i32> values v[] */
static void take_half(struct emit *e, const struct half *h, unsigned n, val *v)
{
    val p = shared_pointer(e, h->at);
    if (n == 1) {
        val w = sg_jit_let(e, "load <16 x i32>, ptr %%t%u, align 4", p);
        v[0] = sg_jit_let(e, "call <16 x i32> @llvm.x86.avx512.permvar.si.512(<16 x i32> %%t%u, <16 x i32> %%t%u)", w,
                          h->near);
        return;
    }
    unsigned l = e->labels + 1;
    e->labels += 3;
    sg_jit_line(e, "br i1 %%t%u, label %%l%u, label %%l%u", h->same, l, l + 1);
    access_label(e, l);
    val same[4], line[4];
    for (unsigned i = 0; i < n; i++) {
        val q = sg_jit_let(e, "getelementptr i8, ptr %%t%u, i64 %u", p, 4 * i);
        same[i] = spread16(e, "i32", sg_jit_let(e, "load i32, ptr %%t%u, align 4", q));
    }
    sg_jit_line(e, "br label %%l%u", l + 2);
    access_label(e, l + 1);
    val all = sg_jit_let(e, "load <%u x i32>, ptr %%t%u, align 4", 16 * n, p);
    for (unsigned i = 0; i < n; i++) {
        line[i] = ++e->n;
        if (e->scan)
            continue;
        dt_str_addf(&e->s, "  %%t%u = shufflevector <%u x i32> %%t%u, <%u x i32> poison, <16 x i32> <", line[i], 16 * n,
                    all, 16 * n);
        for (unsigned k = 0; k < 16; k++)
            dt_str_addf(&e->s, "%si32 %u", k ? ", " : "", k * n + i);
        dt_str_add(&e->s, ">\n");
    }
    sg_jit_line(e, "br label %%l%u", l + 2);
    access_label(e, l + 2);
    for (unsigned i = 0; i < n; i++)
        v[i] = sg_jit_let(e, "phi <16 x i32> [ %%t%u, %%l%u ], [ %%t%u, %%l%u ]", same[i], l, line[i], l + 1);
}

static bool shared_load(struct emit *e, const struct sg_op *op)
{
    unsigned n = op->n;
    if (n == 8 || op->flags & (SG_D64 | SG_A64) || op->imm & (4 * n - 1))
        return false;
    val out[2][4];
    struct half h[2];
    for (unsigned i = 0; i < 2; i++)
        h[i] = shared_half(e, op, i, 4 * n, false);
    struct fork f = sg_jit_fast(e, and1(e, h[0].ok, h[1].ok));
    for (unsigned i = 0; i < 2; i++)
        take_half(e, &h[i], n, out[i]);
    for (unsigned i = 0; i < n; i++)
        sg_jit_put(e, access_element(e, op, i, false), I32, sg_jit_whole(e, "i32", out[0][i], out[1][i]));
    sg_jit_fast_end(e, &f, op);
    return true;
}

/* Words of all lanes in one vector: lane l's at n l … n l + n - 1. */
static val interleave(struct emit *e, const val *v, unsigned n, unsigned lanes)
{
    val all = v[0];
    if (n == 1)
        return all;
    val pair[2];
    for (unsigned i = 0; i < n; i += 2) {
        pair[i / 2] = ++e->n;
        if (e->scan)
            continue;
        dt_str_addf(&e->s, "  %%t%u = shufflevector <%u x i32> %%t%u, <%u x i32> %%t%u, <%u x i32> <", pair[i / 2],
                    lanes, v[i], lanes, v[i + 1], 2 * lanes);
        for (unsigned k = 0; k < 2 * lanes; k++)
            dt_str_addf(&e->s, "%si32 %u", k ? ", " : "", k / 2 + (k & 1) * lanes);
        dt_str_add(&e->s, ">\n");
    }
    if (n == 2)
        return pair[0];
    all = ++e->n;
    if (!e->scan) {
        dt_str_addf(&e->s, "  %%t%u = shufflevector <%u x i32> %%t%u, <%u x i32> %%t%u, <%u x i32> <", all, 2 * lanes,
                    pair[0], 2 * lanes, pair[1], 4 * lanes);
        for (unsigned k = 0; k < 4 * lanes; k++)
            dt_str_addf(&e->s, "%si32 %u", k ? ", " : "", k / 4 * 2 + (k & 1) + (k & 2 ? 2 * lanes : 0));
        dt_str_add(&e->s, ">\n");
    }
    return all;
}

static bool shared_store(struct emit *e, const struct sg_op *op)
{
    unsigned n = op->n;
    if (n == 8 || op->flags & SG_A64 || op->imm & (4 * n - 1))
        return false;
    struct half h[2];
    for (unsigned i = 0; i < 2; i++)
        h[i] = shared_half(e, op, i, 4 * n, true);
    struct fork f = sg_jit_fast(e, and1(e, h[0].ok, h[1].ok));
    for (unsigned i = 0; i < 2; i++) {
        val v[4];
        for (unsigned k = 0; k < n; k++)
            v[k] = sg_jit_half(e, "i32", sg_jit_row(e, access_element(e, op, k, true), I32), i);
        val all = interleave(e, v, n, 16);
        sg_jit_line(e, "store <%u x i32> %%t%u, ptr %%t%u, align 4", 16 * n, all, shared_pointer(e, h[i].at));
    }
    sg_jit_fast_end(e, &f, op);
    return true;
}

/* ---- global memory ----------------------------------------------------------------------------------------------- */
struct global {
    val at; /* i64: address of the first lane */
    val same, ok, range, size;
};

static val load_field(struct emit *e, val p, size_t offset, const char *type)
{
    val q = sg_jit_let(e, "getelementptr i8, ptr %%t%u, i64 %zu", p, offset);
    return sg_jit_let(e, "load %s, ptr %%t%u", type, q);
}

static struct global global_at(struct emit *e, const struct sg_op *op, unsigned step, bool store)
{
    struct global g;
    val a = sg_jit_row(e, op->a, I64), first = sg_jit_let(e, "extractelement <32 x i64> %%t%u, i64 0", a);
    val d = sg_jit_let(e, "sub <32 x i64> %%t%u, %%t%u", a, sg_jit_spread(e, I64, first));
    val line = all_of(e, 32, sg_jit_let(e, "icmp eq <32 x i64> %%t%u, %%t%u", d, row_of(e, "i64", 32, step)));
    val shape = line;
    g.same = 0;
    if (!store) {
        g.same = all_of(e, 32, sg_jit_let(e, "icmp eq <32 x i64> %%t%u, zeroinitializer", d));
        shape = or1(e, line, g.same);
        g.size = sg_jit_let(e, "select i1 %%t%u, i64 %u, i64 %u", g.same, step, 32 * step);
    } else {
        g.size = sg_jit_let(e, "add i64 0, %u", 32 * step);
    }
    g.at = sg_jit_let(e, "add i64 %%t%u, %lld", first, (long long)op->imm);
    val site = sg_jit_let(e, "getelementptr i8, ptr %%site, i64 %zu", op->site * sizeof(void *));
    g.range = sg_jit_let(e, "load ptr, ptr %%t%u", site);
    val base = load_field(e, g.range, offsetof(struct sg_range, base), "i64");
    val end = load_field(e, g.range, offsetof(struct sg_range, end), "i64");
    val off = sg_jit_let(e, "sub i64 %%t%u, %%t%u", g.at, base),
        bytes = sg_jit_let(e, "sub i64 %%t%u, %%t%u", end, base);
    val room = sg_jit_let(e, "sub i64 %%t%u, %%t%u", bytes, g.size);
    val large = sg_jit_let(e, "icmp uge i64 %%t%u, %%t%u", bytes, g.size);
    val inside = sg_jit_let(e, "icmp ule i64 %%t%u, %%t%u", off, room);
    val aligned = sg_jit_let(e, "icmp eq i64 %%t%u, 0", sg_jit_let(e, "and i64 %%t%u, %u", g.at, step - 1));
    g.ok = and1(e, and1(e, large, inside), and1(e, aligned, shape));
    if (store) {
        val ro = load_field(e, g.range, offsetof(struct sg_range, read_only), "i8");
        g.ok = and1(e, g.ok, sg_jit_let(e, "icmp eq i8 %%t%u, 0", ro));
    }
    return g;
}

static void global_count(struct emit *e, const struct sg_op *op, const struct global *g, bool store)
{
    unsigned l = e->labels + 1;
    e->labels += 2;
    sg_jit_line(e, "br i1 %%track, label %%l%u, label %%l%u", l, l + 1);
    access_label(e, l);
    long at = (long)(op - e->code->op) - (long)e->entry;
    val p = sg_jit_let(e, "getelementptr i8, ptr %%op, i64 %ld", at * (long)sizeof *op);
    sg_jit_line(e, "call void inttoptr (i64 %llu to ptr)(ptr %%w, ptr %%t%u, ptr %%t%u, i64 %%t%u, i64 %%t%u, i32 %d)",
                (unsigned long long)(uintptr_t)sg_track_range, p, g->range, g->at, g->size, store ? SG_WRITE : SG_READ);
    sg_jit_line(e, "br label %%l%u", l + 1);
    access_label(e, l + 1);
}

static bool global_load(struct emit *e, const struct sg_op *op, unsigned bytes)
{
    unsigned n = op->n;
    bool wide = bytes == 8;
    if (n * bytes > 16 || !(op->flags & SG_A64) || (bytes < 4 && (n > 1 || op->flags & (SG_D64 | SG_SIGNED))) ||
        (bytes == 4 && op->flags & SG_D64))
        return false;
    struct global g = global_at(e, op, bytes * n, false);
    struct fork f = sg_jit_fast(e, g.ok);
    global_count(e, op, &g, false);
    const char *type = bytes == 8 ? "i64" : bytes == 4 ? "i32" : bytes == 2 ? "i16" : "i8";
    val p = sg_jit_let(e, "inttoptr i64 %%t%u to ptr", g.at), same[4], line[4];
    unsigned l = e->labels + 1;
    e->labels += 3;
    sg_jit_line(e, "br i1 %%t%u, label %%l%u, label %%l%u", g.same, l, l + 1);
    access_label(e, l);
    for (unsigned i = 0; i < n; i++) {
        val q = sg_jit_let(e, "getelementptr i8, ptr %%t%u, i64 %u", p, bytes * i);
        val x = sg_jit_let(e, "load %s, ptr %%t%u, align %u", type, q, bytes);
        if (bytes < 4)
            x = sg_jit_let(e, "zext %s %%t%u to i32", type, x);
        same[i] = sg_jit_spread(e, wide ? I64 : I32, x);
    }
    sg_jit_line(e, "br label %%l%u", l + 2);
    access_label(e, l + 1);
    val all = sg_jit_let(e, "load <%u x %s>, ptr %%t%u, align %u", 32 * n, type, p, bytes);
    for (unsigned i = 0; i < n; i++) {
        line[i] = ++e->n;
        if (!e->scan) {
            dt_str_addf(&e->s, "  %%t%u = shufflevector <%u x %s> %%t%u, <%u x %s> poison, <32 x i32> <", line[i],
                        32 * n, type, all, 32 * n, type);
            for (unsigned k = 0; k < 32; k++)
                dt_str_addf(&e->s, "%si32 %u", k ? ", " : "", k * n + i);
            dt_str_add(&e->s, ">\n");
        }
        if (bytes < 4)
            line[i] = sg_jit_let(e, "zext <32 x %s> %%t%u to <32 x i32>", type, line[i]);
    }
    sg_jit_line(e, "br label %%l%u", l + 2);
    access_label(e, l + 2);
    for (unsigned i = 0; i < n; i++)
        line[i] = sg_jit_let(e, "phi %s [ %%t%u, %%l%u ], [ %%t%u, %%l%u ]", sg_jit_type[wide ? I64 : I32], same[i], l,
                             line[i], l + 1);
    for (unsigned i = 0; i < n; i++)
        sg_jit_put(e, access_element(e, op, i, false), wide ? I64 : I32, line[i]);
    sg_jit_fast_end(e, &f, op);
    return true;
}

static bool global_store(struct emit *e, const struct sg_op *op, unsigned bytes)
{
    unsigned n = op->n;
    if (n * bytes > 16 || !(op->flags & SG_A64) || (bytes != 4 && n > 1))
        return false;
    struct global g = global_at(e, op, bytes * n, true);
    struct fork f = sg_jit_fast(e, g.ok);
    global_count(e, op, &g, true);
    val p = sg_jit_let(e, "inttoptr i64 %%t%u to ptr", g.at), v[4];
    for (unsigned i = 0; i < n; i++)
        v[i] = sg_jit_row(e, access_element(e, op, i, true), bytes == 8 ? I64 : I32);
    if (bytes == 8) {
        sg_jit_line(e, "store <32 x i64> %%t%u, ptr %%t%u, align 8", v[0], p);
    } else if (bytes == 4) {
        sg_jit_line(e, "store <%u x i32> %%t%u, ptr %%t%u, align 4", 32 * n, interleave(e, v, n, 32), p);
    } else {
        const char *type = bytes == 2 ? "i16" : "i8";
        val x = sg_jit_let(e, "trunc <32 x i32> %%t%u to <32 x %s>", v[0], type);
        sg_jit_line(e, "store <32 x %s> %%t%u, ptr %%t%u, align %u", type, x, p, bytes);
    }
    sg_jit_fast_end(e, &f, op);
    return true;
}

bool sg_jit_access(struct emit *e, const struct sg_op *op, int h)
{
    if (e->masked || e->only || !op->n)
        return false;
    switch (h) {
    case SG_H_LD_SHARED_32: return shared_load(e, op);
    case SG_H_ST_SHARED_32: return shared_store(e, op);
    case SG_H_LD_GLOBAL_8: return global_load(e, op, 1);
    case SG_H_LD_GLOBAL_16: return global_load(e, op, 2);
    case SG_H_LD_GLOBAL_32: return global_load(e, op, 4);
    case SG_H_LD_GLOBAL_64: return global_load(e, op, 8);
    case SG_H_ST_GLOBAL_8: return global_store(e, op, 1);
    case SG_H_ST_GLOBAL_16: return global_store(e, op, 2);
    case SG_H_ST_GLOBAL_32: return global_store(e, op, 4);
    case SG_H_ST_GLOBAL_64: return global_store(e, op, 8);
    default: return false;
    }
}
