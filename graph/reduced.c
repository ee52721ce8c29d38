/* A graph without what neither its digest nor its signature depends on: what goes to other hosts, who plan it again.
 *
 * Left out are the data of buffers that are not constant, buffers and modules that no launch uses, the graph's name,
 * and members that dovetail does not read. A buffer that had data starts with zeros instead: without a fill it would
 * start with bytes 0xFF, which are addresses outside of everything where a kernel takes them for an index, and NaN
 * where it takes them for floats. Fills that describe stay: they are a few numbers, and made by their seed. Constant
 * data stays, since it is part of the signature, and so do names of launches, buffers and modules.
 *
 * Both graphs have the same signature, and plans are stored by it, so a plan of one serves the other. It may be another
 * plan, though: what a candidate costs is measured, or modelled, on these bytes, and where addresses or rounds follow
 * data, so do times. And zeros show less than data when results are compared. So a host that takes such a plan verifies
 * it on its own data, as it does with any recipe.
 */
#include "graph-priv.h"

static int reduced_buffer(json_t *buffers, const struct dt_buffer *b, bool used)
{
    json_t *o = json_object_get(buffers, b->name);
    if (!used)
        return json_object_del(buffers, b->name);
    if (b->constant || b->fill.kind != DT_FILL_DATA)
        return 0;
    return json_object_del(o, "data") < 0 ? -1 : json_object_set_new(o, "fill", json_pack("{s:b}", "zero", 1));
}

/* A copy or memset may use a module's variable without a kernel of the module. */
static bool has_variable(const struct dt_graph *g, const struct dt_canon *canon, uint32_t module)
{
    for (uint32_t i = 0; i < g->nbuffer; i++)
        if (g->buffer[i].module == (int)module && canon->buffer[i] != DT_NAME_NONE)
            return true;
    return false;
}

json_t *dt_graph_reduced(struct dt_graph *g)
{
    struct dt_canon canon;
    json_t *o = dt_graph_canon(g, &canon) < 0 ? NULL : dt_graph_to_json(g);
    json_t *buffers = json_object_get(o, "buffers"), *modules = json_object_get(o, "modules");
    int r = o ? 0 : -1;
    for (uint32_t i = 0; r == 0 && i < g->nbuffer; i++)
        r = reduced_buffer(buffers, &g->buffer[i], canon.buffer[i] != DT_NAME_NONE);
    for (uint32_t i = 0; r == 0 && i < g->nmodule; i++)
        if (canon.module[i] == DT_NAME_NONE && !has_variable(g, &canon, i))
            r = json_object_del(modules, g->module[i].name);
    json_object_del(o, "name");
    if (r == 0)
        return o;
    json_decref(o);
    return NULL;
}
