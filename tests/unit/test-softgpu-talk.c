/* Blocks of one launch that wait for each other: what the executor records of it, and its time by closed forms.
 *
 * g: what a launch in a graph takes; d(n): a block of n instructions a thread alone, with one round trip to the L2 for
 * its number, three where it may wait. 128 threads have two issue slots in four of an SM, so two working blocks on it
 * do not slow each other down.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "softgpu/sg.h"

enum { MOST = 8192, N = 20000 };

static const struct sg_model *m;
static struct sg_talk_part part[4];
static double share[MOST];
static uint32_t wait_at[MOST + 1], signal_at[MOST + 1], who[MOST];
static struct sg_talk_wait wait_for[MOST];

static double d(uint32_t n, bool waits)
{
    double l2 = m->l2_halves > 1 ? (m->l2_near_ns + m->l2_far_ns) / 2 : m->l2_near_ns;
    return 2.0 * n / (m->clock_khz / 1000.0) + m->block_start_ns / 1000 + (waits ? 3 : 1) * l2 / 1000;
}

/* Part k: `blocks` blocks of n instructions a thread; block i of it waits for flag i mod `flags`, of those before (0:
 * for nothing). Each block signals a flag of its own. Blocks of part 0 that signal flag f: f alone. */
static void add(struct sg_talk *t, uint32_t blocks, uint32_t n, uint32_t flags)
{
    struct sg_talk_part *p = &part[t->npart++];
    *p = (struct sg_talk_part){.first = t->nblock, .blocks = blocks};
    p->stats.instructions = (uint64_t)blocks * 128 * n;
    p->stats.longest = p->stats.before_wait = p->stats.before_trigger = (uint64_t)blocks * n;
    p->stats.max_block_share = 1;
    for (uint32_t i = 0; i < blocks; i++, t->nblock++) {
        share[t->nblock] = 1;
        wait_at[t->nblock + 1] = wait_at[t->nblock];
        if (flags)
            wait_for[wait_at[t->nblock + 1]++] = (struct sg_talk_wait){i % flags, 1};
        who[t->nflag++] = t->nblock;
        signal_at[t->nflag] = t->nflag;
    }
}

static struct sg_talk nothing(void)
{
    return (struct sg_talk){
        .part = part, .share = share, .wait_at = wait_at, .wait = wait_for, .signal_at = signal_at, .signal = who};
}

/* The end of a launch with that record; `shared`: bytes of shared memory a block. */
static double end_of(const struct sg_talk *t, uint32_t shared)
{
    struct sg_work w = {
        .kind = SG_WORK_KERNEL, .blocks = t->nblock, .threads = 128, .shared_bytes = shared, .in_graph = true};
    for (uint32_t p = 0; p < t->npart; p++)
        w.stats.instructions += t->part[p].stats.instructions;
    w.stats.max_block_share = 1;
    w.stats.talk = sg_talk_keep(t);
    assert_true(w.stats.talk);
    assert_int_equal(sg_talk_keep(t), w.stats.talk); /* equal ones are one */
    assert_int_equal(sg_timeline(m, &w, 1), 0);
    return w.end_us;
}

static double max(double a, double b) { return a > b ? a : b; }

static void near(const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * (1 + fabs(want))))
        fail_msg("%s: %.9g, not %.9g", what, got, want);
}

static void one_each(void **state)
{
    double g = m->graph_launch_us;
    uint32_t s = m->sms;
    struct sg_talk t = nothing();
    add(&t, s, N, 0);
    add(&t, s, N / 2, s);
    near("each waits for its own", end_of(&t, 0), g + d(N, false) + d(N / 2, true));
    near("and where one fits an SM", end_of(&t, m->shared_block_optin), g + d(N, false) + d(N / 2, true));
    share[0] = 1.5;
    near("one of them is long", end_of(&t, 0), g + 1.5 * d(N, false) + d(N / 2, true));
    share[0] = 1;
    for (uint32_t i = 0; i < s; i++)
        wait_for[i].flag = 0;
    near("all wait for the first", end_of(&t, 0), g + d(N, false) + d(N / 2, true));
    t = nothing();
    add(&t, 2 * s, N, 0);
    add(&t, s, N / 2, 1);
    near("two waves, then the others", end_of(&t, m->shared_block_optin), g + 2 * d(N, false) + d(N / 2, true));
}

/* A block that waits keeps its place, and one that is placed later and waits for nobody has to go without. */
static void holds_its_place(void **state)
{
    uint32_t s = m->sms / 2 * 2;
    double g = m->graph_launch_us;
    struct sg_model even = *m;
    const struct sg_model *was = m;
    even.sms = s;
    m = &even;
    struct sg_talk t = nothing();
    add(&t, s / 2, N, 0);
    add(&t, s / 2, N / 2, s / 2);
    /* half of them on the SMs of the first part, half on those of the second: a free SM there would save d(N / 2) */
    add(&t, s, N, 0);
    near("holds", end_of(&t, m->shared_block_optin), g + d(N, false) + d(N / 2, true) + d(N, true));
    m = was;
}

/* So many that they are not followed one by one: a part waits for all before it. */
static void many(void **state)
{
    struct sg_talk t = nothing();
    uint32_t waves = 4400 / m->sms / 2 + 1;
    add(&t, waves * m->sms, N, 0);
    add(&t, waves * m->sms, N / 2, 1);
    assert_true(t.nblock > 4096 && t.nblock <= MOST);
    near("many", end_of(&t, m->shared_block_optin), m->graph_launch_us + waves * (d(N, false) + d(N / 2, true)));
}

/* Lighter blocks behind the others, which wait for nobody: they fill what the others leave. */
static void behind(void **state)
{
    double g = m->graph_launch_us, l2 = d(0, false) - m->block_start_ns / 1000, long_us = d(N, false) - l2,
           short_us = d(N / 4, false) - l2;
    uint32_t s = m->sms;
    struct sg_talk t = nothing();
    t.apart = true;
    add(&t, s, N, 0);
    add(&t, s / 2, N / 4, 0);
    t.nflag = 0;
    near("beside them", end_of(&t, 0), g + long_us);
    near("behind them", end_of(&t, m->shared_block_optin), g + long_us + short_us);
    t = nothing();
    t.apart = true;
    add(&t, s + s / 2, N, 0);
    add(&t, 2 * s, N / 4, 0); /* of four rounds in the SMs that the second wave leaves */
    t.nflag = 0;
    near("in idle SMs", end_of(&t, m->shared_block_optin), g + long_us + max(long_us, 4 * short_us));
    struct sg_talk u = t;
    u.apart = false;
    assert_true(sg_talk_keep(&u) != sg_talk_keep(&t));
}

/* ---- what is recorded -------------------------------------------------------------------------------------------- */

/* Block t of 12 by ticket: 0 … 5 signal flag t mod 3; 6 … 11 wait until flag t mod 3 is 2. */
static const char text[] = ".version 8.0\n.target sm_70\n.address_size 64\n"
                           ".visible .entry k(.param .u64 at)\n{\n"
                           "    .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %p<4>;\n"
                           "    ld.param.u64 %rd1, [at];\n"
                           "    atom.global.add.u32 %r1, [%rd1], 1;\n"
                           "    rem.u32 %r2, %r1, 3;\n"
                           "    mul.wide.u32 %rd2, %r2, 4;\n"
                           "    add.s64 %rd2, %rd1, %rd2;\n"
                           "    setp.ge.u32 %p1, %r1, 6;\n"
                           "    @%p1 bra WAIT;\n"
                           "    red.release.gpu.global.add.u32 [%rd2+4], 1;\n"
                           "    ret;\n"
                           "WAIT:\n"
                           "    ld.acquire.gpu.global.u32 %r3, [%rd2+4];\n"
                           "    setp.lt.u32 %p2, %r3, 2;\n"
                           "    @%p2 bra WAIT;\n"
                           "    ret;\n}\n"
                           /* 60 blocks signal one flag: more than fit where its list began */
                           ".visible .entry crowd(.param .u64 at)\n{\n"
                           "    .reg .b64 %rd1; .reg .b32 %r<4>; .reg .pred %p<3>;\n"
                           "    ld.param.u64 %rd1, [at];\n"
                           "    atom.global.add.u32 %r1, [%rd1], 1;\n"
                           "    setp.ge.u32 %p1, %r1, 60;\n"
                           "    @%p1 bra WAIT;\n"
                           "    red.release.gpu.global.add.u32 [%rd1+4], 1;\n"
                           "    ret;\n"
                           "WAIT:\n"
                           "    ld.acquire.gpu.global.u32 %r3, [%rd1+4];\n"
                           "    setp.lt.u32 %p2, %r3, 60;\n"
                           "    @%p2 bra WAIT;\n"
                           "    ret;\n}\n"
/* of three blocks two long ones, then the short ones; the same in the other order */
#define TWO(name, test)                                                                                                \
    ".visible .entry " name "(.param .u64 at)\n{\n"                                                                    \
    "    .reg .b32 %r<4>; .reg .pred %p<3>;\n"                                                                         \
    "    mov.u32 %r1, %ctaid.x;\n"                                                                                     \
    "    setp." test ".u32 %p1, %r1, 24;\n"                                                                            \
    "    selp.u32 %r2, 200, 50, %p1;\n"                                                                                \
    "L:  sub.u32 %r2, %r2, 1;\n"                                                                                       \
    "    setp.ne.u32 %p2, %r2, 0;\n"                                                                                   \
    "    @%p2 bra L;\n"                                                                                                \
    "    ret;\n}\n"
    TWO("behind", "lt") TWO("before", "ge")
    /* block by block: each waits for the one before and signals; %ctaid, so another order spins */
    ".visible .entry chain(.param .u64 at)\n{\n"
    "    .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %p<4>;\n"
    "    ld.param.u64 %rd1, [at];\n"
    "    mov.u32 %r1, %ctaid.x;\n"
    "    mul.wide.u32 %rd2, %r1, 4;\n"
    "    add.s64 %rd2, %rd1, %rd2;\n"
    "    setp.eq.u32 %p1, %r1, 0;\n"
    "    @%p1 bra GO;\n"
    "WAIT:\n"
    "    ld.acquire.gpu.global.u32 %r3, [%rd2+-4];\n"
    "    setp.eq.u32 %p2, %r3, 0;\n"
    "    @%p2 bra WAIT;\n"
    "GO:\n"
    "    st.release.gpu.global.u32 [%rd2], 1;\n"
    "    ret;\n}\n"
    /* the same from the last to the first: nobody starts before whom it waits for */
    ".visible .entry back(.param .u64 at)\n{\n"
    "    .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %p<4>;\n"
    "    ld.param.u64 %rd1, [at];\n"
    "    mov.u32 %r1, %ctaid.x;\n"
    "    mov.u32 %r2, %nctaid.x;\n"
    "    add.s32 %r2, %r2, -1;\n"
    "    mul.wide.u32 %rd2, %r1, 4;\n"
    "    add.s64 %rd2, %rd1, %rd2;\n"
    "    setp.eq.u32 %p1, %r1, %r2;\n"
    "    @%p1 bra GO;\n"
    "WAIT:\n"
    "    ld.acquire.gpu.global.u32 %r3, [%rd2+4];\n"
    "    setp.eq.u32 %p2, %r3, 0;\n"
    "    @%p2 bra WAIT;\n"
    "GO:\n"
    "    st.release.gpu.global.u32 [%rd2], 1;\n"
    "    ret;\n}\n";

static const uint32_t *sample; /* of the blocks that run, so many; NULL: all */
static uint32_t nsample;
static uint64_t executed; /* by all blocks of the launch that ran last */

static const struct sg_talk *run(const char *entry, uint32_t blocks, uint64_t seed)
{
    static struct sg_device *dev;
    static struct sg_module *mod;
    static uint64_t at;
    struct dt_err e = {0};
    struct sg_stats st;
    struct sg_fault f = {0};
    if (!dev) {
        assert_int_equal(sg_device_new(m, &dev), 0);
        assert_int_equal(sg_module_load(dev, text, sizeof text - 1, &mod, &e), 0);
        assert_int_equal(sg_mem_alloc(dev, 4096, &at), 0);
    }
    if (!entry) {
        sg_module_free(mod);
        sg_device_free(dev);
        dev = NULL;
        return NULL;
    }
    memset((void *)(uintptr_t)at, 0, 4096);
    struct sg_launch l = {.kernel = sg_module_kernel(mod, entry),
                          .grid = {blocks, 1, 1},
                          .block = {1, 1, 1},
                          .params = (uint8_t *)&at,
                          .seed = seed};
    l.some.block = sample;
    l.some.n = nsample;
    assert_int_equal(sg_execute(dev, &l, &st, &f), 0);
    executed = st.instructions;
    return sg_talk_find((uint32_t)st.talk);
}

static void recorded(void **state)
{
    const struct sg_talk *t = run("k", 12, 0);
    assert_non_null(t);
    assert_int_equal(t->nblock, 12);
    assert_int_equal(t->npart, 2);
    assert_int_equal(t->nflag, 3);
    for (uint32_t p = 0; p < 2; p++) {
        assert_int_equal(t->part[p].first, 6 * p);
        assert_int_equal(t->part[p].blocks, 6);
    }
    assert_int_equal(t->part[0].stats.instructions, 6 * 9);
    assert_int_equal(t->part[1].stats.instructions, 6 * 11);
    for (uint32_t b = 0; b < 12; b++) {
        assert_int_equal(t->wait_at[b + 1] - t->wait_at[b], b >= 6);
        if (b < 6)
            continue;
        const struct sg_talk_wait *w = &t->wait[t->wait_at[b]];
        assert_int_equal(w->count, 2);
        assert_int_equal(t->signal[t->signal_at[w->flag]], b % 3);
        assert_int_equal(t->signal[t->signal_at[w->flag] + 1], b % 3 + 3);
    }
    assert_ptr_equal(run("k", 12, 0), t);
    assert_null(run("k", 12, 7)); /* another order: not the one that is timed */
    t = run("crowd", 66, 0);
    assert_non_null(t);
    assert_int_equal(t->npart, 2);
    assert_int_equal(t->wait[t->wait_at[65]].count, 60);
    t = run("chain", 40, 0);
    assert_non_null(t);
    assert_int_equal(t->npart, 40);
    assert_null(run("chain", 100, 0)); /* too deep */
    assert_null(run("back", 40, 0));   /* they had to be resident together */
    t = run("behind", 36, 0);
    assert_non_null(t);
    assert_true(t->apart && t->nblock == 36 && t->npart == 2 && !t->nflag);
    for (uint32_t p = 0; p < 2; p++) {
        const struct sg_stats *st = &t->part[p].stats;
        uint64_t blocks = p ? 12 : 24, each = 3 + 3 * (p ? 50 : 200) + 1;
        assert_int_equal(t->part[p].first, p ? 24 : 0);
        assert_int_equal(t->part[p].blocks, blocks);
        assert_int_equal(st->instructions, blocks * each);
        assert_true(st->max_block_share == 1 && !st->talk && st->profile.alone_near);
    }
    double of_long = (double)t->part[0].stats.profile.alone_near / 24,
           of_short = (double)t->part[1].stats.profile.alone_near / 12;
    assert_true(of_long > 3 * of_short && of_long < 4 * of_short); /* each kind has the clocks of its own */
    assert_int_equal(t->part[0].stats.longest + t->part[1].stats.longest, 24 * 604 + 12 * 154);
    static const uint32_t some[] = {0, 5, 6, 18, 19, 23, 25, 26, 33, 34};
    sample = some; /* blocks that do not run do what their neighbours do, the long ones up to the first short one */
    nsample = sizeof some / sizeof *some;
    t = run("behind", 36, 0);
    assert_non_null(t);
    assert_int_equal(t->part[0].blocks, 25);
    assert_int_equal(t->part[1].blocks, 11);
    assert_int_equal(executed, 25 * 604 + 11 * 154);
    near("long ones of a sample", (double)t->part[0].stats.instructions, 25 * 604);
    near("short ones of a sample", (double)t->part[1].stats.instructions, 11 * 154);
    near("their clocks", (double)t->part[0].stats.profile.alone_near / 25, of_long);
    near("and theirs", (double)t->part[1].stats.profile.alone_near / 11, of_short);
    sample = NULL;
    nsample = 0;
    assert_null(run("before", 36, 0));
    assert_null(run("behind", 24, 0)); /* of one kind */
    assert_null(run("behind", 25, 0)); /* one of 25 */
    run(NULL, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_each), cmocka_unit_test(holds_its_place),
                                       cmocka_unit_test(many), cmocka_unit_test(behind), cmocka_unit_test(recorded)};
    m = sg_model_find("h200");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
