/* Tails: of a launch whose last wave is only partly filled, the blocks of that wave are sliced, in the same grid.
 *
 *   before                         after, the tail in quarters
 *   gemm<<<152>>> on 132 SMs       gemm<<<132 + 4 * 20>>>: block i < 132 is block i; block 132 + 20 * p + j makes part
 *   20 SMs have a second block     p of block 132 + j. No SM has more than one block and one part
 *
 * What a part of a block is, how stores are divided and when that is legal, is in parts.c; here blocks of the first
 * waves stay whole, in a text of their own. Which block starts when is the hardware's, and nothing rests on it: all are
 * independent, in the posted launch and in this one.
 *
 *   tail     what is left of the blocks when every SM has got equally many. If an SM holds more than SOME blocks, or
 *            nothing is left, what is left of whole waves
 *   levels   `halves` to `sixteenths`, as for slices; all are tried, since the first may be too coarse to gain
 *
 * Legal when the rows of parts.c hold, for the launch as it is made. No bits hang on the rest: it is refused as
 * `residency` if an SM no longer holds as many whole blocks as it did, of those that there are for it. Both texts in
 * one grid have the larger one's registers, and ptxas is told how many blocks are to fit (.minnctapersm); if it spills
 * then, `resources` refuses.
 *
 * The parts read again what the whole block reads once, and the text is longer; the time model sees the first, and the
 * planner asks for a gain under all its doubts.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define SOME 4       /* blocks that an SM holds: more, and a wave is what counts */
#define PER_SM 8     /* rounds of all SMs: more, and a tail is little */
#define FILLED 0.8   /* a last wave that is as full as that is not worth a look */
#define LEAST_US 3.0 /* and so is a launch that takes less */
#define SHARE 0.01   /* or less of the whole */

/* Blocks that stay whole; 0: there is no tail. */
static uint32_t tails_whole(const struct dev_step *t)
{
    uint32_t sms = t->blocks_per_sm ? t->wave / t->blocks_per_sm : 0;
    uint32_t unit = t->blocks_per_sm > SOME && t->blocks >= t->wave ? t->wave : sms;
    if (RW_FORCED)
        return t->blocks > 1 ? (t->blocks + 1) / 2 : 0;
    if (sms && t->blocks % unit == 0)
        unit = t->wave;
    uint32_t rest = unit ? t->blocks % unit : 0;
    if (!rest || t->blocks < unit || t->blocks / unit > PER_SM || rest > FILLED * unit)
        return 0;
    return t->blocks - rest;
}

/* How many blocks an SM is to hold: as many as it held, but no more than there are whole ones for each SM. */
static uint32_t tails_resident(const struct dev_step *t)
{
    uint32_t sms = t->blocks_per_sm ? t->wave / t->blocks_per_sm : 0, each = sms ? (tails_whole(t) + sms - 1) / sms : 1;
    return each < t->blocks_per_sm ? each : t->blocks_per_sm;
}

static int tails_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                         struct dt_err *e)
{
    (void)o;
    for (uint32_t k = 0; k < s->graph->nlaunch; k++) {
        const struct dev_step *t = &s->prog->step[k];
        double us = s->step_us ? s->step_us[k] : LEAST_US; /* not timed yet: it is asked whether there is anything */
        bool sliced =
            s->made && s->made[k] && t->entry && (strstr(t->entry->name, "sliced") || strstr(t->entry->name, "tailed"));
        const struct dt_launch *l = &s->graph->launch[k];
        if (l->kind != DT_KERNEL || l->programmatic || l->stream || l->nafter || !t->entry || sliced ||
            rw_overlaps(t->entry) || !rw_parts_two_stores(t->entry) || !tails_whole(t))
            continue;
        if (!RW_FORCED && (us < LEAST_US || us < SHARE * s->time.time_us))
            continue;
        if (rw_propose(ret, &k, 1, 0, (uint64_t)(us * 1000)) < 0)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return 0;
}

static int tails_open(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct rw_parts *m = x->mine = dt_calloc(1, sizeof *m);
    const struct dev_step *t = &x->now->prog->step[x->launch[0]];
    uint32_t whole = tails_whole(t), sms = t->blocks_per_sm ? t->wave / t->blocks_per_sm : 1;
    *ret_verdict = RW_REFUSED;
    if (!m)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (!whole) {
        dt_str_add(why, DT_ROW("no-tail") ": its blocks are whole waves");
        return 1;
    }
    return rw_parts_open(x, m, 1.0 / (whole / (sms ? sms : 1) + 1), ret_verdict, why, e);
}

static int tails_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct rw_parts *m = x->mine;
    const struct dev_step *t = &x->now->prog->step[x->launch[0]];
    uint32_t whole = tails_whole(t);
    char word[16];
    snprintf(word, sizeof word, "tailed%u", 2u << level);
    if (!RW_LEVEL_NAMED(rw_part_levels[level]) || !rw_parts_level(m, level, t->blocks - whole, why))
        return 1;
    int r = rw_parts_beside(x, m, level, whole, e);
    if (r < 0)
        return r;
    m->all.resident = tails_resident(t);
    return rw_parts_text(x, m, word, why, e);
}

/* Do full waves hold as many blocks as they did? And the row of parts. */
static bool tails_made_well(const struct rw_edit *x, const struct rw_state *next, struct dt_str *why)
{
    uint32_t want = tails_resident(&x->now->prog->step[x->launch[0]]);
    for (uint32_t k = 0; k < next->graph->nlaunch; k++)
        if (next->from[k] == UINT32_MAX && next->prog->step[k].blocks_per_sm < want) {
            dt_str_addf(why, DT_ROW("residency") ": an SM holds %u blocks of " DT_LAUNCH ", and had %u whole ones",
                        next->prog->step[k].blocks_per_sm, next->graph->launch[k].name, want);
            return false;
        }
    return rw_parts_apart(x, next, why);
}

const struct rw_rewrite rw_tails = {
    .name = "tails",
    .needs = "a launch whose last wave is partly filled, and whose stores need different things",
    .keeps = "the blocks of full waves, and what `slice` keeps of the others",
    .on = true,
    .rival = &rw_slice,
    .levels = rw_part_levels,
    .propose = tails_propose,
    .open = tails_open,
    .build = tails_build,
    .made_well = tails_made_well,
    .close = rw_parts_close,
};
