/* Glances (rewrite/gate/glance.c): what a few blocks say that a candidate costs, who is asked, what is remembered of
 * it, and that planning finds the same with glances as without. And block orders that wait for the end.
 */
#include "rewrite-world.h"

#include "rewrite/facts/hooks.h"
#include "rewrite/gate/gate-priv.h"
#include "rewrite/plan/plan-priv.h"

struct asked { /* what `hopeless` was shown, and what it says */
    struct rw_planner *p;
    int answer;
    unsigned times;
    double us;
};

struct glance { /* one world, in which a and b are fused and tried */
    struct world w;
    struct rw_trial t;
    struct asked a;
    struct dt_err e;
};

static int ask(void *user, struct rw_state *next, struct dt_err *e)
{
    struct asked *a = user;
    must(rw_state_time(a->p, next, e), e);
    a->us = next->time.time_us;
    a->times++;
    return a->answer;
}

/* least: of how much work on there are glances */
static void glance_open(struct glance *g, uint64_t least, int answer)
{
    *g = (struct glance){.a = {.p = &g->w.p, .answer = answer}};
    world_open(&g->w);
    rw_hooks.glance = least;
}

/* a and b fused in global memory; wrong: with another constant */
static void open_fused(struct glance *g, bool wrong)
{
    const uint32_t pair[2] = {0, 1};
    struct world *w = &g->w;
    struct dt_str why = {0};
    enum rw_verdict v;
    unsigned level = 0;
    while (strcmp(rw_block_fusion.levels[level], "global"))
        level++;
    must(rw_edit_init(&w->x, &rw_block_fusion, dev_info(w->dev), &w->opt, &w->p.state.p[0], pair, 2, &g->e), &g->e);
    assert_int_equal(rw_block_fusion.open(&w->x, &v, &why, &g->e), 0);
    assert_int_equal(rw_block_fusion.build(&w->x, level, &why, &g->e), 0);
    dt_str_done(&why);
    snprintf(w->x.part.p[0].module, sizeof w->x.part.p[0].module, "f0");
    if (wrong)
        memcpy(strstr(w->x.part.p[0].ptx.s, "0f40000000"), "0f40000001", 10);
    must(rw_state_make(&w->p, &w->x, &w->next, &w->fused, &g->e), &g->e);
}

static void close_fused(struct glance *g)
{
    rw_state_done(&g->w.next);
    rw_block_fusion.close(&g->w.x);
    rw_edit_done(&g->w.x);
}

/* The trial of what is open gives r; the caller ends it. */
static void judged(struct glance *g, int r)
{
    struct rw_judge judge = {ask, &g->a};
    assert_int_equal(rw_trial_judged(&g->t, &g->w.p.gate, &g->w.x, &g->w.next, g->w.fused, &judge, &g->e), r);
}

static void open_judged(struct glance *g, bool wrong, int r)
{
    open_fused(g, wrong);
    judged(g, r);
}

static void close_judged(struct glance *g)
{
    rw_trial_done(&g->t);
    close_fused(g);
}

/* The glance's time is about that of the whole, and what it leaves hope for runs whole. */
static void test_about(void **state)
{
    struct glance g;
    glance_open(&g, 1, 0);
    open_judged(&g, false, 1);
    assert_int_equal(g.a.times, 1);
    assert_false(g.t.glanced || g.t.repeated);
    must(rw_state_time(&g.w.p, &g.w.next, &g.e), &g.e);
    assert_true(g.a.us > 0.99 * g.w.next.time.time_us && g.a.us < 1.01 * g.w.next.time.time_us);
    must(rw_trial_finish(&g.t, &g.e), &g.e);
    close_judged(&g);
    open_judged(&g, false, 1); /* it passed: nobody is asked again */
    assert_true(g.t.known && g.t.repeated && g.a.times == 1);
    close_judged(&g);
    world_close(&g.w);
}

/* What is hopeless is not compared, nor taken for passed by an equal one, which costs the same at once. */
static void test_hopeless(void **state)
{
    struct glance g;
    glance_open(&g, 1, 1);
    double first = 0;
    for (int k = 0; k < 2; k++) {
        open_judged(&g, true, 1);
        assert_true(g.t.glanced && !g.t.known && g.t.repeated == (k == 1) && (g.t.work > 0) == (k == 0));
        assert_null(rw_trial_find(&g.w.p.gate, g.t.key));
        assert_true(g.a.us > 0 && (!k || g.a.us == first));
        first = g.a.us;
        close_judged(&g);
    }
    g.a.answer = 0;
    open_judged(&g, true, DT_E_INTERNAL);
    assert_false(g.t.glanced || g.t.repeated);
    assert_int_equal(g.a.times, 3);
    dt_err_done(&g.e);
    close_judged(&g);
    world_close(&g.w);
}

/* Small launches run whole at once; an error of the judge is one of the trial. */
static void test_not(void **state)
{
    struct glance g;
    glance_open(&g, 0, 1); /* by 0: as much as planning takes */
    open_judged(&g, false, 1);
    assert_true(!g.a.times && !g.t.glanced);
    close_judged(&g);
    world_close(&g.w);
    glance_open(&g, 1, DT_E_NOMEM);
    open_judged(&g, false, DT_E_NOMEM);
    assert_int_equal(g.a.times, 1);
    close_judged(&g);
    world_close(&g.w);
}

/* Of large launches the trial leaves all block orders to the end, where all run. */
static void test_orders(void **state)
{
    struct glance g;
    struct rw_gate *gate = &g.w.p.gate;
    for (int large = 0; large < 2; large++) {
        glance_open(&g, large, 0);
        gate->orders = 8;
        open_judged(&g, false, 1);
        must(rw_trial_finish(&g.t, &g.e), &g.e);
        assert_int_equal(g.t.orders, large ? 0 : RW_TRIAL_ORDERS);
        assert_true((g.t.order_work > 0) == !large);
        rw_trial_done(&g.t);
        must(ana_run(g.w.dev, g.w.next.prog, NULL, &g.w.next.ana, &g.e), &g.e);
        size_t before = gate->tried.n;
        assert_int_equal(rw_orders_rest(gate, &g.w.next, &g.e), 0);
        assert_true(gate->tried.n == before + 1 && gate->tried.p[before].orders == 8);
        close_fused(&g);
        world_close(&g.w);
    }
    /* what cannot run alone is said, so that the whole runs under the race detector */
    glance_open(&g, 1, 0);
    gate->orders = 8;
    open_fused(&g, false);
    must(ana_run(g.w.dev, g.w.next.prog, NULL, &g.w.next.ana, &g.e), &g.e);
    g.w.next.graph->nbuffer--; /* as a layout has fewer */
    assert_int_equal(rw_orders_rest(gate, &g.w.next, &g.e), 1);
    g.w.next.graph->nbuffer++;
    close_fused(&g);
    world_close(&g.w);
}

static char *plan_of(struct world *w, uint64_t glance, unsigned *ret_glanced)
{
    struct rw_options o = {.inputs = 1, .schedules = 1};
    struct dt_err e = {0};
    json_t *plan, *row;
    size_t i;
    rw_hooks.glance = glance;
    must(rw_plan(w->dev, w->prog, w->ana, &o, "sha256:none", &plan, &e), &e);
    *ret_glanced = 0;
    json_array_foreach (json_object_get(plan, "rewrites"), i, row) {
        const char *reason = json_string_value(json_object_get(row, "reason"));
        *ret_glanced += reason && strstr(reason, "from some of its blocks");
    }
    char *text = json_dumps(json_object_get(plan, "launches"), JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(plan);
    return text;
}

/* Of the levels of a fusion one runs whole, and the plan is that of planning without glances. */
static void test_plan(void **state)
{
    struct world w;
    unsigned none, some;
    world_open(&w);
    char *without = plan_of(&w, 0, &none), *with = plan_of(&w, 1, &some);
    assert_string_equal(with, without);
    assert_true(!none && some);
    free(without);
    free(with);
    world_close(&w);
}

/* Four blocks read the same four megabytes: that it is in the L2 for all but one, neighbours that run say. */
#define FOURS                                                                                                          \
    ".visible .entry k(.param .u64 a, .param .u64 b)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<12>;\n.reg .b64 %d<12>;\n"    \
    "ld.param.u64 %d1, [a];\nld.param.u64 %d2, [b];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %tid.x;\n"                   \
    "shr.u32 %r3, %r1, 2;\nmul.wide.u32 %d3, %r3, 4194304;\nadd.s64 %d4, %d1, %d3;\nmul.wide.u32 %d3, %r2, 16;\n"      \
    "add.s64 %d5, %d4, %d3;\nmov.u32 %r4, 0;\nmov.u32 %r5, 0;\nL:\nmul.wide.u32 %d6, %r4, 2048;\n"                     \
    "add.s64 %d8, %d5, %d6;\nld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%d8];\nxor.b32 %r5, %r5, %r6;\n"                  \
    "add.s32 %r4, %r4, 1;\nsetp.lt.u32 %p1, %r4, 2048;\n@%p1 bra L;\nmad.lo.s32 %r10, %r1, 128, %r2;\n"                \
    "mul.wide.u32 %d7, %r10, 4;\nadd.s64 %d9, %d2, %d7;\nst.global.u32 [%d9], %r5;\nret;\n}\n"

static void test_neighbours(void **state)
{
    const uint32_t pair[2] = {0, 1};
    struct glance g = {.a = {.p = &g.w.p}};
    struct rw_judge judge = {ask, &g.a};
    struct dt_str text = {0}, why = {0};
    enum rw_verdict v;
    dt_str_add(&text, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *s = ".version 8.0\n.target sm_90\n.address_size 64\n" FOURS; *s; s++)
        dt_str_addf(&text, *s == '\n' ? "\\n" : "%c", *s);
    dt_str_add(&text,
               "\"}}, \"buffers\": {\"x\": {\"bytes\": 67108864, \"role\": \"input\", \"fill\": {\"zero\": true}}, "
               "\"y\": {\"bytes\": 67108864, \"role\": \"input\", \"fill\": {\"zero\": true}}, " BUFFER(
                   "s", "output") "}, \"launches\": [" KEEP("a", "k", "x", "s") "," KEEP("b", "k", "y", "s") "]}");
    rw_hooks.glance = 1;
    world_analysed(&g.w, &text);
    must(rw_reference_new(g.w.dev, g.w.prog, 1, g.w.ana, NULL, &g.w.p.gate.ref, &g.w.p.gate.snaps, &g.e), &g.e);
    must(rw_state_first(&g.w.p, &g.w.p.state.p[0], &g.e), &g.e);
    must(rw_edit_init(&g.w.x, &rw_programmatic, dev_info(g.w.dev), &g.w.opt, &g.w.p.state.p[0], pair, 2, &g.e), &g.e);
    int r = rw_programmatic.open(&g.w.x, &v, &why, &g.e);
    r = r ? r : rw_programmatic.build(&g.w.x, 0, &why, &g.e);
    if (r)
        fail_msg("%s", r < 0 ? g.e.detail : why.s);
    dt_str_done(&why);
    for (size_t i = 0; i < g.w.x.part.n; i++)
        snprintf(g.w.x.part.p[i].module, sizeof g.w.x.part.p[i].module, "f%zu", i);
    must(rw_state_make(&g.w.p, &g.w.x, &g.w.next, &g.w.fused, &g.e), &g.e);
    assert_int_equal(rw_trial_judged(&g.t, &g.w.p.gate, &g.w.x, &g.w.next, g.w.fused, &judge, &g.e), 1);
    assert_int_equal(g.a.times, 1);
    must(rw_state_time(&g.w.p, &g.w.next, &g.e), &g.e);
    if (g.a.us < 0.99 * g.w.next.time.time_us || g.a.us > 1.01 * g.w.next.time.time_us)
        fail_msg("%.2f us by a glance, %.2f by all blocks", g.a.us, g.w.next.time.time_us);
    rw_trial_done(&g.t);
    rw_state_done(&g.w.next);
    rw_programmatic.close(&g.w.x);
    rw_edit_done(&g.w.x);
    world_close(&g.w);
    rw_hooks.glance = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_neighbours), cmocka_unit_test(test_about),
                                       cmocka_unit_test(test_hopeless),   cmocka_unit_test(test_not),
                                       cmocka_unit_test(test_orders),     cmocka_unit_test(test_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
