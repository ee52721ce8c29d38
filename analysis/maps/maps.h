/* Edges between launches, from their footprints: the last step of ana_run(). */
#ifndef DT_ANALYSIS_MAPS_H
#define DT_ANALYSIS_MAPS_H

#include "analysis/analysis.h"

/* Another result that has most of the launches: same[i] is the launch of `of` that launch i is, UINT32_MAX: none. */
struct ana_base {
    const struct ana_result *of;
    uint32_t nlaunch; /* that it has */
    const uint32_t *same;
};
/* The edges between r->launch[0..nlaunch), whose footprints are known, into r->edge. all_edges: also pairs of launches
 * without a hazard. base: NULL, or a result whose edges are taken over where nothing between has changed; r points into
 * it then. */
int ana_maps(struct ana_result *r, uint32_t nlaunch, uint32_t nbuffer, bool all_edges, const struct ana_base *base,
             struct dt_err *e);

#endif
