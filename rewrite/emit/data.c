/* What the bodies of a fused kernel refer to: parameters, variables, device functions.
 *
 * Parameters: those of all bodies, without arguments that are dropped; bodies with the same argument share one.
 * Variables and device functions are copied into the new module, once for all bodies of one module (tables.c has more
 * on constant ones), and get names of their own. Shared arrays of all bodies are parts of one array. struct rw_join
 * keeps what became of each (vars, funcs); copy.c looks there.
 */
#include "rewrite/emit/emit-priv.h"
#include "rewrite/emit/join.h"
#include "rewrite/facts/hooks.h"

#include <stdio.h>
#include <string.h>

static int data_nomem(struct rw_join *j) { return dt_err_set(j->e, DT_E_NOMEM, "out of memory"); }

bool rw_same_arg(const struct dt_arg *x, const struct dt_arg *y)
{
    if (x->kind != y->kind)
        return false;
    if (x->kind == DT_ARG_BUFFER)
        return x->buffer == y->buffer && x->offset == y->offset;
    return x->kind == DT_ARG_SCALAR && x->bits == y->bits && x->dtype == y->dtype;
}

bool rw_is_zero_word(const struct ptx_var *v)
{
    return !strncmp(v->name, RW_ZERO_WORD, strlen(RW_ZERO_WORD)) && v->type == PTX_U32 && !v->is_array;
}

struct ptx_var *rw_new_param(struct rw_join *j, const struct ptx_var *like)
{
    bool zero = rw_is_zero_word(like), taken = true;
    char name[160];
    for (unsigned k = zero ? 0 : j->f->nparam; taken; k++) {
        if (zero)
            snprintf(name, sizeof name, RW_ZERO_WORD "%u", k);
        else
            snprintf(name, sizeof name, "%s_param_%u", j->c->made.entry, k);
        taken = false;
        for (uint32_t i = 0; i < j->f->nparam; i++)
            taken |= !strcmp(j->f->param[i]->name, name);
    }
    struct ptx_var *to = ptx_param_new(j->f, name, like->is_array ? PTX_B8 : like->type, like->bytes, like->align);
    if (to)
        to->is_array = like->is_array;
    return to;
}

static bool data_dropped(const struct rw_cand *c, int s, uint32_t arg)
{
    for (uint32_t r = 0; rw_in_shared(c) && r < c->nredirect && arg < 62; r++)
        if (c->redirect[r].drop_arg && ((c->redirect[r].args[s] >> arg) & 1))
            return true;
    return false;
}

/* The parameter of an earlier body that has the argument of body s, argument i. */
static struct ptx_var *shared_param(struct rw_join *j, uint32_t s, uint32_t i)
{
    const struct rw_cand *c = j->c;
    const struct ptx_var *v = c->facts.body[s].f->param[i];
    struct ptx_var *to;
    uint32_t off;
    for (uint32_t b = 0; b < s && i < c->facts.body[s].step->launch->narg; b++)
        for (uint32_t k = 0; k < c->facts.body[b].f->nparam && k < c->facts.body[b].step->launch->narg; k++) {
            const struct ptx_var *w = c->facts.body[b].f->param[k];
            if (!rw_is_zero_word(v) && !rw_is_zero_word(w) && !data_dropped(c, (int)b, k) && w->bytes == v->bytes &&
                w->align == v->align && w->is_array == v->is_array &&
                rw_same_arg(&c->facts.body[b].step->launch->arg[k], &c->facts.body[s].step->launch->arg[i]) &&
                (to = rw_map_var(j, (int)b, w, &off)))
                return to;
        }
    return NULL;
}

/* The fused entry's parameters; c->made.arg_keep and c->made.arg_same say the same for the launch's arguments. */
int rw_make_params(struct rw_join *j)
{
    struct rw_cand *c = j->c;
    for (uint32_t s = 0; s < c->facts.nbody; s++) {
        const struct ptx_function *f = c->facts.body[s].f;
        c->made.arg_keep[s] = ~UINT64_C(0);
        c->made.arg_same[s] = dt_new_array(&c->arena, bool, f->nparam + 1);
        if (!c->made.arg_same[s])
            return data_nomem(j);
        for (uint32_t i = 0; i < f->nparam; i++) {
            const struct ptx_var *v = f->param[i];
            if (data_dropped(c, (int)s, i)) {
                c->made.arg_keep[s] &= ~(UINT64_C(1) << i);
                continue;
            }
            struct ptx_var *to = shared_param(j, s, i);
            c->made.arg_same[s][i] = to != NULL;
            if (!to && !(to = rw_new_param(j, v)))
                return data_nomem(j);
            if (!dt_push(&j->vars, (struct rw_var_pair){v, to, 0, (int)s}))
                return data_nomem(j);
        }
    }
    return 0;
}

/* Make a name from PREFIX, a number and the old name that neither the module nor the function has. The function may
 * itself have been made here. */
static void fresh_name(struct rw_join *j, const struct ptx_function *f, char *out, size_t size, const char *prefix,
                       const char *old)
{
    bool taken = true;
    while (taken) {
        snprintf(out, size, "%s%u%s%.60s", prefix, j->nunique++, *old ? "_" : "", old);
        taken = ptx_find_var(j->m, out) || ptx_find_function(j->m, out);
        for (uint32_t k = 0; f && k < f->nvar; k++)
            taken |= !strcmp(f->var[k]->name, out);
    }
}

/* Constant memory where it still fits beside what the module has there, else global memory: a table there is read like
 * any data that nobody writes. */
struct ptx_var *rw_table_new(struct ptx_module *m, const char *name, uint64_t bytes, uint32_t spare)
{
    uint64_t taken = 0;
    for (uint32_t k = 0; k < m->nvar; k++) {
        const struct ptx_var *v = m->var[k];
        uint64_t align = v->align ? v->align : 1;
        if (v->space == PTX_CONST)
            taken = (taken + align - 1) / align * align + v->bytes;
    }
    taken = (taken + 3) / 4 * 4;
    bool far = taken + bytes + spare > RW_CONST_SPACE || RW_FAR_TABLES;
    struct ptx_var *v = ptx_var_new(m, NULL, name, far ? PTX_GLOBAL : PTX_CONST, PTX_B8, (uint32_t)bytes, 4);
    if (v && !(v->init = dt_arena_alloc(&m->arena, bytes)))
        return NULL;
    if (v)
        memset(v->init, 0, bytes);
    return v;
}

const char *rw_table_space(const struct ptx_var *table) { return table->space == PTX_CONST ? "const" : "global"; }

static struct ptx_var *copy_data(struct rw_join *j, const struct ptx_var *v)
{
    char name[96];
    fresh_name(j, NULL, name, sizeof name, "dt_v", v->name);
    enum ptx_space space = v->space == PTX_CONST && rw_is_far(j->c, j->far, v) ? PTX_GLOBAL : v->space;
    struct ptx_var *to = ptx_var_new(j->m, NULL, name, space, PTX_B8, v->bytes, v->align ? v->align : 1);
    if (to && v->init) {
        to->init = dt_arena_alloc(&j->m->arena, v->bytes);
        if (!to->init)
            return NULL;
        memcpy(to->init, v->init, v->bytes);
    }
    return to;
}

/* The copy of a table with the same bytes, from whatever module; NULL: there is none. */
static struct ptx_var *copied_table(const struct rw_join *j, const struct ptx_var *v)
{
    for (size_t k = 0; k < j->vars.n && v->space == PTX_CONST; k++)
        if (rw_same_table(j->vars.p[k].from, v))
            return j->vars.p[k].to;
    return NULL;
}

/* Copy the module variables that a function names into the new module. */
static int copy_module_vars(struct rw_join *j, const struct ptx_function *f)
{
    for (uint32_t n = 0; n < f->ninst; n++)
        for (unsigned k = 0; k < f->inst[n].nopnd; k++) {
            const struct ptx_opnd *o = &f->inst[n].opnd[k];
            bool var = o->kind == PTX_O_VAR || (o->kind == PTX_O_ADDR && o->base_kind == PTX_O_VAR);
            uint32_t off;
            if (!var || (o->var->space != PTX_GLOBAL && o->var->space != PTX_CONST) ||
                rw_map_var(j, RW_ANY_SIDE, o->var, &off))
                continue;
            struct ptx_var *to = copied_table(j, o->var);
            to = to ? to : copy_data(j, o->var);
            if (!to || !dt_push(&j->vars, (struct rw_var_pair){o->var, to, 0, RW_ANY_SIDE}))
                return data_nomem(j);
        }
    return 0;
}

/* Copy the local and parameter-space variables declared in a function. */
static int copy_function_vars(struct rw_join *j, const struct ptx_function *f, struct ptx_function *to, int side)
{
    for (uint32_t k = 0; k < f->nvar; k++) {
        const struct ptx_var *v = f->var[k];
        char name[96];
        if (v->space == PTX_SHARED)
            continue;
        unsigned size = ptx_type_bytes(v->type);
        bool scalar = !v->is_array && size;
        fresh_name(j, to, name, sizeof name, "dt_l", v->name);
        struct ptx_var *w = ptx_var_new(j->m, to, name, v->space, scalar ? v->type : PTX_B8, scalar ? 1 : v->bytes,
                                        v->align ? v->align : 1);
        if (!w)
            return data_nomem(j);
        w->is_array = v->is_array;
        if (!dt_push(&j->vars, (struct rw_var_pair){v, w, 0, side}))
            return data_nomem(j);
    }
    return 0;
}

static const struct ptx_function *definition(const struct ptx_function *f)
{
    for (uint32_t k = 0; k < f->module->nfunc; k++)
        if (f->module->func[k]->has_body && !strcmp(f->module->func[k]->name, f->name))
            return f->module->func[k];
    return f;
}

/* Device functions that `f` calls go into a module of their own by print and parse (ptx_clone keeps what an entry
 * uses); here they are copied by text with fresh names, callees first. */
static int copy_callees(struct rw_join *j, const struct ptx_function *f, bool open);

static int copy_function(struct rw_join *j, const struct ptx_function *f, bool open)
{
    for (size_t k = 0; k < j->funcs.n; k++)
        if (j->funcs.p[k].from == f && j->funcs.p[k].open == open)
            return 0;
    int r = copy_callees(j, f, open);
    if (r < 0 || (r = copy_module_vars(j, f)) < 0)
        return r;
    char name[96];
    fresh_name(j, NULL, name, sizeof name, "dt_f", f->name);
    struct ptx_function *to = ptx_function_new(j->m, name, false), *outer = j->f;
    if (!to)
        return data_nomem(j);
    to->noreturn = f->noreturn;
    to->has_body = true;
    to->ret = dt_new_array(&j->m->arena, struct ptx_var *, f->nret + 1);
    for (uint32_t k = 0; k < f->nret + f->nparam; k++) {
        const struct ptx_var *v = k < f->nret ? f->ret[k] : f->param[k - f->nret];
        char pname[32];
        snprintf(pname, sizeof pname, "dt_p%u", j->nunique++);
        struct ptx_var *w = ptx_param_new(to, pname, v->is_array ? PTX_B8 : v->type, v->bytes, v->align);
        if (!w || !to->ret)
            return data_nomem(j);
        w->is_array = v->is_array;
        w->space = v->space;
        if (k < f->nret) { /* ptx_param_new adds at the end of param */
            to->nparam--;
            to->ret[to->nret++] = w;
        }
        if (!dt_push(&j->vars, (struct rw_var_pair){v, w, 0, RW_ANY_SIDE}))
            return data_nomem(j);
    }
    if ((r = copy_function_vars(j, f, to, RW_ANY_SIDE)) < 0)
        return r;
    struct rw_phase p = {.side = RW_ANY_SIDE, .open = open};
    p.reg = dt_new_array(&j->m->arena, uint32_t, f->nreg + 1);
    p.label = dt_new_array(&j->m->arena, uint32_t, f->nlabel + 1);
    if (!p.reg || !p.label)
        return data_nomem(j);
    for (uint32_t k = 0; k < f->nreg; k++) {
        if ((p.reg[k] = ptx_reg_new(to, f->reg[k].type, "r")) == PTX_NO_REG)
            return data_nomem(j);
        to->reg[p.reg[k]].vec = f->reg[k].vec;
    }
    for (uint32_t k = 0; k < f->nlabel; k++)
        if ((p.label[k] = ptx_label_new(to, "L")) == PTX_NO_REG)
            return data_nomem(j);
    j->f = to;
    r = rw_copy_function(j, &p, f);
    j->f = outer;
    if (r < 0)
        return r;
    return dt_push(&j->funcs, (struct rw_func_pair){f, to, open}) ? 0 : data_nomem(j);
}

static int copy_callees(struct rw_join *j, const struct ptx_function *f, bool open)
{
    for (uint32_t n = 0; n < f->ninst; n++)
        for (unsigned k = 0; f->inst[n].op == PTX_OP_CALL && k < f->inst[n].nopnd; k++)
            if (f->inst[n].opnd[k].kind == PTX_O_FUNC) {
                int r = copy_function(j, definition(f->inst[n].opnd[k].func), open);
                if (r < 0)
                    return r;
            }
    return 0;
}

int rw_make_shared(struct rw_join *j)
{
    struct rw_cand *c = j->c;
    if (!c->shared_bytes)
        return 0;
    char name[160];
    snprintf(name, sizeof name, "%s_smem", c->made.entry);
    /* `extern .shared` is declared at module scope */
    j->smem = ptx_var_new(j->m, c->shared_dynamic ? NULL : j->f, name, PTX_SHARED, PTX_B8,
                          c->shared_dynamic ? 0 : c->shared_bytes, c->shared_align);
    if (!j->smem)
        return data_nomem(j);
    if (c->shared_dynamic) {
        j->smem->is_extern = true;
        j->smem->is_array = true;
        j->smem->bytes = 0;
    }
    for (uint32_t s = 0; s < c->facts.nbody; s++)
        for (uint32_t k = 0; k < c->facts.body[s].nshared; k++)
            if (!dt_push(&j->vars, (struct rw_var_pair){c->facts.body[s].shared_var[k], j->smem,
                                                        c->facts.body[s].shared_at[k], s}))
                return data_nomem(j);
    return 0;
}

int rw_copy_module_data(struct rw_join *j, int side)
{
    const struct ptx_function *f = j->c->facts.body[side].f;
    int r = copy_module_vars(j, f);
    return r < 0 ? r : copy_callees(j, f, j->c->facts.open[side]);
}

int rw_copy_local_data(struct rw_join *j, int side)
{
    return copy_function_vars(j, j->c->facts.body[side].f, j->f, side);
}

int rw_copy_data(struct rw_join *j, int side)
{
    int r = rw_copy_module_data(j, side);
    return r < 0 ? r : rw_copy_local_data(j, side);
}
