/* Copies: who reads what a launch only copied reads it where it came from.
 *
 *   before  a: h = g     b reads h
 *   after   a: h = g     b reads g     and a, which nobody reads any more, is left out by dead-blocks
 *
 * No candidate of the search: only pointers change. It is done once, before the search and after versions, and undone
 * where nothing was gained from it. normal/copies.c has conditions and pointers, plan/normal.c makes a state of it.
 * Here is its row in the registry, so that policies and documents know the kind.
 *
 * Legal: the launch only moves, and nobody writes source or copy until they are read (docs/LEGALITY.md, Copies).
 * What could break it: a reader that reads beside what was copied; the maps say what it reads, for any data.
 */
#include "rewrite/kinds/kinds-priv.h"

static int copies_propose(const struct rw_state *now, const struct rw_options *o, struct rw_proposals *ret,
                          struct dt_err *e)
{
    (void)now, (void)o, (void)ret, (void)e;
    return 0;
}

const struct rw_rewrite rw_copies = {
    .name = "copies",
    .needs = "a launch only moves bytes, all of whose readers find them in the same state where they came from",
    .keeps = "readers have other pointers; kernels stay as they are",
    .on = true,
    .same_code = true,
    .propose = copies_propose,
};
