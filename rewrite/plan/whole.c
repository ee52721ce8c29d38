/* The planning of one graph, from its reference run to the verified plan (rw_choose).
 *
 *   take apart   normal form, where there is one (normal.c)
 *   reference    what the posted graph computes, and what trials need of it
 *   search       all rounds of tries (choose.c), or a recipe's steps; then a second look (rivals.c, detours.c)
 *   layout       intermediates share storage again
 *   verify       the newest state in full against the original. While that fails, the newest state is dropped; so the
 *                state that is returned has always passed
 *   measure      a real device only: the plan beside the posted launches
 *
 * p->again: what came to light asks for another planning, without normal form or without the library; plan.c starts it.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/subject.h"

/* Costs that the library had, against those of the gate's own run: false where one is another. */
static bool library_right(const struct rw_state *s, const struct dev_cost *ran)
{
    for (uint32_t l = 0; s->cost && l < s->graph->nlaunch; l++)
        if (s->cost[l].kept && (s->cost[l].instructions != ran[l].instructions ||
                                memcmp(s->cost[l].work, ran[l].work, sizeof ran[l].work)))
            return false;
    return true;
}

/* What trials know of a state goes with it. */
static void drop_newest(struct rw_planner *p)
{
    struct rw_state *top = &p->state.p[p->state.n - 1];
    if (p->gate.snaps && rw_snaps_ana(p->gate.snaps) == top->ana)
        p->gate.snaps = rw_snaps_free(p->gate.snaps);
    rw_state_done(top);
    p->state.n--;
}

/* The inputs with special values: of a large graph region by region where that is enough, and then the whole runs on
 * the first one alone. *ret: on how many it is to run. */
static int other_inputs(struct rw_planner *p, unsigned inputs, unsigned *ret, struct dt_err *e)
{
    const struct rw_state *plan = &p->state.p[p->state.n - 1 - p->laid];
    bool pass = false;
    int r = 0;
    *ret = inputs;
    if (!rw_reference_later(p->gate.ref) || inputs < 2)
        return 0;
    rw_say(p->opt, "regions", 0, 1);
    r = rw_regions_check(&p->gate, p->state.p[0].prog, plan, inputs, &pass, e);
    if (r == 0 && pass)
        *ret = 1;
    else if (r == 0)
        r = rw_reference_rest(p->gate.ref, e);
    return r;
}

struct last_look { /* other inputs and the whole, beside what the document needs */
    struct rw_planner *p;
    unsigned inputs, schedules, *whole;
    bool seen;
    struct dev_cost *ran;
    struct dt_err *e;
    int r;
};

static void last_half(void *user, size_t k)
{
    struct last_look *w = user;
    const struct rw_state *top = &w->p->state.p[w->p->state.n - 1];
    if (k == 1)
        rw_assemble_ahead(w->p);
    else if ((w->r = other_inputs(w->p, w->inputs, w->whole, w->e)) == 0)
        w->r = rw_verify_plan(w->p->dev, w->p->gate.ref, top->prog, top->ana, *w->whole, w->schedules, w->seen, w->ran,
                              w->e);
}

/* The newest state: its block orders, other inputs, and the whole. What launches leave that ran in all orders alone is
 * not looked at again (`seen`); that they do is assumed until the orders have run beside the rest. *ret_whole: how many
 * inputs ran whole. */
static int verify_newest(struct rw_planner *p, unsigned inputs, unsigned schedules, struct dev_cost *ran,
                         unsigned *ret_whole, struct dt_err *e)
{
    struct rw_state *top = &p->state.p[p->state.n - 1];
    struct rw_orders_aside aside;
    struct dt_err mine = {0};
    bool beside = rw_orders_aside(&p->gate, top - p->laid, &aside);
    int orders = beside ? 0 : rw_orders_rest(&p->gate, top - p->laid, e);
    if (orders < 0)
        return orders;
    bool seen = !p->unseen && orders == 0;
    struct last_look look = {p, inputs, schedules, ret_whole, seen, ran, &mine, 0};
    dt_parallel(2, 2, last_half, &look);
    int r = look.r;
    orders = beside ? rw_orders_joined(&aside, e) : 0;
    if (orders == 1 && r == 0 && seen)
        r = rw_verify_plan(p->dev, p->gate.ref, top->prog, top->ana, *ret_whole, schedules, false, ran, &mine);
    if (orders >= 0 && r < 0)
        dt_err_move(e, &mine);
    dt_err_done(&mine);
    return orders < 0 ? orders : r;
}

static int verify_final(struct rw_planner *p, unsigned inputs, unsigned schedules, struct dt_err *e)
{
    while (p->state.n > 1) {
        struct rw_state *top = &p->state.p[p->state.n - 1];
        struct dt_err bad = {0};
        rw_say(p->opt, "verify", 0, 1);
        dt_free_ struct dev_cost *ran = p->gate.from_library ? dt_calloc(top->graph->nlaunch + 1, sizeof *ran) : NULL;
        if (p->gate.from_library && !ran)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        unsigned whole = inputs;
        int r = rw_waits_check(p->dev, top->prog, top->ana, p->state.p[0].prog, &bad);
        if (r == 0)
            r = verify_newest(p, inputs, schedules, ran, &whole, &bad);
        if (p->gate.from_library && !rw_fatal(r) && (r < 0 || !library_right(top, ran))) {
            p->again = true; /* whatever is wrong, it is looked for without what others found */
            dt_err_done(&bad);
            return 0;
        }
        if (r == 0 && p->gate.sample) {
            struct rw_sample *part = NULL;
            if ((r = rw_sample_of(p->gate.sample, p->state.p[0].graph, top->ana, &part, e)) < 0)
                return r;
            p->sampled[0] = part->blocks;
            p->sampled[1] = part->of;
            rw_sample_free(part);
        }
        if (r == 0) {
            p->by_region = whole < inputs;
            p->verified_inputs = p->by_region ? inputs : rw_reference_inputs(p->gate.ref);
            p->verified_schedules = schedules;
            return 0;
        }
        if (rw_fatal(r)) {
            dt_err_move(e, &bad);
            return r;
        }
        if (p->laid) { /* with its versions as they are */
            rw_bundle(p->state.p[0].prog, top->prog, bad.detail ? bad.detail : "");
            dt_err_done(&bad);
            drop_newest(p);
            p->laid = false;
            continue;
        }
        /* the newest rewrite goes, and what was decided after it with it */
        struct rw_entry *x = &p->entry.p[top->entry];
        rw_bundle(p->state.p[0].prog, top->prog, bad.detail ? bad.detail : "");
        free(x->reason);
        struct dt_str why = {0};
        dt_str_addf(&why, DT_ROW("verification") ": %s", bad.detail ? dt_err_words(&bad) : "the results differ");
        x->reason = rw_entry_reason(dt_str_take(&why));
        x->verdict = RW_REFUSED;
        dt_err_done(&bad);
        drop_newest(p);
    }
    return 0; /* no change: the plan is the original */
}

/* The plan's times and the posted launches' from one measurement; if that does not find it faster, nothing is
 * changed. */
static int measure_final(struct rw_planner *p, struct dt_err *e)
{
    struct rw_state *first = &p->state.p[0], *last = &p->state.p[p->state.n - 1];
    struct dt_str why = {0};
    rw_say(p->opt, "measure", 0, 1);
    int r = rw_faster_now(p, first, last, &why, e);
    double plan_us = last->time.time_us;
    if (r == 0 && p->known && !p->noisy) { /* what the library knew does not hold here */
        p->again = true;
        dt_str_done(&why);
        return 0;
    }
    while (r == 0 && p->state.n > 1) {
        struct rw_state *s = &p->state.p[p->state.n - 1];
        struct rw_entry *x = &p->entry.p[s->entry];
        struct dt_str text = {0};
        dt_str_addf(&text, "it gained, but the plan beside the posted launches: measured %.2f → %.2f us%s%s",
                    first->time.time_us, plan_us, why.len ? "; " : "", why.len ? why.s : "");
        free(x->reason);
        x->reason = dt_str_take(&text);
        x->verdict = RW_DROPPED;
        rw_state_done(s);
        p->state.n--;
    }
    dt_str_done(&why);
    return r < 0 ? r : 0;
}

/* See that the normal form leaves what the posted graph does, launch by launch; where that cannot be said, it runs as a
 * whole for what trials need. If it does not, there is no normal form. */
static int check_apart(struct rw_planner *p, struct dt_err *e)
{
    struct dt_err bad = {0};
    struct rw_state *s = rw_newest_normal(p);
    dt_free_ bool *other = dt_calloc((size_t)s->graph->nlaunch + 1, sizeof *other);
    bool soft = dev_info(p->dev)->soft && !p->gate.sample;
    int r = other ? 0 : dt_err_set(&bad, DT_E_NOMEM, "out of memory");
    for (uint32_t l = 0; r == 0 && l < s->graph->nlaunch; l++)
        other[l] = rw_other_kernel(p, l);
    if (r == 0 && p->gate.snaps)
        r = rw_snaps_check(&p->gate, other, &bad);
    if (r == 0 || (r < 0 && !rw_fatal(r))) {
        dt_err_done(&bad);
        p->gate.snaps = rw_snaps_free(p->gate.snaps);
        r = soft ? rw_reference_snaps(p->dev, p->gate.ref, s->prog, s->ana, &p->gate.snaps, &bad)
                 : rw_verify_plan(p->dev, p->gate.ref, s->prog, s->ana, 1, 0, false, NULL, &bad);
    }
    if (r < 0 && rw_fatal(r)) {
        dt_err_move(e, &bad);
        return r;
    }
    if (r < 0) { /* plan anew without them: what trials need is of the posted graph then */
        rw_bundle(p->state.p[0].prog, s->prog, bad.detail ? bad.detail : "");
        struct dt_str *none[] = {&p->no_calls, &p->no_versions, &p->no_copies};
        for (int k = 0; k < 3; k++)
            dt_str_addf(none[k], DT_ROW("verification") ": %s", bad.detail ? dt_err_words(&bad) : "the results differ");
        p->as_posted = p->again = true;
    }
    dt_err_done(&bad);
    return 0;
}

/* What the posted graph computes, and what trials need of the graph that they refer to. */
static int reference(struct rw_planner *p, unsigned inputs, struct dt_err *e)
{
    struct rw_state *first = &p->state.p[0];
    struct rw_placed at = {0};
    bool apart = rw_newest_normal(p) != NULL;
    int r = apart ? rw_place(p, &at, e) : 0;
    if (r == 0)
        r = rw_reference_checked(p->dev, first->prog, inputs, first->ana, p->gate.sample, p->gate.sampled_cost,
                                 &p->gate.original, apart ? &at : NULL, &p->gate.ref, &p->gate.snaps, e);
    rw_placed_done(&at);
    return r == 0 && apart ? check_apart(p, e) : r;
}

/* Each rewrite gained on the state before it. Does the plan as a whole, normal form and layout with it, gain on the
 * posted graph? 0: no, and it is planned anew without them. */
static int gains_together(struct rw_planner *p, struct dt_err *e)
{
    struct dt_str why = {0};
    int r = rw_measures(p) || RW_FORCED ? 1 : rw_faster(p, &p->state.p[0], &p->state.p[p->state.n - 1], &why, e);
    if (r == 0) {
        p->as_posted = p->again = true;
        p->apart_us = p->state.p[p->state.n - 1].time.time_us;
        struct dt_str *none[] = {&p->no_calls, &p->no_versions, &p->no_copies};
        for (int k = 0; k < 3; k++) {
            dt_str_done(none[k]);
            dt_str_addf(none[k], "the plan as a whole is not faster for sure%s%s", why.len ? ": " : "",
                        why.len ? why.s : "");
        }
    }
    dt_str_done(&why);
    return r;
}

/* On several streams: where all that was kept gains nothing beside other work, in the end, nothing is changed. */
static void drop_idle(struct rw_planner *p)
{
    size_t from = p->state.n;
    while (from > 1 && p->state.p[from - 1].idle)
        from--;
    if (from == p->state.n || (from > 1 && rw_normal_at(p, p->entry.p[p->state.p[from - 1].entry].kind) < 0))
        return;
    for (; p->state.n > from; p->state.n--) {
        struct rw_entry *x = &p->entry.p[p->state.p[p->state.n - 1].entry];
        x->verdict = RW_DROPPED;
        rw_state_done(&p->state.p[p->state.n - 1]);
    }
}

int rw_choose(struct rw_planner *p, struct dt_err *e)
{
    unsigned inputs = p->opt->inputs ? p->opt->inputs : 3, schedules = p->opt->schedules ? p->opt->schedules : 8;
    int r = rw_take_apart(p, e);
    if (r < 0)
        return r;
    struct rw_state *first = &p->state.p[0];
    r = rw_sample_choose(p->dev, first->prog, first->ana, p->opt->whole, &p->gate.sample, &p->gate.sampled_cost, e);
    if (r < 0)
        return r;
    int some = p->versions.n || p->calls.v.n || p->copies.v.n ? 1 : rw_any_candidate(p, e);
    if (some < 0)
        return some;
    r = some ? reference(p, inputs, e)
             : rw_original_check(p->dev, first->prog, first->ana, p->gate.sample, p->gate.sampled_cost, NULL, false,
                                 &p->gate.original, e);
    if (r == 0 && p->again)
        return 0;
    if (r < 0 || (r = rw_state_first(p, first, e)) < 0 || !some)
        return r;
    if (!rw_has_outputs(first->graph))
        return rw_refuse_all(
            p, DT_ROW("no-output") ": no buffer is an output or inout, so no rewrite could be verified", e);
    if ((r = rw_apart(p, e)) < 0)
        return r;
    unsigned whole = rw_budget_orders(p, schedules);
    p->gate.orders = whole < schedules ? schedules : RW_TRIAL_ORDERS;
    /* it comes after the tries */
    rw_budget_reserve(p, rw_reference_later(p->gate.ref) ? 1 : inputs, whole);
    r = p->recipe ? rw_follow(p, e) : rw_all_rounds(p, e);
    if (r == 0 && !p->recipe)
        r = rw_rivals(p, e);
    if (r == 0 && !p->recipe)
        r = rw_detours(p, e);
    if (r == 0 && !p->recipe)
        r = rw_by_roles(p, e);
    if (r < 0 || p->strayed.len)
        return r;
    drop_idle(p);
    rw_together(p);
    if ((r = rw_lay_out(p, e)) < 0)
        return r;
    if (!rw_memory_fits(p))
        return 0;
    rw_not_guessed(&p->state.p[p->state.n - 1]);
    if ((rw_is_called(p) || rw_is_apart(p) || rw_is_moved(p)) && (r = gains_together(p, e)) <= 0)
        return r;
    /* what a race leaves is another thing in another order: what is new was tried in several alone */
    if ((r = verify_final(p, inputs, p->gate.original.races ? 0 : whole, e)) == 0 && p->state.n > 1 && !p->again &&
        rw_measures(p))
        r = measure_final(p, e);
    return r;
}
