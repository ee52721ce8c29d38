#!/usr/bin/env python3
"""Plans against the graphs they were made from: random graphs of ordinary kernels through the whole planner.

Chains, diamonds and fan-out of element-wise, row-wise (shared memory, shuffles), tiled-GEMM and transposing kernels over one matrix
shape, with block sizes drawn anew for every launch, in-place launches, further readers and intermediates that leave the graph. Each
graph is run, planned and its plan run, both with two seeds that the planner never saw; outputs must agree byte by byte.
What was kept, refused and dropped is counted, so that a planner which refuses everything shows.

    plans.py DOVETAIL [COUNT [FIRST_SEED]]      exit status 1 if a plan differs, is slower, fails, or nothing at all was kept
"""
import json
import os
import random
import subprocess
import sys
import tempfile

KERNELS = r"""
extern "C" __global__ void unary(const float *x, float *y, int n, float a)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * a + 0.25f;
}
extern "C" __global__ void gelu(const float *__restrict__ x, float *__restrict__ y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float v = x[i]; y[i] = 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v))); }
}
extern "C" __global__ void vec4(const float4 *x, float4 *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = x[i];
        v.x = fmaxf(v.x, 0.f); v.y = fmaxf(v.y, 0.f); v.z = fmaxf(v.z, 0.f); v.w = fmaxf(v.w, 0.f);
        y[i] = v;
    }
}
extern "C" __global__ void binary(const float *x, const float *z, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + z[i];
}
extern "C" __global__ void inplace(float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = y[i] < 0.f ? 0.125f * y[i] : y[i];
}
extern "C" __global__ void bias2d(const float *x, const float *b, float *y, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c < cols && r < rows) y[r * cols + c] = x[r * cols + c] + b[c];
}
extern "C" __global__ void rowsum(const float *x, float *y, int cols) /* one block a row, power-of-two threads */
{
    __shared__ float s[256];
    float a = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) a += x[blockIdx.x * cols + c];
    s[threadIdx.x] = a;
    __syncthreads();
    for (int k = blockDim.x / 2; k; k /= 2) { if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k]; __syncthreads(); }
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.x * cols + c] = x[blockIdx.x * cols + c] - s[0] / cols;
}
extern "C" __global__ void warprows(const float *x, float *y, int rows, int cols) /* one warp a row */
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float m = -1e30f;
    for (int c = lane; c < cols; c += 32) m = fmaxf(m, x[row * cols + c]);
    for (int k = 16; k; k /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, k));
    for (int c = lane; c < cols; c += 32) y[row * cols + c] = x[row * cols + c] - m;
}
extern "C" __global__ void gemm(const float *x, const float *w, float *y, int rows, int cols) /* w: cols x cols, 16 x 16 tiles */
{
    __shared__ float a[16][17], b[16][17];
    int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
    float acc = 0;
    for (int k = 0; k < cols; k += 16) {
        a[threadIdx.y][threadIdx.x] = r < rows ? x[r * cols + k + threadIdx.x] : 0.f;
        b[threadIdx.y][threadIdx.x] = w[(k + threadIdx.y) * cols + c];
        __syncthreads();
        for (int j = 0; j < 16; j++) acc += a[threadIdx.y][j] * b[j][threadIdx.x];
        __syncthreads();
    }
    if (r < rows) y[r * cols + c] = acc;
}
extern "C" __global__ void flip(const float *x, float *y, int rows, int cols) /* rows in reverse: one-to-one, other numbers */
{
    extern __shared__ float s[];
    int r = rows - 1 - blockIdx.z;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) s[c] = x[r * cols + c];
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.z * cols + c] = s[cols - 1 - c];
}
"""


def up(a, b):
    return (a + b - 1) // b


def build(seed):
    rng = random.Random(seed)
    rows, cols = rng.choice([8, 24, 40, 64]), rng.choice([32, 64, 96])
    n = rows * cols
    fill = {"uniform": [-1, 1], "dtype": "f32"}
    buffers = {"x": {"bytes": 4 * n, "role": "input", "fill": dict(fill, seed=seed)},
               "w": {"bytes": 4 * cols * cols, "role": "weight", "fill": dict(fill, seed=seed + 1)},
               "b": {"bytes": 4 * cols, "role": "weight", "fill": dict(fill, seed=seed + 2)}}
    have, launches, read = ["x"], [], set()
    for k in range(rng.randrange(2, 8)):
        kind = rng.choice(["unary", "gelu", "vec4", "binary", "inplace", "bias2d", "rowsum", "warprows", "gemm", "flip"])
        src = have[-1] if rng.random() < 0.75 else rng.choice(have)
        block = rng.choice([32, 64, 128, 256])
        if kind == "inplace" and src == "x":
            kind = "unary"
        out = src if kind == "inplace" else "t%d" % k
        read.add(src)
        buf = lambda name: {"buffer": name}
        i32 = lambda v: {"i32": v}
        grid, shape, shared = [up(n, block), 1, 1], [block, 1, 1], 0
        if kind == "unary":
            args = [buf(src), buf(out), i32(n), {"f32": rng.choice([0.5, 1.5, -2.0])}]
        elif kind == "gelu":
            args = [buf(src), buf(out), i32(n)]
        elif kind == "vec4":
            grid[0] = rng.choice([1, up(n // 4, block)])
            args = [buf(src), buf(out), i32(n // 4)]
        elif kind == "binary":
            other = rng.choice(have)
            read.add(other)
            args = [buf(src), buf(other), buf(out), i32(n)]
        elif kind == "inplace":
            args = [buf(out), i32(n)]
        elif kind == "bias2d":
            shape = rng.choice([[32, 4, 1], [16, 16, 1], [32, 1, 1]])
            grid = [up(cols, shape[0]), up(rows, shape[1]), 1]
            args = [buf(src), buf("b"), buf(out), i32(rows), i32(cols)]
        elif kind == "rowsum":
            grid[0] = rows
            args = [buf(src), buf(out), i32(cols)]
        elif kind == "warprows":
            grid[0] = up(rows, block // 32)
            args = [buf(src), buf(out), i32(rows), i32(cols)]
        elif kind == "gemm":
            grid, shape = [cols // 16, up(rows, 16), 1], [16, 16, 1]
            args = [buf(src), buf("w"), buf(out), i32(rows), i32(cols)]
        else:
            grid, shared = [1, 1, rows], 4 * cols
            args = [buf(src), buf(out), i32(rows), i32(cols)]
        if out not in buffers:
            buffers[out] = {"bytes": 4 * n, "role": "output" if rng.random() < 0.2 else "intermediate"}
            have.append(out)
        launches.append({"name": "%s%d" % (kind, k), "module": "m", "entry": kind, "grid": grid, "block": shape, "shared": shared,
                         "args": args})
    for name in have[1:]:
        if name not in read:
            buffers[name]["role"] = "output"
    return {"dovetail": 1, "name": "plan%d" % seed, "modules": {"m": {"cuda": KERNELS}}, "buffers": buffers, "launches": launches}


def main():
    exe = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    wrong, verdicts, gain = 0, {}, 1.0
    with tempfile.TemporaryDirectory() as tmp:
        common = ["--local", "--cache", os.path.join(tmp, "c.db"), "--device", "soft", "--json"]

        def call(*args):
            r = subprocess.run([exe, *args, *common], capture_output=True, text=True, timeout=300)
            if r.returncode:
                raise RuntimeError("%s: exit %d: %s" % (args[0], r.returncode, (r.stdout or r.stderr)[-400:]))
            return json.loads(r.stdout)

        def dump(path, seed):
            out = os.path.join(tmp, "dump%d" % seed)
            call("run", path, "--seed", str(seed), "--dump", out)
            return {f: open(os.path.join(out, f), "rb").read() for f in sorted(os.listdir(out))}

        for seed in range(first, first + count):
            path, plan_dir = os.path.join(tmp, "g.json"), os.path.join(tmp, "plan")
            with open(path, "w") as f:
                json.dump(build(seed), f)
            try:
                plan = call("optimize", path, "-o", plan_dir)
                for s in (11, 12):
                    if dump(path, s) != dump(os.path.join(plan_dir, "plan.json"), s):
                        raise RuntimeError("with --seed %d the plan's outputs differ" % s)
                before, after = plan["baseline"]["time_us"], plan["optimized"]["time_us"]
                if after > before:
                    raise RuntimeError("slower: %.2f -> %.2f us" % (before, after))
                gain *= before / after
                for x in plan["rewrites"]:
                    key = x["verdict"] + (" " + x["level"] if x["verdict"] == "kept" else "")
                    verdicts[key] = verdicts.get(key, 0) + 1
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                print("seed %d: %s" % (seed, e))
                wrong += 1
    print("%d graphs, %d wrong; rewrites: %s; geometric mean %.3f times as fast (modeled)" %
          (count, wrong, ", ".join("%d %s" % (n, v) for v, n in sorted(verdicts.items())), gain ** (1 / max(1, count - wrong))))
    return 1 if wrong or not any(v.startswith("kept") for v in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
