/* Loads and stores of whole warps whose addresses have a simple shape; everything else is the handler's
 * (exec/lanes-mem.inc), which also finds who is at fault.
 *
 * Each half of the warp is looked at by itself: its lanes all have the same address, or elements in a line; words
 * loaded from shared memory may be any within 64 bytes of the first lane's (one load and one permutation). What is
 * found of a row of addresses is kept on the stack (struct fact) for further accesses by the same row at other offsets.
 * Where all is simple no register is lost; the way through the handler is behind the unit's code and writes back and
 * reads again what is in registers (struct slow).
 *
 * Counted accesses go through sg_track_quick, which leaves vector registers alone.
 */
#include "softgpu/jit/template-priv.h"

static int32_t fact_at(unsigned f, unsigned what) { return FACTS_AT + (int32_t)(f * FACT_BYTES + what); }
#define FACT(f, what) SG_AT(RSP, fact_at(f, what))
enum { NEAR = 0, FIRST = 128, NOT_LINE = 144, NOT_SAME = 152 }; /* of each half: 64, 8, 4 and 4 bytes */

static unsigned log2_of(unsigned step) { return (unsigned)__builtin_ctz(step); }

/* ---- what is known of addresses ---------------------------------------------------------------------------------- */
/* Shared memory, one word a lane: distances in words from the first lane. Where they are too far, or it is not aligned,
 * `first` is out of all bounds. */
static void find_near(struct template *m, unsigned f, uint32_t ref, bool wide)
{
    struct sg_x86 *x = &m->x;
    for (unsigned h = 0; h < 2; h++) {
        unsigned s = sg_template_get(m, ref, wide ? 2 * h : h, true);
        sg_x86_first(x, h ? RCX : RAX, s, wide);
        sg_x86_v(x, wide ? V_SPREAD64 : V_SPREAD32, T0, 0, s, -1);
        sg_x86_v(x, wide ? V_SUB64 : V_SUB32, T1, s, T0, -1);
        if (wide) {
            s = sg_template_get(m, ref, 2 * h + 1, true);
            sg_x86_v(x, V_SUB64, T2, s, T0, -1);
            sg_x86_v(x, V_OR64, T0, T1, T2, -1);
            sg_x86_vmb(x, V_TEST64, 3 + h, T0, TABLE(far64), -1);
            sg_x86_v(x, V_LOW, T1, 0, T1, -1);
            sg_x86_v(x, V_LOW, T2, 0, T2, -1);
            sg_x86_v(x, V_JOIN, T1, T1, T2, 1);
        } else {
            sg_x86_vmb(x, V_TEST32, 3 + h, T1, TABLE(far), -1);
        }
        sg_x86_v(x, V_SHI32, SHI_SHR, T1, T1, 2);
        sg_x86_vm(x, V_STOREU32, T1, 0, FACT(f, NEAR + 64 * h), -1);
    }
    sg_x86_mov(x, RDX, RAX, false);
    sg_x86_alu(x, X_OR, RDX, RCX, false);
    sg_x86_alu_imm(x, X_AND, RDX, 3, false);
    sg_x86_k_to(x, RSI, 3, false);
    sg_x86_alu(x, X_OR, RDX, RSI, false);
    sg_x86_k_to(x, RSI, 4, false);
    sg_x86_alu(x, X_OR, RDX, RSI, false);
    size_t good = sg_x86_jcc(x, CC_E);
    sg_x86_mov_imm(x, RAX, UINT32_MAX);
    sg_x86_here(x, good);
    sg_x86_store(x, FACT(f, FIRST), RAX, true);
    sg_x86_store(x, FACT(f, FIRST + 8), RCX, true);
}

/* Lines of elements of `step` bytes, or all the same. */
static void find_shape(struct template *m, unsigned f, uint32_t ref, bool wide, unsigned step)
{
    struct sg_x86 *x = &m->x;
    unsigned which = log2_of(step) - 2;
    struct sg_x86_mem ramp = wide ? TABLE(wide_ramp) : TABLE(ramp);
    ramp.disp += (int32_t)(which * (wide ? 256 : 64));
    m->nan = false;
    for (unsigned h = 0; h < 2; h++) {
        for (unsigned p = 0; p < (wide ? 2u : 1u); p++) {
            unsigned s = sg_template_get(m, ref, wide ? 2 * h + p : h, true);
            if (!p) {
                sg_x86_first(x, RAX, s, wide);
                sg_x86_v(x, wide ? V_SPREAD64 : V_SPREAD32, T0, 0, s, -1);
            }
            sg_x86_v(x, wide ? V_SUB64 : V_SUB32, p ? T1 : ZNAN, s, T0, -1);
            if (!p) {
                sg_x86_vm(x, V_XOR32, T2, ZNAN, ramp, -1);
            } else {
                struct sg_x86_mem next = ramp;
                next.disp += 64;
                sg_x86_v(x, V_OR32, ZNAN, ZNAN, T1, -1);
                sg_x86_vm(x, V_XOR32, T1, T1, next, -1);
                sg_x86_v(x, V_OR32, T2, T2, T1, -1);
            }
        }
        m->nan = false; /* sg_template_get may have needed it */
        sg_x86_v(x, V_TEST32, 3, T2, T2, -1);
        sg_x86_v(x, V_TEST32, 4, ZNAN, ZNAN, -1);
        sg_x86_k_to(x, RCX, 3, false);
        sg_x86_k_to(x, RDX, 4, false);
        sg_x86_store(x, FACT(f, FIRST + 8 * h), RAX, true);
        sg_x86_store(x, FACT(f, NOT_LINE + 4 * h), RCX, false);
        sg_x86_store(x, FACT(f, NOT_SAME + 4 * h), RDX, false);
    }
}

static unsigned fact(struct template *m, uint32_t ref, bool wide, unsigned step, bool near)
{
    int32_t key = sg_template_key(ref, 0);
    for (unsigned f = 0; f < FACTS; f++)
        if (m->fact[f].key == key && m->fact[f].wide == wide && m->fact[f].step == step && m->fact[f].near == near)
            return f;
    unsigned f = m->facts++ % FACTS;
    for (unsigned p = 0; p < (wide ? 4u : 2u); p++) /* in registers first: what that takes comes before the code */
        sg_template_get(m, ref, p, true);
    if (near)
        find_near(m, f, ref, wide);
    else
        find_shape(m, f, ref, wide, step);
    m->fact[f] = (struct fact){key, wide, near, (uint8_t)step};
    return f;
}

/* ---- the fork ---------------------------------------------------------------------------------------------------- */
static void slow_if(struct template *m, struct slow *s, enum sg_x86_cc cc)
{
    size_t j = sg_x86_jcc(&m->x, cc);
    if (s->jumps < SLOW_JUMPS)
        s->from[s->jumps++] = j;
    else
        m->failed = true;
}

static uint32_t access_element(const struct template *m, const struct sg_op *op, unsigned i, bool store)
{
    return op->n > 1 ? m->c->ext[op->x + i] : store ? op->b : op->d;
}

/* Registers for what is loaded. What the handler reads instead is in memory before. */
static void access_results(struct template *m, const struct sg_op *op, bool wide, unsigned d[8][4], struct slow *s)
{
    sg_template_write_row(m, op->a, op->flags & SG_A64);
    unsigned pieces = wide ? 4 : 2;
    for (unsigned e = 0; e < op->n; e++) {
        if (op->fn == sg_guarded)
            sg_template_write_row(m, access_element(m, op, e, false), wide);
        for (unsigned p = 0; p < pieces; p++)
            d[e][p] = sg_template_out(m, access_element(m, op, e, false), p, NOT_RAW, false);
    }
    sg_template_trim(m);
    for (unsigned i = 0; i < SLOTS; i++)
        s->slot[i] = m->slot[i];
    for (unsigned e = 0; e < op->n; e++)
        for (unsigned p = 0; p < pieces; p++)
            s->slot[d[e][p]].dirty = false;
    s->nan = m->nan;
}

static void access_guarded(struct template *m, const struct sg_op *op, struct slow *s)
{
    if (op->fn != sg_guarded)
        return;
    sg_x86_load(&m->x, RAX, sg_template_scalar(m, op->guard), false);
    sg_x86_alu_imm(&m->x, X_CMP, RAX, op->flags & SG_GUARD_NOT ? 0 : -1, false);
    slow_if(m, s, CC_NE);
}

static void fork_end(struct template *m, struct slow *s)
{
    s->to = m->x.n;
    s->op = m->at;
    if (!dt_push(&m->slow, *s))
        m->failed = true;
}

/* ---- a half of a warp -------------------------------------------------------------------------------------------- */
/* 16 lanes from elements in a line: n words each, from `at` on. */
static void from_line(struct template *m, struct sg_x86_mem at, unsigned n, unsigned h, unsigned d[8][4])
{
    struct sg_x86 *x = &m->x;
    struct sg_x86_mem part[4];
    for (unsigned i = 0; i < 4; i++)
        part[i] = (struct sg_x86_mem){at.base, at.index, at.disp + 64 * (int32_t)i};
    if (n == 1)
        sg_x86_vm(x, V_LOADU32, d[0][h], 0, part[0], -1);
    for (unsigned e = 0; e < n && n == 2; e++) {
        struct sg_x86_mem take = TABLE(take2);
        take.disp += 64 * (int32_t)e;
        sg_x86_vm(x, V_LOAD32, T1, 0, take, -1);
        sg_x86_vm(x, V_LOADU32, d[e][h], 0, part[0], -1);
        sg_x86_vm(x, V_PERM2, d[e][h], T1, part[1], -1);
    }
    for (unsigned e = 0; e < n && n == 4; e += 2) { /* eight lanes of two elements, twice */
        struct sg_x86_mem take = TABLE(take4);
        take.disp += 32 * (int32_t)e;
        unsigned a = d[e][h], b = d[e + 1][h];
        sg_x86_vm(x, V_LOAD32, T1, 0, take, -1);
        sg_x86_vm(x, V_LOADU32, a, 0, part[0], -1);
        sg_x86_vm(x, V_PERM2, a, T1, part[1], -1);
        sg_x86_vm(x, V_LOADU32, T0, 0, part[2], -1);
        sg_x86_vm(x, V_PERM2, T0, T1, part[3], -1);
        sg_x86_v(x, V_HALVES, b, a, T0, 0xEE);
        sg_x86_v(x, V_JOIN, a, a, T0, 1);
    }
}

static void from_same(struct template *m, struct sg_x86_mem at, unsigned n, unsigned h, unsigned d[8][4])
{
    for (unsigned e = 0; e < n; e++) {
        sg_x86_vm(&m->x, V_SPREAD32, d[e][h], 0, at, -1);
        at.disp += 4;
    }
}

/* Half h at `at` by what fact f says. */
static void load_half(struct template *m, unsigned f, struct sg_x86_mem at, unsigned n, unsigned h, unsigned d[8][4])
{
    sg_x86_mem_imm(&m->x, X_CMP, FACT(f, NOT_LINE + 4 * h), 0, false);
    size_t other = sg_x86_jcc(&m->x, CC_NE);
    from_line(m, at, n, h, d);
    size_t end = sg_x86_jcc(&m->x, CC_ALWAYS);
    sg_x86_here(&m->x, other);
    from_same(m, at, n, h, d);
    sg_x86_here(&m->x, end);
}

/* The slow way unless half h is in a line, or may be and is all the same. */
static void shaped(struct template *m, unsigned f, unsigned h, bool same, struct slow *s)
{
    sg_x86_load(&m->x, RDX, FACT(f, NOT_LINE + 4 * h), false);
    if (same) {
        sg_x86_test(&m->x, RDX, RDX, false);
        size_t line = sg_x86_jcc(&m->x, CC_E);
        sg_x86_mem_imm(&m->x, X_CMP, FACT(f, NOT_SAME + 4 * h), 0, false);
        slow_if(m, s, CC_NE);
        sg_x86_here(&m->x, line);
    } else {
        sg_x86_test(&m->x, RDX, RDX, false);
        slow_if(m, s, CC_NE);
    }
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */
/* Where half h begins, in register r: within shared memory for 64 n bytes. */
static void shared_at(struct template *m, const struct sg_op *op, unsigned f, unsigned h, unsigned r, unsigned n,
                      struct slow *s)
{
    sg_x86_load(&m->x, r, FACT(f, FIRST + 8 * h), true);
    if (op->imm)
        sg_x86_alu_imm(&m->x, X_ADD, r, (int32_t)op->imm, true);
    sg_x86_alu_mem(&m->x, X_CMP, r, SG_AT(RSP, LIMIT_AT + 8 * (int32_t)log2_of(n)), true);
    slow_if(m, s, CC_AE);
}

/* One word a lane at addresses of any shape: gathered. */
static void gather_words(struct template *m, const struct sg_op *op, unsigned d[8][4], struct slow *s)
{
    struct sg_x86 *x = &m->x;
    unsigned t[2] = {T0, T1};
    bool wide = op->flags & SG_A64;
    sg_x86_mem_imm(x, X_CMP, SG_AT(RBX, offsetof(struct sg_warp, shared_bytes)), 64, true);
    slow_if(m, s, CC_B);
    sg_x86_mov_imm(x, RAX, wide ? (uint64_t)op->imm : (uint32_t)op->imm);
    sg_x86_v(x, wide ? V_SPREADR64 : V_SPREADR32, T2, 0, RAX, -1);
    for (unsigned h = 0; h < 2; h++) {
        /* in memory: see access_results */
        sg_x86_vm(x, wide ? V_ADD64 : V_ADD32, t[h], T2, sg_template_place(m, sg_template_key(op->a, wide ? 2 * h : h)),
                  -1);
        if (wide) {
            sg_x86_vm(x, V_ADD64, ZNAN, T2, sg_template_place(m, sg_template_key(op->a, 2 * h + 1)), -1);
            sg_x86_vmb(x, V_TEST64, 6, t[h], TABLE(high64), -1);
            sg_x86_vmb(x, V_TEST64, 7, ZNAN, TABLE(high64), -1);
            sg_x86_k_or_test(x, 6, 7);
            slow_if(m, s, CC_NE);
            sg_x86_v(x, V_LOW, t[h], 0, t[h], -1);
            sg_x86_v(x, V_LOW, ZNAN, 0, ZNAN, -1);
            sg_x86_v(x, V_JOIN, t[h], t[h], ZNAN, 1);
        }
        sg_x86_vmk(x, V_CMPU32, 3, t[h], SG_AT(RSP, LIMIT_WORD_AT), CMP_GT, 0, false, true);
        sg_x86_vmb(x, V_TEST32, 4 + h, t[h], TABLE(three), -1);
        sg_x86_k_or(x, 4 + h, 4 + h, 3);
    }
    sg_x86_k_or_test(x, 4, 5);
    slow_if(m, s, CC_NE);
    for (unsigned h = 0; h < 2; h++) {
        sg_x86_k_ones(x, 3);
        sg_x86_gather(x, d[0][h], R15, t[h], 3);
    }
}

static void load_words(struct template *m, const struct sg_op *op)
{
    struct slow s = {.plain = true}, far = {.jumps = 0};
    bool wide = op->flags & SG_A64;
    unsigned d[8][4], f = fact(m, op->a, wide, 4, true);
    access_results(m, op, false, d, &s);
    if (wide) /* gather_words uses its register */
        m->nan = s.nan = false;
    access_guarded(m, op, &s);
    for (unsigned h = 0; h < 2; h++)
        shared_at(m, op, f, h, h ? RCX : RAX, 1, &far);
    for (unsigned h = 0; h < 2; h++) {
        sg_x86_vm(&m->x, V_LOAD32, T0, 0, FACT(f, NEAR + 64 * h), -1);
        sg_x86_vm(&m->x, V_PERM32, d[0][h], T0, SG_AT2(R15, h ? RCX : RAX, 0), -1);
    }
    size_t end = sg_x86_jcc(&m->x, CC_ALWAYS);
    for (unsigned i = 0; i < far.jumps; i++)
        sg_x86_here(&m->x, far.from[i]);
    gather_words(m, op, d, &s);
    sg_x86_here(&m->x, end);
    fork_end(m, &s);
}

static void load_vectors(struct template *m, const struct sg_op *op)
{
    struct slow s = {.plain = true};
    unsigned n = op->n, d[8][4], f = fact(m, op->a, op->flags & SG_A64, 4 * n, false);
    access_results(m, op, false, d, &s);
    access_guarded(m, op, &s);
    for (unsigned h = 0; h < 2; h++) {
        shared_at(m, op, f, h, h ? RCX : RAX, n, &s);
        sg_x86_test_imm(&m->x, h ? RCX : RAX, 4 * (int32_t)n - 1);
        slow_if(m, &s, CC_NE);
        shaped(m, f, h, true, &s);
    }
    for (unsigned h = 0; h < 2; h++)
        load_half(m, f, SG_AT2(R15, h ? RCX : RAX, 0), n, h, d);
    fork_end(m, &s);
}

/* The two halves of what is stored, in registers; what the slow way finds in them is as it is now. */
static void access_value(struct template *m, const struct sg_op *op, unsigned v[2], struct slow *s)
{
    for (unsigned h = 0; h < 2; h++)
        v[h] = sg_template_get(m, op->b, h, true);
    sg_template_trim(m);
    for (unsigned i = 0; i < SLOTS; i++)
        s->slot[i] = m->slot[i];
    s->nan = m->nan;
}

static void shared_store(struct template *m, const struct sg_op *op)
{
    struct slow s = {.plain = true};
    unsigned f = fact(m, op->a, op->flags & SG_A64, 4, false), v[2];
    access_value(m, op, v, &s);
    access_guarded(m, op, &s);
    for (unsigned h = 0; h < 2; h++) {
        shared_at(m, op, f, h, h ? RCX : RAX, 1, &s);
        sg_x86_test_imm(&m->x, h ? RCX : RAX, 3);
        slow_if(m, &s, CC_NE);
        shaped(m, f, h, false, &s);
    }
    for (unsigned h = 0; h < 2; h++)
        sg_x86_vm(&m->x, V_STOREU32, v[h], 0, SG_AT2(R15, h ? RCX : RAX, 0), -1);
    fork_end(m, &s);
}

/* ---- global memory ----------------------------------------------------------------------------------------------- */
/* Half h begins at register r: bounds of the allocation that the operation met last, which r8 points to. */
static void global_at(struct template *m, const struct sg_op *op, unsigned f, unsigned h, unsigned r, unsigned step,
                      bool store, struct slow *s)
{
    struct sg_x86 *x = &m->x;
    struct sg_x86_mem base = SG_AT(R8, offsetof(struct sg_range, base)),
                      end = SG_AT(R8, offsetof(struct sg_range, end));
    sg_x86_load(x, r, FACT(f, FIRST + 8 * h), true);
    if (op->imm)
        sg_x86_alu_imm(x, X_ADD, r, (int32_t)op->imm, true);
    sg_x86_test_imm(x, r, (int32_t)step - 1);
    slow_if(m, s, CC_NE);
    sg_x86_alu_mem(x, X_CMP, r, base, true);
    slow_if(m, s, CC_B);
    shaped(m, f, h, !store, s);
    /* rdx is 0 where it is a line: the bytes that are touched */
    sg_x86_mov_imm(x, RSI, 16 * step);
    if (!store) {
        sg_x86_test(x, RDX, RDX, false);
        size_t line = sg_x86_jcc(x, CC_E);
        sg_x86_mov_imm(x, RSI, step);
        sg_x86_here(x, line);
    }
    sg_x86_mov(x, h ? R11 : R10, RSI, false);
    sg_x86_alu(x, X_ADD, RSI, r, true);
    slow_if(m, s, CC_B);
    sg_x86_alu_mem(x, X_CMP, RSI, end, true);
    slow_if(m, s, CC_A);
}

static void global_access(struct template *m, const struct sg_op *op, unsigned f, unsigned step, bool store,
                          struct slow *s)
{
    struct sg_x86 *x = &m->x;
    access_guarded(m, op, s);
    sg_x86_mem_imm8(x, X_CMP, SG_AT(R14, offsetof(struct sg_worker, race)), 0); /* it wants all lanes */
    slow_if(m, s, CC_NE);
    sg_x86_load(x, R8, SG_AT(R14, offsetof(struct sg_worker, site)), true);
    sg_x86_load(x, R8, SG_AT(R8, (int32_t)(op->site * sizeof(void *))), true);
    if (store) {
        sg_x86_mem_imm8(x, X_CMP, SG_AT(R8, offsetof(struct sg_range, read_only)), 0);
        slow_if(m, s, CC_NE);
    }
    global_at(m, op, f, 0, RAX, step, store, s);
    global_at(m, op, f, 1, RCX, step, store, s);
    sg_x86_mem_imm8(x, X_CMP, SG_AT(R14, offsetof(struct sg_worker, track)), 0);
    size_t uncounted = sg_x86_jcc(x, CC_E);
    /* sg_track_quick(wk, range, write, a, bytes, b, bytes): its seventh argument is on the stack */
    sg_x86_store(x, SG_AT(RSP, KEEP_AT), RAX, true);
    sg_x86_store(x, SG_AT(RSP, KEEP_AT + 8), RCX, true);
    sg_x86_mov(x, RDI, R14, true);
    sg_x86_mov(x, RSI, R8, true);
    sg_x86_mov(x, R9, RCX, true);
    sg_x86_mov(x, RCX, RAX, true);
    sg_x86_mov(x, R8, R10, true);
    sg_x86_mov_imm(x, RDX, store);
    sg_x86_store(x, SG_AT(RSP, 0), R11, true);
    sg_x86_mov_imm(x, RAX, (uint64_t)(uintptr_t)sg_track_quick);
    sg_x86_call(x, RAX);
    sg_x86_test(x, RAX, RAX, false);
    slow_if(m, s, CC_E);
    sg_x86_load(x, RAX, SG_AT(RSP, KEEP_AT), true);
    sg_x86_load(x, RCX, SG_AT(RSP, KEEP_AT + 8), true);
    sg_x86_here(x, uncounted);
}

static void global_load(struct template *m, const struct sg_op *op)
{
    /* words in no shape: the handler gathers them, and waits for memory less */
    struct slow s = {.plain = op->n > 1 || op->fn == sg_guarded};
    unsigned n = op->n, d[8][4], f = fact(m, op->a, true, 4 * n, false);
    access_results(m, op, false, d, &s);
    global_access(m, op, f, 4 * n, false, &s);
    for (unsigned h = 0; h < 2; h++)
        load_half(m, f, SG_AT(h ? RCX : RAX, 0), n, h, d);
    fork_end(m, &s);
}

static void global_store(struct template *m, const struct sg_op *op)
{
    struct slow s = {.plain = true};
    unsigned f = fact(m, op->a, true, 4, false), v[2];
    access_value(m, op, v, &s);
    global_access(m, op, f, 4, true, &s);
    for (unsigned h = 0; h < 2; h++)
        sg_x86_vm(&m->x, V_STOREU32, v[h], 0, SG_AT(h ? RCX : RAX, 0), -1);
    fork_end(m, &s);
}

/* ---- any shape --------------------------------------------------------------------------------------------------- */
static unsigned pieces_of(const struct sg_op *op, bool load)
{
    return op->size == 8 || (load && op->flags & SG_D64) ? 4 : 2;
}

/* The access by template-plain.c; what it reads is in memory. Zero: it is not done. */
static void plain_call(struct template *m, const struct sg_op *op, int h)
{
    struct sg_x86 *x = &m->x;
    bool (*f)(struct sg_warp *, const struct sg_op *) = h <= SG_H_LD_GLOBAL_64   ? sg_template_load_global
                                                        : h <= SG_H_LD_SHARED_64 ? sg_template_load_shared
                                                        : h <= SG_H_ST_GLOBAL_64 ? sg_template_store_global
                                                                                 : sg_template_store_shared;
    sg_x86_mov(x, RDI, RBX, true);
    sg_x86_mov_imm(x, RSI, (uint64_t)(uintptr_t)op);
    sg_x86_mov_imm(x, RAX, (uint64_t)(uintptr_t)f);
    sg_x86_call(x, RAX);
    sg_x86_test_imm(x, RAX, 0xFF);
}

void sg_template_plain(struct template *m, const struct slow *s)
{
    const struct sg_op *op = &m->c->op[s->op];
    int h = sg_jit_lane_number(op->fn == sg_guarded ? op->inner : op->fn);
    bool load = h <= SG_H_LD_SHARED_64;
    unsigned n = pieces_of(op, load);
    for (unsigned p = 0; !load && p < (op->flags & SG_A64 ? 4u : 2u); p++)
        sg_template_save(m, s->slot, sg_template_key(op->a, p));
    for (unsigned e = 0; !load && e < op->n; e++)
        for (unsigned p = 0; p < n; p++)
            sg_template_save(m, s->slot, sg_template_key(access_element(m, op, e, true), p));
    if (s->nan)
        sg_template_nan(m);
    plain_call(m, op, h);
    size_t no = sg_x86_jcc(&m->x, CC_E);
    for (unsigned i = 0; load && i < SLOTS; i++)
        for (unsigned e = 0; e < op->n; e++)
            for (unsigned p = 0; p < n; p++)
                if (s->slot[i].key == sg_template_key(access_element(m, op, e, false), p))
                    sg_x86_vm(&m->x, V_LOADU32, i, 0, sg_template_place(m, s->slot[i].key), -1);
    sg_x86_set(&m->x, sg_x86_jcc(&m->x, CC_ALWAYS), s->to);
    sg_x86_here(&m->x, no);
}

static void any_access(struct template *m, const struct sg_op *op, int h)
{
    struct slow s = {.plain = false};
    bool load = h <= SG_H_LD_SHARED_64, wide = pieces_of(op, load) == 4;
    sg_template_write_row(m, op->a, op->flags & SG_A64);
    for (unsigned e = 0; e < op->n; e++)
        if (!load || op->fn == sg_guarded || m->masked)
            sg_template_write_row(m, access_element(m, op, e, !load), wide);
    for (unsigned e = 0; load && e < op->n; e++)
        sg_template_drop_row(m, access_element(m, op, e, false), wide);
    for (unsigned i = 0; i < SLOTS; i++)
        s.slot[i] = m->slot[i];
    s.nan = m->nan;
    plain_call(m, op, h);
    slow_if(m, &s, CC_E);
    fork_end(m, &s);
}

bool sg_template_access(struct template *m, const struct sg_op *op, int h)
{
    bool load = h <= SG_H_LD_SHARED_64,
         shared = (h >= SG_H_LD_SHARED_8 && h <= SG_H_LD_SHARED_64) || h >= SG_H_ST_SHARED_8;
    unsigned n = op->n, step = op->size * n;
    if (!n || step & (step - 1) || step > 32 || op->a & 60 || (!shared && !(op->flags & SG_A64)))
        return false;
    if (!m)
        return true;
    bool inline_ = op->size == 4 && n <= (load ? 4u : 1u) && !(load && op->flags & SG_D64) && op->imm < 1 << 30 &&
                   op->imm > -(1 << 30) && !(shared && op->imm & (4 * n - 1));
    if (!inline_ || m->masked)
        any_access(m, op, h);
    else if (load)
        (!shared ? global_load : n == 1 ? load_words : load_vectors)(m, op);
    else
        (shared ? shared_store : global_store)(m, op);
    return true;
}
