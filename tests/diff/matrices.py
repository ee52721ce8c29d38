#!/usr/bin/env python3
"""Kernels of tensor cores in parts, by force: what each part of a tile leaves out changes no byte, whether it gains or
not. Whole kernels of the corpus, two of them Triton's: products whose tile is one store of all threads, by
warp groups, and attention.
The gate holds each plan to the posted graph's bytes, under its race check, and planner.c on other inputs.

    matrices.py PLANNER      exit status 1 if a launch is not sliced, or bytes differ
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from plans import Planner  # noqa: E402

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus")
# graph, level, the launches that must be in parts
CASES = [
    ("slices-matrix", "halves", ["product"]),
    ("slices-matrix", "sixteenths", ["product"]),
    ("slices-groups", "halves", ["product"]),
    ("slices-groups", "eighths", ["product"]),
    ("triton-mlp-80", "quarters", ["matmul", "matmul-2"]),
    ("triton-attention-80", "halves", ["matmul", "attention"]),
    ("tensor-chain", "eighths", ["first", "second"]),
]


def graph(name):
    doc = json.load(open(os.path.join(CORPUS, name, "graph.json"), encoding="utf-8"))
    for m in doc["modules"].values():
        file = m.pop("file")
        m["cuda" if file.endswith(".cu") else "ptx"] = open(os.path.join(CORPUS, name, file), encoding="utf-8").read()
    return doc


def main():
    planner, wrong = Planner(sys.argv[1], "soft"), 0
    others = [k for k, _ in planner.ask({"list": True})["kinds"] if k != "slice"]
    for name, level, want in CASES:
        said = planner.ask({"graph": graph(name), "deny": others, "levels": level, "force": True, "inputs": 1,
                            "schedules": 2, "seeds": [7]})
        rows = said.get("plan", {}).get("rewrites", [])
        kept = [r["launches"][0] for r in rows if r["kind"] == "slice" and r["verdict"] == "kept"]
        bad = said.get("error") or said.get("equal") or ", ".join("%s is not sliced" % w for w in want if w not in kept)
        print("%-20s %-10s %s" % (name, level, bad or "the same bytes"))
        wrong += bool(bad)
    return 1 if wrong or planner.close() else 0


if __name__ == "__main__":
    sys.exit(main())
