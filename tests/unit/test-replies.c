/* daemon/service/replies.c: what a reply's key is made of, the memory and its bounds; http-query.c: encodings, entity
 * tags; cache/reader.c, reply.c: what a reader sees, replies in the store, batches that do not wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>
#include <zstd.h>

#include "base/alloc.h"
#include "cache/cache.h"
#include "daemon/service/http.h"
#include "daemon/service/replies.h"

#define SUM(c) "sha256:" c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c
#define SIGNATURE SUM("ab")

/* Each part of what was asked, changed alone, gives another key; and so does moving a byte from one to the next. */
static void keys(void **state)
{
    struct dtd_device d = {.arch = "sm_90",
                           .key = "NVIDIA H200; 132 SMs; driver 13000",
                           .toolchain = "dovetail 1; rewriter 2; nvrtc 13.0-aa; nvjitlink 13.0-bb",
                           .figures = "stock",
                           .driver = "580.65.06-cc",
                           .calibration = "sha256:dd",
                           .settings = "DOVETAIL_CUPTI=off "};
    struct dtd_asked a = {"{\"dovetail\":1}", 14, "plan", "maps ", "", &d};
    char *const part[] = {d.arch, d.key, d.toolchain, d.figures, d.driver, d.calibration, d.settings};
    char base[DT_SHA256_TEXT], other[DT_SHA256_TEXT], device[DT_SHA256_TEXT], changed[DT_SHA256_TEXT];
    assert_int_equal(dtd_reply_key(&a, base), 0);
    assert_int_equal(dtd_reply_key(&a, other), 0);
    assert_string_equal(base, other);
    assert_true(dt_sha256_ok(base));
    const struct dtd_asked asked[] = {
        {"{\"dovetail\":2}", 14, "plan", "maps ", "", &d},     {"{\"dovetail\":1} ", 15, "plan", "maps ", "", &d},
        {"{\"dovetail\":1}", 13, "plan", "maps ", "", &d},     {"{\"dovetail\":1}", 14, "analysis", "maps ", "", &d},
        {"{\"dovetail\":1}", 14, "plan", "", "", &d},          {"{\"dovetail\":1}", 14, "plan", "maps ", "1000", &d},
        {"{\"dovetail\":1}", 14, "planm", "aps ", "", &d},     {"{\"dovetail\":1}p", 15, "lan", "maps ", "", &d},
        {"{\"dovetail\":1}", 14, "plan", "maps 1", "000", &d},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        assert_int_equal(dtd_reply_key(&asked[i], other), 0);
        assert_string_not_equal(base, other);
    }
    assert_int_equal(dtd_device_key(&d, device), 0);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        char *last = part[i] + strlen(part[i]) - 1;
        *last ^= 1;
        assert_int_equal(dtd_reply_key(&a, other), 0);
        assert_int_equal(dtd_device_key(&d, changed), 0);
        assert_string_not_equal(base, other);
        assert_string_not_equal(device, changed);
        *last ^= 1;
    }
    assert_int_equal(dtd_reply_key(&a, other), 0);
    assert_string_equal(base, other);
}

static struct dtd_reply *make(unsigned number, size_t len, char key[DT_SHA256_TEXT])
{
    struct cache_reply of = {.entry = number, .len = len, .body = malloc(len + 1)};
    snprintf(key, DT_SHA256_TEXT, "sha256:%064u", number);
    for (size_t i = 0; i < len; i++)
        of.body[i] = (char)('a' + dt_splitmix64(number, i) % 26);
    of.body[len] = 0;
    strcpy(of.generation, SUM("01"));
    return dtd_reply_new(key, DTD_REPLY_TYPE, &of);
}

static void memory(void **state)
{
    struct dtd_replies *m = dtd_replies_new(1 << 20);
    char key[DT_SHA256_TEXT], first[DT_SHA256_TEXT];
    uint64_t n, bytes;
    bool sound = false;
    /* the oldest go; what is used is not the oldest */
    for (unsigned i = 0; i < 100; i++) {
        struct dtd_reply *r = make(i, 20000, key);
        if (!i)
            strcpy(first, key);
        dtd_replies_put(m, r, 7);
        dtd_reply_unref(r);
        r = dtd_replies_get(m, first, 7, &sound);
        assert_non_null(r);
        assert_true(sound);
        dtd_reply_unref(r);
        dtd_replies_size(m, &n, &bytes);
        assert_true(bytes <= 1 << 20 && n == (i < 20 ? i + 1 : n) && n >= (i < 20 ? i + 1 : 20));
    }
    dtd_reply_unref(make(1, 1, key)); /* only for its key */
    assert_null(dtd_replies_get(m, key, 7, &sound));
    /* another version of the store, or none: not sound until it was looked at */
    struct dtd_reply *r = dtd_replies_get(m, first, 8, &sound);
    assert_false(sound);
    dtd_replies_put(m, r, 0);
    dtd_reply_unref(dtd_replies_get(m, first, 0, &sound));
    assert_false(sound);
    dtd_replies_put(m, r, 8);
    dtd_reply_unref(dtd_replies_get(m, first, 8, &sound));
    assert_true(sound);
    /* dropped while somebody sends it */
    dtd_replies_drop(m, first);
    assert_null(dtd_replies_get(m, first, 8, &sound));
    assert_int_equal(strlen(r->of.body), 20000);
    dtd_reply_unref(r);
    /* too large to keep */
    r = make(1000, (1 << 18) + 1, key);
    dtd_replies_put(m, r, 7);
    assert_null(dtd_replies_get(m, key, 7, &sound));
    dtd_reply_unref(r);
    assert_null(dtd_replies_free(m));
}

/* Long bodies have a file, whose bytes are the body; compressed bodies are the body. */
static void forms(void **state)
{
    static const size_t sizes[] = {0, 10, 1023, 1024, 16383, 16384, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char key[DT_SHA256_TEXT];
        struct dtd_reply *r = make((unsigned)i, sizes[i], key);
        char *copy = malloc(sizes[i] + 1);
        assert_int_equal(r->file >= 0, sizes[i] >= 16384);
        assert_int_equal(r->of.zstd != NULL, sizes[i] >= 1024);
        if (r->file >= 0) {
            assert_int_equal(pread(r->file, copy, sizes[i], 0), sizes[i]);
            assert_memory_equal(copy, r->of.body, sizes[i]);
        }
        if (r->of.zstd) {
            assert_int_equal(ZSTD_decompress(copy, sizes[i], r->of.zstd, r->of.zstd_len), sizes[i]);
            assert_memory_equal(copy, r->of.body, sizes[i]);
        }
        free(copy);
        dtd_reply_unref(r);
    }
}

static void headers(void **state)
{
    static const char *const yes[] = {"zstd",  "ZSTD",         "gzip,zstd",   " gzip , zstd;q=0.3", "*",
                                      "*;q=1", "zstd;q=1.000", "*;q=0, zstd", "zstd;Q=0.001",       ",,zstd"},
                             *const no[] = {"",          "gzip",      "zstd;q=0",   "zstd;q=0.000", "zstd; q=0",
                                            "zstd ;q=0", "*;q=0",     "zstd;q=0,*", "xzstd",        "zstdx",
                                            "zstd;q=",   "zstd;q=-1", "zstd;x=1"};
    assert_false(dtd_takes_encoding(NULL, "zstd"));
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!dtd_takes_encoding(yes[i], "zstd"))
            fail_msg("%s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (dtd_takes_encoding(no[i], "zstd"))
            fail_msg("%s", no[i]);
    static const char *const has[] = {"\"ab\"", "*", "W/\"ab\"", "\"x\", \"ab\"", "\"x,y\",W/\"ab\"", " \"ab\" "},
                             *const lacks[] = {"", "\"abc\"", "ab", "\"x,\"ab\"", "\"ab", "W/", "\"x", "\"ab\"x"};
    assert_false(dtd_tag_matches(NULL, "\"ab\""));
    for (size_t i = 0; i < sizeof has / sizeof *has; i++)
        if (!dtd_tag_matches(has[i], "\"ab\""))
            fail_msg("%s", has[i]);
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
        if (dtd_tag_matches(lacks[i], "\"ab\""))
            fail_msg("%s", lacks[i]);
}

/* ---- the store --------------------------------------------------------------------------------------------------- */
static char folder[64], path[96];

static int fresh(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/dovetail-replies.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.db", folder);
    return 0;
}

static int remove_all(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static const struct cache_key key_ = {"plan", SIGNATURE, "soft:h200", "dovetail 1", "policy"};

static struct cache *store(struct cache **ret_reader)
{
    struct cache *c;
    json_t *doc = json_pack("{s:s}", "name", "first");
    assert_int_equal(cache_open(path, &c, NULL), 0);
    assert_int_equal(cache_put(c, &key_, SUM("cd"), doc, NULL, NULL), 0);
    assert_int_equal(cache_reader(c, ret_reader, NULL), 0);
    json_decref(doc);
    return c;
}

static struct cache_reply reply_of(struct cache *c, const char *body)
{
    struct cache_reply r = {.signature = SIGNATURE, .digest = SUM("cd"), .len = strlen(body), .body = strdup(body)};
    assert_int_equal(cache_row_find(c, &key_, &r.entry, r.generation), 1);
    r.zstd = dt_memdup("\0z", 2);
    r.zstd_len = 2;
    return r;
}

static bool there(struct cache *c, const char *key)
{
    struct cache_reply got = {0};
    int r = cache_reply_get(c, key, &got);
    cache_reply_done(&got);
    return r == 1;
}

static void run(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void versions(void **state)
{
    struct cache *r, *c = store(&r);
    json_t *doc = NULL;
    uint64_t v = cache_reader_version(r), before = v;
    assert_true(v && cache_reader_version(r) == v);
    run("UPDATE counter SET n = n"); /* no row: nothing is committed */
    assert_int_equal(cache_get(r, &key_, &doc, NULL), 1);
    json_decref(doc);
    assert_true(cache_reader_version(r) == v); /* reading with a reader writes nothing */
    assert_int_equal(cache_get(c, &key_, &doc, NULL), 1);
    assert_true((v = cache_reader_version(r)) != before); /* the same process, another connection */
    run("UPDATE entry SET hits = hits + 1");
    assert_true(cache_reader_version(r) != v); /* another process */
    for (int i = 0; i < 100; i++) { /* each is seen, though the log is full, restarted, or gone with a checkpoint */
        v = cache_reader_version(r);
        assert_true(v && cache_reader_version(r) == v);
        run(i % 3 == 1 ? "UPDATE entry SET hits = hits + 1; PRAGMA wal_checkpoint(TRUNCATE)"
                       : "UPDATE entry SET hits = hits + 1");
        assert_true(cache_reader_version(r) != v);
    }
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL), SQLITE_BUSY);
    assert_int_equal(sqlite3_close(db), SQLITE_OK); /* the log stays while somebody reads: reader.c relies on it */
    assert_int_equal(cache_put(r, &key_, SUM("cd"), doc, NULL, NULL), DT_E_CACHE);
    json_decref(doc);
    /* another file at the path */
    char old[128];
    v = cache_reader_version(r);
    snprintf(old, sizeof old, "%s.old", path);
    assert_int_equal(rename(path, old), 0);
    assert_true(cache_reader_version(r) == 0);
    assert_int_equal(rename(old, path), 0);
    assert_true(cache_reader_version(r) != 0);
    /* what one reader has said, another never says of another state of the store */
    for (int i = 0; i < 4; i++) {
        v = cache_reader_version(r);
        cache_close(r);
        run("UPDATE entry SET hits = hits + 1");
        assert_int_equal(cache_reader(c, &r, NULL), 0);
        assert_true(cache_reader_version(r) != v);
    }
    cache_close(r);
    cache_close(c);
}

static void replies(void **state)
{
    struct cache *r, *c = store(&r);
    struct cache_reply one = reply_of(c, "{\"name\":\"mine\"}"), got = {0};
    assert_false(there(r, "k"));
    assert_int_equal(cache_reply_put(c, "k", &one, 1 << 20, NULL), 0);
    assert_int_equal(cache_reply_get(r, "k", &got), 1);
    assert_string_equal(got.body, one.body);
    assert_string_equal(got.digest, one.digest);
    assert_string_equal(got.signature, one.signature);
    assert_int_equal(got.zstd_len, 2);
    assert_memory_equal(got.zstd, "\0z", 2);
    cache_reply_done(&got);
    /* damage of any column of it, and of its entry */
    static const char *const harm[] = {
        "UPDATE reply SET key = 'l'",
        "UPDATE reply SET body = body || ' '",
        "UPDATE reply SET zstd = x'00'",
        "UPDATE reply SET generation = replace(generation, '1', '2')",
        "UPDATE reply SET digest = replace(digest, 'c', 'd')",
        "UPDATE reply SET signature = replace(signature, 'a', 'b')",
        "UPDATE reply SET entry = entry + 1",
        "UPDATE entry SET body = body || ' '",
        "UPDATE entry SET policy = 'other'",
        "UPDATE entry SET sha256 = replace(sha256, '1', '2')",
        "DELETE FROM entry",
    };
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        json_t *doc = json_pack("{s:s, s:s}", "name", "first", "signature", "11");
        run("DELETE FROM entry; DELETE FROM reply");
        assert_int_equal(cache_put(c, &key_, SUM("cd"), doc, NULL, NULL), 0);
        json_decref(doc);
        cache_reply_done(&one);
        one = reply_of(c, "{\"name\":\"mine\"}");
        strcpy(one.digest, SUM("cd"));
        assert_int_equal(cache_reply_put(c, "k", &one, 1 << 20, NULL), 0);
        assert_true(there(r, "k"));
        run(harm[i]);
        if (there(r, i ? "k" : "l"))
            fail_msg("%s", harm[i]);
    }
    /* an entry that is gone gets no reply, nor does one that was replaced */
    assert_int_equal(cache_reply_put(c, "late", &one, 1 << 20, NULL), 0);
    assert_false(there(r, "late"));
    cache_reply_done(&one);
    cache_close(r);
    cache_close(c);
}

/* A batch does not wait for another writer, and loses nothing by that. */
static void batches(void **state)
{
    struct cache *r, *c = store(&r);
    struct cache_reply one = reply_of(c, "{}");
    struct cache_count count = {"plan", 5};
    struct cache_used used = {one.entry, 5};
    struct cache_owned owned = {SIGNATURE, 1000};
    struct cache_kept_reply kept[] = {{"k", &one}, {"absent", NULL}};
    struct cache_hits h = {&count, &used, &owned, kept, 1, 1, 1, 2};
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(cache_hits_put(c, &h, 1 << 20, NULL), 0);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_false(there(r, "k"));
    assert_int_equal(cache_hits_put(c, &h, 1 << 20, NULL), 1);
    assert_true(there(r, "k"));
    json_t *figures = cache_stats(c);
    assert_int_equal(json_integer_value(json_object_get(figures, "hits")), 5);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(figures, "replies"), "rows")), 1);
    json_decref(figures);
    assert_int_equal(cache_hits_put(c, &h, 3, NULL), 1); /* too little room */
    assert_false(there(r, "k"));
    sqlite3_close(db);
    cache_reply_done(&one);
    cache_close(r);
    cache_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),
        cmocka_unit_test(memory),
        cmocka_unit_test(forms),
        cmocka_unit_test(headers),
        cmocka_unit_test_setup_teardown(versions, fresh, remove_all),
        cmocka_unit_test_setup_teardown(replies, fresh, remove_all),
        cmocka_unit_test_setup_teardown(batches, fresh, remove_all),
    };
    return cmocka_run_group_tests_name("replies", tests, NULL, NULL);
}
