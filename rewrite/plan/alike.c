/* Verdicts of equal candidates: layers of a model repeat, and what was dropped or refused in one is not tried in all.
 *
 * Two candidates are equal if the kind is asked the same of them: the same kernels, geometry, arguments, streams and
 * orders; buffers of the same size and role, shared in the same way; and around them the same, too, which are the
 * launches before and behind each of them in the graph and along its edges. So the first and the last layer, and what
 * stands at a layer's border, are others than those between. Names do not count.
 *
 * Only "no" is shared. What was kept is built and tried for each, as there is something new to look at each time. A
 * "no" that is shared wrongly loses a gain and never a bit. Not shared is what hangs on the search itself: an order
 * that another rewrite may clear, a budget, bookkeeping. Nor is anything where times are measured.
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/plan/plan-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define AROUND 24 /* launches around a candidate that are looked at; with more there is nothing like it */

struct around {
    uint32_t launch[AROUND], n;
    bool more;
};

static bool in_list(const uint32_t *list, uint32_t n, uint32_t launch)
{
    for (uint32_t k = 0; k < n; k++)
        if (list[k] == launch)
            return true;
    return false;
}

static void alike_add(struct around *a, const uint32_t *s, uint32_t n, uint32_t launch)
{
    if (in_list(s, n, launch) || in_list(a->launch, a->n, launch))
        return;
    a->more |= a->n == AROUND;
    if (!a->more)
        a->launch[a->n++] = launch;
}

static int alike_by_number(const void *x, const void *y)
{
    const uint32_t *a = x, *b = y;
    return *a < *b ? -1 : *a > *b;
}

/* The launches before and behind those of the candidate, ascending. */
static void alike_around(const struct rw_state *s, const uint32_t *launch, uint32_t n, struct around *a)
{
    *a = (struct around){0};
    for (uint32_t k = 0; k < n; k++) {
        if (launch[k] > 0)
            alike_add(a, launch, n, launch[k] - 1);
        if (launch[k] + 1 < s->graph->nlaunch)
            alike_add(a, launch, n, launch[k] + 1);
    }
    for (uint32_t k = 0; k < s->ana->nedge && !a->more; k++) {
        const struct ana_edge *x = &s->ana->edge[k];
        if (!x->nbuffer)
            continue;
        if (in_list(launch, n, x->producer))
            alike_add(a, launch, n, x->consumer);
        if (in_list(launch, n, x->consumer))
            alike_add(a, launch, n, x->producer);
    }
    qsort(a->launch, a->n, sizeof *a->launch, alike_by_number);
}

static void alike_launch(struct dt_sha256 *h, const struct rw_state *s, uint32_t launch, uint32_t first,
                         uint32_t *number, uint32_t *n)
{
    const struct dt_launch *l = &s->graph->launch[launch];
    rw_add_launch(h, s->prog, launch, false, number, n);
    dt_sha256_addu64(h, launch - first);
    dt_sha256_addu64(h, s->made && s->made[launch]);
    dt_sha256_addu64(h, rw_is_racy(s, launch));
    dt_sha256_addu64(h, l->stream);
    dt_sha256_addu64(h, l->programmatic);
    dt_sha256_addu64(h, l->nafter);
    for (uint32_t k = 0; k < l->nafter; k++)
        dt_sha256_addu64(h, l->after_at[k] - first);
}

bool rw_alike_key(const struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t n,
                  char key[DT_SHA256_TEXT])
{
    const struct rw_state *s = &p->state.p[p->state.n - 1];
    const struct dt_graph *g = s->graph;
    struct around a;
    struct dt_sha256 h;
    uint32_t m = 0;
    if (rw_measures(p) || RW_FORCED)
        return false;
    alike_around(s, launch, n, &a);
    dt_free_ uint32_t *number = a.more ? NULL : dt_malloc(((size_t)g->nbuffer + 1) * sizeof *number);
    if (!number || dt_sha256_init(&h) < 0)
        return false;
    memset(number, 0xFF, g->nbuffer * sizeof *number);
    dt_sha256_addu64(&h, rw_rewrite_bit(w));
    dt_sha256_addu64(&h, n);
    for (uint32_t k = 0; k < n; k++)
        alike_launch(&h, s, launch[k], launch[0], number, &m);
    for (uint32_t k = 0; k < a.n; k++)
        alike_launch(&h, s, a.launch[k], launch[0], number, &m);
    for (uint32_t b = 0; b < g->nbuffer; b++)
        if (number[b] != UINT32_MAX) {
            dt_sha256_addu64(&h, number[b]);
            dt_sha256_addu64(&h, g->buffer[b].role);
        }
    dt_sha256_final(&h, key);
    return true;
}

int rw_alike_record(struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t n,
                    const char key[DT_SHA256_TEXT], struct dt_err *e)
{
    for (size_t k = 0; k < p->alike.n; k++) {
        const struct rw_alike *x = &p->alike.p[k];
        struct dt_str why = {0};
        if (strcmp(x->key, key) != 0)
            continue;
        dt_str_addf(&why, "%s%s", x->reason ? x->reason : "", x->reason ? "; as " : "as ");
        dt_str_addf(&why, DT_LAUNCH "%s", x->first, n > 1 ? " …" : "");
        int r = rw_entry_record(p, w, launch, n, x->level, x->verdict, &why, x->before_us, x->after_us, NULL, e);
        return r < 0 ? r : 1;
    }
    return 0;
}

int rw_alike_keep(struct rw_planner *p, const struct rw_rewrite *w, const uint32_t *launch, uint32_t n,
                  const char key[DT_SHA256_TEXT], struct dt_err *e)
{
    const struct rw_state *s = &p->state.p[p->state.n - 1];
    json_t *names = rw_entry_names(s, launch, n);
    const struct rw_entry *x = names ? rw_entry_find(p, w->name, names) : NULL;
    json_decref(names);
    if (!x || x->verdict == RW_KEPT || x->book || p->budget_spent || dt_has_row(x->reason, "order") ||
        dt_has_row(x->reason, "budget"))
        return 0;
    struct rw_alike a = {.verdict = x->verdict,
                         .level = x->level ? dt_strdup(x->level) : NULL,
                         .reason = x->reason ? dt_strdup(x->reason) : NULL,
                         .before_us = x->before_us,
                         .after_us = x->after_us,
                         .first = dt_strdup(s->graph->launch[launch[0]].name)};
    memcpy(a.key, key, sizeof a.key);
    if (!a.first || (x->reason && !a.reason) || (x->level && !a.level) || !dt_push(&p->alike, a)) {
        free(a.first);
        free(a.level);
        free(a.reason);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return 0;
}

void rw_alike_done(struct rw_planner *p)
{
    for (size_t k = 0; k < p->alike.n; k++) {
        free(p->alike.p[k].first);
        free(p->alike.p[k].level);
        free(p->alike.p[k].reason);
    }
    free(p->alike.p);
}
