#!/usr/bin/env python3
"""What the planner promises whatever the graph: chains of many launches become few and in bounded time, the fastest
level of a fusion is the one kept, a budget bounds it, and the same input gives the same plan byte for byte in every
process and with any number of CPU threads."""
import json
import os
import re
import time

from harness import FolderCase, SLOW, cli, main, write

CUDA = r"""
extern "C" __global__ void gain(const float *x, float *y, float a) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i] * a + 0.25f; }
extern "C" __global__ void center(const float *x, float *y) /* 128 threads a row of 128: minus its mean */
{
    __shared__ float s[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    s[t] = x[i];
    __syncthreads();
    for (int k = 64; k; k /= 2) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
    y[i] = x[i] - s[0] * 0.0078125f;
}
extern "C" __global__ void warps(const float *x, float *y) /* a warp a row of 128 */
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    float m = -1e30f;
    for (int c = lane; c < 128; c += 32) m = fmaxf(m, x[row * 128 + c]);
    for (int k = 16; k; k /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, k));
    for (int c = lane; c < 128; c += 32) y[row * 128 + c] = x[row * 128 + c] - m;
}
/* Each block writes and reads 64 floats in three pieces that lie far apart, at no even distance: one region of shared memory for them takes 49 KB. */
__device__ int place(int b, int t)
{
    int base = b / 256 * 16384, k = b % 256;
    return base + (t < 32 ? k * 32 + t : t < 48 ? 8192 + k * 16 + t - 32 : 12288 + k * 16 + t - 48);
}
extern "C" __global__ void scatter(const float *x, float *h) { h[place(blockIdx.x, threadIdx.x)] = x[blockIdx.x * 64 + threadIdx.x] + 1.f; }
extern "C" __global__ void collect(const float *h, float *y)
{
    __shared__ float s[64];
    s[threadIdx.x] = h[place(blockIdx.x, threadIdx.x)];
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
}
"""


def chain(n, rows=32):
    """Pointwise and row-wise kernels in turns, blocks of 32, 64, 128 and 256 threads."""
    size = rows * 128 * 4
    g = {"dovetail": 1, "name": "chain", "modules": {"m": {"cuda": CUDA}}, "launches": [],
         "buffers": {"x": {"bytes": size, "role": "input", "fill": {"uniform": [-1, 1], "dtype": "f32", "seed": 3}}}}
    for k in range(n):
        entry, threads = (("gain", 256), ("center", 128), ("gain", 64), ("warps", 32))[k % 4]
        blocks = {"center": rows, "warps": rows * 32 // threads}.get(entry, rows * 128 // threads)
        g["buffers"]["t%d" % k] = {"bytes": size, "role": "output" if k == n - 1 else "intermediate"}
        g["launches"].append({"name": "%s%d" % (entry, k), "module": "m", "entry": entry, "grid": [blocks, 1, 1],
                              "block": [threads, 1, 1],
                              "args": [{"buffer": "t%d" % (k - 1) if k else "x"}, {"buffer": "t%d" % k}]
                              + ([{"f32": 0.5 + k / 64}] if entry == "gain" else [])})
    return g


class Planner(FolderCase):
    def setUp(self):
        super().setUp()
        self.count = 0

    def plan(self, g, *more, env=None):
        """The plan, from an empty cache; its bytes; the seconds it took."""
        self.count += 1
        out, began = os.path.join(self.dir, "plan%d" % self.count), time.monotonic()
        r = cli("optimize", write(self.dir, "g.json", g), "-o", out, "--local", "--device", "soft", "--cache",
                out + ".db", *more, env=env, timeout=200)
        took = time.monotonic() - began
        self.assertEqual(r.returncode, 0, r.stderr)
        with open(out + "/plan.json", "rb") as f:
            text = f.read()
        return json.loads(text), text, took

    def same_results(self, g, plan):
        was, now = (self.left(write(self.dir, name, doc), *self.local)
                    for name, doc in (("g.json", g), ("p.json", plan)))
        self.assertEqual(was, now)

    def test_chains(self):
        for n in (2, 12, 48):
            g = chain(n)
            plan, _, took = self.plan(g)
            # of 12, two that overlap are shorter than one
            self.assertLessEqual(plan["optimized"]["launches"], 2 if n == 12 else 1, n)
            self.assertLess(plan["optimized"]["time_us"], plan["baseline"]["time_us"])
            self.assertLess(took, (40 + n) * SLOW, n)  # seconds, and not minutes, also beside other work
            self.same_results(g, plan)

    def test_fastest_level(self):
        blocks = 1024  # with 49 KB each, four on an SM: two waves; without, one
        f = lambda n, role, **more: {"bytes": 4 * n, "role": role, **more}
        g = {"dovetail": 1, "name": "levels", "modules": {"m": {"cuda": CUDA}},
             "buffers": {"x": f(blocks * 64, "input", fill={"uniform": [-1, 1], "dtype": "f32", "seed": 3}),
                         "h": f((blocks + 255) // 256 * 16384, "intermediate"),
                         "y": f(blocks * 64, "output")},
             "launches": [{"name": n, "module": "m", "entry": n, "grid": [blocks, 1, 1], "block": [64, 1, 1],
                           "args": [{"buffer": a}, {"buffer": b}]}
                          for n, a, b in (("scatter", "x", "h"), ("collect", "h", "y"))]}
        plan, _, _ = self.plan(g)
        x = next(x for x in plan["rewrites"] if x["kind"] == "block-fusion")
        self.assertEqual((x["verdict"], x["level"]), ("kept", "global"))
        shared = re.search(r"level shared modeled ([\d.]+) → ([\d.]+) us", x["reason"])  # it gains as well, but less
        self.assertLess(x["after_us"], float(shared[2]))
        self.assertLess(float(shared[2]), float(shared[1]))
        self.same_results(g, plan)

    def test_older_chip(self):
        """sm_80's machine code leaves loops by CALLs that never return and has barriers as subroutines: neither is
        other arithmetic."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus/experts/graph.json"),
                  encoding="utf-8") as f:
            g = json.load(f)
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus/experts/kernels.cu"),
                  encoding="utf-8") as f:
            g["modules"]["k"] = {"cuda": f.read()}
        plan, text, _ = self.plan(g, "--device", "soft:a100")
        self.assertLessEqual(plan["optimized"]["launches"], 3)
        self.assertNotIn("machine-code", text if isinstance(text, str) else text.decode())

    def test_same_bytes(self):
        g = chain(9)
        g["buffers"]["t4"]["role"] = "output"
        texts = [self.plan(g, env={"DOVETAIL_SOFTGPU_THREADS": str(n), "HOME": self.dir if n % 2 else "/"})[1]
                 for n in (1, 2, 7)]
        self.assertEqual(len(set(texts)), 1)

    def test_budget(self):
        g = chain(24)
        whole, _, _ = self.plan(g)
        for budget in ("0.001", "1"):
            plan, _, wall = self.plan(g, "--budget", budget)
            self.assertLess(wall, (float(budget) + 40) * SLOW)
            self.assertLessEqual(plan["optimized"]["time_us"], plan["baseline"]["time_us"])
            self.assertGreaterEqual(plan["optimized"]["time_us"], whole["optimized"]["time_us"])
            self.assertTrue(plan["verified"]["bitwise"])
            self.same_results(g, plan)
            if budget == "0.001":
                self.assertEqual(plan["optimized"]["launches"], 24)
                self.assertTrue(any(x.get("reason", "").startswith("budget:") for x in plan["rewrites"]),
                                plan["rewrites"][:3])


if __name__ == "__main__":
    main()
