/* Registers as variables of a region: reading, writing, and going to and from the rows in memory. See jit-priv.h.
 *
 * NaNs. PTX has one NaN of a type as the result of arithmetic, the CPU several. What an arithmetic operation wrote is
 * kept as the CPU made it, with a flag (a variable too, which LLVM mostly knows) that says so; whoever looks at bits,
 * or writes the row to memory, replaces its NaNs then. Floating-point arithmetic and comparisons do not look at bits.
 */
#include <stddef.h>

#include "softgpu/jit/jit-priv.h"

static bool ref_is_register(uint32_t ref) { return (ref & 3) != 1 && (ref & 3) != 2; }
static bool is_wide(enum vt t) { return t == I64 || t == F64; }

bool sg_jit_known(const struct emit *e, uint32_t ref, bool wide, uint64_t *ret)
{
    uint32_t at = ref & ~3u;
    if ((ref & 3) != 1 || at + (wide ? 8 : 4) > e->code->konst_bytes)
        return false;
    if (at >= SG_K_LANEID && at < SG_K_NTID)
        return false;
    if (e->filled[at / 4])
        return false;
    *ret = 0;
    for (unsigned i = 0; i < (wide ? 8u : 4u); i++)
        *ret |= (uint64_t)e->code->konst[at + i] << 8 * i;
    return true;
}

struct var *sg_jit_variable(struct emit *e, uint32_t ref, enum var_kind k)
{
    uint32_t *slot = &e->find[k][(ref & ~3u) / 4];
    if (!*slot) {
        struct var v = {.at = ref & ~3u, .kind = (uint8_t)k};
        if (!dt_push(&e->var, v)) {
            e->s.failed = true;
            static struct var none;
            return &none;
        }
        *slot = (uint32_t)e->var.n;
    }
    return &e->var.p[*slot - 1];
}

/* The other view of the same bytes. */
static void rows_written(struct emit *e, struct var *v, enum raw raw)
{
    v->written = v->dirty = true;
    v->ever_raw |= raw != CLEAN;
    v->raw = (uint8_t)raw;
    v->version++;
    if (v->kind != PRED) {
        uint32_t other = e->find[v->kind == ROW32 ? ROW64 : ROW32][v->at / 4];
        if (other)
            e->var.p[other - 1].dirty = false;
    }
}

static const char *letter(unsigned kind) { return kind == ROW32 ? "r" : kind == ROW64 ? "w" : "p"; }
static const char *type_of(unsigned kind)
{
    return kind == ROW32 ? "<32 x i32>" : kind == ROW64 ? "<32 x i64>" : "i32";
}

static val rows_constant(struct emit *e, uint32_t ref, enum vt t)
{
    uint64_t bits;
    bool wide = is_wide(t);
    const char *base = (ref & 3) == 1 ? "konst" : "bkonst";
    uint32_t at = ref & ~3u;
    if (sg_jit_known(e, ref, wide, &bits))
        return sg_jit_splat(e, t, bits);
    val p = sg_jit_let(e, "getelementptr i8, ptr %%%s, i64 %u", base, at);
    enum vt as = wide ? I64 : I32;
    val v;
    if ((ref & 3) == 1 && at >= SG_K_LANEID && at < SG_K_NTID) {
        v = sg_jit_let(e, "load <32 x i32>, ptr %%t%u, align 4, !invariant.load !0", p);
    } else {
        val one = sg_jit_let(e, "load %s, ptr %%t%u, align 4, !invariant.load !0", wide ? "i64" : "i32", p);
        v = sg_jit_spread(e, as, one);
    }
    return t == F32 || t == F64 ? sg_jit_cast(e, "bitcast", as, v, t) : v;
}

static void store(struct emit *e, const struct var *v, val x)
{
    sg_jit_line(e, "store %s %%t%u, ptr %%%s%u", type_of(v->kind), x, letter(v->kind), v->at);
}

/* The flag is there only for variables that are ever raw. */
static void store_flag(struct emit *e, const struct var *v, bool raw)
{
    if (v->ever_raw)
        sg_jit_line(e, "store i1 %d, ptr %%n%s%u", raw, letter(v->kind), v->at);
}

static val load_flag(struct emit *e, const struct var *v)
{
    return v->raw == BY_FLAG ? sg_jit_let(e, "load i1, ptr %%n%s%u", letter(v->kind), v->at) : 0;
}

val sg_jit_row_any(struct emit *e, uint32_t ref, enum vt t)
{
    if ((ref & 3) == 1 || (ref & 3) == 2)
        return rows_constant(e, ref, t);
    const struct var *v = sg_jit_variable(e, ref, is_wide(t) ? ROW64 : ROW32);
    return sg_jit_let(e, "load %s, ptr %%%s%u", type_of(v->kind), letter(v->kind), v->at);
}

val sg_jit_row(struct emit *e, uint32_t ref, enum vt t)
{
    if ((ref & 3) == 1 || (ref & 3) == 2)
        return rows_constant(e, ref, t);
    bool wide = is_wide(t), bits = t == I32 || t == I64;
    const struct var *v = sg_jit_variable(e, ref, wide ? ROW64 : ROW32);
    val x = sg_jit_row_any(e, ref, wide ? I64 : I32);
    if (!bits)
        return sg_jit_cast(e, "bitcast", wide ? I64 : I32, x, t);
    return v->raw == CLEAN ? x : sg_jit_canon(e, t, x, load_flag(e, v));
}

val sg_jit_pred(struct emit *e, uint32_t ref)
{
    uint64_t bits;
    if (sg_jit_known(e, ref, false, &bits))
        return sg_jit_let(e, "add i32 %d, 0", (int)(uint32_t)bits);
    if ((ref & 3) == 1 || (ref & 3) == 2) {
        val p = sg_jit_let(e, "getelementptr i8, ptr %%%s, i64 %u", (ref & 3) == 1 ? "konst" : "bkonst", ref & ~3u);
        return sg_jit_let(e, "load i32, ptr %%t%u, align 4", p);
    }
    return sg_jit_let(e, "load i32, ptr %%p%u", sg_jit_variable(e, ref, PRED)->at);
}

void sg_jit_put(struct emit *e, uint32_t ref, enum vt t, val x)
{
    bool wide = is_wide(t), raw = t == F32 || t == F64;
    enum vt as = wide ? I64 : I32;
    if (raw)
        x = sg_jit_cast(e, "bitcast", t, x, as);
    if (e->only) {
        if (raw)
            x = sg_jit_canon(e, as, x, 0), raw = false;
        x = sg_jit_select(e, e->only, as, x, sg_jit_row(e, ref, as));
    }
    struct var *v = sg_jit_variable(e, ref, wide ? ROW64 : ROW32);
    rows_written(e, v, raw ? RAW : CLEAN);
    store(e, v, x);
    store_flag(e, v, raw);
}

void sg_jit_copy(struct emit *e, uint32_t to, uint32_t from, bool wide)
{
    enum vt t = wide ? I64 : I32;
    enum raw raw = (ref_is_register(from) ? sg_jit_variable(e, from, wide ? ROW64 : ROW32)->raw : CLEAN);
    if (e->only || raw == BY_FLAG) {
        sg_jit_put(e, to, t, sg_jit_row(e, from, t));
        return;
    }
    val x = sg_jit_row_any(e, from, t);
    struct var *v = sg_jit_variable(e, to, wide ? ROW64 : ROW32);
    rows_written(e, v, raw);
    store(e, v, x);
    store_flag(e, v, raw == RAW);
}

void sg_jit_put_pred(struct emit *e, uint32_t ref, val x)
{
    if (e->only_bits) {
        val old = sg_jit_pred(e, ref), keep = sg_jit_let(e, "xor i32 %%t%u, -1", e->only_bits);
        old = sg_jit_let(e, "and i32 %%t%u, %%t%u", old, keep);
        x = sg_jit_let(e, "and i32 %%t%u, %%t%u", x, e->only_bits);
        x = sg_jit_let(e, "or i32 %%t%u, %%t%u", x, old);
    }
    struct var *v = sg_jit_variable(e, ref, PRED);
    rows_written(e, v, CLEAN);
    store(e, v, x);
}

/* ---- to and from memory ------------------------------------------------------------------------------------------ */
static val place(struct emit *e, const struct var *v)
{
    return sg_jit_let(e, "getelementptr i8, ptr %%regs, i64 %u", v->at);
}

/* To memory; the variable has no NaNs of its own then. */
static void save(struct emit *e, struct var *v)
{
    val x = sg_jit_let(e, "load %s, ptr %%%s%u", type_of(v->kind), letter(v->kind), v->at);
    if (v->kind != PRED && v->raw != CLEAN) {
        x = sg_jit_canon(e, v->kind == ROW64 ? I64 : I32, x, load_flag(e, v));
        store(e, v, x);
        store_flag(e, v, false);
        v->raw = CLEAN;
    }
    val p = place(e, v);
    sg_jit_line(e, "store %s %%t%u, ptr %%t%u, align 4", type_of(v->kind), x, p);
    v->dirty = false;
}

static void load(struct emit *e, struct var *v)
{
    val p = place(e, v);
    store(e, v, sg_jit_let(e, "load %s, ptr %%t%u, align 4", type_of(v->kind), p));
    v->raw = CLEAN;
    v->version++;
    store_flag(e, v, false);
}

void sg_jit_flush(struct emit *e, const struct rows *r)
{
    for (size_t i = 0; r->all && i < e->var.n; i++)
        if (e->var.p[i].dirty)
            save(e, &e->var.p[i]);
    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned i = 0; i < (pass ? r->writes : r->reads); i++) {
            uint32_t ref = pass ? r->write[i] : r->read[i];
            if (!ref_is_register(ref))
                continue;
            struct var *v = sg_jit_variable(e, ref, pass ? r->write_kind[i] : r->read_kind[i]);
            if (v->dirty)
                save(e, v);
        }
}

void sg_jit_save_all(struct emit *e)
{
    for (size_t i = 0; i < e->var.n; i++) {
        struct var *v = &e->var.p[i];
        bool both = v->kind != PRED && e->find[ROW32][v->at / 4] && e->find[ROW64][v->at / 4]; /* sg_jit_settle */
        if (v->written && !both) {
            v->raw = v->ever_raw ? BY_FLAG : CLEAN;
            save(e, v);
        }
    }
}

void sg_jit_reload(struct emit *e, const struct rows *r)
{
    for (size_t i = 0; r->all && i < e->var.n; i++) {
        load(e, &e->var.p[i]);
        e->var.p[i].dirty = false;
    }
    for (unsigned i = 0; i < r->writes; i++) {
        struct var *v = sg_jit_variable(e, r->write[i], r->write_kind[i]);
        load(e, v);
        rows_written(e, v, CLEAN);
        v->dirty = false;
    }
}

/* At the end of a basic block: a temporary that has both widths goes to memory, since only one of them is good. */
void sg_jit_settle(struct emit *e)
{
    for (size_t i = 0; i < e->var.n; i++) {
        struct var *v = &e->var.p[i];
        if (v->kind != PRED && v->dirty && e->find[ROW32][v->at / 4] && e->find[ROW64][v->at / 4]) {
            save(e, v);
        }
    }
}

/* A handler of which it is known what it reads and writes comes back, or ends the launch by a fault; then nobody looks
 * at the registers any more. Around another one everything is in memory. */
void sg_jit_handler(struct emit *e, const struct sg_op *op)
{
    struct rows r = {0};
    sg_jit_rows(e, op, &r);
    sg_jit_flush(e, &r);
    long at = (long)(op - e->code->op) - (long)e->entry;
    val p = sg_jit_let(e, "getelementptr i8, ptr %%op, i64 %ld", at * (long)sizeof *op);
    val next = sg_jit_let(e, "getelementptr i8, ptr %%op, i64 %ld", (at + 1) * (long)sizeof *op);
    val got = sg_jit_let(e, "call ptr inttoptr (i64 %llu to ptr)(ptr %%w, ptr %%t%u)",
                         (unsigned long long)(uintptr_t)op->fn, p);
    unsigned on = e->labels + 1;
    e->labels += 2;
    val same = sg_jit_let(e, "icmp eq ptr %%t%u, %%t%u", got, next);
    sg_jit_line(e, "br i1 %%t%u, label %%l%u, label %%l%u, !prof !1", same, on, on + 1);
    if (!e->scan)
        dt_str_addf(&e->s, "l%u:\n", on + 1);
    sg_jit_line(e, "ret ptr %%t%u", got);
    if (!e->scan)
        dt_str_addf(&e->s, "l%u:\n", on);
    sg_jit_reload(e, &r);
}
