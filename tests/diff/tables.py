#!/usr/bin/env python3
"""Lists of blocks in global memory, where they go if constant memory is too small for them: the same plans with their
tables in either, by a switch of the build for tests, so that graphs can be small. Blocks of these kernels are in no
order that is affine, so that every kind that numbers blocks anew needs a table. Graph and plan must agree byte by byte.

    tables.py PLANNER       exit status 1 if a plan differs, or has no table where it should be
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from plans import Planner  # noqa: E402

CUDA = r"""
#define PRE(by, more) __shared__ float s[32]; int b = (int)((blockIdx.x * by + more) % gridDim.x), i = b * 32 + threadIdx.x
extern "C" __global__ void scatter(const float *x, float *h) { PRE(7919u, 13u); s[threadIdx.x] = x[i]; __syncthreads(); h[i] = s[31 - threadIdx.x] * 3.f; }
extern "C" __global__ void gather(const float *h, float *y) { PRE(4729u, 5u); s[threadIdx.x] = h[i]; __syncthreads(); y[i] = s[31 - threadIdx.x] + 1.f; }
extern "C" __global__ void some(const float *h, float *y) /* blocks whose number has a square that is 2 modulo 7 */
{ PRE(1u, 0u); s[threadIdx.x] = h[i]; __syncthreads(); if ((b * b) % 7 == 2) y[i] = s[31 - threadIdx.x]; }
"""
# kind, entries, level, grid (a tail for split: more than one wave of 132 SMs x 32 blocks)
CASES = [("block-fusion", "scatter gather", "shared", 101), ("block-fusion", "scatter gather", "global", 101),
         ("dataflow-fusion", "scatter gather", None, 101),
         ("dead-blocks", "some", None, 400), ("split", "scatter gather", None, 132 * 32 + 300)]


def graph(entries, blocks):
    at = ["x", "h", "y"] if len(entries) == 2 else ["x", "y"]
    role = {"x": "input", "h": "intermediate", "y": "output"}
    return {"dovetail": 1, "name": "tables", "modules": {"m": {"cuda": CUDA}},
            "buffers": {b: {"bytes": blocks * 128, "role": role[b]} |
                        ({"fill": {"uniform": [-1, 1], "dtype": "f32", "seed": 3}} if b == "x" else
                         {"fill": {"zero": True}} if b == "y" and len(entries) == 1 else {}) for b in at},
            "launches": [{"name": e, "module": "m", "entry": e, "grid": [blocks, 1, 1], "block": [32, 1, 1],
                          "args": [{"buffer": at[k]}, {"buffer": at[k + 1]}]} for k, e in enumerate(entries)]}

# Tables that were posted, 40,000 bytes each, in a module for each launch: with the same bytes they are one in constant
# memory; else, as both do not fit there, they are in global memory.
WITH = r"""
__constant__ float tab[10000] = {%d, 2, 3, 4};
extern "C" __global__ void %s(const float *x, float *h)
#ifdef PLAIN
{ int i = blockIdx.x * 32 + threadIdx.x; h[i] = (x[i] + tab[threadIdx.x & 7]) * tab[1]; }
#else
{
    __shared__ float s[32]; int i = blockIdx.x * 32 + threadIdx.x; s[threadIdx.x] = x[i] + tab[threadIdx.x & 7];
    __syncthreads(); h[i] = s[31 - threadIdx.x] * tab[1];
}
#endif
"""
POSTED = [("block-fusion", "register", "x h h y"), ("block-fusion", "shared", "x h h y"),
          ("block-fusion", "global", "x h h y"), ("dataflow-fusion", None, "x h h y"),
          ("parallel-fusion", None, "x h x y")]


def posted(places, same, plain):
    at = places.split()
    before = "#define PLAIN\n" if plain else ""
    role = {"x": "input", "h": "output" if at[2] == "x" else "intermediate", "y": "output"}
    return {"dovetail": 1, "name": "tables",
            "modules": {k: {"cuda": before + WITH % (1 if same else n, e)}
                        for n, (k, e) in enumerate([("m", "p"), ("n", "c")])},
            "buffers": {b: {"bytes": 96 * 128, "role": role[b]} |
                        ({"fill": {"uniform": [-1, 1], "dtype": "f32", "seed": 3}} if b == "x" else {}) for b in "xhy"},
            "launches": [{"name": e, "module": m, "entry": e, "grid": [96, 1, 1], "block": [32, 1, 1],
                          "args": [{"buffer": at[2 * k]}, {"buffer": at[2 * k + 1]}]}
                         for k, (m, e) in enumerate([("m", "p"), ("n", "c")])]}


def main():
    planner, wrong = Planner(sys.argv[1]), 0
    kinds = {k for k, _ in planner.ask({"list": True})["kinds"]}
    for kind, entries, level, blocks in CASES:
        for far in (False, True):
            request = {"graph": graph(entries.split(), blocks), "seeds": [11], "inputs": 2, "schedules": 2,
                       "force": True, "allow": [kind], "deny": sorted(kinds - {kind}), "modules": True,
                       "far_tables": far}
            a = planner.ask(request | ({"levels": level, "cluster": 2} if level else {}))
            plan = a.get("plan", {})
            space = {x for m in plan.get("modules", {}).values()
                     for x in re.findall(r"^\.(\w+) [^\n]*(?:_tab|_flow|dt_blocks)\[", m.get("ptx", ""), re.M)}
            kept = [x["kind"] for x in plan.get("rewrites", []) if x["verdict"] == "kept"]
            right = a.get("equal") == "" and kind in kept and space == {"global" if far else "const"}
            told = {k: v for k, v in a.items() if k != "plan"} | {"rewrites": plan.get("rewrites")}
            print("%-16s %-8s %-6s %s" % (kind, level or "", "global" if far else "const",
                                          "" if right else "WRONG: %s %s" % (space, str(told)[:600])))
            wrong += not right
    for kind, level, places in POSTED:
        for same in (False, True):
            request = {"graph": posted(places, same, level == "register"), "seeds": [11], "inputs": 2, "schedules": 2,
                       "force": True, "allow": [kind], "deny": sorted(kinds - {kind}), "modules": True}
            a = planner.ask(request | ({"levels": level} if level else {}))
            plan = a.get("plan", {})
            told = [re.findall(r"^\.(\w+) [^\n]*tab\[40000\]", m.get("ptx", ""), re.M)
                    for m in plan.get("modules", {}).values()]
            right = a.get("equal") == "" and (["const"] if same else ["global"] * 2) in told
            print("%-16s %-8s %-6s %s" % (kind, level or "", "const" if same else "global",
                                          "" if right else "WRONG: %s %s" % (told, str(plan.get("rewrites"))[:600])))
            wrong += not right
    return 1 if planner.close() or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
