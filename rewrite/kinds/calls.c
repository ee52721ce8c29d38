/* Calls: device functions that were not inlined are written out where they are called.
 *
 *   before  a: … call (retval0), erf_scaled, (param0); …
 *   after   a: … the text of erf_scaled …, arguments and results hidden from the assembler
 *
 * No candidate of the search: by itself it gains next to nothing, but what is joined, inlined and mapped afterwards
 * sees a kernel without calls. It is done once, before the search, for all launches of which it is legal, and undone
 * where nothing was gained from it. normal/calls.c has conditions and graph, normal/callee.c the text, plan/normal.c
 * makes a state of it. Here is its row in the registry, so that policies and documents know the kind.
 *
 * Legal: each place of a call has a text of its own, registers stand for the bytes of parameters, and no thread needs
 * to meet others in a function (docs/LEGALITY.md, Calls).
 * What could break it: arithmetic that the assembler combines across what was a call. Joints prevent that, and machine
 * code is compared, functions with it.
 */
#include "rewrite/kinds/kinds-priv.h"

static int calls_propose(const struct rw_state *now, const struct rw_options *o, struct rw_proposals *ret,
                         struct dt_err *e)
{
    (void)now, (void)o, (void)ret, (void)e;
    return 0;
}

const struct rw_rewrite rw_calls = {
    .name = "calls",
    .needs = "a kernel calls functions that are known, never lead back to themselves and let no threads meet",
    .keeps = "each call has the function's text in its place, with registers and local memory of its own",
    .on = true,
    .propose = calls_propose,
};
