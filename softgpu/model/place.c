/* Which blocks run on which SM.
 *
 * Blocks are placed on the least loaded SM that has threads, registers, shared memory and a slot for them; kernels that
 * may run together are placed in program order, a later one only when the earlier ones have no block left to place (as
 * hardware does). Equal blocks that start together on one SM are one group. The blocks of a cluster start together, on
 * the emptiest SMs of the emptiest GPC that has room for all of them.
 */
#include "softgpu/model/timing-priv.h"

#include <stdlib.h>

#include "base/alloc.h"

static bool place_fits(const struct sg_sim *s, const struct sg_sim_sm *p, const struct sg_sim_kern *k)
{
    const struct sg_model *m = s->m;
    return p->blocks < m->max_blocks_sm && (p->warps + k->warps) * 32 <= m->max_threads_sm &&
           p->regs + k->regs <= m->regs_sm && p->shared + k->shared <= m->shared_sm;
}

static int add_group(struct sg_sim *s, uint32_t sm, uint32_t kern, uint32_t count, double length)
{
    uint32_t g = s->free_group;
    if (g != SG_NO_INDEX) {
        s->free_group = s->group.p[g].next;
    } else {
        g = (uint32_t)s->group.n;
        if (!dt_push(&s->group, (struct sg_sim_group){0}))
            return DT_E_NOMEM;
    }
    struct sg_sim_kern *k = &s->kern.p[kern];
    s->group.p[g] = (struct sg_sim_group){
        sm, kern, count, s->sm[sm].first, length, 0, length, true, k->each ? k->next++ : 0, 0, 0, 0, s->now};
    s->sm[sm].first = g;
    s->ngroup++;
    return 0;
}

/* One more block of the kernel on SM i: a group of its own where it is the heaviest, else given[i] counts it, light
 * ones given[sms + i]. */
static int put_block(struct sg_sim *s, uint32_t ki, uint32_t i, uint32_t *given)
{
    struct sg_sim_kern *k = &s->kern.p[ki];
    struct sg_sim_sm *p = &s->sm[i];
    p->blocks++, p->warps += k->warps, p->regs += k->regs, p->shared += k->shared;
    bool light = k->to_place-- <= k->nlight;
    if (k->each)
        return add_group(s, i, ki, 1, k->talk->share[k->next]);
    if (light || k->heavy_placed || k->heavy <= k->length) {
        given[light ? s->m->sms + i : i]++;
        return 0;
    }
    k->heavy_placed = true;
    return add_group(s, i, ki, 1, k->heavy);
}

/* How many more blocks of the kernel fit the SM. */
static uint32_t place_room(const struct sg_sim *s, const struct sg_sim_sm *p, const struct sg_sim_kern *k)
{
    struct sg_sim_sm q = *p;
    uint32_t n = 0;
    for (; place_fits(s, &q, k); n++)
        q.blocks++, q.warps += k->warps, q.regs += k->regs, q.shared += k->shared;
    return n;
}

/* Whole clusters, each to the emptiest of the GPCs that have room for it, there to the emptiest SMs. */
static int place_clusters(struct sg_sim *s, uint32_t ki, uint32_t *given)
{
    struct sg_sim_kern *k = &s->kern.p[ki];
    int r = 0;
    while (k->to_place && !r) {
        unsigned best = SG_NO_INDEX, first = 0, n = 0;
        double load = 0;
        for (unsigned g = 0; g < SG_GPCS; g++) {
            unsigned f, m = sg_gpc(s->m, g, &f);
            uint64_t free = 0, blocks = 0;
            for (unsigned i = f; i < f + m; i++)
                free += place_room(s, &s->sm[i], k), blocks += s->sm[i].blocks;
            if (free >= k->cluster && (best == SG_NO_INDEX || (double)blocks / m < load))
                best = g, first = f, n = m, load = (double)blocks / m;
        }
        if (best == SG_NO_INDEX)
            break;
        for (uint32_t b = 0; b < k->cluster && !r; b++) {
            uint32_t at = SG_NO_INDEX;
            for (uint32_t i = first; i < first + n; i++)
                if (place_fits(s, &s->sm[i], k) && (at == SG_NO_INDEX || s->sm[i].blocks < s->sm[at].blocks))
                    at = i;
            r = put_block(s, ki, at, given);
        }
    }
    return r;
}

/* To the emptiest SMs first, level by level: those with the fewest blocks get one each, in order, then those with one
 * more. Levels at which no SM has room are passed over. */
static int place_blocks(struct sg_sim *s, uint32_t ki, uint32_t *given)
{
    struct sg_sim_kern *k = &s->kern.p[ki];
    uint32_t level = 0, next, sms = s->m->sms;
    for (int r; k->to_place; level = next) {
        next = SG_NO_INDEX;
        for (uint32_t i = 0; i < sms && k->to_place; i++) {
            const struct sg_sim_sm *p = &s->sm[i];
            if (p->blocks < level || p->blocks >= next || !place_fits(s, p, k))
                continue;
            if (p->blocks == level) {
                if ((r = put_block(s, ki, i, given)) < 0)
                    return r;
                next = level + 1; /* it may have room for one more */
            } else {
                next = p->blocks;
            }
        }
        if (next == SG_NO_INDEX)
            break;
    }
    return 0;
}

int sg_sim_place(struct sg_sim *s)
{
    for (uint32_t ki = 0; ki < s->kern.n; ki++) {
        struct sg_sim_kern *k = &s->kern.p[ki];
        if (!k->to_place)
            continue;
        if (k->open_us > s->now)
            break;
        uint32_t sms = s->m->sms, *given = dt_calloc(2 * (size_t)sms, sizeof *given);
        if (!given)
            return DT_E_NOMEM;
        int r = k->cluster > 1 ? place_clusters(s, ki, given) : place_blocks(s, ki, given);
        for (uint32_t i = 0; i < 2 * sms && !r; i++)
            if (given[i])
                r = add_group(s, i % sms, ki, given[i], i < sms ? k->length : k->light);
        free(given);
        if (r < 0)
            return r;
        if (k->to_place)
            break;
    }
    return 0;
}
