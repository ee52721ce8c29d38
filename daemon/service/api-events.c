/* GET /v1/jobs/ID/events: the events of a job as they come, one JSON object a line (application/x-ndjson), or as
 * server-sent events when the Accept header asks for text/event-stream. `?after=SEQ` (or Last-Event-ID) resumes behind
 * a number. The stream ends with the job, or when the service stops and the job goes on later. Events that fell out of
 * the job's ring are not sent: a gap in `seq` shows it.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "daemon/service/service.h"

struct stream {
    struct dtd_watch watch; /* first: the callback gets its address */
    struct dtd_service *s;
    struct dtd_req *r;
    uint64_t after;
    bool sse;
};

static void stream_free(struct stream *t)
{
    dtd_job_unwatch(&t->s->jobs, &t->watch);
    free(t);
}

static void pump(struct stream *t)
{
    struct dtd_job *j = t->watch.job;
    const struct dtd_event *ev;
    struct dt_str o = {0};
    while (o.len < 65536 && !dtd_stream_full(t->r) && (ev = dtd_job_event_after(j, t->after))) {
        if (t->sse)
            dt_str_addf(&o, "id: %llu\nevent: %s\ndata: %s\n\n", (unsigned long long)ev->seq,
                        ev->kind == DTD_EV_PROGRESS ? "progress" : "state", ev->json);
        else
            dt_str_addf(&o, "%s\n", ev->json);
        t->after = ev->seq;
    }
    bool all = !dtd_job_event_after(j, t->after);
    if (o.len && !o.failed)
        dtd_stream_put(t->r, o.s, o.len);
    dt_str_done(&o);
    if (all && dtd_waited_enough(t->s, j)) {
        struct dtd_req *r = t->r;
        stream_free(t);
        dtd_stream_end(r);
    }
}

static void api_events_on_event(struct dtd_watch *w, struct dtd_job *j) { pump((struct stream *)w); }
static void on_drained(struct dtd_req *r) { pump(r->state); }
static void on_gone(struct dtd_req *r) { stream_free(r->state); }

void api_events(struct dtd_service *s, struct dtd_req *r)
{
    char name[32], value[32], *end;
    const char *last = dtd_req_header(r, "last-event-id"), *accept = dtd_req_header(r, "accept");
    uint64_t after = last ? strtoull(last, NULL, 10) : 0;
    int q;
    for (const char *at = r->query; (q = dtd_query_next(&at, name, sizeof name, value, sizeof value));) {
        bool ok = q > 0 && !strcmp(name, "after") && isdigit((unsigned char)*value);
        if (ok) {
            errno = 0;
            after = strtoull(value, &end, 10);
            ok = !*end && !errno;
        }
        if (!ok) {
            dtd_reply_err(r, DT_E_USAGE, "the query may hold after=SEQ only");
            return;
        }
    }
    struct dtd_job *j = dtd_asked_job(s, r);
    if (!j)
        return;
    struct stream *t = r->method == HTTP_HEAD ? NULL : dt_calloc(1, sizeof *t);
    if (r->method == HTTP_HEAD) {
        dtd_stream_begin(r, "application/x-ndjson");
        dtd_stream_end(r);
        return;
    }
    if (!t) {
        dtd_reply_err(r, DT_E_NOMEM, "out of memory");
        return;
    }
    t->watch.fn = api_events_on_event;
    t->s = s;
    t->r = r;
    t->after = after;
    t->sse = accept && strstr(accept, "text/event-stream");
    r->state = t;
    r->gone = on_gone;
    r->drained = on_drained;
    dtd_job_watch(j, &t->watch);
    dtd_stream_begin(r, t->sse ? "text/event-stream" : "application/x-ndjson");
}
