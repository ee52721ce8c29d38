/* The HTTP server: accepting, reading, limits and time-outs. Bytes become requests in http-parse.c and http-head.c,
 * replies are in http-reply.c.
 *
 * When a request is complete it is handed to `serve`, and bytes that arrive meanwhile wait in `pending` (at most
 * PENDING_MAX, then reading stops). So a connection has one request at a time, and a reply never overtakes another.
 *
 * Limits: see http-parse.c and, for what one user may hold, http-account.c. Over the limit of connections a few more
 * are accepted, on which only what is vital is answered (hook `vital`: health and metrics), so that a full service can
 * still be asked how it is. Time: a request must be complete within request_ms of its first byte, so a client that
 * dribbles cannot hold a connection; an idle one is closed after idle_ms. A broken request is answered once, then the
 * connection ends.
 *
 * Not here: TLS, HTTP/2, pipelined execution, ranges, compression.
 */
#include "daemon/service/http-priv.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/wire.h"

#define PENDING_MAX (64u << 10)
#define LINGER_MS 2000
#define GONE_MS 1000     /* how often it is looked whether a client that waits is still there */
#define RESERVED 8       /* connections over the limit, for what is vital */
#define RESERVED_MS 2000 /* until the request is there */

static void on_timer(uv_timer_t *t);
static void process(struct dtd_conn *c);
static bool next_request(struct dtd_conn *c);

void conn_timer(struct dtd_conn *c, unsigned ms)
{
    c->waits = false;
    if (c->state != CONN_CLOSED)
        uv_timer_start(&c->timer, on_timer, ms, 0);
}

/* Ready for the next request of the connection. */
static void reset_request(struct dtd_conn *c)
{
    dtd_account_sub(c->account, c->counted);
    c->counted = 0;
    dt_err_done(&c->err);
    dt_sha256_done(&c->sha);
    c->scan = (struct dtd_scan){0};
    c->rule = (struct dtd_body_rule){.max = c->http->limit.max_body};
    free(c->path);
    c->path = c->query = NULL;
    free(c->req.body);
    dt_str_done(&c->body);
    dtd_fields_done(&c->fields);
    c->lines = (struct dtd_lines){0};
    c->extensions = 0;
    c->url.len = 0;
    c->complete = c->headers_done = c->begun = c->streaming = c->chunked = c->head_only = c->late = false;
    c->broken = 0;
    c->req = (struct dtd_req){.conn = c, .user = c->http->user, .query = (char *)""};
}

static void http_on_closed(uv_handle_t *h)
{
    struct dtd_conn *c = h->data;
    if (--c->handles)
        return;
    struct dtd_http *s = c->http;
    *(c->prev ? &c->prev->next : &s->conns) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    reset_request(c);
    s->count.connections--;
    (c->reserved ? &s->reserved : &s->ordinary)[0]--;
    (c->reserved ? &c->account->reserved : &c->account->connections)[0]--;
    dtd_account_put(c->account);
    dt_str_done(&c->url);
    dt_str_done(&c->pending);
    free(c);
}

void conn_close(struct dtd_conn *c)
{
    if (c->state == CONN_CLOSED)
        return;
    enum conn_state was = c->state;
    c->state = CONN_CLOSED;
    conn_answered(c, 0, NULL);
    if (was == CONN_SERVING && c->req.gone) {
        void (*gone)(struct dtd_req *) = c->req.gone;
        c->req.gone = NULL;
        gone(&c->req);
    }
    uv_close((uv_handle_t *)&c->pipe, http_on_closed);
    uv_close((uv_handle_t *)&c->timer, http_on_closed);
}

/* Nothing is read while a request is at work, so its end would only be seen with the reply. A client that has shut its
 * own side and waits for the answer is there: that is no POLLHUP. */
static bool is_gone(struct dtd_conn *c)
{
    uv_os_fd_t fd;
    struct pollfd p = {.events = 0};
    if (uv_fileno((uv_handle_t *)&c->pipe, &fd) < 0)
        return false;
    p.fd = fd;
    return poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLERR);
}

static void look_after(struct dtd_conn *c)
{
    conn_timer(c, GONE_MS);
    c->waits = true;
}

static void on_timer(uv_timer_t *t)
{
    struct dtd_conn *c = t->data;
    if (c->waits && !is_gone(c)) {
        look_after(c);
        return;
    }
    if (c->state == CONN_READING && c->started) {
        struct dt_err e = {0};
        c->started = false;
        c->state = CONN_SERVING;
        c->keep_alive = false;
        dt_err_set(&e, DT_E_TIMEOUT, "the request was not complete within %u seconds",
                   c->http->limit.request_ms / 1000);
        dtd_reply_problem(&c->req, 408, NULL, &e);
        return;
    }
    conn_close(c);
}

const char *dtd_req_header(const struct dtd_req *r, const char *name) { return dtd_fields_get(&r->conn->fields, name); }

/* ---- serving ---------------------------------------------------------------------------------------------------- */
static bool split_target(struct dtd_conn *c)
{
    if (!c->url.len || c->url.failed || c->url.s[0] != '/') {
        /* absolute form, as proxies send it: http://host/path */
        const char *s = c->url.len && !strncmp(c->url.s, "http://", 7) ? strchr(c->url.s + 7, '/') : NULL;
        if (!s)
            return false;
        c->url.len -= (size_t)(s - c->url.s);
        memmove(c->url.s, s, c->url.len + 1);
    }
    size_t n = strcspn(c->url.s, "?#");
    c->path = dt_malloc(c->url.len + 2);
    if (!c->path || !dtd_url_decode(c->url.s, n, false, c->path, n + 1))
        return false;
    c->query = c->path + n + 1;
    const char *q = c->url.s + n;
    size_t nq = *q == '?' ? strcspn(q + 1, "#") : 0;
    if (nq)
        memcpy(c->query, q + 1, nq);
    c->query[nq] = 0;
    return true;
}

/* What came of the body goes at once. */
static void free_body(struct dtd_conn *c)
{
    dtd_account_sub(c->account, c->counted);
    c->counted = 0;
    dt_str_done(&c->body);
    dt_str_done(&c->pending);
}

static void http_refuse(struct dtd_conn *c, int status, const char *why)
{
    struct dt_err e = {0};
    c->keep_alive = false;
    c->state = CONN_SERVING;
    free_body(c);
    if (status == 429 || status == 503) {
        dtd_reply_later(&c->req, status, why);
        return;
    }
    if (c->err.num)
        dt_err_move(&e, &c->err);
    else
        dt_err_set(&e, status == 413 || status == 431 || status == 414 ? DT_E_TOO_LARGE : DT_E_USAGE, "%s", why);
    dtd_reply_problem(&c->req, status, NULL, &e);
}

/* The header is there: may this be asked for now? False: it has been refused. */
static bool admit(struct dtd_conn *c)
{
    struct dtd_req *r = &c->req;
    const struct dtd_http_hooks *hook = &c->http->hook;
    if (!split_target(c)) {
        bool starved = c->url.failed || (c->url.len && c->url.s[0] == '/' && !c->path);
        http_refuse(c, starved ? 503 : 400, starved ? "out of memory" : "the target is not a path");
        return false;
    }
    r->method = c->method;
    r->path = c->path;
    r->query = c->query;
    bool vital = hook->vital && hook->vital(r);
    int status = vital ? 0 : c->reserved ? c->reserved_for : dtd_account_bytes(c->account, 0);
    if (status)
        http_refuse(
            c, status,
            !c->reserved ? "you hold your share of the memory for bodies and replies already; read what you asked for"
            : status == 429 ? "you have your share of the connections already"
                            : "there are too many connections; only health and metrics are answered on this one");
    c->http->count.over_share += status == 429;
    return !status;
}

static void on_continue(uv_write_t *w, int status) { free(w); }

static void send_continue(struct dtd_conn *c)
{
    uv_write_t *w = dt_malloc(sizeof *w);
    uv_buf_t b = uv_buf_init((char *)"HTTP/1.1 100 Continue\r\n\r\n", 25);
    if (!w || uv_write(w, (uv_stream_t *)&c->pipe, &b, 1, on_continue) < 0)
        free(w);
}

/* The header of a request with a body is there. False: the request has been answered. */
static bool begin(struct dtd_conn *c)
{
    bool keep = c->keep_alive;
    c->begun = true;
    if (!admit(c))
        return false;
    c->state = CONN_SERVING;
    c->keep_alive = false; /* if it is refused now: the body comes nevertheless */
    if (c->http->hook.begin && !c->http->hook.begin(&c->req, &c->rule))
        return false;
    c->state = CONN_READING;
    if (c->parser.content_length > c->rule.max) {
        http_refuse(c, 413, "the body is larger than this service takes");
        return false;
    }
    c->keep_alive = keep;
    c->late = c->rule.graph && !(c->parser.flags & F_CHUNKED) && c->parser.content_length <= c->rule.late;
    if (c->rule.digest && dt_sha256_init(&c->sha) == 0)
        dt_sha256_addstr(&c->sha, c->query);
    if (dtd_req_header(&c->req, "expect") && c->minor)
        send_continue(c);
    return true;
}

static void weigh(struct dtd_conn *c, size_t len)
{
    c->req.weight = len + (size_t)c->scan.values * DTD_SCAN_VALUE_BYTES;
}

bool dtd_req_scan(struct dtd_req *r, const char *body, size_t len)
{
    struct dtd_conn *c = r->conn;
    int rc = c->late ? dtd_scan_feed(&c->scan, body, len, &c->err) : 0;
    c->late = false;
    weigh(c, len);
    if (rc < 0)
        http_refuse(c, dt_err_http(rc), NULL);
    return rc >= 0;
}

static void serve(struct dtd_conn *c)
{
    struct dtd_req *r = &c->req;
    c->started = false;
    uv_timer_stop(&c->timer);
    if (!c->begun && !admit(c))
        return;
    c->state = CONN_SERVING;
    c->http->count.requests++;
    if (c->sha.ctx)
        dt_sha256_final(&c->sha, r->digest);
    r->body_len = c->body.len;
    weigh(c, c->body.len);
    r->body = dt_str_take(&c->body);
    if (!r->body)
        r->body = dt_strdup("");
    if (!r->body)
        http_refuse(c, 503, "out of memory");
    else
        c->http->serve(r);
    /* an active timer is that of a reply, or of the end of the connection */
    if (c->state == CONN_SERVING && !c->streaming && !c->writes && !uv_is_active((uv_handle_t *)&c->timer))
        look_after(c);
}

/* Feed what is in `pending` to the parser until a request is complete or it is used up. */
static void process_one(struct dtd_conn *c)
{
    if (c->state != CONN_READING)
        return;
    if (!c->pending.len) {
        if (c->eof)
            conn_close(c);
        return;
    }
    if (!c->started) {
        c->started = true;
        conn_timer(c, c->reserved ? RESERVED_MS : c->http->limit.request_ms);
    }
    const char *why = NULL;
    int r;
    while ((r = conn_parse(c, &why)) == 2)
        if (!begin(c))
            return;
    if (r == 1)
        serve(c);
    else if (r)
        http_refuse(c, r, why);
    else if (c->eof)
        conn_close(c); /* half a request */
}

/* Requests one after the other, as long as their replies are written at once: in a loop, since a client may send
 * thousands without waiting. */
static void process(struct dtd_conn *c)
{
    do {
        c->answered = false;
        c->handling = true;
        process_one(c);
        c->handling = false;
    } while (c->answered && next_request(c));
}

static void on_alloc(uv_handle_t *h, size_t want, uv_buf_t *b)
{
    struct dtd_conn *c = h->data;
    *b = uv_buf_init(c->http->chunk, sizeof c->http->chunk);
}

static void http_on_read(uv_stream_t *st, ssize_t n, const uv_buf_t *b)
{
    struct dtd_conn *c = st->data;
    if (n < 0) {
        uv_read_stop(st);
        c->reading = false;
        c->eof = true;
        if (n != UV_EOF || c->state == CONN_LINGER)
            conn_close(c);
        else if (c->state == CONN_READING)
            process(c);
        return;
    }
    if (!n || c->state == CONN_LINGER || c->state == CONN_CLOSED)
        return;
    if (c->state == CONN_SERVING && !c->keep_alive) /* nothing more is answered here */
        return;
    dt_str_addn(&c->pending, b->base, (size_t)n);
    if (c->pending.failed) {
        conn_close(c);
    } else if (c->state == CONN_READING) {
        process(c);
    } else if (c->pending.len > PENDING_MAX) {
        uv_read_stop(st);
        c->reading = false;
    }
}

static void start_reading(struct dtd_conn *c)
{
    if (!c->reading && !c->eof && c->state != CONN_CLOSED) {
        c->reading = uv_read_start((uv_stream_t *)&c->pipe, on_alloc, http_on_read) == 0;
        if (!c->reading)
            conn_close(c);
    }
}

static void on_shutdown(uv_shutdown_t *s, int status) { free(s); }

/* The reply is written. true: the connection takes the next request; false: it ends. */
static bool next_request(struct dtd_conn *c)
{
    if (c->state != CONN_SERVING)
        return false;
    if (c->keep_alive && !c->http->stopping) {
        reset_request(c);
        c->state = CONN_READING;
        conn_timer(c, c->http->limit.idle_ms);
        start_reading(c);
        return true;
    }
    c->req.gone = NULL;
    c->state = CONN_LINGER;
    if (c->eof) {
        conn_close(c);
        return false;
    }
    uv_shutdown_t *s = dt_malloc(sizeof *s);
    if (!s || uv_shutdown(s, (uv_stream_t *)&c->pipe, on_shutdown) < 0) {
        free(s);
        conn_close(c);
        return false;
    }
    conn_timer(c, LINGER_MS);
    start_reading(c);
    return false;
}

void conn_reply_done(struct dtd_conn *c)
{
    if (c->handling)
        c->answered = true; /* process() goes on */
    else if (next_request(c))
        process(c);
}

/* ---- listening -------------------------------------------------------------------------------------------------- */
static void on_connection(uv_stream_t *st, int status);

static void on_spare_closed(uv_handle_t *h)
{
    struct dtd_http *s = h->data;
    s->spare_used = false;
    if (s->waits && s->listening) {
        s->waits = false;
        on_connection((uv_stream_t *)&s->listener, 0);
    }
}

/* There is no memory for a connection, not even to turn it away. It must be taken all the same: libuv waits for that
 * before it looks at the next, for ever. */
static void http_no_memory(struct dtd_http *s)
{
    s->waits |= s->spare_used;
    if (s->spare_used)
        return;
    s->spare_used = true;
    uv_pipe_init(s->loop, &s->spare, 0);
    s->spare.data = s;
    if (!uv_accept((uv_stream_t *)&s->listener, (uv_stream_t *)&s->spare))
        s->count.turned_away++;
    uv_close((uv_handle_t *)&s->spare, on_spare_closed);
}

static void on_turned_away(uv_handle_t *h)
{
    struct dtd_conn *c = h->data;
    if (!--c->handles)
        free(c);
}

/* No connection can be had, not even a reserved one: the refusal is all that the client gets. */
static void turn_away(struct dtd_conn *c)
{
    conn_refuse(c, "{\"type\":\"about:blank\",\"title\":\"too many jobs are waiting\",\"status\":503,"
                   "\"detail\":\"there are too many connections\",\"code\":\"busy\"}\n");
    c->http->count.turned_away++;
    uv_close((uv_handle_t *)&c->timer, on_turned_away);
    uv_close((uv_handle_t *)&c->pipe, on_turned_away);
}

/* One of the reserved connections that have not brought a request yet goes: of the user who has most of them, the
 * oldest. So who floods them turns themselves away. */
static bool evict(struct dtd_http *s)
{
    struct dtd_conn *worst = NULL;
    for (struct dtd_conn *c = s->conns; c; c = c->next)
        if (c->reserved && c->state != CONN_CLOSED && c->state != CONN_SERVING &&
            (!worst || c->account->reserved >= worst->account->reserved))
            worst = c;
    if (worst)
        conn_close(worst);
    return worst;
}

/* The connection counts for its user from now on; false: it cannot be had. */
static bool enter(struct dtd_http *s, struct dtd_conn *c)
{
    c->account = dtd_account_get(s, dtd_conn_uid(&c->pipe));
    if (!c->account)
        return false;
    c->reserved_for = dtd_account_connection(c->account);
    c->reserved = c->reserved_for != 0;
    if (c->reserved && s->reserved >= RESERVED && !evict(s)) {
        dtd_account_put(c->account);
        return false;
    }
    c->next = s->conns;
    if (c->next)
        c->next->prev = c;
    s->conns = c;
    s->count.connections++;
    s->count.accepted++;
    (c->reserved ? &s->reserved : &s->ordinary)[0]++;
    (c->reserved ? &c->account->reserved : &c->account->connections)[0]++;
    return true;
}

static void on_connection(uv_stream_t *st, int status)
{
    struct dtd_http *s = st->data;
    if (status < 0)
        return;
    struct dtd_conn *c = dt_calloc(1, sizeof *c);
    if (!c) {
        http_no_memory(s);
        return;
    }
    c->http = s;
    c->handles = 2;
    uv_pipe_init(s->loop, &c->pipe, 0);
    uv_timer_init(s->loop, &c->timer);
    c->pipe.data = c->timer.data = c;
    if (uv_accept(st, (uv_stream_t *)&c->pipe) < 0 || !enter(s, c)) {
        turn_away(c);
        return;
    }
    llhttp_init(&c->parser, HTTP_REQUEST, &http_settings);
    c->parser.data = c;
    reset_request(c);
    conn_timer(c, c->reserved ? RESERVED_MS : s->limit.idle_ms);
    start_reading(c);
}

void dtd_http_hook(struct dtd_http *s, const struct dtd_http_hooks *hooks) { s->hook = *hooks; }

int dtd_http_new(uv_loop_t *loop, const struct dtd_http_limits *l, void (*fn)(struct dtd_req *), void *user,
                 struct dtd_http **ret, struct dt_err *e)
{
    struct dtd_http *s = dt_calloc(1, sizeof *s);
    if (!s)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    s->loop = loop;
    s->limit = *l;
    s->serve = fn;
    s->user = user;
    *ret = s;
    return 0;
}

/* 0: may be created (a stale file was removed); otherwise an error. */
static int clear_path(const char *path, struct dt_err *e)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : dt_err_set(e, DT_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISSOCK(st.st_mode))
        return dt_err_set(e, DT_E_IO, "%s exists and is no socket", path);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&a, sizeof a), err = errno;
    if (fd >= 0)
        close(fd);
    if (r < 0 && err == ECONNREFUSED && unlink(path) == 0)
        return 0;
    return dt_err_set(e, DT_E_IO, "%s: %s", path,
                      r < 0 && err != EAGAIN ? strerror(err) : "another service listens there");
}

/* libuv says of a folder that is missing that it may not be written (EACCES): asked here, it is the kernel's reason. */
static int has_folder(const char *path, struct dt_err *e)
{
    char dir[sizeof((struct sockaddr_un *)NULL)->sun_path];
    struct stat st;
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (!slash || slash == dir)
        return 0;
    *slash = 0;
    return stat(dir, &st) < 0 ? dt_err_set(e, DT_E_IO, "the folder of the socket %s: %s", path, strerror(errno)) : 0;
}

int dtd_http_listen(struct dtd_http *s, const char *path, struct dt_err *e)
{
    int r = clear_path(path, e);
    r = r ? r : has_folder(path, e);
    if (r < 0)
        return r;
    uv_pipe_init(s->loop, &s->listener, 0);
    s->listener.data = s;
    s->listening = true;
    mode_t old = umask(0117);
    r = uv_pipe_bind(&s->listener, path);
    umask(old);
    if (!r) {
        snprintf(s->path, sizeof s->path, "%s", path);
        r = uv_listen((uv_stream_t *)&s->listener, 128, on_connection);
    }
    return r < 0 ? dt_err_set(e, DT_E_IO, "%s: %s", path, uv_strerror(r)) : 0;
}

int dtd_http_listen_fd(struct dtd_http *s, int fd, struct dt_err *e)
{
    uv_pipe_init(s->loop, &s->listener, 0);
    s->listener.data = s;
    s->listening = true;
    int r = uv_pipe_open(&s->listener, fd);
    if (r < 0)
        close(fd);
    else
        r = uv_listen((uv_stream_t *)&s->listener, 128, on_connection);
    return r < 0 ? dt_err_set(e, DT_E_IO, "the socket that was passed: %s", uv_strerror(r)) : 0;
}

void dtd_http_limit(struct dtd_http *s, const struct dtd_http_limits *l) { s->limit = *l; }

void dtd_http_stop(struct dtd_http *s)
{
    s->stopping = true;
    if (s->listening) {
        s->listening = false;
        if (*s->path)
            unlink(s->path);
        uv_close((uv_handle_t *)&s->listener, NULL);
    }
    struct dtd_conn *next;
    for (struct dtd_conn *c = s->conns; c; c = next) {
        next = c->next;
        if (c->state == CONN_READING && !c->started)
            conn_close(c);
    }
}

void dtd_http_drop(struct dtd_http *s)
{
    struct dtd_conn *next;
    for (struct dtd_conn *c = s->conns; c; c = next) {
        next = c->next;
        conn_close(c);
    }
}

struct dtd_http *dtd_http_free(struct dtd_http *s)
{
    free(s);
    return NULL;
}

const struct dtd_http_counts *dtd_http_counts(const struct dtd_http *s) { return &s->count; }
