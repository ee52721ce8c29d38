/* Versions: intermediates that are overwritten before they are read again get buffers of their own.
 *
 *   before  a → pool, b reads pool, c → pool (the same bytes), d reads pool
 *   after   a → v0, b reads v0, c → v1, d reads v1
 *
 * No candidate of the search: it concerns the whole graph, kernels stay as they are, and by itself it gains nothing. It
 * is done once, before the search, and undone where nothing was gained from it. normal/versions.c finds the versions,
 * normal/layout.c lets what is left of them share storage again in the end, and plan/normal.c makes states of both.
 * Here is its row in the registry, so that policies and documents know the kind.
 *
 * Legal: every byte that is read was written, for certain, after the version began (docs/LEGALITY.md, Versions).
 * What could break it: a pointer that reaches bytes of a neighbour's version. The graph with versions is analysed for
 * itself, and each block has to touch just the bytes that it touched before.
 */
#include "rewrite/kinds/kinds-priv.h"

static int versions_propose(const struct rw_state *now, const struct rw_options *o, struct rw_proposals *ret,
                            struct dt_err *e)
{
    (void)now, (void)o, (void)ret, (void)e;
    return 0;
}

const struct rw_rewrite rw_versions = {
    .name = "versions",
    .needs = "an intermediate's bytes are written again, for certain, before they are read again",
    .keeps = "each value has bytes of its own; kernels stay as they are",
    .on = true,
    .same_code = true,
    .propose = versions_propose,
};
