/* The plan document read back (rewrite/plan/written.c): what is printed of a state with two streams, an `after` that no
 * data needs, a programmatic launch, a cluster, a memset, a copy and every kind of argument is that state; with any one
 * thing changed it is not, and the planner that notices gives the posted launches back. */
#include "rewrite-plans.h"

#include "rewrite/plan/plan-priv.h"

#include "base/subject.h"

#define KERNEL(name, first, last)                                                                                      \
    ".visible .entry " name "(.param .u64 x, .param .u64 y, .param .u32 n, .param .f32 f, .param .align 8 .b8 s[16], " \
    ".param .align 64 .b8 t[128])\n{\n"                                                                                \
    ".reg .b32 %r<5>; .reg .b64 %a<9>; .reg .f32 %f<5>;\n" first                                                       \
    "ld.param.u64 %a1, [x]; ld.param.u64 %a3, [y];\nmov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;\n"                     \
    "shl.b32 %r3, %r1, 5; add.u32 %r3, %r3, %r2; mul.wide.u32 %a4, %r3, 4; add.u64 %a5, %a1, %a4; add.u64 %a7, %a3, "  \
    "%a4;\n"                                                                                                           \
    "ld.global.f32 %f1, [%a5]; add.rn.f32 %f2, %f1, %f1; st.global.f32 [%a7], %f2;\n" last "ret;\n}\n"
static const char text[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n" KERNEL("k", "", "") KERNEL("waits", "griddepcontrol.wait;\n", "");

#define MAP                                                                                                            \
    "{\"tensor_map\": {\"buffer\": \"x\", \"offset\": 0, \"tensorDataType\": \"CU_TENSOR_MAP_DATA_TYPE_FLOAT32\", "    \
    "\"tensorRank\": 2, "                                                                                              \
    "\"globalDim\": [32, 8], \"globalStrides\": [128], \"boxDim\": [32, 4], \"elementStrides\": [1, 1]}}"
#define ARGS(x, y)                                                                                                     \
    "\"args\": [{\"buffer\": \"" x "\", \"offset\": 128}, {\"buffer\": \"" y                                           \
    "\"}, {\"u32\": 7}, {\"f32\": \"0x7fc00001\"}, "                                                                   \
    "{\"bytes\": \"00112233445566770000000000000000\", \"pointers\": [{\"at\": 8, \"buffer\": \"x\", \"offset\": "     \
    "64}]}, " MAP "]"
#define K(name, entry, x, y, more)                                                                                     \
    "{\"name\": \"" name "\", \"module\": \"m\", \"entry\": \"" entry                                                  \
    "\", \"grid\": [4,1,1], \"block\": [32,1,1], \"shared\": 64, " ARGS(x, y) more "}"
/* clang-format off */
static const char launches[] =
    "{\"name\": \"set\", \"memset\": {\"buffer\": \"h\", \"bytes\": 2048, \"value\": 3}, \"stream\": 0, \"after\": []},"
    K("a", "k", "x", "h", ", \"cluster\": [2,1,1], \"stream\": 0, \"after\": [\"set\"]") ","
    K("b", "k", "x", "g", ", \"stream\": 1, \"after\": [\"set\"]") "," /* nothing of `set` is read */
    "{\"name\": \"move\", \"copy\": {\"from\": {\"buffer\": \"h\", \"offset\": 16}, \"to\": {\"buffer\": \"c\"}, "
    "\"bytes\": 512}, \"stream\": 0, \"after\": [\"a\"]},"
    K("j", "k", "g", "y", ", \"stream\": 0, \"after\": [\"b\"]") ","
    K("d", "waits", "c", "z", ", \"stream\": 0, \"after\": [], \"programmatic\": true");
/* clang-format on */

static struct dt_graph *g;
static struct dev_prog *p;
static struct ana_result *a;

static json_t *written(void)
{
    static const struct rw_options none;
    struct dt_err e = {0};
    struct rw_planner planner = {.dev = device, .opt = &none};
    struct rw_state s = {.graph = g, .prog = p, .ana = a, .borrowed = true};
    assert_true(dt_push(&planner.state, s));
    json_t *doc = rw_plan_json(&planner, &e);
    free(planner.state.p);
    assert_non_null(doc);
    return doc;
}

static int read_back(json_t *doc, struct dt_str *why)
{
    struct dt_err e = {0};
    struct rw_state s = {.graph = g, .prog = p, .ana = a};
    int r = rw_written(doc, &s, why, &e);
    if (r < 0)
        fail_msg("%s", e.detail);
    return r;
}

static int open_graph(void **state)
{
    struct dt_str doc = {0};
    struct dt_err e = {0};
    json_t *o;
    /* clang-format off */
    dt_str_addf(&doc, "{\"dovetail\": 1, \"modules\": {}, \"buffers\": {" FILL("x", "input", "f32", "1") "," BUF("g",
    "intermediate") "," BUF("h", "intermediate") ","
                      BUF("c", "intermediate") "," BUF("y", "output") "," BUF("z", "output")
                      "}, \"scratch\": {\"t0\": {\"bytes\": 64}}, \"launches\": [%s]}", launches);
    /* clang-format on */
    o = json_loads(doc.s, 0, NULL);
    assert_non_null(o);
    json_object_set_new(json_object_get(o, "modules"), "m", json_pack("{s:s}", "ptx", text));
    if (dev_open("soft:h200", &device, &e) < 0 || dt_graph_from_json(o, &g, &e) < 0 ||
        dev_prog_new(device, g, NULL, NULL, &p, &e) < 0 || ana_run(device, p, NULL, &a, &e) < 0)
        fail_msg("%s", e.detail ? e.detail : "?");
    json_decref(o);
    dt_str_done(&doc);
    return 0;
}

static int close_graph(void **state)
{
    ana_free(a);
    dev_prog_free(p);
    dt_graph_free(g);
    dev_close(device);
    return 0;
}

/* Where in the document ("1/grid": of launch 1; else from the top), what stands there instead (NULL: nothing), what is
 * said. */
static const struct {
    const char *at, *value, *why;
} wrong[] = {
    {"0/memset/value", "4", "'set': what it does"},
    {"0/memset/bytes", "1024", "'set': what it does"},
    {"0/memset/buffer", "\"g\"", "'set': what it does"},
    {"0/memset/offset", "64", "'set': what it does"},
    {"0/stream", "1", "'set': its stream"},
    {"1/name", "\"other\"", "it cannot be read"},
    {"4/name", "\"other\"", "'j': another stands"},
    {"1/entry", "\"waits\"", "'a': its entry"},
    {"1/grid/0", "2", "'a': grid, block or cluster"},
    {"1/block/0", "64", "'a': grid, block or cluster"},
    {"1/cluster", NULL, "'a': grid, block or cluster"},
    {"1/cluster/0", "4", "'a': grid, block or cluster"},
    {"1/shared", "32", "'a': shared memory"},
    {"1/shared", NULL, "'a': shared memory"},
    {"1/args/0/buffer", "\"g\"", "'a': its arguments"},
    {"1/args/0/offset", "0", "'a': its arguments"},
    {"1/args/2", "{\"u32\": 8}", "'a': its arguments"},
    {"1/args/2", "{\"i32\": 7}", "'a': its arguments"},
    {"1/args/3", "{\"f32\": \"0x7fc00000\"}", "'a': its arguments"},
    {"1/args/4/bytes", "\"01112233445566770000000000000000\"", "'a': its arguments"},
    {"1/args/4/pointers", "[]", "'a': its arguments"},
    {"1/args/4/pointers/0/offset", "0", "'a': its arguments"},
    {"1/args/4/pointers/0/at", "0", "'a': its arguments"},
    {"1/args/4/pointers/0/buffer", "\"g\"", "'a': its arguments"},
    {"1/args/5/tensor_map/boxDim/1", "8", "'a': its arguments"},
    {"1/args/5/tensor_map/buffer", "\"g\"", "'a': its arguments"},
    {"1/args/5", NULL, "'a': its arguments"},
    {"2/after", NULL, "'b': an `after` is missing"},
    {"2/after", "[]", "'b': an `after` is missing"},
    {"2/after", "[\"a\"]", "'b': an `after` is missing"},
    {"2/stream", "0", "'b': its stream"},
    {"2/stream", NULL, "'b': its stream"},
    {"3/copy/bytes", "256", "'move': what it does"},
    {"3/copy/from/offset", "0", "'move': what it does"},
    {"3/copy/from/buffer", "\"g\"", "'move': what it does"},
    {"3/copy/to/buffer", "\"g\"", "'move': what it does"},
    {"5/programmatic", "false", "'d': programmatic"},
    {"5/programmatic", NULL, "'d': programmatic"},
    {"5/args/0/buffer", "\"nobody\"", "it cannot be read"},
    {"5", NULL, "the number of launches"},
    {"buffers/x/bytes", "8192", "buffer 'x'"},
    {"buffers/y/role", "\"inout\"", "buffer 'y'"},
    {"buffers/x/fill/seed", "4", "buffer 'x'"},
    {"buffers/x/fill/uniform/1", "2", "buffer 'x'"},
    {"scratch/t0", NULL, "the number of buffers"},
    {"scratch/t0/bytes", "128", "buffer 't0'"},
};

static json_t *step(json_t *o, const char *word)
{
    return json_is_array(o) ? json_array_get(o, (size_t)atoi(word)) : json_object_get(o, word);
}

static void change(json_t *doc, const char *at, const char *value)
{
    char path[128], *save = NULL, *last;
    json_t *o = *at >= '0' && *at <= '9' ? json_object_get(doc, "launches") : doc,
           *v = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    snprintf(path, sizeof path, "%s", at);
    last = strtok_r(path, "/", &save);
    for (char *next; (next = strtok_r(NULL, "/", &save)); last = next)
        o = step(o, last);
    assert_non_null(step(o, last)); /* it is there to be changed */
    assert_true(!value || v);
    if (json_is_array(o))
        assert_int_equal(v ? json_array_set_new(o, (size_t)atoi(last), v) : json_array_remove(o, (size_t)atoi(last)),
                         0);
    else
        assert_int_equal(v ? json_object_set_new(o, last, v) : json_object_del(o, last), 0);
}

static void test_each(void **state)
{
    struct dt_str why = {0};
    json_t *doc = written();
    if (read_back(doc, &why) != 1)
        fail_msg("%s", dt_plain(why.s));
    json_decref(doc);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        doc = written();
        change(doc, wrong[k].at, wrong[k].value);
        if (read_back(doc, &why) != 0 || !strstr(dt_plain(why.s), wrong[k].why))
            fail_msg("%s: %s, not %s", wrong[k].at, why.s ? why.s : "nothing", wrong[k].why);
        dt_str_done(&why);
        json_decref(doc);
    }
    doc = written();
    json_t *m = json_object_get(json_object_get(doc, "modules"), "m");
    json_object_set_new(m, "ptx", json_sprintf("%s\n", json_string_value(json_object_get(m, "ptx"))));
    assert_int_equal(read_back(doc, &why), 0);
    assert_non_null(strstr(dt_plain(why.s), "'a': its module"));
    dt_str_done(&why);
    json_decref(doc);
}

/* Hazards: `j` reads what `b` wrote. The printed `after` has it; without it, it is not waited for, whatever the state
 * itself says. */
static void test_hazard(void **state)
{
    struct dt_str why = {0};
    struct dt_launch *j = &g->launch[4];
    uint32_t had = j->nafter;
    json_t *doc = written();
    change(doc, "4/after", "[\"move\"]");
    j->nafter = 0; /* the state does not ask for it: the hazard does */
    assert_int_equal(read_back(doc, &why), 0);
    assert_non_null(strstr(dt_plain(why.s), "'j': it does not wait for 'b'"));
    dt_str_done(&why);
    change(doc, "4/after", "[\"b\"]");
    assert_int_equal(read_back(doc, &why), 1);
    change(doc, "3/after", "[\"set\"]"); /* and `move` for `a`, by `after` and not by its stream */
    g->launch[3].nafter = 0;
    assert_int_equal(read_back(doc, &why), 0);
    assert_non_null(strstr(dt_plain(why.s), "'move': it does not wait for 'a'"));
    g->launch[3].nafter = 1;
    j->nafter = had;
    dt_str_done(&why);
    json_decref(doc);
}

#define TILE RUN("write", "tile", "8,4", B("x") "," B("h"))
#define CELLS RUN("read", "cells", "11,1", B("h") "," B("y"))
static const char source[] = "extern \"C\" __global__ void tile(const float *a, float *b) { int i = (blockIdx.x + 8 * "
                             "blockIdx.y) * 32 + threadIdx.x; b[i] = a[i] + 1.0f; }\n"
                             "extern \"C\" __global__ void cells(const float *b, float *y) { y[blockIdx.x * 32 + "
                             "threadIdx.x] = b[blockIdx.x * 96 + threadIdx.x] * 2.0f; }\n";

static void test_planner(void **state)
{
    json_t *plan = plan_of(&rw_dead_blocks, TILE "," CELLS, true);
    verdict(plan, "write", "kept", NULL);
    assert_string_equal(json_string_value(json_array_get(json_object_get(launch(plan, "read"), "after"), 0)), "write");
    json_decref(plan);
    rw_hooks.spoil = "written";
    plan = plan_of(&rw_dead_blocks, TILE "," CELLS, true);
    rw_hooks.spoil = NULL;
    verdict(plan, "write", "refused",
            "internal: the plan as it was written is not the one that was verified: launch 'read': it does not wait "
            "for 'write'");
    grid(plan, "write", 8, 4, "tile");
    assert_string_equal(json_string_value(json_array_get(json_object_get(launch(plan, "read"), "after"), 0)), "write");
    json_decref(plan);
}

static int planned(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_planner)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each), cmocka_unit_test(test_hazard)};
    int r = cmocka_run_group_tests(tests, open_graph, close_graph);
    return r ? r : run_plans(source, planned);
}
