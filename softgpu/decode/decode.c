/* From a parsed kernel to the flat array of operations that the executor runs: functions, basic blocks, branches.
 *
 * Registers get their rows in registers.c, constants and variables in vars.c. operand.c says what an operand means,
 * inst.c and the files that it names what an instruction means.
 *
 * Device functions are inlined at each call (inline.c). All calls of a function share one set of registers and one
 * piece of local memory; that is right because a thread is in such a function at most once (call.c has the others), and
 * it makes a call's end a place where threads meet again. Basic blocks start at labels and after everything that can
 * move threads apart or let them meet.
 *
 * Errors (an unsupported instruction, an unresolved symbol) are kept in the code; libcuda names them as the module is
 * loaded.
 */
#include "softgpu/decode/decode-priv.h"
#include "softgpu/exec/costs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int sg_dec_error(struct sg_dec *d, int num, const char *fmt, ...)
{
    struct sg_code *c = d->c;
    if (c->error)
        return c->error;
    c->error = num;
    c->error_line = d->i ? d->i->line : d->f ? d->f->line : 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->error_text, sizeof c->error_text, fmt, ap);
    va_end(ap);
    return num;
}

/* ---- emitting ---------------------------------------------------------------------------------------------------- */
static struct sg_op *push_op(struct sg_dec *d, sg_fn fn)
{
    static __thread struct sg_op dummy;
    if (d->op.n >= SG_MAX_OPS) {
        sg_dec_error(d, DT_E_TOO_LARGE, "the kernel has more than %u operations when its functions are inlined",
                     SG_MAX_OPS);
        return &dummy;
    }
    if (!dt_push(&d->op, (struct sg_op){.fn = fn, .guard = SG_NONE, .n = 1})) {
        d->nomem = true;
        return &dummy;
    }
    struct sg_op *op = &d->op.p[d->op.n - 1];
    op->src = d->src.n ? (uint32_t)d->src.n - 1 : 0;
    return op;
}

static void begin_bb(struct sg_dec *d)
{
    if (!d->need_bb)
        return;
    d->need_bb = false;
    struct sg_op *op = push_op(d, d->h[SG_H_BB]);
    op->x = (uint32_t)d->bb.n;
    op->flags = SG_IS_BB;
    if (!dt_push(&d->bb, (struct sg_bb){.ops = 1}))
        d->nomem = true;
}

struct sg_op *sg_emit(struct sg_dec *d, sg_fn fn)
{
    begin_bb(d);
    struct sg_op *op = push_op(d, fn);
    if (d->bb.n)
        d->bb.p[d->bb.n - 1].ops++;
    if (d->guarded && d->i->pred != PTX_NO_REG) {
        op->inner = fn;
        op->fn = sg_guarded;
        op->guard = d->ref[d->i->pred];
        op->flags = d->i->pred_neg ? SG_GUARD_NOT : 0;
    }
    return op;
}

uint32_t sg_ext(struct sg_dec *d, uint32_t v)
{
    if (!dt_push(&d->ext, v))
        d->nomem = true;
    return (uint32_t)d->ext.n - 1;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */
struct sg_fn_regs *sg_find_fn(struct sg_dec *d, const struct ptx_function *f)
{
    for (size_t i = 0; i < d->fn.n; i++)
        if (d->fn.p[i].f == f)
            return &d->fn.p[i];
    return NULL;
}

/* Is it a value for the parameter? What is in a register, or a constant, needs a scalar. */
static bool arg_fits(const struct ptx_function *f, const struct ptx_opnd *o, const struct ptx_var *p)
{
    if (o->kind == PTX_O_VAR)
        return o->var->bytes == p->bytes;
    return !p->is_array && p->bytes <= 8 &&
           (o->kind != PTX_O_REG || (o->reg < f->nreg && ptx_type_bytes(f->reg[o->reg].type) == p->bytes));
}

/* May the indirect call `i` of f reach g? Arguments and results have to fit. */
bool sg_may_reach(const struct ptx_function *f, const struct ptx_inst *i, const struct ptx_function *g)
{
    if (g->is_entry || !g->has_body || g->nret != i->opnd[0].n || g->nparam != i->opnd[2].n)
        return false;
    for (uint32_t k = 0; k < g->nret + g->nparam; k++) {
        const struct ptx_opnd *o = k < g->nret ? &i->opnd[0].elem[k] : &i->opnd[2].elem[k - g->nret];
        const struct ptx_var *p = k < g->nret ? g->ret[k] : g->param[k - g->nret];
        if (!arg_fits(f, o, p))
            return false;
    }
    return true;
}

static int gather(struct sg_dec *d, const struct ptx_function *f);

static int gather_indirect(struct sg_dec *d, const struct ptx_function *f, const struct ptx_inst *i)
{
    int r = 0;
    for (uint32_t k = 0; k < d->m->nfunc && r >= 0 && d->fn.n < 4096; k++)
        if (sg_may_reach(f, i, d->m->func[k]))
            r = gather(d, d->m->func[k]);
    return r;
}

/* The kernel and every function that it can call, each once. */
static int gather(struct sg_dec *d, const struct ptx_function *f)
{
    if (sg_find_fn(d, f))
        return 0;
    struct sg_fn_regs r = {.f = f,
                           .ref = dt_new_array(&d->c->arena, uint32_t, f->nreg + 1),
                           .use = dt_new_array(&d->c->arena, uint8_t, f->nreg + 1)};
    if (!r.ref || !r.use || !dt_push(&d->fn, r))
        return DT_E_NOMEM;
    for (uint32_t i = 0; i < f->ninst; i++) {
        const struct ptx_inst *in = &f->inst[i];
        if (in->op == PTX_OP_CALL && in->nopnd > 2 && in->opnd[1].kind == PTX_O_REG) {
            int r1 = gather_indirect(d, f, in);
            if (r1 < 0)
                return r1;
        }
        if (in->op != PTX_OP_CALL || in->nopnd < 2 || in->opnd[1].kind != PTX_O_FUNC)
            continue;
        const struct ptx_function *g = in->opnd[1].func;
        if (!g->has_body)
            g = ptx_find_function(d->m, g->name);
        int r2 = g && g->has_body && d->fn.n < 4096 ? gather(d, g) : 0;
        if (r2 < 0)
            return r2;
    }
    return 0;
}

/* ---- control ----------------------------------------------------------------------------------------------------- */
void sg_decode_branch(struct sg_dec *d, uint32_t label, uint32_t guard, bool guard_not)
{
    bool g = d->guarded;
    d->guarded = false;
    struct sg_op *op = sg_emit(d, sg_bra);
    d->guarded = g;
    op->guard = guard;
    op->flags = guard_not ? SG_GUARD_NOT : 0;
    if (!dt_push(&d->fix, (struct sg_fix){(uint32_t)d->op.n - 1, UINT32_MAX, label}))
        d->nomem = true;
    d->need_bb = true;
}

static uint32_t guard_ref(struct sg_dec *d) { return d->i->pred == PTX_NO_REG ? SG_NONE : d->ref[d->i->pred]; }

static void count_inst(struct sg_dec *d)
{
    begin_bb(d);
    if (!d->bb.n)
        return;
    struct sg_bb *b = &d->bb.p[d->bb.n - 1];
    if (d->src.n)
        d->src.p[d->src.n - 1].bb = (uint32_t)d->bb.n - 1;
    const struct ptx_inst *i = d->i;
    const struct ptx_op_info *info = ptx_op_info((enum ptx_op)i->op);
    b->instructions++;
    enum ptx_type t = i->ntype ? (enum ptx_type)i->type[0] : PTX_T_NONE;
    switch (i->op) {
    case PTX_OP_EX2:
    case PTX_OP_LG2:
    case PTX_OP_SIN:
    case PTX_OP_COS:
    case PTX_OP_TANH:
    case PTX_OP_RSQRT:
    case PTX_OP_SQRT:
    case PTX_OP_RCP: b->count[SG_C_SFU]++; return;
    case PTX_OP_BRA:
    case PTX_OP_RET:
    case PTX_OP_EXIT:
    case PTX_OP_CALL:
    case PTX_OP_MOV:
    case PTX_OP_MMA: /* counted where it is decoded */
    case PTX_OP_MMA_SP:
    case PTX_OP_MMA_SP_ORDERED:
    case PTX_OP_WMMA_MMA:
    case PTX_OP_WGMMA_MMA_ASYNC: return;
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX:
        b->count[SG_C_MEMORY]++;
        b->count[SG_C_SHARED] += ptx_has(i, PTX_M_X4) ? 16 : ptx_has(i, PTX_M_X2) ? 8 : 4;
        return;
    default: break;
    }
    if (i->op == PTX_OP_BARRIER_CLUSTER_ARRIVE)
        return; /* the wait is what takes time */
    if (i->op == PTX_OP_BARRIER_CLUSTER_WAIT) {
        b->count[SG_C_CLUSTER_SYNC]++;
    } else if (info->flags & PTX_F_BARRIER) {
        b->count[SG_C_BARRIER]++;
    } else if (info->flags & (PTX_F_READS | PTX_F_WRITES)) {
        if (i->space == PTX_PARAM || i->space == PTX_PARAM_FUNC)
            return;
        b->count[SG_C_MEMORY]++;
        if (i->space == PTX_SHARED)
            b->count[SG_C_SHARED] += ptx_type_bytes(t) * (i->vec ? i->vec : 1);
        if (i->space == PTX_SHARED_CLUSTER && (i->op == PTX_OP_LD || i->op == PTX_OP_ST || i->op == PTX_OP_ST_ASYNC ||
                                               (info->flags & PTX_F_ATOMIC))) { /* not bulk copies */
            b->count[SG_C_CLUSTER]++;
            b->count[SG_C_CLUSTER_BYTES] += ptx_type_bytes(t) * (i->vec ? i->vec : 1);
        }
    } else if (t == PTX_F64) {
        b->count[SG_C_FP64]++;
    } else if (ptx_type_is_float(t)) {
        b->count[SG_C_FP32]++;
    } else if (t != PTX_T_NONE) {
        b->count[SG_C_INT]++;
    }
}

static int brx(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    const struct ptx_inst *list = NULL;
    for (uint32_t k = 0; k < d->f->ninst; k++)
        if (d->f->inst[k].op == PTX_OP_BRANCHTARGETS && d->f->inst[k].opnd[0].label == i->opnd[1].label)
            list = &d->f->inst[k];
    if (!list)
        return sg_dec_error(d, DT_E_PTX, "brx.idx without its .branchtargets");
    uint32_t a = sg_source(d, &i->opnd[0], PTX_U32), x = (uint32_t)d->ext.n;
    sg_ext(d, (uint32_t)list->nopnd - 1);
    for (uint32_t k = 1; k < list->nopnd; k++)
        sg_ext(d, 0);
    struct sg_op *op = sg_emit(d, sg_brx);
    op->a = a;
    op->x = x;
    for (uint32_t k = 1; k < list->nopnd; k++)
        if (!dt_push(&d->fix, (struct sg_fix){(uint32_t)d->op.n - 1, x + k, list->opnd[k].label}))
            d->nomem = true;
    d->need_bb = true;
    return 0;
}

/* Instructions that may park the warp, or are long: jumped over by threads whose predicate is false. */
static bool needs_branch(const struct ptx_inst *i)
{
    if (i->pred == PTX_NO_REG)
        return false;
    return (i->op == PTX_OP_CALL && !sg_is_touch(i)) || i->op == PTX_OP_BRX_IDX ||
           i->op == PTX_OP_GRIDDEPCONTROL_WAIT || i->op == PTX_OP_GRIDDEPCONTROL_LAUNCH ||
           ptx_op_info((enum ptx_op)i->op)->flags & (PTX_F_BARRIER | PTX_F_CONVERGENT);
}

static int one_inst(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    int r = 0;
    count_inst(d);
    uint32_t skip = UINT32_MAX;
    if (needs_branch(i)) {
        sg_decode_branch(d, UINT32_MAX - 1, guard_ref(d), !i->pred_neg);
        skip = (uint32_t)d->fix.n - 1;
        begin_bb(d);
    }
    d->guarded = skip == UINT32_MAX;
    switch (i->op) {
    case PTX_OP_BRA: sg_decode_branch(d, i->opnd[0].label, guard_ref(d), i->pred_neg); break;
    case PTX_OP_BRX_IDX: r = brx(d); break;
    case PTX_OP_RET:
        if (d->out && d->out->f == d->f) {
            d->guarded = false;
            struct sg_op *op = sg_emit(d, sg_return);
            op->guard = guard_ref(d);
            op->flags = i->pred_neg ? SG_GUARD_NOT : 0;
            op->c = d->out->rows;
            d->need_bb = true;
            break;
        }
        if (d->f != d->k->f) {
            sg_decode_branch(d, UINT32_MAX, guard_ref(d), i->pred_neg);
            break;
        } /* fall through */
    case PTX_OP_EXIT:
    case PTX_OP_TRAP:
    case PTX_OP_BRKPT: {
        d->guarded = false;
        struct sg_op *op = sg_emit(d, i->op == PTX_OP_TRAP || i->op == PTX_OP_BRKPT ? sg_trap : sg_exit);
        op->guard = guard_ref(d);
        op->flags = i->pred_neg ? SG_GUARD_NOT : 0;
        d->need_bb = true;
        break;
    }
    case PTX_OP_CALL:
        d->guarded = sg_is_touch(i);
        r = sg_decode_call(d);
        break;
    default:
        r = sg_decode_inst(d);
        for (unsigned k = 0; k < d->npost; k++) {
            struct sg_op *op = sg_emit_h(d, d->post[k].handler);
            op->d = d->post[k].d;
            op->a = d->post[k].a;
        }
    }
    if (skip != UINT32_MAX && skip < d->fix.n) {
        struct sg_fix f = d->fix.p[skip];
        d->fix.p[skip].label = UINT32_MAX - 2; /* resolved here */
        if (f.op < d->op.n)
            d->op.p[f.op].imm = (int64_t)d->op.n - f.op;
        d->need_bb = true;
    }
    return r;
}

int sg_decode_function(struct sg_dec *d, const struct ptx_function *f)
{
    struct sg_fn_regs *me = sg_find_fn(d, f);
    if (!me)
        return sg_dec_error(d, DT_E_TOO_LARGE, "too many functions");
    if (me->active)
        return sg_dec_error(d, DT_E_INTERNAL, "%s inside itself", f->name);
    me->active = true;
    uint32_t *label = dt_malloc((f->nlabel + 1) * sizeof *label);
    if (!label)
        return DT_E_NOMEM;
    memset(label, 0xFF, (f->nlabel + 1) * sizeof *label);
    size_t first_fix = d->fix.n;
    d->f = f;
    d->ref = me->ref;
    d->use = me->use;
    d->need_bb = true;
    int r = 0;
    for (uint32_t k = 0; k < f->ninst && r >= 0 && !d->nomem && !d->c->error; k++) {
        const struct ptx_inst *i = d->i = &f->inst[k];
        d->npost = 0;
        d->temp_next = d->ptemp_next = 0;
        if (i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS || i->op == PTX_OP_CALLPROTO)
            continue;
        if (i->op == PTX_OP_LABEL) {
            d->need_bb = true;
            if (i->opnd[0].label < f->nlabel)
                label[i->opnd[0].label] = (uint32_t)d->op.n;
            continue;
        }
        if (!dt_push(&d->src, (struct sg_src){f, k, SG_NONE})) {
            d->nomem = true;
            break;
        }
        r = one_inst(d);
        d->guarded = false;
    }
    d->i = NULL;
    if (r >= 0 && f == d->k->f) { /* falling off the end is exit */
        d->need_bb = true;
        sg_emit(d, sg_exit);
    }
    d->need_bb = true;
    for (size_t k = first_fix; k < d->fix.n; k++) {
        struct sg_fix x = d->fix.p[k];
        if (x.label == UINT32_MAX - 2 || x.op >= d->op.n)
            continue;
        uint32_t to = x.label == UINT32_MAX ? (uint32_t)d->op.n : x.label < f->nlabel ? label[x.label] : UINT32_MAX;
        if (to == UINT32_MAX && r >= 0)
            r = sg_dec_error(d, DT_E_PTX, "a label of %s is not defined", f->name);
        if (x.ext == UINT32_MAX)
            d->op.p[x.op].imm = (int64_t)to - x.op;
        else
            d->ext.p[x.ext] = to - x.op;
    }
    d->fix.n = first_fix;
    free(label);
    sg_find_fn(d, f)->active = false;
    return r;
}

/* ---- the whole kernel -------------------------------------------------------------------------------------------- */
static int decode_one(struct sg_dec *d)
{
    const struct ptx_function *f = d->k->f;
    int r = sg_fixed_konst(d);
    if (r < 0 || (r = gather(d, f)) < 0 || (r = sg_find_cycles(d)) < 0)
        return r;
    d->regs = SG_REG_FIXED;
    d->ptemp = d->regs;
    d->regs += 4 * SG_PTEMPS;
    d->regs = (d->regs + 127) & ~127u;
    d->temp = d->regs;
    d->regs += 256 * SG_TEMPS;
    if (d->recursive) {
        d->fp = d->c->fp = d->regs;
        d->regs += 256;
    }
    for (size_t i = 0; i < d->fn.n; i++)
        if ((r = sg_assign_registers(d, &d->fn.p[i])) < 0)
            return r;
    d->regs = (d->regs + 127) & ~127u;
    if ((r = sg_place_vars(d)) < 0 || (d->recursive && (r = sg_decode_bodies(d)) < 0))
        return r;
    r = sg_decode_function(d, f);
    sg_fix_calls(d);
    return r;
}

static void *decode_keep(struct sg_dec *d, const void *p, size_t n)
{
    void *q = dt_arena_alloc(&d->c->arena, n ? n : 1);
    if (!q)
        d->nomem = true;
    else if (n)
        memcpy(q, p, n);
    return q;
}

/* Shared variables by name, for reports. */
static void name_shared(struct sg_dec *d)
{
    struct sg_code *c = d->c;
    c->shared = dt_new_array(&c->arena, struct sg_shared_name, d->place.n + 1);
    for (size_t i = 0; c->shared && i < d->place.n; i++) {
        const struct ptx_var *v = d->place.p[i].var;
        if (v->space == PTX_SHARED)
            c->shared[c->nshared++] = (struct sg_shared_name){v->name, d->place.p[i].offset, v->bytes, v->is_extern};
    }
    d->nomem |= !c->shared;
}

int sg_decode(struct sg_kernel *k, bool checked, struct sg_code **ret)
{
    struct sg_code *c = dt_calloc(1, sizeof *c);
    if (!c)
        return DT_E_NOMEM;
    struct sg_dec d = {.k = k, .m = k->module->ptx, .h = sg_isa(), .c = c, .checked = checked};
    int r = decode_one(&d);
    c->op = decode_keep(&d, d.op.p, d.op.n * sizeof *d.op.p);
    c->src = decode_keep(&d, d.src.p, d.src.n * sizeof *d.src.p);
    c->ext = decode_keep(&d, d.ext.p, d.ext.n * sizeof *d.ext.p);
    c->bb = decode_keep(&d, d.bb.p, d.bb.n * sizeof *d.bb.p);
    c->mma = decode_keep(&d, d.mma.p, d.mma.n * sizeof *d.mma.p);
    c->konst = decode_keep(&d, d.konst.p, d.konst.n);
    c->param = decode_keep(&d, d.param.p, d.param.n * sizeof *d.param.p);
    c->clear = decode_keep(&d, d.clear.p, d.clear.n * sizeof *d.clear.p);
    c->nclear = (uint32_t)d.clear.n;
    name_shared(&d);
    c->nop = (uint32_t)d.op.n;
    c->nsrc = (uint32_t)d.src.n;
    c->next = (uint32_t)d.ext.n;
    c->nbb = (uint32_t)d.bb.n;
    c->konst_bytes = (uint32_t)d.konst.n;
    c->nparam = (uint32_t)d.param.n;
    c->nsite = d.nsite;
    c->reg_bytes = d.regs;
    c->local_bytes = (uint32_t)((d.local + 15) & ~15ull);
    c->shared_static = (uint32_t)d.shared;
    c->shared_dynamic_at = d.dynamic_align ? (uint32_t)sg_dynamic_at(&d) : c->shared_static;
    c->param_total = k->info.param_total;
    free(d.op.p);
    free(d.src.p);
    free(d.ext.p);
    free(d.bb.p);
    free(d.mma.p);
    free(d.konst.p);
    free(d.param.p);
    free(d.place.p);
    free(d.clear.p);
    free(d.fn.p);
    free(d.fix.p);
    free(d.callfix.p);
    free(d.kmap);
    const struct sg_model *model = sg_device_model(k->module->device);
    if (!d.nomem && !c->error &&
        !(c->costs = sg_costs_new(c, d.h[SG_H_BB], model ? &model->k : &sg_model_find(NULL)->k)))
        d.nomem = true;
    if (d.nomem || r == DT_E_NOMEM) {
        sg_code_free(c);
        return DT_E_NOMEM;
    }
    *ret = c;
    return 0;
}

void sg_code_free(struct sg_code *c)
{
    if (!c)
        return;
    sg_jit_forget(c);
    sg_costs_free(c->costs);
    dt_arena_done(&c->arena);
    free(c);
}
