#!/usr/bin/env python3
"""Block maps against an oracle that knows nothing of dovetail.

Random graphs are made from statements whose addresses are known here as formulas: each becomes CUDA C++ (through inline
PTX, so that the compiler can neither drop nor merge an access) and, independently, a byte-exact trace in Python. From
the traces the rules of contract §3 are applied by brute force, byte by byte, and compared with `dovetail analyze
--local --maps --all-edges`: pairs per hazard, class, fan, components, degrees, independent blocks and bytes, evidence.

Statements: loads, stores, atomics of 1 to 16 bytes; affine indices in block, thread and loop counter; affine guards;
guards on data (may-access: counts, kills nothing); indices from data (every byte of the buffer) and from constant
content (exact, `observed`); memset and copy steps; 3-D grids; several parameters into one buffer at offsets.

    maps.py DOVETAIL [COUNT [FIRST_SEED [ANALYZE]]]      prints one line per mismatch, exit status 1 if any

With ANALYZE (tests/diff/analyze.c), every graph is also analysed without summaries, as slices and whole, by
instrumented PTX (as on a real
GPU) and by the software device's own recorder, and held against the oracle so too.
"""
import base64
import json
import os
import random
import subprocess
import sys
import tempfile

PRELUDE = r"""
typedef unsigned int u32; typedef unsigned long long u64;
#define LD(N, T, C, W) __device__ __forceinline__ u32 ld##N(const char *p) { T v; asm volatile("ld.global." W " %0, [%1];" : C(v) : "l"(p) : "memory"); return (u32)v; }
#define ST(N, T, C, W) __device__ __forceinline__ void st##N(char *p, u32 x) { T v = (T)x; asm volatile("st.global." W " [%0], %1;" :: "l"(p), C(v) : "memory"); }
LD(1, unsigned short, "=h", "u8") LD(2, unsigned short, "=h", "u16") LD(4, u32, "=r", "u32") LD(8, u64, "=l", "u64")
ST(1, unsigned short, "h", "u8") ST(2, unsigned short, "h", "u16") ST(4, u32, "r", "u32") ST(8, u64, "l", "u64")
__device__ __forceinline__ u32 ld16(const char *p) { u32 a, b, c, d; asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(p) : "memory"); return a ^ b ^ c ^ d; }
__device__ __forceinline__ void st16(char *p, u32 x) { asm volatile("st.global.v4.u32 [%0], {%1,%1,%1,%1};" :: "l"(p), "r"(x) : "memory"); }
__device__ __forceinline__ u32 at4(char *p, u32 x) { u32 r; asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(x) : "memory"); return r; }
"""

PROVED, OBSERVED, DATA = 0, 1, 2
EVIDENCE = ["proved", "observed", "data-dependent"]


class Stmt:
    """One access: index = (kb * block + kt * thread + ki * i + k0) % count, of `width` bytes at base offset + index *
    width."""

    def __init__(self, rng, bufs, kinds):
        self.kind = rng.choice(kinds)
        self.buf = rng.choice([b for b in bufs if self.kind == "ld" or not b["fixed"]])
        self.width = 4 if self.kind == "at" else rng.choice([1, 2, 4, 4, 4, 8, 16])
        size = self.buf["bytes"]
        self.offset = rng.choice([0, 0, 0, 16 * rng.randrange(0, size // 32 + 1)])
        self.count = (size - self.offset) // self.width
        self.loop = rng.choice([1, 1, 1, 2, 5])
        self.kb = rng.choice([0, 1, 8, 16, 32, 33, 64])
        self.kt = rng.choice([0, 1, 1, 1, 2, 3])
        self.ki = rng.choice([1, 16, 32, 64])
        self.k0 = rng.choice([0, 0, 1, 7, 40])
        # guard: none | thread < n | block % m == r | data
        self.guard = rng.choice(["none"] * 5 + ["thread", "block", "data"])
        self.gn = rng.randrange(1, 40)
        # address: affine, or from an index buffer: constant or data
        self.via = rng.choice(["affine"] * 10 + ["constant", "data"]) if self.kind != "at" else "affine"

    def index(self, b, t, i):
        return (self.kb * b + self.kt * t + self.ki * i + self.k0) % self.count

    def cuda(self, n):
        idx = "(%du * blk + %du * t + %du * i + %du)" % (self.kb, self.kt, self.ki, self.k0)
        if self.via == "constant":
            idx = "ld4(IX + 4 * ((blk + t) %% 64))" % ()
        elif self.via == "data":
            idx = "ld4(IN + 4 * ((blk + t) % 64))"
        p = "A%d + (u64)(%s %% %du) * %d" % (n, idx, self.count, self.width)
        body = {"ld": "acc ^= ld%d(%s);", "st": "st%d(%s, acc + i + 1);",
                "at": "acc ^= at%d(%s, 1);"}[self.kind] % (self.width, p)
        g = {"none": "", "thread": "if (t < %du) " % self.gn, "block": "if (blk %% 3u == %du) " % (self.gn % 3),
             "data": "if (ld4(IN + 4 * (t % 64)) & 1) "}[self.guard]
        return "    for (u32 i = 0; i < %du; i++) { %s{ %s } }\n" % (self.loop, g, body)

    def guarded_in(self, b, t):
        return {"none": True, "data": True, "thread": t < self.gn, "block": b % 3 == self.gn % 3}[self.guard]


class Foot:
    """What one block does: per buffer sets of bytes read, surely written, written at all; and evidence per (buffer,
    byte use)."""

    def __init__(self):
        self.r, self.must, self.w, self.exact = {}, {}, {}, {}


def build(seed):
    rng = random.Random(seed)
    buffers, order = {}, []

    def add(name, size, role, **more):
        buffers[name] = {"bytes": size, "role": role, **more}
        order.append(name)

    consts = [rng.randrange(0, 1 << 20) for _ in range(64)]
    add("in", 256, "input", fill={"uniform": [0, 1 << 30], "dtype": "u32", "seed": seed})
    add("ix", 256, "input", constant=True,
        data=base64.b64encode(b"".join(c.to_bytes(4, "little") for c in consts)).decode())
    names = []
    for k in range(rng.randrange(2, 5)):
        n = "b%d" % k
        add(n, rng.choice([256, 512, 1024, 2048, 4096 + 64]), rng.choice(["input", "intermediate", "inout", "output"]),
            fill={"zero": True})
        names.append(n)
    launches, foots, accs, src = [], [], [], PRELUDE
    for li in range(rng.randrange(2, 6)):
        if rng.random() < 0.15:
            b = rng.choice(names)
            size = buffers[b]["bytes"]
            off = rng.choice([0, 16, 100])
            n = rng.randrange(1, size - off + 1)
            f = Foot()
            if rng.random() < 0.5 or len(names) < 2:
                launches.append({"name": "s%d" % li, "memset": {"buffer": b, "offset": off, "bytes": n, "value": 3}})
            else:
                s = rng.choice([x for x in names if x != b])
                n = min(n, buffers[s]["bytes"])
                launches.append({"name": "s%d" % li, "copy": {"from": {"buffer": s}, "to": {"buffer": b, "offset": off},
                                                              "bytes": n}})
                f.r[s] = set(range(n))
            f.must[b] = f.w[b] = set(range(off, off + n))
            foots.append([f])
            accs.append({})
            continue
        grid = rng.choice([(4, 1, 1), (7, 1, 1), (3, 2, 1), (2, 2, 2), (16, 1, 1), (1, 1, 1)])
        block = rng.choice([(32, 1, 1), (64, 1, 1), (40, 1, 1), (16, 4, 1)])
        bl = [dict(buffers[n], name=n, fixed=False) for n in names]
        stmts = [Stmt(rng, bl, ["ld", "ld", "st", "st", "at"]) for _ in range(rng.randrange(1, 5))]
        params = ", ".join(["const char *IN", "const char *IX", "char *SINK"]
                           + ["char *A%d" % k for k in range(len(stmts))])
        src += 'extern "C" __global__ void k%d(%s)\n{\n' % (li, params)
        src += "    u32 blk = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), acc = 0;\n"
        src += "    u32 t = threadIdx.x + blockDim.x * threadIdx.y;\n"
        src += "".join(s.cuda(k) for k, s in enumerate(stmts))
        nthr, nblk = block[0] * block[1], grid[0] * grid[1] * grid[2]
        src += "    st4(SINK + 4 * (u64)(t + %du * blk), acc);\n}\n" % nthr
        sink = "sink%d" % li
        add(sink, 4 * nthr * nblk, "output")
        launches.append({"name": "k%d" % li, "module": "m", "entry": "k%d" % li, "grid": list(grid),
                         "block": list(block),
                         "args": [{"buffer": "in"}, {"buffer": "ix"}, {"buffer": sink}] +
                                 [{"buffer": s.buf["name"], "offset": s.offset} for s in stmts]})
        blocks, acc = [], {}

        def note(buf, what, ev, span):
            for x in span:
                acc[(buf, what, x)] = max(acc.get((buf, what, x), PROVED), ev)

        for b in range(nblk):
            f = Foot()
            for t in range(nthr):
                f.must.setdefault(sink, set()).update(range(4 * (t + nthr * b), 4 * (t + nthr * b) + 4))
                f.w.setdefault(sink, set()).update(range(4 * (t + nthr * b), 4 * (t + nthr * b) + 4))
            for s in stmts:
                name = s.buf["name"]
                live = [t for t in range(nthr) if s.guarded_in(b, t)]
                for t in live:
                    if s.guard == "data":
                        f.r.setdefault("in", set()).update(range(4 * (t % 64), 4 * (t % 64) + 4))
                    if s.via in ("constant", "data"):
                        z = (b + t) % 64
                        f.r.setdefault("ix" if s.via == "constant" else "in", set()).update(range(4 * z, 4 * z + 4))
                    if s.via == "data":
                        span = [range(0, s.buf["bytes"])]
                    elif s.via == "constant":
                        o = s.offset + consts[(b + t) % 64] % s.count * s.width
                        span = [range(o, o + s.width)]
                    else:
                        span = [range(s.offset + s.index(b, t, i) * s.width,
                                      s.offset + (s.index(b, t, i) + 1) * s.width)
                                for i in range(s.loop)]
                    ev = DATA if s.guard == "data" or s.via == "data" else OBSERVED if s.via == "constant" else PROVED
                    for sp in span:
                        for what in {"ld": "r", "st": "w", "at": "rw"}[s.kind]:
                            note(name, what, ev, sp)
                        if s.kind in ("ld", "at"):
                            f.r.setdefault(name, set()).update(sp)
                        if s.kind in ("st", "at"):
                            f.w.setdefault(name, set()).update(sp)
                            if s.guard != "data" and s.via != "data":
                                f.must.setdefault(name, set()).update(sp)
            blocks.append(f)
        wide = {s.buf["name"] for s in stmts if s.via == "data" and s.kind == "ld"}
        # where more than one of guard and address is in question, a superset is all that is asked for
        loose = any(s.via == "data" and s.guard != "none" or s.via == "constant" and s.guard == "data" for s in stmts)
        for f in blocks:
            f.wide, f.loose = wide, loose
        foots.append(blocks)
        accs.append(acc)
    doc = {"dovetail": 1, "name": "random%d" % seed, "modules": {"m": {"cuda": src}}, "buffers": buffers,
           "launches": launches}
    return doc, foots, accs


def union(blocks, attr):
    out = {}
    for f in blocks:
        for b, s in getattr(f, attr).items():
            out.setdefault(b, set()).update(s)
    return out


def pairs(early, late, killed, ea, la):
    """(consumer, producer) pairs where attribute `ea` of the earlier and `la` of the later meet on a byte not killed,
    and the (buffer, byte)s where they do."""
    out, where = set(), set()
    by = {}
    for p, f in enumerate(early):
        for b, s in getattr(f, ea).items():
            for x in s:
                if x not in killed.get(b, ()):
                    by.setdefault((b, x), []).append(p)
    for c, f in enumerate(late):
        for b, s in getattr(f, la).items():
            for x in s:
                for p in by.get((b, x), ()):
                    out.add((c, p))
                    where.add((b, x))
    return out, where


def components(ps):
    parent = {}

    def find(x):
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x
    for c, p in ps:
        for n in (("c", c), ("p", p)):
            parent.setdefault(n, n)
        parent[find(("c", c))] = find(("p", p))
    return len({find(x) for x in parent})


def degrees(ps, k):
    d = {}
    for q in ps:
        d[q[k]] = d.get(q[k], 0) + 1
    return d


def expect(foots, accs, i, j):
    killed = {}
    for m in range(i + 1, j):
        for b, s in union(foots[m], "must").items():
            killed.setdefault(b, set()).update(s)
    raw, b1 = pairs(foots[i], foots[j], killed, "w", "r")
    war, b2 = pairs(foots[i], foots[j], killed, "r", "w")
    waw, b3 = pairs(foots[i], foots[j], killed, "w", "w")
    both = raw | war | waw
    e = {"raw": raw, "war": war, "waw": waw, "buffers": {b for b, _ in b1 | b2 | b3}, "pairs": len(both),
         "components": components(both)}
    ev = PROVED
    for where, pe, ce in ((b1, "w", "r"), (b2, "r", "w"), (b3, "w", "w")):
        for b, x in where:
            ev = max(ev, accs[i].get((b, pe, x), PROVED), accs[j].get((b, ce, x), PROVED))
    e["evidence"] = EVIDENCE[ev]
    e["loose"] = any(getattr(f, "loose", False) for m in range(i, j + 1) for f in foots[m])
    nc = len(foots[j])
    cons, prod = degrees(raw, 0), degrees(raw, 1)
    written = {}
    for m in range(i, j):
        for b, s in union(foots[m], "w").items():
            written.setdefault(b, set()).update(s)
    ind = {}
    wide = set().union(*[getattr(f, "wide", set()) for f in foots[j]])
    for b, s in union(foots[j], "r").items():
        n = len(s - written.get(b, set()))
        if n and b not in wide:
            ind[b] = n
    e["independent_bytes"] = ind
    e["wide"] = wide
    e["independent_blocks"] = nc - len(cons)
    if not raw:
        e["fan"], e["classes"] = "none", {"full-independence"}
    else:
        mc, mp = max(cons.values()), max(prod.values())
        e["fan"] = ("one-to-one" if mc == mp == 1 else "one-to-many" if mc == 1 else "many-to-one" if mp == 1
                    else "many-to-many")
        e["classes"] = {"one-to-one" if e["fan"] == "one-to-one" and len(cons) == nc else "many-to-many"}
        if e["independent_blocks"] or ind:
            e["classes"].add("partial-independence")
    for k, key in ((0, "producers_per_consumer"), (1, "consumers_per_producer")):
        d = degrees(both, k).values()
        e[key] = {"min": min(d, default=0), "max": max(d, default=0)}
    return e


def compare(e, got, foots):
    """What differs, as text; [] when equal."""
    bad = []
    g = {h: {(c, p) for c, ps in got.get("map", {}).get(h, []) for p in ps} for h in ("raw", "war", "waw")}
    if e["loose"]:
        return ["%s: missing %s" % (h, sorted(e[h] - g[h])[:4]) for h in g if e[h] - g[h]]
    for h in g:
        if g[h] != e[h]:
            bad.append("%s: missing %s, extra %s" % (h, sorted(e[h] - g[h])[:4], sorted(g[h] - e[h])[:4]))
    for k in ("pairs", "components", "fan", "independent_blocks", "producers_per_consumer", "consumers_per_producer"):
        if got.get(k) != e[k]:
            bad.append("%s: %s, expected %s" % (k, got.get(k), e[k]))
    ib = {b: n for b, n in got.get("independent_bytes", {}).items() if b not in e["wide"]}
    if ib != e["independent_bytes"]:
        bad.append("independent_bytes: %s, expected %s" % (ib, e["independent_bytes"]))
    if not e["wide"] and set(got.get("classes", [])) != e["classes"]:
        bad.append("classes: %s, expected %s" % (got.get("classes"), e["classes"]))
    if e["pairs"] and set(got.get("buffers", [])) != e["buffers"]:
        bad.append("buffers: %s, expected %s" % (got.get("buffers"), e["buffers"]))
    if e["pairs"] and sorted(got.get("hazards", [])) != sorted(h for h in g if e[h]):
        bad.append("hazards: %s" % got.get("hazards"))
    if e["pairs"] and got.get("evidence") != e["evidence"]:
        bad.append("evidence: %s, expected %s" % (got.get("evidence"), e["evidence"]))
    return bad


def main():
    exe = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    ways = [("summary", "native")]
    if len(sys.argv) > 4:
        ways += [(how, recorder) for how in ("slices", "whole") for recorder in ("instrumented", "native")]
    fails = edges = 0
    with tempfile.TemporaryDirectory() as tmp:
        for seed in range(first, first + count):
            doc, foots, accs = build(seed)
            path = os.path.join(tmp, "g.json")
            with open(path, "w") as f:
                json.dump(doc, f)
            for way, recorder in ways:
                command = [exe, "analyze", path, "--local", "--cache", os.path.join(tmp, "c.db"), "--device", "soft",
                           "--json", "--maps",
                           "--all-edges"] if way == "summary" else [sys.argv[4], path, way]
                r = subprocess.run(command, capture_output=True, text=True, timeout=120,
                                   env=dict(os.environ, DOVETAIL_RECORDER=recorder))
                if r.returncode:
                    print("seed %d, %s, %s: exit %d: %s" % (seed, way, recorder, r.returncode,
                                                            (r.stderr or r.stdout)[-300:]))
                    fails += 1
                    continue
                got = {(x["producer"], x["consumer"]): x for x in json.loads(r.stdout)["edges"]}
                for j in range(len(foots)):
                    for i in range(j):
                        key = (doc["launches"][i]["name"], doc["launches"][j]["name"])
                        edges += 1
                        if key not in got:
                            bad = ["edge is missing"]
                        else:
                            bad = compare(expect(foots, accs, i, j), got[key], foots)
                        for b in bad:
                            print("seed %d, %s, %s, %s -> %s: %s" % (seed, way, recorder, key[0], key[1], b))
                        fails += bool(bad)
    print("%d graphs, %d edges, %d wrong" % (count, edges, fails))
    return 1 if fails else 0


if __name__ == "__main__":
    sys.exit(main())
