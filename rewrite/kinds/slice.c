/* Slice: a block becomes k blocks, each of which makes a part of its stores; everything that only the other parts
 * needed is gone. For launches whose blocks are too few for the device.
 *
 *   before                                  after, k = 2
 *   gemm<<<64, 48>>>(c, a, b)               gemm<<<64 + 64, 48>>>: block i < 64 is block i and makes the first 16 of
 *   a thread makes 8 x 4 elements:          the 32 stores; block 64 + i is block i and makes the others. Each has half
 *   32 stores, 32 accumulators              of the accumulators, and loads half of the tile of a
 *
 * Every value that remains is computed by the same instructions in the same order. The k texts stand side by side in
 * one grid, as in parallel fusion, one part after the other. How stores are divided, and when that is legal, is in
 * parts.c.
 *
 *   k   the levels `halves` to `sixteenths`, while each is faster than the one before. A level is built if its heaviest
 *       part has clearly less to do than that of the level before
 *
 * Where only the last wave lacks blocks, tails.c slices those alone.
 */
#include "rewrite/kinds/parts.h"
#include "rewrite/facts/hooks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_US 3.0 /* a launch that takes less is not worth a look */
#define SHARE 0.01   /* and so is one that takes less of the whole */

static int slice_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                         struct dt_err *e)
{
    (void)o;
    for (uint32_t k = 0; k < s->graph->nlaunch; k++) {
        const struct dev_step *t = &s->prog->step[k];
        double us = s->step_us ? s->step_us[k] : LEAST_US; /* not timed yet: it is asked whether there is anything */
        bool sliced =
            s->made && s->made[k] && t->entry && (strstr(t->entry->name, "sliced") || strstr(t->entry->name, "tailed"));
        const struct dt_launch *l = &s->graph->launch[k];
        if (l->kind != DT_KERNEL || l->programmatic || rw_is_placed(s->graph, k) || !t->entry || sliced ||
            rw_overlaps(t->entry) || !rw_parts_divisible(t->entry))
            continue; /* it was seen before it became one of these */
        if (!RW_FORCED && (us < LEAST_US || us < SHARE * s->time.time_us || t->blocks >= 2 * t->wave))
            continue;
        if (rw_propose(ret, &k, 1, 0, (uint64_t)(us * 1000)) < 0)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return 0;
}

static int slice_open(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct rw_parts *m = x->mine = dt_calloc(1, sizeof *m);
    *ret_verdict = RW_REFUSED;
    return m ? rw_parts_open(x, m, 1, ret_verdict, why, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

static int slice_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct rw_parts *m = x->mine;
    char word[16];
    snprintf(word, sizeof word, "sliced%u", 2u << level);
    if (!RW_LEVEL_NAMED(rw_part_levels[level]) || !rw_parts_level(m, level, m->one.facts.body[0].step->blocks, why))
        return 1;
    int r = rw_parts_beside(x, m, 0, level, 0, e);
    return r < 0 ? r : rw_parts_text(x, m, word, why, e);
}

const struct rw_rewrite rw_slice = {
    .name = "slice",
    .needs = "a launch whose blocks are too few for the device, and whose stores need different things",
    .keeps = "the order of what each remaining value is made of; each byte is written by one block",
    .on = true,
    .levels = rw_part_levels,
    .falling = true,
    .propose = slice_propose,
    .open = slice_open,
    .build = slice_build,
    .made_well = rw_parts_apart,
    .close = rw_parts_close,
};
