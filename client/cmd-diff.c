/* dovetail diff A B: what two plans differ in. Each is a file (plan.json of `optimize -o`, or what `optimize --json`
 * printed), or the signature of a plan in the cache.
 *
 * Launches are matched by name; of those in both, what is launched is compared member by member, the kernel by the text
 * of its module. Rewrites are matched by kind and launches; of several tries at one, the kept one counts. What a cache
 * gives has canonical names: beside a file of the same signature it gets those of the file's posted launches, which
 * stand in the same order; else it is said that names differ.
 *
 *   {"same": …, "a": {"signature", "device", "toolchain", "baseline", "optimized", "memory"}, "b": {…},
 *    "differs": ["signature", …],
 *    "launches": [{"name", "a": {"grid", "block", …, "time_us"} or null, "b": …, "changed": ["grid", …]}],
 *    "rewrites": [{"kind", "launches", "a": {"verdict", "level", "gain_us"} or null, "b": …}]}
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "client/cli.h"
#include "graph/graph.h"

#define PLAN_MOST (256u << 20)
#define NAME_MOST 44
#define ROWS_MOST 30

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The plan under a signature; the failed outcome is kept in *o for who shows it. */
static json_t *plan_cached(struct cli *c, const char *signature, struct outcome *o)
{
    char path[128];
    snprintf(path, sizeof path, "/v1/plans/%s", signature);
    backend_get(c, path, "find-plan", signature, o);
    json_t *doc = o->failed ? NULL : json_loadb(o->text, o->len, 0, NULL);
    if (doc)
        outcome_done(o);
    return doc;
}

static json_t *plan_read(const char *path, struct dt_err *e)
{
    dt_free_ char *text = NULL;
    size_t len;
    json_t *doc = NULL;
    struct dt_err why = {0};
    if (dt_read_file(path, PLAN_MOST, &text, &len, e) < 0) {
        e->num = e->num == DT_E_IO ? DT_E_USAGE : e->num;
        return NULL;
    }
    if (dt_json_load(text, len, &doc, &why) < 0) {
        dt_err_set(e, why.num, "%s: %s", path, why.detail ? why.detail : dt_err_text(why.num));
        dt_err_done(&why);
        return NULL;
    }
    if (json_is_object(json_object_get(doc, "optimized")) && json_is_object(json_object_get(doc, "baseline")) &&
        json_is_array(json_object_get(doc, "launches")))
        return doc;
    json_decref(doc);
    dt_err_set(e, DT_E_USAGE,
               "%s is no plan: it has no baseline, optimized and launches (optimize -o DIR leaves DIR/plan.json)",
               path);
    return NULL;
}

/* ---- names of a plan from the cache ------------------------------------------------------------------------------ */

/* "l0+l2~1" by the names that `names` has of l0 and l2. NULL: it has none of it, or memory is out. */
static char *diff_named(const json_t *names, const char *text)
{
    struct dt_str out = {0};
    bool any = false;
    for (const char *p = text; *p;) {
        char part[24];
        size_t n = strcspn(p, "+~");
        snprintf(part, sizeof part, "%.*s", n < sizeof part ? (int)n : 0, p);
        const char *name = p == text || p[-1] == '+' ? json_string_value(json_object_get(names, part)) : NULL;
        if (name)
            dt_str_add(&out, name);
        else
            dt_str_addn(&out, p, n);
        any |= name != NULL;
        p += n;
        if (*p)
            dt_str_addc(&out, *p++);
    }
    if (any && !out.failed)
        return dt_str_take(&out);
    dt_str_done(&out);
    return NULL;
}

static json_t *diff_renamed(const json_t *names, const json_t *text)
{
    dt_free_ char *s = diff_named(names, json_string_value(text));
    return s ? json_string(s) : NULL;
}

/* In launches: members `name` and `buffer`, and all of `after`; in rewrites: all of `launches`. */
static void rename_in(const json_t *names, json_t *v, bool list)
{
    const char *key;
    void *next;
    json_t *m, *to;
    size_t i;
    json_object_foreach_safe (v, next, key, m) {
        if ((!strcmp(key, "name") || !strcmp(key, "buffer")) && json_is_string(m) && (to = diff_renamed(names, m)))
            json_object_set_new(v, key, to);
        else if (!json_is_string(m))
            rename_in(names, m, !strcmp(key, "after") || !strcmp(key, "launches"));
    }
    json_array_foreach (v, i, m) {
        if (!json_is_string(m))
            rename_in(names, m, false);
        else if (list && (to = diff_renamed(names, m)))
            json_array_set_new(v, i, to);
    }
}

/* The plan from the cache gets the names of the posted launches that `file` carries. False: it has none that can be
 * read, or is a plan of another graph. */
static bool name_as(json_t *cached, json_t *file)
{
    struct dt_graph *g = NULL;
    struct dt_canon canon;
    struct dt_err ignored = {0};
    char key[24];
    json_t *posted = json_equal(json_object_get(cached, "signature"), json_object_get(file, "signature"))
                         ? dt_plan_posted(file)
                         : NULL,
           *names = json_object();
    bool ok = posted && dt_graph_from_json(posted, &g, &ignored) >= 0 && dt_graph_canon(g, &canon) >= 0;
    for (uint32_t i = 0; ok && i < g->nlaunch; i++) {
        snprintf(key, sizeof key, "l%u", canon.launch[i]);
        json_object_set_new(names, key, json_string(g->launch[i].name));
    }
    for (uint32_t i = 0; ok && i < g->nbuffer; i++) {
        snprintf(key, sizeof key, "b%u", canon.buffer[i]);
        if (canon.buffer[i] != DT_NAME_NONE)
            json_object_set_new(names, key, json_string(g->buffer[i].name));
    }
    if (ok) {
        rename_in(names, json_object_get(cached, "launches"), false);
        rename_in(names, json_object_get(cached, "rewrites"), false);
    }
    json_decref(names);
    json_decref(posted);
    dt_graph_free(g);
    dt_err_done(&ignored);
    return ok;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static json_t *diff_summary(json_t *plan)
{
    return json_pack("{s:O*, s:O*, s:O*, s:O*, s:O*, s:O*}", "signature", json_object_get(plan, "signature"), "device",
                     json_object_get(plan, "device"), "toolchain", json_object_get(plan, "toolchain"), "baseline",
                     json_object_get(plan, "baseline"), "optimized", json_object_get(plan, "optimized"), "memory",
                     json_object_get(json_object_get(plan, "assumes"), "memory"));
}

/* By name: the launch, with its time, and the text that it runs as `kernel`. */
static json_t *launches_by_name(json_t *plan)
{
    json_t *all = json_object(), *l, *modules = json_object_get(plan, "modules"),
           *times = json_object_get(json_object_get(plan, "timeline"), "optimized");
    size_t i;
    json_array_foreach (json_object_get(plan, "launches"), i, l) {
        json_t *one = json_copy(l), *at = json_array_get(times, i),
               *m = json_object_get(modules, dt_json_text(l, "module"));
        json_t *text = json_object_get(m, "ptx") ? json_object_get(m, "ptx") : json_object_get(m, "cuda");
        if (json_array_size(at) == 2)
            json_object_set_new(
                one, "time_us",
                json_real(json_number_value(json_array_get(at, 1)) - json_number_value(json_array_get(at, 0))));
        if (text)
            json_object_set(one, "kernel", text);
        json_object_del(one, "name");
        json_object_del(one, "module"); /* a name of the planner's */
        json_object_set_new(all, dt_json_text(l, "name"), one);
    }
    return all;
}

static json_t *diff_changed(json_t *a, json_t *b)
{
    static const char *const member[] = {"entry", "kernel", "grid",  "block",        "cluster", "shared",
                                         "args",  "stream", "after", "programmatic", "memset",  "copy"};
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof member / sizeof *member; i++) {
        json_t *x = json_object_get(a, member[i]), *y = json_object_get(b, member[i]);
        if (x != y && !(x && y && json_equal(x, y)))
            json_array_append_new(list, json_string(member[i]));
    }
    return list;
}

/* A launch of one side as the document has it: without the texts. */
static json_t *diff_shown(json_t *launch)
{
    if (!launch)
        return json_null();
    json_t *o = json_copy(launch);
    json_object_del(o, "kernel");
    json_object_del(o, "args");
    return o;
}

static void launch_row(json_t *list, const char *name, json_t *a, json_t *b)
{
    json_t *changed = a && b ? diff_changed(a, b) : json_array();
    if (!a || !b || json_array_size(changed))
        json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:O}", "name", name, "a", diff_shown(a), "b",
                                              diff_shown(b), "changed", changed));
    json_decref(changed);
}

static json_t *diff_launches(json_t *a, json_t *b)
{
    json_t *x = launches_by_name(a), *y = launches_by_name(b), *list = json_array(), *l;
    const char *name;
    json_object_foreach (x, name, l)
        launch_row(list, name, l, json_object_get(y, name));
    json_object_foreach (y, name, l)
        if (!json_object_get(x, name))
            launch_row(list, name, NULL, l);
    json_decref(x);
    json_decref(y);
    return list;
}

/* By kind and launches, the kept one before others. */
static json_t *rewrites_by_key(json_t *plan)
{
    json_t *all = json_object(), *r;
    size_t i;
    json_array_foreach (json_object_get(plan, "rewrites"), i, r) {
        dt_free_ char *names = json_dumps(json_object_get(r, "launches"), JSON_COMPACT), *key = NULL;
        if (asprintf(&key, "%s %s", dt_json_text(r, "kind"), names ? names : "") < 0)
            break;
        json_t *old = json_object_get(all, key);
        if (!old || (strcmp(dt_json_text(old, "verdict"), "kept") && !strcmp(dt_json_text(r, "verdict"), "kept")))
            json_object_set(all, key, r);
    }
    return all;
}

static json_t *diff_verdict(const json_t *r)
{
    if (!r)
        return json_null();
    json_t *o = json_pack("{s:s, s:O*, s:O*}", "verdict", dt_json_text(r, "verdict"), "level",
                          json_object_get(r, "level"), "reason", json_object_get(r, "reason"));
    if (!strcmp(dt_json_text(r, "verdict"), "kept") && json_object_get(r, "before_us"))
        json_object_set_new(o, "gain_us", json_real(jnum(r, "before_us") - jnum(r, "after_us")));
    return o;
}

static void rewrite_row(json_t *list, json_t *a, json_t *b)
{
    const json_t *any = a ? a : b;
    if (a && b && !strcmp(dt_json_text(a, "verdict"), dt_json_text(b, "verdict")) &&
        (strcmp(dt_json_text(a, "verdict"), "kept") || !strcmp(dt_json_text(a, "level"), dt_json_text(b, "level"))))
        return;
    json_array_append_new(list,
                          json_pack("{s:s, s:O*, s:o, s:o}", "kind", dt_json_text(any, "kind"), "launches",
                                    json_object_get(any, "launches"), "a", diff_verdict(a), "b", diff_verdict(b)));
}

static json_t *diff_rewrites(json_t *a, json_t *b)
{
    json_t *x = rewrites_by_key(a), *y = rewrites_by_key(b), *list = json_array(), *r;
    const char *key;
    json_object_foreach (x, key, r)
        rewrite_row(list, r, json_object_get(y, key));
    json_object_foreach (y, key, r)
        if (!json_object_get(x, key))
            rewrite_row(list, NULL, r);
    json_decref(x);
    json_decref(y);
    return list;
}

static json_t *diff_plans(json_t *a, json_t *b)
{
    static const char *const member[] = {"signature", "device", "toolchain", "baseline", "optimized", "memory"};
    json_t *x = diff_summary(a), *y = diff_summary(b), *differs = json_array(), *launches = diff_launches(a, b),
           *rewrites = diff_rewrites(a, b);
    for (size_t i = 0; i < sizeof member / sizeof *member; i++) {
        json_t *p = json_object_get(x, member[i]), *q = json_object_get(y, member[i]);
        if (p != q && !(p && q && json_equal(p, q)))
            json_array_append_new(differs, json_string(member[i]));
    }
    bool same = !json_array_size(differs) && !json_array_size(launches) && !json_array_size(rewrites);
    return json_pack("{s:b, s:o, s:o, s:o, s:o, s:o}", "same", same, "a", x, "b", y, "differs", differs, "launches",
                     launches, "rewrites", rewrites);
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

static void diff_side(char *out, size_t n, const json_t *l)
{
    const json_t *g = json_object_get(l, "grid"), *b = json_object_get(l, "block");
    char time[40] = "";
    if (json_object_get(l, "time_us"))
        snprintf(time, sizeof time, ", %.2f us", jnum(l, "time_us"));
    if (!json_is_object(l))
        snprintf(out, n, "-");
    else if (g)
        snprintf(out, n, "%.0fx%.0fx%.0f of %.0f%s", json_number_value(json_array_get(g, 0)),
                 json_number_value(json_array_get(g, 1)), json_number_value(json_array_get(g, 2)),
                 json_number_value(json_array_get(b, 0)) * json_number_value(json_array_get(b, 1)) *
                     json_number_value(json_array_get(b, 2)),
                 time);
    else
        snprintf(out, n, "%s%s", json_object_get(l, "memset") ? "memset" : "copy", time);
}

static void human_launches(struct cli *c, const json_t *list)
{
    struct table t = {0};
    const json_t *l;
    size_t i;
    if (json_array_size(list))
        table_row(&t, 4, "launch", "A: blocks, threads", "B", "changed");
    json_array_foreach (list, i, l) {
        dt_free_ char *name = cut(dt_json_text(l, "name"), NAME_MOST),
                      *changed = join(json_object_get(l, "changed"), ", ", "");
        char a[128], b[128];
        diff_side(a, sizeof a, json_object_get(l, "a"));
        diff_side(b, sizeof b, json_object_get(l, "b"));
        if (i < ROWS_MOST)
            table_row(&t, 4, name, a, b, changed);
    }
    if (t.nrow)
        fputc('\n', stdout);
    table_print(&t, c);
    if (i > ROWS_MOST)
        printf("and %zu more (--json)\n", i - ROWS_MOST);
}

static void diff_verdict_text(char *out, size_t n, const json_t *r)
{
    char gain[40] = "";
    if (json_object_get(r, "gain_us"))
        snprintf(gain, sizeof gain, ", %.2f us", jnum(r, "gain_us"));
    snprintf(out, n, "%s%s%.20s%s", json_is_object(r) ? dt_json_text(r, "verdict") : "-",
             *dt_json_text(r, "level") ? " " : "", dt_json_text(r, "level"), gain);
}

static bool diff_kept(const json_t *row, const char *of)
{
    return !strcmp(dt_json_text(json_object_get(row, of), "verdict"), "kept");
}

/* Those that one of the two kept; the others are counted. */
static void human_rewrites(struct cli *c, const json_t *list)
{
    struct table t = {0};
    const json_t *r;
    size_t i, rows = 0, others = 0;
    json_array_foreach (list, i, r) {
        dt_free_ char *all = join(json_object_get(r, "launches"), " + ", "-"),
                      *names = all ? cut(all, NAME_MOST) : NULL;
        char a[128], b[128];
        if (!diff_kept(r, "a") && !diff_kept(r, "b")) {
            others++;
            continue;
        }
        diff_verdict_text(a, sizeof a, json_object_get(r, "a"));
        diff_verdict_text(b, sizeof b, json_object_get(r, "b"));
        if (!rows++)
            table_row(&t, 4, "rewrite", "launches", "A", "B");
        if (rows <= ROWS_MOST)
            table_row(&t, 4, dt_json_text(r, "kind"), names, a, b);
    }
    if (rows)
        fputc('\n', stdout);
    table_print(&t, c);
    if (rows > ROWS_MOST)
        printf("and %zu more (--json)\n", rows - ROWS_MOST);
    if (others)
        printf("%zu rewrites that neither kept have other verdicts, or were tried for one alone (--json)\n", others);
}

static void human_pair(struct table *t, const char *what, const json_t *a, const json_t *b, const char *in,
                       const char *member, const char *form)
{
    char x[64] = "-", y[64] = "-";
    const json_t *p = json_object_get(a, in), *q = json_object_get(b, in);
    if (json_object_get(p, member))
        snprintf(x, sizeof x, strcmp(form, "us") ? "%.0f" : "%.2f us", jnum(p, member));
    if (json_object_get(q, member))
        snprintf(y, sizeof y, strcmp(form, "us") ? "%.0f" : "%.2f us", jnum(q, member));
    if (strcmp(x, "-") || strcmp(y, "-"))
        table_row(t, 4, what, x, y, strcmp(x, y) ? "" : "the same");
}

static void human_factors(const json_t *a, const json_t *b, const char *in, const char *shown)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)json_object_get(a, in), key, v) {
        json_t *w = json_object_get(json_object_get(b, in), key);
        dt_free_ char *x = json_dumps(v, JSON_ENCODE_ANY), *y = w ? json_dumps(w, JSON_ENCODE_ANY) : NULL;
        if (w && json_equal(v, w))
            continue;
        printf("%s.%s: ", shown, key);
        print_clean(stdout, x ? x : "");
        fputs(" and ", stdout);
        print_clean(stdout, y ? y : "nothing");
        fputc('\n', stdout);
    }
}

static int cmd_diff_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *a = json_object_get(doc, "a"), *b = json_object_get(doc, "b");
    struct table t = {0};
    if (json_is_true(json_object_get(doc, "same"))) {
        puts("the plans are the same");
        return 0;
    }
    if (strcmp(dt_json_text(a, "signature"), dt_json_text(b, "signature")))
        printf("signatures differ: these are plans of two graphs\nA %s\nB %s\n", dt_json_text(a, "signature"),
               dt_json_text(b, "signature"));
    human_factors(a, b, "device", "device");
    human_factors(a, b, "toolchain", "toolchain");
    table_row(&t, 4, "", ">A", ">B", "");
    human_pair(&t, "baseline", a, b, "baseline", "time_us", "us");
    human_pair(&t, "optimized", a, b, "optimized", "time_us", "us");
    human_pair(&t, "launches", a, b, "optimized", "launches", "");
    human_pair(&t, "more memory", a, b, "memory", "more", "");
    table_print(&t, c);
    printf("times are %s and %s\n", dt_json_text(json_object_get(a, "optimized"), "method"),
           dt_json_text(json_object_get(b, "optimized"), "method"));
    human_launches(c, json_object_get(doc, "launches"));
    human_rewrites(c, json_object_get(doc, "rewrites"));
    return 0;
}

int cmd_diff(struct cli *c)
{
    struct dt_err e = {0};
    struct outcome o = {0};
    json_t *plan[2] = {NULL, NULL};
    bool cached[2] = {dt_sha256_ok(c->arg[0]), dt_sha256_ok(c->arg[1])};
    for (int i = 0; i < 2 && !e.num && !o.failed; i++)
        plan[i] = cached[i] ? plan_cached(c, c->arg[i], &o) : plan_read(c->arg[i], &e);
    if (cached[0] != cached[1] && plan[0] && plan[1] && !name_as(plan[!cached[0]], plan[cached[0]]))
        fprintf(stderr,
                "dovetail: %s is from the cache and has canonical names: launches and rewrites have none in common\n",
                cached[0] ? "A" : "B");
    if (!e.num && !o.failed && (!plan[0] || !plan[1]))
        dt_err_set(&e, DT_E_INTERNAL, "the answer is not JSON");
    if (!e.num && !o.failed)
        outcome_set(&o, diff_plans(plan[0], plan[1]));
    json_decref(plan[0]);
    json_decref(plan[1]);
    if (!e.num)
        return finish(c, &o, cmd_diff_human);
    outcome_done(&o);
    return fail(c, &e);
}
