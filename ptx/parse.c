/* Modules: header, linkage, functions, everything around the statements (§2, §10 to §11).
 *
 * ptx_parse copies the text (so that it ends with a NUL), reads it in one pass, and then points uses of a forward
 * declaration at the definition. Memory is bounded by PTX_MAX_ARENA whatever counts and sizes the text claims;
 * recursion by PTX_MAX_DEPTH. `, debug` is dropped, debug information kept beside the code (debug.c). Errors carry line
 * and column. Not here: operand classes and meaning (verify.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx-priv.h"

int ptx_perr_at(struct ptx_parser *ps, uint32_t line, uint32_t col, const char *fmt, ...)
{
    struct dt_str s = {0};
    va_list ap;
    va_start(ap, fmt);
    dt_str_addfv(&s, fmt, ap);
    va_end(ap);
    int r = dt_err_set(ps->e, DT_E_PTX, "line %u, column %u: %s", line, col, s.s ? s.s : "syntax error");
    dt_str_done(&s);
    return r;
}

int ptx_perr(struct ptx_parser *ps, const char *fmt, ...)
{
    struct dt_str s = {0};
    va_list ap;
    va_start(ap, fmt);
    dt_str_addfv(&s, fmt, ap);
    va_end(ap);
    int r = ptx_perr_at(ps, ps->lx.t.line, ps->lx.t.col, "%s", s.s ? s.s : "syntax error");
    dt_str_done(&s);
    return r;
}

int ptx_nomem(struct ptx_parser *ps)
{
    return dt_err_set(ps->e, DT_E_NOMEM, "out of memory at line %u of the PTX", ps->lx.t.line);
}

int ptx_unexpected(struct ptx_parser *ps, const char *wanted)
{
    const struct ptx_tok *t = &ps->lx.t;
    if (t->kind == PTX_TK_BAD)
        return ptx_perr(ps, "%s", ps->lx.bad);
    if (t->kind == PTX_TK_EOF)
        return ptx_perr(ps, "%s expected, but the text ends", wanted);
    return ptx_perr(ps, "%s expected, not '%s%.*s'", wanted, t->kind == PTX_TK_DOT ? "." : "",
                    t->len > 60 ? 60 : (int)t->len, t->s);
}

bool ptx_is_dot(const struct ptx_parser *ps, const char *word)
{
    const struct ptx_tok *t = &ps->lx.t;
    return t->kind == PTX_TK_DOT && strlen(word) == t->len && !memcmp(t->s, word, t->len);
}

int ptx_expect(struct ptx_parser *ps, char c)
{
    if (!ptx_is(ps, c)) {
        char wanted[] = {'\'', c, '\'', 0};
        return ptx_unexpected(ps, wanted);
    }
    ptx_next(ps);
    return 0;
}

int ptx_parse_uint(struct ptx_parser *ps, uint64_t max, uint64_t *ret)
{
    const struct ptx_tok *t = &ps->lx.t;
    if (t->kind != PTX_TK_NUM || (t->type != PTX_S64 && t->type != PTX_U64))
        return ptx_unexpected(ps, "a number");
    if (t->val > max)
        return ptx_perr(ps, "number is over %llu", (unsigned long long)max);
    *ret = t->val;
    ptx_next(ps);
    return 0;
}

/* ---- header */

static int parse_version(struct ptx_parser *ps)
{
    const struct ptx_tok *t = &ps->lx.t;
    unsigned major = 0, minor = 0, k = 0;
    if (t->kind != PTX_TK_NUM || t->len > 8)
        return ptx_unexpected(ps, "a version");
    for (; k < t->len && t->s[k] >= '0' && t->s[k] <= '9'; k++)
        major = major * 10 + (unsigned)(t->s[k] - '0');
    if (k == t->len || t->s[k] != '.')
        return ptx_unexpected(ps, "a version");
    for (k++; k < t->len && t->s[k] >= '0' && t->s[k] <= '9'; k++)
        minor = minor * 10 + (unsigned)(t->s[k] - '0');
    if (k != t->len)
        return ptx_unexpected(ps, "a version");
    if (major > PTX_NEWEST_MAJOR || (major == PTX_NEWEST_MAJOR && minor > PTX_NEWEST_MINOR))
        return ptx_perr(ps, "PTX version %u.%u is newer than %u.%u", major, minor, PTX_NEWEST_MAJOR, PTX_NEWEST_MINOR);
    ps->m->version_major = major;
    ps->m->version_minor = minor;
    ptx_next(ps);
    return 0;
}

static int parse_target(struct ptx_parser *ps)
{
    struct dt_str s = {0};
    int r = 0;
    for (;;) {
        const struct ptx_tok *t = &ps->lx.t;
        if (t->kind != PTX_TK_IDENT || t->len > 64 || s.len > 512) {
            r = ptx_unexpected(ps, "a target");
            break;
        }
        if (t->len != 5 || memcmp(t->s, "debug", 5)) {
            dt_str_add(&s, s.len ? ", " : "");
            dt_str_addn(&s, t->s, t->len);
        }
        ptx_next(ps);
        if (!ptx_is(ps, ','))
            break;
        ptx_next(ps);
    }
    if (r >= 0) {
        ps->m->target = s.s && !s.failed ? dt_arena_strdup(&ps->m->arena, s.s) : NULL;
        if (!ps->m->target)
            r = s.failed || s.s ? ptx_nomem(ps) : ptx_perr(ps, "no target");
    }
    dt_str_done(&s);
    return r;
}

static int parse_header(struct ptx_parser *ps)
{
    int r;
    if (!ptx_is_dot(ps, "version"))
        return ptx_unexpected(ps, ".version");
    ptx_next(ps);
    if ((r = parse_version(ps)) < 0)
        return r;
    if (!ptx_is_dot(ps, "target"))
        return ptx_unexpected(ps, ".target");
    ptx_next(ps);
    if ((r = parse_target(ps)) < 0)
        return r;
    ps->m->address_size = 64;
    if (ptx_is_dot(ps, "address_size")) {
        uint64_t n;
        ptx_next(ps);
        if (ps->lx.t.kind == PTX_TK_NUM && ps->lx.t.val != 64)
            return ptx_perr(ps, "only .address_size 64 is supported");
        if ((r = ptx_parse_uint(ps, 64, &n)) < 0)
            return r;
    }
    return 0;
}

/* ---- functions */

static int add_text(struct ptx_parser *ps, const char **to, const char *text)
{
    const char *s = *to ? dt_arena_printf(&ps->m->arena, "%s %s", *to, text) : dt_arena_strdup(&ps->m->arena, text);
    if (!s)
        return ptx_nomem(ps);
    *to = s;
    return 0;
}

static int parse_pragma(struct ptx_parser *ps, const char **to)
{
    struct dt_str s = {0};
    int r = 0;
    dt_str_add(&s, ".pragma ");
    for (ptx_next(ps);; ptx_next(ps)) {
        if (ps->lx.t.kind != PTX_TK_STRING) {
            r = ptx_unexpected(ps, "a string");
            break;
        }
        dt_str_addn(&s, ps->lx.t.s, ps->lx.t.len);
        ptx_next(ps);
        if (!ptx_is(ps, ','))
            break;
        dt_str_add(&s, ", ");
    }
    dt_str_addc(&s, ';');
    if (r >= 0 && (r = ptx_expect(ps, ';')) >= 0)
        r = s.failed                    ? ptx_nomem(ps)
            : *to && strlen(*to) > 4096 ? ptx_perr(ps, "too many pragmas")
                                        : add_text(ps, to, s.s);
    dt_str_done(&s);
    return r;
}

static int parse_numbers(struct ptx_parser *ps, uint32_t *v, unsigned max)
{
    unsigned n = 0;
    for (;; ptx_next(ps)) {
        uint64_t x = 0;
        if (n == max)
            return ptx_unexpected(ps, "a directive");
        int r = ptx_parse_uint(ps, UINT32_MAX, &x);
        if (r < 0)
            return r;
        v[n++] = (uint32_t)x;
        if (!ptx_is(ps, ','))
            break;
    }
    for (; max == 3 && n < max; n++)
        v[n] = 1;
    return 0;
}

/* A declaration needs no semicolon: what begins the next one. */
static bool next_item(const struct ptx_parser *ps)
{
    static const char *const word[] = {"visible", "extern", "weak", "common", "entry", "func",    "global", "const",
                                       "shared",  "local",  "reg",  "tex",    "file",  "section", "alias"};
    for (unsigned k = 0; k < sizeof word / sizeof *word; k++)
        if (ptx_is_dot(ps, word[k]))
            return true;
    return false;
}

static int parse_directives(struct ptx_parser *ps, struct ptx_function *f)
{
    while (ps->lx.t.kind == PTX_TK_DOT && !next_item(ps)) {
        static const struct {
            const char *word;
            unsigned n, at;
        } rows[] = {
            {"maxntid", 3, offsetof(struct ptx_function, maxntid)},
            {"reqntid", 3, offsetof(struct ptx_function, reqntid)},
            {"reqnctapercluster", 3, offsetof(struct ptx_function, reqnctapercluster)},
            {"minnctapersm", 1, offsetof(struct ptx_function, minnctapersm)},
            {"maxnctapersm", 1, offsetof(struct ptx_function, minnctapersm)}, /* its old name */
            {"maxnreg", 1, offsetof(struct ptx_function, maxnreg)},
        };
        unsigned k = 0, n = sizeof rows / sizeof *rows;
        int r = 0;
        while (k < n && !ptx_is_dot(ps, rows[k].word))
            k++;
        if (k < n) {
            ptx_next(ps);
            r = parse_numbers(ps, (uint32_t *)((char *)f + rows[k].at), rows[k].n);
        } else if (ptx_is_dot(ps, "noreturn")) {
            f->noreturn = true;
            ptx_next(ps);
        } else if (ptx_is_dot(ps, "pragma")) {
            r = parse_pragma(ps, &f->extra);
        } else if (ps->lx.t.len > 60 || (f->extra && strlen(f->extra) > 4096)) {
            r = ptx_unexpected(ps, "'{'");
        } else { /* .explicitcluster, .maxclusterrank 8, .abi_preserve 4, … */
            char text[128];
            int at = snprintf(text, sizeof text, ".%.*s", (int)ps->lx.t.len, ps->lx.t.s);
            for (ptx_next(ps); ps->lx.t.kind == PTX_TK_NUM && at < 100; ptx_next(ps)) {
                at += snprintf(text + at, sizeof text - (size_t)at, " %llu", (unsigned long long)ps->lx.t.val);
                if (ptx_lex_peek(&ps->lx) != ',')
                    continue;
                ptx_next(ps);
                at += snprintf(text + at, sizeof text - (size_t)at, ",");
            }
            r = add_text(ps, &f->extra, text);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_params(struct ptx_parser *ps, struct ptx_function *f, bool result, struct ptx_var ***list, uint32_t *n)
{
    uint32_t cap = 0;
    int r = ptx_expect(ps, '(');
    while (r >= 0 && !ptx_is(ps, ')')) {
        struct ptx_var *v = NULL;
        if (*n >= 8192)
            return ptx_perr(ps, "more than 8192 parameters");
        if ((r = ptx_parse_param(ps, f, result, &v)) < 0)
            return r;
        if (!PTX_GROW(&ps->m->arena, *list, *n, cap))
            return ptx_nomem(ps);
        v->index = *n;
        (*list)[(*n)++] = v;
        if (!ptx_is(ps, ')'))
            r = ptx_expect(ps, ',');
    }
    return r < 0 ? r : ptx_expect(ps, ')');
}

static int bind_function(struct ptx_parser *ps, struct ptx_function *f, const struct ptx_tok *t)
{
    struct ptx_scope *sc = ps->sc;
    uint32_t sym = ptx_intern(sc, t->s, t->len);
    if (sym == DT_NAME_NONE)
        return ptx_nomem(ps);
    f->name = sc->sym[sym].name;
    struct ptx_bind *b = sc->sym[sym].bind;
    while (b && b->depth) /* its parameters may have its name */
        b = b->below;
    if (!b)
        return ptx_bind_under(sc, sym, (struct ptx_bind){.kind = PTX_BIND_FUNC, .func = f}) < 0 ? ptx_nomem(ps) : 0;
    if (b->kind != PTX_BIND_FUNC || (b->func->has_body && f->has_body))
        return ptx_perr_at(ps, t->line, t->col, "%.*s is defined twice", t->len > 200 ? 200 : (int)t->len, t->s);
    if (f->has_body)
        b->func = f;
    return 0;
}

/* Give labels their final numbers and names; an undefined one is an error. */
static int close_labels(struct ptx_parser *ps)
{
    struct ptx_scope *sc = ps->sc;
    struct ptx_function *f = ps->f;
    ptx_finish_labels(ps, 0);
    uint32_t n = 0, *map = f->nlabel ? dt_reallocarray(NULL, f->nlabel, sizeof *map) : NULL;
    if (f->nlabel && !map)
        return ptx_nomem(ps);
    int r = 0;
    for (uint32_t k = 0; r >= 0 && k < f->nlabel; k++) {
        const struct ptx_label_info *l = &sc->linfo[k];
        map[k] = 0;
        if (l->alias != k)
            continue;
        if (!l->defined) {
            r = ptx_perr_at(ps, l->line, l->col, "label %.200s is not defined", sc->sym[l->sym].name);
            break;
        }
        map[k] = n;
        f->label[n].name = ptx_unique(sc, l->sym, true);
        if (!f->label[n++].name)
            r = ptx_nomem(ps);
    }
    for (uint32_t i = 0; r >= 0 && i < f->ninst; i++)
        for (unsigned k = 0; k < f->inst[i].nopnd; k++)
            if (f->inst[i].opnd[k].kind == PTX_O_LABEL)
                f->inst[i].opnd[k].label = map[f->inst[i].opnd[k].label];
    f->nlabel = n;
    free(map);
    return r;
}

static int parse_function(struct ptx_parser *ps, struct ptx_linkage l, bool entry)
{
    struct ptx_module *m = ps->m;
    struct ptx_scope *sc = ps->sc;
    struct ptx_function *f = dt_new(&m->arena, struct ptx_function);
    if (!f)
        return ptx_nomem(ps);
    f->module = m;
    f->is_entry = entry;
    f->is_extern = l.is_extern;
    f->visible = l.visible;
    f->weak = l.weak;
    f->line = ps->lx.t.line;
    ps->reg_param = NULL;
    sc->f = f;
    sc->serial++;
    sc->nlinfo = 0;
    ptx_scope_open(sc);
    ps->f = f;
    int r = 0;
    while (r >= 0 && ptx_is_dot(ps, "attribute")) { /* .unified and the like concern linking only */
        ptx_next(ps);
        r = ptx_expect(ps, '(');
        while (r >= 0 && !ptx_is(ps, ')')) {
            if (ps->lx.t.kind == PTX_TK_EOF || ps->lx.t.kind == PTX_TK_BAD || ptx_is(ps, '{'))
                return ptx_unexpected(ps, "')'");
            ptx_next(ps);
        }
        ptx_next(ps);
    }
    if (r >= 0 && !entry && ptx_is(ps, '('))
        r = parse_params(ps, f, true, &f->ret, &f->nret);
    if (r < 0)
        return r;
    struct ptx_tok name = ps->lx.t;
    if (name.kind != PTX_TK_IDENT)
        return ptx_unexpected(ps, "a function name");
    ptx_next(ps);
    if (ptx_is(ps, '(') && (r = parse_params(ps, f, false, &f->param, &f->nparam)) < 0)
        return r;
    if ((r = parse_directives(ps, f)) < 0)
        return r;
    f->has_body = ptx_is(ps, '{');
    if ((r = bind_function(ps, f, &name)) < 0)
        return r;
    if (!PTX_GROW(&m->arena, m->func, m->nfunc, m->func_cap))
        return ptx_nomem(ps);
    m->func[m->nfunc++] = f;
    if (f->has_body) {
        if (f->is_extern)
            return ptx_perr(ps, "an .extern function has no body");
        ptx_next(ps);
        if ((r = ptx_lower_params(ps, NULL, false)) < 0 || (r = ptx_parse_body(ps, false)) < 0 ||
            (r = ptx_lower_end(ps)) < 0 || (r = close_labels(ps)) < 0)
            return r;
        ptx_next(ps); /* the closing brace */
    } else if (entry) {
        return ptx_unexpected(ps, "'{'");
    } else if (ptx_is(ps, ';')) { /* ptxas does not ask for it */
        ptx_next(ps);
    } else if (!next_item(ps) && ps->lx.t.kind != PTX_TK_EOF) {
        return ptx_unexpected(ps, "';'");
    }
    ptx_scope_close(sc);
    sc->f = NULL;
    ps->f = NULL;
    return 0;
}

static int parse_alias(struct ptx_parser *ps)
{
    struct ptx_alias a = {0};
    for (unsigned k = 0; k < 2; k++) {
        struct ptx_bind b;
        ptx_next(ps);
        if (ps->lx.t.kind != PTX_TK_IDENT)
            return ptx_unexpected(ps, "a function");
        if (ptx_lookup(ps->sc, ps->lx.t.s, ps->lx.t.len, &b) < 0)
            return ptx_nomem(ps);
        if (b.kind != PTX_BIND_FUNC)
            return ptx_perr(ps, "%.*s is not a function", ps->lx.t.len > 200 ? 200 : (int)ps->lx.t.len, ps->lx.t.s);
        *(k ? &a.target : &a.name) = b.func;
        ptx_next(ps);
        if (!k && !ptx_is(ps, ','))
            return ptx_unexpected(ps, "','");
    }
    if (!PTX_GROW(&ps->m->arena, ps->m->alias, ps->m->nalias, ps->m->alias_cap))
        return ptx_nomem(ps);
    ps->m->alias[ps->m->nalias++] = a;
    return ptx_expect(ps, ';');
}

/* ---- module */

/* Where the current token starts in the text. */
static size_t parse_place(const struct ptx_parser *ps)
{
    return (size_t)(ps->lx.t.s - ps->text) - (ps->lx.t.kind == PTX_TK_DOT);
}

static int parse_item(struct ptx_parser *ps)
{
    bool debug;
    int r = ptx_parse_debug(ps, &debug);
    if (r < 0 || debug)
        return r;
    if (ptx_is_dot(ps, "pragma"))
        return parse_pragma(ps, &ps->m->pragma);
    if (ptx_is_dot(ps, "alias"))
        return parse_alias(ps);
    struct ptx_linkage l = {0};
    size_t at = parse_place(ps);
    for (;; ptx_next(ps)) {
        if (ptx_is_dot(ps, "extern"))
            l.is_extern = true;
        else if (ptx_is_dot(ps, "visible"))
            l.visible = true;
        else if (ptx_is_dot(ps, "weak"))
            l.weak = true;
        else if (ptx_is_dot(ps, "common"))
            l.common = true;
        else
            break;
    }
    if (ptx_is_dot(ps, "entry") || ptx_is_dot(ps, "func")) {
        bool entry = ptx_is_dot(ps, "entry");
        ptx_next(ps);
        if ((r = parse_function(ps, l, entry)) < 0)
            return r;
        struct ptx_function *f = ps->m->func[ps->m->nfunc - 1];
        f->at = at;
        f->end = parse_place(ps);
        return r;
    }
    struct ptx_word w = {0};
    if (ps->lx.t.kind == PTX_TK_DOT)
        w = ptx_word_find(ps->lx.t.s, ps->lx.t.len);
    if (w.kind == PTX_W_SPACE &&
        (w.value == PTX_GLOBAL || w.value == PTX_CONST || w.value == PTX_SHARED || w.value == PTX_LOCAL)) {
        ptx_next(ps);
        return ptx_parse_var(ps, l, w.value);
    }
    if (ptx_is_dot(ps, "tex"))
        return ptx_perr(ps, "textures are not supported: .tex");
    return ptx_unexpected(ps, "a declaration");
}

/* Uses that came before the definition point at the forward declaration: point them at the definition. */
static void repoint(struct ptx_scope *sc, struct ptx_function **f, struct ptx_var **v)
{
    const char *name = f && *f && !(*f)->has_body ? (*f)->name : v && *v && (*v)->is_extern ? (*v)->name : NULL;
    uint32_t sym = name ? dt_names_get(&sc->names, name, strlen(name)) : DT_NAME_NONE;
    const struct ptx_bind *b = sym == DT_NAME_NONE ? NULL : sc->sym[sym].bind;
    if (b && b->kind == PTX_BIND_FUNC && f)
        *f = b->func;
    if (b && b->kind == PTX_BIND_VAR && v)
        *v = b->var;
}

static void repoint_opnd(struct ptx_scope *sc, struct ptx_opnd *o)
{
    if (o->kind == PTX_O_FUNC)
        repoint(sc, &o->func, NULL);
    else if (o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR))
        repoint(sc, NULL, &o->var);
    else if (o->kind == PTX_O_VEC || o->kind == PTX_O_TEXTURE)
        for (unsigned k = 0; k < o->n; k++)
            repoint_opnd(sc, &o->elem[k]);
}

static void repoint_all(struct ptx_parser *ps)
{
    struct ptx_module *m = ps->m;
    for (uint32_t i = 0; i < m->nvar; i++)
        for (uint32_t k = 0; k < m->var[i]->nreloc; k++)
            repoint(ps->sc, &m->var[i]->reloc[k].func, &m->var[i]->reloc[k].var);
    for (uint32_t i = 0; i < m->nalias; i++) {
        repoint(ps->sc, &m->alias[i].name, NULL);
        repoint(ps->sc, &m->alias[i].target, NULL);
    }
    for (uint32_t i = 0; i < m->nfunc; i++)
        for (uint32_t j = 0; j < m->func[i]->ninst; j++)
            for (unsigned k = 0; k < m->func[i]->inst[j].nopnd; k++)
                repoint_opnd(ps->sc, &m->func[i]->inst[j].opnd[k]);
}

int ptx_parse(const char *text, size_t len, struct ptx_module **ret, struct dt_err *e)
{
    if (len > PTX_MAX_BYTES)
        return dt_err_set(e, DT_E_TOO_LARGE, "PTX of %zu bytes is over the limit of %u", len, PTX_MAX_BYTES);
    struct ptx_parser ps = {.e = e};
    int r = DT_E_NOMEM;
    char *copy = dt_malloc(len + 1);
    ps.m = dt_calloc(1, sizeof *ps.m);
    ps.sc = ps.m ? ptx_scope_new(ps.m) : NULL;
    if (!copy || !ps.sc) {
        dt_err_set(e, r, "out of memory");
        goto out;
    }
    memcpy(copy, text, len);
    copy[len] = 0;
    ps.text = copy;
    ptx_lex_init(&ps.lx, copy, len);
    r = parse_header(&ps);
    while (r >= 0 && ps.lx.t.kind != PTX_TK_EOF)
        r = parse_item(&ps);
    if (r >= 0)
        repoint_all(&ps);
out:
    ptx_scope_free(ps.sc);
    free(copy);
    if (r < 0) {
        ptx_module_free(ps.m);
        return r;
    }
    *ret = ps.m;
    return 0;
}
