/* Block fusion at level `register`: a pointwise kernel inlined into its neighbour, at the instruction that its element
 * passes through.
 *
 *   epilogue: the guest consumes                     prologue: the guest produces
 *   before  st.global.f32 [%rd9+64], %f7;            before  ld.global.f32 %f7, [%rd9+64];
 *   after   [the same store, where others read it]   after   o = offset(%rd9) + 64           in the buffer, in bytes
 *           o = offset(%rd9) + 64                            t, b = digits of o              the guest's thread, block
 *           t, b = digits of o                               GUEST: st [..], v -> out = v ^ zero
 *           GUEST: ld v, [..] -> v = %f7 ^ zero              mov %f7, out;
 *
 * The host is the fused launch: its text, geometry, barriers, shared memory and clusters stay. The guest may have other
 * tile shapes. Its text stands once for each element that the host's instruction moves, each time with its own thread
 * numbers; its guards are evaluated there again. map.c proves that the digits are the thread's.
 *
 * `zero` is a parameter of this joint that is 0 whenever the kernel runs. Where the posted kernels had a store and a
 * load, ptxas would now combine what meets (division and add, two negations, min and max …). It combines nothing across
 * an `xor` with a value that it does not know. Each joint has a parameter of its own, found again by its name
 * (rw_is_zero_word), since two `xor` with one word cancel. A store that goes away was a use of its value: the `xor`
 * takes its place as a use.
 *
 * Legal when the ALSO and INLINE rows of legal.def hold. What could break it: an element that is stored twice (the
 * first value would be passed on); threads without an element (they would be lost); bytes that one side writes and the
 * other touches (the guest now runs while the host's other blocks do); arithmetic that ptxas makes otherwise (within a
 * body device/identity.c prevents it, at the joint the zero word). Not seen: a guest that does not use the value, so
 * that the host's other use of it becomes the only one.
 */
#include "rewrite/inline/inline-priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define MOST 65536 /* instructions of a fused entry */

const struct dt_launch *rw_inline_host(const struct rw_cand *c)
{
    return c->level <= RW_LEVEL_PROLOGUE && c->in ? c->facts.body[c->in->host].step->launch : NULL;
}

static int inline_nomem(struct rw_join *j) { return dt_err_set(j->e, DT_E_NOMEM, "out of memory"); }

static uint32_t new_reg(struct rw_join *j, enum ptx_type t, const char *hint)
{
    uint32_t r = ptx_reg_new(j->f, t, hint);
    if (r == PTX_NO_REG)
        inline_nomem(j);
    return r;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static bool inline_dropped(const struct rw_inline *n, int side, uint32_t arg)
{
    return n->drop_arg && arg < 62 && ((n->args[side] >> arg) & 1);
}

/* The zero word of this joint, the last parameter: rw_fuse_part gives it its argument. */
static int make_zero(struct rw_join *j)
{
    static const struct ptx_var like = {.name = RW_ZERO_WORD, .type = PTX_U32, .bytes = 4, .align = 4};
    j->zero = rw_new_param(j, &like);
    j->c->made.zero_word = true;
    return j->zero ? 0 : inline_nomem(j);
}

/* The guest's parameters: those of the host with the same argument, or new ones. c->made.arg_keep and c->made.arg_same
 * say so to the launch. */
static int make_params(struct rw_join *j, const struct rw_inline *n)
{
    struct rw_cand *c = j->c;
    int host = n->host, guest = n->guest;
    const struct ptx_function *g = n->body[guest]->f;
    const struct dt_launch *hl = n->body[host]->step->launch, *gl = n->body[guest]->step->launch;
    uint32_t nhost = j->f->nparam, count = 0;
    struct ptx_var **own = dt_new_array(&c->arena, struct ptx_var *, nhost + 1);
    for (int s = 0; s < 2; s++) {
        c->made.arg_keep[s] = ~UINT64_C(0);
        if (!(c->made.arg_same[s] = dt_new_array(&c->arena, bool, n->body[s]->f->nparam + 1)))
            return inline_nomem(j);
    }
    if (!own)
        return inline_nomem(j);
    memcpy(own, j->f->param, nhost * sizeof *own);
    for (uint32_t i = 0; i < g->nparam; i++) {
        const struct ptx_var *v = g->param[i];
        struct ptx_var *to = NULL;
        if (inline_dropped(n, guest, i)) {
            c->made.arg_keep[guest] &= ~(UINT64_C(1) << i);
            continue;
        }
        for (uint32_t k = 0; k < nhost && k < hl->narg && i < gl->narg && !to; k++)
            if (!rw_is_zero_word(v) && !rw_is_zero_word(own[k]) && !inline_dropped(n, host, k) &&
                own[k]->bytes == v->bytes && own[k]->align == v->align && own[k]->is_array == v->is_array &&
                rw_same_arg(&hl->arg[k], &gl->arg[i]))
                to = own[k];
        c->made.arg_same[guest][i] = to != NULL;
        if (!to && !(to = rw_new_param(j, v)))
            return inline_nomem(j);
        if (!dt_push(&j->vars, (struct rw_var_pair){v, to, 0, guest}))
            return inline_nomem(j);
    }
    /* the producer's come first; the host's own list ends at nhost */
    struct ptx_var **list = dt_new_array(&j->m->arena, struct ptx_var *, j->f->nparam + 1);
    if (!list)
        return inline_nomem(j);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = pass == host ? 0 : nhost; i < (pass == host ? nhost : j->f->nparam); i++) {
            if (i < nhost && inline_dropped(n, host, i)) {
                c->made.arg_keep[host] &= ~(UINT64_C(1) << i);
                continue;
            }
            list[count++] = j->f->param[i];
        }
    j->f->param = list;
    j->f->nparam = count;
    for (uint32_t i = 0; i < count; i++)
        list[i]->index = i;
    return make_zero(j);
}

struct site { /* where the guest is put */
    struct rw_join *j;
    const struct rw_inline *n;
    struct rw_phase p;
    uint32_t rem, tmp, none;   /* scratch registers */
    uint32_t number, place;    /* the same, where there are places */
    uint32_t digit[RW_DIGITS]; /* of the slot */
    uint32_t slot, bit, one;   /* the slot; a 64-bit register, a predicate; where there are several texts */
    /* of the host's registers that point into the buffer: the same, counted from its begin */
    uint32_t *shadow;
    uint32_t out[16]; /* prologue: components */
    /* of the instance that is emitted: */
    unsigned of;                  /* the slot whose slice is the text; 0: it is all of the guest */
    const struct rw_group *group; /* and the constants of the slot; NULL: it has none */
    uint32_t round;               /* register: of the loop that the elements are in */
    struct ptx_opnd value[16];    /* what is passed on, by component */
    uint8_t value_type;           /* as the host's instruction has it */
    uint32_t zero;                /* register of an element's size: 0, and only the launch knows it */
    uint32_t done;                /* prologue of some of the elements: label behind what loads the others */
    struct rw_later later;        /* epilogue: stores that wait */
};

static int emit_move(struct rw_join *j, unsigned elem, struct ptx_opnd to, struct ptx_opnd from, uint8_t type,
                     uint32_t pred, bool neg)
{
    struct ptx_opnd two[2] = {to, from};
    struct ptx_inst i = {
        .op = PTX_OP_MOV, .nopnd = 2, .ntype = 1, .pred = pred, .pred_neg = neg, .vec = 1, .opnd = two};
    i.type[0] = (uint8_t)(elem == 8 ? PTX_B64 : elem == 4 ? PTX_B32 : PTX_B16);
    if (from.kind == PTX_O_IMM) { /* of the type that it was written for */
        uint32_t r = new_reg(j, (enum ptx_type)type, "dt_c");
        if (r == PTX_NO_REG)
            return DT_E_NOMEM;
        two[0] = (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = r};
        i.type[0] = type;
        i.pred = PTX_NO_REG;
        if (!ptx_append(j->f, i))
            return inline_nomem(j);
        return emit_move(j, elem, to, two[0], type, pred, neg);
    }
    return ptx_append(j->f, i) ? 0 : inline_nomem(j);
}

/* to = from, as a value crosses from one posted body into the other: by way of `xor` with the joint's zero word, so
 * that ptxas does not combine what made it with what it goes into. On bits: .f32 is no type of xor. */
static int emit_hidden(const struct site *s, struct ptx_opnd to, struct ptx_opnd from, uint8_t type, uint32_t pred,
                       bool neg)
{
    struct rw_join *j = s->j;
    unsigned elem = s->n->elem;
    enum ptx_type bits = elem == 8 ? PTX_B64 : elem == 4 ? PTX_B32 : PTX_B16;
    struct ptx_opnd x = {.kind = PTX_O_REG, .comp = -1, .reg = new_reg(j, bits, "dt_x")}, y = x,
                    zero = {.kind = PTX_O_REG, .comp = -1, .reg = s->zero};
    y.reg = new_reg(j, bits, "dt_x"); /* of its own: no register holds both */
    struct ptx_opnd three[3] = {y, x, zero};
    struct ptx_inst i = {.op = PTX_OP_XOR,
                         .nopnd = 3,
                         .ntype = 1,
                         .pred = pred,
                         .pred_neg = neg,
                         .vec = 1,
                         .opnd = three,
                         .type = {(uint8_t)bits}};
    if (x.reg == PTX_NO_REG || y.reg == PTX_NO_REG)
        return DT_E_NOMEM;
    int r = emit_move(j, elem, x, from, type, pred, neg);
    if (r == 0 && !ptx_append(j->f, i))
        r = inline_nomem(j);
    return r < 0 ? r : emit_move(j, elem, to, y, type, pred, neg);
}

/* The zero word in a register of an element's size. */
static int emit_zero(struct site *s)
{
    struct rw_join *j = s->j;
    unsigned elem = s->n->elem;
    uint32_t word = new_reg(j, PTX_U32, "dt_z");
    if (word == PTX_NO_REG)
        return DT_E_NOMEM;
    s->zero = elem == 4 ? word : new_reg(j, elem == 8 ? PTX_B64 : PTX_U16, "dt_z");
    if (s->zero == PTX_NO_REG)
        return DT_E_NOMEM;
    const char *W = rw_rname(j, word), *Z = rw_rname(j, s->zero);
    int r = rw_emit(j, "ld.param.u32 %s, [%s];", W, j->zero->name);
    if (r == 0 && elem != 4)
        r = elem == 8 ? rw_emit(j, "mov.b64 %s, {%s, %s};", Z, W, W) : rw_emit(j, "cvt.u16.u32 %s, %s;", Z, W);
    return r;
}

static struct ptx_opnd component(const struct ptx_opnd *o, unsigned k)
{
    return o->kind == PTX_O_VEC ? o->elem[k] : *o;
}

/* ---- what becomes of the guest's instructions (struct rw_guest) -------------------------------------------------- */

static bool is_joint(void *site, const struct ptx_inst *posted)
{
    const struct site *s = site;
    (void)posted;
    return s->n->joins[s->p.side][s->p.at];
}

static int copy_joint(void *site, const struct ptx_inst *i)
{
    struct site *s = site;
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
            struct ptx_opnd to = component(&i->opnd[0], u * n->unit + k);
            if (to.kind != PTX_O_SINK)
                r = emit_hidden(s, to, s->value[k], s->value_type, i->pred, i->pred_neg);
        } else {
            r = emit_hidden(s, s->value[k], component(&i->opnd[1], u * n->unit + k), i->type[0], i->pred, i->pred_neg);
        }
    }
    if (r == 0 && n->host == 1 && n->partial && u < q->comps / n->unit) /* it was the guest's */
        r = rw_emit_bra(s->j, s->done, i->pred, i->pred_neg);
    return r;
}

static int copy_constants(void *site, struct ptx_inst *i)
{
    struct site *s = site;
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    const struct rw_group *group = s->group;
    for (const struct rw_param *q = group ? group->param : NULL; group && q < group->param + group->nparam; q++) {
        struct ptx_opnd *o = &i->opnd[q->opnd];
        bool address = o->kind == PTX_O_ADDR, wide = address || ptx_type_bytes(i->type[0]) == 8;
        if (q->inst != s->p.at)
            continue;
        uint32_t x = new_reg(j, wide ? PTX_B64 : PTX_B32, "dt_v"), last = address ? o->reg : PTX_NO_REG;
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
    const struct site *s = site;
    return s->p.mask && s->n->again[s->p.at];
}

static int copy_label(void *site)
{
    struct site *s = site;
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
        uint32_t t = wide ? new_reg(j, PTX_B64, "dt_r") : PTX_NO_REG;
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

static const struct rw_guest guest = {
    .is_joint = is_joint,
    .joint = copy_joint,
    .constants = copy_constants,
    .is_again = is_again,
    .label = copy_label,
};

/* ---- one instance of the guest ----------------------------------------------------------------------------------- */

/* Emit an exit from the guest's text where the condition holds: the guest does not have the element. */
static int emit_leave(struct site *s, const char *what, uint32_t limit)
{
    int r = rw_emit(s->j, "setp.ge.u32 %s, %s, %u;", rw_rname(s->j, s->none), what, limit);
    return r < 0 ? r : rw_emit_bra(s->j, s->p.end, s->none, false);
}

/* Emit: s->tmp = s->rem / step; s->rem %= step. */
static int emit_divide(struct site *s, const char *Q, const char *TMP, uint32_t step)
{
    const char *REM = rw_rname(s->j, s->rem);
    if (step & (step - 1))
        return rw_emit(s->j, "div.u32 %s, %s, %u; mul.lo.u32 %s, %s, %u; sub.u32 %s, %s, %s;", Q, REM, step, TMP, Q,
                       step, REM, REM, TMP);
    return rw_emit(s->j, "shr.u32 %s, %s, %d; and.b32 %s, %s, %u;", Q, REM, __builtin_ctz(step), REM, REM, step - 1);
}

/* s->rem, an offset from the first place's: the place instead, less the origin of places. */
static int emit_place(struct site *s)
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
static int emit_digits(struct site *s)
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

/* The register that stands for the host's `reg`, counted from the buffer's begin; its definition may come later in the
 * text. */
static uint32_t shadow_of(struct site *s, uint32_t reg)
{
    if (s->shadow[reg] == PTX_NO_REG)
        s->shadow[reg] = new_reg(s->j, PTX_B64, "dt_o");
    return s->shadow[reg];
}

/* s->rem = byte offset of component `comp` of what the host's instruction (a copy of it, its registers its own)
 * touches, less the origin. */
static int emit_offset(struct site *s, const struct ptx_opnd *a, unsigned comp)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    uint32_t from = n->drop_arg ? a->reg : shadow_of(s, a->reg);
    const char *REM = rw_rname(j, s->rem);
    int64_t add = a->off + (int64_t)comp * n->elem - (n->places ? n->places->origin : n->origin);
    if (from == PTX_NO_REG)
        return DT_E_NOMEM;
    int r = rw_emit(j, "cvt.u32.u64 %s, %s;", REM, rw_rname(j, from));
    if (r == 0 && (int32_t)(uint32_t)add)
        r = rw_emit(j, "add.s32 %s, %s, %lld;", REM, REM, (long long)(int32_t)(uint32_t)add);
    return r == 0 && n->places ? emit_place(s) : r;
}

/* Emit the text of one group of slots. */
static int emit_group(struct site *s, unsigned k)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    const struct ptx_function *g = n->body[n->guest]->f;
    for (uint32_t q = 0; q < g->nlabel; q++)
        if ((s->p.label[q] = ptx_label_new(j->f, "G")) == UINT32_MAX)
            return inline_nomem(j);
    s->of = n->slice ? n->group[k].slot : 0;
    s->p.mask = n->slice ? n->slice[s->of] : NULL;
    s->group = n->slice ? &n->group[k] : NULL;
    return rw_copy_body(j, &s->p);
}

/* Emit a branch to `label` for slots that are not in the group. */
static int emit_other(struct site *s, const struct rw_group *g, uint32_t label)
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
static int emit_load(struct site *s, const struct ptx_inst *i, unsigned first)
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
    return ptx_append(j->f, x) ? 0 : inline_nomem(j);
}

/* The guest for elements first … first + n->unit of the host's instruction. */
static int emit_instance(struct site *s, const struct ptx_inst *i, unsigned first)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    bool load = i->op == PTX_OP_LD;
    uint32_t start = j->f->ninst;
    unsigned groups = n->slice ? n->ngroup : 1;
    if ((s->p.end = ptx_label_new(j->f, "GEND")) == UINT32_MAX)
        return inline_nomem(j);
    bool others = load && n->partial;
    if (others && (s->done = ptx_label_new(j->f, "GDONE")) == UINT32_MAX)
        return inline_nomem(j);
    int r = emit_offset(s, &i->opnd[load ? 1 : 0], first);
    if (r < 0 || (r = emit_digits(s)) < 0)
        return r;
    for (unsigned k = 0; k < n->unit; k++)
        s->value[k] = load ? (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = s->out[first + k]}
                           : component(&i->opnd[1], first + k);
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

/* Emit what replaces a load or store of the host that the element passes through. */
static int emit_site(struct site *s, const struct ptx_inst *i)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    bool load = i->op == PTX_OP_LD;
    unsigned comps = i->vec ? i->vec : 1;
    uint32_t skip = PTX_NO_REG;
    int r = 0;
    if (!load && n->keep_store && !ptx_append(j->f, *i))
        return inline_nomem(j);
    if (i->pred != PTX_NO_REG) {
        if ((skip = ptx_label_new(j->f, "GSKIP")) == UINT32_MAX)
            return inline_nomem(j);
        if ((r = rw_emit_bra(j, skip, i->pred, !i->pred_neg)) < 0)
            return r;
    }
    for (unsigned k = 0; k < comps && load; k++)
        if ((s->out[k] = new_reg(j, n->elem == 8 ? PTX_B64 : n->elem == 4 ? PTX_B32 : PTX_B16, "dt_o")) == PTX_NO_REG)
            return DT_E_NOMEM;
    for (unsigned k = 0; k < comps && r == 0; k += n->unit)
        r = emit_instance(s, i, k);
    for (unsigned k = 0; k < comps && load && r == 0; k++) {
        struct ptx_opnd to = component(&i->opnd[0], k), from = {.kind = PTX_O_REG, .comp = -1, .reg = s->out[k]};
        if (to.kind != PTX_O_SINK)
            r = emit_move(j, n->elem, to, from, i->type[0], PTX_NO_REG, false);
    }
    return r == 0 && skip != PTX_NO_REG ? rw_emit_label(j, skip) : r;
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

static int inline_prepare(struct site *s)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    const struct rw_body *g = n->body[n->guest];
    s->p.side = n->guest;
    s->p.open = n->facts->open[n->guest];
    s->p.guest = &guest;
    s->p.site = s;
    s->p.reg = dt_new_array(n->arena, uint32_t, g->f->nreg + 1);
    s->p.label = dt_new_array(n->arena, uint32_t, g->f->nlabel + 1);
    if (!s->p.reg || !s->p.label)
        return inline_nomem(j);
    for (uint32_t k = 0; k < g->f->nreg; k++) {
        if ((s->p.reg[k] = new_reg(j, (enum ptx_type)g->f->reg[k].type, "g")) == PTX_NO_REG)
            return DT_E_NOMEM;
        j->f->reg[s->p.reg[k]].vec = g->f->reg[k].vec;
    }
    for (int k = 0; k < 3; k++) {
        s->p.tid[k] = s->p.ctaid[k] = PTX_NO_REG;
        for (unsigned d = 0; d < n->ndigit; d++) {
            bool block = n->digit[d].of == RW_CTAID;
            uint32_t *to = block ? &s->p.ctaid[k] : &s->p.tid[k];
            if ((block || n->digit[d].of == RW_TID) && n->digit[d].comp == k &&
                rw_reads_sreg(g->f, block ? PTX_SR_CTAID : PTX_SR_TID, k) &&
                (*to = new_reg(j, PTX_U32, block ? "dt_ctaid" : "dt_tid")) == PTX_NO_REG)
                return DT_E_NOMEM;
        }
    }
    s->shadow = dt_new_array(n->arena, uint32_t, n->body[n->host]->f->nreg + 1);
    for (uint32_t k = 0; s->shadow && k <= n->body[n->host]->f->nreg; k++)
        s->shadow[k] = PTX_NO_REG;
    s->rem = new_reg(j, PTX_U32, "dt_rem");
    s->tmp = new_reg(j, PTX_U32, "dt_t");
    s->number = n->places ? new_reg(j, PTX_U32, "dt_n") : PTX_NO_REG;
    s->place = n->places ? new_reg(j, PTX_U32, "dt_place") : PTX_NO_REG;
    if (n->places && (s->number == PTX_NO_REG || s->place == PTX_NO_REG))
        return DT_E_NOMEM;
    s->none = n->partial ? new_reg(j, PTX_PRED, "dt_none") : PTX_NO_REG;
    s->slot = s->bit = s->one = PTX_NO_REG;
    s->round = PTX_NO_REG;
    for (unsigned d = 0; d < n->ndigit; d++)
        if (n->digit[d].of == RW_ROUND && (s->round = new_reg(j, PTX_U32, "dt_round")) == PTX_NO_REG)
            return DT_E_NOMEM;
        else if (n->digit[d].of == RW_SLOT && (s->digit[d] = new_reg(j, PTX_U32, "dt_part")) == PTX_NO_REG)
            return DT_E_NOMEM;
    if (n->slice && n->ngroup > 1) {
        s->slot = new_reg(j, PTX_U32, "dt_slot");
        s->bit = new_reg(j, PTX_B64, "dt_bit");
        if (s->slot == PTX_NO_REG || (s->one = new_reg(j, PTX_PRED, "dt_other")) == PTX_NO_REG)
            return DT_E_NOMEM;
    }
    return !s->shadow || s->rem == PTX_NO_REG || s->tmp == PTX_NO_REG ? DT_E_NOMEM : 0;
}

/* Is it a ld.param of an argument that points into the buffer? *ret: where, from its begin. */
static bool loads_argument(const struct rw_inline *n, const struct ptx_inst *i, uint64_t *ret)
{
    const struct rw_body *h = n->body[n->host];
    if (i->op != PTX_OP_LD || i->space != PTX_PARAM || i->opnd[1].base_kind != PTX_O_VAR)
        return false;
    for (uint32_t k = 0; k < h->f->nparam && k < 62; k++)
        if (h->f->param[k] == i->opnd[1].var && ((n->args[n->host] >> k) & 1)) {
            uint64_t at = 0;
            return rw_arg_address(&h->step->launch->arg[k], &at, ret) && i->opnd[1].off == (int64_t)at;
        }
    return false;
}

static struct ptx_inst move_number(const struct ptx_inst *load, struct ptx_opnd two[2], uint64_t value)
{
    struct ptx_inst i = *load;
    two[0] = load->opnd[0];
    two[1] = (struct ptx_opnd){.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_S64, .bits = value};
    i.op = PTX_OP_MOV;
    i.space = PTX_GENERIC;
    i.nmod = 0;
    i.opnd = two;
    return i;
}

/* The host's arithmetic on addresses of the buffer, once more on offsets: an offset must not be made of an address's
 * bits, or the fused launch's own maps would depend on where the buffer lies. rw_only_addresses has seen that it is
 * additions, and copies. */
static int emit_shadow(struct site *s, const struct ptx_inst *i, const struct ptx_inst *o)
{
    struct rw_join *j = s->j;
    const struct rw_body *h = s->n->body[s->n->host];
    const uint64_t args = s->n->args[s->n->host];
    struct ptx_opnd opnd[4], two[2];
    struct ptx_inst x = *i;
    uint64_t offset;
    bool carries = loads_argument(s->n, o, &offset);
    if (i->op < PTX_OP_OPAQUE || (ptx_op_info(i->op)->flags & PTX_F_NODST) || !i->nopnd || i->nopnd > 4 ||
        i->opnd[0].kind != PTX_O_REG)
        return 0;
    if (carries) {
        x = move_number(i, two, offset);
    } else {
        if (i->op == PTX_OP_LD)
            return 0;
        memcpy(opnd, i->opnd, sizeof *opnd * i->nopnd);
        x.opnd = opnd;
        for (unsigned k = 1; k < i->nopnd; k++)
            if (opnd[k].kind == PTX_O_REG && (h->prov[opnd[k].reg] & args)) {
                if ((opnd[k].reg = shadow_of(s, opnd[k].reg)) == PTX_NO_REG)
                    return DT_E_NOMEM;
                carries = true;
            }
        if (i->op == PTX_OP_CVTA) {
            x.op = PTX_OP_MOV;
            x.space = PTX_GENERIC;
            x.nmod = 0;
        }
    }
    if (!carries)
        return 0;
    if ((x.opnd[0].reg = shadow_of(s, i->opnd[0].reg)) == PTX_NO_REG)
        return DT_E_NOMEM;
    return ptx_append(j->f, x) ? 0 : inline_nomem(j);
}

/* The host's entry in a module of its own, its instructions taken out. */
static int open_host(struct rw_join *j, const struct rw_inline *n, struct ptx_inst **ret_old, uint32_t *ret_n)
{
    const struct rw_body *h = n->body[n->host], *g = n->body[n->guest];
    const struct ptx_module *hm = h->f->module, *gm = g->f->module;
    int r = ptx_clone(hm, h->f->name, &j->m, j->e);
    if (r < 0)
        return r;
    j->f = ptx_find_function(j->m, h->f->name);
    if (!j->f || j->f->ninst != h->f->ninst || j->f->nreg != h->f->nreg || j->f->nparam != h->f->nparam)
        return dt_err_set(j->e, DT_E_INTERNAL, "entry %s does not print and parse to itself", h->f->name);
    if (gm->version_major * 100 + gm->version_minor > hm->version_major * 100 + hm->version_minor) {
        j->m->version_major = gm->version_major;
        j->m->version_minor = gm->version_minor;
    }
    j->m->target = dt_arena_strdup(&j->m->arena, rw_target_of(hm->target, gm->target));
    j->f->name = dt_arena_strdup(&j->m->arena, j->c->made.entry);
    j->f->nloc = 0; /* line numbers of one text do not fit a kernel made of two */
    for (uint32_t k = 0; k < j->m->nfunc && !n->facts->open[n->host]; k++)
        if (j->m->func[k] != j->f)
            dev_round_muls(j->m->func[k]);
    *ret_old = j->f->inst;
    *ret_n = j->f->ninst;
    j->f->inst = NULL;
    j->f->ninst = j->f->inst_cap = 0;
    return j->m->target && j->f->name ? 0 : inline_nomem(j);
}

static int emit_host(struct site *s, struct ptx_inst *old, uint32_t nold)
{
    struct rw_join *j = s->j;
    const struct rw_inline *n = s->n;
    const struct rw_body *h = n->body[n->host];
    int r = 0;
    for (uint32_t k = 0; k < nold && r == 0; k++) {
        struct ptx_inst i = old[k];
        const struct ptx_inst *o = &h->f->inst[k];
        struct ptx_opnd two[2];
        uint64_t offset;
        bool joint_store = n->host == 0 && n->joins[0][k] && o->pred == PTX_NO_REG;
        if (!joint_store && !rw_later_may_wait_for(o) && (r = rw_later_flush(j, &s->later)) < 0)
            return r;
        if (!n->drop_arg && (r = emit_shadow(s, &i, o)) < 0)
            return r;
        i.line = i.col = 0;
        if (j->f->ninst > MOST)
            return dt_err_set(j->e, DT_E_TOO_LARGE, "the fused kernel has over %d instructions", MOST);
        if (n->joins[n->host][k]) {
            r = emit_site(s, &i);
            continue;
        }
        if (n->drop_arg && loads_argument(n, o, &offset))
            i = move_number(&i, two, offset);
        if (!n->facts->open[n->host])
            dev_round_mul(&i);
        if (i.op == PTX_OP_LD && rw_is_global_access(o))
            rw_drop_hints_if_written(j->c, n->host, o, &i);
        if (i.op == PTX_OP_LD && i.space == PTX_CONST && j->far[n->host])
            i.space = PTX_GLOBAL;
        r = ptx_append(j->f, i) ? 0 : inline_nomem(j);
    }
    return r < 0 ? r : rw_later_flush(j, &s->later);
}

/* Functions that were added stand behind the entry: they must be before it. */
static void entry_last(struct rw_join *j)
{
    for (uint32_t k = 0; k + 1 < j->m->nfunc; k++)
        if (j->m->func[k] == j->f) {
            j->m->func[k] = j->m->func[k + 1];
            j->m->func[k + 1] = j->f;
        }
}

/* The host's tables, which are in the module already: the guest's with the same bytes are these; or they go to global
 * memory (emit/tables.c). */
static int host_tables(struct rw_join *j)
{
    rw_far_tables(j->c, j->far);
    for (uint32_t k = 0; k < j->m->nvar; k++) {
        struct ptx_var *v = j->m->var[k];
        if (v->space == PTX_CONST && rw_is_far(j->c, j->far, v))
            v->space = PTX_GLOBAL;
        else if (v->space == PTX_CONST && !dt_push(&j->vars, (struct rw_var_pair){v, v, 0, RW_ANY_SIDE}))
            return inline_nomem(j);
    }
    return 0;
}

/* The kernel, into c->made; c->in is what was found out. */
static int inline_join(struct rw_cand *c, struct dt_err *e)
{
    struct rw_join j = {.c = c, .e = e};
    struct site s = {.j = &j, .n = c->in};
    struct ptx_inst *old = NULL;
    uint32_t n = 0;
    dt_str_done(&c->made.ptx);
    int r = open_host(&j, s.n, &old, &n);
    if (r == 0 && (r = host_tables(&j)) == 0 && (r = rw_copy_data(&j, s.n->guest)) == 0 &&
        (r = make_params(&j, s.n)) == 0 && (r = inline_prepare(&s)) == 0 && (r = emit_zero(&s)) == 0)
        r = emit_host(&s, old, n);
    if (r == 0 && rw_inline_tidy(j.f, s.n->body[s.n->host]->f->nlabel, &c->arena) < 0)
        r = inline_nomem(&j);
    if (r == 0) {
        entry_last(&j);
        r = rw_text(j.m, c->facts.prog, &c->made.ptx, e);
    }
    free(j.vars.p);
    free(j.funcs.p);
    ptx_module_free(j.m);
    return r;
}

int rw_inline_apply(struct rw_cand *c, enum rw_level level, struct dt_str *why, struct dt_err *e)
{
    int r = rw_inline_may(c, level, why, e);
    if (r || (r = rw_identity(c, why, e)))
        return r;
    if (c->facts.own[0] || c->facts.own[1]) {
        dt_str_add(why,
                   DT_ROW("arithmetic-identity") ": only the form with its contractions written out could be inlined");
        return 1;
    }
    c->redirect = dt_new(&c->arena, struct rw_redirect);
    if (!c->redirect)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    *c->redirect = (struct rw_redirect){.buffer = c->in->buffer,
                                        .keep_global = c->in->keep_store || c->in->in_place,
                                        .drop_arg = c->in->drop_arg,
                                        .args = {c->in->args[0], c->in->args[1]}};
    if (c->in->host == 1 && c->in->partial)
        c->redirect->gone = rw_launch_bytes(&c->arena, c->facts.ana, c->facts.launch[0], c->in->buffer, true);
    if (dt_arena_failed(&c->arena))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    c->nredirect = 1;
    c->threads = c->facts.body[c->in->host].threads;
    rw_name_entry(c);
    if ((r = inline_join(c, e)) < 0)
        return r;
    return rw_resources(c, why, e);
}
