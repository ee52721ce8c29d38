/* The timing model's figures (softgpu/model/models.def, docs/TIMING.md), fitted to the device at hand.
 *
 * Each figure is a difference: the same work twice, once with more of one thing, so that everything else falls out.
 * Times are events', medians of REPEATS. Every formula is the model's own closed form, so on the software device its
 * figures come back; on a real GPU they are those with which the model gives the measured time.
 *
 *   launch_us        N more empty launches on a stream: time / N
 *   event_us         an event record after each of N launches: time / N - launch_us
 *   block_start_ns   W more waves of empty blocks in one launch: time / W - what the block's instructions take
 *   graph_launch_us  N more empty nodes in a chain, as a graph: time / N - block start
 *   dram_sustained   reading 6 instead of 3 times the L2: bytes / time, over the peak by clock and bus width
 *   l2_gbps          reading an eighth of the L2 K more times: bytes / time
 *   fp32_lanes …     a loop of independent operations, all SMs full: operations / (time x SMs x clock)
 *   l2_near_ns, l2_far_ns  one thread follows four chains of pointers in 2 MB: time / steps, the mean of both halves
 *   dram_latency_ns  the same over several times the L2, streamed before in the same way, as far as it misses
 *
 * calibrate-memory.c has what comes of accesses that meet, of copies and of footprints about as large as the L2,
 * calibrate-order.c what it costs that one thing waits for another; calibrate-lab.c times them.
 *
 * A launch cost below graph_launch_us + stream_more_us + block start is hidden: the period of launches is then that
 * sum. The model takes every thread to have four accesses in flight, hence four chains side by side: a step of all four
 * takes one latency in the model and on a GPU. l2_far_ns is of a footprint of up to 0.7 of an L2 of two halves: of one
 * that loses lines earlier (miss2_from) it comes out too high. L1 and clusters are not fitted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "device/calibrate-priv.h"

#define UNROLL 128 /* instructions of one kind in the loop */
#define THREADS DEV_LAB_THREADS
#define REPEATS DEV_LAB_REPEATS

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
static const struct op {                     /* one instruction, over and over; how many units of work a lane does */
    const char *name, *figure, *type, *text; /* text: mnemonic of one with n operands; NULL: mma */
    unsigned operands;
    double lane_ops;
    unsigned cc; /* from this compute capability */
} ops[] = {
    {"f32", "fp32_lanes", "f32", "fma.rn.f32", 3, 1, 75},
    {"f64", "fp64_lanes", "f64", "fma.rn.f64", 3, 1, 75},
    {"s32", "int_lanes", "b32", "mad.lo.s32", 3, 1, 75},
    {"sfu", "sfu_lanes", "f32", "ex2.approx.ftz.f32", 1, 1, 75},
    /* 16 x 8 x 16 multiply-adds a warp */
    {"mma", "tensor_flops", "b32", NULL, 0, 2.0 * 16 * 8 * 16 / 32, 80},
};
enum { NOPS = sizeof ops / sizeof *ops };

static void op_kernel(struct dt_str *s, const struct op *o)
{
    dt_str_addf(s,
                ".visible .entry %s(.param .u64 p, .param .u32 n)\n{\n.reg .%s %%a<8>; .reg .b32 %%r<4>; .reg .b64 "
                "%%rd<2>; .reg .pred %%q; .reg .f32 %%c<32>;\n"
                "ld.param.u64 %%rd1, [p]; ld.param.u32 %%r1, [n]; mov.u32 %%r2, 0;\n",
                o->name, o->type);
    /* other numbers in every register and thread: ptxas makes one of equal ones */
    const char *to = !strcmp(o->type, "f32")   ? "cvt.rn.f32.u32"
                     : !strcmp(o->type, "f64") ? "cvt.rn.f64.u32"
                                               : "mov.b32";
    dt_str_add(s, "mov.u32 %r3, %tid.x;\n");
    for (unsigned i = 0; i < 8; i++)
        dt_str_addf(s, "mad.lo.u32 %%r3, %%r3, 5, 7; %s %%a%u, %%r3; ", to, i);
    for (unsigned i = 0; i < 32 && !o->text; i++)
        dt_str_addf(s, "mad.lo.u32 %%r3, %%r3, 5, 3; cvt.rn.f32.u32 %%c%u, %%r3; ", i);
    dt_str_add(s, "\nL:\n");
    for (unsigned i = 0; i < UNROLL; i++) {
        unsigned k = i % 8, c = i % 8 * 4;
        if (!o->text) /* eight sums, each its own */
            dt_str_addf(s,
                        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%%c%u,%%c%u,%%c%u,%%c%u}, "
                        "{%%a0,%%a1,%%a2,%%a3}, {%%a4,%%a5}, {%%c%u,%%c%u,%%c%u,%%c%u};\n",
                        c, c + 1, c + 2, c + 3, c, c + 1, c + 2, c + 3);
        else
            dt_str_addf(s, "%s %%a%u", o->text, k);
        for (unsigned q = 0; q < o->operands; q++)
            dt_str_addf(s, ", %%a%u", k);
        if (o->text)
            dt_str_add(s, ";\n");
    }
    dt_str_add(s, "add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, %r1; @%q bra L;\n");
    /* the results are used: their sum is hardly ever the number that would have it written */
    bool mma = !o->text;
    const char *type = mma ? "f32" : !strcmp(o->type, "b32") ? "u32" : o->type, *reg = mma ? "c" : "a";
    for (unsigned i = 1; i < (mma ? 32u : 8u); i++)
        dt_str_addf(s, "add.%s %%%s0, %%%s0, %%%s%u; ", type, reg, reg, reg, i);
    dt_str_addf(s, "\nsetp.ne.%s %%q, %%%s0, %s; @%%q bra D; st.global.%s [%%rd1], %%%s0;", type, reg,
                !strcmp(type, "f32")   ? "0f42F6E979"
                : !strcmp(type, "f64") ? "0d405EDD2F1A9FBE77"
                                       : "305419896",
                type, reg);
    dt_str_add(s, "\nD: ret;\n}\n");
}

/* Reads [p, p + n * 16) by all threads of the grid, k times; n is a multiple of the number of threads. */
static const char reader[] =
    ".visible .entry reads(.param .u64 p, .param .u64 n, .param .u32 k)\n{\n"
    ".reg .b64 %rd<12>; .reg .b32 %r<12>; .reg .pred %q; .reg .b32 %v<8>;\n"
    "ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [n]; ld.param.u32 %r1, [k]; mov.u32 %r2, 0; mov.u32 %v4, 0;\n"
    "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.u32 %r6, %r3, %r4, %r5; mov.u32 %r7, "
    "%nctaid.x; mul.lo.u32 %r8, %r7, %r4;\n"
    "cvt.u64.u32 %rd3, %r6; cvt.u64.u32 %rd4, %r8; shl.b64 %rd7, %rd4, 4;\n"
    "A: mov.u64 %rd5, %rd3; shl.b64 %rd6, %rd3, 4; add.s64 %rd6, %rd1, %rd6;\n"
    "B: ld.global.cg.v4.u32 {%v0,%v1,%v2,%v3}, [%rd6]; xor.b32 %v4, %v4, %v0; xor.b32 %v4, %v4, %v1; xor.b32 %v4, %v4, "
    "%v2; xor.b32 %v4, %v4, %v3;\n"
    "add.s64 %rd5, %rd5, %rd4; add.s64 %rd6, %rd6, %rd7; setp.lt.u64 %q, %rd5, %rd2; @%q bra B;\n"
    "add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, %r1; @%q bra A;\n"
    "setp.ne.u32 %q, %v4, 305419896; @%q bra D; st.global.u32 [%rd1], %v4;\nD: ret;\n}\n";

/* Node i of n lies in line(i) of 2^bits lines at p, and holds the address of node i + 4. */
static const char links[] = ".visible .entry links(.param .u64 p, .param .u32 n, .param .u32 mask)\n{\n.reg .b64 "
                            "%rd<6>; .reg .b32 %r<12>; .reg .pred %q;\n"
                            "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [mask]; mov.u32 %r3, "
                            "%ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.u32 %r6, %r3, %r4, %r5;\n"
                            "setp.ge.u32 %q, %r6, %r1; @%q bra D; add.u32 %r7, %r6, 4; setp.lt.u32 %q, %r7, %r1; @%q "
                            "bra N; sub.u32 %r7, %r7, %r1;\n"
                            "N: mul.lo.u32 %r6, %r6, 2654435761; and.b32 %r6, %r6, %r2; shr.u32 %r8, %r6, 9; xor.b32 "
                            "%r6, %r6, %r8; mul.lo.u32 %r6, %r6, 40503; and.b32 %r6, %r6, %r2;\n"
                            "mul.lo.u32 %r7, %r7, 2654435761; and.b32 %r7, %r7, %r2; shr.u32 %r8, %r7, 9; xor.b32 %r7, "
                            "%r7, %r8; mul.lo.u32 %r7, %r7, 40503; and.b32 %r7, %r7, %r2;\n"
                            "mul.wide.u32 %rd2, %r6, 128; add.s64 %rd2, %rd1, %rd2; mul.wide.u32 %rd3, %r7, 128; "
                            "add.s64 %rd3, %rd1, %rd3; st.global.u64 [%rd2], %rd3;\nD: ret;\n}\n";

static uint32_t line_of(uint32_t i, uint32_t mask) /* as the kernel has it; every number of `mask` once */
{
    i = i * 2654435761u & mask;
    i ^= i >> 9;
    return i * 40503u & mask;
}

enum { STEPS = 16 }; /* of each chain, in one turn of the loop */
static void chase_kernel(struct dt_str *s)
{
    dt_str_add(s, ".visible .entry chase(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u32 "
                  "n)\n{\n.reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .pred %q;\n"
                  "ld.param.u64 %rd0, [a]; ld.param.u64 %rd1, [b]; ld.param.u64 %rd2, [c]; ld.param.u64 %rd3, [d]; "
                  "ld.param.u32 %r1, [n]; mov.u32 %r2, 0;\nL:\n");
    for (unsigned i = 0; i < STEPS * 4; i++)
        dt_str_addf(s, "ld.global.cg.u64 %%rd%u, [%%rd%u];\n", i % 4, i % 4);
    dt_str_add(s, "add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, %r1; @%q bra L;\n"
                  "add.s64 %rd4, %rd0, %rd1; add.s64 %rd4, %rd4, %rd2; add.s64 %rd4, %rd4, %rd3; setp.ne.u64 %q, %rd4, "
                  "12345; @%q bra D; st.global.u64 [%rd0], %rd4;\nD: ret;\n}\n");
}

char *dev_calibration_kernels(unsigned cc)
{
    struct dt_str s = {0};
    dt_str_addf(&s, ".version 7.%c\n.target sm_%u\n.address_size 64\n.visible .entry empty()\n{\nret;\n}\n",
                cc < 90 ? '0' : '8',
                cc < 80   ? 75u
                : cc < 90 ? 80u
                          : 90u);
    dt_str_add(&s, reader);
    dt_str_add(&s, links);
    chase_kernel(&s);
    dev_memory_kernels(&s);
    dev_order_kernels(&s, cc);
    for (unsigned i = 0; i < NOPS; i++)
        if (cc >= ops[i].cc)
            op_kernel(&s, &ops[i]);
    return dt_str_take(&s);
}

static int calibrate_load(struct dev_lab *l, struct dt_err *e)
{
    dt_free_ char *text = dev_calibration_kernels(l->d->info.cc_major * 10 + l->d->info.cc_minor);
    return text ? dev_module_load(l->d, text, strlen(text), &l->mod, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

static int launching(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    enum { N = 100 };
    double us[REPEATS];
    struct dev_lab_work less = {"empty", 1, 32, N}, more = less;
    more.times = 3 * N;
    int err = dev_lab_difference(l, &less, &more, us, e);
    if (!err)
        dev_lab_add(c, "launch_us", us, 0, 1.0 / (2 * N), 0);
    less.events = more.events = true;
    if (!err)
        err = dev_lab_difference(l, &less, &more, us, e);
    if (!err)
        dev_lab_add(c, "event_us", us, -dev_lab_figure(c, "launch_us"), 1.0 / (2 * N), 0);
    enum { W = 8 };
    unsigned wave = l->d->info.sms * l->d->info.max_blocks_sm;
    less = (struct dev_lab_work){"empty", wave * W, 32, 1};
    more = (struct dev_lab_work){"empty", wave * 3 * W, 32, 1};
    if (!err)
        err = dev_lab_difference(l, &less, &more, us, e);
    if (!err) /* small blocks come as fast as they are handed out */
        dev_lab_add(c, "block_rate_ns", us, 0, 1000.0 / (2.0 * W * wave), 0);
    wave = l->d->info.sms * (l->d->info.max_threads_sm / 1024);
    less = (struct dev_lab_work){"empty", wave * W, 1024, 1};
    more = (struct dev_lab_work){"empty", wave * 3 * W, 1024, 1};
    if (!err)
        err = dev_lab_difference(l, &less, &more, us, e);
    if (!err) /* and of large ones the SM holds few */
        dev_lab_add(c, "block_start_ns", us, 0, 1000.0 / (2 * W), 0);
    less = (struct dev_lab_work){"empty", 1, 32, N, .graph = true};
    more = less;
    more.times = 3 * N;
    if (!err)
        err = dev_lab_difference(l, &less, &more, us, e);
    if (!err)
        dev_lab_add(c, "graph_launch_us", us, -dev_lab_figure(c, "block_start_ns") / 1000, 1.0 / (2 * N), 0);
    return err;
}

static int moving(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    struct dev_device *d = l->d;
    uint64_t l2 = d->info.l2_bytes ? d->info.l2_bytes : 4u << 20;
    unsigned blocks = d->info.sms * (d->info.max_threads_sm / THREADS), threads = blocks * THREADS;
    uint64_t unit = (uint64_t)threads * 16; /* what the grid reads in one go */
    struct params {
        uint64_t p, n;
        uint32_t k;
    } a = {.k = 1}, b = {.k = 1};
    double us[REPEATS];
    int mhz = 0, bits = 0;
    a.n = 3 * l2 / unit * threads;
    b.n = 6 * l2 / unit * threads;
    int err = dev_cu(d, d->cu->cuMemAlloc(&l->mem, b.n * 16), "memory for calibrating", e);
    if (!err)
        err = dev_cu(d, d->cu->cuMemsetD8Async(l->mem, 0, b.n * 16, l->stream), "cuMemsetD8Async", e);
    if (!err)
        err = dev_sync(d, e);
    l->bytes = b.n * 16;
    a.p = b.p = l->mem;
    struct dev_lab_work less = {"reads", blocks, THREADS, 1, .params = &a, .nparams = 20}, more = less;
    more.params = &b;
    if (!err)
        err = dev_lab_difference(l, &less, &more, us, e);
    d->cu->cuDeviceGetAttribute(&mhz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, d->dev);
    d->cu->cuDeviceGetAttribute(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, d->dev);
    double peak = 2.0 * mhz * 1e3 * bits / 8 / 1e9, gb = (double)(b.n - a.n) * 16 / 1e9;
    if (!err && peak > 0)
        dev_lab_add(c, "dram_sustained", us, 0, 0, gb / peak * 1e6);
    uint64_t part = l2 / 8 / unit ? l2 / 8 / unit : 1;
    a.n = b.n = part * threads;
    a.k = 8;
    b.k = 40;
    if (!err)
        err = dev_lab_difference(l, &less, &more, us, e);
    if (!err)
        dev_lab_add(c, "l2_gbps", us, 0, 0, (double)part * (double)unit * (b.k - a.k) / 1e9 * 1e6);
    return err;
}

/* Four chains of pointers through the first 2^bits lines of 128 bytes; `first`, NULL: nothing, is launched before them
 * every time. */
static int chasing(struct dev_lab *l, unsigned bits, const struct dev_lab_work *first, double us[REPEATS],
                   struct dt_err *e)
{
    enum { NODES = 8192, LESS = 32, MORE = 96 }; /* 4 x MORE x STEPS nodes are visited, each once */
    uint32_t mask = (1u << bits) - 1;
    struct {
        uint64_t p;
        uint32_t n, mask;
    } make = {l->mem, NODES, mask};
    struct params {
        uint64_t at[4];
        uint32_t n;
    } a = {.n = LESS}, b;
    for (uint32_t i = 0; i < 4; i++)
        a.at[i] = l->mem + 128ull * line_of(i, mask);
    b = a;
    b.n = MORE;
    struct dev_lab_work less = {"chase", 1, 1, 1, .params = &a, .nparams = 36, .first = first}, more = less;
    more.params = &b;
    struct dev_lab_work linked = {"links", NODES / THREADS, THREADS, 1, .params = &make, .nparams = 16};
    int err = dev_lab_launch(l, &linked, e);
    if (!err)
        err = dev_lab_difference(l, &less, &more, us, e);
    for (unsigned i = 0; i < REPEATS && !err; i++)
        us[i] /= (MORE - LESS) * STEPS; /* of a step of all four */
    return err;
}

static int waiting(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    struct params {
        uint64_t p, n;
        uint32_t k;
    } all = {l->mem, 0, 1};
    const struct dev_info *i = &l->d->info;
    struct dev_lab_work stream = {"reads",      i->sms * (i->max_threads_sm / THREADS), THREADS, 1, .params = &all,
                                  .nparams = 20};
    double us[REPEATS] = {0}, l2 = i->l2_bytes ? i->l2_bytes : 4u << 20;
    double body = (4 + 3.0 / STEPS) * 2 / l->clock_us * 1000; /* two clocks an instruction, as the model has it */
    uint64_t bytes = l->bytes;
    unsigned bits = 14;
    if (bytes < 128ull << bits)
        return 0;
    int err = chasing(l, bits, NULL, us, e);
    if (err < 0)
        return err;
    dev_lab_add(c, "l2_near_ns", us, -body, 1000, 0);
    /* where the L2 has two halves, what is more than one of them holds may lie in the other one */
    while (i->l2_halves > 1 && 256.0 * (double)(1u << bits) < 0.7 * l2)
        bits++;
    if (i->l2_halves > 1) { /* the chains' own lines may be less: their number is a power of two */
        all.n = (128ull << bits) / 16;
        if ((double)all.n * 16 < 0.6 * l2)
            all.n = (uint64_t)(0.6 * l2) / 16;
        err = chasing(l, bits, &stream, us, e);
    }
    if (!err)
        dev_lab_add(c, "l2_far_ns", us, -body, 1000, 0);
    while (bits < 30 && bytes >= 256ull << bits)
        bits++;
    all.n = (128ull << bits) / 16;
    bool beyond = (double)(128ull << bits) > 1.5 * l2; /* of such a footprint the L2 keeps nothing */
    err = !err && beyond ? chasing(l, bits, &stream, us, e) : err;
    if (!err && beyond)
        dev_lab_add(c, "dram_latency_ns", us, -body, 1000, 0);
    return err;
}

static int computing(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    const struct dev_info *i = &l->d->info;
    unsigned blocks = i->sms * (i->max_threads_sm / THREADS);
    int err = 0;
    for (unsigned k = 0; k < NOPS && !err; k++) {
        struct {
            uint64_t p;
            uint32_t n;
        } a = {l->mem, 2}, b = {l->mem, 10};
        double us[REPEATS], operations = (double)blocks * THREADS * UNROLL * (b.n - a.n) * ops[k].lane_ops;
        struct dev_lab_work less = {ops[k].name, blocks, THREADS, 1, .params = &a, .nparams = 12}, more = less;
        more.params = &b;
        if (i->cc_major * 10 + i->cc_minor < ops[k].cc)
            continue;
        err = dev_lab_difference(l, &less, &more, us, e);
        if (!err)
            dev_lab_add(c, ops[k].figure, us, 0, 0, operations / i->sms / l->clock_us);
    }
    return err;
}

int dev_calibrate(struct dev_device *d, struct dev_calibration *ret, struct dt_err *e)
{
    struct dev_lab l = {.d = d, .repeats = d->cu->soft ? 1 : REPEATS};
    struct dev_calibration c = {.repeats = (unsigned)l.repeats};
    int khz = 0, err = dev_use(d, e);
    if (!err)
        err = dev_cu(d, d->cu->cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, d->dev), "the clock rate", e);
    l.clock_us = khz > 0 ? khz / 1000.0 : 1000;
    if (!err)
        err = dev_cu(d, d->cu->cuStreamCreate(&l.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate", e);
    for (int i = 0; i < 2 && !err; i++)
        err = dev_cu(d, d->cu->cuEventCreate(&l.ev[i], CU_EVENT_DEFAULT), "cuEventCreate", e);
    if (!err)
        err = calibrate_load(&l, e);
    if (!err)
        err = launching(&l, &c, e);
    if (!err)
        err = moving(&l, &c, e);
    if (!err)
        err = waiting(&l, &c, e);
    if (!err)
        err = computing(&l, &c, e);
    if (!err)
        err = dev_memory_figures(&l, &c, e);
    if (!err)
        err = dev_order_figures(&l, &c, e);
    if (!dev_use(d, NULL)) {
        if (l.mem)
            d->cu->cuMemFree(l.mem);
        for (int i = 0; i < 2; i++)
            if (l.ev[i])
                d->cu->cuEventDestroy(l.ev[i]);
        if (l.stream)
            d->cu->cuStreamDestroy(l.stream);
    }
    dev_module_unload(d, l.mod);
    if (err < 0)
        return err;
    snprintf(c.method, sizeof c.method, d->cu->soft ? "modeled:%s" : "measured:events", d->info.model);
    *ret = c;
    return 0;
}

char *dev_figures_text(const struct dev_calibration *c)
{
    struct dt_str s = {0};
    for (unsigned i = 0; i < c->n; i++)
        if (!c->figure[i].beside)
            dt_str_addf(&s, c->figure[i].value < 1e6 ? "%s%s=%.6g" : "%s%s=%.0f", s.len ? "," : "", c->figure[i].field,
                        c->figure[i].value);
    if (!s.len)
        dt_str_add(&s, "");
    return dt_str_take(&s);
}
