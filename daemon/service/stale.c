/* A graph whose entry is of an older toolchain (daemon/shared/stale.c) was served; here it is remembered, and planned
 * again with the options of the post while no other job waits or runs. The next post finds the new entry, or the old
 * one again until then. When somebody posts meanwhile, the job is cancelled at once, and made again later; it goes on
 * if the post was of the same graph. It has a worker of its own where that can be (pool.c), so that the post meets one
 * that is warm. So however many entries an upgrade made stale, nobody's job waits for that.
 *
 * Each is planned once in the life of the service, as far as a table of a few hundred remembers: a graph that cannot
 * be planned any more would otherwise be planned at every post. Some wait at a time; others are taken on by a later
 * post, or by the night (night.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/service/journal.h"
#include "daemon/service/service.h"

#define REMEMBERED 256
#define WAITING 64
#define WAITING_BYTES (64u << 20)
#define EVERY_MS 100

struct again { /* owns all of it */
    unsigned uid;
    char share[72], want[16], device[80], digest[DT_SHA256_TEXT], graph[64];
    double timeout;
    char *request;
    size_t len;
    struct dtd_keep *keep;
};

static char tried[REMEMBERED][DT_SHA256_TEXT];
static unsigned next_place;

static struct {
    struct dtd_service *s;
    uv_timer_t *timer; /* while something waits or runs */
    struct again waiting[WAITING];
    unsigned n;
    size_t bytes;
    char job[40]; /* of waiting[0]; "": none */
} stale;

static bool was_tried(const char *share)
{
    for (unsigned i = 0; i < REMEMBERED; i++)
        if (!strcmp(tried[i], share))
            return true;
    return false;
}

static void again_drop(unsigned i)
{
    struct again *g = &stale.waiting[i];
    stale.bytes -= g->len;
    free(g->request);
    free(g->keep);
    memmove(g, g + 1, (--stale.n - i) * sizeof *g);
}

/* Jobs but this one. */
static bool stale_others(const struct dtd_job *mine)
{
    for (const struct dtd_job *j = stale.s->jobs.active; j; j = j->anext)
        if (j != mine)
            return true;
    return false;
}

static void again_post(void)
{
    struct again *g = &stale.waiting[0];
    struct dtd_service *s = stale.s;
    struct dtd_job *j = NULL;
    struct dt_err full = {0};
    char *request = dt_malloc(g->len + 1);
    if (!request)
        return;
    memcpy(request, g->request, g->len + 1);
    struct dtd_post post = {g->uid, true, g->share, g->want, g->device, g->timeout, request, g->len, true};
    int r = dtd_jobs_post(&s->jobs, &post, &j, &full);
    dt_err_done(&full);
    if (r < 0)
        return;
    snprintf(stale.job, sizeof stale.job, "%s", j->id);
    snprintf(j->graph, sizeof j->graph, "%s", g->graph);
    j->keep = g->keep;
    g->keep = NULL;
    dtd_journal_put(s->journal, j);
    dtd_log_job(DT_LOG_INFO, j, g->digest, "%s on %s: what is stored is of an older toolchain", j->want, j->device);
    dtd_pool_kick(s->pool);
}

static void stale_closed(uv_handle_t *h) { free(h); }

static void stale_end(void)
{
    while (stale.n)
        again_drop(stale.n - 1);
    stale.job[0] = 0;
    if (stale.timer)
        uv_close((uv_handle_t *)stale.timer, stale_closed);
    stale.timer = NULL;
}

static void stale_turn(uv_timer_t *t)
{
    struct dtd_service *s = stale.s;
    struct dtd_job *j = *stale.job ? dtd_jobs_find(&s->jobs, stale.job) : NULL;
    if (*stale.job && (!j || dtd_state_final(j->state))) {
        stale.job[0] = 0;
        again_drop(0);
    } else if (j && j->posts <= 1 && stale_others(j)) {
        stale.job[0] = 0;
        stale.waiting[0].keep = j->keep;
        j->keep = NULL;
        dtd_pool_cancel(s->pool, j);
        dtd_job_cancel(&s->jobs, j, "another job came, and planning again gave way to it");
        dtd_pool_kick(s->pool);
    }
    if (!stale.n)
        stale_end();
    else if (!*stale.job && !stale_others(NULL))
        again_post();
}

/* The timer that looks whether there is time. */
static bool stale_begin(struct dtd_service *s)
{
    stale.s = s;
    if (stale.timer)
        return true;
    stale.timer = dt_malloc(sizeof *stale.timer);
    if (!stale.timer)
        return false;
    uv_timer_init(s->loop, stale.timer);
    uv_timer_start(stale.timer, stale_turn, 0, EVERY_MS);
    return true;
}

void dtd_requeue(struct dtd_service *s, const struct dtd_post *p, const char *digest, const char *graph,
                 struct dtd_keep *keep)
{
    bool room = stale.n < WAITING && (!stale.n || stale.bytes + p->len <= WAITING_BYTES);
    if (s->draining || !room || was_tried(p->share) || !stale_begin(s)) {
        free(p->request);
        free(keep);
        return;
    }
    snprintf(tried[next_place++ % REMEMBERED], DT_SHA256_TEXT, "%s", p->share);
    struct again *g = &stale.waiting[stale.n++];
    *g = (struct again){.uid = p->uid, .timeout = p->timeout, .request = p->request, .len = p->len, .keep = keep};
    snprintf(g->share, sizeof g->share, "%s", p->share);
    snprintf(g->want, sizeof g->want, "%s", p->want);
    snprintf(g->device, sizeof g->device, "%s", p->device);
    snprintf(g->digest, sizeof g->digest, "%s", digest);
    snprintf(g->graph, sizeof g->graph, "%s", graph);
    stale.bytes += p->len;
}

void dtd_requeue_look(void)
{
    if (stale.timer)
        stale_turn(stale.timer);
}

void dtd_requeue_stop(void) { stale_end(); }
