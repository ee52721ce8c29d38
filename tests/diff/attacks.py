#!/usr/bin/env python3
"""Graphs made to break a plan: each is planned, run and its plan run with seeds the planner never saw, and must come
out as its row says.

A row: name, modules, further buffers, launches, verdict of the pair (a, b) with the start of its reason (and its
level), evidence of the plan, outputs that the posted kernels themselves race for. The other outputs must agree byte by
byte, and no plan may be slower.

    attacks.py DOVETAIL [NAME…]      exit status 1 if one comes out otherwise
"""
import base64
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

N = 8192
CUDA = r"""
extern "C" __global__ void scale(const float *x, float *h) { int i = blockIdx.x * blockDim.x + threadIdx.x; h[i] = x[i] * 2.f; }
extern "C" __global__ void swap(const float *x, float *h) /* not pointwise: only joined, never inlined */
{
    __shared__ float s[128];
    s[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    h[blockIdx.x * 128 + threadIdx.x] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void halves(const float *h, float *y) /* half of every warp leaves, the rest names all lanes: they have exited */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if ((threadIdx.x & 31) >= 16) return;
    float v = h[i];
    for (int k = 8; k; k /= 2) v += __shfl_xor_sync(0xffffffffu, v, k);
    y[i] = v;
}
extern "C" __global__ void warprow(const float *h, float *y, int warps) /* whole warps leave */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i / 32 >= warps) return;
    float v = h[i];
    for (int k = 16; k; k /= 2) v += __shfl_xor_sync(0xffffffffu, v, k);
    y[i] = v;
}
extern "C" __global__ void lookup(const float *h, const float *tab, float *y) /* faults on the edge values */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = tab[(int)(h[i] * 100.f) + 200];
}
extern "C" __global__ void relay(const float *x, float *g, float *z, unsigned *flag) /* an even block sends a number to the odd one after it */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        if (blockIdx.x % 2 == 0) {
            z[blockIdx.x] = x[i];
            asm volatile("st.release.gpu.global.u32 [%0], 7;" ::"l"(flag + blockIdx.x) : "memory");
        } else {
            for (unsigned v = 0; v != 7;)
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag + blockIdx.x - 1) : "memory");
            g[blockIdx.x] = z[blockIdx.x - 1];
        }
    }
}
extern "C" __global__ void clash(float *g) { if (threadIdx.x == 0) g[0] = blockIdx.x; } /* all blocks, one place, in no order */
extern "C" __global__ void apart(const float *h, const int *ix, float *y) /* no hazard: only since ix says so */
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = h[i] + h[ix[i] + 8192];
}
struct array { long n; float *p; long stride; }; /* as array libraries pass them */
extern "C" __global__ void twice(const float *x, struct array h) { long i = blockIdx.x * blockDim.x + threadIdx.x; if (i < h.n) h.p[i * h.stride] = x[i] * 2.f; }
extern "C" __global__ void swaps(const float *x, struct array h)
{
    __shared__ float s[128];
    s[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    h.p[(blockIdx.x * 128 + threadIdx.x) * h.stride] = s[threadIdx.x ^ 1];
}
extern "C" __global__ void less(struct array h, float *y) { long i = blockIdx.x * blockDim.x + threadIdx.x; if (i < h.n) y[i] = h.p[i * h.stride] - 1.f; }
extern "C" __global__ void turns(struct array h, float *y) { y[blockIdx.x * 128 + threadIdx.x] = h.p[(blockIdx.x * 128 + (threadIdx.x ^ 3)) * h.stride]; }
struct two { float *p[2]; };
extern "C" __global__ void either(struct two t, float *y) { y[blockIdx.x * 128 + threadIdx.x] = t.p[threadIdx.x & 1][blockIdx.x * 128 + (threadIdx.x ^ 3)]; }
"""
VARIABLE = r"""__device__ float state[1024];
extern "C" __global__ void unused(float *x) { state[threadIdx.x] = x[threadIdx.x]; }"""


def entry(name, body):
    return """.visible .entry %s(.param .u64 p0, .param .u64 p1)
{
.reg .b64 %%rd<9>; .reg .b32 %%r<40>; .reg .f32 %%f<9>;
ld.param.u64 %%rd1, [p0]; ld.param.u64 %%rd2, [p1];
mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, %%ntid.x; mov.u32 %%r3, %%tid.x; mad.lo.s32 %%r4, %%r1, %%r2, %%r3;
mul.wide.s32 %%rd3, %%r4, 4; add.s64 %%rd1, %%rd1, %%rd3; add.s64 %%rd2, %%rd2, %%rd3;
ld.global.f32 %%f1, [%%rd1];
%s
add.rn.f32 %%f3, %%f1, %%f2; st.global.f32 [%%rd2], %%f3;
ret;
}
""" % (name, body)


PTX = """.version 8.0
.target sm_80
.address_size 64
.global .align 4 .f32 tab[2] = {0f40000000, 0f40400000};
.const .align 8 .u64 ptrs[1] = {generic(tab)};
.const .align 4 .f32 coef[2] = {0f3F800000, 0f40000000};
""" + entry("through", "ld.const.u64 %rd5, [ptrs]; ld.f32 %f2, [%rd5+4];") + entry("constant", "ld.const.f32 %f2, [coef+4];") + entry(
    "fourth", "".join("mov.v4.u32 {%%r%d, %%r%d, %%r%d, %%r%d}, %%%s; " % (k, k + 1, k + 2, k + 3, s)
                      for k, s in ((10, "tid"), (14, "ntid"), (18, "ctaid"), (22, "nctaid"))) +
    "add.u32 %r30, %r13, %r17; mad.lo.u32 %r30, %r21, 5, %r30; mad.lo.u32 %r30, %r25, 7, %r30; mad.lo.u32 %r30, %r14, "
    "3, %r30;"
    "mad.lo.u32 %r30, %r22, 11, %r30; add.u32 %r30, %r30, %r18; add.u32 %r30, %r30, %r10; "
    "cvt.rn.f32.u32 %f2, %r30;") + entry(
    "leans", "mul.f32 %f4, %f1, %f1; mul.f32 %f5, %f4, 0f3F000000; mul.f32 %f6, %f1, 0f40400000; add.f32 %f7, %f6, "
             "%f1; max.f32 %f2, %f5, %f7;") + entry(
    "bytes", "cvt.s8.u32 %r10, %ntid.x; cvt.u16.u32 %r11, %nctaid.x; add.s32 %r10, %r10, %r11; cvt.rn.f32.s32 %f2, "
             "%r10;")

TENSORS = """.version 8.3
.target sm_90
.address_size 64
.visible .entry boxes(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128])
{
.reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p<3>; .shared .align 128 .b8 box[512]; .shared .align 8 .b64 bar;
mov.b64 %rd1, from; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, to; cvta.param.u64 %rd2, %rd2;
mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra END; mov.u32 %r1, %ctaid.x; shl.b32 %r2, %r1, 7;
mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;
cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd1, {%r2}], [bar];
WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra WAIT;
cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd2, {%r2}], [box];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END: ret;
}
"""


def buffer(count, role, seed=3, **more):
    b = {"bytes": 4 * count, "role": role}
    if role in ("input", "weight", "inout"):
        b["fill"] = {"uniform": [-1, 1], "dtype": "f32", "seed": seed}
    return b | more


def launch(name, module, kernel, *args):
    return {"name": name, "module": module, "entry": kernel, "grid": [N // 128, 1, 1], "block": [128, 1, 1],
            "args": [a if isinstance(a, dict) else {"i32": a} if isinstance(a, int) else {"buffer": a} for a in args]}


def table():
    order = list(range(N))
    random.Random(1).shuffle(order)
    return base64.b64encode(struct.pack("<%di" % N, *order)).decode()


def rows():
    c, p = {"m": {"cuda": CUDA}}, {"m": {"ptx": PTX}}
    first = launch("a", "m", "scale", "x", "h")
    yield "lanes-leave", c, {}, [launch("a", "m", "swap", "x", "h"), launch("b", "m", "halves", "h", "y")], ("refused",
        "uniform-collectives:"), "proved"
    # who leaves, leaves
    yield "lanes-leave-inlined", c, {}, [first, launch("b", "m", "halves", "h", "y")], ("kept", ""), "proved"
    yield "warps-leave", c, {}, [first, launch("b", "m", "warprow", "h", "y", 100)], ("kept", ""), "proved"
    yield ("edge-values-fault", c, {"tab": buffer(401, "weight")}, [first, launch("b", "m", "lookup", "h", "tab", "y")],
           ("kept", ""), "proved")
    yield ("absent-by-constant", c, {"h": buffer(2 * N, "inout"),
                                     "ix": {"bytes": 4 * N, "role": "input", "constant": True,
           "data": table()}}, [first, launch("b", "m", "apart", "h", "ix", "y")], ("kept", ""), "observed")
    zero = {"fill": {"zero": True}}
    yield ("blocks-talk-elsewhere", c, {"g": buffer(64, "output"), "z": buffer(64, "intermediate"),
                                        "flag": buffer(64, "inout", **zero)},
           [launch("r", "m", "relay", "x", "g", "z", "flag"), first, launch("b", "m", "scale", "h", "y")], ("kept", ""),
           "proved")
    yield ("posted-race", c, {"g": buffer(64, "output")},
           [launch("r", "m", "clash", "g"), first, launch("b", "m", "scale", "h", "y")],
           ("kept", ""), "proved", ("g",))  # r alone is left as it is, and so is its race: nobody can say what g holds
    yield ("variable-of-no-kernel", c | {"v": {"cuda": VARIABLE}},
           {"v::state": buffer(1024, "inout"), "z": buffer(1024, "output")},
           [first, launch("b", "m", "scale", "h", "y"),
            {"name": "c", "copy": {"from": {"buffer": "v::state"}, "to": {"buffer": "z"},
            "bytes": 4096}}], ("kept", ""), "proved")
    yield ("address-table", p, {}, [launch("a", "m", "through", "x", "h"), launch("b", "m", "constant", "h", "y")],
           ("refused", "module-variables:"), "proved")
    yield ("constant-is-buffer", p, {"m::coef": buffer(2, "input")},
           [launch("a", "m", "constant", "x", "h"), launch("b", "m", "constant", "h", "y")],
           ("refused", "module-variables:"), "proved")
    yield ("fourth-element", p, {}, [launch("a", "m", "fourth", "x", "h"), launch("b", "m", "fourth", "h", "y")],
           ("kept", ""), "proved")
    yield ("numbers-as-bytes", p, {}, [launch("a", "m", "bytes", "x", "h"), launch("b", "m", "bytes", "h", "y")],
           ("kept", ""), "proved")
    # ptxas makes an FFMA and an FMUL.D2 of it: no text of ours has both, so nobody may touch it
    yield ("leans-on-ptxas", p, {}, [launch("a", "m", "leans", "x", "h"), launch("b", "m", "bytes", "h", "y")],
           ("refused", "arithmetic-identity:"), "proved")
    yield ("leans-behind", p, {}, [launch("a", "m", "bytes", "x", "h"), launch("b", "m", "leans", "h", "y")],
           ("refused", "arithmetic-identity:"), "proved")
    maps = [{"tensor_map": {"buffer": b, "tensorDataType": "CU_TENSOR_MAP_DATA_TYPE_FLOAT32", "tensorRank": 1,
                            "globalDim": [N], "boxDim": [128]}}
            for b in ("x", "h", "y")]
    yield ("tensor-maps", {"m": {"ptx": TENSORS}}, {},
           [launch("a", "m", "boxes", *maps[:2]), launch("b", "m", "boxes", *maps[1:])],
           ("refused", "async: 'a' has asynchronous work"), "proved")
    # without order they stand side by side, each with its maps
    g = {"g": buffer(N, "output"), "h": buffer(N, "input", 9)}
    yield ("tensor-maps-beside", {"m": {"ptx": TENSORS}}, g,
           [launch("a", "m", "boxes", maps[0], {"tensor_map": maps[0]["tensor_map"] | {"buffer": "g"}}),
            launch("b", "m", "boxes", *maps[1:])], ("kept", ""), "proved")


    def array(offset):
        return {"bytes": struct.pack("<qqq", N, 0, 1).hex(), "pointers": [{"at": 8, "buffer": "h", "offset": offset}]}

    for offset in (0, 512):
        wide = {"h": buffer(N + 128, "intermediate")}
        yield ("array-register-%d" % offset, c, wide, [launch("a", "m", "twice", "x", array(offset)),
                                                       launch("b", "m", "less", array(offset), "y")],
               ("kept", "", "register"), "proved")
        yield ("array-shared-%d" % offset, c, wide, [launch("a", "m", "swaps", "x", array(offset)),
                                                     launch("b", "m", "turns", array(offset), "y")],
               ("kept", "", "shared"), "proved")
    both = {"bytes": "00" * 16, "pointers": [{"at": 0, "buffer": "h", "offset": 0},
                                             {"at": 8, "buffer": "z", "offset": 0}]}
    yield ("struct-of-two", c, {"z": buffer(N, "input", 9)},
           [launch("a", "m", "swap", "x", "h"), launch("b", "m", "either", both, "y")],
           ("kept", "", "global"), "proved")


def run(dovetail, folder, *args):
    p = subprocess.run([dovetail, *args, "--local", "--cache", folder + "/cache.db", "--device", "soft", "--json"],
                       capture_output=True, text=True, timeout=100)
    if p.returncode:
        raise RuntimeError("%s: %s" % (args[0], p.stderr.strip()[-400:]))
    return p.stdout


def dump(dovetail, folder, path, seed, outputs, raced):
    run(dovetail, folder, "run", path, "--seed", str(seed), "--dump", folder + "/dump")
    found = {}
    for f in sorted(os.listdir(folder + "/dump")):
        with open(os.path.join(folder, "dump", f), "rb") as h:
            found[f] = h.read()
        os.unlink(os.path.join(folder, "dump", f))
    if len(found) != outputs:
        raise RuntimeError("%d outputs were dumped, not %d" % (len(found), outputs))
    for name in raced:
        del found[name + ".bin"]
    return found


def attack(dovetail, folder, modules, more, launches, verdict, evidence, raced=()):
    buffers = {"x": buffer(N, "input"), "h": buffer(N, "intermediate"), "y": buffer(N, "output")} | more
    path, plan_path = folder + "/graph.json", folder + "/plan/plan.json"
    with open(path, "w") as f:
        json.dump({"dovetail": 1, "name": "attack", "modules": modules, "buffers": buffers, "launches": launches}, f)
    run(dovetail, folder, "optimize", path, "-o", folder + "/plan")
    with open(plan_path) as f:
        plan = json.load(f)
    got = next((r for r in plan["rewrites"] if r["launches"] == ["a", "b"]), {"verdict": "absent"})
    if verdict[0] == "refused" and [r for r in plan["rewrites"] if r["verdict"] == "kept"
                                    and verdict[1] == "arithmetic-identity:"]:
        return "a kernel whose arithmetic cannot be kept was changed: %s" % plan["rewrites"]
    if got["verdict"] != verdict[0] or not got.get("reason", "").startswith(verdict[1]) or (verdict[2:]
        and got.get("level") != verdict[2]):
        return "a, b: %s, not %s" % (got, verdict)
    if plan["assumes"]["evidence"] != evidence:
        return "evidence is %s" % plan["assumes"]["evidence"]
    if plan["optimized"]["time_us"] > plan["baseline"]["time_us"]:
        return "the plan is slower"
    outputs = sum(b["role"] in ("output", "inout") for b in buffers.values())
    for seed in (5, 91):
        posted, planned = (dump(dovetail, folder, p, seed, outputs, raced) for p in (path, plan_path))
        if posted != planned:
            return "outputs differ with seed %d" % seed
    return None


def main():
    failed = 0
    for name, *row in rows():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                fault = attack(sys.argv[1], folder, *row)
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as e:
                fault = str(e)
        print("%-24s %s" % (name, fault or "ok"), flush=True)
        failed += fault is not None
    return 1 if failed else 0


sys.exit(main())
