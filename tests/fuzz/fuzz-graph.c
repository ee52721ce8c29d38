/* Any bytes as a graph document or plan. Whatever is taken must print to a document that is taken again, prints the
 * same and has the same digest; whatever is refused must come with an error number and a sentence. Fills of small
 * buffers are made.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "fuzz-graph: %s\n", what);
        abort();
    }
}

static void again(struct dt_graph *g)
{
    struct dt_graph *h = NULL;
    char a[DT_SHA256_TEXT], b[DT_SHA256_TEXT];
    json_t *j = dt_graph_to_json(g), *k;
    check(j != NULL, "a graph does not print");
    char *text = json_dumps(j, JSON_COMPACT);
    check(text != NULL, "a document does not dump");
    check(dt_graph_parse(text, strlen(text), &h, NULL) == 0, "what was printed is refused");
    k = dt_graph_to_json(h);
    check(k && json_equal(j, k), "printing again gives another document");
    check(dt_graph_digest(g, a, NULL) == 0 && dt_graph_digest(h, b, NULL) == 0 && !strcmp(a, b), "the digest changed");
    json_decref(j);
    json_decref(k);
    free(text);
    dt_graph_free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_graph *g = NULL;
    struct dt_err e = {0};
    struct dt_canon canon;
    static uint8_t room[4096];
    int r = dt_graph_parse((const char *)data, size, &g, &e);
    if (r < 0) {
        check(e.num == r && e.detail && *e.detail && !g, "a refusal without a reason");
        dt_err_done(&e);
        return 0;
    }
    again(g);
    check(dt_graph_canon(g, &canon) == 0, "no canonical numbers");
    for (uint32_t i = 0; i < g->nbuffer; i++)
        if (g->buffer[i].bytes <= sizeof room)
            dt_fill_bytes(&g->buffer[i], 1, room);
    dt_graph_free(g);
    return 0;
}
