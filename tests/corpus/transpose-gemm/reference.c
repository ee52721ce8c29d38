/* transpose-gemm: s = q k^T for each head, its transposes side by side times w2. */
#include "../reference.h"

enum { T = 64, D = 32, HEADS = 4, HIDDEN = 128 };

static double x[T * HIDDEN], w[HIDDEN * 2 * HIDDEN], w2[HEADS * T * T], qk[T][2 * HIDDEN], m[T][HEADS * T], y[T * T];

int main(int argc, char **argv)
{
    uint64_t seed = reference_seed(argc, argv);
    fill(x, T * HIDDEN, -1, 1, 1 + seed);
    fill(w, HIDDEN * 2 * HIDDEN, -0.1f, 0.1f, 2);
    fill(w2, HEADS * T * T, -0.1f, 0.1f, 3);
    multiply(T, 2 * HIDDEN, HIDDEN, x, w, qk[0]);
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < T; i++)
            for (int j = 0; j < T; j++)
                for (int d = 0; d < D; d++)
                    m[j][h * T + i] += qk[i][h * D + d] * qk[j][HIDDEN + h * D + d];
    multiply(T, T, HEADS * T, m[0], w2, y);
    return compare(argv[1], "y", y, T * T, false, 1e-5) ? 0 : 1;
}
