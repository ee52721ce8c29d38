/* softgpu/jit: rows of softgpu/exec/lanes.def that have a template, interpreted and compiled: the same bits for many
 * operands.
 *
 * An instruction is a kernel. Each thread has operands of its own: bits at random, numbers near to each other, and what
 * is at the edge of something (infinities, NaNs that signal and those that do not, subnormals, middles between two
 * halves, the largest integers). It computes with them as they are in memory, behind a predicate, as results of a sum
 * (whose NaNs are the CPU's own), and into the register of the first source. The last warp of a block is no whole one.
 * The program runs itself once for each tier, since a process has one.
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
#include "softgpu/jit/jit.h"
#include "softgpu/sg.h"
#include "tests/skip.h"

static const char *self;

/* Types of d, a, b, c: h 16 bits, w 32, l 64, f f32, d f64; . none. */
static const struct row {
    const char *text, *types;
} rows[] = {
#define HALF1(T)                                                                                                       \
    {"neg" T " d, a", "hh.."}, { "abs" T " d, a", "hh.." }
#define HALF2(T)                                                                                                       \
    {"neg" T " d, a", "ww.."}, { "abs" T " d, a", "ww.." }
#define HALVES(T, K)                                                                                                   \
    {"add.rn" T " d, a, b", K K K "."}, {"sub.rn" T " d, a, b", K K K "."}, {"mul.rn" T " d, a, b", K K K "."},        \
        {"fma.rn" T " d, a, b, c", K K K K}, {"min" T " d, a, b", K K K "."}, {"max" T " d, a, b", K K K "."},         \
        {"min.NaN" T " d, a, b", K K K "."},                                                                           \
    {                                                                                                                  \
        "max.NaN" T " d, a, b", K K K "."                                                                              \
    }
    HALF1(".f16"),
    HALF2(".f16x2"),
    HALF1(".bf16"),
    HALF2(".bf16x2"),
    HALVES(".f16", "h"),
    HALVES(".f16x2", "w"),
    HALVES(".bf16", "h"),
    HALVES(".bf16x2", "w"),
    {"shf.l.wrap.b32 d, a, b, c", "wwww"},
    {"shf.l.clamp.b32 d, a, b, c", "wwww"},
    {"shf.r.wrap.b32 d, a, b, c", "wwww"},
    {"shf.r.clamp.b32 d, a, b, c", "wwww"},
    {"shf.l.wrap.b32 d, a, b, 0", "www."},
    {"shf.l.clamp.b32 d, a, b, 13", "www."},
    {"shf.l.clamp.b32 d, a, b, 32", "www."},
    {"shf.r.wrap.b32 d, a, b, 0", "www."},
    {"shf.r.clamp.b32 d, a, b, 13", "www."},
    {"shf.r.clamp.b32 d, a, b, 32", "www."},
    {"mul.hi.s32 d, a, b", "www."},
    {"mul.hi.u32 d, a, b", "www."},
    {"clz.b32 d, a", "ww.."},
    {"bfe.u32 d, a, b, c", "wwww"},
    {"bfe.u32 d, a, 5, 9", "ww.."},
    {"bfe.u32 d, a, b, 32", "www."},
    {"bfe.u32 d, a, 0, c", "ww.w"},
    {"cvt.f32.f16 d, a", "fh.."},
    {"cvt.f32.bf16 d, a", "fh.."},
    {"cvt.rn.f16.f32 d, a", "hf.."},
    {"cvt.rn.bf16.f32 d, a", "hf.."},
    {"cvt.rn.f16x2.f32 d, a, b", "wff."},
    {"cvt.rn.bf16x2.f32 d, a, b", "wff."},
    {"cvt.rni.f32.f32 d, a", "ff.."},
    {"cvt.rmi.f32.f32 d, a", "ff.."},
    {"cvt.rpi.f32.f32 d, a", "ff.."},
    {"cvt.rzi.f32.f32 d, a", "ff.."},
    {"cvt.rni.ftz.f32.f32 d, a", "ff.."},
    {"cvt.rmi.ftz.f32.f32 d, a", "ff.."},
    {"cvt.rpi.ftz.f32.f32 d, a", "ff.."},
    {"cvt.rzi.ftz.f32.f32 d, a", "ff.."},
    {"cvt.rni.f64.f64 d, a", "dd.."},
    {"cvt.rmi.f64.f64 d, a", "dd.."},
    {"cvt.rpi.f64.f64 d, a", "dd.."},
    {"cvt.rzi.f64.f64 d, a", "dd.."},
    {"cvt.rni.s32.f32 d, a", "wf.."},
    {"cvt.rmi.s32.f32 d, a", "wf.."},
    {"cvt.rpi.s32.f32 d, a", "wf.."},
    {"cvt.rzi.s32.f32 d, a", "wf.."},
    {"cvt.rni.u32.f32 d, a", "wf.."},
    {"cvt.rzi.u32.f32 d, a", "wf.."},
    {"cvt.rzi.s32.f64 d, a", "wd.."},
    {"cvt.rni.s32.f64 d, a", "wd.."},
    {"cvt.rmi.s32.f64 d, a", "wd.."},
    {"cvt.rpi.s32.f64 d, a", "wd.."},
    {"cvt.rzi.u32.f64 d, a", "wd.."},
    {"cvt.rn.f64.s32 d, a", "dw.."},
    {"cvt.rn.f64.u32 d, a", "dw.."},
    {"cvt.f64.f32 d, a", "df.."},
    {"cvt.ftz.f64.f32 d, a", "df.."},
    {"cvt.rn.f32.f64 d, a", "fd.."},
    {"cvt.rn.ftz.f32.f64 d, a", "fd.."},
    {"cvt.rn.f32.u8 d, a", "fw.."},
    {"cvt.rn.f32.s8 d, a", "fw.."},
    {"cvt.rn.f32.u16 d, a", "fh.."},
    {"cvt.rn.f32.s16 d, a", "fh.."},
    {"cvt.rn.f32.s32 d, a", "fw.."},
    {"cvt.rn.f32.u32 d, a", "fw.."},
    {"sqrt.rn.f32 d, a", "ff.."},
    {"sqrt.rn.ftz.f32 d, a", "ff.."},
    {"rcp.rn.f32 d, a", "ff.."},
    {"rcp.rn.ftz.f32 d, a", "ff.."},
    {"add.rn.sat.f32 d, a, b", "fff."},
    {"mul.rn.sat.f32 d, a, b", "fff."},
    {"fma.rn.sat.f32 d, a, b, c", "ffff"},
    {"fma.rn.ftz.sat.f32 d, a, b, c", "ffff"},
    {"div.approx.f32 d, a, b", "fff."},
    {"div.approx.ftz.f32 d, a, b", "fff."},
    {"div.full.f32 d, a, b", "fff."},
    {"div.full.ftz.f32 d, a, b", "fff."},
    {"neg.ftz.f32 d, a", "ff.."},
    {"abs.ftz.f32 d, a", "ff.."},
    {"neg.f32 d, a", "ff.."},
    {"abs.f32 d, a", "ff.."},
    {"min.ftz.f32 d, a, b", "fff."},
    {"max.ftz.f32 d, a, b", "fff."},
    {"min.f32 d, a, b", "fff."},
    {"max.f32 d, a, b", "fff."},
};
enum { ROWS = sizeof rows / sizeof *rows, BLOCK = 250, GRID = 320, N = BLOCK * GRID, LANE = 8, OUT = 4 };

static const char *type_of(char k)
{
    return k == 'h' ? "b16" : k == 'w' ? "b32" : k == 'l' ? "b64" : k == 'f' ? "f32" : "f64";
}
static const char *load_of(char k)
{
    return k == 'h' ? "u16" : k == 'w' ? "u32" : k == 'l' ? "u64" : k == 'f' ? "f32" : "f64";
}

/* The sum that makes an operand a result; of integers the same bits. */
static const char *sum_of(char k) { return k == 'f' ? "add.rn.f32" : k == 'd' ? "add.rn.f64" : NULL; }

static void kernel(const struct row *r, char *ret, size_t cap)
{
    char in_place[128];
    snprintf(in_place, sizeof in_place, "%s", r->text);
    char *at = strstr(in_place, "d, a");
    bool same = r->types[0] == r->types[1];
    if (same)
        at[3] = 'd';
    size_t n = (size_t)snprintf(
        ret, cap,
        ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %%r<8>; .reg "
        ".b64 "
        "%%rd<8>; .reg .pred %%p<2>; .reg .%s d; .reg .%s a; .reg .%s b; .reg .%s c; .reg .%s o;\n"
        "ld.param.u64 %%rd1, [p]; mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%ctaid.x; mov.u32 %%r3, %%ntid.x; mad.lo.u32 "
        "%%r4, %%r2, %%r3, %%r1; mul.wide.u32 %%rd2, %%r4, %d; add.u64 %%rd1, %%rd1, %%rd2; ld.global.u32 %%r5, "
        "[%%rd1+%d]; and.b32 %%r6, %%r5, 1; setp.eq.u32 %%p1, %%r6, 0; ld.global.%s o, [%%rd1+%d];\n",
        type_of(r->types[0]), type_of(r->types[1]), type_of(r->types[2]), type_of(r->types[3]), type_of(r->types[0]),
        LANE, 3 * N * LANE, load_of(r->types[0]), 3 * N * LANE);
    for (unsigned i = 1; i < 4; i++)
        if (r->types[i] != '.')
            n += (size_t)snprintf(ret + n, cap - n, "ld.global.%s %c, [%%rd1+%u];\n", load_of(r->types[i]), 'a' + i - 1,
                                  (i - 1) * N * LANE);
    const char *t = load_of(r->types[0]);
    n += (size_t)snprintf(ret + n, cap - n,
                          "%s; st.global.%s [%%rd1+%d], d; mov.%s d, o; @%%p1 %s; st.global.%s [%%rd1+%d], d;\n",
                          r->text, t, OUT * N * LANE, type_of(r->types[0]), r->text, t, (OUT + 1) * N * LANE);
    for (unsigned i = 1; i < 4; i++)
        if (sum_of(r->types[i]))
            n += (size_t)snprintf(ret + n, cap - n, "%s %c, %c, %s;\n", sum_of(r->types[i]), 'a' + i - 1, 'a' + i - 1,
                                  r->types[i] == 'd' ? "0d8000000000000000" : "0f80000000");
    n += (size_t)snprintf(ret + n, cap - n, "%s; st.global.%s [%%rd1+%d], d;\n", r->text, t, (OUT + 2) * N * LANE);
    if (same)
        n += (size_t)snprintf(ret + n, cap - n, "mov.%s d, a; %s; @!%%p1 %s; st.global.%s [%%rd1+%d], d;\n",
                              type_of(r->types[0]), in_place, in_place, t, (OUT + 3) * N * LANE);
    snprintf(ret + n, cap - n, "ret; }\n");
}

static uint64_t state = 1;
static uint64_t next(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 11 ^ state << 23;
}

static uint64_t operand(char k)
{
    static const uint32_t f32[] = {0,          0x80000000, 1,          0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000,
                                   0xFFFFFFFF, 0x7F800001, 0xFFA00000, 0x3F800000, 0xBF800000, 0x3F000000, 0x3FC00000,
                                   0xC0200000, 0x4EFFFFFF, 0x4F000000, 0xCF000000, 0xCF000001, 0x4F7FFFFF, 0x4F800000,
                                   0x477FE000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001, 0x387FC000, 0x38802000,
                                   0x7F7FFFFF, 0x7F7F7FFF, 0x7F7F8000, 0x00800000, 0x7E800000, 0x7E800001, 0x4B000000,
                                   0x4AFFFFFF, 0xBEFFFFFF, 0x00008000, 0x00018000, 0x3F808000, 0x3F818000, 0x7FFFFFFF},
                          h[] = {0,      0x8000, 1,      0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF,
                                 0x7C00, 0xFC00, 0x7C01, 0xFE00, 0x7FFF, 0x3C00, 0xBC00, 0x7F80,
                                 0xFF80, 0x7F81, 0x7F7F, 0xFF7F, 0x0080, 0x007F};
    static const double f64[] = {2147483647,   2147483648.0, -2147483648.0,      -2147483649.0, 2147483647.5,
                                 4294967295.0, 4294967295.5, 4294967296.0,       0.5,           1.5,
                                 -0.5,         -2.5,         4503599627370495.5, 1e300,         -0.0};
    uint64_t r = next(), how = r >> 40 & 7, u;
    if (k == 'd') {
        double f = how < 2 ? (double)(int64_t)next() * 0x1p-32 : f64[(r >> 8) % (sizeof f64 / sizeof *f64)];
        memcpy(&u, &f, 8);
        return how < 4 ? u : how == 4 ? (u & 1ull << 63) | 0x7FF0000000000000u | (r & 8 ? 0 : r & 0xFFFFFFFF) : next();
    }
    if (k == 'h' || k == 'w') {
        uint32_t a = how < 3 ? h[(r >> 8) % (sizeof h / sizeof *h)] : (uint32_t)(r >> 16 & 0xFFFF),
                 b = how & 1 ? h[(r >> 24) % (sizeof h / sizeof *h)] : (uint32_t)(next() & 0xFFFF);
        return how == 7 ? (uint32_t)next() : (a & 0xFFFF) | b << 16;
    }
    if (how < 3)
        return f32[(r >> 8) % (sizeof f32 / sizeof *f32)] + (how == 2 ? r & 1 : 0);
    if (how < 6) /* numbers of the size of others, of halves too */
        return (uint32_t)(next() & 0x807FFFFF) | (uint32_t)(102 + (r >> 12) % 42) << 23;
    return (uint32_t)next();
}

/* ---- the child: one line an instruction -------------------------------------------------------------------------- */
static int child(void)
{
    enum { BYTES = (OUT + 4) * N * LANE + 64 };
    struct dt_err e = {0};
    struct sg_device *dev;
    uint64_t at;
    static char text[8192];
    if (sg_device_new(sg_model_find(NULL), &dev) < 0 || sg_mem_alloc(dev, BYTES, &at) < 0)
        return 2;
    uint8_t *memory = (uint8_t *)(uintptr_t)at; // NOLINT
    for (unsigned k = 0; k < ROWS; k++) {
        struct sg_module *m;
        kernel(&rows[k], text, sizeof text);
        if (sg_module_load(dev, text, strlen(text), &m, &e) < 0) {
            printf("%s: %s\n", rows[k].text, e.detail ? e.detail : "does not load");
            return 2;
        }
        memset(memory, 0x5A, BYTES);
        state = k + 1;
        for (unsigned i = 0; i < 4; i++)
            for (unsigned l = 0; l < N; l++) {
                char type = rows[k].types[(i + 1) % 4];
                uint64_t u = operand(i == 3 || type == '.' ? 'f' : type);
                if (i == 0 && type == 'h')
                    u = l; /* all of them */
                memcpy(memory + ((size_t)i * N + l) * LANE, &u, 8);
            }
        struct sg_launch l = {.kernel = sg_module_kernel(m, "k"),
                              .grid = {GRID, 1, 1},
                              .block = {BLOCK, 1, 1},
                              .params = (uint8_t *)&at,
                              .unfollowed = true};
        struct sg_stats stats = {0};
        struct sg_fault fault;
        int r = sg_execute(dev, &l, &stats, &fault);
        printf("%s: %d", rows[k].text, r);
        for (unsigned i = 0; i < 4; i++) {
            char hash[DT_SHA256_TEXT];
            dt_sha256_text(memory + (size_t)(OUT + i) * N * LANE, N * LANE, hash);
            printf(" %.12s", hash + 7);
        }
        printf("\n");
        sg_module_free(m);
    }
    sg_device_free(dev);
    struct sg_template_sums sum;
    sg_template_sums(&sum);
    return sg_jit_mode() != SG_JIT_OFF && !sum.ops ? 4 : 0;
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */
static char *run(const char *mode)
{
    char command[4500];
    snprintf(command, sizeof command, "DOVETAIL_SOFTGPU_THREADS=1 DOVETAIL_SOFTGPU_JIT=%s '%s' child", mode, self);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    char *s = calloc(1, 1 << 20);
    assert_non_null(s);
    size_t n = fread(s, 1, (1 << 20) - 1, p);
    int status = pclose(p);
    if (status)
        print_error("%s: status %d\n%s\n", mode, status, s);
    assert_int_equal(status, 0);
    assert_true(n > ROWS * 20);
    return s;
}

static void same_bits(void **unused)
{
    (void)unused;
    if (!__builtin_cpu_supports("x86-64-v4"))
        SKIP("this CPU has no AVX-512");
    static const char *const mode[] = {"templates-always", "templates-masked"};
    char *interpreted = run("0");
    for (unsigned i = 0; i < 2; i++) {
        char *compiled = run(mode[i]), *a = interpreted, *b = compiled;
        unsigned wrong = 0;
        for (; *a && *b; a += *a != 0, b += *b != 0) {
            size_t n = strcspn(a, "\n"), k = strcspn(b, "\n");
            if (n != k || memcmp(a, b, n)) {
                print_error("interpreted: %.*s\n%s: %.*s\n", (int)n, a, mode[i], (int)k, b);
                wrong++;
            }
            a += n;
            b += k;
        }
        assert_int_equal(wrong, 0);
        assert_string_equal(a, b);
        free(compiled);
    }
    free(interpreted);
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc == 2 && !strcmp(argv[1], "child"))
        return child();
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
