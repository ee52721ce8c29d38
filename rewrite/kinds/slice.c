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
 * By rounds. A kernel whose stores are in a loop over tiles, or over elements a grid apart, and cannot be divided, has
 * its rounds divided instead, where they do not need each other: part p makes those rounds whose number leaves p
 * (emit/rounds.c). The text is one, and parts tell each other apart by their block's number. Legal, beside the rows
 * that parts of stores have:
 *   rounds_alone    no asynchronous copies; registers that one round leaves to the next, or to what comes after the
 *                   loop, are integers that each round makes of such registers alone; nothing is kept in local memory
 *   rounds_shared   nothing is in shared memory (emit/rounds-shared.c)
 *   parts_apart     nor in global memory: no two blocks of the new launch touch a byte in conflict
 *
 * Where only the last wave lacks blocks, tails.c slices those alone.
 */
#include "rewrite/kinds/parts.h"
#include "rewrite/emit/rounds.h"
#include "rewrite/facts/hooks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

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
            rw_overlaps(t->entry) || !(rw_parts_divisible(t->entry) || rw_rounds_plausible(t->entry)))
            continue; /* it was seen before it became one of these */
        if (!RW_FORCED && (us < LEAST_US || us < SHARE * s->time.time_us || t->blocks >= 2 * t->wave))
            continue;
        if (rw_propose(ret, &k, 1, 0, (uint64_t)(us * 1000)) < 0)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return 0;
}

/* 1: its rounds are not to be divided. */
static int rounds_open(struct rw_edit *x, struct rw_parts *m, struct dt_str *why, struct dt_err *e)
{
    static const struct rw_legal rows[] = {RW_LEGAL_ROW(async)};
    const struct rw_body *b = &m->one.facts.body[0];
    struct rw_rounds found;
    struct rw_reach reach = {0};
    struct dt_str shared = {0};
    int r = rw_rounds_of(&m->one.arena, b->f, &found, e);
    if (r == 0 && !rw_legal_rows(rows, 1, &m->one, why))
        r = 1;
    if (r == 0 && (found.what || b->cp_async) && !rw_off("rounds_alone")) {
        if (found.what)
            dt_str_addf(why, DT_ROW("rounds-alone") ": PTX line %u: %s", found.line, found.what);
        else
            dt_str_add(why, DT_ROW("rounds-alone") ": it has asynchronous copies");
        r = 1;
    }
    if (r == 0 && b->shared_bytes)
        r = rw_reach_of(&m->one.arena, b, true, &reach, e);
    if (r == 0 && !rw_rounds_shared(b, &found, &reach, &shared) && !rw_off("rounds_shared")) {
        dt_str_addf(why, DT_ROW("rounds-shared") ": %s", shared.s ? shared.s : "?");
        r = 1;
    }
    dt_str_done(&shared);
    rw_rounds_done(&found);
    if (r != 0 || (r = rw_solo_init(&m->solo, x->dev, x->now->prog, x->launch[0], e)) < 0)
        return r;
    m->solo.self_conflict = x->now->ana->launch[x->launch[0]].self_conflict;
    return rw_solo_legal(&m->solo, RW_SOLO_MOVES, why) ? 0 : 1;
}

static int slice_open(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct rw_parts *m = x->mine = dt_calloc(1, sizeof *m);
    *ret_verdict = RW_REFUSED;
    int r = m ? rw_parts_open(x, m, 1, ret_verdict, why, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    /* where stores can be divided, they are: attention's softmax over 2,048 tokens (elements a grid apart, four of them
     * unrolled) takes longer by rounds */
    if (r <= 0 || !m->legal || !rw_rounds_plausible(m->one.facts.body[0].f))
        return r;
    struct dt_str no = {0};
    int q = rounds_open(x, m, &no, e);
    m->by_rounds = q == 0;
    if (q == 0)
        dt_str_done(why);
    else if (q == 1) { /* what says more comes first */
        dt_str_addf(&no, "; by stores: %s", why->s ? why->s : "no");
        dt_str_done(why);
        dt_str_add(why, no.s ? no.s : "out of memory");
    }
    dt_str_done(&no);
    return q < 0 || q == 0 ? q : r;
}

/* The launch with so many blocks for each along x. */
static int rounds_build(struct rw_edit *x, struct rw_parts *m, unsigned parts, struct dt_str *why, struct dt_err *e)
{
    const struct dt_graph *g = x->now->graph;
    const struct dt_launch *l = &g->launch[x->launch[0]];
    struct rw_solo *s = &m->solo;
    char name[160];
    if ((uint64_t)l->grid[0] * parts > INT32_MAX) {
        dt_str_add(why, DT_ROW("grid") ": the blocks of all parts are too many for one launch");
        return 1;
    }
    int r = rw_solo_copy(s, why, e);
    if (r != 0 || (r = rw_rounds_text(s, parts, e)) < 0)
        return r;
    snprintf(name, sizeof name, "sliced%u_%.120s", parts, s->f->name);
    s->f->name = dt_arena_strdup(&s->m->arena, name);
    json_t *launch = dt_launch_to_json(g, l);
    json_object_del(launch, "module");
    bool ok = s->f->name && launch && json_object_set_new(launch, "entry", json_string(name)) == 0 &&
              json_object_set_new(launch, "grid",
                                  json_pack("[I,I,I]", (json_int_t)l->grid[0] * parts, (json_int_t)l->grid[1],
                                            (json_int_t)l->grid[2])) == 0;
    struct rw_part *p = ok ? rw_edit_add(x, launch) : NULL;
    if (!p) {
        if (!ok)
            json_decref(launch);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return rw_solo_text(s, &p->ptx, e);
}

static int slice_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct rw_parts *m = x->mine;
    char word[16];
    snprintf(word, sizeof word, "sliced%u", 2u << level);
    if (m->by_rounds)
        return RW_LEVEL_NAMED(rw_part_levels[level]) ? rounds_build(x, m, 2u << level, why, e) : 1;
    if (!RW_LEVEL_NAMED(rw_part_levels[level]) || !rw_parts_level(m, level, m->one.facts.body[0].step->blocks, why))
        return 1;
    int r = rw_parts_beside(x, m, 0, level, 0, e);
    return r < 0 ? r : rw_parts_text(x, m, word, why, e);
}

const struct rw_rewrite rw_slice = {
    .name = "slice",
    .needs = "a launch whose blocks are too few for the device, and whose stores need different things, or whose "
             "rounds of a "
             "loop do not need each other",
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
