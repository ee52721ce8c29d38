/* Calibrating: what it costs that one thing comes after another.
 *
 *   fence_trips     a store and a fence, N times, instead of N stores, by one warp: time / N, in mean ways to the L2
 *   fence_warp      the same fence by eight warps of a block, which then meet, instead of by one: time / 7 N, in clocks
 *   release_trips   N stores with .release instead of N without: time / N, in mean ways to the L2
 *   stream_more_us  kernels that take longer than a launch, each after the one before, N more of them, in a stream and
 *                   as a graph: time in the stream - time in the graph, / N
 *   early_us        the same in a stream, with programmatic launch and without: what a launch is the faster for it.
 *                   Every kernel lets the next one start at once and waits for the one before it at once, and reads
 *                   what that wrote. (From compute capability 9.0 on.)
 *   flag_us         a row of blocks in one launch, each of which waits for a flag of the one before and raises its own;
 *                   N more of them: time / N
 *
 * The first three are whole numbers in the model (read while blocks are followed), and are rounded here; ways to the L2
 * are the mean of l2_near_ns and l2_far_ns, as the model has it, so that this runs after those were measured. The last
 * two are no figures of the model: a programmatic launch saves what stands between two launches there, that is
 * graph_launch_us + stream_more_us, and a flag costs three ways to the L2 beside the block's own work and start, which
 * the row of blocks pays one after the other in the model and all at once on a GPU. They are shown beside the figures,
 * for whoever decides by them, and handed to no model.
 */
#include "device/calibrate-priv.h"

enum { WARPS = 8, WARP = 32, FMAS = 128 };

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
/* n rounds: every warp stores, the first `warps` of them fence, all meet. */
static const char fences[] =
    ".visible .entry fences(.param .u64 p, .param .u32 n, .param .u32 warps)\n{\n.reg .b64 %rd<3>; .reg .b32 %r<6>; "
    ".reg .pred %q; .reg .pred %f;\n"
    "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [warps]; mov.u32 %r3, %tid.x; shr.u32 %r4, %r3, "
    "5; setp.ge.u32 %f, %r4, %r2; mul.wide.u32 %rd2, %r3, 4; add.s64 %rd1, %rd1, %rd2; mov.u32 %r5, 0;\n"
    "L: st.global.u32 [%rd1], %r5; @%f bra S; membar.gl;\nS: bar.sync 0;\n"
    "add.u32 %r5, %r5, 1; setp.lt.u32 %q, %r5, %r1; @%q bra L;\nret;\n}\n";

/* n stores of one warp, with .release if `with` is not 0. */
static const char releases[] =
    ".visible .entry releases(.param .u64 p, .param .u32 n, .param .u32 with)\n{\n.reg .b64 %rd<3>; .reg .b32 %r<5>; "
    ".reg .pred %q; .reg .pred %f;\n"
    "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [with]; mov.u32 %r3, %tid.x; mul.wide.u32 %rd2, "
    "%r3, 4; add.s64 %rd1, %rd1, %rd2; setp.eq.u32 %f, %r2, 0; mov.u32 %r4, 0;\n"
    "L: @%f bra P; st.release.gpu.global.u32 [%rd1], %r4; bra N;\nP: st.relaxed.gpu.global.u32 [%rd1], %r4;\n"
    "N: add.u32 %r4, %r4, 1; setp.lt.u32 %q, %r4, %r1; @%q bra L;\nret;\n}\n";

/* Block i waits for flag i - 1, takes it down, and raises flag i unless it is the last. */
static const char relay[] =
    ".visible .entry relay(.param .u64 p)\n{\n.reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %q;\n"
    "ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mov.u32 %r3, 0; mov.u32 %r5, 1; "
    "mul.wide.u32 %rd2, %r1, 128; add.s64 %rd2, %rd1, %rd2; setp.eq.u32 %q, %r1, 0; @%q bra R; add.s64 %rd3, %rd2, "
    "-128;\n"
    "W: ld.acquire.gpu.global.u32 %r4, [%rd3]; setp.eq.u32 %q, %r4, 0; @%q bra W; st.global.u32 [%rd3], %r3;\n"
    "R: add.u32 %r1, %r1, 1; setp.eq.u32 %q, %r1, %r2; @%q bra D; st.release.gpu.global.u32 [%rd2], %r5;\n"
    "D: ret;\n}\n";

/* A number from memory, a chain of operations, and back: a kernel that takes a while and needs the one before. */
static void step_kernel(struct dt_str *s, const char *name, const char *before)
{
    dt_str_addf(s,
                ".visible .entry %s(.param .u64 p, .param .u32 n)\n{\n.reg .b64 %%rd<2>; .reg .b32 %%r<3>; .reg .f32 "
                "%%f<2>; .reg .pred %%q;\n%sld.param.u64 %%rd1, [p]; ld.param.u32 %%r1, [n]; mov.u32 %%r2, 0; "
                "ld.global.cg.f32 %%f1, [%%rd1];\nL:\n",
                name, before);
    for (unsigned i = 0; i < FMAS; i++)
        dt_str_add(s, "fma.rn.f32 %f1, %f1, %f1, %f1;\n");
    dt_str_add(s, "add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, %r1; @%q bra L;\nst.global.f32 [%rd1], %f1;\nret;\n}\n");
}

void dev_order_kernels(struct dt_str *s, unsigned cc)
{
    dt_str_add(s, fences);
    dt_str_add(s, releases);
    dt_str_add(s, relay);
    step_kernel(s, "step", "");
    if (cc >= 90)
        step_kernel(s, "early", "griddepcontrol.launch_dependents; griddepcontrol.wait;\n");
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */
struct rounds {
    uint64_t p;
    uint32_t n, with;
};

/* What N rounds of a kernel take more with `more` than with `less`. */
static int rounds(struct dev_lab *l, const char *entry, unsigned warps, struct rounds less, struct rounds more,
                  double us[DEV_LAB_REPEATS], struct dt_err *e)
{
    struct dev_lab_work a = {entry, 1, warps * WARP, 1, .params = &less, .nparams = sizeof less}, b = a;
    b.params = &more;
    return dev_lab_difference(l, &a, &b, us, e);
}

static int fencing(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    enum { N = 200 };
    double us[DEV_LAB_REPEATS], way = (dev_lab_figure(c, "l2_near_ns") + dev_lab_figure(c, "l2_far_ns")) / 2000;
    struct rounds none = {l->mem, N, 0}, one = {l->mem, N, 1}, all = {l->mem, N, WARPS};
    if (!(way > 0))
        return 0;
    int err = rounds(l, "fences", 1, none, one, us, e);
    if (!err)
        dev_lab_add(c, "fence_trips", us, 0, 1 / (N * way), 0);
    dev_lab_last_is(c, "fence_trips", true, false);
    if (!err)
        err = rounds(l, "fences", WARPS, one, all, us, e);
    if (!err)
        dev_lab_add(c, "fence_warp", us, 0, l->clock_us / (N * (WARPS - 1)), 0);
    dev_lab_last_is(c, "fence_warp", true, false);
    if (!err)
        err = rounds(l, "releases", 1, none, one, us, e);
    if (!err)
        dev_lab_add(c, "release_trips", us, 0, 1 / (N * way), 0);
    dev_lab_last_is(c, "release_trips", true, false);
    return err;
}

static int following(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    enum { N = 25, KINDS = 3 };
    const struct dev_info *i = &l->d->info;
    struct {
        uint64_t p;
        uint32_t n;
    } p = {l->mem, 40}; /* some 20,000 clocks */
    bool early = i->cc_major >= 9;
    struct dev_lab_work less[KINDS] = {{"step", 1, WARP, N, .params = &p, .nparams = 12},
                                       {"step", 1, WARP, N, .params = &p, .nparams = 12, .graph = true},
                                       {"early", 1, WARP, N, .params = &p, .nparams = 12, .programmatic = true}};
    double us[KINDS][DEV_LAB_REPEATS] = {{0}};
    int err = 0;
    for (unsigned k = 0; k < (early ? KINDS : KINDS - 1u) && !err; k++) {
        struct dev_lab_work more = less[k];
        more.times = 3 * N;
        err = dev_lab_difference(l, &less[k], &more, us[k], e);
    }
    if (err < 0)
        return err;
    for (unsigned k = 0; k < DEV_LAB_REPEATS; k++) {
        us[1][k] = us[0][k] - us[1][k];
        us[2][k] = us[0][k] - us[2][k];
    }
    dev_lab_add(c, "stream_more_us", us[1], 0, 1.0 / (2 * N), 0);
    if (early)
        dev_lab_add(c, "early_us", us[2], 0, 1.0 / (2 * N), 0);
    dev_lab_last_is(c, "early_us", false, true);
    return 0;
}

static int relaying(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    unsigned sms = l->d->info.sms, n = sms < 32 ? sms / 2 : 16; /* twice as many run at once anywhere */
    struct dev_lab_work less = {"relay", n, WARP, 1, .params = &l->mem, .nparams = sizeof l->mem}, more = less;
    double us[DEV_LAB_REPEATS];
    more.blocks = 2 * n;
    int err = n ? dev_lab_difference(l, &less, &more, us, e) : 0;
    if (!err && n)
        dev_lab_add(c, "flag_us", us, 0, 1.0 / n, 0);
    dev_lab_last_is(c, "flag_us", false, true);
    return err;
}

int dev_order_figures(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    struct dev_device *d = l->d;
    int err = dev_cu(d, d->cu->cuMemsetD8Async(l->mem, 0, 1 << 16, l->stream), "cuMemsetD8Async", e);
    if (!err)
        err = dev_sync(d, e);
    if (!err)
        err = fencing(l, c, e);
    if (!err)
        err = following(l, c, e);
    if (!err)
        err = dev_cu(d, d->cu->cuMemsetD8Async(l->mem, 0, 1 << 16, l->stream), "cuMemsetD8Async", e);
    if (!err)
        err = dev_sync(d, e);
    return err < 0 ? err : relaying(l, c, e);
}
