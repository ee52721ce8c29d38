/* GET /v1/plans/SIGNATURE, /v1/analyses/SIGNATURE, /v1/cache: documents and figures of the cache. Documents come with
 * canonical names (b0, l0, m0 …), since a signature does not say which names the poster used. SQLite is read on a pool
 * thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cache/cache.h"
#include "daemon/shared/shared.h"
#include "daemon/service/service.h"

struct docs {
    struct dtd_async a;                                       /* first */
    const char *want;                                         /* NULL: figures */
    enum docs_form { FORM_JSON, FORM_HTML, FORM_TRACE } form; /* the document, a plan's report, its timelines */
    char signature[DT_SHA256_TEXT], device[192];
    int rc;
    struct dt_err err;
    char *text;
};

static void docs_work(struct dtd_async *a)
{
    struct docs *d = (struct docs *)a;
    json_t *doc = NULL;
    uv_mutex_lock(&a->s->cache_lock);
    if (d->want) {
        d->rc = cache_find(a->s->cache, d->want, d->signature, *d->device ? d->device : NULL, &doc, &d->err);
    } else {
        doc = cache_stats(a->s->cache);
        d->rc = doc ? 1 : dt_err_set(&d->err, DT_E_CACHE, "the cache cannot be read");
    }
    uv_mutex_unlock(&a->s->cache_lock);
    if (d->rc == 1) {
        d->text = d->form == FORM_HTML    ? dtd_report_html(doc)
                  : d->form == FORM_TRACE ? dtd_trace_json(doc, &d->err)
                                          : json_dumps(doc, JSON_COMPACT);
        if (!d->text)
            d->rc = d->err.num ? d->err.num : dt_err_set(&d->err, DT_E_NOMEM, "out of memory");
        json_decref(doc);
    }
}

static void docs_after(struct dtd_async *a)
{
    struct docs *d = (struct docs *)a;
    if (!a->req)
        return;
    if (d->rc < 0) {
        dtd_reply_problem(a->req, 0, NULL, &d->err);
    } else if (!d->rc) {
        dtd_reply_err(a->req, DT_E_NOT_FOUND, "there is no %s with this signature%s", d->want,
                      *d->device ? " and device" : "");
    } else {
        dtd_reply_take(a->req, 200, d->form == FORM_HTML ? "text/html; charset=utf-8" : "application/json", NULL,
                       d->text, strlen(d->text));
        d->text = NULL;
    }
}

static void docs_release(struct dtd_async *a)
{
    struct docs *d = (struct docs *)a;
    dt_err_done(&d->err);
    free(d->text);
    free(d);
}

static void api_docs_start(struct dtd_service *s, struct dtd_req *r, const char *want, enum docs_form form)
{
    struct docs *d = dt_calloc(1, sizeof *d);
    if (!d) {
        dtd_reply_err(r, DT_E_NOMEM, "out of memory");
        return;
    }
    d->a = (struct dtd_async){.s = s, .req = r, .work = docs_work, .after = docs_after, .release = docs_release};
    d->want = want;
    d->form = form;
    if (want) {
        const char *p = r->param[0];
        bool ok = dt_sha256_ok(p);
        char name[32], value[192];
        int q;
        for (const char *at = r->query; ok && (q = dtd_query_next(&at, name, sizeof name, value, sizeof value));)
            if (q < 0 || strcmp(name, "device")) {
                free(d);
                dtd_reply_err(r, DT_E_USAGE, "the query may hold device=… only");
                return;
            } else {
                snprintf(d->device, sizeof d->device, "%s", value);
            }
        if (!strcmp(d->device, "soft"))
            snprintf(d->device, sizeof d->device, "%s", "soft:h200");
        if (!ok) {
            free(d);
            dtd_reply_err(r, DT_E_NOT_FOUND, "a signature is sha256: and 64 hexadecimal digits");
            return;
        }
        snprintf(d->signature, sizeof d->signature, "%s", p);
    }
    dtd_async_start(&d->a);
}

void api_plan(struct dtd_service *s, struct dtd_req *r) { api_docs_start(s, r, "plan", FORM_JSON); }
void api_report(struct dtd_service *s, struct dtd_req *r) { api_docs_start(s, r, "plan", FORM_HTML); }
void api_trace(struct dtd_service *s, struct dtd_req *r) { api_docs_start(s, r, "plan", FORM_TRACE); }
void api_analysis(struct dtd_service *s, struct dtd_req *r) { api_docs_start(s, r, "analysis", FORM_JSON); }
void api_cache(struct dtd_service *s, struct dtd_req *r) { api_docs_start(s, r, NULL, FORM_JSON); }
