/* Inside launch: the blocks of a launch (block.c) and the CPU threads that run them (worker.c), for launch.c. */
#ifndef DT_SOFTGPU_LAUNCH_PRIV_H
#define DT_SOFTGPU_LAUNCH_PRIV_H

#include "softgpu/check/check.h"
#include "softgpu/decode/decode.h"
#include "softgpu/exec/exec.h"
#include "softgpu/jit/jit.h"

#define SG_MAX_RESIDENT_BYTES (1ull << 30) /* registers, local and shared memory of the blocks of one CPU thread */

static inline void sg_fill32(void *p, uint32_t v) /* one value for all lanes */
{
    for (unsigned l = 0; l < SG_LANES; l++)
        ((uint32_t *)p)[l] = v;
}

/* ---- block.c ----------------------------------------------------------------------------------------------------- */
uint64_t sg_block_bytes(const struct sg_run *run); /* memory of a resident block */
/* Memory for the blocks of a cluster; what there is of it after an error goes with sg_worker_done. */
int sg_cluster_init(struct sg_worker *wk, struct sg_cluster *cl);
/* The cluster becomes number `linear` of the grid, `place` in the order of clusters. */
void sg_cluster_start(const struct sg_run *run, struct sg_cluster *cl, uint64_t place, uint64_t linear);
/* A turn of each block, `fuel` operations a warp. SG_YIELD, SG_DONE (all blocks are) or SG_FAULT. */
enum sg_stop sg_cluster_turn(struct sg_worker *wk, struct sg_cluster *cl, int64_t fuel);

/* ---- worker.c ---------------------------------------------------------------------------------------------------- */
int sg_worker_init(struct sg_run *run, struct sg_worker *wk, bool track);
void sg_worker_done(struct sg_worker *wk);
/* Run clusters until there are none left, or a stop, or a fault in one of ours. The first worker starts the others. */
void sg_worker_run(struct sg_worker *wk);

#endif
