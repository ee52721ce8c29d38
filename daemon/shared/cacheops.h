/* What may be done with the cache by name: the same for the service's endpoints and the worker's verbs. */
#ifndef DTD_CACHEOPS_H
#define DTD_CACHEOPS_H

#include "cache/cache.h"

/* op and its members of `args`:
 *   stats
 *   list     limit (1 to 100000, else 1000), signature
 *   verify
 *   gc       max_age (seconds), max_bytes: whole numbers, left out: any
 *   export   uid: only what this user owns; left out: everything. Document {"bundle": text}
 *   import   bundle: text; uid: who brings it, left out: who runs this
 *   nearest  signature, want (plan unless "analysis")
 * DT_E_USAGE for an op or a member that is wrong, DT_E_NOT_FOUND when nearest has nothing to compare. */
int dtd_cache_op(struct cache *c, const char *op, const json_t *args, json_t **ret, struct dt_err *e);

#endif
