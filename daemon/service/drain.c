/* The outbox is sent to the cluster (write-behind): what a worker has finished is in the local store, whatever becomes
 * of the network, and goes out from there.
 *
 *   every second, and when a job is done:
 *     pool thread   up to BATCH rows that are due are read, and signed if the host has a key (`sign_key`)
 *     loop          each is put; the cluster bounds how many are under way
 *     pool thread   what became of them is written, in one transaction
 *   and at once again while batches are full and the cluster takes them
 *
 *   taken, or the cluster has a better one     the row goes
 *   the lease of its token is not valid        it is sent again without: the plan is right, and whoever has the lease
 *                                              now may find the same; which of two is kept, the cluster decides
 *   refused                                    counted; parked for the third time
 *   away                                       stays. A row that alone was not answered waits, so that it is not in
 *                                              the way of the others
 *
 * With a key that cannot be read nothing is sent: the rows wait until it can, or the configuration names none.
 *
 * A service that is killed between put and writing puts the row again: that changes nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "cache/jobs.h"
#include "daemon/service/service.h"
#include "daemon/service/share.h"

#define BATCH 64
#define EVERY_MS 1000

struct row {
    struct dtd_batch *of;
    struct cache_outgoing out;
    json_t *recipe, *facts;
    struct sign_seal seal; /* of a batch that is signed */
    enum cluster_outcome outcome;
    char why[160];
};

/* A pool thread's while it is read and written, the loop's in between. */
struct dtd_batch {
    uv_work_t work;
    struct dtd_share *sh;
    unsigned n, flying, taken, parked;
    bool sized;
    struct cache_outbox_size size;
    char *key_path, *space; /* whose key signs; NULL: nobody's */
    char *held;             /* why nothing can be sent, or NULL */
    struct row row[BATCH];
};

/* ---- on a pool thread -------------------------------------------------------------------------------------------- */

static void row_done(struct row *r)
{
    cache_outgoing_done(&r->out);
    json_decref(r->recipe);
    json_decref(r->facts);
}

static const json_t *row_factors(const struct row *r)
{
    const json_t *factors = json_object_get(r->facts, "factors");
    return json_is_object(factors) ? factors : NULL;
}

static const char *row_evidence(const struct row *r) { return dt_json_text(r->facts, "evidence"); }
static int row_rewriter(const struct row *r) { return (int)json_integer_value(json_object_get(r->facts, "rewriter")); }

/* Over everything that the cluster will say of it (trust.c). */
static int row_sign(struct row *r, const struct sign_key *key, const char *space, int64_t now)
{
    const struct cache_outgoing *o = &r->out;
    struct sign_entry en = {.signature = o->signature,
                            .device = o->device,
                            .toolchain = o->toolchain,
                            .policy = o->policy,
                            .factors = row_factors(r),
                            .digest = o->digest,
                            .recipe = r->recipe,
                            .rewriter = row_rewriter(r),
                            .evidence = row_evidence(r),
                            .space = space};
    return sign_entry_seal(key, &en, now, &r->seal);
}

/* All rows, or none is sent. */
static void drain_sign(struct dtd_batch *b)
{
    struct sign_key *key = NULL;
    struct dt_err e = {0};
    int r = b->key_path && b->n ? sign_key_read(b->key_path, &key, &e) : 0;
    for (unsigned i = 0; r >= 0 && key && i < b->n; i++)
        r = row_sign(&b->row[i], key, b->space, (int64_t)time(NULL));
    sign_key_free(key);
    if (r < 0) {
        b->held = dt_strdup(e.detail ? e.detail : dt_err_text(r));
        while (b->n)
            row_done(&b->row[--b->n]);
    }
    dt_err_done(&e);
}

static void drain_read(uv_work_t *w)
{
    struct dtd_batch *b = w->data;
    struct dtd_service *s = b->sh->s;
    struct cache_outgoing out[BATCH];
    uv_mutex_lock(&s->cache_lock);
    int n = cache_outbox_due(s->cache, BATCH, out, NULL);
    b->sized = cache_outbox_size(s->cache, &b->size, NULL) == 0;
    uv_mutex_unlock(&s->cache_lock);
    for (int i = 0; i < n; i++) {
        struct row *r = &b->row[b->n++];
        *r = (struct row){.of = b, .out = out[i], .outcome = CLUSTER_AWAY};
        dt_json_load(r->out.body, strlen(r->out.body), &r->recipe, NULL);
        dt_json_load(r->out.facts, strlen(r->out.facts), &r->facts, NULL);
    }
    drain_sign(b);
}

static int drain_verdict(struct dtd_batch *b, const struct row *row)
{
    struct cache *c = b->sh->s->cache;
    int r;
    switch (row->outcome) {
    case CLUSTER_OK:
    case CLUSTER_NONE: return cache_outbox_sent(c, row->out.id, NULL);
    case CLUSTER_LOST: return cache_outbox_unleased(c, row->out.id, NULL);
    case CLUSTER_REFUSED:
        r = cache_outbox_refused(c, row->out.id, row->why, NULL);
        b->parked += r > 0;
        return r;
    default: return b->taken ? cache_outbox_later(c, row->out.id, NULL) : 0;
    }
}

static void drain_write(uv_work_t *w)
{
    struct dtd_batch *b = w->data;
    struct dtd_service *s = b->sh->s;
    uv_mutex_lock(&s->cache_lock);
    int r = cache_jobs_begin(s->cache, NULL);
    if (r >= 0) {
        for (unsigned i = 0; r >= 0 && i < b->n; i++)
            r = drain_verdict(b, &b->row[i]);
        if (cache_jobs_end(s->cache, r >= 0, NULL) < 0)
            b->parked = 0;
    }
    b->sized = cache_outbox_size(s->cache, &b->size, NULL) == 0;
    uv_mutex_unlock(&s->cache_lock);
}

/* ---- on the loop ------------------------------------------------------------------------------------------------- */

static void drain_begin(struct dtd_share *sh);

static void drain_end(struct dtd_batch *b)
{
    struct dtd_share *sh = b->sh;
    bool more = (b->n == BATCH && b->taken) || sh->again;
    if (b->sized)
        sh->size = b->size;
    for (unsigned i = 0; i < b->n; i++)
        row_done(&b->row[i]);
    free(b->key_path);
    free(b->space);
    free(b->held);
    free(b);
    sh->batch = NULL;
    if (more)
        drain_begin(sh);
}

static void drain_written(uv_work_t *w, int status)
{
    struct dtd_batch *b = w->data;
    struct dtd_share *sh = b->sh;
    sh->parked += b->parked;
    if (b->parked)
        dt_log(DT_LOG_WARN, "%u results of this host are not sent any more, the cluster refused each %d times: %s",
               b->parked, CACHE_OUTBOX_REFUSALS, sh->refusal);
    drain_end(b);
}

static void drain_answered(struct dtd_batch *b)
{
    bool news = false;
    for (unsigned i = 0; i < b->n; i++) {
        b->taken += b->row[i].outcome != CLUSTER_AWAY;
        news |= b->row[i].outcome != CLUSTER_AWAY;
    }
    if (!news) /* nothing to write */
        drain_end(b);
    else
        uv_queue_work(b->sh->s->loop, &b->work, drain_write, drain_written);
}

static void drain_put(void *user, enum cluster_outcome outcome, const json_t *row, const char *why)
{
    struct row *r = user;
    struct dtd_share *sh = r->of->sh;
    dtd_share_count(sh, DTD_CALL_PUT, outcome);
    r->outcome = outcome;
    if (outcome == CLUSTER_REFUSED) {
        snprintf(r->why, sizeof r->why, "%s", why ? why : "");
        snprintf(sh->refusal, sizeof sh->refusal, "%s", r->why);
    }
    sh->sent += outcome == CLUSTER_OK || outcome == CLUSTER_NONE;
    if (r->out.token && outcome != CLUSTER_AWAY)
        dtd_share_settled(sh, r->out.token);
    if (!--r->of->flying)
        drain_answered(r->of);
}

static void drain_send(struct row *r)
{
    const struct cache_outgoing *o = &r->out;
    const char *instead = dt_json_text(r->facts, "instead");
    const bool sealed = r->of->key_path;
    struct cluster_entry entry = {.key = {o->signature, o->device, o->toolchain, o->policy},
                                  .digest = o->digest,
                                  .recipe = r->recipe,
                                  .rewriter = row_rewriter(r),
                                  .evidence = row_evidence(r),
                                  .factors = row_factors(r),
                                  .stamp = sealed ? r->seal.date : o->created,
                                  .signer = sealed ? r->seal.signer : NULL,
                                  .seal = sealed ? r->seal.text : NULL,
                                  .instead = *instead ? instead : NULL};
    cluster_put(r->of->sh->cluster, &entry, o->token, drain_put, r);
}

static void drain_held(struct dtd_share *sh, const char *why)
{
    uint64_t now = uv_hrtime();
    if (sh->trust.held_ns && now - sh->trust.held_ns < UINT64_C(60) * 1000000000)
        return;
    sh->trust.held_ns = now;
    dt_log(DT_LOG_WARN, "results of this host wait, they cannot be signed: %s", why);
}

static void drain_have(uv_work_t *w, int status)
{
    struct dtd_batch *b = w->data;
    if (b->sized)
        b->sh->size = b->size;
    if (b->held)
        drain_held(b->sh, b->held);
    if (!b->n || b->sh->closing) {
        drain_end(b);
        return;
    }
    b->flying = b->n + 1; /* an answer may come at once */
    for (unsigned i = 0; i < b->n; i++)
        drain_send(&b->row[i]);
    if (!--b->flying)
        drain_answered(b);
}

static void drain_begin(struct dtd_share *sh)
{
    struct dtd_batch *b = sh->batch || sh->closing ? NULL : dt_calloc(1, sizeof *b);
    if (!b)
        return;
    sh->again = false;
    sh->batch = b;
    b->sh = sh;
    b->work.data = b;
    const struct dtd_config *c = &sh->s->cfg;
    bool failed =
        c->sign_key && (!(b->key_path = dt_strdup(c->sign_key)) || !(b->space = dt_strdup(c->shared_namespace)));
    if (failed || uv_queue_work(sh->s->loop, &b->work, drain_read, drain_have) < 0)
        drain_end(b);
}

void dtd_drain_kick(struct dtd_share *sh)
{
    sh->again = sh->batch != NULL;
    drain_begin(sh);
}

static void drain_turn(uv_timer_t *t) { drain_begin(t->data); }

int dtd_drain_open(struct dtd_share *sh)
{
    sh->timer.data = sh;
    uv_timer_init(sh->s->loop, &sh->timer);
    return uv_timer_start(&sh->timer, drain_turn, EVERY_MS, EVERY_MS);
}

void dtd_drain_close(struct dtd_share *sh) { uv_close((uv_handle_t *)&sh->timer, NULL); }
