/* The timing model on cases whose answer is known in closed form, with a model of round numbers: 4 SMs at 1 GHz, 4
 * blocks each. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "softgpu/sg.h"

static struct sg_model toy(void)
{
    return (struct sg_model){.id = "toy",
                             .k = sg_model_find("h200")->k,
                             .sms = 4,
                             .clock_khz = 1000000,
                             .l2_bytes = 0,
                             .dram_gbps = 1e6,
                             .dram_sustained = 1,
                             .l2_gbps = 1e6,
                             .max_threads_sm = 2048,
                             .max_blocks_sm = 4,
                             .regs_sm = 65536,
                             .regs_block = 65536,
                             .max_regs_thread = 255,
                             .shared_sm = 64 * 1024,
                             .shared_block = 48 * 1024,
                             .shared_block_optin = 63 * 1024,
                             .shared_reserved = 1024,
                             .reg_unit = 256,
                             .shared_unit = 128,
                             .fp32_lanes = 128,
                             .fp64_lanes = 64,
                             .int_lanes = 64,
                             .sfu_lanes = 16,
                             .lsu_lanes = 32,
                             .tensor_flops = 1024,
                             .launch_us = 5,
                             .graph_launch_us = 1,
                             .event_us = 0.5,
                             .memcpy_gbps = 10};
}

/* 1,000 instructions a thread, 128 threads: issue 1 us of an SM, floor 2 us. */
static struct sg_work plain(uint32_t blocks)
{
    struct sg_work w = {.kind = SG_WORK_KERNEL, .blocks = blocks, .threads = 128, .in_graph = true};
    w.stats.instructions = (uint64_t)blocks * 128 * 1000;
    w.stats.max_block_share = 1;
    return w;
}

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-6 * (1 + fabs(want)))
        fail_msg("got %.9f, want %.9f", got, want);
}

static void one(struct sg_work w, double want)
{
    struct sg_model m = toy();
    assert_int_equal(sg_timeline(&m, &w, 1), 0);
    near(w.end_us - w.start_us, want);
    near(w.start_us, 1);
}

static void waves(void **state)
{
    one(plain(1), 2);
    one(plain(8), 2);            /* two a SM: 2 x 1 us of issue hide in the floor */
    one(plain(16), 4);           /* four a SM: issue-bound */
    one(plain(32), 8);           /* two waves */
    one(plain(17), 6);           /* a wave and one block's floor */
    one(plain(16 * 1000), 4000); /* more waves than are simulated one by one */
    struct sg_work w = plain(16);
    w.shared_bytes = 40 * 1024; /* one block a SM: four waves of the floor */
    one(w, 8);
    w = plain(1);
    w.stats.instructions = 32 * 1000; /* one warp of four does it all: three idle ones make it no faster */
    w.stats.longest = 1000;
    one(w, 2);
    w = plain(4);
    w.stats.max_block_share = 3; /* one block is three times the mean */
    one(w, 6);
    w = plain(0);
    one(w, 0);
}

static void pipes(void **state)
{
    struct sg_work w = plain(16);
    w.stats.fp64 = w.stats.instructions; /* 64 lanes: twice the issue time */
    one(w, 8);
    w = plain(16);
    w.stats.sfu = w.stats.instructions; /* 16 lanes */
    one(w, 32);
    w = plain(16);
    w.threads = 16; /* 16 lanes of a warp cost as much as 32, and one scheduler of four issues them */
    w.stats.instructions = 16 * 16 * 1000;
    one(w, 2);
    w = plain(4);
    w.threads = 32;
    w.stats.instructions = 0;
    w.stats.tensor_flops = 4 * 1024 * 1000; /* 1 us of the SM's tensor units, one warp: a quarter of it */
    one(w, 4);
}

static void bandwidth(void **state)
{
    struct sg_model m = toy();
    m.dram_gbps = 1;
    struct sg_work w = plain(16);
    w.stats.unique_read_bytes = 60000;
    w.stats.unique_write_bytes = 40000;
    assert_int_equal(sg_timeline(&m, &w, 1), 0);
    near(w.end_us - w.start_us, 100);
    m.l2_bytes = 200000; /* all of it stays in L2 */
    assert_int_equal(sg_timeline(&m, &w, 1), 0);
    near(w.end_us - w.start_us, 4);
    m.l2_bytes = 50000; /* half misses */
    assert_int_equal(sg_timeline(&m, &w, 1), 0);
    near(w.end_us - w.start_us, 50);
    m.l2_gbps = 1;
    m.l2_bytes = 200000;
    w.stats.global_read_bytes = 100000;
    assert_int_equal(sg_timeline(&m, &w, 1), 0);
    near(w.end_us - w.start_us, 100);
}

static void launches(void **state)
{
    struct sg_model m = toy();
    struct sg_work w[10];
    uint32_t before[10];
    for (uint32_t i = 0; i < 10; i++) {
        w[i] = plain(1);
        before[i] = i - 1;
        w[i].after = &before[i];
        w[i].nafter = i > 0;
    }
    assert_int_equal(sg_timeline(&m, w, 10), 0);
    near(w[9].end_us, 30); /* in a graph: 1 us to launch, 2 us to run */
    for (uint32_t i = 0; i < 10; i++)
        w[i].in_graph = false;
    assert_int_equal(sg_timeline(&m, w, 10), 0);
    near(w[9].end_us, 52); /* the host issues one every 5 us */
}

static void together(void **state)
{
    struct sg_model m = toy();
    struct sg_work w[2] = {plain(2), plain(2)};
    assert_int_equal(sg_timeline(&m, w, 2), 0);
    near(w[0].end_us, 3);
    near(w[1].end_us, 3); /* side by side */
    w[0] = plain(16), w[1] = plain(16);
    assert_int_equal(sg_timeline(&m, w, 2), 0);
    near(w[0].end_us, 5);
    near(w[1].end_us, 9); /* no room: in program order */
    w[0] = plain(17), w[1] = plain(1);
    assert_int_equal(sg_timeline(&m, w, 2), 0);
    near(w[0].end_us, 7);
    near(w[1].end_us, 7); /* runs in the tail of the first */
    w[0].shared_bytes = 64 * 1024;
    assert_int_equal(sg_timeline(&m, w, 2), DT_E_LAUNCH);
}

static void copies(void **state)
{
    struct sg_model m = toy();
    uint32_t zero = 0, one_ = 1, two = 2;
    struct sg_work w[4] = {{.kind = SG_WORK_COPY, .bytes = 20000},
                           {.kind = SG_WORK_EVENT, .after = &zero, .nafter = 1},
                           {.kind = SG_WORK_HOST, .after = &one_, .nafter = 1},
                           {.kind = SG_WORK_COPY, .bytes = 10000}};
    (void)two;
    assert_int_equal(sg_timeline(&m, w, 4), 0);
    near(w[0].start_us, 5);
    near(w[0].end_us, 7);
    near(w[1].end_us, 7);
    near(w[2].end_us, 7);
    near(w[3].start_us, 12); /* the host waited, then issued */
    near(w[3].end_us, 13);
    w[0].after = &two, w[0].nafter = 1;
    assert_int_equal(sg_timeline(&m, w, 4), DT_E_USAGE);
}

static void repeatable(void **state)
{
    struct sg_work a[64], b[64];
    uint32_t dep[64];
    for (int pass = 0; pass < 2; pass++) {
        struct sg_work *w = pass ? b : a;
        for (uint32_t i = 0; i < 64; i++) {
            w[i] = plain(1 + i * 37 % 500);
            w[i].stats.unique_read_bytes = i * 77777;
            w[i].stats.global_read_bytes = i * 177777;
            w[i].stats.memory = i * 999;
            w[i].stats.max_block_share = 1 + i * 0.01;
            w[i].registers = 16 + i;
            dep[i] = i / 2;
            w[i].after = &dep[i];
            w[i].nafter = i > 1 ? 1 : 0;
        }
        assert_int_equal(sg_timeline(sg_model_find("h200"), w, 64), 0);
    }
    for (uint32_t i = 0; i < 64; i++) {
        assert_true(a[i].end_us == b[i].end_us);
        assert_true(a[i].end_us > a[i].start_us && a[i].start_us > 0);
    }
}

static void occupancy(void **state)
{
    const struct sg_model *h = sg_model_find(NULL);
    assert_string_equal(h->id, "h200");
    assert_null(sg_model_find("geforce"));
    assert_int_equal(sg_occupancy(h, 256, 32, 0).blocks_per_sm, 8);
    assert_int_equal(sg_occupancy(h, 256, 64, 0).blocks_per_sm, 4);
    assert_int_equal(sg_occupancy(h, 256, 80, 0).blocks_per_sm, 3); /* 24 warps */
    assert_string_equal(sg_occupancy(h, 256, 80, 0).limit, "registers");
    assert_int_equal(sg_occupancy(h, 32, 16, 0).blocks_per_sm, 32);
    assert_string_equal(sg_occupancy(h, 32, 16, 0).limit, "blocks");
    assert_int_equal(sg_occupancy(h, 128, 32, 100 * 1024).blocks_per_sm, 2);
    assert_int_equal(sg_occupancy(h, 128, 32, 227 * 1024).blocks_per_sm, 1);
    assert_int_equal(sg_occupancy(h, 128, 32, 227 * 1024 + 1).blocks_per_sm, 0);
    assert_int_equal(sg_occupancy(h, 1024, 128, 0).blocks_per_sm, 0);
    for (size_t i = 0; sg_model_at(i); i++)
        assert_ptr_equal(sg_model_find(sg_model_at(i)->id), sg_model_at(i));
}

/* Where blocks ran: neighbours that do the same are one span; nothing is lost, and the times are the timeline's. */
static void spans(void **state)
{
    struct sg_model m = toy();
    struct sg_span p[SG_SPANS(2)];
    uint32_t first = 0;
    size_t n;
    /* ten blocks on 4 SMs of 4 places each: three on two of them, two on the others */
    struct sg_work w[2] = {plain(10), plain(2)};
    w[1].after = &first;
    w[1].nafter = 1;
    assert_int_equal(sg_timeline_spans(&m, w, 2, 0, p, &n), 0);
    assert_int_equal(n, 3);
    assert_true(p[0].work == 0 && p[0].first_sm == 0 && p[0].last_sm == 1 && p[0].blocks == 6);
    assert_true(p[1].work == 0 && p[1].first_sm == 2 && p[1].last_sm == 3 && p[1].blocks == 4);
    assert_true(p[2].work == 1 && p[2].first_sm == 0 && p[2].last_sm == 1 && p[2].blocks == 2);
    near(p[0].mean, 3);
    near(p[1].mean, 2);
    near(p[2].mean, 1);
    near(p[0].begin_us, w[0].start_us);
    near(p[0].end_us, w[0].end_us);
    assert_true(p[1].end_us < p[0].end_us);
    near(p[2].begin_us, w[1].start_us);
    near(p[2].end_us, w[1].end_us);
    struct sg_work again[2] = {plain(10), plain(2)};
    again[1].after = &first;
    again[1].nafter = 1;
    assert_int_equal(sg_timeline(&m, again, 2), 0);
    near(again[1].end_us, w[1].end_us);
    /* two waves and a tail on every SM: one span, in which 4 and then fewer run at once */
    struct sg_work waves = plain(36);
    assert_int_equal(sg_timeline_spans(&m, &waves, 1, 0, p, &n), 0);
    assert_int_equal(n, 1);
    assert_true(p[0].blocks == 36 && p[0].last_sm == 3 && p[0].mean > 3 && p[0].mean < 4);
    /* a copy runs on none */
    struct sg_work copy = {.kind = SG_WORK_COPY, .bytes = 1000};
    assert_int_equal(sg_timeline_spans(&m, &copy, 1, 0, p, &n), 0);
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waves),      cmocka_unit_test(pipes),     cmocka_unit_test(bandwidth),
        cmocka_unit_test(launches),   cmocka_unit_test(together),  cmocka_unit_test(copies),
        cmocka_unit_test(repeatable), cmocka_unit_test(occupancy), cmocka_unit_test(spans)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
