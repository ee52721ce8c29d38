/* Options of one request to a worker, and the texts that key the cache. Shared by service and worker, so that both
 * build the same key; knows nothing of devices or HTTP.
 */
#ifndef DTD_OPTIONS_H
#define DTD_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define DTD_MAX_KINDS 32

struct dtd_options {
    char *allow[DTD_MAX_KINDS], *deny[DTD_MAX_KINDS]; /* owned, sorted, without doubles */
    unsigned nallow, ndeny;
    bool maps, all_edges, dump;
    bool whole;    /* plan: the gate runs every block, however large the graph is */
    double budget; /* seconds, 0: none */
    uint64_t seed;
    char check[64];    /* run: checking modes, "" none asked for */
    uint64_t schedule; /* run: seed of the order of blocks and warps */
    double timeout;    /* seconds, 0: the service's; not sent to the worker, which is killed from outside */
};

void dtd_options_done(struct dtd_options *o);
/* One option by name, as in a query or on a command line: maps, all_edges, whole, allow, deny, budget, seed, dump,
 * check, schedule, timeout. 1: no such name; DT_E_USAGE: wrong value. */
int dtd_options_set(struct dtd_options *o, const char *name, const char *value, struct dt_err *e);
/* The "options" member of a request frame. */
int dtd_options_from_json(struct dtd_options *o, const json_t *j, struct dt_err *e);
json_t *dtd_options_to_json(const struct dtd_options *o);
/* Everything in the options that changes the document, canonical. Caller frees; NULL: memory. */
char *dtd_policy(const struct dtd_options *o, const char *want);
/* After these errors the device's context may be unusable: the worker ends itself once it has answered. */
bool dtd_error_ends_worker(int num);

#endif
