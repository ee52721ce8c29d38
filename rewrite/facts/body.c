/* What one entry contains that a rewrite must know: read off its PTX once for each candidate.
 *
 * Each thing that a condition forbids (enum rw_fact) is recorded at the first place where it occurs; the predicates of
 * legal-body.c turn that into a refusal. Device functions that the entry calls are read too. They may compute, load and
 * store, but may not use anything that belongs to a block (barriers, shared variables, thread and block numbers), since
 * the joined kernel renames that in the entry only.
 *
 * Shared memory: static arrays are laid out one after another by their alignment, and dynamic shared memory follows.
 * Every `extern .shared` name starts at the same place, as on the device.
 *
 * The joined kernel lives in a module of its own and gets copies of module variables. So a .global variable must be one
 * whose address reaches nothing but loads (tables of math functions). Kernels never write `.const` variables; one that
 * holds addresses, or that is a buffer of the graph, cannot be copied.
 *
 * A cluster counts if the kernel is launched in one and its text uses something of it; else the kernel is like any
 * other.
 *
 * Not here: which threads reach a barrier (vary.c) or a warp collective (lanes.c), and where addresses come from
 * (prov.c).
 */
#include "ptx/reach.h"
#include "rewrite/facts/facts-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/subject.h"

struct scan {
    struct dt_arena *a;
    struct rw_body *b;
    const struct dev_prog *prog;
    const struct dt_launch *launch;
    const struct ptx_function **seen;
    unsigned nseen, depth;
    bool clusters; /* the launch has them */
};

#define MAX_FUNCS 256
#define MAX_DEPTH 64

static void body_found(struct rw_body *b, enum rw_fact k, uint32_t line, const char *what)
{
    if (!b->find[k].set)
        b->find[k] = (struct rw_find){true, line, what};
}

bool rw_is_global_access(const struct ptx_inst *i)
{
    if (ptx_is_opaque(i))
        return true;
    if (i->op == PTX_OP_WGMMA_MMA_ASYNC) /* descriptors of shared memory */
        return false;
    const struct ptx_op_info *o = ptx_op_info(i->op);
    if (!(o->flags & (PTX_F_READS | PTX_F_WRITES)) || (o->flags & PTX_F_CALL))
        return false;
    bool first = i->space == PTX_GLOBAL || i->space == PTX_GENERIC;
    bool second = (o->flags & PTX_F_SPACE2) && (i->space2 == PTX_GLOBAL || i->space2 == PTX_GENERIC);
    return first || second;
}

unsigned rw_access_parts(const struct ptx_inst *i)
{
    bool access = (i->op == PTX_OP_LD || i->op == PTX_OP_ST) && rw_is_global_access(i);
    return access && i->vec > 1 && i->opnd[i->op == PTX_OP_LD ? 0 : 1].kind == PTX_O_VEC ? i->vec : 1;
}

bool rw_is_block_barrier(unsigned op)
{
    return op == PTX_OP_BAR_SYNC || op == PTX_OP_BAR_ARRIVE || op == PTX_OP_BAR_RED || op == PTX_OP_BARRIER_SYNC ||
           op == PTX_OP_BARRIER_ARRIVE || op == PTX_OP_BARRIER_RED;
}

/* Instructions that concern the blocks of its cluster and are done when they are through. */
static bool uses_cluster(const struct ptx_inst *i)
{
    bool moves = i->op == PTX_OP_LD || i->op == PTX_OP_ST || i->op == PTX_OP_ATOM || i->op == PTX_OP_RED;
    return i->op == PTX_OP_BARRIER_CLUSTER_ARRIVE || i->op == PTX_OP_BARRIER_CLUSTER_WAIT || i->op == PTX_OP_MAPA ||
           i->op == PTX_OP_GETCTARANK || (moves && i->space == PTX_SHARED_CLUSTER);
}

/* Instructions whose effects outlive their place: asynchronous copies, memory barriers, matrix groups, and register
 * reallocation. cp.async (non-bulk) is not among them, it is drained. */
bool rw_is_async(const struct ptx_inst *i)
{
    switch (i->op) {
    case PTX_OP_CP_ASYNC_MBARRIER_ARRIVE:
    case PTX_OP_GRIDDEPCONTROL_WAIT:
    case PTX_OP_GRIDDEPCONTROL_LAUNCH:
    case PTX_OP_FENCE_MBARRIER_INIT:
    case PTX_OP_FENCE_PROXY:
    case PTX_OP_MEMBAR_PROXY:
    case PTX_OP_ELECT: return true;
    default: break;
    }
    if (i->op == PTX_OP_CP_ASYNC_BULK_PREFETCH) /* nobody waits for it, and no byte is different */
        return false;
    const char *m = ptx_op_info(i->op)->mnemonic;
    static const char *const prefix[] = {
        "mbarrier.", "cp.async.bulk", "cp.reduce",  "st.async", "red.async",
        "wgmma.",    "setmaxnreg",    "tensormap.", "tcgen05",  "clusterlaunchcontrol"};
    for (size_t k = 0; k < sizeof prefix / sizeof prefix[0]; k++)
        if (!strncmp(m, prefix[k], strlen(prefix[k])))
            return true;
    return !uses_cluster(i) && (i->space == PTX_SHARED_CLUSTER || i->space2 == PTX_SHARED_CLUSTER);
}

bool rw_is_launch_control(const struct ptx_inst *i)
{
    return i->op == PTX_OP_GRIDDEPCONTROL_WAIT || i->op == PTX_OP_GRIDDEPCONTROL_LAUNCH;
}

/* Of these, what concerns more than the block, or the kernel as a whole: it is another one beside a kernel of others. A
 * copy's `.shared::cluster` is the block's own memory where there is no cluster (scan_function asks). */
bool rw_is_async_far(const struct ptx_inst *i)
{
    if (rw_is_launch_control(i) || ptx_has(i, PTX_M_MULTICAST))
        return true;
    const char *m = ptx_op_info(i->op)->mnemonic;
    static const char *const prefix[] = {"st.async",   "red.async", "setmaxnreg",
                                         "tensormap.", "tcgen05",   "clusterlaunchcontrol"};
    for (size_t k = 0; k < sizeof prefix / sizeof prefix[0]; k++)
        if (!strncmp(m, prefix[k], strlen(prefix[k])))
            return true;
    return false;
}

bool rw_is_lockstep(const struct ptx_inst *i)
{
    return (i->op == PTX_OP_LD || i->op == PTX_OP_ST) && i->space == PTX_SHARED && ptx_has(i, PTX_M_VOLATILE);
}

static void scan_order(struct rw_body *b, const struct ptx_inst *i, const char *mn)
{
    enum ptx_mod sem = ptx_mod_of(i, PTX_MC_SEM), scope = ptx_mod_of(i, PTX_MC_SCOPE);
    if (i->op == PTX_OP_MEMBAR || i->op == PTX_OP_FENCE) {
        if (scope != PTX_M_CTA)
            body_found(b, RW_ORDERED, i->line, mn);
        return;
    }
    if (ptx_has(i, PTX_M_MMIO))
        body_found(b, RW_SIDE, i->line, mn);
    if (!rw_is_global_access(i))
        return;
    bool atomic = ptx_op_info(i->op)->flags & PTX_F_ATOMIC;
    if (sem == PTX_M_VOLATILE || (scope == PTX_M_SYS && !(ptx_op_info(i->op)->flags & PTX_F_READS)))
        body_found(b, RW_SIDE, i->line, mn);
    if (sem != PTX_M_NONE && sem != PTX_M_WEAK && !(atomic && sem == PTX_M_RELAXED))
        body_found(b, RW_ORDERED, i->line, mn);
}

static void scan_barrier(struct rw_body *b, const struct ptx_inst *i, const char *mn)
{
    bool red = i->op == PTX_OP_BAR_RED || i->op == PTX_OP_BARRIER_RED;
    unsigned at = red ? 1 : 0, rest = (unsigned)i->nopnd - at - (red ? 1 : 0);
    b->barriers = true;
    if (at >= i->nopnd || i->opnd[at].kind != PTX_O_IMM || i->opnd[at].bits > 15) {
        body_found(b, RW_BARRIER_REG, i->line, mn);
        return;
    }
    b->barrier_ids |= 1u << i->opnd[at].bits;
    if (rest < 2)
        return;
    const struct ptx_opnd *count = &i->opnd[at + 1];
    if (count->kind != PTX_O_IMM)
        body_found(b, RW_BARRIER_REG, i->line, mn);
    else if (i->op == PTX_OP_BAR_ARRIVE || i->op == PTX_OP_BARRIER_ARRIVE)
        body_found(b, RW_BARRIER_SPLIT, i->line, mn);
    b->counted_ids |= 1u << i->opnd[at].bits;
}

static int scan_function(struct scan *s, const struct ptx_function *f, bool top, struct dt_err *e);

static int scan_call(struct scan *s, const struct ptx_inst *i, struct dt_err *e)
{
    struct rw_body *b = s->b;
    const struct ptx_function *callee = ptx_callee(i);
    b->calls = true;
    if (!callee) {
        body_found(b, RW_INDIRECT_CALL, i->line, "call");
        return 0;
    }
    if (!callee->has_body) {
        body_found(b, RW_EXTERN_CALL, i->line, callee->name);
        return 0;
    }
    return scan_function(s, callee, false, e);
}

static bool is_buffer(const struct scan *s, const struct ptx_var *v)
{
    for (uint32_t k = 0; k < s->prog->graph->nbuffer; k++) {
        const struct dt_buffer *q = &s->prog->graph->buffer[k];
        if (q->module == (int)s->launch->module && q->variable && !strcmp(q->variable, v->name))
            return true;
    }
    return false;
}

static void scan_opnd(struct scan *s, const struct ptx_function *f, const struct ptx_inst *i, const struct ptx_opnd *o,
                      bool top)
{
    struct rw_body *b = s->b;
    if (o->kind == PTX_O_VEC) {
        for (unsigned k = 0; k < o->n; k++)
            scan_opnd(s, f, i, &o->elem[k], top);
        return;
    }
    if (o->kind == PTX_O_SREG) {
        unsigned flags = ptx_sreg_flags(o->sreg);
        /* the launch says */
        bool cluster = o->sreg >= PTX_SR_CLUSTERID && o->sreg <= PTX_SR_CLUSTER_NCTARANK && s->clusters;
        if (cluster)
            body_found(b, RW_CLUSTER, i->line, ptx_sreg_text(o->sreg));
        if (cluster && !top)
            body_found(b, RW_FUNC_CONTEXT, i->line, ptx_sreg_text(o->sreg));
        else if (!cluster && !(flags & PTX_SRF_GEOMETRY))
            body_found(b, RW_MACHINE, i->line, ptx_sreg_text(o->sreg));
        else if (!top)
            body_found(b, RW_FUNC_CONTEXT, i->line, ptx_sreg_text(o->sreg));
        if (o->sreg >= PTX_SR_LANEID && o->sreg <= PTX_SR_LANEMASK_GT)
            body_found(b, RW_LANE, i->line, ptx_sreg_text(o->sreg));
    }
    if (o->kind == PTX_O_FUNC && i->op != PTX_OP_CALL)
        body_found(b, RW_INDIRECT_CALL, i->line, o->func->name);
    const struct ptx_var *v = NULL;
    if (o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR))
        v = o->var;
    if (!v)
        return;
    switch (v->space) {
    case PTX_SHARED:
        if (!top)
            body_found(b, RW_FUNC_CONTEXT, i->line, v->name);
        b->shared_used = true;
        break;
    case PTX_GLOBAL:
        if (v->is_extern || is_buffer(s, v) || !rw_readonly_variable(f->module, v))
            body_found(b, RW_GLOBAL_VAR, i->line, v->name);
        break;
    case PTX_CONST:
        if (v->is_extern || is_buffer(s, v) || v->nreloc)
            body_found(b, RW_GLOBAL_VAR, i->line, v->name);
        break;
    case PTX_PARAM:
        if (o->kind == PTX_O_VAR && i->op != PTX_OP_CALL && top) {
            for (uint32_t k = 0; k < f->nparam; k++)
                if (f->param[k] == v &&
                    !(k < s->launch->narg && s->launch->arg[k].kind == DT_ARG_TENSOR_MAP && rw_map_only_named(f, v)))
                    body_found(b, RW_PARAM_ADDRESS, i->line, v->name);
        }
        break;
    default: break;
    }
}

static int scan_function(struct scan *s, const struct ptx_function *f, bool top, struct dt_err *e)
{
    struct rw_body *b = s->b;
    if (s->depth >= MAX_DEPTH) {
        body_found(b, RW_RECURSION, f->line, f->name);
        return 0;
    }
    for (unsigned k = 0; k < s->depth; k++)
        if (s->seen[k] == f) {
            body_found(b, RW_RECURSION, f->line, f->name);
            return 0;
        }
    if (s->nseen++ >= MAX_FUNCS) {
        body_found(b, RW_RECURSION, f->line, f->name);
        return 0;
    }
    s->seen[s->depth++] = f;
    for (uint32_t n = 0; n < f->ninst; n++) {
        const struct ptx_inst *i = &f->inst[n];
        if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS)
            continue;
        if (i->op == PTX_OP_CALLPROTO) {
            body_found(b, RW_INDIRECT_CALL, i->line, "callprototype");
            continue;
        }
        if (ptx_is_opaque(i)) {
            body_found(b, RW_OPAQUE, i->line, i->text ? i->text : ptx_op_info(i->op)->mnemonic);
            continue;
        }
        const struct ptx_op_info *o = ptx_op_info(i->op);
        for (unsigned k = 0; k < i->nopnd; k++)
            scan_opnd(s, f, i, &i->opnd[k], top);
        if (rw_is_async(i))
            body_found(b, RW_ASYNC, i->line, o->mnemonic);
        bool others = s->clusters && (i->space == PTX_SHARED_CLUSTER || i->space2 == PTX_SHARED_CLUSTER);
        if (rw_is_async(i) && (rw_is_async_far(i) || others))
            body_found(b, RW_ASYNC_FAR, i->line, o->mnemonic);
        if (uses_cluster(i))
            body_found(b, top ? RW_CLUSTER : RW_FUNC_CONTEXT, i->line, o->mnemonic);
        if (i->op == PTX_OP_CP_ASYNC)
            b->cp_async = true;
        b->lockstep |= rw_is_lockstep(i);
        b->sets_carry |= ptx_has(i, PTX_M_CC) || i->op == PTX_OP_CALL;
        b->reads_carry |= top && ptx_reads_carry(i);
        if (rw_is_block_barrier(i->op)) {
            if (top)
                scan_barrier(b, i, o->mnemonic);
            else
                body_found(b, RW_FUNC_CONTEXT, i->line, o->mnemonic);
        } else if (o->flags & PTX_F_CONVERGENT) {
            b->convergent = true;
            b->func_convergent |= !top;
        }
        if (i->op == PTX_OP_ACTIVEMASK || (i->op == PTX_OP_VOTE && !ptx_has(i, PTX_M_SYNC)))
            body_found(b, RW_ACTIVEMASK, i->line, o->mnemonic);
        if (i->op == PTX_OP_EXIT && !top)
            body_found(b, RW_EXIT_IN_FUNC, i->line, "exit");
        if (i->op == PTX_OP_TRAP || i->op == PTX_OP_BRKPT || i->op == PTX_OP_PMEVENT)
            body_found(b, RW_SIDE, i->line, o->mnemonic);
        if (i->op == PTX_OP_LDU)
            body_found(b, RW_LDU, i->line, o->mnemonic);
        scan_order(b, i, o->mnemonic);
        if (i->op == PTX_OP_CALL) {
            int r = scan_call(s, i, e);
            if (r < 0)
                return r;
        }
    }
    s->depth--;
    return 0;
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

static bool names_var(const struct ptx_inst *i, void *user)
{
    for (unsigned k = 0; k < i->nopnd; k++) {
        const struct ptx_opnd *o = &i->opnd[k];
        if ((o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)) && o->var == user)
            return true;
    }
    return false;
}

/* By the function, or by what it calls; also where there was no memory to find out. */
static bool uses_var(const struct ptx_function *f, struct ptx_var *v) { return ptx_reach_any(f, names_var, v) != 0; }

static int lay_out_shared(struct dt_arena *a, struct rw_body *b, struct dt_err *e)
{
    const struct ptx_function *f = b->f;
    uint32_t cap = f->nvar + f->module->nvar;
    uint64_t at = 0;
    uint32_t dyn_align = 16;
    b->shared_var = dt_new_array(a, struct ptx_var *, cap + 1);
    b->shared_at = dt_new_array(a, uint32_t, cap + 1);
    if (dt_arena_failed(a))
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    /* swizzled tiles lie at multiples of 1024 bytes: dynamic memory begins at one, whatever alignment it declares */
    b->shared_align = b->find[RW_ASYNC].set ? 1024 : 16;
    for (uint32_t k = 0; k < cap; k++) {
        struct ptx_var *v = k < f->nvar ? f->var[k] : f->module->var[k - f->nvar];
        if (v->space != PTX_SHARED || (k >= f->nvar && !uses_var(f, v)))
            continue;
        uint32_t align = v->align ? v->align : 1;
        if (align > b->shared_align)
            b->shared_align = align;
        b->shared_var[b->nshared] = v;
        if (v->is_extern || v->bytes == 0) {
            b->shared_at[b->nshared++] = UINT32_MAX; /* dynamic: filled in below */
            if (align > dyn_align)
                dyn_align = align;
            continue;
        }
        at = (at + align - 1) / align * align;
        b->shared_at[b->nshared++] = (uint32_t)at;
        at += v->bytes;
        if (at > (1u << 30))
            return dt_err_set(e, DT_E_TOO_LARGE, "entry %s has too much shared memory", f->name);
    }
    b->static_bytes = (uint32_t)at;
    at = (at + dyn_align - 1) / dyn_align * dyn_align;
    b->dynamic_at = (uint32_t)at;
    for (uint32_t k = 0; k < b->nshared; k++)
        if (b->shared_at[k] == UINT32_MAX)
            b->shared_at[k] = b->dynamic_at;
    uint32_t dynamic = b->step->launch->shared;
    b->shared_bytes = dynamic ? b->dynamic_at + dynamic : b->static_bytes;
    return 0;
}

int rw_body_init(struct dt_arena *a, const struct dev_prog *p, uint32_t launch, const struct ptx_function *f,
                 struct rw_body *ret, struct dt_err *e)
{
    const struct dev_step *step = &p->step[launch];
    const struct dt_launch *l = step->launch;
    const struct ptx_function *seen[MAX_DEPTH];
    memset(ret, 0, sizeof *ret);
    ret->f = f ? f : step->entry;
    ret->step = step;
    if (!ret->f)
        return dt_err_set(e, DT_E_INTERNAL, "launch " DT_LAUNCH_BARE " has no kernel", l->name);
    memcpy(ret->grid, l->grid, sizeof ret->grid);
    memcpy(ret->block, l->block, sizeof ret->block);
    ret->threads = step->threads;
    uint32_t cluster[3], ranks = rw_cluster_shape(l, ret->f, cluster);
    struct scan s = {.a = a, .b = ret, .prog = p, .launch = l, .seen = seen, .clusters = ranks > 0};
    int r = scan_function(&s, ret->f, true, e);
    if (r < 0)
        return r;
    if (ranks && ret->find[RW_CLUSTER].set) {
        memcpy(ret->cluster, cluster, sizeof cluster);
        ret->ranks = ranks;
        if ((r = rw_cluster_meets(ret->f, NULL, &ret->meets, &ret->apart, e)) < 0)
            return r;
    }
    ret->const_var = dt_new_array(a, struct ptx_var *, ret->f->module->nvar + 1);
    if (!ret->const_var)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    for (uint32_t k = 0; k < ret->f->module->nvar; k++)
        if (ret->f->module->var[k]->space == PTX_CONST && uses_var(ret->f, ret->f->module->var[k]))
            ret->const_var[ret->nconst++] = ret->f->module->var[k];
    if ((r = lay_out_shared(a, ret, e)) < 0 || (r = rw_vary(ret, e)) < 0 || (r = rw_lanes(ret, e)) < 0)
        return r;
    return rw_prov(a, ret, e);
}

unsigned rw_target_number(const char *target)
{
    const char *t = strstr(target ? target : "", "sm_");
    return t ? (unsigned)strtoul(t + 3, NULL, 10) : 0;
}
