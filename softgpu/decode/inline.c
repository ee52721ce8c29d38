/* Calls: the callee's body in place of the call, its parameters bound to the caller's places.
 *
 * Parameters in .param space of calls are thread-local memory that caller and callee share; a parameter given in a
 * register gets a place of its own. An indirect call is a chain of comparisons with the addresses of all functions that
 * fit, each with that function inlined. Functions that call themselves are not inlined (call.c).
 */
#include "softgpu/decode/decode-priv.h"

int sg_move_param(struct sg_dec *d, const struct ptx_opnd *o, const struct ptx_var *p, uint64_t at, bool result)
{
    enum ptx_type t = (enum ptx_type)p->type, have = o->kind == PTX_O_REG ? (enum ptx_type)d->f->reg[o->reg].type : t;
    if (o->kind == PTX_O_SINK && result)
        return 0;
    if ((o->kind != PTX_O_REG && o->kind != PTX_O_IMM) || have == PTX_PRED || sg_width(have) != sg_width(t) ||
        p->bytes != ptx_type_bytes(t) || p->bytes > 8)
        return sg_dec_error(d, DT_E_UNSUPPORTED, "a call whose argument does not fit the parameter %s", p->name);
    uint32_t to = result ? sg_dest(d, o, have) : SG_NONE, from = result ? SG_NONE : sg_source(d, o, t),
             a = sg_konst(d, at, true);
    struct sg_op *op = sg_emit(d, result ? sg_load_slow : sg_store_slow);
    op->d = to;
    op->b = from;
    op->a = a;
    op->flags |= SG_A64;
    op->site = d->nsite++;
    op->size = (uint8_t)p->bytes;
    op->n = 1;
    op->space = PTX_LOCAL;
    return 0;
}

/* Give the callee's parameter the caller's place, or a new one for what is in a register. */
static int bind_param(struct sg_dec *d, const struct ptx_opnd *o, const struct ptx_var *p, bool result)
{
    uint64_t at = (d->local + 7) & ~7ull;
    bool frame = false;
    if (o->kind == PTX_O_VAR && !sg_is_kernel_param(d, o->var) && o->var->bytes >= p->bytes) {
        if (sg_var_address(d, o->var, &at) < 0)
            return d->c->error;
        frame = sg_in_frame(d, o->var);
    } else {
        if (at > SG_MAX_LOCAL - 8)
            return sg_dec_error(d, DT_E_TOO_LARGE, "local memory of the kernel is over %llu bytes",
                                (unsigned long long)SG_MAX_LOCAL);
        d->local = at + 8;
        if (!result && sg_move_param(d, o, p, at, false) < 0)
            return d->c->error;
    }
    for (size_t i = 0; i < d->place.n; i++)
        if (d->place.p[i].var == p) {
            d->place.p[i].offset = at;
            d->place.p[i].frame = frame;
            return 0;
        }
    if (!dt_push(&d->place, (struct sg_place){p, at, frame}))
        d->nomem = true;
    return 0;
}

/* The body of g in place of the call at hand. */
static int inline_call(struct sg_dec *d, const struct ptx_function *g)
{
    const struct ptx_inst *i = d->i;
    for (uint32_t k = 0; k < g->nparam; k++)
        if (bind_param(d, &i->opnd[2].elem[k], g->param[k], false) < 0)
            return d->c->error;
    for (uint32_t k = 0; k < g->nret; k++)
        if (bind_param(d, &i->opnd[0].elem[k], g->ret[k], true) < 0)
            return d->c->error;
    uint64_t at[8] = {0};
    for (uint32_t k = 0; k < g->nret && k < 8; k++)
        sg_var_address(d, g->ret[k], &at[k]);
    const struct ptx_function *f = d->f;
    uint32_t *ref = d->ref;
    uint8_t *use = d->use;
    int r = sg_decode_function(d, g);
    d->f = f;
    d->ref = ref;
    d->use = use;
    d->i = i;
    d->need_bb = true;
    struct sg_src s = {f, (uint32_t)(i - f->inst), SG_NONE};
    if (!dt_push(&d->src, s))
        d->nomem = true;
    for (uint32_t k = 0; k < g->nret && r >= 0; k++)
        if (i->opnd[0].elem[k].kind != PTX_O_VAR)
            r = k < 8 ? sg_move_param(d, &i->opnd[0].elem[k], g->ret[k], at[k], true)
                      : sg_dec_error(d, DT_E_UNSUPPORTED, "more than 8 results in registers");
    return r;
}

/* The fix of a branch emitted here leads to the next operation. */
static void land(struct sg_dec *d, size_t fix)
{
    if (fix >= d->fix.n)
        return;
    struct sg_fix f = d->fix.p[fix];
    d->fix.p[fix].label = UINT32_MAX - 2;
    if (f.op < d->op.n)
        d->op.p[f.op].imm = (int64_t)d->op.n - f.op;
    d->need_bb = true;
}

/* One after the other: is it this function? Then its body. An address of none of them is a trap. */
static int call_indirect(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    uint32_t a = sg_source(d, &i->opnd[1], PTX_U64);
    size_t first = d->fix.n;
    int r = 0;
    for (uint32_t k = 0; k < d->m->nfunc && r >= 0 && !d->nomem && !d->c->error; k++) {
        const struct ptx_function *g = d->m->func[k];
        struct sg_fn_regs *known = sg_may_reach(d->f, i, g) ? sg_find_fn(d, g) : NULL;
        if (!known)
            continue;
        uint32_t at = sg_konst(d, sg_function_address(d->m, g), true), p = sg_ptemp(d);
        struct sg_op *op = sg_emit_h(d, SG_H_EQ_u64);
        op->d = p;
        op->a = a;
        op->b = at;
        size_t skip = d->fix.n;
        sg_decode_branch(d, UINT32_MAX - 1, p, true);
        r = known->cycle ? sg_call_body(d, known) : inline_call(d, g);
        sg_decode_branch(d, UINT32_MAX - 1, SG_NONE, false);
        land(d, skip);
    }
    if (r >= 0) {
        sg_emit(d, sg_trap)->sub = 1;
        d->need_bb = true;
    }
    for (size_t k = first; k < d->fix.n; k++)
        if (d->fix.p[k].label == UINT32_MAX - 1)
            land(d, k);
    return r;
}

int sg_decode_call(struct sg_dec *d)
{
    const struct ptx_inst *i = d->i;
    if (i->nopnd > 2 && i->opnd[1].kind == PTX_O_REG)
        return call_indirect(d);
    if (i->nopnd < 3 || i->opnd[1].kind != PTX_O_FUNC)
        return sg_dec_error(d, DT_E_UNSUPPORTED, "indirect call");
    const struct ptx_function *g = i->opnd[1].func;
    if (!g->has_body && ptx_find_function(d->m, g->name))
        g = ptx_find_function(d->m, g->name);
    if (!g->has_body)
        return sg_call_extern(d, g);
    if (i->opnd[0].n != g->nret || i->opnd[2].n != g->nparam)
        return sg_dec_error(d, DT_E_PTX, "call of %s with %u arguments and %u results", g->name, i->opnd[2].n,
                            i->opnd[0].n);
    struct sg_fn_regs *known = sg_find_fn(d, g);
    return known && known->cycle ? sg_call_body(d, known) : inline_call(d, g);
}
