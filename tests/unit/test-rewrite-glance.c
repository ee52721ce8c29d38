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

static int ask(void *user, struct rw_state *next, struct dt_err *e)
{
    struct asked *a = user;
    must(rw_state_time(a->p, next, e), e);
    a->us = next->time.time_us;
    a->times++;
    return a->answer;
}

/* a and b fused in global memory; wrong: with another constant */
static void open_fused(struct world *w, bool wrong)
{
    const uint32_t pair[2] = {0, 1};
    struct dt_err e = {0};
    struct dt_str why = {0};
    enum rw_verdict v;
    unsigned level = 0;
    while (strcmp(rw_block_fusion.levels[level], "global"))
        level++;
    must(rw_edit_init(&w->x, &rw_block_fusion, dev_info(w->dev), &w->opt, &w->p.state.p[0], pair, 2, &e), &e);
    assert_int_equal(rw_block_fusion.open(&w->x, &v, &why, &e), 0);
    assert_int_equal(rw_block_fusion.build(&w->x, level, &why, &e), 0);
    dt_str_done(&why);
    snprintf(w->x.part.p[0].module, sizeof w->x.part.p[0].module, "f0");
    if (wrong)
        memcpy(strstr(w->x.part.p[0].ptx.s, "0f40000000"), "0f40000001", 10);
    must(rw_state_make(&w->p, &w->x, &w->next, &w->fused, &e), &e);
}

static void close_fused(struct world *w)
{
    rw_state_done(&w->next);
    rw_block_fusion.close(&w->x);
    rw_edit_done(&w->x);
}

static int judged(struct world *w, struct rw_trial *t, struct asked *a, struct dt_err *e)
{
    struct rw_judge judge = {ask, a};
    return rw_trial_judged(t, &w->p.gate, &w->x, &w->next, w->fused, &judge, e);
}

/* The glance's time is about that of the whole, and what it leaves hope for runs whole. */
static void test_about(void **state)
{
    struct world w;
    struct rw_trial t;
    struct dt_err e = {0};
    world_open(&w);
    struct asked a = {.p = &w.p};
    rw_hooks.glance = 1;
    open_fused(&w, false);
    assert_int_equal(judged(&w, &t, &a, &e), 1);
    assert_int_equal(a.times, 1);
    assert_false(t.glanced || t.repeated);
    must(rw_state_time(&w.p, &w.next, &e), &e);
    assert_true(a.us > 0.99 * w.next.time.time_us && a.us < 1.01 * w.next.time.time_us);
    must(rw_trial_finish(&t, &e), &e);
    rw_trial_done(&t);
    close_fused(&w);
    open_fused(&w, false); /* it passed: nobody is asked again */
    assert_int_equal(judged(&w, &t, &a, &e), 1);
    assert_true(t.known && t.repeated && a.times == 1);
    rw_trial_done(&t);
    close_fused(&w);
    world_close(&w);
}

/* What is hopeless is not compared, nor taken for passed by an equal one, which costs the same at once. */
static void test_hopeless(void **state)
{
    struct world w;
    struct rw_trial t;
    struct dt_err e = {0};
    world_open(&w);
    struct asked a = {.p = &w.p, .answer = 1};
    rw_hooks.glance = 1;
    double first = 0;
    for (int k = 0; k < 2; k++) {
        open_fused(&w, true);
        assert_int_equal(judged(&w, &t, &a, &e), 1);
        assert_true(t.glanced && !t.known && t.repeated == (k == 1) && (t.work > 0) == (k == 0));
        assert_null(rw_trial_find(&w.p.gate, t.key));
        assert_true(a.us > 0 && (!k || a.us == first));
        first = a.us;
        rw_trial_done(&t);
        close_fused(&w);
    }
    a.answer = 0;
    open_fused(&w, true);
    assert_int_equal(judged(&w, &t, &a, &e), DT_E_INTERNAL);
    assert_false(t.glanced || t.repeated);
    assert_int_equal(a.times, 3);
    dt_err_done(&e);
    rw_trial_done(&t);
    close_fused(&w);
    world_close(&w);
}

/* Small launches, and kinds whose blocks differ, run whole at once; an error of the judge is one of the trial. */
static void test_not(void **state)
{
    struct world w;
    struct rw_trial t;
    struct dt_err e = {0};
    world_open(&w);
    struct asked a = {.p = &w.p, .answer = 1};
    rw_hooks.glance = 0;
    open_fused(&w, false);
    assert_int_equal(judged(&w, &t, &a, &e), 1);
    assert_true(!a.times && !t.glanced);
    rw_trial_done(&t);
    close_fused(&w);
    world_close(&w);

    world_open(&w);
    a.p = &w.p;
    rw_hooks.glance = 1;
    struct rw_rewrite uneven = rw_block_fusion;
    uneven.uneven = true;
    open_fused(&w, false);
    w.x.kind = &uneven;
    assert_int_equal(judged(&w, &t, &a, &e), 1);
    assert_true(!a.times && !t.glanced);
    rw_trial_done(&t);
    close_fused(&w);
    world_close(&w);

    world_open(&w);
    a = (struct asked){.p = &w.p, .answer = DT_E_NOMEM};
    open_fused(&w, false);
    assert_int_equal(judged(&w, &t, &a, &e), DT_E_NOMEM);
    assert_int_equal(a.times, 1);
    rw_trial_done(&t);
    close_fused(&w);
    world_close(&w);
}

/* Of large launches the trial leaves all block orders to the end, where all run. */
static void test_orders(void **state)
{
    struct world w;
    struct rw_trial t;
    struct dt_err e = {0};
    world_open(&w);
    struct asked a = {.p = &w.p};
    w.p.gate.orders = 8;
    for (int large = 0; large < 2; large++) {
        rw_hooks.glance = large;
        open_fused(&w, false);
        assert_int_equal(judged(&w, &t, &a, &e), 1);
        must(rw_trial_finish(&t, &e), &e);
        assert_int_equal(t.orders, large ? 0 : RW_TRIAL_ORDERS);
        assert_true((t.order_work > 0) == !large);
        rw_trial_done(&t);
        must(ana_run(w.dev, w.next.prog, NULL, &w.next.ana, &e), &e);
        size_t before = w.p.gate.tried.n;
        assert_int_equal(rw_orders_rest(&w.p.gate, &w.next, &e), 0);
        assert_true(w.p.gate.tried.n == before + 1 && w.p.gate.tried.p[before].orders == 8);
        close_fused(&w);
        world_close(&w);
        world_open(&w);
        w.p.gate.orders = 8;
    }
    /* what cannot run alone is said, so that the whole runs under the race detector */
    open_fused(&w, false);
    must(ana_run(w.dev, w.next.prog, NULL, &w.next.ana, &e), &e);
    w.next.graph->nbuffer--; /* as a layout has fewer */
    assert_int_equal(rw_orders_rest(&w.p.gate, &w.next, &e), 1);
    w.next.graph->nbuffer++;
    close_fused(&w);
    world_close(&w);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_about), cmocka_unit_test(test_hopeless),
                                       cmocka_unit_test(test_not), cmocka_unit_test(test_orders),
                                       cmocka_unit_test(test_plan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
