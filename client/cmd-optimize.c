/* dovetail optimize GRAPH [-o DIR] [--all]: what was tried (rewrites.c), times of the graph and of the plan.
 *
 * -o DIR leaves the plan document as DIR/plan.json and every module as DIR/NAME.ptx, with what could leave DIR as %XX
 * (path_in).
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "client/cli.h"

static bool modeled(const json_t *o) { return strncmp(dt_json_text(o, "method"), "modeled", 7) == 0; }

/* ", 36.1 to 52.9" of a pair of numbers that a document may have; else "". */
static const char *optimize_range(const json_t *o, const char *key, char *out, size_t n)
{
    const json_t *r = json_object_get(o, key);
    *out = 0;
    if (json_array_size(r) == 2)
        snprintf(out, n, ", %.2f to %.2f", json_number_value(json_array_get(r, 0)),
                 json_number_value(json_array_get(r, 1)));
    return out;
}

static void total(const char *what, const json_t *o, const char *more)
{
    char between[64];
    double n = jnum(o, "launches");
    printf("%-10s %9.2f us (%s%s), %.0f launch%s%s\n", what, jnum(o, "time_us"), dt_json_text(o, "method"),
           optimize_range(o, "range_us", between, sizeof between), n, dt_ending(n, "es"), more);
}

static int cmd_optimize_human(struct cli *c, const json_t *doc, const struct outcome *o)
{
    const json_t *base = json_object_get(doc, "baseline"), *opt = json_object_get(doc, "optimized");
    const json_t *dev = json_object_get(doc, "device"), *ver = json_object_get(doc, "verified"),
                 *stopped = json_object_get(doc, "stopped");
    printf("plan for %s (%s); cache %s\nsignature %s\n\n", dt_json_text(dev, "name"), dt_json_text(dev, "arch"),
           o->cache, dt_json_text(doc, "signature"));
    rewrites_print(c, json_object_get(doc, "rewrites"), modeled(base));
    char gain[160] = "", between[64];
    if (jnum(opt, "time_us") > 0 && modeled(opt))
        snprintf(gain, sizeof gain, ", %.2f times as fast (modeled%s)", jnum(base, "time_us") / jnum(opt, "time_us"),
                 optimize_range(doc, "gain_range", between, sizeof between));
    else if (jnum(opt, "time_us") > 0)
        snprintf(gain, sizeof gain, ", %.2f times as fast", jnum(base, "time_us") / jnum(opt, "time_us"));
    total("baseline", base, "");
    total("optimized", opt, gain);
    if (json_object_get(base, "bound_us"))
        printf("bound      %9.2f us (%s) for traffic of inputs and outputs, or arithmetic\n", jnum(base, "bound_us"),
               dt_json_text(base, "method"));
    const json_t *memory = json_object_get(json_object_get(doc, "assumes"), "memory");
    if (jnum(memory, "more") > 0)
        printf("memory     %.0f bytes beside the %.0f that were posted\n", jnum(memory, "more"),
               jnum(memory, "posted"));
    const char *races =
        json_is_true(json_object_get(ver, "races")) ? "; the posted launches race, so what they leave is luck" : "";
    if (ver && json_is_true(json_object_get(ver, "unchanged"))) {
        printf("verified   nothing to verify: the plan is the posted launches%s\n", races);
    } else if (ver) {
        const json_t *part = json_object_get(ver, "sampled"), *by = json_object_get(ver, "by_region");
        bool cuda = !strcmp(dt_json_text(ver, "device"), "cuda");
        double inputs = jnum(ver, "inputs"), orders = jnum(ver, "schedules");
        printf("verified   %s on %.0f input%s %s %.0f %s%s%s (%s)",
               json_is_true(json_object_get(ver, "bitwise")) ? "bitwise" : "not bitwise", inputs,
               dt_ending(inputs, "s"), cuda ? "and in" : "under", orders, cuda ? "run" : "block order",
               dt_ending(orders, "s"), cuda ? " with delayed blocks" : "", dt_json_text(ver, "device"));
        if (by)
            printf(", %.0f of the inputs in each of %.0f regions alone", jnum(by, "inputs"), jnum(by, "regions"));
        if (part)
            printf(", a sample: %.0f of %.0f blocks ran", jnum(part, "blocks"), jnum(part, "of"));
        puts(races);
    }
    if (json_object_get(doc, "measured"))
        printf("measured   %.0f comparisons, %.0f known from the performance library\n",
               jnum(json_object_get(doc, "measured"), "comparisons"),
               jnum(json_object_get(doc, "measured"), "library"));
    if (stopped)
        printf("stopped    by the %s of %.0f s: %.0f candidates not tried; about %.0f s would do\n",
               dt_json_text(stopped, "by"), jnum(stopped, "budget_s"), jnum(stopped, "not_tried"),
               jnum(stopped, "would_do_s"));
    if (c->output)
        printf("written to %s\n", c->output);
    return 0;
}

static int cmd_optimize_leave(struct cli *c, json_t *doc, struct dt_err *e)
{
    const char *dir = c->output;
    const char *name;
    json_t *m;
    int r = dt_mkdirs(dir, e);
    dt_free_ char *text = json_dumps(doc, JSON_INDENT(1)), *path = path_in(dir, "plan", ".json");
    if (r >= 0 && (!text || !path))
        r = dt_err_set(e, DT_E_NOMEM, "out of memory");
    if (r >= 0)
        r = dt_write_file(path, text, strlen(text), e);
    json_object_foreach (json_object_get(doc, "modules"), name, m) {
        const json_t *ptx = json_object_get(m, "ptx"), *src = ptx ? ptx : json_object_get(m, "cuda");
        dt_free_ char *p = path_in(dir, name, ptx ? ".ptx" : ".cu");
        if (r >= 0 && json_is_string(src))
            r = p ? dt_write_file(p, json_string_value(src), json_string_length(src), e)
                  : dt_err_set(e, DT_E_NOMEM, "out of memory");
    }
    return r < 0 ? r : 0;
}

int cmd_optimize(struct cli *c)
{
    return post_graph(c, "plan", c->output ? cmd_optimize_leave : NULL, cmd_optimize_human);
}
