/* The functions that a kernel may run: a walk over its calls. It visits each function once, so recursion and wide call
 * graphs cost nothing.
 *
 * A declaration stands for the function of its name that has a body. Calls through registers, and calls of what has no
 * body, are not followed but reported (`unknown`). Functions whose address is taken are not followed either.
 */
#include "ptx/reach.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"

const struct ptx_function *ptx_callee(const struct ptx_inst *call)
{
    const struct ptx_function *f = NULL;
    for (unsigned k = 0; k < call->nopnd; k++)
        if (call->opnd[k].kind == PTX_O_FUNC)
            f = call->opnd[k].func;
    for (uint32_t k = 0; f && !f->has_body && k < f->module->nfunc; k++)
        if (f->module->func[k]->has_body && !strcmp(f->module->func[k]->name, f->name))
            return f->module->func[k];
    return f;
}

static void reach_add(struct ptx_reach *r, const struct ptx_function *f)
{
    for (uint32_t k = 0; k < r->n; k++)
        if (r->func[k] == f)
            return;
    r->func[r->n++] = f;
}

int ptx_reach_build(const struct ptx_function *f, struct ptx_reach *ret)
{
    struct ptx_reach r = {.func = dt_calloc((size_t)f->module->nfunc + 2, sizeof *r.func)};
    if (!r.func)
        return DT_E_NOMEM;
    r.func[r.n++] = f;
    for (uint32_t k = 0; k < r.n; k++)
        for (uint32_t i = 0; i < r.func[k]->ninst; i++) {
            if (r.func[k]->inst[i].op != PTX_OP_CALL)
                continue;
            const struct ptx_function *to = ptx_callee(&r.func[k]->inst[i]);
            if (to && to->has_body)
                reach_add(&r, to);
            else
                r.unknown = true;
        }
    *ret = r;
    return 0;
}

void ptx_reach_done(struct ptx_reach *r)
{
    free((void *)(uintptr_t)r->func);
    *r = (struct ptx_reach){0};
}

int ptx_reach_any(const struct ptx_function *f, bool (*fn)(const struct ptx_inst *, void *), void *user)
{
    struct ptx_reach r;
    bool found = false;
    if (ptx_reach_build(f, &r) < 0)
        return DT_E_NOMEM;
    for (uint32_t k = 0; k < r.n; k++)
        for (uint32_t i = 0; i < r.func[k]->ninst && !found; i++)
            found = fn(&r.func[k]->inst[i], user);
    ptx_reach_done(&r);
    return found;
}
