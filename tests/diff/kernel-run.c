/* An interpreter of random kernels, which knows nothing of dovetail, and traces every byte of global memory that they
 * touch. */
#include "kernels.h"

struct machine {
    const struct kernel *k;
    struct world *w;
    struct trace *out;
    uint32_t block, at[3];
    uint32_t var[VARS + 1][THREADS], counter[COUNTERS][THREADS], shared[THREADS * 4], local[THREADS][LOCALS];
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
        case RANK: return k->pairs ? m->at[0] % 2 : 0;
        case LOWBITS: /* 15: of what the plan has to assume; 2047: of where the buffer lies */
            return (uint32_t)(m->w->base[k->buffer[e->k % PARAMS]] + k->offset[e->k % PARAMS]) &
                   (e->k < PARAMS ? 2047 : 15);
        }
    uint32_t a = eval(m, e->a, t), b = eval(m, e->b, t);
    switch (e->op) {
    case HIGH: return (uint32_t)((uint64_t)a * b >> 32);
    case EXTRACT: return a >> b & ((1u << e->c->k) - 1);
    case COUNT: return (uint32_t)__builtin_popcount(a);
    case ZEROS: return a ? (uint32_t)__builtin_clz(a) : 32;
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

static uint8_t *mark(struct machine *m, uint32_t b, uint32_t at, uint32_t bytes, bool reads, bool writes)
{
    if (at > BYTES || bytes > BYTES - at)
        abort(); /* the generator keeps every index inside */
    for (uint32_t i = at; i < at + bytes; i++) {
        if (reads)
            m->out->read[m->block][b][i / 8] |= (uint8_t)(1 << i % 8);
        if (writes)
            m->out->written[m->block][b][i / 8] |= (uint8_t)(1 << i % 8);
    }
    return &m->w->memory[b][at];
}

static uint8_t *touch(struct machine *m, const struct stmt *s, const struct expr *e, uint32_t t, bool reads,
                      bool writes)
{
    uint32_t p = s->select && !holds(m, s->c, t) ? s->other : s->param;
    return mark(m, m->k->buffer[p], m->k->offset[p] + eval(m, e, t) * s->width, s->width, reads, writes);
}

/* What a device function returns. */
static uint32_t call(struct machine *m, const struct stmt *s, uint32_t t)
{
    uint32_t a = eval(m, s->e, t), v;
    if (!s->flavour)
        return a * 3 ^ 5;
    uint8_t *p = mark(m, m->k->buffer[s->param], m->k->offset[s->param] + ((a + (s->flavour == 3)) & 127) * 4, 4,
                      s->flavour != 2, s->flavour == 2);
    if (s->flavour == 2)
        memcpy(p, &a, 4);
    memcpy(&v, p, 4);
    return v;
}

/* What is in the shared memory that bulk copies take from: nobody says. */
static void scramble(struct machine *m, uint8_t *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        p[i] = (uint8_t)dt_splitmix64(m->w->shared + 1, i + m->block);
}

static void bulk(struct machine *m, const struct stmt *s, uint32_t t)
{
    uint32_t n = 16 * (1 + (eval(m, s->v, t) & (BULK_UNITS - 1))), at = m->k->offset[s->param] + 16 * eval(m, s->e, t);
    if (t != s->counter || s->flavour == 3)
        return;
    uint8_t *p = mark(m, m->k->buffer[s->param], at, n, s->flavour != 1, s->flavour != 0);
    if (s->flavour)
        scramble(m, p, n);
}

/* The box, element by element. */
static void tensor(struct machine *m, const struct stmt *s, uint32_t t)
{
    bool to = s->flavour == 1 || s->flavour == 2;
    const struct tile *i = &tiles[to];
    int32_t x = (int32_t)(eval(m, s->e, t) & 63) - 16, y = (int32_t)(eval(m, s->v, t) & 31) - 8;
    if (t != s->counter || s->flavour == 3)
        return;
    for (int32_t r = y; r < y + 4; r += (int32_t)i->step)
        for (int32_t c = x; c < x + 4; c++)
            if (r >= 0 && r < (int32_t)i->height && c >= 0 && c < (int32_t)i->width) {
                uint8_t *p = mark(m, TILE_BUFFER(to), i->offset + (uint32_t)r * i->pitch + (uint32_t)c * 4, 4,
                                  s->flavour != 1, to);
                if (to)
                    scramble(m, p, 4);
            }
}

/* Lane t of the warp that has the matrix: lane 0 does it for all. */
static void matrix(struct machine *m, const struct stmt *s, uint32_t t)
{
    if (t % 32)
        return;
    uint32_t at = m->k->offset[s->param] + 32 * eval(m, s->e, t);
    for (uint32_t r = 0; r < 16; r++) {
        uint8_t *p =
            mark(m, m->k->buffer[s->param], at + r * s->count * s->width, 16 * s->width, !s->flavour, s->flavour);
        if (s->flavour)
            memset(p, 0, 16 * s->width);
    }
}

/* The value replicated, as the vector stores have it. */
static void store(uint8_t *p, uint32_t v, uint32_t width)
{
    for (uint32_t i = 0; i < width; i += 4)
        memcpy(p + i, &v, width < 4 ? width : 4);
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
            uint32_t lane = t % 32, b = s->e->k,
                     from = s->flavour == 0   ? b
                            : s->flavour == 1 ? lane ^ b
                            : s->flavour == 2 ? lane - b
                                              : lane + b;
            m->var[s->var][t] = old[from > 31 ? t : t - lane + from];
        }
        return;
    case VOTE:
        memset(rounds, 0, sizeof rounds);
        for (uint32_t t = 0; t < n; t++) {
            bool yes = holds(m, s->c, t);
            for (uint32_t q = 0; q < n; q++)
                if (s->flavour == 3)
                    rounds[q] += yes;
                else if (q / 32 == t / 32)
                    rounds[q] = s->flavour == 0 ? rounds[q] | (uint32_t)yes << t % 32
                                                : rounds[q] + (s->flavour == 1 ? yes : !yes);
        }
        for (uint32_t t = 0; t < n; t++)
            m->var[s->var][t] = s->flavour == 1 ? rounds[t] != 0 : s->flavour == 2 ? rounds[t] == 0 : rounds[t];
        return;
    default: break;
    }
    for (uint32_t t = 0; t < n; t++) {
        uint32_t was;
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
        case STORE: store(touch(m, s, s->e, t, false, true), eval(m, s->v, t), s->width); break;
        case LOCAL:
            if (!s->c || holds(m, s->c, t))
                m->local[t][eval(m, s->e, t) % LOCALS] = eval(m, s->v, t);
            m->var[s->var][t] = m->local[t][eval(m, s->w, t) % LOCALS];
            break;
        case CALL: m->var[s->var][t] = call(m, s, t); break;
        case BULK: bulk(m, s, t); break;
        case TENSOR: tensor(m, s, t); break;
        case MATRIX: matrix(m, s, t); break;
        default:
            p = touch(m, s, s->e, t, true, true);
            uint32_t v = eval(m, s->v, t);
            memcpy(&was, p, 4);
            v = s->flavour & 1 ? was + v : s->kind == ATOMIC ? v : v > was ? v : was;
            memcpy(p, &v, 4);
            if (s->kind == ATOMIC)
                m->var[s->var][t] = was;
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

void kernel_run(const struct kernel *k, struct world *w, struct trace *out, unsigned order)
{
    static struct machine m;
    memset(out, 0, sizeof *out);
    uint32_t turn[BLOCKS];
    for (uint32_t i = 0; i < k->blocks; i++) /* a shuffle of the blocks */
        turn[i] = i;
    for (uint32_t i = k->blocks; order && i > 1; i--) {
        uint32_t j = (uint32_t)(dt_splitmix64(order, i) % i), x = turn[i - 1];
        turn[i - 1] = turn[j];
        turn[j] = x;
    }
    for (uint32_t q = 0; q < k->blocks; q++) {
        uint32_t b = turn[q];
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
        for (uint32_t t = 0; t < THREADS; t++)
            for (uint32_t i = 0; i < LOCALS; i++)
                m.local[t][i] = k->tidy     ? t + i
                                : w->shared ? (uint32_t)dt_splitmix64(w->shared + 2, t * LOCALS + i)
                                            : 0;
        run_stmts(&m, k->first, on);
    }
}

void kernel_world(struct world *w, unsigned variant, const uint32_t align[BUFFERS])
{
    memset(w, 0, sizeof *w);
    for (unsigned b = 0; b < BUFFERS; b++)
        w->base[b] = (variant * 48 * (b + 1) + align[b] - 1) / align[b] * align[b];
    for (uint32_t i = 0; i < BYTES; i += 4) {
        uint32_t in = (uint32_t)dt_splitmix64(variant + 100, i), table = (uint32_t)dt_splitmix64(7, i) % 512;
        memcpy(&w->memory[IN][i], &in, 4);
        memcpy(&w->memory[TABLE][i], &table, 4);
        for (unsigned b = OUT0; b < BUFFERS; b++) {
            uint32_t v = variant ? (uint32_t)dt_splitmix64(variant + 200 + b, i) : UINT32_MAX;
            memcpy(&w->memory[b][i], &v, 4);
        }
    }
    w->shared = variant * 0x9E3779B9u;
}
