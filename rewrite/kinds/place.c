/* Where the launches of a new state stand among the streams, of a graph that was posted on several.
 *
 * Launches that stay keep their stream. A launch of T has the stream of the launch that it stands for, where its
 * document says one, else that of the first of S. What a launch is `after` is anew what its bytes need
 * (facts/streams.c): T follows all that one of S follows, and all that follows one of S follows T; where each of T
 * stands for one of S (rw_part.of), launch by launch. An edge that is missing in the analysis since a launch of S
 * writes the byte for certain goes through T, which follows and is followed all the same; where T is empty, all that
 * one of S follows is before all that follows one of S.
 */
#include "rewrite/kinds/kinds-priv.h"

#include <stdlib.h>
#include <string.h>

struct place {
    const struct rw_edit *x;
    uint32_t n, first;     /* launches of the new graph; the first of T */
    uint32_t *at, *in;     /* by launch of the state: its number in the new graph; its place in S + 1 */
    uint32_t *row, *named; /* by launch of the new graph: the launches that it has a hazard with */
    size_t nedge;
    bool one_for_one;
};

/* Numbers in the new graph that a launch of the state has: *lo … *hi - 1. */
static void place_numbers(const struct place *p, uint32_t launch, uint32_t *lo, uint32_t *hi)
{
    uint32_t parts = (uint32_t)p->x->part.n;
    *lo = p->in[launch] ? p->first : p->at[launch];
    *hi = p->in[launch] ? p->first + parts : *lo + 1;
    for (uint32_t k = 0; p->in[launch] && p->one_for_one && k < parts; k++)
        if (p->x->part.p[k].of == p->in[launch]) {
            *lo = p->first + k;
            *hi = *lo + 1;
        }
}

/* The hazard from a to b, counted, or filled in. */
static void place_edge(struct place *p, uint32_t a, uint32_t b, bool fill)
{
    uint32_t alo, ahi, blo, bhi;
    if (p->in[a] && p->in[b] && !p->one_for_one)
        return; /* T one after another: place_rows */
    place_numbers(p, a, &alo, &ahi);
    place_numbers(p, b, &blo, &bhi);
    for (uint32_t i = alo; i < ahi; i++)
        for (uint32_t k = blo; k < bhi; k++)
            if (i < k && fill)
                p->named[p->row[k]++] = i;
            else if (i < k)
                p->row[k + 1]++, p->nedge++;
}

/* S is gone: what it follows and what follows it, either side of it. */
static void place_past(struct place *p, uint32_t producer, uint32_t consumer, bool fill)
{
    const struct ana_result *ana = p->x->now->ana;
    for (uint32_t k = 0; k < ana->nedge; k++) {
        const struct ana_edge *x = &ana->edge[k];
        if (x->nbuffer && p->in[x->producer] && !p->in[x->consumer] && !p->in[producer] && p->in[consumer])
            place_edge(p, producer, x->consumer, fill);
    }
}

static bool place_rows(struct place *p)
{
    const struct ana_result *ana = p->x->now->ana;
    for (int fill = 0; fill < 2; fill++) {
        for (uint32_t k = 0; k < ana->nedge; k++)
            if (ana->edge[k].nbuffer) {
                place_edge(p, ana->edge[k].producer, ana->edge[k].consumer, fill);
                if (!p->x->part.n)
                    place_past(p, ana->edge[k].producer, ana->edge[k].consumer, fill);
            }
        for (uint32_t k = 1; !p->one_for_one && k < p->x->part.n; k++)
            if (fill)
                p->named[p->row[p->first + k]++] = p->first + k - 1;
            else
                p->row[p->first + k + 1]++, p->nedge++;
        if (fill)
            continue;
        for (uint32_t k = 1; k <= p->n; k++)
            p->row[k] += p->row[k - 1];
        if (!(p->named = dt_calloc(p->nedge + 1, sizeof *p->named)))
            return false;
    }
    memmove(p->row + 1, p->row, p->n * sizeof *p->row); /* filling moved each to the next one's begin */
    p->row[0] = 0;
    return true;
}

static int place_later(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return *x > *y ? -1 : *x < *y;
}

/* The document of launch i, with its stream and these names. */
static bool place_one(json_t *list, uint32_t i, uint32_t stream, json_t *after)
{
    json_t *o = json_array_get(list, i);
    bool same = json_integer_value(json_object_get(o, "stream")) == (json_int_t)stream &&
                json_equal(json_object_get(o, "after"), after);
    if (same)
        return true;
    json_t *mine = json_copy(o);
    return mine && json_object_set_new(mine, "stream", json_integer(stream)) == 0 &&
           json_object_set(mine, "after", after) == 0 && json_array_set_new(list, i, mine) == 0;
}

static uint32_t place_stream(const struct place *p, const json_t *o, uint32_t i)
{
    const json_t *said = json_object_get(o, "stream");
    bool part = i >= p->first && i < p->first + p->x->part.n;
    const struct dt_launch *launch = p->x->now->graph->launch;
    uint32_t of = part ? p->x->part.p[i - p->first].of : 0;
    return of     ? launch[p->x->launch[of - 1]].stream
           : said ? (uint32_t)json_integer_value(said)
                  : launch[p->x->launch[0]].stream;
}

static bool place_all(struct place *p, struct rw_streams *s, json_t *list)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < p->n; i++) {
        uint32_t stream = place_stream(p, json_array_get(list, i), i), *need = p->named + p->row[i], kept = 0;
        json_t *after = json_array();
        rw_streams_begin(s, i, stream);
        qsort(need, p->row[i + 1] - p->row[i], sizeof *need, place_later);
        for (uint32_t k = 0; k < p->row[i + 1] - p->row[i]; k++)
            if (!rw_streams_has(s, i, need[k])) {
                rw_streams_take(s, i, need[k]);
                need[kept++] = need[k];
            }
        for (ok = after; ok && kept-- > 0;)
            ok = json_array_append(after, json_object_get(json_array_get(list, need[kept]), "name")) == 0;
        ok = ok && place_one(list, i, stream, after);
        json_decref(after);
    }
    return ok;
}

bool rw_edit_place(const struct rw_edit *x, const uint32_t *order, json_t *list)
{
    uint32_t n = x->now->graph->nlaunch, to = 0;
    struct place p = {.x = x, .n = (uint32_t)json_array_size(list), .one_for_one = true};
    struct rw_streams s = {0};
    p.at = dt_calloc(2 * ((size_t)n + 1), sizeof *p.at);
    p.row = dt_calloc((size_t)p.n + 2, sizeof *p.row);
    bool ok = p.at && p.row && rw_streams_open(&s, p.n);
    p.in = ok ? p.at + n + 1 : NULL;
    for (uint32_t k = 0; ok && k < x->nlaunch; k++)
        p.in[x->launch[k]] = k + 1;
    for (size_t k = 0; k < x->part.n; k++)
        p.one_for_one = p.one_for_one && x->part.p[k].of;
    for (uint32_t k = 0; ok && k + x->nlaunch < n + 1; k++) {
        if (order[k] == x->launch[0])
            p.first = to;
        else
            p.at[order[k]] = to;
        to += order[k] == x->launch[0] ? (uint32_t)x->part.n : 1;
    }
    ok = ok && place_rows(&p) && place_all(&p, &s, list);
    rw_streams_done(&s);
    free(p.at);
    free(p.row);
    free(p.named);
    return ok;
}
