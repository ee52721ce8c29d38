/* Bundles in the store: what an export selects; what an import takes of one that is damaged, forged, cut or not signed
 * as this host wants it, and that no row costs another one anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <sqlite3.h>

#include "base/str.h"
#include "cache/cache.h"
#include "sign/sign.h"

#define DIG "sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddee00"
#define NOW 1767225600

static char dir[64], db[128], farm_line[128], barn_line[128];
static struct sign_key *farm, *barn;

static struct sign_key *make_key(const char *name, char line[128])
{
    char path[128], public[SIGN_PUBLIC_TEXT];
    struct sign_key *k = NULL;
    snprintf(path, sizeof path, "%s/%s.key", dir, name);
    if (sign_keygen(name, path, public, NULL) == 0)
        sign_key_read(path, &k, NULL);
    unlink(path);
    snprintf(line, 128, "%s %s", name, public);
    return k;
}

static int set_up(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/dt-bundle-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(db, sizeof db, "%s/cache.db", dir);
    farm = make_key("farm", farm_line);
    barn = make_key("barn", barn_line);
    return farm && barn ? 0 : -1;
}

static void forget(void)
{
    static const char *const end[] = {"", "-wal", "-shm", ".lock", ".reserve"};
    for (size_t i = 0; i < sizeof end / sizeof *end; i++) {
        char p[160];
        snprintf(p, sizeof p, "%s%s", db, end[i]);
        unlink(p);
    }
}

static int tear_down(void **state)
{
    sign_key_free(farm);
    sign_key_free(barn);
    forget();
    rmdir(dir);
    return 0;
}

static struct cache *fresh(void)
{
    struct cache *c;
    forget();
    assert_int_equal(cache_open(db, &c, NULL), 0);
    return c;
}

static json_int_t sql_number(const char *sql)
{
    sqlite3 *d;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(db, &d), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(d, sql, -1, &s, NULL), SQLITE_OK);
    int rc = sqlite3_step(s);
    json_int_t n = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    assert_true(rc == SQLITE_ROW || rc == SQLITE_DONE);
    sqlite3_finalize(s);
    sqlite3_close(d);
    return n;
}

/* ---- making bundles ---------------------------------------------------------------------------------------------- */

static void signature_of(unsigned n, char out[DT_SHA256_TEXT]) { dt_sha256_text(&n, sizeof n, out); }

/* The n-th row, signed by k at `date`; device: the one it says, signed_device: the one that was signed. */
static void add_row(struct dt_str *out, unsigned n, const char *device, const char *signed_device,
                    const struct sign_key *k, int64_t date)
{
    char sig[DT_SHA256_TEXT];
    static const char recipe[] = "{\"steps\": []}", toolchain[] = "dovetail 1; rewriter 20; x";
    json_t *r = json_loads(recipe, 0, NULL);
    struct sign_seal seal;
    signature_of(n, sig);
    struct sign_entry en = {sig, signed_device, toolchain, "allow=", NULL, DIG, r, 20, ""};
    const char *column[] = {sig, device, toolchain, "allow=", DIG, recipe, ""};
    if (k)
        assert_int_equal(sign_entry_seal(k, &en, date, &seal), 0);
    assert_int_equal(sign_row_write(column, k ? &seal : NULL, out), 0);
    json_decref(r);
}

static void good_row(struct dt_str *out, unsigned n) { add_row(out, n, "soft:h200", "soft:h200", farm, NOW); }

static char *pack(const struct dt_str *text, const struct sign_key *k, size_t *ret_len)
{
    struct sign_packer *p;
    char *bytes;
    assert_int_equal(sign_pack_new(&p, NULL), 0);
    assert_int_equal(sign_pack_add(p, text->s, text->len, SIGN_BUNDLE_TEXT, NULL), 0);
    assert_int_equal(sign_pack_end(p, k, NOW, &bytes, ret_len, NULL), 0);
    sign_pack_free(p);
    return bytes;
}

/* One import of bytes into c, by a host that believes `lines`. */
static int bring(struct cache *c, const char *bytes, size_t n, const char *lines, bool require, json_t **ret,
                 struct dt_err *e)
{
    struct sign_signers *s = NULL;
    char *exact = malloc(n ? n : 1);
    memcpy(exact, bytes, n);
    assert_int_equal(sign_signers_parse(lines, "signers", &s, NULL), 0);
    struct cache_intake how = {"uid 1", {s, NULL, NOW + 100, -1}, require, 1 << 20};
    int r = cache_import(c, exact, n, &how, ret, e);
    sign_signers_free(s);
    free(exact);
    return r;
}

static json_int_t count(const json_t *o, const char *name) { return json_integer_value(json_object_get(o, name)); }

static bool complete(const json_t *o) { return json_is_true(json_object_get(o, "complete")); }

static bool has_reason(const json_t *o, size_t k, const char *word)
{
    const json_t *v = json_array_get(json_object_get(o, "reasons"), k);
    const char *s = json_string_value(json_object_get(v, "reason"));
    return s && strstr(s, word);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* Every kind of bad row between two good ones. */
static void test_each(void **state)
{
    static const struct {
        const char *word; /* of the reason where a signer is required */
        bool open;        /* taken where none is */
    } kind[] = {
        {"does not match its checksum", false},
        {"its signature does not match", false},
        {"its signature does not match", false},
        {"it is not signed", true},
        {"not among the signers", true},
        {"dated in the future", false},
        {"is no JSON object", false},
        {"has a signature that is none", false},
        {"is no row of a table", false},
        {"has a recipe that is no JSON object", false},
    };
    const size_t kinds = sizeof kind / sizeof *kind;
    for (size_t i = 0; i < kinds; i++)
        for (int require = 0; require < 2; require++) {
            struct dt_str t = {0};
            struct dt_str row = {0};
            size_t n;
            json_t *o = NULL;
            struct dt_err e = {0};
            add_row(&row, 2, "soft:h200", "soft:h200", farm, NOW);
            dt_str_add(&t, "{\"dovetail_cache\": 2}\n");
            good_row(&t, 1);
            switch (i) {
            case 0:
                *strstr(row.s, "rewriter 2") = 'R';
                dt_str_add(&t, row.s);
                break;
            case 1:
                strstr(row.s, "\"seal\":\"")[20] ^= 1;
                dt_str_add(&t, row.s);
                break;
            case 2: add_row(&t, 2, "soft:a100", "soft:h200", farm, NOW); break; /* replayed under another key */
            case 3: add_row(&t, 2, "soft:h200", "", NULL, 0); break;
            case 4: add_row(&t, 2, "soft:h200", "soft:h200", barn, NOW); break;
            case 5: add_row(&t, 2, "soft:h200", "soft:h200", farm, NOW + 86400); break;
            case 6:
                dt_str_addn(&t, row.s, row.len / 2);
                dt_str_addc(&t, '\n');
                break; /* cut */
            case 7:
                memcpy(strstr(row.s, "\"date\""), "\"dat_\"", 6);
                dt_str_add(&t, row.s);
                break;
            case 8:
                memcpy(strstr(row.s, "recipe"), "recipf", 6);
                dt_str_add(&t, row.s);
                break;
            case 9: {
                char sig[DT_SHA256_TEXT];
                signature_of(2, sig);
                const char *column[] = {sig, "soft:h200", "x", "y", DIG, "[]", ""};
                assert_int_equal(sign_row_write(column, NULL, &t), 0);
                break;
            }
            }
            good_row(&t, 3);
            dt_str_add(&t, "{\"end\": 3}\n");
            char *bytes = pack(&t, farm, &n);
            struct cache *c = fresh();
            if (bring(c, bytes, n, farm_line, require, &o, &e) < 0)
                fail_msg("kind %zu: %s", i, e.detail);
            bool taken = kind[i].open && !require;
            assert_int_equal(count(o, "imported"), 2 + taken);
            assert_int_equal(count(o, "refused"), 1 - taken);
            if (!taken && !has_reason(o, 0, kind[i].word))
                fail_msg("kind %zu: %s", i, json_dumps(o, 0));
            assert_true(complete(o)); /* all that was exported has come: the seal of the whole says so */
            assert_string_equal(json_string_value(json_object_get(o, "signer")), "farm");
            json_decref(o);
            cache_close(c);
            assert_int_equal(sql_number("SELECT count(*) FROM aside WHERE tbl = 'bundle'"), 1 - taken);
            assert_int_equal(sql_number("SELECT count(*) FROM recipe WHERE origin = 'uid 1, signed by farm'"), 2);
            assert_int_equal(sql_number("SELECT count(*) FROM entry"), 0);
            free(bytes);
            dt_str_done(&t);
            dt_str_done(&row);
        }
}

/* Whose key was revoked or is over brings nothing; a key that follows it does. */
static void test_keys_change(void **state)
{
    static const struct {
        const char *end;
        bool good;
        const char *word;
    } k[] = {{"", true, NULL},
             {" revoked", false, "revoked"},
             {" - 2025-12-31", false, "time is over"},
             {" 2026-01-02", false, "before that key's time"},
             {" 2025-12-01 2026-01-31", true, NULL}};
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        struct dt_str t = {0};
        json_t *o = NULL;
        char lines[400];
        size_t n;
        dt_str_add(&t, "{\"dovetail_cache\": 2}\n");
        good_row(&t, 1);
        add_row(&t, 2, "soft:h200", "soft:h200", barn, NOW);
        dt_str_add(&t, "{\"end\": 2}\n");
        char *bytes = pack(&t, farm, &n);
        struct cache *c = fresh();
        snprintf(lines, sizeof lines, "%s%s\n%s\n", farm_line, k[i].end, barn_line);
        assert_int_equal(bring(c, bytes, n, lines, true, &o, NULL), 0);
        assert_int_equal(count(o, "imported"), 1 + k[i].good); /* barn's comes in any case */
        assert_int_equal(complete(o), k[i].good);
        assert_true(k[i].good || has_reason(o, 0, k[i].word));
        json_decref(o);
        cache_close(c);
        free(bytes);
        dt_str_done(&t);
    }
}

/* Wherever a bundle is cut, or a byte of it changes: sound rows come in, and it is said that it is not complete. */
static void test_cut(void **state)
{
    struct dt_str t = {0};
    size_t n, taken_some = 0;
    dt_str_add(&t, "{\"dovetail_cache\": 2}\n");
    for (unsigned i = 0; i < 2000; i++)
        good_row(&t, i);
    dt_str_add(&t, "{\"end\": 2000}\n");
    char *bytes = pack(&t, farm, &n);
    struct cache *c = NULL;
    assert_int_equal(cache_open(":memory:", &c, NULL), 0);
    for (int damage = 0; damage < 2; damage++)
        for (size_t k = 1; k < 12; k++) {
            json_t *o = NULL;
            struct dt_err e = {0};
            size_t at = n * k / 12;
            bytes[at] ^= damage;
            int r = bring(c, bytes, damage ? n : at, farm_line, true, &o, &e);
            bytes[at] ^= damage;
            if (r == 0) {
                json_int_t some = count(o, "imported") + count(o, "present");
                assert_false(complete(o));
                assert_true(some < 2000 || damage);
                assert_true(damage || count(o, "refused") <= 1); /* the row that is cut */
                taken_some += some > 0;
            } else {
                assert_true(r == DT_E_JSON && e.detail);
            }
            dt_err_done(&e);
            json_decref(o);
        }
    assert_true(taken_some > 15);
    cache_close(c);
    free(bytes);
    dt_str_done(&t);
}

/* Rows that somebody took out, put in or exchanged: each is good by itself, and the whole is not. */
static void test_whole(void **state)
{
    struct dt_str two = {0}, three = {0};
    size_t n2, n3, f2, f3;
    json_t *o = NULL;
    struct sign_packed file;
    dt_str_add(&two, "{\"dovetail_cache\": 2}\n");
    dt_str_add(&three, "{\"dovetail_cache\": 2}\n");
    for (unsigned i = 0; i < 3; i++) {
        good_row(&three, i);
        if (i)
            good_row(&two, i);
    }
    dt_str_add(&two, "{\"end\": 2}\n");
    dt_str_add(&three, "{\"end\": 3}\n");
    char *a = pack(&two, NULL, &f2), *b = pack(&three, farm, &n3), *plain = pack(&three, NULL, &f3);
    char *mixed = malloc(f2 + n3); /* the seal of three behind the text of two */
    memcpy(mixed, a, f2);
    memcpy(mixed + f2, b + f3, n3 - f3);
    n2 = f2 + n3 - f3;
    assert_int_equal(sign_packed_look(mixed, n2, &file), 0);
    assert_true(file.sealed);
    for (int require = 0; require < 2; require++) {
        struct cache *c = fresh();
        assert_int_equal(bring(c, mixed, n2, farm_line, require, &o, NULL), 0);
        assert_int_equal(count(o, "imported"), 2);
        assert_false(complete(o));
        assert_non_null(strstr(json_string_value(json_object_get(o, "trouble")), "does not match"));
        assert_null(json_object_get(o, "signer"));
        json_decref(o);
        /* no seal at all: complete only for who does not ask for one */
        assert_int_equal(bring(c, plain, f3, farm_line, require, &o, NULL), 0);
        assert_int_equal(count(o, "imported"), 1);
        assert_int_equal(complete(o), !require);
        json_decref(o);
        cache_close(c);
    }
    free(a);
    free(b);
    free(plain);
    free(mixed);
    dt_str_done(&two);
    dt_str_done(&three);
}

/* What is refused as a whole, and leaves nothing. */
static void test_refused(void **state)
{
    struct cache *c = fresh();
    struct dt_str big = {0};
    static const struct {
        const char *text, *word;
    } bad[] = {{"", "cut off"},
               {"\xff\xfe", "line 1 is no JSON object"},
               {"{\"dovetail_cache\": 3}\n{\"end\": 0}\n", "of a newer dovetail"},
               {"{\"dovetail_cache\": \"2\"}\n{\"end\": 0}\n", "does not say"},
               {"{\"dovetail_cache\": -1}\n{\"end\": 0}\n", "does not say"},
               {"{\"dovetail_cache\": 1}\n", "cut off"}};
    struct dt_err e = {0};
    json_t *o = NULL;
    size_t n;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(bring(c, bad[i].text, strlen(bad[i].text), "", false, &o, &e), DT_E_JSON);
        if (!strstr(e.detail, bad[i].word))
            fail_msg("%s", e.detail);
        dt_err_done(&e);
    }
    dt_str_add(&big, "{\"dovetail_cache\": 2}\n");
    good_row(&big, 1);
    for (int i = 0; i < 40; i++)
        dt_str_addf(&big, "%040000d\n", i);
    char *bytes = pack(&big, farm, &n);
    assert_true(n < 20000);
    assert_int_equal(bring(c, bytes, n, farm_line, true, &o, &e), DT_E_TOO_LARGE); /* more than 1 MB */
    dt_err_done(&e);
    cache_close(c);
    assert_int_equal(sql_number("SELECT (SELECT count(*) FROM recipe) + (SELECT count(*) FROM aside)"), 0);
    free(bytes);
    dt_str_done(&big);
}

/* ---- export ------------------------------------------------------------------------------------------------------ */

static void put(struct cache *c, unsigned n, const char *device)
{
    char sig[DT_SHA256_TEXT];
    signature_of(n, sig);
    struct cache_key k = {"plan", sig, device, "dovetail 1; rewriter 20", "allow="};
    json_t *doc = json_pack("{s:[], s:{s:[]}, s:s}", "launches", "recipe", "steps", "secret", "not to be exported");
    assert_int_equal(cache_put(c, &k, DIG, doc, NULL, NULL), 0);
    json_decref(doc);
}

static json_int_t exported(struct cache *c, const struct cache_select *s)
{
    struct cache *other;
    char *bytes;
    size_t n;
    json_t *o;
    struct cache_intake how = {.origin = "x", .demand = {.max_age = -1}};
    assert_int_equal(cache_export(c, s, &bytes, &n, NULL), 0);
    assert_int_equal(cache_open(":memory:", &other, NULL), 0);
    assert_int_equal(cache_import(other, bytes, n, &how, &o, NULL), 0);
    json_int_t got = count(o, "imported");
    assert_true(complete(o) && !count(o, "refused") && !count(o, "left_out"));
    json_decref(o);
    cache_close(other);
    free(bytes);
    return got;
}

static void test_select(void **state)
{
    struct cache *c = fresh();
    char a[DT_SHA256_TEXT], b[DT_SHA256_TEXT];
    const char *both[] = {a, b};
    unsigned uid = 7;
    signature_of(1, a);
    signature_of(2, b);
    put(c, 1, "soft:h200");
    put(c, 2, "soft:h100");
    put(c, 3, "soft:h200");
    put(c, 4, "softer");
    cache_own(c, b, uid);
    sql_number("UPDATE entry SET created = unixepoch() - 100000, used = unixepoch() - 50, hits = 5 WHERE id = 1");
    sql_number("UPDATE entry SET used = unixepoch() - 5000 WHERE id > 1");
    const struct {
        struct cache_select s;
        json_int_t n;
    } t[] = {
        {{.newer_than = -1, .used_within = -1}, 4},
        {{.newer_than = -1, .used_within = -1, .uid = &uid}, 1},
        {{.newer_than = -1, .used_within = -1, .signature = both, .nsignature = 2}, 2},
        {{.newer_than = -1, .used_within = -1, .signature = both, .nsignature = 1}, 1},
        {{.newer_than = -1, .used_within = -1, .device = "soft"}, 3},
        {{.newer_than = -1, .used_within = -1, .device = "soft:h200"}, 2},
        {{.newer_than = -1, .used_within = -1, .device = "soft:h"}, 0},
        {{.newer_than = -1, .used_within = -1, .device = "cuda"}, 1},
        {{.newer_than = -1, .used_within = -1, .device = "auto"}, 4},
        {{.newer_than = 1000, .used_within = -1}, 3},
        {{.newer_than = -1, .used_within = 1000}, 1},
        {{.newer_than = -1, .used_within = -1, .min_hits = 5}, 1},
        {{.newer_than = -1, .used_within = -1, .min_hits = 6}, 0},
        {{.newer_than = 1000, .used_within = 1000}, 0},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        if (exported(c, &t[i].s) != t[i].n)
            fail_msg("selection %zu", i);
    cache_close(c);
}

struct seen {
    bool secret, recipe;
};

static int look(void *user, const char *line, size_t n, struct dt_err *e)
{
    struct seen *s = user;
    s->secret |= memmem(line, n, "not to be exported", 18) != NULL;
    s->recipe |= memmem(line, n, "steps", 5) != NULL;
    return 0;
}

/* A bundle has recipes and digests; signing it signs every row and the whole. */
static void test_signed(void **state)
{
    struct cache *c = fresh();
    struct cache_select all = {.newer_than = -1, .used_within = -1};
    struct sign_packed file;
    struct seen s = {0};
    struct dt_err e = {0};
    char *bytes, *sealed, *again;
    size_t n, m, k;
    json_t *o;
    put(c, 1, "soft:h200");
    put(c, 2, "soft:h100");
    assert_int_equal(cache_export(c, &all, &bytes, &n, NULL), 0);
    assert_int_equal(sign_packed_lines(bytes, n, 1 << 20, look, &s, &file, NULL), 0);
    assert_true(s.recipe && !s.secret && !file.sealed);
    assert_int_equal(sign_bundle(farm, NOW, bytes, n, &sealed, &m, NULL), 0);
    assert_int_equal(sign_bundle(barn, NOW, sealed, m, &again, &k, NULL), 0); /* takes the place of the first */
    cache_close(c);
    c = fresh();
    assert_int_equal(bring(c, again, k, farm_line, true, &o, NULL), 0);
    assert_true(count(o, "refused") == 2 && !complete(o));
    json_decref(o);
    assert_int_equal(bring(c, sealed, m, farm_line, true, &o, NULL), 0);
    assert_true(count(o, "imported") == 2 && complete(o));
    json_decref(o);
    cache_close(c);
    free(again);
    assert_int_equal(sign_bundle(farm, NOW, bytes, n / 2, &again, &k, &e), DT_E_JSON);
    assert_non_null(strstr(e.detail, "cannot be signed"));
    dt_err_done(&e);
    free(bytes);
    free(sealed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),   cmocka_unit_test(test_keys_change), cmocka_unit_test(test_cut),
        cmocka_unit_test(test_whole),  cmocka_unit_test(test_refused),     cmocka_unit_test(test_select),
        cmocka_unit_test(test_signed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
