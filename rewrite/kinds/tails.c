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
 *   tail     what is left of the blocks when every SM has got equally many. Of more than a wave, if an SM holds more
 *            than SOME blocks, or if nothing is left: what is left of whole waves
 *   levels   `halves` to `sixteenths`, as for slices; all are tried, since the first may be too coarse to gain. Further
 *            `halved-4` to `quartered-16`: all blocks are in halves (quarters), which makes them enough for the device,
 *            and the tail of these in smaller parts: gemm<<<64>>> on 108 SMs has 128 halves, 20 of them a second one
 *            on their SM; these are in eighths, gemm<<<108 + 4 * 20>>>. Of these levels one is built: the one that by
 *            what parts have to do takes least (tails_load), if it may be any use. None while a launch of the same
 *            entry may run beside this one: their blocks together may fill the device whole (parallel fusion)
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

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define SOME 4       /* blocks that an SM holds: more, and a wave is what counts */
#define PER_SM 8     /* rounds of all SMs: more, and a tail is little */
#define FILLED 0.8   /* a last wave that is as full as that is not worth a look */
#define CLEARLY 0.95 /* of what equal parts take: more, and parts with a tail are not built */
#define ROUGHLY 1.1  /* by so much what parts take may be wrong */
#define LEAST_US 3.0 /* and so is a launch that takes less */
#define SHARE 0.01   /* or less of the whole */

/* What a level makes: all blocks in 1 << main parts, those of the last wave in 2 << tail. */
static const struct tails_shape {
    unsigned main, tail;
} shape[] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 1}, {1, 2}, {1, 3}, {2, 2}, {2, 3}};
static const char *const tails_levels[] = {"halves",   "quarters",  "eighths",     "sixteenths",   "halved-4",
                                           "halved-8", "halved-16", "quartered-8", "quartered-16", NULL};
#define NSHAPE (sizeof shape / sizeof shape[0])
_Static_assert(sizeof tails_levels / sizeof tails_levels[0] == NSHAPE + 1, "one shape a level");

static uint32_t tails_sms(const struct dev_step *t) { return t->blocks_per_sm ? t->wave / t->blocks_per_sm : 0; }

/* Of n blocks, how many a round has; 0: none. */
static uint32_t tails_round(const struct dev_step *t, uint64_t n)
{
    uint32_t sms = tails_sms(t), unit = t->blocks_per_sm > SOME && n >= t->wave ? t->wave : sms;
    return sms && n % unit == 0 ? t->wave : unit;
}

/* Blocks that stay as they are of 1 << main times as many as were posted; 0: there is no tail. */
static uint32_t tails_whole(const struct dev_step *t, unsigned main)
{
    uint64_t n = (uint64_t)t->blocks << main;
    if (RW_FORCED)
        return t->blocks > 1 ? (uint32_t)(n - t->blocks / 2) : 0;
    uint32_t unit = tails_round(t, n), rest = unit ? (uint32_t)(n % unit) : 0;
    if (!rest || n < unit || n / unit > PER_SM || rest > FILLED * unit)
        return 0;
    return (uint32_t)(n - rest);
}

/* How many blocks an SM is to hold: as many as it held, but no more than there are whole ones for each SM. */
static uint32_t tails_resident(const struct dev_step *t, uint32_t whole)
{
    uint32_t sms = tails_sms(t), each = sms ? (whole + sms - 1) / sms : 1;
    return each < t->blocks_per_sm ? each : t->blocks_per_sm;
}

/* Has it a launch like it beside it, with which it may fill the device whole, in one grid? 1, 0; negative: error. */
static int alike(const struct rw_state *s, const struct rw_options *o, uint32_t launch, struct dt_err *e)
{
    return rw_kind_allowed(o, &rw_parallel_fusion) && !RW_FORCED ? rw_has_twin(s, launch, e) : 0;
}

static int tails_propose(const struct rw_state *s, const struct rw_options *o, struct rw_proposals *ret,
                         struct dt_err *e)
{
    for (uint32_t k = 0; k < s->graph->nlaunch; k++) {
        const struct dev_step *t = &s->prog->step[k];
        double us = s->step_us ? s->step_us[k] : LEAST_US; /* not timed yet: it is asked whether there is anything */
        bool sliced =
            s->made && s->made[k] && t->entry && (strstr(t->entry->name, "sliced") || strstr(t->entry->name, "tailed"));
        const struct dt_launch *l = &s->graph->launch[k];
        if (l->kind != DT_KERNEL || l->programmatic || rw_is_placed(s->graph, k) || !t->entry || sliced ||
            rw_overlaps(t->entry) || !rw_parts_divisible(t->entry) ||
            !(tails_whole(t, 0) || tails_whole(t, 1) || tails_whole(t, 2)))
            continue;
        if (!RW_FORCED && (us < LEAST_US || us < SHARE * s->time.time_us))
            continue;
        int twin = tails_whole(t, 0) ? 0 : alike(s, o, k, e);
        if (twin < 0)
            return twin;
        if (!twin && rw_propose(ret, &k, 1, 0, (uint64_t)(us * 1000)) < 0)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return 0;
}

/* What a block has to do in that many parts, of what it had. */
static double tails_weight(const struct rw_parts *m, unsigned parts)
{
    return parts ? m->heaviest[parts - 1] / m->whole : 1;
}

/* How long that takes, about, in posted blocks: what the busiest SM has to do, and how long its longest block is, of
 * which neither hides the other. parts: of the tail's blocks; as `main`: all blocks are alike. */
static double tails_load(const struct rw_parts *m, const struct dev_step *t, unsigned main, unsigned parts)
{
    uint64_t n = (uint64_t)t->blocks << main;
    uint32_t unit = tails_round(t, n), sms = tails_sms(t);
    if (!unit)
        return 0;
    uint64_t rest = n % unit << (parts - main);
    double longest = tails_weight(m, main), work = (double)(n / unit * (unit / sms)) * longest;
    work += (double)((rest + sms - 1) / sms) * tails_weight(m, parts);
    return sqrt(longest * longest + work * work);
}

/* Of the shapes that divide all blocks, the one that takes least, if its tail is any use and it may be better than what
 * else there is; 0: none. */
static unsigned tails_best(const struct rw_parts *m, const struct dev_step *t)
{
    double least = 1e300;
    unsigned best = 0;
    for (unsigned l = 0; l <= RW_PART_LEVELS && (!l || m->part[l - 1][0].keep); l++) {
        double alike = tails_load(m, t, l, l), whole = l && tails_whole(t, 0) ? tails_load(m, t, 0, l) : alike;
        least = alike < least ? alike : least;
        least = whole < least ? whole : least;
    }
    least *= ROUGHLY;
    for (unsigned k = 0; k < NSHAPE; k++) {
        unsigned main = shape[k].main, tail = shape[k].tail;
        if (!main || !m->part[tail][0].keep || !tails_whole(t, main))
            continue;
        double load = tails_load(m, t, main, tail + 1);
        if (load > least || load > CLEARLY * tails_load(m, t, main, main))
            continue;
        best = k;
        least = load;
    }
    return best;
}

static int tails_open(struct rw_edit *x, enum rw_verdict *ret_verdict, struct dt_str *why, struct dt_err *e)
{
    struct rw_parts *m = x->mine = dt_calloc(1, sizeof *m);
    const struct dev_step *t = &x->now->prog->step[x->launch[0]];
    uint32_t whole = tails_whole(t, 0), sms = tails_sms(t);
    *ret_verdict = RW_REFUSED;
    if (!m)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (!whole && !tails_whole(t, 1) && !tails_whole(t, 2)) {
        dt_str_add(why, DT_ROW("no-tail") ": its blocks are whole waves");
        return 1;
    }
    int r = rw_parts_open(x, m, whole ? 1.0 / (whole / (sms ? sms : 1) + 1) : 1, ret_verdict, why, e);
    if (r != 0)
        return r;
    int twin = alike(x->now, x->opt, x->launch[0], e);
    if (twin < 0)
        return twin;
    m->best = twin ? 0 : tails_best(m, t);
    if (whole || m->best || RW_FORCED)
        return 0;
    *ret_verdict = RW_DROPPED;
    x->before_us = x->after_us = x->now->time.time_us;
    dt_str_add(why, "estimated: no tail of its parts is less to do than parts that are alike");
    return 1;
}

static int tails_build(struct rw_edit *x, unsigned level, struct dt_str *why, struct dt_err *e)
{
    struct rw_parts *m = x->mine;
    const struct dev_step *t = &x->now->prog->step[x->launch[0]];
    unsigned main = shape[level].main, tail = shape[level].tail;
    uint32_t whole = tails_whole(t, main);
    char word[32];
    if (main)
        snprintf(word, sizeof word, "tailed%ux%u", 1u << main, 2u << tail);
    else
        snprintf(word, sizeof word, "tailed%u", 2u << tail);
    if (!RW_LEVEL_NAMED(tails_levels[level]) || !whole || (main && level != m->best && !RW_FORCED))
        return 1;
    if (main && !rw_parts_level(m, main - 1, t->blocks, why))
        return 1;
    if (!rw_parts_level(m, tail, ((t->blocks << main) - whole) >> main, why))
        return 1;
    int r = rw_parts_beside(x, m, main, tail, whole, e);
    if (r < 0)
        return r;
    m->all.resident = tails_resident(t, whole);
    return rw_parts_text(x, m, word, why, e);
}

/* Do full waves hold as many blocks as they did? And the row of parts. */
static bool tails_made_well(const struct rw_edit *x, const struct rw_state *next, struct dt_str *why)
{
    const struct rw_parts *m = x->mine;
    for (uint32_t k = 0; k < next->graph->nlaunch; k++)
        if (next->from[k] == UINT32_MAX && next->prog->step[k].blocks_per_sm < m->all.resident) {
            dt_str_addf(why, DT_ROW("residency") ": an SM holds %u blocks of " DT_LAUNCH ", and had %u whole ones",
                        next->prog->step[k].blocks_per_sm, next->graph->launch[k].name, m->all.resident);
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
    .levels = tails_levels,
    .propose = tails_propose,
    .open = tails_open,
    .build = tails_build,
    .made_well = tails_made_well,
    .close = rw_parts_close,
};
