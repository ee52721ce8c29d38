/* One text for several elements of a guest's thread.
 *
 * A thread that has several elements does the same steps for each, at places side by side. Slices (one per slot) that
 * are one program except for constants become one text, in which the constants are computed from the slot:
 *
 *     slot 1:  ld.global.f32 f, [w+4];          slot 3:  ld.global.f32 f, [w+12];         all:  add a, w, 4 * slot;
 *                                                        ld.global.f32 f, [a];
 *     slot 0:  setp.lt p, i, n;                 slot 2:  add j, i, 256; setp.lt p, j, n;  all:  add j, i, 128 * slot;
 *                                                        setp.lt p, j, n;
 *
 * Slices are put into groups. The longest slice that is left is the template of a group, and all others that match it
 * join. Two slices match under two conditions. First, the instructions that have an order are alike and in the same
 * order: accesses, branches, predicated instructions, definitions of registers that have several; loads that only
 * loads are between may change places. Second, what their
 * operands are computed from is alike, wherever it stands in the text: these are pure instructions with one definition
 * each, compared as expressions. So it does not matter how a compiler has mixed the instructions of different elements.
 * The immediate of an add or or, and the offset of an access, may differ; `x` also matches `x + c` and `x | c`, with
 * the constant 0. The constants of a group must be sums over the slot's digits. Slices with loops are not merged. In a
 * template each pure definition must dominate its uses, so that nothing is computed later than where it is used.
 */
#include "rewrite/inline/inline-priv.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = -1, MANY = -2 };
#define WORK 100000
#define DEEP 1000
#define PARAMS 256

struct param { /* a constant of the template, and what the other members have in its place */
    uint32_t inst;
    unsigned opnd;
    int64_t value[RW_SLOTS];
    uint64_t set; /* members whose value was seen; the others have the template's */
};

struct undo {
    uint32_t reg, param;
};

struct match {
    struct rw_inline *n;
    const struct ptx_function *f;
    struct ptx_cfg cfg;
    int64_t *def; /* per register: the instruction that defines it, NONE or MANY */
    bool *free;   /* per instruction: it is pure, and has no order */
    bool *taken;  /* per instruction of the other slice: it is matched */
    uint32_t *label;
    uint32_t *map, *inv; /* registers of the template -> of the other; inv: back, for those with an order */
    struct undo *trail;
    size_t ntrail, trail_cap;
    struct param param[PARAMS];
    unsigned nparam;
    uint64_t members;
    unsigned t, s; /* slots: template, other */
    unsigned work, depth;
    bool oom;
};

/* ---- facts about the text ---------------------------------------------------------------------------------------- */

static void on_def(uint32_t reg, bool write, void *user)
{
    struct match *m = user;
    if (write)
        m->def[reg] = m->def[reg] == NONE ? (int64_t)m->work : MANY;
}

struct single {
    const struct match *m;
    bool all;
};

static void on_single(uint32_t reg, bool write, void *user)
{
    struct single *s = user;
    (void)write;
    s->all &= s->m->def[reg] >= 0;
}

static bool parameter(const struct ptx_inst *i) { return i->op == PTX_OP_LD && i->space == PTX_PARAM; }

static void merge_look(struct match *m)
{
    for (uint32_t r = 0; r < m->f->nreg; r++)
        m->def[r] = NONE;
    for (uint32_t n = 0; n < m->f->ninst; n++) {
        const struct ptx_inst *i = &m->f->inst[n];
        m->work = n;
        if (i->op == PTX_OP_LABEL)
            m->label[i->opnd[0].label] = n;
        if (i->op > PTX_OP_OPAQUE)
            ptx_inst_regs(i, on_def, m);
    }
    for (uint32_t n = 0; n < m->f->ninst; n++) {
        const struct ptx_inst *i = &m->f->inst[n];
        struct single s = {m, true};
        if (i->op <= PTX_OP_OPAQUE || i->pred != PTX_NO_REG || !i->nopnd)
            continue;
        unsigned flags = ptx_op_info(i->op)->flags;
        if ((flags & PTX_F_NODST) ||
            ((flags & ~(unsigned)(PTX_F_DST2 | PTX_F_SPACE | PTX_F_SPACE2 | PTX_F_CTA | PTX_F_ORDERED)) &&
             !parameter(i)))
            continue;
        ptx_inst_regs(i, on_single, &s);
        m->free[n] = s.all;
    }
}

/* ---- undoing ----------------------------------------------------------------------------------------------------- */

static bool note(struct match *m, struct undo u)
{
    if (m->ntrail == m->trail_cap) {
        size_t cap = m->trail_cap ? 2 * m->trail_cap : 256;
        struct undo *p = realloc(m->trail, cap * sizeof *p);
        if (!p) {
            m->oom = true;
            return false;
        }
        m->trail = p;
        m->trail_cap = cap;
    }
    m->trail[m->ntrail++] = u;
    return true;
}

static void back_to(struct match *m, size_t n)
{
    while (m->ntrail > n) {
        struct undo u = m->trail[--m->ntrail];
        if (u.reg != PTX_NO_REG) {
            if (m->inv[m->map[u.reg]] == u.reg)
                m->inv[m->map[u.reg]] = PTX_NO_REG;
            m->map[u.reg] = PTX_NO_REG;
        } else {
            m->param[u.param].set &= ~(UINT64_C(1) << m->s);
        }
    }
}

static bool merge_bind(struct match *m, uint32_t t, uint32_t s)
{
    bool ordered = m->def[t] < 0 || !m->free[m->def[t]];
    if (m->map[t] != PTX_NO_REG)
        return m->map[t] == s;
    if (ordered && m->inv[s] != PTX_NO_REG)
        return false;
    if (!note(m, (struct undo){t, 0}))
        return false;
    m->map[t] = s;
    if (ordered)
        m->inv[s] = t;
    return true;
}

/* Note that the template's constant `have`, operand k of instruction n, is `value` in the other slice. */
static bool differs(struct match *m, uint32_t n, unsigned k, int64_t have, int64_t value)
{
    unsigned q = 0;
    while (q < m->nparam && (m->param[q].inst != n || m->param[q].opnd != k))
        q++;
    if (q < m->nparam && (m->param[q].set >> m->s & 1))
        return m->param[q].value[m->s] == value;
    if (q == PARAMS || !note(m, (struct undo){PTX_NO_REG, q}))
        return false;
    if (q == m->nparam) {
        m->param[m->nparam++] = (struct param){.inst = n, .opnd = k};
        for (unsigned j = 0; j < RW_SLOTS; j++)
            m->param[q].value[j] = have;
    }
    m->param[q].value[m->s] = value;
    m->param[q].set |= UINT64_C(1) << m->s;
    return true;
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

static bool regs(struct match *m, uint32_t t, uint32_t s);

static bool sum_like(const struct ptx_inst *i)
{
    static const uint8_t whole[] = {PTX_S32, PTX_U32, PTX_B32, PTX_S64, PTX_U64, PTX_B64};
    return (i->op == PTX_OP_ADD || i->op == PTX_OP_OR) && memchr(whole, i->type[0], sizeof whole) && i->nmod == 0 &&
           i->ntype == 1 && i->nopnd == 3 && i->pred == PTX_NO_REG && i->opnd[1].kind == PTX_O_REG &&
           i->opnd[2].kind == PTX_O_IMM && (i->opnd[2].imm_type == PTX_S64 || i->opnd[2].imm_type == PTX_U64);
}

static bool merge_operand(struct match *m, uint32_t n, unsigned k, const struct ptx_opnd *t, const struct ptx_opnd *s)
{
    if (t->kind != s->kind || t->neg != s->neg || t->comp != s->comp)
        return false;
    switch (t->kind) {
    case PTX_O_REG: return regs(m, t->reg, s->reg);
    case PTX_O_IMM:
        if (t->imm_type == s->imm_type && t->bits == s->bits)
            return !sum_like(&m->f->inst[n]) || differs(m, n, k, (int64_t)t->bits, (int64_t)s->bits);
        return m->free[n] && k == 2 && sum_like(&m->f->inst[n]) && differs(m, n, k, (int64_t)t->bits, (int64_t)s->bits);
    case PTX_O_SREG: return t->sreg == s->sreg;
    case PTX_O_VAR: return t->var == s->var && t->off == s->off;
    case PTX_O_ADDR:
        return t->base_kind == PTX_O_VAR && s->base_kind == PTX_O_VAR && t->var == s->var && t->off == s->off;
    case PTX_O_VEC:
        for (unsigned q = 0; q < t->n; q++)
            if (t->n != s->n || !merge_operand(m, n, k, &t->elem[q], &s->elem[q]))
                return false;
        return true;
    case PTX_O_SINK: return true;
    default: return false;
    }
}

static bool destination(struct match *m, const struct ptx_opnd *t, const struct ptx_opnd *s)
{
    if (t->kind != s->kind)
        return false;
    if (t->kind == PTX_O_REG)
        return merge_bind(m, t->reg, s->reg);
    for (unsigned q = 0; t->kind == PTX_O_VEC && q < t->n; q++)
        if (t->n != s->n || !destination(m, &t->elem[q], &s->elem[q]))
            return false;
    return t->kind == PTX_O_VEC || t->kind == PTX_O_SINK;
}

static bool predicates(struct match *m, const struct ptx_inst *t, const struct ptx_inst *s)
{
    if ((t->pred == PTX_NO_REG) != (s->pred == PTX_NO_REG) || t->pred_neg != s->pred_neg)
        return false;
    return t->pred == PTX_NO_REG || regs(m, t->pred, s->pred);
}

static bool same_word(struct ptx_inst t, struct ptx_inst s)
{
    static const enum ptx_mod vec[] = {PTX_M_V2, PTX_M_V4, PTX_M_V8};
    for (unsigned k = 0; k < 3 && (t.op == PTX_OP_LD || t.op == PTX_OP_ST); k++) {
        ptx_clear_mod(&t, vec[k]);
        ptx_clear_mod(&s, vec[k]);
    }
    return t.op == s.op && t.nopnd == s.nopnd && t.nmod == s.nmod && !memcmp(t.mod, s.mod, sizeof *t.mod * t.nmod) &&
           t.ntype == s.ntype && !memcmp(t.type, s.type, t.ntype) && t.space == s.space && t.space2 == s.space2 &&
           t.dst2 == s.dst2;
}

/* Do two instructions match? For all but accesses and branches. */
static bool merge_alike(struct match *m, uint32_t nt, uint32_t ns)
{
    const struct ptx_inst *t = &m->f->inst[nt], *s = &m->f->inst[ns];
    unsigned flags = ptx_op_info(t->op)->flags, dst = flags & PTX_F_NODST ? 0 : t->dst2 ? 2 : 1;
    bool good = same_word(*t, *s) && t->vec == s->vec && predicates(m, t, s) && t->nopnd >= dst;
    for (unsigned k = flags & PTX_F_DST_READ ? 0 : dst; k < t->nopnd && good; k++)
        good = merge_operand(m, nt, k, &t->opnd[k], &s->opnd[k]);
    for (unsigned k = 0; k < dst && good; k++)
        good = destination(m, &t->opnd[k], &s->opnd[k]);
    return good;
}

static bool regs(struct match *m, uint32_t t, uint32_t s)
{
    int64_t dt = m->def[t], ds = m->def[s];
    bool ft = dt >= 0 && m->free[dt], fs = ds >= 0 && m->free[ds], good = false;
    size_t mark = m->ntrail;
    if (m->map[t] != PTX_NO_REG)
        return m->map[t] == s;
    if (dt == NONE || ds == NONE || m->depth > DEEP || ++m->work > WORK)
        return false;
    if (!ft && !fs)
        return merge_bind(m, t, s); /* they are compared where they are defined */
    m->depth++;
    if (ft && fs)
        good = merge_alike(m, (uint32_t)dt, (uint32_t)ds) && m->map[t] == s;
    if (!good && ft && sum_like(&m->f->inst[dt])) {
        back_to(m, mark);
        const struct ptx_opnd *o = m->f->inst[dt].opnd;
        good = regs(m, o[1].reg, s) && differs(m, (uint32_t)dt, 2, (int64_t)o[2].bits, 0) && merge_bind(m, t, s);
    }
    m->depth--;
    if (!good)
        back_to(m, mark);
    return good;
}

/* ---- what has an order ------------------------------------------------------------------------------------------- */

static bool ordered(const struct match *m, unsigned slot, uint32_t at)
{
    return m->n->slice[slot][at] && m->f->inst[at].op > PTX_OP_OPAQUE && !m->free[at];
}

/* How many instructions with an order stand before `at`. */
static uint32_t merge_before(const struct match *m, unsigned slot, uint32_t at)
{
    uint32_t k = 0;
    while (at-- > 0)
        k += ordered(m, slot, at);
    return k;
}

static bool merge_access(struct match *m, uint32_t nt, uint32_t ns)
{
    const struct rw_inline *n = m->n;
    const struct ptx_inst *t = &m->f->inst[nt], *s = &m->f->inst[ns];
    unsigned mt = n->slice[m->t][nt], ms = n->slice[m->s][ns], ft = (unsigned)__builtin_ctz(mt),
             fs = (unsigned)__builtin_ctz(ms);
    unsigned v = t->op == PTX_OP_LD ? 0 : 1, a = 1 - v, count = (unsigned)__builtin_popcount(mt);
    bool joint = n->joins[n->guest][nt];
    if (!same_word(*t, *s) || joint != n->joins[n->guest][ns] || mt >> ft != (1u << count) - 1 ||
        ms >> fs != (1u << count) - 1 || (count & (count - 1)) || ft % count || fs % count || !predicates(m, t, s))
        return false;
    const struct ptx_opnd *at = &t->opnd[a], *as = &s->opnd[a];
    int64_t bytes = ptx_type_bytes(t->type[0]), ot = at->off + ft * bytes, os = as->off + fs * bytes;
    if (!joint && (at->base_kind != as->base_kind || (at->base_kind == PTX_O_VAR && (at->var != as->var || ot != os)) ||
                   at->base_kind == PTX_O_NONE))
        return false;
    if (!joint && at->base_kind == PTX_O_REG &&
        (ptx_type_bytes(m->f->reg[at->reg].type) != 8 || !regs(m, at->reg, as->reg) || !differs(m, nt, a, ot, os)))
        return false;
    for (unsigned k = 2; k < t->nopnd; k++)
        if (!merge_operand(m, nt, k, &t->opnd[k], &s->opnd[k]))
            return false;
    for (unsigned k = 0; k < count; k++) {
        const struct ptx_opnd *x = rw_access_parts(t) > 1 ? &t->opnd[v].elem[ft + k] : &t->opnd[v];
        const struct ptx_opnd *y = rw_access_parts(s) > 1 ? &s->opnd[v].elem[fs + k] : &s->opnd[v];
        if (t->op == PTX_OP_LD ? !destination(m, x, y) : !merge_operand(m, nt, v, x, y))
            return false;
    }
    return true;
}

static bool merge_one(struct match *m, uint32_t nt, uint32_t ns)
{
    const struct ptx_inst *t = &m->f->inst[nt], *s = &m->f->inst[ns];
    unsigned flags = ptx_op_info(t->op)->flags;
    if ((t->op == PTX_OP_LD || t->op == PTX_OP_ST) && rw_is_global_access(t))
        return t->op == s->op && rw_is_global_access(s) && merge_access(m, nt, ns);
    if (flags & (PTX_F_READS | PTX_F_WRITES))
        return false;
    if (!(flags & (PTX_F_BRANCH | PTX_F_TERMINATOR)))
        return merge_alike(m, nt, ns);
    if (t->op != s->op || !predicates(m, t, s))
        return false;
    if (t->op != PTX_OP_BRA)
        return true;
    uint32_t lt = m->label[t->opnd[0].label], ls = m->label[s->opnd[0].label];
    return lt > nt && ls > ns && merge_before(m, m->t, lt) == merge_before(m, m->s, ls);
}

/* A load whose place among the loads beside it does not matter. */
static bool movable(const struct match *m, uint32_t at)
{
    const struct ptx_inst *i = &m->f->inst[at];
    struct single s = {m, true};
    if (i->op != PTX_OP_LD || !rw_is_global_access(i) || i->pred != PTX_NO_REG)
        return false;
    ptx_inst_regs(i, on_single, &s);
    return s.all;
}

/* Match the template's instruction a with the other slice's first one that is left, b or behind it, or, of loads, with
 * one of those that nothing but loads is before. */
static bool merge_next(struct match *m, uint32_t a, uint32_t b)
{
    size_t mark = m->ntrail;
    for (uint32_t c = b; c < m->f->ninst; c++) {
        if (!ordered(m, m->s, c) || m->taken[c])
            continue;
        if (merge_one(m, a, c)) {
            m->taken[c] = true;
            return true;
        }
        back_to(m, mark);
        if (!movable(m, a) || !movable(m, c))
            return false;
    }
    return false;
}

static bool merge_whole(struct match *m)
{
    uint32_t a = 0, b = 0, n = m->f->ninst;
    m->work = m->depth = 0;
    memset(m->taken, 0, n);
    for (;; a++) {
        while (a < n && !ordered(m, m->t, a))
            a++;
        while (b < n && (!ordered(m, m->s, b) || m->taken[b]))
            b++;
        if (a >= n || b >= n)
            return a >= n && b >= n;
        if (!merge_next(m, a, b))
            return false;
    }
}

/* ---- the template ------------------------------------------------------------------------------------------------ */

struct uses {
    struct match *m;
    uint32_t at;
    bool good;
};

static void on_use(uint32_t reg, bool write, void *user)
{
    struct uses *u = user;
    int64_t d = u->m->def[reg];
    if (!write && d >= 0 && u->m->free[d])
        u->good &= ptx_inst_dominates(&u->m->cfg, (uint32_t)d, u->at);
}

/* May the slice be a template: no loop in it, and every pure instruction before its uses? */
static bool template(struct match *m, unsigned slot)
{
    struct uses u = {m, 0, true};
    for (uint32_t at = 0; at < m->f->ninst && u.good; at++) {
        const struct ptx_inst *i = &m->f->inst[at];
        if (!m->n->slice[slot][at] || i->op <= PTX_OP_OPAQUE)
            continue;
        u.at = at;
        ptx_inst_regs(i, on_use, &u);
        u.good &= i->op != PTX_OP_BRA || m->label[i->opnd[0].label] > at;
    }
    return u.good;
}

/* Find base and by[] with value = base + sum of by * digit for all members. False: there are none, or some member's
 * value was not seen. */
static bool solve(const struct match *m, const struct param *p, struct rw_param *ret)
{
    const struct rw_inline *n = m->n;
    *ret = (struct rw_param){.inst = p->inst, .opnd = p->opnd, .base = p->value[m->t]};
    for (unsigned d = 0; d < n->ndigit; d++) {
        const struct rw_digit *y = &n->digit[d];
        bool found = y->of != RW_SLOT;
        for (unsigned a = 0; a < n->nslot && !found; a++)
            for (unsigned b = a + y->weight; (m->members >> a & 1) && b < n->nslot && !found; b += y->weight) {
                int64_t steps = (b - a) / y->weight;
                if (b / (y->weight * y->n) != a / (y->weight * y->n))
                    break;
                found = m->members >> b & 1; /* two members that differ in this digit alone */
                if (found)
                    ret->by[d] = (p->value[b] - p->value[a]) / steps;
            }
        if (y->of == RW_SLOT)
            ret->base -= ret->by[d] * (int64_t)(m->t / y->weight % y->n);
    }
    for (unsigned d = 0; d < n->ndigit; d++)
        if (ret->by[d] > INT32_MAX || ret->by[d] < INT32_MIN)
            return false;
    for (unsigned s = 0; s < n->nslot; s++) {
        int64_t v = ret->base;
        for (unsigned d = 0; d < n->ndigit; d++)
            v += n->digit[d].of == RW_SLOT ? ret->by[d] * (int64_t)(s / n->digit[d].weight % n->digit[d].n) : 0;
        if ((m->members >> s & 1) && (v != p->value[s] || (s != m->t && !(p->set >> s & 1))))
            return false;
    }
    return true;
}

static void gather(struct match *m, struct rw_group *g)
{
    struct rw_inline *n = m->n;
    memset(m->param, 0, sizeof m->param);
    m->nparam = 0;
    m->members = UINT64_C(1) << m->t;
    bool may = template(m, m->t);
    for (m->s = 0; m->s < n->nslot && may && !m->oom; m->s++) {
        uint64_t bit = UINT64_C(1) << m->s;
        unsigned had = m->nparam;
        struct rw_param p;
        if (m->s == m->t || n->slot_group[m->s] != UINT8_MAX)
            continue;
        m->ntrail = 0;
        memset(m->map, 0xff, m->f->nreg * sizeof *m->map);
        memset(m->inv, 0xff, m->f->nreg * sizeof *m->inv);
        bool good = template(m, m->s) && merge_whole(m);
        m->members |= bit;
        for (unsigned k = 0; k < m->nparam && good; k++)
            good = solve(m, &m->param[k], &p);
        if (good) {
            n->slot_group[m->s] = (uint8_t)n->ngroup;
            continue;
        }
        m->members &= ~bit;
        for (unsigned k = 0; k < m->nparam; k++) { /* undo: as if it had never been tried */
            m->param[k].set &= ~bit;
            if (had && k < had)
                m->param[k].value[m->s] = m->param[k].value[m->t];
        }
        m->nparam = had;
    }
    n->slot_group[m->t] = (uint8_t)n->ngroup;
    *g = (struct rw_group){
        .slot = m->t, .members = m->members, .param = dt_new_array(m->n->arena, struct rw_param, m->nparam + 1)};
    for (unsigned k = 0; k < m->nparam && g->param; k++) {
        struct rw_param *p = &g->param[g->nparam];
        bool moves = false;
        solve(m, &m->param[k], p);
        for (unsigned d = 0; d < n->ndigit; d++)
            moves |= p->by[d] != 0;
        g->nparam += moves;
    }
}

int rw_inline_merge(struct rw_inline *n, struct dt_arena *a, struct dt_err *e)
{
    const struct ptx_function *f = n->body[n->guest]->f;
    struct match *m = dt_new(a, struct match);
    if (!m)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    m->n = n;
    m->f = f;
    m->def = dt_new_array(a, int64_t, f->nreg + 1);
    m->free = dt_new_array(a, bool, f->ninst + 1);
    m->taken = dt_new_array(a, bool, f->ninst + 1);
    m->label = dt_new_array(a, uint32_t, f->nlabel + 1);
    m->map = dt_new_array(a, uint32_t, f->nreg + 1);
    m->inv = dt_new_array(a, uint32_t, f->nreg + 1);
    n->group = dt_new_array(n->arena, struct rw_group, n->nslot + 1);
    memset(n->slot_group, 0xff, sizeof n->slot_group);
    if (dt_arena_failed(a) || dt_arena_failed(n->arena))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    int r = ptx_cfg_build(f, &m->cfg, e);
    if (r < 0)
        return r;
    merge_look(m);
    for (unsigned left = n->nslot; left && !m->oom; n->ngroup++) {
        uint32_t most = 0;
        for (unsigned s = 0; s < n->nslot; s++) { /* the longest slice that has no group */
            uint32_t size = 1;
            for (uint32_t k = 0; k < f->ninst; k++)
                size += n->slice[s][k] != 0;
            if (n->slot_group[s] == UINT8_MAX && size > most) {
                most = size;
                m->t = s;
            }
        }
        gather(m, &n->group[n->ngroup]);
        left = 0;
        for (unsigned s = 0; s < n->nslot; s++)
            left += n->slot_group[s] == UINT8_MAX;
    }
    free(m->trail);
    ptx_cfg_done(&m->cfg);
    return m->oom || dt_arena_failed(n->arena) ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}
