/* many-elements: y = x + (gelu(x w1 + b1) w2) / 2, with tanh's form of gelu. */
#include "../reference.h"

enum { T = 128, H = 64, F = 256 };

static double x[T * H], w1[H * F], b1[F], w2[F * H], h[T * F], y[T * H];

int main(int argc, char **argv)
{
    uint64_t seed = reference_seed(argc, argv);
    fill(x, T * H, -1, 1, 1 + seed);
    fill(w1, H * F, -0.2f, 0.2f, 2);
    fill(b1, F, -0.2f, 0.2f, 3);
    fill(w2, F * H, -0.1f, 0.1f, 4);
    multiply(T, F, H, x, w1, h);
    for (int i = 0; i < T * F; i++) {
        double v = h[i] + b1[i % F];
        h[i] = 0.5 * v * (1 + tanh(0.79788456f * (v + 0.044715f * v * v * v)));
    }
    multiply(T, H, F, h, w2, y);
    for (int i = 0; i < T * H; i++)
        y[i] = x[i] + 0.5 * y[i];
    return compare(argv[1], "y", y, T * H, false, 1e-5) ? 0 : 1;
}
