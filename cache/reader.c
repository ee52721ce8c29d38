/* A connection that only reads, and the question whether the store has changed.
 *
 * A reader never writes and never waits: its busy time-out is zero, and the file is in WAL mode, where nobody who
 * writes stands in a reader's way. What it finds damaged it leaves alone; a call that may write comes next and deals
 * with it.
 *
 * cache_reader_version() is cheap enough to be asked for every request: one stat(), and `PRAGMA data_version` when the
 * store has changed. The number changes with every commit of any other connection, of this process or another. SQLite
 * would take a lock to answer, by two system calls. So the head of the log's index is remembered, both of its copies
 * (https://sqlite.org/walformat.html), and SQLite is not asked while they stay the same: a commit changes the counter
 * and the checksums in it, a restart of the log its salts. SQLite itself compares these bytes to know whether a
 * connection has to look again.
 *
 * The number also changes when the file itself does (somebody moved it aside; within REOPEN_MS, when somebody wrote
 * into it past SQLite, or a checkpoint moved pages into it): the connection is then opened anew, since pages that it
 * keeps may be of the old file.
 *
 * Not here: which rows are read (store.c, reply.c).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "cache-priv.h"

#define REOPEN_MS 100
#define LOG_PAGE 32768 /* bytes of the log's index that SQLite maps at once */
#define LOG_WORDS 24   /* of the head of the log's index: two copies of 48 bytes */

static atomic_uint readers_opened; /* of the process: no two connections have a number in common */

static void reader_shut(struct cache *c)
{
    sqlite3_finalize(c->version);
    c->version = NULL;
    c->log = NULL;
    c->told = 0;
    cache_db_close(c);
}

/* While a connection is open to a file with a log, nobody can make it a file without one. */
static bool keeps_log(sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    bool wal = sqlite3_prepare_v2(db, "PRAGMA journal_mode", -1, &s, NULL) == SQLITE_OK &&
               sqlite3_step(s) == SQLITE_ROW && !strcmp((const char *)sqlite3_column_text(s, 0), "wal");
    sqlite3_finalize(s);
    return wal;
}

static int reader_open(struct cache *c, const struct stat *st, struct dt_err *e)
{
    int rc = sqlite3_open_v2(c->path, &c->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_FULLMUTEX, NULL);
    if (rc == SQLITE_OK) {
        sqlite3_extended_result_codes(c->db, 1);
        sqlite3_busy_timeout(c->db, 0);
        rc = sqlite3_exec(c->db, "PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON",
                          NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK)
        c->wal = keeps_log(c->db);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v3(c->db, "PRAGMA data_version", -1, SQLITE_PREPARE_PERSISTENT, &c->version, NULL);
    c->dev = st->st_dev;
    c->ino = st->st_ino;
    c->changed = st->st_mtim;
    c->bytes = st->st_size;
    c->opened = atomic_fetch_add(&readers_opened, 1) + 1;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &c->when);
    if (rc == SQLITE_OK)
        return 0;
    cache_unreadable(c, e);
    reader_shut(c);
    return DT_E_CACHE;
}

int cache_reader(const struct cache *of, struct cache **ret, struct dt_err *e)
{
    struct cache *c = dt_calloc(1, sizeof *c);
    struct stat st;
    int r;
    if (c)
        c->path = dt_strdup(of->path);
    if (!c || !c->path) {
        free(c);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    c->reader = true;
    if (stat(c->path, &st) < 0)
        r = dt_err_set(e, DT_E_CACHE, "cache %s: it is not there", c->path);
    else
        r = reader_open(c, &st, e);
    if (r < 0) {
        cache_close(c);
        return r;
    }
    *ret = c;
    return 0;
}

/* A checkpoint changes the file's time again and again while it runs: the connection is opened anew ten times a second
 * at most because of that. */
static bool reader_same(const struct cache *c, const struct stat *st)
{
    struct timespec now;
    if (!c->db || st->st_dev != c->dev || st->st_ino != c->ino)
        return false;
    if (st->st_size == c->bytes && st->st_mtim.tv_sec == c->changed.tv_sec && st->st_mtim.tv_nsec == c->changed.tv_nsec)
        return true;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (now.tv_sec - c->when.tv_sec) * 1000 + (now.tv_nsec - c->when.tv_nsec) / 1000000 < REOPEN_MS;
}

/* The head of the log's index, as SQLite has mapped it for this connection; it stays there until the connection is used
 * again. NULL: there is none. */
static const _Atomic uint32_t *log_head(struct cache *c)
{
    sqlite3_file *f = NULL;
    volatile void *p = NULL;
    if (!c->wal || sqlite3_file_control(c->db, "main", SQLITE_FCNTL_FILE_POINTER, &f) != SQLITE_OK || !f ||
        !f->pMethods || f->pMethods->iVersion < 2 || f->pMethods->xShmMap(f, 0, LOG_PAGE, 0, &p) != SQLITE_OK)
        return NULL;
    return (const _Atomic uint32_t *)p;
}

/* Is it as it was? A writer writes the second copy first, here the first is read first: when both are old, no commit
 * was complete when this began. */
static bool log_same(const struct cache *c)
{
    bool same = c->log;
    for (unsigned i = 0; same && i < LOG_WORDS; i++)
        same = atomic_load_explicit(&c->log[i], memory_order_acquire) == c->log_seen[i];
    return same;
}

static void log_remember(struct cache *c)
{
    c->log = log_head(c);
    for (unsigned i = 0; c->log && i < LOG_WORDS; i++)
        c->log_seen[i] = atomic_load_explicit(&c->log[i], memory_order_acquire);
}

uint64_t cache_reader_version(struct cache *c)
{
    struct stat st;
    uint64_t version = 0;
    if (!c || stat(c->path, &st) < 0)
        return 0;
    if (!reader_same(c, &st)) {
        reader_shut(c);
        if (reader_open(c, &st, NULL) < 0)
            return 0;
    }
    if (c->told && log_same(c))
        return c->told;
    log_remember(c); /* before SQLite looks: what is committed meanwhile is looked for again */
    if (sqlite3_step(c->version) == SQLITE_ROW)
        version = (uint64_t)c->opened << 32 | (uint32_t)sqlite3_column_int(c->version, 0);
    sqlite3_reset(c->version);
    c->told = version;
    return version;
}
