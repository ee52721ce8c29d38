/* Edges between launches, from their footprints: the last step of ana_run(). */
#ifndef DT_ANALYSIS_MAPS_H
#define DT_ANALYSIS_MAPS_H

#include "analysis/analysis.h"

/* The edges between r->launch[0..nlaunch), whose footprints are known, into r->edge. all_edges: also pairs of launches
 * without a hazard. */
int ana_maps(struct ana_result *r, uint32_t nlaunch, uint32_t nbuffer, bool all_edges, struct dt_err *e);

#endif
