/* The analysis document of one graph, in a way of choice:  analyze GRAPH summary|slices|whole|tight
 *
 * summary: as ever; slices: no launch is summarised, the recorder runs slices, as on a real GPU; whole: it runs whole kernels; tight: slices, with hardly
 * any memory for the recorder. DOVETAIL_RECORDER says which recorder. maps.py and kinds.py hold all of them against their oracles.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/analysis.h"

int main(int argc, char **argv)
{
    struct dev_device *d = NULL;
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct ana_result *r = NULL;
    struct dt_err e = {0};
    json_t *doc = argc == 3 ? json_load_file(argv[1], 0, NULL) : NULL, *out = NULL;
    char *s = doc ? json_dumps(doc, 0) : NULL;
    int rc = s ? dt_graph_parse(s, strlen(s), &g, &e) : dt_err_set(&e, DT_E_USAGE, "usage: analyze GRAPH summary|slices|whole|tight");
    if (!rc)
        rc = dev_open("soft", &d, &e);
    if (!rc)
        rc = dev_prog_new(d, g, NULL, NULL, &p, &e);
    if (!rc) {
        struct ana_options o = {
            .all_edges = true, .max_bytes = !strcmp(argv[2], "tight") ? 2048 : 0,
            .no_summary = !strcmp(argv[2], "slices") || !strcmp(argv[2], "tight"), .no_slice = !strcmp(argv[2], "whole")};
        rc = ana_run(d, p, &o, &r, &e);
    }
    if (!rc)
        out = ana_to_json(r, dev_info(d), NULL, true);
    if (out)
        json_dumpf(out, stdout, JSON_COMPACT);
    if (rc)
        fprintf(stderr, "%s: %s\n", dt_err_code(rc), e.detail ? e.detail : "");
    json_decref(out), json_decref(doc);
    free(s);
    ana_free(r);
    dev_prog_free(p);
    dt_graph_free(g);
    dev_close(d);
    dt_err_done(&e);
    return rc ? 1 : 0;
}
