#!/usr/bin/env python3
"""The mathematics of four corpus graphs in PyTorch: eager, torch.compile, and eager captured as a CUDA graph;
microseconds, medians by events.

usage: torch_graphs.py NAME DUMP, where DUMP holds the outputs of `dovetail run NAME --dump DUMP`: times count only
where they agree (1e-3). Inputs are the graph's own fills (docs/CONTRACT.md §2). Prints a JSON document, and another
line with torch.compile's time when that is there.
"""
import json
import os
import sys

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def fill(buffer):
    """uniform f32 fill, as the contract writes it"""
    f, n = buffer["fill"], buffer["bytes"] // 4
    with np.errstate(over="ignore"):
        z = np.uint64(f["seed"]) + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    u = (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0 ** -24)
    lo, hi = (np.float32(x) for x in f["uniform"])
    return (lo + np.float32(hi - lo) * u).astype(np.float32)


# name -> shapes of the inputs, the output, and the mathematics
def graphs(torch):
    F = torch.nn.functional
    return {
        "mlp": ({"x": (64, 64), "w1": (64, 128), "b1": (128,), "w2": (128, 64)}, "y",
                lambda x, w1, b1, w2: F.gelu(x @ w1 + b1, approximate="tanh") @ w2),
        "ffn": ({"x": (128, 128), "w1": (128, 512), "b1": (512,), "w2": (512, 128), "b2": (128,)}, "y",
                lambda x, w1, b1, w2, b2: F.gelu(x @ w1 + b1) @ w2 + b2 + x),
        "gemm-softmax": ({"a": (256, 64), "b": (64, 128)}, "p", lambda a, b: torch.softmax(a @ b, 1)),
        "layernorm-gemm": ({"x": (128, 128), "gamma": (128,), "beta": (128,), "w": (128, 256), "b": (256,)}, "y",
                           lambda x, gamma, beta, w, b: F.layer_norm(x, (128,), gamma, beta) @ w + b),
    }


def main():
    try:
        import torch
    except ImportError as e:
        print(json.dumps({"error": "no-torch", "detail": str(e)}))
        return
    if not torch.cuda.is_available():
        print(json.dumps({"error": "no-torch", "detail": "PyTorch sees no GPU"}))
        return
    name, dump = sys.argv[1], sys.argv[2]
    shapes, output, fn = graphs(torch)[name]
    buffers = json.load(open(f"{ROOT}/tests/corpus/{name}/graph.json", encoding="utf-8"))["buffers"]
    torch.backends.cuda.matmul.allow_tf32 = False  # the graphs compute in f32
    args = [torch.from_numpy(fill(buffers[b]).reshape(s)).cuda() for b, s in shapes.items()]
    want = np.fromfile(os.path.join(dump, output + ".bin"), np.float32)

    def right(y):
        got = y.float().cpu().numpy().ravel()
        return bool(got.shape == want.shape and np.linalg.norm(got - want) <= 1e-3 * np.linalg.norm(want))

    def timed(call):
        for _ in range(10):
            call()
        us = []
        for _ in range(50):
            a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            a.record()
            call()
            b.record()
            b.synchronize()
            us.append(a.elapsed_time(b) * 1000)
        return float(np.median(us))

    out = {"graph": name, "version": torch.__version__, "right": right(fn(*args)), "compile_us": None, "graph_us": None}
    out["eager_us"] = timed(lambda: fn(*args))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            fn(*args)
    torch.cuda.current_stream().wait_stream(side)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = fn(*args)
    out["graph_us"] = timed(g.replay)
    out["right"] = out["right"] and right(y)
    print(json.dumps(out), flush=True)  # compiling may take longer than there is time: the last line counts
    try:
        compiled = torch.compile(fn)
        out["right"] = out["right"] and right(compiled(*args))
        out["compile_us"] = timed(lambda: compiled(*args))
    except Exception as e:  # whatever the compiler lacks there
        out["compile_error"] = str(e)[:200]
    print(json.dumps(out))


if __name__ == "__main__":
    main()
