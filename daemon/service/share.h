/* The cluster as the service uses it: what other hosts have found, who plans what, and what this host has for them.
 *
 * Everything is on the loop's thread, except reading and writing the outbox, and signing: a thread
 * of libuv's pool does that.
 *
 * share.c answers a worker's questions. drain.c sends the outbox, timed.c measurements. All count in one struct.
 */
#ifndef DTD_SHARE_H
#define DTD_SHARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cache/outbox.h"
#include "cluster/cluster.h"
#include "daemon/service/config.h"
#include "daemon/service/metrics.h"
#include "daemon/service/trust.h"

#define DTD_LEASE_MS 15000 /* a host that dies with a lease holds the others up for so long at most */

struct dtd_service;
struct dtd_worker;
struct dtd_ask;
struct dtd_lease;

/* What came of the questions that ended; how a plan is come by. */
enum dtd_told {
    DTD_TOLD_RECIPE,   /* another host had it */
    DTD_TOLD_PLAN,     /* this host plans it, under a lease */
    DTD_TOLD_NONE,     /* a look-up found none; a claim follows */
    DTD_TOLD_AWAY,     /* the cluster did not answer in time, or at all: this host plans without a lease */
    DTD_TOLD_OVERTIME, /* another host still plans it, and the wait was too long: this host plans, too */
    DTD_TOLD_TIMES,    /* what another host measured */
    DTD_TOLD_NEAR,     /* what the cluster has for other devices, toolchains and policies, for explain */
    DTD_NTOLD
};
extern const char *const dtd_told_names[DTD_NTOLD];

enum dtd_call {
    DTD_CALL_FIND,
    DTD_CALL_NEAR,
    DTD_CALL_CLAIM,
    DTD_CALL_RENEW,
    DTD_CALL_RELEASE,
    DTD_CALL_PUT,
    DTD_CALL_TIMES,
    DTD_CALL_TIMED,
    DTD_CALL_QUEUE, /* all calls of night-queue.c */
    DTD_CALL_GRAPH, /* graphs that travel */
    DTD_NCALLS
};
extern const char *const dtd_call_names[DTD_NCALLS];

#define DTD_TIMES "times" /* the kind of measurements that are shared */
#define DTD_TURNED 256
struct dtd_turned { /* a measurement that was not believed */
    char name[DT_SHA256_TEXT];
    char *seal; /* that it had; NULL: this place is free */
};

struct dtd_share {
    struct dtd_service *s;
    struct cluster *cluster;
    struct dtd_ask *asks;     /* not yet answered, those that nobody waits for included */
    struct dtd_lease *leases; /* held */
    bool closing, closed;
    uint64_t calls[DTD_NCALLS][CLUSTER_OUTCOMES], told[DTD_NTOLD];
    uint64_t waits; /* claims that waited for another host */
    struct dtd_histogram lookup;
    struct dtd_trust trust; /* rows that were not believed */
    /* drain.c */
    uv_timer_t timer;
    bool again;              /* there is something new since the batch was read */
    struct dtd_batch *batch; /* on its way, or NULL */
    struct cache_outbox_size size;
    uint64_t sent, parked;
    char refusal[160]; /* the last, or "" */
    /* timed.c */
    struct dtd_turned turned[DTD_TURNED];
    unsigned turned_at;
    uint64_t unsigned_ns; /* when the log last said that measurements cannot be signed */
};

/* Nothing is waited for: a server that is away is no error. DT_E_USAGE: the address cannot be read. *ret NULL: the
 * configuration names no cluster. */
int dtd_share_open(struct dtd_service *s, struct dtd_share **ret, struct dt_err *e);
int dtd_share_check(const struct dtd_config *c, struct dt_err *e); /* for --check-config: can the address be read? */
void dtd_share_close(struct dtd_share *sh);                        /* on the loop; it runs dry soon */
struct dtd_share *dtd_share_free(struct dtd_share *sh);

/* share.c. sh may be NULL: there is no cluster. */
/* A worker's question; it is answered by worker_tell, unless dtd_share_left comes before. False: it is not understood,
 * or the one before it is not answered yet. */
bool dtd_share_ask(struct dtd_share *sh, struct dtd_worker *w, const json_t *question);
/* The worker's job is over: no answer is wanted any more. done: with a document, which the outbox has if the worker
 * planned it: its lease ends with that. Else its lease ends now. */
void dtd_share_left(struct dtd_share *sh, struct dtd_worker *w, bool done);
/* What was planned under this token is in the cluster, or never will be. */
void dtd_share_settled(struct dtd_share *sh, int64_t token);
/* A result whose lease would end before it is sent: a service that stops waits for that a little. */
bool dtd_share_sending(const struct dtd_share *sh);
void dtd_share_count(struct dtd_share *sh, enum dtd_call call, enum cluster_outcome outcome);
json_t *dtd_share_json(const struct dtd_share *sh); /* for /healthz; NULL: there is no cluster, or no memory */

/* drain.c */
int dtd_drain_open(struct dtd_share *sh);
void dtd_drain_kick(struct dtd_share *sh); /* there may be something new to send */
void dtd_drain_close(struct dtd_share *sh);

/* timed.c */
/* What a worker measured, {KEY: base64…}. False: it is not understood. sh may be NULL. */
bool dtd_timed_send(struct dtd_share *sh, const char *device, json_t *rows);
/* This row of the cluster was not believed: what is measured instead replaces it, if this host signs. */
void dtd_timed_turned(struct dtd_share *sh, const char *device, const char *key, const char *seal);
void dtd_timed_forget(struct dtd_share *sh);

#endif
