/* What is left over in a kernel with a guest in it: labels that nothing leads to, branches to what comes next.
 *
 * A guest's text has the labels of its guards, and each instance an end. Where the guards are gone (ways.c), so is the
 * reason for the labels; but a label begins a basic block, for the assembler as for the model of time. The posted
 * labels of the host stay.
 */
#include "rewrite/inline/inline-priv.h"

/* Does control go from instruction k to the label by itself? */
static bool falls_to(const struct ptx_function *f, uint32_t k, uint32_t label)
{
    while (++k < f->ninst && f->inst[k].op == PTX_OP_LABEL)
        if (f->inst[k].opnd[0].label == label)
            return true;
    return false;
}

static bool leads_on(const struct ptx_function *f, uint32_t k)
{
    const struct ptx_inst *i = &f->inst[k];
    return i->op == PTX_OP_BRA && i->nopnd && i->opnd[0].kind == PTX_O_LABEL && falls_to(f, k, i->opnd[0].label);
}

/* Leave out branches to labels from number `from` on that control reaches anyway. */
static void drop_branches(struct ptx_function *f, uint32_t from)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->ninst; k++) /* what is before k is moved already, what is behind it is not */
        if (!leads_on(f, k) || f->inst[k].opnd[0].label < from)
            f->inst[n++] = f->inst[k];
    f->ninst = n;
}

/* Leave out such labels that nothing leads to. */
static void drop_labels(struct ptx_function *f, uint32_t from, const bool *used)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->ninst; k++) {
        const struct ptx_inst *i = &f->inst[k];
        if (i->op != PTX_OP_LABEL || i->opnd[0].label < from || used[i->opnd[0].label])
            f->inst[n++] = f->inst[k];
    }
    f->ninst = n;
}

int rw_inline_tidy(struct ptx_function *f, uint32_t from, struct dt_arena *a)
{
    bool *used = dt_new_array(a, bool, f->nlabel + 1);
    if (!used)
        return DT_E_NOMEM;
    drop_branches(f, from);
    for (uint32_t k = 0; k < f->ninst; k++)
        for (unsigned q = 0; f->inst[k].op != PTX_OP_LABEL && q < f->inst[k].nopnd; q++)
            if (f->inst[k].opnd[q].kind == PTX_O_LABEL)
                used[f->inst[k].opnd[q].label] = true;
    drop_labels(f, from, used);
    return 0;
}
