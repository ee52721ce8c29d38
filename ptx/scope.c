/* Names while text is read: shadowing, ranges of registers, forward labels, and the renaming that flattens nested
 * scopes.
 *
 * Every name is interned once; the interned symbol holds a stack of bindings, innermost first, and each scope a list of
 * the bindings it made, so that opening is free and closing costs what was declared in it.
 *
 * Ranges (`.reg .b32 %r<100000>`) declare nothing: a register is made when it is first named, so a hostile count costs
 * nothing.
 *
 * Labels may be used before they are defined and are local to their scope. A use makes a provisional label in the scope
 * of the use. At the end of the scope, a label that is still undefined moves to the scope around it, or becomes an
 * alias of the label of that name there. A label that is undefined at the end of the function is an error (found by the
 * parser).
 *
 * Renaming: a name that the function has already taken gets "_1", "_2", … behind it. A name of module scope may be
 * taken over by the function's own scope unless the function has already used it. A word of an opaque statement that
 * means nothing there may be a keyword or a label: afterwards only a label may take it as a name. Text that has no
 * shadowing is never renamed.
 *
 * The same structure, kept with a function (ptx_function.scope), serves ptx_append_text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx-priv.h"

bool ptx_grow(struct dt_arena *a, void **p, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    if (n > UINT32_MAX / 2 - 16)
        return false;
    uint32_t c = *cap ? *cap * 2 : 8;
    void *q = dt_arena_array(a, c, size);
    if (!q)
        return false;
    if (n)
        memcpy(q, *p, n * size);
    *p = q;
    *cap = c;
    return true;
}

struct ptx_scope *ptx_scope_new(struct ptx_module *m)
{
    struct ptx_scope *sc = dt_calloc(1, sizeof *sc);
    if (sc)
        sc->m = m;
    return sc;
}

void ptx_scope_free(struct ptx_scope *sc)
{
    if (!sc)
        return;
    dt_arena_done(&sc->arena);
    dt_names_done(&sc->names);
    free(sc);
}

uint32_t ptx_intern(struct ptx_scope *sc, const char *s, size_t len)
{
    uint32_t i = dt_names_get(&sc->names, s, len);
    if (i != DT_NAME_NONE)
        return i;
    if (!PTX_GROW(&sc->arena, sc->sym, sc->nsym, sc->sym_cap))
        return DT_NAME_NONE;
    const char *name = dt_arena_strndup(&sc->m->arena, s, len);
    if (!name || dt_names_put(&sc->names, name, sc->nsym) < 0)
        return DT_NAME_NONE;
    sc->sym[sc->nsym] = (struct ptx_sym){.name = name};
    return sc->nsym++;
}

const char *ptx_unique(struct ptx_scope *sc, uint32_t sym, bool label)
{
    struct ptx_sym *s = &sc->sym[sym];
    bool clash = s->taken == sc->serial || (s->mentioned == sc->serial && !label);
    if (!clash && (sc->depth > 1 || s->used == sc->serial))
        for (const struct ptx_bind *b = s->bind; b; b = b->below)
            clash |= b->depth == 0;
    char buf[32];
    uint32_t base = sym;
    while (clash) {
        int n = snprintf(buf, sizeof buf, "_%u", ++sc->sym[base].suffix);
        size_t len = strlen(sc->sym[base].name);
        char *name = dt_arena_alloc(&sc->arena, len + (size_t)n + 1);
        if (!name)
            return NULL;
        memcpy(name, sc->sym[base].name, len);
        memcpy(name + len, buf, (size_t)n + 1);
        sym = ptx_intern(sc, name, len + (size_t)n);
        if (sym == DT_NAME_NONE)
            return NULL;
        s = &sc->sym[sym];
        clash = s->taken == sc->serial || s->mentioned == sc->serial || s->bind;
    }
    s->taken = sc->serial;
    return s->name;
}

int ptx_bind_add(struct ptx_scope *sc, unsigned depth, uint32_t sym, struct ptx_bind b)
{
    struct ptx_sym *s = &sc->sym[sym];
    if (s->bind && s->bind->depth >= depth)
        return 1;
    struct ptx_bind *n = dt_new(&sc->arena, struct ptx_bind);
    if (!n)
        return DT_E_NOMEM;
    *n = b;
    n->depth = (uint8_t)depth;
    n->sym = sym;
    n->below = s->bind;
    n->next = sc->binds[depth];
    s->bind = n;
    sc->binds[depth] = n;
    return 0;
}

int ptx_bind_under(struct ptx_scope *sc, uint32_t sym, struct ptx_bind b)
{
    struct ptx_bind *n = dt_new(&sc->arena, struct ptx_bind), **to = &sc->sym[sym].bind;
    if (!n)
        return DT_E_NOMEM;
    while (*to)
        to = &(*to)->below;
    *n = b;
    n->sym = sym;
    n->next = sc->binds[0];
    *to = sc->binds[0] = n;
    return 0;
}

int ptx_range_add(struct ptx_scope *sc, const char *prefix, size_t len, unsigned type, unsigned vec, uint32_t count)
{
    uint32_t sym = ptx_intern(sc, prefix, len);
    struct ptx_range *r = sym == DT_NAME_NONE ? NULL : dt_new(&sc->arena, struct ptx_range);
    if (!r)
        return DT_E_NOMEM;
    struct ptx_sym *s = &sc->sym[sym];
    if (s->range && s->range->depth == sc->depth)
        return 1;
    *r = (struct ptx_range){(uint8_t)sc->depth, (uint8_t)type,        (uint8_t)vec, count, sym,
                            s->range,           sc->ranges[sc->depth]};
    s->range = r;
    sc->ranges[sc->depth] = r;
    if (sc->depth > sc->range_depth)
        sc->range_depth = sc->depth;
    return 0;
}

int ptx_reg_add(struct ptx_function *f, const char *name, unsigned type, unsigned vec, uint32_t *ret)
{
    if (!PTX_GROW(&f->module->arena, f->reg, f->nreg, f->reg_cap))
        return DT_E_NOMEM;
    f->reg[f->nreg] = (struct ptx_reg){name, (uint8_t)type, (uint8_t)vec};
    *ret = f->nreg++;
    return 0;
}

int ptx_label_add(struct ptx_function *f, const char *name, uint32_t *ret)
{
    if (!PTX_GROW(&f->module->arena, f->label, f->nlabel, f->label_cap))
        return DT_E_NOMEM;
    f->label[f->nlabel].name = name;
    *ret = f->nlabel++;
    return 0;
}

/* The innermost range that holds the name, deeper than `over`. */
static const struct ptx_range *find_range(const struct ptx_scope *sc, const char *s, size_t len, unsigned over)
{
    const struct ptx_range *best = NULL;
    uint64_t index = 0, scale = 1;
    for (size_t at = len; at > 1 && len - at < 10 && s[at - 1] >= '0' && s[at - 1] <= '9';) {
        at--;
        index += (uint64_t)(s[at] - '0') * scale;
        scale *= 10;
        if (s[at] == '0' && at + 1 < len)
            continue; /* leading zero: not a name of a range */
        uint32_t sym = dt_names_get(&sc->names, s, at);
        const struct ptx_range *r = sym == DT_NAME_NONE ? NULL : sc->sym[sym].range;
        for (; r && r->depth >= over; r = r->below)
            if (index < r->count) {
                best = r;
                over = r->depth + 1u;
                break;
            }
    }
    return best;
}

int ptx_lookup(struct ptx_scope *sc, const char *s, size_t len, struct ptx_bind *ret)
{
    uint32_t sym = dt_names_get(&sc->names, s, len);
    struct ptx_bind *b = sym == DT_NAME_NONE ? NULL : sc->sym[sym].bind;
    if (sc->f && (!b || b->depth < sc->range_depth)) {
        const struct ptx_range *r = find_range(sc, s, len, b ? b->depth + 1u : 1);
        if (r) {
            sym = ptx_intern(sc, s, len);
            uint32_t reg;
            if (sym == DT_NAME_NONE || ptx_vector_add(sc, sym, r->type, r->vec, &reg) < 0 ||
                ptx_bind_add(sc, r->depth, sym, (struct ptx_bind){.kind = PTX_BIND_REG, .reg = reg, .vec = r->vec}) < 0)
                return DT_E_NOMEM;
            b = sc->sym[sym].bind;
        }
    }
    if (!b) {
        *ret = (struct ptx_bind){0};
        return 0;
    }
    if (!b->depth)
        sc->sym[sym].used = sc->serial;
    *ret = *b;
    return 0;
}

static struct ptx_label_bind *label_here(struct ptx_scope *sc, const char *s, size_t len, uint32_t line, uint32_t col)
{
    uint32_t sym = ptx_intern(sc, s, len);
    if (sym == DT_NAME_NONE)
        return NULL;
    struct ptx_label_bind *b = sc->sym[sym].label;
    if (b && b->depth == sc->depth)
        return b;
    uint32_t label;
    b = dt_new(&sc->arena, struct ptx_label_bind);
    if (!b || !PTX_GROW(&sc->arena, sc->linfo, sc->nlinfo, sc->linfo_cap) ||
        ptx_label_add(sc->f, sc->sym[sym].name, &label) < 0)
        return NULL;
    sc->linfo[sc->nlinfo++] = (struct ptx_label_info){sym, label, line, col, false};
    *b = (struct ptx_label_bind){sym, label, (uint8_t)sc->depth, sc->sym[sym].label, sc->labels[sc->depth]};
    sc->sym[sym].label = b;
    sc->labels[sc->depth] = b;
    return b;
}

int ptx_label_ref(struct ptx_scope *sc, const char *s, size_t len, uint32_t line, uint32_t col, uint32_t *ret)
{
    struct ptx_label_bind *b = label_here(sc, s, len, line, col);
    if (!b)
        return DT_E_NOMEM;
    *ret = b->label;
    return 0;
}

int ptx_label_def(struct ptx_scope *sc, const char *s, size_t len, uint32_t line, uint32_t col, uint32_t *ret)
{
    struct ptx_label_bind *b = label_here(sc, s, len, line, col);
    if (!b)
        return DT_E_NOMEM;
    if (sc->linfo[b->label].defined)
        return 1;
    sc->linfo[b->label].defined = true;
    *ret = b->label;
    return 0;
}

uint32_t ptx_label_final(const struct ptx_scope *sc, uint32_t label)
{
    while (sc->linfo[label].alias != label)
        label = sc->linfo[label].alias = sc->linfo[sc->linfo[label].alias].alias;
    return label;
}

int ptx_scope_open(struct ptx_scope *sc)
{
    if (sc->depth == PTX_MAX_DEPTH)
        return 1;
    sc->depth++;
    sc->binds[sc->depth] = NULL;
    sc->ranges[sc->depth] = NULL;
    sc->labels[sc->depth] = NULL;
    return 0;
}

int ptx_scope_close(struct ptx_scope *sc)
{
    unsigned d = sc->depth--;
    for (struct ptx_bind *b = sc->binds[d]; b; b = b->next)
        sc->sym[b->sym].bind = b->below;
    for (struct ptx_range *r = sc->ranges[d]; r; r = r->next)
        sc->sym[r->sym].range = r->below;
    if (sc->range_depth == d)
        for (sc->range_depth = d - 1; sc->range_depth && !sc->ranges[sc->range_depth]; sc->range_depth--)
            ;
    for (struct ptx_label_bind *b = sc->labels[d], *next; b; b = next) {
        next = b->next;
        struct ptx_sym *s = &sc->sym[b->sym];
        if (d == 1 || sc->linfo[b->label].defined) {
            s->label = b->below;
        } else if (b->below && b->below->depth == d - 1) {
            s->label = b->below;
            sc->linfo[b->label].alias = b->below->label;
        } else { /* still open: it belongs to the scope around */
            b->depth = (uint8_t)(d - 1);
            b->next = sc->labels[d - 1];
            sc->labels[d - 1] = b;
        }
    }
    sc->binds[d] = NULL;
    sc->ranges[d] = NULL;
    sc->labels[d] = NULL;
    return 0;
}
