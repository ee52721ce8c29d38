/* What came of a night: a row for each graph, sums, and how it ended. It is kept in the store while the night goes on,
 * a second after what is new in it (a long one less often), and at its end, so that a service that is killed leaves
 * what it had done. The next one goes on with it (night-resume.c); where it cannot, the night reads as "interrupted".
 * The document is night.schema.json (docs/CONTRACT.md §6), with two members that nobody is shown: `uid`, who began it,
 * and `work`, what else the night needs to go on.
 *
 * A plan is held against what was used for the graph on this device until now: its former plan, if there is one, else
 * the posted launches. Times are those that planning found, measured or modelled as the device is.
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
#include "daemon/shared/shared.h"
#include "report/html.h"

#define SAVE_MS 1000    /* between two savings */
#define SAVE_PER_MS 100 /* and a millisecond more for so many bytes */
#define SAME 0.001      /* less of a difference is none */

struct dtd_night_figures dtd_night_figures;
const char *const dtd_night_outcomes[DTD_NIGHT_OUTCOMES] = {"faster", "slower", "unchanged", "failed"};
const char *const dtd_night_counts[DTD_NIGHT_COUNTS] = {"gave_way", "gpu_in_use"};

static struct {
    struct dtd_service *s;
    json_t *doc; /* NULL: no night yet, or there was no memory */
    int64_t id;  /* in the store; 0: not yet */
    uint64_t saved_ms, pause_ms;
    bool saving, again, unsaved;
} report;

struct save {
    uv_work_t work;
    struct dtd_service *s;
    char *text;
    int64_t id;
    bool failed;
};

static json_t *now_text(void)
{
    char text[32];
    time_t now = time(NULL);
    struct tm t;
    if (!gmtime_r(&now, &t) || !strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &t))
        text[0] = 0;
    return json_string(text);
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

static void save_work(uv_work_t *w)
{
    struct save *v = w->data;
    struct dt_err e = {0};
    uv_mutex_lock(&v->s->cache_lock);
    v->failed = cache_night_put(v->s->cache, v->s->cfg.socket, v->id, v->text, &v->id, &e) < 0;
    uv_mutex_unlock(&v->s->cache_lock);
    if (v->failed)
        dt_log(DT_LOG_WARN, "night: the report is not kept: %s", e.detail ? e.detail : dt_err_text(e.num));
    dt_err_done(&e);
}

static void report_save(bool now);

static void save_after(uv_work_t *w, int status)
{
    struct save *v = w->data;
    if (!v->failed && v->id)
        report.id = v->id;
    free(v->text);
    free(v);
    report.saving = false;
    if (report.again)
        report_save(true);
}

static void report_save(bool now)
{
    struct dtd_service *s = report.s;
    uint64_t ms = uv_now(s->loop);
    report.unsaved = true;
    if (!report.doc || (!now && ms - report.saved_ms < report.pause_ms))
        return;
    report.again = report.saving;
    if (report.saving)
        return;
    struct save *v = dt_calloc(1, sizeof *v);
    if (!v || !(v->text = dt_json_dumps(report.doc, JSON_COMPACT))) {
        free(v);
        return;
    }
    v->s = s;
    v->id = report.id;
    v->work.data = v;
    report.saved_ms = ms;
    report.pause_ms = SAVE_MS + strlen(v->text) / SAVE_PER_MS;
    report.unsaved = false;
    report.saving = uv_queue_work(s->loop, &v->work, save_work, save_after) == 0;
    if (!report.saving) {
        free(v->text);
        free(v);
    }
}

/* ---- what happens ------------------------------------------------------------------------------------------------ */

static json_t *new_report(const struct dtd_night_work *w, double budget_s, bool queue)
{
    return json_pack(
        "{s:s, s:o, s:n, s:s, s:s, s:f, s:b, s:I, s:{s:i, s:i, s:i, s:i}, s:i, s:i, s:f, s:f, s:f, s:[], s:I, "
        "s:{s:b, s:b}}",
        "state", "running", "begun", now_text(), "ended", "device", w->key, "toolchain", w->toolchain, "budget_s",
        budget_s, "queue", queue, "due", (json_int_t)json_array_size(w->due), "outcomes", dtd_night_outcomes[0], 0,
        dtd_night_outcomes[1], 0, dtd_night_outcomes[2], 0, dtd_night_outcomes[3], 0, dtd_night_counts[0], 0,
        dtd_night_counts[1], 0, "seconds", 0.0, "before_us", 0.0, "after_us", 0.0, "graphs", "uid", (json_int_t)w->uid,
        "work", "all", w->all, "opened", 0);
}

/* The report of a service that is no more goes on. */
static json_t *old_report(json_t *doc, bool queue)
{
    json_int_t resumed = json_integer_value(json_object_get(doc, "resumed"));
    json_object_set_new(doc, "state", json_string("running"));
    json_object_set_new(doc, "ended", json_null());
    json_object_set_new(doc, "queue", json_boolean(queue || json_is_true(json_object_get(doc, "queue"))));
    json_object_set_new(doc, "resumed", json_integer(resumed + 1));
    return json_incref(doc);
}

void dtd_night_report_begin(struct dtd_service *s, const struct dtd_night_work *w, double budget_s, bool queue)
{
    json_decref(report.doc);
    report.s = s;
    report.id = w->former_id;
    report.doc = w->former ? old_report(w->former, queue) : new_report(w, budget_s, queue);
    dtd_night_figures.under_way = true;
    dtd_night_figures.nights++;
    dt_log(DT_LOG_INFO, "night: %s%zu graphs are due%s", w->former ? "it goes on after a restart; " : "",
           json_array_size(w->due), queue ? ", and go into the cluster's queue" : "");
    report_save(true);
}

void dtd_night_report_opened(void)
{
    json_object_set_new(json_object_get(report.doc, "work"), "opened", json_true());
    report_save(true);
}

void dtd_night_report_turn(void)
{
    if (report.unsaved)
        report_save(false);
}

static void add(json_t *o, const char *name, double by)
{
    json_t *v = json_object_get(o, name);
    if (json_is_integer(v))
        json_integer_set(v, json_integer_value(v) + (json_int_t)by);
    else if (json_is_real(v))
        json_real_set(v, json_real_value(v) + by);
}

static enum dtd_night_outcome outcome_of(const struct dtd_night_row *r, double until_now)
{
    if (*r->failure)
        return DTD_NIGHT_FAILED;
    if (!(r->after_us > 0) || !(until_now > 0) ||
        (r->after_us >= until_now * (1 - SAME) && r->after_us <= until_now * (1 + SAME)))
        return DTD_NIGHT_UNCHANGED;
    return r->after_us < until_now ? DTD_NIGHT_FASTER : DTD_NIGHT_SLOWER;
}

void dtd_night_report_row(const struct dtd_night_row *r)
{
    const double until_now = r->former_us > 0 ? r->former_us : r->before_us;
    const enum dtd_night_outcome outcome = outcome_of(r, until_now);
    const char *name = dtd_night_outcomes[outcome];
    dtd_night_figures.graph[outcome]++;
    dtd_night_figures.seconds += r->seconds;
    dt_log(DT_LOG_INFO, "night: %.19s: %s%s%s", r->item->graph, name, *r->failure ? ": " : "", r->failure);
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:I, s:s, s:f, s:b}", "graph", r->item->graph, "signature", r->signature, "reason",
                  r->item->reason, "rank", r->item->rank, "outcome", name, "seconds", r->seconds, "shared", r->shared);
    if (o && *r->failure)
        json_object_set_new(o, "failure", json_string(r->failure));
    if (o && !*r->failure) {
        json_object_set_new(o, "posted_us", json_real(r->before_us));
        if (r->former_us > 0)
            json_object_set_new(o, "former_us", json_real(r->former_us));
        json_object_set_new(o, "before_us", json_real(until_now));
        json_object_set_new(o, "after_us", json_real(r->after_us));
        add(report.doc, "before_us", until_now);
        add(report.doc, "after_us", r->after_us);
    }
    add(json_object_get(report.doc, "outcomes"), name, 1);
    add(report.doc, "seconds", r->seconds);
    if (json_array_append_new(json_object_get(report.doc, "graphs"), o) < 0)
        dt_log(DT_LOG_WARN, "night: a row of the report is lost: out of memory");
    report_save(false);
}

void dtd_night_report_count(enum dtd_night_count what)
{
    dtd_night_figures.count[what]++;
    add(report.doc, dtd_night_counts[what], 1);
    report_save(false);
}

void dtd_night_report_end(const char *state)
{
    const json_t *n = json_object_get(report.doc, "outcomes");
    dtd_night_figures.under_way = false;
    if (report.doc) {
        json_object_set_new(report.doc, "state", json_string(state));
        json_object_set_new(report.doc, "ended", now_text());
    }
    dt_log(DT_LOG_INFO, "night: over (%s): %lld faster, %lld slower, %lld unchanged, %lld failed", state,
           json_integer_value(json_object_get(n, "faster")), json_integer_value(json_object_get(n, "slower")),
           json_integer_value(json_object_get(n, "unchanged")), json_integer_value(json_object_get(n, "failed")));
    report_save(true);
}

void dtd_night_report_done(void)
{
    json_decref(report.doc);
    report.doc = NULL;
}

/* ---- GET /v1/reprofile/report ------------------------------------------------------------------------------------ */

struct ask {
    struct dtd_async a; /* first */
    bool html, admin;
    json_t *doc;
    char *text;
    struct dt_err err;
};

static void ask_work(struct dtd_async *a)
{
    struct ask *q = (struct ask *)a;
    if (!q->doc) {
        uv_mutex_lock(&a->s->cache_lock);
        int64_t id;
        cache_night_get(a->s->cache, a->s->cfg.socket, &q->doc, &id, NULL);
        uv_mutex_unlock(&a->s->cache_lock);
        if (!strcmp(dt_json_text(q->doc, "state"), "running")) /* of a service that is no more */
            json_object_set_new(q->doc, "state", json_string("interrupted"));
    }
    json_t *uid = json_object_get(q->doc, "uid");
    if (!q->doc || (!q->admin && json_integer_value(uid) != (json_int_t)a->uid)) {
        dt_err_set(&q->err, DT_E_NOT_FOUND, "there is no report of a night");
        return;
    }
    json_object_del(q->doc, "uid");
    json_object_del(q->doc, "work");
    q->text = q->html ? dtd_night_html(q->doc) : dt_json_dumps(q->doc, JSON_COMPACT);
    if (!q->text)
        dt_err_set(&q->err, DT_E_NOMEM, "out of memory");
}

static void ask_after(struct dtd_async *a)
{
    struct ask *q = (struct ask *)a;
    if (!a->req)
        return;
    if (q->err.num) {
        dtd_reply_problem(a->req, 0, NULL, &q->err);
        return;
    }
    size_t n = strlen(q->text);
    dtd_reply_take(a->req, 200, q->html ? "text/html; charset=utf-8" : DTD_REPLY_TYPE,
                   q->html ? "Content-Security-Policy: " HTML_POLICY "\r\n" : NULL, q->text, n);
    q->text = NULL;
}

static void ask_release(struct dtd_async *a)
{
    struct ask *q = (struct ask *)a;
    json_decref(q->doc);
    free(q->text);
    dt_err_done(&q->err);
    free(q);
}

void api_night_report(struct dtd_service *s, struct dtd_req *r)
{
    const char *accept = dtd_req_header(r, "accept");
    struct ask *q = dt_calloc(1, sizeof *q);
    if (!q || (report.doc && !(q->doc = json_deep_copy(report.doc)))) {
        free(q);
        dtd_reply_err(r, DT_E_NOMEM, "out of memory");
        return;
    }
    q->html = !strcmp(r->query, "format=html") || (accept && strstr(accept, "text/html"));
    q->admin = dtd_peer_admin(s, r);
    q->a = (struct dtd_async){.s = s, .req = r, .work = ask_work, .after = ask_after, .release = ask_release};
    dtd_async_start(&q->a);
}
