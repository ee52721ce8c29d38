/* Making random kernels. */
#include "kernels.h"

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
        most = l == LINEAR  ? k->threads - 1
               : l == BLOCK ? k->blocks - 1
               : l == TIDX  ? k->block[0] - 1
               : l == TIDY  ? k->block[1] - 1
               : l == CTAX  ? k->grid[0] - 1
               : l == CTAZ  ? k->grid[2] - 1
                            : 6;
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
    return chance(k, 40) && room ? binary(k, ADD, e ? e : leaf(k, CONST, 0), leaf(k, CONST, below(k, room)))
           : e                   ? e
                                 : leaf(k, CONST, 0);
}

static struct expr *any(struct kernel *k, unsigned depth)
{
    if (!depth || chance(k, 25)) {
        static const enum leaf leaves[] = {CONST, TIDX, TIDY, CTAX,    CTAY,   CTAZ,    LINEAR, LINEAR,
                                           BLOCK, VAR,  VAR,  COUNTER, SCALAR, LOWBITS, RANK};
        enum leaf l = leaves[below(k, 15)];
        uint32_t id = l == VAR     ? below(k, VARS)
                      : l == CONST ? ONE_OF(k, 0, 1, 2, 3, 7, 31, 64, 255, 0x7fffffff, 0xfffffffe)
                                   : below(k, PARAMS);
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
    if (op == EXTRACT)
        e->b = leaf(k, CONST, below(k, 32)), e->c = leaf(k, CONST, below(k, 12));
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
    struct expr *e = chance(k, 30)   ? binary(k, ADD, affine(k, 4096), leaf(k, VAR, below(k, VARS)))
                     : chance(k, 40) ? binary(k, ADD, affine(k, 4096), any(k, 1))
                                     : any(k, 3);
    return count & (count - 1) || chance(k, 50) ? binary(k, REM, e, leaf(k, CONST, count))
                                                : binary(k, AND, e, leaf(k, CONST, count - 1));
}

static struct cond *guard(struct kernel *k)
{
    struct cond *c = fresh(k, sizeof *c);
    c->a = chance(k, 60) ? affine(k, 256) : any(k, 2);
    c->b = chance(k, 60)   ? leaf(k, CONST, ONE_OF(k, 0, 1, 5, 16, 31, 32, 33, 64, 100))
           : chance(k, 50) ? leaf(k, SCALAR, 0)
                           : any(k, 1);
    c->cmp = below(k, 5);
    if (chance(k, 25)) {
        c->join = chance(k, 50) ? ALSO : ELSE;
        c->next = guard(k);
    }
    return c;
}

/* The same in all threads of a warp, less than `limit`. */
static struct expr *uniform(struct kernel *k, uint32_t limit)
{
    struct expr *warp = binary(k, SHR, leaf(k, LINEAR, 0), leaf(k, CONST, 5));
    struct expr *e = binary(k, ADD, binary(k, MUL, leaf(k, BLOCK, 0), leaf(k, CONST, below(k, 5))),
                            binary(k, MUL, warp, leaf(k, CONST, below(k, 4))));
    if (k->counters && chance(k, 50))
        e = binary(k, ADD, e, leaf(k, COUNTER, below(k, k->counters)));
    return binary(k, REM, e, leaf(k, CONST, limit));
}

/* A parameter whose buffer may be written. */
static uint32_t output(struct kernel *k) { return 2 + below(k, PARAMS - 2); }

/* The statements that are not one access of one thread. False: none was chosen. */
static bool special(struct kernel *k, struct stmt *s, bool all)
{
    uint32_t r = below(k, 100);
    if (r < 6) { /* local[e] = v; var = local[w] */
        s->kind = LOCAL;
        s->e = chance(k, 50) ? affine(k, LOCALS) : any(k, 2);
        s->v = any(k, 2);
        s->w = chance(k, 50) ? affine(k, LOCALS) : any(k, 2);
        s->c = chance(k, 25) ? guard(k) : NULL;
        s->flavour = below(k, 4); /* 0: by a generic address */
    } else if (r < 10) {
        s->kind = CALL; /* arithmetic; a load; a store; a load by way of another function */
        s->flavour = below(k, 4);
        s->param = s->flavour == 2 ? output(k) : below(k, PARAMS);
        s->e = chance(k, 50) ? affine(k, 128) : any(k, 2);
        if ((s->flavour & 1) && k->buffer[s->param] >= OUT0 && !k->wild)
            s->var = SINK;
    } else if (r < 14) {
        s->kind = VOTE; /* ballot, any, all of a warp; how many of the block */
        s->flavour = all && k->pool ? below(k, 4) : 3;
        s->c = guard(k);
        return all;
    } else if (r < 24) {
        s->kind = BULK; /* one thread: load, store, reduction, prefetch */
        s->flavour = below(k, 4);
        s->param = s->flavour == 0 || s->flavour == 3 ? below(k, PARAMS) : output(k);
        s->counter = below(k, k->threads);
        s->e = index_of(k, WINDOW / 16 - BULK_UNITS + 1);
        s->v = chance(k, 60) ? leaf(k, CONST, below(k, BULK_UNITS)) : any(k, 1);
    } else if (r < 36) {
        s->kind = TENSOR; /* one thread: load, store, reduction, prefetch */
        s->flavour = below(k, 4);
        s->counter = below(k, k->threads);
        s->e = chance(k, 60) ? affine(k, 64) : any(k, 2);
        s->v = chance(k, 60) ? affine(k, 64) : any(k, 2);
    } else if (r < 56 && all && k->pool) {
        s->kind = MATRIX; /* 16 × 16: f16 is loaded, f32 stored */
        s->flavour = below(k, 2);
        s->param = s->flavour ? output(k) : below(k, PARAMS);
        s->width = s->flavour ? 4 : 2;
        s->count = s->flavour ? ONE_OF(k, 16, 20, 24) : ONE_OF(k, 16, 24, 32, 40); /* the stride, in elements */
        s->e = uniform(k, (WINDOW - 16 * s->count * s->width) / 32);
    } else {
        return false;
    }
    return true;
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
    if (chance(k, 30) && special(k, s, all))
        return s;
    memset(s, 0, sizeof *s);
    s->width = ONE_OF(k, 1, 2, 4, 4, 4, 4, 8, 16);
    s->param = below(k, PARAMS);
    s->var = below(k, VARS);
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
        s->e = same ? leaf(k, CONST, below(k, 7))
                    : binary(k, AND, chance(k, 60) ? affine(k, 64) : any(k, 2), leaf(k, CONST, 7));
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
        /* 4, 8, 16 bytes of global memory to this thread's place; wait; barrier; var = shared[index]; barrier */
        s->kind = COPY;
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
    if (s->kind == LOAD && !input && !k->wild)
        s->var = SINK;
    if (s->kind == ATOMIC && !k->wild)
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

void kernel_make(struct kernel *k, uint64_t seed)
{
    static const uint32_t grids[][3] = {{4, 1, 1}, {7, 1, 1}, {3, 2, 1}, {2, 2, 2}, {12, 1, 1}, {1, 1, 1}};
    static const uint32_t blocks[][3] = {{32, 1, 1}, {64, 1, 1}, {16, 4, 1}, {128, 1, 1},
                                         {40, 1, 1}, {8, 3, 2},  {1, 1, 1}};
    memset(k, 0, sizeof *k);
    k->rng = seed << 24;
    memcpy(k->grid, grids[below(k, 6)], sizeof k->grid);
    memcpy(k->block, blocks[below(k, 7)], sizeof k->block);
    k->threads = k->block[0] * k->block[1] * k->block[2];
    k->blocks = k->grid[0] * k->grid[1] * k->grid[2];
    k->pool = k->threads % 32 == 0;
    k->wild = chance(k, 20);
    k->tidy = chance(k, 60);
    k->pairs = k->grid[0] % 2 == 0 && chance(k, 30);
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
