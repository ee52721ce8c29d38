/* Medians with an interval that assumes nothing about the distribution, and rank correlation.
 *
 * The interval of a median is a pair of order statistics: of n values, the number below the true median is binomial (n,
 * 1/2), so [x(j), x(n + 1 - j)] covers it with probability 1 - 2 P(B < j) (David and Nagaraja, Order Statistics, 7.1).
 * j is the largest for which that is 95 % or more; there is none below n = 6, and the least and the most are given.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "device/measure.h"

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void dev_stats(double *v, unsigned n, struct dev_stats *ret)
{
    qsort(v, n, sizeof *v, ascending);
    unsigned j = 0;
    double below = 0, ln2 = log(2);
    for (unsigned k = 0; k < n / 2; k++) { /* P(B = k) by logarithms: 2^-n is not a double for long */
        below += exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) - n * ln2);
        if (below > 0.025)
            break;
        j = k + 1;
    }
    j = j ? j : 1;
    *ret = (struct dev_stats){.median = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2,
                              .lo = v[j - 1],
                              .hi = v[n - j],
                              .min = v[0],
                              .max = v[n - 1],
                              .n = n};
}

struct ranked {
    double value, rank;
    unsigned at;
};

static int by_value(const void *a, const void *b)
{
    return ascending(&((const struct ranked *)a)->value, &((const struct ranked *)b)->value);
}

static void ranks(const double *v, unsigned n, struct ranked *r, double *out)
{
    for (unsigned i = 0; i < n; i++)
        r[i] = (struct ranked){v[i], 0, i};
    qsort(r, n, sizeof *r, by_value);
    for (unsigned i = 0, k; i < n; i = k) {
        for (k = i; k < n && r[k].value <= r[i].value; k++)
            ;
        for (unsigned q = i; q < k; q++)
            out[r[q].at] = (i + k - 1) / 2.0;
    }
}

double dev_rank_correlation(const double *x, const double *y, unsigned n)
{
    if (n < 2)
        return 0;
    dt_free_ struct ranked *r = dt_calloc(n, sizeof *r);
    dt_free_ double *a = dt_calloc(n, sizeof *a), *b = dt_calloc(n, sizeof *b);
    if (!r || !a || !b)
        return NAN;
    ranks(x, n, r, a);
    ranks(y, n, r, b);
    double mean = (n - 1) / 2.0, ab = 0, aa = 0, bb = 0;
    for (unsigned i = 0; i < n; i++) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}
