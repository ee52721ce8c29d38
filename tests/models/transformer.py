"""BERT and GPT-2: who computes what from what, in which tile. reference.c computes the same by the textbook.

Tensors are flat: [tokens][hidden], by heads [heads][tokens][head] or, for V, [heads][head][tokens]. `l0_wq` is a buffer
of layer 0; the seeds of a layer's weights follow each other, from a hundred and on.
"""
import emit
from model import Model, Tensor

EPSILON = "1.000000e-05f"
ERF = """__device__ __noinline__ float erf_scaled(float x) {
  return erff(x * 7.071068e-01f);
}
"""
TANH = """__device__ __noinline__ float gelu_tanh(float x) {
  return ((5.000000e-01f * x) * (1.000000e+00f + tanhf((7.978846e-01f * (x + (4.471500e-02f * ((x * x) * x)))))));
}
"""
GELU = ("fused_multiply_erf_multiply_add_multiply_reshape_kernel0", ERF,
        lambda x: f"({x} * ((erf_scaled({x}) * 5.000000e-01f) + 5.000000e-01f))")
MASKED = """__device__ __noinline__ float masked_score(float x, int seen) {
  return ((seen != 0) ? x : -__int_as_float(0x7f800000));
}
"""


def floats(*names):
    return [("float", n) for n in names]


class Transformer(Model):
    """`tiles`: of products. `small`: of 48 to 200 threads, 4 to 8 rows and columns a thread. `scalar` and `vector`:
    register tiles of 128 x 128 (dense) or 128 x 64, by blocks of (16, 16) threads that keep 8 x 8 or 8 x 4 sums each
    and move single elements or four; then bias and activation are one launch."""

    def __init__(self, name, small, tokens=128, heads=12, tiles="small", x=True):
        super().__init__(name)
        self.tokens, self.heads, self.head = (32, 3, 64) if small else (tokens, heads, 64)
        self.tiles = tiles
        self.hidden = self.heads * self.head
        self.ffn, self.flat, self.squares = 4 * self.hidden, self.tokens * self.hidden, self.heads * self.tokens ** 2
        self.x = self.buffer("x", "input", self.flat, span=(-1, 1), seed=1) if x else None
        self.out = self.buffer("out", "output", self.flat)

    def bias(self, layer, what, count, seed):
        return self.buffer(f"l{layer}_{what}", "weight", count, span=(-0.2, 0.2), seed=seed)

    def elementwise(self, name, count, params, ins, value, out=None):
        """A launch that computes `count` elements, each from its own index."""
        return self.launch(emit.elementwise(name, count, [("float", "T_out"), *params], value),
                           [out or Tensor(count)], ins)

    def wide(self, name, batch, m, n, k, columns):
        if self.tiles == "vector":
            return emit.matmul_vectors(name, batch, m, n, k, (8, columns), 8)
        return emit.matmul(name, batch, m, n, k, (16, 16), (8, columns), 8, across=True, bounds=True)

    def dense(self, x, weight, n, k, seed):
        """[tokens][k] -> [tokens][n]: blocks of 48 threads, or of 200, whose tiles do not divide the columns."""
        name, out = f"fused_nn_dense_{n}_{k}_kernel0", Tensor(self.tokens * n)
        w = self.buffer(weight, "weight", n * k, span=(-0.05, 0.05), seed=seed)
        if self.tiles != "small":
            kernel = self.wide(name, 1, self.tokens, n, k, 8)
        elif n > self.hidden:
            kernel = emit.matmul(name, 1, self.tokens, n, k, (25, 8), (4, 4), 16, across=True)
        else:
            threads, depth = ((12, 4), 12) if self.hidden % 12 == 0 else ((16, 4), 16)
            kernel = emit.matmul(name, 1, self.tokens, n, k, threads, (8, 4), depth, across=True, bounds=True)
        return self.launch(kernel, [out], [x, w])

    def by_heads(self, i, width=None, first=0, across=False):
        """Element i of [heads][tokens][head], or `across` of [heads][head][tokens], of x [tokens][width] from column
        `first` and on, plus its bias."""
        plane = self.tokens * self.head
        row = f"({i} % {self.tokens})" if across else f"(({i} % {plane}) / {self.head})"
        inner = f"(({i} % {plane}) / {self.tokens})" if across else f"({i} % {self.head})"
        column = f"((({i} / {plane}) * {self.head}) + {inner})"
        column = f"({column} + {first})" if first else column
        return f"(x[(({row} * {width or self.hidden}) + {column})] + bias[{column}])"

    def softmax(self, x):
        """Four launches: greatest, exp, sum, divide."""
        rows, width = self.heads * self.tokens, self.tokens
        top = self.launch(emit.row_fold("fused_nn_softmax_kernel0", rows, width, "-3.402823e+38f",
                                        lambda a, b: f"max({a}, {b})"), [Tensor(rows)], [x])
        powers = self.elementwise("fused_nn_softmax_kernel1", self.squares, floats("x", "row"), [x, top],
                                  lambda i: f"expf((x[{i}] - row[({i} / {width})]))")
        total = self.launch(emit.row_fold("fused_nn_softmax_kernel2", rows, width, "0.000000e+00f",
                                          lambda a, b: f"({a} + {b})"), [Tensor(rows)], [powers])
        return self.elementwise("fused_nn_softmax_kernel3", self.squares, floats("x", "row"), [powers, total],
                                lambda i: f"(x[{i}] / row[({i} / {width})])")

    def attend(self, q, k, seen, params, ins):
        """Probabilities of attention: scores, -inf for those that are not `seen(i)`, softmax, a copy."""
        shape = ("fused_nn_batch_matmul_kernel0", self.heads, self.tokens, self.tokens, self.head)
        kernel = emit.matmul(*shape, (16, 8), (4, 4), 16) if self.tiles == "small" else self.wide(*shape, 8)
        s = self.launch(kernel, [Tensor(self.squares)], [q, k])
        self.function(MASKED)
        s = self.elementwise("fused_reshape_cast_broadcast_where_kernel0", self.squares, [("float", "x"), *params],
                             [s, *ins], lambda i: f"masked_score(x[{i}], {seen(i)})")
        return self.launch(emit.copy("fused_reshape_1_kernel0", self.squares), [Tensor(self.squares)],
                           [self.softmax(s)])

    def causal(self, q, k):
        """Probabilities of attention that sees no later token."""
        return self.attend(q, k, lambda i: f"((int)(({i} % {self.tokens}) <= (({i} / {self.tokens}) % {self.tokens})))",
                           [], [])

    def context(self, p, v, out=None):
        """Blocks of 48 threads and 12 rows, which do not divide the tokens, or in register tiles of 128 rows; then
        [tokens][hidden] again."""
        width, plane = self.heads * self.head, self.tokens * self.head
        shape = ("fused_nn_batch_matmul_1_kernel0", self.heads, self.tokens, self.head, self.tokens)
        kernel = emit.matmul(*shape, (16, 3), (4, 4), 16) if self.tiles == "small" else self.wide(*shape, 4)
        apart = self.launch(kernel, [Tensor(self.flat)], [p, v])
        kernel = emit.copy("fused_reshape_transpose_copy_reshape_kernel0", self.flat, lambda i: (
            f"((((({i} % {width}) / {self.head}) * {plane}) + (({i} / {width}) * {self.head})) + ({i} % {self.head}))"))
        return self.launch(kernel, [out or Tensor(self.flat)], [apart])

    def add_residual(self, x, bias, residual, out=None):
        return self.elementwise("fused_reshape_add_add_kernel0", self.flat, floats("x", "bias", "residual"),
                                [x, bias, residual],
                                lambda i: f"((x[{i}] + bias[({i} % {self.hidden})]) + residual[{i}])", out)

    def layer_norm(self, x, layer, which, seed, out=None):
        """Six launches: sums, mean, sums of squares, variance, the normal form, a copy in another shape."""
        gamma = self.buffer(f"l{layer}_g{which}", "weight", self.hidden, span=(0.5, 1.5), seed=seed)
        beta = self.bias(layer, f"b{which}", self.hidden, seed + 1)
        rows, width = self.tokens, self.hidden

        def mean_of(sums):
            return self.elementwise("fused_mean_kernel1", rows, floats("x"), [sums],
                                    lambda i: f"(x[{i}] * {1 / width:.6e}f)")

        mean = mean_of(self.launch(emit.row_sum("fused_mean_kernel0", rows, width, [], lambda i, row: f"x[{i}]"),
                                   [Tensor(rows)], [x]))
        kernel = emit.row_sum("fused_variance_kernel0", rows, width, floats("mean"),
                              lambda i, row: f"((x[{i}] - mean[{row}]) * (x[{i}] - mean[{row}]))")
        variance = mean_of(self.launch(kernel, [Tensor(rows)], [x, mean]))
        normal = self.elementwise(
            "fused_subtract_add_sqrt_divide_multiply_add_kernel0", self.flat,
            floats("x", "mean", "variance", "gamma", "beta"), [x, mean, variance, gamma, beta],
            lambda i: f"((((x[{i}] - mean[({i} / {width})]) / sqrtf((variance[({i} / {width})] + {EPSILON}))) * "
                      f"gamma[({i} % {width})]) + beta[({i} % {width})])")
        return self.launch(emit.copy("fused_reshape_kernel0", self.flat), [out or Tensor(self.flat)], [normal])

    def feed_forward(self, x, residual, layer, seed, activation, out=None):
        """Two dense layers; the bias and the `activation` (name, function, its call) between them as a launch each, or
        as one."""
        name, function, value = activation
        count = self.tokens * self.ffn
        f = self.dense(x, f"l{layer}_w1", self.ffn, self.hidden, seed)
        bias = self.bias(layer, "c1", self.ffn, seed + 1)
        self.function(function if self.tiles == "small" else function.replace("__noinline__", "__forceinline__"))
        if self.tiles != "small":
            f = self.elementwise(f"fused_add_{name}", count, floats("x", "bias"), [f, bias],
                                 lambda i: value(f"(x[{i}] + bias[({i} % {self.ffn})])"))
        else:
            f = self.elementwise("fused_reshape_add_kernel0", count, floats("x", "bias"), [f, bias],
                                 lambda i: f"(x[{i}] + bias[({i} % {self.ffn})])")
            f = self.elementwise(name, count, floats("x"), [f], lambda i: value(f"x[{i}]"))
        y = self.dense(f, f"l{layer}_w2", self.hidden, self.ffn, seed + 2)
        return self.add_residual(y, self.bias(layer, "c2", self.hidden, seed + 3), residual, out)

    def bert_attention(self, layer, x, mask, out=None):
        """17 launches: what comes before the first norm."""
        base = 100 * (layer + 1)

        def projected(letter, seed, name, value):
            y = self.dense(x, f"l{layer}_w{letter}", self.hidden, self.hidden, base + seed)
            return self.elementwise(name, self.flat, floats("x", "bias"),
                                    [y, self.bias(layer, f"b{letter}", self.hidden, base + seed + 1)], value)

        q = projected("q", 1, "fused_reshape_add_reshape_transpose_divide_reshape_kernel0",
                      lambda i: f"({self.by_heads(i)} * 1.250000e-01f)")
        k = projected("k", 3, "fused_reshape_add_reshape_transpose_reshape_kernel0", self.by_heads)
        p = self.attend(q, k, lambda i: f"((int)mask[({i} % {self.tokens})])", [("signed char", "mask")], [mask])
        v = projected("v", 5, "fused_reshape_add_reshape_transpose_transpose_kernel0",
                      lambda i: self.by_heads(i, across=True))
        o = self.dense(self.context(p, v), f"l{layer}_wo", self.hidden, self.hidden, base + 7)
        return self.add_residual(o, self.bias(layer, "bo", self.hidden, base + 8), x, out)

    def bert_layer(self, layer, x, mask, out):
        """34 launches."""
        base = 100 * (layer + 1)
        h = self.layer_norm(self.bert_attention(layer, x, mask), layer, 1, base + 9)
        return self.layer_norm(self.feed_forward(h, h, layer, base + 11, GELU), layer, 2, base + 15, out)

    def gpt2_layer(self, layer, x, out):
        """32 launches: the norm comes first, Q, K and V from one product, and no token sees a later one."""
        base, wide = 100 * (layer + 1), 3 * self.hidden
        n = self.layer_norm(x, layer, 1, base + 1)
        qkv = self.dense(n, f"l{layer}_wqkv", wide, self.hidden, base + 3)
        bias = self.bias(layer, "bqkv", wide, base + 4)

        def part(name, value):
            return self.elementwise(f"fused_split_add_reshape_{name}_kernel0", self.flat, floats("x", "bias"),
                                    [qkv, bias], value)

        q = part("transpose_divide", lambda i: f"({self.by_heads(i, wide)} * 1.250000e-01f)")
        k = part("transpose", lambda i: self.by_heads(i, wide, self.hidden))
        v = part("transpose_transpose", lambda i: self.by_heads(i, wide, 2 * self.hidden, across=True))
        o = self.dense(self.context(self.causal(q, k), v), f"l{layer}_wo", self.hidden, self.hidden, base + 5)
        h = self.add_residual(o, self.bias(layer, "bo", self.hidden, base + 6), x)
        return self.feed_forward(self.layer_norm(h, layer, 2, base + 7), h, layer, base + 9, (
            "fused_power_multiply_add_tanh_multiply_kernel0", TANH, lambda x: f"gelu_tanh({x})"), out)


def titled(o, name):
    """bert-12, or of other sizes than these models have if nothing is said, gpt2-1-large-wide-512."""
    rest = o.title("")
    return f"{name}-{o.layers}" + (rest if rest != "-128" else "")


def bert(o):
    model = Transformer(titled(o, "bert"), o.small, o.tokens, o.heads, o.tiles)
    mask = model.buffer("mask", "input", model.tokens, "i8", span=(0, 8), seed=2)
    x = model.x
    for layer in range(o.layers):
        x = model.bert_layer(layer, x, mask, model.out if layer == o.layers - 1 else None)
    return model


def gpt2(o):
    model = Transformer(titled(o, "gpt2"), o.small, o.tokens, o.heads, o.tiles)
    x = model.x
    for layer in range(o.layers):
        x = model.gpt2_layer(layer, x, model.out if layer == o.layers - 1 else None)
    return model
