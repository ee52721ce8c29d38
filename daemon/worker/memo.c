/* Footprints of launches and trials of rewrites that this worker has found or read, in memory and in the cache's file.
 *
 * analysis/ and rewrite/ ask for a key and get bytes: from memory, or from the file, where other workers may have put
 * them. What they find out is written to the file in one transaction, when the analysis or the planning is over. Memory
 * is bounded: the least recently used entries go first. Measurements, of a real device only, are also asked for in the
 * cluster, and those that were made here are sent there (share.c). Trouble with the file is logged once and counts as a
 * miss.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/vec.h"
#include "daemon/worker/worker.h"
#include "rewrite/rewrite.h"

#define MEMORY_BYTES (UINT64_C(64) << 20)
#define FILE_BYTES (INT64_C(256) << 20) /* of each kind */
#define BAD 20                          /* entries that the log tells of, for what they are */
#define BUCKETS 1024                    /* a power of two */

struct kept {
    struct kept *next;
    enum cache_kept kind;
    char key[DT_SHA256_TEXT];
    uint8_t *p;
    size_t n;
    uint64_t used;
    bool fresh;  /* not yet in the file */
    bool theirs; /* another machine measured it: it is not sent */
};

struct wrk_memo {
    struct view { /* what the callers of one kind see */
        struct ana_memo calls;
        struct wrk_memo *m;
        enum cache_kept kind;
    } view[CACHE_KEPT];
    struct wrk *w;
    struct kept *bucket[BUCKETS];
    uint64_t bytes, tick;
    bool warned;
    unsigned bad; /* entries that were not used */
};

static void warn(struct wrk_memo *m, struct dt_err *e)
{
    if (!m->warned)
        dt_log(DT_LOG_WARN, "what was found out is not kept: %s", e->detail ? e->detail : dt_err_text(e->num));
    m->warned = true;
    dt_err_done(e);
}

static struct kept **memo_place(struct wrk_memo *m, enum cache_kept kind, const char *key)
{
    uint32_t h = 2166136261u;
    for (const char *s = key; *s; s++)
        h = (h ^ (uint8_t)*s) * 16777619u;
    struct kept **at = &m->bucket[h & (BUCKETS - 1)];
    while (*at && ((*at)->kind != kind || strcmp((*at)->key, key)))
        at = &(*at)->next;
    return at;
}

static void memo_drop(struct wrk_memo *m, struct kept **at)
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
                    memo_drop(m, at);
                else
                    at = &(*at)->next;
            }
    }
}

static struct kept *memo_add(struct wrk_memo *m, enum cache_kept kind, const char *key, const void *p, size_t n,
                             bool fresh)
{
    struct kept **at = memo_place(m, kind, key), *k;
    if (*at)
        memo_drop(m, at);
    if (n > MEMORY_BYTES / 4 || strlen(key) >= sizeof k->key)
        return NULL;
    make_room(m, n);
    at = memo_place(m, kind, key);
    k = dt_calloc(1, sizeof *k);
    if (!k || !(k->p = dt_memdup(p, n))) {
        free(k);
        return NULL;
    }
    k->kind = kind;
    snprintf(k->key, sizeof k->key, "%s", key);
    k->n = n;
    k->used = ++m->tick;
    k->fresh = fresh;
    m->bytes += n;
    return *at = k;
}

static void memo_bad(void *user, const char *key, const char *why)
{
    const struct view *v = user;
    if (v->m->bad++ < BAD)
        dt_log(DT_LOG_WARN, "kept %s %.23s is not used: %s%s", v->kind == CACHE_TRIALS ? "trial" : "footprint", key,
               why, v->m->bad == BAD ? "; no more of these are told" : "");
}

static int memo_get(void *user, const char *key, void **ret, size_t *ret_len)
{
    const struct view *v = user;
    struct wrk_memo *m = v->m;
    struct kept *k = *memo_place(m, v->kind, key);
    struct dt_err e = {0};
    if (!k && m->w->cache) {
        void *p;
        size_t n;
        int r = cache_kept_get(m->w->cache, v->kind, key, &p, &n, &e);
        if (r < 0)
            warn(m, &e);
        else if (r == 0 && e.detail)
            memo_bad(user, key, e.detail);
        dt_err_done(&e);
        if (r != 1)
            return 0;
        memo_add(m, v->kind, key, p, n, false);
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

static bool is_measured(const void *p, size_t n)
{
    return n >= sizeof RW_TIMES_HEAD - 1 && !memcmp(p, RW_TIMES_HEAD, sizeof RW_TIMES_HEAD - 1);
}

/* From the cluster; it is kept here as well. */
static int memo_far(void *user, const char *key, void **ret, size_t *ret_len)
{
    const struct view *v = user;
    void *p;
    size_t n;
    if (!wrk_share_times(v->m->w, key, &p, &n))
        return 0;
    struct kept *k = is_measured(p, n) ? memo_add(v->m, v->kind, key, p, n, true) : NULL;
    if (!k) {
        free(p);
        return 0;
    }
    k->theirs = true;
    *ret = p;
    *ret_len = n;
    return 1;
}

static void memo_put(void *user, const char *key, const void *p, size_t n)
{
    const struct view *v = user;
    memo_add(v->m, v->kind, key, p, n, true);
}

const struct ana_memo *wrk_memo(struct wrk *w, enum cache_kept kind)
{
    if (!w->memo && (w->memo = dt_calloc(1, sizeof *w->memo))) {
        w->memo->w = w;
        for (enum cache_kept k = 0; k < CACHE_KEPT; k++)
            w->memo->view[k] = (struct view){
                {memo_get, memo_put, &w->memo->view[k], memo_bad, k == CACHE_TRIALS ? memo_far : NULL}, w->memo, k};
    }
    return w->memo ? &w->memo->view[kind].calls : NULL;
}

static void memo_flush(struct wrk *w, enum cache_kept kind)
{
    struct wrk_memo *m = w->memo;
    struct dt_vec(struct cache_bytes) v = {0}, out = {0};
    struct dt_err e = {0};
    for (unsigned b = 0; m && m->w->cache && b < BUCKETS; b++)
        for (struct kept *k = m->bucket[b]; k; k = k->next)
            if (k->fresh && k->kind == kind && dt_push(&v, (struct cache_bytes){k->key, k->p, k->n})) {
                k->fresh = false; /* one try */
                if (!k->theirs && is_measured(k->p, k->n))
                    dt_push(&out, (struct cache_bytes){k->key, k->p, k->n});
            }
    if (v.n && cache_kept_put(w->cache, kind, v.p, v.n, FILE_BYTES, &e) < 0)
        warn(m, &e);
    if (out.n)
        wrk_share_timed(w, out.p, out.n);
    free(out.p);
    free(v.p);
}

void wrk_memo_flush(struct wrk *w)
{
    if (dt_alloc_failed()) /* what could not be tried may stand there as refused */
        return;
    for (enum cache_kept k = 0; k < CACHE_KEPT; k++)
        memo_flush(w, k);
}

void wrk_memo_done(struct wrk *w)
{
    for (unsigned b = 0; w->memo && b < BUCKETS; b++)
        while (w->memo->bucket[b])
            memo_drop(w->memo, &w->memo->bucket[b]);
    free(w->memo);
    w->memo = NULL;
}
