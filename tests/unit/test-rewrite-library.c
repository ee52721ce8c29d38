/* The performance library (rewrite/gate/library.c): the plan is the same with and without it, whatever the library
 * holds, and with it less runs.
 *
 * The store here is a list in memory that counts. The graphs are chains of four element-wise kernels; in one graph
 * there is a kernel whose branch depends on data. Entries are used again by another planning and by a graph with other
 * data, but not by a graph whose costs depend on data. Entries are also damaged, cut, and forged with a right checksum.
 */
#include "memo-list.h"
#include "rewrite-world.h"

#define LIBRARY_HEAD "dovetail trial 1\n"
#define BODY (sizeof LIBRARY_HEAD - 1 + DT_SHA256_TEXT - 1 + 1)

static struct dev_device *device;

/* doubles where the value is positive: by another instruction than elsewhere */
#define CHOOSY                                                                                                         \
    KERNEL("c", "setp.gt.f32 %p, %f1, 0f00000000;\n@%p bra UP;\nadd.rn.f32 %f2, %f1, 0f3F800000;\nbra DONE;\nUP:\n"    \
                "mul.rn.f32 %f2, %f1, 0f40000000;\nmul.rn.f32 %f2, %f2, 0f40000000;\nDONE:")

/* Plan x -f-> p -g-> q -last-> s; the plan as text. Hits, misses and puts of it. */
static char *plan(const char *last, unsigned seed, const struct ana_memo *m, const char *stamp)
{
    struct dt_err e = {0};
    struct dt_str text = {0};
    struct dt_graph *g;
    struct dev_prog *p;
    struct ana_result *a;
    struct ana_options o = {0};
    struct rw_options ro = {.inputs = 2, .schedules = 2, .library = m, .stamp = stamp};
    json_t *doc;
    hits = misses = puts_ = 0;
    dt_str_add(&text, "{\"dovetail\": 1, \"modules\": {\"m\": {\"ptx\": \"");
    for (const char *s = TEXT CHOOSY; *s; s++) {
        if (!strncmp(s, ".reg .f32", 9))
            dt_str_add(&text, ".reg .pred %p;\\n");
        dt_str_addf(&text, *s == '\n' ? "\\n" : "%c", *s);
    }
    dt_str_addf(
        &text,
        "\"}}, \"buffers\": {\"x\": {\"bytes\": 32768, \"role\": \"input\", \"fill\": {\"uniform\": [-1, 1], "
        "\"dtype\": \"f32\", \"seed\": %u}}," BUFFER("p", "intermediate") "," BUFFER("q", "intermediate") "," BUFFER(
            "s", "output") "}, \"launches\": [" KEEP("a", "f", "x", "p") "," KEEP("b", "g", "p", "q") ",",
        seed);
    dt_str_addf(&text,
                "{\"name\": \"d\", \"module\": \"m\", \"entry\": \"%s\", \"grid\": [64,1,1], \"block\": [128,1,1],"
                "\"args\": [{\"buffer\": \"q\"}, {\"buffer\": \"s\"}]}]}",
                last);
    must(dt_graph_parse(text.s, text.len, &g, &e), &e);
    dt_str_done(&text);
    must(dev_prog_new(device, g, NULL, NULL, &p, &e), &e);
    must(ana_run(device, p, &o, &a, &e), &e);
    must(rw_plan(device, p, a, &ro, NULL, &doc, &e), &e);
    assert_true(json_is_true(json_object_get(json_object_get(doc, "verified"), "bitwise")));
    json_object_del(doc, "buffers"); /* fills */
    json_object_del(doc, "original");
    char *out = json_dumps(doc, JSON_INDENT(1));
    json_decref(doc);
    ana_free(a);
    dev_prog_free(p);
    dt_graph_free(g);
    return out;
}

static void same(const char *last, unsigned seed, const char *want)
{
    char *got = plan(last, seed, &memo_list, "here");
    assert_string_equal(got, want);
    free(got);
}

static void test_same_plan(void **state)
{
    char *without = plan("f", 1, NULL, NULL);
    forget();
    assert_non_null(strstr(without, "\"kept\"")); /* else nothing is tried here */
    same("f", 1, without);
    unsigned tried = misses;
    assert_true(tried > 0 && hits == 0 && puts_ >= tried);
    same("f", 1, without);
    assert_true(hits == tried && misses == 0 && puts_ == 0); /* nothing ran alone */
    /* data does not matter to these kernels; device, its figures and compilers do */
    char *other = plan("f", 2, &memo_list, "here");
    assert_true(hits == tried && misses == 0);
    free(other);
    other = plan("f", 1, &memo_list, "there");
    assert_true(hits == 0 && misses == tried);
    assert_string_equal(other, without);
    free(other);
    free(without);
}

static void test_data(void **state)
{
    char *without[2] = {plan("c", 1, NULL, NULL), plan("c", 2, NULL, NULL)};
    forget();
    same("c", 1, without[0]);
    unsigned tried = misses;
    same("c", 1, without[0]);
    assert_true(hits == tried && misses == 0);
    same("c", 2, without[1]); /* a and b are known; what c takes depends on x */
    assert_true(misses > 0 && misses < tried);
    free(without[0]);
    free(without[1]);
}

static void resign(struct kept *k)
{
    struct dt_sha256 h;
    char sum[DT_SHA256_TEXT];
    assert_int_equal(dt_sha256_init(&h), 0);
    dt_sha256_addstr(&h, k->key);
    dt_sha256_add(&h, k->p + BODY, k->n - BODY);
    dt_sha256_final(&h, sum);
    memcpy(k->p + sizeof LIBRARY_HEAD - 1, sum, DT_SHA256_TEXT - 1);
}

static void fill_library(const char *want)
{
    forget();
    same("f", 1, want);
    assert_true(nkept > 0);
}

/* A changed byte anywhere, a byte less or more: as if it were not there, and it is written anew. */
static void test_damage(void **state)
{
    char *want = plan("f", 1, NULL, NULL);
    fill_library(want);
    size_t n = kept[0].n;
    for (size_t at = 0; at < n + 2; at += at < BODY ? 13 : 97) {
        for (unsigned i = 0; i < nkept; i++) {
            if (at < kept[i].n)
                kept[i].p[at] ^= 1 + at % 255;
            else
                kept[i].n = at == n ? kept[i].n - 1 : kept[i].n / 2;
        }
        same("f", 1, want);
        assert_true(hits > 0 && puts_ > 0);
        same("f", 1, want);
        assert_int_equal(puts_, 0);
    }
    free(want);
}

static void set(struct kept *k, unsigned launch, unsigned number, uint64_t v)
{
    for (unsigned i = 0; i < 8; i++)
        k->p[BODY + 16 + launch * 49 * 8 + number * 8 + i] = (uint8_t)(v >> 8 * i);
}

/* Whatever it says with a right checksum: never a fault, a hang, a plan that is slower than it says, or another than
 * verified. */
static void test_forged(void **state)
{
    static const uint64_t value[] = {0,
                                     1,
                                     77,
                                     UINT64_C(1) << 40,
                                     UINT64_C(1) << 48,
                                     UINT64_MAX,
                                     UINT64_C(0x7FF0000000000000),
                                     UINT64_C(0x7FF8000000000001)};
    char *want = plan("f", 1, NULL, NULL);
    unsigned refused = 0, found_out = 0;
    for (unsigned number = 0; number < 36; number += 1 + number % 3)
        for (unsigned v = 0; v < sizeof value / sizeof *value; v += 1 + number % 2) {
            fill_library(want);
            unsigned before = misses;
            for (unsigned i = 0; i < nkept; i++) {
                set(&kept[i], 0, number, value[v]);
                resign(&kept[i]);
            }
            char *got = plan("f", 1, &memo_list, "here");
            refused += puts_ > 0 && hits <= before;
            found_out += puts_ > 0 && misses == 0;
            /* the same plan, or one without what was made to look slow; no other figures */
            if (strcmp(got, want)) {
                json_t *a = json_loads(got, 0, NULL), *b = json_loads(want, 0, NULL);
                double t = json_real_value(json_object_get(json_object_get(a, "optimized"), "time_us"));
                assert_true(t >= json_real_value(json_object_get(json_object_get(b, "optimized"), "time_us")));
                assert_true(t <= json_real_value(json_object_get(json_object_get(a, "baseline"), "time_us")));
                assert_true(json_equal(json_object_get(a, "baseline"), json_object_get(b, "baseline")));
                json_decref(a);
                json_decref(b);
            }
            free(got);
        }
    assert_true(refused > 0 && found_out > 0);
    free(want);
}

/* Everything looks free of charge: what the gate ran says otherwise, and the plan is the one without the library. */
static void test_cheap(void **state)
{
    char *want = plan("f", 1, NULL, NULL);
    fill_library(want);
    for (unsigned i = 0; i < nkept; i++) {
        for (unsigned number = 10; number < 10 + 24; number++) /* all counts */
            set(&kept[i], 0, number, 0);
        resign(&kept[i]);
    }
    same("f", 1, want);
    assert_true(puts_ > 0);
    same("f", 1, want); /* and what was wrong is right now */
    assert_int_equal(puts_, 0);
    free(want);
}

/* Orders that no planning passed. */
static void test_orders(void **state)
{
    char *want = plan("f", 1, NULL, NULL);
    for (unsigned v = 0; v < 2; v++) {
        fill_library(want);
        for (unsigned i = 0; i < nkept; i++) {
            kept[i].p[BODY] = v ? 200 : 0;
            resign(&kept[i]);
        }
        same("f", 1, want);
        assert_true(puts_ > 0);
    }
    free(want);
}

static int open_device(void **state)
{
    struct dt_err e = {0};
    return dev_open("soft:h200", &device, &e);
}

static int close_device(void **state)
{
    forget();
    dev_close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_plan), cmocka_unit_test(test_data),
                                       cmocka_unit_test(test_damage),    cmocka_unit_test(test_forged),
                                       cmocka_unit_test(test_cheap),     cmocka_unit_test(test_orders)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
