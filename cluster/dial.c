/* Connecting, on a thread: reading a service file, looking names up, TLS and GSS all block inside libpq, so the loop
 * has no part in it. The thread also looks at the version of the tables, and makes or migrates them.
 *
 *   connect ─▶ version? ── ours, or newer by additions ──────────────────────────────▶ OK
 *                 │  └──── of a newer major ─────────────────────────────────────────▶ SCHEMA
 *                 │ none, or older
 *                 └─▶ make dovetail_schema and its one row, if they are not there
 *                     begin ─▶ lock the row ─▶ version? ─▶ migrations ─▶ version ─▶ commit
 *
 * Two services that migrate at once meet at the lock of that row: the second finds that nothing is left to do. There is
 * no lock of the session and no advisory lock, so that a pooler in between does not matter. All of a service's
 * migrations are one transaction.
 *
 * A thread that nobody wants any more ends by itself: it looks every SLICE_MS whether that is so. It is joined all the
 * same, because a process must not exit while a thread is in libpq: libcrypto and GSS free what the thread uses. Only a
 * look-up of a name cannot be interrupted, and is not waited for; it uses neither.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster-priv.h"
#include "postgres.h"

#define SLICE_MS 100
#define MIGRATE_MS 60000
#define MIGRATIONS ((int)(sizeof schema_postgres / sizeof *schema_postgres))

struct dial {
    pthread_mutex_t lock;
    bool done, abandoned, orphan;
    uv_async_t *async; /* while it is no orphan */
    uv_thread_t thread;
    char *url;
    unsigned timeout_ms;
    uint64_t deadline;
    struct secrets secrets;
    struct dial_report report;
    struct dial *next; /* of those that leave */
    char sqlstate[6];  /* of the last query that failed */
};

static void dial_free(struct dial *d)
{
    PQfinish(d->report.conn);
    pthread_mutex_destroy(&d->lock);
    secrets_done(&d->secrets);
    free(d->url);
    free(d);
}

static bool dial_abandoned(struct dial *d)
{
    pthread_mutex_lock(&d->lock);
    bool yes = d->abandoned;
    pthread_mutex_unlock(&d->lock);
    return yes;
}

/* False: it did not become ready in time, or nobody waits. */
static bool dial_wait(struct dial *d, short events)
{
    for (;;) {
        struct pollfd p = {PQsocket(d->report.conn), events, 0};
        if (uv_hrtime() / 1000000 >= d->deadline || dial_abandoned(d) || p.fd < 0)
            return false;
        if (poll(&p, 1, SLICE_MS) > 0)
            return true;
    }
}

static enum dial_result dial_say(struct dial *d, enum dial_result result, const char *why)
{
    secrets_add(&d->secrets, d->report.conn ? PQpass(d->report.conn) : NULL);
    secrets_hide(&d->secrets, why, d->report.why, sizeof d->report.why);
    return result;
}

/* ---- queries ----------------------------------------------------------------------------------------------------- */

/* The last result, or that of the first error; NULL: no answer in time. `sql` may be several statements if n is 0. */
static PGresult *dial_query(struct dial *d, const char *sql, int n, const char *const *value)
{
    PGconn *conn = d->report.conn;
    PGresult *last = NULL, *r;
    if (!(n ? PQsendQueryParams(conn, sql, n, NULL, value, NULL, NULL, 0) : PQsendQuery(conn, sql)))
        return NULL;
    for (;;) {
        while (PQisBusy(conn))
            if (!dial_wait(d, POLLIN) || !PQconsumeInput(conn)) {
                PQclear(last);
                return NULL;
            }
        if (!(r = PQgetResult(conn)))
            return last;
        if (last && PQresultStatus(last) == PGRES_FATAL_ERROR) {
            PQclear(r);
        } else {
            PQclear(last);
            last = r;
        }
    }
}

/* *ret may be NULL. */
static enum dial_result dial_do(struct dial *d, const char *sql, int n, const char *const *value, PGresult **ret)
{
    PGresult *r = dial_query(d, sql, n, value);
    ExecStatusType status = PQresultStatus(r);
    d->sqlstate[0] = 0;
    if (!r)
        return dial_say(d, DIAL_AWAY, "the server did not answer in time");
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
        if (ret)
            *ret = r;
        else
            PQclear(r);
        return DIAL_OK;
    }
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE), *why = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    snprintf(d->sqlstate, sizeof d->sqlstate, "%s", state ? state : "");
    enum dial_result result = !strcmp(d->sqlstate, "25006")                                      ? DIAL_READONLY
                              : !strncmp(d->sqlstate, "42", 2) || !strncmp(d->sqlstate, "0A", 2) ? DIAL_SCHEMA
                                                                                                 : DIAL_AWAY;
    dial_say(d, result, why ? why : "the server sent something that is no answer");
    PQclear(r);
    return result;
}

static enum dial_result dial_run(struct dial *d, enum cluster_sql sql)
{
    return dial_do(d, cluster_sql_text[sql], 0, NULL, NULL);
}

/* The end of a transaction: if it goes well, what went wrong before it is still known. */
static enum dial_result dial_finish(struct dial *d, enum cluster_sql sql)
{
    char sqlstate[sizeof d->sqlstate];
    memcpy(sqlstate, d->sqlstate, sizeof sqlstate);
    enum dial_result r = dial_run(d, sql);
    if (r == DIAL_OK)
        memcpy(d->sqlstate, sqlstate, sizeof sqlstate);
    return r;
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

/* Into the report; 0.0: the row is not there. */
static enum dial_result dial_version(struct dial *d, enum cluster_sql sql)
{
    PGresult *r = NULL;
    int64_t major = 0, minor = 0;
    enum dial_result result = dial_do(d, cluster_sql_text[sql], 0, NULL, &r);
    if (result != DIAL_OK)
        return result;
    if (!row_shape(r, 2) || PQntuples(r) > 1 ||
        (PQntuples(r) == 1 && (!row_number(r, 0, 0, &major) || !row_number(r, 0, 1, &minor) || major < 0 ||
                               major > 1000000 || minor < 0 || minor > 1000000)))
        result = dial_say(d, DIAL_SCHEMA, "the version of the tables (dovetail_schema) cannot be read");
    PQclear(r);
    d->report.major = (int)major;
    d->report.minor = (int)minor;
    return result;
}

static bool version_serves(const struct dial *d)
{
    return d->report.major == CLUSTER_MAJOR && d->report.minor >= MIGRATIONS;
}

static enum dial_result version_new(struct dial *d)
{
    char why[200];
    snprintf(why, sizeof why,
             "the tables are of version %d.%d, made by a newer dovetail; this one understands version %d",
             d->report.major, d->report.minor, CLUSTER_MAJOR);
    return dial_say(d, DIAL_SCHEMA, why);
}

static enum dial_result dial_migrate_locked(struct dial *d)
{
    enum dial_result r = dial_version(d, CLUSTER_SQL_SCHEMA_LOCK);
    if (r != DIAL_OK || version_serves(d))
        return r;
    if (d->report.major > CLUSTER_MAJOR)
        return version_new(d);
    for (int i = d->report.minor; r == DIAL_OK && i < MIGRATIONS; i++)
        r = dial_do(d, schema_postgres[i], 0, NULL, NULL);
    char major[12], minor[12];
    snprintf(major, sizeof major, "%d", CLUSTER_MAJOR);
    snprintf(minor, sizeof minor, "%d", MIGRATIONS);
    if (r == DIAL_OK)
        r = dial_do(d, cluster_sql_text[CLUSTER_SQL_SCHEMA_SET], 2, (const char *const[]){major, minor}, NULL);
    if (r == DIAL_OK) {
        d->report.major = CLUSTER_MAJOR;
        d->report.minor = MIGRATIONS;
    }
    return r;
}

static enum dial_result dial_migrate(struct dial *d)
{
    /* Others may make them at the same moment; then one of us gets an error about the catalogue, and looks again. */
    enum dial_result r = DIAL_OK;
    d->deadline = uv_hrtime() / 1000000 + MIGRATE_MS;
    for (int i = 0; i < 10; i++) {
        r = dial_run(d, CLUSTER_SQL_SCHEMA_MAKE);
        if (r == DIAL_OK)
            r = dial_run(d, CLUSTER_SQL_SCHEMA_ROW);
        if (r == DIAL_OK && (r = dial_run(d, CLUSTER_SQL_BEGIN)) == DIAL_OK) {
            r = dial_migrate_locked(d);
            enum dial_result end = dial_finish(d, r == DIAL_OK ? CLUSTER_SQL_COMMIT : CLUSTER_SQL_ROLLBACK);
            if (r == DIAL_OK)
                r = end;
        }
        static const char *const again[] = {"23505", "42P07", "42710", "40001", "40P01", "XX000"};
        bool once_more = false;
        for (size_t k = 0; r != DIAL_OK && k < sizeof again / sizeof *again; k++)
            once_more |= !strcmp(d->sqlstate, again[k]);
        if (!once_more || dial_abandoned(d))
            break;
        poll(NULL, 0, 20 << i < 500 ? 20 << i : 500);
    }
    return r;
}

static enum dial_result dial_schema(struct dial *d)
{
    enum dial_result r = dial_version(d, CLUSTER_SQL_SCHEMA_GET);
    bool none = r == DIAL_SCHEMA && !strcmp(d->sqlstate, "42P01");
    if (r != DIAL_OK && !none)
        return r;
    if (r == DIAL_OK && d->report.major > CLUSTER_MAJOR)
        return version_new(d);
    return r == DIAL_OK && version_serves(d) ? DIAL_OK : dial_migrate(d);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void notice_none(void *arg, const PGresult *r) {}

static enum dial_result dial_connect(struct dial *d)
{
    /* before the address: what it says goes over these; behind it: it does not */
    const char *const name[] = {"tcp_user_timeout", "keepalives_idle", "fallback_application_name",
                                "dbname",           "client_encoding", NULL};
    const char *const value[] = {"10000", "30", "dovetail", d->url, "UTF8", NULL};
    PGconn *conn = d->report.conn = PQconnectStartParams(name, value, 1);
    if (!conn)
        return dial_say(d, DIAL_AWAY, "out of memory");
    PQsetNoticeReceiver(conn, notice_none, NULL);
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    while (PQstatus(conn) != CONNECTION_BAD && next != PGRES_POLLING_OK && next != PGRES_POLLING_FAILED) {
        if (!dial_wait(d, next == PGRES_POLLING_READING ? POLLIN : POLLOUT))
            return dial_say(d, DIAL_AWAY, "the server cannot be reached in time");
        next = PQconnectPoll(conn);
    }
    if (PQstatus(conn) != CONNECTION_OK)
        return dial_say(d, DIAL_AWAY, PQerrorMessage(conn));
    secrets_add(&d->secrets, PQpass(conn));
    return DIAL_OK;
}

static void dial_thread(void *user)
{
    struct dial *d = user;
    d->deadline = uv_hrtime() / 1000000 + d->timeout_ms;
    enum dial_result r = dial_connect(d);
    if (r == DIAL_OK)
        r = dial_schema(d);
    if (r != DIAL_OK) {
        PQfinish(d->report.conn);
        d->report.conn = NULL;
    }
    d->report.result = r;
    pthread_mutex_lock(&d->lock);
    bool orphan = d->orphan;
    d->done = true;
    if (!orphan)
        uv_async_send(d->async);
    pthread_mutex_unlock(&d->lock);
    if (orphan)
        dial_free(d);
}

struct dial *dial_new(const char *url, unsigned timeout_ms, const struct secrets *s, uv_async_t *async)
{
    struct dial *d = dt_calloc(1, sizeof *d);
    if (!d)
        return NULL;
    pthread_mutex_init(&d->lock, NULL);
    d->async = async;
    d->timeout_ms = timeout_ms;
    for (int i = 0; i < SECRETS; i++)
        secrets_add(&d->secrets, s->text[i]);
    if (!(d->url = dt_strdup(url)) || uv_thread_create(&d->thread, dial_thread, d) < 0) {
        dial_free(d);
        return NULL;
    }
    return d;
}

static bool dial_done(struct dial *d)
{
    pthread_mutex_lock(&d->lock);
    bool done = d->done;
    pthread_mutex_unlock(&d->lock);
    return done;
}

bool dial_take(struct dial *d, struct dial_report *ret)
{
    if (!dial_done(d))
        return false;
    uv_thread_join(&d->thread);
    *ret = d->report;
    d->report.conn = NULL;
    dial_free(d);
    return true;
}

void dial_abandon(struct dial *d, struct dial **leaving)
{
    pthread_mutex_lock(&d->lock);
    d->abandoned = true;
    pthread_mutex_unlock(&d->lock);
    d->next = *leaving;
    *leaving = d;
}

void dial_reap(struct dial **leaving)
{
    for (struct dial **at = leaving, *d; (d = *at);) {
        struct dial_report r;
        struct dial *next = d->next;
        if (dial_take(d, &r)) {
            PQfinish(r.conn);
            *at = next;
        } else {
            at = &d->next;
        }
    }
}

void dial_orphan(struct dial **leaving)
{
    for (struct dial *d; (d = *leaving);) {
        *leaving = d->next;
        pthread_mutex_lock(&d->lock);
        bool done = d->done;
        d->orphan = true;
        pthread_mutex_unlock(&d->lock);
        if (done) {
            uv_thread_join(&d->thread);
            dial_free(d);
        } else {
            pthread_detach(d->thread);
        }
    }
}
