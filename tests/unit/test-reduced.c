/* A graph without what its signature does not depend on: every graph of the corpus, its inputs posted as data and with
 * buffers and modules that nothing uses, keeps its digest and its signature, and none of these bytes.
 *
 * Kernels are not compiled here: one PTX entry stands for all in the signature, and that their texts are the same shows
 * in the digest.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/str.h"
#include "cache/signature/signature.h"

#define SPARE "c3BhcmUtYnl0ZXM=" /* of what nothing uses: "spare-bytes" */
static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry any()\n{\n\tret;\n}\n";

/* As the client posts it; NULL: the folder has no graph. */
static json_t *posted(const char *folder)
{
    char path[2048], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/graph.json", folder);
    json_t *g = json_load_file(path, 0, NULL), *m;
    const char *key;
    json_object_foreach (json_object_get(g, "modules"), key, m) {
        const char *file = json_string_value(json_object_get(m, "file"));
        if (!file)
            continue;
        const bool is_ptx = strlen(file) > 4 && !strcmp(file + strlen(file) - 4, ".ptx");
        snprintf(path, sizeof path, "%s/%s", folder, file);
        assert_int_equal(dt_read_file(path, 1 << 24, &text, &n, NULL), 0);
        json_object_set_new(m, is_ptx ? "ptx" : "cuda", json_stringn(text, n));
        json_object_del(m, "file");
        free(text);
    }
    json_object_foreach (json_object_get(g, "buffers"), key, m) { /* raw files, as the command reads them */
        json_t *data = json_object_get(m, "data");
        const char *file = json_string_value(json_object_get(data, "file"));
        if (!file)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, file);
        assert_int_equal(dt_read_file(path, 1 << 24, &text, &n, NULL), 0);
        struct dt_str coded = {0};
        dt_base64_encode((const uint8_t *)text, n, &coded);
        assert_false(coded.failed);
        json_object_set_new(m, "data", json_string(coded.s));
        dt_str_done(&coded);
        free(text);
    }
    return g;
}

static struct dt_graph *parsed(json_t *doc)
{
    struct dt_graph *g = NULL;
    struct dt_err e = {0};
    if (dt_graph_from_json(doc, &g, &e) < 0)
        fail_msg("%s: %s", e.pointer ? e.pointer : "", e.detail);
    return g;
}

/* Fills of buffers that are not constant become data. How many. */
static unsigned fills_to_data(json_t *doc)
{
    struct dt_graph *g = parsed(doc);
    json_t *data = json_object();
    const char *name;
    json_t *v;
    unsigned n = 0;
    for (uint32_t i = 0; i < g->nbuffer; i++) {
        const struct dt_buffer *b = &g->buffer[i];
        struct dt_str text = {0};
        if (b->constant || b->fill.kind == DT_FILL_NONE || b->bytes > 16 << 20)
            continue;
        uint8_t *bytes = dt_malloc(b->bytes);
        dt_fill_bytes(b, 0, bytes);
        bytes[0] = 0xA5; /* not all zeros, which the reduced graph may say */
        dt_base64_encode(bytes, b->bytes, &text);
        json_object_set_new(data, b->name, json_string(text.s));
        dt_str_done(&text);
        free(bytes);
        n++;
    }
    dt_graph_free(g);
    json_object_foreach (data, name, v) {
        json_t *b = json_object_get(json_object_get(doc, "buffers"), name);
        json_object_del(b, "fill");
        json_object_set(b, "data", v);
    }
    json_decref(data);
    return n;
}

static void spares(json_t *doc)
{
    json_t *buffers = json_object_get(doc, "buffers"), *modules = json_object_get(doc, "modules");
    json_object_set_new(buffers, "spare",
                        json_pack("{s:i, s:s, s:b, s:s}", "bytes", 11, "role", "weight", "constant", 1, "data", SPARE));
    json_object_set_new(modules, "spare", json_pack("{s:s}", "ptx", "// spare-text\n"));
    json_object_set_new(doc, "comment", json_string("spare-text"));
    json_object_set_new(doc, "name", json_string("spare-text"));
}

static void signed_as(struct dt_graph *g, char signature[DT_SHA256_TEXT], char digest[DT_SHA256_TEXT])
{
    struct ptx_module *m = NULL;
    struct dt_err e = {0};
    assert_int_equal(ptx_parse(ptx, strlen(ptx), &m, &e), 0);
    const struct ptx_function *any = ptx_find_function(m, "any");
    const struct ptx_function **entry = dt_calloc(g->nlaunch, sizeof(struct ptx_function *));
    for (uint32_t i = 0; i < g->nlaunch; i++)
        entry[i] = g->launch[i].kind == DT_KERNEL ? any : NULL;
    assert_int_equal(cache_signature(g, entry, "sm_90", signature, NULL, &e), 0);
    assert_int_equal(dt_graph_digest(g, digest, &e), 0);
    free((void *)entry);
    ptx_module_free(m);
}

/* No byte of data that is not constant, and all that is. */
static void content(const json_t *doc, json_t *reduced)
{
    const char *name;
    json_t *b;
    json_object_foreach (json_object_get(reduced, "buffers"), name, b) {
        const json_t *was = json_object_get(json_object_get(doc, "buffers"), name),
                     *data = json_object_get(was, "data");
        if (json_is_true(json_object_get(was, "constant"))) {
            assert_true(!data || json_equal(data, json_object_get(b, "data")));
            continue;
        }
        assert_null(json_object_get(b, "data"));
        assert_int_equal(data != NULL, json_is_true(json_object_get(json_object_get(b, "fill"), "zero")));
    }
    char *text = json_dumps(reduced, JSON_COMPACT);
    assert_null(strstr(text, SPARE));
    assert_null(strstr(text, "spare"));
    free(text);
}

static unsigned one(json_t *doc)
{
    char a[DT_SHA256_TEXT], b[DT_SHA256_TEXT], da[DT_SHA256_TEXT], db[DT_SHA256_TEXT];
    unsigned n = fills_to_data(doc);
    spares(doc);
    struct dt_graph *g = parsed(doc);
    json_t *reduced = dt_graph_reduced(g);
    assert_non_null(reduced);
    content(doc, reduced);
    struct dt_graph *small = parsed(reduced);
    signed_as(g, a, da);
    signed_as(small, b, db);
    assert_string_equal(a, b);
    assert_string_equal(da, db);
    assert_int_equal(g->nbuffer, small->nbuffer + 1);
    assert_int_equal(g->nmodule, small->nmodule + 1);
    dt_graph_free(g);
    dt_graph_free(small);
    json_decref(reduced);
    return n;
}

static void test_corpus(void **state)
{
    const char *root = getenv("DOVETAIL_SOURCE");
    char path[1024];
    unsigned graphs = 0, data = 0;
    if (!root)
        skip();
    snprintf(path, sizeof path, "%s/tests/corpus", root);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *f; (f = readdir(d));) {
        snprintf(path, sizeof path, "%s/tests/corpus/%s", root, f->d_name);
        json_t *doc = posted(path);
        if (!doc)
            continue;
        print_message("%s\n", f->d_name);
        data += one(doc);
        graphs++;
        json_decref(doc);
    }
    closedir(d);
    assert_true(graphs >= 20 && data >= graphs);
}

/* A module's variable that only a copy uses keeps its module; one that nothing uses goes. */
static void test_variables(void **state)
{
    json_t *doc =
        json_pack("{s:i, s:{s:{s:s}, s:{s:s}}, s:{s:{s:i, s:s, s:s}, s:{s:i, s:s, s:s}, s:{s:i, s:s}}, "
                  "s:[{s:{s:{s:s}, s:{s:s}, s:i}}]}",
                  "dovetail", 1, "modules", "m", "ptx", ptx, "n", "ptx", ptx, "buffers", "m::v", "bytes", 4, "role",
                  "inout", "data", "AQIDBA==", "n::w", "bytes", 4, "role", "inout", "data", "AQIDBA==", "y", "bytes", 4,
                  "role", "output", "launches", "copy", "from", "buffer", "m::v", "to", "buffer", "y", "bytes", 4);
    assert_non_null(doc);
    struct dt_graph *g = parsed(doc);
    json_t *reduced = dt_graph_reduced(g);
    struct dt_graph *small = parsed(reduced);
    assert_int_equal(small->nmodule, 1);
    assert_int_equal(small->nbuffer, 2);
    assert_true(dt_graph_find_buffer(small, "m::v") != DT_NAME_NONE);
    dt_graph_free(small);
    json_decref(reduced);
    dt_graph_free(g);
    json_decref(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus), cmocka_unit_test(test_variables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
