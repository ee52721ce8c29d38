/* experts: y = gate * relu(x w1_e) w2_e, where tokens are sorted by expert e. */
#include "../reference.h"

enum { T = 128, D = 64 };

static double x[T * D], gate[T], w1[D * 128], w2[128 * D], h[64 * 128], y[T * D];

int main(int argc, char **argv)
{
    static const struct {
        int first, tokens, inner;
    } expert[] = {{0, 64, 128}, {64, 16, 64}, {80, 40, 96}, {120, 8, 32}};
    uint64_t seed = reference_seed(argc, argv);
    fill(x, T * D, -1, 1, 1 + seed);
    fill(gate, T, 0.1f, 0.9f, 2 + seed);
    for (int e = 0; e < 4; e++) {
        int m = expert[e].tokens, f = expert[e].inner;
        fill(w1, (size_t)(D * f), -0.2f, 0.2f, (uint64_t)(10 + e));
        fill(w2, (size_t)(f * D), -0.2f, 0.2f, (uint64_t)(20 + e));
        multiply((size_t)m, (size_t)f, D, x + expert[e].first * D, w1, h);
        for (int i = 0; i < m * f; i++)
            h[i] = fmax(h[i], 0);
        multiply((size_t)m, D, (size_t)f, h, w2, y + expert[e].first * D);
    }
    for (int i = 0; i < T * D; i++)
        y[i] *= gate[i / D];
    return compare(argv[1], "y", y, T * D, false, 1e-5) ? 0 : 1;
}
