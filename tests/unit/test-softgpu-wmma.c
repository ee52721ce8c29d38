/* wmma.load and wmma.store of a whole matrix against the same, an element of a lane at a time, which the race check
 * makes of them: registers, memory, sectors, faults. Strides, addresses and spaces in which words straddle, lines
 * overlap, or the last line leaves its allocation. Where each element belongs is tested by tests/ptx/gen/matrix.py. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "softgpu/sg.h"

enum { BYTES = 4096, LANES = 32 };

static struct sg_device *dev;

struct fragment {
    const char *which, *shape, *type; /* "a" "m16n16k16" "f16" */
    unsigned regs, bytes, wide;       /* registers; bytes of an element, of a register */
};
static const struct fragment fragments[] = {
    {"a", "m16n16k16", "f16", 8, 2, 4}, {"b", "m16n16k16", "f16", 8, 2, 4}, {"c", "m16n16k16", "f32", 8, 4, 4},
    {"a", "m32n8k16", "f16", 8, 2, 4},  {"b", "m32n8k16", "f16", 8, 2, 4},  {"c", "m32n8k16", "f16", 4, 2, 4},
    {"a", "m8n32k16", "bf16", 2, 2, 4}, {"b", "m8n32k16", "bf16", 8, 2, 4}, {"c", "m8n32k16", "s32", 8, 4, 4},
    {"a", "m16n16k16", "s8", 2, 1, 4},  {"b", "m32n8k16", "u8", 1, 1, 4},   {"a", "m32n8k16", "s8", 4, 1, 4},
    {"a", "m16n16k8", "tf32", 4, 4, 4}, {"b", "m16n16k8", "tf32", 4, 4, 4}, {"a", "m8n8k4", "f64", 1, 8, 8},
    {"b", "m8n8k4", "f64", 1, 8, 8},    {"c", "m8n8k4", "f64", 2, 8, 8},    {"c", "m16n16k16", "f16", 4, 2, 4},
};

static void registers(char *s, size_t size, const struct fragment *f)
{
    size_t n = (size_t)snprintf(s, size, "{");
    for (unsigned r = 0; r < f->regs; r++)
        n += (size_t)snprintf(s + n, size - n, "%s%%v%u", r ? ", " : "", r);
    snprintf(s + n, size - n, "}");
}

/* load: out[register][lane] = the matrix at in; store: the matrix at out = in[register][lane]. "shared": the matrix
 * lies in shared memory (by its generic address), a copy of in, and is copied to out. */
static void source(char *s, size_t size, const struct fragment *f, const char *layout, bool store, bool shared)
{
    static const char copy[] = "mov.u64 %%d4, 0;\nC%d: add.u64 %%d5, %s, %%d4;\nadd.u64 %%d6, %s, %%d4;\n"
                               "ld.b64 %%d7, [%%d5];\nst.b64 [%%d6], %%d7;\nadd.u64 %%d4, %%d4, 8;\n"
                               "setp.lt.u64 %%p, %%d4, %u;\n@%%p bra C%d;\nbar.sync 0;\n";
    char regs[128];
    registers(regs, sizeof regs, f);
    size_t n = 0;
#define PUT(...) (n += (size_t)snprintf(s + n, size - n, __VA_ARGS__))
    PUT(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out, .param .u32 "
        "stride, .param .u32 at)\n{\n.shared .align 16 .b8 sh[%u];\n.reg .pred %%p;\n.reg .b32 %%r<4>;\n.reg .b64 "
        "%%d<9>;\n.reg .%s %%v<8>;\nld.param.u64 %%d0, [in];\nld.param.u64 %%d1, [out];\nld.param.u32 %%r0, "
        "[stride];\nld.param.u32 %%r1, [at];\ncvt.u64.u32 %%d2, %%r1;\nmov.u32 %%r2, %%tid.x;\nmul.wide.u32 %%d3, "
        "%%r2, %u;\nmov.u64 %%d8, sh;\ncvta.shared.u64 %%d8, %%d8;\n",
        BYTES,
        f->wide == 8                         ? "f64"
        : f->type[0] == 'f' && f->bytes == 4 ? "f32"
                                             : "b32",
        f->wide);
    if (shared)
        PUT(copy, 0, store ? "%d1" : "%d0", "%d8", BYTES, 0);
    PUT("add.u64 %%d2, %%d2, %s;\nadd.u64 %%d3, %%d3, %s;\n",
        shared  ? "%d8"
        : store ? "%d1"
                : "%d0",
        store ? "%d0" : "%d1");
    const char *reg = f->wide == 8 ? "f64" : f->type[0] == 'f' && f->bytes == 4 ? "f32" : "b32";
    if (!store)
        PUT("wmma.load.%s.sync.aligned.%s.%s%s.%s %s, [%%d2], %%r0;\n", f->which, layout, f->shape,
            shared ? "" : ".global", f->type, regs);
    for (unsigned r = 0; r < f->regs; r++)
        PUT(store ? "ld.global.%s %%v%u, [%%d3+%u];\n" : "", reg, r, r * LANES * f->wide);
    for (unsigned r = 0; !store && r < f->regs; r++)
        PUT("st.global.%s [%%d3+%u], %%v%u;\n", reg, r * LANES * f->wide, r);
    if (store)
        PUT("wmma.store.d.sync.aligned.%s.%s%s.%s [%%d2], %s, %%r0;\nbar.sync 0;\n", layout, f->shape,
            shared ? "" : ".global", f->type, regs);
    if (shared && store)
        PUT(copy, 1, "%d8", "%d1", BYTES, 1);
    PUT("ret;\n}\n");
#undef PUT
    assert_true(n < size - 1);
}

static uint8_t *device_bytes(void)
{
    uint64_t a;
    assert_int_equal(sg_mem_alloc(dev, BYTES, &a), 0);
    return (uint8_t *)(uintptr_t)a;
}

struct outcome {
    int rc;
    uint8_t bytes[BYTES];
    struct sg_stats stats;
    struct sg_fault fault;
};

static void launch(struct sg_module *m, uint8_t *in, uint8_t *out, uint32_t stride, uint32_t at, bool by_lane,
                   struct outcome *ret)
{
    for (unsigned i = 0; i < BYTES; i++)
        in[i] = (uint8_t)dt_splitmix64(7, i), out[i] = (uint8_t)(i ^ 0x5A);
    uint8_t params[24];
    memcpy(params, &in, 8), memcpy(params + 8, &out, 8), memcpy(params + 16, &stride, 4), memcpy(params + 20, &at, 4);
    memset(ret, 0, sizeof *ret);
    struct sg_launch l = {.kernel = sg_module_kernel(m, "k"),
                          .grid = {1, 1, 1},
                          .block = {LANES, 1, 1},
                          .params = params,
                          .checks = by_lane ? SG_CHECK_BLOCKS : 0};
    ret->rc = sg_execute(dev, &l, &ret->stats, &ret->fault);
    memcpy(ret->bytes, out, BYTES);
}

static void one(const struct fragment *f, const char *layout, bool store, bool shared)
{
    static char text[8192];
    static struct outcome whole, lanes;
    struct sg_module *m;
    struct dt_err e = {0};
    source(text, sizeof text, f, layout, store, shared);
    if (sg_module_load(dev, text, strlen(text), &m, &e) < 0)
        fail_msg("%s\n%s", e.detail ? e.detail : "?", text);
    uint8_t *in = device_bytes(), *out = device_bytes();
    unsigned ran = 0, left = 0;
    static const uint32_t strides[] = {8, 16, 33, 400}; /* lines overlap, meet, are crooked, leave the memory */
    for (unsigned i = 0; i < sizeof strides / sizeof *strides; i++)
        for (unsigned at = 0; at < 4; at++) {
            const uint32_t from = at < 2 ? at * f->bytes : at == 2 ? BYTES - 32 : 1;
            launch(m, in, out, strides[i], from, false, &whole);
            launch(m, in, out, strides[i], from, true, &lanes);
            bool same = whole.rc == lanes.rc && !memcmp(whole.bytes, lanes.bytes, BYTES);
            if (whole.rc == 0)
                same = same && whole.stats.global_read_bytes == lanes.stats.global_read_bytes &&
                       whole.stats.global_write_bytes == lanes.stats.global_write_bytes;
            else
                same = same && whole.fault.thread[0] == lanes.fault.thread[0] &&
                       whole.fault.address == lanes.fault.address;
            if (!same)
                fail_msg("stride %u, from byte %u, %s: %d and %d, read %llu and %llu, written %llu and %llu\n%s",
                         strides[i], from, shared ? "shared" : "global", whole.rc, lanes.rc,
                         (unsigned long long)whole.stats.global_read_bytes,
                         (unsigned long long)lanes.stats.global_read_bytes,
                         (unsigned long long)whole.stats.global_write_bytes,
                         (unsigned long long)lanes.stats.global_write_bytes, text);
            *(whole.rc == 0 ? &ran : &left) += 1;
        }
    assert_true(ran > 2);
    assert_true(left > 2);
    sg_mem_free(dev, (uint64_t)(uintptr_t)in);
    sg_mem_free(dev, (uint64_t)(uintptr_t)out);
    sg_module_free(m);
}

static void each(bool store, bool shared)
{
    for (size_t i = 0; i < sizeof fragments / sizeof *fragments; i++)
        for (unsigned col = 0; col < 2; col++)
            if (!store || fragments[i].which[0] == 'c')
                one(&fragments[i], col ? "col" : "row", store, shared);
}

static void test_load(void **state)
{
    (void)state;
    each(false, false);
    each(false, true);
}

static void test_store(void **state)
{
    (void)state;
    each(true, false);
    each(true, true);
}

static int make_device(void **state)
{
    (void)state;
    return sg_device_new(sg_model_find(NULL), &dev);
}

static int free_device(void **state)
{
    (void)state;
    dev = sg_device_free(dev);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_load), cmocka_unit_test(test_store)};
    return cmocka_run_group_tests(tests, make_device, free_device);
}
