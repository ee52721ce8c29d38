/* A plan document as a trace for Perfetto or chrome://tracing. */
#ifndef DTD_TRACE_H
#define DTD_TRACE_H

#include <jansson.h>

#include "base/err.h"

/* Caller frees. NULL: DT_E_NOT_FOUND when the plan has no timeline, DT_E_CACHE when it is broken, DT_E_NOMEM. */
char *dtd_trace_json(const json_t *plan, struct dt_err *e);

#endif
