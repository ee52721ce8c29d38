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
    "extern \"C\" __global__ void either(const float *a, const float *b, const int *at, float *y) {\n"
    "  int i = blockIdx.x * 32 + threadIdx.x; const float *q = at[i] > 400 ? a : b; y[i] = q[i] + 1.0f; }\n"
    "extern \"C\" __global__ void onto(const float *x, float *h) { int i = blockIdx.x * 32 + threadIdx.x; h[i] += "
    "x[i]; "
    "}\n"
    "extern \"C\" __global__ void bytes(const signed char *c, const short *d, const double2 *z, float *y) {\n"
    "  int i = blockIdx.x * 32 + threadIdx.x; double2 v = z[i & 127]; int a, b;\n"
    "  asm(\"ld.global.s8 %0, [%1];\" : \"=r\"(a) : \"l\"(c + i)); asm(\"ld.global.s16 %0, [%1];\" : \"=r\"(b) : "
    "\"l\"(d + i));\n"
    "  y[i] = c[i] + d[i] * 3 + a * 7 - b + (v.x == v.y ? __uint_as_float(__double2hiint(v.x)) * 0.0f : 1.0f); }\n"
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

/* The same in registers: a pointwise producer is inlined at the loads of each reader, and nobody has h any more. */
static void test_each(void **state)
{
    static const char *const level[] = {"register", "shared"};
    for (int k = 0; k < 2; k++) {
        rw_hooks.levels = level[k];
        json_t *p = plan_of(&rw_recompute,
                            F("make", "h") "," RUN("one", "pair", "16,1", B("h") "," B("y")) "," RUN(
                                "two", "zero", "16,1", B("h") ",{\"buffer\": \"y\", \"offset\": 2048}"),
                            true);
        verdict(p, "make", "kept", NULL);
        assert_string_equal(
            json_string_value(json_object_get(json_array_get(json_object_get(p, "rewrites"), 0), "level")), level[k]);
        assert_int_equal(json_array_size(json_object_get(p, "launches")), 2);
        assert_int_equal(json_array_size(json_object_get(launch(p, "make+one"), "args")), k ? 2 : 3); /* and a zero */
        assert_non_null(launch(p, "make+two"));
        json_decref(p);
    }
    rw_hooks.levels = "register"; /* not where it has one reader: block fusion does that */
    json_t *p = plan_of(&rw_recompute, F("make", "h") "," RUN("use", "pair", "32,1", B("h") "," B("y")), true);
    assert_non_null(launch(p, "make"));
    json_decref(p);
    rw_hooks.levels = NULL;
}

#define ZERO(to, at, n)                                                                                                \
    "{\"name\": \"zero\", \"memset\": {\"buffer\": \"" to "\", \"offset\": " #at ", \"bytes\": " #n ", \"value\": "    \
    "193}}"

/* A memset: its readers know what it wrote, in loads of any width. */
static void test_filled(void **state)
{
    json_t *p =
        plan_of(&rw_recompute,
                ZERO("h", 0, 4096) "," RUN("one", "pair", "16,1", B("h") "," B("y")) "," RUN(
                    "two", "bytes", "16,1", B("h") "," B("h") "," B("h") ",{\"buffer\": \"y\", \"offset\": 2048}"),
                true);
    verdict(p, "zero", "kept", NULL);
    assert_int_equal(json_array_size(json_object_get(p, "launches")), 2);
    assert_int_equal(json_array_size(json_object_get(launch(p, "one"), "args")), 3);
    json_decref(p);
}

static void test_unfilled(void **state)
{
    static const struct {
        const char *launches, *why;
    } row[] = {
        {ZERO("h", 0, 4096) "," RUN("use", "onto", "32,1", B("x") "," B("h")) "," RUN("out", "f", "32,1",
                                                                                      B("h") "," B("y")),
         "filled: 'use' writes 'h'"},
        {ZERO("h", 0, 2048) "," RUN("use", "pair", "32,1", B("h") "," B("y")),
         "filled: 'use' may read bytes of 'h' that the memset does not write"},
        {ZERO("h", 0, 4096) "," RUN("more", "f", "2,1", B("x") "," B("h")) "," RUN("use", "pair", "32,1",
                                                                                   B("h") "," B("y")),
         "order: 'more' depends on one of them"},
        {ZERO("h", 0, 4096) "," RUN("use", "either", "32,1", B("h") "," B("x") "," B("at") "," B("y")),
         "filled: an access of 'use'"},
    };
    for (unsigned k = 0; k < sizeof row / sizeof *row; k++) {
        json_t *p = plan_of(&rw_recompute, row[k].launches, true);
        verdict(p, "zero", "refused", row[k].why);
        assert_non_null(launch(p, "zero"));
        json_decref(p);
    }
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared),   cmocka_unit_test(test_two),
                                       cmocka_unit_test(test_each),     cmocka_unit_test(test_filled),
                                       cmocka_unit_test(test_unfilled), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return run_plans(source, all); }
