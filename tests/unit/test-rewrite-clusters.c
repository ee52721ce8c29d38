/* What every kind of rewrite does with a launch in clusters, through the whole planner: goes on in clusters, is
 * inlined, starts early, prefetches, or is refused by name. What is kept has been held to the original byte by byte,
 * and to the static check of waits and clusters. */
#include "rewrite-plans.h"

#define SYNC "asm volatile(\"barrier.cluster.arrive.aligned;\\n\\tbarrier.cluster.wait.aligned;\" ::: \"memory\");"
#define NEXT(v)                                                                                                        \
    "asm(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(rank)); asm(\"mapa.shared::cluster.u32 %0, %1, %2;\" : "          \
    "\"=r\"(at) : \"r\"((unsigned)__cvta_generic_to_shared(&s[t])), \"r\"((rank + 1) % 4)); "                          \
    "asm volatile(\"ld.shared::cluster.f32 %0, [%1];\" : \"=f\"(" v ") : \"r\"(at) : \"memory\");"

/* ring: a block takes what the next one of its cluster of four has; loop: the same four times; quiet: nothing of a
 * cluster in it. */
static const char source[] =
    "extern \"C\" __global__ void f(const float *a, float *b) { int i = blockIdx.x * 32 + threadIdx.x; b[i] = a[i] * "
    "3.0f + 1.0f; }\n"
    "extern \"C\" __global__ void add(const float *a, const float *b, float *y) { int i = blockIdx.x * 32 + "
    "threadIdx.x; y[i] = a[i] + b[i]; }\n"
    "extern \"C\" __global__ void back(const float *a, float *b) {\n"
    "  __shared__ float s[32]; int t = threadIdx.x; s[t] = a[blockIdx.x * 32 + t]; __syncthreads(); b[blockIdx.x * 32 "
    "+ t] = s[31 - t]; }\n"
    "extern \"C\" __global__ void first(const float *a, float *b) { int i = blockIdx.x * 32 + threadIdx.x; if (i < "
    "512) b[i] = a[i]; }\n"
    "extern \"C\" __global__ void ring(const float *a, float *b) {\n"
    "  __shared__ float s[32]; unsigned t = threadIdx.x, rank, at; float v; s[t] = a[blockIdx.x * 32 + t]; " SYNC
    " " NEXT("v") " " SYNC "\n"
                  "  b[blockIdx.x * 32 + t] = v + rank; }\n"
                  /* its shape is in its text */
                  "extern \"C\" __global__ void __cluster_dims__(4, 1, 1) dims(const float *a, float *b) {\n"
                  "  __shared__ float s[32]; unsigned t = threadIdx.x, rank, at; float v; s[t] = a[blockIdx.x * 32 + "
                  "t]; " SYNC " " NEXT("v") " " SYNC "\n"
                                            "  b[blockIdx.x * 32 + t] = v - rank; }\n"
                                            "extern \"C\" __global__ void loop(const float *a, float *b, int n) {\n"
                                            "  __shared__ float s[32]; unsigned t = threadIdx.x, rank, at; float v = "
                                            "0, w; s[t] = a[blockIdx.x * 32 + t];\n"
                                            "  for (int k = 0; k < n; k++) { " SYNC
                                            " " NEXT("w") " " SYNC " v += w; s[t] = v; }\n"
                                                          "  b[blockIdx.x * 32 + t] = v; }\n";

#define CL(name, entry, args)                                                                                          \
    "{\"name\": \"" name "\", \"module\": \"m\", \"entry\": \"" entry                                                  \
    "\", \"grid\": [32,1,1], \"block\": [32,1,1], \"cluster\": [4,1,1], \"args\": [" args "]}"
#define PLAIN(name, entry, args) RUN(name, entry, "32,1", args)
#define RING(name, from, to) CL(name, "ring", B(from) "," B(to))

static size_t steps(const json_t *plan) { return json_array_size(json_object_get(plan, "launches")); }
/* Block fusion has a pass of its own for level `cluster`. */
static json_t *fused(const char *levels, const char *launches)
{
    rw_hooks.levels = levels;
    json_t *p = plan_of(&rw_block_fusion, launches, true);
    rw_hooks.levels = NULL;
    return p;
}

static json_int_t ranks(const json_t *l)
{
    return json_integer_value(json_array_get(json_object_get(l, "cluster"), 0));
}

/* Three in a row, by pairs: one launch in clusters of four. */
static void test_chain(void **state)
{
    json_t *p = fused("cluster", RING("r", "x", "h") "," PLAIN("b", "back", B("h") "," B("g")) "," RING("q", "g", "y"));
    (void)state;
    assert_int_equal(steps(p), 1);
    assert_int_equal(ranks(launch(p, "r+b+q")), 4);
    json_decref(p);
    p = fused("cluster", PLAIN("r", "dims", B("x") "," B("h")) "," PLAIN("b", "back", B("h") "," B("y")));
    assert_int_equal(steps(p), 1);
    assert_int_equal(ranks(launch(p, "r+b")), 4);
    json_decref(p);
}

/* Inlined on either side: grid and clusters are the host's. */
static void test_inlined(void **state)
{
    json_t *p = fused(
        "register", PLAIN("a", "f", B("x") "," B("h")) "," RING("r", "h", "g") "," PLAIN("c", "f", B("g") "," B("y")));
    (void)state;
    assert_int_equal(steps(p), 1);
    assert_int_equal(ranks(launch(p, "a+r+c")), 4);
    grid(p, "a+r+c", 32, 1, "fused_f_ring_f");
    json_decref(p);
}

/* A launch that has clusters and does not use them is like any other. */
static void test_quiet(void **state)
{
    json_t *p = fused("shared", CL("r", "back", B("x") "," B("h")) "," CL("b", "back", B("h") "," B("y")));
    (void)state;
    assert_int_equal(steps(p), 1);
    json_decref(p);
}

static void test_programmatic(void **state)
{
    json_t *p = plan_of(&rw_programmatic,
                        RING("r", "x", "h") "," RING("q", "h", "g") "," PLAIN("b", "back", B("g") "," B("y")), true);
    (void)state;
    verdict(p, "r", "kept", NULL);
    assert_int_equal(steps(p), 3);
    assert_true(json_is_true(json_object_get(launch(p, "q"), "programmatic")) && ranks(launch(p, "q")) == 4);
    assert_true(json_is_true(json_object_get(launch(p, "b"), "programmatic")));
    json_decref(p);
    /* barriers in a loop: a posted kernel may, also where it waits for the one before */
    p = plan_of(&rw_programmatic,
                PLAIN("b", "back", B("x") "," B("h")) "," CL("q", "loop", B("h") "," B("y") ",{\"i32\": 4}"), true);
    verdict(p, "b", "kept", NULL);
    assert_true(json_is_true(json_object_get(launch(p, "q"), "programmatic")) && ranks(launch(p, "q")) == 4);
    json_decref(p);
}

static void test_prefetch(void **state)
{
    json_t *p = plan_of(&rw_prefetch, RING("r", "x", "h") "," PLAIN("c", "add", B("h") "," B("at") "," B("y")), true);
    (void)state;
    verdict(p, "r", "kept", NULL);
    assert_int_equal(ranks(launch(p, "r")), 4);
    grid(p, "r", 32, 1, "ring"); /* no spare blocks */
    json_decref(p);
}

/* By name. (Split and spare blocks of prefetch: `single_blocks`, test-rewrite-split.c and mutants.py.) */
static void test_refused(void **state)
{
    static const struct {
        const struct rw_rewrite *kind;
        const char *launches, *first, *reason;
    } row[] = {
        {&rw_dead_blocks, CL("r", "f", B("x") "," B("h")) "," PLAIN("c", "first", B("h") "," B("y")), "r",
         "clusters: 'r' is launched in clusters, whose blocks start together"},
        {&rw_block_fusion, RING("r", "x", "h") "," PLAIN("c", "back", B("h") "," B("y")), "r",
         "clusters: 'r' uses its clusters of 4 blocks"},
        {&rw_block_fusion, CL("r", "loop", B("x") "," B("h") ",{\"i32\": 4}") "," PLAIN("c", "f", B("h") "," B("y")),
         "r", "clusters: 'r' need not meet"},
        {&rw_recompute,
         RING("r", "x", "h") "," PLAIN("b", "back", B("h") "," B("g")) "," PLAIN("c", "add",
                                                                                 B("h") "," B("g") "," B("y")),
         "r", "clusters: 'r' uses"},
    };
    (void)state;
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        json_t *p = row[k].kind == &rw_block_fusion ? fused("register,shared,global", row[k].launches)
                                                    : plan_of(row[k].kind, row[k].launches, true);
        verdict(p, row[k].first, "refused", row[k].reason);
        json_decref(p);
    }
}

/* Side by side, or waiting for each other by flags: not proposed, and the launches stay. */
static void test_not_proposed(void **state)
{
    json_t *p =
        plan_of(&rw_parallel_fusion,
                RING("r", "x", "h") "," RING("q", "x", "g") "," PLAIN("c", "add", B("h") "," B("g") "," B("y")), true);
    (void)state;
    assert_int_equal(steps(p), 3);
    verdict(p, "r", NULL, NULL);
    json_decref(p);
    p = plan_of(&rw_dataflow_fusion, RING("r", "x", "h") "," PLAIN("c", "back", B("h") "," B("y")), true);
    assert_int_equal(steps(p), 2);
    verdict(p, "r", NULL, NULL);
    json_decref(p);
}

static int tests(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_chain),        cmocka_unit_test(test_inlined),  cmocka_unit_test(test_quiet),
        cmocka_unit_test(test_programmatic), cmocka_unit_test(test_prefetch), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_not_proposed),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}

int main(void) { return run_plans(source, tests); }
