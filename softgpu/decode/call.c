/* Calls of functions that are not inlined (inline.c): those that can be active more than once in a thread, because they
 * are on a cycle of the call graph; and, at the end of this file, those that have no body.
 *
 * A function of a cycle has one body, in front of the kernel's own code. What belongs to one activation is kept apart
 * from it (exec/call.c): its local and parameter variables lie in a frame at the row `fp`, in the thread's local memory
 * behind what is static; its registers, and those of the functions of the same cycle, are saved at a call and come back
 * at the return.
 *
 *     ext[x]     bytes of the caller's frame, of the callee's; number of arguments, of results
 *                each: where it lies with the caller (SG_IN_FRAME: in its frame), where in the callee's frame, bytes
 *     ext[c]     rows to save: how many; ref and bytes of a lane of each (0: a predicate)
 *
 * The cycles are the strongly connected components (Tarjan, "Depth-first search and linear graph algorithms", 1972); an
 * indirect call has an edge to every function that it may reach.
 */
#include "softgpu/decode/decode-priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- cycles ------------------------------------------------------------------------------------------------------ */
struct search {
    struct sg_dec *d;
    uint32_t *index, *low, *stack, next, depth; /* index 0: not met */
    bool *on;
};

static void visit(struct search *s, uint32_t v);

static void call_edge(struct search *s, uint32_t from, const struct ptx_function *g)
{
    struct sg_fn_regs *to = g ? sg_find_fn(s->d, g) : NULL;
    if (!to)
        return;
    uint32_t w = (uint32_t)(to - s->d->fn.p);
    if (w == from)
        to->cycle = true;
    if (!s->index[w])
        visit(s, w);
    if (s->on[w] && s->low[w] < s->low[from])
        s->low[from] = s->low[w];
}

static void visit(struct search *s, uint32_t v)
{
    const struct ptx_function *f = s->d->fn.p[v].f;
    s->index[v] = s->low[v] = ++s->next;
    s->stack[s->depth++] = v;
    s->on[v] = true;
    for (uint32_t k = 0; k < f->ninst; k++) {
        const struct ptx_inst *i = &f->inst[k];
        if (i->op != PTX_OP_CALL || i->nopnd < 3)
            continue;
        if (i->opnd[1].kind == PTX_O_FUNC) {
            const struct ptx_function *g = i->opnd[1].func;
            call_edge(s, v, g->has_body ? g : ptx_find_function(s->d->m, g->name));
        } else if (i->opnd[1].kind == PTX_O_REG) {
            for (uint32_t n = 0; n < s->d->m->nfunc; n++)
                if (sg_may_reach(f, i, s->d->m->func[n]))
                    call_edge(s, v, s->d->m->func[n]);
        }
    }
    if (s->low[v] != s->index[v])
        return;
    bool several = s->stack[s->depth - 1] != v;
    for (uint32_t w = UINT32_MAX; w != v;) {
        w = s->stack[--s->depth];
        s->on[w] = false;
        s->d->fn.p[w].cycle |= several;
        s->d->fn.p[w].component = s->low[v];
    }
}

int sg_find_cycles(struct sg_dec *d)
{
    size_t n = d->fn.n;
    uint32_t *room = dt_calloc(n + 1, 3 * sizeof *room);
    bool *on = dt_calloc(n + 1, sizeof *on);
    if (room && on) {
        struct search s = {.d = d, .index = room, .low = room + n + 1, .stack = room + 2 * (n + 1), .on = on};
        visit(&s, 0); /* the kernel reaches all of them */
    }
    bool ok = room && on;
    free(room);
    free(on);
    for (size_t i = 0; i < n; i++)
        d->recursive |= d->fn.p[i].cycle;
    return ok ? 0 : DT_E_NOMEM;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */
static int frame_var(struct sg_dec *d, struct sg_fn_regs *me, const struct ptx_var *v)
{
    if (v->space != PTX_LOCAL && v->space != PTX_PARAM)
        return 0;
    if (sg_is_kernel_param(d, v))
        return 0;
    for (uint32_t i = 0; i < d->m->nvar; i++)
        if (d->m->var[i] == v)
            return 0;
    for (size_t i = 0; i < d->place.n; i++)
        if (d->place.p[i].var == v)
            return 0;
    uint64_t align = v->align ? v->align : 1, at = (me->frame + align - 1) / align * align;
    if (v->bytes > SG_MAX_LOCAL || at > SG_MAX_LOCAL - v->bytes)
        return sg_dec_error(d, DT_E_TOO_LARGE, "local memory of %s is over %u bytes", me->f->name, SG_MAX_LOCAL);
    me->frame = at + v->bytes;
    if (!dt_push(&d->place, (struct sg_place){v, at, true}))
        d->nomem = true;
    return 0;
}

static int lay_out(struct sg_dec *d, struct sg_fn_regs *me)
{
    const struct ptx_function *f = me->f;
    int r = 0;
    for (uint32_t i = 0; i < f->nparam && r >= 0; i++)
        r = frame_var(d, me, f->param[i]);
    for (uint32_t i = 0; i < f->nret && r >= 0; i++)
        r = frame_var(d, me, f->ret[i]);
    for (uint32_t i = 0; i < f->ninst && r >= 0; i++)
        for (uint32_t k = 0; k < f->inst[i].nopnd && r >= 0; k++) {
            const struct ptx_opnd *o = &f->inst[i].opnd[k];
            if (o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR))
                r = frame_var(d, me, o->var);
            for (uint32_t e = 0; o->kind == PTX_O_VEC && e < o->n && r >= 0; e++)
                if (o->elem[e].kind == PTX_O_VAR)
                    r = frame_var(d, me, o->elem[e].var);
        }
    me->frame = (me->frame + 16 + 15) & ~15ull; /* a return address is in it */
    return r;
}

bool sg_in_frame(const struct sg_dec *d, const struct ptx_var *v)
{
    for (size_t i = 0; d->recursive && i < d->place.n; i++)
        if (d->place.p[i].var == v)
            return d->place.p[i].frame;
    return false;
}

/* ---- rows that a call has to save -------------------------------------------------------------------------------- */
static int by_ref(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : 0;
}

static int call_rows(struct sg_dec *d, uint32_t component, uint32_t *ret)
{
    struct dt_vec(uint32_t) list = {0}; /* pairs */
    bool ok = true;
    for (size_t i = 0; i < d->fn.n && ok; i++) {
        const struct sg_fn_regs *g = &d->fn.p[i];
        for (uint32_t r = 0; g->component == component && r < g->f->nreg && ok; r++) {
            uint32_t width = sg_width((enum ptx_type)g->f->reg[r].type), n = g->f->reg[r].vec ? g->f->reg[r].vec : 1,
                     step = width == 16 ? 8 : width;
            if (!g->ref[r])
                continue; /* never used */
            for (uint32_t k = 0; k < n * (width == 16 ? 2 : 1) && ok; k++)
                ok = dt_push(&list, g->ref[r] + k * step * SG_LANES) && dt_push(&list, step);
        }
    }
    if (ok && list.n)
        qsort(list.p, list.n / 2, 2 * sizeof *list.p, by_ref);
    uint32_t at = sg_ext(d, 0), count = 0;
    for (size_t k = 0; ok && k < list.n; k += 2)
        if (!k || list.p[k] != list.p[k - 2]) {
            sg_ext(d, list.p[k]);
            sg_ext(d, list.p[k + 1]);
            count++;
        }
    if (ok && !d->nomem)
        d->ext.p[at] = count;
    *ret = at;
    free(list.p);
    return ok ? 0 : DT_E_NOMEM;
}

/* ---- bodies and calls -------------------------------------------------------------------------------------------- */
int sg_decode_bodies(struct sg_dec *d)
{
    int r = 0;
    for (size_t i = 0; i < d->fn.n && r >= 0; i++)
        if (d->fn.p[i].cycle && (r = lay_out(d, &d->fn.p[i])) >= 0)
            r = call_rows(d, d->fn.p[i].component, &d->fn.p[i].rows);
    if (r < 0 || d->nomem)
        return r;
    d->need_bb = true;
    struct sg_op *over = sg_emit(d, sg_bra); /* to the kernel */
    uint32_t at = (uint32_t)d->op.n - 1;
    over->guard = SG_NONE;
    for (size_t i = 0; i < d->fn.n && r >= 0 && !d->c->error; i++) {
        struct sg_fn_regs *me = &d->fn.p[i];
        if (!me->cycle)
            continue;
        me->entry = (uint32_t)d->op.n;
        d->out = me;
        r = sg_decode_function(d, me->f);
        d->need_bb = true;
        struct sg_op *end = sg_emit(d, sg_return); /* falling off the end */
        end->guard = SG_NONE;
        end->c = me->rows;
        d->out = NULL;
        d->need_bb = true;
    }
    if (!d->nomem && at < d->op.n)
        d->op.p[at].imm = (int64_t)d->op.n - at;
    return r;
}

/* Where an argument or result lies with the caller; what is in a register goes by way of static memory. */
static int outer_place(struct sg_dec *d, const struct ptx_opnd *o, const struct ptx_var *p, bool result, uint32_t *ret)
{
    uint64_t at = (d->local + 7) & ~7ull;
    if (o->kind == PTX_O_VAR && !sg_is_kernel_param(d, o->var) && o->var->bytes >= p->bytes) {
        if (sg_var_address(d, o->var, &at) < 0)
            return d->c->error;
        *ret = (uint32_t)at | (sg_in_frame(d, o->var) ? SG_IN_FRAME : 0);
        return 0;
    }
    if (at > SG_MAX_LOCAL - 8)
        return sg_dec_error(d, DT_E_TOO_LARGE, "local memory of the kernel is over %u bytes", SG_MAX_LOCAL);
    d->local = at + 8;
    *ret = (uint32_t)at;
    return result ? 0 : sg_move_param(d, o, p, at, false);
}

int sg_call_body(struct sg_dec *d, struct sg_fn_regs *to)
{
    const struct ptx_inst *i = d->i;
    const struct ptx_function *g = to->f;
    uint32_t n = g->nparam + g->nret, *place = dt_calloc(n + 1, sizeof *place);
    int r = place ? 0 : DT_E_NOMEM;
    for (uint32_t k = 0; k < n && r >= 0; k++)
        r = k < g->nparam ? outer_place(d, &i->opnd[2].elem[k], g->param[k], false, &place[k])
                          : outer_place(d, &i->opnd[0].elem[k - g->nparam], g->ret[k - g->nparam], true, &place[k]);
    if (r < 0) {
        free(place);
        return r;
    }
    uint32_t x = sg_ext(d, d->out ? (uint32_t)d->out->frame : 0);
    sg_ext(d, (uint32_t)to->frame);
    sg_ext(d, g->nparam);
    sg_ext(d, g->nret);
    for (uint32_t k = 0; k < n; k++) {
        const struct ptx_var *p = k < g->nparam ? g->param[k] : g->ret[k - g->nparam];
        uint64_t at = 0;
        sg_var_address(d, p, &at);
        sg_ext(d, place[k]);
        sg_ext(d, (uint32_t)at);
        sg_ext(d, (uint32_t)p->bytes);
    }
    struct sg_op *op = sg_emit(d, sg_call);
    op->x = x;
    op->c = to->rows;
    op->guard = SG_NONE;
    if (!dt_push(&d->callfix, (struct sg_fix){(uint32_t)d->op.n - 1, UINT32_MAX, (uint32_t)(to - d->fn.p)}))
        d->nomem = true;
    d->need_bb = true;
    for (uint32_t k = 0; k < g->nret && r >= 0; k++)
        if (i->opnd[0].elem[k].kind != PTX_O_VAR)
            r = sg_move_param(d, &i->opnd[0].elem[k], g->ret[k], place[g->nparam + k], true);
    free(place);
    return r;
}

void sg_fix_calls(struct sg_dec *d)
{
    for (size_t k = 0; k < d->callfix.n && !d->nomem; k++)
        if (d->callfix.p[k].op < d->op.n)
            d->op.p[d->callfix.p[k].op].imm = (int64_t)d->fn.p[d->callfix.p[k].label].entry - d->callfix.p[k].op;
}

/* ---- functions without a body: those that the device brings ------------------------------------------------------ */
bool sg_is_touch(const struct ptx_inst *i)
{
    return i->op == PTX_OP_CALL && i->nopnd > 2 && i->opnd[1].kind == PTX_O_FUNC && !i->opnd[1].func->has_body &&
           !strcmp(i->opnd[1].func->name, DOVETAIL_TOUCH);
}

/* record.h: one operation on addresses in registers, behind the call's own predicate. */
static int call_touch(struct sg_dec *d)
{
    const struct ptx_opnd *o = d->i->opnd[2].elem;
    bool ok = d->i->opnd[2].n == 4 && !d->i->opnd[0].n && o[0].kind == PTX_O_REG &&
              ptx_type_bytes(d->f->reg[o[0].reg].type) == 8;
    for (unsigned k = 1; ok && k < 4; k++)
        ok = o[k].kind == PTX_O_IMM;
    if (!ok || o[2].bits > UINT32_MAX || o[3].bits > UINT8_MAX)
        return sg_dec_error(d, DT_E_UNSUPPORTED, "call of " DOVETAIL_TOUCH " with other operands than it has");
    uint32_t a = sg_source(d, &o[0], PTX_B64);
    struct sg_op *op = sg_emit(d, sg_touch);
    op->a = a;
    op->imm = (int64_t)o[1].bits;
    op->x = (uint32_t)o[2].bits;
    op->sub = (uint8_t)o[3].bits;
    return 0;
}

int sg_call_extern(struct sg_dec *d, const struct ptx_function *g)
{
    const struct ptx_inst *i = d->i;
    if (sg_is_touch(i))
        return call_touch(d);
    static const struct {
        const char *name;
        sg_fn fn;
        uint32_t arguments, results, bytes; /* of all of them together */
    } known[] = {{"__assertfail", sg_assertfail, 5, 0, 36},
                 {"vprintf", sg_vprintf, 2, 1, 20},
                 {"malloc", sg_malloc, 1, 1, 16},
                 {"free", sg_free, 1, 0, 8}};
    sg_fn fn = NULL;
    uint32_t want = 0, bytes = 0;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(g->name, known[k].name) && i->opnd[2].n == known[k].arguments && i->opnd[0].n == known[k].results)
            fn = known[k].fn, want = known[k].arguments, bytes = known[k].bytes;
    if (!fn)
        return sg_dec_error(d, DT_E_UNSUPPORTED, "call of the external function %s", g->name);
    uint32_t x = (uint32_t)d->ext.n;
    for (uint32_t k = 0; k < want + i->opnd[0].n; k++) {
        const struct ptx_opnd *o = k < want ? &i->opnd[2].elem[k] : &i->opnd[0].elem[k - want];
        uint64_t at;
        if (o->kind != PTX_O_VAR || sg_is_kernel_param(d, o->var))
            return sg_dec_error(d, DT_E_UNSUPPORTED, "call of %s with an argument in a register", g->name);
        if (sg_var_address(d, o->var, &at) < 0)
            return d->c->error;
        bytes -= o->var->bytes < bytes ? (uint32_t)o->var->bytes : bytes;
        sg_ext(d, (uint32_t)at | (sg_in_frame(d, o->var) ? SG_IN_FRAME : 0));
    }
    if (bytes)
        return sg_dec_error(d, DT_E_UNSUPPORTED, "call of %s with parameters that are too short", g->name);
    if (fn == sg_malloc || fn == sg_free)
        d->c->heap = d->c->ordered = true;
    if (fn == sg_vprintf) /* one CPU thread: what the blocks print stands in their order */
        d->c->ordered = true;
    struct sg_op *op = sg_emit(d, fn);
    op->x = x;
    op->site = d->nsite++;
    return 0;
}
