#!/usr/bin/env python3
"""values.py DOVETAIL [NAME…]: what the graphs of make.py compute, against numpy in double precision.

As ../of-triton/values.py, which has the fills, does it: every step rounds its result to the buffer's type; an output
passes when it is finite and ||got - want|| / ||want|| is under 2^-9. One seed of the graph's own and one more. Exit
status 77 where there is no numpy.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../of-triton"))

from values import content, np, softmax, to_f16  # noqa: E402


def layers(b, M, N1, N2, K):
    g = to_f16(np.maximum(to_f16(b("x", M, K) @ b("w1", N1, K).T) + b("b", N1), 0))
    return to_f16(to_f16(g @ b("w2", N2, N1).T) * .5 + b("r", M, N2))


def sums(y):
    return {"y": y, "s": y.sum(-1)}


WANT = {"multistage-80": lambda b: sums(layers(b, 128, 256, 128, 128)),
        "specialised-90": lambda b: {"y": to_f16(softmax(layers(b, 256, 256, 128, 320)))},
        "specialised-cluster-90": lambda b: sums(layers(b, 256, 128, 64, 384)),
        "specialised-persistent-90": lambda b: sums(layers(b, 256, 320, 128, 192))}


def check(tool, name):
    folder = os.path.join(HERE, "..", name)
    with open(os.path.join(folder, "graph.json"), encoding="utf-8") as f:
        graph = json.load(f)
    for seed in 0, 5:
        with tempfile.TemporaryDirectory() as tmp:
            subprocess.run([tool, "run", os.path.join(folder, "graph.json"), "--local", "--device", "soft", "--seed",
                            str(seed), "--dump", tmp], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE)
            for buffer, want in WANT[name](content(graph, folder, seed)).items():
                got = np.fromfile(os.path.join(tmp, buffer + ".bin"), "<f4" if buffer == "s" else "<f2")
                got = got.astype(np.float64).reshape(want.shape)
                error = np.linalg.norm(got - want) / np.linalg.norm(want)
                print(f"{name}, seed {seed}: {buffer}: relative error {error:.2e} over {want.size} elements")
                if not np.isfinite(got).all() or not error < 2.0 ** -9:
                    return False
    return True


def main():
    return 0 if all([check(sys.argv[1], n) for n in sys.argv[2:] or WANT]) else 1


if __name__ == "__main__":
    sys.exit(main())
