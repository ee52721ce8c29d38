/* The queue of plans to make again (cluster.h): one row for a graph, a device and a toolchain.
 *
 *          add            claim                     done
 *   (none) ───▶ waiting ────────▶ leased ───────────────────▶ done, for a month
 *                 ▲  ▲              │  │ failed, begun too often
 *                 │  └── returned, ─┘  ▼
 *                 │      failed,      parked   nobody gets it; it keeps its reason
 *                 └─ unpark ───────────┘
 *                        or its lease ran out
 *
 * "Leased" is a row that waits and whose lease has not ended. A claim takes the first row that nobody else is just
 * taking (SKIP LOCKED) and is over at once; the work is done outside of any transaction. Each claim counts as a try
 * until it is returned, so that an entry that kills whoever has it is parked as well.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cluster-priv.h"

#define DEVICE_MAX 200
#define REASON_MAX 200
#define NOTE_MAX 4096
#define FAILURE_MAX 1000
#define TRIES_TEXT(n) TRIES_TEXT_(n)
#define TRIES_TEXT_(n) #n
#define TRIES TRIES_TEXT(CLUSTER_QUEUE_TRIES)

/* The queue of a device and toolchain, as one short text. */
static bool work_target(struct call *call, const char *device, const char *toolchain)
{
    struct dt_sha256 h;
    char target[DT_SHA256_TEXT];
    if (!call_bounded(call, "device", device, DEVICE_MAX) ||
        !call_bounded(call, "toolchain", toolchain, CLUSTER_KEY_MAX))
        return false;
    if (dt_sha256_init(&h) < 0) {
        call->arena.failed = true;
        return false;
    }
    dt_sha256_addstr(&h, device);
    dt_sha256_addstr(&h, toolchain);
    dt_sha256_final(&h, target);
    call->key.device = call_text(call, device);
    call->key.toolchain = call_text(call, toolchain);
    call->target = call_text(call, target);
    return true;
}

static bool work_key(struct call *call, const struct cluster_work_key *k)
{
    if (!work_target(call, k->device, k->toolchain))
        return false;
    if (!k->graph || !dt_sha256_ok(k->graph)) {
        call_refuse(call, "the digest of the graph is none");
        return false;
    }
    call->key.signature = call_text(call, k->graph);
    return true;
}

/* ---- add, claim -------------------------------------------------------------------------------------------------- */

static void add_read(struct call *call, PGresult *const *r)
{
    call_end(call, PQntuples(r[0]) ? CLUSTER_OK : CLUSTER_NONE, NULL);
}

void cluster_queue_add(struct cluster *c, const struct cluster_work *w, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, add_read);
    if (!call)
        return;
    call->writes = true;
    if (work_key(call, &w->key) && call_bounded(call, "reason", w->reason, REASON_MAX)) {
        dt_free_ char *note = w->note ? dt_json_dumps(w->note, JSON_COMPACT | JSON_SORT_KEYS) : dt_strdup("");
        const char *rank = call_number(call, w->rank);
        if (!note)
            call->arena.failed = true;
        else if (!*note || call_bounded(call, "note", note, NOTE_MAX))
            CALL_STEP(call, CLUSTER_SQL_WORK_ADD, call->target, call->key.signature, call->key.device, rank,
                      call_text(call, w->reason), call_text(call, note));
        CALL_STEP(call, CLUSTER_SQL_WORK_SEEN, call->target, call->key.signature, rank);
    }
    pool_submit(call);
}

static void graphs_read(struct call *call, PGresult *const *r) { call_end(call, CLUSTER_OK, NULL); }

void cluster_queue_graphs(struct cluster *c, const char *device, const char *toolchain, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, graphs_read);
    if (!call)
        return;
    call->writes = true;
    if (work_target(call, device, toolchain))
        CALL_STEP(call, CLUSTER_SQL_WORK_GRAPHS, call->target, call->key.device);
    pool_submit(call);
}

static void work_back(struct call *call)
{
    const struct cluster_work_key k = {call->key.signature, call->key.device, call->key.toolchain};
    if (call->token)
        cluster_queue_return(call->c, &k, call->token, NULL, NULL);
}

static void work_none(struct call *call, const PGresult *left)
{
    int64_t ms;
    call_end(call, CLUSTER_NONE, NULL);
    if (row_shape(left, 1) && PQntuples(left) == 1 && row_number(left, 0, 0, &ms) && ms > 0)
        call->row = json_pack("{s:I}", "left_ms", (json_int_t)ms);
}

static void work_read(struct call *call, PGresult *const *r)
{
    work_none(call, r[2]);
    if (!row_shape(r[1], 6) || PQntuples(r[1]) != 1)
        return;
    const char *graph = row_text(r[1], 0, 0, DT_SHA256_TEXT), *reason = row_text(r[1], 0, 2, REASON_MAX),
               *note = row_text(r[1], 0, 3, NOTE_MAX);
    int64_t rank, tries, token;
    if (!graph || !dt_sha256_ok(graph) || !reason || !note || !row_number(r[1], 0, 1, &rank) ||
        !row_number(r[1], 0, 4, &tries) || !row_number(r[1], 0, 5, &token)) {
        call->c->counts.damaged++;
        pool_log(call->c, true, "an entry of the cluster's queue is not used: it has not the form that it should have");
        return;
    }
    json_t *o = NULL;
    if (*note && (dt_json_load(note, strlen(note), &o, NULL) < 0))
        o = NULL;
    call->key.signature = call_text(call, graph);
    call->token = token;
    call_end(call, CLUSTER_OK, NULL);
    json_decref(call->row);
    call->row = json_pack("{s:s, s:I, s:s, s:o*, s:I, s:I}", "graph", graph, "rank", (json_int_t)rank, "reason", reason,
                          "note", o, "tries", (json_int_t)tries, "token", (json_int_t)token);
    if (!call->row) { /* the caller does not learn it */
        work_back(call);
        call_end(call, CLUSTER_AWAY, "out of memory");
    }
}

void cluster_queue_claim(struct cluster *c, const char *device, const char *toolchain,
                         const struct cluster_place *after, unsigned lease_ms, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, work_read);
    if (!call)
        return;
    call->writes = true;
    call->orphan = work_back;
    if (work_target(call, device, toolchain)) {
        CALL_STEP(call, CLUSTER_SQL_WORK_POISON, call->target, TRIES);
        CALL_STEP(call, CLUSTER_SQL_WORK_CLAIM, call->target, call_number(call, lease_ms),
                  call_number(call, after ? after->rank : INT64_MAX), call_text(call, after ? after->graph : ""));
        CALL_STEP(call, CLUSTER_SQL_WORK_LEFT, call->target);
    }
    pool_submit(call);
}

/* ---- whoever has it ---------------------------------------------------------------------------------------------- */

static void held_read(struct call *call, PGresult *const *r)
{
    if (PQntuples(r[0]))
        call_end(call, CLUSTER_OK, NULL);
    else
        call_end(call, CLUSTER_LOST, "somebody else has claimed it since, or it has ended");
}

static struct call *held_new(struct cluster *c, const struct cluster_work_key *k, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, held_read);
    if (call) {
        call->writes = true;
        work_key(call, k);
    }
    return call;
}

void cluster_queue_renew(struct cluster *c, const struct cluster_work_key *k, int64_t token, unsigned lease_ms,
                         cluster_fn *fn, void *user)
{
    struct call *call = held_new(c, k, fn, user);
    if (!call)
        return;
    call->urgent = true;
    CALL_STEP(call, CLUSTER_SQL_WORK_RENEW, call->target, call->key.signature, call_number(call, token),
              call_number(call, lease_ms));
    pool_submit(call);
}

void cluster_queue_done(struct cluster *c, const struct cluster_work_key *k, int64_t token, cluster_fn *fn, void *user)
{
    struct call *call = held_new(c, k, fn, user);
    if (!call)
        return;
    CALL_STEP(call, CLUSTER_SQL_WORK_DONE, call->target, call->key.signature, call_number(call, token));
    pool_submit(call);
}

static void fail_read(struct call *call, PGresult *const *r)
{
    held_read(call, r);
    if (call->outcome == CLUSTER_OK)
        call->row = json_pack("{s:b}", "parked", !strcmp(PQgetvalue(r[0], 0, 0), "parked"));
}

void cluster_queue_fail(struct cluster *c, const struct cluster_work_key *k, int64_t token, const char *reason,
                        unsigned backoff_ms, cluster_fn *fn, void *user)
{
    struct call *call = held_new(c, k, fn, user);
    if (!call)
        return;
    call->read = fail_read;
    const char *why = dt_arena_printf(&call->arena, "%.*s", FAILURE_MAX, reason ? reason : "");
    CALL_STEP(call, CLUSTER_SQL_WORK_FAIL, call->target, call->key.signature, call_number(call, token), TRIES,
              why ? why : "", call_number(call, backoff_ms));
    pool_submit(call);
}

void cluster_queue_return(struct cluster *c, const struct cluster_work_key *k, int64_t token, cluster_fn *fn,
                          void *user)
{
    struct call *call = held_new(c, k, fn, user);
    if (!call)
        return;
    CALL_STEP(call, CLUSTER_SQL_WORK_RETURN, call->target, call->key.signature, call_number(call, token));
    pool_submit(call);
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

static json_t *list_row(const PGresult *r, int row)
{
    const char *text[5] = {row_text(r, row, 0, DT_SHA256_TEXT), row_text(r, row, 1, DEVICE_MAX),
                           row_text(r, row, 3, REASON_MAX), row_text(r, row, 5, 16), row_text(r, row, 6, FAILURE_MAX)};
    int64_t rank, tries;
    for (int i = 0; i < 5; i++)
        if (!text[i])
            return NULL;
    if (!row_number(r, row, 2, &rank) || !row_number(r, row, 4, &tries))
        return NULL;
    return json_pack("{s:s, s:s, s:I, s:s, s:I, s:s, s:s}", "graph", text[0], "device", text[1], "rank",
                     (json_int_t)rank, "reason", text[2], "tries", (json_int_t)tries, "state", text[3], "failure",
                     text[4]);
}

static void list_read(struct call *call, PGresult *const *r)
{
    int64_t n[3] = {0};
    for (int i = 0; row_shape(r[0], 3) && PQntuples(r[0]) == 1 && i < 3; i++)
        row_number(r[0], 0, i, &n[i]);
    json_t *all = json_array();
    for (int i = 0; all && row_shape(r[1], 7) && i < PQntuples(r[1]); i++) {
        json_t *o = list_row(r[1], i);
        if (o)
            json_array_append_new(all, o);
    }
    call_end(call, CLUSTER_OK, NULL);
    call->row = json_pack("{s:I, s:I, s:I, s:o}", "waiting", (json_int_t)n[0], "leased", (json_int_t)n[1], "parked",
                          (json_int_t)n[2], "entries", all);
}

void cluster_queue_list(struct cluster *c, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, list_read);
    if (!call)
        return;
    call_step(call, CLUSTER_SQL_WORK_COUNT, 0, NULL);
    call_step(call, CLUSTER_SQL_WORK_LIST, 0, NULL);
    pool_submit(call);
}

static void unpark_read(struct call *call, PGresult *const *r)
{
    call_end(call, CLUSTER_OK, NULL);
    call->row = json_pack("{s:i}", "n", PQntuples(r[0]));
}

void cluster_queue_unpark(struct cluster *c, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, unpark_read);
    if (!call)
        return;
    call->writes = true;
    call_step(call, CLUSTER_SQL_WORK_UNPARK, 0, NULL);
    pool_submit(call);
}
