/* What is there of profiling: CUPTI's records of a launch, and counters of one or of a graph's pass. Each in a process
 * of its own, as this is NVIDIA's code at its most intricate, and what was measured before must not be lost with it.
 * That something is not there is an answer, not a failure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gpu/gpu.h"
#include "device/profile.h"

static int open_twice(const char *spec, struct twice *t, struct dt_err *e)
{
    int err = dev_open(spec, &t->d, e);
    if (!err)
        err = dev_module_load(t->d, smoke_module, strlen(smoke_module), &t->m, e);
    if (!err)
        err = dev_alloc(t->d, 1u << 20, &t->p, e);
    if (!err)
        err = dev_set(t->d, t->p, 0, 1u << 20, e);
    return err < 0 ? err : dev_sync(t->d, e);
}

static void close_twice(struct twice *t)
{
    dev_free(t->d, t->p);
    dev_module_unload(t->d, t->m);
    dev_close(t->d);
}

int cmd_trace(const char *spec, int argc, char **argv)
{
    struct dt_err e = {0}, no = {0};
    struct twice t = {0};
    struct dev_tracer *tracer = NULL;
    struct dev_trace trace = {0};
    int err = open_twice(spec, &t, &e);
    if (err < 0)
        return failed(err, &e);
    err = dev_trace_begin(t.d, &tracer, NULL, &no);
    if (!err) {
        err = dev_trace_mark(tracer, 1, &no);
        if (!err)
            err = launch_twice(&t, &no);
        int end = dev_trace_end(tracer, &trace, &no);
        err = err < 0 ? err : end;
    }
    struct dev_span s = dev_activity_span(&trace, 1);
    if (!err && s.n != 1)
        err = dt_err_set(&no, DT_E_PROFILER, "%zu records of one launch", s.n);
    say(err < 0
            ? json_pack("{s:s}", "reason", no.detail ? no.detail : "")
            : json_pack("{s:i, s:i, s:f, s:I}", "version", (int)trace.version, "registers",
                        (int)trace.record[0].registers, "us", s.span_us, "overhead_ns", (json_int_t)trace.overhead_ns));
    dev_trace_done(&trace);
    dt_err_done(&no);
    close_twice(&t);
    return 0;
}

static int pass(void *user, struct dt_err *e) { return dev_run_once(user, e); }

/* argv[0]: a graph or plan; "-": the kernel of the smoke test. */
int cmd_counters(const char *spec, int argc, char **argv)
{
    struct dt_err e = {0}, no = {0};
    struct twice t = {0};
    struct dev_counters c;
    struct dt_graph *g = NULL;
    struct dev_prog *p = NULL;
    struct dev_run *run = NULL;
    bool graph = strcmp(argv[0], "-") != 0, retry = false;
    int err = open_twice(spec, &t, &e);
    if (!err && graph && !(g = read_graph(argv[0], NULL, &e)))
        err = e.num;
    if (!err && graph)
        err = dev_prog_new(t.d, g, NULL, NULL, &p, &e);
    if (!err && graph)
        err = dev_run_new(t.d, p, &run, &e);
    if (!err && graph)
        err = dev_run_fill(run, 0, -1, &e);
    if (!err && graph)
        err = dev_run_once(run, &e); /* loaded, and the L2 warm */
    if (err < 0)
        return failed(err, &e);
    err = dev_count(t.d, graph ? pass : launch_twice, graph ? (void *)run : &t, &c, &retry, &no);
    json_t *o = json_object();
    for (unsigned k = 0; k < DEV_COUNTERS && !err; k++)
        json_object_set_new(o, dev_counter_name[k], json_real(c.value[k]));
    if (err < 0) {
        json_object_set_new(o, "reason", json_string(no.detail ? no.detail : ""));
        json_object_set_new(o, "retry", json_boolean(retry));
    }
    say(o);
    dt_err_done(&no);
    dev_run_free(run);
    dev_prog_free(p);
    dt_graph_free(g);
    close_twice(&t);
    return 0;
}
