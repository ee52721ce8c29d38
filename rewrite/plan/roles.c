/* By roles: the search once more, from launches that are taken apart by what their blocks do (kinds/roles.c).
 *
 * Taking a launch apart makes one launch more, and gains only by what comes after it: a consumer that needs one role
 * alone goes into its stores, a role that nobody reads is not launched, what is left goes side by side again. So the
 * search tries it, drops it as slower, and when all is done does it all the same:
 *
 *   take back everything after normal form; take apart every launch that has roles; go on choosing from there
 *   if the result is clearly better than the plan that there was, and faster for sure than what stood before, it is the
 *   plan
 *   else put everything back
 *
 * As in detours.c, of which this is one: of all such launches at once, whatever they lose at first. Where times are
 * modelled, in graphs of up to LAUNCHES launches, as long as the budget lasts.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#define LAUNCHES 64
#define WORTH 0.97 /* of the plan without it: that the roles stand side by side in another order is no reason */

/* The names of the launches that have roles in the first state of the search; NULL: there are none, or e says why. */
static json_t *roles_names(const struct rw_planner *p, const struct rw_state *s, struct dt_err *e)
{
    struct rw_proposals l = {0};
    int r = rw_roles.propose(s, p->opt, &l, e);
    json_t *names = r == 0 && l.v.n ? json_array() : NULL;
    for (size_t k = 0; names && k < l.v.n; k++)
        json_array_append_new(names, json_string(s->graph->launch[l.v.p[k].launch[0]].name));
    free(l.v.p);
    dt_arena_done(&l.arena);
    return names;
}

/* Take apart those of them that may be. How many; negative: error. */
static int roles_apart(struct rw_planner *p, const json_t *names, struct dt_err *e)
{
    int n = 0;
    size_t k;
    json_t *name;
    json_array_foreach (names, k, name) {
        struct rw_way way = {.module = p->nname, .detour = true};
        uint32_t launch = dt_graph_find_launch(p->state.p[p->state.n - 1].graph, json_string_value(name));
        int r = launch == DT_NAME_NONE || rw_late(p) ? 0 : rw_try_anyway(p, &rw_roles, &launch, 1, &way, e);
        if (r < 0)
            return r;
        n += r;
    }
    return n;
}

/* What its entries say. */
static int roles_say(struct rw_planner *p, size_t base, double is_us, double was_us, struct dt_err *e)
{
    for (size_t k = base; k < p->state.n; k++) {
        struct rw_entry *x = &p->entry.p[p->state.p[k].entry];
        struct dt_str why = {0};
        if (strcmp(x->kind, rw_roles.name) != 0)
            continue;
        dt_str_addf(&why,
                    "by itself it is not faster for sure; with what came after it the plan takes %.2f us, without it "
                    "%.2f",
                    is_us, was_us);
        char *text = rw_entry_reason(dt_str_take(&why));
        if (!text)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        free(x->reason);
        x->reason = text;
    }
    return 0;
}

/* Was it worth it? 1: it is the plan now; 0: everything is as it was. */
static int roles_decide(struct rw_planner *p, struct rw_saved *s, size_t base, int n, struct dt_err *e)
{
    const struct rw_state *last = &p->state.p[p->state.n - 1];
    struct rw_state *was = s->state.n ? &s->state.p[s->state.n - 1] : &p->state.p[base - 1];
    struct dt_str why = {0};
    double is_us = last->time.time_us, was_us = was->time.time_us;
    bool some = n > 0 && !p->budget_spent && is_us < WORTH * was_us;
    int good = some ? rw_better(p, was, &p->state.p[p->state.n - 1], &why, e) : 0;
    if (good == 1)
        good = rw_faster(p, &p->state.p[base - 1], &p->state.p[p->state.n - 1], &why, e);
    dt_str_done(&why);
    if (good == 1) {
        rw_saved_done(s);
        int r = roles_say(p, base, is_us, was_us, e);
        return r < 0 ? r : 1;
    }
    rw_put_back(p, s);
    return good;
}

int rw_by_roles(struct rw_planner *p, struct dt_err *e)
{
    size_t base = 1 + (size_t)rw_is_called(p) + (size_t)rw_is_apart(p) + (size_t)rw_is_moved(p);
    struct rw_saved s = {0};
    struct dt_err mine = {0};
    if (p->state.p[0].graph->nlaunch > LAUNCHES || RW_FORCED || rw_measures(p) || p->budget_spent ||
        !rw_kind_allowed(p->opt, &rw_roles))
        return 0;
    json_t *names = roles_names(p, &p->state.p[base - 1], &mine);
    if (!names) {
        bool failed = mine.detail != NULL;
        if (failed)
            dt_err_move(e, &mine);
        dt_err_done(&mine);
        return failed ? DT_E_NOMEM : 0;
    }
    if (!rw_take_back(p, base, &s)) {
        json_decref(names);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    int n = roles_apart(p, names, e), r = n < 0 ? n : 0;
    json_decref(names);
    if (n > 0)
        r = rw_all_rounds(p, e);
    if (r == 0 && n > 0)
        r = rw_rivals(p, e);
    if (r < 0) {
        rw_put_back(p, &s);
        return r;
    }
    r = roles_decide(p, &s, base, n, e);
    return r < 0 ? r : 0;
}
