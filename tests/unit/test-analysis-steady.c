/* ana_steady (analysis/taint/steady.c): each kernel here says whether it is steady, and whether it touches the same
 * bytes; the steady ones execute the same work on two inputs. And ana_deciders: whose memory decides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/analysis.h"
#include "base/str.h"

/* %r1: a word of x; %r2: of the constant table t; %d1, %d2, %d3: x + 4 tid, y + 4 tid, t + 4 tid; %r3: tid */
#define BEFORE                                                                                                         \
    ".version 8.0\n.target sm_80\n.address_size 64\n.func (.param .b32 o) twice(.param .b32 i) {\n.reg .b32 "          \
    "%a;\nld.param.b32 %a, [i];\n"                                                                                     \
    "add.u32 %a, %a, %a;\nst.param.b32 [o], %a;\nret;\n}\n"                                                            \
    ".visible .entry k(.param .u64 x, .param .u64 y, .param .u64 t, .param .u32 n)\n{\n.reg .pred %p<4>;\n.reg .b32 "  \
    "%r<16>;\n.reg .b64 %d<16>;\n"                                                                                     \
    ".shared .align 8 .b8 s[1024];\nld.param.u64 %d1, [x];\nld.param.u64 %d2, [y];\nld.param.u64 %d3, [t];\nmov.u32 "  \
    "%r3, %tid.x;\n"                                                                                                   \
    "mul.wide.u32 %d4, %r3, 4;\nadd.u64 %d1, %d1, %d4;\nadd.u64 %d2, %d2, %d4;\nadd.u64 %d3, %d3, %d4;\nld.param.u32 " \
    "%r4, [n];\n"                                                                                                      \
    "ld.global.u32 %r1, [%d1];\nld.global.u32 %r2, [%d3];\n"
#define BOTH /* two mbarriers, at which all threads arrive */                                                          \
    "mov.u32 %r5, s;\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 mbarrier.init.shared.b64 [%r5], 64;\n@%p2 "                       \
    "mbarrier.init.shared.b64 [%r5 + 8], 64;\nbar.sync 0;\nmbarrier.arrive.shared.b64 _, [%r5];\n"                     \
    "mbarrier.arrive.shared.b64 _, [%r5 + 8];\n"
#define AFTER "st.global.u32 [%d2], %r1;\nret;\n}\n"

/* Registers have one taint each, wherever they are written: what is loaded into %r1 under a guard counts as what it was
 * before. Without one it is another register (ptx/webs.c). */
static const struct {
    const char *name, *body;
    enum { NEITHER, SAME, STEADY } what; /* SAME: it touches the same bytes, but does not cost the same */
    const char *by;                      /* the arguments whose memory decides, "?": nobody can say (ana_deciders) */
} cases[] = {
    {"values", "mad.lo.u32 %r1, %r1, %r1, %r2;\n", STEADY, ""},
    {"chosen value", "setp.gt.s32 %p1, %r1, 5;\nselp.b32 %r1, %r1, 7, %p1;\n", STEADY, ""},
    {"shuffle", "shfl.sync.bfly.b32 %r1, %r1, 1, 31, -1;\n", STEADY, ""},
    {"loop by a number", "L:\nadd.u32 %r1, %r1, 3;\nadd.u32 %r4, %r4, -1;\nsetp.gt.s32 %p1, %r4, 0;\n@%p1 bra L;\n",
     STEADY, ""},
    {"branch by thread", "setp.gt.u32 %p1, %r3, 5;\n@%p1 bra L;\nadd.u32 %r1, %r1, 3;\nL:\n", STEADY, ""},
    {"through shared memory, at its own place",
     "mov.u32 %r5, s;\nshl.b32 %r6, %r3, 2;\nadd.u32 %r5, %r5, %r6;\nst.shared.u32 [%r5], %r1;\nbar.sync "
     "0;\nld.shared.u32 %r1, [%r5];\n",
     STEADY, ""},
    {"atomic", "red.global.add.u32 [%d2], %r1;\n", STEADY, ""},
    {"branch by data", "setp.gt.u32 %p1, %r1, 500;\n@%p1 bra L;\nadd.u32 %r1, %r1, 3;\nL:\n", SAME, "x"},
    {"branch by a table", "setp.gt.u32 %p1, %r2, 500;\n@%p1 bra L;\nadd.u32 %r1, %r1, 3;\nL:\n", SAME, "t"},
    {"guard by data", "setp.gt.u32 %p1, %r1, 500;\n@%p1 add.u32 %r1, %r1, 3;\n", SAME, ""},
    {"guarded load", "setp.gt.u32 %p1, %r1, 500;\n@%p1 ld.global.u32 %r1, [%d2];\n", NEITHER, "xy"},
    {"exit by data", "setp.gt.u32 %p1, %r1, 500;\n@%p1 exit;\n", NEITHER, "x"},
    {"address by data",
     "and.b32 %r5, %r1, 63;\nmul.wide.u32 %d5, %r5, 4;\nld.param.u64 %d7, [y];\nadd.u64 %d6, %d7, %d5;\nld.global.u32 "
     "%r1, [%d6];\n",
     NEITHER, "x"},
    {"shared address by data",
     "mov.u32 %r5, s;\nand.b32 %r6, %r1, 252;\nadd.u32 %r5, %r5, %r6;\nst.shared.u32 [%r5], %r1;\n", NEITHER, ""},
    {"loop by data", "and.b32 %r5, %r1, 15;\nL:\nadd.u32 %r5, %r5, -1;\nsetp.gt.s32 %p1, %r5, 0;\n@%p1 bra L;\n", SAME,
     "x"},
    {"data by way of shared memory",
     "mov.u32 %r5, s;\nst.shared.u32 [%r5], %r1;\nbar.sync 0;\nld.shared.u32 %r6, [%r5];\nsetp.gt.u32 %p1, %r6, "
     "500;\n@%p1 bra L;\nadd.u32 %r1, %r1, 3;\nL:\n",
     SAME, "x"},
    {"a vote on data",
     "setp.gt.u32 %p1, %r1, 500;\nvote.sync.any.pred %p2, %p1, -1;\n@%p2 bra L;\nadd.u32 %r1, %r1, 3;\nL:\n", SAME,
     "x"},
    {"result of an atomic",
     "atom.global.add.u32 %r5, [%d2], 1;\nsetp.gt.u32 %p1, %r5, 5;\n@%p1 bra L;\nadd.u32 %r1, %r1, 3;\nL:\n", SAME,
     "?"},
    {"address by the table, guard by data",
     "and.b32 %r5, %r2, 63;\nmul.wide.u32 %d5, %r5, 4;\nld.param.u64 %d7, [y];\nadd.u64 %d6, %d7, "
     "%d5;\nsetp.gt.u32 %p1, %r1, 500;\n@%p1 ld.global.u32 %r7, [%d6];\n",
     NEITHER, "xt"},
    {"address by what is in the place itself",
     "ld.global.u32 %r6, [%d2];\nand.b32 %r5, %r6, 63;\nmul.wide.u32 %d5, %r5, 4;\nld.param.u64 %d7, [y];\nadd.u64 "
     "%d6, "
     "%d7, %d5;\nld.global.u32 %r1, [%d6];\n",
     NEITHER, "y"},
    {"a wait for an mbarrier", BOTH "W:\nmbarrier.test_wait.parity.shared.b64 %p1, [%r5], 0;\n@!%p1 bra W;\n", SAME,
     "?"},
    {"one of two mbarriers, by data",
     BOTH "and.b32 %r6, %r1, 8;\nadd.u32 %r5, %r5, %r6;\nW:\nmbarrier.test_wait.parity.shared.b64 %p1, [%r5], "
          "0;\n@!%p1 bra W;\n",
     NEITHER, "?"},
    {"an mbarrier asked once",
     BOTH "mbarrier.test_wait.parity.shared.b64 %p1, [%r5], 0;\n@!%p1 bra W;\nadd.u32 %r1, %r1, 3;\nW:\n", NEITHER,
     "?"},
    {"a call",
     "{\n.param .b32 a;\n.param .b32 b;\nst.param.b32 [a], %r1;\ncall (b), twice, (a);\nld.param.b32 %r1, [b];\n}\n",
     SAME, ""},
};

static void must(int r, const struct dt_err *e, const char *what)
{
    if (r < 0)
        fail_msg("%s: %s: %s", what, dt_err_text(r), e->detail ? e->detail : "");
}

static void test_cases(void **state)
{
    struct dev_device *d;
    struct dt_err e = {0};
    must(dev_open("soft:h200", &d, &e), &e, "device");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dt_str s = {0};
        char text[4096];
        struct dt_graph *g;
        struct dev_prog *p;
        bool steady, same;
        snprintf(text, sizeof text, "%s%s%s", BEFORE, cases[i].body, AFTER);
        dt_str_add(&s, "{\"dovetail\":1,\"modules\":{\"m\":{\"ptx\":\"");
        for (const char *c = text; *c; c++)
            dt_str_addf(&s, *c == '\n' ? "\\n" : "%c", *c);
        dt_str_add(
            &s, "\"}},\"buffers\":{\"x\":{\"bytes\":256,\"role\":\"input\",\"fill\":{\"uniform\":[0,1000],\"dtype\":"
                "\"i32\",\"seed\":1}},"
                "\"y\":{\"bytes\":256,\"role\":\"output\"},\"t\":{\"bytes\":256,\"role\":\"input\",\"constant\":true,"
                "\"fill\":{\"uniform\":[0,1000],\"dtype\":\"i32\",\"seed\":2}}},"
                "\"launches\":[{\"module\":\"m\",\"entry\":\"k\",\"grid\":[1,1,1],\"block\":[64,1,1],"
                "\"args\":[{\"buffer\":\"x\"},{\"buffer\":\"y\"},{\"buffer\":\"t\"},{\"i32\":9}]}]}");
        must(dt_graph_parse(s.s, s.len, &g, &e), &e, cases[i].name);
        dt_str_done(&s);
        must(dev_prog_new(d, g, NULL, NULL, &p, &e), &e, cases[i].name);
        must(ana_steady(p, 0, &steady, &same, &e), &e, cases[i].name);
        if (steady != (cases[i].what == STEADY))
            fail_msg("%s: %s", cases[i].name, steady ? "is said to be steady" : "is not said to be steady");
        if (same != (cases[i].what != NEITHER))
            fail_msg("%s: %s to touch the same bytes", cases[i].name, same ? "is said" : "is not said");
        bool decides[4], known;
        char by[8] = "";
        must(ana_deciders(p, 0, decides, &known, &e), &e, cases[i].name);
        for (unsigned k = 0, n = 0; k < 4; k++)
            if (decides[k])
                by[n++] = "xytn"[k];
        if (strcmp(known ? by : "?", cases[i].by))
            fail_msg("%s: decided by '%s', not '%s'", cases[i].name, known ? by : "?", cases[i].by);
        struct dev_cost cost[2];
        memset(cost, 0, sizeof cost);
        for (unsigned k = 0; k < 2; k++) {
            struct dev_run *run;
            must(dev_run_new(d, p, &run, &e), &e, cases[i].name);
            must(dev_run_fill(run, 77 * k, 0, &e), &e, cases[i].name);
            must(dev_run_step(run, 0, &e), &e, cases[i].name);
            must(dev_run_cost(run, 0, &cost[k], &e), &e, cases[i].name);
            dev_run_free(run);
        }
        if (steady)
            assert_memory_equal(&cost[0], &cost[1], sizeof cost[0]);
        assert_true(dev_cost_fits(d, p, 0, &cost[0]));
        cost[0].work[0]++; /* another version's */
        assert_false(dev_cost_fits(d, p, 0, &cost[0]));
        dev_prog_free(p);
        dt_graph_free(g);
    }
    dev_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
