/* Taint: what may be called proved (docs/LEGALITY.md §1).
 *
 * A lattice none < constant < data over registers, flow-insensitive; one cell per shared and local variable;
 * provenance, the set of parameters and variables that a register's value may have been computed from by arithmetic,
 * beside it. Everything is iterated to a fixpoint; every transfer is monotone.
 *
 *   sources of data    loads of global memory; atomics; match, activemask, barrier reductions, mbarrier tests; an
 *                      elect that not all lanes come to, and what depends on which lane was elected (lanes.c);
 *                      results of floating point whose bits PTX leaves open (PTX_F_OPEN: approximations, matrices);
 *                      machine registers; results of calls; registers that may be read before they are written;
 *                      shared memory that is read without a store, or where no barrier orders stores and loads
 *                      (cells.c); the carry flag by what set it, or where nothing did; anything opaque
 *   no source          wgmma: its descriptors name shared memory of the block whatever they hold, so that no byte of a
 *                      buffer is touched; what it gives is open
 *   constant           loads whose provenance is buffers with constant content only
 *   none               parameters, geometry registers, variables that nothing writes
 *   cells              a store joins value, address and guard into its variable; unknown addresses into every
 *                      variable
 *   shuffles, votes    join the guard too: who takes part is part of the result
 *   control            for a branch on a tainted condition: every block between it and its immediate post-dominator
 *                      is reached or not by data; a register that is assigned there and live where two ways from the
 *                      branch meet is a merge of values chosen by data. Exits under such a branch make the
 *                      post-dominator the end of the function, so all that follows is reached or not by data.
 *
 * A copy of a register that holds a number is that number (fold.c).
 *
 * A register assigned between branch and meeting point but dead at it keeps its own taint: its value, where it
 * exists, is the same for every input. This is what keeps the address in `if (x[i] > 0) y[i] = …` clean when NVRTC
 * branches.
 *
 * Device functions are not followed: a call may touch every byte that its arguments' provenance reaches, if the
 * callee (or what it calls) touches global memory at all. Pointer bits are not data as long as they only make an
 * address of their own buffer, or say how it is aligned: binding.c.
 */
#include "analysis/taint/taint-priv.h"
#include "ptx/reach.h"

#include <stdlib.h>
#include <string.h>

static void taint_join(struct ana_taint_state *s, uint64_t *to, const uint64_t *from)
{
    for (uint32_t i = 0; i < s->words; i++)
        if (from[i] & ~to[i]) {
            to[i] |= from[i];
            s->changed = true;
        }
}

/* ---- raising ----------------------------------------------------------------------------------------------------- */
static void taint_raise(struct ana_taint_state *s, uint8_t *to, uint8_t level)
{
    if (level > *to) {
        *to = level;
        s->changed = true;
    }
}

/* Variables of extern shared arrays are one and the same memory. */
static bool dynamic_shared(const struct ana_taint_state *s, const uint64_t *mask)
{
    bool some = false;
    for (uint32_t w = 0; w < s->words; w++)
        some |= (mask[w] & s->dynamic_bits[w]) != 0;
    return some;
}

void ana_alias(const struct ana_taint_state *s, uint64_t *mask)
{
    for (uint32_t w = 0, some = dynamic_shared(s, mask); w < s->words && some; w++)
        mask[w] |= s->dynamic_bits[w];
}

static void raise_cells(struct ana_taint_state *s, const uint64_t *mask, uint8_t level, const uint64_t *prov)
{
    bool dynamic = dynamic_shared(s, mask);
    for (uint32_t b = 0; b < s->nbit; b++)
        if (has_bit(mask, b) || (dynamic && has_bit(s->dynamic_bits, b))) {
            taint_raise(s, &s->cell[b].taint, level);
            if (!s->cell[b].stored)
                s->cell[b].stored = s->changed = true;
            if (prov)
                taint_join(s, cell_prov(s, b), prov);
        }
}

static void everything(struct ana_taint_state *s)
{
    for (uint32_t i = 0; i < s->f->nreg; i++)
        taint_raise(s, &s->reg[i], DATA);
    for (uint32_t i = 0; i < s->cfg.nblock; i++)
        taint_raise(s, &s->block[i], DATA);
    for (uint32_t i = 0; i < s->nbit; i++)
        taint_raise(s, &s->cell[i].taint, DATA);
    for (uint32_t i = 0; i < s->nmod; i++)
        s->escapes[i] = true;
    s->opaque = true;
}

/* ---- registers --------------------------------------------------------------------------------------------------- */
struct to {
    struct ana_taint_state *s;
    uint8_t level;
    const uint64_t *prov;
};

static void write_reg(uint32_t r, bool write, void *user)
{
    struct to *t = user;
    if (!write)
        return;
    taint_raise(t->s, &t->s->reg[r], t->level);
    if (t->prov && t->s->f->reg[r].type != PTX_PRED)
        taint_join(t->s, reg_prov(t->s, r), t->prov);
}

static void assign(struct ana_taint_state *s, const struct ptx_inst *i, uint8_t level, const uint64_t *prov)
{
    struct to t = {s, level, prov};
    ptx_inst_regs(i, write_reg, &t);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static const struct ptx_var *var_of(const struct ana_taint_state *s, uint32_t bit)
{
    return module_var(s, bit) ? module_var(s, bit) : s->f->var[bit - s->f->nparam];
}

/* May an access in `space` be to a variable of space `var`? */
static bool agree(uint8_t space, uint8_t var)
{
    if (space == PTX_SHARED_CLUSTER)
        space = PTX_SHARED;
    if (space == PTX_PARAM_FUNC)
        space = PTX_PARAM;
    return space == PTX_GENERIC || space == var;
}

/* What a load at provenance `prov` yields; provenance of the value joined to `out`. */
static uint8_t taint_load(struct ana_taint_state *s, uint8_t space, const uint64_t *prov, uint64_t *out)
{
    uint8_t level = NONE;
    bool some = false;
    s->loaded_unknown = false;
    for (uint32_t b = 0; b < s->nbit; b++) {
        if (!has_bit(prov, b))
            continue;
        bool inside = space == PTX_SHARED || space == PTX_SHARED_CLUSTER || space == PTX_LOCAL || space == PTX_CONST;
        if (b < s->f->nparam ? space != PTX_PARAM && (inside || !may_point(s, b)) : !agree(space, var_of(s, b)->space))
            continue; /* a number in the address, not what it points to */
        some = true;
        bool shared = b >= s->f->nparam && has_bit(s->shared_bits, b);
        uint8_t v = space == PTX_SHARED_CLUSTER || (space == PTX_GENERIC && shared && s->mapa) ? DATA : NONE;
        if (b < s->f->nparam) {
            if (space == PTX_PARAM) {
                v = s->f->is_entry ? NONE : DATA;
                set_bit(out, b);
            } else if (s->in->constant_param && b < s->in->nparam && s->in->constant_param[b]) {
                v = CONSTANT;
            } else {
                v = DATA;
                s->loaded_unknown = true;
            }
        } else if (b < s->f->nparam + s->nown || module_var(s, b)->space == PTX_SHARED) {
            const struct ptx_var *w = var_of(s, b);
            uint8_t held = s->cell[b].stored ? s->cell[b].taint : DATA;
            v = held > v ? held : v;
            if (s->cell[b].raced)
                v = DATA;
            if (w->space == PTX_PARAM) {
                v = DATA; /* results of calls */
                s->loaded_unknown = true;
            }
            quiet_join(s, out, cell_prov(s, b));
        } else {
            uint8_t k = var_kind(s, b);
            v = k == ANA_VAR_FIXED ? NONE : k == ANA_VAR_CONSTANT ? CONSTANT : DATA;
            s->loaded_unknown |= v == DATA;
        }
        if (v > level)
            level = v;
    }
    s->loaded_unknown |= !some;
    return some ? level : DATA;
}

void ana_store_targets(struct ana_taint_state *s, uint8_t space, const uint64_t *prov, uint64_t *mask)
{
    bool known = false;
    for (uint32_t b = 0; b < s->nbit; b++) {
        if (!has_bit(prov, b))
            continue;
        bool var = b >= s->f->nparam && var_of(s, b)->space != PTX_GLOBAL && agree(space, var_of(s, b)->space);
        if (var)
            set_bit(mask, b);
        known |= var || (space == PTX_GENERIC && (b >= s->f->nparam || may_point(s, b)));
    }
    known &= !has_bit(prov, s->unknown);
    if (!known && space != PTX_GLOBAL && space != PTX_CONST) { /* anywhere in its space */
        if (space != PTX_LOCAL)
            quiet_join(s, mask, s->shared_bits);
        if (space != PTX_SHARED && space != PTX_SHARED_CLUSTER)
            quiet_join(s, mask, s->local_bits);
    }
    ana_alias(s, mask);
}

/* Does a store at `prov` go to memory that is no variable of the block? */
static bool taint_leaves(const struct ana_taint_state *s, uint8_t space, const uint64_t *prov)
{
    bool some = false;
    for (uint32_t b = 0; b <= s->unknown; b++) {
        if (!has_bit(prov, b))
            continue;
        some = true;
        if (b == s->unknown ||
            (b < s->f->nparam ? may_point(s, b)
                              : !agree(PTX_SHARED, var_of(s, b)->space) && !agree(PTX_LOCAL, var_of(s, b)->space)))
            return space == PTX_GENERIC || space == PTX_GLOBAL;
    }
    return !some;
}

static void taint_store(struct ana_taint_state *s, uint8_t space, const uint64_t *prov, uint8_t level,
                        const uint64_t *value)
{
    uint64_t *mask = dt_new_array(&s->a, uint64_t, s->words);
    if (!mask)
        return;
    ana_store_targets(s, space, prov, mask);
    raise_cells(s, mask, level, value);
    if (!value)
        return;
    if (space == PTX_GLOBAL || space == PTX_GENERIC) /* an address of shared or local memory that leaves it */
        for (uint32_t b = s->f->nparam; b < s->nbit; b++)
            if (has_bit(value, b) && (has_bit(s->shared_bits, b) || has_bit(s->local_bits, b)) &&
                taint_leaves(s, space, prov)) {
                taint_raise(s, &s->cell[b].taint, DATA);
                s->cell[b].stored = true;
            }
    for (uint32_t b = 0; b < s->nmod; b++) /* an address that is stored may be used by anybody */
        if (has_bit(value, s->f->nparam + s->nown + b))
            s->escapes[b] = true;
}

/* Provenance of a source operand, joined to `out`. */
static void taint_value(struct ana_taint_state *s, const struct ptx_opnd *o, uint64_t *out)
{
    if (o->kind == PTX_O_REG)
        quiet_join(s, out, reg_prov(s, o->reg));
    else if (o->kind == PTX_O_VAR && bit_of(s, o->var) != NO_CELL)
        set_bit(out, bit_of(s, o->var));
    for (unsigned k = 0; o->kind == PTX_O_VEC && k < o->n; k++)
        taint_value(s, &o->elem[k], out);
}

/* ---- one instruction --------------------------------------------------------------------------------------------- */
static void memory_inst(struct ana_taint_state *s, uint32_t at, const struct ptx_inst *i, const struct ptx_op_info *op,
                        uint8_t guard)
{
    if (i->op ==
        PTX_OP_WGMMA_MMA_ASYNC) { /* descriptors name shared memory of the block, and nothing is written there */
        assign(s, i, DATA, NULL);
        return;
    }
    uint64_t *prov = dt_new_array(&s->a, uint64_t, s->words), *out = dt_new_array(&s->a, uint64_t, s->words);
    if (!prov || !out || op->addr_opnd < 0 || op->addr_opnd >= i->nopnd) {
        everything(s);
        return;
    }
    for (unsigned k = 0; k < i->nopnd; k++) /* an address that is no pointer plus a number depends on the binding */
        if (i->opnd[k].kind == PTX_O_ADDR && ana_binding_bits(s, &i->opnd[k])) {
            taint_raise(s, &s->reg[i->opnd[k].reg], DATA);
            s->src = DATA;
        }
    uint8_t where = taint_address(s, &i->opnd[op->addr_opnd], prov), all = s->src > guard ? s->src : guard;
    if (s->choosy[at] & ANA_CHOOSES_ALL)
        all = DATA;
    switch (i->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU: {
        uint8_t space = i->space == PTX_PARAM_FUNC ? PTX_PARAM : i->space, v = taint_load(s, space, prov, out);
        if (v == DATA && s->loaded_unknown && ptx_type_bytes(i->type[0]) == 8 && !ptx_type_is_float(i->type[0]))
            set_bit(out, s->unknown);
        if (ptx_type_bytes(i->type[0]) > 8)
            v = DATA; /* cells.c could not look at it */
        if (where > v)
            v = where;
        if (i->pred != PTX_NO_REG && s->reg[i->pred] > v)
            v = s->reg[i->pred];
        if (ana_binding_load(s, i, prov, out) > v)
            v = DATA;
        assign(s, i, v, out);
        return;
    }
    case PTX_OP_ST:
        for (unsigned k = 1; k < i->nopnd; k++) {
            taint_value(s, &i->opnd[k], out);
            if (ana_binding_bits(s, &i->opnd[k]))
                all = DATA;
        }
        taint_store(s, i->space, prov, all, out);
        return;
    case PTX_OP_CP_ASYNC: {
        uint64_t *from = dt_new_array(&s->a, uint64_t, s->words);
        if (!from)
            return;
        taint_address(s, &i->opnd[1], from);
        uint8_t v = taint_load(s, PTX_GLOBAL, from, out);
        taint_store(s, PTX_SHARED, prov, v > all ? v : all, NULL);
        return;
    }
    default: /* atomics, matrix loads, bulk copies, mbarriers: results and what they write are data */
        for (unsigned k = 0; k < i->nopnd; k++)
            if (k != (unsigned)op->addr_opnd && k >= (unsigned)(i->op == PTX_OP_ATOM))
                taint_value(s, &i->opnd[k], out);
        if (op->flags & PTX_F_WRITES)
            taint_store(s, i->space, prov, DATA, out);
        if (i->ntype && ptx_type_bytes(i->type[0]) >= 8)
            set_bit(out, s->unknown);
        if (op->flags & PTX_F_SPACE2 && i->space != PTX_GLOBAL) /* what it copies into shared memory */
            raise_cells(s, s->shared_bits, DATA, NULL);
        assign(s, i, DATA, out);
    }
}

/* Threads may be gone after block b's call: whether what follows is reached depends on data. */
static void may_exit(struct ana_taint_state *s, uint32_t b)
{
    uint32_t *stack = dt_new_array(&s->a, uint32_t, (size_t)s->cfg.nblock + 1), top = 0;
    uint8_t *seen = dt_new_array(&s->a, uint8_t, (size_t)s->cfg.nblock + 1);
    if (!stack || !seen)
        return;
    seen[b] = 1;
    stack[top++] = b;
    while (top) {
        uint32_t x = stack[--top];
        taint_raise(s, &s->block[x], DATA);
        for (uint32_t k = 0; k < s->cfg.block[x].nsucc; k++)
            if (!seen[s->cfg.block[x].succ[k]]) {
                seen[s->cfg.block[x].succ[k]] = 1;
                stack[top++] = s->cfg.block[x].succ[k];
            }
    }
}

static void call_inst(struct ana_taint_state *s, uint32_t at, const struct ptx_inst *i)
{
    if (ana_call_effect(s, i) & ANA_CALL_EXITS && s->block[s->cfg.block_of[at]] != DATA)
        may_exit(s, s->cfg.block_of[at]);
    /* Arguments are in .param variables (or registers): whatever they point to may be changed. */
    uint64_t *reach = dt_new_array(&s->a, uint64_t, s->words), *vars = dt_new_array(&s->a, uint64_t, s->words);
    if (!reach || !vars)
        return;
    ana_call_reach(s, reach);
    for (uint32_t b = 0; b < s->nbit; b++)
        if (has_bit(reach, b)) {
            if (b >= s->f->nparam)
                set_bit(vars, b);
            if (b >= s->f->nparam + s->nown)
                s->escapes[b - s->f->nparam - s->nown] = true;
        }
    for (uint32_t b = s->f->nparam; b < s->f->nparam + s->nown; b++)
        if (s->f->var[b - s->f->nparam]->space == PTX_PARAM)
            taint_join(s, cell_prov(s, b), reach); /* the result may be one of the arguments */
    raise_cells(s, vars, DATA, NULL);
    raise_cells(s, s->shared_bits, DATA, NULL); /* a device function knows the module's shared variables */
    assign(s, i, DATA, reach);
}

static void taint_step(struct ana_taint_state *s, uint32_t at)
{
    const struct ptx_inst *i = &s->f->inst[at];
    const struct ptx_op_info *op = ptx_op_info(i->op);
    uint8_t guard = s->block[s->cfg.block_of[at]];
    switch (i->op) {
    case PTX_OP_LABEL:
    case PTX_OP_PRAGMA:
    case PTX_OP_BRANCHTARGETS:
    case PTX_OP_CALLPROTO: return;
    }
    if (ptx_is_opaque(i)) {
        everything(s);
        return;
    }
    s->src = NONE;
    memset(s->src_prov, 0, s->words * sizeof *s->src_prov);
    if (!s->folded[at] || i->pred != PTX_NO_REG)
        ptx_inst_regs(i, read_reg, s);
    for (unsigned k = 0; k < i->nopnd; k++)
        read_special(s, &i->opnd[k]);
    if (i->op == PTX_OP_CVTA && i->space == PTX_PARAM)
        s->param_address = true;
    if (op->flags & PTX_F_CALL) {
        call_inst(s, at, i);
    } else if (op->flags & (PTX_F_READS | PTX_F_WRITES)) {
        memory_inst(s, at, i, op, guard);
    } else {
        uint8_t v = s->src;
        if (op->flags & PTX_F_CONVERGENT && guard > v)
            v = guard;
        if (i->op == PTX_OP_ACTIVEMASK || i->op == PTX_OP_MATCH || (i->op == PTX_OP_ELECT && !ana_elects(s, at)) ||
            i->op == PTX_OP_BAR_RED || i->op == PTX_OP_BARRIER_RED || s->choosy[at] & ANA_CHOOSES_ALL)
            v = DATA;
        if (ptx_is_open(i)) /* another device may give other bits: no proof rests on them */
            v = DATA;
        if (ptx_reads_carry(i))
            v = s->no_carry[at] ? DATA : s->carry > v ? s->carry : v;
        if (ptx_has(i, PTX_M_CC))
            taint_raise(s, &s->carry, v > guard ? v : guard);
        if (ana_binding(s, i) > v)
            v = DATA;
        if (i->op == PTX_OP_AND && v != DATA && ana_binding_low(s, i)) /* no way to the buffer */
            for (uint32_t b = 0; b < s->f->nparam; b++)
                if (may_point(s, b))
                    s->src_prov[b / 64] &= ~(UINT64_C(1) << b % 64);
        bool base =
            i->op == PTX_OP_MAD && i->opnd[3].kind == PTX_O_REG && has_bit(reg_prov(s, i->opnd[3].reg), s->unknown);
        if (i->op == PTX_OP_SHL || i->op == PTX_OP_MUL || (i->op == PTX_OP_MAD && !base)) /* scaled: no address */
            s->src_prov[s->unknown / 64] &= ~(UINT64_C(1) << s->unknown % 64);
        assign(s, i, v, s->src_prov);
        if (i->op == PTX_OP_ELECT && i->opnd[0].kind == PTX_O_REG) /* which lane it is */
            taint_raise(s, &s->reg[i->opnd[0].reg], DATA);
    }
}

/* ---- control ----------------------------------------------------------------------------------------------------- */
struct decided {
    struct ana_taint_state *s;
    uint8_t level;
};

static void decided_block(uint32_t x, void *user)
{
    struct decided *d = user;
    taint_raise(d->s, &d->s->block[x], d->level);
}

static void decided_merge(uint32_t r, void *user)
{
    struct decided *d = user;
    taint_raise(d->s, &d->s->reg[r], d->level);
}

static void control(struct ana_taint_state *s)
{
    for (uint32_t b = 0; b < s->cfg.nblock; b++) {
        const struct ptx_block *k = &s->cfg.block[b];
        if (k->last >= s->f->ninst || k->first > k->last)
            continue;
        const struct ptx_inst *i = &s->f->inst[k->last];
        if (!(ptx_op_info(i->op)->flags & (PTX_F_BRANCH | PTX_F_TERMINATOR | PTX_F_CALL)))
            continue;
        uint8_t level = i->pred != PTX_NO_REG ? s->reg[i->pred] : NONE;
        if (i->op == PTX_OP_BRX_IDX && i->opnd[0].kind == PTX_O_REG && s->reg[i->opnd[0].reg] > level)
            level = s->reg[i->opnd[0].reg];
        if (i->op == PTX_OP_BRX_IDX && ana_binding_bits(s, &i->opnd[0]))
            level = DATA;
        if (level <= s->branch[b])
            continue;
        s->branch[b] = level;
        struct decided d = {s, level};
        ana_branch(&s->a, s->f, &s->cfg, &s->live, b, decided_block, decided_merge, &d);
        s->changed = true;
    }
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */
struct known {
    const struct ptx_var *v;
    uint32_t bit;
};

static int by_pointer(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct known *)a)->v, y = (uintptr_t)((const struct known *)b)->v;
    return x < y ? -1 : x > y;
}

/* Block b from where the flag is set (or not) to its end; what reads it where it is not is marked. */
static bool carry_through(struct ana_taint_state *s, const struct ptx_block *b, bool set)
{
    for (uint32_t n = b->first; n <= b->last && n < s->f->ninst; n++) {
        const struct ptx_inst *i = &s->f->inst[n];
        if (i->op <= PTX_OP_OPAQUE)
            continue;
        s->no_carry[n] = ptx_reads_carry(i) && !set;
        if (i->op == PTX_OP_CALL)
            set = false;
        else if (ptx_has(i, PTX_M_CC) && i->pred == PTX_NO_REG)
            set = true;
    }
    return set;
}

/* Where the carry flag is read on a way on which nothing set it since the start, or since a call: it holds anything. */
static bool carry_flags(struct ana_taint_state *s)
{
    /* the flag may not be set at the block's end */
    uint8_t *lost = dt_new_array(&s->a, uint8_t, (size_t)s->cfg.nblock + 1);
    bool more = true;
    s->no_carry = dt_new_array(&s->a, bool, (size_t)s->f->ninst + 1);
    while (more && lost && s->no_carry) {
        more = false;
        for (uint32_t b = 0; b < s->cfg.nblock; b++) {
            const struct ptx_block *k = &s->cfg.block[b];
            bool set = b > 0;
            for (uint32_t p = 0; p < k->npred; p++)
                set &= !lost[k->pred[p]];
            if (!carry_through(s, k, set) && !lost[b])
                lost[b] = more = true;
        }
    }
    return lost && s->no_carry;
}

static bool taint_prepare(struct ana_taint_state *s)
{
    const struct ptx_function *f = s->f;
    s->nown = f->nvar;
    s->nmod = f->module->nvar;
    s->nbit = f->nparam + s->nown + s->nmod;
    s->unknown = s->nbit;
    s->words = s->nbit / 64 + 1;
    struct known *k = dt_new_array(&s->a, struct known, (size_t)s->nbit + 1);
    s->known = (const struct ptx_var **)dt_new_array(&s->a, struct ptx_var *, (size_t)s->nbit + 1);
    s->known_bit = dt_new_array(&s->a, uint32_t, (size_t)s->nbit + 1);
    s->prov = dt_arena_array(&s->a, (size_t)f->nreg + 1, s->words * sizeof *s->prov);
    s->cell = dt_new_array(&s->a, struct ana_cell, (size_t)s->nbit + 1);
    s->cellprov = dt_arena_array(&s->a, (size_t)s->nbit + 1, s->words * sizeof *s->cellprov);
    s->shared_bits = dt_new_array(&s->a, uint64_t, s->words);
    s->local_bits = dt_new_array(&s->a, uint64_t, s->words);
    s->dynamic_bits = dt_new_array(&s->a, uint64_t, s->words);
    s->src_prov = dt_new_array(&s->a, uint64_t, s->words);
    s->branch = dt_new_array(&s->a, uint8_t, (size_t)s->cfg.nblock + 1);
    s->kind = dt_new_array(&s->a, uint8_t, (size_t)f->nreg + 1);
    s->align = dt_new_array(s->keep, uint32_t, (size_t)f->nparam + 1);
    if (s->a.failed || !s->align || !carry_flags(s))
        return false;
    for (uint32_t b = 0; b < s->nbit; b++) {
        struct ptx_var *v = b < f->nparam             ? f->param[b]
                            : b < f->nparam + s->nown ? f->var[b - f->nparam]
                                                      : module_var(s, b);
        k[b] = (struct known){v, b};
        if (b < f->nparam)
            continue;
        if (v->space == PTX_SHARED)
            set_bit(v->is_extern || !v->bytes ? s->dynamic_bits : s->shared_bits, b), set_bit(s->shared_bits, b);
        else if (v->space == PTX_LOCAL)
            set_bit(s->local_bits, b);
    }
    qsort(k, s->nbit, sizeof *k, by_pointer);
    for (uint32_t b = 0; b < s->nbit; b++) {
        s->known[b] = k[b].v;
        s->known_bit[b] = k[b].bit;
    }
    if (s->cfg.nblock && s->live.in) /* may be read before written */
        for (uint32_t w = 0; w < s->live.words; w++)
            for (uint64_t v = s->live.in[0][w]; v; v &= v - 1) {
                uint32_t r = w * 64 + (uint32_t)__builtin_ctzll(v);
                if (r < f->nreg)
                    s->reg[r] = DATA;
            }
    return true;
}

/* In the function or what it calls. */
static bool of_cluster(const struct ptx_inst *i, void *user)
{
    struct ana_taint_state *s = user;
    s->mapa |= i->op == PTX_OP_MAPA;
    s->relaxed |= i->op == PTX_OP_BARRIER_CLUSTER_ARRIVE && ptx_has(i, PTX_M_RELAXED);
    return false;
}

int ana_taint_run(const struct ptx_function *f, const struct ana_taint_in *in, struct ana_tainted *ret,
                  struct dt_err *e)
{
    struct ana_taint_state s = {.f = f, .in = in};
    struct ana_tainted t = {0};
    size_t cap = 0;
    int rc = ptx_cfg_build(f, &s.cfg, e);
    if (rc)
        return rc;
    struct dt_err large = {0};
    rc = ptx_live_build(f, &s.cfg, &s.live, &large);
    if (rc && rc != DT_E_TOO_LARGE) {
        ptx_cfg_done(&s.cfg);
        dt_err_move(e, &large);
        return rc;
    }
    dt_err_done(&large);
    t.reg = s.reg = dt_new_array(&t.sites.arena, uint8_t, (size_t)f->nreg + 1);
    t.block = s.block = dt_new_array(&t.sites.arena, uint8_t, (size_t)s.cfg.nblock + 1);
    t.escapes = s.escapes = dt_new_array(&t.sites.arena, bool, (size_t)f->module->nvar + 1);
    s.keep = &t.sites.arena;
    s.folded = dt_new_array(&t.sites.arena, uint32_t, (size_t)f->ninst + 1);
    bool ok = s.reg && s.block && s.escapes && s.folded && !ana_fold(f, s.folded) && taint_prepare(&s);
    ok = ok && ana_lanes(&s);
    if (ok && rc)
        everything(&s); /* too large for liveness: nothing can be said */
    ok = ok && ptx_reach_any(f, of_cluster, &s) >= 0;
    do {
        s.changed = false;
        struct dt_arena keep = s.a, scratch = {0};
        s.a = scratch;
        for (uint32_t i = 0; i < f->ninst && ok; i++)
            if (s.cfg.block[s.cfg.block_of[i]].reachable || ptx_is_opaque(&f->inst[i]))
                taint_step(&s, i);
        if (ok)
            control(&s);
        if (ok)
            ana_races(&s);
        ok = ok && !s.a.failed;
        dt_arena_done(&s.a);
        s.a = keep;
    } while (s.changed && ok);
    for (uint32_t i = 0; i < f->ninst && ok; i++)
        if (s.cfg.block[s.cfg.block_of[i]].reachable || ptx_is_opaque(&f->inst[i]))
            ok = ana_sites_add(&s, &t.sites, &cap, i);
    ok = ok && ana_watch(&s, &t) && !t.sites.arena.failed && !s.a.failed;
    t.sites.opaque |= s.opaque;
    t.sites.align = s.align;
    t.sites.nalign = f->nparam;
    t.param_address = s.param_address;
    t.cfg = s.cfg;
    ptx_live_done(&s.live);
    dt_arena_done(&s.a);
    if (!ok) {
        ana_tainted_done(&t);
        return dt_err_set(e, DT_E_NOMEM, "no memory to analyse %s", f->name ? f->name : "a function");
    }
    *ret = t;
    return 0;
}

void ana_tainted_done(struct ana_tainted *t)
{
    ptx_cfg_done(&t->cfg);
    ana_sites_done(&t->sites);
    *t = (struct ana_tainted){0};
}

void ana_sites_done(struct ana_sites *s)
{
    dt_arena_done(&s->arena);
    *s = (struct ana_sites){0};
}

int ana_taint(const struct ptx_function *entry, const bool *constant_param, uint32_t nparam, struct ana_sites *ret,
              struct dt_err *e)
{
    struct ana_taint_in in = {.constant_param = constant_param, .nparam = nparam};
    struct ana_tainted t;
    int rc = ana_taint_run(entry, &in, &t, e);
    if (rc)
        return rc;
    ptx_cfg_done(&t.cfg);
    *ret = t.sites;
    return 0;
}

int ana_module_vars(const struct ptx_module *m, uint8_t *out, struct dt_err *e)
{
    bool some = false;
    for (uint32_t v = 0; v < m->nvar; v++) {
        out[v] = m->var[v]->is_extern && m->var[v]->space == PTX_GLOBAL ? ANA_VAR_MUTABLE : ANA_VAR_FIXED;
        some |= m->var[v]->space == PTX_GLOBAL;
    }
    if (!some)
        return 0;
    for (uint32_t v = 0; v < m->nvar; v++) /* addresses in initialisers can be loaded by anybody */
        for (uint32_t k = 0; k < m->var[v]->nreloc; k++)
            for (uint32_t w = 0; w < m->nvar; w++)
                if (m->var[w] == m->var[v]->reloc[k].var)
                    out[w] = ANA_VAR_MUTABLE;
    struct ana_taint_in in = {0};
    for (uint32_t i = 0; i < m->nfunc; i++) {
        struct ana_tainted t;
        if (!m->func[i]->has_body)
            continue;
        int rc = ana_taint_run(m->func[i], &in, &t, e);
        if (rc)
            return rc;
        for (uint32_t v = 0; v < m->nvar; v++)
            if (t.escapes[v] || t.sites.opaque)
                out[v] = ANA_VAR_MUTABLE;
        for (uint32_t k = 0; k < t.sites.nsite; k++)
            for (uint32_t q = 0; q < t.sites.site[k].nvars && t.sites.site[k].writes; q++)
                for (uint32_t v = 0; v < m->nvar; v++)
                    if (m->var[v] == t.sites.site[k].vars[q])
                        out[v] = ANA_VAR_MUTABLE;
        ana_tainted_done(&t);
    }
    return 0;
}

const char *ana_evidence_text(enum ana_evidence e)
{
    static const char *const text[] = {"proved", "observed", "data-dependent"};
    return (unsigned)e < ANA_EVIDENCES ? text[e] : "?";
}
