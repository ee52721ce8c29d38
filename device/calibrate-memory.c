/* Calibrating: what memory does where accesses meet, and where the L2 ends.
 *
 *   shared_bytes_clock  all SMs full, loads whose 32 lanes meet in one bank of shared memory: each takes as many passes
 *                       as there are lanes, and a pass moves a word of every bank (128 bytes): bytes / clocks
 *   memcpy_gbps         a larger copy from pinned host memory: bytes / time
 *   copy_gbps           the same within the device: no figure of the model, which has half of what DRAM sustains there
 *   l2_clock_ns         all warps add to one line, each lane to a word of its own: a warp's request comes to the four
 *                       sectors of the line one after the other: time / (4 x requests). Nobody wants the old value, and
 *                       no two lanes of a warp have an address, so that the assembler joins nothing
 *   miss_from, miss_part, miss_to   (miss2_… where the L2 has two halves) reading a footprint in a circle, one turn
 *                       more, over footprints round the size of the L2
 *
 * The sweep goes by latency, not by bandwidth: one warp an SM reads 512 bytes after the other, each address from what
 * was read before, so that no queue forms anywhere. A step then takes the latency of a hit or that of a miss, and of a
 * footprint of x L2 sizes the part that misses is (t(x) - t(hit)) / (t(miss) - t(hit)), with t(miss) of a footprint
 * that is several times the L2. All SMs go round together: a line is read again when all others have been, as in a
 * chain of launches that is replayed. The model's curve has two straight pieces that meet at a knee, which is given
 * (miss_knee, miss2_knee of softgpu/constants.def). The part there is measured right there, and each piece is the line
 * through the knee that fits the points of its side best which neither hit nor miss altogether.
 *
 * Sizes are parts of l2_bytes, which is what the driver says, and one of the figures so that both go together.
 *
 * Where there are two halves, `hit` is a footprint of more than one of them, as those of the sweep are.
 *
 * Not measured: atomics that meet at an address (`atomic_same`) or in a sector, the L1, sectors between SM and L2.
 */
#include <string.h>

#include "device/calibrate-priv.h"

enum { SHARED_LOADS = 64, REDS = 32, WARP = 32 };
#define BANK_BYTES 128.0 /* that a pass moves: 32 banks of 4 */

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
/* Lane i has the 32 words at i x 128 for itself: its word j lies in bank j, as the others' words j do, and holds the
 * address of the next one. Eight chains a thread. */
static void banks_kernel(struct dt_str *s)
{
    dt_str_add(s, ".visible .entry banks(.param .u64 p, .param .u32 n)\n{\n.reg .b64 %rd<2>; .reg .b32 %r<8>; .reg "
                  ".b32 %a<8>; .reg .pred %q;\n.shared .align 128 .b8 words[4096];\n"
                  "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r3, %tid.x; mov.u32 %r4, "
                  "words; and.b32 %r5, %r3, 31; shl.b32 %r5, %r5, 7; add.u32 %r4, %r4, %r5; shr.u32 %r6, %r3, 5;\n"
                  "W: add.u32 %r7, %r6, 1; and.b32 %r7, %r7, 31; shl.b32 %r7, %r7, 2; add.u32 %r7, %r7, %r4; shl.b32 "
                  "%r5, %r6, 2; add.u32 %r5, %r5, %r4; st.shared.u32 [%r5], %r7; add.u32 %r6, %r6, 8; setp.lt.u32 %q, "
                  "%r6, 32; @%q bra W;\nbar.sync 0;\n");
    for (unsigned i = 0; i < 8; i++)
        dt_str_addf(s, "add.u32 %%a%u, %%r4, %u; ", i, i * 4);
    dt_str_add(s, "\nL:\n");
    for (unsigned i = 0; i < SHARED_LOADS; i++)
        dt_str_addf(s, "ld.shared.u32 %%a%u, [%%a%u];\n", i % 8, i % 8);
    dt_str_add(s, "add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, %r1; @%q bra L;\n");
    for (unsigned i = 1; i < 8; i++)
        dt_str_addf(s, "add.u32 %%a0, %%a0, %%a%u; ", i);
    dt_str_add(s, "\nsetp.ne.u32 %q, %a0, 305419896; @%q bra D; st.global.u32 [%rd1], %a0;\nD: ret;\n}\n");
}

static void meet_kernel(struct dt_str *s)
{
    dt_str_add(s, ".visible .entry meet(.param .u64 p, .param .u32 n)\n{\n.reg .b64 %rd<3>; .reg .b32 %r<5>; .reg "
                  ".pred %q;\nld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r3, %tid.x; "
                  "and.b32 %r4, %r3, 31; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd1, %rd1, %rd2;\nL:\n");
    for (unsigned i = 0; i < REDS; i++)
        dt_str_add(s, "red.global.add.u32 [%rd1], %r3;\n");
    dt_str_add(s, "add.u32 %r2, %r2, 1; setp.lt.u32 %q, %r2, %r1; @%q bra L;\nret;\n}\n");
}

/* `steps` times 512 bytes a block and round; memory holds zeros, which only we know. */
static const char circle[] =
    ".visible .entry circle(.param .u64 p, .param .u32 steps, .param .u32 rounds)\n{\n"
    ".reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .pred %q; .reg .b32 %v<4>;\n"
    "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [steps]; ld.param.u32 %r2, [rounds]; mov.u32 %r3, 0; mov.u32 %v0, 0;\n"
    "mov.u32 %r4, %ctaid.x; mov.u32 %r5, %nctaid.x; mov.u32 %r6, %tid.x; mul.wide.u32 %rd2, %r4, 512; mul.wide.u32 "
    "%rd3, %r6, 16; add.s64 %rd1, %rd1, %rd2; add.s64 %rd1, %rd1, %rd3; mul.wide.u32 %rd4, %r5, 512;\n"
    "A: cvt.u64.u32 %rd5, %v0; add.s64 %rd6, %rd1, %rd5; mov.u32 %r7, 0;\n"
    "B: ld.global.cg.v4.u32 {%v0,%v1,%v2,%v3}, [%rd6]; or.b32 %v0, %v0, %v1; or.b32 %v2, %v2, %v3; or.b32 %v0, %v0, "
    "%v2; cvt.u64.u32 %rd5, %v0; add.s64 %rd6, %rd6, %rd4; add.s64 %rd6, %rd6, %rd5;\n"
    "add.u32 %r7, %r7, 1; setp.lt.u32 %q, %r7, %r1; @%q bra B;\n"
    "add.u32 %r3, %r3, 1; setp.lt.u32 %q, %r3, %r2; @%q bra A;\n"
    "setp.ne.u32 %q, %v0, 305419896; @%q bra D; st.global.u32 [%rd1], %v0;\nD: ret;\n}\n";

void dev_memory_kernels(struct dt_str *s)
{
    banks_kernel(s);
    meet_kernel(s);
    dt_str_add(s, circle);
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */
struct some {
    uint64_t p;
    uint32_t n;
};

static int banks(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    const struct dev_info *i = &l->d->info;
    unsigned each = i->max_threads_sm / DEV_LAB_THREADS;
    struct some a = {l->mem, 1}, b = {l->mem, 3};
    double us[DEV_LAB_REPEATS], loads = (double)each * (DEV_LAB_THREADS / WARP) * SHARED_LOADS * (b.n - a.n);
    struct dev_lab_work less = {"banks", i->sms * each, DEV_LAB_THREADS, 1, .params = &a, .nparams = 12}, more = less;
    more.params = &b;
    int err = dev_lab_difference(l, &less, &more, us, e);
    if (!err)
        dev_lab_add(c, "shared_bytes_clock", us, 0, 0, loads * WARP * BANK_BYTES / l->clock_us);
    return err;
}

static int copies(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    struct dev_device *d = l->d;
    uint64_t most = l->bytes / 2 < 24u << 20 ? l->bytes / 2 : 24u << 20;
    struct dev_lab_work less = {.times = 1, .bytes = most / 3}, more = {.times = 1, .bytes = most};
    void *host = NULL;
    double us[DEV_LAB_REPEATS];
    int err = dev_cu(d, d->cu->cuMemAllocHost(&host, most), "pinned memory for calibrating", e);
    if (err < 0)
        return err;
    memset(host, 0, most);
    less.host = more.host = host;
    err = dev_lab_difference(l, &less, &more, us, e);
    d->cu->cuMemFreeHost(host);
    if (!err)
        dev_lab_add(c, "memcpy_gbps", us, 0, 0, (double)(more.bytes - less.bytes) / 1e3);
    less.host = more.host = NULL;
    less.from = more.from = l->mem + l->bytes / 2;
    less.bytes = l->bytes / 6;
    more.bytes = l->bytes / 2;
    if (!err)
        err = dev_lab_difference(l, &less, &more, us, e);
    if (!err)
        dev_lab_add(c, "copy_gbps", us, 0, 0, (double)(more.bytes - less.bytes) / 1e3);
    dev_lab_last_is(c, "copy_gbps", false, true);
    return err;
}

static int meeting(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    const struct dev_info *i = &l->d->info;
    struct some a = {l->mem, 1}, b = {l->mem, 5};
    double us[DEV_LAB_REPEATS], requests = (double)i->sms * (DEV_LAB_THREADS / WARP) * REDS * (b.n - a.n);
    struct dev_lab_work less = {"meet", i->sms, DEV_LAB_THREADS, 1, .params = &a, .nparams = 12}, more = less;
    more.params = &b;
    int err = dev_lab_difference(l, &less, &more, us, e);
    if (!err)
        dev_lab_add(c, "l2_clock_ns", us, 0, 1000 / (4 * requests), 0);
    return err;
}

/* Nanoseconds of a step through a footprint of about *x L2 sizes, which becomes what it is. */
static int turn(struct dev_lab *l, double *x, double us[DEV_LAB_REPEATS], struct dt_err *e)
{
    enum { MORE = 3 };
    double unit = (double)l->d->info.sms * WARP * 16, l2 = (double)l->d->info.l2_bytes;
    struct {
        uint64_t p;
        uint32_t steps, rounds;
    } a = {l->mem, (uint32_t)(*x * l2 / unit + 0.5), 1}, b = a;
    b.rounds = MORE;
    struct dev_lab_work less = {"circle", l->d->info.sms, WARP, 1, .params = &a, .nparams = 16}, more = less;
    more.params = &b;
    *x = a.steps * unit / l2;
    int err = a.steps ? dev_lab_difference(l, &less, &more, us, e) : 0;
    for (unsigned i = 0; i < DEV_LAB_REPEATS && !err && a.steps; i++)
        us[i] *= 1000.0 / ((MORE - 1) * (double)a.steps);
    return err;
}

enum { BELOW = 4, ABOVE = 4, POINTS = 1 + BELOW + ABOVE };

/* How far from the knee a line through it is that has risen, or fallen, by `all`. From the first point on that has done
 * so but for LITTLE, none is on it (far ones weigh most, and would be taken for it by a little noise). `none`: none is.
 */
static double reach(const double *away, const double *change, unsigned n, double all, double none)
{
    static const double LITTLE = 0.04;
    double xy = 0, xx = 0;
    for (unsigned i = 0; i < n && change[i] < all - LITTLE; i++)
        if (change[i] > 0) {
            xy += away[i] * change[i];
            xx += away[i] * away[i];
        }
    return xy > 0 ? all * xx / xy : none;
}

static int sweep(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    static const double below[BELOW] = {0.02, 0.04, 0.08, 0.16}, above[ABOVE] = {0.1, 0.2, 0.4, 0.8};
    bool two = l->d->info.l2_halves > 1;
    double knee = two ? 0.77 : 1, hit = two ? 0.55 : 0.5, miss = 2.5, at[POINTS], us[POINTS][DEV_LAB_REPEATS] = {{0}},
           least[DEV_LAB_REPEATS] = {0}, most[DEV_LAB_REPEATS] = {0}, figure[3][DEV_LAB_REPEATS] = {{0}};
    if (miss * (double)l->d->info.l2_bytes > (double)l->bytes)
        return 0;
    for (unsigned i = 0; i < POINTS; i++)
        at[i] = !i ? knee : i <= BELOW ? knee - below[i - 1] : knee + above[i - 1 - BELOW];
    int err = turn(l, &hit, least, e);
    if (!err)
        err = turn(l, &miss, most, e);
    for (unsigned i = 0; i < POINTS && !err; i++)
        err = turn(l, &at[i], us[i], e);
    if (err < 0)
        return err;
    for (unsigned k = 0; k < c->repeats; k++) {
        double part[POINTS], away[POINTS], change[POINTS];
        if (!(most[k] > least[k]))
            return 0; /* nothing to tell apart */
        for (unsigned i = 0; i < POINTS; i++) {
            part[i] = (us[i][k] - least[k]) / (most[k] - least[k]);
            away[i] = i <= BELOW ? at[0] - at[i] : at[i] - at[0];
        }
        part[0] = part[0] < 0.01 ? 0.01 : part[0] > 0.99 ? 0.99 : part[0];
        for (unsigned i = 0; i < POINTS; i++)
            change[i] = i <= BELOW ? part[0] - part[i] : part[i] - part[0];
        figure[0][k] = knee - reach(away + 1, change + 1, BELOW, part[0], away[1]);
        figure[1][k] = part[0];
        figure[2][k] = knee + reach(away + 1 + BELOW, change + 1 + BELOW, ABOVE, 1 - part[0], away[1 + BELOW]);
    }
    double size[DEV_LAB_REPEATS];
    for (unsigned k = 0; k < c->repeats; k++)
        size[k] = (double)l->d->info.l2_bytes;
    dev_lab_add(c, "l2_bytes", size, 0, 1, 0);
    dev_lab_add(c, two ? "miss2_from" : "miss_from", figure[0], 0, 1, 0);
    dev_lab_add(c, two ? "miss2_part" : "miss_part", figure[1], 0, 1, 0);
    dev_lab_add(c, two ? "miss2_to" : "miss_to", figure[2], 0, 1, 0);
    return 0;
}

int dev_memory_figures(struct dev_lab *l, struct dev_calibration *c, struct dt_err *e)
{
    struct dev_device *d = l->d;
    int err = banks(l, c, e);
    if (!err)
        err = copies(l, c, e);
    if (!err)
        err = meeting(l, c, e);
    if (!err)
        err = dev_cu(d, d->cu->cuMemsetD8Async(l->mem, 0, l->bytes, l->stream), "cuMemsetD8Async", e);
    if (!err)
        err = dev_sync(d, e);
    return err < 0 ? err : sweep(l, c, e);
}
