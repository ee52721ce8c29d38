/* Blocks abreast: several blocks of one phase run at once, and the fused block's threads are divided among them.
 *
 *   gemm's block of 256 threads, then eight blocks of softmax of 64 threads each:
 *     one after the other   8 rounds, 192 threads idle in each, a barrier between
 *     abreast               2 rounds of 4: threads 0 … 63 run one block, 64 … 127 the next, …
 *
 * A phase may do that if its body has no barrier and no shared memory of its own, and its blocks are whole warps. (With
 * a barrier or shared memory each of the blocks would need a barrier number and a piece of memory for itself, and a
 * cluster's ranks one each; the kind `pack` gives them that, and sets c->pack: then all of that is in pack.c.) Nothing
 * else is asked: blocks of one launch are independent (`self-conflict` and
 * `ordered-access` of legal.def), and were free to run at once.
 *
 * The fused block has whole warps, unless all bodies have equally many threads: then it has as many.
 *
 * The fused block gets more threads than its largest body if a phase can use them and nothing is pushed out: all fused
 * blocks of an SM together have at most THREADS threads, so that a thread may have 64 registers. If ptxas wants more
 * registers, or the phases that then count threads find no barrier number, the block is as large as its largest body
 * (`narrow`).
 *
 * In round r of the list, thread t runs block number r * width + t / threads, as its thread t % threads. In the last
 * round whole groups of surplus threads skip the body. join.c emits that.
 */
#include "rewrite/emit/emit-priv.h"

#define THREADS 1024 /* of an SM's 2048 or 1536 */

static bool may(const struct rw_body *b)
{
    return b->f && b->threads && b->threads % 32 == 0 && !b->ranks && !b->barriers && !b->barrier_ids && !b->nshared &&
           !b->shared_bytes && !b->cp_async;
}

/* Posted blocks side by side, whatever they have. */
static void abreast_pack(struct rw_cand *c)
{
    c->threads = c->pack * c->facts.body[0].threads;
    c->abreast[0] = c->pack;
}

static void abreast_set(struct rw_cand *c, uint32_t threads)
{
    c->threads = threads;
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        uint32_t most = c->lists.list[s].max, w = threads / (c->facts.body[s].threads ? c->facts.body[s].threads : 1);
        c->abreast[s] = c->beside || !may(&c->facts.body[s]) || most < 2 || w < 2 ? 1 : w < most ? w : most;
    }
}

void rw_abreast(struct rw_cand *c)
{
    uint32_t least = 0, sms = c->facts.dev->sms ? c->facts.dev->sms : 1,
             room = THREADS / ((c->lists.n + sms - 1) / sms + !c->lists.n), t;
    bool equal = true;
    if (c->pack) {
        abreast_pack(c);
        return;
    }
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        if (c->facts.body[s].threads > least)
            least = c->facts.body[s].threads;
        equal = equal && c->facts.body[s].threads == c->facts.body[0].threads;
    }
    least = t = equal ? least : (least + 31) / 32 * 32;
    for (uint32_t s = 0; s < c->facts.nbody && !c->beside && !c->narrow; s++) {
        uint32_t own = c->facts.body[s].threads, most = c->lists.list[s].max;
        if (!may(&c->facts.body[s]) || own > room)
            continue;
        most = most < room / own ? most : room / own;
        t = own * most > t ? own * most : t;
    }
    abreast_set(c, t);
    if (t > least && rw_phase_barrier(c) < 0)
        abreast_set(c, least);
}

bool rw_narrow(struct rw_cand *c)
{
    uint32_t was = c->threads;
    c->narrow = true;
    rw_abreast(c);
    return c->threads < was;
}
