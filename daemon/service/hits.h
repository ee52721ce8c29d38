/* The reading side of the store, for requests that find what they ask for: connections that never write and never wait,
 * and a batch of what came of the hits, which a pool thread writes down later.
 */
#ifndef DTD_HITS_H
#define DTD_HITS_H

#include "daemon/service/replies.h"

struct dtd_service;
struct dtd_hits;

/* Where a hit came from, in the order of trying; for metrics. */
enum dtd_hit_from { DTD_HIT_MEMORY, DTD_HIT_STORE, DTD_HIT_SIGNATURE, DTD_HIT_FROMS };
extern const char *const dtd_hit_names[DTD_HIT_FROMS];

/* NULL: out of memory. A store that cannot be read is no error: nothing is found then, by way of memory or rows. */
struct dtd_hits *dtd_hits_new(struct dtd_service *s);
void dtd_hits_close(struct dtd_hits *h); /* no more timers; the loop runs dry */
/* After the loop: write what is left, free. */
struct dtd_hits *dtd_hits_free(struct dtd_hits *h);

/* What the store is like now; 0: not known. On the loop's thread. A few microseconds. */
uint64_t dtd_hits_version(struct dtd_hits *h);
/* The connection for pool threads, until dtd_hits_read_end; NULL: the store cannot be read. */
struct cache *dtd_hits_read(struct dtd_hits *h);
void dtd_hits_read_end(struct dtd_hits *h);

/* ---- what came of it: on the loop's thread; nothing is written here ---------------------------------------------- */
/* This user got this reply. fresh: the store does not have it yet. count: it counts as a hit of the entry. */
void dtd_hits_note(struct dtd_hits *h, struct dtd_reply *r, const char *want, unsigned uid, bool fresh, bool count);
/* Write it all down, under the service's cache_lock: before an operation that counts, lists or exports rows. While
 * somebody else writes it is tried again for a second, and then left for later. On a pool's thread. */
void dtd_hits_flush(struct dtd_hits *h);

#endif
