/* Which way a guest's thread goes to its element: branches that need not be asked again.
 *
 *     i = tid + ctaid * 256;  @(i >= 98304) bra END;         i = tid + ctaid * 256;
 *     v = [x + 4i]; … [y + 4i] = w;                          v = element; … [y + 4i] = w;
 *     END:
 *
 * A guest's text runs where the host has an element, as the thread, block, slot and round that have it. If the host has
 * no elements but those of the guest's threads, the posted thread came to an access of the slot's in that round. So
 * where just one side of a branch leads there, it went that way, and does so again, since the text is the same and
 * reads the same. What is left is one run of instructions for most guests: the loads of neighbouring elements need not
 * wait for each other, by no rule of the machine and by none of the assembler, which moves nothing over a branch.
 *
 * Of a branch this is told only if control cannot have come from such an access before: behind it, both sides may be
 * gone. A round ends where the next begins.
 *
 * Not done: a guest that has less than the host (an epilogue of some of the elements); branches that are always taken.
 */
#include "rewrite/inline/inline-priv.h"

struct ways {
    const struct rw_inline *n;
    const struct ptx_function *f;
    const struct ptx_cfg *cfg;
    bool *leads;  /* per block: an access of the slot's lies on a way from its begin */
    bool *behind; /* per block: on a way from such an access to its begin */
};

/* Is it an instruction that moves the slot's element? */
static bool moves_slot(const struct rw_inline *n, uint32_t inst, unsigned slot)
{
    for (uint32_t k = 0; k < n->njoint; k++)
        for (unsigned u = 0; n->joint[k].inst == inst && u < n->joint[k].comps / n->unit; u++)
            if (n->joint[k].slot[u] == slot)
                return true;
    return false;
}

/* Does the edge to the block's s-th successor lead to the next round? */
static bool to_next_round(const struct ways *w, const struct ptx_block *b, uint32_t s)
{
    return w->n->loop && w->n->again[b->last] && b->succ[s] == w->cfg->block_of[w->n->loop - 1];
}

/* Fill in `leads` and `behind`, until nothing changes. */
static void ways_spread(const struct ways *w, unsigned slot)
{
    bool more = true;
    for (uint32_t b = 0; b < w->cfg->nblock; b++)
        for (uint32_t k = w->cfg->block[b].first; k <= w->cfg->block[b].last; k++)
            w->leads[b] |= moves_slot(w->n, k, slot);
    for (uint32_t b = 0; b < w->cfg->nblock; b++)
        for (uint32_t s = 0; s < w->cfg->block[b].nsucc && w->leads[b]; s++)
            if (!to_next_round(w, &w->cfg->block[b], s))
                w->behind[w->cfg->block[b].succ[s]] = true;
    while (more) {
        more = false;
        for (uint32_t k = 0; k < w->cfg->nblock; k++) {
            const struct ptx_block *b = &w->cfg->block[k];
            for (uint32_t s = 0; s < b->nsucc; s++) {
                if (to_next_round(w, b, s))
                    continue;
                if (w->leads[b->succ[s]] && !w->leads[k])
                    more = w->leads[k] = true;
                if (w->behind[k] && !w->behind[b->succ[s]])
                    more = w->behind[b->succ[s]] = true;
            }
        }
    }
}

/* Is the branch at the end of the block one that no thread takes on its way to the slot's element? */
static bool not_taken(const struct ways *w, const struct ptx_block *b, const bool *first_in, const uint32_t *label)
{
    const struct ptx_inst *i = &w->f->inst[b->last];
    if (i->op != PTX_OP_BRA || i->pred == PTX_NO_REG || w->n->again[b->last] || b->last + 1 >= w->f->ninst)
        return false;
    uint32_t at = (uint32_t)(b - w->cfg->block), taken = w->cfg->block_of[label[i->opnd[0].label]],
             next = w->cfg->block_of[b->last + 1];
    return !first_in[at] && !w->behind[at] && w->leads[next] && !w->leads[taken];
}

int rw_inline_ways(const struct rw_inline *n, unsigned slot, bool *ret_not_taken, struct dt_arena *a, struct dt_err *e)
{
    const struct ptx_function *f = n->body[n->guest]->f;
    struct ptx_cfg cfg;
    if (n->partial)
        return 0;
    int r = ptx_cfg_build(f, &cfg, e);
    if (r < 0)
        return r;
    struct ways w = {n, f, &cfg, dt_new_array(a, bool, cfg.nblock + 1), dt_new_array(a, bool, cfg.nblock + 1)};
    bool *has = dt_new_array(a, bool, cfg.nblock + 1);
    uint32_t *label = dt_new_array(a, uint32_t, f->nlabel + 1);
    if (!dt_arena_failed(a)) {
        for (uint32_t k = 0; k < f->ninst; k++) {
            if (f->inst[k].op == PTX_OP_LABEL)
                label[f->inst[k].opnd[0].label] = k;
            has[cfg.block_of[k]] |= moves_slot(n, k, slot);
        }
        ways_spread(&w, slot);
        for (uint32_t b = 0; b < cfg.nblock; b++)
            if (cfg.block[b].reachable && not_taken(&w, &cfg.block[b], has, label))
                ret_not_taken[cfg.block[b].last] = true;
    }
    ptx_cfg_done(&cfg);
    return dt_arena_failed(a) ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}
