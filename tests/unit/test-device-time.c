/* Quantiles of measured times (device/time.c): between two values a quantile is in proportion, at the ends it is the
 * end. The interval that is published rests on quantiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device/time.c"

static void quantiles(void **state)
{
    static const struct {
        double v[5];
        unsigned n;
        double q, want;
    } row[] = {{{3}, 1, 0, 3},
               {{3}, 1, 0.5, 3},
               {{3}, 1, 1, 3},
               {{1, 2}, 2, 0.5, 1.5},
               {{1, 5}, 2, 0.25, 2},
               {{1, 5}, 2, 0.75, 4},
               {{1, 5}, 2, 1, 5},
               {{1, 2, 9}, 3, 0.5, 2},
               {{1, 2, 9}, 3, 0.75, 5.5},
               {{1, 2, 9}, 3, 0.25, 1.5},
               {{0, 1, 4, 9}, 4, 0.5, 2.5},
               {{0, 1, 4, 9}, 4, 0.75, 5.25},
               {{0, 1, 4, 9, 16}, 5, 0.75, 9},
               {{0, 1, 4, 9, 16}, 5, 1, 16}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++)
        if (fabs(at(row[k].v, row[k].n, row[k].q) - row[k].want) > 1e-12)
            fail_msg("row %zu: %g", k, at(row[k].v, row[k].n, row[k].q));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(quantiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
