/* Runs small graphs over five buffers of 4096 bytes through the whole planner, with one kind of rewrite at a time; what
 * is legal is forced or not. x (f32) and at (i32) are inputs, h and g intermediates, y the output. Built with
 * RW_TEST_HOOKS. */
#ifndef DT_TESTS_REWRITE_PLANS_H
#define DT_TESTS_REWRITE_PLANS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rewrite/facts/hooks.h"
#include "rewrite/kinds/kinds.h"

#define BUF(name, role) "\"" name "\": {\"bytes\": 4096, \"role\": \"" role "\"}"
#define FILL(name, role, type, hi)                                                                                     \
    "\"" name "\": {\"bytes\": 4096, \"role\": \"" role "\", \"fill\": {\"uniform\": [0, " hi "], \"dtype\": \"" type  \
    "\", \"seed\": 3}}"
#define RUN(name, entry, grid, args)                                                                                   \
    "{\"name\": \"" name "\", \"module\": \"m\", \"entry\": \"" entry "\", \"grid\": [" grid                           \
    ",1], \"block\": [32,1,1], \"args\": [" args "]}"
#define B(name) "{\"buffer\": \"" name "\"}"
static struct dev_device *device;
static char *ptx;

/* The plan of these launches with `only` this kind allowed; force: what is legal is kept. */
static inline json_t *plan_of(const struct rw_rewrite *only, const char *launches, bool force)
{
    struct dt_err e = {0};
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct ana_result *a = NULL;
    const char *deny[16];                      /* all others */
    const char *const allow[1] = {only->name}; /* even where it is off */
    struct rw_options o = {.allow = allow, .nallow = 1, .deny = deny, .inputs = 2, .schedules = 2};
    for (unsigned k = 0; k < rw_nregistry && o.ndeny < 16; k++)
        if (strcmp(rw_registry[k]->name, only->name)) /* block fusion has two passes */
            deny[o.ndeny++] = rw_registry[k]->name;
    struct dt_str text = {0};
    json_t *doc, *ret = NULL;
    dt_str_addf(
        &text,
        "{\"dovetail\": 1, \"modules\": {}, \"buffers\": {" FILL("x", "input", "f32", "1") "," FILL(
            "at", "input", "i32",
            "900") "," BUF("h", "intermediate") "," BUF("g", "intermediate") "," BUF("y",
                                                                                     "output") "}, \"launches\": [%s]}",
        launches);
    doc = json_loads(text.s, 0, NULL);
    assert_non_null(doc);
    json_object_set_new(json_object_get(doc, "modules"), "m", json_pack("{s:s}", "ptx", ptx));
    rw_hooks.force = force;
    if (dt_graph_from_json(doc, &g, &e) < 0 || dev_prog_new(device, g, NULL, NULL, &p, &e) < 0 ||
        ana_run(device, p, NULL, &a, &e) < 0 || rw_plan(device, p, a, &o, "sha256:0", &ret, &e) < 0)
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
static inline const json_t *launch(const json_t *p, const char *name)
{
    json_t *l;
    size_t i;
    json_array_foreach (json_object_get(p, "launches"), i, l)
        if (!strcmp(json_string_value(json_object_get(l, "name")), name))
            return l;
    return NULL;
}

static inline void grid(const json_t *p, const char *name, json_int_t x, json_int_t y, const char *entry)
{
    const json_t *l = launch(p, name), *g = json_object_get(l, "grid");
    assert_non_null(l);
    assert_int_equal(json_integer_value(json_array_get(g, 0)), x);
    assert_int_equal(json_integer_value(json_array_get(g, 1)), y);
    assert_string_equal(json_string_value(json_object_get(l, "entry")), entry);
}

/* The entry of the candidate whose first launch is `name`. Verdict NULL: there must be none. */
static inline void verdict(const json_t *p, const char *name, const char *verdict, const char *reason)
{
    json_t *r;
    size_t i;
    json_array_foreach (json_object_get(p, "rewrites"), i, r) {
        if (strcmp(json_string_value(json_array_get(json_object_get(r, "launches"), 0)), name))
            continue;
        const char *why = json_string_value(json_object_get(r, "reason")),
                   *is = json_string_value(json_object_get(r, "verdict"));
        if (!verdict || strcmp(is, verdict))
            fail_msg("'%s' is %s, not %s: %s", name, is, verdict ? verdict : "there at all", why ? why : "");
        if (reason && !strstr(json_string_value(json_object_get(r, "reason")), reason))
            fail_msg("wanted '%s', got '%s'", reason, json_string_value(json_object_get(r, "reason")));
        return;
    }
    if (verdict)
        fail_msg("no entry for '%s'", name);
}

static inline int run_plans(const char *source, int (*tests)(void))
{
    struct dt_err e = {0};
    size_t n;
    if (dev_open("soft:h200", &device, &e) < 0 ||
        dev_compile_cuda(source, strlen(source), NULL, 0, dev_info(device)->arch, 60000, &ptx, &n, &e) < 0) {
        fprintf(stderr, "%s\n", e.detail ? e.detail : "?");
        return 77;
    }
    int r = tests();
    free(ptx);
    dev_close(device);
    return r;
}

#endif
