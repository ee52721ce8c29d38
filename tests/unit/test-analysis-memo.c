/* Footprints that are kept (analysis/record/memo.c): who hits, who must miss, and bytes that are not right.
 *
 * The store here is a list in memory that counts. One kernel is summarised, one is led by a table of constants, one has
 * a shuffle in its address (it runs as its slice on the device). With any content of the store, results must be the
 * same as without a store. Entries whose bytes are changed, cut, or changed and signed again must never do harm.
 */
#include "analysis-fixture.h"
#include "memo-list.h"

#define HEAD "dovetail footprints 1\n"

/* ---- graphs ------------------------------------------------------------------------------------------------------ */
#define PTX ".version 8.0\\n.target sm_90\\n.address_size 64\\n"
/* y[i * stride] = x[i], i < n */
#define SCALE(name)                                                                                                    \
    ".visible .entry " name "(.param .u64 x, .param .u64 y, .param .u32 n, .param .u32 stride)\\n{\\n"                 \
    ".reg .pred %p;\\n.reg .b32 %r<8>;\\n.reg .b64 %d<8>;\\n"                                                          \
    "ld.param.u64 %d1, [x];\\nld.param.u64 %d2, [y];\\nld.param.u32 %r1, [n];\\nld.param.u32 %r5, [stride];\\n"        \
    "mov.u32 %r2, %ctaid.x;\\nmov.u32 %r3, %ntid.x;\\nmov.u32 %r4, %tid.x;\\nmad.lo.s32 %r2, %r2, %r3, %r4;\\n"        \
    "setp.ge.s32 %p, %r2, %r1;\\n@%p bra DONE;\\ncvta.to.global.u64 %d1, %d1;\\ncvta.to.global.u64 %d2, %d2;\\n"       \
    "mul.wide.s32 %d3, %r2, 4;\\nadd.s64 %d5, %d1, %d3;\\nld.global.u32 %r6, [%d5];\\nmul.lo.s32 %r7, %r2, %r5;\\n"    \
    "mul.wide.s32 %d4, %r7, 4;\\nadd.s64 %d6, %d2, %d4;\\nst.global.u32 [%d6], %r6;\\nDONE:\\nret;\\n}\\n"
/* y[table[i]] = 1 */
#define TABLE                                                                                                          \
    ".visible .entry table(.param .u64 t, .param .u64 y)\\n{\\n.reg .b32 %r<4>;\\n.reg .b64 %d<6>;\\n"                 \
    "ld.param.u64 %d1, [t];\\nld.param.u64 %d2, [y];\\nmov.u32 %r1, %tid.x;\\nmul.wide.u32 %d3, %r1, 4;\\n"            \
    "add.s64 %d1, %d1, %d3;\\nld.global.u32 %r2, [%d1];\\nmul.wide.u32 %d3, %r2, 4;\\nadd.s64 %d2, %d2, %d3;\\n"       \
    "st.global.u32 [%d2], %r1;\\nret;\\n}\\n"
/* y[value of the neighbour's number] = 1 */
#define SHUFFLE                                                                                                        \
    ".visible .entry shuffle(.param .u64 y)\\n{\\n.reg .b32 %r<4>;\\n.reg .b64 %d<4>;\\n"                              \
    "ld.param.u64 %d2, [y];\\nmov.u32 %r1, %tid.x;\\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\\n"                       \
    "mul.wide.u32 %d3, %r2, 4;\\nadd.s64 %d2, %d2, %d3;\\nst.global.u32 [%d2], %r1;\\nret;\\n}\\n"

static char *graph(const char *buffers, const char *ptx, const char *launches)
{
    char *s = NULL;
    assert_true(asprintf(&s,
                         "{\"dovetail\":1,\"name\":\"t\",\"modules\":{\"m\":{\"ptx\":\"" PTX
                         "%s\"}},\"buffers\":{%s},\"launches\":[%s]}",
                         ptx, buffers, launches) > 0);
    return s;
}

#define BUFFERS                                                                                                        \
    "\"a\":{\"bytes\":4096,\"role\":\"input\"},\"b\":{\"bytes\":16384,\"role\":\"intermediate\"},\"c\":{\"bytes\":"    \
    "16384,\"role\":\"output\"},"
#define CONTENT(v)                                                                                                     \
    "\"t\":{\"bytes\":128,\"role\":\"input\",\"constant\":true,\"fill\":{\"uniform\":[0,30],\"dtype\":\"i32\","        \
    "\"seed\":" v "}}"
#define LAUNCH(entry, grid, block, args)                                                                               \
    "{\"module\":\"m\",\"entry\":\"" entry "\",\"grid\":[" grid ",1,1],\"block\":[" block ",1,1],\"args\":[" args "]}"
#define B(name) "{\"buffer\":\"" name "\"}"
#define I(v) "{\"i32\":" v "}"

static unsigned conflicts; /* launches of which two blocks touch a byte in conflict */

/* Analyse with the store and without: the same. Hits, misses and puts of the first. */
static void check(char *json)
{
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct ana_result *r[2] = {NULL};
    struct dt_err e = {0};
    json_t *doc[2];
    hits = misses = puts_ = conflicts = 0;
    int rc = dt_graph_parse(json, strlen(json), &g, &e);
    if (!rc)
        rc = dev_prog_new(device, g, NULL, NULL, &p, &e);
    for (unsigned k = 0; k < 2 && !rc; k++) {
        struct ana_options o = {.memo = k ? NULL : &memo_list, .all_edges = true};
        rc = ana_run(device, p, &o, &r[k], &e);
    }
    if (rc)
        fail_msg("%s", e.detail ? e.detail : "");
    same_footprints("kept", r[0], r[1]);
    for (uint32_t l = 0; l < g->nlaunch; l++)
        conflicts += r[0]->launch[l].self_conflict;
    for (unsigned k = 0; k < 2; k++)
        doc[k] = ana_to_json(r[k], dev_info(device), NULL, true);
    assert_true(json_equal(doc[0], doc[1]));
    for (unsigned k = 0; k < 2; k++) {
        json_decref(doc[k]);
        ana_free(r[k]);
    }
    dev_prog_free(p);
    dt_graph_free(g);
    free(json);
}

#define THREE                                                                                                          \
    LAUNCH("scale", "4", "64", B("a") "," B("b") "," I("250") "," I("3"))                                              \
    "," LAUNCH("table", "1", "32", B("t") "," B("b")) "," LAUNCH("shuffle", "1", "32", B("c"))

static void another_graph_hits(void **state)
{
    forget();
    check(graph(BUFFERS CONTENT("5"), SCALE("scale") TABLE SHUFFLE, THREE));
    assert_int_equal(hits, 0);
    assert_int_equal(misses, 3);
    assert_int_equal(puts_, 3);
    check(graph(BUFFERS CONTENT("5"), SCALE("scale") TABLE SHUFFLE, THREE));
    assert_int_equal(hits, 3);
    assert_int_equal(puts_, 0);
    /* other names, other order of buffers, another kernel in the module, launches twice and among others */
    check(graph(
        "\"z\":{\"bytes\":64,\"role\":\"intermediate\"},\"q\":{\"bytes\":16384,\"role\":\"output\"},\"y\":{\"bytes\":"
        "4096,\"role\":\"input\"}",
        SHUFFLE ".visible .entry nothing()\\n{\\nret;\\n}\\n" SCALE("other"),
        LAUNCH("shuffle", "1", "32", B("q")) "," LAUNCH(
            "other", "4", "64", B("y") "," B("q") "," I("250") "," I("3")) "," LAUNCH("shuffle", "1", "32", B("q"))));
    assert_int_equal(hits, 2); /* equal launches of one graph are looked up once */
    assert_int_equal(misses, 0);
    assert_int_equal(puts_, 0);
}

/* All blocks of the first write one place; those of the second do not. An entry that has forgotten it would let them be
 * joined. */
static void conflicts_are_kept(void **state)
{
    forget();
    for (unsigned k = 0; k < 2; k++) {
        check(graph(BUFFERS CONTENT("5"), SCALE("scale"),
                    LAUNCH("scale", "4", "64", B("a") "," B("b") "," I("250") "," I("0")) "," LAUNCH(
                        "scale", "4", "64", B("a") "," B("c") "," I("250") "," I("3"))));
        assert_int_equal(hits, k ? 2 : 0);
        assert_int_equal(conflicts, 1);
    }
}

static void what_counts_misses(void **state)
{
    static const char *const other[] = {
        LAUNCH("scale", "3", "64", B("a") "," B("b") "," I("250") "," I("3")),
        LAUNCH("scale", "4", "32", B("a") "," B("b") "," I("250") "," I("3")),
        LAUNCH("scale", "4", "64", B("a") "," B("b") "," I("249") "," I("3")),
        LAUNCH("scale", "4", "64", B("a") "," B("b") "," I("250") "," I("4")),
        LAUNCH("scale", "4", "64", B("a") ",{\"buffer\":\"b\",\"offset\":4}," I("250") "," I("3")),
        LAUNCH("scale", "4", "64", B("b") "," B("b") "," I("250") "," I("3")), /* in place */
        LAUNCH("scale", "4", "64", B("c") "," B("b") "," I("250") "," I("3")), /* a buffer of another size */
        LAUNCH("table", "1", "32", B("t") "," B("c")),                         /* content: below */
    };
    for (unsigned i = 0; i < sizeof other / sizeof *other; i++) {
        bool content = i + 1 == sizeof other / sizeof *other;
        forget();
        check(graph(BUFFERS CONTENT("5"), SCALE("scale") TABLE SHUFFLE, THREE));
        check(graph(content ? BUFFERS CONTENT("6") : BUFFERS CONTENT("5"), SCALE("scale") TABLE SHUFFLE, other[i]));
        if (hits || misses != 1 || puts_ != 1)
            fail_msg("%s: %u hits", other[i], hits);
    }
    forget();
    check(graph(BUFFERS CONTENT("5"), SCALE("scale") TABLE SHUFFLE, THREE));
    check(graph(BUFFERS CONTENT("5"), SCALE("scale") TABLE SHUFFLE, LAUNCH("table", "1", "32", B("t") "," B("c"))));
    assert_int_equal(hits, 1); /* another buffer of that size, the same content */
}

/* What data decides is not kept. */
static void data_is_not_kept(void **state)
{
    forget();
    check(graph("\"t\":{\"bytes\":128,\"role\":\"input\",\"fill\":{\"uniform\":[0,30],\"dtype\":\"i32\",\"seed\":5}},"
                "\"b\":{\"bytes\":16384,\"role\":\"output\"}",
                TABLE, LAUNCH("table", "1", "32", B("t") "," B("b"))));
    assert_int_equal(puts_ + hits + misses, 0);
    check(graph("\"t\":{\"bytes\":128,\"role\":\"input\",\"fill\":{\"uniform\":[0,30],\"dtype\":\"i32\",\"seed\":6}},"
                "\"b\":{\"bytes\":16384,\"role\":\"output\"}",
                TABLE, LAUNCH("table", "1", "32", B("t") "," B("b"))));
    assert_int_equal(puts_ + hits + misses, 0);
}

static void sign_again(struct kept *k)
{
    size_t head = sizeof HEAD - 1 + DT_SHA256_TEXT - 1 + 1;
    char sum[DT_SHA256_TEXT];
    struct dt_sha256 h;
    dt_sha256_init(&h);
    dt_sha256_addstr(&h, k->key);
    dt_sha256_add(&h, k->p + head, k->n - head);
    dt_sha256_final(&h, sum);
    memcpy(k->p + sizeof HEAD - 1, sum, DT_SHA256_TEXT - 1);
}

static void damage_is_a_miss(void **state)
{
    char *json = graph(BUFFERS CONTENT("5"), SCALE("scale") TABLE SHUFFLE, THREE);
    forget();
    check(strdup(json));
    /* every byte, every length: each time what is wrong is found out and put right */
    for (unsigned i = 0; i < 3; i++) {
        for (size_t at = 0; at < kept[i].n; at += at < 100 ? 13 : 1) {
            kept[i].p[at] ^= 0x10;
            check(strdup(json));
            assert_int_equal(puts_, 1);
        }
        size_t n = kept[i].n;
        for (size_t cut = 0; cut < n; cut += 17) {
            kept[i].n = cut;
            check(strdup(json));
            assert_int_equal(puts_, 1);
            assert_int_equal(kept[i].n, n);
        }
    }
    struct kept x = kept[0]; /* an entry under another's key */
    memcpy(kept[0].key, kept[1].key, sizeof x.key);
    memcpy(kept[1].key, x.key, sizeof x.key);
    check(strdup(json));
    assert_int_equal(puts_, 2);
    free(json);
}

/* Bytes that somebody has made and signed: anything but a crash, a hang, or memory without end. */
static void hostile_bytes(void **state)
{
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct dt_err e = {0};
    char *json = graph(BUFFERS CONTENT("5"), SCALE("scale") TABLE SHUFFLE, THREE);
    const size_t head = sizeof HEAD - 1 + DT_SHA256_TEXT - 1 + 1;
    forget();
    check(strdup(json));
    assert_int_equal(dt_graph_parse(json, strlen(json), &g, &e), 0);
    assert_int_equal(dev_prog_new(device, g, NULL, NULL, &p, &e), 0);
    struct kept good[3];
    for (unsigned i = 0; i < 3; i++)
        good[i] = (struct kept){.p = malloc(kept[i].n), .n = kept[i].n}, memcpy(good[i].p, kept[i].p, kept[i].n);
    for (unsigned k = 0; k < 1500; k++) {
        unsigned i = k % 3;
        uint64_t seed = dt_splitmix64(7, k);
        size_t body = good[i].n - head, n = k % 5 ? body : body + seed % 40;
        kept[i].p = realloc(kept[i].p, head + n);
        memcpy(kept[i].p, good[i].p, good[i].n);
        kept[i].n = head + n;
        for (size_t q = body; q < n; q++)
            kept[i].p[head + q] = (uint8_t)dt_splitmix64(seed, 100 + q);
        for (unsigned q = 0; q < 1 + k % 3; q++) {
            uint64_t r = dt_splitmix64(seed, q);
            kept[i].p[head + r % body] = r >> 40 & 1 ? 0xff : (uint8_t)(r >> 32);
        }
        sign_again(&kept[i]);
        struct ana_options o = {.memo = &memo_list};
        struct ana_result *r = NULL;
        int rc = ana_run(device, p, &o, &r, &e);
        if (rc)
            dt_err_done(&e);
        ana_free(r);
        for (unsigned q = 0; q < 3; q++) {
            kept[q].p = realloc(kept[q].p, good[q].n);
            memcpy(kept[q].p, good[q].p, kept[q].n = good[q].n);
        }
    }
    for (unsigned i = 0; i < 3; i++)
        free(good[i].p);
    dev_prog_free(p);
    dt_graph_free(g);
    free(json);
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(another_graph_hits), cmocka_unit_test(conflicts_are_kept),
                                       cmocka_unit_test(what_counts_misses), cmocka_unit_test(data_is_not_kept),
                                       cmocka_unit_test(damage_is_a_miss),   cmocka_unit_test(hostile_bytes)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
