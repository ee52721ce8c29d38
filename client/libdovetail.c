/* The library's entry points: see dovetail.h. Each is one or a few HTTP exchanges (http.c); a problem that arises
 * in the library gets the same form as one of the service, so that a caller reads one kind of document.
 */
#include "client/dovetail.h"

#include <ctype.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/wire.h"
#include "client/http.h"

#define SILENCE_S 60
#define PATIENCE_S 30 /* how long a post waits for a service that starts */

struct dovetail {
    char *socket;
    char *problem;
};

static bool somebody_listens(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path)
        return false;
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

int dovetail_open(const char *path, struct dovetail **ret)
{
    struct dovetail *d = dt_calloc(1, sizeof *d);
    const char *env = getenv("DOVETAIL_SOCKET"), *dir = getenv("XDG_RUNTIME_DIR");
    if (!d)
        return DOVETAIL_E_MEMORY;
    if (path || (env && *env)) {
        d->socket = dt_strdup(path ? path : env);
    } else {
        if (dir && *dir && asprintf(&d->socket, "%s/dovetail.sock", dir) < 0)
            d->socket = NULL;
        if (!d->socket || !somebody_listens(d->socket)) {
            free(d->socket);
            d->socket = dt_strdup("/run/dovetail/dovetail.sock");
        }
    }
    if (!d->socket) {
        free(d);
        return DOVETAIL_E_MEMORY;
    }
    *ret = d;
    return 0;
}

void dovetail_close(struct dovetail *d)
{
    if (!d)
        return;
    free(d->socket);
    free(d->problem);
    free(d);
}

const char *dovetail_socket(const struct dovetail *d) { return d->socket; }
const char *dovetail_problem(const struct dovetail *d) { return d->problem; }
const char *dovetail_version(void) { return DOVETAIL_VERSION; }

void dovetail_reply_done(struct dovetail_reply *r)
{
    free(r->body);
    free(r->content_type);
    free(r->location);
    free(r->cache);
    free(r->signature);
    free(r->digest);
    memset(r, 0, sizeof *r);
}

void dovetail_result_done(struct dovetail_result *r)
{
    free(r->document);
    free(r->cache);
    free(r->signature);
    free(r->digest);
    free(r->job);
    memset(r, 0, sizeof *r);
}

/* Keep a problem of this side; empties e. */
static int fail(struct dovetail *d, struct dt_err *e)
{
    int r = e->num == DT_E_NOMEM        ? DOVETAIL_E_MEMORY
            : e->num == DT_E_NO_SERVICE ? DOVETAIL_E_SERVICE
                                        : DOVETAIL_E_PROTOCOL;
    free(d->problem);
    d->problem = dt_problem_json(e);
    dt_err_done(e);
    return r;
}

static int fail_text(struct dovetail *d, int num, const char *text)
{
    struct dt_err e = {0};
    dt_err_set(&e, num, "%s", text);
    return fail(d, &e);
}

/* Keep the service's problem document; takes it. */
static int libdovetail_refused(struct dovetail *d, char *problem)
{
    json_t *o = problem ? json_loads(problem, 0, NULL) : NULL;
    bool ok = json_is_string(json_object_get(o, "code"));
    json_decref(o);
    if (!ok) {
        free(problem);
        return fail_text(d, DT_E_IO, "the service refused without saying why");
    }
    free(d->problem);
    d->problem = problem;
    return DOVETAIL_E_REFUSED;
}

static int refused_reply(struct dovetail *d, struct dovetail_reply *r)
{
    char *body = r->body;
    r->body = NULL;
    dovetail_reply_done(r);
    return libdovetail_refused(d, body);
}

static bool clean_path(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s <= ' ' || *s == 127)
            return false;
    return true;
}

/* The service starts, or is about to be replaced: it did not look at the post. */
static bool unavailable(const struct dovetail_reply *r)
{
    json_t *o = r->status == 503 && r->body ? json_loads(r->body, 0, NULL) : NULL;
    const char *code = json_string_value(json_object_get(o, "code"));
    bool yes = code && !strcmp(code, dt_err_code(DT_E_UNAVAILABLE));
    json_decref(o);
    return yes;
}

static int exchange(struct dovetail *d, const char *method, const char *path, const void *body, size_t len, int silence,
                    void (*line)(char *, size_t, void *), void *user, struct dovetail_reply *ret)
{
    struct dt_err e = {0};
    if (!clean_path(path) || !clean_path(method))
        return fail_text(d, DT_E_USAGE, "method and path must not hold spaces or control characters");
    for (int tries = 1;; tries++) {
        if (client_http(d->socket, method, path, body, len, silence, line, user, ret, &e) < 0)
            return fail(d, &e);
        if (strcmp(method, "POST") || !unavailable(ret) || tries == PATIENCE_S)
            return 0;
        dovetail_reply_done(ret);
        sleep(1);
    }
}

int dovetail_request(struct dovetail *d, const char *method, const char *path, const void *body, size_t len,
                     struct dovetail_reply *ret)
{
    return exchange(d, method, path, body, len, SILENCE_S, NULL, NULL, ret);
}

static char *libdovetail_take(char **p)
{
    char *s = *p;
    *p = NULL;
    return s;
}

int dovetail_post(struct dovetail *d, const char *want, const char *query, const void *graph, size_t len,
                  struct dovetail_result *ret)
{
    struct dovetail_reply r = {0};
    char *path;
    if (asprintf(&path, "/v1/jobs?want=%s%s%s", want, query && *query ? "&" : "", query ? query : "") < 0)
        return fail_text(d, DT_E_NOMEM, "out of memory");
    int n = exchange(d, "POST", path, graph, len, SILENCE_S, NULL, NULL, &r);
    free(path);
    if (n < 0)
        return n;
    if (r.status == 200) {
        *ret = (struct dovetail_result){.document = libdovetail_take(&r.body),
                                        .len = r.len,
                                        .cache = libdovetail_take(&r.cache),
                                        .signature = libdovetail_take(&r.signature),
                                        .digest = libdovetail_take(&r.digest)};
    } else if (r.status == 202) {
        json_t *o = json_loads(r.body, 0, NULL);
        const char *id = json_string_value(json_object_get(o, "id"));
        char *job = id ? dt_strdup(id) : NULL;
        json_decref(o);
        if (!job) {
            dovetail_reply_done(&r);
            return fail_text(d, DT_E_IO, "the service took the job without naming it");
        }
        *ret = (struct dovetail_result){.job = job};
    } else {
        return refused_reply(d, &r);
    }
    dovetail_reply_done(&r);
    return 0;
}

struct follower {
    dovetail_event_fn event;
    void *user;
    bool final;
    char *problem;
    long long seq;
};

static void on_line(char *line, size_t len, void *user)
{
    struct follower *f = user;
    json_t *o = json_loadb(line, len, 0, NULL);
    const char *what = json_string_value(json_object_get(o, "event"));
    if (what) {
        f->seq = json_integer_value(json_object_get(o, "seq"));
        f->final = !strcmp(what, "done") || !strcmp(what, "failed") || !strcmp(what, "cancelled");
        json_t *p = json_object_get(o, "problem");
        if (p) {
            free(f->problem);
            f->problem = json_dumps(p, JSON_COMPACT);
        }
        if (f->event)
            f->event(line, f->user);
    }
    json_decref(o);
}

int dovetail_follow(struct dovetail *d, const char *job, dovetail_event_fn event, void *user)
{
    struct follower f = {.event = event, .user = user};
    struct dovetail_reply r = {0};
    int n = 0;
    for (int tries = 0; !f.final && tries < 3; tries++) { /* a stream that broke off is resumed behind its last event */
        char path[160];
        if (strlen(job) > 64)
            return fail_text(d, DT_E_NOT_FOUND, "this is no job");
        snprintf(path, sizeof path, "/v1/jobs/%s/events?after=%lld", job, f.seq);
        long long before = f.seq;
        n = exchange(d, "GET", path, NULL, 0, 0, on_line, &f, &r);
        if (!n && r.status != 200)
            return refused_reply(d, &r);
        dovetail_reply_done(&r);
        if (f.seq > before)
            tries = 0;
        if (n < 0 && n != DOVETAIL_E_SERVICE)
            break;
    }
    if (!f.final)
        return n < 0 ? n : fail_text(d, DT_E_NO_SERVICE, "the events ended before the job");
    return f.problem ? libdovetail_refused(d, f.problem) : 0;
}

int dovetail_fetch(struct dovetail *d, const char *job, struct dovetail_result *ret)
{
    struct dovetail_reply r = {0}, s = {0};
    char path[160];
    if (strlen(job) > 64)
        return fail_text(d, DT_E_NOT_FOUND, "this is no job");
    snprintf(path, sizeof path, "/v1/jobs/%s/result", job);
    int n = dovetail_request(d, "GET", path, NULL, 0, &r);
    if (n < 0)
        return n;
    if (r.status != 200)
        return refused_reply(d, &r);
    snprintf(path, sizeof path, "/v1/jobs/%s", job);
    struct dovetail_result out = {.document = libdovetail_take(&r.body),
                                  .len = r.len,
                                  .cache = libdovetail_take(&r.cache),
                                  .job = dt_strdup(job)};
    dovetail_reply_done(&r);
    if (!dovetail_request(d, "GET", path, NULL, 0, &s) && s.status == 200) {
        json_t *o = json_loads(s.body, 0, NULL);
        const char *sig = json_string_value(json_object_get(o, "signature"));
        const char *dig = json_string_value(json_object_get(o, "digest"));
        out.signature = sig ? dt_strdup(sig) : NULL;
        out.digest = dig ? dt_strdup(dig) : NULL;
        json_decref(o);
    }
    dovetail_reply_done(&s);
    *ret = out;
    return 0;
}

int dovetail_submit(struct dovetail *d, const char *want, const char *query, const void *graph, size_t len,
                    dovetail_event_fn event, void *user, struct dovetail_result *ret)
{
    struct dovetail_result r = {0};
    int n = dovetail_post(d, want, query, graph, len, &r);
    if (!n && r.job) {
        n = dovetail_follow(d, r.job, event, user);
        if (!n) {
            char *job = libdovetail_take(&r.job);
            n = dovetail_fetch(d, job, &r);
            free(job);
        }
    }
    if (n < 0) {
        dovetail_result_done(&r);
        return n;
    }
    *ret = r;
    return 0;
}

int dovetail_cancel(struct dovetail *d, const char *job)
{
    struct dovetail_reply r = {0};
    char path[160];
    if (strlen(job) > 64)
        return fail_text(d, DT_E_NOT_FOUND, "this is no job");
    snprintf(path, sizeof path, "/v1/jobs/%s", job);
    int n = dovetail_request(d, "DELETE", path, NULL, 0, &r);
    if (n < 0)
        return n;
    if (r.status != 200)
        return refused_reply(d, &r);
    dovetail_reply_done(&r);
    return 0;
}

static void add_escaped(struct dt_str *to, const char *s)
{
    for (; *s; s++)
        if (isalnum((unsigned char)*s) || *s == ':' || *s == '-' || *s == '.')
            dt_str_addc(to, *s);
        else
            dt_str_addf(to, "%%%02x", (unsigned char)*s);
}

int dovetail_find(struct dovetail *d, const char *want, const char *signature, const char *device,
                  struct dovetail_result *ret)
{
    struct dovetail_reply r = {0};
    struct dt_str path = {0};
    dt_str_addf(&path, "/v1/%s/", !strcmp(want, "plan") ? "plans" : "analyses");
    add_escaped(&path, signature);
    if (device) {
        dt_str_add(&path, "?device=");
        add_escaped(&path, device);
    }
    int n = path.failed ? fail_text(d, DT_E_NOMEM, "out of memory") : dovetail_request(d, "GET", path.s, NULL, 0, &r);
    dt_str_done(&path);
    if (n < 0)
        return n;
    if (r.status != 200)
        return refused_reply(d, &r);
    *ret = (struct dovetail_result){.document = libdovetail_take(&r.body),
                                    .len = r.len,
                                    .cache = dt_strdup("hit"),
                                    .signature = dt_strdup(signature)};
    dovetail_reply_done(&r);
    return 0;
}
