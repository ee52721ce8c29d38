/* reduce-dot: o = softmax(x) v in each batch. */
#include "../reference.h"

enum { BATCH = 8, R = 32, C = 64, D = 32 };

static double x[BATCH * R * C], v[BATCH * C * D], o[BATCH * R * D];

int main(int argc, char **argv)
{
    uint64_t seed = reference_seed(argc, argv);
    fill(x, BATCH * R * C, -4, 4, 1 + seed);
    fill(v, BATCH * C * D, -1, 1, 2 + seed);
    softmax_rows(x, BATCH * R, C);
    for (int b = 0; b < BATCH; b++)
        multiply(R, D, C, x + b * R * C, v + b * C * D, o + b * R * D);
    return compare(argv[1], "o", o, BATCH * R * D, false, 1e-5) ? 0 : 1;
}
