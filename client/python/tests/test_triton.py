"""Triton's kernels on the software device, and captured. Needs Triton (`./dev triton` fetches its releases)."""
import ctypes
import os
import re
import struct
import subprocess
import sys

import pytest

triton = pytest.importorskip("triton", reason="no Triton in this python: ./dev triton has it")
numpy = pytest.importorskip("numpy")

import triton.language as tl  # noqa: E402

import dovetail  # noqa: E402
import dovetail.triton  # noqa: E402
from dovetail import cuda  # noqa: E402
from dovetail.triton import driver, params, versions  # noqa: E402

VERSION = tuple(int(n) for n in triton.__version__.split(".")[:2])
HIDDEN = 0 if VERSION < (3, 3) else 1 if VERSION < (3, 5) else 2


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.jit
def scale(x, f, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, i < n) * f, i < n)


@triton.jit
def scalars(out, a, b, c, d, e, nothing, one):
    if nothing is None:
        tl.store(out, a.to(tl.float64))
    tl.store(out + 1, b.to(tl.float64))
    tl.store(out + 2, c.to(tl.float64))
    tl.store(out + 3, d.to(tl.float64))
    tl.store(out + 4, e.to(tl.float64))
    tl.store(out + 5, one + 0.0)


@triton.jit
def matmul(a, b, c, N: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, K, BK):
        at = tl.load(a + m[:, None] * K + (i + k)[None, :])
        bt = tl.load(b + (i + k)[:, None] * N + n[None, :])
        acc += tl.dot(at, bt)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, i < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + i, v / tl.sum(v, 0), i < n)


@triton.jit
def gather(x, index, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + tl.load(index + i, i < n), i < n), i < n)


@triton.jit
def one_more(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) + 1, i < n)


@triton.jit
def outside(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, 1.0)  # no mask


@triton.jit
def races(x, BLOCK: tl.constexpr):
    tl.store(x, tl.program_id(0))


@triton.jit
def described(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    d = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    e = tl.make_tensor_descriptor(y, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    e.store([tl.program_id(0) * BM, 0], d.load([tl.program_id(0) * BM, 0]) * 2)


def array(v):
    return cuda.Array(v.shape, str(v.dtype)).set(v.tobytes())


def read(a):
    return numpy.frombuffer(a.bytes(), a.dtype).reshape(a.shape)


@pytest.fixture(scope="module")
def soft():
    return dovetail.triton.software("h200")


@pytest.fixture
def floats(soft):
    rng = numpy.random.default_rng(3)
    return lambda *shape, dtype="float32": rng.standard_normal(shape).astype(dtype)


# ---- on the software device ------------------------------------------------------------------------------------------

def test_add(floats):
    x, y, z = floats(1000), floats(1000), cuda.Array(1000, "float32")
    add[(triton.cdiv(1000, 256),)](array(x), array(y), z, 1000, BLOCK=256)
    assert (read(z) == x + y).all()


def test_scalars(soft):
    out = cuda.Array(6, "float64")
    for a, b in (-7, 2 ** 40 + 1), (16, -2 ** 40), (2 ** 31, 3):
        scalars[(1,)](out, a, b, 2.5, True, 2 ** 63 + 2 ** 62, None, 1)
        assert read(out).tolist() == [a, b, 2.5, 1, float(2 ** 63 + 2 ** 62), 1]


def test_softmax(floats):
    """a reduction over warps, through shared memory"""
    x, y = floats(5, 300), cuda.Array((5, 300), "float32")
    softmax[(5,)](array(x), y, 300, BLOCK=512, num_warps=8)
    e = numpy.exp(x - x.max(1, keepdims=True))
    assert numpy.allclose(read(y), e / e.sum(1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("model, shape", [("h200", (64, 64, 32)), ("h200", (128, 128, 64)), ("a100", (64, 64, 32))])
def test_matmul(floats, model, shape):
    """tensor cores (wgmma on Hopper), pipelined copies, more than 48 KB of shared memory"""
    m, n, k = 128, 128, 256
    soft = dovetail.triton.software(model)
    try:
        a, b, c = floats(m, k, dtype="float16"), floats(k, n, dtype="float16"), cuda.Array((m, n), "float32")
        bm, bn, bk = shape
        matmul[(m // bm, n // bn)](array(a), array(b), c, N=n, K=k, BM=bm, BN=bn, BK=bk, num_stages=3)
        assert numpy.allclose(read(c), a.astype("f4") @ b.astype("f4"), atol=1e-2)
        assert soft.arch == {"h200": 90, "a100": 80}[model]
    finally:
        dovetail.triton.software("h200")


def test_cluster(floats):
    x, y, z = floats(2048), floats(2048), cuda.Array(2048, "float32")
    with dovetail.triton.capture() as g:
        add[(4,)](array(x), array(y), z, 2048, BLOCK=512, num_ctas=2)
    assert (read(z) == x + y).all()
    assert (g.launches[0]["cluster"], g.launches[0]["grid"]) == ([2, 1, 1], [8, 1, 1])


class Host:
    """a tensor of the host, as torch's on the CPU"""
    def __init__(self, v):
        self.v, self.dtype, self.nbytes = v, str(v.dtype), v.nbytes

    def data_ptr(self):
        return self.v.ctypes.data


def test_host_tensors(floats):
    x, z = floats(500), numpy.zeros(500, "float32")
    add[(4,)](Host(x), Host(x), Host(z), 500, BLOCK=128)
    assert (z == x + x).all()
    with pytest.raises(dovetail.triton.Fault, match="outside"):
        add[(4,)](Host(x), Host(x), Host(z[:100]), 500, BLOCK=128)
    dovetail.triton.reset()
    add[(4,)](Host(x), Host(x), Host(z), 500, BLOCK=128)


def test_autotune(floats, soft):
    """by the model's time, which is the same every time; only the launch itself is captured"""
    if VERSION < (3, 2):
        pytest.importorskip("torch", reason="the autotuner of Triton 3.0 and 3.1 needs torch")
    configs = [triton.Config({"BLOCK": 64}, num_warps=1), triton.Config({"BLOCK": 1024}, num_warps=8)]
    tuned = triton.autotune(configs=configs, key=["n"])(one_more)
    x, y = floats(5000), cuda.Array(5000, "float32")
    with dovetail.triton.capture() as g:
        tuned[lambda m: (triton.cdiv(5000, m["BLOCK"]),)](array(x), y, 5000)
    assert (read(y) == x + 1).all() and len(g.launches) == 1
    times = [soft.bench(lambda: tuned[lambda m: (triton.cdiv(5000, m["BLOCK"]),)](array(x), y, 5000)) for _ in "ab"]
    assert times[0] == times[1] > 0
    with pytest.raises(dovetail.Error, match="cannot be timed without a device"):
        with dovetail.triton.capture("sm_90"):
            tuned.cache.clear()
            tuned[(1,)](array(x), y, 5001)


def test_ptx_is_not_taken_for_a_cubin(soft):
    """What is kept in Triton's cache has a key of its own: with a GPU, nothing of it is found."""
    backend = triton.backends.backends["nvidia"].compiler(soft.get_current_target())
    ours = backend.hash()
    before = driver._active()
    driver.restore(None)
    try:
        theirs = backend.hash()
    finally:
        driver.restore(before)
    assert ours == theirs + "-dovetail"


# ---- faults ----------------------------------------------------------------------------------------------------------

def line_of(fn, words):
    import inspect
    text, first = inspect.getsourcelines(fn.fn)
    return first + next(i for i, t in enumerate(text) if words in t)


def test_faults(soft):
    with pytest.raises(dovetail.triton.Fault) as e:
        outside[(4,)](cuda.Array(100, "float32"), 100, BLOCK=64)
    assert (e.value.code, e.value.kernel, e.value.kind) == ("out-of-bounds", "outside", "")
    assert e.value.block == (1, 0, 0)
    assert e.value.source == f"{__file__}:{line_of(outside, 'no mask')}"
    assert e.value.source in str(e.value)
    with pytest.raises(dovetail.Error):
        cuda.Array(4).set(b"1234")  # nothing more can be done there
    dovetail.triton.reset()
    cuda.Array(4).set(b"1234")


@pytest.mark.parametrize("check, kind, code", [("race", "race", "race"), ("uninit", "uninit", "uninitialised")])
def test_checks(floats, check, kind, code):
    x, z = floats(1000), cuda.Array(1000, "float32")
    races[(4,)](cuda.Array(4, "int32"), BLOCK=64)  # nobody looks
    dovetail.triton.software("h200", check)
    try:
        with pytest.raises(dovetail.triton.Fault) as e:
            if check == "race":
                races[(4,)](cuda.Array(4, "int32"), BLOCK=64)
            else:
                add[(4,)](cuda.Array(1000, "float32"), array(x), z, 1000, BLOCK=256)
        assert (e.value.kind, e.value.code) == (kind, code) and e.value.source.startswith(__file__ + ":")
    finally:
        dovetail.triton.reset()
        dovetail.triton.software("h200")
    with pytest.raises(dovetail.UsageError, match="checks are"):
        dovetail.triton.software("h200", "nonsense")
    dovetail.triton.software("h200")


# ---- captured --------------------------------------------------------------------------------------------------------

def run(graph, tmp_path, **how):
    return dovetail.Client(local=True, device="soft", cache=tmp_path / "c.db").run(graph, dump=True, **how)


def test_capture_gives_the_programs_bytes(floats, tmp_path):
    x, y, z = (array(floats(1000)) for _ in "xyz")
    w = cuda.Array(1000, "float32").set(bytes(4000))
    index = array(numpy.arange(1000, dtype="int32")[::-1].copy())
    with dovetail.triton.capture(data="all") as g:
        add[(4,)](x, y, z, 1000, BLOCK=256)
        scale[lambda m: (triton.cdiv(1000, m["BLOCK"]),)](z, 0.1, 1000, BLOCK=128)
        gather[(8,)](z, index, w, 1000, BLOCK=128)
        softmax[(1,)](w, w, 1000, BLOCK=1024)
        add[(4,)](x, w, z, 1000, BLOCK=256)
    assert [s["name"] for s in g.launches] == ["add", "scale", "gather", "softmax", "add-2"]
    assert list(g.document["modules"]) == ["add", "scale", "gather", "softmax"]
    assert set(g.buffers) == {"x", "y", "z", "index", "y-2"} and g.name == "triton"
    out = run(g, tmp_path).outputs
    assert (out["z"], out["y-2"]) == (z.bytes(), w.bytes())
    g.roles(**{"x": "input", "y": "input", "index": "input", "y-2": "intermediate"})
    client = dovetail.Client(local=True, device="soft", cache=tmp_path / "c.db")
    plan = client.optimize(g)
    assert plan.kept and plan.document["verified"]["bitwise"]
    assert client.run(plan, dump=True).outputs == {"z": z.bytes()}


def test_what_is_recorded(soft, floats):
    x, z = array(floats(1000)), cuda.Array(1000, "float32")
    with dovetail.triton.capture() as g:
        add[(4, 1)](x, x, z, 1000, BLOCK=256, num_warps=2)
        add[(4,)](x, x, z, 992, BLOCK=256, num_warps=2)
    first, second = g.triton
    assert first.signature == {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32"}
    assert first.divisible == {"x": 16, "y": 16, "z": 16} and second.divisible == {**first.divisible, "n": 16}
    assert (first.constants["BLOCK"], first.num_warps, first.hidden) == (256, 2, HIDDEN)
    step = g.launches[0]
    assert (step["block"], step["grid"], step["shared"]) == ([64, 1, 1], [4, 1, 1], 0)
    assert step["args"] == [{"buffer": "x"}, {"buffer": "x"}, {"buffer": "z"}, {"i32": 1000}] + HIDDEN * [{"u64": 0}]
    assert step["module"] == "add" and g.launches[1]["module"] == "add-2"
    assert g.align == {"x": 16, "z": 16}
    assert g.buffers["x"]["fill"]["dtype"] == "f32" and "data" not in g.buffers["x"]


@pytest.mark.skipif(not hasattr(tl, "make_tensor_descriptor"), reason="this Triton has no descriptors on the device")
def test_scratch_behind_a_hidden_pointer(soft, floats, tmp_path):
    """Descriptors that a kernel makes lie in memory of the grid, which Triton's caller brings."""
    x, y = array(floats(64, 64)), cuda.Array((64, 64), "float32")
    with dovetail.triton.capture(data="all") as g:
        described[(4,)](x, y, 64, 64, BM=16, BN=64)
    assert (read(y) == 2 * read(x)).all()
    step = g.launches[0]
    assert step["args"][4:] == [{"buffer": "scratch-1"}] + (HIDDEN - 1) * [{"u64": 0}]
    assert g.buffers["scratch-1"]["role"] == "intermediate" and g.buffers["scratch-1"]["bytes"] % (4 * 256) == 0
    assert run(g, tmp_path).outputs["y"] == y.bytes()


class Described:
    """an array as descriptors want it: element types have a size"""
    def __init__(self, of): self.of, self.dtype, self.nbytes = of, numpy.dtype(of.dtype), of.nbytes

    def data_ptr(self): return self.of.data_ptr()


@triton.jit
def from_host(x, y, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM
    y.store([m, 0], x.load([m, 0]) * 2)


@pytest.mark.parametrize("model", ["h200", "a100"])
@pytest.mark.skipif(VERSION < (3, 4), reason="this Triton does not say how it wants tensor maps")
def test_descriptors_of_the_host(floats, tmp_path, model):
    """Tensor maps where there are such copies, pointers with shape and strides elsewhere; rows and columns beyond the
    end are zero, and not written. 100 columns: strides of 208 bytes."""
    from triton.tools.tensor_descriptor import TensorDescriptor
    dovetail.triton.software(model)
    try:
        x, y = array(floats(60, 104, dtype="float16")), array(floats(60, 104, dtype="float16"))
        before = read(y).copy()
        d = [TensorDescriptor(Described(t), [60, 100], [104, 1], [16, 128]) for t in (x, y)]
        with dovetail.triton.capture(data="all") as g:
            from_host[(4,)](*d, BM=16, BN=128)
        before[:, :100] = 2 * read(x)[:, :100]
        assert (read(y) == before).all()
        first = g.launches[0]["args"][0]
        if model == "h200":
            fields = first["tensor_map"]
            assert (fields["buffer"], fields["globalDim"], fields["globalStrides"]) == ("x", [100, 60], [208])
            assert fields["tensorDataType"] == 6 and g.launches[0]["args"][1:5] == [{"i32": 60}, {"i32": 100},
                                                                                  {"i64": 104}, {"i64": 1}]
        else:
            assert first == {"buffer": "x"} and g.launches[0]["args"][1:5] == [{"i64": 60}, {"i64": 100}, {"i64": 104},
                                                                              {"i64": 1}]
        client = dovetail.Client(local=True, device="soft" if model == "h200" else "soft:a100", cache=tmp_path / "c.db")
        assert client.run(g, dump=True).outputs["y"] == y.bytes()
        if model == "h200":
            assert g.align == {"x": 16, "y": 16}
            read_, written = client.analyze(g, maps=True).document["launches"][0]["footprints"]
            assert read_["read"][0] == [0, [[0, 200, 208, 16]]] and written["write"][3] == [3, [[9984, 10184, 208, 12]]]
    finally:
        dovetail.triton.software("h200")


def test_alignment_is_asked_for(soft, floats, tmp_path):
    x, z = array(floats(1024)), cuda.Array(1024, "float32")
    with dovetail.triton.capture() as g:
        add[(4,)](x, x, z, 1024, BLOCK=256)
    g.roles(x="input", z="output")
    plan = dovetail.Client(local=True, device="soft", cache=tmp_path / "c.db").optimize(g)
    assert plan.document["assumes"]["align"] == {"x": 16, "z": 16}
    big = cuda.Array(5000)
    with pytest.raises(dovetail.UsageError, match="x: its kernels rely on 16 bytes"):
        plan.bind({"x": dovetail.Pointer(big.data_ptr() + 4, 4096, big), "z": z})
    plan.bind({"x": x, "z": z}).close()


class View:
    """part of another tensor, as of torch: all of them lie in one storage"""
    def __init__(self, of, offset):
        self.of, self.offset, self.dtype = of, offset, of.dtype

    def data_ptr(self):
        return self.of.data_ptr() + self.offset

    def untyped_storage(self):
        of = self.of

        class Storage:
            _cdata = id(of)
            def data_ptr(self): return of.data_ptr()
            def nbytes(self): return of.nbytes
        return Storage()


def test_views_are_offsets(soft, floats, tmp_path):
    x, z = array(floats(1000)), array(floats(1000))
    with dovetail.triton.capture(data="all") as g:
        add[(2,)](View(x, 0), View(x, 2000), View(z, 1600), 500, BLOCK=256)
        scale[(8,)](z, 2.0, 1000, BLOCK=128)
    assert {n: b["bytes"] for n, b in g.buffers.items()} == {"x": 4000, "z": 4000}
    assert g.launches[0]["args"][:3] == [{"buffer": "x"}, {"buffer": "x", "offset": 2000},
                                         {"buffer": "z", "offset": 1600}]
    assert run(g, tmp_path).outputs["z"] == z.bytes()


def test_overlapping_pieces_are_one_buffer(soft, floats, tmp_path):
    """memory that only addresses describe"""
    z = array(floats(1000))

    class Part:
        dtype = "float32"
        def __init__(self, at, n): self.at, self.nbytes = at, n
        def data_ptr(self): return z.data_ptr() + self.at
    with dovetail.triton.capture(data="all") as g:
        scale[(1,)](Part(400, 2000), 3.0, 500, BLOCK=512)
        scale[(1,)](Part(0, 1000), 3.0, 250, BLOCK=256)
    assert {n: b["bytes"] for n, b in g.buffers.items()} == {"x": 2400}
    assert [s["args"][0] for s in g.launches] == [{"buffer": "x", "offset": 400}, {"buffer": "x"}]
    assert run(g, tmp_path).outputs["x"] == z.bytes()[:2400]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int32"])
def test_torch(soft, tmp_path, dtype):
    """Tensors of torch on the CPU, with views; without memory on its device `meta`."""
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, dtype)
    x, y, z = ((10 * torch.randn(1000)).to(dtype) for _ in "xyz")
    with dovetail.triton.capture(data="all") as g:
        add[(4,)](x, y, z, 1000, BLOCK=256)
        add[(4,)](x[8:], y[16:], z, 900, BLOCK=256)
    want = x + y
    want[:900] = x[8:908] + y[16:916]
    assert torch.equal(z, want)
    assert run(g, tmp_path).outputs["z"] == z.view(torch.uint8).numpy().tobytes()
    with dovetail.triton.capture("sm_80") as g:
        x, z = torch.empty(1000, device="meta"), torch.empty(1000, device="meta")
        add[(2,)](x[8:], x, z[500:], 500, BLOCK=256)
    assert g.launches[0]["args"][:3] == [{"buffer": "x", "offset": 32}, {"buffer": "x"},
                                         {"buffer": "z", "offset": 2000}]


def test_indices_are_data(soft, floats):
    x, y = array(floats(100)), cuda.Array(100, "float32")
    index = array(numpy.arange(100, dtype="int64"))
    for data, there in ("indices", {"index"}), ("none", set()), ("all", {"x", "index", "y"}):
        with dovetail.triton.capture(data=data) as g:
            gather[(1,)](x, index, y, 100, BLOCK=128)
        assert {n for n, b in g.buffers.items() if "data" in b} == there
    with pytest.raises(dovetail.UsageError):
        dovetail.triton.capture(data="some")


class Meta:
    """a tensor without memory, as torch's on the device "meta\""""
    dtype, device = "float32", "meta"

    def __init__(self, n): self.nbytes = 4 * n

    def data_ptr(self): return 0


def test_without_a_device(tmp_path):
    """In a process that has no driver at all: compiled for a named target, optimised by a worker."""
    script = f"""if True:
        import sys
        sys.path[:0] = {sys.path!r}
        import os, triton, dovetail, dovetail.triton
        import test_triton as t
        with dovetail.triton.capture(target="sm_80", name="mine") as g:
            x, y, z = (t.Meta(4096) for _ in "xyz")
            t.add[(16,)](x, y, z, 4096, BLOCK=256)
            t.scale[(16,)](z, 0.5, 4096, BLOCK=256)
        assert "libcuda" not in open("/proc/self/maps").read()
        assert all(".target sm_80" in m["ptx"] for m in g.document["modules"].values())
        assert len(g.buffers) == 3 and g.name == "mine", g.buffers
        g.roles(x="input", y="input", z="output")
        plan = dovetail.Client(local=True, device="soft:a100", cache={str(tmp_path / "c.db")!r}).optimize(g)
        assert plan.kept and plan.gain > 1
        try:
            with dovetail.triton.capture():
                pass
        except dovetail.Error as e:
            print(e)
    """
    r = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200,
                       cwd=os.path.dirname(__file__))
    assert r.returncode == 0, r.stderr
    assert "Triton has no device here" in r.stdout and "name a target" in r.stdout


def test_targets(soft, floats):
    x = array(floats(256))
    for target, wanted in ("sm_75", "sm_75"), (90, "sm_90a"), ("sm_90a", "sm_90a"), ("80", "sm_80"):
        with dovetail.triton.capture(target) as g:
            add[(1,)](x, x, x, 256, BLOCK=256)
        assert f".target {wanted}\n" in next(iter(g.document["modules"].values()))["ptx"]
    before = x.bytes()
    assert x.bytes() == before  # nothing was launched
    for wrong in "h100", "sm_", 7, "sm_900":
        with pytest.raises(dovetail.UsageError, match="a target is"):
            dovetail.triton.capture(wrong)
    assert driver._active() is soft or driver._active().launches


def test_an_exception_ends_the_capture(soft):
    class Mine(Exception):
        pass
    from dovetail.triton.capture import _recorders
    with pytest.raises(Mine):
        with dovetail.triton.capture("sm_80"):
            raise Mine()
    assert not _recorders and driver._active().launches


# ---- releases --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("version", ["2.3.1", "3.10.0", "4.0", "nightly"])
def test_unknown_releases_are_refused_by_name(version, monkeypatch):
    monkeypatch.setattr(triton, "__version__", version)
    for call in dovetail.triton.software, lambda: dovetail.triton.capture("sm_80").__enter__():
        with pytest.raises(dovetail.Error, match=re.escape(f"Triton {version} is not known here: 3.0 to 3.9")):
            call()


def test_known_releases(monkeypatch):
    for version in "3.0.0", "3.9.0", "3.5.1+git123":
        monkeypatch.setattr(triton, "__version__", version)
        assert versions.triton() is triton


def test_entry():
    e = params.entry(""".visible .entry k( // a comment, with (
        .param .u64 .ptr .global .align 1 k_0, .param .align 64 .b8 k_1[128], .param .f32 k_2) .reqntid 96, 1, 1 { }""")
    assert e == params.Entry("k", [8, 128, 4], 96)
    with pytest.raises(dovetail.Error, match="has 0 entries"):
        params.entry(".version 8.0")
    assert params.stamp("\n.version 9.4\n.target sm_90") == "\n.version 9.0\n.target sm_90"
    assert params.stamp(".version 8.7\n") == ".version 8.7\n"
    for v, bits in (1.0, 0x3F80), (float("inf"), 0x7F80), (1.00390625, 0x3F80), (1.01171875, 0x3F82), (-2.0, 0xC000):
        assert driver.bf16_bits(v) == bits


# ---- the plugin ------------------------------------------------------------------------------------------------------

TESTS = '''
import numpy, triton, triton.language as tl
from dovetail import cuda

@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, MASK), MASK)

def work(n):
    x, y = cuda.Array(100, "float32"), cuda.Array(100, "float32")
    if n: x.set(bytes(400))
    copy[(1,)](x, y, 100, BLOCK=128)
    assert y.bytes() == bytes(400)

def test_written(): work(1)
def test_not_written(): work(0)
def test_after_it(): work(1)
'''


def pytest_run(tmp_path, mask, *args):
    (tmp_path / "test_inner.py").write_text(TESTS.replace("MASK", mask))
    return subprocess.run([sys.executable, "-m", "pytest", "-p", "dovetail.pytest_plugin", "-p", "no:cacheprovider",
                           "test_inner.py", *args], cwd=tmp_path, capture_output=True, text=True, timeout=200,
                          env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(__file__))})


def test_plugin(tmp_path):
    r = pytest_run(tmp_path, "i < n", "--dovetail-device", "--dovetail-check=race,uninit")
    assert r.returncode == 1 and "1 failed, 2 passed" in r.stdout, r.stdout
    assert re.search(r"FAILED test_inner.py::test_not_written - dovetail.triton.driver.Fault", r.stdout)
    assert "test_inner.py:8 (uninitialised)" in r.stdout
    assert f"modelling h200; checks: race,uninit; Triton {triton.__version__}" in r.stdout
    r = pytest_run(tmp_path, "i < 128", "--dovetail-device=a100")  # out of bounds is always looked for
    assert r.returncode == 1 and "3 failed" in r.stdout and "out-of-bounds" in r.stdout
    r = pytest_run(tmp_path, "i < n", "--dovetail-check=race")
    assert r.returncode == 4 and "--dovetail-check needs --dovetail-device" in r.stderr
    r = pytest_run(tmp_path, "i < n", "--dovetail-device=none")
    assert r.returncode == 4 and "models no 'none'" in r.stderr
    r = pytest_run(tmp_path, "i < n", "--collect-only", "-q")  # without the option it does nothing
    assert r.returncode == 0 and "dovetail:" not in r.stdout


# ---- docs/PYTHON.md --------------------------------------------------------------------------------------------------

def test_page(tmp_path, monkeypatch):
    import pages
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    texts = pages.blocks("python", "Triton")
    assert len(texts) == 4
    pages.run(texts, tmp_path)
    assert [t.strip() for t in pages.blocks("sh", "Triton")] == [  # test_plugin runs it
        "pytest --dovetail-device --dovetail-check=race,uninit"]
    with open(pages.PAGE, encoding="utf-8") as f:
        assert f"releases {versions.OLDEST} to {versions.NEWEST}" in f.read()
