/* The store: round trips, keys, damage, migration, several processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <ftw.h>
#include <cmocka.h>
#include <sqlite3.h>

#include "base/file.h"
#include "base/str.h"
#include "cache/cache.h"
#include "cache/jobs.h"

#define SIG "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define DIG "sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddee00"

static char dir[64], path[128];

static int set_up(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/dt-store-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/sub/cache.db", dir);
    return 0;
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *at) { return remove(name); }

static int tear_down(void **state) { return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

static struct cache *must_open(void)
{
    struct cache *c = NULL;
    struct dt_err e = {0};
    if (cache_open(path, &c, &e) < 0)
        fail_msg("%s", e.detail);
    return c;
}

static struct cache_key key(const char *device)
{
    return (struct cache_key){"plan", SIG, device, "dovetail 1", "allow=;deny="};
}

static void put(struct cache *c, const char *device, int n)
{
    struct cache_key k = key(device);
    struct dt_err e = {0};
    json_t *doc = json_pack("{s:i, s:f, s:s}", "n", n, "time_us", 41.3, "t", "\xc3\xa9\"\\");
    if (cache_put(c, &k, DIG, doc, NULL, &e) < 0)
        fail_msg("%s", e.detail);
    json_decref(doc);
}

/* n of the document under the key, -1 for a miss. */
static int get(struct cache *c, const char *device)
{
    struct cache_key k = key(device);
    struct dt_err e = {0};
    json_t *doc = NULL;
    int r = cache_get(c, &k, &doc, &e), n = -1;
    if (r < 0)
        fail_msg("%s", e.detail);
    if (r == 1) {
        n = (int)json_integer_value(json_object_get(doc, "n"));
        assert_string_equal(json_string_value(json_object_get(doc, "t")), "\xc3\xa9\"\\");
        assert_true(json_real_value(json_object_get(doc, "time_us")) == 41.3);
    }
    json_decref(doc);
    return n;
}

static void sql(const char *text)
{
    sqlite3 *db;
    char *err = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, text, NULL, NULL, &err) != SQLITE_OK)
        fail_msg("%s: %s", text, err);
    sqlite3_close(db);
}

static json_int_t figure(struct cache *c, const char *want, const char *name)
{
    json_t *s = cache_stats(c), *v = want ? json_object_get(json_object_get(s, "by_want"), want) : s;
    json_int_t n = json_integer_value(json_object_get(v, name));
    json_decref(s);
    return n;
}

static void test_round_trip(void **state)
{
    struct cache *c = must_open();
    assert_int_equal(get(c, "a"), -1);
    put(c, "a", 1);
    put(c, "b", 2);
    assert_int_equal(get(c, "a"), 1);
    assert_int_equal(get(c, "b"), 2);
    put(c, "a", 3); /* again: the newer document */
    cache_close(c);
    c = must_open();
    assert_int_equal(get(c, "a"), 3);
    struct cache_key k = key("a");
    json_t *doc = NULL;
    k.policy = "allow=split;deny=";
    assert_int_equal(cache_get(c, &k, &doc, NULL), 0);
    k = key("a");
    k.want = "analysis";
    assert_int_equal(cache_get(c, &k, &doc, NULL), 0);
    k = key("a");
    k.toolchain = "dovetail 2";
    assert_int_equal(cache_get(c, &k, &doc, NULL), 0);
    assert_null(doc);
    assert_int_equal(figure(c, NULL, "entries"), 2);
    assert_int_equal(figure(c, "plan", "hits"), 3);
    assert_int_equal(figure(c, "plan", "misses"), 3);
    assert_int_equal(figure(c, "analysis", "misses"), 1);
    assert_true(figure(c, NULL, "bytes") > 60);
    cache_close(c);
}

/* Bytes that are kept, NULL for a miss; the length in *n. */
static char *kept(struct cache *c, const char *name, size_t *n)
{
    void *p = NULL;
    struct dt_err e = {0};
    int r = cache_kept_get(c, CACHE_FOOTPRINTS, name, &p, n, &e);
    if (r < 0)
        fail_msg("%s", e.detail);
    assert_true(r == 0 || !e.detail); /* a miss may say that a damaged row went */
    dt_err_done(&e);
    return r ? p : NULL;
}

static void keep(struct cache *c, const char *name, const void *p, size_t bytes, int64_t max)
{
    struct dt_err e = {0};
    if (cache_kept_put(c, CACHE_FOOTPRINTS, &(struct cache_bytes){name, p, bytes}, 1, max, &e) < 0)
        fail_msg("%s", e.detail);
}

static void test_footprints(void **state)
{
    static const char body[] = "a\0b\xff\n", other[] = "other";
    struct cache *c = must_open();
    size_t n = 0;
    assert_null(kept(c, "k1", &n));
    const struct cache_bytes two[] = {{"k1", body, sizeof body}, {"k2", other, sizeof other}};
    assert_int_equal(cache_kept_put(c, CACHE_FOOTPRINTS, two, 2, 1 << 20, NULL), 0);
    cache_close(c);
    c = must_open();
    char *p = kept(c, "k1", &n);
    assert_non_null(p);
    assert_int_equal(n, sizeof body);
    assert_memory_equal(p, body, n);
    free(p);
    keep(c, "k1", other, sizeof other, 1 << 20); /* again: the newer bytes */
    p = kept(c, "k1", &n);
    assert_int_equal(n, sizeof other);
    free(p);
    /* damage, and bytes under another's key: a miss, and gone */
    json_t *v = NULL;
    sql("UPDATE footprint SET body = x'00' WHERE key = 'k1'; UPDATE footprint SET key = 'k3' WHERE key = 'k2'");
    assert_int_equal(cache_verify(c, &v, NULL), 0);
    assert_int_equal(json_array_size(json_object_get(v, "damaged")), 2);
    json_decref(v);
    assert_null(kept(c, "k1", &n));
    assert_null(kept(c, "k2", &n));
    assert_null(kept(c, "k3", &n));
    assert_int_equal(cache_verify(c, &v, NULL), 0);
    assert_int_equal(json_array_size(json_object_get(v, "damaged")), 0);
    json_decref(v);
    cache_close(c);
}

/* A row that the database does not take is an error, and none of the others is kept. */
static void test_a_row_is_refused(void **state)
{
    struct cache *c = must_open();
    size_t n = 0;
    void *p = NULL;
    struct dt_err e = {0};
    const struct cache_bytes two[] = {{"k1", "one", 3}, {"k2", "two", 3}};
    sql("CREATE TRIGGER refuse BEFORE INSERT ON trial WHEN new.key = 'k2' BEGIN SELECT RAISE(ABORT, 'no'); END");
    assert_true(cache_kept_put(c, CACHE_TRIALS, two, 2, 1 << 20, &e) < 0);
    dt_err_done(&e);
    assert_int_equal(cache_kept_get(c, CACHE_TRIALS, "k1", &p, &n, NULL), 0);
    cache_close(c);
}

/* The performance library is a table of its own: same keys, other bytes; all of the cache's calls know it. */
static void test_trials(void **state)
{
    struct cache *c = must_open();
    size_t n = 0;
    void *p = NULL;
    json_t *o = NULL;
    keep(c, "k1", "footprint", 9, 1 << 20);
    const struct cache_bytes two[] = {{"k1", "trial", 5}, {"k2", "other", 5}};
    assert_int_equal(cache_kept_put(c, CACHE_TRIALS, two, 2, 1 << 20, NULL), 0);
    assert_int_equal(cache_kept_get(c, CACHE_TRIALS, "k1", &p, &n, NULL), 1);
    assert_int_equal(n, 5);
    assert_memory_equal(p, "trial", 5);
    free(p);
    assert_int_equal(figure(c, NULL, "entries"), 0); /* no documents */
    o = cache_stats(c);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "trials"), "rows")), 2);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "trials"), "bytes")), 10);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "footprints"), "rows")), 1);
    json_decref(o);
    assert_int_equal(cache_list(c, NULL, NULL, 10, &o, NULL), 0);
    assert_int_equal(json_integer_value(json_object_get(o, "trials")), 2);
    json_decref(o);
    sql("UPDATE trial SET body = x'00' WHERE key = 'k1'");
    assert_int_equal(cache_verify(c, &o, NULL), 0);
    assert_int_equal(json_integer_value(json_object_get(o, "checked")), 3);
    assert_int_equal(json_array_size(json_object_get(o, "damaged")), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(o, "damaged"), 0), "table")),
                        "trial");
    json_decref(o);
    assert_int_equal(cache_gc(c, -1, -1, &o, NULL), 0); /* the damaged one goes */
    json_decref(o);
    assert_int_equal(cache_kept_get(c, CACHE_TRIALS, "k1", &p, &n, NULL), 0);
    assert_int_equal(cache_kept_get(c, CACHE_TRIALS, "k2", &p, &n, NULL), 1);
    free(p);
    assert_int_equal(cache_gc(c, -1, 5, &o, NULL), 0); /* footprints go before trials */
    json_decref(o);
    assert_null(kept(c, "k1", &n));
    assert_int_equal(cache_kept_get(c, CACHE_TRIALS, "k2", &p, &n, NULL), 1);
    free(p);
    sql("UPDATE trial SET used = unixepoch() - 100");
    assert_int_equal(cache_gc(c, 50, -1, &o, NULL), 0);
    json_decref(o);
    assert_int_equal(cache_kept_get(c, CACHE_TRIALS, "k2", &p, &n, NULL), 0);
    cache_close(c);
}

static unsigned how_many(struct cache *c, unsigned from)
{
    unsigned there = 0;
    for (unsigned i = from; i < 10; i++) {
        char name[16];
        size_t n;
        snprintf(name, sizeof name, "k%u", i);
        char *p = kept(c, name, &n);
        there += p != NULL;
        free(p);
    }
    return there;
}

static void test_footprints_are_bounded(void **state)
{
    struct cache *c = must_open();
    char body[1000] = "", name[16], age[128];
    for (unsigned i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "k%u", i);
        keep(c, name, body, sizeof body, 8000); /* the ninth is too much: the two oldest go */
        snprintf(age, sizeof age, "UPDATE footprint SET used = unixepoch() - %u WHERE key = '%s'", 1000 - i, name);
        sql(age);
    }
    assert_int_equal(how_many(c, 0), 8);
    assert_int_equal(how_many(c, 2), 8);
    json_t *o = NULL;
    assert_int_equal(cache_gc(c, -1, 3000, &o, NULL), 0);
    json_decref(o);
    assert_int_equal(how_many(c, 0), 3);
    assert_int_equal(how_many(c, 7), 3);
    assert_int_equal(cache_gc(c, 1, -1, &o, NULL), 0);
    json_decref(o);
    assert_int_equal(how_many(c, 0), 0);
    cache_close(c);
}

static void test_find(void **state)
{
    struct cache *c = must_open();
    json_t *doc = NULL;
    assert_int_equal(cache_find(c, "plan", SIG, NULL, &doc, NULL), 0);
    put(c, "a", 1);
    put(c, "b", 2);
    assert_int_equal(cache_find(c, "plan", SIG, NULL, &doc, NULL), 1);
    assert_int_equal(json_integer_value(json_object_get(doc, "n")), 2);
    json_decref(doc);
    assert_int_equal(cache_find(c, "plan", SIG, "a", &doc, NULL), 1);
    assert_int_equal(json_integer_value(json_object_get(doc, "n")), 1);
    json_decref(doc);
    assert_int_equal(cache_find(c, "analysis", SIG, "a", &doc, NULL), 0);
    assert_int_equal(cache_find(c, "plan", DIG, NULL, &doc, NULL), 0);
    cache_close(c);
}

/* The file is renamed, and another one may be at its path: whoever has the old one open asks it nothing any more. */
static void test_moved(void **state)
{
    char old[160];
    struct cache *c = must_open();
    snprintf(old, sizeof old, "%s.old", path);
    for (int i = 0; i < 3; i++) {
        put(c, "a", i);
        assert_int_equal(get(c, "a"), i);
        assert_int_equal(rename(path, old), 0);
        assert_int_equal(get(c, "a"), -1);
    }
    cache_close(c);
}

static void test_digest(void **state)
{
    struct cache *c = must_open();
    char sig[DT_SHA256_TEXT] = "untouched";
    json_t *graph = json_pack("{s:i}", "dovetail", 1), *back = NULL;
    assert_int_equal(cache_digest_get(c, DIG, "sm_90", sig, NULL), 0);
    assert_string_equal(sig, "untouched");
    assert_int_equal(cache_digest_put(c, DIG, "sm_90", SIG, graph, NULL), 0);
    assert_int_equal(cache_digest_put(c, DIG, "sm_90", SIG, graph, NULL), 0);
    assert_int_equal(cache_digest_get(c, DIG, "sm_90", sig, NULL), 1);
    assert_string_equal(sig, SIG);
    assert_int_equal(cache_digest_get(c, DIG, "sm_80", sig, NULL), 0);
    assert_int_equal(cache_graph_get(c, DIG, &back, NULL), 1);
    assert_true(json_equal(graph, back));
    json_decref(back);
    assert_int_equal(cache_digest_put(c, DIG, "sm_90", "nonsense", NULL, NULL), DT_E_INTERNAL);
    sql("UPDATE known SET signature = '" DIG "'; UPDATE graph SET body = '{}'");
    assert_int_equal(cache_digest_get(c, DIG, "sm_90", sig, NULL), 0);
    assert_int_equal(cache_graph_get(c, DIG, &back, NULL), 0);
    json_decref(graph);
    cache_close(c);
}

/* A row that was changed, or whose body is no JSON, or that stands under another key, is a miss and is removed. */
static void test_damaged_row(void **state)
{
    static const char *const harm[] = {
        "UPDATE entry SET body = replace(body, '1', '7')",
        "UPDATE entry SET body = ''",
        "UPDATE entry SET sha256 = ''",
        "UPDATE entry SET device = 'a' WHERE device = 'z'",
        "UPDATE entry SET factors = 'x'",
    };
    struct cache *c = must_open();
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        json_t *doc = NULL;
        put(c, i == 3 ? "z" : "a", 1);
        sql(harm[i]);
        if (i == 0)
            assert_int_equal(cache_find(c, "plan", SIG, NULL, &doc, NULL), 0);
        assert_int_equal(get(c, "a"), -1);
        assert_int_equal(figure(c, NULL, "entries"), 0);
        assert_int_equal(figure(c, NULL, "damaged"), i + 1);
    }
    put(c, "a", 5);
    assert_int_equal(get(c, "a"), 5);
    cache_close(c);
}

static bool exists(const char *suffix)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return access(name, F_OK) == 0;
}

static void overwrite(const char *with, size_t n, long at)
{
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    fwrite(with, 1, n, f);
    fclose(f);
}

static void test_no_database(void **state)
{
    char text[4096];
    memset(text, 'x', sizeof text);
    assert_int_equal(dt_mkdirs(dir, NULL), 0);
    cache_close(must_open());
    assert_int_equal(dt_write_file(path, text, sizeof text, NULL), 0); /* not SQLite at all */
    struct cache *c = must_open();
    assert_true(exists(".bad"));
    put(c, "a", 1);
    cache_close(c);
    remove(path);
    sql("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)"); /* SQLite, but somebody else's: left alone */
    struct dt_err e = {0};
    assert_int_equal(cache_open(path, &c, &e), DT_E_CACHE);
    assert_non_null(strstr(e.detail, "another program's"));
    dt_err_done(&e);
    assert_false(exists(".bad.2"));
    sql("INSERT INTO theirs VALUES (2)");
    remove(path);
    c = must_open();
    put(c, "a", 2);
    cache_close(c);
    overwrite(text, 100, 40); /* the header of ours: application id and more */
    c = must_open();
    assert_true(exists(".bad.2"));
    assert_int_equal(get(c, "a"), -1);
    cache_close(c);
}

/* Pages behind the first damaged while the file is open: calls go on as misses in a new file. */
static void test_damaged_in_use(void **state)
{
    char junk[4096];
    memset(junk, 0xee, sizeof junk);
    struct cache *c = must_open();
    for (int i = 0; i < 200; i++) {
        char device[16];
        snprintf(device, sizeof device, "d%d", i);
        put(c, device, i);
    }
    cache_close(c); /* the log is written back */
    c = must_open();
    struct cache *other = must_open();
    FILE *f = fopen(path, "r");
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    fclose(f);
    assert_true(size > 10 * 4096);
    for (long at = 4096; at < size; at += 4096)
        overwrite(junk, sizeof junk, at);
    assert_int_equal(get(c, "d150"), -1);
    put(c, "d150", 7);
    assert_int_equal(get(c, "d150"), 7);
    assert_true(exists(".bad"));
    put(other, "d151", 8); /* still has the bad file open: finds the new one, does not move it */
    assert_int_equal(get(c, "d151"), 8);
    assert_false(exists(".bad.2"));
    cache_close(c);
    cache_close(other);
}

static void test_newer(void **state)
{
    struct cache *c = NULL;
    struct dt_err e = {0};
    cache_close(must_open());
    sql("PRAGMA user_version = 99");
    assert_int_equal(cache_open(path, &c, &e), DT_E_CACHE);
    assert_non_null(strstr(e.detail, "newer"));
    assert_null(c);
    assert_false(exists(".bad"));
    dt_err_done(&e);
    assert_int_equal(cache_open("/proc/nowhere/cache.db", &c, &e), DT_E_IO);
    dt_err_done(&e);
}

/* Four processes create the file at once, write and read; every document arrives. */
static void test_processes(void **state)
{
    enum { NPROC = 4, NDOC = 25 };
    pid_t pid[NPROC];
    for (int p = 0; p < NPROC; p++) {
        pid[p] = fork();
        if (pid[p] == 0) {
            struct cache *c = NULL;
            int bad = cache_open(path, &c, NULL) < 0;
            for (int i = 0; i < NDOC && !bad; i++) {
                char device[32];
                snprintf(device, sizeof device, "p%d.%d", p, i);
                struct cache_key k = key(device);
                json_t *doc = json_pack("{s:i}", "n", p * 1000 + i), *back = NULL;
                bad = cache_put(c, &k, DIG, doc, NULL, NULL) < 0 || cache_get(c, &k, &back, NULL) != 1 ||
                      !json_equal(doc, back);
                json_decref(doc);
                json_decref(back);
            }
            cache_close(c);
            _exit(bad);
        }
    }
    for (int p = 0; p < NPROC; p++) {
        int status;
        assert_int_equal(waitpid(pid[p], &status, 0), pid[p]);
        assert_int_equal(status, 0);
    }
    struct cache *c = must_open();
    assert_int_equal(figure(c, NULL, "entries"), NPROC * NDOC);
    assert_int_equal(figure(c, NULL, "hits"), NPROC * NDOC);
    assert_false(exists(".bad"));
    cache_close(c);
}

static void test_default_path(void **state)
{
    struct cache *c = NULL;
    char file[128];
    setenv("XDG_CACHE_HOME", dir, 1);
    assert_int_equal(cache_open(NULL, &c, NULL), 0);
    snprintf(file, sizeof file, "%s/dovetail/cache.db", dir);
    assert_int_equal(access(file, F_OK), 0);
    cache_close(c);
    pid_t pid = geteuid() ? -1 : fork(); /* only root can be somebody without a home */
    if (pid == 0) {
        unsetenv("XDG_CACHE_HOME");
        unsetenv("HOME");
        _exit(setuid(54321) || cache_open(NULL, &c, NULL) == 0);
    }
    int status = 0;
    if (pid > 0)
        assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* A file that somebody else may have written is not opened; nor is one with such a thing beside it. */
static void test_others(void **state)
{
    struct cache *c = must_open();
    char wal[160];
    put(c, "a", 1);
    cache_close(c);
    for (int k = 0; k < 4; k++) {
        struct dt_err e = {0};
        c = NULL;
        assert_int_equal(chmod(path, k == 0 ? 0620 : k == 1 ? 0602 : 0600), 0);
        if (k == 2) {
            snprintf(wal, sizeof wal, "%s-wal", path);
            FILE *f = fopen(wal, "w");
            assert_non_null(f);
            fclose(f);
            assert_int_equal(chmod(wal, 0666), 0);
        }
        if (k == 3)
            assert_int_equal(unlink(wal), 0);
        int r = cache_open(path, &c, &e);
        assert_int_equal(r, k == 3 ? 0 : DT_E_CACHE);
        if (k < 3) {
            assert_null(c);
            assert_non_null(strstr(e.detail, "may be written by others"));
        }
        dt_err_done(&e);
    }
    assert_int_equal(get(c, "a"), 1);
    cache_close(c);
}

static const struct cache_intake me = {.origin = "me", .demand = {.max_age = -1}};

static void bring(struct cache *c, const char *recipe, json_int_t imported)
{
    struct dt_err e = {0};
    struct dt_str text = {0};
    char sum[DT_SHA256_TEXT];
    struct dt_sha256 h;
    dt_str_addf(&text, "{\"launches\": [], \"recipe\": %s}", recipe);
    const char *row[] = {"plan", SIG, "a", "dovetail 1", "allow=;deny=", DIG, text.s, ""};
    assert_int_equal(dt_sha256_init(&h), 0);
    for (int i = 0; i < 8; i++)
        dt_sha256_addstr(&h, row[i]);
    dt_sha256_final(&h, sum);
    json_t *list = json_array(), *line = json_pack("{s:s, s:o}", "table", "entry", "row", list), *got = NULL;
    for (int i = 0; i < 8; i++)
        json_array_append_new(list, json_string(row[i]));
    json_array_append_new(list, json_string(sum));
    char *dumped = json_dumps(line, JSON_COMPACT);
    struct dt_str bundle = {0};
    dt_str_addf(&bundle, "{\"dovetail_cache\": 1}\n%s\n{\"end\": 1}\n", dumped);
    if (cache_import(c, bundle.s, bundle.len, &me, &got, &e) < 0)
        fail_msg("%s", e.detail);
    assert_int_equal(json_integer_value(json_object_get(got, "imported")), imported);
    assert_int_equal(json_integer_value(json_object_get(got, "present")), 1 - imported);
    json_decref(got);
    json_decref(line);
    free(dumped);
    dt_str_done(&bundle);
    dt_str_done(&text);
}

/* What an import leaves is no plan; it is handed out until it is refused, or was begun three times and nobody came
 * back. */
static void test_recipes(void **state)
{
    struct cache *c = must_open();
    struct cache_key k = key("a");
    char digest[DT_SHA256_TEXT];
    json_t *recipe = NULL, *list;
    bring(c, "{\"steps\": []}", 1);
    bring(c, "{\"steps\": []}", 0);
    bring(c, "{\"steps\": [1]}", 0); /* the first one waits */
    assert_int_equal(get(c, "a"), -1);
    assert_int_equal(cache_find(c, "plan", SIG, NULL, &recipe, NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(cache_recipe_get(c, &k, &recipe, digest), i < 3);
        if (i < 3)
            json_decref(recipe);
    }
    assert_int_equal(cache_recipes(c, SIG, NULL, 10, &list, NULL), 0);
    assert_int_equal(json_array_size(list), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "state")), "refused");
    assert_non_null(
        strstr(json_string_value(json_object_get(json_array_get(list, 0), "reason")), "did not come to an end"));
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "origin")), "me");
    json_decref(list);
    bring(c, "{\"steps\": []}", 0); /* the same again is no news */
    bring(c, "{\"steps\": [1]}", 1);
    assert_int_equal(cache_recipe_get(c, &k, &recipe, digest), 1);
    assert_int_equal(json_array_size(json_object_get(recipe, "steps")), 1);
    json_decref(recipe);
    sql("UPDATE recipe SET body = '{\"steps\": [2]}'"); /* damaged */
    assert_int_equal(cache_recipe_get(c, &k, &recipe, digest), 0);
    bring(c, "{\"steps\": [3]}", 0);
    assert_int_equal(cache_gc(c, -1, -1, &list, NULL), 0);
    json_decref(list);
    bring(c, "{\"steps\": [3]}", 1);
    cache_recipe_done(c, &k, NULL);
    assert_int_equal(cache_recipe_get(c, &k, &recipe, digest), 0);
    put(c, "a", 5); /* a plan of this host: nothing takes its place */
    bring(c, "{\"steps\": [3]}", 0);
    assert_int_equal(get(c, "a"), 5);
    cache_close(c);
}

/* A plan's digest is of modules and launches: names of modules, times, machine code and what else is in the document do
 * not matter; any change of what runs does. */
/* A plan whose recipe is none: it is left out, like a plan without one, and the cache stays sound. */
static void test_no_recipe(void **state)
{
    static const char *const recipe[] = {"5", "null", "\"x\"", "[]"};
    struct cache *c = must_open();
    for (size_t i = 0; i < sizeof recipe / sizeof *recipe; i++) {
        char body[64], sum[DT_SHA256_TEXT];
        struct dt_sha256 h;
        struct dt_str s = {0};
        snprintf(body, sizeof body, "{\"recipe\":%s}", recipe[i]);
        const char *row[] = {"plan", SIG, "soft", "dovetail 1", "", DIG, body, ""};
        assert_int_equal(dt_sha256_init(&h), 0);
        dt_str_add(&s, "{\"dovetail_cache\": 1}\n");
        json_t *list = json_array(), *o = NULL;
        for (int k = 0; k < 8; k++) {
            dt_sha256_addstr(&h, row[k]);
            json_array_append_new(list, json_string(row[k]));
        }
        dt_sha256_final(&h, sum);
        json_array_append_new(list, json_string(sum));
        char *line = json_dumps(list, JSON_COMPACT);
        dt_str_addf(&s, "{\"table\": \"entry\", \"row\": %s}\n{\"end\": 1}\n", line);
        assert_int_equal(cache_import(c, s.s, s.len, &me, &o, NULL), 0);
        assert_int_equal(json_integer_value(json_object_get(o, "left_out")), 1);
        json_decref(o);
        assert_int_equal(cache_verify(c, &o, NULL), 0);
        assert_true(json_is_true(json_object_get(o, "ok")));
        json_decref(o);
        json_decref(list);
        free(line);
        dt_str_done(&s);
    }
    cache_close(c);
}

static void test_plan_digest(void **state)
{
    static const char *const same[] = {
        "{\"launches\": [{\"name\": \"l0\", \"module\": \"f0\", \"grid\": [1]}, {\"name\": \"l1\", \"module\": "
        "\"m0\"}], \"modules\": {\"f0\": {\"ptx\": \"A\"}, \"m0\": {\"ptx\": \"B\"}}, \"scratch\": {}}",
        "{\"modules\": {\"m0\": {\"ptx\": \"B\", \"cubin\": \"x\"}, \"f7\": {\"ptx\": \"A\"}}, \"scratch\": {}, "
        "\"launches\": [{\"grid\": [1], \"module\": \"f7\", \"name\": \"l0\"}, {\"name\": \"l1\", \"module\": "
        "\"m0\"}], \"baseline\": 7}",
    };
    static const char *const other[] = {
        "{\"launches\": [{\"name\": \"l0\", \"module\": \"f0\", \"grid\": [2]}, {\"name\": \"l1\", \"module\": "
        "\"m0\"}], \"modules\": {\"f0\": {\"ptx\": \"A\"}, \"m0\": {\"ptx\": \"B\"}}, \"scratch\": {}}",
        "{\"launches\": [{\"name\": \"l0\", \"module\": \"f0\", \"grid\": [1]}, {\"name\": \"l1\", \"module\": "
        "\"f0\"}], \"modules\": {\"f0\": {\"ptx\": \"A\"}, \"m0\": {\"ptx\": \"B\"}}, \"scratch\": {}}",
        "{\"launches\": [{\"name\": \"l0\", \"module\": \"m0\", \"grid\": [1]}, {\"name\": \"l1\", \"module\": "
        "\"f0\"}], \"modules\": {\"f0\": {\"ptx\": \"A\"}, \"m0\": {\"ptx\": \"B\"}}, \"scratch\": {}}",
        "{\"launches\": [{\"name\": \"l0\", \"module\": \"f0\", \"grid\": [1]}, {\"name\": \"l1\", \"module\": "
        "\"m0\"}], \"modules\": {\"f0\": {\"ptx\": \"A\"}, \"m0\": {\"ptx\": \"C\"}}, \"scratch\": {}}",
        "{\"launches\": [{\"name\": \"l0\", \"module\": \"f0\", \"grid\": [1]}, {\"name\": \"l1\", \"module\": "
        "\"m0\"}], \"modules\": {\"f0\": {\"ptx\": \"A\"}, \"m0\": {\"ptx\": \"B\"}, \"g\": {\"ptx\": \"\"}}, "
        "\"scratch\": {}}",
        "{\"launches\": [{\"name\": \"l0\", \"module\": \"f0\", \"grid\": [1]}, {\"name\": \"l1\", \"module\": "
        "\"m0\"}], \"modules\": {\"f0\": {\"ptx\": \"A\"}, \"m0\": {\"ptx\": \"B\"}}, \"scratch\": {\"t0\": "
        "{\"bytes\": 4}}}",
        "{}",
        "{\"launches\": 5, \"modules\": [1], \"scratch\": 7}",
        "{\"launches\": [5, null, [], {\"module\": 3}, {\"module\": \"nobody\"}], \"modules\": {\"nobody\": 4}}",
    };
    char first[DT_SHA256_TEXT], text[DT_SHA256_TEXT];
    for (size_t i = 0; i < sizeof same / sizeof *same + sizeof other / sizeof *other; i++) {
        bool is_same = i < sizeof same / sizeof *same;
        json_t *o = json_loads(is_same ? same[i] : other[i - sizeof same / sizeof *same], 0, NULL);
        assert_non_null(o);
        assert_int_equal(cache_plan_digest(o, text), 0);
        if (i == 0)
            memcpy(first, text, sizeof first);
        if ((strcmp(first, text) == 0) != is_same)
            fail_msg("%zu", i);
        json_decref(o);
    }
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */
static void one_job(void *user, const struct cache_job *j)
{
    char *out = user;
    size_t n = strlen(out);
    snprintf(out + n, 256 - n, "%s %s %s %s;", j->id, j->post, j->request, j->state);
}

static const char *jobs_of(struct cache *c, const char *service, int64_t max_age)
{
    static char out[256];
    out[0] = 0;
    assert_int_equal(cache_jobs_load(c, service, max_age, one_job, out, NULL), 0);
    return out;
}

static void test_jobs(void **state)
{
    struct cache *c = must_open();
    struct cache_job a = {"a", "{}", "ra", "1"}, b = {"b", "{}", "rb", "1"}, d = {"d", "{}", "rd", "1"};
    cache_jobs_settings(c);
    assert_int_equal(cache_jobs_begin(c, NULL), 0);
    assert_int_equal(cache_job_put(c, "/s", &b, NULL), 0);
    assert_int_equal(cache_job_put(c, "/s", &a, NULL), 0);
    assert_int_equal(cache_job_put(c, "/t", &d, NULL), 0);
    assert_int_equal(cache_jobs_end(c, true, NULL), 0);
    assert_int_equal(cache_jobs_begin(c, NULL), 0);
    assert_int_equal(cache_job_forget(c, "a", NULL), 0);
    assert_true(cache_jobs_end(c, false, NULL) < 0); /* none of it */
    cache_close(c);
    c = must_open();
    assert_string_equal(jobs_of(c, "/s", 100), "b {} rb 1;a {} ra 1;");
    a.request = NULL;
    a.state = "2";
    assert_int_equal(cache_job_change(c, &a, NULL), 0);
    b.request = "";
    b.state = "3";
    assert_int_equal(cache_job_change(c, &b, NULL), 0);
    assert_string_equal(jobs_of(c, "/s", 100), "b {}  3;a {} ra 2;");
    json_t *o;
    assert_int_equal(cache_verify(c, &o, NULL), 0);
    assert_true(json_is_true(json_object_get(o, "ok")));
    json_decref(o);
    sql("UPDATE job SET id = 'x' WHERE id = 'a'"); /* a row is of its id */
    assert_string_equal(jobs_of(c, "/s", 100), "b {}  3;");
    sql("UPDATE job SET state = '1' WHERE id = 'b'");
    assert_string_equal(jobs_of(c, "/s", 100), "");
    assert_string_equal(jobs_of(c, "/t", 100), "d {} rd 1;");
    sql("UPDATE job SET request = request || ' '");
    assert_string_equal(jobs_of(c, "/t", 100), "");
    assert_int_equal(cache_job_put(c, "/t", &d, NULL), 0);
    sql("UPDATE job SET changed = changed - 200");
    assert_string_equal(jobs_of(c, "/s", 100), ""); /* old ones go, whose ever they are */
    assert_string_equal(jobs_of(c, "/t", 1000), "");
    cache_close(c);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {T(test_round_trip),
                                       T(test_find),
                                       T(test_moved),
                                       T(test_digest),
                                       T(test_damaged_row),
                                       T(test_no_database),
                                       T(test_damaged_in_use),
                                       T(test_newer),
                                       T(test_processes),
                                       T(test_default_path),
                                       T(test_footprints),
                                       T(test_footprints_are_bounded),
                                       T(test_trials),
                                       T(test_a_row_is_refused),
                                       T(test_others),
                                       T(test_recipes),
                                       T(test_no_recipe),
                                       cmocka_unit_test(test_plan_digest),
                                       T(test_jobs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
