/* A graph and its plan on the device: the same bytes, however the blocks are delayed; how long they take; and the
 * graph's block maps by recording.
 *
 * The plan runs once more with delays at the head of every entry (device/delay.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/analysis.h"
#include "base/str.h"
#include "bench/gpu/gpu.h"
#include "device/measure.h"

static json_t *delayed(json_t *doc)
{
    const char *key;
    json_t *m;
    json_object_foreach (json_object_get(doc, "modules"), key, m) {
        const char *ptx = json_string_value(json_object_get(m, "ptx"));
        char *text = ptx ? dev_delayed_ptx(ptx) : NULL;
        if (text) {
            json_object_set_new(m, "ptx", json_string(text));
            json_object_del(m, "cubin"); /* is of the text before */
            json_object_del(m, "cubin_sha256");
        }
        free(text);
    }
    return doc;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + 1e-3 * (double)t.tv_nsec;
}

struct program {
    struct dt_graph *g;
    struct dev_prog *p;
    struct dev_run *run;
};

static int load(struct dev_device *d, const char *path, json_t *(*change)(json_t *), struct program *ret,
                struct dt_err *e)
{
    ret->g = read_graph(path, change, e);
    int err = ret->g ? 0 : e->num;
    if (!err)
        err = dev_prog_new(d, ret->g, NULL, NULL, &ret->p, e);
    return err < 0 ? err : dev_run_new(d, ret->p, &ret->run, e);
}

static void unload(struct program *p)
{
    dev_run_free(p->run);
    dev_prog_free(p->p);
    dt_graph_free(p->g);
}

/* One pass of b against the outputs of a, in words what differs; "" nothing. */
static int compare(struct program *a, struct program *b, char *what, size_t nwhat, struct dt_err *e)
{
    int err = 0;
    *what = 0;
    for (uint32_t i = 0; i < a->g->nbuffer && !err && !*what; i++) {
        const struct dt_buffer *x = &a->g->buffer[i];
        uint32_t k = dt_graph_find_buffer(b->g, x->name);
        if ((x->role != DT_OUTPUT && x->role != DT_INOUT) || !x->bytes)
            continue;
        if (k == DT_NAME_NONE)
            return dt_err_set(e, DT_E_GRAPH, "the plan has no buffer %s", x->name);
        uint8_t *p = malloc(x->bytes), *q = malloc(x->bytes);
        err = p && q ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
        if (!err)
            err = dev_run_download(a->run, i, p, e);
        if (!err)
            err = dev_run_download(b->run, k, q, e);
        for (uint64_t at = 0; at < x->bytes && !err && !*what; at++)
            if (p[at] != q[at])
                snprintf(what, nwhat, "buffer %s differs from byte %llu", x->name, (unsigned long long)at);
        free(p);
        free(q);
    }
    return err;
}

/* n rounds, each with other inputs: the plan, and the delayed plan by launches and as a graph in turns. */
static int bitwise(struct program *original, struct program *plan, struct program *slow, int n, char *what,
                   size_t nwhat, struct dt_err *e)
{
    int err = 0;
    for (int k = 0; k < n && !err && !*what; k++) {
        struct program *p = k % 4 ? slow : plan;
        struct dev_time t;
        err = dev_run_fill(original->run, (uint64_t)k, 0xff - k % 7, e);
        if (!err)
            err = dev_run_once(original->run, e);
        if (!err)
            err = dev_run_fill(p->run, (uint64_t)k, 0xa0 + k % 11, e);
        /* a graph's replays write an inout buffer again and again: those graphs go by launches */
        bool again = false;
        for (uint32_t i = 0; i < p->g->nbuffer; i++)
            again = again || p->g->buffer[i].role == DT_INOUT;
        if (!err)
            err = k % 2 && !again ? dev_run_time(p->run, 1, &t, NULL, e) : dev_run_once(p->run, e);
        if (!err)
            err = compare(original, p, what, nwhat, e);
    }
    return err;
}

static json_t *stats_json(const struct dev_stats *s)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:i}", "median", s->median, "lo", s->lo, "hi", s->hi, "min", s->min,
                     "max", s->max, "n", (int)s->n);
}

static json_t *arm_json(const struct dev_measured *m, const struct program *p)
{
    json_t *o =
        json_pack("{s:s, s:o, s:o, s:o, s:f}", "method", m->method, "time_us", stats_json(&m->time), "events_us",
                  stats_json(&m->events), "ratio", stats_json(&m->ratio), "tracing_overhead", m->overhead);
    json_t *steps = json_array();
    for (uint32_t i = 0; m->step_us && i < p->g->nlaunch; i++) {
        json_t *s = json_pack("{s:s, s:f, s:i, s:i}", "name", p->g->launch[i].name, "us", m->step_us[i], "blocks",
                              (int)p->p->step[i].blocks, "blocks_per_sm", (int)p->p->step[i].blocks_per_sm);
        if (m->registers)
            json_object_set_new(s, "registers", json_integer(m->registers[i]));
        json_array_append_new(steps, s);
    }
    if (m->idle_us >= 0)
        json_object_set_new(o, "idle_us", json_real(m->idle_us));
    json_object_set_new(o, "steps", steps);
    return o;
}

static int times(struct dev_device *d, struct program *original, struct program *plan, bool cold, json_t *out,
                 struct dt_err *e)
{
    struct dev_arm arm[3] = {{original->run, false}, {plan->run, false}, {original->run, true}};
    struct dev_measured m[3];
    struct dev_verdict v;
    struct dev_measure_options o = {.cold = cold, .reps = cold ? 20 : 50};
    int err = dev_measure(d, arm, 3, &o, m, &v, e);
    if (err < 0)
        return err;
    static const char *const name[] = {"baseline", "plan", "streams"};
    json_t *t = json_pack("{s:b, s:s, s:s, s:i}", "publish", v.publish, "why", v.why, "trace", v.trace, "sm_mhz",
                          (int)v.after.sm_mhz);
    for (int i = 0; i < 3; i++) {
        json_object_set_new(t, name[i], arm_json(&m[i], i == 1 ? plan : original));
        dev_measured_done(&m[i]);
    }
    json_object_set_new(out, cold ? "cold" : "warm", t);
    return 0;
}

int cmd_graph(const char *spec, int argc, char **argv)
{
    struct dt_err e = {0};
    struct dev_device *d = NULL;
    struct program original = {0}, plan = {0}, slow = {0};
    char what[256] = "";
    int n = (int)strtol(argv[2], NULL, 10), err = dev_open(spec, &d, &e);
    if (!err)
        err = load(d, argv[0], NULL, &original, &e);
    if (!err)
        err = load(d, argv[1], NULL, &plan, &e);
    if (!err && n)
        err = load(d, argv[1], delayed, &slow, &e);
    if (!err)
        err = bitwise(&original, &plan, &slow, n, what, sizeof what, &e);
    json_t *o =
        json_pack("{s:s, s:i, s:i}", "kind", d ? dev_kind(dev_info(d)) : "", "launches",
                  original.g ? (int)original.g->nlaunch : 0, "plan_launches", plan.g ? (int)plan.g->nlaunch : 0);
    if (!err && n) {
        json_object_set_new(o, "bitwise", json_boolean(!*what));
        json_object_set_new(o, "rounds", json_integer(n));
        json_object_set_new(o, "differs", json_string(what));
    }
    if (!err)
        err = dev_run_fill(original.run, 0, -1, &e);
    if (!err)
        err = dev_run_fill(plan.run, 0, -1, &e);
    if (!err)
        err = times(d, &original, &plan, false, o, &e);
    if (!err && !dev_info(d)->soft)
        err = times(d, &original, &plan, true, o, &e);
    if (err < 0) {
        json_decref(o);
        return failed(err, &e);
    }
    say(o);
    unload(&slow);
    unload(&plan);
    unload(&original);
    dev_close(d);
    return 0;
}

int cmd_maps(const char *spec, int argc, char **argv)
{
    struct dt_err e = {0};
    struct dev_device *d = NULL;
    struct program p = {0};
    struct ana_result *r = NULL;
    double best[2] = {0, 0}, plain = 0;
    json_t *doc = NULL;
    int err = dev_open(spec, &d, &e);
    if (!err)
        err = load(d, argv[0], NULL, &p, &e);
    for (int k = 0; k < 6 && !err; k++) { /* recorded by running, and as it is done by default: by summaries */
        struct ana_options o = {.no_summary = k < 3};
        double t = now_us();
        err = ana_run(d, p.p, &o, &r, &e);
        t = now_us() - t;
        if (!best[k / 3] || t < best[k / 3])
            best[k / 3] = t;
        if (!k && !err)
            doc = ana_to_json(r, dev_info(d), "", true);
        ana_free(r);
        r = NULL;
    }
    for (int k = 0; k < 3 && !err; k++) {
        err = dev_run_fill(p.run, 0, -1, &e);
        double t = now_us();
        if (!err)
            err = dev_run_once(p.run, &e);
        t = now_us() - t;
        if (!plain || t < plain)
            plain = t;
    }
    if (err < 0)
        return failed(err, &e);
    say(json_pack("{s:f, s:f, s:f, s:o}", "analysis_us", best[0], "summary_us", best[1], "plain_run_us", plain, "edges",
                  json_incref(json_object_get(doc, "edges"))));
    json_decref(doc);
    unload(&p);
    dev_close(d);
    return 0;
}
