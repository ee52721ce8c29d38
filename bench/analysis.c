/* What an analysis costs: wall-clock time against one plain run of the graph, and executed instructions, launch by
 * launch.
 *
 *     bench-analysis FOLDER…        corpus folders; one JSON object a graph: {"graph", "device", "analysis_us",
 * "plain_run_us", "launches": [{"name", "slice", "whole", "plain"}]}
 *
 * `slice` is what the analysis executes as it is, `whole` with slicing off, `plain` the kernel itself: thread
 * instructions as the software device counts them, 0 on a real device. Times are the best of three, without compiling.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/analysis.h"
#include "softgpu/libcuda/extension.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + 1e-3 * (double)t.tv_nsec;
}

static uint64_t last_instructions(void)
{
    static dovetailLastStats_t fn;
    struct dovetail_launch_stats st = {0};
    void *h = fn ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *p = NULL;
    CUresult (*get)(const char *, void **, int, cuuint64_t, void *) =
        h ? (CUresult(*)(const char *, void **, int, cuuint64_t, void *))dlsym(h, "cuGetProcAddress_v2") : NULL;
    if (get && !get("dovetailLastStats", &p, 13000, 0, NULL))
        fn = (dovetailLastStats_t)p;
    return fn && !fn(&st) ? st.instructions : 0;
}

/* Instructions of each launch: what the last launch before the next begins has executed. */
struct counts {
    uint64_t *of;
    unsigned at;
    bool some;
};

static void progress(const char *stage, const char *message, unsigned done, unsigned of, void *user)
{
    struct counts *c = user;
    if (c->some)
        c->of[c->at] = last_instructions();
    c->some = !strcmp(stage, "analyze");
    c->at = done;
}

static json_t *load(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/graph.json", folder);
    json_t *g = json_load_file(path, 0, NULL), *m;
    const char *key;
    json_object_foreach(json_object_get(g, "modules"), key, m)
    {
        const char *file = json_string_value(json_object_get(m, "file"));
        if (!file)
            continue;
        bool ptx = strlen(file) > 4 && !strcmp(file + strlen(file) - 4, ".ptx");
        static char text[1 << 20];
        snprintf(path, sizeof path, "%s/%s", folder, file);
        FILE *f = fopen(path, "rb");
        size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
        if (f)
            fclose(f);
        text[n] = 0;
        json_object_del(m, "file");
        json_object_set_new(m, ptx ? "ptx" : "cuda", json_string(text));
    }
    return g;
}

static int plain_counts(struct dev_device *d, const struct dev_prog *p, struct dev_run *run, uint64_t *out,
                        struct dt_err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < p->graph->nlaunch && !rc; i++) {
        const struct dt_launch *l = &p->graph->launch[i];
        struct dev_module_handle *h = NULL;
        if (l->kind != DT_KERNEL)
            continue;
        uint8_t *params = calloc((size_t)p->step[i].param_total + 8, 1);
        rc = dev_module_load(d, p->module[l->module].ptx, p->module[l->module].len, &h, e);
        if (!rc)
            rc = dev_run_params(run, i, params);
        if (!rc)
            rc = dev_launch(d, h, p->step[i].entry->name, l->grid, l->block, l->cluster, l->shared, params,
                            p->step[i].param_total, e);
        if (!rc)
            rc = dev_sync(d, e);
        if (!rc)
            out[i] = last_instructions();
        dev_module_unload(d, h);
        free(params);
    }
    return rc;
}

static int bench(struct dev_device *d, const char *folder, struct dt_err *e)
{
    const char *name = strrchr(folder, '/');
    json_t *doc = load(folder);
    char *s = doc ? json_dumps(doc, 0) : NULL;
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct dev_run *run = NULL;
    double analysis = 0, plain = 0;
    int rc = s ? dt_graph_parse(s, strlen(s), &g, e) : dt_err_set(e, DT_E_GRAPH, "%s: no graph.json", folder);
    if (!rc)
        rc = dev_prog_new(d, g, NULL, NULL, &p, e);
    uint64_t *count[3] = {NULL};
    for (unsigned k = 0; k < 3 && !rc; k++)
        count[k] = calloc(g->nlaunch + 1, sizeof *count[k]);
    for (unsigned k = 0; k < 4 && !rc; k++) { /* three times as it is, then whole */
        struct counts c = {.of = count[k == 3]};
        struct ana_options o = {.no_slice = k == 3, .progress = progress, .user = &c};
        struct ana_result *r = NULL;
        double t = now();
        rc = ana_run(d, p, &o, &r, e);
        t = now() - t;
        if (k < 3 && (!analysis || t < analysis))
            analysis = t;
        ana_free(r);
    }
    if (!rc)
        rc = dev_run_new(d, p, &run, e);
    for (unsigned k = 0; k < 3 && !rc; k++) {
        rc = dev_run_fill(run, 0, -1, e);
        double t = now();
        if (!rc)
            rc = dev_run_once(run, e);
        t = now() - t;
        if (!plain || t < plain)
            plain = t;
    }
    if (!rc)
        rc = dev_run_fill(run, 0, -1, e);
    if (!rc)
        rc = plain_counts(d, p, run, count[2], e);
    if (!rc) {
        json_t *rows = json_array();
        for (uint32_t i = 0; i < g->nlaunch; i++)
            if (g->launch[i].kind == DT_KERNEL)
                json_array_append_new(rows, json_pack("{s:s,s:I,s:I,s:I}", "name", g->launch[i].name, "slice",
                                                      (json_int_t)count[0][i], "whole", (json_int_t)count[1][i],
                                                      "plain", (json_int_t)count[2][i]));
        json_t *out = json_pack("{s:s,s:s,s:f,s:f,s:o}", "graph", name ? name + 1 : folder, "device", dev_info(d)->kind,
                                "analysis_us", analysis, "plain_run_us", plain, "launches", rows);
        char *line = json_dumps(out, 0);
        puts(line ? line : "");
        free(line);
        json_decref(out);
    }
    for (unsigned k = 0; k < 3; k++)
        free(count[k]);
    dev_run_free(run);
    dev_prog_free(p);
    dt_graph_free(g);
    free(s);
    json_decref(doc);
    return rc;
}

int main(int argc, char **argv)
{
    const char *spec = getenv("DOVETAIL_DEVICE");
    struct dev_device *d = NULL;
    struct dt_err e = {0};
    int rc = dev_open(spec ? spec : "soft", &d, &e);
    for (int i = 1; i < argc && !rc; i++)
        rc = bench(d, argv[i], &e);
    if (rc)
        fprintf(stderr, "%s: %s\n", dt_err_code(rc), e.detail ? e.detail : "");
    dev_close(d);
    dt_err_done(&e);
    return rc ? 1 : 0;
}
