/* Inside analysis/report: block maps as pictures (picture.c). */
#ifndef DT_ANALYSIS_PICTURE_H
#define DT_ANALYSIS_PICTURE_H

#include <jansson.h>

#include "analysis/analysis.h"

/* `pictures` of the document, and `picture` of each of its edges, which are those of r in their order. DT_E_NOMEM. */
int ana_pictures(const struct ana_result *r, json_t *edges, json_t **ret);

#endif
