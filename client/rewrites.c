/* The rewrites of a plan, for people: a row each where they fit a screen or all are wanted; else what was kept in
 * groups, and what was not by reasons.
 *
 * A model of hundreds of launches has layers that are alike. Kept rewrites are in one group if kind, level and the
 * names of the launches are equal but for the numbers in them; what gained most in all comes first. Reasons are counted
 * by the condition that they name, once per rewrite and condition, and the first sentence stands for all of them, with
 * … for the names in it. What was legal at some level and gained nothing counts by how its time compared as well.
 *
 * This file knows the form of a reason (rewrite/plan/choose.c): parts with "; " between, of the form "level L:
 * condition: sentence", "condition: sentence", or times.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/vec.h"
#include "client/cli.h"

#define NAMES_MOST 64 /* characters of the launches of a rewrite */
#define SENTENCE_MOST 88
#define ROWS_MOST 16   /* so many rewrites are shown one by one */
#define GROUPS_MOST 12 /* and otherwise so many groups, and so many reasons */

struct group {
    const json_t *first; /* the first rewrite of it */
    char *key, *sentence;
    unsigned n;
    double gain_us;
};
struct groups {
    struct group *p;
    size_t n, cap;
};

static void groups_done(struct groups *g)
{
    for (size_t k = 0; k < g->n; k++) {
        free(g->p[k].key);
        free(g->p[k].sentence);
    }
    free(g->p);
}

/* The group of that key; NULL: memory. Takes the key. */
static struct group *group_of(struct groups *g, char *key, const json_t *first)
{
    for (size_t k = 0; key && k < g->n; k++)
        if (!strcmp(g->p[k].key, key)) {
            free(key);
            return &g->p[k];
        }
    struct group n = {.first = first, .key = key};
    if (!key || !dt_push(g, n)) {
        free(key);
        return NULL;
    }
    return &g->p[g->n - 1];
}

static double gain_of(const json_t *r)
{
    return json_object_get(r, "before_us") ? jnum(r, "before_us") - jnum(r, "after_us") : 0;
}

/* ---- what was kept ----------------------------------------------------------------------------------------------- */

/* Add to s[from..], names with + between, the name that ends it only if it is another one than that before it: a chain
 * is alike however long it is. */
static void alike_once(struct dt_str *s, size_t from)
{
    size_t last = s->len, before;
    while (last > from && s->s[last - 1] != '+')
        last--;
    if (last == from)
        return;
    for (before = last - 1; before > from && s->s[before - 1] != '+';)
        before--;
    if (s->len - last == last - 1 - before && !memcmp(s->s + last, s->s + before, s->len - last)) {
        s->len = last - 1;
        s->s[s->len] = 0;
    }
}

/* Kind, level and names, with # for each number, without the ~2 of a name that there was already, and with the same
 * name once in a row. */
static char *likeness(const json_t *r)
{
    struct dt_str s = {0};
    size_t from = 0;
    dt_free_ char *names = join(json_object_get(r, "launches"), " + ", "-");
    dt_str_addf(&s, "%s %s ", dt_json_text(r, "kind"), dt_json_text(r, "level"));
    from = s.len;
    for (const char *at = names; at && *at;) {
        bool twin = *at == '~' && isdigit((unsigned char)at[1]);
        size_t digits = strspn(at + twin, "0123456789");
        if (*at == '+' || *at == ' ')
            alike_once(&s, from);
        if (*at == ' ')
            from = s.len + 1;
        if (digits && !twin)
            dt_str_addc(&s, '#');
        else if (!digits)
            dt_str_addc(&s, *at);
        at += digits ? digits + twin : 1;
    }
    alike_once(&s, from);
    return dt_str_take(&s);
}

static int by_gain(const void *x, const void *y)
{
    const struct group *a = x, *b = y;
    if (a->gain_us != b->gain_us)
        return a->gain_us > b->gain_us ? -1 : 1;
    return a->n != b->n ? (a->n > b->n ? -1 : 1) : strcmp(a->key, b->key);
}

static void kept(const struct cli *c, const json_t *list, bool modeled)
{
    struct groups all = {0};
    struct table t = {0};
    const json_t *r;
    size_t i;
    json_array_foreach (list, i, r) {
        struct group *g = strcmp(dt_json_text(r, "verdict"), "kept") ? NULL : group_of(&all, likeness(r), r);
        if (g) {
            g->n++;
            g->gain_us += gain_of(r);
        }
    }
    if (all.n)
        qsort(all.p, all.n, sizeof *all.p, by_gain);
    table_row(&t, 5, ">times", "kept", "level", modeled ? ">modeled gain" : ">measured gain",
              "launches (of alike ones the first)");
    for (size_t k = 0; k < all.n && k < GROUPS_MOST; k++) {
        const struct group *g = &all.p[k];
        char n[16], gain[32] = "-";
        dt_free_ char *names = join(json_object_get(g->first, "launches"), " + ", "-"),
                      *launches = names ? cut(names, NAMES_MOST) : NULL;
        snprintf(n, sizeof n, "%u", g->n);
        if (json_object_get(g->first, "before_us"))
            snprintf(gain, sizeof gain, "%.2f us", g->gain_us);
        table_row(&t, 5, n, dt_json_text(g->first, "kind"),
                  *dt_json_text(g->first, "level") ? dt_json_text(g->first, "level") : "-", gain,
                  launches ? launches : "");
    }
    if (all.n)
        table_print(&t, c);
    else
        table_done(&t);
    if (all.n > GROUPS_MOST)
        printf("and %zu more groups that were kept (--all)\n", all.n - GROUPS_MOST);
    if (all.n)
        fputc('\n', stdout);
    groups_done(&all);
}

/* ---- what was not ------------------------------------------------------------------------------------------------ */

/* The first characters of a sentence, and … where there are more. */
static void put_head(const char *s)
{
    struct dt_str out = {0};
    unsigned at = 0;
    for (; *s && at < SENTENCE_MOST; s++) {
        dt_str_addc(&out, *s);
        at += ((unsigned char)s[1] & 0xC0) != 0x80;
    }
    dt_str_add(&out, *s ? "…" : "");
    print_clean(stdout, out.s ? out.s : "");
    dt_str_done(&out);
}

/* The sentence with … for each name between quotes. */
static char *nameless(const char *s, size_t n)
{
    struct dt_str out = {0};
    for (size_t k = 0; k < n; k++) {
        const char *end =
            s[k] == '\'' && (!k || !isalnum((unsigned char)s[k - 1])) ? memchr(s + k + 1, '\'', n - k - 1) : NULL;
        if (end) {
            dt_str_add(&out, "…");
            k = (size_t)(end - s);
        } else {
            dt_str_addc(&out, s[k]);
        }
    }
    dt_str_add(&out, "");
    return dt_str_take(&out);
}

static char *part_name(const char *s, size_t n)
{
    struct dt_str out = {0};
    dt_str_addf(&out, "%.*s", (int)n, s);
    return dt_str_take(&out);
}

/* Count the condition that a part of a reason names; false: it names none. */
static bool condition(struct groups *all, const json_t *r, const char *part, size_t n)
{
    if (n > 6 && !strncmp(part, "level ", 6)) { /* level L: condition: … */
        const char *colon = memchr(part, ':', n);
        if (!colon || (size_t)(colon - part) + 2 > n)
            return false;
        n -= (size_t)(colon - part) + 2;
        part = colon + 2;
    }
    size_t name = 0;
    while (name < n && (islower((unsigned char)part[name]) || part[name] == '-'))
        name++;
    if (!name || name + 1 >= n || part[name] != ':' || part[name + 1] != ' ')
        return false;
    struct group *g = group_of(all, part_name(part, name), r);
    if (g && (!g->n || g->first != r)) /* once of a rewrite: `first` is the last one counted here */
        g->n++;
    if (g) {
        g->first = r;
        if (!g->sentence)
            g->sentence = nameless(part, n);
    }
    return true;
}

static void count_reasons(struct groups *all, const json_t *r)
{
    const char *why = dt_json_text(r, "reason");
    bool named = false;
    for (const char *at = why; *at;) {
        const char *end = strstr(at, "; ");
        size_t n = end ? (size_t)(end - at) : strlen(at);
        named |= condition(all, r, at, n);
        at += end ? n + 2 : n;
    }
    if (named && strcmp(dt_json_text(r, "verdict"), "dropped"))
        return;
    const char *what = strstr(why, "not for sure") ? "faster, but not for sure"
                       : strstr(why, " instead ")  ? "another rewrite does better"
                                                   : "not faster";
    struct group *g = group_of(all, dt_strdup(what), r);
    if (g)
        g->n++;
}

static int by_count(const void *x, const void *y)
{
    const struct group *a = x, *b = y;
    return a->n != b->n ? (a->n > b->n ? -1 : 1) : strcmp(a->key, b->key);
}

static void not_kept(const json_t *list)
{
    struct groups all = {0};
    unsigned refused = 0, dropped = 0, more = 0;
    const json_t *r;
    size_t i;
    json_array_foreach (list, i, r) {
        const char *verdict = dt_json_text(r, "verdict");
        refused += !strcmp(verdict, "refused");
        dropped += !strcmp(verdict, "dropped");
        if (strcmp(verdict, "kept"))
            count_reasons(&all, r);
    }
    if (all.n)
        qsort(all.p, all.n, sizeof *all.p, by_count);
    if (refused + dropped)
        printf("refused %u, dropped %u, by reason (one may have several):\n", refused, dropped);
    for (size_t k = 0; k < all.n; k++) {
        const struct group *g = &all.p[k];
        if (k >= GROUPS_MOST) {
            more += g->n;
            continue;
        }
        printf("%5u x ", g->n);
        put_head(g->sentence ? g->sentence : g->key);
        fputc('\n', stdout);
    }
    if (more)
        printf("%5u x for %zu other reasons (--all)\n", more, all.n - GROUPS_MOST);
    if (refused + dropped)
        fputc('\n', stdout);
    groups_done(&all);
}

/* ---- one by one -------------------------------------------------------------------------------------------------- */

/* "modeled 41.2 -> 37.0 us", or "" when the rewrite was not timed. */
static void times(const json_t *r, bool modeled, char *out, size_t n)
{
    const json_t *b = json_object_get(r, "before_us"), *a = json_object_get(r, "after_us");
    *out = 0;
    if (json_is_number(b) && json_is_number(a))
        snprintf(out, n, "%s %.2f -> %.2f us", modeled ? "modeled" : "measured", json_number_value(b),
                 json_number_value(a));
}

static void each(const struct cli *c, const json_t *list, bool modeled)
{
    struct table t = {0};
    const json_t *r;
    size_t i;
    table_row(&t, 5, "rewrite", "level", "launches", "verdict", "times, reason");
    json_array_foreach (list, i, r) {
        char us[96];
        struct dt_str why = {0};
        dt_free_ char *all = join(json_object_get(r, "launches"), " + ", "-"),
                      *launches = all ? cut(all, NAMES_MOST) : NULL;
        times(r, modeled, us, sizeof us);
        if (strcmp(dt_json_text(r, "verdict"), "kept") && *dt_json_text(r, "reason"))
            *us = 0; /* the reason of one that was too slow has the times */
        dt_str_addf(&why, "%s%s%s", us, *us && *dt_json_text(r, "reason") ? "; " : "", dt_json_text(r, "reason"));
        table_row(&t, 5, dt_json_text(r, "kind"), *dt_json_text(r, "level") ? dt_json_text(r, "level") : "-", launches,
                  dt_json_text(r, "verdict"), why.s ? why.s : "");
        dt_str_done(&why);
    }
    table_print(&t, c);
    fputc('\n', stdout);
}

void rewrites_print(const struct cli *c, const json_t *list, bool modeled)
{
    size_t n = json_array_size(list);
    if (n && (c->all || n <= ROWS_MOST))
        each(c, list, modeled);
    else if (n)
        kept(c, list, modeled);
    if (n > ROWS_MOST)
        not_kept(list);
}
