/* Live registers (backward data flow over bit sets), and the register pressure that follows from them.
 *
 * Per block: used before defined, and defined; then in = use | (out & ~def), out = union of the successors' in, swept
 * backward over a worklist until nothing changes. A predicated write does not end a value's life. Pressure counts what
 * is live before each instruction, 4 bytes at least per value and none for predicates, which have registers of their
 * own. The sets' size is checked before they are allocated.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx-priv.h"

#define MAX_BYTES ((uint64_t)1 << 30)

static inline void flow_set(uint64_t *s, uint32_t r) { s[r / 64] |= UINT64_C(1) << (r % 64); }
static inline bool flow_has(const uint64_t *s, uint32_t r) { return s[r / 64] >> (r % 64) & 1; }

struct scan {
    const struct ptx_function *f;
    uint64_t *use, *def, *live;
    uint64_t bytes;
    bool writes;
};

static void forward(uint32_t reg, bool write, void *user)
{
    struct scan *s = user;
    if (write != s->writes)
        return;
    if (write)
        flow_set(s->def, reg);
    else if (!flow_has(s->def, reg))
        flow_set(s->use, reg);
}

static uint64_t reg_bytes(const struct ptx_reg *r)
{
    if (r->type == PTX_PRED)
        return 0;
    unsigned n = ptx_type_bytes(r->type);
    return (uint64_t)(n < 4 ? 4 : n) * (r->vec ? r->vec : 1);
}

static void backward(uint32_t reg, bool write, void *user)
{
    struct scan *s = user;
    if (write != s->writes || flow_has(s->live, reg) == !write)
        return;
    s->live[reg / 64] ^= UINT64_C(1) << (reg % 64);
    if (write)
        s->bytes -= reg_bytes(&s->f->reg[reg]);
    else
        s->bytes += reg_bytes(&s->f->reg[reg]);
}

static int solve(const struct ptx_cfg *cfg, struct ptx_live *l, uint64_t **use, uint64_t **def)
{
    uint32_t n = cfg->nblock, top = 0, *work = dt_reallocarray(NULL, (size_t)n + 1, sizeof *work);
    uint8_t *queued = dt_calloc((size_t)n + 1, 1);
    if (!work || !queued) {
        free(work);
        free(queued);
        return DT_E_NOMEM;
    }
    for (uint32_t b = 0; b < n; b++) {
        work[top++] = b; /* the last block comes off first */
        queued[b] = 1;
    }
    while (top) {
        uint32_t b = work[--top];
        const struct ptx_block *k = &cfg->block[b];
        bool changed = false;
        queued[b] = 0;
        for (uint32_t j = 0; j < k->nsucc; j++)
            for (uint32_t w = 0; w < l->words; w++)
                l->out[b][w] |= l->in[k->succ[j]][w];
        for (uint32_t w = 0; w < l->words; w++) {
            uint64_t in = use[b][w] | (l->out[b][w] & ~def[b][w]);
            changed |= in != l->in[b][w];
            l->in[b][w] = in;
        }
        for (uint32_t j = 0; changed && j < k->npred; j++)
            if (!queued[k->pred[j]]) {
                queued[k->pred[j]] = 1;
                work[top++] = k->pred[j];
            }
    }
    free(work);
    free(queued);
    return 0;
}

static void pressure(const struct ptx_function *f, const struct ptx_cfg *cfg, struct ptx_live *l, uint64_t *live)
{
    uint64_t most = 0;
    for (uint32_t b = 0; b < cfg->nblock; b++) {
        struct scan s = {.f = f, .live = live};
        memcpy(live, l->out[b], l->words * sizeof *live);
        for (uint32_t w = 0; w < l->words; w++)
            for (uint64_t bits = live[w]; bits; bits &= bits - 1)
                s.bytes += reg_bytes(&f->reg[w * 64 + (uint32_t)__builtin_ctzll(bits)]);
        most = s.bytes > most ? s.bytes : most;
        for (uint32_t i = cfg->block[b].last + 1; i-- > cfg->block[b].first;) {
            s.writes = true;
            ptx_inst_regs(&f->inst[i], backward, &s);
            s.writes = false;
            ptx_inst_regs(&f->inst[i], backward, &s);
            most = s.bytes > most ? s.bytes : most;
        }
    }
    l->max_pressure_bytes = most > UINT32_MAX ? UINT32_MAX : (uint32_t)most;
}

static int flow_build(const struct ptx_function *f, const struct ptx_cfg *cfg, struct ptx_live *l, struct dt_err *e)
{
    uint32_t n = cfg->nblock;
    l->words = f->nreg / 64 + 1;
    if ((uint64_t)l->words * 8 * 4 * (n + 1) > MAX_BYTES)
        return dt_err_set(e, DT_E_TOO_LARGE, "function %s is too large for liveness: %u registers, %u blocks", f->name,
                          f->nreg, n);
    uint64_t **rows = dt_new_array(&l->arena, uint64_t *, (size_t)n * 2 + 2),
             **tmp = dt_calloc((size_t)n * 2 + 2, sizeof *tmp);
    uint64_t *mem = dt_new_array(&l->arena, uint64_t, (size_t)l->words * n * 2 + 1),
             *scratch = dt_calloc((size_t)l->words * (n * (size_t)2 + 1), 8);
    int r = rows && tmp && mem && scratch ? 0 : DT_E_NOMEM;
    if (r >= 0) {
        l->in = rows;
        l->out = rows + n;
        for (uint32_t b = 0; b < n; b++) {
            l->in[b] = mem + (size_t)b * l->words;
            l->out[b] = mem + ((size_t)n + b) * l->words;
            tmp[b] = scratch + (size_t)b * l->words;
            tmp[n + b] = scratch + ((size_t)n + b) * l->words;
            struct scan s = {.f = f, .use = tmp[b], .def = tmp[n + b]};
            for (uint32_t i = cfg->block[b].first; i <= cfg->block[b].last; i++) {
                s.writes = false;
                ptx_inst_regs(&f->inst[i], forward, &s);
                s.writes = true;
                ptx_inst_regs(&f->inst[i], forward, &s);
            }
        }
        r = solve(cfg, l, tmp, tmp + n);
    }
    if (r >= 0)
        pressure(f, cfg, l, scratch + (size_t)l->words * n * 2);
    free(tmp);
    free(scratch);
    return r < 0 ? dt_err_set(e, r, "out of memory") : 0;
}

int ptx_live_build(const struct ptx_function *f, const struct ptx_cfg *cfg, struct ptx_live *ret, struct dt_err *e)
{
    struct ptx_live l = {0};
    int r = flow_build(f, cfg, &l, e);
    if (r < 0) {
        ptx_live_done(&l);
        return r;
    }
    *ret = l;
    return 0;
}

void ptx_live_done(struct ptx_live *l)
{
    dt_arena_done(&l->arena);
    *l = (struct ptx_live){0};
}
