/* What faint.c and faint-threads.c share: what an instruction is to a part. */
#ifndef DT_REWRITE_PART_PRIV_H
#define DT_REWRITE_PART_PRIV_H

#include "rewrite/emit/part.h"

/* A store to shared memory that may go if nobody reads it; the copy behind a cp.async is one, and a warp's stmatrix. */
bool rw_is_shared_store(const struct ptx_inst *i);
/* All lanes take part in it, and it has no effect but its value. */
bool rw_is_pure_collective(const struct ptx_inst *i);
/* Is it needed, whoever takes its value? (Stores that are divided are for the caller to know.) */
bool rw_has_effect(const struct ptx_inst *i);
/* May it read shared memory, or something that may be shared memory? */
bool rw_may_read_shared(const struct ptx_inst *i);
/* The registers of the matrices that an ldmatrix or stmatrix moves, the m-th by the addresses of lanes 8 m to 8 m + 7;
 * NULL: they are not known. */
const struct ptx_opnd *rw_matrices(const struct ptx_inst *i);
/* Which loads can see which stores; r has spans. */
int rw_reach_order(struct dt_arena *a, const struct rw_body *b, struct rw_reach *r, struct dt_err *e);
/* As ptx_inst_regs; the carry flag is one register more. */
void rw_faint_regs(const struct ptx_function *f, const struct ptx_inst *i,
                   void (*fn)(uint32_t reg, bool write, void *user), void *user);

#endif
