/* A function's blocks as a net of flows: what comes into a block leaves it.
 *
 * Edges are what control may do, and one from outside to the function's start and one from each end to outside. A tree
 * spans the net; each edge that is not of it, a chord, closes one cycle with it, and the flow of every edge is a sum of
 * chords (sass_net.coef). So as many numbers as there are chords say how often each block ran. The start is chord 0
 * wherever an end can be reached.
 *
 *      outside ──▶ 1 ──▶ 2 ──▶ outside      tree: 1-2, 2-outside; chords: the start, and 2 ▶ 2
 *                        ╰◀─╯               what goes through 2: start + loop
 *
 * Then the natural loops: a head dominates the blocks that jump back to it.
 *
 * Not here: how large the flows are (sass-says.c, sass-blocks.c).
 */
#include "device/sass-net.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MOST_EDGES 8192
#define MOST_COEF (1u << 21)
#define MOST_STEPS (UINT64_C(1) << 26)

/* ---- edges, tree, chords ----------------------------------------------------------------------------------------- */
static uint32_t root(uint32_t *set, uint32_t x)
{
    while (set[x] != x)
        x = set[x] = set[set[x]];
    return x;
}

static void edge_add(struct sass_net *n, uint32_t from, uint32_t to)
{
    n->edge[n->nedge++] = (struct sass_edge){from, to, CODE_NONE};
}

static bool leaves(const struct code *c, uint32_t b)
{
    const struct sass_inst *i = &c->inst[c->block[b].last];
    return i->op->cls == SASS_EXIT || i->op->cls == SASS_RETURN;
}

int sass_net_edges(struct sass_net *n)
{
    const struct code *c = n->c;
    uint32_t total = 1;
    memset(n->node, 0, c->nblock * sizeof *n->node);
    for (uint32_t b = 0; b < c->nblock; b++)
        if (c->block[b].func == n->f) {
            n->block[n->nblock] = b;
            n->node[b] = ++n->nblock;
            total += c->block[b].npred + 1;
        }
    n->edge = dt_calloc(total, sizeof *n->edge);
    if (!n->edge)
        return DT_E_NOMEM;
    edge_add(n, SASS_OUTSIDE, n->node[c->block_of[c->func[n->f].first]]);
    for (uint32_t k = 0; k < n->nblock; k++) {
        const struct code_block *b = &c->block[n->block[k]];
        for (uint32_t p = 0; p < b->npred; p++)
            edge_add(n, n->node[c->pred[b->pred + p]], k + 1);
        if (leaves(c, n->block[k]))
            edge_add(n, k + 1, SASS_OUTSIDE);
    }
    return n->nedge > MOST_EDGES;
}

/* Chords: what closes a cycle with the edges before. The start comes last, so that it is one wherever an end can be
 * reached; it has number 0. */
int sass_net_tree(struct sass_net *n)
{
    dt_free_ uint32_t *set = dt_calloc(n->nblock + 1, sizeof *set);
    if (!set)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k <= n->nblock; k++)
        set[k] = k;
    n->nchord = 1;
    for (uint32_t k = n->nedge; k--;) {
        uint32_t x = root(set, n->edge[k].from), y = root(set, n->edge[k].to);
        if (x != y)
            set[x] = y;
        else
            n->edge[k].chord = k ? n->nchord++ : 0;
    }
    return n->edge[0].chord == CODE_NONE || n->nchord > SASS_CHORDS || (uint64_t)n->nedge * n->nchord > MOST_COEF;
}

/* The tree's edges as sums of chords, from the leaves on: what comes into a node leaves it. */
int sass_net_cycles(struct sass_net *n)
{
    dt_free_ uint32_t *open = dt_calloc(n->nblock + 1, sizeof *open), *sum = dt_calloc(n->nblock + 1, sizeof *sum);
    dt_free_ uint32_t *stack = dt_calloc(n->nblock + 1, sizeof *stack);
    dt_free_ double *need = dt_calloc((size_t)(n->nblock + 1) * n->nchord, sizeof *need);
    n->coef = dt_calloc((size_t)n->nedge * n->nchord, sizeof *n->coef);
    n->pass = dt_calloc((size_t)(n->nblock + 1) * n->nchord, sizeof *n->pass);
    if (!open || !sum || !stack || !need || !n->coef || !n->pass)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < n->nedge; k++) {
        const struct sass_edge *e = &n->edge[k];
        if (e->chord == CODE_NONE) { /* a leaf's one edge is the exclusive or of all */
            open[e->from]++;
            open[e->to]++;
            sum[e->from] ^= k;
            sum[e->to] ^= k;
        } else {
            n->coef[(size_t)k * n->nchord + e->chord] = 1;
            need[(size_t)e->from * n->nchord + e->chord] += 1; /* leaves: so much more has to come in */
            need[(size_t)e->to * n->nchord + e->chord] -= 1;
        }
    }
    uint32_t top = 0;
    for (uint32_t k = 0; k <= n->nblock; k++)
        if (open[k] == 1)
            stack[top++] = k;
    while (top) {
        uint32_t x = stack[--top], k = sum[x];
        if (open[x] != 1)
            continue;
        const struct sass_edge *e = &n->edge[k];
        uint32_t y = e->from == x ? e->to : e->from;
        double sign = e->to == x ? 1 : -1, *coef = &n->coef[(size_t)k * n->nchord];
        for (uint32_t q = 0; q < n->nchord; q++) {
            coef[q] = sign * need[(size_t)x * n->nchord + q];
            need[(size_t)y * n->nchord + q] += need[(size_t)x * n->nchord + q];
        }
        open[x] = 0;
        sum[y] ^= k;
        if (--open[y] == 1)
            stack[top++] = y;
    }
    for (uint32_t k = 0; k < n->nedge; k++)
        for (uint32_t q = 0; q < n->nchord; q++)
            n->pass[(size_t)n->edge[k].to * n->nchord + q] += n->coef[(size_t)k * n->nchord + q];
    return 0;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */
static uint32_t net_meet(struct sass_doms *d, uint32_t x, uint32_t y)
{
    for (; x != y; d->steps++)
        if (d->number[x] > d->number[y])
            x = d->idom[x];
        else
            y = d->idom[y];
    return x;
}

bool sass_net_dominates(struct sass_doms *d, uint32_t x, uint32_t y)
{
    for (; d->number[y] > d->number[x] && d->steps < MOST_STEPS; d->steps++)
        y = d->idom[y];
    return x == y;
}

/* Immediate dominators by Cooper, Harvey and Kennedy; order: reverse postorder, node numbers from 1. */
int sass_net_dominators(const struct sass_net *n, struct sass_doms *d)
{
    uint32_t v = n->nblock + 1, top = 0;
    dt_free_ uint32_t *first = dt_calloc(v + 1, sizeof *first), *next = dt_calloc(n->nedge, sizeof *next),
                      *stack = dt_calloc(v, sizeof *stack);
    d->order = dt_calloc(v, sizeof *d->order);
    d->number = dt_calloc(v, sizeof *d->number);
    d->idom = dt_calloc(v, sizeof *d->idom);
    if (!first || !next || !stack || !d->order || !d->number || !d->idom)
        return DT_E_NOMEM;
    for (uint32_t k = n->nedge; k-- > 1;) {
        next[k] = first[n->edge[k].from];
        first[n->edge[k].from] = k;
    }
    uint32_t start = n->edge[0].to, left = v;
    d->number[start] = 1;
    for (stack[top++] = start; top;) {
        uint32_t x = stack[top - 1], k = first[x];
        if (!k) {
            d->order[--left] = x;
            top--;
            continue;
        }
        first[x] = next[k];
        uint32_t y = n->edge[k].to;
        if (y != SASS_OUTSIDE && !d->number[y]) {
            d->number[y] = 1;
            stack[top++] = y;
        }
    }
    d->n = v - left;
    memmove(d->order, d->order + left, d->n * sizeof *d->order);
    for (uint32_t k = 0; k < d->n; k++)
        d->number[d->order[k]] = k + 1;
    d->idom[start] = start;
    for (bool more = true; more && d->steps < MOST_STEPS;) {
        more = false;
        for (uint32_t k = 1; k < d->n; k++) {
            uint32_t x = d->order[k], to = 0;
            const struct code_block *b = &n->c->block[n->block[x - 1]];
            for (uint32_t p = 0; p < b->npred; p++) {
                uint32_t y = n->node[n->c->pred[b->pred + p]];
                if (d->idom[y])
                    to = to ? net_meet(d, to, y) : y;
            }
            if (d->idom[x] != to) {
                d->idom[x] = to;
                more = true;
            }
        }
    }
    return d->steps >= MOST_STEPS;
}

/* Natural loops, by their heads; a node's innermost one is the smallest. */
int sass_net_loops(struct sass_net *n, struct sass_doms *d)
{
    uint32_t v = n->nblock + 1;
    dt_free_ uint32_t *mark = dt_calloc(v, sizeof *mark), *stack = dt_calloc(v, sizeof *stack),
                      *size = dt_calloc(v, sizeof *size);
    if (!mark || !stack || !size)
        return DT_E_NOMEM;
    uint64_t steps = 0;
    for (uint32_t k = d->n; k-- && steps < MOST_STEPS;) { /* inner heads come later in the order */
        uint32_t head = d->order[k], top = 0, count = 1;
        const struct code_block *b = &n->c->block[n->block[head - 1]];
        bool is = false;
        mark[head] = head;
        for (uint32_t p = 0; p < b->npred; p++) {
            uint32_t y = n->node[n->c->pred[b->pred + p]];
            if (!sass_net_dominates(d, head, y))
                continue;
            is = true;
            if (mark[y] != head) {
                mark[y] = head;
                stack[top++] = y;
            }
        }
        while (top) {
            uint32_t x = stack[--top];
            const struct code_block *body = &n->c->block[n->block[x - 1]];
            count++;
            for (uint32_t p = 0; p < body->npred; p++, steps++) {
                uint32_t y = n->node[n->c->pred[body->pred + p]];
                if (mark[y] != head) {
                    mark[y] = head;
                    stack[top++] = y;
                }
            }
        }
        size[head] = count;
        for (uint32_t x = 1; x < v && is; x++, steps++)
            if (mark[x] == head && (!n->loop[x] || size[n->loop[x]] > count))
                n->loop[x] = head;
    }
    return 0;
}
