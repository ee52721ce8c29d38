/* The variables and functions of its module that a function needs, transitively, in order of first appearance. Also the
 * text of a module with only what some functions need.
 *
 * The search has a worklist of functions. For each function it looks at every operand of every instruction, then at the
 * symbols in the initialisers of the variables that it found. An alias brings its target. Variables of a function's own
 * scope are not listed. The cost is linear in the text of what is used.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx-priv.h"

static int add_func(struct ptx_use *u, const struct ptx_function *f)
{
    int r = dt_names_put(&u->func_at, f->name, u->nfunc);
    if (r)
        return r < 0 ? r : 0;
    if (!PTX_GROW(&u->arena, u->func, u->nfunc, u->func_cap))
        return DT_E_NOMEM;
    u->func[u->nfunc++] = f;
    return 0;
}

static int add_var(struct ptx_use *u, const struct ptx_var *v)
{
    if (v->owner)
        return 0;
    int r = dt_names_put(&u->var_at, v->name, u->nvar);
    if (r)
        return r < 0 ? r : 0;
    if (!PTX_GROW(&u->arena, u->var, u->nvar, u->var_cap))
        return DT_E_NOMEM;
    u->var[u->nvar++] = v;
    return 0;
}

static int add_opnd(struct ptx_use *u, const struct ptx_opnd *o)
{
    int r = 0;
    if (o->kind == PTX_O_FUNC)
        return add_func(u, o->func);
    if (o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR))
        return add_var(u, o->var);
    if (o->kind == PTX_O_VEC || o->kind == PTX_O_TEXTURE)
        for (unsigned k = 0; k < o->n && r >= 0; k++)
            r = add_opnd(u, &o->elem[k]);
    return r;
}

int ptx_use_of(const struct ptx_function *f, struct ptx_use *u)
{
    const struct ptx_module *m = f->module;
    int r = add_func(u, f);
    for (uint32_t done = 0, vars = 0; r >= 0 && (done < u->nfunc || vars < u->nvar);) {
        if (vars < u->nvar) {
            const struct ptx_var *v = u->var[vars++];
            for (uint32_t k = 0; k < v->nreloc && r >= 0; k++)
                r = v->reloc[k].func ? add_func(u, v->reloc[k].func) : add_var(u, v->reloc[k].var);
            continue;
        }
        const struct ptx_function *g = u->func[done++];
        for (uint32_t i = 0; i < g->ninst && r >= 0; i++)
            for (unsigned k = 0; k < g->inst[i].nopnd && r >= 0; k++)
                r = add_opnd(u, &g->inst[i].opnd[k]);
        for (uint32_t k = 0; k < m->nalias && r >= 0 && !g->has_body; k++)
            if (!strcmp(m->alias[k].name->name, g->name))
                r = add_func(u, m->alias[k].target);
    }
    return r;
}

void ptx_use_done(struct ptx_use *u)
{
    dt_names_done(&u->var_at);
    dt_names_done(&u->func_at);
    dt_arena_done(&u->arena);
}

/* Everything that is not a function stays: variables are buffers of the graph, aliases and debug information name
 * functions. So what they name stays as well, except for labels inside functions, which debug sections of some
 * generators have: ptxas says so. */
int ptx_narrow(const struct ptx_module *m, const char *text, size_t len, const char *const *entry, size_t n, char **ret,
               size_t *ret_len)
{
    struct ptx_use u = {0};
    const struct ptx_function *first = NULL;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct ptx_function *f = ptx_find_function(m, entry[i]);
        r = f && f->has_body ? add_func(&u, f) : 1;
        first = first ? first : f;
    }
    for (uint32_t i = 0; i < m->nalias && r == 0; i++)
        if ((r = add_func(&u, m->alias[i].name)) == 0)
            r = add_func(&u, m->alias[i].target);
    for (uint32_t i = 0; i < m->nvar && r == 0; i++)
        for (uint32_t k = 0; k < m->var[i]->nreloc && r == 0; k++)
            r = m->var[i]->reloc[k].func ? add_func(&u, m->var[i]->reloc[k].func) : 0;
    if (r == 0)
        r = first ? ptx_use_of(first, &u) : 1;
    bool all = true;
    for (uint32_t i = 0; i < m->nfunc && r == 0; i++)
        all &= ptx_use_has_func(&u, m->func[i]);
    char *s = r || all ? NULL : dt_malloc(len + 1);
    if (r || !s) {
        ptx_use_done(&u);
        return r ? r : all ? 1 : DT_E_NOMEM;
    }
    size_t to = 0, from = 0;
    for (uint32_t i = 0; i <= m->nfunc; i++) { /* functions stand in the order of the text */
        const struct ptx_function *f = i < m->nfunc ? m->func[i] : NULL;
        if (f && ptx_use_has_func(&u, f))
            continue;
        size_t stop = f ? f->at : len;
        memcpy(s + to, text + from, stop - from);
        to += stop - from;
        for (from = stop; f && from < f->end; from++)
            if (text[from] == '\n')
                s[to++] = '\n';
    }
    s[to] = 0;
    ptx_use_done(&u);
    *ret = s;
    *ret_len = to;
    return 0;
}
