/* softgpu/exec/profile.c: what a block alone on an SM takes, as it is followed. The PTX of each case differs from the
 * one that it is compared with by what it is about. Clocks of an issue more or less are let pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softgpu/exec/profile-priv.h"
#include "softgpu/sg.h"

static const struct sg_model *model;

/* So many blocks of so many threads; %a is the address of 64 KiB, %t the thread. */
static struct sg_profile follow_grid(const char *body, uint32_t threads, uint32_t blocks)
{
    char text[4096];
    struct sg_device *dev;
    struct sg_module *m;
    struct dt_err e = {0};
    struct sg_stats s;
    struct sg_fault f = {0};
    uint64_t x;
    assert_int_equal(sg_device_new(model, &dev), 0);
    assert_int_equal(sg_mem_alloc(dev, 65536, &x), 0);
    memset((void *)(uintptr_t)x, 0, 65536);
    snprintf(text, sizeof text,
             ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n.reg .pred %%p; "
             ".reg .b32 %%t, %%r<8>; .reg .b64 %%a, %%o; .reg .f64 %%d<32>; .shared .align 16 .b8 sh[32768];\n"
             "ld.param.u64 %%a, [x]; mov.u32 %%t, %%tid.x; mov.f64 %%d0, 0d3FF0000000000000;\n%s\nret;\n}\n",
             body);
    int r = sg_module_load(dev, text, strlen(text), &m, &e);
    if (r < 0)
        print_error("%s\n", e.detail ? e.detail : dt_err_text(r));
    assert_int_equal(r, 0);
    struct sg_launch l = {.kernel = sg_module_kernel(m, "k"), .grid = {blocks, 1, 1}, .block = {threads, 1, 1}};
    l.params = (const uint8_t *)&x;
    assert_non_null(l.kernel);
    assert_int_equal(sg_execute(dev, &l, &s, &f), 0);
    assert_true(s.profile.alone_near > 0);
    sg_module_free(m);
    assert_int_equal(sg_mem_free(dev, x), 0);
    sg_device_free(dev);
    dt_err_done(&e);
    return s.profile;
}

static struct sg_profile follow(const char *body, uint32_t threads) { return follow_grid(body, threads, 1); }

static double home(void)
{
    double ns = model->l2_halves > 1 ? (model->l2_near_ns + model->l2_far_ns) / 2 : model->l2_near_ns;
    return ns * model->clock_khz * 1e-6;
}

static void about(const char *what, double is, double want)
{
    if (is < want - 40 || is > want + 40)
        fail_msg("%s: %.0f clocks, not %.0f", what, is, want);
}

static double more(const char *with, const char *without, uint32_t threads)
{
    return (double)follow(with, threads).alone_near - (double)follow(without, threads).alone_near;
}

#define STORE "st.global.u32 [%a], %t;\n"

static void test_fences(void **state)
{
    (void)state;
    double trips = model->k.fence_trips * home();
    about("membar.gl", more(STORE "membar.gl;", STORE, 32), trips);
    about("fence", more(STORE "fence.acq_rel.gpu;", STORE, 32), trips);
    about("twice", more(STORE "membar.gl;\n" STORE "membar.sys;", STORE STORE, 32), 2 * trips);
    about("within the block", more(STORE "membar.cta; fence.acq_rel.cta;", STORE, 32), 0);
    about("release", more("red.release.gpu.global.add.u32 [%a], 1;", "red.global.add.u32 [%a], 1;", 32),
          model->k.release_trips * home());
    about("release to the block", more("red.release.cta.global.add.u32 [%a], 1;", "red.global.add.u32 [%a], 1;", 32),
          0);
    assert_int_equal(follow(STORE "membar.gl;", 32).fences, model->k.fence_trips * (unsigned)(home() + 0.5));
    assert_int_equal(follow(STORE, 32).fences, 0);
    /* those of several warps come one after the other, as is seen where they meet */
    about("32 warps",
          more("bar.sync 0; membar.gl; bar.sync 0;", "bar.sync 0; bar.sync 0;", 1024) -
              more("bar.sync 0; membar.gl; bar.sync 0;", "bar.sync 0; bar.sync 0;", 32),
          31 * model->k.fence_warp);
}

/* A loop that waits for a flag takes one look, however many rounds it was executed for. */
static void test_looks(void **state)
{
    (void)state;
    char loop[256];
    double took[2];
    for (int k = 0; k < 2; k++) {
        snprintf(loop, sizeof loop,
                 "mov.u32 %%r1, 0;\nL: ld.volatile.global.u32 %%r2, [%%a]; add.u32 %%r2, %%r2, 1; add.u32 %%r1, %%r1, "
                 "%%r2; setp.lt.u32 %%p, %%r1, %d; @%%p bra L;",
                 k ? 6 : 1);
        took[k] = (double)follow(loop, 32).alone_near;
    }
    assert_true(took[1] - took[0] < home()); /* five looks are 1.5 each */
}

/* What was copied is waited for where the text says so. */
static void test_copies(void **state)
{
    (void)state;
    static const char copy[] = "mov.u32 %r1, sh; cp.async.ca.shared.global [%r1], [%a], 16;\ncp.async.commit_group;\n",
                      load[] = "ld.shared.u32 %r2, [%r1]; st.global.u32 [%a+4096], %r2;\n";
    char with[1024], without[1024];
    snprintf(with, sizeof with, "%scp.async.wait_group 0;\n%s", copy, load);
    snprintf(without, sizeof without, "%s%s", copy, load);
    double clocks = more(with, without, 32), l2 = model->l2_near_ns * model->clock_khz * 1e-6;
    if (clocks < l2 / 2 || clocks > 2 * l2)
        fail_msg("waiting takes %.0f clocks, the L2 %.0f", clocks, l2);
}

/* Warps meet when the SM has done what all of them asked of it: of FP64, two lanes a clock here. */
static void test_meet(void **state)
{
    (void)state;
    char body[2048] = "", *at = body;
    for (int k = 1; k <= 16; k++)
        at += sprintf(at, "mul.rn.f64 %%d%d, %%d0, %%d0;\n", k);
    sprintf(at, "bar.sync 0;\n");
    double lanes = model->fp64_lanes, need = 16 * 32 * 32 / lanes;
    struct sg_profile p = follow(body, 1024);
    assert_true((double)p.alone_near >= need);
    assert_true((double)p.alone_near < need * 1.1);
    assert_true((double)follow(body, 32).alone_near < need / 4);
}

/* Without a barrier, too, a block takes no less than what it asks of the SM, from when its operands are there. */
static void test_done(void **state)
{
    (void)state;
    double need = 4 * 32 * 32 / (double)model->fp64_lanes, l2 = model->l2_near_ns * model->clock_khz * 1e-6;
    struct sg_profile p = follow("ld.global.f64 %d1, [%a]; mul.rn.f64 %d2, %d1, %d1; mul.rn.f64 %d3, %d1, %d1; "
                                 "mul.rn.f64 %d4, %d1, %d1; mul.rn.f64 %d5, %d1, %d1;",
                                 1024);
    about("multiplications behind a load", (double)p.done_near, need + l2);
    assert_true(p.alone_near < p.done_near);
}

/* Words of one 16 bytes that can be seen to be aligned are one load; not so behind a thread's number, across a store,
 * or where a word is missing. */
static void test_joins(void **state)
{
    (void)state;
#define AT(reg, byte) "ld.shared.b32 %r" #reg ", [%r1+" #byte "];\n"
#define USE "add.s32 %r2, %r2, %r3; add.s32 %r2, %r2, %r4; add.s32 %r2, %r2, %r5; st.global.b32 [%a], %r2;\n"
    static const char whole[] = AT(2, 32) AT(3, 36) AT(4, 40) AT(5, 44) USE, row[] = "mov.u32 %r1, sh;\n",
                      tile[] = "mov.u32 %r0, sh; mad.lo.u32 %r1, %t, 48, %r0;\n",
                      word[] = "mov.u32 %r0, sh; mad.lo.u32 %r1, %t, 4, %r0;\n",
                      pair[] = "mov.u32 %r0, sh; shl.b32 %r6, %t, 3; add.u32 %r1, %r6, %r0;\n";
    const struct {
        const char *base, *loads;
        unsigned slots;
    } cases[] = {
        {row, whole, 1},
        {tile, whole, 1},
        {word, whole, 4},
        {pair, whole, 2},
        {row, AT(2, 32) AT(3, 36) AT(4, 40) "st.shared.b32 [%r1+64], %t;\n" AT(5, 44) USE, 4},
        {row, AT(2, 32) AT(3, 36) AT(4, 40) AT(5, 48) USE, 3},
        {row, AT(2, 32) AT(3, 36) AT(4, 40) "add.u32 %r1, %r1, 16;\n" AT(5, 44) USE, 3},
        {row, AT(2, 36) AT(3, 40) AT(4, 44) AT(5, 48) USE, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char body[1024];
        snprintf(body, sizeof body, "%s%s", cases[i].base, cases[i].loads);
        bool store = strstr(body, "st.shared") != NULL;
        uint64_t slots = follow(body, 32).slots[SG_PIPE_LSU] - 1 - store;
        if (slots != cases[i].slots - store)
            fail_msg("case %zu: %u loads, not %u", i, (unsigned)slots, cases[i].slots - store);
    }
    char body[1024];
    snprintf(body, sizeof body, "%s%s", tile, whole);
    assert_int_equal(follow(body, 32).shared_passes, 4); /* 8 lanes at a time, 48 bytes apart: no two in a bank */
#undef USE
#undef AT
    static const char halves[] = "ld.shared.u16 %r2, [%r1+2]; ld.shared.u16 %r3, [%r1]; add.s32 %r2, %r2, %r3; "
                                 "st.global.b32 [%a], %r2;\n";
    for (unsigned k = 0; k < 2; k++) {
        snprintf(body, sizeof body, "%s%s", k ? "mov.u32 %r0, sh; mad.lo.u32 %r1, %t, 2, %r0;\n" : word, halves);
        assert_int_equal(follow(body, 32).slots[SG_PIPE_LSU], 2 + k);
    }
    /* what waits for lanes keeps the pipe, too */
    assert_int_equal(follow("mov.u32 %r1, sh; ld.shared.b32 %r2, [%r1]; st.global.b32 [%a], %r2;", 32).shared_passes,
                     32 / model->lsu_lanes);
}

/* A line that another load asked for is there when that one has it. */
static void test_under_way(void **state)
{
    (void)state;
    double l2 = model->l2_near_ns * model->clock_khz * 1e-6;
    about("two loads of a line",
          more("ld.global.b32 %r0, [%a]; ld.global.b32 %r1, [%a+4]; add.s32 %r2, %r1, 1; st.shared.b32 [sh], %r2;",
               "mov.u32 %r1, 1; add.s32 %r2, %r1, 1; st.shared.b32 [sh], %r2;", 32),
          l2);
}

/* The last warp has what it asked for when the SM's way from the L2 has carried what the others asked for, too: once,
 * as they are apart afterwards. */
#define LOAD "mul.wide.u32 %o, %t, 8; add.u64 %a, %a, %o; ld.global.b64 %o, [%a];\n"
static void test_queued(void **state)
{
    (void)state;
    double sectors = 1024 * 8 / 32, way = sectors * 31 / 32 * 32 / model->k.l2_bytes_clock,
           l2 = model->l2_near_ns * model->clock_khz * 1e-6;
    static const char one[] = LOAD "st.shared.b64 [sh], %o;", meet[] = LOAD "st.shared.b64 [sh], %o; bar.sync 0;",
                      two[] = LOAD "add.u64 %a, %a, %o; ld.global.b64 %o, [%a+16384]; st.shared.b64 [sh], %o;";
    about("a load of 32 warps, and of one", (double)follow(one, 1024).alone_near - (double)follow(one, 32).alone_near,
          way);
    about("the same in front of a barrier", (double)follow(meet, 1024).alone_near - (double)follow(meet, 32).alone_near,
          way);
    about("one more behind it", more(two, one, 1024), l2);
    assert_true((double)follow(one, 1024).alone_far - (double)follow(one, 32).alone_far > way / 2);
}

/* Exact divisions and roots have a branch to a slow path: several take as long as one after the other. */
static void test_branches(void **state)
{
    (void)state;
    static const char one[] = "cvt.rn.f32.u32 %r0, %t; rcp.rn.f32 %r1, %r0; st.shared.b32 [sh], %r1;\n";
    about("three more reciprocals",
          more("cvt.rn.f32.u32 %r0, %t; rcp.rn.f32 %r1, %r0; rcp.rn.f32 %r2, %r0; rcp.rn.f32 %r3, %r0; rcp.rn.f32 %r4, "
               "%r0; st.shared.b32 [sh], %r1;\n",
               one, 32),
          3.0 * model->k.root_clocks);
    about("approximate ones",
          more("cvt.rn.f32.u32 %r0, %t; rcp.approx.f32 %r1, %r0; rcp.approx.f32 %r2, %r0; rcp.approx.f32 %r3, %r0; "
               "rcp.approx.f32 %r4, %r0; st.shared.b32 [sh], %r1;\n",
               "cvt.rn.f32.u32 %r0, %t; rcp.approx.f32 %r1, %r0; st.shared.b32 [sh], %r1;\n", 32),
          0);
}

/* Pieces of pages that blocks write. */
static void test_written(void **state)
{
    (void)state;
    struct sg_profile p = follow("mul.wide.u32 %o, %t, 2048; add.u64 %a, %a, %o; st.global.u32 [%a], %t;\n"
                                 "st.global.u32 [%a+4], %t; st.global.u32 [%a+32], %t;",
                                 32);
    assert_int_equal(p.written, 64); /* two sectors a thread */
    assert_int_equal(p.write_pages, 16);
    p = follow_grid(STORE, 32, 2);
    assert_int_equal(p.shared_write_pages, 1000000);
}

/* Blocks whose atomics meet in a line because there are few lines are not taken for all of them. */
static void test_chance(void **state)
{
    (void)state;
    static const char mine[] = "mov.u32 %r0, %ctaid.x; and.b32 %r0, %r0, 3; mad.lo.u32 %r0, %r0, 32, %t; "
                               "mul.wide.u32 %o, %r0, 4; add.u64 %a, %a, %o; red.global.add.u32 [%a], 1;",
                      all[] = "mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; red.global.add.u32 [%a], 1;";
    uint64_t one = follow_grid(all, 32, 128).hot, four = follow_grid(mine, 32, 128).hot;
    assert_int_equal(one, 128 * 4); /* a line's sectors each */
    assert_in_range(four, one / 4 - 2, one / 4 + 2);
}

/* The sectors of a line come one after the other, and so do the lanes of an address: as many clocks for 4 lanes each of
 * 8 words as for 2 of 16, or for 32 words. */
static void test_sectors(void **state)
{
    (void)state;
    for (unsigned words = 1; words <= 32; words *= 2) {
        char body[256];
        snprintf(body, sizeof body,
                 "and.b32 %%r0, %%t, %u; mul.wide.u32 %%o, %%r0, 4; add.u64 %%a, %%a, %%o; red.global.add.f32 [%%a], "
                 "0f00000000;",
                 words - 1);
        assert_int_equal(follow(body, 32).hot, words < 8 ? 32 / words : 4);
    }
}

/* The time of a kernel that moves so many bytes, and a part of them to memory; `deep`: from and to DRAM. */
static double moves(const struct sg_model *m, double write, bool deep, bool atomics)
{
    struct sg_work w = {.kind = SG_WORK_KERNEL, .threads = 256, .registers = 32, .in_graph = true};
    struct sg_profile *p = &w.stats.profile;
    double bytes = deep ? 8.0 * (double)m->l2_bytes : 0.25 * (double)m->l2_bytes,
           rate = deep ? m->dram_gbps * m->dram_sustained : m->l2_gbps, at_once = m->sms * 6.0;
    w.blocks = m->sms * 6 * 16;
    w.stats.instructions = 1000000000;
    w.stats.max_block_share = 1;
    w.stats.unique_read_bytes = (uint64_t)(bytes * (1 - write));
    w.stats.unique_write_bytes = (uint64_t)(bytes * write);
    p->l2_read = w.stats.unique_read_bytes / 32;
    p->l2_write = w.stats.unique_write_bytes / 32;
    p->atomics = atomics;
    /* alone, all blocks that run at once ask for what DRAM has, or four times what the L2 has */
    p->alone_near = p->alone_far =
        (uint64_t)(bytes / w.blocks * at_once / (rate * 1000) * m->clock_khz / 1000 / (deep ? 1 : 4)) * w.blocks;
    assert_int_equal(sg_timeline(m, &w, 1), 0);
    return w.end_us - w.start_us;
}

/* DRAM that is read and written at once is used up earlier, HBM's; the L2 of one half carries both ways at once. */
static void test_both_ways(void **state)
{
    (void)state;
    const struct sg_model *hbm = sg_model_find("h200");
    double mixed = moves(hbm, 0.5, true, false) / moves(hbm, 0, true, false);
    assert_true(mixed > 1.1 && mixed < 1.25);
    assert_true(moves(hbm, 1, true, false) < moves(hbm, 0, true, false) * 1.01);
    mixed = moves(model, 0.5, true, false) / moves(model, 0, true, false);
    assert_true(mixed > 0.99 && mixed < 1.01);
    assert_true(moves(model, 0.5, false, false) < moves(model, 0, false, false) * 0.9);
    assert_true(moves(model, 0.5, false, true) > moves(model, 0, false, false) * 0.99);
    assert_true(moves(hbm, 0.5, false, false) > moves(hbm, 0, false, false) * 0.99);
}

/* Blocks with hardly anything but arithmetic use their pipes up to the limit; none is faster than what it asks for. */
static void test_steady(void **state)
{
    (void)state;
    double took[3];
    for (int k = 0; k < 3; k++) {
        struct sg_work w = {.kind = SG_WORK_KERNEL, .blocks = 1, .threads = 128, .registers = 32, .in_graph = true};
        struct sg_profile *p = &w.stats.profile;
        w.stats.instructions = 1000000;
        w.stats.max_block_share = 1;
        p->alone_near = p->alone_far = 10000;
        p->slots[SG_PIPE_FMA] = 36000; /* nine tenths of what an SM does meanwhile */
        p->slots[SG_PIPE_LSU] = k == 1 ? 1000 : 0;
        p->done_near = p->done_far = k == 2 ? 20000 : 0;
        assert_int_equal(sg_timeline(model, &w, 1), 0);
        took[k] = w.end_us - w.start_us;
    }
    assert_true(took[1] > took[0] * 1.1);
    assert_true(took[2] > took[0] * 1.5);
}

/* Passes over shared memory, counted by what they are: of each part of a warp, the words of the bank that has most. */
static unsigned by_hand(const uint64_t *addr, uint32_t mask, unsigned bytes, unsigned *words)
{
    unsigned parts = bytes <= 4 ? 1 : bytes / 4, passes = 0;
    for (unsigned q = 0; q < parts; q++) {
        uint64_t word[128];
        unsigned n = 0, most = 0, bank[32] = {0};
        for (unsigned l = q * 32 / parts; l < (q + 1) * 32 / parts; l++)
            for (uint64_t at = addr[l] >> 2; mask >> l & 1 && at <= (addr[l] + bytes - 1) >> 2; at++) {
                unsigned i = 0;
                while (i < n && word[i] != at)
                    i++;
                if (i == n) {
                    word[n++] = at;
                    most = ++bank[at & 31] > most ? bank[at & 31] : most;
                }
            }
        passes += most;
        *words += n;
    }
    return passes ? passes : 1;
}

static void test_banks(void **state)
{
    (void)state;
    uint64_t r = 1;
    struct pattern patterns[2] = {0};
    static struct sg_profiler kept;
    static const struct sg_op op[3] = {{.site = 0}, {.site = 1}, {.site = 2}};
    kept.pattern = patterns;
    kept.npattern = 2;
    for (unsigned i = 0; i < 40000; i++) {
        uint64_t addr[32], x[4];
        for (unsigned k = 0; k < 4; k++)
            x[k] = (r = r * 6364136223846793005u + 1442695040888963407u) >> 33;
        unsigned bytes = 1u << x[0] % 5, words[2] = {0, 0}, unit = i % 7 ? bytes : 1, shape = (unsigned)(x[1] % 5);
        uint32_t mask = x[2] % 3 ? UINT32_MAX : (uint32_t)(x[2] * 0x9E3779B9u) | 1u << x[3] % 32;
        for (unsigned l = 0; l < 32; l++) {
            uint64_t k = shape == 0   ? l * (x[3] % 40)
                         : shape == 1 ? l / 2 + l % 2 * x[3] % 999
                         : shape == 2 ? l / 16 * (x[3] % 70)
                         : shape == 3 ? l % (1 + x[3] % 31) * 8
                                      : (x[3] * (l + 1)) >> 3 & 511;
            addr[l] = 0x100000 + k * unit;
        }
        if (bytes > 1)
            assert_int_equal(sg_profile_banks(addr, mask, bytes, &words[0]), by_hand(addr, mask, bytes, &words[1]));
        assert_int_equal(words[0], words[1]);
        if (bytes == 1)
            continue;
        /* what was found for an operation is taken again where its addresses have only moved, and not where one has
         * moved alone */
        for (unsigned k = 0; k < 4; k++) {
            words[0] = words[1] = 0;
            assert_int_equal(sg_profile_passes(&kept, &op[i % 3], addr, mask, bytes, &words[0]),
                             by_hand(addr, mask, bytes, &words[1]));
            assert_int_equal(words[0], words[1]);
            for (unsigned l = 0; l < 32; l++)
                addr[l] += (k ? 1 : x[1] % 9) * (k == 1 ? l == x[0] % 32 : 1) * (k < 2 ? unit : x[2] % 300);
        }
    }
}

static void test_sorted(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 3000; n = n * 3 / 2 + 1) {
        uint64_t *a = calloc(n + 1, sizeof *a), r = n, sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            r = r * 6364136223846793005u + 1442695040888963407u;
            sum += a[i] = n % 3 ? r >> 20 : (r >> 50) + 0x7F0012340000;
        }
        struct sectors s = {.at = a, .n = n, .cap = n};
        sg_profile_sort(&s, n);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(!i || s.at[i - 1] <= s.at[i]);
            sum -= s.at[i];
        }
        assert_int_equal(sum, 0);
        assert_ptr_equal(s.at, a);
        free(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_done),     cmocka_unit_test(test_joins),     cmocka_unit_test(test_under_way),
        cmocka_unit_test(test_branches), cmocka_unit_test(test_written),   cmocka_unit_test(test_chance),
        cmocka_unit_test(test_steady),   cmocka_unit_test(test_fences),    cmocka_unit_test(test_looks),
        cmocka_unit_test(test_copies),   cmocka_unit_test(test_meet),      cmocka_unit_test(test_queued),
        cmocka_unit_test(test_sectors),  cmocka_unit_test(test_both_ways), cmocka_unit_test(test_banks),
        cmocka_unit_test(test_sorted),
    };
    model = sg_model_find("l4");
    return model ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
