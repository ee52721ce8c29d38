/* Layout: versions that are left after planning share storage again, in the bytes of the posted intermediates.
 *
 * A plan with versions needs more memory than the posted graph: every intermediate has bytes of its own for the whole
 * run. Most are needed for a few launches. So each gets a place in a posted intermediate that versions were made of,
 * where no launch of the plan touches a byte any more, and where everything placed there before is over, or has not
 * begun, while it is needed. What finds no place goes into one scratch buffer, laid out in the same way.
 *
 *   placed by size, the largest first; each at the lowest place that is free
 *
 * Two versions may share a byte if every launch that has one of them has ended before any launch that has the other
 * one begins. Streams, `after` and programmatic edges say which have (gate/waits.c); that two launches have no hazard
 * today does not count.
 *
 * The result is a plan like any other. It is analysed and verified as it will run (plan/normal.c), and gate/waits.c
 * sees the hazards that sharing has made.
 */
#include <stdlib.h>
#include <string.h>

#include "rewrite/normal/normal.h"

#define ALIGN 256

struct place {       /* where a version is */
    uint32_t buffer; /* of the plan; nbuffer: the new scratch buffer */
    uint64_t at;
    bool placed;
};
struct layout {
    const struct dev_prog *p;
    const struct ana_result *a;
    const struct rw_pointers *at;
    size_t words;
    const uint64_t *over; /* by launch: the launches that have ended when it begins, as bits */
    uint64_t *has;        /* by buffer: the launches that have it, as bits */
    uint32_t *version;    /* the versions */
    struct place *place;  /* by version */
    uint32_t n;
};

static bool bit(const uint64_t *bits, uint32_t k) { return bits[k / 64] >> k % 64 & 1; }

/* Have all launches with buffer a ended before any with buffer b begins? */
static bool before(const struct layout *x, uint32_t a, uint32_t b)
{
    const uint64_t *has_a = x->has + a * x->words, *has_b = x->has + b * x->words;
    for (uint32_t l = 0; l < x->p->graph->nlaunch; l++)
        for (size_t w = 0; bit(has_b, l) && w < x->words; w++)
            if (has_a[w] & ~x->over[l * x->words + w])
                return false;
    return true;
}

/* The lowest place in the buffer for version k, beside what is placed there and beside `used`. */
static bool fits(const struct layout *x, uint32_t k, uint32_t buffer, uint64_t size, struct ana_set used, uint64_t *ret)
{
    uint64_t bytes = x->p->graph->buffer[x->version[k]].bytes, at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < used.n; i++)
            if (used.iv[i].lo < at + bytes && at < used.iv[i].hi) {
                at = (used.iv[i].hi + ALIGN - 1) / ALIGN * ALIGN;
                moved = true;
            }
        for (uint32_t i = 0; i < x->n; i++) {
            const struct place *q = &x->place[i];
            uint64_t other = x->p->graph->buffer[x->version[i]].bytes;
            if (!q->placed || q->buffer != buffer || q->at >= at + bytes || at >= q->at + other ||
                before(x, x->version[i], x->version[k]) || before(x, x->version[k], x->version[i]))
                continue;
            at = (q->at + other + ALIGN - 1) / ALIGN * ALIGN;
            moved = true;
        }
    }
    *ret = at;
    return at <= size && bytes <= size - at;
}

/* What the launches of the plan touch of the buffer itself. */
static struct ana_set laid_touched(struct dt_arena *a, const struct ana_result *r, uint32_t buffer)
{
    struct ana_set s = {0};
    for (uint32_t l = 0; l < r->prog->graph->nlaunch; l++) {
        s = ana_set_union(a, s, rw_launch_bytes(a, r, l, buffer, false));
        s = ana_set_union(a, s, rw_launch_bytes(a, r, l, buffer, true));
    }
    return s;
}

/* Place all versions. `room`: the posted buffers that they were made of. */
static int place_all(struct layout *x, const uint32_t *room, uint32_t nroom, uint64_t *ret_extra, struct dt_err *e)
{
    const struct dt_graph *g = x->p->graph;
    struct dt_arena a = {0};
    struct ana_set *used = dt_new_array(&a, struct ana_set, (size_t)nroom + 1);
    for (uint32_t k = 0; used && k < nroom; k++)
        used[k] = laid_touched(&a, x->a, room[k]);
    *ret_extra = 0;
    for (uint32_t k = 0; k < x->n && !dt_arena_failed(&a); k++) {
        struct place *q = &x->place[k];
        uint64_t at = 0;
        for (uint32_t i = 0; i < nroom && !q->placed; i++)
            if (fits(x, k, room[i], g->buffer[room[i]].bytes, used[i], &at))
                *q = (struct place){room[i], at, true};
        if (q->placed)
            continue;
        fits(x, k, g->nbuffer, UINT64_MAX / 2, (struct ana_set){0}, &at);
        *q = (struct place){g->nbuffer, at, true};
        uint64_t end = at + g->buffer[x->version[k]].bytes;
        *ret_extra = end > *ret_extra ? end : *ret_extra;
    }
    bool failed = dt_arena_failed(&a);
    dt_arena_done(&a);
    return failed ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}

/* The plan's versions that a launch has, the largest first; and which posted buffers they were made of. Returns how
 * many there are, those that no launch has any more included. */
static uint32_t find_versions(struct layout *x, const struct rw_versions *v, uint32_t *room, uint32_t *nroom)
{
    const struct dt_graph *g = x->p->graph;
    uint32_t all = 0;
    for (uint32_t b = 0; b < g->nbuffer; b++)
        for (uint32_t k = 0; g->buffer[b].role == DT_SCRATCH && k < v->n; k++) {
            bool some = false;
            for (size_t w = 0; w < x->words; w++)
                some |= x->has[b * x->words + w] != 0;
            if (strcmp(g->buffer[b].name, v->version[k].name) != 0)
                continue;
            all++;
            if (!some)
                continue;
            uint32_t i = x->n++;
            for (; i && g->buffer[x->version[i - 1]].bytes < g->buffer[b].bytes; i--)
                x->version[i] = x->version[i - 1];
            x->version[i] = b;
        }
    *nroom = 0;
    for (uint32_t k = 0; k < v->n; k++) {
        uint32_t i = 0;
        while (i < *nroom && room[i] != v->version[k].buffer)
            i++;
        if (i == *nroom)
            room[(*nroom)++] = v->version[k].buffer; /* numbered as in the posted graph, with which the plan begins */
    }
    return all;
}

int rw_layout_find(const struct dev_prog *p, const struct ana_result *a, const struct rw_versions *v,
                   const uint64_t *over, struct rw_laid *ret, struct dt_err *e)
{
    const struct dt_graph *g = p->graph;
    struct layout x = {.p = p, .a = a, .at = &ret->at, .over = over, .words = g->nlaunch / 64 + 1};
    uint32_t nroom = 0;
    uint64_t extra = 0;
    memset(ret, 0, sizeof *ret);
    int r = rw_pointers_of(g, &ret->at, e);
    size_t n = r == 0 ? ret->at.v.n : 0;
    dt_free_ uint32_t *room = dt_calloc((size_t)v->n + 1, sizeof *room);
    x.has = dt_calloc(g->nbuffer * x.words + 1, sizeof *x.has);
    x.version = dt_calloc((size_t)g->nbuffer + 1, sizeof *x.version);
    x.place = dt_calloc((size_t)g->nbuffer + 1, sizeof *x.place);
    ret->buffer = dt_calloc(n + 1, sizeof *ret->buffer);
    ret->offset = dt_calloc(n + 1, sizeof *ret->offset);
    if (r == 0 && (!room || !x.has || !x.version || !x.place || !ret->buffer || !ret->offset))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (size_t i = 0; r == 0 && i < n; i++)
        x.has[ret->at.v.p[i].buffer * x.words + ret->at.v.p[i].launch / 64] |= UINT64_C(1)
                                                                               << ret->at.v.p[i].launch % 64;
    if (r == 0) {
        ret->n = find_versions(&x, v, room, &nroom);
        r = place_all(&x, room, nroom, &extra, e);
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        ret->buffer[i] = ret->at.v.p[i].buffer;
        ret->offset[i] = ret->at.v.p[i].offset;
        for (uint32_t k = 0; k < x.n; k++)
            if (x.version[k] == ret->at.v.p[i].buffer) {
                ret->buffer[i] = x.place[k].buffer;
                ret->offset[i] += x.place[k].at;
                break;
            }
    }
    if (r == 0) {
        ret->extra = (struct rw_storage){.hi = extra};
        for (uint32_t k = 0; !*ret->extra.name; k++) {
            char name[16];
            snprintf(name, sizeof name, "v%u", v->n + k);
            if (dt_graph_find_buffer(g, name) == DT_NAME_NONE)
                memcpy(ret->extra.name, name, sizeof name);
        }
    }
    free(x.has);
    free(x.version);
    free(x.place);
    return r;
}

void rw_laid_done(struct rw_laid *l)
{
    free(l->at.v.p);
    free(l->buffer);
    free(l->offset);
    memset(l, 0, sizeof *l);
}
