#!/usr/bin/env python3
"""make.py [NAME…]: the graphs ../multistage-* and ../specialised-*, compiled by nvcc from the kernels of this folder.

    make.py                         writes graph.json and the kernels' PTX
    make.py --check                 compiles anew and says what differs from what is there; exit status 1 where
                                    something does, 77 where there is no such nvcc
    make.py --size FOLDER M N K     the graphs of SIZED into FOLDER/NAME: to be measured, not committed

Needs nvcc (CUDA_HOME, or /usr/local/cuda); what is committed comes from the release that `RELEASE` names. What each
block reads and writes is in footprints.py of each graph's folder, worked out by hand from the kernels; what the outputs
are, in values.py here, by numpy.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from document import text  # noqa: E402

RELEASE = "13.0"
CASES, SIZED = {}, {}


class Graph:
    def __init__(self, name, target):
        self.name, self.target, self.seed, self.sources = name, target, 0, {}
        self.modules, self.buffers, self.launches = {}, {}, []

    def buffer(self, name, rows, columns, role, dtype="f16", lo=-1.0, hi=1.0):
        self.buffers[name] = what = {"bytes": rows * columns * (2 if dtype == "f16" else 4), "role": role}
        if role in ("input", "weight"):
            self.seed += 1
            what["fill"] = {"uniform": [lo, hi], "dtype": dtype, "seed": self.seed}
        return name

    def kernel(self, source, entry, **defines):
        name = "-".join([entry, *(f"{v}" for v in defines.values() if v != "")])
        self.modules[name] = {"file": name + ".ptx"}
        self.sources[name + ".ptx"] = (source, entry, defines)
        return {"module": name, "entry": entry}

    def launch(self, kernel, grid, block, shared, *args):
        n = sum(l["entry"] == kernel["entry"] for l in self.launches)
        self.launches.append({"name": kernel["entry"] + (f"-{n + 1}" if n else ""), **kernel, "grid": list(grid),
                              "block": [block, 1, 1], "shared": shared, "args": list(args)})

    # ---- products: c = a b', M x N, K deep ----

    def multistage(self, a, b, c, M, N, K, bm, bn, stages):
        shared = max(stages * (bm + bn) * 64, bm * (bn + 8) * 2)
        self.launch(self.kernel("multistage.cu", "multistage", BM=bm, BN=bn, STAGES=stages), (M // bm, N // bn, 1), 128,
                    shared, {"buffer": a}, {"buffer": b}, {"buffer": c}, {"i32": N}, {"i32": K})

    def specialised(self, a, b, c, M, N, K, bn, stages, blocks=None, cluster=None):
        """blocks: of a persistent grid; cluster: blocks of one."""
        shared = stages * (128 + bn) * 128 + 2 * 64 * bn * 2 + stages * 16
        how = {"PERSISTENT": "persistent"} if blocks else {"CLUSTER": cluster} if cluster else {}
        tiles = M // 128 * (N // bn)
        kernel = self.kernel("specialised.cu", "specialised", BN=bn, STAGES=stages, **how)
        maps = boxes(a, M, K, 128), boxes(b, N, K, bn // (cluster or 1)), boxes(c, M, N, 64)
        self.launch(kernel, (blocks or tiles, 1, 1), 384, shared, *maps,
                    {"i32": M // 128}, {"i32": tiles}, {"i32": K // 64})

    # ---- what stands behind them ----

    def bias_relu(self, x, bias, y, M, N):
        self.launch(self.kernel("rows.cu", "bias_relu"), (-(-M * N // 8 // 128), 1, 1), 128, 0, {"buffer": x},
                    {"buffer": bias}, {"buffer": y}, {"i32": M * N // 8}, {"i32": N})

    def residual(self, x, y, z, scale, M, N):
        self.launch(self.kernel("rows.cu", "residual"), (-(-M * N // 2 // 256), 1, 1), 256, 0, {"buffer": x},
                    {"buffer": y}, {"buffer": z}, {"f32": scale}, {"i32": M * N // 2})

    def row_sum(self, x, s, M, N):
        self.launch(self.kernel("rows.cu", "row_sum"), (M, 1, 1), 128, 0, {"buffer": x}, {"buffer": s}, {"i32": N})

    def softmax(self, x, y, M, N):
        self.launch(self.kernel("rows.cu", "softmax"), (M, 1, 1), 128, 0, {"buffer": x}, {"buffer": y}, {"i32": N})


def boxes(buffer, rows, columns, box):
    """A tensor map of f16, boxes of 64 columns, 128 bytes swizzled."""
    return {"tensor_map": {"buffer": buffer, "tensorDataType": 6, "tensorRank": 2, "globalDim": [columns, rows],
                           "globalStrides": [columns * 2], "boxDim": [64, box], "swizzle": 3, "l2Promotion": 2}}


def case(target, name, table=CASES):
    def add(fn):
        table[name] = (target, fn)
        return fn
    return add


# ---- the graphs ------------------------------------------------------------------------------------------------------

def layers(g, product, M, N1, N2, K):
    """x → h (product) → g (bias, ReLU) → p (product) → y (residual)"""
    g.buffer("x", M, K, "input")
    g.buffer("w1", N1, K, "weight", lo=-.2, hi=.2)
    g.buffer("h", M, N1, "intermediate")
    g.buffer("b", 1, N1, "weight", "f32")
    g.buffer("g", M, N1, "intermediate")
    g.buffer("w2", N2, N1, "weight", lo=-.2, hi=.2)
    g.buffer("p", M, N2, "intermediate")
    g.buffer("r", M, N2, "input")
    product(0, "x", "w1", "h", M, N1, K)
    g.bias_relu("h", "b", "g", M, N1)
    product(1, "g", "w2", "p", M, N2, N1)


@case("sm_80", "multistage-80")
def _(g):
    """Three stages, tiles of 64 x 64; behind the second product a residual and the sums of the rows."""
    layers(g, lambda i, *a: g.multistage(*a, 64, 64, 3), 128, 256, 128, 128)
    g.buffer("y", 128, 128, "output")
    g.buffer("s", 1, 128, "output", "f32")
    g.residual("p", "r", "y", .5, 128, 128)
    g.row_sum("y", "s", 128, 128)


@case("sm_90a", "specialised-90")
def _(g):
    """Four stages, tiles of 128 x 128, five and four rounds deep; behind the second product a residual and softmax."""
    layers(g, lambda i, *a: g.specialised(*a, 128, 4), 256, 256, 128, 320)
    g.buffer("s", 256, 128, "intermediate")
    g.buffer("y", 256, 128, "output")
    g.residual("p", "r", "s", .5, 256, 128)
    g.softmax("s", "y", 256, 128)


@case("sm_90a", "specialised-persistent-90")
def _(g):
    """Three blocks for 10 tiles of 128 x 64, three rounds each on a ring of four; three for four tiles, five rounds."""
    layers(g, lambda i, *a: g.specialised(*a, 64, 4, 3), 256, 320, 128, 192)
    g.buffer("y", 256, 128, "output")
    g.buffer("s", 1, 256, "output", "f32")
    g.residual("p", "r", "y", .5, 256, 128)
    g.row_sum("y", "s", 256, 128)


@case("sm_90a", "specialised-cluster-90")
def _(g):
    """Clusters of two blocks that share their part of B; four tiles, six rounds deep, and two."""
    layers(g, lambda i, *a: g.specialised(*a, 64, 4, cluster=2), 256, 128, 64, 384)
    g.buffer("y", 256, 64, "output")
    g.buffer("s", 1, 256, "output", "f32")
    g.residual("p", "r", "y", .5, 256, 64)
    g.row_sum("y", "s", 256, 64)


def sized(product):
    def fill(g, M, N, K):
        """One product and what goes into it."""
        g.buffer("x", M, K, "input")
        g.buffer("w1", N, K, "weight", lo=-.2, hi=.2)
        g.buffer("h", M, N, "intermediate")
        g.buffer("b", 1, N, "weight", "f32")
        g.buffer("g", M, N, "intermediate")
        g.buffer("r", M, N, "input")
        g.buffer("y", M, N, "output")
        product(g, "x", "w1", "h", M, N, K)
        g.bias_relu("h", "b", "g", M, N)
        g.residual("g", "r", "y", .5, M, N)
    return fill


case("sm_80", "multistage-80", SIZED)(sized(lambda g, *a: g.multistage(*a, 128, 128, 4)))
case("sm_90a", "specialised-90", SIZED)(sized(lambda g, *a: g.specialised(*a, 128, 4)))
case("sm_90a", "specialised-persistent-90", SIZED)(sized(lambda g, *a: g.specialised(*a, 128, 4, 66)))


# ---- written ---------------------------------------------------------------------------------------------------------

def nvcc():
    return os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "nvcc")


def compiled(source, entry, defines, target):
    """The PTX of one entry of a file, without comments."""
    with tempfile.TemporaryDirectory() as tmp:
        ptx = os.path.join(tmp, "a.ptx")
        subprocess.run([nvcc(), "-ptx", "-std=c++17", "-arch=" + target.replace("sm", "compute"), "-diag-suppress=177",
                        *(f"-D{k}={v}" for k, v in defines.items()), "-o", ptx, os.path.join(HERE, source)], check=True)
        with open(ptx, encoding="utf-8") as f:
            done = f.read()
    bare = re.sub(r"^//.*\n|[ \t]*// .*$", "", done, flags=re.M)
    head, *entries = re.split(r"^(?=\.visible \.entry )", bare, flags=re.M)
    found = [e for e in entries if e.startswith(f".visible .entry {entry}(")]
    assert len(found) == 1, (entry, len(found))
    return re.sub(r"\n\s*\n+", "\n", re.sub(r"[ \t]+$", "", head + found[0], flags=re.M)).strip() + "\n"


def made(name, table=CASES, sizes=()):
    """{file name: content} of the graph's folder."""
    target, fn = table[name]
    g = Graph(name, target)
    fn(g, *sizes)
    files = {file: compiled(*how, target) for file, how in g.sources.items()}
    files["graph.json"] = text({"dovetail": 1, "name": name, "modules": g.modules, "buffers": g.buffers,
                                "launches": g.launches})
    return files


def write(folder, files):
    os.makedirs(folder, exist_ok=True)
    for file, content in files.items():
        with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
            f.write(content)


def main():
    args = sys.argv[1:]
    version = ""
    if os.path.exists(nvcc()):
        version = subprocess.run([nvcc(), "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    if f"release {RELEASE}," not in version:
        print(f"{nvcc()} is {version.strip() or 'not there'}; what is committed comes from {RELEASE}")
        return 77 if args[:1] == ["--check"] else 1
    if args[:1] == ["--size"]:
        for name in SIZED:
            write(os.path.join(args[1], name), made(name, SIZED, [int(n) for n in args[2:5]]))
            print(os.path.join(args[1], name))
        return 0
    check = args[:1] == ["--check"]
    bad = 0
    for name in args[check:] or CASES:
        folder, files = os.path.join(HERE, "..", name), made(name)
        if not check:
            write(folder, files)
        for file, content in files.items():
            with open(os.path.join(folder, file), encoding="utf-8") as f:
                if f.read() != content:
                    print(f"{name}/{file} differs from what this nvcc makes")
                    bad = 1
        print(name)
    return bad


if __name__ == "__main__":
    sys.exit(main())
