/* The pool: calls wait for connections; the breaker; opening and closing.
 *
 *   CLOSED ── no connection can be had, or a call is not answered ──▶ OPEN ── after a pause ──▶ HALF: one try
 *      ▲                                                                ▲                          │      │
 *      └──────────────────────────── it worked ─────────────────────────┼──────────────────────────┘      │
 *                                                                       └─── failed: twice the pause ─────┘
 *
 * While the breaker is not closed, calls end at once. The pool itself tries whether the server is back, so that no call
 * pays for it: by a new connection. Pauses are 250 ms to 30 s, a quarter more or less by chance, so that a thousand
 * hosts do not come back at one moment.
 *
 * A deadline that passes is not yet a failure: the answer may only be slow (a look-up has 50 ms). The server failed
 * if it does not answer within what its own statement_timeout allows and a little.
 *
 * Connections are made when calls wait and none is idle, one after the other. Those that were idle for a minute are
 * closed, but for one.
 *
 * A read-only server is asked, and not told: whatever writes ends as AWAY, and one call in two seconds tries again.
 *
 * Everything that is to happen later hangs on one timer (pool_turn looks at it all; it is cheap). Answers are told from
 * there, so never inside the call that asked.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster-priv.h"

#define WAITING_MAX 4096 /* calls */
#define PAUSE_MIN_MS 250
#define PAUSE_MAX_MS 30000
#define READ_ONLY_MS 2000
#define IDLE_MS 60000
#define CLOSE_MS 300
#define LEAVE_MS 2000 /* then threads that still connect are left to themselves */
#define SWEEP_MS 3600000

static void pool_timer(uv_timer_t *t);

void pool_log(struct cluster *c, bool bad, const char *fmt, ...)
{
    char text[400], out[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    secrets_hide(&c->secrets, text, out, sizeof out);
    if (c->log)
        c->log(c->log_user, bad, out);
}

void pool_kick(struct cluster *c)
{
    c->kicked = true;
    if (!uv_is_closing((uv_handle_t *)&c->timer))
        uv_timer_start(&c->timer, pool_timer, 0, 0);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

void pool_over(struct call *call)
{
    struct call **at = &call->c->over;
    while (*at)
        at = &(*at)->next;
    call->next = NULL;
    *at = call;
    pool_kick(call->c);
}

static void pool_tell(struct cluster *c)
{
    struct call *call, *list = c->over;
    c->over = NULL;
    while ((call = list)) {
        list = call->next;
        bool says = call->outcome == CLUSTER_REFUSED || call->outcome == CLUSTER_LOST || call->outcome == CLUSTER_AWAY;
        if (call->fn)
            call->fn(call->user, call->outcome, call->row, says ? call->why : NULL);
        call_free(call);
    }
}

static void call_late(struct call *call)
{
    call->c->counts.late++;
    if (call->fn)
        call->fn(call->user, CLUSTER_AWAY, NULL, "the server did not answer in time");
    call->fn = NULL;
}

/* Behind those that are as urgent. */
static void pool_queue(struct call *call)
{
    struct call **at = &call->c->waiting;
    while (*at && ((*at)->urgent || !call->urgent))
        at = &(*at)->next;
    call->next = *at;
    *at = call;
    call->c->nwaiting++;
    pool_kick(call->c);
}

void pool_back(struct call *call, uint64_t pause_ms)
{
    call->not_before = uv_now(call->c->loop) + pause_ms;
    pool_queue(call);
}

static void call_away(struct call *call, const char *why)
{
    call_end(call, CLUSTER_AWAY, why);
    pool_over(call);
}

void pool_submit(struct call *call)
{
    struct cluster *c = call->c;
    uv_update_time(c->loop);
    if (!call->refused && dt_arena_failed(&call->arena))
        call_away(call, "out of memory");
    else if (call->refused)
        pool_over(call);
    else if (c->closing && (c->breaker != BREAKER_CLOSED || uv_now(c->loop) >= c->close_by))
        call_away(call, "the service ends");
    else if (c->breaker != BREAKER_CLOSED)
        call_away(call, c->why);
    else if (call->writes && uv_now(c->loop) < c->read_only_until)
        call_away(call, "the server is read-only");
    else if (c->nwaiting >= WAITING_MAX)
        call_away(call, "too many calls wait for the server");
    else
        pool_queue(call);
}

static void waiting_away(struct cluster *c, const char *why)
{
    for (struct call *call = c->waiting, *next; call; call = next) {
        next = call->next;
        call_away(call, why);
    }
    c->waiting = NULL;
    c->nwaiting = 0;
}

/* ---- the breaker ------------------------------------------------------------------------------------------------- */

static uint64_t pause_ms(const struct cluster *c)
{
    uint64_t ms = c->opened < 8 ? (uint64_t)PAUSE_MIN_MS << c->opened : PAUSE_MAX_MS;
    ms = ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
    return ms - ms / 4 + uv_hrtime() / 1000 % (ms / 2);
}

void pool_answered(struct cluster *c)
{
    if (c->breaker != BREAKER_CLOSED)
        pool_log(c, false, "the cluster's database answers again");
    else if (!c->reached)
        pool_log(c, false, "the cluster's database is reached");
    c->breaker = BREAKER_CLOSED;
    c->opened = 0;
    c->reached = true;
    c->schema_bad = false;
}

/* Idle connections may be dead as well: the next try makes a new one. */
static void idle_close(struct cluster *c)
{
    for (struct link *l = c->links, *next; l; l = next) {
        next = l->next;
        if (l->state == LINK_IDLE)
            link_close(l, NULL);
    }
}

void pool_failed(struct cluster *c, const char *why)
{
    char text[sizeof c->why];
    snprintf(text, sizeof text, "%s", why);
    bool news = strcmp(text, c->why) || c->breaker == BREAKER_CLOSED;
    memcpy(c->why, text, sizeof text);
    if (news)
        pool_log(c, true, "the cluster's database is left alone for a while: %s", text);
    if (c->breaker != BREAKER_OPEN)
        c->counts.opened++;
    c->breaker = BREAKER_OPEN;
    c->try_at = uv_now(c->loop) + pause_ms(c);
    c->opened++;
    idle_close(c);
    waiting_away(c, text);
    pool_kick(c);
}

void pool_read_only(struct cluster *c)
{
    if (!c->read_only_until)
        pool_log(c, true, "the cluster's database is read-only: what this host finds is kept until it is not");
    c->read_only_until = uv_now(c->loop) + READ_ONLY_MS;
}

void pool_written(struct cluster *c)
{
    if (c->read_only_until)
        pool_log(c, false, "the cluster's database can be written again");
    c->read_only_until = 0;
}

static void nothing_read(struct call *call, PGresult *const *r) { call_end(call, CLUSTER_OK, NULL); }

static void pool_try(struct cluster *c)
{
    c->breaker = BREAKER_HALF;
    if (!link_new(c))
        pool_failed(c, "no thread for a connection");
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

static unsigned links_in(const struct cluster *c, enum link_state state)
{
    unsigned n = 0;
    for (const struct link *l = c->links; l; l = l->next)
        n += l->state == state;
    return n;
}

static unsigned links_all(const struct cluster *c)
{
    unsigned n = 0;
    for (const struct link *l = c->links; l; l = l->next)
        n++;
    return n;
}

static void pool_dialed(struct cluster *c, struct link *l, const struct dial_report *r)
{
    l->dial = NULL;
    if (r->result == DIAL_OK) {
        secrets_add(&c->secrets, PQpass(r->conn));
        pool_answered(c);
        link_up(l, r->conn);
        return;
    }
    c->counts.dial_failures++;
    c->schema_bad = r->result == DIAL_SCHEMA;
    if (r->result == DIAL_READONLY)
        pool_read_only(c);
    link_close(l, NULL);
    if (links_all(c) && c->breaker == BREAKER_CLOSED) /* the server has no room for another: those at hand serve */
        c->try_at = uv_now(c->loop) + PAUSE_MIN_MS;
    else
        pool_failed(c, r->why);
}

static void pool_dials(struct cluster *c)
{
    dial_reap(&c->leaving);
    for (struct link *l = c->links, *next; l; l = next) {
        struct dial_report r;
        next = l->next;
        if (l->dial && dial_take(l->dial, &r)) {
            pool_dialed(c, l, &r);
            next = c->links; /* it may have gone, and others with it */
        }
    }
}

static void pool_overdue(struct cluster *c, uint64_t now)
{
    for (struct link *l = c->links, *next; l; l = next) {
        next = l->next;
        bool busy = l->state == LINK_BUSY || l->state == LINK_ROLLBACK;
        if (busy && l->call && l->call->fn && now >= l->call->deadline)
            call_late(l->call);
        if (busy && now >= l->until) {
            link_close(l, "the server did not answer in time");
            pool_failed(c, "the server did not answer in time");
            next = c->links;
        }
    }
}

static void pool_expire(struct cluster *c, uint64_t now)
{
    for (struct call **at = &c->waiting, *call; (call = *at);) {
        if (now < call->deadline) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        c->nwaiting--;
        c->counts.late++;
        call_away(call, c->reached ? "no connection was free in time" : "the server is not reached yet");
    }
}

static struct link *link_ready(struct cluster *c)
{
    for (struct link *l = c->links; l; l = l->next)
        if (l->state == LINK_IDLE)
            return l;
    return NULL;
}

static void pool_assign(struct cluster *c, uint64_t now)
{
    bool want = false;
    for (struct call **at = &c->waiting, *call; (call = *at);) {
        struct link *l = now >= call->not_before ? link_ready(c) : NULL;
        want |= now >= call->not_before && !l;
        if (!l) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        c->nwaiting--;
        link_send(l, call);
        at = &c->waiting; /* a call may have come back */
    }
    if (want && c->breaker == BREAKER_CLOSED && !c->closing && !links_in(c, LINK_DIALING) &&
        links_all(c) < c->connections && now >= c->try_at && !link_new(c))
        pool_failed(c, "no thread for a connection");
}

static void pool_idle(struct cluster *c, uint64_t now)
{
    unsigned n = links_all(c);
    for (struct link *l = c->links, *next; l; l = next) {
        next = l->next;
        if (l->state == LINK_IDLE && n > 1 && now - l->idle_since >= IDLE_MS) {
            link_close(l, NULL);
            n--;
        }
    }
}

/* A call of its own, so that what it does is kept when another fails. */
static void sweep_step(struct cluster *c, enum cluster_sql sql, uint64_t bound)
{
    struct call *call = bound ? call_new(c, NULL, NULL, nothing_read) : NULL;
    if (!call)
        return;
    call->writes = true;
    CALL_STEP(call, sql, call_number(call, (int64_t)bound));
    pool_submit(call);
}

static void pool_sweep(struct cluster *c, uint64_t now)
{
    if (now < c->sweep_at || !c->reached || c->breaker != BREAKER_CLOSED || c->closing)
        return;
    c->sweep_at = now + SWEEP_MS + uv_hrtime() / 1000 % SWEEP_MS;
    struct call *call = call_new(c, NULL, NULL, nothing_read);
    if (!call)
        return;
    call->writes = true;
    call_step(call, CLUSTER_SQL_SWEEP_LEASES, 0, NULL);
    call_step(call, CLUSTER_SQL_SWEEP_ASIDE, 0, NULL);
    call_step(call, CLUSTER_SQL_SWEEP_WORK, 0, NULL);
    pool_submit(call);
    sweep_step(c, CLUSTER_SQL_SWEEP_OLD, c->keep_days);
    sweep_step(c, CLUSTER_SQL_SWEEP_OLD_MEASURES, c->keep_days);
    sweep_step(c, CLUSTER_SQL_SWEEP_OLD_GRAPHS, c->keep_days);
    sweep_step(c, CLUSTER_SQL_SWEEP_MANY_GRAPHS, c->max_bytes); /* before recipes: their posters have them */
    sweep_step(c, CLUSTER_SQL_SWEEP_MANY, c->max_bytes);
}

/* ---- the timer --------------------------------------------------------------------------------------------------- */

static void sooner(uint64_t *next, uint64_t when)
{
    if (when < *next)
        *next = when;
}

static void pool_arm(struct cluster *c, uint64_t now)
{
    uint64_t next = now + 10000;
    for (const struct link *l = c->links; l; l = l->next) {
        bool busy = l->state == LINK_BUSY || l->state == LINK_ROLLBACK;
        if (busy && l->call && l->call->fn)
            sooner(&next, l->call->deadline);
        if (busy)
            sooner(&next, l->until);
    }
    for (const struct call *call = c->waiting; call; call = call->next) {
        sooner(&next, call->deadline);
        if (call->not_before > now)
            sooner(&next, call->not_before);
        else if (c->try_at > now)
            sooner(&next, c->try_at);
    }
    if (c->breaker == BREAKER_OPEN && !c->closing)
        sooner(&next, c->try_at);
    if (c->closing)
        sooner(&next, now < c->close_by ? c->close_by : c->close_by + LEAVE_MS);
    if (c->over || c->kicked)
        next = now;
    uv_timer_start(&c->timer, pool_timer, next > now ? next - now : 0, 0);
}

/* Closing: what is under way is waited for a little, then everything ends. True: it has. */
static bool pool_ended(struct cluster *c, uint64_t now)
{
    if (!c->closing || c->packing)
        return false;
    bool work = c->waiting || links_in(c, LINK_BUSY);
    if (work && now < c->close_by && c->breaker == BREAKER_CLOSED)
        return false;
    waiting_away(c, "the service ends");
    c->breaker = BREAKER_OPEN; /* nothing goes back to wait */
    while (c->links) {
        struct link *l = c->links;
        if (l->call)
            l->call->writes = true;
        link_close(l, "the service ends");
    }
    pool_tell(c);
    if (c->over || c->packing)
        return false;
    dial_reap(&c->leaving);
    if (c->leaving && now < c->close_by + LEAVE_MS)
        return false;
    dial_orphan(&c->leaving);
    uv_close((uv_handle_t *)&c->dialed, pool_handle_closed);
    uv_close((uv_handle_t *)&c->timer, pool_handle_closed);
    return true;
}

static void pool_timer(uv_timer_t *t)
{
    struct cluster *c = t->data;
    uv_update_time(c->loop);
    uint64_t now = uv_now(c->loop);
    c->kicked = false;
    pool_tell(c);
    pool_dials(c);
    pool_overdue(c, now);
    pool_expire(c, now);
    if (c->breaker == BREAKER_OPEN && now >= c->try_at && !c->closing)
        pool_try(c);
    pool_sweep(c, now);
    pool_assign(c, now);
    pool_idle(c, now);
    if (!pool_ended(c, now))
        pool_arm(c, now);
}

static void pool_woken(uv_async_t *a) { pool_kick(a->data); }

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static bool space_ok(const char *s)
{
    size_t n = strlen(s);
    return n > 0 && n <= CLUSTER_SPACE_MAX &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == n;
}

/* The passwords of the address and of the environment. False: it cannot be read. */
static bool secrets_read(struct secrets *s, const char *url)
{
    char *why = NULL;
    bool plain = !strstr(url, "://") && !strchr(url, '='); /* a name alone is that of a database */
    PQconninfoOption *o = plain ? NULL : PQconninfoParse(url, &why);
    PQfreemem(why); /* it may quote a password */
    for (const PQconninfoOption *i = o; i && i->keyword; i++)
        if (!strcmp(i->keyword, "password") || !strcmp(i->keyword, "sslpassword"))
            secrets_add(s, i->val);
    PQconninfoFree(o);
    secrets_add(s, getenv("PGPASSWORD"));
    return plain || o;
}

static void cluster_free(struct cluster *c)
{
    secrets_done(&c->secrets);
    free(c->url);
    free(c->space);
    free(c);
}

int cluster_open(const struct cluster_options *o, struct cluster **ret, struct dt_err *e)
{
    const char *space = o->space ? o->space : "default";
    if (!space_ok(space))
        return dt_err_set(e, DT_E_USAGE, "the namespace of a cluster is 1 to %d letters, digits, '-', '_' or '.'",
                          CLUSTER_SPACE_MAX);
    struct cluster *c = dt_calloc(1, sizeof *c);
    if (!c || !(c->url = dt_strdup(o->url)) || !(c->space = dt_strdup(space))) {
        if (c)
            cluster_free(c);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    if (!secrets_read(&c->secrets, c->url)) {
        cluster_free(c);
        return dt_err_set(e, DT_E_USAGE,
                          "the address of the cluster's database cannot be read as libpq reads it (it is not shown: it "
                          "may hold a password)");
    }
    c->loop = o->loop;
    c->connections = o->connections ? o->connections : 4;
    c->lookup_ms = o->lookup_ms ? o->lookup_ms : 50;
    c->statement_ms = o->statement_ms ? o->statement_ms : 2000;
    c->keep_days = o->keep_days;
    c->max_bytes = o->max_bytes;
    c->log = o->log;
    c->log_user = o->user;
    c->timer.data = c->dialed.data = c;
    int r = uv_async_init(c->loop, &c->dialed, pool_woken);
    if (r < 0) {
        cluster_free(c);
        return dt_err_set(e, DT_E_IO, "%s", uv_strerror(r));
    }
    uv_timer_init(c->loop, &c->timer);
    c->handles = 2;
    if (!link_new(c)) /* so that the first look-up need not wait for it */
        c->try_at = 0;
    *ret = c;
    return 0;
}

void pool_handle_closed(uv_handle_t *h)
{
    struct cluster *c = h->data;
    if (--c->handles)
        return;
    void (*closed)(void *) = c->closed;
    void *user = c->closed_user;
    cluster_free(c);
    closed(user);
}

void cluster_close(struct cluster *c, void (*closed)(void *user), void *user)
{
    c->closing = true;
    c->closed = closed;
    c->closed_user = user;
    uv_update_time(c->loop);
    c->close_by = uv_now(c->loop) + CLOSE_MS;
    pool_kick(c);
}

/* ---- how it is --------------------------------------------------------------------------------------------------- */

json_t *cluster_status(const struct cluster *c)
{
    static const char *const breaker[] = {"closed", "half", "open"};
    bool away = c->breaker != BREAKER_CLOSED, read_only = uv_now(c->loop) < c->read_only_until;
    const char *state = away && c->schema_bad ? "schema"
                        : away                ? "away"
                        : read_only           ? "read-only"
                        : !c->reached         ? "connecting"
                                              : "ok";
    const char *why = away          ? c->why
                      : read_only   ? "the server is read-only"
                      : !c->reached ? "the server is not reached yet"
                                    : NULL;
    return json_pack("{s:s, s:s*, s:s}", "state", state, "why", why, "breaker", breaker[c->breaker]);
}

void cluster_counts(const struct cluster *c, struct cluster_counts *ret)
{
    *ret = c->counts;
    ret->busy = links_in(c, LINK_BUSY) + links_in(c, LINK_ROLLBACK);
    ret->connections = ret->busy + links_in(c, LINK_IDLE);
    ret->waiting = c->nwaiting;
}
