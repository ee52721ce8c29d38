/* The rows of the plan's `rewrites`: one for each candidate that was looked at, by kind and names of launches.
 *
 * A candidate may be looked at again in another state; the row then says what became of it last. A kind of two passes
 * has one row for a candidate, with what both passes say.
 *
 * A candidate that is refused for what an earlier rewrite made of its launches (it was put on a stream, or waits
 * programmatically; or what was joined lies between the two now) says nothing of the posted graph. That is bookkeeping:
 * the search needs to know it, and the plan has no row of it, or the one that there was before.
 */
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

json_t *rw_entry_names(const struct rw_state *s, const uint32_t *launch, uint32_t n)
{
    json_t *v = json_array();
    for (uint32_t k = 0; v && k < n; k++)
        if (json_array_append_new(v, json_string(s->graph->launch[launch[k]].name)) < 0) {
            json_decref(v);
            return NULL;
        }
    return v;
}

/* Large graphs have thousands of entries, and each round asks for each candidate. */
static uint64_t entry_hash(const char *kind, const json_t *launches)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    size_t i = 0;
    for (const char *s = kind; s; s = json_string_value(json_array_get(launches, i++)))
        for (const char *c = s;; c++) {
            h = (h ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
            if (!*c)
                break;
        }
    return h;
}

struct rw_entry *rw_entry_find(struct rw_planner *p, const char *kind, const json_t *launches)
{
    uint64_t hash = entry_hash(kind, launches);
    for (size_t k = 0; k < p->entry.n; k++)
        if (p->entry.p[k].hash == hash && !strcmp(p->entry.p[k].kind, kind) &&
            json_equal(p->entry.p[k].launches, launches))
            return &p->entry.p[k];
    return NULL;
}

bool rw_entry_within(const struct rw_planner *p, const char *kind, const json_t *launches)
{
    size_t n = json_array_size(launches);
    for (size_t k = 0; n && k < p->entry.n; k++) {
        const struct rw_entry *x = &p->entry.p[k];
        size_t m = json_array_size(x->launches), at = 0, i = 0;
        if (m <= n || x->verdict == RW_KEPT || strcmp(x->kind, kind) != 0)
            continue;
        while (at < m && !json_equal(json_array_get(x->launches, at), json_array_get(launches, 0)))
            at++;
        while (i < n && at + i < m && json_equal(json_array_get(x->launches, at + i), json_array_get(launches, i)))
            i++;
        if (i == n)
            return true;
    }
    return false;
}

char *rw_entry_reason(char *text)
{
    for (char *at = text; at && (at = strstr(at, " at 0x")) != NULL;) {
        size_t n = 6 + strspn(at + 6, "0123456789abcdef");
        memmove(at, at + n, strlen(at + n) + 1);
    }
    return text;
}

/* ---- bookkeeping ------------------------------------------------------------------------------------------------- */

/* Which posted launch it is, as it was posted; UINT32_MAX: it is what a rewrite made, or part of one. */
static uint32_t as_posted(const struct rw_planner *p, const struct rw_state *s, uint32_t launch)
{
    const struct dt_graph *posted = p->state.p[0].graph;
    const uint64_t *member = s->member + launch * rw_member_words(&p->gate);
    uint32_t at = dt_graph_find_launch(posted, s->graph->launch[launch].name);
    if (at == DT_NAME_NONE || (s->made && s->made[launch]))
        return UINT32_MAX;
    for (uint32_t k = 0; k < posted->nlaunch; k++)
        if ((member[k / 64] >> k % 64 & 1) != (k == at))
            return UINT32_MAX;
    return at;
}

/* Was one of them placed by a rewrite, while none is something that could never be joined? */
static bool placed(const struct dt_graph *g, const uint32_t *launch, uint32_t n)
{
    bool some = false;
    for (uint32_t k = 0; k < n; k++) {
        const struct dt_launch *l = &g->launch[launch[k]];
        if (l->kind != DT_KERNEL)
            return false;
        for (uint32_t i = 0; i < l->narg; i++)
            if (l->arg[i].kind == DT_ARG_TENSOR_MAP)
                return false;
        some |= l->programmatic || rw_is_placed(g, launch[k]);
    }
    return some;
}

/* Is what is refused for the order of launches possible among the posted ones? */
static bool taken_before(const struct rw_planner *p, const uint32_t *launch, uint32_t n)
{
    const struct rw_state *s = &p->state.p[p->state.n - 1], *first = &p->state.p[0];
    uint32_t between = 0, *order = dt_calloc(first->graph->nlaunch + n + 1, sizeof *order),
             *were = order ? order + first->graph->nlaunch + 1 : NULL;
    bool yes = false;
    for (uint32_t k = 0; order && k < n && !yes; k++) {
        uint32_t was = as_posted(p, s, launch[k]), at = k;
        for (yes = was == UINT32_MAX; at && were[at - 1] > was; at--) /* ascending: rewrites may have moved them */
            were[at] = were[at - 1];
        were[at] = was;
    }
    yes = order && (yes || rw_order(first->ana, were, n, order, &between));
    free(order);
    return yes;
}

static bool bookkeeping(const struct rw_planner *p, const uint32_t *launch, uint32_t n, enum rw_verdict v,
                        const struct dt_str *reason)
{
    const struct rw_state *s = &p->state.p[p->state.n - 1];
    if (v != RW_REFUSED || !reason || !reason->len || !s->member || s == p->state.p)
        return false;
    return dt_has_row(reason->s, "plain-launches") ? placed(s->graph, launch, n)
           : dt_has_row(reason->s, "order")        ? taken_before(p, launch, n)
                                                   : false;
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

/* A kind of two passes has one entry for a candidate: what the other pass said of it stays beside what this one
 * says. */
static void entries_merge(struct rw_entry *x, enum rw_verdict v, struct dt_str *reason)
{
    struct dt_str both = {0};
    bool first = v == RW_REFUSED && x->verdict == RW_REFUSED,
         news = reason && reason->len && !(x->reason && strstr(x->reason, reason->s));
    if (news && first)
        dt_str_add(&both, reason->s);
    if (x->reason)
        dt_str_addf(&both, "%s%s", both.len ? "; " : "", x->reason);
    if (news && !first)
        dt_str_addf(&both, "%s%s", both.len ? "; " : "", reason->s);
    if (reason && (v != RW_KEPT || x->verdict == RW_DROPPED)) {
        dt_str_done(reason);
        *reason = both;
    } else {
        dt_str_done(&both);
    }
}

int rw_entry_record(struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t nlaunch,
                    const char *level, enum rw_verdict v, struct dt_str *reason, double before, double after,
                    size_t *ret_at, struct dt_err *e)
{
    struct rw_entry n = {.kind = w->name}, *x;
    json_t *names = rw_entry_names(&p->state.p[p->state.n - 1], launch, nlaunch);
    if (!names)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    bool book = bookkeeping(p, launch, nlaunch, v, reason);
    if ((x = rw_entry_find(p, w->name, names))) {
        json_decref(names);
        if (book && !x->book) {
            x->fact = x->reason ? dt_strdup(x->reason) : NULL;
        } else if (!book && x->book) {
            free(x->reason);
            x->reason = x->fact;
            x->fact = NULL;
        }
    } else {
        n.launches = names;
        n.hash = entry_hash(w->name, names);
        if (!dt_push(&p->entry, n)) {
            json_decref(names);
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        }
        x = &p->entry.p[p->entry.n - 1];
    }
    x->book = book;
    /* the later pass came first */
    bool other = x->tried && !(x->tried & rw_rewrite_bit(w)),
         again = other && v == RW_REFUSED && rw_rewrite_bit(w) < x->tried;
    x->tried |= rw_rewrite_bit(w);
    if (again) {
        dt_str_done(reason);
        return 0;
    }
    if (other)
        entries_merge(x, v, reason);
    /* what is told of is the better one */
    if (other && v != RW_KEPT && x->verdict == RW_DROPPED && (v != RW_DROPPED || x->after_us <= after)) {
        free(x->reason);
        x->reason = reason && reason->len ? rw_entry_reason(dt_str_take(reason)) : NULL;
        return 0;
    }
    free(x->level);
    free(x->reason);
    x->verdict = v;
    x->states = p->state.n;
    x->before_us = before;
    x->after_us = after;
    x->gain[0] = x->gain[1] = 0;
    x->level = level ? dt_strdup(level) : NULL;
    x->reason = reason && reason->len ? rw_entry_reason(dt_str_take(reason)) : NULL;
    if (ret_at)
        *ret_at = (size_t)(x - p->entry.p);
    return 0;
}

void rw_entries_free(struct rw_entries *v)
{
    for (size_t k = 0; k < v->n; k++) {
        free(v->p[k].level);
        json_decref(v->p[k].launches);
        free(v->p[k].reason);
        free(v->p[k].fact);
    }
    free(v->p);
    memset(v, 0, sizeof *v);
}
