/* Taint: what may be called proved (legality.md, "Evidence").
 *
 * A lattice none < constant < data over registers, flow-insensitive; one cell per shared and local variable; provenance, the set
 * of parameters and variables that a register's value may have been computed from by arithmetic, beside it. Everything is
 * iterated to a fixpoint; every transfer is monotone.
 *
 *   sources of data    loads of global memory; atomics; match, activemask, elect, barrier reductions, mbarrier tests; machine
 *                      registers; results of calls; registers that may be read before they are written; shared memory that is
 *                      read without a store or without a barrier before; anything opaque
 *   constant           loads whose provenance is buffers with constant content only
 *   none               parameters, geometry registers, variables that nothing writes
 *   cells              a store joins value, address and guard into its variable; unknown addresses into every variable
 *   shuffles, votes    join the guard too: who takes part is part of the result
 *   control            for a branch on a tainted condition: every block between it and its immediate post-dominator is reached or
 *                      not by data; a register that is assigned there and live where two ways from the branch meet is a merge
 *                      of values chosen by data. Exits under such a branch make the post-dominator the end of the function, so
 *                      all that follows is reached or not by data.
 *
 * A register assigned between branch and meeting point but dead at it keeps its own taint: its value, where it exists, is the same
 * for every input. This is what keeps the address in `if (x[i] > 0) y[i] = …` clean when NVRTC branches.
 *
 * Device functions are not followed: a call may touch every byte that its arguments' provenance reaches, if the callee (or
 * what it calls) touches global memory at all. Pointer bits are not data (alignment tests are assumptions of the binding).
 */
#include "analysis/analysis-priv.h"

#include <stdlib.h>
#include <string.h>

#define NONE ANA_PROVED
#define CONSTANT ANA_OBSERVED
#define DATA ANA_DATA_DEPENDENT
#define NO_CELL UINT32_MAX
#define MAX_CALL_DEPTH 16

struct cell {
    uint8_t taint;
    bool stored;
};

struct state {
    const struct ptx_function *f;
    const struct ana_taint_in *in;
    struct dt_arena a; /* scratch */
    struct ptx_cfg cfg;
    struct ptx_live live;
    /* provenance bits: parameters, then the function's variables, then the module's */
    uint32_t nown, nmod, nbit, words;
    uint8_t *reg, *block;
    uint64_t *prov;     /* words per register */
    struct cell *cell;  /* per bit */
    uint64_t *cellprov; /* words per bit */
    const struct ptx_var **known; /* sorted by address */
    uint32_t *known_bit;
    uint64_t *shared_bits, *local_bits; /* masks */
    bool *escapes;
    bool opaque, changed, param_address;
    uint8_t *branch; /* per block: level its branch was applied at */
    /* of the instruction at hand */
    uint8_t src;
    uint64_t *src_prov;
};

/* ---- provenance sets -------------------------------------------------------------------------------------------- */
static uint64_t *reg_prov(struct state *s, uint32_t r) { return s->prov + (size_t)r * s->words; }
static uint64_t *cell_prov(struct state *s, uint32_t c) { return s->cellprov + (size_t)c * s->words; }

static void join(struct state *s, uint64_t *to, const uint64_t *from)
{
    for (uint32_t i = 0; i < s->words; i++)
        if (from[i] & ~to[i]) {
            to[i] |= from[i];
            s->changed = true;
        }
}

static void quiet_join(struct state *s, uint64_t *to, const uint64_t *from)
{
    for (uint32_t i = 0; i < s->words; i++)
        to[i] |= from[i];
}

static bool has_bit(const uint64_t *x, uint32_t bit) { return x[bit / 64] >> bit % 64 & 1; }
static void set_bit(uint64_t *x, uint32_t bit) { x[bit / 64] |= UINT64_C(1) << bit % 64; }

static uint32_t bit_of(const struct state *s, const struct ptx_var *v)
{
    uint32_t lo = 0, hi = s->nbit;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (s->known[mid] == v)
            return s->known_bit[mid];
        if ((uintptr_t)s->known[mid] < (uintptr_t)v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NO_CELL;
}

/* Module variable of a bit, or NULL. */
static struct ptx_var *module_var(const struct state *s, uint32_t bit)
{
    return bit >= s->f->nparam + s->nown ? s->f->module->var[bit - s->f->nparam - s->nown] : NULL;
}

static uint8_t var_kind(const struct state *s, uint32_t bit)
{
    uint32_t i = bit - s->f->nparam - s->nown;
    if (s->in->var)
        return s->in->var[i];
    return s->f->module->var[i]->space == PTX_CONST ? ANA_VAR_FIXED : ANA_VAR_MUTABLE;
}

/* May argument `bit` be, or hold, an address? */
static bool may_point(const struct state *s, uint32_t bit)
{
    return !s->in->pointer_param || bit >= s->in->nparam || s->in->pointer_param[bit];
}

/* ---- raising ---------------------------------------------------------------------------------------------------- */
static void raise(struct state *s, uint8_t *to, uint8_t level)
{
    if (level > *to) {
        *to = level;
        s->changed = true;
    }
}

static void raise_cells(struct state *s, const uint64_t *mask, uint8_t level, const uint64_t *prov)
{
    for (uint32_t b = 0; b < s->nbit; b++)
        if (has_bit(mask, b)) {
            raise(s, &s->cell[b].taint, level);
            if (!s->cell[b].stored)
                s->cell[b].stored = s->changed = true;
            if (prov)
                join(s, cell_prov(s, b), prov);
        }
}

static void everything(struct state *s)
{
    for (uint32_t i = 0; i < s->f->nreg; i++)
        raise(s, &s->reg[i], DATA);
    for (uint32_t i = 0; i < s->cfg.nblock; i++)
        raise(s, &s->block[i], DATA);
    for (uint32_t i = 0; i < s->nbit; i++)
        raise(s, &s->cell[i].taint, DATA);
    for (uint32_t i = 0; i < s->nmod; i++)
        s->escapes[i] = true;
    s->opaque = true;
}

/* ---- operands --------------------------------------------------------------------------------------------------- */
static void read_reg(uint32_t r, bool write, void *user)
{
    struct state *s = user;
    if (write)
        return;
    if (s->reg[r] > s->src)
        s->src = s->reg[r];
    if (s->f->reg[r].type != PTX_PRED)
        quiet_join(s, s->src_prov, reg_prov(s, r));
}

static void read_special(struct state *s, const struct ptx_opnd *o)
{
    if (o->kind == PTX_O_SREG) {
        if (!(ptx_sreg_flags(o->sreg) & PTX_SRF_GEOMETRY))
            s->src = DATA;
    } else if (o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)) {
        uint32_t b = bit_of(s, o->var);
        if (b != NO_CELL)
            set_bit(s->src_prov, b);
    } else if (o->kind == PTX_O_VEC) {
        for (unsigned i = 0; i < o->n; i++)
            read_special(s, &o->elem[i]);
    }
}

/* The provenance of a memory operand; its taint. */
static uint8_t address(struct state *s, const struct ptx_opnd *o, uint64_t *prov)
{
    memset(prov, 0, s->words * sizeof *prov);
    if (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG) {
        memcpy(prov, reg_prov(s, o->reg), s->words * sizeof *prov);
        return s->reg[o->reg];
    }
    if (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR) {
        uint32_t b = bit_of(s, o->var);
        if (b != NO_CELL)
            set_bit(prov, b);
    }
    return NONE;
}

struct to {
    struct state *s;
    uint8_t level;
    const uint64_t *prov;
};

static void write_reg(uint32_t r, bool write, void *user)
{
    struct to *t = user;
    if (!write)
        return;
    raise(t->s, &t->s->reg[r], t->level);
    if (t->prov && t->s->f->reg[r].type != PTX_PRED)
        join(t->s, reg_prov(t->s, r), t->prov);
}

static void assign(struct state *s, const struct ptx_inst *i, uint8_t level, const uint64_t *prov)
{
    struct to t = {s, level, prov};
    ptx_inst_regs(i, write_reg, &t);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */
/* Does a barrier run before instruction `at` on every way to it? */
static bool after_barrier(const struct state *s, uint32_t at)
{
    uint32_t b = s->cfg.block_of[at], end = at;
    for (;;) {
        for (uint32_t i = s->cfg.block[b].first; i < end; i++)
            if (ptx_op_info(s->f->inst[i].op)->flags & PTX_F_BARRIER && s->f->inst[i].pred == PTX_NO_REG)
                return true;
        if (s->cfg.block[b].idom == UINT32_MAX)
            return false;
        b = s->cfg.block[b].idom;
        end = s->cfg.block[b].last + 1;
    }
}

/* What a load at provenance `prov` yields; provenance of the value joined to `out`. */
static uint8_t load(struct state *s, uint32_t at, uint8_t space, const uint64_t *prov, uint64_t *out)
{
    uint8_t level = NONE;
    bool some = false;
    for (uint32_t b = 0; b < s->nbit; b++) {
        if (!has_bit(prov, b))
            continue;
        bool inside = space == PTX_SHARED || space == PTX_SHARED_CLUSTER || space == PTX_LOCAL || space == PTX_CONST;
        if (b < s->f->nparam && space != PTX_PARAM && (inside || !may_point(s, b)))
            continue; /* a number in the address, not what it points to */
        some = true;
        uint8_t v = space == PTX_SHARED_CLUSTER ? DATA : NONE;
        if (b < s->f->nparam) {
            if (space == PTX_PARAM) {
                v = s->f->is_entry ? NONE : DATA;
                set_bit(out, b);
            } else if (s->in->constant_param && b < s->in->nparam && s->in->constant_param[b]) {
                v = CONSTANT;
            } else {
                v = DATA;
            }
        } else if (b < s->f->nparam + s->nown || module_var(s, b)->space == PTX_SHARED) {
            const struct ptx_var *w = b < s->f->nparam + s->nown ? s->f->var[b - s->f->nparam] : module_var(s, b);
            uint8_t held = s->cell[b].stored ? s->cell[b].taint : DATA;
            v = held > v ? held : v;
            if (w->space == PTX_SHARED && !after_barrier(s, at))
                v = DATA;
            if (w->space == PTX_PARAM)
                v = DATA; /* results of calls */
            quiet_join(s, out, cell_prov(s, b));
        } else {
            uint8_t k = var_kind(s, b);
            v = k == ANA_VAR_FIXED ? NONE : k == ANA_VAR_CONSTANT ? CONSTANT : DATA;
        }
        if (v > level)
            level = v;
    }
    return some ? level : DATA;
}

static void store(struct state *s, uint8_t space, const uint64_t *prov, uint8_t level, const uint64_t *value)
{
    uint64_t *mask = dt_new_array(&s->a, uint64_t, s->words);
    if (!mask)
        return;
    bool known = false;
    for (uint32_t b = 0; b < s->nbit; b++) {
        if (!has_bit(prov, b))
            continue;
        bool var = b >= s->f->nparam && !(module_var(s, b) && module_var(s, b)->space != PTX_SHARED);
        if (var)
            set_bit(mask, b);
        known |= space == PTX_GENERIC ? true : var;
    }
    if (!known && space != PTX_GLOBAL && space != PTX_CONST) { /* anywhere in its space */
        if (space != PTX_LOCAL)
            quiet_join(s, mask, s->shared_bits);
        if (space != PTX_SHARED && space != PTX_SHARED_CLUSTER)
            quiet_join(s, mask, s->local_bits);
    }
    raise_cells(s, mask, level, value);
    if (!value)
        return;
    for (uint32_t b = 0; b < s->nmod; b++) /* an address that is stored may be used by anybody */
        if (has_bit(value, s->f->nparam + s->nown + b))
            s->escapes[b] = true;
}

/* ---- one instruction -------------------------------------------------------------------------------------------- */
static void memory_inst(struct state *s, uint32_t at, const struct ptx_inst *i, const struct ptx_op_info *op, uint8_t guard)
{
    uint64_t *prov = dt_new_array(&s->a, uint64_t, s->words), *out = dt_new_array(&s->a, uint64_t, s->words);
    if (!prov || !out || op->addr_opnd < 0 || op->addr_opnd >= i->nopnd) {
        everything(s);
        return;
    }
    uint8_t where = address(s, &i->opnd[op->addr_opnd], prov), all = s->src > guard ? s->src : guard;
    switch (i->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU: {
        uint8_t space = i->space == PTX_PARAM_FUNC ? PTX_PARAM : i->space, v = load(s, at, space, prov, out);
        if (where > v)
            v = where;
        if (i->pred != PTX_NO_REG && s->reg[i->pred] > v)
            v = s->reg[i->pred];
        assign(s, i, v, out);
        return;
    }
    case PTX_OP_ST:
        store(s, i->space, prov, all, s->src_prov);
        return;
    case PTX_OP_CP_ASYNC: {
        uint64_t *from = dt_new_array(&s->a, uint64_t, s->words);
        if (!from)
            return;
        address(s, &i->opnd[1], from);
        uint8_t v = load(s, at, PTX_GLOBAL, from, out);
        store(s, PTX_SHARED, prov, v > all ? v : all, NULL);
        return;
    }
    default: /* atomics, matrix loads, bulk copies, mbarriers: results and what they write are data */
        if (op->flags & PTX_F_WRITES)
            store(s, i->space, prov, DATA, NULL);
        if (i->op == PTX_OP_CP_ASYNC_BULK || i->op == PTX_OP_CP_REDUCE_ASYNC_BULK)
            raise_cells(s, s->shared_bits, DATA, NULL);
        assign(s, i, DATA, NULL);
    }
}

static void call_inst(struct state *s, const struct ptx_inst *i)
{
    /* Arguments are in .param variables (or registers): whatever they point to may be changed. */
    uint64_t *reach = dt_new_array(&s->a, uint64_t, s->words), *vars = dt_new_array(&s->a, uint64_t, s->words);
    if (!reach || !vars)
        return;
    quiet_join(s, reach, s->src_prov);
    for (uint32_t b = s->f->nparam; b < s->f->nparam + s->nown; b++)
        if (s->f->var[b - s->f->nparam]->space == PTX_PARAM)
            quiet_join(s, reach, cell_prov(s, b));
    for (uint32_t b = 0; b < s->nbit; b++)
        if (has_bit(reach, b)) {
            if (b >= s->f->nparam)
                set_bit(vars, b);
            if (b >= s->f->nparam + s->nown)
                s->escapes[b - s->f->nparam - s->nown] = true;
        }
    for (uint32_t b = s->f->nparam; b < s->f->nparam + s->nown; b++)
        if (s->f->var[b - s->f->nparam]->space == PTX_PARAM)
            join(s, cell_prov(s, b), reach); /* the result may be one of the arguments */
    raise_cells(s, vars, DATA, NULL);
    raise_cells(s, s->shared_bits, DATA, NULL); /* a device function knows the module's shared variables */
    assign(s, i, DATA, reach);
}

static void step(struct state *s, uint32_t at)
{
    const struct ptx_inst *i = &s->f->inst[at];
    const struct ptx_op_info *op = ptx_op_info(i->op);
    uint8_t guard = s->block[s->cfg.block_of[at]];
    switch (i->op) {
    case PTX_OP_LABEL:
    case PTX_OP_PRAGMA:
    case PTX_OP_BRANCHTARGETS:
    case PTX_OP_CALLPROTO:
        return;
    case PTX_OP_OPAQUE:
        everything(s);
        return;
    }
    s->src = NONE;
    memset(s->src_prov, 0, s->words * sizeof *s->src_prov);
    ptx_inst_regs(i, read_reg, s);
    for (unsigned k = 0; k < i->nopnd; k++)
        read_special(s, &i->opnd[k]);
    if (i->op == PTX_OP_CVTA && i->space == PTX_PARAM)
        s->param_address = true;
    if (op->flags & PTX_F_CALL) {
        call_inst(s, i);
    } else if (op->flags & (PTX_F_READS | PTX_F_WRITES)) {
        memory_inst(s, at, i, op, guard);
    } else {
        uint8_t v = s->src;
        if (op->flags & PTX_F_CONVERGENT && guard > v)
            v = guard;
        if (i->op == PTX_OP_ACTIVEMASK || i->op == PTX_OP_MATCH || i->op == PTX_OP_ELECT || i->op == PTX_OP_BAR_RED ||
            i->op == PTX_OP_BARRIER_RED)
            v = DATA;
        assign(s, i, v, s->src_prov);
    }
}

/* ---- control ---------------------------------------------------------------------------------------------------- */
static void mark_def(uint32_t r, bool write, void *user)
{
    if (write)
        set_bit(user, r);
}

/* The branch at the end of block b depends on data of `level`. */
static void apply_branch(struct state *s, uint32_t b, uint8_t level)
{
    const struct ptx_block *k = &s->cfg.block[b];
    uint32_t n = s->cfg.nblock, meet = k->ipdom, top = 0;
    uint8_t *count = dt_new_array(&s->a, uint8_t, n), *seen = dt_new_array(&s->a, uint8_t, n);
    uint32_t *stack = dt_new_array(&s->a, uint32_t, (size_t)n + 1);
    uint64_t *def = dt_new_array(&s->a, uint64_t, (size_t)s->f->nreg / 64 + 1);
    if (!count || !seen || !stack || !def)
        return;
    for (uint32_t i = 0; i < k->nsucc; i++) {
        bool again = false;
        for (uint32_t j = 0; j < i; j++)
            again |= k->succ[j] == k->succ[i];
        if (again || k->succ[i] == meet)
            continue;
        memset(seen, 0, n);
        seen[k->succ[i]] = 1;
        stack[top++] = k->succ[i];
        while (top) {
            uint32_t x = stack[--top];
            if (count[x] < 2)
                count[x]++;
            for (uint32_t j = 0; j < s->cfg.block[x].nsucc; j++) {
                uint32_t y = s->cfg.block[x].succ[j];
                if (y != meet && !seen[y]) {
                    seen[y] = 1;
                    stack[top++] = y;
                }
            }
        }
    }
    for (uint32_t x = 0; x < n; x++) {
        if (!count[x])
            continue;
        raise(s, &s->block[x], level);
        for (uint32_t i = s->cfg.block[x].first; i <= s->cfg.block[x].last; i++)
            ptx_inst_regs(&s->f->inst[i], mark_def, def);
    }
    for (uint32_t x = 0; x < n; x++) {
        if ((x != meet && count[x] < 2) || !s->live.in)
            continue;
        for (uint32_t w = 0; w < s->live.words; w++)
            for (uint64_t v = s->live.in[x][w] & def[w]; v; v &= v - 1)
                raise(s, &s->reg[w * 64 + (uint32_t)__builtin_ctzll(v)], level);
    }
}

static void control(struct state *s)
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
        if (level <= s->branch[b])
            continue;
        s->branch[b] = level;
        apply_branch(s, b, level);
        s->changed = true;
    }
}

/* ---- sites ------------------------------------------------------------------------------------------------------ */
/* What a function and its callees do to global memory: 1 reads, 2 writes, 4 something unknown. */
static unsigned callee_effect(const struct state *s, const struct ptx_function *f, unsigned depth)
{
    static const char *const harmless[] = {"vprintf", "__assertfail"};
    if (!f)
        return 7;
    for (unsigned i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (f->name && !strcmp(f->name, harmless[i]))
            return 0;
    if (!f->has_body || depth > MAX_CALL_DEPTH)
        return 7;
    unsigned r = 0;
    for (uint32_t k = 0; k < f->ninst; k++) {
        const struct ptx_inst *i = &f->inst[k];
        unsigned flags = ptx_op_info(i->op)->flags;
        bool here = i->space == PTX_GENERIC || i->space == PTX_GLOBAL || i->space2 == PTX_GLOBAL;
        if (i->op == PTX_OP_OPAQUE)
            return 7;
        for (unsigned o = 0; o < i->nopnd; o++) {
            const struct ptx_opnd *x = &i->opnd[o];
            if (x->kind != PTX_O_VAR && !(x->kind == PTX_O_ADDR && x->base_kind == PTX_O_VAR))
                continue;
            uint32_t b = bit_of(s, x->var);
            if (b != NO_CELL && module_var(s, b) && module_var(s, b)->space == PTX_GLOBAL && var_kind(s, b) != ANA_VAR_FIXED)
                return 7; /* it names a variable that changes */
        }
        if (flags & PTX_F_CALL) {
            const struct ptx_function *to = NULL;
            for (unsigned o = 0; o < i->nopnd; o++)
                if (i->opnd[o].kind == PTX_O_FUNC)
                    to = i->opnd[o].func;
            r |= callee_effect(s, to, depth + 1);
        } else if (here) {
            r |= (flags & PTX_F_READS ? 1 : 0) | (flags & PTX_F_WRITES ? 2 : 0);
        }
    }
    return r;
}

struct used {
    uint32_t reg;
    uint32_t reads;
};

static void count_read(uint32_t r, bool write, void *user)
{
    struct used *u = user;
    if (!write && r == u->reg)
        u->reads++;
}

/* Is the result of atomic `i` read anywhere? */
static bool result_used(const struct state *s, const struct ptx_inst *i)
{
    if (i->op != PTX_OP_ATOM || !i->nopnd)
        return false;
    if (i->opnd[0].kind == PTX_O_SINK)
        return false;
    if (i->opnd[0].kind != PTX_O_REG)
        return true;
    struct used u = {i->opnd[0].reg, 0};
    for (uint32_t k = 0; k < s->f->ninst; k++)
        if (&s->f->inst[k] != i)
            ptx_inst_regs(&s->f->inst[k], count_read, &u);
    return u.reads > 0;
}

static bool add_site(struct state *s, struct ana_sites *out, size_t *cap, struct ana_site site, const uint64_t *prov)
{
    struct dt_arena *a = &out->arena;
    site.param = -1;
    site.params = dt_new_array(a, uint32_t, (size_t)s->f->nparam + 1);
    site.vars = (const struct ptx_var **)dt_new_array(a, struct ptx_var *, (size_t)s->nmod + 1);
    if (!site.params || !site.vars)
        return false;
    for (uint32_t b = 0; b < s->nbit; b++) {
        if (!has_bit(prov, b))
            continue;
        if (b < s->f->nparam && may_point(s, b))
            site.params[site.nparams++] = b;
        else if (module_var(s, b) && module_var(s, b)->space == PTX_GLOBAL)
            site.vars[site.nvars++] = module_var(s, b);
    }
    if (site.nparams == 1 && !site.nvars)
        site.param = (int)site.params[0];
    if (out->nsite == *cap) {
        size_t n = *cap ? *cap * 2 : 32;
        struct ana_site *p = dt_new_array(a, struct ana_site, n);
        if (!p)
            return false;
        if (out->nsite)
            memcpy(p, out->site, out->nsite * sizeof *p);
        out->site = p;
        *cap = n;
    }
    out->site[out->nsite++] = site;
    return true;
}

static bool is_float_atomic(const struct ptx_inst *i)
{
    for (unsigned k = 0; k < i->ntype; k++)
        if (ptx_type_is_float(i->type[k]))
            return true;
    return false;
}

/* Could an access at this provenance reach a buffer? Not if it can only be shared, local or never-written memory. */
static bool reaches_buffers(struct state *s, const uint64_t *prov, uint8_t space)
{
    bool some = false;
    for (uint32_t b = 0; b < s->nbit; b++) {
        if (!has_bit(prov, b))
            continue;
        if (b < s->f->nparam && !may_point(s, b))
            continue;
        some = true;
        if (b < s->f->nparam)
            return true;
        const struct ptx_var *v = module_var(s, b);
        if (v && v->space == PTX_GLOBAL && var_kind(s, b) != ANA_VAR_FIXED)
            return true;
    }
    return !some;
}

static bool reaches_params(const struct state *s, const uint64_t *prov)
{
    for (uint32_t b = 0; b < s->f->nparam; b++)
        if (has_bit(prov, b) && may_point(s, b))
            return true;
    return false;
}

static bool site_of(struct state *s, struct ana_sites *out, size_t *cap, uint32_t at)
{
    const struct ptx_inst *i = &s->f->inst[at];
    const struct ptx_op_info *op = ptx_op_info(i->op);
    uint64_t *prov = dt_new_array(&s->a, uint64_t, s->words);
    if (!prov)
        return false;
    struct ana_site x = {.inst = at, .guard = s->block[s->cfg.block_of[at]]};
    if (i->pred != PTX_NO_REG && s->reg[i->pred] > x.guard)
        x.guard = s->reg[i->pred];
    if (i->op == PTX_OP_OPAQUE) {
        out->opaque = out->side_effects = true;
        x.address = DATA, x.reads = x.writes = true, x.opnd = 0xFF;
        return add_site(s, out, cap, x, prov);
    }
    if (op->flags & PTX_F_SIDE && (i->op == PTX_OP_TRAP || i->op == PTX_OP_BRKPT || op->flags & PTX_F_CALL))
        out->side_effects = true;
    if (i->op == PTX_OP_ST && (ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_SYS)))
        out->side_effects = true;
    if (op->flags & PTX_F_CALL) {
        const struct ptx_function *to = NULL;
        for (unsigned o = 0; o < i->nopnd; o++)
            if (i->opnd[o].kind == PTX_O_FUNC)
                to = i->opnd[o].func;
        unsigned effect = callee_effect(s, to, 0);
        if (!effect)
            return true;
        out->opaque |= effect & 4;
        s->src = NONE;
        memset(s->src_prov, 0, s->words * sizeof *s->src_prov);
        ptx_inst_regs(i, read_reg, s);
        quiet_join(s, prov, s->src_prov);
        for (uint32_t b = s->f->nparam; b < s->f->nparam + s->nown; b++)
            if (s->f->var[b - s->f->nparam]->space == PTX_PARAM)
                quiet_join(s, prov, cell_prov(s, b));
        if (effect & 4)
            memset(prov, 0, s->words * sizeof *prov); /* unknown: everything */
        else if (!reaches_params(s, prov))
            return true; /* it has no way to a buffer */
        x.address = DATA, x.reads = effect & 1, x.writes = effect & 2, x.opnd = 0xFF;
        return add_site(s, out, cap, x, prov);
    }
    if (!(op->flags & (PTX_F_READS | PTX_F_WRITES)))
        return true;
    struct {
        int opnd;
        uint8_t space;
        bool reads, writes;
    } part[2] = {{op->addr_opnd, i->space, op->flags & PTX_F_READS, op->flags & PTX_F_WRITES}, {-1, 0, false, false}};
    bool copy = i->op == PTX_OP_CP_ASYNC || i->op == PTX_OP_CP_ASYNC_BULK || i->op == PTX_OP_CP_REDUCE_ASYNC_BULK;
    if (copy && i->nopnd > 1) { /* the first operand is written, the second read */
        part[0].reads = op->flags & PTX_F_ATOMIC;
        part[1].opnd = 1, part[1].space = i->space2, part[1].reads = true;
    }
    for (unsigned k = 0; k < 2; k++) {
        if (part[k].opnd < 0 || part[k].opnd >= i->nopnd)
            continue;
        if (part[k].space != PTX_GENERIC && part[k].space != PTX_GLOBAL)
            continue;
        struct ana_site y = x;
        y.address = address(s, &i->opnd[part[k].opnd], prov);
        if (!reaches_buffers(s, prov, part[k].space))
            continue;
        y.opnd = (uint8_t)part[k].opnd;
        y.reads = part[k].reads, y.writes = part[k].writes;
        y.atomic = op->flags & PTX_F_ATOMIC;
        y.fp_atomic = y.atomic && is_float_atomic(i);
        y.result_used = result_used(s, i);
        unsigned bytes = ptx_type_bytes(i->type[0]) * (i->vec ? i->vec : 1);
        if (i->op == PTX_OP_LD || i->op == PTX_OP_LDU || i->op == PTX_OP_ST || i->op == PTX_OP_ATOM || i->op == PTX_OP_RED)
            y.bytes = bytes <= 32 ? bytes : 0;
        else if (i->op == PTX_OP_CP_ASYNC && k == 1 && i->nopnd > 2 && i->opnd[2].kind == PTX_O_IMM)
            y.bytes = i->opnd[2].bits <= 16 ? (uint32_t)i->opnd[2].bits : 0;
        if (i->op == PTX_OP_CP_ASYNC && i->nopnd > 3 && y.bytes && i->opnd[3].kind == PTX_O_REG &&
            s->reg[i->opnd[3].reg] > y.guard)
            y.guard = s->reg[i->opnd[3].reg]; /* how many bytes are read at all */
        if (!y.bytes)
            y.address = DATA;
        if (!add_site(s, out, cap, y, prov))
            return false;
    }
    return true;
}

/* ---- the pass --------------------------------------------------------------------------------------------------- */
struct known {
    const struct ptx_var *v;
    uint32_t bit;
};

static int by_pointer(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct known *)a)->v, y = (uintptr_t)((const struct known *)b)->v;
    return x < y ? -1 : x > y;
}

static bool prepare(struct state *s)
{
    const struct ptx_function *f = s->f;
    s->nown = f->nvar;
    s->nmod = f->module->nvar;
    s->nbit = f->nparam + s->nown + s->nmod;
    s->words = s->nbit / 64 + 1;
    struct known *k = dt_new_array(&s->a, struct known, (size_t)s->nbit + 1);
    s->known = (const struct ptx_var **)dt_new_array(&s->a, struct ptx_var *, (size_t)s->nbit + 1);
    s->known_bit = dt_new_array(&s->a, uint32_t, (size_t)s->nbit + 1);
    s->prov = dt_arena_array(&s->a, (size_t)f->nreg + 1, s->words * sizeof *s->prov);
    s->cell = dt_new_array(&s->a, struct cell, (size_t)s->nbit + 1);
    s->cellprov = dt_arena_array(&s->a, (size_t)s->nbit + 1, s->words * sizeof *s->cellprov);
    s->shared_bits = dt_new_array(&s->a, uint64_t, s->words);
    s->local_bits = dt_new_array(&s->a, uint64_t, s->words);
    s->src_prov = dt_new_array(&s->a, uint64_t, s->words);
    s->branch = dt_new_array(&s->a, uint8_t, (size_t)s->cfg.nblock + 1);
    if (s->a.failed)
        return false;
    for (uint32_t b = 0; b < s->nbit; b++) {
        struct ptx_var *v = b < f->nparam ? f->param[b] : b < f->nparam + s->nown ? f->var[b - f->nparam] : module_var(s, b);
        k[b] = (struct known){v, b};
        if (b < f->nparam)
            continue;
        if (v->space == PTX_SHARED)
            set_bit(s->shared_bits, b);
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

int ana_taint_run(const struct ptx_function *f, const struct ana_taint_in *in, struct ana_tainted *ret, struct dt_err *e)
{
    struct state s = {.f = f, .in = in};
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
    bool ok = s.reg && s.block && s.escapes && prepare(&s);
    if (ok && rc)
        everything(&s); /* too large for liveness: nothing can be said */
    do {
        s.changed = false;
        struct dt_arena keep = s.a, scratch = {0};
        s.a = scratch;
        for (uint32_t i = 0; i < f->ninst && ok; i++)
            if (s.cfg.block[s.cfg.block_of[i]].reachable || f->inst[i].op == PTX_OP_OPAQUE)
                step(&s, i);
        if (ok)
            control(&s);
        ok = ok && !s.a.failed;
        dt_arena_done(&s.a);
        s.a = keep;
    } while (s.changed && ok);
    for (uint32_t i = 0; i < f->ninst && ok; i++)
        if (s.cfg.block[s.cfg.block_of[i]].reachable || f->inst[i].op == PTX_OP_OPAQUE)
            ok = site_of(&s, &t.sites, &cap, i);
    ok = ok && !t.sites.arena.failed && !s.a.failed;
    t.sites.opaque |= s.opaque;
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
