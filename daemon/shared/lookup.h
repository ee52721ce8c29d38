/* Digest -> signature -> document, with the caller's names: what service and worker both do before any work. */
#ifndef DTD_LOOKUP_H
#define DTD_LOOKUP_H

#include "cache/cache.h"
#include "daemon/shared/options.h"

struct dtd_lookup {
    const char *want, *arch, *device, *toolchain;
    const struct dtd_options *opt;
};
/* Find the document for a graph by its digest. 1 found: *ret is a new reference in the graph's names; 0 not. digest is
 * always filled (when 0 or 1), signature when it is known ("" if not). Trouble of the cache is a miss. */
int dtd_lookup(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, char digest[DT_SHA256_TEXT],
               char signature[DT_SHA256_TEXT], json_t **ret);
/* The same with digest and signature known. */
int dtd_lookup_signature(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, const char *digest,
                         const char *signature, json_t **ret);
/* What the posted document alone gives warnings of (graph/warnings.c), put before the ones that are there, and the
 * kernels' names into these. Every document that goes out has been here once: dtd_lookup does it. DT_E_NOMEM. */
int dtd_warnings(json_t *doc, const struct dt_graph *g);
/* Text of the reasons, whose subjects are marked until here (base/subject.h). DT_E_NOMEM. */
int dtd_plain(json_t *doc);
/* Store a document that has the graph's names (it is copied, canonical names put in), under signature and digest.
 * recipe: of a plan, NULL: none. */
int dtd_store(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, const char *digest,
              const char *signature, const json_t *doc, json_t *recipe, json_t *factors, struct dt_err *e);

#endif
