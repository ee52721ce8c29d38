/* The trace of one launch: every access, thread by thread.
 *
 * A footprint says which bytes a block touches, not which thread touches which, nor how often. A rewrite that
 * recomputes thread numbers from addresses, or that must know that a byte is stored once, needs that. The launch is
 * walked again (summary/), box by box, and the accesses of each box are handed out when the box is done, its extent
 * final (summary/trace.c). Only the launch asked for is looked at: all others count as known.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/record/record-priv.h"
#include "base/subject.h"

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
    return rc < 0 ? dt_err_set(e, rc, "no memory to trace launch " DT_LAUNCH_BARE, p->graph->launch[launch].name) : rc;
}
