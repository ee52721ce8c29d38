/* h2o: o = softmax of (q k^T / sqrt(D)) under a causal mask, times v; acc[j] = the sum of column j of the softmax. */
#include "../reference.h"

enum { HEADS = 4, T = 128, D = 32 };

static double q[HEADS][T][D], k[HEADS][T][D], v[HEADS][T][D], o[HEADS][T][D], acc[HEADS][T];

int main(int argc, char **argv)
{
    uint64_t seed = reference_seed(argc, argv);
    fill(q[0][0], HEADS * T * D, -1, 1, 1 + seed);
    fill(k[0][0], HEADS * T * D, -1, 1, 2 + seed);
    fill(v[0][0], HEADS * T * D, -1, 1, 3 + seed);
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < T; i++) {
            double p[T];
            for (int j = 0; j <= i; j++) {
                p[j] = 0;
                for (int d = 0; d < D; d++)
                    p[j] += q[h][i][d] * k[h][j][d] / sqrt(D);
            }
            softmax_rows(p, 1, (size_t)i + 1);
            for (int j = 0; j <= i; j++) {
                acc[h][j] += p[j];
                for (int d = 0; d < D; d++)
                    o[h][i][d] += p[j] * v[h][j][d];
            }
        }
    bool ok = compare(argv[1], "o", o[0][0], HEADS * T * D, false, 1e-5);
    return compare(argv[1], "acc", acc[0], HEADS * T, false, 1e-5) && ok ? 0 : 1;
}
