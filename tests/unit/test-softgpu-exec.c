/* softgpu: kernels that nvcc made of real CUDA, against plain C; memory; faults; limits; determinism. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <pthread.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/hash.h"
#include "softgpu/sg.h"

static struct sg_device *dev;
static struct sg_module *mod;

static struct sg_module *load(const char *text)
{
    struct sg_module *m = NULL;
    struct dt_err e = {0};
    int r = sg_module_load(dev, text, strlen(text), &m, &e);
    if (r < 0)
        print_error("%s\n", e.detail ? e.detail : dt_err_text(r));
    dt_err_done(&e);
    assert_int_equal(r, 0);
    return m;
}

static int setup(void **state)
{
    (void)state;
    assert_int_equal(sg_device_new(sg_model_find(NULL), &dev), 0);
    char path[4096];
    const char *root = getenv("DOVETAIL_SOURCE");
    snprintf(path, sizeof path, "%s/bench/softgpu/kernels.ptx", root ? root : ".");
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    static char text[1 << 20];
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    mod = load(text);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mod = sg_module_free(mod);
    dev = sg_device_free(dev);
    return 0;
}

static float *device_floats(size_t n, uint64_t seed)
{
    uint64_t a;
    assert_int_equal(sg_mem_alloc(dev, n * 4, &a), 0);
    float *p = (float *)(uintptr_t)a;
    for (size_t i = 0; seed && i < n; i++)
        p[i] = (float)(dt_splitmix64(seed, i) >> 40) * 0x1p-23f - 1;
    return p;
}

static void drop(void *p) { assert_int_equal(sg_mem_free(dev, (uint64_t)(uintptr_t)p), 0); }

struct arg {
    size_t bytes;
    const void *p;
};
#define A(x)                                                                                                           \
    {                                                                                                                  \
        sizeof(x), &(x)                                                                                                \
    }

/* Launch by name; parameters are laid out as the kernel says. */
static int launch(struct sg_module *m, const char *name, struct sg_launch l, const struct arg *arg, struct sg_stats *st,
                  struct sg_fault *f)
{
    uint8_t params[256] = {0};
    l.kernel = sg_module_kernel(m, name);
    assert_non_null(l.kernel);
    const struct sg_kernel_info *i = sg_kernel_info(l.kernel);
    for (unsigned k = 0; k < i->nparam; k++) {
        assert_int_equal(arg[k].bytes, i->param_bytes[k]);
        memcpy(params + i->param_offset[k], arg[k].p, arg[k].bytes);
    }
    l.params = params;
    for (int k = 0; k < 3; k++) {
        l.grid[k] = l.grid[k] ? l.grid[k] : 1;
        l.block[k] = l.block[k] ? l.block[k] : 1;
    }
    return sg_execute(dev, &l, st, f);
}

static void ok(struct sg_module *m, const char *name, struct sg_launch l, const struct arg *arg)
{
    struct sg_fault f = {0};
    int r = launch(m, name, l, arg, NULL, &f);
    if (r < 0) {
        char t[512];
        sg_fault_text(&f, t, sizeof t);
        print_error("%s\n", t);
    }
    assert_int_equal(r, 0);
}

static void test_gemm(void **state)
{
    (void)state;
    int m = 50, n = 40, k = 70;
    float *a = device_floats(50 * 70, 1), *b = device_floats(70 * 40, 2), *c = device_floats(50 * 40, 0);
    ok(mod, "gemm16", (struct sg_launch){.grid = {3, 4}, .block = {16, 16}},
       (struct arg[]){A(a), A(b), A(c), A(m), A(n), A(k)});
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float s = 0; /* the kernel's own order, fused as nvcc does */
            for (int p = 0; p < k; p++)
                s = fmaf(a[i * k + p], b[p * n + j], s);
            for (int p = k; p < 80; p++)
                s = fmaf(0, 0, s);
            assert_memory_equal(&s, &c[i * n + j], 4);
        }
    drop(a);
    drop(b);
    drop(c);
}

static void test_gemm_tiled(void **state)
{
    (void)state;
    int n = 128, k = 32;
    float *a = device_floats(64 * 32, 3), *b = device_floats(32 * 128, 4), *c = device_floats(64 * 128, 0);
    ok(mod, "gemm64", (struct sg_launch){.grid = {2, 1}, .block = {256}}, (struct arg[]){A(a), A(b), A(c), A(n), A(k)});
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < n; j++) {
            float s = 0;
            for (int p = 0; p < k; p++)
                s = fmaf(a[i * k + p], b[p * n + j], s);
            assert_memory_equal(&s, &c[i * n + j], 4);
        }
    drop(a);
    drop(b);
    drop(c);
}

static void test_softmax(void **state)
{
    (void)state;
    int n = 77;
    float *x = device_floats(5 * 77, 5), *y = device_floats(5 * 77, 0);
    ok(mod, "softmax", (struct sg_launch){.grid = {5}, .block = {96}}, (struct arg[]){A(x), A(y), A(n)});
    for (int r = 0; r < 5; r++) {
        double m = -INFINITY, s = 0;
        for (int i = 0; i < n; i++)
            m = fmax(m, x[r * n + i]);
        for (int i = 0; i < n; i++)
            s += exp(x[r * n + i] - m);
        for (int i = 0; i < n; i++)
            assert_true(fabs(exp(x[r * n + i] - m) / s - y[r * n + i]) < 1e-6);
    }
    drop(x);
    drop(y);
}

static void test_gelu(void **state)
{
    (void)state;
    int n = 1000;
    float *x = device_floats(1000, 6), *y = device_floats(1000, 0);
    for (int i = 0; i < n; i++)
        x[i] *= 4;
    ok(mod, "gelu", (struct sg_launch){.grid = {4}, .block = {256}}, (struct arg[]){A(x), A(y), A(n)});
    for (int i = 0; i < n; i++)
        assert_true(fabs(0.5 * x[i] * (1 + erf(x[i] * M_SQRT1_2)) - y[i]) < 2e-6);
    drop(x);
    drop(y);
}

static void test_divergence(void **state)
{
    (void)state;
    int n = 500;
    unsigned *x = (unsigned *)device_floats(500, 0), *s = (unsigned *)device_floats(500, 0);
    for (int i = 0; i < n; i++)
        x[i] = (unsigned)(i * 7919 % 100000 + 1);
    ok(mod, "collatz", (struct sg_launch){.grid = {4}, .block = {128}}, (struct arg[]){A(x), A(s), A(n)});
    for (int i = 0; i < n; i++) {
        unsigned long long v = x[i];
        unsigned k = 0;
        for (; v > 1; k++)
            v = v & 1 ? 3 * v + 1 : v / 2;
        assert_int_equal(k, s[i]);
    }
    drop(x);
    drop(s);
}

/* Floating-point atomics across blocks: the same bits whatever the number of threads; a seed reorders them. */
static void test_deterministic(void **state)
{
    (void)state;
    int n = 1 << 16;
    float *x = device_floats((size_t)n, 7), *out = device_floats(1, 0), first = 0;
    bool differs = false;
    for (int i = 0; i < 12; i++) {
        *out = 0;
        setenv("DOVETAIL_SOFTGPU_THREADS", i % 2 ? "4" : "1", 1);
        ok(mod, "sum", (struct sg_launch){.grid = {512}, .block = {128}, .seed = i < 4 ? 0 : (uint64_t)i},
           (struct arg[]){A(x), A(out), A(n)});
        if (i == 0)
            first = *out;
        if (i < 4)
            assert_memory_equal(&first, out, 4);
        else
            differs |= memcmp(&first, out, 4) != 0;
        assert_true(fabsf(*out - first) < 1e-2f * fabsf(first) + 1e-2f);
    }
    unsetenv("DOVETAIL_SOFTGPU_THREADS");
    assert_true(differs);
    drop(x);
    drop(out);
}

static void test_stats(void **state)
{
    (void)state;
    int n = 1024;
    float alpha = 2, *x = device_floats(1024, 8), *y = device_floats(1024, 9);
    struct sg_stats s;
    struct sg_fault f;
    assert_int_equal(launch(mod, "saxpy", (struct sg_launch){.grid = {8}, .block = {128}},
                            (struct arg[]){A(x), A(y), A(alpha), A(n)}, &s, &f),
                     0);
    assert_int_equal(s.global_read_bytes, 8192);
    assert_int_equal(s.global_write_bytes, 4096);
    assert_int_equal(s.unique_read_bytes, 8192);
    assert_int_equal(s.unique_write_bytes, 4096);
    assert_true(s.fp32 == 1024 && s.memory == 3 * 1024 && s.instructions > 10 * 1024 && s.instructions < 30 * 1024);
    assert_true(s.max_block_share == 1);
    assert_int_equal(s.longest * 128, s.instructions); /* all warps do the same */
    n = 32;                                            /* one warp of four works, the others leave early */
    assert_int_equal(launch(mod, "saxpy", (struct sg_launch){.grid = {1}, .block = {128}},
                            (struct arg[]){A(x), A(y), A(alpha), A(n)}, &s, &f),
                     0);
    assert_true(s.longest * 32 < s.instructions && s.longest * 128 > s.instructions);
    drop(x);
    drop(y);
}

/* What goes to other blocks of a cluster is counted apart: every thread stores 16 bytes there, loads 4, and meets the
 * others twice. */
static void test_cluster_stats(void **state)
{
    static const char text[] =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<6>;\n.shared .align 16 "
        ".b8 s[1024];\n"
        "mov.u32 %r1, %tid.x;\nshl.b32 %r1, %r1, 4;\nmov.u32 %r2, s;\nadd.u32 %r1, %r1, %r2;\nmov.u32 %r3, 1;\n"
        "barrier.cluster.arrive;\nbarrier.cluster.wait;\nmapa.shared::cluster.u32 %r4, %r1, %r3;\n"
        "st.shared::cluster.v4.b32 [%r4], {%r1, %r1, %r1, %r1};\nld.shared::cluster.b32 %r5, [%r4];\nst.shared.b32 "
        "[%r2], %r5;\n"
        "barrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\n}\n";
    struct sg_module *m;
    struct sg_stats s;
    struct sg_fault f;
    struct dt_err e = {0};
    (void)state;
    assert_int_equal(sg_module_load(dev, text, strlen(text), &m, &e), 0);
    assert_int_equal(launch(m, "k", (struct sg_launch){.grid = {8}, .block = {64}, .cluster = {4, 1, 1}}, NULL, &s, &f),
                     0);
    assert_int_equal(s.memory, 8 * 64 * 3);
    assert_int_equal(s.shared_bytes, 8 * 64 * 4);
    assert_int_equal(s.cluster_accesses, 8 * 64 * 2);
    assert_int_equal(s.cluster_bytes, 8 * 64 * 20);
    assert_int_equal(s.cluster_syncs, 8 * 64 * 2);
    assert_int_equal(s.barriers, 0);
    sg_module_free(m);
}

/* Prefetched sectors: by line and in pieces, each once, inside the allocation; blocks that leave at once are light. */
static void test_prefetched(void **state)
{
    (void)state;
    struct sg_module *m = load(".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry fetch(.param .u64 x, "
                               ".param .u32 n)\n{\n.reg .pred %p, %q; .reg .b32 %r<4>; .reg .b64 %a;\n"
                               "ld.param.u64 %a, [x]; ld.param.u32 %r0, [n]; mov.u32 %r1, %ctaid.x; setp.gt.u32 %p, "
                               "%r1, 2; @%p ret; mov.u32 %r2, 200;\n"
                               "L: sub.u32 %r2, %r2, 1; setp.ne.u32 %q, %r2, 0; @%q bra L;\nprefetch.global.L2 "
                               "[%a+132]; cp.async.bulk.prefetch.L2.global [%a+16], %r0; ret;\n}\n");
    uint8_t *x = (uint8_t *)device_floats(256, 0);
    /* bytes from 16 on; sectors with those of 128 to 255 */
    static const unsigned size[][2] = {{0, 4}, {16, 5}, {48, 6}, {112, 8}, {128, 8}, {256, 9}, {1008, 32}};
    for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
        struct sg_stats s;
        struct sg_fault f;
        uint32_t n = size[k][0];
        uint8_t *y = (uint8_t *)device_floats(256, 0);
        assert_int_equal(
            launch(m, "fetch", (struct sg_launch){.grid = {10}, .block = {32}}, (struct arg[]){A(y), A(n)}, &s, &f), 0);
        assert_int_equal(s.prefetched_bytes, 32 * size[k][1]);
        assert_int_equal(s.light_blocks, 7);
        assert_true(s.light_instructions > 0 && s.light_instructions < s.instructions / 16);
        drop(y);
    }
    drop(x);
    sg_module_free(m);
}

struct race_row {
    const char *body;
    bool race; /* in whatever order the blocks run */
};

/* Four blocks of one thread, x[0 .. 4) words; `begin` is of the kernel what comes before the row's body. */
static void race_rows(const struct race_row *row, size_t n, const char *begin, uint32_t cluster)
{
    for (size_t i = 0; i < n; i++) {
        char text[2048];
        struct sg_module *m;
        struct sg_fault f = {0};
        struct dt_err e = {0};
        float *x = device_floats(4, 0);
        snprintf(text, sizeof text,
                 ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n%s%s\nret;\n}\n",
                 begin, row[i].body);
        assert_int_equal(sg_module_load(dev, text, strlen(text), &m, &e), 0);
        for (uint64_t seed = 0; seed < 4; seed++) {
            int r = launch(
                m, "k",
                (struct sg_launch){
                    .grid = {4}, .block = {1}, .cluster = {cluster, 1, 1}, .checks = SG_CHECK_BLOCKS, .seed = seed},
                (struct arg[]){A(x)}, NULL, &f);
            if (r != (row[i].race ? DT_E_RACE : 0))
                fail_msg("row %zu, seed %u: %d %s", i, (unsigned)seed, r, f.text);
        }
        sg_module_free(m);
        drop(x);
    }
}

/* SG_CHECK_BLOCKS knows the order that a cluster's barriers give, and no other. A word of x for each rank of two
 * clusters of two. */
static void test_cluster_order(void **state)
{
#define WRITE "st.global.u32 [%mine], %r1;\n" /* this block's word */
#define READ "ld.global.u32 %r2, [%other];\n" /* the other block's of its cluster */
#define FAR "ld.global.u32 %r2, [%far];\n"    /* one of the other cluster's */
#define ALL "ld.global.u32 %r2, [%first];\n"  /* the same of both blocks of a cluster, which rank 0 writes */
#define ZERO "@%p st.global.u32 [%first], %r1;\n"
#define ADD "red.global.add.u32 [%first], 1;\n" /* both blocks of a cluster */
#define COUNT "red.global.add.u32 [%x], 1;\n"   /* all of them */
#define LAST "setp.eq.u32 %p, %r1, 3;\n@%p st.global.u32 [%x], %r1;\n"
#define ARRIVE "barrier.cluster.arrive;\n"
#define WAIT "barrier.cluster.wait;\n"
#define SYNC ARRIVE WAIT
    static const struct race_row row[] = {{WRITE SYNC READ, false},
                                          {WRITE READ, true},
                                          {WRITE "barrier.sync 0;\n" READ, true},
                                          {WRITE SYNC FAR, true},
                                          {READ SYNC WRITE, false},
                                          {READ WRITE, true},
                                          {WRITE SYNC READ SYNC WRITE, false},
                                          {WRITE SYNC READ WRITE, true},
                                          {ARRIVE WRITE WAIT READ, true}, /* written after the arrival */
                                          {ARRIVE WRITE WAIT SYNC READ, false},
                                          {WRITE ARRIVE READ WAIT, true}, /* read before the wait */
                                          {WRITE "barrier.cluster.arrive.relaxed;\n" WAIT READ, true},
                                          {WRITE "barrier.cluster.arrive.relaxed;\n" WAIT SYNC READ, false},
                                          {ALL SYNC ZERO, false}, /* several have read it */
                                          {ALL ZERO, true},
                                          {ZERO SYNC ALL SYNC ZERO, false},
                                          {ADD, false},
                                          {ADD SYNC ZERO, false}, /* after the atomics of both */
                                          {ADD SYNC ADD SYNC ALL, false},
                                          {ADD ZERO, true}, /* after its own, whenever the other comes */
                                          {ADD ALL, true},
                                          {COUNT COUNT, false},
                                          {COUNT LAST, true},
                                          {COUNT SYNC LAST, true}};
    static const char begin[] = ".reg .b64 %x, %y, %mine, %other, %far, %first;\n"
                                ".reg .b32 %r<4>; .reg .pred %p;\nld.param.u64 %x, [x]; mov.u32 %r1, %ctaid.x; "
                                "mul.wide.u32 %y, %r1, 4; add.u64 %mine, %x, %y;\n"
                                "xor.b32 %r3, %r1, 1; mul.wide.u32 %y, %r3, 4; add.u64 %other, %x, %y; xor.b32 %r3, "
                                "%r1, 2; mul.wide.u32 %y, %r3, 4;\n"
                                "add.u64 %far, %x, %y; and.b32 %r3, %r1, 2; mul.wide.u32 %y, %r3, 4; add.u64 %first, "
                                "%x, %y; setp.eq.u32 %p, %r1, %r3;\n";
    (void)state;
    race_rows(row, sizeof row / sizeof *row, begin, 2);
}

/* SG_CHECK_BLOCKS goes by bytes, whatever of a word is touched. %mine and %next: bytes 0 .. 3 by block; %p: block 0. */
static void test_parts_of_words(void **state)
{
    static const struct race_row row[] = {
        {"st.global.u8 [%mine], %r1;", false},
        {"ld.global.u32 %r2, [%x]; ld.global.u8 %r2, [%mine];", false},
        {"st.global.u8 [%mine], %r1; ld.global.u8 %r2, [%mine];", false},
        {"st.global.u8 [%mine], %r1; ld.global.u8 %r2, [%next];", true},
        {"st.global.u8 [%mine], %r1; ld.global.u32 %r2, [%x];", true},
        {"ld.global.u32 %r2, [%x]; st.global.u8 [%mine], %r1;", true},
        {"@%p st.global.u32 [%x], %r1; @!%p st.global.u8 [%x + 1], %r1;", true},
        {"@%p st.global.u32 [%x], %r1; @!%p ld.global.u8 %r2, [%x + 4];", false},
        {"@%p st.global.u64 [%x], %y; @!%p ld.global.u8 %r2, [%x + 7];", true},
        {"@%p st.global.u64 [%x], %y; @!%p ld.global.u8 %r2, [%x + 8];", false},
        {"@%p st.global.u8 [%x + 1], %r1; @%p st.global.u32 [%x], %r1; @!%p ld.global.u8 %r2, [%x + 3];", true},
        {"@%p ld.global.u8 %r2, [%x + 1]; @!%p ld.global.u16 %r2, [%x + 2]; @%p st.global.u8 [%x], %r1;", false},
        {"red.global.add.u32 [%x], %r1; atom.global.cas.b16 %h, [%x + 2], 0, 0;", false},
        {"red.global.add.u32 [%x], %r1; @%p st.global.u8 [%x + 3], %r1;", true}};
    static const char begin[] =
        ".reg .b64 %x, %y, %mine, %next;\n"
        ".reg .b32 %r<4>; .reg .b16 %h; .reg .pred %p;\nld.param.u64 %x, [x]; mov.u32 %r1, %ctaid.x; cvt.u64.u32 %y, "
        "%r1; add.u64 %mine, %x, %y;\n"
        "xor.b32 %r3, %r1, 1; cvt.u64.u32 %y, %r3; add.u64 %next, %x, %y; setp.eq.u32 %p, %r1, 0;\n";
    (void)state;
    race_rows(row, sizeof row / sizeof *row, begin, 1);
}

static void test_out_of_bounds(void **state)
{
    (void)state;
    int n = 1025;
    float alpha = 2, *x = device_floats(1024, 8), *y = device_floats(1025, 9);
    struct sg_fault f;
    for (int i = 0; i < 4; i++) {
        int r = launch(mod, "saxpy", (struct sg_launch){.grid = {9}, .block = {128}, .seed = i == 3 ? 5 : 0},
                       (struct arg[]){A(x), A(y), A(alpha), A(n)}, NULL, &f);
        assert_int_equal(r, DT_E_BOUNDS);
        assert_int_equal(f.num, DT_E_BOUNDS);
        assert_string_equal(f.kernel, "saxpy");
        assert_int_equal(f.block[0], 8);
        assert_int_equal(f.thread[0], 0);
        assert_int_equal(f.bytes, 4);
        assert_true(f.address == (uint64_t)(uintptr_t)(x + 1024));
        assert_non_null(strstr(f.text, "ld.global.f32"));
        assert_non_null(strstr(f.text, "0 bytes past the end of the 4096 bytes"));
        assert_true(f.line > 0);
    }
    drop(x);
    drop(y);
}

static const char spin[] = ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry spin()\n{\nL: bra L;\n}\n";

static void *cancel_soon(void *p)
{
    struct timespec t = {0, 30 * 1000 * 1000};
    nanosleep(&t, NULL);
    __atomic_store_n((int *)p, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void test_endless(void **state)
{
    (void)state;
    struct sg_module *m = load(spin);
    struct sg_fault f;
    int cancel = 0;
    pthread_t t;
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    pthread_create(&t, NULL, cancel_soon, &cancel);
    assert_int_equal(
        launch(m, "spin", (struct sg_launch){.grid = {100}, .block = {1024}, .cancel = &cancel}, NULL, NULL, &f),
        DT_E_TIMEOUT);
    clock_gettime(CLOCK_MONOTONIC, &b);
    pthread_join(t, NULL);
    assert_true((double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec) < 1.0);
    assert_int_equal(
        launch(m, "spin", (struct sg_launch){.grid = {2}, .block = {32}, .max_instructions = 1000000}, NULL, NULL, &f),
        DT_E_TIMEOUT);
    assert_non_null(strstr(f.text, "1000000"));
    sg_module_free(m);
}

static void test_memory(void **state)
{
    (void)state;
    uint64_t a, b, base, bytes, before, after, total;
    sg_mem_info(dev, &before, &total);
    assert_int_equal(sg_mem_alloc(dev, 1000, &a), 0);
    assert_int_equal(sg_mem_alloc(dev, 1, &b), 0);
    assert_int_equal(a % 512, 0);
    assert_int_equal(b % 512, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(((uint8_t *)(uintptr_t)a)[i], 0xFF);
    assert_true(sg_mem_ok(dev, a, 1000) && sg_mem_ok(dev, a + 999, 1));
    assert_false(sg_mem_ok(dev, a, 1001) || sg_mem_ok(dev, a + 1000, 1) || sg_mem_ok(dev, a - 1, 1));
    assert_true(sg_mem_find(dev, a + 500, &base, &bytes) && base == a && bytes == 1000);
    sg_mem_info(dev, &after, &total);
    assert_int_equal(before - after, 1001);
    assert_int_equal(sg_mem_free(dev, a + 1), DT_E_NOT_FOUND);
    assert_int_equal(sg_mem_alloc(dev, 0, &base), DT_E_USAGE);
    assert_int_equal(sg_mem_alloc(dev, 1000000000000000, &base), DT_E_NOMEM);
    assert_int_equal(sg_mem_alloc(dev, UINT64_MAX, &base), DT_E_NOMEM);
    static int mine[4];
    assert_int_equal(sg_mem_register(dev, mine, sizeof mine, false), 0);
    assert_int_equal(sg_mem_register(dev, &mine[1], 4, false), DT_E_USAGE);
    assert_int_equal(sg_mem_free(dev, (uint64_t)(uintptr_t)mine), DT_E_NOT_FOUND);
    assert_int_equal(sg_mem_unregister(dev, mine), 0);
    assert_int_equal(sg_mem_free(dev, a), 0);
    assert_int_equal(sg_mem_free(dev, a), DT_E_NOT_FOUND);
    assert_int_equal(sg_mem_free(dev, b), 0);
}

static void test_bad_launch(void **state)
{
    (void)state;
    struct sg_module *m = load(spin);
    struct sg_fault f;
    struct sg_launch l = {.kernel = sg_module_kernel(m, "spin"), .grid = {0, 1, 1}, .block = {1, 1, 1}};
    assert_int_equal(sg_execute(dev, &l, NULL, &f), DT_E_LAUNCH);
    l.grid[0] = 1;
    l.block[0] = 1025;
    assert_int_equal(sg_execute(dev, &l, NULL, &f), DT_E_LAUNCH);
    l.block[0] = 32;
    l.shared_dynamic = 1 << 20;
    assert_int_equal(sg_execute(dev, &l, NULL, &f), DT_E_LAUNCH);
    assert_null(sg_module_kernel(m, "no"));
    sg_module_free(m);
    struct dt_err e = {0};
    m = NULL;
    assert_int_equal(sg_module_load(dev, "nonsense", 8, &m, &e), DT_E_PTX);
    assert_null(m);
    dt_err_done(&e);
}

/* A thread has no more registers than the kernel's bounds leave it: of 65,536, in steps of 8, 255 at most. */
static void test_registers(void **state)
{
    (void)state;
    static const struct {
        const char *bounds;
        uint32_t most;
    } row[] = {{"", 255},
               {".maxntid 384", 168},
               {".maxntid 32, 32, 1", 64},
               {".reqntid 100", 255},
               {".maxnreg 40", 40},
               {".maxntid 4000000000, 4000000000", 255}};
    for (unsigned x = 0; x < sizeof row / sizeof *row; x++) {
        static char text[1 << 16];
        size_t n = (size_t)snprintf(text, sizeof text,
                                    ".version 9.0\n.target sm_90\n.address_size 64\n.entry k(.param .u64 p) %s {\n"
                                    ".reg .b64 %%p; .reg .b32 %%r<300>; ld.param.u64 %%p, [p];\n",
                                    row[x].bounds);
        for (unsigned r = 0; r < 300; r++)
            n += (size_t)snprintf(text + n, sizeof text - n, "ld.global.b32 %%r%u, [%%p+%u];\n", r, 4 * r);
        for (unsigned r = 0; r < 300; r++)
            n += (size_t)snprintf(text + n, sizeof text - n, "st.global.b32 [%%p+%u], %%r%u;\n", 4 * r, 299 - r);
        snprintf(text + n, sizeof text - n, "ret; }\n");
        struct sg_module *m = load(text);
        assert_int_equal(sg_kernel_info(sg_module_kernel(m, "k"))->registers, row[x].most);
        sg_module_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_tiled),    cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_gelu),          cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_stats),         cmocka_unit_test(test_cluster_stats),
        cmocka_unit_test(test_cluster_order), cmocka_unit_test(test_parts_of_words),
        cmocka_unit_test(test_prefetched),    cmocka_unit_test(test_out_of_bounds),
        cmocka_unit_test(test_endless),       cmocka_unit_test(test_bad_launch),
        cmocka_unit_test(test_deterministic), cmocka_unit_test(test_registers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
