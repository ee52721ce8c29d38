/* What becomes of the guest's instructions where it is inlined (struct rw_guest, which emit/copy.c asks).
 *
 *   an access that the element passes through   a move from or to the value, hidden (cross.c)
 *   a constant that differs from slot to slot   its value, computed from the slot's digits
 *   a branch to the loop's next round           nothing: the element is of one round
 *   the label of the loop's header              what each round adds to a register (an induction), times the round
 *
 * Not here: which instructions an element needs (slice.c, merge.c), and what is done round them (instance.c).
 */
#include "rewrite/inline/site.h"

static bool is_joint(void *site, const struct ptx_inst *posted)
{
    const struct rw_site *s = site;
    (void)posted;
    return s->n->joins[s->p.side][s->p.at];
}

static int copy_joint(void *site, const struct ptx_inst *i)
{
    struct rw_site *s = site;
    const struct rw_inline *n = s->n;
    const struct rw_joint *q = n->joint;
    unsigned u = 0;
    int r = 0;
    while (q < n->joint + n->njoint && q->inst != s->p.at)
        q++;
    if (q == n->joint + n->njoint) /* no thread gets here */
        return 0;
    while (u < q->comps / n->unit && q->slot[u] != s->of)
        u++;
    for (unsigned k = 0; k < n->unit && u < q->comps / n->unit && r == 0; k++) {
        if (n->host == 0) {
            struct ptx_opnd to = rw_site_part(&i->opnd[0], u * n->unit + k);
            if (to.kind != PTX_O_SINK)
                r = rw_site_cross(s, to, s->value[k], s->value_type, i->pred, i->pred_neg);
        } else {
            r = rw_site_cross(s, s->value[k], rw_site_part(&i->opnd[1], u * n->unit + k), i->type[0], i->pred,
                              i->pred_neg);
        }
    }
    if (r == 0 && n->host == 1 && n->partial && u < q->comps / n->unit) /* it was the guest's */
        r = rw_emit_bra(s->j, s->done, i->pred, i->pred_neg);
    return r;
}

static int copy_constants(void *site, struct ptx_inst *i)
{
    struct rw_site *s = site;
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    const struct rw_group *group = s->group;
    for (const struct rw_param *q = group ? group->param : NULL; group && q < group->param + group->nparam; q++) {
        struct ptx_opnd *o = &i->opnd[q->opnd];
        bool address = o->kind == PTX_O_ADDR, wide = address || ptx_type_bytes(i->type[0]) == 8;
        if (q->inst != s->p.at)
            continue;
        uint32_t x = rw_site_reg(j, wide ? PTX_B64 : PTX_B32, "dt_v"), last = address ? o->reg : PTX_NO_REG;
        if (x == PTX_NO_REG)
            return DT_E_NOMEM;
        for (unsigned d = 0; d < n->ndigit; d++) {
            if (!q->by[d])
                continue;
            const char *D = rw_rname(j, s->digit[d]), *X = rw_rname(j, x), *op = wide ? "mad.wide.s32" : "mad.lo.s32";
            int r = last == PTX_NO_REG ? rw_emit(j, "%s %s, %s, %d, %lld;", op, X, D, (int)q->by[d],
                                                 (long long)(wide ? q->base : (int32_t)q->base))
                                       : rw_emit(j, "%s %s, %s, %d, %s;", op, X, D, (int)q->by[d], rw_rname(j, last));
            if (r < 0)
                return r;
            last = x;
        }
        o->reg = x;
        if (address)
            o->off = q->base;
        else
            *o = (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = x};
    }
    return 0;
}

static bool is_again(void *site)
{
    const struct rw_site *s = site;
    return s->p.mask && s->n->again[s->p.at];
}

static int copy_label(void *site)
{
    struct rw_site *s = site;
    struct rw_join *j = s->j;
    const struct rw_phase *p = &s->p;
    const struct rw_inline *n = s->n;
    const struct ptx_function *f = n->body[p->side]->f;
    uint32_t k = n->loop ? n->loop - 1 : UINT32_MAX;
    while (k < f->ninst && k < p->at && f->inst[k].op == PTX_OP_LABEL)
        k++;
    /* not its last label */
    if (k != p->at || s->round == PTX_NO_REG || (k + 1 < f->ninst && f->inst[k + 1].op == PTX_OP_LABEL))
        return 0;
    for (const struct rw_induction *q = n->induction; q < n->induction + n->ninduction; q++) {
        const struct ptx_opnd *by = &f->inst[q->add].opnd[2];
        const char *R = rw_rname(j, p->reg[q->reg]), *ROUND = rw_rname(j, s->round);
        bool wide = ptx_type_bytes(f->reg[q->reg].type) == 8;
        uint32_t t = wide ? rw_site_reg(j, PTX_B64, "dt_r") : PTX_NO_REG;
        int r = 0;
        if (!p->mask[q->add])
            continue;
        if (wide && t == PTX_NO_REG)
            return DT_E_NOMEM;
        if (wide && (r = rw_emit(j, "cvt.u64.u32 %s, %s;", rw_rname(j, t), ROUND)) < 0)
            return r;
        if (by->kind == PTX_O_IMM)
            r = rw_emit(j, "mad.lo.s%d %s, %s, %lld, %s;", wide ? 64 : 32, R, wide ? rw_rname(j, t) : ROUND,
                        (long long)(wide ? (int64_t)by->bits : (int32_t)by->bits), R);
        else
            r = rw_emit(j, "mad.lo.s%d %s, %s, %s, %s;", wide ? 64 : 32, R, wide ? rw_rname(j, t) : ROUND,
                        rw_rname(j, p->reg[by->reg]), R);
        if (r < 0)
            return r;
    }
    return 0;
}

const struct rw_guest rw_site_guest = {
    .is_joint = is_joint,
    .joint = copy_joint,
    .constants = copy_constants,
    .is_again = is_again,
    .label = copy_label,
};
