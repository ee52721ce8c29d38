/* dovetail-worker: one process per device, started by the service or by the command line with --local.
 *
 * It reads request frames from fd 0 and answers on fd 1 (base/wire.h). At start both are moved to other numbers: fd 0
 * becomes /dev/null and fd 1 the log (stderr), so that what a kernel, a compiler or a driver prints cannot get between
 * the frames.
 *
 * Protection: it dies with its parent; no core files; on the software device its memory is limited, so that a graph
 * cannot exhaust the machine. A job that hangs is killed from outside. After an error that may leave the device's
 * context unusable (dtd_error_ends_worker) it answers and ends; whoever needs the device starts a new one. So it does
 * after a ping that found the device, by a synchronisation, with any error at all: a fault that came late, a device
 * that is gone.
 *
 * Exit status: 0 end of requests or such an error, 2 wrong usage, 4 the pipe is broken.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "analysis/analysis.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire.h"
#include "daemon/shared/cacheops.h"
#include "daemon/shared/report.h"
#include "daemon/shared/trace.h"
#include "daemon/worker/worker.h"
#include "rewrite/rewrite.h"

#define PROGRESS_EVERY_US 50000

static const struct verb {
    const char *name;
    wrk_verb *fn;
    bool graph; /* takes one */
} verbs[] = {
    {"analyze", wrk_analyze, true},
    {"optimize", wrk_optimize, true},
    {"run", wrk_run, true},
    {"explain", wrk_explain, true},
    {"devices", wrk_devices, false},
    {"ping", wrk_ping, false},
    {"cache", wrk_cache, false},
    {"find-analysis", wrk_find_analysis, false},
    {"find-plan", wrk_find_plan, false},
    {"report", wrk_report, false},
    {"trace", wrk_trace, false},
    {"reprofile", wrk_reprofile, false},
    {"calibrate", wrk_calibrate, false},
};

/* ---- device and cache ------------------------------------------------------------------------------------------- */
static void limit_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    if (pages > 0 && size > 0) {
        rlim_t max = (rlim_t)pages * (rlim_t)size / 4 * 3;
        struct rlimit l = {max, max};
        setrlimit(RLIMIT_DATA, &l);
    }
#endif
}

int wrk_open(struct wrk *w, struct dt_err *e)
{
    if (w->dev)
        return 0;
    dt_free_ char *figures = wrk_stored_figures(w);
    w->calibrated = figures;
    int r = dev_open_figures(w->spec, figures, &w->dev, e);
    if (r < 0 && figures) { /* figures that the device does not take: an entry of another version */
        dt_err_done(e);
        w->calibrated = false;
        dt_log(DT_LOG_WARN, "the figures of the stored calibration are not used");
        r = dev_open(w->spec, &w->dev, e);
    }
    if (r < 0)
        return r;
    const struct dev_info *i = dev_info(w->dev);
    const char *nvrtc = dev_nvrtc_version(), *link = dev_nvjitlink_version();
    w->calibrated = w->calibrated && i->soft;
    if (i->soft) {
        limit_memory();
        snprintf(w->key, sizeof w->key, "soft:%s", i->model);
    } else {
        snprintf(w->key, sizeof w->key, "%s; %u SMs; driver %d", i->name, i->sms, i->driver_version);
    }
    snprintf(w->toolchain, sizeof w->toolchain, "dovetail %s; rewriter %s; nvrtc %s; nvjitlink %s", DOVETAIL_VERSION,
             RW_VERSION, nvrtc ? nvrtc : "none", link ? link : "none");
    return 0;
}

void wrk_open_cache(struct wrk *w)
{
    struct dt_err why = {0};
    if (!w->cache && cache_open(w->cache_path, &w->cache, &why) < 0)
        dt_log(DT_LOG_WARN, "working without a cache: %s", why.detail ? why.detail : dt_err_text(why.num));
    dt_err_done(&why);
}

static void add_device(const char *spec, const struct dev_info *i, void *user)
{
    json_t *o = dev_info_to_json(i);
    if (o)
        json_object_set_new(o, "spec", json_string(spec));
    json_array_append_new(user, o);
}

int wrk_devices(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    int r = wrk_open(w, e);
    if (r < 0)
        return r;
    json_t *list = json_array();
    struct dt_err ignored = {0}; /* the worker's own device is open: a list that cannot be had is an empty one */
    if (dev_list(add_device, list, &ignored) < 0)
        dt_log(DT_LOG_WARN, "devices: %s", ignored.detail ? ignored.detail : "");
    dt_err_done(&ignored);
    const char *given = getenv("DOVETAIL_SOFTGPU_FIGURES");
    const char *figures = w->calibrated             ? "calibrated"
                          : !dev_info(w->dev)->soft ? NULL
                          : given && *given         ? "given"
                                                    : "stock";
    a->document = json_pack("{s:s, s:o, s:s, s:s, s:s, s:s?, s:o}", "spec", w->spec, "device",
                            dev_info_to_json(dev_info(w->dev)), "arch", dev_info(w->dev)->arch, "key", w->key,
                            "toolchain", w->toolchain, "figures", figures, "devices", list);
    return a->document ? 0 : dt_err_set(e, DT_E_NOMEM, "out of memory");
}

int wrk_ping(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    int r = wrk_open(w, e);
    if (r >= 0)
        r = dev_sync(w->dev, e);
    a->document = r < 0 ? NULL : json_pack("{s:b, s:s}", "ok", 1, "device", w->key);
    return r;
}

int wrk_cache(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    const char *op = json_string_value(json_object_get(in, "op"));
    int r = w->cache ? 0 : cache_open(w->cache_path, &w->cache, e);
    return r < 0 ? r : dtd_cache_op(w->cache, op ? op : "stats", in, &a->document, e);
}

static int find(struct wrk *w, json_t *in, const char *want, struct wrk_answer *a, struct dt_err *e)
{
    const char *sig = json_string_value(json_object_get(in, "signature"));
    if (!sig || strlen(sig) != DT_SHA256_TEXT - 1)
        return dt_err_set(e, DT_E_USAGE, "the request has no signature");
    int r = w->cache ? 0 : cache_open(w->cache_path, &w->cache, e);
    if (r >= 0)
        r = cache_find(w->cache, want, sig, NULL, &a->document, e);
    if (r < 0)
        return r;
    if (!r)
        return dt_err_set(e, DT_E_NOT_FOUND, "there is no %s with this signature", want);
    a->hit = true;
    snprintf(a->signature, sizeof a->signature, "%s", sig);
    return 0;
}

int wrk_find_analysis(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    return find(w, in, "analysis", a, e);
}

int wrk_find_plan(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    return find(w, in, "plan", a, e);
}

int wrk_report(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    int r = find(w, in, "plan", a, e);
    if (r < 0)
        return r;
    char *html = dtd_report_html(a->document);
    json_t *doc = html ? json_pack("{s:s}", "html", html) : NULL;
    free(html);
    if (!doc)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for the report");
    json_decref(a->document);
    a->document = doc;
    return 0;
}

int wrk_trace(struct wrk *w, json_t *in, const struct dtd_options *o, struct wrk_answer *a, struct dt_err *e)
{
    int r = find(w, in, "plan", a, e);
    if (r < 0)
        return r;
    dt_free_ char *trace = dtd_trace_json(a->document, e);
    if (!trace)
        return e->num;
    json_t *doc = json_pack("{s:s}", "trace", trace);
    if (!doc)
        return dt_err_set(e, DT_E_NOMEM, "out of memory for the trace");
    json_decref(a->document);
    a->document = doc;
    return 0;
}

/* ---- frames ----------------------------------------------------------------------------------------------------- */
void wrk_progress(const char *stage, const char *message, unsigned done, unsigned of, void *user)
{
    struct wrk *w = user;
    uint64_t now = dt_now_us();
    if (!strncmp(stage, w->last_stage, sizeof w->last_stage - 1) && done != of &&
        now - w->last_progress_us < PROGRESS_EVERY_US)
        return;
    w->last_progress_us = now;
    snprintf(w->last_stage, sizeof w->last_stage, "%s", stage);
    json_t *o = json_pack("{s:s, s:s, s:i, s:i}", "stage", stage, "message", message ? message : "", "done", (int)done,
                          "of", (int)of);
    dt_free_ char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (text && dt_wire_write(w->out, 'P', w->number, text, strlen(text)) < 0)
        exit(4); /* nobody listens any more */
}

static int send_error(struct wrk *w, struct dt_err *e)
{
    dt_free_ char *text = dt_problem_json(e);
    const char *s = text ? text : "{\"type\":\"about:blank\",\"status\":503,\"code\":\"out-of-memory\"}";
    return dt_wire_write(w->out, 'E', w->number, s, strlen(s));
}

/* The small members first, the document last: the service cuts the document out without parsing it. */
static int send_answer(struct wrk *w, const struct wrk_answer *a, struct dt_err *e)
{
    struct dt_str s = {0};
    dt_free_ char *doc = json_dumps(a->document, JSON_COMPACT);
    dt_str_addf(&s, "{\"cache\":\"%s\",\"signature\":\"%s\",\"digest\":\"%s\",\"document\":", a->hit ? "hit" : "miss",
                a->signature, a->digest);
    dt_str_add(&s, doc ? doc : "");
    dt_str_addc(&s, '}');
    int r = !doc || s.failed ? dt_err_set(e, DT_E_NOMEM, "out of memory for the document") : 0;
    if (!r && s.len > DT_WIRE_MAX - DT_WIRE_HEAD)
        r = dt_err_set(e, DT_E_TOO_LARGE, "the document has %zu bytes; the limit is %u", s.len, DT_WIRE_MAX);
    if (!r && dt_wire_write(w->out, 'R', w->number, s.s, s.len) < 0)
        r = DT_E_IO;
    dt_str_done(&s);
    return r;
}

/* One request. 0 go on, 1 answered but the worker must end, DT_E_IO: the pipe is broken. */
static int request(struct wrk *w, const char *body, size_t len)
{
    struct dt_err e = {0};
    struct wrk_answer a = {0};
    struct dtd_options o = {0};
    json_t *q = NULL;
    int r = dt_json_load(body, len, &q, &e);
    const char *name = json_string_value(json_object_get(q, "verb"));
    const struct verb *v = NULL;
    for (size_t i = 0; name && i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(verbs[i].name, name))
            v = &verbs[i];
    if (r < 0)
        ; /* not JSON */
    else if (!v)
        r = dt_err_set(&e, DT_E_USAGE, "there is no such verb");
    else if (v->graph && !json_object_get(q, "graph"))
        r = dt_err_set(&e, DT_E_USAGE, "the request has no graph");
    if (r >= 0)
        r = dtd_options_from_json(&o, json_object_get(q, "options"), &e);
    if (r >= 0 && v->graph)
        wrk_progress("start", name, 0, 0, w); /* the service counts a job as running from here */
    if (r >= 0)
        r = v->fn(w, v->graph ? json_object_get(q, "graph") : q, &o, &a, &e);
    json_decref(q);
    if (r >= 0)
        r = send_answer(w, &a, &e);
    json_decref(a.document);
    dtd_options_done(&o);
    w->last_stage[0] = 0;
    int ret = 0;
    if (r < 0) {
        if (!e.num)
            dt_err_set(&e, r, "%s", dt_err_text(r));
        /* a device that does not come through a synchronisation will not later either */
        bool useless = dtd_error_ends_worker(e.num) || (v && v->fn == wrk_ping);
        ret = r == DT_E_IO && !a.document ? DT_E_IO : send_error(w, &e) < 0 ? DT_E_IO : useless;
    }
    dt_err_done(&e);
    return ret;
}

/* What the gate refuses is left beside the cache, if nobody says otherwise. */
static void bundles_beside(const char *cache)
{
    const char *end = cache ? strrchr(cache, '/') : NULL;
    struct dt_str dir = {0};
    if (end)
        dt_str_addf(&dir, "%.*s/bundles", (int)(end - cache), cache);
    if (end && !dir.failed)
        rw_bundles_in(dir.s);
    dt_str_done(&dir);
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"device", 1, NULL, 'd'}, {"cache", 1, NULL, 'c'}, {0}};
    struct wrk w = {.spec = "auto"};
    dt_log_init("dovetail-worker", DT_LOG_INFO);
    for (int o; (o = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        if (o == 'd')
            w.spec = optarg;
        else if (o == 'c')
            w.cache_path = optarg;
        else
            return 2;
    }
    if (optind < argc) {
        fprintf(stderr, "dovetail-worker: unexpected argument %s\n", argv[optind]);
        return 2;
    }
    bundles_beside(w.cache_path);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    int in = fcntl(0, F_DUPFD_CLOEXEC, 3), null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    w.out = fcntl(1, F_DUPFD_CLOEXEC, 3);
    if (in < 0 || w.out < 0 || null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0) {
        fprintf(stderr, "dovetail-worker: fds 0, 1 and 2 must be open: %s\n", strerror(errno));
        return 4;
    }
    close(null);
    int r = 0;
    while (!r) {
        char type, *body;
        size_t len;
        struct dt_err e = {0};
        r = dt_wire_read(in, &type, &w.number, &body, &len, &e);
        dt_err_done(&e);
        if (r)
            break;
        r = type == 'Q' ? request(&w, body, len) : DT_E_IO;
        free(body);
    }
    wrk_memo_done(&w);
    cache_close(w.cache);
    /* the driver's own clean-up would wait for the kernel; the end of the process takes it off the device */
    if (dev_hung(w.dev))
        _exit(4);
    dev_close(w.dev);
    return r < 0 ? 4 : 0;
}
