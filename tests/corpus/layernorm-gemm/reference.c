/* layernorm-gemm: y = layer_norm(x) w + b. */
#include "../reference.h"

enum { T = 128, H = 128, N = 256 };

static double x[T * H], gamma_[H], beta[H], w[H * N], b[N], y[T * N];

int main(int argc, char **argv)
{
    uint64_t seed = reference_seed(argc, argv);
    fill(x, T * H, -1, 3, 1 + seed);
    fill(gamma_, H, 0.5f, 1.5f, 2);
    fill(beta, H, -0.2f, 0.2f, 3);
    fill(w, H * N, -0.1f, 0.1f, 4);
    fill(b, N, -0.2f, 0.2f, 5);
    for (int i = 0; i < T; i++) {
        double mean = 0, var = 0, *row = x + i * H;
        for (int j = 0; j < H; j++)
            mean += row[j] / H;
        for (int j = 0; j < H; j++)
            var += (row[j] - mean) * (row[j] - mean) / H;
        for (int j = 0; j < H; j++)
            row[j] = (row[j] - mean) / sqrt(var + 1e-5) * gamma_[j] + beta[j];
    }
    multiply(T, N, H, x, w, y);
    for (int i = 0; i < T * N; i++)
        y[i] += b[i % N];
    return compare(argv[1], "y", y, T * N, false, 1e-5) ? 0 : 1;
}
