/* Seals on rows of the cluster: whom this host believes (`signers`, `require_signer`), and signing what it sends
 * (`sign_key`).
 *
 * Both files are read when they are needed, so that a key that was revoked or changed counts from the next row on.
 */
#ifndef DTD_TRUST_H
#define DTD_TRUST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "daemon/service/config.h"
#include "sign/sign.h"

#define DTD_VERDICTS (SIGN_OTHER + 1)
extern const char *const dtd_verdict_names[DTD_VERDICTS]; /* "good", "unsigned" … */

struct dtd_trust {
    uint64_t turned[DTD_VERDICTS]; /* rows that were not taken, by why */
    uint64_t logged_ns, since;     /* when the log last said so; how many it has not told of */
    uint64_t held_ns;              /* when the log last said that results wait for the key */
};
/* On the loop. May the row (of cluster_find) of this key be taken? Without `require_signer` what is unsigned or signed
 * by somebody unknown may be; a seal that is wrong, revoked or out of its time may not. again: this row was counted. */
bool dtd_trust_row(struct dtd_trust *t, const struct dtd_config *c, const struct cluster_key *k, const json_t *row,
                   bool again);

/* The same for a row of cluster_measure_get. */
bool dtd_trust_measure(struct dtd_trust *t, const struct dtd_config *c, const char *kind, const char *device,
                       const char *key, const json_t *row);

/* For check.c and a service that starts: can the files be used? DT_E_USAGE. */
int dtd_trust_check(const struct dtd_config *c, struct dt_err *e);

#endif
