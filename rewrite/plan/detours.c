/* Detours: a rewrite that gains nothing by itself is kept if what comes after it makes up for it.
 *
 * The search keeps what gains at once, and for sure (choose.c). A slice of an underfilled product may gain in the model
 * and not for sure, and the GELU behind it gains only in its sliced form: then the search has neither. So when nothing
 * is left to try, the search goes on once more from before what was dropped by a hair:
 *
 *   take back the states that came after it was dropped, keep it all the same, and go on choosing from there
 *   if the result is faster for sure than the state before, and clearly better than the plan that there was, it is the
 *   plan
 *   else put everything back
 *
 *   which   kinds slice, tails and block fusion, built and dropped, whose time was at most NEAR times that of the state
 *           before; those that promise most first, at most TRIES, only in graphs of up to LAUNCHES launches and where
 *           times are modelled, and only as long as the budget lasts. Of a launch one kind is tried. In graphs on
 *           several streams parallel fusion as well, whose time was at most NEAR_JOINED times that: launches that run
 *           side by side gain little in one grid, and what comes behind the grid has one launch to wait for
 *
 * What is kept so is legal, verified and tried like anything else; all that it need not be is faster. It asks the model
 * twice: under all doubts, the plan is faster than what stood before the detour; without them, than the plan without
 * it. What is found is the plan that greedy choice would find if it saw one step further, not the best one.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 2
#define LAUNCHES 64
#define NEAR 1.002
#define NEAR_JOINED 1.1 /* of launches that ran side by side */
#define WORTH 0.995     /* of the plan without it: more, and it is not worth the doubt */

struct detour {
    const struct rw_rewrite *kind;
    unsigned level;
    size_t states; /* the states that there were */
    json_t *launches;
    double ratio;
};
struct detours {
    struct detour p[TRIES];
    unsigned n;
};

static bool joins(const struct rw_planner *p, const struct rw_entry *x)
{
    return p->state.p[0].graph->streams && !strcmp(x->kind, rw_parallel_fusion.name);
}

/* The kind of that name and the place of that level in it; NULL: there is none that may be a detour. */
static const struct rw_rewrite *detour_kind(const struct rw_planner *p, const struct rw_entry *x, unsigned *ret_level)
{
    static const struct rw_rewrite *const kinds[] = {&rw_slice, &rw_tails, &rw_block_fusion};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (unsigned l = 0; x->level && !strcmp(kinds[k]->name, x->kind) && kinds[k]->levels[l]; l++)
            if (!strcmp(kinds[k]->levels[l], x->level)) {
                *ret_level = l;
                return kinds[k];
            }
    *ret_level = 0;
    return joins(p, x) ? &rw_parallel_fusion : NULL;
}

/* Take it into the list, which is in order of promise. */
static void consider(const struct rw_planner *p, struct detours *v, const struct rw_entry *x)
{
    struct detour d = {.states = x->states, .launches = x->launches};
    unsigned at = v->n;
    if (x->verdict != RW_DROPPED || x->before_us <= 0 || x->after_us <= 0 ||
        x->after_us > (joins(p, x) ? NEAR_JOINED : NEAR) * x->before_us || !(d.kind = detour_kind(p, x, &d.level)))
        return;
    d.ratio = x->after_us / x->before_us;
    for (unsigned k = 0; k < v->n; k++) /* tails and slices of one launch */
        if (json_equal(v->p[k].launches, x->launches)) {
            if (v->p[k].ratio > d.ratio)
                v->p[k] = d;
            return;
        }
    while (at && v->p[at - 1].ratio > d.ratio)
        at--;
    if (at == TRIES)
        return;
    unsigned behind = v->n < TRIES ? v->n - at : TRIES - 1 - at;
    memmove(v->p + at + 1, v->p + at, behind * sizeof v->p[0]);
    v->p[at] = d;
    v->n += v->n < TRIES;
}

/* The numbers of those launches in the state, ascending as they were. False: one of them is not there. */
static bool launches_in(const struct rw_state *s, const json_t *names, uint32_t *launch)
{
    size_t i;
    json_t *name;
    json_array_foreach (names, i, name)
        if ((launch[i] = dt_graph_find_launch(s->graph, json_string_value(name))) == DT_NAME_NONE)
            return false;
    return true;
}

/* Was it worth it? 1: it is the plan now; 0: everything is as it was. */
static int decide(struct rw_planner *p, struct rw_saved *s, size_t base, struct dt_err *e)
{
    struct rw_state *was = s->state.n ? &s->state.p[s->state.n - 1] : &p->state.p[base],
                    *is = &p->state.p[p->state.n - 1];
    struct dt_str why = {0};
    bool some = !p->budget_spent && p->state.n > base + 2 && is->time.time_us < WORTH * was->time.time_us;
    int good = some ? rw_better(p, was, is, &why, e) : 0;
    if (good == 1)
        good = rw_faster(p, &p->state.p[base], is, &why, e);
    dt_str_done(&why);
    if (good == 1) {
        struct rw_entry *x = &p->entry.p[p->state.p[base + 1].entry];
        dt_str_addf(&why,
                    "%s%sby itself it is not faster for sure; with what came after it the plan takes %.2f us, "
                    "without it %.2f",
                    x->reason ? x->reason : "", x->reason ? "; " : "", is->time.time_us, was->time.time_us);
        free(x->reason);
        x->reason = rw_entry_reason(dt_str_take(&why));
        rw_saved_done(s);
    } else {
        rw_put_back(p, s);
    }
    return good;
}

static int detour_try(struct rw_planner *p, const struct detour *d, struct dt_err *e)
{
    size_t base = d->states - 1, n = json_array_size(d->launches);
    struct rw_way way = {.level = d->level, .module = p->nname, .detour = true};
    struct rw_saved s = {0};
    dt_free_ uint32_t *launch = dt_calloc(n + 1, sizeof *launch);
    if (!launch)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (!launches_in(&p->state.p[base], d->launches, launch))
        return 0;
    if (!rw_take_back(p, base + 1, &s))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = rw_try_anyway(p, d->kind, launch, (uint32_t)n, &way, e);
    if (r == 1)
        r = rw_all_rounds(p, e);
    if (r < 0) {
        rw_put_back(p, &s);
        return r;
    }
    return decide(p, &s, base, e);
}

int rw_detours(struct rw_planner *p, struct dt_err *e)
{
    struct detours v = {0};
    if (p->state.p[0].graph->nlaunch > LAUNCHES || RW_FORCED || rw_measures(p))
        return 0;
    for (size_t k = 0; k < p->entry.n; k++)
        if (p->entry.p[k].states && p->entry.p[k].states <= p->state.n &&
            !rw_banned(p, p->entry.p[k].kind, p->entry.p[k].launches))
            consider(p, &v, &p->entry.p[k]);
    for (unsigned k = 0; k < v.n; k++)
        json_incref(v.p[k].launches);
    int r = 0;
    /* one that is kept ends it: of the others nobody knows any more from where to go on */
    for (unsigned k = 0; k < v.n && r == 0 && !p->budget_spent; k++)
        r = detour_try(p, &v.p[k], e);
    for (unsigned k = 0; k < v.n; k++)
        json_decref(v.p[k].launches);
    return r < 0 ? r : 0;
}
