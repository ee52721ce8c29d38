/* softgpu/exec/matrix-blocks.inc: mma of floats and of bytes gives the same bits on each instruction set, which do it
 * in different ways, and by compiled code, which does several at once: halves and sums at random, infinities, NaNs and
 * subnormals among them, and numbers so far apart that the order of the sums shows. Some share A, some B; some write
 * what the next ones read. The program runs itself once for each, since a process has one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/hash.h"
#include "softgpu/sg.h"
#include "tests/skip.h"

static const char *self;
enum { WARPS = 1024, LANES = WARPS * 32, IN = 12, OUT = 12 };

static const struct shape {
    const char *name;
    unsigned a, b, c; /* registers */
    enum { F16, BF16, TF32, FP8, BYTES } kind;
} shapes[] = {{"m16n8k8.row.col.f32.f16.f16.f32", 2, 1, 4, F16},
              {"m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4, F16},
              {"m16n8k8.row.col.f32.bf16.bf16.f32", 2, 1, 4, BF16},
              {"m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4, BF16},
              {"m16n8k8.row.col.f16.f16.f16.f16", 2, 1, 2, F16},
              {"m16n8k16.row.col.f16.f16.f16.f16", 4, 2, 2, F16},
              {"m16n8k4.row.col.f32.tf32.tf32.f32", 2, 1, 4, TF32},
              {"m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4, TF32},
              {"m16n8k32.row.col.f32.e4m3.e5m2.f32", 4, 2, 4, FP8},
              {"m16n8k32.row.col.s32.s8.s8.s32", 4, 2, 4, BYTES},
              {"m16n8k16.row.col.satfinite.s32.u8.s8.s32", 2, 1, 4, BYTES},
              {"m16n8k32.row.col.s32.s8.u8.s32", 4, 2, 4, BYTES},
              {"m8n8k16.row.col.s32.u8.u8.s32", 1, 1, 2, BYTES}};

static uint64_t state = 1;
static uint32_t draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

/* Mostly numbers about 1, so that few sums become NaNs. */
static uint32_t half(bool bf16)
{
    uint32_t r = draw(), how = draw() % 512,
             few = bf16 ? (r & 0x807F) | (0x7C + (r >> 16) % 8) << 7 : (r & 0x83FF) | (10 + (r >> 16) % 10) << 10;
    return how < 1 ? r & 0xFFFF : how < 8 ? r & (bf16 ? 0x807F : 0x83FF) : few;
}

static uint32_t any_float(void)
{
    uint32_t r = draw();
    return r % 64 ? (r & 0x807FFFFF) | (115 + (r >> 23) % 20) << 23 : r;
}

/* Registers r<from> … of a list */
static void list(FILE *f, unsigned from, unsigned n)
{
    fprintf(f, "{");
    for (unsigned i = 0; i < n; i++)
        fprintf(f, "%s%%r%u", i ? ", " : "", from + i);
    fprintf(f, "}");
}

static void product(FILE *f, const struct shape *s, unsigned d, unsigned a, unsigned b, unsigned c)
{
    fprintf(f, "mma.sync.aligned.%s ", s->name);
    list(f, d, s->c), fprintf(f, ", ");
    list(f, a, s->a), fprintf(f, ", ");
    list(f, b, s->b), fprintf(f, ", ");
    list(f, c, s->c), fprintf(f, ";\n");
}

static void kernel(const struct shape *s, char *text, size_t cap)
{
    enum { A = 0, B = 4, B2 = 6, C = 8, D = 12, E = 16 };
    FILE *f = fmemopen(text, cap, "w");
    assert_non_null(f);
    fprintf(f, ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %%r<20>, "
               "%%t<5>; .reg .b64 %%rd<3>;\nld.param.u64 %%rd1, [p]; mov.u32 %%t1, %%tid.x; mov.u32 %%t2, %%ctaid.x; "
               "mad.lo.u32 %%t4, %%t2, 128, %%t1; mul.wide.u32 %%rd2, %%t4, 4; add.u64 %%rd1, %%rd1, %%rd2;\n");
    for (unsigned i = 0; i < IN; i++)
        fprintf(f, "ld.global.b32 %%r%u, [%%rd1+%u];\n", i, i * LANES * 4);
    product(f, s, D, A, B, C);
    product(f, s, E, A, B2, C);
    product(f, s, C, A, B, D);
    product(f, s, D, A, B2, E);
    product(f, s, E, A, B, E);
    for (unsigned i = 0; i < 4; i++)
        fprintf(f, "st.global.b32 [%%rd1+%u], %%r%u;\n", (IN + i) * LANES * 4, C + i % s->c);
    product(f, s, D, A, B2, D);
    product(f, s, B2 - s->b, A, B2, D); /* B, and where that is small some of B2, and more */
    product(f, s, D, A, B, C);
    product(f, s, A, A, B2, C);
    product(f, s, E, A, B2, E);
    product(f, s, C, A, B, E);
    for (unsigned i = 0; i < 4; i++)
        fprintf(f, "st.global.b32 [%%rd1+%u], %%r%u; st.global.b32 [%%rd1+%u], %%r%u;\n", (IN + 4 + i) * LANES * 4,
                D + i % s->c, (IN + 8 + i) * LANES * 4, C + i % s->c);
    fprintf(f, "ret; }\n");
    fclose(f);
}

static int child(void)
{
    struct dt_err e = {0};
    struct sg_device *dev;
    uint64_t at;
    static char text[1 << 14];
    if (sg_device_new(sg_model_find(NULL), &dev) < 0 || sg_mem_alloc(dev, (IN + OUT) * LANES * 4, &at) < 0)
        return 2;
    uint32_t *memory = (uint32_t *)(uintptr_t)at; // NOLINT
    for (unsigned k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const struct shape *s = &shapes[k];
        struct sg_module *m;
        memset(text, 0, sizeof text);
        kernel(s, text, sizeof text);
        if (sg_module_load(dev, text, strlen(text), &m, &e) < 0) {
            printf("%s: %s\n", s->name, e.detail ? e.detail : "does not load");
            return 2;
        }
        state = k + 1;
        for (unsigned i = 0; i < IN * LANES; i++) {
            bool sum = i >= 8 * LANES;
            if (s->kind == BYTES)
                memory[i] = draw() % 64 ? draw() : draw() % 2 ? 0x80808080 : 0xFFFFFFFF;
            else if (sum ? s->c == 2 : s->kind <= BF16)
                memory[i] = half(s->kind == BF16) | half(s->kind == BF16) << 16;
            else if (sum || s->kind == TF32)
                memory[i] = any_float();
            else /* some of eight bits are NaNs or infinite */
                memory[i] = draw() % 256 ? draw() & 0xB7B7B7B7 : draw();
        }
        struct sg_launch l = {.kernel = sg_module_kernel(m, "k"),
                              .grid = {WARPS / 4, 1, 1},
                              .block = {128, 1, 1},
                              .params = (uint8_t *)&at,
                              .unfollowed = true};
        struct sg_stats stats = {0};
        struct sg_fault fault;
        int r = sg_execute(dev, &l, &stats, &fault);
        unsigned numbers = 0;
        const uint32_t infinite = s->c == 2 ? 0x7C00 : 0x7F800000;
        for (unsigned i = IN * LANES; i < (IN + 4) * LANES; i++)
            numbers += s->kind == BYTES || (memory[i] & infinite) != infinite;
        char hash[DT_SHA256_TEXT];
        dt_sha256_text(memory + IN * LANES, (size_t)OUT * LANES * 4, hash);
        printf("%s: %d, %s, %u numbers\n", s->name, r, hash, numbers);
        if (numbers < 4 * LANES / 4)
            return 3;
        sg_module_free(m);
    }
    sg_device_free(dev);
    return 0;
}

static void run(const char *isa, const char *jit, char *ret, size_t cap)
{
    char command[4500];
    snprintf(command, sizeof command,
             "DOVETAIL_SOFTGPU_THREADS=1 DOVETAIL_SOFTGPU_ISA=%s DOVETAIL_SOFTGPU_JIT=%s '%s' child", isa, jit, self);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    ret[fread(ret, 1, cap - 1, p)] = '\0';
    int status = pclose(p);
    if (status)
        print_error("%s: status %d\n%s\n", isa, status, ret);
    assert_int_equal(status, 0);
}

static void same_bits(void **unused)
{
    (void)unused;
    char want[4096], got[4096];
    if (!__builtin_cpu_supports("x86-64-v4"))
        SKIP("this CPU has no AVX-512");
    run("v1", "0", want, sizeof want);
    static const char *const isa[][2] = {{"v3", "0"}, {"v4", "0"}, {"v4", "templates-always"}};
    for (unsigned i = 0; i < 3; i++) {
        run(isa[i][0], isa[i][1], got, sizeof got);
        assert_string_equal(want, got);
    }
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 2 && !strcmp(argv[1], "child"))
        return child();
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
