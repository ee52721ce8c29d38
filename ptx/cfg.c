/* Basic blocks, dominators, post-dominators.
 *
 * A block starts at the function's start, at a run of labels, and after a branch or terminator. An unpredicated bra,
 * brx, ret, exit or trap does not fall through; brx.idx goes to every label of its list. Falling off the end is the
 * exit. Dominators by Semi-NCA (Georgiadis, Tarjan): depth-first numbers, semidominators with path compression, then
 * nearest common ancestors; nothing is recursive. Post-dominators are dominators of the reversed graph from a virtual
 * exit; blocks that never reach it (endless loops) have none.
 *
 * Not here: questions about the graph (dominance.c), and what an opaque statement might jump to. A function that has
 * such a statement is not understood, and its users must refuse it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx-priv.h"

#define NONE UINT32_MAX

struct graph { /* successors of n nodes, rows of to[] */
    uint32_t n, *at, *to;
};

static bool ends_block(const struct ptx_inst *i)
{
    return ptx_op_info(i->op)->flags & (PTX_F_BRANCH | PTX_F_TERMINATOR);
}

static bool falls_through(const struct ptx_inst *i)
{
    return !(ptx_op_info(i->op)->flags & PTX_F_TERMINATOR) || i->pred != PTX_NO_REG;
}

/* ---- dominators of a graph from `root`: idom[root] and idom of what is not reached are NONE */

/* All by depth-first number, from 1; parent of the root is 0. Nodes numbered >= `linked` are in the forest. */
struct snca {
    uint32_t *pre, *vertex, *parent, *semi, *label, *dom, *stack;
};

static uint32_t eval(struct snca *s, uint32_t v, uint32_t linked)
{
    if (s->parent[v] < linked)
        return s->label[v];
    uint32_t n = 0;
    do {
        s->stack[n++] = v;
        v = s->parent[v];
    } while (s->parent[v] >= linked);
    uint32_t up = v, best = s->label[up];
    do { /* compress: from the top down */
        v = s->stack[--n];
        s->parent[v] = s->parent[up];
        if (s->semi[best] < s->semi[s->label[v]])
            s->label[v] = best;
        else
            best = s->label[v];
        up = v;
    } while (n);
    return s->label[v];
}

static int dominators(const struct graph *g, const struct graph *rev, uint32_t root, uint32_t *idom)
{
    size_t n = g->n;
    uint32_t count = 1, top = 0, *mem = dt_calloc((n + 1) * 8, sizeof *mem);
    if (!mem)
        return DT_E_NOMEM;
    struct snca s = {mem,
                     mem + (n + 1),
                     mem + 2 * (n + 1),
                     mem + 3 * (n + 1),
                     mem + 4 * (n + 1),
                     mem + 5 * (n + 1),
                     mem + 6 * (n + 1)};
    uint32_t *next = mem + 7 * (n + 1);
    for (uint32_t v = 0; v < n; v++)
        idom[v] = NONE;
    s.stack[top++] = root;
    s.pre[root] = count;
    s.vertex[count++] = root;
    next[root] = g->at[root];
    while (top) {
        uint32_t v = s.stack[top - 1];
        if (next[v] == g->at[v + 1]) {
            top--;
            continue;
        }
        uint32_t w = g->to[next[v]++];
        if (s.pre[w])
            continue;
        s.pre[w] = count;
        s.parent[count] = s.pre[v];
        s.vertex[count++] = w;
        next[w] = g->at[w];
        s.stack[top++] = w;
    }
    for (uint32_t k = 1; k < count; k++) {
        s.semi[k] = s.label[k] = k;
        s.dom[k] = s.parent[k];
    }
    for (uint32_t k = count - 1; k >= 2; k--) {
        uint32_t v = s.vertex[k];
        s.semi[k] = s.parent[k];
        for (uint32_t j = rev->at[v]; j < rev->at[v + 1]; j++) {
            if (!s.pre[rev->to[j]])
                continue;
            uint32_t u = s.semi[eval(&s, s.pre[rev->to[j]], k + 1)];
            if (u < s.semi[k])
                s.semi[k] = u;
        }
    }
    for (uint32_t k = 2; k < count; k++) {
        while (s.dom[k] > s.semi[k])
            s.dom[k] = s.dom[s.dom[k]];
        idom[s.vertex[k]] = s.vertex[s.dom[k]];
    }
    free(mem);
    return 0;
}

/* ---- blocks */

static int reverse(struct dt_arena *a, const struct graph *g, struct graph *ret)
{
    uint32_t n = g->n, edges = g->at[n];
    ret->n = n;
    ret->at = dt_new_array(a, uint32_t, (size_t)n + 2);
    ret->to = dt_new_array(a, uint32_t, (size_t)edges + 1);
    if (!ret->at || !ret->to)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < edges; k++)
        ret->at[g->to[k] + 2]++;
    for (uint32_t v = 0; v < n; v++)
        ret->at[v + 2] += ret->at[v + 1];
    for (uint32_t v = 0; v < n; v++)
        for (uint32_t k = g->at[v]; k < g->at[v + 1]; k++)
            ret->to[ret->at[g->to[k] + 1]++] = v;
    return 0;
}

/* Where each label stands: the instruction that defines it. */
static uint32_t *label_places(const struct ptx_function *f, struct dt_arena *a)
{
    uint32_t *at = dt_new_array(a, uint32_t, (size_t)f->nlabel + 1);
    for (uint32_t k = 0; at && k < f->nlabel; k++)
        at[k] = NONE;
    for (uint32_t i = 0; at && i < f->ninst; i++)
        if (f->inst[i].op == PTX_OP_LABEL || f->inst[i].op == PTX_OP_BRANCHTARGETS)
            at[f->inst[i].opnd[0].label] = i;
    return at;
}

struct edges {
    struct ptx_cfg *cfg;
    struct graph *g;
    uint32_t cap, block;
    bool failed;
};

static void cfg_edge(struct edges *x, uint32_t to)
{
    uint32_t *n = &x->g->at[x->block + 1];
    if (!PTX_GROW(&x->cfg->arena, x->g->to, *n, x->cap))
        x->failed = true;
    else
        x->g->to[(*n)++] = to;
}

/* The successors of a block; the node behind the last block is the exit. False: a label that is not there. */
static bool successors(const struct ptx_function *f, const uint32_t *place, struct edges *x)
{
    struct ptx_cfg *cfg = x->cfg;
    const struct ptx_inst *i = &f->inst[cfg->block[x->block].last];
    const struct ptx_op_info *info = ptx_op_info(i->op);
    if (falls_through(i))
        cfg_edge(x, x->block + 1);
    if (!(info->flags & PTX_F_BRANCH)) {
        if (info->flags & PTX_F_TERMINATOR)
            cfg_edge(x, cfg->nblock);
        return true;
    }
    const struct ptx_opnd *o = &i->opnd[i->nopnd - 1];
    uint32_t at = i->nopnd && o->kind == PTX_O_LABEL ? place[o->label] : NONE;
    if (at == NONE)
        return false;
    if (i->op != PTX_OP_BRX_IDX) {
        cfg_edge(x, cfg->block_of[at]);
        return true;
    }
    const struct ptx_inst *list = &f->inst[at];
    if (list->op != PTX_OP_BRANCHTARGETS)
        return false;
    for (unsigned k = 1; k < list->nopnd; k++) {
        if (list->opnd[k].kind != PTX_O_LABEL || place[list->opnd[k].label] == NONE)
            return false;
        cfg_edge(x, cfg->block_of[place[list->opnd[k].label]]);
    }
    return true;
}

static int cfg_build(const struct ptx_function *f, struct ptx_cfg *cfg, struct dt_err *e)
{
    struct dt_arena *a = &cfg->arena;
    uint32_t *place = label_places(f, a);
    cfg->block_of = dt_new_array(a, uint32_t, (size_t)f->ninst + 1);
    if (!place || !cfg->block_of)
        return DT_E_NOMEM;
    uint32_t nb = 0;
    for (uint32_t i = 0; i < f->ninst; i++) {
        bool starts =
            !i || ends_block(&f->inst[i - 1]) || (f->inst[i].op == PTX_OP_LABEL && f->inst[i - 1].op != PTX_OP_LABEL);
        nb += starts;
        cfg->block_of[i] = nb - 1;
    }
    cfg->nblock = nb;
    cfg->block = dt_new_array(a, struct ptx_block, (size_t)nb + 1);
    if (!cfg->block)
        return DT_E_NOMEM;
    for (uint32_t i = f->ninst; i-- > 0;)
        cfg->block[cfg->block_of[i]].first = i;
    for (uint32_t i = 0; i < f->ninst; i++)
        cfg->block[cfg->block_of[i]].last = i;
    struct graph g = {.n = nb + 1, .at = dt_new_array(a, uint32_t, (size_t)nb + 2)}, rev = {0};
    struct edges x = {.cfg = cfg, .g = &g};
    uint32_t *idom = dt_new_array(a, uint32_t, 2 * ((size_t)nb + 1)), *ipdom = idom + nb + 1;
    if (!g.at || !idom)
        return DT_E_NOMEM;
    for (uint32_t b = 0; b < nb; b++) {
        g.at[b + 1] = g.at[b];
        x.block = b;
        if (!successors(f, place, &x))
            return dt_err_set(e, DT_E_PTX, "line %u: branch to a label that is not there",
                              f->inst[cfg->block[b].last].line);
        if (x.failed)
            return DT_E_NOMEM;
    }
    g.at[nb + 1] = g.at[nb];
    if (reverse(a, &g, &rev) < 0 || dominators(&g, &rev, 0, idom) < 0 || dominators(&rev, &g, nb, ipdom) < 0)
        return DT_E_NOMEM;
    for (uint32_t b = 0; b < nb; b++) {
        struct ptx_block *k = &cfg->block[b];
        k->succ = g.to + g.at[b];
        k->nsucc = g.at[b + 1] - g.at[b];
        k->pred = rev.to + rev.at[b];
        k->npred = rev.at[b + 1] - rev.at[b];
        k->idom = idom[b];
        k->reachable = !b || idom[b] != NONE;
        k->ipdom = ipdom[b] == nb ? NONE : ipdom[b];
    }
    for (uint32_t b = 0; b < nb; b++) { /* the exit is not a block: it leaves the lists */
        struct ptx_block *k = &cfg->block[b];
        uint32_t n = 0;
        for (uint32_t j = 0; j < k->nsucc; j++)
            if (k->succ[j] < nb)
                k->succ[n++] = k->succ[j];
        k->nsucc = n;
    }
    return 0;
}

int ptx_cfg_build(const struct ptx_function *f, struct ptx_cfg *cfg, struct dt_err *e)
{
    struct ptx_cfg c = {0};
    int r = cfg_build(f, &c, e);
    if (r < 0) {
        ptx_cfg_done(&c);
        return r == DT_E_NOMEM ? dt_err_set(e, r, "out of memory") : r;
    }
    *cfg = c;
    return 0;
}

void ptx_cfg_done(struct ptx_cfg *cfg)
{
    dt_arena_done(&cfg->arena);
    *cfg = (struct ptx_cfg){0};
}
