/* Statements, and rows that carry a checksum.
 *
 * The checksum of a row is the SHA-256 of its other columns, each with its length in front (base/hash.h), so that a row
 * is believed as a whole or not at all. Reading one row is the same everywhere: when SQLite finds the file damaged, it
 * is moved aside and the row is not there; when the row is damaged, the caller is told, and has it set aside: copied to
 * the table `aside`, which holds the newest few, and deleted.
 *
 * Not here: which columns a table has (store.c, recipe.c, kept.c).
 */
#include <stdio.h>
#include <string.h>

#include "cache-priv.h"

static int row_bind(sqlite3_stmt *s, const char *const *text, int n)
{
    int rc = SQLITE_OK;
    for (int i = 0; i < n && rc == SQLITE_OK; i++)
        rc = sqlite3_bind_text64(s, i + 1, text[i], strlen(text[i]), SQLITE_STATIC, SQLITE_UTF8);
    return rc;
}

int cache_prepare(struct cache *c, const char *sql, const char *const *text, int n, sqlite3_stmt **ret)
{
    sqlite3_stmt *s = NULL;
    *ret = NULL; /* what sqlite3_finalize may have in any case */
    if (!cache_db_ready(c))
        return SQLITE_CANTOPEN;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = row_bind(s, text, n);
    if (rc != SQLITE_OK) {
        sqlite3_finalize(s);
        return rc;
    }
    *ret = s;
    return SQLITE_OK;
}

int cache_run(struct cache *c, const char *sql, const char *const *text, int n)
{
    sqlite3_stmt *s;
    bool writes = true;
    int rc = cache_prepare(c, sql, text, n, &s);
    if (rc == SQLITE_OK) {
        writes = !sqlite3_stmt_readonly(s) || !strcmp(sql, "COMMIT");
        rc = sqlite3_step(s);
        rc = rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
        sqlite3_finalize(s);
    }
    if (rc != SQLITE_OK || (writes && sqlite3_get_autocommit(c->db)))
        cache_state_wrote(c, rc);
    return rc;
}

void cache_rollback(struct cache *c)
{
    if (!c->db || sqlite3_get_autocommit(c->db))
        return;
    cache_run(c, "ROLLBACK", NULL, 0);
    if (sqlite3_get_autocommit(c->db))
        return;
    cache_db_close(c);
    c->hold = true;
    c->retry_us = 0;
}

const char *cache_column(sqlite3_stmt *s, int i)
{
    const unsigned char *t = sqlite3_column_text(s, i);
    return t ? (const char *)t : "";
}

int64_t cache_number(struct cache *c, const char *sql)
{
    sqlite3_stmt *s;
    int64_t n = 0;
    if (cache_prepare(c, sql, NULL, 0, &s) != SQLITE_OK)
        return 0;
    if (sqlite3_step(s) == SQLITE_ROW)
        n = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return n;
}

/* ---- checksums ----------------------------------------------------------------------------------------------- */

int cache_row_sum(const char *const *text, int n, char sum[DT_SHA256_TEXT])
{
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0)
        return DT_E_NOMEM;
    for (int i = 0; i < n; i++)
        dt_sha256_addstr(&h, text[i]);
    dt_sha256_final(&h, sum);
    return 0;
}

int cache_row_check(const char *const *text, int n)
{
    char sum[DT_SHA256_TEXT];
    return cache_row_sum(text, n, sum) < 0 ? DT_E_NOMEM : !strcmp(sum, text[n]);
}

/* ---- damage -------------------------------------------------------------------------------------------------- */

#define ASIDE 64 /* rows that are kept for people to look at */
#define STR(x) #x
#define TEXT(x) STR(x)
#define ASIDE_TRIM "DELETE FROM aside WHERE id <= (SELECT max(id) FROM aside) - " TEXT(ASIDE)
#define ASIDE_BYTES (64u << 10) /* of what came from elsewhere */

void cache_aside_put(struct cache *c, const char *table, const char *key, const char *body, size_t n)
{
    sqlite3_stmt *s;
    const char *text[] = {table, key};
    if (cache_prepare(c, "INSERT INTO aside (tbl, key, body, found) VALUES (?1, ?2, ?3, unixepoch())", text, 2, &s) !=
        SQLITE_OK)
        return;
    sqlite3_bind_blob64(s, 3, body, n < ASIDE_BYTES ? n : ASIDE_BYTES, SQLITE_STATIC);
    sqlite3_step(s); /* if it can be */
    sqlite3_finalize(s);
    cache_run(c, ASIDE_TRIM, NULL, 0);
}

bool cache_row_aside(struct cache *c, const char *table, const char *where, const char *const *text, int n)
{
    char sql[512];
    if (c->reader)
        return false; /* it is a miss; who may write deals with it */
    bool inside = c->db && !sqlite3_get_autocommit(c->db);
    snprintf(sql, sizeof sql,
             "INSERT INTO aside (tbl, key, body, found) SELECT '%s', ?1, %s, unixepoch() FROM %s WHERE %s", table,
             !strcmp(table, "known") ? "signature"
             : !strcmp(table, "job") ? "post || char(10) || state || char(10) || request"
                                     : "body",
             table, where);
    cache_run(c, sql, text, n); /* if it can be */
    if (inside && sqlite3_get_autocommit(c->db))
        return false; /* the disk is full, and SQLite ended the transaction */
    cache_run(c, ASIDE_TRIM, NULL, 0);
    snprintf(sql, sizeof sql, "DELETE FROM %s WHERE %s", table, where);
    bool gone = cache_run(c, sql, text, n) == SQLITE_OK;
    if (gone)
        cache_state_damaged(c, table, text[0]);
    return gone;
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

int cache_one(struct cache *c, const char *sql, const char *const *text, int n, cache_take *take, void *user,
              struct dt_err *e)
{
    sqlite3_stmt *s;
    int r = 0, rc = cache_prepare(c, sql, text, n, &s);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(s);
        if (rc == SQLITE_ROW)
            r = take(s, user);
        if (rc == SQLITE_ROW && r == 0 && sqlite3_errcode(c->db) == SQLITE_NOMEM)
            r = DT_E_NOMEM; /* a column that could not be read, not one that is wrong */
        sqlite3_finalize(s);
    }
    if (rc == SQLITE_DONE)
        return 0;
    if (cache_db_damaged(rc))
        return cache_db_replace(c, e);
    if (rc != SQLITE_ROW)
        return cache_unreadable(c, e);
    if (!r && c->reader)
        cache_count_damaged(); /* who may write counts what is set aside */
    return r < 0 ? dt_err_set(e, r, "out of memory") : r ? 1 : CACHE_UNSOUND;
}

json_t *cache_row_json(sqlite3_stmt *s, int first, const char *const *name, int names, const char *const *figure,
                       int figures)
{
    json_t *o = json_object();
    bool ok = o;
    for (int i = 0; ok && i < names; i++)
        ok = json_object_set_new(o, name[i], json_string(cache_column(s, first + i))) == 0;
    for (int i = 0; ok && i < figures; i++)
        ok = json_object_set_new(o, figure[i], json_integer(sqlite3_column_int64(s, first + names + i))) == 0;
    if (ok)
        return o;
    json_decref(o);
    return NULL;
}

int cache_rows(struct cache *c, const char *sql, const char *const *text, int n, json_t *(*make)(sqlite3_stmt *s),
               json_t **ret, struct dt_err *e)
{
    sqlite3_stmt *s;
    int rc;
    if (cache_prepare(c, sql, text, n, &s) != SQLITE_OK)
        return cache_unreadable(c, e);
    json_t *list = json_array();
    bool ok = list;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW && ok)
        ok = json_array_append_new(list, make(s)) == 0;
    sqlite3_finalize(s);
    if (!ok || rc != SQLITE_DONE) {
        json_decref(list);
        return ok ? cache_unreadable(c, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    *ret = list;
    return 0;
}
