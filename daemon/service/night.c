/* The night: stored graphs that have no up-to-date plan of this device and toolchain are planned one after the other,
 * below the jobs of users (POST /v1/reprofile with {"stale": true}; api-reprofile.c finds them and begins).
 *
 *   take ─▶ read graph ─▶ job ─▶ ends ─▶ times read ─▶ row of the report ─▶ take …
 *             │             └─ a user's job came, the budget is used up, the service stops: cancelled, given back
 *             └─ not here: asked of the cluster (`shared_graphs`); if it has none, given back, for another host
 *
 * What comes next is the first of a list of digests, the most promising first; with a cluster, the first entry of the
 * cluster's queue, into which every host puts its list, so that a graph is planned by one host. A job is made
 * of it only while no other job waits or runs. When somebody posts meanwhile, the night's job is cancelled at once and
 * made again once the service is idle; it goes on if the post was of the same graph. A graph whose job fails is not
 * tried again in this night. While somebody else uses the GPU nothing is planned (the worker looks, `when_idle`).
 *
 * With `reprofile_window` nothing begins before the window opens, and the night ends when it closes.
 *
 * Of the state only the report is stored: a service that restarts asks the store again what is due, and goes on with it
 * (night-resume.c).
 */
#include "daemon/service/night.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "cache/cache.h"
#include "daemon/service/share.h"
#include "daemon/service/travel.h"
#include "daemon/shared/shared.h"

#define EVERY_MS 20
#define GPU_BUSY_MS 60000

struct night {
    uv_timer_t timer; /* first: closing it frees the night */
    struct dtd_service *s;
    struct dtd_night_work work;
    struct dtd_night_queue *queue; /* NULL: work.due alone */
    size_t at;                     /* of work.due, without a queue: the next */
    uint64_t end_ns, not_before_ms;
    bool opened; /* the window has been open */
    bool have, reading, ended;
    struct dtd_night_item item; /* while `have` */
    char job[40];               /* "": none */
    char signature[DT_SHA256_TEXT];
    double former_us;
    uint64_t job_ns;
    bool by_recipe;
    char *theirs; /* the item's graph, of the cluster, while it is read */
};
static struct night *the_night; /* that has not ended; a process has one service */

/* Reads the graph of an item before its job; and the times of its plan after it. */
struct reading {
    struct dtd_async a; /* first */
    struct night *n;
    char share[DT_SHA256_TEXT];
    char *request;
    size_t len;
    struct cache_times former, times;
};

/* ---- beginning and ending ---------------------------------------------------------------------------------------- */

static bool window_open(const struct dtd_service *s)
{
    time_t now = time(NULL);
    struct tm t;
    if (!s->cfg.reprofile_window || !*s->cfg.reprofile_window || !localtime_r(&now, &t))
        return true;
    return dtd_window_has(s->cfg.reprofile_window, (unsigned)(t.tm_hour * 60 + t.tm_min));
}

static void night_closed(uv_handle_t *h)
{
    struct night *n = (struct night *)h;
    json_decref(n->work.due);
    free(n);
}

static bool users_wait(const struct dtd_jobs *js, const struct dtd_job *mine)
{
    for (const struct dtd_job *j = js->active; j; j = j->anext)
        if (j != mine)
            return true;
    return false;
}

static void night_give(struct night *n, enum dtd_given how, const char *why)
{
    if (n->have && n->queue && n->item.token)
        dtd_night_queue_give(n->queue, &n->item, how, why);
    else if (n->have && !n->item.token && how == DTD_GIVEN_BACK)
        n->at--;
    n->have = false;
}

/* The job of the night, while it has not ended. */
static struct dtd_job *night_job(struct night *n)
{
    struct dtd_job *j = *n->job ? dtd_jobs_find(&n->s->jobs, n->job) : NULL;
    return j && !dtd_state_final(j->state) ? j : NULL;
}

static void night_cancel(struct night *n, struct dtd_job *j, const char *why)
{
    *n->job = 0;
    dtd_pool_cancel(n->s->pool, j);
    dtd_job_cancel(&n->s->jobs, j, why);
    if (!n->s->draining)
        dtd_pool_kick(n->s->pool);
    night_give(n, DTD_GIVEN_BACK, NULL);
}

/* A job that users wait for, too, goes on without the night. */
static void night_end(struct night *n, const char *state)
{
    struct dtd_job *j = night_job(n);
    if (j && j->posts <= 1)
        night_cancel(n, j, "the night is over, and planning again ends");
    else
        night_give(n, DTD_GIVEN_BACK, NULL);
    dtd_night_report_end(state);
    if (n->queue)
        dtd_night_queue_close(n->queue);
    n->queue = NULL;
    n->ended = true;
    the_night = NULL;
}

/* ---- the graph, on a pool thread --------------------------------------------------------------------------------- */

static struct cache_due night_due(const struct night *n)
{
    return (struct cache_due){n->item.graph, n->work.arch, n->work.key, n->work.toolchain};
}

/* The item stays: a night that reads does not go. */
static void night_read(struct dtd_async *a)
{
    struct reading *r = (struct reading *)a;
    const struct dtd_night_work *w = &r->n->work;
    const bool soft = !strncmp(w->key, "soft", 4);
    json_t *graph = NULL;
    struct dt_str s = {0};
    const struct cache_due due = night_due(r->n);
    uv_mutex_lock(&a->s->cache_lock);
    int found = r->n->theirs ? 0 : dtd_graph_get(a->s->cache, r->n->item.graph, &graph, NULL);
    cache_times(a->s->cache, &due, true, &r->former);
    uv_mutex_unlock(&a->s->cache_lock);
    if (r->n->theirs && dtd_travel_right(r->n->theirs, r->n->item.graph))
        found = dt_json_load(r->n->theirs, strlen(r->n->theirs), &graph, NULL) == 0;
    dt_free_ char *text = found == 1 ? dt_json_dumps(graph, JSON_COMPACT) : NULL;
    /* a job that may be put off must not be one that a user joins */
    if (text && dtd_share_key(graph, soft ? "plan" : "plan when idle", w->device, w->options, r->share, NULL) >= 0) {
        dt_str_addf(&s, "{\"verb\":\"optimize\",\"afresh\":true,%s\"options\":%s,\"graph\":",
                    soft ? "" : "\"when_idle\":true,", w->options);
        dt_str_add(&s, text);
        dt_str_addc(&s, '}');
        r->len = s.len;
        r->request = dt_str_take(&s);
    }
    json_decref(graph);
}

static void night_post(struct night *n, struct reading *r)
{
    struct dtd_service *s = n->s;
    struct dtd_job *j = NULL;
    struct dt_err full = {0};
    struct dtd_post post = {n->work.uid, false, r->share, "plan", n->work.device, 0, r->request, r->len, true};
    r->request = NULL;
    int posted = dtd_jobs_post(&s->jobs, &post, &j, &full);
    dt_err_done(&full);
    if (posted < 0) {
        night_give(n, DTD_GIVEN_BACK, NULL);
        return;
    }
    snprintf(n->job, sizeof n->job, "%s", j->id);
    n->former_us = r->former.after_us;
    n->job_ns = uv_hrtime();
    dtd_pool_kick(s->pool);
}

static bool night_start(struct night *n, void (*work)(struct dtd_async *), void (*after)(struct dtd_async *));

static void night_theirs(struct night *n)
{
    free(n->theirs);
    n->theirs = NULL;
}

static void night_have(struct dtd_async *a);

static void night_fetched(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct night *n = user;
    const char *body = dt_json_text(row, "body");
    dtd_share_count(n->s->share, DTD_CALL_GRAPH, outcome);
    n->reading = false;
    n->theirs = outcome == CLUSTER_OK && *body && !n->ended ? dt_strdup(body) : NULL;
    if (n->theirs && night_start(n, night_read, night_have))
        return;
    night_theirs(n);
    if (!n->ended)
        night_give(n, DTD_GIVEN_FOREIGN, NULL);
}

/* It is not here: the cluster may have it. False: nothing was asked. */
static bool night_fetch(struct night *n)
{
    struct dtd_share *sh = n->s->share;
    if (n->theirs || !n->item.token || !n->s->cfg.share_graphs || !sh || sh->closing)
        return false;
    n->reading = true;
    cluster_graph_get(sh->cluster, n->item.graph, night_fetched, n);
    return true;
}

static void night_have(struct dtd_async *a)
{
    struct reading *r = (struct reading *)a;
    struct night *n = r->n;
    n->reading = false;
    bool asked = !n->ended && !r->request && night_fetch(n);
    if (!asked)
        night_theirs(n);
    if (n->ended || asked)
        return;
    if (!r->request) /* it has been removed since, or is damaged; or another host's */
        night_give(n, DTD_GIVEN_FOREIGN, NULL);
    else if (a->s->draining || users_wait(&a->s->jobs, NULL))
        night_give(n, DTD_GIVEN_BACK, NULL);
    else
        night_post(n, r);
}

static void reading_release(struct dtd_async *a)
{
    struct reading *r = (struct reading *)a;
    free(r->request);
    free(r);
}

static void night_measure(struct dtd_async *a)
{
    struct reading *r = (struct reading *)a;
    const struct cache_due due = night_due(r->n);
    uv_mutex_lock(&a->s->cache_lock);
    cache_times(a->s->cache, &due, false, &r->times);
    uv_mutex_unlock(&a->s->cache_lock);
}

static void night_row(struct night *n, const struct cache_times *t, const char *failure)
{
    const struct dtd_night_row row = {.item = &n->item,
                                      .signature = t ? t->signature : "",
                                      .failure = failure,
                                      .before_us = t ? t->before_us : 0,
                                      .after_us = t ? t->after_us : 0,
                                      .former_us = n->former_us,
                                      .seconds = (double)(uv_hrtime() - n->job_ns) / 1e9,
                                      .shared = n->by_recipe};
    dtd_night_report_row(&row);
}

static void night_measured(struct dtd_async *a)
{
    struct reading *r = (struct reading *)a;
    struct night *n = r->n;
    n->reading = false;
    night_row(n, &r->times, "");
    if (!n->ended)
        night_give(n, DTD_GIVEN_DONE, NULL);
}

static bool night_start(struct night *n, void (*work)(struct dtd_async *), void (*after)(struct dtd_async *))
{
    struct reading *r = dt_calloc(1, sizeof *r);
    if (!r)
        return false; /* again at the next turn */
    n->reading = true;
    r->n = n;
    r->a = (struct dtd_async){.s = n->s, .work = work, .after = after, .release = reading_release};
    dtd_async_start(&r->a);
    return true;
}

/* ---- on the loop ------------------------------------------------------------------------------------------------- */

/* It has ended, or was forgotten. */
static void night_over(struct night *n)
{
    const struct dtd_job *j = dtd_jobs_find(&n->s->jobs, n->job);
    json_t *problem = NULL;
    n->by_recipe = j && !strcmp(j->cache, "shared");
    if (j && j->state == DTD_DONE && !strcmp(j->cache, "hit")) { /* it had a plan already */
        *n->job = 0;
        night_give(n, DTD_GIVEN_DONE, NULL);
        return;
    }
    if (j && j->state == DTD_DONE) {
        if (night_start(n, night_measure, night_measured))
            *n->job = 0;
        return;
    }
    if (j && j->problem)
        dt_json_load(j->problem, strlen(j->problem), &problem, NULL);
    const char *code = dt_json_text(problem, "code"), *detail = dt_json_text(problem, "detail");
    *n->job = 0;
    if (!strcmp(code, "busy")) {
        dtd_night_report_count(DTD_NIGHT_GPU_BUSY);
        n->not_before_ms = uv_now(n->s->loop) + GPU_BUSY_MS;
        night_give(n, DTD_GIVEN_BACK, NULL);
    } else if (j && j->state == DTD_CANCELLED) { /* by an admin: not in this night */
        night_row(n, NULL, "cancelled");
        night_give(n, DTD_GIVEN_DONE, NULL);
    } else {
        night_row(n, NULL, *detail ? detail : *code ? code : "the job was lost");
        night_give(n, DTD_GIVEN_FAILED, *detail ? detail : "the job was lost");
    }
    json_decref(problem);
}

static void night_next(struct night *n)
{
    enum dtd_taken t = DTD_TAKEN_NONE;
    const json_t *o = json_array_get(n->work.due, n->at);
    if (n->queue && (t = dtd_night_queue_take(n->queue, &n->item)) == DTD_TAKEN_AWAY) {
        dt_log(DT_LOG_INFO, "night: the cluster does not answer; this host goes on alone");
        dtd_night_queue_close(n->queue);
        n->queue = NULL;
        return;
    }
    if (!n->queue && o) {
        n->item = (struct dtd_night_item){.rank = json_integer_value(json_object_get(o, "rank"))};
        snprintf(n->item.graph, sizeof n->item.graph, "%s", dt_json_text(o, "graph"));
        snprintf(n->item.reason, sizeof n->item.reason, "%s", dt_json_text(o, "reason"));
        n->at++;
        t = DTD_TAKEN;
    }
    n->have = t == DTD_TAKEN;
    if (t == DTD_TAKEN_NONE)
        night_end(n, "done");
}

/* Why it should end, or NULL. */
static const char *night_ends(struct night *n, bool open)
{
    if (n->end_ns && uv_hrtime() >= n->end_ns)
        return "budget";
    return n->opened && !open ? "window" : NULL;
}

static void night_turn(uv_timer_t *t)
{
    struct night *n = (struct night *)t;
    struct dtd_service *s = n->s;
    if (n->reading)
        return;
    if (n->ended) {
        uv_close((uv_handle_t *)&n->timer, night_closed);
        return;
    }
    bool open = window_open(s);
    const char *why = night_ends(n, open);
    struct dtd_job *j = night_job(n);
    if (open && !n->opened) {
        n->opened = true;
        dtd_night_report_opened();
        dtd_pool_fresh(s->pool, n->work.device);
    }
    dtd_night_report_turn();
    if (n->queue)
        dtd_night_queue_fill(n->queue);
    if (n->have && n->queue && n->item.token)
        dtd_night_queue_hold(n->queue, &n->item);
    if (why) {
        night_end(n, why);
    } else if (j && n->item.lost && j->posts <= 1) {
        night_cancel(n, j, "another host plans it");
    } else if (j) {
        if (j->posts > 1 || !users_wait(&s->jobs, j))
            return;
        dtd_night_report_count(DTD_NIGHT_GAVE_WAY);
        night_cancel(n, j, "a user's job came, and planning again gave way to it");
    } else if (*n->job) {
        night_over(n);
    } else if (open && uv_now(s->loop) >= n->not_before_ms && !users_wait(&s->jobs, NULL)) {
        if (!n->have)
            night_next(n);
        if (n->have && !n->ended)
            night_start(n, night_read, night_have);
    }
}

bool dtd_night_begin(struct dtd_service *s, const struct dtd_night_work *w, double budget_s)
{
    struct night *n = the_night ? NULL : dt_calloc(1, sizeof *n);
    if (!n)
        return false;
    n->s = s;
    n->work = *w;
    n->opened = json_is_true(json_object_get(json_object_get(w->former, "work"), "opened"));
    json_incref(w->due);
    n->end_ns = budget_s > 0 ? uv_hrtime() + (uint64_t)(budget_s * 1e9) : 0;
    n->queue = s->share && w->shares ? dtd_night_queue_open(s, &n->work) : NULL;
    uv_timer_init(s->loop, &n->timer);
    uv_timer_start(&n->timer, night_turn, 0, EVERY_MS);
    the_night = n;
    dtd_night_report_begin(s, &n->work, budget_s, n->queue != NULL);
    n->work.former = NULL;
    return true;
}

void dtd_night_look(void)
{
    if (the_night)
        night_turn(&the_night->timer);
}

void dtd_night_stop(void)
{
    if (the_night)
        night_end(the_night, "stopped");
}
