/* The checking modes of a launch (SG_CHECK_* of sg.h), as the executor sees them.
 *
 * A checked launch runs code of its own (sg_kernel_code(k, true)). In it every access to memory goes lane by lane
 * through exec/access.c; fences, and waits for asynchronous copies, are operations, while unchecked code has nothing in
 * their place. So a launch that is not checked pays nothing. Checked launches run on one CPU thread. w->wk->check is
 * NULL in other launches, and most functions here may be called only where it is not NULL.
 *
 * A function that returns a bool returns false after it has set a fault.
 */
#ifndef DT_SOFTGPU_CHECK_H
#define DT_SOFTGPU_CHECK_H

#include "softgpu/state/state.h"

/* ---- a launch begins and ends; its blocks do (for launch/) ------------------------------------------------------- */
int sg_check_start(struct sg_run *run, struct sg_worker *wk);
void sg_check_end(struct sg_worker *wk);
int sg_check_block_start(struct sg_block *b);
void sg_check_block_end(struct sg_block *b); /* also without a start */
void sg_check_block_free(struct sg_block *b);

/* ---- accesses to memory ------------------------------------------------------------------------------------------ */
/* How an access is made, in op->rnd of ld, st, atom and red of checked code, and from callers. */
enum sg_sem {
    SG_SEM_STRONG = 1,
    SG_SEM_ACQUIRE = 2,
    SG_SEM_RELEASE = 4,
    SG_SEM_CTA = 8,
    SG_SEM_ASYNC = 16,
    SG_SEM_MBARRIER = 32,
    SG_SEM_SAME = 64,  /* a write of the bytes that are there already */
    SG_SEM_GROUP = 128 /* by a wgmma: of the warpgroup */
};

/* The lanes of `mask` access `bytes` at the host addresses `at`. False: a fault was set. */
bool sg_check_lanes(struct sg_warp *w, const struct sg_op *op, uint8_t *const *at, uint32_t mask, unsigned bytes,
                    enum sg_access how, unsigned sem);
/* A lane copies `bytes` from `from` to `to`: `to` is then initialised as the source is. The accesses are asynchronous.
 */
bool sg_check_copy(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint8_t *to, const uint8_t *from,
                   unsigned bytes);
/* A bulk or tensor copy of one lane accesses `n` bytes. Reading uninitialised memory in this way is not yet a finding.
 */
bool sg_check_async(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint8_t *at, uint32_t n,
                    enum sg_access how);
/* `to` is initialised where `from` (NULL: everywhere) is. */
void sg_check_carry(struct sg_warp *w, const uint8_t *to, const uint8_t *from, uint32_t n);
/* The bytes that a wgmma reads. */
bool sg_check_wgmma(struct sg_warp *w, const struct sg_op *op, const uint8_t *at, uint32_t n);
/* Memory that malloc gives: nothing has written it, nobody has touched it. */
void sg_check_fresh(struct sg_warp *w, const uint8_t *at, uint64_t bytes);
/* Two lanes of one instruction write different values to the same place. */
bool sg_check_same_place(struct sg_warp *w, const struct sg_op *op, unsigned lane, unsigned other, uint8_t *at,
                         unsigned bytes);

/* ---- what orders threads ----------------------------------------------------------------------------------------- */
/* Barrier n of the block: the lanes `mask` of w arrive; the barrier is complete; lanes leave the kernel. */
bool sg_check_arrive(struct sg_warp *w, const struct sg_op *op, unsigned n, uint32_t mask, uint32_t count);
void sg_check_complete(struct sg_block *b, unsigned n);
void sg_check_exit(struct sg_warp *w, uint32_t mask);
bool sg_clock_warp(struct sg_warp *w, const struct sg_op *op, uint32_t mask); /* bar.warp.sync of these lanes */
bool sg_barrier_members(struct sg_warp *w, const struct sg_op *op); /* SG_CHECK_BARRIER, of the same instruction */
/* barrier.cluster */
bool sg_clock_cluster_arrive(struct sg_warp *w, const struct sg_op *op);
void sg_clock_cluster_complete(struct sg_cluster *cl);
void sg_clock_cluster_go_on(struct sg_warp *w, uint32_t mask);
/* An operation on the mbarrier at `at`. */
enum sg_mbarrier_event { SG_ME_ARRIVE, SG_ME_ASYNC, SG_ME_COUNT, SG_ME_FLIP, SG_ME_WAITED, SG_ME_FORGET };
bool sg_clock_mbarrier(struct sg_warp *w, const struct sg_op *op, unsigned lane, const uint8_t *at,
                       enum sg_mbarrier_event what);
/* Operations that only checked code has; op->sub says what, op->type which copies. */
enum sg_copies { SG_BY_CP_ASYNC, SG_BY_BULK, SG_BY_WGMMA };
enum { SG_COPY_GROUPS = 16 }; /* of asynchronous copies that are told apart */
enum sg_check_op { SG_CO_FENCE, SG_CO_COMMIT, SG_CO_WAIT, SG_CO_WAIT_ALL };
sg_handler sg_check_op;

#endif
