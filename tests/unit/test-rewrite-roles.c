/* Roles (rewrite/normal/roles.c, roles-text.c, rewrite/emit/uniform.c): which blocks are of one role, by the branches,
 * selects and buffers of kernels of every kind; the kernels of the roles, forced, whose plans must leave the same
 * bytes; what is refused; the check of the new maps; and what the search makes of it.
 */
#include "rewrite-device.h"

#include "base/subject.h"
#include "rewrite/facts/hooks.h"
#include "rewrite/normal/roles.h"

/* Eight blocks of 64 threads, x → y and z: FIRST y = x + 1, SECOND z = x + x, by way of shared memory. */
#define ENTRY(test)                                                                                                    \
    ".visible .entry k(.param .u64 x, .param .u64 y, .param .u64 z, .param .u32 n, .param .align 4 .b8 s[8])\n{\n"     \
    ".reg .pred %p<9>; .reg .b32 %r<19>; .reg .b64 %a<19>; .reg .f32 %f<9>;\n.shared .align 4 .b8 room[256];\n"        \
    "ld.param.u64 %a1, [x]; ld.param.u64 %a2, [y]; ld.param.u64 %a3, [z]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, "        \
    "%tid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r4, %nctaid.x; mad.lo.u32 %r5, %r3, %r4, %r1; mad.lo.u32 %r6, %r5, 64, "  \
    "%r2; mul.wide.u32 %a4, %r6, 4; add.u64 %a5, %a1, %a4; add.u64 %a6, %a2, %a4; add.u64 %a7, %a3, %a4; "             \
    "mov.u32 %r7, room; mad.lo.u32 %r8, %r2, 4, %r7;\n" test "}\n"
#define FIRST "ld.global.f32 %f1, [%a5]; add.rn.f32 %f2, %f1, 0f3F800000; st.global.f32 [%a6], %f2; "
#define SECOND                                                                                                         \
    "ld.global.f32 %f1, [%a5]; st.shared.f32 [%r8], %f1; ld.shared.f32 %f3, [%r8]; add.rn.f32 %f2, %f1, %f3; "         \
    "st.global.f32 [%a7], %f2; "
#define TWO(test) ENTRY(test "@%p1 bra SECOND;\n" FIRST "ret;\nSECOND:\n" SECOND "ret;\n")

/* clang-format off */
static const struct {
    const char *text, *grid, *roles; /* roles: of each block; NULL: none */
} cases[] = {
    {TWO("setp.ge.u32 %p1, %r1, 5; "), "8,1", "00000111"},
    {TWO("ld.param.u32 %r9, [n]; setp.ge.s32 %p1, %r1, %r9; "), "8,1", "00011111"},
    {TWO("ld.param.u32 %r9, [s+4]; setp.ge.s32 %p1, %r1, %r9; "), "8,1", "00000011"}, /* a number in a struct */
    {TWO("and.b32 %r9, %r1, 1; setp.eq.u32 %p1, %r9, 1; "), "8,1", "01010101"}, /* a list of block numbers */
    {TWO("setp.eq.u32 %p1, %r3, 1; "), "4,2", "00001111"},
    {TWO("setp.ge.u32 %p1, %r1, 3; "), "4,2", "00010001"},                      /* a box with a corner */
    {TWO("add.u32 %r9, %r1, -2; setp.lt.u32 %p2, %r9, 3; setp.eq.u32 %p3, %r1, 7; or.pred %p1, %p2, %p3; "), "8,1",
     "00111001"},
    {TWO("setp.lt.u32 %p2, %r1, 4; setp.gt.u32 %p3, %r2, 9; @%p2 bra L; setp.ge.u32 %p3, %r1, 1; L: mov.pred %p1, %p3; "
         ), "8,1", NULL},                                                       /* threads may differ in some blocks */
    {TWO("setp.ge.u32 %p2, %r1, 4; setp.ge.u32 %p3, %r2, 9; or.pred %p1, %p2, %p3; "), "8,1", NULL},
    {TWO("setp.ge.u32 %p1, %r2, 5; "), "8,1", NULL},
    {TWO("ld.global.u32 %r9, [%a1]; setp.ge.u32 %p1, %r9, %r1; "), "8,1", NULL},
    /* a loop ends after as many rounds as there are blocks before: not followed */
    {TWO("mov.u32 %r9, 0; L: add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, %r1; @%p2 bra L; setp.ge.u32 %p1, %r9, 4; "),
     "8,1", NULL},
    /* guards instead of branches */
    {ENTRY("setp.ge.u32 %p1, %r1, 5; ld.global.f32 %f1, [%a5]; @%p1 st.global.f32 [%a7], %f1; @!%p1 st.global.f32 "
           "[%a6], %f1; ret;\n"), "8,1", "00000111"},
    /* one code, two buffers */
    {ENTRY("setp.ge.u32 %p1, %r1, 2; selp.b64 %a8, %a7, %a6, %p1; ld.global.f32 %f1, [%a5]; st.global.f32 [%a8], %f1; "
           "ret;\n"), "8,1", "00111111"},
    /* blocks at the edge go another way to the same buffer, from the same load */
    {ENTRY("setp.ge.u32 %p1, %r1, 7; ld.global.f32 %f1, [%a5]; @%p1 bra EDGE; st.global.f32 [%a6], %f1; ret;\nEDGE: "
           "add.rn.f32 %f2, %f1, %f1; st.global.f32 [%a6], %f2; ret;\n"), "8,1", NULL},
    /* nothing in common but the buffer */
    {ENTRY("setp.ge.u32 %p1, %r1, 7; @%p1 bra EDGE;\n" FIRST "ret;\nEDGE: ld.global.f32 %f1, [%a5]; "
           "add.rn.f32 %f2, %f1, %f1; st.global.f32 [%a6], %f2; ret;\n"), "8,1", "00000001"},
    /* blocks that write nothing go with those before them */
    {TWO("setp.eq.u32 %p2, %r1, 4; @%p2 ret; setp.gt.u32 %p3, %r1, 6; @%p3 exit; setp.ge.u32 %p1, %r1, 3; "), "8,1",
     "00011111"},
};
/* clang-format on */

struct made {
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
};

static void make(const char *text, const char *grid, const char *role, struct made *m)
{
    struct dt_str s = {0}, ptx = {0};
    dt_str_addf(&ptx, ".version 8.0\n.target sm_90\n.address_size 64\n%s", text);
    document_begin(&s, ptx.s);
    for (int k = 0; k < 3; k++)
        dt_str_addf(&s,
                    "%s\"%c\": {\"bytes\": 2048, \"role\": \"%s\", \"fill\": {\"uniform\": [-4, 4], \"dtype\": "
                    "\"f32\", \"seed\": %d}}",
                    k ? ", " : "", "xyz"[k], k ? role : "input", k);
    dt_str_addf(&s,
                "}, \"launches\": [{\"name\": \"a\", \"module\": \"m\", \"entry\": \"k\", \"grid\": [%s,1], \"block\": "
                "[64,1,1], \"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"y\"}, {\"buffer\": \"z\"}, {\"u32\": 3}, "
                "{\"bytes\": \"0000000006000000\"}]}]}",
                grid);
    document_end(&s, &m->g, &m->p, &m->a);
    dt_str_done(&ptx);
}

/* cases[0], and a launch with two roles as well: each reads what one of the first launch's writes. */
static void make_two(struct made *m)
{
    static const char reader[] =
        ".visible .entry r(.param .u64 y, .param .u64 z, .param .u64 v, .param .u64 w)\n{\n.reg .pred %p<3>; .reg .b32 "
        "%r<9>; .reg .b64 %a<9>; .reg .f32 %f<9>;\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, "
        "64, %r2; mul.wide.u32 %a4, %r3, 4; setp.ge.u32 %p1, %r1, 5;\nld.param.u64 %a1, [y]; ld.param.u64 %a2, [v]; "
        "ld.param.u64 %a3, [z]; ld.param.u64 %a7, [w];\n@!%p1 bra K; mov.u64 %a1, %a3; mov.u64 %a2, %a7;\nK: add.u64 "
        "%a5, %a1, %a4; add.u64 %a6, %a2, %a4;\n@%p1 bra L; ld.global.f32 %f1, [%a5]; mul.rn.f32 %f2, %f1, "
        "0f3F000000; st.global.f32 [%a6], %f2; ret;\nL: ld.global.f32 %f1, [%a5]; add.rn.f32 %f2, %f1, 0f3F000000; "
        "st.global.f32 [%a6], %f2; ret;\n}\n";
    struct dt_str s = {0}, ptx = {0};
    dt_str_addf(&ptx, ".version 8.0\n.target sm_90\n.address_size 64\n%s%s", cases[0].text, reader);
    document_begin(&s, ptx.s);
    for (int k = 0; k < 5; k++)
        dt_str_addf(&s,
                    "%s\"%c\": {\"bytes\": 2048, \"role\": \"%s\", \"fill\": {\"uniform\": [-4, 4], \"dtype\": "
                    "\"f32\", \"seed\": %d}}",
                    k ? ", " : "", "xyzvw"[k],
                    k > 2 ? "output"
                    : k   ? "intermediate"
                          : "input",
                    k);
    dt_str_add(&s,
               "}, \"launches\": [{\"name\": \"a\", \"module\": \"m\", \"entry\": \"k\", \"grid\": [8,1,1], "
               "\"block\": [64,1,1], \"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"y\"}, {\"buffer\": \"z\"}, "
               "{\"u32\": 3}, {\"bytes\": \"0000000006000000\"}]}, {\"name\": \"b\", \"module\": \"m\", \"entry\": "
               "\"r\", \"grid\": [8,1,1], \"block\": [64,1,1], \"args\": [{\"buffer\": \"y\"}, {\"buffer\": \"z\"}, "
               "{\"buffer\": \"v\"}, {\"buffer\": \"w\"}]}]}");
    document_end(&s, &m->g, &m->p, &m->a);
    dt_str_done(&ptx);
}

static void unmake(struct made *m)
{
    ana_free(m->a);
    dev_prog_free(m->p);
    dt_graph_free(m->g);
}

static void test_find(void **state)
{
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct made m;
        struct dt_err e = {0};
        struct dt_arena a = {0};
        struct rw_roles roles;
        char got[16] = "";
        make(cases[k].text, cases[k].grid, "output", &m);
        must(rw_roles_find(&a, m.a, 0, m.p->step[0].entry, &roles, &e), &e);
        assert_false(roles.too_large);
        for (uint32_t b = 0; roles.n && b < roles.nblock; b++)
            got[b] = (char)('0' + roles.of[b]);
        if (strcmp(got, cases[k].roles ? cases[k].roles : "") != 0)
            fail_msg("case %zu: %s, not %s", k, got, cases[k].roles ? cases[k].roles : "none");
        dt_arena_done(&a);
        unmake(&m);
    }
}

/* The plan with roles alone, forced: its verdict, and how many launches it has. */
static json_t *forced(const struct made *m, const char **ret_verdict, const char **ret_reason)
{
    static const char *const others[] = {
        "block-fusion", "recompute",   "split",  "parallel-fusion", "prefetch",      "programmatic-launch",
        "versions",     "dead-blocks", "copies", "calls",           "narrow-blocks", "slice",
        "tails",        "pack"};
    struct rw_options o = {.inputs = 2, .schedules = 2, .deny = others, .ndeny = sizeof others / sizeof *others};
    struct dt_err e = {0};
    json_t *plan, *x;
    size_t i;
    rw_hooks.force = true;
    must(rw_plan(dev, m->p, m->a, &o, "sha256:none", &plan, &e), &e);
    rw_hooks.force = false;
    *ret_verdict = "absent";
    *ret_reason = "";
    json_array_foreach (json_object_get(plan, "rewrites"), i, x) {
        *ret_verdict = json_string_value(json_object_get(x, "verdict"));
        *ret_reason = json_string_value(json_object_get(x, "reason"));
    }
    return plan;
}

/* The text of the plan's launch. */
static const char *text_of(const json_t *plan, size_t launch)
{
    const json_t *l = json_array_get(json_object_get(plan, "launches"), launch);
    const char *module = json_string_value(json_object_get(l, "module"));
    return json_string_value(json_object_get(json_object_get(json_object_get(plan, "modules"), module), "ptx"));
}

static void test_kernels(void **state)
{
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct made m;
        const char *verdict, *reason;
        make(cases[k].text, cases[k].grid, "output", &m);
        json_t *plan = forced(&m, &verdict, &reason);
        size_t n = json_array_size(json_object_get(plan, "launches"));
        const char *want = !cases[k].roles ? "absent" : dev_nvjitlink_version() ? "kept" : "refused";
        if (strcmp(verdict, want) != 0)
            fail_msg("case %zu: %s, %s", k, verdict, reason ? reason : "");
        if (!strcmp(want, "kept")) {
            assert_int_equal(n, 2);
            assert_true(json_is_true(json_object_get(json_object_get(plan, "verified"), "bitwise")));
            for (size_t i = 0; i < 2; i++) { /* one store each, no choice, and shared memory where it is used */
                const char *text = text_of(plan, i), *store = strstr(text, "st.global");
                assert_non_null(store);
                assert_null(strstr(store + 1, "st.global"));
                assert_null(strstr(text, "selp"));
                assert_true(!strstr(text, "st.shared") == !strstr(text, "room"));
            }
        }
        json_decref(plan);
        unmake(&m);
    }
}

/* The check of the new maps: of blocks as they are, and of the same ones in another order. */
static void test_same(void **state)
{
    struct made m;
    struct dt_str why = {0};
    uint32_t block[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct rw_roles all = {.role = {{.block = block, .n = 8}}, .n = 1};
    make(cases[0].text, cases[0].grid, "output", &m);
    assert_true(rw_roles_same(m.a, 0, &all, m.a, 0, &why));
    block[4] = 5, block[5] = 4;
    assert_false(rw_roles_same(m.a, 0, &all, m.a, 0, &why));
    assert_non_null(strstr(why.s, "does not touch"));
    all.role[0].n = 7;
    assert_false(rw_roles_same(m.a, 0, &all, m.a, 0, &why));
    dt_str_done(&why);
    unmake(&m);
}

/* What rows of legal.def and legal-solo.def refuse, and the gate of a kernel that stores in the wrong place. */
static void test_refused(void **state)
{
    /* clang-format off */
    static const struct {
        const char *row, *text, *spoil;
    } refused[] = {
        {"roles-apart", ENTRY("setp.ge.u32 %p1, %r1, 5; @%p1 bra SECOND; red.global.add.u32 [%a2], 1; ret;\nSECOND: "
            "ld.global.f32 %f1, [%a5]; st.global.f32 [%a7], %f1; red.global.add.u32 [%a2], 1; ret;\n"), NULL},
        {"no-talk", TWO("setp.ge.u32 %p1, %r1, 5; membar.gl; "), NULL},
        {"numbers", TWO("setp.ge.u32 %p1, %r1, 5; mov.u32 %r9, %smid; "), NULL},
        {"verification", TWO("setp.ge.u32 %p1, %r1, 5; "), "roles"},
    };
    /* clang-format on */
    for (size_t k = 0; k < sizeof refused / sizeof refused[0]; k++) {
        struct made m;
        const char *verdict, *reason;
        if (refused[k].spoil && !dev_nvjitlink_version())
            continue;
        make(refused[k].text, "8,1", "inout", &m);
        rw_hooks.spoil = refused[k].spoil;
        json_t *plan = forced(&m, &verdict, &reason);
        rw_hooks.spoil = NULL;
        if (strcmp(verdict, "refused") != 0 || strncmp(reason, refused[k].row, strlen(refused[k].row)) != 0)
            fail_msg("case %zu: %s, %s", k, verdict, reason ? reason : "");
        json_decref(plan);
        unmake(&m);
    }
}

/* By the search: where nothing comes after it, all stays as posted. Two launches of two roles are taken apart, as each
 * role goes into its reader then; and a recipe leads to the same plan. */
static void test_search(void **state)
{
    struct rw_options o = {.inputs = 1, .schedules = 1};
    struct dt_err e = {0};
    struct dt_str why = {0};
    json_t *plan, *recipe, *again = NULL, *last = NULL;
    struct made m;
    if (!dev_nvjitlink_version())
        skip();
    make(cases[0].text, cases[0].grid, "output", &m);
    must(rw_plan_recipe(dev, m.p, m.a, &o, "sha256:none", &plan, &recipe, &e), &e);
    assert_int_equal(json_array_size(json_object_get(plan, "launches")), 1);
    assert_int_equal(json_array_size(json_object_get(recipe, "steps")), 0);
    json_decref(plan);
    json_decref(recipe);
    unmake(&m);
    make_two(&m);
    must(rw_plan_recipe(dev, m.p, m.a, &o, "sha256:none", &plan, &recipe, &e), &e);
    const json_t *steps = json_object_get(recipe, "steps"), *first = json_array_get(steps, 0);
    assert_string_equal(json_string_value(json_object_get(first, "kind")), "roles");
    assert_true(json_is_true(json_object_get(first, "detour")));
    must(rw_plan_by(dev, m.p, m.a, &o, "sha256:none", recipe, &again, &last, &why, &e), &e);
    if (why.len)
        fail_msg("%s", why.s);
    assert_true(json_equal(json_object_get(plan, "launches"), json_object_get(again, "launches")));
    json_decref(plan);
    json_decref(recipe);
    json_decref(again);
    json_decref(last);
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),    cmocka_unit_test(test_kernels), cmocka_unit_test(test_same),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_search),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
