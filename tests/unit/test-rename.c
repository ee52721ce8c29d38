/* Renaming: a document stored for one graph and loaded for another has exactly the other's names, and names that a
 * rewrite made never meet the caller's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "cache/cache.h"

/* %1$s … names: graph, module, module (unused), buffers x h y, unused buffer, launches 0 1 2. */
static const char shape[] =
    "{\"dovetail\": 1, \"name\": \"%1$s\", \"modules\": {\"%3$s\": {\"ptx\": \"u\"}, \"%2$s\": {\"ptx\": \"t\"}},"
    "\"buffers\": {\"%6$s\": {\"bytes\": 64, \"role\": \"output\"},"
    "  \"%7$s\": {\"bytes\": 4, \"role\": \"input\"},"
    "  \"%4$s\": {\"bytes\": 64, \"role\": \"input\", \"fill\": {\"uniform\": [0, 1], \"dtype\": \"f32\", \"seed\": "
    "%11$d}},"
    "  \"%5$s\": {\"bytes\": 64, \"role\": \"intermediate\"}},"
    "\"launches\": ["
    "  {\"name\": \"%8$s\", \"module\": \"%2$s\", \"entry\": \"e\", \"grid\": [1,1,1], \"block\": [32,1,1], \"args\": "
    "[{\"buffer\": \"%4$s\"}, {\"buffer\": \"%5$s\"}]},"
    "  {\"name\": \"%9$s\", \"module\": \"%2$s\", \"entry\": \"e\", \"grid\": [1,1,1], \"block\": [32,1,1], \"args\": "
    "[{\"buffer\": \"%5$s\"}, {\"buffer\": \"%6$s\"}]},"
    "  {\"name\": \"%10$s\", \"copy\": {\"from\": {\"buffer\": \"%5$s\"}, \"to\": {\"buffer\": \"%6$s\"}, \"bytes\": "
    "4}}]}";

/* A plan in the same names; %12$s, %13$s, %14$s: generated module, scratch buffer, launch (not joined). */
static const char plan[] =
    "{\"signature\": \"s\", \"name\": \"%1$s\", \"baseline\": {\"time_us\": 1.5, \"launches\": 3},"
    "\"rewrites\": [{\"kind\": \"block-fusion\", \"launches\": [\"%8$s\", \"%9$s\"], \"verdict\": \"kept\"},"
    "  {\"kind\": \"split\", \"launches\": [\"%8$s+%9$s\"], \"verdict\": \"refused\", \"reason\": "
    "\"\\u0001rorder\\u0002: \\u0001l%10$s\\u0002 doesn't wait for \\u0001l%8$s+%9$s\\u0002 on \\u0001b%5$s\\u0002 of "
    "\\u0001m%12$s\\u0002, 'gemm' \\u0001\"}],"
    "\"warnings\": [{\"code\": \"race\", \"message\": \"the buffer\", \"pointer\": \"/launches/0\", \"launch\": "
    "\"%8$s\", \"buffer\": \"%5$s\"},"
    "  {\"code\": \"no-effect\", \"message\": \"it's 'so'\", \"pointer\": \"/launches/2\", \"launch\": \"%10$s\"}],"
    "\"assumes\": {\"align\": {\"%4$s\": 16}, \"constant\": {}, \"evidence\": \"proved\"},"
    "\"verified\": {\"bitwise\": true, \"special\": {\"buffers\": 1, \"dropped\": {\"%4$s\": \"trap: nan\"}, "
    "\"range\": [\"%4$s\", \"%5$s\"]}},"
    "\"modules\": {\"%12$s\": {\"ptx\": \"x\", \"cubin\": \"f0VMRg==\", \"cubin_sha256\": "
    "\"sha256:3bdbb4fe8397cd2b842430b39ccff01a8663c751945ef5e9a09e267fb8b1d359\"}, \"%2$s\": {\"ptx\": \"t\"}, "
    "\"%3$s\": {\"ptx\": \"u\"}},"
    "\"buffers\": %15$s,"
    "\"scratch\": {\"%13$s\": {\"bytes\": 4}},"
    "\"launches\": ["
    "  {\"name\": \"%8$s+%9$s\", \"module\": \"%12$s\", \"entry\": \"f\", \"grid\": [1,1,1], \"block\": [32,1,1],"
    "   \"args\": [{\"buffer\": \"%4$s\", \"offset\": 4}, {\"i32\": 5}, {\"buffer\": \"%13$s\"}, {\"bytes\": "
    "\"0000000000000000\", \"pointers\": [{\"at\": 0, \"buffer\": \"%6$s\"}]}, {\"tensor_map\": {\"tensorDataType\": "
    "0, \"tensorRank\": 1, \"globalDim\": [16], \"boxDim\": [16], \"buffer\": "
    "\"%5$s\"}}], \"after\": []},"
    "  {\"name\": \"%14$s\", \"module\": \"%2$s\", \"entry\": \"e\", \"grid\": [1,1,1], \"block\": [32,1,1], \"args\": "
    "[], \"after\": [\"%8$s+%9$s\"]},"
    "  {\"name\": \"z1\", \"memset\": {\"buffer\": \"%6$s\", \"bytes\": 4, \"value\": 0}, \"after\": [\"%14$s\"]},"
    "  {\"name\": \"%10$s\", \"copy\": {\"from\": {\"buffer\": \"%5$s\"}, \"to\": {\"buffer\": \"%6$s\"}, \"bytes\": "
    "4}, \"after\": []}]}";

static const char analysis[] =
    "{\"signature\": \"s\", \"launches\": [{\"name\": \"%8$s\", \"blocks\": 1}, {\"name\": \"%9$s\"}, {\"name\": "
    "\"%10$s\"}],"
    "\"warnings\": [{\"code\": \"written-input\", \"message\": \"m\", \"pointer\": \"/launches/1\", \"launch\": "
    "\"%9$s\", \"buffer\": \"%4$s\"}],"
    "\"edges\": [{\"producer\": \"%8$s\", \"consumer\": \"%9$s\", \"buffers\": [\"%6$s\", \"%5$s\"], \"hazards\": "
    "[\"raw\"],"
    "  \"independent_bytes\": {\"%6$s\": 64, \"%4$s\": 7}, \"map\": {\"raw\": [[0, [0]]]}}]}";

struct names {
    const char *graph, *m, *mu, *x, *h, *y, *bu, *l0, *l1, *l2;
    int seed;
    const char *f, *t, *k; /* generated */
};

static char *spell(const char *format, const struct names *n, const char *buffers)
{
    char *s = NULL;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat"
    int r = asprintf(&s, format, n->graph, n->m, n->mu, n->x, n->h, n->y, n->bu, n->l0, n->l1, n->l2, n->seed, n->f,
                     n->t, n->k, buffers);
#pragma GCC diagnostic pop
    assert_true(r > 0);
    return s;
}

static struct dt_graph *graph_of(const struct names *n)
{
    char *text = spell(shape, n, "");
    struct dt_graph *g = NULL;
    struct dt_err e = {0};
    if (dt_graph_parse(text, strlen(text), &g, &e) < 0)
        fail_msg("%s: %s\n%s", e.pointer, e.detail, text);
    free(text);
    return g;
}

static json_t *document_of(const char *format, const struct names *n)
{
    struct dt_graph *g = graph_of(n);
    json_t *j = dt_graph_to_json(g), *doc;
    char *buffers = json_dumps(json_object_get(j, "buffers"), 0), *text = spell(format, n, buffers);
    json_error_t e;
    doc = json_loads(text, JSON_REJECT_DUPLICATES, &e);
    if (!doc)
        fail_msg("%s\n%s", e.text, text);
    free(text);
    free(buffers);
    json_decref(j);
    dt_graph_free(g);
    return doc;
}

static json_t *renamed(json_t *doc, const struct names *n, bool out)
{
    struct dt_graph *g = graph_of(n);
    struct dt_err e = {0};
    json_t *copy = json_deep_copy(doc);
    if (cache_rename(copy, g, out, &e) < 0)
        fail_msg("%s", e.detail);
    dt_graph_free(g);
    return copy;
}

static void same(json_t *a, json_t *b)
{
    if (json_equal(a, b))
        return;
    char *s = json_dumps(a, JSON_INDENT(1)), *t = json_dumps(b, JSON_INDENT(1));
    fail_msg("%s\n--- expected\n%s", s, t);
}

static const struct names first = {"g",    "m",    "unused", "x", "h",  "y",  "u",
                                   "gemm", "bias", "copy",   7,   "f0", "t0", "tail"};

/* Stored for `first`, loaded for `n`, whose generated names are expected to be n->f, n->t, n->k. The module nobody uses
 * is gone. */
static void across(const struct names *n)
{
    for (int i = 0; i < 2; i++) {
        const char *format = i ? analysis : plan;
        json_t *doc = document_of(format, &first), *stored = renamed(doc, &first, false),
               *back = renamed(stored, n, true), *want = document_of(format, n);
        char *text = json_dumps(stored, 0);
        static const char *const leaks[] = {"gemm\"", "gemm+",  "bias",         "\"x\": 1",
                                            "\"h\"",  "unused", "\"copy\": \"", "\"seed\""};
        for (size_t k = 0; k < sizeof leaks / sizeof *leaks; k++)
            if (strstr(text, leaks[k]))
                fail_msg("%s is left in the stored document: %s", leaks[k], text);
        json_object_del(json_object_get(want, "modules"), n->mu);
        same(back, want);
        json_decref(doc);
        json_decref(stored);
        json_decref(back);
        json_decref(want);
        free(text);
    }
}

static void test_same_graph(void **state) { across(&first); }

static void test_other_names(void **state)
{
    across(
        &(struct names){"other", "kernels", "more", "in", "mid", "out", "spare", "a", "b", "c", 9, "f0", "t0", "tail"});
    /* canonical-looking names, in another order */
    across(&(struct names){"", "m7", "m0", "b2", "b0", "b1", "b9", "l2", "l0", "l1", 9, "f0", "t0", "tail"});
    /* names across kinds, and '+' inside */
    across(&(struct names){"q", "x", "h", "a+b", "a", "b", "f", "a", "a+b", "b", 1, "f0", "t0", "tail"});
}

/* The caller uses the generated names for something of its own. */
static void test_clash(void **state)
{
    across(&(struct names){"q", "f0", "f0_", "t0", "t0_", "y", "t0__", "tail", "tail_", "c", 3, "f0__", "t0___",
                           "tail__"});
}

/* Generated names that look canonical survive, and do not become somebody's names. */
static void test_generated_looks_canonical(void **state)
{
    struct names a = first, b = {"q", "mm", "uu", "xx", "hh", "yy", "bb", "one", "two", "three", 3, "m0", "b1", "l2"};
    a.f = "m0";
    a.t = "b1";
    a.k = "l2";
    json_t *doc = document_of(plan, &a), *stored = renamed(doc, &a, false), *back = renamed(stored, &b, true),
           *want = document_of(plan, &b);
    json_object_del(json_object_get(want, "modules"), "uu");
    same(back, want);
    json_decref(doc);
    json_decref(stored);
    json_decref(back);
    json_decref(want);
}

/* Launch names with '+': the joined name of a, b and of a+b is taken apart so that it comes back the same. */
static void test_plus(void **state)
{
    struct names a = {"q", "m", "u", "x", "h", "y", "v", "p", "p+q", "q", 1, "f0", "t0", "tail"};
    json_t *doc = document_of(plan, &a), *stored = renamed(doc, &a, false), *back = renamed(stored, &a, true);
    const char *name =
        json_string_value(json_object_get(json_array_get(json_object_get(stored, "launches"), 0), "name"));
    assert_string_equal(name, "l0+l1");
    json_object_del(json_object_get(doc, "modules"), "u");
    same(back, doc);
    json_decref(doc);
    json_decref(stored);
    json_decref(back);
}

/* A joined name that is the name of a launch of the caller's. */
static void test_joined_clash(void **state)
{
    struct names b = {"q", "m", "u", "x", "h", "y", "v", "a", "b", "a+b", 1, "f0", "t0", "tail"};
    json_t *doc = document_of(plan, &first), *stored = renamed(doc, &first, false), *back = renamed(stored, &b, true);
    json_t *l = json_object_get(back, "launches");
    assert_string_equal(json_string_value(json_object_get(json_array_get(l, 0), "name")), "a+b_");
    assert_string_equal(json_string_value(json_object_get(json_array_get(l, 3), "name")), "a+b");
    assert_string_equal(json_string_value(json_array_get(json_object_get(json_array_get(l, 1), "after"), 0)), "a+b_");
    struct dt_graph *g = NULL;
    assert_int_equal(dt_graph_from_json(back, &g, NULL), 0); /* still a plan that can be read */
    dt_graph_free(g);
    json_decref(doc);
    json_decref(stored);
    json_decref(back);
}

/* "a+b~2", as a rewrite makes names unique. */
static void test_count(void **state)
{
    struct dt_graph *g = graph_of(&first), *other = graph_of(&(struct names){"q", "m", "u", "x", "h", "y", "v", "l1~2",
                                                                             "q", "r", 1, "f0", "t0", "k"});
    json_t *doc = json_pack("{s:[{s:s},{s:s},{s:s}]}", "launches", "name", "gemm+bias~2", "name", "l0~3", "name",
                            "gemm~x"),
           *was = json_deep_copy(doc);
    assert_int_equal(cache_rename(doc, g, false, NULL), 0);
    json_t *l = json_object_get(doc, "launches");
    assert_string_equal(json_string_value(json_object_get(json_array_get(l, 0), "name")), "l0+l1~2");
    assert_string_equal(json_string_value(json_object_get(json_array_get(l, 1), "name")), "_l0~3");
    json_t *too = json_deep_copy(doc);
    assert_int_equal(cache_rename(doc, g, true, NULL), 0);
    same(doc, was);
    assert_int_equal(cache_rename(too, other, true, NULL), 0);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(too, "launches"), 0), "name")),
                        "l1~2+q~2");
    assert_int_equal(cache_rename(too, other, false, NULL), 0);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(too, "launches"), 0), "name")),
                        "l0+l1~2");
    json_decref(doc);
    json_decref(was);
    json_decref(too);
    dt_graph_free(g);
    dt_graph_free(other);
}

/* Byte for byte what would have been made for a graph with its buffers in another order. */
static void test_order(void **state)
{
    static const char graph[] =
        "{\"dovetail\": 1, \"modules\": {}, \"buffers\": {\"%s\": {\"bytes\": 4, \"role\": \"inout\"}, \"%s\": "
        "{\"bytes\": 4, \"role\": \"inout\"}}, \"launches\": [{\"copy\": {\"from\": {\"buffer\": \"p\"}, "
        "\"to\": {\"buffer\": \"q\"}, \"bytes\": 4}}]}";
    static const char edge[] = "{\"edges\":[{\"buffers\":[\"%s\",\"%s\"],\"independent_bytes\":{\"%s\":1,\"%s\":1}}]}";
    static const char *const order[2][2] = {{"p", "q"}, {"q", "p"}};
    char text[512], want[2][256], *got;
    for (int i = 0; i < 4; i++) {
        const char *const *from = order[i & 1], *const *to = order[i >> 1];
        struct dt_graph *a = NULL, *b = NULL;
        assert_int_equal(dt_graph_parse(text, (size_t)snprintf(text, sizeof text, graph, from[0], from[1]), &a, NULL),
                         0);
        assert_int_equal(dt_graph_parse(text, (size_t)snprintf(text, sizeof text, graph, to[0], to[1]), &b, NULL), 0);
        snprintf(want[0], sizeof want[0], edge, from[0], from[1], from[0], from[1]);
        snprintf(want[1], sizeof want[1], edge, to[0], to[1], to[0], to[1]);
        json_t *doc = json_loads(want[0], 0, NULL);
        assert_int_equal(cache_rename(doc, a, false, NULL), 0);
        got = json_dumps(doc, JSON_COMPACT);
        assert_string_equal(got,
                            "{\"edges\":[{\"buffers\":[\"b0\",\"b1\"],\"independent_bytes\":{\"b0\":1,\"b1\":1}}]}");
        free(got);
        assert_int_equal(cache_rename(doc, b, true, NULL), 0);
        got = json_dumps(doc, JSON_COMPACT);
        assert_string_equal(got, want[1]);
        free(got);
        json_decref(doc);
        dt_graph_free(a);
        dt_graph_free(b);
    }
}

static void test_foreign(void **state)
{
    struct dt_graph *g = graph_of(&first);
    struct dt_err e = {0};
    json_t *doc = json_pack("{s:[{s:s}]}", "launches", "name", "l3"), *before = json_deep_copy(doc);
    assert_int_equal(cache_rename(doc, g, true, &e), DT_E_CACHE);
    same(doc, before);
    dt_err_done(&e);
    json_decref(doc);
    json_decref(before);
    doc = json_pack("{s:[{s:s, s:s, s:[s]}]}", "edges", "producer", "gemm", "consumer", "bias", "buffers", "u");
    assert_int_equal(cache_rename(doc, g, false, &e), DT_E_INTERNAL);
    dt_err_done(&e);
    json_decref(doc);
    /* wrong shapes are left alone, never a crash */
    doc = json_pack("{s:[i, n, [], {s:i, s:[i], s:s}], s:i, s:s, s:n}", "launches", 1, "name", 5, "args", 7, "after",
                    "x", "edges", 5, "modules", "m", "assumes");
    assert_int_equal(cache_rename(doc, g, false, &e), 0);
    json_decref(doc);
    dt_graph_free(g);
}

/* Allocation 1, 2, 3 … fails: DT_E_NOMEM, and the document is as it was. */
static void test_out_of_memory(void **state)
{
    json_t *doc = document_of(plan, &first), *want = renamed(doc, &first, false), *back = renamed(want, &first, true);
    struct dt_graph *g = graph_of(&first);
    json_set_alloc_funcs(dt_malloc, free);
    for (int out = 0; out < 2; out++) {
        int r = DT_E_NOMEM;
        long n;
        for (n = 1; r < 0 && n < 5000; n++) {
            struct dt_err e = {0};
            json_t *copy = json_deep_copy(out ? want : doc);
            dt_alloc_fail_after(n);
            r = cache_rename(copy, g, out, &e);
            dt_alloc_fail_after(0);
            if (r < 0) {
                assert_int_equal(r, DT_E_NOMEM);
                same(copy, out ? want : doc);
            } else {
                same(copy, out ? back : want);
            }
            dt_err_done(&e);
            json_decref(copy);
        }
        assert_true(r == 0 && n > 100);
    }
    json_set_alloc_funcs(malloc, free);
    dt_graph_free(g);
    json_decref(doc);
    json_decref(want);
    json_decref(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_graph), cmocka_unit_test(test_other_names),
        cmocka_unit_test(test_clash),      cmocka_unit_test(test_generated_looks_canonical),
        cmocka_unit_test(test_plus),       cmocka_unit_test(test_joined_clash),
        cmocka_unit_test(test_count),      cmocka_unit_test(test_order),
        cmocka_unit_test(test_foreign),    cmocka_unit_test(test_out_of_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
