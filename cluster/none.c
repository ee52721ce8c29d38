/* In place of the cluster where libpq is not there when dovetail is built: the option `shared` is refused at the start,
 * and says why. No other call is made then.
 */
#include <stdlib.h>

#include "cluster/cluster.h"

const char *cluster_outcome_text(enum cluster_outcome o)
{
    static const char *const text[CLUSTER_OUTCOMES] = {"ok", "none", "busy", "lost", "refused", "away"};
    return text[o];
}

int cluster_open(const struct cluster_options *o, struct cluster **ret, struct dt_err *e)
{
    return dt_err_set(e, DT_E_USAGE, "this dovetaild was built without libpq: it cannot share (shared = …)");
}

void cluster_close(struct cluster *c, void (*closed)(void *user), void *user) { closed(user); }

static void none_away(cluster_fn *fn, void *user) { fn(user, CLUSTER_AWAY, NULL, "built without libpq"); }

void cluster_find(struct cluster *c, const struct cluster_key *k, cluster_fn *fn, void *user) { none_away(fn, user); }

void cluster_put(struct cluster *c, const struct cluster_entry *en, int64_t token, cluster_fn *fn, void *user)
{
    none_away(fn, user);
}

void cluster_claim(struct cluster *c, const struct cluster_key *k, unsigned lease_ms, cluster_fn *fn, void *user)
{
    none_away(fn, user);
}

void cluster_renew(struct cluster *c, const struct cluster_key *k, int64_t token, unsigned lease_ms, cluster_fn *fn,
                   void *user)
{
    none_away(fn, user);
}

void cluster_release(struct cluster *c, const struct cluster_key *k, int64_t token, cluster_fn *fn, void *user)
{
    none_away(fn, user);
}

json_t *cluster_status(const struct cluster *c)
{
    return json_pack("{s:s, s:s}", "state", "none", "breaker", "closed");
}
