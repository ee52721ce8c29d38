/* Which launches of the graph follow which: what the program ordered, and nothing else.
 *
 * Sets of launches have ended before each operation of the trace:
 *
 *   on its stream    what came before there; on the default stream (the legacy one) also what came before on every
 *                    stream that was not made CU_STREAM_NON_BLOCKING, and on such a stream what came before on the
 *                    default one
 *   by events        what its stream waited for
 *   by the host      what the thread that asks for it has waited for: a stream, an event, everything, a copy to the
 *                    host that is no asynchronous one. What several threads of the host agree on between themselves is
 *                    not seen, and orders nothing. What the host wrote itself, and a kernel reads, was there before all
 *                    that was asked for later
 *   in a CUDA graph  what came before on the stream of its launch, and the nodes that lead to it; later work of the
 *                    stream follows all nodes
 *
 * What is left out on the way (copies that became content, or results) passes on what it waited for. What came before
 * the range has ended.
 *
 * In the document a launch is on the stream whose last launch has ended before it, the program's own where that is one,
 * so that a stream says nothing that the program did not; `after` has the rest, in the fewest names. Where it all comes
 * to one stream, nothing is said.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "capture/capture-priv.h"

#define MOST_LAUNCHES 16384u /* of a document */
#define MOST_STREAMS 1024u   /* DT_STREAMS of graph/graph.h */
#define MOST_NODES 65536u

struct named { /* a stream, an event, a thread, a node of a CUDA graph: what has ended where it stands */
    uint64_t id;
    uint32_t thread;
    bool apart;      /* a stream that does not wait for the default one */
    uint32_t number; /* of a stream: among the program's, CAP_NONE: it is gone */
    uint64_t *set;
};
struct all_named { /* as dt_vec */
    struct named *p;
    size_t n, cap;
};
struct cap_order_of {
    const struct cap_trace *t;
    uint32_t most, n; /* launches */
    size_t words;
    struct all_named stream, mark, thread, node;
    uint32_t nstream;
    size_t event;
    uint64_t *base;         /* ended before all that comes */
    uint64_t *before, *all; /* of the operation at hand; of the CUDA graph: all of its nodes */
    uint64_t *graph;        /* before the CUDA graph at hand */
    uint64_t *next;         /* what the next node waits for */
    bool in_graph;
    uint32_t at;      /* the program's stream of the operation at hand */
    uint64_t **ended; /* by launch */
    uint32_t *of;     /* by launch: the program's stream */
    bool *early;      /* by launch: it need not wait for the end of the one before it on its stream */
    bool failed;
};

/* ---- sets ---- */
static uint64_t *order_set(struct cap_order_of *o)
{
    uint64_t *p = dt_calloc(o->words, sizeof *p);
    o->failed = o->failed || !p;
    return p;
}

static void order_join(const struct cap_order_of *o, uint64_t *to, const uint64_t *from)
{
    for (size_t k = 0; to && from && k < o->words; k++)
        to[k] |= from[k];
}

static void order_copy(const struct cap_order_of *o, uint64_t *to, const uint64_t *from)
{
    if (to && from)
        memcpy(to, from, o->words * sizeof *to);
}

static bool order_in(const uint64_t *set, uint32_t launch) { return set[launch / 64] >> launch % 64 & 1; }
static void order_put(uint64_t *set, uint32_t launch) { set[launch / 64] |= UINT64_C(1) << launch % 64; }

static struct named *order_find(struct cap_order_of *o, struct all_named *v, uint64_t id, uint32_t thread, bool make)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->p[i].id == id && v->p[i].thread == thread && v->p[i].number != CAP_NONE)
            return &v->p[i];
    struct named x = {.id = id, .thread = thread, .set = make ? order_set(o) : NULL};
    if (!x.set || !dt_push(v, x)) {
        free(x.set);
        o->failed = o->failed || make;
        return NULL;
    }
    return &v->p[v->n - 1];
}

static void order_drop(struct all_named *v)
{
    for (size_t i = 0; i < v->n; i++)
        free(v->p[i].set);
    v->n = 0;
}

/* ---- streams and the host ---- */
static struct named *order_stream(struct cap_order_of *o, uint64_t stream, uint32_t by)
{
    uint64_t id = stream == CAP_LEGACY ? 0 : stream;
    size_t had = o->stream.n;
    struct named *s =
        order_find(o, &o->stream, id, id == CAP_PER_THREAD ? by & CAP_THREAD : 0, true); /* each thread has its own */
    if (s && o->stream.n > had)
        s->number = o->nstream++;
    if (s)
        s->apart = by & CAP_APART;
    return s;
}

static struct named *order_thread(struct cap_order_of *o, uint32_t by)
{
    return order_find(o, &o->thread, by & CAP_THREAD, 0, true);
}

/* What has ended when work begins that is asked for now on the stream. */
static void order_before(struct cap_order_of *o, const struct named *s, uint32_t by, uint64_t *to)
{
    const struct named *thread = order_thread(o, by);
    memset(to, 0, o->words * sizeof *to);
    order_join(o, to, o->base);
    order_join(o, to, thread ? thread->set : NULL);
    order_join(o, to, s->set);
    for (size_t i = 0; i < o->stream.n; i++)
        if (!s->id ? !o->stream.p[i].apart : !s->apart && !o->stream.p[i].id)
            order_join(o, to, o->stream.p[i].set);
}

/* The thread that asks has waited for it. */
static void order_host(struct cap_order_of *o, uint32_t by, const uint64_t *set)
{
    struct named *thread = order_thread(o, by);
    order_join(o, thread ? thread->set : NULL, set);
}

static void order_event(struct cap_order_of *o, const struct cap_order *x, uint32_t by)
{
    struct named *s, *e = x->event ? order_find(o, &o->mark, x->event, 0, false) : NULL, *n;
    switch (x->what) {
    case CAP_RECORD:
        s = order_stream(o, x->stream, by);
        e = order_find(o, &o->mark, x->event, 0, true);
        if (s && e) {
            order_before(o, s, by, e->set);
            order_copy(o, s->set, e->set);
        }
        return;
    case CAP_WAIT:
        s = order_stream(o, x->stream, by);
        order_join(o, s ? s->set : NULL, e ? e->set : NULL);
        return;
    case CAP_SYNC_STREAM:
        s = order_stream(o, x->stream, by);
        order_host(o, by, s ? s->set : NULL);
        return;
    case CAP_SYNC_EVENT: order_host(o, by, e ? e->set : NULL); return;
    case CAP_SYNC_ALL:
        for (size_t i = 0; i < o->stream.n; i++)
            order_host(o, by, o->stream.p[i].set);
        return;
    case CAP_GONE: /* its name may come again; what was on it has not ended by that */
        s = x->event ? NULL : order_find(o, &o->stream, x->stream, 0, false);
        if (s || e)
            (s ? s : e)->number = CAP_NONE;
        return;
    case CAP_GRAPH:
        s = order_stream(o, x->stream, by);
        order_drop(&o->node);
        o->in_graph = s;
        if (s)
            order_before(o, s, by, o->graph);
        order_copy(o, o->next, o->graph);
        order_copy(o, o->all, o->graph);
        return;
    case CAP_NODE_AFTER:
        n = o->in_graph && x->event < o->node.n ? &o->node.p[x->event] : NULL;
        order_join(o, o->next, n ? n->set : NULL);
        return;
    case CAP_NODE: /* they come by number */
        n = o->in_graph && x->event == o->node.n && o->node.n < MOST_NODES ? order_find(o, &o->node, x->event, 0, true)
                                                                           : NULL;
        order_copy(o, n ? n->set : NULL, o->next);
        order_copy(o, o->next, o->graph);
        return;
    case CAP_GRAPH_END:
        s = order_stream(o, x->stream, by);
        order_copy(o, s ? s->set : NULL, o->all);
        o->in_graph = false;
        return;
    default: return;
    }
}

/* ---- operations ---- */
struct cap_order_of *cap_order_new(const struct cap_trace *t, uint32_t most)
{
    struct cap_order_of *o = dt_calloc(1, sizeof *o);
    if (!o)
        return NULL;
    most = most < MOST_LAUNCHES ? most : MOST_LAUNCHES; /* with more no service takes the document */
    *o = (struct cap_order_of){.t = t, .most = most, .words = most / 64 + 1};
    o->base = order_set(o);
    o->before = order_set(o);
    o->all = order_set(o);
    o->graph = order_set(o);
    o->next = order_set(o);
    o->of = dt_calloc((size_t)most + 1, sizeof *o->of);
    o->ended = dt_calloc((size_t)most + 1, sizeof *o->ended);
    o->early = dt_calloc((size_t)most + 1, sizeof *o->early);
    o->failed = o->failed || !o->of || !o->ended || !o->early;
    return o;
}

struct cap_order_of *cap_order_free(struct cap_order_of *o)
{
    struct all_named *v[] = {&o->stream, &o->mark, &o->thread, &o->node};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        order_drop(v[i]);
        free(v[i]->p);
    }
    free(o->base);
    free(o->before);
    free(o->all);
    free(o->graph);
    free(o->next);
    for (uint32_t i = 0; o->ended && i < o->n; i++)
        free(o->ended[i]);
    free(o->ended);
    free(o->of);
    free(o->early);
    free(o);
    return NULL;
}

void cap_order_begin(struct cap_order_of *o, uint32_t op)
{
    const struct cap_op *x = &o->t->op.p[op];
    for (; !o->failed && o->event < o->t->event.n && o->t->event.p[o->event].op <= op; o->event++)
        order_event(o, &o->t->event.p[o->event].order, o->t->event.p[o->event].by);
    struct named *s = o->failed ? NULL : order_stream(o, x->stream, x->by);
    if (!s)
        return;
    o->at = s->number;
    if (o->in_graph)
        order_copy(o, o->before, o->node.n ? o->node.p[o->node.n - 1].set : o->graph);
    else
        order_before(o, s, x->by, o->before);
}

void cap_order_launch(struct cap_order_of *o, uint32_t op)
{
    const struct cap_op *x = &o->t->op.p[op];
    if (o->failed || o->n >= o->most)
        return;
    if (!(o->ended[o->n] = order_set(o)))
        return;
    order_copy(o, o->ended[o->n], o->before);
    o->of[o->n] = o->at;
    o->early[o->n] = x->kind == CAP_KERNEL && x->launch.flags & CAP_PROGRAMMATIC;
    order_put(o->before, o->n++);
}

void cap_order_end(struct cap_order_of *o, uint32_t op)
{
    const struct cap_op *x = &o->t->op.p[op];
    struct named *s = o->failed ? NULL : order_stream(o, x->stream, x->by);
    if (s && x->host)
        order_join(o, o->base, o->before);
    else if (s && o->in_graph) {
        order_join(o, o->node.n ? o->node.p[o->node.n - 1].set : NULL, o->before);
        order_join(o, o->all, o->before);
    } else if (s)
        order_copy(o, s->set, o->before);
}

/* ---- the document ---- */
struct lanes {
    uint32_t last[MOST_STREAMS], n; /* the last launch on each stream of the document */
};

/* The stream for launch i: *hint is where the program's stream was last. */
static uint32_t lane_of(const struct cap_order_of *o, struct lanes *l, uint32_t i, const uint32_t *hint)
{
    const uint64_t *ended = o->ended[i];
    uint32_t best = CAP_NONE;
    if (*hint < l->n && order_in(ended, l->last[*hint]))
        return *hint;
    for (uint32_t k = 0; k < l->n; k++)
        if (order_in(ended, l->last[k]) && (best == CAP_NONE || l->last[k] > l->last[best]))
            best = k;
    return best != CAP_NONE ? best : l->n < MOST_STREAMS ? l->n++ : MOST_STREAMS - 1;
}

/* The launches that i follows beside the last one on its stream. */
static json_t *named_after(const struct cap_order_of *o, uint32_t i, uint32_t last, uint64_t *covered)
{
    json_t *list = json_array();
    const uint64_t *ended = o->ended[i];
    memset(covered, 0, o->words * sizeof *covered);
    if (last != CAP_NONE) {
        order_copy(o, covered, o->ended[last]);
        order_put(covered, last);
    }
    for (uint32_t k = i; k-- > 0;)
        if (order_in(ended, k) && !order_in(covered, k)) {
            json_array_insert_new(list, 0, json_integer(k));
            order_join(o, covered, o->ended[k]);
        }
    return list;
}

static void placed(json_t *launches, uint32_t i, uint32_t lane, const json_t *after)
{
    json_t *l = json_array_get(launches, i), *names = json_array(), *v;
    size_t k;
    json_array_foreach (after, k, v)
        json_array_append(names, json_object_get(json_array_get(launches, (size_t)json_integer_value(v)), "name"));
    json_object_set_new(l, "stream", json_integer(lane));
    if (json_array_size(names))
        json_object_set(l, "after", names);
    json_decref(names);
}

bool cap_order_put(struct cap_order_of *o, json_t *launches, json_t *streams, json_t *waits)
{
    struct lanes *l = dt_calloc(1, sizeof *l);
    uint32_t *hint = dt_calloc(2 * ((size_t)o->nstream + 1), sizeof *hint), number = 0;
    uint32_t *lane = dt_calloc((size_t)o->n + 1, sizeof *lane), *name = hint ? hint + o->nstream + 1 : NULL;
    bool *behind = dt_calloc((size_t)o->n + 1, sizeof *behind), ok = l && hint && lane && behind && !o->failed;
    for (uint32_t i = 0; ok && i < o->nstream; i++)
        hint[i] = name[i] = CAP_NONE;
    for (uint32_t i = 0; ok && i < o->n; i++) {
        uint32_t of = o->of[i], had = l->n, k = lane_of(o, l, i, &hint[of]);
        name[of] = name[of] == CAP_NONE ? number++ : name[of]; /* numbers by the first launch */
        json_array_append_new(streams, json_integer(name[of]));
        json_array_append_new(waits, named_after(o, i, k < had ? l->last[k] : CAP_NONE, o->before));
        behind[i] = k < had;
        hint[of] = lane[i] = k;
        l->last[k] = i;
    }
    bool several = l && l->n > 1;
    for (uint32_t i = 0; ok && i < o->n; i++) {
        if (several)
            placed(launches, i, lane[i], json_array_get(waits, i));
        /* it waits for nothing but the launch before it there */
        if (o->early[i] && behind[i] && !json_array_size(json_array_get(waits, i)))
            json_object_set_new(json_array_get(launches, i), "programmatic", json_true());
    }
    free(behind);
    free(l);
    free(hint);
    free(lane);
    return ok;
}
