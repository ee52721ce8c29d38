/* The report of a night as one HTML file without scripts, fonts or anything else from outside, as report/ makes it of a
 * plan. Rows that changed come first, those that save most before all; every string is escaped.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "daemon/shared/shared.h"
#include "report/html.h"

static double night_num(const json_t *o, const char *name) { return json_number_value(json_object_get(o, name)); }

static double saved(const json_t *row) { return night_num(row, "before_us") - night_num(row, "after_us"); }

static int by_saving(const void *a, const void *b)
{
    double x = fabs(saved(*(const json_t *const *)a)), y = fabs(saved(*(const json_t *const *)b));
    return (x < y) - (x > y);
}

static void row(struct dt_str *o, const json_t *r)
{
    double before = night_num(r, "before_us"), after = night_num(r, "after_us");
    const char *outcome = dt_json_text(r, "outcome");
    dt_str_addf(o, "<tr class=%s>", !strcmp(outcome, "unchanged") ? "no" : "yes");
    html_cell(o, outcome);
    if (before > 0 && after > 0)
        dt_str_addf(o, "<td class=n>%.2f → %.2f µs</td><td class=n>%.2f ×</td>", before, after, before / after);
    else
        dt_str_add(o, "<td></td><td></td>");
    dt_str_addf(o, "<td class=n>%.1f s%s</td>", night_num(r, "seconds"),
                json_is_true(json_object_get(r, "shared")) ? ", by another host's recipe" : "");
    html_cell(o, dt_json_text(r, "reason"));
    dt_str_add(o, "<td><code>");
    html_text(o, *dt_json_text(r, "signature") ? dt_json_text(r, "signature") : dt_json_text(r, "graph"));
    dt_str_add(o, "</code></td>");
    html_cell(o, dt_json_text(r, "failure"));
    dt_str_add(o, "</tr>\n");
}

static void rows(struct dt_str *o, const json_t *graphs)
{
    size_t n = json_array_size(graphs), i;
    const json_t *v;
    dt_free_ const json_t **all = dt_calloc(n + 1, sizeof *all);
    if (!all) {
        o->failed = true;
        return;
    }
    json_array_foreach (graphs, i, v)
        all[i] = v;
    qsort(all, n, sizeof *all, by_saving);
    dt_str_add(o, "<h2>Graphs</h2><table><tr><th>outcome<th>until now → now<th>gain<th>cost<th>why it was "
                  "due<th>signature<th>failure</tr>\n");
    for (i = 0; i < n; i++)
        row(o, all[i]);
    dt_str_add(o, "</table>\n");
}

static void sums(struct dt_str *o, const json_t *doc)
{
    static const char *const name[] = {"faster", "slower", "unchanged", "failed"};
    const json_t *outcomes = json_object_get(doc, "outcomes");
    dt_str_add(o, "<table>\n<tr><th>state</th>");
    html_cell(o, dt_json_text(doc, "state"));
    dt_str_add(o, "</tr>\n<tr><th>from, to</th><td>");
    html_text(o, dt_json_text(doc, "begun"));
    dt_str_add(o, " – ");
    html_text(o, dt_json_text(doc, "ended"));
    if (night_num(doc, "resumed") > 0)
        dt_str_addf(o, "</td></tr>\n<tr><th>resumed after a restart</th><td>%.0f times", night_num(doc, "resumed"));
    dt_str_addf(o, "</td></tr>\n<tr><th>graphs that were due here</th><td>%.0f</td></tr>\n", night_num(doc, "due"));
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        dt_str_addf(o, "<tr><th>%s</th><td>%.0f</td></tr>\n", name[i], night_num(outcomes, name[i]));
    if (night_num(doc, "before_us") > 0)
        dt_str_addf(o, "<tr><th>one pass of all of them</th><td>%.2f → %.2f µs</td></tr>\n",
                    night_num(doc, "before_us"), night_num(doc, "after_us"));
    dt_str_addf(o,
                "<tr><th>cost</th><td>%.1f s of planning; gave way to users %.0f times, put off for a GPU in use %.0f "
                "times</td></tr>\n</table>\n",
                night_num(doc, "seconds"), night_num(doc, "gave_way"), night_num(doc, "gpu_in_use"));
}

char *dtd_night_html(const json_t *doc)
{
    struct dt_str o = {0};
    html_begin(&o, "dovetail: report of a night");
    html_text(&o, dt_json_text(doc, "device"));
    dt_str_add(&o, "<br>");
    html_text(&o, dt_json_text(doc, "toolchain"));
    dt_str_addf(&o, "<br>report by dovetail %s</p>\n", DOVETAIL_VERSION);
    sums(&o, doc);
    rows(&o, json_object_get(doc, "graphs"));
    dt_str_add(&o, "</body></html>\n");
    return dt_str_take(&o);
}
