/* The keeper: a thread of a service that looks after the file, on a connection of its own.
 *
 * It begins with what the last run left: a log beside the file, when nobody has it open yet, says that the last process
 * was killed. Then the whole file is read through (PRAGMA quick_check), beside the service, which has long begun to
 * answer: on a read-only connection, at the lowest priority, so that nobody waits for it. Until that has come to its
 * end the file carries a note (counter `unclean`), so that a service that is stopped meanwhile begins anew at its next
 * start. A file that is damaged is set aside, here or where the damage was met, and its sound rows are taken over
 * (rescue.c).
 *
 * Then, every two seconds, it compares the size with the bound. Over it, rows go that were used least recently
 * (collect.c), a few at a time with pauses between, until a sixteenth of the bound is free; what that frees is given
 * back to the disk, as little at a time. It lays in a reserve of five megabytes beside the file, which gc releases when
 * the disk is full and not even deleting is possible.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cache-priv.h"

#define EVERY_MS 2000
#define PAUSE_MS 5
#define PAGES 64                  /* that one step gives back */
#define RESERVE_BYTES (5ll << 20) /* the log has 1000 pages before it is written back: that must be possible */
#define RESERVE_FREE (16ll << 20) /* on the disk, or there is no reserve */

struct cache_keeper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_bool stop;
    sqlite3 *check; /* under lock: what is being checked, to interrupt it */
    struct cache own;
    int64_t max_bytes;
};

/* False: it is time to stop. */
static bool rest(struct cache_keeper *k, unsigned ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    pthread_mutex_lock(&k->lock);
    while (!k->stop && pthread_cond_timedwait(&k->wake, &k->lock, &t) == 0)
        ;
    pthread_mutex_unlock(&k->lock);
    return !k->stop;
}

/* ---- the check ------------------------------------------------------------------------------------------------- */

static void checking(struct cache_keeper *k, bool on)
{
    pthread_mutex_lock(&k->own.state->lock);
    k->own.state->f.checking = on;
    pthread_mutex_unlock(&k->own.state->lock);
}

/* Was the file left by a process that was killed, or a check of such a file not ended? */
static bool unchecked(struct cache_keeper *k)
{
    struct cache_state *st = k->own.state;
    pthread_mutex_lock(&st->lock);
    bool left = st->unclean;
    st->unclean = false;
    pthread_mutex_unlock(&st->lock);
    if (left)
        cache_run(&k->own, "INSERT OR REPLACE INTO counter (want, name, n) VALUES ('', 'unclean', 1)", NULL, 0);
    return left || cache_number(&k->own, "SELECT n FROM counter WHERE want = '' AND name = 'unclean'");
}

static void keeper_watch(struct cache_keeper *k, sqlite3 *db)
{
    pthread_mutex_lock(&k->lock);
    k->check = db;
    pthread_mutex_unlock(&k->lock);
}

/* 1 sound, 0 damaged (`words` say how), negative: it cannot be said. */
static int read_through(struct cache_keeper *k, char *words, size_t n)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_open_v2(k->own.path, &db, SQLITE_OPEN_READONLY, NULL), r = -1;
    if (rc == SQLITE_OK) {
        sqlite3_busy_timeout(db, CACHE_BUSY_MS);
        keeper_watch(k, db);
        rc = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &s, NULL);
    }
    if (rc == SQLITE_OK && !k->stop)
        rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        snprintf(words, n, "%s", cache_column(s, 0));
        r = !strcmp(words, "ok");
    } else if (cache_db_damaged(rc)) {
        snprintf(words, n, "%s", sqlite3_errstr(rc));
        r = 0;
    }
    sqlite3_finalize(s);
    keeper_watch(k, NULL);
    sqlite3_close(db);
    return r;
}

/* True: done, or not needed. */
static bool check(struct cache_keeper *k)
{
    char words[256] = "";
    if (!unchecked(k))
        return true;
    checking(k, true);
    int r = read_through(k, words, sizeof words);
    if (r == 0) {
        cache_state_tell(k->own.state, true, "cache %s, which was not closed, is damaged: %s", k->own.path, words);
        cache_db_replace(&k->own, NULL);
    } else if (r == 1) {
        cache_run(&k->own, "DELETE FROM counter WHERE want = '' AND name = 'unclean'", NULL, 0);
        cache_state_tell(k->own.state, false, "cache %s, which was not closed, was checked and is sound", k->own.path);
    }
    checking(k, false);
    return r >= 0;
}

static void rescue(struct cache_keeper *k)
{
    struct cache_state *st = k->own.state;
    pthread_mutex_lock(&st->lock);
    dt_free_ char *bad = st->bad;
    st->bad = NULL;
    pthread_mutex_unlock(&st->lock);
    if (!bad)
        return;
    uint64_t n = cache_rescue(&k->own, bad, &k->stop);
    pthread_mutex_lock(&st->lock);
    st->f.saved_rows += n;
    pthread_mutex_unlock(&st->lock);
    cache_state_tell(st, false, "cache %s: %llu sound rows were taken over from %s", k->own.path, (unsigned long long)n,
                     bad);
}

/* ---- the bound ------------------------------------------------------------------------------------------------- */

static void size(struct cache_keeper *k, int64_t bytes, bool evicted)
{
    struct cache_figures *f = &k->own.state->f;
    pthread_mutex_lock(&k->own.state->lock);
    f->bytes = bytes > 0 ? bytes : 0;
    f->max_bytes = k->max_bytes;
    f->evicted += evicted;
    pthread_mutex_unlock(&k->own.state->lock);
}

static void keeper_bound(struct cache_keeper *k)
{
    int64_t bytes = cache_used_bytes(&k->own), most = k->max_bytes;
    size(k, bytes, false);
    while (most && bytes > most && !k->stop) {
        most = k->max_bytes / 16 * 15;
        if (cache_evict(&k->own) != 1)
            break;
        cache_give_back(&k->own, PAGES);
        bytes = cache_used_bytes(&k->own);
        size(k, bytes, true);
        if (!rest(k, PAUSE_MS))
            break;
    }
}

static void reserve(struct cache_keeper *k)
{
    dt_free_ char *name = NULL;
    struct statvfs v;
    if (asprintf(&name, "%s" CACHE_RESERVE, k->own.path) < 0) {
        name = NULL;
        return;
    }
    if (access(name, F_OK) == 0 || statvfs(k->own.path, &v) < 0 ||
        (long long)v.f_bavail * (long long)v.f_frsize < RESERVE_FREE)
        return;
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        bool whole = posix_fallocate(fd, 0, RESERVE_BYTES) == 0;
        close(fd);
        if (!whole)
            unlink(name);
    }
}

/* Can it be written again? Hits write rarely: without this nobody might find out for long. */
static void keeper_probe(struct cache_keeper *k)
{
    pthread_mutex_lock(&k->own.state->lock);
    bool writable = k->own.state->f.writable;
    pthread_mutex_unlock(&k->own.state->lock);
    if (!writable)
        cache_run(&k->own, "INSERT OR REPLACE INTO counter (want, name, n) VALUES ('', 'probe', 1)", NULL, 0);
}

/* ---- the thread ------------------------------------------------------------------------------------------------ */

static void *keep(void *arg)
{
    struct cache_keeper *k = arg;
    bool checked = false;
    setpriority(PRIO_PROCESS, 0, 19); /* of this thread alone */
    do {
        if (!cache_db_ready(&k->own))
            continue;
        checked = checked || check(k);
        rescue(k);
        reserve(k);
        keeper_probe(k);
        keeper_bound(k);
    } while (rest(k, EVERY_MS));
    return NULL;
}

int cache_keep(struct cache *c, int64_t max_bytes, struct dt_err *e)
{
    struct cache_keeper *k = dt_calloc(1, sizeof *k);
    pthread_condattr_t attr;
    sigset_t all, old;
    if (!k || !(k->own.path = dt_strdup(c->path))) {
        free(k);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    k->own.state = c->state;
    k->own.hold = true;
    k->own.keeps = true;
    k->max_bytes = max_bytes > 0 ? max_bytes : 0;
    pthread_mutex_init(&k->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&k->wake, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the program's, not this thread's */
    int r = pthread_create(&k->thread, NULL, keep, k);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (r) {
        free(k->own.path);
        free(k);
        return dt_err_set(e, DT_E_NOMEM, "no thread for the cache: %s", strerror(r));
    }
    c->keeper = k;
    return 0;
}

struct cache_keeper *cache_keeper_stop(struct cache_keeper *k)
{
    if (!k)
        return NULL;
    pthread_mutex_lock(&k->lock);
    k->stop = true;
    if (k->check)
        sqlite3_interrupt(k->check);
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    cache_db_close(&k->own);
    pthread_cond_destroy(&k->wake);
    pthread_mutex_destroy(&k->lock);
    free(k->own.path);
    free(k);
    return NULL;
}
