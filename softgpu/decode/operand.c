/* Operands of an instruction as rows: registers, constants, special registers, addresses of variables and functions.
 *
 * A source of another width than the instruction's type is converted into a temporary row before it; a destination of
 * another width gets its value by an operation after it (d->post). A move from a row that never changes makes its
 * register another name for that row (sg_alias).
 */
#include "softgpu/decode/decode-priv.h"

#include <string.h>

unsigned sg_width(enum ptx_type t)
{
    if (t == PTX_PRED)
        return 0;
    unsigned n = ptx_type_bytes(t);
    return n <= 4 ? 4 : n;
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

static uint32_t operand_special(struct sg_dec *d, const struct ptx_opnd *o)
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
    case PTX_O_SREG:
        return convert_row(d, operand_special(d, o), sg_width(ptx_sreg_type((enum ptx_sreg)o->sreg)), width);
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
