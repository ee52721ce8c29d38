/* The budget of a planning (rewrite/plan/budget.c): it is work, so that the same budget gives the same plan on a busy
 * machine, and with a library that knows the trials; a plan that it ended says so, and what it says would do does.
 */
#include "rewrite-world.h"

#include <pthread.h>
#include <stdatomic.h>

static struct world w;

static int setup(void **state)
{
    world_open(&w);
    return 0;
}

static int teardown(void **state)
{
    world_close(&w);
    return 0;
}

static char *plan_text(double budget, bool *ret_stopped, double *ret_would)
{
    struct rw_options o = {.inputs = 2, .schedules = 2, .budget_s = budget};
    struct dt_err e = {0};
    json_t *plan;
    must(rw_plan(w.dev, w.prog, w.ana, &o, "sha256:none", &plan, &e), &e);
    json_t *stopped = json_object_get(plan, "stopped");
    *ret_stopped = stopped != NULL;
    *ret_would = json_number_value(json_object_get(stopped, "would_do_s"));
    if (stopped) {
        assert_string_equal(json_string_value(json_object_get(stopped, "by")), "budget");
        assert_true(json_integer_value(json_object_get(stopped, "not_tried")) > 0);
    }
    char *text = json_dumps(plan, JSON_COMPACT);
    json_decref(plan);
    return text;
}

static atomic_bool over;

static void *busy(void *user)
{
    while (!over)
        ;
    return user;
}

static void test_work(void **state)
{
    pthread_t thread[4];
    bool stopped = true, again, some = false;
    double would, seen = 0, unused;
    for (double budget = 0.01; stopped; budget *= 3) {
        char *idle = plan_text(budget, &stopped, &would), *loaded;
        over = false;
        for (int k = 0; k < 4; k++)
            assert_int_equal(pthread_create(&thread[k], NULL, busy, NULL), 0);
        loaded = plan_text(budget, &again, &unused);
        over = true;
        for (int k = 0; k < 4; k++)
            pthread_join(thread[k], NULL);
        assert_string_equal(idle, loaded);
        some |= stopped;
        seen = stopped ? would : seen;
        free(idle);
        free(loaded);
        assert_true(budget < 1000);
    }
    assert_true(some);
    free(plan_text(seen, &stopped, &would));
    assert_false(stopped);
}

/* Who asks goes away at a time: the plan has what there was by then, verified, and says so. Without a budget, too. */
static void test_until(void **state)
{
    for (int k = 0; k < 4; k++) {
        struct rw_options o = {.inputs = 2,
                               .schedules = 2,
                               .budget_s = k & 1 ? 1000 : 0,
                               .until_us = dt_now_us() + (k & 2 ? 3600000000 : 1)};
        struct dt_err e = {0};
        json_t *plan, *stopped;
        must(rw_plan(w.dev, w.prog, w.ana, &o, "sha256:none", &plan, &e), &e);
        stopped = json_object_get(plan, "stopped");
        assert_true((stopped != NULL) == !(k & 2));
        if (stopped) {
            assert_string_equal(json_string_value(json_object_get(stopped, "by")), "clock");
            assert_true(json_integer_value(json_object_get(stopped, "not_tried")) > 0);
        }
        assert_int_equal(json_array_size(json_object_get(plan, "launches")) < 3, (k & 2) != 0);
        json_decref(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_work), cmocka_unit_test(test_until)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
