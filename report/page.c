/* The page of a plan: one HTML file without scripts, fonts or anything else from outside, so that it can be mailed and
 * opened anywhere.
 *
 * The headline says how many times as fast, by which method, with the range. Then: times, warnings, timelines, block
 * maps, rewrites, kernels side by side, launches, assumptions, method. Each section is a file. The text of kernels
 * gets what is left of BYTES, so that a model of 400 launches stays below 300 KB; names are bounded where they repeat.
 */
#include "report/report-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define BYTES 280000
#define KERNELS 12000 /* that the text of kernels has at least */
#define LAUNCHES 36000
#define WARNINGS 40

static void range_of(struct dt_str *o, const json_t *r, const char *unit)
{
    if (json_array_size(r) == 2)
        dt_str_addf(o, "%.2f to %.2f%s", rep_at(r, 0), rep_at(r, 1), unit);
}

static void headline(struct dt_str *o, const struct rep_source *s)
{
    const json_t *a = json_object_get(s->plan, "baseline"), *b = json_object_get(s->plan, "optimized"),
                 *gain = json_object_get(s->plan, "gain_range"), *dev = json_object_get(s->plan, "device");
    double x = rep_num(a, "time_us"), y = rep_num(b, "time_us");
    bool modeled = !strncmp(dt_json_text(b, "method"), "modeled", 7);
    dt_str_addf(o, "<main><h1>%.2f → %.2f µs", x, y);
    if (y > 0)
        dt_str_addf(o, ": %.2f times as fast", x / y);
    dt_str_add(o, " <small>(");
    dt_str_add(o, modeled ? "modeled" : "measured");
    if (json_array_size(gain) == 2) {
        dt_str_add(o, ", ");
        range_of(o, gain, "");
    }
    double n = rep_num(b, "launches");
    dt_str_addf(o, "; %.0f → %.0f launch%s)</small></h1>\n<p class=m>", rep_num(a, "launches"), n, dt_ending(n, "es"));
    if (*dt_json_text(s->plan, "name")) {
        html_text(o, dt_json_text(s->plan, "name"));
        dt_str_add(o, " on ");
    }
    html_text(o, dt_json_text(dev, "name"));
    dt_str_add(o, ", ");
    html_text(o, dt_json_text(dev, "arch"));
    dt_str_add(o, "<br>signature ");
    html_text(o, dt_json_text(s->plan, "signature"));
    dt_str_add(o, "</p>\n");
}

static void time_row(struct dt_str *o, const char *what, const json_t *t, double longest, bool plan)
{
    double us = rep_num(t, "time_us");
    dt_str_addf(o, "<tr><th>%s</th><td class=n>%.2f µs</td>", what, us);
    html_cell(o, dt_json_text(t, "method"));
    dt_str_add(o, "<td class=n>");
    range_of(o, json_object_get(t, "range_us"), " µs");
    if (rep_num(t, "ci95_us") > 0)
        dt_str_addf(o, "± %.2f µs", rep_num(t, "ci95_us"));
    double part = longest > 0 ? 100 * us / longest : 0;
    dt_str_addf(o, "</td><td class=\"bar%s\"><div style=\"width:%.1f%%\"></div></td></tr>\n", plan ? " a" : "",
                part < 0     ? 0
                : part > 100 ? 100
                             : part);
}

static void verified(struct dt_str *o, const json_t *v)
{
    const json_t *part = json_object_get(v, "sampled"), *by = json_object_get(v, "by_region");
    if (!v)
        return;
    if (json_is_true(json_object_get(v, "unchanged")))
        dt_str_add(o, "<p>The plan is the posted launches");
    else
        dt_str_addf(o,
                    !strcmp(dt_json_text(v, "device"), "cuda")
                        ? "<p>Verified %s on %.0f inputs and in %.0f runs with delayed blocks, on the CUDA device"
                        : "<p>Verified %s on %.0f inputs under %.0f block orders, on the software device",
                    json_is_true(json_object_get(v, "bitwise")) ? "bit by bit"
                                                                : "as far as the original's bits are its own",
                    rep_num(v, "inputs"), rep_num(v, "schedules"));
    if (json_is_true(json_object_get(v, "races")))
        dt_str_add(o, "; the posted launches race, so what they leave is a matter of luck");
    if (by)
        dt_str_addf(o, "; %.0f of the inputs, those with special values, in each of %.0f regions with new code alone",
                    rep_num(by, "inputs"), rep_num(by, "regions"));
    if (part)
        dt_str_addf(o, "; a sample: %.0f of %.0f blocks ran, and what they leave in the outputs was compared",
                    rep_num(part, "blocks"), rep_num(part, "of"));
    dt_str_add(o, ".</p>\n");
}

static void times(struct dt_str *o, const json_t *plan)
{
    const json_t *a = json_object_get(plan, "baseline"), *b = json_object_get(plan, "optimized");
    double x = rep_num(a, "time_us"), y = rep_num(b, "time_us"), longest = x > y ? x : y;
    dt_str_add(o, "<h2>Time of one pass</h2>\n<div class=w tabindex=0 role=group aria-label=\"time of one "
                  "pass\"><table>\n");
    time_row(o, "as posted", a, longest, false);
    time_row(o, "plan", b, longest, true);
    dt_str_add(o, "</table></div>\n");
    if (json_object_get(a, "bound_us"))
        dt_str_addf(o,
                    "<p>Traffic of inputs and outputs, or arithmetic, takes at least %.2f µs (modeled): what is above "
                    "that is launches, latency, idle places and what is moved more than once.</p>\n",
                    rep_num(a, "bound_us"));
    const json_t *memory = json_object_get(json_object_get(plan, "assumes"), "memory");
    if (memory)
        dt_str_addf(o, "<p>It needs %.0f bytes of memory beside the %.0f that were posted.</p>\n",
                    rep_num(memory, "more"), rep_num(memory, "posted"));
    verified(o, json_object_get(plan, "verified"));
}

static void warnings(struct dt_str *o, const json_t *plan)
{
    const json_t *list = json_object_get(plan, "warnings"), *v;
    size_t i, n = json_array_size(list);
    if (!n)
        return;
    dt_str_add(o, "<h2>Warnings</h2>\n<div class=w tabindex=0 role=group aria-label=warnings><table><tr><th>code<th>"
                  "launch<th>buffer<th>message<th>line</tr>\n");
    json_array_foreach (list, i, v) {
        if (i == WARNINGS)
            break;
        dt_str_add(o, "<tr>");
        html_cell(o, dt_json_text(v, "code"));
        html_cell(o, dt_json_text(v, "launch"));
        html_cell(o, dt_json_text(v, "buffer"));
        html_cell(o, dt_json_text(v, "message"));
        html_cell(o, *dt_json_text(v, "line") ? dt_json_text(v, "line") : dt_json_text(v, "instruction"));
        dt_str_add(o, "</tr>\n");
    }
    dt_str_add(o, "</table></div>\n");
    if (n > WARNINGS)
        dt_str_addf(o, "<p>And %zu more.</p>\n", n - WARNINGS);
}

static void assumptions(struct dt_str *o, const json_t *plan)
{
    char *s = json_dumps(json_object_get(plan, "assumes"), JSON_INDENT(1));
    if (!s)
        return;
    size_t n = strlen(s), most = 20000;
    dt_str_add(o,
               "<h2>Assumptions</h2>\n<p>Whoever runs the plan checks them; a binding that breaks one runs the posted "
               "launches.</p>\n<details><summary>all</summary><pre tabindex=0>");
    html_block(o, s, n < most ? n : most);
    dt_str_add(o, n < most ? "</pre></details>\n" : "\n…</pre></details>\n");
    free(s);
}

static void method(struct dt_str *o, const struct rep_source *s)
{
    const char *how = dt_json_text(json_object_get(s->plan, "optimized"), "method"), *name;
    bool modeled = !strncmp(how, "modeled", 7);
    const json_t *v;
    dt_str_add(o, "<h2>Method</h2>\n<p>Times are ");
    html_text(o, how);
    dt_str_add(o, modeled
                      ? ": a discrete-event model of this GPU made them from what the kernels executed. No GPU ran. "
                        "It ranks alternatives and shows waves, tails and overlap, and promises nothing about a real "
                        "device; the ranges are what it gives whichever of its known doubts is true."
                      : ": medians of passes on the device, with the half-width of their 95 % interval.");
    dt_str_add(o, "</p>\n<p class=m>");
    json_object_foreach ((json_t *)json_object_get(s->plan, "toolchain"), name, v) {
        html_text(o, name);
        dt_str_add(o, " ");
        html_text(o, json_string_value(v));
        dt_str_add(o, " · ");
    }
    dt_str_addf(o, "report by dovetail %s</p>\n", DOVETAIL_VERSION);
}

char *rep_html(const struct rep_source *s)
{
    struct dt_str o = {0};
    struct rep_side a = {0}, b = {0};
    const char *name = dt_json_text(s->plan, "name");
    struct dt_str title = {0};
    dt_str_addf(&title, "dovetail plan%s%s", *name ? ": " : "", name);
    html_head(&o, title.s);
    o.failed |= title.failed || rep_side(s, "baseline", &a) < 0 || rep_side(s, "optimized", &b) < 0;
    dt_str_done(&title);
    if (!o.failed) {
        headline(&o, s);
        times(&o, s->plan);
        warnings(&o, s->plan);
        rep_lanes(&o, s, &a, &b);
        rep_maps(&o, s);
        rep_gains(&o, s);
        /* what comes behind the kernels is made first, so that they get what is left */
        struct dt_str rest = {0};
        dt_str_add(&rest, "<h2>Launches</h2>\n");
        rep_launches(&rest, s, &a, LAUNCHES);
        rep_launches(&rest, s, &b, LAUNCHES);
        assumptions(&rest, s->plan);
        method(&rest, s);
        size_t used = o.len + rest.len;
        rep_kernels(&o, s, &a, &b, used + KERNELS < BYTES ? BYTES - used : KERNELS);
        dt_str_addn(&o, rest.s ? rest.s : "", rest.len);
        o.failed |= rest.failed;
        dt_str_done(&rest);
    }
    dt_str_add(&o, "</main></body></html>\n");
    rep_side_done(&a);
    rep_side_done(&b);
    return dt_str_take(&o);
}
