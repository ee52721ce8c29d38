/* From a parsed kernel to the flat array of operations that the executor runs: registers, constants, variables, control
 * flow.
 *
 * An indirect call is a chain of comparisons with the addresses of all functions that fit, each with that function
 * inlined.
 *
 * Device functions are inlined at each call, sharing one set of registers and one piece of local memory per function;
 * that is right because a thread is in such a function at most once (the others are in decode-call.c), and it makes a
 * call's end a place where threads meet again. Parameters in .param space of calls are thread-local memory that caller
 * and callee share.
 *
 * Registers get rows by linear scan over live ranges: positions are instruction numbers, a range covers every position
 * at which the register is live on any path. Two registers share a row only if their ranges are disjoint including both
 * ends, so that an operation's destination never overlaps a source. Without flow information (a function that has no
 * graph) each has its own row.
 *
 * Constants and variables are in decode-vars.c. Basic blocks start at labels and after everything that can move threads
 * apart or let them meet.
 *
 * Errors (an unsupported instruction, an unresolved symbol) are kept in the code; libcuda names them as the module is
 * loaded.
 */
#include "softgpu/decode.h"

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

unsigned sg_width(enum ptx_type t)
{
    if (t == PTX_PRED)
        return 0;
    unsigned n = ptx_type_bytes(t);
    return n <= 4 ? 4 : n;
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

void sg_begin_bb(struct sg_dec *d)
{
    if (!d->need_bb)
        return;
    d->need_bb = false;
    struct sg_op *op = push_op(d, d->h[SG_H_BB]);
    op->x = (uint32_t)d->bb.n;
    if (!dt_push(&d->bb, (struct sg_bb){.ops = 1}))
        d->nomem = true;
}

struct sg_op *sg_emit(struct sg_dec *d, sg_fn fn)
{
    sg_begin_bb(d);
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

/* ---- registers --------------------------------------------------------------------------------------------------- */
struct range {
    uint32_t reg, from, to, bytes;
};
struct scan {
    uint32_t *from, *to, at;
    uint8_t *use;    /* enum sg_use; while counting: SG_USE_ONCE is set by the first touch, if it writes */
    uint8_t *writes; /* at most 2 */
};

static void touch(uint32_t reg, bool write, void *user)
{
    struct scan *s = user;
    s->use[reg] |= write ? s->from[reg] == UINT32_MAX ? SG_USE_ONCE : 0 : SG_USE_READ;
    s->writes[reg] += write && s->writes[reg] < 2;
    if (s->at < s->from[reg])
        s->from[reg] = s->at;
    if (s->to[reg] == UINT32_MAX || s->at > s->to[reg])
        s->to[reg] = s->at;
}

static int by_start(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : x->reg < y->reg ? -1 : 1;
}

static uint32_t row_bytes(const struct ptx_reg *r)
{
    return r->type == PTX_PRED ? 4 : sg_width((enum ptx_type)r->type) * SG_LANES * (r->vec ? r->vec : 1);
}

/* Live ranges of all registers, and which are live at the entry; false when there is no flow graph. */
static bool live_ranges(const struct ptx_function *f, uint32_t *from, uint32_t *to, bool *entry, uint8_t *use,
                        uint8_t *writes)
{
    struct ptx_cfg cfg;
    struct ptx_live live;
    if (ptx_cfg_build(f, &cfg, NULL) < 0)
        return false;
    if (ptx_live_build(f, &cfg, &live, NULL) < 0) {
        ptx_cfg_done(&cfg);
        return false;
    }
    struct scan s = {from, to, 0, use, writes};
    for (s.at = 0; s.at < f->ninst; s.at++)
        ptx_inst_regs(&f->inst[s.at], touch, &s);
    for (uint32_t b = 0; b < cfg.nblock; b++)
        for (uint32_t w = 0; w < live.words; w++) {
            for (uint64_t m = live.in[b][w]; m; m &= m - 1) {
                s.at = cfg.block[b].first;
                touch(w * 64 + (uint32_t)__builtin_ctzll(m), false, &s);
                entry[w * 64 + (uint32_t)__builtin_ctzll(m)] |= b == 0;
            }
            for (uint64_t m = live.out[b][w]; m; m &= m - 1) {
                s.at = cfg.block[b].last;
                touch(w * 64 + (uint32_t)__builtin_ctzll(m), false, &s);
            }
        }
    ptx_live_done(&live);
    ptx_cfg_done(&cfg);
    return true;
}

static int assign_registers(struct sg_dec *d, struct sg_fn_regs *fn)
{
    const struct ptx_function *f = fn->f;
    uint32_t *ref = fn->ref;
    uint32_t n = f->nreg;
    uint32_t *from = dt_calloc(n + 1, 2 * sizeof *from), *to = from ? from + n + 1 : NULL;
    struct range *r = dt_calloc(n + 1, sizeof *r);
    bool *entry = dt_calloc(n + 1, sizeof *entry);
    uint8_t *writes = dt_calloc(n + 1, 1);
    if (!from || !r || !entry || !writes) {
        free(from);
        free(r);
        free(entry);
        free(writes);
        return DT_E_NOMEM;
    }
    memset(from, 0xFF, (n + 1) * 2 * sizeof *from);
    bool flow = live_ranges(f, from, to, entry, fn->use, writes);
    for (uint32_t i = 0; i < n; i++)
        if (!flow)
            fn->use[i] = SG_USE_READ;
        else if (writes[i] != 1 || entry[i])
            fn->use[i] &= (uint8_t)~SG_USE_ONCE;
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (flow && to[i] == UINT32_MAX)
            continue; /* never used */
        r[count++] = (struct range){i, flow ? from[i] : 0, flow ? to[i] : UINT32_MAX, row_bytes(&f->reg[i])};
    }
    if (count)
        qsort(r, count, sizeof *r, by_start);
    /* Free rows by size class: a stack of (ref, free after). Ranges come in order of their start. */
    struct dt_vec(struct range) active = {0}, idle = {0};
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        for (size_t k = 0; k < active.n;)
            if (active.p[k].to < r[i].from) {
                if (!dt_push(&idle, active.p[k]))
                    rc = DT_E_NOMEM;
                active.p[k] = active.p[--active.n];
            } else {
                k++;
            }
        size_t k = idle.n;
        while (k > 0 && idle.p[k - 1].bytes != r[i].bytes)
            k--;
        uint32_t at;
        if (k > 0) {
            at = idle.p[k - 1].reg;
            idle.p[k - 1] = idle.p[--idle.n];
        } else {
            uint32_t align = r[i].bytes == 4 ? 4 : 128;
            at = (d->regs + align - 1) / align * align;
            if (r[i].bytes > (64u << 20) - at)
                rc = DT_E_NOMEM;
            d->regs = at + r[i].bytes;
        }
        ref[r[i].reg] = at;
        if ((!flow || entry[r[i].reg]) && !dt_push(&d->clear, (struct sg_clear){at, r[i].bytes}))
            rc = DT_E_NOMEM;
        if (!dt_push(&active, (struct range){at, r[i].from, r[i].to, r[i].bytes}))
            rc = DT_E_NOMEM;
    }
    free(active.p);
    free(idle.p);
    free(from);
    free(r);
    free(entry);
    free(writes);
    return rc;
}

struct sg_fn_regs *sg_find_fn(struct sg_dec *d, const struct ptx_function *f)
{
    for (size_t i = 0; i < d->fn.n; i++)
        if (d->fn.p[i].f == f)
            return &d->fn.p[i];
    return NULL;
}

/* May the indirect call `i` reach g? Arguments and results have to fit. */
bool sg_may_reach(const struct ptx_inst *i, const struct ptx_function *g)
{
    if (g->is_entry || !g->has_body || g->nret != i->opnd[0].n || g->nparam != i->opnd[2].n)
        return false;
    for (uint32_t k = 0; k < g->nret + g->nparam; k++) {
        const struct ptx_opnd *o = k < g->nret ? &i->opnd[0].elem[k] : &i->opnd[2].elem[k - g->nret];
        const struct ptx_var *p = k < g->nret ? g->ret[k] : g->param[k - g->nret];
        if (o->kind != PTX_O_VAR || o->var->bytes != p->bytes)
            return false;
    }
    return true;
}

static int gather(struct sg_dec *d, const struct ptx_function *f);

static int gather_indirect(struct sg_dec *d, const struct ptx_inst *i)
{
    int r = 0;
    for (uint32_t k = 0; k < d->m->nfunc && r >= 0 && d->fn.n < 4096; k++)
        if (sg_may_reach(i, d->m->func[k]))
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
            int r1 = gather_indirect(d, in);
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

uint32_t sg_temp(struct sg_dec *d)
{
    if (d->temp_next >= SG_TEMPS) {
        sg_dec_error(d, DT_E_UNSUPPORTED, "an instruction with too many converted operands");
        d->temp_next = 0;
    }
    return d->temp + 256 * d->temp_next++;
}

uint32_t sg_ptemp(struct sg_dec *d) { return d->ptemp + 4 * (d->ptemp_next++ % SG_PTEMPS); }

/* ---- operands ---------------------------------------------------------------------------------------------------- */
static uint64_t immediate(const struct ptx_opnd *o, enum ptx_type t)
{
    uint64_t v = o->bits;
    if (o->imm_type == PTX_F64 || o->imm_type == PTX_F32) {
        double x;
        if (o->imm_type == PTX_F64)
            memcpy(&x, &v, 8);
        else {
            float f;
            uint32_t u = (uint32_t)v;
            memcpy(&f, &u, 4);
            x = f;
        }
        if (t == PTX_F64 && o->imm_type == PTX_F32) {
            memcpy(&v, &x, 8);
        } else if ((t == PTX_F32 || t == PTX_TF32) && o->imm_type == PTX_F64) {
            float f = (float)x;
            uint32_t u;
            memcpy(&u, &f, 4);
            v = u;
        } else if (t == PTX_F16 || t == PTX_BF16) {
            uint64_t u;
            memcpy(&u, &x, 8);
            v = sg_parts_round(sg_parts_of(u, PTX_F64), t, SG_RN);
        }
        return v;
    }
    if (t == PTX_F32 || t == PTX_F64) { /* an integer where a float is wanted: its value */
        double x = o->imm_type == PTX_U64 ? (double)v : (double)(int64_t)v;
        if (t == PTX_F32) {
            float f = (float)x;
            uint32_t u;
            memcpy(&u, &f, 4);
            return u;
        }
        memcpy(&v, &x, 8);
        return v;
    }
    unsigned n = ptx_type_bytes(t);
    return n < 8 && n > 0 ? v & ((1ull << (8 * n)) - 1) : v;
}

static uint32_t special(struct sg_dec *d, const struct ptx_opnd *o)
{
    uint32_t c = o->comp > 0 ? (uint32_t)o->comp * 128 : 0;
    bool past = o->comp > 2;
    switch (o->sreg) {
    case PTX_SR_TID: return past ? sg_konst(d, 0, false) : SG_REG_TIDX + c;
    case PTX_SR_NTID: return past ? sg_konst(d, 0, false) : (SG_K_NTID + c) | 1;
    case PTX_SR_CTAID: return past ? sg_konst(d, 0, false) : (SG_BLOCK_CTAIDX + c) | 2;
    case PTX_SR_NCTAID: return past ? sg_konst(d, 0, false) : (SG_K_NCTAID + c) | 1;
    case PTX_SR_LANEID: return SG_K_LANEID | 1;
    case PTX_SR_LANEMASK_EQ: return SG_K_LANEMASK | 1;
    case PTX_SR_LANEMASK_LE: return (SG_K_LANEMASK + 128) | 1;
    case PTX_SR_LANEMASK_LT: return (SG_K_LANEMASK + 256) | 1;
    case PTX_SR_LANEMASK_GE: return (SG_K_LANEMASK + 384) | 1;
    case PTX_SR_LANEMASK_GT: return (SG_K_LANEMASK + 512) | 1;
    case PTX_SR_WARPID: return SG_REG_WARPID;
    case PTX_SR_NWARPID: return SG_K_NWARPID | 1;
    case PTX_SR_SMID: return SG_BLOCK_SMID | 2;
    case PTX_SR_NSMID: return SG_K_NSMID | 1;
    case PTX_SR_DYNAMIC_SMEM_SIZE: return SG_K_DYNSMEM | 1;
    case PTX_SR_TOTAL_SMEM_SIZE:
    case PTX_SR_AGGR_SMEM_SIZE: return SG_K_TOTSMEM | 1;
    case PTX_SR_CLUSTERID: return past ? sg_konst(d, 0, false) : (SG_BLOCK_CLUSTERID + c) | 2;
    case PTX_SR_NCLUSTERID: return past ? sg_konst(d, 0, false) : (SG_K_NCLUSTERID + c) | 1;
    case PTX_SR_CLUSTER_CTAID: return past ? sg_konst(d, 0, false) : (SG_BLOCK_CLUSTER_CTAID + c) | 2;
    case PTX_SR_CLUSTER_NCTAID: return past ? sg_konst(d, 0, false) : (SG_K_CLUSTER_NCTAID + c) | 1;
    case PTX_SR_CLUSTER_CTARANK: return SG_BLOCK_CLUSTER_RANK | 2;
    case PTX_SR_CLUSTER_NCTARANK: return SG_K_CLUSTER_SIZE | 1;
    case PTX_SR_CLOCK:
    case PTX_SR_CLOCK_HI:
    case PTX_SR_CLOCK64:
    case PTX_SR_GLOBALTIMER:
    case PTX_SR_GLOBALTIMER_LO:
    case PTX_SR_GLOBALTIMER_HI: {
        bool wide = o->sreg == PTX_SR_CLOCK64 || o->sreg == PTX_SR_GLOBALTIMER;
        uint32_t t = sg_temp(d);
        struct sg_op *op = sg_emit(d, sg_clock);
        op->d = t;
        op->flags |= wide ? SG_D64 : 0;
        op->imm = o->sreg == PTX_SR_CLOCK_HI || o->sreg == PTX_SR_GLOBALTIMER_HI ? 32 : 0;
        return t;
    }
    case PTX_SR_ENVREG1: return sg_konst(d, sg_grid_workspace(d->k->module) >> 32, false);
    case PTX_SR_ENVREG2: return sg_konst(d, (uint32_t)sg_grid_workspace(d->k->module), false);
    /* pm*, envreg*, gridid … */
    default: return ptx_sreg_type((enum ptx_sreg)o->sreg) == PTX_U64 ? SG_K_ZERO64 | 1 : sg_konst(d, 0, false);
    }
}

/* A row of another width as a row of `to` bytes: cut, or zero-extended. */
static uint32_t convert_row(struct sg_dec *d, uint32_t ref, unsigned from, unsigned to)
{
    if (from == to || !from || !to)
        return ref;
    uint32_t t = sg_temp(d);
    if (to == 16)
        sg_temp(d);
    unsigned h = from == 16 ? SG_H_LO_u128 : from == 8 ? SG_H_LO_u64 : SG_H_ZX_u64;
    if (from == 16 && to == 4) {
        ref = convert_row(d, ref, 16, 8);
        h = SG_H_LO_u64;
    } else if (to == 16) {
        sg_dec_error(d, DT_E_UNSUPPORTED, "a 128-bit operand from a narrower register");
    }
    struct sg_op *op = sg_emit_h(d, h);
    op->d = t;
    op->a = ref;
    return t;
}

static uint32_t reg_ref(struct sg_dec *d, const struct ptx_opnd *o)
{
    const struct ptx_reg *r = &d->f->reg[o->reg];
    uint32_t comp = o->comp > 0 && o->comp < r->vec ? (uint32_t)o->comp : 0;
    return d->ref[o->reg] + comp * sg_width((enum ptx_type)r->type) * SG_LANES;
}

uint32_t sg_source(struct sg_dec *d, const struct ptx_opnd *o, enum ptx_type t)
{
    unsigned width = sg_width(t);
    uint64_t at;
    switch (o->kind) {
    case PTX_O_REG:
        if (d->f->reg[o->reg].type == PTX_PRED) {
            sg_dec_error(d, DT_E_UNSUPPORTED, "a predicate where a value is wanted");
            return SG_K_ZERO64 | 1;
        }
        return convert_row(d, reg_ref(d, o), sg_width((enum ptx_type)d->f->reg[o->reg].type), width);
    case PTX_O_IMM: return sg_konst(d, immediate(o, t), width >= 8);
    case PTX_O_SREG: return convert_row(d, special(d, o), sg_width(ptx_sreg_type((enum ptx_sreg)o->sreg)), width);
    case PTX_O_VAR:
        if (sg_var_address(d, o->var, &at) < 0)
            return SG_K_ZERO64 | 1;
        if (sg_in_frame(d, o->var)) {
            uint32_t sum = sg_temp(d), off = sg_konst(d, at + (uint64_t)o->off, true);
            struct sg_op *op = sg_emit_h(d, SG_H_ADD_u64);
            op->d = sum;
            op->a = d->fp;
            op->b = off;
            return convert_row(d, sum, 8, width);
        }
        return sg_konst(d, at + (uint64_t)o->off, width >= 8);
    case PTX_O_FUNC: at = sg_function_address(d->m, o->func); return sg_konst(d, at, width >= 8);
    default: sg_dec_error(d, DT_E_UNSUPPORTED, "an operand of this kind"); return SG_K_ZERO64 | 1;
    }
}

bool sg_alias(struct sg_dec *d, const struct ptx_opnd *o, enum ptx_type t, uint32_t a)
{
    if (d->checked || d->i->pred != PTX_NO_REG || o->kind != PTX_O_REG || o->comp > 0 || d->f->reg[o->reg].vec > 1 ||
        !(d->use[o->reg] & SG_USE_ONCE) || sg_width((enum ptx_type)d->f->reg[o->reg].type) != sg_width(t))
        return false;
    if (!(a & 3) && a >= SG_REG_FIXED)
        return false;
    d->ref[o->reg] = a;
    return true;
}

uint32_t sg_dest(struct sg_dec *d, const struct ptx_opnd *o, enum ptx_type t)
{
    if (o->kind == PTX_O_SINK) {
        uint32_t s = sg_temp(d);
        if (sg_width(t) == 16)
            sg_temp(d);
        return s;
    }
    if (o->kind != PTX_O_REG) {
        sg_dec_error(d, DT_E_UNSUPPORTED, "a destination that is no register");
        return d->temp;
    }
    unsigned have = sg_width((enum ptx_type)d->f->reg[o->reg].type), want = sg_width(t);
    uint32_t ref = reg_ref(d, o);
    if (have == want)
        return ref;
    uint32_t temp = sg_temp(d);
    if (want == 16)
        sg_temp(d);
    unsigned h = have == 8 && want == 4   ? (ptx_type_is_signed(t) ? SG_H_SX_u64 : SG_H_ZX_u64)
                 : have == 4 && want == 8 ? SG_H_LO_u64
                                          : 0;
    if (!h || d->npost == sizeof d->post / sizeof *d->post)
        sg_dec_error(d, DT_E_UNSUPPORTED, "a destination register of another width");
    else
        d->post[d->npost++] = (struct post){ref, temp, (uint16_t)h};
    return temp;
}

uint32_t sg_pred(struct sg_dec *d, const struct ptx_opnd *o, bool *ret_not)
{
    *ret_not = o->neg;
    if (o->kind == PTX_O_IMM)
        return (o->bits ? SG_K_TRUE : SG_K_FALSE) | 1;
    if (o->kind == PTX_O_SREG)
        return (o->sreg == PTX_SR_IS_EXPLICIT_CLUSTER ? SG_K_EXPLICIT_CLUSTER : SG_K_FALSE) | 1;
    if (o->kind != PTX_O_REG || d->f->reg[o->reg].type != PTX_PRED) {
        sg_dec_error(d, DT_E_UNSUPPORTED, "a predicate is wanted here");
        return SG_K_FALSE | 1;
    }
    return d->ref[o->reg];
}

uint32_t sg_pred_dest(struct sg_dec *d, const struct ptx_opnd *o)
{
    if (o->kind == PTX_O_REG && d->f->reg[o->reg].type == PTX_PRED)
        return d->ref[o->reg];
    if (o->kind != PTX_O_SINK)
        sg_dec_error(d, DT_E_UNSUPPORTED, "a predicate is wanted here");
    return sg_ptemp(d);
}

/* ---- control ----------------------------------------------------------------------------------------------------- */
static void branch(struct sg_dec *d, uint32_t label, uint32_t guard, bool guard_not)
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
    sg_begin_bb(d);
    if (!d->bb.n)
        return;
    struct sg_bb *b = &d->bb.p[d->bb.n - 1];
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
    struct sg_src s = {f, (uint32_t)(i - f->inst)};
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
        struct sg_fn_regs *known = sg_may_reach(i, g) ? sg_find_fn(d, g) : NULL;
        if (!known)
            continue;
        uint32_t at = sg_konst(d, sg_function_address(d->m, g), true), p = sg_ptemp(d);
        struct sg_op *op = sg_emit_h(d, SG_H_EQ_u64);
        op->d = p;
        op->a = a;
        op->b = at;
        size_t skip = d->fix.n;
        branch(d, UINT32_MAX - 1, p, true);
        r = known->cycle ? sg_call_body(d, known) : inline_call(d, g);
        branch(d, UINT32_MAX - 1, SG_NONE, false);
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

static int call(struct sg_dec *d)
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
        branch(d, UINT32_MAX - 1, guard_ref(d), !i->pred_neg);
        skip = (uint32_t)d->fix.n - 1;
        sg_begin_bb(d);
    }
    d->guarded = skip == UINT32_MAX;
    switch (i->op) {
    case PTX_OP_BRA: branch(d, i->opnd[0].label, guard_ref(d), i->pred_neg); break;
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
            branch(d, UINT32_MAX, guard_ref(d), i->pred_neg);
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
        r = call(d);
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
        if (!dt_push(&d->src, (struct sg_src){f, k})) {
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
static int decode(struct sg_dec *d)
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
        if ((r = assign_registers(d, &d->fn.p[i])) < 0)
            return r;
    d->regs = (d->regs + 127) & ~127u;
    if ((r = sg_place_vars(d)) < 0 || (d->recursive && (r = sg_decode_bodies(d)) < 0))
        return r;
    r = sg_decode_function(d, f);
    sg_fix_calls(d);
    return r;
}

static void *keep(struct sg_dec *d, const void *p, size_t n)
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
    int r = decode(&d);
    c->op = keep(&d, d.op.p, d.op.n * sizeof *d.op.p);
    c->src = keep(&d, d.src.p, d.src.n * sizeof *d.src.p);
    c->ext = keep(&d, d.ext.p, d.ext.n * sizeof *d.ext.p);
    c->bb = keep(&d, d.bb.p, d.bb.n * sizeof *d.bb.p);
    c->mma = keep(&d, d.mma.p, d.mma.n * sizeof *d.mma.p);
    c->konst = keep(&d, d.konst.p, d.konst.n);
    c->param = keep(&d, d.param.p, d.param.n * sizeof *d.param.p);
    c->clear = keep(&d, d.clear.p, d.clear.n * sizeof *d.clear.p);
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
    dt_arena_done(&c->arena);
    free(c);
}
