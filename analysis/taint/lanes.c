/* Lanes: which values are the same in all lanes of a warp, and which depend on the lane that `elect.sync` chose.
 *
 *     elect.sync _|%p, -1;   @%p cp.async.bulk.tensor … [%smem], [%map, {%x, %y}], [%bar];
 *
 * PTX does not say which lane is elected, only that it is one of the mask, and for one mask always the same. So %p is
 * no number of the launch, and a proof must hold whichever lane it is. It does where the guarded access is the same in
 * every lane: then one lane of each warp that comes here does it, and which one makes no difference to the bytes of the
 * block. A second lattice beside that of taint.c, two bits for each register and basic block:
 *
 *     LANE    may differ between the lanes of a warp (of a block: is reached by some of them alone)
 *     CHOICE  may be another number if another lane had been elected
 *
 * LANE begins at thread and lane numbers, atomics, local memory, calls, and whatever else is not known; CHOICE at
 * elect. Both flow through operands, predicates and branches, as taint does (control.c). A load is as its address: what
 * it loads from is no other memory for another lane, or it is raced, and data for that reason (cells.c). A store into
 * shared memory that the election changes makes the variable data, and so nothing comes back from there. What threads
 * exchange is the same in all lanes where it is one lane's (shfl.idx by a number that is the same in all) or a vote's.
 *
 * Thread numbers: where blocks are rows (.reqntid or .maxntid says that y and z are 1) thread 32 w + l is lane l of
 * warp w. So of `t = tid.x & m`, m having the five lowest bits, t >> 5, t & 96, t < 64 and t / 32 are the same in a
 * warp.
 *
 * An elect is believed where it has all lanes in its mask, as a constant, and all lanes come to it: no predicate, and
 * no branch or exit before it that parts them. Every other gives data, as does what one tells of the lane's number.
 *
 * What is decided here for taint.c and sites.c is `choosy`: of each instruction, whether the bytes that it touches, or
 * what it does to shared memory or to other lanes, may depend on the choice. They count as data.
 */
#include "analysis/taint/taint-priv.h"

enum { LANE = ANA_LANE, CHOICE = ANA_CHOICE, BOTH = LANE | CHOICE };
enum { MANY = UINT32_MAX };

struct lanes {
    struct ana_taint_state *s;
    const struct ptx_function *f;
    uint32_t *def; /* per register: the one instruction that defines it + 1; 0: none; MANY */
    bool *thread;  /* per register: tid.x & m, m having the five lowest bits */
    uint8_t *branch;
    uint32_t at;
    uint8_t read, carry;
    bool rows, changed;
};

static void lanes_join(struct lanes *x, uint8_t *to, uint8_t bits)
{
    if (bits & ~*to) {
        *to |= bits;
        x->changed = true;
    }
}

/* ---- what registers are made of ---------------------------------------------------------------------------------- */
static void lanes_define(uint32_t r, bool write, void *user)
{
    struct lanes *x = user;
    if (write)
        x->def[r] = x->def[r] || x->f->inst[x->at].pred != PTX_NO_REG ? MANY : x->at + 1;
}

static const struct ptx_inst *only_definition(const struct lanes *x, const struct ptx_opnd *o)
{
    if (o->kind != PTX_O_REG || !x->def[o->reg] || x->def[o->reg] == MANY)
        return NULL;
    return &x->f->inst[x->def[o->reg] - 1];
}

/* The constant that operand o of instruction `at` is. */
static bool lanes_constant(const struct lanes *x, uint32_t at, const struct ptx_opnd *o, uint64_t *ret)
{
    const struct ptx_inst *d = only_definition(x, o);
    if (!d && o->kind == PTX_O_REG && !o->neg)
        return ptx_constant_before(x->f, &x->s->cfg, at, o->reg, ret);
    if (d && d->op == PTX_OP_MOV && d->nopnd == 2)
        o = &d->opnd[1];
    if (o->kind != PTX_O_IMM || (o->imm_type != PTX_S64 && o->imm_type != PTX_U64))
        return false;
    *ret = o->bits;
    return true;
}

static bool is_thread(const struct lanes *x, const struct ptx_opnd *o)
{
    return o->kind == PTX_O_SREG ? x->rows && o->sreg == PTX_SR_TID && o->comp == 0
                                 : o->kind == PTX_O_REG && !o->neg && x->thread[o->reg];
}

/* Does i make such a number? */
static bool makes_thread(const struct lanes *x, const struct ptx_inst *i)
{
    uint32_t at = (uint32_t)(i - x->f->inst);
    uint64_t m;
    if (i->nopnd < 2 || i->opnd[0].kind != PTX_O_REG || i->ntype != 1 || ptx_type_bytes(i->type[0]) != 4)
        return false;
    if (i->op == PTX_OP_MOV)
        return is_thread(x, &i->opnd[1]);
    return i->op == PTX_OP_AND && is_thread(x, &i->opnd[1]) && lanes_constant(x, at, &i->opnd[2], &m) && (m & 31) == 31;
}

/* Is what i makes of such a number the same in a warp? */
static bool of_the_warp(const struct lanes *x, const struct ptx_inst *i)
{
    uint64_t c;
    unsigned first = i->dst2 ? 2 : 1;
    if (i->nopnd != first + 2u || i->ntype != 1 || ptx_type_bytes(i->type[0]) != 4 || !is_thread(x, &i->opnd[first]) ||
        !lanes_constant(x, (uint32_t)(i - x->f->inst), &i->opnd[first + 1], &c))
        return false;
    c &= UINT32_MAX;
    switch (i->op) {
    case PTX_OP_SHR: return c >= 5;
    case PTX_OP_AND: return !(c & 31);
    case PTX_OP_DIV: return i->type[0] == PTX_U32 && c && !(c & 31);
    case PTX_OP_SETP: /* thread numbers are small: signs do not matter, where the constant is small too */
        switch (ptx_mod_of(i, PTX_MC_CMP)) {
        case PTX_M_LT:
        case PTX_M_GE:
        case PTX_M_LO:
        case PTX_M_HS: return c <= INT32_MAX && !(c & 31);
        case PTX_M_GT:
        case PTX_M_LE:
        case PTX_M_HI:
        case PTX_M_LS: return c <= INT32_MAX && (c & 31) == 31;
        default: return false;
        }
    }
    return false;
}

/* ---- one instruction --------------------------------------------------------------------------------------------- */
static void lanes_read(uint32_t r, bool write, void *user)
{
    struct lanes *x = user;
    if (!write)
        x->read |= x->s->lane_reg[r];
}

static void lanes_write(uint32_t r, bool write, void *user)
{
    struct lanes *x = user;
    if (write)
        lanes_join(x, &x->s->lane_reg[r], x->read);
}

static uint8_t of_operand(const struct lanes *x, const struct ptx_opnd *o)
{
    uint8_t bits = 0;
    if (o->kind == PTX_O_REG || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG))
        bits = x->s->lane_reg[o->reg];
    if (o->kind == PTX_O_VEC || o->kind == PTX_O_ADDR)
        for (unsigned k = 0; k < o->n; k++)
            bits |= of_operand(x, &o->elem[k]);
    if (o->kind == PTX_O_SREG) {
        bool cluster = o->sreg >= PTX_SR_IS_EXPLICIT_CLUSTER && o->sreg <= PTX_SR_CLUSTER_NCTARANK;
        bool block = o->sreg == PTX_SR_CTAID || o->sreg == PTX_SR_NCTAID || o->sreg == PTX_SR_NTID || cluster;
        bool zero = o->sreg == PTX_SR_TID && x->rows && o->comp > 0;
        bits = block || zero ? 0 : LANE;
    }
    return bits;
}

static uint8_t guard_of(const struct lanes *x, uint32_t at)
{
    const struct ptx_inst *i = &x->f->inst[at];
    uint8_t bits = x->s->lane_block[x->s->cfg.block_of[at]];
    return i->pred == PTX_NO_REG ? bits : bits | x->s->lane_reg[i->pred];
}

bool ana_elects(const struct ana_taint_state *s, uint32_t at) { return s->elects[at]; }

/* All lanes take part in the exchange i, and know it: the mask is constant. */
static bool all_lanes(const struct lanes *x, uint32_t at)
{
    const struct ptx_inst *i = &x->f->inst[at];
    uint64_t mask;
    return i->nopnd && ptx_has(i, PTX_M_SYNC) && lanes_constant(x, at, &i->opnd[i->nopnd - 1], &mask) &&
           (uint32_t)mask == UINT32_MAX && !guard_of(x, at);
}

static bool is_number_below_32(const struct lanes *x, uint32_t at, const struct ptx_opnd *o)
{
    uint64_t c;
    return lanes_constant(x, at, o, &c) && c < 32;
}

/* Of what i reads, its predicate included. */
static uint8_t of_sources(struct lanes *x, const struct ptx_inst *i)
{
    x->read = 0;
    ptx_inst_regs(i, lanes_read, x);
    uint8_t bits = x->read;
    for (unsigned k = ptx_op_info(i->op)->flags & PTX_F_NODST ? 0 : 1; k < i->nopnd; k++)
        bits |= of_operand(x, &i->opnd[k]);
    return bits;
}

/* What i assigns. */
static uint8_t lanes_result(struct lanes *x, uint32_t at)
{
    const struct ptx_inst *i = &x->f->inst[at];
    unsigned flags = ptx_op_info(i->op)->flags;
    uint8_t bits = of_sources(x, i);
    uint64_t c;
    unsigned first = i->dst2 ? 2 : 1;
    switch (i->op) {
    case PTX_OP_ELECT: return ana_elects(x->s, at) ? CHOICE : LANE;
    case PTX_OP_LD:
    case PTX_OP_LDU: return bits | (i->space == PTX_LOCAL || i->space == PTX_GENERIC ? LANE : 0);
    case PTX_OP_SHFL: /* lane and clamp: of the whole warp */
        if (all_lanes(x, at) && ptx_has(i, PTX_M_IDX) && i->nopnd == first + 4u &&
            lanes_constant(x, at, &i->opnd[first + 2], &c) && c == 31 && is_number_below_32(x, at, &i->opnd[first + 1]))
            return bits & CHOICE; /* a second result says that there is such a lane: it is true */
        break;
    case PTX_OP_VOTE:
        if (all_lanes(x, at))
            return bits & CHOICE;
        break;
    }
    if (of_the_warp(x, i))
        return i->pred == PTX_NO_REG ? 0 : x->s->lane_reg[i->pred];
    if (flags & PTX_F_CONVERGENT)
        bits |= guard_of(x, at);
    if (flags & (PTX_F_CALL | PTX_F_READS | PTX_F_ATOMIC | PTX_F_CONVERGENT) || ptx_is_opaque(i))
        bits |= LANE;
    if (ptx_reads_carry(i))
        bits |= x->carry;
    if (ptx_has(i, PTX_M_CC))
        lanes_join(x, &x->carry, bits | guard_of(x, at));
    return bits;
}

/* ---- control ----------------------------------------------------------------------------------------------------- */
static void lanes_block(uint32_t b, void *user)
{
    struct lanes *x = user;
    lanes_join(x, &x->s->lane_block[b], x->read);
}

static void lanes_merge(uint32_t r, void *user)
{
    struct lanes *x = user;
    lanes_join(x, &x->s->lane_reg[r], x->read);
}

static void lanes_control(struct lanes *x)
{
    struct ana_taint_state *s = x->s;
    for (uint32_t b = 0; b < s->cfg.nblock; b++) {
        const struct ptx_block *k = &s->cfg.block[b];
        if (k->last >= x->f->ninst || k->first > k->last)
            continue;
        const struct ptx_inst *i = &x->f->inst[k->last];
        if (!(ptx_op_info(i->op)->flags & (PTX_F_BRANCH | PTX_F_TERMINATOR | PTX_F_CALL)))
            continue;
        uint8_t bits = i->pred != PTX_NO_REG ? s->lane_reg[i->pred] : 0;
        if (i->op == PTX_OP_BRX_IDX)
            bits |= of_operand(x, &i->opnd[0]);
        if (!(bits & ~x->branch[b]))
            continue;
        x->branch[b] |= bits;
        x->read = bits;
        x->changed = true;
        ana_branch(&s->a, x->f, &s->cfg, &s->live, b, lanes_block, lanes_merge, x);
    }
}

/* ---- the verdict ------------------------------------------------------------------------------------------------- */
/* May it matter which lane was elected? a: the bits of what says where or what; g: of what says whether. */
static bool matters(uint8_t g, uint8_t a) { return a & CHOICE || (g & CHOICE && (g | a) & LANE); }

static void choosy(struct lanes *x, uint32_t at)
{
    const struct ptx_inst *i = &x->f->inst[at];
    const struct ptx_op_info *op = ptx_op_info(i->op);
    uint8_t g = guard_of(x, at), where = 0, all = 0;
    bool value = i->op == PTX_OP_ST || i->op == PTX_OP_RED; /* operands behind the address are values */
    for (unsigned k = op->flags & PTX_F_NODST ? 0 : 1; k < i->nopnd; k++) {
        uint8_t bits = of_operand(x, &i->opnd[k]);
        all |= bits;
        if (!value || k == 0)
            where |= bits;
    }
    if (op->flags & (PTX_F_CONVERGENT | PTX_F_BARRIER | PTX_F_CALL))
        x->s->choosy[at] = (i->op != PTX_OP_ELECT && (g | all) & CHOICE) ? ANA_CHOOSES_ALL : 0;
    if (op->flags & (PTX_F_READS | PTX_F_WRITES | PTX_F_CALL))
        x->s->choosy[at] |= (matters(g, where) ? ANA_CHOOSES_PLACE : 0) | (matters(g, all) ? ANA_CHOOSES_ALL : 0);
}

static bool lanes_prepare(struct lanes *x)
{
    struct ana_taint_state *s = x->s;
    const struct ptx_function *f = x->f;
    x->def = dt_new_array(&s->a, uint32_t, (size_t)f->nreg + 1);
    x->thread = dt_new_array(&s->a, bool, (size_t)f->nreg + 1);
    x->branch = dt_new_array(&s->a, uint8_t, (size_t)s->cfg.nblock + 1);
    s->lane_reg = dt_new_array(&s->a, uint8_t, (size_t)f->nreg + 1);
    s->lane_block = dt_new_array(&s->a, uint8_t, (size_t)s->cfg.nblock + 1);
    s->choosy = dt_new_array(&s->a, uint8_t, (size_t)f->ninst + 1);
    s->elects = dt_new_array(&s->a, bool, (size_t)f->ninst + 1);
    if (s->a.failed)
        return false;
    const uint32_t *dim = f->reqntid[0] ? f->reqntid : f->maxntid;
    x->rows = dim[0] && dim[1] <= 1 && dim[2] <= 1;
    for (x->at = 0; x->at < f->ninst; x->at++)
        ptx_inst_regs(&f->inst[x->at], lanes_define, x);
    for (bool more = true; more;) {
        more = false;
        for (uint32_t r = 0; r < f->nreg; r++)
            if (!x->thread[r] && x->def[r] && x->def[r] != MANY && makes_thread(x, &f->inst[x->def[r] - 1]))
                x->thread[r] = more = true;
    }
    for (uint32_t at = 0; at < f->ninst; at++) {
        const struct ptx_inst *i = &f->inst[at];
        uint64_t mask;
        s->elects[at] = i->op == PTX_OP_ELECT && i->pred == PTX_NO_REG && i->dst2 && i->nopnd == 3 && s->live.in &&
                        lanes_constant(x, at, &i->opnd[2], &mask) && (uint32_t)mask == UINT32_MAX;
    }
    return true;
}

static bool lanes_pass(struct lanes *x)
{
    struct ana_taint_state *s = x->s;
    memset(s->lane_reg, 0, s->f->nreg);
    memset(s->lane_block, 0, s->cfg.nblock);
    memset(x->branch, 0, s->cfg.nblock);
    x->carry = 0;
    do {
        x->changed = false;
        struct dt_arena keep = s->a, scratch = {0};
        s->a = scratch;
        for (uint32_t at = 0; at < s->f->ninst; at++) {
            if (!s->cfg.block[s->cfg.block_of[at]].reachable)
                continue;
            x->read = lanes_result(x, at);
            ptx_inst_regs(&s->f->inst[at], lanes_write, x);
        }
        lanes_control(x);
        bool failed = s->a.failed;
        dt_arena_done(&s->a);
        s->a = keep;
        if (failed)
            return false;
    } while (x->changed);
    return true;
}

bool ana_lanes(struct ana_taint_state *s)
{
    struct lanes x = {.s = s, .f = s->f};
    bool again = true;
    if (!lanes_prepare(&x))
        return false;
    while (again) { /* what a disbelieved election gives is no choice, but data */
        if (!lanes_pass(&x))
            return false;
        again = false;
        for (uint32_t at = 0; at < s->f->ninst; at++)
            if (s->elects[at] && s->lane_block[s->cfg.block_of[at]]) {
                s->elects[at] = false;
                again = true;
            }
    }
    for (uint32_t at = 0; at < s->f->ninst; at++)
        choosy(&x, at);
    return true;
}
