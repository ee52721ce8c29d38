/* The clusters that a kernel is launched in: their shape, their size, and whether two of them conflict.
 *
 * The shape is the launch's own if it says one, else the kernel's (.reqnctapercluster). Blocks of one cluster may talk
 * and share bytes; there is a conflict only if two clusters touch a byte and one of them writes it. This is found from
 * the footprints of the blocks: all intervals that are touched, sorted by where they begin, in one sweep.
 */
#include "rewrite/facts/facts.h"

#include <stdlib.h>

uint32_t rw_cluster_shape(const struct dt_launch *l, const struct ptx_function *f, uint32_t ret[3])
{
    uint32_t n = 1;
    for (int k = 0; k < 3; k++) {
        uint32_t c = l->cluster[0] ? l->cluster[k] : f->reqnctapercluster[0] ? f->reqnctapercluster[k] : 0;
        n *= ret[k] = c ? c : 1;
    }
    return l->cluster[0] || f->reqnctapercluster[0] ? n : 0;
}

uint32_t rw_cluster_own(const struct rw_facts *facts)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < facts->nbody && !n; s++)
        n = facts->body[s].ranks;
    return n;
}

struct span {
    uint64_t lo, hi;
    uint32_t cluster;
    bool writes;
};

static int by_begin(const void *x, const void *y)
{
    const struct span *a = x, *b = y;
    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

struct far { /* of what began before: how far the longest reaches, and the longest of another cluster */
    uint64_t hi[2];
    uint32_t cluster[2];
};

static bool clusters_meets(const struct far *f, const struct span *s)
{
    return (f->hi[0] > s->lo && f->cluster[0] != s->cluster) || (f->hi[1] > s->lo && f->cluster[1] != s->cluster);
}

static void clusters_reach(struct far *f, const struct span *s)
{
    int k = f->cluster[0] == s->cluster || !f->hi[0] ? 0 : 1;
    if (s->hi > f->hi[k]) {
        f->hi[k] = s->hi;
        f->cluster[k] = s->cluster;
    }
    if (f->hi[1] > f->hi[0])
        *f = (struct far){{f->hi[1], f->hi[0]}, {f->cluster[1], f->cluster[0]}};
}

/* Spans of one buffer, in order: a sweep. */
static bool crossed(const struct span *s, size_t n)
{
    struct far all = {{0}}, written = {{0}};
    for (size_t i = 0; i < n; i++) {
        if (clusters_meets(&written, &s[i]) || (s[i].writes && clusters_meets(&all, &s[i])))
            return true;
        clusters_reach(&all, &s[i]);
        if (s[i].writes)
            clusters_reach(&written, &s[i]);
    }
    return false;
}

bool rw_cluster_conflict(const struct rw_facts *facts, uint32_t s)
{
    const struct ana_launch *l = &facts->ana->launch[facts->launch[s]];
    const struct rw_body *b = &facts->body[s];
    struct dt_vec(struct span) v = {0};
    bool wrong = false;
    for (uint32_t k = 0; k < l->naccess && !wrong; k++) {
        v.n = 0;
        wrong = l->access[k].widened && l->access[k].writes;
        for (uint32_t i = 0; i < l->nblock && !wrong; i++) {
            uint32_t x = i % b->grid[0] / b->cluster[0], y = i / b->grid[0] % b->grid[1] / b->cluster[1],
                     z = i / b->grid[0] / b->grid[1] / b->cluster[2];
            uint32_t at = x + b->grid[0] * (y + b->grid[1] * z); /* some number of its own */
            for (uint32_t t = 0; t < l->block[i].ntouch; t++) {
                const struct ana_touch *q = &l->block[i].touch[t];
                const struct ana_set *set[] = {&q->read, &q->must_write, &q->may_write};
                for (int w = 0; w < 3 && q->buffer == l->access[k].buffer; w++)
                    for (uint32_t j = 0; j < set[w]->n; j++)
                        if (!dt_push(&v, (struct span){set[w]->iv[j].lo, set[w]->iv[j].hi, at, w > 0}))
                            wrong = true; /* no memory: as if */
            }
        }
        if (v.n)
            qsort(v.p, v.n, sizeof *v.p, by_begin);
        wrong = wrong || crossed(v.p, v.n);
    }
    free(v.p);
    return wrong;
}
