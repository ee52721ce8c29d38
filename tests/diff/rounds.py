#!/usr/bin/env python3
"""Rounds of outer loops in parts, by force: random kernels whose blocks go over rows. How the loop counts (up, down, by
a grid, by doubles, to a way out amid it), what a round does (inner loops, branches, shared memory in one place or two,
sums over a warp) and what it leaves to the next (a generator of numbers, a sum, a row in shared memory) are drawn.

Some may be divided and some may not; each is planned, and holds the posted graph's bytes, on other inputs too. What the
gate has to refuse fails: conditions should have. So does it if few kernels, or kernels of one sort, are divided.

    rounds.py PLANNER [COUNT [SEED]]      exit status 1 if bytes differ, or what is divided is not what should be
"""
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from plans import Planner  # noqa: E402

ROWS, WIDE = 40, 64
# name: before the loop, head, end of a round; may its rounds be divided?
COUNTS = {
    "grid": ("int r = blockIdx.x;", "for (; r < ROWS; r += gridDim.x)", "", True),
    "own": ("int r = blockIdx.x * EACH;", "for (int k = 0; k < EACH && r < ROWS; k++)", "r++;", True),
    "down": ("int r = ROWS - 1 - blockIdx.x;", "for (; r >= 0; r -= gridDim.x)", "", True),
    "do": ("int r = blockIdx.x;", "do", "r += gridDim.x;", True),
    "doubles": ("unsigned q = 1; int r = blockIdx.x;", "for (; r < ROWS; r += gridDim.x, q *= 2)", "", True),
    "numbers": ("unsigned q = blockIdx.x; int r = blockIdx.x;",
                "for (; r < ROWS; r += gridDim.x, q = q * 1664525u + 1013904223u)", "", True),
    "breaks": ("int r = blockIdx.x;", "for (;; r += gridDim.x)", "if (r + gridDim.x >= ROWS) break;", True),
    "stops": ("int r = blockIdx.x;", "for (; r < ROWS; r += gridDim.x)", "if (x[r * WIDE + 63] > 0.9f) break;", False),
}
# name: declared, of a round; may its rounds be divided?
ROUNDS = {
    "plain": ("", "v = a * 2.f + q;", True),
    "inner": ("", "for (int k = 0; k < 9; k++) v = v * 0.5f + x[(r * WIDE + t * k) % (ROWS * WIDE)];", True),
    "branch": ("", "if (r % 3) v = a + 1.f; else for (int k = 0; k < r; k++) v += a;", True),
    "shared": ("__shared__ float s[WIDE];",
               "s[t] = a; __syncthreads(); v = s[WIDE - 1 - t] + q; __syncthreads();", True),
    "tree": ("__shared__ float s[WIDE];", "s[t] = a; __syncthreads(); for (int n = WIDE / 2; n; n /= 2) { if (t < n) "
             "s[t] += s[t + n]; __syncthreads(); } v = s[0] + a; __syncthreads();", True),
    "two": ("__shared__ float s[2 * WIDE];", "s[r % 2 * WIDE + t] = a; __syncthreads(); "
            "v = s[r % 2 * WIDE + WIDE - 1 - t]; __syncthreads();", False),
    "turns": ("__shared__ float s[WIDE]; s[t] = 0; __syncthreads();", "v = s[WIDE - 1 - t]; __syncthreads(); s[t] = a; "
              "__syncthreads();", False),
    "some": ("__shared__ float s[WIDE]; s[t] = 0; __syncthreads();", "if (t < 32) s[t] = a; __syncthreads(); "
             "v = s[WIDE - 1 - t]; __syncthreads(); if (t >= 32) s[t] = a; __syncthreads();", False),
    "constant": ("__shared__ float s[WIDE]; s[t] = t; __syncthreads();", "v = s[WIDE - 1 - t] * a;", True),
    "sum": ("float sum = 0;", "sum += a; v = sum;", False),
    "last": ("float last = 1;", "v = a - last; if (r % 2) last = a;", False),
    "lanes": ("", "v = a + __shfl_xor_sync(~0u, a, 5);", True),
    "rows": ("", "v = a + (r >= 4 * gridDim.x ? y[(r - 4 * gridDim.x) * WIDE + t] : 0.f);", False),
}
KERNEL = """#define ROWS %d
#define WIDE %d
#define EACH %d
extern "C" __global__ void k(const float *x, float *y)
{
    const int t = threadIdx.x;
    %s %s
    %s
    {
        %s
        float a = x[r * WIDE + t], v = a;
        %s
        y[r * WIDE + t] = v;
        %s
    } %s
}
"""


def kernel(count, work, unroll, blocks):
    before, head, end, _ = COUNTS[count]
    declared, body, _ = ROUNDS[work]
    text = KERNEL % (ROWS, WIDE, -(-ROWS // blocks), before, declared,
                     ("#pragma unroll 1\n    " if not unroll else "") + head,
                     "" if "unsigned q" in before else "const float q = 1;", body, end,
                     "while (r < ROWS);" if head == "do" else "")
    f32 = {"bytes": 4 * ROWS * WIDE}
    return {"dovetail": 1, "name": "rounds", "modules": {"m": {"cuda": text}},
            "buffers": {"x": f32 | {"role": "input", "fill": {"uniform": [-1, 1], "dtype": "f32", "seed": 3}},
                        "y": f32 | {"role": "inout", "fill": {"uniform": [-1, 1], "dtype": "f32", "seed": 4}}},
            "launches": [{"name": "a", "module": "m", "entry": "k", "grid": [blocks, 1, 1], "block": [WIDE, 1, 1],
                          "args": [{"buffer": "x"}, {"buffer": "y"}]}]}


def main():
    count, seed = int(sys.argv[2]) if len(sys.argv) > 2 else 40, int(sys.argv[3]) if len(sys.argv) > 3 else 1
    draw, planner, wrong, kept, all_good = random.Random(seed), Planner(sys.argv[1], "soft"), 0, {}, 0
    others = [k for k, _ in planner.ask({"list": True})["kinds"] if k != "slice"]
    cases = [(c, w) for c in COUNTS for w in ROUNDS if w != "rows" or c not in ("own", "down")]  # else it races
    draw.shuffle(cases)
    for c, w in cases[:count]:
        unroll, blocks = draw.random() < 0.3, draw.choice([1, 2, 3, 5, 8])
        level = draw.choice(["halves", "quarters", "eighths"])
        said = planner.ask({"graph": kernel(c, w, unroll, blocks), "deny": others, "levels": level, "force": True,
                            "inputs": 1, "schedules": 3, "seeds": [draw.randrange(1000)]})
        rows = [r for r in said.get("plan", {}).get("rewrites", []) if r["kind"] == "slice"]
        reason = "; ".join(r.get("reason") or "" for r in rows)
        is_kept = any(r["verdict"] == "kept" for r in rows)
        good = COUNTS[c][3] and (ROUNDS[w][2] or (w == "rows" and level != "eighths"))  # four rounds back: its own
        bad = said.get("error") or said.get("equal") or ""
        if not bad and w != "rows" and any(s in reason for s in ("verification", "machine-code", "building", "race:")):
            bad = "only the gate refuses: " + reason
        if not bad and is_kept and not good and not unroll:  # the stores of an unrolled loop may be divided
            bad = "it is divided"
        all_good += good
        if is_kept:
            kept[w] = kept.get(w, 0) + 1
        print("%-8s %-9s %-9s %d blocks%s: %s" % (c, w, level, blocks, ", unrolled" if unroll else "", bad or
                                                 ("kept" if is_kept else reason[:150])), flush=True)
        wrong += bool(bad)
    print("%d of %d that may be divided are" % (sum(kept.values()), all_good))
    if sum(kept.values()) < 0.6 * all_good or len(kept) < 5:
        print("too few, or too much alike")
        wrong += 1
    return 1 if wrong or planner.close() else 0


if __name__ == "__main__":
    sys.exit(main())
