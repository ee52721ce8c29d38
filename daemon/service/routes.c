/* What the service answers: one row an endpoint. `*` stands for one segment of the path, handed to the handler as a
 * parameter.
 *
 * A path that exists with another method gets 405 and an Allow header; HEAD is GET without a body; everything else is
 * 404. To add an endpoint: a row here, a handler in an api-*.c, and its place in schema/ and in docs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "daemon/service/service.h"

const struct dtd_route dtd_routes[] = {
    {HTTP_GET, "/", api_root, "server, version, API versions, this list"},
    {HTTP_POST, "/v1/jobs", api_post_job, "post a graph: want=plan|analysis|run|explain"},
    {HTTP_GET, "/v1/jobs", api_jobs, "all jobs that are remembered"},
    {HTTP_GET, "/v1/jobs/*", api_job, "one job; wait=SECONDS waits for its end"},
    {HTTP_DELETE, "/v1/jobs/*", api_cancel, "cancel a job"},
    {HTTP_GET, "/v1/jobs/*/events", api_events, "its events, as NDJSON or server-sent events; after=SEQ"},
    {HTTP_GET, "/v1/jobs/*/result", api_result, "its document, with the names that were posted"},
    {HTTP_GET, "/v1/plans/*", api_plan, "a plan by signature, with canonical names; device=…"},
    {HTTP_GET, "/v1/plans/*/report", api_report, "the plan as one HTML file"},
    {HTTP_GET, "/v1/plans/*/trace", api_trace, "the plan's timelines, for Perfetto or chrome://tracing"},
    {HTTP_GET, "/v1/analyses/*", api_analysis, "an analysis by signature, with canonical names; device=…"},
    {HTTP_GET, "/v1/devices", api_devices, "devices of this machine, and the workers"},
    {HTTP_GET, "/v1/cache", api_cache, "figures of the cache"},
    {HTTP_GET, "/v1/cache/entries", api_cache_entries,
     "what the cache holds; limit=N, signature=… (then with factors)"},
    {HTTP_GET, "/v1/cache/verify", api_cache_verify, "every row checked against its checksum"},
    {HTTP_POST, "/v1/cache/gc", api_cache_gc,
     "for admins: remove what is damaged, max_age=SECONDS old, or over max_bytes=N"},
    {HTTP_GET, "/v1/cache/export", api_cache_export, "plans as JSON lines: all for admins, their own for others"},
    {HTTP_POST, "/v1/cache/import", api_cache_import, "take in what export gave, as recipes; for admins"},
    {HTTP_GET, "/v1/cache/nearest/*", api_cache_nearest,
     "the entry nearest to a signature, and the key factors that differ; want=plan|analysis"},
    {HTTP_POST, "/v1/reprofile", api_reprofile,
     "plan stored graphs again that have no plan of this device and toolchain; stale=1, limit=N"},
    {HTTP_GET, "/healthz", api_healthz, "200 when loop and worker answer, else 503"},
    {HTTP_GET, "/metrics", api_metrics, "figures for Prometheus"},
    {0, NULL, NULL, NULL},
};

void dtd_reply_json(struct dtd_req *r, int status, const char *headers, json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (text)
        dtd_reply_take(r, status, "application/json", headers, text, strlen(text));
    else
        dtd_reply_err(r, DT_E_NOMEM, "out of memory");
}

void dtd_serve(struct dtd_req *r)
{
    struct dtd_service *s = r->user;
    unsigned method = r->method == HTTP_HEAD ? HTTP_GET : r->method;
    struct dt_str allow = {0};
    for (const struct dtd_route *t = dtd_routes; t->path; t++) {
        if (!dtd_path_match(t->path, r->path, r->pathbuf, sizeof r->pathbuf, r->param))
            continue;
        if (t->method == method) {
            dt_str_done(&allow);
            t->fn(s, r);
            return;
        }
        dt_str_addf(&allow, "%s%s", allow.len ? ", " : "Allow: ", llhttp_method_name(t->method));
        if (t->method == HTTP_GET)
            dt_str_add(&allow, ", HEAD");
    }
    struct dt_err e = {0};
    if (allow.len) {
        dt_str_add(&allow, "\r\n");
        dt_err_set(&e, DT_E_METHOD, "%s is not possible here", llhttp_method_name(r->method));
    } else {
        dt_err_set(&e, DT_E_NOT_FOUND, "there is nothing at this path");
    }
    dtd_reply_problem(r, 0, allow.len && !allow.failed ? allow.s : NULL, &e);
    dt_str_done(&allow);
}
