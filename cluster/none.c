/* No cluster: for builds that carry their libraries along, without libpq (meson.build). Opening one fails, so none of
 * the other calls is ever reached; each of them still answers.
 */
#include "cluster/cluster.h"

#define NONE "this dovetaild was built without libpq: it cannot share (shared = …)"

const char *cluster_outcome_text(enum cluster_outcome o)
{
    static const char *const name[CLUSTER_OUTCOMES] = {"ok", "none", "busy", "lost", "refused", "away"};
    return (unsigned)o < CLUSTER_OUTCOMES ? name[o] : "?";
}

int cluster_open(const struct cluster_options *o, struct cluster **ret, struct dt_err *e)
{
    return dt_err_set(e, DT_E_USAGE, NONE);
}

void cluster_close(struct cluster *c, void (*closed)(void *user), void *user) { closed(user); }

static void away(cluster_fn *fn, void *user)
{
    if (fn)
        fn(user, CLUSTER_AWAY, NULL, NONE);
}

void cluster_find(struct cluster *c, const struct cluster_key *k, cluster_fn *fn, void *user) { away(fn, user); }
void cluster_near(struct cluster *c, const struct cluster_key *k, cluster_fn *fn, void *user) { away(fn, user); }
void cluster_put(struct cluster *c, const struct cluster_entry *en, int64_t token, cluster_fn *fn, void *user)
{
    away(fn, user);
}
void cluster_claim(struct cluster *c, const struct cluster_key *k, unsigned lease_ms, cluster_fn *fn, void *user)
{
    away(fn, user);
}
void cluster_renew(struct cluster *c, const struct cluster_key *k, int64_t token, unsigned lease_ms, cluster_fn *fn,
                   void *user)
{
    away(fn, user);
}
void cluster_release(struct cluster *c, const struct cluster_key *k, int64_t token, cluster_fn *fn, void *user)
{
    away(fn, user);
}
void cluster_measure_get(struct cluster *c, const char *kind, const char *device, const char *const *keys, unsigned n,
                         cluster_fn *fn, void *user)
{
    away(fn, user);
}
void cluster_measure_put(struct cluster *c, const char *kind, const char *device, const struct cluster_measure *m,
                         unsigned n, cluster_fn *fn, void *user)
{
    away(fn, user);
}
void cluster_graph_put(struct cluster *c, const char *digest, const void *body, size_t len, cluster_fn *fn, void *user)
{
    away(fn, user);
}
void cluster_graph_get(struct cluster *c, const char *digest, cluster_fn *fn, void *user) { away(fn, user); }
void cluster_queue_add(struct cluster *c, const struct cluster_work *w, cluster_fn *fn, void *user) { away(fn, user); }
void cluster_queue_graphs(struct cluster *c, const char *device, const char *toolchain, cluster_fn *fn, void *user)
{
    away(fn, user);
}
void cluster_queue_claim(struct cluster *c, const char *device, const char *toolchain,
                         const struct cluster_place *after, unsigned lease_ms, cluster_fn *fn, void *user)
{
    away(fn, user);
}
void cluster_queue_renew(struct cluster *c, const struct cluster_work_key *k, int64_t token, unsigned lease_ms,
                         cluster_fn *fn, void *user)
{
    away(fn, user);
}
void cluster_queue_done(struct cluster *c, const struct cluster_work_key *k, int64_t token, cluster_fn *fn, void *user)
{
    away(fn, user);
}
void cluster_queue_fail(struct cluster *c, const struct cluster_work_key *k, int64_t token, const char *reason,
                        unsigned backoff_ms, cluster_fn *fn, void *user)
{
    away(fn, user);
}
void cluster_queue_return(struct cluster *c, const struct cluster_work_key *k, int64_t token, cluster_fn *fn,
                          void *user)
{
    away(fn, user);
}
void cluster_queue_list(struct cluster *c, cluster_fn *fn, void *user) { away(fn, user); }
void cluster_queue_unpark(struct cluster *c, cluster_fn *fn, void *user) { away(fn, user); }

json_t *cluster_status(const struct cluster *c)
{
    return json_pack("{s:s, s:s, s:s}", "state", "away", "why", NONE, "breaker", "open");
}

void cluster_counts(const struct cluster *c, struct cluster_counts *ret) { *ret = (struct cluster_counts){0}; }
