/* Do rounds of a loop pass anything on in shared memory? (rounds.h)
 *
 * A block that makes some of the rounds finds there what an earlier one of its own has left, not what the round before
 * has. So each round has to write what it reads:
 *
 *   places     what the loops store goes to one place a thread, the same in all rounds (reach.c)
 *   written    a byte that a load reads, and that a loop may write, is written in the same round before, for certain:
 *              by stores of all threads that come before a barrier on every way, and that before the load. What is
 *              loaded outside of the loops is not written in them
 *   apart      two accesses with a byte in common, one of them a store, have a barrier on every way that leads from the
 *              one in a round to the other one in another, or out of a loop or into it: however many rounds lie between
 */
#include "rewrite/emit/part-priv.h"
#include "rewrite/emit/rounds.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

struct round_shared {
    const struct rw_body *b;
    const struct rw_rounds *r;
    const struct rw_reach *reach;
    struct dt_str *why;
    uint32_t bytes;             /* of a set of bytes, as bits */
    uint8_t *written, *covered; /* by the loops' stores; at hand */
    bool *within, *mark;        /* by instruction; by block, twice */
    uint32_t *stack;
};

static unsigned loop_of(const struct round_shared *x, uint32_t n) { return x->r->in[x->r->cfg.block_of[n]]; }

static bool shared_no(const struct round_shared *x, uint32_t n, const char *what)
{
    dt_str_addf(x->why, "PTX line %u: %s", x->b->f->inst[n].line, what);
    return false;
}

static bool writes_shared(const struct ptx_inst *i)
{
    return (ptx_op_info(i->op)->flags & (PTX_F_WRITES | PTX_F_ATOMIC)) &&
           (i->space == PTX_SHARED || i->space == PTX_GENERIC || i->space == PTX_SHARED_CLUSTER);
}

static bool shared_known(const struct round_shared *x, uint32_t n)
{
    return x->reach->known && !x->reach->anywhere[n] && x->reach->touched[n];
}

/* One place a thread, and what is written. */
static bool shared_places(const struct round_shared *x)
{
    for (uint32_t n = 0; n < x->b->f->ninst; n++) {
        const struct ptx_inst *i = &x->b->f->inst[n];
        if (!loop_of(x, n) || !writes_shared(i))
            continue;
        if (i->op != PTX_OP_ST || !rw_is_shared_store(i))
            return shared_no(x, n, "it is no plain store to shared memory");
        if (!shared_known(x, n) || !x->reach->span || !x->reach->span[n] || x->reach->nspan[n] > x->b->threads)
            return shared_no(x, n, "where it stores is not known, or not the same in all rounds");
        for (uint32_t k = 1; k < x->reach->nspan[n]; k++)
            if (x->reach->span[n][k].thread == x->reach->span[n][k - 1].thread)
                return shared_no(x, n, "where it stores is not the same in all rounds");
        for (uint32_t k = 0; k < x->bytes; k++)
            x->written[k] |= x->reach->touched[n][k];
    }
    return true;
}

static bool rounds_barrier(const struct ptx_inst *i)
{
    return (i->op == PTX_OP_BAR_SYNC || i->op == PTX_OP_BARRIER_SYNC) && i->nopnd < 2 && i->pred == PTX_NO_REG;
}

/* Has the store been made by all threads, in the load's round, before anybody loads? */
static bool shared_before(const struct round_shared *x, uint32_t store, uint32_t load)
{
    if (x->b->f->inst[store].pred != PTX_NO_REG || x->reach->nspan[store] != x->b->threads ||
        loop_of(x, store) != loop_of(x, load))
        return false;
    for (uint32_t n = 0; n < x->b->f->ninst; n++)
        if (rounds_barrier(&x->b->f->inst[n]) && ptx_inst_dominates(&x->r->cfg, store, n) &&
            ptx_inst_dominates(&x->r->cfg, n, load))
            return true;
    return false;
}

static bool shared_loads(const struct round_shared *x)
{
    bool some = false;
    for (uint32_t k = 0; k < x->bytes; k++)
        some |= x->written[k] != 0;
    for (uint32_t n = 0; n < x->b->f->ninst && some; n++) {
        const struct ptx_inst *i = &x->b->f->inst[n];
        if (!rw_may_read_shared(i))
            continue;
        if (!shared_known(x, n))
            return shared_no(x, n, "what it loads of shared memory is not known");
        memset(x->covered, 0, x->bytes);
        for (uint32_t s = 0; s < x->b->f->ninst && loop_of(x, n); s++)
            if (i != &x->b->f->inst[s] && loop_of(x, s) && writes_shared(&x->b->f->inst[s]) && shared_before(x, s, n))
                for (uint32_t k = 0; k < x->bytes; k++)
                    x->covered[k] |= x->reach->touched[s][k];
        for (uint32_t k = 0; k < x->bytes; k++)
            if (x->reach->touched[n][k] & x->written[k] & (uint8_t)~x->covered[k])
                return shared_no(x, n, "it may load what an earlier round has stored in shared memory");
    }
    return true;
}

/* Marks what is reached in the block from n on, in another round; does control leave it without passing a barrier? */
static bool shared_passes(const struct round_shared *x, uint32_t block, uint32_t n, bool other)
{
    for (; n <= x->r->cfg.block[block].last; n++) {
        x->within[n] |= other;
        if (rounds_barrier(&x->b->f->inst[n]))
            return false;
    }
    return true;
}

/* Does the edge lead to the next round, into a loop, or out of it? */
static bool crosses(const struct round_shared *x, uint32_t from, uint32_t to)
{
    const struct rw_rounds *r = x->r;
    return r->in[from] != r->in[to] ||
           (r->in[from] && r->loop[r->in[from] - 1].latch == from && r->loop[r->in[from] - 1].head == to);
}

/* All that is reached from behind n, in another round or out of the loop, without passing one. */
static void shared_reached(const struct round_shared *x, uint32_t n)
{
    const struct ptx_cfg *c = &x->r->cfg;
    uint32_t top = 0, at = 2 * c->block_of[n]; /* a block, and whether it is another round */
    memset(x->within, 0, x->b->f->ninst);
    memset(x->mark, 0, 2 * (size_t)c->nblock);
    bool leaves = shared_passes(x, at / 2, n + 1, false);
    for (;;) {
        const struct ptx_block *q = &c->block[at / 2];
        for (uint32_t s = 0; leaves && s < q->nsucc; s++) {
            uint32_t to = 2 * q->succ[s] + ((at & 1) || crosses(x, at / 2, q->succ[s]));
            if (!x->mark[to]) {
                x->mark[to] = true;
                x->stack[top++] = to;
            }
        }
        if (!top)
            return;
        at = x->stack[--top];
        leaves = shared_passes(x, at / 2, c->block[at / 2].first, at & 1);
    }
}

static bool shared_apart(const struct round_shared *x)
{
    const struct ptx_function *f = x->b->f;
    for (uint32_t n = 0; n < f->ninst; n++) {
        bool writes = writes_shared(&f->inst[n]);
        if (!writes && !rw_may_read_shared(&f->inst[n]))
            continue;
        shared_reached(x, n);
        for (uint32_t q = 0; q < f->ninst; q++) {
            bool other = writes_shared(&f->inst[q]), meet = false;
            if (!x->within[q] || (!loop_of(x, n) && !loop_of(x, q)) || (!writes && !other) ||
                (!other && !rw_may_read_shared(&f->inst[q])))
                continue;
            if (!shared_known(x, n) || !shared_known(x, q))
                return shared_no(x, q, "what it touches of shared memory is not known");
            for (uint32_t k = 0; k < x->bytes; k++)
                meet |= x->reach->touched[n][k] & x->reach->touched[q][k];
            if (meet)
                return shared_no(x, q, "no barrier may lie between this and an access to the same bytes before it");
        }
    }
    return true;
}

bool rw_rounds_shared(const struct rw_body *b, const struct rw_rounds *r, const struct rw_reach *reach,
                      struct dt_str *why)
{
    struct round_shared x = {.b = b, .r = r, .reach = reach, .why = why, .bytes = reach->size / 8 + 1};
    size_t ninst = b->f->ninst + (size_t)1, nblock = r->cfg.nblock + (size_t)1;
    if (!b->shared_bytes)
        return true;
    uint8_t *room = dt_calloc(2 * (size_t)x.bytes + ninst + 2 * nblock, 1);
    x.stack = dt_calloc(2 * nblock, sizeof *x.stack);
    bool good = room && x.stack;
    if (good) {
        x.written = room;
        x.covered = room + x.bytes;
        x.within = (bool *)(room + 2 * (size_t)x.bytes);
        x.mark = x.within + ninst;
        good = shared_places(&x) && shared_loads(&x) && shared_apart(&x);
    } else {
        dt_str_add(why, "out of memory");
    }
    free(room);
    free(x.stack);
    return good;
}
