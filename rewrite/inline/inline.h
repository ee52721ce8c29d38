/* Level `register` of block fusion: a pointwise kernel inlined where its neighbour stores or loads the element. */
#ifndef DT_REWRITE_INLINE_H
#define DT_REWRITE_INLINE_H

#include "rewrite/emit/emit.h"

/* Legality alone, then all of it, for the levels `register`. 0, 1: refused, `why`; negative: error. */
int rw_inline_may(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e);
int rw_inline_apply(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e);
/* The launch whose geometry the fused one has: the host; NULL where blocks are listed by component. */
const struct dt_launch *rw_inline_host(const struct rw_cand *c);

extern const struct rw_legal rw_inline_legal[]; /* ALSO and INLINE rows */
extern const unsigned rw_ninline_legal;
/* The same with the rows that inlining asks for; those of INLINE hold before rw_inline_look(). */
bool rw_legal_inline_check(const struct rw_cand *c, struct dt_str *why);

#endif
