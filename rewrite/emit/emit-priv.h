/* Inside emit/: what its files ask of each other. */
#ifndef DT_REWRITE_EMIT_PRIV_H
#define DT_REWRITE_EMIT_PRIV_H

#include "rewrite/emit/emit.h"

/* The same without more threads than the largest body has. False: there were none. */
bool rw_narrow(struct rw_cand *c);
/* Is everything that the two phases have to do with each other between blocks of one rank? Then a barrier of the block
 * is enough between them. */
bool rw_cluster_own_pairs(const struct rw_cand *c);
/* Fill in the owners: can a byte's rank and place be worked out from its offset? box, by rank: what its producer blocks
 * write; base: where it begins. */
bool rw_cluster_owners(const struct rw_cand *c, struct rw_redirect *r, const struct ana_set *box, const uint64_t *base,
                       uint32_t align, struct dt_str *why);
/* Leave what is needed to reproduce a failure under $DOVETAIL_BUNDLES, if that is set (bundle.c): with the plan as a
 * program, as a document, or only a kernel that does not get so far. */
bool rw_bundle_wanted(void); /* is there a place for them? */

/* The number of the barrier between virtual blocks, -1: none is left. */
int rw_phase_barrier(const struct rw_cand *c);

#endif
