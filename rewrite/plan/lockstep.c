/* The warning `lockstep`: a posted kernel lets the lanes of a warp work together without a barrier, by volatile shared
 * memory, and the plan runs it in a block where lanes fill up its last warp.
 *
 *   launch  48 threads, barriers, `volatile` sums of the last warp; joined with another one into blocks of 256
 *
 * Its threads keep the lanes that they had, and only they make these accesses (emit/surplus.c, `posted_lanes`). But
 * that lanes run together is promised by no manual since sm_70, of the posted kernel as little as of this one, and no
 * run shows what another assembler makes of it. So the plan says which launches that is about.
 *
 * Told of launches of the plan that a rewrite made, of more threads than the posted one. A launch whose block stays as
 * it was has its warps as they were, and is not named.
 */
#include "analysis/analysis.h"
#include "rewrite/plan/plan-priv.h"

static bool counts_on_it(const struct dev_step *t)
{
    bool barriers = false, lockstep = false;
    for (uint32_t n = 0; t->entry && n < t->entry->ninst; n++) {
        barriers |= rw_is_block_barrier(t->entry->inst[n].op);
        lockstep |= rw_is_lockstep(&t->entry->inst[n]);
    }
    return barriers && lockstep && t->threads % 32;
}

void rw_warn_lockstep(struct rw_planner *p)
{
    const struct rw_state *first = &p->state.p[0], *last = &p->state.p[p->state.n - 1];
    size_t words = first->graph->nlaunch / 64 + 1; /* rw_member_words; what it asks may be gone by now */
    for (uint32_t l = 0; last != first && last->made && l < last->graph->nlaunch; l++)
        for (uint32_t k = 0; last->made[l] && k < first->graph->nlaunch; k++) {
            const struct dev_step *t = &first->prog->step[k];
            if (!(last->member[l * words + k / 64] >> k % 64 & 1) || last->prog->step[l].threads == t->threads ||
                !counts_on_it(t))
                continue;
            dt_warn(&p->gate.original.warn,
                    ana_warning(first->prog, k, "lockstep", UINT32_MAX, NULL, NULL,
                                "it counts on lanes of a warp that run together (volatile shared memory), and the plan "
                                "runs it in blocks of more threads: each of its threads has the lane that it had"));
        }
}
