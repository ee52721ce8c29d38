/* The profile of a launch from those of its blocks that were followed (profile.c): their sum, scaled to all blocks;
 * where atomics of several blocks meet; what neighbours read alike.
 */
#include "softgpu/exec/profile-priv.h"

#define CHANCE 0.05 /* what is expected oftener is no surprise */

/* All that were followed, one after the other: NULL begins. */
static const struct sg_profiler *each(const struct sg_run *run, uint32_t *worker, const struct sg_profiler *p)
{
    p = p ? p->next : run->first[ *worker = 0].profile;
    while (!p && ++*worker < run->nworker)
        p = run->first[*worker].profile;
    return p;
}

/* Would `met` of so many blocks come to one line by chance, each to `own` of so many? Then it is no sign. */
static bool by_chance(uint64_t met, uint64_t blocks, double own, double lines)
{
    double expected = lines;
    for (uint64_t k = 0; k < met && lines > 0; k++)
        expected *= (double)(blocks - k) / (double)(k + 1) * own / lines;
    return met < blocks && expected > CHANCE;
}

/* Clocks of the line in which most atomics meet, of all blocks. Where several of those that were followed come, all do;
 * where, of more than two, only neighbours meet, others meet in other lines, of which the launch writes so many; and so
 * do others if those met by chance. Anyhow no line has less than its share of all. */
static double hottest(const struct sg_run *run, uint64_t blocks, double scale, double lines)
{
    double most = 0, sum = 0, known = 0, own = 0;
    bool near = false;
    uint32_t a, b;
    for (const struct sg_profiler *p = each(run, &a, NULL); p; p = each(run, &a, p))
        own += (double)p->nmeet / (double)blocks;
    for (const struct sg_profiler *p = each(run, &a, NULL); p; p = each(run, &a, p))
        for (uint32_t k = 0; p->meet && k < 2 * MEET; k++) {
            uint64_t count = 0, met = 0, first = UINT64_MAX, last = 0;
            for (const struct sg_profiler *q = p->meet[k].count ? each(run, &b, NULL) : NULL; q; q = each(run, &b, q)) {
                uint64_t n = q->meet ? sg_profile_meeting(q, p->meet[k].line)->count : 0;
                count += n;
                met += n > 0;
                first = n && q->block < first ? q->block : first;
                last = n && q->block > last ? q->block : last;
            }
            if (!met)
                continue;
            sum += (double)p->meet[k].count * scale;
            known += 1 / (double)met;
            bool more = blocks == 1 || (met > 1 && (last <= first + 1 || !by_chance(met, blocks, own, lines)));
            double all = more ? (double)count * scale : (double)count;
            if (all > most) {
                most = all;
                near = met > 1 && last <= first + 1 && blocks > 2;
            }
        }
    if (near && known < lines)
        most *= known / lines;
    return lines > 0 && sum / lines > most ? sum / lines : most;
}

/* Of what blocks read or write, the part that the block before them does, too, in millionths; by sectors, or by pages.
 */
static uint64_t shared_part(const struct sg_run *run, unsigned kind, uint64_t unit)
{
    uint64_t all = 0, both = 0;
    uint32_t a, b;
    for (const struct sg_profiler *x = each(run, &a, NULL); x; x = each(run, &a, x))
        for (const struct sg_profiler *y = each(run, &b, NULL); y; y = each(run, &b, y)) {
            if (y->block + 1 != x->block)
                continue;
            const struct sectors *mine = &x->seen[kind], *theirs = &y->seen[kind];
            for (uint32_t i = 0, k = 0; i < mine->n; i++) {
                uint64_t at = (mine->at[i] - 1) / unit;
                if (i && at == (mine->at[i - 1] - 1) / unit)
                    continue;
                while (k < theirs->n && (theirs->at[k] - 1) / unit < at)
                    k++;
                both += k < theirs->n && (theirs->at[k] - 1) / unit == at;
                all++;
            }
        }
    return all ? both * 1000000 / all : 0;
}

void sg_profile_sum(const struct sg_run *run, struct sg_stats *s)
{
    bool spun = false;
    uint64_t blocks = 0, executed = 0, *to = (uint64_t *)&s->profile;
    uint32_t a;
    s->profile = (struct sg_profile){0};
    for (const struct sg_profiler *p = each(run, &a, NULL); p; p = each(run, &a, p)) {
        if (!p->ended)
            continue; /* the launch was stopped */
        for (size_t k = 0; k < sizeof s->profile / sizeof *to; k++)
            to[k] += ((const uint64_t *)&p->sum)[k];
        blocks++;
        executed += p->executed;
        spun |= p->spun;
    }
    if (!blocks || !executed) {
        s->profile = (struct sg_profile){0};
        return;
    }
    if (spun) { /* blocks waited for each other: counts of instructions say nothing */
        s->max_block_share = 1;
        s->light_blocks = s->light_instructions = 0;
    }
    double scale = spun ? (double)run->nblocks / (double)blocks : (double)s->instructions / (double)executed;
    for (size_t k = 0; k < sizeof s->profile / sizeof *to; k++)
        to[k] = (uint64_t)((double)to[k] * scale + 0.5);
    s->profile.shared_part = shared_part(run, READ, LINE / 32);
    s->profile.shared_pages = shared_part(run, READ, PAGE_SECTORS);
    s->profile.shared_write_pages = shared_part(run, WRITTEN, PAGE_SECTORS);
    s->profile.hot = (uint64_t)hottest(run, blocks, scale, (double)((s->unique_write_bytes + LINE - 1) / LINE));
}
