#!/usr/bin/env python3
"""make.py [NAME…]: the graphs ../triton-*, compiled from kernels.py by the Triton that is installed.

    make.py              writes graph.json and the kernels' PTX
    make.py --check      compiles anew and says what differs from what is there; exit status 1 where something does

What is committed comes from the release that `RELEASE` names. Needs Triton and numpy; no GPU and no ptxas: kernels are
captured for a named target (docs/PYTHON.md). PTX has no line information (TRITON_DISABLE_LINE_INFO), since the path of
this folder would stand in it. What each block reads and writes is in footprints.py of each graph's folder, worked out
by hand from kernels.py; what the outputs are, in values.py here, by numpy.
"""
import os
import re
import sys

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"

import numpy  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "../../../client/python")]

import dovetail.triton  # noqa: E402
from document import text  # noqa: E402
import kernels as k  # noqa: E402
import triton  # noqa: E402

RELEASE = "3.9"
CASES = {}
BYTES = {"float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float32": 4, "int8": 1, "int32": 4}
KIND = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "int8": "i8", "int32": "i32"}


class Type(str):
    """An element type's name, as torch and numpy have them."""
    itemsize = property(lambda self: BYTES[self])
    is_floating_point = property(lambda self: "float" in self)


class Tensor:
    """A tensor without memory: a buffer of the graph."""
    device, order = "meta", []

    def __init__(self, name, shape, dtype="float16", role="input", **more):
        self.name, self.shape, self.dtype, self.role, self.more = name, list(shape), Type(dtype), role, more
        self.nbytes = self.dtype.itemsize
        for n in shape:
            self.nbytes *= n

    def data_ptr(self):
        if self not in Tensor.order:
            Tensor.order.append(self)
        return 0

    def stride(self):
        return [int(numpy.prod(self.shape[i + 1:])) for i in range(len(self.shape))]

    def tiles(self, *box):
        from triton.tools.tensor_descriptor import TensorDescriptor
        return TensorDescriptor(self, self.shape, self.stride(), list(box))


def case(target, name):
    def add(fn):
        CASES[name] = (target, fn)
        return fn
    return add


def between(lo, hi, seed, dtype):
    return {"fill": {"uniform": [lo, hi], "dtype": KIND[dtype], "seed": seed}}


class Maker:
    """Tensors by name: inputs with fills of seeds 1, 2, …"""

    def __init__(self):
        self.seed = 0

    def __call__(self, name, *shape, dtype="float16", role="input", lo=-1.0, hi=1.0, **more):
        if role in ("input", "weight") and not more:
            self.seed += 1
            more = between(lo, hi, self.seed, dtype)
        return Tensor(name, shape, dtype, role, **more)

    def weight(self, name, *shape):
        return self(name, *shape, role="weight", lo=-.2, hi=.2)

    def inner(self, name, *shape, dtype="float16"):
        return Tensor(name, shape, dtype, "intermediate")

    def out(self, name, *shape, dtype="float16"):
        return Tensor(name, shape, dtype, "output")


# ---- the graphs ------------------------------------------------------------------------------------------------------

@case("sm_80", "triton-mlp-80")
def _(t):
    """Two products with a GELU and a residual, on the tensor cores of sm_80 (mma, cp.async)."""
    x, w1, w2 = t("x", 128, 128), t.weight("w1", 128, 256), t.weight("w2", 256, 128)
    h, g, p, y = t.inner("h", 128, 256), t.inner("g", 128, 256), t.inner("p", 128, 128), t.out("y", 128, 128)
    tile = dict(BM=64, BN=64, BK=32, num_warps=4, num_stages=3)
    k.matmul[(2, 4)](x, w1, h, 128, 256, 128, **tile)
    k.gelu[(32,)](h, g, 128 * 256, BLOCK=1024)
    k.matmul[(2, 2)](g, w2, p, 128, 128, 256, **tile)
    k.residual[(16,)](p, x, y, 128 * 128, BLOCK=1024)


@case("sm_90", "triton-mlp-90")
def _(t):
    """The same by wgmma; the first product by copies of tensors, its result too, the second by pointers."""
    x, w1, w2 = t("x", 128, 128), t.weight("w1", 128, 256), t.weight("w2", 256, 128)
    b = t("b", 256, role="weight", dtype="float32")
    h, g, p, y = t.inner("h", 128, 256), t.inner("g", 128, 256), t.inner("p", 128, 128), t.out("y", 128, 128)
    k.matmul_tma[(2, 2)](x.tiles(64, 64), w1.tiles(64, 128), h.tiles(64, 128), 128, BM=64, BN=128, BK=64, num_warps=4)
    k.bias_gelu[(32,)](h, b, g, 128 * 256, 256, BLOCK=1024)
    k.matmul[(2, 2)](g, w2, p, 128, 128, 256, BM=64, BN=64, BK=64, num_warps=4)
    k.residual[(16,)](p, x, y, 128 * 128, BLOCK=1024)


@case("sm_90", "triton-epilogue-90")
def _(t):
    """A product by wgmma whose result goes through shared memory and is stored by vectors; rows of blocks behind it."""
    x, w, b = t("x", 512, 64), t.weight("w", 64, 512), t("b", 512, role="weight", dtype="float32")
    h, y = t.inner("h", 512, 512), t.out("y", 512, 512)
    k.matmul[(8, 8)](x, w, h, 512, 512, 64, BM=64, BN=64, BK=64, num_warps=4)
    k.bias_relu[(256,)](h, b, y, 512 * 512, 512, BLOCK=1024)


@case("sm_90", "triton-loads-90")
def _(t):
    """The same, the operands by copies of tensors."""
    x, w, b = t("x", 512, 64), t.weight("w", 64, 512), t("b", 512, role="weight", dtype="float32")
    h, y = t.inner("h", 512, 512), t.out("y", 512, 512)
    k.matmul_loads[(8, 8)](x.tiles(64, 64), w.tiles(64, 64), h, 512, 64, BM=64, BN=64, BK=64, num_warps=4)
    k.bias_relu[(256,)](h, b, y, 512 * 512, 512, BLOCK=1024)


@case("sm_90", "triton-beside-90")
def _(t):
    """Two products of the same rows, operands and results by copies of tensors; their sum."""
    x, w1, w2 = t("x", 128, 128), t.weight("w1", 128, 256), t.weight("w2", 128, 256)
    h, g, y = t.inner("h", 128, 256), t.inner("g", 128, 256), t.out("y", 128, 256)
    for w, to in (w1, h), (w2, g):
        k.matmul_tma[(2, 2)](x.tiles(64, 64), w.tiles(64, 128), to.tiles(64, 128), 128, BM=64, BN=128, BK=64,
                             num_warps=4)
    k.residual[(32,)](h, g, y, 128 * 256, BLOCK=1024)


@case("sm_90", "triton-staged-90")
def _(t):
    """Products that store by copies of tensors, rows that are no whole tiles: persistent ones with a bias and ReLU
    behind them, and two boxes a tile with a residual."""
    x, w1, w2 = t("x", 200, 128), t.weight("w1", 128, 256), t.weight("w2", 256, 256)
    b, r = t("b", 256, role="weight", dtype="float32"), t("r", 200, 256)
    h, g, p, y = t.inner("h", 200, 256), t.inner("g", 200, 256), t.inner("p", 200, 256), t.out("y", 200, 256)
    k.matmul_persistent[(5,)](x.tiles(64, 64), w1.tiles(64, 64), h.tiles(64, 64), 200, 256, 128, BM=64, BN=64, BK=64,
                              GROUP=2, num_warps=4)
    k.bias_relu[(50,)](h, b, g, 200 * 256, 256, BLOCK=1024)
    k.matmul_tma[(4, 2)](g.tiles(64, 64), w2.tiles(64, 128), p.tiles(64, 128), 256, BM=64, BN=128, BK=64, num_warps=4)
    k.residual[(50,)](p, r, y, 200 * 256, BLOCK=1024)


@case("sm_90", "triton-own-90")
def _(t):
    """Descriptors that the kernel makes for itself; rows behind it."""
    x, w = t("x", 128, 128), t("w", 128, 256, role="weight")
    s, y = t.inner("s", 128, 256), t.out("y", 128, 256)
    k.matmul_own[(2, 2)](x, w, s, 128, 256, 128, BM=64, BN=128, BK=64, num_warps=4)
    k.softmax[(128,)](s, y, 256, BLOCK=256, num_warps=4)


@case("sm_90", "triton-persistent-90")
def _(t):
    """Five blocks for 12 tiles, then rows, then three blocks for eight tiles."""
    x, w1, w2 = t("x", 192, 128), t.weight("w1", 128, 256), t.weight("w2", 256, 256)
    r, w = t("r", 192, 256), t("w", 256, role="weight", dtype="float32")
    h, s, n, y = t.inner("h", 192, 256), t.out("s", 192, 256), t.inner("n", 192, 256), t.out("y", 192, 256)
    k.matmul_persistent[(5,)](x.tiles(64, 64), w1.tiles(64, 64), h.tiles(64, 64), 192, 256, 128, BM=64, BN=64, BK=64,
                              GROUP=2, num_warps=4)
    k.add_rms_norm[(192,)](h, r, w, s, n, 256, 1e-5, BLOCK=256, num_warps=4)
    k.matmul_persistent[(3,)](n.tiles(64, 64), w2.tiles(64, 128), y.tiles(64, 128), 192, 256, 256, BM=64, BN=128, BK=64,
                              GROUP=2, num_warps=4)


@case("sm_80", "triton-grouped-80")
def _(t):
    """Four groups of rows, whose ends are constant content; then a gated unit."""
    x, w = t("x", 160, 64), t("w", 4, 64, 128, role="weight", lo=-.3, hi=.3)
    first = t("first", 5, dtype="int32", constant=True, data=numpy.array([0, 48, 64, 128, 160], "<i4"))
    h, y = t.inner("h", 160, 128), t.out("y", 160, 64)
    k.matmul_grouped[(6,)](x, w, h, first, 128, 64, GROUPS=4, BM=32, BN=64, BK=32, num_warps=4)
    k.silu_mul[(160, 1)](h, y, 64, BLOCK=64, num_warps=1)


def attend(t, tma):
    q, kk, v = t("q", 128, 128), t("k", 128, 128), t("v", 128, 128)
    cos, sin = t("cos", 128, 32, dtype="float32"), t("sin", 128, 32, dtype="float32")
    w = t.weight("w", 128, 128)
    q1, k1, o, y = t.inner("q1", 128, 128), t.inner("k1", 128, 128), t.inner("o", 128, 128), t.out("y", 128, 128)
    k.rotary[(128, 2)](q, cos, sin, q1, HEADS=2, HALF=32, num_warps=1)
    k.rotary[(128, 2)](kk, cos, sin, k1, HEADS=2, HALF=32, num_warps=1)
    if tma:
        k.attention_tma[(2, 2)](q1.tiles(64, 64), k1.tiles(64, 64), v.tiles(64, 64), o.tiles(64, 64), 128, .125, D=64,
                                BM=64, BN=64, num_warps=4)
    else:
        k.attention[(2, 2)](q1, k1, v, o, 128, .125, HEADS=2, D=64, BM=64, BN=32, num_warps=4)
    k.matmul[(2, 2)](o, w, y, 128, 128, 128, BM=64, BN=64, BK=64 if tma else 32, num_warps=4)


@case("sm_80", "triton-attention-80")
def _(t):
    attend(t, False)


@case("sm_90", "triton-attention-90")
def _(t):
    attend(t, True)


@case("sm_80", "triton-int8-80")
def _(t):
    x = t("x", 128, 128, dtype="int8", lo=-128, hi=128)
    w = t("w", 128, 128, dtype="int8", lo=-128, hi=128, role="weight")
    sx = t("sx", 128, dtype="float32", lo=.001, hi=.002)
    sw = t("sw", 128, dtype="float32", lo=.001, hi=.02, role="weight")
    h, y = t.inner("h", 128, 128), t.out("y", 128, 128)
    k.matmul_int8[(2, 2)](x, w, h, sx, sw, 128, 128, 128, BM=64, BN=64, BK=64, num_warps=4)
    k.gelu[(16,)](h, y, 128 * 128, BLOCK=1024)


@case("sm_90", "triton-fp8-90")
def _(t):
    """Eight bits a number, e4m3: every pattern but the NaNs 0x7F and 0xFF."""
    codes = lambda n, seed: (numpy.random.default_rng(seed).integers(0, 112, n) + 128 *
                             numpy.random.default_rng(seed + 1).integers(0, 2, n)).astype("u1")
    x = t("x", 128, 128, dtype="float8_e4m3fn", data=codes(16384, 1))
    w = t("w", 128, 128, dtype="float8_e4m3fn", data=codes(16384, 3), role="weight")
    b, h, y = t("b", 128, dtype="float32"), t.inner("h", 128, 128), t.out("y", 128, 128)
    k.matmul_fp8[(2, 2)](x, w, h, .001, 128, 128, 128, BM=64, BN=64, BK=64, num_warps=4)
    k.bias_gelu[(16,)](h, b, y, 128 * 128, 128, BLOCK=1024)


@case("sm_100", "triton-norms-100")
def _(t):
    """What needs no tensor memory, for sm_100."""
    x, r = t("x", 64, 200, dtype="bfloat16"), t("r", 64, 200, dtype="bfloat16")
    w, w2, b2 = (t(n, 200, dtype="float32", role="weight") for n in ("w", "w2", "b2"))
    n1, g, n2 = (t.inner(n, 64, 200, dtype="bfloat16") for n in ("n1", "g", "n2"))
    s, y = (t.out(n, 64, 200, dtype="bfloat16") for n in "sy")
    k.add_rms_norm[(64,)](x, r, w, s, n1, 200, 1e-5, BLOCK=256, num_warps=2)
    k.gelu[(25,)](n1, g, 12800, BLOCK=512)
    k.layer_norm[(64,)](g, w2, b2, n2, 200, 1e-5, BLOCK=256, num_warps=2)
    k.softmax[(64,)](n2, y, 200, BLOCK=256, num_warps=2)


@case("sm_90", "triton-rows-90")
def _(t):
    """Twelve programs that go over 192 rows: their rounds do not need each other."""
    x, y = t("x", 192, 256), t.out("y", 192, 256)
    k.softmax_rows[(12,)](x, y, 192, 256, BLOCK=256, num_warps=4)


# ---- written ---------------------------------------------------------------------------------------------------------

def made(name):
    """{file name: content} of the graph's folder."""
    target, fn = CASES[name]
    Tensor.order.clear()
    with dovetail.triton.capture(target, name=name, data="none") as g:
        fn(Maker())
    files, names = {}, {b: t.name for b, t in zip(g.buffers, Tensor.order)}
    assert len(names) == len(Tensor.order), (list(g.buffers), [t.name for t in Tensor.order])
    doc = {"dovetail": 1, "name": name, "modules": {}, "buffers": {}, "launches": []}
    for m, what in g.document["modules"].items():
        doc["modules"][m] = {"file": m + ".ptx"}
        bare = re.sub(r"^//.*\n|\s*// .*$", "", what["ptx"], flags=re.M)
        files[m + ".ptx"] = re.sub(r"[ \t]+$", "", bare, flags=re.M)
    for b, t in zip(list(g.buffers), Tensor.order):
        doc["buffers"][t.name] = {"bytes": g.buffers[b]["bytes"], "role": t.role,
                                  **{k: v for k, v in t.more.items() if k != "data"}}
        if "data" in t.more:
            files[t.name + ".bin"] = t.more["data"].tobytes()
            doc["buffers"][t.name]["data"] = {"file": t.name + ".bin"}
    for b in list(g.buffers)[len(Tensor.order):]:  # scratch memory
        names[b] = b
        doc["buffers"][b] = g.buffers[b]
    for step in g.launches:
        for a in step["args"]:
            a = a.get("tensor_map", a)
            if "buffer" in a:
                a["buffer"] = names[a["buffer"]]
        doc["launches"].append(step)
    files["graph.json"] = text(doc)
    return files


def main():
    args = sys.argv[1:]
    check = args[:1] == ["--check"]
    if ".".join(triton.__version__.split(".")[:2]) != RELEASE:
        sys.exit(f"Triton {triton.__version__}: what is committed comes from {RELEASE}")
    bad = 0
    for name in args[check:] or CASES:
        folder = os.path.join(HERE, "..", name)
        for file, content in made(name).items():
            content = content if isinstance(content, bytes) else content.encode()
            path = os.path.join(folder, file)
            if not check:
                os.makedirs(folder, exist_ok=True)
                with open(path, "wb") as f:
                    f.write(content)
            elif not os.path.exists(path) or open(path, "rb").read() != content:
                print(f"{name}/{file} differs from what this Triton makes")
                bad = 1
        print(name)
    return bad


if __name__ == "__main__":
    sys.exit(main())
