/* Verb calibrate: measures the figures of the timing model on this worker's device, and keeps them in the cache.
 *
 * There is one row for each device (its key: name, SMs, driver) and toolchain; a new calibration replaces it. Its
 * member `figures` is what DOVETAIL_SOFTGPU_FIGURES takes, so that a software device elsewhere can model this GPU.
 *
 * A row also says which model it is of, when the GPU is exactly the one that the model describes: same name, same
 * number of SMs, and neither a slice nor a shared GPU. From then on every worker with this cache opens that model with
 * its newest figures (wrk_stored_figures), unless the environment says which figures to use.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/worker/worker.h"
#include "device/calibrate.h"

/* Names as drivers give them. Sister products (PCIe cards, NVL, other memory) have other names, and are not what the
 * model is of. */
static const struct {
    const char *model, *name;
    unsigned sms;
} gpus[] = {{"a100", "NVIDIA A100-SXM4-80GB", 108}, {"h100", "NVIDIA H100 80GB HBM3", 132},
            {"h200", "NVIDIA H200", 132},           {"l4", "NVIDIA L4", 58},
            {"b200", "NVIDIA B200", 148},           {"rtx5090", "NVIDIA GeForce RTX 5090", 170}};

static void calibrate_place(const struct dev_info *i, char *out, size_t n)
{
    snprintf(out, n, "calibration");
    for (size_t k = 0; k < sizeof gpus / sizeof *gpus; k++)
        if (!i->soft && !*i->sharing && !strcmp(i->name, gpus[k].name) && i->sms == gpus[k].sms)
            snprintf(out, n, "calibration soft:%s", gpus[k].model);
}

char *wrk_stored_figures(struct wrk *w)
{
    const char *model = !strncmp(w->spec, "soft:", 5) ? w->spec + 5 : getenv("DOVETAIL_SOFTGPU_MODEL");
    char at[64];
    json_t *doc = NULL;
    struct dt_str text = {0};
    if (getenv("DOVETAIL_SOFTGPU_FIGURES") || (strncmp(w->spec, "soft", 4) && strcmp(w->spec, "auto")))
        return NULL;
    model = model && *model ? model : "h200";
    wrk_open_cache(w);
    snprintf(at, sizeof at, "calibration soft:%s", model);
    if (!w->cache || cache_find(w->cache, "calibration", at, NULL, &doc, NULL) != 1)
        return NULL;
    const char *figures = json_string_value(json_object_get(doc, "figures"));
    if (figures && *figures)
        dt_str_addf(&text, "%s:%s", model, figures);
    json_decref(doc);
    return text.s ? dt_str_take(&text) : NULL;
}

static json_t *calibrate_document(struct wrk *w, const struct dev_calibration *c)
{
    json_t *rows = json_object();
    dt_free_ char *text = dev_figures_text(c);
    for (unsigned i = 0; rows && i < c->n; i++)
        json_object_set_new(rows, c->figure[i].field,
                            json_pack("{s:f, s:f, s:f, s:b}", "value", c->figure[i].value, "min", c->figure[i].lo,
                                      "max", c->figure[i].hi, "figure", !c->figure[i].beside));
    return json_pack("{s:s, s:s, s:i, s:s, s:o}", "device", w->key, "method", c->method, "repeats", (int)c->repeats,
                     "figures", text ? text : "", "calibration", rows);
}

int wrk_calibrate(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    struct dev_calibration c;
    struct dt_err kept = {0};
    int r = wrk_open(w, e);
    if (r < 0)
        return r;
    wrk_open_cache(w);
    wrk_progress("calibrate", dev_info(w->dev)->name, 0, 0, w);
    r = dev_calibrate(w->dev, &c, e);
    if (r < 0)
        return r;
    a->document = calibrate_document(w, &c);
    if (!a->document)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    char at[64];
    calibrate_place(dev_info(w->dev), at, sizeof at);
    struct cache_key k = {"calibration", at, w->key, w->toolchain, ""};
    if (w->cache && cache_put(w->cache, &k, "", a->document, NULL, &kept) < 0)
        dt_log(DT_LOG_WARN, "the calibration was not kept: %s", kept.detail ? kept.detail : "");
    dt_err_done(&kept);
    return 0;
}
