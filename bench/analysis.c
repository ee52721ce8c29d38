/* What an analysis costs: wall-clock time against one plain run of the graph, and executed instructions, launch by
 * launch.
 *
 *     bench-analysis FOLDER…        corpus folders; one JSON object a graph: {"graph", "device", "analysis_us",
 * "plain_run_us", "ways": {"slices": {"native": us, "instrumented": us}, "whole": {…}}, "launches": [{"name", "how",
 * "analysed", "slice", "whole", "plain"}]}
 *
 * `analysed` is what the analysis takes as it is, `how` says whether it walked a summary or executed on the device;
 * `slice` is what it executes without summaries, `whole` with slicing off too, `plain` the kernel itself: thread
 * instructions, as the software device counts them, 0 on a real device. Times are the best of three, without compiling.
 * "ways" has the times of what each recorder takes for slices and for whole launches, best of two; on a real device
 * there is one recorder.
 *
 *     bench-analysis --only FOLDER…   the analysis alone: what is too large to run here
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
    json_object_foreach (json_object_get(g, "modules"), key, m) {
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

/* Peak of this process so far, bytes. */
static int64_t peak(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) ? 0 : (int64_t)u.ru_maxrss * 1024;
}

static json_t *row(const struct dt_launch *l, const struct ana_launch *x, uint64_t *const *count, uint32_t i)
{
    json_t *o = json_pack("{s:s,s:s,s:I}", "name", l->name, "how", x->summarised ? "summary" : "device", "analysed",
                          (json_int_t)(x->summarised ? x->walked : count[0][i]));
    static const char *const key[] = {NULL, "slice", "whole", "plain"};
    for (unsigned k = 1; k < 4 && count[k]; k++)
        json_object_set_new(o, key[k], json_integer((json_int_t)count[k][i]));
    return o;
}

static int bench(struct dev_device *d, const char *folder, bool only, struct dt_err *e)
{
    const char *name = strrchr(folder, '/');
    json_t *doc = load(folder);
    char *s = doc ? json_dumps(doc, 0) : NULL;
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct dev_run *run = NULL;
    struct ana_result *kept = NULL;
    double analysis = 0, first = 0, plain = 0, t = now();
    json_t *ways = json_pack("{s:{},s:{}}", "slices", "whole");
    int rc = s ? dt_graph_parse(s, strlen(s), &g, e) : dt_err_set(e, DT_E_GRAPH, "%s: no graph.json", folder);
    if (!rc)
        rc = dev_prog_new(d, g, NULL, NULL, &p, e);
    double compile = now() - t;
    uint64_t *count[4] = {NULL};
    for (unsigned k = 0; k < (only ? 1 : 4) && !rc; k++)
        count[k] = calloc(g->nlaunch + 1, sizeof *count[k]);
    for (unsigned k = 0; k < 5 && !rc; k++) { /* three times as it is, then as slices, then whole */
        if (k >= (only ? 2 : 5))
            break;
        struct counts c = {.of = count[k < 3 ? 0 : k - 2]};
        struct ana_options o = {.no_summary = k == 3, .no_slice = k == 4, .progress = progress, .user = &c};
        struct ana_result *r = NULL;
        t = now();
        rc = ana_run(d, p, &o, &r, e);
        t = now() - t;
        if (!k)
            first = t;
        if (k < 3 && (!analysis || t < analysis))
            analysis = t;
        if (!k)
            kept = r;
        else
            ana_free(r);
    }
    bool soft = dev_info(d)->soft;
    for (unsigned k = 0; k < 8 && !rc && !only; k++) { /* slices, whole; twice; by each recorder */
        const char *recorder = k & 1 ? "native" : "instrumented";
        struct ana_options o = {
            .no_summary = k & 4, .no_slice = !(k & 4), .way = k & 1 ? ANA_WAY_NATIVE : ANA_WAY_INSTRUMENTED};
        struct ana_result *r = NULL;
        json_t *of = json_object_get(ways, k & 4 ? "slices" : "whole"), *had = json_object_get(of, recorder);
        if (k & 1 && !soft)
            continue;
        t = now();
        rc = ana_run(d, p, &o, &r, e);
        t = now() - t;
        if (!rc && (!had || t < json_real_value(had)))
            json_object_set_new(of, recorder, json_real(t));
        ana_free(r);
    }
    if (!rc && !only)
        rc = dev_run_new(d, p, &run, e);
    for (unsigned k = 0; k < 3 && !rc && !only; k++) {
        rc = dev_run_fill(run, 0, -1, e);
        t = now();
        if (!rc)
            rc = dev_run_once(run, e);
        t = now() - t;
        if (!plain || t < plain)
            plain = t;
    }
    if (!rc && !only)
        rc = dev_run_fill(run, 0, -1, e);
    if (!rc && !only)
        rc = plain_counts(d, p, run, count[3], e);
    if (!rc) {
        json_t *rows = json_array();
        for (uint32_t i = 0; i < g->nlaunch; i++)
            if (g->launch[i].kind == DT_KERNEL)
                json_array_append_new(rows, row(&g->launch[i], &kept->launch[i], count, i));
        json_t *out =
            json_pack("{s:s,s:s,s:f,s:f,s:f,s:I,s:I,s:o}", "graph", name ? name + 1 : folder, "device",
                      dev_kind(dev_info(d)), "compile_us", compile, "first_us", first, "analysis_us", analysis,
                      "peak_bytes", (json_int_t)peak(), "edges", (json_int_t)kept->nedge, "launches", rows);
        if (!only) {
            json_object_set_new(out, "plain_run_us", json_real(plain));
            json_object_set(out, "ways", ways);
        }
        char *line = json_dumps(out, 0);
        puts(line ? line : "");
        fflush(stdout);
        free(line);
        json_decref(out);
    }
    for (unsigned k = 0; k < 4; k++)
        free(count[k]);
    json_decref(ways);
    ana_free(kept);
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
    bool only = argc > 1 && !strcmp(argv[1], "--only");
    struct dev_device *d = NULL;
    struct dt_err e = {0};
    int rc = dev_open(spec ? spec : "soft", &d, &e);
    for (int i = 1 + only; i < argc && !rc; i++)
        rc = bench(d, argv[i], only, &e);
    if (rc)
        fprintf(stderr, "%s: %s\n", dt_err_code(rc), e.detail ? e.detail : "");
    dev_close(d);
    dt_err_done(&e);
    return rc ? 1 : 0;
}
