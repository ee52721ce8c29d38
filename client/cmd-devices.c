/* dovetail devices: what this machine offers; the one that is used is marked. */
#include "client/cli.h"

static int human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *used = json_object_get(doc, "device"), *d;
    struct table t = {0};
    size_t i;
    table_row(&t, 5, "device", "name", "kind", "arch", ">SMs");
    json_array_foreach(json_object_get(doc, "devices"), i, d) {
        char sms[32];
        snprintf(sms, sizeof sms, "%.0f", jnum(d, "sms"));
        table_row(&t, 5, jstr(d, "spec"), jstr(d, "name"), jstr(d, "kind"), jstr(d, "arch"), sms);
    }
    table_print(&t, c);
    printf("in use: %s\n", jstr(used, "name"));
    return 0;
}

int cmd_devices(struct cli *c)
{
    struct outcome o;
    backend_get(c, "/v1/devices", "devices", NULL, &o);
    return finish(c, &o, human);
}
