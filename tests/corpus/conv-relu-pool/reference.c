/* conv-relu-pool: convolution 3 x 3, ReLU, max pool 3 x 3 with stride 2. */
#include "../reference.h"

enum { C = 16, O = 16, P = 32, Q = 16 };

static double x[C][P][P], w[O][C][3][3], y[O][P][P], out[O][Q][Q];

static bool inside(int i) { return i >= 0 && i < P; }

int main(int argc, char **argv)
{
    uint64_t seed = reference_seed(argc, argv);
    fill(x[0][0], C * P * P, -1, 1, 1 + seed);
    fill(w[0][0][0], O * C * 9, -0.2f, 0.2f, 2);
    for (int o = 0; o < O; o++)
        for (int r = 0; r < P; r++)
            for (int q = 0; q < P; q++) {
                for (int c = 0; c < C; c++)
                    for (int i = 0; i < 3; i++)
                        for (int j = 0; j < 3; j++)
                            if (inside(r + i - 1) && inside(q + j - 1))
                                y[o][r][q] += x[c][r + i - 1][q + j - 1] * w[o][c][i][j];
                y[o][r][q] = fmax(y[o][r][q], 0);
            }
    for (int o = 0; o < O; o++)
        for (int r = 0; r < Q; r++)
            for (int q = 0; q < Q; q++)
                for (int i = 2 * r - 1; i <= 2 * r + 1; i++)
                    for (int j = 2 * q - 1; j <= 2 * q + 1; j++)
                        if (inside(i) && inside(j))
                            out[o][r][q] = fmax(out[o][r][q], y[o][i][j]); /* never below 0 after ReLU */
    return compare(argv[1], "out", out[0][0], O * Q * Q, false, 1e-5) ? 0 : 1;
}
