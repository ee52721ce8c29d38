/* How the instructions of one body are copied into the fused kernel, and what they become.
 *
 *   before                               after
 *   mov.u32 %r1, %ctaid.x;               mov.u32 %r1, VIRTUAL;           block numbers come from the component's list
 *   mov.u32 %r2, %ntid.x;                mov.u32 %r2, 256;               the body sees its own geometry
 *   mov.u32 %r3, %cluster_ctarank;       mov.u32 %r3, RANK;              and, with a cluster of its own, its ranks
 *   ret;  exit;                          bra END;                        the phase's end
 *   bar.sync 0;                          barrier.sync 0[, COUNT];        not aligned; counted if the block is larger
 *                                        barrier.sync %n, COUNT;         in a pack: the subblock's own (pack.c)
 *   mul.f32 …                            mul.rn.f32 …                    if a sum of the body can meet the product:
 *                                                                        nothing is contracted anew (device/identity.c)
 *   ld.global.nc.f32 (buffer written)    ld.global.f32                   without .nc and cache operators
 *   st.global.f32 [%rd4], %f1;           sub.u32 %s, %rd4.lo, BASE;      an intermediate in shared memory
 *                                        st.shared.f32 [%s], %f1;
 *   ld.global.f32 %f1, [%rd4];           mapa.shared::cluster.u32 %s, …;      the same, in shared memory of the rank
 *                                        ld.shared::cluster.f32 %f1, [%s];    that has the byte
 *   mov.u32 %r3, As;                     mov.u32 %r3, dt_smem+OFFSET;    all shared arrays are parts of one
 *   ld.param.u64 %rd1, [h];              mov.u64 %rd1, OFFSET;           if no access to the argument's buffer remains
 *   st.shared.f32 [%r5], %f1;            @OWN st.shared.f32 [%r5], %f1;  in a phase with surplus lanes (surplus.c)
 *   st.global.f32 [%rd4], %f1;           @SET st.global.f32 [%rd4], %f1; by the threads of a part (faint-threads.c)
 *
 * In a body that is inlined (level `register`) some instructions become something else: struct rw_guest says what.
 *
 * Instructions that are not handled here never come here: the predicates (legal.def) refuse them first.
 */
#include "rewrite/emit/join.h"

#include <string.h>

static int copy_nomem(struct rw_join *j) { return dt_err_set(j->e, DT_E_NOMEM, "out of memory"); }

struct ptx_var *rw_map_var(struct rw_join *j, int side, const struct ptx_var *v, uint32_t *ret_offset)
{
    for (size_t k = 0; k < j->vars.n; k++)
        if (j->vars.p[k].from == v && (j->vars.p[k].side == side || j->vars.p[k].side == RW_ANY_SIDE)) {
            *ret_offset = j->vars.p[k].offset;
            return j->vars.p[k].to;
        }
    return NULL;
}

static int map_opnd(struct rw_join *j, struct rw_phase *p, struct ptx_opnd *o);

/* The elements of a vector, or the coordinates of a tensor's address. */
static int map_elements(struct rw_join *j, struct rw_phase *p, struct ptx_opnd *o)
{
    struct ptx_opnd *elem = dt_new_array(&j->m->arena, struct ptx_opnd, o->n ? o->n : 1);
    int r = elem ? 0 : copy_nomem(j);
    if (elem)
        memcpy(elem, o->elem, sizeof *elem * o->n);
    for (unsigned k = 0; k < o->n && r == 0; k++)
        r = map_opnd(j, p, &elem[k]);
    o->elem = elem;
    return r;
}

static int map_opnd(struct rw_join *j, struct rw_phase *p, struct ptx_opnd *o)
{
    uint32_t off = 0;
    switch (o->kind) {
    case PTX_O_REG: o->reg = p->reg[o->reg]; break;
    case PTX_O_ADDR:
        if (o->base_kind == PTX_O_REG)
            o->reg = p->reg[o->reg];
        if (o->base_kind != PTX_O_VAR)
            return o->base_kind == PTX_O_REG && o->n ? map_elements(j, p, o) : 0;
        /* fall through */
    case PTX_O_VAR:
        if (!(o->var = rw_map_var(j, p->side, o->var, &off)))
            return dt_err_set(j->e, DT_E_INTERNAL, "a variable was not mapped");
        o->off += off;
        break;
    case PTX_O_LABEL: o->label = p->label[o->label]; break;
    case PTX_O_FUNC:
        for (size_t k = 0; k < j->funcs.n; k++)
            if (j->funcs.p[k].open == p->open && !strcmp(j->funcs.p[k].from->name, o->func->name) &&
                j->funcs.p[k].from->module == o->func->module) {
                o->func = j->funcs.p[k].to;
                return 0;
            }
        return dt_err_set(j->e, DT_E_INTERNAL, "function %s was not mapped", o->func->name);
    case PTX_O_VEC: return map_elements(j, p, o);
    default: break;
    }
    return 0;
}

/* What a geometry register is in the fused kernel: a register or a constant. */
static struct ptx_opnd geometry(struct rw_join *j, struct rw_phase *p, unsigned sreg, int comp)
{
    const struct rw_body *b = &j->c->facts.body[p->side];
    struct ptx_opnd imm = {.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_S64};
    struct ptx_opnd reg = {.kind = PTX_O_REG, .comp = -1};
    if (sreg == PTX_SR_CLUSTER_NCTARANK)
        imm.bits = b->ranks;
    if (sreg == PTX_SR_CLUSTER_CTARANK && j->rank != PTX_NO_REG) {
        reg.reg = j->rank;
        return reg;
    }
    if (comp < 0 || comp > 2)
        return imm; /* the fourth element is 0 */
    switch (sreg) {
    case PTX_SR_NTID: imm.bits = b->block[comp]; return imm;
    case PTX_SR_NCTAID: imm.bits = b->grid[comp]; return imm;
    case PTX_SR_NCLUSTERID: imm.bits = b->grid[comp] / (b->ranks ? b->cluster[comp] : 1); return imm;
    case PTX_SR_CLUSTER_NCTAID: imm.bits = b->ranks ? b->cluster[comp] : 1; return imm;
    case PTX_SR_TID: reg.reg = p->tid[comp]; break;
    case PTX_SR_CLUSTERID: reg.reg = p->cluster_of[comp]; break;
    case PTX_SR_CLUSTER_CTAID: reg.reg = p->in_cluster[comp]; break;
    default: reg.reg = p->ctaid[comp]; break;
    }
    if (reg.reg == PTX_NO_REG)
        return imm; /* a dimension of 1 */
    return reg;
}

static bool is_geometry(const struct ptx_opnd *o)
{
    return o->kind == PTX_O_SREG &&
           (o->sreg == PTX_SR_TID || o->sreg == PTX_SR_NTID || o->sreg == PTX_SR_CTAID || o->sreg == PTX_SR_NCTAID ||
            (o->sreg >= PTX_SR_CLUSTERID && o->sreg <= PTX_SR_CLUSTER_NCTARANK));
}

static int copy_append(struct rw_join *j, const struct ptx_inst *i) { return ptx_append(j->f, *i) ? 0 : copy_nomem(j); }

/* The value v as type t holds it, in a register that may be wider. */
static uint64_t held(enum ptx_type t, uint64_t v)
{
    unsigned drop = 64 - 8 * ptx_type_bytes(t);
    bool sign = t == PTX_S8 || t == PTX_S16 || t == PTX_S32;
    return sign ? (uint64_t)((int64_t)(v << drop) >> drop) : v << drop >> drop;
}

/* mov and cvt that read a geometry register; `i` is already mapped. */
static int copy_geometry(struct rw_join *j, struct rw_phase *p, struct ptx_inst *i)
{
    struct ptx_opnd src = i->opnd[1];
    if (i->opnd[0].kind == PTX_O_VEC) { /* mov.v4.u32 {…}, %tid */
        struct ptx_opnd dst = i->opnd[0], two[2];
        struct ptx_inst one = *i;
        ptx_clear_mod(&one, PTX_M_V2);
        ptx_clear_mod(&one, PTX_M_V4);
        one.vec = 1;
        for (unsigned k = 0; k < dst.n; k++) {
            if (dst.elem[k].kind == PTX_O_SINK)
                continue;
            two[0] = dst.elem[k];
            two[1] = geometry(j, p, src.sreg, (int)k);
            one.opnd = two;
            int r = copy_append(j, &one);
            if (r < 0)
                return r;
        }
        return 0;
    }
    i->opnd[1] = geometry(j, p, src.sreg, src.comp);
    /* A 16-bit read of a 32-bit register is a conversion. */
    if (i->op == PTX_OP_MOV && ptx_type_bytes(i->type[0]) == 2 && i->opnd[1].kind == PTX_O_REG) {
        i->op = PTX_OP_CVT;
        i->ntype = 2;
        i->type[0] = PTX_U16;
        i->type[1] = PTX_U32;
    }
    if (i->opnd[1].kind == PTX_O_IMM && ptx_type_bytes(i->type[0]))
        i->opnd[1].bits = held(i->type[0], i->opnd[1].bits);
    /* `cvt.u8.u32 %r1, %ntid.x` fills its register, of whatever size */
    if (i->op == PTX_OP_CVT && i->opnd[1].kind == PTX_O_IMM) {
        unsigned size = i->opnd[0].kind == PTX_O_REG ? ptx_type_bytes(j->f->reg[i->opnd[0].reg].type) : 0;
        i->op = PTX_OP_MOV;
        i->ntype = 1;
        i->nmod = 0;
        i->type[0] = size == 2 ? PTX_U16 : size == 4 ? PTX_U32 : size == 8 ? PTX_U64 : i->type[0];
    }
    return copy_append(j, i);
}

/* bar.* -> barrier.*, counted where the phase has fewer threads than the fused block. */
static int copy_barrier(struct rw_join *j, struct rw_phase *p, struct ptx_inst *i)
{
    bool red = i->op == PTX_OP_BAR_RED || i->op == PTX_OP_BARRIER_RED;
    struct ptx_opnd opnd[6];
    unsigned at = red ? 2 : 1;
    if (j->c->pack && !red && rw_subblock_is_warp(&j->c->facts.body[p->side]))
        return rw_emit(j, "bar.warp.sync -1;");
    if (j->c->pack)
        i->opnd[at - 1] =
            (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = p->sub.barrier[i->opnd[at - 1].bits & 15]};
    i->op = red ? PTX_OP_BARRIER_RED : PTX_OP_BARRIER_SYNC;
    ptx_clear_mod(i, PTX_M_ALIGNED);
    if (p->barrier_count && i->nopnd == (red ? 3u : 1u)) {
        memcpy(opnd, i->opnd, sizeof *opnd * at);
        opnd[at] = (struct ptx_opnd){.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_S64, .bits = p->barrier_count};
        if (red)
            opnd[at + 1] = i->opnd[at];
        i->opnd = opnd;
        i->nopnd++;
    }
    bool together = p->own_only && j->c->facts.body[p->side].lockstep && i->pred == PTX_NO_REG;
    int r = copy_append(j, i);
    return r < 0 || !together ? r : rw_emit(j, "bar.warp.sync -1;");
}

static bool written_here(const struct rw_cand *c, int side, uint64_t prov)
{
    const struct dt_launch *l = c->facts.body[side].step->launch;
    if (prov & RW_PROV_OTHER)
        return true;
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        const struct ana_launch *al = &c->facts.ana->launch[c->facts.launch[s]];
        for (uint32_t k = 0; k < al->naccess; k++)
            if (al->access[k].writes && (rw_args_of(l, al->access[k].buffer) & prov))
                return true;
    }
    return false;
}

void rw_drop_hints(struct ptx_inst *i)
{
    if (ptx_has(i, PTX_M_L2_HINT) && i->nopnd > 2)
        i->nopnd--; /* the policy operand */
    for (unsigned k = i->nmod; k-- > 0;)
        switch (ptx_mod_class(i->mod[k])) {
        case PTX_MC_NC:
        case PTX_MC_COP:
        case PTX_MC_LEVEL:
        case PTX_MC_L1:
        case PTX_MC_L2:
        case PTX_MC_HINT:
        case PTX_MC_L2SIZE: ptx_clear_mod(i, i->mod[k]); break;
        default: break;
        }
}

void rw_drop_hints_if_written(const struct rw_cand *c, int side, const struct ptx_inst *o, struct ptx_inst *i)
{
    if (written_here(c, side, rw_prov_of(&c->facts.body[side], o)))
        rw_drop_hints(i);
}

/* The redirection that an access belongs to; -1: none. `i` is the original instruction. */
static int redirection(const struct rw_join *j, const struct rw_phase *p, const struct ptx_inst *i)
{
    if (!rw_in_shared(j->c) || !rw_is_global_access(i) || (i->op != PTX_OP_LD && i->op != PTX_OP_ST))
        return -1;
    uint64_t m = rw_prov_of(&j->c->facts.body[p->side], i);
    for (uint32_t k = 0; k < j->c->nredirect; k++)
        if (m & j->c->redirect[k].args[p->side] && !(m & ~j->c->redirect[k].args[p->side]))
            return (int)k;
    return -1;
}

/* A register with the shared address of [reg + off]; *ret_off is what remains to be added. */
static int shared_address(struct rw_join *j, struct rw_phase *p, const struct rw_redirect *r, uint32_t base,
                          uint32_t origin, const struct ptx_inst *i, const struct ptx_opnd *a, uint32_t *ret_reg,
                          int64_t *ret_off)
{
    bool away = j->c->cluster && p->side == 1 && !r->own;
    int x;
    *ret_off = 0;
    if (a->base_kind != PTX_O_REG)
        return dt_err_set(j->e, DT_E_INTERNAL, "a redirected access has no address register");
    for (unsigned k = 0; k < p->nknown && !r->pitch && !away; k++)
        if (p->known[k].from == a->reg) {
            *ret_reg = p->known[k].to;
            *ret_off = a->off;
            return 0;
        }
    uint32_t s = ptx_reg_new(j->f, PTX_B32, "dt_s");
    if (s == PTX_NO_REG)
        return copy_nomem(j);
    bool wide = ptx_type_bytes(j->f->reg[a->reg].type) == 8;
    if (wide)
        x = rw_emit(j, "cvt.u32.u64 %s, %s;", rw_rname(j, s), rw_rname(j, a->reg));
    else
        x = rw_emit(j, "mov.b32 %s, %s;", rw_rname(j, s), rw_rname(j, a->reg));
    if (x < 0)
        return x;
    if (away) {
        if ((x = rw_emit(j, "sub.s32 %s, %s, %s;", rw_rname(j, s), rw_rname(j, s), rw_rname(j, base))) < 0 ||
            (a->off && (x = rw_emit(j, "add.s32 %s, %s, %lld;", rw_rname(j, s), rw_rname(j, s),
                                    (long long)(int32_t)a->off)) < 0) ||
            (x = rw_cluster_address(j, r, s, origin, i->pred, i->pred_neg)) < 0)
            return x;
    } else if (!r->pitch) {
        if ((x = rw_emit(j, "sub.s32 %s, %s, %s;", rw_rname(j, s), rw_rname(j, s), rw_rname(j, base))) < 0)
            return x;
        if (p->nknown < 32) {
            p->known[p->nknown].from = a->reg;
            p->known[p->nknown++].to = s;
        }
        *ret_off = a->off;
    } else {
        uint32_t q = ptx_reg_new(j->f, PTX_B32, "dt_q");
        if (q == PTX_NO_REG)
            return copy_nomem(j);
        const char *S = rw_rname(j, s), *Q = rw_rname(j, q);
        if ((x = rw_emit(j, "sub.s32 %s, %s, %s;", S, S, rw_rname(j, base))) < 0)
            return x;
        if (a->off && (x = rw_emit(j, "add.s32 %s, %s, %lld;", S, S, (long long)(int32_t)a->off)) < 0)
            return x;
        /* row = s / pitch; s = s % pitch + row * width = s - row * (pitch - width) */
        if ((r->pitch & (r->pitch - 1)) == 0)
            x = rw_emit(j, "shr.u32 %s, %s, %d;", Q, S, __builtin_ctz(r->pitch));
        else
            x = rw_emit(j, "div.u32 %s, %s, %u;", Q, S, r->pitch);
        if (x < 0 || (x = rw_emit(j, "mul.lo.u32 %s, %s, %u;", Q, Q, r->pitch - r->width)) < 0 ||
            (x = rw_emit(j, "sub.s32 %s, %s, %s;", S, S, Q)) < 0)
            return x;
        if ((x = rw_emit(j, "add.s32 %s, %s, %s;", S, S, rw_rname(j, origin))) < 0)
            return x;
    }
    *ret_reg = s;
    return 0;
}

/* The argument that a ld.param reads, if no access to its buffer remains (drop_arg); NULL otherwise. */
static const struct dt_arg *dropped_arg(const struct rw_join *j, const struct rw_phase *p, const struct ptx_inst *o)
{
    const struct rw_body *b = &j->c->facts.body[p->side];
    if (o->op != PTX_OP_LD || o->space != PTX_PARAM || j->c->level == RW_LEVEL_GLOBAL ||
        o->opnd[1].base_kind != PTX_O_VAR)
        return NULL;
    for (uint32_t n = 0; n < b->f->nparam && n < 62; n++)
        for (uint32_t r = 0; r < j->c->nredirect; r++)
            if (b->f->param[n] == o->opnd[1].var && j->c->redirect[r].drop_arg &&
                ((j->c->redirect[r].args[p->side] >> n) & 1))
                return &b->step->launch->arg[n];
    return NULL;
}

/* A load or store of an intermediate; `o` is the original, `i` its mapped copy. */
static int copy_redirected(struct rw_join *j, struct rw_phase *p, const struct ptx_inst *o, struct ptx_inst *i, int k)
{
    const struct rw_redirect *r = &j->c->redirect[k];
    unsigned at = o->op == PTX_OP_LD ? 1 : 0;
    bool both = o->op == PTX_OP_ST && (p->side == 1 || r->keep_global);
    uint32_t s = PTX_NO_REG;
    int64_t off = 0;
    int x = shared_address(j, p, r, p->base[k], p->origin[k], i, &i->opnd[at], &s, &off);
    if (x < 0)
        return x;
    rw_drop_hints(i);
    if (both && (x = copy_append(j, i)) < 0)
        return x;
    i->opnd[at].reg = s; /* the caller's own array, which it looks at again */
    i->opnd[at].off = off;
    i->space = j->c->cluster && p->side == 1 && !r->own ? PTX_SHARED_CLUSTER : PTX_SHARED;
    return copy_append(j, i);
}

static void copy_on_write(uint32_t reg, bool write, void *user)
{
    struct rw_phase *p = user;
    for (unsigned k = 0; write && k < p->nknown;) {
        if (p->known[k].from == reg)
            p->known[k] = p->known[--p->nknown];
        else
            k++;
    }
}

/* The mapped instruction's predicate becomes "and `own`": surplus lanes leave it out, or a part's other threads. */
static int copy_own_only(struct rw_join *j, uint32_t own, struct ptx_inst *i)
{
    uint32_t both = own;
    int r = 0;
    if (i->pred != PTX_NO_REG) {
        if ((both = ptx_reg_new(j->f, PTX_PRED, "dt_both")) == PTX_NO_REG)
            return copy_nomem(j);
        const char *B = rw_rname(j, both), *P = rw_rname(j, i->pred), *O = rw_rname(j, own);
        if (i->pred_neg && (r = rw_emit(j, "not.pred %s, %s;", B, P)) == 0)
            r = rw_emit(j, "and.pred %s, %s, %s;", B, B, O);
        else if (r == 0)
            r = rw_emit(j, "and.pred %s, %s, %s;", B, P, O);
    }
    i->pred = both;
    i->pred_neg = false;
    return r;
}

static int copy_inst(struct rw_join *j, struct rw_phase *p, const struct ptx_inst *o)
{
    const struct rw_body *b = &j->c->facts.body[p->side];
    struct ptx_inst i = *o;
    struct ptx_opnd opnd[16];
    int x;
    if (o->nopnd > 14) { /* branch target lists and calls may be long */
        i.opnd = dt_new_array(&j->m->arena, struct ptx_opnd, o->nopnd);
        if (!i.opnd)
            return copy_nomem(j);
    } else {
        i.opnd = opnd;
    }
    if (o->nopnd)
        memcpy(i.opnd, o->opnd, sizeof *opnd * o->nopnd);
    const struct dt_arg *gone = dropped_arg(j, p, o);
    if (gone) { /* addresses in its buffer count from 0 */
        i.op = PTX_OP_MOV;
        i.space = PTX_GENERIC;
        i.nmod = 0;
        i.opnd[1] = (struct ptx_opnd){.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_S64, .bits = gone->offset};
    }
    for (unsigned k = 0; k < i.nopnd; k++)
        if ((x = map_opnd(j, p, &i.opnd[k])) < 0)
            return x;
    if (p->side != RW_ANY_SIDE && j->far[p->side] && i.op == PTX_OP_LD && i.space == PTX_CONST)
        i.space = PTX_GLOBAL;
    if (p->guest && (x = p->guest->constants(p->site, &i)) < 0)
        return x;
    if (j->c->pack && (x = rw_subblock_operands(j, p, &i)) < 0)
        return x;
    if (i.pred != PTX_NO_REG)
        i.pred = p->reg[i.pred];
    if (p->own_only && p->own_only[p->at] && (x = copy_own_only(j, p->own, &i)) < 0)
        return x;
    for (uint32_t k = 0; p->only && p->at >= p->run_end && k < p->namong; k++)
        if (p->among[k].set.bits == p->only[p->at].bits && p->among[k].set.value == p->only[p->at].value &&
            (x = copy_own_only(j, p->among[k].pred, &i)) < 0)
            return x;
    i.line = i.col = 0;
    switch (o->op) {
    case PTX_OP_LABEL:
    case PTX_OP_PRAGMA:
    case PTX_OP_BRANCHTARGETS: p->nknown = 0; return copy_append(j, &i);
    case PTX_OP_RET:
    case PTX_OP_EXIT: return rw_emit_bra(j, p->end, i.pred, i.pred_neg);
    case PTX_OP_BRA:
        if (p->guest && p->guest->is_again(p->site)) /* only this round is run */
            return rw_emit_bra(j, p->end, i.pred, i.pred_neg);
        break;
    case PTX_OP_BAR_SYNC:
    case PTX_OP_BAR_RED:
    case PTX_OP_BARRIER_SYNC:
    case PTX_OP_BARRIER_RED: return copy_barrier(j, p, &i);
    case PTX_OP_BARRIER_CLUSTER_ARRIVE: /* not aligned: a warp need not be whole after a thread has left */
    case PTX_OP_BARRIER_CLUSTER_WAIT: ptx_clear_mod(&i, PTX_M_ALIGNED); break;
    default: break;
    }
    if ((o->op == PTX_OP_MOV || o->op == PTX_OP_CVT) && o->nopnd > 1 && is_geometry(&o->opnd[1])) {
        x = copy_geometry(j, p, &i);
    } else if (p->guest && p->guest->is_joint(p->site, o)) {
        x = p->guest->joint(p->site, &i);
    } else {
        int k = redirection(j, p, o);
        if (k >= 0) {
            x = copy_redirected(j, p, o, &i, k);
        } else {
            if (!p->open)
                dev_round_mul(&i);
            if (o->op == PTX_OP_LD && rw_is_global_access(o) && written_here(j->c, p->side, rw_prov_of(b, o)))
                rw_drop_hints(&i);
            x = copy_append(j, &i);
        }
    }
    if (x < 0)
        return x;
    struct ptx_inst mapped = i; /* what this instruction overwrites */
    mapped.opnd = i.opnd;
    if (o->nopnd && !(ptx_op_info(o->op)->flags & PTX_F_NODST))
        ptx_inst_regs(&mapped, copy_on_write, p);
    return 0;
}

/* A device function: names mapped, arithmetic made explicit, loads without .nc (whatever they point to may be written
 * now). */
int rw_copy_function(struct rw_join *j, struct rw_phase *p, const struct ptx_function *f)
{
    for (uint32_t n = 0; n < f->ninst; n++) {
        struct ptx_inst i = f->inst[n];
        i.opnd = dt_new_array(&j->m->arena, struct ptx_opnd, i.nopnd + 1);
        if (!i.opnd)
            return copy_nomem(j);
        if (i.nopnd)
            memcpy(i.opnd, f->inst[n].opnd, sizeof *i.opnd * i.nopnd);
        for (unsigned k = 0; k < i.nopnd; k++) {
            int r = map_opnd(j, p, &i.opnd[k]);
            if (r < 0)
                return r;
        }
        if (i.pred != PTX_NO_REG)
            i.pred = p->reg[i.pred];
        i.line = i.col = 0;
        if (!p->open)
            dev_round_mul(&i);
        if (i.op == PTX_OP_LD && rw_is_global_access(&i))
            rw_drop_hints(&i);
        int r = copy_append(j, &i);
        if (r < 0)
            return r;
    }
    return 0;
}

static int copy_range(struct rw_join *j, struct rw_phase *p, const struct ptx_inst *o, unsigned first, unsigned n)
{
    static const enum ptx_mod vec[] = {PTX_M_V2, PTX_M_V4, PTX_M_V8};
    struct ptx_inst i = *o;
    struct ptx_opnd opnd[4], *v = &opnd[o->op == PTX_OP_LD ? 0 : 1], *a = &opnd[o->op == PTX_OP_LD ? 1 : 0];
    memcpy(opnd, o->opnd, sizeof *opnd * o->nopnd);
    i.opnd = opnd;
    i.vec = (uint8_t)n;
    for (unsigned k = 0; k < 3; k++) {
        ptx_clear_mod(&i, vec[k]);
        if (n == 2u << k)
            ptx_set_mod(&i, vec[k]);
    }
    ptx_clear_mod(&i, ptx_mod_of(&i, PTX_MC_L2)); /* some hints are allowed on the widest loads only */
    if (n == 1)
        *v = o->opnd[o->op == PTX_OP_LD ? 0 : 1].elem[first];
    else
        v->elem += first, v->n = (uint8_t)n;
    a->off += (int64_t)first * ptx_type_bytes(o->type[0]);
    return copy_inst(j, p, &i);
}

/* Copy some components of a load or store, as few aligned vectors as possible. */
static int copy_parts(struct rw_join *j, struct rw_phase *p, const struct ptx_inst *o, unsigned mask)
{
    for (int r; mask;) {
        unsigned first = (unsigned)__builtin_ctz(mask), n = 1;
        while (first % (2 * n) == 0 && 2 * n <= o->vec && (mask >> first & ((1u << 2 * n) - 1)) == (1u << 2 * n) - 1)
            n *= 2;
        if ((r = copy_range(j, p, o, first, n)) < 0)
            return r;
        mask &= ~(((1u << n) - 1) << first);
    }
    return 0;
}

/* Threads that do not make what begins here branch over it. */
static int copy_run(struct rw_join *j, struct rw_phase *p, uint32_t n)
{
    const struct rw_threads own = p->only[n];
    uint32_t k = 0;
    while (k < p->namong && (p->among[k].set.bits != own.bits || p->among[k].set.value != own.value))
        k++;
    if ((p->run_label = ptx_label_new(j->f, "RUN")) == UINT32_MAX)
        return copy_nomem(j);
    if (k == p->namong)
        return dt_err_set(j->e, DT_E_INTERNAL, "no predicate says who makes a run");
    p->run_end = p->run[n];
    return rw_emit_bra(j, p->run_label, p->among[k].pred, true);
}

int rw_copy_body(struct rw_join *j, struct rw_phase *p)
{
    const struct ptx_function *f = j->c->facts.body[p->side].f;
    p->nknown = 0;
    for (uint32_t n = 0; n < f->ninst; n++) {
        const struct ptx_inst *o = &f->inst[n];
        unsigned mask = p->mask ? p->mask[n] : 0;
        int r = 0;
        p->at = n;
        if (p->run && p->run[n] && (r = copy_run(j, p, n)) < 0)
            return r;
        if (!p->mask || o->op == PTX_OP_LABEL ||
            (mask && (!p->guest || rw_access_parts(o) == 1 || p->guest->is_joint(p->site, o))))
            r = copy_inst(j, p, o);
        else if (mask)
            r = copy_parts(j, p, o, mask);
        if (r == 0 && p->guest && p->mask && o->op == PTX_OP_LABEL)
            r = p->guest->label(p->site);
        if (r == 0 && n + 1 == p->run_end)
            r = rw_emit_label(j, p->run_label);
        if (r < 0)
            return r;
    }
    return 0;
}
