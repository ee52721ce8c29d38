/* Recompute through the planner: one and two consumers, blocks that share a producer, and what refuses it. */
#include "rewrite-plans.h"

/* f: 32 numbers a block; pair: a block reads its own and the next block's; last: each reads block 0's; swap: in place
 * on its input. */
static const char source[] =
    "extern \"C\" __global__ void f(const float *a, float *b) { int i = blockIdx.x * 32 + threadIdx.x; b[i] = a[i] * "
    "3.0f; }\n"
    "extern \"C\" __global__ void pair(const float *b, float *y) {\n"
    "  int n = gridDim.x * 32, i = blockIdx.x * 32 + threadIdx.x; y[i] = b[i] - b[(i + 32) % n]; }\n"
    "extern \"C\" __global__ void zero(const float *b, float *y) { int i = blockIdx.x * 32 + threadIdx.x; y[i] = "
    "b[threadIdx.x] + 1.0f; }\n"
    "extern \"C\" __global__ void spoil(const float *b, float *y, float *x) {\n"
    "  int i = blockIdx.x * 32 + threadIdx.x; y[i] = b[i]; x[i] = b[(i + 32) % 1024]; }\n"
    "extern \"C\" __global__ void twice(float *b) { int i = blockIdx.x * 32 + threadIdx.x; b[i] = b[i] * 2.0f; }\n";

#define F(name, to) RUN(name, "f", "32,1", B("x") "," B(to))

/* Every block reads two producers, every producer has two readers: block fusion would make one block of all. */
static void test_shared(void **state)
{
    json_t *p = plan_of(&rw_recompute, F("make", "h") "," RUN("use", "pair", "32,1", B("h") "," B("y")), false);
    verdict(p, "make", "kept", NULL);
    assert_int_equal(json_array_size(json_object_get(p, "launches")), 1);
    grid(p, "make+use", 32, 1, "fused_f_pair");
    assert_int_equal(json_array_size(json_object_get(launch(p, "make+use"), "args")), 2); /* h is gone */
    json_decref(p);
}

/* Two launches read it: each has it again. The second waits for nothing of the first, and stands behind it as
 * before. */
static void test_two(void **state)
{
    json_t *p =
        plan_of(&rw_recompute,
                F("make", "h") "," RUN("one", "pair", "32,1", B("h") "," B("g")) "," RUN(
                    "two", "zero", "16,1", B("h") "," B("y")) "," RUN("three", "f", "16,1",
                                                                      B("g") ","
                                                                             "{\"buffer\": \"y\", \"offset\": 2048}"),
                true);
    json_t *r = json_array_get(json_object_get(p, "rewrites"), 0);
    assert_int_equal(json_array_size(json_object_get(r, "launches")), 3); /* make, one, two */
    grid(p, "make+two", 16, 1, "fused_f_zero");
    assert_null(launch(p, "make"));
    assert_null(launch(p, "one"));
    json_decref(p);
}

static void test_refused(void **state)
{
    json_t *p =
        plan_of(&rw_recompute,
                RUN("copy", "f", "32,1", B("x") "," B("g")) "," RUN("make", "f", "32,1", B("g") "," B("h")) "," RUN(
                    "use", "spoil", "32,1", B("h") "," B("y") "," B("g")),
                true);
    verdict(p, "make", "refused", "inputs-stay: 'use' writes 'g', which 'make' would read again");
    assert_non_null(launch(p, "use"));
    json_decref(p);
    p = plan_of(
        &rw_recompute,
        F("first", "h") "," RUN("make", "twice", "32,1", B("h")) "," RUN("use", "pair", "32,1", B("h") "," B("y")),
        true);
    verdict(p, "make", "refused", "repeatable: 'make' both reads and writes 'h'");
    json_decref(p);
    p = plan_of(&rw_recompute,
                RUN("half", "f", "16,1", B("x") "," B("h")) "," RUN(
                    "make", "f", "16,1", B("x") ",{\"buffer\": \"h\", \"offset\": 2048}") "," RUN("use", "pair", "32,1",
                                                                                                  B("h") "," B("y")),
                true);
    verdict(p, "make", "refused", "all-readers:"); /* somebody else wrote half of what is read */
    json_decref(p);
}

static int all(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared), cmocka_unit_test(test_two),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return run_plans(source, all); }
