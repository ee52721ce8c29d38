/* HTTP/1.1 on a Unix socket: one request at a time per connection, everything bounded, nothing blocking.
 *
 * A complete request is handed to `serve`; the handler answers now or later with exactly one of dtd_reply… or
 * dtd_stream_begin … dtd_stream_end. When the client goes away first, req->gone (if set) is called and the request must
 * not be used again. All on the loop's thread.
 */
#ifndef DTD_HTTP_H
#define DTD_HTTP_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/hash.h"

struct dtd_account;
struct dtd_conn;
struct dtd_http;
struct dtd_key;

#define DTD_MAX_PARAMS 2
#define DTD_TRACE 56 /* a W3C trace context: 00-, 32 digits, -, 16 digits, -, 2 digits, NUL */

struct dtd_req {
    struct dtd_conn *conn;
    void *user;      /* of dtd_http_new */
    unsigned method; /* HTTP_GET … */
    char *path;      /* decoded, owned by the connection */
    char *query;     /* as sent, without '?'; "" if none */
    char *body;      /* NUL-terminated; a handler may take it and set NULL */
    size_t body_len;
    char digest[DT_SHA256_TEXT];       /* of query and body, where dtd_body_rule asked for it; else "" */
    size_t weight;                     /* about the memory that the body takes once it is parsed, bytes */
    const char *param[DTD_MAX_PARAMS]; /* what `*` in the route matched */
    char pathbuf[1024];                /* where params point */
    char trace[DTD_TRACE];             /* dtd_req_trace */
    struct dtd_key *key;               /* of keys.c */
    void (*answered)(struct dtd_req *r, int status, const char *headers); /* once, or with 0 when the client goes */
    void (*gone)(struct dtd_req *r);
    void (*drained)(struct dtd_req *r); /* a stream may go on writing */
    void *state;                        /* the handler's */
};

/* What is taken of a body. */
struct dtd_body_rule {
    size_t max;  /* bytes */
    bool digest; /* dtd_req.digest is wanted */
    bool graph;  /* it is a graph or plan: json-scan.c counts along */
    size_t late; /* a graph whose Content-Length is at most this is counted by dtd_req_scan instead */
};
struct dtd_http_hooks { /* each may be NULL */
    /* The header of a request with a body has come; method, path, query are there. False: it has been answered. `body`
     * comes as the limits have it. */
    bool (*begin)(struct dtd_req *r, struct dtd_body_rule *body);
    /* May the request have a reserved connection? */
    bool (*vital)(const struct dtd_req *r);
};
struct dtd_http_limits {
    size_t max_body, max_bodies /* bodies and replies together */;
    unsigned max_connections;
    unsigned request_ms, idle_ms;
};
struct dtd_http_counts {
    uint64_t requests, by_class[6] /* 1xx … 5xx */, accepted, turned_away;
    unsigned connections;
    size_t held_bytes; /* of bodies, and of replies that are not yet taken */
    uint64_t over_share;
};

/* A field of the request's header, by name in any case; NULL: not there. Valid until the reply is given. A field that
 * was sent several times is all of them, joined by ", ". */
const char *dtd_req_header(const struct dtd_req *r, const char *name);

/* Count the body of a request whose rule said `late`, before anything reads it as JSON; nothing to do if that was done
 * while it came. False: it is over a limit, and the request has been answered. */
bool dtd_req_scan(struct dtd_req *r, const char *body, size_t len);

/* Trace context of the request, made when first asked for. */
const char *dtd_req_trace(struct dtd_req *r);
void dtd_trace_take(const char *field, char out[DTD_TRACE]); /* http-trace.c; pure but for random numbers */

int dtd_http_new(uv_loop_t *loop, const struct dtd_http_limits *l, void (*serve)(struct dtd_req *), void *user,
                 struct dtd_http **ret, struct dt_err *e);
void dtd_http_hook(struct dtd_http *h, const struct dtd_http_hooks *hooks);
/* Create the socket, mode 0660, and listen. A socket file that nobody listens on is replaced. */
int dtd_http_listen(struct dtd_http *h, const char *path, struct dt_err *e);
/* Listen on a socket that somebody else bound and owns: fd is taken, what lies at its path is left alone. */
int dtd_http_listen_fd(struct dtd_http *h, int fd, struct dt_err *e);
void dtd_http_limit(struct dtd_http *h, const struct dtd_http_limits *l); /* new limits, from the next request on */
/* Stop listening and remove the socket file; connections end after the reply they wait for, idle ones at once. */
void dtd_http_stop(struct dtd_http *h);
void dtd_http_drop(struct dtd_http *h);             /* close every connection */
struct dtd_http *dtd_http_free(struct dtd_http *h); /* after the loop has run dry */
const struct dtd_http_counts *dtd_http_counts(const struct dtd_http *h);

/* `headers`: further lines, each ended by CR LF, or NULL. Takes `body` (malloc). */
void dtd_reply_take(struct dtd_req *r, int status, const char *type, const char *headers, char *body, size_t len);
/* What is the same in the head of each such reply, so that it is made once; n 0: it is longer. */
struct dtd_head {
    char text[500];
    unsigned n;
};
void dtd_head_make(struct dtd_head *h, int status, const char *type, const char *headers, size_t len);
/* The same with a body that is not taken: release(owner) is called once it is not needed any more, perhaps at once.
 * What the socket takes is written here and now. */
struct dtd_shared {
    const char *body;
    size_t len;
    int file; /* one that has the body at its start and does not change, for sendfile(2); -1: none */
    void (*release)(void *owner);
    void *owner;
    const struct dtd_head *head; /* of this status, type, headers and length; NULL: it is to be made */
};
void dtd_reply_shared(struct dtd_req *r, int status, const char *type, const char *headers,
                      const struct dtd_shared *what);
/* The problem document of `e`; status 0: the error's own. Empties e. */
void dtd_reply_problem(struct dtd_req *r, int status, const char *headers, struct dt_err *e);
/* 429 or 503, with Retry-After. */
void dtd_reply_later(struct dtd_req *r, int status, const char *why);
void dtd_reply_err(struct dtd_req *r, int num, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

void dtd_stream_begin(struct dtd_req *r, const char *type);
void dtd_stream_put(struct dtd_req *r, const char *p, size_t n); /* copies */
bool dtd_stream_full(const struct dtd_req *r);                   /* the client is slow: wait for `drained` */
void dtd_stream_end(struct dtd_req *r);

/* ---- http-account.c --------------------------------------------------------------------------------------------- */
/* A body that a handler has taken counts against its user until the hold is dropped, also when the client goes. */
struct dtd_hold {
    struct dtd_account *account;
    size_t bytes;
};
void dtd_hold_take(struct dtd_hold *h, struct dtd_req *r);
void dtd_hold_drop(struct dtd_hold *h); /* empty: nothing */

/* ---- http-query.c: pure functions -------------------------------------------------------------------------------- */
/* Decode %XX (and '+' when plus) of s[0..n) into out; false: broken escape, a NUL, or it does not fit. */
bool dtd_url_decode(const char *s, size_t n, bool plus, char *out, size_t cap);
/* Walk a query: *pos starts as the query; 1 and name and value decoded, 0 at the end, DT_E_USAGE when broken or too
 * long. */
int dtd_query_next(const char **pos, char *name, size_t nname, char *value, size_t nvalue);
/* Does `path` match `pattern` (`*` stands for one segment that is not empty)? Parameters are copied into buf. */
bool dtd_path_match(const char *pattern, const char *path, char *buf, size_t nbuf, const char *param[DTD_MAX_PARAMS]);
const char *dtd_http_reason(int status);
/* Does a client that sent this Accept-Encoding (NULL: none) take this coding? Not with q=0, and not unless it is named,
 * by itself or by `*`. */
bool dtd_takes_encoding(const char *accept, const char *coding);
/* Does If-None-Match (NULL: none) hold this entity tag, quotes included, or `*`? Weak tags match too. */
bool dtd_tag_matches(const char *list, const char *etag);

#endif
