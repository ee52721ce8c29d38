/* tensor-chain: y = relu(a b) c in f16 with wide sums; the intermediate is rounded to f16 as the kernels do, the result
 * is not, so the tolerance is about one rounding to f16 (2^-11). */
#include "../reference.h"

enum { M = 128, N = 128, K = 64 };

static double a[M * K], b[K * N], c[N * K], h[M * N], y[M * K];

int main(int argc, char **argv)
{
    uint64_t seed = reference_seed(argc, argv);
    fill_f16(a, M * K, -1, 1, 1 + seed);
    fill_f16(b, K * N, -0.5f, 0.5f, 2);
    fill_f16(c, N * K, -0.5f, 0.5f, 3);
    multiply(M, N, K, a, b, h);
    for (int i = 0; i < M * N; i++)
        h[i] = fmax(to_f16(h[i]), 0);
    multiply(M, K, N, h, c, y);
    return compare(argv[1], "y", y, M * K, true, 5e-4) ? 0 : 1;
}
