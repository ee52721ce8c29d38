/* What the software device's bench runs, on the device (softgpu.c) and as plain C loops (plain.c): the same sizes,
 * inputs and results.
 *
 * Three inputs and one output of SIZE bytes each: floats in `f`, random indices in `at`, f16 in `h`. Everything comes
 * from a fixed sequence, so both programs see the same bytes, and the sums of what they wrote can be compared.
 */
#ifndef DT_BENCH_WORKLOADS_H
#define DT_BENCH_WORKLOADS_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SIZE (4u << 20)
enum {
    N = SIZE / 4,
    GEMM = 512,
    ROWS = 512,
    COLS = 1024,
    SQUARE = 1024,
    WIDE = 1000 /* gemm16's n, no multiple of its tile */
};

/* name, times over in one process on the device, times over as plain C */
/* clang-format off */
#define WORKLOADS(X)                                                                                                   \
    X(gemm16, 2, 20) X(gemm64, 3, 40) X(gemm128, 3, 40) X(hgemm, 20, 5) X(layernorm, 30, 100) X(softmax, 20, 20)       \
    X(saxpy, 60, 600) X(gelu, 30, 20) X(gather, 40, 200) X(transpose, 40, 200) X(histogram, 20, 100)                   \
    X(collatz, 300, 300)
/* clang-format on */

struct inputs {
    float *f, *g; /* g[i] = f[i] turned round */
    uint32_t *at; /* < N */
    uint16_t *h;  /* f16 */
    float *out;
};

static inline uint32_t bench_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline void bench_fill(struct inputs *in)
{
    uint32_t s = 1;
    for (uint32_t i = 0; i < N; i++) {
        in->f[i] = (float)(int)(bench_random(&s) % 2001) * 1e-3f - 1;
        in->at[i] = bench_random(&s) % N;
        /* ±1 to ±2 in steps of 1/16 */
        in->h[2 * i] = (uint16_t)(0x3C00 | (bench_random(&s) & 0xF) << 6 | (bench_random(&s) & 1) << 15);
        in->h[2 * i + 1] = (uint16_t)(0x3C00 | (bench_random(&s) & 0xF) << 6 | (bench_random(&s) & 1) << 15);
    }
    for (uint32_t i = 0; i < N; i++)
        in->g[i] = in->f[N - 1 - i];
    memset(in->out, 0, SIZE);
}

/* Two sums over the output: one of values, one that knows their order. gemm16, histogram and collatz write less than
 * all of it. */
static inline void bench_sums(const char *name, const float *out, double sum[2])
{
    int whole = !strcmp(name, "histogram") || !strcmp(name, "collatz");
    sum[0] = sum[1] = 0;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t u;
        memcpy(&u, &out[i], 4);
        double v = whole ? u : (double)out[i];
        sum[0] += v;
        sum[1] += v * (i % 977);
    }
}

static inline double bench_clock(clockid_t c)
{
    struct timespec t;
    clock_gettime(c, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
