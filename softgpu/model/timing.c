/* Modelled time: a discrete-event simulation of kernels, copies and events on a modelled GPU.
 *
 * Inputs are executed operation and byte counts (struct sg_stats), so a time is a function of the work and of the
 * model's row only: the same on every machine. Doubles, `+ - * /` and comparisons in a fixed order; no libm.
 *
 * Cost of a block, from its kernel's mean: `issue`, microseconds of an SM that nothing else uses, is the largest of
 * instructions over 128 a clock, each pipe's operations over its lanes, shared bytes over 128 a clock, global sectors
 * over 64 bytes a clock, tensor flops; `floor`, what it takes however empty the SM is: block start, plus for a thread
 * of the busiest warp 2 clocks an instruction (4 clocks latency, two independent chains), memory instructions at L2 or
 * DRAM latency with 4 in flight, shared ones at 24 clocks with 4 in flight, 24 clocks a barrier, and a block of fewer
 * than 4 warps uses only so many of the 4 schedulers. One block carries max_block_share times the mean, light ones
 * (those that leave at once, or do nothing but prefetch) their own share and come last; the mean is that of the others.
 *
 * Running: blocks are placed on the least loaded SM that has threads, registers, shared memory and a slot for them;
 * kernels that may run together are placed in program order, a later one only when the earlier ones have no block left
 * to place (as hardware does). A block progresses at the rate that its floor, its SM's issue time, the L2 and the DRAM
 * allow; each of these is shared max-min fair among the blocks in flight. Time goes from event to event (a start, an
 * end of a group of equal blocks).
 *
 * Programmatic dependencies: the dependent kernel may start when every block of the other one has started and triggered
 * (or ended). Its blocks stop where they wait for prerequisites, keeping their place, until the other kernel has ended.
 * Both points are parts of the busiest warp's work.
 *
 * Blocks that wait for each other (struct sg_talk): the kernel is placed part by part, every block with the length of
 * its own work. One that waits does so before it does anything, holding its place and no issue slots, until the blocks
 * that it waits for have ended; then it goes on.
 *
 * Traffic: L2 carries the sectors that warps touch; DRAM carries distinct sectors times a miss fraction of the
 * timeline, 0 where all works together fit the L2 (a replayed graph is warm), else 1 - L2 size / footprint. What a
 * kernel prefetches is DRAM traffic of its own, and not of the later kernel that reads it, as far as the L2 has held it
 * meanwhile.
 *
 * Launches: one that is not in a graph is issued by the host, launch_us each, in order; every kernel, copy and memset
 * starts graph_launch_us after the last thing it waits for. HOST works are the host waiting: later issues come after
 * them. A copy takes memcpy_gbps, a SET what DRAM sustains.
 *
 * Clusters: the blocks of a cluster start together, on the emptiest SMs of the emptiest GPC that has room for all of
 * them. Accesses by .shared::cluster take their SM's share of the network between SMs, and its latency with 4 in
 * flight; a barrier of the cluster takes cluster_sync_ns.
 *
 * docs/TIMING.md has the closed forms, what is tested of them, and at length what is left out. Not modelled: caches per
 * SM, bank conflicts beyond shared_bytes, partition camping, contention of pipes between different kernels on an SM
 * (their issue times add), copy engines in parallel, clock changes, power; that the blocks of a cluster wait for each
 * other.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "softgpu/sg.h"

#define ALU_CLOCKS 2.0
#define SHARED_CLOCKS 24.0
#define BARRIER_CLOCKS 24.0
#define IN_FLIGHT 4.0
#define SHARED_BYTES_CLOCK 128.0
#define GLOBAL_BYTES_CLOCK 64.0
#define ISSUE_CLOCK 128.0
#define MAX_WAVES 64 /* more are simulated as this many of longer blocks */
/* blocks of a kernel that are followed one by one where they wait for each other; of more, a part waits for all before
 * it */
#define MAX_EACH 4096
#define NONE UINT32_MAX

struct kern { /* a kernel that runs, or a part of one */
    uint32_t work;
    const struct sg_talk *talk; /* whose blocks wait for each other; NULL: they do not */
    uint32_t part, next;        /* of `talk`; the block that is placed next */
    bool each;                  /* they are followed one by one */
    uint64_t to_place, live;
    double issue, floor, l2, dram; /* per block: us, us, bytes, bytes */
    /* work of an ordinary block, of the heaviest, of one that leaves at once, 1 = the mean */
    double length, heavy, light;
    uint64_t nlight; /* how many of the last ones to place */
    /* parts of a block's work before it waits for prerequisites, before it lets dependents start */
    double prologue, trigger;
    bool heavy_placed;
    uint64_t warps, regs, shared; /* what a block occupies */
    uint32_t cluster;             /* blocks that start together in one GPC */
};

struct group { /* blocks of one kernel that started together on one SM */
    uint32_t sm, kern, count, next;
    double left, rate, length;
    bool live;
    /* followed by itself: its number; of its waits, how many are over, and signals of the next one */
    uint32_t block, wait, met;
};

struct sm {
    uint64_t warps, regs, shared;
    uint32_t blocks, first;
};

struct sim {
    const struct sg_model *m;
    struct sg_work *w;
    uint32_t n;
    double now, clocks_us, miss;
    struct sm *sm;
    struct dt_vec(struct kern) kern;   /* running, in program order; finished ones stay until compacted */
    struct dt_vec(struct group) group; /* free ones are chained through next from free_group */
    uint32_t free_group, ngroup;
    uint32_t *waits, *out, *out_at; /* open dependencies; dependents in rows */
    uint8_t *state;
    struct dt_vec(uint32_t) ready; /* may start at w.start_us; or run until w.end_us (copies) */
    double *issue_at;              /* when the host has issued it */
    double *trigger_us;            /* when all its blocks had triggered; negative: not yet */
    uint8_t **ended;               /* by work, of those whose blocks are followed: by block */
    uint32_t done;
};
enum { WAITING, READY, RUNNING, DONE };

static double max2(double a, double b) { return a > b ? a : b; }

static double over(double a, double b) { return b > 0 ? a / b : 0; }

static uint64_t up(uint64_t v, uint64_t unit) { return unit ? (v + unit - 1) / unit * unit : v; }

/* The part of the work's sectors that comes from DRAM. What an earlier launch of the timeline prefetched does not, as
 * far as the L2 has held it: L2 size over all sectors touched from that launch on, at most all of it. */
static double miss_of(const struct sim *s, const struct sg_work *w)
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
    double held = between <= (double)s->m->l2_bytes ? 1 : (double)s->m->l2_bytes / between;
    return s->miss * (1 - held * (found < want ? found : want) / all);
}

static double mean_l2_ns(const struct sg_model *m) /* data lies in either half alike */
{
    return m->l2_halves > 1 ? (m->l2_near_ns + m->l2_far_ns) / 2 : m->l2_near_ns;
}

/* How many blocks like the mean of the ordinary ones do the work of all. */
static double units(const struct kern *k, const struct sg_stats *st, uint32_t blocks)
{
    if (k->talk || !st->light_blocks || st->light_blocks >= blocks || st->light_instructions >= st->instructions)
        return blocks;
    return (double)(blocks - st->light_blocks) *
           ((double)st->instructions / (double)(st->instructions - st->light_instructions));
}

/* Microseconds an SM is busy with the mean of these blocks, and what a block takes at least. */
static void block_cost(const struct sim *s, const struct sg_work *w, const struct sg_stats *st, uint32_t blocks,
                       struct kern *k)
{
    const struct sg_model *m = s->m;
    double n = units(k, st, blocks), threads = n * w->threads, warps = (w->threads + 31) / 32;
    double pad = warps * 32 / w->threads; /* lanes of a partial warp are issued too */
    double c = (double)st->instructions * pad / ISSUE_CLOCK;
    c = max2(c, over((double)st->fp32 * pad, m->fp32_lanes));
    c = max2(c, over((double)st->fp64 * pad, m->fp64_lanes));
    c = max2(c, over((double)st->integer * pad, m->int_lanes));
    c = max2(c, over((double)st->sfu * pad, m->sfu_lanes));
    c = max2(c, over((double)st->memory * pad, m->lsu_lanes));
    c = max2(c, over((double)st->tensor_flops, m->tensor_flops));
    c = max2(c, (double)st->shared_bytes / SHARED_BYTES_CLOCK);
    double global = (double)st->global_read_bytes + (double)st->global_write_bytes;
    c = max2(c, global / GLOBAL_BYTES_CLOCK);
    c = max2(c, over((double)st->cluster_bytes, m->dsm_bytes_clock));
    k->issue = c / n / s->clocks_us;
    double miss = miss_of(s, w);

    double shared_ops = (double)st->shared_bytes / 4, cluster_ops = (double)st->cluster_accesses;
    if (shared_ops > (double)st->memory - cluster_ops)
        shared_ops = (double)st->memory - cluster_ops;
    double global_ops = (double)st->memory - cluster_ops - shared_ops;
    double l2_ns = mean_l2_ns(m), latency_us = (l2_ns + miss * (m->dram_latency_ns - l2_ns)) / 1000;
    /* What the busiest warp does for what the mean thread does: idle warps of a block make no other faster, divergence
     * is serial. */
    double busy = st->longest && st->instructions ? (double)st->longest / n / ((double)st->instructions / threads) : 1;
    double floor = (double)st->instructions / threads * ALU_CLOCKS / s->clocks_us;
    floor += shared_ops / threads * SHARED_CLOCKS / IN_FLIGHT / s->clocks_us;
    floor += global_ops / threads * latency_us / IN_FLIGHT;
    floor += cluster_ops / threads * m->dsm_ns / 1000 / IN_FLIGHT;
    floor *= max2(busy, 1);
    floor += (double)st->barriers / threads * BARRIER_CLOCKS / s->clocks_us;
    floor += (double)st->cluster_syncs / threads * m->cluster_sync_ns / 1000;
    if (global_ops > 0)
        floor = max2(floor, latency_us);
    if (warps < 4)
        floor = max2(floor, k->issue * 4 / warps);
    k->floor = floor + m->block_start_ns / 1000;
    if (k->talk) /* its number from a counter; a signal's way to the L2, and that of the poll that sees it */
        k->floor += (k->part ? 3 : 1) * l2_ns / 1000;
    k->l2 = (global + (double)st->prefetched_bytes) / n;
    k->dram = (((double)st->unique_read_bytes + (double)st->unique_write_bytes) * miss +
               (double)st->prefetched_bytes * s->miss) /
              n;
}

static void insert_in_order(struct sim *s, size_t i);

/* One kernel, or part of one, made of `blocks` blocks with these counters. */
static int start_part(struct sim *s, struct kern k, const struct sg_stats *st, uint32_t blocks, unsigned resident)
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
    double n = (double)k.to_place, all = units(&k, st, blocks), mean = all / n;
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
    double longest = (double)st->longest;
    k.prologue = longest > 0 ? (double)st->before_wait / longest : 0;
    k.trigger = longest > 0 ? (double)st->before_trigger / longest : 1;
    if (!dt_push(&s->kern, k))
        return DT_E_NOMEM;
    insert_in_order(s, s->kern.n - 1);
    return 0;
}

static int start_kernel(struct sim *s, uint32_t i)
{
    struct sg_work *w = &s->w[i];
    struct kern k = {.work = i, .cluster = w->cluster ? w->cluster : 1};
    struct sg_occupancy o = sg_occupancy(s->m, w->threads, w->registers, w->shared_bytes);
    if (!o.blocks_per_sm || w->blocks % k.cluster || (k.cluster > 1 && !sg_clusters(s->m, o.blocks_per_sm, k.cluster)))
        return DT_E_LAUNCH;
    k.talk = w->stats.talk && w->stats.talk <= UINT32_MAX ? sg_talk_find((uint32_t)w->stats.talk) : NULL;
    if (!k.talk || k.talk->nblock != w->blocks)
        return k.talk = NULL, start_part(s, k, &w->stats, w->blocks, o.blocks_per_sm);
    k.each = w->blocks <= MAX_EACH;
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

static bool fits(const struct sim *s, const struct sm *p, const struct kern *k)
{
    const struct sg_model *m = s->m;
    return p->blocks < m->max_blocks_sm && (p->warps + k->warps) * 32 <= m->max_threads_sm &&
           p->regs + k->regs <= m->regs_sm && p->shared + k->shared <= m->shared_sm;
}

static int add_group(struct sim *s, uint32_t sm, uint32_t kern, uint32_t count, double length)
{
    uint32_t g = s->free_group;
    if (g != NONE) {
        s->free_group = s->group.p[g].next;
    } else {
        g = (uint32_t)s->group.n;
        if (!dt_push(&s->group, (struct group){0}))
            return DT_E_NOMEM;
    }
    struct kern *k = &s->kern.p[kern];
    s->group.p[g] =
        (struct group){sm, kern, count, s->sm[sm].first, length, 0, length, true, k->each ? k->next++ : 0, 0, 0};
    s->sm[sm].first = g;
    s->ngroup++;
    return 0;
}

/* One more block of the kernel on SM i: a group of its own where it is the heaviest, else given[i] counts it, light
 * ones given[sms + i]. */
static int put_block(struct sim *s, uint32_t ki, uint32_t i, uint32_t *given)
{
    struct kern *k = &s->kern.p[ki];
    struct sm *p = &s->sm[i];
    p->blocks++, p->warps += k->warps, p->regs += k->regs, p->shared += k->shared;
    bool light = k->to_place-- <= k->nlight;
    if (k->each)
        return add_group(s, i, ki, 1, k->talk->share[k->next]);
    if (light || k->heavy_placed || k->heavy <= k->length) {
        given[light ? s->m->sms + i : i]++;
        return 0;
    }
    k->heavy_placed = true;
    return add_group(s, i, ki, 1, k->heavy);
}

/* How many more blocks of the kernel fit the SM. */
static uint32_t room(const struct sim *s, const struct sm *p, const struct kern *k)
{
    struct sm q = *p;
    uint32_t n = 0;
    for (; fits(s, &q, k); n++)
        q.blocks++, q.warps += k->warps, q.regs += k->regs, q.shared += k->shared;
    return n;
}

/* Whole clusters, each to the emptiest of the GPCs that have room for it, there to the emptiest SMs. */
static int place_clusters(struct sim *s, uint32_t ki, uint32_t *given)
{
    struct kern *k = &s->kern.p[ki];
    int r = 0;
    while (k->to_place && !r) {
        unsigned best = NONE, first = 0, n = 0;
        double load = 0;
        for (unsigned g = 0; g < SG_GPCS; g++) {
            unsigned f, m = sg_gpc(s->m, g, &f);
            uint64_t free = 0, blocks = 0;
            for (unsigned i = f; i < f + m; i++)
                free += room(s, &s->sm[i], k), blocks += s->sm[i].blocks;
            if (free >= k->cluster && (best == NONE || (double)blocks / m < load))
                best = g, first = f, n = m, load = (double)blocks / m;
        }
        if (best == NONE)
            break;
        for (uint32_t b = 0; b < k->cluster && !r; b++) {
            uint32_t at = NONE;
            for (uint32_t i = first; i < first + n; i++)
                if (fits(s, &s->sm[i], k) && (at == NONE || s->sm[i].blocks < s->sm[at].blocks))
                    at = i;
            r = put_block(s, ki, at, given);
        }
    }
    return r;
}

/* Give every SM what fits, the emptiest first, kernels in program order. */
static int place(struct sim *s)
{
    for (uint32_t ki = 0; ki < s->kern.n; ki++) {
        struct kern *k = &s->kern.p[ki];
        if (!k->to_place)
            continue;
        uint32_t sms = s->m->sms, *given = dt_calloc(2 * (size_t)sms, sizeof *given);
        if (!given)
            return DT_E_NOMEM;
        int r = 0;
        if (k->cluster > 1)
            r = place_clusters(s, ki, given);
        for (uint32_t level = 0; k->cluster == 1 && level < s->m->max_blocks_sm && k->to_place && !r; level++)
            for (uint32_t i = 0; i < sms && k->to_place && !r; i++)
                if (s->sm[i].blocks == level && fits(s, &s->sm[i], k))
                    r = put_block(s, ki, i, given);
        for (uint32_t i = 0; i < 2 * sms && !r; i++)
            if (given[i])
                r = add_group(s, i % sms, ki, given[i], i < sms ? k->length : k->light);
        free(given);
        if (r < 0)
            return r;
        if (k->to_place)
            break;
    }
    return 0;
}

/* Max-min fair share: the largest lambda with sum count * min(demand, lambda) <= capacity, over the groups of SM `sm`
 * or of all (NONE); negative if all demands fit. demand(g) is per block. */
static double level_of(const struct sim *s, double capacity, double (*demand)(const struct sim *, const struct group *),
                       uint32_t sm)
{
    double lambda = -1, last;
    do {
        double rest = capacity, blocks = 0, total = 0;
        last = lambda;
        uint32_t g = sm != NONE ? s->sm[sm].first : 0;
        while (sm != NONE ? g != NONE : g < s->group.n) {
            const struct group *p = &s->group.p[g];
            g = sm != NONE ? p->next : g + 1;
            if (!p->live)
                continue;
            double d = demand(s, p);
            if (d <= 0)
                continue;
            total += d * p->count;
            if (last >= 0 && d <= last)
                rest -= d * p->count;
            else
                blocks += p->count;
        }
        if (total <= capacity)
            return -1;
        if (blocks == 0)
            return last;
        lambda = rest / blocks;
    } while (lambda != last);
    return lambda;
}

static double demand_issue(const struct sim *s, const struct group *g)
{
    const struct kern *k = &s->kern.p[g->kern];
    return k->issue * g->rate;
}

static double demand_l2(const struct sim *s, const struct group *g) { return s->kern.p[g->kern].l2 * g->rate; }

static double demand_dram(const struct sim *s, const struct group *g) { return s->kern.p[g->kern].dram * g->rate; }

static void limit(struct sim *s, double capacity, double (*demand)(const struct sim *, const struct group *),
                  uint32_t sm)
{
    double lambda = level_of(s, capacity, demand, sm);
    if (lambda < 0)
        return;
    uint32_t g = sm != NONE ? s->sm[sm].first : 0;
    while (sm != NONE ? g != NONE : g < s->group.n) {
        struct group *p = &s->group.p[g];
        g = sm != NONE ? p->next : g + 1;
        double d = p->live ? demand(s, p) : 0;
        if (d > lambda)
            p->rate *= lambda / d;
    }
}

static int make_ready(struct sim *s, uint32_t i);

static bool is_early(const struct sim *s, uint32_t from, uint32_t to)
{
    const struct sg_work *w = &s->w[to];
    for (uint32_t i = 0; w->early && i < w->nafter; i++)
        if (w->after[i] == from)
            return w->early[i];
    return false;
}

/* ---- programmatic dependencies: a kernel may start when the one it depends on triggers, and waits inside until that
 * has ended */
static bool held(const struct sim *s, const struct kern *k)
{
    const struct sg_work *w = &s->w[k->work];
    for (uint32_t i = 0; w->early && i < w->nafter; i++)
        if (w->early[i] && s->state[w->after[i]] != DONE)
            return true;
    return false;
}

/* What `g` may still do before something happens: its end, where it waits, or where it triggers. */
static double until_event(const struct sim *s, const struct group *g)
{
    const struct kern *k = &s->kern.p[g->kern];
    double left = g->left, wait = g->left - g->length * (1 - k->prologue),
           trigger = g->left - g->length * (1 - k->trigger);
    if (held(s, k))
        left = max2(wait, 0);
    return s->trigger_us[k->work] < 0 && trigger > 1e-9 && trigger < left ? trigger : left;
}

/* Kernels whose blocks have all started and triggered let their early dependents go. */
static int fire(struct sim *s)
{
    for (size_t i = 0; i < s->kern.n; i++) {
        const struct kern *k = &s->kern.p[i];
        uint32_t work = k->work;
        /* one that talks triggers by ending */
        bool all = s->state[work] == RUNNING && s->trigger_us[work] < 0 && !k->to_place && !k->talk;
        for (size_t g = 0; g < s->group.n && all; g++)
            all = !s->group.p[g].live || s->group.p[g].kern != i ||
                  s->group.p[g].left - s->group.p[g].length * (1 - k->trigger) <= 1e-9;
        if (!all)
            continue;
        s->trigger_us[work] = s->now;
        for (uint32_t e = s->out_at[work]; e < s->out_at[work + 1]; e++)
            if (is_early(s, work, s->out[e]) && --s->waits[s->out[e]] == 0) {
                int r = make_ready(s, s->out[e]);
                if (r < 0)
                    return r;
            }
    }
    return 0;
}

/* Does the group wait for blocks of its own kernel? What is over stays over, so it looks only at what was not. */
static bool waits(const struct sim *s, struct group *g)
{
    const struct kern *k = &s->kern.p[g->kern];
    const struct sg_talk *t = k->talk;
    if (!t)
        return false;
    if (!k->each) { /* for all parts before it */
        for (size_t i = 0; i < s->kern.n; i++)
            if (s->kern.p[i].work == k->work && s->kern.p[i].part < k->part && s->kern.p[i].live)
                return true;
        return false;
    }
    for (uint32_t n = t->wait_at[g->block + 1] - t->wait_at[g->block]; g->wait < n; g->wait++, g->met = 0) {
        const struct sg_talk_wait *w = &t->wait[t->wait_at[g->block] + g->wait];
        for (; g->met < w->count; g->met++)
            if (!s->ended[k->work][t->signal[t->signal_at[w->flag] + g->met]])
                return true;
    }
    return false;
}

static void rates(struct sim *s)
{
    for (size_t i = 0; i < s->group.n; i++) {
        struct group *g = &s->group.p[i];
        const struct kern *k = g->live ? &s->kern.p[g->kern] : NULL;
        if (k)
            g->rate = waits(s, g) || (held(s, k) && g->left - g->length * (1 - k->prologue) <= 1e-9) ? 0 : 1 / k->floor;
    }
    for (uint32_t i = 0; i < s->m->sms; i++)
        if (s->sm[i].first != NONE)
            limit(s, 1, demand_issue, i);
    limit(s, s->m->l2_gbps * 1000, demand_l2, NONE);
    limit(s, s->m->dram_gbps * s->m->dram_sustained * 1000, demand_dram, NONE);
}

/* Everything it waits for has ended: when may it start? */
static int make_ready(struct sim *s, uint32_t i)
{
    struct sg_work *w = &s->w[i];
    double t = 0;
    for (uint32_t k = 0; k < w->nafter; k++)
        t = max2(t, w->early && w->early[k] && s->trigger_us[w->after[k]] >= 0 ? s->trigger_us[w->after[k]]
                                                                               : s->w[w->after[k]].end_us);
    if (w->kind == SG_WORK_KERNEL || w->kind == SG_WORK_COPY || w->kind == SG_WORK_SET)
        t += s->m->graph_launch_us;
    w->start_us = t; /* and not before the host has issued it */
    s->state[i] = READY;
    return dt_push(&s->ready, i) ? 0 : DT_E_NOMEM;
}

/* The host goes on: issue times of everything up to the next HOST work. */
static void issue_from(struct sim *s, uint32_t i, double t)
{
    for (; i < s->n; i++) {
        struct sg_work *w = &s->w[i];
        if (w->kind == SG_WORK_HOST) {
            s->issue_at[i] = t;
            return;
        }
        if (!w->in_graph)
            t += w->kind == SG_WORK_EVENT ? s->m->event_us : s->m->launch_us;
        s->issue_at[i] = t;
    }
}

static int finish(struct sim *s, uint32_t i)
{
    s->w[i].end_us = s->now;
    s->state[i] = DONE;
    s->done++;
    if (s->w[i].kind == SG_WORK_HOST)
        issue_from(s, i + 1, s->now);
    int r = 0;
    for (uint32_t k = s->out_at[i]; k < s->out_at[i + 1] && !r; k++)
        if (!(s->trigger_us[i] >= 0 && is_early(s, i, s->out[k])) && --s->waits[s->out[k]] == 0)
            r = make_ready(s, s->out[k]);
    return r;
}

static int begin(struct sim *s, uint32_t i)
{
    struct sg_work *w = &s->w[i];
    w->start_us = s->now;
    s->state[i] = RUNNING;
    switch (w->kind) {
    case SG_WORK_KERNEL:
        if (!w->blocks || !w->threads)
            return finish(s, i);
        return start_kernel(s, i);
    case SG_WORK_COPY: w->end_us = s->now + (double)w->bytes / (s->m->memcpy_gbps * 1000); break;
    case SG_WORK_SET: w->end_us = s->now + (double)w->bytes / (s->m->dram_gbps * s->m->dram_sustained * 1000); break;
    default: return finish(s, i);
    }
    return dt_push(&s->ready, i) ? 0 : DT_E_NOMEM;
}

/* Drop the blocks that are through; a kernel whose last block is through ends. */
static int collect(struct sim *s)
{
    for (uint32_t i = 0; i < s->m->sms; i++)
        for (uint32_t *at = &s->sm[i].first; *at != NONE;) {
            struct group *g = &s->group.p[*at];
            if (g->left > 1e-9) {
                at = &g->next;
                continue;
            }
            struct kern *k = &s->kern.p[g->kern];
            uint32_t id = *at;
            if (k->each)
                s->ended[k->work][g->block] = 1;
            s->sm[i].blocks -= g->count;
            s->sm[i].warps -= k->warps * g->count;
            s->sm[i].regs -= k->regs * g->count;
            s->sm[i].shared -= k->shared * g->count;
            k->live -= g->count;
            *at = g->next;
            g->live = false;
            g->next = s->free_group;
            s->free_group = id;
            s->ngroup--;
        }
    for (size_t i = 0; i < s->kern.n; i++) {
        const struct kern *k = &s->kern.p[i];
        bool over = s->state[k->work] == RUNNING && !k->live && !held(s, k); /* not before its prerequisites */
        for (size_t o = 0; k->talk && o < s->kern.n && over; o++)
            over = s->kern.p[o].work != k->work || !s->kern.p[o].live;
        int r = over ? finish(s, k->work) : 0;
        if (r < 0)
            return r;
    }
    if (!s->ngroup) { /* no group refers to a kernel: forget the finished ones */
        size_t n = 0;
        for (size_t i = 0; i < s->kern.n; i++)
            if (s->kern.p[i].live || s->state[s->kern.p[i].work] == RUNNING)
                s->kern.p[n++] = s->kern.p[i];
        s->kern.n = n;
    }
    return 0;
}

static void insert_in_order(struct sim *s, size_t i)
{
    for (; i > 0 && s->kern.p[i - 1].work > s->kern.p[i].work; i--) {
        struct kern t = s->kern.p[i];
        s->kern.p[i] = s->kern.p[i - 1];
        s->kern.p[i - 1] = t;
        for (size_t g = 0; g < s->group.n; g++)
            if (s->group.p[g].live && s->group.p[g].kern == i - 1)
                s->group.p[g].kern = (uint32_t)i;
            else if (s->group.p[g].live && s->group.p[g].kern == i)
                s->group.p[g].kern = (uint32_t)i - 1;
    }
}

static int step(struct sim *s)
{
    double next = -1;
    for (size_t i = 0; i < s->ready.n; i++) {
        const struct sg_work *w = &s->w[s->ready.p[i]];
        double t = s->state[s->ready.p[i]] == READY ? max2(w->start_us, s->issue_at[s->ready.p[i]]) : w->end_us;
        if (next < 0 || t < next)
            next = t;
    }
    for (size_t i = 0; i < s->group.n; i++) {
        const struct group *g = &s->group.p[i];
        if (g->live && g->rate > 0) {
            double t = s->now + until_event(s, g) / g->rate;
            next = next < 0 || t < next ? t : next;
        }
    }
    if (next < 0)
        return DT_E_INTERNAL; /* a cycle: `after` names a later work */
    double dt = next > s->now ? next - s->now : 0;
    for (size_t i = 0; i < s->group.n; i++) {
        struct group *g = &s->group.p[i];
        if (!g->live)
            continue;
        double until = dt > 0 || !(g->rate > 0) ? 0 : until_event(s, g);
        if (until > 0 && s->now + until / g->rate <= s->now)
            /* less than a double has room for behind so late a time: it is due, or time would stand still */
            g->left -= until;
        else
            g->left -= g->rate * dt;
    }
    s->now = max2(s->now, next);
    int r = collect(s);
    if (!r)
        r = fire(s);
    for (size_t i = 0; i < s->ready.n && !r;) {
        uint32_t id = s->ready.p[i];
        double t = s->state[id] == READY ? max2(s->w[id].start_us, s->issue_at[id]) : s->w[id].end_us;
        if (t > s->now) {
            i++;
            continue;
        }
        memmove(&s->ready.p[i], &s->ready.p[i + 1], (s->ready.n - i - 1) * sizeof *s->ready.p);
        s->ready.n--;
        r = s->state[id] == READY ? begin(s, id) : finish(s, id);
    }
    if (!r)
        r = place(s);
    if (!r)
        r = fire(s); /* those that trigger at once */
    if (!r)
        rates(s);
    return r;
}

static int dependents(struct sim *s)
{
    size_t edges = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t k = 0; k < s->w[i].nafter; k++)
            if (s->w[i].after[k] >= i)
                return DT_E_USAGE;
        edges += s->w[i].nafter;
        s->waits[i] = s->w[i].nafter;
    }
    s->out = dt_calloc(edges + 1, sizeof *s->out);
    if (!s->out)
        return DT_E_NOMEM;
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; k < s->w[i].nafter; k++)
            s->out_at[s->w[i].after[k] + 1]++;
    for (uint32_t i = 0; i < s->n; i++)
        s->out_at[i + 1] += s->out_at[i];
    uint32_t *fill = dt_memdup(s->out_at, (s->n + 1) * sizeof *fill);
    if (!fill)
        return DT_E_NOMEM;
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; k < s->w[i].nafter; k++)
            s->out[fill[s->w[i].after[k]]++] = i;
    free(fill);
    return 0;
}

static double footprint(const struct sg_work *w, uint32_t n)
{
    double f = 0;
    for (uint32_t i = 0; i < n; i++)
        f += w[i].kind == SG_WORK_KERNEL ? (double)w[i].stats.unique_read_bytes + (double)w[i].stats.unique_write_bytes
             : w[i].kind == SG_WORK_SET  ? (double)w[i].bytes
                                         : 0;
    return f;
}

int sg_timeline(const struct sg_model *m, struct sg_work *w, uint32_t n)
{
    if (!n)
        return 0;
    struct sim s = {.m = m, .w = w, .n = n, .clocks_us = m->clock_khz / 1000.0, .free_group = NONE};
    double f = footprint(w, n);
    s.miss = f <= (double)m->l2_bytes ? 0 : 1 - (double)m->l2_bytes / f;
    s.sm = dt_calloc(m->sms, sizeof *s.sm);
    s.waits = dt_calloc(n, sizeof *s.waits);
    s.out_at = dt_calloc((size_t)n + 1, sizeof *s.out_at);
    s.state = dt_calloc(n, 1);
    s.issue_at = dt_calloc(n, sizeof *s.issue_at);
    s.trigger_us = dt_calloc(n, sizeof *s.trigger_us);
    int r = s.sm && s.waits && s.out_at && s.state && s.issue_at && s.trigger_us ? dependents(&s) : DT_E_NOMEM;
    if (!r) {
        for (uint32_t i = 0; i < m->sms; i++)
            s.sm[i].first = NONE;
        for (uint32_t i = 0; i < n; i++)
            s.trigger_us[i] = -1;
        for (uint32_t i = 0; i < n; i++)
            s.issue_at[i] = 1e300; /* not issued before the HOST work in front of it is through */
        issue_from(&s, 0, 0);
        for (uint32_t i = 0; i < n && !r; i++)
            if (!s.waits[i])
                r = make_ready(&s, i);
    }
    while (!r && s.done < n)
        r = step(&s);
    for (uint32_t i = 0; s.ended && i < n; i++)
        free(s.ended[i]);
    free(s.ended);
    free(s.sm);
    free(s.waits);
    free(s.out);
    free(s.out_at);
    free(s.state);
    free(s.issue_at);
    free(s.trigger_us);
    free(s.kern.p);
    free(s.group.p);
    free(s.ready.p);
    return r;
}
