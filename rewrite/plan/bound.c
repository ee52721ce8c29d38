/* What is left: the least time that the posted graph, and each launch, can take on the modelled device.
 *
 * Of the graph: what its launches surely read of inputs and weights before anything writes them, and what they surely
 * write to outputs, once; whatever goes from launch to launch could stay on the chip. Accesses at addresses, or under
 * guards, that depend on data count for nothing, as they may be fewer with other data. And the floating-point
 * arithmetic of all launches. Of a launch: the distinct bytes that it touches, and its own arithmetic. The rates are
 * the device's (softgpu/model/bound.c).
 *
 * No plan of the posted launches' blocks is faster, as long as it leaves nothing out: blocks that nobody reads (kind
 * dead-blocks) are in the bound, and a plan without them may be below it. On a real device nothing is said.
 */
#include "rewrite/plan/plan-priv.h"

#include <math.h>

static struct ana_set sure_reads(struct dt_arena *a, const struct ana_access *x)
{
    return ana_set_union(a, x->read_by[ANA_PROVED], x->read_by[ANA_OBSERVED]);
}

/* Bytes of the buffer that come from outside, and that leave. */
static uint64_t outside_bytes(const struct rw_state *s, uint32_t buffer)
{
    enum dt_role role = s->graph->buffer[buffer].role;
    bool in = role == DT_INPUT || role == DT_WEIGHT || role == DT_INOUT, out = role == DT_OUTPUT || role == DT_INOUT;
    struct dt_arena arena = {0};
    struct ana_set reads = {0}, writes = {0};
    bool written = false;
    for (uint32_t l = 0; (in || out) && l < s->graph->nlaunch; l++)
        for (uint32_t k = 0; k < s->ana->launch[l].naccess; k++) {
            const struct ana_access *x = &s->ana->launch[l].access[k];
            if (x->buffer != buffer)
                continue;
            if (in && x->reads && !written && !x->writes)
                reads = ana_set_union(&arena, reads, sure_reads(&arena, x));
            written |= x->writes;
            if (out)
                writes = ana_set_union(&arena, writes, x->must);
        }
    uint64_t bytes = ana_set_bytes(reads) + ana_set_bytes(writes);
    dt_arena_done(&arena);
    return bytes;
}

static bool rounded(json_t *list, double us)
{
    return json_array_append_new(list, json_real(floor(us * 1000) / 1000)) == 0;
}

json_t *rw_bounds_json(struct rw_planner *p, const struct rw_state *s, struct dt_err *e)
{
    json_t *list = json_array();
    bool ok = list;
    for (uint32_t k = 0; ok && k < s->graph->nlaunch; k++) {
        double us = 0;
        if (dev_bound(p->dev, s->prog, s->cost, k, 1, -1, &us, e) < 0) {
            json_decref(list);
            return NULL;
        }
        ok = rounded(list, us);
    }
    if (!ok) {
        json_decref(list);
        dt_err_set(e, DT_E_NOMEM, "out of memory");
        return NULL;
    }
    return list;
}

int rw_bound(struct rw_planner *p, const struct rw_state *s, double *ret_us, struct dt_err *e)
{
    double bytes = 0;
    for (uint32_t b = 0; b < s->graph->nbuffer; b++)
        bytes += (double)outside_bytes(s, b);
    return dev_bound(p->dev, s->prog, s->cost, 0, s->graph->nlaunch, bytes, ret_us, e);
}
