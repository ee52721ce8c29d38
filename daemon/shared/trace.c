/* A plan's two timelines as a trace for Perfetto or chrome://tracing ("JSON trace event format": complete events, times
 * in microseconds).
 *
 * Process 1 is the graph as posted, process 2 the plan; a thread is a stream. Slices of one stream that overlap
 * (programmatic launches) go to further tracks of that stream, so that no two slices of one track overlap. Times are
 * those of the plan's `timeline`; where its method is modelled, every slice has the category `modeled` and the
 * processes say so. A plan has no names of the graph's launches: the baseline's slices are l0, l1, … in program order.
 */
#include "daemon/shared/shared.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"

#define MAX_US 1e12

struct track {
    json_int_t stream;
    long long end_ns;
};
struct tracks dt_vec(struct track);

static bool trace_append(json_t *events, json_t *o) { return o && json_array_append_new(events, o) == 0; }

static bool meta(json_t *events, int pid, int tid, const char *what, const char *name)
{
    return trace_append(events, json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "ph", "M", "name", what, "pid", pid, "tid",
                                          tid, "args", "name", name));
}

/* The track of a slice: the first of its stream that is free at `start`, or a new one. -1: memory. */
static int track_of(struct tracks *t, json_t *events, int pid, json_int_t stream, long long start)
{
    char name[64];
    int beside = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (t->p[i].stream != stream)
            continue;
        if (t->p[i].end_ns <= start)
            return (int)i;
        beside++;
    }
    struct track one = {.stream = stream};
    if (!dt_push(t, one))
        return -1;
    if (beside)
        snprintf(name, sizeof name, "stream %lld, overlapping", (long long)stream);
    else
        snprintf(name, sizeof name, "stream %lld", (long long)stream);
    return meta(events, pid, (int)t->n, "thread_name", name) ? (int)t->n - 1 : -1;
}

static int side(json_t *events, int pid, const json_t *plan, const char *which, const json_t *launches,
                struct dt_err *e)
{
    const json_t *times = json_object_get(json_object_get(plan, "timeline"), which), *v,
                 *of = json_object_get(plan, which);
    const char *method = json_string_value(json_object_get(of, "method"));
    bool modeled = method && !strncmp(method, "modeled", 7), ok;
    struct tracks t = {0};
    char title[128];
    size_t i;
    if (!json_is_array(times) || (launches && json_array_size(launches) != json_array_size(times)))
        return dt_err_set(e, DT_E_NOT_FOUND,
                          "this plan has no timeline: it was made by an older dovetail; plan the graph again");
    snprintf(title, sizeof title, "%s (%.60s)", which, method ? method : "?");
    ok = meta(events, pid, 0, "process_name", title);
    json_array_foreach (times, i, v) {
        double a = json_number_value(json_array_get(v, 0)), b = json_number_value(json_array_get(v, 1));
        const json_t *l = json_array_get(launches, i);
        const char *name = json_string_value(json_object_get(l, "name"));
        char number[32];
        if (!ok || json_array_size(v) != 2 || !(a >= 0) || !(b >= a) || b > MAX_US)
            break;
        long long start = (long long)(a * 1000 + 0.5), end = (long long)(b * 1000 + 0.5);
        int k = track_of(&t, events, pid, json_integer_value(json_object_get(l, "stream")), start);
        if (k < 0)
            break;
        t.p[k].end_ns = end;
        snprintf(number, sizeof number, "l%zu", i);
        json_t *args = json_pack("{s:s}", "method", method ? method : "?");
        static const char *const copied[] = {"entry", "grid", "block", "cluster", "after", "programmatic"};
        for (size_t c = 0; l && c < sizeof copied / sizeof *copied; c++)
            if (json_object_get(l, copied[c]))
                json_object_set(args, copied[c], json_object_get(l, copied[c]));
        ok = trace_append(events,
                          json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "ph", "X", "name", name ? name : number,
                                    "cat", modeled ? "modeled" : "measured", "pid", pid, "tid", k + 1, "ts",
                                    (double)start / 1000, "dur", (double)(end - start) / 1000, "args", args));
    }
    free(t.p);
    if (i < json_array_size(times))
        return dt_err_set(e, DT_E_CACHE, "the plan's timeline is broken");
    return ok ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory for the trace");
}

char *dtd_trace_json(const json_t *plan, struct dt_err *e)
{
    json_t *events = json_array(), *doc = NULL;
    char *text = NULL;
    int r = side(events, 1, plan, "baseline", NULL, e);
    if (r >= 0)
        r = side(events, 2, plan, "optimized", json_object_get(plan, "launches"), e);
    if (r >= 0) {
        const json_t *sig = json_object_get(plan, "signature"), *dev = json_object_get(plan, "device");
        doc = json_pack("{s:s, s:{s:O?, s:O?}, s:O}", "displayTimeUnit", "ns", "otherData", "signature", sig, "device",
                        json_object_get(dev, "name"), "traceEvents", events);
        text = doc ? json_dumps(doc, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
        if (!text)
            dt_err_set(e, DT_E_NOMEM, "out of memory for the trace");
    }
    json_decref(doc);
    json_decref(events);
    return text;
}
