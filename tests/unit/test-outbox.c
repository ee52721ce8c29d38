/* The outbox: one transaction with the entry, life after it, refusals, bounds, damage; recipes of a cluster. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <ftw.h>
#include <cmocka.h>
#include <sqlite3.h>

#include "base/str.h"
#include "cache/outbox.h"

#define DIG "sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddee00"
#define SIG "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static char dir[64], path[128];
static struct cache *c;

static int set_up(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/dt-outbox-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/cache.db", dir);
    return cache_open(path, &c, NULL) < 0;
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *at) { return remove(name); }

static int tear_down(void **state)
{
    c = cache_close(c);
    return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* By another connection, as somebody else would. */
static int64_t sql(const char *text)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    int64_t n = -1;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &s, NULL), SQLITE_OK);
    int rc = sqlite3_step(s);
    assert_true(rc == SQLITE_ROW || rc == SQLITE_DONE);
    if (rc == SQLITE_ROW)
        n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return n;
}

static struct cache_key key(unsigned n)
{
    static char signature[DT_SHA256_TEXT];
    snprintf(signature, sizeof signature, "%s", SIG);
    snprintf(signature + 7, 9, "%08x", n);
    signature[15] = SIG[15];
    return (struct cache_key){"plan", signature, "soft:h200", "dovetail 1", "allow="};
}

static int put_token(unsigned n, int step, int64_t token)
{
    struct cache_key k = key(n);
    json_t *doc = json_pack("{s:{s:[i]}, s:[], s:{}}", "recipe", "steps", step, "launches", "modules"),
           *facts = json_pack("{s:i}", "rewriter", 20);
    struct cache_out out = {facts, token};
    int r = cache_put_out(c, &k, DIG, doc, NULL, &out, NULL);
    json_decref(doc);
    json_decref(facts);
    return r;
}

static void put(unsigned n) { assert_int_equal(put_token(n, 1, 0), 0); }

static struct cache_outbox_size size(void)
{
    struct cache_outbox_size z;
    assert_int_equal(cache_outbox_size(c, &z, NULL), 0);
    return z;
}

/* The number of the first that is due, 0: none. */
static int64_t first(void)
{
    struct cache_outgoing o;
    int n = cache_outbox_due(c, 1, &o, NULL);
    assert_in_range(n, 0, 1);
    int64_t id = n ? o.id : 0;
    if (n)
        cache_outgoing_done(&o);
    return id;
}

static void test_round(void **state)
{
    struct cache_outgoing o[4];
    struct cache_key k = key(7);
    assert_int_equal(first(), 0);
    assert_int_equal(put_token(7, 5, 12), 0);
    assert_int_equal(cache_outbox_due(c, 4, o, NULL), 1);
    assert_string_equal(o[0].signature, k.signature);
    assert_string_equal(o[0].device, k.device);
    assert_string_equal(o[0].toolchain, k.toolchain);
    assert_string_equal(o[0].policy, k.policy);
    assert_string_equal(o[0].body, "{\"steps\":[5]}");
    assert_string_equal(o[0].facts, "{\"rewriter\":20}");
    assert_true(dt_sha256_ok(o[0].digest));
    assert_int_equal(o[0].token, 12);
    assert_true(o[0].created > 0);
    assert_int_equal(size().waiting, 1);
    assert_int_equal(size().oldest, o[0].created);
    assert_int_equal(cache_outbox_unleased(c, o[0].id, NULL), 0);
    assert_int_equal(sql("SELECT token FROM outbox"), 0);
    assert_int_equal(cache_outbox_sent(c, o[0].id, NULL), 0);
    cache_outgoing_done(&o[0]);
    assert_int_equal(size().waiting, 0);
    assert_int_equal(size().oldest, 0);
}

/* An analysis, or a plan of which no recipe was kept, has nothing to send; cache_put sends nothing. */
static void test_nothing(void **state)
{
    struct cache_key k = key(1);
    json_t *doc = json_pack("{s:i}", "n", 1), *facts = json_object(), *back;
    struct cache_out out = {facts, 0};
    assert_int_equal(cache_put_out(c, &k, DIG, doc, NULL, &out, NULL), 0);
    json_object_set_new(doc, "recipe", json_object());
    assert_int_equal(cache_put(c, &k, DIG, doc, NULL, NULL), 0);
    assert_int_equal(cache_get(c, &k, &back, NULL), 1);
    json_decref(back);
    assert_int_equal(first(), 0);
    json_decref(doc);
    json_decref(facts);
}

/* Both or neither: neither when the row cannot be written, whichever of the two. */
static void test_together(void **state)
{
    static const char *const table[] = {"outbox", "entry"};
    for (int i = 0; i < 2; i++) {
        char text[160];
        snprintf(text, sizeof text, "CREATE TRIGGER no BEFORE INSERT ON %s BEGIN SELECT raise(ABORT, 'not today'); END",
                 table[i]);
        sql(text);
        assert_true(put_token(1, 1, 0) < 0);
        sql("DROP TRIGGER no");
        assert_int_equal(sql("SELECT (SELECT count(*) FROM entry) + (SELECT count(*) FROM outbox)"), 0);
    }
    put(1); /* no transaction was left open */
    assert_int_equal(sql("SELECT (SELECT count(*) FROM entry) * (SELECT count(*) FROM outbox)"), 1);
}

/* Neither gc nor the least recently used rows' going takes a row of the outbox. */
static void test_eviction(void **state)
{
    json_t *o;
    put(1);
    put(2);
    assert_int_equal(cache_gc(c, -1, 0, &o, NULL), 0);
    json_decref(o);
    assert_int_equal(sql("SELECT count(*) FROM entry"), 0);
    assert_int_equal(size().waiting, 2);
    assert_true(first() > 0);
}

/* A newer result takes the older one's place; the answer to the older one does not remove it. */
static void test_newer(void **state)
{
    put(1);
    int64_t id = first();
    assert_int_equal(put_token(1, 2, 0), 0);
    assert_int_equal(cache_outbox_sent(c, id, NULL), 0);
    assert_int_equal(size().waiting, 1);
    assert_true(first() > id);
}

/* Refused three times it is parked, and never in the way of others. */
static void test_parked(void **state)
{
    put(1);
    int64_t bad = first();
    put(2);
    for (int i = 1; i <= CACHE_OUTBOX_REFUSALS; i++) {
        assert_int_equal(cache_outbox_refused(c, bad, "too large", NULL), i == CACHE_OUTBOX_REFUSALS);
        assert_true(first() > bad); /* not due, or parked */
        if (i < CACHE_OUTBOX_REFUSALS) {
            sql("UPDATE outbox SET due = 0");
            assert_int_equal(first(), bad);
        }
    }
    sql("UPDATE outbox SET due = 0");
    assert_true(first() > bad);
    assert_int_equal(size().waiting, 1);
    assert_int_equal(size().parked, 1);
    assert_int_equal(sql("SELECT reason = 'too large' FROM outbox WHERE state = 'parked'"), 1);
    assert_int_equal(cache_outbox_refused(c, 999, "nobody", NULL), 0);
    assert_int_equal(cache_outbox_again(c, NULL), 1);
    assert_int_equal(first(), bad);
    assert_int_equal(cache_outbox_later(c, bad, NULL), 0);
    assert_true(first() > bad);
}

/* The clock was set back by hours after a row was put off: it does not wait for hours. */
static void test_clock(void **state)
{
    put(1);
    int64_t id = first();
    assert_int_equal(cache_outbox_later(c, id, NULL), 0);
    put(2);
    assert_true(first() > id);
    sql("UPDATE outbox SET due = unixepoch() + 7200 WHERE due > 0");
    assert_int_equal(first(), id);
}

/* What is too large for the cluster is parked at once. */
static void test_large(void **state)
{
    struct cache_key k = key(1);
    size_t n = 5u << 20;
    char *text = malloc(n + 1);
    memset(text, 'x', n);
    text[n] = 0;
    json_t *doc = json_pack("{s:{s:s}}", "recipe", "t", text), *facts = json_object();
    struct cache_out out = {facts, 0};
    assert_int_equal(cache_put_out(c, &k, DIG, doc, NULL, &out, NULL), 0);
    assert_int_equal(size().parked, 1);
    assert_in_range(size().bytes, 1, 100);
    json_decref(doc);
    json_decref(facts);
    free(text);
}

static int64_t facts_put(unsigned n, size_t bytes)
{
    struct cache_key k = key(n);
    char *text = malloc(bytes + 1);
    memset(text, 'x', bytes);
    text[bytes] = 0;
    json_t *doc = json_pack("{s:{s:i}}", "recipe", "t", 1),
           *facts = json_pack("{s:i, s:{s:s}}", "rewriter", 20, "factors", "l0.kernel", text);
    struct cache_out out = {facts, 0};
    assert_int_equal(cache_put_out(c, &k, DIG, doc, NULL, &out, NULL), 0);
    json_decref(doc);
    json_decref(facts);
    free(text);
    return sql(
        "SELECT (facts LIKE '%l0.kernel%') + 2 * (facts LIKE '%rewriter%') + 4 * (state = 'waiting') FROM outbox "
        "ORDER BY id DESC LIMIT 1");
}

/* Factors are left out rather than a row: of a large one, and when the table is half full. */
static void test_factors(void **state)
{
    assert_int_equal(facts_put(1, 1000), 7);
    assert_int_equal(facts_put(2, 5u << 20), 6);
    sql("UPDATE outbox SET bytes = 33554433 WHERE id = 1");
    assert_int_equal(facts_put(3, 1000), 6);
    assert_int_equal(size().dropped, 0);
}

/* Over its bound the parked ones go first, then the oldest, and it is counted. */
static void test_bound(void **state)
{
    put(1);
    int64_t oldest = first();
    put(2);
    sql("UPDATE outbox SET state = 'parked' WHERE id = 2");
    sql("UPDATE outbox SET bytes = 67108864 WHERE id = 1");
    put(3);
    assert_int_equal(size().parked, 0);
    assert_int_equal(size().waiting, 2);
    assert_int_equal(size().dropped, 1);
    put(4);
    assert_true(first() > oldest);
    assert_int_equal(size().dropped, 2);
    assert_int_equal(size().waiting, 2);
}

/* A damaged row is set aside, and the next one comes. */
static void test_damage(void **state)
{
    json_t *o;
    put(1);
    put(2);
    sql("UPDATE outbox SET body = '{}' WHERE id = 1");
    assert_int_equal(cache_verify(c, &o, NULL), 0);
    assert_false(json_is_true(json_object_get(o, "ok")));
    json_decref(o);
    assert_int_equal(first(), 0); /* one was asked for, and it was damaged */
    assert_int_equal(first(), 2);
    assert_int_equal(sql("SELECT count(*) FROM aside WHERE tbl = 'outbox'"), 1);
}

/* A recipe of the cluster waits under its key, unless there is an entry or it was refused. */
static void test_taken(void **state)
{
    struct cache_key k = key(1);
    char digest[DT_SHA256_TEXT];
    json_t *recipe = json_pack("{s:[]}", "steps"), *got;
    assert_int_equal(cache_recipe_take(c, &k, recipe, DIG, "cluster", NULL), 1);
    assert_int_equal(cache_recipe_take(c, &k, recipe, DIG, "cluster", NULL), 0);
    assert_true(cache_recipe_from(c, &k, "cluster"));
    assert_false(cache_recipe_from(c, &k, "uid 7"));
    assert_int_equal(cache_recipe_get(c, &k, &got, digest), 1);
    assert_string_equal(digest, DIG);
    assert_true(json_equal(got, recipe));
    json_decref(got);
    cache_recipe_done(c, &k, "it does not hold");
    assert_false(cache_recipe_from(c, &k, "cluster"));
    assert_int_equal(cache_recipe_take(c, &k, recipe, DIG, "cluster", NULL), 0);
    put(1);
    k = key(1);
    json_object_set_new(recipe, "other", json_true());
    assert_int_equal(cache_recipe_take(c, &k, recipe, DIG, "cluster", NULL), 0);
    json_decref(recipe);
}

/* Many rows leave in the order in which they came, and none is lost. */
static void test_many(void **state)
{
    struct cache_outgoing o[16];
    int64_t last = 0, sent = 0;
    for (unsigned i = 0; i < 100; i++)
        put(i);
    for (int n; (n = cache_outbox_due(c, 16, o, NULL)) > 0;)
        for (int i = 0; i < n; i++) {
            assert_true(o[i].id > last);
            last = o[i].id;
            assert_int_equal(cache_outbox_sent(c, last, NULL), 0);
            sent++;
            cache_outgoing_done(&o[i]);
        }
    assert_int_equal(sent, 100);
    assert_int_equal(size().waiting, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_eviction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_newer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_clock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_factors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
