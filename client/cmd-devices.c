/* dovetail devices: what this machine offers; the one that is used is marked. */
#include <string.h>

#include "client/cli.h"

static int cmd_devices_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *used = json_object_get(doc, "device"), *d;
    struct table t = {0};
    size_t i;
    table_row(&t, 5, "device", "name", "kind", "arch", ">SMs");
    json_array_foreach (json_object_get(doc, "devices"), i, d) {
        char sms[32];
        snprintf(sms, sizeof sms, "%.0f", jnum(d, "sms"));
        table_row(&t, 5, dt_json_text(d, "spec"), dt_json_text(d, "name"), dt_json_text(d, "kind"),
                  dt_json_text(d, "arch"), sms);
    }
    table_print(&t, c);
    const char *sharing = json_string_value(json_object_get(used, "sharing"));
    printf("in use: %s%s\n", dt_json_text(used, "name"),
           !sharing                  ? ""
           : !strcmp(sharing, "mig") ? " (a slice of a GPU, MIG)"
                                     : " (shared, through an MPS server)");
    const char *figures = json_string_value(json_object_get(doc, "figures"));
    if (figures && strcmp(figures, "stock")) {
        printf("figures of the timing model: %s (",
               !strcmp(figures, "calibrated") ? "of a stored calibration" : "by DOVETAIL_SOFTGPU_FIGURES");
        print_clean(stdout, dt_json_text(doc, "key"));
        puts(")");
    }
    return 0;
}

static int calibrated(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const char *field;
    json_t *figure;
    struct table t = {0};
    table_row(&t, 5, "figure", ">value", ">least", ">most", "");
    json_object_foreach (json_object_get(doc, "calibration"), field, figure) {
        char v[3][32];
        snprintf(v[0], sizeof v[0], "%.4g", jnum(figure, "value"));
        snprintf(v[1], sizeof v[1], "%.4g", jnum(figure, "min"));
        snprintf(v[2], sizeof v[2], "%.4g", jnum(figure, "max"));
        /* the rest is what a user may want to know */
        table_row(&t, 5, field, v[0], v[1], v[2],
                  json_is_false(json_object_get(figure, "figure")) ? "(no figure of the model)" : "");
    }
    table_print(&t, c);
    printf("of %s, %s; kept in the cache\nDOVETAIL_SOFTGPU_FIGURES=%s\n", dt_json_text(doc, "device"),
           dt_json_text(doc, "method"), dt_json_text(doc, "figures"));
    return 0;
}

int cmd_devices(struct cli *c)
{
    struct outcome o;
    if (c->calibrate) {
        local_request(c, "calibrate", NULL, NULL, NULL, 0, &o);
        return finish(c, &o, calibrated);
    }
    backend_get(c, "/v1/devices", "devices", NULL, &o);
    return finish(c, &o, cmd_devices_human);
}
