/* The night: stored graphs that have no plan of this device and toolchain are planned one after the other, below the
 * jobs of users (POST /v1/reprofile with {"stale": true}; api-reprofile.c finds them and begins).
 *
 * There is no queue: what is due is a list of digests, the most used first, and a job is made of the next one only
 * while no other job waits or runs. When somebody posts meanwhile, the night's job is cancelled and made again once the
 * service is idle; it goes on if the post was of the same graph. A graph whose job fails is not tried again in this
 * night. When the budget is used up no further job begins.
 *
 * The state is not stored: a service that restarts asks the store again when the next night begins.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "cache/cache.h"
#include "daemon/service/night.h"

#define EVERY_MS 100

struct night {
    uv_timer_t timer; /* first: closing it frees the night */
    struct dtd_service *s;
    struct dtd_night_work work;
    size_t at; /* of work.due: the next, or the one that is planned */
    uint64_t end_ns;
    bool reading;
    char job[40]; /* "": none */
    unsigned planned, failed, yielded;
};
static struct night *the_night; /* a process has one service */

struct reading {
    struct dtd_async a; /* first */
    struct night *n;
    char share[DT_SHA256_TEXT];
    char *request;
    size_t len;
    bool sound;
};

static void night_closed(uv_handle_t *h)
{
    struct night *n = (struct night *)h;
    json_decref(n->work.due);
    free(n);
}

static void night_end(struct night *n, const char *why)
{
    dt_log(DT_LOG_INFO, "night: %s: %u of %zu graphs planned, %u failed, %u times interrupted by users' jobs", why,
           n->planned, json_array_size(n->work.due), n->failed, n->yielded);
    the_night = NULL;
    uv_close((uv_handle_t *)&n->timer, night_closed);
}

static bool users_wait(const struct dtd_jobs *js, const struct dtd_job *mine)
{
    for (const struct dtd_job *j = js->active; j; j = j->anext)
        if (j != mine)
            return true;
    return false;
}

/* ---- the next graph, on a pool thread ---------------------------------------------------------------------------- */

static void night_read(struct dtd_async *a)
{
    struct reading *r = (struct reading *)a;
    const struct dtd_night_work *w = &r->n->work; /* it stays: a night that reads does not end */
    json_t *graph = NULL;
    struct dt_str s = {0};
    uv_mutex_lock(&a->s->cache_lock);
    int found = cache_graph_get(a->s->cache, json_string_value(json_array_get(w->due, r->n->at)), &graph, NULL);
    uv_mutex_unlock(&a->s->cache_lock);
    dt_free_ char *text = found == 1 ? json_dumps(graph, JSON_COMPACT) : NULL;
    if (text && dtd_share_key(graph, "plan", w->device, w->options, r->share, NULL) >= 0) {
        dt_str_addf(&s, "{\"verb\":\"optimize\",\"options\":%s,\"graph\":", w->options);
        dt_str_add(&s, text);
        dt_str_addc(&s, '}');
        r->len = s.len;
        r->request = dt_str_take(&s);
    }
    r->sound = r->request != NULL;
    json_decref(graph);
}

static void night_have(struct dtd_async *a)
{
    struct reading *r = (struct reading *)a;
    struct night *n = r->n;
    struct dtd_job *j = NULL;
    struct dt_err full = {0};
    n->reading = false;
    if (!r->sound) { /* it has been removed since, or is damaged */
        n->at++;
        n->failed++;
        return;
    }
    if (a->s->draining || users_wait(&a->s->jobs, NULL))
        return;
    struct dtd_post post = {n->work.uid, false, r->share, "plan", n->work.device, 0, r->request, r->len};
    r->request = NULL;
    int posted = dtd_jobs_post(&a->s->jobs, &post, &j, &full);
    dt_err_done(&full);
    if (posted < 0)
        return;
    snprintf(n->job, sizeof n->job, "%s", j->id);
    dtd_pool_kick(a->s->pool);
}

static void night_release(struct dtd_async *a)
{
    struct reading *r = (struct reading *)a;
    free(r->request);
    free(r);
}

static void night_begin(struct night *n)
{
    struct reading *r = dt_calloc(1, sizeof *r);
    if (!r)
        return; /* again at the next turn */
    n->reading = true;
    r->n = n;
    r->a = (struct dtd_async){.s = n->s, .work = night_read, .after = night_have, .release = night_release};
    dtd_async_start(&r->a);
}

/* ---- on the loop ------------------------------------------------------------------------------------------------- */

/* The job of the night, while it has not ended. */
static struct dtd_job *night_job(struct night *n)
{
    struct dtd_job *j = *n->job ? dtd_jobs_find(&n->s->jobs, n->job) : NULL;
    if (*n->job && (!j || dtd_state_final(j->state))) {
        n->planned += j && j->state == DTD_DONE;
        n->failed += !j || j->state != DTD_DONE;
        n->at++;
        *n->job = 0;
        j = NULL;
    }
    return j;
}

static void night_turn(uv_timer_t *t)
{
    struct night *n = (struct night *)t;
    struct dtd_service *s = n->s;
    if (n->reading)
        return;
    struct dtd_job *j = night_job(n);
    if (s->draining) {
        night_end(n, "the service stops");
    } else if (j) {
        if (j->posts > 1 || !users_wait(&s->jobs, j))
            return;
        *n->job = 0;
        n->yielded++;
        dtd_pool_cancel(s->pool, j);
        dtd_job_cancel(&s->jobs, j, "a user's job came, and planning again gave way to it");
        dtd_pool_kick(s->pool);
    } else if (n->at == json_array_size(n->work.due)) {
        night_end(n, "done");
    } else if (n->end_ns && uv_hrtime() >= n->end_ns) {
        night_end(n, "the budget is used up");
    } else if (!users_wait(&s->jobs, NULL)) {
        night_begin(n);
    }
}

bool dtd_night_begin(struct dtd_service *s, const struct dtd_night_work *w, double budget_s)
{
    struct night *n = the_night ? NULL : dt_calloc(1, sizeof *n);
    if (!n)
        return false;
    n->s = s;
    n->work = *w;
    json_incref(w->due);
    n->end_ns = budget_s > 0 ? uv_hrtime() + (uint64_t)(budget_s * 1e9) : 0;
    uv_timer_init(s->loop, &n->timer);
    uv_timer_start(&n->timer, night_turn, 0, EVERY_MS);
    the_night = n;
    dt_log(DT_LOG_INFO, "night: %zu graphs are due", json_array_size(w->due));
    return true;
}
