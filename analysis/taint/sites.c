/* Sites: the global accesses of an entry, with what the taint pass found out about their addresses and guards.
 *
 * Loads, stores, atomics and cp.async have a width and can be recorded. Bulk copies, copies of tensors and matrix loads
 * are spans (span.c). Calls, opaque instructions and all others have width 0: they count as data-dependent, and are
 * widened. An access that can only reach shared, local or never-written memory is no site. A call is one site if the
 * callee, or a function that it calls, touches global memory, and the arguments may point to a buffer.
 */
#include "analysis/taint/taint-priv.h"

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
static bool result_used(const struct ana_taint_state *s, const struct ptx_inst *i)
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

static bool add_site(struct ana_taint_state *s, struct ana_sites *out, size_t *cap, struct ana_site site,
                     const uint64_t *prov)
{
    struct dt_arena *a = &out->arena;
    site.param = -1;
    site.params = dt_new_array(a, uint32_t, (size_t)s->f->nparam + 1);
    site.vars = (const struct ptx_var **)dt_new_array(a, struct ptx_var *, (size_t)s->nmod + 1);
    if (!site.params || !site.vars)
        return false;
    for (uint32_t b = 0; b < s->nbit && !has_bit(prov, s->unknown); b++) { /* unknown: all, said by naming none */
        if (!has_bit(prov, b))
            continue;
        if (b < s->f->nparam && may_point(s, b))
            site.params[site.nparams++] = b;
        else if (module_var(s, b) && module_var(s, b)->space == PTX_GLOBAL)
            site.vars[site.nvars++] = module_var(s, b);
        site.elsewhere |= has_bit(s->shared_bits, b) || has_bit(s->local_bits, b);
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

bool ana_is_float_atomic(const struct ptx_inst *i)
{
    for (unsigned k = 0; k < i->ntype; k++)
        if (ptx_type_is_float(i->type[k]))
            return true;
    return false;
}

/* Could an access at this provenance reach a buffer? Not if it can only be shared, local or never-written memory. */
static bool reaches_buffers(struct ana_taint_state *s, const uint64_t *prov, uint8_t space)
{
    bool some = false;
    if (has_bit(prov, s->unknown))
        return true;
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

static bool reaches_params(const struct ana_taint_state *s, const uint64_t *prov)
{
    for (uint32_t b = 0; b < s->f->nparam; b++)
        if (has_bit(prov, b) && may_point(s, b))
            return true;
    return false;
}

bool ana_sites_add(struct ana_taint_state *s, struct ana_sites *out, size_t *cap, uint32_t at)
{
    const struct ptx_inst *i = &s->f->inst[at];
    const struct ptx_op_info *op = ptx_op_info(i->op);
    uint64_t *prov = dt_new_array(&s->a, uint64_t, s->words);
    if (!prov)
        return false;
    struct ana_site x = {.inst = at, .guard = s->block[s->cfg.block_of[at]]};
    if (i->pred != PTX_NO_REG && s->reg[i->pred] > x.guard)
        x.guard = s->reg[i->pred];
    if (ptx_is_opaque(i)) {
        out->opaque = out->side_effects = out->acts = true;
        x.address = DATA, x.reads = x.writes = true, x.opnd = 0xFF;
        return add_site(s, out, cap, x, prov);
    }
    if (op->flags & PTX_F_SIDE && (i->op == PTX_OP_TRAP || i->op == PTX_OP_BRKPT || op->flags & PTX_F_CALL)) {
        out->side_effects = true;
        out->acts |= !(op->flags & PTX_F_CALL);
    }
    /* shared and local memory nobody sees but the block, `volatile` or not */
    if (i->op == PTX_OP_ST && i->space != PTX_SHARED && i->space != PTX_LOCAL &&
        (ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_SYS)))
        out->side_effects = out->acts = true;
    if (op->flags & PTX_F_CALL) {
        unsigned effect = ana_call_effect(s, i);
        if (!(effect & ~(unsigned)ANA_CALL_EXITS))
            return true;
        out->opaque |= effect & ANA_CALL_UNKNOWN;
        s->src = NONE;
        memset(s->src_prov, 0, s->words * sizeof *s->src_prov);
        ptx_inst_regs(i, read_reg, s);
        ana_call_reach(s, prov);
        if (effect & (ANA_CALL_UNKNOWN | ANA_CALL_VARS))
            memset(prov, 0, s->words * sizeof *prov); /* unknown: everything */
        else if (!has_bit(prov, s->unknown) && !reaches_params(s, prov))
            return true; /* it has no way to a buffer */
        x.address = DATA, x.reads = effect & ANA_CALL_READS, x.writes = effect & ANA_CALL_WRITES, x.opnd = 0xFF;
        x.atomic = x.result_used = effect & ANA_CALL_ATOMICS;
        x.fp_atomic = effect & ANA_CALL_FP_ATOMICS;
        return add_site(s, out, cap, x, prov);
    }
    if (!(op->flags & (PTX_F_READS | PTX_F_WRITES)))
        return true;
    struct {
        int opnd;
        uint8_t space;
        bool reads, writes;
    } part[2] = {{op->addr_opnd, i->space, op->flags & PTX_F_READS, op->flags & PTX_F_WRITES}, {-1, 0, false, false}};
    bool copy = op->flags & PTX_F_SPACE2;
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
        /* where the map is says nothing */
        bool tensor = i->op == PTX_OP_CP_ASYNC_BULK_TENSOR || i->op == PTX_OP_CP_REDUCE_ASYNC_BULK_TENSOR;
        y.address = taint_address(s, &i->opnd[part[k].opnd], prov);
        if (!tensor && !reaches_buffers(s, prov, part[k].space))
            continue;
        y.opnd = (uint8_t)part[k].opnd;
        y.reads = part[k].reads, y.writes = part[k].writes;
        y.atomic = op->flags & PTX_F_ATOMIC;
        y.fp_atomic = y.atomic && ana_is_float_atomic(i);
        y.result_used = result_used(s, i);
        unsigned bytes = ptx_type_bytes(i->type[0]) * (i->vec ? i->vec : 1);
        if (i->op == PTX_OP_LD || i->op == PTX_OP_LDU || i->op == PTX_OP_ST || i->op == PTX_OP_ATOM ||
            i->op == PTX_OP_RED)
            y.bytes = bytes <= 32 ? bytes : 0;
        else if (i->op == PTX_OP_CP_ASYNC && k == 1 && i->nopnd > 2 && i->opnd[2].kind == PTX_O_IMM)
            y.bytes = i->opnd[2].bits <= 16 ? (uint32_t)i->opnd[2].bits : 0;
        const struct ptx_opnd *source = ptx_cp_async_source(i);
        if (source && y.bytes && source->kind == PTX_O_REG && s->reg[source->reg] > y.guard)
            y.guard = s->reg[source->reg]; /* how many bytes are read at all */
        if (!y.bytes)
            ana_span_find(s, i, &y, prov);
        if ((!y.bytes && !y.span) || s->choosy[at] & ANA_CHOOSES_PLACE)
            y.address = DATA;
        if (!add_site(s, out, cap, y, prov))
            return false;
    }
    return true;
}
