/* What integer instructions make of values that a walk knows (reach.c, uniform.c): numbers made of thread or block
 * numbers, geometry and scalar arguments, and places in shared variables.
 *
 * A place may be moved, converted, added to and compared with another place in the same variable; any other use of it
 * is not known. Whatever is not here is not known: floating point, carries, loads of anything but scalar parameters,
 * block numbers of a grid that has several. Nothing is known in part: a register is known in all its bits, or not.
 */
#include "rewrite/emit/reach-priv.h"

static int64_t extend(uint64_t v, unsigned bits, bool sign)
{
    return bits >= 64 || !sign ? (int64_t)rw_low_bits(v, bits) : (int64_t)(v << (64 - bits)) >> (64 - bits);
}

static struct rw_value number(uint64_t v) { return (struct rw_value){v, 0}; }

static struct rw_value of_sreg(const struct rw_walk *w, const struct ptx_opnd *o)
{
    const struct rw_body *b = w->b;
    if (o->comp < 0 || o->comp > 2)
        return rw_value_unknown();
    switch (o->sreg) {
    case PTX_SR_TID:
        return b->block[o->comp] == 1 ? number(0) : w->whole ? rw_value_unknown() : number(w->tid[o->comp]);
    case PTX_SR_NTID: return number(b->block[o->comp]);
    case PTX_SR_NCTAID: return number(b->grid[o->comp]);
    case PTX_SR_CTAID:
        return b->grid[o->comp] == 1 ? number(0) : w->ctaid ? number(w->ctaid[o->comp]) : rw_value_unknown();
    default: return rw_value_unknown();
    }
}

struct rw_value rw_value_of_var(const struct rw_walk *w, const struct ptx_var *v, int64_t off)
{
    for (uint32_t k = 0; k < w->b->nshared; k++)
        if (w->b->shared_var[k] == v)
            return (struct rw_value){(uint64_t)off, k + 1};
    return rw_value_unknown();
}

static struct rw_value operand(const struct rw_walk *w, const struct rw_path *p, const struct ptx_opnd *o)
{
    switch (o->kind) {
    case PTX_O_IMM: return o->imm_type == PTX_F32 || o->imm_type == PTX_F64 ? rw_value_unknown() : number(o->bits);
    case PTX_O_VAR: return rw_value_of_var(w, o->var, o->off);
    case PTX_O_SREG: return of_sreg(w, o);
    case PTX_O_REG: {
        if (o->comp >= 0 || o->reg >= w->f->nreg || !w->slot[o->reg])
            return rw_value_unknown();
        struct rw_value v = p->reg[w->slot[o->reg] - 1];
        if (o->neg && (v.mem || w->f->reg[o->reg].type != PTX_PRED))
            return rw_value_unknown();
        if (o->neg)
            v.v = !(v.v & 1);
        return v;
    }
    default: return rw_value_unknown();
    }
}

/* `bytes` bytes of a struct from `at` on, if no pointer lies in them. */
static bool of_struct(const struct dt_arg *a, int64_t at, unsigned bytes, uint64_t *ret)
{
    bool plain = at >= 0 && bytes <= 8 && (uint64_t)at + bytes <= a->nbytes;
    for (uint32_t k = 0; k < a->npointer && plain; k++)
        plain = a->pointer[k].at + 8 <= (uint64_t)at || a->pointer[k].at >= (uint64_t)at + bytes;
    *ret = 0;
    for (unsigned k = 0; plain && k < bytes; k++)
        *ret |= (uint64_t)((const uint8_t *)a->bytes)[at + k] << 8 * k;
    return plain;
}

static bool of_arg(const struct rw_walk *w, const struct ptx_inst *i, struct rw_value *ret)
{
    const struct dt_launch *l = w->b->step->launch;
    uint64_t bits;
    if (i->op != PTX_OP_LD || i->space != PTX_PARAM || i->vec > 1 || i->opnd[1].kind != PTX_O_ADDR ||
        i->opnd[1].base_kind != PTX_O_VAR || ptx_type_is_float(i->type[0]))
        return false;
    for (uint32_t k = 0; k < w->f->nparam && k < l->narg; k++) {
        unsigned bytes = ptx_type_bytes(i->type[0]);
        if (w->f->param[k] != i->opnd[1].var)
            continue;
        if (l->arg[k].kind == DT_ARG_BYTES && of_struct(&l->arg[k], i->opnd[1].off, bytes, &bits))
            return *ret = number(bits), true;
        return l->arg[k].kind == DT_ARG_SCALAR && !i->opnd[1].off && w->f->param[k]->bytes == bytes &&
               (*ret = number(l->arg[k].bits), true);
    }
    return false;
}

static bool compare(enum ptx_mod cmp, int64_t x, int64_t y, bool sign, bool *ret)
{
    bool less = sign ? x < y : (uint64_t)x < (uint64_t)y;
    switch (cmp) {
    case PTX_M_EQ: *ret = x == y; return true;
    case PTX_M_NE: *ret = x != y; return true;
    case PTX_M_LT:
    case PTX_M_LO: *ret = less; return true;
    case PTX_M_LE:
    case PTX_M_LS: *ret = less || x == y; return true;
    case PTX_M_GT:
    case PTX_M_HI: *ret = !less && x != y; return true;
    case PTX_M_GE:
    case PTX_M_HS: *ret = !less; return true;
    default: return false;
    }
}

static struct rw_value test(const struct ptx_inst *i, struct rw_value x, struct rw_value y, unsigned bits, bool sign)
{
    enum ptx_mod cmp = ptx_mod_of(i, PTX_MC_CMP);
    bool is, unsign = cmp == PTX_M_LO || cmp == PTX_M_LS || cmp == PTX_M_HI || cmp == PTX_M_HS;
    if (x.mem != y.mem || x.mem == RW_REACH_UNKNOWN || i->dst2 || ptx_mod_of(i, PTX_MC_BOOL) ||
        (x.mem && cmp != PTX_M_EQ && cmp != PTX_M_NE))
        return rw_value_unknown();
    sign = sign && !unsign;
    return compare(cmp, extend(x.v, bits, sign), extend(y.v, bits, sign), sign, &is) ? number(is) : rw_value_unknown();
}

static struct rw_value sum(struct rw_value x, struct rw_value y, bool minus)
{
    if (x.mem == RW_REACH_UNKNOWN || y.mem == RW_REACH_UNKNOWN)
        return rw_value_unknown();
    if (minus && y.mem)
        return x.mem == y.mem ? number(x.v - y.v) : rw_value_unknown();
    if (x.mem && y.mem)
        return rw_value_unknown();
    return (struct rw_value){minus ? x.v - y.v : x.v + y.v, x.mem ? x.mem : y.mem};
}

static struct rw_value reach_product(const struct ptx_inst *i, struct rw_value x, struct rw_value y, unsigned bits,
                                     bool sign)
{
    if (x.mem || y.mem)
        return rw_value_unknown();
    int64_t a = extend(x.v, bits, sign), b = extend(y.v, bits, sign);
    if (ptx_has(i, PTX_M_WIDE))
        return number(sign ? (uint64_t)(a * b) : (uint64_t)a * (uint64_t)b); /* of at most 32 bits each */
    if (!ptx_has(i, PTX_M_HI))
        return number((uint64_t)a * (uint64_t)b);
    __int128 p = sign ? (__int128)a * b : (__int128)((unsigned __int128)(uint64_t)a * (uint64_t)b);
    return number((uint64_t)(p >> bits));
}

static struct rw_value divide(bool rest, struct rw_value x, struct rw_value y, unsigned bits, bool sign)
{
    int64_t a = extend(x.v, bits, sign), b = extend(y.v, bits, sign);
    if (x.mem || y.mem || !b || (sign && b == -1))
        return rw_value_unknown();
    if (sign)
        return number((uint64_t)(rest ? a % b : a / b));
    return number(rest ? (uint64_t)a % (uint64_t)b : (uint64_t)a / (uint64_t)b);
}

static struct rw_value shift(const struct rw_walk *w, enum ptx_op op, struct rw_value x, struct rw_value y,
                             unsigned bits, bool sign)
{
    uint32_t by = (uint32_t)y.v;
    if (op == PTX_OP_SHR && x.mem && !y.mem && by == 4 && bits >= 32)
        return rw_value_sixteenths(w, x);
    if (x.mem || y.mem)
        return rw_value_unknown();
    if (op == PTX_OP_SHL)
        return number(by < bits ? x.v << by : 0);
    int64_t a = extend(x.v, bits, sign);
    if (by >= bits)
        return number(sign && a < 0 ? UINT64_MAX : 0);
    return number(sign ? (uint64_t)(a >> by) : (uint64_t)a >> by);
}

/* bfe: `len` bits of x from `from` on; what lies beyond the sign is the sign. */
static struct rw_value reach_field(const struct rw_walk *w, struct rw_value x, struct rw_value from,
                                   struct rw_value len, unsigned bits, bool sign)
{
    unsigned at = (unsigned)(from.v & 255), n = (unsigned)(len.v & 255);
    if (x.mem && !from.mem && !len.mem && at == 4 && n >= 14 && bits >= 32 && !sign)
        return rw_value_sixteenths(w, x);
    if (x.mem || from.mem || len.mem)
        return rw_value_unknown();
    at = at < bits ? at : sign ? bits - 1 : 64;
    uint64_t v = at == 64 ? 0 : sign ? (uint64_t)(extend(x.v, bits, true) >> at) : rw_low_bits(x.v, bits) >> at;
    return number(n && n < bits ? (uint64_t)extend(v, n, sign) : n ? v : 0);
}

static struct rw_value reach_convert(const struct ptx_inst *i, struct rw_value x)
{
    unsigned from = ptx_type_bytes(i->type[1]) * 8, to = ptx_type_bytes(i->type[0]) * 8;
    if (i->ntype != 2 || i->nmod || ptx_type_is_float(i->type[0]) || ptx_type_is_float(i->type[1]))
        return rw_value_unknown();
    if (x.mem) /* addresses of shared memory have 32 bits */
        return from >= 32 && to >= 32 ? x : rw_value_unknown();
    return number((uint64_t)extend(rw_low_bits((uint64_t)extend(x.v, from, ptx_type_is_signed(i->type[1])), to), to,
                                   ptx_type_is_signed(i->type[0])));
}

static struct rw_value logic(const struct rw_walk *w, const struct ptx_inst *i, struct rw_value x, struct rw_value y,
                             unsigned bits)
{
    const struct rw_value *one = x.mem == RW_REACH_UNKNOWN ? &y : &x; /* it may decide alone */
    uint64_t v = one->mem ? 0 : rw_low_bits(one->v, bits);
    if ((x.mem || y.mem) && !one->mem &&
        (i->op == PTX_OP_AND ? !v : i->op == PTX_OP_OR && v == rw_low_bits(~0ull, bits)))
        return number(v);
    if (!x.mem != !y.mem && i->op != PTX_OP_XOR)
        return i->op == PTX_OP_AND ? rw_value_masked(w, x.mem ? x : y, x.mem ? y.v : x.v, bits)
                                   : rw_value_topped(w, x.mem ? x : y, x.mem ? y.v : x.v, bits);
    if (x.mem || y.mem)
        return rw_value_unknown();
    return number(i->op == PTX_OP_AND ? x.v & y.v : i->op == PTX_OP_OR ? x.v | y.v : x.v ^ y.v);
}

static struct rw_value reach_choose(const struct ptx_inst *i, struct rw_value x, struct rw_value y, unsigned bits,
                                    bool sign)
{
    bool least = i->op == PTX_OP_MIN, less;
    if (x.mem || y.mem)
        return rw_value_unknown();
    compare(PTX_M_LT, extend(x.v, bits, sign), extend(y.v, bits, sign), sign, &less);
    return number((uint64_t)extend(less == least ? x.v : y.v, bits, sign));
}

struct rw_value rw_value_of(const struct rw_walk *w, const struct rw_path *p, const struct ptx_inst *i)
{
    struct rw_value x[3] = {rw_value_unknown(), rw_value_unknown(), rw_value_unknown()}, arg;
    unsigned first = i->dst2 ? 2 : 1, bits = i->ntype ? i->type[0] == PTX_PRED ? 1 : ptx_type_bytes(i->type[0]) * 8 : 0;
    bool sign = i->ntype && ptx_type_is_signed(i->type[0]);
    if (of_arg(w, i, &arg))
        return arg;
    if (!bits || ptx_type_is_float(i->type[0]) || i->opnd[0].kind != PTX_O_REG || ptx_has(i, PTX_M_CC) ||
        ptx_has(i, PTX_M_SAT) || ptx_reads_carry(i))
        return rw_value_unknown();
    for (unsigned k = 0; k < 3 && first + k < i->nopnd; k++)
        x[k] = operand(w, p, &i->opnd[first + k]);
    switch (i->op) {
    case PTX_OP_MOV: return i->nopnd == 2 ? x[0] : rw_value_unknown();
    case PTX_OP_CVT: return reach_convert(i, x[0]);
    case PTX_OP_CVTA: return i->space == PTX_SHARED && x[0].mem ? x[0] : rw_value_unknown();
    case PTX_OP_SETP: return test(i, x[0], x[1], bits, sign);
    case PTX_OP_SELP: return x[2].mem ? rw_value_unknown() : x[2].v & 1 ? x[0] : x[1];
    case PTX_OP_ADD: return sum(x[0], x[1], false);
    case PTX_OP_SUB: return sum(x[0], x[1], true);
    case PTX_OP_MUL: return reach_product(i, x[0], x[1], bits, sign);
    case PTX_OP_MAD: return sum(reach_product(i, x[0], x[1], bits, sign), x[2], false);
    case PTX_OP_DIV:
    case PTX_OP_REM: return divide(i->op == PTX_OP_REM, x[0], x[1], bits, sign);
    case PTX_OP_SHL:
    case PTX_OP_SHR: return shift(w, i->op, x[0], x[1], bits, sign);
    case PTX_OP_BFE: return reach_field(w, x[0], x[1], x[2], bits, sign);
    case PTX_OP_AND:
    case PTX_OP_OR:
    case PTX_OP_XOR: return logic(w, i, x[0], x[1], bits);
    case PTX_OP_MIN:
    case PTX_OP_MAX: return reach_choose(i, x[0], x[1], bits, sign);
    case PTX_OP_NOT: return x[0].mem ? rw_value_unknown() : number(~x[0].v);
    case PTX_OP_NEG: return x[0].mem ? rw_value_unknown() : number(0 - x[0].v);
    default: return rw_value_unknown();
    }
}
