/* Two texts side by side: a longest common subsequence of lines, by dynamic programming.
 *
 * Lines count as alike if they are without the names of registers, since a rewrite numbers them anew. Runs of alike
 * lines keep CONTEXT lines at each end; what is between is said as a number. Texts of more than CELLS pairs of lines
 * are shown without marks.
 */
#include "report/report-priv.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define CELLS (9u << 20)
#define CONTEXT 3
#define MOST_LINES 400

struct text {
    const char **line; /* n + 1: the end of the last one */
    uint64_t *sum;
    size_t n;
};

static void text_done(struct text *t)
{
    free(t->line);
    free(t->sum);
}

static uint64_t sum_of(const char *s, const char *end)
{
    uint64_t h = 1469598103934665603u;
    for (; s < end; s++) {
        if (isspace((unsigned char)*s))
            continue;
        h = (h ^ (unsigned char)*s) * 1099511628211u;
        if (*s == '%')
            while (s + 1 < end && (isalnum((unsigned char)s[1]) || s[1] == '_'))
                s++;
    }
    return h;
}

static bool text_init(struct text *t, const char *s)
{
    size_t n = 1;
    for (const char *p = s; *p; p++)
        n += *p == '\n';
    t->line = dt_calloc(n + 2, sizeof *t->line);
    t->sum = dt_calloc(n + 1, sizeof *t->sum);
    t->n = 0;
    if (!t->line || !t->sum)
        return false;
    while (*s) {
        const char *end = s + strcspn(s, "\n");
        t->line[t->n] = s;
        t->sum[t->n++] = sum_of(s, end);
        s = end + (*end == '\n');
    }
    t->line[t->n] = s;
    return true;
}

static void lines(struct dt_str *o, const struct text *t, size_t from, size_t to)
{
    dt_str_add(o, "<td>");
    size_t n = (size_t)(t->line[to] - t->line[from]);
    while (n && t->line[from][n - 1] == '\n')
        n--;
    html_block(o, t->line[from], n);
}

/* Lines of both sides that belong together; d: changed, e: only a number is said. */
static void both(struct dt_str *o, const struct text *a, size_t a0, size_t a1, const struct text *b, size_t b0,
                 size_t b1, bool changed)
{
    if (a0 == a1 && b0 == b1)
        return;
    dt_str_add(o, !changed   ? "<tr>"
                  : a0 == a1 ? "<tr class=\"d i\">"
                  : b0 == b1 ? "<tr class=\"d z\">"
                             : "<tr class=d>");
    lines(o, a, a0, a1);
    lines(o, b, b0, b1);
    dt_str_addc(o, '\n');
}

static void same(struct dt_str *o, const struct text *a, size_t a0, size_t a1, const struct text *b, size_t b0)
{
    size_t n = a1 - a0, head = a0 ? CONTEXT : 0, tail = a1 < a->n ? CONTEXT : 0;
    if (n <= head + tail + 2) {
        both(o, a, a0, a1, b, b0, b0 + n, false);
        return;
    }
    both(o, a, a0, a0 + head, b, b0, b0 + head, false);
    dt_str_addf(o, "<tr class=e><td>… %zu lines<td>the same but for registers …\n", n - head - tail);
    both(o, a, a1 - tail, a1, b, b0 + n - tail, b0 + n, false);
}

/* The lengths of common subsequences of what is behind (i, j), row by row. */
static uint16_t *table(const struct text *a, const struct text *b)
{
    size_t w = b->n + 1;
    uint16_t *t = dt_calloc((a->n + 1) * w, sizeof *t);
    for (size_t i = a->n; t && i-- > 0;)
        for (size_t j = b->n; j-- > 0;)
            t[i * w + j] = a->sum[i] == b->sum[j]                   ? (uint16_t)(t[(i + 1) * w + j + 1] + 1)
                           : t[(i + 1) * w + j] >= t[i * w + j + 1] ? t[(i + 1) * w + j]
                                                                    : t[i * w + j + 1];
    return t;
}

static void walk(struct dt_str *o, const struct text *a, const struct text *b, const uint16_t *t, size_t limit)
{
    size_t w = b->n + 1, i = 0, j = 0;
    while ((i < a->n || j < b->n) && o->len < limit) {
        size_t i0 = i, j0 = j;
        while (i < a->n && j < b->n && a->sum[i] == b->sum[j])
            i++, j++;
        if (i > i0)
            same(o, a, i0, i, b, j0);
        i0 = i, j0 = j;
        while ((i < a->n || j < b->n) && !(i < a->n && j < b->n && a->sum[i] == b->sum[j])) {
            if (j == b->n || (i < a->n && t[(i + 1) * w + j] >= t[i * w + j + 1]))
                i++;
            else
                j++;
        }
        size_t most = 8 + (o->len < limit ? limit - o->len : 0) / 100; /* lines of one change */
        most = most < MOST_LINES ? most : MOST_LINES;
        both(o, a, i0, i - i0 > most ? i0 + most : i, b, j0, j - j0 > most ? j0 + most : j, true);
        if (i - i0 > most || j - j0 > most)
            dt_str_addf(o, "<tr class=e><td>… %zu more<td>… %zu more\n", i - i0 > most ? i - i0 - most : 0,
                        j - j0 > most ? j - j0 - most : 0);
    }
    if (i < a->n || j < b->n)
        dt_str_addf(o, "<tr class=e><td>… %zu more lines<td>… %zu more lines\n", a->n - i, b->n - j);
}

void rep_differ(struct dt_str *o, const char *left, const char *right, size_t most)
{
    struct text a = {0}, b = {0};
    size_t limit = o->len + most;
    bool ok = text_init(&a, left) && text_init(&b, right);
    if (ok && a.n < UINT16_MAX && b.n < UINT16_MAX && (a.n + 1) * (b.n + 1) <= CELLS) {
        dt_free_ uint16_t *t = table(&a, &b);
        ok = t;
        if (t)
            walk(o, &a, &b, t, limit);
    } else if (ok) {
        dt_str_add(o, "<tr class=e><td>too long to be compared: the beginning of both<td>\n");
        both(o, &a, 0, a.n < 200 ? a.n : 200, &b, 0, b.n < 200 ? b.n : 200, false);
    }
    o->failed |= !ok;
    text_done(&a);
    text_done(&b);
}
