/* Recipes: a recipe says which rewrites made a plan. From it the plan can be made again without the search.
 *
 *   {"steps": [{"kind": "block-fusion", "level": "cluster", "way": 0, "size": 4, "launches": [2, 3], "module": 1}, …]}
 *
 * A step is a rewrite that was kept; the steps are in order. It has the rewrite's kind; the level and, since two levels
 * are called `register`, the level's place among those of its kind (`way`); the launches that the rewrite took, as
 * numbers in the list that the steps before have left (numbers, so that no names matter); the blocks of a cluster, if
 * the rewrite made clusters (`size`); the number in the name of its first module (`module`; 1 for f1); and whether it
 * gained nothing by itself (`detour`; then the plan as a whole has to be faster than the posted graph). A rewrite is
 * a function of the state, the launches and the level, so everything else follows from these and the graph. Two things
 * depend on times. One is the cluster's size, which the step has. The other is the order of launches that stand side by
 * side, which it does not have: where times are measured, that order may come out differently, and then the plan
 * differs.
 *
 * A recipe may come from anyone. It is a list of what to try and nothing else. Each step must be a candidate that its
 * rewrite proposes in that state, and passes facts, legality, assembler, trial and comparison as in a search (choose.c:
 * rw_try). The plan passes the whole gate. The first step that cannot be made ends the recipe. So a recipe can lead to
 * a plan that is worse than the best one, but never to a wrong plan, or to one that is slower than the posted launches.
 * There may be at most STEPS steps, and they get half of the budget.
 *
 * This file does not know which digest the plan must have (cache/recipe.c), who brought the recipe, or what happens to
 * a recipe that fails (daemon/worker/recipe.c).
 */
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#define STEPS(nlaunch) (4 * (size_t)(nlaunch) + 16)
#define MODULES 1000000

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* How many blocks a cluster has in the launch that the step made. */
static uint32_t cluster_of(const struct rw_state *next)
{
    for (uint32_t k = 0; k < next->graph->nlaunch; k++)
        if (next->from[k] == UINT32_MAX) {
            const uint32_t *c = next->graph->launch[k].cluster;
            return c[0] * c[1] * c[2];
        }
    return 0;
}

json_t *rw_step_json(const struct rw_rewrite *w, unsigned level, const uint32_t *launch, uint32_t n, unsigned module,
                     const struct rw_state *next)
{
    json_t *o = json_pack("{s:s, s:I}", "kind", w->name, "module", (json_int_t)module), *list = json_array();
    bool ok = o && list;
    if (ok && w->levels)
        ok = json_object_set_new(o, "level", json_string(w->levels[level])) == 0 &&
             json_object_set_new(o, "way", json_integer(level)) == 0;
    if (ok && w == &rw_cluster_fusion)
        ok = json_object_set_new(o, "size", json_integer(cluster_of(next))) == 0;
    for (uint32_t k = 0; ok && k < n; k++)
        ok = json_array_append_new(list, json_integer(launch[k])) == 0;
    ok = ok && json_object_set(o, "launches", list) == 0;
    json_decref(list);
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *rw_recipe_json(const struct rw_planner *p)
{
    json_t *list = json_array();
    bool ok = list;
    for (size_t k = 1; ok && k < p->state.n - p->laid; k++)
        ok = p->state.p[k].step && json_array_append(list, p->state.p[k].step) == 0;
    json_t *o = ok ? json_pack("{s:O}", "steps", list) : NULL;
    json_decref(list);
    return o;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

struct step {
    const struct rw_rewrite *kind;
    struct rw_way way;
    uint32_t *launch, n;
};

/* Read a whole number from lo to hi; `none` if it is missing. False: it is something else. */
static bool recipe_number(const json_t *o, const char *name, json_int_t none, json_int_t lo, json_int_t hi,
                          uint32_t *ret)
{
    const json_t *v = json_object_get(o, name);
    json_int_t n = v ? json_integer_value(v) : none;
    *ret = (uint32_t)n;
    return !v || (json_is_integer(v) && n >= lo && n <= hi);
}

/* The rewrite of that kind whose level at that place has that name; NULL: there is none. */
static const struct rw_rewrite *rewrite_of(const char *kind, const char *level, uint32_t place)
{
    for (unsigned k = 0; kind && k < rw_nregistry; k++) {
        const struct rw_rewrite *w = rw_registry[k];
        uint32_t n = 0;
        while (w->levels && w->levels[n])
            n++;
        if (!strcmp(w->name, kind) &&
            (w->levels ? level && place < n && !strcmp(w->levels[place], level) : !level && !place))
            return w;
    }
    return NULL;
}

static bool launches_of(const json_t *list, uint32_t nlaunch, struct step *s)
{
    for (s->n = 0; s->n < json_array_size(list); s->n++) {
        const json_t *v = json_array_get(list, s->n);
        json_int_t k = json_integer_value(v);
        if (!json_is_integer(v) || k < 0 || k >= (json_int_t)nlaunch || (s->n && k <= (json_int_t)s->launch[s->n - 1]))
            return false;
        s->launch[s->n] = (uint32_t)k; /* ascending, so there are at most nlaunch of them */
    }
    return s->n > 0;
}

/* Read one step. Returns NULL, or what is wrong with it. s->launch has room for nlaunch numbers. */
static const char *read_step(const struct rw_planner *p, const json_t *v, uint32_t nlaunch, struct step *s)
{
    uint32_t place;
    const json_t *level = json_object_get(v, "level");
    if (!json_is_object(v) || !recipe_number(v, "way", 0, 0, 99, &place) || (level && !json_is_string(level)))
        return "it is no step";
    s->kind = rewrite_of(json_string_value(json_object_get(v, "kind")), json_string_value(level), place);
    if (!s->kind)
        return "there is no such rewrite";
    if (!rw_kind_allowed(p->opt, s->kind))
        return "this rewrite is not allowed here";
    s->way.level = place;
    const json_t *detour = json_object_get(v, "detour");
    if (detour && !json_is_boolean(detour))
        return "it is no step";
    s->way.detour = json_is_true(detour);
    if (!recipe_number(v, "module", 0, 0, MODULES, &s->way.module))
        return "there are no modules of that number";
    if (!recipe_number(v, "size", 0, 2, RW_CLUSTER_MAX, &s->way.size) || (s->way.size && s->kind != &rw_cluster_fusion))
        return "there are no clusters of that size";
    return launches_of(json_object_get(v, "launches"), nlaunch, s)
               ? NULL
               : "its launches are not numbers of launches, ascending";
}

/* A recipe with detours is as good as its end. */
static int worth_it(struct rw_planner *p, struct dt_err *e)
{
    struct dt_str why = {0};
    int r = rw_faster(p, &p->state.p[0], &p->state.p[p->state.n - 1], &why, e);
    if (r == 0)
        dt_str_addf(&p->strayed, "with its detours the plan is not faster for sure%s%s", why.len ? ": " : "",
                    why.len ? why.s : "");
    dt_str_done(&why);
    return r < 0 ? r : 0;
}

static int recipe_follow(struct rw_planner *p, const json_t *steps, struct dt_err *e)
{
    size_t n = json_array_size(steps);
    bool detours = false;
    for (size_t k = 0; k < n; k++) {
        uint32_t nlaunch = p->state.p[p->state.n - 1].graph->nlaunch;
        struct step s = {.launch = dt_calloc((size_t)nlaunch + 1, sizeof *s.launch)};
        struct dt_str why = {0};
        const char *kind = json_string_value(json_object_get(json_array_get(steps, k), "kind"));
        if (!s.launch)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        int normal = kind ? rw_normal_at(p, kind) : -1;
        if (normal >= 0) { /* made before this, if there are any */
            free(s.launch);
            if ((size_t)normal != k + 1) {
                dt_str_addf(&p->strayed, "step %zu of %zu, %s: there are none here", k + 1, n, kind);
                return 0;
            }
            continue;
        }
        rw_say(p->opt, "recipe", (unsigned)k, (unsigned)n);
        const char *wrong =
            rw_late(p) ? "half of the budget is spent" : read_step(p, json_array_get(steps, k), nlaunch, &s);
        int r = wrong ? 0 : rw_try(p, s.kind, s.launch, s.n, &s.way, &why, e);
        free(s.launch);
        if (r == 0)
            dt_str_addf(&p->strayed, "step %zu of %zu%s%s: %s", k + 1, n, s.kind ? ", " : "",
                        s.kind ? s.kind->name : "",
                        wrong   ? wrong
                        : why.s ? why.s
                                : "");
        dt_str_done(&why);
        if (r <= 0)
            return r;
        detours |= s.way.detour;
    }
    return detours && p->state.n > 1 ? worth_it(p, e) : 0;
}

int rw_follow(struct rw_planner *p, struct dt_err *e)
{
    const json_t *steps = json_object_get(p->recipe, "steps");
    size_t most = STEPS(p->state.p[0].graph->nlaunch);
    if (!json_is_array(steps))
        dt_str_add(&p->strayed, "it has no list of steps");
    else if (json_array_size(steps) > most)
        dt_str_addf(&p->strayed, "it has %zu steps; for so many launches there are at most %zu", json_array_size(steps),
                    most);
    return p->strayed.len ? 0 : recipe_follow(p, steps, e);
}

void rw_followed(struct rw_planner *p)
{
    const json_t *steps = json_object_get(p->recipe, "steps");
    const char *why = NULL;
    if (p->strayed.len || (json_is_array(steps) && p->state.n - 1 - p->laid == json_array_size(steps)))
        return;
    for (size_t k = 0; k < p->entry.n; k++)
        if (p->entry.p[k].verdict != RW_KEPT)
            why = p->entry.p[k].reason;
    dt_str_add(&p->strayed, why ? why : "there is nothing here that could be rewritten");
}
