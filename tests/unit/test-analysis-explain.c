/* Where a taint began (origin.c): for the access in a kernel's line marked //site, the line marked //from must be
 * found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/taint/taint.h"
#include "base/file.h"
#include "base/str.h"

static const char head[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry k(.param .u64 x, .param .u64 y, .param .u64 ix)\n{\n"
    ".reg .pred %p<4>; .reg .b32 %r<20>; .reg .f32 %f<4>; .reg .b64 %rd<20>; .shared .align 4 .b8 s[512];\n"
    "ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [ix];\n"
    "cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2; cvta.to.global.u64 %rd3, %rd3;\n"
    "mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4; add.s64 %rd6, %rd1, %rd4;\n";

static const struct {
    const char *name, *why, *body;
} cases[] = {
    {"an index that is loaded", "address",
     "ld.global.u32 %r2, [%rd5]; //from\n"
     "shl.b32 %r3, %r2, 2; cvt.u64.u32 %rd7, %r3; add.s64 %rd8, %rd1, %rd7;\n"
     "ld.global.f32 %f1, [%rd8]; //site\n"},
    {"the nearer of two", "address",
     "ld.global.u32 %r2, [%rd5];\n"
     "mul.wide.u32 %rd7, %r2, 4; add.s64 %rd8, %rd3, %rd7;\n"
     "ld.global.u32 %r3, [%rd8]; //from\n"
     "mul.wide.u32 %rd9, %r3, 4; add.s64 %rd10, %rd1, %rd9;\n"
     "st.global.f32 [%rd10], 0f3F800000; //site\n"},
    {"a predicate", "guard",
     "ld.global.u32 %r2, [%rd5]; //from\n"
     "setp.gt.u32 %p1, %r2, 7;\n"
     "@%p1 st.global.u32 [%rd6], %r1; //site\n"},
    {"a branch around it", "guard",
     "ld.global.u32 %r2, [%rd5]; //from\n"
     "setp.gt.u32 %p1, %r2, 7;\n@%p1 bra L;\n"
     "st.global.u32 [%rd6], %r1; //site\nL:\n"},
    {"through shared memory", "address",
     "ld.global.u32 %r2, [%rd5]; //from\n"
     "mov.u32 %r3, s; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4;\n"
     "st.shared.u32 [%r3], %r2;\nbar.sync 0;\nld.shared.u32 %r5, [s+4];\n"
     "mul.wide.u32 %rd7, %r5, 4; add.s64 %rd8, %rd2, %rd7;\n"
     "ld.global.f32 %f1, [%rd8]; //site\n"},
    {"through another thread's register", "address",
     "ld.global.u32 %r2, [%rd5]; //from\n"
     "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;\n"
     "mul.wide.u32 %rd7, %r3, 4; add.s64 %rd8, %rd2, %rd7;\n"
     "ld.global.f32 %f1, [%rd8]; //site\n"},
    {"a place that an atomic gave", "address",
     "atom.global.add.u32 %r2, [%rd3], 1; //from\n"
     "mul.wide.u32 %rd7, %r2, 4; add.s64 %rd8, %rd2, %rd7;\n"
     "st.global.u32 [%rd8], %r1; //site\n"},
    {"a machine register", "address",
     "mov.u32 %r2, %smid; //from\n"
     "mul.wide.u32 %rd7, %r2, 4; add.s64 %rd8, %rd2, %rd7;\n"
     "st.global.u32 [%rd8], %r1; //site\n"},
    {"a quotient that rounds as the device does", "address",
     "cvt.rn.f32.u32 %f1, %r1;\n"
     "div.approx.f32 %f2, %f1, 0f42240000; //from\n"
     "cvt.rzi.u32.f32 %r2, %f2; mul.wide.u32 %rd7, %r2, 4; add.s64 %rd8, %rd2, %rd7;\n"
     "st.global.u32 [%rd8], %r1; //site\n"},
    {"who takes part", "address",
     "activemask.b32 %r2; //from\n"
     "mul.wide.u32 %rd7, %r2, 4; add.s64 %rd8, %rd2, %rd7;\n"
     "st.global.u32 [%rd8], %r1; //site\n"},
    {"a merge that data chose", "address",
     "ld.global.u32 %r2, [%rd5]; //from\n"
     "setp.gt.u32 %p1, %r2, 7;\nmov.u32 %r3, 1;\n@%p1 bra L;\nmov.u32 %r3, 2;\nL:\n"
     "mul.wide.u32 %rd7, %r3, 4; add.s64 %rd8, %rd2, %rd7;\n"
     "st.global.u32 [%rd8], %r1; //site\n"},
    {"a loop that ends by data", "guard",
     "L:\nld.global.u32 %r2, [%rd5]; //from\n"
     "st.global.u32 [%rd6], %r1; //site\n"
     "add.s64 %rd6, %rd6, 4; add.s64 %rd5, %rd5, 4;\n"
     "setp.gt.u32 %p1, %r2, 7;\n@%p1 bra L;\n"},
    {"a linked list: the load itself", "address",
     "mov.u64 %rd7, %rd3;\nmov.u32 %r4, 0;\n"
     "L:\nld.global.u64 %rd7, [%rd7]; //from //site\n"
     "add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 5;\n@%p1 bra L;\n"},
    {"shared memory that nobody wrote", "address",
     "ld.shared.u32 %r5, [s]; //from\n"
     "mul.wide.u32 %rd7, %r5, 4; add.s64 %rd8, %rd2, %rd7;\n"
     "ld.global.f32 %f1, [%rd8]; //site\n"},
};

static uint32_t line_of(const char *text, const char *mark)
{
    const char *at = strstr(text, mark);
    uint32_t n = 1;
    assert_non_null(at);
    for (const char *p = text; p < at; p++)
        n += *p == '\n';
    return n;
}

static void origins(void **state)
{
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char text[4096];
        struct ptx_module *m;
        struct dt_err e = {0};
        struct ana_tainted t;
        snprintf(text, sizeof text, "%s%sret;\n}\n", head, cases[c].body);
        if (ptx_parse(text, strlen(text), &m, &e))
            fail_msg("%s: %s", cases[c].name, e.detail);
        const struct ptx_function *f = ptx_find_function(m, "k");
        struct ana_taint_in in = {.nparam = 3};
        assert_int_equal(ana_taint_run(f, &in, &t, &e), 0);
        const struct ana_site *site = NULL;
        for (uint32_t i = 0; i < t.sites.nsite; i++)
            if (f->inst[t.sites.site[i].inst].line == line_of(text, "//site"))
                site = &t.sites.site[i];
        if (!site)
            fail_msg("%s: no site", cases[c].name);
        bool guard = !strcmp(cases[c].why, "guard");
        assert_int_equal(guard ? site->guard : site->address, ANA_DATA_DEPENDENT);
        if (guard)
            assert_int_equal(site->address, ANA_PROVED);
        uint32_t at = ana_origin(f, &t, site, guard, ANA_DATA_DEPENDENT);
        if (at == UINT32_MAX || f->inst[at].line != line_of(text, "//from"))
            fail_msg("%s: line %u, not %u", cases[c].name, at == UINT32_MAX ? 0 : f->inst[at].line,
                     line_of(text, "//from"));
        ana_tainted_done(&t);
        ptx_module_free(m);
    }
}

/* A long way back: work grows with the text, not with its square. */
static void long_way(void **state)
{
    enum { STEPS = 40000 };
    struct dt_str s = {0};
    struct ptx_module *m;
    struct dt_err e = {0};
    struct ana_tainted t;
    dt_str_add(&s, head);
    dt_str_addf(&s, ".reg .b32 %%c<%d>;\nld.global.u32 %%c0, [%%rd5]; //from\n", STEPS + 1);
    for (int i = 0; i < STEPS; i++)
        dt_str_addf(&s, "add.u32 %%c%d, %%c%d, %d;\n", i + 1, i, i);
    dt_str_addf(
        &s,
        "mul.wide.u32 %%rd7, %%c%d, 4; add.s64 %%rd8, %%rd1, %%rd7;\nld.global.f32 %%f1, [%%rd8]; //site\nret;\n}\n",
        STEPS);
    assert_int_equal(ptx_parse(s.s, s.len, &m, &e), 0);
    const struct ptx_function *f = ptx_find_function(m, "k");
    struct ana_taint_in in = {.nparam = 3};
    assert_int_equal(ana_taint_run(f, &in, &t, &e), 0);
    const struct ana_site *last = &t.sites.site[t.sites.nsite - 1];
    assert_int_equal(f->inst[last->inst].line, line_of(s.s, "//site"));
    uint64_t start = dt_now_us();
    uint32_t at = ana_origin(f, &t, last, false, ANA_DATA_DEPENDENT);
    assert_true(dt_now_us() - start < 1000000);
    assert_true(at != UINT32_MAX && f->inst[at].line == line_of(s.s, "//from"));
    ana_tainted_done(&t);
    ptx_module_free(m);
    dt_str_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(origins), cmocka_unit_test(long_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
