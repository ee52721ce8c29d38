"""The models: who computes what from what, in which tile. reference.c computes the same by the textbook."""
import emit
from model import Model, Tensor

TOKENS, HIDDEN, HEADS, HEAD, FFN = 128, 768, 12, 64, 3072
FLAT, SCORES = TOKENS * HIDDEN, HEADS * TOKENS * TOKENS
EPSILON = "1.000000e-05f"

ERF = """__device__ __noinline__ float erf_scaled(float x) {
  return erff(x * 7.071068e-01f);
}
"""
MASKED = """__device__ __noinline__ float masked_score(float x, int seen) {
  return ((seen != 0) ? x : -__int_as_float(0x7f800000));
}
"""


def bias_of(i, width):
    return f"bias[({i} % {width})]"


def dense(model, x, weight, n, k, seed):
    """x[TOKENS][k] -> [TOKENS][n]: blocks of 48 threads, or of 200 that do not divide the columns."""
    out = Tensor(TOKENS * n)
    w = model.buffer(weight, "weight", n * k, span=(-0.05, 0.05), seed=seed)
    if n > HIDDEN:
        kernel = emit.matmul(f"fused_nn_dense_{n}_{k}_kernel0", 1, TOKENS, n, k, (25, 8), (4, 4), 16,
                             across=True)
    else:
        kernel = emit.matmul(f"fused_nn_dense_{n}_{k}_kernel0", 1, TOKENS, n, k, (12, 4), (8, 4), 12,
                             across=True, bounds=True)
    return model.launch(kernel, [out], [x, w])


def vector(model, name, count, span, seed):
    return model.buffer(name, "weight", count, span=span, seed=seed)


def heads_of(model, name, x, bias, value):
    """[TOKENS][HIDDEN] plus its bias, laid out anew; `value(i)`: the element that comes to i of the new layout."""
    kernel = emit.elementwise(name, FLAT, [("float", "T_out"), ("float", "x"), ("float", "bias")], value)
    return model.launch(kernel, [Tensor(FLAT)], [x, bias])


def to_heads(i, end=""):
    """Element i of [HEADS][TOKENS][HEAD]."""
    at = emit.split_heads(i, HEADS, TOKENS, HEAD)
    return f"(x[({at})] + bias[((({i} / {TOKENS * HEAD}) * {HEAD}) + ({i} % {HEAD}))]){end}"


def to_heads_across(i):
    """Element i of [HEADS][HEAD][TOKENS]."""
    column = f"((({i} / {TOKENS * HEAD}) * {HEAD}) + (({i} % {TOKENS * HEAD}) / {TOKENS}))"
    return f"(x[((({i} % {TOKENS}) * {HIDDEN}) + {column})] + bias[{column}])"


def softmax(model, x):
    """Four passes: greatest, exp, sum, divide."""
    pair = [("float", "T_out"), ("float", "x"), ("float", "row")]
    top = model.launch(emit.row_fold("fused_nn_softmax_kernel0", HEADS * TOKENS, TOKENS, "-3.402823e+38f",
                                     lambda a, b: f"max({a}, {b})"), [Tensor(HEADS * TOKENS)], [x])
    powers = model.launch(emit.elementwise("fused_nn_softmax_kernel1", SCORES, pair,
                                           lambda i: f"expf((x[{i}] - row[({i} / {TOKENS})]))"),
                          [Tensor(SCORES)], [x, top])
    total = model.launch(emit.row_fold("fused_nn_softmax_kernel2", HEADS * TOKENS, TOKENS, "0.000000e+00f",
                                       lambda a, b: f"({a} + {b})"), [Tensor(HEADS * TOKENS)], [powers])
    return model.launch(emit.elementwise("fused_nn_softmax_kernel3", SCORES, pair,
                                         lambda i: f"(x[{i}] / row[({i} / {TOKENS})])"),
                        [Tensor(SCORES)], [powers, total])


def layer_norm(model, x, gamma, beta, out=None):
    """Six launches: sums, mean, sums of squares, variance, the normal form, a copy in another shape."""
    scale = emit.elementwise("fused_mean_kernel1", TOKENS, [("float", "T_out"), ("float", "x")],
                             lambda i: f"(x[{i}] * {1 / HIDDEN:.6e}f)")
    sums = model.launch(emit.row_sum("fused_mean_kernel0", TOKENS, HIDDEN, [], lambda i, row: f"x[{i}]"),
                        [Tensor(TOKENS)], [x])
    mean = model.launch(scale, [Tensor(TOKENS)], [sums])
    squares = model.launch(emit.row_sum("fused_variance_kernel0", TOKENS, HIDDEN, [("float", "mean")],
                                        lambda i, row: f"((x[{i}] - mean[{row}]) * (x[{i}] - mean[{row}]))"),
                           [Tensor(TOKENS)], [x, mean])
    variance = model.launch(scale, [Tensor(TOKENS)], [squares])
    params = [("float", n) for n in ("T_out", "x", "mean", "variance", "gamma", "beta")]
    normal = model.launch(emit.elementwise(
        "fused_subtract_add_sqrt_divide_multiply_add_kernel0", FLAT, params,
        lambda i: f"((((x[{i}] - mean[({i} / {HIDDEN})]) / sqrtf((variance[({i} / {HIDDEN})] + {EPSILON}))) * "
                  f"gamma[({i} % {HIDDEN})]) + beta[({i} % {HIDDEN})])"),
        [Tensor(FLAT)], [x, mean, variance, gamma, beta])
    return model.launch(emit.copy("fused_reshape_kernel0", FLAT), [out or Tensor(FLAT)], [normal])


def scores_of(model, q, k):
    kernel = emit.matmul("fused_nn_batch_matmul_kernel0", HEADS, TOKENS, TOKENS, HEAD, (16, 8), (4, 4), 16)
    return model.launch(kernel, [Tensor(SCORES)], [q, k])


def context_of(model, p, v):
    """Blocks of 48 threads and 12 rows, which do not divide the tokens; then back to [TOKENS][HIDDEN]."""
    kernel = emit.matmul("fused_nn_batch_matmul_1_kernel0", HEADS, TOKENS, HEAD, TOKENS, (16, 3), (4, 4), 16)
    apart = model.launch(kernel, [Tensor(FLAT)], [p, v])
    return model.launch(emit.copy("fused_reshape_transpose_copy_reshape_kernel0", FLAT,
                                  lambda i: emit.merge_heads(i, HEADS, TOKENS, HEAD)), [Tensor(FLAT)], [apart])


def add_residual(model, x, bias, residual):
    params = [("float", n) for n in ("T_out", "x", "bias", "residual")]
    return model.launch(emit.elementwise("fused_reshape_add_add_kernel0", FLAT, params,
                                         lambda i: f"((x[{i}] + {bias_of(i, HIDDEN)}) + residual[{i}])"),
                        [Tensor(FLAT)], [x, bias, residual])


def bert_layer(model, layer, x, mask, out):
    """One encoder layer, 34 launches."""
    base = 100 * (layer + 1)
    name = lambda what: f"l{layer}_{what}"
    bias = lambda what, count, seed: vector(model, name(what), count, (-0.2, 0.2), base + seed)
    q = dense(model, x, name("wq"), HIDDEN, HIDDEN, base + 1)
    q = heads_of(model, "fused_reshape_add_reshape_transpose_divide_reshape_kernel0", q, bias("bq", HIDDEN, 2),
                 lambda i: f"({to_heads(i)} * 1.250000e-01f)")
    k = dense(model, x, name("wk"), HIDDEN, HIDDEN, base + 3)
    k = heads_of(model, "fused_reshape_add_reshape_transpose_reshape_kernel0", k, bias("bk", HIDDEN, 4), to_heads)
    s = scores_of(model, q, k)
    model.function(MASKED)
    s = model.launch(emit.elementwise("fused_reshape_cast_broadcast_where_kernel0", SCORES,
                                      [("float", "T_out"), ("float", "x"), ("signed char", "mask")],
                                      lambda i: f"masked_score(x[{i}], ((int)mask[({i} % {TOKENS})]))"),
                     [Tensor(SCORES)], [s, mask])
    p = softmax(model, s)
    p = model.launch(emit.copy("fused_reshape_1_kernel0", SCORES), [Tensor(SCORES)], [p])
    v = dense(model, x, name("wv"), HIDDEN, HIDDEN, base + 5)
    v = heads_of(model, "fused_reshape_add_reshape_transpose_transpose_kernel0", v, bias("bv", HIDDEN, 6),
                 to_heads_across)
    c = context_of(model, p, v)
    o = dense(model, c, name("wo"), HIDDEN, HIDDEN, base + 7)
    h = add_residual(model, o, bias("bo", HIDDEN, 8), x)
    h = layer_norm(model, h, vector(model, name("g1"), HIDDEN, (0.5, 1.5), base + 9), bias("b1", HIDDEN, 10))
    f = dense(model, h, name("w1"), FFN, HIDDEN, base + 11)
    f = model.launch(emit.elementwise("fused_reshape_add_kernel0", TOKENS * FFN,
                                      [("float", n) for n in ("T_out", "x", "bias")],
                                      lambda i: f"(x[{i}] + {bias_of(i, FFN)})"),
                     [Tensor(TOKENS * FFN)], [f, bias("c1", FFN, 12)])
    model.function(ERF)
    f = model.launch(emit.elementwise("fused_multiply_erf_multiply_add_multiply_reshape_kernel0", TOKENS * FFN,
                                      [("float", "T_out"), ("float", "x")],
                                      lambda i: f"(x[{i}] * ((erf_scaled(x[{i}]) * 5.000000e-01f) + 5.000000e-01f))"),
                     [Tensor(TOKENS * FFN)], [f])
    y = dense(model, f, name("w2"), HIDDEN, FFN, base + 13)
    y = add_residual(model, y, bias("c2", HIDDEN, 14), h)
    return layer_norm(model, y, vector(model, name("g2"), HIDDEN, (0.5, 1.5), base + 15), bias("b2", HIDDEN, 16), out)


def bert(layers):
    """BERT-base's encoder: 128 tokens, 768 hidden, 12 heads."""
    model = Model(f"bert-{layers}")
    x = model.buffer("x", "input", FLAT, span=(-1, 1), seed=1)
    mask = model.buffer("mask", "input", TOKENS, "i8", span=(0, 8), seed=2)
    out = model.buffer("out", "output", FLAT)
    for layer in range(layers):
        x = bert_layer(model, layer, x, mask, out if layer == layers - 1 else None)
    return model
