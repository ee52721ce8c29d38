/* Pack: several small blocks in one, each with its own barriers and its own shared memory. For launches of very many
 * blocks of a warp or two.
 *
 *   before                               after, 8 in one
 *   small<<<100000, 32>>>(x, y)          small<<<12500, 256>>>(x, y)   warp g of block k: the posted block 8 * k + g
 *
 * An SM has room for 16 to 32 blocks, whatever their size: 32 of one warp are half of its threads on an H200. And
 * blocks are handed out one after the other, 0.5 to 0.75 ns each, which is what a launch of small blocks waits for.
 * Nothing else changes: a posted block's threads, warps, numbers and geometry are as they were (emit/pack.c, join.c).
 *
 * Levels `pairs`, `fours`, `eights`: all are tried, as far as a pack has no more than 256 threads.
 * The last pack may lack some: their warps leave at once. A pack keeps its place until its longest block has ended; the
 * model sees that, as it follows packs like any blocks.
 *
 * Legal when the rows below hold: what may be copied (as for parallel fusion), and
 *   whole_warps        a posted block is whole warps, so that lanes stay lanes
 *   subblock_barriers  there are numbers for the barriers of all: 16 in a block
 *   subblock_memory    each has a piece of shared memory for itself, used by name in addresses alone
 *   shared_space       and that of all fits a block
 * Registers and spills are ptxas's word (`resources`). What could break it: a block that ends early while others of its
 * pack go on (barriers are counted, each its own), and what names a block, an SM or a slot (`machine_registers`).
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define MOST 256     /* threads of a pack */
#define WAVES 2      /* a launch of fewer waves than so many waits for other things */
#define LEAST_US 3.0 /* a launch that takes less is not worth a look */
#define SHARE 0.01   /* and so is one that takes less of the whole */

static const struct rw_legal rows[] = {
    RW_LEGAL_ROW(plain_launches),
    RW_LEGAL_ROW(clusters),
    RW_LEGAL_ROW(opaque),
    RW_LEGAL_ROW(self_conflict),
    RW_LEGAL_ROW(ordered_access),
    RW_LEGAL_ROW(side_effects),
    RW_LEGAL_ROW(float_atomics),
    RW_LEGAL_ROW(machine_registers),
    RW_LEGAL_ROW(functions),
    RW_LEGAL_ROW(module_variables),
    RW_LEGAL_ROW(parameters),
    RW_LEGAL_ROW(targets),
    RW_LEGAL_ROW(uniform_barriers),
    RW_LEGAL_ROW(uniform_collectives),
    RW_LEGAL_ROW(whole_warps),
    RW_LEGAL_ROW(barrier_numbers),
    RW_LEGAL_ROW(subblock_barriers),
    RW_LEGAL_ROW(subblock_memory),
    RW_LEGAL_ROW(thread_counts),
    RW_LEGAL_ROW(active_mask),
    RW_LEGAL_ROW(async),
    RW_LEGAL_ROW(constant_space),
    RW_LEGAL_ROW(shared_space),
};
#define NROWS (sizeof rows / sizeof rows[0])

static int pack_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                        struct dt_err *e)
{
    (void)o;
    for (uint32_t k = 0; k < s->graph->nlaunch; k++) {
        const struct dt_launch *l = &s->graph->launch[k];
        const struct dev_step *t = &s->prog->step[k];
        double us = s->step_us ? s->step_us[k] : LEAST_US; /* not timed yet: it is asked whether there is anything */
        bool packed = s->made && s->made[k] && t->entry && strstr(t->entry->name, "packed");
        if (l->kind != DT_KERNEL || l->programmatic || rw_is_placed(s->graph, k) || !t->entry || packed ||
            rw_overlaps(t->entry) || 2 * t->threads > MOST || t->blocks < 2)
            continue;
        if (!RW_FORCED && (us < LEAST_US || us < SHARE * s->time.time_us || t->blocks <= (uint64_t)WAVES * t->wave))
            continue;
        if (rw_propose(ret, &k, 1, 0, (uint64_t)(us * 1000)) < 0)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return 0;
}

static int pack_open(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct rw_cand *c = x->mine = dt_calloc(1, sizeof *c);
    *ret_verdict = RW_REFUSED;
    if (!c)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = rw_cand_open(c, x->dev, x->now->prog, x->now->ana, x->opt, x->launch, 1, e);
    if (r < 0)
        return r;
    c->pack = 2;
    return !rw_legal_rows(rows, NROWS, c, why);
}

/* A fresh candidate of `pack` blocks in one. */
static int pack_lists(struct rw_edit *x, struct rw_cand *c, uint32_t pack, struct dt_err *e)
{
    rw_cand_done(c);
    int r = rw_cand_open(c, x->dev, x->now->prog, x->now->ana, x->opt, x->launch, 1, e);
    if (r < 0)
        return r;
    c->pack = pack;
    c->lists.n = (c->facts.body[0].step->blocks + pack - 1) / pack;
    c->lists.list[0] = (struct rw_list){.affine = true, .b = pack, .c = 1, .m = pack, .max = pack};
    return 0;
}

static int pack_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct rw_cand *c = x->mine;
    struct dt_str room = {0};
    uint32_t pack = 2u << level, threads = c->facts.body[0].threads;
    const char *name = x->now->graph->launch[x->launch[0]].name;
    char entry[sizeof c->made.entry];
    if (!RW_LEVEL_NAMED(rw_pack.levels[level]))
        return 1;
    if (threads * pack > MOST) {
        dt_str_addf(why, DT_ROW("threads") ": %u blocks of %u threads are more than %d", pack, threads, MOST);
        return 1;
    }
    int r = pack_lists(x, c, pack, e);
    if (r < 0)
        return r;
    if (!rw_layout(c, &room))
        dt_str_addf(why, DT_ROW("shared-space") ": %s", room.s ? room.s : "it does not fit");
    dt_str_done(&room);
    if (why->len || !rw_legal_rows(rows, NROWS, c, why))
        return 1;
    if ((r = rw_identity(c, why, e)) != 0)
        return r;
    rw_name_entry(c);
    snprintf(entry, sizeof entry, "packed%u%.100s", pack, c->made.entry + strlen("fused"));
    memcpy(c->made.entry, entry, sizeof entry);
    if ((r = rw_join(c, e)) < 0 || (r = rw_resources(c, why, e)) != 0 || (r = rw_fuse_part(c, x, e)) < 0)
        return r;
    return json_object_set_new(x->part.p[x->part.n - 1].launch, "name", json_string(name)) < 0
               ? dt_err_set(e, DT_E_NOMEM, "out of memory")
               : 0;
}

const struct rw_rewrite rw_pack = {
    .name = "pack",
    .needs = "a launch of several waves of blocks of up to 128 threads",
    .keeps = "what every block computes, under its numbers, with its own barriers and shared memory",
    .on = true,
    .levels = (const char *const[]){"pairs", "fours", "eights", NULL},
    .propose = pack_propose,
    .open = pack_open,
    .build = pack_build,
    .close = rw_close_cand,
};
