/* What every sample's reference.c shares: fills by the formula of docs/CONTRACT.md §2, and the comparison. Nothing of
 * dovetail is linked, and the formula is written down here a second time on purpose.
 *
 * A reference computes its graph's outputs by the textbook in double precision, without tiles and reduction trees, and
 * holds what `dovetail run --dump DIR [--seed SEED]` left against them: usage `NAME-reference DIR [SEED]`. An output
 * passes when its file has the right size, every element is finite (a buffer that nobody wrote holds NaNs, 0xFF), and
 * ||got - want|| / ||want|| is under the tolerance. Single elements are not compared: fp32 sums of hundreds of terms
 * differ from double in the last places. Rounding to f16 is gcc's _Float16, to nearest even.
 */
#ifndef CORPUS_REFERENCE_H
#define CORPUS_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline float fill_part(size_t i, float lo, float hi, uint64_t seed)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    /* volatile: rounded, never contracted */
    volatile float width = hi - lo, part = width * ((float)(z >> 40) * 0x1p-24f);
    volatile float sum = lo + part;
    return sum;
}

static inline void fill(double *to, size_t count, float lo, float hi, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (double)fill_part(i, lo, hi, seed);
}

static inline double to_f16(double v) { return (double)(_Float16)(float)v; }

static inline void fill_f16(double *to, size_t count, float lo, float hi, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        to[i] = to_f16((double)fill_part(i, lo, hi, seed));
}

/* c[rows][cols] = a[rows][inner] b[inner][cols] */
static inline void multiply(size_t rows, size_t cols, size_t inner, const double *a, const double *b, double *c)
{
    memset(c, 0, rows * cols * sizeof *c);
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < inner; k++)
            for (size_t j = 0; j < cols; j++)
                c[i * cols + j] += a[i * inner + k] * b[k * cols + j];
}

/* Each row of count elements becomes its softmax. */
static inline void softmax_rows(double *x, size_t rows, size_t count)
{
    for (size_t i = 0; i < rows; i++, x += count) {
        double top = -INFINITY, sum = 0;
        for (size_t j = 0; j < count; j++)
            top = fmax(top, x[j]);
        for (size_t j = 0; j < count; j++)
            sum += x[j] = exp(x[j] - top);
        for (size_t j = 0; j < count; j++)
            x[j] /= sum;
    }
}

/* DIR/NAME.bin, count elements of 4 bytes (f32) or 2 (f16), against `want`. True: it passes. */
static inline bool compare(const char *dir, const char *name, const double *want, size_t count, bool half,
                           double tolerance)
{
    char path[4096];
    size_t size = half ? 2 : 4;
    unsigned char *got = malloc(count * size + 1);
    snprintf(path, sizeof path, "%s/%s.bin", dir, name);
    FILE *f = fopen(path, "rb");
    size_t bytes = f && got ? fread(got, 1, count * size + 1, f) : 0;
    double difference = 0, norm = 0;
    bool ok = bytes == count * size;
    if (f)
        fclose(f);
    if (!ok)
        fprintf(stderr, "%s: not %zu numbers\n", path, count);
    for (size_t i = 0; ok && i < count; i++) {
        double v;
        if (half) {
            _Float16 h;
            memcpy(&h, got + i * 2, 2);
            v = (double)(float)h;
        } else {
            float s;
            memcpy(&s, got + i * 4, 4);
            v = (double)s;
        }
        if (!isfinite(v)) {
            fprintf(stderr, "%s: element %zu was never written, or is not finite\n", path, i);
            ok = false;
        }
        difference += (v - want[i]) * (v - want[i]);
        norm += want[i] * want[i];
    }
    free(got);
    if (ok) {
        double error = sqrt(difference / norm);
        printf("%s: relative error %.3g over %zu elements\n", name, error, count);
        ok = error < tolerance;
    }
    return ok;
}

/* The seed of the command line; exits with 2 on wrong usage. */
static inline uint64_t reference_seed(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s DIR [SEED]\n", argv[0]);
        exit(2);
    }
    return argc == 3 ? strtoull(argv[2], NULL, 0) : 0;
}

#endif
