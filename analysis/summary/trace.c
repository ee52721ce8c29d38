/* The records of a box as its trace: every access, thread by thread, handed out before shape.c makes bytes of them.
 *
 * A record has an address for each of its lanes, the steps by which it moves with blocks and rounds, and how many
 * rounds there are; a struct ana_trace is the same with what the site says (instruction, width, kind, evidence) and
 * with memory as buffers of the graph.
 */
#include <string.h>

#include "analysis/summary/summary-priv.h"

static enum ana_evidence worst(const struct ana_sum *s, uint32_t site)
{
    const struct ana_site *x = &s->code->sites.site[site];
    return x->address > x->guard ? x->address : x->guard;
}

int ana_trace_give(struct ana_sum *s)
{
    struct ana_trace *v = dt_new_array(&s->rec_arena, struct ana_trace, s->rec.n + 1);
    struct ana_trace_box b = {.access = v, .n = (uint32_t)s->rec.n};
    memcpy(b.lo, s->lo, sizeof b.lo);
    memcpy(b.ext, s->ext, sizeof b.ext);
    memcpy(b.stride, s->stride, sizeof b.stride);
    for (size_t i = 0; v && i < s->rec.n; i++) {
        const struct ana_access_rec *r = &s->rec.p[i];
        const struct ana_site *x = &s->code->sites.site[r->site];
        uint32_t *buffer = dt_new_array(&s->rec_arena, uint32_t, r->n);
        if (!buffer)
            return DT_E_NOMEM;
        v[i] = (struct ana_trace){.inst = x->inst,
                                  .bytes = x->bytes,
                                  .reads = x->reads,
                                  .writes = x->writes,
                                  .atomic = x->atomic,
                                  .evidence = worst(s, r->site),
                                  .n = r->n,
                                  .thread = r->lane,
                                  .buffer = buffer,
                                  .base = r->base,
                                  .times = r->times,
                                  .loop = r->loop,
                                  .round = r->loop == UINT32_MAX ? NULL : r->round,
                                  .by = r->dims >> ANA_BLOCK_DIMS & 1 ? r->step[ANA_BLOCK_DIMS] : NULL};
        for (uint32_t k = 0; k < r->n; k++)
            buffer[k] = s->in->mem[r->mem[k]].buffer;
        for (unsigned d = 0; d < ANA_DIMS; d++)
            if (!(r->dims >> d & 1))
                continue;
            else if (d < ANA_BLOCK_DIMS)
                v[i].step[d] = r->step[d];
            else
                v[i].moves = true;
    }
    return v ? s->in->trace(&b, s->in->trace_user) : DT_E_NOMEM;
}
