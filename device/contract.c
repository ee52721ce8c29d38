/* Contraction written out: the arithmetic that a kernel leaves to the assembler becomes explicit.
 *
 * A kernel may have unmodified mul and add that ptxas contracts. Its text then does not say which arithmetic it has;
 * identity.c sees that `.rn` changes its code. This file writes the contraction out: fma.rn in place of a product and
 * the sums that take it. It tries a few policies in turn. The first one whose machine code is byte for byte that of the
 * original is the entry from then on. Equal code is the proof, so no policy needs to be right.
 *
 *   mul.f32 %m, %a, %b;              (left to die)
 *   sub.f32 %d, %c, %m;       ->     neg.f32 %n, %a; fma.rn.f32 %d, %n, %b, %c;
 *
 * A program's modules are taken in explicit form from the start (prog.c). So the software device gives the bits of the
 * hardware, and what is fused from the modules has the same arithmetic. dev_explicit is for a single entry where the
 * whole module has no such form.
 *
 * It works inside a basic block only, on operands that do not change in between. For a contraction across blocks no
 * policy gives equal code, and the kernel is refused.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device-priv.h"

struct policy {
    enum { ALL_USES, ANY_USE, ONE_USE } uses; /* of the product: all are sums; some are; there is one */
    bool second;                              /* of two products prefer the second operand */
    bool negate_b;                            /* c - a b: negate the second factor */
};
static const struct policy policies[] = {{ALL_USES, false, false}, {ALL_USES, false, true}, {ALL_USES, true, false},
                                         {ALL_USES, true, true},   {ONE_USE, false, false}, {ONE_USE, true, false},
                                         {ANY_USE, false, false},  {ANY_USE, true, false},  {ANY_USE, false, true}};

struct product { /* per register: the mul whose result it holds here, or 0 (index + 1) */
    uint32_t inst;
    uint32_t uses, sums;
};

struct work {
    struct ptx_function *f;
    struct product *reg;
    uint32_t nreg;
    const struct ptx_inst *at;
};

static bool open_sum(const struct ptx_inst *i)
{
    return (i->op == PTX_OP_ADD || i->op == PTX_OP_SUB) && i->ntype && ptx_type_is_float(i->type[0]) &&
           ptx_mod_of(i, PTX_MC_RND) == PTX_M_NONE && !ptx_has(i, PTX_M_SAT) && i->nopnd == 3;
}

static bool open_mul(const struct ptx_inst *i)
{
    return i->op == PTX_OP_MUL && i->ntype && ptx_type_is_float(i->type[0]) &&
           ptx_mod_of(i, PTX_MC_RND) == PTX_M_NONE && !ptx_has(i, PTX_M_SAT) && i->pred == PTX_NO_REG &&
           i->nopnd == 3 && i->opnd[0].kind == PTX_O_REG;
}

static void count_use(uint32_t reg, bool write, void *user)
{
    struct work *w = user;
    if (write || reg >= w->nreg)
        return;
    w->reg[reg].uses++;
    w->reg[reg].sums += open_sum(w->at);
}

/* A register is written: products of it, and made of it, are no more. */
static void contract_on_write(uint32_t reg, bool write, void *user)
{
    struct work *w = user;
    if (!write || reg >= w->nreg)
        return;
    w->reg[reg].inst = 0;
    for (uint32_t k = 0; k < w->nreg; k++) {
        if (!w->reg[k].inst)
            continue;
        const struct ptx_inst *m = &w->f->inst[w->reg[k].inst - 1];
        for (unsigned q = 1; q < 3; q++)
            if (m->opnd[q].kind == PTX_O_REG && m->opnd[q].reg == reg)
                w->reg[k].inst = 0;
    }
}

static const struct ptx_inst *product_of(const struct work *w, const struct ptx_inst *i, unsigned k,
                                         const struct policy *p)
{
    const struct ptx_opnd *o = &i->opnd[k];
    if (o->kind != PTX_O_REG || o->reg >= w->nreg || !w->reg[o->reg].inst)
        return NULL;
    const struct product *r = &w->reg[o->reg];
    const struct ptx_inst *m = &w->f->inst[r->inst - 1];
    if (m->type[0] != i->type[0] || ptx_has(m, PTX_M_FTZ) != ptx_has(i, PTX_M_FTZ))
        return NULL;
    if ((p->uses == ALL_USES && r->sums != r->uses) || (p->uses == ONE_USE && r->uses != 1))
        return NULL;
    return m;
}

struct out {
    struct ptx_inst *p;
    uint32_t n;
};

/* -o: a constant with its sign turned, or a register that neg fills. */
static bool negate(struct work *w, struct out *out, const struct ptx_inst *i, struct ptx_opnd *o)
{
    if (o->kind == PTX_O_IMM && (o->imm_type == PTX_F32 || o->imm_type == PTX_F64)) {
        o->bits ^= o->imm_type == PTX_F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
        return true;
    }
    uint32_t r = ptx_reg_new(w->f, w->f->reg[i->opnd[0].reg].type, "dt_neg");
    struct ptx_opnd *two = dt_new_array(&w->f->module->arena, struct ptx_opnd, 2);
    if (o->kind != PTX_O_REG || r == PTX_NO_REG || !two)
        return false;
    two[0] = (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = r};
    two[1] = *o;
    out->p[out->n++] = (struct ptx_inst){.op = PTX_OP_NEG,
                                         .nopnd = 2,
                                         .ntype = 1,
                                         .vec = i->vec,
                                         .pred = PTX_NO_REG,
                                         .type = {i->type[0]},
                                         .opnd = two,
                                         .from = i->from,
                                         .from_line = i->from_line};
    *o = two[0];
    return true;
}

static bool contract(struct work *w, struct out *out, const struct ptx_inst *i, const struct policy *p)
{
    unsigned k = p->second ? 2 : 1;
    const struct ptx_inst *m = product_of(w, i, k, p);
    if (!m)
        m = product_of(w, i, k = 3 - k, p);
    struct ptx_opnd *o = m ? dt_new_array(&w->f->module->arena, struct ptx_opnd, 4) : NULL;
    if (!o || i->opnd[0].kind != PTX_O_REG)
        return false;
    uint32_t back = out->n;
    o[0] = i->opnd[0];
    o[1] = m->opnd[1];
    o[2] = m->opnd[2];
    o[3] = i->opnd[3 - k];
    if (i->op == PTX_OP_SUB) {
        struct ptx_opnd *n = k == 1 ? &o[3] : p->negate_b || o[2].kind == PTX_O_IMM ? &o[2] : &o[1];
        if (!negate(w, out, i, n)) {
            out->n = back;
            return false;
        }
    }
    struct ptx_inst f = *i;
    f.op = PTX_OP_FMA;
    f.nopnd = 4;
    f.opnd = o;
    ptx_set_mod(&f, PTX_M_RN);
    out->p[out->n++] = f;
    return true;
}

/* How many sums were contracted; -1 when memory is out. */
static int contract_function(struct ptx_function *f, const struct policy *p)
{
    struct work w = {.f = f, .nreg = f->nreg};
    struct out out = {.p = dt_new_array(&f->module->arena, struct ptx_inst, (size_t)f->ninst * 2 + 1)};
    int n = 0;
    w.reg = dt_calloc((size_t)f->nreg + 1, sizeof *w.reg);
    if (!w.reg || !out.p) {
        free(w.reg);
        return -1;
    }
    for (uint32_t k = 0; k < f->ninst; k++) {
        w.at = &f->inst[k];
        ptx_inst_regs(w.at, count_use, &w);
    }
    for (uint32_t k = 0; k < f->ninst; k++) {
        const struct ptx_inst *i = &f->inst[k];
        bool edge = i->op == PTX_OP_LABEL || i->op == PTX_OP_OPAQUE || (ptx_op_info(i->op)->flags & PTX_F_BRANCH);
        for (uint32_t r = 0; edge && r < w.nreg; r++)
            w.reg[r].inst = 0;
        if (open_sum(i) && contract(&w, &out, i, p))
            n++;
        else
            out.p[out.n++] = *i;
        if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS ||
            i->op == PTX_OP_CALLPROTO)
            continue;
        ptx_inst_regs(i, contract_on_write, &w);
        if (open_mul(i) && i->opnd[0].reg < w.nreg) {
            bool self = false;
            for (unsigned q = 1; q < 3; q++)
                self |= i->opnd[q].kind == PTX_O_REG && i->opnd[q].reg == i->opnd[0].reg;
            w.reg[i->opnd[0].reg].inst = self ? 0 : k + 1;
        }
    }
    free(w.reg);
    f->inst = out.p;
    f->ninst = out.n;
    f->inst_cap = f->ninst;
    return n;
}

/* The code of module `m`, 0 or an error. */
static int contract_code_of(const struct ptx_module *m, const char *arch, void **ret, size_t *ret_len)
{
    struct dt_str s = {0};
    int r = ptx_print(m, &s);
    if (r == 0)
        r = s.failed ? DT_E_NOMEM : dev_assemble(s.s, s.len, arch, ret, ret_len, NULL);
    dt_str_done(&s);
    return r;
}

/* Contract what is open in all functions, by the policy, and close the rest. How many; -1 when memory is out. */
static int contract_module(struct ptx_module *m, const struct policy *p)
{
    int n = 0;
    for (uint32_t i = 0; i < m->nfunc && n >= 0; i++) {
        int x = contract_function(m->func[i], p);
        n = x < 0 ? x : n + x;
        dev_round_muls(m->func[i]);
    }
    return n;
}

/* The number of the policy that gives the entry's own code, -1: none. *ret (may be NULL): the module it gives. */
static int find_policy(const struct ptx_module *m, const char *entry, const char *arch, struct ptx_module **ret)
{
    struct ptx_module *one = NULL;
    void *want = NULL, *got = NULL;
    size_t nwant = 0, ngot = 0;
    int found = -1;
    if (ptx_clone(m, entry, &one, NULL) < 0)
        return -1;
    int r = contract_code_of(one, arch, &want, &nwant);
    ptx_module_free(one);
    for (size_t k = 0; r == 0 && found < 0 && k < sizeof policies / sizeof policies[0]; k++) {
        if (ptx_clone(m, entry, &one, NULL) < 0)
            break;
        if (contract_module(one, &policies[k]) > 0 && contract_code_of(one, arch, &got, &ngot) == 0 &&
            dev_same_code(want, nwant, got, ngot))
            found = (int)k;
        free(got);
        got = NULL;
        if (found >= 0 && ret)
            *ret = one;
        else
            ptx_module_free(one);
    }
    free(want);
    return found;
}

struct ptx_module *dev_explicit(const struct ptx_module *m, const char *entry, const char *arch)
{
    struct ptx_module *one = NULL;
    find_policy(m, entry, arch, &one);
    return one;
}

struct ptx_module *dev_explicit_module(const struct ptx_module *m, const char *ptx, size_t len, const char *arch)
{
    struct ptx_module *all = NULL;
    void *want = NULL, *got = NULL;
    size_t nwant = 0, ngot = 0;
    int changed = 0;
    if (dev_identity_of_text(m, ptx, len, arch) != DEV_CONTRACTED || ptx_clone(m, NULL, &all, NULL) < 0)
        return NULL;
    for (uint32_t i = 0; i < all->nfunc && changed >= 0; i++) {
        struct ptx_function *f = all->func[i];
        if (!f->is_entry || !f->has_body || dev_identity(m, f->name, arch) != DEV_CONTRACTED)
            continue;
        int k = find_policy(m, f->name, arch, NULL);
        int n = k < 0 ? 0 : contract_function(f, &policies[k]);
        if (n > 0)
            dev_round_muls(f);
        changed = n < 0 ? n : changed + n;
    }
    bool same = changed > 0 && contract_code_of(m, arch, &want, &nwant) == 0 &&
                contract_code_of(all, arch, &got, &ngot) == 0 && dev_same_code(want, nwant, got, ngot);
    free(want);
    free(got);
    if (same)
        return all;
    ptx_module_free(all);
    return NULL;
}
