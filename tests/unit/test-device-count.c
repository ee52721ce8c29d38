/* What a launch costs by its machine code (device/sass-count.c, sass-blocks.c), with the executor's counts. The truth
 * that it is held to: an `ex2` or `fma` of PTX is one instruction of the pipe xu or fma, however often the assembler
 * copied its loop, and no such instruction is an anchor of the flow. Needs nvJitLink. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "device/device.h"
#include "device/machine.h"

#define MOST_LINES 256
#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
#define ENTRY                                                                                                          \
    HEAD ".visible .entry k(.param .u64 a, .param .u64 o, .param .u32 n)\n{\n"                                         \
         ".reg .pred %p<8>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<16>;\n.reg .f64 %d<16>;\n"            \
         "ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [o];\nld.param.u32 %r9, [n];\nmov.u32 %r1, %tid.x;\n"            \
         "mul.wide.u32 %rd3, %r1, 8;\nadd.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, %rd3;\n"                          \
         "ld.global.f32 %f1, [%rd1];\n"
#define LEAVE "st.global.f32 [%rd2], %f1;\nret;\n}\n"

static struct dev_device *dev;

static int setup(void **state)
{
    struct dt_err e = {0};
    if (dev_open("soft", &dev, &e) < 0)
        fail_msg("%s", e.detail);
    return 0;
}

static int teardown(void **state)
{
    dev = dev_close(dev);
    return 0;
}

/* Executed lines of one block of `threads` threads, with what the text says of them. */
static void execute(const char *ptx, uint32_t threads, uint32_t n, struct dev_line *line)
{
    struct dovetail_line count[MOST_LINES] = {{0}};
    struct dev_module_handle *m;
    struct ptx_module *text;
    dev_ptr p;
    assert_int_equal(dev_alloc(dev, 1 << 20, &p, NULL), 0);
    assert_int_equal(dev_set(dev, p, 0, 1 << 20, NULL), 0);
    assert_int_equal(dev_module_load(dev, ptx, strlen(ptx), &m, NULL), 0);
    assert_int_equal(dev_count_lines(dev, count, MOST_LINES, NULL), 0);
    struct {
        uint64_t a, o;
        uint32_t n;
    } params = {p, p + (1 << 19), n};
    const uint32_t one[3] = {1, 1, 1}, block[3] = {threads, 1, 1};
    assert_int_equal(dev_launch(dev, m, "k", one, block, one, 0, &params, 20, NULL), 0);
    assert_int_equal(dev_sync(dev, NULL), 0);
    assert_int_equal(dev_count_lines(dev, NULL, 0, NULL), 0);
    dev_module_unload(dev, m);
    dev_free(dev, p);
    memset(line, 0, MOST_LINES * sizeof *line);
    for (unsigned k = 0; k < MOST_LINES; k++) {
        line[k].lanes = count[k].lanes;
        line[k].warps = count[k].warps;
    }
    assert_int_equal(ptx_parse(ptx, strlen(ptx), &text, NULL), 0);
    dev_machine_lines(text, line, MOST_LINES);
    ptx_module_free(text);
}

static struct dev_machine_cost cost_of(const char *ptx, const char *arch, uint32_t threads, uint32_t n)
{
    struct dev_line line[MOST_LINES];
    struct dev_machine_kernel k = {
        .entry = "k", .line = line, .nline = MOST_LINES, .lanes = threads, .warps = (threads + 31) / 32};
    struct dev_machine_cost cost;
    struct dt_str why = {0};
    struct dt_err e = {0};
    void *cubin;
    execute(ptx, threads, n, line);
    if (dev_assemble_lines(ptx, strlen(ptx), arch, &cubin, &k.len, &e) < 0)
        fail_msg("%s", e.detail);
    k.cubin = cubin;
    if (dev_machine_count(&k, &cost, &why, &e))
        fail_msg("%s%s", why.s ? why.s : "", e.detail);
    free(cubin);
    dt_str_done(&why);
    return cost;
}

static void near(double got, double want, double part, const char *what)
{
    if (got < want * (1 - part) || got > want * (1 + part))
        fail_msg("%s: %g for %g", what, got, want);
}

static const char *const archs[] = {"sm_80", "sm_86", "sm_90"};

#define CASES                                                                                                          \
    X(straight, ENTRY "ex2.approx.ftz.f32 %f1, %f1;\nfma.rn.f32 %f1, %f1, %f1, %f1;\n" LEAVE, 1, 1)                    \
    X(loads,                                                                                                           \
      ENTRY "mov.u32 %r2, 0;\nL:\nld.global.f32 %f2, [%rd1+4];\nfma.rn.f32 %f1, %f1, %f2, %f1;\n"                      \
            "add.s64 %rd1, %rd1, 4;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, %r9;\n@%p1 bra L;\n" LEAVE,           \
      0, 1003)                                                                                                         \
    X(alone,                                                                                                           \
      ENTRY "mov.u32 %r2, 0;\nL:\nex2.approx.ftz.f32 %f1, %f1;\nadd.u32 %r2, %r2, 1;\n"                                \
            "setp.lt.u32 %p1, %r2, %r9;\n@%p1 bra L;\n" LEAVE,                                                         \
      1003, 0)                                                                                                         \
    X(fixed,                                                                                                           \
      ENTRY "mov.u32 %r2, 0;\nL:\nex2.approx.ftz.f32 %f1, %f1;\nadd.u32 %r2, %r2, 1;\n"                                \
            "setp.lt.u32 %p1, %r2, 1000;\n@%p1 bra L;\n" LEAVE,                                                        \
      1000, 0)                                                                                                         \
    X(nested,                                                                                                          \
      ENTRY "mov.u32 %r2, 0;\nL:\nmov.u32 %r3, 0;\nM:\nex2.approx.ftz.f32 %f1, %f1;\nadd.u32 %r3, %r3, 1;\n"           \
            "setp.lt.u32 %p2, %r3, %r9;\n@%p2 bra M;\nfma.rn.f32 %f1, %f1, %f1, 0f3F800000;\n"                         \
            "add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 7;\n@%p1 bra L;\n" LEAVE,                                     \
      7 * 1003, 7)                                                                                                     \
    X(branch,                                                                                                          \
      ENTRY "mov.u32 %r2, 0;\nL:\nand.b32 %r3, %r2, 3;\nsetp.ne.u32 %p2, %r3, 0;\n@%p2 bra M;\n"                       \
            "ex2.approx.ftz.f32 %f1, %f1;\nst.global.f32 [%rd2+64], %f1;\nM:\n"                                        \
            "ld.global.f32 %f3, [%rd1+8];\nfma.rn.f32 %f1, %f3, %f1, %f1;\nadd.u32 %r2, %r2, 1;\n"                     \
            "setp.lt.u32 %p1, %r2, %r9;\n@%p1 bra L;\n" LEAVE,                                                         \
      1003, 1003)

static void pipes(void **state)
{
    static const struct {
        const char *name, *ptx;
        double xu, fma;
    } cases[] = {
#define X(name, ptx, xu, fma) {#name, ptx, xu, fma},
        CASES
#undef X
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
            struct dev_machine_cost c = cost_of(cases[k].ptx, archs[a], 128, 1003);
            near(c.pipe[SASS_PIPE_XU], 4 * cases[k].xu, 0.02, cases[k].name);
            near(c.pipe[SASS_PIPE_FMA], 4 * cases[k].fma, 0.02, cases[k].name);
            assert_false(c.by_lines);
            /* alone, a warp takes at least a clock an instruction, and less than a round trip to DRAM */
            assert_true(c.clocks > c.slots / 4 && c.clocks < c.slots / 4 * 100);
        }
}

/* A division is what the assembler makes of it, without the path for odd operands; registers are the cubin's. */
static void division(void **state)
{
    struct dev_machine_cost none = cost_of(ENTRY LEAVE, "sm_90", 128, 1);
    struct dev_machine_cost f32 = cost_of(ENTRY "div.rn.f32 %f1, %f1, 0f40E00000;\n" LEAVE, "sm_90", 128, 1);
    struct dev_machine_cost s32 =
        cost_of(ENTRY "div.s32 %r2, %r1, %r9;\ncvt.rn.f32.s32 %f1, %r2;\n" LEAVE, "sm_90", 128, 1);
    struct dev_machine_cost f64 =
        cost_of(ENTRY "cvt.f64.f32 %d1, %f1;\nadd.f64 %d2, %d1, 0d3FF8000000000000;\ndiv.rn.f64 %d1, %d1, %d2;\n"
                      "cvt.rn.f32.f64 %f1, %d1;\n" LEAVE,
                "sm_90", 128, 1);
    struct dev_machine_cost u64 = cost_of(
        ENTRY "cvt.u64.u32 %rd4, %r9;\ndiv.u64 %rd5, %rd1, %rd4;\ncvt.rn.f32.u64 %f1, %rd5;\n" LEAVE, "sm_90", 128, 1);
    printf("slots of a warp: %g, f32 %g, s32 %g, f64 %g, u64 %g\n", none.slots / 4, f32.slots / 4, s32.slots / 4,
           f64.slots / 4, u64.slots / 4);
    assert_true(none.slots / 4 < 20 && none.pipe[SASS_PIPE_LSU] >= 2 * 4);
    assert_true(f32.slots - none.slots > 4 * 5 && f32.slots - none.slots < 4 * 20);
    assert_true(s32.slots - none.slots > 4 * 12 && s32.slots - none.slots < 4 * 40);
    assert_true(f64.slots - none.slots > 4 * 10 && f64.pipe[SASS_PIPE_FP64] >= 4 * 8);
    assert_true(u64.slots - none.slots > 4 * 40);
    assert_true(none.registers > 4 && none.registers < u64.registers && !none.local_bytes && !none.local);
}

/* Lanes of one warp that go different ways: its instructions are issued once for each way. */
static void divergence(void **state)
{
    static const char two[] =
        ENTRY "and.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 0;\nmov.u32 %r2, 0;\n@%p1 bra M;\n"
              "L:\nld.volatile.global.f32 %f2, [%rd1+8];\nfma.rn.f32 %f1, %f1, %f2, %f1;\nadd.u32 %r2, %r2, 1;\n"
              "setp.lt.u32 %p2, %r2, %r9;\n@%p2 bra L;\nbra N;\n"
              "M:\nld.volatile.global.f32 %f2, [%rd1+16];\nadd.f32 %f1, %f1, %f2;\nex2.approx.ftz.f32 %f1, "
              "%f1;\nadd.u32 %r2, %r2, 1;\n"
              "setp.lt.u32 %p2, %r2, 300;\n@%p2 bra M;\nN:\n" LEAVE;
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
        struct dev_machine_cost c = cost_of(two, archs[a], 128, 100);
        near(c.pipe[SASS_PIPE_FMA], 4 * (100 + 300), 0.03, "both ways");
        near(c.pipe[SASS_PIPE_XU], 4 * 300, 0.03, "the other way");
    }
}

/* Without an assembler: rows by type and modifiers, what has none, and all of the table as numbers. */
static void table(void **state)
{
    static const struct {
        const char *ptx;
        enum sass_pipe pipe;
        double least, most; /* of all pipes */
        bool known;
    } want[] = {{"add.f32 %f1, %f1, %f2;", SASS_PIPE_FMA, 1, 1, true},
                {"fma.rn.f64 %d1, %d1, %d1, %d1;", SASS_PIPE_FP64, 1, 1, true},
                {"ex2.approx.f32 %f1, %f1;", SASS_PIPE_XU, 1, 6, true},
                {"div.rn.f32 %f1, %f1, %f2;", SASS_PIPE_FMA, 6, 20, true},
                {"div.full.f32 %f1, %f1, %f2;", SASS_PIPE_XU, 2, 8, true},
                {"div.s64 %rd1, %rd1, %rd2;", SASS_PIPE_HEAVY, 60, 160, true},
                {"xor.b32 %r1, %r1, %r2;", SASS_PIPE_ALU, 1, 1, true},
                {"ld.global.v2.f32 {%f1, %f2}, [%rd1];", SASS_PIPE_LSU, 1, 3, true},
                {"nanosleep.u32 20;", SASS_PIPE_ALU, 1, 1, false}};
    for (size_t k = 0; k < sizeof want / sizeof *want; k++)
        for (unsigned sm = 75; sm <= 100; sm += 5) {
            struct dt_str s = {0};
            struct ptx_module *m;
            double pipe[SASS_PIPES], sum = 0;
            dt_str_addf(&s, "%s%s\n%s", ENTRY, want[k].ptx, LEAVE);
            assert_int_equal(ptx_parse(s.s, s.len, &m, NULL), 0);
            const struct ptx_function *f = m->func[0];
            const struct ptx_inst *i = &f->inst[f->ninst - 3];
            assert_int_equal(dev_weight(i, sm, pipe), want[k].known);
            for (unsigned p = 0; p < SASS_PIPES; p++)
                sum += pipe[p];
            if (pipe[want[k].pipe] < 1 || sum < want[k].least || sum > want[k].most)
                fail_msg("%s: %g", want[k].ptx, sum);
            ptx_module_free(m);
            dt_str_done(&s);
        }
}

/* Threads that leave at once, and one of each warp that does the rest: what ends a reduction. */
static void rest(void **state)
{
    static const char one[] = ENTRY "and.b32 %r3, %r1, 31;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra M;\n"
                                    "add.f32 %f1, %f1, 0f3F800000;\nex2.approx.ftz.f32 %f1, %f1;\n"
                                    "st.global.f32 [%rd2], %f1;\nM:\nret;\n}\n";
    for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
        struct dev_machine_cost c = cost_of(one, archs[a], 128, 1);
        near(c.pipe[SASS_PIPE_XU], 4, 0.01, "one thread of a warp");
        near(c.pipe[SASS_PIPE_FMA], 4, 0.01, "one thread of a warp");
    }
}

/* Machine code that is damaged, and counts that nothing can have: an answer or none, and no harm. */
static void hostile(void **state)
{
    static const char ptx[] =
        ENTRY "mov.u32 %r2, 0;\nL:\nld.global.f32 %f2, [%rd1+4];\ndiv.rn.f32 %f1, %f1, %f2;\nadd.u32 %r2, %r2, 1;\n"
              "setp.lt.u32 %p1, %r2, %r9;\n@%p1 bra L;\n" LEAVE;
    struct dev_line line[MOST_LINES];
    struct dev_machine_kernel k = {.entry = "k", .line = line, .nline = MOST_LINES, .lanes = 128, .warps = 4};
    struct dev_machine_cost cost;
    void *cubin;
    execute(ptx, 128, 5, line);
    assert_int_equal(dev_assemble_lines(ptx, strlen(ptx), "sm_80", &cubin, &k.len, NULL), 0);
    k.cubin = cubin;
    uint8_t *bytes = cubin;
    unsigned read = 0;
    for (size_t i = 0; i < k.len; i++) {
        struct dt_str why = {0};
        uint8_t was = bytes[i];
        bytes[i] = (uint8_t)(was ^ (1u << i % 8));
        read += !dev_machine_count(&k, &cost, &why, NULL);
        bytes[i] = was;
        dt_str_done(&why);
    }
    assert_true(read > k.len / 2);
    for (size_t n = k.len; n; n -= n < 97 ? n : 97) {
        struct dt_str why = {0};
        struct dev_machine_kernel cut = k;
        cut.len = n;
        dev_machine_count(&cut, &cost, &why, NULL);
        dt_str_done(&why);
    }
    static const uint64_t absurd[] = {0, 1, UINT64_MAX, UINT64_MAX / 3, 1u << 31};
    for (unsigned i = 0; i < 500; i++) {
        struct dt_str why = {0};
        for (unsigned l = 0; l < MOST_LINES; l++) {
            line[l].lanes = absurd[(i * 7 + l * 3) % 5];
            line[l].warps = absurd[(i + l) % 5];
            line[l].bytes = (uint16_t)(i * l);
        }
        k.lanes = absurd[i % 5];
        k.warps = absurd[(i / 5) % 5];
        k.nline = i % 3 ? MOST_LINES : i % MOST_LINES;
        assert_int_equal(dev_machine_count(&k, &cost, &why, NULL), 0);
        assert_true(cost.slots >= 0 && cost.slots < 1e30 && cost.clocks >= 0 && cost.clocks < 1e40);
        dt_str_done(&why);
    }
    free(cubin);
}

/* A large table in global memory is in code that is run, and not in code that is only looked at, which is the same. */
static void large_table(void **state)
{
    size_t len[2], run;
    char *kernel[2];
    for (int with = 0; with < 2; with++) {
        struct dt_str s = {0};
        struct dt_err e = {0};
        void *cubin;
        dt_str_add(&s, HEAD ".global .align 8 .u64 t[50000]");
        for (int k = 0; with && k < 50000; k++)
            dt_str_addf(&s, "%s%d", k ? ", " : " = {", 1000 + k % 7);
        dt_str_add(&s, with ? "};\n" : ";\n");
        dt_str_add(&s, &ENTRY[sizeof HEAD - 1]);
        dt_str_add(&s, "mov.u64 %rd5, t;\ncvta.global.u64 %rd5, %rd5;\nmul.wide.u32 %rd6, %r9, 8;\n"
                       "add.s64 %rd5, %rd5, %rd6;\nld.u32 %r5, [%rd5];\ncvt.rn.f32.u32 %f2, %r5;\n"
                       "add.rn.f32 %f1, %f1, %f2;\n" LEAVE);
        if (dev_assemble(s.s, s.len, "sm_80", &cubin, &run, &e) < 0)
            fail_msg("%s", e.detail);
        assert_true((run > 400000) == (with == 1)); /* what runs has its numbers */
        free(cubin);
        if (dev_assemble_lines(s.s, s.len, "sm_80", &cubin, &len[with], &e) < 0)
            fail_msg("%s", e.detail);
        kernel[with] = cubin;
        dt_str_done(&s);
    }
    assert_true(len[0] < 100000 && len[1] < 100000);
    assert_true(dev_same_code(kernel[0], len[0], kernel[1], len[1]));
    free(kernel[0]);
    free(kernel[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipes), cmocka_unit_test(division), cmocka_unit_test(divergence),  cmocka_unit_test(table),
        cmocka_unit_test(rest),  cmocka_unit_test(hostile),  cmocka_unit_test(large_table),
    };
    if (!dev_nvjitlink_version()) {
        printf("skipped: no nvJitLink\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
