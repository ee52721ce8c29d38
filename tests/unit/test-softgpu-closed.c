/* The timing model against formulas, at many sizes and on all models, and the properties that must hold whatever the
 * work is.
 *
 * Every expected time is computed here from the figures of the model and the counts of the work, by the formula that
 * the case is named after; docs/TIMING.md has the same formulas. The kernels are made of exact counts, so that one
 * limit alone decides.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "softgpu/sg.h"

static uint64_t seed;

static uint64_t next(uint64_t below) /* splitmix64 */
{
    uint64_t z = seed += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) % below;
}

static double larger(double a, double b) { return a > b ? a : b; }

static void near(const char *what, double got, double want)
{
    if (fabs(got - want) > 1e-6 * (1 + fabs(want)))
        fail_msg("%s: got %.9f us, want %.9f", what, got, want);
}

static double clocks_us(const struct sg_model *m) { return m->clock_khz / 1000.0; }

static double l2_ns(const struct sg_model *m)
{
    return m->l2_halves == 2 ? (m->l2_near_ns + m->l2_far_ns) / 2 : m->l2_near_ns;
}

/* Blocks of 128 threads and `n` plain instructions a thread. */
static struct sg_work plain(uint32_t blocks, uint32_t n)
{
    struct sg_work w = {.kind = SG_WORK_KERNEL, .blocks = blocks, .threads = 128, .in_graph = true};
    w.stats.instructions = (uint64_t)blocks * 128 * n;
    w.stats.max_block_share = 1;
    return w;
}

static double issue_us(const struct sg_model *m, uint32_t n) /* 128 threads, 128 instructions a clock */
{
    return n / clocks_us(m);
}

static double floor_us(const struct sg_model *m, uint32_t n) /* 2 clocks an instruction of a thread */
{
    return 2 * n / clocks_us(m) + m->block_start_ns / 1000;
}

static double one(const struct sg_model *m, struct sg_work w)
{
    assert_int_equal(sg_timeline(m, &w, 1), 0);
    near("start", w.start_us, m->graph_launch_us);
    return w.end_us - w.start_us;
}

/* Full waves of R blocks on every SM, then a tail: W * max(floor, R * issue) + max(floor, ceil(tail / SMs) * issue). */
static void waves_and_tail(void **state)
{
    for (size_t i = 0; sg_model_at(i); i++) {
        const struct sg_model *m = sg_model_at(i);
        for (unsigned c = 0; c < 60; c++) {
            seed = c;
            uint32_t n = 100 + (uint32_t)next(5000), resident = 1 + (uint32_t)next(8);
            struct sg_work w = plain(1, n);
            /* R blocks, not R + 1 */
            w.shared_bytes = m->shared_sm / resident / m->shared_unit * m->shared_unit - m->shared_reserved;
            if (w.shared_bytes > m->shared_block_optin)
                continue;
            assert_int_equal(sg_occupancy(m, 128, 0, w.shared_bytes).blocks_per_sm, resident);
            uint32_t full = c % 3 ? (uint32_t)next(3) : 1, tail = c % 3 == 1 ? 0 : (uint32_t)next(resident * m->sms);
            uint32_t blocks = full * resident * m->sms + tail;
            if (!blocks)
                continue;
            double wave = larger(floor_us(m, n), resident * issue_us(m, n));
            double last = larger(floor_us(m, n), (tail + m->sms - 1) / m->sms * issue_us(m, n));
            w.blocks = blocks;
            w.stats.instructions *= blocks;
            near("waves", one(m, w), full * wave + (tail ? last : 0));
        }
    }
}

/* B reads what A has prefetched: A moves it, B only what is left, as far as the L2 has held it since. */
static void prefetched(void **state)
{
    for (size_t i = 0; sg_model_at(i); i++) {
        const struct sg_model *m = sg_model_at(i);
        static const uint32_t zero = 0;
        double rate = m->dram_gbps * m->dram_sustained * 1000, l2 = (double)m->l2_bytes;
        for (int large = 0; large < 2; large++) {
            struct sg_work w[2] = {plain(m->sms * 4, 1), plain(m->sms * 4, 1)};
            uint64_t fetch = large ? m->l2_bytes : m->l2_bytes / 4, mine = 2 * m->l2_bytes;
            w[0].stats.unique_read_bytes = m->l2_bytes / 4, w[0].stats.prefetched_bytes = fetch;
            w[1].stats.unique_read_bytes = mine, w[1].stats.fetched_read_bytes = fetch;
            w[1].after = &zero, w[1].nafter = 1;
            double miss = 1 - l2 / (l2 / 4 + 2 * l2), between = l2 / 4 + (double)fetch,
                   held = between > l2 ? l2 / between : 1;
            assert_int_equal(sg_timeline(m, w, 2), 0);
            near("A", w[0].end_us - w[0].start_us,
                 larger((l2 / 4 + (double)fetch) * miss / rate, (double)fetch / (m->l2_gbps * 1000)));
            near("B", w[1].end_us - w[1].start_us, ((double)mine - held * (double)fetch) * miss / rate);
            w[0].stats.prefetched_bytes = 0; /* nobody did: it does not count */
            assert_int_equal(sg_timeline(m, w, 2), 0);
            near("B alone", w[1].end_us - w[1].start_us, (double)mine * miss / rate);
        }
    }
}

/* Blocks that leave at once, or only prefetch, take nothing from the others: n of the same work, with more and more of
 * them behind, until SMs are full. */
static void light(void **state)
{
    for (size_t i = 0; sg_model_at(i); i++) {
        const struct sg_model *m = sg_model_at(i);
        for (uint32_t n = 1; n < 3 * m->sms; n += m->sms / 3) {
            struct sg_work w = plain(n, 20000);
            double alone = one(m, w);
            uint64_t each = w.stats.instructions / n, few = each / 40;
            for (uint32_t more = 1; more < 2 * m->sms; more += m->sms / 2) {
                struct sg_work x = w;
                x.blocks += more;
                x.stats.instructions += more * few;
                x.stats.light_blocks = more, x.stats.light_instructions = more * few;
                x.stats.max_block_share = (double)each * x.blocks / (double)x.stats.instructions;
                double with = one(m, x), most = alone * (1 + (double)more / 40 / n) + m->block_start_ns / 1000;
                if (with < alone * (1 - 1e-9) || with > most)
                    fail_msg("%s: %u blocks and %u light ones: %.3f us, without them %.3f", m->id, n, more, with,
                             alone);
                /* averaged they would take work from the others */
                x.stats.light_blocks = x.stats.light_instructions = 0;
                assert_true(n % m->sms < 2 || one(m, x) != with);
            }
        }
    }
}

/* All data through DRAM once: bytes / (bandwidth * sustained); through the L2: sectors touched / L2 bandwidth. */
static void bandwidth_bound(void **state)
{
    for (size_t i = 0; sg_model_at(i); i++) {
        struct sg_model m = *sg_model_at(i);
        struct sg_work w = plain(m.sms * 4, 1);
        double gb = 10 + (double)next(100);
        w.stats.unique_read_bytes = (uint64_t)(gb * 6e8), w.stats.unique_write_bytes = (uint64_t)(gb * 4e8);
        double miss = 1 - (double)m.l2_bytes / (gb * 1e9);
        near("DRAM", one(&m, w), gb * 1e9 * miss / (m.dram_gbps * m.dram_sustained * 1000));
        /* 64 bytes a clock and SM would take longer than the L2: give it many SMs' worth of clock */
        m.clock_khz *= 100;
        w.stats.unique_read_bytes = w.stats.unique_write_bytes = 1;
        w.stats.global_read_bytes = (uint64_t)(gb * 7e8), w.stats.global_write_bytes = (uint64_t)(gb * 3e8);
        near("L2", one(&m, w), gb * 1e9 / (m.l2_gbps * 1000));
    }
}

/* One block of one warp: nothing is shared, so it takes its latencies. 4 accesses are in flight; a shared one takes 24
 * clocks. */
static void latency_bound(void **state)
{
    for (size_t i = 0; sg_model_at(i); i++) {
        const struct sg_model *m = sg_model_at(i);
        struct sg_work w = {.kind = SG_WORK_KERNEL, .blocks = 1, .threads = 32, .in_graph = true};
        uint32_t loads = 40, shared = 12, barriers = 5, n = 200;
        w.stats.instructions = 32 * n, w.stats.memory = 32 * (loads + shared), w.stats.shared_bytes = 32 * 4 * shared;
        w.stats.barriers = 32 * barriers, w.stats.unique_read_bytes = 1000, w.stats.max_block_share = 1;
        double rest = (2.0 * n + 24.0 * shared / 4 + 24.0 * barriers) / clocks_us(m) + m->block_start_ns / 1000;
        near("L2 latency", one(m, w), loads * l2_ns(m) / 1000 / 4 + rest);
        struct sg_model none = *m;
        none.l2_bytes = 0; /* everything misses */
        near("DRAM latency", one(&none, w), loads * m->dram_latency_ns / 1000 / 4 + rest);
        w.stats.memory = 32, w.stats.shared_bytes = w.stats.barriers = 0, w.stats.instructions = 32;
        /* no less than one whole latency */
        near("a single access", one(m, w), l2_ns(m) / 1000 + m->block_start_ns / 1000);
    }
}

/* Clusters: as many at once as GPCs hold (132 SMs: two GPCs of 18 and six of 16; 148: two of 20 and six of 18), then
 * the next wave; blocks of several clusters share an SM where they fit. An access to another SM's shared memory takes
 * its latency, 4 in flight, and its part of the network; a barrier of the cluster its own time. */
static void clusters(void **state)
{
    static const struct {
        const char *id;
        uint32_t size, at_once; /* with one block an SM */
    } row[] = {{"h100", 2, 66}, {"h200", 4, 32}, {"h200", 6, 18}, {"h200", 8, 16},
               {"h200", 16, 8}, {"b200", 2, 74}, {"b200", 4, 34}, {"b200", 16, 8}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const struct sg_model *m = sg_model_find(row[i].id);
        for (uint32_t resident = 1; resident <= 2; resident++)
            for (uint32_t n = 1; n < 80; n += 13) {
                uint32_t at_once = resident == 1 ? row[i].at_once : sg_clusters(m, resident, row[i].size);
                struct sg_work w = plain(n * row[i].size, 1000);
                w.cluster = row[i].size;
                w.shared_bytes = m->shared_sm / resident / m->shared_unit * m->shared_unit - m->shared_reserved;
                /* issue time of two hides in it */
                near("waves of clusters", one(m, w), (n + at_once - 1) / at_once * floor_us(m, 1000));
            }
        struct sg_work w = {
            .kind = SG_WORK_KERNEL, .blocks = row[i].size, .threads = 32, .cluster = row[i].size, .in_graph = true};
        uint64_t threads = 32 * row[i].size;
        w.stats.instructions = threads * 200, w.stats.memory = w.stats.cluster_accesses = threads * 40,
        w.stats.cluster_bytes = threads * 4 * 40;
        w.stats.cluster_syncs = threads * 3, w.stats.max_block_share = 1;
        double rest = 2.0 * 200 / clocks_us(m) + 3 * m->cluster_sync_ns / 1000 + m->block_start_ns / 1000;
        near("latency between SMs", one(m, w), 40 * m->dsm_ns / 1000 / 4 + rest);
        w = plain(row[i].size, 1); /* 128 threads that move 400 bytes each */
        w.cluster = row[i].size;
        w.stats.memory = w.stats.cluster_accesses = 1, w.stats.cluster_bytes = (uint64_t)row[i].size * 128 * 400;
        near("network between SMs", one(m, w), 128 * 400 / m->dsm_bytes_clock / clocks_us(m));
        w.cluster = 0; /* a cluster that no GPC holds, and a grid that it does not divide */
        w.shared_bytes = m->shared_block_optin;
        w.blocks = 24, w.cluster = 24;
        assert_int_equal(sg_timeline(m, &w, 1), DT_E_LAUNCH);
        w.blocks = 25, w.cluster = 8;
        assert_int_equal(sg_timeline(m, &w, 1), DT_E_LAUNCH);
    }
}

/* n dependent launches of d us: as a graph n (g + d); from the host each also waits until it is issued, l us after the
 * one before. */
static void launch_bound(void **state)
{
    enum { N = 20 };
    for (size_t i = 0; sg_model_at(i); i++) {
        const struct sg_model *m = sg_model_at(i);
        for (uint32_t work = 0; work < 3; work++) {
            uint32_t per = (uint32_t[]){10, 3000, 30000}[work], before[N];
            struct sg_work w[N];
            for (int graph = 0; graph < 2; graph++) {
                double end = 0, d = floor_us(m, per);
                for (uint32_t k = 0; k < N; k++) {
                    w[k] = plain(1, per);
                    w[k].in_graph = graph;
                    before[k] = k - 1;
                    w[k].after = &before[k], w[k].nafter = k > 0;
                    end = larger(end + m->graph_launch_us + (graph || !k ? 0 : m->stream_more_us),
                                 graph ? 0 : (k + 1) * m->launch_us) +
                          d;
                }
                assert_int_equal(sg_timeline(m, w, N), 0);
                near(graph ? "graph" : "stream", w[N - 1].end_us, end);
                if (graph)
                    near("graph", end, N * (m->graph_launch_us + d));
            }
        }
    }
}

/* Streams: kernels that leave room run side by side; an event orders them; a copy beside a kernel costs the kernel
 * nothing. */
static void streams_and_events(void **state)
{
    for (size_t i = 0; sg_model_at(i); i++) {
        const struct sg_model *m = sg_model_at(i);
        uint32_t zero = 0, two[2] = {0, 1};
        double a = floor_us(m, 5000), b = floor_us(m, 2000), g = m->graph_launch_us;
        struct sg_work w[4] = {plain(m->sms / 2, 5000), plain(m->sms / 3, 2000)};
        assert_int_equal(sg_timeline(m, w, 2), 0);
        near("first stream", w[0].end_us, g + a);
        near("second stream", w[1].end_us, g + b);
        w[1].after = &zero, w[1].nafter = 1; /* the same with an event between them */
        assert_int_equal(sg_timeline(m, w, 2), 0);
        near("after the event", w[1].end_us, g + a + g + b);
        w[1] = plain(m->sms / 3, 2000);
        w[2] = (struct sg_work){.kind = SG_WORK_EVENT, .in_graph = true, .after = two, .nafter = 2};
        w[3] = (struct sg_work){.kind = SG_WORK_COPY, .in_graph = true, .bytes = 50000};
        assert_int_equal(sg_timeline(m, w, 4), 0);
        near("join", w[2].end_us, g + larger(a, b));
        near("copy", w[3].end_us, g + 50000 / (m->memcpy_gbps * 1000));
        near("beside a copy", w[0].end_us, g + a);
        /* both fill the device: the SMs' issue is shared, the sum stays */
        w[0] = plain(m->sms, 6000), w[1] = plain(m->sms, 6000);
        assert_int_equal(sg_timeline(m, w, 2), 0);
        near("both full", w[1].end_us, g + larger(floor_us(m, 6000), 2 * issue_us(m, 6000)));
    }
}

/* Blocks per SM, by the text of NVIDIA's occupancy calculator. */
static unsigned resident(const struct sg_model *m, uint32_t threads, uint32_t regs, uint32_t shared, const char **limit)
{
    uint32_t warps = threads / 32 + (threads % 32 != 0), best = m->max_blocks_sm, n = 0;
    *limit = "blocks";
    while ((n + 1) * warps <= m->max_threads_sm / 32)
        n++;
    if (n < best)
        best = n, *limit = "threads";
    if (regs) {
        /* warps of one quarter of the register file */
        uint32_t unit = (regs * 32 + 255) & ~255u, quarter = m->regs_sm / 4 / unit;
        n = regs > 255 || unit * warps > m->regs_block ? 0 : 4 * quarter / warps;
        if (n < best)
            best = n, *limit = "registers";
    }
    uint32_t each = ((shared + 1024 + 127) & ~127u);
    for (n = 0; shared <= m->shared_block_optin && (n + 1) * each <= m->shared_sm;)
        n++;
    if (n < best)
        best = n, *limit = "shared";
    return best;
}

static void occupancy(void **state)
{
    unsigned seen[4] = {0};
    for (unsigned c = 0; c < 4000; c++) {
        seed = c;
        const struct sg_model *m = sg_model_at(c % 5);
        uint32_t threads = 1 + (uint32_t)next(1024), regs = (uint32_t)next(260),
                 shared = next(2) ? (uint32_t)next(240000) : (uint32_t)next(4000);
        const char *limit;
        unsigned want = resident(m, threads, regs, shared, &limit);
        struct sg_occupancy o = sg_occupancy(m, threads, regs, shared);
        if (o.blocks_per_sm != want || strcmp(o.limit, limit))
            fail_msg("%s, %u threads, %u registers, %u bytes: %u by %s, not %u by %s", m->id, threads, regs, shared,
                     o.blocks_per_sm, o.limit, want, limit);
        seen[limit[0] == 'r' ? 0 : limit[0] == 's' ? 1 : limit[0] == 't' ? 2 : 3]++;
        if (!want || c % 4)
            continue;
        /* the timeline obeys it: one block more than fits takes a wave more. Long latencies, no issue: a wave takes the
         * floor. */
        struct sg_work w = {
            .kind = SG_WORK_KERNEL, .threads = threads, .registers = regs, .shared_bytes = shared, .in_graph = true};
        for (uint32_t more = 0; more < 2; more++) {
            w.blocks = want * m->sms + more;
            w.stats = (struct sg_stats){.barriers = (uint64_t)w.blocks * threads * 1000, .max_block_share = 1};
            near("waves", one(m, w), (1 + more) * (24000 / clocks_us(m) + m->block_start_ns / 1000));
        }
    }
    for (unsigned i = 0; i < 4; i++)
        assert_true(seen[i] > 20);
}

/* ---- properties -------------------------------------------------------------------------------------------------- */
static struct sg_work any_kernel(void)
{
    struct sg_work w = {.kind = SG_WORK_KERNEL,
                        .blocks = 1 + (uint32_t)next(2000),
                        .threads = 1 + (uint32_t)next(512),
                        .in_graph = true};
    w.registers = 16 + (uint32_t)next(64), w.shared_bytes = next(2) ? (uint32_t)next(40000) : 0;
    uint64_t threads = (uint64_t)w.blocks * w.threads;
    w.stats = (struct sg_stats){.instructions = threads * (1 + next(2000)),
                                .fp32 = threads * next(1000),
                                .memory = threads * next(100),
                                .barriers = threads * next(4),
                                .global_read_bytes = threads * next(400),
                                .unique_read_bytes = threads * next(100),
                                .max_block_share = 1};
    return w;
}

static double total(const struct sg_model *m, const struct sg_work *from, uint32_t n, bool chain)
{
    struct sg_work w[8];
    uint32_t before[8];
    double end = 0;
    for (uint32_t i = 0; i < n; i++) {
        w[i] = from[i];
        before[i] = i - 1;
        w[i].after = &before[i], w[i].nafter = chain && i;
    }
    assert_int_equal(sg_timeline(m, w, n), 0);
    for (uint32_t i = 0; i < n; i++)
        end = larger(end, w[i].end_us);
    return end;
}

static void no_slower(const char *what, unsigned c, double got, double than)
{
    if (got > than * (1 + 1e-9) + 1e-9)
        fail_msg("case %u, %s: %.9f us, before %.9f", c, what, got, than);
}

/* The bound is the formula, and no works are faster, alone or in a chain. */
static void bound(void **state)
{
    for (size_t i = 0; sg_model_at(i); i++) {
        const struct sg_model *m = sg_model_at(i);
        struct sg_work w = plain(64, 10);
        w.stats.unique_read_bytes = 3000000, w.stats.unique_write_bytes = 1000000;
        near("L2", sg_bound(m, &w, 1, -1), 4 / (m->l2_gbps / 1000));
        near("L2 of less", sg_bound(m, &w, 1, 1e6), 1 / (m->l2_gbps / 1000));
        near("DRAM", sg_bound(m, &w, 1, (double)m->l2_bytes + 1e10),
             larger(1e10 / (m->dram_gbps * m->dram_sustained * 1000),
                    ((double)m->l2_bytes + 1e10) / (m->l2_gbps * 1000)));
        w.stats.fp32 = 1000000000;
        near("FMA", sg_bound(m, &w, 1, 0), 1e9 / (m->fp32_lanes * m->sms) / clocks_us(m));
        struct sg_work two[2] = {w, w};
        near("both", sg_bound(m, two, 2, 0), 2e9 / (m->fp32_lanes * m->sms) / clocks_us(m));
    }
    for (unsigned c = 0; c < 1500; c++) {
        seed = c;
        struct sg_work w[4];
        const struct sg_model *m = sg_model_at(c % 5);
        for (uint32_t i = 0; i < 4; i++) {
            w[i] = any_kernel();
            struct sg_stats *st = &w[i].stats;
            st->unique_read_bytes = next(2) ? st->global_read_bytes : st->global_read_bytes / 8;
            st->fp32 = st->fp32 < st->instructions ? st->fp32 : st->instructions;
            if (sg_bound(m, &w[i], 1, -1) > one(m, w[i]) * (1 + 1e-9))
                fail_msg("case %u: bound %.9f us, time %.9f", c, sg_bound(m, &w[i], 1, -1), one(m, w[i]));
        }
        if (sg_bound(m, w, 4, -1) > total(m, w, 4, c % 2) * (1 + 1e-9))
            fail_msg("case %u: bound %.9f us, time %.9f", c, sg_bound(m, w, 4, -1), total(m, w, 4, c % 2));
    }
}

/* A chain of launches: a better figure never makes it slower, more work or another launch never faster. */
static void monotone(void **state)
{
    for (unsigned c = 0; c < 1500; c++) {
        seed = c;
        struct sg_work w[8];
        uint32_t n = 1 + (uint32_t)next(4);
        for (uint32_t i = 0; i < 8; i++)
            w[i] = any_kernel();
        const struct sg_model *m = sg_model_at(c % 5);
        struct sg_model b = *m;
        double t = total(m, w, n, true);
        b.dram_gbps *= 1 + (double)next(100) / 50;
        no_slower("more DRAM bandwidth", c, total(&b, w, n, true), t);
        b = *m, b.l2_gbps *= 1 + (double)next(100) / 50;
        no_slower("more L2 bandwidth", c, total(&b, w, n, true), t);
        b = *m, b.l2_bytes *= 1 + next(4);
        no_slower("a larger L2", c, total(&b, w, n, true), t);
        b = *m, b.clock_khz += (unsigned)next(1000000);
        no_slower("a faster clock", c, total(&b, w, n, true), t);
        b = *m, b.graph_launch_us *= (double)next(100) / 100, b.l2_near_ns *= 0.9, b.l2_far_ns *= 0.9,
        b.dram_latency_ns *= 0.9;
        no_slower("shorter latencies", c, total(&b, w, n, true), t);
        b = *m, b.sms += 1 + (unsigned)next(100);
        no_slower("more SMs, within a quarter", c, total(&b, w, n, true), t * 1.25); /* see more_sms_may_cost */
        no_slower("another launch", c, t, total(m, w, n + 1, true));
        no_slower("another launch beside a single one", c, total(m, w, 1, false), total(m, w, 2, false));
        struct sg_work more[8];
        memcpy(more, w, sizeof w);
        more[next(n)].stats.instructions *= 2;
        no_slower("more instructions", c, t, total(m, more, n, true));
        memcpy(more, w, sizeof w);
        more[next(n)].stats.unique_read_bytes *= 2;
        no_slower("more traffic", c, t, total(m, more, n, true));
    }
}

/* More SMs: never slower where blocks share nothing but their SM. Where they share bandwidth it need not hold: 2 S
 * blocks on S SMs that need just all of it take two times; on 1.5 S SMs the first wave takes 1.5 times as long and
 * leaves a tail that cannot use all. */
static void more_sms(void **state)
{
    for (unsigned c = 0; c < 1500; c++) {
        seed = c;
        struct sg_work w[4];
        for (uint32_t i = 0; i < 4; i++) {
            w[i] = any_kernel();
            w[i].stats.global_read_bytes = w[i].stats.unique_read_bytes = 0;
        }
        struct sg_model a = *sg_model_at(c % 5), b = a;
        b.sms += 1 + (unsigned)next(100);
        no_slower("more SMs", c, total(&b, w, 4, true), total(&a, w, 4, true));
    }
}

static void more_sms_may_cost(void **state)
{
    struct sg_model m = *sg_model_find("h100");
    double d = floor_us(&m, 20000);
    struct sg_work w = plain(m.sms * 2, 20000);
    w.shared_bytes = 200 * 1024; /* one block a SM */
    /* a wave on all SMs needs all of the L2's bandwidth */
    w.stats.global_read_bytes = (uint64_t)(m.l2_gbps * 1000 * d * 2);
    near("two waves", one(&m, w), 2 * d);
    m.sms += m.sms / 2;
    near("a wave and a half, then a third of the blocks", one(&m, w), 1.5 * d + d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waves_and_tail),   cmocka_unit_test(bandwidth_bound),
                                       cmocka_unit_test(prefetched),       cmocka_unit_test(light),
                                       cmocka_unit_test(latency_bound),    cmocka_unit_test(clusters),
                                       cmocka_unit_test(launch_bound),     cmocka_unit_test(streams_and_events),
                                       cmocka_unit_test(occupancy),        cmocka_unit_test(bound),
                                       cmocka_unit_test(monotone),         cmocka_unit_test(more_sms),
                                       cmocka_unit_test(more_sms_may_cost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
