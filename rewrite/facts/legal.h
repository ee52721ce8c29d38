/* Legality: every condition of legal.def as a predicate, and those who ask them in order. */
#ifndef DT_REWRITE_LEGAL_H
#define DT_REWRITE_LEGAL_H

#include "rewrite/facts/cand.h"

typedef bool (*rw_predicate)(const struct rw_cand *c, struct dt_str *why);
struct rw_legal {
    const char *name; /* "machine-registers" */
    rw_predicate fn;  /* true: holds; false: `why` is one sentence */
};

extern const struct rw_legal rw_legal[];
extern const unsigned rw_nlegal;
extern const struct rw_legal rw_cluster_legal[]; /* CLUSTER rows: asked besides at level `cluster` */
extern const unsigned rw_ncluster_legal;

/* The number of the barrier between virtual blocks, -1: none is left. */
int rw_phase_barrier(const struct rw_cand *c);
/* All predicates of LEGAL rows in order; false at the first that does not hold, `why` filled as "NAME: sentence". */
bool rw_legal_check(const struct rw_cand *c, struct dt_str *why);
/* The same with other rows. */
bool rw_legal_rows(const struct rw_legal *rows, unsigned n, const struct rw_cand *c, struct dt_str *why);

#define RW_LEGAL_ROW(NAME)                                                                                             \
    {                                                                                                                  \
#NAME, rw_legal_##NAME                                                                                         \
    }
#define LEGAL(NAME, text) bool rw_legal_##NAME(const struct rw_cand *c, struct dt_str *why);
#define OTHER(NAME, text) LEGAL(NAME, text)
#define INLINE(NAME, text) LEGAL(NAME, text)
#define CLUSTER(NAME, text) LEGAL(NAME, text)
#include "rewrite/legal.def"

#endif
