/* prologue-epilogue: y = transpose of relu(relu6(x * g + b) w + bias). */
#include "../reference.h"

enum { M = 128, N = 128, K = 64 };

static double x[M * K], g[K], b[K], w[K * N], bias[N], c[M * N], y[N * M];

int main(int argc, char **argv)
{
    uint64_t seed = reference_seed(argc, argv);
    fill(x, M * K, -4, 4, 1 + seed);
    fill(g, K, 0.5f, 1.5f, 2);
    fill(b, K, -0.5f, 0.5f, 3);
    fill(w, K * N, -0.2f, 0.2f, 4);
    fill(bias, N, -0.5f, 0.5f, 5);
    for (int i = 0; i < M * K; i++)
        x[i] = fmin(fmax(x[i] * g[i % K] + b[i % K], 0), 6);
    multiply(M, N, K, x, w, c);
    for (int i = 0; i < M * N; i++)
        y[i % N * M + i / N] = fmax(c[i] + bias[i % N], 0);
    return compare(argv[1], "y", y, M * N, false, 1e-5) ? 0 : 1;
}
