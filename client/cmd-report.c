/* dovetail report GRAPH|PLAN|SIGNATURE -o FILE.html: a plan as one HTML file.
 * dovetail trace GRAPH|PLAN|SIGNATURE -o FILE.json: timelines of graph and plan, for Perfetto or chrome://tracing.
 * FILE - is stdout.
 *
 * A graph is planned and analysed, or found in the cache, and shown in its own names. A plan (plan.json of optimize
 * -o) is shown as it is; it holds the posted launches, which are analysed for the block maps. Where that cannot be,
 * the page says why, and is made without. A signature is looked up: names are canonical then (b0, l0, m0 …), and so
 * are those in the kernels' text.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "client/cli.h"
#include "report/report.h"

struct page {
    const char *verb, *member, *ending;
    char *(*make)(const struct rep_source *s, struct dt_err *e);
};

static int stored(struct cli *c, const struct page *p)
{
    struct outcome o;
    char path[160];
    snprintf(path, sizeof path, "/v1/plans/%s/%s", c->arg[0], p->verb);
    backend_get(c, path, p->verb, c->arg[0], &o);
    return save_answer(c, p->member, false, &o);
}

static bool is_plan(const json_t *doc) { return json_object_get(doc, "rewrites") && json_object_get(doc, "optimized"); }

/* The posted graph out of a plan; NULL: it is not in there. */
static json_t *posted_graph(const json_t *plan)
{
    static const char *const own[] = {"stream", "after", "programmatic"};
    const json_t *original = json_object_get(plan, "original"), *buffers = json_object_get(plan, "buffers"), *m;
    json_t *launches =
               json_deep_copy(original ? json_object_get(original, "launches") : json_object_get(plan, "launches")),
           *modules = json_object(), *l;
    const char *name;
    size_t i;
    json_array_foreach (launches, i, l) {
        for (size_t k = 0; k < sizeof own / sizeof *own; k++)
            json_object_del(l, own[k]);
        name = dt_json_text(l, "module");
        m = json_object_get(json_object_get(original, "modules"), name);
        m = m ? m : json_object_get(json_object_get(plan, "modules"), name);
        if (*name && *dt_json_text(m, "ptx"))
            json_object_set_new(modules, name, json_pack("{s:O}", "ptx", json_object_get(m, "ptx")));
        else if (*name && m)
            json_object_set(modules, name, (json_t *)m);
    }
    if (!buffers || !launches) {
        json_decref(launches);
        json_decref(modules);
        return NULL;
    }
    return json_pack("{s:i, s:o, s:O, s:o}", "dovetail", 1, "modules", modules, "buffers", buffers, "launches",
                     launches);
}

/* The analysis; NULL: *ret_why says why not, free(). */
static json_t *analyse(struct cli *c, const char *graph, size_t len, char **ret_why)
{
    struct outcome o;
    json_t *doc = NULL;
    backend_submit(c, "analysis", graph, len, &o);
    json_t *answer = json_loadb(o.text ? o.text : "", o.len, 0, NULL);
    if (!o.failed && answer)
        doc = json_incref(answer);
    else
        *ret_why = dt_strdup(*dt_json_text(answer, "detail") ? dt_json_text(answer, "detail") : "no answer");
    json_decref(answer);
    outcome_done(&o);
    return doc;
}

static json_t *analyse_plan(struct cli *c, const json_t *plan, char **ret_why)
{
    json_t *graph = posted_graph(plan), *doc = NULL;
    char *text = graph ? json_dumps(graph, JSON_COMPACT) : NULL;
    if (text)
        doc = analyse(c, text, strlen(text), ret_why);
    else
        *ret_why = dt_strdup("the plan does not hold the posted graph");
    free(text);
    json_decref(graph);
    return doc;
}

static int report_written(struct cli *c, const json_t *doc, const struct outcome *o)
{
    fputs("written to ", stdout);
    print_clean(stdout, c->output);
    fputc('\n', stdout);
    return 0;
}

static int save(struct cli *c, const struct page *p, const struct rep_source *s)
{
    struct dt_err e = {0};
    struct outcome o = {0};
    char *text = p->make(s, &e);
    bool to_stdout = !strcmp(c->output, "-");
    if (!text && !e.num)
        dt_err_set(&e, DT_E_NOMEM, "out of memory");
    if (text && to_stdout)
        fwrite(text, 1, strlen(text), stdout);
    else if (text)
        dt_write_file(c->output, text, strlen(text), &e);
    free(text);
    if (e.num)
        return fail(c, &e);
    if (to_stdout)
        return 0;
    outcome_set(&o, json_pack("{s:s}", "file", c->output));
    return finish(c, &o, report_written);
}

/* What only a planning could heed. */
static int planning_asked(const struct cli *c, const struct page *p, struct dt_err *e)
{
    if (!c->allow && !c->deny && !c->budget && !c->memory && !c->whole)
        return 0;
    return dt_err_set(e, DT_E_USAGE, "dovetail %s plans a graph: with a plan or a signature there is nothing to plan",
                      p->verb);
}

static int drawn(struct cli *c, const struct page *p)
{
    struct dt_err e = {0};
    struct outcome o = {0};
    dt_free_ char *text = NULL, *why = NULL;
    size_t len;
    if (graph_read(c->arg[0], &text, &len, &e) < 0)
        return fail(c, &e);
    json_t *doc = json_loadb(text, len, 0, NULL), *plan = NULL, *analysis = NULL;
    if (is_plan(doc)) {
        if (planning_asked(c, p, &e) < 0) {
            json_decref(doc);
            return fail(c, &e);
        }
        plan = json_incref(doc);
        analysis = analyse_plan(c, plan, &why);
    } else {
        backend_submit(c, "plan", text, len, &o);
        plan = o.failed ? NULL : json_loadb(o.text, o.len, 0, NULL);
        if (plan)
            analysis = analyse(c, text, len, &why);
    }
    json_decref(doc);
    if (!plan)
        return finish(c, &o, report_written);
    outcome_done(&o);
    progress_done(c);
    if (!analysis) {
        fputs("dovetail: no block maps: ", stderr);
        print_clean(stderr, why ? why : "out of memory");
        fputc('\n', stderr);
    }
    struct rep_source s = {plan, analysis, why, json_is_true(json_object_get(plan, "text_of_other"))};
    int r = save(c, p, &s);
    json_decref(plan);
    json_decref(analysis);
    return r;
}

static int picture(struct cli *c, const struct page *p)
{
    struct dt_err e = {0};
    if (!c->output)
        dt_err_set(&e, DT_E_USAGE, "usage: dovetail %s GRAPH|PLAN|SIGNATURE -o FILE.%s", p->verb, p->ending);
    else if (c->json && !strcmp(c->output, "-"))
        dt_err_set(&e, DT_E_USAGE, "--json and -o - are both for stdout");
    else if (!strncmp(c->arg[0], "sha256:", 7) && !dt_sha256_ok(c->arg[0]))
        dt_err_set(&e, DT_E_USAGE, "a signature is sha256: and 64 hexadecimal digits");
    else if (dt_sha256_ok(c->arg[0]))
        planning_asked(c, p, &e);
    if (e.num)
        return fail(c, &e);
    return dt_sha256_ok(c->arg[0]) ? stored(c, p) : drawn(c, p);
}

static char *page_html(const struct rep_source *s, struct dt_err *e) { return rep_html(s); }

int cmd_report(struct cli *c) { return picture(c, &(struct page){"report", "html", "html", page_html}); }
int cmd_trace(struct cli *c) { return picture(c, &(struct page){"trace", "trace", "json", rep_trace}); }
