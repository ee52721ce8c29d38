/* What a text may write and the data does not have: vector registers, parameters in registers, a sum where an operand
 * is wanted. They become what does the same, while the text is read, so that nobody above needs to know of them.
 *
 *   .reg .v2 .u32 t        two registers, t_x and t_y. `t.y` is one of them, `t` is {t_x, t_y}, also as an element of
 *                          a call, for which it goes through a variable in .param space of its own
 *   mov.v4.u32 a, b        four moves, by way of new registers where an element is written before it is read
 *   st.u32 [p], r+4        add.s32 n, r, 4 and st.u32 [p], n. As ptxas has it: any source of an integer instruction
 *   ld.u32 r, a[i+1]       [x], where x is a + 4 (i + 1), of an array of 4 bytes an element; a constant index is an
 *                          offset. In ld, st, mov and cvta. As ptxas has it: in the width of i, then without its sign
 *   .func (.reg .f32 o)    the parameters are in .param space; they are loaded where the body begins, the results are
 *     f (.reg .f32 i)      stored where it returns (an argument of a call may be a register in any case); a predicate
 *                          is 1 or 0
 *   .global in a function  a variable of module scope, named behind the function: f$x
 *
 * Refused, though ptxas takes them: a sum with a floating-point register (ptxas 13.5 drops the store that has one), and
 * a component that a vector does not have.
 */
#include <stdio.h>
#include <string.h>

#include "ptx/ptx-priv.h"

static unsigned bits_type(unsigned bytes)
{
    return bytes == 1 ? PTX_B8 : bytes == 2 ? PTX_B16 : bytes == 4 ? PTX_B32 : bytes == 8 ? PTX_B64 : PTX_T_NONE;
}

static int lower_append(struct ptx_parser *ps, struct ptx_inst i, const struct ptx_opnd *o, unsigned n)
{
    struct ptx_function *f = ps->f;
    i.nopnd = (uint16_t)n;
    i.opnd = dt_arena_alloc(&ps->m->arena, n * sizeof *o);
    if (!i.opnd || !PTX_GROW(&ps->m->arena, f->inst, f->ninst, f->inst_cap))
        return ptx_nomem(ps);
    memcpy(i.opnd, o, n * sizeof *o);
    f->inst[f->ninst++] = i;
    return 0;
}

static struct ptx_inst made(const struct ptx_inst *like, enum ptx_op op, unsigned type, unsigned vec)
{
    struct ptx_inst i = {.op = (uint16_t)op,
                         .vec = (uint8_t)vec,
                         .ntype = 1,
                         .type = {(uint8_t)type},
                         .pred = like->pred,
                         .pred_neg = like->pred_neg,
                         .line = like->line,
                         .col = like->col};
    if (vec > 1)
        ptx_set_mod(&i, vec == 2 ? PTX_M_V2 : PTX_M_V4);
    return i;
}

static struct ptx_opnd reg_opnd(uint32_t reg) { return (struct ptx_opnd){.kind = PTX_O_REG, .comp = -1, .reg = reg}; }

static int new_reg(struct ptx_parser *ps, const char *name, unsigned type, uint32_t *ret)
{
    uint32_t sym = ptx_intern(ps->sc, name, strlen(name));
    const char *own = sym == DT_NAME_NONE ? NULL : ptx_unique(ps->sc, sym, false);
    return own && ptx_reg_add(ps->f, own, type, 1, ret) >= 0 ? 0 : ptx_nomem(ps);
}

/* ---- vector registers -------------------------------------------------------------------------------------------- */
int ptx_vector_add(struct ptx_scope *sc, uint32_t sym, unsigned type, unsigned vec, uint32_t *ret)
{
    uint32_t first = 0, reg;
    for (unsigned k = 0; k < vec; k++) {
        const char *base = sc->sym[sym].name;
        char *name = dt_arena_printf(&sc->arena, vec > 1 ? "%s_%c" : "%s", base, "xyzw"[k & 3]);
        uint32_t each = !name ? DT_NAME_NONE : vec > 1 ? ptx_intern(sc, name, strlen(name)) : sym;
        const char *own = each == DT_NAME_NONE ? NULL : ptx_unique(sc, each, false);
        if (!own || ptx_reg_add(sc->f, own, type, 1, &reg) < 0)
            return DT_E_NOMEM;
        if (!k)
            first = reg;
    }
    *ret = first;
    return 0;
}

int ptx_vector_part(struct ptx_parser *ps, const struct ptx_bind *b, struct ptx_opnd *o)
{
    const struct ptx_tok *t = &ps->lx.t;
    const char *at = t->kind == PTX_TK_DOT && t->len == 1 ? strchr("xyzwrgba", *t->s) : NULL;
    o->comp = -1;
    if (t->kind == PTX_TK_DOT) {
        unsigned k = at ? (unsigned)(at - "xyzwrgba") & 3 : 4;
        if (!at || b->vec < 2 || k >= b->vec)
            return ptx_perr(ps, "%s has no .%.*s", b->vec < 2 ? "what is no vector" : "the vector",
                            t->len > 60 ? 60 : (int)t->len, t->s);
        o->kind = PTX_O_REG;
        o->reg = b->reg + k;
        ptx_next(ps);
        return 0;
    }
    if (b->vec < 2)
        return 0;
    *o = (struct ptx_opnd){.kind = PTX_O_VEC, .comp = -1, .n = b->vec};
    if (!(o->elem = dt_new_array(&ps->m->arena, struct ptx_opnd, b->vec)))
        return ptx_nomem(ps);
    for (unsigned k = 0; k < b->vec; k++)
        o->elem[k] = reg_opnd(b->reg + k);
    return 0;
}

int ptx_lower_moves(struct ptx_parser *ps, const struct ptx_inst *i, struct ptx_opnd *o)
{
    unsigned n = i->vec, type = i->type[0];
    struct ptx_opnd from[8];
    bool special = o[1].kind == PTX_O_SREG && o[1].comp < 0; /* %tid */
    if (o[0].kind != PTX_O_VEC || o[0].n != n || n > 8 || (!special && (o[1].kind != PTX_O_VEC || o[1].n != n)))
        return ptx_perr_at(ps, i->line, i->col, "mov.v%u needs two vectors of %u", n, n);
    for (unsigned k = 0; k < n; k++) {
        from[k] = special ? o[1] : o[1].elem[k];
        if (special)
            from[k].comp = (int8_t)k;
    }
    for (unsigned k = 0; k < n; k++) { /* what an earlier move would overwrite goes to a register of its own first */
        bool late = false;
        for (unsigned j = 0; j < k; j++)
            late |= from[k].kind == PTX_O_REG && o[0].elem[j].kind == PTX_O_REG && from[k].reg == o[0].elem[j].reg;
        if (!late)
            continue;
        uint32_t reg;
        int r = new_reg(ps, "%vec", ps->f->reg[from[k].reg].type, &reg);
        struct ptx_opnd two[2] = {reg_opnd(reg), from[k]};
        struct ptx_inst m = made(i, PTX_OP_MOV, type, 1);
        m.pred = PTX_NO_REG;
        if (r < 0 || (r = lower_append(ps, m, two, 2)) < 0)
            return r;
        from[k] = reg_opnd(reg);
    }
    for (unsigned k = 0; k < n; k++) {
        struct ptx_opnd two[2] = {o[0].elem[k], from[k]};
        int r = two[0].kind == PTX_O_SINK ? 0 : lower_append(ps, made(i, PTX_OP_MOV, type, 1), two, 2);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */
int ptx_lower_sum(struct ptx_parser *ps, struct ptx_opnd *o)
{
    const struct ptx_tok at = ps->lx.t;
    struct ptx_inst like = {.pred = PTX_NO_REG, .line = at.line, .col = at.col};
    unsigned type = ps->f->reg[o->reg].type, bytes = ptx_type_bytes(type);
    struct ptx_opnd add[3] = {{0}, *o, {.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_S64}};
    int64_t n;
    int r = ptx_parse_int(ps, &n);
    if (r < 0)
        return r;
    if (type == PTX_PRED || ptx_type_is_float(type) || (bytes != 2 && bytes != 4 && bytes != 8))
        return ptx_perr_at(ps, at.line, at.col, "a sum needs an integer register");
    uint32_t reg;
    if ((r = new_reg(ps, "%sum", bits_type(bytes), &reg)) < 0)
        return r;
    add[0] = *o = reg_opnd(reg);
    add[2].bits = (uint64_t)n;
    return lower_append(ps, made(&like, PTX_OP_ADD, bytes == 2 ? PTX_S16 : bytes == 4 ? PTX_S32 : PTX_S64, 1), add, 3);
}

/* ---- elements of arrays ------------------------------------------------------------------------------------------ */
/* The address of the element whose index is a register and `n`: instructions that add it up; *ret: their result. */
static int lower_element(struct ptx_parser *ps, const struct ptx_inst *like, const struct ptx_opnd *array,
                         uint32_t index, int64_t n, unsigned wide, uint32_t *ret)
{
    unsigned bytes = ptx_type_bytes(ps->f->reg[index].type), of[] = {bytes, wide, wide};
    uint64_t each = ptx_type_bytes(array->var->type);
    struct ptx_opnd scaled[4] = {{0},
                                 reg_opnd(index),
                                 {.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_U64, .bits = each},
                                 {.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_S64, .bits = each * (uint64_t)n}};
    uint32_t reg[3] = {0};
    int r = 0;
    for (unsigned k = 0; k < 3 && r >= 0; k++)
        r = new_reg(ps, "%at", bits_type(of[k]), &reg[k]);
    if (r < 0)
        return r;
    const struct ptx_opnd part = reg_opnd(reg[0]), offset = reg_opnd(reg[1]), sum = reg_opnd(reg[2]);
    scaled[0] = part;
    struct ptx_inst mad = made(like, PTX_OP_MAD, bytes == 4 ? PTX_U32 : PTX_U64, 1);
    struct ptx_inst cvt = made(like, PTX_OP_CVT, wide == 4 ? PTX_U32 : PTX_U64, 1);
    ptx_set_mod(&mad, PTX_M_LO);
    cvt.type[cvt.ntype++] = bytes == 4 ? PTX_U32 : PTX_U64;
    if ((r = lower_append(ps, mad, scaled, 4)) < 0 ||
        (r = lower_append(ps, cvt, (struct ptx_opnd[]){offset, part}, 2)) < 0 ||
        (r = lower_append(ps, made(like, PTX_OP_MOV, wide == 4 ? PTX_U32 : PTX_U64, 1),
                          (struct ptx_opnd[]){sum, *array}, 2)) < 0)
        return r;
    *ret = reg[2];
    return lower_append(ps, made(like, PTX_OP_ADD, wide == 4 ? PTX_U32 : PTX_U64, 1),
                        (struct ptx_opnd[]){sum, sum, offset}, 3);
}

int ptx_lower_index(struct ptx_parser *ps, const struct ptx_inst *i, struct ptx_opnd *o)
{
    const struct ptx_tok at = ps->lx.t;
    const struct ptx_inst like = {.pred = PTX_NO_REG, .line = i->line, .col = i->col};
    bool memory = i->op == PTX_OP_LD || i->op == PTX_OP_ST;
    struct ptx_bind b = {.kind = PTX_BIND_FUNC};
    int64_t n = 0;
    int r = 0;
    if (!memory && i->op != PTX_OP_MOV && i->op != PTX_OP_CVTA)
        return ptx_perr_at(ps, at.line, at.col, "ld, st, mov and cvta have elements of arrays, no other instruction");
    if (!o->var->is_array || o->var->vec > 1 || o->off)
        return ptx_perr_at(ps, at.line, at.col, "an index wants an array of scalars");
    ptx_next(ps);
    if (ps->lx.t.kind == PTX_TK_IDENT && ptx_lookup(ps->sc, ps->lx.t.s, ps->lx.t.len, &b) < 0)
        return ptx_nomem(ps);
    bool index = ps->lx.t.kind == PTX_TK_IDENT && b.kind == PTX_BIND_REG;
    unsigned bytes = index ? ptx_type_bytes(ps->f->reg[b.reg].type) : 0;
    if (index && (b.vec > 1 || ptx_type_is_float(ps->f->reg[b.reg].type) || (bytes != 4 && bytes != 8)))
        return ptx_perr(ps, "an index is a register of 4 or 8 bytes");
    if (index)
        ptx_next(ps);
    if ((!index || ptx_is(ps, '+')) && (r = ptx_parse_int(ps, &n)) < 0)
        return r;
    if ((r = ptx_expect(ps, ']')) < 0)
        return r;
    if (n > INT32_MAX || n < INT32_MIN)
        return ptx_perr_at(ps, at.line, at.col, "an index of %lld", (long long)n);
    if (index) {
        uint32_t reg = 0;
        if ((r = lower_element(ps, &like, o, b.reg, n, !memory && ptx_type_bytes(i->type[0]) == 4 ? 4 : 8, &reg)) < 0)
            return r;
        *o = memory ? (struct ptx_opnd){.kind = PTX_O_ADDR, .base_kind = PTX_O_REG, .comp = -1, .reg = reg}
                    : reg_opnd(reg);
        return 0;
    }
    o->off = n * (int64_t)ptx_type_bytes(o->var->type);
    if (memory) {
        o->kind = PTX_O_ADDR;
        o->base_kind = PTX_O_VAR;
    }
    return 0;
}

/* ---- arguments that are vectors or predicates -------------------------------------------------------------------- */
/* A variable in .param space: a scalar of the type, or bytes where that is a vector's. */
static struct ptx_var *new_param(struct ptx_parser *ps, struct ptx_function *f, const char *name, unsigned type,
                                 unsigned vec)
{
    struct ptx_var *v = dt_new(&ps->m->arena, struct ptx_var);
    unsigned bytes = type == PTX_PRED ? 4 : ptx_type_bytes(type) * vec;
    if (!v || !(v->dim = dt_arena_alloc(&ps->m->arena, sizeof *v->dim)))
        return NULL;
    v->name = name;
    v->space = PTX_PARAM;
    v->type = vec > 1 ? PTX_B8 : type == PTX_PRED ? PTX_B32 : (uint8_t)type;
    v->vec = 1;
    v->align = bytes;
    v->bytes = *v->dim = bytes;
    v->is_array = vec > 1;
    v->ndim = vec > 1;
    v->owner = f;
    return v;
}

/* A predicate goes through a register: 1 or 0. */
static int move_pred(struct ptx_parser *ps, const struct ptx_inst *like, struct ptx_opnd at, struct ptx_opnd value,
                     bool load)
{
    uint32_t reg;
    int r = new_reg(ps, "%pred", PTX_B32, &reg);
    struct ptx_opnd one = {.kind = PTX_O_IMM, .comp = -1, .imm_type = PTX_S64, .bits = 1}, none = one;
    none.bits = 0;
    struct ptx_opnd move[2] = {load ? reg_opnd(reg) : at, load ? at : reg_opnd(reg)},
                    make[4] = {load ? value : reg_opnd(reg), load ? reg_opnd(reg) : one, none, value};
    struct ptx_inst m = made(like, load ? PTX_OP_LD : PTX_OP_ST, PTX_B32, 1),
                    s = made(like, load ? PTX_OP_SETP : PTX_OP_SELP, load ? PTX_S32 : PTX_B32, 1);
    m.space = PTX_PARAM;
    if (load)
        ptx_set_mod(&s, PTX_M_NE);
    if (r >= 0 && load)
        r = lower_append(ps, m, move, 2);
    if (r >= 0)
        r = lower_append(ps, s, make, load ? 3 : 4);
    return r >= 0 && !load ? lower_append(ps, m, move, 2) : r;
}

static int move_param(struct ptx_parser *ps, const struct ptx_inst *like, struct ptx_var *v, struct ptx_opnd value,
                      bool load)
{
    unsigned vec = value.kind == PTX_O_VEC ? value.n : 1;
    struct ptx_opnd at = {.kind = PTX_O_ADDR, .comp = -1, .base_kind = PTX_O_VAR, .var = v},
                    two[2] = {load ? value : at, load ? at : value};
    if (value.kind == PTX_O_REG && ps->f->reg[value.reg].type == PTX_PRED)
        return move_pred(ps, like, at, value, load);
    struct ptx_inst i = made(like, load ? PTX_OP_LD : PTX_OP_ST, bits_type((unsigned)(v->bytes / vec)), vec);
    i.space = PTX_PARAM;
    return lower_append(ps, i, two, 2);
}

int ptx_lower_args(struct ptx_parser *ps, const struct ptx_inst *i, struct ptx_opnd *list, bool result)
{
    for (unsigned k = 0; k < list->n; k++) {
        struct ptx_opnd *o = &list->elem[k];
        bool pred = o->kind == PTX_O_REG && ps->f->reg[o->reg].type == PTX_PRED;
        if (o->kind != PTX_O_VEC && !pred)
            continue;
        if (o->neg)
            return ptx_perr_at(ps, i->line, i->col, "'!' before an argument");
        uint32_t sym = ptx_intern(ps->sc, "vecarg", 6);
        const char *name = sym == DT_NAME_NONE ? NULL : ptx_unique(ps->sc, sym, false);
        unsigned type = ps->f->reg[pred ? o->reg : o->elem[0].reg].type;
        struct ptx_var *v = name ? new_param(ps, ps->f, name, type, pred ? 1 : o->n) : NULL;
        if (!v || !PTX_GROW(&ps->m->arena, ps->f->var, ps->f->nvar, ps->f->var_cap))
            return ptx_nomem(ps);
        v->index = ps->f->nvar;
        ps->f->var[ps->f->nvar++] = v;
        struct ptx_opnd value = *o;
        *o = (struct ptx_opnd){.kind = PTX_O_VAR, .comp = -1, .var = v};
        if (!result) {
            int r = move_param(ps, i, v, value, false);
            if (r < 0)
                return r;
        } else {
            struct ptx_late *l = dt_new(&ps->m->arena, struct ptx_late);
            if (!l)
                return ptx_nomem(ps);
            *l = (struct ptx_late){v, value, ps->late};
            ps->late = l;
        }
    }
    return 0;
}

int ptx_lower_results(struct ptx_parser *ps, const struct ptx_inst *i)
{
    int r = 0;
    for (; ps->late && r >= 0; ps->late = ps->late->next)
        r = move_param(ps, i, ps->late->var, ps->late->value, true);
    ps->late = NULL;
    return r;
}

/* ---- parameters in registers ------------------------------------------------------------------------------------- */
int ptx_parse_reg_param(struct ptx_parser *ps, struct ptx_function *f, const struct ptx_tok *t, unsigned type,
                        unsigned vec, bool result, struct ptx_var **ret)
{
    struct ptx_scope *sc = ps->sc;
    unsigned bytes = type == PTX_PRED ? 4 : ptx_type_bytes(type);
    if ((type == PTX_PRED && vec > 1) || bits_type(bytes) == PTX_T_NONE || bytes * vec > 16)
        return ptx_perr_at(ps, t->line, t->col, "a parameter in a register has up to 64 bits, a vector 128");
    bool nameless = t->len == 1 && *t->s == '_';
    uint32_t sym = ptx_intern(sc, t->s, t->len), reg = 0;
    if (sym == DT_NAME_NONE || (!nameless && ptx_vector_add(sc, sym, type, vec, &reg) < 0))
        return ptx_nomem(ps);
    int r = nameless ? 0
                     : ptx_bind_add(sc, sc->depth, sym,
                                    (struct ptx_bind){.kind = PTX_BIND_REG, .reg = reg, .vec = (uint8_t)vec});
    if (r == 1)
        return ptx_perr_at(ps, t->line, t->col, "%.*s is declared twice", (int)t->len, t->s);
    const char *name = nameless ? sc->sym[sym].name : ptx_unique(sc, sym, false);
    struct ptx_var *v = name && r >= 0 ? new_param(ps, f, name, type, vec) : NULL;
    struct ptx_reg_param *p = dt_new(&ps->m->arena, struct ptx_reg_param);
    if (!v || !p)
        return ptx_nomem(ps);
    *p = (struct ptx_reg_param){v, reg, (uint8_t)vec, result, ps->reg_param};
    ps->reg_param = p;
    *ret = v;
    return 0;
}

int ptx_lower_params(struct ptx_parser *ps, const struct ptx_inst *like, bool results)
{
    struct ptx_inst at = {.pred = PTX_NO_REG, .line = ps->lx.t.line, .col = ps->lx.t.col};
    int r = 0;
    for (const struct ptx_reg_param *p = ps->reg_param; p && r >= 0; p = p->next) {
        struct ptx_opnd value = reg_opnd(p->reg);
        struct ptx_bind b = {.vec = p->vec, .reg = p->reg};
        if (p->result != results)
            continue;
        if (p->vec > 1) {
            value = (struct ptx_opnd){.kind = PTX_O_VEC, .comp = -1, .n = p->vec};
            if (!(value.elem = dt_new_array(&ps->m->arena, struct ptx_opnd, p->vec)))
                return ptx_nomem(ps);
            for (unsigned k = 0; k < p->vec; k++)
                value.elem[k] = reg_opnd(b.reg + k);
        }
        r = move_param(ps, like ? like : &at, p->var, value, !results);
    }
    return r;
}

int ptx_lower_prototype(struct ptx_parser *ps, struct ptx_inst *i)
{
    struct dt_str s = {0};
    const char *t = i->text;
    int r = 0;
    for (const char *at; r >= 0 && (at = strstr(t, ".reg")); t = at + 4) {
        const char *vec = at + 4 + strspn(at + 4, " ");
        if (!strncmp(vec, ".v", 2) || !strncmp(vec, ".pred", 5))
            r = ptx_perr_at(ps, i->line, i->col, "a prototype with a vector or a predicate in a register");
        dt_str_addn(&s, t, (size_t)(at - t));
        dt_str_add(&s, ".param");
    }
    dt_str_add(&s, t);
    if (r >= 0 && t != i->text && (s.failed || !(i->text = dt_arena_strdup(&ps->m->arena, s.s))))
        r = ptx_nomem(ps);
    dt_str_done(&s);
    return r;
}

int ptx_lower_end(struct ptx_parser *ps)
{
    const struct ptx_function *f = ps->f;
    const struct ptx_inst *last = f->ninst ? &f->inst[f->ninst - 1] : NULL;
    if (last && last->pred == PTX_NO_REG && (last->op == PTX_OP_RET || last->op == PTX_OP_EXIT))
        return 0;
    return ptx_lower_params(ps, NULL, true);
}

/* ---- variables of a function that outlive it --------------------------------------------------------------------- */
const char *ptx_lower_static(struct ptx_parser *ps, const struct ptx_tok *t, struct ptx_var *v)
{
    struct ptx_scope *sc = ps->sc;
    for (unsigned k = 0; k < 1000; k++) {
        char *name = k ? dt_arena_printf(&sc->arena, "%s$%.*s$%u", ps->f->name, (int)t->len, t->s, k)
                       : dt_arena_printf(&sc->arena, "%s$%.*s", ps->f->name, (int)t->len, t->s);
        uint32_t sym = name ? ptx_intern(sc, name, strlen(name)) : DT_NAME_NONE;
        if (sym == DT_NAME_NONE)
            return NULL;
        if (sc->sym[sym].bind)
            continue;
        return ptx_bind_add(sc, 0, sym, (struct ptx_bind){.kind = PTX_BIND_VAR, .var = v}) < 0 ? NULL
                                                                                               : sc->sym[sym].name;
    }
    return NULL;
}
