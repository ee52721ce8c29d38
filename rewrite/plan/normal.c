/* Normal form in a planning: intermediates are taken apart before the search, and laid out again after it.
 *
 *   state 0       the posted graph
 *   state 1       versions (normal/versions.c): the same kernels, other pointers. Trials and members refer to it
 *   …             what the search keeps
 *   last state    laid out (normal/layout.c): versions that are left share the posted intermediates' bytes again
 *
 * Both states are graphs like any other: read back, analysed, verified with the plan. State 1 is compared with the
 * posted graph's outputs before anything is tried on it, and gone where nothing was kept after it. The last one is
 * bookkeeping and has no entry and no step in a recipe; if it does not pass, the plan has its versions as scratch.
 *
 * A recipe says whether there were versions, and then these are the same ones, as they follow from the graph.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

/* The state of a document with the same launches as `now`. base: launches whose pointers are the same keep their
 * footprints. Takes doc over. */
static int state_of(struct rw_planner *p, const struct rw_state *now, json_t *doc, const uint32_t *same,
                    struct rw_state *ret, struct dt_err *e)
{
    uint32_t n = now->graph->nlaunch;
    struct rw_state s = {.doc = doc};
    struct ana_options o = {.memo = p->opt->footprints, .base = same ? now->ana : NULL, .same = same};
    int r = doc ? dt_graph_from_json(doc, &s.graph, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0)
        r = dev_prog_derive(p->dev, s.graph, now->prog, NULL, NULL, &s.prog, e);
    if (r == 0)
        r = ana_run(p->dev, s.prog, &o, &s.ana, e);
    if (r == 0 && !(s.from = dt_calloc(n + 1, sizeof *s.from)))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; r == 0 && k < n; k++)
        s.from[k] = k;
    if (r < 0) {
        rw_state_done(&s);
        return r;
    }
    *ret = s;
    return 0;
}

/* What is known of the launches of `now` is known of those of `next`. */
static int carry_over(const struct rw_planner *p, const struct rw_state *now, struct rw_state *next, struct dt_err *e)
{
    uint32_t n = now->graph->nlaunch;
    size_t words = rw_member_words(&p->gate);
    next->member = dt_calloc(n * words + 1, sizeof *next->member);
    next->cost = now->cost ? dt_calloc(n + 1, sizeof *next->cost) : NULL;
    next->racy = now->racy ? dt_calloc(n + 1, sizeof *next->racy) : NULL;
    next->made = dt_calloc(n + 1, sizeof *next->made);
    if (!next->member || !next->made || (now->cost && !next->cost) || (now->racy && !next->racy))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memcpy(next->member, now->member, n * words * sizeof *next->member);
    if (next->cost)
        memcpy(next->cost, now->cost, n * sizeof *next->cost);
    if (next->racy)
        memcpy(next->racy, now->racy, n * sizeof *next->racy);
    if (now->made)
        memcpy(next->made, now->made, n * sizeof *next->made);
    next->evidence = now->evidence;
    return 0;
}

/* By launch: the same launch, where none of its pointers moves. NULL: memory, or data decides somewhere what is
 * touched, so that launches must run one after the other. */
static uint32_t *unmoved(const struct rw_state *now, const struct rw_pointers *at, const uint32_t *buffer)
{
    const struct dt_graph *g = now->graph;
    uint32_t *same = dt_calloc(g->nlaunch + 1, sizeof *same);
    bool alone = same;
    for (uint32_t l = 0; alone && l < g->nlaunch; l++) {
        same[l] = l;
        alone = rw_stands_alone(now->ana, l);
    }
    for (size_t k = 0; alone && k < at->v.n; k++)
        if (buffer[k] != at->v.p[k].buffer)
            same[at->v.p[k].launch] = UINT32_MAX;
    if (!alone) {
        free(same);
        return NULL;
    }
    return same;
}

/* A fault of the candidate alone: there are no versions. */
static int no_versions(struct rw_planner *p, int r, struct dt_err *mine, struct dt_err *e)
{
    r = rw_recover(p->dev, r, mine);
    if (r < 0 && !rw_fatal(r)) {
        dt_str_addf(&p->no_versions, "%s", mine->detail ? dt_err_words(mine) : dt_err_text(r));
        r = 0;
    }
    if (r < 0)
        dt_err_move(e, mine);
    dt_err_done(mine);
    return r;
}

static bool versions_wanted(const struct rw_planner *p)
{
    const json_t *step = json_array_get(json_object_get(p->recipe, "steps"), 0);
    const char *kind = json_string_value(json_object_get(step, "kind"));
    return rw_kind_allowed(p->opt, &rw_versions) && (!p->recipe || (kind && !strcmp(kind, rw_versions.name)));
}

int rw_take_apart(struct rw_planner *p, struct dt_err *e)
{
    struct rw_state *first = &p->state.p[0], next = {0};
    struct dt_err mine = {0};
    struct dt_str why = {0};
    uint32_t *same = NULL;
    if (!versions_wanted(p))
        return 0;
    int r = rw_versions_find(first->prog, first->ana, &p->versions, e);
    if (r < 0 || !p->versions.n || p->as_posted)
        return r;
    rw_say(p->opt, "versions", 0, 1);
    same = unmoved(first, &p->versions.at, p->versions.buffer);
    r = state_of(p, first,
                 rw_pointers_graph(first->prog, &p->versions.at, p->versions.buffer, p->versions.offset,
                                   p->versions.version, p->versions.n),
                 same, &next, &mine);
    free(same);
    if (r == 0 && !rw_versions_same(first->ana, next.ana, &p->versions, &why))
        r = dt_err_set(&mine, DT_E_INTERNAL, DT_ROW("same-values") ": %s", why.s ? why.s : "out of memory");
    dt_str_done(&why);
    if (r < 0) {
        rw_state_done(&next);
        return no_versions(p, r, &mine, e);
    }
    p->apart = next;
    p->gate.posted = next.prog;
    return 0;
}

/* The launches whose pointers moved. */
static uint32_t *moved_launches(const struct rw_planner *p, uint32_t *ret_n)
{
    const struct rw_versions *v = &p->versions;
    uint32_t n = 0, *list = dt_calloc(v->at.v.n + 1, sizeof *list);
    for (size_t k = 0; list && k < v->at.v.n; k++)
        if (v->buffer[k] != v->at.v.p[k].buffer && (!n || list[n - 1] != v->at.v.p[k].launch))
            list[n++] = v->at.v.p[k].launch;
    *ret_n = n;
    return list;
}

int rw_apart(struct rw_planner *p, struct dt_err *e)
{
    struct rw_state *next = &p->apart;
    struct dt_str none = {0};
    uint32_t n;
    size_t at = 0;
    if (!next->graph) {
        if (!p->no_versions.len)
            return 0;
        uint32_t *list = moved_launches(p, &n);
        enum rw_verdict verdict = p->apart_us > 0 ? RW_DROPPED : RW_REFUSED;
        int r = list ? rw_entry_record(p, &rw_versions, list, n, NULL, verdict, &p->no_versions,
                                       p->state.p[0].time.time_us, p->apart_us, NULL, e)
                     : dt_err_set(e, DT_E_NOMEM, "out of memory");
        free(list);
        return r;
    }
    uint32_t *list = moved_launches(p, &n);
    int r = list ? carry_over(p, &p->state.p[0], next, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0)
        r = rw_state_time(p, next, e);
    if (r == 0)
        r = rw_entry_record(p, &rw_versions, list, n, NULL, RW_KEPT, &none, 0, 0, &at, e);
    if (r == 0 && !(next->step = rw_step_json(&rw_versions, 0, list, n, p->nname, next)))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    free(list);
    if (r == 0)
        r = rw_state_push(p, next, at, e);
    return r;
}

bool rw_is_apart(const struct rw_planner *p)
{
    return p->state.n > 1 && !strcmp(p->entry.p[p->state.p[1].entry].kind, rw_versions.name);
}

void rw_together(struct rw_planner *p)
{
    struct rw_entry *x;
    if (p->state.n != 2 || !rw_is_apart(p) || RW_FORCED)
        return;
    x = &p->entry.p[p->state.p[1].entry];
    x->verdict = RW_DROPPED;
    x->before_us = p->state.p[0].time.time_us;
    x->after_us = p->state.p[1].time.time_us;
    x->reason = dt_strdup("nothing was gained from it");
    rw_state_done(&p->state.p[--p->state.n]);
}

int rw_lay_out(struct rw_planner *p, struct dt_err *e)
{
    struct rw_state *last = &p->state.p[p->state.n - 1], next = {0};
    struct rw_laid l = {0};
    struct dt_err mine = {0};
    if (!rw_is_apart(p))
        return 0;
    rw_say(p->opt, "layout", 0, 1);
    dt_free_ uint64_t *over = NULL;
    size_t words;
    int r = rw_waits_before(last->prog, &over, &words, e);
    if (r == 0)
        r = rw_layout_find(last->prog, last->ana, &p->versions, over, &l, e);
    if (r == 0 && l.n) {
        uint32_t *same = unmoved(last, &l.at, l.buffer);
        r = state_of(p, last, rw_pointers_graph(last->prog, &l.at, l.buffer, l.offset, &l.extra, l.extra.hi ? 1 : 0),
                     same, &next, &mine);
        free(same);
        if (r == 0)
            r = carry_over(p, last, &next, &mine);
        if (r == 0)
            r = rw_waits_check(p->dev, next.prog, next.ana, p->state.p[0].prog, &mine);
        if (r == 0)
            r = rw_state_time(p, &next, &mine);
        if (r < 0)
            rw_state_done(&next);
        r = r < 0 ? no_versions(p, r, &mine, e) : rw_state_push(p, &next, last->entry, e);
        p->laid = r == 0 && !p->no_versions.len;
    }
    rw_laid_done(&l);
    return r;
}
