/* Where a body touches a buffer: which arguments the buffer is bound to, and whether the body's accesses of it can be
 * told from all others and changed one by one.
 *
 * rw_sites_alone looks at every access that may reach the buffer, rw_only_addresses at every instruction that its
 * address goes through. Both rest on prov.c, whose sets are supersets.
 */
#include "rewrite/facts/facts-priv.h"

#include "base/subject.h"

uint64_t rw_args_of(const struct dt_launch *l, uint32_t buffer)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < l->narg; i++) {
        const struct dt_arg *a = &l->arg[i];
        if ((a->kind == DT_ARG_BUFFER || a->kind == DT_ARG_TENSOR_MAP) && a->buffer == buffer)
            bits |= rw_arg_bit(i);
        if (a->kind == DT_ARG_BYTES)
            for (uint32_t k = 0; k < a->npointer; k++)
                if (a->pointer[k].buffer == buffer)
                    bits |= rw_arg_bit(i);
    }
    return bits;
}

bool rw_arg_address(const struct dt_arg *a, uint64_t *at, uint64_t *offset)
{
    bool one = a->kind == DT_ARG_BYTES && a->npointer == 1;
    if (!one && a->kind != DT_ARG_BUFFER)
        return false;
    if (at)
        *at = one ? a->pointer[0].at : 0;
    if (offset)
        *offset = one ? a->pointer[0].offset : a->offset;
    return true;
}

bool rw_args_whole(const struct rw_facts *facts, const uint64_t args[2])
{
    for (int s = 0; s < 2; s++) {
        const struct dt_launch *l = facts->body[s].step->launch;
        for (uint32_t k = 0; k < l->narg && k < 62; k++)
            if (((args[s] >> k) & 1) && l->arg[k].kind != DT_ARG_BUFFER)
                return false;
    }
    return true;
}

static bool plain_access(const struct ptx_inst *i)
{
    enum ptx_mod sem = ptx_mod_of(i, PTX_MC_SEM);
    return (i->op == PTX_OP_LD || i->op == PTX_OP_ST) && (sem == PTX_M_NONE || sem == PTX_M_WEAK) &&
           !ptx_has(i, PTX_M_MMIO);
}

static bool has_address(const struct ptx_inst *i)
{
    for (unsigned k = 0; k < i->nopnd; k++)
        if (i->opnd[k].kind == PTX_O_ADDR)
            return true;
    return false;
}

/* Is the buffer's address in argument k read by `ld.param.u64` alone? The argument is the address, or a struct with
 * this one address, which is read by itself (compilers that pass arrays as structs of address and shape do that). */
static bool plain_param(const struct rw_body *b, uint32_t k, struct dt_str *why)
{
    const struct dt_launch *l = b->step->launch;
    const struct dt_arg *a = &l->arg[k];
    const struct ptx_var *v = b->f->param[k];
    uint64_t at;
    if (a->kind == DT_ARG_BUFFER && v->bytes == 8)
        return true;
    if (a->kind == DT_ARG_TENSOR_MAP) {
        dt_str_addf(why, DT_LAUNCH " has a tensor map of the buffer", l->name);
        return false;
    }
    if (!rw_arg_address(a, &at, NULL) || at % 8 || v->align % 8 || v->bytes < 8 || at > v->bytes - 8) {
        dt_str_addf(why, DT_LAUNCH " gets the buffer inside a struct with others", l->name);
        return false;
    }
    for (uint32_t n = 0; n < b->f->ninst; n++) {
        const struct ptx_inst *i = &b->f->inst[n];
        bool bad = i->op == PTX_OP_OPAQUE;
        for (unsigned q = 0; q < i->nopnd && !bad; q++) {
            const struct ptx_opnd *o = &i->opnd[q];
            for (unsigned j = 0; o->kind == PTX_O_VEC && j < o->n; j++)
                bad |= o->elem[j].kind == PTX_O_VAR && o->elem[j].var == v;
            if ((o->kind != PTX_O_VAR && !(o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)) || o->var != v)
                continue;
            int64_t off = o->off < 0 || o->off > DT_MAX_ARG_BYTES ? (int64_t)at : o->off; /* outside of all: bad */
            int64_t end = off + (int64_t)ptx_type_bytes(i->type[0]) * (i->vec ? i->vec : 1);
            bool apart = end <= (int64_t)at || off >= (int64_t)at + 8;
            bool alone =
                o->off == (int64_t)at && i->opnd[0].kind == PTX_O_REG && ptx_type_bytes(i->type[0]) == 8 && i->vec <= 1;
            bad = o->kind == PTX_O_VAR || i->op != PTX_OP_LD || i->space != PTX_PARAM || !(apart || alone);
        }
        if (bad) {
            dt_str_addf(why,
                        DT_LAUNCH
                        " reads the struct with the buffer's address otherwise than field by field (PTX line %u)",
                        l->name, i->line);
            return false;
        }
    }
    return true;
}

bool rw_sites_alone(const struct rw_body *b, uint64_t args, bool producer, uint32_t *width, struct dt_str *why)
{
    const struct dt_launch *l = b->step->launch;
    if (args & ~RW_PROV_ARGS) {
        dt_str_addf(why, DT_LAUNCH " has too many arguments to follow", l->name);
        return false;
    }
    for (uint32_t k = 0; k < l->narg && k < 62; k++)
        if (((args >> k) & 1) && !plain_param(b, k, why))
            return false;
    if (b->stored_prov & (args | RW_PROV_OTHER)) {
        dt_str_addf(why, DT_LAUNCH " stores the buffer's address", l->name);
        return false;
    }
    for (uint32_t n = 0; n < b->f->ninst; n++) {
        const struct ptx_inst *i = &b->f->inst[n];
        if (i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS)
            continue;
        bool global = rw_is_global_access(i);
        if (!global && !(has_address(i) && (i->space == PTX_GLOBAL || i->space == PTX_GENERIC)))
            continue;
        uint64_t m = rw_prov_of(b, i);
        if (!(m & (args | RW_PROV_OTHER)))
            continue;
        bool plain = plain_access(i) && !(producer && i->op != PTX_OP_ST);
        if (plain && (m & ~args)) {
            dt_str_addf(why, "an access of " DT_LAUNCH " (PTX line %u) may reach other memory too", l->name, i->line);
            return false;
        }
        if (!plain) {
            dt_str_addf(why, DT_LAUNCH " %s it by `%s` (PTX line %u)", l->name, m & args ? "touches" : "may touch",
                        ptx_op_info(i->op)->mnemonic, i->line);
            return false;
        }
        uint32_t w = ptx_type_bytes(i->type[0]) * (i->vec ? i->vec : 1);
        if (w > 16) {
            dt_str_addf(why, DT_LAUNCH " moves %u bytes at once, shared memory takes 16", l->name, w);
            return false;
        }
        if (w > *width)
            *width = w;
    }
    return true;
}

bool rw_only_addresses(const struct rw_body *b, uint64_t args)
{
    for (uint32_t n = 0; n < b->f->ninst; n++) {
        const struct ptx_inst *i = &b->f->inst[n];
        unsigned carriers = 0, first = 0;
        if (i->pred != PTX_NO_REG && i->pred < b->f->nreg && (b->prov[i->pred] & args))
            return false;
        const struct ptx_op_info *o =
            i->op == PTX_OP_OPAQUE || i->op == PTX_OP_LABEL || i->op == PTX_OP_PRAGMA || i->op == PTX_OP_BRANCHTARGETS
                ? NULL
                : ptx_op_info(i->op);
        for (unsigned k = o && !(o->flags & PTX_F_NODST) ? 1 : 0; k < i->nopnd; k++) {
            const struct ptx_opnd *q = &i->opnd[k];
            if (q->kind == PTX_O_VEC)
                for (unsigned j = 0; j < q->n; j++)
                    if (q->elem[j].kind == PTX_O_REG && (b->prov[q->elem[j].reg] & args))
                        return false;
            bool reg = q->kind == PTX_O_REG || (q->kind == PTX_O_ADDR && q->base_kind == PTX_O_REG);
            if (reg && (b->prov[q->reg] & args)) {
                if (!carriers++)
                    first = k;
            }
        }
        if (!carriers)
            continue;
        if (carriers > 1 || !o)
            return false;
        bool wide = ptx_type_bytes(i->type[0]) == 8;
        switch (i->op) {
        case PTX_OP_LD:
        case PTX_OP_ST:
            if (i->opnd[first].kind != PTX_O_ADDR)
                return false;
            break;
        case PTX_OP_MOV:
        case PTX_OP_CVTA:
        case PTX_OP_ADD:
            if (!wide)
                return false;
            break;
        case PTX_OP_SUB:
            if (!wide || first != 1)
                return false;
            break;
        case PTX_OP_MAD:
            if (first != 3 || !(wide || ptx_has(i, PTX_M_WIDE)))
                return false;
            break;
        default: return false;
        }
    }
    return true;
}
