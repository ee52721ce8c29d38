/* One request: find its verb, run it, send the answer or the error.
 *
 * A request is JSON: "verb", "options", and "graph" for the verbs that take one; "afresh": a plan that was only
 * carried over from another toolchain (recipe.c) is none; "when_idle": only if nobody else uses the GPU. While it
 * runs, progress goes out at most every PROGRESS_EVERY_US, but always where a stage begins or ends. The answer is one
 * frame of type R, or one of type E with a problem document.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "base/wire.h"
#include "daemon/worker/worker.h"
#include "device/measure.h"

#define PROGRESS_EVERY_US 50000
#define MOST_S 1e7  /* of a time limit: more is none */
#define ENOUGH 0.75 /* the part of it in which an answer is to be ready */

static const struct verb {
    const char *name;
    wrk_verb *fn;
    bool graph; /* takes one */
} verbs[] = {
    {"analyze", wrk_analyze, true},
    {"optimize", wrk_optimize, true},
    {"run", wrk_run, true},
    {"explain", wrk_explain, true},
    {"devices", wrk_devices, false},
    {"ping", wrk_ping, false},
    {"cache", wrk_cache, false},
    {"find-analysis", wrk_find_analysis, false},
    {"find-plan", wrk_find_plan, false},
    {"report", wrk_report, false},
    {"trace", wrk_trace, false},
    {"reprofile", wrk_reprofile, false},
    {"calibrate", wrk_calibrate, false},
    {"new", wrk_new, false},
    {"doctor", wrk_doctor, false},
};

void wrk_progress(const char *stage, const char *message, unsigned done, unsigned of, void *user)
{
    struct wrk *w = user;
    uint64_t now = dt_now_us();
    if (!strncmp(stage, w->last_stage, sizeof w->last_stage - 1) && done != of &&
        now - w->last_progress_us < PROGRESS_EVERY_US)
        return;
    w->last_progress_us = now;
    snprintf(w->last_stage, sizeof w->last_stage, "%s", stage);
    json_t *o = json_pack("{s:s, s:s, s:i, s:i}", "stage", stage, "message", message ? message : "", "done", (int)done,
                          "of", (int)of);
    dt_free_ char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (text && wrk_send(w, 'P', text, strlen(text)) < 0)
        exit(4); /* nobody listens any more */
}

static int send_error(struct wrk *w, struct dt_err *e)
{
    dt_free_ char *text = dt_problem_json(e);
    const char *s = text ? text : "{\"type\":\"about:blank\",\"status\":503,\"code\":\"out-of-memory\"}";
    return wrk_send(w, 'E', s, strlen(s));
}

/* The small members first, the document last: the service cuts the document out without parsing it. */
static int send_answer(struct wrk *w, const struct wrk_answer *a, struct dt_err *e)
{
    struct dt_str s = {0};
    dt_free_ char *doc = dt_json_dumps(a->document, JSON_COMPACT);
    dt_str_addf(&s, "{\"cache\":\"%s\",\"signature\":\"%s\",\"digest\":\"%s\",\"generation\":\"%s\",\"document\":",
                a->hit      ? "hit"
                : a->shared ? "shared"
                            : "miss",
                a->signature, a->digest, a->generation);
    dt_str_add(&s, doc ? doc : "");
    dt_str_addc(&s, '}');
    int r = !doc || s.failed ? dt_err_set(e, DT_E_NOMEM, "out of memory for the document") : 0;
    if (!r && s.len > DT_WIRE_MAX - DT_WIRE_HEAD)
        r = dt_err_set(e, DT_E_TOO_LARGE, "the document has %zu bytes; the limit is %u", s.len, DT_WIRE_MAX);
    if (!r && wrk_send(w, 'R', s.s, s.len) < 0)
        r = DT_E_IO;
    dt_str_done(&s);
    return r;
}

/* Nobody else uses the GPU, so that measuring disturbs nobody, and is not disturbed. */
static int need_idle(struct wrk *w, struct dt_err *e)
{
    char why[120];
    int r = wrk_open(w, e);
    return r < 0 || dev_idle(w->dev, why, sizeof why) ? r : dt_err_set(e, DT_E_BUSY, "%s", why);
}

/* When a request with this time limit, which has just come, should be answered: behind the search come the last
 * verification, which planning takes off by itself, and the document. */
static uint64_t until(double limit_s)
{
    return limit_s > 0 && limit_s < MOST_S ? dt_now_us() + (uint64_t)(limit_s * ENOUGH * 1e6) : 0;
}

int wrk_request(struct wrk *w, const char *body, size_t len)
{
    struct dt_err e = {0};
    struct wrk_answer a = {0};
    struct dtd_options o = {0};
    json_t *q = NULL;
    dt_json_fresh();
    int r = dt_json_load(body, len, &q, &e);
    const char *name = json_string_value(json_object_get(q, "verb"));
    const struct verb *v = NULL;
    for (size_t i = 0; name && i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(verbs[i].name, name))
            v = &verbs[i];
    if (r < 0)
        ; /* not JSON */
    else if (!v)
        r = dt_err_set(&e, DT_E_USAGE, "there is no such verb");
    else if (v->graph && !json_object_get(q, "graph"))
        r = dt_err_set(&e, DT_E_USAGE, "the request has no graph");
    if (r >= 0)
        r = dtd_options_from_json(&o, json_object_get(q, "options"), &e);
    w->shared = r >= 0 && o.shared;
    w->afresh = json_is_true(json_object_get(q, "afresh"));
    w->until_us = until(json_number_value(json_object_get(q, "limit_s")));
    w->away = 0;
    w->asked = w->by_cluster = w->carried = false;
    w->token = 0;
    if (r >= 0 && v->graph && json_is_true(json_object_get(q, "when_idle")))
        r = need_idle(w, &e);
    if (r >= 0 && v->graph)
        wrk_progress("start", name, 0, 0, w); /* the service counts a job as running from here */
    if (r >= 0)
        r = v->fn(w, v->graph ? json_object_get(q, "graph") : q, &o, &a, &e);
    dev_compilers_rest();
    json_decref(q);
    if (r >= 0)
        r = send_answer(w, &a, &e);
    json_decref(a.document);
    dtd_options_done(&o);
    w->last_stage[0] = 0;
    int ret = dt_alloc_failed() ? 1 : 0; /* what it remembers may lack something: the next worker begins anew */
    if (r < 0) {
        if (!e.num)
            dt_err_set(&e, r, "%s", dt_err_text(r));
        /* a device that does not come through a synchronisation will not later either */
        bool useless = dtd_error_ends_worker(e.num) || (v && v->fn == wrk_ping);
        ret = r == DT_E_IO && !a.document ? DT_E_IO : send_error(w, &e) < 0 ? DT_E_IO : useless || ret;
    }
    dt_err_done(&e);
    return ret;
}
