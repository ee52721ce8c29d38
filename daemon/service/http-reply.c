/* Replies of the HTTP server: whole ones, problem documents (RFC 9457), and streams.
 *
 * A stream is sent chunked, or to an HTTP/1.0 client plain with the end of the connection as its end. A client that
 * does not read is given request_ms; a handler asks dtd_stream_full() and waits for `drained`, so that what is queued
 * for one connection stays bounded (a whole reply is one buffer that exists anyway).
 */
#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/wire.h"
#include "daemon/service/http-priv.h"

#define STREAM_FULL (256u << 10)
#define SEND_ROOM (1 << 20) /* asked for; the kernel's wmem_max decides */
#define RETRY_S 5           /* when nobody knows better */

struct send {
    uv_write_t w;
    struct dtd_conn *conn;
    char *head, *body;
    void (*release)(void *owner); /* of a body that is shared */
    void *owner;
    size_t bytes; /* of both, in the account */
};

static void send_free(struct send *s)
{
    free(s->head);
    free(s->body);
    if (s->release)
        s->release(s->owner);
    free(s);
}

static void on_sent(uv_write_t *w, int status)
{
    struct send *s = w->data;
    struct dtd_conn *c = s->conn;
    dtd_account_sub(c->account, s->bytes);
    send_free(s);
    c->writes--;
    if (c->state == CONN_CLOSED)
        return;
    if (status < 0) {
        conn_close(c);
    } else if (c->end_after_writes) {
        if (!c->writes) {
            c->end_after_writes = false;
            uv_timer_stop(&c->timer);
            conn_reply_done(c);
        }
    } else {
        if (!c->writes)
            uv_timer_stop(&c->timer);
        if (c->streaming && !dtd_stream_full(&c->req) && c->req.drained)
            c->req.drained(&c->req);
    }
}

/* Write two pieces, both taken. */
static void send_pieces(struct dtd_conn *c, char *head, size_t nhead, char *body, size_t nbody)
{
    struct send *s = c->state != CONN_CLOSED ? dt_malloc(sizeof *s) : NULL;
    uv_buf_t b[2] = {uv_buf_init(head, (unsigned)nhead), uv_buf_init(body, (unsigned)nbody)};
    if (!s || !head) {
        free(s);
        free(head);
        free(body);
        conn_timer(c, 0); /* close, but not under the caller's feet */
        return;
    }
    *s = (struct send){.conn = c, .head = head, .body = body, .bytes = nhead + nbody};
    s->w.data = s;
    c->writes++;
    dtd_account_add(c->account, s->bytes);
    conn_timer(c, c->http->limit.request_ms);
    if (uv_write(&s->w, (uv_stream_t *)&c->pipe, b, nbody ? 2 : 1, on_sent) < 0) {
        c->writes--;
        dtd_account_sub(c->account, s->bytes);
        free(s);
        free(head);
        free(body);
        conn_timer(c, 0);
    }
}

void conn_answered(struct dtd_conn *c, int status, const char *headers)
{
    void (*fn)(struct dtd_req *, int, const char *) = c->req.answered;
    c->req.answered = NULL;
    if (fn)
        fn(&c->req, status, headers);
}

/* A reply begins: what of its head is the connection's. */
static void begin_head(struct dtd_conn *c, int status, const char *headers)
{
    conn_answered(c, status, headers);
    if (status >= 100 && status < 600)
        c->http->count.by_class[status / 100]++;
    if (c->http->stopping || c->reserved)
        c->keep_alive = false;
}

static void add_head(struct dt_str *h, int status, const char *type, const char *headers)
{
    dt_str_addf(h, "HTTP/1.1 %d %s\r\nServer: dovetail/%s\r\n%s", status, dtd_http_reason(status), DOVETAIL_VERSION,
                headers && strstr(headers, "Cache-Control:") ? "" : "Cache-Control: no-store\r\n");
    if (type)
        dt_str_addf(h, "Content-Type: %s\r\n", type);
    if (headers)
        dt_str_add(h, headers);
    if ((status == 503 || status == 429) && !(headers && strstr(headers, "Retry-After:")))
        dt_str_addf(h, "Retry-After: %d\r\n", RETRY_S);
}

static void add_whole_head(struct dt_str *h, int status, const char *type, const char *headers, size_t len)
{
    add_head(h, status, type, headers);
    if (status != 204 && status != 304)
        dt_str_addf(h, "Content-Length: %zu\r\n", len);
}

static void end_head(const struct dtd_conn *c, struct dt_str *h)
{
    dt_str_add(h, c->keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

void dtd_head_make(struct dtd_head *head, int status, const char *type, const char *headers, size_t len)
{
    struct dt_str h = {0};
    add_whole_head(&h, status, type, headers, len);
    head->n = h.failed || h.len > sizeof head->text ? 0 : (unsigned)h.len;
    if (head->n)
        memcpy(head->text, h.s, head->n);
    dt_str_done(&h);
}

/* The head of a whole reply; `made`: what of it is there already, or NULL. */
static struct dt_str whole_head(struct dtd_conn *c, int status, const char *type, const char *headers, size_t len,
                                const struct dtd_head *made)
{
    struct dt_str h = {0};
    c->req.gone = NULL;
    begin_head(c, status, headers);
    if (made)
        dt_str_addn(&h, made->text, made->n);
    else
        add_whole_head(&h, status, type, headers, len);
    end_head(c, &h);
    return h;
}

/* Write what the socket takes without waiting. The body goes from its file if there is one: its pages are lent to the
 * socket, and not copied. Returns the bytes of head and body that are written; errors are left for uv_write to find. */
static size_t write_now(struct dtd_conn *c, const char *head, size_t nhead, const struct dtd_shared *what, size_t nbody)
{
    uv_buf_t b[2] = {uv_buf_init((char *)head, (unsigned)nhead), uv_buf_init((char *)what->body, (unsigned)nbody)};
    bool file = what->file >= 0 && nbody;
    uv_os_fd_t fd;
    int w = c->writes ? 0 : uv_try_write((uv_stream_t *)&c->pipe, b, nbody && !file ? 2 : 1);
    size_t sent = w > 0 ? (size_t)w : 0;
    if (!file || sent < nhead || uv_fileno((uv_handle_t *)&c->pipe, &fd) < 0)
        return sent;
    if (!c->roomy) { /* a whole reply of usual size fits, so that the client need not be waited for */
        int room = SEND_ROOM;
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        c->roomy = true;
    }
    off_t at = 0;
    while ((size_t)at < nbody) {
        ssize_t n = sendfile(fd, what->file, &at, nbody - (size_t)at);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            break;
    }
    return sent + (size_t)at;
}

void dtd_reply_shared(struct dtd_req *r, int status, const char *type, const char *headers,
                      const struct dtd_shared *what)
{
    struct dtd_conn *c = r->conn;
    struct dt_str h = whole_head(c, status, type, headers, what->len, what->head);
    struct send *s = dt_malloc(sizeof *s);
    size_t n = h.len, nbody = c->head_only ? 0 : what->len, sent = 0;
    char *head = dt_str_take(&h);
    if (!s || !head || c->state == CONN_CLOSED) {
        free(head);
        free(s);
        what->release(what->owner);
        conn_timer(c, 0);
        return;
    }
    *s = (struct send){.conn = c, .head = head, .release = what->release, .owner = what->owner};
    sent = write_now(c, head, n, what, nbody);
    if (sent == n + nbody) {
        send_free(s);
        conn_reply_done(c);
        return;
    }
    size_t done = sent > n ? sent - n : 0; /* of the body */
    uv_buf_t b[2] = {uv_buf_init(head + (sent < n ? sent : n), (unsigned)(sent < n ? n - sent : 0)),
                     uv_buf_init((char *)what->body + done, (unsigned)(nbody - done))};
    unsigned skip = sent < n ? 0 : 1;
    s->w.data = s;
    s->bytes = n + nbody - sent; /* the client holds them, though others may hold the same */
    dtd_account_add(c->account, s->bytes);
    c->writes++;
    c->end_after_writes = true;
    conn_timer(c, c->http->limit.request_ms);
    if (uv_write(&s->w, (uv_stream_t *)&c->pipe, b + skip, nbody ? 2 - skip : 1, on_sent) < 0) {
        c->writes--;
        dtd_account_sub(c->account, s->bytes);
        send_free(s);
        conn_timer(c, 0);
    }
}

void conn_refuse(struct dtd_conn *c, const char *problem)
{
    char reply[1024];
    int n = snprintf(reply, sizeof reply,
                     "HTTP/1.1 503 Service Unavailable\r\nServer: dovetail/%s\r\nCache-Control: no-store\r\n"
                     "Content-Type: application/problem+json\r\nRetry-After: %d\r\nContent-Length: %zu\r\n"
                     "Connection: close\r\n\r\n%s",
                     DOVETAIL_VERSION, RETRY_S, strlen(problem), problem);
    assert(n > 0 && (size_t)n < sizeof reply);
    uv_buf_t b = uv_buf_init(reply, (unsigned)n);
    uv_try_write((uv_stream_t *)&c->pipe, &b, 1);
}

/* The answer when there is no memory for one. */
static void no_memory(struct dtd_conn *c)
{
    c->http->count.by_class[5]++;
    if (c->state != CONN_CLOSED)
        conn_refuse(c, "{\"type\":\"about:blank\",\"title\":\"out of memory\",\"status\":503,"
                       "\"code\":\"out-of-memory\"}\n");
    conn_timer(c, 0); /* close, but not under the caller's feet */
}

void dtd_reply_take(struct dtd_req *r, int status, const char *type, const char *headers, char *body, size_t len)
{
    struct dtd_conn *c = r->conn;
    c->req.gone = NULL;
    if (!body && status != 204 && status != 304) {
        no_memory(c);
        return;
    }
    if (!body)
        len = 0;
    struct dt_str h = whole_head(c, status, type, headers, len, NULL);
    if (c->head_only) {
        free(body);
        body = NULL;
        len = 0;
    }
    size_t n = h.len;
    c->end_after_writes = true;
    send_pieces(c, dt_str_take(&h), n, body, len);
}

void dtd_reply_problem(struct dtd_req *r, int status, const char *headers, struct dt_err *e)
{
    if (status && status != dt_err_http(e->num)) {
        /* the status member must say what the status line says */
        char *text = dt_problem_json(e);
        json_t *o = NULL;
        if (text)
            dt_json_load(text, strlen(text), &o, NULL);
        free(text);
        if (o)
            json_object_set_new(o, "status", json_integer(status));
        text = o ? dt_json_dumps(o, JSON_COMPACT) : NULL;
        json_decref(o);
        dt_err_done(e);
        dtd_reply_take(r, status, "application/problem+json", headers, text, text ? strlen(text) : 0);
        return;
    }
    status = dt_err_http(e->num);
    char *text = dt_problem_json(e);
    dt_err_done(e);
    dtd_reply_take(r, status, "application/problem+json", headers, text, text ? strlen(text) : 0);
}

void dtd_reply_err(struct dtd_req *r, int num, const char *fmt, ...)
{
    struct dt_err e = {0};
    va_list ap;
    va_start(ap, fmt);
    dt_err_setv(&e, num, fmt, ap);
    va_end(ap);
    dtd_reply_problem(r, 0, NULL, &e);
}

void dtd_reply_later(struct dtd_req *r, int status, const char *why)
{
    struct dt_err e = {0};
    dt_err_set(&e, status == 429 ? DT_E_SHARE : DT_E_BUSY, "%s", why);
    dtd_reply_problem(r, status, "Retry-After: 1\r\n", &e);
}

void dtd_stream_begin(struct dtd_req *r, const char *type)
{
    struct dtd_conn *c = r->conn;
    struct dt_str h = {0};
    c->chunked = c->minor >= 1;
    c->keep_alive = c->keep_alive && c->chunked;
    c->streaming = true;
    begin_head(c, 200, NULL);
    add_head(&h, 200, type, c->chunked ? "Transfer-Encoding: chunked\r\n" : NULL);
    end_head(c, &h);
    size_t n = h.len;
    send_pieces(c, dt_str_take(&h), n, NULL, 0);
}

void dtd_stream_put(struct dtd_req *r, const char *p, size_t n)
{
    struct dtd_conn *c = r->conn;
    struct dt_str s = {0};
    if (!n || c->head_only)
        return;
    if (c->chunked)
        dt_str_addf(&s, "%zx\r\n", n);
    dt_str_addn(&s, p, n);
    if (c->chunked)
        dt_str_add(&s, "\r\n");
    size_t len = s.len;
    send_pieces(c, dt_str_take(&s), len, NULL, 0);
}

bool dtd_stream_full(const struct dtd_req *r)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&r->conn->pipe) > STREAM_FULL;
}

void dtd_stream_end(struct dtd_req *r)
{
    struct dtd_conn *c = r->conn;
    r->gone = NULL;
    r->drained = NULL;
    if (c->state != CONN_SERVING)
        return;
    c->end_after_writes = true;
    if (c->chunked && !c->head_only) {
        send_pieces(c, dt_strdup("0\r\n\r\n"), 5, NULL, 0);
    } else if (!c->writes) {
        c->end_after_writes = false;
        conn_reply_done(c);
    }
}
