/* The comparison of machine code (device/arithmetic.c): pairs of kernels are joined by hand, as a rewrite would join
 * them with and without care, and each case says what the comparison must find. Each body is a line or more of PTX
 * between a load and a store. In the joined kernel the value crosses in a register, open or hidden behind an xor with a
 * parameter. Needs nvJitLink. */
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

static const char *arch = "sm_90", *const archs[] = {"sm_90", "sm_100", "sm_120"};

#define REGS                                                                                                           \
    ".reg .pred %p<8>;\n.reg .b16 %h<16>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .f32 %f<32>;\n.reg .f64 "       \
    "%d<16>;\n"
#define PARAMS(e)                                                                                                      \
    ".visible .entry " e "(.param .u64 " e "_0, .param .u64 " e "_1, .param .u32 " e "_2, .param .f32 " e              \
    "_3)\n{\n" REGS
#define ENTER(e)                                                                                                       \
    "ld.param.u64 %rd1, [" e "_0];\nld.param.u64 %rd2, [" e "_1];\nld.param.u32 %r9, [" e                              \
    "_2];\nld.param.f32 %f9, [" e "_3];\nmov.u32 %r1, %tid.x;\n"                                                       \
    "mul.wide.u32 %rd3, %r1, 16;\nadd.s64 %rd1, %rd1, %rd3;\nadd.s64 %rd2, %rd2, %rd3;\n"
#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
static const char *head = HEAD;

/* One posted body: input %f1 (and %f2), result %f3. */
static void posted(struct dt_str *s, const char *name, const char *body)
{
    dt_str_addf(s, "%s.visible .entry %s(.param .u64 q_0, .param .u64 q_1, .param .u32 q_2, .param .f32 q_3)\n{\n%s",
                head, name, REGS ENTER("q"));
    dt_str_addf(
        s, "ld.global.f32 %%f1, [%%rd1];\nld.global.f32 %%f2, [%%rd1+4];\n%s\nst.global.f32 [%%rd2], %%f3;\nret;\n}\n",
        body);
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
            dt_str_addc(s, second && p[k] == '%' &&
                                   (p[k + 1] == 'f' || p[k + 1] == 'd' || p[k + 1] == 'h' || p[k + 1] == 'p')
                               ? '$'
                               : p[k]);
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

/* Join first and second; `joint` is PTX between %f3 and what the second takes as its input, $f1. `also`: the second
 * reads $f2 from there. 1 or 0; text in why. */
static int join(const char *first, const char *joint, const char *second, bool store, struct dt_str *why)
{
    struct dt_str a = {0}, b = {0}, s = {0}, t = {0};
    struct dt_err e = {0};
    size_t na, nb, ns;
    posted(&a, "one", first);
    posted(&b, "two", second);
    dt_str_add(&t, HEAD PARAMS("k"));
    dt_str_add(&t,
               ".reg .pred $p<8>;\n.reg .b16 $h<16>;\n.reg .f32 $f<32>;\n.reg .f64 $d<16>;\n.loc 1 1 0\n" ENTER("k"));
    dt_str_add(
        &t,
        "ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd1+4];\nld.global.f32 $f2, [%rd1+8];\nmov.f32 $f9, %f9;\n");
    with_lines(&t, a.s, first, 2, false);
    dt_str_addf(&t, ".loc 1 1 0\n%s%s\n", store ? "st.global.f32 [%rd2+4], %f3;\n" : "", joint);
    with_lines(&t, b.s, second, 3, true);
    dt_str_add(&t, ".loc 1 1 0\nst.global.f32 [%rd2], $f3;\nret;\n}\n.file 1 \"dovetail\"\n.file 2 "
                   "\"posted-one\"\n.file 3 \"posted-two\"\n");
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

/* What ptxas makes of it when the joint is open must be refused, hidden it must be taken. EITHER: ptxas changes
 * nothing, but a constant comes where a load was. */
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
    {"sums in memory", "red.global.add.f32 [%rd2+16], %f1;\nmul.rn.f32 %f3, %f1, %f2;",
     "add.f32 %f3, %f1, %f2;\nmul.rn.f32 %f4, %f3, %f3;\nred.global.add.f32 [%rd2+20], %f4;", TAKE},
    {"a loop of sums",
     "mov.f32 %f3, 0f00000000;\nmov.u32 %r3, 0;\nLOOP:\nfma.rn.f32 %f3, %f1, %f2, %f3;\nadd.f32 %f1, %f1, "
     "%f3;\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, %r9;\n@%p1 bra LOOP;",
     "add.f32 %f3, %f1, %f2;", EITHER},
};

static unsigned wrong_pairs(void)
{
    unsigned n = 0;
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++) {
        struct dt_str open = {0}, hidden = {0};
        int o = join(pairs[k].first, OPEN, pairs[k].second, false, &open),
            h = join(pairs[k].first, HIDDEN, pairs[k].second, false, &hidden);
        if ((pairs[k].open != EITHER && o != (pairs[k].open == TAKE)) || h != 1) {
            print_error("%s, %s: open %d (%s), hidden %d (%s)\n", arch, pairs[k].what, o, open.s ? open.s : "", h,
                        hidden.s ? hidden.s : "");
            n++;
        }
        dt_str_done(&open);
        dt_str_done(&hidden);
    }
    return n;
}

static void test_pairs(void **state)
{
    unsigned n = 0;
    for (unsigned k = 0; k < 3; k++) {
        arch = archs[k];
        n += wrong_pairs();
    }
    arch = archs[0];
    assert_int_equal(n, 0);
}

/* One posted body and what became of it: its lines are told by the letter in front, a for the first; '-': of none. */
static const struct change {
    const char *what, *was, *now;
    bool same;
} changes[] = {
    {"nothing", "mul.f32 %f3, %f1, %f2;\nadd.f32 %f3, %f3, %f1;", "amul.f32 %f3, %f1, %f2;\nbadd.f32 %f3, %f3, %f1;",
     true},
    {".rn undoes FFMA", "mul.f32 %f3, %f1, %f2;\nadd.f32 %f3, %f3, %f1;",
     "amul.rn.f32 %f3, %f1, %f2;\nbadd.f32 %f3, %f3, %f1;", false},
    {".rn undoes .D2", "mul.f32 %f3, %f1, %f2;\nmul.f32 %f3, %f3, 0f3F000000;",
     "amul.rn.f32 %f3, %f1, %f2;\nbmul.rn.f32 %f3, %f3, 0f3F000000;", false},
    {".M2 as it was", "mul.f32 %f3, %f1, %f2;\nmul.f32 %f3, %f3, 0f40000000;",
     "amul.f32 %f3, %f1, %f2;\nbmul.f32 %f3, %f3, 0f40000000;", true},
    {"a store goes: FMUL and FADD become FFMA",
     "div.approx.f32 %f4, %f1, %f2;\nst.global.f32 [%rd2+8], %f4;\nadd.f32 %f3, %f4, %f1;",
     "adiv.approx.f32 %f4, %f1, %f2;\ncadd.f32 %f3, %f4, %f1;", false},
    {"the store stays", "div.approx.f32 %f4, %f1, %f2;\nst.global.f32 [%rd2+8], %f4;\nadd.f32 %f3, %f4, %f1;",
     "adiv.approx.f32 %f4, %f1, %f2;\nbst.global.f32 [%rd2+8], %f4;\ncadd.f32 %f3, %f4, %f1;", true},
    {"another constant", "mul.f32 %f3, %f1, 0f40490FDB;", "amul.f32 %f3, %f1, 0f40490FDA;", false},
    {"the constant's sign", "fma.rn.f32 %f3, %f1, 0f40490FDB, %f2;", "afma.rn.f32 %f3, %f1, 0fC0490FDB, %f2;", false},
    {"a sign that goes to the constant", "neg.f32 %f4, %f1;\nmul.f32 %f3, %f4, 0f40490FDB;",
     "amov.f32 %f4, %f1;\nbmul.f32 %f3, %f4, 0fC0490FDB;", true},
    {"factors the other way round", "mul.f32 %f3, %f1, %f2;", "amul.f32 %f3, %f2, %f1;", true},
    {"dividend and divisor", "div.full.f32 %f3, %f1, 0f40490FDB;", "adiv.full.f32 %f3, 0f40490FDB, %f1;", false},
    {"another rounding", "add.f32 %f3, %f1, %f2;", "aadd.rz.f32 %f3, %f1, %f2;", false},
    {"ftz", "add.f32 %f3, %f1, %f2;", "aadd.ftz.f32 %f3, %f1, %f2;", false},
    {"sat", "add.f32 %f3, %f1, %f2;", "aadd.sat.f32 %f3, %f1, %f2;", false},
    {"lost sat", "add.sat.f32 %f3, %f1, %f2;", "aadd.f32 %f3, %f1, %f2;", false},
    {"minimum for maximum", "min.f32 %f3, %f1, %f2;", "amax.f32 %f3, %f1, %f2;", false},
    {"another conversion", "cvt.rni.f32.f32 %f3, %f1;", "acvt.rmi.f32.f32 %f3, %f1;", false},
    {"an ordered comparison for an unordered", "setp.lt.f32 %p1, %f1, %f2;\nselp.f32 %f3, %f1, %f2, %p1;",
     "asetp.ltu.f32 %p1, %f1, %f2;\nbselp.f32 %f3, %f1, %f2, %p1;", false},
    {"a comparison turned round", "setp.lt.f32 %p1, %f1, %f2;\nselp.f32 %f3, %f1, %f2, %p1;",
     "asetp.gt.f32 %p1, %f2, %f1;\nbselp.f32 %f3, %f1, %f2, %p1;", true},
    {"and its complement", "setp.lt.f32 %p1, %f1, %f2;\nselp.f32 %f3, %f1, %f2, %p1;",
     "asetp.geu.f32 %p1, %f1, %f2;\nbselp.f32 %f3, %f2, %f1, %p1;", true},
    {"without a posted line", "add.f32 %f3, %f1, %f2;", "aadd.f32 %f3, %f1, %f2;\n-mul.f32 %f3, %f3, %f1;", false},
    {"gone though needed", "sqrt.approx.ftz.f32 %f4, %f1;\nadd.f32 %f3, %f4, %f2;",
     "amov.f32 %f4, %f1;\nbadd.f32 %f3, %f4, %f2;", false},
    {"dead, and gone", "ex2.approx.ftz.f32 %f4, %f1;\nst.global.f32 [%rd2+8], %f4;\nadd.f32 %f3, %f1, %f2;",
     "aex2.approx.ftz.f32 %f4, %f1;\ncadd.f32 %f3, %f1, %f2;", true},
    {"a constant by HFMA2 or MOV",
     "mov.f32 %f4, 0f3F800000;\nsetp.lt.f32 %p1, %f1, %f2;\n@%p1 mov.f32 %f4, 0f40000000;\nfma.rn.f32 %f3, %f1, %f4, "
     "%f2;",
     "amov.f32 %f4, 0f3F800000;\nbsetp.lt.f32 %p1, %f1, %f2;\nc@%p1 mov.f32 %f4, 0f40000000;\ndfma.rn.f32 %f3, %f1, "
     "%f4, %f2;\n-mov.u32 %r7, %clock;\n-st.global.u32 [%rd2+12], %r7;",
     true},
    {"equal ones merged",
     "ex2.approx.ftz.f32 %f4, %f1;\nld.volatile.global.f32 %f5, [%rd1];\nex2.approx.ftz.f32 %f6, %f5;\nadd.f32 %f3, "
     "%f4, %f6;",
     "aex2.approx.ftz.f32 %f4, %f1;\n-mov.f32 %f5, %f1;\ncex2.approx.ftz.f32 %f6, %f5;\ndadd.f32 %f3, %f4, %f6;", true},
    {"unrolled otherwise",
     "mov.f32 %f3, 0f00000000;\nmov.u32 %r3, 0;\nLOOP:\nfma.rn.f32 %f3, %f3, %f2, %f1;\nadd.u32 %r3, %r3, "
     "1;\nsetp.lt.u32 %p1, %r3, 64;\n@%p1 bra LOOP;",
     "amov.f32 %f3, 0f00000000;\nbmov.u32 %r3, 0;\n-LOOP:\n-.pragma \"nounroll\";\ndfma.rn.f32 %f3, %f3, %f2, "
     "%f1;\neadd.u32 %r3, %r3, 1;\nfsetp.lt.u32 %p1, %r3, 64;\ng@%p1 bra LOOP;",
     true},
    {"a number of blocks that is known", "mov.u32 %r3, %nctaid.x;\ncvt.rn.f32.u32 %f4, %r3;\nadd.f32 %f3, %f1, %f4;",
     "amov.u32 %r3, 16;\nbcvt.rn.f32.u32 %f4, %r3;\ncadd.f32 %f3, %f1, %f4;", true},
    {"an integer division by what is known",
     "mov.u32 %r3, %nctaid.x;\ndiv.u32 %r4, %r1, %r3;\ncvt.rn.f32.u32 %f4, %r4;\nadd.f32 %f3, %f1, %f4;",
     "amov.u32 %r3, 24;\nbdiv.u32 %r4, %r1, %r3;\nccvt.rn.f32.u32 %f4, %r4;\ndadd.f32 %f3, %f1, %f4;", true},
    {"a sum of halves as HFMA2 by one", "add.f16x2 %r3, %r1, %r2;\nmov.b32 %f3, %r3;",
     "amov.b32 %r4, 0x3C003C00;\nafma.rn.f16x2 %r3, %r1, %r4, %r2;\nbmov.b32 %f3, %r3;", true},
    {"doubles: FFMA's like", "mul.f64 %d3, %d1, %d2;\nadd.f64 %d3, %d3, %d1;\ncvt.rn.f32.f64 %f3, %d3;",
     "amul.rn.f64 %d3, %d1, %d2;\nbadd.f64 %d3, %d3, %d1;\nccvt.rn.f32.f64 %f3, %d3;", false},
    {"doubles", "div.rn.f64 %d3, %d1, %d2;\nsqrt.rn.f64 %d3, %d3;\ncvt.rn.f32.f64 %f3, %d3;",
     "adiv.rn.f64 %d3, %d1, %d2;\nbsqrt.rn.f64 %d3, %d3;\nccvt.rn.f32.f64 %f3, %d3;", true},
    {"halves", "mul.f16 %h3, %h1, %h2;\nadd.f16 %h3, %h3, %h1;\ncvt.f32.f16 %f3, %h3;",
     "amul.rn.f16 %h3, %h1, %h2;\nbadd.f16 %h3, %h3, %h1;\nccvt.f32.f16 %f3, %h3;", false},
    {"pairs of halves", "mul.f16x2 %r3, %r1, %r2;\nadd.f16x2 %r3, %r3, %r1;\nmov.b32 %f3, %r3;",
     "amul.rn.f16x2 %r3, %r1, %r2;\nbadd.f16x2 %r3, %r3, %r1;\ncmov.b32 %f3, %r3;", false},
    {"pairs of bfloats", "fma.rn.bf16x2 %r3, %r1, %r2, %r1;\nmov.b32 %f3, %r3;",
     "afma.rn.relu.bf16x2 %r3, %r1, %r2, %r1;\nbmov.b32 %f3, %r3;", false},
};

#define MORE                                                                                                           \
    "ld.global.f64 %d1, [%rd1];\nld.global.f64 %d2, [%rd1+8];\nld.global.b32 %r2, [%rd1+4];\nld.global.b16 %h1, "      \
    "[%rd1];\nld.global.b16 %h2, [%rd1+2];\n"

static int changed(const struct change *c, struct dt_str *why)
{
    struct dt_str a = {0}, b = {0}, body = {0};
    struct dt_err e = {0};
    size_t na, nb;
    dt_str_addf(&body, "%s%s", MORE, c->was);
    posted(&a, "one", body.s);
    unsigned first = lines_before(a.s, strstr(a.s, body.s) + strlen(MORE));
    dt_str_addf(&b, "%s%s.loc 1 1 0\n%sld.global.f32 %%f1, [%%rd1];\nld.global.f32 %%f2, [%%rd1+4];\n%s", head,
                PARAMS("k"), ENTER("k"), MORE);
    for (const char *p = c->now; *p;) {
        size_t n = strcspn(p, "\n");
        dt_str_addf(&b, ".loc %d %u 0\n%.*s\n", *p == '-' ? 1 : 2, *p == '-' ? 1 : first + (unsigned)(*p - 'a'),
                    (int)n - 1, p + 1);
        p += n + (p[n] == '\n');
    }
    dt_str_add(&b, ".loc 1 1 0\nst.global.f32 [%rd2], %f3;\nret;\n}\n.file 1 \"dovetail\"\n.file 2 \"posted-one\"\n");
    void *pa = assembled(&a, &na), *pb = assembled(&b, &nb);
    struct dev_part part = {"posted-one", pa, na, "one"};
    int r = dev_arithmetic(pb, nb, "k", b.s, b.len, &part, 1, why, &e);
    if (r < 0)
        fail_msg("%s", e.detail);
    free(pa);
    free(pb);
    dt_str_done(&a);
    dt_str_done(&b);
    dt_str_done(&body);
    return r;
}

static unsigned wrong_changes(const struct change *c, size_t n)
{
    unsigned bad = 0;
    for (size_t k = 0; k < n; k++) {
        struct dt_str why = {0};
        if (changed(&c[k], &why) != c[k].same) {
            print_error("%s, %s: %s (%s)\n", arch, c[k].what, c[k].same ? "refused" : "taken", why.s ? why.s : "");
            bad++;
        }
        dt_str_done(&why);
    }
    return bad;
}

static void test_changes(void **state)
{
    unsigned bad = 0;
    for (unsigned k = 0; k < 3; k++) {
        arch = archs[k];
        bad += wrong_changes(changes, sizeof changes / sizeof changes[0]);
    }
    arch = archs[0];
    assert_int_equal(bad, 0);
}

/* Two floats in 64 bits, one instruction on sm_100 (FFMA2), two on sm_120: each counts as two operations. */
#define BOTH "mov.b64 %rd4, {%f1, %f2};\nmov.b64 %rd5, {%f2, %f1};\n"
#define BOTH_AB "amov.b64 %rd4, {%f1, %f2};\nbmov.b64 %rd5, {%f2, %f1};\n"
#define SUM "\nmov.b64 {%f3, %f4}, %rd6;\nmax.f32 %f3, %f3, %f4;"
#define SUM_DE "\ndmov.b64 {%f3, %f4}, %rd6;\nemax.f32 %f3, %f3, %f4;"
#define FMA2 BOTH "fma.rn.f32x2 %rd6, %rd4, %rd5, %rd4;" SUM
#define MUL_DEF "dmul.rn.f32x2 %rd6, %rd4, %rd7;\nemov.b64 {%f3, %f4}, %rd6;\nfmax.f32 %f3, %f3, %f4;"
#define MUL2 BOTH "mov.b64 %rd7, 0x4049000040490000;\nmul.rn.f32x2 %rd6, %rd4, %rd7;" SUM
static const struct change packed[] = {
    {"nothing", FMA2, BOTH_AB "cfma.rn.f32x2 %rd6, %rd4, %rd5, %rd4;" SUM_DE, true},
    {"by two instructions", FMA2,
     "cfma.rn.f32 %f5, %f1, %f2, %f1;\ncfma.rn.f32 %f6, %f2, %f1, %f2;\nemax.f32 %f3, %f5, %f6;", true},
    {"two become one", "fma.rn.f32 %f5, %f1, %f2, %f1;\nfma.rn.f32 %f6, %f2, %f1, %f2;\nmax.f32 %f3, %f5, %f6;",
     "-mov.b64 %rd4, {%f1, %f2};\n-mov.b64 %rd5, {%f2, %f1};\nafma.rn.f32x2 %rd6, %rd4, %rd5, %rd4;\n"
     "bmov.b64 {%f5, %f6}, %rd6;\ncmax.f32 %f3, %f5, %f6;",
     true},
    {"another rounding", FMA2, BOTH_AB "cfma.rz.f32x2 %rd6, %rd4, %rd5, %rd4;" SUM_DE, false},
    {"ftz", FMA2, BOTH_AB "cfma.rn.ftz.f32x2 %rd6, %rd4, %rd5, %rd4;" SUM_DE, false},
    {"a product and a sum, which ptxas makes one for all their .rn", FMA2,
     BOTH_AB "cmul.rn.f32x2 %rd7, %rd4, %rd5;\ncadd.rn.f32x2 %rd6, %rd7, %rd4;" SUM_DE, true},
    {"the upper one's sign", FMA2,
     "-neg.f32 %f7, %f2;\namov.b64 %rd4, {%f1, %f7};\nbmov.b64 %rd5, {%f2, %f1};\n"
     "cfma.rn.f32x2 %rd6, %rd4, %rd5, %rd4;" SUM_DE,
     false},
    {"a sum's upper sign", BOTH "add.rn.f32x2 %rd6, %rd4, %rd5;" SUM,
     "-neg.f32 %f7, %f2;\namov.b64 %rd4, {%f1, %f7};\nbmov.b64 %rd5, {%f2, %f1};\n"
     "cadd.rn.f32x2 %rd6, %rd4, %rd5;" SUM_DE,
     false},
    {"one for both", BOTH "mov.b64 %rd7, {%f9, %f9};\nadd.rn.f32x2 %rd6, %rd4, %rd7;" SUM,
     "cadd.f32 %f5, %f1, %f9;\ncadd.f32 %f6, %f2, %f9;\nfmax.f32 %f3, %f5, %f6;", true},
    {"a constant", MUL2, BOTH_AB "cmov.b64 %rd7, 0x4049000040490000;\n" MUL_DEF, true},
    {"a constant, by two instructions", MUL2,
     "dmul.rn.f32 %f5, %f1, 0f40490000;\ndmul.rn.f32 %f6, %f2, 0f40490000;\nfmax.f32 %f3, %f5, %f6;", true},
    {"another constant", MUL2, BOTH_AB "cmov.b64 %rd7, 0x4049000140490001;\n" MUL_DEF, false},
    {"its sign", MUL2, BOTH_AB "cmov.b64 %rd7, 0xC0490000C0490000;\n" MUL_DEF, false},
    {"a sign that goes to the constant", MUL2,
     "-neg.f32 %f7, %f1;\n-neg.f32 %f8, %f2;\namov.b64 %rd4, {%f7, %f8};\ncmov.b64 %rd7, 0xC0490000C0490000;\n" MUL_DEF,
     true},
    {"a half beside floats", "fma.rn.f32.f16 %f3, %h1, %h2, %f1;", "afma.rn.f32.f16 %f3, %h1, %h2, %f1;", true},
    {"a half's sign", "fma.rn.f32.f16 %f3, %h1, %h2, %f1;", "-neg.f16 %h3, %h1;\nafma.rn.f32.f16 %f3, %h3, %h2, %f1;",
     false},
    {"bfloats for halves", "add.rn.f32.f16 %f3, %h1, %f1;", "aadd.rn.f32.bf16 %f3, %h1, %f1;", false},
    {"widened, then added", "add.rn.f32.f16 %f3, %h1, %f1;", "acvt.f32.f16 %f4, %h1;\naadd.f32 %f3, %f4, %f1;", false},
};

/* On sm_120 ptxas 13.0 makes several instructions of them, with one that is known by name alone. */
static const struct change three[] = {
    {"a smallest of three", "min.f32 %f3, %f1, %f2, %f9;", "amin.f32 %f3, %f9, %f1, %f2;", true},
    {"a largest of three", "min.f32 %f3, %f1, %f2, %f9;", "amax.f32 %f3, %f1, %f2, %f9;", false},
    {"NaNs of three", "min.f32 %f3, %f1, %f2, %f9;", "amin.NaN.f32 %f3, %f1, %f2, %f9;", false},
};

static void test_packed(void **state)
{
    unsigned bad = 0;
    static const char *const heads[] = {".version 9.0\n.target sm_100\n.address_size 64\n",
                                        ".version 9.0\n.target sm_120\n.address_size 64\n"};
    for (unsigned k = 0; k < 2; k++) {
        arch = archs[k + 1];
        head = heads[k];
        bad += wrong_changes(packed, sizeof packed / sizeof packed[0]);
        bad += k ? 0 : wrong_changes(three, sizeof three / sizeof three[0]);
    }
    arch = archs[0];
    head = HEAD;
    assert_int_equal(bad, 0);
}

/* Products of a warp group: letters a to d are the sums' beginnings, f the product, i the sum behind it. */
#define SUMS(v)                                                                                                        \
    "amov.f32 %f16, " v ";\nbmov.f32 %f17, " v ";\ncmov.f32 %f18, " v ";\ndmov.f32 %f19, " v ";\n"                     \
    "ewgmma.fence.sync.aligned;\n"
#define PRODUCT(shape, types, more) "fwgmma.mma_async.sync.aligned." shape ".f32." types " " more ";\n"
#define FOUR "{%f16, %f17, %f18, %f19}, %rd1, %rd2, 1, "
#define END(v) "gwgmma.commit_group.sync.aligned;\nhwgmma.wait_group.sync.aligned 0;\niadd.f32 %f3, " v ", %f2;"
static void test_warp_groups(void **state)
{
    static const char was[] = SUMS("%f1") PRODUCT("m64n8k16", "f16.f16", FOUR "1, 1, 0, 0") END("%f16");
    static const struct {
        const char *what, *now;
        bool same;
    } cases[] = {
        {"nothing", was, true},
        {"other registers",
         SUMS("%f1") "fwgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f16, %f17, %f18, %f19}, %rd2, %rd1, 1, 1, "
                     "1, 0, 0;\n" END("%f16"),
         true},
        {"the second factor turned", SUMS("%f1") PRODUCT("m64n8k16", "f16.f16", FOUR "1, 1, 0, 1") END("%f16"), false},
        {"the first factor turned", SUMS("%f1") PRODUCT("m64n8k16", "f16.f16", FOUR "1, 1, 1, 0") END("%f16"), false},
        {"a sign", SUMS("%f1") PRODUCT("m64n8k16", "f16.f16", FOUR "1, -1, 0, 0") END("%f16"), false},
        {"another sign", SUMS("%f1") PRODUCT("m64n8k16", "f16.f16", FOUR "-1, 1, 0, 0") END("%f16"), false},
        {"bfloats", SUMS("%f1") PRODUCT("m64n8k16", "bf16.bf16", FOUR "1, 1, 0, 0") END("%f16"), false},
        {"another depth", SUMS("%f1") PRODUCT("m64n8k8", "tf32.tf32", FOUR "1, 1") END("%f16"), false},
        {"eight bits", SUMS("%f1") PRODUCT("m64n8k32", "e4m3.e4m3", FOUR "1, 1") END("%f16"), false},
        {"another width",
         SUMS("%f1") PRODUCT("m64n16k16", "f16.f16",
                             "{%f16, %f17, %f18, %f19, %f20, %f21, %f22, %f23}, %rd1, %rd2, 1, 1, 1, 0, 0") END("%f16"),
         false},
        {"a factor in registers",
         SUMS("%f1") PRODUCT("m64n8k16", "f16.f16", "{%f16, %f17, %f18, %f19}, {%r1, %r9, %r1, %r9}, %rd2, 1, 1, 1, 0")
             END("%f16"),
         false},
        {"a sum that begins with a constant",
         SUMS("0f3F800000") PRODUCT("m64n8k16", "f16.f16", FOUR "1, 1, 0, 0") END("%f16"), false},
        {"the product is not what is added to",
         SUMS("%f1") PRODUCT("m64n8k16", "f16.f16", FOUR "1, 1, 0, 0") END("%f1"), false},
    };
    unsigned bad = 0;
    const char *before = arch;
    struct dt_str posted_text = {0};
    for (const char *p = was; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] == '\n'))
        dt_str_addf(&posted_text, "%.*s%s", (int)strcspn(p, "\n") - 1, p + 1, p[strcspn(p, "\n")] ? "\n" : "");
    arch = "sm_90a";
    head = ".version 8.0\n.target sm_90a\n.address_size 64\n";
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct change c = {cases[k].what, posted_text.s, cases[k].now, cases[k].same};
        bad += wrong_changes(&c, 1);
    }
    dt_str_done(&posted_text);
    arch = before;
    head = HEAD;
    assert_int_equal(bad, 0);
}

/* A posted function, and kernels in which its text stands in the place of the call: what it does is the kernel's, line
 * by line. */
static void test_functions(void **state)
{
    static const struct {
        const char *what, *function, *now, *to, *back;
        bool same;
    } cases[] = {
#define MUL "mul.f32 $f2, $f1, $f1;"
#define ADD "add.f32 $f2, $f1, 0f3F800000;"
#define ROOT "sqrt.approx.f32 $f2, $f1;"
#define TO "xor.b32 %r5, %r5, %r9;"
#define BACK "xor.b32 %r6, %r6, %r9;"
        {"hidden both ways", MUL, MUL, TO, BACK, true},
        {"open on the way back: FFMA", MUL, MUL, TO, "", false},
        {"open on the way there: FFMA", ADD, ADD, "", BACK, false},
        {"another operation at the line", MUL, ROOT, TO, BACK, false},
        {"none at all", ROOT, "mov.f32 $f2, $f1;", TO, BACK, false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct dt_str a = {0}, b = {0}, why = {0};
        struct dt_err e = {0};
        size_t na, nb;
        dt_str_addf(&a,
                    "%s.func (.param .b32 r) f(.param .b32 v)\n{\n.reg .f32 $f<4>;\nld.param.f32 $f1, [v];\n%s\n"
                    "st.param.f32 [r], $f2;\nret;\n}\n%s%s",
                    HEAD, cases[k].function, PARAMS("one"), ENTER("one"));
        dt_str_add(&a, "ld.global.f32 %f1, [%rd1];\nld.global.f32 %f2, [%rd1+4];\nmul.f32 %f3, %f1, %f2;\n{\n"
                       ".param .b32 q;\n.param .b32 w;\nst.param.f32 [q], %f3;\ncall.uni (w), f, (q);\n"
                       "ld.param.f32 %f4, [w];\n}\nadd.f32 %f5, %f4, %f2;\nst.global.f32 [%rd2], %f5;\nret;\n}\n");
        unsigned mul = lines_before(a.s, strstr(a.s, "mul.f32 %f3")),
                 add = lines_before(a.s, strstr(a.s, "add.f32 %f5")),
                 own = lines_before(a.s, strstr(a.s, "st.param.f32 [r]")) - 1;
        dt_str_addf(&b, "%s%s.reg .f32 $f<4>;\n.loc 1 1 0\n%s", HEAD, PARAMS("k"), ENTER("k"));
        dt_str_addf(&b,
                    "ld.global.f32 %%f1, [%%rd1];\nld.global.f32 %%f2, [%%rd1+4];\n.loc 2 %u 0\nmul.f32 %%f3, %%f1, "
                    "%%f2;\n.loc 1 1 0\nmov.b32 %%r5, %%f3;\n%s\nmov.b32 $f1, %%r5;\n.loc 2 %u 0\n%s\n.loc 1 1 0\n"
                    "mov.b32 %%r6, $f2;\n%s\nmov.b32 %%f4, %%r6;\n.loc 2 %u 0\nadd.f32 %%f5, %%f4, %%f2;\n.loc 1 1 0\n"
                    "st.global.f32 [%%rd2], %%f5;\nret;\n}\n.file 1 \"dovetail\"\n.file 2 \"posted-one\"\n",
                    mul, cases[k].to, own, cases[k].now, cases[k].back, add);
        for (unsigned x = 0; x < 3; x++, arch = archs[x % 3]) {
            void *pa = assembled(&a, &na), *pb = assembled(&b, &nb);
            struct dev_part part = {"posted-one", pa, na, "one"};
            int r = dev_arithmetic(pb, nb, "k", b.s, b.len, &part, 1, &why, &e);
            if (r != cases[k].same)
                fail_msg("%s, %s: %s", arch, cases[k].what, r < 0 ? e.detail : why.s ? why.s : "taken");
            free(pa);
            free(pb);
        }
        dt_str_done(&a);
        dt_str_done(&b);
        dt_str_done(&why);
    }
}

/* The table's arms: E is where they meet. */
static void table_body(struct dt_str *s, const char *a, const char *d, unsigned file, unsigned line)
{
    const char *const text[] = {"mov.f32 %f3, %f1;",
                                "setp.gt.u32 %p1, %r9, 4;",
                                "@%p1 bra E;",
                                "T: .branchtargets A, B, C, D, A;",
                                "brx.idx %r9, T;",
                                "A:",
                                a,
                                "bra E;",
                                "B:",
                                "add.rn.f32 %f3, %f1, 0f3F800000;",
                                "bra E;",
                                "C:",
                                "fma.rn.f32 %f3, %f1, %f2, %f9;",
                                "bra E;",
                                "D:",
                                d,
                                "E:",
                                "mul.rn.f32 %f4, %f3, %f3;"};
    for (unsigned k = 0; k < sizeof text / sizeof *text; k++) {
        if (file)
            dt_str_addf(s, ".loc %u %u 0\n", file, line + k);
        dt_str_addf(s, "%s\n", text[k]);
    }
}

/* Branches by a table: every arm is followed, and none where the assembler does not say which there are. */
static void test_tables(void **state)
{
    static const char mul[] = "mul.rn.f32 %f3, %f1, %f2;", root[] = "sqrt.approx.f32 %f3, %f1;";
    static const struct {
        const char *what, *a, *d;
        bool same;
    } cases[] = {
        {"as posted", mul, root, true},
        {"another operation in the first arm", "fma.rn.f32 %f3, %f1, %f2, %f2;", root, false},
        {"the last arm gives what was there", mul, "mov.f32 %f3, %f2;", false},
        {"the last arm does the first one's", mul, mul, false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        for (unsigned x = 0; x < 3; x++, arch = archs[x % 3]) {
            struct dt_str a = {0}, b = {0}, why = {0};
            struct dt_err e = {0};
            size_t na, nb;
            dt_str_addf(&a, "%s%s%sld.global.f32 %%f1, [%%rd1];\nld.global.f32 %%f2, [%%rd1+4];\n", HEAD, PARAMS("one"),
                        ENTER("one"));
            unsigned line = lines_before(a.s, a.s + a.len);
            table_body(&a, mul, root, 0, 0);
            dt_str_add(&a, "st.global.f32 [%rd2], %f4;\nret;\n}\n");
            dt_str_addf(&b, "%s%s.loc 1 1 0\n%sld.global.f32 %%f1, [%%rd1];\nld.global.f32 %%f2, [%%rd1+4];\n", HEAD,
                        PARAMS("k"), ENTER("k"));
            table_body(&b, cases[k].a, cases[k].d, 2, line);
            dt_str_add(&b, ".loc 1 1 0\nst.global.f32 [%rd2], %f4;\nret;\n}\n.file 1 \"dovetail\"\n.file 2 "
                           "\"posted-one\"\n");
            uint8_t *pa = assembled(&a, &na), *pb = assembled(&b, &nb);
            struct dev_part part = {"posted-one", pa, na, "one"};
            int r = dev_arithmetic(pb, nb, "k", b.s, b.len, &part, 1, &why, &e);
            if (r != cases[k].same)
                fail_msg("%s, %s: %s", arch, cases[k].what, r < 0 ? e.detail : why.s ? why.s : "taken");
            dt_str_done(&why);
            for (size_t at = 0; at + 16 < nb;
                 at++) /* .nv.info, without the table: a size, a place, a word, four or five */
                if (pb[at] == 4 && pb[at + 1] == 0x34 && pb[at + 2] >= 12 && !pb[at + 3] && pb[at + 12] <= 5)
                    pb[at + 1] = 0x33;
            assert_int_equal(dev_arithmetic(pb, nb, "k", b.s, b.len, &part, 1, &why, &e), 0);
            if (!strstr(why.s, "by a table"))
                fail_msg("%s, %s: %s", arch, cases[k].what, why.s);
            dt_str_done(&a);
            dt_str_done(&b);
            dt_str_done(&why);
            free(pa);
            free(pb);
        }
}

/* Bytes of a cubin changed at random: an answer or a refusal, never more. */
static void test_hostile(void **state)
{
    struct dt_str a = {0}, table = {0};
    size_t n;
    uint64_t seed = 1;
    table_body(&table, "div.rn.f32 %f3, %f1, %f2;", "sqrt.approx.f32 %f3, %f1;", 0, 0);
    posted(&a, "one", table.s);
    uint8_t *p = assembled(&a, &n), *q = malloc(n);
    size_t info = 0; /* where .nv.info lists the branches */
    for (size_t at = 0; at + 64 < n && !info; at++)
        info = p[at] == 4 && p[at + 1] == 0x34 && p[at + 2] >= 12 && !p[at + 3] && p[at + 12] <= 5 ? at : 0;
    assert_true(info);
    for (unsigned k = 0; k < 3000; k++) {
        struct dt_str why = {0};
        struct dt_err e = {0};
        memcpy(q, p, n);
        for (unsigned i = 0; i < 1 + k % 8; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            q[k % 2 && info ? info + (seed >> 33) % 40 : (seed >> 33) % n] = (uint8_t)(seed >> 20);
        }
        struct dev_part part = {"posted-one", q, k % 3 ? n : n - k % n, "one"};
        assert_in_range(dev_arithmetic(q, n, "one", NULL, 0, &part, 1, &why, &e) + 1000, 0, 1001);
        dt_str_done(&why);
        dt_err_done(&e);
    }
    free(p);
    free(q);
    dt_str_done(&table);
    dt_str_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs),     cmocka_unit_test(test_changes),
                                       cmocka_unit_test(test_packed),    cmocka_unit_test(test_warp_groups),
                                       cmocka_unit_test(test_functions), cmocka_unit_test(test_tables),
                                       cmocka_unit_test(test_hostile)};
    if (!dev_nvjitlink_version())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
