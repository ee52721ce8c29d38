/* One site: the guest's text in the place of a load or store of the host, once for each element that it moves.
 *
 *   o = offset(%rd9) + 64      of the element in the buffer, in bytes, less the origin; or its place (places.c)
 *   t, b = digits of o         the guest's thread, block, slot and round, largest step first
 *   the group of the slot      where slots have several texts: a branch to its own
 *   GUEST                      emit/copy.c, by the rules of guest.c
 *   the host's load            of elements that no thread of the guest has (`partial`)
 *
 * Not here: that the digits are the thread's, which map.c proves.
 */
#include "rewrite/inline/site.h"

#include <stdio.h>

/* Emit an exit from the guest's text where the condition holds: the guest does not have the element. */
static int emit_leave(struct rw_site *s, const char *what, uint32_t limit)
{
    int r = rw_emit(s->j, "setp.ge.u32 %s, %s, %u;", rw_rname(s->j, s->none), what, limit);
    return r < 0 ? r : rw_emit_bra(s->j, s->p.end, s->none, false);
}

/* Emit: s->tmp = s->rem / step; s->rem %= step. */
static int emit_divide(struct rw_site *s, const char *Q, const char *TMP, uint32_t step)
{
    const char *REM = rw_rname(s->j, s->rem);
    if (step & (step - 1))
        return rw_emit(s->j, "div.u32 %s, %s, %u; mul.lo.u32 %s, %s, %u; sub.u32 %s, %s, %s;", Q, REM, step, TMP, Q,
                       step, REM, REM, TMP);
    return rw_emit(s->j, "shr.u32 %s, %s, %d; and.b32 %s, %s, %u;", Q, REM, __builtin_ctz(step), REM, REM, step - 1);
}

/* s->rem, an offset from the first place's: the place instead, less the origin of places. */
static int emit_place(struct rw_site *s)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    const struct rw_places *p = n->places;
    const char *REM = rw_rname(j, s->rem), *TMP = rw_rname(j, s->tmp), *Q = rw_rname(j, s->number),
               *SUM = rw_rname(j, s->place);
    int r = rw_emit(j, "mov.u32 %s, %u;", SUM, (uint32_t)-n->origin);
    for (unsigned k = 0; k < p->n && r == 0; k++) {
        r = emit_divide(s, Q, TMP, p->digit[k].step);
        if (r == 0 && n->partial)
            r = emit_leave(s, Q, p->digit[k].n);
        if (r == 0)
            r = rw_emit(j, "mad.lo.u32 %s, %s, %u, %s;", SUM, Q, (uint32_t)p->digit[k].weight, SUM);
    }
    if (r == 0 && n->partial)
        r = emit_leave(s, REM, p->item);
    return r < 0 ? r : rw_emit(j, "add.u32 %s, %s, %s;", REM, REM, SUM);
}

/* Emit the digits of the offset in s->rem into registers, one by one. */
static int emit_digits(struct rw_site *s)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    const char *REM = rw_rname(j, s->rem), *TMP = rw_rname(j, s->tmp);
    int r = s->slot != PTX_NO_REG ? rw_emit(j, "mov.u32 %s, 0;", rw_rname(j, s->slot)) : 0;
    for (unsigned k = 0; k < n->ndigit && r == 0; k++) {
        const struct rw_digit *d = &n->digit[k];
        uint32_t reg = d->of == RW_CTAID   ? s->p.ctaid[d->comp]
                       : d->of == RW_TID   ? s->p.tid[d->comp]
                       : d->of == RW_ROUND ? s->round
                                           : s->digit[k];
        uint32_t step = (uint32_t)d->step;
        bool pow2 = (step & (step - 1)) == 0, last = k + 1 == n->ndigit && !n->partial;
        const char *Q = reg == PTX_NO_REG ? TMP : rw_rname(j, reg);
        if (reg != PTX_NO_REG || (!pow2 && !last) || n->partial)
            r = pow2 ? rw_emit(j, "shr.u32 %s, %s, %d;", Q, REM, __builtin_ctz(step))
                     : rw_emit(j, "div.u32 %s, %s, %u;", Q, REM, step);
        if (r == 0 && n->partial)
            r = emit_leave(s, Q, d->n);
        if (r == 0 && d->of == RW_SLOT && s->slot != PTX_NO_REG)
            r = rw_emit(j, "mad.lo.u32 %s, %s, %u, %s;", rw_rname(j, s->slot), Q, d->weight, rw_rname(j, s->slot));
        if (r == 0 && !last)
            r = pow2 ? rw_emit(j, "and.b32 %s, %s, %u;", REM, REM, step - 1)
                     : rw_emit(j, "mul.lo.u32 %s, %s, %u; sub.u32 %s, %s, %s;", TMP, Q, step, REM, REM, TMP);
        if (r == 0 && d->down && reg != PTX_NO_REG)
            r = rw_emit(j, "sub.u32 %s, %u, %s;", Q, d->n - 1, Q);
    }
    return r == 0 && n->partial ? emit_leave(s, REM, 1) : r;
}

uint32_t rw_site_shadow(struct rw_site *s, uint32_t reg)
{
    if (s->shadow[reg] == PTX_NO_REG)
        s->shadow[reg] = rw_site_reg(s->j, PTX_B64, "dt_o");
    return s->shadow[reg];
}

/* s->rem = byte offset of component `comp` of what the host's instruction (a copy of it, its registers its own)
 * touches, less the origin. */
static int emit_offset(struct rw_site *s, const struct ptx_opnd *a, unsigned comp)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    uint32_t from = n->drop_arg || n->nstaged ? a->reg : rw_site_shadow(s, a->reg);
    const char *REM = rw_rname(j, s->rem);
    int64_t add = a->off + (int64_t)comp * n->elem - (n->places ? n->places->origin : n->origin);
    if (from == PTX_NO_REG)
        return DT_E_NOMEM;
    int r = rw_emit(j, n->nstaged ? "mov.u32 %s, %s;" : "cvt.u32.u64 %s, %s;", REM, rw_rname(j, from));
    if (r == 0 && (int32_t)(uint32_t)add)
        r = rw_emit(j, "add.s32 %s, %s, %lld;", REM, REM, (long long)(int32_t)(uint32_t)add);
    return r == 0 && n->places ? emit_place(s) : r;
}

/* Emit the text of one group of slots. */
static int emit_group(struct rw_site *s, unsigned k)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    const struct ptx_function *g = n->body[n->guest]->f;
    for (uint32_t q = 0; q < g->nlabel; q++)
        if ((s->p.label[q] = ptx_label_new(j->f, "G")) == UINT32_MAX)
            return rw_site_nomem(j);
    s->of = n->slice ? n->group[k].slot : 0;
    s->p.mask = n->slice ? n->slice[s->of] : NULL;
    s->group = n->slice ? &n->group[k] : NULL;
    return rw_copy_body(j, &s->p);
}

/* Emit a branch to `label` for slots that are not in the group. */
static int emit_other(struct rw_site *s, const struct rw_group *g, uint32_t label)
{
    struct rw_join *j = s->j;
    const char *BIT = rw_rname(j, s->bit), *ONE = rw_rname(j, s->one), *SLOT = rw_rname(j, s->slot);
    int r;
    if (g->members & (g->members - 1))
        r = rw_emit(j, "mov.u64 %s, %llu; shr.u64 %s, %s, %s; and.b64 %s, %s, 1; setp.eq.u64 %s, %s, 0;", BIT,
                    (unsigned long long)g->members, BIT, BIT, SLOT, BIT, BIT, ONE, BIT);
    else
        r = rw_emit(j, "setp.ne.u32 %s, %s, %u;", ONE, SLOT, g->slot);
    return r < 0 ? r : rw_emit_bra(j, label, s->one, false);
}

/* Elements that are not the guest's: the host's load, of the components of this instance. */
static int emit_load(struct rw_site *s, const struct ptx_inst *i, unsigned first)
{
    static const enum ptx_mod vec[] = {PTX_M_V2, PTX_M_V4, PTX_M_V8};
    struct rw_join *j = s->j;
    unsigned unit = s->n->unit;
    struct ptx_opnd two[2] = {i->opnd[0], i->opnd[1]}, elem[8];
    struct ptx_inst x = *i;
    x.opnd = two;
    x.nopnd = 2;
    x.pred = PTX_NO_REG; /* the branch around all of it has that */
    x.vec = (uint8_t)unit;
    rw_drop_hints(&x);
    for (unsigned k = 0; k < 3; k++) {
        ptx_clear_mod(&x, vec[k]);
        if (unit == 2u << k)
            ptx_set_mod(&x, vec[k]);
    }
    for (unsigned k = 0; k < unit; k++)
        elem[k] = s->value[k];
    two[0] = elem[0];
    if (unit > 1)
        two[0] = (struct ptx_opnd){.kind = PTX_O_VEC, .comp = -1, .n = (uint8_t)unit, .elem = elem};
    two[1].off += (int64_t)first * s->n->elem;
    return ptx_append(j->f, x) ? 0 : rw_site_nomem(j);
}

/* The guest for elements first … first + n->unit of the host's instruction. */
int rw_site_unit(struct rw_site *s, const struct ptx_inst *i, unsigned first)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    bool load = i->op == PTX_OP_LD;
    uint32_t start = j->f->ninst;
    unsigned groups = n->slice ? n->ngroup : 1;
    if ((s->p.end = ptx_label_new(j->f, "GEND")) == UINT32_MAX)
        return rw_site_nomem(j);
    bool others = load && n->partial;
    if (others && (s->done = ptx_label_new(j->f, "GDONE")) == UINT32_MAX)
        return rw_site_nomem(j);
    int r = emit_offset(s, &i->opnd[load ? 1 : 0], first);
    if (r < 0 || (r = emit_digits(s)) < 0)
        return r;
    for (unsigned k = 0; k < n->unit; k++)
        s->value[k] = load ? (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = s->out[first + k]}
                           : rw_site_part(&i->opnd[1], first + k);
    s->value_type = i->type[0];
    for (unsigned k = 0; k < groups && r == 0; k++) {
        uint32_t next = k + 1 < groups ? ptx_label_new(j->f, "GNEXT") : PTX_NO_REG;
        if (next != PTX_NO_REG && (r = emit_other(s, &n->group[k], next)) < 0)
            return r;
        if ((r = emit_group(s, k)) < 0)
            return r;
        if (next != PTX_NO_REG && (r = rw_emit_bra(j, s->p.end, PTX_NO_REG, false)) == 0)
            r = rw_emit_label(j, next);
    }
    if (r == 0 && !load && i->pred == PTX_NO_REG)
        r = rw_later_take(j, &s->later, start);
    if (r < 0 || (r = rw_emit_label(j, s->p.end)) < 0 || !others)
        return r;
    return (r = emit_load(s, i, first)) < 0 ? r : rw_emit_label(j, s->done);
}

int rw_site_emit(struct rw_site *s, const struct ptx_inst *i)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    bool load = i->op == PTX_OP_LD;
    unsigned comps = i->vec ? i->vec : 1;
    uint32_t skip = PTX_NO_REG;
    int r = 0;
    if (!load && n->keep_store && !ptx_append(j->f, *i))
        return rw_site_nomem(j);
    if (i->pred != PTX_NO_REG) {
        if ((skip = ptx_label_new(j->f, "GSKIP")) == UINT32_MAX)
            return rw_site_nomem(j);
        if ((r = rw_emit_bra(j, skip, i->pred, !i->pred_neg)) < 0)
            return r;
    }
    for (unsigned k = 0; k < comps && load; k++)
        if ((s->out[k] = rw_site_reg(j,
                                     n->elem == 8   ? PTX_B64
                                     : n->elem == 4 ? PTX_B32
                                                    : PTX_B16,
                                     "dt_o")) == PTX_NO_REG)
            return DT_E_NOMEM;
    for (unsigned k = 0; k < comps && r == 0; k += n->unit)
        r = rw_site_unit(s, i, k);
    for (unsigned k = 0; k < comps && load && r == 0; k++) {
        struct ptx_opnd to = rw_site_part(&i->opnd[0], k), from = {.kind = PTX_O_REG, .comp = -1, .reg = s->out[k]};
        if (to.kind != PTX_O_SINK)
            r = rw_site_move(j, n->elem, to, from, i->type[0], PTX_NO_REG, false);
    }
    return r == 0 && skip != PTX_NO_REG ? rw_emit_label(j, skip) : r;
}
