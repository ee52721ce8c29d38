/* A plan as something to look at: one HTML file, and a trace for Perfetto.
 *
 * Both are made of documents alone (docs/CONTRACT.md §3 and §4): no device, no PTX parser, no cache. Documents may be
 * anybody's, so every member may be missing, of another type, or hostile text; what comes out is well-formed in any
 * case, and loads or runs nothing.
 */
#ifndef DT_REPORT_H
#define DT_REPORT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"

struct rep_source {
    const json_t *plan;
    const json_t *analysis; /* of the same graph, in the same names; NULL: there is none, and no_maps may say why */
    const char *no_maps;
    /* the kernels' text may be another user's, of whose names nothing may be seen: names in it become neutral ones,
     * comments go, and entries are not named */
    bool foreign;
};
/* One HTML file for people. Caller frees. NULL: out of memory. */
char *rep_html(const struct rep_source *s);
/* A trace for Perfetto or chrome://tracing. Caller frees. NULL: DT_E_NOT_FOUND when the plan has no timeline,
 * DT_E_CACHE when it is broken, DT_E_NOMEM. */
char *rep_trace(const struct rep_source *s, struct dt_err *e);

#endif
