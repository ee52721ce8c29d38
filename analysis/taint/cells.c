/* Shared and local memory between a store and a load: races, and reads of bytes that nothing wrote.
 *
 * Races. `s[t] = x; y = s[t ^ 1];` without a barrier between may read the old value or the new one. A value loaded from
 * shared memory is the same in every run only if a barrier of the whole block lies on every way between a store to the
 * variable and the load, in either order. Three sets of variables flow through the blocks: stored since the last
 * barrier, loaded since the last barrier, and stored by cp.async without a wait since. An access that meets the other
 * kind makes the variable raced, and what is loaded from it counts as data. That holds also for threads that read only
 * what they wrote themselves: they are not told apart. Stores that may go to another block of the cluster, and loads
 * that may meet such, are ordered by a barrier of the cluster alone; one whose arrival is .relaxed orders nothing.
 *
 * Memory that nothing has written. Whether a load meets some depends on addresses that the pass does not know, so the
 * instrumented entry finds out (instrument/): variables whose loads are believed (`fill`) begin as ANA_POISON, and
 * each of these loads (`watch`) looks for it. Pieces are as wide as the narrowest store to the variable, at most as the
 * load.
 */
#include "analysis/taint/taint-priv.h"

static bool whole_barrier(const struct ana_taint_state *s, const struct ptx_inst *i)
{
    if (i->pred != PTX_NO_REG || s->choosy[i - s->f->inst])
        return false;
    switch (i->op) {
    case PTX_OP_BAR_SYNC:
    case PTX_OP_BARRIER_SYNC: return i->nopnd == 1;
    case PTX_OP_BAR_RED:
    case PTX_OP_BARRIER_RED: return i->nopnd == 3;
    case PTX_OP_BARRIER_CLUSTER_WAIT: return !s->relaxed;
    }
    return false;
}

/* Variables that `i` loads from, or (stores) that it stores to; in `mask`. */
static bool touches(struct ana_taint_state *s, const struct ptx_inst *i, bool stores, uint64_t *prov, uint64_t *mask)
{
    const struct ptx_op_info *op = ptx_op_info(i->op);
    memset(mask, 0, s->words * sizeof *mask);
    bool load = i->op == PTX_OP_LD || i->op == PTX_OP_LDU, store = i->op == PTX_OP_ST || i->op == PTX_OP_CP_ASYNC;
    if (!(stores ? store : load) || op->addr_opnd < 0 || op->addr_opnd >= i->nopnd)
        return false;
    taint_address(s, &i->opnd[op->addr_opnd], prov);
    if (stores) {
        ana_store_targets(s, i->op == PTX_OP_CP_ASYNC ? PTX_SHARED : i->space, prov, mask);
    } else if (i->space == PTX_GENERIC || i->space == PTX_SHARED || i->space == PTX_LOCAL) {
        for (uint32_t w = 0; w < s->words; w++)
            mask[w] = prov[w] & ((i->space != PTX_LOCAL ? s->shared_bits[w] : 0) |
                                 (i->space != PTX_SHARED ? s->local_bits[w] : 0));
        ana_alias(s, mask);
    }
    return true;
}

#define SETS 5
struct flow {
    struct ana_taint_state *s;
    uint64_t *stored, *loaded, *async; /* at hand */
    uint64_t *remote, *seen;           /* stored by other blocks, loaded, since a barrier of the cluster */
    uint64_t *prov, *mask;
};

static void race(struct flow *f, const uint64_t *with)
{
    struct ana_taint_state *s = f->s;
    for (uint32_t b = 0; b < s->nbit; b++)
        if (has_bit(f->mask, b) && has_bit(with, b) && has_bit(s->shared_bits, b) && !s->cell[b].raced)
            s->cell[b].raced = s->changed = true;
}

static void through(struct flow *f, const struct ptx_inst *i)
{
    struct ana_taint_state *s = f->s;
    bool away = i->space == PTX_SHARED_CLUSTER || (i->space == PTX_GENERIC && s->mapa);
    if (whole_barrier(s, i)) {
        memset(f->stored, 0, s->words * sizeof *f->stored);
        memset(f->loaded, 0, s->words * sizeof *f->loaded);
        if (i->op == PTX_OP_BARRIER_CLUSTER_WAIT) {
            memset(f->remote, 0, s->words * sizeof *f->remote);
            memset(f->seen, 0, s->words * sizeof *f->seen);
        }
    } else if (i->op == PTX_OP_CP_ASYNC_WAIT_ALL || i->op == PTX_OP_CP_ASYNC_WAIT_GROUP) {
        quiet_join(s, f->stored, f->async);
        if (i->op == PTX_OP_CP_ASYNC_WAIT_ALL || (i->opnd[0].kind == PTX_O_IMM && !i->opnd[0].bits))
            memset(f->async, 0, s->words * sizeof *f->async);
    } else if (touches(s, i, false, f->prov, f->mask)) {
        race(f, f->stored);
        race(f, f->async);
        race(f, f->remote);
        quiet_join(s, f->loaded, f->mask);
        quiet_join(s, f->seen, f->mask);
    } else if (touches(s, i, true, f->prov, f->mask)) {
        race(f, f->loaded);
        if (away) {
            race(f, f->seen);
            quiet_join(s, f->remote, f->mask);
        }
        quiet_join(s, i->op == PTX_OP_CP_ASYNC ? f->async : f->stored, f->mask);
    }
}

void ana_races(struct ana_taint_state *s)
{
    uint32_t n = s->cfg.nblock, w = s->words;
    bool some = false;
    for (uint32_t b = 0; b < s->nbit; b++)
        some |= has_bit(s->shared_bits, b) && s->cell[b].stored && !s->cell[b].raced && s->cell[b].taint != DATA;
    if (!some)
        return;
    uint64_t *in = dt_arena_array(&s->a, (size_t)n + 1, SETS * w * sizeof *in);
    uint64_t *tmp = dt_new_array(&s->a, uint64_t, (SETS + 2) * (size_t)w);
    uint8_t *dirty = dt_new_array(&s->a, uint8_t, (size_t)n + 1);
    if (!in || !tmp || !dirty)
        return;
    memset(in, 0, ((size_t)n + 1) * SETS * w * sizeof *in);
    memset(dirty, 1, n);
    struct flow f = {s, tmp, tmp + w, tmp + 2 * w, tmp + 3 * w, tmp + 4 * w, tmp + SETS * w, tmp + (SETS + 1) * w};
    for (bool more = true; more;) {
        more = false;
        for (uint32_t b = 0; b < n; b++) {
            const struct ptx_block *k = &s->cfg.block[b];
            if (!dirty[b] || !k->reachable)
                continue;
            dirty[b] = 0;
            memcpy(tmp, in + (size_t)b * SETS * w, SETS * w * sizeof *tmp);
            for (uint32_t i = k->first; i <= k->last && i < s->f->ninst; i++)
                through(&f, &s->f->inst[i]);
            for (uint32_t j = 0; j < k->nsucc; j++) {
                uint64_t *to = in + (size_t)k->succ[j] * SETS * w;
                for (uint32_t q = 0; q < SETS * w; q++)
                    if (tmp[q] & ~to[q])
                        to[q] |= tmp[q], dirty[k->succ[j]] = 1, more = true;
            }
        }
    }
}

struct dest {
    const struct ana_taint_state *s;
    bool clean;
};

static void cells_look(uint32_t r, bool write, void *user)
{
    struct dest *d = user;
    d->clean |= write && d->s->reg[r] != DATA;
}

bool ana_watch(struct ana_taint_state *s, struct ana_tainted *t)
{
    const struct ptx_function *f = s->f;
    uint64_t *prov = dt_new_array(&s->a, uint64_t, s->words), *mask = dt_new_array(&s->a, uint64_t, s->words);
    uint8_t *narrow = dt_new_array(&s->a, uint8_t, (size_t)s->nbit + 1);
    bool *fill = dt_new_array(&s->a, bool, (size_t)s->nbit + 1);
    t->watch = dt_new_array(&t->sites.arena, uint8_t, (size_t)f->ninst + 1);
    t->fill = (const struct ptx_var **)dt_new_array(&t->sites.arena, struct ptx_var *, (size_t)s->nbit + 1);
    if (!prov || !mask || !narrow || !fill || !t->watch || !t->fill)
        return false;
    memset(narrow, 8, s->nbit);
    for (uint32_t i = 0; i < f->ninst; i++) {
        if (!touches(s, &f->inst[i], true, prov, mask))
            continue;
        unsigned bytes = f->inst[i].op == PTX_OP_ST ? ptx_type_bytes(f->inst[i].type[0]) : 4;
        for (uint32_t b = 0; b < s->nbit; b++)
            if (has_bit(mask, b) && bytes && bytes < narrow[b])
                narrow[b] = (uint8_t)bytes;
    }
    for (uint32_t i = 0; i < f->ninst; i++) {
        struct dest d = {s, false};
        if (!touches(s, &f->inst[i], false, prov, mask))
            continue;
        ptx_inst_regs(&f->inst[i], cells_look, &d);
        unsigned bytes = ptx_type_bytes(f->inst[i].type[0]);
        for (uint32_t b = 0; b < s->nbit && d.clean; b++) {
            if (!has_bit(mask, b))
                continue;
            fill[b] = true;
            unsigned piece = narrow[b] < bytes ? narrow[b] : bytes;
            if (!t->watch[i] || piece < t->watch[i])
                t->watch[i] = (uint8_t)piece;
        }
    }
    for (uint32_t b = f->nparam; b < s->nbit; b++)
        if (fill[b])
            t->fill[t->nfill++] = b < f->nparam + s->nown ? f->var[b - f->nparam] : module_var(s, b);
    return true;
}
