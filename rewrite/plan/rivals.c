/* A second look at the kept rewrites: is the whole plan faster without one of them?
 *
 * Candidates are taken one after the other, each if it gains at once (choose.c). A later candidate might have gained
 * more from what was there before: a fused launch has no edge left that a programmatic launch could cover, and a
 * recomputed launch is not fused with the one before it. So kept rewrites are tried again, from the newest to the
 * oldest. Rewrites of the last kind in the registry are left alone, since nothing comes after them. A rewrite that
 * gained more than the gap between two launches is left alone too, since that gap is all that it can have kept from
 * others. In graphs of up to ALL launches its gain does not matter. A try goes like this:
 *
 *   take back the state that the rewrite made and all later ones, ban the candidate, and go on choosing from there
 *   if the result is faster by more than the noise, it is the plan, and the candidate is dropped with both times
 *   else, if another candidate of the kind has taken its place, which shares a launch with it (a sum goes into the
 *   other one of two products, which could have gone side by side), ban that one too, and try once more
 *   else put everything back
 *
 * There are at most TRIES tries, only for graphs of up to LAUNCHES launches, and only as long as the budget lasts. A
 * try that the budget cuts short is put back. Trials, assembled kernels and costs are kept from try to try, so a try
 * costs less than the first choice did.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 4
#define LAUNCHES 64
#define ALL 8

bool rw_banned(const struct rw_planner *p, const char *kind, const json_t *launches)
{
    for (size_t k = 0; k < p->ban.n; k++)
        if (!strcmp(p->ban.p[k].kind, kind) && json_equal(p->ban.p[k].launches, launches))
            return true;
    return false;
}

static bool copy_entry(struct rw_entries *to, const struct rw_entry *x)
{
    struct rw_entry n = *x;
    n.level = x->level ? dt_strdup(x->level) : NULL;
    n.reason = x->reason ? dt_strdup(x->reason) : NULL;
    n.fact = x->fact ? dt_strdup(x->fact) : NULL;
    n.launches = json_incref(x->launches);
    if ((!x->level || n.level) && (!x->reason || n.reason) && (!x->fact || n.fact) && dt_push(to, n))
        return true;
    free(n.level);
    free(n.reason);
    free(n.fact);
    json_decref(n.launches);
    return false;
}

bool rw_take_back(struct rw_planner *p, size_t from, struct rw_saved *s)
{
    size_t banned = from < p->state.n ? p->state.p[from].entry : p->entry.n,
           *map = dt_calloc(p->entry.n + 1, sizeof *map);
    struct rw_entries fewer = {0};
    s->from = from;
    s->nname = p->nname;
    s->at = dt_calloc(from + 1, sizeof *s->at);
    bool ok = map && s->at;
    for (size_t i = 0; ok && i < p->entry.n; i++) {
        bool stays = p->entry.p[i].verdict != RW_KEPT && i < banned;
        for (size_t k = 1; k < from; k++)
            stays |= p->state.p[k].entry == i;
        map[i] = fewer.n;
        if (stays)
            ok = copy_entry(&fewer, &p->entry.p[i]);
    }
    for (size_t k = from; ok && k < p->state.n; k++)
        ok = dt_push(&s->state, p->state.p[k]);
    if (ok) {
        for (size_t k = 1; k < from; k++) {
            s->at[k] = p->state.p[k].entry;
            p->state.p[k].entry = map[s->at[k]];
        }
        p->state.n = from;
        s->entry = p->entry;
        p->entry = fewer;
    } else {
        rw_entries_free(&fewer);
        free(s->state.p);
        free(s->at);
        memset(s, 0, sizeof *s);
    }
    free(map);
    return ok;
}

void rw_put_back(struct rw_planner *p, struct rw_saved *s)
{
    while (p->state.n > s->from)
        rw_state_done(&p->state.p[--p->state.n]);
    for (size_t k = 0; k < s->state.n; k++) /* there is room, since they were there before */
        p->state.p[p->state.n++] = s->state.p[k];
    for (size_t k = 1; k < s->from; k++)
        p->state.p[k].entry = s->at[k];
    rw_entries_free(&p->entry);
    p->entry = s->entry;
    p->nname = s->nname;
    free(s->state.p);
    free(s->at);
}

void rw_saved_done(struct rw_saved *s)
{
    for (size_t k = 0; k < s->state.n; k++)
        rw_state_done(&s->state.p[k]);
    rw_entries_free(&s->entry);
    free(s->state.p);
    free(s->at);
}

/* The try becomes the plan, and the candidate's entry says why it was dropped. */
static bool adopt(struct rw_planner *p, struct rw_saved *s)
{
    const struct rw_state *was = &s->state.p[s->state.n - 1], *is = &p->state.p[p->state.n - 1];
    struct rw_entry x = s->entry.p[s->state.p[0].entry];
    struct dt_str why = {0};
    x.verdict = RW_DROPPED;
    x.gain[0] = x.gain[1] = 0;
    x.before_us = is->time.time_us;
    x.after_us = was->time.time_us;
    dt_str_addf(&why, "it gained, but the whole plan is faster without it: %s %.2f us, with it %.2f us",
                strncmp(is->time.method, "modeled", 7) ? "measured" : "modeled", x.before_us, x.after_us);
    x.reason = why.s;
    bool ok = !why.failed && copy_entry(&p->entry, &x);
    dt_str_done(&why);
    rw_saved_done(s);
    return ok;
}

/* The mean gap between two launches of the state: from the end of one to the beginning of the next. */
static double gap_us(const struct rw_state *s)
{
    double gap = s->time.time_us;
    for (uint32_t k = 0; k < s->graph->nlaunch; k++)
        gap -= s->step_us[k];
    return s->graph->nlaunch ? gap / s->graph->nlaunch : 0;
}

static int ban(struct rw_planner *p, const char *kind, json_t *launches, struct dt_err *e)
{
    struct rw_ban ban = {kind, json_incref(launches)};
    if (dt_push(&p->ban, ban))
        return 0;
    json_decref(ban.launches);
    return dt_err_set(e, DT_E_NOMEM, "out of memory");
}

/* Go on choosing. 1: it is better than what was taken back, 0: it is not. */
static int without(struct rw_planner *p, const struct rw_saved *s, struct dt_err *e)
{
    int r = rw_all_rounds(p, e);
    struct rw_state *is = &p->state.p[p->state.n - 1], *was = &s->state.p[s->state.n - 1];
    struct dt_str why = {0};
    int faster = r == 0 && !p->budget_spent ? rw_better(p, was, is, &why, e) : 0;
    dt_str_done(&why);
    return r < 0 ? r : faster;
}

/* What was kept from state `from` on of x's kind, and has one of its launches; NULL: nothing. */
static const struct rw_entry *in_its_place(const struct rw_planner *p, size_t from, const struct rw_entry *x)
{
    for (size_t k = from; k < p->state.n && !p->budget_spent; k++) {
        const struct rw_entry *y = &p->entry.p[p->state.p[k].entry];
        size_t i, q;
        json_t *a, *b;
        if (strcmp(y->kind, x->kind) != 0)
            continue;
        json_array_foreach (x->launches, i, a)
            json_array_foreach (y->launches, q, b)
                if (json_equal(a, b))
                    return y;
    }
    return NULL;
}

int rw_rivals(struct rw_planner *p, struct dt_err *e)
{
    unsigned tries = 0;
    if (p->state.p[0].graph->nlaunch > LAUNCHES || RW_FORCED)
        return 0;
    for (size_t from = p->state.n; from-- > 1 && tries < TRIES && !p->budget_spent;) {
        struct rw_saved s = {0};
        const struct rw_entry *x = from < p->state.n ? &p->entry.p[p->state.p[from].entry] : NULL;
        if (!x || !strcmp(x->kind, rw_registry[rw_nregistry - 1]->name) || rw_normal_at(p, x->kind) >= 0 ||
            (p->state.p[0].graph->nlaunch > ALL && x->before_us - x->after_us > gap_us(&p->state.p[0])))
            continue;
        size_t bans = p->ban.n;
        int faster = ban(p, x->kind, x->launches, e);
        while (faster == 0) {
            s = (struct rw_saved){0};
            if (!rw_take_back(p, from, &s))
                return dt_err_set(e, DT_E_NOMEM, "out of memory");
            tries++;
            faster = without(p, &s, e);
            if (faster == 1)
                break;
            const struct rw_entry *other = faster < 0 || tries == TRIES ? NULL : in_its_place(p, from, x);
            bool more = other != NULL;
            int r = more ? ban(p, other->kind, other->launches, e) : 0;
            rw_put_back(p, &s);
            faster = r < 0 ? r : faster;
            if (!more)
                break;
        }
        if (faster == 1 && !adopt(p, &s))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        while (faster != 1 && p->ban.n > bans)
            json_decref(p->ban.p[--p->ban.n].launches);
        if (faster < 0)
            return faster;
    }
    return 0;
}
