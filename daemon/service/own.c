/* Owners of entries: the users who posted a graph of a signature (table `owner` of the cache). Exports are filtered by
 * them.
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
#include "daemon/service/service.h"

struct finish {
    struct dtd_async a; /* first */
    char id[40], cache[8], signature[DT_SHA256_TEXT], digest[DT_SHA256_TEXT];
    char *document;
    size_t len;
    struct dt_vec(unsigned) uid;
};

static void own_work(struct dtd_async *a)
{
    struct finish *f = (struct finish *)a;
    uv_mutex_lock(&a->s->cache_lock);
    for (size_t i = 0; i < f->uid.n; i++)
        cache_own(a->s->cache, f->signature, f->uid.p[i]);
    uv_mutex_unlock(&a->s->cache_lock);
}

static void own_release(struct dtd_async *a)
{
    struct finish *f = (struct finish *)a;
    free(f->document);
    free(f->uid.p);
    free(f);
}

static void own_after(struct dtd_async *a)
{
    struct finish *f = (struct finish *)a;
    struct dtd_job *j = dtd_jobs_find(&a->s->jobs, f->id);
    if (!j || dtd_state_final(j->state)) /* cancelled meanwhile */
        return;
    char *document = f->document;
    f->document = NULL;
    dtd_finish(a->s, j, f->cache, f->signature, f->digest, document, f->len);
}

void dtd_finish(struct dtd_service *s, struct dtd_job *j, const char *cache, const char *signature, const char *digest,
                char *document, size_t len)
{
    struct finish *f = *signature ? dt_calloc(1, sizeof *f) : NULL;
    for (size_t i = 0; f && i < j->owner.n; i++)
        if (j->owner.p[i].posted && !j->owner.p[i].written)
            j->owner.p[i].written = dt_push(&f->uid, j->owner.p[i].uid);
    if (!f || !f->uid.n) {
        if (f)
            own_release(&f->a);
        dt_log(DT_LOG_INFO, "job %s: done, cache %s", j->id, cache);
        dtd_job_finish(&s->jobs, j, cache, signature, digest, document, len);
        return;
    }
    f->a = (struct dtd_async){.s = s, .work = own_work, .after = own_after, .release = own_release};
    snprintf(f->id, sizeof f->id, "%s", j->id);
    snprintf(f->cache, sizeof f->cache, "%s", cache);
    snprintf(f->signature, sizeof f->signature, "%s", signature);
    snprintf(f->digest, sizeof f->digest, "%s", digest);
    f->document = document;
    f->len = len;
    dtd_async_start(&f->a);
}
