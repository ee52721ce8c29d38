/* Statements of a function body: instructions, labels, local directives (§4.3, §9.2).
 *
 * An instruction is read as words (mnemonic, then modifiers, types and spaces in any order) and operands. What a row of
 * ops.def says about words decides between known and opaque: an unknown mnemonic, or a word its row does not allow,
 * makes the statement opaque; wrong operands of a known instruction are errors. Operand classes are checked by
 * verify.c. Nested `{ }` are read in a loop, not by recursion.
 */
#include <string.h>

#include "ptx/ptx-priv.h"

#define MAX_WORDS 24
#define MAX_OPND 16
#define MAX_INST (1u << 23)

struct word {
    const char *s;
    uint32_t len;
};

static struct ptx_inst *parse_inst_append(struct ptx_parser *ps, const struct ptx_inst *i)
{
    struct ptx_function *f = ps->f;
    if (!PTX_GROW(&ps->m->arena, f->inst, f->ninst, f->inst_cap))
        return NULL;
    f->inst[f->ninst] = *i;
    return &f->inst[f->ninst++];
}

static int parse_inst_add(struct ptx_parser *ps, struct ptx_inst *i, const struct ptx_opnd *o, unsigned n)
{
    i->nopnd = (uint16_t)n;
    if (n) {
        i->opnd = dt_arena_alloc(&ps->m->arena, n * sizeof *o);
        if (!i->opnd)
            return ptx_nomem(ps);
        memcpy(i->opnd, o, n * sizeof *o);
    }
    return parse_inst_append(ps, i) ? 0 : ptx_nomem(ps);
}

/* ---- operands */

/* A constant of f64 where f32 is meant. */
static void narrow_float(struct ptx_opnd *o)
{
    if (o->kind != PTX_O_IMM || o->imm_type != PTX_F64)
        return;
    double d;
    memcpy(&d, &o->bits, 8);
    float f = (float)d;
    uint32_t b;
    memcpy(&b, &f, 4);
    o->bits = b;
    o->imm_type = PTX_F32;
}

static int component(struct ptx_parser *ps, struct ptx_opnd *o)
{
    struct ptx_tok *t = &ps->lx.t;
    o->comp = -1;
    if (t->kind != PTX_TK_DOT)
        return 0;
    const char *at = t->len == 1 ? strchr("xyzwrgba", *t->s) : NULL;
    if (!at)
        return ptx_unexpected(ps, ".x, .y, .z or .w");
    o->comp = (int8_t)((at - "xyzwrgba") & 3);
    ptx_next(ps);
    return 0;
}

static int selector(struct ptx_parser *ps, struct ptx_opnd *o)
{
    struct ptx_tok *t = &ps->lx.t;
    o->comp = -1;
    if (t->kind != PTX_TK_DOT)
        return 0;
    *ps->sel = ptx_sel_parse(t->s, t->len);
    if (!*ps->sel)
        return ptx_unexpected(ps, "a selector as .b3210 or .h10");
    ptx_next(ps);
    return 0;
}

static int offset(struct ptx_parser *ps, struct ptx_opnd *o)
{
    if (!ptx_is(ps, '+') && !ptx_is(ps, '-'))
        return 0;
    return ptx_parse_int(ps, &o->off);
}

static int named(struct ptx_parser *ps, struct ptx_opnd *o)
{
    struct ptx_tok t = ps->lx.t;
    if (t.len == 1 && *t.s == '_') {
        o->kind = PTX_O_SINK;
        ptx_next(ps);
        return 0;
    }
    struct ptx_bind b;
    if (ptx_lookup(ps->sc, t.s, t.len, &b) < 0)
        return ptx_nomem(ps);
    switch (b.kind) {
    case PTX_BIND_REG:
        o->kind = PTX_O_REG;
        o->reg = b.reg;
        ptx_next(ps);
        if (ps->sel && b.vec < 2)
            return selector(ps, o);
        return ptx_vector_part(ps, &b, o);
    case PTX_BIND_VAR:
        o->kind = PTX_O_VAR;
        o->var = b.var;
        ptx_next(ps);
        return offset(ps, o);
    case PTX_BIND_FUNC:
        o->kind = PTX_O_FUNC;
        o->func = b.func;
        ptx_next(ps);
        return 0;
    }
    if (*t.s == '%') {
        o->sreg = (uint16_t)ptx_sreg_find(t.s + 1, t.len - 1);
        if (o->sreg) {
            o->kind = PTX_O_SREG;
            ptx_next(ps);
            return component(ps, o);
        }
    } else if (t.len == 7 && !memcmp(t.s, "WARP_SZ", 7)) {
        o->kind = PTX_O_IMM;
        return ptx_parse_const(ps, &o->bits, &o->imm_type);
    }
    return ptx_perr(ps, "%.*s is not declared", t.len > 200 ? 200 : (int)t.len, t.s);
}

static int parse_inst_scalar(struct ptx_parser *ps, struct ptx_opnd *o)
{
    *o = (struct ptx_opnd){.comp = -1};
    if (ps->lx.t.kind == PTX_TK_IDENT)
        return named(ps, o);
    if (ptx_is(ps, '!')) {
        ptx_next(ps);
        if (ps->lx.t.kind != PTX_TK_IDENT)
            return ptx_unexpected(ps, "a predicate");
        int r = named(ps, o);
        if (r >= 0 && o->kind != PTX_O_REG)
            return ptx_perr(ps, "'!' needs a predicate register");
        o->neg = 1;
        return r;
    }
    o->kind = PTX_O_IMM;
    return ptx_parse_const(ps, &o->bits, &o->imm_type);
}

/* Elements up to the closing character, which is eaten; the opening one is eaten already. */
static int parse_inst_list(struct ptx_parser *ps, char close, struct ptx_opnd *o)
{
    struct ptx_opnd buf[255];
    unsigned n = 0;
    int r = 0;
    while (!ptx_is(ps, close)) {
        if (n == 255)
            return ptx_perr(ps, "more than 255 elements");
        if ((r = parse_inst_scalar(ps, &buf[n])) < 0)
            return r;
        if (buf[n++].kind == PTX_O_VEC && close == '}')
            return ptx_perr(ps, "a vector inside a vector");
        if (!ptx_is(ps, close) && (r = ptx_expect(ps, ',')) < 0)
            return r;
    }
    ptx_next(ps);
    o->n = (uint8_t)n;
    o->elem = NULL;
    if (n) {
        o->elem = dt_arena_alloc(&ps->m->arena, n * sizeof *buf);
        if (!o->elem)
            return ptx_nomem(ps);
        memcpy(o->elem, buf, n * sizeof *buf);
    }
    return 0;
}

static int parse_inst_address(struct ptx_parser *ps, struct ptx_opnd *o)
{
    *o = (struct ptx_opnd){.kind = PTX_O_ADDR, .comp = -1};
    struct ptx_tok t = ps->lx.t;
    int r;
    if (t.kind == PTX_TK_IDENT) {
        struct ptx_bind b;
        if (ptx_lookup(ps->sc, t.s, t.len, &b) < 0)
            return ptx_nomem(ps);
        if (b.kind == PTX_BIND_REG && b.vec > 1) {
            return ptx_perr(ps, "%.*s is a vector", t.len > 200 ? 200 : (int)t.len, t.s);
        } else if (b.kind == PTX_BIND_REG) {
            o->base_kind = PTX_O_REG;
            o->reg = b.reg;
        } else if (b.kind == PTX_BIND_VAR) {
            o->base_kind = PTX_O_VAR;
            o->var = b.var;
        } else {
            return ptx_perr(ps, "%.*s is not declared", t.len > 200 ? 200 : (int)t.len, t.s);
        }
        ptx_next(ps);
        if ((r = offset(ps, o)) < 0)
            return r;
    } else if ((r = ptx_parse_int(ps, &o->off)) < 0) {
        return r;
    }
    if (ptx_is(ps, ',') && o->base_kind == PTX_O_REG) {
        ptx_next(ps);
        if ((r = ptx_expect(ps, '{')) < 0 || (r = parse_inst_list(ps, '}', o)) < 0)
            return r;
        if (!o->n)
            return ptx_perr(ps, "no coordinates");
    }
    return ptx_expect(ps, ']');
}

/* Behind the `[` of a texture or surface: its name, a sampler, coordinates, which may be one without braces. */
static int parse_inst_texture(struct ptx_parser *ps, struct ptx_opnd *o, bool floats)
{
    struct ptx_opnd list = {0}, name[3];
    unsigned n = 0;
    int r = 0;
    *o = (struct ptx_opnd){.kind = PTX_O_TEXTURE, .comp = -1};
    while (r >= 0 && n < 3 && !ptx_is(ps, '{') && (r = parse_inst_scalar(ps, &name[n++])) >= 0 && ptx_is(ps, ','))
        ptx_next(ps);
    if (r >= 0 && ptx_is(ps, '{')) {
        ptx_next(ps);
        r = parse_inst_list(ps, '}', &list);
    } else if (r >= 0 && n > 1 && name[n - 1].kind == PTX_O_VEC) { /* a vector register */
        list = name[--n];
    } else if (r >= 0 && n > 1) { /* the coordinate */
        list = (struct ptx_opnd){.n = 1, .elem = &name[--n]};
    }
    if (r < 0 || (r = ptx_expect(ps, ']')) < 0)
        return r;
    if (!n || n > 2 || (n == 2 && !list.n) || list.n > 4)
        return ptx_perr(ps, "a texture or surface with %u names and %u coordinates", n, list.n);
    if (n == 2)
        o->base_kind = name[1].kind;
    o->n = (uint8_t)(n + list.n);
    o->elem = dt_arena_alloc(&ps->m->arena, o->n * sizeof *o->elem);
    if (!o->elem)
        return ptx_nomem(ps);
    memcpy(o->elem, name, n * sizeof *name);
    for (unsigned k = 0; k < list.n; k++) {
        o->elem[n + k] = list.elem[k];
        if (floats)
            narrow_float(&o->elem[n + k]);
    }
    return 0;
}

static int parse_inst_operand(struct ptx_parser *ps, struct ptx_opnd *o, bool label)
{
    if (label) {
        struct ptx_tok *t = &ps->lx.t;
        if (t->kind != PTX_TK_IDENT)
            return ptx_unexpected(ps, "a label");
        *o = (struct ptx_opnd){.kind = PTX_O_LABEL, .comp = -1};
        if (ptx_label_ref(ps->sc, t->s, t->len, t->line, t->col, &o->label) < 0)
            return ptx_nomem(ps);
        ptx_next(ps);
        return 0;
    }
    if (ptx_is(ps, '[')) {
        ptx_next(ps);
        return parse_inst_address(ps, o);
    }
    if (ptx_is(ps, '{')) {
        ptx_next(ps);
        *o = (struct ptx_opnd){.kind = PTX_O_VEC, .comp = -1};
        return parse_inst_list(ps, '}', o);
    }
    int r = parse_inst_scalar(ps, o);
    return r >= 0 && o->kind == PTX_O_REG && !o->neg && !ps->dst && ptx_is(ps, '+') ? ptx_lower_sum(ps, o) : r;
}

/* (returns), target, (arguments), prototype; */
static int call_operands(struct ptx_parser *ps, struct ptx_opnd *o, unsigned *n)
{
    int r;
    o[0] = (struct ptx_opnd){.kind = PTX_O_VEC, .comp = -1};
    o[2] = o[0];
    if (ptx_is(ps, '(')) {
        ptx_next(ps);
        if ((r = parse_inst_list(ps, ')', &o[0])) < 0 || (r = ptx_expect(ps, ',')) < 0)
            return r;
    }
    if (ps->lx.t.kind != PTX_TK_IDENT)
        return ptx_unexpected(ps, "a function");
    struct ptx_tok t = ps->lx.t;
    if ((r = parse_inst_scalar(ps, &o[1])) < 0)
        return r;
    if (o[1].kind != PTX_O_FUNC && o[1].kind != PTX_O_REG)
        return ptx_perr_at(ps, t.line, t.col, "a call needs a function or a register");
    *n = 3;
    bool args = false;
    while (ptx_is(ps, ',')) {
        ptx_next(ps);
        if (ptx_is(ps, '(') && !args && *n == 3) {
            ptx_next(ps);
            args = true;
            if ((r = parse_inst_list(ps, ')', &o[2])) < 0)
                return r;
        } else if (*n == 3) {
            if ((r = parse_inst_operand(ps, &o[(*n)++], true)) < 0)
                return r;
        } else {
            return ptx_unexpected(ps, "';'");
        }
    }
    return 0;
}

/* ---- words */

static enum ptx_op find_op(const struct word *w, unsigned n, unsigned *ret_used)
{
    unsigned longest;
    enum ptx_op op = ptx_mnemonic_find(w[0].s, w[0].len, &longest), found;
    *ret_used = 1;
    if (longest <= 1)
        return op;
    char buf[80];
    for (unsigned k = n < longest ? n : longest; k > 1; k--) {
        size_t len = 0;
        unsigned j = 0, unused;
        for (; j < k && len + w[j].len + 1 < sizeof buf; j++) {
            if (j)
                buf[len++] = '.';
            memcpy(buf + len, w[j].s, w[j].len);
            len += w[j].len;
        }
        if (j == k && (found = ptx_mnemonic_find(buf, len, &unused)) != PTX_OP_COUNT) {
            *ret_used = k;
            return found;
        }
    }
    return op;
}

/* Put one word into the instruction; false: its row does not have it. */
static bool put_word(struct ptx_inst *i, const struct ptx_op_info *info, struct word w, unsigned *nspace)
{
    struct ptx_word x = ptx_word_find(w.s, w.len);
    if (x.kind == PTX_W_TYPE) {
        int max = info->ntype < 0 ? -info->ntype : info->ntype;
        if (i->ntype >= max)
            return false;
        uint64_t allowed = i->ntype == 0 ? info->types0 : info->types1;
        if (allowed && !(allowed >> x.value & 1))
            return false;
        i->type[i->ntype++] = x.value;
        return true;
    }
    if (x.kind == PTX_W_SPACE) {
        if (*nspace == 0 && info->flags & PTX_F_SPACE)
            i->space = x.value;
        else if (*nspace == 1 && info->flags & PTX_F_SPACE2)
            i->space2 = x.value;
        else
            return false;
        ++*nspace;
        return true;
    }
    if (x.kind != PTX_W_MOD)
        return false;
    enum ptx_mod m = x.value;
    enum ptx_mod_class c = ptx_mod_class(m);
    if (!(info->mods >> c & 1))
        return false;
    if (ptx_has(i, m) && (c == PTX_MC_SAT || c == PTX_MC_SYNC || c == PTX_MC_RELU || c == PTX_MC_NANP ||
                          c == PTX_MC_CC || m == PTX_M_APPROX))
        return true; /* ptxas takes these twice */
    if (c == PTX_MC_VEC)
        i->vec = m == PTX_M_V2 ? 2 : m == PTX_M_V4 ? 4 : 8;
    if (c == PTX_MC_LAYOUT) {
        enum ptx_mod first = ptx_mod_of(i, c);
        if (first != PTX_M_NONE) { /* the second of two layouts */
            if (first != PTX_M_ROW && first != PTX_M_COL)
                return false;
            ptx_clear_mod(i, first);
            m = first == PTX_M_ROW ? (m == PTX_M_ROW ? PTX_M_ROW_ROW : PTX_M_ROW_COL)
                                   : (m == PTX_M_ROW ? PTX_M_COL_ROW : PTX_M_COL_COL);
        }
    } else if (!(info->flags & PTX_F_ORDERED) && ptx_mod_of(i, c) != PTX_M_NONE) {
        return false;
    }
    return ptx_set_mod(i, m);
}

/* ---- statements */

/* The tokens up to `;` as text, white space folded; names are resolved (and collected) when `o` is given. The first
 * token's text may lack its dot, which `dot` says. */
static int verbatim(struct ptx_parser *ps, struct ptx_opnd **o, unsigned *n, const char **ret)
{
    struct dt_str s = {0};
    const char *end = NULL;
    uint32_t cap = 0;
    bool first = true;
    int r = 0;
    bool again = false; /* the token at hand has not been read yet */
    for (; !ptx_is(ps, ';'); again ? (void)(again = false) : ptx_next(ps), first = false) {
        struct ptx_tok t = ps->lx.t;
        if (t.kind == PTX_TK_EOF || t.kind == PTX_TK_BAD) {
            r = ptx_unexpected(ps, "';'");
            break;
        }
        const char *from = t.kind == PTX_TK_DOT ? t.s - 1 : t.s;
        if (end && from != end)
            dt_str_addc(&s, ' ');
        end = t.s + t.len;
        struct ptx_bind b = {0};
        if (o && !first && t.kind == PTX_TK_IDENT && (r = ptx_lookup(ps->sc, t.s, t.len, &b)) < 0)
            break;
        if (b.kind == PTX_BIND_NONE && o && !first && t.kind == PTX_TK_IDENT) {
            uint32_t sym = ptx_intern(ps->sc, t.s, t.len);
            if (sym == DT_NAME_NONE) {
                r = ptx_nomem(ps);
                break;
            }
            if (*t.s == '%' ? !ptx_sreg_find(t.s + 1, t.len - 1) : ps->sc->sym[sym].taken == ps->sc->serial) {
                r = ptx_perr(ps, "%.*s is not declared here", t.len > 200 ? 200 : (int)t.len, t.s);
                break;
            }
            ps->sc->sym[sym].mentioned = ps->sc->serial;
        }
        if (b.kind == PTX_BIND_NONE) {
            dt_str_addn(&s, from, (size_t)(end - from));
            continue;
        }
        if (b.kind == PTX_BIND_REG && b.vec > 1) { /* its registers, or the one that is named */
            struct ptx_opnd v;
            ptx_next(ps);
            if ((r = ptx_vector_part(ps, &b, &v)) < 0)
                break;
            bool all = v.kind == PTX_O_VEC;
            dt_str_add(&s, all ? "{" : "");
            for (unsigned k = 0; k < (all ? b.vec : 1u) && r >= 0; k++) {
                uint32_t reg = all ? b.reg + k : v.reg;
                dt_str_addf(&s, "%s%s", k ? ", " : "", ps->f->reg[reg].name);
                if (*n == UINT16_MAX || !PTX_GROW(&ps->m->arena, *o, *n, cap))
                    r = ptx_nomem(ps);
                else
                    (*o)[(*n)++] = (struct ptx_opnd){.comp = -1, .kind = PTX_O_REG, .reg = reg};
            }
            dt_str_add(&s, all ? "}" : "");
            end = NULL; /* what follows stands behind it without a space, if the text has none */
            if (r < 0)
                break;
            again = true;
            continue;
        }
        struct ptx_opnd x = {.comp = -1, .kind = PTX_O_REG, .reg = b.reg};
        if (b.kind == PTX_BIND_VAR) {
            x.kind = PTX_O_VAR;
            x.var = b.var;
        } else if (b.kind == PTX_BIND_FUNC) {
            x.kind = PTX_O_FUNC;
            x.func = b.func;
        }
        dt_str_add(&s, b.kind == PTX_BIND_REG   ? ps->f->reg[b.reg].name
                       : b.kind == PTX_BIND_VAR ? b.var->name
                                                : b.func->name);
        if (*n == UINT16_MAX) {
            r = ptx_perr(ps, "too many operands");
            break;
        }
        if (!PTX_GROW(&ps->m->arena, *o, *n, cap)) {
            r = ptx_nomem(ps);
            break;
        }
        (*o)[(*n)++] = x;
    }
    if (r >= 0) {
        *ret = s.failed || !s.s ? NULL : dt_arena_strndup(&ps->m->arena, s.s, s.len);
        r = *ret ? 0 : s.s || s.failed ? ptx_nomem(ps) : ptx_unexpected(ps, "a statement");
    }
    dt_str_done(&s);
    if (r >= 0)
        ptx_next(ps);
    return r == DT_E_NOMEM ? ptx_nomem(ps) : r;
}

static int opaque(struct ptx_parser *ps, struct ptx_inst *i, const struct ptx_lexer *start)
{
    struct ptx_inst x = {
        .op = PTX_OP_OPAQUE, .vec = 1, .pred = i->pred, .pred_neg = i->pred_neg, .line = i->line, .col = i->col};
    unsigned n = 0;
    ps->lx = *start;
    int r = verbatim(ps, &x.opnd, &n, &x.text);
    if (r < 0)
        return r;
    x.nopnd = (uint16_t)n;
    return parse_inst_append(ps, &x) ? 0 : ptx_nomem(ps);
}

/* Operands against the shape's count: 0 fits. */
static int count_fits(const char *shape, unsigned n, bool dst2)
{
    unsigned min = 0, max = 0;
    for (; *shape; shape++) {
        if (*shape == 'q') {
            min += dst2;
            max += dst2;
        } else if (*shape == '?') {
            shape++;
            max++;
        } else {
            min++;
            max++;
        }
    }
    return n >= min && n <= max;
}

static void narrow_floats(struct ptx_inst *i, struct ptx_opnd *o, unsigned n)
{
    for (unsigned k = 0; k < i->ntype; k++)
        if (i->type[k] != PTX_F32)
            return;
    for (unsigned k = 0; i->ntype && k < n; k++)
        narrow_float(&o[k]);
}

static int instruction(struct ptx_parser *ps, uint32_t pred, bool neg)
{
    struct ptx_lexer start = ps->lx;
    struct ptx_inst i = {.vec = 1, .pred = pred, .pred_neg = neg, .line = start.t.line, .col = start.t.col};
    if (start.t.kind != PTX_TK_IDENT || *start.t.s == '%')
        return ptx_unexpected(ps, "an instruction");
    struct word w[MAX_WORDS];
    unsigned n = 0, used, nspace = 0;
    w[n++] = (struct word){start.t.s, start.t.len};
    for (ptx_next(ps); ps->lx.t.kind == PTX_TK_DOT; ptx_next(ps)) {
        if (n == MAX_WORDS)
            return ptx_perr(ps, "too many modifiers");
        w[n++] = (struct word){ps->lx.t.s, ps->lx.t.len};
    }
    enum ptx_op op = find_op(w, n, &used);
    if (op == PTX_OP_COUNT)
        return opaque(ps, &i, &start);
    const struct ptx_op_info *info = ptx_op_info(op);
    i.op = (uint16_t)op;
    for (unsigned k = used; k < n; k++)
        if (!put_word(&i, info, w[k], &nspace))
            return opaque(ps, &i, &start);
    if (i.ntype < (info->ntype < 0 ? 1 : info->ntype))
        return ptx_perr_at(ps, i.line, i.col, "%s needs a type", info->mnemonic);

    struct ptx_opnd o[MAX_OPND];
    unsigned no = 0;
    uint16_t sel[PTX_SELS] = {0};
    uint64_t minus = 0;
    bool video = ptx_video_lanes(op) > 0;
    int r;
    if (op == PTX_OP_CALL) {
        if ((r = call_operands(ps, o, &no)) < 0)
            return r;
    } else if (!ptx_is(ps, ';')) {
        for (;;) {
            if (no == MAX_OPND)
                return ptx_perr(ps, "too many operands");
            ps->sel = video && no < PTX_SELS ? &sel[no] : NULL;
            if (op == PTX_OP_VMAD && no && no < 4 && ptx_is(ps, '-') &&
                !strchr("0123456789(-+", ptx_lex_peek(&ps->lx))) {
                minus |= UINT64_C(1) << (PTX_SEL_NEG_A + no - 1);
                ptx_next(ps);
            }
            ps->dst = no < (info->flags & PTX_F_NODST ? 0u : 1u + i.dst2);
            bool texture = info->flags & PTX_F_TEXTURE && ptx_is(ps, '[');
            if (texture)
                ptx_next(ps);
            r = texture ? parse_inst_texture(ps, &o[no], i.ntype > 1 && i.type[1] == PTX_F32)
                        : parse_inst_operand(ps, &o[no], op == PTX_OP_BRA || (op == PTX_OP_BRX_IDX && no == 1));
            if (r < 0)
                return r;
            if (o[no].kind == PTX_O_VAR && ptx_is(ps, '[') && (r = ptx_lower_index(ps, &i, &o[no])) < 0)
                return r;
            no++;
            if (no == 1 && ptx_is(ps, '|') && info->flags & PTX_F_DST2) {
                i.dst2 = 1;
            } else if (!ptx_is(ps, ',')) {
                break;
            }
            ptx_next(ps);
        }
    }
    ps->sel = NULL;
    if ((r = ptx_expect(ps, ';')) < 0)
        return r;
    if (video && no < MAX_OPND) {
        o[no] = ptx_sel_opnd(sel);
        o[no++].bits |= minus;
    }
    if (op != PTX_OP_CALL && !count_fits(info->shape, no, i.dst2))
        return ptx_perr_at(ps, i.line, i.col, "wrong number of operands for %s", info->mnemonic);
    narrow_floats(&i, o, no);
    if (op == PTX_OP_MOV && i.vec > 1)
        return ptx_lower_moves(ps, &i, o);
    if (op == PTX_OP_RET && (r = ptx_lower_params(ps, &i, true)) < 0)
        return r;
    if (op == PTX_OP_CALL &&
        ((r = ptx_lower_args(ps, &i, &o[2], false)) < 0 || (r = ptx_lower_args(ps, &i, &o[0], true)) < 0))
        return r;
    r = parse_inst_add(ps, &i, o, no);
    return r >= 0 ? ptx_lower_results(ps, &i) : r;
}

static int guarded(struct ptx_parser *ps)
{
    bool neg = false;
    ptx_next(ps);
    if (ptx_is(ps, '!')) {
        neg = true;
        ptx_next(ps);
    }
    struct ptx_tok t = ps->lx.t;
    if (t.kind != PTX_TK_IDENT)
        return ptx_unexpected(ps, "a predicate");
    struct ptx_bind b;
    if (ptx_lookup(ps->sc, t.s, t.len, &b) < 0)
        return ptx_nomem(ps);
    if (b.kind != PTX_BIND_REG || b.vec > 1)
        return ptx_perr(ps, "%.*s is not a register", t.len > 200 ? 200 : (int)t.len, t.s);
    ptx_next(ps);
    return instruction(ps, b.reg, neg);
}

/* `name:`, and what may hang on it: .branchtargets, .calltargets, .callprototype */
static int label(struct ptx_parser *ps)
{
    struct ptx_tok t = ps->lx.t;
    struct ptx_inst i = {.op = PTX_OP_LABEL, .vec = 1, .pred = PTX_NO_REG, .line = t.line, .col = t.col};
    struct ptx_opnd name = {.kind = PTX_O_LABEL, .comp = -1};
    int r = *t.s == '%' ? 1 : ptx_label_def(ps->sc, t.s, t.len, t.line, t.col, &name.label);
    if (r == 1)
        return ptx_perr(ps, "label %.*s %s", t.len > 200 ? 200 : (int)t.len, t.s,
                        *t.s == '%' ? "starts with a percent sign" : "is defined twice");
    if (r < 0)
        return ptx_nomem(ps);
    ptx_next(ps);
    ptx_next(ps);
    if (ptx_is_dot(ps, "callprototype")) {
        i.op = PTX_OP_CALLPROTO;
        r = verbatim(ps, NULL, NULL, &i.text);
        if (r >= 0)
            r = ptx_lower_prototype(ps, &i);
        return r < 0 ? r : parse_inst_add(ps, &i, &name, 1);
    }
    bool calls = ptx_is_dot(ps, "calltargets");
    if (!calls && !ptx_is_dot(ps, "branchtargets"))
        return parse_inst_add(ps, &i, &name, 1);
    i.op = PTX_OP_BRANCHTARGETS;
    struct ptx_opnd *o = NULL;
    uint32_t n = 0, cap = 0;
    do {
        ptx_next(ps); /* the directive, then each comma */
        if (!n) {
            if (!PTX_GROW(&ps->m->arena, o, n, cap))
                return ptx_nomem(ps);
            o[n++] = name;
        }
        if (n == UINT16_MAX)
            return ptx_perr(ps, "too many targets");
        if (!PTX_GROW(&ps->m->arena, o, n, cap))
            return ptx_nomem(ps);
        struct ptx_tok at = ps->lx.t;
        if ((r = parse_inst_operand(ps, &o[n++], !calls)) < 0)
            return r;
        if (calls && o[n - 1].kind != PTX_O_FUNC)
            return ptx_perr_at(ps, at.line, at.col, "a function is wanted here");
    } while (ptx_is(ps, ','));
    if ((r = ptx_expect(ps, ';')) < 0)
        return r;
    i.opnd = o;
    i.nopnd = (uint16_t)n;
    return parse_inst_append(ps, &i) ? 0 : ptx_nomem(ps);
}

static int pragma(struct ptx_parser *ps)
{
    struct ptx_inst i = {.op = PTX_OP_PRAGMA, .vec = 1, .pred = PTX_NO_REG, .line = ps->lx.t.line, .col = ps->lx.t.col};
    ptx_next(ps);
    int r = verbatim(ps, NULL, NULL, &i.text);
    return r < 0 ? r : parse_inst_add(ps, &i, NULL, 0);
}

static int directive(struct ptx_parser *ps)
{
    bool debug;
    int r = ptx_parse_debug(ps, &debug);
    if (r < 0 || debug)
        return r;
    if (ptx_is_dot(ps, "reg")) {
        ptx_next(ps);
        return ptx_parse_reg(ps);
    }
    if (ptx_is_dot(ps, "pragma"))
        return pragma(ps);
    struct ptx_linkage l = {0};
    if (ptx_is_dot(ps, "extern")) {
        l.is_extern = true;
        ptx_next(ps);
    }
    struct ptx_word w = {0};
    if (ps->lx.t.kind == PTX_TK_DOT)
        w = ptx_word_find(ps->lx.t.s, ps->lx.t.len);
    if (w.kind == PTX_W_SPACE && (w.value == PTX_SHARED || w.value == PTX_LOCAL || w.value == PTX_PARAM ||
                                  w.value == PTX_GLOBAL || w.value == PTX_CONST)) {
        ptx_next(ps);
        return ptx_parse_var(ps, l, w.value);
    }
    return ptx_unexpected(ps, "a statement");
}

int ptx_parse_body(struct ptx_parser *ps, bool text)
{
    unsigned base = ps->sc->depth;
    for (;;) {
        const struct ptx_tok *t = &ps->lx.t;
        int r = 0;
        if (ps->m->arena.used + ps->sc->arena.used > PTX_MAX_ARENA || ps->f->ninst >= MAX_INST)
            return dt_err_set(ps->e, DT_E_TOO_LARGE, "line %u, column %u: the module is too large", t->line, t->col);
        if (t->kind == PTX_TK_IDENT) {
            r = ptx_lex_peek(&ps->lx) == ':' ? label(ps) : instruction(ps, PTX_NO_REG, false);
        } else if (t->kind == PTX_TK_DOT) {
            r = directive(ps);
        } else if (ptx_is(ps, '@')) {
            r = guarded(ps);
        } else if (ptx_is(ps, '{')) {
            if (ptx_scope_open(ps->sc))
                return ptx_perr(ps, "more than %d nested scopes", PTX_MAX_DEPTH);
            ptx_next(ps);
        } else if (ptx_is(ps, '}') && ps->sc->depth > base) {
            ptx_scope_close(ps->sc);
            ptx_next(ps);
        } else if (text ? t->kind == PTX_TK_EOF && ps->sc->depth == base : ptx_is(ps, '}')) {
            return 0;
        } else {
            return ptx_unexpected(ps, ps->sc->depth > base || !text ? "a statement or '}'" : "a statement");
        }
        if (r < 0)
            return r;
    }
}

static void final_label(const struct ptx_scope *sc, struct ptx_opnd *o)
{
    if (o->kind == PTX_O_LABEL)
        o->label = ptx_label_final(sc, o->label);
}

void ptx_finish_labels(struct ptx_parser *ps, uint32_t first_inst)
{
    for (uint32_t i = first_inst; i < ps->f->ninst; i++)
        for (unsigned k = 0; k < ps->f->inst[i].nopnd; k++)
            final_label(ps->sc, &ps->f->inst[i].opnd[k]);
}
