/* Leases: who makes a plan (cluster.h). A lease is a row with a token and an end, both the server's; claiming one that
 * has ended is one statement, so that of any number of hosts one gets it. A row stays when its lease has ended: the
 * next token is larger, so that a result that comes late is told from one that is in time (put).
 *
 * A claim whose answer came after its deadline is given back: the caller was told AWAY and does not know of it.
 */
#include <string.h>

#include "cluster-priv.h"

/* A token, 0: none came. */
static int64_t token_read(const PGresult *r)
{
    int64_t token = 0;
    return row_shape(r, 1) && PQntuples(r) == 1 && row_number(r, 0, 0, &token) && token > 0 ? token : 0;
}

static void lease_back(struct call *call)
{
    if (call->token)
        cluster_release(call->c, &call->key, call->token, NULL, NULL);
}

static void claim_read(struct call *call, PGresult *const *r)
{
    int64_t left = 0;
    call->token = token_read(r[0]);
    if (call->token) {
        call_end(call, CLUSTER_OK, NULL);
        call->row = json_pack("{s:I}", "token", (json_int_t)call->token);
        if (!call->row) { /* the caller does not learn it */
            lease_back(call);
            call_end(call, CLUSTER_AWAY, "out of memory");
        }
        return;
    }
    if (row_shape(r[1], 1) && PQntuples(r[1]) == 1)
        row_number(r[1], 0, 0, &left);
    call_end(call, CLUSTER_BUSY, NULL);
    call->row = json_pack("{s:I}", "left_ms", (json_int_t)(left > 0 ? left : 0));
}

void cluster_claim(struct cluster *c, const struct cluster_key *k, unsigned lease_ms, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, claim_read);
    if (!call)
        return;
    call->writes = call->urgent = true;
    call->orphan = lease_back;
    if (call_key(call, k)) {
        CALL_STEP(call, CLUSTER_SQL_CLAIM, call->hash, call_number(call, lease_ms));
        CALL_STEP(call, CLUSTER_SQL_LEFT, call->hash);
    }
    pool_submit(call);
}

static void held_read(struct call *call, PGresult *const *r)
{
    if (PQntuples(r[0]))
        call_end(call, CLUSTER_OK, NULL);
    else
        call_end(call, CLUSTER_LOST, "somebody else has claimed it since, or it has ended");
}

void cluster_renew(struct cluster *c, const struct cluster_key *k, int64_t token, unsigned lease_ms, cluster_fn *fn,
                   void *user)
{
    struct call *call = call_new(c, fn, user, held_read);
    if (!call)
        return;
    call->writes = call->urgent = true;
    if (call_key(call, k))
        CALL_STEP(call, CLUSTER_SQL_RENEW, call->hash, call_number(call, token), call_number(call, lease_ms));
    pool_submit(call);
}

void cluster_release(struct cluster *c, const struct cluster_key *k, int64_t token, cluster_fn *fn, void *user)
{
    struct call *call = call_new(c, fn, user, held_read);
    if (!call)
        return;
    call->writes = call->urgent = true;
    if (call_key(call, k))
        CALL_STEP(call, CLUSTER_SQL_RELEASE, call->hash, call_number(call, token));
    pool_submit(call);
}
