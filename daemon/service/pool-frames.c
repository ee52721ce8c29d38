/* What a worker says: its frames, and whether it may say that.
 *
 * A worker beats: a thread of its own sends a frame every DTD_BEAT_MS. One from which nothing came for worker_silence
 * seconds is stopped or stuck, and is killed; so is one that says for as long that it waits for a request, and has one.
 *
 * Whatever a worker sends is bounded (most()) and checked. Beats apart, a worker may speak only when it was asked, and
 * each frame must repeat the request's number. Progress is allowed for jobs only. An error must have a code of
 * base/err.def, and an answer must have its members. A worker that breaks one of these rules is killed, and the log
 * says which. A job that it had not begun goes to the next worker; a job that it had begun fails. A problem document
 * is made anew out of the worker's words.
 *
 * A worker may ask what the cluster has (share.c answers, by worker_tell), one question at a time, while it has a job.
 *
 * The body of an 'R' frame starts with the small members and ends with "document". The document is passed on as it is:
 * parsing hundreds of megabytes would hold up the loop's thread.
 */
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/wire.h"
#include "daemon/shared/shared.h"
#include "daemon/service/pool-priv.h"
#include "daemon/service/share.h"
#include "daemon/service/travel.h"

#define BEAT_MAX 256
#define QUESTION_MAX 65536
#define PROGRESS_MAX 65536
#define SMALL_MAX (1u << 20)    /* answers to `devices` and `ping` */
#define PROBLEM_MAX (64u << 20) /* a compile log in JSON */

static void forget_body(struct dtd_worker *w)
{
    free(w->body);
    w->body = NULL;
}

static void become_idle(struct dtd_worker *w)
{
    forget_body(w);
    uv_timer_stop(&w->watch);
    if (!w->exited)
        uv_timer_stop(&w->timer);
    w->state = WORKER_IDLE;
    w->idle = uv_now(w->pool->service->loop);
    if (w->pool->stopping || w->exited)
        worker_end(w);
}

/* Split {"cache":…,"signature":…,"digest":…,"document":{…}} into its small part, parsed, and the document's bytes. */
static json_t *split_result(const char *body, size_t len, const char **doc, size_t *doc_len, bool *starved)
{
    static const char mark[] = ",\"document\":";
    size_t look = len < 1024 ? len : 1024;
    const char *at = memmem(body, look, mark, sizeof mark - 1);
    if (!at || body[len - 1] != '}')
        return NULL;
    struct dt_str head = {0};
    dt_str_addn(&head, body, (size_t)(at - body));
    dt_str_addc(&head, '}');
    json_t *o = NULL;
    *starved = head.failed || dt_json_load(head.s, head.len, &o, NULL) == DT_E_NOMEM;
    dt_str_done(&head);
    *doc = at + sizeof mark - 1;
    *doc_len = len - (size_t)(*doc - body) - 1;
    return o;
}

/* What the small part must be: it ends up in documents, headers and queries. */
static bool plain_head(const json_t *o)
{
    const char *sum[] = {json_string_value(json_object_get(o, "signature")),
                         json_string_value(json_object_get(o, "digest"))};
    const char *cache = json_string_value(json_object_get(o, "cache"));
    bool ok = cache && (!strcmp(cache, "hit") || !strcmp(cache, "miss") || !strcmp(cache, "shared"));
    for (int k = 0; k < 2 && ok; k++)
        ok = sum[k] && (!*sum[k] || dt_sha256_ok(sum[k]));
    return ok;
}

/* One line of the log: what this worker cannot do any more. */
static void say_confinement(const struct dtd_worker *w)
{
    const struct dtd_device *d = dtd_pool_device(w->pool, w->device);
    const json_t *c = d ? d->confinement : NULL, *own = json_object_get(c, "worker"),
                 *child = json_object_get(c, "compiler");
    dt_log(DT_LOG_INFO,
           "worker %d (%s): confine = %.10s, Landlock %d; files %.12s, system calls %.12s; compilers: files %.12s, "
           "system calls %.12s",
           (int)w->process.pid, w->device, dt_json_text(c, "mode"),
           (int)json_integer_value(json_object_get(c, "landlock")), dt_json_text(own, "files"),
           dt_json_text(own, "calls"), dt_json_text(child, "files"), dt_json_text(child, "calls"));
}

static void got_result(struct dtd_worker *w, const char *body, size_t len)
{
    struct dtd_pool *p = w->pool;
    const char *doc = NULL;
    size_t ndoc = 0;
    bool starved = false;
    json_t *head = split_result(body, len, &doc, &ndoc, &starved);
    if (starved) {
        w->why_num = DT_E_NOMEM;
        worker_kill(w, DTD_END_EXIT, "out of memory for its answer");
        return;
    }
    if (!head || !plain_head(head) || ndoc < 2 || doc[0] != '{' || doc[ndoc - 1] != '}') {
        worker_broke(w, "its answer has no document, or no cache, signature and digest before it");
        json_decref(head);
        return;
    }
    if (w->state == WORKER_STARTING) {
        json_t *o = NULL;
        dt_json_load(doc, ndoc, &o, NULL);
        int r = o ? pool_learn(p, w->device, o) : DT_E_INTERNAL;
        json_decref(o);
        if (r < 0) {
            worker_broke(w, "its first answer is not understood");
        } else {
            w->hello = true;
            say_confinement(w);
            p->restart_ms = RESTART_MIN_MS;
            become_idle(w);
            pool_answer_pings(p, true, "ready");
            if (p->ready && !w->aside && !strcmp(w->device, p->service->cfg.device)) {
                void (*ready)(struct dtd_service *, struct dt_err *) = p->ready;
                p->ready = NULL;
                ready(p->service, NULL);
            }
        }
    } else if (w->state == WORKER_PINGING) {
        become_idle(w);
        pool_answer_pings(p, true, "ready");
    } else {
        struct dtd_job *j = w->job;
        char *copy = dt_malloc(ndoc + 1);
        dtd_share_left(p->service->share, w, true);
        if (w->shares)
            dtd_travel_put(p->service, dt_json_text(head, "digest"));
        w->shares = false;
        worker_count(w, j);
        w->job = NULL;
        become_idle(w);
        if (copy) {
            memcpy(copy, doc, ndoc);
            copy[ndoc] = 0;
            dtd_finish(p->service, j, dt_json_text(head, "cache"), dt_json_text(head, "signature"),
                       dt_json_text(head, "digest"), dt_json_text(head, "generation"), copy, ndoc);
        } else {
            struct dt_err e = {0};
            dt_err_set(&e, DT_E_NOMEM, "out of memory for a result of %zu bytes", ndoc);
            dtd_job_fail_err(&p->service->jobs, j, &e);
        }
    }
    json_decref(head);
}

static char *copy_of(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? dt_strdup(s) : NULL;
}

static void got_error(struct dtd_worker *w, const char *body, size_t len)
{
    struct dtd_pool *p = w->pool;
    json_t *o = NULL;
    bool starved = dt_json_load(body, len, &o, NULL) == DT_E_NOMEM;
    const char *code = starved ? dt_err_code(DT_E_NOMEM) : json_string_value(json_object_get(o, "code"));
    int num = code ? dt_err_from_code(code) : DT_E_INTERNAL;
    if (!code || strcmp(dt_err_code(num), code)) {
        worker_broke(w, "its error has no code that there is");
    } else if (w->state == WORKER_STARTING) {
        dt_err_set(&w->refusal, num, "%s", dt_json_text(o, "detail"));
        worker_end(w);
    } else if (w->state == WORKER_PINGING) {
        dt_log(DT_LOG_WARN, "worker %d (%s): its device does not answer: %s", (int)w->process.pid, w->device, code);
        worker_kill(w, DTD_END_DEVICE, "its device does not answer");
    } else {
        struct dtd_job *j = w->job;
        struct dt_err e = {
            .num = num, .detail = copy_of(o, "detail"), .pointer = copy_of(o, "pointer"), .log = copy_of(o, "log")};
        w->job = NULL;
        dtd_share_left(p->service->share, w, false);
        forget_body(w);
        if (dtd_error_ends_worker(num)) { /* it ends by itself: no job may be given to it */
            w->end = DTD_END_DEVICE;
            worker_end(w);
        } else
            become_idle(w);
        worker_count(w, j);
        dtd_log_job(DT_LOG_INFO, j, NULL, "%s",
                    dt_err_code(num)); /* the detail may quote the poster's text: not for the log */
        dtd_job_fail_err(&p->service->jobs, j, &e);
    }
    json_decref(o);
}

static void got_progress(struct dtd_worker *w, const char *body, size_t len)
{
    json_t *o = NULL;
    if (dt_json_load(body, len, &o, NULL) == DT_E_NOMEM)
        return;
    json_int_t done = json_integer_value(json_object_get(o, "done")), of = json_integer_value(json_object_get(o, "of"));
    if (!*dt_json_text(o, "stage") || done < 0 || of < 0 || done > INT_MAX || of > INT_MAX)
        worker_broke(w, "its progress is not understood");
    else {
        dtd_spent_enter(&w->spent, dtd_stage_of(dt_json_text(o, "stage")), uv_hrtime());
        dtd_job_progress(&w->pool->service->jobs, w->job, dt_json_text(o, "stage"), dt_json_text(o, "message"),
                         (unsigned)done, (unsigned)of);
    }
    json_decref(o);
}

/* The longest frame of this type that it may send now, 0: none. */
static size_t most(const struct dtd_worker *w, char type)
{
    bool busy = w->state == WORKER_BUSY, asked = busy || w->state == WORKER_STARTING || w->state == WORKER_PINGING;
    switch (type) {
    case 'B': return BEAT_MAX;
    case 'P': return busy ? PROGRESS_MAX : 0;
    case DT_WIRE_ASK: return busy ? QUESTION_MAX : 0;
    case 'E': return asked ? PROBLEM_MAX : 0;
    case 'R': return busy ? (size_t)DT_WIRE_MAX + 4 : asked ? SMALL_MAX : 0;
    default: return 0;
    }
}

static void got_question(struct dtd_worker *w, const char *body, size_t len)
{
    json_t *o = NULL;
    if (dt_json_load(body, len, &o, NULL) == DT_E_NOMEM)
        worker_tell(w, NULL);
    else if (!dtd_share_ask(w->pool->service->share, w, o))
        worker_broke(w, "its question to the cluster is not understood");
    json_decref(o);
}

struct telling { /* on its way */
    uv_write_t w;
    struct dtd_worker *worker;
    char *body;
    unsigned char head[DT_WIRE_HEAD];
};

static void on_told(uv_write_t *r, int status)
{
    struct telling *t = r->data;
    if (status < 0 && status != UV_ECANCELED)
        worker_broke(t->worker, "it does not take answers any more");
    free(t->body);
    free(t);
}

void worker_tell(struct dtd_worker *w, json_t *answer)
{
    struct telling *t = answer ? dt_malloc(sizeof *t) : NULL;
    char *body = t ? dt_json_dumps(answer, JSON_COMPACT) : NULL;
    json_decref(answer);
    if (!body) {
        free(t);
        w->why_num = DT_E_NOMEM;
        worker_kill(w, DTD_END_EXIT, "out of memory for an answer to it");
        return;
    }
    size_t len = strlen(body);
    t->worker = w;
    t->body = body;
    t->w.data = t;
    dt_wire_head(t->head, DT_WIRE_TELL, w->number, len);
    uv_buf_t b[2] = {uv_buf_init((char *)t->head, DT_WIRE_HEAD), uv_buf_init(body, (unsigned)len)};
    if (uv_write(&t->w, (uv_stream_t *)&w->in, b, 2, on_told) < 0) {
        free(body);
        free(t);
        worker_kill(w, DTD_END_EXIT, "its pipe is closed");
    }
}

/* It has its request for long, and says again and again that it waits for one: whichever side lost it, that job would
 * hold up all others until its time is over. */
static void look_apart(struct dtd_worker *w, const json_t *at)
{
    uint64_t now = uv_now(w->pool->service->loop);
    if (w->state != WORKER_BUSY || !w->body || !json_is_integer(at) || json_integer_value(at) == w->number)
        w->apart = 0;
    else if (!w->apart)
        w->apart = now;
    else if (now - w->apart >= (uint64_t)w->pool->service->cfg.worker_silence * 1000)
        worker_broke(w, "it waits for a request, and was given one");
}

/* A sign of life, with the figures that the worker has counted so far. */
static void got_beat(struct dtd_worker *w, const char *body, size_t len)
{
    json_t *o = NULL;
    if (dt_json_load(body, len, &o, NULL) == DT_E_NOMEM)
        return; /* a sign of life all the same; the next one has the figures, too */
    json_int_t unwritten = json_integer_value(json_object_get(o, "failed_writes")),
               damaged = json_integer_value(json_object_get(o, "damaged"));
    if (!o || unwritten < (json_int_t)w->said.failed_writes || damaged < (json_int_t)w->said.damaged) {
        worker_broke(w, "its sign of life is not understood");
    } else {
        w->pool->count.failed_writes += (uint64_t)unwritten - w->said.failed_writes;
        w->pool->count.damaged += (uint64_t)damaged - w->said.damaged;
        w->said = (struct cache_counts){(uint64_t)unwritten, (uint64_t)damaged};
        look_apart(w, json_object_get(o, "request"));
    }
    json_decref(o);
}

void worker_look(struct dtd_worker *w, uint64_t now)
{
    /* until it is heard for the first time, start_timeout bounds it */
    if (w->state != WORKER_ENDING && w->heard && now - w->heard > (uint64_t)w->pool->service->cfg.worker_silence * 1000)
        worker_kill(w, DTD_END_SILENT, "it gave no sign of life");
}

/* One whole frame. */
static void pool_worker_take(struct dtd_worker *w, char type, const char *body, size_t len)
{
    if (type == 'B') {
        got_beat(w, body, len);
        return;
    }
    if (w->job && w->job->state == DTD_QUEUED)
        worker_begin(w); /* it answers: it has taken the request */
    if (type == 'P')
        got_progress(w, body, len);
    else if (type == DT_WIRE_ASK)
        got_question(w, body, len);
    else if (type == 'R')
        got_result(w, body, len);
    else
        got_error(w, body, len);
}

/* Take whole frames off w->frame. */
static void take_frames(struct dtd_worker *w)
{
    size_t at = 0;
    while (w->frame.len - at >= DT_WIRE_HEAD && w->state != WORKER_ENDING) {
        const char *f = w->frame.s + at;
        const unsigned char *head = (const unsigned char *)f;
        char type = dt_wire_type(head);
        if (w->state == WORKER_IDLE && type != 'B')
            break;
        size_t n = dt_wire_frame_size(head);
        if (!n || n > most(w, type)) {
            worker_broke(w, "it broke the protocol: a frame that it may not send now, or too long");
        } else if (dt_wire_number(head) != (type == 'B' ? 0 : w->number)) {
            worker_broke(w, "it broke the protocol: an answer to another request");
        } else if (w->frame.len - at < n) {
            break;
        } else {
            char after = f[n]; /* the string is NUL-terminated, so f[n] exists: make the body one for a moment */
            w->frame.s[at + n] = 0;
            pool_worker_take(w, type, f + DT_WIRE_HEAD, n - DT_WIRE_HEAD);
            w->frame.s[at + n] = after;
            at += n;
        }
    }
    if (w->state == WORKER_IDLE && w->frame.len > at + 4 && w->frame.s[at + 4] != 'B')
        worker_broke(w, "it broke the protocol: it spoke without a request");
    if (w->state == WORKER_ENDING)
        at = w->frame.len;
    if (at) /* not for each piece of a long frame */
        memmove(w->frame.s, w->frame.s + at, w->frame.len - at + 1);
    w->frame.len -= at;
    if (!w->frame.len && w->frame.cap > (1u << 20))
        dt_str_done(&w->frame);
}

void worker_take(struct dtd_worker *w, const char *p, size_t n)
{
    dt_str_addn(&w->frame, p, n);
    if (w->frame.failed) {
        dt_str_done(&w->frame);
        worker_kill(w, DTD_END_EXIT, "out of memory for its answer");
    } else if (w->frame.len) {
        take_frames(w);
    }
}
