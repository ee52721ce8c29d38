/* The journal of jobs: what was posted and how far it is, in the table `job` (cache/jobs.h).
 *
 * A job's row is written before its 202 goes out (accept.c), then after each change of its state or owners; it goes
 * when the job is forgotten. Writes are done in order, on a thread of libuv's pool, all that wait as one transaction,
 * by a handle that nothing else uses: a store that is slow delays answers to posts, and nothing else. A write that
 * fails is logged, and the job is then not durable: it lives as long as the service. The next one tries again.
 *
 * At the start, jobs that had not ended are queued again, with their ids, owners and events' numbers (which jump, so
 * that they grow). A job that was running when the service died may have been the cause: that counts as a worker that
 * it killed, and at the second time it is not begun again but fails. A service that is told to stop gives running jobs
 * back to the queue first, which counts for nothing.
 *
 * Jobs that had ended are there without their results. The store may have those (api-jobs.c). They are forgotten as
 * others are, and at the next start after a week. Rows of a service that does not come back go after a month.
 *
 * Texts. post: {share, want, device, timeout, created, head}; head is the request without its graph. state: {state,
 * owners: [[uid, posted, left]], posts, turns, kills, seq, started, finished, cache, signature, digest, problem, arch,
 * key, toolchain}.
 *
 * Bounded: requests of jobs that have not ended, together, by max_durable_mb. Not here: power loss between a change of
 * state and its row; the job then begins where the row says.
 */
#include "daemon/service/journal.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "cache/jobs.h"
#include "daemon/service/service.h"

#define KEEP_S (7 * 86400)
#define FOREIGN_S (30 * 86400)
#define KILLS_MAX 2

struct record { /* a write that waits, or a row that was read */
    enum record_kind { RECORD_PUT, RECORD_CHANGE, RECORD_FORGET } kind;
    char id[40];
    char *post, *request, *state;
    bool ended;
    struct record *next;
};

struct dtd_journal {
    struct dtd_service *s;
    struct cache *db;
    uv_work_t handle;
    bool busy, resuming;
    struct record *read;           /* rows, until dtd_journal_resume */
    struct record *waiting, *last; /* writes */
    struct record *batch;          /* on the thread */
    struct dtd_stored *after_waiting, *after_batch;
    int rc; /* of the batch */
    struct dt_err err;
    size_t bytes; /* requests of durable jobs that have not ended */
    uint64_t failures;
    bool failing;
};

static void record_free(struct record *r)
{
    free(r->post);
    free(r->request);
    free(r->state);
    free(r);
}

static void records_free(struct record *list)
{
    while (list) {
        struct record *r = list;
        list = r->next;
        record_free(r);
    }
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* {"verb":…,"options":…,"graph":… without the graph. No string in front of it can hold the mark: quotes are escaped. */
static json_t *head_of(const char *request)
{
    const char *mark = strstr(request, ",\"graph\":");
    dt_free_ char *text = NULL;
    if (!mark || asprintf(&text, "%.*s}", (int)(mark - request), request) < 0) {
        text = NULL;
        return NULL;
    }
    return json_loads(text, 0, NULL);
}

static char *post_text(const struct dtd_job *j)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:f, s:I, s:o*}", "share", j->share, "want", j->want, "device", j->device,
                          "timeout", j->timeout, "created", (json_int_t)j->created_ms, "head", head_of(j->request));
    char *text = o && json_object_get(o, "head") ? dt_json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

static void put_text(json_t *o, const char *name, const char *text)
{
    if (text && *text)
        json_object_set_new(o, name, json_string(text));
}

/* Under which key the store has the result: of the worker that made it, which the next service may not have. */
static void put_key(json_t *o, const struct dtd_service *s, const struct dtd_job *j)
{
    const struct dtd_device *d = j->state == DTD_DONE && *j->signature ? dtd_pool_device(s->pool, j->device) : NULL;
    if (!d)
        return;
    put_text(o, "arch", d->arch);
    put_text(o, "key", d->key);
    put_text(o, "toolchain", d->toolchain);
}

static char *state_text(const struct dtd_service *s, const struct dtd_job *j)
{
    json_t *o = json_pack("{s:s, s:i, s:i, s:i, s:I, s:I, s:I, s:[]}", "state", dtd_state_text(j->state), "posts",
                          (int)j->posts, "turns", (int)j->turns, "kills", (int)j->kills, "seq", (json_int_t)j->seq,
                          "started", (json_int_t)j->started_ms, "finished", (json_int_t)j->finished_ms, "owners");
    if (!o)
        return NULL;
    for (size_t i = 0; i < j->owner.n; i++)
        json_array_append_new(
            json_object_get(o, "owners"),
            json_pack("[I, b, b]", (json_int_t)j->owner.p[i].uid, (int)j->owner.p[i].posted, (int)j->owner.p[i].left));
    put_text(o, "cache", j->cache);
    put_text(o, "signature", j->signature);
    put_text(o, "digest", j->digest);
    put_text(o, "problem", j->problem);
    put_key(o, s, j);
    char *text = dt_json_dumps(o, JSON_COMPACT);
    json_decref(o);
    return text;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static int write_one(struct dtd_journal *l, const struct record *r, struct dt_err *e)
{
    struct cache_job j = {r->id, r->post, r->request, r->state};
    if (r->kind == RECORD_PUT)
        return cache_job_put(l->db, l->s->cfg.socket, &j, e);
    if (r->kind == RECORD_FORGET)
        return cache_job_forget(l->db, r->id, e);
    j.request = r->ended ? "" : NULL;
    return cache_job_change(l->db, &j, e);
}

static int journal_open(struct dtd_journal *l, struct dt_err *e)
{
    int r = cache_hold(l->s->cfg.cache, &l->db, e); /* a file that is not there now may be there later */
    if (r >= 0)
        cache_jobs_settings(l->db);
    return r < 0 ? r : r ? 0 : DT_E_CACHE;
}

static void journal_work(uv_work_t *h)
{
    struct dtd_journal *l = h->data;
    l->rc = l->db ? 0 : journal_open(l, &l->err);
    if (l->rc >= 0)
        l->rc = cache_jobs_begin(l->db, &l->err);
    if (l->rc < 0)
        return;
    for (const struct record *r = l->batch; r && l->rc >= 0; r = r->next)
        l->rc = write_one(l, r, &l->err);
    struct dt_err why = {0};
    int end = cache_jobs_end(l->db, l->rc >= 0, l->rc >= 0 ? &l->err : &why);
    dt_err_done(&why);
    l->rc = l->rc < 0 ? l->rc : end;
}

static void journal_start(struct dtd_journal *l);

static void journal_after(uv_work_t *h, int status)
{
    struct dtd_journal *l = h->data;
    struct record *list = l->batch;
    struct dtd_stored *w = l->after_batch;
    bool ok = status == 0 && l->rc >= 0;
    l->busy = false;
    l->batch = NULL;
    l->after_batch = NULL;
    if (!ok) {
        l->failures++;
        if (!l->failing)
            dt_log(DT_LOG_WARN, "jobs are not stored for now, and would not survive a restart: %s",
                   l->err.detail ? l->err.detail : "no thread for it");
    } else if (l->failing) {
        dt_log(DT_LOG_INFO, "jobs are stored again");
    }
    l->failing = !ok;
    dt_err_done(&l->err);
    for (const struct record *r = list; r; r = r->next) {
        struct dtd_job *j = r->kind == RECORD_PUT ? dtd_jobs_find(&l->s->jobs, r->id) : NULL;
        if (j)
            j->durable = ok;
    }
    records_free(list);
    while (w) {
        struct dtd_stored *next = w->next;
        w->fn(w, ok);
        w = next;
    }
    journal_start(l);
}

static void journal_start(struct dtd_journal *l)
{
    if (l->busy || !l->waiting)
        return;
    l->busy = true;
    l->batch = l->waiting;
    l->after_batch = l->after_waiting;
    l->waiting = l->last = NULL;
    l->after_waiting = NULL;
    l->handle.data = l;
    if (uv_queue_work(l->s->loop, &l->handle, journal_work, journal_after) < 0)
        journal_after(&l->handle, -1);
}

/* Takes the texts; NULL among those that are needed: out of memory. */
static bool journal_add(struct dtd_journal *l, enum record_kind kind, const char *id, char *post, char *request,
                        char *state, bool ended)
{
    struct record *r = dt_calloc(1, sizeof *r);
    bool whole = kind == RECORD_FORGET || (state && (kind == RECORD_CHANGE || (post && request)));
    if (!r || !whole) {
        free(r);
        free(post);
        free(request);
        free(state);
        l->failures++;
        return false;
    }
    *r = (struct record){.kind = kind, .post = post, .request = request, .state = state, .ended = ended};
    snprintf(r->id, sizeof r->id, "%s", id);
    *(l->last ? &l->last->next : &l->waiting) = r;
    l->last = r;
    return true;
}

static void on_changed(void *user, struct dtd_job *j, bool gone)
{
    struct dtd_journal *l = user;
    bool final = dtd_state_final(j->state);
    if (!j->written || (l->resuming && !gone))
        return;
    if (gone)
        journal_add(l, RECORD_FORGET, j->id, NULL, NULL, NULL, false);
    else
        journal_add(l, RECORD_CHANGE, j->id, NULL, NULL, state_text(l->s, j), final);
    if (final && !gone && j->request_len) {
        l->bytes -= j->request_len;
        j->request_len = 0;
    }
    journal_start(l);
}

void dtd_journal_put(struct dtd_journal *l, struct dtd_job *j)
{
    if (!l || !j->request || l->bytes + j->request_len > (size_t)l->s->cfg.max_durable_mb << 20 ||
        strlen(j->request) != j->request_len)
        return;
    if (!journal_add(l, RECORD_PUT, j->id, post_text(j), dt_strdup(j->request), state_text(l->s, j), false))
        return;
    j->written = true;
    l->bytes += j->request_len;
    journal_start(l);
}

void dtd_journal_wait(struct dtd_journal *l, struct dtd_stored *w)
{
    if (!l || (!l->busy && !l->waiting)) {
        w->fn(w, l != NULL);
        return;
    }
    struct dtd_stored **list = l->waiting ? &l->after_waiting : &l->after_batch;
    w->next = *list;
    *list = w;
}

uint64_t dtd_journal_failures(const struct dtd_journal *l) { return l ? l->failures : 0; }

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void take_row(void *user, const struct cache_job *j)
{
    struct record ***end = user, *r = dt_calloc(1, sizeof *r);
    if (!r)
        return;
    snprintf(r->id, sizeof r->id, "%s", j->id);
    r->post = dt_strdup(j->post);
    r->request = dt_strdup(j->request);
    r->state = dt_strdup(j->state);
    if (!r->post || !r->request || !r->state) {
        record_free(r);
        return;
    }
    **end = r;
    *end = &r->next;
}

struct dtd_journal *dtd_journal_open(struct dtd_service *s)
{
    struct dtd_journal *l = dt_calloc(1, sizeof *l);
    struct dt_err e = {0};
    struct record **end = l ? &l->read : NULL;
    if (!l)
        return NULL;
    l->s = s;
    int r = journal_open(l, &e);
    if (r >= 0)
        r = cache_jobs_load(l->db, s->cfg.socket, FOREIGN_S, take_row, &end, &e);
    if (r < 0)
        dt_log(DT_LOG_WARN, "jobs of before cannot be read: %s", e.detail ? e.detail : dt_err_text(e.num));
    dt_err_done(&e);
    return l;
}

static uint64_t whole_of(const json_t *o, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(o, name));
    return n > 0 ? (uint64_t)n : 0;
}

static enum dtd_state state_of(const json_t *o)
{
    for (enum dtd_state s = 0; s < DTD_NSTATES; s++)
        if (!strcmp(dtd_state_text(s), dt_json_text(o, "state")))
            return s;
    return DTD_NSTATES;
}

static void restore_state(struct dtd_jobs *js, struct dtd_job *j, const json_t *o)
{
    size_t i;
    const json_t *v;
    json_array_foreach (json_object_get(o, "owners"), i, v) {
        unsigned uid = (unsigned)json_integer_value(json_array_get(v, 0));
        size_t n = j->owner.n;
        dtd_job_own(js, j, uid, json_is_true(json_array_get(v, 1)));
        if (j->owner.n > n)
            j->owner.p[n].left = json_is_true(json_array_get(v, 2));
    }
    j->posts = (unsigned)whole_of(o, "posts");
    j->posts += !j->posts;
    j->turns = (unsigned)whole_of(o, "turns");
    j->kills = (unsigned)whole_of(o, "kills");
    j->started_ms = whole_of(o, "started");
    snprintf(j->cache, sizeof j->cache, "%s", dt_json_text(o, "cache"));
    snprintf(j->signature, sizeof j->signature, "%s", dt_json_text(o, "signature"));
    snprintf(j->digest, sizeof j->digest, "%s", dt_json_text(o, "digest"));
    j->problem = *dt_json_text(o, "problem") ? dt_strdup(dt_json_text(o, "problem")) : NULL;
}

/* One job; NULL: the row is of no use. *ret: what is to be done with it now. */
static struct dtd_job *restore(struct dtd_journal *l, struct record *r, enum dtd_state *ret)
{
    struct dtd_jobs *js = &l->s->jobs;
    json_t *post = json_loads(r->post, 0, NULL), *o = json_loads(r->state, 0, NULL);
    enum dtd_state state = o ? state_of(o) : DTD_NSTATES;
    bool final = dtd_state_final(state), old = final && whole_of(o, "finished") / 1000 + KEEP_S < (uint64_t)time(NULL);
    struct dtd_job *j = NULL;
    if (post && state != DTD_NSTATES && !old && (final || *r->request)) {
        struct dtd_post p = {.uid = UINT_MAX,
                             .share = dt_json_text(post, "share"),
                             .want = dt_json_text(post, "want"),
                             .device = dt_json_text(post, "device"),
                             .timeout = json_number_value(json_object_get(post, "timeout")),
                             .request = r->request,
                             .len = strlen(r->request)};
        r->request = NULL;
        j = dtd_jobs_restore(js, r->id, whole_of(post, "created"), (whole_of(o, "seq") >> 20) + 1, &p);
    }
    if (j) {
        restore_state(js, j, o);
        json_t *head = json_object_get(post, "head");
        static const char *const keys[] = {"arch", "key", "toolchain"};
        for (size_t i = 0; head && i < 3; i++)
            put_text(head, keys[i], dt_json_text(o, keys[i]));
        j->head = head ? dt_json_dumps(head, JSON_COMPACT) : NULL;
        if (final)
            dtd_job_end(js, j, state, whole_of(o, "finished"));
        else
            l->bytes += j->request_len;
        *ret = state;
    }
    json_decref(post);
    json_decref(o);
    return j;
}

void dtd_journal_resume(struct dtd_journal *l)
{
    struct dtd_jobs *js = l ? &l->s->jobs : NULL;
    unsigned again = 0, ended = 0;
    if (!l)
        return;
    js->changed = on_changed;
    js->changed_user = l;
    for (struct record *r = l->read; r; r = r->next) {
        enum dtd_state was = DTD_NSTATES;
        l->resuming = true;
        struct dtd_job *j = restore(l, r, &was);
        l->resuming = false;
        if (!j) {
            journal_add(l, RECORD_FORGET, r->id, NULL, NULL, NULL, false);
        } else if (dtd_state_final(was)) {
            ended++;
        } else if ((j->kills += was == DTD_RUNNING) >= KILLS_MAX) {
            struct dt_err e = {0};
            dt_err_set(&e, DT_E_WORKER_LOST,
                       "it ran each time when its worker or the service died, %u times: it is "
                       "not begun again",
                       j->kills);
            dt_log(DT_LOG_WARN, "job %s: %s", j->id, e.detail);
            dtd_job_fail_err(js, j, &e);
        } else {
            again++;
            on_changed(l, j, false);
        }
    }
    if (again || ended)
        dt_log(DT_LOG_INFO, "jobs of before: %u queued again, %u had ended", again, ended);
    records_free(l->read);
    l->read = NULL;
    journal_start(l);
}

struct dtd_journal *dtd_journal_close(struct dtd_journal *l)
{
    if (!l)
        return NULL;
    records_free(l->read);
    records_free(l->waiting);
    l->db = cache_close(l->db);
    dt_err_done(&l->err);
    free(l);
    return NULL;
}
