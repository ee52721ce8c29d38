/* The report of a plan: one HTML file without scripts, fonts or anything else from outside, so that it can be mailed
 * and opened anywhere.
 *
 * Sections: times (with their method: a modelled time never stands without that word), warnings, rewrites with verdict
 * and reason, the launches of the plan, what it assumes, the generated PTX (folded). Every string of the document is
 * escaped, because names and PTX come from the poster. A policy in the head also forbids the browser to load or run
 * anything.
 */
#include "daemon/shared/html.h"
#include "daemon/shared/shared.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

void html_text(struct dt_str *o, const char *s)
{
    for (; s && *s; s++) {
        switch (*s) {
        case '<': dt_str_add(o, "&lt;"); break;
        case '>': dt_str_add(o, "&gt;"); break;
        case '&': dt_str_add(o, "&amp;"); break;
        case '"': dt_str_add(o, "&quot;"); break;
        default: dt_str_addc(o, (unsigned char)*s < 32 && *s != '\n' && *s != '\t' ? '?' : *s);
        }
    }
}

void html_begin(struct dt_str *o, const char *title)
{
    dt_str_addf(
        o,
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8><title>%s</title>\n"
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        "<style>body{font:15px/1.5 sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222;background:#fff}"
        "table{border-collapse:collapse}td,th{padding:.2em .8em .2em 0;text-align:left;vertical-align:top}"
        "tr{border-bottom:1px solid #ddd}.n{text-align:right;white-space:nowrap}.no{color:#777}.bar{width:20em}"
        ".bar "
        "div{background:#3a7;height:1em}pre{overflow:auto;background:#f6f6f6;padding:1em;font-size:13px}</style></"
        "head>\n"
        "<body><h1>%s</h1>\n<p>",
        title, title);
}

static double num(const json_t *o, const char *name) { return json_number_value(json_object_get(o, name)); }

void html_cell(struct dt_str *o, const char *s)
{
    dt_str_add(o, "<td>");
    html_text(o, s);
    dt_str_add(o, "</td>");
}

/* A list, an object or a number in a cell: strings joined, the rest as JSON. */
static void cell_json(struct dt_str *o, const json_t *v)
{
    dt_str_add(o, "<td>");
    if (json_is_array(v)) {
        size_t i;
        const json_t *e;
        json_array_foreach (v, i, e) {
            if (i)
                dt_str_add(o, json_is_string(e) ? " + " : " × ");
            if (json_is_string(e))
                html_text(o, json_string_value(e));
            else
                dt_str_addf(o, "%.0f", json_number_value(e));
        }
    } else if (json_is_number(v)) {
        dt_str_addf(o, "%.6g", json_number_value(v));
    } else if (v) {
        char *s = json_dumps(v, JSON_ENCODE_ANY);
        html_text(o, s);
        free(s);
    }
    dt_str_add(o, "</td>");
}

static void time_row(struct dt_str *o, const char *what, const json_t *t, double longest)
{
    double us = num(t, "time_us");
    dt_str_addf(o, "<tr><th>%s</th><td class=n>%.2f µs</td>", what, us);
    html_cell(o, dt_json_text(t, "method"));
    const json_t *r = json_object_get(t, "range_us");
    if (json_array_size(r) == 2)
        dt_str_addf(o, "<td class=n>%.2f to %.2f µs</td>", json_number_value(json_array_get(r, 0)),
                    json_number_value(json_array_get(r, 1)));
    else
        dt_str_add(o, "<td></td>");
    dt_str_addf(o, "<td class=n>%.0f launches</td><td class=bar><div style=\"width:%.1f%%\"></div></td></tr>\n",
                num(t, "launches"), longest > 0 ? 100 * us / longest : 0);
}

static void times(struct dt_str *o, const json_t *plan)
{
    const json_t *a = json_object_get(plan, "baseline"), *b = json_object_get(plan, "optimized");
    double x = num(a, "time_us"), y = num(b, "time_us"), longest = x > y ? x : y;
    dt_str_add(o, "<h2>Time of one pass</h2><table>\n");
    time_row(o, "as posted", a, longest);
    time_row(o, "plan", b, longest);
    dt_str_add(o, "</table>\n");
    const json_t *gain = json_object_get(plan, "gain_range");
    if (json_array_size(gain) == 2)
        dt_str_addf(o, "<p>%.2f times as fast (modeled), %.2f to %.2f whichever of the model's doubts is true.</p>\n",
                    y > 0 ? x / y : 0, json_number_value(json_array_get(gain, 0)),
                    json_number_value(json_array_get(gain, 1)));
    if (json_object_get(a, "bound_us"))
        dt_str_addf(o,
                    "<p>Traffic of inputs and outputs, or arithmetic, takes at least %.2f µs (modeled): what is above "
                    "that is launches, latency, idle places and what is moved more than once.</p>\n",
                    num(a, "bound_us"));
    const json_t *memory = json_object_get(json_object_get(plan, "assumes"), "memory");
    if (memory)
        dt_str_addf(o, "<p>It needs %.0f bytes of memory beside the %.0f that were posted.</p>\n", num(memory, "more"),
                    num(memory, "posted"));
    const json_t *v = json_object_get(plan, "verified");
    if (v && json_is_true(json_object_get(v, "unchanged")))
        dt_str_add(o, "<p>The plan is the posted launches");
    else if (v)
        dt_str_addf(o,
                    !strcmp(dt_json_text(v, "device"), "cuda")
                        ? "<p>Verified %s on %.0f inputs and in %.0f runs with delayed blocks, on the CUDA device"
                        : "<p>Verified %s on %.0f inputs under %.0f block orders, on the software device",
                    json_is_true(json_object_get(v, "bitwise")) ? "bit by bit"
                                                                : "as far as the original's bits are its own",
                    num(v, "inputs"), num(v, "schedules"));
    if (json_is_true(json_object_get(v, "races")))
        dt_str_add(o, "; the posted launches race, so what they leave is a matter of luck");
    const json_t *part = v ? json_object_get(v, "sampled") : NULL, *by = v ? json_object_get(v, "by_region") : NULL;
    if (by)
        dt_str_addf(o, "; %.0f of the inputs, those with special values, in each of %.0f regions with new code alone",
                    num(by, "inputs"), num(by, "regions"));
    if (part)
        dt_str_addf(o, "; a sample: %.0f of %.0f blocks ran, and what they leave in the outputs was compared",
                    num(part, "blocks"), num(part, "of"));
    if (v)
        dt_str_add(o, ".</p>\n");
}

static void rewrites(struct dt_str *o, const json_t *plan)
{
    bool modeled = !strncmp(dt_json_text(json_object_get(plan, "baseline"), "method"), "modeled", 7);
    size_t i;
    const json_t *r;
    dt_str_add(o,
               "<h2>Rewrites tried</h2><table><tr><th>kind<th>level<th>launches<th>verdict<th>time<th>reason</tr>\n");
    json_array_foreach (json_object_get(plan, "rewrites"), i, r) {
        dt_str_addf(o, "<tr class=%s>", !strcmp(dt_json_text(r, "verdict"), "kept") ? "kept" : "no");
        html_cell(o, dt_json_text(r, "kind"));
        html_cell(o, dt_json_text(r, "level"));
        cell_json(o, json_object_get(r, "launches"));
        html_cell(o, dt_json_text(r, "verdict"));
        if (json_is_number(json_object_get(r, "before_us")))
            dt_str_addf(o, "<td class=n>%s %.2f → %.2f µs</td>", modeled ? "modeled" : "measured", num(r, "before_us"),
                        num(r, "after_us"));
        else
            dt_str_add(o, "<td></td>");
        html_cell(o, dt_json_text(r, "reason"));
        dt_str_add(o, "</tr>\n");
    }
    dt_str_add(o, "</table>\n");
}

static void warnings(struct dt_str *o, const json_t *plan)
{
    const json_t *list = json_object_get(plan, "warnings"), *v;
    size_t i;
    if (!json_array_size(list))
        return;
    dt_str_add(o, "<h2>Warnings</h2><table><tr><th>code<th>launch<th>buffer<th>message<th>line</tr>\n");
    json_array_foreach (list, i, v) {
        dt_str_add(o, "<tr>");
        html_cell(o, dt_json_text(v, "code"));
        html_cell(o, dt_json_text(v, "launch"));
        html_cell(o, dt_json_text(v, "buffer"));
        html_cell(o, dt_json_text(v, "message"));
        html_cell(o, *dt_json_text(v, "line") ? dt_json_text(v, "line") : dt_json_text(v, "instruction"));
        dt_str_add(o, "</tr>\n");
    }
    dt_str_add(o, "</table>\n");
}

static void report_launches(struct dt_str *o, const json_t *plan)
{
    size_t i;
    const json_t *l;
    dt_str_add(o, "<h2>Launches of the "
                  "plan</h2><table><tr><th>name<th>entry<th>grid<th>block<th>shared<th>stream<th>after</tr>\n");
    json_array_foreach (json_object_get(plan, "launches"), i, l) {
        dt_str_add(o, "<tr>");
        html_cell(o, dt_json_text(l, "name"));
        html_cell(o, dt_json_text(l, "entry"));
        static const char *const rest[] = {"grid", "block", "shared", "stream", "after"};
        for (size_t k = 0; k < sizeof rest / sizeof *rest; k++)
            cell_json(o, json_object_get(l, rest[k]));
        dt_str_add(o, "</tr>\n");
    }
    dt_str_add(o, "</table>\n");
}

static void rest(struct dt_str *o, const json_t *plan)
{
    const char *name;
    const json_t *m;
    char *s = json_dumps(json_object_get(plan, "assumes"), JSON_INDENT(1));
    if (s) {
        dt_str_add(o, "<h2>Assumptions</h2><p>Whoever runs the plan checks them; a binding that breaks one runs the "
                      "posted launches.</p><pre>");
        html_text(o, s);
        dt_str_add(o, "</pre>\n");
        free(s);
    }
    dt_str_add(o, "<h2>Modules</h2>\n");
    json_object_foreach ((json_t *)json_object_get(plan, "modules"), name, m) {
        dt_str_add(o, "<details><summary>");
        html_text(o, name);
        dt_str_add(o, "</summary><pre>");
        html_text(o, *dt_json_text(m, "ptx") ? dt_json_text(m, "ptx") : dt_json_text(m, "cuda"));
        dt_str_add(o, "</pre></details>\n");
    }
}

char *dtd_report_html(const json_t *plan)
{
    struct dt_str o = {0};
    const json_t *dev = json_object_get(plan, "device"), *tools = json_object_get(plan, "toolchain"), *v;
    const char *name;
    html_begin(&o, "dovetail plan");
    html_text(&o, dt_json_text(dev, "name"));
    dt_str_add(&o, ", ");
    html_text(&o, dt_json_text(dev, "arch"));
    dt_str_add(&o, "<br>signature <code>");
    html_text(&o, dt_json_text(plan, "signature"));
    dt_str_add(&o, "</code><br>");
    json_object_foreach ((json_t *)tools, name, v) {
        html_text(&o, name);
        dt_str_add(&o, " ");
        html_text(&o, json_string_value(v));
        dt_str_add(&o, " · ");
    }
    dt_str_addf(&o, "report by dovetail %s</p>\n", DOVETAIL_VERSION);
    times(&o, plan);
    warnings(&o, plan);
    rewrites(&o, plan);
    report_launches(&o, plan);
    rest(&o, plan);
    dt_str_add(&o, "</body></html>\n");
    return dt_str_take(&o);
}
