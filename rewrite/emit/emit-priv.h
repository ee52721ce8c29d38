/* Inside emit/: what its files ask of each other. */
#ifndef DT_REWRITE_EMIT_PRIV_H
#define DT_REWRITE_EMIT_PRIV_H

#include "rewrite/emit/emit.h"

/* rw_abreast without more threads than the largest body has. False: there were none. */
bool rw_narrow(struct rw_cand *c);
/* Are all pairs of the two phases between blocks of one rank? Then a barrier of the block is enough between them. */
bool rw_cluster_own_pairs(const struct rw_cand *c);
/* Fill in owners, step and by_rows of r. False, with `why`: a byte's rank and place cannot be computed from its offset.
 * box, by rank: what its producer blocks write; base, by rank: where that begins. */
bool rw_cluster_owners(const struct rw_cand *c, struct rw_redirect *r, const struct ana_set *box, const uint64_t *base,
                       uint32_t align, struct dt_str *why);
bool rw_bundle_wanted(void); /* is there a folder for bundles? */

/* ---- surplus lanes (surplus.c) ----------------------------------------------------------------------------------- */

/* So many threads run phase s: those of the body, and lanes that fill up its last warp, if the block has other threads
 * as well and the body has barriers. */
uint32_t rw_surplus_threads(const struct rw_cand *c, uint32_t s);
/* Can surplus lanes run this body at all? If not, *ret says why not. */
bool rw_surplus_lanes(const struct rw_body *b, struct rw_find *ret);
/* By instruction of body s: 1 where surplus lanes leave it out; in `a`. ret_lost: a branch or barrier that depends on
 * what they leave out; none is set where there is none. */
int rw_surplus(struct dt_arena *a, const struct rw_facts *facts, uint32_t s, uint8_t **ret_out,
               struct rw_find *ret_lost, struct dt_err *e);

/* pack.c: posted barrier numbers of which each subblock has its own, as bits. */
uint32_t rw_subblock_numbers(const struct rw_body *b);

/* The number of the barrier between virtual blocks; -1: none is left. */
int rw_phase_barrier(const struct rw_cand *c);

#endif
