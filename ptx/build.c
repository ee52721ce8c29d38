/* Building and copying modules: for instrumenters and rewrites.
 *
 * Everything lives in the module's arena. Names given out by ptx_reg_new and ptx_label_new are unique in the function.
 * ptx_append_text reads statements with the parser against a scope that is kept with the function (ptx_function.scope)
 * and brought up to date with what was added by other means, so that many small appends cost what they add. Text that
 * does not parse leaves the function's instructions as they were.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx-priv.h"

void ptx_module_free(struct ptx_module *m)
{
    if (!m)
        return;
    for (uint32_t k = 0; k < m->nfunc; k++)
        ptx_scope_free(m->func[k]->scope);
    dt_arena_done(&m->arena);
    free(m);
}

struct ptx_function *ptx_find_function(const struct ptx_module *m, const char *name)
{
    struct ptx_function *best = NULL;
    for (uint32_t k = 0; k < m->nfunc; k++)
        if (!strcmp(m->func[k]->name, name) && (!best || m->func[k]->has_body))
            best = m->func[k];
    return best;
}

struct ptx_var *ptx_find_var(const struct ptx_module *m, const char *name)
{
    struct ptx_var *best = NULL;
    for (uint32_t k = 0; k < m->nvar; k++)
        if (!strcmp(m->var[k]->name, name) && (!best || best->is_extern))
            best = m->var[k];
    return best;
}

/* ---- copies */

static void renumber(struct ptx_opnd *o, const uint32_t *to)
{
    bool list =
        o->kind == PTX_O_VEC || o->kind == PTX_O_TEXTURE || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG);
    if (o->kind == PTX_O_REG || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_REG))
        o->reg = to[o->reg];
    for (unsigned k = 0; list && k < o->n; k++)
        renumber(&o->elem[k], to);
}

static bool same_registers(const struct ptx_function *f, const struct ptx_function *of)
{
    bool same = f->nreg == of->nreg;
    for (uint32_t k = 0; same && k < f->nreg; k++)
        same = !strcmp(f->reg[k].name, of->reg[k].name);
    return same;
}

/* Gives f, which was read from the text of `of`, the registers of `of` under their numbers: text declares them in the
 * order of their names, and those that no instruction names not at all. */
static int take_registers(struct ptx_function *f, const struct ptx_function *of)
{
    struct dt_names names = {0};
    if (same_registers(f, of))
        return 0;
    struct ptx_reg *reg = dt_new_array(&f->module->arena, struct ptx_reg, (size_t)of->nreg + 1);
    dt_free_ uint32_t *to = dt_calloc((size_t)f->nreg + 1, sizeof *to);
    bool ok = reg && to, known = true;
    for (uint32_t k = 0; ok && k < of->nreg; k++) {
        reg[k] = of->reg[k];
        reg[k].name = dt_arena_strdup(&f->module->arena, of->reg[k].name);
        ok = reg[k].name && dt_names_put(&names, reg[k].name, k) >= 0;
    }
    for (uint32_t k = 0; ok && k < f->nreg; k++) {
        to[k] = dt_names_get(&names, f->reg[k].name, strlen(f->reg[k].name));
        known = known && to[k] != DT_NAME_NONE && of->reg[to[k]].type == f->reg[k].type;
    }
    for (uint32_t n = 0; ok && known && n < f->ninst; n++) {
        if (f->inst[n].pred != PTX_NO_REG)
            f->inst[n].pred = to[f->inst[n].pred];
        for (unsigned k = 0; k < f->inst[n].nopnd; k++)
            renumber(&f->inst[n].opnd[k], to);
    }
    if (ok && known) {
        f->reg = reg;
        f->nreg = f->reg_cap = of->nreg;
    }
    dt_names_done(&names);
    return ok ? 0 : DT_E_NOMEM;
}

int ptx_clone(const struct ptx_module *m, const char *entry, struct ptx_module **ret, struct dt_err *e)
{
    struct ptx_use use = {0};
    struct dt_str s = {0};
    int r = 0;
    if (entry) {
        const struct ptx_function *f = ptx_find_function(m, entry);
        if (!f)
            return dt_err_set(e, DT_E_NO_ENTRY, "the module has no function %s", entry);
        r = ptx_use_of(f, &use);
    }
    if (r >= 0)
        r = ptx_print_some(m, entry ? &use : NULL, &s);
    struct ptx_module *c = NULL;
    r = r < 0 ? dt_err_set(e, DT_E_NOMEM, "out of memory") : ptx_parse(s.s, s.len, &c, e);
    for (uint32_t k = 0; r == 0 && k < c->nfunc; k++) {
        const struct ptx_function *of = c->func[k]->has_body ? ptx_find_function(m, c->func[k]->name) : NULL;
        if (of && of->ninst == c->func[k]->ninst && take_registers(c->func[k], of) < 0)
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    if (r == 0)
        ptx_origin_copy(m, *ret = c);
    else
        ptx_module_free(c);
    ptx_use_done(&use);
    dt_str_done(&s);
    return r;
}

struct ptx_module *ptx_module_new(unsigned major, unsigned minor, const char *target)
{
    struct ptx_module *m = dt_calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->version_major = major;
    m->version_minor = minor;
    m->address_size = 64;
    m->target = dt_arena_strdup(&m->arena, target);
    if (!m->target) {
        ptx_module_free(m);
        return NULL;
    }
    return m;
}

struct ptx_function *ptx_function_new(struct ptx_module *m, const char *name, bool entry)
{
    struct ptx_function *f = dt_new(&m->arena, struct ptx_function);
    if (!f || !PTX_GROW(&m->arena, m->func, m->nfunc, m->func_cap) || !(f->name = dt_arena_strdup(&m->arena, name)))
        return NULL;
    f->module = m;
    f->is_entry = entry;
    f->visible = entry;
    f->has_body = true;
    return m->func[m->nfunc++] = f;
}

struct ptx_var *ptx_var_new(struct ptx_module *m, struct ptx_function *owner, const char *name, enum ptx_space space,
                            enum ptx_type type, uint64_t count, uint32_t align)
{
    struct ptx_var *v = dt_new(&m->arena, struct ptx_var);
    bool ok = v && (v->name = dt_arena_strdup(&m->arena, name)) && (v->dim = dt_new(&m->arena, uint64_t));
    if (ok)
        ok = owner ? PTX_GROW(&m->arena, owner->var, owner->nvar, owner->var_cap)
                   : PTX_GROW(&m->arena, m->var, m->nvar, m->var_cap);
    if (!ok)
        return NULL;
    v->space = (uint8_t)space;
    v->type = (uint8_t)type;
    v->vec = 1;
    v->align = align ? align : ptx_natural_align(v);
    v->is_array = count != 1;
    v->ndim = v->is_array;
    v->dim[0] = count;
    v->bytes = count * ptx_type_bytes(type);
    v->is_extern = !count;
    v->owner = owner;
    if (owner) {
        v->index = owner->nvar;
        owner->var[owner->nvar++] = v;
    } else {
        v->index = m->nvar;
        m->var[m->nvar++] = v;
    }
    return v;
}

struct ptx_var *ptx_param_new(struct ptx_function *f, const char *name, enum ptx_type type, uint64_t bytes,
                              uint32_t align)
{
    struct dt_arena *a = &f->module->arena;
    struct ptx_var *v = dt_new(a, struct ptx_var), **list = dt_new_array(a, struct ptx_var *, (size_t)f->nparam + 1);
    unsigned size = ptx_type_bytes(type);
    if (!v || !list || !size || !(v->name = dt_arena_strdup(a, name)) || !(v->dim = dt_new(a, uint64_t)))
        return NULL;
    if (f->nparam)
        memcpy(list, f->param, f->nparam * sizeof *list);
    v->space = PTX_PARAM;
    v->type = (uint8_t)type;
    v->vec = 1;
    v->owner = f;
    v->bytes = bytes;
    v->is_array = bytes != size;
    v->ndim = v->is_array;
    v->dim[0] = bytes / size;
    v->align = align ? align : size;
    v->index = f->nparam;
    list[f->nparam++] = v;
    f->param = list;
    return v;
}

/* ---- the scope kept with a function */

static bool build_take(struct ptx_scope *sc, const char *name, unsigned depth, struct ptx_bind b)
{
    uint32_t sym = ptx_intern(sc, name, strlen(name));
    if (sym == DT_NAME_NONE)
        return false;
    if (depth)
        sc->sym[sym].taken = sc->serial;
    return ptx_bind_add(sc, depth, sym, b) >= 0; /* a name of module scope may be there: the later one is behind it */
}

static void prefer_body(struct ptx_scope *sc, struct ptx_function *f)
{
    struct ptx_bind *b = sc->sym[dt_names_get(&sc->names, f->name, strlen(f->name))].bind;
    if (b && b->kind == PTX_BIND_FUNC && f->has_body)
        b->func = f;
}

static struct ptx_scope *scope_of(struct ptx_function *f)
{
    struct ptx_module *m = f->module;
    struct ptx_scope *sc = f->scope;
    if (!sc) {
        sc = f->scope = ptx_scope_new(m);
        if (!sc)
            return NULL;
        sc->f = f;
        sc->serial = 1;
        sc->depth = 1;
    }
    /* module scope goes under the function's: bindings of depth 0 are inserted only where the name is free */
    for (; sc->seen_var < m->nvar; sc->seen_var++)
        if (!build_take(sc, m->var[sc->seen_var]->name, 0,
                        (struct ptx_bind){.kind = PTX_BIND_VAR, .var = m->var[sc->seen_var]}))
            return NULL;
    for (; sc->seen_func < m->nfunc; sc->seen_func++)
        if (!build_take(sc, m->func[sc->seen_func]->name, 0,
                        (struct ptx_bind){.kind = PTX_BIND_FUNC, .func = m->func[sc->seen_func]}))
            return NULL;
        else
            prefer_body(sc, m->func[sc->seen_func]);
    for (; sc->seen_param < f->nret + f->nparam; sc->seen_param++) {
        struct ptx_var *v = sc->seen_param < f->nret ? f->ret[sc->seen_param] : f->param[sc->seen_param - f->nret];
        if (!build_take(sc, v->name, 1, (struct ptx_bind){.kind = PTX_BIND_VAR, .var = v}))
            return NULL;
    }
    for (; sc->seen_fvar < f->nvar; sc->seen_fvar++)
        if (!build_take(sc, f->var[sc->seen_fvar]->name, 1,
                        (struct ptx_bind){.kind = PTX_BIND_VAR, .var = f->var[sc->seen_fvar]}))
            return NULL;
    for (; sc->seen_reg < f->nreg; sc->seen_reg++)
        if (!build_take(sc, f->reg[sc->seen_reg].name, 1, (struct ptx_bind){.kind = PTX_BIND_REG, .reg = sc->seen_reg}))
            return NULL;
    for (; sc->nlinfo < f->nlabel;) {
        uint32_t k = sc->nlinfo, sym = ptx_intern(sc, f->label[k].name, strlen(f->label[k].name));
        struct ptx_label_bind *b = dt_new(&sc->arena, struct ptx_label_bind);
        if (sym == DT_NAME_NONE || !b || !PTX_GROW(&sc->arena, sc->linfo, sc->nlinfo, sc->linfo_cap))
            return NULL;
        *b = (struct ptx_label_bind){sym, k, 1, sc->sym[sym].label, sc->labels[1]};
        sc->sym[sym].label = b;
        sc->sym[sym].taken = sc->serial;
        sc->labels[1] = b;
        sc->linfo[sc->nlinfo++] = (struct ptx_label_info){sym, k, 0, 0, false};
    }
    return sc;
}

/* hint, hint_1, hint_2, …: never a name that the function or the module has. */
static const char *fresh(struct ptx_function *f, const char *hint)
{
    struct ptx_scope *sc = scope_of(f);
    uint32_t sym = sc ? ptx_intern(sc, hint, strlen(hint)) : DT_NAME_NONE;
    if (sym == DT_NAME_NONE)
        return NULL;
    if (sc->sym[sym].bind)
        sc->sym[sym].used = sc->serial; /* do not shadow module scope */
    return ptx_unique(sc, sym, false);
}

uint32_t ptx_reg_new(struct ptx_function *f, enum ptx_type type, const char *hint)
{
    char with[128];
    snprintf(with, sizeof with, "%s%s", *hint == '%' ? "" : "%", hint);
    const char *name = fresh(f, with);
    uint32_t reg;
    if (!name || ptx_reg_add(f, name, type, 1, &reg) < 0 || !scope_of(f)) {
        f->module->arena.failed = true;
        return PTX_NO_REG;
    }
    return reg;
}

uint32_t ptx_label_new(struct ptx_function *f, const char *hint)
{
    const char *name = fresh(f, hint);
    uint32_t label;
    if (!name || ptx_label_add(f, name, &label) < 0 || !scope_of(f)) {
        f->module->arena.failed = true;
        return PTX_NO_REG;
    }
    return label;
}

static struct ptx_opnd *copy_opnds(struct dt_arena *a, const struct ptx_opnd *o, unsigned n)
{
    struct ptx_opnd *c = dt_new_array(a, struct ptx_opnd, n);
    if (!c)
        return NULL;
    memcpy(c, o, n * sizeof *o);
    for (unsigned k = 0; k < n; k++)
        if (o[k].n &&
            (o[k].kind == PTX_O_VEC || o[k].kind == PTX_O_TEXTURE ||
             (o[k].kind == PTX_O_ADDR && o[k].base_kind == PTX_O_REG)) &&
            !(c[k].elem = copy_opnds(a, o[k].elem, o[k].n)))
            return NULL;
    return c;
}

struct ptx_inst *ptx_append(struct ptx_function *f, struct ptx_inst i)
{
    struct dt_arena *a = &f->module->arena;
    if (!i.vec)
        i.vec = 1;
    enum ptx_mod v = i.vec == 2 ? PTX_M_V2 : i.vec == 4 ? PTX_M_V4 : i.vec == 8 ? PTX_M_V8 : PTX_M_NONE;
    if (v != PTX_M_NONE)
        ptx_set_mod(&i, v);
    if (!PTX_GROW(a, f->inst, f->ninst, f->inst_cap) || (i.nopnd && !(i.opnd = copy_opnds(a, i.opnd, i.nopnd))) ||
        (i.text && !(i.text = dt_arena_strdup(a, i.text))))
        return NULL;
    f->inst[f->ninst] = i;
    return &f->inst[f->ninst++];
}

int ptx_append_text(struct ptx_function *f, struct dt_err *e, const char *fmt, ...)
{
    struct dt_str s = {0};
    va_list ap;
    va_start(ap, fmt);
    dt_str_addfv(&s, fmt, ap);
    va_end(ap);
    struct ptx_parser ps = {.m = f->module, .f = f, .sc = scope_of(f), .e = e};
    uint32_t ninst = f->ninst, nlabel = f->nlabel;
    int r;
    if (!s.s || s.failed || !ps.sc) {
        r = s.failed || !ps.sc ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
    } else {
        ptx_lex_init(&ps.lx, s.s, s.len);
        r = ptx_parse_body(&ps, true);
        while (ps.sc->depth > 1)
            ptx_scope_close(ps.sc);
        if (r < 0)
            f->ninst = ninst;
        ptx_finish_labels(&ps, ninst);
        for (uint32_t k = nlabel; k < f->nlabel && r >= 0; k++) {
            f->label[k].name = ptx_unique(ps.sc, ps.sc->linfo[k].sym, true);
            if (!f->label[k].name)
                r = dt_err_set(e, DT_E_NOMEM, "out of memory");
        }
        ps.sc->seen_reg = f->nreg;
        ps.sc->seen_fvar = f->nvar;
        for (uint32_t k = ninst; k < f->ninst; k++)
            f->inst[k].line = f->inst[k].col = 0;
    }
    dt_str_done(&s);
    return r;
}
