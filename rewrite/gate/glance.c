/* A glance at T before it runs whole: a few blocks of each of its launches run, on whatever is in memory, for about
 * what it costs. Most candidates of a large graph are slower than what they are to replace, and by much: they need not
 * run further to be dropped. What may be faster runs whole, is compared, and costs what that run says; so a glance
 * decides nothing but what is not tried.
 *
 * Only where S is large, a few blocks are few, and nothing that a launch touches hangs on data (ana_steady: `same`);
 * where instructions do, they run on what T finds in memory, else on whatever is there. The blocks are taken here and
 * there, one from each stretch of the grid, since blocks of one launch may differ: tails, masks. Of a launch whose
 * first blocks are of one sort and all others of another (a part's `heavy`) each sort has its stretches, and the last
 * block of the one and the first of the other run, so that the model knows where the one ends (softgpu/exec/behind.c).
 * Distinct bytes, which a few blocks cannot tell, are those of S, of some of its blocks their share; so are bytes that
 * are prefetched, and the rewrite says what it adds to them.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/gate/gate-priv.h"

#include <stdlib.h>

#define FROM (UINT64_C(1) << 28) /* thread-instructions of S from which it is worth a glance */
#define STRETCH 16               /* blocks from which one is taken */
#define LEAST 4                  /* blocks */
#define LEAST_CLUSTERS 1         /* of several blocks each */
#define FEW 4                    /* at most 1 / FEW of all blocks are a glance */
#define FOLLOWED 3               /* parts of a launch in whose middle blocks are followed */

static int glance_nomem(struct dt_err *e) { return dt_err_set(e, DT_E_NOMEM, "out of memory"); }

/* Distinct bytes of launch `of` of S, or of all of S (UINT32_MAX); `share` of them. */
static int distinct(const struct rw_trial *t, uint32_t of, double share, struct dev_some *x, struct dt_err *e)
{
    struct dt_arena a = {0};
    uint32_t n = t->now->graph->nbuffer;
    struct ana_set *read = dt_new_array(&a, struct ana_set, n + 1), *write = dt_new_array(&a, struct ana_set, n + 1);
    for (uint32_t s = 0; read && write && s < t->x->nlaunch; s++) {
        const struct ana_launch *l = &t->now->ana->launch[t->x->launch[s]];
        for (uint32_t k = 0; (of == UINT32_MAX || of == s) && k < l->naccess; k++)
            for (int v = 0; v < ANA_EVIDENCES; v++) {
                uint32_t b = l->access[k].buffer;
                read[b] = ana_set_union(&a, read[b], l->access[k].read_by[v]);
                write[b] = ana_set_union(&a, write[b], l->access[k].write_by[v]);
            }
    }
    bool failed = !read || !write || dt_arena_failed(&a);
    for (size_t k = 0; !failed && k < t->x->unread.n; k++) { /* what goes through memory no more */
        const struct rw_unread *u = &t->x->unread.p[k];
        read[u->buffer] = ana_set_minus(&a, read[u->buffer], u->bytes);
        write[u->buffer] = ana_set_minus(&a, write[u->buffer], u->bytes);
        failed = dt_arena_failed(&a);
    }
    for (uint32_t b = 0; !failed && b < n; b++) {
        x->unique_read_bytes += ana_set_bytes(read[b]);
        x->unique_write_bytes += ana_set_bytes(write[b]);
    }
    x->unique_read_bytes = (uint64_t)((double)x->unique_read_bytes * share);
    x->unique_write_bytes = (uint64_t)((double)x->unique_write_bytes * share);
    dt_arena_done(&a);
    return failed ? glance_nomem(e) : 0;
}

/* One block of each of `n` stretches of blocks `from` to `to` - 1. */
static void glance_spread(uint32_t launch, uint32_t from, uint32_t to, uint32_t n, uint32_t *list)
{
    for (uint32_t k = 0; k < n; k++) {
        uint32_t lo = from + (uint32_t)((uint64_t)(to - from) * k / n),
                 hi = from + (uint32_t)((uint64_t)(to - from) * (k + 1) / n);
        list[k] = lo + (uint32_t)(dt_splitmix64(launch + 1, k) % (hi - lo));
    }
}

/* In the middle of each third, where blocks are followed (softgpu/exec/profile.h), stand the two neighbours that a
 * whole run follows: what they read alike says what the L2 holds. But for those at `keep` and before it. */
static void glance_pairs(uint32_t blocks, uint32_t n, uint32_t keep, uint32_t *list)
{
    for (uint32_t k = 0; k < FOLLOWED; k++) {
        uint32_t at = (2 * k + 1) * n / (2 * FOLLOWED),
                 first = (uint32_t)((uint64_t)(2 * k + 1) * blocks / (2 * FOLLOWED));
        bool kept = keep && at + 2 >= keep && at <= keep; /* either of them */
        if (!kept && at + 1 < n && first + 1 < blocks && (!at || list[at - 1] < first) &&
            (at + 2 == n || first + 1 < list[at + 2])) {
            list[at] = first;
            list[at + 1] = first + 1;
        }
    }
}

/* Of `blocks` with `heavy` ones in front, n in all or one or two more. How many; 0: one of the sorts is too small. */
static uint32_t glance_pick(uint32_t launch, uint32_t blocks, uint32_t heavy, uint32_t n, uint32_t *list)
{
    if (!heavy || heavy >= blocks) {
        glance_spread(launch, 0, blocks, n, list);
        glance_pairs(blocks, n, 0, list);
        return n;
    }
    uint32_t first = (uint32_t)((uint64_t)n * heavy / blocks);
    first = first ? first : 1;
    uint32_t rest = n > first ? n - first : 1;
    if (first > heavy || rest > blocks - heavy)
        return 0;
    glance_spread(launch, 0, heavy, first, list);
    glance_spread(launch + 1, heavy, blocks, rest, list + first);
    list[first - 1] = heavy - 1;
    list[first] = heavy;
    glance_pairs(blocks, first + rest, first, list);
    return first + rest;
}

/* Its blocks, or, where there are some, its clusters: they run whole or not at all. */
static uint32_t clusters(const struct rw_trial *t, uint32_t launch)
{
    const uint32_t *c = t->next->graph->launch[launch].cluster;
    return t->next->prog->step[launch].blocks / (c[0] ? c[0] * c[1] * c[2] : 1);
}

/* Which launches and blocks of T run. 1; 0: no glance; negative: error. */
static int glance_blocks(const struct rw_trial *t, struct dev_some *some, uint32_t **list, bool *wanted,
                         bool *ret_by_data, struct dt_err *e)
{
    const struct dt_graph *g = t->next->graph;
    uint64_t work = 0, all = 0, few = 0;
    for (uint32_t k = 0; k < t->x->nlaunch; k++)
        work += t->now->cost[t->x->launch[k]].instructions;
    if (work < RW_GLANCE(FROM) || rw_talks(t->next->prog))
        return 0;
    for (uint32_t k = 0; k < t->n; k++) {
        uint32_t l = t->first + k, blocks = clusters(t, l);
        uint32_t least = blocks < t->next->prog->step[l].blocks ? LEAST_CLUSTERS : LEAST;
        uint32_t n = blocks / STRETCH > least ? blocks / STRETCH : least;
        bool steady = false, same = false;
        if (t->next->from[l] != UINT32_MAX || g->launch[l].kind != DT_KERNEL)
            continue;
        const struct rw_part *part = &t->x->part.p[k];
        uint32_t of = part->cut ? part->cut : part->of;
        double share =
            part->cut ? (double)t->next->prog->step[l].blocks / (double)t->now->prog->step[t->x->launch[of - 1]].blocks
                      : 1;
        if ((!part->cut && blocks < FEW * least) || (!of && t->n > 1))
            return 0; /* the last: which of the distinct bytes of S are whose? */
        int r = ana_steady(t->next->prog, l, &steady, &same, e);
        if (r < 0 || !(steady || same))
            return r;
        *ret_by_data |= !steady;
        wanted[l] = true;
        if (blocks < FEW * least) { /* all of them */
            all += blocks;
            few += blocks;
            continue;
        }
        if (!(list[k] = dt_malloc(((size_t)n + 2) * sizeof *list[k])))
            return glance_nomem(e);
        if (!(n = glance_pick(l, blocks, part->heavy, n, list[k])))
            return 0;
        some[l] = (struct dev_some){.block = list[k], .n = n};
        if ((r = distinct(t, of ? of - 1 : UINT32_MAX, share, &some[l], e)) < 0)
            return r;
        all += blocks;
        few += n;
    }
    return all && few <= all / FEW;
}

/* What the launches of S that it stands for prefetch, it does, and what else its part says. */
static int glance_fetched(const struct rw_trial *t, uint32_t launch, struct dt_err *e)
{
    const struct rw_part *part = &t->x->part.p[launch - t->first];
    struct dev_fetched all = {.prefetched = part->prefetches};
    int r = 0;
    for (uint32_t s = 0; s < t->x->nlaunch && r == 0; s++) {
        struct dev_fetched f;
        if ((!part->of || part->of == s + 1) && t->now->cost[t->x->launch[s]].known &&
            (r = dev_cost_fetched(t->gate->dev, &t->now->cost[t->x->launch[s]], &f, e)) == 0) {
            all.prefetched += f.prefetched;
            all.read += f.read;
        }
    }
    return r < 0 ? r : dev_cost_set_fetched(t->gate->dev, &t->next->cost[launch], all, e);
}

int rw_trial_glance(struct rw_trial *t, struct dt_err *e)
{
    const struct dev_prog *p = t->next->prog;
    struct dev_run *run = NULL;
    struct dev_some *some = dt_calloc((size_t)p->graph->nlaunch + 1, sizeof *some);
    uint32_t **list = dt_calloc((size_t)t->n + 1, sizeof *list);
    bool *wanted = dt_calloc((size_t)p->graph->nlaunch + 1, sizeof *wanted);
    bool by_data = false;
    int r = some && list && wanted ? glance_blocks(t, some, list, wanted, &by_data, e) : glance_nomem(e);
    bool may = r == 1;
    if (may)
        r = dev_run_new_for(t->gate->dev, p, wanted, &run, e);
    if (may && r == 0 && by_data)
        r = rw_trial_fill(t, run, e);
    if (may && r == 0)
        r = rw_watch(t->gate->dev, false, 0, false, e);
    if (may && r == 0)
        r = dev_run_select(run, some, e);
    for (uint32_t l = t->first; may && l < t->first + t->n && r == 0; l++) {
        if (!wanted[l])
            continue;
        if ((r = dev_run_step(run, l, e)) == 0)
            r = dev_run_cost(run, l, &t->next->cost[l], e);
        t->work += t->next->cost[l].instructions / clusters(t, l) * (some[l].block ? some[l].n : clusters(t, l));
        if (r == 0)
            r = glance_fetched(t, l, e);
    }
    dev_run_free(run);
    for (uint32_t k = 0; list && k < t->n; k++)
        free(list[k]);
    free(list);
    free(wanted);
    free(some);
    return may && r == 0 ? 1 : r;
}
