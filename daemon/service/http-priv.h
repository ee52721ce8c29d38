/* Inside of http.c and http-reply.c. */
#ifndef DTD_HTTP_PRIV_H
#define DTD_HTTP_PRIV_H

#include "base/str.h"
#include "daemon/service/http.h"

struct dtd_http {
    uv_loop_t *loop;
    struct dtd_http_limits limit;
    struct dtd_http_counts count;
    void (*serve)(struct dtd_req *r);
    void *user;
    uv_pipe_t listener;
    bool listening, stopping;
    char path[108];
    struct dtd_conn *conns;
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
    http_parser parser;
    bool complete, eof, reading, keep_alive, head_only, chunked, streaming, started, last_value;
    int broken; /* HTTP status of what is wrong with the request being read, 0: nothing */
    const char *why;
    struct dt_str url, field, value, body, pending;
    char *path, *query;
    size_t counted; /* bytes of `body` that count against max_bodies */
    bool accept_sse, expect;
    uint64_t last_event_id;
    struct dtd_req req;
    unsigned writes; /* under way */
    bool end_after_writes;
};

void conn_timer(struct dtd_conn *c, unsigned ms);
void conn_close(struct dtd_conn *c);
void conn_reply_done(struct dtd_conn *c); /* the reply is written: next request, or linger */

#endif
