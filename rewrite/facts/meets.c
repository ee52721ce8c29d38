/* Do the blocks of a cluster meet at each of its barriers, and is another block's shared memory there as long as
 * somebody uses it? One entry is looked at.
 *
 * The barrier of a cluster has no number: the n-th arrival of every thread of every block belongs together. So two
 * things must hold:
 *   meeting   on every way through the entry, arrive and wait take turns, and no thread is left out by a guard. Every
 *             place has one number of barriers before it, and all exits have the same number; so no loop holds one
 *   lifetime  a load, store or atomic of .shared::cluster has a barrier before it (the other block has started) and one
 *             after it (the other block has not exited)
 * This is found by a walk along all edges of the control flow, with one state for each basic block: barriers so far,
 * and whether the thread has arrived at the next one. An access between arrive and wait counts as behind that barrier.
 * A function that is called may have none of this.
 */
#include "rewrite/facts/facts.h"

#include <stdlib.h>
#include <string.h>

static bool touches_cluster(const struct ptx_inst *i)
{
    if (i->op == PTX_OP_OPAQUE || i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS ||
        i->op == PTX_OP_CALLPROTO)
        return false;
    return (ptx_op_info(i->op)->flags & (PTX_F_READS | PTX_F_WRITES)) && i->space == PTX_SHARED_CLUSTER &&
           (i->op == PTX_OP_LD || i->op == PTX_OP_ST || (ptx_op_info(i->op)->flags & PTX_F_ATOMIC));
}

static bool is_cluster_barrier(const struct ptx_inst *i)
{
    return i->op == PTX_OP_BARRIER_CLUSTER_ARRIVE || i->op == PTX_OP_BARRIER_CLUSTER_WAIT;
}

static bool any_in(const struct ptx_function *f)
{
    for (uint32_t k = 0; k < f->ninst; k++)
        if (is_cluster_barrier(&f->inst[k]) || touches_cluster(&f->inst[k]))
            return true;
    return false;
}

struct walk {
    const struct ptx_function *f;
    int exits;    /* barriers behind an exit; RW_UNSEEN: none so far */
    int accesses; /* most barriers behind an access */
    const char *wrong;
};

static void meets_leaves(struct walk *w, const struct rw_arrivals *s)
{
    if (s->arrived)
        w->wrong = "exits between arriving at its cluster's barrier and waiting";
    else if (w->exits != RW_UNSEEN && w->exits != s->done)
        w->wrong = "need not meet the other blocks of its cluster at every barrier";
    w->exits = s->done;
}

static void meets_step(struct walk *w, const struct ptx_inst *i, struct rw_arrivals *s)
{
    if (is_cluster_barrier(i)) {
        bool arrive = i->op == PTX_OP_BARRIER_CLUSTER_ARRIVE;
        if (i->pred != PTX_NO_REG)
            w->wrong = "has a barrier of its cluster that some threads may leave out";
        else if (arrive == s->arrived)
            w->wrong = arrive ? "arrives twice at its cluster's barrier"
                              : "waits at its cluster's barrier without having arrived";
        s->done += !arrive;
        s->arrived = arrive;
    } else if (touches_cluster(i)) {
        int behind = s->done + s->arrived;
        if (!s->done)
            w->wrong = "touches shared memory of other blocks before its cluster has met";
        w->accesses = behind > w->accesses ? behind : w->accesses;
    } else if (i->op == PTX_OP_EXIT || i->op == PTX_OP_RET) {
        meets_leaves(w, s);
    }
}

int rw_cluster_meets(const struct ptx_function *f, struct rw_arrivals *at, int *ret_barriers, const char **ret_wrong,
                     struct dt_err *e)
{
    struct ptx_cfg cfg;
    struct walk w = {.f = f, .exits = RW_UNSEEN};
    *ret_wrong = NULL;
    if (ret_barriers)
        *ret_barriers = 0;
    for (uint32_t k = 0; k < f->module->nfunc; k++)
        if (f->module->func[k] != f && !f->module->func[k]->is_entry && any_in(f->module->func[k]))
            w.wrong = "calls functions that use its cluster";
    if (w.wrong || !any_in(f)) {
        *ret_wrong = w.wrong;
        return 0;
    }
    int r = ptx_cfg_build(f, &cfg, e);
    if (r < 0)
        return r;
    dt_free_ struct rw_arrivals *in = dt_calloc(cfg.nblock + 1, sizeof *in);
    dt_free_ uint32_t *stack = dt_calloc(cfg.nblock + 1, sizeof *stack);
    uint32_t n = 0;
    if (!in || !stack)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t b = 0; r == 0 && b < cfg.nblock; b++)
        in[b].done = RW_UNSEEN;
    if (r == 0 && cfg.nblock) {
        in[0].done = 0;
        stack[n++] = 0;
    }
    while (n && r == 0 && !w.wrong) {
        const struct ptx_block *b = &cfg.block[stack[--n]];
        struct rw_arrivals s = in[b - cfg.block];
        for (uint32_t k = b->first; k <= b->last && !w.wrong; k++) {
            if (at)
                at[k] = s;
            meets_step(&w, &f->inst[k], &s);
        }
        const struct ptx_inst *last = &f->inst[b->last];
        if (!w.wrong && !b->nsucc && last->op != PTX_OP_TRAP && last->op != PTX_OP_EXIT && last->op != PTX_OP_RET)
            meets_leaves(&w, &s); /* runs off the end */
        for (uint32_t k = 0; k < b->nsucc && !w.wrong; k++) {
            struct rw_arrivals *to = &in[b->succ[k]];
            if (to->done == RW_UNSEEN) {
                *to = s;
                stack[n++] = b->succ[k];
            } else if (to->done != s.done || to->arrived != s.arrived) {
                w.wrong = "need not meet the other blocks of its cluster at every barrier";
            }
        }
    }
    if (!w.wrong && w.accesses && w.exits != RW_UNSEEN && w.accesses >= w.exits)
        w.wrong = "may exit while other blocks of its cluster use its shared memory";
    ptx_cfg_done(&cfg);
    if (ret_barriers && w.exits != RW_UNSEEN)
        *ret_barriers = w.exits;
    *ret_wrong = w.wrong;
    return r;
}
