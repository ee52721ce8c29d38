/* Candidates: opening one from its launches (the facts of each body, the components of a pair), and freeing it.
 *
 * rw_cand_open takes any number of launches and reads each kernel. rw_cand_init does the same for a pair with a hazard,
 * and sorts its blocks into components. Both are cheap: nothing is compiled, and nothing is said about legality. A
 * launch without a kernel leaves members empty, and the predicates refuse it (plain_launches, block_map).
 */
#include "rewrite/emit/emit.h"

#include <string.h>

const char *rw_level_text(enum rw_level l)
{
    return l <= RW_LEVEL_PROLOGUE  ? "register"
           : l == RW_LEVEL_SHARED  ? "shared"
           : l == RW_LEVEL_CLUSTER ? "cluster"
                                   : "global";
}

int rw_cand_open(struct rw_cand *c, const struct dev_info *dev, const struct dev_prog *p, const struct ana_result *a,
                 const struct rw_options *o, const uint32_t *launch, uint32_t n, struct dt_err *e)
{
    static const struct rw_options defaults;
    memset(c, 0, sizeof *c);
    c->facts.dev = dev;
    c->facts.prog = p;
    c->facts.ana = a;
    c->facts.opt = o ? o : &defaults;
    c->facts.nbody = n;
    c->level = RW_LEVEL_GLOBAL;
    memcpy(c->facts.launch, launch, n * sizeof *launch);
    for (uint32_t s = 0; s < n; s++) {
        if (p->graph->launch[launch[s]].kind != DT_KERNEL)
            return 0; /* plain_launches refuses it */
        int r = rw_body_init(&c->arena, p, launch[s], NULL, &c->facts.body[s], e);
        if (r < 0)
            return r;
    }
    rw_abreast(c);
    return 0;
}

int rw_cand_init(struct rw_cand *c, const struct dev_info *dev, const struct dev_prog *p, const struct ana_result *a,
                 const struct rw_options *o, uint32_t producer, uint32_t consumer, struct dt_err *e)
{
    const uint32_t pair[2] = {producer, consumer};
    int r = rw_cand_open(c, dev, p, a, o, pair, 2, e);
    if (r < 0)
        return r;
    c->facts.edge = ana_find_edge(a, producer, consumer);
    if (!c->facts.edge)
        return dt_err_set(e, DT_E_INTERNAL, "launches %u and %u have no edge", producer, consumer);
    if (!c->facts.body[0].f || !c->facts.body[1].f || !ana_rows_kept(&c->facts.edge->any))
        return 0; /* plain_launches or block_map refuses it */
    r = rw_comps_build(&c->arena, &c->facts.edge->any, p->step[producer].blocks, p->step[consumer].blocks,
                       c->facts.body, &c->facts.comps, e);
    c->lists = c->facts.comps;
    rw_abreast(c);
    return r;
}

void rw_cand_done(struct rw_cand *c)
{
    dt_str_done(&c->made.ptx);
    dt_str_done(&c->no_redirect);
    for (uint32_t s = 0; s < c->facts.nbody; s++)
        ptx_module_free(c->facts.own[s]);
    dt_arena_done(&c->arena);
    memset(c, 0, sizeof *c);
}
