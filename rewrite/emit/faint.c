/* What a part of a kernel needs: the instructions whose effect somebody sees, and those whose value they take.
 *
 *   needed from the start   branches and ends, barriers, whatever has an effect of its own (atomics, calls, stores that
 *                           are not divided, volatile accesses), and the part's own stores
 *   then                    whoever writes a register that is live behind it; and only what is needed makes registers
 *                           live. So an accumulator that feeds only itself is not needed (it is faint), in a loop too
 *   and                     a store to shared memory, if a byte that it may write is one that a needed access may read
 *                           (reach.c), or if that is not known of one of the two
 *   until                   nothing is added any more
 *
 * So loops, barriers and all that guards them stay, and what stays is in the posted order. A product of matrices is
 * needed or not, as a whole, and so is a vector. Loads that nobody needs go: they cannot fault, since the posted kernel
 * makes them. Of shared memory the order of accesses is not looked at: more stays than has to.
 */
#include "rewrite/emit/part-priv.h"

#include "rewrite/facts/hooks.h"

#include <stdlib.h>
#include <string.h>

struct faint {
    const struct rw_body *b;
    const struct rw_reach *r;
    const uint8_t *mine;
    uint8_t *keep, *read; /* read: bytes of shared memory that needed accesses may read, as bits */
    bool all_read;        /* nobody knows which bytes are read */
    struct ptx_cfg cfg;
    uint64_t *in, *live; /* registers that are live before each block, as bits; and at the place at hand */
    size_t words;
    bool wanted, more;
};

static bool is_weak(const struct ptx_inst *i)
{
    enum ptx_mod sem = ptx_mod_of(i, PTX_MC_SEM);
    return (sem == PTX_M_NONE || sem == PTX_M_WEAK) && !ptx_has(i, PTX_M_MMIO);
}

bool rw_is_part_store(const struct ptx_inst *i)
{
    return (i->op == PTX_OP_ST || i->op == PTX_OP_WMMA_STORE_D) && i->space == PTX_GLOBAL && is_weak(i);
}

bool rw_is_shared_store(const struct ptx_inst *i)
{
    return (i->op == PTX_OP_ST || i->op == PTX_OP_CP_ASYNC || i->op == PTX_OP_STMATRIX) && i->space == PTX_SHARED &&
           is_weak(i);
}

bool rw_is_pure_collective(const struct ptx_inst *i)
{
    switch (i->op) {
    case PTX_OP_MMA:
    case PTX_OP_MMA_SP:
    case PTX_OP_MMA_SP_ORDERED:
    case PTX_OP_WGMMA_MMA_ASYNC:
    case PTX_OP_WMMA_MMA:
    case PTX_OP_WMMA_LOAD_A:
    case PTX_OP_WMMA_LOAD_B:
    case PTX_OP_WMMA_LOAD_C:
    case PTX_OP_SHFL: /* it orders no memory */
    case PTX_OP_LDMATRIX: return true;
    default: return false;
    }
}

bool rw_has_effect(const struct ptx_inst *i)
{
    unsigned flags = ptx_op_info(i->op)->flags;
    switch (i->op) {
    case PTX_OP_OPAQUE:
    case PTX_OP_LABEL:
    case PTX_OP_PRAGMA:
    case PTX_OP_BRANCHTARGETS:
    case PTX_OP_CALLPROTO: return true;
    default: break;
    }
    if (rw_is_part_store(i) || rw_is_shared_store(i) || rw_is_pure_collective(i))
        return false;
    return (flags & (PTX_F_WRITES | PTX_F_ATOMIC | PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_BRANCH | PTX_F_TERMINATOR |
                     PTX_F_CALL | PTX_F_SIDE | PTX_F_NODST)) ||
           ((flags & PTX_F_READS) && !is_weak(i));
}

static void faint_takes(uint32_t reg, bool write, void *user)
{
    struct faint *x = user;
    if (!write && reg <= x->b->f->nreg)
        x->live[reg / 64] |= UINT64_C(1) << (reg % 64);
}

static void faint_kills(uint32_t reg, bool write, void *user)
{
    struct faint *x = user;
    if (write && reg <= x->b->f->nreg)
        x->live[reg / 64] &= ~(UINT64_C(1) << (reg % 64));
}

static void faint_wanted(uint32_t reg, bool write, void *user)
{
    struct faint *x = user;
    x->wanted |= write && reg <= x->b->f->nreg && (x->live[reg / 64] >> (reg % 64) & 1);
}

void rw_faint_regs(const struct ptx_function *f, const struct ptx_inst *i,
                   void (*fn)(uint32_t reg, bool write, void *user), void *user)
{
    if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS || i->op == PTX_OP_CALLPROTO)
        return;
    ptx_inst_regs(i, fn, user);
    if (ptx_has(i, PTX_M_CC))
        fn(f->nreg, true, user);
    if (ptx_reads_carry(i) || (ptx_has(i, PTX_M_CC) && i->pred != PTX_NO_REG))
        fn(f->nreg, false, user);
}

bool rw_may_read_shared(const struct ptx_inst *i)
{
    unsigned flags = ptx_op_info(i->op)->flags;
    if (i->op == PTX_OP_CALL || i->op == PTX_OP_OPAQUE)
        return true;
    if (i->op == PTX_OP_CP_ASYNC)
        return i->space2 == PTX_SHARED || i->space2 == PTX_GENERIC;
    return (flags & (PTX_F_READS | PTX_F_ATOMIC)) &&
           (i->space == PTX_SHARED || i->space == PTX_SHARED_CLUSTER || i->space == PTX_GENERIC ||
            ((flags & PTX_F_SPACE2) && (i->space2 == PTX_SHARED || i->space2 == PTX_GENERIC)));
}

static void faint_reads(struct faint *x, uint32_t n)
{
    const struct rw_reach *r = x->r;
    if (!rw_may_read_shared(&x->b->f->inst[n]) || x->all_read)
        return;
    if (!r->known || r->anywhere[n] || !r->touched[n]) {
        x->all_read = x->more = true;
        return;
    }
    for (uint32_t k = 0; k < r->size / 8 + 1; k++) {
        x->more |= (r->touched[n][k] & ~x->read[k]) != 0;
        x->read[k] |= r->touched[n][k];
    }
}

/* Can a needed load reach what the store writes? */
static bool is_read(const struct faint *x, uint32_t n)
{
    const struct rw_reach *r = x->r;
    bool some = false;
    if (RW_SPOILT("reach"))
        return false;
    if (!r->known || r->anywhere[n] || !r->touched[n])
        return true;
    if (x->all_read)
        return true;
    for (uint32_t k = 0; k < r->size / 8 + 1 && !some; k++)
        some = r->touched[n][k] & x->read[k];
    return some;
}

/* One instruction, from behind it to before it. */
static void faint_one(struct faint *x, uint32_t n)
{
    const struct ptx_inst *i = &x->b->f->inst[n];
    x->wanted = x->keep[n] || (rw_is_part_store(i) && x->mine[n]) || rw_has_effect(i) ||
                (rw_is_shared_store(i) && is_read(x, n));
    if (!x->wanted)
        rw_faint_regs(x->b->f, i, faint_wanted, x);
    if (!x->wanted)
        return;
    rw_faint_regs(x->b->f, i, faint_kills, x);
    rw_faint_regs(x->b->f, i, faint_takes, x);
    if (!x->keep[n]) {
        x->keep[n] = x->more = true;
        faint_reads(x, n);
    }
}

static void faint_block(struct faint *x, uint32_t k)
{
    const struct ptx_block *q = &x->cfg.block[k];
    uint64_t *in = x->in + k * x->words;
    memset(x->live, 0, x->words * sizeof *x->live);
    for (uint32_t s = 0; s < q->nsucc; s++)
        for (size_t w = 0; w < x->words; w++)
            x->live[w] |= x->in[q->succ[s] * x->words + w];
    for (uint32_t n = q->last + 1; n-- > q->first;)
        faint_one(x, n);
    for (size_t w = 0; w < x->words; w++) {
        x->more |= (x->live[w] & ~in[w]) != 0;
        in[w] |= x->live[w];
    }
}

int rw_faint(const struct rw_body *b, const struct rw_reach *r, const uint8_t *mine, uint8_t *keep, struct dt_err *e)
{
    const struct ptx_function *f = b->f;
    struct faint x = {.b = b, .r = r, .mine = mine, .keep = keep, .words = f->nreg / 64 + 1};
    int rc = ptx_cfg_build(f, &x.cfg, e);
    if (rc < 0)
        return rc;
    x.in = dt_calloc((size_t)x.cfg.nblock * x.words + 1, sizeof *x.in);
    x.live = dt_calloc(x.words, sizeof *x.live);
    x.read = dt_calloc((size_t)r->size / 8 + 1, 1);
    if (!x.in || !x.live || !x.read)
        rc = dt_err_set(e, DT_E_NOMEM, "out of memory");
    memset(keep, 0, f->ninst);
    x.more = true;
    while (rc == 0 && x.more) {
        x.more = false;
        for (uint32_t k = x.cfg.nblock; k-- > 0;)
            faint_block(&x, k);
    }
    free(x.in);
    free(x.live);
    free(x.read);
    ptx_cfg_done(&x.cfg);
    return rc;
}

static bool faint_meet(const struct rw_reach *r, uint32_t x, uint32_t y)
{
    for (uint32_t k = 0; k < r->size / 8 + 1; k++)
        if (r->touched[x][k] & r->touched[y][k])
            return true;
    return false;
}

/* Does the span of the load have a byte of the store's that it can see? */
static bool spans_meet(const struct rw_reach *r, const struct rw_span *s, const struct rw_span *l, unsigned sight,
                       const uint8_t *covered)
{
    uint32_t from = s->at > l->at ? s->at : l->at;
    uint32_t to = s->at + s->width < l->at + l->width ? s->at + s->width : l->at + l->width;
    for (uint32_t k = from; k < to; k++)
        if (sight == RW_SEES_ALL || !(covered[k / 8] >> (k % 8) & 1))
            return true;
    return false;
}

/* Do two threads touch a byte, one of those that do not make the store and one that needs what the load reads? */
static bool threads_meet(const struct rw_body *b, const struct rw_reach *r, const struct rw_share *part, uint32_t store,
                         uint32_t load)
{
    const uint64_t *reads = part->reads + load * rw_thread_words(b);
    unsigned c = r->class_of[load], sight = r->sight[c][store];
    for (uint32_t k = 0; k < r->nspan[store] && sight != RW_SEES_NOTHING; k++) {
        const struct rw_span *s = &r->span[store][k];
        bool made = part->keep[store] && rw_is_among(part->only[store], s->thread);
        for (uint32_t q = 0; q < r->nspan[load] && !made; q++) {
            const struct rw_span *l = &r->span[load][q];
            if ((reads[l->thread / 64] >> (l->thread % 64) & 1) && spans_meet(r, s, l, sight, r->covered[c]))
                return true;
        }
    }
    return false;
}

/* May the load need a byte that the store, which is left out or made by some threads alone, would have written? */
static bool faint_misses(const struct rw_body *b, const struct rw_reach *r, const struct rw_share *part, uint32_t store,
                         uint32_t load)
{
    if (!r->known || r->anywhere[store] || r->anywhere[load] || !r->touched[store] || !r->touched[load])
        return true;
    if (!faint_meet(r, store, load))
        return false;
    return !part->only || !r->span || !r->span[store] || !r->span[load] || threads_meet(b, r, part, store, load);
}

bool rw_part_reach(const struct rw_body *b, const struct rw_reach *r, const struct rw_share *part, uint32_t *ret_store,
                   uint32_t *ret_load)
{
    for (uint32_t s = 0; s < b->f->ninst; s++) {
        if (!rw_is_shared_store(&b->f->inst[s]) || (part->keep[s] && (!part->only || !part->only[s].bits)))
            continue;
        for (uint32_t l = 0; l < b->f->ninst; l++)
            if (part->keep[l] && rw_may_read_shared(&b->f->inst[l]) && faint_misses(b, r, part, s, l)) {
                *ret_store = s;
                *ret_load = l;
                return false;
            }
    }
    return true;
}

#define PRODUCT 64.0 /* of a warp group: how much longer than another instruction it takes */

double rw_part_weight(const struct rw_body *b, const struct rw_reach *r, const struct rw_share *part)
{
    static const double rounds[] = {1, 16, 128, 512};
    double all = 0;
    for (uint32_t n = 0; n < b->f->ninst; n++) {
        const struct ptx_inst *i = &b->f->inst[n];
        unsigned flags = ptx_op_info(i->op)->flags, bits = part->only ? part->only[n].bits : 0;
        bool memory = (flags & (PTX_F_READS | PTX_F_WRITES)) && i->space != PTX_PARAM, product = rw_is_group_product(i);
        if (!part->keep[n] || i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA)
            continue;
        all +=
            rounds[r->deep[n] < 3 ? r->deep[n] : 3] * (product   ? PRODUCT / (1u << __builtin_popcount(bits))
                                                       : !memory ? 1
                                                       : rw_is_global_access(i) ? 8.0 / (1u << __builtin_popcount(bits))
                                                                                : 2);
    }
    return all;
}
