/* Reading a graph or plan file. A module `{"file": "k.cu"}`, or `{"cuda": {"file": "k.txt"}}`, gets the file's text,
 * found relative to the graph's folder (the current folder for stdin), because the service opens no path that a client
 * names. Where the member does not say it, the file's ending decides whether the text is `ptx` or `cuda`. A document
 * without such members is posted byte for byte. All other checks are the service's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/pointer.h"
#include "client/cli.h"

#define DOCUMENT_MAX (256u << 20)
#define SOURCE_MAX (64u << 20)

static int read_source(const char *graph, const char *file, char **ret, size_t *len, struct dt_err *e)
{
    const char *slash = strcmp(graph, "-") ? strrchr(graph, '/') : NULL;
    dt_free_ char *path = NULL;
    if (*file == '/' || !slash)
        path = dt_strdup(file);
    else if (asprintf(&path, "%.*s/%s", (int)(slash - graph), graph, file) < 0)
        path = NULL;
    if (!path)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    return dt_read_file(path, SOURCE_MAX, ret, len, e);
}

/* The file that a module names, NULL: none; *ret_as: which member its text becomes; *ret_in: the pointer's part before
 * `file`. */
static const char *named_file(const json_t *m, const char **ret_as, const char **ret_in)
{
    static const char *const in[] = {"cuda", "ptx"};
    const char *file = json_string_value(json_object_get(m, "file"));
    size_t n = file ? strlen(file) : 0;
    *ret_as = n > 4 && !strcmp(file + n - 4, ".ptx") ? "ptx" : "cuda";
    *ret_in = NULL;
    for (int k = 0; k < 2 && !file; k++)
        if ((file = json_string_value(json_object_get(json_object_get(m, in[k]), "file"))))
            *ret_as = *ret_in = in[k];
    return file;
}

/* Replace the `file` members; 1 if there were any. */
static int resolve(const char *graph, json_t *doc, struct dt_err *e)
{
    const char *name;
    json_t *m;
    int changed = 0;
    json_object_foreach (json_object_get(doc, "modules"), name, m) {
        const char *as, *in, *file = named_file(m, &as, &in);
        if (!file)
            continue;
        dt_free_ char *text = NULL;
        size_t len = 0;
        struct dt_err why = {0};
        int r = read_source(graph, file, &text, &len, &why);
        json_t *s = r < 0 ? NULL : json_stringn(text, len);
        if (!s) {
            struct dt_str at = {0};
            dt_str_add(&at, "/modules");
            dt_pointer_add(&at, name);
            if (in)
                dt_pointer_add(&at, in);
            dt_pointer_add(&at, "file");
            if (r < 0)
                dt_err_at(e, DT_E_GRAPH, at.s ? at.s : "", "%s", why.detail ? why.detail : dt_err_text(why.num));
            else
                dt_err_at(e, DT_E_GRAPH, at.s ? at.s : "", "%s is not UTF-8 text", file);
            dt_str_done(&at);
            dt_err_done(&why);
            return DT_E_GRAPH;
        }
        json_object_set_new(m, as, s); /* the member `as` may be where `file` is from */
        json_object_del(m, "file");
        changed = 1;
    }
    return changed;
}

int graph_read(const char *path, char **ret, size_t *ret_len, struct dt_err *e)
{
    char *text = NULL;
    size_t len = 0;
    int r = dt_read_file(path, DOCUMENT_MAX, &text, &len, e);
    if (r < 0) {
        if (e->num == DT_E_IO) /* a file that is not there is a wrong argument, not an infrastructure fault */
            e->num = DT_E_USAGE;
        return e->num;
    }
    json_t *doc;
    struct dt_err why = {0};
    if (dt_json_load(text, len, &doc, &why) < 0) {
        free(text);
        r = dt_err_set(e, why.num, "%s: %s", path, why.detail ? why.detail : dt_err_text(why.num));
        dt_err_done(&why);
        return r;
    }
    r = resolve(path, doc, e);
    if (r == 1) {
        free(text);
        text = json_dumps(doc, JSON_COMPACT);
        len = text ? strlen(text) : 0;
        if (!text)
            r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    json_decref(doc);
    if (r < 0) {
        free(text);
        return r;
    }
    *ret = text;
    *ret_len = len;
    return 0;
}
