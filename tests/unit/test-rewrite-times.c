/* Under which key a measured comparison is kept (rewrite/plan/times.c): what the times depend on makes another key, and
 * names, launches that both states have, and content make none. Each row changes one thing in the pair of states; a key
 * that left it out would give one comparison's times to another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memo-list.h"
#include "rewrite/plan/plan-priv.h"

#define KERNEL(name, op)                                                                                               \
    ".visible .entry " name                                                                                            \
    "(.param .u64 a, .param .u64 b, .param .u32 n)\n{\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n.reg .f32 %f<4>;\n"         \
    "ld.param.u64 %d1, [a];\nld.param.u64 %d2, [b];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, "     \
    "%tid.x;\n"                                                                                                        \
    "mad.lo.s32 %r4, %r1, %r2, %r3;\nmul.wide.s32 %d3, %r4, 4;\nadd.s64 %d1, %d1, %d3;\nadd.s64 %d2, %d2, %d3;\n"      \
    "ld.global.f32 %f1, [%d1];\n" op "\nst.global.f32 [%d2], %f2;\nret;\n}\n"
#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
/* A module each: a program's module has the entries that the program launches. */
static const struct {
    const char *name, *ptx;
} module[] = {{"m-f", HEAD KERNEL("f", "add.rn.f32 %f2, %f1, 0f3F800000;")},
              {"m-g", HEAD KERNEL("g", "mul.rn.f32 %f2, %f1, 0f40000000;")},
              {"m-fg", HEAD KERNEL("fg", "add.rn.f32 %f2, %f1, 0f3F800000;\nmul.rn.f32 %f2, %f2, 0f40000000;")},
              /* trips by data: such launches take other times on other content */
              {"m-data", HEAD KERNEL("data", "mov.f32 %f2, %f1;\n{\n.reg .pred %p;\nL: add.rn.f32 %f2, %f2, "
                                             "%f2;\nsetp.lt.f32 %p, %f2, 0f42C80000;\n@%p bra L;\n}")}};

/* In launches: a grid, a last argument, more members. The first launch and the last are in both states. */
#define RUN(name, entry, grid, x, y, n, more)                                                                          \
    "{\"name\": \"" name "\", \"module\": \"m-" entry "\", \"entry\": \"" entry "\", \"grid\": [" grid                 \
    ",1,1], \"block\": [64,1,1], \"shared\": 0, \"args\": [{\"buffer\": \"" x "\"}, {\"buffer\": \"" y                 \
    "\"}, {\"u32\": " n "}]" more "}"
#define FIRST RUN("first", "f", "4", "x", "h", "1", "")
#define LAST RUN("last", "g", "4", "k", "y", "1", "")
#define NOW RUN("p", "f", "4", "h", "t", "1", "") "," RUN("c", "g", "4", "t", "k", "1", "")
#define NEXT RUN("p+c", "fg", "4", "h", "k", "1", "")

struct pair {
    const char *now, *next; /* launches */
    const char *from, *to;  /* in both documents: replaced everywhere; NULL: nothing */
    const char *stamp;
};

static struct dev_device *device;

static char *replaced(const char *s, const char *from, const char *to)
{
    struct dt_str out = {0};
    for (const char *at; from && (at = strstr(s, from)); s = at + strlen(from)) {
        dt_str_addn(&out, s, (size_t)(at - s));
        dt_str_add(&out, to);
    }
    dt_str_add(&out, s);
    return dt_str_take(&out);
}

static void open_state(struct rw_state *s, const char *launches, const struct pair *x)
{
    static const char buffers[] =
        "\"x\": {\"bytes\": 1024, \"role\": \"input\", \"fill\": {\"uniform\": [1, 2], \"dtype\": \"f32\", \"seed\": "
        "3}}, \"h\": {\"bytes\": 1024, \"role\": \"intermediate\"}, "
        "\"t\": {\"bytes\": 1024, \"role\": \"intermediate\"}, \"k\": {\"bytes\": 1024, \"role\": \"intermediate\"}, "
        "\"y\": {\"bytes\": 1024, \"role\": \"output\"}, "
        "\"z\": {\"bytes\": 4096, \"role\": \"output\"}";
    struct dt_str doc = {0};
    struct dt_err e = {0};
    dt_str_add(&doc, "{\"dovetail\": 1, \"baseline\": {}, \"modules\": {");
    for (size_t k = 0; k < sizeof module / sizeof *module; k++) {
        dt_str_addf(&doc, "%s\"%s\": {\"ptx\": \"", k ? ", " : "", module[k].name);
        for (const char *t = module[k].ptx; *t; t++)
            dt_str_addf(&doc, *t == '\n' ? "\\n" : "%c", *t);
        dt_str_add(&doc, "\"}");
    }
    dt_str_addf(&doc, "}, \"buffers\": {%s}, \"launches\": [%s]}", buffers, launches);
    char *all = replaced(doc.s, x->from, x->to);
    memset(s, 0, sizeof *s);
    if (dt_graph_parse(all, strlen(all), &s->graph, &e) < 0 ||
        dev_prog_new(device, s->graph, NULL, NULL, &s->prog, &e) < 0 || ana_run(device, s->prog, NULL, &s->ana, &e) < 0)
        fail_msg("%s", e.detail ? e.detail : "?");
    free(all);
    dt_str_done(&doc);
}

static void key_of(const struct pair *x, char key[DT_SHA256_TEXT], uint32_t *ret_n)
{
    struct rw_state now, next;
    struct rw_options o = {.library = &memo_list, .stamp = x->stamp ? x->stamp : "one"};
    struct rw_planner p = {.dev = device, .opt = &o};
    struct rw_times t = {0};
    struct dt_err e = {0};
    open_state(&now, x->now, x);
    open_state(&next, x->next, x);
    assert_true(dt_push(&p.state, now));
    int r = rw_times_get(&p, &p.state.p[0], &next, &t, &e);
    if (r < 0)
        fail_msg("%s", e.detail);
    assert_int_equal(r, 0);
    memcpy(key, t.key, sizeof t.key);
    *ret_n = t.n;
    rw_times_done(&t);
    rw_state_done(&now);
    rw_state_done(&next);
    free(p.state.p);
}

#define ALL(now) FIRST "," now "," LAST
static const struct pair base = {ALL(NOW), ALL(NEXT)};

static const struct pair same[] = {
    {ALL(NOW), ALL(NEXT), "\"seed\": 3", "\"seed\": 4"},
    {ALL(NOW), ALL(NEXT), "\"t\"", "\"temporary\""},
    {ALL(NOW), ALL(NEXT), "\"name\": \"p\"", "\"name\": \"producer\""},
    {ALL(NOW), ALL(NEXT), "\"m-", "\"module-"},
    /* what stands beside them */
    {FIRST "," NOW, FIRST "," NEXT},
    {ALL(NOW) "," RUN("o", "g", "4", "y", "z", "1", ""), ALL(NEXT) "," RUN("o", "g", "4", "y", "z", "1", "")},
    {FIRST "," LAST "," NOW, FIRST "," LAST "," NEXT},
    {RUN("first", "data", "4", "x", "h", "1", "") "," NOW "," LAST,
     RUN("first", "data", "4", "x", "h", "1", "") "," NEXT "," LAST},
};

static const struct pair other[] = {
    {ALL(NOW), ALL(NEXT), .stamp = "two"},
    {ALL(NEXT), ALL(NOW)},
    {ALL(NOW), ALL(RUN("p+c", "fg", "2", "h", "k", "1", ""))},
    {ALL(NOW), ALL(RUN("p+c", "fg", "4", "h", "k", "2", ""))},
    {ALL(NOW), ALL(RUN("p+c", "f", "4", "h", "k", "1", ""))},
    {ALL(NOW), ALL(RUN("p+c", "fg", "4", "h", "k", "1", ", \"stream\": 1"))},
    {ALL(NOW), ALL(RUN("p+c", "fg", "4", "h", "k", "1", ", \"stream\": 2"))},
    {ALL(NOW), ALL(RUN("p+c", "fg", "4", "h", "k", "1", ", \"after\": [\"first\"]"))},
    {ALL(NOW), ALL(RUN("p+c", "fg", "4", "h", "k", "1", ", \"programmatic\": true"))},
    /* another buffer: not the one that `p` has read */
    {ALL(NOW), ALL(RUN("p+c", "fg", "4", "x", "k", "1", ""))},
    {ALL(RUN("p", "f", "4", "h", "t", "1", "") "," RUN("c", "g", "4", "t", "k", "2", "")), ALL(NEXT)},
    {ALL(RUN("p", "f", "4", "h", "t", "1", "") "," RUN("c", "g", "2", "t", "k", "1", "")), ALL(NEXT)},
    {ALL(RUN("c", "f", "4", "h", "t", "1", "")), ALL(NEXT)},
    /* order */
    {FIRST "," RUN("c", "g", "4", "t", "k", "1", "") "," RUN("p", "f", "4", "h", "t", "1", "") "," LAST, ALL(NEXT)},
    /* one more that only one has */
    {FIRST "," NOW "," LAST, FIRST "," NEXT "," RUN("last", "g", "4", "k", "y", "2", "")},
    {FIRST "," NOW "," LAST, FIRST "," NEXT "," RUN("last", "g", "4", "k", "y", "1", ", \"stream\": 1")},
    {FIRST "," NOW "," LAST, FIRST "," NEXT "," RUN("last", "g", "4", "k", "y", "1", ", \"programmatic\": true")},
    {FIRST "," NOW "," LAST, FIRST "," NEXT "," RUN("last", "g", "4", "k", "y", "1", ", \"after\": [\"p+c\"]")},
    /* its place among them, and not among them */
    {FIRST "," NOW "," LAST, FIRST "," NEXT "," RUN("last", "g", "4", "k", "y", "1", ", \"after\": [\"first\"]")},
    {ALL(NOW), ALL(NEXT), "\"h\": {\"bytes\": 1024", "\"h\": {\"bytes\": 2048"},
    /* no longer do all buffers fit in the L2 */
    {ALL(NOW), ALL(NEXT), "\"y\": {\"bytes\": 1024", "\"y\": {\"bytes\": 134217728"},
};

static void test_keys(void **state)
{
    enum { SAME = sizeof same / sizeof *same, OTHER = sizeof other / sizeof *other };
    char want[DT_SHA256_TEXT], key[OTHER][DT_SHA256_TEXT];
    uint32_t n;
    key_of(&base, want, &n);
    assert_int_equal(strlen(want), DT_SHA256_TEXT - 1);
    assert_int_equal(n, 1);
    for (unsigned k = 0; k < SAME; k++) {
        key_of(&same[k], key[0], &n);
        if (strcmp(key[0], want))
            fail_msg("row %u has a key of its own", k);
    }
    for (unsigned k = 0; k < OTHER; k++) {
        key_of(&other[k], key[k], &n);
        assert_int_equal(strlen(key[k]), DT_SHA256_TEXT - 1);
        if (!strcmp(key[k], want))
            fail_msg("row %u has the key of the first", k);
        for (unsigned j = 0; j < k; j++)
            if (!strcmp(key[k], key[j]))
                fail_msg("rows %u and %u have one key", j, k);
    }
}

/* Launches that take other times on other content are not kept at all; a launch that both have may be one. */
static void test_unsteady(void **state)
{
    static const struct pair row[] = {
        {ALL(NOW), ALL(RUN("p+c", "data", "4", "h", "k", "1", ""))},
        {ALL(RUN("p", "data", "4", "h", "t", "1", "") "," RUN("c", "g", "4", "t", "k", "1", "")), ALL(NEXT)}};
    char key[DT_SHA256_TEXT];
    uint32_t n;
    for (unsigned k = 0; k < 2; k++) {
        key_of(&row[k], key, &n);
        assert_string_equal(key, "");
    }
}

/* What was put is found under its key, and its interval decides from half its width away from zero; or from a hundredth
 * of the launches' time below. */
static void test_decides(void **state)
{
    static const struct {
        double lo, hi, own; /* the launches' own time, 0: not known */
        int found;
    } row[] = {{0.51, 1.5, 0, 1},  {0.49, 1.5, 0, 0},  {-1.5, -0.51, 0, 1}, {-1.5, -0.49, 0, 1}, {-0.1, 0.3, 0, 0},
               {-0.1, 0.3, 31, 1}, {-0.1, 0.3, 29, 0}, {0.1, 0.3, 31, 1},   {0, 0.2, 0, 0}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        struct rw_state now, next;
        struct rw_options o = {.library = &memo_list, .stamp = "one"};
        struct rw_planner p = {.dev = device, .opt = &o};
        struct rw_times t = {0}, again = {0};
        struct dt_err e = {0};
        open_state(&now, base.now, &base);
        open_state(&next, base.next, &base);
        if (row[k].own > 0) {
            now.step_us = calloc(4, sizeof *now.step_us);
            now.step_us[1] = row[k].own / 3, now.step_us[2] = row[k].own * 2 / 3;
        }
        assert_true(dt_push(&p.state, now));
        assert_int_equal(rw_times_get(&p, &p.state.p[0], &next, &t, &e), 0);
        t.gain = (row[k].lo + row[k].hi) / 2, t.lo = row[k].lo, t.hi = row[k].hi;
        t.us[0] = 5;
        rw_times_put(&p, &t);
        int r = rw_times_get(&p, &p.state.p[0], &next, &again, &e);
        if (r != row[k].found)
            fail_msg("row %zu: %d", k, r);
        assert_true(again.lo == row[k].lo && again.hi == row[k].hi && again.gain == t.gain && again.us[0] == 5);
        p.gate.no_library = true;
        rw_times_done(&again);
        assert_int_equal(rw_times_get(&p, &p.state.p[0], &next, &again, &e), 0);
        assert_string_equal(again.key, t.key);
        rw_times_done(&again);
        rw_times_done(&t);
        rw_state_done(&now);
        rw_state_done(&next);
        free(p.state.p);
        forget();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys), cmocka_unit_test(test_unsteady),
                                       cmocka_unit_test(test_decides)};
    struct dt_err e = {0};
    if (dev_open("soft:h200", &device, &e) < 0) {
        fprintf(stderr, "%s\n", e.detail ? e.detail : "?");
        return 1;
    }
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    dev_close(device);
    return r;
}
