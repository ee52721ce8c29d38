/* A program as a graph document, every module as PTX.
 *
 * The posted graph and every state of a planning can be written down like this: for the plan, for what is kept of a
 * failure (bundle.c), and as the frame into which an edit's launches go (kinds/document.c). Modules that no launch and
 * no buffer uses are left out. Nothing is read back here.
 */
#include "rewrite/emit/emit.h"

static bool program_put(json_t *o, const char *key, json_t *v) { return v && json_object_set_new(o, key, v) == 0; }

static bool program_used(const struct dt_graph *g, uint32_t module, const bool *gone)
{
    for (uint32_t k = 0; k < g->nlaunch; k++)
        if (!(gone && gone[k]) && g->launch[k].kind == DT_KERNEL && g->launch[k].module == module)
            return true;
    for (uint32_t k = 0; k < g->nbuffer; k++) /* its variables: a copy or memset may use them without a kernel of it */
        if (g->buffer[k].module == (int)module)
            return true;
    return false;
}

json_t *rw_graph_frame(const struct dev_prog *p, const bool *gone, const bool *also)
{
    const struct dt_graph *g = p->graph;
    json_t *doc = json_object(), *modules = json_object(), *buffers = json_object(), *scratch = json_object();
    bool ok = doc && modules && buffers && scratch;
    for (uint32_t k = 0; ok && k < g->nmodule; k++)
        if (program_used(g, k, gone) || (also && also[k]))
            ok =
                program_put(modules, g->module[k].name, json_pack("{s:s%}", "ptx", p->module[k].ptx, p->module[k].len));
    for (uint32_t k = 0; ok && k < g->nbuffer; k++)
        ok = program_put(g->buffer[k].role == DT_SCRATCH ? scratch : buffers, g->buffer[k].name,
                         dt_buffer_to_json(g, &g->buffer[k]));
    ok = ok && program_put(doc, "dovetail", json_integer(1)) &&
         program_put(doc, "name", json_string(g->name ? g->name : "graph")) &&
         program_put(doc, "modules", json_incref(modules)) && program_put(doc, "buffers", json_incref(buffers));
    if (ok && json_object_size(scratch))
        ok = program_put(doc, "scratch", json_incref(scratch));
    json_decref(modules);
    json_decref(buffers);
    json_decref(scratch);
    if (!ok) {
        json_decref(doc);
        return NULL;
    }
    return doc;
}

json_t *rw_graph_ptx(const struct dev_prog *p)
{
    json_t *doc = rw_graph_frame(p, NULL, NULL), *list = json_array();
    bool ok = doc && list;
    for (uint32_t k = 0; ok && k < p->graph->nlaunch; k++)
        ok = json_array_append_new(list, dt_launch_to_json(p->graph, &p->graph->launch[k])) == 0;
    if (!ok || json_object_set(doc, "launches", list) < 0) {
        json_decref(doc);
        doc = NULL;
    }
    json_decref(list);
    return doc;
}
