/* A night that ended because its service did goes on in the next one over the same store and socket.
 *
 * Its report says that it was under way ("running": the service was killed) or stopped with the service, who began it,
 * and which graphs are behind it. What is left is asked of the store again: what has an up-to-date plan by now is not
 * due, and what failed is left out. It goes on in the same report, and ends when its budget would have ended, counted
 * in hours of the day from when it began.
 *
 * It does not go on when the budget is over; when device or toolchain are others now (another list is due, and whoever
 * upgrades begins a new night); after RESUMES_MAX times (a graph might end the service each time); or when somebody has
 * begun a new one first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "cache/cache.h"
#include "daemon/service/night.h"

#define RESUMES_MAX 20
#define DUE_MAX 10000

struct resume {
    struct dtd_async a; /* first */
    struct dtd_night_work work;
    bool share_uid;
    double budget_s; /* what is left; 0: no bound */
    bool goes_on;
};

/* False: it is over. A clock that was set back does not lengthen it. */
static bool left_of(const json_t *doc, double *ret)
{
    double budget = json_number_value(json_object_get(doc, "budget_s"));
    struct tm t = {0};
    *ret = 0;
    if (budget <= 0)
        return true;
    if (!strptime(dt_json_text(doc, "begun"), "%Y-%m-%dT%H:%M:%SZ", &t))
        return false;
    double since = difftime(time(NULL), timegm(&t));
    *ret = since > 0 ? budget - since : budget;
    return *ret > 0;
}

static bool resumable(const json_t *doc, const struct dtd_night_work *w, double *ret_left)
{
    const char *state = dt_json_text(doc, "state");
    if (strcmp(state, "running") && strcmp(state, "stopped"))
        return false;
    return json_is_object(json_object_get(doc, "work")) && !strcmp(dt_json_text(doc, "device"), w->key) &&
           !strcmp(dt_json_text(doc, "toolchain"), w->toolchain) &&
           json_integer_value(json_object_get(doc, "resumed")) < RESUMES_MAX && left_of(doc, ret_left);
}

/* Graphs that have a row failed, or their plan is not found up to date: in either case not again in this night. */
static int leave_out(json_t *due, const json_t *rows)
{
    json_t *seen = json_object(), *v;
    size_t i;
    int r = seen ? 0 : DT_E_NOMEM;
    json_array_foreach (rows, i, v)
        if (json_object_set_new(seen, dt_json_text(v, "graph"), json_true()) < 0)
            r = DT_E_NOMEM;
    for (i = json_array_size(due); r == 0 && i-- > 0;)
        if (json_object_get(seen, dt_json_text(json_array_get(due, i), "graph")))
            json_array_remove(due, i);
    json_decref(seen);
    return r;
}

static void resume_work(struct dtd_async *a)
{
    struct resume *r = (struct resume *)a;
    struct dtd_night_work *w = &r->work;
    struct dt_err e = {0};
    uv_mutex_lock(&a->s->cache_lock);
    int found = cache_night_get(a->s->cache, a->s->cfg.socket, &w->former, &w->former_id, &e);
    if (found == 1 && resumable(w->former, w, &r->budget_s)) {
        w->uid = (unsigned)json_integer_value(json_object_get(w->former, "uid"));
        w->all = !r->share_uid && json_is_true(json_object_get(json_object_get(w->former, "work"), "all"));
        r->goes_on = cache_overdue(a->s->cache, w->arch, w->key, w->toolchain, w->all ? NULL : &w->uid, DUE_MAX,
                                   &w->due, &e) >= 0 &&
                     leave_out(w->due, json_object_get(w->former, "graphs")) == 0;
        if (!r->goes_on)
            dt_log(DT_LOG_WARN, "night: it does not go on: %s", e.detail ? e.detail : "out of memory");
    }
    uv_mutex_unlock(&a->s->cache_lock);
    dt_err_done(&e);
}

static void resume_after(struct dtd_async *a)
{
    struct resume *r = (struct resume *)a;
    if (!r->goes_on || a->s->draining)
        return;
    dtd_reprofile_options(a->s, r->work.uid, r->work.options, sizeof r->work.options);
    dtd_night_begin(a->s, &r->work, r->budget_s);
}

static void resume_release(struct dtd_async *a)
{
    struct resume *r = (struct resume *)a;
    json_decref(r->work.due);
    json_decref(r->work.former);
    free(r);
}

void dtd_night_resume(struct dtd_service *s)
{
    const struct dtd_device *d = dtd_pool_device(s->pool, s->cfg.device);
    struct resume *r = d && s->cache ? dt_calloc(1, sizeof *r) : NULL;
    if (!r)
        return;
    r->share_uid = s->cfg.share_uid;
    r->work.shares = !s->cfg.share_uid;
    snprintf(r->work.device, sizeof r->work.device, "%s", s->cfg.device);
    snprintf(r->work.arch, sizeof r->work.arch, "%s", d->arch);
    snprintf(r->work.key, sizeof r->work.key, "%s", d->key);
    snprintf(r->work.toolchain, sizeof r->work.toolchain, "%s", d->toolchain);
    r->a = (struct dtd_async){.s = s, .work = resume_work, .after = resume_after, .release = resume_release};
    dtd_async_start(&r->a);
}
