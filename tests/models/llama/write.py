#!/usr/bin/env python3
"""write.py [NAME…]: the parts of a Llama-like layer, compiled from unfused.py by the Triton that is installed.

    write.py             writes NAME.json and the kernels' PTX
    write.py --check     compiles anew and says what differs from what is there; exit status 1 where something does

hidden 4096, 32 heads of 128, MLP of 11008, for sm_90 (those that end in -80: sm_80); `attention`, `mlp` and `norm` of
1, 16 and 512 tokens. One token is behind 512 others. README.md of ../ says what is in them. A kernel that several
graphs have in one form is one file. As in tests/corpus/of-triton/make.py, whose functions these are, no GPU is needed.
"""
import hashlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../corpus/of-triton")]

import make  # noqa: E402
import unfused as k  # noqa: E402

HIDDEN, HEADS, D, MLP, CACHED = 4096, 32, 128, 11008, 512
BLOCK = 1024  # of elements of an element-wise kernel


class Part:
    """Tensors and launches of one type of elements."""

    def __init__(self, t, tokens, dtype, tma=False):
        self.t, self.M, self.dtype, self.tma = t, tokens, dtype, tma

    def given(self, name, *shape, dtype=None, **more):
        return self.t(name, *shape, dtype=dtype or self.dtype, **more)

    def weight(self, name, *shape):
        return self.given(name, *shape, role="weight", **(dict(lo=-.02, hi=.02) if len(shape) == 2 else {}))

    def inner(self, name, *shape, dtype=None):
        return self.t.inner(name, *shape, dtype=dtype or self.dtype)

    def out(self, name, *shape):
        return self.t.out(name, *shape, dtype=self.dtype)

    def linear(self, x, w, y):
        (n, kk), m = w.shape, self.M
        if m == 1:
            k.linear_row[(n // 16,)](x, w, y, kk, BN=16, BK=256, num_warps=4)
        elif m < 128:
            k.linear[(m // 16, n // 64)](x, w, y, n, kk, BM=16, BN=64, BK=128, num_warps=4, num_stages=4)
        elif self.tma:
            k.linear_tma[(m // 128, n // 128)](x.tiles(128, 64), w.tiles(128, 64), y.tiles(128, 128), kk, BM=128,
                                               BN=128, BK=64, num_warps=8, num_stages=4)
        else:
            k.linear[(m // 128, n // 128)](x, w, y, n, kk, BM=128, BN=128, BK=64, num_warps=8, num_stages=3)

    def each(self, kernel, *tensors, n):
        kernel[(-(-n // BLOCK),)](*tensors, n, BLOCK=BLOCK, num_warps=4)

    def rms_norm(self, x, w, y):
        k.rms_norm[(self.M,)](x, w, y, HIDDEN, 1e-5, BLOCK=HIDDEN, num_warps=8)


def attention(p):
    """Norm, products to queries, keys and values, rotary embedding of two of them, attention, product, residual."""
    x, w = p.given("x", p.M, HIDDEN), p.weight("norm", HIDDEN)
    wq, wk, wv, wo = (p.weight(n, HIDDEN, HIDDEN) for n in ("wq", "wk", "wv", "wo"))
    cos, sin = (p.given(n, p.M, D // 2, dtype="float32") for n in ("cos", "sin"))
    n, q, kk, v, q1, k1, o, a = (p.inner(n, p.M, HIDDEN) for n in ("n", "q", "k", "v", "q1", "k1", "o", "a"))
    y = p.out("y", p.M, HIDDEN)
    p.rms_norm(x, w, n)
    for weights, to in (wq, q), (wk, kk), (wv, v):
        p.linear(n, weights, to)
    for of, to in (q, q1), (kk, k1):
        k.rotary[(p.M, HEADS)](of, cos, sin, to, HEADS=HEADS, HALF=D // 2, num_warps=1)
    if p.M == 1:
        kc, vc = (p.given(n, CACHED, HIDDEN) for n in ("kc", "vc"))
        k.attention_row[(HEADS,)](q1, k1, v, kc, vc, o, D ** -.5, CACHED, HEADS=HEADS, D=D, BN=32, num_warps=4)
    else:
        tile = min(64, p.M)  # of 16 rows four warps would do the same, and store to the same places
        k.attention[(p.M // tile, HEADS)](q1, k1, v, o, D ** -.5, HEADS=HEADS, D=D, BM=tile, BN=tile,
                                          num_warps=4 if tile == 64 else 1)
    p.linear(o, wo, a)
    p.each(k.add, a, x, y, n=p.M * HIDDEN)


def mlp(p):
    """Norm, products to gate and up, silu, the product of both, product down, residual."""
    x, w = p.given("x", p.M, HIDDEN), p.weight("norm", HIDDEN)
    wg, wu, wd = p.weight("wg", MLP, HIDDEN), p.weight("wu", MLP, HIDDEN), p.weight("wd", HIDDEN, MLP)
    n, d, y = p.inner("n", p.M, HIDDEN), p.inner("d", p.M, HIDDEN), p.out("y", p.M, HIDDEN)
    g, u, s, h = (p.inner(n, p.M, MLP) for n in "gush")
    p.rms_norm(x, w, n)
    p.linear(n, wg, g)
    p.linear(n, wu, u)
    p.each(k.silu, g, s, n=p.M * MLP)
    p.each(k.mul, s, u, h, n=p.M * MLP)
    p.linear(h, wd, d)
    p.each(k.add, d, x, y, n=p.M * HIDDEN)


def norm(p):
    """Residual, then the norm as models in Python have it: to single precision, the rows' mean squares, each element by
    its row's, back to half, by the weight of its column."""
    x, r, w = p.given("x", p.M, HIDDEN), p.given("r", p.M, HIDDEN), p.weight("norm", HIDDEN)
    s, f, ms = p.out("s", p.M, HIDDEN), p.inner("f", p.M, HIDDEN, dtype="float32"), p.inner("ms", p.M, dtype="float32")
    h, b, y = p.inner("h", p.M, HIDDEN, dtype="float32"), p.inner("b", p.M, HIDDEN), p.out("y", p.M, HIDDEN)
    n = p.M * HIDDEN
    grid = (n // BLOCK,)
    p.each(k.add, x, r, s, n=n)
    p.each(k.cast, s, f, n=n)
    k.mean_square[(p.M,)](f, ms, HIDDEN, BLOCK=HIDDEN, num_warps=8)
    k.scale_rows[grid](f, ms, h, n, HIDDEN, 1e-5, BLOCK=BLOCK)
    p.each(k.cast, h, b, n=n)
    k.scale_columns[grid](b, w, y, n, HIDDEN, BLOCK=BLOCK)


def cases():
    for part in attention, mlp, norm:
        for tokens in 1, 16, 512:
            dtype = "float16" if tokens == 512 else "bfloat16"
            yield f"{part.__name__}-{tokens}", "sm_90", part, tokens, dtype, False
        if part != norm:
            yield f"{part.__name__}-512-tma", "sm_90", part, 512, "float16", True
        yield f"{part.__name__}-16-80", "sm_80", part, 16, "bfloat16", False


def main():
    args = sys.argv[1:]
    check = args[:1] == ["--check"]
    if ".".join(make.triton.__version__.split(".")[:2]) != make.RELEASE:
        sys.exit(f"Triton {make.triton.__version__}: what is committed comes from {make.RELEASE}")
    files = {}
    for name, target, part, tokens, dtype, tma in cases():
        if args[check:] and name not in args[check:]:
            continue
        make.CASES[name] = (target, lambda t: part(Part(t, tokens, dtype, tma)))
        made = make.made(name)
        doc = json.loads(made.pop("graph.json"))
        doc["name"] = "llama-" + name
        for what in doc["modules"].values():  # one file for one text, whatever graphs it is in
            text = made[what["file"]]
            entry, digest = what["file"].split(".")[0].split("-")[0], hashlib.sha256(text.encode()).hexdigest()
            what["file"] = f"{entry}-{digest[:8]}.ptx"
            files[what["file"]] = text
        files[name + ".json"] = make.text(doc)
        print(name)
    bad = 0
    for file, text in files.items():
        path = os.path.join(HERE, file)
        if not check:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        elif not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            print(f"llama/{file} differs from what this Triton makes")
            bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
