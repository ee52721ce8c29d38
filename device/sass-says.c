/* What the lines of PTX say of a function's machine blocks: which of their instructions stand there, how many copies of
 * a loop's body there are, and how often a block ran at most.
 *
 * An anchor is a machine instruction that is one of PTX, or a known part of its bytes: a load, store, shuffle or
 * barrier. Anchors say how many copies there are; else the line says it that has the most instructions there.
 *
 * Not here: the equations that are made of it (sass-blocks.c).
 */
#include "device/sass-net.h"

#include <stdlib.h>

#include "base/alloc.h"

static int by_median(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const struct dev_line *says_line(const struct sass_net *n, uint32_t inst)
{
    uint32_t l = n->c->line[inst];
    return l && l < n->nline && n->line[l].lanes ? &n->line[l] : NULL;
}

static int by_line(const void *a, const void *b)
{
    const struct sass_at *x = a, *y = b;
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line) : (x->node > y->node) - (x->node < y->node);
}

static int by_node(const void *a, const void *b)
{
    const struct sass_at *x = a, *y = b;
    return x->node != y->node ? (x->node > y->node) - (x->node < y->node) : (x->n > y->n) - (x->n < y->n);
}

/* The part of a PTX instruction (of line `l`, or NULL) that a machine instruction does; 0: it is no anchor. */
static double part_of_line(const struct sass_net *n, uint32_t k, const struct dev_line *l)
{
    static const uint8_t bytes[8] = {1, 1, 2, 2, 4, 8, 16, 4};
    const struct sass_inst *i = &n->c->inst[k];
    if (!l || !l->bytes || l->guarded == sass_always(i))
        return 0;
    switch (i->op->code) {
    case 0x180: /* LD LDG LDS ST STG STS */
    case 0x181:
    case 0x184:
    case 0x185:
    case 0x186:
    case 0x188: {
        unsigned size = bytes[i->hi >> 9 & 7];
        return size < l->bytes ? (double)size / l->bytes : 1;
    }
    case 0x11d: /* BAR */
    case 0x189: /* SHFL */
    case 0x1ae: /* LDGSTS */
    case 0x03b: /* LDSM */ return 1;
    default: return 0;
    }
}

double sass_net_part(const struct sass_net *n, uint32_t k) { return part_of_line(n, k, says_line(n, k)); }

bool sass_net_never_ran(const struct sass_net *n, const struct code_block *b)
{
    bool none = false;
    for (uint32_t i = b->first; i <= b->last; i++) {
        uint32_t l = n->c->line[i];
        if (!l || l >= n->nline || part_of_line(n, i, &n->line[l]) <= 0)
            continue;
        if (n->line[l].lanes)
            return false;
        none = true;
    }
    return none;
}

int sass_net_lines(struct sass_net *n, struct sass_at **ret, uint32_t *ret_n)
{
    uint32_t total = 0, m = 0;
    for (uint32_t k = 0; k < n->nblock; k++)
        total += n->c->block[n->block[k]].last - n->c->block[n->block[k]].first + 1;
    struct sass_at *at = *ret = dt_calloc(total + 1, sizeof *at);
    dt_free_ double *some = dt_calloc(total + 1, sizeof *some);
    if (!at || !some)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < n->nblock; k++) {
        const struct code_block *b = &n->c->block[n->block[k]];
        for (uint32_t i = b->first; i <= b->last; i++)
            if (says_line(n, i))
                at[m++] = (struct sass_at){.line = n->c->line[i],
                                           .node = k + 1,
                                           .n = 1,
                                           .off = !sass_always(&n->c->inst[i]) && !says_line(n, i)->guarded};
    }
    qsort(at, m, sizeof *at, by_line);
    uint32_t w = 0;
    for (uint32_t k = 0; k < m; k++)
        if (w && at[w - 1].line == at[k].line && at[w - 1].node == at[k].node) {
            at[w - 1].n++;
            at[w - 1].off |= at[k].off;
        } else {
            at[w++] = at[k];
        }
    *ret_n = w;
    qsort(at, w, sizeof *at, by_node);
    for (uint32_t k = 0, to; k < w; k = to) {
        uint32_t x = at[k].node, lines = 0;
        for (to = k; to < w && at[to].node == x; to++)
            some[lines++] = (double)n->line[at[to].line].lanes;
        n->copies[x] = 1;
        qsort(some, lines, sizeof *some, by_median);
        n->share[x] = n->middle[x] = some[lines / 2];
        n->most = some[lines - 1] > n->most ? some[lines - 1] : n->most;
        if (!n->loop[x] && n->share[x] > n->flow[0]) /* it cannot run more often than the function */
            n->share[x] = n->flow[0];
    }
    qsort(at, w, sizeof *at, by_line);
    for (uint32_t k = 0, to; k < w; k = to) {
        for (to = k; to < w && at[to].line == at[k].line;)
            to++;
        for (uint32_t x = k; x < to && to - k <= SASS_PLACES; x++) {
            uint32_t one = n->line[at[k].line].single ? 1 : 0, head = n->loop[at[x].node];
            for (uint32_t y = k; y < to && !n->line[at[k].line].single; y++)
                if (n->loop[at[y].node] != head && (!one || at[y].n < one))
                    one = at[y].n;
            bool once = !head && (double)n->line[at[k].line].lanes <= n->flow[0];
            at[x].copies = once ? 1 : one ? at[x].n / one : 0;
            if (at[x].copies > n->copies[at[x].node])
                n->copies[at[x].node] = at[x].copies;
        }
    }
    for (uint32_t k = 0; k < n->nblock; k++) { /* where there are anchors, they say how many copies there are */
        const struct code_block *b = &n->c->block[n->block[k]];
        uint32_t of = 0;
        double sum = 0;
        for (uint32_t i = b->first; i <= b->last && n->loop[k + 1]; i++) {
            double part = sass_net_part(n, i);
            if (part && (!of || of == n->c->line[i])) {
                of = n->c->line[i];
                sum += part;
            }
        }
        if (sum >= 1)
            n->copies[k + 1] = (uint32_t)sum;
        n->sure[k + 1] = sum > 0;
    }
    for (uint32_t k = 0; k < w; k++)
        n->sure[at[k].node] |= n->line[at[k].line].single && !at[k].off;
    for (uint32_t k = 0; k < w; k++)
        if (!at[k].copies && at[k].n >= n->copies[at[k].node])
            at[k].copies = n->copies[at[k].node];
    return 0;
}
