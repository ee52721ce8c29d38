/* Single kernels: a module, and launches with buffers of their own. One line of JSON in the file a module,
 *
 *     {"ptx": "…", "cases": [{"entry", "grid", "block", "cluster", "shared", "args": ["b:HEX" a buffer with this
 *     content | "r:BYTES" one with nothing
 *      written | "a:HEX" a value], "out": [indices of buffers among the arguments]}]}
 *
 * and one line out a case: {"i": number, "out": ["HEX", …]} or {"i", "error", "detail"}; for a module that is refused
 * {"module", "error", "detail", "log"}. After an error that ends the context the process ends, and whoever started it
 * goes on behind that case.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "bench/gpu/gpu.h"

enum { MOST = 32, PARAMS = 4096 };

static int nibble(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static uint8_t *bytes(const char *hex, size_t *n)
{
    size_t len = strlen(hex);
    uint8_t *p = malloc(len / 2 + 1);
    *n = len / 2;
    for (size_t i = 0; p && i < *n; i++)
        p[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
    return p;
}

static void three(const json_t *o, const char *key, uint32_t v[3])
{
    for (size_t i = 0; i < 3; i++)
        v[i] = (uint32_t)json_integer_value(json_array_get(json_object_get(o, key), i));
}

struct buf {
    dev_ptr p;
    size_t n;
};

static int run(struct dev_device *d, struct dev_module_handle *m, const struct ptx_function *f, const json_t *c,
               struct buf *buf, struct dt_err *e)
{
    uint8_t params[PARAMS] = {0};
    uint32_t grid[3], block[3], cluster[3];
    size_t at = 0, i, n;
    json_t *a;
    int err = 0;
    three(c, "grid", grid);
    three(c, "block", block);
    three(c, "cluster", cluster);
    json_array_foreach (json_object_get(c, "args"), i, a) {
        const char *s = json_string_value(a);
        uint8_t *v = NULL;
        if (!s || i >= MOST || i >= f->nparam)
            return dt_err_set(e, DT_E_ARGS, "the entry has %u parameters", f->nparam);
        size_t align = f->param[i]->align ? f->param[i]->align : ptx_type_bytes(f->param[i]->type);
        if (*s == 'r') {
            n = strtoul(s + 2, NULL, 10);
            buf[i].n = n;
            err = dev_alloc(d, n, &buf[i].p, e);
        } else {
            v = bytes(s + 2, &n);
            err = v ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
            if (*s == 'b' && !err) {
                buf[i].n = n;
                err = dev_alloc(d, n, &buf[i].p, e);
                if (!err)
                    err = dev_upload(d, buf[i].p, v, n, e);
            }
        }
        bool value = *s == 'a';
        size_t size = value ? n : 8;
        align = align ? align : size;
        at = (at + align - 1) / align * align;
        if (!err && at + size <= sizeof params)
            memcpy(params + at, value ? (void *)v : (void *)&buf[i].p, size);
        at += size;
        free(v);
        if (err < 0 || at > sizeof params)
            return err < 0 ? err : dt_err_set(e, DT_E_ARGS, "too many parameters");
    }
    const char *entry = json_string_value(json_object_get(c, "entry"));
    err = dev_launch(d, m, entry, grid, block, cluster[0] ? cluster : NULL,
                     (uint32_t)json_integer_value(json_object_get(c, "shared")), params, at, e);
    return err < 0 ? err : dev_sync(d, e);
}

static int answer(struct dev_device *d, const json_t *c, json_int_t number, const struct buf *buf, struct dt_err *e)
{
    json_t *out = json_array(), *k;
    size_t i;
    int err = 0;
    json_array_foreach (json_object_get(c, "out"), i, k) {
        const struct buf *b = &buf[json_integer_value(k)];
        uint8_t *p = malloc(b->n + 1);
        char *hex = malloc(2 * b->n + 1);
        err = p && hex ? dev_download(d, p, b->p, b->n, e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
        for (size_t q = 0; q < b->n && !err; q++)
            snprintf(hex + 2 * q, 3, "%02x", p[q]);
        if (!err)
            json_array_append_new(out, json_stringn(hex, 2 * b->n));
        free(p);
        free(hex);
        if (err < 0)
            break;
    }
    if (err < 0)
        json_decref(out);
    else
        say(json_pack("{s:I, s:o}", "i", number, "out", out));
    return err;
}

/* 0, or -1: the context is gone. */
static int module(struct dev_device *d, const json_t *o)
{
    const char *ptx = json_string_value(json_object_get(o, "ptx"));
    struct dev_module_handle *m = NULL;
    struct dt_err e = {0};
    struct ptx_module *ir = NULL;
    json_t *c;
    size_t i;
    int err = ptx ? dev_module_load(d, ptx, strlen(ptx), &m, &e) : dt_err_set(&e, DT_E_JSON, "no PTX");
    if (!err)
        err = ptx_parse(ptx, strlen(ptx), &ir, &e);
    if (err < 0) {
        say(json_pack("{s:b, s:s, s:s, s:s}", "module", 1, "error", dt_err_code(err), "detail",
                      e.detail ? e.detail : "", "log", e.log ? e.log : ""));
        dt_err_done(&e);
        dev_module_unload(d, m);
        return 0;
    }
    json_array_foreach (json_object_get(o, "cases"), i, c) {
        struct buf buf[MOST] = {{0}};
        const char *entry = json_string_value(json_object_get(c, "entry"));
        const struct ptx_function *f = entry ? ptx_find_function(ir, entry) : NULL;
        json_int_t number = json_integer_value(json_object_get(c, "i"));
        err = f ? run(d, m, f, c, buf, &e) : dt_err_set(&e, DT_E_NO_ENTRY, "no entry %s", entry ? entry : "");
        if (!err)
            err = answer(d, c, number, buf, &e);
        if (err < 0)
            say(json_pack("{s:I, s:s, s:s}", "i", number, "error", dt_err_code(err), "detail",
                          e.detail ? e.detail : ""));
        dt_err_done(&e);
        e = (struct dt_err){0};
        for (size_t k = 0; k < MOST; k++)
            dev_free(d, buf[k].p);
        if (err < 0 && err != DT_E_NO_ENTRY && err != DT_E_ARGS && err != DT_E_LAUNCH)
            return -1;
    }
    dev_module_unload(d, m);
    ptx_module_free(ir);
    return 0;
}

int cmd_cases(const char *spec, int argc, char **argv)
{
    struct dt_err e = {0};
    struct dev_device *d = NULL;
    char *text = NULL;
    size_t n = 0;
    int err = dev_open(spec, &d, &e);
    if (!err)
        err = dt_read_file(argv[0], 256u << 20, &text, &n, &e);
    if (err < 0)
        return failed(err, &e);
    dev_set_deadline(d, 10000);
    for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        json_t *o = json_loads(line, 0, NULL);
        err = module(d, o);
        json_decref(o);
        if (err < 0)
            return 1;
    }
    free(text);
    dev_close(d);
    return 0;
}
