/* A candidate from its launches to its end: facts of each body, the components of a pair, and what must be freed.
 *
 * rw_cand_open takes any number of launches and reads each kernel. rw_cand_init is the same for a pair with a hazard,
 * whose blocks it sorts into components. Both are cheap: nothing is compiled, and nothing is said about legality. What
 * a launch without a kernel leaves empty, the predicates refuse (plain_launches, block_map).
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
    c->dev = dev;
    c->prog = p;
    c->ana = a;
    c->opt = o ? o : &defaults;
    c->nbody = n;
    c->level = RW_LEVEL_GLOBAL;
    memcpy(c->launch, launch, n * sizeof *launch);
    for (uint32_t s = 0; s < n; s++) {
        if (p->graph->launch[launch[s]].kind != DT_KERNEL)
            return 0; /* plain_launches refuses it */
        int r = rw_body_init(&c->arena, p, launch[s], NULL, &c->body[s], e);
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
    c->edge = ana_find_edge(a, producer, consumer);
    if (!c->edge)
        return dt_err_set(e, DT_E_INTERNAL, "launches %u and %u have no edge", producer, consumer);
    if (!c->body[0].f || !c->body[1].f || !ana_rows_kept(&c->edge->any))
        return 0; /* plain_launches or block_map refuses it */
    r = rw_comps_build(&c->arena, &c->edge->any, p->step[producer].blocks, p->step[consumer].blocks, c->body, &c->comps,
                       e);
    rw_abreast(c);
    return r;
}

void rw_cand_done(struct rw_cand *c)
{
    dt_str_done(&c->ptx);
    dt_str_done(&c->no_redirect);
    for (uint32_t s = 0; s < c->nbody; s++)
        ptx_module_free(c->own[s]);
    dt_arena_done(&c->arena);
    memset(c, 0, sizeof *c);
}
