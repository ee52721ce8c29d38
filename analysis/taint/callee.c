/* What device functions do, as far as their callers must know.
 *
 * The effects of a function (it reads, writes, exits …) are joined with those of every function that it may call. The
 * walk visits each function once, so recursion and wide call graphs cost nothing. A function without a body, or called
 * through a register, counts as doing everything. Values are not followed into a callee: what it may reach is all that
 * its arguments, and all shared memory, may point to, through any number of loads.
 */
#include "analysis/taint/taint-priv.h"
#include "ptx/reach.h"

static const struct ptx_function *callee_of(const struct ptx_inst *i)
{
    for (unsigned o = 0; o < i->nopnd; o++)
        if (i->opnd[o].kind == PTX_O_FUNC)
            return i->opnd[o].func;
    return NULL;
}

static bool harmless(const struct ptx_function *f)
{
    static const char *const name[] = {"vprintf", "__assertfail"};
    for (unsigned i = 0; i < sizeof name / sizeof *name; i++)
        if (f->name && !strcmp(f->name, name[i]))
            return true;
    return false;
}

/* The effects of one instruction that is no call. */
static unsigned effect_of(const struct ana_taint_state *s, const struct ptx_inst *i)
{
    unsigned flags = ptx_op_info(i->op)->flags;
    bool here = i->space == PTX_GENERIC || i->space == PTX_GLOBAL || i->space2 == PTX_GLOBAL;
    if (ptx_is_opaque(i))
        return ANA_CALL_ANYTHING;
    for (unsigned o = 0; o < i->nopnd; o++) {
        const struct ptx_opnd *x = &i->opnd[o];
        if (x->kind != PTX_O_VAR && !(x->kind == PTX_O_ADDR && x->base_kind == PTX_O_VAR))
            continue;
        uint32_t b = bit_of(s, x->var);
        if (b != NO_CELL && module_var(s, b) && module_var(s, b)->space == PTX_GLOBAL &&
            var_kind(s, b) != ANA_VAR_FIXED)
            return ANA_CALL_VARS | ANA_CALL_READS | ANA_CALL_WRITES; /* it names a variable that changes */
    }
    return (i->op == PTX_OP_EXIT ? ANA_CALL_EXITS : 0) | (here && flags & PTX_F_READS ? ANA_CALL_READS : 0) |
           (here && flags & PTX_F_WRITES ? ANA_CALL_WRITES : 0) |
           (here && flags & PTX_F_ATOMIC ? ANA_CALL_ATOMICS : 0) |
           (here && flags & PTX_F_ATOMIC && ana_is_float_atomic(i) ? ANA_CALL_FP_ATOMICS : 0);
}

static uint32_t callee_place(const struct ptx_module *m, const struct ptx_function *f)
{
    uint32_t i = 0;
    while (i < m->nfunc && m->func[i] != f)
        i++;
    return i;
}

unsigned ana_call_effect(struct ana_taint_state *s, const struct ptx_inst *call)
{
    const struct ptx_module *m = s->f->module;
    const struct ptx_function *f = callee_of(call);
    uint32_t n = m->nfunc, top = 0, root = f ? callee_place(m, f) : n;
    if (!f || root == n)
        return ANA_CALL_ANYTHING;
    if (!s->effect && !(s->effect = dt_new_array(s->keep, uint16_t, (size_t)n + 1)))
        return ANA_CALL_ANYTHING;
    if (s->effect[root])
        return s->effect[root] - 1u;
    uint8_t *seen = dt_new_array(&s->a, uint8_t, (size_t)n + 1);
    uint32_t *stack = dt_new_array(&s->a, uint32_t, (size_t)n + 1);
    unsigned r = 0;
    if (!seen || !stack)
        return ANA_CALL_ANYTHING;
    seen[root] = 1;
    stack[top++] = root;
    while (top && r != ANA_CALL_ANYTHING) {
        const struct ptx_function *g = m->func[stack[--top]];
        if (harmless(g))
            continue;
        if (!g->has_body)
            r = ANA_CALL_ANYTHING;
        for (uint32_t k = 0; k < g->ninst && r != ANA_CALL_ANYTHING; k++) {
            const struct ptx_inst *i = &g->inst[k];
            if (!(ptx_op_info(i->op)->flags & PTX_F_CALL)) {
                r |= effect_of(s, i);
                continue;
            }
            const struct ptx_function *to = callee_of(i);
            uint32_t at = to ? callee_place(m, to) : n;
            if (at == n)
                r = ANA_CALL_ANYTHING;
            else if (!seen[at])
                seen[at] = 1, stack[top++] = at;
        }
    }
    s->effect[root] = (uint16_t)(r + 1);
    return r;
}

/* Everything that a callee may get at: what the call's operands and its .param variables hold, all shared memory, and
 * what variables among these hold in turn. Joined to `out`. */
void ana_call_reach(struct ana_taint_state *s, uint64_t *out)
{
    uint32_t own = s->f->nparam + s->nown;
    quiet_join(s, out, s->src_prov);
    for (uint32_t b = s->f->nparam; b < own; b++)
        if (s->f->var[b - s->f->nparam]->space == PTX_PARAM)
            quiet_join(s, out, cell_prov(s, b));
    for (uint32_t b = own; b < s->nbit; b++) /* a device function knows the module's shared variables */
        if (module_var(s, b)->space == PTX_SHARED)
            quiet_join(s, out, cell_prov(s, b));
    for (bool more = true; more;) {
        more = false;
        for (uint32_t b = s->f->nparam; b < s->nbit; b++) {
            if (!has_bit(out, b))
                continue;
            const uint64_t *held = cell_prov(s, b);
            for (uint32_t w = 0; w < s->words; w++)
                if (held[w] & ~out[w])
                    out[w] |= held[w], more = true;
        }
    }
}

/* Does it more than compute, in a function that is called? */
static bool acts(const struct ptx_inst *i, void *user)
{
    unsigned flags = ptx_op_info(i->op)->flags;
    bool own = i->space == PTX_PARAM || i->space == PTX_LOCAL || i->space == PTX_CONST;
    (void)user;
    return ptx_is_opaque(i) || i->op == PTX_OP_TRAP || i->op == PTX_OP_BRKPT || i->op == PTX_OP_EXIT ||
           flags & (PTX_F_ATOMIC | PTX_F_BARRIER | PTX_F_CONVERGENT | PTX_F_SIDE) ||
           (flags & (PTX_F_READS | PTX_F_WRITES) && !own);
}

int ana_only_computes(const struct ptx_inst *call)
{
    const struct ptx_function *f = ptx_callee(call);
    struct ptx_reach r;
    if (!f || !f->has_body)
        return 0;
    if (ptx_reach_build(f, &r) < 0)
        return DT_E_NOMEM;
    bool unknown = r.unknown;
    ptx_reach_done(&r);
    int some = unknown ? 1 : ptx_reach_any(f, acts, NULL);
    return some < 0 ? some : !some;
}
