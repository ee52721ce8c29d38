#!/usr/bin/env python3
"""Pointwise kernels in the place of copies of tensors from shared memory to global memory (rewrite/inline/staged.c).

A host fills its shared memory with words of x, in whatever order they lie there, and copies boxes of it into h through
a tensor map; so type, box, swizzle, rank, overhang and the threads that make the copies are what a case says, and where
each element goes is the device's own doing. The guest computes y from h. Each case is planned with everything legal at
level `register` forced: it must be kept, or refused by the row that is named, and plan and graph must leave the same
bytes, also on inputs that the planner never saw.

    staged.py PLANNER [NAME…]       exit status 1 if one comes out otherwise
"""
import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from plans import Planner  # noqa: E402

# CUtensorMapDataType, bytes
TYPES = {"u8": (0, 1), "ftz": (10, 4), "u16": (1, 2), "f16": (6, 2), "f32": (7, 4), "u64": (4, 8)}
REGISTERS = [("pred", "done in one first some q do own both there not leave away"), ("b64", "x map p"),
             ("b32", "t tile grid w lane tiles stage mine a b e f g c0 c1 c2 from v k s role zero number is me warp "
              "raw")]
SPAN = [0, 32, 64, 128]
GUESTS = r"""
#define I int i = blockIdx.x * blockDim.x + threadIdx.x
extern "C" __global__ void one(const float *h, const float *b, float *y, int n, int cols) { I; if (i < n) y[i] = h[i] * 2.5f + b[i % cols]; }
extern "C" __global__ void two(const float2 *h, const float2 *b, float2 *y, int n, int cols) { I; if (i < n) { float2 v = h[i], w = b[i % cols]; v.x += w.y; v.y *= w.x; y[i] = v; } }
extern "C" __global__ void four(const float4 *h, const float4 *b, float4 *y, int n, int cols) { I; if (i < n) { float4 v = h[i], w = b[i % cols]; v.x += w.x; v.y -= w.y; v.z *= w.z; v.w += 1.f; y[i] = v; } }
extern "C" __global__ void onto(float *h, const float *b, float *y, int n, int cols) { I; if (i < n) h[i] = h[i] * b[i % cols]; }
extern "C" __global__ void sum(const float *h, const float *b, float *y, int n, int cols) { I; if (i < n) y[i] = y[i] * b[i % cols] + h[i]; }
extern "C" __global__ void shorts(const unsigned short *h, const unsigned short *b, unsigned short *y, int n, int cols) { I; if (i < n) y[i] = h[i] * 3 + b[i % cols]; }
extern "C" __global__ void pairs(const uint4 *h, const uint4 *b, uint4 *y, int n, int cols) { I; if (i < n) { uint4 v = h[i], w = b[i % cols]; v.x ^= w.y; v.y += w.x; v.z = v.z * 5 + i; v.w -= w.w; y[i] = v; } }
extern "C" __global__ void longs(const unsigned long long *h, const unsigned long long *b, unsigned long long *y, int n, int cols) { I; if (i < n) y[i] = h[i] * 3 + b[i % cols]; }
extern "C" __global__ void turned(const float *h, const float *b, float *y, int n, int cols) { I; if (i < n) y[i] = h[i % (n / cols) * cols + i / (n / cols)] - b[i / (n / cols)]; }
extern "C" __global__ void strides(const float2 *h, const float2 *b, float2 *y, int n, int cols) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) { float2 v = h[i]; v.x *= v.x; v.y += b[i % cols].y; y[i] = v; } }
extern "C" __global__ void bytes(const unsigned char *h, const unsigned char *b, unsigned char *y, int n, int cols) { I; if (i < n) y[i] = h[i] + b[i % cols]; }
/* columns `from` … `from` + 32 of rows of `cols` */
extern "C" __global__ void window(const float *h, const float *b, float *y, int from, int cols)
{ int r = blockIdx.x, c = threadIdx.x; y[r * 32 + c] = h[r * cols + from + c] * b[c]; }
"""
ELEMENT = {"one": 4, "two": 8, "four": 16, "onto": 4, "sum": 4, "turned": 4, "strides": 8, "shorts": 2,
           "pairs": 16, "longs": 8, "bytes": 1}


def host(c):
    """The text of the host: of `c`, what case() has."""
    size = TYPES[c["type"]][1]
    pitch = max(c["box"][0] * size, SPAN[c["swizzle"]])
    rows = 1
    for d in c["box"][1:]:
        rows *= d
    words = c["warps"] * rows * pitch // 4
    first, group, groups = c["group"] or (0, c["threads"], 1)
    lines = ["mov.u32 $tile, $ctaid.x;", "mov.u32 $grid, $nctaid.x;"]
    lines += roles(c, first, group, groups, words) if c["group"] else ["mov.u32 $t, $tid.x;", "shr.u32 $w, $t, 5;"]
    lines += ["and.b32 $lane, $t, 31;", "shfl.sync.idx.b32 $w, $w, 0, 31, -1;" if c["shfl"] else "",
             "ld.param.u64 $x, [x];", "cvta.to.global.u64 $x, $x;", "ld.param.u32 $tiles, [tiles];",
             "mov.b64 $map, map;", "cvta.param.u64 $map, $map;", "" if c["group"] else "mov.u32 $stage, stage;",
             {1: "mov.u32 $mine, 0;", 3: "rem.u32 $mine, $w, 3;"}.get(c["warps"], "and.b32 $mine, $w, %d;" %
                                                                      (c["warps"] - 1)),
             "elect.sync _|$one, -1;" if c["who"].endswith("before") else "",
             "LOOP:", "setp.ge.u32 $done, $tile, $tiles;", "@$done bra DONE;",
             "rem.u32 $e, $tile, %d;" % c["across"], "div.u32 $b, $tile, %d;" % c["across"],
             "mad.lo.u32 $a, $e, %d, $mine;" % c["warps"],
             "mad.lo.u32 $c0, $a, %d, %d;" % (c["box"][0], c["at"]),
             "rem.u32 $f, $b, %d;" % c["down"], "div.u32 $g, $b, %d;" % c["down"],
             "mul.lo.u32 $c1, $f, %d;" % c["box"][1],
             "mul.lo.u32 $c2, $g, %d;" % c["box"][2] if len(c["box"]) > 2 else "",
             "mad.lo.u32 $from, $mine, %d, $stage;" % (rows * pitch), c["coordinates"],
             "cp.async.bulk.wait_group.read 0;", c["again"]]
    for k in range(0, words, group):
        inside = words - k >= group
        lines += ["" if inside else "setp.lt.u32 $in, $t, %d;" % (words - k), "mov.u32 $v, 0;",
                  "mad.lo.u32 $k, $tile, %d, $t;" % words, "mad.wide.u32 $p, $k, 4, $x;",
                  "%sld.global.u32 $v, [$p+%d];" % ("" if inside else "@$in ", 4 * k),
                  "mad.lo.u32 $s, $t, 4, $stage;",
                  "%sst.shared.u32 [$s+%d], $v;" % ("" if inside else "@$in ", 4 * k)]
    lines += ["fence.proxy.async.shared::cta;", c["barrier"]]
    if c["who"] == "elect":
        lines += ["elect.sync _|$one, -1;"]
    elif c["who"] == "lane":
        lines += ["setp.eq.u32 $one, $lane, 0;"]
    if not c["who"].startswith("branch"):
        lines += ["setp.lt.u32 $first, $t, %d;" % (32 * c["warps"]), "setp.ne.u32 $some, $tiles, 0;",
                  "and.pred $q, $first, $one;", "and.pred $do, $q, $some;"]
    coord = ", ".join("$c%d" % d for d in range(len(c["box"])))
    lines += [c["copy"] or "@$do cp.async.bulk.tensor.%dd.global.shared::cta.bulk_group [$map, {%s}], [$from];"
              % (len(c["box"]), coord),
              "cp.async.bulk.commit_group;", c["after"], "add.u32 $tile, $tile, $grid;", "bra LOOP;", "DONE:",
              "cp.async.bulk.wait_group 0;", "GONE:" if first else "", "ret;"]
    words *= groups
    text = "\n".join(line for line in lines if line)
    used = set(re.findall(r"[$](\w+)", text))
    registers = "\n".join(".reg .%s %s;" % (kind, ", ".join("$" + r for r in names.split() if r in used))
                          for kind, names in REGISTERS)
    return (""".version 8.6
.target sm_90a
.address_size 64
.visible .entry host(.param .align 64 .b8 map[128], .param .u64 x, .param .u32 tiles)
.reqntid %d
{
%s
.shared .align 1024 .b8 stage[%d];
.shared .align 16 .b8 other[512];
%s
}
""" % (c["threads"], registers, 4 * words, text)).replace("$", "%"), words


def roles(c, first, group, groups, words):
    """Warp groups that tell themselves apart as CUTLASS's do: `first` threads leave, then come groups; t: in one."""
    lines = ["mov.u32 $me, $tid.x;", "shr.u32 $raw, $me, %d;" % (group.bit_length() - 1 if groups > 1 else 5),
             "mov.u32 $zero, 0;", "shfl.sync.idx.b32 $role|$there, $raw, $zero, 31, -1;"]
    if first:
        lines += ["setp.lt.u32 $leave, $role, %d;" % (first // (group if groups > 1 else 32)), "@$leave bra GONE;"]
    lines += ["mov.u32 $stage, stage;"]
    if groups > 1:
        lines += ["and.b32 $t, $me, %d;" % (group - 1), "sub.u32 $number, $role, %d;" % (first // group),
                  "mad.lo.u32 $tile, $tile, %d, $number;" % groups, "mul.lo.u32 $grid, $grid, %d;" % groups,
                  "mad.lo.u32 $stage, $number, %d, $stage;" % (4 * words)]
    else:
        lines += ["sub.u32 $t, $me, %d;" % first, "mov.u32 $number, 3;"]
    return lines + ["shr.u32 $warp, $t, 5;", "shfl.sync.idx.b32 $w, $warp, 0, 31, -1;"]


def case(dim=(64, 32), box=(32, 16), type="f32", swizzle=0, guest="one", threads=128, warps=1, who="elect", grid=None,
         shfl=False, at=0, barrier="bar.sync 0;", copy=None, coordinates="", n=None, keep=False, offset=0, pitch=None,
         after="", across=None, group=None, again="bar.sync 0;"):
    """A graph. dim, box: of the tensor. warps: so many make copies. grid: blocks, of which each has several tiles.
    n: elements that the guest has; keep: h leaves the graph; pitch: elements from row to row. group: (threads that have
    another role, threads of a group, groups)."""
    number, size = TYPES[type]
    across = across or -(-dim[0] // (box[0] * warps))
    down = -(-dim[1] // box[1])
    deep = -(-dim[2] // box[2]) if len(dim) > 2 else 1
    tiles = across * down * deep
    text, words = host({"type": type, "box": box, "swizzle": swizzle, "warps": warps, "threads": threads, "who": who,
                        "shfl": shfl, "at": at, "barrier": barrier, "copy": copy, "after": after,
                        "coordinates": coordinates, "group": group, "again": again,
                        "across": across, "down": down})
    row = (pitch or dim[0]) * size
    strides = [row, row * dim[1]][:len(dim) - 1]
    total = offset + strides[-1] * dim[-1]
    fill = {"uniform": [-2, 2], "dtype": "f16" if size == 2 else "f32", "seed": 5}
    role = "output" if keep else "intermediate"
    if guest == "window":
        each, args, blocks, block = 4, [{"i32": offset // 4}, {"i32": pitch}], dim[1], 32
    else:
        each = ELEMENT[guest]
        n = n or total // each
        args, blocks, block = [{"i32": n}, {"i32": dim[0] * size // each}], -(-n // 128), 128
        blocks = 2 if guest == "strides" else blocks
    buffers = {"x": {"bytes": tiles * words * 4, "role": "input", "fill": fill},
               "h": {"bytes": total, "role": role if guest != "onto" else "output"},
               "b": {"bytes": dim[0] * size, "role": "weight", "fill": fill | {"seed": 6}},
               "y": {"bytes": total, "role": "inout", "fill": fill | {"seed": 7}}}
    tensor = {"buffer": "h", "offset": offset, "tensorDataType": number, "tensorRank": len(dim), "globalDim": list(dim),
              "globalStrides": strides, "boxDim": list(box), "swizzle": swizzle, "oobFill": 0}
    return {"dovetail": 1, "name": "staged", "modules": {"p": {"ptx": text}, "g": {"cuda": GUESTS}}, "buffers": buffers,
            "launches": [{"name": "a", "module": "p", "entry": "host", "grid": [grid or tiles, 1, 1],
                          "block": [threads, 1, 1],
                          "args": [{"tensor_map": tensor}, {"buffer": "x"}, {"i32": tiles}]},
                         {"name": "b", "module": "g", "entry": guest, "grid": [blocks, 1, 1], "block": [block, 1, 1],
                          "args": [{"buffer": "h"}, {"buffer": "b"}, {"buffer": "y"}] + args}]}


def chain(second, **more):
    """And a third launch behind the second one: what that stores, no trace tells thread by thread where h is kept."""
    g = case(**more)
    b, y = g["launches"][1], g["buffers"]["y"]
    g["buffers"]["z"] = dict(y)
    y["role"] = "intermediate"
    del y["fill"]
    args = [{"buffer": "y"}, {"buffer": "b"}, {"buffer": "z"}] + b["args"][3:]
    g["launches"].append(b | {"name": "c", "entry": second, "args": args})
    return g


COPY = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [$map, {$c0, $c1}], [$from];"
FIRST = "setp.ne.u32 $not, $w, 0; @$not bra SKIP; "
ELECTED = "elect.sync _|$one, -1; selp.u32 $is, 1, 0, $one; setp.eq.s32 $away, $is, 0; @$away bra SKIP; "


def grouped(group, number=None, skip=FIRST + ELECTED, beside="", join="", **more):
    """Groups of threads, the copy behind branches. beside, join: behind the copy, and where the branches lead."""
    first, size, groups = group
    barrier = "bar.sync %s, %d;" % (number or ("$role" if groups > 1 else "$number"), size)
    barrier = more.pop("barrier", barrier)
    again = more.pop("again", barrier)
    return case(group=group, threads=first + size * groups, barrier=barrier, again=again,
                who=more.pop("who", "branch"),
                copy=skip + COPY + " cp.async.bulk.commit_group; " + beside + " SKIP: " + join, **more)


KEPT = {
    "plain": case(),
    "in-vectors": case(guest="four"),
    "pairs-of-floats": case(guest="two"),
    "one-warp": case(threads=32, guest="four"),
    "swizzled-32": case(box=(8, 32), swizzle=1, guest="four"),
    "swizzled-64": case(box=(16, 32), swizzle=2, guest="four"),
    "swizzled-128": case(box=(32, 32), swizzle=3, guest="four"),
    "swizzled-shorter-rows": case(dim=(64, 32), box=(16, 16), swizzle=3, guest="four"),
    "halves": case(dim=(128, 32), box=(64, 16), type="f16", swizzle=3, guest="pairs"),
    "bytes-in-vectors": case(dim=(128, 32), box=(64, 16), type="u8", swizzle=2, guest="pairs"),
    "bytes-that-overhang": case(dim=(112, 32), box=(64, 16), type="u8", guest="pairs"),
    "single-halves": case(dim=(128, 32), box=(64, 8), type="u16", swizzle=3, guest="shorts"),
    "eight-bytes": case(dim=(32, 32), box=(16, 8), type="u64", swizzle=3, guest="longs"),
    "two-warps": case(dim=(128, 32), box=(64, 16), type="f16", swizzle=3, guest="pairs", warps=2, shfl=True),
    "four-of-eight-warps": case(dim=(128, 32), box=(32, 8), warps=4, threads=256, guest="four"),
    "all-warps": case(dim=(128, 32), box=(32, 8), warps=4, guest="one"),
    "not-elected": case(who="lane", warps=2, guest="four"),
    "rounds": case(dim=(128, 64), grid=5, swizzle=3, box=(32, 16), guest="four"),
    "rounds-of-two-warps": case(dim=(128, 64), grid=3, swizzle=3, box=(32, 16), guest="one", warps=2),
    "three-dimensions": case(dim=(32, 10, 6), box=(16, 5, 2), guest="four"),
    "overhang": case(dim=(56, 27), box=(32, 16), swizzle=3, guest="one"),
    "overhang-in-vectors": case(dim=(56, 27), box=(32, 16), guest="four"),
    "overhang-in-three-dimensions": case(dim=(20, 7, 5), box=(16, 4, 2), guest="one", warps=2),
    "overhang-of-whole-boxes": case(dim=(96, 32), box=(32, 16), warps=2, guest="four"),
    "shifted": case(dim=(60, 32), at=-4, guest="four"),
    "shifted-by-one": case(dim=(60, 32), at=-1, guest="one"),
    "boxes-of-no-grid": case(dim=(64, 32), at=-4, across=3, guest="four"),
    "odd-rows": case(dim=(60, 14), box=(60, 7), guest="one", threads=96),
    "fewer": case(n=1111),
    "others-read-it": case(keep=True, guest="four"),
    "others-read-it-in-rounds": case(keep=True, guest="four", grid=2),
    "in-place": case(guest="onto", swizzle=3),
    "turned": case(guest="turned", swizzle=3),
    "grid-stride": case(guest="strides", swizzle=3, grid=3),
    "overwritten-by-its-own-thread": case(
        who="lane", grid=2, after="@$do cp.async.bulk.wait_group.read 0; @$do st.shared.u32 [stage+1024], $k;"),
    "two-guests": chain("four", guest="four", swizzle=3, grid=3),
    "two-guests-and-a-reader": chain("four", guest="four", grid=2, keep=True),
    "a-group": grouped((32, 96, 1), guest="four"),
    "a-group-by-a-constant": grouped((128, 128, 1), number="5"),
    "two-groups": grouped((128, 128, 2), swizzle=3, guest="four"),
    "two-groups-in-rounds": grouped((128, 128, 2), dim=(128, 64), grid=3, guest="four"),
    "three-groups-of-a-warp": grouped((32, 32, 3), dim=(96, 32), guest="two", skip=ELECTED),
    "groups-that-overhang": grouped((64, 64, 2), dim=(56, 27), swizzle=3),
    "a-group-of-all-consumers": grouped((128, 256, 1), grid=2, swizzle=3, guest="four"),
    "groups-and-nobody-else": grouped((0, 64, 2), grid=2, guest="four"),
    "elected-at-the-start": grouped((128, 128, 2), grid=2, guest="four", who="branch-before",
                                    skip=FIRST + ELECTED.replace("elect.sync _|$one, -1; ", "")),
    "others-read-the-groups'": grouped((128, 128, 2), grid=2, keep=True, guest="four"),
    "a-lane-by-number": grouped((64, 64, 1), skip="setp.ne.u32 $not, $t, 0; @$not bra SKIP;"),
    "the-way-is-taken": grouped((128, 128, 2), guest="four",
                                skip="setp.eq.u32 $not, $w, 0; @$not bra ON; bra SKIP; ON: " + ELECTED),
    "two-warps-of-a-group": grouped((64, 64, 2), dim=(128, 32), warps=2, guest="four",
                                    skip="setp.ge.u32 $not, $w, 2; @$not bra SKIP; " + ELECTED),
    "by-branches-of-the-whole-block": case(
        guest="four", who="branch", copy="setp.ge.u32 $not, $t, 32; @$not bra SKIP; " + ELECTED + COPY + " SKIP:"),
    "a-window": case(dim=(32, 16), box=(32, 8), pitch=64, offset=96, guest="window"),
}
REFUSED = {
    "no-barrier": ("staged-still", case(threads=32, barrier="bar.warp.sync -1;")),
    "stores-behind-it": ("staged-still", case(
        barrier="bar.sync 0; mov.u32 $k, other; mad.lo.u32 $k, $t, 4, $k; st.shared.u32 [$k], $t;")),
    "changed-behind-it": ("staged-still", case(
        guest="four", barrier="bar.sync 0; setp.lt.u32 $own, $t, 32; @$own st.shared.u32 [$s+1024], $k; "
        "fence.proxy.async.shared::cta; bar.warp.sync -1;")),
    "waits-behind-it": ("staged-still", case(who="lane", barrier="bar.sync 0; cp.async.wait_all;")),
    "by-a-branch": ("staged-box", case(copy="@!$do bra NOT; " + COPY + " NOT:")),
    "a-number-made-twice": ("staged-still", grouped(
        (128, 128, 1), barrier="setp.gt.u32 $both, $t, 1000; @$both mov.u32 $number, 4; bar.sync $number, 128;")),
    "some-may-wait-elsewhere": ("staged-still", grouped(
        (128, 128, 1), barrier="setp.gt.u32 $both, $t, 1000; vote.sync.any.pred $own, $both, -1; @$own bra ALT; "
        "bar.sync $number, 128;", again="bar.sync 2, 128;", join="bra HERE; ALT: bar.sync $number, 128; HERE:")),
    "another-role": ("staged-box", grouped((128, 128, 2), skip="setp.ne.u32 $not, $w, 1; @$not bra SKIP; " + ELECTED)),
    "what-only-one-may": ("staged-box", grouped((128, 128, 1), beside="mov.u32 $v, other; st.shared.u32 [$v], $t;")),
    "what-only-one-counts": ("staged-box", grouped((64, 64, 1), beside="mov.u32 $k, 7;",
                                                   join="mov.u32 $v, other; mad.lo.u32 $v, $t, 4, $v; "
                                                        "st.shared.u32 [$v], $k;")),
    "the-ways-meet-elsewhere": ("staged-box", grouped((128, 128, 2), skip=FIRST.replace("SKIP", "OVER") + ELECTED,
                                                      join="mov.u32 $v, $t; OVER:")),
    "coordinates-of-the-warp": ("staged-box", grouped((128, 128, 2), coordinates="add.u32 $c0, $c0, $w;")),
    "another-warp": ("staged-box", case(copy="setp.eq.u32 $own, $w, 1; and.pred $both, $own, $one; @$both " + COPY)),
    "some-have-left": ("staged-still", case(
        barrier="bar.sync 0; setp.ge.u32 $own, $t, 64; @$own ret; bar.sync 0;")),
    "some-have-left-a-constant": ("staged-still", case(
        dim=(32, 16), barrier="bar.sync 0; setp.ge.u32 $own, $t, 64; @$own ret; bar.sync 0;",
        copy="@$q " + COPY.replace("$c0, $c1", "0, 0").replace("$from", "stage"))),
    "elected-before": ("staged-box", case(who="before")),
    "two-of-three-warps": ("staged-box", case(dim=(128, 32), warps=2, threads=96)),
    "three-warps": ("staged-box", case(dim=(96, 32), warps=3)),
    "lanes-of-their-own": ("staged-box", case(coordinates="setp.lt.u32 $own, $t, 32; selp.b32 $c0, $c0, 7, $own;")),
    "unaligned": ("staged-box", case(dim=(60, 32), at=-1, guest="four")),
    "flushed": ("staged-box", case(type="ftz")),
    "bytes": ("staged-box", case(guest="bytes")),
    "adds-to-it": ("stored-once", case(guest="sum", grid=2)),
    "adds-to-it-behind-another": ("stored-once", chain("sum", guest="one", grid=2, keep=True)),
    "keeps-what-it-overwrites": ("stored-once", case(guest="onto", n=512)),
}


def corpus(name):
    """A graph of tests/corpus, its texts in it."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus", name)
    with open(os.path.join(folder, "graph.json"), encoding="utf-8") as f:
        g = json.load(f)
    for m in g["modules"].values():
        with open(os.path.join(folder, m.pop("file")), encoding="utf-8") as f:
            m["ptx"] = f.read()
    return g


def told(answer, launches):
    """How the candidate of one of these sets of launches ended."""
    mine = [r for r in answer.get("plan", {}).get("rewrites", []) if r["launches"] in launches]
    return "%s: %s" % (mine[-1]["verdict"], mine[-1].get("reason", "")) if mine else answer.get("error", "absent")


def main():
    planner, names = Planner(sys.argv[1]), sys.argv[2:]
    kinds = {k for k, _ in planner.ask({"list": True})["kinds"]}
    wrong = done = 0
    # what Triton makes: a persistent product, and one of two boxes a tile; rows that are no whole tiles
    triton = corpus("triton-staged-90")
    ours, tiles = corpus("specialised-90"), corpus("specialised-persistent-90")
    cases = [("specialised", None, ours, [["specialised", "bias_relu"]]),
             ("specialised-2", None, ours, [["specialised-2", "residual"]]),
             ("specialised-persistent", None, tiles, [["specialised", "bias_relu"]]),
             ("specialised-cluster", None, corpus("specialised-cluster-90"), [["specialised-2", "residual"]]),
             ("triton-persistent", None, triton, [["matmul_persistent", "bias_relu"]]),
             ("triton-boxes", None, triton, [["matmul_tma", "residual"]])]
    for name, (row, graph) in ({k: (None, g) for k, g in KEPT.items()} | REFUSED).items():
        cases.append((name, row, graph, [["a", "b"]] if len(graph["launches"]) == 2 else [["a+b", "c"]]))
    for name, row, graph, launches in cases:
        if names and name not in names:
            continue
        answer = planner.ask({"graph": graph, "force": True, "inputs": 3, "schedules": 4, "seeds": [5, 8],
                              "allow": ["block-fusion"], "deny": sorted(kinds - {"block-fusion"}),
                              "levels": "register"})
        is_ = told(answer, launches)
        good = is_.startswith("refused: ") and row + ": " in is_ if row else is_.startswith("kept: ")
        done += 1
        if not good or answer.get("equal"):
            wrong += 1
            print("%s: %s %s" % (name, is_, answer.get("equal", "")))
        elif names:
            print("%s: %s" % (name, is_))
    wrong += planner.close() != 0
    print("%d of %d copies of tensors came out right" % (done - wrong, done))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
