/* The models of transformer.py and resnet.py again, in plain C and double precision: what the kernels' results are held
 * against.
 *
 * Usage: models-reference bert|gpt2|resnet|ffn|attention|h2o LAYERS full|small DIR [SEED]. DIR/out.bin is what
 * `dovetail run --dump DIR [--seed SEED]` left. Written from the models' definitions: no launches, no layouts of a
 * kernel, no pool. What is shared with the generator is the list of weights, their ranges and their seeds.
 * corpus/reference.h has fills and comparison.
 */
#include "../corpus/reference.h"

enum { TOKENS = 128, HIDDEN = 768, FFN = 3072, HEADS = 12, HEAD = 64, WIDE = 256, PIXELS = 56 * 56 }; /* at most */
static size_t tokens = TOKENS, heads = HEADS, hidden = HIDDEN, ffn = FFN, channels = WIDE / 4, side = 56;

static double weight[FFN * HIDDEN], vec[FFN]; /* one at a time */

static const double *vector(size_t count, float lo, float hi, uint64_t seed)
{
    fill(vec, count, lo, hi, seed);
    return vec;
}

/* out[tokens][n] = in[tokens][k] times a weight [n][k] of seed `seed`, plus a bias of the next seed. */
static void dense(const double *in, double *out, size_t n, size_t k, uint64_t seed)
{
    fill(weight, n * k, -0.05f, 0.05f, seed);
    const double *bias = vector(n, -0.2f, 0.2f, seed + 1);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < tokens; i++) {
            const double *x = in + i * k, *w = weight + j * k;
            double sum[4] = {0};
            for (size_t r = 0; r < k; r += 4)
                for (size_t c = 0; c < 4; c++)
                    sum[c] += x[r + c] * w[r + c];
            out[i * n + j] = sum[0] + sum[1] + sum[2] + sum[3] + bias[j];
        }
}

static void layer_norm(double *x, uint64_t seed)
{
    static double gamma[HIDDEN];
    fill(gamma, hidden, 0.5f, 1.5f, seed);
    const double *beta = vector(hidden, -0.2f, 0.2f, seed + 1);
    for (double *row = x; row < x + tokens * hidden; row += hidden) {
        double mean = 0, var = 0;
        for (size_t j = 0; j < hidden; j++)
            mean += row[j] / (double)hidden;
        for (size_t j = 0; j < hidden; j++)
            var += (row[j] - mean) * (row[j] - mean) / (double)hidden;
        for (size_t j = 0; j < hidden; j++)
            row[j] = (row[j] - mean) / sqrt(var + 1e-5) * gamma[j] + beta[j];
    }
}

static double heavy[HEADS * TOKENS]; /* of each key: what all queries give to it */

/* q, k, v: [tokens][stride]; mask: [tokens], 0 for what nobody sees, or NULL: none sees a later one. */
static void attention(const double *q, const double *k, const double *v, size_t stride, const int *mask, double *out)
{
    static double p[TOKENS];
    for (size_t head = 0; head < heads; head++)
        for (size_t i = 0; i < tokens; i++) {
            for (size_t j = 0; j < tokens; j++) {
                double sum = 0;
                for (size_t d = head * HEAD; d < (head + 1) * HEAD; d++)
                    sum += q[i * stride + d] * k[j * stride + d];
                p[j] = (mask ? mask[j] != 0 : j <= i) ? sum / sqrt(HEAD) : -INFINITY;
            }
            softmax_rows(p, 1, tokens);
            for (size_t j = 0; j < tokens; j++)
                heavy[head * tokens + j] += p[j];
            for (size_t d = head * HEAD; d < (head + 1) * HEAD; d++) {
                out[i * hidden + d] = 0;
                for (size_t j = 0; j < tokens; j++)
                    out[i * hidden + d] += p[j] * v[j * stride + d];
            }
        }
}

static void add(double *to, const double *more, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += more[i];
}

static double gelu_erf(double x) { return 0.5 * x * (1 + erf(x / sqrt(2))); }
static double gelu_tanh(double x) { return 0.5 * x * (1 + tanh(0.7978846 * (x + 0.044715 * x * x * x))); }

static void feed_forward(const double *in, double *out, double (*activation)(double), uint64_t seed)
{
    static double wide[TOKENS * FFN];
    dense(in, wide, ffn, hidden, seed);
    for (size_t i = 0; i < tokens * ffn; i++)
        wide[i] = activation(wide[i]);
    dense(wide, out, hidden, ffn, seed + 2);
}

static double x[TOKENS * HIDDEN], qkv[3 * TOKENS * HIDDEN], h[TOKENS * HIDDEN], n[TOKENS * HIDDEN];

static void attend(const int *mask, uint64_t base)
{
    for (uint64_t part = 0; part < 3; part++)
        dense(x, qkv + part * tokens * hidden, hidden, hidden, base + 1 + 2 * part);
    attention(qkv, qkv + tokens * hidden, qkv + 2 * tokens * hidden, hidden, mask, n);
    dense(n, h, hidden, hidden, base + 7);
    add(h, x, tokens * hidden);
}

static void bert_layer(const int *mask, uint64_t base)
{
    attend(mask, base);
    layer_norm(h, base + 9);
    feed_forward(h, x, gelu_erf, base + 11);
    add(x, h, tokens * hidden);
    layer_norm(x, base + 15);
}

static void gpt2_layer(uint64_t base)
{
    memcpy(n, x, tokens * hidden * sizeof *n);
    layer_norm(n, base + 1);
    dense(n, qkv, 3 * hidden, hidden, base + 3);
    attention(qkv, qkv + hidden, qkv + 2 * hidden, 3 * hidden, NULL, n);
    dense(n, h, hidden, hidden, base + 5);
    add(h, x, tokens * hidden);
    memcpy(n, h, tokens * hidden * sizeof *n);
    layer_norm(n, base + 7);
    feed_forward(n, x, gelu_tanh, base + 9);
    add(x, h, tokens * hidden);
}

/* A convolution with zeros around the image, weights of seed `seed`, then scale and shift of the next two. */
static void convolution(const double *in, double *out, size_t cin, size_t cout, int window, uint64_t seed)
{
    static double scale[WIDE];
    const int line = (int)side, edge = window / 2, taps = window * window;
    float reach = window > 1 ? 0.1f : 0.2f;
    fill(weight, cin * cout * (size_t)taps, -reach, reach, seed);
    fill(scale, cout, 0.5f, 1.5f, seed + 1);
    const double *shift = vector(cout, -0.2f, 0.2f, seed + 2), *w = weight;
    memset(out, 0, cout * side * side * sizeof *out);
    for (size_t o = 0; o < cout; o++, out += side * side) {
        for (size_t i = 0; i < cin; i++)
            for (int tap = 0; tap < taps; tap++, w++) {
                int dr = tap / window - edge, dc = tap % window - edge;
                for (int r = dr < 0 ? -dr : 0; r < line && r + dr < line; r++)
                    for (int s = dc < 0 ? -dc : 0; s < line && s + dc < line; s++)
                        out[r * line + s] += *w * in[((int)i * line + r + dr) * line + s + dc];
            }
        for (size_t at = 0; at < side * side; at++)
            out[at] = out[at] * scale[o] + shift[o];
    }
}

static void relu(double *y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        y[i] = fmax(y[i], 0);
}

static double image[WIDE * PIXELS];

static void bottleneck(bool first, uint64_t base)
{
    static double a[WIDE / 4 * PIXELS], b[WIDE / 4 * PIXELS], y[WIDE * PIXELS], past[WIDE * PIXELS];
    size_t few = channels * side * side, many = 4 * few;
    convolution(image, a, first ? channels : 4 * channels, channels, 1, base + 1);
    relu(a, few);
    convolution(a, b, channels, channels, 3, base + 4);
    relu(b, few);
    convolution(b, y, channels, 4 * channels, 1, base + 7);
    if (first)
        convolution(image, past, channels, 4 * channels, 1, base + 10);
    add(y, first ? past : image, many);
    relu(y, many);
    memcpy(image, y, many * sizeof *y);
}

static bool transformer(bool bert, uint64_t layers, const char *dir, uint64_t seed)
{
    int mask[TOKENS];
    fill(x, tokens * hidden, -1, 1, 1 + seed);
    for (size_t i = 0; i < tokens; i++)
        mask[i] = (int)floor((double)fill_part(i, 0, 8, 2 + seed));
    for (uint64_t base = 100; base <= 100 * layers; base += 100)
        if (bert)
            bert_layer(mask, base);
        else
            gpt2_layer(base);
    return compare(dir, "out", x, tokens * hidden, false, 1e-5);
}

/* A part of BERT's layer: what is before its first norm, or between its norms. */
static bool part(bool ffn_part, const char *dir, uint64_t seed)
{
    int mask[TOKENS];
    fill(x, tokens * hidden, -1, 1, 1 + seed);
    for (size_t i = 0; i < tokens; i++)
        mask[i] = (int)floor((double)fill_part(i, 0, 8, 2 + seed));
    if (ffn_part) {
        feed_forward(x, h, gelu_erf, 111);
        add(h, x, tokens * hidden);
    } else {
        attend(mask, 100);
    }
    return compare(dir, "out", h, tokens * hidden, false, 1e-5);
}

/* Q and K come by heads, [heads][tokens][HEAD], V as [heads][HEAD][tokens]; Q is not scaled by the kernels, so it is
 * made larger here by what the textbook divides by. */
static bool h2o(const char *dir, uint64_t seed)
{
    size_t part = tokens * hidden;
    for (uint64_t which = 0; which < 3; which++) {
        fill(x, part, -1, 1, which + 1 + seed);
        for (size_t i = 0; i < part; i++) {
            size_t head = i / (tokens * HEAD), in = i % (tokens * HEAD);
            size_t token = which == 2 ? in % tokens : in / HEAD, d = which == 2 ? in / tokens : in % HEAD;
            qkv[which * part + token * hidden + head * HEAD + d] = x[i] * (which ? 1 : sqrt(HEAD));
        }
    }
    attention(qkv, qkv + part, qkv + 2 * part, hidden, NULL, n);
    return compare(dir, "out", n, part, false, 1e-5) && compare(dir, "heavy", heavy, heads * tokens, false, 1e-5);
}

static bool resnet(uint64_t layers, const char *dir, uint64_t seed)
{
    fill(image, channels * side * side, 0, 1, 1 + seed);
    for (uint64_t base = 100; base <= 100 * layers; base += 100)
        bottleneck(base == 100, base);
    return compare(dir, "out", image, 4 * channels * side * side, false, 1e-5);
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: %s bert|gpt2|resnet|ffn|attention|h2o LAYERS full|small DIR [SEED]\n", argv[0]);
        return 2;
    }
    uint64_t layers = strtoull(argv[2], NULL, 0), seed = argc == 6 ? strtoull(argv[5], NULL, 0) : 0;
    if (!strcmp(argv[3], "small"))
        tokens = 32, heads = 3, hidden = 192, ffn = 768, channels = 32, side = 28;
    bool ffn_part = !strcmp(argv[1], "ffn");
    bool ok = ffn_part || !strcmp(argv[1], "attention") ? part(ffn_part, argv[4], seed)
              : !strcmp(argv[1], "resnet")              ? resnet(layers, argv[4], seed)
              : !strcmp(argv[1], "h2o")                 ? h2o(argv[4], seed)
                                                        : transformer(!strcmp(argv[1], "bert"), layers, argv[4], seed);
    return ok ? 0 : 1;
}
