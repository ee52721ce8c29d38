/* Memory that a plan needs beside what was posted: its scratch buffers. They are versions of intermediates that found
 * no room among the posted bytes when storage was shared again (normal.c), and counters of dataflow fusion. The plan
 * says how much it is (`assumes.memory`), and an option bounds it:
 *
 *   a candidate whose own scratch buffers, with those that other kept rewrites have, are too many is refused
 *   a plan whose versions do not fit is made anew without versions, as if nothing was gained from them
 *
 * What a module brings along (code, tables of block numbers) does not count.
 */
#include "rewrite/plan/plan-priv.h"

#include <string.h>

#include "base/subject.h"

static bool is_version(const struct rw_planner *p, const char *name)
{
    for (uint32_t k = 0; k < p->versions.n; k++)
        if (!strcmp(p->versions.version[k].name, name))
            return true;
    return false;
}

/* Bytes of the scratch buffers, of versions too if `all`. */
static uint64_t scratch_bytes(const struct rw_planner *p, const struct dt_graph *g, bool all)
{
    uint64_t bytes = 0;
    for (uint32_t b = 0; b < g->nbuffer; b++)
        if (g->buffer[b].role == DT_SCRATCH && (all || !is_version(p, g->buffer[b].name)))
            bytes += g->buffer[b].bytes;
    return bytes;
}

json_t *rw_memory_json(const struct rw_planner *p)
{
    struct dt_graph *first = p->state.p[0].graph;
    struct dt_canon canon;
    uint64_t posted = 0;
    if (dt_graph_canon(first, &canon) < 0)
        return NULL;
    for (uint32_t b = 0; b < first->nbuffer; b++) /* one that no launch uses is no part of what a plan is kept for */
        if (canon.buffer[b] != DT_NAME_NONE)
            posted += first->buffer[b].bytes;
    return json_pack("{s:I,s:I}", "posted", (json_int_t)posted, "more",
                     (json_int_t)scratch_bytes(p, p->state.p[p->state.n - 1].graph, true));
}

bool rw_memory_allows(const struct rw_planner *p, const struct rw_edit *x, struct dt_str *why)
{
    uint64_t own = 0, others = scratch_bytes(p, x->now->graph, false);
    for (size_t k = 0; k < x->scratch.n; k++)
        own += x->scratch.p[k].bytes;
    if (!own || !p->opt->memory || own + others < p->opt->memory)
        return true;
    dt_str_addf(why, DT_ROW("memory") ": it needs %llu bytes beside what was posted, and %llu are allowed",
                (unsigned long long)(own + others), (unsigned long long)(p->opt->memory - 1));
    return false;
}

bool rw_memory_fits(struct rw_planner *p)
{
    uint64_t bytes = scratch_bytes(p, p->state.p[p->state.n - 1].graph, true);
    if (!p->opt->memory || bytes < p->opt->memory || !rw_is_apart(p))
        return true;
    p->as_posted = p->again = true;
    dt_str_done(&p->no_versions);
    dt_str_addf(&p->no_versions,
                DT_ROW("memory") ": the plan needs %llu bytes beside what was posted, and %llu are allowed",
                (unsigned long long)bytes, (unsigned long long)(p->opt->memory - 1));
    return false;
}
