/* Whether a module is well formed: for parsed text, and for modules that rewrites have built.
 *
 * Per instruction: words against its row of ops.def, operands against the row's shape (the letters are explained
 * there), register classes against types (§6.4: .bN registers take any type of their width; integers of either sign
 * mix; floats do not mix with integers; ld, st and cvt may use wider registers), special registers in mov and cvt only,
 * spaces of named addresses, arguments of calls, constant offsets into parameters. Per function: labels defined once
 * and where they are used, names that differ. Opaque statements pass. Not here: whether a target has the instruction,
 * alignment, what ptxas alone knows.
 */
#include <stdlib.h>
#include <string.h>

#include "ptx/ptx-priv.h"

struct check {
    const struct ptx_function *f;
    const struct ptx_inst *i;
    uint32_t index;
    struct dt_err *e;
};

static int verify_bad(const struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int verify_bad(const struct check *c, const char *fmt, ...)
{
    struct dt_str what = {0};
    va_list ap;
    va_start(ap, fmt);
    dt_str_addfv(&what, fmt, ap);
    va_end(ap);
    int r;
    const char *text = what.s ? what.s : "malformed";
    if (c->i && c->i->line)
        r = dt_err_set(c->e, DT_E_PTX, "line %u, column %u: %s", c->i->line, c->i->col, text);
    else
        r = dt_err_set(c->e, DT_E_PTX, "%s, instruction %u: %s", c->f->name, c->index, text);
    dt_str_done(&what);
    return r;
}

enum kind { K_BITS, K_INT, K_FLOAT, K_PRED, K_OTHER };

static enum kind verify_kind_of(unsigned t)
{
    if (t == PTX_PRED)
        return K_PRED;
    if (ptx_type_is_bits(t))
        return K_BITS;
    if (ptx_type_is_float(t))
        return K_FLOAT;
    return t >= PTX_TEXREF || t == PTX_T_NONE ? K_OTHER : K_INT;
}

/* Two 16-bit halves, packed small floats and tf32 live in .bN registers. */
static bool packed(unsigned t) { return t == PTX_F16X2 || t == PTX_BF16X2 || t == PTX_TF32 || t > PTX_PRED; }

static bool reg_fits(unsigned reg, unsigned type, unsigned scale, bool wider)
{
    if (reg == PTX_PRED || type == PTX_PRED)
        return reg == type;
    unsigned have = ptx_type_bytes(reg), want = ptx_type_bytes(type) * scale;
    if (wider ? have < want : have != want)
        return false;
    enum kind r = verify_kind_of(reg), t = verify_kind_of(type);
    if (r == K_BITS || t == K_BITS)
        return true;
    if (packed(type) && r == K_INT)
        return true;
    return r == t && (r == K_INT || have == want);
}

static int check_reg(const struct check *c, const struct ptx_opnd *o, unsigned type, unsigned scale, bool wider)
{
    const struct ptx_reg *r = &c->f->reg[o->reg];
    if (!reg_fits(r->type, type, scale, wider))
        return verify_bad(c, "%s is .%s, which does not fit .%s", r->name, ptx_type_text(r->type), ptx_type_text(type));
    if (o->neg && type != PTX_PRED)
        return verify_bad(c, "'!' before %s, which is no predicate", r->name);
    if (r->vec > 1 && o->comp < 0 && r->vec != c->i->vec)
        return verify_bad(c, "%s is a vector", r->name);
    return 0;
}

/* Indices in range, so that nothing below needs to ask. */
static int check_bounds(const struct check *c, const struct ptx_opnd *o)
{
    if ((o->kind == PTX_O_REG || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG)) && o->reg >= c->f->nreg)
        return verify_bad(c, "register number out of range");
    if (o->kind == PTX_O_LABEL && o->label >= c->f->nlabel)
        return verify_bad(c, "label number out of range");
    if ((o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR)) && !o->var)
        return verify_bad(c, "address of nothing");
    if (o->kind == PTX_O_FUNC && !o->func)
        return verify_bad(c, "function missing");
    int r = 0;
    if (o->kind == PTX_O_VEC || o->kind == PTX_O_TEXTURE || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG))
        for (unsigned k = 0; k < o->n && r >= 0; k++)
            r = o->elem[k].kind == PTX_O_VEC || o->elem[k].kind == PTX_O_ADDR || o->elem[k].kind == PTX_O_TEXTURE
                    ? verify_bad(c, "operand inside a vector is no scalar")
                    : check_bounds(c, &o->elem[k]);
    return r;
}

static int check_imm(const struct check *c, const struct ptx_opnd *o, unsigned type)
{
    bool is_float = o->imm_type == PTX_F32 || o->imm_type == PTX_F64;
    if ((type == PTX_F32 || type == PTX_F64) && !is_float)
        return verify_bad(c, ".%s needs a floating-point constant", ptx_type_text(type));
    if (is_float && verify_kind_of(type) == K_INT)
        return verify_bad(c, ".%s needs an integer constant", ptx_type_text(type));
    return 0;
}

/* A value of `type` (times `scale` wide). */
static int check_value(const struct check *c, const struct ptx_opnd *o, unsigned type, unsigned scale, bool wider,
                       bool dst)
{
    bool moves = c->i->op == PTX_OP_MOV || c->i->op == PTX_OP_CVT;
    switch (o->kind) {
    case PTX_O_REG: return check_reg(c, o, type, scale, wider);
    case PTX_O_SINK: return dst || c->i->op == PTX_OP_SHFL ? 0 : verify_bad(c, "'_' is no value");
    case PTX_O_IMM: return dst ? verify_bad(c, "a constant is no destination") : check_imm(c, o, type);
    case PTX_O_SREG:
        if (dst || !moves)
            return verify_bad(c, "%%%s may only be read by mov and cvt", ptx_sreg_text(o->sreg));
        if (!o->sreg || o->sreg >= PTX_SR_COUNT)
            return verify_bad(c, "special register out of range");
        if (ptx_sreg_flags(o->sreg) & PTX_SRF_VECTOR ? o->comp < 0 && c->i->vec == 1 : o->comp >= 0)
            return verify_bad(c, "%%%s: wrong component", ptx_sreg_text(o->sreg));
        return 0;
    case PTX_O_VAR:
    case PTX_O_FUNC:
        if (dst)
            return verify_bad(c, "an address is no destination");
        return verify_kind_of(type) == K_FLOAT || verify_kind_of(type) == K_PRED || ptx_type_bytes(type) < 4
                   ? verify_bad(c, "an address does not fit .%s", ptx_type_text(type))
                   : 0;
    default: return verify_bad(c, "wrong operand");
    }
}

/* A vector operand: ld and st .vN, one-element braces, mov's pack and unpack. */
static int check_vector(const struct check *c, const struct ptx_opnd *o, unsigned type, bool wider, bool dst)
{
    const struct ptx_inst *i = c->i;
    int r = 0;
    if (i->op == PTX_OP_MOV && i->vec == 1) {
        unsigned each = o->n ? ptx_type_bytes(type) / o->n : 0;
        if (!each || each * o->n != ptx_type_bytes(type))
            return verify_bad(c, "%u elements do not make .%s", o->n, ptx_type_text(type));
        for (unsigned k = 0; k < o->n && r >= 0; k++) {
            const struct ptx_opnd *x = &o->elem[k];
            if (x->kind == PTX_O_SINK ? !dst : x->kind == PTX_O_IMM ? dst : x->kind != PTX_O_REG)
                r = verify_bad(c, "wrong element");
            else if (x->kind == PTX_O_REG && ptx_type_bytes(c->f->reg[x->reg].type) != each)
                r = verify_bad(c, "%s does not have %u bytes", c->f->reg[x->reg].name, each);
        }
        return r;
    }
    if (o->n != i->vec)
        return verify_bad(c, "%u elements where %u are wanted", o->n, i->vec);
    for (unsigned k = 0; k < o->n && r >= 0; k++)
        r = check_value(c, &o->elem[k], type, 1, wider, dst);
    return r;
}

static bool space_fits(unsigned inst, unsigned var)
{
    if (inst == PTX_GENERIC || inst == var)
        return true;
    return (inst == PTX_PARAM_FUNC && var == PTX_PARAM) || (inst == PTX_SHARED_CLUSTER && var == PTX_SHARED);
}

static int check_addr(const struct check *c, const struct ptx_opnd *o, unsigned nth)
{
    const struct ptx_inst *i = c->i;
    const struct ptx_op_info *info = ptx_op_info(i->op);
    unsigned two = info->flags & PTX_F_SPACE2 ? 1 : 0;
    unsigned space = nth == 0 ? i->space : nth == 1 && two ? i->space2 : PTX_GENERIC;
    if (o->kind != PTX_O_ADDR)
        return verify_bad(c, "operand is no address");
    if (o->base_kind == PTX_O_REG) {
        const struct ptx_reg *r = &c->f->reg[o->reg];
        unsigned n = ptx_type_bytes(r->type);
        bool narrow = space == PTX_SHARED || space == PTX_SHARED_CLUSTER || space == PTX_LOCAL || space == PTX_CONST ||
                      space == PTX_PARAM || space == PTX_PARAM_FUNC || nth > two || i->op == PTX_OP_FENCE_PROXY;
        if (verify_kind_of(r->type) == K_FLOAT || (n != 8 && !(n == 4 && narrow)) || r->vec > 1)
            return verify_bad(c, "%s is .%s, which cannot hold an address", r->name, ptx_type_text(r->type));
    } else if (o->base_kind == PTX_O_VAR) {
        if (o->var->type >= PTX_TEXREF)
            return verify_bad(c, "%s is a .%s", o->var->name, ptx_type_text(o->var->type));
        if (!space_fits(space, o->var->space) ||
            (space == PTX_GENERIC && o->var->space == PTX_PARAM && (i->op == PTX_OP_LD || i->op == PTX_OP_ST)))
            return verify_bad(c, "%s is .%s", o->var->name, ptx_space_text(o->var->space));
        uint64_t n = i->ntype ? (uint64_t)ptx_type_bytes(i->type[0]) * i->vec : 0;
        if (o->var->space == PTX_PARAM && o->var->bytes && (i->op == PTX_OP_LD || i->op == PTX_OP_ST) &&
            (o->off < 0 || n > o->var->bytes || (uint64_t)o->off > o->var->bytes - n))
            return verify_bad(c, "access leaves parameter %s", o->var->name);
    }
    return 0;
}

static int check_label(const struct check *c, const struct ptx_opnd *o)
{
    return o->kind == PTX_O_LABEL ? 0 : verify_bad(c, "operand is no label");
}

static int check_pred(const struct check *c, const struct ptx_opnd *o, bool dst)
{
    if (o->kind == PTX_O_SINK && dst)
        return 0;
    if (o->kind == PTX_O_IMM && !dst)
        return 0;
    if (o->kind != PTX_O_REG || c->f->reg[o->reg].type != PTX_PRED)
        return verify_bad(c, "operand is no predicate");
    return dst && o->neg ? verify_bad(c, "'!' before a destination") : 0;
}

static int check_letter(const struct check *c, char letter, const struct ptx_opnd *o, unsigned *naddr)
{
    const struct ptx_inst *i = c->i;
    unsigned t0 = i->ntype ? i->type[0] : PTX_T_NONE, t1 = i->ntype > 1 ? i->type[1] : t0;
    bool wide = ptx_has(i, PTX_M_WIDE);
    switch (letter) {
    case 'd':
    case 'x':
        return o->kind == PTX_O_VEC ? check_vector(c, o, t0, letter == 'x', true)
                                    : check_value(c, o, t0, 1, letter == 'x', true);
    case 's':
    case 'y':
        return o->kind == PTX_O_VEC ? check_vector(c, o, t0, letter == 'y', false)
                                    : check_value(c, o, t0, 1, letter == 'y', false);
    case 'w': return check_value(c, o, t0, wide ? 2 : 1, false, true);
    case 'W': return check_value(c, o, t0, wide ? 2 : 1, false, false);
    case 't':
    case 'z': return check_value(c, o, t1, 1, letter == 'z', false);
    case 'e': return check_value(c, o, PTX_B32, 1, false, true);
    case 'u': return check_value(c, o, PTX_B32, 1, false, false);
    case 'f': return check_value(c, o, PTX_B64, 1, false, true);
    case 'l': return check_value(c, o, PTX_B64, 1, false, false);
    case 'p':
    case 'q': return check_pred(c, o, true);
    case 'P': return check_pred(c, o, false);
    case 'D': return o->kind == PTX_O_REG ? check_reg(c, o, t0, 1, false) : verify_bad(c, "destination is no register");
    case 'R': return o->kind == PTX_O_REG ? check_reg(c, o, t0, 1, false) : verify_bad(c, "operand is no register");
    case 'k':
    case 'i': return o->kind == PTX_O_IMM ? 0 : verify_bad(c, "operand is no constant");
    case 'v':
        return o->kind == PTX_O_REG || o->kind == PTX_O_VEC || o->kind == PTX_O_SINK || o->kind == PTX_O_IMM
                   ? 0
                   : verify_bad(c, "wrong operand");
    case 'o': return 0;
    case 'a': return check_addr(c, o, (*naddr)++);
    case 'T': return o->kind == PTX_O_TEXTURE ? 0 : verify_bad(c, "operand is no texture and no surface");
    case 'L': return check_label(c, o);
    default: return verify_bad(c, "internal: shape letter %c", letter);
    }
}

static int check_operands(const struct check *c, const char *shape)
{
    const struct ptx_inst *i = c->i;
    unsigned min = 0, naddr = 0, k = 0;
    for (const char *s = shape; *s; s++)
        if (*s == '?')
            s++;
        else
            min += *s != 'q' || i->dst2;
    unsigned extra = i->nopnd > min ? i->nopnd - min : 0; /* optional ones: the first so many are there */
    for (const char *s = shape; *s; s++) {
        if (*s == 'q' && !i->dst2)
            continue;
        if (*s == '?') {
            s++;
            if (!extra)
                continue;
            extra--;
        }
        if (k >= i->nopnd)
            return verify_bad(c, "operand missing");
        int r = check_letter(c, *s, &i->opnd[k++], &naddr);
        if (r < 0)
            return r;
    }
    return k == i->nopnd ? 0 : verify_bad(c, "too many operands");
}

/* ---- calls */

static int check_args(const struct check *c, const struct ptx_opnd *list, struct ptx_var **param, uint32_t n,
                      const char *what)
{
    if (list->kind != PTX_O_VEC)
        return verify_bad(c, "call without a list of %s", what);
    if (param && list->n != n)
        return verify_bad(c, "call with %u %s where %u are declared", list->n, what, n);
    for (unsigned k = 0; k < list->n; k++) {
        const struct ptx_opnd *o = &list->elem[k];
        if (o->kind == PTX_O_VAR ? o->var->space != PTX_PARAM || o->off
                                 : o->kind != PTX_O_REG && o->kind != PTX_O_IMM && o->kind != PTX_O_SINK)
            return verify_bad(c, "wrong operand of a call");
        if (param && o->kind == PTX_O_VAR && o->var->bytes != param[k]->bytes && param[k]->bytes)
            return verify_bad(c, "%s does not have the size of %s", o->var->name, param[k]->name);
    }
    return 0;
}

static int check_call(const struct check *c)
{
    const struct ptx_inst *i = c->i;
    if (i->nopnd < 3 || i->nopnd > 4)
        return verify_bad(c, "call with %u operands", i->nopnd);
    const struct ptx_opnd *to = &i->opnd[1];
    if (to->kind != PTX_O_FUNC && to->kind != PTX_O_REG)
        return verify_bad(c, "call of something that is no function");
    const struct ptx_function *f = to->kind == PTX_O_FUNC ? to->func : NULL;
    if (f && f->is_entry)
        return verify_bad(c, "call of an entry");
    struct ptx_var *none[1];
    int r = check_args(c, &i->opnd[0], f ? f->nret ? f->ret : none : NULL, f ? f->nret : 0, "results");
    if (r >= 0)
        r = check_args(c, &i->opnd[2], f ? f->nparam ? f->param : none : NULL, f ? f->nparam : 0, "arguments");
    return r >= 0 && i->nopnd == 4 ? check_label(c, &i->opnd[3]) : r;
}

/* ---- instructions and functions */

static int check_words(const struct check *c, const struct ptx_op_info *info)
{
    const struct ptx_inst *i = c->i;
    int n = i->ntype;
    if (i->nmod > PTX_MAX_MODS || n > PTX_MAX_TYPES ||
        (info->ntype >= 0 ? n != info->ntype : n < 1 || n > -info->ntype))
        return verify_bad(c, "%s with %d types", info->mnemonic, n);
    for (int k = 0; k < n; k++) {
        uint64_t allowed = k == 0 ? info->types0 : info->types1;
        if (i->type[k] == PTX_T_NONE || i->type[k] >= PTX_T_COUNT || (allowed && !(allowed >> i->type[k] & 1)))
            return verify_bad(c, "%s does not take .%s", info->mnemonic, ptx_type_text(i->type[k]));
    }
    if (n == 2 && (i->op == PTX_OP_ADD || i->op == PTX_OP_SUB || i->op == PTX_OP_FMA) && i->type[0] != PTX_F32)
        return verify_bad(c, "%s.%s does not take .%s", info->mnemonic, ptx_type_text(i->type[0]),
                          ptx_type_text(i->type[1]));
    for (unsigned k = 0; k < i->nmod; k++)
        if (i->mod[k] == PTX_M_NONE || i->mod[k] >= PTX_M_COUNT || !(info->mods >> ptx_mod_class(i->mod[k]) & 1))
            return verify_bad(c, "%s does not take .%s", info->mnemonic, ptx_mod_text(i->mod[k]));
    if ((i->space && !(info->flags & PTX_F_SPACE)) || (i->space2 && !(info->flags & PTX_F_SPACE2)) ||
        i->space >= PTX_SPACE_COUNT || i->space2 >= PTX_SPACE_COUNT)
        return verify_bad(c, "%s does not take a state space", info->mnemonic);
    if (i->vec != 1 && ((i->vec != 2 && i->vec != 4 && i->vec != 8) || !(info->mods >> PTX_MC_VEC & 1)) &&
        i->op != PTX_OP_MOV)
        return verify_bad(c, "%s does not take .v%u", info->mnemonic, i->vec);
    return 0;
}

/* What the shape and the words alone do not say. */
static int check_rules(const struct check *c)
{
    const struct ptx_inst *i = c->i;
    unsigned compare = 0, hint = ptx_has(i, PTX_M_L2_HINT), half = ptx_mod_of(i, PTX_MC_HALF) != PTX_M_NONE;
    bool logic = ptx_mod_of(i, PTX_MC_BOOL) != PTX_M_NONE,
         order = ptx_has(i, PTX_M_RELAXED) || ptx_has(i, PTX_M_ACQUIRE) || ptx_has(i, PTX_M_RELEASE);
    unsigned t = i->ntype ? i->type[0] : PTX_T_NONE;
    if ((i->op == PTX_OP_LD || i->op == PTX_OP_ST || i->op == PTX_OP_MOV) &&
        (t == PTX_F16 || t == PTX_F16X2 || t == PTX_BF16 || t == PTX_BF16X2))
        return verify_bad(c, "%s does not take .%s", ptx_op_info(i->op)->mnemonic, ptx_type_text(t));
    if ((i->op == PTX_OP_LD || i->op == PTX_OP_ST) && order != (ptx_mod_of(i, PTX_MC_SCOPE) != PTX_M_NONE))
        return verify_bad(c, order ? "a scope is wanted" : "a scope without .relaxed, .acquire or .release");
    switch (i->op) {
    case PTX_OP_SETP:
    case PTX_OP_SET:
        for (unsigned k = 0; k < i->nmod; k++)
            compare += ptx_mod_class(i->mod[k]) == PTX_MC_CMP || i->mod[k] == PTX_M_LO || i->mod[k] == PTX_M_HI;
        if (compare != 1 || ptx_has(i, PTX_M_WIDE))
            return verify_bad(c, "one comparison is wanted");
        return i->nopnd == 3u + i->dst2 + logic ? 0
                                                : verify_bad(c, logic ? "a predicate to combine with is missing"
                                                                      : "a predicate without .and, .or or .xor");
    case PTX_OP_MUL:
    case PTX_OP_MAD:
    case PTX_OP_MADC:
        if (verify_kind_of(t) == K_INT && !half)
            return verify_bad(c, ".lo, .hi or .wide is wanted");
        /* fall through */
    case PTX_OP_ADD:
    case PTX_OP_SUB:
        return verify_kind_of(t) == K_INT && (ptx_mod_of(i, PTX_MC_RND) != PTX_M_NONE || ptx_has(i, PTX_M_FTZ))
                   ? verify_bad(c, "integers are not rounded")
                   : 0;
    case PTX_OP_CVT:
        return i->ntype > 1 &&
                       ((verify_kind_of(t) == K_INT && verify_kind_of(i->type[1]) == K_FLOAT) ||
                        (verify_kind_of(t) == K_FLOAT && verify_kind_of(i->type[1]) == K_INT)) &&
                       ptx_mod_of(i, PTX_MC_RND) == PTX_M_NONE
                   ? verify_bad(c, "a rounding is wanted")
                   : 0;
    case PTX_OP_MUL24:
    case PTX_OP_MAD24: return half && !ptx_has(i, PTX_M_WIDE) ? 0 : verify_bad(c, ".lo or .hi is wanted");
    case PTX_OP_CVTA:
    case PTX_OP_ISSPACEP: return i->space != PTX_GENERIC ? 0 : verify_bad(c, "a state space is wanted");
    case PTX_OP_LD:
    case PTX_OP_ST:
        if ((i->space == PTX_PARAM || i->space == PTX_PARAM_FUNC) &&
            (ptx_has(i, PTX_M_VOLATILE) || ptx_has(i, PTX_M_RELAXED) || ptx_has(i, PTX_M_ACQUIRE) ||
             ptx_has(i, PTX_M_RELEASE)))
            return verify_bad(c, "parameters are not volatile, and nobody waits for them");
        if ((i->op == PTX_OP_ST && ptx_has(i, PTX_M_ACQUIRE)) || (i->op == PTX_OP_LD && ptx_has(i, PTX_M_RELEASE)))
            return verify_bad(c, "a load does not release, a store does not acquire");
        return i->nopnd == 2 + hint
                   ? 0
                   : verify_bad(c, hint ? "a cache policy is missing" : "a cache policy without .L2::cache_hint");
    case PTX_OP_BAR_SYNC:
    case PTX_OP_BAR_ARRIVE:
    case PTX_OP_BARRIER_SYNC:
    case PTX_OP_BARRIER_ARRIVE:
        return i->opnd[0].kind != PTX_O_IMM || i->opnd[0].bits < 16 ? 0 : verify_bad(c, "barriers are 0 to 15");
    default: return 0;
    }
}

static int check_inst(const struct check *c)
{
    const struct ptx_inst *i = c->i;
    if (i->op >= PTX_OP_COUNT)
        return verify_bad(c, "operation out of range");
    const struct ptx_op_info *info = ptx_op_info(i->op);
    int r = 0;
    if (i->pred != PTX_NO_REG && (i->pred >= c->f->nreg || c->f->reg[i->pred].type != PTX_PRED))
        return verify_bad(c, "guard is no predicate");
    for (unsigned k = 0; k < i->nopnd && r >= 0; k++)
        r = check_bounds(c, &i->opnd[k]);
    if (r < 0)
        return r;
    switch (i->op) {
    case PTX_OP_PRAGMA:
    case PTX_OP_OPAQUE: return i->text ? 0 : verify_bad(c, "text missing");
    case PTX_OP_CALLPROTO:
        if (!i->text)
            return verify_bad(c, "text missing");
        /* fall through */
    case PTX_OP_LABEL:
    case PTX_OP_BRANCHTARGETS: return i->nopnd && i->opnd[0].kind == PTX_O_LABEL ? 0 : verify_bad(c, "label missing");
    }
    r = check_words(c, info);
    if (r < 0)
        return r;
    r = i->op == PTX_OP_CALL ? check_call(c) : check_operands(c, info->shape);
    const char *wrong = r >= 0 && ptx_video_lanes(i->op) ? ptx_video_wrong(i) : NULL;
    if (r >= 0 && info->flags & PTX_F_TEXTURE)
        wrong = ptx_texture_wrong(c->f, i);
    if (r >= 0 && !wrong)
        r = check_rules(c);
    if (r >= 0 && !wrong)
        wrong = ptx_words_wrong(i);
    return r < 0 ? r : wrong ? verify_bad(c, "%s", wrong) : 0;
}

static void mark_labels(const struct ptx_opnd *o, uint8_t *used)
{
    if (o->kind == PTX_O_LABEL)
        used[o->label] |= 2;
}

static int check_labels(struct check *c)
{
    const struct ptx_function *f = c->f;
    struct dt_arena a = {0};
    uint8_t *seen = dt_arena_alloc(&a, (size_t)f->nlabel + 1);
    int r = seen ? 0 : dt_err_set(c->e, DT_E_NOMEM, "out of memory");
    for (c->index = 0; c->index < f->ninst && r >= 0; c->index++) {
        const struct ptx_inst *i = c->i = &f->inst[c->index];
        bool defines = i->op == PTX_OP_LABEL || i->op == PTX_OP_BRANCHTARGETS || i->op == PTX_OP_CALLPROTO;
        if (defines && seen[i->opnd[0].label] & 1)
            r = verify_bad(c, "label %s is defined twice", f->label[i->opnd[0].label].name);
        if (defines)
            seen[i->opnd[0].label] |= 1;
        for (unsigned k = defines; k < i->nopnd; k++)
            mark_labels(&i->opnd[k], seen);
    }
    c->i = NULL;
    for (uint32_t k = 0; k < f->nlabel && r >= 0; k++)
        if (seen[k] == 2)
            r = verify_bad(c, "label %s is not defined", f->label[k].name);
    dt_arena_done(&a);
    return r;
}

/* Names of one function's scope differ, and only registers' and labels' may look like module scope's. */
static int check_names(struct check *c)
{
    const struct ptx_function *f = c->f;
    struct dt_names t = {0};
    const char *twice = NULL;
    int r = 0;
    for (uint32_t k = 0; k < f->nreg && r == 0; k++)
        if ((r = dt_names_put(&t, twice = f->reg[k].name, k)) == 0 && f->reg[k].type == PTX_T_NONE)
            r = 1;
    for (uint32_t k = 0; k < f->nvar && r == 0; k++)
        r = dt_names_put(&t, twice = f->var[k]->name, k);
    for (uint32_t k = 0; k < f->nparam && r == 0; k++)
        r = dt_names_put(&t, twice = f->param[k]->name, k);
    dt_names_done(&t);
    return r < 0 ? dt_err_set(c->e, DT_E_NOMEM, "out of memory") : r ? verify_bad(c, "%s is declared twice", twice) : 0;
}

int ptx_verify(const struct ptx_module *m, struct dt_err *e)
{
    int r = 0;
    for (uint32_t k = 0; k < m->nfunc && r >= 0; k++) {
        const struct ptx_function *f = m->func[k];
        struct check c = {.f = f, .e = e};
        if (!f->has_body)
            continue;
        uint64_t total = 0;
        for (uint32_t j = 0; j < f->nparam; j++)
            total += f->param[j]->bytes;
        if (f->is_entry && total > 32764)
            return verify_bad(&c, "parameters of %llu bytes are over the limit of 32764", (unsigned long long)total);
        r = check_names(&c);
        for (c.index = 0; c.index < f->ninst && r >= 0; c.index++) {
            c.i = &f->inst[c.index];
            r = check_inst(&c);
        }
        if (r >= 0)
            r = check_labels(&c);
    }
    return r;
}
