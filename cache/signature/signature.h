/* The signature of a graph: one SHA-256 for all that decides what its documents say. */
#ifndef DT_CACHE_SIGNATURE_H
#define DT_CACHE_SIGNATURE_H

#include <jansson.h>

#include "base/err.h"
#include "base/hash.h"
#include "graph/graph.h"
#include "ptx/ptx.h"

/* entry[i]: the parsed entry of launch i (NULL for memset and copy). arch: "sm_90". ret_factors (may be NULL): a JSON
 * object that holds every factor by name and its own digest, for `dovetail explain` to name the one that missed. */
int cache_signature(struct dt_graph *g, const struct ptx_function *const *entry, const char *arch,
                    char text[DT_SHA256_TEXT], json_t **ret_factors, struct dt_err *e);

#endif
