/* What has ended when a launch of a graph on several streams begins, launch by launch, and what has to be said besides.
 *
 * A launch follows the one before it on its stream, and those in `after`; what these follow has ended as well. Rewrites
 * keep hazards, not the order of the program: a launch is `after` the launches with which it shares bytes that one of
 * them writes, as far as its stream does not say so, and these say it in the fewest names. So an edit that brings
 * launches of two streams together orders no more than bytes do.
 *
 * Of a posted graph this finds the launches that share bytes and that nothing orders (rw_order_posted). Whether a plan
 * keeps every hazard is looked at again in gate/waits.c; this file is not what that rests on.
 */
#include "rewrite/facts/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rewrite/rewrite.h"

bool rw_streams_open(struct rw_streams *s, uint32_t n)
{
    *s = (struct rw_streams){.words = (size_t)n / 64 + 1};
    s->ended = dt_calloc(n * s->words + 1, sizeof *s->ended);
    return s->ended != NULL;
}

void rw_streams_done(struct rw_streams *s)
{
    free(s->ended);
    *s = (struct rw_streams){0};
}

bool rw_streams_has(const struct rw_streams *s, uint32_t b, uint32_t a)
{
    return s->ended[b * s->words + a / 64] >> a % 64 & 1;
}

void rw_streams_take(struct rw_streams *s, uint32_t b, uint32_t a)
{
    uint64_t *to = s->ended + b * s->words;
    const uint64_t *from = s->ended + a * s->words;
    for (size_t k = 0; k <= a / 64; k++)
        to[k] |= from[k];
    to[a / 64] |= UINT64_C(1) << a % 64;
}

void rw_streams_begin(struct rw_streams *s, uint32_t b, uint32_t stream)
{
    if (s->last[stream])
        rw_streams_take(s, b, s->last[stream] - 1);
    s->last[stream] = b + 1;
}

/* Launch b is `after` these as well. */
static bool also_after(struct dt_graph *g, uint32_t b, const uint32_t *more, uint32_t n)
{
    struct dt_launch *l = &g->launch[b];
    const char **after = dt_new_array(&g->arena, const char *, l->nafter + n + 1);
    uint32_t *at = dt_new_array(&g->arena, uint32_t, l->nafter + n + 1);
    if (!after || !at)
        return false;
    if (l->nafter) {
        memcpy(after, l->after, l->nafter * sizeof *after);
        memcpy(at, l->after_at, l->nafter * sizeof *at);
    }
    for (uint32_t k = 0; k < n; k++) {
        after[l->nafter + k] = g->launch[more[k]].name;
        at[l->nafter + k] = more[k];
    }
    l->after = after;
    l->after_at = at;
    l->nafter += n;
    return true;
}

/* The message has no names: stored documents have others than the poster's (cache/rename.c). */
static void unordered(const struct dt_graph *g, const struct ana_edge *x, struct dt_warnings *w)
{
    char pointer[40];
    bool sure = x->evidence != ANA_DATA_DEPENDENT;
    snprintf(pointer, sizeof pointer, "/launches/%u", x->consumer);
    dt_warn(w, json_pack(
                   "{s:s, s:o, s:s, s:s, s:s}", "code", "unordered", "message",
                   json_sprintf("it and /launches/%u %s the same bytes, which one of them writes, and neither a stream "
                                "nor `after` orders them: they are taken one after the other, as the document has "
                                "them, and so is the baseline",
                                x->producer, sure ? "touch" : "may touch"),
                   "pointer", pointer, "launch", g->launch[x->consumer].name, "buffer", g->buffer[x->buffer[0]].name));
}

int rw_order_posted(struct dt_graph *g, const struct ana_result *a, struct dt_warnings *w, struct dt_err *e)
{
    struct rw_streams s = {0};
    if (!g->streams)
        return 0;
    dt_free_ uint32_t *more = dt_calloc((size_t)g->nlaunch + 1, sizeof *more);
    bool ok = more && rw_streams_open(&s, g->nlaunch);
    uint32_t k = 0;
    for (uint32_t b = 0; ok && b < g->nlaunch; b++) {
        uint32_t n = 0, end = k;
        rw_streams_begin(&s, b, g->launch[b].stream);
        for (uint32_t i = 0; i < g->launch[b].nafter; i++)
            rw_streams_take(&s, b, g->launch[b].after_at[i]);
        while (end < a->nedge && a->edge[end].consumer == b)
            end++;
        for (uint32_t i = end; i-- > k;) { /* the latest first: it may have waited for the others */
            const struct ana_edge *x = &a->edge[i];
            if (!x->nbuffer || rw_streams_has(&s, b, x->producer))
                continue;
            rw_streams_take(&s, b, x->producer);
            more[n++] = x->producer;
            unordered(g, x, w);
        }
        k = end;
        ok = !n || also_after(g, b, more, n);
    }
    rw_streams_done(&s);
    return ok ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}
