/* POST /v1/reprofile: posts jobs that plan stored graphs again, for the present default device. `?limit=N` (100 if not
 * given) bounds their number.
 *
 * A graph is due when it has no plan for this device with this toolchain. So a new GPU, driver, dovetail or compiler
 * makes all graphs due. `?stale=1` takes only graphs that have a plan for this device by another toolchain. Options are
 * the default ones. Graphs are those that the caller posted; for admins all, unless users share nothing (share = uid).
 * With a body {"stale": true, "budget_s": N} nothing is queued: graphs that have a plan, of another device or toolchain
 * only, are planned one after the other while the service is idle, the most promising first (night.c).
 *
 * Old plans stay. When the queue is full, posting ends; call again later for the rest.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "cache/cache.h"
#include "daemon/service/journal.h"
#include "daemon/service/night.h"
#include "daemon/service/service.h"
#include "daemon/shared/shared.h"

#define LIMIT_MAX 10000
#define BUDGET_MAX 604800

struct due {
    char share[DT_SHA256_TEXT];
    char *request;
    size_t len;
};
struct reprofile {
    struct dtd_async a; /* first */
    unsigned limit, uid;
    bool stale, all;
    bool night; /* not queued, but planned while the service is idle */
    double budget_s;
    json_t *list;
    char options[40]; /* of the jobs, JSON */
    char device[80], arch[16], key[192], toolchain[256];
    struct due *due;
    size_t ndue;
    int rc;
    struct dt_err err;
};

static int api_reprofile_one(struct reprofile *p, json_t *graph)
{
    struct due *d = &p->due[p->ndue];
    struct dt_str s = {0};
    dt_free_ char *text = dt_json_dumps(graph, JSON_COMPACT);
    if (!text)
        return dt_err_set(&p->err, DT_E_NOMEM, "out of memory");
    int r = dtd_share_key(graph, "plan", p->device, p->options, d->share, &p->err);
    if (r < 0)
        return r;
    dt_str_addf(&s, "{\"verb\":\"optimize\",\"afresh\":true,\"options\":%s,\"graph\":", p->options);
    dt_str_add(&s, text);
    dt_str_addc(&s, '}');
    d->len = s.len;
    d->request = dt_str_take(&s);
    if (!d->request)
        return dt_err_set(&p->err, DT_E_NOMEM, "out of memory");
    p->ndue++;
    return 0;
}

static void reprofile_work(struct dtd_async *a)
{
    struct reprofile *p = (struct reprofile *)a;
    json_t *list = NULL, *v;
    size_t i;
    if (p->night) {
        uv_mutex_lock(&a->s->cache_lock);
        p->rc = cache_overdue(a->s->cache, p->arch, p->key, p->toolchain, p->all ? NULL : &p->uid, p->limit, &p->list,
                              &p->err);
        uv_mutex_unlock(&a->s->cache_lock);
        return;
    }
    uv_mutex_lock(&a->s->cache_lock);
    p->rc = cache_stale(a->s->cache, p->arch, p->key, p->toolchain, p->stale, p->all ? NULL : &p->uid, p->limit, &list,
                        &p->err);
    uv_mutex_unlock(&a->s->cache_lock);
    if (p->rc >= 0 && !(p->due = dt_calloc(json_array_size(list) + 1, sizeof *p->due)))
        p->rc = dt_err_set(&p->err, DT_E_NOMEM, "out of memory");
    json_array_foreach (list, i, v) {
        json_t *graph = NULL;
        if (p->rc < 0)
            break;
        uv_mutex_lock(&a->s->cache_lock);
        int r = dtd_graph_get(a->s->cache, json_string_value(v), &graph, NULL);
        uv_mutex_unlock(&a->s->cache_lock);
        if (r == 1)
            p->rc = api_reprofile_one(p, graph);
        json_decref(graph);
    }
    json_decref(list);
}

static void reprofile_night(struct reprofile *p)
{
    struct dtd_night_work w = {.uid = p->uid, .all = p->all, .due = p->list};
    w.shares = !p->a.s->cfg.share_uid;
    snprintf(w.options, sizeof w.options, "%s", p->options);
    snprintf(w.device, sizeof w.device, "%s", p->device);
    snprintf(w.arch, sizeof w.arch, "%s", p->arch);
    snprintf(w.key, sizeof w.key, "%s", p->key);
    snprintf(w.toolchain, sizeof w.toolchain, "%s", p->toolchain);
    bool begun = dtd_night_begin(p->a.s, &w, p->budget_s);
    dtd_reply_json(p->a.req, 202, NULL,
                   json_pack("{s:I, s:i, s:[], s:b}", "due", (json_int_t)json_array_size(p->list), "queued", 0, "jobs",
                             "begun", begun));
}

static void reprofile_after(struct dtd_async *a)
{
    struct reprofile *p = (struct reprofile *)a;
    struct dtd_service *s = a->s;
    if (!a->req)
        return;
    if (p->rc >= 0 && s->draining)
        p->rc = dt_err_set(&p->err, DT_E_UNAVAILABLE, "the service stops");
    if (p->rc < 0) {
        dtd_reply_problem(a->req, 0, NULL, &p->err);
        return;
    }
    if (p->night) {
        reprofile_night(p);
        return;
    }
    json_t *jobs = json_array();
    for (size_t i = 0; i < p->ndue; i++) {
        struct dtd_job *j = NULL;
        struct dt_err full = {0};
        char *request = p->due[i].request;
        p->due[i].request = NULL;
        struct dtd_post post = {p->uid, false, p->due[i].share, "plan", p->device, 0, request, p->due[i].len};
        int r = dtd_jobs_post(&s->jobs, &post, &j, &full);
        dt_err_done(&full);
        if (r < 0)
            break;
        if (!r)
            dtd_journal_put(s->journal, j);
        json_array_append_new(jobs, dtd_job_json(j));
    }
    size_t queued = json_array_size(jobs);
    dt_log(DT_LOG_INFO, "reprofile: %zu graphs are due, %zu queued", p->ndue, queued);
    dtd_reply_json(
        a->req, 202, NULL,
        json_pack("{s:I, s:I, s:o}", "due", (json_int_t)p->ndue, "queued", (json_int_t)queued, "jobs", jobs));
    dtd_pool_kick(s->pool);
}

static void reprofile_release(struct dtd_async *a)
{
    struct reprofile *p = (struct reprofile *)a;
    for (size_t i = 0; i < p->ndue; i++)
        free(p->due[i].request);
    free(p->due);
    json_decref(p->list);
    dt_err_done(&p->err);
    free(p);
}

static int api_reprofile_read_query(struct reprofile *p, const char *query, struct dt_err *e)
{
    char name[32], value[32], *end;
    int q;
    for (const char *at = query; (q = dtd_query_next(&at, name, sizeof name, value, sizeof value));) {
        if (q > 0 && !strcmp(name, "stale") && (!strcmp(value, "1") || !strcmp(value, "0") || !*value)) {
            p->stale = *value != '0';
        } else if (q > 0 && !strcmp(name, "limit")) {
            unsigned long n = strtoul(value, &end, 10);
            if (end == value || *end || *value == '-' || !n || n > LIMIT_MAX)
                return dt_err_set(e, DT_E_USAGE, "limit takes a number from 1 to %d", LIMIT_MAX);
            p->limit = (unsigned)n;
        } else {
            return dt_err_set(e, DT_E_USAGE, "the query may hold stale=1 and limit=N only");
        }
    }
    return 0;
}

static int api_reprofile_read_body(struct reprofile *p, const struct dtd_req *r, struct dt_err *e)
{
    json_t *o = NULL, *stale, *budget;
    if (!r->body_len)
        return 0;
    int rc = dt_json_load(r->body, r->body_len, &o, e);
    if (rc < 0)
        return rc;
    stale = json_object_get(o, "stale");
    budget = json_object_get(o, "budget_s");
    p->budget_s = json_number_value(budget);
    if (!json_is_true(stale) || json_object_size(o) != (budget ? 2 : 1) || (budget && !json_is_number(budget)) ||
        p->budget_s < 0 || p->budget_s > BUDGET_MAX || *r->query)
        rc = dt_err_set(e, DT_E_USAGE, "the body is {\"stale\": true, \"budget_s\": seconds up to %d}, without a query",
                        BUDGET_MAX);
    p->night = rc >= 0;
    p->limit = LIMIT_MAX;
    json_decref(o);
    return rc;
}

void dtd_reprofile_options(const struct dtd_service *s, unsigned uid, char *ret, size_t n)
{
    if (s->cfg.share_uid)
        snprintf(ret, n, "{\"apart\":%u}", uid);
    else
        snprintf(ret, n, "%s", s->share ? "{\"shared\":true}" : "{}");
}

void api_reprofile(struct dtd_service *s, struct dtd_req *r)
{
    if (dtd_closed(s, r))
        return;
    const struct dtd_device *d = dtd_pool_device(s->pool, s->cfg.device);
    struct reprofile *p = dt_calloc(1, sizeof *p);
    struct dt_err e = {0};
    if (!p)
        dt_err_set(&e, DT_E_NOMEM, "out of memory");
    else if (api_reprofile_read_query(p, r->query, &e) >= 0 && api_reprofile_read_body(p, r, &e) >= 0 && !d)
        dt_err_set(&e, DT_E_NO_DEVICE, "no worker has answered yet");
    if (e.num) {
        free(p);
        dtd_reply_problem(r, 0, NULL, &e);
        return;
    }
    p->limit = p->limit ? p->limit : 100;
    p->uid = dtd_peer_uid(r);
    p->all = dtd_peer_admin(s, r) && !s->cfg.share_uid;
    dtd_reprofile_options(s, p->uid, p->options, sizeof p->options);
    snprintf(p->device, sizeof p->device, "%s", s->cfg.device);
    snprintf(p->arch, sizeof p->arch, "%s", d->arch);
    snprintf(p->key, sizeof p->key, "%s", d->key);
    snprintf(p->toolchain, sizeof p->toolchain, "%s", d->toolchain);
    p->a = (struct dtd_async){
        .s = s, .req = r, .work = reprofile_work, .after = reprofile_after, .release = reprofile_release};
    dtd_async_start(&p->a);
}
