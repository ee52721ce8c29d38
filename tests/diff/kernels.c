/* Footprints of random kernels against an interpreter that knows nothing of dovetail.
 *
 * A kernel is a random tree of statements; print.. writes it as PTX, run.. executes the tree itself, thread by thread, and traces every byte of global
 * memory that it touches. The trace is taken for several contents of the inputs and of uninitialised shared memory, and for several addresses of
 * the buffers; the analysis is done once, and then held to it:
 *
 *   every byte read, or written, in any trace is in the block's footprint
 *   every byte that the footprint says is surely written is written in every trace
 *   where the evidence is `proved`, the footprint is the trace, exactly, in all of them; where it is `observed`, for the constants' content
 *   both recorders, instrumented PTX and the software device itself, give the same document, with launches summarised, as slices and whole
 *
 * In the kernels: affine and arbitrary indices, nested loops whose bounds depend on threads and on other loops, guards joined by and/or, else branches, early
 * exits, accesses of 1 to 16 bytes, vectors, generic and .nc and volatile loads, atomics and reductions, staging through shared memory with
 * barriers (also of what nobody wrote), cp.async, shuffles, indices from data and from constant tables, selected pointers, several parameters into one
 * buffer at overlapping offsets, the low bits of an address as an operand, 3-D grids and blocks.
 *
 *     test-kernels [COUNT [FIRST_SEED]]     mismatches as lines with the seed; how often data-dependent was said of what no trace showed
 *     SHOW=1 test-kernels 1 SEED            prints the PTX as well
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "base/arena.h"
#include "base/hash.h"
#include "base/str.h"

#define BATCH 25     /* kernels of one graph: they are assembled together */
#define BYTES 4096u  /* of every buffer */
#define WINDOW 2048u /* of a buffer, from a parameter's offset on */
#define THREADS 128
#define BLOCKS 12
#define VARS 6
#define SINK VARS /* the variable of values that may depend on the order of threads: only ever stored */
#define COUNTERS 8
#define PARAMS 5
#define TRACES 4
#define SHARED (THREADS * 16)

enum { IN, TABLE, OUT0, OUT1, OUT2, BUFFERS };
enum leaf { CONST, TIDX, TIDY, CTAX, CTAY, CTAZ, LINEAR, BLOCK, VAR, COUNTER, SCALAR, LOWBITS };
enum op { LEAF, ADD, SUB, MUL, AND, OR, XOR, SHL, SHR, MIN, MAX, REM, DIV, PICK, OPS };

struct expr {
    enum op op;
    enum leaf leaf;
    uint32_t k;
    struct expr *a, *b, *c, *d; /* PICK: a < b ? c : d */
};
struct cond { /* comparisons joined by and, or */
    struct expr *a, *b;
    enum { LT, LE, EQ, NE, GE } cmp;
    enum { LAST, ALSO, ELSE } join;
    struct cond *next;
};
enum kind { SET, IF, FOR, LOAD, STORE, ATOMIC, RED, STAGE, SHUFFLE, EXIT, COPY };
struct stmt {
    enum kind kind;
    struct expr *e, *v; /* index or value; value stored */
    struct cond *c;
    uint32_t var, width, param, other, count, counter, flavour;
    bool select; /* of the two parameters the one that `c` picks */
    struct stmt *body, *otherwise, *next;
};
struct kernel {
    uint32_t grid[3], block[3], threads, blocks;
    uint32_t buffer[PARAMS], offset[PARAMS], scalar; /* parameters */
    bool pool;      /* warps are full: shuffles may be used */
    struct stmt *first;
    struct dt_arena arena;
    uint64_t rng;
    unsigned depth, counters, size;
};

/* ---- making one ------------------------------------------------------------------------------------------------------- */

static uint32_t below(struct kernel *k, uint32_t n) { return (uint32_t)(dt_splitmix64(0x6b65726e656c, k->rng++) % n); }
static bool chance(struct kernel *k, uint32_t percent) { return below(k, 100) < percent; }
static uint32_t one_of(struct kernel *k, const uint32_t *v, uint32_t n) { return v[below(k, n)]; }
#define ONE_OF(k, ...) one_of(k, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

static void *fresh(struct kernel *k, size_t n)
{
    void *p = dt_arena_alloc(&k->arena, n);
    if (!p)
        abort();
    memset(p, 0, n);
    return p;
}

static struct expr *leaf(struct kernel *k, enum leaf l, uint32_t n)
{
    struct expr *e = fresh(k, sizeof *e);
    e->leaf = l;
    e->k = n;
    return e;
}

static struct expr *binary(struct kernel *k, enum op op, struct expr *a, struct expr *b)
{
    struct expr *e = fresh(k, sizeof *e);
    e->op = op;
    e->a = a;
    e->b = b;
    return e;
}

/* Over thread, block and loops, less than `limit` as long as counters are at most 6. */
static struct expr *affine(struct kernel *k, uint32_t limit)
{
    uint32_t room = limit - 1, n = below(k, 3) + 1;
    struct expr *e = NULL;
    for (uint32_t i = 0; i < n + 1; i++) {
        static const enum leaf leaves[] = {LINEAR, LINEAR, BLOCK, BLOCK, TIDX, CTAX, COUNTER, TIDY, CTAZ};
        enum leaf l = leaves[below(k, 9)];
        uint32_t id = 0, most;
        if (i == 0)
            l = LINEAR;
        if (l == COUNTER && !k->counters)
            continue;
        if (l == COUNTER)
            id = below(k, k->counters);
        most = l == LINEAR ? k->threads - 1 : l == BLOCK ? k->blocks - 1 : l == TIDX ? k->block[0] - 1 : l == TIDY ? k->block[1] - 1
             : l == CTAX ? k->grid[0] - 1 : l == CTAZ ? k->grid[2] - 1 : 6;
        uint32_t step = ONE_OF(k, 1, 1, 1, 2, 3, 4, 8, 16, 32, 33, 64);
        if (step * most > room)
            step = most ? room / most : 1;
        if (!step)
            continue;
        room -= step * most;
        struct expr *t = binary(k, MUL, leaf(k, l, id), leaf(k, CONST, step));
        if (chance(k, 15)) /* from the other end: a negative stride */
            t = binary(k, SUB, leaf(k, CONST, step * most), t);
        e = e ? binary(k, ADD, e, t) : t;
    }
    return chance(k, 40) && room ? binary(k, ADD, e ? e : leaf(k, CONST, 0), leaf(k, CONST, below(k, room))) : e ? e : leaf(k, CONST, 0);
}

static struct expr *any(struct kernel *k, unsigned depth)
{
    if (!depth || chance(k, 25)) {
        static const enum leaf leaves[] = {CONST, TIDX, TIDY, CTAX, CTAY, CTAZ, LINEAR, LINEAR, BLOCK, VAR, VAR, COUNTER, SCALAR, LOWBITS};
        enum leaf l = leaves[below(k, 14)];
        uint32_t id = l == VAR ? below(k, VARS) : l == CONST ? ONE_OF(k, 0, 1, 2, 3, 7, 31, 64, 255, 0x7fffffff, 0xfffffffe) : below(k, PARAMS);
        if (l == COUNTER && !k->counters)
            l = LINEAR;
        else if (l == COUNTER)
            id = below(k, k->counters);
        if (l == LOWBITS)
            id = below(k, 2 * PARAMS);
        return leaf(k, l, id);
    }
    enum op op = (enum op)(1 + below(k, OPS - 1));
    struct expr *e = binary(k, op, any(k, depth - 1), any(k, depth - 1));
    if (op == REM || op == DIV)
        e->b = leaf(k, CONST, ONE_OF(k, 2, 3, 5, 8, 16, 31));
    if (op == SHL || op == SHR)
        e->b = leaf(k, CONST, below(k, 33));
    if (op == PICK) {
        e->c = any(k, depth - 1);
        e->d = any(k, depth - 1);
    }
    return e;
}

static struct expr *index_of(struct kernel *k, uint32_t count)
{
    if (chance(k, 65))
        return affine(k, count);
    struct expr *e = chance(k, 50) ? binary(k, ADD, affine(k, 4096), any(k, 1)) : any(k, 3);
    return count & (count - 1) || chance(k, 50) ? binary(k, REM, e, leaf(k, CONST, count)) : binary(k, AND, e, leaf(k, CONST, count - 1));
}

static struct cond *guard(struct kernel *k)
{
    struct cond *c = fresh(k, sizeof *c);
    c->a = chance(k, 60) ? affine(k, 256) : any(k, 2);
    c->b = chance(k, 60) ? leaf(k, CONST, ONE_OF(k, 0, 1, 5, 16, 31, 32, 33, 64, 100)) : chance(k, 50) ? leaf(k, SCALAR, 0) : any(k, 1);
    c->cmp = below(k, 5);
    if (chance(k, 25)) {
        c->join = chance(k, 50) ? ALSO : ELSE;
        c->next = guard(k);
    }
    return c;
}

/* Every thread comes by: barriers and shuffles may be used. */
static struct stmt *statements(struct kernel *k, unsigned n, bool all);

static struct stmt *statement(struct kernel *k, bool all)
{
    struct stmt *s = fresh(k, sizeof *s);
    uint32_t r = below(k, 100);
    s->width = ONE_OF(k, 1, 2, 4, 4, 4, 4, 8, 16);
    s->param = below(k, PARAMS);
    s->var = below(k, VARS);
    k->size++;
    if (k->depth < 3 && r < 14 && k->size < 24) {
        s->kind = IF;
        s->c = guard(k);
        k->depth++;
        s->body = statements(k, 1 + below(k, 2), false);
        if (chance(k, 35))
            s->otherwise = statements(k, 1, false);
        k->depth--;
        return s;
    }
    if (k->depth < 3 && r < 28 && k->size < 24 && k->counters < COUNTERS) {
        s->kind = FOR; /* of at most 7 rounds */
        bool same = chance(k, 60);
        s->e = same ? leaf(k, CONST, below(k, 7)) : binary(k, AND, chance(k, 60) ? affine(k, 64) : any(k, 2), leaf(k, CONST, 7));
        s->flavour = chance(k, 25) ? 2 : 1; /* the step */
        s->counter = k->counters++;
        k->depth++;
        s->body = statements(k, 1 + below(k, 2), all && same);
        k->depth--;
        k->counters--; /* out of scope */
        return s;
    }
    if (r < 34) {
        s->kind = SET;
        s->e = chance(k, 50) ? affine(k, 1024) : any(k, 2);
        return s;
    }
    if (all && r < 44) {
        s->kind = STAGE; /* shared[tid] = v; barrier; var = shared[index]; barrier */
        s->v = any(k, 2);
        s->e = index_of(k, k->threads);
        s->c = chance(k, 25) ? guard(k) : NULL; /* threads that do not store: what they leave is what was there */
        return s;
    }
    if (all && k->pool && r < 50) {
        s->kind = SHUFFLE;
        s->flavour = below(k, 4); /* idx bfly up down */
        s->e = leaf(k, CONST, below(k, 32));
        s->other = below(k, VARS);
        return s;
    }
    if (all && r < 54) {
        s->kind = COPY; /* 4, 8, 16 bytes of global memory to this thread's place; wait; barrier; var = shared[index]; barrier */
        s->width = ONE_OF(k, 4, 8, 16);
        s->v = index_of(k, WINDOW / s->width);
        s->e = index_of(k, k->threads);
        return s;
    }
    s->kind = r < 74 ? LOAD : r < 92 ? STORE : r < 96 ? ATOMIC : RED;
    if (s->kind == ATOMIC || s->kind == RED)
        s->width = 4;
    if (chance(k, 12)) {
        s->select = true;
        s->other = below(k, PARAMS);
        s->c = guard(k);
    }
    if (s->kind != LOAD) { /* inputs are never written: what is loaded from them is the same in every order */
        if (k->buffer[s->param] < OUT0)
            s->param = 2 + below(k, PARAMS - 2);
        if (k->buffer[s->other] < OUT0)
            s->other = 2 + below(k, PARAMS - 2);
    }
    s->count = WINDOW / s->width;
    s->e = index_of(k, s->count);
    s->v = chance(k, 50) ? leaf(k, VAR, SINK) : any(k, 1);
    s->flavour = below(k, 8);
    bool input = k->buffer[s->param] < OUT0 && (!s->select || k->buffer[s->other] < OUT0);
    if (s->kind == LOAD && !input)
        s->var = SINK;
    if (s->kind == ATOMIC)
        s->var = SINK;
    return s;
}

static struct stmt *statements(struct kernel *k, unsigned n, bool all)
{
    struct stmt *first = NULL, **at = &first;
    for (unsigned i = 0; i < n; i++) {
        *at = statement(k, all);
        at = &(*at)->next;
    }
    return first;
}

static void make(struct kernel *k, uint64_t seed)
{
    static const uint32_t grids[][3] = {{4, 1, 1}, {7, 1, 1}, {3, 2, 1}, {2, 2, 2}, {12, 1, 1}, {1, 1, 1}};
    static const uint32_t blocks[][3] = {{32, 1, 1}, {64, 1, 1}, {16, 4, 1}, {128, 1, 1}, {40, 1, 1}, {8, 3, 2}, {1, 1, 1}};
    memset(k, 0, sizeof *k);
    k->rng = seed << 24;
    memcpy(k->grid, grids[below(k, 6)], sizeof k->grid);
    memcpy(k->block, blocks[below(k, 7)], sizeof k->block);
    k->threads = k->block[0] * k->block[1] * k->block[2];
    k->blocks = k->grid[0] * k->grid[1] * k->grid[2];
    k->pool = k->threads % 32 == 0;
    k->buffer[0] = IN;
    k->buffer[1] = TABLE;
    for (int p = 2; p < PARAMS; p++)
        k->buffer[p] = OUT0 + below(k, 3);
    for (int p = 0; p < PARAMS; p++)
        k->offset[p] = ONE_OF(k, 0, 0, 0, 16, 512, 1024, BYTES - WINDOW);
    k->scalar = ONE_OF(k, 0, 1, 17, 32, 100);
    struct stmt *s = statements(k, 2 + below(k, 5), true);
    if (chance(k, 25)) { /* threads that leave early; what follows them has no barrier */
        struct stmt *x = fresh(k, sizeof *x), **at = &s;
        x->kind = EXIT;
        x->c = guard(k);
        while (*at)
            at = &(*at)->next;
        *at = x;
        x->next = statements(k, 1 + below(k, 3), false);
    }
    k->first = s;
}

/* ---- as PTX ----------------------------------------------------------------------------------------------------------- */

struct text {
    const struct kernel *k;
    struct dt_str s;
    unsigned r, d, p, l;
};
#define EMIT(t, ...) dt_str_addf(&(t)->s, __VA_ARGS__)

static unsigned print_expr(struct text *t, const struct expr *e)
{
    static const char *const leaves[] = {[TIDX] = "%tid.x", [TIDY] = "%tid.y", [CTAX] = "%ctaid.x", [CTAY] = "%ctaid.y", [CTAZ] = "%ctaid.z"};
    static const char *const ops[] = {[ADD] = "add.u32", [SUB] = "sub.u32", [MUL] = "mul.lo.u32", [AND] = "and.b32", [OR] = "or.b32",
                                      [XOR] = "xor.b32", [SHL] = "shl.b32", [SHR] = "shr.u32", [MIN] = "min.u32", [MAX] = "max.u32",
                                      [REM] = "rem.u32", [DIV] = "div.u32"};
    unsigned r = ++t->r;
    if (e->op == LEAF) {
        switch (e->leaf) {
        case CONST: EMIT(t, "mov.u32 %%r%u, %u;\n", r, e->k); break;
        case LINEAR: EMIT(t, "mov.u32 %%r%u, %%lin;\n", r); break;
        case BLOCK: EMIT(t, "mov.u32 %%r%u, %%blk;\n", r); break;
        case VAR: EMIT(t, "mov.u32 %%r%u, %%v%u;\n", r, e->k); break;
        case COUNTER: EMIT(t, "mov.u32 %%r%u, %%c%u;\n", r, e->k); break;
        case SCALAR: EMIT(t, "mov.u32 %%r%u, %%n;\n", r); break;
        case LOWBITS: EMIT(t, "cvt.u32.u64 %%r%u, %%q%u;\nand.b32 %%r%u, %%r%u, %u;\n", r, e->k % PARAMS, r, r, e->k < PARAMS ? 2047 : 15); break;
        default: EMIT(t, "mov.u32 %%r%u, %s;\n", r, leaves[e->leaf]);
        }
        return r;
    }
    unsigned a = print_expr(t, e->a), b = print_expr(t, e->b);
    if (e->op == PICK) {
        unsigned c = print_expr(t, e->c), d = print_expr(t, e->d), p = ++t->p;
        EMIT(t, "setp.lt.u32 %%p%u, %%r%u, %%r%u;\nselp.b32 %%r%u, %%r%u, %%r%u, %%p%u;\n", p, a, b, r, c, d, p);
    } else {
        EMIT(t, "%s %%r%u, %%r%u, %%r%u;\n", ops[e->op], r, a, b);
    }
    return r;
}

static unsigned print_cond(struct text *t, const struct cond *c)
{
    static const char *const cmp[] = {"lt", "le", "eq", "ne", "ge"};
    unsigned a = print_expr(t, c->a), b = print_expr(t, c->b), p = ++t->p;
    EMIT(t, "setp.%s.u32 %%p%u, %%r%u, %%r%u;\n", cmp[c->cmp], p, a, b);
    if (c->join != LAST)
        EMIT(t, "%s.pred %%p%u, %%p%u, %%p%u;\n", c->join == ALSO ? "and" : "or", p, p, print_cond(t, c->next));
    return p;
}

/* The address of element `e` of the statement's parameter. */
static unsigned print_address(struct text *t, const struct stmt *s, const struct expr *e)
{
    unsigned q = 0, i = print_expr(t, e), d;
    if (s->select) {
        unsigned p = print_cond(t, s->c);
        q = ++t->d;
        EMIT(t, "selp.b64 %%d%u, %%q%u, %%q%u, %%p%u;\n", q, s->param, s->other, p);
    }
    d = ++t->d;
    EMIT(t, "mul.wide.u32 %%d%u, %%r%u, %u;\n", d, i, s->width);
    if (s->select)
        EMIT(t, "add.s64 %%d%u, %%d%u, %%d%u;\n", d, d, q);
    else
        EMIT(t, "add.s64 %%d%u, %%q%u, %%d%u;\n", d, s->param, d);
    return d;
}

static void print_access(struct text *t, const struct stmt *s)
{
    static const char *const type[] = {[1] = "u8", [2] = "u16", [4] = "u32", [8] = "v2.u32", [16] = "v4.u32"};
    unsigned a = print_address(t, s, s->e), r = t->r + 1, v;
    const char *space = s->flavour == 0 ? "" : s->flavour == 1 && s->width <= 4 ? ".volatile.global" : ".global";
    bool input = t->k->buffer[s->param] < OUT0 && (!s->select || t->k->buffer[s->other] < OUT0);
    if (s->kind == LOAD && s->flavour == 2 && input)
        space = ".global.nc";
    switch (s->kind) {
    case LOAD:
        t->r += 4;
        if (s->width <= 4)
            EMIT(t, "ld%s.%s %%r%u, [%%d%u];\n", space, type[s->width], r, a);
        else if (s->width == 8)
            EMIT(t, "ld%s.%s {%%r%u, %%r%u}, [%%d%u];\n", space, type[s->width], r, r + 1, a);
        else
            EMIT(t, "ld%s.%s {%%r%u, %%r%u, %%r%u, %%r%u}, [%%d%u];\n", space, type[s->width], r, r + 1, r + 2, r + 3, a);
        EMIT(t, "mov.u32 %%v%u, %%r%u;\n", s->var, r);
        break;
    case STORE:
        v = print_expr(t, s->v);
        if (s->width <= 4)
            EMIT(t, "st%s.%s [%%d%u], %%r%u;\n", space, type[s->width], a, v);
        else if (s->width == 8)
            EMIT(t, "st%s.%s [%%d%u], {%%r%u, %%r%u};\n", space, type[s->width], a, v, v);
        else
            EMIT(t, "st%s.%s [%%d%u], {%%r%u, %%r%u, %%r%u, %%r%u};\n", space, type[s->width], a, v, v, v, v);
        break;
    case ATOMIC:
        v = print_expr(t, s->v);
        EMIT(t, "atom.global.%s %%v%u, [%%d%u], %%r%u;\n", s->flavour & 1 ? "add.u32" : "exch.b32", s->var, a, v);
        break;
    default:
        v = print_expr(t, s->v);
        EMIT(t, "red.global.%s [%%d%u], %%r%u;\n", s->flavour & 1 ? "add.u32" : "max.u32", a, v);
    }
}

static void print_stmt(struct text *t, const struct stmt *s)
{
    static const char *const shuffle[] = {"idx", "bfly", "up", "down"};
    unsigned r, p, l = t->l += 3;
    switch (s->kind) {
    case SET: r = print_expr(t, s->e), EMIT(t, "mov.u32 %%v%u, %%r%u;\n", s->var, r); break;
    case IF:
        p = print_cond(t, s->c);
        EMIT(t, "@!%%p%u bra L%u;\n", p, l);
        for (const struct stmt *x = s->body; x; x = x->next)
            print_stmt(t, x);
        EMIT(t, "bra L%u;\nL%u:\n", l + 1, l);
        for (const struct stmt *x = s->otherwise; x; x = x->next)
            print_stmt(t, x);
        EMIT(t, "L%u:\n", l + 1);
        break;
    case FOR:
        r = print_expr(t, s->e);
        EMIT(t, "mov.u32 %%c%u, 0;\nL%u:\n", s->counter, l);
        p = ++t->p;
        EMIT(t, "setp.ge.u32 %%p%u, %%c%u, %%r%u;\n@%%p%u bra L%u;\n", p, s->counter, r, p, l + 1);
        for (const struct stmt *x = s->body; x; x = x->next)
            print_stmt(t, x);
        EMIT(t, "add.u32 %%c%u, %%c%u, %u;\nbra L%u;\nL%u:\n", s->counter, s->counter, s->flavour, l, l + 1);
        break;
    case STAGE:
    case COPY:
        if (s->kind == STAGE) {
            unsigned v = print_expr(t, s->v);
            if (s->c) {
                p = print_cond(t, s->c);
                EMIT(t, "@%%p%u st.shared.u32 [%%mine], %%r%u;\n", p, v);
            } else {
                EMIT(t, "st.shared.u32 [%%mine], %%r%u;\n", v);
            }
        } else {
            unsigned a = print_address(t, s, s->v);
            EMIT(t, "cp.async.ca.shared.global [%%mine], [%%d%u], %u;\ncp.async.wait_all;\n", a, s->width);
        }
        EMIT(t, "bar.sync 0;\n");
        r = print_expr(t, s->e);
        EMIT(t, "mad.lo.u32 %%r%u, %%r%u, 16, %%base;\nld.shared.u32 %%v%u, [%%r%u];\nbar.sync 0;\n", r, r, s->var, r);
        break;
    case SHUFFLE:
        r = print_expr(t, s->e);
        EMIT(t, "shfl.sync.%s.b32 %%v%u, %%v%u, %%r%u, %u, 0xffffffff;\n", shuffle[s->flavour], s->var, s->other, r,
             s->flavour == 2 ? 0 : 31);
        break;
    case EXIT: p = print_cond(t, s->c), EMIT(t, "@%%p%u exit;\n", p); break;
    default: print_access(t, s);
    }
}

static void print_kernel(struct dt_str *out, const struct kernel *k, unsigned number)
{
    struct text t = {.k = k};
    for (const struct stmt *s = k->first; s; s = s->next)
        print_stmt(&t, s);
    dt_str_addf(out, ".visible .entry k%u(", number);
    for (int p = 0; p < PARAMS; p++)
        dt_str_addf(out, ".param .u64 k%u_%d, ", number, p);
    dt_str_addf(out, ".param .u32 k%u_n)\n{\n.shared .align 16 .b8 pool[%u];\n.reg .b32 %%r<%u>, %%v<%d>, %%c<%d>, %%lin, %%blk, %%n, %%base, %%mine, %%x, %%y;\n"
                ".reg .b64 %%d<%u>, %%q<%d>;\n.reg .pred %%p<%u>;\n", number, SHARED, t.r + 5, VARS + 1, COUNTERS, t.d + 1, PARAMS, t.p + 1);
    for (int p = 0; p < PARAMS; p++)
        dt_str_addf(out, "ld.param.u64 %%q%d, [k%u_%d];\n%s", p, number, p, "");
    dt_str_addf(out, "ld.param.u32 %%n, [k%u_n];\n"
                "mov.u32 %%x, %%tid.z;\nmov.u32 %%y, %%ntid.y;\nmov.u32 %%lin, %%tid.y;\nmad.lo.u32 %%lin, %%x, %%y, %%lin;\nmov.u32 %%y, %%ntid.x;\n"
                "mov.u32 %%x, %%tid.x;\nmad.lo.u32 %%lin, %%lin, %%y, %%x;\n"
                "mov.u32 %%x, %%ctaid.z;\nmov.u32 %%y, %%nctaid.y;\nmov.u32 %%blk, %%ctaid.y;\nmad.lo.u32 %%blk, %%x, %%y, %%blk;\n"
                "mov.u32 %%y, %%nctaid.x;\nmov.u32 %%x, %%ctaid.x;\nmad.lo.u32 %%blk, %%blk, %%y, %%x;\n"
                "mov.u32 %%base, pool;\nmad.lo.u32 %%mine, %%lin, 16, %%base;\n", number);
    for (int v = 0; v <= VARS; v++)
        dt_str_addf(out, "mov.u32 %%v%d, %%lin;\n", v);
    for (int c = 0; c < COUNTERS; c++)
        dt_str_addf(out, "mov.u32 %%c%d, 0;\n", c);
    dt_str_addn(out, t.s.s, t.s.len);
    dt_str_add(out, "ret;\n}\n");
    dt_str_done(&t.s);
}

/* ---- by itself -------------------------------------------------------------------------------------------------------- */

struct world { /* what may differ between two runs of a launch */
    uint8_t memory[BUFFERS][BYTES];
    uint64_t base[BUFFERS];
    uint32_t shared; /* what is in shared memory that nobody wrote: a number per word from this seed */
};
struct trace { /* one bit a byte */
    uint8_t read[BLOCKS][BUFFERS][BYTES / 8], written[BLOCKS][BUFFERS][BYTES / 8];
};
struct machine {
    const struct kernel *k;
    struct world *w;
    struct trace *out;
    uint32_t block, at[3];
    uint32_t var[VARS + 1][THREADS], counter[COUNTERS][THREADS], shared[THREADS * 4];
    bool gone[THREADS];
};

static uint32_t eval(const struct machine *m, const struct expr *e, uint32_t t)
{
    const struct kernel *k = m->k;
    if (e->op == LEAF)
        switch (e->leaf) {
        case CONST: return e->k;
        case TIDX: return t % k->block[0];
        case TIDY: return t / k->block[0] % k->block[1];
        case CTAX: return m->at[0];
        case CTAY: return m->at[1];
        case CTAZ: return m->at[2];
        case LINEAR: return t;
        case BLOCK: return m->block;
        case VAR: return m->var[e->k][t];
        case COUNTER: return m->counter[e->k][t];
        case SCALAR: return k->scalar;
        case LOWBITS: /* 15: of what the plan has to assume; 2047: of where the buffer lies */
            return (uint32_t)(m->w->base[k->buffer[e->k % PARAMS]] + k->offset[e->k % PARAMS]) & (e->k < PARAMS ? 2047 : 15);
        }
    uint32_t a = eval(m, e->a, t), b = eval(m, e->b, t);
    switch (e->op) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case AND: return a & b;
    case OR: return a | b;
    case XOR: return a ^ b;
    case SHL: return b > 31 ? 0 : a << b;
    case SHR: return b > 31 ? 0 : a >> b;
    case MIN: return a < b ? a : b;
    case MAX: return a > b ? a : b;
    case REM: return a % b;
    case DIV: return a / b;
    default: return a < b ? eval(m, e->c, t) : eval(m, e->d, t);
    }
}

static bool holds(const struct machine *m, const struct cond *c, uint32_t t)
{
    uint32_t a = eval(m, c->a, t), b = eval(m, c->b, t);
    bool x = c->cmp == LT ? a < b : c->cmp == LE ? a <= b : c->cmp == EQ ? a == b : c->cmp == NE ? a != b : a >= b;
    return c->join == LAST ? x : c->join == ALSO ? x && holds(m, c->next, t) : x || holds(m, c->next, t);
}

static uint8_t *touch(struct machine *m, const struct stmt *s, const struct expr *e, uint32_t t, bool reads, bool writes)
{
    uint32_t p = s->select && !holds(m, s->c, t) ? s->other : s->param, b = m->k->buffer[p];
    uint32_t at = m->k->offset[p] + eval(m, e, t) * s->width;
    for (uint32_t i = at; i < at + s->width; i++) {
        if (reads)
            m->out->read[m->block][b][i / 8] |= (uint8_t)(1 << i % 8);
        if (writes)
            m->out->written[m->block][b][i / 8] |= (uint8_t)(1 << i % 8);
    }
    return &m->w->memory[b][at];
}

static void run_stmts(struct machine *m, const struct stmt *s, const bool *on);

static void run_stmt(struct machine *m, const struct stmt *s, const bool *on)
{
    uint32_t n = m->k->threads, old[THREADS], rounds[THREADS];
    bool now[THREADS], some = true;
    switch (s->kind) {
    case FOR:
        for (uint32_t t = 0; t < n; t++)
            if (on[t])
                rounds[t] = eval(m, s->e, t), m->counter[s->counter][t] = 0;
        while (some) {
            some = false;
            for (uint32_t t = 0; t < n; t++) {
                now[t] = on[t] && !m->gone[t] && m->counter[s->counter][t] < rounds[t];
                some |= now[t];
            }
            run_stmts(m, s->body, now);
            for (uint32_t t = 0; t < n; t++)
                m->counter[s->counter][t] += now[t] ? s->flavour : 0;
        }
        return;
    case IF:
        for (uint32_t t = 0; t < n; t++)
            now[t] = on[t] && holds(m, s->c, t);
        run_stmts(m, s->body, now);
        for (uint32_t t = 0; t < n; t++)
            now[t] = on[t] && !now[t];
        run_stmts(m, s->otherwise, now);
        return;
    case SHUFFLE:
        memcpy(old, m->var[s->other], sizeof old);
        for (uint32_t t = 0; t < n; t++) {
            uint32_t lane = t % 32, b = s->e->k, from = s->flavour == 0 ? b : s->flavour == 1 ? lane ^ b : s->flavour == 2 ? lane - b : lane + b;
            m->var[s->var][t] = old[from > 31 ? t : t - lane + from];
        }
        return;
    default: break;
    }
    for (uint32_t t = 0; t < n; t++) {
        uint8_t *p;
        if (!on[t])
            continue;
        switch (s->kind) {
        case SET: m->var[s->var][t] = eval(m, s->e, t); break;
        case EXIT: m->gone[t] = holds(m, s->c, t); break;
        case STAGE:
            if (!s->c || holds(m, s->c, t))
                m->shared[t * 4] = eval(m, s->v, t);
            break;
        case COPY: memcpy(&m->shared[t * 4], touch(m, s, s->v, t, true, false), s->width); break;
        case LOAD:
            p = touch(m, s, s->e, t, true, false);
            m->var[s->var][t] = 0;
            memcpy(&m->var[s->var][t], p, s->width < 4 ? s->width : 4);
            break;
        case STORE: touch(m, s, s->e, t, false, true); break; /* nobody's address depends on what is stored */
        default: touch(m, s, s->e, t, true, true);
        }
    }
    if (s->kind == STAGE || s->kind == COPY)
        for (uint32_t t = 0; t < n; t++)
            m->var[s->var][t] = m->shared[eval(m, s->e, t) * 4];
}

static void run_stmts(struct machine *m, const struct stmt *s, const bool *on)
{
    for (; s; s = s->next) {
        bool now[THREADS], some = false;
        for (uint32_t t = 0; t < m->k->threads; t++) {
            now[t] = on[t] && !m->gone[t];
            some |= now[t];
        }
        if (some)
            run_stmt(m, s, now);
    }
}

static void run_kernel(const struct kernel *k, struct world *w, struct trace *out)
{
    static struct machine m;
    memset(out, 0, sizeof *out);
    for (uint32_t b = 0; b < k->blocks; b++) {
        bool on[THREADS];
        memset(&m, 0, sizeof m);
        memset(on, 1, sizeof on);
        m.k = k;
        m.w = w;
        m.out = out;
        m.block = b;
        m.at[0] = b % k->grid[0];
        m.at[1] = b / k->grid[0] % k->grid[1];
        m.at[2] = b / k->grid[0] / k->grid[1];
        for (uint32_t t = 0; t < THREADS; t++)
            for (int v = 0; v <= VARS; v++)
                m.var[v][t] = t;
        for (uint32_t i = 0; i < THREADS * 4; i++)
            m.shared[i] = w->shared ? (uint32_t)dt_splitmix64(w->shared, i) : 0;
        run_stmts(&m, k->first, on);
    }
}

/* Variant 0 is the graph's own fill; the constant table is the same in all. */
static void world(struct world *w, unsigned variant)
{
    memset(w, 0, sizeof *w);
    for (unsigned b = 0; b < BUFFERS; b++)
        w->base[b] = variant * 48 * (b + 1); /* red zones and alignment are the device's: any multiple of 16 may occur */
    for (uint32_t i = 0; i < BYTES; i += 4) {
        uint32_t in = (uint32_t)dt_splitmix64(variant + 100, i), table = (uint32_t)dt_splitmix64(7, i) % 512;
        memcpy(&w->memory[IN][i], &in, 4);
        memcpy(&w->memory[TABLE][i], &table, 4);
    }
    w->shared = variant * 0x9E3779B9u;
}

/* ---- one against the other -------------------------------------------------------------------------------------------- */

static unsigned wrong, checked, data_said, data_shown;

static void bad(uint64_t seed, uint32_t block, uint32_t buffer, const char *what)
{
    static const char *const names[] = {"in", "table", "out0", "out1", "out2"};
    printf("seed %llu: block %u, %s: %s\n", (unsigned long long)seed, block, names[buffer], what);
    wrong++;
}

static void bits(struct ana_set s, uint8_t *out)
{
    for (uint32_t i = 0; i < s.n; i++)
        for (uint64_t b = s.iv[i].lo; b < s.iv[i].hi && b < BYTES; b++)
            out[b / 8] |= (uint8_t)(1 << b % 8);
}

static bool subset(const uint8_t *x, const uint8_t *y)
{
    for (unsigned i = 0; i < BYTES / 8; i++)
        if (x[i] & ~y[i])
            return false;
    return true;
}

static void check(uint64_t seed, const struct kernel *k, const struct ana_launch *a)
{
    static struct trace t[TRACES];
    static struct world w;
    for (unsigned v = 0; v < TRACES; v++) {
        world(&w, v);
        run_kernel(k, &w, &t[v]);
    }
    checked++;
    for (uint32_t buf = 0; buf < BUFFERS; buf++) {
        enum ana_evidence read = ANA_PROVED, write = ANA_PROVED;
        bool moves_r = false, moves_w = false;
        for (uint32_t i = 0; i < a->naccess; i++)
            if (a->access[i].buffer == buf) {
                read = a->access[i].reads ? a->access[i].read : read;
                write = a->access[i].writes ? a->access[i].write : write;
            }
        for (uint32_t b = 0; b < k->blocks; b++) {
            uint8_t r[BYTES / 8] = {0}, must[BYTES / 8] = {0}, all[BYTES / 8] = {0};
            for (uint32_t i = 0; i < a->block[b].ntouch; i++)
                if (a->block[b].touch[i].buffer == buf) {
                    bits(a->block[b].touch[i].read, r);
                    bits(a->block[b].touch[i].must_write, must);
                    bits(a->block[b].touch[i].must_write, all);
                    bits(a->block[b].touch[i].may_write, all);
                }
            for (unsigned v = 0; v < TRACES; v++) {
                const uint8_t *tr = t[v].read[b][buf], *tw = t[v].written[b][buf];
                if (!subset(tr, r))
                    bad(seed, b, buf, "a byte is read that the footprint has not");
                else if (read != ANA_DATA_DEPENDENT && !subset(r, tr))
                    bad(seed, b, buf, "proved, and a byte is not read that the footprint has");
                if (!subset(tw, all))
                    bad(seed, b, buf, "a byte is written that the footprint has not");
                else if (write != ANA_DATA_DEPENDENT && !subset(all, tw))
                    bad(seed, b, buf, "proved, and a byte is not written that the footprint has");
                if (!subset(must, tw))
                    bad(seed, b, buf, "a byte is not written that the footprint says surely is");
                moves_r |= memcmp(tr, t[0].read[b][buf], BYTES / 8) != 0;
                moves_w |= memcmp(tw, t[0].written[b][buf], BYTES / 8) != 0;
            }
        }
        data_said += (read == ANA_DATA_DEPENDENT) + (write == ANA_DATA_DEPENDENT);
        data_shown += (read == ANA_DATA_DEPENDENT && moves_r) + (write == ANA_DATA_DEPENDENT && moves_w);
    }
}

static void document(struct dt_str *doc, const struct kernel *k, unsigned n, const char *ptx)
{
    dt_str_add(doc, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (; *ptx; ptx++)
        if (*ptx == '\n')
            dt_str_add(doc, "\\n");
        else
            dt_str_addc(doc, *ptx);
    dt_str_add(doc, "\"}}, \"buffers\": {");
    static struct world w;
    world(&w, 0);
    for (unsigned b = 0; b < BUFFERS; b++) {
        static const char *const name[] = {"in", "table", "out0", "out1", "out2"}, digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        dt_str_addf(doc, "%s\"%s\": {\"bytes\": %u, \"role\": \"%s\"", b ? ", " : "", name[b], BYTES, b < OUT0 ? "input" : "output");
        if (b < OUT0) {
            dt_str_addf(doc, "%s, \"data\": \"", b == TABLE ? ", \"constant\": true" : "");
            for (uint32_t i = 0; i < BYTES; i += 3) {
                uint32_t x = 0, have = BYTES - i < 3 ? BYTES - i : 3;
                for (uint32_t q = 0; q < 3; q++)
                    x = x << 8 | (q < have ? w.memory[b][i + q] : 0);
                for (uint32_t q = 0; q < 4; q++)
                    dt_str_addc(doc, q <= have ? digit[x >> (18 - 6 * q) & 63] : '=');
            }
            dt_str_addc(doc, '"');
        }
        dt_str_addc(doc, '}');
    }
    dt_str_add(doc, "}, \"launches\": [");
    for (unsigned i = 0; i < n; i++) {
        static const char *const name[] = {"in", "table", "out0", "out1", "out2"};
        dt_str_addf(doc, "%s{\"name\": \"k%u\", \"module\": \"m\", \"entry\": \"k%u\", \"grid\": [%u,%u,%u], \"block\": [%u,%u,%u], \"args\": [",
                    i ? "," : "", i, i, k[i].grid[0], k[i].grid[1], k[i].grid[2], k[i].block[0], k[i].block[1], k[i].block[2]);
        for (int p = 0; p < PARAMS; p++)
            dt_str_addf(doc, "{\"buffer\": \"%s\", \"offset\": %u}, ", name[k[i].buffer[p]], k[i].offset[p]);
        dt_str_addf(doc, "{\"u32\": %u}]}", k[i].scalar);
    }
    dt_str_add(doc, "]}");
}

/* The other recorder, and every way to run the launches, must say the same, to the byte. */
static int other_ways(struct dev_device *d, uint64_t seed, const struct dev_prog *p, const struct ana_result *a)
{
    static const struct {
        struct ana_options o;
        const char *name;
    } way[] = {{{.way = ANA_WAY_INSTRUMENTED}, "instrumented"},
               {{.way = ANA_WAY_INSTRUMENTED, .no_slice = true}, "instrumented, whole"},
               {{.way = ANA_WAY_NATIVE, .no_slice = true}, "native, whole"},
               {{.way = ANA_WAY_NATIVE, .no_summary = true}, "native, slices"}};
    json_t *one = ana_to_json(a, dev_info(d), NULL, true);
    int r = one ? 0 : DT_E_NOMEM;
    for (unsigned i = 0; i < sizeof way / sizeof *way && r == 0; i++) {
        struct dt_err e = {0};
        struct ana_result *b = NULL;
        r = ana_run(d, p, &way[i].o, &b, &e);
        json_t *two = r == 0 ? ana_to_json(b, dev_info(d), NULL, true) : NULL;
        if (r < 0 || !json_equal(one, two)) {
            printf("seeds from %llu, %s: %s\n", (unsigned long long)seed, way[i].name, r < 0 ? e.detail ? e.detail : "failed" : "another document");
            wrong++;
        }
        json_decref(two);
        ana_free(b);
        dt_err_done(&e);
    }
    json_decref(one);
    return r;
}

static int batch(struct dev_device *d, uint64_t seed, unsigned n)
{
    static struct kernel k[BATCH];
    struct dt_str ptx = {0}, doc = {0};
    struct dt_err e = {0};
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct ana_result *a = NULL;
    struct ana_options o = {.no_slice = getenv("WHOLE") != NULL, .way = ANA_WAY_NATIVE};
    dt_str_add(&ptx, ".version 8.0\n.target sm_80\n.address_size 64\n");
    for (unsigned i = 0; i < n; i++) {
        make(&k[i], seed + i);
        print_kernel(&ptx, &k[i], i);
    }
    if (getenv("SHOW"))
        puts(ptx.s);
    document(&doc, k, n, ptx.s);
    int r = dt_graph_parse(doc.s, doc.len, &g, &e);
    if (r == 0)
        r = dev_prog_new(d, g, NULL, NULL, &p, &e);
    if (r == 0)
        r = ana_run(d, p, &o, &a, &e);
    if (r < 0 && n > 1) { /* one of them: which? */
        dev_reset(d, NULL);
        for (unsigned i = 0; i < n; i++)
            dt_arena_done(&k[i].arena);
        for (unsigned i = 0; i < n; i++)
            batch(d, seed + i, 1);
    } else if (r < 0) {
        printf("seed %llu: %s: %s\n", (unsigned long long)seed, dt_err_text(r), e.detail ? e.detail : "");
        wrong++;
        dev_reset(d, NULL);
    }
    for (unsigned i = 0; i < n && r == 0; i++)
        check(seed + i, &k[i], &a->launch[i]);
    if (r == 0)
        r = other_ways(d, seed, p, a);
    for (unsigned i = 0; i < n; i++)
        dt_arena_done(&k[i].arena);
    ana_free(a);
    dev_prog_free(p);
    dt_graph_free(g);
    dt_err_done(&e);
    dt_str_done(&doc);
    dt_str_done(&ptx);
    return r;
}

int main(int argc, char **argv)
{
    unsigned count = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 500;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct dev_device *d;
    struct dt_err e = {0};
    if (dev_open("soft:h200", &d, &e) < 0) {
        fprintf(stderr, "%s\n", e.detail ? e.detail : "no device");
        return 2;
    }
    for (unsigned i = 0; i < count; i += BATCH)
        batch(d, seed + i, count - i < BATCH ? count - i : BATCH);
    printf("%u kernels, %u wrong; data-dependent was said of %u reads and writes of a buffer, and seen in %u\n", checked, wrong, data_said,
           data_shown);
    dev_close(d);
    return wrong || checked != count;
}
