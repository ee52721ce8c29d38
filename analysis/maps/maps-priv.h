/* What maps.c, relation.c and classify.c share: hazards between two launches, and what is counted of them. */
#ifndef DT_ANALYSIS_MAPS_PRIV_H
#define DT_ANALYSIS_MAPS_PRIV_H

#include "analysis/footprint/footprint.h"
#include "analysis/maps/maps.h"

struct ana_link { /* one buffer's part of a hazard between two launches: sets of the two sides that share a live byte */
    const struct ana_strips *p, *c;
    struct ana_link_pair {
        uint32_t c, p; /* sets */
    } * pair;          /* ascending, distinct */
    uint32_t npair;
};
struct ana_degree { /* of one relation */
    uint64_t pairs;
    uint32_t components, consumers, producers; /* blocks that have a pair */
    uint32_t ppc_min, ppc_max, cpp_min, cpp_max;
};
/* Pairs of blocks from links. rows may be NULL. Rows in `a`. */
int ana_relation(struct dt_arena *a, const struct ana_link *link, uint32_t nlink, uint32_t nconsumer,
                 uint32_t nproducer, struct ana_rows *rows, struct ana_degree *ret, struct dt_err *e);
void ana_classify(struct ana_edge *edge, const struct ana_degree *raw, uint32_t nconsumer);

#endif
