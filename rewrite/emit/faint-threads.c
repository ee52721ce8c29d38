/* What a part of a kernel needs, thread by thread: for parts whose stores are made by some of the threads alone, as
 * where a product's tile goes out by one store of all threads.
 *
 *   whole                        the threads whose number has bit 2 clear
 *   st.shared [r], acc0          kept: its bytes are read by loads that these threads need
 *   st.shared [r ^ 4], acc1      gone, and so is the mma that makes acc1
 *   ld.shared x, [q]             kept, made by all; only what these threads read counts
 *   st.global [y], x             made by these threads
 *
 * As faint.c, but each register is live in a set of threads, and each instruction needed in one:
 *
 *   other threads     an instruction that is kept is made by all threads, as posted, but for what is told below. In a
 *                     thread that does not need it, it may compute from what nobody computes any more. So addresses,
 *                     predicates of accesses, and what branches and effects take, are needed in every thread
 *   collectives       a warp needs what one of its lanes needs; whether it makes them is known in every warp
 *   ldmatrix          a matrix is needed if its register is, in a lane of the warp, and is read at the addresses of its
 *                     own eight lanes. The others are loaded, too, from bytes that may be anything
 *   stmatrix          the other way: the register of a matrix is needed if what is stored at the addresses of its eight
 *                     lanes is read
 *   shared memory     a store is needed in the threads whose bytes a needed load reads in a thread that needs it
 *                     (rw_reach.span), and can see (reach-order.c). Where that is not known of one of them, in all
 *   groups            a product of a warp group (wgmma) is needed by whole groups of four warps, made by these alone
 *   only              the part's stores are made by its threads alone. Loads, and copies from global to shared memory,
 *                     by the least set of the form `these bits of the number have this value` with all threads in need
 */
#include "rewrite/emit/part-priv.h"

#include "rewrite/facts/hooks.h"

#include <stdlib.h>
#include <string.h>

#define WORDS 1000000 /* of sets of threads: registers, by blocks of the control flow */

struct thin {
    const struct rw_body *b;
    const struct rw_reach *r;
    const uint8_t *mine;
    const struct rw_share *ret;
    struct ptx_cfg cfg;
    size_t w;                         /* words of a set of threads */
    uint64_t *all, *own, *want, *now; /* sets: all threads; who makes the part's stores; at hand */
    const uint64_t *take;             /* in which threads operands are taken */
    uint64_t *need;                   /* by instruction */
    uint64_t *in, *live;              /* by block and register; by register, at the place at hand */
    uint8_t *read;                    /* by class of loads: bytes of shared memory, as bits */
    uint32_t bytes;                   /* of one class */
    bool all_read, more;
};

static bool thin_add(const struct thin *x, uint64_t *to, const uint64_t *from)
{
    uint64_t more = 0;
    for (size_t k = 0; k < x->w; k++) {
        more |= from[k] & ~to[k];
        to[k] |= from[k];
    }
    return more;
}

static bool thin_any(const struct thin *x, const uint64_t *set)
{
    uint64_t some = 0;
    for (size_t k = 0; k < x->w; k++)
        some |= set[k];
    return some;
}

/* Whole groups of four warps. */
static void thin_widen_groups(const struct thin *x, uint64_t *set)
{
    for (size_t k = 0; k < x->w; k += 2) {
        uint64_t some = set[k] | (k + 1 < x->w ? set[k + 1] : 0);
        for (size_t q = k; some && q < k + 2 && q < x->w; q++)
            set[q] = x->all[q];
    }
}

/* Whole warps. */
static void thin_widen(const struct thin *x, uint64_t *set)
{
    for (size_t k = 0; k < x->w; k++) {
        uint64_t low = set[k] & UINT32_MAX ? UINT32_MAX : 0, high = set[k] >> 32 ? (uint64_t)UINT32_MAX << 32 : 0;
        set[k] = (low | high) & x->all[k];
    }
}

static uint64_t *live_of(const struct thin *x, uint32_t reg) { return x->live + reg * x->w; }

static void thin_wanted(uint32_t reg, bool write, void *user)
{
    struct thin *x = user;
    if (write && reg <= x->b->f->nreg)
        thin_add(x, x->want, live_of(x, reg));
}

static void thin_kills(uint32_t reg, bool write, void *user)
{
    struct thin *x = user;
    if (write && reg <= x->b->f->nreg)
        memset(live_of(x, reg), 0, x->w * sizeof *x->live);
}

static void thin_takes(uint32_t reg, bool write, void *user)
{
    struct thin *x = user;
    if (!write && reg <= x->b->f->nreg)
        thin_add(x, live_of(x, reg), x->take);
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

static bool thin_known(const struct thin *x, uint32_t n)
{
    return x->r->known && !x->r->anywhere[n] && x->r->touched[n];
}

static bool thin_spans(const struct thin *x, uint32_t n) { return x->r->span && x->r->span[n]; }

/* The load is needed in the threads `set`. */
static void thin_reads(struct thin *x, uint32_t n, const uint64_t *set)
{
    const struct rw_reach *r = x->r;
    if (!thin_add(x, x->ret->reads + n * x->w, set) || x->all_read)
        return;
    x->more = true;
    if (!thin_known(x, n) || !r->nclass) {
        x->all_read = true;
        return;
    }
    uint8_t *read = x->read + (size_t)r->class_of[n] * x->bytes;
    for (uint32_t k = 0; !thin_spans(x, n) && k < x->bytes; k++)
        read[k] |= r->touched[n][k];
    for (uint32_t k = 0; thin_spans(x, n) && k < r->nspan[n]; k++) {
        const struct rw_span *s = &r->span[n][k];
        for (uint32_t q = s->at; (set[s->thread / 64] >> (s->thread % 64) & 1) && q < s->at + (uint32_t)s->width; q++)
            read[q / 8] |= (uint8_t)(1u << (q % 8));
    }
}

/* Of eight bytes, those that needed loads read and see what store n writes there. */
static unsigned seen(const struct thin *x, uint32_t n, uint32_t k)
{
    const struct rw_reach *r = x->r;
    unsigned all = 0;
    for (uint32_t c = 0; c < r->nclass; c++) {
        uint8_t sight = r->sight[c][n], bits = x->read[(size_t)c * x->bytes + k];
        all |= sight == RW_SEES_ALL ? bits : sight == RW_SEES_REST ? bits & ~r->covered[c][k] : 0;
    }
    return all;
}

static bool span_is_read(const struct thin *x, uint32_t n, const struct rw_span *s)
{
    for (uint32_t k = s->at; k < s->at + (uint32_t)s->width; k = (k | 7) + 1) {
        uint32_t left = s->at + (uint32_t)s->width - k, in = 8 - k % 8;
        if (seen(x, n, k / 8) >> (k % 8) & ((1u << (left < in ? left : in)) - 1))
            return true;
    }
    return false;
}

/* Adds the threads whose bytes a needed load may reach. */
static void thin_is_read(const struct thin *x, uint32_t n, uint64_t *set)
{
    const struct rw_reach *r = x->r;
    if (RW_SPOILT("reach"))
        return;
    bool some = x->all_read || !thin_known(x, n);
    for (uint32_t k = 0; !some && !thin_spans(x, n) && k < x->bytes; k++)
        some = r->touched[n][k] & seen(x, n, k);
    if (some)
        thin_add(x, set, x->all);
    for (uint32_t k = 0; !some && thin_spans(x, n) && k < r->nspan[n]; k++) {
        const struct rw_span *s = &r->span[n][k];
        if (!(set[s->thread / 64] >> (s->thread % 64) & 1) && span_is_read(x, n, s))
            set[s->thread / 64] |= UINT64_C(1) << (s->thread % 64);
    }
}

const struct ptx_opnd *rw_matrices(const struct ptx_inst *i)
{
    const struct ptx_opnd *d = &i->opnd[i->op == PTX_OP_STMATRIX ? 1 : 0];
    bool moves = i->op == PTX_OP_LDMATRIX || i->op == PTX_OP_STMATRIX;
    return moves && ptx_has(i, PTX_M_M8N8) && d->kind == PTX_O_VEC && d->n <= 4 ? d : NULL;
}

/* The threads whose addresses an ldmatrix reads at for registers that are live; of other instructions, `want`. */
static const uint64_t *at_whose_places(struct thin *x, const struct ptx_inst *i)
{
    const struct ptx_opnd *d = rw_matrices(i);
    if (!d)
        return x->want;
    memset(x->now, 0, x->w * sizeof *x->now);
    for (unsigned m = 0; m < d->n; m++) {
        if (d->elem[m].kind != PTX_O_REG)
            continue;
        const uint64_t *live = live_of(x, d->elem[m].reg);
        for (size_t k = 0; k < x->w; k++) {
            x->now[k] |= live[k] & UINT32_MAX ? UINT64_C(0xff) << 8 * m : 0;
            x->now[k] |= live[k] >> 32 ? UINT64_C(0xff) << (32 + 8 * m) : 0;
        }
    }
    return x->now;
}

/* ---- instructions ------------------------------------------------------------------------------------------------ */

/* The value that a store takes, apart from where it goes. */
static const struct ptx_opnd *thin_value(const struct ptx_inst *i)
{
    if (i->op == PTX_OP_STMATRIX && rw_is_shared_store(i))
        return rw_matrices(i);
    return i->op == PTX_OP_ST && i->nopnd > 1 && (rw_is_part_store(i) || rw_is_shared_store(i)) ? &i->opnd[1] : NULL;
}

/* The registers of the matrices that are stored at places that somebody reads, `now`. */
static void thin_take_matrices(struct thin *x, const struct ptx_opnd *d)
{
    uint64_t *set = x->want;
    for (unsigned m = 0; m < d->n; m++) {
        for (size_t k = 0; k < x->w; k++)
            set[k] = x->now[k] & ((UINT64_C(0xff) << 8 * m) | (UINT64_C(0xff) << (32 + 8 * m)));
        thin_widen(x, set);
        x->take = set;
        if (d->elem[m].kind == PTX_O_REG)
            thin_takes(d->elem[m].reg, false, x);
    }
}

static void thin_take_all(struct thin *x, const struct ptx_inst *i)
{
    const struct ptx_opnd *v = thin_value(i);
    unsigned flags = ptx_op_info(i->op)->flags;
    bool access = rw_has_effect(i) || (flags & (PTX_F_READS | PTX_F_WRITES | PTX_F_ATOMIC)) ||
                  i->op == PTX_OP_SHFL; /* whose lanes, and of whom, has to be right in every warp */
    x->take = access && !v && !rw_is_group_product(i) ? x->all : x->want;
    if (!v) {
        rw_faint_regs(x->b->f, i, thin_takes, x);
        x->take = x->all; /* a warp makes a collective as a whole, or not */
        if (i->pred != PTX_NO_REG && rw_is_pure_collective(i))
            thin_takes(i->pred, false, x);
        return;
    }
    if (i->op == PTX_OP_STMATRIX)
        thin_take_matrices(x, v);
    for (unsigned k = 0; i->op == PTX_OP_ST && k < (v->kind == PTX_O_VEC ? v->n : 1u); k++) {
        const struct ptx_opnd *o = v->kind == PTX_O_VEC ? &v->elem[k] : v;
        if (o->kind == PTX_O_REG)
            thin_takes(o->reg, false, x);
    }
    x->take = x->all;
    if (i->pred != PTX_NO_REG)
        thin_takes(i->pred, false, x);
    if (i->opnd[0].kind == PTX_O_ADDR && i->opnd[0].base_kind == PTX_O_REG)
        thin_takes(i->opnd[0].reg, false, x);
    for (unsigned k = 2; k < i->nopnd; k++) /* a policy */
        if (i->opnd[k].kind == PTX_O_REG)
            thin_takes(i->opnd[k].reg, false, x);
}

/* One instruction, from behind it to before it. */
static void thin_one(struct thin *x, uint32_t n)
{
    const struct ptx_inst *i = &x->b->f->inst[n];
    uint64_t *need = x->need + n * x->w;
    memcpy(x->want, need, x->w * sizeof *need);
    if (rw_has_effect(i))
        thin_add(x, x->want, x->all);
    if (rw_is_part_store(i) && x->mine[n])
        thin_add(x, x->want, x->own);
    if (rw_is_shared_store(i)) {
        memset(x->now, 0, x->w * sizeof *x->now);
        thin_is_read(x, n, x->now);
        thin_add(x, x->want, x->now);
    }
    rw_faint_regs(x->b->f, i, thin_wanted, x);
    if (!thin_any(x, x->want))
        return;
    if (rw_is_pure_collective(i) || (ptx_op_info(i->op)->flags & PTX_F_CONVERGENT))
        thin_widen(x, x->want);
    if (rw_is_group_product(i))
        thin_widen_groups(x, x->want);
    x->more |= thin_add(x, need, x->want);
    if (rw_may_read_shared(i))
        thin_reads(x, n, at_whose_places(x, i));
    rw_faint_regs(x->b->f, i, thin_kills, x);
    thin_take_all(x, i);
}

static void thin_block(struct thin *x, uint32_t k)
{
    const struct ptx_block *q = &x->cfg.block[k];
    size_t set = (x->b->f->nreg + (size_t)1) * x->w;
    uint64_t *in = x->in + k * set;
    memset(x->live, 0, set * sizeof *x->live);
    for (uint32_t s = 0; s < q->nsucc; s++)
        for (size_t w = 0; w < set; w++)
            x->live[w] |= x->in[q->succ[s] * set + w];
    for (uint32_t n = q->last + 1; n-- > q->first;)
        thin_one(x, n);
    for (size_t w = 0; w < set; w++) {
        x->more |= (x->live[w] & ~in[w]) != 0;
        in[w] |= x->live[w];
    }
}

/* ---- what is made of it ------------------------------------------------------------------------------------------ */

/* The least set of that form that has all of `set`, which is not empty. */
static struct rw_threads hull(const struct thin *x, const uint64_t *set)
{
    uint32_t some = 0, differ = 0;
    bool first = true;
    for (uint32_t t = 0; t < x->b->threads; t++) {
        if (!(set[t / 64] >> (t % 64) & 1))
            continue;
        some = first ? t : some;
        differ |= t ^ some;
        first = false;
    }
    uint32_t bits = 0;
    while ((UINT32_C(1) << bits) < x->b->threads)
        bits++;
    uint32_t same = ~differ & ((UINT32_C(1) << bits) - 1);
    return (struct rw_threads){(uint16_t)same, (uint16_t)(some & same)};
}

/* May it be left out in threads that do not need it, and is that worth a predicate? */
static bool may_leave(const struct ptx_inst *i)
{
    return !rw_has_effect(i) &&
           (rw_is_group_product(i) || (i->op == PTX_OP_LD && (i->space == PTX_GLOBAL || i->space == PTX_SHARED)) ||
            (i->op == PTX_OP_CP_ASYNC && rw_is_shared_store(i)));
}

/* Are all threads that need the instruction among these? */
static bool thin_within(const struct thin *x, uint32_t n, struct rw_threads set)
{
    const uint64_t *need = x->need + n * x->w;
    for (uint32_t t = 0; t < x->b->threads; t++)
        if ((need[t / 64] >> (t % 64) & 1) && !rw_is_among(set, t))
            return false;
    return true;
}

/* Whose products are kept, if all are the same threads'; else nobody's. */
static struct rw_threads thin_groups(const struct thin *x)
{
    struct rw_threads all = {0};
    for (uint32_t n = 0; n < x->b->f->ninst; n++) {
        struct rw_threads own = x->ret->only[n];
        if (!x->ret->keep[n] || !rw_is_group_product(&x->b->f->inst[n]))
            continue;
        if (!own.bits || (all.bits && (own.bits != all.bits || own.value != all.value)))
            return (struct rw_threads){0};
        all = own;
    }
    return all;
}

/* May a run that these threads alone make go on over the instruction? */
static bool run_over(const struct thin *x, uint32_t n, struct rw_threads set)
{
    const struct ptx_inst *i = &x->b->f->inst[n];
    if (!x->ret->keep[n] && i->op != PTX_OP_LABEL)
        return true;
    if (rw_is_group_product(i) || rw_is_group_order(i))
        return i->pred == PTX_NO_REG;
    return !rw_has_effect(i) && !rw_is_shared_store(i) && !rw_is_part_store(i) && !x->ret->only[n].bits &&
           thin_within(x, n, set);
}

/* Products of some groups are made behind one branch, with what begins and ends them: if each had a predicate, the
 * assembler would wait for each of them. */
static void thin_runs(const struct thin *x)
{
    struct rw_threads set = thin_groups(x);
    memset(x->ret->run, 0, x->b->f->ninst * sizeof *x->ret->run);
    for (uint32_t n = 0; n < x->b->f->ninst && set.bits; n++) {
        uint32_t end = n;
        bool product = false;
        if (!x->ret->keep[n] || !(rw_is_group_product(&x->b->f->inst[n]) || rw_is_group_order(&x->b->f->inst[n])))
            continue;
        for (uint32_t k = n; k < x->b->f->ninst && run_over(x, k, set); k++) {
            const struct ptx_inst *i = &x->b->f->inst[k];
            bool group = x->ret->keep[k] && (rw_is_group_product(i) || rw_is_group_order(i));
            product |= group && rw_is_group_product(i);
            end = group ? k + 1 : end;
        }
        for (uint32_t k = n; k < end && product; k++)
            if (rw_is_group_order(&x->b->f->inst[k]))
                x->ret->only[k] = (struct rw_threads){set.bits, RW_SPOILT("order") ? set.value ^ set.bits : set.value};
        x->ret->run[n] = product ? end : 0;
        n = end > n ? end - 1 : n;
    }
}

static void thin_share(const struct thin *x, struct rw_threads among)
{
    for (uint32_t n = 0; n < x->b->f->ninst; n++) {
        const struct ptx_inst *i = &x->b->f->inst[n];
        const uint64_t *need = x->need + n * x->w;
        x->ret->keep[n] = thin_any(x, need);
        x->ret->only[n] = (struct rw_threads){0};
        if (x->ret->keep[n] && rw_is_part_store(i))
            x->ret->only[n] = among;
        else if (x->ret->keep[n] && may_leave(i))
            x->ret->only[n] = hull(x, need);
    }
    thin_runs(x);
}

bool rw_faint_can(const struct rw_body *b)
{
    uint64_t blocks = 1;
    for (uint32_t n = 0; n < b->f->ninst; n++)
        blocks += b->f->inst[n].op == PTX_OP_LABEL ||
                  (ptx_op_info(b->f->inst[n].op)->flags & (PTX_F_BRANCH | PTX_F_TERMINATOR)) != 0;
    return b->threads && b->threads <= 1024 && blocks * (b->f->nreg + 1) * rw_thread_words(b) <= WORDS;
}

int rw_faint_threads(const struct rw_body *b, const struct rw_reach *r, const uint8_t *mine, struct rw_threads among,
                     const struct rw_share *ret, struct dt_err *e)
{
    const struct ptx_function *f = b->f;
    struct thin x = {.b = b, .r = r, .mine = mine, .ret = ret, .w = rw_thread_words(b), .more = true};
    int rc = ptx_cfg_build(f, &x.cfg, e);
    if (rc < 0)
        return rc;
    size_t set = (f->nreg + (size_t)1) * x.w;
    uint64_t *sets = dt_calloc(4 * x.w, sizeof *sets);
    x.need = dt_calloc((size_t)f->ninst * x.w + 1, sizeof *x.need);
    x.in = dt_calloc(set * x.cfg.nblock + 1, sizeof *x.in);
    x.live = dt_calloc(set, sizeof *x.live);
    x.bytes = r->size / 8 + 1;
    x.read = dt_calloc((size_t)x.bytes * RW_REACH_CLASSES, 1);
    if (!sets || !x.need || !x.in || !x.live || !x.read) {
        rc = dt_err_set(e, DT_E_NOMEM, "out of memory");
    } else {
        uint64_t **at[] = {&x.all, &x.own, &x.want, &x.now};
        for (size_t k = 0; k < sizeof at / sizeof *at; k++)
            *at[k] = sets + k * x.w;
        for (uint32_t t = 0; t < b->threads; t++) {
            x.all[t / 64] |= UINT64_C(1) << (t % 64);
            x.own[t / 64] |= (uint64_t)rw_is_among(among, t) << (t % 64);
        }
        memset(ret->reads, 0, (size_t)f->ninst * x.w * sizeof *ret->reads);
        while (x.more) {
            x.more = false;
            for (uint32_t k = x.cfg.nblock; k-- > 0;)
                thin_block(&x, k);
        }
        thin_share(&x, among);
    }
    free(sets);
    free(x.need);
    free(x.in);
    free(x.live);
    free(x.read);
    ptx_cfg_done(&x.cfg);
    return rc;
}
