/* How fast the software device executes: thread-instructions per second on one core for real kernels (bench/softgpu/kernels.ptx).
 *
 *     bench-softgpu [SECONDS-PER-KERNEL]          one JSON object per kernel, in the form of contract.md §7's `figures`
 *
 * One CPU thread (DOVETAIL_SOFTGPU_THREADS overrides). The value is the median of the runs; min and max span them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "softgpu/sg.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct bench {
    const char *name;
    struct sg_launch l;
    uint64_t arg[8];
    unsigned bytes[8];
};

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

int main(int argc, char **argv)
{
    double limit = argc > 1 ? strtod(argv[1], NULL) : 0.5;
    const char *root = getenv("DOVETAIL_SOURCE");
    char path[4096];
    snprintf(path, sizeof path, "%s/bench/softgpu/kernels.ptx", root ? root : ".");
    FILE *f = fopen(path, "rb");
    static char text[1 << 20];
    if (!f) {
        perror(path);
        return 1;
    }
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    setenv("DOVETAIL_SOFTGPU_THREADS", "1", 0);
    struct sg_device *dev;
    struct sg_module *m;
    struct dt_err e = {0};
    if (sg_device_new(sg_model_find(NULL), &dev) < 0 || sg_module_load(dev, text, n, &m, &e) < 0) {
        fprintf(stderr, "%s\n", e.detail ? e.detail : "no device");
        return 1;
    }
    uint64_t a, b, c;
    size_t size = 4 << 20;
    if (sg_mem_alloc(dev, size, &a) < 0 || sg_mem_alloc(dev, size, &b) < 0 || sg_mem_alloc(dev, size, &c) < 0)
        return 1;
    for (size_t i = 0; i < size / 4; i++) {
        ((float *)(uintptr_t)a)[i] = (float)(i % 1000) * 1e-3f;
        ((float *)(uintptr_t)b)[i] = (float)(i % 777) * 1e-3f;
    }
    uint64_t alpha = 0x3FC00000;
    const struct bench bench[] = {
        {"gemm16", {.grid = {16, 8, 1}, .block = {16, 16, 1}}, {a, b, c, 128, 256, 256}, {8, 8, 8, 4, 4, 4}},
        {"gemm64", {.grid = {4, 4, 1}, .block = {256, 1, 1}}, {a, b, c, 256, 256}, {8, 8, 8, 4, 4}},
        {"softmax", {.grid = {128, 1, 1}, .block = {128, 1, 1}}, {a, c, 512}, {8, 8, 4}},
        {"gelu", {.grid = {512, 1, 1}, .block = {256, 1, 1}}, {a, c, 512 * 256}, {8, 8, 4}},
        {"saxpy", {.grid = {2048, 1, 1}, .block = {256, 1, 1}}, {a, c, alpha, 2048 * 256}, {8, 8, 4, 4}},
        {"collatz", {.grid = {32, 1, 1}, .block = {128, 1, 1}}, {a, c, 4096}, {8, 8, 4}},
    };
    for (size_t k = 0; k < sizeof bench / sizeof *bench; k++) {
        struct sg_launch l = bench[k].l;
        uint8_t params[64] = {0};
        l.kernel = sg_module_kernel(m, bench[k].name);
        l.params = params;
        const struct sg_kernel_info *i = sg_kernel_info(l.kernel);
        for (unsigned p = 0; p < i->nparam; p++)
            memcpy(params + i->param_offset[p], &bench[k].arg[p], bench[k].bytes[p]);
        if (!strcmp(bench[k].name, "collatz"))
            for (unsigned t = 0; t < 4096; t++)
                ((uint32_t *)(uintptr_t)a)[t] = t + 1;
        double end = now() + limit;
        static double v[4096];
        unsigned runs = 0;
        struct sg_stats s = {0};
        do {
            struct sg_fault fault;
            double t = now();
            if (sg_execute(dev, &l, &s, &fault) < 0) {
                char what[512];
                sg_fault_text(&fault, what, sizeof what);
                fprintf(stderr, "%s\n", what);
                return 1;
            }
            v[runs++] = (double)s.instructions / (now() - t) * 1e-9;
        } while ((now() < end || runs < 5) && runs < sizeof v / sizeof *v);
        qsort(v, runs, sizeof *v, by_value);
        printf("{\"name\": \"softgpu.%s.ginstr_per_s_core\", \"value\": %.3f, \"runs\": %u, \"min\": %.3f, \"max\": %.3f}\n",
               bench[k].name, v[runs / 2], runs, v[0], v[runs - 1]);
    }
    sg_module_free(m);
    sg_device_free(dev);
    return 0;
}
