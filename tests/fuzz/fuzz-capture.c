/* Fuzz target: traces. Any bytes give a graph document, or an error; and nothing is read outside them. The analysis
 * says of every launch that it may touch all that it is given, since footprints come from a worker and not from a
 * trace. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "capture/capture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *analysis_of(const json_t *raw)
{
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(json_object_get(raw, "launches")); i++)
        json_array_append_new(list, json_object());
    return json_pack("{s:o}", "launches", list);
}

static void graph_of(struct cap_trace *t, long step, enum cap_data data)
{
    struct dt_err e = {0};
    struct cap_range r = {0};
    struct cap_pieces p = {0};
    struct cap_about about = {"program", data};
    json_t *raw = NULL, *analysis = NULL, *doc = NULL;
    if (!cap_step(t, step, &r, &e) && (raw = cap_raw(t, r.begin, r.end, data == CAP_DATA_ALL, &e)) &&
        (analysis = analysis_of(raw)) && !cap_touches(t, r.begin, r.end, analysis, &e) && !cap_known(t, &r, &e) &&
        !cap_pieces(t, &r, &p, &e))
        doc = cap_graph(t, &r, &p, &about, &e);
    if (doc && !json_object_size(json_object_get(doc, "modules")) &&
        json_is_string(json_object_get(json_array_get(json_object_get(doc, "launches"), 0), "module")))
        abort(); /* a kernel out of nowhere */
    json_decref(raw);
    json_decref(analysis);
    json_decref(doc);
    dt_err_done(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = memfd_create("trace", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct cap_trace *t = NULL;
    struct dt_err e = {0};
    if (fd >= 0 && !dt_write_full(fd, data, size) && !cap_read(path, &t, &e) && !cap_modules(t, NULL, &e))
        graph_of(t, size % 2 ? CAP_AUTO : CAP_WHOLE, (enum cap_data)(size % 3));
    cap_trace_free(t);
    dt_err_done(&e);
    if (fd >= 0)
        close(fd);
    return 0;
}
