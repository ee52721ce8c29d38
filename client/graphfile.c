/* Reading a graph or plan file. A module `{"file": "k.cu"}`, or `{"cuda": {"file": "k.txt"}}`, gets the file's text,
 * and a buffer with `"data": {"file": "x.npy"}` the file's content as base64: found relative to the graph's folder (the
 * current folder for stdin), because the service opens no path that a client names. Of modules, where the member does
 * not say it, the file's ending decides whether the text is `ptx` or `cuda`. Of data, a file that ends in .npy is an
 * array of NumPy, whose size, and dtype where `"dtype"` says one, must be the buffer's (npy.c); any other one is the
 * buffer's bytes. A document without such members is posted byte for byte. All other checks are the service's.
 *
 * A graph may name any file that its reader may read: who posts a graph of somebody else sends what it names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/json.h"
#include "base/pointer.h"
#include "client/cli.h"
#include "client/npy.h"

#define DOCUMENT_MAX (256u << 20)
#define SOURCE_MAX (64u << 20)

#define NPY_HEAD_MOST ((1u << 16) + 12)

static int read_beside(const char *graph, const char *file, size_t most, char **ret, size_t *len, struct dt_err *e)
{
    const char *slash = strcmp(graph, "-") ? strrchr(graph, '/') : NULL;
    dt_free_ char *path = NULL;
    if (*file == '/' || !slash)
        path = dt_strdup(file);
    else if (asprintf(&path, "%.*s/%s", (int)(slash - graph), graph, file) < 0)
        path = NULL;
    if (!path)
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    return dt_read_file(path, most, ret, len, e);
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
        int r = read_beside(graph, file, SOURCE_MAX, &text, &len, &why);
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

/* An error of buffer `name`, at /buffers/NAME/data/MEMBER. Empties why. */
static int data_wrong(const char *name, const char *member, const char *file, struct dt_err *why, struct dt_err *e)
{
    struct dt_str at = {0};
    dt_str_add(&at, "/buffers");
    dt_pointer_add(&at, name);
    dt_pointer_add(&at, "data");
    dt_pointer_add(&at, member);
    const char *text = why->detail ? why->detail : dt_err_text(why->num);
    if (why->num == DT_E_IO || why->num == DT_E_NOMEM) /* it names the file */
        dt_err_at(e, DT_E_GRAPH, at.s ? at.s : "", "%s", text);
    else
        dt_err_at(e, why->num, at.s ? at.s : "", "%s: %s", file, text);
    dt_str_done(&at);
    dt_err_done(why);
    return e->num;
}

/* The content of a file for a buffer of so many bytes: where in *text it begins; or an error in why. */
static long data_read(const char *graph, const char *file, const char *dtype, uint64_t bytes, char **text,
                      struct dt_err *why)
{
    size_t n = strlen(file), len;
    bool array = n > 4 && !strcmp(file + n - 4, ".npy");
    struct npy a = {.bytes = bytes};
    int r = read_beside(graph, file, (size_t)bytes + (array ? NPY_HEAD_MOST : 0), text, &len, why);
    if (r == DT_E_TOO_LARGE) {
        dt_err_done(why);
        return dt_err_set(why, DT_E_GRAPH, "it has more than the %llu bytes of the buffer", (unsigned long long)bytes);
    }
    if (r < 0 || (array && (r = npy_head(*text, len, &a, why)) < 0))
        return r;
    if (a.bytes != bytes && array)
        return dt_err_set(why, DT_E_GRAPH, "it holds %llu bytes, elements '%s', and the buffer has %llu",
                          (unsigned long long)a.bytes, a.descr, (unsigned long long)bytes);
    if (len - a.at != bytes)
        return dt_err_set(why, DT_E_GRAPH, "it %s %zu bytes, and the buffer has %llu",
                          array ? "should hold what its head says, has" : "has", len - a.at, (unsigned long long)bytes);
    if (array && dtype && !npy_fits(&a, dtype))
        return dt_err_set(why, DT_E_GRAPH, "its elements are '%s', and dtype says %.16s", a.descr, dtype);
    return (long)a.at;
}

/* A buffer's `data` that names a file becomes its content. 1: it was one; *total is the base64 of all so far. */
static int inline_data(const char *graph, const char *name, json_t *b, size_t *total, struct dt_err *e)
{
    json_t *data = json_object_get(b, "data"), *size = json_object_get(b, "bytes"), *v, *kind;
    const char *file = json_string_value(json_object_get(data, "file")), *key;
    double bytes = json_number_value(size);
    struct dt_err why = {0};
    struct dt_str coded = {0};
    dt_free_ char *text = NULL;
    if (!file)
        return 0;
    kind = json_object_get(data, "dtype");
    size_t end = strlen(file) > 4 ? strlen(file) - 4 : 0;
    json_object_foreach (data, key, v)
        if (strcmp(key, "file") && strcmp(key, "dtype")) {
            dt_err_set(&why, DT_E_GRAPH, "data of a file has no other members than file and dtype");
            return data_wrong(name, key, file, &why, e);
        }
    if (kind && (!json_is_string(kind) || strcmp(file + end, ".npy"))) {
        dt_err_set(&why, DT_E_GRAPH, "%s",
                   json_is_string(kind) ? "only a .npy file says what its elements are: leave dtype out"
                                        : "dtype is a text: f32, i64 …");
        return data_wrong(name, "dtype", file, &why, e);
    }
    if (!(bytes >= 1)) /* the service says what is wrong with it; nothing is read for it */
        bytes = 0;
    if (bytes > DOCUMENT_MAX || *total + (size_t)bytes / 3 * 4 > DOCUMENT_MAX) {
        dt_err_set(&why, DT_E_TOO_LARGE, "the files of all data, as base64, have over %u bytes", DOCUMENT_MAX);
        return data_wrong(name, "file", file, &why, e);
    }
    long at = bytes ? data_read(graph, file, json_string_value(kind), (uint64_t)bytes, &text, &why) : 0;
    if (at < 0)
        return data_wrong(name, why.detail && strstr(why.detail, "dtype says") ? "dtype" : "file", file, &why, e);
    if (bytes)
        dt_base64_encode((const uint8_t *)text + at, (size_t)bytes, &coded);
    *total += coded.len;
    if (coded.failed || json_object_set_new(b, "data", json_stringn_nocheck(coded.s ? coded.s : "", coded.len)) < 0) {
        dt_str_done(&coded);
        return dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    dt_str_done(&coded);
    return 1;
}

/* 1 if there were any. */
static int resolve_data(const char *graph, json_t *doc, struct dt_err *e)
{
    const char *name;
    json_t *b;
    int changed = 0;
    size_t total = 0;
    json_object_foreach (json_object_get(doc, "buffers"), name, b) {
        int r = inline_data(graph, name, b, &total, e);
        if (r < 0)
            return r;
        changed |= r;
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
    int data = r < 0 ? 0 : resolve_data(path, doc, e);
    r = data < 0 ? data : r | data;
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
