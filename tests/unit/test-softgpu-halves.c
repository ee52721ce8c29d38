/* softgpu/exec/matrix-halves.inc: mma of f16 and bf16 with sums in f32 gives the same bits on each instruction set,
 * which do it in different ways: halves and sums at random, infinities, NaNs and subnormals among them, and numbers so
 * far apart that the order of the sums shows. The program runs itself once for each, since a process has one.
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
enum { WARPS = 4096, LANES = WARPS * 32, IN = 10, OUT = 4 };

static const struct shape {
    const char *name, *a, *b;
    bool bf16;
} shapes[] = {{"m16n8k8.row.col.f32.f16.f16.f32", "{%a0, %a1}", "{%a4}", false},
              {"m16n8k16.row.col.f32.f16.f16.f32", "{%a0, %a1, %a2, %a3}", "{%a4, %a5}", false},
              {"m16n8k8.row.col.f32.bf16.bf16.f32", "{%a0, %a1}", "{%a4}", true},
              {"m16n8k16.row.col.f32.bf16.bf16.f32", "{%a0, %a1, %a2, %a3}", "{%a4, %a5}", true}};

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

static int child(void)
{
    struct dt_err e = {0};
    struct sg_device *dev;
    uint64_t at;
    static char text[4096];
    if (sg_device_new(sg_model_find(NULL), &dev) < 0 || sg_mem_alloc(dev, (IN + OUT) * LANES * 4, &at) < 0)
        return 2;
    uint32_t *memory = (uint32_t *)(uintptr_t)at; // NOLINT
    for (unsigned k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        const struct shape *s = &shapes[k];
        struct sg_module *m;
        size_t n = (size_t)snprintf(
            text, sizeof text,
            ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %%r<5>, "
            "%%a<6>; .reg .f32 %%c<4>, %%d<4>; .reg .b64 %%rd<3>;\nld.param.u64 %%rd1, [p]; mov.u32 %%r1, %%tid.x; "
            "mov.u32 %%r2, %%ctaid.x; mad.lo.u32 %%r4, %%r2, 128, %%r1; mul.wide.u32 %%rd2, %%r4, 4; add.u64 %%rd1, "
            "%%rd1, %%rd2;\n");
        for (unsigned i = 0; i < IN; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "ld.global.b32 %%%c%u, [%%rd1+%u];\n", i < 6 ? 'a' : 'c',
                                  i < 6 ? i : i - 6, i * LANES * 4);
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "mma.sync.aligned.%s {%%d0, %%d1, %%d2, %%d3}, %s, %s, {%%c0, %%c1, %%c2, %%c3};\n"
                              "mma.sync.aligned.%s {%%c0, %%c1, %%c2, %%c3}, %s, %s, {%%d0, %%d1, %%d2, %%d3};\n",
                              s->name, s->a, s->b, s->name, s->a, s->b);
        for (unsigned i = 0; i < OUT; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "st.global.b32 [%%rd1+%u], %%c%u;\n", (IN + i) * LANES * 4,
                                  i);
        snprintf(text + n, sizeof text - n, "ret; }\n");
        if (sg_module_load(dev, text, strlen(text), &m, &e) < 0) {
            printf("%s: %s\n", s->name, e.detail ? e.detail : "does not load");
            return 2;
        }
        state = k + 1;
        for (unsigned i = 0; i < IN * LANES; i++) {
            uint32_t r = draw();
            memory[i] = i < 6 * LANES ? half(s->bf16) | half(s->bf16) << 16
                        : r % 64      ? (r & 0x807FFFFF) | (115 + (r >> 23) % 20) << 23
                                      : r;
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
        for (unsigned i = IN * LANES; i < (IN + OUT) * LANES; i++)
            numbers += (memory[i] & 0x7F800000) != 0x7F800000;
        char hash[DT_SHA256_TEXT];
        dt_sha256_text(memory + IN * LANES, (size_t)OUT * LANES * 4, hash);
        printf("%s: %d, %s, %u numbers\n", s->name, r, hash, numbers);
        if (numbers < OUT * LANES / 2)
            return 3;
        sg_module_free(m);
    }
    sg_device_free(dev);
    return 0;
}

static void run(const char *isa, char *ret, size_t cap)
{
    char command[4500];
    snprintf(command, sizeof command, "DOVETAIL_SOFTGPU_THREADS=1 DOVETAIL_SOFTGPU_ISA=%s '%s' child", isa, self);
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
    run("v1", want, sizeof want);
    static const char *const isa[] = {"v3", "v4"};
    for (unsigned i = 0; i < 2; i++) {
        run(isa[i], got, sizeof got);
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
