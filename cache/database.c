/* The SQLite file: opening, migrations, and moving a bad one aside.
 *
 * The file is ours when it is empty or carries our application id. user_version counts migrations (schema/db/sqlite/)
 * that have been run; each runs in one transaction that takes the write lock first and looks again, so that two
 * processes may start at once. A file with more migrations than we know is left alone (a newer dovetail made it) and is
 * an error.
 *
 * What is in the file is served as verified, so a user who can write to it decides what runs. A file (or one that
 * SQLite keeps beside it) is refused when it belongs to neither this user nor root, or when its group or others may
 * write it. A folder that others may write to is not checked: keep the file in a folder of your own.
 *
 * A file that is no database, and a damaged one, is renamed to PATH.bad (PATH.bad.2 …: nothing is ever overwritten or
 * deleted), with its -wal and -shm, under a lock on PATH.lock. Another program's database is left alone. A process that
 * finds another file at PATH than the one it had open, or none, opens what is there now: it looks before each statement
 * that begins a transaction.
 *
 * A file that can be read and not written (a read-only disk) is not opened: SQLite keeps one index of the log for a
 * process, and what opens it for reading alone leaves it so for all who open the file later, also when it can be
 * written again.
 *
 * A log beside the file that nobody has open yet says that the last process did not close it. SQLite recovers from
 * that by itself; that it did is checked in the background (keeper.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cache-priv.h"
#include "migrations.h"

#define NMIGRATION (sizeof schema_migrations / sizeof *schema_migrations)

static int db_error(struct cache *c, const char *what, struct dt_err *e)
{
    return dt_err_set(e, DT_E_CACHE, "cache %s: %s: %s", c->path, what, c->db ? sqlite3_errmsg(c->db) : "not open");
}

int cache_unreadable(struct cache *c, struct dt_err *e) { return db_error(c, "cannot be read", e); }
int cache_unwritable(struct cache *c, struct dt_err *e) { return db_error(c, "cannot be written", e); }

void cache_db_settings(struct cache *c)
{
    if (!c->db || !c->jobs)
        return;
    sqlite3_busy_timeout(c->db, CACHE_JOBS_BUSY_MS);
    sqlite3_exec(c->db, "PRAGMA synchronous = FULL", NULL, NULL, NULL);
}

bool cache_db_damaged(int rc) { return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB; }

void cache_db_close(struct cache *c)
{
    sqlite3_close_v2(c->db);
    c->db = NULL;
}

int cache_pragma(sqlite3 *db, const char *sql, int *ret)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(s);
        if (rc == SQLITE_ROW)
            *ret = sqlite3_column_int(s, 0);
        rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
        sqlite3_finalize(s);
    }
    return rc;
}

static int migrate(sqlite3 *db, int from)
{
    char mark[96];
    int version = from, rc = SQLITE_OK;
    while (rc == SQLITE_OK && version < (int)NMIGRATION) {
        if ((rc = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL)) != SQLITE_OK)
            return rc;
        rc = cache_pragma(db, "PRAGMA user_version", &version); /* another process may have been faster */
        if (rc == SQLITE_OK && version < (int)NMIGRATION) {
            snprintf(mark, sizeof mark, "PRAGMA application_id = %d; PRAGMA user_version = %d", CACHE_APPLICATION_ID,
                     version + 1);
            rc = sqlite3_exec(db, schema_migrations[version], NULL, NULL, NULL);
            if (rc == SQLITE_OK)
                rc = sqlite3_exec(db, mark, NULL, NULL, NULL);
            version++;
        }
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
        if (rc != SQLITE_OK)
            sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    }
    return rc;
}

/* What is stored came from others: nobody else reads it. SQLite gives -wal and -shm the mode of the file. A file that
 * is there is not opened: closing it would end the locks that other connections of this process have on it (fcntl(2)).
 * */
static void private_file(const char *path)
{
    struct stat st;
    if (*path == ':')
        return;
    if (lstat(path, &st) == 0) {
        if (S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 0077))
            chmod(path, 0600);
        return;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); /* if this fails, SQLite will say why */
    if (fd >= 0)
        close(fd);
}

/* SQLITE_READONLY where the index of the log is open for reading alone. Nothing is written, nobody is waited for. */
static int writable(sqlite3 *db)
{
    sqlite3_busy_timeout(db, 0);
    int rc = sqlite3_exec(db, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL);
    sqlite3_busy_timeout(db, CACHE_BUSY_MS);
    return (rc & 0xff) == SQLITE_READONLY ? rc : SQLITE_OK;
}

/* SQLITE_OK, SQLITE_NOTADB (damaged: move it aside), SQLITE_AUTH (another program's), SQLITE_MISMATCH (newer), or
 * another SQLite error. */
static int open_once(struct cache *c)
{
    int id = 0, version = 0, tables = 0, rc;
    struct stat st;
    private_file(c->path);
    rc = sqlite3_open_v2(c->path, &c->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL);
    if (rc != SQLITE_OK)
        return rc;
    if (sqlite3_db_readonly(c->db, "main") == 1) /* before it looks at the log */
        return SQLITE_READONLY;
    sqlite3_extended_result_codes(c->db, 1);
    sqlite3_busy_timeout(c->db, CACHE_BUSY_MS);
    if ((rc = cache_pragma(c->db, "PRAGMA application_id", &id)) != SQLITE_OK ||
        (rc = cache_pragma(c->db, "PRAGMA user_version", &version)) != SQLITE_OK ||
        (rc = cache_pragma(c->db, "SELECT count(*) FROM sqlite_schema", &tables)) != SQLITE_OK)
        return rc == SQLITE_ERROR ? SQLITE_NOTADB : rc; /* "unsupported file format": a damaged header */
    if (id != CACHE_APPLICATION_ID && (tables || version || id))
        return SQLITE_AUTH;
    if (version > (int)NMIGRATION)
        return SQLITE_MISMATCH;
    if (!tables && (rc = sqlite3_exec(c->db, "PRAGMA auto_vacuum = INCREMENTAL", NULL, NULL, NULL)) != SQLITE_OK)
        return rc;
    if ((rc = sqlite3_exec(c->db,
                           "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF;"
                           "PRAGMA cell_size_check = ON",
                           NULL, NULL, NULL)) != SQLITE_OK)
        return rc;
    if ((rc = migrate(c->db, version)) != SQLITE_OK || (rc = writable(c->db)) != SQLITE_OK)
        return rc;
    /* a statement on every table: damage in the schema shows now */
    if ((rc = cache_pragma(
             c->db,
             "SELECT (SELECT count(*) FROM (SELECT 1 FROM entry LIMIT 1)) + (SELECT count(*) FROM (SELECT 1 FROM "
             "graph LIMIT 1)) + (SELECT count(*) FROM (SELECT 1 FROM known LIMIT 1)) + (SELECT count(*) FROM counter) "
             "+ "
             "(SELECT count(*) FROM (SELECT 1 FROM footprint LIMIT 1)) + (SELECT count(*) FROM (SELECT 1 FROM trial "
             "LIMIT 1)) + "
             "(SELECT count(*) FROM (SELECT 1 FROM recipe LIMIT 1)) + (SELECT count(*) FROM (SELECT 1 FROM owner LIMIT "
             "1)) + (SELECT count(*) FROM (SELECT 1 FROM reply LIMIT 1)) + (SELECT count(*) FROM (SELECT 1 FROM job "
             "LIMIT "
             "1))",
             &tables)) != SQLITE_OK)
        return rc == SQLITE_ERROR ? SQLITE_NOTADB : rc; /* "no such table": our id, but not our tables */
    if (stat(c->path, &st) == 0) {
        c->dev = st.st_dev;
        c->ino = st.st_ino;
    }
    return SQLITE_OK;
}

static int rename_one(const char *path, const char *suffix, unsigned n, const char *tail)
{
    dt_free_ char *from = NULL, *to = NULL;
    if (asprintf(&from, "%s%s", path, tail) < 0) {
        from = NULL;
        return -1;
    }
    if ((n < 2 ? asprintf(&to, "%s%s%s", path, suffix, tail) : asprintf(&to, "%s%s.%u%s", path, suffix, n, tail)) < 0) {
        to = NULL;
        return -1;
    }
    return rename(from, to);
}

/* False: it is known already. */
static bool moved(struct cache_state *st, const char *to)
{
    struct stat file = {0};
    stat(to, &file);
    pthread_mutex_lock(&st->lock);
    bool known = st->bad_ino == file.st_ino && st->bad_dev == file.st_dev && file.st_ino;
    if (!known) {
        st->bad_ino = file.st_ino;
        st->bad_dev = file.st_dev;
        st->replaced++;
        st->f.damaged_files++;
        free(st->bad);
        st->bad = dt_strdup(to); /* NULL: no memory, and no rows of it are taken over */
    }
    pthread_mutex_unlock(&st->lock);
    return !known;
}

static void aside_name(const struct cache *c, unsigned n, char to[4200])
{
    if (n < 2)
        snprintf(to, 4200, "%s.bad", c->path);
    else
        snprintf(to, 4200, "%s.bad.%u", c->path, n);
}

/* The file that is open is not at its path any more. Did another process, a worker, move it aside? */
static void moved_by_others(struct cache *c)
{
    struct stat st;
    char to[4200];
    for (unsigned n = 1; n < 1000; n++) {
        aside_name(c, n, to);
        if (stat(to, &st) < 0)
            return;
        if (st.st_dev != c->dev || st.st_ino != c->ino)
            continue;
        if (moved(c->state, to))
            cache_state_tell(c->state, true, "cache %s was damaged: it is %s now, and a new one has begun", c->path,
                             to);
        return;
    }
}

static int move_aside(struct cache *c, struct dt_err *e)
{
    for (unsigned n = 1; n < 1000; n++) {
        char to[4200];
        aside_name(c, n, to);
        if (access(to, F_OK) == 0)
            continue;
        if (rename_one(c->path, ".bad", n, "") < 0)
            return dt_err_set(e, DT_E_CACHE, "cache %s is damaged and cannot be moved aside: %s", c->path,
                              strerror(errno));
        rename_one(c->path, ".bad", n, "-wal"); /* may not exist */
        rename_one(c->path, ".bad", n, "-shm");
        moved(c->state, to);
        cache_count_damaged();
        cache_state_tell(c->state, true, "cache %s is damaged: it is %s now, and a new one begins", c->path, to);
        return 0;
    }
    return dt_err_set(e, DT_E_CACHE, "cache %s is damaged, and so were 999 before it: remove them", c->path);
}

/* The lock that orders opening and moving aside between processes; -1 when it cannot be had (a read-only directory). */
static int lock(const char *path)
{
    dt_free_ char *name = NULL;
    if (*path == ':') /* SQLite's ":memory:" */
        return -1;
    if (asprintf(&name, "%s.lock", path) < 0) {
        name = NULL;
        return -1;
    }
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
            ;
    return fd;
}

static int open_locked(struct cache *c, struct dt_err *e)
{
    int r = 0, rc = open_once(c);
    if (cache_db_damaged(rc)) {
        cache_db_close(c);
        if ((r = move_aside(c, e)) < 0)
            return r;
        rc = open_once(c);
    }
    if (rc == SQLITE_OK)
        return 0;
    if (rc == SQLITE_AUTH)
        r = dt_err_set(e, DT_E_CACHE, "cache %s is another program's database; give another file with --cache",
                       c->path);
    else if (rc == SQLITE_MISMATCH)
        r = dt_err_set(e, DT_E_CACHE, "cache %s was made by a newer dovetail; give another file with --cache", c->path);
    else if ((rc & 0xff) == SQLITE_READONLY)
        r = dt_err_set(e, DT_E_CACHE,
                       "cache %s cannot be opened for writing: the file, its folder or disk is read-only", c->path);
    else
        r = db_error(c, "cannot be opened", e);
    cache_db_close(c);
    return r;
}

/* Can only this user, and root, have written what is there? */
static int ours(const struct cache *c, struct dt_err *e)
{
    static const char *const beside[] = {"", "-wal", "-shm", "-journal"};
    for (size_t k = 0; k < sizeof beside / sizeof *beside; k++) {
        dt_free_ char *name = NULL;
        struct stat st;
        if (asprintf(&name, "%s%s", c->path, beside[k]) < 0) {
            name = NULL;
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        }
        if (stat(name, &st) < 0)
            continue;
        if (st.st_uid && st.st_uid != geteuid())
            return dt_err_set(e, DT_E_CACHE,
                              "cache %s belongs to user %u: who writes to it decides what runs here. Give a file of "
                              "your own with --cache",
                              name, (unsigned)st.st_uid);
        if (st.st_mode & (S_IWGRP | S_IWOTH))
            return dt_err_set(e, DT_E_CACHE,
                              "cache %s may be written by others than its owner: who writes to it decides what runs "
                              "here. chmod go-w makes it yours",
                              name);
    }
    return 0;
}

/* A log that is not empty, before anybody opens the file. */
static bool has_log(const struct cache *c)
{
    dt_free_ char *name = NULL;
    struct stat st;
    if (asprintf(&name, "%s-wal", c->path) < 0) {
        name = NULL;
        return false;
    }
    return stat(name, &st) == 0 && st.st_size > 0;
}

/* Without its file a log is worth nothing, and another file must not get it. */
static void drop_log(const struct cache *c)
{
    static const char *const tail[] = {"-wal", "-shm"};
    struct stat st;
    for (size_t k = 0; k < 2 && *c->path != ':' && stat(c->path, &st) < 0 && errno == ENOENT; k++) {
        dt_free_ char *name = NULL;
        if (asprintf(&name, "%s%s", c->path, tail[k]) < 0)
            name = NULL;
        else
            unlink(name);
    }
}

/* The lock is held, or cannot be had. */
static int open_ours(struct cache *c, struct dt_err *e)
{
    struct dt_err why = {0};
    pthread_mutex_lock(&c->state->lock);
    c->seen = c->state->replaced;
    pthread_mutex_unlock(&c->state->lock);
    drop_log(c);
    bool log = has_log(c);
    int r = ours(c, &why);
    if (r == 0)
        r = open_locked(c, &why);
    if (r == 0) {
        cache_db_settings(c);
        pthread_mutex_lock(&c->state->lock);
        c->state->unclean |= log && !c->state->opened; /* later, the log is that of another handle */
        c->state->opened = true;
        pthread_mutex_unlock(&c->state->lock);
    }
    c->retry_us = dt_now_us() + CACHE_RETRY_S * UINT64_C(1000000);
    cache_state_opened(c, r == 0 ? NULL : why.detail ? why.detail : dt_err_text(r));
    if (e)
        dt_err_move(e, &why);
    dt_err_done(&why);
    return r;
}

static int make_folder(struct cache *c, struct dt_err *e)
{
    char *slash = strrchr(c->path, '/');
    if (!slash || slash == c->path)
        return 0;
    *slash = 0;
    int r = dt_mkdirs(c->path, e);
    *slash = '/';
    return r;
}

int cache_db_open(struct cache *c, struct dt_err *e)
{
    int r = make_folder(c, e);
    if (r < 0) {
        c->retry_us = dt_now_us() + CACHE_RETRY_S * UINT64_C(1000000);
        cache_state_opened(c, e && e->detail ? e->detail : "there is no folder for it");
        return r;
    }
    int fd = lock(c->path);
    r = open_ours(c, e);
    if (fd >= 0)
        close(fd);
    return r;
}

static bool same_file(const struct cache *c)
{
    struct stat st;
    return *c->path == ':' || (stat(c->path, &st) == 0 && st.st_dev == c->dev && st.st_ino == c->ino);
}

int cache_db_replace(struct cache *c, struct dt_err *e)
{
    struct dt_err why = {0};
    if (c->reader) /* whoever may write does it */
        return cache_unreadable(c, e);
    int fd = lock(c->path), r = 0;
    bool same = same_file(c);
    cache_db_close(c);
    if (same && *c->path != ':')
        r = move_aside(c, &why);
    if (r == 0)
        r = open_ours(c, &why);
    else
        cache_state_opened(c, why.detail);
    if (fd >= 0)
        close(fd);
    if (e)
        dt_err_move(e, &why);
    dt_err_done(&why);
    return r;
}

static bool replaced(const struct cache *c)
{
    pthread_mutex_lock(&c->state->lock);
    bool other = c->seen != c->state->replaced;
    pthread_mutex_unlock(&c->state->lock);
    return other;
}

bool cache_db_ready(struct cache *c)
{
    if (c->reader) /* it looks by itself (reader.c) */
        return c->db;
    uint64_t now = dt_now_us();
    bool idle = c->db && sqlite3_get_autocommit(c->db) && !sqlite3_next_stmt(c->db, NULL);
    if (idle && !same_file(c)) {
        if (c->keeps)
            moved_by_others(c);
        cache_db_close(c);
        cache_db_open(c, NULL);
    } else if (idle && replaced(c)) { /* by a file that could not be moved after all */
        pthread_mutex_lock(&c->state->lock);
        c->seen = c->state->replaced;
        pthread_mutex_unlock(&c->state->lock);
    }
    if (!c->db && c->hold && now >= c->retry_us)
        cache_db_open(c, NULL);
    return c->db;
}
