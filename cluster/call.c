/* Calls: what was asked for, copied, as the statements of one transaction; and the reading of what came.
 *
 *   call_new ─▶ call_step … ─▶ pool_submit ─▶ (waits) ─▶ link_send ─▶ read ─▶ pool_over ─▶ fn
 *                   │ refused, no memory                    │ error: call_error     ▲
 *                   └──────────────────────────────────────────────────────────────┘
 *
 * The server is not trusted: the helpers at the end check number of columns, length and form of every value before it
 * is used. A reader that finds something wrong treats the row as if it were not there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "cluster-priv.h"

const char *const cluster_sql_text[CLUSTER_NSQL] = {
#define STATEMENT(NAME, sql) [CLUSTER_SQL_##NAME] = sql,
#include "cluster/statements.def"
#undef STATEMENT
};

const char *cluster_outcome_text(enum cluster_outcome o)
{
    static const char *const name[CLUSTER_OUTCOMES] = {"ok", "none", "busy", "lost", "refused", "away"};
    return (unsigned)o < CLUSTER_OUTCOMES ? name[o] : "?";
}

struct call *call_new(struct cluster *c, cluster_fn *fn, void *user, void (*read)(struct call *, PGresult *const *))
{
    struct call *call = dt_calloc(1, sizeof *call);
    if (!call) {
        if (fn)
            fn(user, CLUSTER_AWAY, NULL, "out of memory");
        return NULL;
    }
    call->c = c;
    call->fn = fn;
    call->user = user;
    call->read = read;
    call->ms = c->statement_ms;
    call->deadline = uv_now(c->loop) + call->ms;
    call->outcome = CLUSTER_AWAY;
    return call;
}

void call_free(struct call *call)
{
    dt_arena_done(&call->arena);
    json_decref(call->row);
    free(call);
}

const char *call_text(struct call *call, const char *text)
{
    const char *copy = dt_arena_strdup(&call->arena, text ? text : "");
    return copy ? copy : "";
}

const char *call_number(struct call *call, int64_t n)
{
    const char *text = dt_arena_printf(&call->arena, "%lld", (long long)n);
    return text ? text : "";
}

void call_step(struct call *call, enum cluster_sql sql, unsigned n, const char *const *value)
{
    if (call->nsteps == call->cap) {
        unsigned cap = call->cap ? 2 * call->cap : 4;
        struct step *more = dt_new_array(&call->arena, struct step, cap);
        if (!more)
            return; /* the arena remembers */
        if (call->nsteps)
            memcpy(more, call->step, call->nsteps * sizeof *more);
        call->step = more;
        call->cap = cap;
    }
    struct step *s = &call->step[call->nsteps++];
    *s = (struct step){.sql = sql, .nparams = (int)n + 1};
    s->value[0] = call->c->space;
    for (unsigned i = 0; i < n; i++)
        s->value[i + 1] = value[i];
}

void call_refuse(struct call *call, const char *why)
{
    if (call->refused)
        return;
    call->refused = true;
    call_end(call, CLUSTER_REFUSED, why);
}

bool call_bounded(struct call *call, const char *what, const char *text, size_t max)
{
    size_t n = text ? strlen(text) : 0;
    if (n && n <= max)
        return true;
    snprintf(call->why, sizeof call->why, n ? "%s has %zu bytes, more than %zu" : "%s is empty", what, n, max);
    call_refuse(call, NULL);
    return false;
}

bool call_key(struct call *call, const struct cluster_key *k)
{
    if (!call_bounded(call, "signature", k->signature, DT_SHA256_TEXT) ||
        !call_bounded(call, "device", k->device, CLUSTER_KEY_MAX) ||
        !call_bounded(call, "toolchain", k->toolchain, CLUSTER_KEY_MAX) ||
        !call_bounded(call, "policy", k->policy, CLUSTER_KEY_MAX))
        return false;
    if (!dt_sha256_ok(k->signature)) {
        call_refuse(call, "the signature is none");
        return false;
    }
    call->key = (struct cluster_key){call_text(call, k->signature), call_text(call, k->device),
                                     call_text(call, k->toolchain), call_text(call, k->policy)};
    struct dt_sha256 h;
    if (dt_sha256_init(&h) < 0) {
        call->arena.failed = true;
        return true;
    }
    dt_sha256_addstr(&h, k->signature);
    dt_sha256_addstr(&h, k->device);
    dt_sha256_addstr(&h, k->toolchain);
    dt_sha256_addstr(&h, k->policy);
    dt_sha256_final(&h, call->hash);
    return true;
}

/* `why` may be NULL: it is set already. */
void call_end(struct call *call, enum cluster_outcome outcome, const char *why)
{
    call->outcome = outcome;
    if (why)
        secrets_hide(&call->c->secrets, why, call->why, sizeof call->why);
    if (outcome == CLUSTER_OK || outcome == CLUSTER_NONE || outcome == CLUSTER_BUSY)
        call->why[0] = 0;
    if (outcome != CLUSTER_OK && outcome != CLUSTER_BUSY) {
        json_decref(call->row);
        call->row = NULL;
    }
}

/* ---- what the server sent ---------------------------------------------------------------------------------------- */

bool row_shape(const PGresult *r, int columns)
{
    if (PQresultStatus(r) != PGRES_TUPLES_OK || PQnfields(r) != columns)
        return false;
    for (int row = 0; row < PQntuples(r); row++)
        for (int i = 0; i < columns; i++)
            if (PQgetisnull(r, row, i))
                return false;
    return true;
}

const char *row_text(const PGresult *r, int row, int column, size_t max)
{
    const char *text = PQgetvalue(r, row, column);
    size_t n = (size_t)PQgetlength(r, row, column);
    bool sound = n <= max && PQfformat(r, column) == 0 && strlen(text) == n;
    for (const char *p = text; sound && *p; p += dt_utf8(p))
        sound = dt_utf8(p);
    return sound ? text : NULL;
}

bool row_number(const PGresult *r, int row, int column, int64_t *ret)
{
    const char *text = row_text(r, row, column, 20), *p = text;
    if (!text)
        return false;
    bool minus = *p == '-';
    uint64_t n = 0;
    p += minus;
    if (!*p)
        return false;
    for (; *p; p++) {
        if (*p < '0' || *p > '9' || n > (uint64_t)INT64_MAX / 10)
            return false;
        n = n * 10 + (uint64_t)(*p - '0');
        if (n > INT64_MAX)
            return false;
    }
    *ret = minus ? -(int64_t)n : (int64_t)n;
    return true;
}
