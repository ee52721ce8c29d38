/* Graphs as documents on the way to the plan: every module as PTX, a pair replaced by its fused launch.
 *
 * The new graph is made as JSON and read back by graph/, so that what the plan will say is exactly what was analysed, verified and
 * timed.
 */
#include "rewrite/rewrite-priv.h"

#include <stdio.h>
#include <string.h>

static bool put(json_t *o, const char *key, json_t *v) { return v && json_object_set_new(o, key, v) == 0; }

static bool used(const struct dt_graph *g, uint32_t module, uint32_t skip0, uint32_t skip1)
{
    for (uint32_t k = 0; k < g->nlaunch; k++)
        if (k != skip0 && k != skip1 && g->launch[k].kind == DT_KERNEL && g->launch[k].module == module)
            return true;
    for (uint32_t k = 0; k < g->nbuffer; k++) /* its variables: a copy or memset may use them without a kernel of it */
        if (g->buffer[k].module == (int)module)
            return true;
    return false;
}

/* Everything but the launches. */
static json_t *frame(const struct dev_prog *p, uint32_t skip0, uint32_t skip1)
{
    const struct dt_graph *g = p->graph;
    json_t *doc = json_object(), *modules = json_object(), *buffers = json_object(), *scratch = json_object();
    bool ok = doc && modules && buffers && scratch;
    for (uint32_t k = 0; ok && k < g->nmodule; k++)
        if (used(g, k, skip0, skip1))
            ok = put(modules, g->module[k].name, json_pack("{s:s%}", "ptx", p->module[k].ptx, p->module[k].len));
    for (uint32_t k = 0; ok && k < g->nbuffer; k++)
        ok = put(g->buffer[k].role == DT_SCRATCH ? scratch : buffers, g->buffer[k].name, dt_buffer_to_json(g, &g->buffer[k]));
    ok = ok && put(doc, "dovetail", json_integer(1)) && put(doc, "name", json_string(g->name ? g->name : "graph")) &&
         put(doc, "modules", json_incref(modules)) && put(doc, "buffers", json_incref(buffers));
    if (ok && json_object_size(scratch))
        ok = put(doc, "scratch", json_incref(scratch));
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
    json_t *doc = frame(p, UINT32_MAX, UINT32_MAX), *list = json_array();
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

/* "gemm+bias", made unique. */
static json_t *fused_name(const struct rw_cand *c)
{
    const struct dt_graph *g = c->prog->graph;
    struct dt_str s = {0};
    dt_str_addf(&s, "%s+%s", g->launch[c->launch[0]].name, g->launch[c->launch[1]].name);
    for (unsigned n = 2; !s.failed && s.s && dt_graph_find_launch(g, s.s) != DT_NAME_NONE && n < 1000; n++) {
        dt_str_done(&s);
        dt_str_addf(&s, "%s+%s~%u", g->launch[c->launch[0]].name, g->launch[c->launch[1]].name, n);
    }
    json_t *v = s.failed || !s.s ? NULL : json_string(s.s);
    dt_str_done(&s);
    return v;
}

static json_t *fused_launch(const struct rw_cand *c)
{
    json_t *args = json_array(), *o = json_object();
    bool ok = args && o;
    for (int s = 0; s < 2 && ok; s++) {
        json_t *l = dt_launch_to_json(c->prog->graph, &c->prog->graph->launch[c->launch[s]]);
        json_t *from = json_object_get(l, "args"), *a;
        size_t i;
        ok = l != NULL;
        json_array_foreach(from, i, a)
        {
            bool keep = i > 62 || ((c->arg_keep[s] >> i) & 1);
            if (s && c->arg_same[i] >= 0)
                keep = false;
            if (keep && ok)
                ok = json_array_append(args, a) == 0;
        }
        json_decref(l);
    }
    ok = ok && put(o, "name", fused_name(c)) && put(o, "module", json_string(c->name)) &&
         put(o, "entry", json_string(c->entry)) &&
         put(o, "grid", json_pack("[I,i,i]", (json_int_t)c->comps.n, 1, 1)) &&
         put(o, "block", json_pack("[I,i,i]", (json_int_t)c->threads, 1, 1)) &&
         put(o, "shared", json_integer(c->shared_dynamic ? c->shared_bytes : 0)) && put(o, "args", json_incref(args));
    json_decref(args);
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *rw_cand_graph(const struct rw_cand *c)
{
    const struct dt_graph *g = c->prog->graph;
    uint32_t *order = dt_calloc(g->nlaunch + 1, sizeof *order), between;
    json_t *doc = frame(c->prog, c->launch[0], c->launch[1]), *list = json_array();
    bool ok = order && doc && list && rw_order(c->ana, c->launch[0], c->launch[1], order, &between);
    ok = ok && put(json_object_get(doc, "modules"), c->name, json_pack("{s:s%}", "ptx", c->ptx.s, c->ptx.len));
    for (uint32_t k = 0; ok && k + 1 < g->nlaunch; k++)
        ok = json_array_append_new(list, order[k] == c->launch[0] ? fused_launch(c)
                                                                   : dt_launch_to_json(g, &g->launch[order[k]])) == 0;
    if (!ok || json_object_set(doc, "launches", list) < 0) {
        json_decref(doc);
        doc = NULL;
    }
    json_decref(list);
    dt_freep_(&order);
    return doc;
}
