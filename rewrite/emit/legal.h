/* The tables of conditions, and who asks them. A row asks facts (facts/legal.h), or the candidate at its level. */
#ifndef DT_REWRITE_EMIT_LEGAL_H
#define DT_REWRITE_EMIT_LEGAL_H

#include "rewrite/emit/cand.h"
#include "rewrite/facts/legal.h"

/* True: the condition holds; false: `why` is one sentence. */
typedef bool (*rw_predicate)(const struct rw_cand *c, struct dt_str *why);
struct rw_legal {
    const char *name; /* "machine_registers" */
    /* one of the two, the other is NULL: */
    rw_facts_predicate facts;
    rw_predicate level;
};
/* The row of rw_legal_NAME, whichever of the two it is. */
#define RW_LEGAL_ROW(NAME)                                                                                             \
    {                                                                                                                  \
        .name = #NAME,                                                                                                 \
        .facts = _Generic(rw_legal_##NAME, rw_facts_predicate                                                          \
                          : rw_legal_##NAME, default                                                                   \
                          : NULL),                                                                                     \
        .level = _Generic(rw_legal_##NAME, rw_predicate                                                                \
                          : rw_legal_##NAME, default                                                                   \
                          : NULL)                                                                                      \
    }
extern const struct rw_legal rw_legal[]; /* LEGAL and LEVEL rows */
extern const unsigned rw_nlegal;
extern const struct rw_legal rw_cluster_legal[]; /* CLUSTER rows: asked besides at level `cluster` */
extern const unsigned rw_ncluster_legal;
/* All of rw_legal in order; false at the first that does not hold, `why` filled as "NAME: sentence". */
bool rw_legal_check(const struct rw_cand *c, struct dt_str *why);
/* The same with other rows. */
bool rw_legal_rows(const struct rw_legal *rows, unsigned n, const struct rw_cand *c, struct dt_str *why);
#define LEVEL(NAME, text) bool rw_legal_##NAME(const struct rw_cand *c, struct dt_str *why);
#define CLUSTER(NAME, text) LEVEL(NAME, text)
#include "rewrite/legal.def"

#endif
