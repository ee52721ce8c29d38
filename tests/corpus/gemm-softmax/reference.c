/* gemm-softmax: p = softmax(a b) by rows. */
#include "../reference.h"

enum { M = 256, N = 128, K = 64 };

static double a[M * K], b[K * N], p[M * N];

int main(int argc, char **argv)
{
    uint64_t seed = reference_seed(argc, argv);
    fill(a, M * K, -1, 1, 1 + seed);
    fill(b, K * N, -1, 1, 2 + seed);
    multiply(M, N, K, a, b, p);
    softmax_rows(p, M, N);
    return compare(argv[1], "p", p, M * N, false, 1e-5) ? 0 : 1;
}
