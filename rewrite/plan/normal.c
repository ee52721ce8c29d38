/* Normal form in a planning: intermediates are taken apart before the search, and laid out again after it.
 *
 *   state 0       the posted graph
 *   then          calls (normal/calls.c): kernels with their functions in them, as far as machine code says that
 *                 they are the same
 *   then          versions (normal/versions.c): the same kernels, other pointers. Trials refer to the last of these
 *   then          copies (normal/copies.c): the same kernels, readers of what was copied have other pointers
 *   …             what the search keeps
 *   last state    laid out (normal/layout.c): versions that are left share the posted intermediates' bytes again
 *
 * All are graphs like any other: read back, analysed, verified with the plan. The last one of normal form is compared
 * with the posted graph's outputs before anything is tried on it, and normal form is gone where nothing was kept after
 * it. The layout is bookkeeping and has no entry and no step in a recipe; if it does not pass, the plan has its
 * versions as scratch.
 *
 * A recipe says whether calls were written out and whether there were versions, and then these are the same ones, as
 * they follow from the graph.
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
        s.graph->streams = now->graph->streams;
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
    free(next->member);
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

/* A fault of the candidate alone: there is none of it, and `none` says why. */
static int no_normal(struct rw_planner *p, int r, struct dt_str *none, struct dt_err *mine, struct dt_err *e)
{
    r = rw_recover(p->dev, r, mine);
    if (r < 0 && !rw_fatal(r)) {
        dt_str_addf(none, "%s", mine->detail ? dt_err_words(mine) : dt_err_text(r));
        r = 0;
    }
    if (r < 0)
        dt_err_move(e, mine);
    dt_err_done(mine);
    return r;
}

/* Does the recipe, if there is one, have this kind among its first three steps? */
static bool normal_wanted(const struct rw_planner *p, const struct rw_rewrite *w)
{
    bool said = !p->recipe;
    for (size_t k = 0; k < 3 && !said; k++) {
        const json_t *step = json_array_get(json_object_get(p->recipe, "steps"), k);
        const char *kind = json_string_value(json_object_get(step, "kind"));
        said = kind && !strcmp(kind, w->name);
    }
    return rw_kind_allowed(p->opt, w) && said;
}

/* By launch: the same one, if its kernel stays. */
static uint32_t *uncalled(const struct rw_state *now, const struct rw_calls *c)
{
    uint32_t n = now->graph->nlaunch, *same = dt_calloc(n + 1, sizeof *same);
    bool alone = same;
    for (uint32_t l = 0; alone && l < n; l++) {
        same[l] = l;
        alone = rw_stands_alone(now->ana, l);
    }
    for (uint32_t k = 0; alone && k < c->v.n; k++)
        if (rw_calls_out(c, k))
            same[c->v.p[k].launch] = UINT32_MAX;
    if (!alone)
        free(same);
    return alone ? same : NULL;
}

bool rw_other_kernel(const struct rw_planner *p, uint32_t launch)
{
    for (uint32_t k = 0; p->called.graph && k < p->calls.v.n; k++)
        if (p->calls.v.p[k].launch == launch)
            return rw_calls_out(&p->calls, k);
    return false;
}

/* What is known of the posted launches is known of those that keep their kernel. */
static int carry_called(const struct rw_planner *p, const struct rw_state *now, struct rw_state *next, struct dt_err *e)
{
    int r = carry_over(p, now, next, e);
    for (uint32_t k = 0; r == 0 && k < p->calls.v.n; k++)
        if (rw_calls_out(&p->calls, k)) {
            next->made[p->calls.v.p[k].launch] = RW_WRITTEN_OUT;
            if (next->cost && p->gate.snaps) /* of a sample: as posted */
                next->cost[p->calls.v.p[k].launch] = rw_snaps_cost(p->gate.snaps)[p->calls.v.p[k].launch];
        }
    return r;
}

/* The members of a state that has the posted graph's launches. */
static int own_members(const struct rw_planner *p, struct rw_state *s, struct dt_err *e)
{
    size_t words = rw_member_words(&p->gate);
    free(s->member);
    s->member = dt_calloc(s->graph->nlaunch * words + 1, sizeof *s->member);
    for (uint32_t k = 0; s->member && k < s->graph->nlaunch; k++)
        s->member[k * words + k / 64] = UINT64_C(1) << k % 64;
    return s->member ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

/* Is the machine code of kernels with their functions in them that of the posted ones? Those of which it is not stay as
 * they were. 1: some of them. */
static int calls_compared(struct rw_planner *p, struct rw_state *next, struct dt_err *e)
{
    int r = own_members(p, next, e), some = 0;
    if (r == 0 && !dev_nvjitlink_version())
        r = dt_err_set(e, DT_E_INTERNAL,
                       DT_ROW("machine-code") ": without nvJitLink nobody can say what the assembler makes of it");
    for (uint32_t k = 0; r >= 0 && k < p->calls.v.n; k++) {
        struct rw_called *x = &p->calls.v.p[k];
        if (x->same != k || x->why.len)
            continue;
        r = rw_machine_code_of(&p->gate, dev_info(p->dev)->arch, next, x->launch, &x->why, e);
        some |= r > 0;
    }
    return r < 0 ? r : some;
}

static int called_state(struct rw_planner *p, struct rw_state *next, struct dt_err *mine)
{
    struct rw_state *first = &p->state.p[0];
    struct dt_str why = {0};
    int r = 1;
    while (r == 1 && rw_calls_number(&p->calls)) {
        uint32_t *same = uncalled(first, &p->calls);
        rw_state_done(next);
        r = state_of(p, first, rw_calls_graph(first->prog, &p->calls), same, next, mine);
        free(same);
        if (r == 0)
            r = calls_compared(p, next, mine);
    }
    if (r == 0 && !rw_calls_same(first->ana, next->ana, &p->calls, &why))
        r = dt_err_set(mine, DT_E_INTERNAL, DT_ROW("same-footprints") ": %s", why.s ? why.s : "out of memory");
    dt_str_done(&why);
    return r < 0 ? r : 0;
}

static int write_calls_out(struct rw_planner *p, struct dt_err *e)
{
    struct rw_state next = {0};
    struct dt_err mine = {0};
    if (!normal_wanted(p, &rw_calls))
        return 0;
    int r = rw_calls_find(p->state.p[0].prog, &p->calls, e);
    if (r < 0 || !rw_calls_number(&p->calls) || p->as_posted)
        return r;
    rw_say(p->opt, "calls", 0, 1);
    r = called_state(p, &next, &mine);
    if (r < 0 || !rw_calls_number(&p->calls)) {
        rw_state_done(&next);
        return no_normal(p, r, &p->no_calls, &mine, e);
    }
    p->called = next;
    return 0;
}

struct rw_state *rw_newest_normal(struct rw_planner *p)
{
    return p->moved.graph ? &p->moved : p->apart.graph ? &p->apart : p->called.graph ? &p->called : NULL;
}

static json_t *moved_graph(const struct rw_planner *p, const struct rw_state *now)
{
    const struct rw_copies *c = &p->copies;
    for (size_t k = 0; k < c->at.v.n; k++)
        c->offset[k] += RW_SPOILT("copies") && c->buffer[k] != c->at.v.p[k].buffer ? 256 : 0;
    json_t *doc = rw_pointers_graph(now->prog, &c->at, c->buffer, c->offset, NULL, 0);
    for (size_t k = 0; k < c->at.v.n; k++)
        c->offset[k] -= RW_SPOILT("copies") && c->buffer[k] != c->at.v.p[k].buffer ? 256 : 0;
    return doc;
}

static int move_readers(struct rw_planner *p, struct dt_err *e)
{
    struct rw_state next = {0}, *now = rw_newest_normal(p);
    struct dt_err mine = {0};
    struct dt_str why = {0};
    now = now ? now : &p->state.p[0];
    if (!normal_wanted(p, &rw_copies))
        return 0;
    int r = rw_copies_find(now->prog, now->ana, &p->copies, e);
    if (r < 0 || !p->copies.n || p->as_posted)
        return r;
    rw_say(p->opt, "copies", 0, 1);
    uint32_t *same = unmoved(now, &p->copies.at, p->copies.buffer);
    r = state_of(p, now, moved_graph(p, now), same, &next, &mine);
    free(same);
    if (r == 0 && !rw_copies_same(now->ana, next.ana, &p->copies, &why))
        r = dt_err_set(&mine, DT_E_INTERNAL, DT_ROW("same-places") ": %s", why.s ? why.s : "out of memory");
    dt_str_done(&why);
    if (r < 0) {
        rw_state_done(&next);
        return no_normal(p, r, &p->no_copies, &mine, e);
    }
    p->moved = next;
    p->gate.posted = next.prog;
    return 0;
}

static int take_versions_apart(struct rw_planner *p, struct dt_err *e)
{
    struct rw_state next = {0};
    struct dt_err mine = {0};
    struct dt_str why = {0};
    uint32_t *same = NULL;
    struct rw_state *now = p->called.graph ? &p->called : &p->state.p[0];
    if (!normal_wanted(p, &rw_versions))
        return 0;
    int r = rw_versions_find(now->prog, now->ana, &p->versions, e);
    if (r < 0 || !p->versions.n || p->as_posted)
        return r;
    rw_say(p->opt, "versions", 0, 1);
    same = unmoved(now, &p->versions.at, p->versions.buffer);
    r = state_of(p, now,
                 rw_pointers_graph(now->prog, &p->versions.at, p->versions.buffer, p->versions.offset,
                                   p->versions.version, p->versions.n),
                 same, &next, &mine);
    free(same);
    if (r == 0 && !rw_versions_same(now->ana, next.ana, &p->versions, &why))
        r = dt_err_set(&mine, DT_E_INTERNAL, DT_ROW("same-values") ": %s", why.s ? why.s : "out of memory");
    dt_str_done(&why);
    if (r < 0) {
        rw_state_done(&next);
        return no_normal(p, r, &p->no_versions, &mine, e);
    }
    p->apart = next;
    p->gate.posted = next.prog;
    return 0;
}

int rw_take_apart(struct rw_planner *p, struct dt_err *e)
{
    int r = write_calls_out(p, e);
    r = r < 0 ? r : take_versions_apart(p, e);
    return r < 0 ? r : move_readers(p, e);
}

int rw_place(struct rw_planner *p, struct rw_placed *ret, struct dt_err *e)
{
    const struct rw_state *s = rw_newest_normal(p);
    const struct dt_graph *g = s->graph, *posted = p->state.p[0].graph;
    *ret = (struct rw_placed){.ana = s->ana,
                              .buffer = dt_calloc((size_t)g->nbuffer + 1, sizeof *ret->buffer),
                              .lo = dt_calloc((size_t)g->nbuffer + 1, sizeof *ret->lo)};
    if (!ret->buffer || !ret->lo)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t b = 0; b < g->nbuffer; b++) {
        const char *name = g->buffer[b].name;
        uint32_t at = 0, v = 0;
        while (at < posted->nbuffer && strcmp(posted->buffer[at].name, name) != 0)
            at++;
        while (at == posted->nbuffer && v < p->versions.n && strcmp(p->versions.version[v].name, name) != 0)
            v++;
        if (at == posted->nbuffer && v == p->versions.n)
            return dt_err_set(e, DT_E_INTERNAL, "no posted buffer has the bytes of " DT_BUFFER, name);
        ret->buffer[b] = at < posted->nbuffer ? at : p->versions.version[v].buffer;
        ret->lo[b] = at < posted->nbuffer ? 0 : p->versions.version[v].lo;
    }
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

/* *next, if it is there, becomes the newest state, with an entry of these launches; if it is not, they have one that
 * says why. */
static int push_normal(struct rw_planner *p, const struct rw_rewrite *w, struct rw_state *next, const uint32_t *list,
                       uint32_t n, struct dt_str *why, struct dt_err *e)
{
    struct dt_str none = {0};
    size_t at = 0;
    if (!next->graph) {
        enum rw_verdict verdict = p->apart_us > 0 ? RW_DROPPED : RW_REFUSED;
        return why->len && n ? rw_entry_record(p, w, list, n, NULL, verdict, why, p->state.p[0].time.time_us,
                                               p->apart_us, NULL, e)
                             : 0;
    }
    int r = rw_state_time(p, next, e);
    if (r == 0)
        r = rw_entry_record(p, w, list, n, NULL, RW_KEPT, &none, 0, 0, &at, e);
    if (r == 0 && !(next->step = rw_step_json(w, 0, list, n, p->nname, next)))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    return r < 0 ? r : rw_state_push(p, next, at, e);
}

/* The launches whose calls are written out, and entries of those whose are not. */
static int called_launches(struct rw_planner *p, uint32_t *list, uint32_t *ret_n, struct dt_err *e)
{
    int r = 0;
    *ret_n = 0;
    for (uint32_t k = 0; k < p->calls.v.n && r >= 0; k++) {
        const struct rw_called *x = &p->calls.v.p[k];
        struct dt_str why = {0};
        if (rw_calls_out(&p->calls, k)) {
            list[(*ret_n)++] = x->launch;
            continue;
        }
        dt_str_add(&why, p->calls.v.p[x->same].why.s);
        r = rw_entry_record(p, &rw_calls, &x->launch, 1, NULL, RW_REFUSED, &why, 0, 0, NULL, e);
    }
    return r;
}

/* The launches that are copies whose readers are moved, and entries of those whose are not. */
static int copy_launches(struct rw_planner *p, uint32_t *list, uint32_t *ret_n, struct dt_err *e)
{
    int r = 0;
    *ret_n = 0;
    for (size_t k = 0; k < p->copies.v.n && r >= 0; k++) {
        struct rw_copied *x = &p->copies.v.p[k];
        struct dt_str why = {0};
        if (x->kept) {
            list[(*ret_n)++] = x->copy.launch;
        } else if (x->why.len) {
            dt_str_add(&why, x->why.s);
            r = rw_entry_record(p, &rw_copies, &x->copy.launch, 1, NULL, RW_REFUSED, &why, 0, 0, NULL, e);
        }
    }
    return r;
}

int rw_apart(struct rw_planner *p, struct dt_err *e)
{
    struct rw_state *first = &p->state.p[0];
    uint32_t n = 0;
    dt_free_ uint32_t *list = dt_calloc((size_t)first->graph->nlaunch + 1, sizeof *list);
    int r = list ? called_launches(p, list, &n, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0 && p->called.graph)
        r = carry_called(p, first, &p->called, e);
    if (r == 0)
        r = push_normal(p, &rw_calls, &p->called, list, n, &p->no_calls, e);
    if (r < 0)
        return r;
    dt_free_ uint32_t *moved = moved_launches(p, &n);
    r = moved ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0 && p->apart.graph)
        r = carry_over(p, &p->state.p[p->state.n - 1], &p->apart, e);
    if (r == 0)
        r = push_normal(p, &rw_versions, &p->apart, moved, n, &p->no_versions, e);
    if (r == 0)
        r = copy_launches(p, list, &n, e);
    if (r == 0 && p->moved.graph)
        r = carry_over(p, &p->state.p[p->state.n - 1], &p->moved, e);
    return r < 0 ? r : push_normal(p, &rw_copies, &p->moved, list, n, &p->no_copies, e);
}

static bool is_normal(const struct rw_planner *p, size_t at, const struct rw_rewrite *w)
{
    return p->state.n > at && !strcmp(p->entry.p[p->state.p[at].entry].kind, w->name);
}

bool rw_is_called(const struct rw_planner *p) { return is_normal(p, 1, &rw_calls); }

bool rw_is_apart(const struct rw_planner *p) { return is_normal(p, 1 + (size_t)rw_is_called(p), &rw_versions); }

bool rw_is_moved(const struct rw_planner *p)
{
    return is_normal(p, 1 + (size_t)rw_is_called(p) + (size_t)rw_is_apart(p), &rw_copies);
}

int rw_normal_at(const struct rw_planner *p, const char *kind)
{
    int calls = rw_is_called(p), versions = rw_is_apart(p), copies = rw_is_moved(p);
    return !strcmp(kind, rw_calls.name)      ? calls
           : !strcmp(kind, rw_versions.name) ? (versions ? calls + 1 : 0)
           : !strcmp(kind, rw_copies.name)   ? (copies ? calls + versions + 1 : 0)
                                             : -1;
}

void rw_together(struct rw_planner *p)
{
    size_t normal = 1 + (size_t)rw_is_called(p) + (size_t)rw_is_apart(p) + (size_t)rw_is_moved(p);
    while (p->state.n == normal && normal > 1 && !RW_FORCED) {
        struct rw_entry *x = &p->entry.p[p->state.p[--normal].entry];
        x->verdict = RW_DROPPED;
        x->before_us = p->state.p[0].time.time_us;
        x->after_us = p->state.p[normal].time.time_us;
        x->reason = dt_strdup("nothing was gained from it");
        rw_state_done(&p->state.p[--p->state.n]);
    }
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
        r = r < 0 ? no_normal(p, r, &p->no_versions, &mine, e) : rw_state_push(p, &next, last->entry, e);
        p->laid = r == 0 && !p->no_versions.len;
    }
    rw_laid_done(&l);
    return r;
}
