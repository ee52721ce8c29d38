/* dovetail analyze GRAPH: one line per edge. */
#include <stdlib.h>

#include "base/alloc.h"
#include "client/cli.h"

static int human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *dev = json_object_get(doc, "device"), *edges = json_object_get(doc, "edges");
    struct table t = {0};
    size_t i;
    const json_t *e;
    printf("%zu launches, %zu edges on %s (%s); cache %s\n", json_array_size(json_object_get(doc, "launches")),
           json_array_size(edges), jstr(dev, "name"), jstr(dev, "arch"), o->cache);
    printf("signature %s\n\n", jstr(doc, "signature"));
    if (!json_array_size(edges))
        return 0;
    table_row(&t, 8, "producer -> consumer", "classes", "fan", "pairs", "components", "evidence", "hazards", "through");
    json_array_foreach(edges, i, e) {
        char pairs[32], comps[32], *name;
        dt_free_ char *classes = join(json_object_get(e, "classes"), ", ", "-");
        dt_free_ char *hazards = join(json_object_get(e, "hazards"), ", ", "-");
        dt_free_ char *buffers = join(json_object_get(e, "buffers"), ", ", "-");
        snprintf(pairs, sizeof pairs, "%.0f", jnum(e, "pairs"));
        snprintf(comps, sizeof comps, "%.0f", jnum(e, "components"));
        if (asprintf(&name, "%s -> %s", jstr(e, "producer"), jstr(e, "consumer")) < 0)
            return 1;
        table_row(&t, 8, name, classes, jstr(e, "fan"), pairs, comps, jstr(e, "evidence"), hazards, buffers);
        free(name);
    }
    table_print(&t, c);
    return 0;
}

int cmd_analyze(struct cli *c)
{
    struct dt_err e = {0};
    struct outcome o;
    dt_free_ char *graph = NULL;
    size_t len;
    if (graph_read(c->arg[0], &graph, &len, &e) < 0)
        return fail(c, &e);
    backend_submit(c, "analysis", graph, len, &o);
    return finish(c, &o, human);
}
