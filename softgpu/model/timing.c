/* Modelled time: a discrete-event simulation of kernels, copies and events on a modelled GPU.
 *
 * Inputs are executed operation and byte counts (struct sg_stats), so a time is a function of the work and of the
 * model's row only: the same on every machine. Doubles, `+ - * /`, square roots and comparisons in a fixed order; no
 * other libm.
 *
 * Cost of a block (cost.c): `issue`, microseconds of an SM that nothing else uses, and `floor`, what it takes however
 * empty the SM is.
 *
 * Running: blocks are placed on SMs (place.c). A block progresses at the rate that its floor, its SM's issue time, the
 * L2 and the DRAM allow; each of these is shared max-min fair among the blocks in flight, and rounded off, as queues
 * form before it is used up (hardly where there is nothing but arithmetic; earlier where DRAM is read and written). No
 * block takes less than what it asks of an SM that has nothing else to do. Time goes from event to event (a start, an
 * end of a group of equal blocks).
 *
 * Programmatic dependencies: the dependent kernel may start when every block of the other one has started and triggered
 * (or ended). Its blocks stop where they wait for prerequisites, keeping their place, until the other kernel has ended.
 * Both points are parts of the busiest warp's work.
 *
 * Blocks that wait for each other, or lighter ones behind others (struct sg_talk): the kernel is placed part by part,
 * every block with the length of its own work. One that waits does so before it does anything, holding its place and no
 * issue slots, until the blocks that it waits for have ended; then it goes on.
 *
 * Launches: one that is not in a graph is issued by the host, launch_us each, in order; every kernel, copy and memset
 * starts graph_launch_us after the last thing it waits for, stream_more_us later where it is not in a graph and nothing
 * that it waits for lets it start early. HOST works are the host waiting: later issues come after them. A copy takes
 * memcpy_gbps, a SET what DRAM sustains. A kernel's blocks begin when those that run first have been handed out, a
 * block's floor later at most: so the last one ends as late as it does on hardware.
 *
 * Clusters: accesses by .shared::cluster take their SM's share of the network between SMs, and its latency with 4 in
 * flight; a barrier of the cluster takes cluster_sync_ns.
 *
 * docs/TIMING.md has the closed forms, what is tested of them, and at length what is left out. Not modelled: partition
 * camping, contention of pipes between different kernels on an SM (their issue times add), copy engines in parallel,
 * clock changes, power; that the blocks of a cluster wait for each other.
 */
#include "softgpu/model/timing-priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum state { WAITING, READY, RUNNING, DONE }; /* of a work */

/* What is got of a capacity of 1 where x is asked for: queues form before it is used up. min(1, x) rounded off, by the
 * power: 1, 2, 4, 8; 0: not rounded. */
static double soft(double x, unsigned power)
{
    if (!power)
        return x < 1 ? x : 1;
    double y = x;
    for (unsigned p = power; p > 1; p /= 2)
        y *= y;
    for (y += 1; power > 1; power /= 2)
        y = sqrt(y);
    return x / y;
}

/* The same of DRAM that is read and written at once, `mix` from 0 to 1: queues form earlier. */
static double softer(const struct sg_sim *s, double x, unsigned power, double mix)
{
    double y = soft(x, power);
    return mix > 0 ? y + mix * (soft(x, (unsigned)s->m->k.mix_power) - y) : y;
}

/* Max-min fair share: the largest lambda with sum count * min(demand, lambda) <= capacity, over the groups of SM `sm`
 * or of all (SG_NO_INDEX); negative if all demands fit. demand(g) is per block. */
static double level_of(const struct sg_sim *s, double capacity, unsigned power, double mix,
                       double (*demand)(const struct sg_sim *, const struct sg_sim_group *), uint32_t sm)
{
    double lambda = -1, last;
    do {
        double rest = capacity, blocks = 0, total = 0;
        last = lambda;
        uint32_t g = sm != SG_NO_INDEX ? s->sm[sm].first : 0;
        while (sm != SG_NO_INDEX ? g != SG_NO_INDEX : g < s->group.n) {
            const struct sg_sim_group *p = &s->group.p[g];
            g = sm != SG_NO_INDEX ? p->next : g + 1;
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
        if (last < 0 && power && total > s->m->k.soft_from * capacity)
            capacity = rest = softer(s, total / capacity, power, mix) * capacity;
        if (total <= capacity)
            return -1;
        if (blocks == 0)
            return last;
        lambda = rest / blocks;
    } while (lambda != last);
    return lambda;
}

static double demand_issue(const struct sg_sim *s, const struct sg_sim_group *g)
{
    const struct sg_sim_kern *k = &s->kern.p[g->kern];
    return k->issue * g->rate;
}

static double demand_l2(const struct sg_sim *s, const struct sg_sim_group *g)
{
    return s->kern.p[g->kern].l2 * g->rate;
}

static double demand_dram(const struct sg_sim *s, const struct sg_sim_group *g)
{
    return s->kern.p[g->kern].dram * g->rate;
}

static double demand_dispatch(const struct sg_sim *s, const struct sg_sim_group *g)
{
    return s->kern.p[g->kern].dispatch * g->rate;
}

static double demand_hot(const struct sg_sim *s, const struct sg_sim_group *g)
{
    return s->kern.p[g->kern].hot * g->rate;
}

/* How evenly DRAM is read and written by what runs: 1 where both are as much, 0 where one is all. */
static double mixed(const struct sg_sim *s)
{
    double all = 0, write = 0;
    for (size_t i = 0; i < s->group.n; i++) {
        const struct sg_sim_group *g = &s->group.p[i];
        if (!g->live)
            continue;
        all += demand_dram(s, g) * g->count;
        write += s->kern.p[g->kern].dram_write * g->rate * g->count;
    }
    return all > 0 ? 4 * (write / all) * (1 - write / all) : 0;
}

static void limit(struct sg_sim *s, double capacity, unsigned power, double mix,
                  double (*demand)(const struct sg_sim *, const struct sg_sim_group *), uint32_t sm)
{
    double lambda = level_of(s, capacity, power, mix, demand, sm);
    if (lambda < 0)
        return;
    uint32_t g = sm != SG_NO_INDEX ? s->sm[sm].first : 0;
    while (sm != SG_NO_INDEX ? g != SG_NO_INDEX : g < s->group.n) {
        struct sg_sim_group *p = &s->group.p[g];
        g = sm != SG_NO_INDEX ? p->next : g + 1;
        double d = p->live ? demand(s, p) : 0;
        if (d > lambda)
            p->rate *= lambda / d;
    }
}

static int make_ready(struct sg_sim *s, uint32_t i);

bool sg_sim_early(const struct sg_sim *s, const struct sg_work *w, uint32_t k)
{
    return w->early && w->early[k] && !s->d->late;
}

static bool is_early(const struct sg_sim *s, uint32_t from, uint32_t to)
{
    const struct sg_work *w = &s->w[to];
    for (uint32_t i = 0; i < w->nafter; i++)
        if (w->after[i] == from)
            return sg_sim_early(s, w, i);
    return false;
}

/* ---- programmatic dependencies: a kernel may start when the one it depends on triggers, and waits inside until that
 * has ended */
static bool held(const struct sg_sim *s, const struct sg_sim_kern *k)
{
    const struct sg_work *w = &s->w[k->work];
    for (uint32_t i = 0; i < w->nafter; i++)
        if (sg_sim_early(s, w, i) && s->state[w->after[i]] != DONE)
            return true;
    return false;
}

/* What `g` may still do before something happens: its end, where it waits, or where it triggers. (k->held is as `rates`
 * found it last.) */
static double until_event(const struct sg_sim *s, const struct sg_sim_group *g)
{
    const struct sg_sim_kern *k = &s->kern.p[g->kern];
    double left = g->left, wait = g->left - g->length * (1 - k->prologue),
           trigger = g->left - g->length * (1 - k->trigger);
    if (k->held)
        left = max2(wait, 0);
    return s->trigger_us[k->work] < 0 && trigger > 1e-9 && trigger < left ? trigger : left;
}

/* Kernels whose blocks have all started and triggered let their early dependents go. */
static int fire(struct sg_sim *s)
{
    for (size_t i = 0; i < s->kern.n; i++) {
        const struct sg_sim_kern *k = &s->kern.p[i];
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
static bool waits(const struct sg_sim *s, struct sg_sim_group *g)
{
    const struct sg_sim_kern *k = &s->kern.p[g->kern];
    const struct sg_talk *t = k->talk;
    if (!t || t->apart)
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

/* Do all that run on the SM wait for nothing but arithmetic? The assembler knows how long that takes, and what it has
 * laid out needs no queues: pipes are used up to their limit. */
static bool is_steady(const struct sg_sim *s, uint32_t sm)
{
    for (uint32_t g = s->sm[sm].first; g != SG_NO_INDEX; g = s->group.p[g].next)
        if (!s->kern.p[s->group.p[g].kern].steady)
            return false;
    return true;
}

/* Most SMs run what the one before them runs: then it goes as fast here as there. */
static bool as_on(struct sg_sim *s, uint32_t there, uint32_t here)
{
    uint32_t x = s->sm[there].first, y = s->sm[here].first;
    for (; x != SG_NO_INDEX && y != SG_NO_INDEX; x = s->group.p[x].next, y = s->group.p[y].next)
        if (s->group.p[x].kern != s->group.p[y].kern || s->group.p[x].count != s->group.p[y].count ||
            s->group.p[x].alone != s->group.p[y].alone)
            return false;
    if (x != y)
        return false;
    for (x = s->sm[there].first, y = s->sm[here].first; x != SG_NO_INDEX;
         x = s->group.p[x].next, y = s->group.p[y].next)
        s->group.p[y].rate = s->group.p[x].rate;
    return true;
}

/* What all that run ask of what they share, in one pass: most of the time nothing of it is short. */
struct asked {
    double l2, dram, hot, dispatch;
};

static struct asked asked_of(const struct sg_sim *s)
{
    struct asked a = {0};
    for (size_t i = 0; i < s->group.n; i++) {
        const struct sg_sim_group *g = &s->group.p[i];
        const struct sg_sim_kern *k = &s->kern.p[g->kern];
        if (!g->live)
            continue;
        a.l2 += k->l2 * g->rate * g->count;
        a.dram += k->dram * g->rate * g->count;
        a.hot += k->hot * g->rate * g->count;
        a.dispatch += k->dispatch * g->rate * g->count;
    }
    return a;
}

/* Can level_of say anything but "all demands fit"? */
static bool short_of(const struct sg_sim *s, double asked, double capacity, unsigned power)
{
    return asked > capacity || (power && asked > s->m->k.soft_from * capacity);
}

static void rates(struct sg_sim *s)
{
    for (size_t i = 0; i < s->kern.n; i++)
        s->kern.p[i].held = held(s, &s->kern.p[i]);
    for (size_t i = 0; i < s->group.n; i++) {
        struct sg_sim_group *g = &s->group.p[i];
        const struct sg_sim_kern *k = g->live ? &s->kern.p[g->kern] : NULL;
        if (k)
            g->rate = g->alone =
                waits(s, g) || (k->held && g->left - g->length * (1 - k->prologue) <= 1e-9) ? 0 : 1 / k->floor;
    }
    bool rounded = s->followed && !s->d->sharp;
    unsigned sm_power = rounded ? (unsigned)s->m->k.sm_power : 0, power = rounded ? (unsigned)s->m->k.mem_power : 0;
    unsigned steady_power = rounded ? (unsigned)s->m->k.steady_power : 0;
    for (uint32_t i = 0, last = SG_NO_INDEX; i < s->m->sms; i++) {
        if (s->sm[i].first == SG_NO_INDEX)
            continue;
        if (last == SG_NO_INDEX || !as_on(s, last, i))
            limit(s, 1, is_steady(s, i) ? steady_power : sm_power, 0, demand_issue, i);
        last = i;
    }
    for (size_t i = 0; i < s->group.n; i++) {
        struct sg_sim_group *g = &s->group.p[i];
        if (g->live && g->rate * s->kern.p[g->kern].least > 1)
            g->rate = 1 / s->kern.p[g->kern].least;
    }
    double l2 = s->m->l2_gbps * 1000, dram = s->m->dram_gbps * s->m->dram_sustained * 1000;
    struct asked a = asked_of(s);
    if (short_of(s, a.l2, l2, power)) {
        limit(s, l2, power, 0, demand_l2, SG_NO_INDEX);
        a = asked_of(s);
    }
    if (short_of(s, a.dram, dram, power)) {
        limit(s, dram, power, power ? mixed(s) * s->m->k.dram_mix : 0, demand_dram, SG_NO_INDEX);
        a = asked_of(s);
    }
    if (short_of(s, a.hot, 1, 0)) {
        limit(s, 1, 0, 0, demand_hot, SG_NO_INDEX);
        a = asked_of(s);
    }
    if (short_of(s, a.dispatch, 1, 0))
        limit(s, 1, 0, 0, demand_dispatch, SG_NO_INDEX);
}

/* Everything it waits for has ended: when may it start? */
static int make_ready(struct sg_sim *s, uint32_t i)
{
    struct sg_work *w = &s->w[i];
    double t = 0;
    bool more = !w->in_graph;
    for (uint32_t k = 0; k < w->nafter; k++)
        more &= !sg_sim_early(s, w, k);
    for (uint32_t k = 0; k < w->nafter; k++)
        t = max2(t, sg_sim_early(s, w, k) && s->trigger_us[w->after[k]] >= 0 ? s->trigger_us[w->after[k]]
                                                                             : s->w[w->after[k]].end_us);
    if (w->kind == SG_WORK_KERNEL || w->kind == SG_WORK_COPY || w->kind == SG_WORK_SET)
        t += (s->m->graph_launch_us + (more && w->nafter ? s->m->stream_more_us : 0)) * s->d->launch;
    w->start_us = t; /* and not before the host has issued it */
    s->state[i] = READY;
    return dt_push(&s->ready, i) ? 0 : DT_E_NOMEM;
}

/* The host goes on: issue times of everything up to the next HOST work. */
static void issue_from(struct sg_sim *s, uint32_t i, double t)
{
    for (; i < s->n; i++) {
        struct sg_work *w = &s->w[i];
        if (w->kind == SG_WORK_HOST) {
            s->issue_at[i] = t;
            return;
        }
        if (!w->in_graph)
            t += w->kind == SG_WORK_EVENT ? s->m->event_us : s->m->launch_us * s->d->launch;
        s->issue_at[i] = t;
    }
}

static int timing_finish(struct sg_sim *s, uint32_t i)
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

static int timing_begin(struct sg_sim *s, uint32_t i)
{
    struct sg_work *w = &s->w[i];
    w->start_us = s->now;
    s->state[i] = RUNNING;
    switch (w->kind) {
    case SG_WORK_KERNEL:
        if (!w->blocks || !w->threads)
            return timing_finish(s, i);
        return sg_sim_start(s, i);
    case SG_WORK_COPY: w->end_us = s->now + (double)w->bytes / (s->m->memcpy_gbps * 1000); break;
    case SG_WORK_SET: w->end_us = s->now + (double)w->bytes / (s->m->dram_gbps * s->m->dram_sustained * 1000); break;
    default: return timing_finish(s, i);
    }
    return dt_push(&s->ready, i) ? 0 : DT_E_NOMEM;
}

/* Drop the blocks that are through; a kernel whose last block is through ends. */
static int timing_collect(struct sg_sim *s)
{
    for (uint32_t i = 0; i < s->m->sms; i++)
        for (uint32_t *at = &s->sm[i].first; *at != SG_NO_INDEX;) {
            struct sg_sim_group *g = &s->group.p[*at];
            if (g->left > 1e-9) {
                at = &g->next;
                continue;
            }
            struct sg_sim_kern *k = &s->kern.p[g->kern];
            uint32_t id = *at;
            if (k->each)
                s->ended[k->work][g->block] = 1;
            sg_sim_ended(s, k->work, g);
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
        const struct sg_sim_kern *k = &s->kern.p[i];
        bool over = s->state[k->work] == RUNNING && !k->live && !held(s, k); /* not before its prerequisites */
        for (size_t o = 0; k->talk && o < s->kern.n && over; o++)
            over = s->kern.p[o].work != k->work || !s->kern.p[o].live;
        int r = over ? timing_finish(s, k->work) : 0;
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

static int timing_step(struct sg_sim *s)
{
    double next = -1;
    for (size_t i = 0; i < s->ready.n; i++) {
        const struct sg_work *w = &s->w[s->ready.p[i]];
        double t = s->state[s->ready.p[i]] == READY ? max2(w->start_us, s->issue_at[s->ready.p[i]]) : w->end_us;
        if (next < 0 || t < next)
            next = t;
    }
    for (size_t i = 0; i < s->kern.n; i++) {
        const struct sg_sim_kern *k = &s->kern.p[i];
        if (k->to_place && k->open_us > s->now && (next < 0 || k->open_us < next))
            next = k->open_us;
    }
    for (size_t i = 0; i < s->group.n; i++) {
        const struct sg_sim_group *g = &s->group.p[i];
        if (g->live && g->rate > 0) {
            double t = s->now + until_event(s, g) / g->rate;
            next = next < 0 || t < next ? t : next;
        }
    }
    if (next < 0)
        return DT_E_INTERNAL; /* a cycle: `after` names a later work */
    double dt = next > s->now ? next - s->now : 0;
    for (size_t i = 0; i < s->group.n; i++) {
        struct sg_sim_group *g = &s->group.p[i];
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
    int r = timing_collect(s);
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
        r = s->state[id] == READY ? timing_begin(s, id) : timing_finish(s, id);
    }
    if (!r)
        r = sg_sim_place(s);
    if (!r)
        r = fire(s); /* those that trigger at once */
    if (!r)
        rates(s);
    return r;
}

static int dependents(struct sg_sim *s)
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

static double timing_footprint(const struct sg_work *w, uint32_t n)
{
    double f = 0;
    for (uint32_t i = 0; i < n; i++)
        f += w[i].kind == SG_WORK_KERNEL ? (double)w[i].stats.unique_read_bytes + (double)w[i].stats.unique_write_bytes
             : w[i].kind == SG_WORK_SET  ? (double)w[i].bytes
                                         : 0;
    return f;
}

/* The part of accesses that misses the L2, by footprint over its size: read over and over, a footprint that is a little
 * too large is mostly lost. An L2 of two halves keeps some lines twice, and loses them earlier. */
double sg_sim_miss(const struct sg_model *m, double x)
{
    const struct sg_constants *k = &m->k;
    const double one[][2] = {{k->miss_from, 0}, {k->miss_knee, k->miss_part}, {k->miss_to, 1}},
                 two[][2] = {{k->miss2_from, 0}, {k->miss2_knee, k->miss2_part}, {k->miss2_to, 1}}, (*at)[2] = one;
    if (m->l2_halves > 1)
        at = two;
    if (x <= at[0][0])
        return 0;
    for (unsigned i = 1; i < 3; i++)
        if (x < at[i][0])
            return at[i - 1][1] + (at[i][1] - at[i - 1][1]) * (x - at[i - 1][0]) / (at[i][0] - at[i - 1][0]);
    return 1;
}

int sg_timeline(const struct sg_model *m, struct sg_work *w, uint32_t n) { return sg_timeline_of(m, w, n, 0, NULL); }

int sg_timeline_of(const struct sg_model *m, struct sg_work *w, uint32_t n, double distinct, const struct sg_doubt *d)
{
    return sg_sim_run(m, w, n, distinct, d, NULL);
}

int sg_sim_run(const struct sg_model *m, struct sg_work *w, uint32_t n, double distinct, const struct sg_doubt *d,
               struct sg_spans *spans)
{
    if (!n)
        return 0;
    struct sg_sim s = {
        .m = m, .w = w, .n = n, .clocks_us = m->clock_khz / 1000.0, .free_group = SG_NO_INDEX, .spans = spans};
    s.d = d ? d : sg_doubt_at(0);
    s.l2_bytes = (double)m->l2_bytes / s.d->cache;
    double f = timing_footprint(w, n);
    if (distinct > 0 && distinct < f)
        f = distinct;
    for (uint32_t i = 0; i < n; i++)
        s.followed |= w[i].kind == SG_WORK_KERNEL && w[i].stats.profile.alone_near > 0;
    s.miss = s.followed ? sg_sim_miss(m, f / s.l2_bytes) : f <= s.l2_bytes ? 0 : 1 - s.l2_bytes / f;
    s.far = m->l2_halves > 1 && 2 * f > s.l2_bytes ? 1 : 0;
    s.sm = dt_calloc(m->sms, sizeof *s.sm);
    s.waits = dt_calloc(n, sizeof *s.waits);
    s.out_at = dt_calloc((size_t)n + 1, sizeof *s.out_at);
    s.state = dt_calloc(n, 1);
    s.issue_at = dt_calloc(n, sizeof *s.issue_at);
    s.trigger_us = dt_calloc(n, sizeof *s.trigger_us);
    int r = s.sm && s.waits && s.out_at && s.state && s.issue_at && s.trigger_us ? dependents(&s) : DT_E_NOMEM;
    if (!r) {
        for (uint32_t i = 0; i < m->sms; i++)
            s.sm[i].first = SG_NO_INDEX;
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
        r = timing_step(&s);
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
