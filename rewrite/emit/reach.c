/* Which bytes of shared memory an instruction of a kernel touches: found by walking the kernel, thread by thread.
 *
 * Only what shared addresses and control flow need is computed: integers made of thread numbers, geometry and scalar
 * arguments. What is made of anything else (loaded data, block numbers, pointers, other instructions) is not known, and
 * neither is what is made of it. A number may be a place in a shared variable: it may be moved, added to and compared
 * with another place in the same one, and nothing else.
 *
 *   paths     a thread has a list of (place, values), at first one. The lowest place goes on. At a branch whose
 *             predicate is not known it becomes two; two that come to the same place become one again, in which a value
 *             is known only if both agree. So nothing that the thread can do in any block is missed, and loops run as
 *             often as they do
 *   touched   bit for bit, what all threads touch in all rounds together. A place outside its variable, or one that is
 *             not known, counts as anywhere
 *   spans     the same thread by thread, if it is asked for. An instruction that touches more than SPANS places in one
 *             thread has none
 *   rounds    where a path goes back to the head of a loop, and all that addresses are made of is as it was one of the
 *             last times, what else has changed (a counter that says when the loop ends) is not known any more; where
 *             nothing has changed, the path ends. So a loop is walked a few times, not as often as it runs. Where that
 *             makes a place unknown, or the walk too long, all rounds are walked instead
 *   the end   after STEPS steps, or with too many paths, nothing is known, nor of a kernel that calls functions or
 *             branches by a table. Generic accesses count as anywhere
 *
 * It does not look at the order of accesses.
 */
#include "rewrite/emit/part-priv.h"
#include "rewrite/emit/reach-priv.h"

#include <stdlib.h>
#include <string.h>

#define STEPS 20000000u   /* of all threads */
#define BYTES (64u << 20) /* of all bit sets */
#define SPANS 32          /* places that an instruction touches in a thread */

enum event { EV_NONE, EV_BRANCH, EV_LEAVE, EV_COMPUTE, EV_SITE };

static const struct ptx_opnd *address_of(const struct ptx_inst *i)
{
    for (unsigned k = 0; k < i->nopnd; k++)
        if (i->opnd[k].kind == PTX_O_ADDR)
            return &i->opnd[k];
    return NULL;
}

/* How many bytes an access to shared memory touches from its address on; 0: not known. */
static uint32_t reach_width(const struct ptx_inst *i)
{
    if (i->op == PTX_OP_LD || i->op == PTX_OP_ST)
        return ptx_type_bytes(i->type[0]) * (i->vec ? i->vec : 1);
    if (i->op == PTX_OP_LDMATRIX || i->op == PTX_OP_STMATRIX)
        return 16; /* a row at each lane's address */
    if (i->op == PTX_OP_CP_ASYNC && i->nopnd > 2 && i->opnd[2].kind == PTX_O_IMM)
        return (uint32_t)i->opnd[2].bits;
    return 0;
}

static bool touches_shared(const struct ptx_inst *i)
{
    const struct ptx_op_info *o = ptx_op_info(i->op);
    return ((o->flags & (PTX_F_READS | PTX_F_WRITES | PTX_F_ATOMIC)) && i->space == PTX_SHARED) ||
           rw_is_group_product(i);
}

/* ---- what matters ------------------------------------------------------------------------------------------------ */

struct mark {
    struct rw_walk *w;
    bool wanted, more;
};

static void mark_read(uint32_t reg, bool write, void *user)
{
    struct mark *m = user;
    if (!write && reg < m->w->f->nreg && !m->w->slot[reg]) {
        m->w->slot[reg] = ++m->w->nslot;
        m->more = true;
    }
}

static void mark_written(uint32_t reg, bool write, void *user)
{
    struct mark *m = user;
    m->wanted |= write && reg < m->w->f->nreg && m->w->slot[reg];
}

static void mark_one(struct mark *m, uint32_t reg)
{
    if (reg != PTX_NO_REG)
        mark_read(reg, false, m);
}

/* And what is needed to compute that. */
static void mark_rest(struct mark *m)
{
    const struct ptx_function *f = m->w->f;
    do {
        m->more = false;
        for (uint32_t n = f->ninst; n-- > 0;) {
            const struct ptx_inst *i = &f->inst[n];
            m->wanted = false;
            if (i->op == PTX_OP_LABEL)
                continue;
            ptx_inst_regs(i, mark_written, m);
            if (!m->wanted)
                continue;
            if (m->w->event[n] == EV_NONE)
                m->w->event[n] = EV_COMPUTE;
            if (m->w->event[n] == EV_COMPUTE)
                ptx_inst_regs(i, mark_read, m);
        }
    } while (m->more);
}

static void reach_mark(struct rw_walk *w)
{
    const struct ptx_function *f = w->f;
    struct mark m = {.w = w};
    for (uint32_t n = 0; n < f->ninst; n++) {
        const struct ptx_inst *i = &f->inst[n];
        const struct ptx_opnd *o = address_of(i);
        unsigned flags = ptx_op_info(i->op)->flags;
        if (flags & (PTX_F_BRANCH | PTX_F_TERMINATOR)) {
            w->event[n] = flags & PTX_F_BRANCH ? EV_BRANCH : EV_LEAVE;
        } else if (touches_shared(i)) {
            w->event[n] = EV_SITE;
            if (o && o->base_kind == PTX_O_REG)
                mark_one(&m, o->reg);
            for (unsigned k = 1; rw_is_group_product(i) && k < 3 && k < i->nopnd; k++)
                if (i->opnd[k].kind == PTX_O_REG)
                    mark_one(&m, i->opnd[k].reg);
        }
    }
    mark_rest(&m);
    w->naddress = w->nslot;
    for (uint32_t n = 0; n < f->ninst; n++)
        if (w->event[n] == EV_BRANCH || w->event[n] == EV_LEAVE || w->event[n] == EV_SITE)
            mark_one(&m, f->inst[n].pred);
    mark_rest(&m);
    for (uint32_t n = f->ninst, to = f->ninst; n-- > 0;) {
        if (f->inst[n].op == PTX_OP_LABEL)
            w->target[f->inst[n].opnd[0].label] = n;
        if (w->event[n] != EV_NONE)
            to = n;
        w->next[n] = to;
    }
}

/* Only the bits that a register has are kept. Of a place they are cut where it is used. */
static struct rw_value reach_held(const struct rw_walk *w, uint32_t reg, struct rw_value v)
{
    uint8_t t = w->f->reg[reg].type;
    unsigned bits = t == PTX_PRED ? 1 : ptx_type_bytes(t) * 8;
    if (v.mem == 0)
        v.v = rw_low_bits(v.v, bits);
    else if (v.mem != RW_REACH_UNKNOWN && bits < 32)
        v = rw_value_unknown();
    return v;
}

struct forget {
    const struct rw_walk *w;
    struct rw_path *p;
    struct rw_value v;
    bool only; /* v goes into the register `reg` alone */
    uint32_t reg;
    bool maybe;
};

static void put(uint32_t reg, bool write, void *user)
{
    struct forget *q = user;
    if (!write || reg >= q->w->f->nreg || !q->w->slot[reg])
        return;
    struct rw_value *to = &q->p->reg[q->w->slot[reg] - 1],
                    v = q->only && reg == q->reg ? reach_held(q->w, reg, q->v) : rw_value_unknown();
    if (q->maybe && (to->v != v.v || to->mem != v.mem))
        v = rw_value_unknown();
    *to = v;
}

/* 1: it holds; 0: it does not; -1: nobody knows. */
static int guard(const struct rw_walk *w, const struct rw_path *p, const struct ptx_inst *i)
{
    if (i->pred == PTX_NO_REG)
        return 1;
    if (i->pred >= w->f->nreg || !w->slot[i->pred])
        return -1;
    struct rw_value v = p->reg[w->slot[i->pred] - 1];
    return v.mem ? -1 : (int)((v.v & 1) ^ (i->pred_neg != 0));
}

void rw_reach_span(struct rw_walk *w, uint32_t n, uint32_t at, uint32_t width)
{
    struct rw_spans *l = &w->spans[n];
    uint16_t t = (uint16_t)w->thread;
    size_t mine = l->v.n;
    for (; mine > 0 && l->v.p[mine - 1].thread == t; mine--)
        if (l->v.p[mine - 1].at == at && l->v.p[mine - 1].width == width)
            return;
    if (!l->many && !dt_push(&l->v, ((struct rw_span){at, t, (uint16_t)width})))
        l->many = true;
    l->many |= l->v.n - mine > SPANS;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

static void touch(struct rw_walk *w, const struct rw_path *p, uint32_t n)
{
    const struct ptx_inst *i = &w->f->inst[n];
    const struct ptx_opnd *o = address_of(i);
    const struct rw_body *b = w->b;
    struct rw_value v = rw_value_unknown();
    uint32_t width = reach_width(i);
    if (w->ret->anywhere[n])
        return;
    if (rw_is_group_product(i)) {
        w->ret->anywhere[n] = !rw_groups_touch(w, p, n);
        return;
    }
    if (o && o->base_kind == PTX_O_REG && o->reg < w->f->nreg && w->slot[o->reg])
        v = p->reg[w->slot[o->reg] - 1];
    else if (o && o->base_kind == PTX_O_VAR)
        v = rw_value_of_var(w, o->var, 0);
    if (v.mem && v.mem != RW_REACH_UNKNOWN && !(v.mem & RW_REACH_SIXTEENTHS) && width) {
        uint32_t at = b->shared_at[v.mem - 1];
        uint64_t size = rw_value_room(w, v.mem);
        bool wide = o->base_kind == PTX_O_REG && ptx_type_bytes(w->f->reg[o->reg].type) == 8;
        int64_t off = wide ? (int64_t)(v.v + (uint64_t)o->off) : (int32_t)(uint32_t)(v.v + (uint64_t)o->off);
        if (off >= 0 && (uint64_t)off + width <= size && at + (uint64_t)off + width <= w->ret->size) {
            for (uint64_t k = at + (uint64_t)off; k < at + (uint64_t)off + width; k++)
                w->ret->touched[n][k / 8] |= (uint8_t)(1u << (k % 8));
            if (w->spans)
                rw_reach_span(w, n, at + (uint32_t)off, width);
            return;
        }
    }
    w->ret->anywhere[n] = true;
}

/* The path comes to `at`, and is one with the path that is there. */
static void reach_go(struct rw_walk *w, unsigned k, uint32_t at)
{
    struct rw_path *p = &w->path[k];
    p->at = at < w->f->ninst ? w->next[at] : at;
    for (unsigned o = 0; o < w->npath; o++) {
        struct rw_path *q = &w->path[o];
        if (o == k || q->at != p->at)
            continue;
        for (uint32_t s = 0; s < w->nslot; s++)
            if (q->reg[s].v != p->reg[s].v || q->reg[s].mem != p->reg[s].mem)
                q->reg[s] = rw_value_unknown();
        struct rw_path gone = *p;
        *p = w->path[--w->npath];
        w->path[w->npath] = gone;
        return;
    }
}

static void reach_drop(struct rw_walk *w, unsigned k)
{
    struct rw_path gone = w->path[k];
    w->path[k] = w->path[--w->npath];
    w->path[w->npath] = gone;
}

static bool reach_same(const struct rw_value *x, const struct rw_value *y, uint32_t n)
{
    for (uint32_t s = 0; s < n; s++)
        if (x[s].v != y[s].v || x[s].mem != y[s].mem)
            return false;
    return true;
}

/* The path goes back from instruction n. Was all that follows walked before? If only addresses are as they were, what
 * has changed is forgotten. */
static bool walked(struct rw_walk *w, struct rw_path *p, uint32_t n)
{
    struct rw_rounds *l = &w->rounds[w->back[n] - 1];
    w->steps += w->nslot / 16;
    for (unsigned k = 0; k < RW_REACH_ROUNDS && k < l->seen; k++) {
        const struct rw_value *old = l->reg + (size_t)k * w->nslot;
        if (!reach_same(old, p->reg, w->naddress))
            continue;
        if (reach_same(old + w->naddress, p->reg + w->naddress, w->nslot - w->naddress))
            return true;
        for (uint32_t s = w->naddress; s < w->nslot; s++)
            if (!reach_same(old + s, p->reg + s, 1))
                p->reg[s] = rw_value_unknown();
        break;
    }
    memcpy(l->reg + (size_t)(l->seen++ % RW_REACH_ROUNDS) * w->nslot, p->reg, w->nslot * sizeof *p->reg);
    return false;
}

/* The path goes from n to a place there or before it. */
static void reach_back(struct rw_walk *w, unsigned k, uint32_t n, uint32_t to)
{
    if (!w->every && walked(w, &w->path[k], n))
        reach_drop(w, k);
    else
        reach_go(w, k, to);
}

static void branch(struct rw_walk *w, unsigned k, const struct ptx_inst *i)
{
    struct rw_path *p = &w->path[k];
    uint32_t n = p->at,
             to = i->op == PTX_OP_BRA && i->opnd[0].kind == PTX_O_LABEL ? w->target[i->opnd[0].label] : UINT32_MAX;
    int holds = guard(w, p, i);
    if (to == UINT32_MAX || (holds < 0 && w->npath == RW_REACH_PATHS)) {
        w->lost = true;
    } else if (holds < 0) {
        struct rw_path *q = &w->path[w->npath++];
        memcpy(q->reg, p->reg, w->nslot * sizeof *q->reg);
        w->steps += w->nslot / 4; /* in the measure of one instruction; the same again when they meet */
        q->at = UINT32_MAX;       /* not anywhere yet */
        unsigned other = w->npath - 1;
        if (to <= n)
            reach_back(w, other, n, to);
        else
            reach_go(w, other, to);
        for (unsigned at = 0; at < w->npath; at++) /* it may have been moved */
            if (w->path[at].at == n) {
                reach_go(w, at, n + 1);
                break;
            }
    } else if (holds && to <= n) {
        reach_back(w, k, n, to);
    } else {
        reach_go(w, k, holds ? to : n + 1);
    }
}

static void reach_step(struct rw_walk *w, unsigned k)
{
    struct rw_path *p = &w->path[k];
    const struct ptx_inst *i = &w->f->inst[p->at];
    int holds = guard(w, p, i);
    switch (w->event[p->at]) {
    case EV_BRANCH: branch(w, k, i); return;
    case EV_LEAVE:
        if (holds == 1)
            reach_drop(w, k);
        else
            reach_go(w, k, p->at + 1);
        return;
    case EV_SITE:
        if (holds)
            touch(w, p, p->at);
        /* fall through */
    default:
        if (holds) {
            struct forget q = {.w = w, .p = p, .v = rw_value_unknown(), .maybe = holds < 0};
            if (w->event[p->at] == EV_COMPUTE && i->nopnd && i->opnd[0].kind == PTX_O_REG &&
                (!i->dst2 || i->op == PTX_OP_SHFL)) {
                q.v = i->op == PTX_OP_SHFL ? rw_value_of_first_lane(w, p, p->at) : rw_value_of(w, p, i);
                q.only = true;
                q.reg = i->opnd[0].reg;
            }
            ptx_inst_regs(i, put, &q);
        }
        reach_go(w, k, p->at + 1);
    }
}

static void walk_thread(struct rw_walk *w)
{
    w->npath = 1;
    w->steps += w->nslot / 4;
    for (uint32_t b = 0; b < w->nback; b++)
        w->rounds[b].seen = 0;
    for (uint32_t s = 0; s < w->nslot; s++)
        w->path[0].reg[s] = rw_value_unknown();
    w->path[0].at = w->next[0];
    while (w->npath && !w->lost) {
        unsigned k = 0;
        for (unsigned o = 1; o < w->npath; o++)
            if (w->path[o].at < w->path[k].at)
                k = o;
        if (w->path[k].at >= w->f->ninst)
            reach_drop(w, k);
        else
            reach_step(w, k);
        w->steps += 1 + w->npath / 4;
        if (w->steps > STEPS)
            w->lost = true;
    }
}

static void depths(const struct rw_walk *w)
{
    const struct ptx_function *f = w->f;
    for (uint32_t n = 0; n < f->ninst; n++) {
        const struct ptx_inst *i = &f->inst[n];
        if (i->op != PTX_OP_BRA || i->opnd[0].kind != PTX_O_LABEL)
            continue;
        for (uint32_t k = w->target[i->opnd[0].label]; k <= n; k++)
            w->ret->deep[k]++;
    }
}

/* Is there what the walk cannot follow? */
static bool reach_strange(const struct rw_walk *w)
{
    bool strange = w->b->calls || w->b->threads > 1024;
    for (uint32_t n = 0; n < w->f->ninst && !strange; n++)
        strange = w->f->inst[n].op == PTX_OP_OPAQUE ||
                  ((ptx_op_info(w->f->inst[n].op)->flags & PTX_F_BRANCH) && w->f->inst[n].op != PTX_OP_BRA);
    return strange;
}

/* Room for what was seen at each branch back. */
static int rounds_room(struct rw_walk *w, struct dt_arena *a, struct dt_err *e)
{
    const struct ptx_function *f = w->f;
    w->back = dt_new_array(a, uint32_t, f->ninst + 1);
    for (uint32_t n = 0; w->back && n < f->ninst; n++)
        if (f->inst[n].op == PTX_OP_BRA && f->inst[n].opnd[0].kind == PTX_O_LABEL &&
            w->target[f->inst[n].opnd[0].label] <= n)
            w->back[n] = ++w->nback;
    w->every = (uint64_t)w->nback * w->nslot * RW_REACH_ROUNDS * sizeof(struct rw_value) > BYTES;
    w->rounds = dt_new_array(a, struct rw_rounds, w->nback + 1);
    for (uint32_t b = 0; w->rounds && b < w->nback && !w->every; b++)
        if (!(w->rounds[b].reg = dt_new_array(a, struct rw_value, (size_t)RW_REACH_ROUNDS * w->nslot + 1)))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
    return w->back && w->rounds ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

/* All threads. Is the place of every access known? */
static bool walk_block(struct rw_walk *w)
{
    const struct rw_body *b = w->b;
    bool places = true;
    w->steps = 0;
    w->lost = reach_strange(w);
    for (uint32_t n = 0; n < w->f->ninst; n++) {
        w->ret->anywhere[n] = false;
        if (w->ret->touched[n])
            memset(w->ret->touched[n], 0, w->ret->size / 8 + 1);
        if (w->spans)
            w->spans[n].v.n = 0, w->spans[n].many = false;
    }
    for (uint32_t t = 0; t < b->threads && !w->lost && b->shared_bytes; t++) {
        w->thread = t;
        if (t % 32 == 0)
            memset(w->told, 0, (w->f->ninst + (size_t)1) * sizeof *w->told);
        w->tid[0] = t % b->block[0];
        w->tid[1] = t / b->block[0] % b->block[1];
        w->tid[2] = t / b->block[0] / b->block[1];
        walk_thread(w);
    }
    for (uint32_t n = 0; n < w->f->ninst; n++)
        places &= !w->ret->anywhere[n];
    return places && !w->lost;
}

/* What was found thread by thread goes to the arena. */
static int reach_spans(struct dt_arena *a, struct rw_walk *w, struct dt_err *e)
{
    struct rw_reach *ret = w->ret;
    ret->span = (struct rw_span **)dt_new_array(a, struct rw_span *, w->f->ninst + 1);
    ret->nspan = dt_new_array(a, uint32_t, w->f->ninst + 1);
    if (!ret->span || !ret->nspan)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t n = 0; n < w->f->ninst; n++) {
        const struct rw_spans *l = &w->spans[n];
        if (w->event[n] != EV_SITE || l->many || ret->anywhere[n])
            continue;
        if (!(ret->span[n] = dt_new_array(a, struct rw_span, l->v.n + 1)))
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        memcpy(ret->span[n], l->v.p, l->v.n * sizeof *l->v.p);
        ret->nspan[n] = (uint32_t)l->v.n;
    }
    return 0;
}

int rw_reach_of(struct dt_arena *a, const struct rw_body *b, bool by_thread, struct rw_reach *ret, struct dt_err *e)
{
    const struct ptx_function *f = b->f;
    struct rw_walk w = {.b = b, .f = f, .ret = ret};
    struct dt_arena mine = {0};
    uint64_t bytes = 0;
    *ret = (struct rw_reach){.size = b->shared_bytes,
                             .touched = dt_new_array(a, uint8_t *, f->ninst + 1),
                             .anywhere = dt_new_array(a, bool, f->ninst + 1),
                             .deep = dt_new_array(a, uint32_t, f->ninst + 1)};
    w.slot = dt_new_array(a, uint32_t, f->nreg + 1);
    w.event = dt_new_array(a, uint8_t, f->ninst + 1);
    w.next = dt_new_array(a, uint32_t, f->ninst + 1);
    w.target = dt_new_array(a, uint32_t, f->nlabel + 1);
    w.told = dt_new_array(&mine, struct rw_told, f->ninst + 1);
    w.spans = by_thread ? dt_new_array(&mine, struct rw_spans, f->ninst + 1) : NULL;
    if (!ret->touched || !ret->anywhere || !ret->deep || !w.slot || !w.event || !w.next || !w.target || !w.told ||
        (by_thread && !w.spans)) {
        dt_arena_done(&mine);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    for (uint32_t k = 0; k < f->nlabel; k++)
        w.target[k] = UINT32_MAX;
    reach_mark(&w);
    depths(&w);
    for (uint32_t n = 0; n < f->ninst; n++) {
        if (w.event[n] != EV_SITE)
            continue;
        bytes += ret->size / 8 + 1;
        if (bytes > BYTES || !(ret->touched[n] = dt_new_array(a, uint8_t, ret->size / 8 + 1))) {
            dt_arena_done(&mine);
            return bytes > BYTES ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
        }
    }
    w.room = dt_calloc((size_t)RW_REACH_PATHS * w.nslot + 1, sizeof *w.room);
    int r = w.room ? rounds_room(&w, &mine, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r == 0) {
        for (unsigned k = 0; k < RW_REACH_PATHS; k++)
            w.path[k].reg = w.room + (size_t)k * w.nslot;
        if (!walk_block(&w) && !w.every) {
            w.every = true;
            walk_block(&w);
        }
        ret->known = !w.lost;
        if (ret->known && by_thread && (r = reach_spans(a, &w, e)) == 0)
            r = rw_reach_order(a, b, ret, e);
    }
    for (uint32_t n = 0; w.spans && n < f->ninst; n++)
        free(w.spans[n].v.p);
    free(w.room);
    dt_arena_done(&mine);
    return r;
}
