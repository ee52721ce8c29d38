/* The timing model against measurements that others published, and the table of figures itself.
 *
 * te42kyfo/gpu-benches (commit 1c36d50, gpu-small-kernels) queues thousands of launches of A[i] = B[i] * 0.25 on
 * doubles, every launch depending on the one before, and prints bytes over time for one launch: as stream launches, and
 * with -graph as one graph. That is this file's reference: nothing in it comes from the model. The kernel is run on the
 * executor for its counts, then put on the timeline three times. Blocks of 256 threads. The L40's rows are not used:
 * the model has an L4, with fewer SMs and less L2.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "softgpu/sg.h"

enum { FITTED_ROWS = 880 }; /* of tests/published/ that are not held */

static const char scale[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry scale(.param .u64 a, .param .u64 b, .param .u32 n)\n"
    "{\n"
    " .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f64 %fd<3>; .reg .b64 %rd<8>;\n"
    " ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r2, [n];\n"
    " mov.u32 %r3, %ntid.x; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r1, %r4, %r3, %r5;\n"
    " setp.ge.s32 %p1, %r1, %r2; @%p1 bra $L;\n"
    " cvta.to.global.u64 %rd3, %rd2; mul.wide.s32 %rd4, %r1, 8; add.s64 %rd5, %rd3, %rd4;\n"
    " ld.global.nc.f64 %fd1, [%rd5]; mul.f64 %fd2, %fd1, 0d3FD0000000000000;\n"
    " cvta.to.global.u64 %rd6, %rd1; add.s64 %rd7, %rd6, %rd4; st.global.f64 [%rd7], %fd2;\n"
    "$L: ret;\n}\n";

/* the model counts the two buffers again for every launch: few, so that what fits the L2 does so here */
enum { PERIODS = 3 };

static struct sg_work launch(const struct sg_model *m, uint32_t n)
{
    struct sg_device *d;
    struct sg_module *mod;
    struct dt_err e;
    uint64_t buffer;
    struct {
        uint64_t a, b;
        uint32_t n;
    } args;
    assert_int_equal(sg_device_new(m, &d), 0);
    assert_int_equal(sg_module_load(d, scale, strlen(scale), &mod, &e), 0);
    assert_int_equal(sg_mem_alloc(d, (uint64_t)n * 16, &buffer), 0);
    args.a = buffer, args.b = buffer + (uint64_t)n * 8, args.n = n;
    struct sg_launch l = {.kernel = sg_module_kernel(mod, "scale"),
                          .grid = {n / 256 + 1, 1, 1},
                          .block = {256, 1, 1},
                          .params = (const uint8_t *)&args};
    struct sg_work w = {.kind = SG_WORK_KERNEL, .blocks = l.grid[0], .threads = 256};
    struct sg_fault fault;
    w.registers = sg_kernel_info(l.kernel)->registers;
    assert_int_equal(sg_execute(d, &l, &w.stats, &fault), 0);
    assert_int_equal(sg_mem_free(d, buffer), 0);
    sg_module_free(mod);
    sg_device_free(d);
    return w;
}

static double period(const struct sg_model *m, struct sg_work one, bool graph)
{
    struct sg_work w[PERIODS];
    uint32_t before[PERIODS];
    for (uint32_t i = 0; i < PERIODS; i++) {
        w[i] = one;
        w[i].in_graph = graph;
        before[i] = i - 1;
        w[i].after = &before[i];
        w[i].nafter = i > 0;
    }
    assert_int_equal(sg_timeline(m, w, PERIODS), 0);
    return (w[PERIODS - 1].end_us - w[0].end_us) / (PERIODS - 1);
}

static void within(const char *what, double got, double want, double part)
{
    if (got < want * (1 - part) || got > want * (1 + part))
        fail_msg("%s: %.2f us, measured %.2f", what, got, want);
}

static void small_kernels(void **state)
{
    static const struct {
        const char *id;
        uint32_t n;
        double stream, graph; /* GB/s, as printed there */
    } rows[] = {/* the file of the A100 has other block sizes than main.cu; at this size they hardly matter */
                {"a100", 4096, 24, 46},       {"h200", 4096, 26, 51},        {"h200", 11678, 73, 143},
                {"h200", 33317, 205, 379},    {"h200", 95080, 572, 999},     {"h200", 271378, 1342, 2192},
                {"h200", 774587, 2722, 3652}, {"h200", 10661781, 3193, 3297}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct sg_model *m = sg_model_find(rows[i].id);
        struct sg_work w = launch(m, rows[i].n);
        double bytes = 16e-3 * rows[i].n, stream = period(m, w, false), graph = period(m, w, true);
        char what[64];
        snprintf(what, sizeof what, "%s, %u doubles", rows[i].id, rows[i].n);
        print_message("%-22s stream %6.2f us (measured %6.2f)   graph %6.2f us (measured %6.2f)\n", what, stream,
                      bytes / rows[i].stream, graph, bytes / rows[i].graph);
        bool small = rows[i].n < 100000; /* larger ones: the model reaches its peaks at once, a GPU ramps up */
        within(what, stream, bytes / rows[i].stream, small ? 0.1 : 0.5);
        within(what, graph, bytes / rows[i].graph, small ? 0.2 : 0.4);
    }
}

/* Every number of every model says where it comes from; nothing of struct sg_model that the timeline reads is left at
 * 0. Fitted ones, counted once for each value that differs between architectures, are at most one for ten rows that are
 * not held (FITTED_ROWS; the test `published` counts them). */
static void figures(void **state)
{
    struct sg_figure f;
    size_t model = 0, n = 0, fitted = 0;
    for (; sg_model_at(model); model++) {
        size_t count = 0;
        for (; sg_model_figure(model, count, &f); count++) {
            bool fit = !strncmp(f.source, "fitted: ", 8);
            assert_true(strlen(f.source) > (fit ? 9 : 20));
            assert_int_equal(fit, f.high > 0);
            if (fit)
                assert_true(0 < f.low && f.low <= f.value && f.value <= f.high);
            fitted += fit && !model ? f.values : 0;
            bool clusters = !strcmp(f.field, "dsm_ns") || !strcmp(f.field, "dsm_bytes_clock") ||
                            !strcmp(f.field, "cluster_sync_ns");
            assert_true(f.value > 0 || !strcmp(f.field, "cc_minor") || (clusters && sg_model_at(model)->cc_major < 9));
        }
        assert_true(!n || n == count);
        n = count;
        assert_true(fitted > 0 && fitted * 10 <= FITTED_ROWS);
        /* all members behind the two names have 4 or 8 bytes: as many figures as members */
        size_t bytes = sizeof(struct sg_model) - offsetof(struct sg_model, cc_major);
        assert_true(count * 4 <= bytes && bytes <= count * 8);
        assert_false(sg_model_figure(model, count, &f));
    }
    assert_int_equal(model, 6);
    assert_false(sg_model_figure(model, 0, &f));
    /* constants by name, of either kind */
    struct sg_model own;
    const char *at;
    assert_true(sg_model_with(sg_model_find("h200"), "cc_major=8,taken=9,sms=4,l2_clock_ns=0.5", &own, &at));
    assert_int_equal(own.k.taken, 9);
    assert_true(own.k.l2_clock_ns == 0.5 && own.k.neighbours == sg_model_find("a100")->k.neighbours);
    assert_false(sg_model_with(sg_model_find("h200"), "take=9", &own, &at));
    assert_false(sg_model_with(sg_model_find("h200"), "taken=0", &own, &at));
    /* data sheets: peak f32 = 2 x lanes x SMs x clock, within their rounding */
    static const struct {
        const char *id;
        double fp32, fp64, tensor;
    } peak[] = {{"a100", 19.5, 9.7, 312}, {"h100", 67, 34, 989.4}, {"h200", 67, 34, 989.4},
                {"l4", 30.3, 0.49, 121},  {"b200", 75, 37, 2250},  {"rtx5090", 104.8, 1.64, 209.5}};
    for (size_t i = 0; i < sizeof peak / sizeof *peak; i++) {
        const struct sg_model *m = sg_model_find(peak[i].id);
        double clocks = m->sms * (m->clock_khz / 1e9);
        within("fp32", 2 * m->fp32_lanes * clocks, peak[i].fp32, 0.01);
        within("fp64", 2 * m->fp64_lanes * clocks, peak[i].fp64, 0.04);
        within("tensor", m->tensor_flops * clocks, peak[i].tensor, 0.01);
        within("dram", m->bus_bits / 8.0 * 2 * m->mem_clock_khz / 1e6, m->dram_gbps, 0.03);
        assert_true(m->l2_far_ns >= m->l2_near_ns && m->dram_latency_ns > m->l2_far_ns);
        assert_true(m->dram_sustained <= 1 && m->shared_block_optin + m->shared_reserved <= m->shared_sm);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_kernels), cmocka_unit_test(figures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
