/* Bytes by key, bounded: footprints of launches, and the performance library (what trials of rewrites gave). Each has a
 * table of its own.
 *
 * analysis/ and rewrite/ make the bytes, and check them again when they read them. A row that does not match its
 * checksum is deleted and is a miss. All findings of a job are written in one transaction. When the bodies of a table
 * exceed the limit, the least recently used are removed until seven eighths of it are left. A hit renews `used` at most
 * once an hour, so that reading does not mean writing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cache-priv.h"

static const char *const table[] = {[CACHE_FOOTPRINTS] = "footprint", [CACHE_TRIALS] = "trial"};

/* A statement with the table's name between its halves. */
static const char *sql(char *buf, size_t n, const char *before, enum cache_kept kept, const char *after)
{
    snprintf(buf, n, "%s %s %s", before, table[kept], after);
    return buf;
}
#define SQL(before, kept, after) sql((char[400]){0}, 400, before, kept, after)

/* SHA-256 of a row; the body as SQLite's hex() writes it. */
static int row_sum(const char *key, const void *p, size_t n, char sum[DT_SHA256_TEXT])
{
    static const char digit[] = "0123456789ABCDEF";
    dt_free_ char *hex = dt_malloc(2 * n + 1);
    if (!hex)
        return DT_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = digit[((const uint8_t *)p)[i] >> 4];
        hex[2 * i + 1] = digit[((const uint8_t *)p)[i] & 15];
    }
    hex[2 * n] = 0;
    return cache_row_sum((const char *const[]){key, hex}, 2, sum);
}

struct body { /* of a row */
    const char *key;
    void *p;
    size_t n;
};

static int take_body(sqlite3_stmt *s, void *user)
{
    struct body *b = user;
    const void *p = sqlite3_column_blob(s, 0);
    char sum[DT_SHA256_TEXT];
    b->n = (size_t)sqlite3_column_bytes(s, 0);
    if (p && row_sum(b->key, p, b->n, sum) < 0)
        return DT_E_NOMEM;
    if (!p || strcmp(sum, cache_column(s, 1)))
        return 0;
    b->p = dt_memdup(p, b->n);
    return b->p ? 1 : DT_E_NOMEM;
}

int cache_kept_get(struct cache *c, enum cache_kept kept, const char *key, void **ret, size_t *ret_len,
                   struct dt_err *e)
{
    struct body b = {.key = key};
    int r = cache_one(c, SQL("SELECT body, sha256 FROM", kept, "WHERE key = ?1"), &key, 1, take_body, &b, e);
    if (r == CACHE_UNSOUND) {
        cache_row_aside(c, table[kept], "key = ?1", &key, 1);
        dt_err_set(e, DT_E_IO, "the row does not match its checksum");
        return 0;
    }
    if (r != 1)
        return r;
    cache_run(c, SQL("UPDATE", kept, "SET used = unixepoch() WHERE key = ?1 AND used < unixepoch() - 3600"), &key, 1);
    *ret = b.p;
    *ret_len = b.n;
    return 1;
}

static int put_one(struct cache *c, enum cache_kept kept, const struct cache_bytes *x)
{
    char sum[DT_SHA256_TEXT];
    const char *text[] = {x->key, "", sum};
    sqlite3_stmt *s;
    if (x->bytes > INT32_MAX / 4 || row_sum(x->key, x->p, x->bytes, sum) < 0)
        return SQLITE_NOMEM;
    int rc = cache_prepare(
        c, SQL("INSERT OR REPLACE INTO", kept, "(key, body, sha256, used) VALUES (?1, ?2, ?3, unixepoch())"), text, 3,
        &s);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_bind_blob64(s, 2, x->p, x->bytes, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    sqlite3_finalize(s);
    if (rc != SQLITE_DONE)
        cache_state_wrote(c, rc);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Drop the least recently used, until the rest has at most `bytes`. */
int cache_kept_trim(struct cache *c, enum cache_kept kept, int64_t bytes)
{
    char text[400];
    snprintf(text, sizeof text,
             "DELETE FROM %s WHERE key IN (SELECT key FROM (SELECT key, sum(length(body)) OVER (ORDER BY used DESC, "
             "key) AS upto "
             "FROM %s) WHERE upto > %lld)",
             table[kept], table[kept], (long long)bytes);
    return cache_run(c, text, NULL, 0);
}

/* How many rows, and how many bytes their bodies have. */
void cache_kept_size(struct cache *c, enum cache_kept kept, int64_t *ret_rows, int64_t *ret_bytes)
{
    sqlite3_stmt *s;
    *ret_rows = *ret_bytes = 0;
    if (cache_prepare(c, SQL("SELECT count(*), coalesce(sum(length(body)), 0) FROM", kept, ""), NULL, 0, &s) ==
        SQLITE_OK) {
        if (sqlite3_step(s) == SQLITE_ROW) {
            *ret_rows = sqlite3_column_int64(s, 0);
            *ret_bytes = sqlite3_column_int64(s, 1);
        }
        sqlite3_finalize(s);
    }
}

static bool over(struct cache *c, enum cache_kept kept, int64_t max_bytes)
{
    int64_t rows, bytes;
    cache_kept_size(c, kept, &rows, &bytes);
    return bytes > max_bytes;
}

int cache_kept_put(struct cache *c, enum cache_kept kept, const struct cache_bytes *v, size_t n, int64_t max_bytes,
                   struct dt_err *e)
{
    for (int again = 0;; again = 1) {
        int rc = cache_run(c, "BEGIN IMMEDIATE", NULL, 0), r = 0;
        bool open = rc == SQLITE_OK;
        for (size_t i = 0; i < n && rc == SQLITE_OK; i++)
            rc = put_one(c, kept, &v[i]);
        if (rc == SQLITE_OK && over(c, kept, max_bytes))
            rc = cache_kept_trim(c, kept, max_bytes / 8 * 7);
        if (rc == SQLITE_OK)
            rc = cache_run(c, "COMMIT", NULL, 0);
        if (rc == SQLITE_OK)
            return 0;
        if (!cache_db_damaged(rc) || again)
            r = cache_unwritable(c, e);
        if (open)
            cache_rollback(c);
        if (r || (r = cache_db_replace(c, e)) < 0)
            return r;
    }
}
