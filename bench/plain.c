/* The arithmetic of bench/softgpu/kernels.cu as plain C loops, for gcc -O3 -march=native: what the software device is
 * measured against.
 *
 *     bench-plain KERNEL SCALE      prints one JSON object: times over, seconds in the loops, sums of the output
 *
 * Plain means: one thread, loops in the order that suits the cache, libm, no blocking, no intrinsics. Sums of a dot
 * product are taken in ascending order, as the kernels take them.
 */
#include <math.h>
#include <stdlib.h>

#include "bench/workloads.h"

static struct inputs in;

static void gemm(const float *restrict a, const float *restrict b, float *restrict c, int m, int n, int k)
{
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++)
            c[i * n + j] = 0;
        for (int p = 0; p < k; p++)
            for (int j = 0; j < n; j++)
                c[i * n + j] += a[i * k + p] * b[p * n + j];
    }
}
static void gemm16(void) { gemm(in.f, in.g, in.out, GEMM, WIDE, GEMM); }
static void gemm64(void) { gemm(in.f, in.g, in.out, GEMM, GEMM, GEMM); }
static void gemm128(void) { gemm64(); }

static void hgemm(void)
{
    const _Float16 *restrict a = (const _Float16 *)in.h, *restrict b = a + N;
    float *restrict c = in.out;
    for (int i = 0; i < GEMM; i++) {
        for (int j = 0; j < GEMM; j++)
            c[i * GEMM + j] = 0;
        for (int p = 0; p < GEMM; p++)
            for (int j = 0; j < GEMM; j++)
                c[i * GEMM + j] += (float)a[i * GEMM + p] * (float)b[p * GEMM + j];
    }
}

static void layernorm(void)
{
    for (int r = 0; r < ROWS; r++) {
        const float *restrict x = in.f + r * COLS;
        float *restrict y = in.out + r * COLS, s = 0, v = 0;
        for (int i = 0; i < COLS; i++)
            s += x[i];
        float mean = s / COLS;
        for (int i = 0; i < COLS; i++)
            v += (x[i] - mean) * (x[i] - mean);
        float q = 1 / sqrtf(v / COLS + 1e-5f);
        for (int i = 0; i < COLS; i++)
            y[i] = (x[i] - mean) * q * in.g[i] + in.g[i + COLS];
    }
}

static void softmax(void)
{
    for (int r = 0; r < ROWS; r++) {
        const float *restrict x = in.f + r * COLS;
        float *restrict y = in.out + r * COLS, m = -INFINITY, s = 0;
        for (int i = 0; i < COLS; i++)
            m = fmaxf(m, x[i]);
        for (int i = 0; i < COLS; i++)
            s += expf(x[i] - m);
        for (int i = 0; i < COLS; i++)
            y[i] = expf(x[i] - m) / s;
    }
}

static void saxpy(void)
{
    const float *restrict x = in.f;
    float *restrict y = in.out;
    for (int i = 0; i < N; i++)
        y[i] += 1.5f * x[i];
}

static void gelu(void)
{
    const float *restrict x = in.f;
    float *restrict y = in.out;
    for (int i = 0; i < N; i++)
        y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}

static void gather(void)
{
    const float *restrict x = in.f;
    const uint32_t *restrict at = in.at;
    float *restrict y = in.out;
    for (int i = 0; i < N; i++)
        y[i] = x[at[i]];
}

static void transpose(void)
{
    const float *restrict x = in.f;
    float *restrict y = in.out;
    for (int i = 0; i < SQUARE; i++)
        for (int j = 0; j < SQUARE; j++)
            y[i * SQUARE + j] = x[j * SQUARE + i];
}

static void histogram(void)
{
    uint32_t *count = (uint32_t *)(void *)in.out;
    for (int i = 0; i < N; i++)
        count[in.at[i] & 255]++;
}

static void collatz(void)
{
    uint32_t *steps = (uint32_t *)(void *)in.out;
    for (int i = 0; i < 4096; i++) {
        unsigned long long v = (unsigned)i + 1;
        unsigned s = 0;
        for (; v > 1; s++)
            v = v & 1 ? 3 * v + 1 : v / 2;
        steps[i] = s;
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int times;
        void (*run)(void);
    } row[] = {
#define X(NAME, DEVICE, PLAIN) {#NAME, PLAIN, NAME},
        WORKLOADS(X)
#undef X
    };
    in = (struct inputs){aligned_alloc(64, SIZE), aligned_alloc(64, SIZE), aligned_alloc(64, SIZE),
                         aligned_alloc(64, SIZE), aligned_alloc(64, SIZE)};
    if (argc != 3 || !in.f || !in.g || !in.at || !in.h || !in.out)
        return 2;
    bench_fill(&in);
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        if (strcmp(argv[1], row[k].name))
            continue;
        int times = (int)(row[k].times * strtod(argv[2], NULL));
        times = times ? times : 1;
        double t = bench_clock(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < times; i++) {
            row[k].run();
            __asm__ volatile("" ::: "memory"); /* each time counts */
        }
        t = bench_clock(CLOCK_THREAD_CPUTIME_ID) - t;
        double sum[2];
        bench_sums(argv[1], in.out, sum);
        printf("{\"times\": %d, \"seconds\": %.6f, \"sum\": [%.9g, %.9g]}\n", times, t, sum[0], sum[1]);
        return 0;
    }
    return 2;
}
