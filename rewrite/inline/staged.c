/* A host that stores its elements by copies of tensors from shared memory (the TMA): which copy, of which thread, from
 * where to where; and may a guest stand before it?
 *
 *   stmatrix … [%r114], …;                      any stores to shared memory, by any threads
 *   fence.proxy.async.shared::cta;
 *   bar.sync 0;                                 the barrier: what was stored is there for all threads
 *   elect.sync _|%p47, -1;
 *   and.pred %p43, %p22, %p47;                  %p22: %tid.x < 64, so one lane of warps 0 and 1 each
 *   @%p43 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%r66, %r67}], [%r68];
 *
 * How the elements came there does not matter. At the copy they lie in shared memory in the order that the tensor map
 * says, and from its coordinates each has its place in global memory. So here all threads of the block read the box, as
 * the copy does, and the guest's text stands behind what they read (staged-text.c).
 *
 *   who       the copy's predicate is a conjunction (and.pred) of an election and predicates that are the same for all
 *             threads, or made of the thread's number alone; so are branches between barrier and copy. The latter,
 *             evaluated for each thread, and the election say which warps make the copy: warps 0 … 2^k - 1, each once
 *   what      coordinates and shared address hang on no bit of the thread's number but the k low ones of the warp's
 *             (emit/warps.c). So warp w has in its registers what warp w mod 2^k gives to the copy
 *   when      a barrier stands before the copy, of the whole block or of a group of its threads (staged-way.c), and
 *             between the two nothing writes shared memory or waits for what does. Any lane may be elected, so what is
 *             there for one is there for all. Behind the text comes the barrier again: nobody overwrites what another
 *             thread still reads. Where it is a group's, "all threads" are those of the group
 *   once      an element may be copied again in a later round: then it is computed again, behind a barrier, and the
 *             last one stays. So the guest must read nothing that it writes (map.c)
 *   aligned   a unit of the guest does not lie across two places: the first coordinate's low bits are known to be 0
 *   outside   a box that overhangs its tensor: what is outside is no element (staged-text.c asks, where a box is not
 *             known to be inside or outside as a whole)
 *
 * Not here: reductions, im2col, swizzles other than of 16-byte atoms, elements of a byte.
 */
#include "rewrite/inline/inline-priv.h"

#include <string.h>

#include "base/subject.h"
#include "ptx/flow.h"
#include "ptx/tensormap.h"
#include "rewrite/emit/warps.h"

static void fields(const struct dt_tensor_map *m, struct ptx_tensormap *t)
{
    *t = (struct ptx_tensormap){.rank = m->rank, .type = m->type, .interleave = m->interleave, .swizzle = m->swizzle};
    for (unsigned d = 0; d < 5; d++) {
        t->dim[d] = m->dim[d];
        t->stride[d] = m->stride[d];
        t->box[d] = m->box[d];
        t->step[d] = m->step[d];
    }
}

/* Fill in layout and size of the box; false: not of a kind that is known here. */
static bool layout(struct rw_staged *s, uint32_t elem)
{
    struct ptx_tensormap t;
    unsigned elements, global, shared;
    fields(s->map, &t);
    ptx_tensormap_unit((enum ptx_tm_type)t.type, &elements, &global, &shared);
    bool same =
        t.type != PTX_TM_F32_FTZ && t.type != PTX_TM_TF32 && t.type != PTX_TM_TF32_FTZ; /* a copy changes no bit */
    bool good = same && elements == 1 && global == shared && !t.interleave && (elem == 2 || elem == 4 || elem == 8);
    for (unsigned d = 0; d < t.rank && good; d++)
        good = t.step[d] == 1 && t.dim[d] <= UINT32_MAX && (!d || t.stride[d] % 16 == 0);
    if (!good)
        return false;
    s->bytes = global;
    s->row = t.box[0] * global;
    s->pitch = ptx_tensormap_row_pitch(&t);
    s->rows = ptx_tensormap_rows(&t);
    s->swizzle = t.swizzle;
    return s->row % 16 == 0 && s->row && s->rows && (uint64_t)s->pitch * s->rows <= 1 << 20;
}

bool rw_staged_is_store(const struct ptx_inst *i)
{
    enum ptx_mod mode = ptx_mod_of(i, PTX_MC_TILE);
    return i->op == PTX_OP_CP_ASYNC_BULK_TENSOR && i->space == PTX_GLOBAL &&
           (mode == PTX_M_NONE || mode == PTX_M_TILE) && i->nopnd >= 2 && i->opnd[0].kind == PTX_O_ADDR &&
           i->opnd[0].base_kind == PTX_O_REG && i->opnd[1].kind == PTX_O_ADDR && i->opnd[1].base_kind != PTX_O_NONE;
}

/* ---- which warps ------------------------------------------------------------------------------------------------- */

struct who {
    struct leaf { /* predicates made of thread numbers alone: those who make the copy have `sense` */
        uint32_t reg;
        bool sense;
    } leaf[RW_STAGED_GUARDS + RW_STAGED_WAYS];
    unsigned nleaf;
    bool elected, lost;
};

/* One run of instructions leads through it. */
static bool runs_on(const struct ptx_inst *i)
{
    return i->op > PTX_OP_OPAQUE && i->op != PTX_OP_LABEL && i->op != PTX_OP_BRANCHTARGETS &&
           i->op != PTX_OP_CALLPROTO &&
           (i->op == PTX_OP_PRAGMA || !(ptx_op_info(i->op)->flags & (PTX_F_BRANCH | PTX_F_TERMINATOR | PTX_F_CALL)));
}

/* All threads of the group have the same. */
static bool staged_alike(const struct rw_warps *w, const struct rw_staged *s, uint32_t reg)
{
    struct ptx_opnd o = {.kind = PTX_O_REG, .comp = -1, .reg = reg};
    struct rw_spread x = rw_warps_of(w, &o);
    return !x.any && !(x.bits & rw_staged_apart(s));
}

/* In the run of instructions that leads to the copy? */
static bool right_before(const struct rw_inline *n, const struct rw_staged *s, uint32_t at)
{
    const struct ptx_function *f = n->body[n->host]->f;
    if (at >= s->inst)
        return false;
    for (uint32_t k = at; k < s->inst; k++)
        if (!runs_on(&f->inst[k]))
            return false;
    return true;
}

static bool elects_one(const struct ptx_inst *i, uint32_t reg)
{
    return i->op == PTX_OP_ELECT && i->pred == PTX_NO_REG && i->dst2 && i->nopnd == 3 && i->opnd[1].kind == PTX_O_REG &&
           i->opnd[1].reg == reg && i->opnd[2].kind == PTX_O_IMM && (uint32_t)i->opnd[2].bits == UINT32_MAX;
}

/* Take the predicate apart. What is right before the copy has there what the copy's predicate was made of. */
static void conjuncts(const struct rw_inline *n, const struct rw_warps *w, struct rw_staged *s, struct who *p,
                      struct rw_staged_guard use, unsigned deep)
{
    const struct ptx_function *f = n->body[n->host]->f;
    uint32_t reg = use.opnd ? f->inst[use.inst].opnd[use.opnd].reg : f->inst[use.inst].pred;
    uint32_t at = rw_warps_def(w, reg);
    const struct ptx_inst *i = at == UINT32_MAX ? NULL : &f->inst[at];
    bool near = i && right_before(n, s, at);
    uint64_t v;
    if (near && elects_one(i, reg) && !p->elected) {
        p->elected = true;
    } else if (near && i->op == PTX_OP_AND && i->pred == PTX_NO_REG && i->nopnd == 3 && i->type[0] == PTX_PRED &&
               i->opnd[1].kind == PTX_O_REG && i->opnd[2].kind == PTX_O_REG && !i->opnd[1].neg && !i->opnd[2].neg &&
               deep < 8) {
        /* an operand must not be written between here and the copy: not where it is written once, before this */
        for (unsigned k = 1; k < 3; k++) {
            uint32_t d = rw_warps_def(w, i->opnd[k].reg);
            p->lost |= d == UINT32_MAX || (d > at && d < s->inst);
            conjuncts(n, w, s, p, (struct rw_staged_guard){at, k}, deep + 1);
        }
    } else if (staged_alike(w, s, reg) && s->nguard < RW_STAGED_GUARDS) {
        s->guard[s->nguard++] = use;
    } else if (rw_warps_value(w, reg, 0, &v) && p->nleaf < RW_STAGED_GUARDS) {
        p->leaf[p->nleaf++] = (struct leaf){reg, true};
    } else {
        p->lost = true;
    }
}

/* A branch on the way to the copy: all of the group go on, or none; or some threads do. */
static void ask_way(const struct rw_inline *n, const struct rw_warps *w, const struct rw_staged *s, struct who *p,
                    struct rw_staged_way *way)
{
    const struct ptx_inst *i = &n->body[n->host]->f->inst[way->inst];
    bool sense, on = way->taken != (bool)i->pred_neg; /* who goes on has the predicate so */
    uint64_t v;
    if (staged_alike(w, s, i->pred))
        return;
    way->out = true;
    if (rw_staged_elected(n, w, i->pred, &sense)) {
        p->lost |= p->elected || sense != on;
        p->elected = true;
    } else if (rw_warps_value(w, i->pred, 0, &v)) {
        p->leaf[p->nleaf++] = (struct leaf){i->pred, on};
    } else {
        p->lost = true;
    }
}

/* The warps that make the copy are the first ones of the group that begins at thread `from`, a power of two of them.
 * False: they are not. */
static bool find_warps(const struct rw_warps *w, struct rw_staged *s, uint32_t from, const struct who *p)
{
    uint32_t warps = s->group / 32, first = 0;
    for (uint32_t k = 0; k < warps; k++) {
        unsigned on = 0;
        for (uint32_t t = from + 32 * k; t < from + 32 * k + 32; t++) {
            bool all = true;
            for (unsigned q = 0; q < p->nleaf && all; q++) {
                uint64_t v;
                if (!rw_warps_value(w, p->leaf[q].reg, t, &v))
                    return false;
                all = (v & 1) == p->leaf[q].sense;
            }
            on += all;
        }
        if (on != 0 && on != (p->elected ? 32 : 1)) /* some lanes: which is elected, nobody knows */
            return false;
        if (on && k != first)
            return false;
        first += on != 0;
    }
    bool same = !s->warps || s->warps == first;
    s->warps = first;
    return same && first && (first & (first - 1)) == 0 && warps % first == 0 && from % (32 * first) == 0;
}

static void find_who(const struct rw_inline *n, const struct rw_warps *w, struct rw_staged *s, struct rw_refusals *no)
{
    const struct rw_body *b = n->body[n->host];
    const struct ptx_inst *i = &b->f->inst[s->inst];
    struct who p = {.nleaf = 0};
    if (b->block[1] != 1 || b->block[2] != 1 || s->group % 32)
        p.lost = true;
    else if (i->pred_neg || (i->pred == PTX_NO_REG && !s->nway))
        p.lost = true;
    else if (i->pred != PTX_NO_REG)
        conjuncts(n, w, s, &p, (struct rw_staged_guard){s->inst, 0}, 0);
    for (unsigned k = 0; k < s->nway; k++)
        ask_way(n, w, s, &p, &s->way[k]);
    for (unsigned k = 0; k < s->ngroup && !p.lost; k++)
        p.lost = !find_warps(w, s, s->start[k], &p);
    if (p.lost) {
        s->warps = 1;
        rw_no(no, RW_NO_staged_box,
              "which threads of " DT_LAUNCH
              " make a copy from shared memory (PTX line %u) is not known: one of each of the first warps",
              n->name[n->host], i->line);
    }
}

/* ---- what they copy ---------------------------------------------------------------------------------------------- */

static void find_what(const struct rw_inline *n, const struct rw_warps *w, struct rw_staged *s, struct rw_refusals *no)
{
    const struct ptx_inst *i = &n->body[n->host]->f->inst[s->inst];
    uint32_t apart = rw_staged_apart(s) & ~((s->warps - 1) << 5), unit = n->unit * n->elem;
    s->whole = true;
    for (unsigned d = 0; d <= s->map->rank; d++) {
        bool place = d == s->map->rank;
        struct rw_spread x = rw_warps_of(w, place ? &i->opnd[1] : &i->opnd[0].elem[d]);
        if (x.any || (x.bits & apart))
            rw_no(no, RW_NO_staged_box,
                  "%s of a copy from shared memory in " DT_LAUNCH " (PTX line %u) is not one that all its warps know",
                  place ? "the address" : "a coordinate", n->name[n->host], i->line);
        if (place)
            continue;
        uint64_t low = x.zeros > 31 ? UINT64_C(1) << 31 : UINT64_C(1) << x.zeros;
        s->whole &= s->map->dim[d] % s->map->box[d] == 0 && low % s->map->box[d] == 0;
        if (d == 0 && (low * s->bytes % unit || s->map->dim[0] * s->bytes % unit || s->offset % unit))
            rw_no(no, RW_NO_staged_box,
                  DT_LAUNCH " may copy from other places than the vectors of " DT_LAUNCH " begin at (PTX line %u)",
                  n->name[n->host], n->name[n->guest], i->line);
    }
}

/* ---- the copies -------------------------------------------------------------------------------------------------- */

bool rw_inline_has_maps(const struct rw_inline *n)
{
    const struct dt_launch *l = n->body[0]->step->launch;
    for (uint32_t k = 0; k < l->narg && k < 62 && n->host == 0; k++)
        if ((n->args[0] >> k & 1) && l->arg[k].kind == DT_ARG_TENSOR_MAP)
            return true;
    return false;
}

/* Every access that may reach the buffer: a copy of a box into it, through one of its maps. */
void rw_inline_staged_sites(struct rw_inline *n, struct rw_refusals *no)
{
    const struct rw_body *b = n->body[0];
    const struct dt_launch *l = b->step->launch;
    const char *name = n->name[0];
    n->staged = dt_new_array(n->arena, struct rw_staged, b->f->ninst + 1);
    for (uint32_t k = 0; k < l->narg && k < 62; k++)
        if ((n->args[0] >> k & 1) && l->arg[k].kind != DT_ARG_TENSOR_MAP)
            rw_no(no, RW_NO_plain_sites, DT_LAUNCH " has both an address and a tensor map of the buffer", name);
    if (n->args[0] & RW_PROV_OTHER)
        rw_no(no, RW_NO_plain_sites, DT_LAUNCH " has too many arguments to follow", name);
    for (uint32_t k = 0; k < b->f->ninst && n->staged; k++) {
        const struct ptx_inst *i = &b->f->inst[k];
        if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS ||
            i->op == PTX_OP_CALLPROTO || !rw_is_global_access(i))
            continue;
        uint64_t m = rw_prov_of(b, i);
        if (!(m & (n->args[0] | RW_PROV_OTHER)))
            continue;
        uint64_t map = m & ~RW_PROV_LOCAL;
        if (!rw_staged_is_store(i) || (map & ~n->args[0]) || (map & (map - 1))) {
            rw_no(no, RW_NO_plain_sites, DT_LAUNCH " touches it by `%s` (PTX line %u)", name,
                  i->op == PTX_OP_OPAQUE ? "?" : ptx_op_info(i->op)->mnemonic, i->line);
            continue;
        }
        const struct dt_arg *a = &l->arg[__builtin_ctzll(map)];
        if (i->opnd[0].n != a->map->rank) {
            rw_no(no, RW_NO_plain_sites, DT_LAUNCH " copies by other coordinates than the tensor has (PTX line %u)",
                  name, i->line);
            continue;
        }
        n->staged[n->nstaged++] = (struct rw_staged){.inst = k, .map = a->map, .offset = a->offset};
    }
    if (!n->nstaged)
        rw_no(no, RW_NO_plain_sites, DT_LAUNCH " touches it at no instruction of its own", name);
}

/* Element and unit, when the guest's are known. */
void rw_inline_staged_units(struct rw_inline *n, struct rw_refusals *no)
{
    for (unsigned k = 0; k < n->nstaged; k++) {
        struct rw_staged *s = &n->staged[k];
        n->joins[0][s->inst] = true;
        if (!layout(s, n->elem))
            rw_no(no, RW_NO_staged_box,
                  "elements of %u bytes, or the tensor map's type or layout, are not followed through shared memory "
                  "(" DT_LAUNCH ", PTX line %u)",
                  n->elem, n->name[0], n->body[0]->f->inst[s->inst].line);
    }
    for (unsigned part = n->elem ? 16 / n->elem : 0; n->unit > 1 && (n->unit > part || part % n->unit);)
        n->unit /= 2;
}

/* What registers hang on where the branches out[…] are not there. */
static int warps_without(const struct rw_inline *n, struct dt_arena *a, const bool *out, struct rw_warps **w,
                         struct dt_err *e)
{
    bool *mine = dt_new_array(a, bool, n->body[0]->f->ninst + 1);
    if (!mine)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    memcpy(mine, out, n->body[0]->f->ninst * sizeof *mine);
    return rw_warps_new(a, n->body[0], mine, w, e);
}

static int find_one(struct rw_inline *n, const struct ptx_cfg *cfg, const struct rw_warps *all, struct rw_staged *s,
                    struct rw_refusals *no, struct dt_arena *a, struct dt_err *e)
{
    struct rw_warps *w = (struct rw_warps *)(uintptr_t)all;
    bool *out = dt_new_array(a, bool, n->body[0]->f->ninst + 1), some = false;
    int r = out ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    rw_staged_find_barrier(n, cfg, s, no);
    if (!no->any)
        rw_staged_find_group(n, cfg, w, s, no);
    for (unsigned q = 0; q < s->nbefore && r == 0; q++)
        out[s->before[q]] = true;
    if (r == 0 && s->nbefore && !no->any)
        r = warps_without(n, a, out, &w, e);
    if (r == 0 && !no->any)
        rw_staged_check_group(n, cfg, w, s, no);
    if (r == 0 && !no->any)
        find_who(n, w, s, no);
    for (unsigned q = 0; q < s->nway && r == 0; q++)
        some |= out[s->way[q].inst] |= s->way[q].out;
    if (r == 0 && some && !no->any) /* as registers are where all of the group go these ways */
        r = warps_without(n, a, out, &w, e);
    if (r == 0 && !no->any)
        find_what(n, w, s, no);
    return r;
}

int rw_inline_staged(struct rw_inline *n, struct rw_refusals *no, struct dt_arena *a, struct dt_err *e)
{
    struct ptx_cfg cfg;
    struct rw_warps *w = NULL;
    bool some = false;
    int r = ptx_cfg_build(n->body[0]->f, &cfg, e);
    if (r < 0)
        return r;
    r = rw_warps_new(a, n->body[0], NULL, &w, e);
    for (unsigned k = 0; k < n->nstaged && r == 0 && !no->any; k++) {
        struct rw_staged *s = &n->staged[k];
        r = find_one(n, &cfg, w, s, no, a, e);
        for (unsigned q = 0; q < s->nway; q++)
            some |= s->way[q].out;
    }
    if (r == 0 && some && !no->any)
        r = rw_staged_check_ways(n, &cfg, no, e);
    ptx_cfg_done(&cfg);
    return r;
}
