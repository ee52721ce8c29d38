/* What a kernel asks of a GPU, number by number, and no time: of two ways to compute the same, one that asks for no
 * more of anything is no slower, however wrong the model's figures are (rewrite/plan/compare.c).
 */
#include "softgpu/sg.h"

void sg_burden(const struct sg_model *m, const struct sg_work *w, double ret[SG_BURDENS], double *ret_in_flight)
{
    const struct sg_stats *st = &w->stats;
    const struct sg_profile *p = &st->profile;
    bool followed = p->alone_near > 0;
    double slots = 0, blocks = w->blocks,
           many = sg_occupancy(m, w->threads, w->registers, w->shared_bytes).blocks_per_sm;
    for (unsigned i = 0; i < SG_BURDENS; i++)
        ret[i] = 0;
    for (unsigned i = 0; i < SG_PIPES; i++)
        slots += (double)p->slots[i];
    many *= m->sms;
    double waves = many > 0 ? blocks / many : blocks, whole = (double)(uint64_t)waves;
    whole += whole < waves;
    /* the busiest warp of a block, in clocks where blocks were followed, else in instructions */
    double alone =
        (followed ? (double)(p->alone_far > p->done_far ? p->alone_far : p->done_far) : (double)st->longest) /
        (blocks > 0 ? blocks : 1);
    unsigned k = 0;
    ret[k++] = 1; /* launches, memsets and copies */
    ret[k++] = followed ? slots : (double)st->instructions;
    ret[k++] = followed ? (double)(p->slots[SG_PIPE_FP64] + p->slots[SG_PIPE_XU]) : (double)st->fp64 + (double)st->sfu;
    ret[k++] = (double)st->tensor_flops;
    ret[k++] = followed ? (double)p->slots[SG_PIPE_LSU] : (double)st->memory;
    ret[k++] = followed ? (double)p->shared_passes * 4 + (double)p->l1_quarters : (double)st->shared_bytes;
    ret[k++] = followed ? (double)p->l2_read + (double)p->l2_write
                        : (double)st->global_read_bytes + (double)st->global_write_bytes;
    ret[k++] = (double)st->unique_read_bytes + (double)st->unique_write_bytes + (double)p->again * 32 +
               (double)st->prefetched_bytes + (double)w->bytes;
    ret[k++] = (double)p->atomics;
    ret[k++] = (double)p->hot;
    ret[k++] = (double)st->barriers + (double)st->cluster_syncs + (double)st->cluster_accesses;
    ret[k++] = alone * whole * (st->max_block_share > 1 ? st->max_block_share : 1); /* the longest way through it */
    ret[k++] = alone * (whole - waves);                                             /* idle places of the last wave */
    *ret_in_flight = w->kind == SG_WORK_KERNEL ? (blocks < many ? blocks : many) * w->threads : 0;
}
