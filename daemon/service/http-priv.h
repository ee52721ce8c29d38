/* Inside of http.c, http-head.c, http-parse.c and http-reply.c. */
#ifndef DTD_HTTP_PRIV_H
#define DTD_HTTP_PRIV_H

#include "base/str.h"
#include "daemon/service/http.h"
#include "daemon/service/json-scan.h"

#define DTD_HEADER_MAX 16384u /* bytes of a request's header */
#define DTD_TARGET_MAX 8192u
#define DTD_MAX_FIELDS 100

/* ---- http-head.c ------------------------------------------------------------------------------------------------- */
/* The lines of one header, and where it ends; zero at its begin. */
struct dtd_lines {
    int at;
    unsigned bytes;
};
/* How many of the next n bytes belong to the header: fewer than n when it ends there, or is DTD_HEADER_MAX bytes long,
 * or is broken (then the last of them is wrong, and *why says how). */
size_t dtd_lines_take(struct dtd_lines *l, const char *p, size_t n, const char **why);
bool dtd_lines_ended(const struct dtd_lines *l);

/* The fields of one header. Built by name…, between, value…, end for each. */
struct dtd_fields {
    struct dt_str text; /* names and values, each ended by NUL */
    struct {
        unsigned name, value; /* offsets into text */
    } field[DTD_MAX_FIELDS];
    unsigned n;
    bool open; /* a field has begun */
};
void dtd_fields_done(struct dtd_fields *f); /* empty again */
void dtd_fields_name(struct dtd_fields *f, const char *p, size_t n);
void dtd_fields_between(struct dtd_fields *f);
void dtd_fields_value(struct dtd_fields *f, const char *p, size_t n);
bool dtd_fields_end(struct dtd_fields *f, const char **why); /* false: the request is to be refused */
const char *dtd_fields_get(const struct dtd_fields *f, const char *name);
/* Host, Transfer-Encoding, Expect of a request in HTTP/1.minor: 0, or the status of the refusal. */
int dtd_fields_check(const struct dtd_fields *f, unsigned minor, const char **why);

/* ---- http-account.c --------------------------------------------------------------------------------------------- */
struct dtd_account {
    struct dtd_http *http;
    unsigned uid, refs, connections, reserved;
    size_t bytes;
    struct dtd_account *next;
};
/* The account of a user, made when new; NULL: out of memory. Each get and each ref++ needs a put. */
struct dtd_account *dtd_account_get(struct dtd_http *s, unsigned uid);
void dtd_account_put(struct dtd_account *a); /* NULL: nothing */
void dtd_account_add(struct dtd_account *a, size_t n);
void dtd_account_sub(struct dtd_account *a, size_t n);
/* May one who has `mine` of `all` that are used, of `most` that there are, have `more`? `others`: how many other users
 * have something. 0, 429 or 503. */
int dtd_share_of(size_t mine, size_t all, size_t most, unsigned others, size_t more);
int dtd_account_bytes(const struct dtd_account *a, size_t more);
int dtd_account_connection(const struct dtd_account *a);
unsigned dtd_conn_uid(const uv_pipe_t *pipe); /* UINT_MAX: not known */

/* ---- connections ------------------------------------------------------------------------------------------------- */
struct dtd_http {
    uv_loop_t *loop;
    struct dtd_http_limits limit;
    struct dtd_http_counts count;
    void (*serve)(struct dtd_req *r);
    void *user;
    uv_pipe_t listener;
    bool listening, stopping;
    char path[108];
    uv_pipe_t spare;        /* for a connection that there is no memory for */
    bool spare_used, waits; /* it is closing; another such connection waits for it */
    struct dtd_conn *conns;
    unsigned ordinary, reserved; /* connections */
    struct dtd_account *accounts;
    struct dtd_http_hooks hook;
    char chunk[65536]; /* what libuv reads into */
};

/* reading ──message complete──▶ serving ──reply written──▶ reading (kept alive) or linger ──EOF, time──▶ closed
 *    └────────── broken ────────▶ (error reply) ────────────────────────────────▲
 * linger: our side is shut; what the client still sends is thrown away, so that it gets to read the reply. */
enum conn_state { CONN_READING, CONN_SERVING, CONN_LINGER, CONN_CLOSED };

struct dtd_conn {
    uv_pipe_t pipe;
    uv_timer_t timer;
    unsigned handles; /* not yet closed */
    enum conn_state state;
    struct dtd_http *http;
    struct dtd_conn *prev, *next;
    llhttp_t parser;
    struct dtd_lines lines;
    struct dtd_fields fields;
    unsigned method, minor; /* of the request: the parser forgets them */
    bool reserved;          /* over the limit of connections: what is vital is answered, all else refused */
    int reserved_for;       /* with this status */
    bool complete, eof, reading, keep_alive, head_only, chunked, streaming, started, headers_done, begun;
    int broken; /* HTTP status of what is wrong with the request being read, 0: nothing */
    const char *why;
    struct dt_err err; /* of the scanner */
    struct dtd_body_rule rule;
    struct dtd_scan scan;
    struct dt_sha256 sha; /* of query and body; ctx NULL: not wanted */
    struct dtd_account *account;
    struct dt_str url, body, pending;
    size_t extensions; /* bytes of chunk extensions */
    char *path, *query;
    size_t counted; /* bytes of `body` that are in the account */
    struct dtd_req req;
    unsigned writes; /* under way */
    bool end_after_writes;
    bool uid_known;
    unsigned uid;
    bool late;               /* the body is not counted while it comes: dtd_req_scan */
    bool waits;              /* the timer looks whether the client is still there */
    bool roomy;              /* its socket takes more than usual */
    bool handling, answered; /* the handler is being called; it has answered, and all of that is written */
};

extern const llhttp_settings_t http_settings; /* http-parse.c */
/* Feed what is in `pending` to the parser. 0: more is needed; 1: a request is complete; 2: its header is, and a body is
 * to follow; else the refusal's status. */
int conn_parse(struct dtd_conn *c, const char **why);

/* Answer 503 with this body, on the way to closing the connection: for where no memory, or no connection, is to be
 * had. It takes none. */
void conn_refuse(struct dtd_conn *c, const char *problem);
void conn_timer(struct dtd_conn *c, unsigned ms);
void conn_close(struct dtd_conn *c);
void conn_answered(struct dtd_conn *c, int status, const char *headers); /* tell the request's `answered`, once */
void conn_reply_done(struct dtd_conn *c); /* the reply is written: next request, or linger */

#endif
