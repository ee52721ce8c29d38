/* Parallel fusion: launches without order in one grid; the block number says which of them a block belongs to.
 *
 *   before                        after
 *   up<<<24, 256>>>(x, w0, h0)    up+up1+act<<<24 + 6 + 11, 256>>>(x, w0, h0, x1, …)
 *   up<<<6, 256>>>(x1, w1, h1)    block k < 24: the first launch's block k; k < 30: the second's block k - 24; …
 *   act<<<11, 128>>>(a, b)        in a block of the third, threads from 128 on leave at once
 *
 * Shapes, kernels, thread counts and shared memory may all differ. The fused block has the most of each, and every body
 * sees its own block numbers and geometry. The body whose blocks take longest comes first, so that short ones fill the
 * tail.
 *
 * Legal when the rows below hold. There is no chain of hazards between any two of the launches, so their blocks may run
 * at the same time and in any order. What they contain may be copied (as for block fusion). A body with fewer threads
 * than the block has counted barriers (emit/copy.c), and lanes that fill up its last warp (emit/surplus.c).
 * Bodies never meet in a block, so they need no barrier between them, and use the same shared memory. What could break
 * it: an order that the map does not show (blocks that talk), and `.nc` loads of what another body writes (made plain).
 * Asynchronous work of a block (copies of tensors, mbarriers, wgmma) is over with its block as it was: nothing comes
 * behind it. Tensor maps are parameters like others.
 *
 * Candidates: all launches at the same depth of the hazard graph that can be copied. Of a large layer also those with
 * the same entry, those with the same thread count, and neighbours, in case all of them together gain nothing.
 */
#include "rewrite/kinds/kinds-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

static const struct rw_legal rows[] = {
    RW_LEGAL_ROW(plain_launches),  RW_LEGAL_ROW(clusters),         RW_LEGAL_ROW(opaque),
    RW_LEGAL_ROW(unordered),       RW_LEGAL_ROW(self_conflict),    RW_LEGAL_ROW(ordered_access),
    RW_LEGAL_ROW(side_effects),    RW_LEGAL_ROW(float_atomics),    RW_LEGAL_ROW(machine_registers),
    RW_LEGAL_ROW(functions),       RW_LEGAL_ROW(module_variables), RW_LEGAL_ROW(parameters),
    RW_LEGAL_ROW(targets),         RW_LEGAL_ROW(uniform_barriers), RW_LEGAL_ROW(uniform_collectives),
    RW_LEGAL_ROW(barrier_numbers), RW_LEGAL_ROW(thread_counts),    RW_LEGAL_ROW(surplus_lanes),
    RW_LEGAL_ROW(posted_lanes),    RW_LEGAL_ROW(surplus_paths),    RW_LEGAL_ROW(active_mask),
    RW_LEGAL_ROW(beside_async),    RW_LEGAL_ROW(constant_space),   RW_LEGAL_ROW(shared_space),
};
#define NROWS (sizeof rows / sizeof rows[0])

/* ---- candidates -------------------------------------------------------------------------------------------------- */

/* May the launch be proposed, by its document, its analysis and its races? What else is illegal is refused later, with
 * a reason. */
static bool parallel_plain(const struct rw_state *s, uint32_t launch)
{
    const struct dt_launch *l = &s->graph->launch[launch];
    return l->kind == DT_KERNEL && !l->cluster[0] && !l->programmatic && !rw_is_placed(s->graph, launch) &&
           !s->ana->launch[launch].self_conflict && !rw_is_racy(s, launch);
}

/* Can the launch be a body at all? A launch that cannot is left out, as a group with it would be refused as a whole. */
static int alone(const struct rw_state *s, const struct rw_options *o, uint32_t launch, bool *ret, struct dt_err *e)
{
    static const struct dev_info any = {.shared_block_optin = UINT32_MAX};
    struct rw_cand *c = dt_calloc(1, sizeof *c);
    struct dt_str why = {0};
    if (!c)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = rw_cand_open(c, &any, s->prog, s->ana, o, &launch, 1, e);
    *ret = r == 0 && rw_legal_rows(rows, NROWS, c, &why);
    dt_str_done(&why);
    rw_cand_done(c);
    free(c);
    return r;
}

struct group {
    uint32_t launch[RW_BODIES], n;
};

static int parallel_add(struct rw_proposals *ret, const struct group *g, struct dt_err *e)
{
    if (g->n < 2)
        return 0;
    /* the smallest `size` comes first, so the largest group does */
    return rw_propose(ret, g->launch, g->n, RW_BODIES - g->n, 0) < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

/* The launches of `all` with the same entry as launch `like`, or with the same thread count. None if these are all of
 * them, or if `like` is not the first of them: then the group was found before. */
static void parallel_alike(const struct rw_state *s, const struct group *all, uint32_t like, bool entry,
                           struct group *ret)
{
    ret->n = 0;
    for (uint32_t k = 0; k < all->n; k++) {
        const struct dev_step *a = &s->prog->step[all->launch[k]], *b = &s->prog->step[all->launch[like]];
        if (entry ? a->entry != b->entry : a->threads != b->threads)
            continue;
        if (!ret->n && k != like)
            return;
        ret->launch[ret->n++] = all->launch[k];
    }
    if (ret->n == all->n)
        ret->n = 0;
}

/* By launch, how many launches one after the other lead to it; *ret_most: the most. To be freed; NULL: memory. */
static uint32_t *layers(const struct rw_state *s, uint32_t *ret_most)
{
    uint32_t *depth = dt_calloc((size_t)s->graph->nlaunch + 1, sizeof *depth), most = 0;
    for (uint32_t k = 0; depth && k < s->ana->nedge; k++) { /* edges are sorted by consumer */
        const struct ana_edge *x = &s->ana->edge[k];
        if (x->pairs && depth[x->producer] >= depth[x->consumer])
            depth[x->consumer] = depth[x->producer] + 1;
        if (depth[x->consumer] > most)
            most = depth[x->consumer];
    }
    *ret_most = most;
    return depth;
}

int rw_has_twin(const struct rw_state *s, uint32_t launch, struct dt_err *e)
{
    uint32_t most;
    dt_free_ uint32_t *depth = layers(s, &most);
    if (!depth)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < s->graph->nlaunch; k++)
        if (k != launch && depth[k] == depth[launch] && s->prog->step[k].entry == s->prog->step[launch].entry &&
            s->graph->launch[k].kind == DT_KERNEL && parallel_plain(s, k))
            return 1;
    return 0;
}

static int parallel_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                            struct dt_err *e)
{
    uint32_t n = s->graph->nlaunch, most, *depth = layers(s, &most);
    int r = depth ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t d = 0; d <= most && r == 0; d++) {
        struct group all = {.n = 0}, some;
        uint32_t members = 0;
        for (uint32_t k = 0; k < n; k++)
            members += depth[k] == d && parallel_plain(s, k);
        for (uint32_t k = 0; members > 1 && k < n && r == 0; k++) {
            bool ok;
            if (depth[k] != d || !parallel_plain(s, k))
                continue;
            if ((r = alone(s, o, k, &ok, e)) < 0 || !ok)
                continue;
            all.launch[all.n++] = k;
            if (all.n == RW_BODIES) { /* a wider layer is cut into groups, whose results may be fused further */
                r = parallel_add(ret, &all, e);
                all.n = 0;
            }
        }
        if (r == 0)
            r = parallel_add(ret, &all, e);
        for (uint32_t k = 0; all.n > 2 && k < all.n && r == 0; k++) {
            struct group two = {{all.launch[k], k + 1 < all.n ? all.launch[k + 1] : 0}, k + 1 < all.n ? 2 : 0};
            parallel_alike(s, &all, k, true, &some);
            r = parallel_add(ret, &some, e);
            if (r == 0) {
                parallel_alike(s, &all, k, false, &some);
                r = parallel_add(ret, &some, e);
            }
            if (r == 0)
                r = parallel_add(ret, &two, e);
        }
    }
    free(depth);
    return r;
}

/* ---- one of them ------------------------------------------------------------------------------------------------- */

/* How long a block takes, roughly: the launch's time over its waves. */
static double block_us(const struct rw_state *s, const struct dev_info *dev, uint32_t launch)
{
    const struct dev_step *t = &s->prog->step[launch];
    uint64_t slots = (uint64_t)(dev->sms ? dev->sms : 1) * (t->blocks_per_sm ? t->blocks_per_sm : 1);
    return s->step_us ? s->step_us[launch] / (double)((t->blocks + slots - 1) / slots) : 0;
}

/* x->launch with the longest blocks first. */
static void by_length(const struct rw_edit *x, uint32_t *ret)
{
    for (uint32_t k = 0; k < x->nlaunch; k++) {
        uint32_t at = k;
        for (; at && block_us(x->now, x->dev, ret[at - 1]) < block_us(x->now, x->dev, x->launch[k]); at--)
            ret[at] = ret[at - 1];
        ret[at] = x->launch[k];
    }
}

static int parallel_open(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct rw_cand *c = x->mine = dt_calloc(1, sizeof *c);
    uint32_t order[RW_BODIES];
    *ret_verdict = RW_REFUSED;
    if (!c)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    by_length(x, order);
    int r = rw_cand_open(c, x->dev, x->now->prog, x->now->ana, x->opt, order, x->nlaunch, e);
    if (r < 0)
        return r;
    if (!(c->beside = dt_new_array(&c->arena, uint32_t, c->facts.nbody + 1)))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (!rw_legal_rows(rows, NROWS, c, why)) /* what the block takes is not known yet, and is asked again */
        return 1;
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        uint64_t end = (uint64_t)c->beside[s] + c->facts.body[s].step->blocks;
        if (end > INT32_MAX)
            return dt_str_add(why, DT_ROW("grid") ": the blocks of all are too many for one launch"), 1;
        c->beside[s + 1] = (uint32_t)end;
        c->lists.list[s] = (struct rw_list){.affine = true, .a = 0 - c->beside[s], .b = 1, .m = 1, .max = 1};
    }
    c->lists.n = c->beside[c->facts.nbody];
    return 0;
}

int rw_join_beside(struct rw_cand *c, const struct rw_legal *of, unsigned n, struct dt_str *why, struct dt_err *e)
{
    struct dt_str room = {0};
    int r;
    if (!rw_layout(c, &room))
        dt_str_addf(why, DT_ROW("shared-space") ": %s", room.s ? room.s : "it does not fit");
    dt_str_done(&room);
    if (why->len || !rw_legal_rows(of, n, c, why))
        return 1;
    if ((r = rw_identity(c, why, e)))
        return r;
    rw_name_entry(c);
    return (r = rw_join(c, e)) < 0 ? r : rw_resources(c, why, e);
}

static int parallel_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    (void)level;
    int r = rw_join_beside(x->mine, rows, NROWS, why, e);
    return r ? r : rw_fuse_part(x->mine, x, e);
}

const struct rw_rewrite rw_parallel_fusion = {
    .name = "parallel-fusion",
    .needs = "launches between which no chain of hazards leads; rows of rewrite/legal.def about what they contain",
    .keeps = "what every block computes",
    .on = true,
    .propose = parallel_propose,
    .open = parallel_open,
    .build = parallel_build,
    .close = rw_close_cand,
};
