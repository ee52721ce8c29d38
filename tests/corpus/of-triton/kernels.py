"""Triton kernels of our own, as people write them today: what `make.py` compiles into the graphs `../triton-*`.

Matrices are row-major. Products take operands by pointers, or by tensor descriptors of the host (`…_tma`) or of the
kernel itself (`…_own`). BM, BN, BK: a tile; every shape is a multiple of its tile unless a mask says otherwise.
"""
import triton
import triton.language as tl


# ---- products --------------------------------------------------------------------------------------------------------

@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, K, BK):
        at = tl.load(a + m[:, None] * K + (i + k)[None, :])
        bt = tl.load(b + (i + k)[:, None] * N + n[None, :])
        acc = tl.dot(at, bt, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_tma(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(c.dtype))


@triton.jit
def matmul_loads(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    at = (m + tl.arange(0, BM))[:, None] * N + (n + tl.arange(0, BN))[None, :]
    tl.store(c + at, acc.to(c.dtype.element_ty))


@triton.jit
def matmul_own(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(da.load([m, k]), db.load([k, n]), acc)
    dc.store([m, n], acc.to(c.dtype.element_ty))


@triton.jit
def matmul_persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    """Block p of P does tiles p, p + P, …, in groups of GROUP rows of tiles."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        group = tile // (GROUP * tiles_n)
        rows = min(tiles_m - group * GROUP, GROUP)
        m = (group * GROUP + tile % (GROUP * tiles_n) % rows) * BM
        n = tile % (GROUP * tiles_n) // rows * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
        c.store([m, n], acc.to(c.dtype))


@triton.jit
def matmul_grouped(a, b, c, first, N, K, GROUPS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Rows first[g] to first[g + 1] of a by matrix g of b; block p of P does tiles p, p + P, … of all groups."""
    tile = tl.program_id(0)
    last = 0
    for g in range(GROUPS):
        lo, hi = tl.load(first + g), tl.load(first + g + 1)
        tiles_m, tiles_n = tl.cdiv(hi - lo, BM), tl.cdiv(N, BN)
        while tile >= last and tile < last + tiles_m * tiles_n:
            m = lo + (tile - last) // tiles_n * BM + tl.arange(0, BM)
            n = (tile - last) % tiles_n * BN + tl.arange(0, BN)
            k = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for i in range(0, K, BK):
                at = tl.load(a + m[:, None] * K + (i + k)[None, :], m[:, None] < hi, other=0.0)
                bt = tl.load(b + g * K * N + (i + k)[:, None] * N + n[None, :])
                acc = tl.dot(at, bt, acc)
            tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), m[:, None] < hi)
            tile += tl.num_programs(0)
        last += tiles_m * tiles_n


@triton.jit
def matmul_int8(a, b, c, scale_a, scale_b, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for i in range(0, K, BK):
        at = tl.load(a + m[:, None] * K + (i + k)[None, :])
        bt = tl.load(b + (i + k)[:, None] + n[None, :] * K)
        acc += tl.dot(at, bt, out_dtype=tl.int32)
    v = acc.to(tl.float32) * tl.load(scale_a + m)[:, None] * tl.load(scale_b + n)[None, :]
    tl.store(c + m[:, None] * N + n[None, :], v.to(c.dtype.element_ty))


@triton.jit
def matmul_fp8(a, b, c, scale, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, K, BK):
        at = tl.load(a + m[:, None] * K + (i + k)[None, :])
        bt = tl.load(b + (i + k)[:, None] + n[None, :] * K)
        acc = tl.dot(at, bt, acc)
    tl.store(c + m[:, None] * N + n[None, :], (acc * scale).to(c.dtype.element_ty))


# ---- element by element ----------------------------------------------------------------------------------------------

@triton.jit
def bias_gelu(x, bias, y, n, N, BLOCK: tl.constexpr):
    """0.5 v (1 + erf(v / sqrt 2)) of v = x + bias"""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n).to(tl.float32) + tl.load(bias + i % N, i < n).to(tl.float32)
    tl.store(y + i, (0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))).to(y.dtype.element_ty), i < n)


@triton.jit
def bias_relu(x, bias, y, n, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n).to(tl.float32) + tl.load(bias + i % N, i < n)
    tl.store(y + i, tl.maximum(v, 0.0).to(y.dtype.element_ty), i < n)


@triton.jit
def gelu(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n).to(tl.float32)
    tl.store(y + i, (0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))).to(y.dtype.element_ty), i < n)


@triton.jit
def silu_mul(x, y, N, BLOCK: tl.constexpr):
    """Rows of 2 N elements: silu of the first half times the second."""
    row, i = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(x + row * 2 * N + i, i < N).to(tl.float32)
    u = tl.load(x + row * 2 * N + N + i, i < N).to(tl.float32)
    tl.store(y + row * N + i, (g * tl.sigmoid(g) * u).to(y.dtype.element_ty), i < N)


@triton.jit
def residual(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


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
def softmax(x, y, N, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * N + i, i < N, other=-float("inf")).to(tl.float32)
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * N + i, (v / tl.sum(v, 0)).to(y.dtype.element_ty), i < N)


@triton.jit
def softmax_rows(x, y, rows, N, BLOCK: tl.constexpr):
    """Every row that is a grid apart."""
    i = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=1):
        v = tl.load(x + row * N + i, i < N, other=-float("inf")).to(tl.float32)
        v = tl.exp(v - tl.max(v, 0))
        tl.store(y + row * N + i, (v / tl.sum(v, 0)).to(y.dtype.element_ty), i < N)


@triton.jit
def layer_norm(x, w, b, y, N, eps, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * N + i, i < N, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / N
    d = tl.where(i < N, v - mean, 0.0)
    r = 1 / tl.sqrt(tl.sum(d * d, 0) / N + eps)
    v = d * r * tl.load(w + i, i < N) + tl.load(b + i, i < N)
    tl.store(y + row * N + i, v.to(y.dtype.element_ty), i < N)


@triton.jit
def add_rms_norm(x, r, w, s, y, N, eps, BLOCK: tl.constexpr):
    """s = x + r; y = s / rms(s) * w"""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * N + i, i < N, other=0.0).to(tl.float32)
    v += tl.load(r + row * N + i, i < N, other=0.0).to(tl.float32)
    tl.store(s + row * N + i, v.to(s.dtype.element_ty), i < N)
    v = v * (1 / tl.sqrt(tl.sum(v * v, 0) / N + eps)) * tl.load(w + i, i < N).to(tl.float32)
    tl.store(y + row * N + i, v.to(y.dtype.element_ty), i < N)


# ---- attention -------------------------------------------------------------------------------------------------------

@triton.jit
def attention(q, k, v, o, S, scale, HEADS: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
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
def attention_tma(q, k, v, o, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """As above, q, k, v and o as matrices of S rows and HEADS * D columns."""
    head, first = tl.program_id(1) * D, tl.program_id(0) * BM
    m, n = first + tl.arange(0, BM), tl.arange(0, BN)
    qt = q.load([first, head])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for j in range(0, first + BM, BN):
        kt = k.load([j, head])
        s = tl.where((j + n)[None, :] <= m[:, None], tl.dot(qt, kt.T) * scale, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - higher[:, None])
        less = tl.exp(top - higher)
        total = total * less + tl.sum(p, 1)
        vt = v.load([j, head])
        acc = tl.dot(p.to(vt.dtype), vt, acc * less[:, None])
        top = higher
    o.store([first, head], (acc / total[:, None]).to(o.dtype))
