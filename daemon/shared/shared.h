/* What service and worker do in the same way, so that both come to the same answer: options of a job, looking documents
 * up and storing them, operations on the cache, the report and the trace of a plan.
 *
 * No function here knows PTX, a device, HTTP or frames. All are synchronous and may be called on any thread; a cache is
 * used by one thread at a time.
 */
#ifndef DTD_SHARED_H
#define DTD_SHARED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cache/cache.h"

/* ---- options.c: options of one job, and the texts that key the cache -------------------------------------------- */
#define DTD_MAX_KINDS 32

struct dtd_options {
    char *allow[DTD_MAX_KINDS], *deny[DTD_MAX_KINDS]; /* owned, sorted, without doubles */
    unsigned nallow, ndeny;
    bool maps, all_edges, dump;
    bool whole;      /* plan: the gate runs every block, however large the graph is */
    double budget;   /* seconds, 0: none */
    uint64_t memory; /* plan: bytes beside what was posted, and 1 more; 0: any number */
    uint64_t seed;
    char check[64];    /* run: checking modes, "" none asked for */
    uint64_t schedule; /* run: seed of the order of blocks and warps */
    bool own_rows,
        apart; /* the service's: explain compares with entries of `uid` only; `uid` has entries of their own */
    unsigned uid;
    bool local;     /* share=0: what comes of it stays on this host */
    bool shared;    /* the service's: the cluster is asked, and told */
    double timeout; /* seconds, 0: the service's; not sent to the worker, which is killed from outside */
};

void dtd_options_done(struct dtd_options *o);
/* One option by name, as in a query or on a command line: maps, all_edges, whole, allow, deny, budget, memory, seed,
 * dump, check, schedule, share, timeout. 1: no such name; DT_E_USAGE: wrong value. */
int dtd_options_set(struct dtd_options *o, const char *name, const char *value, struct dt_err *e);
/* The "options" member of a request frame. */
int dtd_options_from_json(struct dtd_options *o, const json_t *j, struct dt_err *e);
json_t *dtd_options_to_json(const struct dtd_options *o);
/* Everything in the options that changes the document, canonical. Caller frees; NULL: memory. */
char *dtd_policy(const struct dtd_options *o, const char *want);
/* All options, whether they change the document or not, canonical. Caller frees; NULL: memory. */
char *dtd_options_text(const struct dtd_options *o);
/* After these errors the device's context may be unusable: the worker ends itself once it has answered. */
bool dtd_error_ends_worker(int num);

/* ---- lookup.c: digest, then signature, then document, with the caller's names ----------------------------------- */
struct dtd_lookup {
    const char *want, *arch, *device, *toolchain;
    const struct dtd_options *opt;
    bool searched; /* a plan that was only carried over is none */
    bool computed; /* the signature was, of this very graph: a document that does not fit it is a wrong one */
};
/* Find the document for a graph by its digest. 1 found: *ret is a new reference in the graph's names; 0 not. digest is
 * filled when 0 or 1 is returned; signature is "" when it is not known. Trouble with the cache is a miss. */
int dtd_lookup(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, char digest[DT_SHA256_TEXT],
               char signature[DT_SHA256_TEXT], json_t **ret);
/* The same with digest and signature known. */
int dtd_lookup_signature(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, const char *digest,
                         const char *signature, json_t **ret);
/* cache_graph_get, and it is the graph of this digest: another one is set aside and is not there. */
int dtd_graph_get(struct cache *c, const char *digest, json_t **ret, struct dt_err *e);
/* stale.c: may an entry of toolchain `old` be served where `mine` is in use? `since`: the oldest rewriter whose plans
 * are right (RW_SOUND_SINCE); ptx: no module of the graph is CUDA C++. */
bool dtd_toolchain_stands(const char *old, const char *mine, const char *since, bool ptx);
/* The newest entry that may, after dtd_lookup found none but a signature. As dtd_lookup_signature. */
int dtd_lookup_stale(struct cache *c, const struct dtd_lookup *l, const char *since, struct dt_graph *g,
                     const char *digest, const char *signature, json_t **ret);
/* Complete the warnings of a document: those that the posted graph alone gives (graph/warnings.c) come first, and the
 * others get the names of their kernels. To be called once for every document that goes out; dtd_lookup does it itself.
 * DT_E_NOMEM. */
int dtd_warnings(json_t *doc, const struct dt_graph *g);
/* Text of the reasons, whose subjects are marked until here (base/subject.h). DT_E_NOMEM. */
int dtd_plain(json_t *doc);
/* Store a document that has the graph's names (it is copied, canonical names put in), under signature and digest.
 * recipe: of a plan, NULL: none; out: the cluster is to have it, NULL: not. */
int dtd_store(struct cache *c, const struct dtd_lookup *l, struct dt_graph *g, const char *digest,
              const char *signature, const json_t *doc, json_t *recipe, json_t *factors, bool carried,
              const struct cache_out *out, struct dt_err *e);

/* ---- cacheops.c: what may be done with the cache, by name ------------------------------------------------------- */
/* op and its members of `args`:
 *   stats
 *   list     limit (1 to 100000, else 1000), signature; uid: as in export
 *   verify
 *   gc       max_age (seconds), max_bytes: whole numbers, left out: any
 *   export   uid: only what this user owns; left out: everything. signature: one or a list; device; newer_than,
 *            used_within (seconds), min_hits: what is selected (struct cache_select). Document {"bundle": base64}
 *   import   bundle: base64; uid: the user who imports it; left out: the user of this process. signers: the file of
 *            those whom this host believes; require: the name of one, require_any: true; max_age (seconds since it was
 *            signed), max_bytes (when it is unpacked)
 *   nearest  signature, want (plan unless "analysis"); uid: as in export
 * DT_E_USAGE for an op or a member that is wrong, DT_E_NOT_FOUND when nearest has nothing to compare. */
int dtd_cache_op(struct cache *c, const char *op, const json_t *args, json_t **ret, struct dt_err *e);

/* ---- night-html.c ------------------------------------------------------------------------------------------------ */
/* The report of a night (schema/night.schema.json) as one HTML file. Caller frees. NULL: out of memory. */
char *dtd_night_html(const json_t *doc);

#endif
