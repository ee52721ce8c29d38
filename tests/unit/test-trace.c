/* The trace of a plan: no two slices of a track overlap, streams are kept apart, and what is no timeline is refused.
 *
 * Plans here are written by hand. The planner puts every launch on one stream, and traces must not rely on that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/report.h"

static char *trace(const char *timeline, const char *launches, int *ret_num)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"baseline\": {\"method\": \"measured:cupti\"}, \"optimized\": {\"method\": \"modeled:h200\"}, %s "
             "\"launches\": %s}",
             timeline, launches);
    json_t *plan = json_loads(text, 0, NULL);
    assert_non_null(plan);
    struct dt_err e = {0};
    char *s = rep_trace(&(struct rep_source){.plan = plan}, &e);
    *ret_num = e.num;
    assert_true((s == NULL) == (e.num < 0));
    dt_err_done(&e);
    json_decref(plan);
    return s;
}

static void test_tracks(void **state)
{
    int num;
    char *s = trace(
        "\"timeline\": {\"baseline\": [[0, 1]], \"optimized\": [[0, 5.001], [1, 2], [4, 6], [5.001, 7], [6, 8]]},",
        "[{\"name\": \"a\", \"stream\": 0}, {\"name\": \"b\", \"stream\": 1}, {\"name\": \"c\", \"stream\": 0},"
        " {\"name\": \"d\", \"stream\": 0}, {\"name\": \"e\", \"stream\": 0}]",
        &num);
    assert_non_null(s);
    json_t *doc = json_loads(s, 0, NULL), *v;
    size_t i, slices = 0;
    static const struct {
        const char *name, *cat;
        int pid, tid;
    } expect[] = {{"l0", "measured", 1, 1}, {"a", "modeled", 2, 1}, {"b", "modeled", 2, 2},
                  {"c", "modeled", 2, 3},   {"d", "modeled", 2, 1}, {"e", "modeled", 2, 3}};
    json_array_foreach (json_object_get(doc, "traceEvents"), i, v) {
        if (strcmp(json_string_value(json_object_get(v, "ph")), "X"))
            continue;
        assert_true(slices < 6);
        assert_string_equal(json_string_value(json_object_get(v, "name")), expect[slices].name);
        assert_string_equal(json_string_value(json_object_get(v, "cat")), expect[slices].cat);
        assert_int_equal(json_integer_value(json_object_get(v, "pid")), expect[slices].pid);
        assert_int_equal(json_integer_value(json_object_get(v, "tid")), expect[slices].tid);
        slices++;
    }
    assert_int_equal(slices, 6);
    json_decref(doc);
    free(s);
}

static void test_refused(void **state)
{
    static const struct {
        const char *timeline;
        int num;
    } cases[] = {
        {"", DT_E_NOT_FOUND},
        {"\"timeline\": 7,", DT_E_NOT_FOUND},
        {"\"timeline\": {\"baseline\": [], \"optimized\": []},", DT_E_NOT_FOUND}, /* as many as there are launches */
        {"\"timeline\": {\"baseline\": [[0, 1], [2, 1]], \"optimized\": [[0, 1]]},", DT_E_CACHE},
        {"\"timeline\": {\"baseline\": [[-1, 1]], \"optimized\": [[0, 1]]},", DT_E_CACHE},
        {"\"timeline\": {\"baseline\": [[0, 1e300]], \"optimized\": [[0, 1]]},", DT_E_CACHE},
        {"\"timeline\": {\"baseline\": [[0, 1]], \"optimized\": [\"x\"]},", DT_E_CACHE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int num;
        char *s = trace(cases[i].timeline, "[{\"name\": \"a\"}]", &num);
        assert_int_equal(num, cases[i].num);
        free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tracks), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
