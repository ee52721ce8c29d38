/* Level `register` of block fusion: a pointwise kernel inlined where its neighbour stores or loads the element. */
#ifndef DT_REWRITE_INLINE_H
#define DT_REWRITE_INLINE_H

#include "rewrite/emit/emit.h"

/* For the two levels `register`: the conditions alone; and conditions and kernel (c->made). 0: they hold; 1: refused,
 * `why` says so; negative: error. */
int rw_inline_may(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e);
int rw_inline_apply(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e);
/* The host, whose geometry the fused launch has; NULL at other levels, where blocks are listed by component. */
const struct dt_launch *rw_inline_host(const struct rw_cand *c);

extern const struct rw_legal rw_inline_legal[]; /* ALSO rows: what rw_inline_may asks first */
extern const unsigned rw_ninline_legal;
/* Like rw_legal_check, with these rows. */
bool rw_legal_inline_check(const struct rw_cand *c, struct dt_str *why);

#endif
