"""Every kind of access, one kernel each: its footprints against bytes worked out here, its evidence against what it
must be.

    kinds.py ANALYZE [NAME…]

Each case is a module of one entry, a launch of it, and per buffer and block the bytes read, surely written and perhaps
written, computed from the manual's definition of the instruction (PTX §9.7.9) by plain loops over elements, not by
anything of the service. `evidence` is that of the edge to copies of what it writes, and from memsets of all that it
touches. ANALYZE (analyze.c) gives the analyses in four ways: summarised, slices, whole, and slices with so little
memory that they run in windows of blocks; slices and whole by each recorder (DOVETAIL_RECORDER).
"""
import base64
import json
import os
import struct
import subprocess
import sys
import tempfile

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
CASES = []


class Case:
    """read, must, may: {buffer: {block: set of bytes}}; an absent buffer is not touched. wide: buffers that count whole
    for every block."""

    def __init__(self, name, ptx, args, buffers, grid=(1, 1, 1), block=(32, 1, 1), cluster=None, shared=0, read=None,
                 must=None, may=None,
                 evidence="proved", refused=None, ways=("summary", "slices", "whole", "tight")):
        self.__dict__.update(locals())
        CASES.append(self)


def blocks(grid):
    return [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]


def span(lo, n):
    return set(range(lo, lo + n))


def each(grid, fn):
    return {i: fn(*b) for i, b in enumerate(blocks(grid))}


def buf(n, role="inout", data=None):
    return {"bytes": n, "role": role, **({"data": base64.b64encode(data).decode()} if data is not None
                                         else {"fill": {"zero": True}})}


# ---- tensor maps
# -----------------------------------------------------------------------------------------------------------

SIZE = {0: 1, 1: 2, 2: 4, 3: 4, 6: 2, 7: 4, 8: 8, 9: 2}


def tensor_map(buffer, kind, dim, stride, box, offset=0, step=None, **more):
    return {"tensor_map": {"buffer": buffer, "offset": offset, "tensorDataType": kind, "tensorRank": len(dim),
                           "globalDim": list(dim),
                           "globalStrides": list(stride), "boxDim": list(box),
                           **({"elementStrides": step} if step else {}), **more}}


def box_bytes(t, coord):
    """Bytes of the box at `coord` that lie inside the tensor: every element of it in turn. The step along dimension 0
    is ignored (cuda.h)."""
    t = t["tensor_map"]
    dim, box, step = t["globalDim"], t["boxDim"], t.get("elementStrides", [1] * len(t["globalDim"]))
    stride = [SIZE[t["tensorDataType"]]] + t["globalStrides"]
    out, at = set(), [0] * len(dim)
    while True:
        where = [coord[i] + at[i] for i in range(len(dim))]
        if all(0 <= w < dim[i] for i, w in enumerate(where)):
            out |= span(t["offset"] + sum(w * s for w, s in zip(where, stride)), stride[0])
        for i in range(len(dim)):
            at[i] += step[i] if i else 1
            if at[i] < box[i]:
                break
            at[i] = 0
        else:
            return out


TMA = """.visible .entry k(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128]%(params)s)
{
.reg .b64 %%m, %%n, %%q<20>; .reg .b32 %%r<9>, %%c<6>; .reg .pred %%p, %%t, %%d; .shared .align 128 .b8 box[%(bytes)d]; .shared .align 8 .b64 bar;
mov.b64 %%m, from; cvta.param.u64 %%m, %%m; mov.b64 %%n, to; cvta.param.u64 %%n, %%n;
mov.u32 %%r1, %%tid.x; setp.ne.u32 %%t, %%r1, 0; @%%t bra END;
%(coords)s
mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], %(bytes)d;
prefetch.tensormap [%%m];
cp.async.bulk.prefetch.tensor.%(n)dd.L2.global [%%m, {%(at)s}];
%(before)scp.async.bulk.tensor.%(n)dd.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%%m, {%(at)s}], [bar];
WAIT: mbarrier.try_wait.parity.shared.b64 %%p, [bar], 0; @!%%p bra WAIT;
%(store)s.%(n)dd.global.shared::cta%(op)s.bulk_group [%%n, {%(to)s}], [box];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
END: ret;
}
"""
COORD = """mov.u32 %c1, %ctaid.x; mov.u32 %c2, %ctaid.y; mov.u32 %c3, %ctaid.z; mul.lo.u32 %c1, %c1, 8; mul.lo.u32 %c2, %c2, 4; sub.u32 %c2, %c2, 2;
mov.u32 %c4, 0; mov.u32 %c5, 1;"""


def tma(name, n, kind, dim, stride, box, step=None, op=None, before="", params="", grid=(3, 3, 2), coords=None,
        at="%c1, %c2, %c3, %c4, %c5", where=None,
        evidence="proved", args=None, more=None, may=False, **keep):
    size = SIZE[kind]
    rows = [(b + s - 1) // s for b, s in zip(box, step or [1] * n)]
    nbytes = size * box[0]
    for r in rows[1:]:
        nbytes *= r
    where = where or (lambda x, y, z: [8 * x, 4 * y - 2, z, 0, 1])
    total = 64
    for d, s in zip(dim[1:], stride):
        total = max(total, d * s)
    total = max(total, dim[0] * size) + 48
    x = tensor_map("x", kind, dim, stride, box, 32, step)
    y = tensor_map("y", kind, dim, stride, box, 16, step)
    ptx = HEAD + TMA % {"params": params, "bytes": nbytes, "coords": coords or COORD, "n": n,
                        "at": ", ".join(at.split(", ")[:n]),
                        "to": ", ".join(at.split(", ")[:n]), "before": before, "store": "cp.reduce.async.bulk.tensor"
                        if op else "cp.async.bulk.tensor",
                        "op": "." + op if op else ""}
    touched = {b: each(grid, lambda *c, t=t: box_bytes(t, where(*c)[:n])) for b, t in (("x", x), ("y", y))}
    read = {"x": touched["x"], **({"y": touched["y"]} if op else {})}
    Case(name, ptx, [x, y] + (args or []), {"x": buf(total), "y": buf(total), **(more or {})}, grid, read=read,
         must={} if may else {"y": touched["y"]}, may={"y": touched["y"]} if may else {}, evidence=evidence, **keep)


tma("tensor-1d", 1, 7, [50], [], [8], at="%c1", grid=(7, 1, 1))
tma("tensor-2d-clipped", 2, 7, [30, 9], [128], [8, 4])
tma("tensor-3d-steps", 3, 6, [24, 10, 3], [64, 704], [8, 7, 2], step=[1, 3, 2])
tma("tensor-4d", 4, 0, [40, 6, 2, 2], [48, 320, 640], [16, 2, 1, 2])
tma("tensor-5d", 5, 9, [16, 6, 2, 2, 3], [32, 192, 384, 768], [8, 4, 1, 1, 1])
tma("tensor-first-step-ignored", 2, 7, [30, 9], [128], [8, 4], step=[2, 1])
tma("tensor-reduce", 2, 3, [30, 9], [128], [8, 4], op="add")
tma("tensor-outside", 2, 7, [30, 9], [128], [8, 4], where=lambda x, y, z: [100 + x, 4 * y, 0, 0, 0],
    coords="mov.u32 %c1, %ctaid.x; add.u32 %c1, %c1, 100; mov.u32 %c2, %ctaid.y; mul.lo.u32 %c2, %c2, 4; mov.u32 %c3, "
           "0;", evidence=None)
DATA = "ld.param.u64 %q1, [z]; ld.global.u32 %r2, [%q1]; "
# a guard that data decides: the box still counts, for certain nothing is written
tma("tensor-guarded-by-data", 2, 7, [30, 9], [128], [8, 4], params=", .param .u64 z", args=[{"buffer": "z"}],
    more={"z": buf(16)},
    coords=COORD + DATA + "setp.ne.u32 %d, %r2, 7; @!%d bra END;", evidence="data-dependent", may=True)
CASES[-1].read["z"] = each((3, 3, 2), lambda *b: span(0, 4))
# coordinates that data decides: every byte
tma("tensor-at-data", 2, 7, [30, 9], [128], [8, 4], params=", .param .u64 z", args=[{"buffer": "z"}],
    more={"z": buf(16)},
    coords=COORD + DATA + "and.b32 %c1, %r2, 7;", evidence="data-dependent", may=True)
CASES[-1].read = {"x": each((3, 3, 2), lambda *b: span(0, 9 * 128 + 48)), "z": each((3, 3, 2), lambda *b: span(0, 4))}
CASES[-1].may = {"y": each((3, 3, 2), lambda *b: span(0, 9 * 128 + 48))}
CASES[-1].read["x"] = each((3, 3, 2), lambda *b: span(0, CASES[-1].buffers["x"]["bytes"]))
CASES[-1].may["y"] = each((3, 3, 2), lambda *b: span(0, CASES[-1].buffers["y"]["bytes"]))
# coordinates made of pointer bits: another box for another binding
tma("tensor-at-pointer-bits", 2, 7, [30, 9], [128], [8, 4], params=", .param .u64 z", args=[{"buffer": "z"}],
    more={"z": buf(16)},
    coords=COORD + "ld.param.u64 %q1, [z]; cvt.u32.u64 %r2, %q1; and.b32 %r3, %r2, 512; add.u32 %c1, %c1, %r3;",
    evidence="data-dependent", may=True)
CASES[-1].read = {"x": each((3, 3, 2), lambda *b: span(0, CASES[-1].buffers["x"]["bytes"]))}
CASES[-1].may = {"y": each((3, 3, 2), lambda *b: span(0, CASES[-1].buffers["y"]["bytes"]))}
# one of two maps, by a guard: anywhere
tma("tensor-selected-map", 2, 7, [30, 9], [128], [8, 4],
    coords=COORD + "setp.ne.u32 %d, %c1, 0; selp.b64 %m, %m, %n, %d;", evidence="data-dependent")
CASES[-1].read = {b: each((3, 3, 2), lambda *c, b=b: span(0, CASES[-1].buffers[b]["bytes"])) for b in "xy"}

# by one lane of the warp, whichever that is: the same box in all of them; other coordinates in each
ONE = "setp.ne.u32 %t, %r1, 0; @%t bra END;"
for name, coords, more in (("tensor-elected", COORD, {}),
                           ("tensor-elected-lane", COORD + "mov.u32 %c1, %laneid;",
                            {"evidence": "data-dependent", "may": True})):
    tma(name, 2, 7, [30, 9], [128], [8, 4], coords=coords, **more)
    assert ONE in CASES[-1].ptx
    CASES[-1].ptx = CASES[-1].ptx.replace(ONE, "elect.sync _|%t, -1; @!%t bra END;")
CASES[-1].read = {"x": each((3, 3, 2), lambda *b: span(0, CASES[-1].buffers["x"]["bytes"]))}
CASES[-1].may = {"y": each((3, 3, 2), lambda *b: span(0, CASES[-1].buffers["y"]["bytes"]))}
# warps 0 and 1 of four copy a half each, by an elected lane; all threads store what wgmma gave
_halves = tensor_map("x", 6, [64, 64], [128], [64, 32])
Case("wgmma-of-elected-copies", HEAD + """
.visible .entry k(.param .align 64 .b8 from[128], .param .u64 to) .reqntid 128
{
.reg .b64 %m, %q<9>; .reg .b32 %r<20>; .reg .f32 %f<5>; .reg .pred %p<6>;
.shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 bar;
mov.b64 %m, from; cvta.param.u64 %m, %m;
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, %ctaid.x;
@%p1 mbarrier.init.shared.b64 [bar], 1; bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 8192;
shr.u32 %r3, %r1, 5; shfl.sync.idx.b32 %r4, %r3, 0, 31, -1;
setp.lt.u32 %p2, %r1, 64; elect.sync _|%p3, -1; and.pred %p3, %p2, %p3;
shl.b32 %r5, %r4, 5; shl.b32 %r6, %r4, 12; mov.b32 %r7, tile; add.u32 %r6, %r6, %r7; shl.b32 %r8, %r2, 6;
@%p3 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%m, {0, %r5}], [bar];
WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0; @!%p4 bra WAIT;
bfe.u32 %r9, %r7, 4, 14; cvt.u64.u32 %q1, %r9; or.b64 %q1, %q1, 4611686293305294848;
mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %q1, %q1, 0, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
ld.param.u64 %q2, [to]; mad.lo.u32 %r10, %r2, 128, %r1; mul.wide.u32 %q3, %r10, 16; add.u64 %q2, %q2, %q3;
st.global.v4.f32 [%q2], {%f1, %f2, %f3, %f4};
ret;
}
""", [_halves, {"buffer": "y"}], {"x": buf(8192), "y": buf(6144)}, (3, 1, 1), (128, 1, 1),
     read={"x": each((3, 1, 1), lambda *b: span(0, 8192))},
     must={"y": each((3, 1, 1), lambda x, y, z: span(2048 * x, 2048))})

# as people write it
CUDA = r"""
struct __align__(64) map { char bytes[128]; };
static __device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void k(const __grid_constant__ map x, const __grid_constant__ map y, int n)
{
    __shared__ __align__(128) float tile[4][8];
    __shared__ __align__(8) unsigned long long bar;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at(&bar)));
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
    for (int i = 0; i < n; i++) {
        int c = 8 * blockIdx.x, r = 4 * (blockIdx.y + gridDim.y * i);
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(at(&bar)), "r"((int)sizeof tile) : "memory");
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                         :: "r"(at(tile)), "l"(&x), "r"(c), "r"(r), "r"(at(&bar)) : "memory");
        }
        asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @p bra D; bra W; D: }" :: "r"(at(&bar)), "r"(i & 1) : "memory");
        tile[threadIdx.x / 8][threadIdx.x % 8] *= 2;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" :: "l"(&y), "r"(c), "r"(r), "r"(at(tile)) : "memory");
            asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
        }
        __syncthreads();
    }
}
"""
_map = {b: tensor_map(b, 7, [30, 22], [128], [8, 4], 32) for b in "xy"}
_box = {b: each((4, 2, 1), lambda x, y, z,
                b=b: set().union(*[box_bytes(_map[b], [8 * x, 4 * (y + 2 * i)]) for i in range(3)])) for b in "xy"}
Case("tensor-cuda", CUDA, [_map["x"], _map["y"], {"i32": 3}], {"x": buf(3072), "y": buf(3072)}, (4, 2, 1),
     read={"x": _box["x"]}, must={"y": _box["y"]},
     ways=("summary", "slices", "whole"))

# ---- bulk copies
# -----------------------------------------------------------------------------------------------------------

BULK = """.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 n)
{
.reg .b64 %%q<20>; .reg .b32 %%r<9>; .reg .b16 %%h; .reg .pred %%p, %%t, %%d; .shared .align 128 .b8 box[1024]; .shared .align 8 .b64 bar;
mov.u32 %%r1, %%tid.x; setp.ne.u32 %%t, %%r1, 0; @%%t bra END;
ld.param.u64 %%q1, [x]; ld.param.u64 %%q2, [y]; ld.param.u32 %%r2, [n]; mov.u32 %%r3, %%ctaid.x; mul.lo.u32 %%r4, %%r3, 144;
cvt.u64.u32 %%q3, %%r4; add.u64 %%q4, %%q1, %%q3; add.u64 %%q5, %%q2, %%q3; shl.b32 %%r5, %%r3, 4; add.u32 %%r5, %%r5, %%r2;
%s
END: ret;
}
"""
LOAD = """mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r5;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%q4+32], %r5, [bar];
WAIT: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra WAIT;
"""
WAIT = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
XY = [{"buffer": "x"}, {"buffer": "y"}, {"u32": 32}]
PLACE = each((5, 1, 1), lambda x, y, z: span(144 * x, 32 + 16 * x))


def bulk(name, body, read=None, must=None, **more):
    Case(name, HEAD + BULK % body, more.pop("args", XY), {"x": buf(1024), "y": buf(1024), **more.pop("buffers", {})},
         (5, 1, 1), read=read or {},
         must=must or {}, **more)


bulk("bulk-load", LOAD + "st.global.u32 [%q5], 1;",
     read={"x": each((5, 1, 1), lambda x, y, z: span(144 * x + 32, 32 + 16 * x))},
     must={"y": each((5, 1, 1), lambda x, y, z: span(144 * x, 4))})
bulk("bulk-store", "cp.async.bulk.global.shared::cta.bulk_group [%q5], [box], %r5;" + WAIT, must={"y": PLACE})
bulk("bulk-prefetch", "cp.async.bulk.prefetch.L2.global [%q4], %r5; prefetch.global.L2 [%q4]; st.global.u32 [%q5], 1;",
     must={"y": each((5, 1, 1), lambda x, y, z: span(144 * x, 4))})
bulk("bulk-reduce", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%q5], [box], %r5;" + WAIT,
     read={"y": PLACE}, must={"y": PLACE})
bulk("bulk-reduce-half", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%q5], [box], %r5;" + WAIT,
     read={"y": PLACE}, must={"y": PLACE})
bulk("bulk-size-from-data",
     "ld.global.u32 %r6, [%q1]; and.b32 %r6, %r6, 64; cp.async.bulk.global.shared::cta.bulk_group [%q5], [box], %r6;"
     + WAIT,
     read={"x": each((5, 1, 1), lambda *b: span(0, 4))}, may={"y": each((5, 1, 1), lambda *b: span(0, 1024))},
     evidence="data-dependent")
bulk("bulk-size-from-pointer-bits",
     "cvt.u32.u64 %r6, %q1; and.b32 %r7, %r6, 256; add.u32 %r8, %r7, 16; cp.async.bulk.global.shared::cta.bulk_group "
     "[%q5], [box], %r8;"
     + WAIT, may={"y": each((5, 1, 1), lambda *b: span(0, 1024))}, evidence="data-dependent")
bulk("bulk-guarded-by-data",
     "ld.global.u32 %r6, [%q1]; setp.eq.u32 %d, %r6, 0; @!%d bra END; cp.async.bulk.global.shared::cta.bulk_group "
     "[%q5], [box], %r5;" + WAIT,
     read={"x": each((5, 1, 1), lambda *b: span(0, 4))}, may={"y": PLACE}, evidence="data-dependent")
bulk("bulk-loop", """mov.u32 %r6, 0;
LOOP: cp.async.bulk.global.shared::cta.bulk_group [%q5], [box], 16; add.u64 %q5, %q5, 48; add.u32 %r6, %r6, 1; setp.lt.u32 %p, %r6, 3; @%p bra LOOP;
""" + WAIT, must={"y": each((5, 1, 1), lambda x, y, z: {b for k in range(3) for b in span(144 * x + 48 * k, 16)})})
# more copies than there is room to note them in: every byte
bulk("bulk-too-many", """mov.u32 %r6, 0;
LOOP: cp.async.bulk.global.shared::cta.bulk_group [%q5], [box], 16; add.u64 %q5, %q5, 16; add.u32 %r6, %r6, 1; setp.lt.u32 %p, %r6, 9; @%p bra LOOP;
""" + WAIT, may={"y": each((5, 1, 1), lambda *b: span(0, 1024))}, evidence="data-dependent", ways=("tight",))
# what comes by way of a bulk copy is data
bulk("bulk-loaded-index",
     LOAD + "ld.shared.u32 %r6, [box]; and.b32 %r6, %r6, 1020; cvt.u64.u32 %q16, %r6; add.u64 %q6, %q16, %q2; "
            "st.global.u32 [%q6], 1;",
     read={"x": each((5, 1, 1), lambda x, y, z: span(144 * x + 32, 32 + 16 * x))},
     may={"y": each((5, 1, 1), lambda *b: span(0, 1024))},
     evidence="data-dependent")
bulk("discard",
     "and.b32 %r6, %r3, 3; shl.b32 %r6, %r6, 7; cvt.u64.u32 %q16, %r6; add.u64 %q6, %q16, %q2; discard.global.L2 "
     "[%q6], 128;",
     must={"y": each((5, 1, 1), lambda x, y, z: span(128 * (x % 4), 128))})

# ---- matrices
# --------------------------------------------------------------------------------------------------------------


def fragment(rows, cols, bits, by_column, at, stride):
    """Bytes of a matrix of this size at `at`, element by element."""
    lines, each_line = (cols, rows) if by_column else (rows, cols)
    return {at + line * stride * bits // 8 + b for line in range(lines) for b in range(each_line * bits // 8)}


def wmma(name, shape, part, layout, ptype, bits, regs, reg_type, stride, store=False, align=8):
    m, n, k = shape
    rows, cols = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[part]
    lines = cols if layout == "col" else rows
    step = lines * stride * bits // 8
    r = ", ".join("%%f%d" % i for i in range(regs))
    what = "wmma.%s.%s.sync.aligned.%s.m%dn%dk%d.global.%s" % ("store" if store else "load", part, layout, m, n, k,
                                                               ptype)
    body = "%s [%%q3], {%s}, %%r2;" % (what, r) if store else "%s {%s}, [%%q3], %%r2;" % (what, r)
    ptx = HEAD + """.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 s)
{
.reg .b64 %%q<20>; .reg .b32 %%r<9>; .reg .%s %%f<16>;
ld.param.u64 %%q1, [x]; ld.param.u64 %%q2, [y]; ld.param.u32 %%r2, [s]; mov.u32 %%r1, %%tid.x; shr.u32 %%r1, %%r1, 5; mov.u32 %%r3, %%ctaid.x;
mad.lo.u32 %%r1, %%r3, 2, %%r1; mul.lo.u32 %%r1, %%r1, %d; cvt.u64.u32 %%q13, %%r1; add.u64 %%q3, %%q13, %%q%d;
%s
%s
ret;
}
""" % (reg_type, step, 2 if store else 1, "\n".join("mov.%s %%f%d, 0%s;" % ("b" + reg_type[1:] if reg_type != "f64" else "f64", i,
                                                                          "d0000000000000000" if reg_type == "f64"
                                                                          else "f00000000" if reg_type == "f32" else "")
                                                    for i in range(regs)).replace("mov.b32 %f",
                                                      "mov.%s %%f" % reg_type) if store else "", body)
    grid = (3, 1, 1)
    touched = each(grid, lambda x, y, z: {b for w in range(2) for b in fragment(rows, cols, bits, layout == "col",
        (2 * x + w) * step, stride)})
    Case(name, ptx, [{"buffer": "x"}, {"buffer": "y"}, {"u32": stride}],
         {"x": buf(6 * step + 64), "y": buf(6 * step + 64)}, grid, (64, 1, 1),
         read={} if store else {"x": touched}, must={"y": touched} if store else {})


wmma("wmma-a-row", (16, 16, 16), "a", "row", "f16", 16, 8, "b32", 24)
wmma("wmma-a-col", (32, 8, 16), "a", "col", "f16", 16, 8, "b32", 40)
wmma("wmma-b-row", (32, 8, 16), "b", "row", "f16", 16, 8, "b32", 8)
wmma("wmma-b-bf16", (8, 32, 16), "b", "col", "bf16", 16, 8, "b32", 24)
wmma("wmma-c-f32", (16, 16, 16), "c", "row", "f32", 32, 8, "f32", 20)
wmma("wmma-d-f32", (16, 16, 16), "d", "row", "f32", 32, 8, "f32", 20, store=True)
wmma("wmma-d-col", (8, 32, 16), "d", "col", "f32", 32, 8, "f32", 12, store=True)
wmma("wmma-u8-b-row", (32, 8, 16), "b", "row", "u8", 8, 1, "b32", 16)
wmma("wmma-s8-a", (16, 16, 16), "a", "row", "s8", 8, 2, "b32", 48)
wmma("wmma-tf32", (16, 16, 8), "a", "row", "tf32", 32, 4, "b32", 12)
wmma("wmma-f64", (8, 8, 4), "a", "row", "f64", 64, 1, "f64", 6)
wmma("wmma-d-f64", (8, 8, 4), "d", "col", "f64", 64, 2, "f64", 10, store=True)

# a guard that data decides, the same for the whole warp
Case("wmma-guarded-by-data", HEAD + """.visible .entry k(.param .u64 x, .param .u64 y, .param .u32 s)
{
.reg .b64 %q<9>; .reg .b32 %r<9>; .reg .f32 %f<8>; .reg .pred %p;
ld.param.u64 %q1, [x]; ld.param.u64 %q2, [y]; ld.param.u32 %r2, [s]; ld.global.u32 %r3, [%q1]; setp.ne.u32 %p, %r3, 9; @%p bra IN; ret;
IN: mov.u32 %r1, %ctaid.x; shl.b32 %r4, %r1, 6; cvt.u64.u32 %q3, %r4; add.u64 %q4, %q2, %q3;
wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%q4], %r2;
wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%q4], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, %r2;
ret;
}
""", [{"buffer": "x"}, {"buffer": "y"}, {"u32": 32}], {"x": buf(64), "y": buf(2048 + 64)}, (2, 1, 1),
     read={"x": each((2, 1, 1), lambda *b: span(0, 4)),
           "y": each((2, 1, 1), lambda x, y, z: fragment(16, 16, 32, False, 64 * x, 32))},
     may={"y": each((2, 1, 1), lambda x, y, z: fragment(16, 16, 32, False, 64 * x, 32))}, evidence="data-dependent")
# lines that do not lie as wmma wants them: not followed
wmma("wmma-misaligned", (16, 16, 16), "a", "row", "f16", 16, 8, "b32", 20)
CASES[-1].read = {"x": each((3, 1, 1), lambda *b: span(0, CASES[-1].buffers["x"]["bytes"]))}
CASES[-1].evidence = "data-dependent"

# ---- shared memory: no access, but what comes from it is what went into it
# -----------------------------------------------------

SHARED = HEAD + """.visible .entry k(.param .u64 x, .param .u64 y)
{
.reg .b64 %%q<20>; .reg .b32 %%r<12>; .reg .pred %%p; .shared .align 16 .b8 s[1024];
ld.param.u64 %%q1, [x]; ld.param.u64 %%q2, [y]; mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%ctaid.x; mad.lo.u32 %%r3, %%r2, 32, %%r1; mul.wide.u32 %%q3, %%r3, 4;
add.u64 %%q4, %%q1, %%q3; add.u64 %%q5, %%q2, %%q3; shl.b32 %%r4, %%r1, 4; mov.u32 %%r5, s; add.u32 %%r4, %%r4, %%r5;
%s
ret;
}
"""
WORD = each((4, 1, 1), lambda x, y, z: span(128 * x, 128))
ALL = each((4, 1, 1), lambda *b: span(0, 1024))


def shared(name, body, **more):
    Case(name, SHARED % body, [{"buffer": "x"}, {"buffer": "y"}], {"x": buf(1024), "y": buf(1024)}, (4, 1, 1), **more)


shared("cp-async",
       "cp.async.ca.shared.global [%r4], [%q4], 4; cp.async.wait_all; bar.sync 0; ld.shared.u32 %r6, [%r4]; "
       "st.global.u32 [%q5], %r6;",
       read={"x": WORD}, must={"y": WORD})
shared("cp-async-zeros",
       "shr.u32 %r6, %r1, 4; shl.b32 %r6, %r6, 2; cp.async.ca.shared.global [%r4], [%q4], 4, %r6; cp.async.wait_all; "
       "st.global.u32 [%q5], 1;",
       read={"x": each((4, 1, 1), lambda x, y, z: span(128 * x + 64, 64))}, must={"y": WORD})
# the low bits of an aligned address are a number, and lead nowhere
shared("local-at-low-bits", """.local .align 16 .b8 depot[64]; cvt.u32.u64 %r6, %q1; and.b32 %r7, %r6, 12; mov.u64 %q6, depot; cvt.u64.u32 %q7, %r7; add.u64 %q8, %q6, %q7;
cvta.local.u64 %q9, %q8; st.u32 [%q9], 5; st.global.u32 [%q5], 1;""", must={"y": WORD})
CASES[-1].buffers["x"] = {"bytes": 1024, "role": "weight", "fill": {"zero": True}}
# also where that is not seen: local memory is written, not the weight
shared("local-at-unclear-bits", """.local .align 16 .b8 depot[64]; cvt.u32.u64 %r6, %q1; and.b32 %r6, %r6, 12; mov.u64 %q6, depot; cvt.u64.u32 %q7, %r6; add.u64 %q8, %q6, %q7;
cvta.local.u64 %q9, %q8; st.u32 [%q9], 5; st.global.u32 [%q5], 1;""", must={"y": WORD})
CASES[-1].buffers["x"] = {"bytes": 1024, "role": "weight", "fill": {"zero": True}}
shared("ldmatrix", """st.shared.u32 [%r4], %r1; bar.sync 0; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r9}, [%r4]; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {%r6};
st.global.u32 [%q5], %r6;""", must={"y": WORD})
shared("ldmatrix-index", """cp.async.cg.shared.global [%r4], [%q1], 16; cp.async.wait_all; bar.sync 0; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r4];
and.b32 %r6, %r6, 252; cvt.u64.u32 %q16, %r6; add.u64 %q6, %q16, %q2; st.global.u32 [%q6], 1;""",
       read={"x": each((4, 1, 1), lambda *b: span(0, 16))}, may={"y": ALL}, evidence="data-dependent")
shared("stmatrix-index", """ld.global.u32 %r7, [%q4]; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {%r7}; bar.sync 0; ld.shared.u32 %r6, [%r4];
and.b32 %r6, %r6, 252; cvt.u64.u32 %q16, %r6; add.u64 %q6, %q16, %q2; st.global.u32 [%q6], 1;""", read={"x": WORD}, may={"y": ALL}, evidence="data-dependent")
shared("shared-index", """xor.b32 %r7, %r1, 5; st.shared.u32 [%r4], %r7; bar.sync 0; ld.shared.u32 %r6, [%r4]; shr.u32 %r6, %r6, 1;
mul.wide.u32 %q16, %r6, 4; add.u64 %q6, %q16, %q2; st.global.u32 [%q6], 1;""", must={"y": each((4, 1, 1), lambda *b: span(0, 64))})
shared("generic",
       """cvt.u64.u32 %q6, %r4; cvta.shared.u64 %q6, %q6; setp.lt.u32 %p, %r1, 8; selp.b64 %q7, %q6, %q5, %p; st.u32 [%q7], 1; ld.u32 %r6, [%q4];""",
       read={"x": WORD}, must={"y": each((4, 1, 1), lambda x, y, z: span(128 * x + 32, 96))})
shared("local", """.local .align 16 .b8 depot[64]; and.b32 %r6, %r1, 15; mov.u64 %q6, depot; mul.wide.u32 %q7, %r6, 4; add.u64 %q10, %q6, %q7; st.local.u32 [%q10], %r3;
cvta.local.u64 %q11, %q10; ld.u32 %r7, [%q11]; mul.wide.u32 %q17, %r7, 4; add.u64 %q8, %q17, %q2; st.global.u32 [%q8], 1;""", must={"y": WORD})
shared("atomics",
       """atom.global.add.u32 %r6, [%q5], 1; red.global.max.u32 [%q5+512], %r1; atom.global.exch.b32 %r6, [%q4], 1; red.global.add.f32 [%q4+512], 0f00000000;""",
       read={b: each((4, 1, 1), lambda x, y, z: span(128 * x, 128) | span(512 + 128 * x, 128)) for b in "xy"},
       must={b: each((4, 1, 1), lambda x, y, z: span(128 * x, 128) | span(512 + 128 * x, 128)) for b in "xy"})
shared("compare-and-swap", "atom.global.cas.b32 %r6, [%q5], 0, 1;", read={"y": WORD}, may={"y": WORD},
       evidence="data-dependent")
shared("atomic-index",
       "atom.global.add.u32 %r6, [%q4], 1; and.b32 %r6, %r6, 252; cvt.u64.u32 %q16, %r6; add.u64 %q6, %q16, %q2; "
       "st.global.u8 [%q6], 1;",
       read={"x": WORD}, must={"x": WORD}, may={"y": ALL}, evidence="data-dependent")
shared("vectors",
       """ld.global.nc.v2.u16 {%h1, %h2}, [%q4]; shl.b32 %r6, %r1, 4; cvt.u64.u32 %q16, %r6; add.u64 %q6, %q16, %q2; st.global.v4.u32 [%q6], {%r1, %r1, %r1, %r1};"""
       .replace("ld.global", ".reg .b16 %h<3>; ld.global"), read={"x": WORD},
       must={"y": each((4, 1, 1), lambda *b: span(0, 512))})
# a register that is a number, then an address, then a number again
shared("reused-register", """mul.wide.u32 %q6, %r3, 4; add.u64 %q6, %q1, %q6; ld.global.u32 %r6, [%q6]; mul.wide.u32 %q6, %r3, 4; add.u64 %q6, %q6, %q2;
setp.lt.u32 %p, %r3, 7; @%p st.global.u32 [%q6], %r6; setp.ge.u32 %p, %r3, 7; @%p st.global.u32 [%q6], %r1;""", read={"x": WORD}, must={"y": WORD})
# it must not become two where both live on
shared("reused-in-loop",
       """mov.u32 %r6, 0; mov.u64 %q6, %q5; LOOP: st.global.u32 [%q6], %r6; add.u64 %q6, %q6, 128; add.u32 %r6, %r6, 1; setp.lt.u32 %p, %r6, 2; @%p bra LOOP;""",
       must={"y": each((4, 1, 1), lambda x, y, z: span(128 * x, 256))})
shared("multimem", "multimem.red.global.add.u32 [%q5], 1;", refused="multimem.red")

# ---- clusters: other blocks' shared memory is no buffer; ranks are the launch's
# -----------------------------------------------------

CLUSTER = HEAD + """.visible .entry k(.param .u64 x, .param .u64 y)
{
.reg .b64 %%q<20>; .reg .b32 %%r<12>; .reg .pred %%p; .shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar;
ld.param.u64 %%q1, [x]; ld.param.u64 %%q2, [y]; mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%cluster_ctarank; mov.u32 %%r3, %%cluster_nctarank; mov.u32 %%r4, s;
xor.b32 %%r5, %%r2, 1; mapa.shared::cluster.u32 %%r6, %%r4, %%r5; shl.b32 %%r7, %%r1, 2; add.u32 %%r6, %%r6, %%r7; add.u32 %%r4, %%r4, %%r7;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
%s
ret;
}
"""


def cluster(name, body, grid=(4, 2, 1), dims=(2, 1, 1), **more):
    Case(name, CLUSTER % body, [{"buffer": "x"}, {"buffer": "y"}], {"x": buf(1024), "y": buf(1024)}, grid, cluster=dims,
         **more)


def by_rank(grid, dims):
    return each(grid, lambda x, y, z: span(128 * (x % dims[0] + dims[0] * (y % dims[1] + dims[1] * (z % dims[2]))),
                                           128))


RANKED = ("mul.lo.u32 %r8, %r2, 128; add.u32 %r8, %r8, %r7; cvt.u64.u32 %q13, %r8; add.u64 %q3, %q13, %q2; "
          "st.global.u32 [%q3], %r1;")
cluster("cluster-rank", RANKED, must={"y": by_rank((4, 2, 1), (2, 1, 1))})
cluster("cluster-rank-3d", RANKED, (2, 2, 4), (2, 2, 2), must={"y": by_rank((2, 2, 4), (2, 2, 2))})
cluster("cluster-id",
        "mov.u32 %r8, %clusterid.x; mul.lo.u32 %r8, %r8, 128; add.u32 %r8, %r8, %r7; cvt.u64.u32 %q13, %r8; add.u64 "
        "%q3, %q13, %q2; st.global.u32 [%q3], %r1;",
        must={"y": each((4, 2, 1), lambda x, y, z: span(128 * (x // 2), 128))})
cluster("cluster-store", """st.shared::cluster.u32 [%r6], %r1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared.u32 %r9, [%r4];
atom.shared::cluster.add.u32 %r10, [%r6], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;""" + RANKED, must={"y": by_rank((4, 2, 1), (2, 1, 1))})
cluster("cluster-async", """setp.ne.u32 %p, %r1, 0; @!%p mbarrier.init.shared.b64 [bar], 1; mov.u32 %r11, bar; mapa.shared::cluster.u32 %r8, %r11, %r5;
@!%p mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r6], %r1, [%r8];
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r6], 1, [%r8];
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;""" + RANKED.replace("%r8", "%r9"), must={"y": by_rank((4, 2, 1), (2, 1, 1))})
# what another block has written is what its data was
cluster("cluster-loaded-index", """ld.global.u32 %r8, [%q1]; st.shared::cluster.u32 [%r6], %r8; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared.u32 %r9, [%r4];
and.b32 %r9, %r9, 252; cvt.u64.u32 %q13, %r9; add.u64 %q3, %q13, %q2; st.global.u32 [%q3], %r1;""", read={"x": each((4, 2, 1), lambda *b: span(0, 4))},
        may={"y": each((4, 2, 1), lambda *b: span(0, 1024))}, evidence="data-dependent")
# and what it has written of its rank is its rank
cluster("cluster-exchanged-rank", """mad.lo.u32 %r8, %r2, 128, %r7; st.shared::cluster.u32 [%r6], %r8; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
ld.shared.u32 %r9, [%r4]; cvt.u64.u32 %q13, %r9; add.u64 %q3, %q13, %q2; st.global.u32 [%q3], %r1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;""",
        must={"y": each((4, 2, 1), lambda x, y, z: span(128 * (1 - x % 2), 128))})
# not where nothing orders the two blocks
ALL_Y = {"y": each((4, 2, 1), lambda *b: span(0, 1024))}
INDEX = ("ld.shared.u32 %r9, [%r4]; and.b32 %r10, %r9, 1020; cvt.u64.u32 %q13, %r10; add.u64 %q3, %q13, %q2; "
         "st.global.u32 [%q3], %r1;")
ORDER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
cluster("cluster-unordered", "st.shared::cluster.u32 [%r6], %r7; bar.sync 0; " + INDEX + ORDER, may=ALL_Y,
        evidence="data-dependent")
cluster("cluster-unordered-later", "st.shared.u32 [%r4], %r7; " + ORDER + INDEX
        + "bar.sync 0; st.shared::cluster.u32 [%r6], 5;" + ORDER, may=ALL_Y, evidence="data-dependent")
cluster("cluster-unordered-generic",
        "cvt.u64.u32 %q4, %r4; cvta.shared.u64 %q5, %q4; mapa.u64 %q6, %q5, %r5; st.u32 [%q6], %r7; bar.sync 0; "
        + INDEX + ORDER,
        may=ALL_Y, evidence="data-dependent")
cluster("cluster-unordered-load",
        "st.shared.u32 [%r4], %r7; bar.sync 0; cvt.u64.u32 %q4, %r4; cvta.shared.u64 %q5, %q4; mapa.u64 %q6, %q5, "
        "%r5; ld.u32 %r9, [%q6]; "
        + INDEX[len("ld.shared.u32 %r9, [%r4]; "):] + ORDER, may=ALL_Y, evidence="data-dependent")
cluster("cluster-relaxed",
        "st.shared::cluster.u32 [%r6], %r7; barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned; "
        + INDEX + ORDER, may=ALL_Y,
        evidence="data-dependent")
cluster("cluster-generic", """cvt.u64.u32 %q4, %r4; cvta.shared.u64 %q4, %q4; mapa.u64 %q4, %q4, %r5; cvt.u64.u32 %q13, %r7; add.u64 %q3, %q13, %q2; setp.lt.u32 %p, %r1, 8;
selp.b64 %q5, %q4, %q3, %p; st.u32 [%q5], %r1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;""",
        must={"y": each((4, 2, 1), lambda *b: span(32, 96))})

# ---- a grid of three dimensions
# --------------------------------------------------------------------------------------------------

Case("grid-3d", HEAD + """.visible .entry k(.param .u64 x, .param .u64 y)
{
.reg .b64 %q<20>; .reg .b32 %r<12>;
ld.param.u64 %q1, [x]; ld.param.u64 %q2, [y]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z; mov.u32 %r4, %tid.x; mov.u32 %r5, %tid.y; mov.u32 %r6, %tid.z;
mad.lo.u32 %r1, %r1, 100, %r4; mad.lo.u32 %r1, %r2, 20, %r1; mad.lo.u32 %r1, %r3, 300, %r1; mad.lo.u32 %r1, %r5, 7, %r1; mad.lo.u32 %r1, %r6, 40, %r1;
cvt.u64.u32 %q3, %r1; add.u64 %q4, %q1, %q3; add.u64 %q5, %q2, %q3; ld.global.u8 %r7, [%q4]; st.global.u8 [%q5], %r7;
ret;
}
""", [{"buffer": "x"}, {"buffer": "y"}], {"x": buf(2048), "y": buf(2048)}, (3, 2, 4), (4, 2, 2), read={}, must={})
_grid = each((3, 2, 4), lambda x, y, z: {100 * x + 20 * y + 300 * z + a + 7 * b + 40 * c for a in range(4)
                                         for b in range(2) for c in range(2)})
CASES[-1].read, CASES[-1].must = {"x": _grid}, {"y": _grid}


# ---- running them
# ----------------------------------------------------------------------------------------------------------------

def document(c):
    launch = {"name": "k", "module": "m", "entry": "k", "grid": list(c.grid), "block": list(c.block),
              "shared": c.shared, "args": c.args}
    if c.cluster:
        launch["cluster"] = list(c.cluster)
    size = {b: v["bytes"] for b, v in c.buffers.items()}
    touched = sorted(set(c.must) | set(c.may) | set(c.read))
    steps = [{"name": "set-" + b, "memset": {"buffer": b, "offset": 0, "bytes": size[b], "value": 0}} for b in touched
             if c.buffers[b]["role"] != "weight"]
    gets = [{"name": "get-" + b, "copy": {"from": {"buffer": b}, "to": {"buffer": "sink"}, "bytes": size[b]}}
            for b in sorted(set(c.must) | set(c.may))]
    return {"dovetail": 1, "name": c.name, "modules": {"m": {"ptx" if c.ptx.startswith(".version") else "cuda": c.ptx}},
            "buffers": {**c.buffers, "sink": buf(max(size.values()))},
            "launches": steps + [launch] + gets}


def ranges(rows):
    out = {}
    for block, list_ in rows:
        s = set()
        for r in list_:
            for k in range(r[3] if len(r) > 2 else 1):
                s |= set(range(r[0] + k * (r[2] if len(r) > 2 else 0), r[1] + k * (r[2] if len(r) > 2 else 0)))
        out[block] = s
    return out


def show(s):
    s = sorted(s)
    return "%d bytes (%s … %s)" % (len(s), s[0], s[-1]) if s else "nothing"


def check(c, doc):
    bad = []
    k = next(x for x in doc["launches"] if x["name"] == "k")
    got = {f["buffer"]: f for f in k["footprints"]}
    c.must, c.may, c.read = c.must or {}, c.may or {}, c.read or {}
    for what, want in (("read", c.read), ("write", c.must), ("may_write", c.may)):
        for b in c.buffers:
            have = ranges(got[b][what]) if b in got else {}
            need = {i: s for i, s in want.get(b, {}).items() if s}
            for i in sorted(set(have) | set(need)):
                h, n = have.get(i, set()), need.get(i, set())
                if h != n:
                    bad.append("%s of %s, block %d: %s, expected %s" % (what, b, i, show(h), show(n)))
                    break
    said = {e["evidence"] for e in doc["edges"] if "k" in (e["producer"], e["consumer"]) and e["pairs"]}
    if (c.evidence not in said if c.evidence else said) or (c.evidence == "proved" and len(said) > 1):
        bad.append("evidence %s, expected %s" % (sorted(said), c.evidence))
    return bad


def analyses(analyze, recorder, wanted):
    """The documents, or problems, of [(path, way)], by one process."""
    r = subprocess.run([analyze] + [x for pair in wanted for x in pair], capture_output=True, text=True, timeout=280,
                       env=dict(os.environ, DOVETAIL_RECORDER=recorder))
    out = [json.loads(line) for line in r.stdout.splitlines()]
    if len(out) != len(wanted):
        raise SystemExit("exit %d after %d of %d analyses: %s" % (r.returncode, len(out), len(wanted),
                                                                  r.stderr[-2000:]))
    return out


def main():
    analyze, names = sys.argv[1], sys.argv[2:]
    fails = ran = 0
    with tempfile.TemporaryDirectory() as tmp:
        wanted = {"instrumented": [], "native": []}
        for i, c in enumerate(CASES):
            if names and c.name not in names:
                continue
            c.must, c.may, c.read = c.must or {}, c.may or {}, c.read or {}
            path = os.path.join(tmp, "%d.json" % i)
            with open(path, "w") as f:
                json.dump(document(c), f)
            # native has no windows
            runs = {"summary": ["native"], "tight": ["instrumented"] if len(c.ways) > 1 else ["instrumented", "native"]}
            for way, recorder in [(w, r) for w in c.ways for r in runs.get(w, ["instrumented", "native"])]:
                wanted[recorder].append((c, path, way))
        for recorder, todo in wanted.items():
            docs = analyses(analyze, recorder, [(path, way) for _, path, way in todo]) if todo else []
            for (c, _, way), doc in zip(todo, docs):
                ran += 1
                problem = doc if isinstance(doc, str) else ""
                if c.refused:
                    bad = [] if c.refused in problem else ["not refused so: %s" % problem[-200:]]
                else:
                    bad = [problem[-400:]] if problem else check(c, doc)
                for b in bad:
                    print("%s, %s, %s: %s" % (c.name, way, recorder, b))
                fails += bool(bad)
    print("%d cases, %d analyses, %d wrong" % (len(CASES), ran, fails))
    return 1 if fails or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
