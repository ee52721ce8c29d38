/* Readers of the store, and the batch of what came of hits.
 *
 * Two connections: the loop's, which only asks whether the store has changed, and one for pool threads, which read rows
 * one after the other under its lock. Neither ever waits for a writer. They are opened when they are first needed, and
 * again after they failed, at most once in RETRY_MS.
 *
 * A hit writes nothing. What it leaves (use counters, owners, a reply that the store does not have yet) is noted in a
 * batch; FLUSH_MS after the first note a pool thread writes the batch in one transaction. If another writer is at work,
 * the batch waits for the next turn; who lists or exports rows waits for a while, as owners may stand there only. It is
 * bounded: what does not fit is lost, and that costs a count or a rendering.
 */
#include "daemon/service/hits.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/vec.h"
#include "daemon/service/service.h"

#define FLUSH_MS 2000
#define FLUSH_TRIES 50
#define FLUSH_TRY_MS 20
#define RETRY_MS 1000
#define NOTES_MAX 4096
#define LOOK_BACK 64 /* notes that a new one may be added to */

const char *const dtd_hit_names[DTD_HIT_FROMS] = {"memory", "store", "signature"};

struct note {
    int64_t entry;
    char key[DT_SHA256_TEXT], signature[DT_SHA256_TEXT];
    unsigned uid;
    uint64_t hits;
    struct dtd_reply *fresh; /* the store does not have it yet */
};

static const char *const kinds[] = {"plan", "analysis"};
#define KINDS (sizeof kinds / sizeof *kinds)

struct batch {
    struct dt_vec(struct note) note;
    uint64_t hits[KINDS];
    size_t bytes; /* of fresh replies */
};

struct dtd_hits {
    struct dtd_service *s;
    struct cache *loop, *pool;
    uint64_t loop_tried, pool_tried; /* loop time, ms */
    uv_mutex_t pool_lock, lock;      /* of `pool`; of `batch` */
    struct batch batch;
    uv_timer_t timer;
    uv_work_t work;
    bool working, closed;
};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Not while the service itself has the file not open: SQLite keeps one index of the log for a process, and what opens
 * it on a disk that cannot be written would leave it so for those that write later. */
static struct cache *hits_reader(struct dtd_hits *h, struct cache **c, uint64_t *tried)
{
    uint64_t now = uv_hrtime() / 1000000;
    struct cache_figures f = {0};
    if (h->s->cache)
        cache_figures(h->s->cache, &f);
    if (!f.open)
        *c = cache_close(*c);
    if (!*c && f.open && (!*tried || now - *tried >= RETRY_MS)) {
        struct dt_err e = {0};
        *tried = now;
        if (cache_reader(h->s->cache, c, &e) < 0)
            dt_log(DT_LOG_WARN, "%s", e.detail ? e.detail : dt_err_text(e.num));
        dt_err_done(&e);
    }
    return *c;
}

uint64_t dtd_hits_version(struct dtd_hits *h) { return cache_reader_version(hits_reader(h, &h->loop, &h->loop_tried)); }

struct cache *dtd_hits_read(struct dtd_hits *h)
{
    uv_mutex_lock(&h->pool_lock);
    struct cache *c = hits_reader(h, &h->pool, &h->pool_tried);
    return cache_reader_version(c) ? c : NULL; /* opens a new file */
}

void dtd_hits_read_end(struct dtd_hits *h) { uv_mutex_unlock(&h->pool_lock); }

/* ---- the batch --------------------------------------------------------------------------------------------------- */

static void batch_done(struct batch *b)
{
    for (size_t i = 0; i < b->note.n; i++)
        dtd_reply_unref(b->note.p[i].fresh);
    free(b->note.p);
    *b = (struct batch){0};
}

/* 1: it is in the store; 0: not now; negative: it cannot be. */
static int batch_write(struct dtd_hits *h, const struct batch *b, struct dt_err *e)
{
    struct dt_vec(struct cache_count) count = {0};
    struct dt_vec(struct cache_used) used = {0};
    struct dt_vec(struct cache_owned) owned = {0};
    struct dt_vec(struct cache_kept_reply) kept = {0};
    bool ok = true;
    for (size_t k = 0; k < KINDS; k++)
        if (b->hits[k])
            ok &= dt_push(&count, (struct cache_count){kinds[k], b->hits[k]});
    for (size_t i = 0; i < b->note.n; i++) {
        const struct note *n = &b->note.p[i];
        if (n->hits)
            ok &= dt_push(&used, (struct cache_used){n->entry, n->hits});
        if (n->uid != UINT32_MAX)
            ok &= dt_push(&owned, (struct cache_owned){n->signature, n->uid});
        if (*n->key)
            ok &= dt_push(&kept, (struct cache_kept_reply){n->key, n->fresh ? &n->fresh->of : NULL});
    }
    struct cache_hits hits = {count.p, used.p, owned.p, kept.p, count.n, used.n, owned.n, kept.n};
    int64_t max = (int64_t)h->s->cfg.replies_store_mb << 20;
    int r = ok ? cache_hits_put(h->s->cache, &hits, max, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    free(count.p);
    free(used.p);
    free(owned.p);
    free(kept.p);
    return r;
}

/* Back into the batch, in front of what came meanwhile. */
static void batch_back(struct batch *to, struct batch *b)
{
    for (size_t k = 0; k < KINDS; k++)
        to->hits[k] += b->hits[k];
    for (size_t i = 0; i < b->note.n; i++)
        if (to->note.n < NOTES_MAX && dt_push(&to->note, b->note.p[i])) {
            to->bytes += b->note.p[i].fresh ? b->note.p[i].fresh->of.len : 0;
            b->note.p[i].fresh = NULL;
        }
}

static bool batch_empty(const struct batch *b) { return !b->note.n && !b->hits[0] && !b->hits[1]; }

/* False: the store is somebody else's just now. */
static bool hits_flush_once(struct dtd_hits *h)
{
    struct dt_err e = {0};
    uv_mutex_lock(&h->lock);
    struct batch b = h->batch;
    h->batch = (struct batch){0};
    uv_mutex_unlock(&h->lock);
    int r = !h->s->cache || batch_empty(&b) ? 1 : batch_write(h, &b, &e);
    if (r < 0)
        dt_log(DT_LOG_WARN, "hits were not written down: %s", e.detail ? e.detail : dt_err_text(e.num));
    dt_err_done(&e);
    if (!r) {
        uv_mutex_lock(&h->lock);
        batch_back(&h->batch, &b);
        uv_mutex_unlock(&h->lock);
    }
    batch_done(&b);
    return r != 0;
}

void dtd_hits_flush(struct dtd_hits *h)
{
    for (int i = 0; !hits_flush_once(h) && i < FLUSH_TRIES; i++)
        uv_sleep(FLUSH_TRY_MS);
}

static void on_flush(uv_timer_t *t);

/* On the loop's thread. */
static void arm(struct dtd_hits *h)
{
    if (!h->closed && !h->working && !uv_is_active((uv_handle_t *)&h->timer))
        uv_timer_start(&h->timer, on_flush, FLUSH_MS, 0);
}

static void flush_work(uv_work_t *w)
{
    struct dtd_hits *h = w->data;
    uv_mutex_lock(&h->s->cache_lock);
    hits_flush_once(h); /* the timer comes again */
    uv_mutex_unlock(&h->s->cache_lock);
}

static void flush_after(uv_work_t *w, int status)
{
    struct dtd_hits *h = w->data;
    h->working = false;
    uv_mutex_lock(&h->lock);
    bool more = !batch_empty(&h->batch);
    uv_mutex_unlock(&h->lock);
    if (more)
        arm(h);
}

static void on_flush(uv_timer_t *t)
{
    struct dtd_hits *h = t->data;
    h->work.data = h;
    h->working = uv_queue_work(h->s->loop, &h->work, flush_work, flush_after) == 0;
}

static size_t kind_of(const char *want) { return strcmp(want, kinds[1]) ? 0 : 1; }

static struct note *note_of(struct batch *b, const struct dtd_reply *r, unsigned uid)
{
    for (size_t i = b->note.n, end = i > LOOK_BACK ? i - LOOK_BACK : 0; i > end; i--) {
        struct note *n = &b->note.p[i - 1];
        if (n->entry == r->of.entry && n->uid == uid && !strcmp(n->key, r->key))
            return n;
    }
    if (b->note.n >= NOTES_MAX || !dt_push(&b->note, (struct note){.entry = r->of.entry, .uid = uid}))
        return NULL;
    struct note *n = &b->note.p[b->note.n - 1];
    memcpy(n->key, r->key, sizeof n->key);
    memcpy(n->signature, r->of.signature, sizeof n->signature);
    return n;
}

void dtd_hits_note(struct dtd_hits *h, struct dtd_reply *r, const char *want, unsigned uid, bool fresh, bool count)
{
    struct batch *b = &h->batch;
    uv_mutex_lock(&h->lock);
    struct note *n = note_of(b, r, uid);
    b->hits[kind_of(want)] += count;
    if (n)
        n->hits += count;
    if (n && fresh && !n->fresh && b->bytes + r->of.len <= dtd_replies_limit(h->s->replies)) {
        n->fresh = dtd_reply_ref(r);
        b->bytes += r->of.len;
    }
    uv_mutex_unlock(&h->lock);
    arm(h);
}

/* ---- start, end -------------------------------------------------------------------------------------------------- */

struct dtd_hits *dtd_hits_new(struct dtd_service *s)
{
    struct dtd_hits *h = dt_calloc(1, sizeof *h);
    if (!h)
        return NULL;
    if (uv_mutex_init(&h->lock) < 0) {
        free(h);
        return NULL;
    }
    if (uv_mutex_init(&h->pool_lock) < 0) {
        uv_mutex_destroy(&h->lock);
        free(h);
        return NULL;
    }
    h->s = s;
    uv_timer_init(s->loop, &h->timer);
    h->timer.data = h;
    uv_unref((uv_handle_t *)&h->timer);
    return h;
}

void dtd_hits_close(struct dtd_hits *h)
{
    if (h->closed)
        return;
    h->closed = true;
    uv_close((uv_handle_t *)&h->timer, NULL);
}

struct dtd_hits *dtd_hits_free(struct dtd_hits *h)
{
    if (!h)
        return NULL;
    dtd_hits_flush(h);
    batch_done(&h->batch);
    cache_close(h->loop);
    cache_close(h->pool);
    uv_mutex_destroy(&h->lock);
    uv_mutex_destroy(&h->pool_lock);
    free(h);
    return NULL;
}
