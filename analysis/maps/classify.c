/* Classes and fan of an edge (docs/CONTRACT.md §3), from the degrees of its raw pairs.
 *
 *   one-to-one            every consumer block has exactly one producer block, each producer block feeds at most one
 *   many-to-many          any other raw relation
 *   full-independence     no raw pair; stands alone (war and waw may still order the launches: `hazards` says so)
 *   partial-independence  beside the first two: some consumer block has no raw pair, or the consumer reads bytes
 *                         that neither the producer nor a launch between writes
 * The fan looks only at blocks that have a raw pair.
 */
#include "analysis/maps/maps-priv.h"

void ana_classify(struct ana_edge *edge, const struct ana_degree *raw, uint32_t nconsumer)
{
    bool one_p = raw->ppc_max == 1, one_c = raw->cpp_max == 1;
    edge->independent_blocks = nconsumer - raw->consumers;
    if (!raw->pairs) {
        edge->fan = ANA_FAN_NONE;
        edge->classes = ANA_FULL_INDEPENDENCE;
        return;
    }
    edge->fan = one_p   ? one_c ? ANA_FAN_ONE_TO_ONE : ANA_FAN_ONE_TO_MANY
                : one_c ? ANA_FAN_MANY_TO_ONE
                        : ANA_FAN_MANY_TO_MANY;
    edge->classes = one_p && one_c && raw->consumers == nconsumer ? ANA_ONE_TO_ONE : ANA_MANY_TO_MANY;
    if (edge->independent_blocks || edge->nindependent)
        edge->classes |= ANA_PARTIAL_INDEPENDENCE;
}
