/* The fused kernel: two or more bodies in one entry.
 *
 *   .const .b8 dt_tab[…] = {…};                     lists of blocks and bases that are not affine; .global if too long
 *   .visible .entry fN(producer's parameters, consumer's parameters that differ)
 *   .maxntid T                                      T = the larger thread count, rounded up to warps
 *   {
 *       k = %ctaid.x; t = %tid.x;                   component; linear thread
 *       for each producer block b of component k:   several at once where abreast.c says so, t = %tid.x % its threads
 *           ctaid = (b % gx, b / gx % gy, b / gx / gy)
 *           if (t < producer's threads) BODY        ret -> end of the phase; surplus.c has more on the threads
 *           barrier.sync                            between successive virtual blocks, and between the phases
 *       for each consumer block b of component k: the same
 *   }
 *
 * Barrier numbers: bodies keep theirs. The barrier between virtual blocks has the first number that no body uses for
 * only a part of the threads. So it never shares a number with a counted barrier, but may share one with another
 * barrier; chains of any length need two numbers.
 *
 * Shared memory is one array. The bodies' own parts overlap at its start, since they never live at the same time; the
 * intermediates follow (rw_layout). Over the static limit the array is `extern`, and the launch carries its size.
 *
 * Level `cluster` (cluster.c): a cluster runs a component, k = %ctaid.x / size, and the lists are those of rank
 * %ctaid.x % size. If a body has barriers of the cluster, threads and ranks that it does not need skip it and pass the
 * same number of barriers: `IDLE: arrive, wait, …`.
 *
 * Block numbers and bases are affine, or read from constant memory at the start of a virtual block. The text is
 * verified, and must print and parse to itself, before it is returned (text.c). Legality is not checked here.
 */
#include "rewrite/emit/emit-priv.h"
#include "rewrite/emit/flow.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int join_nomem(struct rw_join *j) { return dt_err_set(j->e, DT_E_NOMEM, "out of memory"); }

const char *rw_rname(const struct rw_join *j, uint32_t reg) { return j->f->reg[reg].name; }

int rw_emit(struct rw_join *j, const char *fmt, ...)
{
    struct dt_str s = {0};
    va_list ap;
    va_start(ap, fmt);
    dt_str_addfv(&s, fmt, ap);
    va_end(ap);
    int r = s.failed || !s.s ? join_nomem(j) : ptx_append_text(j->f, j->e, "%s", s.s);
    dt_str_done(&s);
    return r < 0 ? r : 0;
}

int rw_emit_label(struct rw_join *j, uint32_t label)
{
    struct ptx_opnd o = {.kind = PTX_O_LABEL, .comp = -1, .label = label};
    struct ptx_inst i = {.op = PTX_OP_LABEL, .nopnd = 1, .pred = PTX_NO_REG, .vec = 1, .opnd = &o};
    return ptx_append(j->f, i) ? 0 : join_nomem(j);
}

int rw_emit_bra(struct rw_join *j, uint32_t label, uint32_t pred, bool neg)
{
    struct ptx_opnd o = {.kind = PTX_O_LABEL, .comp = -1, .label = label};
    struct ptx_inst i = {.op = PTX_OP_BRA, .nopnd = 1, .pred = pred, .pred_neg = neg, .vec = 1, .opnd = &o};
    return ptx_append(j->f, i) ? 0 : join_nomem(j);
}

static uint32_t new_reg(struct rw_join *j, enum ptx_type t, const char *hint)
{
    uint32_t r = ptx_reg_new(j->f, t, hint);
    if (r == PTX_NO_REG)
        join_nomem(j);
    return r;
}

/* ---- constant data ----------------------------------------------------------------------------------------------- */

struct table { /* where the parts of dt_tab lie; UINT32_MAX: not there */
    uint32_t row[RW_BODIES], col[RW_BODIES], *base;
};

static void join_put(struct dt_str *s, uint32_t v, unsigned bytes)
{
    for (unsigned k = 0; k < bytes; k++)
        dt_str_addc(s, (char)(v >> (8 * k)));
}

static int make_table(struct rw_join *j, struct table *t)
{
    struct rw_cand *c = j->c;
    struct dt_str s = {0};
    t->base = dt_new_array(&c->arena, uint32_t, c->nredirect + 1);
    if (!t->base)
        return join_nomem(j);
    for (uint32_t k = 0; rw_in_shared(c) && k < c->nredirect; k++) {
        t->base[k] = (uint32_t)s.len;
        for (uint32_t i = 0; !c->redirect[k].base_affine && i < c->lists.n; i++)
            join_put(&s, c->redirect[k].base[i], 4);
    }
    for (int w = 4; w >= 2; w -= 2) /* wide entries first, for alignment */
        for (uint32_t p = 0; p < c->facts.nbody; p++) {
            const struct rw_list *l = &c->lists.list[p];
            if (l->affine || l->narrow != (w == 2))
                continue;
            t->row[p] = (uint32_t)s.len;
            for (uint32_t i = 0; l->m == UINT32_MAX && i <= c->lists.n; i++)
                join_put(&s, l->row[i], (unsigned)w);
            t->col[p] = (uint32_t)s.len;
            for (uint32_t i = 0; i < l->row[c->lists.n]; i++)
                join_put(&s, l->col[i], (unsigned)w);
        }
    int r = 0;
    if (s.failed)
        r = join_nomem(j);
    else if (s.len) {
        char name[160];
        snprintf(name, sizeof name, "%s_tab", c->made.entry);
        j->table = rw_table_new(j->m, name, s.len, c->flow ? RW_FLOW_SPARE : 0);
        if (!j->table)
            r = join_nomem(j);
        else
            memcpy(j->table->init, s.s, s.len);
    }
    dt_str_done(&s);
    return r;
}

/* reg = table[at + size * index] */
static int emit_lookup(struct rw_join *j, uint32_t reg, uint32_t at, unsigned size, uint32_t index, unsigned plus)
{
    uint32_t a = new_reg(j, PTX_B64, "dt_a"), b = new_reg(j, PTX_B64, "dt_b");
    if (a == PTX_NO_REG || b == PTX_NO_REG)
        return DT_E_NOMEM;
    const char *A = rw_rname(j, a), *B = rw_rname(j, b);
    int r = rw_emit(j, "mov.u64 %s, %s;", A, j->table->name);
    if (r < 0 || (r = rw_emit(j, "mul.wide.u32 %s, %s, %u;", B, rw_rname(j, index), size)) < 0 ||
        (r = rw_emit(j, "add.s64 %s, %s, %s;", A, A, B)) < 0)
        return r;
    return rw_emit(j, "ld.%s.u%u %s, [%s+%u];", rw_table_space(j->table), size * 8, rw_rname(j, reg), A, at + plus);
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

bool rw_reads_sreg(const struct ptx_function *f, unsigned sreg, int comp)
{
    for (uint32_t n = 0; n < f->ninst; n++)
        for (unsigned k = 0; k < f->inst[n].nopnd; k++) {
            const struct ptx_opnd *o = &f->inst[n].opnd[k];
            if (o->kind == PTX_O_SREG && o->sreg == sreg && (o->comp == comp || o->comp < 0))
                return true;
        }
    return false;
}

/* out = v / div % mod (div 1: none, mod 0: none) */
static int emit_divmod(struct rw_join *j, uint32_t out, uint32_t v, uint32_t div, uint32_t mod)
{
    const char *O = rw_rname(j, out), *V = rw_rname(j, v);
    int r = 0;
    if (div > 1) {
        if ((div & (div - 1)) == 0)
            r = rw_emit(j, "shr.u32 %s, %s, %d;", O, V, __builtin_ctz(div));
        else
            r = rw_emit(j, "div.u32 %s, %s, %u;", O, V, div);
        V = O;
    }
    if (r == 0 && mod) {
        if ((mod & (mod - 1)) == 0)
            r = rw_emit(j, "and.b32 %s, %s, %u;", O, V, mod - 1);
        else
            r = rw_emit(j, "rem.u32 %s, %s, %u;", O, V, mod);
        V = O;
    }
    if (r == 0 && V != O)
        r = rw_emit(j, "mov.b32 %s, %s;", O, V);
    return r;
}

/* Put the coordinates of linear number v, in a space of sizes dim, into reg[], as far as the body reads them. */
static int emit_coords(struct rw_join *j, const struct ptx_function *f, unsigned sreg, uint32_t v,
                       const uint32_t dim[3], uint32_t reg[3], const char *hint)
{
    for (int k = 0; k < 3; k++) {
        reg[k] = PTX_NO_REG;
        if (!rw_reads_sreg(f, sreg, k) || dim[k] <= 1)
            continue;
        if ((reg[k] = new_reg(j, PTX_U32, hint)) == PTX_NO_REG)
            return DT_E_NOMEM;
        uint32_t below = k == 0 ? 1 : k == 1 ? dim[0] : dim[0] * dim[1];
        uint32_t above = k == 0 ? dim[1] * dim[2] : k == 1 ? dim[2] : 1;
        int r = emit_divmod(j, reg[k], v, below, above > 1 ? dim[k] : 0);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The block numbers of a body that has clusters of its own. */
static int emit_cluster(struct rw_join *j, const struct rw_body *b, uint32_t blk, struct rw_phase *p)
{
    for (int k = 0; k < 3; k++)
        p->in_cluster[k] = p->cluster_of[k] = PTX_NO_REG;
    if (!b->ranks || j->rank == PTX_NO_REG)
        return 0;
    int r = emit_coords(j, b->f, PTX_SR_CLUSTER_CTAID, j->rank, b->cluster, p->in_cluster, "dt_in");
    if (r == 0)
        r = emit_coords(j, b->f, PTX_SR_CLUSTERID, blk, b->grid, p->cluster_of, "dt_cl");
    for (int k = 0; k < 3 && r == 0; k++)
        if (p->cluster_of[k] != PTX_NO_REG && b->cluster[k] > 1)
            r = emit_divmod(j, p->cluster_of[k], p->cluster_of[k], b->cluster[k], 0);
    return r;
}

/* For each redirected buffer, the base that is subtracted from its addresses. */
static int emit_bases(struct rw_join *j, struct rw_phase *p, const struct table *t)
{
    struct rw_cand *c = j->c;
    int r = 0;
    p->base = dt_new_array(&c->arena, uint32_t, c->nredirect + 1);
    p->origin = dt_new_array(&c->arena, uint32_t, c->nredirect + 1);
    if (!p->base || !p->origin)
        return join_nomem(j);
    for (uint32_t k = 0; rw_in_shared(c) && k < c->nredirect; k++) {
        const struct rw_redirect *q = &c->redirect[k];
        /* offsets count from the component's base; cluster.c finds rank and place */
        bool away = c->cluster && p->side == 1 && !q->own;
        uint32_t b = p->base[k] = new_reg(j, PTX_B32, "dt_base"), o = p->origin[k] = new_reg(j, PTX_B32, "dt_org");
        if (b == PTX_NO_REG || o == PTX_NO_REG)
            return DT_E_NOMEM;
        const char *B = rw_rname(j, b), *O = rw_rname(j, o);
        if (!q->base_affine && away) /* the base of rank 0 */
            r = rw_emit(j, "mul.lo.s32 %s, %s, %u;", B, rw_rname(j, j->k), c->cluster);
        if (!q->base_affine)
            r = r < 0 ? r : emit_lookup(j, b, t->base[k], 4, away ? b : j->item, 0);
        else if (q->base_b == 0)
            r = rw_emit(j, "mov.b32 %s, %lld;", B, (long long)(int32_t)q->base_a);
        else
            r = rw_emit(j, "mad.lo.s32 %s, %s, %lld, %lld;", B, rw_rname(j, j->k), (long long)(int32_t)q->base_b,
                        (long long)(int32_t)q->base_a);
        if (r == 0 && c->cluster && !away && q->base_affine && q->step)
            r = rw_emit(j, "mad.lo.s32 %s, %s, %u, %s;", B, rw_rname(j, j->rank), q->step, B);
        if (r < 0)
            return r;
        if (!q->drop_arg && q->args[p->side]) {
            unsigned arg = (unsigned)__builtin_ctzll(q->args[p->side]);
            const struct ptx_var *from = c->facts.body[p->side].f->param[arg];
            uint32_t off, w = new_reg(j, PTX_B64, "dt_w"), x = new_reg(j, PTX_B32, "dt_x");
            struct ptx_var *to = rw_map_var(j, p->side, from, &off);
            if (w == PTX_NO_REG || x == PTX_NO_REG || !to)
                return join_nomem(j);
            const char *W = rw_rname(j, w), *X = rw_rname(j, x);
            uint64_t at = 0, begin = 0;
            /* rw_sites_alone has seen that it has one */
            rw_arg_address(&c->facts.body[p->side].step->launch->arg[arg], &at, &begin);
            long long offset = (int32_t)(uint32_t)begin;
            if ((r = rw_emit(j, "ld.param.u64 %s, [%s+%llu];", W, to->name, (unsigned long long)at)) < 0 ||
                (r = rw_emit(j, "cvt.u32.u64 %s, %s;", X, W)) < 0 ||
                (r = rw_emit(j, "add.s32 %s, %s, %s;", B, B, X)) < 0 ||
                (offset && (r = rw_emit(j, "sub.s32 %s, %s, %lld;", B, B, offset)) < 0))
                return r;
        }
        if ((r = rw_emit(j, "mov.u32 %s, %s;", O, j->smem->name)) < 0 ||
            (q->at && (r = rw_emit(j, "add.s32 %s, %s, %u;", O, O, q->at)) < 0) ||
            (!q->pitch && !away && (r = rw_emit(j, "sub.s32 %s, %s, %s;", B, B, O)) < 0))
            return r;
    }
    return 0;
}

/* The barrier between virtual blocks; id UINT_MAX: of the whole cluster. */
int rw_emit_phase_barrier(struct rw_join *j, unsigned id)
{
    bool warp = false;
    int r = 0;
    for (uint32_t s = 0; s < j->c->facts.nbody; s++)
        warp |=
            j->c->facts.body[s].convergent ||
            (j->c->facts.body[s].lockstep && rw_surplus_threads(j->c, s) % 32 == 0 && j->c->facts.body[s].threads % 32);
    /* bodies with warp collectives need whole warps again after a divergent exit, and lanes that work together, too */
    if (warp)
        r = rw_emit(j, "bar.warp.sync -1;");
    if (r < 0 || id != UINT_MAX)
        return r < 0 ? r : rw_emit(j, "barrier.sync %u;", id);
    r = rw_emit(j, "barrier.cluster.arrive.release;");
    return r < 0 ? r : rw_emit(j, "barrier.cluster.wait.acquire;");
}

/* Divide the threads into groups of `threads`. Registers: the thread's group, its number in the group, and the place of
 * the group's block in the list. */
static int emit_groups(struct rw_join *j, uint32_t threads, uint32_t *group, uint32_t *index, uint32_t *t)
{
    uint32_t first = new_reg(j, PTX_U32, "dt_g0");
    *group = new_reg(j, PTX_U32, "dt_g");
    *index = new_reg(j, PTX_U32, "dt_ig");
    *t = new_reg(j, PTX_U32, "dt_tg");
    if (first == PTX_NO_REG || *group == PTX_NO_REG || *index == PTX_NO_REG || *t == PTX_NO_REG)
        return DT_E_NOMEM;
    int r = emit_divmod(j, *group, j->t, threads, 0);
    if (r == 0)
        r = rw_emit(j, "mul.lo.s32 %s, %s, %u;", rw_rname(j, first), rw_rname(j, *group), threads);
    return r < 0 ? r : rw_emit(j, "sub.s32 %s, %s, %s;", rw_rname(j, *t), rw_rname(j, j->t), rw_rname(j, first));
}

/* Threads that run no block of a body in clusters pass as many barriers as those that do. */
static int emit_idle(struct rw_join *j, const struct rw_body *b)
{
    int r = 0;
    for (int k = 0; k < b->meets && r == 0; k++)
        r = rw_emit_phase_barrier(j, UINT_MAX);
    return r;
}

/* Surplus lanes run the phase as its last thread: *t becomes a register with the number as which a thread runs it. */
static int emit_surplus(struct rw_join *j, struct rw_phase *p, uint32_t threads, uint32_t *t)
{
    uint8_t *own_only = NULL;
    struct rw_find lost;
    int r = rw_surplus(&j->c->arena, &j->c->facts, (uint32_t)p->side, &own_only, &lost, j->e);
    if (r < 0)
        return r;
    uint32_t as = new_reg(j, PTX_U32, "dt_as");
    p->own_only = own_only;
    p->own = new_reg(j, PTX_PRED, "dt_own");
    if (as == PTX_NO_REG || p->own == PTX_NO_REG)
        return DT_E_NOMEM;
    r = rw_emit(j, "setp.lt.u32 %s, %s, %u;", rw_rname(j, p->own), rw_rname(j, *t), threads);
    if (r == 0)
        r = rw_emit(j, "min.u32 %s, %s, %u;", rw_rname(j, as), rw_rname(j, *t), threads - 1);
    *t = as;
    return r;
}

static int emit_phase(struct rw_join *j, int side, const struct table *t, unsigned barrier)
{
    struct rw_cand *c = j->c;
    const struct rw_body *b = &c->facts.body[side];
    const struct rw_list *l = &c->lists.list[side];
    struct rw_phase p = {.side = side,
                         .open = c->facts.open[side],
                         .mask = c->shares ? c->shares[side].keep : NULL,
                         .only = c->shares ? c->shares[side].only : NULL,
                         .run = c->shares ? c->shares[side].run : NULL};
    const struct ptx_function *f = b->f;
    /* group t / threads has block I + group of the list */
    uint32_t w = c->abreast[side], group = PTX_NO_REG, index = PTX_NO_REG, t_of = j->t;
    /* in the last round not all groups have a block */
    bool loop = (l->m == UINT32_MAX ? l->max : l->m) > w, rest = w > 1 && (l->m == UINT32_MAX || l->m % w);
    int r;
    if (l->m == 0)
        return 0;
    p.reg = dt_new_array(&c->arena, uint32_t, f->nreg + 1);
    p.label = dt_new_array(&c->arena, uint32_t, f->nlabel + 1);
    if (!p.reg || !p.label)
        return join_nomem(j);
    for (uint32_t k = 0; k < f->nreg; k++) {
        if ((p.reg[k] = new_reg(j, f->reg[k].type, side ? "c" : "p")) == PTX_NO_REG)
            return DT_E_NOMEM;
        j->f->reg[p.reg[k]].vec = f->reg[k].vec;
    }
    for (uint32_t k = 0; k < f->nlabel; k++)
        if ((p.label[k] = ptx_label_new(j->f, side ? "C" : "P")) == UINT32_MAX)
            return join_nomem(j);
    p.end = ptx_label_new(j->f, side ? "CEND" : "PEND");
    uint32_t top = ptx_label_new(j->f, side ? "CTOP" : "PTOP"), out = ptx_label_new(j->f, side ? "COUT" : "POUT"),
             end = out;
    /* there are fused blocks without a block of it, or threads without a part */
    bool idle = b->ranks && b->meets > 0 && (b->threads != c->threads || l->m == UINT32_MAX);
    if (idle)
        out = ptx_label_new(j->f, side ? "CIDLE" : "PIDLE");
    uint32_t blk = new_reg(j, PTX_U32, "dt_blk"), i = new_reg(j, PTX_U32, "dt_i"), n = new_reg(j, PTX_U32, "dt_n");
    uint32_t pr = new_reg(j, PTX_PRED, "dt_p"), skip = new_reg(j, PTX_PRED, "dt_skip"),
             first = new_reg(j, PTX_U32, "dt_first");
    if (p.end == UINT32_MAX || top == UINT32_MAX || out == UINT32_MAX || first == PTX_NO_REG || pr == PTX_NO_REG ||
        skip == PTX_NO_REG || n == PTX_NO_REG || i == PTX_NO_REG || blk == PTX_NO_REG)
        return join_nomem(j);
    const char *K = rw_rname(j, l->ranks ? j->k : j->item), *BLK = rw_rname(j, blk), *I = rw_rname(j, i),
               *N = rw_rname(j, n), *P = rw_rname(j, pr), *FIRST = rw_rname(j, first);
    const uint32_t threads = rw_surplus_threads(c, (uint32_t)side);
    p.barrier_count = threads == c->threads ? 0 : threads;
    if (w > 1 && (r = emit_groups(j, b->threads, &group, &index, &t_of)) < 0)
        return r;
    if (threads != b->threads && (r = emit_surplus(j, &p, b->threads, &t_of)) < 0)
        return r;
    if (c->pack && (r = rw_subblock_begin(j, &p, group)) < 0)
        return r;
    if ((r = emit_coords(j, f, PTX_SR_TID, t_of, b->block, p.tid, "dt_tid")) < 0 || (r = emit_bases(j, &p, t)) < 0 ||
        (r = rw_emit_among(j, &p, f, t_of)) < 0 || (r = rw_emit_zeros(j, side, t_of)) < 0)
        return r;
    /* the component's blocks: i runs to n; the affine list steps blk, the table is read at first + i */
    if (l->affine) {
        r = l->b == 1 && !l->a ? rw_emit(j, "mov.b32 %s, %s;", BLK, K)
            : l->b             ? rw_emit(j, "mad.lo.s32 %s, %s, %lld, %lld;", BLK, K, (long long)(int32_t)l->b,
                                         (long long)(int32_t)l->a)
                               : rw_emit(j, "mov.b32 %s, %lld;", BLK, (long long)(int32_t)l->a);
        if (r == 0 && w > 1 && l->c)
            r = rw_emit(j, "mad.lo.s32 %s, %s, %lld, %s;", BLK, rw_rname(j, group), (long long)(int32_t)l->c, BLK);
        if (r == 0 && l->ranks && l->d)
            r = rw_emit(j, "mad.lo.s32 %s, %s, %lld, %s;", BLK, rw_rname(j, j->rank), (long long)(int32_t)l->d, BLK);
        if (r == 0 && l->ranks && l->ranks < c->cluster &&
            (r = rw_emit(j, "setp.ge.u32 %s, %s, %u;", P, rw_rname(j, j->rank), l->ranks)) == 0)
            r = rw_emit_bra(j, out, pr, false);
    } else if (l->m != UINT32_MAX) {
        r = rw_emit(j, "mul.lo.s32 %s, %s, %u;", FIRST, K, l->m);
    } else {
        unsigned size = l->narrow ? 2 : 4;
        if ((r = emit_lookup(j, first, t->row[side], size, j->item, 0)) < 0 ||
            (r = emit_lookup(j, n, t->row[side], size, j->item, size)) < 0 ||
            (r = rw_emit(j, "setp.ge.u32 %s, %s, %s;", P, FIRST, N)) < 0)
            return r;
        r = rw_emit_bra(j, out, pr, false);
    }
    if (r < 0)
        return r;
    if (l->affine && (loop || rest) && (r = rw_emit(j, "mov.b32 %s, 0;", I)) < 0)
        return r;
    if (!l->affine && (r = rw_emit(j, "mov.b32 %s, %s;", I, FIRST)) < 0)
        return r;
    if (!l->affine && l->m != UINT32_MAX && (loop || rest) &&
        (r = rw_emit(j, "add.s32 %s, %s, %u;", N, FIRST, l->m)) < 0)
        return r;
    if (loop && (r = rw_emit_label(j, top)) < 0)
        return r;
    if (threads * w != c->threads) {
        /* a predicate of its own: `skip` differs between threads, `pr` never does, and facts/vary.c has one state per
         * register */
        if ((r = rw_emit(j, "setp.ge.u32 %s, %s, %u;", rw_rname(j, skip), rw_rname(j, j->t), threads * w)) < 0 ||
            (r = rw_emit_bra(j, idle ? out : p.end, skip, false)) < 0)
            return r;
    }
    if (w > 1 && (rest || !l->affine) &&
        (r = rw_emit(j, "add.s32 %s, %s, %s;", rw_rname(j, index), I, rw_rname(j, group))) < 0)
        return r;
    if (rest) {
        r = l->affine ? rw_emit(j, "setp.ge.u32 %s, %s, %u;", rw_rname(j, skip), rw_rname(j, index), l->m)
                      : rw_emit(j, "setp.ge.u32 %s, %s, %s;", rw_rname(j, skip), rw_rname(j, index), N);
        if (r < 0 || (r = rw_emit_bra(j, p.end, skip, false)) < 0)
            return r;
    }
    if (c->pack && b->step->blocks % w) { /* the last pack is not full: whole subblocks leave */
        if ((r = rw_emit(j, "setp.ge.u32 %s, %s, %u;", rw_rname(j, skip), BLK, b->step->blocks)) < 0 ||
            (r = rw_emit_bra(j, p.end, skip, false)) < 0)
            return r;
    }
    if (!l->affine && (r = emit_lookup(j, blk, t->col[side], l->narrow ? 2 : 4, w > 1 ? index : i, 0)) < 0)
        return r;
    if ((r = emit_coords(j, f, PTX_SR_CTAID, blk, b->grid, p.ctaid, "dt_ctaid")) < 0 ||
        (r = emit_cluster(j, b, blk, &p)) < 0)
        return r;
    if ((r = rw_copy_body(j, &p)) < 0 || (r = rw_emit_label(j, p.end)) < 0)
        return r;
    if (b->cp_async && (r = rw_emit(j, "cp.async.wait_all;")) < 0)
        return r;
    if (loop) {
        if (l->affine && l->c &&
            (r = rw_emit(j, "add.s32 %s, %s, %lld;", BLK, BLK, (long long)(int32_t)(l->c * w))) < 0)
            return r;
        if ((r = rw_emit(j, "add.s32 %s, %s, %u;", I, I, w)) < 0)
            return r;
        r = l->affine ? rw_emit(j, "setp.ge.u32 %s, %s, %u;", P, I, l->m)
                      : rw_emit(j, "setp.ge.u32 %s, %s, %s;", P, I, N);
        if (r < 0 || (r = rw_emit_bra(j, out, pr, false)) < 0 || (r = rw_emit_phase_barrier(j, barrier)) < 0 ||
            (r = rw_emit_bra(j, top, PTX_NO_REG, false)) < 0)
            return r;
    }
    if (idle && ((r = rw_emit_bra(j, end, PTX_NO_REG, false)) < 0 || (r = rw_emit_label(j, out)) < 0 ||
                 (r = emit_idle(j, b)) < 0))
        return r;
    return rw_emit_label(j, end);
}

/* A number for the barrier between virtual blocks. The row `barrier_numbers` has checked that one is left. */
static unsigned phase_barrier(const struct rw_cand *c)
{
    int id = rw_phase_barrier(c);
    return id < 0 ? 0 : (unsigned)id;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

/* The target on which both run: the higher one; if they are equal, the one for a single chip (sm_90a before sm_90). */
const char *rw_target_of(const char *a, const char *b)
{
    const char *t[2] = {a ? a : "", b ? b : ""};
    long rank[2];
    for (int k = 0; k < 2; k++) {
        const char *s = strstr(t[k], "sm_");
        char *end = "";
        rank[k] = s ? strtol(s + 3, &end, 10) * 2 : 0;
        rank[k] += *end != 0;
    }
    return rank[0] >= rank[1] ? t[0] : t[1];
}

/* Emit the bodies one after the other, with a barrier between. With clusters it is the cluster's barrier, and there is
 * one at the end too if others may still read this block's shared memory. */
static int emit_phases(struct rw_join *j, const struct table *t)
{
    const struct rw_comps *q = &j->c->lists;
    unsigned id = phase_barrier(j->c);
    bool own = j->c->cluster && rw_cluster_own_pairs(j->c), away = false;
    int r = 0;
    for (uint32_t k = 0; k < j->c->nredirect; k++)
        away |= !j->c->redirect[k].own;
    for (uint32_t s = 0; s < j->c->facts.nbody && r == 0; s++) {
        if (s && j->c->cluster)
            r = rw_emit_phase_barrier(j, own ? id : UINT_MAX);
        else if (s && q->list[s - 1].m && q->list[s].m)
            r = rw_emit_phase_barrier(j, id);
        if (r == 0)
            r = emit_phase(j, (int)s, t, id);
    }
    if (r == 0 && j->c->cluster && away)
        r = rw_emit_phase_barrier(j, UINT_MAX);
    return r;
}

/* Emit the bodies side by side: the block number says which one runs. */
static int emit_beside(struct rw_join *j, const struct table *t)
{
    const struct rw_cand *c = j->c;
    int r = 0;
    for (uint32_t s = 0; s < c->facts.nbody && r == 0; s++) {
        uint32_t other = new_reg(j, PTX_PRED, "dt_other"), next = ptx_label_new(j->f, "NEXT");
        if (other == PTX_NO_REG || next == UINT32_MAX)
            return join_nomem(j);
        if (s + 1 < c->facts.nbody &&
            ((r = rw_emit(j, "setp.ge.u32 %s, %s, %u;", rw_rname(j, other), rw_rname(j, j->k), c->beside[s + 1])) < 0 ||
             (r = rw_emit_bra(j, next, other, false)) < 0))
            return r;
        if ((r = emit_phase(j, (int)s, t, 0)) < 0)
            return r;
        bool signals = c->flow && rw_flow_signals(c, s);
        if (s + 1 < c->facts.nbody &&
            (r = signals ? rw_emit_bra(j, c->flow->tail, PTX_NO_REG, false) : rw_emit(j, "ret;")) == 0)
            r = rw_emit_label(j, next);
    }
    return r;
}

int rw_join(struct rw_cand *c, struct dt_err *e)
{
    const char *target = c->facts.body[0].f->module->target;
    unsigned v = 600; /* barrier.sync and bar.warp.sync */
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        const struct ptx_module *m = c->facts.body[s].f->module;
        if (m->version_major * 100 + m->version_minor > v)
            v = m->version_major * 100 + m->version_minor;
        target = rw_target_of(target, m->target);
    }
    if (c->flow) { /* nanosleep, and words between blocks */
        v = v > 630 ? v : 630;
        target = rw_target_of(target, "sm_70");
    }
    if (c->cluster) {
        v = v < 800 ? 800 : v; /* barrier.cluster with .release and .acquire */
        target = rw_target_of(target, "sm_90");
    }
    struct rw_join j = {.c = c, .e = e, .rank = PTX_NO_REG};
    struct table t = {0};
    dt_str_done(&c->made.ptx);
    c->made.zero_word = false; /* a barrier stands between them */
    j.m = ptx_module_new(v / 100, v % 100, target);
    if (!j.m)
        return join_nomem(&j);
    j.m->address_size = 64;
    rw_far_tables(c, j.far);
    int r = 0;
    for (uint32_t s = 0; s < c->facts.nbody && r == 0; s++)
        r = rw_copy_module_data(&j, (int)s);
    if (r < 0)
        goto out;
    if ((r = make_table(&j, &t)) < 0 || (c->flow && (r = rw_flow_module(&j)) < 0))
        goto out;
    j.f = ptx_function_new(j.m, c->made.entry, true);
    if (!j.f) {
        r = join_nomem(&j);
        goto out;
    }
    j.f->visible = true;
    j.f->has_body = true;
    j.f->maxntid[0] = c->threads;
    j.f->maxntid[1] = j.f->maxntid[2] = 1;
    j.f->minnctapersm = c->resident;
    if (c->cluster) {
        j.f->reqnctapercluster[0] = c->cluster;
        j.f->reqnctapercluster[1] = j.f->reqnctapercluster[2] = 1;
    }
    if ((r = rw_make_params(&j)) < 0 || (r = rw_make_shared(&j)) < 0 || (c->flow && (r = rw_flow_declare(&j)) < 0))
        goto out;
    for (uint32_t s = 0; s < c->facts.nbody; s++)
        if ((r = rw_copy_local_data(&j, (int)s)) < 0)
            goto out;
    j.t = new_reg(&j, PTX_U32, "dt_t");
    j.k = j.item = new_reg(&j, PTX_U32, "dt_k");
    if (c->cluster) {
        j.item = new_reg(&j, PTX_U32, "dt_item");
        j.rank = new_reg(&j, PTX_U32, "dt_rank");
    }
    if (j.t == PTX_NO_REG || j.k == PTX_NO_REG || j.item == PTX_NO_REG || (c->cluster && j.rank == PTX_NO_REG)) {
        r = DT_E_NOMEM;
        goto out;
    }
    if ((r = rw_emit(&j, "mov.u32 %s, %%tid.x;", rw_rname(&j, j.t))) < 0 ||
        (r = c->flow ? rw_flow_begin(&j, phase_barrier(c))
                     : rw_emit(&j, "mov.u32 %s, %%ctaid.x;", rw_rname(&j, j.item))) < 0 ||
        (c->cluster && ((r = emit_divmod(&j, j.k, j.item, c->cluster, 0)) < 0 ||
                        (r = emit_divmod(&j, j.rank, j.item, 1, c->cluster)) < 0)) ||
        (r = c->beside ? emit_beside(&j, &t) : emit_phases(&j, &t)) < 0 || (r = rw_emit(&j, "ret;")) < 0 ||
        (c->flow && (r = rw_flow_end(&j, phase_barrier(c))) < 0))
        goto out;
    r = rw_text(j.m, c->facts.prog, &c->made.ptx, e);
out:
    free(j.vars.p);
    free(j.funcs.p);
    ptx_module_free(j.m);
    return r;
}
