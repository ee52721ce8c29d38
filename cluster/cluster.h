/* What the hosts of a cluster share, in a PostgreSQL database: recipes of plans, leases on planning them, measurements,
 * a queue of plans to make again, and graphs.
 *
 * Thread. Everything is called on the loop's thread, and nothing here blocks it: connections are made on a thread of
 * their own, everything else is asynchronous.
 *
 * Calls. Each copies its arguments and calls fn exactly once, later, on the loop; never before the call returns, unless
 * there is no memory for the call. fn may be NULL. `row`
 * and `why` are borrowed for that time. `why` is one sentence when the outcome is REFUSED, LOST or AWAY, else NULL. It
 * holds no password. A call whose answer did not come in time ends as AWAY; what it asked for may have been done. So
 * each call may be made again: a result put twice is one result, and a lease that was claimed in vain runs out.
 *
 * Deadlines. cluster_find ends within lookup_ms, everything else within statement_ms and a little, but for graphs,
 * which are large. Both count from the call, waiting for a connection included. While the server does not answer, calls
 * end as AWAY at once (the breaker is open), and the cluster tries by itself, at growing intervals, whether the server
 * is back.
 *
 * Trust. What the server sends is hostile until its type, length and sum are checked: a row that fails is NONE for the
 * caller, is set aside in the database, counted and logged. A recipe that passes is still only a claim: whoever uses it
 * makes the plan anew and verifies it.
 *
 * Namespaces. Rows of another namespace do not exist: every statement names its own, and the database holds rows apart
 * besides (row-level security), where the role it is used by is not a superuser.
 */
#ifndef DT_CLUSTER_CLUSTER_H
#define DT_CLUSTER_CLUSTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

enum cluster_outcome {
    CLUSTER_OK,
    CLUSTER_NONE,    /* there is none; of put: the cluster has one that is as good */
    CLUSTER_BUSY,    /* somebody holds it; row: {left_ms} */
    CLUSTER_LOST,    /* the token is not valid any more: somebody else has claimed it since */
    CLUSTER_REFUSED, /* for good: it is too large, not well formed, or the database has a rule against it */
    CLUSTER_AWAY     /* nobody knows: not reachable, too late, read-only, no tables that this version understands */
};
#define CLUSTER_OUTCOMES 6
const char *cluster_outcome_text(enum cluster_outcome o); /* "ok", "none" … */

#define CLUSTER_KEY_MAX 4096            /* bytes of one text of a key */
#define CLUSTER_RECIPE_MAX (4u << 20)   /* bytes of a recipe as text, and of factors */
#define CLUSTER_MEASURE_MAX (1u << 20)  /* bytes of one measurement */
#define CLUSTER_GRAPH_MAX (16u << 20)   /* bytes of a graph, compressed */
#define CLUSTER_GRAPH_TEXT (256u << 20) /* and as a document */
#define CLUSTER_MEASURES 64             /* rows of one call */
#define CLUSTER_SPACE_MAX 64            /* bytes of a namespace: letters, digits, '-', '_', '.' */
#define CLUSTER_QUEUE_TRIES 3           /* failures after which an entry of the queue is parked */

struct cluster;
struct cluster_options { /* copied */
    uv_loop_t *loop;
    const char *url;       /* as libpq reads it: postgresql://…, service=…, or "" for the PG* variables alone */
    const char *space;     /* the namespace; NULL: "default" */
    unsigned connections;  /* at most; 0: 4 */
    unsigned lookup_ms;    /* 0: 50 */
    unsigned statement_ms; /* 0: 2000 */
    unsigned keep_days;    /* entries that no host took for so long, and measurements that old, are removed; 0: never */
    uint64_t
        max_bytes; /* of recipes, factors and graphs in the namespace: over it, what was taken least lately goes, but
                              nothing of the last day; 0: no bound */
    void (*log)(void *user, bool bad, const char *text); /* may be NULL; a line per change of state, no secrets */
    void *user;                                          /* for log */
};

/* Does not wait: a server that is away is no error. DT_E_USAGE: url or space cannot be read (the detail does not quote
 * them). */
int cluster_open(const struct cluster_options *o, struct cluster **ret, struct dt_err *e);
/* Calls that wait end as AWAY, then `closed` is called, and c is gone. What was sent already is sent. */
void cluster_close(struct cluster *c, void (*closed)(void *user), void *user);

typedef void cluster_fn(void *user, enum cluster_outcome outcome, const json_t *row, const char *why);

struct cluster_key { /* as struct cache_key (cache/cache.h); no path, host name or address in any of them */
    const char *signature, *device, *toolchain, *policy;
};

/* ---- recipes ----------------------------------------------------------------------------------------------------- */

struct cluster_entry {
    struct cluster_key key;
    const char *digest;        /* of the plan's modules and launches: "sha256:…" */
    const json_t *recipe;      /* an object */
    int rewriter;              /* its version */
    const char *evidence;      /* "measured"; all else counts less */
    const json_t *factors;     /* what the signature is made of, or NULL */
    int64_t stamp;             /* when it was made, or signed if it is; seconds since 1970; 0: now */
    const char *signer, *seal; /* whose signature, and the signature; NULL: none. Not looked at here */
    const char *instead; /* NULL, or the digest of an entry that led to another plan here: it is replaced by this one
                              even if it says that it is better */
};

/* OK: {digest, recipe, rewriter, evidence, factors?, stamp, signer?, seal?, created, used}, or NONE. */
void cluster_find(struct cluster *c, const struct cluster_key *k, cluster_fn *fn, void *user);
/* Entries that differ from the key in device, toolchain or policy: OK with {entries: [{device, toolchain, policy,
 * rewriter, evidence, created}]}, the newest first, at most 16; or NONE. Its deadline is that of statements. */
void cluster_near(struct cluster *c, const struct cluster_key *k, cluster_fn *fn, void *user);
/* OK: it is in. NONE: what is there has a newer rewriter, or the same and evidence that is as good; it stays.
 * token: of a lease on its key; 0: none. LOST: somebody else has claimed that since, and nothing was stored. A lease
 * ends in the transaction that stores the entry; a lease that has run out, and that nobody has taken, still counts. */
void cluster_put(struct cluster *c, const struct cluster_entry *en, int64_t token, cluster_fn *fn, void *user);

/* ---- leases ------------------------------------------------------------------------------------------------------ */
/* By the server's clock. A holder judges by its own monotonic clock, from before the call. Tokens of one key only grow,
 * and two keys hardly ever have the same. */

/* OK: {token}. BUSY: {left_ms}. */
void cluster_claim(struct cluster *c, const struct cluster_key *k, unsigned lease_ms, cluster_fn *fn, void *user);
/* OK, or LOST. */
void cluster_renew(struct cluster *c, const struct cluster_key *k, int64_t token, unsigned lease_ms, cluster_fn *fn,
                   void *user);
void cluster_release(struct cluster *c, const struct cluster_key *k, int64_t token, cluster_fn *fn, void *user);

/* ---- measurements: rows of the performance library --------------------------------------------------------------- */

struct cluster_measure {
    const char *key; /* at most 128 bytes: letters, digits, ':', '.', '_', '-' */
    const void *body;
    size_t len;
    const char *signer, *seal; /* as in entries; NULL: none */
    int64_t stamp;             /* when it was signed */
    const char *instead;       /* NULL, or the seal of a row that this host did not believe: it is replaced if this one
                                  has a seal */
};
/* kind: which table of the library; device: as in keys. OK: {KEY: {body: base64, stamp, signer?, seal?}} of those that
 * are there, or NONE. */
void cluster_measure_get(struct cluster *c, const char *kind, const char *device, const char *const *keys, unsigned n,
                         cluster_fn *fn, void *user);
/* All or none. What is there already stays, but a row without a seal gives way to one that has a seal. */
void cluster_measure_put(struct cluster *c, const char *kind, const char *device, const struct cluster_measure *m,
                         unsigned n, cluster_fn *fn, void *user);

/* ---- graphs as they were posted ---------------------------------------------------------------------------------- */
/* Documents of graphs, for a host that is to plan one that nobody posted to it. Whoever reads the database reads them:
 * kernels, launch arguments and constant data. dt_graph_reduced (graph/graph.h) leaves out what no plan depends on.
 *
 * The room does not know what a graph is. It sees to it that a document comes back as it was put under its digest (its
 * size and sum). Whoever gets one parses it and compares dt_graph_digest with the digest, before anything else: who can
 * write to the database can put any document under any digest.
 *
 * Both calls compress on a thread of libuv's pool, and may take 20 s beyond that. */

/* digest: dt_graph_digest. OK: it is in. NONE: there is one. REFUSED also where it has more than CLUSTER_GRAPH_MAX
 * bytes compressed. A copy of body is held until fn is called. */
void cluster_graph_put(struct cluster *c, const char *digest, const void *body, size_t len, cluster_fn *fn, void *user);
/* OK: {body}, the document as text; or NONE. */
void cluster_graph_get(struct cluster *c, const char *digest, cluster_fn *fn, void *user);

/* ---- the queue of plans to make again ---------------------------------------------------------------------------- */
/* One row for a graph, a device and a toolchain. The graph, not its signature: that has the architecture in it, and
 * nobody knows it before the graph has been compiled for the device. Equal graphs under other names are rows of their
 * own; planning the second finds the plan of the first. */

struct cluster_work_key {
    const char *graph;     /* digest of the document as it was posted */
    const char *device;    /* 200 bytes at most */
    const char *toolchain; /* CLUSTER_KEY_MAX */
};
struct cluster_work {
    struct cluster_work_key key;
    int64_t rank;       /* what has more comes first */
    const char *reason; /* stale, missing …; 200 bytes at most */
    const json_t *note; /* what whoever makes it needs, 4,096 bytes at most; NULL: nothing */
};
/* OK: it is new. NONE: it is there (with the higher of the two ranks now), parked, or done. */
void cluster_queue_add(struct cluster *c, const struct cluster_work *w, cluster_fn *fn, void *user);
/* The same for all graphs that were put (cluster_graph_put), the last used first, at most 10,000: OK. */
void cluster_queue_graphs(struct cluster *c, const char *device, const char *toolchain, cluster_fn *fn, void *user);
/* The first that waits for this device and toolchain: OK with {graph, rank, reason, note?, tries, token}, or NONE, with
 * {left_ms} where others hold some: until the first of their leases ends. */
struct cluster_place { /* in the queue: where an entry of this rank and graph stands */
    int64_t rank;
    const char *graph;
};
/* after: only those behind this place (what is before it was given back, since this host cannot make it); NULL: all. */
void cluster_queue_claim(struct cluster *c, const char *device, const char *toolchain,
                         const struct cluster_place *after, unsigned lease_ms, cluster_fn *fn, void *user);
/* OK or LOST, all four. */
void cluster_queue_renew(struct cluster *c, const struct cluster_work_key *k, int64_t token, unsigned lease_ms,
                         cluster_fn *fn, void *user);
/* It is done, and is not made again for a month, whoever adds it. */
void cluster_queue_done(struct cluster *c, const struct cluster_work_key *k, int64_t token, cluster_fn *fn, void *user);
/* It failed: again after backoff_ms, then twice that, and so on; for the CLUSTER_QUEUE_TRIES-th time it is parked with
 * the reason, and nobody gets it. OK: {parked}. */
void cluster_queue_fail(struct cluster *c, const struct cluster_work_key *k, int64_t token, const char *reason,
                        unsigned backoff_ms, cluster_fn *fn, void *user);
/* It is given back as it was: not a failure (the GPU is in use, the night is over). */
void cluster_queue_return(struct cluster *c, const struct cluster_work_key *k, int64_t token, cluster_fn *fn,
                          void *user);
/* OK: {waiting, leased, parked, entries: [{graph, device, rank, reason, tries, state, failure}]}, at most 256,
 * parked ones first. */
void cluster_queue_list(struct cluster *c, cluster_fn *fn, void *user);
/* Parked entries wait again. OK: {n}. */
void cluster_queue_unpark(struct cluster *c, cluster_fn *fn, void *user);

/* ---- how it is --------------------------------------------------------------------------------------------------- */

/* {state: "ok", "connecting", "away", "read-only", "schema"; why (not of "ok"); breaker: "closed", "open", "half"}. New
 * reference; NULL: no memory. */
json_t *cluster_status(const struct cluster *c);

struct cluster_counts {                  /* since cluster_open, but the first line */
    unsigned connections, busy, waiting; /* now */
    uint64_t dials, dial_failures;       /* connections that were begun, and that came to nothing */
    uint64_t lost;                       /* connections that ended by themselves */
    uint64_t late;                       /* calls whose deadline passed */
    uint64_t retries;                    /* of transactions that the server asked to repeat */
    uint64_t opened;                     /* how often the breaker opened */
    uint64_t damaged;                    /* rows that failed a check */
};
void cluster_counts(const struct cluster *c, struct cluster_counts *ret);

#endif
