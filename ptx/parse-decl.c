/* Declarations: variables with initialisers, parameters, registers (§5).
 *
 * Sizes are checked before anything is allocated: an initialised variable must fit the module's memory limit, an
 * uninitialised one costs only its record. Initialisers fill the flat image as C does (inner braces align to their
 * dimension). A symbol in one becomes a relocation of 8 bytes: `sym`, `sym+8`, `generic(sym)`, or in .b8 arrays the
 * eight masked bytes 0xFF(sym), 0xFF00(sym), … Only what is .extern, a parameter of a function, or has an initialiser
 * may leave its size to others.
 */
#include <string.h>

#include "ptx/ptx-priv.h"

#define MAX_DIM 8
#define MAX_VAR_BYTES (UINT64_C(1) << 46)

struct head { /* what stands before the name */
    unsigned type, vec;
    uint64_t align;
    const char *attribute;
    bool is_ptr;
    unsigned ptr_space;
    uint64_t ptr_align;
};

static int parse_attribute(struct ptx_parser *ps, const char **ret)
{
    int r = ptx_expect(ps, '(');
    const char *from = ps->lx.t.s;
    unsigned open = 1;
    if (ps->lx.t.kind == PTX_TK_DOT)
        from--;
    for (; r >= 0; ptx_next(ps)) {
        if (ps->lx.t.kind == PTX_TK_EOF || ps->lx.t.kind == PTX_TK_BAD || ptx_is(ps, ';'))
            return ptx_unexpected(ps, "')'");
        open += ptx_is(ps, '(');
        if (ptx_is(ps, ')') && !--open)
            break;
    }
    if (r < 0)
        return r;
    struct dt_arena *a = &ps->m->arena;
    char *text = dt_arena_strndup(a, from, (size_t)(ps->lx.t.s - from)), *to = text;
    if (!text)
        return ptx_nomem(ps);
    for (const char *c = text; *c; c++) /* white space out; comments were never written here by anybody */
        if (!strchr(" \t\r\n", *c))
            *to++ = *c;
    *to = 0;
    if (strstr(text, "//") || strstr(text, "/*"))
        return ptx_perr(ps, "comment inside .attribute");
    *ret = text;
    ptx_next(ps);
    return 0;
}

static int parse_align(struct ptx_parser *ps, uint64_t *ret)
{
    uint32_t line = ps->lx.t.line, col = ps->lx.t.col;
    int r = ptx_parse_uint(ps, 1u << 20, ret);
    if (r >= 0 && (!*ret || (*ret & (*ret - 1))))
        return ptx_perr_at(ps, line, col, "alignment is not a power of two");
    return r;
}

static int parse_head(struct ptx_parser *ps, bool param, struct head *h)
{
    *h = (struct head){.vec = 1};
    while (ps->lx.t.kind == PTX_TK_DOT) {
        struct ptx_word w = ptx_word_find(ps->lx.t.s, ps->lx.t.len);
        int r = 0;
        if (ptx_is_dot(ps, "align")) {
            ptx_next(ps);
            r = parse_align(ps, h->is_ptr ? &h->ptr_align : &h->align);
        } else if (ptx_is_dot(ps, "attribute")) {
            ptx_next(ps);
            r = parse_attribute(ps, &h->attribute);
        } else if (ptx_is_dot(ps, "ptr") && param) {
            h->is_ptr = true;
            ptx_next(ps);
        } else if (w.kind == PTX_W_TYPE && !h->type) {
            h->type = w.value;
            ptx_next(ps);
        } else if (w.kind == PTX_W_MOD && (w.value == PTX_M_V2 || w.value == PTX_M_V4 || w.value == PTX_M_V8)) {
            h->vec = w.value == PTX_M_V2 ? 2 : w.value == PTX_M_V4 ? 4 : 8;
            ptx_next(ps);
        } else if (w.kind == PTX_W_TYPE && w.value >= PTX_TEXREF && h->is_ptr) { /* a handle: no memory to speak of */
            h->is_ptr = false;
            ptx_next(ps);
        } else if (w.kind == PTX_W_SPACE && h->is_ptr) {
            h->ptr_space = w.value;
            ptx_next(ps);
        } else {
            return ptx_unexpected(ps, "a type or .align");
        }
        if (r < 0)
            return r;
    }
    if (!h->type)
        return ptx_unexpected(ps, "a type");
    return 0;
}

/* ---- initialisers */

static bool parse_decl_store(struct ptx_var *v, uint64_t at, uint64_t bits, unsigned type)
{
    unsigned n = ptx_type_bytes(v->type);
    if (type == PTX_F64 && v->type == PTX_F32) {
        double d;
        memcpy(&d, &bits, 8);
        float f = (float)d;
        uint32_t b;
        memcpy(&b, &f, 4);
        bits = b;
    } else if (type == PTX_F32 && v->type == PTX_F64) {
        uint32_t b = (uint32_t)bits;
        float f;
        memcpy(&f, &b, 4);
        double d = f;
        memcpy(&bits, &d, 8);
    } else if (type == PTX_F64 && n != 8) {
        return false;
    }
    for (unsigned i = 0; i < n && i < 8; i++)
        v->init[at + i] = (uint8_t)(bits >> (8 * i));
    return true;
}

struct init {
    struct ptx_var *v;
    uint64_t cap, end;            /* bytes allocated; elements written, for [] */
    uint64_t stride[MAX_DIM + 2]; /* elements per step of a dimension */
    unsigned levels;
    bool open; /* first dimension not given */
    uint32_t reloc_cap;
};

static int parse_target(struct ptx_parser *ps, struct ptx_reloc *r)
{
    struct ptx_tok t = ps->lx.t;
    int rc;
    if (t.kind != PTX_TK_IDENT)
        return ptx_unexpected(ps, "a symbol");
    ptx_next(ps);
    if (t.len == 7 && !memcmp(t.s, "generic", 7) && ptx_is(ps, '(')) {
        ptx_next(ps);
        t = ps->lx.t;
        if (t.kind != PTX_TK_IDENT)
            return ptx_unexpected(ps, "a symbol");
        ptx_next(ps);
        if ((rc = ptx_expect(ps, ')')) < 0)
            return rc;
        r->generic = true;
    }
    struct ptx_bind b;
    if (ptx_lookup(ps->sc, t.s, t.len, &b) < 0)
        return ptx_nomem(ps);
    if (b.kind == PTX_BIND_VAR)
        r->var = b.var;
    else if (b.kind == PTX_BIND_FUNC)
        r->func = b.func;
    else
        return ptx_perr_at(ps, t.line, t.col, "%.*s is not declared", (int)t.len, t.s);
    if (ptx_is(ps, '+') || ptx_is(ps, '-'))
        return ptx_parse_int(ps, &r->addend);
    return 0;
}

static int add_reloc(struct ptx_parser *ps, struct init *in, struct ptx_reloc r, uint64_t mask)
{
    struct ptx_var *v = in->v;
    unsigned shift = mask ? (unsigned)__builtin_ctzll(mask) : 0;
    if (mask) {
        if (ptx_type_bytes(v->type) != 1 || mask != UINT64_C(0xFF) << shift || shift % 8)
            return ptx_perr(ps, "only single-byte masks of a symbol are known, in arrays of bytes");
        if (shift) {
            struct ptx_reloc *last = v->nreloc ? &v->reloc[v->nreloc - 1] : NULL;
            if (!last || last->at + shift / 8 != r.at || last->var != r.var || last->func != r.func ||
                last->addend != r.addend)
                return ptx_perr(ps, "the bytes of a symbol must follow one another");
            return 0;
        }
    } else if (ptx_type_bytes(v->type) != 8) {
        return ptx_perr(ps, "an address needs an element of 8 bytes");
    }
    if (!in->open && (r.at > v->bytes || v->bytes - r.at < 8))
        return ptx_perr(ps, "address leaves the variable");
    if (!PTX_GROW(&ps->m->arena, v->reloc, v->nreloc, in->reloc_cap))
        return ptx_nomem(ps);
    v->reloc[v->nreloc++] = r;
    return 0;
}

static int parse_decl_room(struct ptx_parser *ps, struct init *in, uint64_t at)
{
    unsigned size = ptx_type_bytes(in->v->type);
    if (!in->open)
        return at < in->v->bytes / size ? 0 : ptx_perr(ps, "too many initialisers");
    if ((at + 1) * size > in->cap) {
        uint64_t cap = in->cap ? in->cap * 2 : 64;
        uint8_t *p = cap > PTX_MAX_ARENA / 4 ? NULL : dt_arena_alloc(&ps->m->arena, cap);
        if (!p)
            return ptx_nomem(ps);
        if (in->cap)
            memcpy(p, in->v->init, in->cap);
        in->v->init = p;
        in->cap = cap;
    }
    if (at + 1 > in->end)
        in->end = at + 1;
    return 0;
}

static int parse_init_item(struct ptx_parser *ps, struct init *in, uint64_t at)
{
    unsigned size = ptx_type_bytes(in->v->type);
    int r = parse_decl_room(ps, in, at);
    if (r < 0)
        return r;
    struct ptx_reloc rel = {.at = at * size};
    struct ptx_tok t = ps->lx.t;
    if (t.kind == PTX_TK_IDENT && !(t.len == 7 && !memcmp(t.s, "WARP_SZ", 7))) {
        r = parse_target(ps, &rel);
        return r < 0 ? r : add_reloc(ps, in, rel, 0);
    }
    if (t.kind == PTX_TK_NUM && ptx_lex_peek(&ps->lx) == '(') {
        ptx_next(ps);
        ptx_next(ps);
        r = parse_target(ps, &rel);
        if (r >= 0)
            r = ptx_expect(ps, ')');
        return r < 0 ? r : add_reloc(ps, in, rel, t.val ? t.val : 1);
    }
    uint64_t bits;
    uint8_t type;
    r = ptx_parse_const(ps, &bits, &type);
    if (r >= 0 && !parse_decl_store(in->v, at * size, bits, type))
        return ptx_perr_at(ps, t.line, t.col, "initialiser does not fit its type");
    return r;
}

static int parse_init_list(struct ptx_parser *ps, struct init *in, unsigned level, uint64_t at)
{
    int r = ptx_expect(ps, '{');
    while (r >= 0 && !ptx_is(ps, '}')) {
        if (ptx_is(ps, '{')) {
            if (level >= in->levels)
                return ptx_perr(ps, "too many braces");
            uint64_t s = in->stride[level];
            at = (at + s - 1) / s * s;
            r = parse_init_list(ps, in, level + 1, at);
            at += s;
        } else {
            r = parse_init_item(ps, in, at++);
        }
        if (r >= 0 && !ptx_is(ps, '}'))
            r = ptx_expect(ps, ',');
    }
    return r < 0 ? r : ptx_expect(ps, '}');
}

static int parse_init(struct ptx_parser *ps, struct ptx_var *v)
{
    struct init in = {.v = v, .open = v->is_array && v->ndim == 1 && !v->dim[0]};
    if (!ptx_type_bytes(v->type) || (v->is_array && !v->bytes && !in.open))
        return ptx_perr(ps, "this variable cannot have an initialiser");
    if (!in.open) {
        if (v->bytes > PTX_MAX_ARENA / 4 || ps->m->arena.used > PTX_MAX_ARENA)
            return dt_err_set(ps->e, DT_E_TOO_LARGE,
                              "line %u, column %u: initialised variable %s of %llu bytes is too large", ps->lx.t.line,
                              ps->lx.t.col, v->name, (unsigned long long)v->bytes);
        v->init = dt_arena_alloc(&ps->m->arena, v->bytes);
        if (!v->init)
            return ptx_nomem(ps);
    }
    /* level 0 is the outermost brace of an array (or vector); inner braces step by stride[level] */
    uint64_t step = v->vec;
    unsigned n = v->ndim + (v->vec > 1);
    for (unsigned d = n; d-- > 0;) {
        if (d == n - 1 && v->vec > 1) {
            in.stride[d] = 1;
            continue;
        }
        in.stride[d] = step ? step : 1;
        if (__builtin_mul_overflow(step, v->dim[d] ? v->dim[d] : 1, &step))
            return ptx_perr(ps, "variable is too large");
    }
    in.levels = n;
    int r = ptx_is(ps, '{') ? parse_init_list(ps, &in, 0, 0) : parse_init_item(ps, &in, 0);
    if (r >= 0 && in.open) {
        v->dim[0] = (in.end + v->vec - 1) / v->vec;
        v->bytes = v->dim[0] * v->vec * ptx_type_bytes(v->type);
        if (v->bytes > in.cap && parse_decl_room(ps, &in, v->bytes / ptx_type_bytes(v->type) - 1) < 0)
            return ptx_nomem(ps);
        for (uint32_t i = 0; i < v->nreloc; i++)
            if (v->bytes - v->reloc[i].at < 8)
                return ptx_perr(ps, "address leaves the variable");
    }
    return r;
}

/* ---- variables */

static int parse_dims(struct ptx_parser *ps, struct ptx_var *v)
{
    uint64_t dim[MAX_DIM], total = (uint64_t)ptx_type_bytes(v->type) * v->vec;
    uint32_t n = 0;
    while (ptx_is(ps, '[')) {
        if (n == MAX_DIM)
            return ptx_perr(ps, "more than %d dimensions", MAX_DIM);
        ptx_next(ps);
        uint64_t d = 0;
        if (!ptx_is(ps, ']')) {
            uint32_t line = ps->lx.t.line, col = ps->lx.t.col;
            int64_t given;
            int r = ptx_parse_int(ps, &given);
            if (r < 0)
                return r;
            if (given < 0)
                return ptx_perr_at(ps, line, col, "negative array size");
            d = (uint64_t)given;
        } else if (n) {
            return ptx_perr(ps, "only the first dimension may be left out");
        }
        int r = ptx_expect(ps, ']');
        if (r < 0)
            return r;
        if (__builtin_mul_overflow(total, d, &total) || total > MAX_VAR_BYTES)
            return dt_err_set(ps->e, DT_E_TOO_LARGE, "line %u, column %u: variable %s is too large", ps->lx.t.line,
                              ps->lx.t.col, v->name);
        dim[n++] = d;
    }
    v->bytes = total;
    v->is_array = n > 0;
    v->ndim = n;
    if (n && !(v->dim = dt_arena_alloc(&ps->m->arena, n * sizeof *dim)))
        return ptx_nomem(ps);
    if (n)
        memcpy(v->dim, dim, n * sizeof *dim);
    return 0;
}

uint32_t ptx_natural_align(const struct ptx_var *v)
{
    unsigned n = ptx_type_bytes(v->type) * v->vec;
    return v->type >= PTX_TEXREF && v->space == PTX_PARAM ? 8 : n ? n : 1;
}

/* Name, bind and record; at module scope a definition takes the name over from an extern declaration. */
static int bind_var(struct ptx_parser *ps, struct ptx_var *v, const struct ptx_tok *t, bool param)
{
    struct ptx_scope *sc = ps->sc;
    uint32_t sym = ptx_intern(sc, t->s, t->len);
    if (sym == DT_NAME_NONE)
        return ptx_nomem(ps);
    bool nameless = param && t->len == 1 && *t->s == '_'; /* in prototypes */
    bool lives_on = !param && ps->f && (v->space == PTX_GLOBAL || v->space == PTX_CONST);
    v->name = lives_on                 ? ptx_lower_static(ps, t, v)
              : sc->depth && !nameless ? ptx_unique(sc, sym, false)
                                       : sc->sym[sym].name;
    if (!v->name)
        return ptx_nomem(ps);
    if (nameless)
        return 0;
    int r = ptx_bind_add(sc, sc->depth, sym, (struct ptx_bind){.kind = PTX_BIND_VAR, .var = v});
    if (r == 1 && !sc->depth && sc->sym[sym].bind->kind == PTX_BIND_VAR &&
        (v->is_extern || sc->sym[sym].bind->var->is_extern)) {
        if (!v->is_extern)
            sc->sym[sym].bind->var = v;
        r = 0;
    }
    if (r == 1)
        return ptx_perr_at(ps, t->line, t->col, "%.*s is declared twice", (int)t->len, t->s);
    return r < 0 ? ptx_nomem(ps) : 0;
}

static void set_head(struct ptx_var *v, const struct head *h)
{
    v->type = (uint8_t)h->type;
    v->vec = (uint8_t)h->vec;
    v->attribute = h->attribute;
    v->is_ptr = h->is_ptr;
    v->ptr_space = (uint8_t)h->ptr_space;
    v->ptr_align = (uint32_t)h->ptr_align;
    v->align = h->align ? (uint32_t)h->align : ptx_natural_align(v);
}

int ptx_parse_var(struct ptx_parser *ps, struct ptx_linkage l, unsigned space)
{
    struct head h;
    int r = parse_head(ps, space == PTX_PARAM, &h);
    if (r < 0)
        return r;
    if (h.type >= PTX_TEXREF && space != PTX_GLOBAL)
        return ptx_perr(ps, "textures, samplers and surfaces are .global");
    struct ptx_module *m = ps->m;
    for (;;) {
        struct ptx_tok t = ps->lx.t;
        if (t.kind != PTX_TK_IDENT)
            return ptx_unexpected(ps, "a name");
        if (m->arena.used + ps->sc->arena.used > PTX_MAX_ARENA)
            return dt_err_set(ps->e, DT_E_TOO_LARGE, "line %u, column %u: the module is too large", t.line, t.col);
        struct ptx_var *v = dt_new(&m->arena, struct ptx_var);
        if (!v)
            return ptx_nomem(ps);
        v->space = (uint8_t)space;
        v->is_extern = l.is_extern;
        v->visible = l.visible;
        v->weak = l.weak;
        v->common = l.common;
        bool lives_on = space == PTX_GLOBAL || space == PTX_CONST; /* also where a function declares it */
        v->owner = lives_on ? NULL : ps->f;
        set_head(v, &h);
        if ((r = bind_var(ps, v, &t, false)) < 0)
            return r;
        ptx_next(ps);
        if ((r = parse_dims(ps, v)) < 0)
            return r;
        if (ptx_is(ps, '=')) {
            if (v->is_extern)
                return ptx_perr(ps, "an .extern variable cannot have an initialiser");
            if (space != PTX_GLOBAL && space != PTX_CONST)
                return ptx_perr(ps, "only .global and .const variables have initialisers");
            ptx_next(ps);
            if ((r = v->type >= PTX_TEXREF ? ptx_texture_init(ps, v) : parse_init(ps, v)) < 0)
                return r;
        }
        if (v->is_array && !v->bytes && !v->is_extern)
            return ptx_perr_at(ps, t.line, t.col, "%.*s has no size", t.len > 200 ? 200 : (int)t.len, t.s);
        if (ps->f && !lives_on) {
            if (!PTX_GROW(&m->arena, ps->f->var, ps->f->nvar, ps->f->var_cap))
                return ptx_nomem(ps);
            v->index = ps->f->nvar;
            ps->f->var[ps->f->nvar++] = v;
        } else {
            if (!PTX_GROW(&m->arena, m->var, m->nvar, m->var_cap))
                return ptx_nomem(ps);
            v->index = m->nvar;
            m->var[m->nvar++] = v;
        }
        if (!ptx_is(ps, ','))
            return ptx_expect(ps, ';');
        ptx_next(ps);
    }
}

int ptx_parse_param(struct ptx_parser *ps, struct ptx_function *f, bool result, struct ptx_var **ret)
{
    bool reg = ptx_is_dot(ps, "reg") && !f->is_entry;
    if (!reg && !ptx_is_dot(ps, "param"))
        return ptx_unexpected(ps, ".param");
    ptx_next(ps);
    struct head h;
    int r = parse_head(ps, true, &h);
    if (r < 0)
        return r;
    struct ptx_tok t = ps->lx.t;
    if (t.kind != PTX_TK_IDENT)
        return ptx_unexpected(ps, "a name");
    if (reg) {
        if (h.is_ptr || h.attribute)
            return ptx_perr(ps, "a register has no attributes");
        if ((r = ptx_parse_reg_param(ps, f, &t, h.type, h.vec, result, ret)) >= 0)
            ptx_next(ps);
        return r;
    }
    struct ptx_var *v = dt_new(&ps->m->arena, struct ptx_var);
    if (!v)
        return ptx_nomem(ps);
    v->space = PTX_PARAM;
    v->owner = f;
    set_head(v, &h);
    if ((r = bind_var(ps, v, &t, true)) < 0)
        return r;
    ptx_next(ps);
    if ((r = parse_dims(ps, v)) < 0)
        return r;
    if (v->type >= PTX_TEXREF) {
        if (!f->is_entry || v->is_array)
            return ptx_perr_at(ps, t.line, t.col, "only entries take a .%s, one each", ptx_type_text(v->type));
        v->bytes = 8; /* its handle */
    }
    if (f->is_entry && v->is_array && !v->bytes)
        return ptx_perr_at(ps, t.line, t.col, "%.*s has no size", t.len > 200 ? 200 : (int)t.len, t.s);
    *ret = v;
    return 0;
}

int ptx_parse_reg(struct ptx_parser *ps)
{
    struct head h;
    int r = parse_head(ps, false, &h);
    if (r < 0)
        return r;
    if (!ps->f)
        return ptx_perr(ps, "registers of module scope are not supported");
    if (h.type >= PTX_TEXREF)
        return ptx_perr(ps, "a register does not hold a .%s", ptx_type_text(h.type));
    if (h.vec > 1 && (h.type == PTX_PRED || ptx_type_bytes(h.type) * h.vec > 16 || h.vec > 4))
        return ptx_perr(ps, "a vector has up to 128 bits, and no predicates");
    for (;;) {
        struct ptx_tok t = ps->lx.t;
        if (t.kind != PTX_TK_IDENT)
            return ptx_unexpected(ps, "a register name");
        if (ps->m->arena.used + ps->sc->arena.used > PTX_MAX_ARENA)
            return dt_err_set(ps->e, DT_E_TOO_LARGE, "line %u, column %u: the module is too large", t.line, t.col);
        ptx_next(ps);
        if (ptx_is(ps, '<')) {
            ptx_next(ps);
            uint64_t count;
            if ((r = ptx_parse_uint(ps, UINT32_MAX, &count)) < 0 || (r = ptx_expect(ps, '>')) < 0)
                return r;
            r = ptx_range_add(ps->sc, t.s, t.len, h.type, h.vec, (uint32_t)count);
        } else {
            uint32_t sym = ptx_intern(ps->sc, t.s, t.len), reg;
            if (sym == DT_NAME_NONE || ptx_vector_add(ps->sc, sym, h.type, h.vec, &reg) < 0)
                return ptx_nomem(ps);
            r = ptx_bind_add(ps->sc, ps->sc->depth, sym,
                             (struct ptx_bind){.kind = PTX_BIND_REG, .reg = reg, .vec = (uint8_t)h.vec});
        }
        if (r == 1)
            return ptx_perr_at(ps, t.line, t.col, "%.*s is declared twice", (int)t.len, t.s);
        if (r < 0)
            return ptx_nomem(ps);
        if (!ptx_is(ps, ','))
            return ptx_expect(ps, ';');
        ptx_next(ps);
    }
}
