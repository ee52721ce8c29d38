/* Split (rewrite/kinds/split.c): plans made of it hold the original's bytes under any order that streams allow, keep
 * every hazard, and are faster in the model where there is a tail to hide; the conditions on kernels whose blocks are
 * numbered anew.
 *
 * The producer takes 200 KB of shared memory a block, so one block an SM: 132 a wave on h200. Its blocks work for a
 * while.
 */
#include "rewrite-device.h"

#include "rewrite/emit/solo.h"

#include "base/subject.h"

#define REGS ".reg .pred %p; .reg .b32 %r<9>; .reg .b64 %a<9>; .reg .f32 %f<5>;\n"
#define WORK "mov.u32 %r4, 1500;\nL: sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra L;\n"
#define BODY(index, more)                                                                                              \
    REGS "ld.param.u64 %a1, [x]; ld.param.u64 %a3, [y];\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; " index           \
         "shl.b32 %r3, %r1, 6; add.u32 %r3, %r3, %r2; mul.wide.u32 %a4, %r3, 4; add.u64 %a5, %a1, %a4; add.u64 %a7, "  \
         "%a3, %a4;\n" more "ld.global.f32 %f1, [%a5]; add.rn.f32 %f2, %f1, %f1; st.global.f32 [%a7], %f2;\nret;\n}\n"
#define ENTRY(name, index, more) ".visible .entry " name "(.param .u64 x, .param .u64 y)\n{\n" BODY(index, more)
/* two dimensions: x + y nctaid.x */
#define FLAT "mov.u32 %r5, %ctaid.y; mov.u32 %r6, %nctaid.x; mad.lo.u32 %r1, %r5, %r6, %r1;\n"
/* reads and writes block 37 i mod 140 */
#define MIXED "mul.lo.u32 %r1, %r1, 37; rem.u32 %r1, %r1, 140;\n"
static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n" ENTRY("p", "", WORK)
    ENTRY("flat", FLAT, WORK) ENTRY("c", "", WORK) ENTRY("mixed", MIXED, WORK)
    /* every block reads the last element of x too */
    ENTRY("all", "", "ld.global.f32 %f3, [%a1+35836];\n");

#define TWO(name, entry, grid, x, y, more)                                                                             \
    "{\"name\": \"" name "\", \"module\": \"m\", \"entry\": \"" entry "\", \"grid\": " grid                            \
    ", \"block\": [64,1,1], \"args\": [{\"buffer\": \"" x "\"}, {\"buffer\": \"" y "\"}]" more "}"
#define BIG ", \"shared\": 200000"
#define N "[140,1,1]"

static const struct {
    const char *launches;
    const char *why;          /* NULL: it is made */
    unsigned parts, streams1; /* launches of the new graph, and how many of them are on stream 1 */
} cases[] = {
    {TWO("p", "p", N, "x", "h", BIG) "," TWO("c", "c", N, "h", "y", BIG), NULL, 4, 2},
    {TWO("p", "p", N, "x", "h", BIG) "," TWO("c", "c", N, "h", "k", BIG) "," TWO("d", "c", N, "k", "y", ""), NULL, 5,
     2},
    {TWO("q", "c", N, "x", "k", "") "," TWO("p", "p", N, "k", "h", BIG) "," TWO("c", "mixed", N, "h", "y",
                                                                                BIG) "," TWO("d", "c", N, "y", "z", ""),
     NULL, 6, 2},
    {TWO("p", "flat", "[7,20,1]", "x", "h", BIG) "," TWO("c", "flat", "[28,5,1]", "h", "y", BIG), NULL, 4, 2},
    /* two consumers */
    {TWO("p", "p", N, "x", "h", BIG) "," TWO("c", "c", N, "h", "y", BIG) "," TWO("e", "c", N, "h", "z", BIG), NULL, 6,
     3},
    /* WAR: c writes what p reads */
    {TWO("p", "p", N, "k", "y", BIG) "," TWO("c", "c", N, "x", "k", BIG) "," TWO("d", "c", N, "k", "z", ""), NULL, 5,
     2},
    {TWO("p", "p", N, "x", "h", BIG) "," TWO("c", "all", N, "h", "y", BIG), "no-early-blocks", 0, 0},
};

static void make(const char *launches, struct dt_graph **g, struct dev_prog **p, struct ana_result **a)
{
    static const char *const role[] = {"input", "intermediate", "intermediate", "output", "output"};
    struct dt_str s = {0};
    document_begin(&s, text);
    for (int k = 0; k < 5; k++)
        dt_str_addf(&s,
                    "%s\"%c\": {\"bytes\": 35840, \"role\": \"%s\", \"fill\": {\"uniform\": [-1, 1], \"dtype\": "
                    "\"f32\", \"seed\": %d}}",
                    k ? ", " : "", "xhkyz"[k], role[k], k);
    dt_str_addf(&s, "}, \"launches\": [%s]}", launches);
    document_end(&s, g, p, a);
}

static void splits(void **state)
{
    int removed = 0;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct dt_graph *g, *h;
        struct dev_prog *p, *q;
        struct ana_result *a;
        struct dt_err e = {0};
        struct dt_str why = {0};
        struct rw_proposals l = {0};
        struct rw_edit x;
        enum rw_verdict v;
        make(cases[k].launches, &g, &p, &a);
        const struct rw_state now = {.graph = g, .prog = p, .ana = a};
        must(rw_split.propose(&now, NULL, &l, &e), &e);
        assert_true(l.v.n >= 1);
        must(rw_edit_init(&x, &rw_split, dev_info(dev), NULL, &now, l.v.p[0].launch, l.v.p[0].nlaunch, &e), &e);
        int r = rw_split.open(&x, &v, &why, &e);
        if (r == 0)
            r = rw_split.build(&x, 0, &why, &e);
        must(r, &e);
        if (cases[k].why) {
            if (r != 1 || strncmp(dt_plain(why.s), cases[k].why, strlen(cases[k].why)))
                fail_msg("%zu: %d %s", k, r, why.s ? dt_plain(why.s) : "");
        } else {
            if (r)
                fail_msg("%zu: %s", k, dt_plain(why.s));
            for (size_t i = 0; i < x.part.n; i++)
                if (x.part.p[i].ptx.len)
                    snprintf(x.part.p[i].module, sizeof x.part.p[i].module, "f%zu", i);
            json_t *doc = rw_edit_graph(&x);
            must(dt_graph_from_json(doc, &h, &e), &e);
            assert_int_equal(h->nlaunch, cases[k].parts);
            unsigned tail = 0;
            for (uint32_t i = 0; i < h->nlaunch; i++)
                tail += h->launch[i].stream == 1;
            assert_int_equal(tail, cases[k].streams1);
            must(dev_prog_new(dev, h, NULL, NULL, &q, &e), &e);
            must(rw_waits_check(dev, q, NULL, p, &e), &e);
            must(rw_verify(dev, p, q, 2, 6, &e), &e);
            double before = time_of(p), after = time_of(q);
            if (!(after < before))
                fail_msg("%zu: %.2f -> %.2f us", k, before, after);
            /* without the `after` of the last one the check sees it */
            dev_prog_free(q);
            dt_graph_free(h);
            json_t *all = json_object_get(doc, "launches"),
                   *list = json_object_get(json_array_get(all, json_array_size(all) - 1), "after");
            if (json_array_size(list)) {
                json_array_clear(list);
                must(dt_graph_from_json(doc, &h, &e), &e);
                must(dev_prog_new(dev, h, NULL, NULL, &q, &e), &e);
                assert_int_equal(rw_waits_check(dev, q, NULL, p, &e), DT_E_GRAPH);
                dt_err_done(&e);
                dev_prog_free(q);
                dt_graph_free(h);
                removed++;
            }
            json_decref(doc);
        }
        rw_split.close(&x);
        rw_edit_done(&x);
        free(l.v.p);
        dt_arena_done(&l.arena);
        dt_str_done(&why);
        ana_free(a);
        dev_prog_free(p);
        dt_graph_free(g);
    }
    assert_true(removed >= 3);
}

/* No tail, or less than a wave: nothing is proposed. The planner keeps a split that gains. */
static void planned(void **state)
{
    static const char *const launches[] = {
        TWO("p", "p", "[132,1,1]", "x", "h", BIG) "," TWO("c", "c", N, "h", "y", BIG),
        TWO("p", "p", "[40,1,1]", "x", "h", BIG) "," TWO("c", "c", N, "h", "y", BIG),
        TWO("p", "p", N, "x", "h", BIG) "," TWO("c", "c", N, "h", "k", BIG) "," TWO("d", "c", N, "k", "y", ""),
    };
    static const char *const deny[] = {
        "block-fusion", "parallel-fusion", "programmatic-launch", "prefetch", "dead-blocks", "recompute", "versions",
        "calls",        "copies",          "narrow-blocks",       "slice",    "tails",       "pack",      "roles"};
    for (int k = 0; k < 3; k++) {
        struct dt_graph *g;
        struct dev_prog *p;
        struct ana_result *a;
        struct dt_err e = {0};
        struct rw_options o = {.deny = deny, .ndeny = sizeof deny / sizeof *deny};
        json_t *doc;
        make(launches[k], &g, &p, &a);
        must(rw_plan(dev, p, a, &o, NULL, &doc, &e), &e);
        json_t *rewrites = json_object_get(doc, "rewrites"), *row;
        size_t i, kept = 0;
        json_array_foreach (rewrites, i, row) {
            if (strcmp(json_string_value(json_object_get(row, "verdict")), "kept"))
                continue;
            kept++;
            assert_string_equal(json_string_value(json_object_get(row, "kind")), "split");
            assert_true(json_number_value(json_object_get(row, "after_us")) <
                        json_number_value(json_object_get(row, "before_us")));
        }
        assert_int_equal(kept, k == 2);
        assert_int_equal(json_array_size(json_object_get(doc, "launches")), k == 2 ? 5 : 2);
        json_decref(doc);
        ana_free(a);
        dev_prog_free(p);
        dt_graph_free(g);
    }
}

/* Kernels whose blocks may not be numbered anew. */
static void conditions(void **state)
{
    struct ptx_opnd vector = {.kind = PTX_O_SREG, .sreg = PTX_SR_CTAID, .comp = -1};
    struct ptx_inst move = {.op = PTX_OP_MOV, .nopnd = 1, .opnd = &vector, .line = 3, .pred = PTX_NO_REG};
    struct ptx_module m = {.target = "sm_80"};
    struct ptx_function f = {.name = "k", .module = &m},
                        clusters = {.name = "k", .module = &m, .reqnctapercluster = {2, 1, 1}},
                        vec = {.name = "k", .module = &m, .inst = &move, .ninst = 1};
    struct dev_info h = {.cc_major = 9};
    struct dt_launch l = {.name = "k"}, lc = {.name = "k", .cluster = {2, 1, 1}};
    struct dt_graph g = {.nlaunch = 1, .launch = &l}, gc = {.nlaunch = 1, .launch = &lc};
    struct dev_step small = {.param_total = 64}, large = {.param_total = 4090};
    struct dev_prog p = {.graph = &g, .step = &small}, pc = {.graph = &gc, .step = &small},
                    full = {.graph = &g, .step = &large};
    const struct {
        struct rw_solo s;
        const char *why;
    } row[] = {
        {{.dev = &h, .prog = &p, .body = {.f = &f}}, NULL},
        {{.dev = &h, .prog = &full, .body = {.f = &f}}, "room: 'k' has 4090 bytes"},
        {{.dev = &h, .prog = &pc, .body = {.f = &f}}, "single-blocks: 'k' runs in clusters"},
        {{.dev = &h, .prog = &p, .body = {.f = &clusters}}, "single-blocks: 'k' runs in clusters"},
        {{.dev = &h, .prog = &p, .body = {.f = &vec}}, "numbers: 'k', PTX line 3"},
        {{.dev = &h, .prog = &p, .body = {.f = &f, .find[RW_MACHINE] = {true, 4, "smid"}}},
         "numbers: 'k', PTX line 4: smid"},
        {{.dev = &h, .prog = &p, .body = {.f = &f, .find[RW_FUNC_CONTEXT] = {true, 5, "ctaid"}}},
         "numbers: 'k', PTX line 5: ctaid"},
        {{.dev = &h, .prog = &p, .body = {.f = &f, .find[RW_ORDERED] = {true, 6, "fence"}}},
         "no-talk: 'k', PTX line 6: fence"},
        {{.dev = &h, .prog = &p, .body = {.f = &f}, .self_conflict = true}, "no-talk: two blocks of 'k'"},
    };
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct dt_str why = {0};
        bool ok = rw_solo_legal(&row[k].s, RW_SOLO_MOVES | RW_SOLO_FETCHES, &why);
        if (ok != !row[k].why || (!ok && strncmp(dt_plain(why.s), row[k].why, strlen(row[k].why))))
            fail_msg("%zu: %s", k, why.s ? why.s : "legal");
        dt_str_done(&why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(splits), cmocka_unit_test(planned),
                                       cmocka_unit_test(conditions)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
