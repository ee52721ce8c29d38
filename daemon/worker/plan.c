/* Verbs analyze, optimize and explain: from a graph to its analysis and plan documents, by the cache where possible.
 *
 *   parse graph ─▶ digest known? document? ─hit─▶ answer
 *                      │ miss
 *                  compile, parse PTX ─▶ signature known? document? ─hit─▶ remember the digest, answer
 *                      │ miss
 *                  block maps (ana_run) ─▶ [plan: by a recipe, imported (recipe.c), of the cluster (share.c) or of
 *                  an older driver or toolchain, else by search (rw_plan)] ─▶ store with canonical names ─▶ answer
 *
 * Each step is taken at most once a request: explain wants both documents and shares what was compiled and recorded.
 * Trouble with the cache never fails a request; it is logged and the work is done.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "base/alloc.h"
#include "base/log.h"
#include "cache/signature/signature.h"
#include "daemon/worker/worker.h"
#include "rewrite/rewrite.h"

/* Planning without --budget stops here with the best so far. Its clock (rewrite/plan/budget.c: three times that) ends
 * it well before the service's limit for a job (600 s), which would lose it all. */
#define DEFAULT_BUDGET_S 120
#define RECIPES 20 /* that explain tells of */

struct job {
    struct wrk *w;
    const struct dtd_options *opt;
    struct dt_graph *g;
    struct dev_prog *prog;  /* after need_prog */
    struct ana_result *ana; /* after need_analysis */
    bool ana_all;           /* `ana` has all edges */
    json_t *factors;
    struct dt_warnings unordered; /* launches that nothing orders, after need_analysis */
    char digest[DT_SHA256_TEXT], signature[DT_SHA256_TEXT];
};

static void job_done(struct job *j)
{
    ana_free(j->ana);
    dev_prog_free(j->prog);
    json_decref(j->factors);
    json_decref(j->unordered.list);
    dt_graph_free(j->g);
}

static int job_init(struct job *j, struct wrk *w, json_t *graph, const struct dtd_options *o, struct dt_err *e)
{
    j->w = w;
    j->opt = o;
    int r = dt_graph_from_json(graph, &j->g, e);
    if (r < 0)
        return r;
    if (j->g->is_plan)
        return dt_err_set(e, DT_E_GRAPH,
                          "this is a plan, not a graph: it can be run, but neither analysed nor optimised");
    wrk_open_cache(w);
    return wrk_open(w, e);
}

static struct dtd_lookup lookup_of(const struct job *j, const char *want)
{
    return (struct dtd_lookup){want, dev_info(j->w->dev)->arch, j->w->key, j->w->toolchain, j->opt, j->w->afresh};
}

/* Compile and check, and compute the signature. */
static int need_prog(struct job *j, struct dt_err *e)
{
    if (j->prog)
        return 0;
    int r = dev_prog_new(j->w->dev, j->g, wrk_progress, j->w, &j->prog, e);
    if (r < 0)
        return r;
    const struct ptx_function **entry = dt_calloc(j->g->nlaunch + 1, sizeof *entry);
    if (!entry)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < j->g->nlaunch; i++)
        entry[i] = j->prog->step[i].posted;
    r = cache_signature(j->g, entry, dev_info(j->w->dev)->arch, j->signature, &j->factors, e);
    free(entry);
    return r;
}

static int need_analysis(struct job *j, bool all, struct dt_err *e)
{
    if (j->ana && (j->ana_all || !all))
        return 0;
    j->ana = ana_free(j->ana);
    struct ana_options o = {
        .all_edges = all, .memo = wrk_memo(j->w, CACHE_FOOTPRINTS), .progress = wrk_progress, .user = j->w};
    j->ana_all = all;
    int r = ana_run(j->w->dev, j->prog, &o, &j->ana, e);
    if (r >= 0)
        wrk_memo_flush(j->w);
    return r < 0 ? r : rw_order_posted(j->g, j->ana, &j->unordered, e);
}

static void plan_store(struct job *j, const char *want, const struct dtd_options *opt, const json_t *doc,
                       json_t *recipe)
{
    struct dt_err why = {0};
    struct dtd_lookup l = lookup_of(j, want);
    l.opt = opt;
    if (dt_alloc_failed()) {
        dt_log(DT_LOG_WARN, "not cached: memory was out on the way to it, and something may not have been tried");
        return;
    }
    const char *by = json_string_value(json_object_get(json_object_get(doc, "stopped"), "by"));
    if (by && !strcmp(by, "clock")) {
        dt_log(DT_LOG_WARN, "not cached: the clock ended planning, which a machine at rest would not have seen");
        return;
    }
    const bool carried = recipe && j->w->carried; /* other hosts search for it, or have it searched for */
    json_t *facts = j->w->shared && recipe ? wrk_share_facts(j->w, doc, j->factors) : NULL;
    struct cache_out out = {facts, j->w->token};
    if (j->w->cache && dtd_store(j->w->cache, &l, j->g, j->digest, j->signature, doc, recipe, j->factors, carried,
                                 facts && !j->w->by_cluster && !carried ? &out : NULL, &why) < 0)
        dt_log(DT_LOG_WARN, "not cached: %s", why.detail ? why.detail : dt_err_text(why.num));
    json_decref(facts);
    dt_err_done(&why);
}

/* By a recipe (wrk_by_recipe): one that was imported, or is the cluster's; else that of a plan of this host which an
 * older driver or toolchain left. Making it anew and checking it costs a fraction of a search; what comes of it serves,
 * and is searched for when the service is idle. */
struct by {
    struct job *j;
    const struct cache_key *k;
    const struct rw_options *ro;
    json_t **doc, **recipe;
    struct dt_err *e;
};

static int plan_by_recipe(void *user)
{
    const struct by *b = user;
    struct wrk *w = b->j->w;
    int r = wrk_plan_by_recipe(w, b->k, b->j->g, b->j->prog, b->j->ana, b->ro, b->doc, b->recipe, b->e);
    if (r || w->afresh || !w->cache || !cache_recipe_carry(w->cache, b->k))
        return r;
    r = wrk_plan_by_recipe(w, b->k, b->j->g, b->j->prog, b->j->ana, b->ro, b->doc, b->recipe, b->e);
    w->carried = r == 1;
    return r;
}

/* The plan, and how it came about. */
static int plan_one(struct job *j, json_t **ret_doc, json_t **ret_recipe, struct dt_err *e)
{
    const struct dtd_options *o = j->opt, plain = {0};
    const struct dev_info *info = dev_info(j->w->dev);
    struct rw_options ro = {.allow = (const char *const *)o->allow,
                            .nallow = o->nallow,
                            .deny = (const char *const *)o->deny,
                            .ndeny = o->ndeny,
                            .budget_s = o->budget > 0 ? o->budget : DEFAULT_BUDGET_S,
                            .until_us = j->w->until_us,
                            .memory = o->memory,
                            .progress = wrk_progress,
                            .user = j->w};
    dt_free_ char *stamp = NULL, *policy = dtd_policy(o, "plan");
    if (!policy || asprintf(&stamp, "%s; %s", j->w->key, j->w->toolchain) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    ro.footprints = wrk_memo(j->w, CACHE_FOOTPRINTS);
    ro.library = wrk_memo(j->w, CACHE_TRIALS);
    ro.stamp = stamp;
    if (!o->nallow)
        ro.allow = NULL;
    if (o->whole)
        ro.whole = UINT64_MAX;
    json_t *analysis = j->ana_all ? NULL : ana_to_json(j->ana, info, j->signature, false);
    if (analysis && wrk_warn(analysis, &j->unordered) == 0)
        plan_store(j, "analysis", &plain, analysis, NULL); /* it is at hand, and explain will want it */
    json_decref(analysis);
    struct cache_key k = {"plan", j->signature, j->w->key, j->w->toolchain, policy};
    struct by by = {j, &k, &ro, ret_doc, ret_recipe, e};
    int r = wrk_share_plan(j->w, &k, plan_by_recipe, &by);
    if (r == 0)
        r = rw_plan_recipe(j->w->dev, j->prog, j->ana, &ro, j->signature, ret_doc, ret_recipe, e);
    wrk_memo_flush(j->w); /* what was tried was tried, whatever became of the plan */
    return r < 0 ? r : 0;
}

/* Does the cluster have it? The answer is wanted when the block maps are there. */
static void plan_ask(struct job *j)
{
    dt_free_ char *policy = dtd_policy(j->opt, "plan");
    struct cache_key k = {"plan", j->signature, j->w->key, j->w->toolchain, policy};
    if (policy)
        wrk_share_find(j->w, &k);
}

/* The document for want, from the cache or made. 1 hit, 0 made. */
static int plan_document(struct job *j, const char *want, json_t **ret, struct dt_err *e)
{
    struct dtd_lookup l = lookup_of(j, want);
    bool is_plan = !strcmp(want, "plan");
    int r = dtd_lookup(j->w->cache, &l, j->g, j->digest, j->signature, ret);
    if (r == 1)
        return 1;
    if (r < 0)
        return dt_err_set(e, r, "the graph has no digest: %s", dt_err_text(r));
    r = need_prog(j, e);
    if (r < 0)
        return r;
    l.computed = true;
    if (dtd_lookup_signature(j->w->cache, &l, j->g, j->digest, j->signature, ret) == 1) {
        json_t *gj = dt_graph_to_json(j->g);
        if (gj)
            cache_digest_put(j->w->cache, j->digest, l.arch, j->signature, gj, NULL);
        json_decref(gj);
        return 1;
    }
    if (is_plan)
        plan_ask(j);
    r = need_analysis(j, !is_plan && j->opt->all_edges, e);
    if (r < 0)
        return r;
    const struct dev_info *info = dev_info(j->w->dev);
    json_t *doc = NULL, *recipe = NULL;
    if (is_plan) {
        r = plan_one(j, &doc, &recipe, e);
    } else {
        doc = ana_to_json(j->ana, info, j->signature, j->opt->maps);
        r = doc ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory for the analysis document");
    }
    if (r >= 0 && wrk_warn(doc, &j->unordered) < 0) {
        json_decref(doc);
        json_decref(recipe);
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    if (r < 0)
        return r;
    plan_store(j, want, j->opt, doc, recipe);
    json_decref(recipe);
    if (dtd_warnings(doc, j->g) < 0 || dtd_plain(doc) < 0) {
        json_decref(doc);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    *ret = doc;
    return 0;
}

static int answer(struct wrk *w, json_t *graph, const struct dtd_options *o, const char *want, struct wrk_answer *a,
                  struct dt_err *e)
{
    struct job j = {0};
    int r = job_init(&j, w, graph, o, e);
    if (r >= 0)
        r = plan_document(&j, want, &a->document, e);
    if (r >= 0) {
        a->hit = r == 1;
        a->shared = w->by_cluster;
        snprintf(a->digest, sizeof a->digest, "%s", j.digest);
        snprintf(a->signature, sizeof a->signature, "%s", j.signature);
        int64_t id;
        if (w->cache)
            cache_last_row(w->cache, &id, a->generation);
    }
    job_done(&j);
    return r < 0 ? r : 0;
}

int wrk_analyze(struct wrk *w, json_t *graph, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    return answer(w, graph, o, "analysis", a, e);
}

int wrk_optimize(struct wrk *w, json_t *graph, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    return answer(w, graph, o, "plan", a, e);
}

/* Plan stored graphs again that have no plan of this device and toolchain, one after the other; one that fails does not
 * stop the others. */
int wrk_reprofile(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    json_int_t limit = json_integer_value(json_object_get(in, "limit")), planned = 0, failed = 0;
    json_t *list = NULL, *v;
    size_t i;
    int r = wrk_need_cache(w, e);
    w->afresh = true;
    if (r >= 0)
        r = wrk_open(w, e);
    if (r >= 0)
        r = cache_stale(w->cache, dev_info(w->dev)->arch, w->key, w->toolchain,
                        json_is_true(json_object_get(in, "stale")), NULL,
                        limit > 0 && limit <= 10000 ? (unsigned)limit : 100, &list, e);
    if (r < 0)
        return r;
    json_array_foreach (list, i, v) {
        struct wrk_answer one = {0};
        struct dt_err why = {0};
        json_t *graph = NULL;
        wrk_progress("reprofile", json_string_value(v), (unsigned)i, (unsigned)json_array_size(list), w);
        r = dtd_graph_get(w->cache, json_string_value(v), &graph, &why);
        if (r == 1)
            r = answer(w, graph, o, "plan", &one, &why);
        planned += r >= 0 && one.document;
        failed += r < 0 || !one.document;
        bool end = r < 0 && dtd_error_ends_worker(why.num);
        if (r < 0)
            dt_log(DT_LOG_WARN, "%s: %s", json_string_value(v), dt_err_code(why.num));
        json_decref(one.document);
        json_decref(graph);
        if (end) {
            json_decref(list);
            dt_err_move(e, &why);
            return e && e->num ? e->num : DT_E_DEVICE;
        }
        dt_err_done(&why);
    }
    a->document =
        json_pack("{s:I, s:I, s:I}", "due", (json_int_t)json_array_size(list), "planned", planned, "failed", failed);
    json_decref(list);
    return a->document ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

/* Which entry would have been hit by a hair, and what differs: the cause of a miss. Factors get the caller's names.
 * NULL: there is none. */
static json_t *nearest(struct job *j)
{
    dt_free_ char *policy = dtd_policy(j->opt, "plan");
    struct cache_key k = {"plan", j->signature, j->w->key, j->w->toolchain, policy};
    struct dt_canon canon;
    json_t *o = NULL, *v;
    size_t i;
    if (!j->w->cache || !policy ||
        cache_nearest(j->w->cache, &k, j->factors, j->opt->own_rows ? &j->opt->uid : NULL, &o, NULL) != 1)
        return NULL;
    bool names = dt_graph_canon(j->g, &canon) >= 0;
    json_array_foreach (json_object_get(o, "differs"), i, v) {
        const char *f = json_string_value(json_object_get(v, "factor"));
        char *end;
        unsigned long n = strtoul(f + 1, &end, 10);
        if (!names || end == f + 1 || *end != '.')
            continue;
        if (*f == 'l' && n < j->g->nlaunch)
            json_object_set_new(v, "name", json_string(j->g->launch[n].name));
        for (uint32_t b = 0; *f == 'b' && b < j->g->nbuffer; b++)
            if (canon.buffer[b] == n)
                json_object_set_new(v, "name", json_string(j->g->buffer[b].name));
    }
    return o;
}

static json_t *nearest_in_cluster(struct job *j)
{
    dt_free_ char *policy = dtd_policy(j->opt, "plan");
    struct cache_key k = {"plan", j->signature, j->w->key, j->w->toolchain, policy};
    return policy ? wrk_share_near(j->w, &k) : NULL;
}

/* Lines are those of the text that was posted: made each time, never stored. What cannot be compiled any more is
 * explained without them. */
static void reasons(struct job *j, json_t *analysis)
{
    struct dt_err why = {0};
    if (need_prog(j, &why) < 0 || ana_explain(j->prog, analysis, &why) < 0)
        dt_log(DT_LOG_WARN, "no reasons by line: %s", why.detail ? why.detail : dt_err_text(why.num));
    dt_err_done(&why);
}

/* Both documents, the analysis with reasons, the nearest other entry here and in the cluster, imported recipes of the
 * signature, and its factors. */
int wrk_explain(struct wrk *w, json_t *graph, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    struct job j = {0};
    json_t *analysis = NULL, *plan = NULL;
    int r = job_init(&j, w, graph, o, e), r2 = 0;
    if (r >= 0)
        r = plan_document(&j, "analysis", &analysis, e);
    if (r >= 0)
        r2 = plan_document(&j, "plan", &plan, e);
    if (r >= 0 && r2 >= 0)
        reasons(&j, analysis);
    if (r >= 0 && r2 >= 0) {
        a->hit = r == 1 && r2 == 1;
        snprintf(a->digest, sizeof a->digest, "%s", j.digest);
        snprintf(a->signature, sizeof a->signature, "%s", j.signature);
        a->document = json_pack("{s:s, s:s, s:b, s:O, s:O}", "signature", j.signature, "digest", j.digest, "cached",
                                a->hit, "analysis", analysis, "plan", plan);
        json_t *near = a->document ? nearest(&j) : NULL;
        if (near)
            json_object_set_new(a->document, "nearest", near);
        json_t *there = a->document ? nearest_in_cluster(&j) : NULL;
        if (there)
            json_object_set_new(a->document, "cluster", there);
        json_t *recipes = NULL; /* that were imported for it */
        if (a->document && w->cache && cache_recipes(w->cache, j.signature, NULL, RECIPES, &recipes, NULL) == 0 &&
            json_array_size(recipes))
            json_object_set(a->document, "recipes", recipes);
        json_decref(recipes);
        if (a->document && j.factors)
            json_object_set(a->document, "factors", j.factors);
        if (!a->document)
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    json_decref(analysis);
    json_decref(plan);
    job_done(&j);
    return r < 0 ? r : r2 < 0 ? r2 : 0;
}
