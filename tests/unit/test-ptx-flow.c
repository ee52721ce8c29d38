/* ptx/: verifier, builders, clone, control flow, dominators, liveness, canonical names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/str.h"
#include "ptx/flow.h"
#include "ptx/ptx.h"

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
#define REGS ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .f32 %f<9>; .reg .u32 %u<3>; "

static struct ptx_module *parse(const char *body)
{
    struct ptx_module *m;
    struct dt_err e = {0};
    char *s;
    if (asprintf(&s,
                 HEAD ".global .u32 g; .func (.param .b32 o) fn(.param .b32 i) { ret; }\n.entry k(.param .u64 x, "
                      ".param .u32 n) { "
                      "%s\n%s\n}",
                 REGS, body) < 0 ||
        ptx_parse(s, strlen(s), &m, &e) < 0)
        fail_msg("%s", e.detail);
    free(s);
    return m;
}

static void verdict(const char *body, const char *want)
{
    struct ptx_module *m = parse(body);
    struct dt_err e = {0};
    int r = ptx_verify(m, &e);
    if (want ? r != DT_E_PTX || !strstr(e.detail, want) : r != 0)
        fail_msg("%s: %s, wanted %s", body, r ? e.detail : "fine", want ? want : "fine");
    dt_err_done(&e);
    ptx_module_free(m);
}

static void test_verify(void **state)
{
    verdict("add.s32 %r1, %r2, 3; add.u32 %u1, %r1, %u2; add.f32 %f1, %f2, 0f3F800000; add.f32 %r1, %r1, %f1;", NULL);
    verdict("add.s32 %f1, %r2, 3;", "line 6, column 1: %f1 is .f32, which does not fit .s32");
    verdict("add.f32 %u1, %f2, %f3;", "%u1 is .u32, which does not fit .f32");
    verdict("add.s64 %d1, %r2, 3;", "%r2 is .b32, which does not fit .s64");
    verdict("mul.wide.s32 %d1, %r2, 3; mad.wide.u32 %d1, %r1, %r2, %d3;", NULL);
    verdict("mul.wide.s32 %r1, %r2, 3;", "%r1 is .b32");
    verdict("add.f32 %f1, %f2, 1;", "floating-point constant");
    verdict("add.u32 %u1, %u1, 0f00000000;", "integer constant");
    verdict("add.u32 %r1, %tid.x, 1;", "%tid may only be read by mov and cvt");
    verdict("mov.u32 %r1, %tid.x; cvt.u64.u32 %d1, %tid.x; mov.v4.u32 {%r1, %r2, %r3, _}, %tid;", NULL);
    verdict("mov.u32 %r1, %tid;", "wrong component");
    verdict("ld.param.u64 %d1, [x]; ld.param.u32 %r1, [x+4]; ld.global.u8 %h1, [%d1]; ld.global.u8 %r1, [%d1]; "
            "cvt.u8.u32 %h1, %r1;",
            NULL);
    verdict("ld.param.u64 %d1, [x+4];", "access leaves parameter x");
    verdict("ld.global.u32 %r1, [%r2];", "cannot hold an address");
    verdict("ld.shared.u32 %r1, [%r2]; ld.shared.v2.u32 {%r1, %r2}, [%r2]; ld.global.b32 {%r1}, [%d1];", NULL);
    verdict("ld.shared.v2.u32 {%r1, %r2, %r3}, [%r2];", "3 elements where 2 are wanted");
    verdict("ld.shared.u32 %r1, [g];", "g is .global");
    verdict("mov.b64 %d1, {%r1, %r2}; mov.b64 {%r1, _}, %d1; mov.b32 %r1, {%h1, %h2};", NULL);
    verdict("mov.b64 %d1, {%r1, %h1};", "does not have 4 bytes");
    verdict("selp.b32 %r1, 1, 2, %r3;", "no predicate");
    verdict("setp.lt.s32 %p1|%p2, %r1, %r2; @!%p1 add.s32 %r1, %r1, 1; vote.sync.ballot.b32 %r1, !%p1, -1; lop3.b32 "
            "%r1, %r1, %r2, %r3, 0x96;",
            NULL);
    verdict("@%r1 ret;", "guard is no predicate");
    verdict("bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p1, 0, 64, !%p2; bar.sync 0, 64;", NULL);
    verdict("bar.red.popc.u32 %r1, 0, %r2;", "no predicate");
    verdict("{ .param .b32 a; .param .b32 b; call (a), fn, (b); }", NULL);
    verdict("{ .param .b32 a; call (a), fn; }", "0 arguments where 1 are declared");
    verdict("{ .param .b64 a; .param .b32 b; call (b), fn, (a); }", "does not have the size");
    verdict("call k, (%r1, %r2);", "call of an entry");
    verdict("st.global.f32 [%d1], %f1; st.global.b32 [%d1], %f1; atom.global.add.f32 %f1, [%d1], 0f3F800000; "
            "atom.global.cas.b32 %r1, [%d1], 0, 1;",
            NULL);
    verdict("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d1, %d2, !%p1, 1, -1, 0, 1;",
            NULL);
    verdict("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d1, %r2, %p1, 1, 1, 0, 0;",
            "%r2 is .b32");
    verdict("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d1, %d2, %r1, 1, 1, 0, 0;",
            "no predicate");
    verdict("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d1, %d2, %p1, %r1, 1, 0, 0;",
            "no constant");
    verdict("anything.goes %r1, %f1;", NULL);
}

static void test_verify_built(void **state)
{
    struct ptx_module *m = parse("ret;");
    struct ptx_function *f = ptx_find_function(m, "k");
    struct dt_err e = {0};
    uint32_t r = ptx_reg_new(f, PTX_B32, "x"), l = ptx_label_new(f, "T");
    struct ptx_opnd o[3] = {{.kind = PTX_O_REG, .reg = r, .comp = -1},
                            {.kind = PTX_O_REG, .reg = r, .comp = -1},
                            {.kind = PTX_O_IMM, .imm_type = PTX_S64, .bits = 7}};
    struct ptx_inst *i = ptx_append(
        f,
        (struct ptx_inst){.op = PTX_OP_ADD, .nopnd = 3, .opnd = o, .pred = PTX_NO_REG, .ntype = 1, .type = {PTX_S32}});
    assert_int_equal(ptx_verify(m, &e), 0);
    i->opnd[1].reg = 999;
    assert_int_equal(ptx_verify(m, &e), DT_E_PTX);
    assert_non_null(strstr(e.detail, "k, instruction 1: register number out of range"));
    dt_err_done(&e);
    i->opnd[1].reg = r;
    i->type[0] = PTX_PRED;
    assert_int_equal(ptx_verify(m, &e), DT_E_PTX);
    dt_err_done(&e);
    i->type[0] = PTX_S32;
    struct ptx_opnd t = {.kind = PTX_O_LABEL, .label = l, .comp = -1};
    ptx_append(f, (struct ptx_inst){.op = PTX_OP_BRA, .nopnd = 1, .opnd = &t, .pred = PTX_NO_REG});
    assert_int_equal(ptx_verify(m, &e), DT_E_PTX);
    assert_non_null(strstr(e.detail, "label T is not defined"));
    dt_err_done(&e);
    ptx_append(f, (struct ptx_inst){.op = PTX_OP_LABEL, .nopnd = 1, .opnd = &t, .pred = PTX_NO_REG});
    assert_int_equal(ptx_verify(m, &e), 0);
    ptx_append(f, (struct ptx_inst){.op = PTX_OP_LABEL, .nopnd = 1, .opnd = &t, .pred = PTX_NO_REG});
    assert_int_equal(ptx_verify(m, &e), DT_E_PTX);
    dt_err_done(&e);
    ptx_module_free(m);
}

static void test_build(void **state)
{
    struct ptx_module *m = ptx_module_new(8, 0, "sm_80"), *c;
    struct ptx_function *f = ptx_function_new(m, "fill", true);
    struct dt_err e = {0};
    struct dt_str s = {0}, s2 = {0};
    assert_non_null(ptx_param_new(f, "out", PTX_U64, 8, 0));
    assert_non_null(ptx_var_new(m, NULL, "table", PTX_GLOBAL, PTX_U32, 16, 0));
    assert_non_null(ptx_var_new(m, f, "tile", PTX_SHARED, PTX_B8, 1024, 16));
    uint32_t a = ptx_reg_new(f, PTX_B32, "dt_r"), b = ptx_reg_new(f, PTX_B32, "dt_r");
    assert_string_equal(f->reg[a].name, "%dt_r");
    assert_string_equal(f->reg[b].name, "%dt_r_1");
    assert_int_equal(ptx_append_text(f, &e,
                                     ".reg .b64 %%p; .reg .pred %%q; ld.param.u64 %%p, [out]; mov.u32 %s, %%tid.x;",
                                     f->reg[a].name),
                     0);
    assert_int_equal(
        ptx_append_text(f, &e, "setp.gt.u32 %%q, %%dt_r, 7; @%%q bra DONE; LOOP: { .reg .b32 %%p; mov.b32 %%p, 1; }"),
        0);
    assert_int_equal(ptx_append_text(f, &e,
                                     "st.global.u32 [%%p], %s; ld.shared.u32 %s, [tile+4]; @!%%q bra LOOP; DONE: ret;",
                                     f->reg[a].name, f->reg[b].name),
                     0);
    uint32_t n = f->ninst;
    assert_int_equal(ptx_append_text(f, &e, "mov.b32 %%dt_r, 1; mov.b32 %%nope, 1;"), DT_E_PTX);
    assert_non_null(strstr(e.detail, "%nope is not declared"));
    dt_err_done(&e);
    assert_int_equal(f->ninst, n);
    uint32_t l = ptx_label_new(f, "DONE");
    assert_string_equal(f->label[l].name, "DONE_1");
    if (ptx_verify(m, &e))
        fail_msg("%s", e.detail);
    assert_int_equal(ptx_print(m, &s), 0);
    assert_int_equal(ptx_clone(m, "fill", &c, &e), 0);
    assert_int_equal(c->nvar, 0); /* table is not used */
    ptx_module_free(c);
    assert_int_equal(ptx_clone(m, "nobody", &c, &e), DT_E_NO_ENTRY);
    dt_err_done(&e);
    assert_int_equal(ptx_clone(m, NULL, &c, &e), 0);
    assert_int_equal(ptx_print(c, &s2), 0);
    assert_string_equal(s.s, s2.s);
    dt_str_done(&s);
    dt_str_done(&s2);
    ptx_module_free(c);
    ptx_module_free(m);
}

static struct ptx_module *parsed(const char *text)
{
    struct ptx_module *m = NULL;
    struct dt_err e = {0};
    if (ptx_parse(text, strlen(text), &m, &e) < 0)
        fail_msg("%s", e.detail);
    return m;
}

static char *printed(const struct ptx_module *m)
{
    struct dt_str s = {0};
    assert_int_equal(ptx_print(m, &s), 0);
    return dt_str_take(&s);
}

/* A copy has its registers under the numbers that they have in its source: declared in no order, or never used. */
static void test_numbers(void **state)
{
    static const char text[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n.func (.reg .u32 r) f(.reg .u32 v)\n{\n.reg .b32 z, y;\n"
        "add.u32 y, v, 1; add.u32 r, y, 1; ret;\n}\n"
        ".visible .entry k(.param .u64 out)\n{\n.reg .b64 to, spare, at;\n.reg .b32 r<9>, w, a, n;\n"
        "ld.param.u64 to, [out]; mov.u32 w, 3; mov.u32 r7, w; mov.u32 r2, r7; add.u32 a, r2, w;\n"
        "{ .reg .b32 w, q; mov.u32 w, a; add.u64 at, to, 4; st.global.u32 [at], w; } st.global.v2.u32 [to], {w, a};\n"
        "call (a), f, (w); st.global.u32 [to+8], a; ret;\n}\n";
    struct ptx_module *m = parsed(text), *c = NULL;
    struct dt_err e = {0};
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        assert_int_equal(ptx_clone(m, whole ? NULL : "k", &c, &e), 0);
        assert_int_equal(c->nfunc, m->nfunc);
        for (uint32_t n = 0; n < m->nfunc; n++) {
            const struct ptx_function *f = m->func[n], *g = c->func[n];
            assert_int_equal(g->nreg, f->nreg);
            for (uint32_t k = 0; k < f->nreg; k++) {
                assert_string_equal(g->reg[k].name, f->reg[k].name);
                assert_int_equal(g->reg[k].type, f->reg[k].type);
            }
        }
        char *one = printed(m), *two = printed(c);
        assert_string_equal(one, two);
        free(one);
        free(two);
        ptx_module_free(c);
    }
    ptx_module_free(m);
}

/* An instruction says which line of which posted text it is, through copies into other modules and through text,
 * twice. */
static void test_origins(void **state)
{
    static const char head[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
    (void)state;
    char text[2][600];
    for (int k = 0; k < 2; k++)
        snprintf(text[k], sizeof text[k],
                 "%s%s.visible .entry k()\n{\n.reg .b32 %%r<3>;\n%smov.b32 %%r1, %d;\nL:\nadd.s32 %%r2, %%r1, 1; "
                 "ret;\n}\n.file 1 \"mine.cu\"\n",
                 head, k ? "\n" : "", k ? "" : ".loc 1 99 0\n", k);
    struct ptx_module *a = parsed(text[0]), *b = parsed(text[1]), *c = NULL, *again;
    struct dt_err e = {0};
    assert_false(ptx_origin_read(a));
    ptx_origin_text(a, 0xabc);
    ptx_origin_text(b, UINT64_C(0x123456789abc));
    assert_int_equal(ptx_clone(a, "k", &c, &e), 0);
    struct ptx_function *f = c->func[0];
    f->ninst--; /* ret */
    assert_int_equal(ptx_append_text(f, &e, "mov.b32 %%r2, 7;"), 0);
    assert_non_null(ptx_append(f, b->func[0]->inst[0]));
    assert_non_null(ptx_append(f, b->func[0]->inst[2]));
    assert_non_null(ptx_append(f, a->func[0]->inst[3]));
    char *plain = printed(c);
    assert_null(strstr(plain, ".loc"));
    assert_null(strstr(plain, ".file"));
    c->origins = true;
    char *said = printed(c);
    static const char want[] =
        ".address_size 64\n.file 1 \"dovetail\"\n.file 2 \"posted-000000000abc\"\n.file 3 \"posted-123456789abc\"\n\n\n"
        ".visible .entry k()\n{\n\t.reg .b32 %r<3>;\n\t.loc 2 8 0\n\tmov.b32 %r1, 0;\nL:\n\t.loc 2 10 0\n\tadd.s32 "
        "%r2, %r1, 1;\n"
        "\t.loc 1 1 0\n\tmov.b32 %r2, 7;\n\t.loc 3 8 0\n\tmov.b32 %r1, 1;\n\t.loc 3 10 0\n\tadd.s32 %r2, %r1, "
        "1;\n\t.loc 2 10 0\n\tret;\n}\n";
    assert_string_equal(strstr(said, ".address"), want);
    again = parsed(said);
    assert_true(ptx_origin_read(again));
    for (uint32_t k = 0; k < f->ninst; k++) {
        const struct ptx_inst *x = &again->func[0]->inst[k], *y = &f->inst[k];
        assert_int_equal(x->op == PTX_OP_LABEL ? y->from_line : x->from_line, y->from_line);
        assert_true(x->op == PTX_OP_LABEL || x->from == y->from);
    }
    struct ptx_source at;
    assert_false(ptx_source_of(again->func[0], &again->func[0]->inst[3], &at)); /* no line of anybody */
    again->origins = true;
    char *twice = printed(again);
    assert_string_equal(twice, said);
    free(plain);
    free(said);
    free(twice);
    ptx_module_free(a);
    ptx_module_free(b);
    ptx_module_free(c);
    ptx_module_free(again);
}

static char *canonical(const char *text)
{
    struct ptx_module *m;
    struct dt_err e = {0};
    struct dt_str s = {0};
    if (ptx_parse(text, strlen(text), &m, &e) < 0)
        fail_msg("%s", e.detail);
    assert_int_equal(ptx_print_canonical(m->func[m->nfunc - 1], &s), 0);
    ptx_module_free(m);
    return dt_str_take(&s);
}

static void test_canonical(void **state)
{
    char *
        a = canonical(HEAD ".global .u32 unused; .global .u32 count = 7; .func (.param .b32 o) fn(.param .b32 i) { "
                           ".reg .b32 t; ld.param.b32 t, [i]; ret; }\n"
                           ".entry first(.param .u64 first_param_0) { .reg .b32 %a<9>; .shared .b8 tile[16]; mov.b32 "
                           "%a5, 1; bra X; X: frob %a5; "
                           "{ .param .b32 q; .param .b32 z; call (q), fn, (z); } st.shared.b32 [tile], %a5; "
                           "ld.global.u32 %a2, [count]; }"),
       *b = canonical(
           HEAD
           ".global .u32 total = 7; .func (.param .b32 p) other(.param .b32 pp) { .reg .b32 %r9; ld.param.b32 %r9, "
           "[pp]; ret; }\n"
           ".visible .entry second(.param .u64 x) { .reg .b32 v, w; .shared .b8 unused[4]; .shared .b8 s[16]; mov.b32 "
           "w, 1; bra Y; Y: frob w; "
           "{ .param .b32 q; .param .b32 z; call (q), other, (z); } st.shared.b32 [s], w; ld.global.u32 v, [total]; }"),
       *d = canonical(
           HEAD
           ".global .u32 total = 8; .func (.param .b32 p) other(.param .b32 pp) { .reg .b32 %r9; ld.param.b32 %r9, "
           "[pp]; ret; }\n"
           ".visible .entry second(.param .u64 x) { .reg .b32 v, w; .shared .b8 s[16]; mov.b32 w, 1; bra Y; Y: frob w; "
           "{ .param .b32 q; .param .b32 z; call (q), other, (z); } st.shared.b32 [s], w; ld.global.u32 v, [total]; }");
    assert_string_equal(a, b);
    assert_string_not_equal(a, d);
    free(a);
    free(b);
    free(d);
}

static void test_cfg(void **state)
{
    struct ptx_module *m = parse("mov.b32 %r1, 0;\n" /* 0 */
                                 "@%p1 bra ELSE;\n"
                                 "add.s32 %r1, %r1, 1; bra JOIN;\n"          /* 1 */
                                 "ELSE: add.s32 %r1, %r1, 2;\n"              /* 2 */
                                 "JOIN: LOOP: @%p2 bra LOOP;\n"              /* 3 */
                                 "brx.idx %r1, T; T: .branchtargets A, B;\n" /* 4, 5: the list, unreachable */
                                 "A: ret;\n"                                 /* 6 */
                                 "B: @%p3 exit;\n"                           /* 7 */
                                 "SPIN: bra SPIN;\n"                         /* 8 */
                                 "DEAD: ret;");                              /* 9 */
    struct ptx_function *f = ptx_find_function(m, "k");
    struct ptx_cfg c;
    struct dt_err e = {0};
    assert_int_equal(ptx_cfg_build(f, &c, &e), 0);
    assert_int_equal(c.nblock, 10);
    const struct ptx_block *b = c.block;
    assert_int_equal(b[0].nsucc, 2);
    assert_int_equal(b[0].idom, UINT32_MAX);
    assert_int_equal(b[3].idom, 0);
    assert_int_equal(b[3].npred, 3);
    assert_int_equal(b[0].ipdom, 3);
    assert_int_equal(b[1].ipdom, 3);
    assert_int_equal(b[4].idom, 3);
    assert_int_equal(b[4].nsucc, 2);
    assert_int_equal(b[6].idom, 4);
    assert_int_equal(b[7].idom, 4);
    assert_int_equal(b[8].idom, 7);
    assert_int_equal(b[8].ipdom, UINT32_MAX);
    assert_int_equal(b[6].ipdom, UINT32_MAX);
    assert_true(b[8].reachable);
    assert_false(b[5].reachable);
    assert_false(b[9].reachable);
    ptx_cfg_done(&c);
    ptx_module_free(m);
}

/* What one step along edges from a comes to, and so on, without `stop`. */
static void reach_by_steps(const struct ptx_cfg *c, uint32_t a, uint32_t stop, bool *in)
{
    bool more = a != stop;
    in[a] |= a != stop;
    while (more) {
        more = false;
        for (uint32_t b = 0; b < c->nblock; b++)
            for (uint32_t k = 0; in[b] && k < c->block[b].nsucc; k++) {
                uint32_t to = c->block[b].succ[k];
                more |= to != stop && !in[to];
                in[to] |= to != stop;
            }
    }
}

/* Dominators of random graphs against the definition: a dominates b if b cannot be reached without a. */
static void test_dominators(void **state)
{
    enum { N = 24 };
    uint64_t seed = 12345;
    for (int round = 0; round < 200; round++) {
        struct dt_str s = {0};
        uint32_t at = 0;
        for (int k = 0; k < N; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            unsigned x = (unsigned)(seed >> 33);
            dt_str_addf(&s, "L%d: ", k);
            if (x % 7 == 0)
                dt_str_add(&s, x % 2 ? "ret;\n" : "@%p1 ret;\n");
            else
                dt_str_addf(&s, "%sbra L%u;\n", x % 3 ? "@%p1 " : "", (x >> 8) % N);
        }
        dt_str_add(&s, "ret;");
        struct ptx_module *m = parse(s.s);
        struct ptx_cfg c;
        struct dt_err e = {0};
        assert_int_equal(ptx_cfg_build(ptx_find_function(m, "k"), &c, &e), 0);
        for (uint32_t without = 0; without < c.nblock; without++) {
            uint32_t stack[64], top = 0;
            bool seen[64] = {0};
            if (without) {
                stack[top++] = 0;
                seen[0] = true;
            }
            while (top) {
                const struct ptx_block *b = &c.block[stack[--top]];
                for (uint32_t j = 0; j < b->nsucc; j++)
                    if (b->succ[j] != without && !seen[b->succ[j]]) {
                        seen[b->succ[j]] = true;
                        stack[top++] = b->succ[j];
                    }
            }
            for (uint32_t v = 0; v < c.nblock; v++) {
                if (!c.block[v].reachable || v == without || !c.block[without].reachable)
                    continue;
                bool dominated = !seen[v], chain = false;
                for (at = c.block[v].idom; at != UINT32_MAX; at = c.block[at].idom)
                    chain |= at == without;
                assert_int_equal(ptx_dominates(&c, without, v), dominated);
                if (dominated != chain)
                    fail_msg("round %d: %u dominates %u: %d, chain says %d\n%s", round, without, v, dominated, chain,
                             s.s);
            }
        }
        for (uint32_t from = 0; from < c.nblock; from++) {
            bool steps[64] = {0}, mark[64] = {0};
            uint32_t stack[64], stop = (from * 7 + (uint32_t)round) % c.nblock;
            reach_by_steps(&c, from, stop, steps);
            ptx_mark_reached(&c, from, stop, mark, stack);
            assert_memory_equal(mark, steps, sizeof mark);
        }
        ptx_cfg_done(&c);
        ptx_module_free(m);
        dt_str_done(&s);
    }
}

/* Loops, regions, common dominators: a loop in a loop, and a branch with two sides behind it. */
static void test_questions(void **state)
{
    struct ptx_module *m = parse("mov.b32 %r1, 0;\n"               /* 0 */
                                 "OUT: add.s32 %r1, %r1, 1;\n"     /* 1 */
                                 "IN: @%p1 bra IN;\n"              /* 2 */
                                 "@%p2 bra OUT;\n"                 /* 3 */
                                 "@%p3 bra ELSE;\n"                /* 4 */
                                 "mov.b32 %r2, 1; bra.uni MEET;\n" /* 5 */
                                 "ELSE: mov.b32 %r2, 2;\n"         /* 6 */
                                 "MEET: ret;\n"                    /* 7 */
                                 "DEAD: bra IN;");                 /* 8 */
    struct ptx_cfg c;
    assert_int_equal(ptx_cfg_build(ptx_find_function(m, "k"), &c, NULL), 0);
    assert_int_equal(c.nblock, 9);
    bool mark[9] = {0}, cycle[9] = {0, 1, 1, 1, 0, 0, 0, 0, 0};
    uint32_t stack[9];
    ptx_mark_loop(&c, 1, 3, mark, stack);
    assert_memory_equal(mark, ((bool[9]){0, 1, 1, 1}), 9); /* no DEAD */
    memset(mark, 0, sizeof mark);
    ptx_mark_loop(&c, 2, 2, mark, stack);
    assert_memory_equal(mark, ((bool[9]){0, 0, 1}), 9);
    memset(mark, 0, sizeof mark);
    ptx_mark_region(&c, 4, mark, stack);
    assert_memory_equal(mark, ((bool[9]){0, 0, 0, 0, 0, 1, 1}), 9);
    memset(mark, 0, sizeof mark);
    ptx_mark_reaching(&c, 3, 1, mark, stack);
    assert_memory_equal(mark, ((bool[9]){0, 0, 1, 1, 0, 0, 0, 0, 1}), 9);
    for (uint32_t b = 0; b < 9; b++)
        assert_int_equal(ptx_in_cycle(&c, b, mark, stack), cycle[b]);
    assert_int_equal(ptx_common_dominator(&c, 5, 6), 4);
    assert_int_equal(ptx_common_dominator(&c, 7, 2), 2);
    assert_int_equal(ptx_common_dominator(&c, 3, 3), 3);
    uint32_t first = c.block[5].first;
    assert_true(ptx_inst_dominates(&c, first, first + 1));
    assert_false(ptx_inst_dominates(&c, first, first));
    assert_false(ptx_inst_dominates(&c, first + 1, first));
    assert_false(ptx_inst_dominates(&c, first, c.block[7].first));
    assert_true(ptx_inst_dominates(&c, 0, first));
    ptx_cfg_done(&c);
    ptx_module_free(m);
}

static bool live(const struct ptx_function *f, uint64_t *set, const char *name)
{
    for (uint32_t r = 0; r < f->nreg; r++)
        if (!strcmp(f->reg[r].name, name))
            return set[r / 64] >> (r % 64) & 1;
    fail_msg("no register %s", name);
    return false;
}

static void test_live(void **state)
{
    struct ptx_module *m = parse("mov.b32 %r1, 0; mov.b64 %d1, 0; mov.b32 %r2, 5; @%p1 mov.b32 %r3, 1;\n"
                                 "LOOP: add.s32 %r1, %r1, %r2; setp.lt.s32 %p2, %r1, 9; @%p2 bra LOOP;\n"
                                 "st.global.u32 [%d1], %r1; st.global.u32 [%d1+4], %r3; ret;");
    struct ptx_function *f = ptx_find_function(m, "k");
    struct ptx_cfg c;
    struct ptx_live l;
    struct dt_err e = {0};
    assert_int_equal(ptx_cfg_build(f, &c, &e), 0);
    assert_int_equal(ptx_live_build(f, &c, &l, &e), 0);
    assert_int_equal(c.nblock, 3);
    assert_true(live(f, l.in[0], "%p1"));
    assert_true(live(f, l.in[0], "%r3")); /* a predicated write does not define it */
    assert_false(live(f, l.in[0], "%r1"));
    assert_true(live(f, l.in[1], "%r1"));
    assert_true(live(f, l.in[1], "%r2"));
    assert_true(live(f, l.out[1], "%d1"));
    assert_false(live(f, l.in[2], "%r2"));
    assert_false(live(f, l.in[1], "%p2"));
    assert_int_equal(l.max_pressure_bytes, 4 + 4 + 4 + 8);
    ptx_live_done(&l);
    ptx_cfg_done(&c);
    ptx_module_free(m);

    /* wgmma's accumulators are read and written, like its A; mma's D is only written */
    m = parse("mov.b64 %d1, 0; mov.b64 %d2, 0; setp.eq.s32 %p1, %r9, 0; bra NEXT;\n"
              "NEXT: wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d1, %d2, %p1, 1, 1, 0, 0;"
              "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r1, %r2}, {%r3, %r4, %r5, %r6}, %d2, 0, 1, 1, 0;"
              "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f5, %f6, %f7, %f8}, {%r3, %r4}, {%r7}, {%f1, %f2, "
              "%f3, %f4}; ret;");
    f = ptx_find_function(m, "k");
    assert_int_equal(ptx_cfg_build(f, &c, &e), 0);
    assert_int_equal(ptx_live_build(f, &c, &l, &e), 0);
    for (const char *const *n =
             (const char *const[]){"%f1", "%f4", "%r1", "%r2", "%r3", "%r6", "%d1", "%d2", "%p1", "%r7", NULL};
         *n; n++)
        assert_true(live(f, l.in[1], *n));
    assert_false(live(f, l.in[1], "%f5"));
    assert_false(live(f, l.in[0], "%d1"));
    ptx_live_done(&l);
    ptx_cfg_done(&c);
    ptx_module_free(m);
}

/* The whole path under failing memory: verify, clone, build, flow. */
static void test_memory(void **state)
{
    struct ptx_module *m = parse(
        "mov.b32 %r1, 0; LOOP: @%p1 bra LOOP; frob %r1; { .param .b32 a; .param .b32 b; call (a), fn, (b); } ret;");
    for (long n = 1;; n++) {
        struct ptx_module *c = NULL;
        struct ptx_cfg cfg = {0};
        struct ptx_live l = {0};
        struct dt_err e = {0};
        struct dt_str s = {0};
        dt_alloc_fail_after(n);
        int r = ptx_verify(m, &e);
        if (r >= 0)
            r = ptx_clone(m, "k", &c, &e);
        if (r >= 0)
            r = ptx_append_text(c->func[c->nfunc - 1], &e, ".reg .b32 %%z; mov.b32 %%z, %%r1; L2: bra L2;");
        if (r >= 0)
            r = ptx_print_canonical(c->func[c->nfunc - 1], &s);
        if (r >= 0)
            r = ptx_cfg_build(c->func[c->nfunc - 1], &cfg, &e);
        if (r >= 0)
            r = ptx_live_build(c->func[c->nfunc - 1], &cfg, &l, &e);
        dt_alloc_fail_after(0);
        assert_true(r == 0 || r == DT_E_NOMEM);
        ptx_live_done(&l);
        ptx_cfg_done(&cfg);
        ptx_module_free(c);
        dt_str_done(&s);
        dt_err_done(&e);
        if (!r)
            break;
        assert_true(n < 10000);
    }
    ptx_module_free(m);
}

/* Registers that hold one thing after the other. `want`: the instructions, as they are printed, in a row. */
static void split(const char *body, const char *want)
{
    struct ptx_module *m = parse(body);
    struct ptx_function *f = m->func[1];
    struct dt_err e = {0};
    struct dt_str s = {0};
    uint32_t nreg = f->nreg;
    assert_int_equal(ptx_split_registers(m, &e), 0);
    assert_int_equal(ptx_verify(m, &e), 0);
    for (uint32_t k = 0; k < f->ninst; k++)
        ptx_print_inst(f, &f->inst[k], &s);
    for (char *c = s.s; *c; c++)
        *c = *c == '\n' || *c == '\t' ? ' ' : *c;
    const char *at = s.s;
    char *words = strdup(want), *more = NULL;
    for (char *w = strtok_r(words, " ", &more); w; w = strtok_r(NULL, " ", &more)) {
        while (*at == ' ')
            at++;
        if (strncmp(at, w, strlen(w)) != 0)
            fail_msg("%s: %s, wanted %s", body, s.s, want);
        at += strlen(w);
    }
    free(words);
    dt_str_done(&s);
    assert_true(f->nreg >= nreg);
    nreg = f->nreg;
    assert_int_equal(ptx_split_registers(m, &e), 0); /* there is nothing left to do */
    assert_int_equal(f->nreg, nreg);
    ptx_module_free(m);
}

static void test_split(void **state)
{
    /* an index, and the address that it becomes */
    split("cvt.s64.s32 %d1, %r1; mad.lo.s64 %d1, %d1, 4, %d2; ld.global.f32 %f1, [%d1]; ret;",
          "cvt.s64.s32 %d1, %r1; mad.lo.s64 %d1$1, %d1, 4, %d2; ld.global.f32 %f1, [%d1$1]; ret;");
    /* a write that some lanes do not do leaves what was there; the third is another web */
    split("mov.u32 %r1, 1; @%p1 mov.u32 %r1, 2; add.u32 %r2, %r1, 1; mov.u32 %r1, 3; add.u32 %r2, %r2, %r1; ret;",
          "mov.u32 %r1, 1; @%p1 mov.u32 %r1, 2; add.u32 %r2, %r1, 1; mov.u32 %r1$1, 3; add.u32 %r2$1, %r2, %r1$1; "
          "ret;");
    /* two ways to one use */
    split("@%p1 bra A; mov.u32 %r1, 1; bra B; A: mov.u32 %r1, 2; B: add.u32 %r2, %r1, 1; mov.u32 %r1, %r2; "
          "st.global.u32 [%d1], %r1; ret;",
          "@%p1 bra A; mov.u32 %r1, 1; bra B; A: mov.u32 %r1, 2; B: add.u32 %r2, %r1, 1; mov.u32 %r1$1, %r2; "
          "st.global.u32 [%d1], %r1$1; ret;");
    /* what a loop carries is one; what each round makes anew is not what was there before */
    split("mov.u32 %r1, 0; mov.u32 %r2, 7; add.u32 %r3, %r2, 1; L: add.u32 %r1, %r1, 1; mov.u32 %r2, %r1; "
          "setp.lt.u32 %p1, %r2, %r3; @%p1 bra L; ret;",
          "mov.u32 %r1, 0; mov.u32 %r2, 7; add.u32 %r3, %r2, 1; L: add.u32 %r1, %r1, 1; mov.u32 %r2$1, %r1; "
          "setp.lt.u32 %p1, %r2$1, %r3; @%p1 bra L; ret;");
    /* one write, of which there is nothing to tell apart; guards, vectors, addresses, calls */
    split("setp.eq.u32 %p1, %r1, 0; @%p1 mov.u32 %r2, 1; mov.u32 %r1, 2; setp.eq.u32 %p1, %r1, 0; @!%p1 bra A; A: ret;",
          "setp.eq.u32 %p1, %r1, 0; @%p1 mov.u32 %r2, 1; mov.u32 %r1, 2; setp.eq.u32 %p1$1, %r1, 0; @!%p1$1 bra A; "
          "A: ret;");
    split("ld.global.v2.u32 {%r1, %r2}, [%d1]; st.global.v2.u32 [%d1], {%r2, %r1}; ld.global.v2.u32 {%r1, %r2}, [%d1]; "
          "call (%r1), fn, (%r2); st.global.u32 [%d1], %r1; ret;",
          "ld.global.v2.u32 {%r1, %r2}, [%d1]; st.global.v2.u32 [%d1], {%r2, %r1}; ld.global.v2.u32 {%r1$1, %r2$1}, "
          "[%d1]; call (%r1$2), fn, (%r2$1); st.global.u32 [%d1], %r1$2; ret;");
    /* a statement that is not understood may do anything with what it names */
    split("mov.u32 %r1, 1; mov.u32 %r2, %r1; mov.u32 %r1, 2; frobnicate.u32 %r1; ret;",
          "mov.u32 %r1, 1; mov.u32 %r2, %r1; mov.u32 %r1, 2; frobnicate.u32 %r1; ret;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify),    cmocka_unit_test(test_verify_built), cmocka_unit_test(test_build),
        cmocka_unit_test(test_canonical), cmocka_unit_test(test_numbers),      cmocka_unit_test(test_origins),
        cmocka_unit_test(test_cfg),       cmocka_unit_test(test_dominators),   cmocka_unit_test(test_questions),
        cmocka_unit_test(test_live),      cmocka_unit_test(test_memory),       cmocka_unit_test(test_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
