/* bench-gpu SECTION SPEC …: what bench/gpu.py has the device do. The sections:
 *
 *   about                          the device, its state, the compilers
 *   smoke                          likewise, and the driver: memory, JIT and its log, a fault and a hang in processes
 *                                  of their own
 *   trace                          does CUPTI give a record of a launch?
 *   counters GRAPH                 hardware counters of a pass; -: of one kernel
 *   graph ORIGINAL PLAN N          original against plan: bitwise N times with delayed blocks, then times (0: times
 *                                  alone)
 *   maps GRAPH                     the block maps by instrumented PTX that runs on the device, and what they cost
 *   cases FILE                     single kernels with their buffers (tests/ptx), as bench/cases.py writes them
 *
 * On the software device all of it runs as well, with modelled times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "bench/gpu/gpu.h"

void say(json_t *o)
{
    char *s = json_dumps(o, JSON_COMPACT);
    puts(s ? s : "{\"error\": \"out-of-memory\"}");
    fflush(stdout);
    free(s);
    json_decref(o);
}

int failed(int err, struct dt_err *e)
{
    json_t *o = json_pack("{s:s, s:s}", "error", dt_err_code(err), "detail", e->detail ? e->detail : "");
    if (o && e->log)
        json_object_set_new(o, "log", json_string(e->log));
    say(o);
    dt_err_done(e);
    return 1;
}

struct dt_graph *read_graph(const char *path, json_t *(*change)(json_t *doc), struct dt_err *e)
{
    struct dt_graph *g = NULL;
    json_t *doc = json_load_file(path, 0, NULL), *m;
    const char *key;
    char file[4096];
    json_object_foreach (json_object_get(doc, "modules"), key, m) {
        const char *name = json_string_value(json_object_get(m, "file")), *slash = strrchr(path, '/');
        char *text = NULL;
        size_t n = 0;
        if (!name)
            continue;
        snprintf(file, sizeof file, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
        if (dt_read_file(file, 64u << 20, &text, &n, e) < 0) {
            json_decref(doc);
            return NULL;
        }
        json_object_set_new(m, strlen(name) > 4 && !strcmp(name + strlen(name) - 4, ".ptx") ? "ptx" : "cuda",
                            json_stringn(text, n));
        json_object_del(m, "file");
        free(text);
    }
    if (doc && change)
        doc = change(doc);
    char *s = doc ? json_dumps(doc, JSON_COMPACT) : NULL;
    if (!s)
        dt_err_set(e, DT_E_JSON, "%s is no JSON document", path);
    else
        dt_graph_parse(s, strlen(s), &g, e);
    free(s);
    json_decref(doc);
    return g;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*fn)(const char *spec, int argc, char **argv);
        int args;
    } section[] = {{"about", cmd_about, 0},       {"smoke", cmd_smoke, 0}, {"trace", cmd_trace, 0},
                   {"counters", cmd_counters, 1}, {"graph", cmd_graph, 3}, {"maps", cmd_maps, 1},
                   {"cases", cmd_cases, 1}};
    for (size_t i = 0; argc > 2 && i < sizeof section / sizeof *section; i++)
        if (!strcmp(argv[1], section[i].name) && argc - 3 == section[i].args) {
            int r = section[i].fn(argv[2], argc - 3, argv + 3);
            fflush(stdout);
            _exit(r); /* a driver's own clean-up may wait for ever for a kernel that hangs */
        }
    fprintf(stderr, "usage: bench-gpu about SPEC | smoke SPEC | trace SPEC | counters SPEC GRAPH | graph SPEC ORIGINAL "
                    "PLAN N | maps SPEC GRAPH | cases SPEC FILE\n");
    return 2;
}
