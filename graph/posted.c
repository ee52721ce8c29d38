/* The posted launches that a plan document carries beside its own (member `original`), as a graph document.
 *
 * `original` holds the launches, and of their modules those that the plan lacks; the other modules are the plan's, by
 * name. A program that cannot run the plan runs these: libdovetail (client/plan-load.c) and verb run
 * (daemon/worker/run.c). The plan's machine code is also compared with theirs (rewrite/gate/machine-code.c). Only what
 * is needed to find them is checked here: the result is for dt_graph_from_json.
 */
#include <string.h>

#include "base/alloc.h"
#include "graph-priv.h"

/* Take module `name` over: the posted launches' own, else the plan's. Where there is none the reader of the result says
 * so. */
static bool posted_take(json_t *to, const char *name, const json_t *own, const json_t *plan)
{
    json_t *m = json_object_get(own, name);
    m = m ? m : json_object_get(plan, name);
    return !m || json_object_set(to, name, m) == 0;
}

json_t *dt_plan_posted(json_t *doc)
{
    json_t *o = json_object_get(doc, "original"), *l, *v;
    o = json_is_object(o) ? o : doc;
    json_t *own = json_object_get(o, "modules"), *plan = json_object_get(doc, "modules"),
           *buffers = json_object_get(doc, "buffers"), *launches = json_object_get(o, "launches");
    json_t *modules = json_object(), *g = json_object();
    const char *name;
    size_t i;
    bool ok = modules && g;
    json_array_foreach (launches, i, l) {
        if (ok && (name = json_string_value(json_object_get(l, "module"))))
            ok = posted_take(modules, name, own, plan);
    }
    /* MODULE::variable: a copy or memset may use it without a kernel of its module */
    json_object_foreach (buffers, name, v) {
        const char *colon = strstr(name, "::");
        dt_free_ char *module = ok && colon ? dt_memdup(name, (size_t)(colon - name) + 1) : NULL;
        if (module)
            module[colon - name] = 0;
        if (ok && colon)
            ok = module && posted_take(modules, module, own, plan);
    }
    ok = ok && json_object_set_new(g, "dovetail", json_integer(1)) == 0 &&
         json_object_set(g, "modules", modules) == 0 && (!buffers || json_object_set(g, "buffers", buffers) == 0) &&
         (!launches || json_object_set(g, "launches", launches) == 0);
    json_decref(modules);
    if (!ok) {
        json_decref(g);
        return NULL;
    }
    return g;
}
