/* Readers of copies moved (rewrite/normal/copies.c): which launches only move, whose readers may be moved, byte for
 * byte; that the check of the new maps sees a wrong pointer; and whole plannings in which the copy goes away.
 *
 * Launches are written "entry from to", as in test-rewrite-versions.c: a place is a buffer and the kilobytes to its
 * beginning. c copies, v with vectors, g behind a guard, n adds 1, l is a loop that copies, s copies one element
 * further on, o reads one element too far, i changes its target in place; = is a copy step of 2 KB.
 */
#include "rewrite-device.h"

#include "base/subject.h"
#include "rewrite/facts/hooks.h"

#define REGS ".reg .pred %p; .reg .b32 %r<9>; .reg .b64 %a<9>; .reg .f32 %f<5>;\n"
#define HEAD(name)                                                                                                     \
    ".visible .entry " name "(.param .u64 x, .param .u64 y)\n{\n" REGS                                                 \
    "ld.param.u64 %a1, [x]; ld.param.u64 %a3, [y]; cvta.to.global.u64 %a2, %a1;\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, " \
    "%tid.x; mad.lo.u32 %r3, %r1, 128, %r2; mul.wide.u32 %a4, %r3, 4; add.u64 %a5, %a2, %a4; add.s64 %a7, %a4, %a3;\n"
#define LOAD "ld.global.f32 %f1, [%a5]; "
#define ENTRY(name, body) HEAD(name) body " ret;\n}\n"
/* clang-format off */
static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
    ENTRY("c", "ld.global.nc.f32 %f1, [%a5]; st.global.f32 [%a7], %f1;")
    ENTRY("v", "setp.lt.u32 %p, %r3, 128; shl.b64 %a6, %a4, 2; add.u64 %a8, %a2, %a6; add.u64 %a0, %a3, %a6;"
          "@%p ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%a8]; @%p st.global.v4.f32 [%a0], {%f1, %f2, %f3, %f4};")
    ENTRY("g", "setp.ge.u32 %p, %r3, 512; @%p bra END; " LOAD "st.global.f32 [%a7], %f1; END:")
    ENTRY("n", LOAD "add.rn.f32 %f2, %f1, 0f3F800000; st.global.f32 [%a7], %f2;")
    ENTRY("l", "mov.u32 %r4, 0; AGAIN: " LOAD "st.global.f32 [%a7], %f1; add.u32 %r4, %r4, 1; setp.lt.u32 %p, %r4, 2; "
          "@%p bra AGAIN;")
    ENTRY("s", "ld.global.f32 %f1, [%a5+4]; st.global.f32 [%a7], %f1;")
    ENTRY("o", LOAD "ld.global.f32 %f2, [%a5+4]; add.rn.f32 %f2, %f1, %f2; st.global.f32 [%a7], %f2;")
    ENTRY("i", LOAD "ld.global.f32 %f2, [%a7]; add.rn.f32 %f2, %f1, %f2; st.global.f32 [%a7], %f2;");
/* clang-format on */

struct made {
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
};
/* x is the input, p and q intermediates, y and z outputs, of 16 KB each. */
static void make(const char *launches, struct made *m)
{
    static const struct {
        char name;
        const char *role;
    } buffers[] = {{'x', "input"}, {'p', "intermediate"}, {'q', "intermediate"}, {'y', "output"}, {'z', "output"}};
    struct dt_str s = {0};
    document_begin(&s, text);
    for (int k = 0; k < 5; k++)
        dt_str_addf(&s,
                    "%s\"%c\": {\"bytes\": 16384, \"role\": \"%s\", \"fill\": {\"uniform\": [-1, 1], \"dtype\": "
                    "\"f32\", \"seed\": %d}}",
                    k ? ", " : "", buffers[k].name, buffers[k].role, k);
    dt_str_add(&s, "}, \"launches\": [");
    for (const char *t = launches; *t; t += t[7] == ',' ? 9 : 7) {
        int from = (t[3] - '0') * 1024, to = (t[6] - '0') * 1024;
        if (*t == '=')
            dt_str_addf(&s,
                        "%s{\"copy\": {\"from\": {\"buffer\": \"%c\", \"offset\": %d}, \"to\": {\"buffer\": \"%c\", "
                        "\"offset\": %d}, \"bytes\": 2048}}",
                        t == launches ? "" : ", ", t[2], from, t[5], to);
        else
            dt_str_addf(&s,
                        "%s{\"module\": \"m\", \"entry\": \"%c\", \"grid\": [4,1,1], \"block\": [128,1,1], \"args\": "
                        "[{\"buffer\": \"%c\", \"offset\": %d}, {\"buffer\": \"%c\", \"offset\": %d}]}",
                        t == launches ? "" : ", ", t[0], t[2], from, t[5], to);
    }
    dt_str_add(&s, "]}");
    document_end(&s, &m->g, &m->p, &m->a);
}

static void unmake(struct made *m)
{
    ana_free(m->a);
    dev_prog_free(m->p);
    dt_graph_free(m->g);
}

/* What becomes of each case: the pointers, a buffer and kilobytes, and what is refused; NULL: no launch is a copy. */
static const struct {
    const char *launches, *pointers, *refused;
} cases[] = {
    {"n x0 p0, c p0 q0, n q0 y0", "x0p0p0q0p0y0", ""},
    {"n x0 p2, c p2 q0, n q0 y0, n q0 z0", "x0p2p2q0p2y0p2z0", ""}, /* two readers, another place */
    {"n x0 p0, v p0 q0, n q0 y0", "x0p0p0q0p0y0", ""},              /* vectors, under a predicate */
    {"n x0 p0, g p0 q1, n q1 y0", "x0p0p0q1p0y0", ""},              /* a branch around */
    {"n x0 p0, = p0 q0, n q0 y0", "x0p0q0p0p0y0", ""},              /* a copy step: its target comes first */
    {"n x0 p0, n p0 q0, n q0 y0", "x0p0p0q0q0y0", NULL},            /* it computes */
    {"n x0 p0, l p0 q0, n q0 y0", "x0p0p0q0q0y0", NULL},            /* a loop: not followed */
    {"n x0 p0, s p0 q0, n q0 y0", "x0p0p0q0q0y0", "multiple"},
    {"n x0 p0, c p0 y0, n y0 z0", "x0p0p0y0y0z0", NULL},                               /* it leaves the graph */
    {"n x0 p0, c p0 q0, n x0 p0, n q0 y0", "x0p0p0q0x0p0q0y0", "writes"},              /* the source is written */
    {"n x0 p0, c p0 q0, n x0 q0, n q0 y0, c q0 z0", "x0p0p0q0x0q0q0y0q0z0", "writes"}, /* the copy is */
    {"n x0 p0, c p0 q0, n q0 p0, n p0 y0", "x0p0p0q0q0p0p0y0", "writes"},              /* by its reader: in place now */
    {"n x0 p0, c p0 q0, o q0 y0", "x0p0p0q0q0y0", "reads more"},
    {"n x0 p0, c p0 q0, i x0 q0, n q0 y0", "x0p0p0q0x0q0q0y0", "reads more"},
    /* copies of copies, a step among them; the source is written before the last one's reader; in place */
    {"c x0 p0, c p0 q0, n q0 y0", "x0p0x0q0x0y0", ""},
    {"c x2 p0, = p0 q0, v q0 p4, n p4 y0, n q0 z0", "x2p0q0x2x2p4x2y0x2z0", ""},
    {"c x0 p0, c p0 q0, c z0 x0, n q0 y0", "x0p0x0q0z0x0q0y0", "writes"},
    {"n x0 p0, c p0 q0, c q0 p4, n p4 y0", "x0p0p0q0p0p4p4y0", ""},
};

static void test_find(void **state)
{
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct made m;
        struct rw_copies c;
        struct dt_err e = {0};
        char got[64] = "";
        make(cases[k].launches, &m);
        must(rw_copies_find(m.p, m.a, &c, &e), &e);
        for (size_t i = 0; i < c.at.v.n; i++)
            snprintf(got + 2 * i, 3, "%s%d", m.g->buffer[c.buffer[i]].name, (int)(c.offset[i] / 1024));
        if (strcmp(got, cases[k].pointers) != 0)
            fail_msg("%s: %s, not %s", cases[k].launches, got, cases[k].pointers);
        bool some = false, said = false;
        for (size_t i = 0; i < c.v.n; i++) {
            some |= c.v.p[i].copy.launch == 1;
            said |= c.v.p[i].copy.launch == 1 && c.v.p[i].why.len && *cases[k].refused &&
                    strstr(c.v.p[i].why.s, cases[k].refused);
        }
        if (some != (cases[k].refused != NULL) || said != (cases[k].refused && *cases[k].refused))
            fail_msg("%s: %s", cases[k].launches, c.v.n ? c.v.p[0].why.s : "no copy");
        rw_copies_done(&c);
        unmake(&m);
    }
}

/* The new graph's maps: as they must be, and with a pointer that is not where it should be. */
static void test_same(void **state)
{
    struct made m, n;
    struct rw_copies c;
    struct dt_err e = {0};
    make("n x0 p0, c p0 q0, n q0 y0", &m);
    for (int wrong = 0; wrong < 2; wrong++) {
        struct dt_str why = {0};
        must(rw_copies_find(m.p, m.a, &c, &e), &e);
        assert_int_equal(c.n, 1);
        uint64_t right = c.offset[4];
        c.offset[4] += wrong ? 256 : 0;
        json_t *doc = rw_pointers_graph(m.p, &c.at, c.buffer, c.offset, NULL, 0);
        must(dt_graph_from_json(doc, &n.g, &e), &e);
        must(dev_prog_new(dev, n.g, NULL, NULL, &n.p, &e), &e);
        must(ana_run(dev, n.p, NULL, &n.a, &e), &e);
        c.offset[4] = right;
        assert_int_equal(rw_copies_same(m.a, n.a, &c, &why), !wrong);
        assert_int_equal(why.len > 0, wrong);
        dt_str_done(&why);
        rw_copies_done(&c);
        unmake(&n);
        json_decref(doc);
    }
    unmake(&m);
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

/* Whole plannings: the copy is gone where the rest of the search may only leave out what is dead; undone where it may
 * not; not looked for where it is denied. */
static void test_plan(void **state)
{
    static const char *const deny[] = {"block-fusion",        "recompute", "split",       "parallel-fusion", "prefetch",
                                       "programmatic-launch", "versions",  "dead-blocks", "copies"};
    struct made m;
    make("n x0 p0, c p0 q0, n q0 y0, n q0 z0", &m);
    for (int k = 0; k < 3; k++) {
        static const char *const want[] = {"kept", "dropped", "absent"};
        struct rw_options o = {.inputs = 2, .schedules = 2, .deny = deny, .ndeny = 7 + (unsigned)k};
        struct dt_err e = {0};
        json_t *plan, *x;
        size_t i;
        must(rw_plan(dev, m.p, m.a, &o, "sha256:none", &plan, &e), &e);
        const char *verdict = "absent";
        json_array_foreach (json_object_get(plan, "rewrites"), i, x)
            if (!strcmp(json_string_value(json_object_get(x, "kind")), "copies"))
                verdict = json_string_value(json_object_get(x, "verdict"));
        if (strcmp(verdict, want[k]) != 0)
            fail_msg("%d: %s", k, json_dumps(json_object_get(plan, "rewrites"), 0));
        assert_int_equal(json_array_size(json_object_get(plan, "launches")), k ? 4 : 3);
        assert_true(json_is_true(json_object_get(json_object_get(plan, "verified"), "bitwise")));
        if (k == 0)
            again(&m, &o, plan);
        json_decref(plan);
    }
    unmake(&m);
}

/* A row of copies goes as a whole. */
static void test_row(void **state)
{
    static const char *const deny[] = {"block-fusion",    "recompute", "split",
                                       "parallel-fusion", "prefetch",  "programmatic-launch"};
    struct made m;
    struct rw_options o = {.inputs = 2, .schedules = 2, .deny = deny, .ndeny = 6};
    struct dt_err e = {0};
    json_t *plan;
    make("c x0 p0, = p0 q0, v q0 p4, n p4 y0", &m);
    must(rw_plan(dev, m.p, m.a, &o, "sha256:none", &plan, &e), &e);
    assert_int_equal(json_array_size(json_object_get(plan, "launches")), 1);
    assert_true(json_is_true(json_object_get(json_object_get(plan, "verified"), "bitwise")));
    again(&m, &o, plan);
    json_decref(plan);
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_row),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
