/* Which bytes of a buffer one launch touches, by its analysis: over all blocks, whatever the evidence; and whether what
 * it leaves there is anybody's in the end. */
#include "rewrite/facts/facts.h"

struct ana_set rw_launch_bytes(struct dt_arena *arena, const struct ana_result *r, uint32_t launch, uint32_t buffer,
                               bool writes)
{
    struct ana_set s = {0};
    for (uint32_t k = 0; k < r->launch[launch].naccess; k++) {
        const struct ana_access *x = &r->launch[launch].access[k];
        for (int ev = 0; x->buffer == buffer && ev < ANA_EVIDENCES; ev++)
            s = ana_set_union(arena, s, writes ? x->write_by[ev] : x->read_by[ev]);
    }
    return s;
}

bool rw_passing(const struct dt_buffer *b)
{
    return (b->role == DT_INTERMEDIATE || b->role == DT_SCRATCH) && b->module < 0;
}
