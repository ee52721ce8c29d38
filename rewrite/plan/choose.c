/* Which rewrites are kept: candidates are taken in order of promise; each is built, timed against the newest state,
 * verified, and kept if it is faster.
 *
 *   state 0 is the posted graph. Repeat, kind after kind in the registry's order:
 *     for every candidate of the kind (kinds/edit.c) in the newest state, most promising first:
 *       open: facts, legality, a bound
 *       for each level: build, try S and T alone (gate/trial.c), time
 *       if the fastest level is faster than the newest state by more than the noise: try more block orders, analyse the
 *       new launches, make it the newest state, and start the round over
 *   until nothing is left, or the budget is spent except for the last verification (budget.c).
 *   Then a second look: is the whole plan faster without one of the kept rewrites (rivals.c), or with one that gains
 *   nothing by itself (detours.c)?
 *   What is before and behind it, and the verification of the whole, is in whole.c.
 *
 * If there is a recipe (recipe.c), its steps are tried in the same way, and nothing else is. Every candidate that was
 * looked at has one entry in `rewrites`. A launch that a rewrite made is a launch like any other: chains and trees of
 * fusions come from the same loop, and the later kinds find what the earlier ones made.
 *
 * The names of its launches identify a candidate across states. A candidate that was dropped, or that was refused for
 * what its kernels contain, is not tried again. One that was refused for the order of launches is tried again, since
 * another rewrite may have cleared the way.
 *
 * On the software device times are modelled, and planning is deterministic. On a real device the order of tries is the
 * same, and the verdicts follow the times. Bounds from the launches' own times come first; candidates that they leave
 * are measured beside the newest state (compare.c).
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

void rw_say(const struct rw_options *o, const char *message, unsigned done, unsigned of)
{
    if (o->progress)
        o->progress("rewrite", message, done, of, o->user);
}

/* ---- the order of tries ------------------------------------------------------------------------------------------ */

static int by_promise(const void *x, const void *y)
{
    const struct rw_promise *a = x, *b = y;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    for (uint32_t k = 1; k <= a->nlaunch && k <= b->nlaunch; k++) { /* the last launch first: by consumer */
        uint32_t i = a->launch[a->nlaunch - k], j = b->launch[b->nlaunch - k];
        if (i != j)
            return i < j ? -1 : 1;
    }
    return a->nlaunch < b->nlaunch ? -1 : a->nlaunch > b->nlaunch;
}

/* Add the candidate that a test wants to be tried although no rewrite would propose it. */
static int propose_besides(const struct rw_state *s, const struct rw_rewrite *w, struct rw_proposals *ret,
                           struct dt_err *e)
{
#ifdef RW_TEST_HOOKS
    const char *at = rw_hooks.propose;
    size_t n = strlen(w->name);
    uint32_t launch[RW_BODIES], found = 0;
    if (!at || strncmp(at, w->name, n) || at[n] != ':')
        return 0;
    for (at += n + 1; *at; at += strcspn(at, " ")) {
        at += strspn(at, " ");
        n = strcspn(at, " ");
        for (uint32_t k = 0; k < s->graph->nlaunch && found < RW_BODIES; k++)
            if (!strncmp(s->graph->launch[k].name, at, n) && !s->graph->launch[k].name[n])
                launch[found++] = k;
    }
    if (found > 1 && rw_propose(ret, launch, found, 0, 0) < 0)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
#else
    (void)s, (void)w, (void)ret, (void)e;
#endif
    return 0;
}

static int choose_propose(const struct rw_state *s, const struct rw_planner *p, const struct rw_rewrite *w,
                          struct rw_proposals *ret, struct dt_err *e)
{
    memset(ret, 0, sizeof *ret);
    int r = w->propose(s, p->opt, ret, e);
    if (r == 0)
        r = propose_besides(s, w, ret, e);
    if (r == 0 && ret->v.n)
        qsort(ret->v.p, ret->v.n, sizeof *ret->v.p, by_promise);
    return r;
}

static void proposals_done(struct rw_proposals *l)
{
    free(l->v.p);
    dt_arena_done(&l->arena);
}

/* Was the candidate banned, or tried with a verdict that stands? */
static bool settled(struct rw_planner *p, const struct rw_rewrite *w, const struct rw_promise *v)
{
    json_t *names = rw_entry_names(&p->state.p[p->state.n - 1], v->launch, v->nlaunch);
    const struct rw_entry *n = names ? rw_entry_find(p, w->name, names) : NULL;
    bool banned =
        names && (rw_banned(p, w->name, names) || (w->runs && v->nlaunch > 2 && rw_entry_within(p, w->name, names)));
    json_decref(names);
    return banned ||
           (n && (n->tried & rw_rewrite_bit(w)) && !(n->verdict == RW_REFUSED && dt_has_row(n->reason, "order")));
}

int rw_try(struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t n,
           const struct rw_way *way, struct dt_str *why, struct dt_err *e)
{
    struct rw_proposals l;
    bool known = false, old = false;
    int r = choose_propose(&p->state.p[p->state.n - 1], p, w, &l, e);
    for (size_t k = 0; k < l.v.n && r == 0; k++) {
        const struct rw_promise *v = &l.v.p[k];
        if (v->nlaunch != n || memcmp(v->launch, launch, n * sizeof *launch))
            continue;
        known = true;
        old |= settled(p, w, v);
    }
    proposals_done(&l);
    if (r < 0)
        return r;
    if (!known || old)
        return dt_str_add(why, known ? "these launches were tried in this way before"
                                     : "nothing of the kind is to be done with these launches"),
               0;
    json_t *names = rw_entry_names(&p->state.p[p->state.n - 1], launch, n); /* before the state changes */
    if (!names)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    r = rw_try_anyway(p, w, launch, n, way, e);
    const struct rw_entry *x = r == 0 ? rw_entry_find(p, w->name, names) : NULL;
    if (r == 0)
        dt_str_add(why, x && x->reason ? x->reason : "it is not kept");
    json_decref(names);
    return r;
}

/* Show what is being tried: the first and the last launch of the candidate. */
static void choose_say(const struct rw_planner *p, const struct rw_rewrite *w, const struct rw_promise *v, size_t k,
                       size_t n)
{
    const struct dt_graph *g = p->state.p[p->state.n - 1].graph;
    struct dt_str s = {0};
    dt_str_add(&s, g->launch[v->launch[0]].name);
    if (v->nlaunch > 1)
        dt_str_addf(&s, "%s + %s", v->nlaunch > 2 ? " …" : "", g->launch[v->launch[v->nlaunch - 1]].name);
    rw_say(p->opt, s.s ? s.s : w->name, (unsigned)k, (unsigned)n);
    dt_str_done(&s);
}

/* 1: something was kept; 0: nothing left. */
static int one_round(struct rw_planner *p, const struct rw_rewrite *w, struct dt_err *e)
{
    struct rw_proposals l;
    int r = choose_propose(&p->state.p[p->state.n - 1], p, w, &l, e);
    for (size_t k = 0; r == 0 && k < l.v.n; k++) {
        const struct rw_promise *v = &l.v.p[k];
        if (settled(p, w, v))
            continue;
        if (rw_late(p)) {
            struct dt_str why = {0};
            dt_str_addf(&why, DT_ROW("budget") ": it was spent before this %s was tried",
                        v->nlaunch == 2 ? "pair" : "candidate");
            r = rw_entry_record(p, w, v->launch, v->nlaunch, NULL, RW_REFUSED, &why, 0, 0, NULL, e);
            dt_str_done(&why);
            p->untried++;
            continue;
        }
        choose_say(p, w, v, k, l.v.n);
        char key[DT_SHA256_TEXT];
        bool shared = rw_alike_key(p, w, v->launch, v->nlaunch, key);
        if (shared && (r = rw_alike_record(p, w, v->launch, v->nlaunch, key, e)) != 0) {
            r = r < 0 ? r : 0;
            continue;
        }
        r = rw_try_anyway(p, w, v->launch, v->nlaunch, NULL, e);
        if (r == 0 && shared)
            r = rw_alike_keep(p, w, v->launch, v->nlaunch, key, e);
    }
    proposals_done(&l);
    return r;
}

int rw_all_rounds(struct rw_planner *p, struct dt_err *e)
{
    size_t before;
    do {
        before = p->state.n;
        for (unsigned k = 0; k < rw_nregistry; k++) {
            int r = 0;
            if (!rw_kind_allowed(p->opt, rw_registry[k]))
                continue;
            do
                r = one_round(p, rw_registry[k], e);
            while (r == 1);
            if (r < 0)
                return r;
        }
    } while (p->state.n > before && rw_nregistry > 1);
    return 0;
}

int rw_any_candidate(struct rw_planner *p, struct dt_err *e)
{
    for (unsigned i = 0; i < rw_nregistry; i++) {
        struct rw_proposals l;
        if (!rw_kind_allowed(p->opt, rw_registry[i]))
            continue;
        int r = choose_propose(&p->state.p[0], p, rw_registry[i], &l, e);
        size_t n = l.v.n;
        proposals_done(&l);
        if (r < 0 || n)
            return r < 0 ? r : 1;
    }
    return 0;
}

int rw_refuse_all(struct rw_planner *p, const char *text, struct dt_err *e)
{
    int r = 0;
    for (unsigned i = 0; i < rw_nregistry && r == 0; i++) {
        struct rw_proposals l;
        if (!rw_kind_allowed(p->opt, rw_registry[i]))
            continue;
        r = choose_propose(&p->state.p[0], p, rw_registry[i], &l, e);
        for (size_t k = 0; k < l.v.n && r == 0; k++) {
            struct dt_str why = {0};
            dt_str_add(&why, text);
            r = rw_entry_record(p, rw_registry[i], l.v.p[k].launch, l.v.p[k].nlaunch, NULL, RW_REFUSED, &why, 0, 0,
                                NULL, e);
            dt_str_done(&why);
        }
        proposals_done(&l);
    }
    return r;
}
