/* What the cache holds, for people: list, check, compare.
 *
 * The age of an entry counts from `used`, which a hit renews. The nearest entry is searched among the 10,000 that were
 * used last, by their factors only: no body is read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cache-priv.h"

#define NEAREST_MAX 10000

static int entries_nomem(struct dt_err *e) { return dt_err_set(e, DT_E_NOMEM, "out of memory"); }
/* ---- list ------------------------------------------------------------------------------------------------------ */
#define ENTRY                                                                                                          \
    "id, want, signature, device, toolchain, policy, digest, length(CAST(body AS BLOB)), created, used, hits, "        \
    "max(0, unixepoch() - used), factors"

static json_t *entry_json(sqlite3_stmt *s)
{
    static const char *const id[] = {"id"}, *const name[] = {"want",      "signature", "device",
                                                             "toolchain", "policy",    "digest"},
                             *const figure[] = {"bytes", "created", "used", "hits", "age_s"};
    json_t *o = cache_row_json(s, 0, NULL, 0, id, 1), *rest = cache_row_json(s, 1, name, 6, figure, 5);
    int r = o && rest ? json_object_update(o, rest) : -1;
    json_decref(rest);
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}

static json_t *entry_json_factors(sqlite3_stmt *s)
{
    const char *text = cache_column(s, 12);
    json_t *o = entry_json(s), *f;
    if (!o || !*text || dt_json_load(text, strlen(text), &f, NULL) < 0 || json_object_set_new(o, "factors", f) == 0)
        return o;
    json_decref(o);
    return NULL;
}

int cache_list(struct cache *c, const char *signature, const unsigned *uid, unsigned limit, json_t **ret,
               struct dt_err *e)
{
    char sql[512], own[CACHE_OWN_MAX];
    cache_own_sql("entry", uid, own);
    snprintf(sql, sizeof sql, "SELECT " ENTRY " FROM entry WHERE %s AND %s ORDER BY used DESC, id DESC LIMIT %u",
             signature ? "signature = ?1" : "1", own, limit);
    json_t *list = NULL, *recipes = NULL;
    int r = cache_rows(c, sql, &signature, signature != NULL, signature ? entry_json_factors : entry_json, &list, e);
    if (r < 0)
        return r;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM entry WHERE %s", own);
    json_int_t total = signature ? (json_int_t)json_array_size(list) : cache_number(c, sql);
    int64_t footprints, trials, bytes;
    cache_kept_size(c, CACHE_FOOTPRINTS, &footprints, &bytes);
    cache_kept_size(c, CACHE_TRIALS, &trials, &bytes);
    r = cache_recipes(c, signature, uid, limit, &recipes, e);
    json_t *o = recipes ? json_pack("{s:O, s:O, s:I, s:I, s:I}", "entries", list, "recipes", recipes, "total", total,
                                    "footprints", (json_int_t)footprints, "trials", (json_int_t)trials)
                        : NULL;
    json_decref(list);
    json_decref(recipes);
    if (r < 0)
        return r;
    if (!o)
        return entries_nomem(e);
    *ret = o;
    return 0;
}

/* ---- verify ---------------------------------------------------------------------------------------------------- */
static const struct {
    const char *table, *sql, *where; /* the row by its key */
    int columns;                     /* behind the row's key, which is column 0; the checksum is the last */
    bool body;                       /* column `at` must be JSON */
    int at;
} checks[] = {
    {"entry", "SELECT id, want, signature, device, toolchain, policy, digest, body, factors, sha256 FROM entry",
     "id = CAST(?1 AS INTEGER)", 9, true, 6},
    {"graph", "SELECT digest, digest, body, sha256 FROM graph", "digest = ?1", 3, true, 1},
    {"known", "SELECT digest || ' ' || arch, digest, arch, signature, sha256 FROM known", "digest || ' ' || arch = ?1",
     4, false, 0},
    {"recipe", "SELECT id, signature, device, toolchain, policy, digest, body, sha256 FROM recipe",
     "id = CAST(?1 AS INTEGER)", 7, true, 5},
    {"outbox", "SELECT id, signature, device, toolchain, policy, digest, body, facts, sha256 FROM outbox",
     "id = CAST(?1 AS INTEGER)", 8, true, 5},
    {"footprint", "SELECT key, key, hex(body), sha256 FROM footprint", "key = ?1", 3, false, 0},
    {"trial", "SELECT key, key, hex(body), sha256 FROM trial", "key = ?1", 3, false, 0},
    {"job", "SELECT id, id, service, post, request_sha256, sha256 FROM job", "id = ?1", 5, true, 2},
};

int cache_check_rows(struct cache *c, json_t *damaged, json_int_t *ret_rows, struct dt_err *e)
{
    json_int_t rows = 0;
    for (size_t k = 0; k < sizeof checks / sizeof *checks; k++) {
        sqlite3_stmt *s;
        int rc;
        if (cache_prepare(c, checks[k].sql, NULL, 0, &s) != SQLITE_OK)
            return cache_unreadable(c, e);
        while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
            const char *text[9];
            json_t *o = NULL;
            int n = checks[k].columns;
            for (int i = 0; i < n; i++)
                text[i] = cache_column(s, i + 1);
            int ok = cache_row_check(text, n - 1);
            if (ok == 1 && checks[k].body) {
                int bad = dt_json_load(text[checks[k].at], strlen(text[checks[k].at]), &o, NULL);
                ok = bad == DT_E_NOMEM ? bad : bad == 0 && (k || cache_document_of(o, text[0], text[1]));
                json_decref(o);
            }
            if (ok < 0 || (!ok && sqlite3_errcode(c->db) == SQLITE_NOMEM)) {
                sqlite3_finalize(s);
                return entries_nomem(e);
            }
            if (!ok)
                json_array_append_new(damaged,
                                      json_pack("{s:s, s:s}", "table", checks[k].table, "key", cache_column(s, 0)));
            rows++;
        }
        sqlite3_finalize(s);
        if (rc != SQLITE_DONE)
            return cache_unreadable(c, e);
    }
    *ret_rows = rows;
    return 0;
}

bool cache_drop_row(struct cache *c, const char *table, const char *key)
{
    for (size_t k = 0; k < sizeof checks / sizeof *checks; k++)
        if (!strcmp(checks[k].table, table))
            return cache_row_aside(c, table, checks[k].where, &key, 1);
    return false;
}

int cache_verify(struct cache *c, json_t **ret, struct dt_err *e)
{
    json_t *damaged = json_array();
    json_int_t rows = 0;
    sqlite3_stmt *s;
    int r = cache_check_rows(c, damaged, &rows, e);
    if (r < 0) {
        json_decref(damaged);
        return r;
    }
    char words[256] = "cannot be checked";
    if (cache_prepare(c, "PRAGMA quick_check(1)", NULL, 0, &s) == SQLITE_OK) {
        if (sqlite3_step(s) == SQLITE_ROW)
            snprintf(words, sizeof words, "%s", cache_column(s, 0));
        sqlite3_finalize(s);
    }
    json_t *o = json_pack("{s:b, s:I, s:o, s:s}", "ok", !json_array_size(damaged) && !strcmp(words, "ok"), "checked",
                          rows, "damaged", damaged, "file", words);
    if (!o)
        return entries_nomem(e);
    *ret = o;
    return 0;
}

/* ---- nearest --------------------------------------------------------------------------------------------------- */
/* How many factors differ; appended to `list` unless NULL. */
static size_t entries_compare(json_t *mine, json_t *stored, json_t *list)
{
    size_t n = 0;
    const char *key;
    json_t *v, *w;
    json_object_foreach (mine, key, v) {
        w = json_object_get(stored, key);
        if (w && json_equal(v, w))
            continue;
        n++;
        if (list)
            json_array_append_new(list, json_pack("{s:s, s:O, s:O?}", "factor", key, "mine", v, "stored", w));
    }
    json_object_foreach (stored, key, w) {
        if (json_object_get(mine, key))
            continue;
        n++;
        if (list)
            json_array_append_new(list, json_pack("{s:s, s:n, s:O}", "factor", key, "mine", "stored", w));
    }
    return n;
}

/* The key as an object of the same members as an entry's. */
static json_t *own_key(struct cache *c, const struct cache_key *k, json_t *factors)
{
    if (k->device && k->toolchain && k->policy && factors)
        return json_pack("{s:s, s:s, s:s, s:s, s:O}", "signature", k->signature, "device", k->device, "toolchain",
                         k->toolchain, "policy", k->policy, "factors", factors);
    const char *text[] = {k->want, k->signature};
    sqlite3_stmt *s;
    json_t *o = NULL;
    if (cache_prepare(
            c, "SELECT " ENTRY " FROM entry WHERE want = ?1 AND signature = ?2 ORDER BY created DESC, id DESC LIMIT 1",
            text, 2, &s) == SQLITE_OK) {
        if (sqlite3_step(s) == SQLITE_ROW)
            o = entry_json_factors(s);
        sqlite3_finalize(s);
    }
    if (o && k->device)
        json_object_set_new(o, "device", json_string(k->device));
    if (o && k->toolchain)
        json_object_set_new(o, "toolchain", json_string(k->toolchain));
    if (o && k->policy)
        json_object_set_new(o, "policy", json_string(k->policy));
    return o;
}

int cache_nearest(struct cache *c, const struct cache_key *k, json_t *factors, const unsigned *uid, json_t **ret,
                  struct dt_err *e)
{
    static const char *const rest[] = {"device", "toolchain", "policy"};
    json_t *mine = own_key(c, k, factors), *best = NULL;
    json_t *mf = json_object_get(mine, "factors");
    size_t best_rank = 0;
    sqlite3_stmt *s;
    int rc;
    if (!json_is_object(mf)) {
        json_decref(mine);
        return 0;
    }
    char sql[500], own[CACHE_OWN_MAX];
    cache_own_sql("entry", uid, own);
    snprintf(sql, sizeof sql, "SELECT " ENTRY " FROM entry WHERE want = ?1 AND %s ORDER BY used DESC, id DESC LIMIT %d",
             own, NEAREST_MAX);
    if (cache_prepare(c, sql, &k->want, 1, &s) != SQLITE_OK) {
        json_decref(mine);
        return cache_unreadable(c, e);
    }
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        json_t *o = entry_json_factors(s), *of = json_object_get(o, "factors");
        size_t rank = 0;
        for (size_t i = 0; i < 3; i++)
            rank += strcmp(dt_json_text(o, rest[i]), dt_json_text(mine, rest[i])) != 0;
        if (strcmp(dt_json_text(o, "signature"), dt_json_text(mine, "signature"))) {
            rank += 4 * (1 + entries_compare(mf, of, NULL));
            if (strcmp(dt_json_text(of, "launches"), dt_json_text(mf, "launches")))
                rank += SIZE_MAX / 2;
        }
        if (rank && json_is_object(of) && (!best || rank < best_rank)) {
            json_decref(best);
            best = json_incref(o);
            best_rank = rank;
        }
        json_decref(o);
    }
    sqlite3_finalize(s);
    int r = rc == SQLITE_DONE ? best != NULL : cache_unreadable(c, e);
    if (r == 1) {
        json_t *list = json_array();
        entries_compare(mf, json_object_get(best, "factors"), list);
        for (size_t i = 0; i < 3; i++)
            if (strcmp(dt_json_text(best, rest[i]), dt_json_text(mine, rest[i])))
                json_array_append_new(list,
                                      json_pack("{s:s, s:s, s:s}", "factor", rest[i], "mine",
                                                dt_json_text(mine, rest[i]), "stored", dt_json_text(best, rest[i])));
        json_object_del(best, "factors");
        json_t *o = json_pack("{s:O, s:o, s:I}", "entry", best, "differs", list, "factors",
                              (json_int_t)json_object_size(mf) + 3);
        if (o)
            *ret = o;
        else
            r = entries_nomem(e);
    }
    json_decref(best);
    json_decref(mine);
    return r;
}
