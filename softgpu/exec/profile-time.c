/* A followed block's clocks: a warp's from basic block to basic block, and all warps' where they meet.
 *
 *   clock          when the warp's basic block has begun; an instruction begins then, or when its operands are there
 *   last           when its last instruction has begun: the next basic block begins no earlier
 *   a short loop   is one basic block for `unroll` rounds; rounds that only look at memory again take nothing
 *   a barrier      ends when the last warp is there, and the SM has done what all of them asked of its pipes, its way
 *                  from the L2 and its stores since they met last
 *
 * Not here: what an instruction takes (profile.c, profile-memory.c).
 */
#include "softgpu/exec/profile-priv.h"

#include <string.h>

void sg_profile_close(struct warp_time *t)
{
    for (unsigned k = 0; k < CLOCKS; k++) {
        int64_t issued = t->clock[k] + t->slots;
        t->clock[k] = t->last[k] > issued ? t->last[k] : issued;
        t->clock[k] = t->branch[k] > t->clock[k] ? t->branch[k] : t->clock[k];
        t->last[k] = t->clock[k];
    }
    t->slots = t->rounds = 0;
    t->fixed = false;
}

void sg_profile_enter(const struct sg_costs *c, struct warp_time *t, uint32_t bb)
{
    t->same = t->bb == bb && (t->looks || t->same > SPIN) ? t->same + 1 : 0;
    t->looks = false;
    if (t->same > SPIN)
        return;
    if (t->bb == bb && !t->fixed && !c->rolled[bb] && ++t->rounds < c->k->unroll &&
        t->slots < c->k->short_loop * t->rounds) {
        memset(t->branch, 0, sizeof t->branch);
        return;
    }
    sg_profile_close(t);
    for (unsigned k = 0; k < CLOCKS && t->bb != UINT32_MAX && bb != t->bb + 1; k++)
        t->last[k] = t->clock[k] += c->k->taken;
    t->bb = bb;
}

void sg_profile_plain(struct sg_profiler *p, struct warp_time *t, const struct sg_code *code, uint32_t warp,
                      uint32_t from, uint32_t n)
{
    const struct sg_costs *costs = p->costs;
    const uint16_t *begin = costs->slots[from], *end = n < costs->plain[from] ? costs->slots[from + n] : NULL;
    for (unsigned i = 0; i < SG_PIPES; i++) {
        uint32_t slots = begin[i] - (end ? (uint32_t)end[i] : 0);
        p->sum.slots[i] += slots;
        t->slots += slots;
    }
    p->steps += n;
    int64_t *ready = sg_profile_ready(p, warp), last_near = t->last[NEAR], last_far = t->last[FAR];
    const uint32_t *regs = costs->reg.p;
    for (uint32_t k = from; k < from + n; k++) {
        if (!costs->first[k])
            continue;
        const struct sg_cost *c = &costs->inst[code->op[k].src];
        const uint32_t *reg = regs + c->reg;
        int64_t near = t->clock[NEAR], far = t->clock[FAR];
        for (unsigned i = 0; i < c->reads; i++) {
            const int64_t *r = ready + (size_t)reg[i] * CLOCKS;
            near = r[NEAR] > near ? r[NEAR] : near;
            far = r[FAR] > far ? r[FAR] : far;
        }
        for (unsigned i = 0; i < c->writes; i++) {
            int64_t *r = ready + (size_t)regs[c->dest + i] * CLOCKS;
            r[NEAR] = near + c->latency;
            r[FAR] = far + c->latency;
        }
        if (c->total) {
            last_near = near > last_near ? near : last_near;
            last_far = far > last_far ? far : last_far;
        }
    }
    t->last[NEAR] = last_near;
    t->last[FAR] = last_far;
}

static double pipe_clocks(uint64_t slots, double lanes) { return lanes > 0 ? (double)slots * SG_LANES / lanes : 0; }

int64_t sg_profile_asked(const struct sg_profiler *p, unsigned k)
{
    const struct sg_model *m = p->model;
    const struct sg_profile *now = &p->sum, *then = &p->met.sum;
    uint64_t slot[SG_PIPES], all = 0;
    for (unsigned i = 0; i < SG_PIPES; i++)
        all += slot[i] = now->slots[i] - then->slots[i];
    double sectors = 32 / m->k.l2_bytes_clock, read = (double)(now->l2_read - then->l2_read) * sectors,
           write = (double)(now->l2_write - then->l2_write) * sectors, at = (double)p->met.at[k];
    double c[] = {
        at + (double)all / m->k.issue_warps,
        at + pipe_clocks(slot[SG_PIPE_ALU], m->int_lanes),
        at + pipe_clocks(slot[SG_PIPE_IMAD], m->int_lanes),
        at + pipe_clocks(slot[SG_PIPE_FMA] + slot[SG_PIPE_IMAD], m->fp32_lanes),
        at + pipe_clocks(slot[SG_PIPE_XU], m->sfu_lanes),
        at + read + write,
        slot[SG_PIPE_FP64] ? (double)p->met.fp64[k] + pipe_clocks(slot[SG_PIPE_FP64], m->fp64_lanes) : 0,
        write > 0 && p->met.store[k] < INT64_MAX ? (double)p->met.store[k] + write : 0,
    };
    double last = 0;
    for (unsigned i = 0; i < sizeof c / sizeof c[0]; i++)
        last = c[i] > last ? c[i] : last;
    return (int64_t)last;
}

void sg_profile_met(struct sg_profiler *p)
{
    for (unsigned k = 0; k < CLOCKS; k++)
        p->met.fp64[k] = p->met.store[k] = INT64_MAX;
    p->met.sum = p->sum;
    p->met.fences = 0;
    p->met.first = 0;
    p->met.times++;
}

int64_t sg_profile_queued(const struct sg_profiler *p)
{
    double others = p->nwarp > 1 ? (double)p->met.first * (p->nwarp - 1) / p->nwarp : 0;
    return (int64_t)(others * 32 / p->model->k.l2_bytes_clock);
}

/* All warps of the block meet, when the last is there: not before the SM has done what they asked of it since they met
 * last. Fences of several warps come one after the other. */
static void meet_all(struct sg_profiler *p, int64_t at[CLOCKS])
{
    int64_t fences = p->met.fences ? (p->met.fences - 1) * p->costs->k->fence_warp : 0;
    for (unsigned k = 0; k < CLOCKS; k++) {
        int64_t done = sg_profile_asked(p, k), last = at[k] + fences + sg_profile_queued(p);
        at[k] = last > done ? last : done;
    }
    memcpy(p->met.at, at, sizeof p->met.at);
    p->sum.fences += (uint64_t)fences;
    sg_profile_met(p);
}

void sg_profile_arrive(struct sg_profiler *p, struct warp_time *t, uint32_t n)
{
    sg_profile_close(t);
    uint32_t g = ++t->generation[n];
    if (p->barrier[n][g & 1].generation != g) {
        p->barrier[n][g & 1].generation = g;
        p->barrier[n][g & 1].warps = 0;
        memset(p->barrier[n][g & 1].at, 0, sizeof p->barrier[n][g & 1].at);
    }
    for (unsigned k = 0; k < CLOCKS; k++)
        if (p->barrier[n][g & 1].at[k] < t->clock[k])
            p->barrier[n][g & 1].at[k] = t->clock[k];
    if (++p->barrier[n][g & 1].warps == p->nwarp)
        meet_all(p, p->barrier[n][g & 1].at);
    t->waits = n + 1;
    t->bb = UINT32_MAX;
}

void sg_profile_leave(struct sg_profiler *p, struct warp_time *t)
{
    uint32_t n = t->waits - 1, g = t->generation[n];
    for (unsigned k = 0; k < CLOCKS; k++) {
        t->clock[k] = p->barrier[n][g & 1].at[k] + p->costs->k->barrier;
        t->last[k] = t->clock[k];
    }
    t->waits = 0;
}
