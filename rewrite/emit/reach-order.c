/* Which stores to shared memory a load of it can see, by their order: memory is used again, as by the tiles of a
 * product and then by what it stages for its stores.
 *
 *   loop:  cp.async -> tile; bar.sync; ldmatrix a; mma; bar.sync
 *   st.shared -> the same bytes           `a` never sees what st writes: it was made before a barrier, and none leads
 *   bar.sync                              back. And b, where st has written for certain, never sees what cp.async wrote
 *   ld.shared b
 *
 *   order       all threads pass the same barriers one after the other (facts/vary.c). What happens between two of them
 *               is reached from the first without passing one. So of x and y, by any threads, x never comes before y,
 *               or with it, if no way leads from x to y, and no barrier, nor the beginning, leads to both without
 *               passing another one. It may lead to both if all threads go the same way there, and none leads from y to
 *               x without passing a barrier: then x or y is made, by all
 *   covered     bytes that a load finds written for certain: by a plain store of all threads, one place each, with a
 *               barrier between on every way. Stores that never come after these are not seen in those bytes
 *   products    of warp groups read at any moment until a wait for all of them. So what is said of such a load has to
 *               hold of each instruction on the ways there
 *   classes     loads that see the same
 *
 * If a barrier is in doubt, or there are too many accesses or classes, all loads are one class that sees everything.
 */
#include "rewrite/emit/part-priv.h"

#include "ptx/flow.h"

#include <stdlib.h>
#include <string.h>

#define PAIRS 4000000 /* barriers, times accesses, times accesses; barriers and stores, times instructions */

struct order {
    const struct rw_body *b;
    struct rw_reach *r;
    struct ptx_cfg cfg;
    uint32_t *barrier, nbarrier; /* instructions */
    bool *within;                /* by barrier, the last is the beginning, and instruction: no other lies between */
    bool *varies;                /* by barrier, as above: threads may go different ways before they pass another one */
    bool *behind;                /* by load or store and instruction: a way leads there without passing a barrier */
    bool *after;                 /* by store and basic block: a way leads there from behind it */
    uint32_t *store, nstore, *load, nload, *nth; /* nth: by instruction, its number among stores and loads, and */
    uint32_t *flight, nflight;                   /* where products of warp groups may not be over yet */
    bool *flies;     /* by load of these, which comes first there, and instruction; NULL: there are none */
    uint32_t *stack; /* of blocks */
    bool *mark;
    uint8_t *covered;
    bool doubt; /* threads may pass other barriers than others */
};

static bool is_meeting(const struct ptx_inst *i)
{
    return (i->op == PTX_OP_BAR_SYNC || i->op == PTX_OP_BARRIER_SYNC) && i->nopnd < 2 && i->pred == PTX_NO_REG;
}

/* Does the store x never come before y, or with it, whoever makes them? */
static bool later(const struct order *o, uint32_t x, uint32_t y)
{
    uint32_t block = o->cfg.block_of[y], ninst = o->b->f->ninst;
    if ((o->cfg.block_of[x] == block && y > x) || o->after[(size_t)o->nth[x] * o->cfg.nblock + block])
        return false;
    for (uint32_t k = 0; k <= o->nbarrier; k++)
        if (o->within[(size_t)k * ninst + x] && o->within[(size_t)k * ninst + y] &&
            (o->varies[k] || o->behind[(size_t)o->nth[y] * ninst + x]))
            return false;
    return true;
}

/* Does store s never come before load l has read, or with it? */
static bool order_hidden(const struct order *o, uint32_t s, uint32_t l)
{
    bool hidden = later(o, s, l);
    if (!rw_is_group_product(&o->b->f->inst[l]))
        return hidden;
    for (uint32_t n = 0; n < o->b->f->ninst && hidden; n++)
        hidden = !o->flies[(size_t)(o->nth[l] - o->nstore) * o->b->f->ninst + n] || later(o, s, n);
    return hidden;
}

/* Has every thread written its one place there before anybody comes to the load? */
static bool order_covers(const struct order *o, uint32_t store, uint32_t load)
{
    const struct ptx_inst *i = &o->b->f->inst[store];
    const struct rw_reach *r = o->r;
    if (i->pred != PTX_NO_REG || i->op == PTX_OP_CP_ASYNC || r->anywhere[store] || !r->span[store] ||
        r->nspan[store] != o->b->threads || (i->op == PTX_OP_STMATRIX && !(rw_matrices(i) && rw_matrices(i)->n == 4)))
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
        sight[o->store[s]] = order_hidden(o, o->store[s], l) ? RW_SEES_NOTHING : RW_SEES_REST;
    for (uint32_t w = 0; w < o->nstore; w++) {
        if (sight[o->store[w]] == RW_SEES_NOTHING || !order_covers(o, o->store[w], l))
            continue;
        for (uint32_t k = 0; k < r->nspan[o->store[w]]; k++) {
            const struct rw_span *p = &r->span[o->store[w]][k];
            for (uint32_t q = p->at; q < p->at + p->width; q++)
                o->covered[q / 8] |= (uint8_t)(1u << (q % 8));
        }
        for (uint32_t s = 0; s < o->nstore; s++)
            if (sight[o->store[s]] == RW_SEES_REST && (s == w || !later(o, o->store[w], o->store[s])))
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

static int order_list(struct order *o, struct dt_arena *mine, struct dt_err *e)
{
    const struct ptx_function *f = o->b->f;
    o->barrier = dt_new_array(mine, uint32_t, f->ninst + 1);
    o->store = dt_new_array(mine, uint32_t, f->ninst + 1);
    o->load = dt_new_array(mine, uint32_t, f->ninst + 1);
    o->nth = dt_new_array(mine, uint32_t, f->ninst + 1);
    o->covered = dt_new_array(mine, uint8_t, o->r->size / 8 + 1);
    if (!o->barrier || !o->store || !o->load || !o->nth || !o->covered)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    o->doubt = o->b->find[RW_BARRIER_VARYING].set;
    for (uint32_t n = 0; n < f->ninst; n++) {
        const struct ptx_inst *i = &f->inst[n];
        if (!o->cfg.block[o->cfg.block_of[n]].reachable)
            continue;
        if (is_meeting(i))
            o->barrier[o->nbarrier++] = n;
        if (rw_is_shared_store(i))
            o->store[o->nstore++] = n;
        if (rw_may_read_shared(i))
            o->load[o->nload++] = n;
    }
    for (uint32_t k = 0; k < o->nload; k++)
        o->nth[o->load[k]] = o->nstore + k;
    for (uint32_t k = 0; k < o->nstore; k++)
        o->nth[o->store[k]] = k;
    return 0;
}

/* Do all products of a thread end here? */
static bool order_lands(const struct ptx_inst *i)
{
    return i->op == PTX_OP_WGMMA_WAIT && i->pred == PTX_NO_REG && i->opnd[0].kind == PTX_O_IMM && !i->opnd[0].bits;
}

/* Goes through a block from instruction n on, and marks; does control leave it? */
typedef bool order_on(const struct order *o, uint32_t block, uint32_t n, bool *mark);

/* From instruction n of the block on, and through all that control reaches where `on` lets it leave. */
static void order_walk(struct order *o, uint32_t block, uint32_t n, order_on *on, bool *mark)
{
    uint32_t top = 0;
    memset(o->mark, 0, o->cfg.nblock);
    bool leaves = on(o, block, n, mark);
    for (;;) {
        const struct ptx_block *q = &o->cfg.block[block];
        for (uint32_t s = 0; leaves && s < q->nsucc; s++)
            if (!o->mark[q->succ[s]]) {
                o->mark[q->succ[s]] = true;
                o->stack[top++] = q->succ[s];
            }
        if (!top)
            return;
        block = o->stack[--top];
        leaves = on(o, block, o->cfg.block[block].first, mark);
    }
}

/* The instructions of a block from n on at which a product may be reading; does it, where control leaves the block? */
static bool flies_on(const struct order *o, uint32_t block, uint32_t n, bool *flies)
{
    for (; n <= o->cfg.block[block].last && n < o->b->f->ninst; n++) {
        flies[n] = true;
        if (order_lands(&o->b->f->inst[n]))
            return false;
    }
    return true;
}

/* And all that is reached from behind load l. */
static void flight_of(struct order *o, uint32_t l, bool *flies)
{
    order_walk(o, o->cfg.block_of[l], l + 1, flies_on, flies);
}

/* 1: it would take too long. */
static int order_flights(struct order *o, struct dt_arena *mine, struct dt_err *e)
{
    uint32_t ninst = o->b->f->ninst, some = 0;
    for (uint32_t k = 0; k < o->nload; k++)
        some += rw_is_group_product(&o->b->f->inst[o->load[k]]);
    if (!some)
        return 0;
    if ((uint64_t)o->nload * ninst > PAIRS)
        return 1;
    o->flies = dt_new_array(mine, bool, (size_t)o->nload *ninst + 1);
    o->flight = dt_new_array(mine, uint32_t, ninst + 1);
    o->stack = dt_new_array(mine, uint32_t, o->cfg.nblock + 1);
    o->mark = dt_new_array(mine, bool, o->cfg.nblock + 1);
    if (!o->flies || !o->flight || !o->stack || !o->mark)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < o->nload; k++)
        if (rw_is_group_product(&o->b->f->inst[o->load[k]]))
            flight_of(o, o->load[k], o->flies + (size_t)k * ninst);
    for (uint32_t n = 0; n < ninst; n++) {
        const struct ptx_inst *i = &o->b->f->inst[n];
        bool flies = false;
        for (uint32_t k = 0; k < o->nload; k++)
            flies |= o->flies[(size_t)k * ninst + n];
        if (!flies || rw_is_shared_store(i) || rw_may_read_shared(i)) /* these have a number */
            continue;
        o->nth[n] = o->nstore + o->nload + o->nflight;
        o->flight[o->nflight++] = n;
    }
    return 0;
}

/* Marks what is reached in the block from instruction n on; does control leave it without passing a barrier? */
static bool order_passes(const struct order *o, uint32_t block, uint32_t n, bool *within)
{
    for (; n <= o->cfg.block[block].last && n < o->b->f->ninst; n++) {
        within[n] = true;
        if (is_meeting(&o->b->f->inst[n]))
            return false;
    }
    return true;
}

/* What is reached from behind instruction n, or from the beginning (UINT32_MAX), without passing a barrier. */
static void interval(struct order *o, uint32_t n, bool *within)
{
    bool all = n == UINT32_MAX;
    order_walk(o, all ? 0 : o->cfg.block_of[n], all ? o->cfg.block[0].first : n + 1, order_passes, within);
}

static int ways(struct order *o, struct dt_arena *mine, struct dt_err *e)
{
    uint32_t nblock = o->cfg.nblock, ninst = o->b->f->ninst;
    bool *parts = dt_new_array(mine, bool, ninst + 1);
    o->stack = dt_new_array(mine, uint32_t, nblock + 1);
    o->mark = dt_new_array(mine, bool, nblock + 1);
    o->after = dt_new_array(mine, bool, (size_t)o->nstore *nblock + 1);
    o->within = dt_new_array(mine, bool, (o->nbarrier + (size_t)1) * ninst + 1);
    o->varies = dt_new_array(mine, bool, o->nbarrier + (size_t)1);
    o->behind = dt_new_array(mine, bool, ((size_t)o->nstore + o->nload + o->nflight) * ninst + 1);
    if (!parts || !o->stack || !o->mark || !o->after || !o->within || !o->varies || !o->behind)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = rw_varying_branches(o->b, parts, e);
    for (uint32_t k = 0; r == 0 && k < o->nstore; k++) {
        const struct ptx_block *q = &o->cfg.block[o->cfg.block_of[o->store[k]]];
        for (uint32_t s = 0; s < q->nsucc; s++)
            ptx_mark_reached(&o->cfg, q->succ[s], UINT32_MAX, o->after + (size_t)k * nblock, o->stack);
    }
    for (uint32_t k = 0; r == 0 && k < o->nstore + o->nload + o->nflight; k++)
        interval(o,
                 k < o->nstore              ? o->store[k]
                 : k < o->nstore + o->nload ? o->load[k - o->nstore]
                                            : o->flight[k - o->nstore - o->nload],
                 o->behind + (size_t)k * ninst);
    for (uint32_t k = 0; r == 0 && k <= o->nbarrier; k++) {
        bool *within = o->within + (size_t)k * ninst;
        interval(o, k < o->nbarrier ? o->barrier[k] : UINT32_MAX, within);
        for (uint32_t n = 0; n < ninst; n++)
            o->varies[k] |= within[n] && parts[n];
    }
    return r;
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
    r->first = dt_new_array(a, bool, b->f->ninst + 1);
    sight = dt_new_array(&mine, uint8_t, b->f->ninst + 1);
    rc = r->class_of && r->first && sight ? order_list(&o, &mine, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (rc == 0)
        rc = order_flights(&o, &mine, e);
    if (rc == 0 && ((uint64_t)o.nbarrier * (o.nload + o.nstore) * (o.nstore + 1) > PAIRS ||
                    ((uint64_t)o.nbarrier + o.nstore + o.nload + o.nflight + 1) * b->f->ninst > PAIRS || o.doubt))
        rc = 1;
    if (rc == 0)
        rc = ways(&o, &mine, e);
    for (uint32_t l = 0; l < o.nload && rc == 0; l++) {
        sees(&o, o.load[l], sight);
        rc = classify(a, &o, o.load[l], sight, e);
    }
    for (uint32_t n = 0; n < b->f->ninst && rc >= 0; n++)
        r->first[n] = rc == 1 || o.within[(size_t)o.nbarrier * b->f->ninst + n];
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
