/* ffn: y = gelu(x w1 + b1) w2 + b2 + x. */
#include "../reference.h"

enum { T = 128, H = 128, F = 512 };

static double x[T * H], w1[H * F], b1[F], w2[F * H], b2[H], h[T * F], y[T * H];

int main(int argc, char **argv)
{
    uint64_t seed = reference_seed(argc, argv);
    fill(x, T * H, -1, 1, 1 + seed);
    fill(w1, H * F, -0.1f, 0.1f, 2);
    fill(b1, F, -0.2f, 0.2f, 3);
    fill(w2, F * H, -0.05f, 0.05f, 4);
    fill(b2, H, -0.2f, 0.2f, 5);
    multiply(T, F, H, x, w1, h);
    for (int i = 0; i < T * F; i++) {
        double v = h[i] + b1[i % F];
        h[i] = 0.5 * v * (1 + erf(v / sqrt(2)));
    }
    multiply(T, H, F, h, w2, y);
    for (int i = 0; i < T * H; i++)
        y[i] += b2[i % H] + x[i];
    return compare(argv[1], "y", y, T * H, false, 1e-5) ? 0 : 1;
}
