/* Versions and layout (rewrite/normal/): which pointers get a buffer of their own, byte for byte; that the check sees a
 * version that is wrong; which versions share storage again; and whole plannings of graphs with a memory pool.
 *
 * Launches are written "entry from to": f whole, h the first half of what it writes, i in place, g only where the data
 * says so, o reads one element too far. A place is a buffer and the kilobytes to its beginning: p2 is pool + 2048. A
 * pass moves 512 elements, 2 KB.
 */
#include "rewrite-device.h"

#include "base/subject.h"
#include "rewrite/facts/hooks.h"

#define REGS ".reg .pred %p; .reg .b32 %r<9>; .reg .b64 %a<9>; .reg .f32 %f<5>;\n"
#define HEAD(name)                                                                                                     \
    ".visible .entry " name "(.param .u64 x, .param .u64 y)\n{\n" REGS                                                 \
    "ld.param.u64 %a1, [x]; ld.param.u64 %a3, [y];\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; "                      \
    "mad.lo.u32 %r3, %r1, 128, %r2; mul.wide.u32 %a4, %r3, 4; add.u64 %a5, %a1, %a4; add.u64 %a7, %a3, %a4;\n"
#define LOAD "ld.global.f32 %f1, [%a5]; "
#define ENTRY(name, body) HEAD(name) body " ret;\n}\n"
/* clang-format off */
static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
    ENTRY("f", "ld.global.nc.f32 %f1, [%a5]; add.rn.f32 %f2, %f1, %f1; st.global.f32 [%a7], %f2;")
    ENTRY("h", LOAD "setp.lt.u32 %p, %r3, 256; @%p st.global.f32 [%a7], %f1;")
    ENTRY("i", LOAD "ld.global.f32 %f2, [%a7]; add.rn.f32 %f2, %f1, %f2; st.global.f32 [%a7], %f2;")
    ENTRY("g", LOAD "setp.gt.f32 %p, %f1, 0f00000000; @%p st.global.f32 [%a7], %f1;")
    ENTRY("o", LOAD "ld.global.f32 %f2, [%a5+4]; add.rn.f32 %f2, %f1, %f2; st.global.f32 [%a7], %f2;");
/* clang-format on */

struct made {
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
};
/* "f x0 p0, f p0 y0": x is the input, p and q intermediates, y and z outputs, of 16 KB each. */
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
    for (const char *t = launches; *t; t += t[7] == ',' ? 9 : 7)
        dt_str_addf(&s,
                    "%s{\"module\": \"m\", \"entry\": \"%c\", \"grid\": [4,1,1], \"block\": [128,1,1], \"args\": "
                    "[{\"buffer\": \"%c\", \"offset\": %d}, {\"buffer\": \"%c\", \"offset\": %d}]}",
                    t == launches ? "" : ", ", t[0], t[2], (t[3] - '0') * 1024, t[5], (t[6] - '0') * 1024);
    dt_str_add(&s, "]}");
    document_end(&s, &m->g, &m->p, &m->a);
}

static void unmake(struct made *m)
{
    ana_free(m->a);
    dev_prog_free(m->p);
    dt_graph_free(m->g);
}

/* Each pointer as a letter: capitals are versions in order, the posted buffers themselves are small. */
static void letters(const struct made *m, const struct rw_versions *v, char *out)
{
    for (size_t k = 0; k < v->at.v.n; k++)
        *out++ = v->buffer[k] < m->g->nbuffer ? *m->g->buffer[v->buffer[k]].name
                                              : (char)('A' + v->buffer[k] - m->g->nbuffer);
    *out = 0;
}

static const struct {
    const char *launches, *pointers;
    uint64_t lo, hi; /* of the first version */
} cases[] = {
    {"f x0 p0, f p0 y0", "xppy", 0, 0},                             /* one tenant */
    {"f x0 p0, f p0 y0, f x0 p0, f p0 z0", "xAAyxBBz", 0, 2048},    /* two */
    {"f x0 p0, f p0 p4, f p4 p0, f p0 y0", "xAABBCCy", 0, 2048},    /* to and fro */
    {"f x0 p4, f p4 y0, f x0 p5, f p5 z0", "xAAyxBBz", 4096, 6144}, /* overlapping places */
    {"f x0 p0, f p0 y0, h x0 p0, f p0 z0", "xppyxppz", 0, 0},       /* the second half is still the first one's */
    {"f x0 p0, f p0 y0, h x0 p0, h p0 z0, f x0 p0, f p0 z0", "xAAyxAAzxBBz", 0, 2048},
    {"f x0 p0, i x0 p0, f p0 y0, f x0 p0, f p0 z0", "xAxAAyxBBz", 0, 2048}, /* in place */
    {"f x0 p0, g x0 p0, f p0 y0, f x0 p0, f p0 z0", "xAxAAyxBBz", 0, 2048}, /* perhaps written */
    {"f p0 y0, f x0 p0, f p0 z0", "pyxAAz", 0, 2048},                       /* what nobody wrote stays */
    {"f x0 p0, f x0 p2, o p0 y0, f x0 p0, f p0 z0", "xAxAAyxBBz", 0, 4096}, /* an overread holds its neighbour */
};

static void test_find(void **state)
{
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct made m;
        struct rw_versions v;
        struct dt_err e = {0};
        char got[64];
        make(cases[k].launches, &m);
        must(rw_versions_find(m.p, m.a, &v, &e), &e);
        letters(&m, &v, got);
        if (strcmp(got, cases[k].pointers) != 0)
            fail_msg("%s: %s, not %s", cases[k].launches, got, cases[k].pointers);
        if (cases[k].hi) {
            assert_int_equal(v.version[0].lo, cases[k].lo);
            assert_int_equal(v.version[0].hi, cases[k].hi);
        }
        rw_versions_done(&v);
        unmake(&m);
    }
}

/* The graph with versions, analysed. */
static void apart(const struct made *m, const struct rw_versions *v, struct made *ret)
{
    struct dt_err e = {0};
    json_t *doc = rw_pointers_graph(m->p, &v->at, v->buffer, v->offset, v->version, v->n);
    must(dt_graph_from_json(doc, &ret->g, &e), &e);
    json_decref(doc);
    must(dev_prog_derive(dev, ret->g, m->p, NULL, NULL, &ret->p, &e), &e);
    must(ana_run(dev, ret->p, NULL, &ret->a, &e), &e);
}

/* The check takes what was found, and no other place of a pointer. */
static void test_same(void **state)
{
    struct made m, n;
    struct rw_versions v;
    struct dt_err e = {0};
    make("f x0 p0, f p0 p4, f p4 p0, f p0 y0", &m);
    must(rw_versions_find(m.p, m.a, &v, &e), &e);
    assert_int_equal(v.n, 3);
    for (int wrong = 0; wrong < 4; wrong++) {
        static const char *const says[] = {NULL, "reads bytes of 'p' that another launch has written there",
                                           "touches other bytes of 'p' when it is taken apart",
                                           "reads bytes of 'p' that another launch has written there"};
        struct dt_str why = {0};
        uint32_t buffer = v.buffer[6];
        uint64_t offset = v.offset[6];
        if (wrong == 1)
            v.buffer[6] = m.g->nbuffer; /* the last one reads the first version: what another launch left */
        if (wrong == 2)
            v.version[2].hi += 256, v.offset[6] += 256; /* a little further on */
        if (wrong == 3)
            v.buffer[6] = 1; /* the posted buffer, in which nobody wrote */
        apart(&m, &v, &n);
        bool same = rw_versions_same(m.a, n.a, &v, &why);
        assert_int_equal(same, !wrong);
        if (wrong && !strstr(dt_plain(why.s), says[wrong]))
            fail_msg("%s", why.s);
        dt_str_done(&why);
        unmake(&n);
        v.buffer[6] = buffer;
        v.offset[6] = offset;
    }
    rw_versions_done(&v);
    unmake(&m);
}

/* What trials need of the graph with versions comes from the posted run; each launch alone on it leaves what the posted
 * one left, and a pointer that is wrong shows. */
static void test_snaps(void **state)
{
    struct made m, n;
    struct rw_versions v;
    struct dt_err e = {0};
    make("f x0 p0, f p0 p4, i p4 p0, f p0 y0", &m);
    must(rw_versions_find(m.p, m.a, &v, &e), &e);
    assert_true(v.n >= 2);
    for (int wrong = 0; wrong < 2; wrong++) {
        struct rw_options o = {0};
        struct rw_planner p = {.dev = dev, .opt = &o, .versions = v};
        struct rw_placed at;
        bool other[4] = {[3] = true};
        uint32_t right = v.buffer[6];
        v.buffer[6] = wrong ? v.buffer[3] : right; /* the last launch reads what the second one left */
        apart(&m, &v, &n);
        v.buffer[6] = right;
        struct rw_state posted = {.borrowed = true, .graph = m.g, .prog = m.p, .ana = m.a};
        assert_true(dt_push(&p.state, posted));
        p.apart = (struct rw_state){.graph = n.g, .prog = n.p, .ana = n.a};
        rw_gate_init(&p.gate, dev, &o, n.p);
        must(rw_place(&p, &at, &e), &e);
        must(rw_reference_checked(dev, m.p, 1, m.a, NULL, NULL, &p.gate.original, &at, &p.gate.ref, &p.gate.snaps, &e),
             &e);
        rw_placed_done(&at);
        const struct dev_cost *cost = rw_snaps_cost(p.gate.snaps), *as_posted = rw_reference_cost(p.gate.ref);
        assert_int_equal(cost[2].instructions, as_posted[2].instructions);
        if (!wrong) {
            must(rw_snaps_check(&p.gate, other, &e), &e);
            assert_int_equal(cost[3].instructions, as_posted[3].instructions); /* found by itself */
        } else {
            assert_int_equal(rw_snaps_check(&p.gate, other, &e), 0);
        }
        rw_gate_done(&p.gate);
        free(p.state.p);
        unmake(&n);
    }
    rw_versions_done(&v);
    unmake(&m);
}

/* Versions that are needed one after the other share bytes; with launches that nothing orders, none do. */
static void test_layout(void **state)
{
    struct made m, n;
    struct rw_versions v;
    struct rw_laid l;
    struct dt_err e = {0};
    make("f x0 p0, f p0 p4, f p4 p0, f p0 p4, f p4 y0", &m);
    must(rw_versions_find(m.p, m.a, &v, &e), &e);
    assert_int_equal(v.n, 4);
    apart(&m, &v, &n);
    uint64_t over[5] = {0, 1, 3, 7, 15}, none[5] = {0};
    must(rw_layout_find(n.p, n.a, &v, over, &l, &e), &e);
    assert_int_equal(l.n, 4);
    assert_int_equal(l.extra.hi, 0);
    uint64_t end = 0;
    for (size_t k = 0; k < l.at.v.n; k++)
        if (l.buffer[k] == 1)
            end = l.offset[k] > end ? l.offset[k] : end;
    assert_int_equal(end, 2048); /* two places are enough */
    rw_laid_done(&l);
    must(rw_layout_find(n.p, n.a, &v, none, &l, &e), &e);
    for (size_t i = 0; i < l.at.v.n; i++) /* different versions, different bytes */
        for (size_t k = 0; k < i; k++)
            if (n.g->buffer[l.at.v.p[i].buffer].role == DT_SCRATCH &&
                n.g->buffer[l.at.v.p[k].buffer].role == DT_SCRATCH)
                assert_int_equal(l.buffer[i] == l.buffer[k] && l.offset[i] == l.offset[k],
                                 l.at.v.p[i].buffer == l.at.v.p[k].buffer);
    rw_laid_done(&l);
    rw_versions_done(&v);
    unmake(&n);
    unmake(&m);
}

/* Whole plannings: a chain through a pool is fused as far as a chain through buffers of their own, and needs no more
 * memory; where no rewrite is allowed, versions are undone; denied, they are not looked for. */
static void test_plan(void **state)
{
    static const char *const no_versions[] = {"versions"}, *const others[] = {"block-fusion", "recompute",
                                                                              "split",        "parallel-fusion",
                                                                              "prefetch",     "programmatic-launch",
                                                                              "dead-blocks",  "narrow-blocks"};
    struct dt_err e = {0};
    struct made m;
    size_t launches[3];
    make("f x0 p0, f p0 p4, f p4 p0, f p0 p4, f p4 p0, f p0 y0", &m);
    for (int k = 0; k < 3; k++) {
        struct rw_options o = {.inputs = 2, .schedules = 2};
        json_t *plan, *x;
        size_t i;
        o.deny = k == 1 ? no_versions : k == 2 ? others : NULL;
        o.ndeny = k == 1 ? 1 : k == 2 ? sizeof others / sizeof *others : 0;
        must(rw_plan(dev, m.p, m.a, &o, "sha256:none", &plan, &e), &e);
        const char *verdict = "absent";
        json_array_foreach (json_object_get(plan, "rewrites"), i, x)
            if (!strcmp(json_string_value(json_object_get(x, "kind")), "versions"))
                verdict = json_string_value(json_object_get(x, "verdict"));
        assert_string_equal(verdict, k == 0 ? "kept" : k == 1 ? "absent" : "dropped");
        launches[k] = json_array_size(json_object_get(plan, "launches"));
        if (k != 1)
            assert_int_equal(json_object_size(json_object_get(plan, "scratch")), 0);
        json_decref(plan);
    }
    assert_int_equal(launches[0], 1);
    assert_true(launches[1] >= 1);
    assert_int_equal(launches[2], 6);
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),   cmocka_unit_test(test_same), cmocka_unit_test(test_snaps),
        cmocka_unit_test(test_layout), cmocka_unit_test(test_plan),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
