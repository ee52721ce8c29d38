/* The night's side of the cluster's queue (cluster.h): what is due here is put into it; then entries are claimed, one
 * at a time, by whichever host has time for them.
 *
 *   add all that is due, some at a time ─▶ claim ─▶ an entry: held by a lease that is renewed
 *                                            │ none, but others hold some: again when the first lease ends
 *                                            └ none: the night is over
 *
 * An entry whose graph this host does not have goes back, and the next claim asks for what stands behind it. A host
 * whose lease ends while it works (it was cut off) stops: somebody else has the entry by then. Its result, if there is
 * one already, is held to the lease on the plan's key, as any result is (share.c).
 *
 * Everything is on the loop's thread. Answers may come after the night is over: the queue goes with the last of them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/service/night.h"
#include "daemon/service/share.h"

#define ADDING 32 /* at a time */
#define WAIT_MIN_MS 500
#define BACKOFF_MS 600000 /* after a failure */

enum asked { NOTHING, ASKED, ANSWERED };

struct dtd_night_queue {
    struct dtd_service *s;
    json_t *due;
    size_t at;       /* of `due`: the next to be added */
    unsigned flying; /* calls that are not answered */
    bool away, closed;
    enum asked asked; /* a claim */
    enum dtd_taken answer;
    uint64_t not_before_ms, before_ms;
    struct dtd_night_item item; /* of the answer */
    struct dtd_night_item *held;
    char device[192], toolchain[256];
    bool behind; /* of `place` */
    struct cluster_place place;
    char place_graph[DT_SHA256_TEXT];
};

static struct cluster_work_key queue_key(const struct dtd_night_queue *q, const char *graph)
{
    return (struct cluster_work_key){graph, q->device, q->toolchain};
}

/* Of every answer. False: nobody wants it. */
static bool queue_answered(struct dtd_night_queue *q, enum cluster_outcome outcome)
{
    dtd_share_count(q->s->share, DTD_CALL_QUEUE, outcome);
    q->flying--;
    q->away |= outcome == CLUSTER_AWAY;
    if (!q->closed)
        return true;
    if (!q->flying) {
        json_decref(q->due);
        free(q);
    }
    return false;
}

static void queue_added(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    queue_answered(user, outcome);
}

struct dtd_night_queue *dtd_night_queue_open(struct dtd_service *s, const struct dtd_night_work *w)
{
    struct dtd_night_queue *q = dt_calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->s = s;
    q->due = json_incref(w->due);
    snprintf(q->device, sizeof q->device, "%s", w->key);
    snprintf(q->toolchain, sizeof q->toolchain, "%s", w->toolchain);
    if (s->cfg.share_graphs) {
        q->flying++;
        cluster_queue_graphs(s->share->cluster, q->device, q->toolchain, queue_added, q);
    }
    return q;
}

void dtd_night_queue_close(struct dtd_night_queue *q)
{
    q->closed = true;
    q->held = NULL;
    if (q->asked == ANSWERED && q->answer == DTD_TAKEN)
        dtd_night_queue_give(q, &q->item, DTD_GIVEN_BACK, NULL);
    q->flying++;
    queue_answered(q, CLUSTER_OK);
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

void dtd_night_queue_fill(struct dtd_night_queue *q)
{
    while (!q->away && !q->s->share->closing && q->flying < ADDING && q->at < json_array_size(q->due)) {
        const json_t *o = json_array_get(q->due, q->at++);
        const struct cluster_work w = {.key = queue_key(q, dt_json_text(o, "graph")),
                                       .rank = json_integer_value(json_object_get(o, "rank")),
                                       .reason = dt_json_text(o, "reason")};
        q->flying++;
        cluster_queue_add(q->s->share->cluster, &w, queue_added, q);
    }
}

/* ---- claiming ---------------------------------------------------------------------------------------------------- */

static void queue_claimed(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct dtd_night_queue *q = user;
    struct dtd_night_item item = {.rank = json_integer_value(json_object_get(row, "rank")),
                                  .token = json_integer_value(json_object_get(row, "token")),
                                  .held_ms = q->before_ms,
                                  .renewed_ms = q->before_ms};
    snprintf(item.graph, sizeof item.graph, "%s", dt_json_text(row, "graph"));
    snprintf(item.reason, sizeof item.reason, "%s", dt_json_text(row, "reason"));
    if (q->closed && outcome == CLUSTER_OK)
        dtd_night_queue_give(q, &item, DTD_GIVEN_BACK, NULL);
    if (!queue_answered(q, outcome))
        return;
    json_int_t left = json_integer_value(json_object_get(row, "left_ms"));
    q->asked = ANSWERED;
    q->item = item;
    q->answer = outcome == CLUSTER_OK     ? DTD_TAKEN
                : outcome != CLUSTER_NONE ? DTD_TAKEN_AWAY
                : left > 0                ? DTD_TAKEN_WAIT
                                          : DTD_TAKEN_NONE;
    if (q->answer == DTD_TAKEN_WAIT) {
        uint64_t wait = left < WAIT_MIN_MS ? WAIT_MIN_MS : left < DTD_LEASE_MS ? (uint64_t)left + 1 : DTD_LEASE_MS;
        q->not_before_ms = uv_now(q->s->loop) + wait;
    }
}

enum dtd_taken dtd_night_queue_take(struct dtd_night_queue *q, struct dtd_night_item *ret)
{
    if (q->s->share->closing)
        return DTD_TAKEN_AWAY;
    dtd_night_queue_fill(q);
    if (q->away)
        return DTD_TAKEN_AWAY;
    if (q->at < json_array_size(q->due) || (q->flying && q->asked != ASKED))
        return DTD_TAKEN_WAIT; /* until all is in */
    if (q->asked == ANSWERED) {
        q->asked = NOTHING;
        if (q->answer == DTD_TAKEN)
            *ret = q->item;
        return q->answer;
    }
    if (q->asked == NOTHING && uv_now(q->s->loop) >= q->not_before_ms) {
        q->asked = ASKED;
        q->flying++;
        q->before_ms = uv_now(q->s->loop);
        cluster_queue_claim(q->s->share->cluster, q->device, q->toolchain, q->behind ? &q->place : NULL, DTD_LEASE_MS,
                            queue_claimed, q);
    }
    return DTD_TAKEN_WAIT;
}

/* ---- holding ----------------------------------------------------------------------------------------------------- */

static void queue_renewed(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct dtd_night_queue *q = user;
    if (!queue_answered(q, outcome == CLUSTER_AWAY ? CLUSTER_NONE : outcome) || !q->held)
        return; /* away: the lease may still be good; another renewal follows */
    if (outcome == CLUSTER_OK)
        q->held->held_ms = q->held->renewed_ms;
    else if (outcome != CLUSTER_AWAY)
        q->held->lost = true;
}

void dtd_night_queue_hold(struct dtd_night_queue *q, struct dtd_night_item *item)
{
    uint64_t now = uv_now(q->s->loop);
    q->held = item;
    item->lost |= now - item->held_ms >= DTD_LEASE_MS;
    if (item->lost || now - item->renewed_ms < DTD_LEASE_MS / 3)
        return;
    const struct cluster_work_key k = queue_key(q, item->graph);
    item->renewed_ms = now;
    q->flying++;
    cluster_queue_renew(q->s->share->cluster, &k, item->token, DTD_LEASE_MS, queue_renewed, q);
}

/* ---- giving ------------------------------------------------------------------------------------------------------ */

static void queue_given(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct dtd_night_queue *q = user;
    if (json_is_true(json_object_get(row, "parked")))
        dt_log(DT_LOG_WARN, "night: a graph failed %d times in the cluster, and is not tried any more",
               CLUSTER_QUEUE_TRIES);
    queue_answered(q, outcome == CLUSTER_AWAY ? CLUSTER_NONE : outcome);
}

void dtd_night_queue_give(struct dtd_night_queue *q, const struct dtd_night_item *item, enum dtd_given how,
                          const char *why)
{
    const struct cluster_work_key k = queue_key(q, item->graph);
    struct cluster *c = q->s->share->cluster;
    q->held = NULL;
    if (q->s->share->closing)
        return; /* its lease runs out */
    q->flying++;
    if (how == DTD_GIVEN_FOREIGN) {
        snprintf(q->place_graph, sizeof q->place_graph, "%s", item->graph);
        q->place = (struct cluster_place){item->rank, q->place_graph};
        q->behind = true;
    }
    if (how == DTD_GIVEN_DONE)
        cluster_queue_done(c, &k, item->token, queue_given, q);
    else if (how == DTD_GIVEN_FAILED)
        cluster_queue_fail(c, &k, item->token, why, BACKOFF_MS, queue_given, q);
    else
        cluster_queue_return(c, &k, item->token, queue_given, q);
}
