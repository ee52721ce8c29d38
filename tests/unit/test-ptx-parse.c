/* ptx/: lexer, parser and printer. Printing is canonical: what is printed parses to what prints the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ptx/ptx.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

/* Parse, print, parse and print again; returns the text (caller frees) and, if asked, the module. */
static char *print_twice(const char *text, struct ptx_module **ret)
{
    struct ptx_module *m, *m2;
    struct dt_err e = {0};
    struct dt_str s = {0}, s2 = {0};
    if (ptx_parse(text, strlen(text), &m, &e) < 0)
        fail_msg("%s", e.detail);
    assert_int_equal(ptx_print(m, &s), 0);
    if (ptx_parse(s.s, s.len, &m2, &e) < 0)
        fail_msg("reparse: %s in\n%s", e.detail, s.s);
    assert_int_equal(ptx_print(m2, &s2), 0);
    assert_string_equal(s.s, s2.s);
    dt_str_done(&s2);
    ptx_module_free(m2);
    if (ret)
        *ret = m;
    else
        ptx_module_free(m);
    return dt_str_take(&s);
}

/* The statements of one entry with the registers p, q (.pred), r0… (.b32), d0… (.b64), f0… (.f32) and h0… (.b16). */
static char *in_entry(const char *body)
{
    char *s = NULL;
    if (asprintf(&s,
                 HEAD ".global .align 4 .b8 g[64];\n.func helper(.param .b32 a);\n"
                      ".visible .entry k(.param .u64 x)\n{\n.reg .pred p, q;\n.reg .b32 r<9>;\n.reg .b64 d<9>;\n"
                      ".reg .f32 f<9>;\n.reg .b16 h<9>;\n.shared .align 16 .b8 s[64];\n%s\nret;\n}\n",
                 body) < 0)
        fail();
    return s;
}

/* One statement prints as `want`. */
static void prints(const char *body, const char *want)
{
    char *in = in_entry(body), *out = print_twice(in, NULL);
    if (!strstr(out, want))
        fail_msg("%s: wanted %s in\n%s", body, want, out);
    free(in);
    free(out);
}

static void refused(const char *text, const char *where)
{
    struct ptx_module *m = (void *)1;
    struct dt_err e = {0};
    assert_int_equal(ptx_parse(text, strlen(text), &m, &e), DT_E_PTX);
    assert_ptr_equal(m, (void *)1);
    if (!strstr(e.detail, where))
        fail_msg("wanted %s, got %s", where, e.detail);
    dt_err_done(&e);
}

static void test_canonical(void **state)
{
    prints("ld.global.nc.L1::no_allocate.v4.f32 {f1,f2,f3,f4}, [d1+-4];",
           "ld.global.nc.L1::no_allocate.v4.f32 {f1, f2, f3, f4}, [d1+-4];");
    prints("ld.v2.gpu.f32.acquire.global {f1, f2}, [d1];", "ld.acquire.gpu.global.v2.f32 {f1, f2}, [d1];");
    prints("add.s32 r1,r2,-1;", "add.s32 r1, r2, -1;");
    prints("mov.b32 r1, 0x3340U;", "mov.b32 r1, 13120;");
    prints("mov.b64 d1, 0xFFFFFFFFFFFFFFFF;", "mov.b64 d1, 18446744073709551615;");
    prints("mov.f32 f1, 0f3F800000;", "mov.f32 f1, 0f3F800000;");
    prints("mov.f32 f1, 1.5;", "mov.f32 f1, 0f3FC00000;");
    prints("mov.u32 r1, (3 + 4) * 2 << 1;", "mov.u32 r1, 28;");
    prints("@!p bra L; L:", "@!p bra L;");
    prints("setp.lt.and.f32 p|q, f1, f2, !p;", "setp.lt.and.f32 p|q, f1, f2, !p;");
    prints("shfl.bfly.sync.b32 r1|p, r2, 1, 31, -1;", "shfl.sync.bfly.b32 r1|p, r2, 1, 31, -1;");
    prints("mov.u32 r1, %tid.x;", "mov.u32 r1, %tid.x;");
    prints("mov.u64 d1, g+8;", "mov.u64 d1, g+8;");
    prints("bar.cta.sync 0;", "bar.sync 0;");
    prints("call helper, (r1);", "call helper, (r1);");
    prints("mov.b64 {r1, _}, d1;", "mov.b64 {r1, _}, d1;");
    prints("cp.async.cg.shared.global.L2::128B [d1], [d2], 16;", "cp.async.shared.global.cg.L2::128B [d1], [d2], 16;");
    prints("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0,f1,f2,f3},{r0,r1,r2,r3},{r4,r5},{f4,f5,f6,f7};",
           "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f0");
}

static void test_opaque(void **state)
{
    prints("@p frobnicate.now.b32   r1, /* what */ [d1],\n {r2, 7};", "@p frobnicate.now.b32 r1, [d1], {r2, 7};");
    prints("frob// comment\n /* more */ r1 ;", "\tfrob r1;");
    prints("add.strange.s32 r1, r2, r3;", "add.strange.s32 r1, r2, r3;");
    prints("mov.b32 r1, 0; { .reg .b32 r1; frob r1; }", "frob r1_1;"); /* what it names is renamed with it */
}

static void test_scopes(void **state)
{
    char *in = in_entry("mov.b32 r1, 1;\n{ .reg .b64 r1; mov.b64 r1, 2; bra L; L: }\n{ .reg .f32 r1; mov.f32 r1, "
                        "0f00000000; bra L; L: }\n"
                        "bra OUT; { bra OUT; { bra OUT; } }\nOUT:\nmov.b32 r2, r1;"),
         *out = print_twice(in, NULL);
    assert_non_null(strstr(out, "mov.b64 r1_1, 2;"));
    assert_non_null(strstr(out, "mov.f32 r1_2, 0f00000000;"));
    assert_non_null(strstr(out, "mov.b32 r2, r1;"));
    assert_non_null(strstr(out, "bra L;\nL:"));
    assert_non_null(strstr(out, "bra L_1;\nL_1:"));
    assert_non_null(strstr(out, "bra OUT;\n\tbra OUT;\n\tbra OUT;\nOUT:"));
    free(in);
    free(out);
}

/* .loc holds from where it stands to the next one of the function; line 0 means none; .file may come last. */
static void test_source_lines(void **state)
{
    struct ptx_module *m;
    struct ptx_source at;
    char *out = print_twice(
        HEAD ".visible .entry k()\n{\n.reg .b32 a;\nmov.b32 a, 1;\n.loc 1 10 3\nmov.b32 a, 2;\nmov.b32 a, 3; .loc 2 20 "
             "1, function_name $L+4, "
             "inlined_at 1 12 7\nmov.b32 a, 4;\n.loc 1 0 0\nmov.b32 a, 5;\n.loc 7 5 1\nmov.b32 a, 6;\n.loc 1 "
             "4294967297 1\nret;\n}\n"
             ".func g() { .reg .b32 b; mov.b32 b, 7; ret; }\n.file 1 \"k.cu\", 1, 2\n.file 2 \"inc/h.cuh\"\n",
        &m);
    struct ptx_function *k = ptx_find_function(m, "k"), *g = ptx_find_function(m, "g");
    static const struct {
        const char *file, *at_file;
        uint32_t line, at_line;
    } want[] = {{NULL}, {"k.cu", NULL, 10, 0}, {"k.cu", NULL, 10, 0}, {"inc/h.cuh", "k.cu", 20, 12}, {NULL}, {NULL},
                {NULL}};
    assert_int_equal(k->ninst, 7);
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(ptx_source_of(k, &k->inst[i], &at), want[i].file != NULL);
        if (!want[i].file)
            continue;
        assert_string_equal(at.file, want[i].file);
        assert_int_equal(at.line, want[i].line);
        assert_int_equal(at.at_line, want[i].at_line);
        if (want[i].at_file)
            assert_string_equal(at.at_file, want[i].at_file);
        else
            assert_null(at.at_file);
    }
    assert_false(ptx_source_of(g, &g->inst[0], &at));
    assert_null(strstr(out, ".loc"));
    assert_null(strstr(out, ".file"));
    free(out);
    ptx_module_free(m);
}

static void test_module(void **state)
{
    struct ptx_module *m;
    char *out = print_twice(
        "// comment\n" HEAD
        ".file 1 \"a\\\"b.cu\", 12, 13\n.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
        ".global .align 1 .b8 fmt[4] = {104, 105};\n.global .u64 tab[2] = {generic(fmt)+1, fmt};\n.func f1() ;\n"
        ".global .align 8 .b8 mix[16] = {1, 2, 0, 0, 0, 0, 0, 0, 0xFF(fmt), 0xFF00(fmt), 0xFF0000(fmt), "
        "0xFF000000(fmt), "
        "0xFF00000000(fmt), 0xFF0000000000(fmt), 0xFF000000000000(fmt), 0xFF00000000000000(fmt)};\n"
        ".extern .shared .align 16 .b8 dyn[];\n.const .f32 c[2][2] = {{1.0}, {0f40000000, 3.0}};\n"
        ".visible .entry k(.param .u64 .ptr .global .align 1 k_param_0, .param .align 8 .b8 k_param_1[24])\n"
        ".maxntid 256, 1, 1\n.minnctapersm 2\n{\n.loc 1 5 0\n.pragma \"nounroll\";\n{ // callseq\n.param .b64 "
        "param0;\nst.param.b64 [param0], 0;\n"
        ".param .b32 retval0;\ncall.uni (retval0), vprintf, (param0, param0);\n}\n.loc 1 6 2, function_name $L1, "
        "inlined_at 1 2 3\nret;\n}\n"
        ".section .debug_str { .b8 1,2,3 }\n.func f1() { ret; }",
        &m);
    assert_non_null(strstr(out, ".global .align 8 .u64 tab[2] = {generic(fmt)+1, fmt};"));
    assert_non_null(strstr(out, "0xFF00000000000000(fmt)}"));
    assert_non_null(strstr(out, "{{0f3F800000, 0f00000000}, {0f40000000, 0f40400000}}"));
    assert_non_null(strstr(out, ".param .u64 .ptr .global .align 1 k_param_0"));
    assert_null(strstr(out, ".loc"));
    assert_int_equal(m->nvar, 5);
    struct ptx_function *k = ptx_find_function(m, "k");
    assert_int_equal(k->maxntid[0], 256);
    assert_int_equal(k->minnctapersm, 2);
    assert_int_equal(k->param[1]->bytes, 24);
    assert_true(ptx_find_function(m, "f1")->has_body);
    free(out);
    ptx_module_free(m);
}

static void test_errors(void **state)
{
    refused("", "line 1, column 1");
    refused(HEAD ".entry k() {\n  add.s32 %r1, %r2, 3;\n}", "line 5, column 11: %r1 is not declared");
    refused(HEAD ".entry k() {\n .reg .b32 %r<3>;\n add.s32 %r1, %r2;\n}",
            "line 6, column 2: wrong number of operands");
    refused(HEAD ".entry k() {\n .reg .b32 %r<3>;\n add.s32 %r1, %r3, %r2;\n}",
            "line 6, column 15: %r3 is not declared");
    refused(HEAD ".entry k() {\n .reg .b32 %r<3>;\n add.s32 %r1 %r2, 3;\n}", "line 6, column 14: ';' expected");
    refused(HEAD ".entry k() { bra NOWHERE; }", "label NOWHERE is not defined");
    refused(HEAD ".entry k() { { L: } bra L; }", "label L is not defined");
    refused(HEAD ".entry k() { L: L: ret; }", "defined twice");
    refused(HEAD ".entry k() { ; }", "expected, not ';'");
    refused(HEAD ".entry k() { ret;", "but the text ends");
    refused(HEAD ".entry k() { mov.b32 \x01, 0; }", "stray character");
    refused(HEAD ".global .u32 x; .global .u32 x;", "declared twice");
    refused(".version 8.0 .target sm_80 .address_size 32", "only .address_size 64");
}

static void test_hostile(void **state)
{
    struct ptx_module *m;
    struct dt_err e = {0};
    char *out = print_twice(HEAD ".entry k() { .reg .b32 %r<4294967295>; mov.b32 %r4294967294, 1; ret; }", NULL);
    assert_non_null(strstr(out, ".reg .b32 %r4294967294;"));
    free(out);
    const char *big = HEAD ".global .b8 x[1000000000000] = {1};";
    assert_int_equal(ptx_parse(big, strlen(big), &m, &e), DT_E_TOO_LARGE);
    dt_err_done(&e);
    out = print_twice(HEAD ".global .b8 x[1000000000000];", NULL);
    free(out);
    struct dt_str s = {0};
    dt_str_add(&s, HEAD ".entry k() { .reg .b32 r; mov.b32 r, ");
    for (int k = 0; k < 100000; k++)
        dt_str_addc(&s, '(');
    refused(s.s, "nested too deeply");
    dt_str_done(&s);
    dt_str_add(&s, HEAD ".entry k() ");
    for (int k = 0; k < 100000; k++)
        dt_str_addc(&s, '{');
    refused(s.s, "nested scopes");
    dt_str_done(&s);
}

/* Out of memory at the first, second, third, … allocation: an error each time, nothing lost, nothing broken. */
static void test_memory(void **state)
{
    char *in = in_entry(
        "mov.b32 r1, 1; { .reg .b64 r1; mov.b64 r1, 2; frob r1; bra L; L: }\nst.shared.v2.b32 [s+4], {r1, r2}; "
        "setp.eq.b32 p, r1, r2; @p call helper, (r3); brx.idx r1, T; T: .branchtargets A, B; A: B:");
    for (long n = 1;; n++) {
        struct ptx_module *m = NULL;
        struct dt_err e = {0};
        struct dt_str s = {0};
        dt_alloc_fail_after(n);
        int r = ptx_parse(in, strlen(in), &m, &e);
        if (r >= 0)
            r = ptx_print(m, &s);
        dt_alloc_fail_after(0);
        assert_true(r == 0 || r == DT_E_NOMEM);
        ptx_module_free(m);
        dt_str_done(&s);
        dt_err_done(&e);
        if (!r)
            break;
        assert_true(n < 10000);
    }
    free(in);
}

/* Text without what an entry does not need, line for line; what is left parses, and a further call finds nothing to
 * leave out. */
static void test_narrow(void **state)
{
    (void)state;
    static const char text[] =
        HEAD ".func pointed;\n"
             ".global .b64 table[1] = {pointed};\n"
             ".extern .func nowhere;\n"
             ".visible .entry other(.param .u64 x) // a comment\n{\n{ call.uni nowhere; }\nret;\n}\n"
             "/* } */ .func helper { ret; }\n"
             ".visible .entry k(.param .u64 x)\n{\ncall.uni helper;\nret;\n}\n"
             ".weak .entry last() { ret; }\n"
             ".func pointed { ret; }\n";
    struct ptx_module *m, *less;
    const char *entry[] = {"k", "k"}, *both[] = {"last", "other"}, *absent[] = {"k", "K"};
    char *out = NULL, *again = NULL;
    size_t len = 0;
    assert_int_equal(ptx_parse(text, strlen(text), &m, NULL), 0);
    assert_int_equal(ptx_narrow(m, text, strlen(text), entry, 2, &out, &len), 0);
    assert_string_equal(out, HEAD ".func pointed;\n"
                                  ".global .b64 table[1] = {pointed};\n"
                                  "\n"
                                  "\n\n\n\n\n"
                                  ".func helper { ret; }\n"
                                  ".visible .entry k(.param .u64 x)\n{\ncall.uni helper;\nret;\n}\n"
                                  "\n"
                                  ".func pointed { ret; }\n");
    assert_int_equal(len, strlen(out));
    assert_int_equal(ptx_parse(out, len, &less, NULL), 0);
    assert_int_equal(ptx_find_function(less, "k")->line, ptx_find_function(m, "k")->line);
    assert_int_equal(ptx_narrow(less, out, len, entry, 1, &again, &len), 1);
    assert_null(again);
    ptx_module_free(less);
    free(out);
    assert_int_equal(ptx_narrow(m, text, strlen(text), absent, 2, &again, &len), 1);
    assert_int_equal(ptx_narrow(m, text, strlen(text), NULL, 0, &again, &len), 1);
    assert_null(again);
    assert_int_equal(ptx_narrow(m, text, strlen(text), both, 2, &out, &len), 0);
    assert_null(strstr(out, "helper"));
    assert_non_null(strstr(out, "call.uni nowhere"));
    free(out);
    ptx_module_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical),    cmocka_unit_test(test_opaque), cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_source_lines), cmocka_unit_test(test_module), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_hostile),      cmocka_unit_test(test_narrow), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
