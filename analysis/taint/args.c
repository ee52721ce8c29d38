/* What a launch binds an entry to, as the taint pass takes it: which arguments hold addresses, which buffers the
 * module's variables are, and what of all that no launch changes.
 */
#include <string.h>

#include "analysis/taint/taint.h"

void ana_arg_kinds(const struct dt_graph *g, const struct dt_launch *l, bool *pointer, bool *constant)
{
    for (uint32_t i = 0; i < l->narg; i++) {
        uint32_t n = arg_buffers(&l->arg[i], NULL, 0);
        pointer[i] = constant[i] = n > 0;
        for (uint32_t k = 0; k < n; k++)
            constant[i] &= g->buffer[arg_buffer(&l->arg[i], k)].constant;
    }
}

bool ana_same_places(const struct dt_arg *a, const struct dt_arg *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (a[i].kind != b[i].kind || (a[i].kind == DT_ARG_BYTES && a[i].npointer != b[i].npointer))
            return false;
        for (uint32_t k = 0; a[i].kind == DT_ARG_BYTES && k < a[i].npointer; k++)
            if (a[i].pointer[k].at != b[i].pointer[k].at)
                return false;
    }
    return true;
}

int ana_graph_vars(const struct dt_graph *g, uint32_t module, const struct ptx_module *m, uint8_t *var,
                   uint32_t *buffer, struct dt_err *e)
{
    int rc = ana_module_vars(m, var, e);
    for (uint32_t v = 0; v < m->nvar && !rc; v++) {
        buffer[v] = UINT32_MAX;
        for (uint32_t b = 0; b < g->nbuffer; b++)
            if (g->buffer[b].module == (int)module && !strcmp(g->buffer[b].variable, m->var[v]->name)) {
                buffer[v] = b;
                var[v] = g->buffer[b].constant ? ANA_VAR_CONSTANT : ANA_VAR_MUTABLE;
            }
    }
    return rc;
}
