/* A plan from a recipe (cache/recipe.c), before any search: one that was imported, or came from the cluster, or that of
 * this host's own plan for an older driver or toolchain (carried over).
 *
 * The recipe names rewrites. They are made of the poster's own kernels and pass the whole gate (rewrite/plan/recipe.c).
 * The plan that comes of them must have the digest that the plan in the bundle had:
 *
 *   no recipe under the key, or a refused one ──▶ 0: the worker searches for a plan as usual
 *   the digests are equal                     ──▶ 1: a plan of this host like any other; `verified.reverified` says
 *                                                 when it was made, and the recipe is removed
 *   they differ, or no plan comes of it       ──▶ 0: the recipe is kept with the reason, for people to see, and is not
 *                                                 tried again
 *
 * Footprints and trials that are learned on the way are this host's own and help the search that follows. No PTX, map,
 * time or machine code of the bundle gets here.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/worker/worker.h"
#include "rewrite/rewrite.h"

/* Words name the poster's launches: canonical ones are kept. */
static void recipe_refuse(struct wrk *w, const struct cache_key *k, struct dt_graph *g, const char *reason)
{
    json_t *doc = json_pack("{s:[{s:s}]}", "rewrites", "reason", reason);
    bool clean = doc && cache_rename(doc, g, false, NULL) == 0 && dtd_plain(doc) == 0;
    const char *text =
        json_string_value(json_object_get(json_array_get(json_object_get(doc, "rewrites"), 0), "reason"));
    dt_log(DT_LOG_INFO, "the recipe of %.23s does not hold here", k->signature);
    cache_recipe_done(w->cache, k, clean && text ? text : "it does not lead to its plan here");
    json_decref(doc);
}

/* Is it the plan that the recipe is of? 1, 0, negative: error. */
static int recipe_compare(const json_t *plan, struct dt_graph *g, const char *want, struct dt_err *e)
{
    char digest[DT_SHA256_TEXT];
    json_t *copy = json_deep_copy(plan);
    int r = copy ? cache_rename(copy, g, false, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0 && cache_plan_digest(copy, digest) < 0)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    json_decref(copy);
    return r < 0 ? r : !strcmp(digest, want);
}

static bool put_time(json_t *plan)
{
    char text[32];
    struct tm tm;
    time_t now = time(NULL);
    return strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm)) &&
           json_object_set_new(json_object_get(plan, "verified"), "reverified", json_string(text)) == 0;
}

int wrk_plan_by_recipe(struct wrk *w, const struct cache_key *k, struct dt_graph *g, const struct dev_prog *p,
                       const struct ana_result *a, const struct rw_options *o, json_t **ret_plan, json_t **ret_recipe,
                       struct dt_err *e)
{
    char digest[DT_SHA256_TEXT];
    struct dt_str why = {0};
    json_t *theirs, *plan = NULL, *recipe = NULL;
    if (!w->cache || cache_recipe_get(w->cache, k, &theirs, digest) != 1)
        return 0;
    int r = rw_plan_by(w->dev, p, a, o, k->signature, theirs, &plan, &recipe, &why, e), same = 0;
    json_decref(theirs);
    if (r == 0 && (same = recipe_compare(plan, g, digest, e)) == 0)
        dt_str_add(&why, "digest: the plan that its rewrites make of these kernels has other modules or launches than "
                         "the one that was imported");
    if (r == 1 || (r == 0 && same == 0))
        recipe_refuse(w, k, g, why.s ? why.s : "");
    dt_str_done(&why);
    if (r == 0 && same == 1 && put_time(plan)) {
        cache_recipe_done(w->cache, k, NULL);
        *ret_plan = plan;
        *ret_recipe = recipe;
        return 1;
    }
    json_decref(plan);
    json_decref(recipe);
    return r < 0 ? r : same < 0 ? same : 0;
}
