/* What a branch decides: the basic blocks that are reached or not by it, and the registers that hold one of several
 * values behind it.
 *
 * Blocks between a branch and the point where its ways meet (its immediate post-dominator; the function's end, where a
 * way exits) are reached or not. A register that is assigned in one of them and live where two ways from the branch
 * meet has a value that the branch chose. One that is dead there keeps what its definitions make of it: where it exists
 * at all, it is the same. taint.c asks this of branches on data, lanes.c of branches that lanes of a warp take apart.
 */
#include "analysis/taint/taint-priv.h"

static void mark_def(uint32_t r, bool write, void *user)
{
    if (write)
        set_bit(user, r);
}

void ana_branch(struct dt_arena *a, const struct ptx_function *f, const struct ptx_cfg *cfg,
                const struct ptx_live *live, uint32_t b, void (*block)(uint32_t x, void *user),
                void (*merge)(uint32_t r, void *user), void *user)
{
    const struct ptx_block *k = &cfg->block[b];
    uint32_t n = cfg->nblock, meet = k->ipdom;
    uint8_t *count = dt_new_array(a, uint8_t, n);
    bool *seen = dt_new_array(a, bool, n);
    uint32_t *stack = dt_new_array(a, uint32_t, (size_t)n + 1);
    uint64_t *def = dt_new_array(a, uint64_t, (size_t)f->nreg / 64 + 1);
    if (!count || !seen || !stack || !def)
        return;
    for (uint32_t i = 0; i < k->nsucc; i++) {
        bool again = false;
        for (uint32_t j = 0; j < i; j++)
            again |= k->succ[j] == k->succ[i];
        if (again || k->succ[i] == meet)
            continue;
        memset(seen, 0, n * sizeof *seen);
        ptx_mark_reached(cfg, k->succ[i], meet, seen, stack);
        for (uint32_t x = 0; x < n; x++)
            count[x] += seen[x] && count[x] < 2;
    }
    for (uint32_t x = 0; x < n; x++) {
        if (!count[x])
            continue;
        block(x, user);
        for (uint32_t i = cfg->block[x].first; i <= cfg->block[x].last; i++)
            ptx_inst_regs(&f->inst[i], mark_def, def);
    }
    for (uint32_t x = 0; x < n; x++) {
        if ((x != meet && count[x] < 2) || !live->in)
            continue;
        for (uint32_t w = 0; w < live->words; w++)
            for (uint64_t v = live->in[x][w] & def[w]; v; v &= v - 1)
                merge(w * 64 + (uint32_t)__builtin_ctzll(v), user);
    }
}
