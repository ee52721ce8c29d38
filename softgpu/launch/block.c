/* The resident blocks of a CPU thread: their memory, how a block begins, runs in turns and ends.
 *
 * The blocks of a cluster are resident together and take turns; a launch without clusters has clusters of one block. A
 * turn of a block gives each of its warps that can run one helping of fuel (decoded operations). Where nothing of a
 * cluster can run, it is a deadlock, and the fault names the first thread that waits.
 */
#include "softgpu/exec/costs.h"
#include "softgpu/exec/profile.h"
#include "softgpu/launch/launch-priv.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

enum { FOLLOWED = 48 }; /* fuel of a warp of a block that is followed */

uint64_t sg_block_bytes(const struct sg_run *run)
{
    return run->nwarp * ((uint64_t)run->code->reg_bytes + SG_LANES * (uint64_t)run->local_bytes) + run->shared_bytes;
}

/* Take `bytes` from *p on, rounded up to lines. */
static uint8_t *cut(uint8_t **p, size_t bytes)
{
    uint8_t *r = *p;
    *p += (bytes + 127) & ~(size_t)127;
    return r;
}

/* Memory of a resident block, in one piece. What is in it does not matter: registers that are read before they are
 * written are cleared by block_start, and so is all else that a kernel can see. */
static int block_init(struct sg_worker *wk, struct sg_block *b)
{
    const struct sg_run *run = wk->run;
    const struct sg_code *c = run->code;
    const struct sg_launch *l = run->l;
    size_t threads = (size_t)run->nwarp * SG_LANES;
    b->wk = wk;
    b->nwarp = run->nwarp;
    b->met = (uint32_t)((1ull << (SG_BARRIERS + SG_GROUPS)) - 1);
    b->fresh = true;
    b->bytes = sg_block_bytes(run) + run->nwarp * sizeof *b->warp + SG_BLOCK_BYTES + 5 * 128;
    uint8_t *p = b->memory = sg_spare_get(run->device, &b->bytes);
    if (!p)
        return DT_E_NOMEM;
    b->warp = (struct sg_warp *)(void *)cut(&p, run->nwarp * sizeof *b->warp);
    b->regs = cut(&p, (size_t)run->nwarp * c->reg_bytes);
    b->shared = cut(&p, run->shared_bytes);
    b->local = cut(&p, threads * run->local_bytes);
    b->konst = cut(&p, SG_BLOCK_BYTES);
    uint32_t t[3] = {0};
    for (uint32_t i = 0; i < run->nwarp; i++) {
        struct sg_warp *w = &b->warp[i];
        memset(w, 0, offsetof(struct sg_warp, frag));
        uint8_t *r = b->regs + (size_t)i * c->reg_bytes;
        w->base[0] = r;
        w->base[1] = run->konst;
        w->base[2] = b->konst;
        w->base[3] = r;
        w->wk = wk;
        w->blk = b;
        w->code = c;
        w->index = i;
        w->shared = b->shared;
        w->shared_bytes = run->shared_bytes;
        w->local = b->local + (size_t)i * SG_LANES * run->local_bytes;
        w->local_bytes = run->local_bytes;
        for (unsigned lane = 0; lane < SG_LANES; lane++) {
            ((uint32_t *)(void *)(r + SG_REG_TIDX))[lane] = t[0];
            ((uint32_t *)(void *)(r + SG_REG_TIDY))[lane] = t[1];
            ((uint32_t *)(void *)(r + SG_REG_TIDZ))[lane] = t[2];
            if (++t[0] == l->block[0]) {
                t[0] = 0;
                if (++t[1] == l->block[1])
                    t[1] = 0, t[2]++;
            }
        }
        sg_fill32(r + SG_REG_WARPID, i);
    }
    return 0;
}

/* A row of the block's constants, which it may have from the block before. */
static void block_konst(const struct sg_block *b, size_t at, uint32_t v)
{
    const uint32_t *row = (const uint32_t *)(const void *)(b->konst + at);
    if (b->fresh || *row != v)
        sg_fill32(b->konst + at, v);
}

static void block_start(struct sg_block *b, uint64_t linear)
{
    const struct sg_run *run = b->wk->run;
    const struct sg_code *c = run->code;
    const uint32_t *grid = run->l->grid;
    b->linear = linear;
    b->id[0] = (uint32_t)(linear % grid[0]);
    b->id[1] = (uint32_t)(linear / grid[0] % grid[1]);
    b->id[2] = (uint32_t)(linear / grid[0] / grid[1]);
    const struct sg_model *m = sg_device_model(run->device);
    block_konst(b, SG_BLOCK_CTAIDX, b->id[0]);
    block_konst(b, SG_BLOCK_CTAIDY, b->id[1]);
    block_konst(b, SG_BLOCK_CTAIDZ, b->id[2]);
    block_konst(b, SG_BLOCK_SMID, (uint32_t)(linear % (m && m->sms ? m->sms : 1)));
    sg_cluster_block_konst(b);
    b->fresh = false;
    memset(b->shared, 0xFF, run->shared_bytes);
    memset(b->local, 0xFF, (size_t)run->nwarp * SG_LANES * run->local_bytes);
    for (uint32_t met = b->met; met; met &= met - 1)
        b->bar[__builtin_ctz(met)] = (struct sg_barrier){.all = 1};
    b->met = 0;
    b->alive = run->threads;
    b->next = 0;
    b->live = true;
    b->follow = NULL;
    b->executed = 0;
    b->waits = b->triggers = false;
    for (uint32_t i = 0; i < b->nwarp; i++) {
        struct sg_warp *w = &b->warp[i];
        uint32_t left = run->threads - i * SG_LANES;
        w->alive = left >= SG_LANES ? SG_ALL : (1u << left) - 1;
        for (uint32_t k = 0; k < c->nclear; k++)
            memset(w->base[0] + c->clear[k].at, 0, c->clear[k].bytes);
        for (unsigned l = 0; c->fp && l < SG_LANES; l++)
            SG_P(uint64_t, c->fp)[l] = c->local_bytes;
        sg_calls_reset(w);
        w->frag[0] = (struct sg_frag){.op = c->op, .mask = w->alive, .state = SG_F_RUN};
        w->nfrag = 1;
        w->issued = 0;
        w->waited = false;
        w->ready = 1;
        w->tick = w->stick = w->cc = 0;
        w->arrived = w->passed = 0;
        w->spin = false;
        w->stop = SG_GO;
    }
}

int sg_cluster_init(struct sg_worker *wk, struct sg_cluster *cl)
{
    const struct sg_run *run = wk->run;
    if (sg_block_bytes(run) * run->cluster_size > SG_MAX_RESIDENT_BYTES ||
        !(cl->block = dt_calloc(run->cluster_size, sizeof *cl->block)))
        return DT_E_NOMEM;
    cl->size = run->cluster_size;
    for (uint32_t i = 0; i < cl->size; i++) {
        cl->block[i].cl = cl;
        cl->block[i].rank = i;
        int r = block_init(wk, &cl->block[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

void sg_cluster_start(const struct sg_run *run, struct sg_cluster *cl, uint64_t place, uint64_t linear)
{
    for (uint32_t i = 0; i < cl->size; i++)
        block_start(&cl->block[i], cl->size == 1 ? linear : sg_cluster_block(run, linear, i));
    cl->place = place;
    cl->live = cl->size;
    cl->alive = cl->size * run->threads;
    cl->arrived = cl->next = cl->passes = cl->phase = 0;
    cl->index = linear;
    cl->relaxed = false;
}

static void deadlock(struct sg_block *b)
{
    for (uint32_t i = 0; i < b->nwarp; i++)
        for (uint32_t k = 0; k < b->warp[i].nfrag; k++) {
            const struct sg_frag *f = &b->warp[i].frag[k];
            unsigned lane = (unsigned)__builtin_ctz(f->mask);
            if (f->state == SG_F_BAR) {
                const struct sg_barrier *bar = &b->bar[f->bar];
                if (f->bar >= SG_BARRIERS) {
                    sg_fault_at(&b->warp[i], f->op - 1, DT_E_DEADLOCK, lane, 0, 0,
                                "waits for ever for its warpgroup, of which %u of 128 threads are here", bar->arrived);
                    return;
                }
                sg_fault_at(&b->warp[i], f->op - 1, DT_E_DEADLOCK, lane, 0, 0,
                            "waits for ever at barrier %u, where %u of %u threads are", f->bar, bar->arrived,
                            bar->expected ? bar->expected : b->alive);
            } else if (f->state == SG_F_CLUSTER) {
                sg_fault_at(&b->warp[i], f->op - 1, DT_E_DEADLOCK, lane, 0, 0,
                            "waits for ever at the cluster's barrier, where %u of %u threads are", b->cl->arrived,
                            b->cl->alive);
            } else {
                sg_fault_at(&b->warp[i], f->op, DT_E_DEADLOCK, lane, 0, 0,
                            "waits for ever for lanes of its member mask (lanes 0x%x are here)", f->mask);
            }
            return;
        }
}

/* One helping of fuel for each warp that can run. SG_YIELD, SG_DONE, SG_FAULT, or SG_BLOCKED: none can. */
static enum sg_stop block_turn(struct sg_block *b, int64_t fuel)
{
    bool ran = false;
    struct sg_worker *wk = b->wk;
    uint64_t seed = wk->run->l->seed, r = 0;
    /* Warps take turns as on an SM, or the L1 would see one after the other. Not where all blocks run: what a kernel
     * whose threads race leaves in memory must not depend on whether somebody looks. */
    if (b->follow && wk->run->l->some.block && !wk->run->code->costs->atomics && fuel > FOLLOWED)
        fuel = FOLLOWED;
    if (seed) {
        r = dt_splitmix64(seed, wk->rng++);
        b->next = (uint32_t)(r >> 32) % b->nwarp; /* another warp first, and each for another while */
    }
    for (uint32_t i = 0; i < b->nwarp; i++) {
        struct sg_warp *w = &b->warp[b->next];
        b->next = b->next + 1 == b->nwarp ? 0 : b->next + 1;
        if (!w->ready)
            continue;
        ran = true;
        w->fuel = seed ? 1 + fuel * (int64_t)(dt_splitmix64(r, i) % 256) / 128 : fuel;
        const struct sg_op *op = sg_pick(w);
        if (b->follow)
            sg_profile_run(w, op);
        else
            while (op)
                op = sg_step(w, op);
        if (w->stop == SG_FAULT || wk->fault)
            return SG_FAULT;
    }
    if (!b->alive)
        return SG_DONE;
    return ran ? SG_YIELD : SG_BLOCKED;
}

static void block_done(struct sg_worker *wk, struct sg_block *b)
{
    uint64_t longest = 0;
    struct sg_beside *beside = wk->run->l->beside;
    b->live = false;
    b->cl->live--;
    if (beside && !b->triggers)
        beside->let_go++;
    sg_record_block(b);
    if (b->follow)
        sg_profile_block_end(b);
    if (b->executed > wk->heaviest)
        wk->heaviest = b->executed;
    unsigned weight = 63u - (unsigned)__builtin_clzll(b->executed | 1);
    uint64_t *first = &wk->span[0][weight], *last = &wk->span[1][weight];
    *first = !wk->weight[0][weight] || b->linear < *first ? b->linear : *first;
    *last = b->linear > *last ? b->linear : *last;
    wk->weight[0][weight]++;
    wk->weight[1][weight] += b->executed;
    for (uint32_t i = 0; i < b->nwarp; i++)
        if (b->warp[i].issued > longest)
            longest = b->warp[i].issued;
    if (wk->talk)
        sg_talk_block_end(wk, longest);
    wk->longest += longest;
    wk->before_wait += b->waits ? b->waited : longest;
    wk->before_trigger += b->triggers ? b->triggered : longest;
}

enum sg_stop sg_cluster_turn(struct sg_worker *wk, struct sg_cluster *cl, int64_t fuel)
{
    bool ran = false;
    for (uint32_t i = 0; i < cl->size; i++) {
        struct sg_block *b = &cl->block[(cl->next + i) % cl->size];
        if (!b->live)
            continue;
        uint64_t before = wk->executed;
        enum sg_stop stop = block_turn(b, fuel);
        b->executed += wk->executed - before;
        ran |= stop != SG_BLOCKED;
        if (stop == SG_FAULT)
            return stop;
        if (stop == SG_DONE)
            block_done(wk, b);
    }
    if (!cl->live)
        return SG_DONE;
    for (uint32_t i = 0; i < cl->size && !ran; i++)
        if (cl->block[i].live) {
            deadlock(&cl->block[i]);
            return SG_FAULT;
        }
    return SG_YIELD;
}
