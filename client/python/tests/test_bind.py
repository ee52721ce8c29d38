"""Plans on memory of this process: protocols, refusals, streams, launches in flight, CUDA graphs, lifetimes."""
import base64
import copy
import ctypes
import gc
import hashlib
import os
import struct
import threading
import weakref

import dovetail
import pytest
from conftest import CORPUS, arrays, corpus, fill, sums
from ctypes import byref, c_int, c_void_p
from dovetail import native, tensors

from harness import HEAD


@pytest.fixture(scope="module")
def pointwise(local, soft):
    g = corpus("pointwise")
    return g, local.optimize(g), local.run(g).sha256


def capsule_user(a, **change):
    """A tensor with DLPack alone."""
    class Tensor:
        def __dlpack_device__(self): return change.get("device", a.__dlpack_device__())

        def __dlpack__(self, **how):
            if change.get("old") and "max_version" in how:
                raise TypeError("max_version")
            change.setdefault("streams", []).append(how.get("stream"))
            if "fails" in change:
                raise change["fails"]
            if "gives" in change:
                return change["gives"]
            return a.__dlpack__(**how)
    return Tensor()


class Interface:
    def __init__(self, a, **change):
        self.__cuda_array_interface__ = {**a.__cuda_array_interface__, **change}


# ---- tensors ---------------------------------------------------------------------------------------------------------

def test_every_protocol(pointwise, soft):
    g, plan, want = pointwise
    for wrap in (lambda a: a, Interface, capsule_user, lambda a: capsule_user(a, old=True),
                 lambda a: dovetail.Pointer(a.data_ptr(), a.nbytes, a)):
        at = arrays(g)
        with plan.bind({n: wrap(a) for n, a in at.items()}) as b:
            assert b.fallback is None
            b.launch()
            soft.synchronize()
            assert sums(g, at) == want


def test_dlpack_goes_back(soft):
    """A capsule's end gives the array back."""
    a = soft.Array((2, 3), "float32")
    gone = weakref.ref(a)
    view = tensors.take("x", capsule_user(a))
    assert (view.address, view.bytes, view.device) == (a.data_ptr(), 24, 0)
    del a
    gc.collect()
    assert gone() is not None
    del view
    gc.collect()
    assert gone() is None


def test_dlpack_versioned(soft):
    """DLPack 1.0: read-only tensors say so; a version that nobody knows is refused."""
    a = soft.Array(64)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [c_void_p, ctypes.c_char_p, c_void_p]

    class Tensor:
        def __init__(self, major=1, flags=0, strides=None, offset=0):
            self.shape = (ctypes.c_int64 * 2)(8, 8)
            self.strides = (ctypes.c_int64 * 2)(*strides) if strides else None
            self.m = m = tensors.DLManagedVersioned(major=major, minor=1, flags=flags)
            m.tensor = tensors.DLTensor(data=a.data_ptr(), device=tensors.DLDevice(2, 0), ndim=2, code=1, bits=8,
                                        lanes=1, shape=ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64)),
                                        byte_offset=offset)
            if strides:
                m.tensor.strides = ctypes.cast(self.strides, ctypes.POINTER(ctypes.c_int64))

        def __dlpack_device__(self): return 2, 0

        def __dlpack__(self, stream=None, max_version=None):
            return new(ctypes.addressof(self.m), b"dltensor_versioned", None)
    assert tensors.take("x", Tensor()).readonly is False
    assert tensors.take("x", Tensor(flags=1)).readonly is True
    assert tensors.take("x", Tensor(strides=(8, 1))).bytes == 64
    assert tensors.take("x", Tensor(offset=16)).address == a.data_ptr() + 16
    for wrong, words in (({"major": 2}, "DLPack 2.1"), ({"strides": (1, 8)}, "contiguous"),
                         ({"strides": (16, 1)}, "gaps")):
        with pytest.raises(dovetail.UsageError, match=words):
            tensors.take("x", Tensor(**wrong))


def test_compact():
    assert tensors.compact((2, 3), None, 4) and tensors.compact((2, 3), (12, 4), 4) and tensors.compact((), (), 4)
    assert tensors.compact((1, 3), (999, 4), 4) and tensors.compact((0, 3), (1, 1), 4)
    assert not tensors.compact((2, 3), (4, 8), 4) and not tensors.compact((2, 3), (16, 4), 4)
    assert not tensors.compact((3,), (0,), 4) and not tensors.compact((3,), (-4,), 4)


@pytest.mark.parametrize("wrong, words", [
    (lambda a: object(), "neither DLPack nor the CUDA array interface"),
    (lambda a: Interface(a, strides=(2,)), "contiguous"),
    (lambda a: Interface(a, shape=(a.nbytes // 2,)), "has 16000 bytes, the tensor 8000"),
    (lambda a: Interface(a, shape=(a.nbytes * 2,)), "has 16000 bytes, the tensor 32000"),
    (lambda a: Interface(a, data=(a.data_ptr(), True)), "read-only"),
    (lambda a: Interface(a, stream=0), "stream 0"),
    (lambda a: Interface(a, mask=1), "mask"),
    (lambda a: Interface(a, data=(64, False)), "no memory of a CUDA device"),
    (lambda a: dovetail.Pointer(a.data_ptr() + 16, a.nbytes, a), "has 16000 bytes; at"),
    (lambda a: capsule_user(a, device=(1, 0)), "it is on the host"),
    (lambda a: capsule_user(a, device=(10, 0)), "ROCm"),
    (lambda a: capsule_user(a, device=(99, 0)), "device type 99"),
    (lambda a: capsule_user(a, fails=BufferError("it requires gradients")), "y: it requires gradients"),
    (lambda a: capsule_user(a, gives=object()), "no DLPack capsule"),
])
def test_wrong_tensors(pointwise, wrong, words):
    g, plan, _ = pointwise
    at = arrays(g)
    with pytest.raises(dovetail.UsageError, match=words):
        plan.bind({**at, "y": wrong(at["y"])})


def test_numpy_is_refused(pointwise):
    numpy = pytest.importorskip("numpy")
    g, plan, _ = pointwise
    with pytest.raises(dovetail.UsageError, match="on the host"):
        plan.bind({**arrays(g), "x": numpy.zeros(4000, "f4")})


def test_other_device(pointwise, soft, monkeypatch):
    g, plan, _ = pointwise
    at = arrays(g)
    a = at["y"]
    other = tensors.View(a.data_ptr(), a.nbytes, False, 3, None, a)
    monkeypatch.setattr("dovetail.plan.take", lambda name, obj, stream=-1: other if name == "y" else
                        tensors.take(name, obj, stream))
    with pytest.raises(dovetail.UsageError, match="on CUDA device 3, the context is on 0"):
        plan.bind(at)


def test_host_memory(pointwise, soft):
    g, plan, _ = pointwise
    cu, at, p = native.driver(), arrays(g), c_void_p()
    cu.call("cuMemAllocHost_v2", byref(p), ctypes.c_size_t(16000))
    with pytest.raises(dovetail.UsageError, match="the host's"):
        plan.bind({**at, "y": dovetail.Pointer(p.value, 16000)})
    cu.call("cuMemFreeHost", p)


def test_names(pointwise):
    g, plan, _ = pointwise
    at = arrays(g)
    with pytest.raises(dovetail.UsageError, match="no buffer 'q'"):
        plan.bind({**at, "q": at["x"]})
    at.pop("y")
    with pytest.raises(dovetail.UsageError, match=r"y \(output, 16000 bytes\) is not bound"):
        plan.bind(at)
    assert {b.name: (b.role, b.bytes) for b in plan.buffers()} == {
        n: (b["role"], b["bytes"]) for n, b in g.buffers.items()}


def test_assumptions_make_the_original_run(pointwise, soft):
    """Buffers that overlap, and alignment, are the plan's assumptions: what was posted runs instead, and says why."""
    g, plan, want = pointwise
    doc = copy.deepcopy(plan.document)
    doc["assumes"]["align"]["x"] = 64
    big = soft.Array(16000 + 64)
    big.set(bytes(16) + fill(g.buffers["x"]) + bytes(48))
    at = arrays(g)
    b = dovetail.Plan(doc).bind({**at, "x": dovetail.Pointer(big.data_ptr() + 16, 16000, big)})
    assert "x is not aligned to 64 bytes" in b.fallback
    b.launch()
    soft.synchronize()
    assert sums(g, at) == want
    at = arrays(g)
    b = plan.bind({"x": at["x"], "y": at["x"]})
    assert "share memory" in b.fallback


def test_constants(local, soft, monkeypatch):
    g = corpus("gather-constant")
    g.buffers["index"]["data"] = base64.b64encode(struct.pack("<1024I", *range(1024))).decode()
    plan, want = local.optimize(g), local.run(g).sha256
    assert "index" in plan.document["assumes"]["constant"]
    at, seen = arrays(g), {}
    s = soft.Stream()
    bound = plan.bind({n: capsule_user(a, streams=seen.setdefault(n, [])) for n, a in at.items()}, stream=s)
    assert bound.fallback is None
    # what is read now is asked for on the stream that was said, the rest on none
    assert seen["index"] == [s.handle] and all(v == [-1] for n, v in seen.items() if n != "index")
    bound.launch(s)
    s.synchronize()
    assert sums(g, at) == want
    other = soft.Array(4096).set(bytes(4096))
    # a binding more, for a launch beside that one: the content is not read again
    fake = Fake(monkeypatch)
    fake.late.add(bound._r.slots[0].event)
    at["index"].set(bytes(4096))
    bound.launch(soft.Stream())
    assert (bound.in_flight, bound.fallback) == (2, None)
    assert "index does not hold" in plan.bind({**at, "index": other}).fallback


# ---- streams ---------------------------------------------------------------------------------------------------------

def test_streams(pointwise, soft):
    g, plan, want = pointwise

    class Torch:
        def __init__(self, n): self.cuda_stream = n

    class Cupy:
        def __init__(self, n): self.ptr = n
    s = soft.Stream()
    for stream in (None, 1, 2, s, s.handle, Torch(s.handle), Torch(0), Cupy(0), Cupy(s.handle)):
        at = arrays(g)
        b = plan.bind(at)
        b.launch(stream)
        soft.synchronize()
        assert sums(g, at) == want
        b.close()
    assert [tensors.stream_handle(v) for v in (None, Torch(0), Cupy(0), 2, s)] == [1, 1, 1, 2, s.handle]
    for wrong, words in (0, "stream 0 says neither"), (-1, "no stream"), ("x", "a str is no stream"):
        with pytest.raises(dovetail.UsageError, match=words):
            b.launch(wrong)
    with pytest.raises(dovetail.UsageError, match="was closed"):
        b.launch()
    b.close()  # again is fine


def test_contexts(pointwise, soft):
    """Only the caller's context: none is made, and another one is refused."""
    g, plan, _ = pointwise
    bound, told = plan.bind(arrays(g)), []

    def nobody():
        for call in bound.launch, lambda: plan.bind({}), plan.buffers:
            with pytest.raises(dovetail.DeviceError, match="no CUDA context is current"):
                call()
        told.append(1)
    t = threading.Thread(target=nobody)
    t.start()
    t.join()
    assert told
    cu, ctx = native.driver(), c_void_p()
    mine = cu.context()
    cu.call("cuCtxCreate_v2", byref(ctx), ctypes.c_uint(0), c_int(0))
    try:
        with pytest.raises(dovetail.DeviceError, match="another context"):
            bound.launch()
    finally:
        cu.call("cuCtxDestroy_v2", ctx)
        cu.call("cuCtxSetCurrent", c_void_p(mine))
    bound.launch()
    s = soft.Stream()
    cu.call("cuCtxCreate_v2", byref(ctx), ctypes.c_uint(0), c_int(0))
    other = soft.Stream()
    cu.call("cuCtxSetCurrent", c_void_p(mine))
    with pytest.raises(dovetail.UsageError, match="no stream of the context"):
        bound.launch(other)
    bound.launch(s)
    del other
    cu.call("cuCtxDestroy_v2", ctx)
    cu.call("cuCtxSetCurrent", c_void_p(mine))


# ---- in flight -----------------------------------------------------------------------------------------------------

class Fake:
    """The driver, with events that have not come yet."""
    def __init__(self, monkeypatch):
        self.late, lib = set(), native.driver().lib
        real = lib.cuEventQuery
        monkeypatch.setattr(lib, "cuEventQuery", lambda e: native.NOT_READY if e.value in self.late else real(e))


def test_scratch_per_launch_in_flight(pointwise, soft, monkeypatch):
    g, plan, want = pointwise
    fake, at = Fake(monkeypatch), arrays(g)
    b = plan.bind(at)
    one, two, three = soft.Stream(), soft.Stream(), soft.Stream()
    b.launch(one)
    b.launch(one)  # in that stream's order
    assert b.in_flight == 1
    fake.late.add(b._r.slots[0].event)
    b.launch(two)  # beside it
    assert b.in_flight == 2
    fake.late.add(b._r.slots[1].event)
    b.launch(one)
    b.launch(two)
    assert b.in_flight == 2
    fake.late.clear()
    b.launch(three)  # the first has ended
    assert b.in_flight == 2
    soft.synchronize()
    assert sums(g, at) == want


def test_held_until_the_end(pointwise, soft, monkeypatch):
    """Tensors and scratch of a binding that nobody holds any more."""
    g, plan, _ = pointwise
    fake, at = Fake(monkeypatch), arrays(g)
    gone = {n: weakref.ref(a) for n, a in at.items()}
    b = plan.bind(at)
    b.launch(soft.Stream())
    slot = b._r.slots[0]
    fake.late.add(slot.event)
    del at, b
    gc.collect()
    assert all(r() is not None for r in gone.values())
    plan.bind(arrays(g)).close()  # looks again
    assert all(r() is not None for r in gone.values())
    fake.late.clear()
    plan.bind(arrays(g)).close()
    gc.collect()
    assert all(r() is None for r in gone.values())


def test_the_end_is_recorded(pointwise, soft, monkeypatch):
    """behind the launches, on their stream"""
    g, plan, _ = pointwise
    b, s, calls, lib = plan.bind(arrays(g)), soft.Stream(), [], native.driver().lib
    real, launch = lib.cuEventRecord, native.library().dovetail_plan_launch
    monkeypatch.setattr(lib, "cuEventRecord", lambda *a: calls.append([v.value for v in a]) or real(*a))
    monkeypatch.setattr(native.library(), "dovetail_plan_launch", lambda *a: calls.append("launch") or launch(*a))
    b.launch(s)
    assert calls == ["launch", [b._r.slots[0].event, s.handle]]


def free_bytes():
    n, of = ctypes.c_size_t(), ctypes.c_size_t()
    native.driver().call("cuMemGetInfo_v2", byref(n), byref(of))
    return n.value


def test_memory_goes_back(local, soft):
    g = corpus("mlp")
    plan = local.optimize(g)
    at = arrays(g)
    plan.bind(at).close()
    before = free_bytes()
    for _ in range(3):
        b = plan.bind(at)
        b.launch(soft.Stream())
        assert free_bytes() < before  # intermediates of its own
        b.close()
        assert free_bytes() == before


# ---- CUDA graphs -----------------------------------------------------------------------------------------------------

def test_capture(pointwise, soft):
    """Captured in the strictest mode, launched again and again; the graph keeps what it needs, then it goes."""
    g, plan, want = pointwise
    cu, at = native.driver(), arrays(g)
    gone = weakref.ref(at["x"])
    b, s = plan.bind(at), soft.Stream()
    b.launch(s)
    s.synchronize()
    graph, execution = c_void_p(), c_void_p()
    cu.call("cuStreamBeginCapture_v2", c_void_p(s.handle), c_int(0))
    b.launch(s)
    b.launch(s)
    cu.call("cuStreamEndCapture", c_void_p(s.handle), byref(graph))
    assert b.in_flight == 2  # the capture's is its own
    b.launch(s)
    assert b.in_flight == 2
    cu.call("cuGraphInstantiateWithFlags", byref(execution), graph, ctypes.c_ulonglong(0))
    cu.call("cuGraphDestroy", graph)
    with pytest.raises(dovetail.UsageError, match="CUDA graph that this was captured into"):
        b.close()
    outputs = {"y": at["y"]}
    del b, at
    gc.collect()
    assert gone() is not None
    for _ in range(3):
        outputs["y"].set(bytes(16000))
        cu.call("cuGraphLaunch", execution, c_void_p(s.handle))
        s.synchronize()
        assert {"y": "sha256:" + hashlib.sha256(outputs["y"].bytes()).hexdigest()} == want
    cu.call("cuGraphExecDestroy", execution)
    plan.bind(arrays(g)).close()
    gc.collect()
    assert gone() is None


def test_the_slot_of_a_capture(pointwise, soft):
    """It is that capture's alone, and free again when the graph is gone."""
    g, plan, _ = pointwise
    cu, b, s, graph = native.driver(), plan.bind(arrays(g)), soft.Stream(), c_void_p()
    cu.call("cuStreamBeginCapture_v2", c_void_p(s.handle), c_int(0))
    b.launch(s)
    cu.call("cuStreamEndCapture", c_void_p(s.handle), byref(graph))
    b.launch(s)
    assert b.in_flight == 2
    first = b._r.slots[0]
    assert first.capture is not None
    cu.call("cuGraphDestroy", graph)
    assert first.capture is None and b._r.captures == 0
    b.close()


# ---- the driver ------------------------------------------------------------------------------------------------------

def test_one_driver_a_process(soft, tmp_path, monkeypatch):
    """Another libcuda.so.1 beside the one that is loaded is refused by name; so is an unknown model."""
    monkeypatch.setattr(native, "_driver", None)
    monkeypatch.setattr("dovetail.find.device", lambda: str(tmp_path / "libcuda.so.1"))
    with pytest.raises(dovetail.ServiceError, match="is loaded in this process already"):
        native.software()
    monkeypatch.undo()
    with pytest.raises(dovetail.ServiceError, match="models no 'h999'"):
        soft.software("h999")
    soft.software()
