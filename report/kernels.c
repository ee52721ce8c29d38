/* Kernels side by side: what was posted, and what the plan has in its place, folded.
 *
 * A launch of the plan is named after the posted launches that it stands for, "a+b"; their entries, one below the
 * other, are the left side. Kernels that several launches share are shown once. The page's budget of bytes goes to the
 * launches that take longest; the others are counted.
 */
#include "report/report-priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"

#define LEAST 4000 /* bytes that are worth a beginning */
#define MOST 60000 /* of one kernel */
#define SHOWN 40   /* kernels */
#define PARTS 64   /* posted launches of one */

struct pair {
    size_t launch, times;
    double us;
};

static const json_t *kernels_step(const struct rep_side *x, const char *name, size_t n)
{
    size_t i;
    const json_t *l;
    json_array_foreach (x->launches, i, l) {
        const char *s = dt_json_text(l, "name");
        if (strlen(s) == n && !strncmp(s, name, n))
            return l;
    }
    return NULL;
}

static const char *ptx_of(const struct rep_source *s, const json_t *step)
{
    const char *m = dt_json_text(step, "module"),
               *own = dt_json_text(json_object_get(json_object_get(json_object_get(s->plan, "original"), "modules"), m),
                                   "ptx");
    return *own ? own : dt_json_text(json_object_get(json_object_get(s->plan, "modules"), m), "ptx");
}

/* The entry's text, as it may be shown. */
static char *shown(const struct rep_source *s, const char *ptx, const json_t *step)
{
    char *text = rep_entry(ptx, dt_json_text(step, "entry"));
    if (!text || !s->foreign)
        return text;
    char *plain = rep_neutral(text);
    free(text);
    return plain;
}

static void add_part(struct dt_str *o, const struct rep_source *s, const json_t *step)
{
    dt_free_ char *text = step ? shown(s, ptx_of(s, step), step) : NULL;
    if (text && o->len)
        dt_str_add(o, "\n");
    if (text)
        dt_str_add(o, text);
}

/* The posted entries that `name` stands for. */
static char *posted_text(const struct rep_source *s, const struct rep_side *a, const char *name)
{
    struct dt_str o = {0};
    const json_t *whole = kernels_step(a, name, strlen(name));
    json_t *seen = json_object();
    if (whole)
        add_part(&o, s, whole);
    for (int k = 0; !whole && *name && k < PARTS; k++) {
        size_t n = strcspn(name, "+"), plain = strcspn(name, "+~");
        const json_t *l = kernels_step(a, name, n);
        l = l ? l : kernels_step(a, name, plain);
        if (l && !json_object_get(seen, dt_json_text(l, "entry"))) { /* ten of one kernel: once */
            add_part(&o, s, l);
            json_object_set_new(seen, dt_json_text(l, "entry"), json_true());
        }
        name += n + (name[n] == '+');
    }
    json_decref(seen);
    dt_str_add(&o, "");
    return dt_str_take(&o);
}

static int by_time(const void *x, const void *y)
{
    const struct pair *a = x, *b = y;
    return a->us != b->us ? (a->us < b->us ? 1 : -1) : (a->launch > b->launch) - (a->launch < b->launch);
}

/* The plan's own kernels, each once. */
static size_t find_pairs(const struct rep_side *b, struct pair *ret)
{
    size_t n = 0;
    json_t *seen = json_object();
    for (size_t i = 0; i < b->n; i++) {
        const json_t *l = json_array_get(b->launches, i), *at;
        double begin, end;
        struct dt_str key = {0};
        if (!b->made[i])
            continue;
        dt_str_addf(&key, "%s %s", dt_json_text(l, "module"), dt_json_text(l, "entry"));
        double us = rep_span(b, i, &begin, &end) ? end - begin : 0;
        if (key.s && (at = json_object_get(seen, key.s))) {
            ret[json_integer_value(at)].us += us;
            ret[json_integer_value(at)].times++;
        } else if (key.s) {
            json_object_set_new(seen, key.s, json_integer((json_int_t)n));
            ret[n++] = (struct pair){i, 1, us};
        }
        dt_str_done(&key);
    }
    json_decref(seen);
    qsort(ret, n, sizeof *ret, by_time);
    return n;
}

static void kernels_one(struct dt_str *o, const struct rep_source *s, const struct rep_side *a,
                        const struct rep_side *b, const struct pair *p, size_t most)
{
    const json_t *l = json_array_get(b->launches, p->launch);
    char number[32];
    const char *name = rep_name(b, p->launch, number);
    dt_free_ char *right = shown(s, ptx_of(s, l), l), *left = posted_text(s, a, name);
    dt_str_add(o, "<details><summary>");
    html_name(o, name, 2 * REP_NAME);
    dt_str_addf(o, " <small>%.2f µs%s", p->us, p->times > 1 ? " together, " : "");
    if (p->times > 1)
        dt_str_addf(o, "%zu launches", p->times);
    dt_str_add(o, "</small></summary>");
    if (!right || !left || !*left) {
        dt_str_add(o, "<p>Its text is not at hand.</p></details>\n");
        return;
    }
    dt_str_add(o, "<div class=w tabindex=0 role=group aria-label=\"kernel before and after\"><table class=x><tr><th>as "
                  "posted<th>plan</tr>\n");
    rep_differ(o, left, right, most);
    dt_str_add(o, "</table></div></details>\n");
}

void rep_kernels(struct dt_str *o, const struct rep_source *s, const struct rep_side *a, const struct rep_side *b,
                 size_t budget)
{
    dt_free_ struct pair *p = dt_calloc(b->n + 1, sizeof *p);
    size_t n = p ? find_pairs(b, p) : 0, limit = o->len + budget, i = 0;
    o->failed |= !p;
    if (!n)
        return;
    dt_str_addf(o,
                "<h2>Kernels</h2>\n<p class=m>PTX of the posted entries and of what stands in their place, those that "
                "take longest first. Marked: lines that are on one side only; names of registers do not count, and "
                "their declarations, line numbers and comments are left out.%s</p>\n",
                s->foreign ? " Names in it are made up: the text may have come with another graph of equal work." : "");
    for (; i < n && i < SHOWN && o->len + LEAST < limit; i++)
        kernels_one(o, s, a, b, &p[i], limit - o->len < MOST ? limit - o->len : MOST);
    if (i < n)
        dt_str_addf(o, "<p>And %zu more kernels: optimize -o leaves the text of all.</p>\n", n - i);
}
