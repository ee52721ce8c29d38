/* Where the blocks of a timeline ran, and when: what a picture of it, SM by SM, is made of.
 *
 * While the simulation runs, every group of blocks that is through adds to the cell of its work and SM: how many
 * blocks, when the first began and the last ended, and how long all of them were there. In the end neighbouring SMs
 * whose cells are alike become one span. Alike is what differs by less than a nanosecond; where that leaves more than
 * SG_SPANS, by four times as much, and so on: blocks are then added up, begin and end are the outermost, the mean is
 * of all.
 *
 * It does not say which block ran where, nor when each wave began: blocks of a work on one SM are one cell.
 */
#include "softgpu/model/timing-priv.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"

#define MOST_CELLS (UINT64_C(1) << 23)
#define MOST_APART 1e9 /* us */

struct cell {
    uint64_t blocks;
    double begin, end, busy;
};
struct sg_spans {
    uint32_t sms;
    struct cell *cell; /* by work, SM */
};

void sg_sim_ended(struct sg_sim *s, uint32_t work, const struct sg_sim_group *g)
{
    if (!s->spans || !g->count)
        return;
    struct cell *c = &s->spans->cell[(size_t)work * s->spans->sms + g->sm];
    c->begin = c->blocks && c->begin < g->begin_us ? c->begin : g->begin_us;
    c->end = s->now;
    c->blocks += g->count;
    c->busy += g->count * (s->now - g->begin_us);
}

/* May the cell of the next SM join the span? blocks, busy: of the span so far. */
static bool joins(const struct sg_span *p, double busy, const struct cell *c, double apart)
{
    uint32_t sms = p->last_sm - p->first_sm + 1;
    if (fabs(p->begin_us - c->begin) > apart || fabs(p->end_us - c->end) > apart)
        return false;
    return apart > 0.001 || (p->blocks == c->blocks * sms && fabs(busy / sms - c->busy) < apart);
}

static size_t merge(const struct sg_spans *x, uint32_t n, double apart, struct sg_span *ret, size_t room)
{
    size_t k = 0;
    for (uint32_t w = 0; w < n; w++) {
        struct sg_span *p = NULL; /* the last one of this work */
        double busy = 0;
        for (uint32_t i = 0; i < x->sms; i++) {
            const struct cell *c = &x->cell[(size_t)w * x->sms + i];
            if (!c->blocks)
                continue;
            if (p && p->last_sm + 1 == i && joins(p, busy, c, apart)) {
                p->last_sm = i;
                p->blocks += c->blocks;
                p->begin_us = p->begin_us < c->begin ? p->begin_us : c->begin;
                p->end_us = p->end_us > c->end ? p->end_us : c->end;
                busy += c->busy;
            } else if (k == room) {
                return SIZE_MAX;
            } else {
                p = &ret[k++];
                *p = (struct sg_span){w, i, i, c->blocks, 0, c->begin, c->end};
                busy = c->busy;
            }
            double whole = (p->end_us - p->begin_us) * (p->last_sm - p->first_sm + 1);
            p->mean = whole > 0 ? busy / whole : 0;
        }
    }
    return k;
}

int sg_timeline_spans(const struct sg_model *m, struct sg_work *w, uint32_t n, double distinct, struct sg_span *ret,
                      size_t *ret_n)
{
    *ret_n = 0;
    if ((uint64_t)n * m->sms > MOST_CELLS)
        return 0;
    struct sg_spans x = {m->sms, dt_calloc((size_t)n * m->sms + 1, sizeof *x.cell)};
    int r = x.cell ? sg_sim_run(m, w, n, distinct, NULL, &x) : DT_E_NOMEM;
    size_t k = SIZE_MAX;
    for (double apart = 0.001; !r && k == SIZE_MAX && apart < MOST_APART; apart *= 4)
        k = merge(&x, n, apart, ret, SG_SPANS(n));
    free(x.cell);
    if (!r && k != SIZE_MAX)
        *ret_n = k;
    return r;
}
