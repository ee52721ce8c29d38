"""Parts of models at the sizes that they have in use: a feed-forward network, attention, H2O's attention, a mixture of
experts. As in transformer.py, in one of two styles: small tiles, or register tiles of 128 x 128. reference.c computes
the first three by the textbook.
"""
import emit
from model import Model, Tensor
from transformer import GELU, Transformer, floats

SIGMOID = """__device__ __noinline__ float silu(float x) {
  return (x / (1.000000e+00f + expf(-x)));
}
"""


def ffn(o):
    """BERT's: up, bias and GELU, down, bias and residual. 5 launches, in register tiles 4."""
    m = Transformer(o.title("ffn"), o.small, o.tokens, o.heads, o.tiles)
    m.feed_forward(m.x, m.x, 0, 111, GELU, m.out)
    return m


def attention(o):
    """BERT's: Q, K, V, scores, softmax, context, the product behind it, bias and residual. 17 launches."""
    m = Transformer(o.title("attention"), o.small, o.tokens, o.heads, o.tiles)
    mask = m.buffer("mask", "input", m.tokens, "i8", span=(0, 8), seed=2)
    m.bert_attention(0, m.x, mask, m.out)
    return m


def h2o(o):
    """Attention that keeps the keys which are looked at most (H2O, NeurIPS 2023): causal, behind Q, K and V by heads,
    and of each key the sum of its probabilities over all queries. 10 launches."""
    m = Transformer(o.title("h2o"), o.small, o.tokens, o.heads, o.tiles, x=False)
    q, k, v = (m.buffer(name, "input", m.flat, span=(-1, 1), seed=seed)
               for seed, name in enumerate(("q", "k", "v"), 1))
    heavy = m.buffer("heavy", "output", m.heads * m.tokens)
    p = m.causal(q, k)
    m.context(p, v, m.out)
    m.launch(emit.column_sum("fused_sum_kernel0", m.heads, m.tokens, m.tokens), [heavy], [p])
    return m


class Experts(Model):
    """A layer of eight experts, as Mixtral's at a quarter of its widths (1024 and 3584), each with its own tokens: two
    of them, eight experts, 16 for all: how the router has sorted them. silu(x gate) * (x up), down; then what an expert
    says of a token counts by the router's weight."""

    def __init__(self, o):
        super().__init__(o.title("experts"))
        self.hidden, self.ffn = (64, 128) if o.small else (1024, 3584)
        # of each expert: two experts a token, shared out unevenly as routers do
        share = (7, 1, 3, 1, 2, 1, 0, 1)
        total = 2 * o.tokens
        self.rows = [total * s // sum(share) for s in share]
        self.rows[0] += total - sum(self.rows)
        self.tiles, self.tokens = o.tiles, o.tokens
        self.x = [self.buffer(f"x{e}", "input", n * self.hidden, span=(-1, 1), seed=1 + e)
                  for e, n in enumerate(self.rows) if n]
        self.rows = [n for n in self.rows if n]
        outs = []
        for e, n in enumerate(self.rows):
            outs.append(self.buffer(f"out{e}", "output", n * self.hidden))
        self.function(SIGMOID if o.tiles == "small" else SIGMOID.replace("__noinline__", "__forceinline__"))
        for e, n in enumerate(self.rows):
            self.expert(e, n, outs[e])

    def dense(self, x, weight, rows, n, k, seed):
        w = self.buffer(weight, "weight", n * k, span=(-0.05, 0.05), seed=seed)
        name = f"fused_nn_dense_{rows}_{n}_{k}_kernel0"
        if self.tiles == "small":
            kernel = emit.matmul(name, 1, rows, n, k, (16, 8), (4 if rows > 16 else 1, 4), 16, across=True)
        elif self.tiles == "scalar":
            kernel = emit.matmul(name, 1, rows, n, k, (16, 16), (8 if rows > 64 else 4, 8), 8, across=True, bounds=True)
        else:
            kernel = emit.matmul_vectors(name, 1, rows, n, k, (8 if rows > 64 else 4, 8), 8)
        return self.launch(kernel, [Tensor(rows * n)], [x, w])

    def expert(self, e, rows, out):
        base = 100 * (e + 1)
        gate = self.dense(self.x[e], f"e{e}_gate", rows, self.ffn, self.hidden, base)
        up = self.dense(self.x[e], f"e{e}_up", rows, self.ffn, self.hidden, base + 1)
        count = rows * self.ffn
        h = self.launch(emit.elementwise(f"fused_silu_multiply_{rows}_kernel0", count,
                                         floats("T_out", "x", "y"), lambda i: f"(silu(x[{i}]) * y[{i}])"),
                        [Tensor(count)], [gate, up])
        y = self.dense(h, f"e{e}_down", rows, self.hidden, self.ffn, base + 2)
        count = rows * self.hidden
        route = self.buffer(f"e{e}_route", "input", rows, span=(0, 1), seed=base + 3)
        self.launch(emit.elementwise(f"fused_multiply_{rows}_kernel0", count, floats("T_out", "x", "route"),
                                     lambda i: f"(x[{i}] * route[({i} / {self.hidden})])"), [out], [y, route])


def experts(o):
    return Experts(o)
