/* What a warp's instructions cost on the modelled GPU, found by following some blocks of a launch: for the timing model
 * (model/cost.c). profile.c says how. NULL pointers everywhere where a launch is not profiled.
 */
#ifndef DT_SOFTGPU_PROFILE_H
#define DT_SOFTGPU_PROFILE_H

#include "softgpu/state/state.h"

void sg_profile_free(struct sg_worker *wk);
/* Is a block one of those that are followed, or a cluster one whose blocks are? By its place among those that run. Two
 * neighbours in the middle of each third; of clusters, which have neighbours in them, one, and the fewer the larger
 * they are: to follow a block takes ten times as long as to run it. */
static inline bool sg_profile_wants(const struct sg_run *run, uint64_t linear)
{
    uint64_t n = run->nclusters, place = linear,
             parts = run->cluster_size < 4   ? 3
                     : run->cluster_size < 8 ? 2
                                             : 1,
             pair = run->cluster_size == 1;
    if (!run->follow)
        return false;
    if (run->l->some.block) {
        uint32_t a = 0, b = run->l->some.n;
        while (a + 1 < b) {
            uint32_t mid = a + (b - a) / 2;
            *(run->l->some.block[mid] <= linear ? &a : &b) = mid;
        }
        place = a;
    }
    if (n <= parts * (1 + pair))
        return true;
    uint64_t k = place * parts / n, at = (2 * k + 1) * n / (2 * parts); /* the middle of each part */
    return place == at || (pair && place == at + 1);
}
/* The block that begins is followed. DT_E_NOMEM. */
int sg_profile_block_start(struct sg_block *b);
/* The warp runs from `op` on until it stops, each operation followed. */
void sg_profile_run(struct sg_warp *w, const struct sg_op *op);
void sg_profile_block_end(struct sg_block *b);
/* All workers' profiles, as if all blocks had been followed. Needs s->instructions. */
void sg_profile_sum(const struct sg_run *run, struct sg_stats *s);
/* behind.c: what the counters of a sample are to be multiplied by, for all blocks; 0: its blocks are of one kind. If
 * the light ones are the `light` blocks of the sample that do next to nothing: how many there are in all, and their
 * instructions; else 0. */
double sg_behind_scale(const struct sg_run *run, uint64_t light, uint64_t ret[2]);
/* The number of a record with the blocks of each kind, where lighter ones stand behind the others; 0: they do
 * not. Needs s->profile. */
uint32_t sg_behind(const struct sg_run *run, const struct sg_stats *s);

#endif
