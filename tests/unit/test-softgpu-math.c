/* softgpu: CUDA's math library as nvcc inlines it (hundreds of instructions a function: fma, bit tricks, local tables,
 * loops), run on the software device and compared with libm. */
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

enum { N = 256 };
static struct sg_device *dev;
static struct sg_module *mod;

static double at(double lo, double hi, int i)
{
    if (lo > 0 && hi / lo > 1e6)
        return lo * pow(hi / lo, i / (N - 1.0));
    return lo + (hi - lo) * i / (N - 1.0);
}

static void check(const char *name, double lo, double hi, double (*fn)(double))
{
    static float x32[N], y32[N];
    static double x64[N], y64[N];
    for (int wide = 0; wide < 2; wide++) {
        char entry[64];
        snprintf(entry, sizeof entry, "f%d_%s", wide ? 64 : 32, name);
        void *x = wide ? (void *)x64 : (void *)x32, *y = wide ? (void *)y64 : (void *)y32;
        size_t bytes = wide ? sizeof x64 : sizeof x32;
        for (int i = 0; i < N; i++) {
            x64[i] = at(lo, hi, i);
            x32[i] = (float)x64[i];
        }
        assert_int_equal(sg_mem_register(dev, x, bytes, true), 0);
        assert_int_equal(sg_mem_register(dev, y, bytes, false), 0);
        void *args[2] = {x, y};
        struct sg_launch l = {
            .kernel = sg_module_kernel(mod, entry), .grid = {1, 1, 1}, .block = {N, 1, 1}, .params = (uint8_t *)args};
        assert_non_null(l.kernel);
        struct sg_fault f;
        int r = sg_execute(dev, &l, NULL, &f);
        if (r < 0) {
            char t[512];
            sg_fault_text(&f, t, sizeof t);
            print_error("%s\n", t);
        }
        assert_int_equal(r, 0);
        assert_int_equal(sg_mem_unregister(dev, x), 0);
        assert_int_equal(sg_mem_unregister(dev, y), 0);
        for (int i = 0; i < N; i++) {
            double want = fn(wide ? x64[i] : (double)x32[i]), got = wide ? y64[i] : (double)y32[i];
            double tol = (wide ? 1e-14 : 1e-6) * fmax(fabs(want), wide ? 1e-1 : 1);
            if (!(fabs(got - want) <= tol)) {
                print_error("%s(%.17g) is %.17g, not %.17g\n", entry, wide ? x64[i] : (double)x32[i], got, want);
                fail();
            }
        }
    }
}

static void test_functions(void **state)
{
    (void)state;
#define FN(name, lo, hi) check(#name, lo, hi, name);
#include "tests/ptx/cuda/functions.def"
}

static int setup(void **state)
{
    (void)state;
    const char *root = getenv("DOVETAIL_SOURCE");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/ptx/cuda/math.ptx", root ? root : ".");
    FILE *f = fopen(path, "rb");
    char *text = malloc(4 << 20);
    if (!f || !text)
        return -1;
    size_t n = fread(text, 1, 4 << 20, f);
    fclose(f);
    struct dt_err e = {0};
    int r = sg_device_new(sg_model_find(NULL), &dev);
    if (r == 0)
        r = sg_module_load(dev, text, n, &mod, &e);
    free(text);
    if (r < 0)
        print_error("%s\n", e.detail);
    return r;
}

static int teardown(void **state)
{
    (void)state;
    sg_module_free(mod);
    sg_device_free(dev);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
