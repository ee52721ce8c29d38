/* dovetail capture -o FILE [--step N|auto] [--data none|indices|all] -- PROGRAM [ARG…]: run a CUDA program, and leave
 * what it launched as a graph (docs/CAPTURE.md).
 *
 * The program writes a trace (capture-run.c, capture/inject/), from which capture/ makes the graph. What launches touch
 * is asked of the analysis, of the service or of a worker (--local), for the operations as they were. With --data
 * all, what memory held where a step begins comes of a run of all that was before it, and the graph runs once in the
 * end: what the program copied to the host is compared with it, byte by byte (SHA-256).
 *
 * FILE and the traces are for their owner alone (0600). The traces are removed in the end.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/file.h"
#include "base/hash.h"
#include "capture/capture.h"
#include "client/cli.h"

/* ---- traces ---- */
static uint64_t trace_kernels(const struct cap_trace *t)
{
    uint64_t n = 0;
    for (size_t i = 0; i < t->op.n; i++)
        n += t->op.p[i].kind == CAP_KERNEL;
    return n;
}

/* The trace of the process that launched most. */
static int trace_best(const char *dir, struct cap_trace **ret, struct dt_err *e)
{
    DIR *d = opendir(dir);
    struct cap_trace *best = NULL;
    struct dt_err bad = {0};
    unsigned others = 0;
    int r = d ? 0 : dt_err_set(e, DT_E_IO, "%s: %s", dir, strerror(errno));
    for (struct dirent *x; d && !r && (x = readdir(d));) {
        dt_free_ char *path = NULL;
        struct cap_trace *t = NULL;
        if (x->d_name[0] == '.' || asprintf(&path, "%s/%s", dir, x->d_name) < 0)
            continue;
        r = cap_read(path, &t, &bad);
        if (r == DT_E_IO) { /* of a process that was killed before it had written anything, for one */
            r = 0;
            continue;
        }
        if (!r && best && trace_kernels(best) >= trace_kernels(t)) {
            others += trace_kernels(t) > 0;
            cap_trace_free(t);
        } else if (!r) {
            others += best && trace_kernels(best) > 0;
            cap_trace_free(best);
            best = t;
        }
    }
    if (d)
        closedir(d);
    if (!r && !best)
        r = bad.num ? bad.num
                    : dt_err_set(e, DT_E_NOT_FOUND, "the program made no call of the CUDA driver that could be seen");
    if (r < 0 && bad.num)
        dt_err_move(e, &bad);
    if (!r && others)
        fprintf(stderr, "dovetail: %u more processes launched kernels; the graph is of the one that launched most\n",
                others);
    dt_err_done(&bad);
    if (r < 0)
        best = cap_trace_free(best);
    *ret = best;
    return r;
}

static void traces_remove(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *x; d && (x = readdir(d));)
        if (x->d_name[0] != '.')
            unlinkat(dirfd(d), x->d_name, 0);
    if (d)
        closedir(d);
    rmdir(dir);
}

/* ---- what is asked of others ---- */
/* The answer for a graph; NULL: *o has the problem, or e. Takes doc over. */
static json_t *capture_ask(struct cli *c, const char *want, json_t *doc, struct outcome *o, struct dt_err *e)
{
    char *text = doc ? dt_json_dumps(doc, JSON_COMPACT) : NULL;
    json_t *answer = NULL;
    json_decref(doc);
    c->maps = !strcmp(want, "analysis");
    c->dump = c->maps ? NULL : "-"; /* only that the bytes come with the answer */
    if (!text)
        dt_err_set(e, DT_E_NOMEM, "out of memory");
    else
        backend_submit(c, want, text, strlen(text), o);
    free(text);
    if (text && !o->failed && dt_json_load(o->text, o->len, &answer, e) < 0)
        answer = NULL;
    if (answer)
        outcome_done(o);
    return answer;
}

/* What memory holds where the range begins; if that cannot be had, it is not known. */
static void capture_before(struct cli *c, struct cap_trace *t, uint32_t begin)
{
    struct outcome o = {0};
    struct dt_err e = {0};
    bool cut = false, any = false;
    for (uint32_t i = 0; i < begin; i++) {
        cut = cut || t->op.p[i].kind == CAP_CUT;
        any = any || t->op.p[i].kind < CAP_TAKE;
    }
    json_t *answer = cut || !any ? NULL : capture_ask(c, "run", cap_raw(t, 0, begin, true, &e), &o, &e);
    if (answer && cap_contents(t, json_object_get(answer, "outputs"), &e) < 0)
        fprintf(stderr, "dovetail: %s\n", e.detail ? e.detail : "out of memory");
    if (!answer && any)
        fprintf(stderr, "dovetail: what memory held before the step is not known: %s\n",
                cut ? "something before it cannot be taken" : "what came before it could not be run");
    json_decref(answer);
    outcome_done(&o);
    dt_err_done(&e);
}

/* Has the graph's run the bytes that the program got? Into captured.checked. */
static void capture_check(struct cli *c, json_t *doc, struct dt_err *e)
{
    struct outcome o = {0};
    size_t i, k;
    json_t *captured = json_object_get(doc, "captured"), *x, *b, *differ = json_array();
    json_t *answer = capture_ask(c, "run", json_incref(doc), &o, e), *outputs = json_object_get(answer, "outputs");
    int same = 0, of = 0;
    json_array_foreach (json_object_get(captured, "taken"), i, x) {
        const char *sha = dt_json_text(x, "sha256"), *name = dt_json_text(x, "buffer");
        uint64_t at = (uint64_t)jnum(x, "offset"), n = (uint64_t)jnum(x, "bytes");
        char text[DT_SHA256_TEXT] = "";
        if (!*sha)
            continue;
        json_array_foreach (outputs, k, b) {
            const json_t *data = json_object_get(b, "data");
            if (strcmp(dt_json_text(b, "buffer"), name) || !json_is_string(data))
                continue;
            dt_free_ uint8_t *p = dt_malloc(dt_base64_room(json_string_length(data)) + 1);
            long len = p ? dt_base64_decode(json_string_value(data), json_string_length(data), p) : -1;
            if (len >= 0 && at <= (uint64_t)len && n <= (uint64_t)len - at)
                dt_sha256_text(p + at, n, text);
        }
        of++;
        same += !strcmp(text, sha);
        if (strcmp(text, sha))
            json_array_append_new(differ, json_string(name));
    }
    if (answer)
        json_object_set_new(captured, "checked",
                            json_pack("{s:i, s:i, s:O, s:O*}", "of", of, "same", same, "differ", differ, "device",
                                      json_object_get(answer, "device")));
    else
        fprintf(stderr, "dovetail: the graph could not be run: %s\n", o.text ? o.text : e->detail ? e->detail : "");
    json_decref(differ);
    json_decref(answer);
    outcome_done(&o);
}

/* ---- the graph ---- */
static const char *const *capture_folders(struct dt_arena *a)
{
    const char *home = getenv("HOME"), *user = getenv("USER"), *triton = getenv("TRITON_CACHE_DIR"),
               *inductor = getenv("TORCHINDUCTOR_CACHE_DIR");
    const char **f = dt_new_array(a, const char *, 4);
    unsigned n = 0;
    if (!f)
        return NULL;
    if (triton || home)
        f[n++] = triton ? triton : dt_arena_printf(a, "%s/.triton/cache", home);
    f[n++] = inductor ? inductor : dt_arena_printf(a, "/tmp/torchinductor_%s", user ? user : "root");
    f[n] = NULL;
    return f;
}

static json_t *capture_graph(struct cli *c, struct cap_trace *t, long step, enum cap_data data, struct outcome *o,
                             struct dt_err *e)
{
    const char *slash = strrchr(c->arg[0], '/');
    struct cap_about about = {slash ? slash + 1 : c->arg[0], data};
    struct cap_range r;
    struct cap_pieces p = {0};
    if (cap_modules(t, capture_folders(&t->arena), e) < 0 || cap_step(t, step, &r, e) < 0)
        return NULL;
    if (r.begin && data == CAP_DATA_ALL)
        capture_before(c, t, r.begin);
    json_t *analysis = capture_ask(c, "analysis", cap_raw(t, r.begin, r.end, false, e), o, e);
    if (!analysis && o->failed && step == CAP_WHOLE && strstr(o->text ? o->text : "", "\"too-large\""))
        fprintf(stderr, "dovetail: the run is more than a graph can have; --step auto takes its repeated step\n");
    if (!analysis)
        return NULL;
    int err = cap_touches(t, r.begin, r.end, analysis, e);
    json_decref(analysis);
    if (!err && r.begin && data == CAP_DATA_INDICES)
        err = cap_known(t, &r, e);
    if (err < 0 || cap_pieces(t, &r, &p, e) < 0)
        return NULL;
    return cap_graph(t, &r, &p, &about, e);
}

static int capture_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *x = json_object_get(doc, "checked"), *b;
    size_t i;
    double launches = jnum(doc, "launches"), buffers = jnum(doc, "buffers"), modules = jnum(doc, "modules");
    printf("%.0f launch%s, %.0f buffer%s, %.0f module%s written to ", launches, dt_ending(launches, "es"), buffers,
           dt_ending(buffers, "s"), modules, dt_ending(modules, "s"));
    print_clean(stdout, c->output);
    fputc('\n', stdout);
    if (json_is_object(json_object_get(doc, "step")))
        printf("the step has %.0f operations, and %.0f passes\n", jnum(json_object_get(doc, "step"), "operations"),
               jnum(json_object_get(doc, "step"), "passes"));
    json_array_foreach (json_object_get(doc, "cut"), i, b) {
        printf("not taken, %.0f times: ", jnum(b, "times"));
        print_clean(stdout, dt_json_text(b, "why"));
        fputc('\n', stdout);
    }
    if (jnum(doc, "cut_off") > 0)
        printf("%.0f operations are left out: the graph is the longest part without these\n", jnum(doc, "cut_off"));
    if (json_array_size(json_object_get(doc, "unknown")))
        printf("%zu buffers have other content than the program's (captured.unknown)\n",
               json_array_size(json_object_get(doc, "unknown")));
    if (x) {
        printf("checked: %.0f of %.0f copies to the host have the program's bytes on ", jnum(x, "same"), jnum(x, "of"));
        print_clean(stdout, dt_json_text(json_object_get(x, "device"), "name"));
        fputc('\n', stdout);
    }
    return 0;
}

static json_t *capture_summary(struct cli *c, const json_t *doc, int status)
{
    json_t *s = json_copy(json_object_get(doc, "captured"));
    static const char *const count[] = {"launches", "buffers", "modules"};
    json_object_del(s, "taken");
    json_object_del(s, "streams");
    json_object_del(s, "after");
    json_object_set_new(s, "file", json_string(c->output));
    json_object_set_new(s, "exit", json_integer(status));
    for (unsigned i = 0; i < 3; i++) {
        const json_t *x = json_object_get(doc, count[i]);
        json_object_set_new(s, count[i], json_integer((json_int_t)(i ? json_object_size(x) : json_array_size(x))));
    }
    return s;
}

static int capture_write(struct cli *c, const json_t *doc, struct dt_err *e)
{
    dt_free_ char *text = dt_json_dumps(doc, JSON_INDENT(1));
    mode_t mask = umask(077);
    int r = text ? dt_write_file(c->output, text, strlen(text), e) : dt_err_set(e, DT_E_NOMEM, "out of memory");
    umask(mask);
    return r;
}

static int capture_options(struct cli *c, long *step, enum cap_data *data, struct dt_err *e)
{
    static const char *const what[] = {"none", "indices", "all"};
    *data = CAP_DATA_INDICES;
    if (!c->output)
        return dt_err_set(e, DT_E_USAGE, "dovetail capture needs -o FILE");
    unsigned k = 0;
    while (c->data && k < 3 && strcmp(c->data, what[k]) != 0)
        k++;
    if (k == 3)
        return dt_err_set(e, DT_E_USAGE, "--data takes none, indices or all");
    if (c->data)
        *data = (enum cap_data)k;
    /* known before the program has run, maybe for long */
    const char *slash = strrchr(c->output, '/');
    dt_free_ char *dir = slash ? strndup(c->output, (size_t)(slash - c->output) + 1) : strdup(".");
    if (dir && access(dir, W_OK) < 0)
        return dt_err_set(e, DT_E_IO, "%s: %s", dir, strerror(errno));
    *step = !c->step ? CAP_WHOLE : !strcmp(c->step, "auto") ? CAP_AUTO : strtol(c->step, NULL, 10);
    if (c->step && *step != CAP_AUTO && (c->step[strspn(c->step, "0123456789")] || strlen(c->step) > 9 || *step < 1))
        return dt_err_set(e, DT_E_USAGE, "--step takes auto, or a number from 1 on");
    return 0;
}

int cmd_capture(struct cli *c)
{
    struct dt_err e = {0};
    struct outcome o = {0};
    long step = CAP_WHOLE;
    enum cap_data data = CAP_DATA_INDICES;
    struct cap_trace *t = NULL;
    const char *tmp = getenv("TMPDIR");
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s/dovetail-capture-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    int r = capture_options(c, &step, &data, &e);
    if (!r && !c->local) { /* nor is the program run for nothing where nobody answers */
        backend_get(c, "/v1/status", NULL, NULL, &o);
        if (o.failed)
            return finish(c, &o, capture_human);
        outcome_done(&o);
    }
    if (!r && !mkdtemp(dir))
        r = dt_err_set(&e, DT_E_IO, "%s: %s", dir, strerror(errno));
    if (r < 0)
        return fail(c, &e);
    int status = capture_run(c, dir, &e);
    json_t *doc = NULL;
    if (status >= 0 && status != 127)
        r = trace_best(dir, &t, &e);
    else if (status == 127)
        r = dt_err_set(&e, DT_E_IO, "the program could not be started");
    traces_remove(dir);
    if (status >= 0 && !r)
        doc = capture_graph(c, t, step, data, &o, &e);
    if (doc && data == CAP_DATA_ALL)
        capture_check(c, doc, &e);
    t = cap_trace_free(t);
    if (doc)
        r = capture_write(c, doc, &e);
    if (!doc || r < 0) {
        json_decref(doc);
        if (!o.failed)
            return fail(c, &e);
        dt_err_done(&e);
        return finish(c, &o, capture_human);
    }
    if (status)
        fprintf(stderr, "dovetail: the program ended with status %d\n", status);
    const json_t *checked = json_object_get(json_object_get(doc, "captured"), "checked");
    /* of content that is not the program's come other bytes */
    bool wrong = checked && jnum(checked, "same") < jnum(checked, "of") &&
                 !json_array_size(json_object_get(json_object_get(doc, "captured"), "unknown"));
    outcome_set(&o, capture_summary(c, doc, status));
    json_decref(doc);
    dt_err_done(&e);
    r = finish(c, &o, capture_human);
    return r ? r : status || wrong;
}
