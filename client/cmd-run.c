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

static int cmd_run_human(struct cli *c, const json_t *doc, const struct outcome *o)
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
    double n = jnum(doc, "launches");
    printf("time %.2f us (%s), %.0f launch%s on %s\n", jnum(doc, "time_us"), dt_json_text(doc, "method"), n,
           dt_ending(n, "es"), dt_json_text(json_object_get(doc, "device"), "name"));
    if (c->dump)
        printf("written to %s\n", c->dump);
    return 0;
}

/* Write the dumps and take them out of the document. */
static int dump(struct cli *c, json_t *doc, struct dt_err *e)
{
    size_t i;
    json_t *b;
    int r = dt_mkdirs(c->dump, e);
    json_array_foreach (json_object_get(doc, "outputs"), i, b) {
        const json_t *data = json_object_get(b, "data");
        size_t len = json_string_length(data);
        dt_free_ char *path = path_in(c->dump, dt_json_text(b, "buffer"), ".bin");
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
    return r < 0 ? r : 1;
}

int cmd_run(struct cli *c) { return post_graph(c, "run", c->dump ? dump : NULL, cmd_run_human); }
