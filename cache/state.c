/* How the store fares: what is counted, what is told.
 *
 * A program that holds the store open has two handles of it, its own and the keeper's (keeper.c); both write down here
 * what they meet: a file that cannot be opened, writes that fail, damaged rows and files. A change for the better or
 * the worse is told once, to whoever asked for it (cache_told); the library itself logs nothing. A store that is busy
 * is not a store that cannot be written: such a write counts as failed, and nothing is told.
 *
 * Not here: what is done about it (database.c, keeper.c).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cache-priv.h"

#define CALM_US 3000000 /* on a full disk small writes come through between large ones: not yet the end of it */

struct cache_state *cache_state_new(void)
{
    struct cache_state *st = dt_calloc(1, sizeof *st);
    if (st && pthread_mutex_init(&st->lock, NULL)) {
        free(st);
        return NULL;
    }
    if (st)
        st->f.writable = true;
    return st;
}

struct cache_state *cache_state_free(struct cache_state *st)
{
    if (st) {
        pthread_mutex_destroy(&st->lock);
        free(st->bad);
        free(st);
    }
    return NULL;
}

void cache_told(struct cache *c, cache_tell *tell, void *user)
{
    pthread_mutex_lock(&c->state->lock);
    c->state->tell = tell;
    c->state->user = user;
    pthread_mutex_unlock(&c->state->lock);
}

void cache_state_tell(struct cache_state *st, bool bad, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&st->lock);
    cache_tell *tell = st->tell;
    void *user = st->user;
    pthread_mutex_unlock(&st->lock);
    if (tell)
        tell(user, bad, text);
}

/* Under the lock. */
static void trouble(struct cache_state *st, const char *why)
{
    snprintf(st->f.trouble, sizeof st->f.trouble, "%s", why);
}

void cache_state_opened(struct cache *c, const char *why)
{
    struct cache_state *st = c->state;
    pthread_mutex_lock(&st->lock);
    bool was = st->f.open, before = *st->f.trouble;
    st->f.open = !why;
    if (why || !was) {
        trouble(st, why ? why : "");
        st->f.writable = true; /* as far as is known */
    }
    pthread_mutex_unlock(&st->lock);
    if (why && (was || !before))
        cache_state_tell(st, true, "working without a cache: %s", why);
    else if (!why && !was && before)
        cache_state_tell(st, false, "cache %s is open again", c->path);
}

void cache_state_wrote(struct cache *c, int rc)
{
    struct cache_state *st = c->state;
    bool turned = false;
    if (c->reader)
        return;
    char text[sizeof st->f.trouble];
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_FULL:
    case SQLITE_READONLY:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM: turned = true; break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_NOMEM: break;
    default: /* the statement's fault, or damage, which has its own way */
        if (!cache_db_damaged(rc))
            cache_count_unwritten();
        return;
    }
    pthread_mutex_lock(&st->lock);
    uint64_t now = dt_now_us();
    st->f.failed_writes += rc != SQLITE_OK;
    if (rc != SQLITE_OK)
        cache_count_unwritten();
    turned = turned && c->db && st->f.open && st->f.writable != (rc == SQLITE_OK) &&
             (rc != SQLITE_OK || now - st->failed_us > CALM_US);
    if (rc != SQLITE_OK)
        st->failed_us = now;
    if (turned) {
        st->f.writable = rc == SQLITE_OK;
        snprintf(text, sizeof text, "%s", rc == SQLITE_OK ? "" : sqlite3_errstr(rc));
        trouble(st, text);
    }
    pthread_mutex_unlock(&st->lock);
    if (turned && rc == SQLITE_OK)
        cache_state_tell(st, false, "cache %s can be written again", c->path);
    else if (turned)
        cache_state_tell(st, true, "cache %s cannot be written: %s. What it has is served, what is new is not kept",
                         c->path, text);
}

void cache_state_damaged(struct cache *c, const char *table, const char *key)
{
    pthread_mutex_lock(&c->state->lock);
    c->state->f.damaged_rows++;
    cache_count_damaged();
    pthread_mutex_unlock(&c->state->lock);
    cache_state_tell(c->state, true, "cache %s: row %.80s of table %s is damaged, and was set aside", c->path, key,
                     table);
}

void cache_figures(struct cache *c, struct cache_figures *ret)
{
    pthread_mutex_lock(&c->state->lock);
    *ret = c->state->f;
    pthread_mutex_unlock(&c->state->lock);
}

json_t *cache_figures_json(struct cache *c)
{
    struct cache_figures f;
    cache_figures(c, &f);
    return json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "state",
                     !f.open      ? "absent"
                     : f.writable ? "ok"
                                  : "degraded",
                     "trouble", f.trouble, "checking", f.checking, "bytes", (json_int_t)f.bytes, "max_bytes",
                     (json_int_t)f.max_bytes, "damaged_rows", (json_int_t)f.damaged_rows, "damaged_files",
                     (json_int_t)f.damaged_files, "saved_rows", (json_int_t)f.saved_rows, "failed_writes",
                     (json_int_t)f.failed_writes, "evicted", (json_int_t)f.evicted);
}
