/* What explain.c uses of origin.c. */
#ifndef DT_ANALYSIS_EXPLAIN_PRIV_H
#define DT_ANALYSIS_EXPLAIN_PRIV_H

#include "analysis/analysis-priv.h"

/* The instruction from which the address of site `x` of `f` (or, with `guard`, whether it happens at all) got a taint
 * of `level` or worse; UINT32_MAX: not found. */
uint32_t ana_origin(const struct ptx_function *f, const struct ana_tainted *t, const struct ana_site *x, bool guard,
                    uint8_t level);

#endif
