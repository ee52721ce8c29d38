/* Programmatic launch (rewrite/kinds/programmatic.c): every condition of legal-solo.def broken on purpose; where the
 * wait and the trigger come to stand; and the plan as a whole held to the original under several orders, where the
 * static check and the model agree that it is right and no slower.
 */
#include "rewrite-world.h"

#include "rewrite/emit/solo.h"

#include "base/subject.h"

#define REGS ".reg .pred %p; .reg .b32 %r<6>; .reg .b64 %a<9>; .reg .f32 %f<5>;\n"
#define PARAMS "(.param .u64 x, .param .u64 h, .param .u64 y)\n{\n"
#define SET                                                                                                            \
    "ld.param.u64 %a1, [x]; ld.param.u64 %a2, [h]; ld.param.u64 %a3, [y];\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, "       \
    "%tid.x; shl.b32 %r3, %r1, 6;\n"                                                                                   \
    "add.u32 %r3, %r3, %r2; mul.wide.u32 %a4, %r3, 4; add.u64 %a5, %a1, %a4; add.u64 %a6, %a2, %a4; add.u64 %a7, "     \
    "%a3, %a4;\n"
#define LOADX "ld.global.f32 %f1, [%a5];\n"
#define LOADH "ld.global.f32 %f2, [%a6];\n"
#define STORE "add.rn.f32 %f3, %f1, %f2; st.global.f32 [%a7], %f3;\n"
#define PRODUCER                                                                                                       \
    ".visible .entry p(.param .u64 x, .param .u64 y)\n{\n" REGS                                                        \
    "ld.param.u64 %a1, [x]; ld.param.u64 %a3, [y];\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;\n"                     \
    "shl.b32 %r3, %r1, 6; add.u32 %r3, %r3, %r2; mul.wide.u32 %a4, %r3, 4; add.u64 %a5, %a1, %a4; add.u64 %a7, %a3, "  \
    "%a4;\n"                                                                                                           \
    "ld.global.f32 %f1, [%a5]; add.rn.f32 %f2, %f1, %f1; st.global.f32 [%a7], %f2;\nret;\n}\n"

struct made {
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
    struct rw_state now;
    struct rw_edit x;
};

static struct dev_device *dev, *old;

static int setup(void **state)
{
    struct dt_err e = {0};
    if (dev_open("soft:h200", &dev, &e) < 0 || dev_open("soft:a100", &old, &e) < 0)
        fail_msg("%s", e.detail);
    return 0;
}

static int teardown(void **state)
{
    dev_close(dev);
    dev_close(old);
    return 0;
}

/* p: x -> h, then c: (x, h) -> y, whose body is given; `extra`: module-scope text. */
static struct made make(struct dev_device *d, const char *target, const char *extra, const char *body)
{
    struct made m = {0};
    struct dt_str ptx = {0}, s = {0};
    struct dt_err e = {0};
    dt_str_addf(&ptx, ".version 8.0\n.target %s\n.address_size 64\n%s%s%s%s}\n", target, extra, PRODUCER,
                ".visible .entry c" PARAMS, body);
    dt_str_add(&s, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *t = ptx.s; *t; t++)
        dt_str_addf(&s, *t == '\n' ? "\\n" : "%c", *t);
    dt_str_add(&s, "\"}}, \"buffers\": {\"x\": {\"bytes\": 33792, \"role\": \"input\", \"fill\": {\"uniform\": [-1, "
                   "1], \"dtype\": \"f32\", \"seed\": 1}},"
                   "\"h\": {\"bytes\": 33792, \"role\": \"intermediate\"}, \"y\": {\"bytes\": 33792, \"role\": "
                   "\"output\"}}, \"launches\": ["
                   "{\"name\": \"p\", \"module\": \"m\", \"entry\": \"p\", \"grid\": [132,1,1], \"block\": [64,1,1], "
                   "\"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"h\"}]},"
                   "{\"name\": \"c\", \"module\": \"m\", \"entry\": \"c\", \"grid\": [132,1,1], \"block\": [64,1,1], "
                   "\"args\": [{\"buffer\": \"x\"}, {\"buffer\": \"h\"},"
                   "{\"buffer\": \"y\"}]}]}");
    must(dt_graph_parse(s.s, s.len, &m.g, &e), &e);
    must(dev_prog_new(d, m.g, NULL, NULL, &m.p, &e), &e);
    must(ana_run(d, m.p, NULL, &m.a, &e), &e);
    m.now = (struct rw_state){.graph = m.g, .prog = m.p, .ana = m.a};
    dt_str_done(&ptx);
    dt_str_done(&s);
    return m;
}

static void drop(struct made *m)
{
    ana_free(m->a);
    dev_prog_free(m->p);
    dt_graph_free(m->g);
}

/* The plan's graph, or NULL with `why`. */
static json_t *rewrite(struct dev_device *d, struct made *m, struct dt_str *why)
{
    static const uint32_t both[] = {0, 1};
    struct dt_err e = {0};
    enum rw_verdict v;
    json_t *doc = NULL;
    must(rw_edit_init(&m->x, &rw_programmatic, dev_info(d), NULL, &m->now, both, 2, &e), &e);
    int r = rw_programmatic.open(&m->x, &v, why, &e);
    if (r == 0)
        r = rw_programmatic.build(&m->x, 0, why, &e);
    must(r, &e);
    if (r == 0) {
        for (size_t k = 0; k < 2; k++)
            snprintf(m->x.part.p[k].module, sizeof m->x.part.p[k].module, "f%zu", k);
        doc = rw_edit_graph(&m->x);
        assert_non_null(doc);
    }
    rw_programmatic.close(&m->x);
    return doc;
}

/* ---- conditions -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *extra, *body, *why;
} illegal[] = {
    {"", REGS SET LOADX "griddepcontrol.wait;\n" LOADH STORE "ret;\n", "unwaited: 'c' has"},
    {".func f()\n{ griddepcontrol.wait; ret; }\n", REGS SET LOADX "call f, ();\n" LOADH STORE "ret;\n",
     "unwaited: 'c' has"},
    {"", REGS SET LOADX "ldu.global.f32 %f2, [%a6];\n" STORE "ret;\n", "coherent: 'c', PTX line"},
    {".global .align 4 .u32 count;\n",
     REGS SET LOADX LOADH STORE "mov.u64 %a8, count; red.global.add.u32 [%a8], 1;\nret;\n", "tables: 'c', PTX line"},
    {".func f()\n{ .reg .pred %p; .reg .b32 %r; mov.u32 %r, %clock; setp.eq.u32 %p, %r, 1; @%p exit; ret; }\n",
     REGS SET LOADX "call f, ();\n" LOADH STORE "ret;\n", "calls: 'c', PTX line"},
    /* before it waits */
    {"", REGS SET "griddepcontrol.launch_dependents;\n" LOADX LOADH STORE "ret;\n",
     "unwaited: 'c' has griddepcontrol.launch"},
    {".func f()\n{ griddepcontrol.launch_dependents; ret; }\n", REGS SET LOADX "call f, ();\n" LOADH STORE "ret;\n",
     "unwaited: 'c' has"},
};

static void conditions(void **state)
{
    for (size_t k = 0; k < sizeof illegal / sizeof *illegal; k++) {
        struct dt_str why = {0};
        if (k == 3) { /* the variable is no buffer of the graph: not analysed; the rule is asked alone */
            struct rw_solo s = {.dev = dev_info(dev)};
            struct dt_graph g = {.nlaunch = 1, .launch = (struct dt_launch[]){{.name = "c"}}};
            struct dev_prog p = {.graph = &g};
            s.prog = &p;
            s.body.f = (struct ptx_function[]){{.name = "c", .module = &(struct ptx_module){.target = "sm_90"}}};
            s.body.find[RW_GLOBAL_VAR] = (struct rw_find){true, 7, "count"};
            assert_false(rw_solo_legal(&s, RW_SOLO_TRIGGERS, &why));
            s.body.find[RW_GLOBAL_VAR].set = false;
            assert_true(rw_solo_legal(&s, RW_SOLO_TRIGGERS, NULL));
            s.body.find[RW_OPAQUE] = (struct rw_find){true, 8, "frob"};
            struct dt_str other = {0};
            assert_false(rw_solo_legal(&s, RW_SOLO_TRIGGERS, &other));
            assert_true(!strncmp(dt_plain(other.s), "known: 'c', PTX line 8: frob", 28));
            dt_str_done(&other);
        } else {
            struct made m = make(dev, "sm_90", illegal[k].extra, illegal[k].body);
            assert_null(rewrite(dev, &m, &why));
            rw_edit_done(&m.x);
            drop(&m);
        }
        if (!why.s || strncmp(dt_plain(why.s), illegal[k].why, strlen(illegal[k].why)))
            fail_msg("%zu: \"%s\", not \"%s\"", k, why.s ? dt_plain(why.s) : "", illegal[k].why);
        dt_str_done(&why);
    }
    struct dt_str why = {0};
    struct made m = make(old, "sm_80", "", REGS SET LOADX LOADH STORE "ret;\n");
    assert_null(rewrite(old, &m, &why));
    assert_string_equal(dt_plain(why.s), "arch: sm_80 has no programmatic launches");
    dt_str_done(&why);
    rw_edit_done(&m.x);
    drop(&m);
    m = make(dev, "sm_60", "", REGS SET LOADX LOADH STORE "ret;\n"); /* whose warps would part at sm_90 */
    assert_null(rewrite(dev, &m, &why));
    assert_string_equal(dt_plain(why.s),
                        "scheduling: 'c' is for sm_60, where threads of a warp stay together; for sm_90 they may part");
    dt_str_done(&why);
    rw_edit_done(&m.x);
    drop(&m);
    struct rw_solo none = {
        .dev = dev_info(dev),
        .prog = &(struct dev_prog){.graph = &(struct dt_graph){.launch = (struct dt_launch[]){{.name = "set"}}}}};
    assert_false(rw_solo_legal(&none, RW_SOLO_ALL, &why));
    assert_string_equal(dt_plain(why.s), "kernel: 'set' is no kernel launch");
    dt_str_done(&why);
}

/* ---- where the wait stands --------------------------------------------------------------------------------------- */

static const struct {
    const char *body;
    const char *before, *after; /* text that stands before, and behind, the first wait */
    unsigned waits;             /* how many there are */
} places[] = {
    /* before the first access of h, behind that of x */
    {REGS SET LOADX LOADH STORE "ret;\n", "ld.global.f32 %f1", "ld.global.f32 %f2", 1},
    /* h first: nothing of use is before it */
    {REGS SET LOADH LOADX STORE "ret;\n", "add.u64 %a7", "ld.global.f32 %f2", 1},
    /* an early exit of some threads, as a branch and as a predicated exit: they wait too */
    {REGS SET "setp.gt.u32 %p, %r3, 8000; @%p bra D;\n" LOADX LOADH STORE "D: ret;\n", "ld.global.f32 %f1",
     "ld.global.f32 %f2", 2},
    {REGS SET "setp.gt.u32 %p, %r3, 8000; @%p exit;\n" LOADX LOADH STORE "ret;\n", "add.u64 %a7", "ld.global.f32 %f1",
     2},
    /* in a loop: before it */
    {REGS SET "mov.f32 %f2, 0f00000000; mov.u32 %r4, 4;\nL: " LOADX
              "ld.global.f32 %f4, [%a6]; add.rn.f32 %f2, %f2, %f4;\n"
              "sub.u32 %r4, %r4, 1; setp.ne.u32 %p, %r4, 0; @%p bra L;\n" STORE "ret;\n",
     "mov.u32 %r4, 4", "ld.global.f32 %f1", 1},
    /* on two ways: before they part */
    {REGS SET LOADX "and.b32 %r4, %r3, 1; setp.eq.u32 %p, %r4, 0; @%p bra E;\n" LOADH
                    "bra J;\nE: ld.global.f32 %f2, [%a6+0];\nJ: " STORE "ret;\n",
     "setp.eq.u32", "@%p bra", 1},
    /* .nc of what p writes becomes plain, .nc of x stays */
    {REGS SET "ld.global.nc.f32 %f1, [%a5];\nld.global.nc.L1::no_allocate.f32 %f2, [%a6];\n" STORE "ret;\n",
     "ld.global.nc.f32 %f1", "ld.global.f32 %f2", 1},
    /* nothing of h at all, but y: only at the end */
    {REGS SET LOADX "mov.f32 %f2, %f1;\n" STORE "ret;\n", "st.global.f32", "ret", 1},
    /* ordered accesses talk with somebody */
    {REGS SET "fence.acq_rel.gpu;\n" LOADX LOADH STORE "ret;\n", "add.u64 %a7", "fence", 1},
};

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    for (const char *t = text; (t = strstr(t, what)); t++)
        n++;
    return n;
}

static void stands(void **state)
{
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        struct made m = make(dev, k % 2 ? "sm_80" : "sm_90", "", places[k].body);
        struct dt_str why = {0};
        struct dt_err e = {0};
        json_t *doc = rewrite(dev, &m, &why);
        if (!doc)
            fail_msg("%zu: %s", k, why.s ? dt_plain(why.s) : "");
        const char *a = m.x.part.p[0].ptx.s, *c = m.x.part.p[1].ptx.s, *wait = strstr(c, "griddepcontrol.wait");
        if (!wait || count(c, "griddepcontrol.wait") != places[k].waits)
            fail_msg("%zu: %u waits, not %u:\n%s", k, count(c, "griddepcontrol.wait"), places[k].waits, c);
        const char *b = strstr(c, places[k].before), *f = strstr(c, places[k].after);
        bool guarded = strstr(places[k].body, "@%p exit") != NULL;
        if (!b || !f || b > wait || (!guarded && strstr(wait, places[k].after) == NULL))
            fail_msg("%zu: the wait stands elsewhere:\n%s", k, c);
        assert_true(count(a, "griddepcontrol.launch_dependents") == 1 &&
                    strstr(a, "griddepcontrol.launch_dependents") < strstr(a, "ld.param"));
        assert_true(count(c, "griddepcontrol.launch_dependents") == 0 && strstr(a, ".target sm_90"));
        /* it is a plan that holds, gives the same bytes under any order, and is no slower */
        struct dt_graph *g;
        struct dev_prog *p;
        must(dt_graph_from_json(doc, &g, &e), &e);
        assert_true(g->launch[1].programmatic && !g->launch[0].programmatic);
        must(dev_prog_new(dev, g, NULL, NULL, &p, &e), &e);
        must(rw_waits_check(dev, p, NULL, m.p, &e), &e);
        must(rw_verify(dev, m.p, p, 2, 3, &e), &e);
        struct dev_run *run[2];
        struct dev_time t[2];
        for (int i = 0; i < 2; i++) {
            must(dev_run_new(dev, i ? p : m.p, &run[i], &e), &e);
            must(dev_run_fill(run[i], 0, 0, &e), &e);
            must(dev_run_time(run[i], 1, &t[i], NULL, &e), &e);
            dev_run_free(run[i]);
        }
        if (!(t[1].time_us < t[0].time_us - 0.3))
            fail_msg("%zu: %.3f us, before %.3f", k, t[1].time_us, t[0].time_us);
        dev_prog_free(p);
        dt_graph_free(g);
        json_decref(doc);
        rw_edit_done(&m.x);
        dt_str_done(&why);
        drop(&m);
    }
}

/* Chains and pairs of launches that follow each other on a stream, wherever the chain begins; not over a step, another
 * stream, or what is programmatic already. */
static void proposes(void **state)
{
    static const struct {
        const char *launches; /* m: a memset; k: a kernel; 1: one on stream 1; p: a programmatic one */
        const char *want;
    } row[] = {{"kk", "01"},       {"mkk", "12"},      {"mkkk", "123 12 23"},
               {"kkmkk", "01 34"}, {"kk11k", "01 23"}, {"kkpkk", "01 234 23 34"},
               {"kmk", ""},        {"m", ""}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct dt_launch l[8] = {{0}};
        struct dt_graph g = {.launch = l, .nlaunch = (uint32_t)strlen(row[k].launches)};
        const struct rw_state now = {.graph = &g};
        struct rw_proposals list = {0};
        struct dt_err e = {0};
        struct dt_str got = {0};
        for (uint32_t i = 0; i < g.nlaunch; i++) {
            l[i].kind = row[k].launches[i] == 'm' ? DT_MEMSET : DT_KERNEL;
            l[i].stream = row[k].launches[i] == '1';
            l[i].programmatic = row[k].launches[i] == 'p';
        }
        must(rw_programmatic.propose(&now, NULL, &list, &e), &e);
        dt_str_add(&got, "");
        for (size_t i = 0; i < list.v.n; i++) {
            dt_str_add(&got, i ? " " : "");
            for (uint32_t n = 0; n < list.v.p[i].nlaunch; n++)
                dt_str_addf(&got, "%u", list.v.p[i].launch[n]);
        }
        assert_string_equal(got.s, row[k].want);
        dt_str_done(&got);
        free(list.v.p);
        dt_arena_done(&list.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(conditions), cmocka_unit_test(stands),
                                       cmocka_unit_test(proposes)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
