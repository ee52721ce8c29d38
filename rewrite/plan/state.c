/* States of a planning: the posted graph, and each graph that a kept rewrite made of the one before.
 *
 * The state of a candidate borrows what the newest state knows: modules (dev_prog_derive), costs of launches that stay,
 * and for each launch which launches of the original it stands for. On the software device a state's time is modelled
 * from its launches' costs, and nothing runs; so are the times that it would have if the model were wrong in one of the
 * ways that are thought of (rw_state_doubts). On a real one it is measured beside another state's (compare.c); that of
 * the posted graph is measured once alone.
 */
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

void rw_state_done(struct rw_state *s)
{
    if (!s->borrowed) {
        ana_free(s->ana);
        dev_prog_free(s->prog);
        dt_graph_free(s->graph);
    }
    json_decref(s->doc);
    json_decref(s->step);
    free(s->step_us);
    free(s->begin_us);
    free(s->end_us);
    free(s->cost);
    free(s->member);
    free(s->racy);
    free(s->made);
    free(s->doubt_us);
    free(s->from);
    memset(s, 0, sizeof *s);
}

static bool all_known(const struct rw_state *s)
{
    bool known = s->cost != NULL;
    for (uint32_t k = 0; known && k < s->graph->nlaunch; k++)
        known = s->cost[k].known || s->graph->launch[k].kind != DT_KERNEL;
    return known;
}

/* Run the graph once, step by step, for the costs of its launches. */
static int state_costs(struct rw_planner *p, struct rw_state *s, struct dt_err *e)
{
    struct dev_run *run = NULL;
    if (!s->cost && !(s->cost = dt_calloc(s->graph->nlaunch + 1, sizeof *s->cost)))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = dev_run_new(p->dev, s->prog, &run, e);
    if (r == 0)
        r = dev_run_fill(run, 0, -1, e);
    for (uint32_t k = 0; k < s->graph->nlaunch && r == 0; k++)
        if ((r = dev_run_step(run, k, e)) == 0)
            r = dev_run_cost(run, k, &s->cost[k], e);
    dev_run_free(run);
    return rw_recover(p->dev, r, e);
}

/* From the launches' costs on the software device; on a real one by running the graph. */
int rw_state_time(struct rw_planner *p, struct rw_state *s, struct dt_err *e)
{
    struct dev_run *run = NULL;
    bool soft = dev_info(p->dev)->soft;
    int r = 0;
    free(s->doubt_us);
    s->doubt_us = NULL;
    free(s->step_us);
    s->step_us = dt_calloc(s->graph->nlaunch + 1, sizeof *s->step_us);
    free(s->begin_us);
    free(s->end_us);
    s->begin_us = dt_calloc(s->graph->nlaunch + 1, sizeof *s->begin_us);
    s->end_us = dt_calloc(s->graph->nlaunch + 1, sizeof *s->end_us);
    if (!s->step_us || !s->begin_us || !s->end_us)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (soft) {
        if (!all_known(s))
            r = state_costs(p, s, e);
        return r ? r
                 : dev_model_time(p->dev, s->prog, s->cost, s->made, 0, &s->time, s->step_us, s->begin_us, s->end_us,
                                  e);
    }
    if ((r = dev_run_new(p->dev, s->prog, &run, e)) < 0 || (r = dev_run_fill(run, 0, -1, e)) < 0 ||
        (r = dev_run_once(run, e)) < 0 || (r = dev_run_time(run, 30, &s->time, s->step_us, e)) < 0) {
        dev_run_free(run);
        return rw_recover(p->dev, r, e);
    }
    for (uint32_t k = 0; k < s->graph->nlaunch; k++) {
        s->begin_us[k] = k ? s->end_us[k - 1] : 0;
        s->end_us[k] = s->begin_us[k] + s->step_us[k];
    }
    dev_run_free(run);
    return 0;
}

int rw_state_doubts(struct rw_planner *p, struct rw_state *s, struct dt_err *e)
{
    unsigned n = 0;
    if (s->doubt_us || !all_known(s))
        return 0;
    while (dev_doubt(p->dev, n, &(bool){false}))
        n++;
    double *us = dt_calloc(n + 1, sizeof *us);
    if (!us)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = dev_model_doubts(p->dev, s->prog, s->cost, s->made, n, us, e);
    if (r < 0) {
        free(us);
        return r;
    }
    us[0] = s->time.time_us;
    for (unsigned k = 1; k < n; k++)
        us[k] = us[k] < 0 ? us[0] : us[k];
    s->doubt_us = us;
    return 0;
}

/* Launch `at` stands for one of `now`, perhaps among others. */
static void stands_for(struct rw_state *s, uint32_t at, const struct rw_state *now, uint32_t launch, size_t words)
{
    for (size_t w = 0; w < words; w++)
        s->member[at * words + w] |= now->member[launch * words + w];
    if (s->racy)
        s->racy[at] |= now->racy[launch];
    if (now->made)
        s->made[at] |= now->made[launch];
}

/* A part before it prefetches bytes that it reads. */
static int also_fetched(struct rw_planner *p, struct dev_cost *c, uint64_t bytes, struct dt_err *e)
{
    struct dev_fetched f;
    int r = c->known ? dev_cost_fetched(p->dev, c, &f, e) : 1;
    if (r == 0) {
        f.read += bytes;
        r = dev_cost_set_fetched(p->dev, c, f, e);
    }
    return r < 0 ? r : 0;
}

int rw_state_make(struct rw_planner *p, const struct rw_edit *x, struct rw_state *ret, uint32_t *ret_first,
                  struct dt_err *e)
{
    const struct rw_state *now = x->now;
    struct rw_state s = {0};
    uint32_t n = now->graph->nlaunch, m = n - x->nlaunch + (uint32_t)x->part.n, between, at = 0;
    size_t words = rw_member_words(&p->gate);
    uint32_t *order = dt_calloc(n + 1, sizeof *order);
    if (!order)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (!rw_order(now->ana, x->launch, x->nlaunch, order, &between)) {
        free(order);
        if (between >= n)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        return dt_err_set(e, DT_E_INTERNAL,
                          DT_ROW("order") ": " DT_LAUNCH " depends on one of the launches and another on it",
                          now->graph->launch[between].name);
    }
    s.doc = rw_edit_graph(x);
    int r = s.doc ? dt_graph_from_json(s.doc, &s.graph, e)
                  : dt_err_set(e, DT_E_NOMEM, "the new graph cannot be written down");
    if (r == 0) {
        s.graph->streams = now->graph->streams;
        r = dev_prog_derive(p->dev, s.graph, now->prog, NULL, NULL, &s.prog, e);
    }
    if (r < 0 && s.doc && r != DT_E_NOMEM)
        rw_bundle_document(p->state.p[0].prog, s.doc, e->detail ? e->detail : dt_err_text(r));
    s.from = dt_calloc(m + 1, sizeof *s.from);
    s.cost = now->cost ? dt_calloc(m + 1, sizeof *s.cost) : NULL;
    s.member = dt_calloc(m * words + 1, sizeof *s.member);
    s.racy = now->racy ? dt_calloc(m + 1, sizeof *s.racy) : NULL;
    s.made = dt_calloc(m + 1, sizeof *s.made);
    if (r == 0 && (!s.from || !s.member || !s.made || (now->cost && !s.cost) || (now->racy && !s.racy)))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; r == 0 && k + x->nlaunch < n + 1; k++) {
        if (order[k] != x->launch[0]) {
            memcpy(s.member + at * words, now->member + order[k] * words, words * sizeof *s.member);
            if (s.cost)
                s.cost[at] = now->cost[order[k]];
            if (s.racy)
                s.racy[at] = now->racy[order[k]];
            s.made[at] = now->made ? now->made[order[k]] : 0;
            s.from[at++] = order[k];
            continue;
        }
        *ret_first = at;
        /* each of T for all of S: what either did to memory is there after T; or one for one */
        for (size_t i = 0; i < x->part.n; i++, at++) {
            s.from[at] = x->part.p[i].same;
            s.made[at] = s.from[at] == UINT32_MAX && !x->kind->same_code ? RW_MADE : 0;
            for (uint32_t j = 0; j < x->nlaunch; j++)
                if (!x->part.p[i].of || x->part.p[i].of == j + 1)
                    stands_for(&s, at, now, x->launch[j], words);
            if (s.cost && s.from[at] != UINT32_MAX) {
                s.cost[at] = now->cost[s.from[at]];
                r = r < 0 || !x->part.p[i].fetched ? r : also_fetched(p, &s.cost[at], x->part.p[i].fetched, e);
            }
        }
    }
    free(order);
    if (r < 0) {
        rw_state_done(&s);
        return r;
    }
    s.of = now->graph;
    for (uint32_t j = 0; now->step_us && j < x->nlaunch; j++)
        s.stake_us += now->step_us[x->launch[j]];
    *ret = s;
    return 0;
}

int rw_state_first(struct rw_planner *p, struct rw_state *s, struct dt_err *e)
{
    size_t words = rw_member_words(&p->gate);
    s->member = dt_calloc(s->graph->nlaunch * words + 1, sizeof *s->member);
    const struct dev_cost *cost = p->gate.snaps ? rw_snaps_cost(p->gate.snaps) : p->gate.sampled_cost,
                          *posted = p->gate.ref ? rw_reference_cost(p->gate.ref) : NULL;
    s->cost = cost ? dt_calloc(s->graph->nlaunch + 1, sizeof *s->cost) : NULL;
    s->racy = p->gate.original.races ? dt_calloc(s->graph->nlaunch + 1, sizeof *s->racy) : NULL;
    if (!s->member || (cost && !s->cost) || (p->gate.original.races && !s->racy))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < s->graph->nlaunch; k++) {
        s->member[k * words + k / 64] = UINT64_C(1) << k % 64;
        if (s->racy)
            s->racy[k] = p->gate.original.racy[k];
        bool other = p->gate.snaps && rw_other_kernel(p, k); /* it ran in normal form */
        if (s->cost && (!other || posted))
            s->cost[k] = other ? posted[k] : cost[k];
    }
    return rw_state_time(p, s, e);
}
