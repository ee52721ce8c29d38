#!/usr/bin/env python3
"""check.py DOVETAIL maps|values: the parts of a Llama-like layer in this folder.

  maps    of every graph, the edges are those that follow from the parts, and each is proved
  values  what the norms and the parts of one token compute, against numpy in double precision with every step rounded
          to the type of its buffer: ||got - want|| / ||want|| is under 2^-6 (bf16), 2^-9 (f16). Exit status 77 where
          there is no numpy
"""
import glob
import json
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../corpus/of-triton"))

# producer -> consumers, by number of launch
EDGES = {"attention": {0: (1, 2, 3), 1: (4,), 2: (5,), 3: (6,), 4: (6,), 5: (6,), 6: (7,), 7: (8,)},
         "mlp": {0: (1, 2), 1: (3,), 2: (4,), 3: (4,), 4: (5,), 5: (6,)},
         "norm": {0: (1,), 1: (2, 3), 2: (3,), 3: (4,), 4: (5,)}}
HIDDEN, HEADS, D, MLP, CACHED = 4096, 32, 128, 11008, 512


def run(tool, *args):
    return subprocess.run([tool, *args], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout


def maps(tool, name, tmp):
    with open(f"{HERE}/{name}.json", encoding="utf-8") as f:
        launches = [l["name"] for l in json.load(f)["launches"]]
    device = "soft:a100" if name.endswith("-80") else "soft:h200"
    found = json.loads(run(tool, "analyze", f"{HERE}/{name}.json", "--local", "--json", "--device", device, "--cache",
                           f"{tmp}/c.db"))["edges"]
    got = {(e["producer"], e["consumer"]): e["evidence"] for e in found}
    want = {(launches[a], launches[b]): "proved" for a, to in EDGES[name.split("-")[0]].items() for b in to}
    if got != want:
        print(f"{name}: {got}, not {want}")
    return got == want


def content(graph, np, uniform):
    def get(name, *shape):
        fill, n, step = graph["buffers"][name]["fill"], math.prod(shape), 1 << 22
        with np.errstate(over="ignore"):  # the formula counts from the buffer's start: so many elements further on
            parts = [uniform(min(step, n - at), *fill["uniform"], (fill["seed"] + at * 0x9E3779B97F4A7C15) % 2 ** 64,
                             fill["dtype"]).astype(np.float32) for at in range(0, n, step)]
        return np.concatenate(parts).reshape(shape)
    return get


def expect(name, b, np, to):
    """{output: values}"""
    part, tokens = name.split("-")[0], int(name.split("-")[1])
    x, w = b("x", tokens, HIDDEN).astype(float), b("norm", HIDDEN).astype(float)

    def rms_norm(v):
        return to(to(v / np.sqrt((v * v).mean(-1, keepdims=True) + 1e-5)) * w)

    def linear(v, name, *shape):
        return to((v.astype(np.float32) @ b(name, *shape).T).astype(float))
    if part == "norm":
        s = to(x + b("r", tokens, HIDDEN))
        return {"s": s, "y": rms_norm(s)}
    n = rms_norm(x)
    if part == "mlp":
        g, u = linear(n, "wg", MLP, HIDDEN), linear(n, "wu", MLP, HIDDEN)
        return {"y": to(linear(to(to(g / (1 + np.exp(-g))) * u), "wd", HIDDEN, MLP) + x)}
    q, k, v = (linear(n, "w" + c, HIDDEN, HIDDEN).reshape(HEADS, D) for c in "qkv")
    c, s = b("cos", D // 2), b("sin", D // 2)

    def rotary(v):
        p, q = v[:, :D // 2], v[:, D // 2:]
        return to(np.concatenate([p * c - q * s, q * c + p * s], 1))
    keys = np.concatenate([b("kc", CACHED, HEADS, D), rotary(k)[None]])
    values = np.concatenate([b("vc", CACHED, HEADS, D), v[None]])
    scores = np.einsum("hd,jhd->hj", rotary(q), keys) * D ** -.5
    scores = np.exp(scores - scores.max(1, keepdims=True))
    o = np.einsum("hj,jhd->hd", scores / scores.sum(1, keepdims=True), values)
    return {"y": to(linear(to(o.reshape(1, HIDDEN)), "wo", HIDDEN, HIDDEN) + x)}


def values(tool, name, tmp):
    import numpy as np
    import values as of
    with open(f"{HERE}/{name}.json", encoding="utf-8") as f:
        graph = json.load(f)
    bf16 = graph["buffers"]["x"]["fill"]["dtype"] == "bf16"
    run(tool, "run", f"{HERE}/{name}.json", "--local", "--device", "soft:h200", "--dump", tmp)
    want, ok = expect(name, content(graph, np, of.uniform), np, of.to_bf16 if bf16 else of.to_f16), True
    for buffer, v in want.items():
        with open(f"{tmp}/{buffer}.bin", "rb") as f:
            raw = f.read()
        got = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32) if bf16 else \
            np.frombuffer(raw, "<f2")
        got = got.astype(float).reshape(v.shape)
        error = np.linalg.norm(got - v) / np.linalg.norm(v)
        print(f"{name}: {buffer}: relative error {error:.2e} over {v.size} elements")
        ok &= bool(np.isfinite(got).all()) and error < 2.0 ** (-6 if bf16 else -9)
    return ok


def main():
    tool, what = sys.argv[1:3]
    if what == "values":
        try:
            import numpy  # noqa: F401
        except ImportError:
            return 77
    names = sorted(os.path.basename(f)[:-5] for f in glob.glob(f"{HERE}/*.json")) if what == "maps" else \
        ["norm-1", "norm-16", "norm-512", "attention-1", "mlp-1"]
    ok = True
    for name in sys.argv[3:] or names:
        with tempfile.TemporaryDirectory() as tmp:
            ok &= {"maps": maps, "values": values}[what](tool, name, tmp)
    return 0 if ok and names else 1


if __name__ == "__main__":
    sys.exit(main())
