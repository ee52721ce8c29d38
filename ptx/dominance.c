/* Questions that a flow graph answers: dominance, loops, what control can reach.
 *
 * cfg.c has computed each block's immediate dominator, so dominance is a walk up that tree. The other questions are
 * walks along edges that mark each block once. Each takes its marks and its stack from the caller, who often asks for
 * many blocks, and allocates nothing. ptx_constant_before() walks back along the one way that leads to a place.
 * Not here: post-dominance (ptx_block.ipdom is the immediate post-dominator), and loops with several entries:
 * ptx_mark_loop() is for a header that dominates the branch back. ptx_in_cycle() sees any loop.
 */
#include <string.h>

#include "ptx/ptx-priv.h"

bool ptx_dominates(const struct ptx_cfg *c, uint32_t a, uint32_t b)
{
    while (b != a && b != UINT32_MAX)
        b = c->block[b].idom;
    return b == a;
}

bool ptx_inst_dominates(const struct ptx_cfg *c, uint32_t a, uint32_t b)
{
    uint32_t x = c->block_of[a], y = c->block_of[b];
    return x == y ? a < b : ptx_dominates(c, x, y);
}

static uint32_t depth(const struct ptx_cfg *c, uint32_t b)
{
    uint32_t n = 0;
    for (; b != UINT32_MAX; b = c->block[b].idom)
        n++;
    return n;
}

uint32_t ptx_common_dominator(const struct ptx_cfg *c, uint32_t a, uint32_t b)
{
    for (uint32_t da = depth(c, a), db = depth(c, b); a != b;)
        if (da >= db)
            a = c->block[a].idom, da--;
        else
            b = c->block[b].idom, db--;
    return a;
}

/* Mark `from` and all blocks that a walk along edges from it comes to, forward or backward, without `stop`. live:
 * without blocks that the entry never reaches. */
static void flood(const struct ptx_cfg *c, uint32_t from, uint32_t stop, bool forward, bool live, bool *mark,
                  uint32_t *stack)
{
    uint32_t n = 0;
    if (mark[from] || from == stop)
        return;
    mark[from] = true;
    for (stack[n++] = from; n;) {
        const struct ptx_block *x = &c->block[stack[--n]];
        const uint32_t *next = forward ? x->succ : x->pred;
        for (uint32_t k = 0; k < (forward ? x->nsucc : x->npred); k++)
            if (next[k] != stop && !mark[next[k]] && (!live || c->block[next[k]].reachable))
                mark[next[k]] = true, stack[n++] = next[k];
    }
}

void ptx_mark_reached(const struct ptx_cfg *c, uint32_t from, uint32_t stop, bool *mark, uint32_t *stack)
{
    flood(c, from, stop, true, false, mark, stack);
}

void ptx_mark_reaching(const struct ptx_cfg *c, uint32_t to, uint32_t stop, bool *mark, uint32_t *stack)
{
    flood(c, to, stop, false, false, mark, stack);
}

void ptx_mark_region(const struct ptx_cfg *c, uint32_t b, bool *mark, uint32_t *stack)
{
    for (uint32_t k = 0; k < c->block[b].nsucc; k++)
        ptx_mark_reached(c, c->block[b].succ[k], c->block[b].ipdom, mark, stack);
}

void ptx_mark_loop(const struct ptx_cfg *c, uint32_t header, uint32_t back, bool *mark, uint32_t *stack)
{
    mark[header] = true;
    flood(c, back, header, false, true, mark, stack);
}

bool ptx_in_cycle(const struct ptx_cfg *c, uint32_t b, bool *mark, uint32_t *stack)
{
    memset(mark, 0, c->nblock * sizeof *mark);
    for (uint32_t k = 0; k < c->block[b].nsucc; k++)
        ptx_mark_reached(c, c->block[b].succ[k], UINT32_MAX, mark, stack);
    return mark[b];
}

struct writes {
    uint32_t reg;
    bool is;
};

static void writes_it(uint32_t reg, bool write, void *user)
{
    struct writes *w = user;
    w->is |= write && reg == w->reg;
}

bool ptx_constant_before(const struct ptx_function *f, const struct ptx_cfg *cfg, uint32_t at, uint32_t reg,
                         uint64_t *ret)
{
    uint32_t b = cfg->block_of[at], k = at;
    for (unsigned far = 0; far < 256; far++) {
        if (k == cfg->block[b].first) {
            if (b == 0 || cfg->block[b].npred != 1)
                return false;
            b = cfg->block[b].pred[0];
            k = cfg->block[b].last + 1;
            continue;
        }
        const struct ptx_inst *i = &f->inst[--k];
        struct writes w = {reg, i->op == PTX_OP_OPAQUE};
        ptx_inst_regs(i, writes_it, &w);
        if (!w.is)
            continue;
        const struct ptx_opnd *o = &i->opnd[1];
        if (i->op != PTX_OP_MOV || i->pred != PTX_NO_REG || i->nopnd != 2 || o->kind != PTX_O_IMM ||
            (o->imm_type != PTX_S64 && o->imm_type != PTX_U64))
            return false;
        *ret = o->bits;
        return true;
    }
    return false;
}
