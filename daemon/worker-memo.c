/* Footprints of launches that this worker has found or read: in memory, and behind that in the cache's file.
 *
 * analysis/ asks for a key and gets bytes, from memory or from the file, whoever of all workers put them there; what it finds out it puts, and that
 * is written to the file in one transaction when the analysis is over. Memory is bounded, the least recently used goes first. Trouble with the file
 * is a miss: it is logged once and the work is done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/vec.h"
#include "daemon/worker.h"

#define MEMORY_BYTES (UINT64_C(64) << 20)
#define FILE_BYTES (INT64_C(256) << 20)
#define BUCKETS 1024 /* a power of two */

struct kept {
    struct kept *next;
    char key[DT_SHA256_TEXT];
    uint8_t *p;
    size_t n;
    uint64_t used;
    bool fresh; /* not yet in the file */
};

struct wrk_memo {
    struct ana_memo calls;
    struct wrk *w;
    struct kept *bucket[BUCKETS];
    uint64_t bytes, tick;
    bool warned;
};

static void warn(struct wrk_memo *m, struct dt_err *e)
{
    if (!m->warned)
        dt_log(DT_LOG_WARN, "footprints are not kept: %s", e->detail ? e->detail : dt_err_text(e->num));
    m->warned = true;
    dt_err_done(e);
}

static struct kept **place(struct wrk_memo *m, const char *key)
{
    uint32_t h = 2166136261u;
    for (const char *s = key; *s; s++)
        h = (h ^ (uint8_t)*s) * 16777619u;
    struct kept **at = &m->bucket[h & (BUCKETS - 1)];
    while (*at && strcmp((*at)->key, key))
        at = &(*at)->next;
    return at;
}

static void drop(struct wrk_memo *m, struct kept **at)
{
    struct kept *k = *at;
    *at = k->next;
    m->bytes -= k->n;
    free(k->p);
    free(k);
}

/* Room for n more bytes: what was used longest ago goes, a quarter of the memory at a time. */
static void make_room(struct wrk_memo *m, size_t n)
{
    while (m->bytes + n > MEMORY_BYTES && m->bytes) {
        uint64_t oldest = m->tick, newest = 0;
        for (unsigned b = 0; b < BUCKETS; b++)
            for (const struct kept *k = m->bucket[b]; k; k = k->next) {
                oldest = k->used < oldest ? k->used : oldest;
                newest = k->used > newest ? k->used : newest;
            }
        for (unsigned b = 0; b < BUCKETS; b++)
            for (struct kept **at = &m->bucket[b]; *at;) {
                if ((*at)->used <= oldest + (newest - oldest) / 4)
                    drop(m, at);
                else
                    at = &(*at)->next;
            }
    }
}

static struct kept *add(struct wrk_memo *m, const char *key, const void *p, size_t n, bool fresh)
{
    struct kept **at = place(m, key), *k;
    if (*at)
        drop(m, at);
    if (n > MEMORY_BYTES / 4 || strlen(key) >= sizeof k->key)
        return NULL;
    make_room(m, n);
    at = place(m, key);
    k = dt_calloc(1, sizeof *k);
    if (!k || !(k->p = dt_memdup(p, n))) {
        free(k);
        return NULL;
    }
    snprintf(k->key, sizeof k->key, "%s", key);
    k->n = n;
    k->used = ++m->tick;
    k->fresh = fresh;
    m->bytes += n;
    return *at = k;
}

static int get(void *user, const char *key, void **ret, size_t *ret_len)
{
    struct wrk_memo *m = user;
    struct kept *k = *place(m, key);
    struct dt_err e = {0};
    if (!k && m->w->cache) {
        void *p;
        size_t n;
        int r = cache_footprint_get(m->w->cache, key, &p, &n, &e);
        if (r < 0)
            warn(m, &e);
        if (r != 1)
            return 0;
        add(m, key, p, n, false);
        *ret = p;
        *ret_len = n;
        return 1;
    }
    if (!k || !(*ret = dt_memdup(k->p, k->n)))
        return 0;
    k->used = ++m->tick;
    *ret_len = k->n;
    return 1;
}

static void put(void *user, const char *key, const void *p, size_t n) { add(user, key, p, n, true); }

const struct ana_memo *wrk_memo(struct wrk *w)
{
    if (!w->memo && (w->memo = dt_calloc(1, sizeof *w->memo))) {
        w->memo->w = w;
        w->memo->calls = (struct ana_memo){get, put, w->memo};
    }
    return w->memo ? &w->memo->calls : NULL;
}

void wrk_memo_flush(struct wrk *w)
{
    struct wrk_memo *m = w->memo;
    struct dt_vec(struct cache_footprint) v = {0};
    struct dt_err e = {0};
    for (unsigned b = 0; m && m->w->cache && b < BUCKETS; b++)
        for (struct kept *k = m->bucket[b]; k; k = k->next)
            if (k->fresh && dt_push(&v, (struct cache_footprint){k->key, k->p, k->n}))
                k->fresh = false; /* one try */
    if (v.n && cache_footprints_put(w->cache, v.p, v.n, FILE_BYTES, &e) < 0)
        warn(m, &e);
    free(v.p);
}

void wrk_memo_done(struct wrk *w)
{
    for (unsigned b = 0; w->memo && b < BUCKETS; b++)
        while (w->memo->bucket[b])
            drop(w->memo, &w->memo->bucket[b]);
    free(w->memo);
    w->memo = NULL;
}
