/* Atomics of many blocks on several CPU threads leave what one thread leaves: against plain C. Grids are large enough
 * for helpers to start. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "softgpu/sg.h"

enum { BLOCKS = 600, THREADS = 128, N = BLOCKS * THREADS, BINS = 7 };

static struct sg_device *dev;

/* Each thread: `op` of in[i] on out[in[i] % BINS]. */
static void run(const char *op, const char *type, unsigned bytes, const void *in, void *out)
{
    char text[2048];
    bool wide = bytes == 8;
    snprintf(text, sizeof text,
             ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
             ".reg .b32 %%r<4>;\n.reg .b64 %%d<8>;\n.reg .b%u %%v<4>;\n"
             "ld.param.u64 %%d0, [in];\nld.param.u64 %%d1, [out];\n"
             "mov.u32 %%r0, %%ctaid.x;\nmov.u32 %%r1, %%ntid.x;\nmov.u32 %%r2, %%tid.x;\nmad.lo.u32 %%r0, %%r0, %%r1, "
             "%%r2;\n"
             "mul.wide.u32 %%d2, %%r0, %u;\nadd.u64 %%d2, %%d0, %%d2;\nld.global.b%u %%v0, [%%d2];\n"
             "rem.u%u %%v1, %%v0, %u;\n%s %%d3, %%v1;\nmul.lo.u64 %%d3, %%d3, %u;\nadd.u64 %%d3, %%d1, %%d3;\n%s.%s "
             "%s[%%d3], %%v0;\nret;\n}\n",
             bytes * 8, bytes, bytes * 8, bytes * 8, BINS, wide ? "mov.u64" : "cvt.u64.u32", bytes, op, type,
             !strncmp(op, "atom", 4) ? "%v2, " : "");
    struct sg_module *m;
    struct dt_err e = {0};
    if (sg_module_load(dev, text, strlen(text), &m, &e) < 0)
        fail_msg("%s\n%s", e.detail ? e.detail : "?", text);
    uint8_t params[16];
    memcpy(params, &in, 8);
    memcpy(params + 8, &out, 8);
    struct sg_launch l = {
        .kernel = sg_module_kernel(m, "k"), .grid = {BLOCKS, 1, 1}, .block = {THREADS, 1, 1}, .params = params};
    struct sg_fault f = {0};
    if (sg_execute(dev, &l, NULL, &f) < 0)
        fail_msg("%s.%s: %s", op, type, f.text);
    sg_module_free(m);
}

static uint64_t apply(char what, bool sign, unsigned bytes, uint64_t old, uint64_t v)
{
    unsigned up = 64 - 8 * bytes;
    bool less = sign ? (int64_t)(v << up) < (int64_t)(old << up) : v < old;
    uint64_t r = what == '+'   ? old + v
                 : what == '<' ? (less ? v : old)
                 : what == '>' ? (less ? old : v)
                 : what == '&' ? (old & v)
                 : what == '|' ? (old | v)
                               : old ^ v;
    return bytes == 8 ? r : (uint32_t)r;
}

static void test_commuting(void **state)
{
    (void)state;
    static const struct {
        const char *op, *type;
        char what;
        bool sign;
        unsigned bytes;
    } c[] = {
        {"red.global.add", "u32", '+', 0, 4},  {"atom.global.add", "s32", '+', 1, 4},
        {"red.add", "u64", '+', 0, 8},         {"red.global.min", "u32", '<', 0, 4},
        {"red.global.max", "s32", '>', 1, 4},  {"red.global.min", "s64", '<', 1, 8},
        {"atom.global.max", "u64", '>', 0, 8}, {"red.global.and", "b32", '&', 0, 4},
        {"red.global.or", "b64", '|', 0, 8},   {"atom.global.xor", "b32", '^', 0, 4},
    };
    uint64_t a, b;
    assert_int_equal(sg_mem_alloc(dev, N * 8, &a), 0);
    assert_int_equal(sg_mem_alloc(dev, BINS * 8, &b), 0);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        for (unsigned round = 0; round < 3; round++) {
            uint8_t *in = (uint8_t *)(uintptr_t)a, *out = (uint8_t *)(uintptr_t)b;
            uint64_t want[BINS], start = dt_splitmix64(i, round) & (c[i].bytes == 8 ? ~0ull : 0xFFFFFFFFu);
            for (unsigned k = 0; k < BINS; k++) {
                want[k] = start;
                memcpy(out + k * c[i].bytes, &start, c[i].bytes);
            }
            for (unsigned k = 0; k < N; k++) {
                uint64_t v = dt_splitmix64(round, k) & (c[i].bytes == 8 ? ~0ull : 0xFFFFFFFFu);
                memcpy(in + k * c[i].bytes, &v, c[i].bytes);
                want[v % BINS] = apply(c[i].what, c[i].sign, c[i].bytes, want[v % BINS], v);
            }
            run(c[i].op, c[i].type, c[i].bytes, in, out);
            for (unsigned k = 0; k < BINS; k++) {
                uint64_t got = 0;
                memcpy(&got, out + k * c[i].bytes, c[i].bytes);
                if (got != want[k])
                    fail_msg("%s.%s, bin %u: 0x%llx, not 0x%llx", c[i].op, c[i].type, k, (unsigned long long)got,
                             (unsigned long long)want[k]);
            }
        }
    sg_mem_free(dev, a);
    sg_mem_free(dev, b);
}

/* Results that are used, floats, and two kinds at once keep the order of blocks: ticket i goes to thread i. */
static void test_ordered(void **state)
{
    (void)state;
    static const char text[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u64 n)\n{\n"
        ".reg .b32 %r<6>;\n.reg .f32 %f<2>;\n.reg .b64 %d<6>;\n"
        "ld.param.u64 %d0, [out];\nld.param.u64 %d1, [n];\n"
        "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\nmad.lo.u32 %r0, %r0, %r1, %r2;\n"
        "atom.global.add.u32 %r3, [%d1], 1;\nmul.wide.u32 %d2, %r0, 4;\nadd.u64 %d2, %d0, %d2;\nst.global.u32 [%d2], "
        "%r3;\n"
        "cvt.rn.f32.u32 %f0, %r0;\nred.global.add.f32 [%d1+4], %f0;\n"
        "red.global.max.u32 [%d1+8], %r0;\nred.global.add.u32 [%d1+8], 1;\nret;\n}\n";
    struct sg_module *m;
    struct dt_err e = {0};
    assert_int_equal(sg_module_load(dev, text, sizeof text - 1, &m, &e), 0);
    uint64_t a[2];
    assert_int_equal(sg_mem_alloc(dev, N * 4, &a[0]), 0);
    assert_int_equal(sg_mem_alloc(dev, 12, &a[1]), 0);
    uint32_t *out = (uint32_t *)(uintptr_t)a[0], *n = (uint32_t *)(uintptr_t)a[1], most = 0;
    memset(n, 0, 12);
    struct sg_launch l = {
        .kernel = sg_module_kernel(m, "k"), .grid = {BLOCKS, 1, 1}, .block = {THREADS, 1, 1}, .params = (uint8_t *)a};
    struct sg_fault f = {0};
    assert_int_equal(sg_execute(dev, &l, NULL, &f), 0);
    float sum = 0, got;
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(out[i], i);
        sum += (float)i;
    }
    memcpy(&got, &n[1], 4);
    assert_true(got == sum);
    /* a warp does one instruction for all of its lanes, then the next */
    for (uint32_t w = 0; w < N; w += 32) {
        most = most > w + 31 ? most : w + 31;
        most += 32;
    }
    assert_int_equal(n[2], most);
    sg_mem_free(dev, a[0]);
    sg_mem_free(dev, a[1]);
    sg_module_free(m);
}

int main(void)
{
    setenv("DOVETAIL_SOFTGPU_THREADS", "4", 0);
    if (sg_device_new(sg_model_find(NULL), &dev) < 0)
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_commuting), cmocka_unit_test(test_ordered)};
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    dev = sg_device_free(dev);
    return r;
}
