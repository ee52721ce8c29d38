/* The comparison of machine code: pairs of kernels joined by hand, as a rewrite would with and without care, and what is to be said of them. Each body is a line or more of
 * PTX between a load and a store; joined, the value crosses in a register, open or hidden behind an xor with a parameter. Needs nvJitLink. */
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

static const char *arch = "sm_90";

#define REGS ".reg .pred %p<8>;\n.reg .b16 %h<16>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<32>;\n.reg .f64 %d<16>;\n"
#define PARAMS(e) ".visible .entry " e "(.param .u64 " e "_0, .param .u64 " e "_1, .param .u32 " e "_2, .param .f32 " e "_3)\n{\n" REGS
#define ENTER(e) "ld.param.u64 %rd1, [" e "_0];\nld.param.u64 %rd2, [" e "_1];\nld.param.u32 %r9, [" e "_2];\nld.param.f32 %f9, [" e "_3];\nmov.u32 %r1, %tid.x;\n" \
                 "mul.wide.u32 %rd3, %r1, 16;\nadd.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, %rd3;\n"
#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

/* One posted body: input %f1 (and %f2), result %f3. */
static void posted(struct dt_str *s, const char *name, const char *body)
{
    dt_str_addf(s, "%s.visible .entry %s(.param .u64 q_0, .param .u64 q_1, .param .u32 q_2, .param .f32 q_3)\n{\n%s", HEAD, name, REGS ENTER("q"));
    dt_str_addf(s, "ld.global.f32 %%f1, [%%rd1];\nld.global.f32 %%f2, [%%rd1+4];\n%s\nst.global.f32 [%%rd2], %%f3;\nret;\n}\n", body);
}

static unsigned lines_before(const char *text, const char *at)
{
    unsigned n = 1;
    for (const char *p = text; p < at; p++)
        n += *p == '\n';
    return n;
}

/* The body's lines, each with its .loc; %f numbers moved up by `up` digits' names: f -> g. */
static void with_lines(struct dt_str *s, const char *text, const char *body, unsigned file, bool second)
{
    unsigned line = lines_before(text, strstr(text, body));
    for (const char *p = body; *p; line++) {
        size_t n = strcspn(p, "\n");
        dt_str_addf(s, ".loc %u %u 0\n", file, line);
        for (size_t k = 0; k < n; k++)
            dt_str_addc(s, second && p[k] == '%' && (p[k + 1] == 'f' || p[k + 1] == 'd' || p[k + 1] == 'h' || p[k + 1] == 'p') ? '$' : p[k]);
        dt_str_addc(s, '\n');
        p += n + (p[n] == '\n');
    }
}

static void *assembled(const struct dt_str *s, size_t *len)
{
    struct dt_err e = {0};
    void *p = NULL;
    if (dev_assemble_lines(s->s, s->len, arch, &p, len, &e) < 0)
        fail_msg("%s\n%s", e.log ? e.log : e.detail, s->s);
    return p;
}

/* Join first and second; `joint` is PTX between %f3 and what the second takes as its input, $f1. `also`: the second reads $f2 from there. 1 or 0; text in why. */
static int join(const char *first, const char *joint, const char *second, bool store, struct dt_str *why)
{
    struct dt_str a = {0}, b = {0}, s = {0}, t = {0};
    struct dt_err e = {0};
    size_t na, nb, ns;
    posted(&a, "one", first);
    posted(&b, "two", second);
    dt_str_add(&t, HEAD PARAMS("k"));
    dt_str_add(&t, ".reg .pred $p<8>;\n.reg .b16 $h<16>;\n.reg .f32 $f<32>;\n.reg .f64 $d<16>;\n.loc 1 1 0\n" ENTER("k"));
    dt_str_add(&t, "ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd1+4];\nld.global.f32 $f2, [%rd1+8];\nmov.f32 $f9, %f9;\n");
    with_lines(&t, a.s, first, 2, false);
    dt_str_addf(&t, ".loc 1 1 0\n%s%s\n", store ? "st.global.f32 [%rd2+4], %f3;\n" : "", joint);
    with_lines(&t, b.s, second, 3, true);
    dt_str_add(&t, ".loc 1 1 0\nst.global.f32 [%rd2], $f3;\nret;\n}\n.file 1 \"dovetail\"\n.file 2 \"posted-one\"\n.file 3 \"posted-two\"\n");
    dt_str_add(&s, t.s);
    void *pa = assembled(&a, &na), *pb = assembled(&b, &nb), *ps = assembled(&s, &ns);
    struct dev_part part[] = {{"posted-one", pa, na, "one"}, {"posted-two", pb, nb, "two"}};
    int r = dev_arithmetic(ps, ns, "k", s.s, s.len, part, 2, why, &e);
    if (r < 0)
        fail_msg("%s", e.detail);
    free(pa);
    free(pb);
    free(ps);
    dt_str_done(&a);
    dt_str_done(&b);
    dt_str_done(&s);
    dt_str_done(&t);
    return r;
}

#define OPEN "mov.f32 $f1, %f3;"
#define HIDDEN "mov.b32 %r5, %f3;\nxor.b32 %r5, %r5, %r9;\nmov.b32 $f1, %r5;"

/* What ptxas makes of it when the joint is open must be refused, hidden it must be taken. EITHER: ptxas changes nothing, but a constant comes where a load was. */
static const struct pair {
    const char *what, *first, *second;
    enum { REFUSE, TAKE, EITHER } open;
} pairs[] = {
    {"mul, add: FFMA", "mul.rn.f32 %f3, %f1, %f2;", "add.f32 %f3, %f1, %f2;", TAKE},
    {"mul, add without .rn", "mul.f32 %f3, %f1, %f2;", "add.f32 %f3, %f1, %f2;", REFUSE},
    {"approximate division, add", "div.approx.f32 %f3, %f1, %f2;", "add.f32 %f3, %f1, %f2;", REFUSE},
    {"full division, sub", "div.full.f32 %f3, %f1, %f2;", "sub.f32 %f3, %f1, %f2;", REFUSE},
    {"ex2, division", "ex2.approx.ftz.f32 %f3, %f1;", "rcp.approx.ftz.f32 %f3, %f1;", REFUSE},
    {"rcp, rcp", "rcp.approx.ftz.f32 %f3, %f1;", "rcp.approx.ftz.f32 %f3, %f1;", REFUSE},
    {"neg, neg", "neg.f32 %f3, %f1;", "neg.f32 %f3, %f1;", REFUSE},
    {"neg, abs", "neg.f32 %f3, %f1;", "abs.f32 %f3, %f1;", REFUSE},
    {"abs, mul", "abs.f32 %f3, %f1;", "mul.f32 %f3, %f1, %f2;", REFUSE},
    {"neg, add", "neg.f32 %f3, %f1;", "add.f32 %f3, %f1, %f2;", REFUSE},
    {"min 1, max 0: .SAT", "min.f32 %f3, %f1, 0f3F800000;", "max.f32 %f3, %f1, 0f00000000;", REFUSE},
    {"a b, half of it: .D2", "mul.f32 %f3, %f1, %f2;", "mul.f32 %f3, %f1, 0f3F000000;", REFUSE},
    {"a b, twice it: .M2", "mul.f32 %f3, %f1, %f2;", "mul.f32 %f3, %f1, 0f40000000;", REFUSE},
    {"add, sat", "add.f32 %f3, %f1, %f2;", "cvt.sat.f32.f32 %f3, %f1;", REFUSE},
    {"sqrt, division", "sqrt.rn.f32 %f3, %f1;", "div.rn.f32 %f3, %f2, %f1;", EITHER},
    {"two divisions share a slow path", "div.rn.f32 %f3, %f1, %f2;", "div.rn.f32 %f3, %f2, %f1;", TAKE},
    {"fma, fma", "fma.rn.f32 %f3, %f1, %f2, %f2;", "fma.rn.f32 %f3, %f1, %f2, 0f3F800000;", TAKE},
    {"a loop of sums", "mov.f32 %f3, 0f00000000;\nmov.u32 %r3, 0;\nLOOP:\nfma.rn.f32 %f3, %f1, %f2, %f3;\nadd.f32 %f1, %f1, %f3;\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, %r9;\n@%p1 bra LOOP;",
     "add.f32 %f3, %f1, %f2;", EITHER},
};

static void test_pairs(void **state)
{
    unsigned n = 0;
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        struct dt_str open = {0}, hidden = {0};
        int o = join(pairs[k].first, OPEN, pairs[k].second, false, &open), h = join(pairs[k].first, HIDDEN, pairs[k].second, false, &hidden);
        if ((pairs[k].open != EITHER && o != (pairs[k].open == TAKE)) || h != 1) {
            print_error("%s: open %d (%s), hidden %d (%s)\n", pairs[k].what, o, open.s ? open.s : "", h, hidden.s ? hidden.s : "");
            n++;
        }
        dt_str_done(&open);
        dt_str_done(&hidden);
    }
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs)};
    if (!dev_nvjitlink_version())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
