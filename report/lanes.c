/* Timelines as inline SVG, posted graph and plan on one scale: a bar a launch, in as many lanes as run side by side;
 * below, the SMs from the first at the top to the last, with what runs on each. Also the tables of launches.
 *
 * On an SM, the fuller the launch's slots (places for blocks, by its occupancy), the stronger the colour: under a
 * third, under two thirds, more. What stays empty is an idle SM. Shapes of one colour are one path, so that 400
 * launches on 132 SMs are some ten kilobytes.
 */
#include "report/report-priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"

#define WIDE 1200 /* units of an SVG */
#define FINE 12000
#define LANES 12
#define HIGH 24        /* of a lane */
#define FOLDED_FROM 24 /* rows of a table */

/* Lines at round times. */
static void axis(struct dt_str *o, double whole, int high)
{
    double step = pow(10, floor(log10(whole)));
    step = whole / step < 2 ? step / 5 : whole / step < 5 ? step / 2 : step;
    for (double t = 0; t <= whole; t += step) {
        double x = t / whole * WIDE;
        dt_str_addf(o, "<path class=ax d=\"M%.1f 0v%d\"/><text class=tx x=%.1f y=%d%s>%.4g µs</text>", x, high, x,
                    high + 13, x > WIDE - 60 ? " text-anchor=end" : "", t);
    }
}

/* The lane of each launch: the first that is free when it begins. How many there are. */
static unsigned assign(const struct rep_side *x, uint8_t *lane)
{
    double until[LANES] = {0}, begin, end;
    unsigned n = 1;
    for (size_t i = 0; i < x->n; i++) {
        unsigned k = 0;
        if (!rep_span(x, i, &begin, &end))
            continue;
        while (k + 1 < LANES && until[k] > begin)
            k++;
        until[k] = end;
        lane[i] = (uint8_t)k;
        n = k + 1 > n ? k + 1 : n;
    }
    return n;
}

static void bars(struct dt_str *o, const struct rep_side *x, double whole)
{
    dt_free_ uint8_t *lane = dt_calloc(x->n + 1, 1);
    if (!lane) {
        o->failed = true;
        return;
    }
    unsigned n = assign(x, lane);
    dt_str_addf(o, "<svg viewBox=\"0 0 %d %d\" role=img aria-label=\"launches over time: ", WIDE, (int)n * HIGH + 18);
    html_text(o, x->title);
    dt_str_add(o, "\">");
    axis(o, whole, (int)n * HIGH);
    for (size_t i = 0; i < x->n; i++) {
        double begin, end;
        char number[32];
        if (!rep_span(x, i, &begin, &end))
            continue;
        double at = begin / whole * WIDE, w = (end - begin) / whole * WIDE;
        w = w < 1 ? 1 : w;
        int y = lane[i] * HIGH;
        dt_str_addf(o, "<path class=%s d=\"M%.1f %dh%.1fv20h-%.1fz\"><title>", x->made[i] ? "k2" : "o2", at, y + 2, w,
                    w);
        html_name(o, rep_name(x, i, number), x->n > 100 ? REP_NAME / 2 : REP_NAME);
        dt_str_addf(o, ": %.2f µs</title></path>", end - begin);
        size_t fits = w > 30 ? (size_t)((w - 8) / 6.6) : 0;
        if (fits > 3) {
            dt_str_addf(o, "<text class=on x=%.1f y=%d>", at + 4, y + 16);
            html_name(o, rep_name(x, i, number), fits);
            dt_str_add(o, "</text>");
        }
    }
    dt_str_add(o, "</svg>\n");
}

/* The SMs; *ret_taken: the part of all slots that is taken on average until the last launch ends. */
static void sm_picture(struct dt_str *o, const struct rep_side *x, double whole, unsigned sms, double *ret_taken)
{
    static const char *const class[] = {"k0", "k1", "k2", "o0", "o1", "o2"};
    double taken = 0;
    dt_str_addf(o, "<svg class=sm viewBox=\"0 0 %d %u\" preserveAspectRatio=none role=img aria-label=\"SMs over time: ",
                FINE, sms);
    html_text(o, x->title);
    dt_str_addf(o, "\"><path class=bg d=\"M0 0h%.0fv%uh-%.0fz\"/>", x->end_us / whole * FINE, sms,
                x->end_us / whole * FINE);
    for (int k = 0; k < 6; k++) {
        size_t i, n = 0;
        const json_t *v;
        json_array_foreach (x->sms, i, v) {
            struct rep_row r;
            if (!rep_row(x, v, sms, &r))
                continue;
            int shade = (r.part < 1 / 3.0 ? 0 : r.part < 2 / 3.0 ? 1 : 2) + (x->made[r.launch] ? 0 : 3);
            if (shade != k)
                continue;
            taken += (r.end - r.begin) * (r.last - r.first + 1) * r.part;
            double w = (r.end - r.begin) / whole * FINE;
            if (!n++)
                dt_str_addf(o, "<path class=%s d=\"", class[k]);
            dt_str_addf(o, "M%.0f %uh%.0fv%uh-%.0fz", r.begin / whole * FINE, r.first, w < 8 ? 8 : w,
                        r.last - r.first + 1, w < 8 ? 8 : w);
        }
        if (n)
            dt_str_add(o, "\"/>");
    }
    dt_str_add(o, "</svg>\n");
    *ret_taken = x->end_us > 0 ? taken / (x->end_us * sms) : 0;
}

static void lanes_side(struct dt_str *o, const struct rep_side *x, double whole, unsigned sms)
{
    double taken = 0;
    dt_str_addf(o, "<h3>%s: %zu launch%s, %.2f µs <small>", x->title, x->n, dt_ending(x->n, "es"), x->end_us);
    html_text(o, x->method);
    dt_str_addf(o, "</small></h3>\n<figure><div class=w tabindex=0 role=group aria-label=\"timeline: %s\">\n",
                x->title);
    bars(o, x, whole);
    if (x->sms && sms)
        sm_picture(o, x, whole, sms, &taken);
    dt_str_add(o, "</div>");
    if (x->sms && sms)
        dt_str_addf(o,
                    "<figcaption class=m>Below the launches: SMs 0 (top) to %u. %.1f %% of all block slots are idle, "
                    "on average over the %.2f µs (modeled).</figcaption>",
                    sms - 1, 100 * (1 - (taken < 1 ? taken : 1)), x->end_us);
    dt_str_add(o, "</figure>\n");
}

void rep_lanes(struct dt_str *o, const struct rep_source *s, const struct rep_side *a, const struct rep_side *b)
{
    double whole = a->end_us > b->end_us ? a->end_us : b->end_us;
    unsigned sms = rep_sms(s);
    if (!a->times || !b->times || !(whole > 0))
        return;
    dt_str_add(o, "<h2>Timelines</h2>\n<p class=m>Both on one scale. Green: kernels that a rewrite made; orange: as "
                  "posted. ");
    dt_str_add(o, a->sms ? "On an SM, the stronger the colour, the more of the launch's slots (places for its blocks) "
                           "are taken; empty is idle.</p>\n"
                  : !a->modeled ? "Measured launches are laid in a row. Which SM runs what is not measured.</p>\n"
                                : "This plan does not say which SM runs what.</p>\n");
    lanes_side(o, a, whole, sms);
    lanes_side(o, b, whole, sms);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */
static void geometry(struct dt_str *o, const json_t *v)
{
    dt_str_add(o, "<td>");
    for (size_t i = 0; i < 3 && i < json_array_size(v); i++)
        dt_str_addf(o, "%s%.0f", i ? " × " : "", rep_at(v, i));
}

/* By launch: the part of its slots that is taken while it runs; negative: not known. */
static double *taken_by(const struct rep_side *x, unsigned sms)
{
    double *t = dt_calloc(x->n + 1, sizeof *t);
    size_t i;
    const json_t *v;
    for (i = 0; t && i < x->n; i++)
        t[i] = -1;
    if (t && sms)
        json_array_foreach (x->sms, i, v) {
            struct rep_row r;
            double begin, end;
            if (!rep_row(x, v, sms, &r) || !rep_span(x, r.launch, &begin, &end) || !(end > begin))
                continue;
            t[r.launch] = (t[r.launch] < 0 ? 0 : t[r.launch]) +
                          (r.end - r.begin) * (r.last - r.first + 1) * r.part / ((end - begin) * sms);
        }
    return t;
}

static void launch_row(struct dt_str *o, const struct rep_source *s, const struct rep_side *x, size_t i, double taken,
                       bool plan)
{
    const json_t *l = json_array_get(x->launches, i);
    char number[32];
    double begin, end;
    dt_str_add(o, "<tr>");
    geometry(o, json_object_get(l, "grid"));
    geometry(o, json_object_get(l, "block"));
    if (rep_span(x, i, &begin, &end))
        dt_str_addf(o, "<td>%.2f<td>%.2f", begin, end - begin);
    else
        dt_str_add(o, "<td><td>");
    if (taken >= 0)
        dt_str_addf(o, "<td>%.0f %%", 100 * (1 - (taken < 1 ? taken : 1)));
    else
        dt_str_add(o, "<td>");
    dt_str_add(o, "<td>");
    html_name(o, rep_name(x, i, number), 2 * REP_NAME);
    if (!s->foreign) {
        dt_str_add(o, "<td>");
        html_name(o, dt_json_text(l, "entry"), REP_NAME);
    }
    if (plan) {
        dt_str_add(o, "<td>");
        rep_names(o, json_object_get(l, "after"), REP_NAME);
    }
    dt_str_add(o, "\n");
}

void rep_launches(struct dt_str *o, const struct rep_source *s, const struct rep_side *x, size_t most)
{
    bool plan = !strcmp(x->which, "optimized");
    dt_free_ double *taken = taken_by(x, rep_sms(s));
    size_t limit = o->len + most, i = 0, made = 0;
    if (!taken) {
        o->failed = true;
        return;
    }
    for (size_t k = 0; k < x->n; k++)
        made += x->made[k];
    dt_str_addf(o, "<details%s><summary>%s: %zu launch%s", x->n < FOLDED_FROM ? " open" : "", x->title, x->n,
                dt_ending(x->n, "es"));
    if (plan)
        dt_str_addf(o, ", of which %zu are as posted", x->n - made);
    dt_str_addf(o,
                "</summary>\n<div class=w tabindex=0 role=group aria-label=\"launches: %s\"><table class=l><tr>"
                "<th>grid<th>block<th>begin, µs<th>time, µs<th>idle slots<th>launch%s%s</tr>\n",
                x->title, s->foreign ? "" : "<th>entry", plan ? "<th>after" : "");
    for (; i < x->n && o->len < limit; i++)
        if (!plan || x->made[i])
            launch_row(o, s, x, i, taken[i], plan);
    dt_str_add(o, "</table></div>\n");
    if (i < x->n)
        dt_str_addf(o, "<p>And %zu more: trace has all.</p>\n", x->n - i);
    dt_str_add(o, "</details>\n");
}
