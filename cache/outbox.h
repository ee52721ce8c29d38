/* The outbox: results of this host that the other hosts of a cluster are to have, until they are sent (outbox.c).
 *
 * A row is put by cache_put_out, in the transaction that puts the entry. The service takes rows and says what became of
 * them; nobody else does. As with every handle, one thread at a time.
 */
#ifndef DT_CACHE_OUTBOX_H
#define DT_CACHE_OUTBOX_H

#include "cache/cache.h"

#define CACHE_OUTBOX_REFUSALS 3 /* after so many a row is parked: kept for people to see, never sent again */

struct cache_outgoing { /* a row; texts are owned by the list */
    int64_t id, token, created;
    char *signature, *device, *toolchain, *policy, *digest, *body, *facts;
};
/* Up to `max` rows that are due, those that wait longest first; damaged ones are set aside. How many, or negative. Free
 * each by cache_outgoing_done. */
int cache_outbox_due(struct cache *c, unsigned max, struct cache_outgoing *ret, struct dt_err *e);
void cache_outgoing_done(struct cache_outgoing *o);

/* It is in the cluster, or need not be any more: the row goes. */
int cache_outbox_sent(struct cache *c, int64_t id, struct dt_err *e);
/* The cluster will never have it as it is. 1: that was once too often, and the row is parked; 0: it is tried again. */
int cache_outbox_refused(struct cache *c, int64_t id, const char *reason, struct dt_err *e);
/* Nobody knows: the others first, it in a few seconds again. */
int cache_outbox_later(struct cache *c, int64_t id, struct dt_err *e);
/* Its lease is not valid any more: it is sent without one from now on. */
int cache_outbox_unleased(struct cache *c, int64_t id, struct dt_err *e);

struct cache_outbox_size {
    int64_t waiting, parked, bytes;
    int64_t oldest;  /* when the oldest that waits was made, 0: none waits */
    int64_t dropped; /* how many rows went unsent because there were too many, ever */
};
int cache_outbox_size(struct cache *c, struct cache_outbox_size *ret, struct dt_err *e);
/* Parked rows go back into the queue, for an operator who has removed the reason. How many. */
int cache_outbox_again(struct cache *c, struct dt_err *e);

#endif
