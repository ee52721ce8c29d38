/* An edit written down: the graph document of the state, with the launches S replaced by T.
 *
 * The new graph is made as JSON and read back by graph/, so that what the plan will say is exactly what was analysed,
 * verified and timed. T stands where the first of S stood; facts/order.c says where the others go. A launch that was
 * `after` one of S is after all of T. Of a graph that was posted on several streams place.c says all of that anew.
 */
#include "rewrite/emit/emit.h"
#include "rewrite/kinds/kinds-priv.h"

#include <stdio.h>
#include <string.h>

static bool document_put(json_t *o, const char *key, json_t *v) { return v && json_object_set_new(o, key, v) == 0; }

/* Does T go on using a module of the state? */
static bool used_by_parts(const struct rw_edit *x, const char *module)
{
    for (size_t k = 0; k < x->part.n; k++) {
        const char *m = json_string_value(json_object_get(x->part.p[k].launch, "module"));
        if (m && !strcmp(m, module))
            return true;
    }
    return false;
}

/* The name that a part wishes for, "gemm+bias", made unique among the launches that stay and the parts before it. */
static json_t *unique_name(const struct rw_edit *x, const bool *gone, size_t part)
{
    const struct dt_graph *g = x->now->graph;
    const char *wish = json_string_value(json_object_get(x->part.p[part].launch, "name"));
    struct dt_str s = {0};
    for (unsigned n = 1; wish && n < 1000 && !s.failed; n++) {
        dt_str_done(&s);
        dt_str_addf(&s, n > 1 ? "%s~%u" : "%s", wish, n);
        uint32_t at = s.failed ? DT_NAME_NONE : dt_graph_find_launch(g, s.s);
        bool taken = at != DT_NAME_NONE && !gone[at];
        for (size_t k = 0; k < part && !s.failed; k++)
            taken |= !strcmp(json_string_value(json_object_get(x->part.p[k].launch, "name")), s.s);
        if (!taken)
            break;
    }
    json_t *v = s.failed || !s.s ? NULL : json_string(s.s);
    dt_str_done(&s);
    return v;
}

/* What the state's own document says already is the same object: states of large graphs differ in little. */
static bool share(const struct rw_edit *x, json_t *doc)
{
    json_t *old = json_object_get(x->now->doc, "buffers"), *all = json_object_get(doc, "modules"), *m;
    const char *name;
    void *next;
    bool ok = !json_equal(old, json_object_get(doc, "buffers")) || json_object_set(doc, "buffers", old) == 0;
    old = json_object_get(x->now->doc, "modules");
    json_object_foreach_safe (all, next, name, m)
        if (json_equal(m, json_object_get(old, name)))
            ok = ok && json_object_set(all, name, json_object_get(old, name)) == 0;
    return ok;
}

/* A launch that stays: `after` names T where it named one of S. */
static json_t *staying(const struct rw_edit *x, const bool *gone, uint32_t launch)
{
    const struct dt_graph *g = x->now->graph;
    json_t *was = json_array_get(json_object_get(x->now->doc, "launches"), launch);
    bool moves = false;
    for (uint32_t k = 0; k < g->launch[launch].nafter && !moves; k++) {
        uint32_t at = dt_graph_find_launch(g, g->launch[launch].after[k]);
        moves = at < g->nlaunch && gone[at];
    }
    if (was && !moves)
        return json_incref(was);
    json_t *o = dt_launch_to_json(g, &g->launch[launch]), *list = json_array();
    bool ok = o && list, touched = false, named = false;
    for (uint32_t k = 0; ok && k < g->launch[launch].nafter; k++) {
        const char *name = g->launch[launch].after[k];
        uint32_t at = dt_graph_find_launch(g, name);
        touched |= at < g->nlaunch && gone[at];
        if (at >= g->nlaunch || !gone[at])
            ok = json_array_append_new(list, json_string(name)) == 0;
        for (size_t i = 0; ok && at < g->nlaunch && gone[at] && !named && i < x->part.n; i++)
            ok = json_array_append(list, json_object_get(x->part.p[i].launch, "name")) == 0;
        named |= at < g->nlaunch && gone[at];
    }
    if (ok && touched)
        ok = json_object_set(o, "after", list) == 0;
    json_decref(list);
    if (!ok) {
        json_decref(o);
        return NULL;
    }
    return o;
}

json_t *rw_edit_graph(const struct rw_edit *x)
{
    const struct dt_graph *g = x->now->graph;
    uint32_t *order = dt_calloc(g->nlaunch + 1, sizeof *order), between;
    bool *gone = dt_calloc(g->nlaunch + 1, sizeof *gone), *also = dt_calloc(g->nmodule + 1, sizeof *also);
    bool ok = order && gone && also;
    for (uint32_t k = 0; ok && k < x->nlaunch; k++)
        gone[x->launch[k]] = true;
    for (uint32_t k = 0; ok && k < g->nmodule; k++)
        also[k] = used_by_parts(x, g->module[k].name);
    json_t *doc = ok ? rw_graph_frame(x->now->prog, gone, also) : NULL, *list = json_array();
    ok = ok && doc && list && share(x, doc) && rw_order(x->now->ana, x->launch, x->nlaunch, order, &between);
    for (size_t k = 0; ok && k < x->scratch.n; k++) {
        json_t *all = json_object_get(doc, "scratch");
        ok = (all || (document_put(doc, "scratch", json_object()) && (all = json_object_get(doc, "scratch")))) &&
             document_put(all, x->scratch.p[k].name, json_pack("{s:I}", "bytes", (json_int_t)x->scratch.p[k].bytes));
    }
    for (size_t k = 0; ok && k < x->part.n; k++) {
        struct rw_part *part = &x->part.p[k];
        ok = document_put(part->launch, "name", unique_name(x, gone, k)) &&
             (!part->follows ||
              document_put(part->launch, "after",
                           json_pack("[O]", json_object_get(x->part.p[part->follows - 1].launch, "name")))) &&
             (!part->ptx.len || (document_put(part->launch, "module", json_string(part->module)) &&
                                 document_put(json_object_get(doc, "modules"), part->module,
                                              json_pack("{s:s%}", "ptx", part->ptx.s, part->ptx.len))));
    }
    for (uint32_t k = 0; ok && k + x->nlaunch < g->nlaunch + 1; k++) {
        if (order[k] != x->launch[0])
            ok = json_array_append_new(list, staying(x, gone, order[k])) == 0;
        else
            for (size_t i = 0; ok && i < x->part.n; i++)
                ok = json_array_append(list, x->part.p[i].launch) == 0;
    }
    ok = ok && (!g->streams || rw_edit_place(x, order, list));
    if (!ok || json_object_set(doc, "launches", list) < 0) {
        json_decref(doc);
        doc = NULL;
    }
    json_decref(list);
    dt_freep_(&order);
    dt_freep_(&gone);
    dt_freep_(&also);
    return doc;
}
