/* The slice of an entry: the instructions that remain when it only records its accesses (docs/LEGALITY.md, "Evidence"
 * 7).
 *
 * Of `y[i] = expf(x[i]) * s` the slice keeps what computes i and the addresses of x[i] and y[i]; loads, expf and the
 * store go. It has all control flow, and everything that control flow and the recorded accesses (addresses,
 * predicates, sizes) are computed from. Registers are taken whole: one that is needed anywhere keeps all its
 * definitions. Each kept register has the value that it has in the whole kernel, because all that it comes from is kept
 * under the same control:
 *     arithmetic, parameters, tables that nobody writes, constant buffers     kept where needed
 *     loads of shared or local memory                                         with every store there, and every barrier
 *     shuffles and votes                                                      with every barrier but mbarriers, those
 *                                                                             of a cluster too
 *     elect                                                                   as it is
 *
 * A call goes like any instruction whose result nobody needs, if all that it can run does is to compute: memory of its
 * own frame and parameters, tables, no barrier, no end.
 *
 * A branch that data decides becomes a jump to the block where its ways meet: between, nothing is recorded or kept in
 * memory. A needed register that one of the ways assigns, and that is live where they meet, would be tainted; then
 * there is no slice.
 *
 * There is no slice, and the launch runs whole, if
 *   - something is opaque, trapped or otherwise seen from outside, or a call does more than compute, or is needed;
 *   - a site is not recorded exactly where it happens, or data decides whether threads end;
 *   - the slice would need a tainted register, or an instruction that is none of the above (atomics, matrix loads,
 *     asynchronous copies into shared memory that is read, mbarriers).
 *
 * A slice does not see what only the work shows: shared memory out of range, a barrier that not all threads reach.
 * Whether a launch may run as its slice, which leaves its outputs unwritten, is decided in record/plan.c.
 */
#include "analysis/instrument/instrument-priv.h"
#include "ptx/reach.h"

#include <stdlib.h>
#include <string.h>

struct slice {
    const struct ptx_function *f;
    const struct ana_tainted *t;
    bool *keep;
    uint32_t *cut;
    uint8_t *need;        /* per register; [nreg]: the carry flag */
    uint32_t *def, *next; /* definitions of each register: a list through `next` */
    uint32_t *place;      /* instruction of each list element */
    uint32_t ndef;
    uint32_t *todo, ntodo;    /* registers whose definitions are to be kept */
    bool shared, local, sync; /* stores there, barriers are needed */
    bool ok, failed;          /* failed: out of memory */
};

static void need(struct slice *s, uint32_t r)
{
    if (s->need[r])
        return;
    s->need[r] = 1;
    s->todo[s->ntodo++] = r;
    if (r < s->f->nreg && s->t->reg[r] == ANA_DATA_DEPENDENT)
        s->ok = false;
}

static void need_read(uint32_t r, bool write, void *user)
{
    if (!write)
        need(user, r);
}

static bool guarded(const struct slice *s, uint32_t at)
{
    return s->t->block[s->t->cfg.block_of[at]] == ANA_DATA_DEPENDENT;
}

/* Does data decide where the branch or exit `at` goes? */
static bool by_data(const struct slice *s, uint32_t at)
{
    const struct ptx_inst *i = &s->f->inst[at];
    return (i->pred != PTX_NO_REG && s->t->reg[i->pred] == ANA_DATA_DEPENDENT) ||
           (i->op == PTX_OP_BRX_IDX && i->opnd[0].kind == PTX_O_REG && s->t->reg[i->opnd[0].reg] == ANA_DATA_DEPENDENT);
}

/* A function's argument or result, not the entry's own parameter. */
static bool of_a_call(const struct slice *s, const struct ptx_inst *i)
{
    const struct ptx_opnd *o = i->nopnd > 1 ? &i->opnd[1] : NULL;
    if (i->space != PTX_PARAM || !o || o->kind != PTX_O_ADDR || o->base_kind != PTX_O_VAR)
        return false;
    for (uint32_t k = 0; k < s->f->nparam; k++)
        if (s->f->param[k] == o->var)
            return false;
    return true;
}

static void slice_keep(struct slice *s, uint32_t at)
{
    const struct ptx_inst *i = &s->f->inst[at];
    if (s->keep[at])
        return;
    s->keep[at] = true;
    ptx_inst_regs(i, need_read, s);
    if (ptx_reads_carry(i))
        need(s, s->f->nreg);
}

/* A definition of a register that is needed. */
static void keep_value(struct slice *s, uint32_t at)
{
    const struct ptx_inst *i = &s->f->inst[at];
    unsigned flags = ptx_op_info(i->op)->flags;
    if (i->op == PTX_OP_LD || i->op == PTX_OP_LDU) {
        if (i->space == PTX_SHARED || i->space == PTX_GENERIC)
            s->shared = s->sync = true;
        if (i->space == PTX_LOCAL || i->space == PTX_GENERIC)
            s->local = true;
        if (i->space == PTX_SHARED_CLUSTER || of_a_call(s, i))
            s->ok = false;
    } else if (i->op == PTX_OP_SHFL || i->op == PTX_OP_VOTE) {
        s->sync = true;
        s->ok &= !guarded(s, at);
    } else if (i->op == PTX_OP_ELECT) { /* by its mask alone; one that is not believed is data */
        s->ok &= !guarded(s, at);
    } else if (flags & (PTX_F_READS | PTX_F_WRITES | PTX_F_ATOMIC | PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_BRANCH |
                        PTX_F_TERMINATOR | PTX_F_CALL | PTX_F_SIDE)) {
        s->ok = false;
    }
    slice_keep(s, at);
}

/* Control flow, what record_here() reads of each site, and loads that are watched for memory that nothing wrote. */
static void roots(struct slice *s)
{
    const struct ana_sites *v = &s->t->sites;
    if (v->opaque || v->acts)
        s->ok = false;
    for (uint32_t k = 0; k < v->nsite && s->ok; k++) {
        const struct ana_site *x = &v->site[k];
        const struct ptx_inst *i = &s->f->inst[x->inst];
        if (x->address == ANA_DATA_DEPENDENT || x->guard == ANA_DATA_DEPENDENT || (!x->bytes && !x->span) ||
            x->opnd == 0xFF) {
            s->ok = false;
            return;
        }
        const struct ptx_opnd *o = &i->opnd[x->opnd];
        if (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG)
            need(s, o->reg);
        if (i->pred != PTX_NO_REG)
            need(s, i->pred);
        const struct ptx_opnd *source = ptx_cp_async_source(i);
        if (source && source->kind == PTX_O_REG)
            need(s, source->reg);
        const struct ptx_opnd *more[ANA_LOG_VALUES];
        for (unsigned q = 0, n = ana_span_operands(i, x, more); q < n; q++)
            if (more[q]->kind == PTX_O_REG)
                need(s, more[q]->reg);
    }
    for (uint32_t at = 0; at < s->f->ninst && s->ok; at++) {
        const struct ptx_inst *i = &s->f->inst[at];
        unsigned flags = ptx_op_info(i->op)->flags;
        if (flags & PTX_F_CALL) {
            int computes = ana_only_computes(i);
            s->failed |= computes < 0;
            s->ok = computes == 1;
        } else if (i->op == PTX_OP_OPAQUE || i->op == PTX_OP_TRAP || i->op == PTX_OP_BRKPT)
            s->ok = false;
        else if (i->op < PTX_OP_OPAQUE)
            s->keep[at] = true; /* labels and their lists */
        else if (s->t->watch[at] && guarded(s, at))
            s->ok = false;
        else if (s->t->watch[at])
            keep_value(s, at);
        else if (!(flags & (PTX_F_BRANCH | PTX_F_TERMINATOR)))
            continue;
        else if (!s->t->cfg.block[s->t->cfg.block_of[at]].reachable || !by_data(s, at))
            slice_keep(s, at);
        else if (s->t->cfg.block[s->t->cfg.block_of[at]].ipdom == UINT32_MAX)
            s->ok = false;
        else
            s->cut[at] = s->t->cfg.block[s->t->cfg.block_of[at]].ipdom + 1;
    }
}

/* Stores and barriers, where something kept goes through memory or between threads. False: nothing new. */
static bool keep_memory(struct slice *s)
{
    bool some = false;
    for (uint32_t at = 0; at < s->f->ninst && s->ok; at++) {
        const struct ptx_inst *i = &s->f->inst[at];
        unsigned flags = ptx_op_info(i->op)->flags;
        /* of a cluster: it keeps warps together for shuffles, but other blocks may write what is loaded behind it */
        bool cluster = i->op == PTX_OP_BARRIER_CLUSTER_ARRIVE || i->op == PTX_OP_BARRIER_CLUSTER_WAIT;
        if (!s->t->cfg.block[s->t->cfg.block_of[at]].reachable)
            continue;
        s->ok &= !(cluster && s->shared);
        if (s->keep[at])
            continue;
        /* mbarriers order memory, no shuffle */
        bool barrier = flags & PTX_F_BARRIER && (flags & (PTX_F_READS | PTX_F_WRITES) ? s->shared : s->sync),
             any = s->shared || s->local;
        bool store = flags & PTX_F_WRITES && i->space != PTX_PARAM && /* of a call that goes */
                     (i->space == PTX_LOCAL     ? s->local
                      : i->space == PTX_GENERIC ? any
                                                : i->space != PTX_GLOBAL && s->shared);
        if (!barrier && !store)
            continue;
        /* a store by something else than `st`, or a barrier that is more than one */
        if (store
                ? i->op != PTX_OP_ST
                : i->op != PTX_OP_BAR_SYNC && i->op != PTX_OP_BARRIER_SYNC && i->op != PTX_OP_BAR_WARP_SYNC && !cluster)
            s->ok = false;
        s->ok &= !guarded(s, at);
        slice_keep(s, at);
        some = true;
    }
    return some;
}

struct defs {
    struct slice *s;
    uint32_t at;
};

static void slice_count(uint32_t r, bool write, void *user)
{
    (void)r;
    ((struct slice *)user)->ndef += write;
}

static void slice_enter(uint32_t r, bool write, void *user)
{
    struct defs *d = user;
    if (!write)
        return;
    uint32_t n = ++d->s->ndef; /* from 1; 0 ends a list */
    d->s->place[n] = d->at;
    d->s->next[n] = d->s->def[r];
    d->s->def[r] = n;
}

static bool slice_prepare(struct slice *s, struct dt_arena *a)
{
    const struct ptx_function *f = s->f;
    for (uint32_t at = 0; at < f->ninst; at++)
        ptx_inst_regs(&f->inst[at], slice_count, s);
    size_t n = (size_t)s->ndef + f->ninst + 2; /* each instruction may write the carry too */
    s->need = dt_new_array(a, uint8_t, (size_t)f->nreg + 1);
    s->def = dt_new_array(a, uint32_t, (size_t)f->nreg + 1);
    s->todo = dt_new_array(a, uint32_t, (size_t)f->nreg + 1);
    s->next = dt_new_array(a, uint32_t, n);
    s->place = dt_new_array(a, uint32_t, n);
    if (a->failed)
        return false;
    s->ndef = 0;
    for (uint32_t at = 0; at < f->ninst; at++) {
        struct defs d = {s, at};
        if (!s->t->cfg.block[s->t->cfg.block_of[at]].reachable)
            continue;
        ptx_inst_regs(&f->inst[at], slice_enter, &d);
        if (ptx_has(&f->inst[at], PTX_M_CC))
            slice_enter(f->nreg, true, &d);
    }
    return true;
}

int ana_slice(struct dt_arena *a, const struct ptx_function *f, const struct ana_tainted *t, struct ana_slice *ret)
{
    struct slice s = {.f = f, .t = t, .ok = true};
    struct dt_arena tmp = {0};
    s.keep = dt_new_array(a, bool, (size_t)f->ninst + 1);
    s.cut = dt_new_array(a, uint32_t, (size_t)f->ninst + 1);
    if (!s.keep || !s.cut || !slice_prepare(&s, &tmp)) {
        dt_arena_done(&tmp);
        return DT_E_NOMEM;
    }
    roots(&s);
    do {
        while (s.ntodo && s.ok)
            for (uint32_t d = s.def[s.todo[--s.ntodo]]; d && s.ok; d = s.next[d])
                keep_value(&s, s.place[d]);
    } while (s.ok && keep_memory(&s));
    dt_arena_done(&tmp);
    if (s.failed)
        return DT_E_NOMEM;
    if (s.ok)
        *ret = (struct ana_slice){s.keep, s.cut};
    return s.ok;
}
