/* bench-gpu: one section of ./dev gpu a process, so that a dead context or a hang costs only that section. One JSON
 * document a line on stdout. */
#ifndef DT_BENCH_GPU_H
#define DT_BENCH_GPU_H

#include <jansson.h>

#include "device/device.h"

int cmd_smoke(const char *spec, int argc, char **argv);    /* smoke.c */
int cmd_about(const char *spec, int argc, char **argv);    /* smoke.c */
int cmd_trace(const char *spec, int argc, char **argv);    /* profiling.c */
int cmd_counters(const char *spec, int argc, char **argv); /* profiling.c */
int cmd_graph(const char *spec, int argc, char **argv);    /* graphs.c */
int cmd_maps(const char *spec, int argc, char **argv);     /* graphs.c */
int cmd_cases(const char *spec, int argc, char **argv);    /* cases.c */

/* The kernel of the smoke test: 256k numbers, each doubled. */
extern const char smoke_module[];
struct twice {
    struct dev_device *d;
    struct dev_module_handle *m;
    dev_ptr p;
};
int launch_twice(void *twice, struct dt_err *e);

void say(json_t *o);                   /* one line; takes the reference */
int failed(int err, struct dt_err *e); /* {"error", "detail", "log"}; 1 */
/* A graph document with the files that it names; NULL: e says why. Plans too. */
struct dt_graph *read_graph(const char *path, json_t *(*change)(json_t *doc), struct dt_err *e);

#endif
