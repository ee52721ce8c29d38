/* What a kernel costs on the modelled GPU: the mean of its blocks, its heaviest and its light ones, and its traffic.
 *
 * A block, from those that were followed (exec/profile.c; followed_cost): `issue`, microseconds of an SM that nothing
 * else uses, is the largest of issued instructions over 4 a clock, those of each pipe over its lanes, passes over
 * shared memory and the L1, sectors from the L2 over 64 bytes a clock, tensor flops; `floor`, what it takes however
 * empty the SM is: block start and the clocks of its warps alone, between those with the nearer L2's latency and those
 * with DRAM's.
 *
 * Where no block was followed (block_cost): closed forms from counts of instructions and accesses; docs/TIMING.md.
 *
 * A block of fewer than 4 warps uses only so many of the 4 schedulers. One block carries max_block_share times the
 * mean, light ones (those that leave at once, or do nothing but prefetch) their own share and come last; the mean is
 * that of the others.
 *
 * Traffic: L2 carries the sectors that the L1 lacks, and, partly by another way, those that are written; DRAM carries
 * distinct sectors times a miss fraction of the timeline (sg_sim_miss), and what the launch reads again as far as it
 * was pushed out (reread). What a kernel prefetches is DRAM traffic of its own, and not of the later kernel that reads
 * it, as far as the L2 has held it meanwhile.
 *
 * A kernel whose blocks wait for each other (struct sg_talk) is made of parts, each with counters of its own. So is one
 * with lighter blocks behind the others; their parts have profiles of their own, too, and nobody waits.
 */
#include "softgpu/model/timing-priv.h"

#include <stdlib.h>

#include "base/alloc.h"

#define WARP 32.0
#define AT_ONCE 0.1  /* of a kernel's work, before it waits for prerequisites: less is nothing */
#define MAX_WAVES 64 /* more are simulated as this many of longer blocks */
/* blocks of a kernel that are followed one by one where they wait for each other; of more, a part waits for all before
 * it */
#define MAX_EACH 4096

static inline double over(double a, double b) { return b > 0 ? a / b : 0; }

static inline uint64_t up(uint64_t v, uint64_t unit) { return unit ? (v + unit - 1) / unit * unit : v; }

/* The part of the work's sectors that comes from DRAM. What an earlier launch of the timeline prefetched does not, as
 * far as the L2 has held it: L2 size over all sectors touched from that launch on, at most all of it. */
static double miss_of(const struct sg_sim *s, const struct sg_work *w)
{
    double want = (double)w->stats.fetched_read_bytes,
           all = (double)w->stats.unique_read_bytes + (double)w->stats.unique_write_bytes;
    double found = 0, between = want;
    if (want <= 0 || all <= 0)
        return s->miss;
    for (uint32_t i = (uint32_t)(w - s->w); i-- > 0 && found < want;) {
        const struct sg_work *x = &s->w[i];
        if (x->kind == SG_WORK_KERNEL) {
            between += (double)x->stats.unique_read_bytes + (double)x->stats.unique_write_bytes;
            found += (double)x->stats.prefetched_bytes;
        } else {
            between += (double)x->bytes;
        }
    }
    double held = between <= s->l2_bytes ? 1 : s->l2_bytes / between;
    return s->miss * (1 - held * (found < want ? found : want) / all);
}

static double mean_l2_ns(const struct sg_model *m) /* data lies in either half alike */
{
    return m->l2_halves > 1 ? (m->l2_near_ns + m->l2_far_ns) / 2 : m->l2_near_ns;
}

/* How many blocks like the mean of the ordinary ones do the work of all. */
static double cost_units(const struct sg_sim_kern *k, const struct sg_stats *st, uint32_t blocks)
{
    if (k->talk || !st->light_blocks || st->light_blocks >= blocks || st->light_instructions >= st->instructions)
        return blocks;
    return (double)(blocks - st->light_blocks) *
           ((double)st->instructions / (double)(st->instructions - st->light_instructions));
}

/* Bytes that the launch itself reads from DRAM again. What a block reads again was meanwhile pushed out by the blocks
 * that run beside it. What other blocks read again is still there where neighbours read the same (tiles of a product),
 * and where they do not, it is as good as any other footprint. */
static double reread(const struct sg_sim *s, const struct sg_work *w, const struct sg_stats *st, uint32_t blocks)
{
    const struct sg_profile *p = &st->profile;
    double size = s->l2_bytes, again = (double)p->again * 32, once = (double)p->l2_read * 32 - again,
           others = once - (double)st->unique_read_bytes, part = (double)p->shared_part * 1e-6;
    double beside = (double)sg_occupancy(s->m, w->threads, w->registers, w->shared_bytes).blocks_per_sm * s->m->sms;
    beside = beside < blocks ? beside : blocks;
    double held = once / blocks * beside;
    if (part > 0 && held > (double)st->unique_read_bytes)
        held = (double)st->unique_read_bytes;
    double bytes = again * sg_sim_miss(s->m, held / size);
    if (others > 0 && part < s->m->k.neighbours)
        bytes += others * sg_sim_miss(s->m, (double)st->unique_read_bytes / size) * (1 - part / s->m->k.neighbours);
    return bytes;
}

/* By how much longer DRAM takes for what is read, or written, because only a piece of a page is, before another page is
 * opened. A visit comes to what a block does of a page, and what others do that run beside it:
 * neighbours that share the page, and blocks from elsewhere, as far as they come to it at all while they run. */
static double visits(const struct sg_sim *s, const struct sg_work *w, const struct sg_stats *st, uint32_t blocks,
                     bool write)
{
    const struct sg_profile *p = &st->profile;
    double pages = (double)(write ? p->write_pages : p->pages);
    if (pages <= 0)
        return 1;
    double once = (write ? (double)p->written : (double)p->l2_read - (double)p->again) * 32, piece = once / pages,
           share = (double)(write ? p->shared_write_pages : p->shared_pages) * 1e-6,
           unique = (double)(write ? st->unique_write_bytes : st->unique_read_bytes);
    double beside = (double)sg_occupancy(s->m, w->threads, w->registers, w->shared_bytes).blocks_per_sm * s->m->sms;
    beside = (beside < blocks ? beside : blocks) / blocks;
    double meet = over(beside * pages * s->m->k.page_bytes, unique);
    double visit = piece * max2(1 / (share < 1 ? 1 - share : 0.001), meet);
    visit = visit > s->m->k.page_bytes ? s->m->k.page_bytes : visit;
    return 1 + s->d->pages * (s->m->k.opening / visit) * (s->m->k.opening / visit);
}

/* Sectors that keep the L2 busy: what is written comes by another way than what is read goes, so that the lesser of
 * both is partly free. Atomics go both ways. */
static double cost_sectors(const struct sg_model *m, const struct sg_profile *p)
{
    double read = (double)p->l2_read, write = (double)p->l2_write, both = read < write ? read : write;
    return read + write - (p->atomics ? 0 : both * (1 - m->k.l2_both));
}

/* The same from blocks that were followed (exec/profile.c): what the SM's pipes do, and the clocks of a block alone. */
static void followed_cost(const struct sg_sim *s, const struct sg_work *w, const struct sg_stats *st, uint32_t blocks,
                          struct sg_sim_kern *k)
{
    const struct sg_model *m = s->m;
    const struct sg_doubt *d = s->d;
    const struct sg_profile *p = &st->profile;
    const uint64_t *slot = p->slots;
    double n = cost_units(k, st, blocks), warps = (w->threads + 31) / 32, all = 0;
    for (unsigned i = 0; i < SG_PIPES; i++)
        all += (double)slot[i];
    double c = all / m->k.issue_warps;
    c = max2(c, over((double)slot[SG_PIPE_ALU] * WARP, m->int_lanes));
    c = max2(c, over((double)slot[SG_PIPE_IMAD] * WARP, m->int_lanes));
    c = max2(c, over((double)(slot[SG_PIPE_FMA] + slot[SG_PIPE_IMAD]) * WARP, m->fp32_lanes));
    c = max2(c, over((double)slot[SG_PIPE_FP64] * WARP, m->fp64_lanes));
    c = max2(c, over((double)slot[SG_PIPE_XU] * WARP, m->sfu_lanes));
    c *= d->issue;
    double of_warps = c; /* a scheduler has its own part of these */
    c = max2(c, over((double)slot[SG_PIPE_LSU] * WARP, m->lsu_lanes) * d->local);
    c = max2(c, over(p->tensor ? (double)p->tensor : (double)st->tensor_flops, m->tensor_flops) * d->tensor);
    /* a pass is over all banks */
    c = max2(c, ((double)p->shared_passes * 128 / m->k.shared_bytes_clock + (double)p->l1_quarters / 4) * d->local);
    double sectors = (double)p->l2_read + (double)p->l2_write;
    c = max2(c, sectors * 32 / m->k.l2_bytes_clock * d->l2);
    c = max2(c, over((double)st->cluster_bytes, m->dsm_bytes_clock) * d->cluster);
    double made = w->made ? d->made : 1;
    k->issue = c / n / s->clocks_us * made;
    double miss = miss_of(s, w);
    /* the clocks were counted with the nearer half's latency, and with DRAM's */
    double away = s->far * (m->l2_far_ns - m->l2_near_ns) / (m->dram_latency_ns - m->l2_near_ns);
    double deep = max2(miss, away * (1 - miss) + miss), near = (double)p->alone_near, done = (double)p->done_near;
    double floor = (near + deep * ((double)p->alone_far - near)) / n / s->clocks_us * d->alone;
    k->least = (done + deep * ((double)p->done_far - done)) / n / s->clocks_us * d->issue * made +
               m->block_start_ns / 1000 * d->start;
    k->steady = all > max2((double)slot[SG_PIPE_LSU], n * warps) * m->k.steady_from;
    floor += (double)p->fences / n / s->clocks_us * (d->fences - 1);
    if (warps < 4)
        floor = max2(floor, of_warps / n / s->clocks_us * 4 / warps);
    k->floor = floor * made + m->block_start_ns / 1000 * d->start;
    k->l2 =
        (cost_sectors(m, p) * 32 + (double)p->atomics * m->k.atomic_bytes + (double)st->prefetched_bytes) / n * d->l2;
    k->dispatch = m->block_rate_ns / 1000 * blocks / n * d->start;
    k->hot = (double)p->hot * m->k.l2_clock_ns / 1000 / n * d->hot;
    double write = (double)st->unique_write_bytes * miss * visits(s, w, st, blocks, true);
    k->dram_write = d->dram * write / n;
    k->dram = d->dram *
              ((double)st->unique_read_bytes * miss * visits(s, w, st, blocks, false) + write +
               reread(s, w, st, blocks) + (double)st->prefetched_bytes * s->miss) /
              n;
}

static struct sg_profile profile_part(const struct sg_stats *all, const struct sg_stats *part)
{
    struct sg_profile p = all->profile;
    uint64_t *at = (uint64_t *)&p;
    double share = over((double)part->instructions, (double)all->instructions);
    for (size_t i = 0; i < sizeof p / sizeof *at; i++)
        at[i] = (uint64_t)((double)at[i] * share + 0.5);
    p.shared_part = all->profile.shared_part;
    p.shared_pages = all->profile.shared_pages;
    p.shared_write_pages = all->profile.shared_write_pages;
    return p;
}

/* Microseconds an SM is busy with the mean of these blocks, and what a block takes at least. */
static void block_cost(const struct sg_sim *s, const struct sg_work *w, const struct sg_stats *st, uint32_t blocks,
                       struct sg_sim_kern *k)
{
    if (w->stats.profile.alone_near) {
        struct sg_stats mine = *st;
        /* a part of it: its share of what the whole launch's blocks showed, where it has not its own */
        if (st != &w->stats && !st->profile.alone_near)
            mine.profile = profile_part(&w->stats, st);
        followed_cost(s, w, &mine, blocks, k);
        if (k->talk &&
            !k->talk
                 ->apart) /* its number from a counter; a signal's way to the L2, and that of the poll that sees it */
            k->floor += (k->part ? 3 : 1) * mean_l2_ns(s->m) / 1000 * s->d->flags;
        return;
    }
    const struct sg_model *m = s->m;
    const struct sg_doubt *d = s->d;
    double n = cost_units(k, st, blocks), threads = n * w->threads, warps = (w->threads + 31) / 32;
    double pad = warps * 32 / w->threads; /* lanes of a partial warp are issued too */
    double c = (double)st->instructions * pad / m->k.issue_lanes;
    c = max2(c, over((double)st->fp32 * pad, m->fp32_lanes));
    c = max2(c, over((double)st->fp64 * pad, m->fp64_lanes));
    c = max2(c, over((double)st->integer * pad, m->int_lanes));
    c = max2(c, over((double)st->sfu * pad, m->sfu_lanes));
    c *= d->issue;
    c = max2(c, over((double)st->memory * pad, m->lsu_lanes) * d->local);
    c = max2(c, over((double)st->tensor_flops, m->tensor_flops) * d->tensor);
    c = max2(c, (double)st->shared_bytes / m->k.shared_bytes_clock * d->local);
    double global = (double)st->global_read_bytes + (double)st->global_write_bytes;
    c = max2(c, global / m->k.l2_bytes_clock * d->l2);
    c = max2(c, over((double)st->cluster_bytes, m->dsm_bytes_clock) * d->cluster);
    double made = w->made ? d->made : 1;
    k->issue = c / n / s->clocks_us * made;
    double miss = miss_of(s, w);

    double shared_ops = (double)st->shared_bytes / 4, cluster_ops = (double)st->cluster_accesses;
    if (shared_ops > (double)st->memory - cluster_ops)
        shared_ops = (double)st->memory - cluster_ops;
    double global_ops = (double)st->memory - cluster_ops - shared_ops;
    double l2_ns = mean_l2_ns(m), latency_us = (l2_ns + miss * (m->dram_latency_ns - l2_ns)) / 1000;
    /* What the busiest warp does for what the mean thread does: idle warps of a block make no other faster, divergence
     * is serial. */
    double busy = st->longest && st->instructions ? (double)st->longest / n / ((double)st->instructions / threads) : 1;
    double floor = (double)st->instructions / threads * m->k.alu_clocks / s->clocks_us;
    floor += shared_ops / threads * m->k.shared_clocks / m->k.in_flight / s->clocks_us;
    floor += global_ops / threads * latency_us / m->k.in_flight;
    floor += cluster_ops / threads * m->dsm_ns / 1000 / m->k.in_flight * d->cluster;
    floor *= max2(busy, 1);
    floor += (double)st->barriers / threads * m->k.barrier_clocks / s->clocks_us;
    floor += (double)st->cluster_syncs / threads * m->cluster_sync_ns / 1000 * d->cluster;
    if (global_ops > 0)
        floor = max2(floor, latency_us);
    floor *= d->alone;
    if (warps < 4)
        floor = max2(floor, k->issue * 4 / warps);
    k->floor = floor * made + m->block_start_ns / 1000 * d->start;
    if (k->talk && !k->talk->apart) /* its number from a counter; a signal's way to the L2, and that of the poll */
        k->floor += (k->part ? 3 : 1) * l2_ns / 1000 * d->flags;
    k->l2 = (global + (double)st->prefetched_bytes) / n * d->l2;
    k->dram = d->dram *
              (((double)st->unique_read_bytes + (double)st->unique_write_bytes) * miss +
               (double)st->prefetched_bytes * s->miss) /
              n;
}

/* Kernels are kept in program order: move the one at i forward. */
static void insert_in_order(struct sg_sim *s, size_t i)
{
    for (; i > 0 && s->kern.p[i - 1].work > s->kern.p[i].work; i--) {
        struct sg_sim_kern t = s->kern.p[i];
        s->kern.p[i] = s->kern.p[i - 1];
        s->kern.p[i - 1] = t;
        for (size_t g = 0; g < s->group.n; g++)
            if (s->group.p[g].live && s->group.p[g].kern == i - 1)
                s->group.p[g].kern = (uint32_t)i;
            else if (s->group.p[g].live && s->group.p[g].kern == i)
                s->group.p[g].kern = (uint32_t)i - 1;
    }
}

/* One kernel, or part of one, made of `blocks` blocks with these counters. */
static int start_part(struct sg_sim *s, struct sg_sim_kern k, const struct sg_stats *st, uint32_t blocks,
                      unsigned resident)
{
    struct sg_work *w = &s->w[k.work];
    block_cost(s, w, st, blocks, &k);
    k.length = k.heavy = 1;
    k.to_place = blocks;
    k.warps = (w->threads + 31) / 32;
    uint64_t per_warp = up((uint64_t)w->registers * 32, s->m->reg_unit); /* a warp's registers are in one quarter */
    k.regs = per_warp ? s->m->regs_sm / (s->m->regs_sm / 4 / per_warp * 4) * k.warps : 0;
    k.shared = up((uint64_t)w->shared_bytes + s->m->shared_reserved, s->m->shared_unit);
    uint64_t most = (uint64_t)resident * s->m->sms * MAX_WAVES / k.cluster * k.cluster;
    if (k.to_place > most && !k.each)
        k.to_place = most;
    double n = (double)k.to_place, all = cost_units(&k, st, blocks), mean = all / n;
    double share = (st->max_block_share > 1 ? st->max_block_share : 1) * (all / blocks);
    if (share > all)
        share = all;
    if (all < blocks) { /* there are light ones */
        double light = all * ((double)st->light_instructions / (double)st->instructions),
               many = n * ((double)st->light_blocks / blocks) + 0.5;
        k.nlight = (uint64_t)many < k.to_place ? (uint64_t)many : k.to_place - 1;
        k.light = k.nlight ? max2(light / (double)k.nlight, s->m->block_start_ns / 1000 / k.floor) : 0;
        all -= k.nlight ? light : 0;
        n -= (double)k.nlight;
        mean = all / n;
    }
    if (!k.each) {
        k.heavy = max2(mean, share);
        k.length = n > 1 ? (all - k.heavy) / (n - 1) : k.heavy;
    }
    k.live = k.to_place;
    /* the last of the blocks that run first begins when the others have been handed out */
    uint64_t first = (uint64_t)resident * s->m->sms;
    double ramp = k.dispatch * (double)(first < blocks ? first : blocks);
    k.open_us = s->now + (k.talk && (k.part || !k.talk->apart) ? 0 : ramp < k.floor ? ramp : k.floor);
    double longest = (double)st->longest;
    k.prologue = longest > 0 ? (double)st->before_wait / longest : 0;
    k.trigger = longest > 0 ? (double)st->before_trigger / longest : 1;
    if (s->d->early_us > 0 && k.prologue < AT_ONCE)
        for (uint32_t i = 0; i < w->nafter; i++)
            if (sg_sim_early(s, w, i)) { /* once, for the blocks that were there */
                double waves = (double)blocks / ((double)resident * s->m->sms);
                k.floor += s->d->early_us / max2(waves, 1);
                break;
            }
    if (!dt_push(&s->kern, k))
        return DT_E_NOMEM;
    insert_in_order(s, s->kern.n - 1);
    return 0;
}

int sg_sim_start(struct sg_sim *s, uint32_t i)
{
    struct sg_work *w = &s->w[i];
    struct sg_sim_kern k = {.work = i, .cluster = w->cluster ? w->cluster : 1};
    struct sg_occupancy o = sg_occupancy(s->m, w->threads, w->registers, w->shared_bytes);
    if (!o.blocks_per_sm || w->blocks % k.cluster || (k.cluster > 1 && !sg_clusters(s->m, o.blocks_per_sm, k.cluster)))
        return DT_E_LAUNCH;
    k.talk = w->stats.talk && w->stats.talk <= UINT32_MAX ? sg_talk_find((uint32_t)w->stats.talk) : NULL;
    if (!k.talk || k.talk->nblock != w->blocks)
        return k.talk = NULL, start_part(s, k, &w->stats, w->blocks, o.blocks_per_sm);
    k.each = w->blocks <= MAX_EACH && !k.talk->apart;
    if (k.each && !s->ended && !(s->ended = dt_calloc(s->n, sizeof *s->ended)))
        return DT_E_NOMEM;
    if (k.each && !(s->ended[i] = dt_calloc(w->blocks, 1)))
        return DT_E_NOMEM;
    int r = 0;
    for (uint32_t p = 0; p < k.talk->npart && !r; p++) {
        k.part = p;
        k.next = k.talk->part[p].first;
        r = start_part(s, k, &k.talk->part[p].stats, k.talk->part[p].blocks, o.blocks_per_sm);
    }
    return r;
}
