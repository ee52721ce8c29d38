/* Analysis documents of graphs, each in a way of choice:  analyze GRAPH summary|slices|whole|tight [GRAPH WAY…]
 *
 * summary: as ever; slices: no launch is summarised, the recorder runs slices, as on a real GPU; whole: it runs whole
 * kernels; tight: slices, with hardly any memory for the recorder. DOVETAIL_RECORDER says which recorder. A line for
 * each: the document, or the problem as a string; one device for all, as a worker has. maps.py and kinds.py hold all of
 * them against their oracles.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"

static int analyse(struct dev_device *d, const char *path, const char *way)
{
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct ana_result *r = NULL;
    struct dt_err e = {0};
    json_t *doc = json_load_file(path, 0, NULL), *out = NULL;
    char *s = doc ? json_dumps(doc, 0) : NULL;
    int rc = s ? dt_graph_parse(s, strlen(s), &g, &e) : dt_err_set(&e, DT_E_USAGE, "%s cannot be read", path);
    if (!rc)
        rc = dev_prog_new(d, g, NULL, NULL, &p, &e);
    if (!rc) {
        struct ana_options o = {.all_edges = true,
                                .max_bytes = !strcmp(way, "tight") ? 2048 : 0,
                                .no_summary = !strcmp(way, "slices") || !strcmp(way, "tight"),
                                .no_slice = !strcmp(way, "whole")};
        rc = ana_run(d, p, &o, &r, &e);
    }
    out = !rc ? ana_to_json(r, dev_info(d), NULL, true)
              : json_sprintf("%s: %s", dt_err_code(rc), e.detail ? e.detail : "");
    if (rc)
        fprintf(stderr, "%s\n", json_string_value(out));
    json_dumpf(out, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
    putchar('\n');
    json_decref(out), json_decref(doc);
    free(s);
    ana_free(r);
    dev_prog_free(p);
    dt_graph_free(g);
    dt_err_done(&e);
    return rc;
}

int main(int argc, char **argv)
{
    struct dev_device *d = NULL;
    struct dt_err e = {0};
    int bad = argc < 3 || argc % 2 == 0
                  ? dt_err_set(&e, DT_E_USAGE, "usage: analyze GRAPH summary|slices|whole|tight [GRAPH WAY...]")
                  : dev_open("soft", &d, &e);
    if (bad)
        fprintf(stderr, "%s: %s\n", dt_err_code(bad), e.detail ? e.detail : "");
    for (int i = 1; d && i < argc; i += 2)
        bad |= analyse(d, argv[i], argv[i + 1]) != 0;
    dev_close(d);
    dt_err_done(&e);
    return bad ? 1 : 0;
}
