/* Recipes (rewrite/plan/recipe.c). A recipe that is followed gives the plan that it was taken from, and nothing else is
 * tried. A recipe from a stranger is refused with the step and the reason, whatever it holds, and has no other effect.
 */
#include "base/subject.h"
#include "memo-list.h"
#include "rewrite-world.h"

static struct dev_device *device;
static struct dt_graph *graph;
static struct dev_prog *prog;
static struct ana_result *ana;

static void make(const char *launches)
{
    struct dt_err e = {0};
    struct dt_str text = {0};
    dt_str_add(&text, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *s = TEXT; *s; s++)
        dt_str_addf(&text, *s == '\n' ? "\\n" : "%c", *s);
    /* clang-format off */
    dt_str_addf(&text, "\"}}, \"buffers\": {" BUFFER("x", "input") "," BUFFER("p", "intermediate") "," BUFFER("q",
    "intermediate") "," BUFFER("s", "output") ","
                BUFFER("z", "input") "," BUFFER("t", "output") "}, \"launches\": [%s]}", launches);
    /* clang-format on */
    must(dt_graph_parse(text.s, text.len, &graph, &e), &e);
    dt_str_done(&text);
    must(dev_prog_new(device, graph, NULL, NULL, &prog, &e), &e);
    must(ana_run(device, prog, NULL, &ana, &e), &e);
}

static int done(void **state)
{
    ana = ana_free(ana);
    dev_prog_free(prog);
    dt_graph_free(graph);
    return 0;
}

/* x -f-> p -g-> q -f-> s, and z -g-> t beside it. */
static int chain(void **state)
{
    make(KEEP("a", "f", "x", "p") "," KEEP("b", "g", "p", "q") "," KEEP("d", "f", "q", "s") "," KEEP("side", "g", "z",
                                                                                                     "t"));
    return 0;
}

/* d writes again what a wrote, after b has read it. */
static int twice(void **state)
{
    make(KEEP("a", "f", "x", "s") "," KEEP("b", "g", "s", "t") "," KEEP("d", "f", "t", "s"));
    return 0;
}

static const struct rw_options quick = {.inputs = 1, .schedules = 1, .library = &memo_list, .stamp = "here"};

static json_t *search(json_t **ret_recipe)
{
    struct dt_err e = {0};
    json_t *plan = NULL;
    must(rw_plan_recipe(device, prog, ana, &quick, "sha256:0", &plan, ret_recipe, &e), &e);
    return plan;
}

static size_t kept_in(const json_t *plan)
{
    size_t n = 0, i;
    json_t *v;
    json_array_foreach (json_object_get(plan, "rewrites"), i, v)
        n += !strcmp(json_string_value(json_object_get(v, "verdict")), "kept");
    return n;
}

static void test_again(void **state)
{
    struct dt_err e = {0};
    struct dt_str why = {0};
    forget();
    misses = 0;
    json_t *recipe = NULL, *same = NULL, *plan = search(&recipe), *again = NULL;
    unsigned tried = misses; /* alone: what the library did not know */
    assert_true(kept_in(plan) > 1);
    assert_int_equal(json_array_size(json_object_get(recipe, "steps")), kept_in(plan));
    forget();
    misses = 0;
    int r = rw_plan_by(device, prog, ana, &quick, "sha256:0", recipe, &again, &same, &why, &e);
    if (r)
        fail_msg("%d: %s %s", r, why.s ? dt_plain(why.s) : "", e.detail ? e.detail : "");
    static const char *const members[] = {"modules",  "launches", "scratch",  "baseline", "optimized",
                                          "timeline", "assumes",  "verified", "original", "buffers"};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!json_equal(json_object_get(plan, members[i]), json_object_get(again, members[i])))
            fail_msg("%s", members[i]);
    assert_true(json_equal(recipe, same));
    /* nothing but the steps was tried */
    assert_true(tried > kept_in(plan));
    assert_int_equal(misses, kept_in(plan));
    assert_int_equal(json_array_size(json_object_get(again, "rewrites")), kept_in(plan));
    json_decref(again);
    json_decref(same);
    /* steps that need not gain by themselves: the plan still has to, and the next recipe says that they need not */
    size_t k;
    json_t *v;
    json_array_foreach (json_object_get(recipe, "steps"), k, v)
        json_object_set_new(v, "detour", json_true());
    again = same = NULL;
    assert_int_equal(rw_plan_by(device, prog, ana, &quick, "sha256:0", recipe, &again, &same, &why, &e), 0);
    assert_true(json_equal(json_object_get(plan, "launches"), json_object_get(again, "launches")));
    assert_true(json_equal(recipe, same));
    json_decref(again);
    json_decref(same);
    json_decref(plan);
    json_decref(recipe);
    /* no step at all: the graph as it is */
    recipe = json_loads("{\"steps\": []}", 0, NULL);
    again = same = NULL;
    assert_int_equal(rw_plan_by(device, prog, ana, &quick, "sha256:0", recipe, &again, &same, &why, &e), 0);
    assert_int_equal(json_array_size(json_object_get(again, "launches")), 4);
    assert_int_equal(json_array_size(json_object_get(again, "rewrites")), 0);
    json_decref(again);
    json_decref(same);
    json_decref(recipe);
    dt_str_done(&why);
}

static void refused(const json_t *recipe, const struct rw_options *o, const char *word)
{
    struct dt_err e = {0};
    struct dt_str why = {0};
    json_t *plan = NULL, *same = NULL;
    int r = rw_plan_by(device, prog, ana, o, "sha256:0", recipe, &plan, &same, &why, &e);
    if (r != 1 || !why.s || !strstr(dt_plain(why.s), word))
        fail_msg("wanted '%s', got %d: %s", word, r, why.s ? why.s : e.detail ? e.detail : "");
    assert_null(plan);
    assert_null(same);
    dt_str_done(&why);
}

#define STEP(more) "{\"kind\": \"block-fusion\", \"level\": \"register\", \"way\": 0, \"launches\": " more "}"
#define STEPS(list) "{\"steps\": [" list "]}"

static void test_hostile(void **state)
{
    static const char *const cases[][2] = {
        {"{}", "no list of steps"},
        {"[]", "no list of steps"},
        {"{\"steps\": 7}", "no list of steps"},
        {"{\"steps\": {\"0\": 1}}", "no list of steps"},
        {STEPS("1"), "step 1 of 1: it is no step"},
        {STEPS("null"), "it is no step"},
        {STEPS("[[[[]]]]"), "it is no step"},
        {STEPS("{}"), "no such rewrite"},
        {STEPS("{\"kind\": 5, \"launches\": [0, 1]}"), "no such rewrite"},
        {STEPS("{\"kind\": \"rm -rf\", \"launches\": [0, 1]}"), "no such rewrite"},
        {STEPS("{\"kind\": \"block-fusion\", \"launches\": [0, 1]}"), "no such rewrite"}, /* it has levels */
        {STEPS("{\"kind\": \"block-fusion\", \"level\": \"shared\", \"way\": 0, \"launches\": [0, 1]}"),
         "no such rewrite"},
        {STEPS("{\"kind\": \"block-fusion\", \"level\": \"register\", \"way\": 4, \"launches\": [0, 1]}"),
         "no such rewrite"},
        {STEPS("{\"kind\": \"block-fusion\", \"level\": \"register\", \"way\": -1, \"launches\": [0, 1]}"),
         "it is no step"},
        {STEPS("{\"kind\": \"block-fusion\", \"level\": \"register\", \"way\": 4294967296, \"launches\": [0, 1]}"),
         "it is no step"},
        {STEPS("{\"kind\": \"block-fusion\", \"level\": [\"register\"], \"way\": 0, \"launches\": [0, 1]}"),
         "it is no step"},
        {STEPS("{\"kind\": \"split\", \"level\": \"register\", \"launches\": [0]}"), "no such rewrite"},
        {STEPS("{\"kind\": \"dataflow-fusion\", \"launches\": [0, 1]}"), "not allowed here"},
        {STEPS("{\"kind\": \"block-fusion\", \"level\": \"register\", \"way\": 0, \"size\": 4, \"launches\": [0, 1]}"),
         "clusters of that size"},
        {STEPS("{\"kind\": \"block-fusion\", \"level\": \"cluster\", \"way\": 0, \"size\": 17, \"launches\": [0, 1]}"),
         "clusters of that size"},
        {STEPS(
             "{\"kind\": \"block-fusion\", \"level\": \"cluster\", \"way\": 0, \"size\": \"4\", \"launches\": [0, 1]}"),
         "clusters of that size"},
        {STEPS("{\"kind\": \"block-fusion\", \"level\": \"register\", \"way\": 0, \"module\": 99999999, \"launches\": "
               "[0, 1]}"),
         "modules of that number"},
        {STEPS(
             "{\"kind\": \"block-fusion\", \"level\": \"register\", \"way\": 0, \"detour\": 1, \"launches\": [0, 1]}"),
         "it is no step"},
        {STEPS(STEP("[]")), "numbers of launches"},
        {STEPS(STEP("{}")), "numbers of launches"},
        {STEPS(STEP("[0, 4]")), "numbers of launches"},
        {STEPS(STEP("[1, 0]")), "numbers of launches"},
        {STEPS(STEP("[1, 1]")), "numbers of launches"},
        {STEPS(STEP("[-1, 1]")), "numbers of launches"},
        {STEPS(STEP("[0, 4294967297]")), "numbers of launches"},
        {STEPS(STEP("[\"0\", 1]")), "numbers of launches"},
        {STEPS(STEP("[0.0, 1]")), "numbers of launches"},
        {STEPS(STEP("[0, 1, 2, 3, 3]")), "numbers of launches"},
        {STEPS(STEP("[0]")), "nothing of the kind"},
        {STEPS(STEP("[0, 2]")), "nothing of the kind"},
        {STEPS(STEP("[0, 1, 2]")), "nothing of the kind"},
        {STEPS("{\"kind\": \"prefetch\", \"launches\": [0, 1, 2, 3]}"), "nothing of the kind"},
        {STEPS(STEP("[0, 1]") "," STEP("[0, 2]")), "step 2 of 2, block-fusion: nothing of the kind"},
        {STEPS(STEP("[0, 1]") "," STEP("[0, 3]")), "step 2 of 2, block-fusion: its launches"},
        {STEPS(STEP("[0, 1]") ", null"), "step 2 of 2: it is no step"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *recipe = json_loads(cases[i][0], 0, NULL);
        assert_non_null(recipe);
        refused(recipe, &quick, cases[i][1]);
        json_decref(recipe);
    }
    json_t *list = json_array(), *recipe = json_pack("{s:o}", "steps", list);
    for (int i = 0; i < 100000; i++)
        json_array_append_new(list, json_loads(STEP("[0, 1]"), 0, NULL));
    refused(recipe, &quick, "it has 100000 steps; for so many launches there are at most 32");
    json_decref(recipe);
    static const char *const deny[] = {"block-fusion"};
    struct rw_options o = quick;
    o.deny = deny;
    o.ndeny = 1;
    recipe = json_loads(STEPS(STEP("[0, 1]")), 0, NULL);
    refused(recipe, &o, "not allowed here");
    o = quick;
    o.budget_s = 1e-6;
    refused(recipe, &o, "half of the budget is spent");
    json_decref(recipe);
}

/* What the predicates say to a search they say to a recipe. */
static void test_legality(void **state)
{
    json_t *recipe = json_loads(STEPS(STEP("[0, 2]")), 0, NULL);
    refused(recipe, &quick, "step 1 of 1, block-fusion: order: 'b'");
    json_decref(recipe);
}

int main(void)
{
    struct dt_err e = {0};
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_again, chain, done),
                                       cmocka_unit_test_setup_teardown(test_hostile, chain, done),
                                       cmocka_unit_test_setup_teardown(test_legality, twice, done)};
    if (dev_open("soft:h200", &device, &e) < 0) {
        fprintf(stderr, "%s\n", e.detail ? e.detail : "?");
        return 77;
    }
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    forget();
    dev_close(device);
    return r;
}
