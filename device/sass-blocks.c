/* How often each machine block of a kernel ran, from what an executor of PTX counted.
 *
 * Counted are threads ("lanes"): each goes one way at a branch, so that as many leave a block as come, and every flow
 * through a function is a sum of flows round its cycles: through the kernel's start, or round a loop. With a tree that
 * spans it, each edge outside (a chord) is one such cycle, and the flow of every block is a sum of chords. The chord of
 * the start is known. The others are the least squares of
 *
 *   anchors    a load, store, shuffle or barrier of PTX is one machine instruction, or parts of its bytes; of its
 *              copies in unrolled loops all lanes together are those of the PTX instruction. Not those that stand
 *              under a predicate here and not there, or the other way round
 *   lines      the same of any instruction, weaker: in each loop the line counts once for each copy of the body, and
 *              blocks that follow each other count once. How many copies there are say the anchors in it; else the
 *              line that has the most instructions there, by how many it has in another loop or outside, or by one
 *              where PTX's instruction is one of the machine, too. Not lines that loops have under predicates only.
 *              Of a loop's body the other lines, which may be folded or come from outside, count only where it has
 *              neither such instructions nor anchors
 *   slow paths the subroutines of floating point that the assembler calls for odd operands do not run (weak), nor do
 *              blocks whose anchors are all of lines that were not executed
 *   shares     what is still open is shared in proportion to the lines' counts; a block of which the lines say nothing
 *              runs as often as the one that it comes behind (weakest)
 *
 * in units of their counts, so that a loop of a million turns and what runs once weigh the same. Flows below 0 are made
 * 0 one round after the other. Functions come after those that call them; their start is what the calls sum up to.
 *
 * Where a function is too large for that (MOST_CHORDS, MOST_EDGES) its blocks have what their lines have.
 */
#include "device/machine-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MOST_CHORDS 384
#define MOST_EDGES 8192
#define MOST_COEF (1u << 21)
#define MOST_STEPS (UINT64_C(1) << 26)
#define MOST_WORK (UINT64_C(1) << 29)
#define MOST_FUNCTIONS 64
#define LEARN 2        /* rounds in which anchors lose what they are trusted */
#define MOST_PLACES 64 /* of one line */
#define OUTSIDE 0      /* as a node: before the start, behind each end; block k of the function is node k + 1 */

struct edge {
    uint32_t from, to, chord; /* chord: its number, CODE_NONE for the tree's; 0: the start */
};
struct net {
    const struct code *c;
    const struct dev_line *line;
    uint32_t nline;
    double *lanes; /* by block of the kernel: the result */
    uint32_t f;
    uint32_t *block, nblock; /* the function's */
    uint32_t *node;          /* by block of the kernel: node, 0: none of this function */
    struct edge *edge;
    uint32_t nedge, nchord;
    double *coef;        /* by edge: nchord coefficients */
    double *pass;        /* by node: those of what goes through it */
    const bool *odd;     /* by function: for odd operands of floats */
    uint32_t *loop;      /* by node: innermost loop's head, 0: none */
    uint32_t *copies;    /* by node: of the loop's body */
    double *share;       /* by node: what its lines say */
    bool *slow, *sure;   /* by node */
    double *a, *b, *row; /* least squares: normal equations */
    double *flow;        /* by chord; 0: what comes in at the start */
    double *middle;      /* by node: median of its lines' counts */
    double *trust;       /* by line in a list of them: weight of its anchor */
    double most;         /* of the lines' counts */
};

static int by_median(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const struct dev_line *blocks_line(const struct net *n, uint32_t inst)
{
    uint32_t l = n->c->line[inst];
    return l && l < n->nline && n->line[l].lanes ? &n->line[l] : NULL;
}

/* ---- edges, tree, chords ----------------------------------------------------------------------------------------- */
static uint32_t root(uint32_t *set, uint32_t x)
{
    while (set[x] != x)
        x = set[x] = set[set[x]];
    return x;
}

static void edge_add(struct net *n, uint32_t from, uint32_t to)
{
    n->edge[n->nedge++] = (struct edge){from, to, CODE_NONE};
}

static bool leaves(const struct code *c, uint32_t b)
{
    const struct sass_inst *i = &c->inst[c->block[b].last];
    return i->op->cls == SASS_EXIT || i->op->cls == SASS_RETURN;
}

static int net_edges(struct net *n)
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
    edge_add(n, OUTSIDE, n->node[c->block_of[c->func[n->f].first]]);
    for (uint32_t k = 0; k < n->nblock; k++) {
        const struct code_block *b = &c->block[n->block[k]];
        for (uint32_t p = 0; p < b->npred; p++)
            edge_add(n, n->node[c->pred[b->pred + p]], k + 1);
        if (leaves(c, n->block[k]))
            edge_add(n, k + 1, OUTSIDE);
    }
    return n->nedge > MOST_EDGES;
}

/* Chords: what closes a cycle with the edges before. The start comes last, so that it is one wherever an end can be
 * reached; it has number 0. */
static int net_tree(struct net *n)
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
    return n->edge[0].chord == CODE_NONE || n->nchord > MOST_CHORDS || (uint64_t)n->nedge * n->nchord > MOST_COEF;
}

/* The tree's edges as sums of chords, from the leaves on: what comes into a node leaves it. */
static int net_cycles(struct net *n)
{
    dt_free_ uint32_t *open = dt_calloc(n->nblock + 1, sizeof *open), *sum = dt_calloc(n->nblock + 1, sizeof *sum);
    dt_free_ uint32_t *stack = dt_calloc(n->nblock + 1, sizeof *stack);
    dt_free_ double *need = dt_calloc((size_t)(n->nblock + 1) * n->nchord, sizeof *need);
    n->coef = dt_calloc((size_t)n->nedge * n->nchord, sizeof *n->coef);
    n->pass = dt_calloc((size_t)(n->nblock + 1) * n->nchord, sizeof *n->pass);
    if (!open || !sum || !stack || !need || !n->coef || !n->pass)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < n->nedge; k++) {
        const struct edge *e = &n->edge[k];
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
        const struct edge *e = &n->edge[k];
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
struct doms {
    uint32_t *order, n, *number, *idom;
    uint64_t steps;
};

static uint32_t blocks_meet(struct doms *d, uint32_t x, uint32_t y)
{
    for (; x != y; d->steps++)
        if (d->number[x] > d->number[y])
            x = d->idom[x];
        else
            y = d->idom[y];
    return x;
}

static bool dominates(struct doms *d, uint32_t x, uint32_t y)
{
    for (; d->number[y] > d->number[x] && d->steps < MOST_STEPS; d->steps++)
        y = d->idom[y];
    return x == y;
}

/* Immediate dominators by Cooper, Harvey and Kennedy; order: reverse postorder, node numbers from 1. */
static int dominators(const struct net *n, struct doms *d)
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
        if (y != OUTSIDE && !d->number[y]) {
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
                    to = to ? blocks_meet(d, to, y) : y;
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
static int net_loops(struct net *n, struct doms *d)
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
            if (!dominates(d, head, y))
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

/* ---- what lines say ---------------------------------------------------------------------------------------------- */
struct at { /* the n instructions of one line in one block */
    uint32_t line, node, n;
    uint32_t copies; /* of the line, 0: not known */
    bool off;        /* some stand under a predicate and PTX's does not: it may run where the line does not */
};

static int by_line(const void *a, const void *b)
{
    const struct at *x = a, *y = b;
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line) : (x->node > y->node) - (x->node < y->node);
}

static int by_node(const void *a, const void *b)
{
    const struct at *x = a, *y = b;
    return x->node != y->node ? (x->node > y->node) - (x->node < y->node) : (x->n > y->n) - (x->n < y->n);
}

/* The part of a PTX instruction (of line `l`, or NULL) that a machine instruction does; 0: it is no anchor. */
static double part_of_line(const struct net *n, uint32_t k, const struct dev_line *l)
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

static double part_of(const struct net *n, uint32_t k) { return part_of_line(n, k, blocks_line(n, k)); }

/* Has the block anchors, and all of lines that were not executed? */
static bool never_ran(const struct net *n, const struct code_block *b)
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

/* List the lines of each block, and from that the copies of loops' bodies. */
static int net_lines(struct net *n, struct at **ret, uint32_t *ret_n)
{
    uint32_t total = 0, m = 0;
    for (uint32_t k = 0; k < n->nblock; k++)
        total += n->c->block[n->block[k]].last - n->c->block[n->block[k]].first + 1;
    struct at *at = *ret = dt_calloc(total + 1, sizeof *at);
    dt_free_ double *some = dt_calloc(total + 1, sizeof *some);
    if (!at || !some)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < n->nblock; k++) {
        const struct code_block *b = &n->c->block[n->block[k]];
        for (uint32_t i = b->first; i <= b->last; i++)
            if (blocks_line(n, i))
                at[m++] = (struct at){.line = n->c->line[i],
                                      .node = k + 1,
                                      .n = 1,
                                      .off = !sass_always(&n->c->inst[i]) && !blocks_line(n, i)->guarded};
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
        for (uint32_t x = k; x < to && to - k <= MOST_PLACES; x++) {
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
            double part = part_of(n, i);
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

/* ---- least squares ----------------------------------------------------------------------------------------------- */
static void row_block(struct net *n, uint32_t node, double weight)
{
    for (uint32_t q = 0; q < n->nchord; q++)
        n->row[q] += weight * n->pass[(size_t)node * n->nchord + q];
}

/* row · flow = target, in units of `unit`; the row is empty then. */
static void row_done(struct net *n, double target, double unit, double weight)
{
    double w = weight / (unit + 1);
    w *= w;
    target -= n->row[0] * n->flow[0];
    for (uint32_t p = 1; p < n->nchord; p++) {
        if (!n->row[p])
            continue;
        for (uint32_t q = 1; q <= p; q++)
            n->a[(size_t)p * n->nchord + q] += w * n->row[p] * n->row[q];
        n->b[p] += w * n->row[p] * target;
    }
    memset(n->row, 0, n->nchord * sizeof *n->row);
}

/* learn: how far each row is from its target, instead of the rows themselves. What an assembler left out where nobody
 * needs it makes the sum less than the target, and then the row counts little; nothing makes it more. */
static void rows_anchors(struct net *n, const struct at *at, uint32_t nat, bool learn)
{
    for (uint32_t k = 0, to; k < nat; k = to) {
        bool any = false, all = true;
        for (to = k; to < nat && at[to].line == at[k].line; to++) {
            const struct code_block *b = &n->c->block[n->block[at[to].node - 1]];
            for (uint32_t i = b->first; i <= b->last; i++) {
                double part = n->c->line[i] == at[k].line ? part_of(n, i) : 0;
                any |= part > 0;
                uint8_t pipe = sass_unit(&n->c->inst[i], n->c->sm).pipe;
                all &= n->c->line[i] != at[k].line || part > 0 || pipe != SASS_PIPE_LSU;
                if (part)
                    row_block(n, at[to].node, part);
            }
        }
        double lanes = (double)n->line[at[k].line].lanes;
        if (any && all && !learn) {
            row_done(n, lanes, lanes, n->trust[k]);
            continue;
        }
        double off = -lanes;
        for (uint32_t q = 0; q < n->nchord; q++)
            off += n->row[q] * n->flow[q];
        off /= lanes;
        n->trust[k] = !learn ? n->trust[k] : off < -0.02 ? 0.02 : off > 0.02 ? 0.5 : 1;
        memset(n->row, 0, n->nchord * sizeof *n->row);
    }
}

/* One row a line, unless it is not known how many copies there are. Of the blocks of one loop those count that no other
 * one of them dominates. */
static void rows_lines(struct net *n, const struct at *at, uint32_t nat, struct doms *d)
{
    for (uint32_t k = 0, to; k < nat; k = to) {
        double copies = 0, lanes = (double)n->line[at[k].line].lanes;
        bool sure = n->line[at[k].line].single, known = true, loop = false, off = true;
        for (to = k; to < nat && at[to].line == at[k].line; to++)
            if (n->loop[at[to].node]) {
                loop = true;
                off &= at[to].off;
                known &= sure || (!n->sure[at[to].node] && 2 * lanes >= n->middle[at[to].node]);
            }
        known &= !loop || !off;
        for (uint32_t x = k; x < to && to - k <= MOST_PLACES; x++) {
            bool counts = true;
            for (uint32_t y = k; y < to && counts; y++)
                counts = y == x || n->loop[at[y].node] != n->loop[at[x].node] || !dominates(d, at[y].node, at[x].node);
            if (!counts)
                continue;
            row_block(n, at[x].node, at[x].copies);
            copies += at[x].copies;
            known &= at[x].copies > 0;
        }
        if (copies && known)
            row_done(n, lanes, lanes, sure ? 0.05 : 1e-3);
        else
            memset(n->row, 0, n->nchord * sizeof *n->row);
        for (uint32_t x = k; x < to && copies && sure && known; x++) {
            if (n->share[at[x].node] > lanes / copies)
                n->share[at[x].node] = lanes / copies;
        }
    }
}

/* a = L D Lᵀ in place, and the chords' flows. A pivot of nothing: that chord stays 0. */
static void blocks_solve(struct net *n)
{
    uint32_t m = n->nchord;
    double *a = n->a, *x = n->flow;
    for (uint32_t p = 1; p < m; p++) {
        for (uint32_t q = 1; q <= p; q++) {
            double v = a[(size_t)p * m + q];
            for (uint32_t k = 1; k < q; k++)
                v -= a[(size_t)p * m + k] * a[(size_t)q * m + k] * a[(size_t)k * m + k];
            if (q < p)
                v = a[(size_t)q * m + q] > 0 ? v / a[(size_t)q * m + q] : 0;
            else if (v < 1e-30)
                v = 0;
            a[(size_t)p * m + q] = v;
        }
        x[p] = n->b[p];
        for (uint32_t k = 1; k < p; k++)
            x[p] -= a[(size_t)p * m + k] * x[k];
    }
    for (uint32_t p = 1; p < m; p++)
        x[p] = a[(size_t)p * m + p] > 0 ? x[p] / a[(size_t)p * m + p] : 0;
    for (uint32_t p = m; p-- > 1;)
        for (uint32_t k = p + 1; k < m; k++)
            x[p] -= a[(size_t)k * m + p] * x[k];
}

static double flow_of(const struct net *n, uint32_t edge)
{
    double v = 0;
    for (uint32_t q = 0; q < n->nchord; q++)
        v += n->coef[(size_t)edge * n->nchord + q] * n->flow[q];
    return v;
}

/* Does the function do what floats need for odd operands? Those of integer division have no such arithmetic. */
static bool float_path(const struct code *c, uint32_t f)
{
    for (uint32_t b = 0; b < c->nblock; b++)
        for (uint32_t k = c->block[b].first; c->block[b].func == f && k <= c->block[b].last; k++)
            if (sass_is(&c->inst[k], "FFMA") || sass_is(&c->inst[k], "DFMA"))
                return true;
    return false;
}

static void mark_slow(struct net *n)
{
    for (uint32_t k = 0; k < n->nblock; k++) {
        n->slow[k + 1] = never_ran(n, &n->c->block[n->block[k]]);
        for (uint32_t i = n->c->block[n->block[k]].first; i <= n->c->block[n->block[k]].last; i++) {
            uint32_t f = n->c->call[i], l = n->c->line[i];
            n->slow[k + 1] |= f != CODE_NONE && n->odd[f] && !(l && l < n->nline && n->line[l].call);
        }
    }
}

static void equations(struct net *n, const struct at *at, uint32_t nat, struct doms *d, const bool *none)
{
    memset(n->a, 0, (size_t)n->nchord * n->nchord * sizeof *n->a);
    memset(n->b, 0, n->nchord * sizeof *n->b);
    rows_anchors(n, at, nat, false);
    rows_lines(n, at, nat, d);
    for (uint32_t x = 1; x <= n->nblock; x++) {
        uint32_t y = d->idom[x];
        bool slow = n->slow[x], share = slow || n->sure[x] || y == x || !y;
        row_block(n, x, 1);
        if (!share)
            row_block(n, y, -1);
        row_done(n, slow || !share ? 0 : n->share[x], n->share[x] > n->most ? n->share[x] : n->most,
                 slow    ? 0.3
                 : share ? 1e-5
                         : 1e-6);
    }
    for (uint32_t k = 0; k < n->nedge; k++)
        if (none[k]) {
            for (uint32_t q = 0; q < n->nchord; q++)
                n->row[q] = n->coef[(size_t)k * n->nchord + q];
            row_done(n, 0, n->most, 30);
        }
}

static int net_solve(struct net *n, struct at **at)
{
    uint32_t nat = 0;
    struct doms d = {0};
    dt_free_ bool *none = dt_calloc(n->nedge, sizeof *none);
    n->a = dt_calloc((size_t)n->nchord * n->nchord, sizeof *n->a);
    n->b = dt_calloc(n->nchord, sizeof *n->b);
    n->row = dt_calloc(n->nchord, sizeof *n->row);
    int r = none && n->a && n->b && n->row ? net_cycles(n) : DT_E_NOMEM;
    if (!r)
        r = dominators(n, &d);
    if (!r)
        r = net_loops(n, &d);
    if (!r)
        r = net_lines(n, at, &nat);
    mark_slow(n);
    if (!r && !(n->trust = dt_calloc(nat + 1, sizeof *n->trust)))
        r = DT_E_NOMEM;
    for (uint32_t k = 0; k < nat && !r; k++)
        n->trust[k] = 1;
    if (!r && (uint64_t)n->nchord * n->nchord * (nat + n->nblock) > MOST_WORK)
        r = 1;
    for (unsigned round = 0; round < 12 && !r; round++) {
        double worst = -1e-6 * (n->flow[0] + 1);
        equations(n, *at, nat, &d, none);
        blocks_solve(n);
        for (uint32_t k = 1; k < n->nedge; k++) {
            double flow = flow_of(n, k);
            worst = flow < worst && !none[k] ? flow : worst;
        }
        bool again = worst < -1e-6 * (n->flow[0] + 1);
        if (round < LEARN)
            rows_anchors(n, *at, nat, true);
        for (uint32_t k = 1; k < n->nedge && again; k++) /* the worst ones first: others may follow from them */
            none[k] |= flow_of(n, k) <= worst / 2;
        if (!again && round >= LEARN)
            break;
    }
    for (uint32_t x = 1; x <= n->nblock && !r; x++) {
        double v = 0;
        for (uint32_t k = 0; k < n->nedge; k++)
            if (n->edge[k].to == x)
                v += flow_of(n, k);
        n->lanes[n->block[x - 1]] = v > 0 ? v : 0;
    }
    free(d.order);
    free(d.number);
    free(d.idom);
    return r;
}

/* One function, of which `start` lanes came in. 1: it is too large. */
static int net_function(struct net *n, double start)
{
    const struct code *c = n->c;
    struct at *at = NULL;
    n->flow = dt_calloc(MOST_CHORDS, sizeof *n->flow);
    n->block = dt_calloc(c->nblock, sizeof *n->block);
    n->node = dt_calloc(c->nblock, sizeof *n->node);
    n->loop = dt_calloc((size_t)c->nblock + 1, sizeof *n->loop);
    n->copies = dt_calloc((size_t)c->nblock + 1, sizeof *n->copies);
    n->share = dt_calloc((size_t)c->nblock + 1, sizeof *n->share);
    n->slow = dt_calloc((size_t)c->nblock + 1, sizeof *n->slow);
    n->sure = dt_calloc((size_t)c->nblock + 1, sizeof *n->sure);
    n->middle = dt_calloc((size_t)c->nblock + 1, sizeof *n->middle);
    int r = n->flow && n->block && n->node && n->loop && n->copies && n->share && n->slow && n->sure && n->middle
                ? net_edges(n)
                : DT_E_NOMEM;
    if (!r)
        r = net_tree(n);
    if (!r) {
        n->flow[0] = start;
        r = net_solve(n, &at);
    }
    if (r > 0) {
        uint32_t nat = 0;
        free(at);
        at = NULL;
        int bad = net_lines(n, &at, &nat);
        for (uint32_t x = 1; x <= n->nblock && !bad; x++)
            n->lanes[n->block[x - 1]] = n->share[x];
        r = bad ? bad : 1;
    }
    free(at);
    free(n->block);
    free(n->node);
    free(n->edge);
    free(n->coef);
    free(n->pass);
    free(n->loop);
    free(n->copies);
    free(n->share);
    free(n->slow);
    free(n->sure);
    free(n->trust);
    free(n->middle);
    free(n->a);
    free(n->b);
    free(n->row);
    free(n->flow);
    return r;
}

/* The next function whose callers are all known; where they call each other, any. */
static uint32_t next_function(const struct code *c, const bool *done)
{
    uint32_t any = 0;
    for (uint32_t f = 1; f < c->nfunc; f++) {
        bool ready = !done[f];
        for (uint32_t k = 0; k < c->n && ready; k++) {
            uint32_t by = c->block[c->block_of[k]].func;
            ready = c->call[k] != f || by == CODE_NONE || by == f || done[by];
        }
        if (ready)
            return f;
        any = done[f] ? any : f;
    }
    return any;
}

int code_blocks(const struct code *c, const struct dev_line *line, uint32_t nline, double lanes, double *ret)
{
    bool done[MOST_FUNCTIONS] = {false}, odd[MOST_FUNCTIONS] = {false};
    int open = 0;
    if (c->nfunc > MOST_FUNCTIONS)
        return 2;
    for (uint32_t f = 1; f < c->nfunc; f++)
        odd[f] = float_path(c, f);
    for (uint32_t turn = 0, f = 0; turn < c->nfunc; turn++, f = next_function(c, done)) {
        double start = turn ? 0 : lanes;
        for (uint32_t k = 0; k < c->n && f; k++)
            if (c->call[k] == f && c->block[c->block_of[k]].func != f)
                start += ret[c->block_of[k]];
        done[f] = true;
        struct net n = {.c = c, .line = line, .nline = nline, .lanes = ret, .f = f, .odd = odd};
        int r = net_function(&n, start);
        if (r < 0)
            return r;
        open |= r;
    }
    return open;
}
