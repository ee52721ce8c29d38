/* Clusters: blocks that run together, reach each other's shared memory, and meet at a barrier of their own (PTX §1.3.3,
 * §9.7.13.4).
 *
 * Every launch has clusters, of one block where nobody asked for more. The blocks of a cluster are resident together on
 * one CPU thread and take turns, so nothing here is atomic, and waiting for another block of the cluster always ends if
 * that block gets there.
 *
 * Distributed shared memory. The shared window of a thread holds its own block's memory from offset 0, and that of
 * block `rank` of the cluster from offset (rank + 1) << 24, the thread's own block included: mapa makes such addresses,
 * and they mean the same in every block of the cluster. They are outside the bounds that the lane loops check, so each
 * access to one comes here. Faults are: a rank that the cluster does not have, a block that has exited, an offset past
 * the block's shared memory, and another block's memory through .shared::cta.
 *
 * barrier.cluster. A phase is over when every thread of the cluster that has not exited has arrived. In a warp,
 * `arrived` has the lanes between arrive and wait, and `passed` those of them whose phase is over. A second arrive
 * before the wait, and a wait without an arrive, are undefined in PTX and a fault (trap) here.
 */
#include "softgpu/exec/exec-priv.h"

#include <stdio.h>

/* ---- shape ------------------------------------------------------------------------------------------------------- */
const char *sg_cluster_shape(const struct sg_launch *l, uint32_t ret[3], bool *ret_explicit)
{
    const struct sg_kernel_info *k = &l->kernel->info;
    bool asked = l->cluster[0] || l->cluster[1] || l->cluster[2];
    uint64_t size = 1;
    *ret_explicit = asked || k->cluster[0];
    if (!*ret_explicit && k->explicit_cluster)
        return "the kernel wants a cluster size (.explicitcluster), and the launch has none";
    for (int i = 0; i < 3; i++) {
        ret[i] = asked ? l->cluster[i] : k->cluster[0] ? k->cluster[i] : 1;
        if (!ret[i])
            return "a cluster dimension is 0";
        if (k->cluster[0] && ret[i] != k->cluster[i])
            return "the cluster is not the one that the kernel was compiled for (.reqnctapercluster)";
        size *= ret[i] > SG_MAX_CLUSTER ? SG_MAX_CLUSTER + 1 : ret[i];
    }
    if (size > SG_MAX_CLUSTER)
        return "a cluster has at most 16 blocks";
    if (k->max_cluster && size > k->max_cluster)
        return "the cluster has more blocks than the kernel allows (.maxclusterrank)";
    for (int i = 0; i < 3; i++)
        if (l->grid[i] % ret[i])
            return "the cluster does not divide the grid";
    return NULL;
}

static void cluster_fill(uint8_t *row, uint32_t v)
{
    for (unsigned l = 0; l < SG_LANES; l++)
        ((uint32_t *)(void *)row)[l] = v;
}

void sg_cluster_konst(const struct sg_run *run, uint8_t *konst)
{
    for (unsigned i = 0; i < 3; i++) {
        cluster_fill(konst + SG_K_NCLUSTERID + i * 128, run->l->grid[i] / run->cluster[i]);
        cluster_fill(konst + SG_K_CLUSTER_NCTAID + i * 128, run->cluster[i]);
    }
    cluster_fill(konst + SG_K_CLUSTER_SIZE, run->cluster_size);
    *(uint32_t *)(void *)(konst + SG_K_EXPLICIT_CLUSTER) = run->explicit_cluster ? SG_ALL : 0;
}

/* Where block `rank` lies in its cluster: x fastest (PTX §10, %cluster_ctarank). */
static void cluster_place(const uint32_t cluster[3], uint32_t rank, uint32_t ret[3])
{
    ret[0] = rank % cluster[0];
    ret[1] = rank / cluster[0] % cluster[1];
    ret[2] = rank / cluster[0] / cluster[1];
}

uint64_t sg_cluster_block(const struct sg_run *run, uint64_t i, uint32_t rank)
{
    const uint32_t *grid = run->l->grid, *c = run->cluster;
    uint64_t x = grid[0] / c[0], y = grid[1] / c[1];
    uint32_t in[3];
    cluster_place(c, rank, in);
    return (i % x * c[0] + in[0]) +
           (uint64_t)grid[0] * ((i / x % y * c[1] + in[1]) + (uint64_t)grid[1] * (i / x / y * c[2] + in[2]));
}

void sg_cluster_block_konst(const struct sg_block *b)
{
    const uint32_t *c = b->wk->run->cluster;
    uint32_t in[3];
    for (unsigned i = 0; i < 3 && !b->fresh; i++) { /* all else is the place's */
        uint32_t *row = (uint32_t *)(void *)(b->konst + SG_BLOCK_CLUSTERID + i * 128), id = b->id[i];
        if (c[i] != 1)
            id /= c[i];
        if (*row != id)
            cluster_fill((uint8_t *)row, id);
    }
    if (!b->fresh)
        return;
    cluster_place(c, b->rank, in);
    for (unsigned i = 0; i < 3; i++) {
        cluster_fill(b->konst + SG_BLOCK_CLUSTERID + i * 128, b->id[i] / c[i]);
        cluster_fill(b->konst + SG_BLOCK_CLUSTER_CTAID + i * 128, in[i]);
    }
    cluster_fill(b->konst + SG_BLOCK_CLUSTER_RANK, b->rank);
}

/* ---- distributed shared memory ----------------------------------------------------------------------------------- */
static uint8_t *not_there(struct sg_warp *w, uint64_t rank)
{
    struct sg_fault *f = &w->wk->f;
    if (!*f->place)
        snprintf(f->place, sizeof f->place, "shared memory of block rank %u", (unsigned)rank);
    return NULL;
}

uint8_t *sg_cluster_resolve(struct sg_warp *w, const struct sg_op *op, unsigned lane, uint64_t at, unsigned bytes)
{
    const struct sg_cluster *cl = w->blk->cl;
    uint64_t rank = (at >> SG_RANK_SHIFT) - 1, off = at & ((1u << SG_RANK_SHIFT) - 1);
    if (rank >= SG_MAX_CLUSTER)
        return sg_stray(w, op, lane, at, bytes, "shared memory", w->shared_bytes);
    if (rank >= cl->size) {
        sg_fault_at(w, op, DT_E_BOUNDS, lane, at, bytes, "shared memory of block rank %u in a cluster of %u",
                    (unsigned)rank, cl->size);
        return not_there(w, rank);
    }
    const struct sg_block *b = &cl->block[rank];
    if (b != w->blk && op->space == PTX_SHARED) {
        sg_fault_at(w, op, DT_E_BOUNDS, lane, at, bytes,
                    "address 0x%llx of block rank %u is not in the thread's own shared memory (.shared::cta)",
                    (unsigned long long)at, (unsigned)rank);
        return not_there(w, rank);
    }
    if (!b->alive) {
        sg_fault_at(w, op, DT_E_BOUNDS, lane, at, bytes, "shared memory of block rank %u, which has exited",
                    (unsigned)rank);
        return not_there(w, rank);
    }
    if (off > w->shared_bytes || bytes > w->shared_bytes - off) {
        char space[64];
        snprintf(space, sizeof space, "shared memory of block rank %u", (unsigned)rank);
        return sg_stray(w, op, lane, off, bytes, space, w->shared_bytes);
    }
    return b->shared + off;
}

static uint64_t lane_value(const struct sg_warp *w, const struct sg_op *op, unsigned lane)
{
    return op->flags & SG_A64 ? SG_P(uint64_t, op->a)[lane] : SG_P(uint32_t, op->a)[lane];
}

/* d: the place of [a] in block b of the cluster. A rank that there is not makes an address that faults when it is
 * used. */
const struct sg_op *sg_mapa(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t rank = SG_P(uint32_t, op->b)[l];
        uint64_t v = lane_value(w, op, l), window = v >> SG_WINDOW_SHIFT << SG_WINDOW_SHIFT;
        v = window | (v & ((1u << SG_RANK_SHIFT) - 1)) |
            (uint64_t)(rank < SG_MAX_CLUSTER ? rank + 1 : 0xFF) << SG_RANK_SHIFT;
        if (op->flags & SG_A64)
            SG_P(uint64_t, op->d)[l] = v;
        else
            SG_P(uint32_t, op->d)[l] = (uint32_t)v;
    }
    return op + 1;
}

const struct sg_op *sg_getctarank(struct sg_warp *w, const struct sg_op *op)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t rank = (uint32_t)(lane_value(w, op, l) >> SG_RANK_SHIFT) & 0xFF;
        SG_P(uint32_t, op->d)[l] = rank ? rank - 1 : w->blk->rank;
    }
    return op + 1;
}

/* st.async and red.async: the mbarrier [a] and the data ([ext[x]] + ext[x + 2], flags ext[x + 1]) are in one block. */
const struct sg_op *sg_same_block(struct sg_warp *w, const struct sg_op *op)
{
    const uint32_t *ext = w->code->ext + op->x;
    struct sg_op to = *op;
    to.a = ext[0];
    to.flags = (uint8_t)ext[1];
    to.imm = (int32_t)ext[2];
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint32_t x = (uint32_t)(sg_address(w, op, l) >> SG_RANK_SHIFT) & 0xFF,
                 y = (uint32_t)(sg_address(w, &to, l) >> SG_RANK_SHIFT) & 0xFF;
        if ((x ? x - 1 : w->blk->rank) != (y ? y - 1 : w->blk->rank))
            return sg_fault_at(w, op, DT_E_TRAP, l, 0, 0, "the data and the mbarrier are in different blocks");
    }
    return op + 1;
}

/* isspacep.shared::cta: in the shared window, and there in the thread's own block. */
const struct sg_op *sg_isspacep_cta(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t yes = 0, *p = SG_P(uint32_t, op->d);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t v = lane_value(w, op, l), rank = (v & (SG_WINDOW_SHARED - 1)) >> SG_RANK_SHIFT;
        yes |= (uint32_t)(v >> SG_WINDOW_SHIFT == SG_WINDOW_SHARED >> SG_WINDOW_SHIFT &&
                          (!rank || rank == w->blk->rank + 1))
               << l;
    }
    *p = (*p & ~w->mask) | yes;
    return op + 1;
}

/* ---- the barrier ------------------------------------------------------------------------------------------------ */
static void complete(struct sg_cluster *cl)
{
    if (!cl->arrived || cl->arrived < cl->alive)
        return;
    cl->arrived = 0;
    cl->phase += !cl->relaxed;
    cl->relaxed = false;
    if (cl->block[0].check)
        sg_clock_cluster_complete(cl);
    for (uint32_t r = 0; r < cl->size; r++)
        for (uint32_t i = 0; i < cl->block[r].nwarp; i++) {
            struct sg_warp *w = &cl->block[r].warp[i];
            w->passed |= w->arrived;
            for (uint32_t k = 0; k < w->nfrag; k++)
                if (w->frag[k].state == SG_F_CLUSTER) {
                    if (cl->block[r].check)
                        sg_clock_cluster_go_on(w, w->frag[k].mask);
                    w->arrived &= ~w->frag[k].mask;
                    w->passed &= ~w->frag[k].mask;
                    w->frag[k].state = SG_F_RUN;
                    w->frag[k].tick = w->tick;
                    w->ready = 1;
                }
        }
}

void sg_cluster_leave(struct sg_warp *w, uint32_t lanes)
{
    struct sg_cluster *cl = w->blk->cl;
    cl->alive -= sg_count(lanes);
    if (w->arrived | w->passed) {
        cl->arrived -= sg_count(lanes & w->arrived & ~w->passed);
        w->arrived &= ~lanes;
        w->passed &= ~lanes;
    }
    complete(cl);
}

const struct sg_op *sg_cluster_arrive(struct sg_warp *w, const struct sg_op *op)
{
    if (w->mask & w->arrived)
        return sg_fault_at(w, op, DT_E_TRAP, (unsigned)__builtin_ctz(w->mask & w->arrived), 0, 0,
                           "the thread arrives a second time at the cluster's barrier before it has waited");
    if (w->blk->check && !sg_clock_cluster_arrive(w, op))
        return NULL;
    w->arrived |= w->mask;
    w->blk->cl->relaxed |= op->sub;
    w->blk->cl->arrived += (uint32_t)__builtin_popcount(w->mask);
    complete(w->blk->cl);
    return op + 1;
}

const struct sg_op *sg_cluster_wait(struct sg_warp *w, const struct sg_op *op)
{
    uint32_t m = w->mask, go = m & w->passed;
    if (m & ~w->arrived)
        return sg_fault_at(w, op, DT_E_TRAP, (unsigned)__builtin_ctz(m & ~w->arrived), 0, 0,
                           "the thread waits at the cluster's barrier without having arrived");
    if (w->blk->check && go)
        sg_clock_cluster_go_on(w, go);
    w->arrived &= ~go;
    w->passed &= ~go;
    if (go == m)
        return op + 1;
    sg_park(w, op + 1, m & ~go, SG_F_CLUSTER, 0);
    if (!go)
        return sg_pick(w);
    sg_set_mask(w, go);
    return op + 1;
}
