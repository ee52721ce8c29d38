/* softgpu: matrix products as nvcc compiles them (nvcuda::wmma; ldmatrix, mma.sync and cp.async; wgmma.mma_async),
 * against plain C; and their counters. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softgpu/sg.h"

enum { M = 64, N = 128, K = 192 };
static struct sg_device *dev;
static struct sg_module *mod, *hopper;
static uint16_t a[M * K], b[K * N], bt[N * K];
static float c[M * N];

/* Multiples of 1/16 below 1 and no f16 arithmetic of softgpu's: sign, exponent, mantissa of v / 16. */
static uint16_t half_of(int v)
{
    unsigned s = v < 0 ? 0x8000 : 0, x = (unsigned)abs(v), e = 0;
    if (!x)
        return 0;
    while (x >> (e + 1))
        e++;
    return (uint16_t)(s | (e - 4 + 15) << 10 | (x << (10 - e) & 0x3FF));
}

static void check(struct sg_module *from, const char *entry, uint32_t tile, uint32_t threads, bool turned)
{
    static int ia[M * K], ib[K * N];
    uint32_t r = 12345;
    for (int i = 0; i < M * K; i++)
        a[i] = half_of(ia[i] = (int)((r = r * 1664525 + 1013904223) >> 27) - 15);
    for (int i = 0; i < K * N; i++)
        b[i] = half_of(ib[i] = (int)((r = r * 1664525 + 1013904223) >> 27) - 15);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < K; k++)
            bt[i * K + k] = b[k * N + i];
    uint16_t *second = turned ? bt : b;
    memset(c, 0xFF, sizeof c);
    assert_int_equal(sg_mem_register(dev, a, sizeof a, true), 0);
    assert_int_equal(sg_mem_register(dev, second, sizeof b, true), 0);
    assert_int_equal(sg_mem_register(dev, c, sizeof c, false), 0);
    struct {
        const void *a, *b, *c;
        int m, n, k;
        float scale;
    } args = {a, second, c, M, N, K, 2.0f};
    struct sg_launch l = {.kernel = sg_module_kernel(from, entry),
                          .grid = {N / tile, M / tile, 1},
                          .block = {threads, 1, 1},
                          .params = (uint8_t *)&args};
    assert_non_null(l.kernel);
    struct sg_fault f;
    struct sg_stats s;
    int err = sg_execute(dev, &l, &s, &f);
    if (err < 0) {
        char t[512];
        sg_fault_text(&f, t, sizeof t);
        print_error("%s\n", t);
    }
    assert_int_equal(err, 0);
    assert_int_equal(sg_mem_unregister(dev, a), 0);
    assert_int_equal(sg_mem_unregister(dev, second), 0);
    assert_int_equal(sg_mem_unregister(dev, c), 0);
    /* products of small integers over 256: exact in any order */
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            int sum = 0;
            for (int k = 0; k < K; k++)
                sum += ia[i * K + k] * ib[k * N + j];
            if (c[i * N + j] != (float)sum / 128) {
                print_error("%s: c[%d][%d] is %g, not %g\n", entry, i, j, (double)c[i * N + j], sum / 128.0);
                fail();
            }
        }
    assert_int_equal(s.tensor_flops, 2u * M * N * K);
    assert_int_equal(s.unique_write_bytes, sizeof c);
    assert_int_equal(s.unique_read_bytes, sizeof a + sizeof b);
}

static void test_wmma(void **state)
{
    (void)state;
    check(mod, "gemm_wmma", 32, 32, false);
}

static void test_mma(void **state)
{
    (void)state;
    check(mod, "gemm_mma", 64, 128, false);
}

static void test_wgmma(void **state)
{
    (void)state;
    check(hopper, "gemm_wgmma", 64, 128, false);
    check(hopper, "gemm_wgmma_nt", 64, 128, true);
}

static int load(const char *name, struct sg_module **ret)
{
    const char *root = getenv("DOVETAIL_SOURCE");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/ptx/cuda/%s", root ? root : ".", name);
    FILE *f = fopen(path, "rb");
    char *text = malloc(4 << 20);
    if (!f || !text)
        return -1;
    size_t n = fread(text, 1, 4 << 20, f);
    fclose(f);
    struct dt_err e = {0};
    int r = sg_module_load(dev, text, n, ret, &e);
    free(text);
    if (r < 0)
        print_error("%s\n", e.detail);
    return r;
}

static int setup(void **state)
{
    (void)state;
    int r = sg_device_new(sg_model_find(NULL), &dev);
    if (r == 0)
        r = load("gemm.ptx", &mod);
    return r == 0 ? load("wgmma.ptx", &hopper) : r;
}

static int teardown(void **state)
{
    (void)state;
    sg_module_free(mod);
    sg_module_free(hopper);
    sg_device_free(dev);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wmma), cmocka_unit_test(test_mma),
                                       cmocka_unit_test(test_wgmma)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
