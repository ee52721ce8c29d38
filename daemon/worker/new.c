/* The verb `new`: a graph to begin with, of one source (analysis/report/outline.c).
 *
 * The request has `source`, `ptx` (it is PTX; else CUDA C++, with compiler options in `nvrtc`), and `module`, the
 * module's name. CUDA C++ is compiled as it would be for a job of this device, and again with debug information for
 * names and types; if the second fails there are none. The answer is {"buffers", "launches"}: what the module's member
 * is, a text or a file, only the client knows.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"
#include "base/alloc.h"
#include "base/json.h"
#include "daemon/worker/worker.h"

#define COMPILE_MS 120000
#define OPTIONS_MOST 256

/* PTX of the source, and PTX with debug information (NULL where there is none to be had). */
static int new_compile(struct wrk *w, json_t *in, const char *source, char **ret, char **ret_debug, struct dt_err *e)
{
    const char *option[OPTIONS_MOST], *arch = dev_info(w->dev)->arch;
    json_t *v;
    size_t i, len;
    unsigned n = 0;
    struct dt_err ignored = {0};
    json_array_foreach (json_object_get(in, "nvrtc"), i, v) {
        if (!json_is_string(v) || n == OPTIONS_MOST)
            return dt_err_set(e, DT_E_USAGE, "compiler options are at most %d texts", OPTIONS_MOST);
        option[n++] = json_string_value(v);
    }
    wrk_progress("compile", "", 0, 0, w);
    int r = dev_compile_cuda(source, strlen(source), option, n, arch, COMPILE_MS, ret, &len, e);
    if (r >= 0 && dev_compile_debug(source, strlen(source), option, n, arch, COMPILE_MS, ret_debug, &len, &ignored) < 0)
        *ret_debug = NULL;
    dt_err_done(&ignored);
    return r;
}

int wrk_new(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    const char *source = json_string_value(json_object_get(in, "source")),
               *module = json_string_value(json_object_get(in, "module"));
    dt_free_ char *ptx = NULL, *debug = NULL;
    json_t *buffers, *launches;
    if (!source || !module || strlen(source) != json_string_length(json_object_get(in, "source")))
        return dt_err_set(e, DT_E_USAGE, "the request has no source, or one with a zero byte in it");
    int r = wrk_open(w, e);
    if (r >= 0 && json_is_true(json_object_get(in, "ptx")))
        r = (ptx = dt_strdup(source)) ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
    else if (r >= 0)
        r = new_compile(w, in, source, &ptx, &debug, e);
    if (r >= 0)
        r = ana_outline(ptx, strlen(ptx), debug, debug ? strlen(debug) : 0, module, &buffers, &launches, e);
    if (r < 0)
        return r;
    a->document = json_pack("{s:o, s:o}", "buffers", buffers, "launches", launches);
    return a->document ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}
