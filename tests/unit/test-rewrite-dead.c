/* Dead blocks through the planner: which blocks go, how the others are launched, and what keeps a block. The expected
 * blocks are worked out by hand. */
#include "rewrite-plans.h"

/* Block (x, y) of `tile` writes 32 numbers at 32 (x + gx y); `sized` tells the grid's width, `stops` may trap, `row`
 * reads n numbers. */
static const char source[] =
    "extern \"C\" __global__ void tile(const float *a, float *b, int gx) {\n"
    "  int i = (blockIdx.x + gx * blockIdx.y) * 32 + threadIdx.x; b[i] = a[i] + 1.0f; }\n"
    "extern \"C\" __global__ void sized(const float *a, float *b) {\n"
    "  int i = (blockIdx.x + gridDim.x * blockIdx.y) * 32 + threadIdx.x; b[i] = a[i] + (float)gridDim.y; }\n"
    "extern \"C\" __global__ void stops(const float *a, float *b, int gx) {\n"
    "  int i = (blockIdx.x + gx * blockIdx.y) * 32 + threadIdx.x; if (a[i] > 9.0f) __trap(); b[i] = a[i]; }\n"
    "extern \"C\" __global__ void cells(const float *b, float *y, int step) {\n"
    "  int i = blockIdx.x * step * 32 + threadIdx.x; y[blockIdx.x * 32 + threadIdx.x] = b[i] * 2.0f; }\n"
    "extern \"C\" __global__ void pick(const float *b, const int *at, float *y) { y[threadIdx.x] = b[at[threadIdx.x] & "
    "1023]; }\n";

#define TILE(name, entry) RUN(name, entry, "8,4", B("x") "," B("h") ",{\"i32\": 8}")
#define CELLS(n, step) RUN("read", "cells", n ",1", B("h") "," B("y") ",{\"i32\": " step "}")

/* The reader takes blocks 0 to 15: two of four rows of blocks. The kernel as it is, a smaller grid. */
static void test_clip(void **state)
{
    json_t *p = plan_of(&rw_dead_blocks, TILE("write", "tile") "," CELLS("16", "1"), true);
    grid(p, "write", 8, 2, "tile");
    verdict(p, "write", "kept", "16 of 32 blocks");
    json_decref(p);
}

/* Every third block, 0 to 30: an affine list. A kernel that sees its grid: 16 blocks of a list, its own size told. */
static void test_list(void **state)
{
    json_t *p = plan_of(&rw_dead_blocks, TILE("write", "tile") "," CELLS("11", "3"), true);
    grid(p, "write", 11, 1, "fused_tile");
    json_decref(p);
    p = plan_of(&rw_dead_blocks, RUN("write", "sized", "8,4", B("x") "," B("h")) "," CELLS("16", "1"), true);
    grid(p, "write", 16, 1, "fused_sized");
    json_decref(p);
}

/* What goes as a whole takes along what only it had read; a step as well. Without force too: it is faster. */
static void test_whole(void **state)
{
    json_t *p = plan_of(
        &rw_dead_blocks,
        "{\"name\": \"clear\", \"memset\": {\"buffer\": \"h\", \"bytes\": 4096, \"value\": 0}}," TILE(
            "first", "tile") "," RUN("second", "tile", "32,1",
                                     B("h") "," B("g") ",{\"i32\": 32}") "," RUN("out", "tile", "32,1",
                                                                                 B("x") "," B("y") ",{\"i32\": 32}"),
        false);
    assert_int_equal(json_array_size(json_object_get(p, "launches")), 1);
    assert_non_null(launch(p, "out"));
    verdict(p, "clear", "kept", "nobody reads");
    json_decref(p);
}

/* A trap is an effect; an index made of data may read anything; what is overwritten for certain is not read. */
static void test_kept_alive(void **state)
{
    json_t *p = plan_of(&rw_dead_blocks, TILE("write", "stops") "," CELLS("16", "1"), true);
    grid(p, "write", 8, 4, "stops");
    verdict(p, "write", "refused", "side-effects:");
    json_decref(p);
    p = plan_of(&rw_dead_blocks, TILE("write", "tile") "," RUN("read", "pick", "1,1", B("h") "," B("at") "," B("y")),
                true);
    grid(p, "write", 8, 4, "tile");
    verdict(p, "write", NULL, NULL);
    json_decref(p);
    p = plan_of(&rw_dead_blocks, TILE("write", "tile") "," TILE("again", "tile") "," CELLS("16", "1"), true);
    assert_null(launch(p, "write"));
    grid(p, "again", 8, 2, "tile");
    json_decref(p);
}

static int all(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clip), cmocka_unit_test(test_list),
                                       cmocka_unit_test(test_whole), cmocka_unit_test(test_kept_alive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return run_plans(source, all); }
