#!/usr/bin/env python3
"""Plans against the graphs they were made from: random graphs of ordinary kernels through the whole planner.

Chains, diamonds, fan-out and mixtures of element-wise, row-wise (shared memory, shuffles), column-wise, tiled-GEMM,
pooling, padding and transposing kernels over matrices of changing shape, with block sizes drawn anew for every launch,
in-place launches (on halves too), memset and copy steps, further readers and intermediates that leave the graph. Each
graph is planned once as a user would have it and once with what is legal forced (kept whether it is faster or not, so
that what the model dislikes is held to the bits as well): one kind alone, one level of block fusion alone, or
everything, in turn; graphs are made to suit the kind, with more of the launches that it is about. Graph and plan run
with seeds that the planner never saw; outputs must agree byte by byte. What was kept, refused and dropped is counted by
kind and level and printed, so that a planner which refuses everything shows; of 300 graphs and more, each kind and
level of the registry must be kept somewhere. One process a core (planner.c) takes the graphs one after the other; when
it dies, that is a failure of the graph it had.

    plans.py PLANNER [COUNT [FIRST_SEED [STEP]]]    exit status 1 if a plan differs, is slower, fails, or a kind is
                                                    never kept. STEP: from seed to seed; by 5, which the tests take,
                                                    each has another form of graph and another kind than the last one
"""
import json
import math
import os
import random
import subprocess
import sys
import threading
import time

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
extern "C" __global__ void bias4(const float4 *x, const float4 *b, float4 *y, int n, int cols) /* lanes of a vector, each its own way */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i], w = b[i % cols];
    y[i] = make_float4(tanhf(v.x + w.x), tanhf(v.y + w.y), tanhf(v.z + w.z), tanhf(v.w + w.w));
}
extern "C" __global__ void unrolled(const float *x, float *y, int n) /* four elements a thread, a block apart */
{
    int base = blockIdx.x * blockDim.x * 4 + threadIdx.x;
    #pragma unroll
    for (int k = 0; k < 4; k++) {
        int i = base + k * blockDim.x;
        if (i < n) y[i] = x[i] > 0.5f ? 0.5f : x[i] * 1.25f;
    }
}
extern "C" __global__ void tiles(const float2 *x, float2 *y, int n) /* two vectors a thread, in place where x is y */
{
    int i = blockIdx.x * blockDim.x * 2 + threadIdx.x, k = i + blockDim.x;
    float2 v = i < n ? x[i] : make_float2(0, 0), w = k < n ? x[k] : make_float2(0, 0);
    v.x += 0.5f; v.y *= 0.5f; w.x += 0.5f; w.y *= 0.5f;
    if (i < n) y[i] = v;
    if (k < n) y[k] = w;
}
extern "C" __global__ void add4(const float4 *x, float4 *y, int n) /* onto what is there */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float4 v = y[i], w = x[i]; v.x += w.x; v.y += w.y; v.z += w.z; v.w += w.w; y[i] = v; }
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
extern "C" __global__ void gemm(const float *x, const float *w, float *y, int rows, int inner, int cols) /* 16 x 16 tiles */
{
    __shared__ float a[16][17], b[16][17];
    int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
    float acc = 0;
    for (int k = 0; k < inner; k += 16) {
        a[threadIdx.y][threadIdx.x] = r < rows ? x[r * inner + k + threadIdx.x] : 0.f;
        b[threadIdx.y][threadIdx.x] = w[(k + threadIdx.y) * cols + c];
        __syncthreads();
        for (int j = 0; j < 16; j++) acc += a[threadIdx.y][j] * b[j][threadIdx.x];
        __syncthreads();
    }
    if (r < rows) y[r * cols + c] = acc;
}
extern "C" __global__ void patch(const float *x, const float *w, float *y, int rows, int inner, int cols) /* 4 x 4 elements a thread */
{
    __shared__ float a[8][32], b[8][32];
    int tx = threadIdx.x % 8, ty = threadIdx.x / 8, r = blockIdx.y * 32, c = blockIdx.x * 32;
    float acc[4][4] = {};
    for (int k = 0; k < inner; k += 8) {
        #pragma unroll
        for (int j = 0; j < 4; j++) {
            int row = r + ty + 8 * j;
            a[tx][ty + 8 * j] = row < rows ? x[row * inner + k + tx] : 0.f;
            b[ty][tx + 8 * j] = w[(k + ty) * cols + c + tx + 8 * j];
        }
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < 8; q++)
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int j = 0; j < 4; j++) acc[i][j] += a[q][ty + 8 * i] * b[q][tx + 8 * j];
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++)
            if (r + ty + 8 * i < rows) y[(r + ty + 8 * i) * cols + c + tx + 8 * j] = acc[i][j];
}
extern "C" __global__ void flip(const float *x, float *y, int rows, int cols) /* rows in reverse: one-to-one, other numbers */
{
    extern __shared__ float s[];
    int r = rows - 1 - blockIdx.z;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) s[c] = x[r * cols + c];
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.z * cols + c] = s[cols - 1 - c];
}
extern "C" __global__ void turn(const float *x, float *y, int rows, int cols) /* transpose, 8 x 8 tiles */
{
    __shared__ float t[8][9];
    int r = blockIdx.y * 8, c = blockIdx.x * 8;
    t[threadIdx.y][threadIdx.x] = x[(r + threadIdx.y) * cols + c + threadIdx.x];
    __syncthreads();
    y[(c + threadIdx.y) * rows + r + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void halve(const float *x, float *y, int n) /* n results */
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = fmaxf(x[2 * i], x[2 * i + 1]);
}
extern "C" __global__ void colsum(const float *x, float *y, int rows, int cols) /* y: cols sums */
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    float a = 0;
    for (int r = 0; r < rows; r++) a += x[r * cols + c];
    y[c] = a;
}
extern "C" __global__ void spread(const float *x, const float *v, float *y, int n, int cols) /* a row, added to every row */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 0.0625f * v[i % cols];
}
extern "C" __global__ void ring(const float *x, float *y) /* blocks of 64 in clusters: each takes what the next one has, the last half of the words turned around */
{
    __shared__ float s[64];
    unsigned t = threadIdx.x, rank, size, at;
    float v;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    s[t] = x[blockIdx.x * 64 + t] * 0.5f;
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"((unsigned)__cvta_generic_to_shared(&s[t < 32 ? t : 95 - t])), "r"((rank + 1) % size));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(at) : "memory");
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
    y[blockIdx.x * 64 + t] = v + rank;
}
extern "C" __global__ void oddrows(const float *x, float *y, int cols) /* a row a block of 48 threads: one and a half warps */
{
    __shared__ float s[48];
    float v = 0.f;
    for (int k = threadIdx.x; k < cols; k += 48) v += x[blockIdx.x * cols + k];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int k = 0; k < 48; k++) v += s[k];
    for (int k = threadIdx.x; k < cols; k += 48) y[blockIdx.x * cols + k] = x[blockIdx.x * cols + k] - 0.01f * v;
}
extern "C" __global__ void gather(const float *x, float *y, int n, int a, int b, int s, int t, int u) /* digits of i, in another order */
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i % a * s + i / a % b * t + i / (a * b) * u] * 0.75f;
}
extern "C" __global__ void scatter(const float *x, float *y, int n, int a, int b, int s, int t, int u) /* two elements a thread */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = i + gridDim.x * blockDim.x;
    if (i < n) y[i % a * s + i / a % b * t + i / (a * b) * u] = x[i] - 0.5f;
    if (k < n) y[k % a * s + k / a % b * t + k / (a * b) * u] = x[k] - 0.5f;
}
extern "C" __global__ void inside(const float *x, float *y, int n, int cols, int wide, int at) /* into the middle of wider rows */
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i / cols * wide + i % cols + at] = x[i] * 0.5f + 0.125f;
}
extern "C" __global__ void top(const float *x, float *y, int m) /* the first rows alone */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) y[i] = x[i] * 0.5f;
}
extern "C" __global__ void merged(const float *x, float *y, float *s, int n, int cols, int first) /* two roles */
{
    __shared__ float part[2];
    if (blockIdx.x < first) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = x[i] * 0.75f - 0.5f;
    } else {
        float a = 0;
        for (int c = threadIdx.x; c < cols; c += 64) a += x[(blockIdx.x - first) * cols + c];
        for (int k = 16; k; k /= 2) a += __shfl_xor_sync(~0u, a, k);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = a;
        __syncthreads();
        if (threadIdx.x == 0) s[blockIdx.x - first] = part[0] + part[1];
    }
}
"""


def up(a, b):
    return (a + b - 1) // b


class Maker:
    """A graph under construction: values are buffers with a shape (rows, columns)."""

    def __init__(self, seed, favour=""):
        self.rng, self.favour = random.Random(seed), favour
        self.seed, self.shape, self.role, self.launches, self.read, self.unread = seed, {}, {}, [], set(), set()
        tall, wide = ([64], [96]) if favour == "split" else ([8, 24, 40, 64], [32, 64, 96])
        self.value("x", self.rng.choice(tall), self.rng.choice(wide), "input")

    def value(self, name, rows, cols, role="intermediate"):
        self.shape[name], self.role[name] = (rows, cols), role
        return name

    def weight(self, rows, cols):
        name = "w%dx%d" % (rows, cols)
        if name not in self.shape:
            self.value(name, rows, cols, "weight")
        return name

    def launch(self, entry, grid, block, shared, *args):
        buf = lambda a: {"buffer": a[0], "offset": a[1]} if isinstance(a, tuple) else {"buffer": a}
        args = [a if isinstance(a, dict) else {"i32": a} if isinstance(a, int) else buf(a) for a in args]
        self.launches.append({"name": "%s%d" % (entry, len(self.launches)), "module": "m", "entry": entry, "grid": grid,
                              "block": block,
                              "shared": shared, "args": args})

    def apply(self, kind, src, other=None):
        """One launch (or step) of this kind that reads `src`; the value it makes. Another kind where the shape does not
        allow this one."""
        rng, out, (rows, cols) = self.rng, "t%d" % len(self.launches), self.shape[src]
        if self.favour in FAVOUR and rng.random() < 0.5:
            kind = rng.choice(FAVOUR[self.favour])
        n, block = rows * cols, rng.choice([32, 64, 128, 256])
        # many small blocks, one an SM: more than a wave, for what splits them
        if rng.random() < (0.7 if self.favour == "split" else 0.15):
            block, heavy = 32, 120000
        else:
            heavy = 0
        flat = [up(n, block), 1, 1], [block, 1, 1], heavy
        if (kind == "gemm" and cols % 16 or kind == "patch" and cols % 8 or kind == "turn" and (rows % 8 or cols % 8)
                or kind in ("halve", "tiles") and cols % 2 or kind in ("bias4", "add4") and cols % 4):
            kind = "gelu"
        if (kind == "inplace" and self.role[src] in ("input", "weight")
                or kind == "binary" and self.shape.get(other) != (rows, cols)):
            kind = "unary"
        if kind == "add4" and (self.shape.get(other) != (rows, cols) or self.role[other] in ("input", "weight")
                               or other == src):
            kind = "bias4" if cols % 4 == 0 else "gelu"
        if kind == "ring" and n % 128:
            kind = "gelu"
        if kind == "spread" and self.shape.get(other) != (1, cols):
            kind = "bias2d"
        self.read.add(src)
        if kind == "inplace":
            part = rng.randrange(3) if n % 2 == 0 else 0  # all of it, or one half
            m = n // 2 if part else n
            self.launch(kind, [up(m, block), 1, 1], [block, 1, 1], 0, (src, 2 * n if part == 2 else 0), m)
            return src
        if kind == "memset":  # of a part of what there is: the rest stays
            if self.role[src] in ("input", "weight"):
                return self.apply("unary", src)
            self.launches.append({"name": "clear%d" % len(self.launches),
                                  "memset": {"buffer": src, "offset": 0, "bytes": 4 * cols, "value": 0}})
            return src
        if kind == "unary":
            self.launch(kind, *flat, src, out, n, {"f32": rng.choice([0.5, 1.5, -2.0])})
        elif kind == "gelu":
            self.launch(kind, *flat, src, out, n)
        elif kind == "ring":
            self.launch(kind, [n // 64, 1, 1], [64, 1, 1], 0, src, out)
            self.launches[-1]["cluster"] = [rng.choice([c for c in (2, 4, 8) if n // 64 % c == 0]), 1, 1]
        elif kind == "vec4":
            self.launch(kind, [rng.choice([1, up(n // 4, block)]), 1, 1], [block, 1, 1], 0, src, out, n // 4)
        elif kind == "bias4":
            self.launch(kind, [up(n // 4, block), 1, 1], [block, 1, 1], 0, src, self.weight(1, cols), out, n // 4,
                        cols // 4)
        elif kind in ("unrolled", "tiles"):
            each = 4 if kind == "unrolled" else 2
            to = src if kind == "tiles" and self.role[src] not in ("input", "weight") and rng.random() < 0.3 else out
            self.launch(kind, [up(n if each == 4 else n // 2, block * each), 1, 1], [block, 1, 1], 0, src, to,
                        n if each == 4 else n // 2)
            if to == src:
                return src
        elif kind == "add4":
            self.read.add(other)
            self.launch(kind, [up(n // 4, block), 1, 1], [block, 1, 1], 0, src, other, n // 4)
            return other
        elif kind in ("binary", "spread"):
            self.read.add(other)
            self.launch(kind, *flat, src, other, out, n, *([cols] if kind == "spread" else []))
        elif kind == "bias2d":
            shape = rng.choice([[32, 4, 1], [16, 16, 1], [32, 1, 1]])
            self.launch(kind, [up(cols, shape[0]), up(rows, shape[1]), 1], shape, 0, src, self.weight(1, cols), out,
                        rows, cols)
        elif kind == "rowsum":
            self.launch(kind, [rows, 1, 1], [block, 1, 1], 0, src, out, cols)
        elif kind == "warprows":
            self.launch(kind, [up(rows, block // 32), 1, 1], [block, 1, 1], 0, src, out, rows, cols)
        elif kind == "flip":
            self.launch(kind, [1, 1, rows], [block, 1, 1], 4 * cols, src, out, rows, cols)
        elif kind == "copy":
            self.launches.append({"name": "copy%d" % len(self.launches),
                                  "copy": {"from": {"buffer": src}, "to": {"buffer": out}, "bytes": 4 * n}})
        elif kind == "gemm":
            wide = rng.choice([32, 48, 64, 96])
            self.launch(kind, [wide // 16, up(rows, 16), 1], [16, 16, 1], 0, src, self.weight(cols, wide), out, rows,
                        cols, wide)
            return self.value(out, rows, wide)
        elif kind == "patch":
            wide = rng.choice([32, 64, 96])
            self.launch(kind, [wide // 32, up(rows, 32), 1], [64, 1, 1], 0, src, self.weight(cols, wide), out, rows,
                        cols, wide)
            return self.value(out, rows, wide)
        elif kind == "turn":
            self.launch(kind, [cols // 8, rows // 8, 1], [8, 8, 1], 0, src, out, rows, cols)
            return self.value(out, cols, rows)
        elif kind == "halve":
            self.launch(kind, [rng.choice([1, 2, up(n // 2, block)]), 1, 1], [block, 1, 1], 0, src, out, n // 2)
            return self.value(out, rows, cols // 2)
        elif kind == "top":  # blocks of the rest write nothing, and nobody reads the rest of src
            self.launch(kind, *flat, src, out, rng.choice([1, rows // 2, rows]) * cols)
            if rng.random() < 0.5:
                self.unread.add(out)
            return self.value(out, rows, cols)
        elif kind in ("gather", "scatter"):
            a = rng.choice([k for k in (2, 3, 4, 8, 12, 16, 32) if n % k == 0])
            b = rng.choice([k for k in (1, 2, 3, 4, 5, 8, 16) if n // a % k == 0])
            order, step, size = rng.sample(range(3), 3), [0, 0, 0], 1
            for d in order:
                step[d], size = size, size * (a, b, n // (a * b))[d]
            grid = up(n, block * (2 if kind == "scatter" else rng.choice([1, 2, 3])))
            self.launch(kind, [grid, 1, 1], [block, 1, 1], 0, src, out, n, a, b, *step)
        elif kind == "pad":  # bytes around a copy, in another launch than the copy, or in none
            wide, above, left = cols + 32, rng.choice([0, 1, 8]), rng.choice([0, 1, 32])
            self.launches.append({"name": "around%d" % len(self.launches),
                                  "memset": {"buffer": out, "bytes": 4 * (rows + 8) * wide,
                                             "value": rng.choice([0, 0, 63])}})
            self.launch("inside", [rng.choice([1, up(n, 2 * block), up(n, block)]), 1, 1], [block, 1, 1], 0, src, out,
                        n, cols, wide, above * wide + left)
            return self.value(out, rows + 8, wide)
        elif kind == "filled":  # onto a buffer that a memset wrote
            fill = self.value("f%d" % len(self.launches), rows, cols)
            self.read.add(fill)
            self.launches.append({"name": "fill%d" % len(self.launches),
                                  "memset": {"buffer": fill, "bytes": 4 * n, "value": rng.choice([0, 63, 190])}})
            out = "t%d" % len(self.launches)
            self.launch("binary", *flat, src, fill, out, n)
        elif kind == "beside":  # two launches, half of it each
            self.launch("unary", *flat, src, out, n, {"f32": 0.5})
            self.launch("gelu", *flat, src, (out, 4 * n), n)
            return self.value(out, 2 * rows, cols)
        elif kind == "merged":  # elements, and sums of rows, in one launch
            sums = self.value("s%d" % len(self.launches), rows, 1)
            self.launch(kind, [up(n, 64) + rows, 1, 1], [64, 1, 1], 0, src, out, sums, n, cols, up(n, 64))
        elif kind == "oddrows":
            self.launch(kind, [rows, 1, 1], [48, 1, 1], 0, src, out, cols)
        elif kind == "colsum":
            self.launch(kind, [up(cols, block), 1, 1], [block, 1, 1], 0, src, out, rows, cols)
            return self.value(out, 1, cols)
        return self.value(out, rows, cols)

    def document(self):
        fill, buffers = {"uniform": [-1, 1], "dtype": "f32"}, {}
        for k, (name, (rows, cols)) in enumerate(self.shape.items()):
            role = self.role[name]
            if role == "intermediate" and (name not in self.read or self.rng.random() < 0.2):
                role = "intermediate" if name in self.unread else "output"
            buffers[name] = {"bytes": 4 * rows * cols, "role": role}
            if role in ("input", "weight"):
                buffers[name]["fill"] = dict(fill, seed=self.seed + k)
        if all(b["role"] != "output" for b in buffers.values()):
            buffers[next(reversed(buffers))]["role"] = "output"
        return {"dovetail": 1, "name": "plan%d" % self.seed, "modules": {"m": {"cuda": KERNELS}}, "buffers": buffers,
                "launches": self.launches}


SAME = ["ring", "unary", "gelu", "vec4", "inplace", "bias2d", "bias4", "unrolled", "tiles", "rowsum", "warprows",
        "flip", "oddrows", "gather", "scatter"]
ANY = SAME + ["gemm", "turn", "halve", "binary", "copy", "memset", "top", "add4", "pad", "filled", "beside"]


# what a kind is about: weights; readers of a part; element-wise over many blocks
FAVOUR = {"prefetch": ["gemm", "bias2d", "bias4"], "dead-blocks": ["top"], "split": ["unary", "gelu", "unrolled"],
          "register": ["gather", "scatter", "gemm", "gelu", "bias4", "pad", "beside"],
          "recompute": ["pad", "filled", "beside", "gather", "unary", "rowsum", "gemm"],
          "narrow-blocks": ["gather", "unary", "warprows"],
          "roles": ["merged", "merged", "unary", "gelu", "rowsum"],
          "slice": ["patch", "patch", "unrolled", "tiles", "warprows"],
          "tails": ["patch", "patch", "unrolled", "tiles", "warprows"],
          "pack": ["patch", "warprows", "rowsum", "flip", "ring", "unary"],
          "cluster": ["ring", "rowsum", "warprows", "gemm", "gelu", "unary"]}


def places(value):
    """Every {"buffer": …} in a launch."""
    if isinstance(value, dict):
        if "buffer" in value:
            yield value
        value = list(value.values())
    for v in value if isinstance(value, list) else []:
        yield from places(v)


def pooled(document):
    """The graph with its intermediates in one buffer, as generators lay them out: by liveness, each at the lowest place
    that is free while it is needed."""
    buffers, launches, first, last, at, end = document["buffers"], document["launches"], {}, {}, {}, 0
    for k, launch in enumerate(launches):
        for x in places(launch):
            if buffers[x["buffer"]]["role"] == "intermediate":
                first.setdefault(x["buffer"], k)
                last[x["buffer"]] = k
    for b in first:
        size, moved = (buffers[b]["bytes"] + 255) // 256 * 256, True
        at[b] = 0
        while moved:
            moved = False
            for o in at:
                room = (buffers[o]["bytes"] + 255) // 256 * 256
                if o != b and at[o] < at[b] + size and at[b] < at[o] + room and not (
                        last[o] < first[b] or last[b] < first[o]):
                    at[b], moved = at[o] + room, True
        end = max(end, at[b] + size)
    for launch in launches:
        for x in places(launch):
            if x["buffer"] in at:
                x["offset"] = x.get("offset", 0) + at[x["buffer"]]
                x["buffer"] = "pool"
    for b in at:
        del buffers[b]
    if at:
        buffers["pool"] = {"bytes": end, "role": "intermediate"}
    return document


def build(seed, favour=""):
    m = Maker(seed, favour)
    rng, form = m.rng, seed % 4
    if form == 0:  # a chain
        v = "x"
        for _ in range(rng.randrange(2, 7)):
            v = m.apply(rng.choice(ANY), v)
    elif form == 1:  # diamonds: two ways from one value to their sum
        v = "x"
        for _ in range(rng.randrange(1, 3)):
            v = m.apply(rng.choice(["unary", "gemm", "turn"]), v)
            a, b = m.apply(rng.choice(SAME), v), m.apply(rng.choice(["unary", "rowsum", "flip", "vec4"]), v)
            v = m.apply("binary", a, b)
    elif form == 2:  # fan-out: several read one value, sums of columns come back to it
        v = m.apply(rng.choice(["unary", "gemm", "rowsum"]), "x")
        for _ in range(rng.randrange(2, 4)):
            m.apply(rng.choice(SAME), v)
        s = m.apply("colsum", v)
        m.apply("gelu", m.apply("spread", v, s))
    else:  # anything from anything
        have = ["x"]
        for _ in range(rng.randrange(2, 8)):
            src = have[-1] if rng.random() < 0.7 else rng.choice(have)
            have.append(m.apply(rng.choice(ANY), src, rng.choice(have)))
    return pooled(m.document()) if favour == "versions" or seed % 5 == 0 else m.document()


class Planner:
    """One process of planner.c; a new one when it died."""

    def __init__(self, exe, *args):
        self.command, self.process = [exe, *args], None

    def ask(self, request, seconds=120):
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        timer = threading.Timer(seconds * float(os.environ.get("DOVETAIL_TEST_SLOW", "1")), self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = ""
        timer.cancel()
        if not line.strip():
            self.process.kill()
            status = self.process.wait()
            self.process = None
            return {"error": "died: the planner ended with status %d, or took too long" % status}
        return json.loads(line)

    def close(self):
        """The exit status: sanitizers speak at the end."""
        if self.process is None:
            return 0
        self.process.stdin.close()
        status = self.process.wait()
        self.process.stdout.close()
        return status


def ways(seed, kinds):
    """How to plan this graph: (kind that it is for, [request, …]). Seeds modulo 4 are forms of graphs."""
    only, level = (kinds + [["", ""]])[seed // 4 % (len(kinds) + 1)]
    forced = {"force": True}
    if not only and seed % 2:  # with those that are off by default
        forced["allow"] = sorted({k for k, _ in kinds})
    if only:
        forced |= {"allow": [only], "deny": sorted({k for k, _ in kinds} - {only})}
    if level:
        forced["levels"] = level
    if level == "cluster":  # of the best size, or another one; what is element-wise inlined, or joined as well
        forced["cluster"] = [0, 2, 3, 16][seed % 4]
        forced["levels"] = ["cluster", "cluster,register"][seed // 4 // (len(kinds) + 1) % 2]
    return only, [{}, forced]


def check(planner, seed, kinds):
    """Plan one graph in all ways: ({(kind, level, verdict): how often}, gain) or RuntimeError."""
    verdicts, gain = {}, 1.0
    only, requests = ways(seed, kinds)
    for more in requests:
        level = requests[1].get("levels", "").split(",")[0]
        force, graph = "force" in more, build(seed, level if level in ("cluster", "register") else only)
        how = " (forced%s)" % (": " + only + " " + more.get("levels", "") if only else "") if force else ""
        a = planner.ask({"graph": graph, "seeds": [11, 12], "inputs": 2, "schedules": 3} | more)
        if "error" in a:
            raise RuntimeError(a["error"] + how)
        if a["equal"]:
            raise RuntimeError("the plan's outputs are wrong%s: %s" % (how, a["equal"]))
        before, after = a["plan"]["baseline"]["time_us"], a["plan"]["optimized"]["time_us"]
        if after > before and not force:
            raise RuntimeError("slower: %.2f -> %.2f us" % (before, after))
        gain *= 1 if force else before / after
        for x in a["plan"]["rewrites"]:
            key = x["kind"], x.get("level") or "", x["verdict"] + (", forced" if force else "")
            verdicts[key] = verdicts.get(key, 0) + 1
            # caught, but a wrong plan was made, or written
            if (x.get("reason") or "").startswith(("verification:", "internal:")):
                raise RuntimeError("%s of %s was made and found wrong%s: %s" % (x["kind"], "+".join(x["launches"]), how,
                    x["reason"]))
            # what a kept level was refused for as the other side's is no reason of the row
            if x["verdict"] == "kept" and "level %s: " % x.get("level") in (x.get("reason") or ""):
                raise RuntimeError("%s of %s is kept, and says why not%s: %s" % (x["kind"], "+".join(x["launches"]),
                    how, x["reason"]))
    return verdicts, gain


def table(total, kinds):
    """Prints how often what became of each kind; the kinds and levels that were never kept."""
    words = ["kept", "kept, forced", "dropped", "dropped, forced", "refused", "refused, forced"]
    rows = sorted({(k, level) for k, level, _ in total} | {tuple(k) for k in kinds})
    print("%-32s" % "" + "".join("%17s" % w for w in words))
    for kind, level in rows:
        print("%-32s" % (kind + " " + level).strip() + "".join("%17d" % total.get((kind, level, w), 0) for w in words))
    return [" ".join(k).strip() for k in kinds if not total.get((*k, "kept"), 0) + total.get((*k, "kept, forced"), 0)]


def each(exe, seeds, check, threads=8):
    """check(planner, seed, kinds) -> (verdicts, more) of every seed, in so many threads, each with a planner of its
    own: (kinds, sums of verdicts, [more], seeds that raised a RuntimeError, which is printed; None stands for a planner
    that ended with an error)."""
    todo, lock, total, more, wrong = iter(seeds), threading.Lock(), {}, [], []
    first = Planner(exe)
    kinds = first.ask({"list": True})["kinds"]
    first.close()

    def work():
        planner = Planner(exe)
        while True:
            with lock:
                seed = next(todo, None)
            if seed is None:
                break
            try:
                verdicts, x = check(planner, seed, kinds)
                with lock:
                    more.append(x)
                    for k, n in verdicts.items():
                        total[k] = total.get(k, 0) + n
            except RuntimeError as e:
                with lock:
                    wrong.append(seed)
                    print("seed %d: %s" % (seed, e), flush=True)
        if planner.close():
            with lock:
                wrong.append(None)
                print("the planner ended with an error", flush=True)

    workers = [threading.Thread(target=work) for _ in range(min(os.cpu_count() or 1, threads))]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    return kinds, total, more, wrong


def main():
    exe = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    step = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    began = time.monotonic()
    kinds, total, gains, wrong = each(exe, range(first, first + count * step, step), check)
    never = table(total, kinds)
    print("%d graphs, %d wrong, %.0f s; never kept: %s; geometric mean %.3f times as fast (modeled)" %
          (count, len(wrong), time.monotonic() - began, ", ".join(never) or "none",
           math.exp(sum(math.log(g) for g in gains) / max(1, len(gains)))))
    return 1 if wrong or (never if count >= 300 else len(never) == len(kinds)) else 0


if __name__ == "__main__":
    sys.exit(main())
