/* The inside of the room: a pool of connections, calls that wait for one, the breaker. */
#ifndef DT_CLUSTER_PRIV_H
#define DT_CLUSTER_PRIV_H

#include <libpq-fe.h>

#include "base/arena.h"
#include "base/hash.h"
#include "cluster/cluster.h"

#define CLUSTER_MAJOR 1 /* of the tables: goes up when a migration is not additive; older services then keep out */

enum cluster_sql {
#define STATEMENT(NAME, sql) CLUSTER_SQL_##NAME,
#include "cluster/statements.def"
#undef STATEMENT
    CLUSTER_NSQL
};
extern const char *const cluster_sql_text[CLUSTER_NSQL];

/* ---- secrets (secret.c) ------------------------------------------------------------------------------------------ */

#define SECRETS 4
struct secrets { /* passwords that may stand in messages; owned */
    char *text[SECRETS];
};
void secrets_add(struct secrets *s, const char *text);
void secrets_done(struct secrets *s);
/* `from` up to its first line end, every secret replaced by ***, at most n - 1 bytes. */
void secrets_hide(const struct secrets *s, const char *from, char *to, size_t n);

/* ---- calls (call.c) ---------------------------------------------------------------------------------------------- */

#define PARAMS_MAX 20
struct step {
    enum cluster_sql sql;
    int nparams;
    const char *value[PARAMS_MAX]; /* of the call's arena; $1, the namespace, is put in by call_step */
};

struct call {
    struct call *next;
    struct cluster *c;
    struct dt_arena arena;
    struct step *step;
    unsigned nsteps, cap;
    /* Reads the results, one for each step. Sets outcome, row, why. */
    void (*read)(struct call *call, PGresult *const *r);
    cluster_fn *fn; /* NULL: nobody waits for it, or not any more */
    void *user;
    void (*orphan)(struct call *call); /* the answer came, and nobody waited any more; may be NULL */
    unsigned ms;                       /* how long the server may take; statement_ms */
    bool writes;                       /* it is not repeated when its connection is lost */
    bool urgent;                       /* it goes before those that are not */
    bool refused;                      /* before it was sent */
    unsigned tries;
    uint64_t deadline, not_before; /* loop time, milliseconds */
    enum cluster_outcome outcome;
    json_t *row;
    char why[240];
    struct cluster_key key; /* of recipes and leases; of the arena */
    char hash[DT_SHA256_TEXT];
    int64_t token;
    struct cluster_measure *measure; /* keys of what measures.c asked for */
    const char *kind, *device;
    const char *target; /* of queue.c */
};

/* NULL: no memory; fn was called with AWAY. */
struct call *call_new(struct cluster *c, cluster_fn *fn, void *user,
                      void (*read)(struct call *call, PGresult *const *r));
const char *call_text(struct call *call, const char *text); /* a copy; "" for NULL or without memory */
const char *call_number(struct call *call, int64_t n);
/* A statement with the namespace and n texts, which must stay as long as the call does. */
void call_step(struct call *call, enum cluster_sql sql, unsigned n, const char *const *value);
#define CALL_STEP(call, sql, ...)                                                                                      \
    call_step(call, sql, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *),                                  \
              (const char *const[]){__VA_ARGS__})
/* It will not be sent; its outcome is REFUSED. */
void call_refuse(struct call *call, const char *why);
/* Is `text` no longer than max bytes, and not empty? Else the call is refused. */
bool call_bounded(struct call *call, const char *what, const char *text, size_t max);
/* Copies the key, checks it, sets its digest. */
bool call_key(struct call *call, const struct cluster_key *k);
void call_end(struct call *call, enum cluster_outcome outcome, const char *why);
void call_free(struct call *call);

/* Of a result: is it rows with so many columns, none of them NULL? */
bool row_shape(const PGresult *r, int columns);
/* The text, if it has at most max bytes, and no NUL inside; else NULL. */
const char *row_text(const PGresult *r, int row, int column, size_t max);
bool row_number(const PGresult *r, int row, int column, int64_t *ret);

/* ---- one connection (dial.c, link.c) ----------------------------------------------------------------------------- */

struct dial; /* a thread that connects */
enum link_state {
    LINK_DIALING, /* a thread has it */
    LINK_IDLE,
    LINK_BUSY,    /* a transaction was sent */
    LINK_ROLLBACK /* it failed; so was this */
};

struct link {
    struct link *next;
    struct cluster *c;
    enum link_state state;
    struct dial *dial;
    PGconn *conn;
    uv_poll_t *poll; /* its own memory: it is closed later than the link */
    int fd, events;
    struct call *call;      /* its fn is NULL once its deadline has passed; the answer is drained */
    unsigned got, expected; /* results */
    PGresult **result;
    char sqlstate[6], message[200]; /* the first error */
    bool nothing;                   /* PQgetResult gave NULL just now */
    uint64_t until, idle_since;     /* drained or rolled back until then, else closed */
};

/* dial.c. What came of it. */
enum dial_result {
    DIAL_OK,
    DIAL_AWAY,   /* not reachable */
    DIAL_SCHEMA, /* reached, but its tables are not such as this version understands, and cannot be made so */
    DIAL_READONLY
};
struct dial_report {
    enum dial_result result;
    PGconn *conn; /* of OK; the receiver's */
    int major, minor;
    char why[240];
};
/* A thread begins; it wakes `async` when there is something to take. NULL: no memory, no thread. */
struct dial *dial_new(const char *url, unsigned timeout_ms, const struct secrets *s, uv_async_t *async);
/* True: it is done, *ret is what came of it, and d is gone. */
bool dial_take(struct dial *d, struct dial_report *ret);
/* Nobody wants it any more: it ends soon, and is in the list until it has, which wakes `async`, too. */
void dial_abandon(struct dial *d, struct dial **leaving);
/* Those that have ended leave the list. */
void dial_reap(struct dial **leaving);
/* Those that have not ended end when they do, without `async`. The list is empty then. */
void dial_orphan(struct dial **leaving);

/* link.c */
struct link *link_new(struct cluster *c); /* it dials */
void link_up(struct link *l, PGconn *conn);
void link_send(struct link *l, struct call *call);
void link_close(struct link *l, const char *why); /* l is gone; a call on it goes back to wait, or ends */

/* ---- the pool (pool.c) ------------------------------------------------------------------------------------------- */

struct cluster {
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_async_t dialed;
    char *url, *space;
    unsigned connections, lookup_ms, statement_ms, keep_days;
    uint64_t max_bytes;
    void (*log)(void *user, bool bad, const char *text);
    void *log_user;
    struct secrets secrets;
    struct link *links;
    struct dial *leaving;        /* threads that connect for nobody */
    struct call *waiting, *over; /* to be sent; to be told */
    unsigned nwaiting;
    bool closing, kicked;
    unsigned handles; /* not closed yet */
    unsigned packing; /* graphs that a thread of libuv's pool has (graphs.c) */
    void (*closed)(void *user);
    void *closed_user;
    /* the breaker */
    enum { BREAKER_CLOSED, BREAKER_HALF, BREAKER_OPEN } breaker;
    unsigned opened; /* how often in a row */
    uint64_t try_at; /* of the breaker; and of another connection, when one was refused */
    bool reached, schema_bad;
    uint64_t read_only_until, sweep_at, close_by;
    char why[240];
    struct cluster_counts counts;
};

void pool_submit(struct call *call);                  /* takes it */
void pool_kick(struct cluster *c);                    /* looks at everything, soon */
void pool_over(struct call *call);                    /* its outcome is set: it is told, soon */
void pool_back(struct call *call, uint64_t pause_ms); /* it waits again */
/* The server answered a call, whatever it said; or it did not. */
void pool_answered(struct cluster *c);
void pool_failed(struct cluster *c, const char *why);
void pool_read_only(struct cluster *c);
void pool_written(struct cluster *c); /* something was: it is not read-only */
void pool_log(struct cluster *c, bool bad, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void pool_handle_closed(uv_handle_t *h); /* of handles that cluster_close waits for */

#endif
