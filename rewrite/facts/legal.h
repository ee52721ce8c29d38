/* Conditions that facts decide: the LEGAL rows of legal.def, and what rewrites other than block fusion ask besides. */
#ifndef DT_REWRITE_LEGAL_H
#define DT_REWRITE_LEGAL_H

#include "rewrite/facts/facts.h"

/* True: the condition holds; false: `why` is one sentence. */
typedef bool (*rw_facts_predicate)(const struct rw_facts *facts, struct dt_str *why);
#define LEGAL(NAME, text) bool rw_legal_##NAME(const struct rw_facts *facts, struct dt_str *why);
#include "rewrite/legal.def"
bool rw_legal_unordered(const struct rw_facts *facts, struct dt_str *why);    /* parallel fusion */
bool rw_legal_beside_async(const struct rw_facts *facts, struct dt_str *why); /* parallel fusion */
bool rw_legal_repeatable(const struct rw_facts *facts, struct dt_str *why);   /* recompute */
bool rw_legal_inputs_stay(const struct rw_facts *facts, struct dt_str *why);  /* recompute */
/* False where a body has the find; the sentence names launch, line and thing: "'gemm' WHAT (`vprintf`, PTX line 7)". */
bool rw_legal_none(const struct rw_facts *facts, enum rw_fact k, struct dt_str *why, const char *what);

#endif
