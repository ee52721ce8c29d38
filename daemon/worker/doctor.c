/* The verb `doctor`: what this machine offers, as facts; what is missing and what mends it, the command line says
 * (client/cmd-doctor.c).
 *
 *   {"spec", "device" or "device_error", "devices", "driver": {"version", "build"} or {"error"},
 *    "cupti": {"version"} or {"error"}, "nvrtc": version or null, "nvjitlink", "headers": folder or null,
 *    "confinement", "cache": {"path", "entries", "bytes"} or {"path", "error"}}
 *
 * NVIDIA's driver and CUPTI are tried in a process of their own, as a driver is not used on both sides of a fork, and
 * as a worker with the software device has no descriptor of a GPU. Nothing that fails here is an error of the request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/analysis.h"
#include "base/alloc.h"
#include "daemon/worker/worker.h"
#include "device/profile.h"

static json_t *why(struct dt_err *e)
{
    json_t *o = json_pack("{s:s}", "error", e->detail ? e->detail : dt_err_text(e->num));
    dt_err_done(e);
    return o;
}

static json_t *ask_driver(void)
{
    struct dev_device *d = NULL;
    struct dt_err e = {0};
    char build[128];
    if (dev_open("cuda", &d, &e) < 0)
        return why(&e);
    int v = dev_info(d)->driver_version;
    dev_driver_build(d, build, sizeof build);
    json_t *o = json_pack("{s:o, s:s, s:s}", "version", json_sprintf("%d.%d", v / 1000, v % 1000 / 10), "build", build,
                          "name", dev_info(d)->name);
    dev_close(d);
    return o;
}

static json_t *ask_cupti(void)
{
    uint32_t version;
    struct dt_err e = {0};
    return dev_cupti_there(&version, &e) < 0 ? why(&e) : json_pack("{s:I}", "version", (json_int_t)version);
}

static json_t *ask_apart(void)
{
    return json_pack("{s:o, s:o, s:o}", "devices", wrk_list_devices(), "driver", ask_driver(), "cupti", ask_cupti());
}

static void take_headers(const char *path, bool folder, void *user)
{
    char **found = user, *file = NULL;
    if (folder && !*found && asprintf(&file, "%s/cuda_fp16.h", path) >= 0) {
        if (!access(file, R_OK))
            *found = dt_strdup(path);
        free(file);
    }
}

static json_t *ask_cache(struct wrk *w, const char *path)
{
    struct dt_err e = {0};
    json_t *o, *stats = NULL;
    if (wrk_need_cache(w, &e) < 0 || dtd_cache_op(w->cache, "stats", NULL, &stats, &e) < 0)
        o = why(&e);
    else
        o = json_pack("{s:O, s:O}", "entries", json_object_get(stats, "entries"), "bytes",
                      json_object_get(stats, "bytes"));
    json_decref(stats);
    if (o)
        json_object_set_new(o, "path", json_string(path ? path : ""));
    return o;
}

int wrk_doctor(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    struct dt_err broken = {0};
    dt_free_ char *cache = cache_path_of(w->cache_path), *headers = NULL;
    json_t *doc = w->dev ? NULL : wrk_apart(ask_apart);
    if (!doc)
        doc = json_object();
    const char *nvrtc = dev_nvrtc_version(), *link = dev_nvjitlink_version();
    dev_compiler_paths(take_headers, &headers);
    json_t *more = json_pack("{s:s, s:s?, s:s?, s:s?, s:o}", "spec", w->spec, "nvrtc", nvrtc, "nvjitlink", link,
                             "headers", headers, "cache", ask_cache(w, cache));
    if (wrk_open(w, &broken) < 0)
        json_object_set_new(doc, "device_error", why(&broken));
    else
        json_object_set_new(doc, "device", dev_info_to_json(dev_info(w->dev)));
    json_object_set_new(doc, "confinement", wrk_confinement(w));
    int bad = json_object_update(doc, more);
    json_decref(more);
    a->document = doc;
    return bad ? dt_err_set(e, DT_E_NOMEM, "out of memory") : 0;
}
