/* Loads and stores of whole warps in every shape of addresses, size, vector and space, against memcpy; and what the
 * counters say of them against sectors counted one by one. Run on each instruction set (DOVETAIL_SOFTGPU_ISA). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "softgpu/sg.h"

enum { LANES = 32, BYTES = 4096 };

static struct sg_device *dev;

/* Addresses of the lanes, in units of one access, below 64. */
static unsigned pattern(unsigned kind, unsigned l)
{
    switch (kind) {
    case 0: return 5;                                        /* one for all */
    case 1: return 3 + l;                                    /* a line */
    case 2: return l < 16 ? 7 : 9;                           /* halves: same, same */
    case 3: return l % 16;                                   /* line, line, overlapping */
    case 4: return l < 16 ? 4 : 20 + l % 16;                 /* same, line */
    case 5: return l < 16 ? l : 2;                           /* line, same */
    case 6: return 40 - l;                                   /* descending */
    case 7: return l * 7 % 61;                               /* scattered */
    case 8: return l / 4;                                    /* quarters */
    case 9: return l == 31 ? 63 : l;                         /* a line but for the last lane */
    default: return (unsigned)(dt_splitmix64(kind, l) % 64); /* any, some twice */
    }
}

struct variant {
    const char *space, *type, *reg; /* "global" "u16" "u64": loaded into registers of that type */
    unsigned bytes, n;
};

/* Each thread t < count: r = in[off[t]], out[t] = r as a load; or out[off[t]] = in[t] as a store. In shared memory by
 * way of a copy. */
static void source(char *s, size_t size, const struct variant *v, bool store)
{
    unsigned words = v->bytes * v->n;
    char vec[16] = "", regs[64] = "%v0";
    if (v->n > 1)
        snprintf(vec, sizeof vec, ".v%u", v->n);
    if (v->n == 2)
        strcpy(regs, "{%v0, %v1}");
    if (v->n == 4)
        strcpy(regs, "{%v0, %v1, %v2, %v3}");
    bool shared = !strcmp(v->space, "shared");
    snprintf(s, size,
             ".version 8.0\n.target sm_80\n.address_size 64\n"
             ".visible .entry k(.param .u64 in, .param .u64 off, .param .u64 out, .param .u32 count)\n{\n"
             ".shared .align 16 .b8 sh[%u];\n.reg .pred %%p;\n.reg .b32 %%r<9>, %%s;\n.reg .b64 %%d<9>;\n.reg .%s "
             "%%v<4>;\n.reg .b8 %%b;\n"
             "mov.u32 %%r0, %%tid.x;\nld.param.u64 %%d0, [in];\nld.param.u64 %%d1, [off];\nld.param.u64 %%d2, [out];\n"
             "ld.param.u32 %%r1, [count];\nsetp.ge.u32 %%p, %%r0, %%r1;\n@%%p bra E;\n"
             "mul.wide.u32 %%d3, %%r0, 4;\nadd.u64 %%d3, %%d1, %%d3;\nld.global.u32 %%r2, [%%d3];\nmul.lo.u32 %%r2, "
             "%%r2, %u;\n"
             "mul.lo.u32 %%r3, %%r0, %u;\n",
             BYTES, v->reg, words, words);
    size_t n = strlen(s);
    /* %r2: byte offset from the table, %r3: own byte offset; copies of all BYTES between global and shared go by
     * lane 0 */
    static const char copy[] =
        "mov.u32 %%r4, 0;\nC%d: cvt.u64.u32 %%d4, %%r4;\nadd.u64 %%d5, %s, %%d4;\nmov.u32 %%r5, sh;\nadd.u32 %%r5, "
        "%%r5, %%r4;\n"
        "%s\nadd.u32 %%r4, %%r4, 4;\nsetp.lt.u32 %%p, %%r4, %u;\n@%%p bra C%d;\nbar.warp.sync -1;\n";
#define PUT(...) (n += (size_t)snprintf(s + n, size - n, __VA_ARGS__))
    if (shared)
        PUT(copy, 0, store ? "%d2" : "%d0", "ld.global.u32 %r6, [%d5];\nst.shared.u32 [%r5], %r6;", BYTES, 0);
    PUT("cvt.u64.u32 %%d6, %%r3;\nadd.u64 %%d7, %s, %%d6;\n", store ? "%d0" : "%d2");
    if (shared)
        PUT("mov.u32 %%s, sh;\nadd.u32 %%s, %%s, %%r2;\n");
    PUT("cvt.u64.u32 %%d8, %%r2;\nadd.u64 %%d8, %s, %%d8;\n", store ? "%d2" : "%d0");
    const char *at = shared ? "%s" : "%d8";
    if (store) {
        PUT("ld.global%s.%s %s, [%%d7];\nst.%s%s.%s [%s], %s;\n", vec, v->type, regs, v->space, vec, v->type, at, regs);
        if (shared)
            PUT(copy, 1, "%d2", "ld.shared.u32 %r6, [%r5];\nst.global.u32 [%d5], %r6;", BYTES, 1);
    } else {
        PUT("ld.%s%s.%s %s, [%s];\n", v->space, vec, v->type, regs, at);
        /* the whole register, so that extension shows: 8 bytes an element */
        PUT("mul.lo.u32 %%r7, %%r0, %u;\ncvt.u64.u32 %%d6, %%r7;\nadd.u64 %%d7, %%d2, %%d6;\n", 8 * v->n);
        for (unsigned e = 0; e < v->n; e++)
            PUT("st.global.%s [%%d7+%u], %%v%u;\n", v->reg, 8 * e, e);
    }
    PUT("E: ret;\n}\n");
    assert_true(n < size - 1);
}

static uint8_t *device_bytes(void)
{
    uint64_t a;
    assert_int_equal(sg_mem_alloc(dev, BYTES, &a), 0);
    return (uint8_t *)(uintptr_t)a;
}

static unsigned sectors(const unsigned *off, unsigned count, unsigned step)
{
    uint8_t seen[BYTES / 32] = {0};
    unsigned n = 0;
    for (unsigned l = 0; l < count; l++)
        for (unsigned b = 0; b < step; b++)
            if (!seen[(off[l] * step + b) / 32])
                seen[(off[l] * step + b) / 32] = 1, n++;
    return n;
}

static void one(const struct variant *v, bool store)
{
    static char text[8192];
    struct sg_module *m;
    struct dt_err e = {0};
    source(text, sizeof text, v, store);
    if (sg_module_load(dev, text, strlen(text), &m, &e) < 0)
        fail_msg("%s\n%s", e.detail ? e.detail : "?", text);
    uint8_t *in = device_bytes(), *out = device_bytes(), *offs = device_bytes();
    const unsigned step = v->bytes * v->n, reg = (unsigned)strtoul(v->reg + 1, NULL, 10) / 8;
    bool sign = v->type[0] == 's';
    for (unsigned kind = 0; kind < 14; kind++)
        for (unsigned count = 32; count > 0; count = count == 32 ? 21 : count == 21 ? 1 : 0) {
            unsigned off[LANES];
            uint8_t want[BYTES];
            for (unsigned i = 0; i < BYTES; i++)
                in[i] = (uint8_t)dt_splitmix64(kind, i), out[i] = want[i] = (uint8_t)(i ^ 0x5A);
            for (unsigned l = 0; l < LANES; l++) {
                off[l] = pattern(kind, l);
                memcpy(offs + 4 * l, &off[l], 4);
            }
            for (unsigned l = 0; l < count; l++)
                if (store) {
                    memcpy(want + off[l] * step, in + l * step, step);
                } else {
                    for (unsigned k = 0; k < v->n; k++) {
                        uint64_t x = 0;
                        memcpy(&x, in + off[l] * step + k * v->bytes, v->bytes);
                        if (sign && v->bytes < 8 && x >> (8 * v->bytes - 1) & 1)
                            x |= ~0ull << (8 * v->bytes);
                        memcpy(want + (l * v->n + k) * 8, &x, reg);
                    }
                }
            uint8_t params[32];
            memcpy(params, &in, 8), memcpy(params + 8, &offs, 8), memcpy(params + 16, &out, 8),
                memcpy(params + 24, &count, 4);
            struct sg_launch l = {
                .kernel = sg_module_kernel(m, "k"), .grid = {1, 1, 1}, .block = {LANES, 1, 1}, .params = params};
            struct sg_fault f = {0};
            struct sg_stats st;
            if (sg_execute(dev, &l, &st, &f) < 0)
                fail_msg("%s.%s.v%u %u: %s\n%s", v->space, v->type, v->n, kind, f.text, text);
            if (memcmp(want, out, BYTES))
                fail_msg("%s %s.%s.v%u into %s, pattern %u, %u threads", store ? "st" : "ld", v->space, v->type, v->n,
                         v->reg, kind, count);
            if (!strcmp(v->space, "global") && !store)
                assert_int_equal(st.global_read_bytes, 32 * (sectors(off, count, step) + (count * 4 + 31) / 32));
            if (!strcmp(v->space, "global") && store)
                assert_int_equal(st.global_write_bytes, 32 * sectors(off, count, step));
        }
    /* one lane out of bounds, one misaligned: the fault names it */
    for (unsigned bad = 0; bad < 2 && step > 1; bad++) {
        for (unsigned l = 0; l < LANES; l++) {
            unsigned at = l == 19 ? BYTES / step : l;
            memcpy(offs + 4 * l, &at, 4);
        }
        uint32_t count = LANES;
        uint64_t from = (uint64_t)(uintptr_t)(store ? out : in) + (bad ? 1 : 0);
        uint8_t params[32];
        memcpy(params, &in, 8), memcpy(params + 8, &offs, 8), memcpy(params + 16, &out, 8),
            memcpy(params + 24, &count, 4);
        memcpy(params + (store ? 16 : 0), &from, 8);
        if (bad && !strcmp(v->space, "shared"))
            break;
        struct sg_launch l = {
            .kernel = sg_module_kernel(m, "k"), .grid = {1, 1, 1}, .block = {LANES, 1, 1}, .params = params};
        struct sg_fault f = {0};
        assert_int_equal(sg_execute(dev, &l, NULL, &f), DT_E_BOUNDS);
        assert_int_equal(f.thread[0], bad ? 0 : 19);
    }
    sg_mem_free(dev, (uint64_t)(uintptr_t)in);
    sg_mem_free(dev, (uint64_t)(uintptr_t)out);
    sg_mem_free(dev, (uint64_t)(uintptr_t)offs);
    sg_module_free(m);
}

static void test_shapes(void **state)
{
    (void)state;
    static const struct variant v[] = {
        {"global", "u8", "u32", 1, 1},  {"global", "s8", "b32", 1, 1},  {"global", "u8", "b64", 1, 1},
        {"global", "u8", "b16", 1, 4},  {"global", "u16", "b16", 2, 1}, {"global", "s16", "b32", 2, 1},
        {"global", "u16", "b16", 2, 4}, {"global", "u32", "b32", 4, 1}, {"global", "s32", "b64", 4, 1},
        {"global", "u32", "b32", 4, 2}, {"global", "u32", "b32", 4, 4}, {"global", "u64", "b64", 8, 1},
        {"global", "u64", "b64", 8, 2}, {"shared", "u8", "b16", 1, 1},  {"shared", "u16", "b16", 2, 2},
        {"shared", "u32", "b32", 4, 1}, {"shared", "u32", "b32", 4, 2}, {"shared", "u32", "b32", 4, 4},
        {"shared", "u64", "b64", 8, 1}, {"shared", "u64", "b64", 8, 2},
    };
    assert_int_equal(sg_device_new(sg_model_find(NULL), &dev), 0);
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        one(&v[i], false);
        one(&v[i], true);
    }
    dev = sg_device_free(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
