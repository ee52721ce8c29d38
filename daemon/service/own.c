/* What is written down when a job is done: owners of entries (the users who posted a graph of a signature, table
 * `owner` of the cache, by which exports are filtered), and the finished reply to what was posted.
 *
 * A finished job is reported as done only after its posters are written down, which happens on a pool thread: an export
 * that follows then sees them. A user who joins the job in the meantime is written in another turn. The job may be
 * cancelled while this goes on. Hits are written where they are found (api-post.c). Trouble with the cache costs the
 * row in the table, never the job. A stored graph that is planned again (api-reprofile.c) gets no new owner.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cache/cache.h"
#include "daemon/service/hits.h"
#include "daemon/service/service.h"

struct finish {
    struct dtd_async a; /* first */
    char want[16], generation[DT_SHA256_TEXT];
    struct dtd_keep *keep; /* NULL: no reply is kept */
    char device[192], toolchain[256];
    uint64_t version;
    struct dtd_reply *reply;
    char id[40], cache[8], signature[DT_SHA256_TEXT], digest[DT_SHA256_TEXT];
    char *document;
    size_t len;
    struct dt_vec(unsigned) uid;
};

/* The reply, if the store has the row that the document is of. */
static void own_reply(struct finish *f)
{
    struct dtd_service *s = f->a.s;
    struct cache_key k = {f->want, f->signature, f->device, f->toolchain, f->keep->policy};
    struct cache_reply of = {.len = f->len};
    struct cache *c = dtd_hits_read(s->hits);
    int found = c && cache_row_find(c, &k, &of.entry, of.generation) && !strcmp(of.generation, f->generation);
    dtd_hits_read_end(s->hits);
    if (!found || !(of.body = dt_memdup(f->document, f->len + 1)))
        return;
    memcpy(of.signature, f->signature, sizeof of.signature);
    memcpy(of.digest, f->digest, sizeof of.digest);
    f->reply = dtd_reply_new(f->keep->key, DTD_REPLY_TYPE, &of);
}

static void own_work(struct dtd_async *a)
{
    struct finish *f = (struct finish *)a;
    if (f->keep)
        own_reply(f);
    if (!f->uid.n)
        return;
    uv_mutex_lock(&a->s->cache_lock);
    for (size_t i = 0; i < f->uid.n; i++)
        cache_own(a->s->cache, f->signature, f->uid.p[i]);
    uv_mutex_unlock(&a->s->cache_lock);
}

static void own_release(struct dtd_async *a)
{
    struct finish *f = (struct finish *)a;
    dtd_reply_unref(f->reply);
    free(f->keep);
    free(f->document);
    free(f->uid.p);
    free(f);
}

static void own_after(struct dtd_async *a)
{
    struct finish *f = (struct finish *)a;
    struct dtd_job *j = dtd_jobs_find(&a->s->jobs, f->id);
    if (f->reply) {
        dtd_replies_put(a->s->replies, f->reply, f->version);
        dtd_hits_note(a->s->hits, f->reply, f->want, UINT32_MAX, true, false);
    }
    if (!j || dtd_state_final(j->state)) /* cancelled meanwhile */
        return;
    char *document = f->document;
    f->document = NULL;
    dtd_finish(a->s, j, f->cache, f->signature, f->digest, "", document, f->len);
}

/* Is the device still what it was when the job was posted? Then its document may answer the same post again. */
static void own_keep(struct dtd_service *s, struct finish *f, struct dtd_job *j, const char *generation)
{
    const struct dtd_device *d = dtd_pool_device(s->pool, j->device);
    char now[DT_SHA256_TEXT];
    if (!j->keep || !*generation || !d || dtd_device_key(d, now) < 0 || strcmp(now, j->keep->device) ||
        f->len > dtd_replies_limit(s->replies))
        return;
    f->keep = j->keep;
    j->keep = NULL;
    f->version = dtd_hits_version(s->hits);
    snprintf(f->want, sizeof f->want, "%s", j->want);
    snprintf(f->generation, sizeof f->generation, "%s", generation);
    snprintf(f->device, sizeof f->device, "%s", d->key);
    snprintf(f->toolchain, sizeof f->toolchain, "%s", d->toolchain);
}

void dtd_finish(struct dtd_service *s, struct dtd_job *j, const char *cache, const char *signature, const char *digest,
                const char *generation, char *document, size_t len)
{
    struct finish *f = *signature ? dt_calloc(1, sizeof *f) : NULL;
    for (size_t i = 0; f && i < j->owner.n; i++)
        if (j->owner.p[i].posted && !j->owner.p[i].written)
            j->owner.p[i].written = dt_push(&f->uid, j->owner.p[i].uid);
    if (f) {
        f->len = len;
        own_keep(s, f, j, generation);
    }
    if (!f || (!f->uid.n && !f->keep)) {
        if (f)
            own_release(&f->a);
        dtd_log_job(DT_LOG_INFO, j, digest, "done, cache %s", cache);
        dtd_job_finish(&s->jobs, j, cache, signature, digest, document, len);
        return;
    }
    f->a = (struct dtd_async){.s = s, .work = own_work, .after = own_after, .release = own_release};
    snprintf(f->id, sizeof f->id, "%s", j->id);
    snprintf(f->cache, sizeof f->cache, "%s", cache);
    snprintf(f->signature, sizeof f->signature, "%s", signature);
    snprintf(f->digest, sizeof f->digest, "%s", digest);
    f->document = document;
    dtd_async_start(&f->a);
}
