/* Questions of workers to the cluster: has another host found this plan, or who finds it?
 *
 *   times   what another host measured, of the performance library, within shared_lookup_ms
 *   timed   what was measured here is sent (timed.c), and nobody waits for what becomes of it: the host has it itself
 *   near    what there is of the signature under other keys (explain)
 *   find    one look-up, within shared_lookup_ms
 *   claim   ┌──────────▶ claim the key ── nobody knows ──▶ away
 *           │               │      └──── somebody has it ──▶ wait ──▶ look up ── a recipe ──▶ recipe
 *           │               │ it is ours                                 │ none
 *           │               ▼                                            │
 *           │            look up ── a recipe ──▶ release, recipe         │
 *           │               └────── none, or not known ──▶ plan          │
 *           └────────────────────────────────────────────────────────────┘
 *
 * A key that was claimed is looked up once more: the host that had it may have ended in between. A lease is renewed
 * until its job is over. If the job made a plan, the lease ends in the transaction that puts the plan into the cluster
 * (drain.c), so that there is no moment at which another host finds neither; else it ends at once. A host that dies
 * gives up its leases by not renewing them, DTD_LEASE_MS after the last time.
 *
 * Waiting for another host is bounded by the job's own time: of what is left of it, half may be waited; the other half
 * is for planning. A server that goes away ends the wait as well. So a job is never worse off than without a cluster by
 * more than that.
 *
 * A row whose seal is not to be believed (trust.c) is none. A host that signs says `instead` then: what it plans takes
 * the place of that row, which would be in its way for ever otherwise. Measurements are held to the same rules.
 *
 * The recipe goes to the worker as it came: it is a claim like any other, and the worker checks it (daemon/worker).
 *
 * Not here: who may share (api-post.c sets the option), sending (drain.c, timed.c), the server (cluster/).
 */
#include "daemon/service/share.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/service/pool-priv.h"

#define POLL_MIN_MS 50 /* then twice as long, and so on */
#define POLL_MAX_MS 1000
#define SETTLE_MS 20000 /* a lease whose job is over waits for its row to be sent for so long */
#define STATEMENT_MS 2000
#define TEXT_MAX 4096

const char *const dtd_told_names[DTD_NTOLD] = {"recipe", "plan", "none", "away", "overtime", "times", "near"};
const char *const dtd_call_names[DTD_NCALLS] = {"find", "near",        "claim",       "renew", "release",
                                                "put",  "measure_get", "measure_put", "queue", "graph"};

struct lease_key { /* owns its texts */
    struct cluster_key key;
    char *text;
};

struct dtd_ask {
    struct dtd_share *sh;
    struct dtd_ask *next;
    struct dtd_worker *worker; /* NULL: nobody waits for the answer any more */
    struct lease_key key;
    char refused[DT_SHA256_TEXT]; /* digest of a recipe that did not hold there, or "" */
    char turned[DT_SHA256_TEXT];  /* digest of the row that is there and not believed, or "" */
    bool claim, waits;
    unsigned polls;
    uint64_t begun_ns, until_ms;
    int64_t token; /* claimed, and not yet told */
    uv_timer_t timer;
    bool flying; /* the cluster has a call of it */
};

struct dtd_lease {
    struct dtd_share *sh;
    struct dtd_lease *next;
    struct dtd_worker *worker; /* NULL: its job is over */
    struct lease_key key;
    int64_t token;
    uint64_t held_ms; /* uv_now() before the call that took it or renewed it last */
    uint64_t over_ms; /* its job is over since */
    uv_timer_t timer;
    bool flying, ended;
};

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static bool key_copy(struct lease_key *to, const struct cluster_key *from)
{
    const char *const text[4] = {from->signature, from->device, from->toolchain, from->policy};
    size_t n = 0, at[4];
    for (int i = 0; i < 4; i++) {
        at[i] = n;
        n += strlen(text[i]) + 1;
    }
    if (!(to->text = dt_malloc(n)))
        return false;
    for (int i = 0; i < 4; i++)
        memcpy(to->text + at[i], text[i], strlen(text[i]) + 1);
    to->key = (struct cluster_key){to->text + at[0], to->text + at[1], to->text + at[2], to->text + at[3]};
    return true;
}

/* Of a worker's question. False: it is none. */
static bool key_read(const json_t *o, struct cluster_key *ret)
{
    *ret = (struct cluster_key){dt_json_text(o, "signature"), dt_json_text(o, "device"), dt_json_text(o, "toolchain"),
                                dt_json_text(o, "policy")};
    return dt_sha256_ok(ret->signature) && *ret->device && *ret->toolchain && *ret->policy &&
           strlen(ret->device) < TEXT_MAX && strlen(ret->toolchain) < TEXT_MAX && strlen(ret->policy) < TEXT_MAX;
}

void dtd_share_count(struct dtd_share *sh, enum dtd_call call, enum cluster_outcome outcome)
{
    sh->calls[call][outcome]++;
}

/* ---- leases ------------------------------------------------------------------------------------------------------ */

static void lease_closed(uv_handle_t *h)
{
    struct dtd_lease *l = h->data;
    free(l->key.text);
    free(l);
}

/* Not renewed any more; freed when no call is under way. */
static void lease_end(struct dtd_lease *l)
{
    if (!l->ended) {
        struct dtd_lease **at = &l->sh->leases;
        while (*at != l)
            at = &(*at)->next;
        *at = l->next;
        if (l->worker)
            l->worker->lease = NULL;
        l->worker = NULL;
        l->ended = true;
        uv_timer_stop(&l->timer);
    }
    if (!l->flying && !uv_is_closing((uv_handle_t *)&l->timer))
        uv_close((uv_handle_t *)&l->timer, lease_closed);
}

static void lease_released(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    dtd_share_count(user, DTD_CALL_RELEASE, outcome);
}

static void share_release(struct dtd_share *sh, const struct cluster_key *key, int64_t token)
{
    cluster_release(sh->cluster, key, token, lease_released, sh);
}

static void lease_give_up(struct dtd_lease *l)
{
    share_release(l->sh, &l->key.key, l->token);
    lease_end(l);
}

struct renewal {
    struct dtd_lease *lease;
    uint64_t before_ms;
};

static void lease_renewed(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct renewal *r = user;
    struct dtd_lease *l = r->lease;
    dtd_share_count(l->sh, DTD_CALL_RENEW, outcome);
    l->flying = false;
    if (outcome == CLUSTER_OK)
        l->held_ms = r->before_ms;
    free(r);
    if (l->ended) {
        lease_end(l);
    } else if (outcome == CLUSTER_LOST) {
        dt_log(DT_LOG_WARN, "the lease of %.23s was lost: another host may plan it, too", l->key.key.signature);
        lease_end(l);
    }
}

static void lease_turn(uv_timer_t *t)
{
    struct dtd_lease *l = t->data;
    uint64_t now = uv_now(t->loop);
    if (now - l->held_ms > DTD_LEASE_MS) { /* by this host's clock, from before it was asked for */
        dt_log(DT_LOG_WARN, "the lease of %.23s ran out: the cluster was away too long", l->key.key.signature);
        lease_end(l);
        return;
    }
    if (l->over_ms && now - l->over_ms > SETTLE_MS) { /* the result is not in the outbox, or cannot be sent */
        lease_give_up(l);
        return;
    }
    struct renewal *r = l->flying ? NULL : dt_malloc(sizeof *r);
    if (!r)
        return;
    *r = (struct renewal){l, now};
    l->flying = true;
    cluster_renew(l->sh->cluster, &l->key.key, l->token, DTD_LEASE_MS, lease_renewed, r);
}

/* The worker has it from now on. False: memory. */
static bool lease_take(struct dtd_ask *a, uint64_t before_ms)
{
    struct dtd_share *sh = a->sh;
    struct dtd_lease *l = dt_calloc(1, sizeof *l);
    if (!l || !key_copy(&l->key, &a->key.key)) {
        free(l);
        return false;
    }
    if (a->worker->lease)
        lease_give_up(a->worker->lease);
    l->sh = sh;
    l->worker = a->worker;
    l->token = a->token;
    l->held_ms = before_ms;
    l->next = sh->leases;
    sh->leases = l;
    a->worker->lease = l;
    uv_timer_init(sh->s->loop, &l->timer);
    l->timer.data = l;
    uv_timer_start(&l->timer, lease_turn, DTD_LEASE_MS / 3, DTD_LEASE_MS / 3);
    return true;
}

void dtd_share_settled(struct dtd_share *sh, int64_t token)
{
    for (struct dtd_lease *l = sh->leases, *next; l; l = next) {
        next = l->next;
        if (l->token == token && l->over_ms)
            lease_end(l);
    }
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void ask_closed(uv_handle_t *h)
{
    struct dtd_ask *a = h->data;
    free(a->key.text);
    free(a);
}

/* Freed when no call is under way. */
static void ask_end(struct dtd_ask *a)
{
    if (a->worker)
        a->worker->ask = NULL;
    a->worker = NULL;
    if (a->token)
        share_release(a->sh, &a->key.key, a->token);
    a->token = 0;
    uv_timer_stop(&a->timer);
    if (a->flying || uv_is_closing((uv_handle_t *)&a->timer))
        return;
    struct dtd_ask **at = &a->sh->asks;
    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    uv_close((uv_handle_t *)&a->timer, ask_closed);
}

static void ask_tell(struct dtd_ask *a, enum dtd_told told, json_t *answer)
{
    struct dtd_worker *w = a->worker;
    a->sh->told[told]++;
    ask_end(a);
    if (w)
        worker_tell(w, answer);
    else
        json_decref(answer);
}

/* A recipe that the worker has not refused, of somebody who is believed. */
static bool ask_recipe(struct dtd_ask *a, enum cluster_outcome outcome, const json_t *row)
{
    const char *digest = dt_json_text(row, "digest");
    bool again = *a->turned && !strcmp(digest, a->turned);
    if (outcome == CLUSTER_OK || outcome == CLUSTER_NONE)
        a->turned[0] = 0;
    if (outcome != CLUSTER_OK || !*digest || !json_is_object(json_object_get(row, "recipe")))
        return false;
    if (!dtd_trust_row(&a->sh->trust, &a->sh->s->cfg, &a->key.key, row, again)) {
        snprintf(a->turned, sizeof a->turned, "%s", digest);
        return false;
    }
    return strcmp(digest, a->refused) != 0;
}

/* What a plan of this host is to replace, or NULL. */
static const char *ask_instead(const struct dtd_ask *a)
{
    return a->sh->s->cfg.sign_key && *a->turned ? a->turned : NULL;
}

static void ask_tell_recipe(struct dtd_ask *a, const json_t *row)
{
    ask_tell(a, DTD_TOLD_RECIPE,
             json_pack("{s:s, s:s, s:O}", "say", "recipe", "digest", dt_json_text(row, "digest"), "recipe",
                       json_object_get(row, "recipe")));
}

static void ask_tell_plan(struct dtd_ask *a, uint64_t before_ms)
{
    int64_t token = a->token;
    if (!a->worker || !lease_take(a, before_ms)) {
        ask_tell(a, DTD_TOLD_AWAY, json_pack("{s:s}", "say", "away")); /* gives the lease back */
        return;
    }
    a->token = 0;
    ask_tell(a, DTD_TOLD_PLAN,
             json_pack("{s:s, s:I, s:s*}", "say", "plan", "token", (json_int_t)token, "instead", ask_instead(a)));
}

static void ask_claim(struct dtd_ask *a);

static void ask_found(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct dtd_ask *a = user;
    struct dtd_share *sh = a->sh;
    uint64_t now = uv_hrtime();
    dtd_share_count(sh, DTD_CALL_FIND, outcome);
    dtd_observe(&sh->lookup, (double)(now - a->begun_ns) / 1e9);
    a->flying = false;
    if (!a->worker)
        ask_end(a);
    else if (ask_recipe(a, outcome, row))
        ask_tell_recipe(a, row);
    else if (a->token)
        ask_tell_plan(a, a->until_ms);
    else if (!a->claim)
        ask_tell(a, outcome == CLUSTER_AWAY ? DTD_TOLD_AWAY : DTD_TOLD_NONE,
                 json_pack("{s:s, s:s*}", "say", outcome == CLUSTER_AWAY ? "away" : "none", "instead", ask_instead(a)));
    else
        ask_claim(a); /* who had it has gone, or is still at it */
}

static void ask_find(struct dtd_ask *a)
{
    a->begun_ns = uv_hrtime();
    a->flying = true;
    cluster_find(a->sh->cluster, &a->key.key, ask_found, a);
}

static void ask_neared(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct dtd_ask *a = user;
    const json_t *entries = json_object_get(row, "entries");
    dtd_share_count(a->sh, DTD_CALL_NEAR, outcome);
    a->flying = false;
    if (!a->worker)
        ask_end(a);
    else if (outcome == CLUSTER_OK && json_is_array(entries))
        ask_tell(a, DTD_TOLD_NEAR, json_pack("{s:s, s:O}", "say", "near", "entries", entries));
    else if (outcome == CLUSTER_NONE)
        ask_tell(a, DTD_TOLD_NONE, json_pack("{s:s}", "say", "none"));
    else
        ask_tell(a, DTD_TOLD_AWAY, json_pack("{s:s}", "say", "away"));
}

static void ask_near(struct dtd_ask *a)
{
    a->flying = true;
    cluster_near(a->sh->cluster, &a->key.key, ask_neared, a);
}

static void ask_again(uv_timer_t *t) { ask_find(t->data); }

/* Another host plans it. */
static void ask_wait(struct dtd_ask *a, const json_t *row)
{
    uint64_t now = uv_now(a->sh->s->loop);
    json_int_t left = json_integer_value(json_object_get(row, "left_ms"));
    if (!a->waits) {
        uint64_t most = worker_left_ms(a->worker) / 2;
        a->waits = true;
        a->until_ms = now + most;
        a->sh->waits++;
        dtd_job_progress(&a->sh->s->jobs, a->worker->job, "cluster", "another host plans it: waiting for its result", 0,
                         0);
    }
    if (now >= a->until_ms) {
        ask_tell(a, DTD_TOLD_OVERTIME, json_pack("{s:s}", "say", "away"));
        return;
    }
    uint64_t pause = (uint64_t)POLL_MIN_MS << (a->polls < 16 ? a->polls : 16);
    a->polls++;
    if (left > 0 && pause > (uint64_t)left) /* its lease ends sooner */
        pause = (uint64_t)left + 1;
    uv_timer_start(&a->timer, ask_again, pause < POLL_MAX_MS ? pause : POLL_MAX_MS, 0);
}

struct claim {
    struct dtd_ask *ask;
    uint64_t before_ms;
};

static void ask_claimed(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct claim *c = user;
    struct dtd_ask *a = c->ask;
    uint64_t before = c->before_ms;
    free(c);
    dtd_share_count(a->sh, DTD_CALL_CLAIM, outcome);
    a->flying = false;
    if (outcome == CLUSTER_OK)
        a->token = (int64_t)json_integer_value(json_object_get(row, "token"));
    if (!a->worker) {
        ask_end(a);
    } else if (outcome == CLUSTER_OK) {
        a->until_ms = before; /* of the lease, for ask_found */
        ask_find(a);
    } else if (outcome == CLUSTER_BUSY) {
        ask_wait(a, row);
    } else {
        ask_tell(a, DTD_TOLD_AWAY, json_pack("{s:s}", "say", "away"));
    }
}

static void ask_claim(struct dtd_ask *a)
{
    struct claim *c = dt_malloc(sizeof *c);
    if (!c) {
        ask_tell(a, DTD_TOLD_AWAY, json_pack("{s:s}", "say", "away"));
        return;
    }
    *c = (struct claim){a, uv_now(a->sh->s->loop)};
    a->flying = true;
    cluster_claim(a->sh->cluster, &a->key.key, DTD_LEASE_MS, ask_claimed, c);
}

/* ---- measurements ------------------------------------------------------------------------------------------------ */
/* They decide what is tried; what a plan says of its own time is always measured here. So a row whose seal is good
 * (trust.c), or that is taken without one, is not checked further. What is measured here goes out by timed.c. */

/* Was it measured by somebody who is believed? */
static bool ask_measure(struct dtd_ask *a, const json_t *row)
{
    const char *device = a->key.key.device, *key = a->key.key.signature;
    if (!*dt_json_text(row, "body"))
        return false;
    if (dtd_trust_measure(&a->sh->trust, &a->sh->s->cfg, DTD_TIMES, device, key, row))
        return true;
    dtd_timed_turned(a->sh, device, key, dt_json_text(row, "seal"));
    return false;
}

static void ask_timed(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct dtd_ask *a = user;
    const json_t *measure = json_object_get(row, a->key.key.signature);
    dtd_share_count(a->sh, DTD_CALL_TIMES, outcome);
    a->flying = false;
    if (!a->worker)
        ask_end(a);
    else if (outcome == CLUSTER_OK && ask_measure(a, measure))
        ask_tell(a, DTD_TOLD_TIMES, json_pack("{s:s, s:s}", "say", "times", "body", dt_json_text(measure, "body")));
    else if (outcome == CLUSTER_OK || outcome == CLUSTER_NONE)
        ask_tell(a, DTD_TOLD_NONE, json_pack("{s:s}", "say", "none"));
    else
        ask_tell(a, DTD_TOLD_AWAY, json_pack("{s:s}", "say", "away"));
}

static void ask_times(struct dtd_ask *a)
{
    a->flying = true;
    cluster_measure_get(a->sh->cluster, DTD_TIMES, a->key.key.device, &a->key.key.signature, 1, ask_timed, a);
}

/* Times of the software device are modelled. */
static bool is_measured(const char *device) { return strncmp(device, "soft", 4) != 0; }

/* A key of the performance library stands in the place of the signature. */
static bool times_read(const json_t *o, struct cluster_key *ret)
{
    *ret = (struct cluster_key){dt_json_text(o, "key"), dt_json_text(o, "device"), "", ""};
    return dt_sha256_ok(ret->signature) && *ret->device && strlen(ret->device) < TEXT_MAX;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

/* What was measured; answered at once. False: it is not understood. */
static bool share_take_timed(struct dtd_share *sh, struct dtd_worker *w, const json_t *question)
{
    const char *device = dt_json_text(question, "device");
    if (w->ask || !*device || (is_measured(device) && !dtd_timed_send(sh, device, json_object_get(question, "rows"))))
        return false;
    worker_tell(w, json_pack("{s:s}", "say", "none"));
    return true;
}

bool dtd_share_ask(struct dtd_share *sh, struct dtd_worker *w, const json_t *question)
{
    const char *op = dt_json_text(question, "op"), *refused = dt_json_text(question, "not");
    bool claim = !strcmp(op, "claim"), near = !strcmp(op, "near"), times = !strcmp(op, "times");
    struct cluster_key key;
    if (!strcmp(op, "timed"))
        return share_take_timed(sh, w, question);
    if ((!claim && !near && !times && strcmp(op, "find")) ||
        !(times ? times_read(question, &key) : key_read(question, &key)) || w->ask ||
        (*refused && !dt_sha256_ok(refused)))
        return false;
    struct dtd_ask *a = sh && !sh->closing ? dt_calloc(1, sizeof *a) : NULL;
    if (!a || !key_copy(&a->key, &key)) { /* of an earlier service's job, which had one */
        free(a);
        worker_tell(w, json_pack("{s:s}", "say", "away"));
        return true;
    }
    a->sh = sh;
    a->worker = w;
    w->shares |= !times;
    a->claim = claim;
    snprintf(a->refused, sizeof a->refused, "%s", refused);
    uv_timer_init(sh->s->loop, &a->timer);
    a->timer.data = a;
    a->next = sh->asks;
    sh->asks = a;
    w->ask = a;
    if (claim)
        ask_claim(a);
    else if (near)
        ask_near(a);
    else if (times && !is_measured(key.device))
        ask_tell(a, DTD_TOLD_NONE, json_pack("{s:s}", "say", "none"));
    else if (times)
        ask_times(a);
    else
        ask_find(a);
    return true;
}

void dtd_share_left(struct dtd_share *sh, struct dtd_worker *w, bool done)
{
    struct dtd_lease *l = w->lease;
    w->shares = w->shares && done;
    if (w->ask)
        ask_end(w->ask);
    if (l && done) {
        l->worker = NULL;
        w->lease = NULL;
        l->over_ms = uv_now(sh->s->loop);
    } else if (l) {
        lease_give_up(l);
    }
    if (sh && done)
        dtd_drain_kick(sh);
}

bool dtd_share_sending(const struct dtd_share *sh)
{
    const struct dtd_lease *l = sh && !sh->closing ? sh->leases : NULL;
    while (l && !l->over_ms)
        l = l->next;
    return l;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static void share_log(void *user, bool bad, const char *text) { dt_log(bad ? DT_LOG_WARN : DT_LOG_INFO, "%s", text); }

static int share_cluster(uv_loop_t *loop, const struct dtd_config *c, struct cluster **ret, struct dt_err *e)
{
    struct cluster_options o = {.loop = loop,
                                .url = c->shared,
                                .space = c->shared_namespace,
                                .connections = (unsigned)c->shared_pool,
                                .lookup_ms = (unsigned)c->shared_lookup_ms,
                                .statement_ms = STATEMENT_MS,
                                .keep_days = (unsigned)c->shared_keep_days,
                                .max_bytes = (uint64_t)c->shared_max_mb << 20,
                                .log = share_log};
    return cluster_open(&o, ret, e);
}

static void share_checked(void *user) {}

int dtd_share_check(const struct dtd_config *c, struct dt_err *e)
{
    uv_loop_t loop;
    struct cluster *cluster = NULL;
    if (!c->shared)
        return 0;
    if (uv_loop_init(&loop) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = share_cluster(&loop, c, &cluster, e);
    if (r >= 0)
        cluster_close(cluster, share_checked, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    return r;
}

int dtd_share_open(struct dtd_service *s, struct dtd_share **ret, struct dt_err *e)
{
    const struct dtd_config *c = &s->cfg;
    if (!c->shared)
        return 0;
    struct dtd_share *sh = dt_calloc(1, sizeof *sh);
    if (!sh)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    sh->s = s;
    int r = dtd_trust_check(c, e);
    if (r >= 0)
        r = share_cluster(s->loop, c, &sh->cluster, e);
    if (r >= 0)
        r = dtd_drain_open(sh);
    if (r < 0) {
        free(sh);
        return e->num ? r : dt_err_set(e, r, "%s", dt_err_text(r));
    }
    *ret = sh;
    return 0;
}

static void share_closed(void *user)
{
    struct dtd_share *sh = user;
    sh->closed = true;
}

void dtd_share_close(struct dtd_share *sh)
{
    if (!sh || sh->closing)
        return;
    sh->closing = true;
    while (sh->leases)
        lease_give_up(sh->leases);
    for (struct dtd_ask *a = sh->asks, *next; a; a = next) {
        next = a->next;
        ask_end(a);
    }
    dtd_drain_close(sh);
    cluster_close(sh->cluster, share_closed, sh);
}

struct dtd_share *dtd_share_free(struct dtd_share *sh)
{
    if (sh)
        dtd_timed_forget(sh);
    free(sh);
    return NULL;
}

json_t *dtd_share_json(const struct dtd_share *sh)
{
    if (!sh)
        return NULL;
    json_t *o = cluster_status(sh->cluster);
    if (!o)
        return NULL;
    uint64_t now = (uint64_t)time(NULL);
    uint64_t lag = sh->size.oldest && now > (uint64_t)sh->size.oldest ? now - (uint64_t)sh->size.oldest : 0;
    unsigned leases = 0;
    for (const struct dtd_lease *l = sh->leases; l; l = l->next)
        leases++;
    json_object_set_new(o, "namespace", json_string(sh->s->cfg.shared_namespace));
    json_object_set_new(o, "outbox",
                        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "waiting", (json_int_t)sh->size.waiting,
                                  "lag_s", (json_int_t)lag, "parked", (json_int_t)sh->size.parked, "bytes",
                                  (json_int_t)sh->size.bytes, "sent", (json_int_t)sh->sent, "dropped",
                                  (json_int_t)sh->size.dropped, "refusal", sh->refusal));
    json_object_set_new(o, "leases", json_integer(leases));
    return o;
}
