/* Dataflow fusion through the planner: which flags come of which maps, hazards of all kinds, what a broken count, a
 * missing memset and a missing fence do, and that it is off unless it is allowed. */
#include "rewrite-plans.h"
#include "base/hash.h"
#include "rewrite/emit/flow.h"
#include "rewrite/gate/gate-priv.h"

/* f: 32 numbers a block; pair: a block reads its own and the next block's; zero: each reads block 0's; panel: each of
 * four reads all four of its row; long: long work of 7 numbers a block, from where the block of that number left
 * them. */
static const char source[] =
    "extern \"C\" __global__ void f(const float *a, float *b) { int i = blockIdx.x * 32 + threadIdx.x; b[i] = a[i] * "
    "3.0f + 1.0f; }\n"
    "extern \"C\" __global__ void any(const float *a, float *b) { int i = blockIdx.x * blockDim.x + threadIdx.x; b[i] "
    "= a[i] * 0.5f; }\n"
    "extern \"C\" __global__ void pair(const float *b, float *y) {\n"
    "  int n = gridDim.x * 32, i = blockIdx.x * 32 + threadIdx.x; y[i] = b[i] - b[(i + 32) % n]; }\n"
    "extern \"C\" __global__ void zero(const float *b, float *y) { int i = blockIdx.x * 32 + threadIdx.x; y[i] = "
    "b[threadIdx.x] + 1.0f; }\n"
    "extern \"C\" __global__ void panel(const float *b, float *y) {\n"
    "  __shared__ float s[32]; int t = threadIdx.x, at = blockIdx.y * gridDim.x * 32; float v = 0;\n"
    "  for (int k = 0; k < gridDim.x * 32; k += 32) { s[t] = b[at + k + t]; __syncthreads(); v += s[31 - t]; "
    "__syncthreads(); }\n"
    "  y[at + blockIdx.x * 32 + t] = v; }\n"
    "extern \"C\" __global__ void longer(const float *a, float *b) {\n"
    "  int i = blockIdx.x * 7 + threadIdx.x; float v = threadIdx.x < 7 ? a[i] : 0.0f;\n"
    "  for (int k = 0; k < 3000; k++) v = fmaf(v, 0.5f, 0.25f);\n"
    "  if (threadIdx.x < 7) b[i] = v; }\n";

#define F(name, to) RUN(name, "f", "32,1", B("x") "," B(to))
#define LONG(name, from, to)                                                                                           \
    "{\"name\": \"" name "\", \"module\": \"m\", \"entry\": \"longer\", \"grid\": [140,1,1], \"block\": [32,1,1], "    \
    "\"shared\": 200000, \"args\": [" B(from) "," B(to) "]}"

static void must(int r, const struct dt_err *e)
{
    if (r < 0)
        fail_msg("%s: %s", dt_err_text(r), e->detail ? e->detail : "");
}

/* The table of a plan's only launch that has one; arrays in `a`. */
static struct rw_flow table(const json_t *plan, struct dt_arena *a)
{
    struct rw_flow f = {0};
    bool found = false;
    const char *name;
    json_t *m;
    json_object_foreach (json_object_get((json_t *)plan, "modules"), name, m) {
        struct dt_err e = {0};
        struct ptx_module *ir;
        const char *text = json_string_value(json_object_get(m, "ptx"));
        must(ptx_parse(text, strlen(text), &ir, &e), &e);
        for (uint32_t k = 0; k < ir->nfunc; k++)
            found |= ir->func[k]->is_entry && rw_flow_read(a, ir->func[k], &f) == 0;
        ptx_module_free(ir);
    }
    assert_true(found);
    return f;
}

static size_t steps(const json_t *plan) { return json_array_size(json_object_get(plan, "launches")); }

/* Each producer has other readers than the next: a flag each, two waits. */
static void test_pairs(void **state)
{
    struct dt_arena a = {0};
    json_t *p = plan_of(&rw_dataflow_fusion, F("make", "h") "," RUN("use", "pair", "32,1", B("h") "," B("y")), true);
    verdict(p, "make", "kept", NULL);
    assert_int_equal(steps(p), 2);
    const json_t *clear = launch(p, "flags+make+use"), *l = launch(p, "make+use");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(clear, "memset"), "bytes")), 33 * 32);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json_object_get(p, "scratch"), "t0"), "bytes")),
                     33 * 32);
    assert_true(json_integer_value(json_object_get(clear, "stream")) !=
                json_integer_value(json_object_get(l, "stream")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(l, "after"), 0)), "flags+make+use");
    grid(p, "make+use", 64, 1, "fused_f_pair");
    struct rw_flow f = table(p, &a);
    assert_int_equal(f.n, 64);
    assert_int_equal(f.nflag, 32);
    for (uint32_t v = 0; v < 64; v++) {
        assert_int_equal(f.wait_at[v + 1] - f.wait_at[v], v < 32 ? 0 : 2);
        if (v < 32) {
            assert_int_equal(f.signal[v], v);
            assert_int_equal(f.count[v], 1);
            continue;
        }
        uint32_t x = f.wait[f.wait_at[v]], y = f.wait[f.wait_at[v] + 1], own = v - 32, next = (v - 31) % 32;
        assert_int_equal(f.signal[v], UINT32_MAX);
        assert_true((x == own && y == next) || (x == next && y == own));
    }
    dt_arena_done(&a);
    json_decref(p);
}

/* Eight rows of four blocks that all feed all four of the next launch's row: a flag a row, four signals, one wait.
 * Those that nobody reads have none. */
static void test_panels(void **state)
{
    struct dt_arena a = {0};
    json_t *p =
        plan_of(&rw_dataflow_fusion,
                RUN("make", "panel", "4,8", B("x") "," B("h")) "," RUN("use", "panel", "4,8", B("h") "," B("y")), true);
    verdict(p, "make", "kept", NULL);
    struct rw_flow f = table(p, &a);
    assert_int_equal(f.nflag, 8);
    for (uint32_t v = 0; v < 32; v++) {
        assert_int_equal(f.signal[v], v / 4);
        assert_int_equal(f.count[v / 4], 4);
        assert_int_equal(f.wait_at[v + 33] - f.wait_at[v + 32], 1);
        assert_int_equal(f.wait[f.wait_at[v + 32]], v / 4);
    }
    json_decref(p);
    p = plan_of(&rw_dataflow_fusion, F("make", "h") "," RUN("use", "zero", "32,1", B("h") "," B("y")), true);
    f = table(p, &a);
    assert_int_equal(f.nflag, 1);
    for (uint32_t v = 0; v < 64; v++) {
        assert_int_equal(f.signal[v], v ? UINT32_MAX : 0);
        assert_int_equal(f.wait_at[v + 1] - f.wait_at[v], v >= 32);
    }
    dt_arena_done(&a);
    json_decref(p);
}

/* h is written again while its readers may still run (WAR), over what its writers left (WAW), and read again: four
 * bodies, other thread counts. */
static void test_hazards(void **state)
{
    json_t *p = plan_of(&rw_dataflow_fusion,
                        F("one", "h") "," RUN("two", "pair", "32,1", B("h") "," B("g")) "," RUN(
                            "three", "panel", "4,8",
                            B("g") "," B("h")) ","
                                               "{\"name\": \"four\", \"module\": \"m\", \"entry\": \"any\", \"grid\": "
                                               "[16,1,1], \"block\": [64,1,1], \"args\": [" B("h") "," B("y") "]}",
                        true);
    verdict(p, "one", "kept", NULL);
    assert_int_equal(steps(p), 2);
    grid(p, "one+two+three+four", 32 + 32 + 32 + 16, 1, "fused_f_pair_panel_any");
    json_decref(p);
}

static void test_refused(void **state)
{
    json_t *p = plan_of(
        &rw_dataflow_fusion,
        F("make", "h") ",{\"name\": \"copy\", \"copy\": {\"from\": {\"buffer\": \"h\"}, \"to\": {\"buffer\": \"g\"}, "
                       "\"bytes\": 4096}},"
                       "{\"name\": \"use\", \"module\": \"m\", \"entry\": \"pair\", \"grid\": [32,1,1], \"block\": "
                       "[32,1,1], \"args\": [" B("g") "," B("h") "]}," RUN("last", "f", "32,1", B("h") "," B("y")),
        true);
    verdict(p, "make", "refused", "order: 'copy' depends on 'make' and 'use' depends on it");
    json_decref(p);
}

/* 132 SMs, one block each, 140 blocks: as launches two waves and two waves; as one 280 blocks, the tail of the first
 * beside the head of the second. */
static void test_gains(void **state)
{
    const char *launches = F("first", "h") "," LONG("one", "h", "g") "," LONG("two", "g", "y");
    json_t *p = plan_of(&rw_dataflow_fusion, launches, false);
    verdict(p, "one", "kept", NULL);
    double before = json_real_value(json_object_get(json_object_get(p, "baseline"), "time_us")),
           after = json_real_value(json_object_get(json_object_get(p, "optimized"), "time_us"));
    assert_true(after < 0.9 * before && after > 0.75 * before); /* three waves of four, and the flags */
    json_decref(p);
    p = plan_of(&rw_dataflow_fusion, F("make", "h") "," RUN("use", "pair", "32,1", B("h") "," B("y")), false);
    verdict(p, "make", "dropped", "modeled"); /* the memset's launch costs what is saved, and the flags come on top */
    json_decref(p);
}

static void test_off(void **state)
{
    const char *name = "dataflow-fusion";
    const struct rw_options none = {0}, allow = {.allow = &name, .nallow = 1},
                            deny = {.allow = &name, .nallow = 1, .deny = &name, .ndeny = 1};
    assert_ptr_equal(rw_find_rewrite(name), &rw_dataflow_fusion);
    assert_false(rw_kind_allowed(&none, &rw_dataflow_fusion));
    assert_true(rw_kind_allowed(&allow, &rw_dataflow_fusion));
    assert_false(rw_kind_allowed(&deny, &rw_dataflow_fusion));
}

/* ---- plans that somebody has changed ----------------------------------------------------------------------------- */

/* Run the plan; under the race detector that knows flags with `races`. What went wrong, 0: nothing; *waits: what the
 * static check says. */
static int run(json_t *plan, int times, uint64_t order, bool races, struct dt_err *e, struct dt_err *waits)
{
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct dev_run *r = NULL;
    must(dt_graph_from_json(plan, &g, e), e);
    must(dev_prog_new(device, g, NULL, NULL, &p, e), e);
    int x = rw_waits_check(device, p, NULL, NULL, waits);
    assert_true((x == 0) == !waits->detail);
    must(rw_watch(device, true, order, races, e), e);
    must(dev_run_new(device, p, &r, e), e);
    must(dev_run_fill(r, 0, 0, e), e);
    for (x = 0; times-- && x == 0;)
        x = dev_run_once(r, e);
    dev_run_free(r);
    if (x < 0) {
        struct dt_err again = {0};
        must(dev_reset(device, &again), &again);
    } else {
        must(rw_watch(device, true, 0, false, e), e);
    }
    dev_prog_free(p);
    dt_graph_free(g);
    return x;
}

/* In the module that dataflow fusion made: the first `from` becomes `to`, of the same length or not. */
static void change(json_t *plan, const char *from, const char *to)
{
    json_t *m;
    const char *name;
    json_object_foreach (json_object_get(plan, "modules"), name, m) {
        const char *text = json_string_value(json_object_get(m, "ptx")),
                   *at = strstr(text, "_flow[") ? strstr(text, from) : NULL;
        struct dt_str s = {0};
        if (!at)
            continue;
        dt_str_addn(&s, text, (size_t)(at - text));
        dt_str_addf(&s, "%s%s", to, at + strlen(from));
        json_object_set_new(m, "ptx", json_string(s.s));
        dt_str_done(&s);
        return;
    }
    fail_msg("there is no %s", from);
}

static json_t *panels(void)
{
    return plan_of(&rw_dataflow_fusion,
                   RUN("make", "panel", "4,8", B("x") "," B("h")) "," RUN("use", "panel", "4,8", B("h") "," B("y")),
                   true);
}

static void wanted(const struct dt_err *e, const char *what)
{
    if (!e->detail || !strstr(e->detail, what))
        fail_msg("wanted '%s', got '%s'", what, e->detail ? e->detail : "nothing");
}

/* The counts are the table's last eight numbers, 4 0 4 0 …, the last zero not written; the last one becomes 5. */
static void test_count(void **state)
{
    struct dt_err e = {0}, waits = {0};
    json_t *p = panels();
    must(run(p, 3, 0, false, &e, &waits), &e); /* as it was made: again and again */
    change(p, "4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4};", "4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 5};");
    assert_int_equal(run(p, 1, 0, false, &e, &waits), DT_E_TRAP);
    wanted(&e, "dataflow-fusion: it has not come after 4194304 polls");
    wanted(&e, "fused_panel_panel");
    wanted(&e, "flag:7");
    wanted(&waits, "waits for 5 signals of flag 7, which gets 4");
    dt_err_done(&e);
    dt_err_done(&waits);
    json_decref(p);
    p = panels(); /* after the trap the device works as before */
    must(run(p, 1, 0, false, &e, &waits), &e);
    json_decref(p);
}

/* Without the memset the second run finds the tickets drawn: an end that names it, and no table is read beyond its
 * end. */
static void test_memset(void **state)
{
    struct dt_err e = {0}, waits = {0};
    json_t *p = panels(), *all = json_object_get(p, "launches");
    json_array_remove(all, 0);
    json_object_del(json_array_get(all, 0), "after");
    json_object_set_new(json_object_get(json_object_get(p, "scratch"), "t0"), "fill", json_pack("{s:b}", "zero", 1));
    assert_int_equal(run(p, 2, 0, false, &e, &waits), DT_E_TRAP);
    wanted(&e, "flag:4294967295");
    wanted(&waits, "does not wait for a memset of all of its flags");
    dt_err_done(&e);
    dt_err_done(&waits);
    json_decref(p);
    p = panels(); /* a memset that does not reach the last flag */
    json_object_set_new(json_object_get(json_array_get(json_object_get(p, "launches"), 0), "memset"), "bytes",
                        json_integer(8 * 32));
    run(p, 1, 0, false, &e, &waits);
    wanted(&waits, "does not wait for a memset of all of its flags");
    dt_err_done(&e);
    dt_err_done(&waits);
    json_decref(p);
}

/* Tables from elsewhere: whatever is in them, they are read, refused or found unsound, never trusted. */
static void test_hostile(void **state)
{
    struct dt_err e = {0};
    json_t *p = panels(), *m;
    const char *name;
    unsigned sound = 0, read = 0;
    json_object_foreach (json_object_get(p, "modules"), name, m) {
        struct ptx_module *ir;
        const char *text = json_string_value(json_object_get(m, "ptx"));
        if (!strstr(text, "_flow["))
            continue;
        must(ptx_parse(text, strlen(text), &ir, &e), &e);
        struct ptx_function *f = ptx_find_function(ir, "fused_panel_panel");
        struct ptx_var *v = ptx_find_var(ir, "fused_panel_panel_flow");
        assert_true(f && v && v->init);
        for (uint64_t k = 0; k < 20000; k++) {
            uint64_t z = dt_splitmix64(1, k);
            size_t at = k % 4 ? z % v->bytes : z % 16; /* the head more often */
            uint8_t was = v->init[at];
            v->init[at] = (uint8_t)(z >> 32);
            struct dt_arena a = {0};
            struct rw_flow t;
            struct dt_str why = {0};
            if (rw_flow_read(&a, f, &t) == 0) {
                read++;
                bool ok = rw_flow_sound(&t, &why);
                assert_true(ok || why.len);
                sound += ok;
            }
            dt_str_done(&why);
            dt_arena_done(&a);
            v->init[at] = was;
        }
        uint8_t *all = v->init;
        uint64_t bytes = v->bytes;
        for (v->bytes = 0; v->bytes < bytes; v->bytes++) { /* cut short */
            struct dt_arena a = {0};
            struct rw_flow t;
            assert_int_equal(rw_flow_read(&a, f, &t), DT_E_GRAPH);
            dt_arena_done(&a);
        }
        v->init = NULL;
        v->bytes = bytes;
        struct dt_arena a = {0};
        struct rw_flow t;
        assert_int_equal(rw_flow_read(&a, f, &t), DT_E_GRAPH);
        dt_arena_done(&a);
        v->init = all;
        ptx_module_free(ir);
    }
    assert_true(read > 5000 && sound < read);
    json_decref(p);
}

/* What the flags order is ordered for the race detector, under any order of blocks; without release, or acquire, or the
 * barrier before, it is not. */
static void test_order(void **state)
{
    static const struct {
        const char *from, *to;
    } broken[] = {
        {"fence.acq_rel.gpu;", ";"},
        {"ld.acquire.gpu.global.u32", "ld.relaxed.gpu.global.u32"},
        {"TAIL:\n\tbarrier.sync 0;", "TAIL:\n"},
    };
    struct dt_err e = {0}, waits = {0};
    json_t *p = panels();
    for (uint64_t order = 0; order < 6; order++)
        must(run(p, 1, order, true, &e, &waits), &e);
    json_decref(p);
    for (size_t k = 0; k < sizeof broken / sizeof *broken; k++) {
        p = panels();
        change(p, broken[k].from, strcmp(broken[k].to, ";") ? broken[k].to : "");
        if (!k)
            change(p, "red.release.gpu", "red.relaxed.gpu");
        int r = run(p, 1, 3, true, &e, &waits);
        if (r != DT_E_RACE)
            fail_msg("%s: %d %s", broken[k].from, r, e.detail ? e.detail : "no race");
        dt_err_done(&e);
        dt_err_done(&waits);
        json_decref(p);
    }
}

/* The analysis of what was made covers what was posted, and lets nothing touch it again. */
static void test_analysis(void **state)
{
    struct dt_err e = {0};
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct ana_result *a = NULL;
    json_t *plan = panels();
    must(dt_graph_from_json(plan, &g, &e), &e);
    must(dev_prog_new(device, g, NULL, NULL, &p, &e), &e);
    must(ana_run(device, p, NULL, &a, &e), &e);
    assert_true(a->launch[1].self_conflict);
    for (int k = 0; k < 3; k++) {
        static const char *const name[] = {"x", "h", "y"};
        struct dt_arena arena = {0};
        uint32_t b = dt_graph_find_buffer(g, name[k]);
        struct ana_set all = rw_launch_bytes(&arena, a, 1, b, k > 0);
        struct ana_interval whole = {0, 4096};
        assert_true(ana_set_contains(all, (struct ana_set){&whole, 1}));
        dt_arena_done(&arena);
    }
    const struct dev_info *info = dev_info(device);
    struct rw_cand c;
    const uint32_t one[] = {1};
    static const struct rw_legal rows[] = {RW_LEGAL_ROW(self_conflict)}, order[] = {RW_LEGAL_ROW(ordered_access)};
    struct dt_str why = {0};
    must(rw_cand_open(&c, info, p, a, NULL, one, 1, &e), &e);
    assert_false(rw_legal_rows(rows, 1, &c, &why));
    assert_false(rw_legal_rows(order, 1, &c, &why));
    dt_str_done(&why);
    rw_cand_done(&c);
    ana_free(a);
    dev_prog_free(p);
    dt_graph_free(g);
    json_decref(plan);
}

static int all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),   cmocka_unit_test(test_panels),  cmocka_unit_test(test_hazards),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_gains),   cmocka_unit_test(test_off),
        cmocka_unit_test(test_count),   cmocka_unit_test(test_memset),  cmocka_unit_test(test_order),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_analysis)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return run_plans(source, all); }
