/* Copies: who reads what a launch only copied reads it where it came from.
 *
 *   before    copy: h[0, 4K) = g[0, 4K)     b reads h         h is nobody's afterwards
 *   after     copy                          b reads g         nobody reads h any more: the copy is dead (kinds/dead.c)
 *
 * Generators have launches for reshapes, which move no byte anywhere but from one buffer to another. Here only the
 * readers' pointers change: kernels and launches stay, so this is a step of the same kind as versions, and comes after
 * them (in a memory pool the source's bytes are soon another tensor's). That the copy goes away is dead-blocks' matter.
 *
 *   only_moves     the launch is a copy step, or its kernel stores just what it loads, every element at one distance:
 *                  no loop, no barrier, no call; each address is a parameter plus a register plus a number; where a
 *                  store and its load have the same register, which is written once, their distance is that of the
 *                  parameters and numbers
 *   source_stays   a reader has all of its bytes there from the copy; until it has read them nobody, it included,
 *                  writes them or where they came from; nobody else reads the copy, and it does not leave the graph
 *   same_places    asked of the new graph's maps: every block touches just the bytes that it touched before, but for
 *                  those that were read in the copy and are read at its source
 *
 * The distance is a multiple of 256 bytes, so that alignment is what it was.
 *
 * A copy of a copy reads at the first one's source, as any reader; where it has the same bytes, its own readers can
 * read there, too, and so on: rows of copies go as wholes. Launches are looked at in order, so the first one is settled
 * when the second is looked at. Its readers are asked `source_stays` of that source from the second copy on; up to
 * there the second copy was asked itself.
 *
 * Not here: copies with another order (transposes, pads: level register inlines them where it can, one into the next).
 */
#include "rewrite/facts/hooks.h"
#include "rewrite/normal/normal.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

#define ALIGN 256
#define MOST_LAUNCHES 4096 /* every copy is compared with every launch behind it */

/* ---- is it a copy? ----------------------------------------------------------------------------------------------- */

struct place { /* an address: a parameter, plus a register, plus a number */
    const struct ptx_var *param;
    uint32_t index; /* PTX_NO_REG: none */
    int64_t off;
};
struct movement {
    const struct ptx_function *f;
    uint32_t *def; /* by register: the one instruction that writes it, 0: none; UINT32_MAX: several. One more than its
                    * number */
    uint32_t at;
};

static void movement_def(uint32_t reg, bool write, void *user)
{
    struct movement *m = user;
    if (write)
        m->def[reg] = m->def[reg] ? UINT32_MAX : m->at + 1;
}

static const struct ptx_inst *defined(const struct movement *m, uint32_t reg)
{
    const struct ptx_inst *i = m->def[reg] && m->def[reg] != UINT32_MAX ? &m->f->inst[m->def[reg] - 1] : NULL;
    return i && i->pred == PTX_NO_REG ? i : NULL;
}

/* The place that a register holds, if it is one; depth: so many instructions are followed. */
static bool place_of(const struct movement *m, uint32_t reg, unsigned depth, struct place *ret)
{
    const struct ptx_inst *i = depth ? defined(m, reg) : NULL;
    if (!i)
        return false;
    const struct ptx_opnd *s = i->nopnd > 1 ? &i->opnd[1] : NULL;
    if (i->op == PTX_OP_LD && i->space == PTX_PARAM && i->vec == 1 && ptx_type_bytes(i->type[0]) == 8 &&
        s->kind == PTX_O_ADDR && s->base_kind == PTX_O_VAR && s->off == 0) {
        *ret = (struct place){s->var, PTX_NO_REG, 0};
        return true;
    }
    if ((i->op == PTX_OP_CVTA || i->op == PTX_OP_MOV) && s && s->kind == PTX_O_REG && s->comp < 0 &&
        (i->op == PTX_OP_MOV || i->space == PTX_GLOBAL))
        return place_of(m, s->reg, depth - 1, ret);
    if (i->op != PTX_OP_ADD || i->nmod || ptx_type_bytes(i->type[0]) != 8 || ptx_type_is_float(i->type[0]))
        return false;
    for (unsigned k = 1; k < 3; k++) {
        const struct ptx_opnd *a = &i->opnd[k], *b = &i->opnd[3 - k];
        if (a->kind != PTX_O_REG || a->comp >= 0 || !place_of(m, a->reg, depth - 1, ret))
            continue;
        if (b->kind == PTX_O_IMM)
            ret->off += (int64_t)b->bits;
        else if (b->kind == PTX_O_REG && b->comp < 0 && ret->index == PTX_NO_REG && m->def[b->reg] != UINT32_MAX)
            ret->index = b->reg;
        else
            return false;
        return true;
    }
    return false;
}

static bool access_place(const struct movement *m, const struct ptx_opnd *o, struct place *ret)
{
    if (o->kind != PTX_O_ADDR || o->base_kind != PTX_O_REG || o->n || !place_of(m, o->reg, 8, ret))
        return false;
    ret->off += o->off;
    return true;
}

/* May this instruction stand in a kernel that only moves? Branches lead forward, labels apart. */
static bool moves_only(const struct ptx_function *f, uint32_t at, bool *seen)
{
    const struct ptx_inst *i = &f->inst[at];
    if (i->op == PTX_OP_LABEL)
        seen[i->opnd[0].label] = true;
    if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA)
        return true;
    if (i->op == PTX_OP_OPAQUE || i->op == PTX_OP_CALLPROTO || i->op == PTX_OP_BRANCHTARGETS)
        return false;
    unsigned flags = ptx_op_info(i->op)->flags;
    bool memory = flags & (PTX_F_READS | PTX_F_WRITES);
    if (flags & (PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_ATOMIC | PTX_F_CALL | PTX_F_SIDE))
        return false;
    if (memory && i->op != PTX_OP_LD && i->op != PTX_OP_ST)
        return false;
    if (memory && i->space != PTX_GLOBAL && !(i->space == PTX_PARAM && i->op == PTX_OP_LD))
        return false;
    if (memory && (ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_RELAXED) || ptx_has(i, PTX_M_ACQUIRE) ||
                   ptx_has(i, PTX_M_RELEASE) || ptx_has(i, PTX_M_L2_HINT)))
        return false;
    if (i->op == PTX_OP_BRA && seen[i->opnd[0].label]) /* its label must come later */
        return false;
    return i->op == PTX_OP_BRA || !(flags & PTX_F_BRANCH);
}

static int argument_of(const struct ptx_function *f, const struct dt_launch *l, const struct ptx_var *v)
{
    for (uint32_t k = 0; k < f->nparam && k < l->narg; k++)
        if (f->param[k] == v)
            return l->arg[k].kind == DT_ARG_BUFFER ? (int)k : -1;
    return -1;
}

/* The store `at` moves what one load loaded: from argument, to argument and distance in bytes of their buffers. */
static bool store_moves(const struct movement *m, const struct dt_launch *l, uint32_t at, struct rw_copy *c)
{
    const struct ptx_inst *st = &m->f->inst[at], *ld = NULL;
    const struct ptx_opnd *v = &st->opnd[1];
    struct place to, from;
    unsigned n = v->kind == PTX_O_VEC ? v->n : 1;
    for (unsigned k = 0; k < n; k++) {
        const struct ptx_opnd *x = n > 1 || v->kind == PTX_O_VEC ? &v->elem[k] : v;
        uint32_t d = x->kind == PTX_O_REG && x->comp < 0 ? m->def[x->reg] : 0;
        const struct ptx_inst *i = d && d != UINT32_MAX && d - 1 < at ? &m->f->inst[d - 1] : NULL;
        if (!i || (ld && i != ld) || i->op != PTX_OP_LD || i->space != PTX_GLOBAL || i->vec != st->vec)
            return false;
        const struct ptx_opnd *y = i->opnd[0].kind == PTX_O_VEC ? &i->opnd[0].elem[k] : &i->opnd[0];
        if (i->opnd[0].kind != v->kind || y->kind != PTX_O_REG || y->reg != x->reg)
            return false;
        ld = i;
    }
    if (!ld || ptx_type_bytes(ld->type[0]) != ptx_type_bytes(st->type[0]) || !access_place(m, &st->opnd[0], &to) ||
        !access_place(m, &ld->opnd[1], &from) || to.index != from.index)
        return false;
    int a = argument_of(m->f, l, to.param), b = argument_of(m->f, l, from.param);
    if (a < 0 || b < 0)
        return false;
    int64_t by = ((int64_t)l->arg[b].offset + from.off) - ((int64_t)l->arg[a].offset + to.off);
    if (c->known && (c->to != l->arg[a].buffer || c->from != l->arg[b].buffer || c->by != by))
        return false;
    c->known = true;
    c->to = l->arg[a].buffer;
    c->from = l->arg[b].buffer;
    c->by = by;
    return c->to != c->from;
}

/* 1: it only moves, *c says where; 0: it does not; negative: memory. */
static int only_moves(const struct dev_prog *p, uint32_t launch, struct rw_copy *c)
{
    const struct dt_launch *l = &p->graph->launch[launch];
    const struct ptx_function *f = p->step[launch].entry;
    bool moves = true;
    memset(c, 0, sizeof *c);
    if (l->kind == DT_COPY) {
        *c = (struct rw_copy){launch, l->dst, l->src, (int64_t)l->src_offset - (int64_t)l->dst_offset, true};
        return c->to != c->from;
    }
    if (l->kind != DT_KERNEL || !f || l->cluster[0])
        return 0;
    struct movement m = {.f = f, .def = dt_calloc((size_t)f->nreg + 1, sizeof *m.def)};
    bool *seen = dt_calloc((size_t)f->nlabel + 1, sizeof *seen);
    if (!m.def || !seen) {
        free(m.def);
        free(seen);
        return DT_E_NOMEM;
    }
    for (m.at = 0; m.at < f->ninst && moves; m.at++) {
        moves = moves_only(f, m.at, seen);
        if (moves && f->inst[m.at].op != PTX_OP_LABEL && f->inst[m.at].op != PTX_OP_PRAGMA)
            ptx_inst_regs(&f->inst[m.at], movement_def, &m);
    }
    for (uint32_t k = 0; k < f->ninst && moves; k++)
        if (f->inst[k].op == PTX_OP_ST)
            moves = store_moves(&m, l, k, c);
    free(m.def);
    free(seen);
    c->launch = launch;
    return moves && c->known;
}

/* What nobody proved, for tests: as if the kernel moved its first buffer to its second one. */
static bool taken_for_one(const struct dev_prog *p, uint32_t launch, struct rw_copy *c)
{
    const struct dt_launch *l = &p->graph->launch[launch];
    if (l->kind != DT_KERNEL || l->narg != 2 || l->arg[0].kind != DT_ARG_BUFFER || l->arg[1].kind != DT_ARG_BUFFER)
        return false;
    *c = (struct rw_copy){launch, l->arg[1].buffer, l->arg[0].buffer, 0, true};
    return true;
}

/* ---- who reads it ------------------------------------------------------------------------------------------------ */

static struct ana_set by_bytes(struct dt_arena *a, struct ana_set s, int64_t by)
{
    struct ana_set r = {dt_new_array(a, struct ana_interval, (size_t)s.n + 1), s.n};
    for (uint32_t k = 0; r.iv && k < s.n; k++)
        r.iv[k] = (struct ana_interval){s.iv[k].lo + (uint64_t)by, s.iv[k].hi + (uint64_t)by};
    if (!r.iv)
        r.n = 0;
    return r;
}

/* Bytes that the launch writes for certain. */
static struct ana_set surely(const struct ana_result *r, uint32_t launch, uint32_t buffer)
{
    for (uint32_t k = 0; k < r->launch[launch].naccess; k++)
        if (r->launch[launch].access[k].buffer == buffer && r->launch[launch].access[k].writes)
            return r->launch[launch].access[k].must;
    return (struct ana_set){0};
}

/* Move the pointers of launch l into the copy, if l reads it. False: it cannot be, `why` says so. */
static bool move_reader(const struct ana_result *r, const struct rw_copy *c, uint32_t l, struct rw_copies *x,
                        struct dt_arena *a, struct dt_str *why)
{
    const struct dt_graph *g = r->prog->graph;
    struct ana_set copied = surely(r, c->launch, c->to), reads = rw_launch_bytes(a, r, l, c->to, false),
                   source = by_bytes(a, reads, c->by);
    if (!ana_set_overlaps(reads, copied))
        return true;
    if (ana_set_minus(a, reads, copied).n || rw_launch_bytes(a, r, l, c->to, true).n) {
        dt_str_addf(why, DT_LAUNCH " reads more of " DT_BUFFER " than was copied there, or writes there",
                    g->launch[l].name, g->buffer[c->to].name);
        return false;
    }
    for (uint32_t k = c->launch + 1; k <= l && !rw_off("source_stays"); k++)
        if (ana_set_overlaps(rw_launch_bytes(a, r, k, c->from, true), source) ||
            ana_set_overlaps(rw_launch_bytes(a, r, k, c->to, true), reads)) {
            dt_str_addf(why, DT_LAUNCH " writes what " DT_LAUNCH " reads", g->launch[k].name, g->launch[l].name);
            return false;
        }
    for (size_t k = 0; k < x->at.v.n; k++) {
        if (x->at.v.p[k].launch != l || x->at.v.p[k].buffer != c->to)
            continue;
        int64_t off = (int64_t)x->at.v.p[k].offset + c->by;
        if (off < 0 || (uint64_t)off >= g->buffer[c->from].bytes) {
            dt_str_addf(why, DT_LAUNCH " has a pointer that would leave " DT_BUFFER, g->launch[l].name,
                        g->buffer[c->from].name);
            return false;
        }
        x->buffer[k] = c->from;
        x->offset[k] = (uint64_t)off;
    }
    return true;
}

/* Where reads of the buffer by launch l are now. */
static uint32_t moved_to(const struct rw_copies *c, uint32_t l, uint32_t buffer, int64_t *ret_by)
{
    *ret_by = 0;
    for (size_t k = 0; k < c->at.v.n; k++)
        if (c->at.v.p[k].launch == l && c->at.v.p[k].buffer == buffer && c->buffer[k] != buffer) {
            *ret_by = (int64_t)c->offset[k] - (int64_t)c->at.v.p[k].offset;
            return c->buffer[k];
        }
    return buffer;
}

/* The second of two copies, if the first one moved it: what it copies came from there. False: in place. */
static bool from_the_first(const struct rw_copies *x, struct rw_copy *c)
{
    int64_t by;
    c->from = moved_to(x, c->launch, c->from, &by);
    c->by += by;
    return c->from != c->to;
}

/* Move all readers of a copy, or none. */
static int move_readers(const struct ana_result *r, const struct rw_copy *c, struct rw_copies *x, struct dt_str *why,
                        struct dt_err *e)
{
    const struct dt_graph *g = r->prog->graph;
    struct dt_arena a = {0};
    size_t n = x->at.v.n;
    dt_free_ uint32_t *buffer = dt_calloc(n + 1, sizeof *buffer);
    dt_free_ uint64_t *offset = dt_calloc(n + 1, sizeof *offset);
    bool ok = buffer && offset;
    if (!ok)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memcpy(buffer, x->buffer, n * sizeof *buffer);
    memcpy(offset, x->offset, n * sizeof *offset);
    if (c->by % ALIGN) {
        dt_str_addf(why, "the distance is no multiple of %d bytes", ALIGN);
        ok = false;
    } else if (g->buffer[c->from].module >= 0 || g->buffer[c->to].module >= 0) {
        dt_str_add(why, "a module variable is no place for a pointer");
        ok = false;
    }
    for (uint32_t l = c->launch + 1; l < g->nlaunch && ok; l++)
        ok = move_reader(r, c, l, x, &a, why);
    bool moved = ok && memcmp(buffer, x->buffer, n * sizeof *buffer) != 0;
    bool failed = dt_arena_failed(&a);
    dt_arena_done(&a);
    if (failed)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (!moved) {
        memcpy(x->buffer, buffer, n * sizeof *buffer);
        memcpy(x->offset, offset, n * sizeof *offset);
    }
    return moved;
}

int rw_copies_find(const struct dev_prog *p, const struct ana_result *r, struct rw_copies *ret, struct dt_err *e)
{
    const struct dt_graph *g = p->graph;
    memset(ret, 0, sizeof *ret);
    int x = rw_pointers_of(g, &ret->at, e);
    size_t n = x == 0 ? ret->at.v.n : 0;
    ret->buffer = dt_calloc(n + 1, sizeof *ret->buffer);
    ret->offset = dt_calloc(n + 1, sizeof *ret->offset);
    if (x == 0 && (!ret->buffer || !ret->offset))
        x = dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (size_t k = 0; k < n && x >= 0; k++) {
        ret->buffer[k] = ret->at.v.p[k].buffer;
        ret->offset[k] = ret->at.v.p[k].offset;
    }
    for (uint32_t l = 0; l < g->nlaunch && x >= 0 && g->nlaunch <= MOST_LAUNCHES; l++) {
        struct rw_copy c;
        int is = only_moves(p, l, &c);
        if (!is && rw_off("only_moves"))
            is = taken_for_one(p, l, &c);
        if (!is && RW_SPOILT("moves") && taken_for_one(p, l, &c)) { /* so that somebody says so */
            struct rw_copied q = {.copy = c};
            dt_str_add(&q.why, DT_ROW("only-moves") ": it does not only move bytes");
            x = dt_push(&ret->v, q) ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
            continue;
        }
        /* what leaves the graph must be written */
        if (is <= 0 || !rw_passing(&g->buffer[c.to]) || !from_the_first(ret, &c)) {
            x = is < 0 ? dt_err_set(e, is, "out of memory") : 0;
            continue;
        }
        struct rw_copied q = {.copy = c};
        dt_str_add(&q.why, DT_ROW("source-stays") ": ");
        size_t none = q.why.len;
        x = move_readers(r, &c, ret, &q.why, e);
        q.kept = x > 0;
        if (x >= 0 && q.why.len == none)
            dt_str_done(&q.why);
        ret->n += q.kept;
        if (x >= 0 && !dt_push(&ret->v, q))
            x = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return x < 0 ? x : 0;
}

void rw_copies_done(struct rw_copies *c)
{
    for (size_t k = 0; k < c->v.n; k++)
        dt_str_done(&c->v.p[k].why);
    free(c->v.p);
    free(c->at.v.p);
    free(c->buffer);
    free(c->offset);
    memset(c, 0, sizeof *c);
}

/* ---- the new graph's maps ---------------------------------------------------------------------------------------- */

static bool block_same(const struct rw_copies *c, uint32_t l, const struct ana_block *x, const struct ana_block *y,
                       uint32_t buffer)
{
    struct dt_arena a = {0};
    struct ana_set want[3] = {{0}}, have[3] = {{0}};
    for (uint32_t k = 0; k < x->ntouch; k++) {
        const struct ana_touch *t = &x->touch[k];
        int64_t by;
        if (moved_to(c, l, t->buffer, &by) == buffer)
            want[0] = ana_set_union(&a, want[0], by ? by_bytes(&a, t->read, by) : t->read);
        if (t->buffer == buffer) {
            want[1] = t->must_write;
            want[2] = t->may_write;
        }
    }
    for (uint32_t k = 0; k < y->ntouch; k++)
        if (y->touch[k].buffer == buffer) {
            have[0] = y->touch[k].read;
            have[1] = y->touch[k].must_write;
            have[2] = y->touch[k].may_write;
        }
    bool same = true;
    for (int k = 0; k < 3; k++)
        same = same && !ana_set_minus(&a, want[k], have[k]).n && !ana_set_minus(&a, have[k], want[k]).n;
    same = same && !dt_arena_failed(&a);
    dt_arena_done(&a);
    return same;
}

bool rw_copies_same(const struct ana_result *now, const struct ana_result *next, const struct rw_copies *c,
                    struct dt_str *why)
{
    bool same = true;
    for (uint32_t l = 0; l < now->prog->graph->nlaunch && same && !rw_off("same_places"); l++) {
        const struct ana_launch *x = &now->launch[l], *y = &next->launch[l];
        same = x->nblock == y->nblock;
        for (uint32_t b = 0; b < x->nblock && same; b++) {
            for (uint32_t k = 0; k < x->block[b].ntouch && same; k++)
                same = block_same(c, l, &x->block[b], &y->block[b], x->block[b].touch[k].buffer);
            for (uint32_t k = 0; k < y->block[b].ntouch && same; k++)
                same = block_same(c, l, &x->block[b], &y->block[b], y->block[b].touch[k].buffer);
        }
        if (!same)
            dt_str_addf(why, DT_LAUNCH " touches other bytes where it reads what was copied",
                        now->prog->graph->launch[l].name);
    }
    return same;
}
