/* The order in which a plan's launches run: what each follows, by its stream and by `after`; and all orders that are
 * allowed.
 *
 *   A launch follows the launch before it on its stream, and every launch that its `after` names. Nothing else.
 *   ordinary      the launch starts when the other has ended
 *   programmatic  from the launch before it on its stream, both kernels: the launch may start when the other's blocks
 *                 have triggered, and only griddepcontrol.wait waits for the other's end. Naming that launch in `after`
 *                 too adds nothing.
 *
 * Every edge goes to an earlier launch, so there are no cycles (graph/launch.c refuses other names). The CUDA graph
 * (time.c), the streams (run.c), the modelled timeline and the static check of a plan's order (rw_waits_check) all take
 * their edges from here.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "device/device.h"

void dev_order_done(struct dev_order *o)
{
    free(o->at);
    free(o->after);
    free(o->early);
    memset(o, 0, sizeof *o);
}

static void order_add(struct dev_order *o, uint32_t from, uint32_t *n, uint32_t j, bool early)
{
    for (uint32_t k = from; k < *n; k++)
        if (o->after[k] == j)
            return;
    o->early[*n] = early;
    o->after[(*n)++] = j;
}

int dev_order_new(const struct dt_graph *g, struct dev_order *ret)
{
    struct dev_order o = {0};
    uint32_t n = 0, streams = 0;
    for (uint32_t i = 0; i < g->nlaunch; i++) {
        n += 1 + g->launch[i].nafter;
        streams = g->launch[i].stream >= streams ? g->launch[i].stream + 1 : streams;
    }
    dt_free_ uint32_t *last = dt_calloc(streams + 1, sizeof *last); /* launch + 1 */
    o.at = dt_calloc((size_t)g->nlaunch + 1, sizeof *o.at);
    o.after = dt_calloc((size_t)n + 1, sizeof *o.after);
    o.early = dt_calloc((size_t)n + 1, 1);
    if (!last || !o.at || !o.after || !o.early) {
        dev_order_done(&o);
        return DT_E_NOMEM;
    }
    n = 0;
    for (uint32_t i = 0; i < g->nlaunch; i++) {
        const struct dt_launch *l = &g->launch[i];
        uint32_t before = last[l->stream];
        o.at[i] = n;
        if (before)
            order_add(&o, o.at[i], &n, before - 1,
                      l->programmatic && l->kind == DT_KERNEL && g->launch[before - 1].kind == DT_KERNEL);
        for (uint32_t k = 0; k < l->nafter; k++)
            order_add(&o, o.at[i], &n, l->after_at[k], false);
        last[l->stream] = i + 1;
    }
    o.at[g->nlaunch] = n;
    *ret = o;
    return 0;
}

int dev_order_shuffle(const struct dt_graph *g, const struct dev_order *o, uint64_t seed, uint32_t *out)
{
    uint32_t n = g->nlaunch, nready = 0, done = 0;
    dt_free_ uint32_t *open = dt_calloc((size_t)n + 1, sizeof *open), *ready = dt_calloc((size_t)n + 1, sizeof *ready);
    dt_free_ uint32_t *at = dt_calloc((size_t)n + 2, sizeof *at), *to = dt_calloc((size_t)o->at[n] + 1, sizeof *to);
    if (!open || !ready || !at || !to)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < o->at[n]; k++)
        at[o->after[k] + 2]++;
    for (uint32_t i = 2; i < n + 2; i++)
        at[i] += at[i - 1];
    for (uint32_t i = 0; i < n; i++) {
        open[i] = o->at[i + 1] - o->at[i];
        if (!open[i])
            ready[nready++] = i;
        for (uint32_t k = o->at[i]; k < o->at[i + 1]; k++)
            to[at[o->after[k] + 1]++] = i;
    }
    while (nready) {
        uint32_t pick = seed ? (uint32_t)(dt_splitmix64(seed, done) % nready) : 0;
        for (uint32_t k = 1; !seed && k < nready; k++)
            pick = ready[k] < ready[pick] ? k : pick;
        uint32_t i = ready[pick];
        ready[pick] = ready[--nready];
        out[done++] = i;
        for (uint32_t k = at[i]; k < at[i + 1]; k++)
            if (--open[to[k]] == 0)
                ready[nready++] = to[k];
    }
    return 0;
}
