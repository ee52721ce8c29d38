/* See lookup.h. What an entry leaves out comes from the caller's graph: names, and the `buffers` member of a plan (fills and data that
 * are no constants are not part of the signature, so the stored ones are somebody else's).
 */
#include "daemon/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Put the graph's own buffers into a plan that has a `buffers` member. */
static int own_buffers(json_t *doc, const struct dt_graph *g)
{
    if (!json_object_get(doc, "buffers"))
        return 0;
    json_t *o = dt_graph_to_json(g), *b = o ? json_object_get(o, "buffers") : NULL;
    int r = b ? json_object_set(doc, "buffers", b) : -1;
    json_decref(o);
    return r < 0 ? DT_E_NOMEM : 0;
}

int dtd_lookup_signature(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, const char *signature, json_t **ret)
{
    dt_free_ char *policy = dtd_policy(l->opt, l->want);
    json_t *doc = NULL;
    struct cache_key k = {l->want, signature, l->device, l->toolchain, policy};
    if (!c || !policy || cache_get(c, &k, &doc, NULL) != 1)
        return 0;
    if (cache_rename(doc, g, true, NULL) < 0 || own_buffers(doc, g) < 0) {
        json_decref(doc);
        return 0;
    }
    *ret = doc;
    return 1;
}

int dtd_lookup(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, char digest[DT_SHA256_TEXT],
               char signature[DT_SHA256_TEXT], json_t **ret)
{
    signature[0] = 0;
    int r = dt_graph_digest(g, digest, NULL);
    if (r < 0)
        return r;
    if (!c || cache_digest_get(c, digest, l->arch, signature, NULL) != 1) {
        signature[0] = 0;
        return 0;
    }
    return dtd_lookup_signature(c, l, g, signature, ret);
}

int dtd_store(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, const char *digest, const char *signature,
              const json_t *doc, json_t *factors, struct dt_err *e)
{
    dt_free_ char *policy = dtd_policy(l->opt, l->want);
    json_t *copy = json_deep_copy(doc), *gj = dt_graph_to_json(g);
    int r = policy && copy && gj ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r >= 0)
        r = cache_rename(copy, g, false, e);
    if (r >= 0) {
        struct cache_key k = {l->want, signature, l->device, l->toolchain, policy};
        r = cache_put(c, &k, digest, copy, factors, e);
    }
    if (r >= 0)
        r = cache_digest_put(c, digest, l->arch, signature, gj, e);
    json_decref(copy);
    json_decref(gj);
    return r;
}
