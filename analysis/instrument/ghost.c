/* Ghosts: a region that data may skip is walked ahead, for its addresses only.
 *
 *     if (flag[i])                           the branch depends on data; hoist.c finds no place for the access,
 *         for (j = 0; j < n; j++)            because j counts inside the region
 *             y[i * n + j] = …
 *
 * The region between the branch and the block where its two ways meet (its post-dominator) is copied to before the
 * branch, with registers of its own. The copy, the ghost, has only what untainted addresses and untainted control need,
 * and records every access of the region as if it happened:
 *   - untainted branches and loops are copied as they are;
 *   - a branch that data decides is replaced by both its sides, one after the other, each a ghost of its own, and then
 *     its post-dominator: there an untainted register has the same value whichever side ran, or is dead;
 *   - left out are instructions that write tainted registers only, stores, loads of data, barriers and calls.
 * There is no ghost, and the accesses are widened, if an untainted register comes from anything but arithmetic and
 * parameters, if data decides how often a loop runs, or if the copy grows too large. A ghost also runs for threads that
 * never take the branch, and one of them may walk a loop without end. So each thread may make a number of rounds
 * between 2^12 and 2^20, fewer the more threads there are (2^25 rounds together). Where a thread has used them up, the
 * ghost gives up, says so, and the accesses are widened after all.
 */
#include "analysis/instrument/instrument-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MAX_GHOST 20000 /* instructions */
#define MAX_DEPTH 64

struct ghost {
    struct ana_instr *s;
    const struct ptx_function *f; /* the original's registers */
    const struct ptx_inst *inst;
    uint32_t nreg;
    bool dry;
    uint32_t root; /* the block before whose branch it stands */
    uint32_t left;
    uint8_t *active;  /* blocks whose branch is being replaced */
    uint8_t *reached; /* blocks that the ghost walks */
};

static bool ghost_data(const struct ghost *g, uint32_t reg) { return g->s->t->reg[reg] == ANA_DATA_DEPENDENT; }

static bool by_data(const struct ghost *g, uint32_t block)
{
    const struct ptx_inst *i = &g->inst[g->s->t->cfg.block[block].last];
    if (i->op == PTX_OP_BRX_IDX)
        return i->opnd[0].kind != PTX_O_REG || ghost_data(g, i->opnd[0].reg);
    unsigned flags = ptx_op_info(i->op)->flags;
    return flags & (PTX_F_BRANCH | PTX_F_TERMINATOR) && i->pred != PTX_NO_REG && ghost_data(g, i->pred);
}

struct dest {
    const struct ghost *g;
    uint32_t *fresh; /* marks registers to rename, or NULL */
    unsigned clean;
};

static void ghost_look(uint32_t r, bool write, void *user)
{
    struct dest *d = user;
    if (!write)
        return;
    d->clean += !ghost_data(d->g, r);
    if (d->fresh)
        d->fresh[r] = 1;
}

/* 1: to be copied, 0: to be left out, -1: no ghost. */
static int ghost_keep(const struct ghost *g, const struct ptx_inst *i)
{
    struct dest d = {g, NULL, 0};
    ptx_inst_regs(i, ghost_look, &d);
    if (i->op == PTX_OP_OPAQUE)
        return -1;
    return !d.clean ? 0 : ana_copyable(i) ? 1 : -1;
}

static int seq(struct ghost *g, uint32_t block, uint32_t stop, const uint32_t *outer, unsigned depth);

/* Both sides of the branch at the end of `block`. */
static int sides(struct ghost *g, uint32_t block, const uint32_t *map, unsigned depth)
{
    const struct ptx_block *b = &g->s->t->cfg.block[block];
    int rc = 1;
    if (g->active[block] || depth > MAX_DEPTH)
        return 0;
    g->active[block] = 1;
    for (uint32_t i = 0; i < b->nsucc && rc == 1; i++)
        if (b->succ[i] != b->ipdom && !(i && b->succ[i] == b->succ[0]))
            rc = seq(g, b->succ[i], b->ipdom, map, depth + 1);
    g->active[block] = 0;
    return rc;
}

/* Blocks from `block` to before `stop`; behind a branch that data decides only its post-dominator. */
static uint32_t ghost_collect(struct ghost *g, uint32_t block, uint32_t stop, uint8_t *in, uint32_t *stack)
{
    const struct ptx_cfg *c = &g->s->t->cfg;
    uint32_t n = 1, top = 0;
    in[block] = 1;
    stack[top++] = block;
    while (top) {
        uint32_t x = stack[--top];
        const uint32_t *next = by_data(g, x) ? &c->block[x].ipdom : c->block[x].succ;
        uint32_t count = by_data(g, x) ? 1 : c->block[x].nsucc;
        for (uint32_t i = 0; i < count; i++)
            if (next[i] != stop && next[i] != UINT32_MAX && !in[next[i]]) {
                in[next[i]] = 1;
                stack[top++] = next[i];
                n++;
            }
    }
    return n;
}

static int jump(struct ghost *g, const uint32_t *label, uint32_t from, uint32_t to, uint32_t stop, uint32_t end)
{
    struct ana_instr *s = g->s;
    bool out = to == stop || to == UINT32_MAX;
    if (!out && to <= from)
        EMIT(s, "add.s32 %%ana_left, %%ana_left, -1; setp.eq.s32 %%ana_p, %%ana_left, 0; @%%ana_p bra $ana_o%u;",
             g->root);
    EMIT(s, "bra $ana_g%u;", out ? end : label[to]);
    return 0;
}

static const char *ghost_name(const struct ghost *g, const uint32_t *map, uint32_t r)
{
    return g->s->f->reg[map[r] != PTX_NO_REG ? map[r] : r].name;
}

static int record_sites(struct ghost *g, uint32_t at, const uint32_t *map)
{
    struct ana_instr *s = g->s;
    for (uint32_t k = 0; k < s->code->sites.nsite; k++) {
        const struct ana_site *x = &s->code->sites.site[k];
        const struct ptx_inst *i = &g->inst[at];
        if (x->inst != at || !s->code->ghost[k])
            continue;
        const struct ptx_opnd *o = &i->opnd[x->opnd];
        uint32_t skip = s->label++;
        if (i->pred != PTX_NO_REG && !ghost_data(g, i->pred))
            EMIT(s, "@%s%s bra $ana_s%u;", i->pred_neg ? "" : "!", ghost_name(g, map, i->pred), skip);
        if (o->base_kind == PTX_O_REG)
            EMIT(s, "add.s64 %%ana_a, %s, %lld;", ghost_name(g, map, o->reg), (long long)o->off);
        else
            EMIT(s, "mov.u64 %%ana_a, %s; add.s64 %%ana_a, %%ana_a, %lld;", o->var->name, (long long)o->off);
        int rc = ana_emit_record(s, k, ANA_AHEAD, skip);
        if (rc)
            return rc;
        EMIT(s, "$ana_s%u:", skip);
    }
    return 0;
}

static int end_of_block(struct ghost *g, uint32_t x, const uint32_t *label, uint32_t stop, uint32_t end,
                        const uint32_t *map, unsigned depth)
{
    struct ana_instr *s = g->s;
    const struct ptx_cfg *c = &s->t->cfg;
    const struct ptx_block *b = &c->block[x];
    const struct ptx_inst *i = &g->inst[b->last];
    if (by_data(g, x)) {
        int rc = sides(g, x, map, depth);
        return rc != 1 ? rc : g->dry ? 1 : jump(g, label, x, b->ipdom, stop, end) ? DT_E_NOMEM : 1;
    }
    if (i->op == PTX_OP_BRX_IDX)
        return 0;
    if (g->dry)
        return 1;
    int rc = 0;
    unsigned flags = ptx_op_info(i->op)->flags;
    if (flags & (PTX_F_BRANCH | PTX_F_TERMINATOR) &&
        i->pred != PTX_NO_REG) { /* untainted: the way that it takes, or on */
        uint32_t other = s->label++, taken = UINT32_MAX, on = UINT32_MAX;
        for (uint32_t k = 0; k < b->nsucc; k++) {
            bool is = false;
            const struct ptx_block *y = &c->block[b->succ[k]];
            for (uint32_t q = y->first; q <= y->last && g->inst[q].op == PTX_OP_LABEL && i->op == PTX_OP_BRA; q++)
                is |= g->inst[q].opnd[0].label == i->opnd[0].label;
            if (is)
                taken = b->succ[k];
            else
                on = b->succ[k];
        }
        if (b->nsucc == 1 && i->op == PTX_OP_BRA) /* to the next instruction */
            on = taken = b->succ[0];
        rc = ptx_append_text(s->f, s->e, "@%s%s bra $ana_s%u;", i->pred_neg ? "" : "!", ghost_name(g, map, i->pred),
                             other);
        if (!rc)
            rc = jump(g, label, x, taken, stop, end);
        if (!rc)
            rc = ptx_append_text(s->f, s->e, "$ana_s%u:", other);
        if (!rc)
            rc = jump(g, label, x, on, stop, end);
    } else {
        rc = jump(g, label, x, b->nsucc ? b->succ[0] : UINT32_MAX, stop, end);
    }
    return rc ? rc : 1;
}

static int block_of(struct ghost *g, uint32_t x, uint32_t *map)
{
    struct ana_instr *s = g->s;
    for (uint32_t i = s->t->cfg.block[x].first; i <= s->t->cfg.block[x].last; i++) {
        int k = ghost_keep(g, &g->inst[i]);
        if (k < 0 || !g->left)
            return 0;
        g->left -= k;
        if (g->dry)
            continue;
        int rc = record_sites(g, i, map);
        if (!rc && k)
            rc = ana_emit_copy(s, &(struct ana_copy){s, map}, i);
        if (rc)
            return rc;
    }
    return 1;
}

/* Registers that this part defines get names of their own, which begin with what they hold. */
static int rename_all(struct ghost *g, const uint8_t *in, uint32_t *map)
{
    struct ana_instr *s = g->s;
    uint32_t *fresh = dt_calloc((size_t)g->nreg + 1, sizeof *fresh);
    int rc = fresh ? 0 : DT_E_NOMEM;
    struct dest d = {g, fresh, 0};
    for (uint32_t x = 0; x < s->t->cfg.nblock && !rc; x++)
        for (uint32_t i = s->t->cfg.block[x].first; in[x] && i <= s->t->cfg.block[x].last; i++)
            if (ghost_keep(g, &g->inst[i]) == 1)
                ptx_inst_regs(&g->inst[i], ghost_look, &d);
    for (uint32_t r = 0; r < g->nreg && !rc; r++) {
        if (!fresh[r])
            continue;
        enum ptx_type t = s->f->reg[r].type;
        uint32_t to = ptx_reg_new(s->f, t, "ana_g");
        if (to == PTX_NO_REG)
            rc = DT_E_NOMEM;
        else if (t == PTX_PRED)
            rc = ptx_append_text(s->f, s->e, "mov.pred %s, %s;", s->f->reg[to].name, ghost_name(g, map, r));
        else
            rc = ptx_append_text(s->f, s->e, "mov.b%u %s, %s;", 8 * (ptx_type_bytes(t) < 2 ? 2 : ptx_type_bytes(t)),
                                 s->f->reg[to].name, ghost_name(g, map, r));
        map[r] = to;
    }
    free(fresh);
    return rc;
}

/* The ghost of what lies between `block` and `stop`. 1, 0: there is none, or an error. */
static int seq(struct ghost *g, uint32_t block, uint32_t stop, const uint32_t *outer, unsigned depth)
{
    struct ana_instr *s = g->s;
    uint32_t n = s->t->cfg.nblock, end = s->label++;
    uint8_t *in = dt_calloc((size_t)n + 1, 1);
    uint32_t *label = dt_calloc((size_t)n + 1, sizeof *label), *stack = dt_calloc((size_t)n + 1, sizeof *stack);
    uint32_t *map = dt_reallocarray(NULL, (size_t)g->nreg + 1, sizeof *map);
    int rc = in && label && stack && map ? 1 : DT_E_NOMEM;
    if (rc == 1) {
        uint32_t blocks = ghost_collect(g, block, stop, in, stack);
        g->left -= blocks < g->left ? blocks : g->left;
        rc = g->left ? rc : 0;
        memcpy(map, outer, g->nreg * sizeof *map);
        if (rc == 1 && !g->dry && rename_all(g, in, map))
            rc = DT_E_NOMEM;
    }
    for (uint32_t x = 0; x < n && rc == 1; x++)
        if (in[x])
            label[x] = s->label++;
    if (rc == 1 && !g->dry && ptx_append_text(s->f, s->e, "bra $ana_g%u;", label[block]))
        rc = DT_E_NOMEM;
    for (uint32_t x = 0; x < n && rc == 1; x++) {
        if (!in[x])
            continue;
        if (g->active[x])
            rc = 0; /* data decides how often this runs */
        g->reached[x] = 1;
        if (rc == 1 && !g->dry && ptx_append_text(s->f, s->e, "$ana_g%u:", label[x]))
            rc = DT_E_NOMEM;
        if (rc == 1)
            rc = block_of(g, x, map);
        if (rc == 1)
            rc = end_of_block(g, x, label, stop, end, map, depth);
    }
    if (rc == 1 && !g->dry && ptx_append_text(s->f, s->e, "$ana_g%u:", end))
        rc = DT_E_NOMEM;
    free(in), free(label), free(stack), free(map);
    return rc;
}

static int ghost_walk(struct ana_instr *s, uint32_t block, bool dry, const struct ptx_inst *inst, uint8_t *reached)
{
    struct ghost g = {
        .s = s, .inst = inst, .nreg = s->f->nreg, .dry = dry, .left = MAX_GHOST, .root = block, .reached = reached};
    uint32_t *map = dt_reallocarray(NULL, (size_t)g.nreg + 1, sizeof *map);
    g.active = dt_calloc((size_t)s->t->cfg.nblock + 1, 1);
    int rc = map && g.active ? 1 : DT_E_NOMEM;
    for (uint32_t r = 0; r < g.nreg && map; r++)
        map[r] = PTX_NO_REG;
    if (rc == 1 && !dry) /* some thread's did not end: all are given up */
        rc = ptx_append_text(s->f, s->e,
                             "ld.global.u32 %%ana_x, [%%ana_err+28]; and.b32 %%ana_x, %%ana_x, %u;"
                             "setp.ne.u32 %%ana_p, %%ana_x, 0; @%%ana_p bra $ana_d%u;",
                             ANA_OVER_GHOST, block)
                 ? DT_E_NOMEM
                 : 1;
    if (rc == 1)
        rc = by_data(&g, block) ? sides(&g, block, map, 0) : 0;
    if (rc == 1 && !dry) /* a ghost that does not end: say so, and give up at once the next time */
        rc = ptx_append_text(s->f, s->e,
                             "bra $ana_d%u; $ana_o%u: red.global.or.b32 [%%ana_err+28], 1; mov.u32 %%ana_left, 1;"
                             "$ana_d%u:",
                             block, block, block)
                 ? DT_E_NOMEM
                 : 1;
    free(map);
    free(g.active);
    return rc;
}

int ana_ghost_plan(struct ana_instr *s)
{
    struct ana_code *c = s->code;
    const struct ptx_cfg *cfg = &s->t->cfg;
    uint8_t *reached = dt_new_array(&c->arena, uint8_t, (size_t)cfg->nblock + 1);
    uint8_t *tried = dt_new_array(&c->arena, uint8_t, (size_t)cfg->nblock + 1); /* 1 none, 2 there is one */
    s->ghost_at = dt_new_array(&c->arena, uint32_t, (size_t)s->f->ninst + 1);
    if (c->arena.failed)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < c->sites.nsite; k++) {
        const struct ana_site *x = &c->sites.site[k];
        if (x->address == ANA_DATA_DEPENDENT || (!x->bytes && !x->span) || x->guard != ANA_DATA_DEPENDENT)
            continue;
        int rc = ana_hoist(&c->arena, s->f, s->t, x, &s->hoist[k]);
        if (rc < 0)
            return rc;
        s->ahead[k] = rc;
        uint32_t b = cfg->block_of[x->inst], d = b;
        const struct ptx_opnd *o = x->opnd != 0xFF ? &s->f->inst[x->inst].opnd[x->opnd] : NULL;
        if (rc || x->span || !o || o->kind != PTX_O_ADDR || o->base_kind == PTX_O_NONE)
            continue;
        while (d != UINT32_MAX && s->t->block[d] == ANA_DATA_DEPENDENT)
            d = cfg->block[d].idom;
        if (d == UINT32_MAX || d == b)
            continue;
        if (!tried[d]) {
            memset(reached, 0, cfg->nblock);
            rc = ghost_walk(s, d, true, s->f->inst, reached);
            if (rc < 0)
                return rc;
            tried[d] = rc ? 2 : 1;
        }
        if (tried[d] == 2) {
            memset(reached, 0, cfg->nblock);
            rc = ghost_walk(s, d, true, s->f->inst, reached);
            if (rc < 0)
                return rc;
            if (!reached[b])
                continue;
            c->ghost[k] = true;
            s->ghost_at[cfg->block[d].last] = d + 1;
            s->ghosts = true;
        }
    }
    return 0;
}

int ana_ghost_emit(struct ana_instr *s, uint32_t at)
{
    if (!s->ghost_at[at])
        return 0;
    uint8_t *reached = dt_calloc((size_t)s->t->cfg.nblock + 1, 1);
    int rc = reached ? ghost_walk(s, s->ghost_at[at] - 1, false, s->old, reached) : DT_E_NOMEM;
    free(reached);
    return rc == 1 ? 0 : rc ? rc : dt_err_set(s->e, DT_E_INTERNAL, "a ghost was planned that cannot be made");
}
