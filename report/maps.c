/* Block maps: a picture an edge, with class, evidence and counts.
 *
 * Edges that look the same in all of that share a figure, which names the others below it: layers repeat. Pictures are
 * the analysis document's own (`pictures`, base64 of a PNG); what is not base64 is not put into the page. Figures
 * beyond FIGURES, or beyond BYTES of the page, are counted.
 */
#include "report/report-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"

#define FIGURES 150
#define BYTES 60000
#define NAMED 12 /* edges alike */
#define PIXELS 192

struct group {
    size_t first, n;
};
struct maps {
    const json_t *edges, *pictures;
    json_t *blocks; /* by launch's name */
    struct group *group;
    size_t ngroup;
    size_t *next; /* by edge: the next of its group, 0: none */
};

static double blocks_of(const struct maps *m, const char *launch) { return rep_num(m->blocks, launch); }

static bool base64(const char *s)
{
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    return n && !s[n + strspn(s + n, "=")];
}

static const char *picture_of(const struct maps *m, const json_t *e)
{
    const json_t *i = json_object_get(e, "picture");
    const char *s = json_is_integer(i) && json_integer_value(i) >= 0
                        ? json_string_value(json_array_get(m->pictures, (size_t)json_integer_value(i)))
                        : NULL;
    return s && base64(s) ? s : NULL;
}

static void maps_list(struct dt_str *o, const json_t *v, const char *between)
{
    size_t i;
    const json_t *s;
    json_array_foreach (v, i, s) {
        dt_str_add(o, i ? between : "");
        html_name(o, json_string_value(s), REP_NAME);
    }
}

/* What edges of one group have in common, as text. */
static char *maps_key(const struct maps *m, const json_t *e)
{
    struct dt_str o = {0};
    dt_str_addf(&o, "%.0f %.0f %.0f %.0f %.0f %s ", json_object_get(e, "picture") ? rep_num(e, "picture") : -1,
                rep_num(e, "pairs"), rep_num(e, "components"), blocks_of(m, dt_json_text(e, "producer")),
                blocks_of(m, dt_json_text(e, "consumer")), dt_json_text(e, "evidence"));
    maps_list(&o, json_object_get(e, "classes"), ",");
    maps_list(&o, json_object_get(e, "hazards"), ",");
    return dt_str_take(&o);
}

/* False: memory is out. */
static bool find_groups(struct maps *m)
{
    size_t n = json_array_size(m->edges), i;
    json_t *seen = json_object();
    dt_free_ size_t *last = dt_calloc(n + 1, sizeof *last);
    const json_t *e;
    m->group = dt_calloc(n + 1, sizeof *m->group);
    m->next = dt_calloc(n + 1, sizeof *m->next);
    bool ok = seen && last && m->group && m->next;
    for (i = 0; ok && i < n; i++) {
        e = json_array_get(m->edges, i);
        if (!json_array_size(json_object_get(e, "hazards")))
            continue; /* of --all-edges: nothing orders these two */
        dt_free_ char *key = maps_key(m, e);
        const json_t *at = key ? json_object_get(seen, key) : NULL;
        ok = key;
        if (at) {
            size_t g = (size_t)json_integer_value(at);
            m->next[last[g]] = i;
            last[g] = i;
            m->group[g].n++;
        } else if (ok) {
            ok = json_object_set_new(seen, key, json_integer((json_int_t)m->ngroup)) == 0;
            last[m->ngroup] = i;
            m->group[m->ngroup++] = (struct group){i, 1};
        }
    }
    json_decref(seen);
    return ok;
}

static void arrow(struct dt_str *o, const json_t *e)
{
    html_name(o, dt_json_text(e, "producer"), REP_NAME);
    dt_str_add(o, " → ");
    html_name(o, dt_json_text(e, "consumer"), REP_NAME);
}

static double maps_step(double blocks)
{
    return blocks > PIXELS ? (double)(((size_t)blocks + PIXELS - 1) / PIXELS) : 1;
}

static void image(struct dt_str *o, const struct maps *m, const json_t *e)
{
    const char *png = picture_of(m, e);
    if (!png) {
        dt_str_add(o, "<div class=\"box m\">too many pairs to be drawn</div>");
        return;
    }
    dt_str_add(o, "<img class=map width=192 height=192 src=\"data:image/png;base64,");
    dt_str_add(o, png);
    dt_str_add(o, "\" alt=\"block map of ");
    arrow(o, e);
    dt_str_add(o, ": ");
    maps_list(o, json_object_get(e, "classes"), ", ");
    dt_str_add(o, "\">");
}

static void maps_range(struct dt_str *o, const json_t *v)
{
    double lo = rep_num(v, "min"), hi = rep_num(v, "max");
    if (lo == hi)
        dt_str_addf(o, "%.0f", lo);
    else
        dt_str_addf(o, "%.0f to %.0f", lo, hi);
}

static void figure(struct dt_str *o, const struct maps *m, const struct group *g)
{
    const json_t *e = json_array_get(m->edges, g->first);
    double p = blocks_of(m, dt_json_text(e, "producer")), c = blocks_of(m, dt_json_text(e, "consumer"));
    dt_str_add(o, "<figure>");
    image(o, m, e);
    dt_str_add(o, "<figcaption><b>");
    arrow(o, e);
    dt_str_add(o, "</b><br>");
    maps_list(o, json_object_get(e, "classes"), ", ");
    dt_str_add(o, " · ");
    html_text(o, dt_json_text(e, "evidence"));
    dt_str_add(o, " · ");
    maps_list(o, json_object_get(e, "hazards"), ", ");
    dt_str_add(o, "<br><span class=m>through ");
    maps_list(o, json_object_get(e, "buffers"), ", ");
    dt_str_addf(o, "<br>%.0f × %.0f blocks, %.0f pair%s in %.0f part%s<br>a block needs ", p, c, rep_num(e, "pairs"),
                rep_num(e, "pairs") == 1 ? "" : "s", rep_num(e, "components"),
                rep_num(e, "components") == 1 ? "" : "s");
    maps_range(o, json_object_get(e, "producers_per_consumer"));
    dt_str_add(o, " and feeds ");
    maps_range(o, json_object_get(e, "consumers_per_producer"));
    if (maps_step(p) > 1 || maps_step(c) > 1)
        dt_str_addf(o, "<br>a pixel is %.0f × %.0f blocks", maps_step(p), maps_step(c));
    dt_str_add(o, "</span>");
    if (g->n > 1) {
        size_t named = 0;
        dt_str_addf(o, "<details><summary>and %zu alike</summary><span class=m>", g->n - 1);
        for (size_t i = m->next[g->first]; i && named < NAMED; i = m->next[i], named++) {
            dt_str_add(o, named ? "<br>" : "");
            arrow(o, json_array_get(m->edges, i));
        }
        if (g->n - 1 > named)
            dt_str_addf(o, "<br>and %zu more", g->n - 1 - named);
        dt_str_add(o, "</span></details>");
    }
    dt_str_add(o, "</figcaption></figure>\n");
}

void rep_maps(struct dt_str *o, const struct rep_source *s)
{
    struct maps m = {.edges = json_object_get(s->analysis, "edges"),
                     .pictures = json_object_get(s->analysis, "pictures"),
                     .blocks = json_object()};
    size_t i, begin = o->len, left = 0;
    const json_t *l;
    dt_str_add(o, "<h2>Which block needs what</h2>\n");
    if (!s->analysis || !m.pictures) {
        dt_str_add(o, "<p>There are no block maps here: ");
        html_text(o, s->no_maps ? s->no_maps : "the analysis of this graph is not at hand, or has no pictures");
        dt_str_add(o, ".</p>\n");
        json_decref(m.blocks);
        return;
    }
    json_array_foreach (json_object_get(s->analysis, "launches"), i, l)
        if (*dt_json_text(l, "name"))
            json_object_set(m.blocks, dt_json_text(l, "name"), json_object_get(l, "blocks"));
    if (!m.blocks || !find_groups(&m))
        o->failed = true;
    dt_str_addf(o,
                "<p class=m>A picture for each pair of posted launches of which one waits for the other (alike ones "
                "share it): the producer's blocks downwards, the consumer's across; the darker a pixel, the more of "
                "its pairs of blocks touch the same bytes. %s</p>\n<div class=g>\n",
                m.ngroup ? "" : "Here no launch waits for another.");
    for (i = 0; i < m.ngroup && !o->failed; i++) {
        if (i < FIGURES && o->len - begin < BYTES)
            figure(o, &m, &m.group[i]);
        else
            left += m.group[i].n;
    }
    dt_str_add(o, "</div>\n");
    if (left)
        dt_str_addf(o, "<p>And %zu edge%s of other kinds, which analyze shows.</p>\n", left, dt_ending(left, "s"));
    json_decref(m.blocks);
    free(m.group);
    free(m.next);
}
