"""Triton kernels of a Llama-like layer as they stand in models that nobody has fused: products, and each operator
between them a kernel. What `write.py` compiles.

Matrices are row-major; weights are (out, in) like those of a linear layer, so a product is rows by rows. BM, BN, BK: a
tile, of which every shape is a multiple.
"""
import triton
import triton.language as tl


# ---- products --------------------------------------------------------------------------------------------------------

@triton.jit
def linear(x, w, y, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """y = x w^T, by the tensor cores."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, K, BK):
        xt = tl.load(x + m[:, None] * K + (i + k)[None, :])
        wt = tl.load(w + n[None, :] * K + (i + k)[:, None])
        acc = tl.dot(xt, wt, acc)
    tl.store(y + m[:, None] * N + n[None, :], acc.to(y.dtype.element_ty))


@triton.jit
def linear_tma(x, w, y, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """The same, operands and result by copies of tensors."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(x.load([m, k]), w.load([n, k]).T, acc)
    y.store([m, n], acc.to(y.dtype))


@triton.jit
def linear_row(x, w, y, K, BN: tl.constexpr, BK: tl.constexpr):
    """The same of one row of x, without tensor cores: BN outputs a block."""
    n, k = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BN, BK), dtype=tl.float32)
    for i in range(0, K, BK):
        wt = tl.load(w + n[:, None] * K + (i + k)[None, :]).to(tl.float32)
        acc += wt * tl.load(x + i + k).to(tl.float32)[None, :]
    tl.store(y + n, tl.sum(acc, 1).to(y.dtype.element_ty))


# ---- element by element ----------------------------------------------------------------------------------------------

@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.jit
def mul(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, i < n) * tl.load(y + i, i < n), i < n)


@triton.jit
def silu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n).to(tl.float32)
    tl.store(y + i, (v * tl.sigmoid(v)).to(y.dtype.element_ty), i < n)


@triton.jit
def cast(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n).to(y.dtype.element_ty), i < n)


@triton.jit
def scale_rows(x, ms, y, n, N, eps, BLOCK: tl.constexpr):
    """y = x / sqrt(ms + eps), ms a number for each row of N"""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, (tl.load(x + i, i < n) * tl.rsqrt(tl.load(ms + i // N, i < n) + eps)).to(y.dtype.element_ty), i < n)


@triton.jit
def scale_columns(x, w, y, n, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) * tl.load(w + i % N, i < n), i < n)


@triton.jit
def rotary(x, cos, sin, y, HEADS: tl.constexpr, HALF: tl.constexpr):
    """Block (row, head): x1 cos - x2 sin, x2 cos + x1 sin of the head's halves."""
    row, head, i = tl.program_id(0), tl.program_id(1), tl.arange(0, HALF)
    at = (row * HEADS + head) * 2 * HALF + i
    c, s = tl.load(cos + row * HALF + i), tl.load(sin + row * HALF + i)
    p, q = tl.load(x + at).to(tl.float32), tl.load(x + at + HALF).to(tl.float32)
    tl.store(y + at, (p * c - q * s).to(y.dtype.element_ty))
    tl.store(y + at + HALF, (q * c + p * s).to(y.dtype.element_ty))


# ---- rows ------------------------------------------------------------------------------------------------------------

@triton.jit
def rms_norm(x, w, y, N, eps, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * N + i, i < N, other=0.0).to(tl.float32)
    v = v * tl.rsqrt(tl.sum(v * v, 0) / N + eps)
    tl.store(y + row * N + i, v.to(y.dtype.element_ty) * tl.load(w + i, i < N), i < N)


@triton.jit
def mean_square(x, ms, N, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * N + i, i < N, other=0.0)
    tl.store(ms + row, tl.sum(v * v, 0) / N)


# ---- attention -------------------------------------------------------------------------------------------------------

@triton.jit
def attention(q, k, v, o, scale, HEADS: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Causal, forward; block (tile of rows, head). Rows of HEADS * D elements."""
    head, m = tl.program_id(1), tl.program_id(0) * BM + tl.arange(0, BM)
    n, d = tl.arange(0, BN), tl.arange(0, D)
    qt = tl.load(q + (m[:, None] * HEADS + head) * D + d[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for j in range(0, (tl.program_id(0) + 1) * BM, BN):
        kt = tl.load(k + ((j + n)[None, :] * HEADS + head) * D + d[:, None])
        s = tl.where((j + n)[None, :] <= m[:, None], tl.dot(qt, kt) * scale, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - higher[:, None])
        less = tl.exp(top - higher)
        total = total * less + tl.sum(p, 1)
        vt = tl.load(v + ((j + n)[:, None] * HEADS + head) * D + d[None, :])
        acc = tl.dot(p.to(vt.dtype), vt, acc * less[:, None])
        top = higher
    tl.store(o + (m[:, None] * HEADS + head) * D + d[None, :], (acc / total[:, None]).to(o.dtype.element_ty))


@triton.jit
def attention_row(q, k, v, kc, vc, o, scale, S, HEADS: tl.constexpr, D: tl.constexpr, BN: tl.constexpr):
    """One token behind S others, whose keys and values are in kc and vc; a block a head."""
    head, n, d = tl.program_id(0), tl.arange(0, BN), tl.arange(0, D)
    qt = tl.load(q + head * D + d).to(tl.float32)
    top = tl.sum(qt * tl.load(k + head * D + d).to(tl.float32), 0) * scale
    total = 1.0
    acc = tl.load(v + head * D + d).to(tl.float32)
    for j in range(0, S, BN):
        at = ((j + n)[:, None] * HEADS + head) * D + d[None, :]
        s = tl.sum(qt[None, :] * tl.load(kc + at).to(tl.float32), 1) * scale
        higher = tl.maximum(top, tl.max(s, 0))
        p = tl.exp(s - higher)
        less = tl.exp(top - higher)
        total = total * less + tl.sum(p, 0)
        acc = acc * less + tl.sum(p[:, None] * tl.load(vc + at).to(tl.float32), 0)
        top = higher
    tl.store(o + head * D + d, (acc / total).to(o.dtype.element_ty))
