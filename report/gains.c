/* What each rewrite did, and what it gained, the biggest gains first; then what was not kept, by its reason.
 *
 * Rows that are alike (kind, level, gain to a hundredth of a microsecond, reason) are one row that says how often. The
 * longest lists are cut, and say by how much.
 */
#include "report/report-priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"

#define KEPT 50 /* rows */
#define NOT_KEPT 40
#define PARTS 6 /* launches of a row that are named */

static const struct {
    const char *kind, *what;
} kinds[] = {
    {"block-fusion",
     "blocks that need each other run in one kernel; what goes from one to the other stays on the chip"},
    {"parallel-fusion", "launches that do not need each other share one grid"},
    {"split", "blocks that are ready early run on a stream of their own, beside others"},
    {"prefetch", "spare blocks fetch what a later launch reads into the L2"},
    {"programmatic-launch", "a launch begins while the one before it ends, and waits where it first needs it"},
    {"dead-blocks", "blocks whose results nobody reads are left out"},
    {"recompute", "a cheap producer runs again inside its readers, instead of storing its results"},
    {"dataflow-fusion", "blocks of one kernel wait for each other by counters in memory"},
    {"versions", "an intermediate that is written again gets memory of its own, so that writers need not wait"},
    {"calls", "functions are written out where they are called"},
    {"copies", "readers of a copy read what it copies"},
    {"narrow-blocks", "blocks of fewer threads, so that more of them fit an SM"},
    {"slice", "a block's work is divided among several, so that more SMs have some"},
    {"tails", "the last blocks, which leave most SMs idle, are divided"},
    {"pack", "small blocks run side by side in one"},
    {"roles", "a launch whose blocks do several kernels' work is a launch for each"},
};

struct gain {
    const json_t *r;
    double gain;
    size_t times, at;
};

static const char *what_of(const char *kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].kind, kind))
            return kinds[i].what;
    return "";
}

static int by_gain(const void *a, const void *b)
{
    const struct gain *x = a, *y = b;
    return x->gain != y->gain ? (x->gain < y->gain ? 1 : -1) : (x->at > y->at) - (x->at < y->at);
}

static bool gains_alike(const struct gain *a, const struct gain *b)
{
    static const char *const member[] = {"kind", "level", "verdict"};
    for (size_t i = 0; i < sizeof member / sizeof *member; i++)
        if (strcmp(dt_json_text(a->r, member[i]), dt_json_text(b->r, member[i])))
            return false;
    const char *x = dt_json_text(a->r, "reason"), *y = dt_json_text(b->r, "reason");
    size_t n = strcspn(x, ":");
    return fabs(a->gain - b->gain) < 0.005 && n == strcspn(y, ":") && !strncmp(x, y, n);
}

static void gains_row(struct dt_str *o, const struct gain *g, bool modeled, bool kept)
{
    const json_t *r = g->r, *names = json_object_get(r, "launches"), *range = json_object_get(r, "gain_range");
    double before = rep_num(r, "before_us"), after = rep_num(r, "after_us");
    dt_str_addf(o, "<tr%s><td class=n>", kept ? "" : " class=no");
    if (before > 0)
        dt_str_addf(o, "%.2f µs", before - after);
    dt_str_add(o, "<td>");
    html_text(o, dt_json_text(r, "kind"));
    if (*dt_json_text(r, "level")) {
        dt_str_add(o, ", ");
        html_text(o, dt_json_text(r, "level"));
    }
    dt_str_add(o, "<td class=t>");
    json_t *some = json_array();
    for (size_t i = 0; i < PARTS && i < json_array_size(names); i++)
        json_array_append(some, json_array_get(names, i));
    rep_names(o, some, REP_NAME);
    json_decref(some);
    if (json_array_size(names) > PARTS)
        dt_str_addf(o, " and %zu more", json_array_size(names) - PARTS);
    if (g->times > 1)
        dt_str_addf(o, " <small>and %zu alike</small>", g->times - 1);
    dt_str_add(o, "<td class=n>");
    if (before > 0)
        dt_str_addf(o, "%.2f → %.2f µs (%s)", before, after, modeled ? "modeled" : "measured");
    if (json_array_size(range) == 2)
        dt_str_addf(o, "<br><small>%.2f to %.2f times as fast</small>", rep_at(range, 0), rep_at(range, 1));
    dt_str_add(o, "<td class=t>");
    if (kept) {
        html_text(o, what_of(dt_json_text(r, "kind")));
    } else {
        html_text(o, dt_json_text(r, "verdict"));
        dt_str_add(o, *dt_json_text(r, "reason") ? ": " : before > 0 ? ": not faster, or not for sure" : "");
        html_name(o, dt_json_text(r, "reason"), 300);
    }
    dt_str_add(o, "\n");
}

static void gains_table(struct dt_str *o, struct gain *g, size_t n, size_t most, bool modeled, bool kept)
{
    size_t rows = 0, left = 0;
    dt_str_addf(o,
                "<div class=w tabindex=0 role=group aria-label=\"rewrites that were %s\"><table><tr><th>gain<th>kind"
                "<th>launches<th>one pass<th>%s</tr>\n",
                kept ? "kept" : "not kept", kept ? "what it does" : "why not");
    for (size_t i = 0; i < n; i++) {
        size_t k = 0, end = 0;
        for (size_t j = i; j-- > 0 && end < 4096 && !k; end++)
            k = g[j].times && gains_alike(&g[j], &g[i]) ? j + 1 : 0;
        g[i].times = !k;
        if (k)
            g[k - 1].times++;
    }
    for (size_t i = 0; i < n; i++) {
        if (!g[i].times)
            continue;
        if (rows++ < most)
            gains_row(o, &g[i], modeled, kept);
        else
            left += g[i].times;
    }
    dt_str_add(o, "</table></div>\n");
    if (left)
        dt_str_addf(o, "<p class=m>And %zu more.</p>\n", left);
}

void rep_gains(struct dt_str *o, const struct rep_source *s)
{
    const json_t *list = json_object_get(s->plan, "rewrites"), *r;
    bool modeled = !strncmp(dt_json_text(json_object_get(s->plan, "baseline"), "method"), "modeled", 7);
    size_t n = json_array_size(list), i, kept = 0, others = 0;
    dt_free_ struct gain *yes = dt_calloc(n + 1, sizeof *yes), *no = dt_calloc(n + 1, sizeof *no);
    if (!yes || !no) {
        o->failed = true;
        return;
    }
    json_array_foreach (list, i, r) {
        struct gain g = {r, rep_num(r, "before_us") - rep_num(r, "after_us"), 1, i};
        if (!strcmp(dt_json_text(r, "verdict"), "kept"))
            yes[kept++] = g;
        else
            no[others++] = g;
    }
    qsort(yes, kept, sizeof *yes, by_gain);
    qsort(no, others, sizeof *no, by_gain);
    dt_str_add(o, "<h2>Rewrites</h2>\n");
    if (kept)
        gains_table(o, yes, kept, KEPT, modeled, true);
    else
        dt_str_add(o, "<p>No rewrite was kept: the plan is the posted launches.</p>\n");
    if (others) {
        dt_str_addf(o, "<details><summary>Tried and not kept: %zu</summary>", others);
        gains_table(o, no, others, NOT_KEPT, modeled, false);
        dt_str_add(o, "</details>\n");
    }
}
