/* How control comes to a host's copy of a tensor from shared memory: the barrier before it, the branches between, and
 * the threads that come to the barrier together.
 *
 *   bar.sync %r2, 128;                  %r2: 1 for threads 128 to 255, 2 for 256 to 383; the others never come here
 *   setp.ne.s32 %p1, %r7, 0;  @%p1 bra L;                    the group's other warps skip it
 *   elect.sync _|%p, -1; selp.u32 %r8, 1, 0, %p;
 *   setp.eq.s32 %p2, %r8, 0;  @%p2 bra L;                    so do the other lanes of the one warp
 *   cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%r9, %r10}], [%r11];
 *   cp.async.bulk.commit_group;
 *   L:
 *
 * The guest's text at the copy is for all threads of the group, so these branches are left out, and all go through what
 * only one thread did. That is no harm where it computes alone, into registers that nobody reads at L, and where the
 * ways meet at L at once. (Groups of bulk copies with no copy in them are over when they are committed.)
 *
 *   back       from the copy to the barrier there is one way: each block has one predecessor. Nothing there writes
 *              shared memory or waits for what does
 *   together   a barrier of the whole block; or one by its count. Of branches that dominate it and that hang on the
 *              thread's number alone, it is known who passes; others count as passed by all. If so no more threads than
 *              the count come with one number, side by side and in whole warps, it is just these that the barrier waits
 *              for; and no other branch parts them, so that none waits for it elsewhere in the text
 */
#include "rewrite/inline/inline-priv.h"

#include "base/subject.h"
#include "ptx/flow.h"
#include "rewrite/emit/warps.h"

#define MOST_BLOCKS 16 /* from barrier to copy */

static bool is_note(const struct ptx_inst *i) { return i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA; }

/* Does the instruction leave shared memory as it is, and let nothing count as written that was under way at the
 * barrier? A wait (for cp.async, an mbarrier) makes bytes visible to the threads that wait. */
static bool leaves_shared(const struct ptx_inst *i)
{
    const unsigned may = PTX_F_WRITES | PTX_F_ATOMIC | PTX_F_SIDE | PTX_F_BARRIER | PTX_F_CALL;
    switch (i->op) {
    case PTX_OP_OPAQUE:
    case PTX_OP_BRANCHTARGETS:
    case PTX_OP_CALLPROTO: return false;
    case PTX_OP_LABEL:
    case PTX_OP_PRAGMA:
    case PTX_OP_BRA:
    case PTX_OP_FENCE:
    case PTX_OP_FENCE_PROXY:
    case PTX_OP_BAR_WARP_SYNC:
    case PTX_OP_CP_ASYNC_BULK_COMMIT:
    case PTX_OP_CP_ASYNC_BULK_WAIT: return true; /* copies from shared memory */
    case PTX_OP_CP_ASYNC_BULK_TENSOR: return rw_staged_is_store(i);
    case PTX_OP_ST: return i->space == PTX_GLOBAL;
    case PTX_OP_LD:
    case PTX_OP_ELECT:
    case PTX_OP_SHFL: return true;
    default:
        return !(ptx_op_info(i->op)->flags & (may | PTX_F_READS | PTX_F_CONVERGENT | PTX_F_BRANCH | PTX_F_TERMINATOR));
    }
}

/* A barrier of the whole block, or of as many threads as a constant says. */
static bool is_barrier(const struct ptx_inst *i)
{
    if ((i->op != PTX_OP_BAR_SYNC && i->op != PTX_OP_BARRIER_SYNC) || i->pred != PTX_NO_REG)
        return false;
    const struct ptx_opnd *o = &i->opnd[0];
    bool number = (o->kind == PTX_O_IMM && o->bits < 16) || (o->kind == PTX_O_REG && !o->neg);
    return i->nopnd == 1 ? number && o->kind == PTX_O_IMM
                         : i->nopnd == 2 && number && i->opnd[1].kind == PTX_O_IMM && i->opnd[1].bits &&
                               i->opnd[1].bits <= 1024 && i->opnd[1].bits % 32 == 0;
}

static bool is_conditional(const struct ptx_inst *i) { return i->op == PTX_OP_BRA && i->pred != PTX_NO_REG; }

/* The block that the branch at the end of block b leads to, and the one that it does not. */
static bool sides(const struct ptx_function *f, const struct ptx_cfg *cfg, uint32_t b, uint32_t *taken, uint32_t *other)
{
    const struct ptx_block *k = &cfg->block[b];
    if (!is_conditional(&f->inst[k->last]) || k->nsucc != 2 || k->last + 1 >= f->ninst)
        return false;
    *other = cfg->block_of[k->last + 1];
    *taken = k->succ[0] == *other ? k->succ[1] : k->succ[0];
    return *taken != *other && (k->succ[0] == *other || k->succ[1] == *other);
}

struct wrote {
    uint32_t reg;
    bool is;
};

static void on_wrote(uint32_t reg, bool write, void *user)
{
    struct wrote *w = user;
    w->is |= write && reg == w->reg;
}

/* Is the register written between barrier and copy, behind instruction `from` of that way? */
static bool rewritten(const struct ptx_function *f, const struct ptx_cfg *cfg, const struct rw_staged *s, uint32_t from,
                      uint32_t reg)
{
    struct wrote w = {reg, false};
    for (uint32_t k = s->inst; k != from;) {
        uint32_t b = cfg->block_of[k];
        k = k == cfg->block[b].first ? cfg->block[cfg->block[b].pred[0]].last : k - 1;
        if (k != from && !is_note(&f->inst[k]))
            ptx_inst_regs(&f->inst[k], on_wrote, &w);
    }
    return w.is;
}

void rw_staged_find_barrier(const struct rw_inline *n, const struct ptx_cfg *cfg, struct rw_staged *s,
                            struct rw_refusals *no)
{
    const struct rw_body *b = n->body[n->host];
    const struct ptx_function *f = b->f;
    uint32_t k = s->inst, block = cfg->block_of[k], blocks = 1, taken, other;
    bool found = false, lost = false;
    while (!found && !lost) {
        if (k == cfg->block[block].first) {
            uint32_t from = cfg->block[block].npred == 1 ? cfg->block[block].pred[0] : block;
            if (block == 0 || from == block || blocks++ == MOST_BLOCKS)
                break;
            k = cfg->block[from].last;
            if (is_conditional(&f->inst[k])) {
                lost = s->nway == RW_STAGED_WAYS || !sides(f, cfg, from, &taken, &other);
                if (!lost)
                    s->way[s->nway++] = (struct rw_staged_way){k, block == taken, false};
            }
            block = from;
        } else {
            k--;
        }
        found = is_barrier(&f->inst[k]);
        if (!found && !lost && !leaves_shared(&f->inst[k])) {
            rw_no(no, RW_NO_staged_still,
                  "`%s` of " DT_LAUNCH
                  " (PTX line %u) may change shared memory behind the last barrier before a copy of it",
                  ptx_op_info(f->inst[k].op)->mnemonic, n->name[n->host], f->inst[k].line);
            lost = f->inst[k].op <= PTX_OP_OPAQUE;
        }
    }
    s->barrier = k;
    if (!found || (f->inst[k].opnd[0].kind == PTX_O_REG && rewritten(f, cfg, s, k, f->inst[k].opnd[0].reg)))
        rw_no(no, RW_NO_staged_still,
              "no barrier of the block or of a group of its threads stands in " DT_LAUNCH
              " right before a copy from shared memory (PTX line %u)",
              n->name[n->host], f->inst[s->inst].line);
}

/* ---- who comes to the barrier ------------------------------------------------------------------------------------ */

struct decider { /* a branch before the barrier: those pass whose register is `sense` */
    uint32_t inst, reg;
    bool sense;
};

/* All ways to block `to` lead along the edge from block d to x, its successor. */
static bool only_by(const struct ptx_cfg *cfg, uint32_t d, uint32_t x, uint32_t to)
{
    bool only = ptx_dominates(cfg, x, to);
    for (uint32_t k = 0; k < cfg->block[x].npred && only; k++)
        only = cfg->block[x].pred[k] == d || ptx_dominates(cfg, x, cfg->block[x].pred[k]);
    return only;
}

static unsigned find_deciders(const struct ptx_function *f, const struct ptx_cfg *cfg, const struct rw_warps *w,
                              uint32_t to, struct decider *ret)
{
    unsigned n = 0;
    uint64_t v;
    for (uint32_t d = cfg->block[to].idom; d != UINT32_MAX && n < RW_STAGED_BEFORE; d = cfg->block[d].idom) {
        uint32_t taken, other;
        if (!sides(f, cfg, d, &taken, &other))
            continue;
        const struct ptx_inst *i = &f->inst[cfg->block[d].last];
        bool by = only_by(cfg, d, taken, to);
        if ((by || only_by(cfg, d, other, to)) && rw_warps_value(w, i->pred, 0, &v))
            ret[n++] = (struct decider){cfg->block[d].last, i->pred, by != (bool)i->pred_neg};
    }
    return n;
}

/* The number of the barrier that thread t comes to; -1: it does not come; -2: not known. */
static int number_of(const struct rw_warps *w, const struct ptx_opnd *o, const struct decider *d, unsigned nd,
                     uint32_t t)
{
    uint64_t v;
    for (unsigned k = 0; k < nd; k++) {
        if (!rw_warps_value(w, d[k].reg, t, &v))
            return -2;
        if ((v & 1) != d[k].sense)
            return -1;
    }
    if (o->kind == PTX_O_IMM)
        return (int)o->bits;
    return rw_warps_value(w, o->reg, t, &v) && (uint32_t)v < 16 ? (int)v : -2;
}

static bool of_the_warp(const struct rw_warps *w, const struct ptx_opnd *o)
{
    struct rw_spread x = rw_warps_of(w, o);
    return !x.any && !(x.bits & 31);
}

static bool find_group(const struct rw_inline *n, const struct ptx_cfg *cfg, const struct rw_warps *w,
                       struct rw_staged *s)
{
    const struct rw_body *b = n->body[n->host];
    const struct ptx_inst *i = &b->f->inst[s->barrier];
    struct decider d[RW_STAGED_BEFORE];
    unsigned nd = find_deciders(b->f, cfg, w, cfg->block_of[s->barrier], d);
    uint32_t low[16], high[16], count[16] = {0};
    bool whole = of_the_warp(w, &i->opnd[0]); /* all lanes of a warp come alike: one is asked */
    for (unsigned k = 0; k < nd; k++)
        whole &= of_the_warp(w, &(struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = d[k].reg});
    int v = -2;
    for (uint32_t t = 0; t < b->threads; t++) {
        if (t % 32 == 0 || !whole)
            v = number_of(w, &i->opnd[0], d, nd, t);
        if (v == -2)
            return false;
        if (v < 0)
            continue;
        if (!count[v]++)
            low[v] = t;
        high[v] = t;
    }
    s->group = (uint32_t)i->opnd[1].bits;
    for (unsigned k = 0; k < nd; k++)
        s->before[s->nbefore++] = d[k].inst;
    bool even = (s->group & (s->group - 1)) == 0;
    for (unsigned id = 0; id < 16; id++) {
        if (!count[id])
            continue;
        if (count[id] != s->group || high[id] - low[id] + 1 != s->group || low[id] % 32)
            return false;
        even &= low[id] % s->group == 0;
        s->start[s->ngroup++] = low[id];
    }
    return s->ngroup == 1 || (s->ngroup && even);
}

void rw_staged_find_group(const struct rw_inline *n, const struct ptx_cfg *cfg, const struct rw_warps *w,
                          struct rw_staged *s, struct rw_refusals *no)
{
    const struct rw_body *b = n->body[n->host];
    const struct ptx_inst *i = &b->f->inst[s->barrier];
    if (!is_barrier(i))
        return;
    s->group = b->threads;
    s->ngroup = i->nopnd == 1;
    if (i->nopnd == 1) {
        if (b->find[RW_BARRIER_VARYING].set)
            rw_no(no, RW_NO_staged_still, "some threads of " DT_LAUNCH " may not come to a barrier (PTX line %u)",
                  n->name[n->host], b->find[RW_BARRIER_VARYING].line);
    } else if (b->block[1] != 1 || b->block[2] != 1 || !find_group(n, cfg, w, s)) {
        rw_no(no, RW_NO_staged_still,
              "which threads of " DT_LAUNCH
              " come to the barrier before a copy from shared memory (PTX line %u) is not "
              "known: side by side, as many as it counts",
              n->name[n->host], i->line);
    }
}

void rw_staged_check_group(const struct rw_inline *n, const struct ptx_cfg *cfg, const struct rw_warps *w,
                           const struct rw_staged *s, struct rw_refusals *no)
{
    const struct ptx_inst *i = &n->body[n->host]->f->inst[s->barrier];
    struct rw_spread x = rw_warps_region(w, cfg->block_of[s->barrier]);
    if (i->nopnd > 1 && (x.any || (x.bits & rw_staged_apart(s))))
        rw_no(no, RW_NO_staged_still,
              "some threads of " DT_LAUNCH " may come to another barrier than the one before a copy from shared memory "
              "(PTX line %u)",
              n->name[n->host], i->line);
}

uint32_t rw_staged_apart(const struct rw_staged *s)
{
    uint32_t bits = 0;
    for (uint32_t t = 0; t < s->group; t++)
        bits |= (s->start[0] + t) ^ s->start[0];
    return bits;
}

/* ---- who goes on to the copy ------------------------------------------------------------------------------------- */

static const struct ptx_inst *defined_by(const struct rw_inline *n, const struct rw_warps *w, const struct ptx_opnd *o)
{
    uint32_t at = o->kind == PTX_O_REG && !o->neg ? rw_warps_def(w, o->reg) : UINT32_MAX;
    const struct ptx_inst *i = at == UINT32_MAX ? NULL : &n->body[n->host]->f->inst[at];
    return i && i->pred == PTX_NO_REG ? i : NULL;
}

static bool is_number(const struct ptx_opnd *o, uint64_t v)
{
    return o->kind == PTX_O_IMM && o->imm_type != PTX_F32 && o->imm_type != PTX_F64 && o->bits == v;
}

bool rw_staged_elected(const struct rw_inline *n, const struct rw_warps *w, uint32_t reg, bool *ret_sense)
{
    struct ptx_opnd o = {.kind = PTX_O_REG, .comp = -1, .reg = reg};
    const struct ptx_inst *i = defined_by(n, w, &o);
    *ret_sense = true;
    if (i && i->op == PTX_OP_SETP && i->nopnd == 3 && !i->dst2 && is_number(&i->opnd[2], 0)) {
        enum ptx_mod cmp = ptx_mod_of(i, PTX_MC_CMP);
        const struct ptx_inst *sel = defined_by(n, w, &i->opnd[1]);
        if ((cmp != PTX_M_EQ && cmp != PTX_M_NE) || !sel || sel->op != PTX_OP_SELP || sel->nopnd != 4)
            return false;
        bool one = is_number(&sel->opnd[1], 1) && is_number(&sel->opnd[2], 0);
        if (!one && !(is_number(&sel->opnd[1], 0) && is_number(&sel->opnd[2], 1)))
            return false;
        *ret_sense = (cmp == PTX_M_NE) == one;
        o = sel->opnd[3];
        i = defined_by(n, w, &o);
    }
    return i && i->op == PTX_OP_ELECT && i->dst2 && i->nopnd == 3 && i->opnd[1].kind == PTX_O_REG &&
           i->opnd[1].reg == o.reg && i->opnd[2].kind == PTX_O_IMM && (uint32_t)i->opnd[2].bits == UINT32_MAX;
}

/* ---- what all threads go through then ---------------------------------------------------------------------------- */

struct lives {
    const struct ptx_live *live;
    uint32_t block;
    bool some;
};

static void on_live(uint32_t reg, bool write, void *user)
{
    struct lives *l = user;
    l->some |= write && (l->live->in[l->block][reg / 64] >> reg % 64 & 1);
}

/* Instruction k does no harm in any thread. */
static bool harmless(const struct rw_inline *n, uint32_t k)
{
    const struct ptx_inst *i = &n->body[n->host]->f->inst[k];
    for (unsigned q = 0; q < n->nstaged; q++)
        if (n->staged[q].inst == k)
            return true;
    if (i->op == PTX_OP_LD)
        return i->space == PTX_PARAM || i->space == PTX_CONST;
    return i->op != PTX_OP_ST && i->op != PTX_OP_CP_ASYNC_BULK_TENSOR && leaves_shared(i);
}

/* Where block b leads to, if it does nothing but go there. */
static uint32_t leads_on(const struct ptx_function *f, const struct ptx_cfg *cfg, uint32_t b)
{
    for (unsigned far = 0; far < MOST_BLOCKS && cfg->block[b].nsucc == 1; far++) {
        uint32_t k = cfg->block[b].first;
        while (k <= cfg->block[b].last && (is_note(&f->inst[k]) || f->inst[k].op == PTX_OP_BRA))
            k++;
        if (k <= cfg->block[b].last)
            break;
        b = cfg->block[b].succ[0];
    }
    return b;
}

static void check_ways(const struct rw_inline *n, const struct ptx_cfg *cfg, const struct ptx_live *live,
                       const struct rw_staged *s, struct rw_refusals *no)
{
    const struct ptx_function *f = n->body[n->host]->f;
    uint32_t meet = UINT32_MAX, block = cfg->block_of[s->inst], bad = UINT32_MAX, far = UINT32_MAX, taken, other;
    unsigned ways = s->nway;
    while (ways && !s->way[ways - 1].out) /* what comes before the first that is left out, all threads came through */
        ways--;
    for (unsigned q = ways; q--;) { /* from the first to the last before the copy */
        uint32_t at = s->way[q].inst;
        if (!sides(f, cfg, cfg->block_of[at], &taken, &other))
            return;
        uint32_t away = leads_on(f, cfg, s->way[q].taken ? other : taken);
        if ((meet != UINT32_MAX && meet != away) || rewritten(f, cfg, s, at, f->inst[at].pred))
            bad = at;
        meet = away;
        if (far == UINT32_MAX)
            far = at;
    }
    if (meet == UINT32_MAX)
        return;
    if (cfg->block[block].nsucc != 1 || leads_on(f, cfg, cfg->block[block].succ[0]) != meet)
        bad = cfg->block[block].last;
    struct lives l = {live, meet, false};
    for (uint32_t k = cfg->block[block].last; k != far && bad == UINT32_MAX;) {
        bool way = false;
        for (unsigned q = 0; q < s->nway; q++)
            way |= s->way[q].inst == k;
        if (!is_note(&f->inst[k]))
            ptx_inst_regs(&f->inst[k], on_live, &l);
        if (l.some || (!way && !harmless(n, k)))
            bad = k;
        uint32_t b = cfg->block_of[k];
        k = k == cfg->block[b].first ? cfg->block[cfg->block[b].pred[0]].last : k - 1;
    }
    if (bad != UINT32_MAX)
        rw_no(no, RW_NO_staged_box,
              "beside a copy from shared memory, one thread of " DT_LAUNCH
              " does what not all threads may (PTX line %u)",
              n->name[n->host], f->inst[bad].line);
}

int rw_staged_check_ways(const struct rw_inline *n, const struct ptx_cfg *cfg, struct rw_refusals *no, struct dt_err *e)
{
    struct ptx_live live;
    int r = ptx_live_build(n->body[n->host]->f, cfg, &live, e);
    if (r < 0)
        return r;
    for (unsigned k = 0; k < n->nstaged; k++)
        check_ways(n, cfg, &live, &n->staged[k], no);
    ptx_live_done(&live);
    return 0;
}

const struct rw_staged_way *rw_staged_way_out(const struct rw_inline *n, uint32_t inst)
{
    for (unsigned k = 0; k < n->nstaged; k++)
        for (unsigned q = 0; q < n->staged[k].nway; q++)
            if (n->staged[k].way[q].inst == inst && n->staged[k].way[q].out)
                return &n->staged[k].way[q];
    return NULL;
}
