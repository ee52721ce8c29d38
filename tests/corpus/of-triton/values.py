#!/usr/bin/env python3
"""values.py DOVETAIL [NAME…]: what the graphs ../triton-* compute, against numpy in double precision.

Inputs come from the fills by the formula of docs/CONTRACT.md §2, written down here once more, or from the graph's
files. Every step rounds its result to the buffer's type, as the kernels do; sums are double here and single there, so
an output passes when it is finite and ||got - want|| / ||want|| is under 2^-9 (f16, 11 bits), 2^-6 (bf16, 8 bits). One
seed of the graph's own and one more. Exit status 77 where there is no numpy.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
ERF = np.vectorize(math.erf)


def to_bf16(v):
    n = np.asarray(v, np.float32).view(np.uint32)
    return ((n + 0x7FFF + (n >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)


def to_f16(v):
    return np.asarray(v, np.float32).astype(np.float16).astype(np.float64)


def uniform(n, lo, hi, seed, kind):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    u = (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0 ** -24)
    if kind[0] == "i":
        return np.clip(lo + np.floor((float(hi) - lo) * u.astype(np.float64)), -128, 127)
    v = np.float32(lo) + (np.float32(hi) - np.float32(lo)) * u
    return {"f16": to_f16, "bf16": to_bf16, "f32": lambda x: x.astype(np.float64)}[kind](v)


def fp8(data):
    """e4m3 without infinities."""
    b = np.frombuffer(data, np.uint8).astype(np.int64)
    sign, e, m = 1 - 2 * (b >> 7), b >> 3 & 15, b & 7
    return sign * np.where(e == 0, m / 8 * 2.0 ** -6, (1 + m / 8) * 2.0 ** (e - 7))


def gelu(v):
    return 0.5 * v * (1 + ERF(v / math.sqrt(2)))


def softmax(v):
    v = np.exp(v - v.max(-1, keepdims=True))
    return v / v.sum(-1, keepdims=True)


def rms_norm(v, w, eps=1e-5):
    return v / np.sqrt((v * v).mean(-1, keepdims=True) + eps) * w


def mlp(b, bias):
    x, w1, w2 = b("x", 128, 128), b("w1", 128, 256), b("w2", 256, 128)
    g = to_f16(gelu(to_f16(x @ w1) + (b("b", 256) if bias else 0)))
    return {"y": to_f16(to_f16(g @ w2) + x)}


def persistent(b):
    s = to_f16(x := to_f16(b("x", 192, 128) @ b("w1", 128, 256)) + b("r", 192, 256))
    return {"s": s, "y": to_f16(to_f16(rms_norm(x, b("w", 256))) @ b("w2", 256, 256))}


def grouped(b):
    x, w, first = b("x", 160, 64), b("w", 4, 64, 128), [0, 48, 64, 128, 160]
    h = to_f16(np.concatenate([x[lo:hi] @ w[g] for g, (lo, hi) in enumerate(zip(first, first[1:]))]))
    return {"y": to_f16(h[:, :64] / (1 + np.exp(-h[:, :64])) * h[:, 64:])}


def rotary(x, c, s):
    x = x.reshape(128, 2, 2, 32)
    p, q, c, s = x[:, :, 0], x[:, :, 1], c[:, None], s[:, None]
    return to_f16(np.stack([p * c - q * s, q * c + p * s], 2).reshape(128, 2, 64))


def attention(b):
    c, s, v = b("cos", 128, 32), b("sin", 128, 32), b("v", 128, 128).reshape(128, 2, 64)
    q, k = rotary(b("q", 128, 128), c, s), rotary(b("k", 128, 128), c, s)
    scores = np.einsum("ihd,jhd->hij", q, k) * .125
    scores[:, np.triu(np.ones((128, 128), bool), 1)] = -np.inf
    o = to_f16(np.einsum("hij,jhd->ihd", softmax(scores), v)).reshape(128, 128)
    return {"y": to_f16(o @ b("w", 128, 128))}


def int8(b):
    h = b("x", 128, 128) @ b("w", 128, 128).T * b("sx", 128)[:, None] * b("sw", 128)
    return {"y": to_f16(gelu(to_f16(h)))}


def eight(b):
    return {"y": to_f16(gelu(to_f16(b("x", 128, 128) @ b("w", 128, 128).T * .001) + b("b", 128)))}


def norms(b):
    v = b("x", 64, 200) + b("r", 64, 200)
    g = to_bf16(gelu(to_bf16(rms_norm(v, b("w", 200)))))
    d = g - g.mean(-1, keepdims=True)
    n = to_bf16(d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * b("w2", 200) + b("b2", 200))
    return {"s": to_bf16(v), "y": to_bf16(softmax(n))}


def epilogue(b):
    return {"y": to_f16(np.maximum(to_f16(b("x", 512, 64) @ b("w", 64, 512)) + b("b", 512), 0))}


def beside(b):
    x = b("x", 128, 128)
    return {"y": to_f16(to_f16(x @ b("w1", 128, 256)) + to_f16(x @ b("w2", 128, 256)))}


def staged(b):
    g = to_f16(np.maximum(to_f16(b("x", 200, 128) @ b("w1", 128, 256)) + b("b", 256), 0))
    return {"y": to_f16(to_f16(g @ b("w2", 256, 256)) + b("r", 200, 256))}


WANT = {"triton-beside-90": beside, "triton-staged-90": staged,
        "triton-epilogue-90": epilogue, "triton-loads-90": epilogue,
        "triton-mlp-80": lambda b: mlp(b, False), "triton-mlp-90": lambda b: mlp(b, True),
        "triton-own-90": lambda b: {"y": to_f16(softmax(to_f16(b("x", 128, 128) @ b("w", 128, 256))))},
        "triton-persistent-90": persistent, "triton-grouped-80": grouped, "triton-attention-80": attention,
        "triton-attention-90": attention, "triton-int8-80": int8, "triton-fp8-90": eight, "triton-norms-100": norms,
        "triton-rows-90": lambda b: {"y": to_f16(softmax(b("x", 192, 256)))}}


def content(graph, folder, seed):
    def get(name, *shape):
        what = graph["buffers"][name]
        if "data" in what:
            with open(os.path.join(folder, what["data"]["file"]), "rb") as f:
                return fp8(f.read()).reshape(shape)
        fill = what["fill"]
        by = fill.get("seed", 0) + (seed if what["role"] != "weight" else 0)
        return uniform(math.prod(shape), *fill["uniform"], by, fill["dtype"]).reshape(shape)
    return get


def check(tool, name):
    folder = os.path.join(HERE, "..", name)
    with open(os.path.join(folder, "graph.json"), encoding="utf-8") as f:
        graph = json.load(f)
    bf16 = name == "triton-norms-100"
    for seed in 0, 5:
        with tempfile.TemporaryDirectory() as tmp:
            subprocess.run([tool, "run", os.path.join(folder, "graph.json"), "--local", "--device",
                            "soft:b200" if bf16 else "soft", "--seed", str(seed), "--dump", tmp], check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for buffer, want in WANT[name](content(graph, folder, seed)).items():
                with open(os.path.join(tmp, buffer + ".bin"), "rb") as f:
                    raw = f.read()
                got = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32) if bf16 else \
                    np.frombuffer(raw, "<f2")
                got = got.astype(np.float64).reshape(want.shape)
                error = np.linalg.norm(got - want) / np.linalg.norm(want)
                print(f"{name}, seed {seed}: {buffer}: relative error {error:.2e} over {want.size} elements")
                if not np.isfinite(got).all() or not error < 2.0 ** (-6 if bf16 else -9):
                    return False
    return True


def main():
    names = sys.argv[2:] or [n for n in WANT if os.path.exists(os.path.join(HERE, "..", n))]
    return 0 if all([check(sys.argv[1], n) for n in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
