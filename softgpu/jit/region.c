/* A region as a function in LLVM's language: which basic blocks it has, and how each begins, goes on and ends.
 *
 * The function has the type of a handler and stands for the BB operation where the region begins. There are two kinds:
 * one for a warp whose 32 lanes are all active, which leaves the region where lanes part; and a masked one for any
 * other, in which basic blocks look for diverged lanes as the interpreter's do. Both leave it where the warp may have
 * to wait, where fuel is spent, and at basic blocks that are not in it; then all rows that changed are in memory.
 *
 * The text is made twice: first without writing anything, to find the rows that the region uses.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/jit/jit-priv.h"

enum { MOST_OPS = 3000, MOST_BLOCKS = 250 };

static const struct sg_op *op_at(const struct emit *e, uint32_t i) { return &e->code->op[i]; }

static bool is_bb(const struct sg_op *op) { return op->flags & SG_IS_BB; }

/* Operations behind which the warp is usually elsewhere. */
static bool leaves(const struct sg_op *op)
{
    sg_fn f = op->fn == sg_guarded ? op->inner : op->fn;
    return f == sg_bar || f == sg_bar_result || f == sg_brx || f == sg_call || f == sg_return || f == sg_cluster_wait ||
           f == sg_wgmma || f == sg_mbarrier || f == sg_griddepcontrol ||
           ((f == sg_exit || f == sg_trap) && op->guard == SG_NONE);
}

/* The operation behind the last one of the basic block that begins at `from`. */
static uint32_t block_end(const struct emit *e, uint32_t from)
{
    uint32_t i = from + 1;
    while (i < e->code->nop && !is_bb(op_at(e, i)))
        i++;
    return i;
}

static bool region_take(struct emit *e, uint32_t at)
{
    if (at >= e->code->nop || !is_bb(op_at(e, at)) || e->in[op_at(e, at)->x])
        return true;
    e->in[op_at(e, at)->x] = 1;
    return dt_push(&e->blocks, at);
}

/* Basic blocks from the entry on, breadth first, until there are enough. */
static bool collect(struct emit *e)
{
    uint32_t ops = 0;
    bool ok = region_take(e, e->entry);
    for (size_t k = 0; ok && k < e->blocks.n; k++) {
        uint32_t from = e->blocks.p[k], end = block_end(e, from);
        ops += end - from;
        const struct sg_op *last = op_at(e, end - 1);
        if (ops > MOST_OPS || e->blocks.n > MOST_BLOCKS)
            break;
        if (last->fn == sg_bra)
            ok = region_take(e, (uint32_t)((int64_t)end - 1 + last->imm));
        if (ok && !leaves(last) && !(last->fn == sg_bra && last->guard == SG_NONE))
            ok = region_take(e, end);
    }
    return ok;
}

void sg_jit_rows(const struct emit *e, const struct sg_op *op, struct rows *r)
{
    sg_fn f = op->fn == sg_guarded ? op->inner : op->fn;
    int h = sg_jit_lane_number(f);
    if (h < 0)
        r->all = true;
    else
        sg_jit_lane_rows(h, op, e->code, r);
    if (op->fn == sg_guarded && !r->all) {
        r->read[r->reads] = op->guard;
        r->read_kind[r->reads++] = PRED;
    }
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */
static val op_pointer(struct emit *e, uint32_t i)
{
    return sg_jit_let(e, "getelementptr i8, ptr %%op, i64 %ld",
                      ((long)i - (long)e->entry) * (long)sizeof(struct sg_op));
}

static void label_bb(struct emit *e, uint32_t at)
{
    if (!e->scan)
        dt_str_addf(&e->s, "bb%u:\n", at);
}

static void region_label(struct emit *e, unsigned l)
{
    if (!e->scan)
        dt_str_addf(&e->s, "l%u:\n", l);
}

static val call_handler(struct emit *e, const void *f, val op)
{
    return sg_jit_let(e, "call ptr inttoptr (i64 %llu to ptr)(ptr %%w, ptr %%t%u)", (unsigned long long)(uintptr_t)f,
                      op);
}

/* All ways out go through one place, which writes the rows to memory and calls handler f, or, if it is NULL, only
 * returns operation i. */
static void leave_by(struct emit *e, const void *f, uint32_t i)
{
    sg_jit_settle(e);
    sg_jit_line(e, "store ptr %%t%u, ptr %%out.op", op_pointer(e, i));
    sg_jit_line(e, "store i64 %llu, ptr %%out.fn", (unsigned long long)(uintptr_t)f);
    sg_jit_line(e, "br label %%out");
}

static void way_out(struct emit *e)
{
    if (!e->scan)
        dt_str_add(&e->s, "out:\n");
    sg_jit_save_all(e);
    val op = sg_jit_let(e, "load ptr, ptr %%out.op"), fn = sg_jit_let(e, "load i64, ptr %%out.fn"),
        none = sg_jit_let(e, "icmp eq i64 %%t%u, 0", fn);
    unsigned l = e->labels + 1;
    e->labels += 2;
    sg_jit_line(e, "br i1 %%t%u, label %%l%u, label %%l%u", none, l, l + 1);
    region_label(e, l);
    sg_jit_line(e, "ret ptr %%t%u", op);
    region_label(e, l + 1);
    val p = sg_jit_let(e, "inttoptr i64 %%t%u to ptr", fn);
    sg_jit_line(e, "ret ptr %%t%u", sg_jit_let(e, "call ptr %%t%u(ptr %%w, ptr %%t%u)", p, op));
}

static void go_to(struct emit *e, uint32_t at)
{
    sg_jit_settle(e);
    if (at < e->code->nop && is_bb(op_at(e, at)) && e->in[op_at(e, at)->x] == 2) {
        sg_jit_line(e, "br label %%bb%u", at);
        return;
    }
    leave_by(e, NULL, at);
}

/* ---- a basic block ----------------------------------------------------------------------------------------------- */
static val field(struct emit *e, const char *base, size_t offset, const char *type, val *ret_at)
{
    val p = sg_jit_let(e, "getelementptr i8, ptr %%%s, i64 %zu", base, offset);
    if (ret_at)
        *ret_at = p;
    return sg_jit_let(e, "load %s, ptr %%t%u", type, p);
}

static void add_to(struct emit *e, const char *base, size_t offset, val lanes, uint64_t by)
{
    val p, old = field(e, base, offset, "i64", &p), n;
    if (lanes)
        n = sg_jit_let(e, "mul i64 %%t%u, %llu", lanes, (unsigned long long)by);
    else
        n = sg_jit_let(e, "add i64 %lld, 0", (long long)by);
    val sum = sg_jit_let(e, "add i64 %%t%u, %%t%u", old, n);
    sg_jit_line(e, "store i64 %%t%u, ptr %%t%u", sum, p);
}

static void begin_block(struct emit *e, uint32_t at)
{
    const struct sg_bb *b = &e->code->bb[op_at(e, at)->x];
    unsigned l;
    label_bb(e, at);
    val lanes = 0;
    if (e->masked) {
        val others = field(e, "w", offsetof(struct sg_warp, nfrag), "i32", NULL);
        l = e->labels + 1;
        e->labels += 3;
        sg_jit_line(e, "br i1 %%t%u, label %%l%u, label %%l%u", sg_jit_let(e, "icmp eq i32 %%t%u, 0", others), l + 2,
                    l);
        region_label(e, l);
        val here = op_pointer(e, at), got = call_handler(e, (const void *)sg_switch, here);
        sg_jit_line(e, "br i1 %%t%u, label %%l%u, label %%l%u", sg_jit_let(e, "icmp eq ptr %%t%u, %%t%u", got, here),
                    l + 2, l + 1);
        region_label(e, l + 1);
        sg_jit_line(e, "store ptr %%t%u, ptr %%out.op", got);
        sg_jit_line(e, "store i64 0, ptr %%out.fn");
        sg_jit_line(e, "br label %%out");
        region_label(e, l + 2);
        val mask = field(e, "w", offsetof(struct sg_warp, mask), "i32", NULL);
        sg_jit_line(e, "store i32 %%t%u, ptr %%mask", mask);
        /* where no lane that lives is inactive, rows are computed for dead lanes too, as the interpreter does */
        val full = field(e, "w", offsetof(struct sg_warp, full), "i32", NULL);
        full = sg_jit_let(e, "icmp ne i32 %%t%u, 0", full);
        sg_jit_line(e, "store i32 %%t%u, ptr %%wide", sg_jit_let(e, "select i1 %%t%u, i32 -1, i32 %%t%u", full, mask));
        lanes = sg_jit_let(e, "zext i32 %%t%u to i64", sg_jit_let(e, "call i32 @llvm.ctpop.i32(i32 %%t%u)", mask));
    }
    val fuel_at, fuel = field(e, "w", offsetof(struct sg_warp, fuel), "i64", &fuel_at);
    l = e->labels + 1;
    e->labels += 2;
    sg_jit_line(e, "br i1 %%t%u, label %%l%u, label %%l%u, !prof !2", sg_jit_let(e, "icmp sle i64 %%t%u, 0", fuel), l,
                l + 1);
    region_label(e, l);
    leave_by(e, (const void *)sg_out_of_fuel, at);
    region_label(e, l + 1);
    sg_jit_line(e, "store i64 %%t%u, ptr %%t%u", sg_jit_let(e, "sub i64 %%t%u, %u", fuel, b->ops), fuel_at);
    size_t t = op_at(e, at)->x * sizeof(struct sg_times);
    add_to(e, "times", t + offsetof(struct sg_times, lanes), lanes, lanes ? 1 : SG_LANES);
    add_to(e, "times", t + offsetof(struct sg_times, warps), 0, 1);
    add_to(e, "wk", offsetof(struct sg_worker, executed), lanes,
           lanes ? b->instructions : SG_LANES * (uint64_t)b->instructions);
    add_to(e, "w", offsetof(struct sg_warp, issued), 0, b->instructions);
}

static val region_guard(struct emit *e, const struct sg_op *op)
{
    val p = sg_jit_pred(e, op->guard);
    return op->flags & SG_GUARD_NOT ? sg_jit_let(e, "xor i32 %%t%u, -1", p) : p;
}

/* Lanes that the operation is for: *e->only, *e->only_bits. */
static void region_narrow(struct emit *e, const struct sg_op *op)
{
    e->only = e->only_bits = 0;
    val rows = 0;
    if (e->masked) {
        e->only_bits = sg_jit_let(e, "load i32, ptr %%mask");
        rows = sg_jit_let(e, "load i32, ptr %%wide");
    }
    if (op->fn == sg_guarded) {
        rows = 0;
        val p = region_guard(e, op);
        e->only_bits = e->only_bits ? sg_jit_let(e, "and i32 %%t%u, %%t%u", e->only_bits, p) : p;
    }
    if (e->only_bits)
        e->only = sg_jit_lanes(e, rows ? rows : e->only_bits);
}

static bool is_access(int h) { return h >= SG_H_LD_GLOBAL_8 && h <= SG_H_ST_SHARED_64; }

static void plain(struct emit *e, const struct sg_op *op)
{
    int h = sg_jit_lane_number(op->fn == sg_guarded ? op->inner : op->fn);
    if (h >= 0 && is_access(h) && !e->masked && op->fn == sg_guarded) {
        val all = sg_jit_let(e, "icmp eq i32 %%t%u, -1", region_guard(e, op));
        size_t n = e->var.n;
        struct var *before = dt_malloc((n + 1) * sizeof *before);
        if (!before) {
            e->s.failed = true;
            return;
        }
        memcpy(before, e->var.p, n * sizeof *before);
        struct fork f = sg_jit_fast(e, all);
        if (!sg_jit_access(e, op, h)) {
            sg_jit_handler(e, op);
            for (size_t i = 0; i < n; i++) { /* what that wrote to memory, the other way has not yet */
                struct var *v = &e->var.p[i];
                v->dirty |= before[i].dirty;
                v->raw = v->raw == before[i].raw ? v->raw : BY_FLAG;
            }
        }
        sg_jit_fast_end(e, &f, op);
        free(before);
        return;
    }
    if (h < 0 || is_access(h)) {
        if (h < 0 || !sg_jit_access(e, op, h))
            sg_jit_handler(e, op);
        return;
    }
    region_narrow(e, op);
    bool done = sg_jit_lane(e, op, h);
    e->only = e->only_bits = 0;
    if (!done)
        sg_jit_handler(e, op);
}

/* bra, exit and trap behind a predicate. */
static void part(struct emit *e, const struct sg_op *op, uint32_t i)
{
    val t = region_guard(e, op), all = 0;
    if (e->masked) {
        all = sg_jit_let(e, "load i32, ptr %%mask");
        t = sg_jit_let(e, "and i32 %%t%u, %%t%u", t, all);
    }
    unsigned l = e->labels + 1;
    e->labels += 4;
    sg_jit_settle(e);
    sg_jit_line(e, "br i1 %%t%u, label %%l%u, label %%l%u", sg_jit_let(e, "icmp eq i32 %%t%u, 0", t), l, l + 1);
    region_label(e, l);
    go_to(e, i + 1);
    region_label(e, l + 1);
    if (op->fn == sg_bra) {
        val same = all ? sg_jit_let(e, "icmp eq i32 %%t%u, %%t%u", t, all) : sg_jit_let(e, "icmp eq i32 %%t%u, -1", t);
        sg_jit_line(e, "br i1 %%t%u, label %%l%u, label %%l%u", same, l + 2, l + 3);
        region_label(e, l + 2);
        go_to(e, (uint32_t)((int64_t)i + op->imm));
        region_label(e, l + 3);
    }
    leave_by(e, (const void *)op->fn, i);
}

static void whole_block(struct emit *e, uint32_t from)
{
    uint32_t end = block_end(e, from);
    for (size_t i = 0; i < e->var.n; i++) {
        struct var *v = &e->var.p[i];
        v->dirty = v->written && (from != e->entry || e->back);
        v->raw = v->ever_raw ? BY_FLAG : CLEAN;
        v->version++;
    }
    begin_block(e, from);
    for (uint32_t i = from + 1; i < end; i++) {
        const struct sg_op *op = op_at(e, i);
        if (op->fn == sg_bra && op->guard == SG_NONE) {
            go_to(e, (uint32_t)((int64_t)i + op->imm));
            return;
        }
        if (leaves(op)) {
            leave_by(e, (const void *)op->fn, i);
            return;
        }
        if (op->fn == sg_bra || op->fn == sg_exit || op->fn == sg_trap) {
            part(e, op, i);
            return;
        }
        plain(e, op);
    }
    go_to(e, end);
}

/* ---- the function ------------------------------------------------------------------------------------------------ */
/* A member that does not change while the region runs, as %name. */
static void begin_with(struct dt_str *s, const char *name, const char *of, size_t offset, const char *type)
{
    dt_str_addf(s, "  %%%s.at = getelementptr i8, ptr %%%s, i64 %zu\n", name, of, offset);
    dt_str_addf(s, "  %%%s = load %s, ptr %%%s.at\n", name, type, name);
}

static void prologue(struct emit *e)
{
    struct dt_str *s = &e->s;
    static const char *const letter[] = {"r", "w", "p"}, *const type[] = {"<32 x i32>", "<32 x i64>", "i32"};
    dt_str_add(s,
               "define ptr @sg_region(ptr %w, ptr %op) #0 {\nentry:\n  %out.op = alloca ptr\n  %out.fn = alloca i64\n");
    if (e->masked)
        dt_str_add(s, "  %mask = alloca i32\n  %wide = alloca i32\n");
    for (size_t i = 0; i < e->var.n; i++) { /* in the entry, or LLVM leaves them in memory */
        const struct var *v = &e->var.p[i];
        dt_str_addf(s, "  %%%s%u = alloca %s\n", letter[v->kind], v->at, type[v->kind]);
        if (v->ever_raw)
            dt_str_addf(s, "  %%n%s%u = alloca i1\n", letter[v->kind], v->at);
    }
    begin_with(s, "wk", "w", offsetof(struct sg_warp, wk), "ptr");
    if (!e->masked) {
        begin_with(s, "m", "w", offsetof(struct sg_warp, mask), "i32");
        begin_with(s, "blk", "w", offsetof(struct sg_warp, blk), "ptr");
        begin_with(s, "fol", "blk", offsetof(struct sg_block, follow), "ptr");
        begin_with(s, "race", "wk", offsetof(struct sg_worker, race), "i8");
        dt_str_add(s, "  %c1 = icmp eq i32 %m, -1\n  %c2 = icmp eq ptr %fol, null\n  %c3 = icmp eq i8 %race, 0\n"
                      "  %c4 = and i1 %c1, %c2\n  %c5 = and i1 %c4, %c3\n  br i1 %c5, label %start, label %other, "
                      "!prof !1\nother:\n");
        dt_str_addf(s, "  %%o = tail call ptr inttoptr (i64 %llu to ptr)(ptr %%w, ptr %%op)\n  ret ptr %%o\nstart:\n",
                    (unsigned long long)(uintptr_t)sg_jit_bb);
    }
    static const char *const base[] = {"regs", "konst", "bkonst"};
    for (unsigned i = 0; i < 3; i++)
        begin_with(s, base[i], "w", offsetof(struct sg_warp, base) + i * sizeof(void *), "ptr");
    begin_with(s, "shared", "w", offsetof(struct sg_warp, shared), "ptr");
    begin_with(s, "shared_bytes", "w", offsetof(struct sg_warp, shared_bytes), "i64");
    begin_with(s, "site", "wk", offsetof(struct sg_worker, site), "ptr");
    begin_with(s, "times", "wk", offsetof(struct sg_worker, bb), "ptr");
    begin_with(s, "tr", "wk", offsetof(struct sg_worker, track), "i8");
    dt_str_add(s, "  %track = icmp ne i8 %tr, 0\n");
    for (size_t i = 0; i < e->var.n; i++) {
        const struct var *v = &e->var.p[i];
        if (v->ever_raw)
            dt_str_addf(s, "  store i1 0, ptr %%n%s%u\n", letter[v->kind], v->at);
        val p = ++e->n, x = ++e->n;
        dt_str_addf(s, "  %%t%u = getelementptr i8, ptr %%regs, i64 %u\n  %%t%u = load %s, ptr %%t%u, align 4\n", p,
                    v->at, x, type[v->kind], p);
        dt_str_addf(s, "  store %s %%t%u, ptr %%%s%u\n", type[v->kind], x, letter[v->kind], v->at);
    }
}

static const char epilogue[] =
    "}\n"
    "declare <32 x float> @llvm.fma.v32f32(<32 x float>, <32 x float>, <32 x float>)\n"
    "declare <32 x double> @llvm.fma.v32f64(<32 x double>, <32 x double>, <32 x double>)\n"
    "declare <32 x float> @llvm.sqrt.v32f32(<32 x float>)\n"
    "declare <32 x double> @llvm.sqrt.v32f64(<32 x double>)\n"
    "declare <32 x i32> @llvm.ctpop.v32i32(<32 x i32>)\n"
    "declare <32 x i32> @llvm.bitreverse.v32i32(<32 x i32>)\n"
    "declare <32 x i32> @llvm.fshl.v32i32(<32 x i32>, <32 x i32>, <32 x i32>)\n"
    "declare <32 x i32> @llvm.fshr.v32i32(<32 x i32>, <32 x i32>, <32 x i32>)\n"
    "declare i32 @llvm.ctpop.i32(i32)\n"
    "declare <16 x i32> @llvm.x86.avx512.permvar.si.512(<16 x i32>, <16 x i32>)\n"
    "declare <16 x float> @llvm.x86.avx512.vfmadd.ps.512(<16 x float>, <16 x float>, <16 x float>, i32 immarg)\n"
    "declare <16 x float> @llvm.x86.avx512.add.ps.512(<16 x float>, <16 x float>, i32 immarg)\n"
    "declare <16 x float> @llvm.x86.avx512.mul.ps.512(<16 x float>, <16 x float>, i32 immarg)\n"
    "declare <16 x float> @llvm.x86.avx512.mask.vcvtph2ps.512(<16 x i16>, <16 x float>, i16, i32 immarg)\n"
    "declare <16 x i16> @llvm.x86.avx512.mask.vcvtps2ph.512(<16 x float>, i32 immarg, <16 x i16>, i16)\n"
    "attributes #0 = { nounwind \"prefer-vector-width\"=\"512\" \"min-legal-vector-width\"=\"512\" }\n"
    "!0 = !{}\n"
    "!1 = !{!\"branch_weights\", i32 1000, i32 1}\n"
    "!2 = !{!\"branch_weights\", i32 1, i32 1000}\n";

static void fill_constants(struct emit *e)
{
    const struct sg_code *c = e->code;
    for (uint32_t at = 0; at < SG_K_FIXED && at < c->konst_bytes; at += 4)
        e->filled[at / 4] = at != SG_K_FALSE && at != SG_K_TRUE && !(at >= SG_K_ZERO64 && at < SG_K_ZERO64 + 256);
    for (uint32_t i = 0; i < c->nparam; i++)
        for (uint32_t k = 0; k < (c->param[i].wide ? 64u : 32u) && (c->param[i].to / 4 + k) * 4 < c->konst_bytes; k++)
            e->filled[c->param[i].to / 4 + k] = 1;
}

bool sg_jit_region(const struct sg_code *c, uint32_t op, bool masked, struct dt_str *ret)
{
    struct emit e = {.code = c, .entry = op, .masked = masked, .scan = true};
    uint32_t slots = c->reg_bytes / 4 + 64;
    e.in = dt_calloc(c->nbb + 1, 1);
    e.filled = dt_calloc(c->konst_bytes / 4 + 1, 1);
    bool ok = e.in && e.filled;
    for (unsigned k = 0; k < KINDS; k++)
        ok &= (e.find[k] = dt_calloc(slots, sizeof *e.find[k])) != NULL;
    if (ok && (ok = collect(&e))) {
        fill_constants(&e);
        size_t n = 0;
        uint32_t ops = 0;
        for (; n < e.blocks.n && n < MOST_BLOCKS; n++) {
            ops += block_end(&e, e.blocks.p[n]) - e.blocks.p[n];
            if (n && ops > MOST_OPS)
                break;
        }
        e.blocks.n = n;
        for (size_t i = 0; i < n; i++)
            e.in[op_at(&e, e.blocks.p[i])->x] = 2;
        for (size_t i = 0; i < n && !e.back; i++) { /* does something come back to the entry? */
            const struct sg_op *last = op_at(&e, block_end(&e, e.blocks.p[i]) - 1);
            e.back =
                (last->fn == sg_bra && (int64_t)(last - c->op) + last->imm == op) || block_end(&e, e.blocks.p[i]) == op;
        }
        for (size_t i = 0; i < n; i++)
            whole_block(&e, e.blocks.p[i]);
        way_out(&e);
        e.scan = false;
        e.n = e.labels = 0;
        e.constant.n = 0;
        e.shapes = 0;
        memset(e.shape, 0, sizeof e.shape);
        prologue(&e);
        struct dt_str begin = e.s;
        e.s = (struct dt_str){0};
        for (size_t i = 0; i < n; i++)
            whole_block(&e, e.blocks.p[i]);
        way_out(&e);
        dt_str_addn(&begin, e.head.s, e.head.len);
        dt_str_addf(&begin, "  br label %%bb%u\n", op);
        dt_str_addn(&begin, e.s.s, e.s.len);
        begin.failed |= e.s.failed | e.head.failed;
        dt_str_done(&e.s);
        e.s = begin;
        dt_str_add(&e.s, epilogue);
    }
    ok = ok && !e.s.failed;
    for (unsigned k = 0; k < KINDS; k++)
        free(e.find[k]);
    free(e.in);
    free(e.filled);
    free(e.blocks.p);
    free(e.var.p);
    free(e.constant.p);
    dt_str_done(&e.head);
    *ret = e.s;
    if (!ok)
        dt_str_done(ret);
    return ok;
}
