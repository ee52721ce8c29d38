/* Settled launches: of which one order of blocks tells what all orders leave, so that few need be run.
 *
 * What a block does may depend on when other blocks and its own warps run in three ways: it reads what another block
 * writes; threads of it touch a place and nothing orders them; or it asks the machine. A launch is settled where
 *
 *   between blocks   by its own map, proved for all data, no two blocks touch a byte, one of them writing
 *   within a block   what it touches, where threads meet and where they end is the same whatever memory holds
 *                    (ana_steady: `same`), so that its accesses and barriers are the same in every order: it races in
 *                    all orders, or in none. The detector that follows what orders two accesses (docs/CHECKING.md)
 *                    finds it in one
 *   the machine      it has no machine registers, atomics, volatile or ordered accesses, fences beyond the block,
 *                    asynchronous work but waits for other launches, clusters, calls but of functions that only
 *                    compute, or variables that kernels write
 *
 * Only large launches are asked, since orders of small ones cost nothing. So of a plan's settled launches
 * SETTLED_ORDERS run (orders.c), each of other blocks (rw_settled_order): what a block leaves hangs on no other one, so
 * that some tell what all do; and some blocks under that detector (rw_settled_look). They are spread over the grid,
 * here with both its ends, as the texts of several bodies may stand side by side. Where it finds anything, or cannot be
 * used, all orders run as of any launch. The same holds of posted launches: the run of the reference looks for
 * conflicts between blocks only in those that are not settled (once.c), and a rewrite that leaves the code as it is
 * need not run their orders when it is accepted (trial.c).
 */
#include "ptx/reach.h"
#include "rewrite/facts/facts.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>
#include <string.h>

#define WORTH (UINT64_C(1) << 24) /* bytes in the footprints of all blocks, from which on a launch is large */
#define SHARE 32                  /* one of so many blocks runs under the detector with clocks */
#define LEAST 4
#define ORDER_SHARE 8 /* one of so many blocks runs in another order */
#define ORDER_LEAST 16
#define TOUCH_MOST (UINT64_C(1) << 25) /* bytes that they may write: the detector needs 16 times as many */

static uint64_t settled_bytes(const struct ana_block *b, bool writes)
{
    uint64_t all = 0;
    for (uint32_t k = 0; k < b->ntouch; k++) {
        const struct ana_touch *t = &b->touch[k];
        all += ana_set_bytes(t->must_write) + ana_set_bytes(t->may_write) + (writes ? 0 : ana_set_bytes(t->read));
    }
    return all;
}

static bool settled_large(const struct ana_launch *l)
{
    uint64_t all = 0, from = RW_GLANCE(WORTH);
    for (uint32_t b = 0; b < l->nblock && all < from; b++)
        all += settled_bytes(&l->block[b], false);
    return all >= from;
}

bool rw_proved(const struct ana_launch *l)
{
    bool proved = true;
    for (uint32_t k = 0; k < l->naccess && proved; k++) {
        const struct ana_access *a = &l->access[k];
        proved = !a->atomics && (!a->reads || a->read == ANA_PROVED) && (!a->writes || a->write == ANA_PROVED);
    }
    return proved;
}

/* Between blocks, by the map. */
static bool settled_apart(const struct ana_launch *l) { return !l->self_conflict && rw_proved(l); }

/* Does it touch memory in a way that orders accesses, or that need not be ordered? */
static bool settled_strong(const struct ptx_inst *i, void *user)
{
    enum ptx_mod sem = ptx_mod_of(i, PTX_MC_SEM);
    unsigned flags = ptx_op_info(i->op)->flags;
    (void)user;
    if (!strncmp(ptx_op_info(i->op)->mnemonic, "mbarrier.", 9)) /* the detector follows its phases; no tokens */
        return sem == PTX_M_RELAXED ||
               (!strncmp(ptx_op_info(i->op)->mnemonic, "mbarrier.arrive", 15) && i->opnd[0].kind == PTX_O_REG);
    return flags & PTX_F_ATOMIC || ((flags & (PTX_F_READS | PTX_F_WRITES)) &&
                                    ((sem != PTX_M_NONE && sem != PTX_M_WEAK) || ptx_has(i, PTX_M_MMIO)));
}

/* Does it work asynchronously for others than its own block, or does the kernel change what its block has? A wait for
 * other launches is none of that: between blocks of one launch, and within one, it orders nothing. */
static bool settled_far(const struct ptx_inst *i, void *user)
{
    (void)user;
    return !rw_is_launch_control(i) && (rw_is_async_far(i) || !strncmp(ptx_op_info(i->op)->mnemonic, "cp.reduce", 9));
}

/* Is there nothing in it, or in what it calls, that hangs on when it runs? */
static bool settled_plain(const struct rw_body *b)
{
    static const enum rw_fact bad[] = {RW_OPAQUE,  RW_INDIRECT_CALL, RW_RECURSION,  RW_EXTERN_CALL,
                                       RW_SIDE,    RW_ORDERED,       RW_MACHINE,    RW_ACTIVEMASK,
                                       RW_CLUSTER, RW_GLOBAL_VAR,    RW_BARRIER_REG};
    /* whose arrival counts for which round of a barrier that some only arrive at, nobody follows */
    bool plain = !b->lockstep && !(b->find[RW_ASYNC].set && b->find[RW_BARRIER_SPLIT].set);
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++)
        plain &= !b->find[bad[k]].set;
    return plain && ptx_reach_any(b->f, settled_strong, NULL) == 0 && ptx_reach_any(b->f, settled_far, NULL) == 0;
}

int rw_settled(const struct dev_prog *p, const struct ana_result *a, uint32_t launch, struct dt_err *e)
{
    return settled_large(&a->launch[launch]) ? rw_settled_small(p, a, launch, e) : 0;
}

int rw_settled_small(const struct dev_prog *p, const struct ana_result *a, uint32_t launch, struct dt_err *e)
{
    struct dt_arena arena = {0};
    struct rw_body body;
    bool steady = false, same = false;
    if (p->graph->launch[launch].kind != DT_KERNEL || !p->step[launch].entry || !settled_apart(&a->launch[launch]))
        return 0;
    int r = rw_body_init(&arena, p, launch, p->step[launch].entry, &body, e);
    uint32_t shape[3];
    bool plain = r == 0 && settled_plain(&body) &&
                 !(body.find[RW_ASYNC].set && rw_cluster_shape(&p->graph->launch[launch], body.f, shape) > 0);
    dt_arena_done(&arena);
    if (plain)
        r = ana_steady(p, launch, &steady, &same, e);
    if (r < 0 && !rw_fatal(r)) { /* such a kernel is not changed, or the same error is told by whoever changes it */
        dt_err_done(e);
        return 0;
    }
    return r < 0 ? r : plain && same;
}

/* ---- some blocks under the detector with clocks ------------------------------------------------------------------ */

/* Both ends and what lies evenly between. How many: `list` has room for all. */
static uint32_t settled_some(const struct ana_launch *l, uint32_t *list)
{
    uint32_t n = l->nblock / SHARE > LEAST ? l->nblock / SHARE : LEAST, k;
    uint64_t bytes = 0;
    n = n < l->nblock ? n : l->nblock;
    for (k = 0; k < n; k++) {
        list[k] = n > 1 ? (uint32_t)((uint64_t)k * (l->nblock - 1) / (n - 1)) : 0;
        if ((bytes += settled_bytes(&l->block[list[k]], true)) > TOUCH_MOST)
            break;
    }
    return k;
}

int rw_settled_look(struct rw_trial *t, struct dt_err *e)
{
    const struct dev_prog *p = t->next->prog;
    const struct ana_launch *l = &t->next->ana->launch[t->first];
    struct dev_run *run = NULL;
    struct dt_err bad = {0};
    struct dev_some *some = dt_calloc((size_t)p->graph->nlaunch + 1, sizeof *some);
    dt_free_ uint32_t *list = dt_calloc((size_t)l->nblock + 1, sizeof *list);
    dt_free_ bool *wanted = dt_calloc((size_t)p->graph->nlaunch + 1, sizeof *wanted);
    int r = some && list && wanted ? 0 : dt_err_set(&bad, DT_E_NOMEM, "out of memory");
    if (r == 0) {
        wanted[t->first] = true;
        some[t->first] = (struct dev_some){.block = list, .n = settled_some(l, list)};
        r = some[t->first].n ? rw_watch(t->gate->dev, true, 0, true, &bad) : 1;
        r = r == 0 ? dev_set_checks(t->gate->dev, "race,phases", &bad) : r;
    }
    if (r == 0)
        r = dev_run_new_for(t->gate->dev, p, wanted, &run, &bad);
    if (r == 0 && (r = rw_trial_fill(t, run, &bad)) == 0)
        r = dev_run_select(run, some, &bad);
    dev_set_follow(t->gate->dev, false);
    if (r == 0)
        r = dev_run_step(run, t->first, &bad);
    dev_set_follow(t->gate->dev, true);
    rw_watch(t->gate->dev, true, 0, false, NULL);
    dev_run_free(run);
    free(some);
    if (r < 0)
        r = rw_recover(t->gate->dev, r, &bad);
    if (rw_fatal(r)) {
        dt_err_move(e, &bad);
        return r;
    }
    dt_err_done(&bad);
    return r == 0;
}

/* ---- some blocks in another order -------------------------------------------------------------------------------- */

/* Every nth block, from one on that hangs on the order. How many. */
static uint32_t order_some(const struct ana_launch *l, uint64_t order, uint32_t *list)
{
    uint32_t step = l->nblock / ORDER_LEAST < ORDER_SHARE ? l->nblock / ORDER_LEAST : ORDER_SHARE, n = 0;
    step = step ? step : 1;
    for (uint32_t b = (uint32_t)(order % step); b < l->nblock; b += step)
        list[n++] = b;
    return n;
}

int rw_settled_order(struct rw_trial *t, uint64_t order, struct dt_err *e)
{
    const struct ana_launch *l = &t->next->ana->launch[t->first];
    uint32_t nbuffer = t->next->graph->nbuffer;
    struct dt_arena a = {0};
    dt_free_ uint32_t *list = dt_calloc((size_t)l->nblock + 1, sizeof *list);
    dt_free_ struct dev_some *some = dt_calloc((size_t)t->next->graph->nlaunch + 1, sizeof *some);
    dt_free_ struct ana_set *only = dt_calloc((size_t)nbuffer + 1, sizeof *only);
    int r = list && some && only ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    uint32_t n = r == 0 ? order_some(l, order, list) : 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < l->block[list[i]].ntouch; k++) {
            const struct ana_touch *q = &l->block[list[i]].touch[k];
            only[q->buffer] = ana_set_union(&a, only[q->buffer], ana_set_union(&a, q->must_write, q->may_write));
        }
    if (r == 0 && dt_arena_failed(&a))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0) {
        some[t->first] = (struct dev_some){.block = list, .n = n};
        t->some = some;
        t->only = only;
        r = rw_trial_after(t, order, NULL, e);
        t->some = NULL;
        t->only = NULL;
    }
    dt_arena_done(&a);
    return r;
}
