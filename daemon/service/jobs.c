/* See jobs.h for the state machine.
 *
 * Events are numbered from 1 within a job and kept in a ring of DTD_MAX_EVENTS, so that a reader resumes by number and
 * a chatty job costs bounded memory. Finished jobs are forgotten oldest first when there are more than max_finished or
 * their results hold more than max_result_bytes; a job that is being watched stays. The job that just finished always
 * stays, whatever its size.
 *
 * Times that people see are of the wall clock, which may jump; what is added up is of the monotonic one.
 */
#include "daemon/service/jobs.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/wire.h"
#include "daemon/service/fair.h"

static const char *const state_names[DTD_NSTATES] = {"queued", "running", "done", "failed", "cancelled"};

/* allowed[from] is a set of bits of states that may follow. */
static const unsigned allowed[DTD_NSTATES] = {
    [DTD_QUEUED] = 1u << DTD_RUNNING | 1u << DTD_FAILED | 1u << DTD_CANCELLED,
    [DTD_RUNNING] = 1u << DTD_DONE | 1u << DTD_FAILED | 1u << DTD_CANCELLED | 1u << DTD_QUEUED,
};

const char *dtd_state_text(enum dtd_state s) { return state_names[s]; }

static uint64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (t.tv_sec < 0) /* a clock that is wrong; 0 is "not yet" */
        return 1;
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static json_t *time_json(uint64_t ms)
{
    char s[64];
    time_t t = (time_t)(ms / 1000);
    struct tm tm;
    size_t n = strftime(s, sizeof s, "%Y-%m-%dT%H:%M:%S", gmtime_r(&t, &tm));
    snprintf(s + n, sizeof s - n, ".%03uZ", (unsigned)(ms % 1000));
    return json_string(s);
}

void dtd_jobs_init(struct dtd_jobs *js, unsigned max_queued, unsigned max_finished, size_t max_result_bytes)
{
    memset(js, 0, sizeof *js);
    js->max_queued = max_queued;
    js->max_finished = max_finished;
    js->max_result_bytes = max_result_bytes;
    js->now_us = dt_now_us;
    if (getrandom(&js->boot, sizeof js->boot, GRND_NONBLOCK) != sizeof js->boot)
        js->boot = (uint32_t)wall_ms();
}

static void told(struct dtd_jobs *js, struct dtd_job *j, bool gone)
{
    if (js->changed)
        js->changed(js->changed_user, j, gone);
}

static void leave_active(struct dtd_jobs *js, struct dtd_job *j)
{
    *(j->aprev ? &j->aprev->anext : &js->active) = j->anext;
    *(j->anext ? &j->anext->aprev : &js->active_tail) = j->aprev;
    j->aprev = j->anext = NULL;
}

static void job_free(struct dtd_jobs *js, struct dtd_job *j)
{
    if (!dtd_state_final(j->state))
        leave_active(js, j);
    *(j->prev ? &j->prev->next : &js->head) = j->next;
    *(j->next ? &j->next->prev : &js->tail) = j->prev;
    js->count[j->state]--;
    js->result_bytes -= j->result_len;
    for (unsigned i = 0; i < j->nevent; i++)
        free(j->event[(j->first + i) % DTD_MAX_EVENTS].json);
    free(j->event);
    free(j->request);
    free(j->keep);
    free(j->head);
    free(j->progress);
    free(j->result);
    free(j->problem);
    free(j->owner.p);
    free(j);
}

void dtd_jobs_done(struct dtd_jobs *js)
{
    while (js->head)
        job_free(js, js->head);
    dtd_fair_done(js);
}

/* Forget the oldest finished jobs while there are too many; `keep` stays. */
static void trim(struct dtd_jobs *js, const struct dtd_job *keep)
{
    struct dtd_job *next;
    unsigned finished = js->count[DTD_DONE] + js->count[DTD_FAILED] + js->count[DTD_CANCELLED];
    for (struct dtd_job *j = js->head; j; j = next) {
        next = j->next;
        if (finished <= js->max_finished && js->result_bytes <= js->max_result_bytes)
            break;
        if (!dtd_state_final(j->state) || j->watch || j == keep)
            continue;
        told(js, j, true);
        job_free(js, j);
        finished--;
    }
}

struct dtd_job *dtd_jobs_find(struct dtd_jobs *js, const char *id)
{
    struct dtd_job *j = js->head;
    while (j && strcmp(j->id, id))
        j = j->next;
    return j;
}

/* The job that is queued or runs with this share key. */
static struct dtd_job *active(struct dtd_jobs *js, const char *share)
{
    struct dtd_job *j = js->active;
    while (j && strcmp(j->share, share))
        j = j->anext;
    return j;
}

void dtd_job_poke(struct dtd_job *j)
{
    struct dtd_watch *next;
    for (struct dtd_watch *w = j->watch; w; w = next) {
        next = w->next;
        w->fn(w, j);
    }
}

/* Append an event (takes `o`; a failed allocation loses the event, never the job) and tell the watchers. */
static void add_event(struct dtd_job *j, int kind, json_t *o)
{
    if (!j->event)
        j->event = dt_calloc(DTD_MAX_EVENTS, sizeof *j->event);
    j->seq++;
    if (o && j->event) {
        json_object_set_new(o, "seq", json_integer((json_int_t)j->seq));
        if (*j->trace)
            json_object_set_new(o, "trace", json_string(j->trace));
        json_object_set_new(o, "time", time_json(wall_ms()));
        char *text = dt_json_dumps(o, JSON_COMPACT);
        if (text) {
            if (j->nevent == DTD_MAX_EVENTS) {
                free(j->event[j->first].json);
                j->first = (j->first + 1) % DTD_MAX_EVENTS;
                j->nevent--;
            }
            struct dtd_event *ev = &j->event[(j->first + j->nevent++) % DTD_MAX_EVENTS];
            *ev = (struct dtd_event){j->seq, kind, text};
        }
    }
    json_decref(o);
    dtd_job_poke(j);
}

const char *dtd_job_problem(const struct dtd_job *j)
{
    static const char none[] = "{\"type\":\"about:blank\",\"title\":\"out of memory\",\"status\":503,"
                               "\"code\":\"out-of-memory\",\"detail\":\"out of memory for the reason\"}";
    return j->problem ? j->problem : j->state == DTD_FAILED ? none : NULL;
}

/* A document that we made ourselves; NULL: memory. */
static json_t *parsed(const char *text)
{
    json_t *o = NULL;
    dt_json_load(text, strlen(text), &o, NULL);
    return o;
}

static void jobs_enter(struct dtd_jobs *js, struct dtd_job *j, enum dtd_state s)
{
    assert(allowed[j->state] & 1u << s);
    dtd_fair_charge(js);
    if (j->state == DTD_RUNNING) {
        uint64_t us = js->now_us() - j->turn_us;
        j->ran_us += us;
        js->run_seconds += (double)us / 1e6;
    }
    js->count[j->state]--;
    js->count[s]++;
    js->total[s]++;
    j->state = s;
    if (s == DTD_RUNNING) {
        if (!j->started_ms)
            j->started_ms = wall_ms();
        dtd_fair_begin(js, j);
    }
    if (dtd_state_final(s)) {
        leave_active(js, j);
        j->finished_ms = wall_ms();
        free(j->request);
        j->request = NULL;
    }
    json_t *o = json_pack("{s:s}", "event", state_names[s]);
    if (o && dtd_job_problem(j))
        json_object_set_new(o, "problem", parsed(dtd_job_problem(j)));
    if (o && *j->cache)
        json_object_set_new(o, "cache", json_string(j->cache));
    told(js, j, false);
    add_event(j, DTD_EV_STATE, o);
    if (dtd_state_final(s))
        trim(js, j);
}

static struct dtd_job *append(struct dtd_jobs *js, const struct dtd_post *p, uint64_t made)
{
    struct dtd_job *j = dt_calloc(1, sizeof *j);
    if (!j)
        return NULL;
    snprintf(j->share, sizeof j->share, "%s", p->share);
    snprintf(j->want, sizeof j->want, "%s", p->want);
    snprintf(j->trace, sizeof j->trace, "%s", js->trace ? js->trace : "");
    snprintf(j->device, sizeof j->device, "%s", p->device);
    j->timeout = p->timeout;
    j->request = p->request;
    j->request_len = p->len;
    j->posts = 1;
    j->created_ms = made;
    j->posted_ns = dt_now_us() * 1000;
    j->prev = js->tail;
    *(js->tail ? &js->tail->next : &js->head) = j;
    js->tail = j;
    j->aprev = js->active_tail;
    *(js->active_tail ? &js->active_tail->anext : &js->active) = j;
    js->active_tail = j;
    js->count[DTD_QUEUED]++;
    return j;
}

int dtd_jobs_post(struct dtd_jobs *js, const struct dtd_post *p, struct dtd_job **ret, struct dt_err *e)
{
    struct dtd_job *j = active(js, p->share);
    if (j) {
        free(p->request);
        j->posts++;
        js->shared++;
        dtd_job_own(js, j, p->uid, p->posted);
        *ret = j;
        return 1;
    }
    int r = dtd_fair_admit(js, p->uid, e);
    j = r < 0 ? NULL : append(js, p, wall_ms());
    if (!j) {
        free(p->request);
        return r < 0 ? r : dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    snprintf(j->id, sizeof j->id, "%08x-%llu", js->boot, (unsigned long long)++js->next_id);
    j->aside = p->aside;
    js->total[DTD_QUEUED]++;
    dtd_job_own(js, j, p->uid, p->posted);
    add_event(j, DTD_EV_STATE, json_pack("{s:s}", "event", "queued"));
    *ret = j;
    return 0;
}

struct dtd_job *dtd_jobs_restore(struct dtd_jobs *js, const char *id, uint64_t made, uint64_t era,
                                 const struct dtd_post *p)
{
    struct dtd_job *j = append(js, p, made);
    if (!j) {
        free(p->request);
        return NULL;
    }
    snprintf(j->id, sizeof j->id, "%s", id);
    j->durable = j->written = true;
    j->seq = era << 20;
    add_event(j, DTD_EV_STATE, json_pack("{s:s}", "event", "queued"));
    return j;
}

void dtd_job_end(struct dtd_jobs *js, struct dtd_job *j, enum dtd_state final, uint64_t finished_ms)
{
    assert(j->state == DTD_QUEUED && dtd_state_final(final));
    js->count[DTD_QUEUED]--;
    js->count[final]++;
    j->state = final;
    leave_active(js, j);
    free(j->request);
    j->request = NULL;
    j->finished_ms = finished_ms;
    add_event(j, DTD_EV_STATE, json_pack("{s:s}", "event", state_names[final]));
    trim(js, j);
}

static struct dtd_owner *find_owner(const struct dtd_job *j, unsigned uid)
{
    for (size_t i = 0; i < j->owner.n; i++)
        if (j->owner.p[i].uid == uid)
            return &j->owner.p[i];
    return NULL;
}

bool dtd_job_owned(const struct dtd_job *j, unsigned uid) { return find_owner(j, uid) != NULL; }

void dtd_job_own(struct dtd_jobs *js, struct dtd_job *j, unsigned uid, bool posted)
{
    struct dtd_owner *o = find_owner(j, uid), before = o ? *o : (struct dtd_owner){0};
    dtd_fair_charge(js);
    if (o) {
        o->posted |= posted;
        o->left = false;
    } else if (uid == UINT_MAX) {
        j->nobody = dtd_fair_user(js, uid);
    } else if (!dt_push(&j->owner, (struct dtd_owner){.uid = uid, .posted = posted})) {
        return; /* out of memory: root may cancel it */
    } else {
        o = &j->owner.p[j->owner.n - 1];
    }
    if (o)
        o->user = dtd_fair_user(js, uid);
    if (o && (before.posted != o->posted || before.left || before.uid != uid))
        told(js, j, false);
}

bool dtd_job_disown(struct dtd_jobs *js, struct dtd_job *j, unsigned uid)
{
    struct dtd_owner *o = find_owner(j, uid);
    bool wanted = false;
    dtd_fair_charge(js);
    for (size_t i = 0; i < j->owner.n; i++)
        wanted |= !j->owner.p[i].left && &j->owner.p[i] != o;
    if (o && wanted && !o->left) {
        o->left = true;
        told(js, j, false);
    }
    return wanted;
}

void dtd_job_start(struct dtd_jobs *js, struct dtd_job *j) { jobs_enter(js, j, DTD_RUNNING); }

void dtd_job_give_back(struct dtd_jobs *js, struct dtd_job *j, bool turn)
{
    j->turns += turn;
    js->turns_lost += turn;
    jobs_enter(js, j, DTD_QUEUED);
}

void dtd_job_progress(struct dtd_jobs *js, struct dtd_job *j, const char *stage, const char *message, unsigned done,
                      unsigned of)
{
    assert(j->state == DTD_RUNNING);
    json_t *o = json_pack("{s:s, s:s, s:i, s:i}", "stage", stage, "message", message, "done", (int)done, "of", (int)of);
    char *text = o ? dt_json_dumps(o, JSON_COMPACT) : NULL;
    if (text) {
        free(j->progress);
        j->progress = text;
    }
    if (o)
        json_object_set_new(o, "event", json_string("progress"));
    add_event(j, DTD_EV_PROGRESS, o);
}

void dtd_job_finish(struct dtd_jobs *js, struct dtd_job *j, const char *cache, const char *signature,
                    const char *digest, char *result, size_t len)
{
    snprintf(j->cache, sizeof j->cache, "%s", cache);
    snprintf(j->signature, sizeof j->signature, "%s", signature);
    snprintf(j->digest, sizeof j->digest, "%s", digest);
    j->result = result;
    j->result_len = len;
    js->result_bytes += len;
    jobs_enter(js, j, DTD_DONE);
}

void dtd_job_fail(struct dtd_jobs *js, struct dtd_job *j, char *problem)
{
    j->problem = problem;
    jobs_enter(js, j, DTD_FAILED);
}

void dtd_job_fail_err(struct dtd_jobs *js, struct dtd_job *j, struct dt_err *e)
{
    char *problem = dt_problem_json(e);
    dt_err_done(e);
    dtd_job_fail(js, j, problem);
}

bool dtd_job_cancel(struct dtd_jobs *js, struct dtd_job *j, const char *why)
{
    if (dtd_state_final(j->state))
        return false;
    struct dt_err e = {0};
    dt_err_set(&e, DT_E_CANCELLED, "%s", why);
    j->problem = dt_problem_json(&e);
    dt_err_done(&e);
    jobs_enter(js, j, DTD_CANCELLED);
    return true;
}

void dtd_job_watch(struct dtd_job *j, struct dtd_watch *w)
{
    assert(!w->job);
    w->job = j;
    w->next = j->watch;
    j->watch = w;
}

void dtd_job_unwatch(struct dtd_jobs *js, struct dtd_watch *w)
{
    struct dtd_job *j = w->job;
    if (!j)
        return;
    struct dtd_watch **p = &j->watch;
    while (*p != w)
        p = &(*p)->next;
    *p = w->next;
    w->job = NULL;
}

const struct dtd_event *dtd_job_event_after(const struct dtd_job *j, uint64_t seq)
{
    for (unsigned i = 0; i < j->nevent; i++) {
        const struct dtd_event *ev = &j->event[(j->first + i) % DTD_MAX_EVENTS];
        if (ev->seq > seq)
            return ev;
    }
    return NULL;
}

static bool jobs_put(json_t *o, const char *name, json_t *v) { return json_object_set_new(o, name, v) == 0; }

json_t *dtd_job_json(const struct dtd_job *j)
{
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:i, s:b}", "id", j->id, "state", state_names[j->state], "want",
                          j->want, "device", j->device, "posts", (int)j->posts, "durable", (int)j->durable);
    json_t *links = json_object();
    if (!o || !links) {
        json_decref(o);
        json_decref(links);
        return NULL;
    }
    bool ok = jobs_put(o, "created", time_json(j->created_ms));
    if (*j->trace)
        ok &= jobs_put(o, "trace", json_string(j->trace));
    if (j->started_ms)
        ok &= jobs_put(o, "started", time_json(j->started_ms));
    if (j->finished_ms)
        ok &= jobs_put(o, "finished", time_json(j->finished_ms));
    if (j->turns)
        ok &= jobs_put(o, "turns_lost", json_integer(j->turns));
    ok &= jobs_put(o, "events", json_integer((json_int_t)j->seq));
    if (j->progress)
        ok &= jobs_put(o, "progress", parsed(j->progress));
    if (*j->cache)
        ok &= jobs_put(o, "cache", json_string(j->cache));
    if (*j->digest)
        ok &= jobs_put(o, "digest", json_string(j->digest));
    if (*j->signature)
        ok &= jobs_put(o, "signature", json_string(j->signature));
    if (dtd_job_problem(j))
        ok &= jobs_put(o, "problem", parsed(dtd_job_problem(j)));
    ok &= jobs_put(links, "self", json_sprintf("/v1/jobs/%s", j->id));
    ok &= jobs_put(links, "events", json_sprintf("/v1/jobs/%s/events", j->id));
    if (j->state == DTD_DONE)
        ok &= jobs_put(links, "result", json_sprintf("/v1/jobs/%s/result", j->id));
    if (j->state == DTD_DONE && *j->signature && (!strcmp(j->want, "plan") || !strcmp(j->want, "analysis")))
        ok &= jobs_put(links, "document",
                       json_sprintf("/v1/%s/%s", !strcmp(j->want, "plan") ? "plans" : "analyses", j->signature));
    ok &= jobs_put(o, "links", links);
    if (ok)
        return o;
    json_decref(o);
    return NULL; /* a job that lacks what it has is another answer than it should be */
}
