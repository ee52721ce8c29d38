/* Inside kinds/: what rewrites share. */
#ifndef DT_REWRITE_KINDS_PRIV_H
#define DT_REWRITE_KINDS_PRIV_H

#include "rewrite/emit/emit.h"
#include "rewrite/inline/inline.h"
#include "rewrite/kinds/kinds.h"

/* The kernel of a pair (rw_cand_init) at a level. 0: c->made is there; 1: refused, `why` says so; negative: error. */
int rw_fuse(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e);
/* About how long the fused launch takes, from the times of the two; *ret_now: what both take now, with the gap between
 * them that fusion saves. */
double rw_bound_us(const struct rw_cand *c, const struct rw_state *s, double *ret_now);
/* close() of a kind whose `mine` is one candidate, on the heap. */
void rw_close_cand(struct rw_edit *x);
/* Add the joined launch to x as a part; its text moves there. */
int rw_fuse_part(struct rw_cand *c, struct rw_edit *x, struct dt_err *e);
/* Is there another launch of the same entry that nothing leads to from it, nor back? 1, 0; negative: error. */
int rw_has_twin(const struct rw_state *s, uint32_t launch, struct dt_err *e);
/* The kernel of bodies side by side in one grid (c->beside), if the rows hold. 1: they do not, or it does not fit. */
int rw_join_beside(struct rw_cand *c, const struct rw_legal *of, unsigned n, struct dt_str *why, struct dt_err *e);
/* Does the kernel wait for the launch before it, or let the one behind it in? A rewrite that cannot keep that does not
 * propose it: what it could become was asked before it did. NULL: no. */
bool rw_overlaps(const struct ptx_function *f);
/* Does the kernel prefetch into the L2? NULL: no. */
bool rw_prefetches(const struct ptx_function *f);

/* place.c: `stream` and `after` of the launches of the new graph, in order, where the posted one is on several streams.
 * False: memory. */
bool rw_edit_place(const struct rw_edit *x, const uint32_t *order, json_t *list);

/* Recompute of a memset (filled.c): each reader is an entry of its own. As open(), build() and close() of a rewrite. */
struct rw_filled;
int rw_filled_open(struct rw_edit *x, struct rw_filled **ret, struct dt_str *why, struct dt_err *e);
int rw_filled_build(struct rw_edit *x, struct rw_filled *f, struct dt_str *why, struct dt_err *e);
void rw_filled_close(struct rw_filled *f);

/* OTHER rows of legal.def that need more than facts: what a candidate of one kind is asked. */
bool rw_legal_nobody_reads(const struct rw_cand *c, struct dt_str *why);  /* dead blocks */
bool rw_legal_all_readers(const struct rw_cand *c, struct dt_str *why);   /* recompute */
bool rw_legal_block_maps(const struct rw_cand *c, struct dt_str *why);    /* dataflow fusion */
bool rw_legal_plain_effects(const struct rw_cand *c, struct dt_str *why); /* slice */
bool rw_legal_flags(const struct rw_cand *c, struct dt_str *why);         /* dataflow fusion */

#endif
