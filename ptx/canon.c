/* Canonical names: one function printed in such a way that its text depends only on what the function does. The
 * signature hashes this text; it need not parse.
 *
 *   %r0 %r1 …   registers, which keep their declared types
 *   L0 L1 …     labels
 *   v0 …        variables of the function
 *   p0 …        its parameters
 *   g0 …        variables of module scope
 *   f0 …        device functions
 *
 * Each kind is numbered by first appearance; the function's own name is left out. What the function uses stands before
 * it, each printed in the same way. Names that mean something outside the module stay: functions without a body
 * (vprintf, __assertfail), and extern variables other than shared memory.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ptx/ptx-priv.h"

struct ptx_namer {
    const struct ptx_use *use;
    uint32_t *reg, *label; /* number + 1, 0: not seen */
    uint32_t *reg_order;   /* by number */
    uint32_t nreg, nlabel, nvar;
    struct dt_names var; /* of the function's own scope */
    const struct ptx_var **var_order;
    uint32_t var_cap;
    struct dt_arena arena;
    bool failed;
};

void ptx_canon_reg(struct ptx_printer *p, uint32_t reg)
{
    struct ptx_namer *c = p->canon;
    if (!c->reg[reg]) {
        c->reg_order[c->nreg] = reg;
        c->reg[reg] = ++c->nreg;
    }
    dt_str_add(p->out, "%r");
    ptx_put_u64(p->out, c->reg[reg] - 1);
}

void ptx_canon_label(struct ptx_printer *p, uint32_t label)
{
    struct ptx_namer *c = p->canon;
    if (!c->label[label])
        c->label[label] = ++c->nlabel;
    dt_str_addc(p->out, 'L');
    ptx_put_u64(p->out, c->label[label] - 1);
}

void ptx_canon_var(struct ptx_printer *p, const struct ptx_var *v)
{
    struct ptx_namer *c = p->canon;
    if (v->is_extern && v->space != PTX_SHARED) {
        dt_str_add(p->out, v->name);
        return;
    }
    if (!v->owner) {
        dt_str_addc(p->out, 'g');
        ptx_put_u64(p->out, dt_names_get(&c->use->var_at, v->name, strlen(v->name)));
        return;
    }
    if (v->space == PTX_PARAM && p->f && v->index < p->f->nparam && p->f->param[v->index] == v) {
        dt_str_addc(p->out, 'p');
        ptx_put_u64(p->out, v->index);
        return;
    }
    int r = dt_names_put(&c->var, v->name, c->nvar);
    if (!r) {
        if (!PTX_GROW(&c->arena, c->var_order, c->nvar, c->var_cap))
            r = DT_E_NOMEM;
        else
            c->var_order[c->nvar++] = v;
    }
    c->failed |= r < 0;
    dt_str_addc(p->out, 'v');
    ptx_put_u64(p->out, dt_names_get(&c->var, v->name, strlen(v->name)));
}

void ptx_canon_func(struct ptx_printer *p, const struct ptx_function *f)
{
    uint32_t at = dt_names_get(&p->canon->use->func_at, f->name, strlen(f->name));
    if (!f->has_body) { /* an alias is its target */
        const struct ptx_module *m = f->module;
        for (uint32_t k = 0; k < m->nalias; k++)
            if (!strcmp(m->alias[k].name->name, f->name)) {
                f = m->alias[k].target;
                at = dt_names_get(&p->canon->use->func_at, f->name, strlen(f->name));
            }
    }
    if (!f->has_body) {
        dt_str_add(p->out, f->name);
        return;
    }
    dt_str_addc(p->out, 'f');
    ptx_put_u64(p->out, at);
}

static void canon_put_list(struct ptx_printer *p, const char *head, struct ptx_var **v, uint32_t n)
{
    dt_str_add(p->out, head);
    for (uint32_t k = 0; k < n; k++) {
        ptx_put_var(p, v[k]);
        dt_str_addc(p->out, '\n');
    }
}

static int put_function(struct ptx_namer *c, const struct ptx_function *f, uint32_t at, struct dt_str *out)
{
    if (!f->has_body) {
        dt_str_addf(out, "extern %s\n", f->name);
        return 0;
    }
    struct dt_str body = {0};
    struct ptx_printer p = {out, f, c};
    c->nreg = c->nlabel = c->nvar = c->var_cap = 0;
    c->var_order = NULL;
    c->reg = dt_calloc(f->nreg + 1, sizeof *c->reg);
    c->reg_order = dt_calloc(f->nreg + 1, sizeof *c->reg_order);
    c->label = dt_calloc(f->nlabel + 1, sizeof *c->label);
    if (c->reg && c->reg_order && c->label) {
        dt_str_addf(out, f->is_entry ? "entry" : "func f%u", at);
        canon_put_list(&p, "\n", f->ret, f->nret);
        canon_put_list(&p, "params\n", f->param, f->nparam);
        ptx_put_directives(out, f, "\n");
        p.out = &body;
        for (uint32_t k = 0; k < f->ninst && !body.failed; k++) {
            ptx_put_inst(&p, &f->inst[k]);
            dt_str_addc(&body, '\n');
        }
        p.out = out;
        dt_str_add(out, "\n{\n");
        for (uint32_t k = 0; k < c->nreg; k++) {
            const struct ptx_reg *r = &f->reg[c->reg_order[k]];
            dt_str_addf(out, ".%s*%u\n", ptx_type_text(r->type), r->vec);
        }
        for (uint32_t k = 0; k < c->nvar; k++) {
            ptx_put_var(&p, c->var_order[k]);
            dt_str_addc(out, '\n');
        }
        if (body.s)
            dt_str_addn(out, body.s, body.len);
        dt_str_add(out, "}\n");
        c->failed |= body.failed;
    } else {
        c->failed = true;
    }
    dt_str_done(&body);
    free(c->reg);
    free(c->reg_order);
    free(c->label);
    dt_names_done(&c->var);
    return c->failed ? DT_E_NOMEM : 0;
}

int ptx_print_canonical(const struct ptx_function *entry, struct dt_str *out)
{
    struct ptx_use use = {0};
    struct ptx_namer c = {.use = &use};
    int r = ptx_use_of(entry, &use);
    struct ptx_printer p = {out, NULL, &c};
    for (uint32_t k = 0; k < use.nvar && r >= 0; k++) {
        ptx_put_var(&p, use.var[k]);
        dt_str_addc(out, '\n');
    }
    for (uint32_t k = use.nfunc; k-- > 0 && r >= 0;)
        r = put_function(&c, use.func[k], k, out);
    ptx_use_done(&use);
    dt_arena_done(&c.arena);
    return r < 0 ? r : out->failed || c.failed ? DT_E_NOMEM : 0;
}
