/* A part of a kernel: what is left of a body if it makes only some of its global stores (kinds/slice.c divides them).
 *
 *   reach.c   which bytes of shared memory each instruction touches, by walking the kernel thread by thread
 *   faint.c   which instructions a part needs: those whose effect or value somebody can still see
 */
#ifndef DT_REWRITE_PART_H
#define DT_REWRITE_PART_H

#include "rewrite/facts/facts.h"

struct rw_reach {      /* of one body; in an arena */
    bool known;        /* the walk came to its end; else every access may touch everything */
    uint32_t size;     /* bytes of shared memory, as the body's layout has it (rw_body.shared_at) */
    uint8_t **touched; /* by instruction: a bit for each byte that some thread may touch; NULL: see `anywhere` */
    bool *anywhere;    /* by instruction: it touches shared memory, and nobody knows where */
    uint32_t *deep;    /* by instruction: how many loops it is in, as far as branches back tell */
};
int rw_reach_of(struct dt_arena *a, const struct rw_body *b, struct rw_reach *ret, struct dt_err *e);

/* May the instruction be left to one of several parts? A plain store to global memory, whole. */
bool rw_is_part_store(const struct ptx_inst *i);
/* The instructions that are needed if of the stores above only those with mine[n] are made: keep[n] is 0 or 1. Both are
 * by instruction. */
int rw_faint(const struct rw_body *b, const struct rw_reach *r, const uint8_t *mine, uint8_t *keep, struct dt_err *e);
/* Can no instruction that is kept read a byte of shared memory that one that is not kept writes? False: the two. */
bool rw_part_reach(const struct rw_body *b, const struct rw_reach *r, const uint8_t *keep, uint32_t *ret_store,
                   uint32_t *ret_load);
/* About how long those instructions keep a thread busy, in no unit. */
double rw_part_weight(const struct rw_body *b, const struct rw_reach *r, const uint8_t *keep);

#endif
