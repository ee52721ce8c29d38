#!/usr/bin/env python3
"""layer.py OUT [--tokens N] [--tma]: one layer of a model of Llama 2's shape (hidden 4096, 32 heads
of 128, MLP of 11008, f16) in kernels.py, as a graph to measure: OUT/graph.json and its PTX, for sm_90.

Thirteen launches: norm, products to q, k and v, two rotary embeddings, attention, product with output weights, sum
and norm, product to gate and up, gated unit, product down, sum. --tokens: a multiple of 16. --tma: products take
their operands, and store, by tensor descriptors. Nothing is compared here: values.py does that for the kernels at
small sizes.
"""
import argparse
import os
import sys

import make
from make import k

HIDDEN, HEADS, D, MLP = 4096, 32, 128, 11008


def product(a, b, c, M, N, K, tma):
    bm, bn = (16 if M < 64 else 64 if M < 512 else 128), 128
    stages = dict(num_warps=4 if bm < 128 else 8, num_stages=3)
    grid = (M // bm, N // bn)
    if tma and bm >= 64:
        k.matmul_tma[grid](a.tiles(bm, 64), b.tiles(64, bn), c.tiles(bm, bn), K, BM=bm, BN=bn, BK=64, **stages)
    else:
        k.matmul[grid](a, b, c, M, N, K, BM=bm, BN=bn, BK=64, **stages)


def layer(t, M, tma):
    x, r = t("x", M, HIDDEN), t("r", M, HIDDEN)
    norm1, norm2 = (t(n, HIDDEN, role="weight", dtype="float32") for n in ("norm1", "norm2"))
    weights = {n: t(n, *shape, role="weight", lo=-.02, hi=.02) for n, shape in (
        ("wq", (HIDDEN, HIDDEN)), ("wk", (HIDDEN, HIDDEN)), ("wv", (HIDDEN, HIDDEN)), ("wo", (HIDDEN, HIDDEN)),
        ("wgu", (HIDDEN, 2 * MLP)), ("wd", (MLP, HIDDEN)))}
    cos, sin = (t(n, M, D // 2, dtype="float32") for n in ("cos", "sin"))
    s1, n1, q, kk, v, q1, k1, o, p, s2, n2 = (t.inner(n, M, HIDDEN) for n in
                                              ("s1", "n1", "q", "k", "v", "q1", "k1", "o", "p", "s2", "n2"))
    gu, g, d, y = t.inner("gu", M, 2 * MLP), t.inner("g", M, MLP), t.inner("d", M, HIDDEN), t.out("y", M, HIDDEN)
    k.add_rms_norm[(M,)](x, r, norm1, s1, n1, HIDDEN, 1e-5, BLOCK=HIDDEN, num_warps=8)
    for w, to in ("wq", q), ("wk", kk), ("wv", v):
        product(n1, weights[w], to, M, HIDDEN, HIDDEN, tma)
    for of, to in (q, q1), (kk, k1):
        k.rotary[(M, HEADS)](of, cos, sin, to, HEADS=HEADS, HALF=D // 2, num_warps=1)
    tile = min(64, M)
    k.attention[(M // tile, HEADS)](q1, k1, v, o, M, D ** -.5, HEADS=HEADS, D=D, BM=tile, BN=tile,
                                    num_warps=4 if tile == 64 else 1)  # of four, some would store what others store
    product(o, weights["wo"], p, M, HIDDEN, HIDDEN, tma)
    k.add_rms_norm[(M,)](p, s1, norm2, s2, n2, HIDDEN, 1e-5, BLOCK=HIDDEN, num_warps=8)
    product(n2, weights["wgu"], gu, M, 2 * MLP, HIDDEN, tma)
    k.silu_mul[(M, MLP // 256)](gu, g, MLP, BLOCK=256, num_warps=2)
    product(g, weights["wd"], d, M, HIDDEN, MLP, tma)
    k.residual[(M * HIDDEN // 1024,)](d, s2, y, M * HIDDEN, BLOCK=1024)


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    a.add_argument("out")
    a.add_argument("--tokens", type=int, default=16)
    a.add_argument("--tma", action="store_true")
    args = a.parse_args()
    name = f"llama-layer-{args.tokens}{'-tma' if args.tma else ''}"
    make.CASES[name] = ("sm_90", lambda t: layer(t, args.tokens, args.tma))
    os.makedirs(args.out, exist_ok=True)
    for file, content in make.made(name).items():
        with open(os.path.join(args.out, file), "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
    print(name)


if __name__ == "__main__":
    sys.exit(main())
