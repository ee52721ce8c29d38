/* The encoder layer of graph.json again, in plain C and double precision: what the kernels' results are held against.
 *
 * Usage: encoder-reference DIR [SEED]. DIR/out.bin is what `dovetail run --dump DIR [--seed SEED]` left. Inputs and
 * weights are made here by the formula of docs/CONTRACT.md §2 (fills), written a second time on purpose: nothing of
 * dovetail is linked. The layer is computed by the textbook, not by following the kernels: no tiles, no reduction
 * trees.
 *
 * Passes (exit status 0) when the file has the right size, no element still holds the pattern 0xFFFFFFFF that a buffer
 * nobody wrote starts with, every element is finite, and ||out - ref|| / ||ref|| < 1e-5. It does not compare single
 * elements: fp32 sums of 1,024 terms differ from double by a few units in the last place.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 128, HIDDEN = 256, HEADS = 4, HEAD = 64, FFN = 1024 };

static double x[TOKENS][HIDDEN], wqkv[HIDDEN][3 * HIDDEN], bqkv[3 * HIDDEN], wo[HIDDEN][HIDDEN], bo[HIDDEN];
static double g1[HIDDEN], b1[HIDDEN], w1[HIDDEN][FFN], c1[FFN], w2[FFN][HIDDEN], c2[HIDDEN], g2[HIDDEN], b2[HIDDEN];
static double pos[TOKENS][TOKENS];
static double qkv[TOKENS][3 * HIDDEN], o[TOKENS][HIDDEN], h[TOKENS][HIDDEN], n[TOKENS][HIDDEN], u[TOKENS][FFN];
static double y[TOKENS][HIDDEN], out[TOKENS][HIDDEN];

static void fill(double *to, size_t count, float lo, float hi, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t z = seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
        z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
        z ^= z >> 31;
        volatile float part = (hi - lo) * ((float)(z >> 40) * 0x1p-24f); /* volatile: never contracted */
        to[i] = lo + part;
    }
}

/* c[rows][cols] = a[rows][inner] * b[inner][cols] + bias[cols] */
static void linear(size_t rows, size_t cols, size_t inner, const double *a, const double *b, const double *bias,
                   double *c)
{
    for (size_t i = 0; i < rows; i++) {
        memcpy(c + i * cols, bias, cols * sizeof *c);
        for (size_t k = 0; k < inner; k++)
            for (size_t j = 0; j < cols; j++)
                c[i * cols + j] += a[i * inner + k] * b[k * cols + j];
    }
}

static void attention(void)
{
    for (int head = 0; head < HEADS; head++)
        for (int i = 0; i < TOKENS; i++) {
            double s[TOKENS], top = -INFINITY, sum = 0;
            for (int j = 0; j < TOKENS; j++) {
                s[j] = 0;
                for (int d = 0; d < HEAD; d++)
                    s[j] += qkv[i][head * HEAD + d] * qkv[j][HIDDEN + head * HEAD + d];
                s[j] = s[j] / sqrt(HEAD) + pos[i][j];
                top = fmax(top, s[j]);
            }
            for (int j = 0; j < TOKENS; j++)
                sum += s[j] = exp(s[j] - top);
            for (int d = 0; d < HEAD; d++) {
                o[i][head * HEAD + d] = 0;
                for (int j = 0; j < TOKENS; j++)
                    o[i][head * HEAD + d] += s[j] / sum * qkv[j][2 * HIDDEN + head * HEAD + d];
            }
        }
}

static void add(double to[TOKENS][HIDDEN], double a[TOKENS][HIDDEN])
{
    for (int i = 0; i < TOKENS; i++)
        for (int j = 0; j < HIDDEN; j++)
            to[i][j] += a[i][j];
}

static void layer_norm(double a[TOKENS][HIDDEN], const double *gamma, const double *beta, double to[TOKENS][HIDDEN])
{
    for (int i = 0; i < TOKENS; i++) {
        double mean = 0, var = 0;
        for (int j = 0; j < HIDDEN; j++)
            mean += a[i][j] / HIDDEN;
        for (int j = 0; j < HIDDEN; j++)
            var += (a[i][j] - mean) * (a[i][j] - mean) / HIDDEN;
        for (int j = 0; j < HIDDEN; j++)
            to[i][j] = (a[i][j] - mean) / sqrt(var + 1e-5) * gamma[j] + beta[j];
    }
}

static void layer(uint64_t seed)
{
    fill(x[0], TOKENS * HIDDEN, -1, 1, 1 + seed);
    fill(wqkv[0], HIDDEN * 3 * HIDDEN, -0.1f, 0.1f, 2);
    fill(bqkv, 3 * HIDDEN, -0.2f, 0.2f, 3);
    fill(wo[0], HIDDEN * HIDDEN, -0.1f, 0.1f, 4);
    fill(bo, HIDDEN, -0.2f, 0.2f, 5);
    fill(g1, HIDDEN, 0.5f, 1.5f, 6);
    fill(b1, HIDDEN, -0.2f, 0.2f, 7);
    fill(w1[0], HIDDEN * FFN, -0.1f, 0.1f, 8);
    fill(c1, FFN, -0.2f, 0.2f, 9);
    fill(w2[0], FFN * HIDDEN, -0.05f, 0.05f, 10);
    fill(c2, HIDDEN, -0.2f, 0.2f, 11);
    fill(g2, HIDDEN, 0.5f, 1.5f, 12);
    fill(b2, HIDDEN, -0.2f, 0.2f, 13);
    fill(pos[0], TOKENS * TOKENS, -1, 1, 14);

    linear(TOKENS, 3 * HIDDEN, HIDDEN, x[0], wqkv[0], bqkv, qkv[0]);
    attention();
    linear(TOKENS, HIDDEN, HIDDEN, o[0], wo[0], bo, h[0]);
    add(h, x);
    layer_norm(h, g1, b1, n);
    linear(TOKENS, FFN, HIDDEN, n[0], w1[0], c1, u[0]);
    for (int i = 0; i < TOKENS; i++)
        for (int j = 0; j < FFN; j++)
            u[i][j] *= 0.5 * (1 + erf(u[i][j] / sqrt(2)));
    linear(TOKENS, HIDDEN, FFN, u[0], w2[0], c2, y[0]);
    add(y, n);
    layer_norm(y, g2, b2, out);
}

int main(int argc, char **argv)
{
    static float got[TOKENS * HIDDEN + 1];
    char path[4096];
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s DIR [SEED]\n", argv[0]);
        return 2;
    }
    snprintf(path, sizeof path, "%s/out.bin", argv[1]);
    FILE *f = fopen(path, "rb");
    size_t count = f ? fread(got, sizeof *got, TOKENS * HIDDEN + 1, f) : 0;
    if (f)
        fclose(f);
    if (count != TOKENS * HIDDEN) {
        fprintf(stderr, "%s: not %d numbers\n", path, TOKENS * HIDDEN);
        return 1;
    }
    layer(argc == 3 ? strtoull(argv[2], NULL, 0) : 0);
    double difference = 0, norm = 0;
    for (int i = 0; i < TOKENS * HIDDEN; i++) {
        uint32_t bits;
        double want = out[i / HIDDEN][i % HIDDEN];
        memcpy(&bits, &got[i], 4);
        if (bits == UINT32_MAX || !isfinite(got[i])) {
            fprintf(stderr, "%s: element %d %s\n", path, i, bits == UINT32_MAX ? "was never written" : "is not finite");
            return 1;
        }
        difference += (got[i] - want) * (got[i] - want);
        norm += want * want;
    }
    double error = sqrt(difference / norm);
    printf("relative error %.3g over %d elements\n", error, TOKENS * HIDDEN);
    return error < 1e-5 ? 0 : 1;
}
