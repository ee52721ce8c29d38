/* Sets of bytes as sorted, disjoint, non-touching intervals.
 *
 * Every operation is one linear merge of its operands; results are in the caller's arena, exactly as long as needed
 * or a little longer. A failed allocation leaves the arena's `failed` flag set and gives the empty set: callers
 * check the arena once, at the end of what they build.
 *
 * ana_set_from() makes a set of any list of intervals (sorts and merges); ana_set_add_all() is the union of many
 * sets at once, n log n in their intervals, where repeated unions would be quadratic.
 */
#include "analysis/footprint/footprint.h"

#include <stdlib.h>
#include <string.h>

#include "base/radix.h"

#define MERGED 8 /* ascending runs that are merged; more are sorted */

DT_RADIX(by_lo, struct ana_interval, x->lo)

static int by_lo_slowly(const void *a, const void *b)
{
    const struct ana_interval *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Sort by merging what is ascending already: most of what comes here is a few sorted lists in a row. False: no
 * memory. */
static bool merge_runs(struct ana_interval *iv, size_t n)
{
    struct ana_interval *other = dt_reallocarray(NULL, n, sizeof *other), *from = iv, *to = other;
    if (!other)
        return false;
    for (bool more = true; more;) {
        size_t out = 0;
        more = false;
        for (size_t i = 0; i < n;) {
            size_t j = i + 1, k;
            while (j < n && from[j - 1].lo <= from[j].lo)
                j++;
            for (k = j; k < n && (k == j || from[k - 1].lo <= from[k].lo);)
                k++;
            size_t a = i, b = j;
            while (a < j && b < k)
                to[out++] = from[from[b].lo < from[a].lo ? b++ : a++];
            memcpy(to + out, from + a, (j - a) * sizeof *to);
            out += j - a;
            memcpy(to + out, from + b, (k - b) * sizeof *to);
            out += k - b;
            more |= i > 0 || k < n;
            i = k;
        }
        struct ana_interval *x = from;
        from = to;
        to = x;
    }
    if (from != iv)
        memcpy(iv, from, n * sizeof *iv);
    free(other);
    return true;
}

uint32_t ana_intervals_normalise(struct ana_interval *iv, size_t n)
{
    size_t m = 0, runs = 0;
    for (size_t i = 0; i < n; i++)
        if (iv[i].lo < iv[i].hi)
            iv[m++] = iv[i];
    for (size_t i = 1; i < m && runs < MERGED; i++)
        runs += iv[i - 1].lo > iv[i].lo;
    if (runs && !(runs < MERGED ? merge_runs(iv, m) : by_lo(iv, m)))
        qsort(iv, m, sizeof *iv, by_lo_slowly);
    size_t out = 0;
    for (size_t i = 0; i < m; i++) {
        if (out && iv[i].lo <= iv[out - 1].hi) {
            if (iv[i].hi > iv[out - 1].hi)
                iv[out - 1].hi = iv[i].hi;
        } else {
            iv[out++] = iv[i];
        }
    }
    return (uint32_t)out;
}

struct ana_set ana_set_from(struct dt_arena *a, const struct ana_interval *iv, size_t n)
{
    struct ana_set s = {0};
    struct ana_interval *copy = n ? dt_new_array(a, struct ana_interval, n) : NULL;
    if (!copy)
        return s;
    memcpy(copy, iv, n * sizeof *iv);
    s.n = ana_intervals_normalise(copy, n);
    s.iv = s.n ? copy : NULL;
    return s;
}

struct ana_set ana_set_range(struct dt_arena *a, uint64_t lo, uint64_t hi)
{
    struct ana_interval iv = {lo, hi};
    return ana_set_from(a, &iv, 1);
}

struct ana_set ana_set_union(struct dt_arena *a, struct ana_set x, struct ana_set y)
{
    if (!x.n || (x.iv == y.iv && x.n == y.n))
        return y;
    if (!y.n)
        return x;
    struct ana_set s = {dt_new_array(a, struct ana_interval, (size_t)x.n + y.n), 0};
    if (!s.iv)
        return s;
    uint32_t i = 0, j = 0;
    while (i < x.n || j < y.n) {
        struct ana_interval v = j >= y.n || (i < x.n && x.iv[i].lo <= y.iv[j].lo) ? x.iv[i++] : y.iv[j++];
        if (s.n && v.lo <= s.iv[s.n - 1].hi) {
            if (v.hi > s.iv[s.n - 1].hi)
                s.iv[s.n - 1].hi = v.hi;
        } else {
            s.iv[s.n++] = v;
        }
    }
    return s;
}

struct ana_set ana_set_minus(struct dt_arena *a, struct ana_set x, struct ana_set y)
{
    if (!x.n || !ana_set_overlaps(x, y))
        return x;
    struct ana_set s = {dt_new_array(a, struct ana_interval, (size_t)x.n + y.n), 0};
    if (!s.iv)
        return s;
    uint32_t j = 0;
    for (uint32_t i = 0; i < x.n; i++) {
        uint64_t lo = x.iv[i].lo, hi = x.iv[i].hi;
        while (j < y.n && y.iv[j].hi <= lo)
            j++;
        for (uint32_t k = j; k < y.n && y.iv[k].lo < hi; k++) {
            if (y.iv[k].lo > lo)
                s.iv[s.n++] = (struct ana_interval){lo, y.iv[k].lo};
            lo = y.iv[k].hi;
            j = k;
            if (lo >= hi)
                break;
        }
        if (lo < hi)
            s.iv[s.n++] = (struct ana_interval){lo, hi};
    }
    return s;
}

bool ana_set_overlaps(struct ana_set x, struct ana_set y)
{
    if (!x.n || !y.n || x.iv[x.n - 1].hi <= y.iv[0].lo || y.iv[y.n - 1].hi <= x.iv[0].lo)
        return false;
    for (uint32_t i = 0, j = 0; i < x.n && j < y.n;) {
        if (x.iv[i].lo < y.iv[j].hi && y.iv[j].lo < x.iv[i].hi)
            return true;
        if (x.iv[i].hi < y.iv[j].hi)
            i++;
        else
            j++;
    }
    return false;
}

bool ana_set_contains(struct ana_set x, struct ana_set y)
{
    for (uint32_t i = 0, j = 0; j < y.n; j++) {
        while (i < x.n && x.iv[i].hi < y.iv[j].hi)
            i++;
        if (i >= x.n || x.iv[i].lo > y.iv[j].lo)
            return false;
    }
    return true;
}

uint64_t ana_set_bytes(struct ana_set x)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < x.n; i++)
        n += x.iv[i].hi - x.iv[i].lo;
    return n;
}
