/* Any JSON as a document of the cache: names of a fixed graph are put in and taken out. After taking names out and
 * putting them back, taking them out again gives the same stored document; a document is untouched when renaming it
 * fails.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char graph[] =
    "{\"dovetail\": 1, \"name\": \"g\", \"modules\": {\"m\": {\"ptx\": \"x\"}, \"f0\": {\"ptx\": \"y\"}}, \"buffers\": "
    "{"
    "\"y\": {\"bytes\": 8, \"role\": \"output\"}, \"t0\": {\"bytes\": 8, \"role\": \"input\"}, \"b0\": {\"bytes\": 8, "
    "\"role\": \"intermediate\"},"
    "\"ix\": {\"bytes\": 1, \"role\": \"input\", \"constant\": true, \"data\": \"AQ==\"}}, \"launches\": ["
    "{\"name\": \"a\", \"module\": \"m\", \"entry\": \"e\", \"grid\": [1,1,1], \"block\": [1,1,1], \"args\": "
    "[{\"buffer\": \"t0\"}, {\"buffer\": \"b0\"}]},"
    "{\"name\": \"l0\", \"copy\": {\"from\": {\"buffer\": \"b0\"}, \"to\": {\"buffer\": \"y\"}, \"bytes\": 8}},"
    "{\"name\": \"a+l0\", \"copy\": {\"from\": {\"buffer\": \"ix\"}, \"to\": {\"buffer\": \"y\"}, \"bytes\": 1}}]}";

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz-rename: %s\n", what);
        abort();
    }
}

/* 0, or an error and `doc` as it was. */
static int rename_checked(json_t *doc, struct dt_graph *g, bool out)
{
    struct dt_err e = {0};
    json_t *before = json_deep_copy(doc);
    int r = cache_rename(doc, g, out, &e);
    check(r == 0 ? e.num == 0 : (e.num == r && e.detail && json_equal(doc, before)),
          "a failure without a reason, or that changed the document");
    json_decref(before);
    dt_err_done(&e);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_graph *g = NULL;
    json_t *doc = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL), *copy;
    if (!json_is_object(doc)) {
        json_decref(doc);
        return 0;
    }
    check(dt_graph_parse(graph, sizeof graph - 1, &g, NULL) == 0, "the target's own graph");
    copy = json_deep_copy(doc);
    rename_checked(copy, g, true);
    json_decref(copy);
    if (rename_checked(doc, g, false) == 0) {
        copy = json_deep_copy(doc);
        if (rename_checked(copy, g, true) == 0) {
            check(rename_checked(copy, g, false) == 0, "what was put in cannot be taken out");
            check(json_equal(copy, doc), "another document after a round trip");
        }
        json_decref(copy);
    }
    json_decref(doc);
    dt_graph_free(g);
    return 0;
}
