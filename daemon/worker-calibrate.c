/* Calibrating the timing model to this worker's device, and keeping what was found in the cache.
 *
 * One row a device (its key: name, SMs, driver) and toolchain; a new calibration replaces it. `figures` of the document is what DOVETAIL_SOFTGPU_FIGURES takes, so
 * that the software device models this GPU elsewhere.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "daemon/worker.h"
#include "device/calibrate.h"

static json_t *document(struct wrk *w, const struct dev_calibration *c)
{
    json_t *rows = json_object();
    dt_free_ char *text = dev_figures_text(c);
    for (unsigned i = 0; rows && i < c->n; i++)
        json_object_set_new(rows, c->figure[i].field, json_pack("{s:f, s:f, s:f}", "value", c->figure[i].value, "min", c->figure[i].lo, "max", c->figure[i].hi));
    return json_pack("{s:s, s:s, s:i, s:s, s:o}", "device", w->key, "method", c->method, "repeats", (int)c->repeats, "figures", text ? text : "", "calibration", rows);
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
    a->document = document(w, &c);
    if (!a->document)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    struct cache_key k = {"calibration", "calibration", w->key, w->toolchain, ""};
    if (w->cache && cache_put(w->cache, &k, "", a->document, NULL, &kept) < 0)
        dt_log(DT_LOG_WARN, "the calibration was not kept: %s", kept.detail ? kept.detail : "");
    dt_err_done(&kept);
    return 0;
}
