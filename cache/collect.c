/* What goes: cleaning up by hand (gc), and what was used least recently, a little at a time.
 *
 * Cleaning up by hand is one transaction: damaged rows, rows that are too old, then the oldest until the rest has few
 * enough bytes. Finished replies go first, then footprints and trials: they are made again in no time. A graph and its
 * digests go with the last entry of their signature. The room is given back to the disk at once: pages from the end of
 * the file are moved to free places, a few hundred at a time (files that older versions made are vacuumed once
 * instead).
 *
 * Deleting writes, too. On a full disk the log cannot grow, and a transaction of all this fails. Then a reserve that
 * the keeper laid in (keeper.c) is released, the log is written back and cut, and rows go in transactions of a few,
 * each written back before the next.
 *
 * The small step takes the oldest rows over all tables by `used`. A time in the future, which a clock that was wrong
 * has left, counts as now.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cache-priv.h"

#define STEP_ROWS 8
#define STEP_PAGES 256
#define BYTES                                                                                                          \
    "(SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM entry) + (SELECT coalesce(sum(length(CAST(body AS "     \
    "BLOB))), 0) FROM graph) + (SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM recipe)"

static int64_t kept_bytes(struct cache *c, enum cache_kept kept)
{
    int64_t rows, bytes;
    cache_kept_size(c, kept, &rows, &bytes);
    return bytes;
}

static int64_t reply_bytes(struct cache *c)
{
    int64_t rows, bytes;
    cache_reply_size(c, &rows, &bytes);
    return bytes;
}

static int64_t all_bytes(struct cache *c)
{
    return cache_number(c, "SELECT " BYTES) + kept_bytes(c, CACHE_FOOTPRINTS) + kept_bytes(c, CACHE_TRIALS) +
           reply_bytes(c);
}

/* Commit. A full disk may have ended the transaction at a statement that only read: its pages did not fit into memory
 * beside those that were changed. */
static int end(struct cache *c)
{
    return sqlite3_get_autocommit(c->db) ? SQLITE_FULL : cache_run(c, "COMMIT", NULL, 0);
}

/* ---- small steps ----------------------------------------------------------------------------------------------- */

static const char *const dated[] = {"reply", "footprint", "trial",
                                    "entry"}; /* tables with `used`, and an index on it */
#define NDATED (sizeof dated / sizeof *dated)

/* The table whose oldest row is the oldest; NULL: all are empty. */
static const char *oldest_table(struct cache *c)
{
    const char *table = NULL;
    int64_t least = INT64_MAX;
    for (size_t k = 0; k < NDATED; k++) {
        char sql[96];
        snprintf(sql, sizeof sql, "SELECT coalesce(min(used), %lld) FROM %s", (long long)INT64_MAX, dated[k]);
        int64_t used = cache_number(c, sql);
        if (used < least) {
            least = used;
            table = dated[k];
        }
    }
    return table;
}

/* What hangs on a signature that has no entry any more. */
static int drop_orphans(struct cache *c, const char *signature)
{
    static const char *const of[] = {
        "DELETE FROM graph WHERE digest IN (SELECT digest FROM known WHERE signature = ?1) AND NOT EXISTS (SELECT 1 "
        "FROM known k WHERE k.digest = graph.digest AND k.signature <> ?1)",
        "DELETE FROM known WHERE signature = ?1",
        "DELETE FROM owner WHERE signature = ?1",
    };
    int rc = SQLITE_OK;
    for (size_t k = 0; rc == SQLITE_OK && k < sizeof of / sizeof *of; k++)
        rc = cache_run(c, of[k], &signature, 1);
    return rc;
}

/* Delete the oldest entries. */
static int evict_entries(struct cache *c)
{
    char signature[STEP_ROWS][DT_SHA256_TEXT];
    sqlite3_stmt *s;
    char sql[160];
    snprintf(sql, sizeof sql,
             "DELETE FROM entry WHERE id IN (SELECT id FROM entry ORDER BY used, id LIMIT %d) RETURNING signature",
             STEP_ROWS);
    int n = 0, rc = cache_prepare(c, sql, NULL, 0, &s);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW && n < STEP_ROWS)
        snprintf(signature[n++], DT_SHA256_TEXT, "%s", cache_column(s, 0));
    sqlite3_finalize(s);
    rc = rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
    for (int i = 0; rc == SQLITE_OK && i < n; i++) {
        const char *text = signature[i];
        sqlite3_stmt *left;
        if ((rc = cache_prepare(c, "SELECT 1 FROM entry WHERE signature = ?1 LIMIT 1", &text, 1, &left)) != SQLITE_OK)
            break;
        int found = sqlite3_step(left);
        sqlite3_finalize(left);
        if (found == SQLITE_DONE)
            rc = drop_orphans(c, text);
    }
    return rc;
}

int cache_evict(struct cache *c)
{
    char sql[200];
    int rc = cache_run(c, "BEGIN IMMEDIATE", NULL, 0);
    if (rc != SQLITE_OK)
        return -rc;
    for (size_t k = 0; rc == SQLITE_OK && k < NDATED; k++) {
        snprintf(sql, sizeof sql, "UPDATE %s SET used = unixepoch() WHERE used > unixepoch() + 60", dated[k]);
        rc = cache_run(c, sql, NULL, 0);
    }
    const char *table = rc == SQLITE_OK ? oldest_table(c) : NULL;
    if (table && !strcmp(table, "entry")) {
        rc = evict_entries(c);
    } else if (table) {
        snprintf(sql, sizeof sql, "DELETE FROM %s WHERE key IN (SELECT key FROM %s ORDER BY used, key LIMIT %d)", table,
                 table, STEP_ROWS);
        rc = cache_run(c, sql, NULL, 0);
    }
    if (rc == SQLITE_OK)
        rc = end(c);
    cache_rollback(c);
    return rc == SQLITE_OK ? table != NULL : -rc;
}

int64_t cache_used_bytes(struct cache *c)
{
    int size = 0, pages = 0, unused = 0;
    if (!cache_db_ready(c) || cache_pragma(c->db, "PRAGMA page_size", &size) != SQLITE_OK ||
        cache_pragma(c->db, "PRAGMA page_count", &pages) != SQLITE_OK ||
        cache_pragma(c->db, "PRAGMA freelist_count", &unused) != SQLITE_OK)
        return -1;
    return (int64_t)size * (pages - unused);
}

void cache_give_back(struct cache *c, int pages)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA incremental_vacuum(%d)", pages);
    if (c->db)
        sqlite3_exec(c->db, sql, NULL, NULL, NULL); /* not cache_run: one step moves one page */
}

/* Write the log back and cut it off: room on the disk. Another process that reads only puts it off. */
static void cut_log(struct cache *c)
{
    if (c->db)
        sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}

/* ---- by hand --------------------------------------------------------------------------------------------------- */

static int drop_damaged(struct cache *c, int *ret_rc, struct dt_err *e)
{
    json_t *damaged = json_array(), *v;
    json_int_t rows;
    size_t i;
    int r = damaged ? cache_check_rows(c, damaged, &rows, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    json_array_foreach (damaged, i, v)
        if (r == 0 && *ret_rc == SQLITE_OK &&
            !cache_drop_row(c, json_string_value(json_object_get(v, "table")),
                            json_string_value(json_object_get(v, "key"))))
            *ret_rc = sqlite3_errcode(c->db) & 0xff ? sqlite3_errcode(c->db) : SQLITE_FULL;
    json_decref(damaged);
    return r;
}

static int drop_old(struct cache *c, int64_t max_age)
{
    static const char *const table[] = {"entry", "footprint", "trial", "reply"};
    char sql[160];
    snprintf(sql, sizeof sql, "DELETE FROM recipe WHERE unixepoch() - max(created, tried) > %lld", (long long)max_age);
    int rc = cache_run(c, sql, NULL, 0);
    for (unsigned k = 0; rc == SQLITE_OK && k < sizeof table / sizeof *table; k++) {
        snprintf(sql, sizeof sql, "DELETE FROM %s WHERE unixepoch() - used > %lld", table[k], (long long)max_age);
        rc = cache_run(c, sql, NULL, 0);
    }
    return rc;
}

/* An SQLite code. Orphans go in any case. */
static int drop_most(struct cache *c, int64_t max_bytes)
{
    static const char *const orphans[] = {
        "DELETE FROM known WHERE NOT EXISTS (SELECT 1 FROM entry WHERE entry.signature = known.signature)",
        "DELETE FROM graph WHERE NOT EXISTS (SELECT 1 FROM known WHERE known.digest = graph.digest)",
        "DELETE FROM owner WHERE NOT EXISTS (SELECT 1 FROM entry WHERE entry.signature = owner.signature)",
    };
    int rc = SQLITE_OK;
    if (max_bytes >= 0) {
        int64_t rest = max_bytes - (all_bytes(c) - reply_bytes(c));
        rc = cache_reply_trim(c, rest > 0 ? rest : 0);
    }
    for (enum cache_kept k = 0; rc == SQLITE_OK && max_bytes >= 0 && k < CACHE_KEPT; k++) {
        int64_t rest = max_bytes - (all_bytes(c) - kept_bytes(c, k));
        rc = cache_kept_trim(c, k, rest > 0 ? rest : 0);
    }
    for (;;) {
        for (size_t k = 0; rc == SQLITE_OK && k < sizeof orphans / sizeof *orphans; k++)
            rc = cache_run(c, orphans[k], NULL, 0);
        if (rc != SQLITE_OK || max_bytes < 0 || all_bytes(c) <= max_bytes ||
            !cache_number(c, "SELECT (SELECT count(*) FROM entry) + (SELECT count(*) FROM recipe)"))
            return rc;
        rc = cache_run(c,
                       "DELETE FROM recipe WHERE id IN (SELECT id FROM recipe ORDER BY state = 'recipe', created, id "
                       "LIMIT (SELECT max(1, count(*) / 16) FROM recipe))",
                       NULL, 0);
        if (rc != SQLITE_OK)
            return rc;
        /* a sixteenth at a time: orphans are found by a walk over the tables */
        rc = cache_run(c,
                       "DELETE FROM entry WHERE id IN (SELECT id FROM entry ORDER BY used, id LIMIT "
                       "(SELECT max(1, count(*) / 16) FROM entry))",
                       NULL, 0);
    }
}

/* All of it in one transaction. *ret_rc says why SQLite did not. */
static int collect(struct cache *c, int64_t max_age, int64_t max_bytes, int *ret_rc, struct dt_err *e)
{
    int rc = cache_run(c, "BEGIN IMMEDIATE", NULL, 0), r = 0;
    if (rc == SQLITE_OK)
        r = drop_damaged(c, &rc, e);
    if (r == 0 && rc == SQLITE_OK && max_age >= 0)
        rc = drop_old(c, max_age);
    if (r == 0 && rc == SQLITE_OK)
        rc = drop_most(c, max_bytes);
    if (r == 0 && rc == SQLITE_OK)
        rc = end(c);
    if (r == 0 && rc != SQLITE_OK)
        r = dt_err_set(e, DT_E_CACHE, "cache %s cannot be written: %s", c->path, sqlite3_errstr(rc));
    if (r < 0)
        cache_rollback(c);
    *ret_rc = rc;
    return r;
}

/* The disk is full: make room, then by small steps come down to max_bytes. */
static void collect_little(struct cache *c, int64_t max_bytes)
{
    dt_free_ char *reserve = NULL;
    if (asprintf(&reserve, "%s" CACHE_RESERVE, c->path) < 0)
        reserve = NULL;
    cut_log(c);
    if (reserve)
        unlink(reserve);
    while (max_bytes >= 0 && all_bytes(c) > max_bytes && cache_evict(c) == 1) {
        cut_log(c);
        cache_give_back(c, STEP_PAGES);
    }
}

/* Free pages to the disk. */
static void shrink(struct cache *c)
{
    int kind = 0, unused = 0, before;
    if (!c->db || cache_pragma(c->db, "PRAGMA auto_vacuum", &kind) != SQLITE_OK)
        return;
    if (kind != 2) { /* an older version made it; another process that reads now only puts it off */
        sqlite3_exec(c->db, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM", NULL, NULL, NULL);
        cut_log(c);
        return;
    }
    do {
        before = unused;
        cache_give_back(c, STEP_PAGES);
        cut_log(c);
    } while (cache_pragma(c->db, "PRAGMA freelist_count", &unused) == SQLITE_OK && unused && unused != before);
}

int cache_gc(struct cache *c, int64_t max_age, int64_t max_bytes, json_t **ret, struct dt_err *e)
{
    struct dt_err why = {0};
    int rc;
    json_int_t before = cache_number(c, "SELECT count(*) FROM entry"), bytes = all_bytes(c);
    int r = collect(c, max_age, max_bytes, &rc, &why);
    if (r < 0 && ((rc & 0xff) == SQLITE_FULL || (rc & 0xff) == SQLITE_IOERR)) { /* a quota is SQLITE_IOERR */
        dt_err_done(&why);
        collect_little(c, max_bytes);
        r = collect(c, max_age, max_bytes, &rc, &why);
    }
    if (r < 0) {
        if (e)
            dt_err_move(e, &why);
        dt_err_done(&why);
        return r;
    }
    json_int_t kept = cache_number(c, "SELECT count(*) FROM entry"), now = all_bytes(c);
    if (now < bytes)
        shrink(c);
    json_t *o = json_pack("{s:I, s:I, s:I, s:I}", "removed", before - kept, "kept", kept, "freed_bytes", bytes - now,
                          "bytes", now);
    if (!o)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    *ret = o;
    return 0;
}
