/* Inside facts/: the parts of what body.c finds out about one entry. */
#ifndef DT_REWRITE_FACTS_PRIV_H
#define DT_REWRITE_FACTS_PRIV_H

#include "rewrite/facts/facts.h"

/* prov.c: the bit of argument i in sets of arguments. */
static inline uint64_t rw_arg_bit(uint32_t i) { return i < 62 ? UINT64_C(1) << i : RW_PROV_OTHER; }
/* vary.c: find barriers that not all threads of a block need reach; sets RW_BARRIER_VARYING. */
int rw_vary(struct rw_body *b, struct dt_err *e);
/* Set region[] for the basic blocks between `from` and its post-dominator; true if one was not set yet. mark, stack:
 * scratch, by block. */
bool rw_mark_region(const struct ptx_cfg *cfg, uint32_t from, bool *mark, uint32_t *stack, bool *region);
/* lanes.c: find warp collectives that some lanes of a warp need not reach; sets RW_COLLECTIVE_VARYING. */
int rw_lanes(struct rw_body *b, struct dt_err *e);
/* Is the tensor map that parameter v is only moved, converted, and named as the map of copies of tensors? */
bool rw_map_only_named(const struct ptx_function *f, const struct ptx_var *v);
bool rw_readonly_variable(const struct ptx_module *m, const struct ptx_var *v); /* its address reaches only loads */

#endif
