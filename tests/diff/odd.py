#!/usr/bin/env python3
"""Plans of unusual kernels, and what happens when data decides otherwise than it did while planning.

Random chains of the kernels below (early exits, barriers in odd places, rare stores, gathers and scatters, atomics,
counted barriers, local arrays, volatile and .nc accesses, 3-D blocks of any size, overlapping views of one buffer,
partial memsets and copies, variables of the module). Most of them look at `f`, which is all zeros while the graph is
planned: what depends on it never happens then. Graph and plan are then run with other content of `f`, in several orders
of blocks, and must still agree byte by byte: no gate has seen that input, so only the analysis and the predicates stand
for it.

Each graph is planned as a user would have it, and with one kind or level forced, as plans.py does.

    odd.py PLANNER [COUNT [FIRST_SEED [KERNEL,…]]]      exit status 1 if a plan differs or fails, or a wrong one was
                                                        made and caught
"""
import base64
import os
import random
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from plans import each, table, ways  # noqa: E402

CUDA = r"""
#define PRE int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), T = blockDim.x * blockDim.y * blockDim.z, \
    b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), i = b * T + t; (void)b; (void)T;
#define K(name) extern "C" __global__ void name(const float *x, float *y, const int *f, int n)
__constant__ float coef[4] = {1.f, 2.f, 3.f, 4.f};
__device__ float state[4608];
K(plain) { PRE if (i < n) y[i] = x[i] * 2.f + 1.f; }
K(again) { PRE if (i < n) y[i] = y[i] * 0.5f + x[i]; }
K(reverse) { PRE if (i < n) y[n - 1 - i] = x[i] - 1.f; }
K(shift) { PRE if (i < n) y[i] = x[i] + x[(i + 1) % n]; }
K(seven) { PRE if (i < n) y[i * 7 % n] = x[i]; }
K(below) { PRE if (i < n) (y + n)[-1 - i] = x[i]; }
K(wraps) { PRE unsigned j = (unsigned)i * 65536u; j = (j + 0xFFFF0000u) / 65536u; if (i < n) y[i] = x[j % (unsigned)n]; }
K(narrow) { PRE if (i < n) { unsigned char c = (unsigned char)i; y[i] = x[(i & ~255) + c < n ? (i & ~255) + c : 0]; } }
K(bytes) { PRE if (i < n) for (int k = 0; k < 4; k++) ((unsigned char *)y)[4 * i + k] = ((const unsigned char *)x)[4 * i + (k ^ 1)]; }
K(pairs2) { PRE if (2 * i + 1 < n) ((float2 *)y)[i] = make_float2(((const float2 *)x)[i].y, ((const float2 *)x)[i].x); }
K(evens) { PRE if (2 * i < n) y[2 * i] = x[2 * i] * 3.f; }
K(first) { PRE if (i < n / 2) y[i] = x[i] * 3.f; }
K(few) { PRE if (b > 3) return; if (i < n) y[i] = x[i] * 3.f; }
K(nobody) { PRE if (i < n && n < 0) y[i] = x[i]; }
K(twosame) { PRE if (i < n) y[i / 2] = coef[i / 2 % 4]; }
K(onesame) { y[0] = 1.f; }
K(ldg) { PRE if (i < n) y[i] = __ldg(x + i) + __ldg(x + i / 2); }
K(table) { PRE if (i < n) y[i] = x[i] * coef[(i + f[i]) & 3]; }
K(keeps) { PRE if (i < n) { state[i] = x[i]; y[i] = x[i]; } }
K(keptby) { PRE if (i < n) y[i] = state[n - 1 - i] + x[i]; }
K(vol) { PRE if (i < n) *(volatile float *)(y + i) = *(const volatile float *)(x + i) + 1.f; }
K(fence) { PRE if (i < n) y[i] = x[i] + 1.f; __threadfence(); }
K(blockfence) { PRE if (i < n) y[i] = x[i] + 1.f; __threadfence_block(); }
K(rarestore) { PRE if (i < n && f[i] == 1) y[i] = x[i] * 3.f; }
K(rareload) { PRE if (i < n) y[i] = f[i] == 1 ? x[(i + 64) % n] : 1.f; }
K(raregather) { PRE if (i < n) y[i] = x[(i + f[i] * 37) % n]; }
K(rarescatter) { PRE if (i < n) { int o = t ^ (f[b % n] & 1); if (b * T + o < n && o < T) y[b * T + o] = x[i]; } }
K(rarefar) { PRE if (i < n) y[f[0] ? n - 1 - i : i] = x[i]; }
K(rareinplace) { PRE if (i < n) { if (f[i] == 2) y[i] = 0.f; y[i] = y[i] + x[i]; } }
K(rarelocal) { PRE float a[8]; for (int k = 0; k < 8; k++) a[k] = k; if (i < n) { a[f[i] & 7] = x[i]; y[i] = a[3] + a[(f[i] + 1) & 7]; } }
K(rarelast) { PRE if (i < n) { float v = x[i]; if (f[i] == 1) { y[i] = v; return; } y[i] = v + 1.f; } }
K(rareswitch) { PRE if (i < n) { float v = x[i]; switch (f[i] & 7) { case 0: v += 1; break; case 1: v *= 2; break; case 2: return; case 3: v = x[(i + 5) % n]; break; case 4: v -= 1; break; case 5: v = 5; break; default: v *= v; } y[i] = v; } }
K(rareloop) { PRE if (i < n) { float v = 0; for (int k = 0; k <= f[b % n]; k++) v += x[(i + k * T) % n]; y[i] = v; } }
K(rareprint) { PRE if (i < n) { y[i] = x[i] + 1.f; if (f[i] == 77) asm volatile("trap;"); } }
K(rareindex) { PRE if (i < n) { int j = f[i]; if (j < 0 || j >= n) j = 0; y[i] = x[i] + x[j]; } }
K(rarekeep) { PRE if (i < n) { if (f[i] & 1) state[i] = x[i]; y[i] = x[i]; } }
K(rarered) { PRE if (i < n && f[i]) atomicAdd((int *)y + i % 7, f[i]); }
K(redint) { PRE if (i < n) atomicAdd((int *)y + i % 32, i); }
K(redmax) { PRE if (i < n) atomicMax((unsigned *)y + i % 32, (unsigned)i * 3u); }
K(xchg) { PRE if (i < n) ((unsigned *)y)[i] = atomicExch((unsigned *)y + i, __float_as_uint(x[i])) ^ 5u; }
K(ticket) { PRE if (i < n) y[i] = x[i] + (float)(atomicAdd((unsigned *)y + n - 1, 0u) & 0u); }
K(tail) { PRE __shared__ float s[1024]; s[t] = i < n ? x[i] : 0.f; if (i >= n - 5) return; __syncthreads(); y[i] = s[t] + s[0]; }
K(neighbours) { PRE __shared__ float s[1024]; s[t] = i < n ? x[i] : 0.f; __syncthreads(); if (i < n) y[i] = s[T - 1 - t]; }
K(rareexit) { PRE __shared__ float s[1024]; s[t] = i < n ? x[i] : 0.f; if (i < n && f[i] == 1) return; __syncthreads(); if (i < n) y[i] = s[T - 1 - t]; }
K(raretail) { PRE __shared__ float s[1024]; s[t] = i < n ? x[i] : 0.f; if (f[b % n] == 1) return; __syncthreads(); if (i < n) y[i] = s[T - 1 - t]; }
K(raremany) { PRE __shared__ float s[1024]; float v = i < n ? x[i] : 0.f; for (int k = 0; k <= f[b % n] % 4; k++) { s[t] = v; __syncthreads(); v += s[T - 1 - t]; __syncthreads(); } if (i < n) y[i] = v; }
K(rarevia) { PRE __shared__ float s[1024]; __shared__ int go; if (t == 0) go = f[b % n]; s[t] = i < n ? x[i] : 0.f; __syncthreads(); float v = s[t]; if (go & 1) { __syncthreads(); s[t] = v * 2.f; __syncthreads(); v = s[T - 1 - t]; } if (i < n) y[i] = v; }
K(counted) { PRE __shared__ float s[1024]; float v = i < n ? x[i] : 0.f; s[t] = v; int h = T / 64 * 32; if (h && t < h) { asm volatile("bar.sync 3, %0;" ::"r"(h) : "memory"); v = s[h - 1 - t]; } if (i < n) y[i] = v; }
K(counted64) { PRE __shared__ float s[1024]; float v = i < n ? x[i] : 0.f; s[t] = v; if (t < 64 && T >= 64) { asm volatile("bar.sync 5, 64;" ::: "memory"); v = s[63 - t]; } if (i < n) y[i] = v; }
K(rarecounted) { PRE __shared__ float s[1024]; float v = i < n ? x[i] : 0.f; s[t] = v; if (t < 64 && T >= 64 && f[b % n] < 3) { asm volatile("bar.sync 5, 64;" ::: "memory"); v = s[63 - t]; } if (i < n) y[i] = v; }
K(orred) { PRE float v = i < n ? x[i] : 0.f; int c = __syncthreads_count(i < n && f[i] == 1); if (c) { __syncthreads(); v += c; } if (i < n) y[i] = v; }
K(orredshared) { PRE __shared__ float s[1024]; s[t] = i < n ? x[i] : 0.f; float v = 1.f; if (__syncthreads_or(i < n && f[i] == 1)) v = s[T - 1 - t]; if (i < n) y[i] = v; }
K(shuffle) { PRE float v = i < n ? x[i] : 0.f; if (T % 32 == 0) v += __shfl_xor_sync(~0u, v, 3); if (i < n) y[i] = v; }
K(halves) { PRE float v = i < n ? x[i] : 0.f; if (T % 32 == 0 && (t & 31) < 16) v += __shfl_xor_sync(0xffffu, v, 3); if (i < n) y[i] = v; }
K(rareshuffle) { PRE float v = i < n ? x[i] : 0.f; if (T % 32 == 0 && f[b % n] == 0) v += __shfl_xor_sync(~0u, v, 3); if (i < n) y[i] = v; }
K(rareleave) { PRE float v = i < n ? x[i] : 0.f; if (i < n && f[i] == 1) return; unsigned m = __activemask(); v += __popc(m) & 0; if (i < n) y[i] = v; }
K(leaveshuffle) { PRE float v = i < n ? x[i] : 0.f; if (i < n && (f[i / 32 * 32] & 1)) return; if (T % 32 == 0) v += __shfl_xor_sync(~0u, v, 3); if (i < n) y[i] = v; }
K(anyvote) { PRE float v = i < n ? x[i] : 0.f; if (T % 32 == 0 && __any_sync(~0u, i < n && f[i] == 1)) v *= 2.f; if (i < n) y[i] = v; }
K(untilvote) { PRE float v = i < n ? x[i] : 0.f; int k = i < n ? f[i] & 3 : 0; if (T % 32 == 0) while (__any_sync(~0u, k > 0)) { v += __shfl_xor_sync(~0u, v, 1); k--; } if (i < n) y[i] = v; }
K(lanes) { PRE unsigned l, m; asm("mov.u32 %0, %%laneid;" : "=r"(l)); asm("mov.u32 %0, %%lanemask_lt;" : "=r"(m)); if (i < n) y[i] = x[i] + (float)(l + (m & 7u)); }
K(clocks) { PRE if (i < n) y[i] = x[i] + (float)(clock64() & 0); }
K(smid) { PRE unsigned v; asm volatile("mov.u32 %0, %%nsmid;" : "=r"(v)); if (i < n) y[i] = x[i] + (float)(v & 0u); }
K(sizes) { PRE if (i < n) y[i] = x[i] + (float)(gridDim.x * 3 + gridDim.y * 5 + gridDim.z * 7 + blockDim.x * 11 + blockDim.y * 13 + blockIdx.z * 17); }
K(async) { PRE __shared__ __align__(16) float s[1024], u[1024]; unsigned p = (unsigned)__cvta_generic_to_shared(s + t), q = (unsigned)__cvta_generic_to_shared(u + t); if (i < n) asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.commit_group;" ::"r"(p), "l"(x + i) : "memory"); asm volatile("cp.async.wait_all;" ::: "memory"); __syncthreads(); if (i < n) { y[i] = s[t]; asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.commit_group;" ::"r"(q), "l"(x + n - 1 - i) : "memory"); } }
K(dynamic) { PRE extern __shared__ float d[]; int *e = (int *)d; d[t] = i < n ? x[i] : 0.f; __syncthreads(); if (i < n) y[i] = __int_as_float(e[T - 1 - t]); }
__device__ __noinline__ float deep(float v, int k) { return k > 0 ? deep(v, k - 1) * 0.5f + 1.f : v; }
__device__ __noinline__ void put(float *y, const float *x, int i, const int *f) { if (f[i] != 1) y[i] = x[i] + 2.f; }
__device__ __noinline__ void leave(int a) { if (a == 1) asm volatile("exit;"); }
K(recurse) { PRE if (i < n) y[i] = deep(x[i], f[i] & 3); }
K(called) { PRE if (i < n) put(y, x, i, f); }
K(calledexit) { PRE __shared__ float s[1024]; s[t] = i < n ? x[i] : 0.f; leave(i < n ? f[i] : 0); __syncthreads(); if (i < n) y[i] = s[t]; }
K(pointed) { PRE const float *p = f[i < n ? i : 0] == 1 ? y : x; float v = i < n ? p[i] : 0.f; if (i < n) y[i] = v; }
K(rarewrong) { PRE const float *p[2] = {x, x + n / 2}; if (i < n / 2) y[i] = p[f[i] & 1][i]; }
K(rareelse) { PRE if (i < n) { float *p = f[i] & 1 ? y + (i ^ 1) : y + i; if ((i ^ 1) < n && (f[i] & 1) == (f[i ^ 1] & 1)) *p = x[i]; } }
K(rareown) { PRE __shared__ float s[1024]; if (i < n && f[i] != 1) s[t] = x[i]; __syncthreads(); if (i < n) y[i] = f[i] != 1 ? s[t] : 7.f; }
K(grid) { PRE for (int k = i; k < n; k += T * 3) if (b < 3) y[k] = x[k] + 1.f; }
K(rarestride) { PRE int d = T * 3 * (1 + (f[0] & 1)); for (int k = i; b < 3 && k < n; k += d) y[k] = x[k] + 1.f; }
K(aligned) { PRE if (((unsigned long long)x & 15) == 0) { if (4 * i + 3 < n) { float4 v = ((const float4 *)x)[i]; y[4 * i] = v.x; y[4 * i + 1] = v.y; y[4 * i + 2] = v.z; y[4 * i + 3] = v.w; } } else if (i < n) y[i] = x[i]; }
K(same) { PRE if (i < n) y[i] = x == y ? x[i] + 1.f : x[i] * 2.f; }
K(rarealias) { PRE if (i < n) { y[i] = x[i]; if (f[i] == 1) y[i] = y[i] + x[i]; } }
K(floatindex) { PRE float g = (float)i; int j = (int)(g * 0.5f) * 2 + (i & 1); if (i < n) y[j] = x[j]; }
K(bits) { PRE int j = (int)(__brev((unsigned)i << 24) & 255) | (i & ~255); if (i < n) y[i] = x[j < n ? j : i]; }
K(rareuniform) { PRE if (f[0] & 1) { if (i < n) y[i] = x[i]; } else { if (i < n) y[i] = x[n - 1 - i]; } }
K(rareblock) { PRE int c = (b + f[b % n]) % ((n + T - 1) / T); int j = c * T + t; float v = j < n ? x[j] : 0.f; if (i < n) y[i] = v; }
K(raretable) { PRE __shared__ int d[32]; if (t < 32) d[t] = f[t] & 1; __syncthreads(); int o = T >= 32 ? d[t & 31] : 0; if (i < n) y[i] = x[(i + o) % n]; }
K(rarewarp) { PRE float v = i < n ? x[i] : 0.f; if (T % 32 == 0 && f[i / 32 % n] == 0) { v += __shfl_down_sync(~0u, v, 4); if (f[i / 32 % n] == 1) return; v += __shfl_down_sync(~0u, v, 2); } if (i < n) y[i] = v; }
K(raremask) { PRE float v = i < n ? x[i] : 0.f; if (i < n && f[i] == 1) return; if (T % 32 == 0 && (t & 31) != 7) v += __shfl_xor_sync(~0x80u, v, 0); if (i < n) y[i] = v; }
K(rarehalf) { PRE float v = i < n ? x[i] : 0.f; if (T % 32 == 0 && (t & 16)) { if (i < n && f[i / 32 * 32] == 1) return; v += __shfl_xor_sync(0xffff0000u, v, 1); } if (i < n) y[i] = v; }
"""
NAMES = [line[2:line.index(")")] for line in CUDA.splitlines() if line.startswith("K(")]
USES_STATE = {"keeps", "keptby", "rarekeep"}
VECTORS = {"pairs2"}
# elements of its own block: in place its threads race, which no detector of races between blocks sees
PERMUTES = {"bits"}


def shapes(rng, threads):
    """A block shape of so many threads."""
    x = rng.choice([d for d in range(1, threads + 1) if threads % d == 0 and d <= 1024])
    y = rng.choice([d for d in range(1, threads // x + 1) if threads // x % d == 0])
    return [threads, 1, 1] if rng.random() < 0.5 or threads // x // y > 64 else [x, y, threads // x // y]


def build(seed, kernels=None):
    rng = random.Random(seed)
    names = kernels or rng.sample(NAMES, 3) + ["plain", "neighbours", "again"]
    wide = rng.random() < 0.2  # many blocks of a warp, an SM each: a wave and a tail
    n = 4608 if wide else 1536
    pool = {"x": "input", "z": "inout", "h": "intermediate", "g": "intermediate", "k": "intermediate", "y": "output"}
    launches, state, written = [], False, ["x", "z"]
    small = rng.random() < 0.5  # all views whole
    previous = "x", 0
    for k in range(rng.randrange(2, 6)):
        if rng.random() < 0.12:
            to = rng.choice(["h", "g", "y", "z"])
            at, size = 4 * rng.randrange(0, n), 4 * rng.randrange(1, n)
            launches.append({"name": "set%d" % k, "memset": {"buffer": to, "offset": at, "bytes": size,
                                                             "value": rng.randrange(3)}} if rng.random() < 0.5 else
                            {"name": "cp%d" % k, "copy": {"from": {"buffer": "x", "offset": at},
                                                          "to": {"buffer": to, "offset": at}, "bytes": size}})
            written.append(to)
            continue
        name = rng.choice(names)
        state |= name in USES_STATE
        view = lambda: rng.choice([0, 0, 0, 4 * n] if small else [0, 0, 0, 4 * n, 2 * n, 8 * 24, 128 * 4]
                                  + ([] if name in VECTORS else [4]))
        src = previous if rng.random() < 0.7 else (rng.choice(written), view())
        to = rng.choice([b for b in pool if b != "x"]) if rng.random() < 0.9 else "y"
        dst = to, view()
        if rng.random() < 0.15 and src[0] != "x":
            dst = src[0], rng.choice([src[1], view()])
        if name in PERMUTES and dst[0] == src[0]:
            dst = "h" if src[0] == "y" else "y", dst[1]
        if name in VECTORS:
            src, dst = (src[0], src[1] // 8 * 8), (dst[0], dst[1] // 8 * 8)
        threads = 32 if wide else rng.choice([32, 64, 128, 128, 256, 96, 48, 33, 512])
        blocks = (n + threads - 1) // threads
        gy = rng.choice([d for d in range(1, blocks + 1) if blocks % d == 0]) if rng.random() < 0.3 else 1
        grid = [blocks // gy, gy, 1] if rng.random() < 0.5 else [blocks // gy, 1, gy]
        launches.append({"name": "%s%d" % (name, k), "module": "m", "entry": name, "grid": grid,
                         "block": shapes(rng, threads),
                         "shared": 120000 if wide else 4 * threads if name == "dynamic" else 0,
                         "args": [{"buffer": src[0], "offset": src[1]}, {"buffer": dst[0], "offset": dst[1]},
                                  {"buffer": rng.choice(["f"] * 6 + ["ix"])}, {"i32": n}]})
        previous = dst
        written.append(dst[0])
    buffers = {b: {"bytes": 8 * n + 512, "role": r} for b, r in pool.items()}
    for b in ("x", "z"):
        buffers[b]["fill"] = {"uniform": [-1, 1], "dtype": "f32", "seed": seed + len(b)}
    buffers[previous[0]]["role"] = "inout" if previous[0] == "z" else "output" if previous[0] != "x" else "input"
    if rng.random() < 0.3:  # not all of it is written before it is read
        buffers["h"]["fill"] = {"uniform": [0, 1], "dtype": "f32", "seed": seed + 9}
    buffers["f"] = {"bytes": 4 * n, "role": "input", "fill": {"zero": True}}
    buffers["ix"] = {"bytes": 4 * n, "role": "input", "constant": True,
                     "data": base64.b64encode(struct.pack("<%di" % n, *[rng.randrange(4) for _ in range(n)])).decode()}
    if state:
        buffers["m::state"] = {"bytes": 4 * 4608, "role": "inout", "fill": {"zero": True}}
    return {"dovetail": 1, "name": "odd%d" % seed, "modules": {"m": {"cuda": CUDA}}, "buffers": buffers,
            "launches": launches}


REFILL = [{"uniform": [0, 2], "dtype": "i32", "seed": 5}, {"uniform": [0, 8], "dtype": "i32", "seed": 6},
          {"uniform": [1, 2], "dtype": "i32", "seed": 7}]


def words(graph):
    return " ".join("%s(%s)" % (l["name"], "%s+%d,%s+%d %s %s" % (l["args"][0]["buffer"], l["args"][0]["offset"],
                                                                  l["args"][1]["buffer"], l["args"][1]["offset"],
                                                                 l["grid"], l["block"]) if "args" in l
                                else str(l.get("memset", l.get("copy")))) for l in graph["launches"])


def check(planner, seed, kinds, kernels):
    only, requests = ways(seed, kinds)
    verdicts = {}
    for more in requests:
        graph = build(seed, kernels)
        how = "%s %s" % (only, more.get("levels", "")) if "force" in more else "plain"
        a = planner.ask({"graph": graph, "seeds": [11], "inputs": 2, "schedules": 2,
                         "refill": {"f": REFILL[seed % len(REFILL)]}} | more)
        if "error" in a:
            if a.get("unfit"):
                return {("", "unfit", "refused"): 1}
            raise RuntimeError("%s: %s: %s" % (how, a["error"], words(graph)))
        if a["equal"]:
            raise RuntimeError("%s: %s: %s" % (how, a["equal"], words(graph)))
        if a.get("plan_ms", 0) + a.get("analyze_ms", 0) > 20000:
            raise RuntimeError("%s: slow: %d ms: %s" % (how, a["plan_ms"], words(graph)))
        verdicts["", "skipped" if "skipped" in a else "other data",
                 "kept"] = verdicts.get(("", "skipped" if "skipped" in a else "other data", "kept"), 0) + 1
        for x in a["plan"]["rewrites"]:
            key = x["kind"], x.get("level") or "", x["verdict"] + (", forced" if "force" in more else "")
            verdicts[key] = verdicts.get(key, 0) + 1
            why = x.get("reason") or ""
            # blocks in conflict by volatile accesses: the graph's own
            if why.startswith(("verification:", "internal:")) and "in no order" not in why:
                raise RuntimeError("%s: %s of %s was made and found wrong: %s: %s"
                                   % (how, x["kind"], "+".join(x["launches"]), why, words(graph)))
    return verdicts


def main():
    exe = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    start = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    kernels = sys.argv[4].split(",") if len(sys.argv) > 4 else None
    began = time.monotonic()
    kinds, total, _, wrong = each(exe, range(start, start + count), lambda p, seed,
                                  kinds: (check(p, seed, kinds, kernels), None), 2)
    table(total, kinds)
    print("%d graphs, %d wrong, %.0f s" % (count, len(wrong), time.monotonic() - began))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
