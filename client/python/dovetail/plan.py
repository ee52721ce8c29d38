"""Plans: the document, and its launches on memory of the caller's, through libdovetail.

In flight. A plan's scratch memory, and intermediates that nobody binds, belong to one launch at a time. So a Bound
keeps slots, each a binding of libdovetail with memory of its own. A launch takes the slot of the last launch on its
stream (the stream's order keeps them apart), or one whose launch has ended (an event says so), or makes a new one. What
is captured into a CUDA graph may run again at any time: such a slot is that capture's, and lives until the graph and
everything made of it are gone, which a user object of that graph tells.

Lifetime. Tensors and slots of a Bound that nobody holds any more are kept until the events of their launches have come.
What could not go yet is looked at again whenever something is bound, launched or closed.
"""
from __future__ import annotations

import ctypes
import json
import os
import threading
import weakref
from ctypes import byref, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Union

from . import errors, native
from .results import Result
from .tensors import View, stream_handle, take

BLOCKING_OFF = 2  # CU_EVENT_DISABLE_TIMING


class BufferInfo(NamedTuple):
    """A buffer of a plan: bytes; align: bytes, what the plan assumes; constant: its content is checked when bound;
    needed: 2 by the plan, 1 only to go back to the original launches, 0 by neither."""
    name: str
    role: str
    bytes: int
    align: int
    constant: bool
    needed: int


class Plan(Result):
    """The plan document (§4), verified by whoever made it.

    Files: `save` writes what `dovetail run` and `Plan.load` read.
    """

    def __init__(self, document: Dict[str, Any], cache: str = "miss", signature: Optional[str] = None):
        super().__init__(document, cache, signature)
        self._lock = threading.Lock()
        self._loaded: Dict[int, _Loaded] = {}
        self._align: Dict[str, int] = {}

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"]) -> "Plan":
        """Read DIR/plan.json of `dovetail optimize -o DIR`, or what `save` wrote. Errors: `bad-json`; OSError."""
        with open(path, encoding="utf-8") as f:
            try:
                doc = json.load(f)
            except ValueError as e:
                raise errors.make("bad-json", f"{os.fspath(path)}: {e}") from None
        if not isinstance(doc, dict) or "rewrites" not in doc or "launches" not in doc:
            raise errors.make("bad-graph", f"{os.fspath(path)}: this is no plan document", 422)
        return cls(doc)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        with open(path, "w", encoding="utf-8") as f:
            json.dump(self.document, f, indent=1)
            f.write("\n")

    @property
    def gain(self) -> float:
        """How many times as fast as the posted launches, by `method`."""
        return self.document["baseline"]["time_us"] / (self.document["optimized"]["time_us"] or float("nan"))

    @property
    def method(self) -> str:
        """How the times were found: `measured:…`, or `modeled:…`, which is no measurement."""
        return self.document["optimized"]["method"]

    @property
    def rewrites(self) -> List[Dict[str, Any]]:
        """`kind`, `launches`, `verdict` (kept, refused, dropped), `reason`, `level` of each."""
        return self.document["rewrites"]

    @property
    def kept(self) -> List[Dict[str, Any]]:
        return [r for r in self.rewrites if r["verdict"] == "kept"]

    def _require(self, align: Mapping[str, int]) -> None:
        """Bytes that the posted kernels rely on, too: with less, neither they nor the plan may run."""
        assumed = self.document["assumes"]["align"]
        for name, n in align.items():
            if name in self.document["buffers"]:
                self._align[name] = n
                assumed[name] = max(assumed.get(name, 1), n)

    def _here(self) -> "_Loaded":
        cu = native.driver()
        ctx = cu.context()
        key = cu.context_id(ctx)
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = _Loaded(self, ctx, key)
            return self._loaded[key]

    def buffers(self) -> List[BufferInfo]:
        """What can be bound. It loads the plan into the current context."""
        return self._here().buffers

    def bind(self, tensors: Mapping[str, Any], *, stream: Any = None) -> "Bound":
        """Bind tensors to the plan's buffers, in the calling thread's CUDA context.

        tensors: by buffer name: whatever has DLPack (`__dlpack__`) or `__cuda_array_interface__`, or a
            dovetail.Pointer. Each lies on the context's device, in one piece, the last axis fastest, with exactly the
            buffer's bytes, and is writable unless its buffer is an input or weight. Inputs, weights and outputs are
            needed; intermediates that are missing get memory of the plan's own, per launch in flight.
        stream: where the content of constant buffers is ready (the legacy default stream if not said): it is read here
            and compared (SHA-256).

        What only the plan assumes and this binding breaks (alignment, buffers apart, constant content) makes the
        original launches run, and `fallback` says why. Errors: `usage` for a binding with which neither could run;
        DeviceError for no context and what the driver refuses.
        """
        return Bound(self, self._here(), tensors, stream_handle(stream))


class _Loaded:
    """A plan's modules in one context."""

    def __init__(self, plan: Plan, ctx: int, key: int):
        lib, text = native.library(), json.dumps(plan.document).encode()
        handle, problem = c_void_p(), c_void_p()
        native.checked(lib.dovetail_plan_load(text, len(text), ctx, byref(handle), byref(problem)), problem)
        self.handle, self.ctx, self.key = handle.value, ctx, key
        weakref.finalize(self, lib.dovetail_plan_free, handle.value).atexit = False
        self.buffers: List[BufferInfo] = []
        info = native.BufferInfo()
        while lib.dovetail_plan_buffer(self.handle, len(self.buffers), byref(info)):
            self.buffers.append(BufferInfo(info.name.decode(), info.role.decode(), info.bytes, info.align,
                                           bool(info.constant), info.needed))


class _Slot:
    """A binding of libdovetail, and the event of its last launch."""

    def __init__(self, handle: int):
        self.handle = handle
        self.event: Optional[int] = None
        self.last: Any = None  # which stream: (its id, the thread for the stream of each thread)
        self.capture: Any = None  # of which capture, for good


class _Resources:
    """What a Bound must keep until its work has ended."""

    def __init__(self, loaded: _Loaded, views: Dict[str, View]):
        self.loaded, self.views = loaded, views
        self.slots: List[_Slot] = []
        self.captures = 0  # graphs that are alive
        self.abandoned = False

    def ended(self, wait: bool = False) -> bool:
        """Has all work ended? Memory of a context that is gone counts as free."""
        cu = native.driver()
        if self.captures:
            return False
        with _Entered(self.loaded.ctx) as there:
            for s in self.slots:
                if there and s.event is not None:
                    if wait:
                        cu.lib.cuEventSynchronize(c_void_p(s.event))
                    elif cu.lib.cuEventQuery(c_void_p(s.event)) == native.NOT_READY:
                        return False
        return True

    def free(self) -> None:
        cu, lib = native.driver(), native.library()
        with _Entered(self.loaded.ctx) as there:
            for s in self.slots:
                if there and s.event is not None:
                    cu.lib.cuEventDestroy_v2(c_void_p(s.event))
                lib.dovetail_bound_free(s.handle)
        self.slots, self.views = [], {}


class _Entered:
    """The context, current for a while; false where it is gone. Waiting and asking are fine though a stream is being
    captured."""

    def __init__(self, ctx: int):
        self.ctx, self.cu = ctx, native.driver()

    def __enter__(self) -> bool:
        self.there = self.cu.lib.cuCtxPushCurrent_v2(c_void_p(self.ctx)) == native.SUCCESS
        self.mode = c_int(2)  # relaxed
        self.cu.lib.cuThreadExchangeStreamCaptureMode(byref(self.mode))
        return self.there

    def __exit__(self, *_: Any) -> None:
        self.cu.lib.cuThreadExchangeStreamCaptureMode(byref(self.mode))
        if self.there:
            self.cu.lib.cuCtxPopCurrent_v2(byref(c_void_p()))


_waiting_lock = threading.RLock()  # a finalizer may come while this thread has it
_waiting: List[_Resources] = []


def _abandon(r: _Resources) -> None:
    r.abandoned = True
    with _waiting_lock:
        _waiting.append(r)
    _reap()


def _reap() -> None:
    """Free what was waiting for the end of its work."""
    with _waiting_lock:
        candidates = list(_waiting)
    for r in candidates:
        if r.ended():
            with _waiting_lock:
                if r not in _waiting:
                    continue
                _waiting.remove(r)
            r.free()


# Resources that graphs hold, by number: the driver's callback may call nothing of CUDA, so it only counts down.
_held: Dict[int, Any] = {}
_held_next = [1]


@ctypes.CFUNCTYPE(None, c_void_p)
def _released(number: Optional[int]) -> None:
    r, slot = _held.pop(number or 0, (None, None))
    if r is not None:
        slot.last = slot.capture = None
        r.captures -= 1


class Bound:
    """A plan with memory. Any thread may launch it; launches that share the bound tensors need the caller's order, as
    any kernels do."""

    def __init__(self, plan: Plan, loaded: _Loaded, tensors: Mapping[str, Any], stream: int):
        _reap()
        self.plan = plan
        cu = native.driver()
        ordinal, views = cu.ordinal(), {}
        infos = {b.name: b for b in loaded.buffers}
        for name, obj in tensors.items():
            if name not in infos:
                raise errors.usage(f"the plan has no buffer '{name}'")
            b = infos[name]
            view = take(name, obj, stream if b.constant else -1)
            _check(cu, b, view, ordinal)
            if view.address % plan._align.get(name, 1):
                raise errors.usage(f"buffer {name}: its kernels rely on {plan._align[name]} bytes of alignment")
            views[name] = view
        for b in loaded.buffers:
            if b.needed == 2 and b.bytes and b.role != "intermediate" and b.name not in views:
                raise errors.usage(f"buffer {b.name} ({b.role}, {b.bytes} bytes) is not bound")
        if any(b.constant for b in loaded.buffers):
            waits = {v.stream for k, v in views.items() if infos[k].constant and v.stream} | {stream}
            for s in waits:
                cu.call("cuStreamSynchronize", c_void_p(s))
        self._lock = threading.Lock()
        self._r = _Resources(loaded, views)
        self._at = (native.PointerArg * len(views))()
        for at, (name, view) in zip(self._at, views.items()):
            at.buffer, at.address = name.encode(), view.address
        self._finalizer = weakref.finalize(self, _abandon, self._r)
        self._finalizer.atexit = False
        self._r.slots.append(self._slot(None))

    def _slot(self, like: Optional[int]) -> _Slot:
        lib, handle, problem = native.library(), c_void_p(), c_void_p()
        native.checked(lib.dovetail_plan_bind_own(self._r.loaded.handle, self._at, len(self._at), like, byref(handle),
                                                  byref(problem)), problem)
        return _Slot(handle.value or 0)

    @property
    def fallback(self) -> Optional[str]:
        """None: the plan runs. Else why the original launches do."""
        for s in self._r.slots:
            text = native.library().dovetail_bound_fallback(s.handle)
            if text:
                return text.decode(errors="replace")
        return None

    @property
    def in_flight(self) -> int:
        """For how many launches at once there is memory by now."""
        return len(self._r.slots)

    def launch(self, stream: Any = None) -> None:
        """Put the launches into a stream; nothing waits.

        stream: None (the legacy default stream), a number as DLPack and the CUDA array interface have it (1 legacy
            default, 2 per thread, else a handle; 0 is refused), or a stream of torch, CuPy, cuda.core or dovetail.cuda.
            One that is being captured is fine.
        Errors: `usage` after close(), or for a stream of another context; DeviceError for another context than the one
        that it was bound in, and for what the driver refuses.
        """
        cu, lib, handle = native.driver(), native.library(), stream_handle(stream)
        _reap()
        if cu.context_id(cu.context()) != self._r.loaded.key:
            raise errors.make("device", "another context is current in this thread than the one this was bound in", 502)
        if handle > native.STREAM_PER_THREAD:
            theirs = c_void_p()
            known = cu.call("cuStreamGetCtx", c_void_p(handle), byref(theirs), fine=(native.INVALID_HANDLE,))
            if known != native.SUCCESS or theirs.value != self._r.loaded.ctx:
                raise errors.usage(f"0x{handle:x} is no stream of the context that this was bound in")
        status, number, graph = _capture(cu, handle)
        if status > native.CAPTURE_ACTIVE:
            raise errors.make("device", "the stream's capture has failed already", 502)
        which = (cu.stream_id(handle), threading.get_ident() if handle == native.STREAM_PER_THREAD else 0)
        with self._lock:
            if not self._r.slots:
                raise errors.usage("this binding was closed")
            slot = self._take((number, which) if status else None, which)
            if slot.event is None:
                event = c_void_p()
                cu.call("cuEventCreate", byref(event), c_uint(BLOCKING_OFF))
                slot.event = event.value
            if status and slot.capture is None:
                slot.capture = (number, which)
                self._hold(cu, graph, slot)
            problem = c_void_p()
            slot.last = which
            try:
                native.checked(lib.dovetail_plan_launch(slot.handle, handle, byref(problem)), problem)
            except errors.Error as e:
                e.started = True
                raise
            finally:
                if not status:
                    cu.call("cuEventRecord", c_void_p(slot.event), c_void_p(handle))

    def _take(self, capture: Any, which: Any) -> _Slot:
        """The slot for a launch; the lock is held."""
        cu = native.driver()
        if capture is not None:
            free = [s for s in self._r.slots if s.capture == capture]
            # a slot that no launch had yet, or had long ago, may become the capture's
            free += [s for s in self._r.slots if s.capture is None and s.event is None]
        else:
            free = [s for s in self._r.slots if s.capture is None and (s.event is None or s.last == which)]
            if not free:
                with _Entered(self._r.loaded.ctx):
                    free = [s for s in self._r.slots if s.capture is None
                            and cu.lib.cuEventQuery(c_void_p(s.event)) == native.SUCCESS]
        if free:
            return free[0]
        slot = self._slot(self._r.slots[0].handle)
        self._r.slots.append(slot)
        return slot

    def _hold(self, cu: native.Driver, graph: int, slot: _Slot) -> None:
        """The graph that is being captured keeps everything here, until it and all that is made of it are gone."""
        with _waiting_lock:
            number = _held_next[0]
            _held_next[0] += 1
            _held[number] = (self._r, slot)
            self._r.captures += 1
        user = c_void_p()
        cu.call("cuUserObjectCreate", byref(user), c_void_p(number), _released, c_uint(1), c_uint(1))
        cu.call("cuGraphRetainUserObject", c_void_p(graph), user, c_uint(1), c_uint(1))

    def close(self) -> None:
        """Wait for its launches, and give everything back. Errors: `usage` while a graph that was captured lives."""
        with self._lock:
            if not self._r.slots:
                return
            if self._r.captures:
                raise errors.usage("a CUDA graph that this was captured into is still there")
            self._r.ended(wait=True)
            self._finalizer.detach()
            self._r.free()

    def __enter__(self) -> "Bound":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _capture(cu: native.Driver, stream: int) -> Any:
    """(status, the capture's number, its graph)."""
    status, number, graph, deps, n = c_int(), c_ulonglong(), c_void_p(), c_void_p(), ctypes.c_size_t()
    cu.call("cuStreamGetCaptureInfo_v2", c_void_p(stream), byref(status), byref(number), byref(graph), byref(deps),
            byref(n))
    return status.value, number.value, graph.value


def _check(cu: native.Driver, b: BufferInfo, v: View, ordinal: int) -> None:
    """What Python alone can say wrong of a tensor; libdovetail checks that the memory is there."""
    if v.bytes != b.bytes:
        raise errors.usage(f"buffer {b.name} has {b.bytes} bytes, the tensor {v.bytes}")
    if v.readonly and b.role not in ("input", "weight"):
        raise errors.usage(f"buffer {b.name} is {b.role}, and the tensor is read-only")
    if not b.bytes:
        return
    device = cu.pointer(native.POINTER_DEVICE_ORDINAL, v.address)
    if device is None:
        raise errors.usage(f"buffer {b.name}: 0x{v.address:x} is no memory of a CUDA device")
    if cu.pointer(native.POINTER_IS_MANAGED, v.address):
        return
    if cu.pointer(native.POINTER_MEMORY_TYPE, v.address) != native.MEMORY_DEVICE:
        raise errors.usage(f"buffer {b.name}: its memory is the host's")
    for d in (device, v.device):
        if d is not None and d != ordinal:
            raise errors.usage(f"buffer {b.name} is on CUDA device {d}, the context is on {ordinal}")
