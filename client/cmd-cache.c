/* dovetail cache stats: figures of the cache, of the service's or with --local of --cache FILE. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "client/cli.h"

static void flat(struct table *t, const char *prefix, const json_t *o)
{
    const char *name;
    const json_t *v;
    json_object_foreach((json_t *)o, name, v) {
        dt_free_ char *key = NULL;
        if (asprintf(&key, "%s%s%s", prefix, *prefix ? "." : "", name) < 0)
            return;
        if (json_is_object(v)) {
            flat(t, key, v);
            continue;
        }
        dt_free_ char *text = json_is_string(v) ? dt_strdup(json_string_value(v)) : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        table_row(t, 2, key, text ? text : "");
    }
}

static int human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    struct table t = {0};
    table_row(&t, 2, "figure", "value");
    flat(&t, "", doc);
    table_print(&t, c);
    return 0;
}

int cmd_cache(struct cli *c)
{
    struct outcome o;
    if (strcmp(c->arg[0], "stats")) {
        struct dt_err e = {0};
        dt_err_set(&e, DT_E_USAGE, "usage: dovetail cache stats");
        return fail(c, &e);
    }
    backend_get(c, "/v1/cache", "cache", NULL, &o);
    return finish(c, &o, human);
}
