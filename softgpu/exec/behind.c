/* Lighter blocks behind the others: a launch whose last blocks do clearly less than those before them, for the timing
 * model. Kernels of several bodies are like that, where the block number says which one runs: a sliced tail, launches
 * side by side with the longest blocks first. Blocks are handed out in the order of their numbers, so the light ones
 * fill what the others leave; averaged they would not.
 *
 *     kind   of a block: the power of two in what it executed. There are two kinds where all blocks from some number on
 *            are in lower powers than all before it, and each kind is a sixteenth of all at least
 *     part   the blocks of one kind, with counters in proportion to what they executed, and the profile of those of its
 *            blocks that were followed
 *
 * Of a sample the two kinds are scaled each to the number of its blocks; the long ones reach up to the first short
 * block that ran, so that work is rather too much than too little (sg_behind_scale, for counters of the whole launch).
 *
 * The result is a record without waits (struct sg_talk, `apart`). No record: of a kind no block was followed (they are
 * in the middle of each third of the blocks), blocks wait for each other, or are in clusters. What is not in order
 * (longer blocks behind shorter ones, more than two kinds) counts as alike. Nor where there are blocks that do next to
 * nothing: launch/launch.c counts these, wherever they are.
 */
#include "softgpu/exec/profile-priv.h"

#include "softgpu/exec/profile.h"

#define LEAST 16 /* a kind is one of so many blocks at least */

struct kinds {
    uint64_t first;                      /* the first light block */
    uint64_t blocks[2], instructions[2]; /* heavy ones, light ones */
};

/* Of a sample, to what all blocks do: those that did not run are heavy up to the first light one that did. */
static void behind_all(const struct sg_run *run, struct kinds *q)
{
    const uint64_t all[2] = {q->first, run->nblocks - q->first};
    for (unsigned k = 0; k < 2; k++)
        q->instructions[k] = (uint64_t)((double)q->instructions[k] / (double)q->blocks[k] * (double)all[k] + 0.5);
}

static bool behind_kinds(const struct sg_run *run, struct kinds *ret)
{
    uint64_t blocks[64] = {0}, executed[64] = {0}, first[64], last[64] = {0}, all = 0, last_heavy = 0;
    int top = -1;
    for (int k = 0; k < 64; k++) {
        first[k] = UINT64_MAX;
        for (uint32_t i = 0; i < run->nworker; i++) {
            const struct sg_worker *wk = &run->first[i];
            if (!wk->bb || !wk->weight[0][k])
                continue;
            blocks[k] += wk->weight[0][k];
            executed[k] += wk->weight[1][k];
            first[k] = wk->span[0][k] < first[k] ? wk->span[0][k] : first[k];
            last[k] = wk->span[1][k] > last[k] ? wk->span[1][k] : last[k];
        }
        all += blocks[k];
        top = blocks[k] ? k : top;
    }
    *ret = (struct kinds){0};
    for (int k = top; k > 0; k--) { /* the kinds from k up are heavy */
        ret->blocks[0] += blocks[k];
        ret->instructions[0] += executed[k];
        last_heavy = last[k] > last_heavy ? last[k] : last_heavy;
        ret->first = UINT64_MAX;
        for (int j = 0; j < k; j++)
            ret->first = first[j] < ret->first ? first[j] : ret->first;
        ret->blocks[1] = all - ret->blocks[0];
        if (ret->blocks[1] && ret->first > last_heavy) {
            for (int j = 0; j < k; j++)
                ret->instructions[1] += executed[j];
            if (ret->blocks[0] * LEAST < all || ret->blocks[1] * LEAST < all)
                return false;
            behind_all(run, ret);
            return true;
        }
    }
    return false;
}

double sg_behind_scale(const struct sg_run *run, uint64_t light, uint64_t ret[2])
{
    double did = 0;
    struct kinds q;
    ret[0] = ret[1] = 0;
    if (run->cluster_size != 1 || !behind_kinds(run, &q))
        return 0;
    if (light && light == q.blocks[1]) {
        ret[0] = run->nblocks - q.first;
        ret[1] = q.instructions[1];
    }
    for (uint32_t i = 0; i < run->nworker; i++)
        did += run->first[i].bb ? (double)run->first[i].executed : 0;
    return did > 0 ? (double)(q.instructions[0] + q.instructions[1]) / did : 0;
}

/* The profile of one kind's blocks, of those that were followed. False: none was. */
static bool behind_profile(const struct sg_run *run, const struct kinds *q, unsigned kind, struct sg_profile *ret)
{
    uint64_t *to = (uint64_t *)ret, executed = 0;
    *ret = (struct sg_profile){0};
    for (uint32_t i = 0; i < run->nworker; i++)
        for (const struct sg_profiler *p = run->first[i].profile; p; p = p->next) {
            if (!p->ended || (p->block >= q->first) != kind)
                continue;
            if (p->spun)
                return false;
            for (size_t k = 0; k < sizeof *ret / sizeof *to; k++)
                to[k] += ((const uint64_t *)&p->sum)[k];
            executed += p->executed;
        }
    if (!executed)
        return false;
    double scale = (double)q->instructions[kind] / (double)executed;
    for (size_t k = 0; k < sizeof *ret / sizeof *to; k++)
        to[k] = (uint64_t)((double)to[k] * scale + 0.5);
    return ret->alone_near > 0;
}

static uint64_t of(uint64_t all, double share) { return (uint64_t)((double)all * share + 0.5); }

/* Counters of a kind: its share of the launch's, by what it executed; traffic by what its blocks moved. */
static struct sg_stats behind_stats(const struct sg_stats *s, struct sg_profile p, double share, double reads,
                                    double writes)
{
    struct sg_stats t = {.max_block_share = 1};
    t.instructions = of(s->instructions, share), t.fp32 = of(s->fp32, share), t.fp64 = of(s->fp64, share);
    t.integer = of(s->integer, share), t.sfu = of(s->sfu, share), t.memory = of(s->memory, share);
    t.barriers = of(s->barriers, share), t.tensor_flops = of(s->tensor_flops, share);
    t.shared_bytes = of(s->shared_bytes, share), t.longest = of(s->longest, share);
    t.before_wait = of(s->before_wait, share), t.before_trigger = of(s->before_trigger, share);
    t.prefetched_bytes = of(s->prefetched_bytes, share);
    t.global_read_bytes = of(s->global_read_bytes, reads), t.unique_read_bytes = of(s->unique_read_bytes, reads);
    t.global_write_bytes = of(s->global_write_bytes, writes), t.unique_write_bytes = of(s->unique_write_bytes, writes);
    t.profile = p;
    t.profile.shared_part = s->profile.shared_part;
    t.profile.shared_pages = s->profile.shared_pages;
    t.profile.hot = of(s->profile.hot, share);
    return t;
}

uint32_t sg_behind(const struct sg_run *run, const struct sg_stats *s)
{
    static const uint32_t none[1] = {0}; /* arrays of no length */
    static const double share_of_none[1] = {0};
    static const struct sg_talk_wait wait_of_none[1] = {{0}};
    struct sg_talk_part part[2] = {{0}};
    struct sg_profile p[2];
    struct kinds q;
    if (!s->profile.alone_near || s->light_blocks || run->cluster_size != 1 || !behind_kinds(run, &q) ||
        !behind_profile(run, &q, 0, &p[0]) || !behind_profile(run, &q, 1, &p[1]))
        return 0;
    double reads = (double)(p[0].l2_read + p[1].l2_read), writes = (double)(p[0].l2_write + p[1].l2_write);
    for (unsigned k = 0; k < 2; k++) {
        double share = s->instructions ? (double)q.instructions[k] / (double)s->instructions : 0;
        part[k].first = k ? (uint32_t)q.first : 0;
        part[k].blocks = (uint32_t)(k ? run->nblocks - q.first : q.first);
        part[k].stats = behind_stats(s, p[k], share, reads > 0 ? (double)p[k].l2_read / reads : share,
                                     writes > 0 ? (double)p[k].l2_write / writes : share);
    }
    double mean = (double)part[0].stats.instructions / part[0].blocks,
           heaviest = s->max_block_share * (double)s->instructions / (double)run->nblocks;
    part[0].stats.max_block_share = mean > 0 && heaviest > mean ? heaviest / mean : 1;
    return sg_talk_keep(&(struct sg_talk){.nblock = (uint32_t)run->nblocks,
                                          .npart = 2,
                                          .apart = true,
                                          .part = part,
                                          .share = share_of_none,
                                          .wait_at = none,
                                          .wait = wait_of_none,
                                          .signal_at = none,
                                          .signal = none});
}
