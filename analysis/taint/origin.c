/* Origins: the way back from a tainted address or guard to the instruction where the taint began.
 *
 * A breadth-first search, from the access backwards, over registers and basic blocks with the levels that the taint
 * pass (taint.c) found. A register leads to the instructions that define it. Each of them is a source (a load of global
 * memory, an atomic, a vote, a machine register, a call, an unknown instruction) or leads on: to its tainted operands;
 * from a load of shared or local memory to the stores there; from a merge of values to the branch that chose. The
 * nearest source in this order is the answer, at the end of the shortest chain of instructions. There may be others;
 * one is enough to say why.
 *
 * The search gives up after MOST_WORK steps. It is approximate where the taint pass is, and in one more place: of
 * several tainted branches the nearest before a block is taken for the one that guards it.
 */
#include "analysis/taint/taint.h"

struct search {
    const struct ptx_function *f;
    const struct ana_tainted *t;
    uint8_t level;
    uint8_t *reg_seen, *block_seen, *inst_seen;
    uint32_t *queue, head, tail; /* instructions to look at */
    uint32_t *def, *def_at;      /* instructions that write register r: def[def_at[r]] up to def[def_at[r + 1]] */
    uint32_t at;                 /* while these are collected */
    bool collect;
    bool stores_seen[2]; /* shared, local */
    uint64_t work;
};

#define MOST_WORK (UINT64_C(1) << 27) /* then it is given up: text may be made to be large */

static void push_inst(struct search *s, uint32_t at)
{
    if (s->inst_seen[at])
        return;
    s->inst_seen[at] = 1;
    s->queue[s->tail++] = at;
}

static void defines(uint32_t r, bool write, void *user)
{
    struct search *s = user;
    if (!write || r >= s->f->nreg)
        return;
    if (s->collect)
        s->def[s->def_at[r]++] = s->at;
    else
        s->def_at[r + 1]++;
}

/* Who writes each register, in the order of the text. */
static bool definitions(struct search *s, struct dt_arena *a)
{
    const struct ptx_function *f = s->f;
    s->def_at = dt_new_array(a, uint32_t, (size_t)f->nreg + 2);
    for (int pass = 0; pass < 2 && s->def_at; pass++) {
        s->collect = pass;
        for (uint32_t k = 0; k < f->ninst; k++) {
            s->at = k;
            if (s->t->cfg.block[s->t->cfg.block_of[k]].reachable)
                ptx_inst_regs(&f->inst[k], defines, s);
        }
        for (uint32_t r = 0; r < f->nreg && !pass; r++)
            s->def_at[r + 1] += s->def_at[r];
        if (!pass && !(s->def = dt_new_array(a, uint32_t, (size_t)s->def_at[f->nreg] + 1)))
            return false;
    }
    for (uint32_t r = f->nreg; r > 0 && s->def_at; r--) /* each stands at the end of its row: the start of the next */
        s->def_at[r] = s->def_at[r - 1];
    if (s->def_at)
        s->def_at[0] = 0;
    return s->def_at != NULL;
}

static void push_reg(uint32_t r, struct search *s)
{
    if (r >= s->f->nreg || s->t->reg[r] < s->level || s->reg_seen[r])
        return;
    s->reg_seen[r] = 1;
    for (uint32_t k = s->def_at[r]; k < s->def_at[r + 1]; k++)
        push_inst(s, s->def[k]);
}

/* The branch on a tainted predicate that stands nearest before block b (or after it, in a loop). */
static void push_block(struct search *s, uint32_t b)
{
    uint32_t best = UINT32_MAX, far = UINT32_MAX;
    if (s->block_seen[b] || s->t->block[b] < s->level)
        return;
    s->block_seen[b] = 1;
    s->work += s->t->cfg.nblock;
    for (uint32_t c = 0; c < s->t->cfg.nblock; c++) {
        const struct ptx_block *k = &s->t->cfg.block[c];
        if (!k->reachable || k->last >= s->f->ninst || k->first > k->last)
            continue;
        const struct ptx_inst *i = &s->f->inst[k->last];
        bool jumps = ptx_op_info(i->op)->flags & (PTX_F_BRANCH | PTX_F_TERMINATOR);
        bool tainted = i->pred != PTX_NO_REG && s->t->reg[i->pred] >= s->level;
        if (i->op == PTX_OP_BRX_IDX && i->opnd[0].kind == PTX_O_REG)
            tainted |= s->t->reg[i->opnd[0].reg] >= s->level;
        uint32_t d = c < b ? b - c : s->t->cfg.nblock + c - b;
        if (jumps && tainted && d < far)
            far = d, best = k->last;
    }
    if (best != UINT32_MAX)
        push_inst(s, best);
}

static void push_read(uint32_t r, bool write, void *user)
{
    if (!write)
        push_reg(r, user);
}

/* Stores to the space that a tainted value, address or guard may have come through. False: there is none. */
static bool push_stores(struct search *s, uint8_t space)
{
    uint32_t before = s->tail;
    bool *seen = &s->stores_seen[space == PTX_LOCAL];
    if (*seen)
        return true;
    *seen = true;
    for (uint32_t k = 0; k < s->f->ninst; k++) {
        const struct ptx_inst *i = &s->f->inst[k];
        unsigned flags = ptx_op_info(i->op)->flags;
        bool here =
            i->space == space || i->space == PTX_GENERIC || (i->space == PTX_SHARED_CLUSTER && space == PTX_SHARED);
        if (flags & PTX_F_WRITES && here && s->t->cfg.block[s->t->cfg.block_of[k]].reachable)
            push_inst(s, k);
    }
    return s->tail > before;
}

static bool origin_special(const struct ptx_inst *i)
{
    for (unsigned k = 0; k < i->nopnd; k++)
        if (i->opnd[k].kind == PTX_O_SREG && !(ptx_sreg_flags(i->opnd[k].sreg) & PTX_SRF_GEOMETRY))
            return true;
    return false;
}

/* Does the taint begin at instruction `at`? If not, what it comes from joins the queue. */
static bool origin_look(struct search *s, uint32_t at)
{
    const struct ptx_inst *i = &s->f->inst[at];
    unsigned flags = ptx_op_info(i->op)->flags;
    uint32_t block = s->t->cfg.block_of[at], before = s->tail;
    if (ptx_is_opaque(i) || flags & (PTX_F_CALL | PTX_F_ATOMIC) || origin_special(i))
        return true;
    if (ptx_is_open(i))
        return true;
    switch (i->op) {
    case PTX_OP_ACTIVEMASK:
    case PTX_OP_MATCH:
    case PTX_OP_ELECT:
    case PTX_OP_BAR_RED:
    case PTX_OP_BARRIER_RED: return true;
    }
    if (flags & PTX_F_READS && !(flags & PTX_F_WRITES)) {
        if (i->space != PTX_SHARED && i->space != PTX_SHARED_CLUSTER && i->space != PTX_LOCAL && i->space != PTX_PARAM)
            return true;
        if (i->space != PTX_PARAM && !push_stores(s, i->space == PTX_LOCAL ? PTX_LOCAL : PTX_SHARED))
            return true; /* nobody wrote it */
    }
    if (flags & PTX_F_SPACE2 && flags & PTX_F_WRITES)
        return true; /* copies from global memory */
    ptx_inst_regs(i, push_read, s);
    push_block(s, block);
    return s->tail == before && flags & PTX_F_READS; /* shared memory without order */
}

uint32_t ana_origin(const struct ptx_function *f, const struct ana_tainted *t, const struct ana_site *x, bool guard,
                    uint8_t level)
{
    struct search s = {.f = f, .t = t, .level = level};
    const struct ptx_inst *i = &f->inst[x->inst];
    struct dt_arena a = {0};
    uint32_t found = UINT32_MAX;
    s.reg_seen = dt_new_array(&a, uint8_t, (size_t)f->nreg + 1);
    s.block_seen = dt_new_array(&a, uint8_t, (size_t)t->cfg.nblock + 1);
    s.inst_seen = dt_new_array(&a, uint8_t, (size_t)f->ninst + 1);
    s.queue = dt_new_array(&a, uint32_t, (size_t)f->ninst + 1);
    if (!a.failed && definitions(&s, &a)) {
        if (guard) {
            if (i->pred != PTX_NO_REG)
                push_reg(i->pred, &s);
            push_block(&s, t->cfg.block_of[x->inst]);
        } else if (x->opnd < i->nopnd && i->opnd[x->opnd].kind == PTX_O_ADDR &&
                   i->opnd[x->opnd].base_kind == PTX_O_REG) {
            push_reg(i->opnd[x->opnd].reg, &s);
        }
        while (s.head < s.tail && found == UINT32_MAX && s.work < MOST_WORK) {
            uint32_t at = s.queue[s.head++];
            if (origin_look(&s, at))
                found = at;
        }
    }
    dt_arena_done(&a);
    return found;
}
