/* One kernel of bench/softgpu/kernels.ptx on the software device, a number of times over: what bench-softgpu.py times
 * as a whole process.
 *
 *     bench-softgpu KERNEL SCALE    prints one JSON object: launches, thread-instructions executed, CPU seconds of this
 *                                   thread (with loading and decoding) and of all others in the launches, sums of the
 *                                   output (workloads.h)
 *     bench-softgpu --launches      what small launches and loading cost: one JSON object a figure
 *
 * With counters and with some blocks followed for modelled time, as the driver API launches; BENCH_UNFOLLOWED: without,
 * what the executor alone does. DOVETAIL_SOFTGPU_THREADS and DOVETAIL_SOFTGPU_ISA choose threads and instruction set.
 */
#include <stdlib.h>

#include "bench/workloads.h"
#include "softgpu/sg.h"

struct bench {
    const char *name;
    struct sg_launch l;
    uint64_t arg[6]; /* little-endian: the first bytes are the parameter */
};

static struct sg_device *dev;
static struct sg_module *mod;
static struct inputs in;
static char text[1 << 20];
static size_t text_bytes;

static void die(const char *what)
{
    fprintf(stderr, "bench-softgpu: %s\n", what);
    exit(1);
}

static void load(void)
{
    struct dt_err e = {0};
    if (sg_module_load(dev, text, text_bytes, &mod, &e) < 0)
        die(e.detail ? e.detail : "the kernels do not load");
}

static void setup(void)
{
    const char *root = getenv("DOVETAIL_SOURCE");
    char path[4096];
    snprintf(path, sizeof path, "%s/bench/softgpu/kernels.ptx", root ? root : ".");
    FILE *f = fopen(path, "rb");
    if (!f)
        die("no kernels.ptx: DOVETAIL_SOURCE names the source folder");
    text_bytes = fread(text, 1, sizeof text, f);
    fclose(f);
    uint64_t a[5];
    if (sg_device_new(sg_model_find(NULL), &dev) < 0)
        die("no device");
    load();
    for (int i = 0; i < 5; i++)
        if (sg_mem_alloc(dev, SIZE, &a[i]) < 0)
            die("memory is out");
    in = (struct inputs){(float *)(uintptr_t)a[0], (float *)(uintptr_t)a[1], (uint32_t *)(uintptr_t)a[2],
                         (uint16_t *)(uintptr_t)a[3], (float *)(uintptr_t)a[4]};
    bench_fill(&in);
}

static uint8_t params[256];

static void prepare(struct bench *b)
{
    b->l.kernel = sg_module_kernel(mod, b->name);
    b->l.params = params;
    const struct sg_kernel_info *i = sg_kernel_info(b->l.kernel);
    for (unsigned p = 0; p < i->nparam; p++)
        memcpy(params + i->param_offset[p], &b->arg[p], i->param_bytes[p]);
}

static void run(const struct bench *b, struct sg_stats *s)
{
    struct sg_fault fault;
    if (sg_execute(dev, &b->l, s, &fault) < 0) {
        char what[512];
        sg_fault_text(&fault, what, sizeof what);
        die(what);
    }
}

/* Microseconds of a launch, the least of many: a busy machine only adds. */
static void launch_cost(const char *figure, struct bench b, bool counters)
{
    double best = 1e9;
    prepare(&b);
    for (int i = 0; i < 400; i++) {
        struct sg_stats s;
        double t = bench_clock(CLOCK_MONOTONIC);
        for (int k = 0; k < 10; k++)
            run(&b, counters ? &s : NULL);
        t = (bench_clock(CLOCK_MONOTONIC) - t) / 10;
        best = t < best ? t : best;
    }
    printf("{\"name\": \"softgpu.%s.us\", \"value\": %.3f}\n", figure, best * 1e6);
}

static void launches(uint64_t x, uint64_t y)
{
    struct bench one = {"saxpy", {.grid = {1, 1, 1}, .block = {32, 1, 1}}, {x, y, 0x3FC00000, 32}};
    struct bench wide = {"saxpy", {.grid = {1, 1, 1}, .block = {1024, 1, 1}}, {x, y, 0x3FC00000, 1024}};
    struct bench many = {"saxpy", {.grid = {64, 1, 1}, .block = {32, 1, 1}}, {x, y, 0x3FC00000, 64 * 32}};
    struct bench shared = {"gemm16", {.grid = {1, 1, 1}, .block = {16, 16, 1}}, {x, x, y, 16, 16, 16}};
    launch_cost("launch.one_warp", one, false);
    launch_cost("launch.one_warp_counters", one, true);
    launch_cost("launch.block_1024", wide, true);
    launch_cost("launch.64_blocks", many, true);
    launch_cost("launch.gemm16_block", shared, true);
    double best[2] = {1e9, 1e9};
    for (int i = 0; i < 20; i++) {
        sg_module_free(mod);
        double t = bench_clock(CLOCK_MONOTONIC);
        load();
        t = bench_clock(CLOCK_MONOTONIC) - t;
        best[0] = t < best[0] ? t : best[0];
        t = bench_clock(CLOCK_MONOTONIC);
        prepare(&shared);
        run(&shared, NULL);
        t = bench_clock(CLOCK_MONOTONIC) - t;
        best[1] = t < best[1] ? t : best[1];
    }
    printf("{\"name\": \"softgpu.load.all_kernels.us\", \"value\": %.1f}\n", best[0] * 1e6);
    printf("{\"name\": \"softgpu.load.first_launch_gemm16.us\", \"value\": %.1f}\n", best[1] * 1e6);
}

int main(int argc, char **argv)
{
    setup();
    uint64_t f = (uintptr_t)in.f, g = (uintptr_t)in.g, at = (uintptr_t)in.at, h = (uintptr_t)in.h,
             out = (uintptr_t)in.out;
    struct bench bench[] = {
        {"gemm16", {.grid = {(WIDE + 15) / 16, GEMM / 16, 1}, .block = {16, 16, 1}}, {f, g, out, GEMM, WIDE, GEMM}},
        {"gemm64", {.grid = {GEMM / 64, GEMM / 64, 1}, .block = {256, 1, 1}}, {f, g, out, GEMM, GEMM}},
        {"gemm128", {.grid = {GEMM / 128, GEMM / 128, 1}, .block = {256, 1, 1}}, {f, g, out, GEMM, GEMM}},
        {"hgemm", {.grid = {GEMM / 64, GEMM / 64, 1}, .block = {128, 1, 1}}, {h, h + SIZE / 2, out, GEMM, GEMM}},
        {"layernorm", {.grid = {ROWS, 1, 1}, .block = {256, 1, 1}}, {f, g, g + 4 * COLS, out, COLS}},
        {"softmax", {.grid = {ROWS, 1, 1}, .block = {256, 1, 1}}, {f, out, COLS}},
        {"saxpy", {.grid = {N / 256, 1, 1}, .block = {256, 1, 1}}, {f, out, 0x3FC00000, N}},
        {"gelu", {.grid = {N / 256, 1, 1}, .block = {256, 1, 1}}, {f, out, N}},
        {"gather", {.grid = {N / 1024, 1, 1}, .block = {256, 1, 1}}, {f, at, out, N}},
        {"transpose", {.grid = {SQUARE / 32, SQUARE / 32, 1}, .block = {32, 8, 1}}, {f, out, SQUARE}},
        {"histogram", {.grid = {N / 256, 1, 1}, .block = {256, 1, 1}}, {at, out, N}},
        {"collatz", {.grid = {32, 1, 1}, .block = {128, 1, 1}}, {at, out, 4096}},
    };
    if (argc == 2 && !strcmp(argv[1], "--launches")) {
        launches(f, out);
        return 0;
    }
    if (argc != 3)
        die("usage: bench-softgpu KERNEL SCALE | --launches");
    static const struct {
        const char *name;
        int times;
    } often[] = {
#define X(NAME, DEVICE, PLAIN) {#NAME, DEVICE},
        WORKLOADS(X)
#undef X
    };
    int times = 0;
    for (size_t k = 0; k < sizeof often / sizeof *often; k++)
        if (!strcmp(argv[1], often[k].name))
            times = (int)(often[k].times * strtod(argv[2], NULL));
    times = times ? times : 1;
    if (!strcmp(argv[1], "collatz"))
        for (uint32_t t = 0; t < 4096; t++)
            in.at[t] = t + 1;
    for (size_t k = 0; k < sizeof bench / sizeof *bench; k++) {
        if (strcmp(argv[1], bench[k].name))
            continue;
        prepare(&bench[k]);
        bench[k].l.unfollowed = getenv("BENCH_UNFOLLOWED") != NULL;
        uint64_t instructions = 0;
        double all = bench_clock(CLOCK_PROCESS_CPUTIME_ID), mine = bench_clock(CLOCK_THREAD_CPUTIME_ID),
               wall = bench_clock(CLOCK_MONOTONIC);
        for (int i = 0; i < times; i++) {
            struct sg_stats s;
            run(&bench[k], &s);
            instructions += s.instructions;
        }
        mine = bench_clock(CLOCK_THREAD_CPUTIME_ID) - mine;
        all = bench_clock(CLOCK_PROCESS_CPUTIME_ID) - all;
        wall = bench_clock(CLOCK_MONOTONIC) - wall;
        double sum[2];
        bench_sums(argv[1], in.out, sum);
        printf("{\"times\": %d, \"instructions\": %llu, \"seconds\": %.6f, \"cpu\": [%.6f, %.6f], \"sum\": [%.9g, "
               "%.9g]}\n",
               times, (unsigned long long)instructions, wall, mine, all - mine, sum[0], sum[1]);
        sg_module_free(mod);
        sg_device_free(dev);
        return 0;
    }
    die("no such kernel");
}
