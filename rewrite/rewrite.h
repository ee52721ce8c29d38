/* Rewrites: PTX to PTX, legal or refused, verified or dropped (docs/REWRITES.md, docs/LEGALITY.md).
 *
 * A rewrite is a descriptor (`struct rw_rewrite`) in a file of its own, listed in registry.c. The planner (choose.c)
 * tries candidates on a clone, verifies each (verify.c: bitwise against the original, poisoned outputs, several seeds,
 * shuffled block orders with the race detector), times it, and keeps what is legal, right and faster.
 */
#ifndef DT_REWRITE_REWRITE_H
#define DT_REWRITE_REWRITE_H

#include <jansson.h>

#include "analysis/analysis.h"
#include "base/err.h"
#include "base/str.h"
#include "device/device.h"

enum rw_verdict { RW_KEPT, RW_REFUSED, RW_DROPPED };

struct rw_options {
    const char *const *allow; /* kinds; NULL: all that are on by default */
    unsigned nallow;
    const char *const *deny;
    unsigned ndeny;
    double budget_s;    /* 0: none */
    unsigned inputs;    /* seeds to verify with, 0: 3 */
    unsigned schedules; /* block orders, 0: 8 */
    /* thread-instructions up to which the software device runs a graph whole, 0: 10^10; above, samples of its blocks */
    uint64_t whole;
    const struct ana_memo *footprints; /* of the analyses that planning makes, NULL: nothing is kept */
    /* what trials found out (library.c), NULL likewise; the plan is the same with and without */
    const struct ana_memo *library;
    const char *stamp; /* device and toolchain: what else those depend on. Needed with `library` */
    dev_progress progress;
    void *user;
};

/* Plan the graph. *ret_plan is the plan document of docs/CONTRACT.md §4 (new reference), with the graph's `buffers` in
 * it, so that `run` needs nothing else. "No change" is a valid plan. */
int rw_plan(struct dev_device *d, const struct dev_prog *p, const struct ana_result *a, const struct rw_options *o,
            const char *signature, json_t **ret_plan, struct dt_err *e);

/* The same; *ret_recipe (new reference): how it came about, for rw_plan_by (recipe.c). */
int rw_plan_recipe(struct dev_device *d, const struct dev_prog *p, const struct ana_result *a,
                   const struct rw_options *o, const char *signature, json_t **ret_plan, json_t **ret_recipe,
                   struct dt_err *e);
/* A plan by a recipe from elsewhere, which is believed in nothing: its rewrites, in their order, are tried on this
 * graph and no others, by the predicates and the gate that any candidate has to pass. 0: *ret_plan is there, and its
 * recipe in this host's own words; 1: the recipe does not lead to a plan here, `why` says so; negative: error. */
int rw_plan_by(struct dev_device *d, const struct dev_prog *p, const struct ana_result *a, const struct rw_options *o,
               const char *signature, const json_t *recipe, json_t **ret_plan, json_t **ret_recipe, struct dt_str *why,
               struct dt_err *e);

/* Compare two programs on the same inputs, byte by byte (outputs and inouts by buffer name). DT_E_INTERNAL with what
 * differs, where. */
int rw_verify(struct dev_device *d, const struct dev_prog *original, const struct dev_prog *plan, unsigned inputs,
              unsigned schedules, struct dt_err *e);

/* Does the order that streams, `after` and programmatic launches give hold every hazard (waits.c)? `a`: its analysis,
 * NULL: it is made where launches may overlap. `original`, or NULL: what it was made from. DT_E_GRAPH with what is
 * wrong, and a pointer to the launch. */
int rw_waits_check(struct dev_device *d, const struct dev_prog *plan, const struct ana_result *a,
                   const struct dev_prog *original, struct dt_err *e);

/* machine-code.c: is what runs here of the modules that the plan changed the code that was compared, or, where the
 * assembler here makes other code, posted arithmetic all the same? `original`: dt_plan_posted, read. 1: it is, and
 * plan->module[].cubin is the code. 0: it is not, or nobody can say: `why`. */
int rw_carried(struct dev_device *d, struct dt_graph *plan, const struct dt_graph *original, struct dt_str *why,
               struct dt_err *e);

/* bundle.c: the folder for what the gate refuses, where DOVETAIL_BUNDLES does not say one. For the whole process,
 * before any planning. DT_E_NOMEM. */
int rw_bundles_in(const char *dir);

/* Version of the rewriter: part of the plan key. Raise it when plans change. */
#define RW_VERSION "19"

#endif
