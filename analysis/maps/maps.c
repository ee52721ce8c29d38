/* Edges: which block of a launch must come after which block of an earlier one, and why.
 *
 * The rule (docs/CONTRACT.md §3), per byte: (c, p) is a raw pair when p writes and c reads the byte, war when p reads
 * and c writes, waw when both write, and no launch strictly between writes the byte for certain. `Writes` includes
 * writes that only may happen; a launch writes a byte for certain when some block of it does.
 *
 * For each launch p and each buffer that it touches, the later launches that touch the buffer are visited in order,
 * with the set of bytes that were surely written since p; the walk ends when that set covers all that p touches.
 * Each hazard of a pair of launches and buffer becomes a link (pairs of strip sets that share a live byte);
 * relation.c makes block pairs of the links.
 *
 * An edge of `base` is taken over where no launch that touches one of the producer's buffers is new, gone or elsewhere
 * in their order: states of a planning differ in few launches.
 *
 * Evidence of an edge: the worst of the planes (footprint.c) of either side that share a live byte.
 * Independent bytes: what the consumer reads exactly, minus all that is perhaps written from the producer on.
 */
#include "analysis/maps/maps-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/radix.h"
#include "base/vec.h"

enum { RAW, WAR, WAW, HAZARDS };
#define MAX_ALL_EDGES 2048 /* launches, with all_edges */

struct use { /* one launch's access to one buffer */
    uint32_t launch, buffer;
    const struct ana_access *x;
    struct ana_set all_write, all; /* bytes perhaps written; touched at all */
    struct ana_strips read, write; /* built at first need */
    bool built;
};

struct found { /* a link of launch p with a later launch */
    uint32_t consumer, buffer;
    uint8_t hazard;
    struct ana_link link;
};

struct maps {
    struct ana_result *r;
    uint32_t nlaunch, nbuffer;
    struct use *use;       /* by launch, buffer */
    uint32_t nuse, *first; /* of each launch */
    uint32_t *by, *at;     /* uses by buffer: use[by[at[b]]] …, launches ascending */
    uint32_t *place;       /* of each use in `by` */
    const struct ana_base *base;
    uint32_t *now;       /* by launch of base: which one it is here, UINT32_MAX: none */
    uint32_t *from;      /* by launch of base: its first edge in `old`; one more */
    uint32_t *old;       /* edges of base by producer */
    bool *dirty;         /* by buffer: what touches it is not as in base */
    struct dt_arena tmp; /* for the whole pass */
    struct dt_vec(struct ana_edge) edge;
    struct dt_vec(struct found) found; /* of the current producer */
    struct dt_err *e;
};

static int build_uses(struct maps *m)
{
    struct ana_launch *l = m->r->launch;
    for (uint32_t i = 0; i < m->nlaunch; i++)
        m->nuse += l[i].naccess;
    m->use = dt_calloc((size_t)m->nuse + 1, sizeof *m->use);
    m->first = dt_calloc((size_t)m->nlaunch + 1, sizeof *m->first);
    m->by = dt_calloc((size_t)m->nuse + 1, sizeof *m->by);
    m->place = dt_calloc((size_t)m->nuse + 1, sizeof *m->place);
    m->at = dt_calloc((size_t)m->nbuffer + 2, sizeof *m->at);
    if (!m->use || !m->first || !m->by || !m->place || !m->at)
        return DT_E_NOMEM;
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->nlaunch; i++) {
        m->first[i] = n;
        for (uint32_t k = 0; k < l[i].naccess; k++) {
            struct use *u = &m->use[n++];
            *u = (struct use){.launch = i, .buffer = l[i].access[k].buffer, .x = &l[i].access[k]};
            for (unsigned ev = 0; ev < ANA_EVIDENCES; ev++) {
                u->all_write = ana_set_union(&m->tmp, u->all_write, u->x->write_by[ev]);
                u->all = ana_set_union(&m->tmp, u->all, u->x->read_by[ev]);
            }
            u->all = ana_set_union(&m->tmp, u->all, u->all_write);
            m->at[u->buffer + 2]++;
        }
    }
    m->first[m->nlaunch] = n;
    for (uint32_t b = 0; b < m->nbuffer; b++)
        m->at[b + 2] += m->at[b + 1];
    for (uint32_t i = 0; i < n; i++) {
        m->place[i] = m->at[m->use[i].buffer + 1]++;
        m->by[m->place[i]] = i;
    }
    return m->tmp.failed ? DT_E_NOMEM : 0;
}

static int build_strips(struct maps *m, struct use *u)
{
    if (u->built)
        return 0;
    const struct ana_launch *l = &m->r->launch[u->launch];
    struct dt_arena a = {0};
    struct ana_set *rd = dt_new_array(&a, struct ana_set, (size_t)l->nblock + 1);
    struct ana_set *wr = dt_new_array(&a, struct ana_set, (size_t)l->nblock + 1);
    int rc = rd && wr ? 0 : DT_E_NOMEM;
    for (uint32_t b = 0; b < l->nblock && !rc; b++)
        for (uint32_t k = 0; k < l->block[b].ntouch; k++) {
            const struct ana_touch *t = &l->block[b].touch[k];
            if (t->buffer != u->buffer)
                continue;
            rd[b] = t->read;
            wr[b] = ana_set_union(&a, t->must_write, t->may_write);
        }
    if (!rc && a.failed)
        rc = DT_E_NOMEM;
    if (!rc)
        rc = ana_strips_build(&m->tmp, rd, l->nblock, &u->read, m->e);
    if (!rc)
        rc = ana_strips_build(&m->tmp, wr, l->nblock, &u->write, m->e);
    u->built = !rc;
    dt_arena_done(&a);
    return rc;
}

DT_RADIX(by_pair, struct ana_link_pair, (uint64_t)x->c << 32 | x->p)

/* Does [lo, hi) have a byte outside `dead`? *from: where to begin looking; lo never decreases between calls. */
static bool some_alive(struct ana_set dead, uint64_t lo, uint64_t hi, uint32_t *from)
{
    while (*from < dead.n && dead.iv[*from].hi <= lo)
        ++*from;
    return *from >= dead.n || dead.iv[*from].lo > lo || dead.iv[*from].hi < hi;
}

static int make_link(struct dt_arena *a, const struct ana_strips *p, const struct ana_strips *c, struct ana_set dead,
                     struct ana_link *ret)
{
    struct dt_vec(struct ana_link_pair) v = {0};
    struct ana_link l = {.p = p, .c = c};
    bool ok = true;
    uint32_t from = 0;
    for (uint32_t i = 0, j = 0; i < p->nstrip && j < c->nstrip && ok;) {
        const struct ana_strip *x = &p->strip[i], *y = &c->strip[j];
        uint64_t lo = x->lo > y->lo ? x->lo : y->lo, hi = x->hi < y->hi ? x->hi : y->hi;
        if (lo < hi && some_alive(dead, lo, hi, &from)) {
            struct ana_link_pair q = {y->set, x->set};
            if (!v.n || v.p[v.n - 1].c != q.c || v.p[v.n - 1].p != q.p)
                ok = dt_push(&v, q);
        }
        if (x->hi < y->hi)
            i++;
        else
            j++;
    }
    if (ok && v.n && (ok = by_pair(v.p, v.n))) {
        size_t n = 0;
        for (size_t i = 0; i < v.n; i++)
            if (!n || v.p[i].c != v.p[n - 1].c || v.p[i].p != v.p[n - 1].p)
                v.p[n++] = v.p[i];
        l.pair = dt_new_array(a, struct ana_link_pair, n);
        l.npair = (uint32_t)n;
        ok = l.pair && n <= UINT32_MAX;
        if (ok)
            memcpy(l.pair, v.p, n * sizeof *v.p);
    }
    free(v.p);
    if (ok)
        *ret = l;
    return ok ? 0 : DT_E_NOMEM;
}

/* Is a byte in x and in y and not in dead? */
static bool share_alive(struct ana_set x, struct ana_set y, struct ana_set dead)
{
    uint32_t from = 0;
    for (uint32_t i = 0, j = 0; i < x.n && j < y.n;) {
        uint64_t lo = x.iv[i].lo > y.iv[j].lo ? x.iv[i].lo : y.iv[j].lo;
        uint64_t hi = x.iv[i].hi < y.iv[j].hi ? x.iv[i].hi : y.iv[j].hi;
        if (lo < hi && some_alive(dead, lo, hi, &from))
            return true;
        if (x.iv[i].hi < y.iv[j].hi)
            i++;
        else
            j++;
    }
    return false;
}

static enum ana_evidence worst(const struct ana_set *p, const struct ana_set *c, struct ana_set dead)
{
    enum ana_evidence w = ANA_PROVED;
    for (unsigned i = 0; i < ANA_EVIDENCES; i++)
        for (unsigned j = 0; j < ANA_EVIDENCES; j++) {
            unsigned v = i > j ? i : j;
            if (v > w && share_alive(p[i], c[j], dead))
                w = v;
        }
    return w;
}

/* The hazards of one buffer between two launches into m->found; their evidence joined to *ev. */
static int hazards(struct maps *m, struct dt_arena *a, struct use *p, struct use *c, struct ana_set dead)
{
    const struct {
        uint8_t hazard;
        const struct ana_set *x, *y;
        const struct ana_strips *sx, *sy;
    } h[HAZARDS] = {{RAW, p->x->write_by, c->x->read_by, &p->write, &c->read},
                    {WAR, p->x->read_by, c->x->write_by, &p->read, &c->write},
                    {WAW, p->x->write_by, c->x->write_by, &p->write, &c->write}};
    for (unsigned k = 0; k < HAZARDS; k++) {
        bool any = false;
        for (unsigned i = 0; i < ANA_EVIDENCES * ANA_EVIDENCES && !any; i++)
            any = share_alive(h[k].x[i / ANA_EVIDENCES], h[k].y[i % ANA_EVIDENCES], dead);
        if (!any)
            continue;
        struct found f = {c->launch, p->buffer, h[k].hazard, {0}};
        int rc = build_strips(m, p);
        if (!rc)
            rc = build_strips(m, c);
        if (!rc)
            rc = make_link(a, h[k].sx, h[k].sy, dead, &f.link);
        if (rc || !dt_push(&m->found, f))
            return DT_E_NOMEM;
    }
    return 0;
}

static int by_consumer(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->consumer != y->consumer)
        return x->consumer < y->consumer ? -1 : 1;
    if (x->hazard != y->hazard)
        return x->hazard - y->hazard;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

static int make_edge(struct maps *m, uint32_t producer, const struct found *f, uint32_t n, const uint8_t *evidence)
{
    struct dt_arena *a = &m->r->arena;
    struct ana_edge edge = {.producer = producer, .consumer = f->consumer};
    uint32_t np = m->r->launch[producer].nblock, nc = m->r->launch[f->consumer].nblock, at = 0;
    struct ana_rows *rows[HAZARDS] = {&edge.raw, &edge.war, &edge.waw};
    struct ana_degree raw = {0}, any = {0}, d;
    struct ana_link *link = dt_reallocarray(NULL, n, sizeof *link);
    edge.buffer = dt_new_array(a, uint32_t, n);
    int rc = link && edge.buffer ? 0 : DT_E_NOMEM;
    unsigned kinds = 0;
    for (unsigned h = 0; h < HAZARDS && !rc; h++) {
        uint32_t from = at;
        for (; at < n && f[at].hazard == h; at++)
            link[at] = f[at].link;
        rows[h]->nrow = nc;
        if (at == from)
            continue;
        kinds++;
        rc = ana_relation(a, link + from, at - from, nc, np, rows[h], &d, m->e);
        if (h == RAW)
            raw = d;
        edge.any = *rows[h];
        any = d;
    }
    if (!rc && kinds > 1)
        rc = ana_relation(a, link, n, nc, np, &edge.any, &any, m->e);
    free(link);
    if (rc)
        return rc;
    for (uint32_t b = 0, i; b < n; b++) { /* buffers, ascending, once: n is small */
        uint32_t v = f[b].buffer;
        for (i = 0; i < edge.nbuffer && edge.buffer[i] < v; i++)
            ;
        if (i < edge.nbuffer && edge.buffer[i] == v)
            continue;
        memmove(edge.buffer + i + 1, edge.buffer + i, (edge.nbuffer - i) * sizeof v);
        edge.buffer[i] = v;
        edge.nbuffer++;
    }
    edge.evidence = evidence[f->consumer];
    edge.pairs = any.pairs;
    edge.components = any.components;
    edge.ppc_min = any.ppc_min, edge.ppc_max = any.ppc_max;
    edge.cpp_min = any.cpp_min, edge.cpp_max = any.cpp_max;
    ana_classify(&edge, &raw, nc);
    return dt_push(&m->edge, edge) ? 0 : DT_E_NOMEM;
}

static int from_producer(struct maps *m, uint32_t p, uint8_t *evidence)
{
    struct dt_arena a = {0};
    int rc = 0;
    m->found.n = 0;
    for (uint32_t i = m->first[p]; i < m->first[p + 1] && !rc; i++) {
        struct use *u = &m->use[i];
        struct ana_set dead = {0};
        for (uint32_t k = m->place[i] + 1; k < m->at[u->buffer + 1] && !rc; k++) {
            struct use *c = &m->use[m->by[k]];
            size_t before = m->found.n;
            if (u->all_write.n || c->all_write.n)
                rc = hazards(m, &a, u, c, dead);
            for (size_t q = before; q < m->found.n && !rc; q++) {
                uint8_t hz = m->found.p[q].hazard;
                uint8_t ev =
                    worst(hz == WAR ? u->x->read_by : u->x->write_by, hz == RAW ? c->x->read_by : c->x->write_by, dead);
                if (ev > evidence[c->launch])
                    evidence[c->launch] = ev;
            }
            if (c->x->must.n) {
                dead = ana_set_union(&a, dead, c->x->must);
                if (ana_set_contains(dead, u->all))
                    break;
            }
            if (a.failed)
                rc = DT_E_NOMEM;
        }
    }
    if (!rc && m->found.n)
        qsort(m->found.p, m->found.n, sizeof *m->found.p, by_consumer);
    for (size_t i = 0; i < m->found.n && !rc;) {
        size_t j = i;
        while (j < m->found.n && m->found.p[j].consumer == m->found.p[i].consumer)
            j++;
        rc = make_edge(m, p, m->found.p + i, (uint32_t)(j - i), evidence);
        i = j;
    }
    for (size_t i = 0; i < m->found.n; i++)
        evidence[m->found.p[i].consumer] = 0;
    dt_arena_done(&a);
    return rc;
}

/* ---- edges of base that hold here -------------------------------------------------------------------------------- */

/* Which buffers are dirty, where base's launches are, and its edges by producer. */
static int read_base(struct maps *m)
{
    const struct ana_result *was = m->base->of;
    uint32_t n = m->base->nlaunch;
    m->now = dt_malloc(((size_t)n + 1) * sizeof *m->now);
    m->from = dt_calloc((size_t)n + 2, sizeof *m->from);
    m->old = dt_calloc((size_t)was->nedge + 1, sizeof *m->old);
    m->dirty = dt_calloc((size_t)m->nbuffer + 1, sizeof *m->dirty);
    if (!m->now || !m->from || !m->old || !m->dirty)
        return DT_E_NOMEM;
    memset(m->now, 0xFF, ((size_t)n + 1) * sizeof *m->now);
    for (uint32_t i = 0; i < m->nlaunch; i++)
        if (m->base->same[i] != UINT32_MAX)
            m->now[m->base->same[i]] = i;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; m->now[i] == UINT32_MAX && k < was->launch[i].naccess; k++)
            if (was->launch[i].access[k].buffer < m->nbuffer) /* base may have more, behind them */
                m->dirty[was->launch[i].access[k].buffer] = true;
    for (uint32_t b = 0; b < m->nbuffer; b++)
        for (uint32_t k = m->at[b], last = 0; k < m->at[b + 1]; k++) {
            uint32_t i = m->base->same[m->use[m->by[k]].launch];
            m->dirty[b] |= i == UINT32_MAX || i < last;
            last = i;
        }
    for (uint32_t k = 0; k < was->nedge; k++)
        m->from[was->edge[k].producer + 2]++;
    for (uint32_t i = 0; i < n; i++)
        m->from[i + 2] += m->from[i + 1];
    for (uint32_t k = 0; k < was->nedge; k++)
        m->old[m->from[was->edge[k].producer + 1]++] = k;
    return 0;
}

/* 1: the producer's edges are those that it had; 0: they are to be found; negative: out of memory. */
static int from_base(struct maps *m, uint32_t p)
{
    uint32_t was = m->base ? m->base->same[p] : UINT32_MAX;
    if (was == UINT32_MAX)
        return 0;
    for (uint32_t i = m->first[p]; i < m->first[p + 1]; i++)
        if (m->dirty[m->use[i].buffer])
            return 0;
    for (uint32_t k = m->from[was]; k < m->from[was + 1]; k++) {
        struct ana_edge x = m->base->of->edge[m->old[k]];
        if (!x.nbuffer) /* all_edges */
            continue;
        x.producer = p;
        x.consumer = m->now[x.consumer];
        x.independent = NULL;
        x.nindependent = 0;
        if (!x.independent_blocks)
            x.classes &= ~(unsigned)ANA_PARTIAL_INDEPENDENCE;
        if (!dt_push(&m->edge, x))
            return DT_E_NOMEM;
    }
    return 1;
}

static int by_order(const void *a, const void *b)
{
    const struct ana_edge *x = a, *y = b;
    if (x->consumer != y->consumer)
        return x->consumer < y->consumer ? -1 : 1;
    return x->producer < y->producer ? -1 : x->producer > y->producer;
}

static int add_the_others(struct maps *m)
{
    if (m->nlaunch > MAX_ALL_EDGES)
        return dt_err_set(m->e, DT_E_TOO_LARGE, "all edges of %u launches: at most %u launches can be shown so",
                          m->nlaunch, MAX_ALL_EDGES);
    bool *has = dt_calloc((size_t)m->nlaunch * m->nlaunch + 1, sizeof *has);
    if (!has)
        return DT_E_NOMEM;
    bool ok = true;
    for (size_t i = 0; i < m->edge.n; i++)
        has[(size_t)m->edge.p[i].consumer * m->nlaunch + m->edge.p[i].producer] = true;
    for (uint32_t c = 0; c < m->nlaunch && ok; c++)
        for (uint32_t p = 0; p < c && ok; p++) {
            if (has[(size_t)c * m->nlaunch + p])
                continue;
            uint32_t n = m->r->launch[c].nblock;
            struct ana_edge edge = {.producer = p, .consumer = c};
            edge.raw.nrow = edge.war.nrow = edge.waw.nrow = edge.any.nrow = n;
            ana_classify(&edge, &(struct ana_degree){0}, n);
            ok = dt_push(&m->edge, edge);
        }
    free(has);
    return ok ? 0 : DT_E_NOMEM;
}

/* independent_bytes of the edges edge[0..n) of one consumer, producers ascending. */
static int independent(struct maps *m, struct ana_edge *edge, size_t n)
{
    struct dt_arena a = {0};
    uint32_t c = edge->consumer, nx = m->first[c + 1] - m->first[c];
    for (size_t k = 0; k < n; k++)
        if (nx && !(edge[k].independent = dt_arena_array(&m->r->arena, nx, sizeof *edge[k].independent)))
            return DT_E_NOMEM;
    for (uint32_t i = m->first[c]; i < m->first[c + 1]; i++) {
        struct ana_set rest = m->use[i].x->exact_read;
        uint32_t b = m->use[i].buffer, at = m->place[i];
        for (size_t k = n; k-- > 0 && rest.n;) {
            for (; at > m->at[b] && m->use[m->by[at - 1]].launch >= edge[k].producer; at--)
                rest = ana_set_minus(&a, rest, m->use[m->by[at - 1]].all_write);
            if (rest.n) {
                edge[k].independent[edge[k].nindependent].buffer = b;
                edge[k].independent[edge[k].nindependent++].bytes = ana_set_bytes(rest);
            }
        }
    }
    bool failed = a.failed;
    dt_arena_done(&a);
    for (size_t k = 0; k < n; k++)
        if (edge[k].nindependent && edge[k].raw.npairs)
            edge[k].classes |= ANA_PARTIAL_INDEPENDENCE;
    return failed ? DT_E_NOMEM : 0;
}

int ana_maps(struct ana_result *r, uint32_t nlaunch, uint32_t nbuffer, bool all_edges, const struct ana_base *base,
             struct dt_err *e)
{
    struct maps m = {.r = r, .nlaunch = nlaunch, .nbuffer = nbuffer, .base = base, .e = e};
    uint8_t *evidence = dt_calloc((size_t)nlaunch + 1, 1);
    int rc = evidence ? build_uses(&m) : DT_E_NOMEM;
    if (!rc && base)
        rc = read_base(&m);
    for (uint32_t p = 0; p < nlaunch && !rc; p++) {
        int had = from_base(&m, p);
        rc = had ? had < 0 ? had : 0 : from_producer(&m, p, evidence);
    }
    if (!rc && all_edges)
        rc = add_the_others(&m);
    if (!rc && m.edge.n)
        qsort(m.edge.p, m.edge.n, sizeof *m.edge.p, by_order);
    for (size_t i = 0; i < m.edge.n && !rc;) {
        size_t j = i;
        while (j < m.edge.n && m.edge.p[j].consumer == m.edge.p[i].consumer)
            j++;
        rc = independent(&m, m.edge.p + i, j - i);
        i = j;
    }
    if (!rc && m.edge.n) {
        r->edge = dt_new_array(&r->arena, struct ana_edge, m.edge.n);
        if (r->edge) {
            memcpy(r->edge, m.edge.p, m.edge.n * sizeof *r->edge);
            r->nedge = (uint32_t)m.edge.n;
        } else {
            rc = DT_E_NOMEM;
        }
    }
    free(evidence), free(m.use), free(m.first), free(m.by), free(m.at), free(m.place);
    free(m.now), free(m.from), free(m.old), free(m.dirty);
    free(m.edge.p), free(m.found.p);
    dt_arena_done(&m.tmp);
    return rc ? dt_err_set(e, rc, "no memory for the maps") : 0;
}

const struct ana_edge *ana_find_edge(const struct ana_result *r, uint32_t producer, uint32_t consumer)
{
    struct ana_edge key = {.producer = producer, .consumer = consumer};
    const struct ana_edge *x = r->nedge ? bsearch(&key, r->edge, r->nedge, sizeof key, by_order) : NULL;
    return x && x->pairs ? x : NULL;
}
