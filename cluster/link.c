/* One connection: a transaction goes out at once, its results come back.
 *
 *            dial.c         a call              answered
 *   (new) ─▶ DIALING ─▶ IDLE ────▶ BUSY ───────────────────▶ IDLE
 *                        ▲           └─ with an error ─▶ ROLLBACK ─┘
 *                        └──────────────────────────────────┘
 *   any of them: the connection ends, or its answer is overdue ─▶ (gone)
 *
 * libpq's pipeline mode: begin, namespace and timeout, the call's statements, commit, one synchronisation behind them.
 * So a transaction is one round trip, and is over when it is answered: a pooler in transaction mode has nothing to
 * keep. Statements are unnamed and have parameters. After an error the server skips the rest; the transaction is then
 * rolled back by a second trip, and its call is told by what the error was (link_error).
 *
 * A call whose deadline has passed is told so (pool.c), and its answer is drained here. If that does not come either,
 * the connection is closed.
 *
 * libpq may change its socket; the poll handle is remade when it has (link_poll).
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster-priv.h"

#define OVERDUE_MS 500 /* the server ends a statement by itself after statement_ms; then its answer is on its way */
#define RETRIES 5
#define EXTRA 3 /* results beside those of the call's statements: begin, namespace, commit */

static void link_event(uv_poll_t *p, int status, int events);

/* ---- the poll handle --------------------------------------------------------------------------------------------- */

static void poll_closed(uv_handle_t *h)
{
    struct cluster *c = h->data;
    free(h);
    pool_handle_closed((uv_handle_t *)&c->timer);
}

static void link_unpoll(struct link *l)
{
    if (!l->poll)
        return;
    uv_poll_stop(l->poll);
    l->poll->data = l->c;
    uv_close((uv_handle_t *)l->poll, poll_closed);
    l->poll = NULL;
}

/* False: it cannot be polled. */
static bool link_poll(struct link *l, bool write)
{
    int fd = PQsocket(l->conn), events = UV_READABLE | (write ? UV_WRITABLE : 0);
    if (fd < 0)
        return false;
    if (l->poll && l->fd == fd && l->events == events)
        return true;
    if (l->poll && l->fd != fd)
        link_unpoll(l);
    if (!l->poll) {
        l->poll = dt_malloc(sizeof *l->poll);
        if (!l->poll || uv_poll_init(l->c->loop, l->poll, fd) < 0) {
            free(l->poll);
            l->poll = NULL;
            return false;
        }
        l->c->handles++;
    }
    l->poll->data = l;
    l->fd = fd;
    l->events = events;
    return uv_poll_start(l->poll, events, link_event) == 0;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

struct link *link_new(struct cluster *c)
{
    struct link *l = dt_calloc(1, sizeof *l);
    if (!l || !(l->dial = dial_new(c->url, 5000, &c->secrets, &c->dialed))) {
        free(l);
        return NULL;
    }
    l->c = c;
    l->fd = -1;
    l->next = c->links;
    c->links = l;
    c->counts.dials++;
    return l;
}

static void link_forget(struct link *l)
{
    for (unsigned i = 0; i < l->got; i++)
        PQclear(l->result[i]);
    free(l->result);
    l->result = NULL;
    l->got = l->expected = 0;
    l->nothing = false;
    l->sqlstate[0] = l->message[0] = 0;
}

void link_close(struct link *l, const char *why)
{
    struct cluster *c = l->c;
    struct link **at = &c->links;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    if (l->dial)
        dial_abandon(l->dial, &c->leaving);
    link_unpoll(l);
    link_forget(l);
    PQfinish(l->conn);
    struct call *call = l->call;
    if (call && call->fn && !call->writes && !call->tries++) {
        pool_back(call, 0);
    } else if (call) {
        call_end(call, CLUSTER_AWAY, why);
        pool_over(call);
    }
    free(l);
    pool_kick(c);
}

static void link_broken(struct link *l)
{
    struct cluster *c = l->c;
    char why[240];
    secrets_hide(&c->secrets, PQerrorMessage(l->conn), why, sizeof why);
    c->counts.lost++;
    pool_log(c, false, "a connection to the cluster's database ended: %s", *why ? why : "what came is no answer");
    link_close(l, *why ? why : "the connection ended");
}

static void link_idle(struct link *l)
{
    l->state = LINK_IDLE;
    l->call = NULL;
    l->idle_since = uv_now(l->c->loop);
    link_forget(l);
    pool_kick(l->c);
}

void link_up(struct link *l, PGconn *conn)
{
    l->dial = NULL;
    l->conn = conn;
    if (PQsetnonblocking(conn, 1) < 0 || !PQenterPipelineMode(conn) || !link_poll(l, false))
        link_broken(l);
    else
        link_idle(l);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static bool send_one(struct link *l, enum cluster_sql sql, int n, const char *const *value)
{
    return PQsendQueryParams(l->conn, cluster_sql_text[sql], n, NULL, value, NULL, NULL, 0) == 1;
}

static bool link_flush(struct link *l)
{
    int r = PQflush(l->conn);
    return r >= 0 && link_poll(l, r > 0);
}

static bool send_call(struct link *l, const struct call *call)
{
    char timeout[16];
    snprintf(timeout, sizeof timeout, "%u", call->ms);
    const char *const space[] = {l->c->space, timeout};
    bool ok = send_one(l, CLUSTER_SQL_BEGIN, 0, NULL) && send_one(l, CLUSTER_SQL_SPACE, 2, space);
    for (unsigned i = 0; ok && i < call->nsteps; i++)
        ok = send_one(l, call->step[i].sql, call->step[i].nparams, call->step[i].value);
    return ok && send_one(l, CLUSTER_SQL_COMMIT, 0, NULL) && PQpipelineSync(l->conn) && link_flush(l);
}

void link_send(struct link *l, struct call *call)
{
    l->call = call;
    l->state = LINK_BUSY;
    l->expected = call->nsteps + EXTRA;
    l->result = dt_calloc(l->expected, sizeof *l->result);
    l->until = uv_now(l->c->loop) + call->ms + OVERDUE_MS;
    if (!l->result) {
        call_end(call, CLUSTER_AWAY, "out of memory");
        pool_over(call);
        link_idle(l);
    } else if (!send_call(l, call)) {
        link_broken(l);
    }
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

static bool state_is(const struct link *l, const char *list) { return l->sqlstate[0] && strstr(list, l->sqlstate); }

static bool class_is(const struct link *l, const char *class) { return !strncmp(l->sqlstate, class, 2); }

/* What an error means for its call. */
static void link_error(struct link *l, struct call *call)
{
    struct cluster *c = l->c;
    if (state_is(l, "40001 40P01") && call->tries < RETRIES && call->fn) {
        unsigned pause = 5u << call->tries++;
        c->counts.retries++;
        pool_back(call, pause + (unsigned)(uv_hrtime() / 1000 % pause));
        return;
    }
    if (state_is(l, "25006"))
        pool_read_only(c);
    bool never = class_is(l, "22") || class_is(l, "23") || class_is(l, "54");
    call_end(call, never ? CLUSTER_REFUSED : CLUSTER_AWAY, l->message);
    pool_over(call);
}

static void link_good(struct link *l, struct call *call)
{
    if (call->writes)
        pool_written(l->c);
    call->read(call, l->result + 2);
    if (!call->fn && call->orphan)
        call->orphan(call);
    pool_over(call);
}

/* The synchronisation came: everything has been answered. */
static void link_answered(struct link *l)
{
    struct call *call = l->call;
    l->call = NULL;
    pool_answered(l->c);
    bool open = PQtransactionStatus(l->conn) != PQTRANS_IDLE;
    bool whole = l->got == l->expected && !l->sqlstate[0] &&
                 !strcmp(PQcmdStatus(l->result[l->expected - 1]), cluster_sql_text[CLUSTER_SQL_COMMIT]);
    if (call && whole && !open) {
        link_good(l, call);
        link_idle(l);
        return;
    }
    if (call && !l->sqlstate[0])
        snprintf(l->message, sizeof l->message, "the server answered something else than it was asked");
    /* without an error of the server's: not a server that can be gone on with */
    bool odd =
        !l->sqlstate[0] || class_is(l, "08") || state_is(l, "57P01 57P02 57P03") || state_is(l, "42P01 42703 25P02");
    if (call)
        link_error(l, call);
    if (odd && !state_is(l, "25006")) {
        link_close(l, NULL); /* the next one looks at the tables again */
    } else if (open) {
        link_forget(l);
        l->state = LINK_ROLLBACK;
        if (!send_one(l, CLUSTER_SQL_ROLLBACK, 0, NULL) || !PQpipelineSync(l->conn) || !link_flush(l))
            link_broken(l);
    } else {
        link_idle(l);
    }
}

/* False: this is no answer to what was asked. */
static bool link_result(struct link *l, PGresult *r)
{
    ExecStatusType status = PQresultStatus(r);
    if (status == PGRES_FATAL_ERROR && !l->sqlstate[0]) {
        const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
        const char *why = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
        snprintf(l->sqlstate, sizeof l->sqlstate, "%s", state && strlen(state) == 5 ? state : "XXXXX");
        secrets_hide(&l->c->secrets, why ? why : "the server says no more than that it failed", l->message,
                     sizeof l->message);
    }
    bool known = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_FATAL_ERROR ||
                 status == PGRES_PIPELINE_ABORTED;
    if (known && l->state == LINK_BUSY && l->got < l->expected) {
        l->result[l->got++] = r;
        return true;
    }
    PQclear(r);
    return known && l->state == LINK_ROLLBACK;
}

/* 1: the synchronisation came; 0: there is more to come; -1: broken. */
static int link_read(struct link *l)
{
    while (!PQisBusy(l->conn)) {
        PGresult *r = PQgetResult(l->conn);
        if (!r && l->nothing)
            return -1; /* nothing is expected any more */
        l->nothing = !r;
        if (!r)
            continue;
        if (PQresultStatus(r) == PGRES_PIPELINE_SYNC) {
            PQclear(r);
            return 1;
        }
        if (!link_result(l, r))
            return -1;
    }
    return 0;
}

static void link_event(uv_poll_t *p, int status, int events)
{
    struct link *l = p->data;
    if (status < 0 || ((events & UV_WRITABLE) && !link_flush(l)) || !PQconsumeInput(l->conn)) {
        link_broken(l);
        return;
    }
    if (l->state == LINK_IDLE) { /* a notice, or the end */
        if (PQstatus(l->conn) != CONNECTION_OK)
            link_broken(l);
        return;
    }
    if (!link_poll(l, l->events & UV_WRITABLE)) {
        link_broken(l);
        return;
    }
    int r = link_read(l);
    if (r < 0)
        link_broken(l);
    else if (r > 0 && l->state == LINK_ROLLBACK)
        link_idle(l);
    else if (r > 0)
        link_answered(l);
}
