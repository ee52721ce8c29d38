/* Dead blocks through the planner: what goes, how what stays is launched, and what keeps a block. Expected blocks are worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/rewrite-priv.h"

/* Block (x, y) of `tile` writes 32 numbers at 32 (x + gx y); `sized` tells the grid's width, `stops` may trap, `row` reads n numbers. */
static const char source[] =
    "extern \"C\" __global__ void tile(const float *a, float *b, int gx) {\n"
    "  int i = (blockIdx.x + gx * blockIdx.y) * 32 + threadIdx.x; b[i] = a[i] + 1.0f; }\n"
    "extern \"C\" __global__ void sized(const float *a, float *b) {\n"
    "  int i = (blockIdx.x + gridDim.x * blockIdx.y) * 32 + threadIdx.x; b[i] = a[i] + (float)gridDim.y; }\n"
    "extern \"C\" __global__ void stops(const float *a, float *b, int gx) {\n"
    "  int i = (blockIdx.x + gx * blockIdx.y) * 32 + threadIdx.x; if (a[i] > 9.0f) __trap(); b[i] = a[i]; }\n"
    "extern \"C\" __global__ void cells(const float *b, float *y, int step) {\n"
    "  int i = blockIdx.x * step * 32 + threadIdx.x; y[blockIdx.x * 32 + threadIdx.x] = b[i] * 2.0f; }\n"
    "extern \"C\" __global__ void pick(const float *b, const int *at, float *y) { y[threadIdx.x] = b[at[threadIdx.x] & 1023]; }\n";

#define BUF(name, role) "\"" name "\": {\"bytes\": 4096, \"role\": \"" role "\"}"
#define FILL(name, role, type, hi)                                                                                          \
    "\"" name "\": {\"bytes\": 4096, \"role\": \"" role "\", \"fill\": {\"uniform\": [0, " hi "], \"dtype\": \"" type "\", \"seed\": 3}}"
#define RUN(name, entry, grid, args) "{\"name\": \"" name "\", \"module\": \"m\", \"entry\": \"" entry "\", \"grid\": [" grid ",1], \"block\": [32,1,1], \"args\": [" args "]}"
#define B(name) "{\"buffer\": \"" name "\"}"
#define TILE(name, entry) RUN(name, entry, "8,4", B("x") "," B("h") ",{\"i32\": 8}")
#define CELLS(n, step) RUN("read", "cells", n ",1", B("h") "," B("y") ",{\"i32\": " step "}")

static struct dev_device *device;
static char *ptx;

static json_t *plan(const char *launches, bool force)
{
    struct dt_err e = {0};
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct ana_result *a = NULL;
    const char *deny[16]; /* all others */
    struct rw_options o = {.deny = deny, .inputs = 2, .schedules = 2};
    for (unsigned k = 0; k < rw_nregistry && o.ndeny < 16; k++)
        if (rw_registry[k] != &rw_dead_blocks)
            deny[o.ndeny++] = rw_registry[k]->name;
    struct dt_str text = {0};
    json_t *doc, *ret = NULL;
    dt_str_addf(&text, "{\"dovetail\": 1, \"modules\": {}, \"buffers\": {" FILL("x", "input", "f32", "1") "," FILL("at", "input", "i32", "900") ","
                       BUF("h", "intermediate") "," BUF("g", "intermediate") "," BUF("y", "output") "}, \"launches\": [%s]}", launches);
    doc = json_loads(text.s, 0, NULL);
    assert_non_null(doc);
    json_object_set_new(json_object_get(doc, "modules"), "m", json_pack("{s:s}", "ptx", ptx));
    rw_hooks.force = force;
    if (dt_graph_from_json(doc, &g, &e) < 0 || dev_prog_new(device, g, NULL, NULL, &p, &e) < 0 || ana_run(device, p, NULL, &a, &e) < 0 ||
        rw_plan(device, p, a, &o, "sha256:0", &ret, &e) < 0)
        fail_msg("%s", e.detail ? e.detail : "?");
    rw_hooks.force = false;
    assert_true(json_is_true(json_object_get(json_object_get(ret, "verified"), "bitwise")));
    ana_free(a);
    dev_prog_free(p);
    dt_graph_free(g);
    json_decref(doc);
    dt_str_done(&text);
    return ret;
}

/* The plan's launch of this name, NULL: none. */
static const json_t *launch(const json_t *p, const char *name)
{
    json_t *l;
    size_t i;
    json_array_foreach(json_object_get(p, "launches"), i, l) if (!strcmp(json_string_value(json_object_get(l, "name")), name)) return l;
    return NULL;
}

static void grid(const json_t *p, const char *name, json_int_t x, json_int_t y, const char *entry)
{
    const json_t *l = launch(p, name), *g = json_object_get(l, "grid");
    assert_non_null(l);
    assert_int_equal(json_integer_value(json_array_get(g, 0)), x);
    assert_int_equal(json_integer_value(json_array_get(g, 1)), y);
    assert_string_equal(json_string_value(json_object_get(l, "entry")), entry);
}

static void verdict(const json_t *p, const char *name, const char *verdict, const char *reason)
{
    json_t *r;
    size_t i;
    json_array_foreach(json_object_get(p, "rewrites"), i, r) {
        if (strcmp(json_string_value(json_array_get(json_object_get(r, "launches"), 0)), name))
            continue;
        assert_string_equal(json_string_value(json_object_get(r, "kind")), "dead-blocks");
        assert_string_equal(json_string_value(json_object_get(r, "verdict")), verdict);
        if (reason && !strstr(json_string_value(json_object_get(r, "reason")), reason))
            fail_msg("wanted '%s', got '%s'", reason, json_string_value(json_object_get(r, "reason")));
        return;
    }
    if (verdict)
        fail_msg("no entry for '%s'", name);
}

/* The reader takes blocks 0 to 15: two of four rows of blocks. The kernel as it is, a smaller grid. */
static void test_clip(void **state)
{
    json_t *p = plan(TILE("write", "tile") "," CELLS("16", "1"), true);
    grid(p, "write", 8, 2, "tile");
    verdict(p, "write", "kept", "16 of 32 blocks");
    json_decref(p);
}

/* Every third block, 0 to 30: an affine list. A kernel that sees its grid: 16 blocks of a list, its own size told. */
static void test_list(void **state)
{
    json_t *p = plan(TILE("write", "tile") "," CELLS("11", "3"), true);
    grid(p, "write", 11, 1, "fused_tile");
    json_decref(p);
    p = plan(RUN("write", "sized", "8,4", B("x") "," B("h")) "," CELLS("16", "1"), true);
    grid(p, "write", 16, 1, "fused_sized");
    json_decref(p);
}

/* What goes as a whole takes along what only it had read; a step as well. Without force too: it is faster. */
static void test_whole(void **state)
{
    json_t *p = plan("{\"name\": \"clear\", \"memset\": {\"buffer\": \"h\", \"bytes\": 4096, \"value\": 0}}," TILE("first", "tile") ","
                     RUN("second", "tile", "32,1", B("h") "," B("g") ",{\"i32\": 32}") "," RUN("out", "tile", "32,1", B("x") "," B("y") ",{\"i32\": 32}"),
                     false);
    assert_int_equal(json_array_size(json_object_get(p, "launches")), 1);
    assert_non_null(launch(p, "out"));
    verdict(p, "clear", "kept", "nobody reads");
    json_decref(p);
}

/* A trap is an effect; an index made of data may read anything; what is overwritten for certain is not read. */
static void test_kept_alive(void **state)
{
    json_t *p = plan(TILE("write", "stops") "," CELLS("16", "1"), true);
    grid(p, "write", 8, 4, "stops");
    verdict(p, "write", "refused", "side-effects:");
    json_decref(p);
    p = plan(TILE("write", "tile") "," RUN("read", "pick", "1,1", B("h") "," B("at") "," B("y")), true);
    grid(p, "write", 8, 4, "tile");
    verdict(p, "write", NULL, NULL);
    json_decref(p);
    p = plan(TILE("write", "tile") "," TILE("again", "tile") "," CELLS("16", "1"), true);
    assert_null(launch(p, "write"));
    grid(p, "again", 8, 2, "tile");
    json_decref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clip), cmocka_unit_test(test_list), cmocka_unit_test(test_whole),
                                       cmocka_unit_test(test_kept_alive)};
    struct dt_err e = {0};
    size_t n;
    if (dev_open("soft:h200", &device, &e) < 0 ||
        dev_compile_cuda(source, strlen(source), NULL, 0, dev_info(device)->arch, 60000, &ptx, &n, &e) < 0) {
        fprintf(stderr, "%s\n", e.detail ? e.detail : "?");
        return 77;
    }
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    free(ptx);
    dev_close(device);
    return r;
}
