/* A plan's two timelines as a trace for Perfetto or chrome://tracing ("JSON trace event format": complete events, flow
 * events, metadata; times in microseconds).
 *
 * Process 1 is the graph as posted, process 2 the plan; a thread is a stream. Processes 3 and 4 are the same SM by SM,
 * where the plan says which SM runs what (`timeline.sms`): a slice is what one launch has on one SM, with the number
 * of its blocks there. Slices that overlap go to further tracks of that stream or SM, so that no two slices of one
 * track overlap. Beyond SLICES of them, SMs that run the same share a track, "SM 0 to 63".
 *
 * Flows: from each launch to those that need what it makes, of which the analysis knows; without it, what the plan
 * says comes after what. Times are those of the plan's `timeline`; where its method is modelled, every slice has the
 * category `modeled` and the processes say so. Launches without a name are l0, l1, … in program order.
 */
#include "report/report-priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/vec.h"

#define SLICES 200000 /* of SMs */
#define BESIDE 8      /* tracks of one SM */

struct track {
    json_int_t stream;
    long long end_ns;
};
struct tracks dt_vec(struct track);

struct trace {
    struct dt_str o;
    unsigned long flows;
};

static void trace_text(struct trace *t, const char *s)
{
    json_t *v = json_string(s);
    char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    if (text)
        dt_str_add(&t->o, text);
    else
        t->o.failed = true;
    free(text);
    json_decref(v);
}

static void trace_event(struct trace *t) { dt_str_add(&t->o, t->o.s && t->o.s[t->o.len - 1] == '}' ? ",\n{" : "{"); }

static void meta(struct trace *t, int pid, unsigned tid, const char *what, const char *name)
{
    trace_event(t);
    dt_str_addf(&t->o, "\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":", what, pid, tid);
    trace_text(t, name);
    dt_str_add(&t->o, "}}");
}

static void order(struct trace *t, int pid, unsigned tid, const char *what, unsigned index)
{
    trace_event(t);
    dt_str_addf(&t->o, "\"ph\":\"M\",\"name\":\"%s_sort_index\",\"pid\":%d,\"tid\":%u,\"args\":{\"sort_index\":%u}}",
                what, pid, tid, index);
}

static void slice(struct trace *t, const struct rep_side *x, int pid, unsigned tid, size_t launch, long long start,
                  long long end)
{
    char number[32];
    trace_event(t);
    dt_str_add(&t->o, "\"ph\":\"X\",\"name\":");
    trace_text(t, rep_name(x, launch, number));
    dt_str_addf(&t->o, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%u,\"ts\":%lld.%03lld,\"dur\":%lld.%03lld,\"args\":",
                x->modeled ? "modeled" : "measured", pid, tid, start / 1000, start % 1000, (end - start) / 1000,
                (end - start) % 1000);
}

/* The track of a slice: the first of its stream that is free at `start`, or a new one. -1: memory. */
static int track_of(struct tracks *all, struct trace *t, int pid, json_int_t stream, long long start)
{
    char name[64];
    int beside = 0;
    for (size_t i = 0; i < all->n; i++) {
        if (all->p[i].stream != stream)
            continue;
        if (all->p[i].end_ns <= start)
            return (int)i;
        beside++;
    }
    struct track one = {.stream = stream};
    if (!dt_push(all, one))
        return -1;
    snprintf(name, sizeof name, "stream %lld%s", (long long)stream, beside ? ", overlapping" : "");
    meta(t, pid, (unsigned)all->n, "thread_name", name);
    return (int)all->n - 1;
}

static void launch_args(struct trace *t, const struct rep_source *s, const struct rep_side *x, size_t i)
{
    static const char *const copied[] = {"entry", "grid", "block", "cluster", "after", "programmatic"};
    const json_t *l = json_array_get(x->launches, i);
    json_t *args = json_pack("{s:s}", "method", *x->method ? x->method : "?");
    for (size_t c = s->foreign; l && c < sizeof copied / sizeof *copied; c++)
        if (json_object_get(l, copied[c]))
            json_object_set(args, copied[c], json_object_get(l, copied[c]));
    char *text = args ? json_dumps(args, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    dt_str_add(&t->o, text ? text : "{}");
    dt_str_add(&t->o, "}");
    t->o.failed |= !text;
    free(text);
    json_decref(args);
}

static long long ns(double us) { return (long long)(us * 1000 + 0.5); }

/* The launches. tid[i]: the track of launch i. */
static int trace_launches(struct trace *t, const struct rep_source *s, const struct rep_side *x, int pid, unsigned *tid,
                          struct dt_err *e)
{
    struct tracks all = {0};
    char title[128];
    size_t i;
    bool plan = pid == 2;
    if (!json_is_array(x->times) || (plan && json_array_size(x->launches) != x->n))
        return dt_err_set(e, DT_E_NOT_FOUND,
                          "this plan has no timeline: it was made by an older dovetail; plan the graph again");
    snprintf(title, sizeof title, "%s (%.60s)", x->which, *x->method ? x->method : "?");
    meta(t, pid, 0, "process_name", title);
    for (i = 0; i < x->n; i++) {
        double begin, end;
        if (!rep_span(x, i, &begin, &end))
            break;
        json_int_t stream = json_integer_value(json_object_get(json_array_get(x->launches, i), "stream"));
        int k = track_of(&all, t, pid, stream, ns(begin));
        if (k < 0)
            break;
        all.p[k].end_ns = ns(end);
        tid[i] = (unsigned)k + 1;
        slice(t, x, pid, tid[i], i, ns(begin), ns(end));
        launch_args(t, s, x, i);
    }
    free(all.p);
    return i < x->n ? dt_err_set(e, DT_E_CACHE, "the plan's timeline is broken") : 0;
}

/* ---- SMs --------------------------------------------------------------------------------------------------------- */
static int by_begin(const void *a, const void *b)
{
    const struct rep_row *x = a, *y = b;
    return x->begin != y->begin     ? (x->begin > y->begin ? 1 : -1)
           : x->launch != y->launch ? (x->launch > y->launch ? 1 : -1)
                                    : (x->first > y->first) - (x->first < y->first);
}

static void on_sm(struct trace *t, const struct rep_side *x, int pid, long long *until, const struct rep_row *r,
                  unsigned sm, unsigned last)
{
    unsigned k = 0;
    long long *mine = until + (size_t)sm * BESIDE;
    while (k + 1 < BESIDE && mine[k] > ns(r->begin))
        k++;
    unsigned tid = sm * BESIDE + k + 1;
    if (mine[k] < 0) {
        char name[64];
        if (last > sm)
            snprintf(name, sizeof name, "SM %u and others alike%s", sm, k ? ", beside" : "");
        else
            snprintf(name, sizeof name, "SM %u%s", sm, k ? ", beside" : "");
        meta(t, pid, tid, "thread_name", name);
        order(t, pid, tid, "thread", tid);
    }
    long long begin = ns(r->begin) > mine[k] ? ns(r->begin) : mine[k], end = ns(r->end);
    if (begin > end)
        return;
    mine[k] = end;
    slice(t, x, pid, tid, r->launch, begin, end);
    dt_str_addf(&t->o, "{\"blocks\":%.0f,\"blocks at once\":%.2f,\"slots\":%.0f,\"sms\":%u}}",
                r->blocks / (r->last - r->first + 1) * (last - sm + 1), r->mean, rep_at(x->slots, r->launch),
                last - sm + 1);
}

static void sms_of(struct trace *t, const struct rep_side *x, int pid, unsigned sms)
{
    size_t n = json_array_size(x->sms), k = 0, total = 0, i;
    char title[128];
    if (!x->sms || !sms)
        return;
    dt_free_ struct rep_row *row = dt_calloc(n + 1, sizeof *row);
    dt_free_ long long *until = dt_calloc((size_t)sms * BESIDE, sizeof *until);
    if (!row || !until) {
        t->o.failed = true;
        return;
    }
    memset(until, -1, (size_t)sms * BESIDE * sizeof *until);
    for (i = 0; i < n; i++)
        if (rep_row(x, json_array_get(x->sms, i), sms, &row[k]))
            total += row[k].last - row[k].first + 1, k++;
    qsort(row, k, sizeof *row, by_begin);
    snprintf(title, sizeof title, "%s, SM by SM (%.60s)", x->which, *x->method ? x->method : "?");
    meta(t, pid, 0, "process_name", title);
    for (i = 0; i < k && !t->o.failed; i++) {
        bool apart = total <= SLICES;
        for (unsigned sm = row[i].first; sm <= (apart ? row[i].last : row[i].first); sm++)
            on_sm(t, x, pid, until, &row[i], sm, apart ? sm : row[i].last);
    }
}

/* ---- flows ------------------------------------------------------------------------------------------------------- */
static void end_of_flow(struct trace *t, const struct rep_side *x, int pid, const unsigned *tid, size_t i, bool begins)
{
    double begin, end;
    if (!rep_span(x, i, &begin, &end))
        return;
    long long at = begins && ns(end) > ns(begin) ? ns(end) - 1 : ns(begin);
    trace_event(t);
    dt_str_addf(&t->o,
                "\"ph\":\"%s\",\"id\":%lu,\"name\":\"needs\",\"cat\":\"dependency\",\"pid\":%d,\"tid\":%u,"
                "\"ts\":%lld.%03lld}",
                begins ? "s" : "f\",\"bp\":\"e", t->flows, pid, tid[i], at / 1000, at % 1000);
}

static void flow(struct trace *t, const struct rep_side *x, int pid, const unsigned *tid, const json_t *from,
                 const json_t *to)
{
    size_t a = (size_t)json_integer_value(from), b = (size_t)json_integer_value(to);
    if (!from || !to || a >= x->n || b >= x->n || a == b)
        return;
    t->flows++;
    end_of_flow(t, x, pid, tid, a, true);
    end_of_flow(t, x, pid, tid, b, false);
}

/* Number of the launch by its name and, of the plan, by those of its parts ("a+b~2"). */
static json_t *trace_numbers(const struct rep_side *x)
{
    json_t *o = json_object();
    for (size_t i = 0; i < x->n; i++) {
        const char *name = dt_json_text(json_array_get(x->launches, i), "name");
        if (*name)
            json_object_set_new(o, name, json_integer((json_int_t)i));
    }
    for (size_t i = 0; i < x->n; i++)
        for (const char *p = dt_json_text(json_array_get(x->launches, i), "name"); *p;) {
            size_t n = strcspn(p, "+");
            dt_free_ char *whole = strndup(p, n), *plain = strndup(p, strcspn(p, "+~"));
            if (whole && plain && *whole && !json_object_get(o, whole))
                json_object_set_new(o, whole, json_integer((json_int_t)i));
            if (whole && plain && *plain && !json_object_get(o, plain))
                json_object_set_new(o, plain, json_integer((json_int_t)i));
            p += n + (p[n] == '+');
        }
    return o;
}

static void flows(struct trace *t, const struct rep_source *s, const struct rep_side *x, int pid, const unsigned *tid)
{
    json_t *number = trace_numbers(x), *seen = json_object();
    const json_t *edges = json_object_get(s->analysis, "edges"), *v, *w;
    size_t i, k;
    json_array_foreach (edges, i, v) {
        const json_t *a = json_object_get(number, dt_json_text(v, "producer")),
                     *b = json_object_get(number, dt_json_text(v, "consumer"));
        char key[64];
        if (!a || !b || !json_array_size(json_object_get(v, "hazards")))
            continue;
        snprintf(key, sizeof key, "%lld %lld", (long long)json_integer_value(a), (long long)json_integer_value(b));
        if (!json_object_get(seen, key))
            flow(t, x, pid, tid, a, b);
        json_object_set_new(seen, key, json_true());
    }
    for (i = 0; !edges && i < x->n; i++) {
        json_t *to = json_integer((json_int_t)i);
        json_array_foreach (json_object_get(json_array_get(x->launches, i), "after"), k, w)
            flow(t, x, pid, tid, json_string_value(w) ? json_object_get(number, json_string_value(w)) : NULL, to);
        json_decref(to);
    }
    json_decref(number);
    json_decref(seen);
}

static int both(struct trace *t, const struct rep_source *s, const struct rep_side *x, int pid, struct dt_err *e)
{
    dt_free_ unsigned *tid = dt_calloc(x->n + 1, sizeof *tid);
    if (!tid)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for the trace");
    order(t, pid, 0, "process", (unsigned)(2 * pid));
    order(t, pid + 2, 0, "process", (unsigned)(2 * pid + 1));
    int r = trace_launches(t, s, x, pid, tid, e);
    if (r < 0)
        return r;
    flows(t, s, x, pid, tid);
    sms_of(t, x, pid + 2, rep_sms(s));
    return 0;
}

char *rep_trace(const struct rep_source *s, struct dt_err *e)
{
    struct trace t = {0};
    struct rep_side a = {0}, b = {0};
    const json_t *dev = json_object_get(s->plan, "device");
    dt_str_add(&t.o, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"signature\":");
    trace_text(&t, dt_json_text(s->plan, "signature"));
    dt_str_add(&t.o, ",\"device\":");
    trace_text(&t, dt_json_text(dev, "name"));
    dt_str_add(&t.o, "},\"traceEvents\":[\n");
    int r = rep_side(s, "baseline", &a) < 0 || rep_side(s, "optimized", &b) < 0
                ? dt_err_set(e, DT_E_NOMEM, "out of memory for the trace")
                : both(&t, s, &a, 1, e);
    if (r >= 0)
        r = both(&t, s, &b, 2, e);
    rep_side_done(&a);
    rep_side_done(&b);
    dt_str_add(&t.o, "\n]}\n");
    if (r >= 0 && t.o.failed)
        r = dt_err_set(e, DT_E_NOMEM, "out of memory for the trace");
    char *text = dt_str_take(&t.o);
    if (r < 0) {
        free(text);
        return NULL;
    }
    return text;
}
