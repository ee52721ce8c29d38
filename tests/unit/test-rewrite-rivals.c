/* A kept rewrite is looked at again: the graph is one of the corpus, on which a fusion gains at once but the whole is
 * faster without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "rewrite/rewrite.h"

static struct dev_device *device;

static json_t *plan(const char *name, const char *deny)
{
    struct dt_err e = {0};
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct ana_result *a = NULL;
    struct rw_options o = {.deny = &deny, .ndeny = deny ? 1 : 0, .inputs = 2, .schedules = 2};
    const char *root = getenv("DOVETAIL_SOURCE");
    struct dt_str path = {0}, code = {0};
    char *text, *code_text;
    const char *key;
    size_t n;
    json_t *doc, *m, *ret = NULL;
    dt_str_addf(&path, "%s/tests/corpus/%s/graph.json", root ? root : ".", name);
    if (dt_read_file(path.s, 1 << 20, &text, &n, &e) < 0)
        fail_msg("%s", e.detail ? e.detail : "?");
    doc = json_loads(text, 0, NULL);
    json_object_foreach (json_object_get(doc, "modules"), key, m) {
        const char *file = json_string_value(json_object_get(m, "file"));
        code.len = 0;
        dt_str_addf(&code, "%s/tests/corpus/%s/%s", root ? root : ".", name, file);
        if (dt_read_file(code.s, 1 << 20, &code_text, &n, &e) < 0)
            fail_msg("%s", e.detail ? e.detail : "?");
        json_object_set_new(m, strstr(file, ".ptx") ? "ptx" : "cuda", json_string(code_text));
        json_object_del(m, "file");
        free(code_text);
    }
    if (dt_graph_from_json(doc, &g, &e) < 0 || dev_prog_new(device, g, NULL, NULL, &p, &e) < 0 ||
        ana_run(device, p, NULL, &a, &e) < 0 || rw_plan(device, p, a, &o, "sha256:0", &ret, &e) < 0)
        fail_msg("%s", e.detail ? e.detail : "?");
    ana_free(a);
    dev_prog_free(p);
    dt_graph_free(g);
    json_decref(doc);
    free(text);
    dt_str_done(&path);
    dt_str_done(&code);
    return ret;
}

static double time_of(const json_t *p, const char *member)
{
    return json_real_value(json_object_get(json_object_get(p, member), "time_us"));
}

/* One entry a candidate; the dropped ones say both times, of which the one without it is the plan's or was one on the
 * way there. */
static unsigned dropped(const json_t *p)
{
    const json_t *list = json_object_get(p, "rewrites");
    unsigned n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        const char *why = json_string_value(json_object_get(x, "reason"));
        for (size_t k = 0; k < i; k++)
            assert_false(
                json_equal(json_object_get(x, "launches"), json_object_get(json_array_get(list, k), "launches")) &&
                json_equal(json_object_get(x, "kind"), json_object_get(json_array_get(list, k), "kind")));
        if (!why || strncmp(why, "it gained", 9))
            continue;
        n++;
        assert_string_equal(json_string_value(json_object_get(x, "verdict")), "dropped");
        double without = json_real_value(json_object_get(x, "before_us")),
               with = json_real_value(json_object_get(x, "after_us"));
        assert_true(without < with && without >= time_of(p, "optimized"));
    }
    return n;
}

static void test_faster_without(void **state)
{
    json_t *p = plan("reduce-dot", NULL);
    assert_true(dropped(p) >= 1);
    assert_true(json_is_true(json_object_get(json_object_get(p, "verified"), "bitwise")));
    json_t *q =
        plan("reduce-dot", "programmatic-launch"); /* then there is nothing that the fusion stands in the way of */
    assert_int_equal(dropped(q), 0);
    assert_true(time_of(p, "optimized") < time_of(q, "optimized"));
    json_decref(p);
    json_decref(q);
}

/* A second look that finds nothing leaves no trace: the same plan, byte for byte, as one that had nothing to look
 * at. */
static void test_put_back(void **state)
{
    json_t *p = plan("pointwise", NULL), *q = plan("pointwise", "programmatic-launch");
    assert_int_equal(dropped(p), 0);
    assert_true(json_equal(json_object_get(p, "launches"), json_object_get(q, "launches")));
    assert_true(json_equal(json_object_get(p, "modules"), json_object_get(q, "modules")));
    json_decref(p);
    json_decref(q);
}

/* Of two products and their sum: the sum may go into either product, and then these cannot go side by side. Banned
 * from one, it goes into the other; so both are. */
static void test_either(void **state)
{
    json_t *p = plan("triton-beside-90", NULL), *x;
    size_t i;
    bool beside = false;
    json_array_foreach (json_object_get(p, "rewrites"), i, x)
        beside |= !strcmp(json_string_value(json_object_get(x, "kind")), "parallel-fusion") &&
                  !strcmp(json_string_value(json_object_get(x, "verdict")), "kept");
    assert_true(beside);
    assert_true(dropped(p) >= 1);
    json_decref(p);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_faster_without), cmocka_unit_test(test_put_back),
                                       cmocka_unit_test(test_either)};
    struct dt_err e = {0};
    if (!dev_nvrtc_version() || dev_open("soft:h200", &device, &e) < 0)
        return 77;
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    dev_close(device);
    return r;
}
