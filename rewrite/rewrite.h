/* The rewriter, for other folders: planning, verifying, and checking plans from elsewhere.
 *
 * A plan replaces launches of the graph by others that compute the same bytes. Each rewrite is legal or refused, by the
 * conditions of legal.def, and verified or dropped: bitwise against the original, on poisoned outputs, several inputs
 * and shuffled block orders, with the race detector. What is kept is faster. README.md says how the rooms of this
 * folder do that.
 */
#ifndef DT_REWRITE_REWRITE_H
#define DT_REWRITE_REWRITE_H

#include <jansson.h>

#include "analysis/analysis.h"
#include "base/err.h"
#include "base/str.h"
#include "device/device.h"

enum rw_verdict { RW_KEPT, RW_REFUSED, RW_DROPPED };

#define RW_TIMES_HEAD "dovetail times 1\n" /* how entries with measured times begin (plan/times.c) */

struct rw_options {
    const char *const *allow; /* kinds; NULL: all that are on by default */
    unsigned nallow;
    const char *const *deny;
    unsigned ndeny;
    double budget_s;    /* 0: none */
    uint64_t until_us;  /* dt_now_us() when whoever asks goes away, answered or not; 0: never */
    uint64_t memory;    /* bytes that a plan may need beside what was posted, and 1 more; 0: any number */
    unsigned inputs;    /* seeds to verify with, 0: 3 */
    unsigned schedules; /* block orders, 0: 8 */
    /* thread-instructions up to which the software device runs a graph whole, 0: 6 x 10^10; above, samples of blocks */
    uint64_t whole;
    const struct ana_memo *footprints; /* of the analyses that planning makes, NULL: nothing is kept */
    /* what trials found out, NULL: nothing is kept; the plan is the same with and without (gate/library.c). And
     * measurements, which alone begin with RW_TIMES_HEAD */
    const struct ana_memo *library;
    const char *stamp; /* device and toolchain: what else those depend on. Needed with `library` */
    dev_progress progress;
    void *user;
};

/* Plan the graph. *ret_plan is the plan document (new reference), with the graph's `buffers` in it, so that `run` needs
 * nothing else. "No change" is a valid plan. */
int rw_plan(struct dev_device *d, const struct dev_prog *p, const struct ana_result *a, const struct rw_options *o,
            const char *signature, json_t **ret_plan, struct dt_err *e);

/* The same, to be kept: *ret_recipe (new reference): how it came about, for rw_plan_by (plan/recipe.c). Here and there
 * the subjects of reasons are marked (base/subject.h), so that an equal graph can give them its own names. */
int rw_plan_recipe(struct dev_device *d, const struct dev_prog *p, const struct ana_result *a,
                   const struct rw_options *o, const char *signature, json_t **ret_plan, json_t **ret_recipe,
                   struct dt_err *e);
/* A plan by a recipe from elsewhere. Nothing in the recipe is believed: its rewrites, and no others, are tried on this
 * graph in their order, and pass the predicates and the gate like any candidate. 0: *ret_plan is there, and its recipe
 * as this planning would write it; 1: the recipe does not lead to a plan here, `why` says so, its
 * subjects marked; negative: error. */
int rw_plan_by(struct dev_device *d, const struct dev_prog *p, const struct ana_result *a, const struct rw_options *o,
               const char *signature, const json_t *recipe, json_t **ret_plan, json_t **ret_recipe, struct dt_str *why,
               struct dt_err *e);

/* Compare two programs on the same inputs, byte by byte (outputs and inouts by buffer name). DT_E_INTERNAL with what
 * differs, where. */
int rw_verify(struct dev_device *d, const struct dev_prog *original, const struct dev_prog *plan, unsigned inputs,
              unsigned schedules, struct dt_err *e);

/* Does the plan's order (streams, `after`, programmatic launches) hold every hazard (gate/waits.c)? `a`: the plan's
 * analysis; NULL: it is made if launches may overlap. `original`: what the plan was made from, or NULL. DT_E_GRAPH:
 * with what is wrong, and a pointer to the launch. */
int rw_waits_check(struct dev_device *d, const struct dev_prog *plan, const struct ana_result *a,
                   const struct dev_prog *original, struct dt_err *e);

/* A posted graph on several streams (facts/streams.c): where two launches share bytes that one of them writes and
 * nothing orders them, the later one of the document is `after` the other from now on, and *w warns of it. Before
 * rw_plan; does nothing with other graphs. DT_E_NOMEM. */
int rw_order_posted(struct dt_graph *g, const struct ana_result *a, struct dt_warnings *w, struct dt_err *e);

/* May the modules that the plan changed run on this machine (gate/machine-code.c)? They may if what runs is the code
 * that was compared when the plan was made, or if the assembler here makes other code of them whose arithmetic is the
 * posted one all the same. `original`: dt_plan_posted, read. 1: they may, and plan->module[].cubin is the code. 0: they
 * may not, or nobody can say; `why` says which. */
int rw_carried(struct dev_device *d, struct dt_graph *plan, const struct dt_graph *original, struct dt_str *why,
               struct dt_err *e);

/* bundle.c: the folder for what the gate refuses, where DOVETAIL_BUNDLES does not say one. For the whole process,
 * before any planning. DT_E_NOMEM. */
int rw_bundles_in(const char *dir);

/* Version of the rewriter: part of the plan key. Raise it when plans change. */
#define RW_VERSION "33"
/* The oldest version whose plans, and the analyses beside them, are right today. What is stored by it or later is
 * served until it has been planned again (daemon/shared/stale.c). Set it to RW_VERSION when something was wrong: a
 * condition that was missing, a map that was too small. Leave it when plans only become better. */
#define RW_SOUND_SINCE "32"

#endif
