/* Edges between launches, from their footprints. */
#ifndef DT_ANALYSIS_MAPS_H
#define DT_ANALYSIS_MAPS_H

#include "analysis/analysis.h"

/* Edges of r->launch[0..nlaunch) into r->edge. */
int ana_maps(struct ana_result *r, uint32_t nlaunch, uint32_t nbuffer, bool all_edges, struct dt_err *e);

#endif
