/* Calls written out (rewrite/normal/calls.c, callee.c): what each row of legal.def refuses, and whole plannings of
 * kernels with functions of every kind, forced, whose plans must leave the same bytes; that a value which may meet
 * floating point is hidden and an address is not; that machine code is compared.
 */
#include "rewrite-device.h"

#include "base/subject.h"
#include "rewrite/facts/hooks.h"

#define REGS ".reg .pred %p<4>; .reg .b16 %h<5>; .reg .b32 %r<12>; .reg .b64 %a<12>; .reg .f32 %f<9>;\n"
#define FUNC(name, params, body) ".func (.param .b32 r) " name "(" params ")\n{\n" REGS body " ret;\n}\n"
#define V ".param .b32 v"
#define CALL(name, to, from)                                                                                           \
    "{ .param .b32 q; .param .b32 w; st.param.f32 [q], " from "; call.uni (w), " name ", (q); ld.param.f32 " to        \
    ", [w]; }\n"
#define ENTRY(body)                                                                                                    \
    ".visible .entry k(.param .u64 x, .param .u64 y)\n{\n" REGS                                                        \
    "ld.param.u64 %a1, [x]; ld.param.u64 %a2, [y];\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; "                      \
    "mad.lo.u32 %r3, %r1, 128, %r2; mul.wide.u32 %a3, %r3, 4; add.u64 %a4, %a1, %a3; add.u64 %a5, %a2, %a3;\n"         \
    "ld.global.f32 %f1, [%a4];\n" body "st.global.f32 [%a5], %f2; ret;\n}\n"
#define HALF FUNC("half", V, "ld.param.f32 %f1, [v]; mul.rn.f32 %f2, %f1, 0f3F000000; st.param.f32 [r], %f2;")
#define MEETS FUNC("meets", V, "ld.param.f32 %f1, [v]; bar.sync 0; st.param.f32 [r], %f1;")
#define NEG FUNC("minus", V, "ld.param.f32 %f1, [v]; neg.f32 %f2, %f1; st.param.f32 [r], %f2;")

struct made {
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
};

/* x → p by k of the text, p → y by `then`, an entry of it. */
static void make(const char *text, const char *then, struct made *m)
{
    struct dt_str s = {0};
    dt_str_add(&s, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \".version 8.0\\n.target sm_90\\n"
                   ".address_size 64\\n");
    for (const char *t = text; *t; t++)
        dt_str_addf(&s, *t == '\n' ? "\\n" : "%c", *t);
    dt_str_add(&s, "\"}}, \"buffers\": {");
    for (int k = 0; k < 3; k++)
        dt_str_addf(&s,
                    "%s\"%c\": {\"bytes\": 2048, \"role\": \"%s\", \"fill\": {\"uniform\": [-4, 4], \"dtype\": "
                    "\"f32\", \"seed\": %d}}",
                    k ? ", " : "", "xpy"[k],
                    k == 0   ? "input"
                    : k == 1 ? "intermediate"
                             : "output",
                    k);
    dt_str_addf(
        &s,
        "}, \"launches\": [{\"name\": \"a\", \"module\": \"m\", \"entry\": \"k\", \"grid\": [4,1,1], \"block\": "
        "[128,1,1], \"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"p\"}]}, {\"name\": \"b\", \"module\": \"m\", "
        "\"entry\": \"%s\", \"grid\": [4,1,1], \"block\": [128,1,1], \"args\": [{\"buffer\": \"p\"}, "
        "{\"buffer\": \"y\"}]}]}",
        then);
    document_end(&s, &m->g, &m->p, &m->a);
}

static void unmake(struct made *m)
{
    ana_free(m->a);
    dev_prog_free(m->p);
    dt_graph_free(m->g);
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

/* clang-format off */
static const struct {
    const char *row, *text;
} refused[] = {
    {"callees", ".extern .func (.param .b32 r) away(.param .b32 v);\n" ENTRY("mov.f32 %f2, %f1; setp.gt.f32 %p1, %f1, "
        "0f41200000; { .param .b32 q; .param .b32 w; st.param.f32 [q], %f1; @%p1 call (w), away, (q); }\n")},
    {"callees", FUNC("back", V, "ld.param.f32 %f1, [v]; setp.lt.f32 %p1, %f1, 0f00000000; mov.f32 %f2, %f1;\n"
        "@%p1 bra L; sub.rn.f32 %f3, %f1, 0f3F800000;" CALL("back", "%f2", "%f3") "L: st.param.f32 [r], %f2;")
        ENTRY(CALL("back", "%f2", "%f1"))},
    {"callees", HALF ENTRY("mov.u64 %a6, half;" CALL("half", "%f2", "%f1"))},
    {"lanes-alone", FUNC("lanes", V, "ld.param.f32 %f1, [v]; mov.b32 %r1, %f1; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;"
        "mov.b32 %f2, %r2; st.param.f32 [r], %f2;")
        ENTRY(CALL("lanes", "%f3", "%f1") CALL("lanes", "%f2", "%f3"))},
    {"lanes-alone", MEETS ENTRY("setp.lt.u32 %p1, %r2, 64; @%p1 bra L;" CALL("meets", "%f2", "%f1")
        "bra E;\nL:" CALL("meets", "%f2", "%f1") "E: ")},
    /* by way of another one, and where blocks may take both ways */
    {"lanes-alone", MEETS FUNC("on", V, "ld.param.f32 %f1, [v];" CALL("meets", "%f2", "%f1") "st.param.f32 [r], %f2;")
        ENTRY("mov.f32 %f2, %f1; setp.lt.u32 %p1, %r1, 2; @%p1 bra L;" CALL("meets", "%f2", "%f1")
        "L: setp.gt.u32 %p1, %r1, 2; @%p1 bra E;" CALL("on", "%f2", "%f2") "E: ")},
    {"byte-views", FUNC("parts", V, "ld.param.u16 %h1, [v]; ld.param.u16 %h2, [v+2]; mov.b32 %f1, {%h2, %h1};"
        "st.param.f32 [r], %f1;") ENTRY(CALL("parts", "%f2", "%f1"))},
    {"byte-views", FUNC("place", V, "mov.b64 %a1, v; ld.param.f32 %f1, [%a1]; st.param.f32 [r], %f1;")
        ENTRY(CALL("place", "%f2", "%f1"))},
    {"byte-views", HALF ENTRY("{ .param .b32 q; st.param.f32 [q], %f1; call.uni (q), half, (q); ld.param.f32 %f2, "
        "[q]; }\n")},
    {"calls-apart", HALF ENTRY("mul.f32 %f3, %f1, %f1;" CALL("half", "%f2", "%f3"))},
    {"calls-apart", HALF ENTRY(CALL("half", "%f3", "%f1") "add.f32 %f2, %f3, %f1;")},
    {"calls-apart", HALF ENTRY("mov.f32 %f3, 0f3F000000;" CALL("half", "%f4", "%f3") "min.f32 %f2, %f4, %f1;")},
    /* by way of a selection, bits and a function that hands it on */
    {"calls-apart", HALF FUNC("on", V, "ld.param.f32 %f1, [v];" CALL("half", "%f2", "%f1") "st.param.f32 [r], %f2;")
        ENTRY("neg.f32 %f3, %f1; mov.b32 %r4, %f3; xor.b32 %r5, %r4, %r3; mov.b32 %f4, %r5; setp.gt.u32 %p1, %r3, 9;"
        "selp.f32 %f5, %f4, %f1, %p1;" CALL("on", "%f2", "%f5"))},
    {"calls-apart", FUNC("look", ".param .b64 v", "ld.param.u64 %a1, [v]; ld.f32 %f1, [%a1]; st.param.f32 [r], %f1;")
        ENTRY(".local .align 4 .b8 d[8]; mov.u64 %a6, d; cvta.local.u64 %a7, %a6; st.local.f32 [%a6], %f1;\n"
        "{ .param .b64 q; .param .b32 w; st.param.b64 [q], %a7; call.uni (w), look, (q); ld.param.f32 %f2, [w]; }\n")},
    {"own-tables", ".global .align 4 .b8 count[4];\n" HALF ENTRY("mov.u64 %a6, count; red.global.add.u32 [%a6], 0;"
        CALL("half", "%f2", "%f1"))},
};
/* clang-format on */

static void test_refused(void **state)
{
    for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
        struct dt_err e = {0};
        struct dt_graph *g;
        struct dev_prog *p;
        struct rw_calls c;
        struct dt_str s = {0};
        char want[64];
        dt_str_add(&s, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \".version 8.0\\n.target sm_90\\n"
                       ".address_size 64\\n");
        for (const char *t = refused[k].text; *t; t++)
            dt_str_addf(&s, *t == '\n' ? "\\n" : "%c", *t);
        dt_str_add(&s, "\"}}, \"buffers\": {\"x\": {\"bytes\": 2048, \"role\": \"input\"}, \"y\": {\"bytes\": 2048, "
                       "\"role\": \"output\"}, \"m::count\": {\"bytes\": 4, \"role\": \"inout\"}}, \"launches\": "
                       "[{\"module\": \"m\", \"entry\": \"k\", \"grid\": [4,1,1], \"block\": [128,1,1], \"args\": "
                       "[{\"buffer\": \"x\"}, {\"buffer\": \"y\"}]}]}");
        if (!strstr(refused[k].text, "count")) { /* the buffer is a variable that is not there */
            char *at = strstr(s.s, ", \"m::count\""), *end = strstr(at, "}}");
            memmove(at, end + 1, strlen(end + 1) + 1);
            s.len = strlen(s.s);
        }
        must(dt_graph_parse(s.s, s.len, &g, &e), &e);
        int r = dev_prog_new(dev, g, NULL, NULL, &p, &e);
        if (r < 0 && !k) { /* an assembler that wants to link what is away */
            dt_err_done(&e);
            dt_graph_free(g);
            dt_str_done(&s);
            continue;
        }
        must(r, &e);
        must(rw_calls_find(p, &c, &e), &e);
        assert_int_equal(c.v.n, 1);
        assert_int_equal(rw_calls_number(&c), 0);
        snprintf(want, sizeof want, DT_ROW("%s") ":", refused[k].row);
        if (strncmp(c.v.p[0].why.s, want, strlen(want)) != 0)
            fail_msg("case %zu: %s, not %s", k, c.v.p[0].why.s, want);
        rw_calls_done(&c);
        dev_prog_free(p);
        dt_graph_free(g);
        dt_str_done(&s);
    }
}

/* ---- what is written out ----------------------------------------------------------------------------------------- */

/* clang-format off */
static const struct {
    const char *what, *text;
    bool hides;
} written[] = {
    {"one", HALF ENTRY(CALL("half", "%f2", "%f1")), true},
    {"two places, one of them guarded", HALF NEG ENTRY(CALL("half", "%f2", "%f1") "setp.gt.f32 %p1, %f1, 0f00000000;\n"
        "{ .param .b32 q; .param .b32 w; st.param.f32 [q], %f2; @%p1 call (w), minus, (q);\n"
        "ld.param.f32 %f3, [w]; }\nselp.f32 %f3, %f3, %f1, %p1; add.rn.f32 %f2, %f2, %f3;"
        CALL("half", "%f2", "%f2")), true},
    {"a barrier, in one place", MEETS ENTRY(CALL("meets", "%f2", "%f1")), false},
    {"a barrier, in a place for each half of the blocks", MEETS FUNC("on", V, "ld.param.f32 %f1, [v];"
        CALL("meets", "%f2", "%f1") "st.param.f32 [r], %f2;") ENTRY("setp.lt.u32 %p1, %r1, 2; @%p1 bra L;"
        CALL("meets", "%f2", "%f1") "bra E;\nL:" CALL("on", "%f2", "%f1") "E: "), false},
    {"in a loop, one in the other, with frames", HALF
        FUNC("sum", V ", .param .b32 n", ".local .align 4 .b8 d[8]; .reg .b64 %SP; mov.u64 %SP, d; ld.param.f32 %f1, "
        "[v]; ld.param.u32 %r1, [n]; and.b32 %r2, %r1, 1; mul.wide.u32 %a1, %r2, 4; add.u64 %a2, %SP, %a1;\n"
        "mov.f32 %f3, 0f3F800000; st.local.f32 [%SP], %f3; st.local.f32 [%SP+4], %f1; ld.local.f32 %f4, [%a2];"
        CALL("half", "%f5", "%f4") "setp.gt.f32 %p1, %f5, 0f3F800000; st.param.f32 [r], %f5; @%p1 ret; add.rn.f32 "
        "%f6, %f5, %f5;\nst.param.f32 [r], %f6;")
        ENTRY("mov.f32 %f2, %f1; mov.u32 %r4, 0;\nAGAIN: { .param .b32 q; .param .b32 n; .param .b32 w; st.param.f32 "
        "[q], %f2; st.param.b32 [n], %r4; call.uni (w), sum, (q, n); ld.param.f32 %f3, [w]; }\nadd.rn.f32 %f2, %f2, "
        "%f3;\nadd.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 3; @%p1 bra AGAIN;\n"), true},
    {"pieces of a structure", ".func (.param .align 4 .b8 r[8]) both(.param .align 4 .b8 v[8])\n{\n" REGS
        "ld.param.u8 %h1, [v]; ld.param.s8 %r2, [v+1]; ld.param.u16 %r1, [v+2]; ld.param.b32 %r3, [v+4];\n"
        "cvt.u32.u16 %r4, %h1; add.u32 %r5, %r1, %r4; add.s32 %r5, %r5, %r2; xor.b32 %r6, %r3, %r5;\n"
        "st.param.v2.b32 [r], {%r5, %r6}; ret;\n}\n"
        ENTRY("mov.b32 %r4, %f1; shr.u32 %r5, %r4, 8; shr.u32 %r6, %r4, 16; { .param .align 4 .b8 q[8]; .param .align "
        "4 .b8 w[8]; st.param.b8 [q], %r4; st.param.b8 [q+1], %r5; st.param.b16 [q+2], %r6; st.param.b32 [q+4], 7;\n"
        "call.uni (w), both, (q); ld.param.b32 %r7, [w]; ld.param.b32 %r8, [w+4]; }\nadd.u32 %r7, %r7, %r8; "
        "mov.b32 %f2, %r7;\n"), false},
    /* what the first call leaves there the second one finds, and the third */
    {"shared memory of the function, one for all places", FUNC("keeps", V ", .param .b32 n", ".shared .align 4 .b8 "
        "s[512];\n.shared .b32 first; mov.u64 %a1, s; mov.u32 %r1, %tid.x; mul.wide.u32 %a2, %r1, 4; add.u64 %a3, %a1, "
        "%a2; ld.param.f32 %f1, [v]; ld.param.u32 %r2, [n]; setp.eq.s32 %p1, %r2, 0; @%p1 bra SET; ld.shared.f32 %f2, "
        "[%a3]; ld.shared.f32 %f3, [first];\nadd.rn.f32 %f1, %f1, %f3; add.rn.f32 %f1, %f1, %f2;\n"
        "SET: st.shared.f32 [%a3], %f1; st.param.f32 [r], %f1; or.b32 %r1, %r1, %r2;\n"
        "setp.ne.u32 %p1, %r1, 0; @%p1 ret; mov.b32 %f4, 0f40400000; st.shared.f32 [first], %f4; ret;")
        FUNC("other", V, ".shared .b32 s; .param .b32 q; .param .b32 n; .param .b32 w; ld.param.f32 %f1, [v];\n"
        "st.param.f32 [q], %f1; st.param.b32 [n], 1; call.uni (w), keeps, (q, n); ld.param.f32 %f2, [w]; "
        "st.param.f32 [r], %f2;")
        ENTRY("{ .param .b32 q; .param .b32 n; .param .b32 w; st.param.f32 [q], %f1; st.param.b32 [n], 0; call.uni "
        "(w), keeps, (q, n); ld.param.f32 %f3, [w]; }\nbar.sync 0;\nneg.f32 %f4, %f3; { .param .b32 q; .param .b32 n; "
        ".param .b32 w; st.param.f32 [q], %f4; st.param.b32 [n], 1; call.uni (w), keeps, (q, n); ld.param.f32 %f5, "
        "[w]; }\nbar.sync 0;" CALL("other", "%f2", "%f5")), true},
    {"an address, and a thread that ends", FUNC("get", ".param .b64 v", "ld.param.u64 %a1, [v]; ld.global.b32 %r1, "
        "[%a1]; setp.eq.s32 %p1, %r1, 1; @%p1 exit; st.param.b32 [r], %r1;")
        ENTRY("{ .param .b64 q; .param .b32 w; st.param.b64 [q], %a4; call.uni (w), get, (q); ld.param.b32 %r5, [w]; "
        "}\n"
        "mov.b32 %r6, %r5; st.global.b32 [%a5], %r6; mov.f32 %f2, %f1;\n"), false},
};
/* clang-format on */

/* Written out, and the plan, forced, leaves the same bytes; a value is hidden where it may meet floating point. */
static void test_written(void **state)
{
    static const char *const others[] = {
        "block-fusion",        "recompute", "split",       "parallel-fusion", "prefetch",
        "programmatic-launch", "versions",  "dead-blocks", "copies",          "roles"};
    struct rw_options o = {.inputs = 2, .schedules = 2, .deny = others, .ndeny = sizeof others / sizeof *others};
    rw_hooks.force = true;
    rw_hooks.off = "calls_apart"; /* here it is the text that counts */
    for (size_t k = 0; k < sizeof written / sizeof written[0]; k++) {
        struct dt_err e = {0};
        struct made m;
        struct rw_calls c;
        json_t *plan, *x;
        size_t i;
        make(written[k].text, "k", &m);
        must(rw_calls_find(m.p, &c, &e), &e);
        if (rw_calls_number(&c) != 2)
            fail_msg("%s: %s", written[k].what, c.v.p[0].why.s);
        assert_int_equal(c.v.p[0].zero, written[k].hides);
        assert_null(strstr(c.v.p[0].ptx.s, "call"));
        rw_calls_done(&c);
        must(rw_plan(dev, m.p, m.a, &o, "sha256:none", &plan, &e), &e);
        const char *verdict = "absent", *reason = NULL;
        json_array_foreach (json_object_get(plan, "rewrites"), i, x)
            if (!strcmp(json_string_value(json_object_get(x, "kind")), "calls")) {
                verdict = json_string_value(json_object_get(x, "verdict"));
                reason = json_string_value(json_object_get(x, "reason"));
            }
        if (strcmp(verdict, dev_nvjitlink_version() ? "kept" : "refused") != 0)
            fail_msg("%s: %s, %s", written[k].what, verdict, reason ? reason : "");
        assert_true(json_is_true(json_object_get(json_object_get(plan, "verified"), "bitwise")));
        json_decref(plan);
        unmake(&m);
    }
    rw_hooks.force = false;
    rw_hooks.off = NULL;
}

/* A recipe leads to the same launches. */
static void again(const struct made *m, const struct rw_options *o, const json_t *plan)
{
    struct dt_err e = {0};
    struct dt_str why = {0};
    json_t *first, *recipe, *second = NULL, *last = NULL;
    must(rw_plan_recipe(dev, m->p, m->a, o, "sha256:none", &first, &recipe, &e), &e);
    int r = rw_plan_by(dev, m->p, m->a, o, "sha256:none", recipe, &second, &last, &why, &e);
    if (r)
        fail_msg("%s", r < 0 ? e.detail : why.s);
    assert_true(json_equal(json_object_get(plan, "launches"), json_object_get(second, "launches")));
    assert_true(json_equal(recipe, last));
    json_decref(first);
    json_decref(recipe);
    json_decref(second);
    json_decref(last);
}

/* Not forced: it is kept where a later rewrite is, undone where none is, and not looked for where it is denied. */
static void test_undone(void **state)
{
    static const char *const others[] = {"block-fusion",    "recompute",   "split",
                                         "parallel-fusion", "prefetch",    "programmatic-launch",
                                         "versions",        "dead-blocks", "narrow-blocks"},
                             *const calls[] = {"calls"};
    static const char *const want[] = {"kept", "dropped", "absent"};
    struct made m;
    if (!dev_nvjitlink_version())
        skip();
    make(HALF ENTRY(CALL("half", "%f2", "%f1")), "k", &m);
    for (int k = 0; k < 3; k++) {
        struct rw_options o = {.inputs = 2, .schedules = 2};
        struct dt_err e = {0};
        json_t *plan, *x;
        size_t i;
        o.deny = k == 1 ? others : k == 2 ? calls : NULL;
        o.ndeny = k == 1 ? sizeof others / sizeof *others : k == 2 ? 1 : 0;
        must(rw_plan(dev, m.p, m.a, &o, "sha256:none", &plan, &e), &e);
        const char *verdict = "absent", *level = "";
        json_array_foreach (json_object_get(plan, "rewrites"), i, x) {
            const char *kind = json_string_value(json_object_get(x, "kind"));
            if (!strcmp(kind, "calls"))
                verdict = json_string_value(json_object_get(x, "verdict"));
            if (!strcmp(kind, "block-fusion") && json_object_get(x, "level"))
                level = json_string_value(json_object_get(x, "level"));
        }
        if (strcmp(verdict, want[k]) != 0)
            fail_msg("%s", json_dumps(json_object_get(plan, "rewrites"), 0));
        if (k == 0)
            assert_string_equal(level, "register"); /* what a kernel with calls cannot be */
        assert_true(k == 1 || json_array_size(json_object_get(plan, "launches")) == 1);
        if (k == 0)
            again(&m, &o, plan);
        json_decref(plan);
    }
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_undone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
