#!/usr/bin/env python3
"""Would the gate notice? Every predicate of rewrite/legal.def and legal-solo.def is switched off on a graph made for
it.

A row of CASES (block fusion) and SOLO (programmatic launch): the predicate, others that must be off with it so that the
pair gets so far, the graph, and what must happen then. Each graph is planned twice, everything legal of this kind
forced (kept whether it is faster or not):

  with all predicates on, the pair (a, b) is refused by this predicate;
  with it off, the pair ends as the row says, "verdict: start of the reason":
    refused: machine-code   the fused launch was made, and its machine code has other arithmetic than the posted ones'
    refused: verification   the fused launch was made, and the bitwise comparison, a block order, the race detector or a
                            fault refuses it
    refused: building       join, the verifier, print-parse equality or the loader does; `resources` is the assembler,
                            `shared-space` the layout
    error, died             nothing comes of it at all: the device takes no such kernel; the code behind the predicate
                            cannot go on without what it promises
  and in every case a plan, if there is one, must leave the same bytes as the graph (planner.c compares, on other inputs
  than the gate).

HARDWARE are those whose breach this device cannot show, with what stands in its stead. Each has a graph all the same:
it must be refused with the predicate on, and be right on this device with it off; were it wrong, it could be caught and
belonged above.

What the gate refuses leaves a bundle ($DOVETAIL_BUNDLES). DOVETAIL, the command line, runs both documents of every
bundle as a user would: the original goes through, the plan differs from it, faults or hangs; only a race, a block order
or an input that the gate made itself does not show in one run.

    mutants.py PLANNER FILE.def,… [DOVETAIL [NAME…]]      exit status 1 if one comes out otherwise, or a predicate is in
                                                          neither list; --third for a name: every third bundle is run
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from plans import Planner  # noqa: E402
from staged import REFUSED as STAGED  # noqa: E402

N = 2048
CUDA = r"""
extern "C" __global__ void scale(const float *x, float *h) { int i = blockIdx.x * blockDim.x + threadIdx.x; h[i] = x[i] * 2.f; }
extern "C" __global__ void add(const float *x, const float *z, float *y) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i] + z[i]; }
extern "C" __global__ void early(const float *x, float *h) /* half of the block leaves before a barrier */
{
    __shared__ float s[128];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    s[t] = x[i];
    h[i] = x[i] + 1.f;
    if (t >= 64) return;
    __syncthreads();
    h[i] = s[t ^ 1] + 2.f;
}
extern "C" __global__ void halves(const float *x, float *h) /* half of every warp leaves, the rest names all lanes */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    h[i] = v;
    if ((threadIdx.x & 31) >= 16) return;
    for (int k = 8; k; k /= 2) v += __shfl_xor_sync(0xffffffffu, v, k);
    h[i] = v;
}
extern "C" __global__ void ticket(const float *x, unsigned *z, float *h) /* a number that depends on the order of blocks */
{
    __shared__ unsigned n;
    if (threadIdx.x == 0) n = atomicAdd(z, 1u);
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    h[i] = x[i] + n;
}
extern "C" __global__ void total(const float *x, float *z, float *h) /* a sum whose rounding depends on the order of blocks */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    h[i] = x[i] * 1.1f;
    if (threadIdx.x == 0) atomicAdd(z, x[i] * 1000.f + 0.001f * i);
}
extern "C" __global__ void pairs(const float *x, float *h, unsigned *flag) /* an even block waits for the odd one after it */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    h[i] = x[i] + 1.f;
    __threadfence();
    __syncthreads(); /* so that its blocks run one after the other where they are joined */
    if (threadIdx.x == 0) {
        if (blockIdx.x & 1) atomicExch(flag + blockIdx.x, 7u);
        else while (atomicAdd(flag + blockIdx.x + 1, 0u) != 7u) {}
    }
}
extern "C" __global__ void waits(const float *x, float *h, float *z, unsigned *flag) /* the first eight blocks for the others */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.x < 8) {
        if (threadIdx.x == 0) while (atomicAdd(flag + blockIdx.x, 0u) != 7u) {}
        __syncthreads();
        h[i] = x[i] + 1.f;
    } else {
        z[i] = x[i] * 2.f;
        if (threadIdx.x == 0) atomicExch(flag + blockIdx.x - 8, 7u);
    }
}
extern "C" __global__ void turn(const float *h, float *y) { y[blockIdx.x * 128 + threadIdx.x] = h[blockIdx.x * 128 + 127 - threadIdx.x]; }
extern "C" __global__ void two(const float *h, float *y) /* a block reads what two of 128 threads wrote */
{
    int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = h[i ^ 128] + h[i];
}
extern "C" __global__ void next(const float *h, float *y) /* a block reads its own and the next one's */
{
    int i = blockIdx.x * 128 + threadIdx.x, n = gridDim.x * 128;
    y[i] = h[i] - h[(i + 128) % n];
}
extern "C" __global__ void back(const float *h, float *y, float *g) /* and writes a third buffer elsewhere */
{
    int i = blockIdx.x * 128 + threadIdx.x, n = gridDim.x * 128;
    y[i] = h[i] - h[(i + 128) % n];
    g[(i + 256) % n] = h[i];
}
extern "C" __global__ void twice(float *h) { int i = blockIdx.x * blockDim.x + threadIdx.x; h[i] = h[i] * 2.f; }
extern "C" __global__ void all(const float *h, float *y, int n)
{
    float a = 0;
    for (int i = threadIdx.x; i < n; i += 32) a += h[i];
    for (int k = 16; k; k /= 2) a += __shfl_xor_sync(~0u, a, k);
    if (threadIdx.x == 0) y[blockIdx.x] = a;
}
extern "C" __global__ void one(const float *x, float *h) { h[blockIdx.x] = x[blockIdx.x] * 2.f; }
extern "C" __global__ void scatter(const float *x, float *h, int n) /* block numbers in no order that is affine modulo 2^32 */
{
    int b = (int)((blockIdx.x * 7919u + 13u) % gridDim.x), i = b * 32 + threadIdx.x;
    h[i] = x[i] * 3.f;
}
extern "C" __global__ void gather(const float *h, float *y, int n)
{
    int b = (int)((blockIdx.x * 4099u + 5u) % gridDim.x), i = b * 32 + threadIdx.x;
    y[i] = h[i] - 1.f;
}
extern "C" __global__ void big(const float *x, float *h) /* a row of 128 threads x 8, and much dynamic shared memory */
{
    extern __shared__ float s[];
    for (int k = 0; k < 64; k++) s[k * 128 + threadIdx.x] = x[(blockIdx.x * 64 + k) * 128 + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 64; k++) h[(blockIdx.x * 64 + k) * 128 + threadIdx.x] = s[k * 128 + 127 - threadIdx.x];
}
extern "C" __global__ void luck(const float *x, float *h, int n) /* two blocks write each byte */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    h[i] = x[i];
    h[(i + 128) % n] = x[i] * 2.f;
}
extern "C" __global__ void meets(const float *x, int *z, float *h) /* as many barriers as a number says that is written over */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = (z[blockIdx.x] & 3) + 1;
    __syncthreads();
    if (threadIdx.x == 0) z[blockIdx.x] = n;
    for (int k = 0; k < n; k++) __syncthreads();
    h[i] = x[i] + n;
}
extern "C" __global__ void traps(const float *x, float *h)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] > 1000.f) asm volatile("trap;");
    h[i] = x[i] + 1.f;
}
"""
MASK = r"""
extern "C" __global__ void mask(const float *x, float *h)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    h[i] = x[i] + (float)__activemask();
}
"""
CLUSTER = r"""
extern "C" __global__ void swap(const float *h, float *y) /* the two blocks of a cluster exchange what they read */
{
    __shared__ float s[128];
    unsigned t = threadIdx.x, rank, at, peer;
    float v;
    s[t] = h[blockIdx.x * 128 + t];
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    at = (unsigned)__cvta_generic_to_shared(&s[t]);
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(at), "r"(1u));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(peer) : "memory");
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
    y[blockIdx.x * 128 + t] = v + rank;
}
"""
INLINE = r"""
extern "C" __global__ void both(const float *x, float *h, float *g) { int i = blockIdx.x * blockDim.x + threadIdx.x; h[i] = x[i] + 1.f; g[i] = x[i] - 1.f; }
extern "C" __global__ void across(const float *h, const float *g, float *y, int n) /* g's element of another thread */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = h[i] + g[n - 1 - i];
}
extern "C" __global__ void swapped(const float *x, unsigned *h) { int i = blockIdx.x * blockDim.x + threadIdx.x; atomicExch(h + i, __float_as_uint(x[i] * 2.f)); }
extern "C" __global__ void blur(const float *x, float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    h[i] = x[i] + x[i ? i - 1 : i] + x[i < n - 1 ? i + 1 : i];
}
extern "C" __global__ void into(const float *h, float *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] = h[i] * 0.5f; }
extern "C" __global__ void onto(const float *h, float *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] = x[i] + h[i]; }
extern "C" __global__ void four(const float4 *h, float4 *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = h[i];
    v.x += 1; v.y *= 2; v.z -= 3; v.w *= v.w;
    y[i] = v;
}
extern "C" __global__ void shares(const float4 *h, float4 *y) /* a lane needs the others */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = h[i];
    float s = 1 / (v.x + v.y + v.z + v.w);
    y[i] = make_float4(v.x * s, v.y * s, v.z * s, v.w * s);
}
extern "C" __global__ void shorts(const float *x, short *h) /* half of an element at a time */
{
    __shared__ short s[128];
    s[threadIdx.x] = (short)(x[blockIdx.x * 64 + threadIdx.x / 2] * 99.f);
    __syncthreads();
    h[blockIdx.x * 128 + threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void mixed(const float *h, float *y) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = h[i ^ 5] + 1.f; }
extern "C" __global__ void pad(const float *h, float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = i < n ? h[i] + 1.f : 2.f; }
extern "C" __global__ void twice(const float *x, float *h) /* each element a second time, by another thread */
{
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    h[i] = 1.f;
    __syncthreads();
    i = i - t + (t ^ 1);
    h[i] = x[i] * 2.f;
}
extern "C" __global__ void reverse(const float *h, float *y)
{
    __shared__ float s[128];
    s[threadIdx.x] = h[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 128 + threadIdx.x] = s[127 - threadIdx.x];
}
"""
SLICE = r"""
extern "C" __global__ void counts(const float *x, float *h, unsigned *z) /* two stores, and a count */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    h[i] = x[i] * 2.f;
    h[i + n] = x[i + n] - 1.f;
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(z + blockIdx.x, 3u);
}
extern "C" __global__ void rows(const float *x, float *h) /* four rows; each is reversed in shared memory */
{
    __shared__ float s[4][128];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, n = gridDim.x * blockDim.x;
    for (int k = 0; k < 4; k++) s[k][t] = x[i + k * n] * 2.f;
    __syncthreads();
    h[i] = s[0][127 - t];
    h[i + n] = s[1][127 - t] + 1.f;
    h[i + 2 * n] = s[2][127 - t] + 2.f;
    h[i + 3 * n] = s[3][127 - t] + 3.f;
}
extern "C" __global__ void sums(const float *x, float *h, int n) /* the next round takes what this one adds up */
{
    float sum = 0;
    #pragma unroll 1
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) h[i] = sum += x[i];
}
extern "C" __global__ void handed(const float *x, float *h, int n) /* and finds what it has left in shared memory */
{
    __shared__ float s[128];
    int t = threadIdx.x;
    s[t] = 1.f;
    __syncthreads();
    #pragma unroll 1
    for (int b = blockIdx.x; b < n / 128; b += gridDim.x) {
        float v = s[127 - t];
        __syncthreads();
        s[t] = x[b * 128 + t];
        __syncthreads();
        h[b * 128 + t] = v;
    }
}
extern "C" __global__ void tile(const float *x, float *h) /* by tensor cores, and out by way of shared memory: one store of all threads */
{
    __shared__ __align__(16) float s[512];
    int t = threadIdx.x, lane = t % 32, to = t / 32 * 128 + lane / 4 * 8 + lane % 4 * 2;
    const unsigned *a = (const unsigned *)x + blockIdx.x * 512 + t / 32 * 128 + lane;
    float d[4] = {};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[32]), "r"(a[64]), "r"(a[96]), "r"(a[0]), "r"(a[32]));
    s[to] = d[0]; s[to + 1] = d[1]; s[to + 64] = d[2]; s[to + 65] = d[3];
    __syncthreads();
    ((float4 *)(h + blockIdx.x * 512))[t] = ((float4 *)s)[t];
}
"""
PACK = r"""
extern "C" __global__ void mirrored(const float *x, float *h) /* in reverse, in shared memory */
{
    __shared__ float s[64];
    int t = threadIdx.x, n = blockDim.x, i = blockIdx.x * n + t;
    s[t] = x[i];
    __syncthreads();
    h[i] = s[n - 1 - t];
}
extern "C" __global__ void nine(const float *x, float *h) /* barriers, with numbers of their own */
{
    __shared__ float s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float v = x[i];
#define STEP(n) s[t] = v; asm volatile("bar.sync " #n ";" ::: "memory"); v += s[63 - t]; __syncthreads();
    STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8)
    h[i] = v;
}
"""
VARIABLE = r"""__device__ float state[2048];
extern "C" __global__ void keep(const float *x, float *h) { int i = blockIdx.x * blockDim.x + threadIdx.x; state[i] += x[i]; h[i] = state[i]; }"""


def ptx(version, target, before, body, params=".param .u64 p0, .param .u64 p1", name="k"):
    return """.version %s
.target %s
.address_size 64
%s
.visible .entry %s(%s)
{
.reg .b64 %%rd<16>; .reg .b32 %%r<40>; .reg .f32 %%f<9>; .reg .pred %%p<9>;
ld.param.u64 %%rd1, [p0]; ld.param.u64 %%rd2, [p1];
mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, %%ntid.x; mov.u32 %%r3, %%tid.x; mad.lo.s32 %%r4, %%r1, %%r2, %%r3;
mul.wide.s32 %%rd3, %%r4, 4; add.s64 %%rd4, %%rd1, %%rd3; add.s64 %%rd5, %%rd2, %%rd3;
ld.global.f32 %%f1, [%%rd4];
%s
st.global.f32 [%%rd5], %%f1;
ret;
}
""" % (version, target, before, name, params, body)


def buffer(count, role, seed=3, **more):
    b = {"bytes": 4 * count, "role": role}
    if role in ("input", "weight", "inout"):
        b["fill"] = {"uniform": [-1, 1], "dtype": "f32", "seed": seed}
    return b | more


def launch(name, module, entry, *args, grid=N // 128, block=128, **more):
    args = [a if isinstance(a, dict) else {"i32": a} if isinstance(a, int) else {"buffer": a} for a in args]
    return {"name": name, "module": module, "entry": entry, "grid": [grid, 1, 1], "block": [block, 1, 1],
            "args": args} | more


def graph(launches, modules=None, n=N, **buffers):
    every = {"x": buffer(n, "input"), "h": buffer(n, "intermediate"), "y": buffer(n, "output")} | buffers
    used = {l.get("module") for l in launches}
    known = {"m": {"cuda": CUDA}, "k": {"cuda": MASK}, "c": {"cuda": CLUSTER}, "i": {"cuda": INLINE},
             "v": {"cuda": VARIABLE}, "s": {"cuda": SLICE}, "pack": {"cuda": PACK}}
    known |= {k: {"ptx": t} for k, t in (modules or {}).items()}
    return {"dovetail": 1, "name": "mutant", "modules": {k: v for k, v in known.items() if k in used}, "buffers": every,
            "launches": launches}


def first(body, before="", version="8.0", target="sm_80", grid=N // 128, block=128):
    """`body` between the load and the store of the first launch, `scale` as the second."""
    return graph([launch("a", "p", "k", "x", "h", grid=grid, block=block), launch("b", "m", "scale", "h", "y")],
                 {"p": ptx(version, target, before, body)})


def of_corpus(name):
    where = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus", name)
    with open(os.path.join(where, "graph.json"), encoding="utf-8") as f:
        doc = json.load(f)
    for m in doc["modules"].values():
        with open(os.path.join(where, m.pop("file")), encoding="utf-8") as f:
            m["ptx"] = f.read()
    for l, name in zip(doc["launches"], "ab"):
        l["name"] = name
    return doc


ZERO = {"fill": {"zero": True}}
A = launch("a", "m", "scale", "x", "h")
B = launch("b", "m", "scale", "h", "y")
RECURSIVE = """.func (.param .b32 r) down(.param .b32 a)
{
.reg .b32 %r<4>; .reg .pred %p<2>;
ld.param.b32 %r1, [a]; setp.lt.s32 %p1, %r1, 1; @%p1 bra END;
sub.s32 %r1, %r1, 1;
{ .param .b32 q; .param .b32 s; st.param.b32 [q], %r1; call.uni (s), down, (q); ld.param.b32 %r1, [s]; }
END: add.s32 %r1, %r1, 1; st.param.b32 [r], %r1; ret;
}"""
LEAVES = """.func leave(.param .b32 a)
{
.reg .b32 %r<4>; .reg .pred %p<2>;
ld.param.b32 %r1, [a]; setp.lt.s32 %p1, %r1, 64; @%p1 bra END;
exit;
END: ret;
}"""
LDU = """.func (.param .b32 v) deep(.param .b64 a)
{
.reg .b64 %rd<2>; .reg .f32 %f<2>;
ld.param.b64 %rd1, [a]; ldu.global.f32 %f1, [%rd1]; st.param.f32 [v], %f1;
ret;
}"""
CASES = [
    ("racy", "self_conflict", graph([launch("a", "m", "luck", "x", "h", N), B]), "refused: verification"),
    ("clusters", "", graph([A, launch("b", "c", "swap", "h", "y", cluster=[2, 1, 1])]), "refused: verification"),
    ("opaque", "", first("frobnicate.b32 %r5, %r6;"), "error: bad-ptx"),
    ("order", "", graph([A, {"name": "m", "copy": {"from": {"buffer": "h"}, "to": {"buffer": "g"}, "bytes": 4 * N}},
                         launch("b", "m", "add", "h", "g", "y")],
                        g=buffer(N, "intermediate")), "refused: building: order: 'm' depends on one of the launches"),
    ("block_map", "", graph([launch("a", "m", "one", "x", "h", grid=6000, block=1),
                             launch("b", "m", "all", "h", "y", 6000, grid=6000, block=32)],
                            n=6000), "died"),
    ("self_conflict", "", graph([launch("a", "m", "ticket", "x", "z", "h"), B], z=buffer(1, "inout", **ZERO)),
     "refused: verification"),
    ("ordered_access", "self_conflict", graph([launch("a", "m", "pairs", "x", "h", "flag"),
                                               launch("b", "m", "two", "h", "y", grid=N // 256, block=256)],
                                              flag=buffer(16, "inout", **ZERO)), "refused: verification"),
    ("float_atomics", "self_conflict", graph([launch("a", "m", "total", "x", "z", "h"), B],
                                             z=buffer(1, "inout", **ZERO)), "refused: verification"),
    ("machine_registers", "", graph([launch("a", "p", "k", "x", "h"),
                                     launch("b", "m", "two", "h", "y", grid=N // 256, block=256)],
                                    {"p": ptx("8.0", "sm_80", "", "mov.u32 %r5, %smid; cvt.rn.f32.u32 %f2, %r5; "
                                                                  "add.rn.f32 %f1, %f1, %f2;")}),
     "refused: verification"),
    ("functions", "self_conflict",
     first("{ .param .b32 q; st.param.b32 [q], %r3; st.global.f32 [%rd5], %f1; call.uni leave, (q); }", LEAVES),
     "refused: verification"),
    ("module_variables", "", graph([launch("a", "v", "keep", "x", "h"), B], **{"v::state": buffer(2048, "inout")}),
     "refused: verification"),
    ("parameters", "", graph([launch("a", "p", "k", "x", "h", {"bytes": "00" * 3000}),
                              launch("b", "p", "k", "h", "y", {"bytes": "00" * 3000})],
                             {"p": ptx("8.0", "sm_80", "", "",
                                       ".param .u64 p0, .param .u64 p1, .param .align 4 .b8 p2[3000]")}),
     "refused: resources"),
    ("targets", "", graph([launch("a", "p", "k", "x", "h"), launch("b", "q", "k", "h", "y")],
                          {"p": ptx("8.0", "sm_90a", "", ""), "q": ptx("8.6", "sm_100", "", "")}),
     "error: unsupported: the module is for sm_100"),
    ("uniform_barriers", "", graph([launch("a", "m", "early", "x", "h"), launch("b", "m", "turn", "h", "y")]),
     "refused: verification"),
    ("uniform_collectives", "", graph([launch("a", "m", "halves", "x", "h"), launch("b", "m", "turn", "h", "y")]),
     "refused: verification"),
    ("barrier_numbers", "", graph([launch("a", "p", "k", "x", "h"),
                                   launch("b", "m", "two", "h", "y", grid=N // 256, block=256)],
                                  {"p": ptx("8.0", "sm_80", "", "".join("bar.sync %d; " % k for k in range(16)))}),
     "refused: verification"),
    ("thread_counts", "", graph([launch("a", "p", "k", "x", "h", grid=32, block=48),
                                 launch("b", "m", "scale", "h", "y", grid=12)],
                                {"p": ptx("8.0", "sm_80", "", "mov.b32 %r5, %f1; shfl.sync.down.b32 %r6, %r5, "
                                          "1, 31, -1; mov.b32 %f1, %r6;")}, n=1536), "refused: verification"),
    ("surplus_lanes", "", graph([launch("a", "p", "k", "x", "h", grid=32, block=48),
                                 launch("b", "m", "scale", "h", "y", grid=12)],
                                {"p": ptx("8.0", "sm_80", "", "setp.gt.f32 %p1, %f1, 0f00000000; bar.red.popc.u32 %r5, "
                                          "0, %p1; cvt.rn.f32.u32 %f1, %r5;")}, n=1536), "refused: verification"),
    ("surplus_paths", "", graph([launch("a", "m", "meets", "x", "z", "h", grid=32, block=48),
                                 launch("b", "m", "scale", "h", "y", grid=12)], n=1536,
                                z=buffer(32, "inout", fill={"uniform": [1, 3], "dtype": "i32", "seed": 1})),
     "refused: verification"),
    ("constant_space", "", graph([launch("a", "p", "k", "x", "h"), launch("b", "q", "k", "h", "y")],
                                 {name: ptx("8.0", "sm_80", ".const .align 4 .b8 tab[65536] = {%d};" % k, "bar.sync 0; "
                                            "mov.u64 %rd6, tab; cvta.const.u64 %rd6, %rd6; ld.f32 %f2, [%rd6+65532]; "
                                            "ld.const.f32 %f3, [tab]; add.rn.f32 %f1, %f1, %f2;")
                                  for k, name in enumerate("pq")}),
     "refused: resources"),
    ("shared_space", "", graph([launch("a", "m", "big", "x", "h", grid=4, shared=220000),
                                launch("b", "m", "big", "h", "y", grid=4, shared=220000)], n=4 * 8192),
     "kept: shared-space: it needs"),
]
INLINED = [
    ("pointwise", "", graph([launch("a", "i", "reverse", "x", "h"), launch("b", "i", "reverse", "h", "y")]),
     "refused: building"),
    ("one_buffer", "", graph([launch("a", "i", "both", "x", "h", "g"), launch("b", "i", "across", "h", "g", "y", N)],
                             g=buffer(N, "intermediate")),
     "refused: verification"),
    ("plain_sites", "bystanders", graph([launch("a", "i", "swapped", "x", "h"), B]), "refused: verification"),
    ("bystanders", "", graph([launch("a", "i", "blur", "x", "h", N), launch("b", "i", "into", "h", "x")],
                             x=buffer(N, "inout")), "refused: verification"),
    ("no_other_reader", "", graph([A, launch("b", "i", "reverse", "h", "y"), launch("c", "i", "reverse", "h", "z")],
                                  z=buffer(N, "output")),
     "refused: verification"),
    ("same_widths", "", graph([launch("a", "i", "shorts", "x", "h"),
                               launch("b", "m", "scale", "h", "y", grid=N // 256)]), "refused: building"),
    ("own_ways", "", graph([launch("a", "i", "reverse", "x", "h"),
                            launch("b", "i", "shares", "h", "y", grid=N // 512)]), "refused: machine-code"),
    ("thread_map", "", graph([launch("a", "m", "big", "x", "h", grid=1, shared=32768),
                              launch("b", "i", "mixed", "h", "y", grid=8192 // 128)], n=8192),
     "refused: verification"),
    ("same_elements", "", graph([launch("a", "i", "reverse", "x", "h", grid=8),
                                 launch("b", "i", "pad", "h", "y", N // 2)]), "refused: verification"),
    ("stored_once", "", graph([launch("a", "i", "twice", "x", "h"), launch("b", "i", "onto", "h", "y")],
                              y=buffer(N, "inout")), "refused: verification"),
    ("staged_box", "async", STAGED["lanes-of-their-own"][1], "refused: verification"),
    ("staged_still", "async", STAGED["changed-behind-it"][1], "refused: verification"),
]
HARDWARE = [
    ("plain_launches", "", graph([A, launch("b", "m", "add", "h", "x", "y", programmatic=True)]),
     "the joined launch has no programmatic edge: it waits for all that its parts had a hazard with (kinds/place.c)"),
    ("active_mask", "", graph([launch("a", "k", "mask", "x", "h"), B]),
     "which lanes run together is the machine's choice; no run here can differ"),
    ("async", "",
     first(".shared .align 8 .b64 bar; setp.eq.u32 %p1, %r3, 0; @%p1 mbarrier.init.shared.b64 [bar], 128;"),
     "an mbarrier left in shared memory that the next phase takes: undefined on a GPU, bytes like others here"),
    ("side_effects", "", graph([launch("a", "m", "traps", "x", "h"), B]),
     "a trap ends graph and plan alike; only what others saw before it differs"),
]


SOLO = [
    ("arch", "", graph([A, B]), "refused: building: the module is for sm_90", "soft:a100"),
    ("known", "", first("frobnicate.b32 %r5, %r6;"), "error: bad-ptx"),
    ("calls", "", graph([A, launch("b", "p", "k", "h", "y")],
                        {"p": ptx("8.0", "sm_80", LEAVES, "").replace("ld.global.f32 %f1",
     "{ .param .b32 q; st.param.b32 [q], %r3; call.uni leave, (q); } ld.global.f32 %f1")}), "refused: stream-order"),
    ("coherent", "", graph([A, launch("b", "p", "k", "h", "y")],
                           {"p": ptx("8.0", "sm_80", "", "ldu.global.f32 %f1, [%rd4];")}), "refused: stream-order"),
    ("coherent", "", graph([A, launch("b", "p", "k", "h", "y")],
                           {"p": ptx("8.0", "sm_80", LDU, "").replace("ld.global.f32 %f1, [%rd4];",
     "{ .param .b64 q; .param .b32 v; st.param.b64 [q], %rd4; call.uni (v), deep, (q); ld.param.f32 %f1, [v]; }")}),
     "refused: stream-order"),
    ("tables", "", graph([A, launch("b", "v", "keep", "h", "y")], **{"v::state": buffer(2048, "inout")}),
     "refused: verification"),
]
SOLO_HARDWARE = [
    ("unwaited", "", graph([A, launch("b", "p", "k", "h", "y")],
                           {"p": ptx("8.0", "sm_90", "", "griddepcontrol.wait;")}),
     "two waits are one wait; the kernel's own placement is left to it"),
    ("scheduling", "", graph([A, launch("b", "p", "k", "h", "y")], {"p": ptx("6.0", "sm_60", "", "")}),
     "here threads of a warp part only where the code does"),
]
RECOMPUTE = [
    ("repeatable", "all_readers", graph([launch("z", "m", "scale", "x", "h"), launch("a", "m", "twice", "h"),
                                         launch("b", "m", "next", "h", "y")]),
     "refused: verification"),
    ("inputs_stay", "", graph([launch("z", "m", "scale", "x", "g"), launch("a", "m", "scale", "g", "h"),
                               launch("b", "m", "back", "h", "y", "g")],
                              g=buffer(N, "intermediate")), "refused: verification"),
    ("all_readers", "", graph([launch("z", "m", "scale", "x", "h"), launch("a", "m", "scale", "x", "h", grid=N // 256),
                               launch("b", "m", "next", "h", "y")]),
     "refused: verification"),
]
CLUSTERS = [  # level `cluster`, eight blocks, on a device without them and on one of six SMs
    ("cluster_device", "", graph([A, launch("b", "m", "scale", "h", "y", grid=4, block=512)]), "refused: resources",
     "soft:a100"),
    ("cluster_room", "", graph([launch("a", "m", "scale", "x", "h", shared=120000),
                                launch("b", "m", "scale", "h", "y", grid=2, block=1024)]),
     "refused: building: not one cluster", "soft:h200,sms=6"),
]
WIDE = 140 * 128  # 140 blocks, one an SM for the shared memory they take: a wave of 132 and a tail of 8
SPLIT = [
    ("single_blocks", "numbers,async",
     graph([launch("a", "c", "swap", "x", "h", grid=140, cluster=[5, 1, 1], shared=200000),
            launch("b", "m", "scale", "h", "y", grid=140)],
                                n=WIDE), "refused: building: 5 does not divide"),
    ("numbers", "", graph([launch("a", "p", "k", "x", "h", grid=140, shared=200000),
                           launch("b", "m", "scale", "h", "y", grid=140)],
                          {"p": ptx("8.0", "sm_90", "", "mov.u32 %r5, %clusterid.x; cvt.rn.f32.u32 %f2, %r5; "
                                                        "add.rn.f32 %f1, %f1, %f2;")}, n=WIDE),
     "refused: verification"),
    ("no_talk", "", graph([launch("a", "m", "ticket", "x", "z", "h", grid=140, shared=200000),
                           launch("b", "m", "scale", "h", "y", grid=140)],
                          n=WIDE, z=buffer(1, "inout", **ZERO)), "refused: verification"),
]
NARROW = [  # a block's warps meet at a barrier, and hand their elements on
    ("warps_apart", "", graph([launch("a", "i", "reverse", "x", "h"), launch("b", "m", "scale", "h", "y")]),
     "refused: verification"),
]
DATAFLOW = [ # a map that is not kept: nobody would wait
    ("block_maps", "", graph([launch("a", "m", "one", "x", "h", grid=6000, block=1),
                              launch("b", "m", "all", "h", "y", 6000, grid=6000, block=32)], n=6000),
     "refused: verification"),
]
# A kernel that calls a function: f1 = what the function makes of it.
CALL = ".param .b32 q; .param .b32 w; st.param.f32 [q], %f1; call (w), f, (q); ld.param.f32 %f1, [w];"
ANY = ".func (.param .b32 r) f(.param .b32 v)\n{\n.reg .b32 %r<9>; .reg .b16 %h<3>; .reg .f32 %f<5>; .reg .pred %p;\n"


def called(function, body=CALL, entries="", **more):
    return graph([launch("a", "p", "k", "x", "h"), more.pop("second", launch("b", "m", "scale", "h", "y"))],
                 {"p": ptx("8.0", "sm_90", function, body) + entries}, **more)


ADDS = ANY + "ld.param.f32 %f1, [v]; add.rn.f32 %f2, %f1, 0f3F800000; st.param.f32 [r], %f2; ret;\n}\n"
CALLS = [
    ("callees", "", called(ANY + """ld.param.b32 %r1, [v]; setp.lt.s32 %p, %r1, 1; @%p bra L;
        .param .b32 q; .param .b32 w; mov.b32 %r2, 0; st.param.b32 [q], %r2; call (w), f, (q); ld.param.b32 %r1, [w];
        L: st.param.b32 [r], %r1; ret;\n}\n"""), "died"), # text without end
    ("byte_views", "", called(ANY + """ld.param.u16 %h1, [v]; ld.param.u16 %h2, [v+2]; mov.b32 %r1, {%h1, %h2};
        st.param.b32 [r], %r1; ret;\n}\n"""), "refused: building"),
    ("own_tables", "calls_apart", called(".global .align 4 .b8 state[8192];\n" + ADDS, CALL + """mov.u64 %rd8, state;
        add.s64 %rd9, %rd8, %rd3; st.global.f32 [%rd9], %f1;""", """.visible .entry look(.param .u64 p1)\n{
        .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<3>; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %ctaid.x;
        mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3; mul.wide.s32 %rd3, %r4, 4;
        mov.u64 %rd4, state; add.s64 %rd5, %rd4, %rd3; ld.global.f32 %f1, [%rd5]; add.s64 %rd6, %rd2, %rd3;
        st.global.f32 [%rd6], %f1; ret;\n}\n""", second=launch("b", "p", "look", "y"),
                              **{"p::state": buffer(N, "inout")}), "refused: launch a"),
]
CALLS_HARDWARE = [ # lanes that come to a collective by two ways, and arithmetic of the whole program: hardware only
    ("lanes_alone", "", called(ANY + """ld.param.f32 %f1, [v]; mov.b32 %r1, %f1; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;
        st.param.b32 [r], %r2; ret;\n}\n""", 2 * ("{ " + CALL + " }\n")), "one way for all lanes"),
    ("calls_apart", "", called(ANY + """ld.param.f32 %f1, [v]; mul.f32 %f2, %f1, 0f3F000000; st.param.f32 [r], %f2;
        ret;\n}\n""", "mul.f32 %f1, %f1, %f1; " + CALL), "what is combined across a call, by whom sees both"),
]
# A launch that only copies, `a`, and its readers.
MOVE = r"""
extern "C" __global__ void move(const float *x, float *h) { int i = blockIdx.x * blockDim.x + threadIdx.x; h[i] = x[i]; }"""


def copied(*launches, entry="move", **more):
    g = graph([launch("z", "m", "scale", "x", "g"), launch("a", "w", entry, "g", "h"), *launches],
              g=buffer(N, "intermediate"), **more)
    g["modules"]["w"] = {"cuda": MOVE + CUDA}
    return g


COPIES = [
    ("source_stays", "", copied(launch("c", "m", "scale", "x", "g"), launch("d", "m", "scale", "g", "g"),
                                launch("b", "m", "scale", "h", "y")), "refused: verification"),
]
ROLES = [  # the first role's launch comes first, and waits for what the second one's sends
    ("roles_apart", "", graph([launch("a", "m", "waits", "x", "h", "z", "flag"), launch("b", "m", "scale", "h", "y")],
                              z=buffer(N, "output"), flag=buffer(8, "inout", **ZERO)), "refused: verification"),
]
# What is proposed, or made, holds these already: kernels one behind the other for `kernel` (programmatic.c: follows()),
# a layer for `unordered` (parallel.c), the blocks without a reader for `nobody_reads` (dead.c), lists made from the
# maps for `flags` (dataflow.c). So something else is proposed here ("propose"), or what was made is made wrong behind
# it ("spoil"): then the predicate must see it, and without it the gate, or (True at the end) only hardware.
GROUPS = of_corpus("slices-groups")
BOTH = graph([A, launch("b", "m", "next", "h", "y")])
# 48 threads: in the last 16 each adds what the one before it has to its own number, twice, with no barrier between
LOCKSTEP = (".shared .align 4 .b32 s[64]; mov.u32 %r5, s; mad.lo.s32 %r6, %r3, 4, %r5; st.shared.f32 [%r6], %f1; "
            "bar.sync 0; setp.lt.u32 %p1, %r3, 32; @%p1 bra L; " + 2 * (
            "ld.volatile.shared.f32 %f2, [%r6]; ld.volatile.shared.f32 %f3, [%r6+-4]; add.rn.f32 %f2, %f2, %f3; "
            "st.volatile.shared.f32 [%r6], %f2; ") + "L: bar.sync 0; ld.shared.f32 %f1, [%r6]; ")
HOOKED = [
    ("kernel", "", graph([A, {"name": "b", "copy": {"from": {"buffer": "h"}, "to": {"buffer": "y"}, "bytes": 4 * N}}]),
     "died", "programmatic-launch",
     {"propose": "programmatic-launch: a b"}),
    ("unordered", "", BOTH, "refused: verification", "parallel-fusion", {"propose": "parallel-fusion: a b"}),
    ("beside_async", "", graph([launch("a", "p", "k", "x", "g"), launch("b", "m", "scale", "x", "y")],
                               {"p": ptx("8.0", "sm_90", "", "griddepcontrol.launch_dependents;")},
                               g=buffer(N, "output")),
     "who is let go is the launch behind: of other kernels now, and they wait for nothing", "parallel-fusion",
     {"propose": "parallel-fusion: a b"}, True),
    ("same_values", "", graph([A, launch("b", "m", "scale", "h", "y")]),
     "refused: verification", "versions", {"spoil": "versions"}),
    ("same_footprints", "calls_apart", graph([launch("a", "p", "k", "x", "z"), launch("b", "m", "scale", "z", "y")],
                                  {"p": ptx("8.0", "sm_90", ADDS, CALL)}, z=buffer(N + 64, "intermediate")),
     "refused: verification", "calls", {"spoil": "calls"}),
    ("only_moves", "", BOTH, "refused: verification", "copies", {"spoil": "moves"}),
    ("same_places", "", copied(launch("b", "m", "scale", "h", "y", grid=N // 128 - 1)), "refused: verification",
     "copies", {"spoil": "copies"}),
    ("filled", "", graph([launch("z", "m", "scale", "x", "h"),
                          {"name": "a", "memset": {"buffer": "h", "bytes": 2 * N, "value": 0}},
                          launch("b", "m", "scale", "h", "y")]),
     "refused: verification", "recompute", {"levels": "register"}),
    ("nobody_reads", "", graph([A, launch("b", "m", "scale", "h", "y", grid=4)]), "refused: verification",
     "dead-blocks", {"spoil": "live"}),
    ("room", "", graph([launch("a", "p", "k", "x", "h", {"bytes": "00" * 4336}),
                        launch("b", "m", "add", "h", "z", "y")],
                       {"p": ptx("8.0", "sm_90", "", "",
                                 ".param .u64 p0, .param .u64 p1, .param .align 4 .b8 p2[4336]")},
                       z=buffer(N, "weight")),
     "refused: building", "prefetch", {}),
    ("plain_effects", "parts_apart", graph([launch("a", "s", "counts", "x", "h", "z", grid=N // 256),
                                            launch("b", "m", "scale", "h", "y")], z=buffer(N // 256, "inout", **ZERO)),
     "refused: verification", "slice", {"levels": "halves"}),
    ("each_store", "", graph([launch("a", "s", "rows", "x", "h", grid=N // 512), B]), "refused: verification", "slice",
     {"levels": "halves", "spoil": "store"}),
    ("shared_reach", "", graph([launch("a", "s", "rows", "x", "h", grid=N // 512), B]), "refused: verification",
     "slice", {"levels": "halves", "spoil": "reach"}),
    ("each_store", "", graph([launch("a", "s", "tile", "x", "h", grid=N // 512), B]), "refused: verification", "slice",
     {"levels": "halves", "spoil": "threads"}),
    ("shared_reach", "", graph([launch("a", "s", "tile", "x", "h", grid=N // 512), B]), "refused: verification",
     "slice", {"levels": "halves", "spoil": "reach"}),
    ("rounds_alone", "", graph([launch("a", "s", "sums", "x", "h", N, grid=2), B]), "refused: verification", "slice",
     {"levels": "halves"}),
    ("rounds_shared", "", graph([launch("a", "s", "handed", "x", "h", N, grid=2), B]), "refused: verification",
     "slice", {"levels": "halves"}),
    ("shared_reach", "", GROUPS, "refused: machine-code", "slice", {"levels": "halves", "spoil": "reach"}),
    ("each_store", "", GROUPS, "refused: verification", "slice", {"levels": "halves", "spoil": "order"}),
    ("parts_apart", "", graph([launch("a", "i", "twice", "x", "h"), B]), "refused: verification", "slice",
     {"levels": "halves"}),
    ("plain_effects", "parts_apart", graph([launch("a", "s", "counts", "x", "h", "z", grid=N // 256), B],
                                           z=buffer(N // 256, "inout", **ZERO)), "refused: verification", "tails",
     {"levels": "halves"}),
    ("each_store", "", graph([launch("a", "s", "rows", "x", "h", grid=N // 512), B]), "refused: verification", "tails",
     {"levels": "halves", "spoil": "store"}),
    ("shared_reach", "", graph([launch("a", "s", "rows", "x", "h", grid=N // 512), B]), "refused: verification",
     "tails", {"levels": "halves", "spoil": "reach"}),
    ("parts_apart", "", graph([launch("a", "i", "twice", "x", "h"), B]), "refused: verification", "tails",
     {"levels": "halves"}),
    ("shared_reach", "", graph([launch("a", "s", "rows", "x", "h", grid=N // 512), B]), "refused: verification",
     "tails", {"levels": "halved-4", "spoil": "reach"}),
    ("whole_warps", "", graph([launch("a", "pack", "mirrored", "x", "h", grid=32, block=48),
                               launch("b", "m", "scale", "h", "y", grid=12)], n=1536), "refused: verification", "pack",
     {"levels": "pairs"}),
    ("subblock_barriers", "", graph([launch("a", "pack", "nine", "x", "h", grid=N // 64, block=64), B]),
     "refused: verification", "pack", {"levels": "pairs"}),
    ("subblock_memory", "", graph([launch("a", "pack", "mirrored", "x", "h", grid=N // 64, block=64), B]),
     "refused: verification", "pack", {"levels": "pairs", "spoil": "step"}),
    ("posted_lanes", "", graph([launch("a", "p", "k", "x", "h", grid=32, block=48),
                                launch("b", "m", "scale", "h", "y", grid=12)],
                               {"p": ptx("8.0", "sm_80", "", LOCKSTEP)}, n=1536),
     "a lane that is late stores over what others made of the last thread's number", "block-fusion",
     {"spoil": "lockstep"}, True),
    ("flags", "", BOTH, "refused: verification", "dataflow-fusion", {"spoil": "wait"}),
    ("flags", "", BOTH, "refused: verification", "dataflow-fusion", {"spoil": "count"}),
    ("flags", "", BOTH, "refused: verification", "dataflow-fusion", {"spoil": "late"}),
]


def verdict(answer, kind):
    """How the candidate (a, b) of this kind ended, or, where it is about one launch at a time, a alone:
    "verdict: reason"."""
    if "error" in answer:
        return ("" if answer["error"].startswith("died") else "error: ") + answer["error"]
    mine = [r for r in answer["plan"]["rewrites"] if r["kind"] == kind]
    it = next((r for names in (["a", "b"], ["a"]) for r in mine if r["launches"] == names), {"verdict": "absent"})
    return it["verdict"] + ": " + (it.get("reason") or "")


# What the gate itself says, of text, the assembler's, the loader's, of bytes, races and waits: each leaves a bundle.
GATE = re.compile(r"refused: (verification|race|stream-order|analysis of the new launch|analysis before "
                  r"griddepcontrol.wait|resources: the assembler|building: (PTX )?line |building: \w+, instruction "
                  r"|building: .*print and parse|building: the module is for)")


def reproduce(dovetail, folder):
    """Run what is in the bundle: (does the plan differ from the original or fault?, what is wrong with the bundle)."""
    found = []
    for name in ("original.json", "plan.json"):
        r = subprocess.run([dovetail, "run", os.path.join(folder, name), "--local", "--device", "soft", "--json"],
                           stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, check=False)
        document = json.loads(r.stdout) if r.stdout else {}
        if not (r.returncode in (0, 3) or document.get("code") == "time-limit") or (name == "original.json"
            and r.returncode):
            return False, "%s of a bundle ends with %d: %s" % (name, r.returncode, r.stderr.strip()[-300:])
        found.append([(o["buffer"], o["sha256"]) for o in document["outputs"]] if r.returncode == 0
                     else document["code"])
    with open(os.path.join(folder, "what.txt"), encoding="utf-8") as f:
        return found[0] != found[1], None if f.read().strip() else "a bundle without words"


def main():
    exe, dovetail, names = sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else None, sys.argv[4:]
    every = 3 if "--third" in names else 1
    names = [n for n in names if n != "--third"]
    bundles = tempfile.TemporaryDirectory(prefix="dovetail-bundles.")
    os.environ["DOVETAIL_BUNDLES"] = bundles.name
    row = r"^(?:LEGAL|LEVEL|OTHER|INLINE|CLUSTER|SOLO|EDIT)\((\w+)"
    rows = [r for f in sys.argv[2].split(",") for r in re.findall(row, open(f, encoding="utf-8").read(), re.M)]
    cases = ([(c, "block-fusion", False) for c in CASES] + [(c, "block-fusion", False) for c in INLINED] +
             [(c, "block-fusion", True) for c in HARDWARE] + [(c, "block-fusion", False) for c in CLUSTERS] +
             [(c, "recompute", False) for c in RECOMPUTE] + [(c, "split", False) for c in SPLIT]
             + [(c, "narrow-blocks", False) for c in NARROW]
             + [(c, "dataflow-fusion", False) for c in DATAFLOW] +
             [(c, "calls", False) for c in CALLS] + [(c, "calls", True) for c in CALLS_HARDWARE] +
             [(c, "copies", False) for c in COPIES] + [(c, "roles", False) for c in ROLES] +
             [(c, "programmatic-launch", False) for c in SOLO]
             + [(c, "programmatic-launch", True) for c in SOLO_HARDWARE] +
             [(c[:4], c[4], len(c) > 6) for c in HOOKED])
    hooks = {id(c): h for (c, _, _), h in zip(cases[-len(HOOKED):], [h[5] for h in HOOKED])}
    listed = [c[0] for c, _, _ in cases]
    wrong = ["%s: no case" % r for r in rows if r not in listed] + ["%s: no such predicate" % n for n in listed
                                                                    if n not in rows]
    os.environ.setdefault("DOVETAIL_KERNEL_TIMEOUT_MS", "4000")  # of a kernel that waits for ever
    planners = {"soft": Planner(exe, "soft")}
    kinds = {k for k, _ in planners["soft"].ask({"list": True})["kinds"]}
    for case, kind, hardware in cases:
        name, more, g, want, *device = case
        if names and name not in names:
            continue
        device = device[0] if device else "soft"
        p = planners.setdefault(device, Planner("env", *["DOVETAIL_SOFTGPU_FIGURES=" + f
                                                         for f in device.split(",")[1:]], exe, device.split(",")[0]))
        request = {"graph": g, "force": True, "inputs": 3, "schedules": 4, "seeds": [5], "allow": [kind],
                   "deny": sorted(kinds - {kind}),
                   "levels": "register" if name in [c[0] for c in INLINED] else "cluster"
                   if name.startswith("cluster_") else "shared,global", "cluster": 8} | hooks.get(id(case), {})
        told = verdict(p.ask(request | {"off": more}), kind)
        own = name.replace("_", "-") + ":"
        if not told.startswith(("refused: " + own, "kept: " + own, "error: ")):
            wrong.append("%s: with it on: %s" % (name, told))
        before = set(os.listdir(bundles.name))
        a = p.ask(request | {"off": name + ("," + more if more else "")})
        told = verdict(a, kind)
        if GATE.match(told) and set(os.listdir(bundles.name)) == before:
            wrong.append("%s: nothing to reproduce it with: %s" % (name, told[:150]))
        if a.get("equal"):
            wrong.append("%s: a wrong plan got through: %s" % (name, a["equal"]))
        elif not told.startswith("kept" if hardware else want):
            wrong.append("%s: with it off, not '%s': %s" % (name, "kept" if hardware else want, told))
        print("%-20s %s" % (name, "not caught here: " + want if hardware else told.replace("\n", " ")[:150]),
              flush=True)
    for p in planners.values():
        if p.close():
            wrong.append("the planner ended with an error")
    told = [reproduce(dovetail, os.path.dirname(b))
            for b in sorted(glob.glob(bundles.name + "/*/what.txt"))[::every]] if dovetail else []
    wrong += [w for _, w in told if w]
    if dovetail and not names and 2 * sum(shown for shown, _ in told) < len(told):
        wrong.append("only %d of %d bundles reproduce" % (sum(shown for shown, _ in told), len(told)))
    print("%d bundles, of which one run of the plan shows %d" % (len(told), sum(shown for shown, _ in told)))
    print("\n".join(wrong))
    print("%d predicates: %d ways to break them caught, %d only hardware shows, %d wrong" %
          (len(rows), sum(not h for _, _, h in cases), len(HARDWARE + SOLO_HARDWARE + CALLS_HARDWARE), len(wrong)))
    return 1 if wrong else 0


sys.exit(main())
