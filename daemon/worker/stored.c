/* The cache's file, and the verbs that only read or change it: cache, find-analysis, find-plan, report, trace.
 *
 * These verbs cannot do without the file; every other verb can, and goes on when it cannot be opened (wrk_open_cache).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/shared/shared.h"
#include "daemon/worker/worker.h"
#include "report/report.h"

static void stored_says(void *user, bool bad, const char *text) { dt_log(bad ? DT_LOG_WARN : DT_LOG_INFO, "%s", text); }

int wrk_need_cache(struct wrk *w, struct dt_err *e)
{
    int r = w->cache ? 0 : cache_open(w->cache_path, &w->cache, e);
    if (r >= 0)
        cache_told(w->cache, stored_says, NULL);
    return r;
}

void wrk_open_cache(struct wrk *w)
{
    struct dt_err why = {0};
    if (wrk_need_cache(w, &why) < 0)
        dt_log(DT_LOG_WARN, "working without a cache: %s", why.detail ? why.detail : dt_err_text(why.num));
    dt_err_done(&why);
}

int wrk_cache(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    const char *op = json_string_value(json_object_get(in, "op"));
    int r = wrk_need_cache(w, e);
    return r < 0 ? r : dtd_cache_op(w->cache, op ? op : "stats", in, &a->document, e);
}

static int stored_find(struct wrk *w, json_t *in, const char *want, struct wrk_answer *a, struct dt_err *e)
{
    const char *sig = json_string_value(json_object_get(in, "signature"));
    if (!sig || !dt_sha256_ok(sig))
        return dt_err_set(e, DT_E_USAGE, "the request has no signature");
    int r = wrk_need_cache(w, e);
    if (r >= 0)
        r = cache_find(w->cache, want, sig, NULL, &a->document, e);
    if (r < 0)
        return r;
    if (!r)
        return dt_err_set(e, DT_E_NOT_FOUND, "there is no %s with this signature", want);
    a->hit = true;
    snprintf(a->signature, sizeof a->signature, "%s", sig);
    return 0;
}

int wrk_find_analysis(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    return stored_find(w, in, "analysis", a, e);
}

int wrk_find_plan(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    return stored_find(w, in, "plan", a, e);
}

/* The analysis of the same graph, NULL: none is stored. Names are canonical in both. */
static json_t *analysis_beside(struct wrk *w, const struct wrk_answer *a)
{
    json_t *doc = NULL;
    return cache_find(w->cache, "analysis", a->signature, NULL, &doc, NULL) == 1 ? doc : NULL;
}

int wrk_report(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    int r = stored_find(w, in, "plan", a, e);
    if (r < 0)
        return r;
    json_t *analysis = analysis_beside(w, a);
    struct rep_source s = {.plan = a->document, .analysis = analysis, .foreign = true};
    char *html = rep_html(&s);
    json_t *doc = html ? json_pack("{s:s}", "html", html) : NULL;
    free(html);
    json_decref(analysis);
    if (!doc)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for the report");
    json_decref(a->document);
    a->document = doc;
    return 0;
}

int wrk_trace(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    int r = stored_find(w, in, "plan", a, e);
    if (r < 0)
        return r;
    json_t *analysis = analysis_beside(w, a);
    struct rep_source s = {.plan = a->document, .analysis = analysis, .foreign = true};
    dt_free_ char *trace = rep_trace(&s, e);
    json_decref(analysis);
    if (!trace)
        return e->num;
    json_t *doc = json_pack("{s:s}", "trace", trace);
    if (!doc)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for the trace");
    json_decref(a->document);
    a->document = doc;
    return 0;
}
