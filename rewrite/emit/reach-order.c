/* Which stores to shared memory a load of it can see, by their order: memory is used again, as by the tiles of a product
 * and then by what it stages for its stores.
 *
 *   loop:  bar.sync; ldmatrix a; mma; cp.async -> tile        `a` never sees what st writes: when st runs, all threads
 *   bar.sync                                                  have left the loop. And b, where st has written for
 *   st.shared -> the same bytes                               certain, never sees what cp.async wrote
 *   bar.sync
 *   ld.shared b
 *
 *   later       store s comes after load l in every run if some barrier of all threads stands before s on every way, and
 *               no way leads from it to l. All threads meet at each such barrier (facts/vary.c), so when the first of
 *               them has made s, none will make l any more
 *   covered     bytes that a load finds written for certain: by a plain store of all threads, one place each, with a
 *               barrier between on every way. Stores that all come before these (as above) are not seen in those bytes
 *   classes     loads that see the same
 *
 * If a barrier is in doubt, or there are too many accesses or classes, all loads are one class that sees everything.
 */
#include "rewrite/emit/part-priv.h"

#include "ptx/flow.h"

#include <stdlib.h>
#include <string.h>

#define PAIRS 4000000 /* barriers, times accesses, times accesses */

struct order {
    const struct rw_body *b;
    struct rw_reach *r;
    struct ptx_cfg cfg;
    uint32_t *barrier, nbarrier; /* instructions */
    bool *after;                 /* by barrier and basic block: a way leads there from behind it */
    uint32_t *store, nstore, *load, nload;
    uint8_t *covered;
};

static bool is_meeting(const struct ptx_inst *i)
{
    return (i->op == PTX_OP_BAR_SYNC || i->op == PTX_OP_BARRIER_SYNC) && i->nopnd < 2 && i->pred == PTX_NO_REG;
}

static bool leads(const struct order *o, uint32_t k, uint32_t to)
{
    uint32_t from = o->barrier[k], block = o->cfg.block_of[to];
    return (o->cfg.block_of[from] == block && to > from) || o->after[(size_t)k * o->cfg.nblock + block];
}

/* Does x come after y in every run, whoever makes them? */
static bool later(const struct order *o, uint32_t x, uint32_t y)
{
    for (uint32_t k = 0; k < o->nbarrier; k++)
        if (ptx_inst_dominates(&o->cfg, o->barrier[k], x) && !leads(o, k, y))
            return true;
    return false;
}

/* Has every thread written its one place there before anybody comes to the load? */
static bool covers(const struct order *o, uint32_t store, uint32_t load)
{
    const struct ptx_inst *i = &o->b->f->inst[store];
    const struct rw_reach *r = o->r;
    if (i->pred != PTX_NO_REG || i->op == PTX_OP_CP_ASYNC || r->anywhere[store] || !r->span[store] ||
        r->nspan[store] != o->b->threads ||
        (i->op == PTX_OP_STMATRIX && !(rw_matrices(i) && rw_matrices(i)->n == 4)))
        return false;
    for (uint32_t t = 0; t < o->b->threads; t++)
        if (r->span[store][t].thread != t)
            return false;
    for (uint32_t k = 0; k < o->nbarrier; k++)
        if (ptx_inst_dominates(&o->cfg, store, o->barrier[k]) && ptx_inst_dominates(&o->cfg, o->barrier[k], load))
            return true;
    return false;
}

/* What load l sees of each store; the bytes that are written for certain. */
static void sees(struct order *o, uint32_t l, uint8_t *sight)
{
    const struct rw_reach *r = o->r;
    memset(o->covered, 0, r->size / 8 + 1);
    for (uint32_t s = 0; s < o->nstore; s++)
        sight[o->store[s]] = later(o, o->store[s], l) ? RW_SEES_NOTHING : RW_SEES_REST;
    for (uint32_t w = 0; w < o->nstore; w++) {
        if (sight[o->store[w]] == RW_SEES_NOTHING || !covers(o, o->store[w], l))
            continue;
        for (uint32_t k = 0; k < r->nspan[o->store[w]]; k++) {
            const struct rw_span *p = &r->span[o->store[w]][k];
            for (uint32_t q = p->at; q < p->at + p->width; q++)
                o->covered[q / 8] |= (uint8_t)(1u << (q % 8));
        }
        for (uint32_t s = 0; s < o->nstore; s++)
            if (sight[o->store[s]] == RW_SEES_REST && !later(o, o->store[w], o->store[s]))
                sight[o->store[s]] = RW_SEES_ALL;
    }
}

/* The load's class: one that sees the same, or a new one. False: there are too many. */
static int classify(struct dt_arena *a, struct order *o, uint32_t l, const uint8_t *sight, struct dt_err *e)
{
    struct rw_reach *r = o->r;
    uint32_t c = 0, bytes = r->size / 8 + 1;
    while (c < r->nclass && (memcmp(r->sight[c], sight, o->b->f->ninst) || memcmp(r->covered[c], o->covered, bytes)))
        c++;
    r->class_of[l] = (uint8_t)c;
    if (c < r->nclass)
        return 0;
    if (c == RW_REACH_CLASSES)
        return 1;
    r->sight[c] = dt_new_array(a, uint8_t, o->b->f->ninst + 1);
    r->covered[c] = dt_new_array(a, uint8_t, bytes);
    if (!r->sight[c] || !r->covered[c])
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memcpy(r->sight[c], sight, o->b->f->ninst);
    memcpy(r->covered[c], o->covered, bytes);
    r->nclass++;
    return 0;
}

static int list(struct order *o, struct dt_arena *mine, struct dt_err *e)
{
    const struct ptx_function *f = o->b->f;
    o->barrier = dt_new_array(mine, uint32_t, f->ninst + 1);
    o->store = dt_new_array(mine, uint32_t, f->ninst + 1);
    o->load = dt_new_array(mine, uint32_t, f->ninst + 1);
    o->covered = dt_new_array(mine, uint8_t, o->r->size / 8 + 1);
    if (!o->barrier || !o->store || !o->load || !o->covered)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t n = 0; n < f->ninst; n++) {
        const struct ptx_inst *i = &f->inst[n];
        if (!o->cfg.block[o->cfg.block_of[n]].reachable)
            continue;
        if (is_meeting(i) && !o->b->find[RW_BARRIER_VARYING].set)
            o->barrier[o->nbarrier++] = n;
        if (rw_is_shared_store(i))
            o->store[o->nstore++] = n;
        if (rw_may_read_shared(i))
            o->load[o->nload++] = n;
    }
    return 0;
}

static int barriers_lead(struct order *o, struct dt_arena *mine, struct dt_err *e)
{
    uint32_t nblock = o->cfg.nblock, *stack = dt_new_array(mine, uint32_t, nblock + 1);
    o->after = dt_new_array(mine, bool, (size_t)o->nbarrier * nblock + 1);
    if (!stack || !o->after)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < o->nbarrier; k++) {
        const struct ptx_block *q = &o->cfg.block[o->cfg.block_of[o->barrier[k]]];
        for (uint32_t s = 0; s < q->nsucc; s++)
            ptx_mark_reached(&o->cfg, q->succ[s], UINT32_MAX, o->after + (size_t)k * nblock, stack);
    }
    return 0;
}

int rw_reach_order(struct dt_arena *a, const struct rw_body *b, struct rw_reach *r, struct dt_err *e)
{
    struct order o = {.b = b, .r = r};
    struct dt_arena mine = {0};
    uint8_t *sight = NULL;
    int rc = ptx_cfg_build(b->f, &o.cfg, e);
    if (rc < 0)
        return rc;
    r->class_of = dt_new_array(a, uint8_t, b->f->ninst + 1);
    sight = dt_new_array(&mine, uint8_t, b->f->ninst + 1);
    rc = r->class_of && sight ? list(&o, &mine, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (rc == 0 && (uint64_t)o.nbarrier * (o.nload + o.nstore) * (o.nstore + 1) > PAIRS)
        rc = 1;
    if (rc == 0)
        rc = barriers_lead(&o, &mine, e);
    for (uint32_t l = 0; l < o.nload && rc == 0; l++) {
        sees(&o, o.load[l], sight);
        rc = classify(a, &o, o.load[l], sight, e);
    }
    if (rc == 1) {
        r->nclass = 0;
        memset(r->class_of, 0, b->f->ninst);
        memset(sight, RW_SEES_ALL, b->f->ninst);
        memset(o.covered, 0, r->size / 8 + 1);
        rc = classify(a, &o, 0, sight, e);
    }
    dt_arena_done(&mine);
    ptx_cfg_done(&o.cfg);
    return rc;
}
