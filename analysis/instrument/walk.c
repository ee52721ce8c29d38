/* Loops of a slice whose addresses move by a constant: the recording bit moves along.
 *
 *     L: ld.global.f32 %f, [%a]; add.s64 %a, %a, 128; …; @%p bra L;
 *
 * The address moves by 128 bytes a round, so the bit of the bitmap moves by 128 bytes' worth of bits: it need not be
 * found anew. That is done in a loop of one block, entered only by falling into it, for unpredicated accesses whose
 * address register does not move, or is moved once a round by a 64-bit add of an immediate to itself (narrower
 * arithmetic might wrap). Before the loop the first bit is found as usual, and for how many rounds the access stays
 * inside its buffer. One counter for each loop, the least of these numbers, guards all accesses of the loop. When it is
 * used up, or was 0 from the start (another buffer, misaligned, bitmaps that are not whole), every such access of the
 * round is recorded from its address, by the table. Accesses that do not move are recorded once, before the loop.
 *
 * All are recorded at the begin of the round.
 */
#include "analysis/instrument/instrument-priv.h"

#include <stdlib.h>

#define MOST (1u << 30) /* rounds */

struct find {
    uint32_t reg, n, at, here;
};

static void find_def(uint32_t r, bool write, void *user)
{
    struct find *f = user;
    if (write && r == f->reg) {
        f->n++;
        f->at = f->here;
    }
}

static bool is_loop(const struct ana_instr *s, uint32_t b)
{
    const struct ptx_block *k = &s->t->cfg.block[b];
    bool self = false;
    if (!k->reachable || k->npred != 2 || !k->first || s->slice.cut[k->last])
        return false;
    for (uint32_t i = 0; i < k->nsucc; i++)
        self |= k->succ[i] == b;
    uint32_t p = k->pred[0] == b ? k->pred[1] : k->pred[0];
    unsigned flags = ptx_op_info(s->old[k->first - 1].op)->flags;
    return self && p != b && s->t->cfg.block[p].last + 1 == k->first &&
           !(flags & (PTX_F_BRANCH | PTX_F_TERMINATOR | PTX_F_CALL));
}

static bool can_walk(const struct ana_instr *s, uint32_t k, uint32_t b, struct ana_walk *ret)
{
    const struct ana_site *x = &s->code->sites.site[k];
    const struct ptx_inst *i = &s->old[x->inst];
    const struct ptx_opnd *o = &i->opnd[x->opnd];
    const struct ptx_block *l = &s->t->cfg.block[b];
    struct find f = {.reg = o->reg};
    if (ana_group_of(s, k) >= s->ngroup || i->pred != PTX_NO_REG || i->op == PTX_OP_CP_ASYNC || o->kind != PTX_O_ADDR ||
        o->base_kind != PTX_O_REG)
        return false;
    for (f.here = l->first; f.here <= l->last; f.here++)
        ptx_inst_regs(&s->old[f.here], find_def, &f);
    if (!f.n) {
        *ret = (struct ana_walk){.loop = b + 1, .off = o->off};
        return true;
    }
    const struct ptx_inst *d = &s->old[f.at];
    if (f.n != 1 || d->op != PTX_OP_ADD || d->pred != PTX_NO_REG || d->nmod || d->ntype != 1 ||
        ptx_type_is_float(d->type[0]) || ptx_type_bytes(d->type[0]) != 8 || d->opnd[1].kind != PTX_O_REG ||
        d->opnd[1].reg != o->reg || d->opnd[1].neg || d->opnd[2].kind != PTX_O_IMM || d->opnd[2].neg)
        return false;
    int64_t step = (int64_t)d->opnd[2].bits;
    if (!step || step <= INT32_MIN || step > INT32_MAX || step % (int64_t)x->bytes)
        return false;
    *ret = (struct ana_walk){.loop = b + 1, .off = o->off + (f.at < x->inst ? step : 0), .step = step};
    return true;
}

int ana_walk_plan(struct ana_instr *s)
{
    const struct ana_sites *v = &s->code->sites;
    s->walk = dt_new_array(&s->code->arena, struct ana_walk, (size_t)v->nsite + 1);
    s->loop = dt_new_array(&s->code->arena, uint32_t, (size_t)s->t->cfg.nblock + 1);
    if (!s->walk || !s->loop)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < v->nsite && s->slice.keep; k++) {
        uint32_t b = s->t->cfg.block_of[v->site[k].inst];
        if (is_loop(s, b) && can_walk(s, k, b, &s->walk[k]))
            s->loop[b]++;
    }
    return 0;
}

/* Site k's first bit, and how long it may walk. */
static int walk_begin(struct ana_instr *s, uint32_t k)
{
    const struct ana_code *c = s->code;
    const struct ana_site *x = &c->sites.site[k];
    const struct ana_walk *w = &s->walk[k];
    uint32_t g = ana_group_of(s, k), b = w->loop - 1;
    uint64_t mask = (UINT64_C(1) << (x->bytes >> c->shift)) - 1;
    EMIT(s,
         "add.s64 %%ana_a, %s, %lld; sub.s64 %%ana_o, %%ana_a, %%ana_gb%u; setp.ge.u64 %%ana_p, %%ana_o, %%ana_gl%u;"
         "and.b64 %%ana_w, %%ana_a, %u; setp.ne.or.u64 %%ana_p, %%ana_w, 0, %%ana_p; @%%ana_p mov.u32 %%ana_v%u, 0;",
         s->f->reg[s->old[x->inst].opnd[x->opnd].reg].name, (long long)w->off, g, g, x->bytes - 1, b);
    if (w->step > 0)
        EMIT(s, "sub.s64 %%ana_w, %%ana_gl%u, %%ana_o; sub.s64 %%ana_w, %%ana_w, 1; div.u64 %%ana_w, %%ana_w, %lld;", g,
             (long long)w->step);
    else if (w->step)
        EMIT(s, "div.u64 %%ana_w, %%ana_o, %lld;", (long long)-w->step);
    if (w->step)
        EMIT(s,
             "min.u64 %%ana_w, %%ana_w, %u; cvt.u32.u64 %%ana_k, %%ana_w; add.s32 %%ana_k, %%ana_k, 1;"
             "min.u32 %%ana_v%u, %%ana_v%u, %%ana_k;",
             MOST - 1, b, b);
    EMIT(s,
         "sub.s64 %%ana_o, %%ana_a, %%ana_gk%u; shr.u64 %%ana_o, %%ana_o, %u; cvt.u32.u64 %%ana_k, %%ana_o;"
         "shf.l.wrap.b32 %%ana_m, 0, %u, %%ana_k;",
         g, c->shift, (unsigned)(uint32_t)mask);
    bool words = !((w->step >> c->shift) % 32);
    if (w->step && !words)
        EMIT(s, ".reg .b32 %%ana_q%u; mov.u32 %%ana_q%u, %%ana_k;", k, k);
    else
        EMIT(s, "shr.u32 %%ana_k, %%ana_k, 5;");
    if (w->step && words)
        EMIT(s, ".reg .b32 %%ana_z%u; mov.u32 %%ana_z%u, %%ana_m;", k, k);
    for (unsigned q = 0; q < ANA_KINDS && words; q++) {
        int plane = c->plane[q][ana_evidence_of(s, k, q)];
        if (!(c->kinds[k] >> q & 1))
            continue;
        if (w->step)
            EMIT(s, ".reg .b64 %%ana_q%u_%u; mad.wide.u32 %%ana_q%u_%u, %%ana_k, 4, %%ana_r%d;", k, q, k, q, plane);
        else
            EMIT(s, "mad.wide.u32 %%ana_w, %%ana_k, 4, %%ana_r%d; @!%%ana_p red.global.or.b32 [%%ana_w], %%ana_m;",
                 plane);
    }
    return 0;
}

static int walk_on(struct ana_instr *s, uint32_t k)
{
    const struct ana_code *c = s->code;
    const struct ana_walk *w = &s->walk[k];
    int64_t granules = w->step / (1 << c->shift);
    uint64_t mask = (UINT64_C(1) << (c->sites.site[k].bytes >> c->shift)) - 1;
    if (!w->step)
        return 0;
    if (granules % 32)
        EMIT(s,
             "shf.l.wrap.b32 %%ana_m, 0, %u, %%ana_q%u; shr.u32 %%ana_k, %%ana_q%u, 5; add.s32 %%ana_q%u, %%ana_q%u, "
             "%lld;",
             (unsigned)(uint32_t)mask, k, k, k, k, (long long)granules);
    for (unsigned q = 0; q < ANA_KINDS; q++) {
        if (!(c->kinds[k] >> q & 1))
            continue;
        if (granules % 32)
            EMIT(s, "mad.wide.u32 %%ana_w, %%ana_k, 4, %%ana_r%d; red.global.or.b32 [%%ana_w], %%ana_m;",
                 c->plane[q][ana_evidence_of(s, k, q)]);
        else
            EMIT(s, "red.global.or.b32 [%%ana_q%u_%u], %%ana_z%u; add.s64 %%ana_q%u_%u, %%ana_q%u_%u, %lld;", k, q, k,
                 k, q, k, q, (long long)(granules / 32 * 4));
    }
    return 0;
}

int ana_walk_emit(struct ana_instr *s, uint32_t at)
{
    uint32_t b = s->t->cfg.block_of[at], first = s->t->cfg.block[b].first;
    int rc = 0;
    if (!s->loop[b])
        return 0;
    if (at == first)
        EMIT(s, ".reg .b32 %%ana_v%u; mov.u32 %%ana_v%u, %u;", b, b, MOST);
    for (uint32_t k = 0; k < s->code->sites.nsite && at == first && !rc; k++)
        if (s->walk[k].loop == b + 1)
            rc = walk_begin(s, k);
    while (s->old[first].op < PTX_OP_OPAQUE && first < s->t->cfg.block[b].last)
        first++;
    if (rc || at != first)
        return rc;
    EMIT(s, "setp.eq.s32 %%ana_p, %%ana_v%u, 0; @%%ana_p bra $ana_y%u; add.s32 %%ana_v%u, %%ana_v%u, -1;", b, b, b, b);
    for (uint32_t k = 0; k < s->code->sites.nsite && !rc; k++)
        if (s->walk[k].loop == b + 1)
            rc = walk_on(s, k);
    if (!rc)
        EMIT(s, "$ana_t%u:", b);
    return rc;
}

int ana_walk_slow(struct ana_instr *s)
{
    int rc = 0;
    for (uint32_t b = 0; b < s->t->cfg.nblock && !rc; b++) {
        if (!s->loop[b])
            continue;
        EMIT(s, "$ana_y%u:", b);
        for (uint32_t k = 0; k < s->code->sites.nsite && !rc; k++) {
            const struct ana_site *x = &s->code->sites.site[k];
            uint32_t skip = s->label;
            if (s->walk[k].loop != b + 1)
                continue;
            s->label++;
            EMIT(s, "add.s64 %%ana_a, %s, %lld;", s->f->reg[s->old[x->inst].opnd[x->opnd].reg].name,
                 (long long)s->walk[k].off);
            rc = ana_record_slow(s, k, ANA_EXACT, skip);
            if (!rc)
                EMIT(s, "$ana_s%u:", skip);
        }
        if (!rc)
            EMIT(s, "bra $ana_t%u;", b);
    }
    return rc;
}
