/* The rows of the plan's `rewrites`: one for each candidate that was looked at, by kind and names of launches.
 *
 * A candidate may be looked at again in another state; the row then says what became of it last. A kind of two passes
 * has one row for a candidate, with what both passes say.
 */
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

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

char *rw_entry_reason(char *text)
{
    for (char *at = text; at && (at = strstr(at, " at 0x")) != NULL;) {
        size_t n = 6 + strspn(at + 6, "0123456789abcdef");
        memmove(at, at + n, strlen(at + n) + 1);
    }
    return text;
}

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
    if ((x = rw_entry_find(p, w->name, names))) {
        json_decref(names);
    } else {
        n.launches = names;
        n.hash = entry_hash(w->name, names);
        if (!dt_push(&p->entry, n)) {
            json_decref(names);
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        }
        x = &p->entry.p[p->entry.n - 1];
    }
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
    }
    free(v->p);
    memset(v, 0, sizeof *v);
}
