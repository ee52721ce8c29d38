"""Triton launches as a graph: what Triton compiles and launches while a `with` block runs, in its order.

Recorded is each call of JITFunction.run: the PTX, grid, threads, cluster, shared memory, arguments with what Triton
took them to be divisible by, and scratch memory behind the hidden pointers. Tensors become buffers by the memory that
they lie in: views of one allocation are offsets in one buffer. Nothing says which tensors nobody reads afterwards, so
every buffer is `inout` until `Graph.roles` says better.

Not taken, and refused by name: im2col descriptors, tuples, cooperative launches. Launches that only time a
configuration (autotuning) are not recorded.
"""
from __future__ import annotations

import base64
import ctypes
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from .. import errors, native
from ..graph import Graph, Scalar, raw  # noqa: F401 (raw: what users add)
from . import driver, params
from .descriptors import TensorMap
from .versions import triton

DATA_MAX = 64 << 20
_ELEMENTS = {6: "fp16", 7: "fp32", 8: "fp64", 9: "bf16", 11: "fp32"}  # of cuda.h's data types, those that are floats


class Launch(NamedTuple):
    """What Triton knew of a launch. divisible: by argument, of pointers in bytes; constants: by argument."""
    kernel: str
    signature: Dict[str, str]
    divisible: Dict[str, int]
    constants: Dict[str, Any]
    num_warps: int
    hidden: int


class Captured(Graph):
    """The graph of a capture, complete when its block has ended.

    triton: a Launch for each step. align: what Triton's code relies on (it took a pointer to be divisible by 16).
    """

    def __init__(self, name: str = "triton"):
        super().__init__(name)
        self.triton: List[Launch] = []


class _Piece:
    """Memory that arguments lie in, before it is known which pieces are one buffer."""

    def __init__(self, start: int, size: int, name: str, dtype: str, data: Optional[bytes], keep: Any):
        self.start, self.size, self.name, self.dtype, self.data, self.keep = start, size, name, dtype, data, keep


class _Recorder:
    def __init__(self, graph: Captured, data: str):
        self.graph, self.data, self.paused = graph, data, 0
        self.pieces: Dict[Any, _Piece] = {}
        self.steps: List[Dict[str, Any]] = []
        self.modules: Dict[str, str] = {}

    # -- while it runs -------------------------------------------------------------------------------------------------

    def launch(self, fn: Any, kernel: Any, grid: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        known = {k: v for k, v in kwargs.items() if k in fn.signature.parameters}
        bound = fn.signature.bind(*args, **known)
        bound.apply_defaults()
        values, src, meta = dict(bound.arguments), kernel.src, kernel.metadata
        if getattr(meta, "launch_cooperative_grid", False):
            raise errors.make("unsupported", f"{meta.name} is launched cooperatively", 422)
        ptx = kernel.asm["ptx"]
        ptx = params.stamp(ptx if isinstance(ptx, str) else bytes(ptx).decode())
        entry = params.entry(ptx)
        given, hidden = params.bind(src, entry, values, meta)
        blocks, n = params.grid3(grid, values), params.cluster(meta)
        divisible = {k: v for k, v in params.divisible(src).items() if k in {p.name for p in given}}
        divisible.update({p.name: 16 for p in given if isinstance(p.value, TensorMap)})  # cuda.h asks it
        step: Dict[str, Any] = {"module": self._module(entry.name, ptx), "entry": entry.name,
                                "grid": [blocks[0] * n, *blocks[1:]],
                                "block": [entry.threads or 32 * meta.num_warps, 1, 1], "shared": int(meta.shared),
                                **({"cluster": [n, 1, 1]} if n > 1 else {}),
                                "args": [self._argument(p, divisible.get(p.name, 1)) for p in given]}
        for size in params.scratch(meta, entry, hidden, blocks):
            step["args"].append(("scratch", size) if size else {"u64": 0})
        self.steps.append(step)
        self.graph.triton.append(Launch(entry.name, dict(params.passed(src)), divisible, params.constants(src),
                                        int(meta.num_warps), hidden))

    def _module(self, name: str, ptx: str) -> str:
        """The module of this text; kernels of one name compiled otherwise are NAME-2, NAME-3."""
        if ptx not in self.modules:
            taken, module, n = set(self.modules.values()), name, 1
            while module in taken:
                n += 1
                module = f"{name}-{n}"
            self.modules[ptx] = module
        return self.modules[ptx]

    def _argument(self, p: params.Param, divisible: int) -> Any:
        if isinstance(p.value, TensorMap):
            pointer = self._argument(p._replace(type="*" + _ELEMENTS.get(p.value.fields["tensorDataType"], "i8"),
                                                value=p.value.base), divisible)
            return (*pointer, p.value.fields)
        if not p.pointer:
            value: Any = p.number
            if p.kind == "bf16":
                value = "0x%04x" % driver.bf16_bits(value)
            return Scalar(p.kind, value)._argument()
        at = params.address(p.value)
        if p.value is None:
            return {"u64": 0}
        start, size = driver.extent(p.value) if hasattr(p.value, "data_ptr") else (at, 0)
        if not size:
            raise errors.make("unsupported", f"argument {p.name}: how large its memory is, nothing says", 422)
        key: Any = start
        if start == 0:  # a tensor without memory (torch's device "meta"): by its identity
            storage = p.value.untyped_storage() if hasattr(p.value, "untyped_storage") else p.value
            key = ("meta", getattr(storage, "_cdata", id(p.value)))
            at = int(p.value.storage_offset() * p.value.element_size()) if hasattr(p.value, "storage_offset") else 0
        if key not in self.pieces or self.pieces[key].size < size:
            dtype = params.POINTEES.get(p.type.lstrip("*").replace("k", ""), "")
            self.pieces[key] = _Piece(start, size, p.name, dtype, self._content(p.value, start, size, dtype), p.value)
        return ("pointer", key, at - start, divisible)

    def _content(self, tensor: Any, start: int, size: int, dtype: str) -> Optional[bytes]:
        """What it holds before the launch, where that is wanted and can be read."""
        if self.data == "none" or (self.data == "indices" and dtype[:1] not in ("i", "u")) or not start:
            return None
        if size > DATA_MAX:
            return None
        if native._driver is not None and native._driver.pointer(native.POINTER_MEMORY_TYPE, start) is not None:
            out = ctypes.create_string_buffer(size)
            native._driver.call("cuMemcpyDtoH_v2", out, ctypes.c_ulonglong(start), ctypes.c_size_t(size))
            return out.raw
        if str(getattr(tensor, "device", "cpu")).split(":")[0] == "cpu":
            return ctypes.string_at(start, size)
        return None

    # -- at the end ----------------------------------------------------------------------------------------------------

    def _buffers(self) -> Dict[Any, Tuple[str, int]]:
        """Buffers of the pieces; those that overlap are one. By key: the buffer's name, and the offset in it."""
        found: Dict[Any, Tuple[str, int]] = {}
        real = sorted((k for k, p in self.pieces.items() if p.start), key=lambda k: self.pieces[k].start)
        groups: List[List[Any]] = []
        for k in real:
            p = self.pieces[k]
            end = max(self.pieces[j].start + self.pieces[j].size for j in groups[-1]) if groups else 0
            if groups and p.start < end:
                groups[-1].append(k)
            else:
                groups.append([k])
        groups += [[k] for k, p in self.pieces.items() if not p.start]
        order = list(self.pieces)
        for keys in sorted(groups, key=lambda g: min(order.index(k) for k in g)):
            first = min(keys, key=order.index)
            base = min(self.pieces[k].start for k in keys)
            size = max(self.pieces[k].start + self.pieces[k].size for k in keys) - base
            name = self._buffer(self.pieces[first], size, [self.pieces[k] for k in keys], base)
            for k in keys:
                found[k] = (name, self.pieces[k].start - base)
        return found

    def _buffer(self, p: _Piece, size: int, pieces: List[_Piece], base: int) -> str:
        name, n = p.name, 1
        while name in self.graph.buffers:
            n += 1
            name = f"{p.name}-{n}"
        what: Dict[str, Any] = {"bytes": size, "role": "inout"}
        data = bytearray(size)
        for q in pieces:
            if q.data is not None:
                data[q.start - base:q.start - base + q.size] = q.data
        if all(q.data is not None for q in pieces):
            what["data"] = base64.b64encode(bytes(data)).decode()
        elif p.dtype in ("f16", "bf16", "f32", "f64"):
            what["fill"] = {"uniform": [-1, 1], "dtype": p.dtype, "seed": len(self.graph.buffers) + 1}
        else:
            what["fill"] = {"zero": True}
        self.graph.buffers[name] = what
        return name

    def finish(self) -> None:
        g, at = self.graph, self._buffers()
        for ptx, name in self.modules.items():
            g.module(name, ptx=ptx)
        for step in self.steps:
            args: List[Any] = []
            for a in step.pop("args"):
                if isinstance(a, tuple) and a[0] == "scratch":
                    n = 1
                    while f"scratch-{n}" in g.buffers:
                        n += 1
                    g.buffers[f"scratch-{n}"] = {"bytes": a[1], "role": "intermediate"}
                    a = {"buffer": f"scratch-{n}"}
                elif isinstance(a, tuple):
                    name, base = at[a[1]]
                    offset = base + a[2]
                    if a[3] > 1 and offset % a[3] == 0:
                        g.align[name] = max(g.align.get(name, 1), a[3])
                    more = a[4:] and {"tensor_map": {"buffer": name, **({"offset": offset} if offset else {}), **a[4]}}
                    a = more or {"buffer": name, **({"offset": offset} if offset else {})}
                args.append(a)
            g._step(step["entry"], {**step, "args": args}, None)


_recorders: List[_Recorder] = []
_hooked = False


def _hook() -> None:
    """Once: JITFunction.run is recorded while a capture is on; what the autotuner times is not."""
    global _hooked
    if _hooked:
        return
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction
    run, bench = JITFunction.run, Autotuner._bench

    def recorded(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not _recorders or warmup:
            return run(self, *args, grid=grid, warmup=warmup, **kwargs)
        r, active = _recorders[-1], driver._active()
        launches = getattr(active, "launches", True)
        given = dict(kwargs)
        if not r.paused and launches:  # before it runs: what is read of its arguments is what it gets
            kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
            r.launch(self, kernel, grid, args, given)
        kernel = run(self, *args, grid=grid, warmup=not launches, **kwargs)
        if not r.paused and not launches:
            r.launch(self, kernel, grid, args, given)
        return kernel

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not getattr(driver._active(), "launches", True):
            driver.untimed()
        for r in _recorders:
            r.paused += 1
        try:
            return bench(self, *args, **kwargs)
        finally:
            for r in _recorders:
                r.paused -= 1

    JITFunction.run, Autotuner._bench = recorded, timed
    _hooked = True


class capture:  # noqa: N801 (a context manager, called like a function)
    """`with capture() as g:` records the launches of Triton kernels into the Graph g, which is complete at the end.

    target: "sm_90": kernels are compiled for it and recorded, and nothing is launched; no GPU is needed, and tensors
        need no memory (torch's device "meta" will do). None: they run where Triton runs them, a GPU or the software
        device (dovetail.triton.software), and are recorded.
    data: which contents go into the graph: "none", "indices" (integers; the default), "all". Other buffers get fills.
    Errors: `unsupported` for what is not taken, by name, and for no device where no target is named.
    """

    def __init__(self, target: Union[None, str, int] = None, *, name: str = "triton", data: str = "indices"):
        if data not in ("none", "indices", "all"):
            raise errors.usage(f"data is none, indices or all, not {data!r}")
        self._arch = None if target is None else _arch(target)
        self._recorder = _Recorder(Captured(name), data)
        self._before: Any = None

    def __enter__(self) -> Captured:
        module = triton()
        _hook()
        if self._arch is not None:
            self._before = driver.activate(driver.TargetDriver(self._arch))
        else:
            try:
                module.runtime.driver.active.get_current_device()
            except Exception as e:  # whatever Triton raises without a GPU
                raise errors.make("unsupported", f"Triton has no device here ({e}); name a target, or call "
                                  "dovetail.triton.software()", 422) from None
        _recorders.append(self._recorder)
        return self._recorder.graph

    def __exit__(self, kind: Any, *_: Any) -> None:
        _recorders.remove(self._recorder)
        if self._arch is not None:
            driver.restore(self._before)
        if kind is None:
            self._recorder.finish()


def _arch(target: Union[str, int]) -> int:
    text = str(target)
    digits = text[3:].rstrip("af") if text.startswith("sm_") else text
    if not digits.isdigit() or not 75 <= int(digits) < 200:
        raise errors.usage(f"a target is sm_75, sm_80, sm_90 …, not {target!r}")
    return int(digits)
