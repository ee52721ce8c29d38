/* What a register hangs on from thread to thread of a block (warps.c). */
#ifndef DT_REWRITE_WARPS_H
#define DT_REWRITE_WARPS_H

#include "rewrite/facts/facts.h"

/* Of the values that the threads of a block have in a register, at one place to which all of them come together. */
struct rw_spread {
    bool any;       /* nobody knows */
    uint32_t bits;  /* else: two threads whose %tid.x are equal in these bits have the same */
    unsigned zeros; /* so many low bits are 0, in all of them */
};

struct rw_warps; /* of one body; in an arena */
/* Blocks of one dimension: in others every thread number counts as unknown. without: by instruction, branches that are
 * not there (NULL: none), one way of which all threads go. */
int rw_warps_new(struct dt_arena *a, const struct rw_body *b, const bool *without, struct rw_warps **ret,
                 struct dt_err *e);
/* Of a register, an immediate, or an address [register + constant] or [variable + constant] of shared memory. */
struct rw_spread rw_warps_of(const struct rw_warps *w, const struct ptx_opnd *o);
/* Of which threads come to basic block `block`, by the branches in whose region it is. */
struct rw_spread rw_warps_region(const struct rw_warps *w, uint32_t block);
/* The one instruction that writes the register; UINT32_MAX: there are several, or none. */
uint32_t rw_warps_def(const struct rw_warps *w, uint32_t reg);
/* The register's value in the thread, if it is made of its number and constants alone. */
bool rw_warps_value(const struct rw_warps *w, uint32_t reg, uint32_t tid, uint64_t *ret);

#endif
