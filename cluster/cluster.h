/* The cluster: a PostgreSQL database that the services of many hosts share (docs/CLUSTER.md).
 *
 * All calls are made on the loop's thread, never block it, and copy their arguments. Each calls its `fn` exactly once,
 * later, on the loop, also when the cluster is closed meanwhile (AWAY). `row` is borrowed, for the time of the call.
 */
#ifndef DT_CLUSTER_CLUSTER_H
#define DT_CLUSTER_CLUSTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

enum cluster_outcome {
    CLUSTER_OK,
    CLUSTER_NONE,    /* there is none; of a put: it has a better one */
    CLUSTER_BUSY,    /* somebody else has it: row.left_ms */
    CLUSTER_LOST,    /* the lease, or its token, is not valid any more */
    CLUSTER_REFUSED, /* it will never be taken as it is: `why` */
    CLUSTER_AWAY     /* not reached, or not in time; read-only; a schema that this build does not know */
};
#define CLUSTER_OUTCOMES 6
const char *cluster_outcome_text(enum cluster_outcome o); /* "ok", "none", … */

struct cluster;
struct cluster_options {
    uv_loop_t *loop;
    const char *url, *space; /* as libpq takes it; the namespace */
    unsigned connections, lookup_ms, statement_ms;
    void (*log)(void *user, bool bad, const char *text); /* never with a secret in it */
    void *user;
};
struct cluster_key {
    const char *signature, *device, *toolchain, *policy;
};
struct cluster_entry {
    struct cluster_key key;
    const char *digest; /* of the plan's modules and launches */
    const json_t *recipe;
    int rewriter;
    const char *evidence; /* measured:… or modeled:… */
};
typedef void cluster_fn(void *user, enum cluster_outcome outcome, const json_t *row, const char *why);

/* The address is read, nothing is waited for: a server that is away is no error. DT_E_USAGE: it is no address,
 * or dovetail was built without libpq. */
int cluster_open(const struct cluster_options *o, struct cluster **ret, struct dt_err *e);
void cluster_close(struct cluster *c, void (*closed)(void *user), void *user);
/* OK: {"digest", "recipe"}; NONE; AWAY after lookup_ms. */
void cluster_find(struct cluster *c, const struct cluster_key *k, cluster_fn *fn, void *user);
/* Stores it unless there is one of a newer rewriter or better evidence. token not 0: of a lease, which ends with it. */
void cluster_put(struct cluster *c, const struct cluster_entry *en, int64_t token, cluster_fn *fn, void *user);
/* Work once: OK {"token"}, or BUSY. By the server's clock. */
void cluster_claim(struct cluster *c, const struct cluster_key *k, unsigned lease_ms, cluster_fn *fn, void *user);
void cluster_renew(struct cluster *c, const struct cluster_key *k, int64_t token, unsigned lease_ms, cluster_fn *fn,
                   void *user);
void cluster_release(struct cluster *c, const struct cluster_key *k, int64_t token, cluster_fn *fn, void *user);
/* {"state": "ok" or another word, "why", "breaker": "closed", "open", "half"}. NULL: memory. */
json_t *cluster_status(const struct cluster *c);

#endif
