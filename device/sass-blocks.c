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
 * The net is made in sass-net.c, what lines say is read in sass-says.c; here are the equations.
 *
 * Where a function is too large for that (SASS_CHORDS, MOST_EDGES of sass-net.c) its blocks have what their lines have.
 */
#include "device/sass-net.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MOST_WORK (UINT64_C(1) << 29)
#define MOST_FUNCTIONS 64
#define LEARN 2 /* rounds in which anchors lose what they are trusted */

/* ---- least squares ----------------------------------------------------------------------------------------------- */
static void row_block(struct sass_net *n, uint32_t node, double weight)
{
    for (uint32_t q = 0; q < n->nchord; q++)
        n->row[q] += weight * n->pass[(size_t)node * n->nchord + q];
}

/* row · flow = target, in units of `unit`; the row is empty then. */
static void row_done(struct sass_net *n, double target, double unit, double weight)
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
static void rows_anchors(struct sass_net *n, const struct sass_at *at, uint32_t nat, bool learn)
{
    for (uint32_t k = 0, to; k < nat; k = to) {
        bool any = false, all = true;
        for (to = k; to < nat && at[to].line == at[k].line; to++) {
            const struct code_block *b = &n->c->block[n->block[at[to].node - 1]];
            for (uint32_t i = b->first; i <= b->last; i++) {
                double part = n->c->line[i] == at[k].line ? sass_net_part(n, i) : 0;
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
static void rows_lines(struct sass_net *n, const struct sass_at *at, uint32_t nat, struct sass_doms *d)
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
        for (uint32_t x = k; x < to && to - k <= SASS_PLACES; x++) {
            bool counts = true;
            for (uint32_t y = k; y < to && counts; y++)
                counts = y == x || n->loop[at[y].node] != n->loop[at[x].node] ||
                         !sass_net_dominates(d, at[y].node, at[x].node);
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
static void blocks_solve(struct sass_net *n)
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

static double flow_of(const struct sass_net *n, uint32_t edge)
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

static void mark_slow(struct sass_net *n)
{
    for (uint32_t k = 0; k < n->nblock; k++) {
        n->slow[k + 1] = sass_net_never_ran(n, &n->c->block[n->block[k]]);
        for (uint32_t i = n->c->block[n->block[k]].first; i <= n->c->block[n->block[k]].last; i++) {
            uint32_t f = n->c->call[i], l = n->c->line[i];
            n->slow[k + 1] |= f != CODE_NONE && n->odd[f] && !(l && l < n->nline && n->line[l].call);
        }
    }
}

static void equations(struct sass_net *n, const struct sass_at *at, uint32_t nat, struct sass_doms *d, const bool *none)
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

static int net_solve(struct sass_net *n, struct sass_at **at)
{
    uint32_t nat = 0;
    struct sass_doms d = {0};
    dt_free_ bool *none = dt_calloc(n->nedge, sizeof *none);
    n->a = dt_calloc((size_t)n->nchord * n->nchord, sizeof *n->a);
    n->b = dt_calloc(n->nchord, sizeof *n->b);
    n->row = dt_calloc(n->nchord, sizeof *n->row);
    int r = none && n->a && n->b && n->row ? sass_net_cycles(n) : DT_E_NOMEM;
    if (!r)
        r = sass_net_dominators(n, &d);
    if (!r)
        r = sass_net_loops(n, &d);
    if (!r)
        r = sass_net_lines(n, at, &nat);
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
static int net_function(struct sass_net *n, double start)
{
    const struct code *c = n->c;
    struct sass_at *at = NULL;
    n->flow = dt_calloc(SASS_CHORDS, sizeof *n->flow);
    n->block = dt_calloc(c->nblock, sizeof *n->block);
    n->node = dt_calloc(c->nblock, sizeof *n->node);
    n->loop = dt_calloc((size_t)c->nblock + 1, sizeof *n->loop);
    n->copies = dt_calloc((size_t)c->nblock + 1, sizeof *n->copies);
    n->share = dt_calloc((size_t)c->nblock + 1, sizeof *n->share);
    n->slow = dt_calloc((size_t)c->nblock + 1, sizeof *n->slow);
    n->sure = dt_calloc((size_t)c->nblock + 1, sizeof *n->sure);
    n->middle = dt_calloc((size_t)c->nblock + 1, sizeof *n->middle);
    int r = n->flow && n->block && n->node && n->loop && n->copies && n->share && n->slow && n->sure && n->middle
                ? sass_net_edges(n)
                : DT_E_NOMEM;
    if (!r)
        r = sass_net_tree(n);
    if (!r) {
        n->flow[0] = start;
        r = net_solve(n, &at);
    }
    if (r > 0) {
        uint32_t nat = 0;
        free(at);
        at = NULL;
        int bad = sass_net_lines(n, &at, &nat);
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
        struct sass_net n = {.c = c, .line = line, .nline = nline, .lanes = ret, .f = f, .odd = odd};
        int r = net_function(&n, start);
        if (r < 0)
            return r;
        open |= r;
    }
    return open;
}
