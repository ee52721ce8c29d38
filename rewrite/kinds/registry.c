/* The list of rewrites, in the order in which they are tried, and which of them a policy allows.
 *
 * To add one: its file with a `struct rw_rewrite`, a line here, its predicates in legal.def, graphs in tests/diff/.
 */
#include "rewrite/kinds/kinds.h"

#include <string.h>

const struct rw_rewrite *const rw_registry[] = {
    &rw_calls,
    &rw_versions,
    &rw_copies,        /* these three before the search: plan/normal.c */
    &rw_roles,         /* what others merged; kept, if at all, by plan/roles.c */
    &rw_dead_blocks,   /* what is not computed need not be fused */
    &rw_narrow_blocks, /* narrower blocks have smaller components */
    &rw_tails,         /* the last wave's blocks alone; `slice` is asked, too */
    &rw_slice,         /* blocks enough for the device, then fewer launches */
    &rw_block_fusion,
    &rw_recompute,
    &rw_parallel_fusion,
    &rw_dataflow_fusion, /* off unless allowed; what it made is not touched any more */
    &rw_pack,            /* small blocks that are still there */
    &rw_split,
    &rw_cluster_fusion,
    &rw_prefetch,
    &rw_programmatic, /* last: what it made is not fused any more */
};
const unsigned rw_nregistry = sizeof rw_registry / sizeof rw_registry[0];

const struct rw_rewrite *rw_find_rewrite(const char *name)
{
    for (unsigned k = 0; k < rw_nregistry; k++)
        if (!strcmp(rw_registry[k]->name, name))
            return rw_registry[k];
    return NULL;
}

uint32_t rw_rewrite_bit(const struct rw_rewrite *r)
{
    for (unsigned k = 0; k < rw_nregistry; k++)
        if (rw_registry[k] == r)
            return UINT32_C(1) << k;
    return 0;
}

/* deny wins; allow adds what is off by default (and knows words that are no kind, as reorder-atomics). */
bool rw_kind_allowed(const struct rw_options *o, const struct rw_rewrite *r)
{
    for (unsigned k = 0; k < o->ndeny; k++)
        if (!strcmp(o->deny[k], r->name))
            return false;
    for (unsigned k = 0; k < o->nallow; k++)
        if (!strcmp(o->allow[k], r->name))
            return true;
    return r->on;
}
