/* dovetail run GRAPH|PLAN [--seed N] [--dump DIR] [--check MODES] [--schedule N]: SHA-256 per output buffer, time and
 * its method. The bytes of a dump come in the answer as base64 and are written here, to DIR/BUFFER.bin, with what could
 * leave DIR as %XX (path_in); with --json they stay out of what is printed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/file.h"
#include "client/cli.h"

static int human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    struct table t = {0};
    size_t i;
    const json_t *b;
    table_row(&t, 4, "buffer", "role", ">bytes", "content");
    json_array_foreach (json_object_get(doc, "outputs"), i, b) {
        char bytes[32];
        snprintf(bytes, sizeof bytes, "%.0f", jnum(b, "bytes"));
        table_row(&t, 4, dt_json_text(b, "buffer"), dt_json_text(b, "role"), bytes, dt_json_text(b, "sha256"));
    }
    table_print(&t, c);
    printf("time %.2f us (%s), %.0f launches on %s\n", jnum(doc, "time_us"), dt_json_text(doc, "method"),
           jnum(doc, "launches"), dt_json_text(json_object_get(doc, "device"), "name"));
    if (c->dump)
        printf("written to %s\n", c->dump);
    return 0;
}

/* Write the dumps and take them out of the document. */
static int dump(const char *dir, const json_t *doc, struct dt_err *e)
{
    size_t i;
    json_t *b;
    int r = dt_mkdirs(dir, e);
    json_array_foreach (json_object_get(doc, "outputs"), i, b) {
        const json_t *data = json_object_get(b, "data");
        size_t len = json_string_length(data);
        dt_free_ char *path = path_in(dir, dt_json_text(b, "buffer"), ".bin");
        dt_free_ uint8_t *bytes = dt_malloc(dt_base64_room(len) + 1);
        if (r < 0)
            return r;
        if (!path || !bytes)
            return dt_err_set(e, DT_E_NOMEM, "out of memory");
        long n = json_is_string(data) ? dt_base64_decode(json_string_value(data), len, bytes) : -1;
        if (n < 0)
            return dt_err_set(e, DT_E_INTERNAL, "the answer has no content for buffer %s", dt_json_text(b, "buffer"));
        r = dt_write_file(path, bytes, (size_t)n, e);
        json_object_del(b, "data");
    }
    return r;
}

int cmd_run(struct cli *c)
{
    struct dt_err e = {0};
    struct outcome o;
    dt_free_ char *graph = NULL;
    size_t len;
    if (graph_read(c->arg[0], &graph, &len, &e) < 0)
        return fail(c, &e);
    backend_submit(c, "run", graph, len, &o);
    if (c->dump && !o.failed) {
        json_t *doc = json_loadb(o.text, o.len, 0, NULL);
        int r = doc ? dump(c->dump, doc, &e) : dt_err_set(&e, DT_E_INTERNAL, "the answer is not JSON");
        free(o.text);
        o.text = r < 0 ? NULL : json_dumps(doc, JSON_COMPACT);
        o.len = o.text ? strlen(o.text) : 0;
        json_decref(doc);
        if (r < 0) {
            outcome_done(&o);
            return fail(c, &e);
        }
    }
    return finish(c, &o, human);
}
