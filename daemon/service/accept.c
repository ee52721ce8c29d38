/* Answering a post that became, or joined, a job: 202 once the job's row is stored, or 429 or 503 with Retry-After.
 *
 * The job may run, and even end, before its row is stored: nobody has its id until then. `durable` in the answer says
 * whether the row, and that this user owns it, is on the disk. A client that goes away meanwhile changes nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "daemon/service/fair.h"
#include "daemon/service/journal.h"
#include "daemon/service/service.h"

struct accept {
    struct dtd_stored stored; /* first: the callback gets its address */
    struct dtd_watch watch;   /* so that the job is not forgotten meanwhile */
    struct dtd_service *s;
    struct dtd_req *r;
};

static void accept_gone(struct dtd_req *r) { ((struct accept *)r->state)->r = NULL; }

static void accept_event(struct dtd_watch *w, struct dtd_job *j) {}

void dtd_reply_accepted(struct dtd_req *r, const struct dtd_job *j, json_t *o)
{
    char headers[sizeof j->id + 64];
    snprintf(headers, sizeof headers, "Location: /v1/jobs/%s\r\nDovetail-Cache: miss\r\n", j->id);
    dtd_reply_json(r, 202, headers, o);
}

static void accept_reply(struct dtd_stored *stored, bool ok)
{
    struct accept *a = (struct accept *)stored;
    struct dtd_job *j = a->watch.job;
    json_t *o = a->r ? dtd_job_json(j) : NULL;
    if (a->r) {
        if (o)
            json_object_set_new(o, "durable", json_boolean(ok && j->durable));
        a->r->gone = NULL;
        a->r->state = NULL;
        dtd_reply_accepted(a->r, j, o);
    }
    dtd_job_unwatch(&a->s->jobs, &a->watch);
    free(a);
}

struct dtd_job *dtd_accept(struct dtd_service *s, struct dtd_req *r, const struct dtd_post *p)
{
    struct accept *a = dt_calloc(1, sizeof *a);
    struct dt_err e = {0};
    struct dtd_job *j = NULL;
    int rc;
    if (a) {
        rc = dtd_jobs_post(&s->jobs, p, &j, &e);
    } else {
        free(p->request);
        rc = dt_err_set(&e, DT_E_NOMEM, "out of memory");
    }
    if (rc < 0) {
        char wait[40];
        snprintf(wait, sizeof wait, "Retry-After: %u\r\n",
                 dtd_fair_retry_after(&s->jobs, p->uid, dtd_pool_counts(s->pool)->alive));
        dtd_reply_problem(r, 0, wait, &e);
        free(a);
        return NULL;
    }
    if (!rc)
        dtd_journal_put(s->journal, j);
    a->stored.fn = accept_reply;
    a->watch.fn = accept_event;
    a->s = s;
    a->r = r;
    r->state = a;
    r->gone = accept_gone;
    dtd_job_watch(j, &a->watch);
    dtd_journal_wait(s->journal, &a->stored);
    return rc ? NULL : j;
}
