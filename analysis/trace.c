/* Every access of a launch, thread by thread: the records that a summary is made of, handed out before they become
 * bytes.
 *
 * A footprint says which bytes a block touches, not which thread touches which, nor how often. A rewrite that
 * recomputes thread numbers from addresses, or that must know that a byte is stored once, needs that. The launch is
 * walked again by summary.c, in the same boxes, and each box's records are given out when the box is done, its extent
 * final. Only the launch asked for is looked at: all others count as known.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/record-priv.h"
#include "analysis/summary-priv.h"

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

static int trace(struct ana_rec *s, uint32_t launch, ana_trace_fn fn, void *user, const char **ret_why)
{
    s->mod = dt_new_array(&s->tmp, struct ana_mod, (size_t)s->g->nmodule + 1);
    s->of = dt_new_array(&s->tmp, uint32_t, (size_t)s->g->nlaunch + 1);
    s->bytes = dt_new_array(&s->tmp, uint64_t, (size_t)s->g->nbuffer + 1);
    s->summed = dt_new_array(&s->tmp, bool, (size_t)s->g->nlaunch + 1);
    if (s->tmp.failed)
        return DT_E_NOMEM;
    for (uint32_t b = 0; b < s->g->nbuffer; b++)
        s->bytes[b] = s->g->buffer[b].bytes;
    int rc = ana_plan_variants(s);
    const struct ana_code *c = rc ? NULL : &s->variant.p[s->of[launch]].code;
    *ret_why = "its addresses or guards depend on data";
    /* places are those of the program's entry only if the clone has the same instructions */
    if (!rc && (!c->sliced || c->ninst != s->p->step[launch].entry->ninst))
        return 0;
    return rc ? rc : ana_trace_offline(s, launch, fn, user, ret_why);
}

int ana_trace_launch(const struct dev_prog *p, uint32_t launch, ana_trace_fn fn, void *user, const char **ret_why,
                     struct dt_err *e)
{
    struct ana_result none = {.prog = p};
    struct ana_options o = {.base = &none};
    struct ana_rec s = {.p = p, .g = p->graph, .o = &o, .r = &none, .e = e};
    uint32_t *same = dt_calloc((size_t)p->graph->nlaunch + 1, sizeof *same);
    *ret_why = "it is no kernel";
    int rc = same ? 0 : DT_E_NOMEM;
    if (!rc && p->graph->launch[launch].kind == DT_KERNEL) {
        same[launch] = UINT32_MAX;
        o.same = same;
        rc = trace(&s, launch, fn, user, ret_why);
    }
    for (uint32_t i = 0; i < s.variant.n; i++)
        ana_code_done(&s.variant.p[i].code);
    free(s.variant.p);
    dt_arena_done(&s.tmp);
    dt_arena_done(&none.arena);
    free(same);
    return rc < 0 ? dt_err_set(e, rc, "no memory to trace launch %s", p->graph->launch[launch].name) : rc;
}
