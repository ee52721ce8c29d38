/* Finished replies in the store, and what is written down about hits.
 *
 * A reply belongs to one row of `entry` and to that row's checksum at the time, its generation. A reply is given out
 * only when its own checksum is right *and* its entry is still there, unchanged and sound: so whatever removes,
 * replaces or damages an entry takes its replies along (triggers of schema/db/sqlite/0005-replies.sql remove the rows).
 *
 * Hits themselves write nothing. Their counts come in batches (cache_hits_put), in one transaction that does not wait
 * for another writer: the caller keeps the batch and comes again.
 *
 * Not here: what a reply's key is made of, and replies in memory (daemon/service/replies.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cache-priv.h"

void cache_reply_done(struct cache_reply *r)
{
    free(r->body);
    free(r->zstd);
    *r = (struct cache_reply){0};
}

/* ---- the entry that a reply belongs to --------------------------------------------------------------------------- */

struct generation {
    const char *sum;
    bool same;
};

static int take_entry(sqlite3_stmt *s, void *user)
{
    struct generation *g = user;
    const char *text[9];
    for (int i = 0; i < 9; i++)
        text[i] = cache_column(s, i);
    g->same = !strcmp(text[8], g->sum);
    return g->same ? cache_row_check(text, 8) : 1; /* another is no damage */
}

int cache_row_sound(struct cache *c, int64_t id, const char *generation)
{
    char number[24];
    const char *text[] = {number};
    struct generation g = {generation, false};
    snprintf(number, sizeof number, "%lld", (long long)id);
    return cache_one(c,
                     "SELECT want, signature, device, toolchain, policy, digest, body, factors, sha256 FROM entry "
                     "WHERE id = CAST(?1 AS INTEGER)",
                     text, 1, take_entry, &g, NULL) == 1 &&
           g.same;
}

struct found {
    int64_t id;
    char *generation;
};

static int take_place(sqlite3_stmt *s, void *user)
{
    struct found *f = user;
    const char *sum = cache_column(s, 1);
    if (!dt_sha256_ok(sum))
        return 0;
    f->id = sqlite3_column_int64(s, 0);
    memcpy(f->generation, sum, DT_SHA256_TEXT);
    return 1;
}

int cache_row_find(struct cache *c, const struct cache_key *k, int64_t *ret_id, char generation[DT_SHA256_TEXT])
{
    const char *text[] = {k->want, k->signature, k->device, k->toolchain, k->policy};
    struct found f = {.generation = generation};
    if (cache_one(c,
                  "SELECT id, sha256 FROM entry WHERE want = ?1 AND signature = ?2 AND device = ?3 AND toolchain = ?4 "
                  "AND policy = ?5",
                  text, 5, take_place, &f, NULL) != 1)
        return 0;
    *ret_id = f.id;
    return 1;
}

int cache_row_newest(struct cache *c, const char *want, const char *signature, const char *device, int64_t *ret_id,
                     char generation[DT_SHA256_TEXT])
{
    const char *text[] = {want, signature, device ? device : ""};
    struct found f = {.generation = generation};
    if (cache_one(c,
                  device ? "SELECT id, sha256 FROM entry WHERE want = ?1 AND signature = ?2 AND device = ?3 "
                           "ORDER BY created DESC, id DESC LIMIT 1"
                         : "SELECT id, sha256 FROM entry WHERE want = ?1 AND signature = ?2 "
                           "ORDER BY created DESC, id DESC LIMIT 1",
                  text, device ? 3 : 2, take_place, &f, NULL) != 1)
        return 0;
    *ret_id = f.id;
    return 1;
}

void cache_last_row(const struct cache *c, int64_t *ret_id, char generation[DT_SHA256_TEXT])
{
    *ret_id = c->last_id;
    snprintf(generation, DT_SHA256_TEXT, "%s", c->last_sum);
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static char *hex_of(const void *p, size_t n)
{
    static const char digit[] = "0123456789ABCDEF"; /* as SQLite's hex() */
    const unsigned char *b = p;
    char *s = dt_malloc(2 * n + 1);
    for (size_t i = 0; s && i < n; i++) {
        s[2 * i] = digit[b[i] >> 4];
        s[2 * i + 1] = digit[b[i] & 15];
    }
    if (s)
        s[2 * n] = 0;
    return s;
}

struct wanted {
    const char *key;
    struct cache_reply *reply;
};

static int take_reply(sqlite3_stmt *s, void *user)
{
    const struct wanted *w = user;
    struct cache_reply *r = w->reply;
    const void *z = sqlite3_column_blob(s, 5);
    size_t nz = (size_t)sqlite3_column_bytes(s, 5);
    dt_free_ char *hex = hex_of(z, nz);
    const char *text[] = {w->key, cache_column(s, 1), cache_column(s, 2), cache_column(s, 3), cache_column(s, 4),
                          hex,    cache_column(s, 6)};
    int ok = hex ? cache_row_check(text, 6) : DT_E_NOMEM;
    for (int i = 1; ok == 1 && i < 4; i++)
        ok = dt_sha256_ok(text[i]);
    if (ok != 1)
        return ok;
    r->entry = sqlite3_column_int64(s, 0);
    memcpy(r->generation, text[1], DT_SHA256_TEXT);
    memcpy(r->signature, text[2], DT_SHA256_TEXT);
    memcpy(r->digest, text[3], DT_SHA256_TEXT);
    r->len = strlen(text[4]);
    r->zstd_len = nz;
    r->body = dt_memdup(text[4], r->len + 1);
    r->zstd = nz ? dt_memdup(z, nz) : NULL;
    return r->body && (r->zstd || !nz) ? 1 : DT_E_NOMEM;
}

int cache_reply_get(struct cache *c, const char *key, struct cache_reply *ret)
{
    struct cache_reply r = {0};
    struct wanted w = {key, &r};
    if (cache_one(c, "SELECT entry, generation, signature, digest, body, zstd, sha256 FROM reply WHERE key = ?1", &key,
                  1, take_reply, &w, NULL) == 1 &&
        cache_row_sound(c, r.entry, r.generation)) {
        *ret = r;
        return 1;
    }
    cache_reply_done(&r);
    return 0;
}

static int reply_insert(struct cache *c, const char *key, const struct cache_reply *r, struct dt_err *e)
{
    dt_free_ char *hex = hex_of(r->zstd, r->zstd_len);
    char sum[DT_SHA256_TEXT];
    const char *text[] = {key, r->generation, r->signature, r->digest, r->body, hex, sum};
    sqlite3_stmt *s;
    if (!hex || cache_row_sum(text, 6, sum) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    /* an entry that is gone or replaced meanwhile gets no reply */
    int rc = cache_prepare(c,
                           "INSERT OR REPLACE INTO reply (key, generation, signature, digest, body, zstd, sha256, "
                           "entry, used) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, id, unixepoch() FROM entry WHERE "
                           "id = ?8 AND sha256 = ?2",
                           text, 5, &s);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob64(s, 6, r->zstd_len ? r->zstd : "", r->zstd_len, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(s, 7, sum, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(s, 8, r->entry);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    sqlite3_finalize(s);
    if (rc != SQLITE_DONE)
        cache_state_wrote(c, rc);
    return rc == SQLITE_DONE ? 0 : cache_unwritable(c, e);
}

void cache_reply_size(struct cache *c, int64_t *ret_rows, int64_t *ret_bytes)
{
    *ret_rows = cache_number(c, "SELECT count(*) FROM reply");
    *ret_bytes = cache_number(c, "SELECT coalesce(sum(length(CAST(body AS BLOB)) + length(zstd)), 0) FROM reply");
}

int cache_reply_trim(struct cache *c, int64_t max_bytes)
{
    int64_t rows, bytes;
    int rc = SQLITE_OK;
    for (;;) {
        cache_reply_size(c, &rows, &bytes);
        if (rc != SQLITE_OK || bytes <= max_bytes || !rows)
            return rc;
        rc = cache_run(c,
                       "DELETE FROM reply WHERE id IN (SELECT id FROM reply ORDER BY used, id LIMIT "
                       "(SELECT max(1, count(*) / 16) FROM reply))",
                       NULL, 0);
    }
}

int cache_reply_put(struct cache *c, const char *key, const struct cache_reply *r, int64_t max_bytes, struct dt_err *e)
{
    int n = reply_insert(c, key, r, e);
    if (n < 0)
        return n;
    return cache_reply_trim(c, max_bytes) == SQLITE_OK ? 0 : cache_unwritable(c, e);
}

/* ---- hits, in batches -------------------------------------------------------------------------------------------- */

static int reply_run(struct cache *c, const char *sql, const char *text, int64_t id, int64_t n)
{
    sqlite3_stmt *s;
    int rc = cache_prepare(c, sql, &text, text ? 1 : 0, &s);
    if (rc != SQLITE_OK)
        return rc;
    int at = text ? 2 : 1;
    sqlite3_bind_int64(s, at, id);
    if (sqlite3_bind_parameter_count(s) > at)
        sqlite3_bind_int64(s, at + 1, n);
    rc = sqlite3_step(s);
    sqlite3_finalize(s);
    if (rc != SQLITE_DONE)
        cache_state_wrote(c, rc);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int hits_write(struct cache *c, const struct cache_hits *h, int64_t max_bytes)
{
    static const char count[] = "INSERT INTO counter (want, name, n) VALUES (?1, 'hits', ?2) "
                                "ON CONFLICT DO UPDATE SET n = n + excluded.n";
    int rc = SQLITE_OK;
    for (size_t i = 0; rc == SQLITE_OK && i < h->ncount; i++)
        rc = reply_run(c, count, h->count[i].want, (int64_t)h->count[i].n, 0);
    for (size_t i = 0; rc == SQLITE_OK && i < h->nentry; i++)
        rc = reply_run(c, "UPDATE entry SET used = unixepoch(), hits = hits + ?2 WHERE id = ?1", NULL, h->entry[i].id,
                       (int64_t)h->entry[i].n);
    for (size_t i = 0; rc == SQLITE_OK && i < h->nowner; i++)
        rc = reply_run(c, "INSERT OR IGNORE INTO owner (signature, uid) VALUES (?1, ?2)", h->owner[i].signature,
                       h->owner[i].uid, 0);
    for (size_t i = 0; rc == SQLITE_OK && i < h->nreply; i++)
        if (!h->reply[i].reply)
            rc = cache_run(c, "UPDATE reply SET used = unixepoch() WHERE key = ?1", &h->reply[i].key, 1);
        else if (reply_insert(c, h->reply[i].key, h->reply[i].reply, NULL) < 0)
            rc = SQLITE_ERROR;
    return rc == SQLITE_OK && h->nreply ? cache_reply_trim(c, max_bytes) : rc;
}

int cache_hits_put(struct cache *c, const struct cache_hits *h, int64_t max_bytes, struct dt_err *e)
{
    if (!cache_db_ready(c) && (c->hold || cache_db_replace(c, e) < 0))
        return c->hold ? cache_unwritable(c, e) : DT_E_CACHE;
    sqlite3_busy_timeout(c->db, 0);
    int rc = cache_run(c, "BEGIN IMMEDIATE", NULL, 0);
    if (c->db) /* it looks for another file first */
        sqlite3_busy_timeout(c->db, CACHE_BUSY_MS);
    if (rc != SQLITE_OK)
        return (rc & 0xff) == SQLITE_BUSY ? 0 : cache_unwritable(c, e);
    rc = hits_write(c, h, max_bytes);
    if (rc == SQLITE_OK)
        rc = cache_run(c, "COMMIT", NULL, 0);
    if (rc == SQLITE_OK)
        return 1;
    cache_unwritable(c, e);
    cache_rollback(c);
    if (cache_db_damaged(rc))
        cache_db_replace(c, e);
    return DT_E_CACHE;
}
