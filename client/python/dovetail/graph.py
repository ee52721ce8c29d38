"""The graph document (docs/CONTRACT.md §2), built, loaded and saved.

    g = Graph("ffn")
    m = g.module("m", cuda=source)
    x = g.buffer("x", 4096, role="input", fill=("uniform", -1, 1, "f32"))
    y = g.buffer("y", 4096, role="output")
    g.launch(m, "scale", grid=16, block=64, args=[x, y, dovetail.f32(2)])

What a document may hold is checked by whoever reads it; here is checked what Python alone can say wrong.
"""
from __future__ import annotations

import base64
import ctypes
import json
import math
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import errors, files

ROLES = ("input", "weight", "intermediate", "output", "inout")
DTYPES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "f16": 2, "bf16": 2, "f32": 4,
          "f64": 8}


class Buffer:
    """A buffer of a graph, as an argument of launches; `b.at(64)` and `b + 64` are 64 bytes into it."""

    def __init__(self, name: str, bytes: int, offset: int = 0):  # noqa: A002 (the document's word)
        self.name, self.bytes, self.offset = name, bytes, offset

    def at(self, offset: int) -> "Buffer":
        """offset: bytes, from here."""
        return Buffer(self.name, self.bytes, self.offset + offset)

    __add__ = at

    def __repr__(self) -> str:
        return f"Buffer({self.name!r}, {self.bytes}{', offset=%d' % self.offset if self.offset else ''})"

    def _argument(self) -> Dict[str, Any]:
        return {"buffer": self.name, **({"offset": self.offset} if self.offset else {})}


class Scalar:
    """A scalar argument of a kind: `i32(5)`, `f32(1.5)`; `Scalar("f32", "0x7fc00000")` by its bits."""

    def __init__(self, kind: str, value: Union[int, float, str]):
        if kind not in DTYPES:
            raise errors.usage(f"no kind of scalar is called {kind!r}")
        if isinstance(value, float) and not math.isfinite(value):
            value = _bits(kind, value)
        self.kind, self.value = kind, value

    def __repr__(self) -> str:
        return f"{self.kind}({self.value!r})"

    def _argument(self) -> Dict[str, Any]:
        return {self.kind: self.value}


def _bits(kind: str, value: float) -> str:
    """Of what JSON has no word for."""
    import struct
    if kind == "bf16":
        return "0x%04x" % (struct.unpack("<I", struct.pack("<f", value))[0] >> 16)
    form = {"f16": ("<e", "<H", 4), "f32": ("<f", "<I", 8), "f64": ("<d", "<Q", 16)}.get(kind)
    if not form:
        raise errors.usage(f"{value} is no {kind}")
    return "0x%0*x" % (form[2], struct.unpack(form[1], struct.pack(form[0], value))[0])


class _Other:
    def __init__(self, document: Dict[str, Any]):
        self.document = document

    def _argument(self) -> Dict[str, Any]:
        return self.document


def i8(v: int) -> Scalar: return Scalar("i8", int(v))
def i16(v: int) -> Scalar: return Scalar("i16", int(v))
def i32(v: int) -> Scalar: return Scalar("i32", int(v))
def i64(v: int) -> Scalar: return Scalar("i64", int(v))
def u8(v: int) -> Scalar: return Scalar("u8", int(v))
def u16(v: int) -> Scalar: return Scalar("u16", int(v))
def u32(v: int) -> Scalar: return Scalar("u32", int(v))
def u64(v: int) -> Scalar: return Scalar("u64", int(v))
def f16(v: float) -> Scalar: return Scalar("f16", float(v))
def bf16(v: float) -> Scalar: return Scalar("bf16", float(v))
def f32(v: float) -> Scalar: return Scalar("f32", float(v))
def f64(v: float) -> Scalar: return Scalar("f64", float(v))


def raw(data: bytes, pointers: Sequence[Tuple[int, Buffer]] = ()) -> _Other:
    """A struct by value. pointers: (offset in data, buffer) pairs, where an address is patched in."""
    patches = [{"at": at, **b._argument()} for at, b in pointers]
    return _Other({"bytes": bytes(data).hex(), **({"pointers": patches} if patches else {})})


def tensor_map(buffer: Buffer, **fields: Any) -> _Other:
    """A tensor map: the fields of cuTensorMapEncodeTiled by cuda.h's names."""
    return _Other({"tensor_map": {**fields, **buffer._argument()}})


_CTYPES = {ctypes.c_int8: "i8", ctypes.c_int16: "i16", ctypes.c_int32: "i32", ctypes.c_int64: "i64",
           ctypes.c_uint8: "u8", ctypes.c_uint16: "u16", ctypes.c_uint32: "u32", ctypes.c_uint64: "u64",
           ctypes.c_float: "f32", ctypes.c_double: "f64"}
_NUMPY = {"int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
          "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64"}


def _argument(a: Any) -> Dict[str, Any]:
    if isinstance(a, dict):
        return a
    if hasattr(a, "_argument"):
        return a._argument()
    kind = _CTYPES.get(type(a))
    if kind:
        return Scalar(kind, a.value)._argument()
    kind = _NUMPY.get(getattr(getattr(a, "dtype", None), "name", ""))
    if kind and getattr(a, "shape", None) == ():
        return Scalar(kind, a.item())._argument()
    raise errors.usage(f"{a!r} is no argument of a kernel: a Buffer, a scalar with its kind (dovetail.i32(5), "
                       "numpy.float32(1.5), ctypes.c_int(3)), dovetail.raw or dovetail.tensor_map")


def _three(v: Union[int, Sequence[int]], what: str) -> List[int]:
    try:
        t = [int(v)] if isinstance(v, int) or hasattr(v, "__index__") else [int(x) for x in v]  # type: ignore
    except TypeError:
        t = []
    if not 1 <= len(t) <= 3:
        raise errors.usage(f"{what} is one to three numbers, not {v!r}")
    return t + [1] * (3 - len(t))


class Graph:
    """A graph of kernel launches: modules, buffers, and launches in the order of one stream.

    document: the graph document (docs/CONTRACT.md §2), which everything here reads and writes.
    align: by buffer, bytes that the kernels rely on, where somebody knows (a capture of Triton's kernels does). It is
        no part of the document: plans that are made of this Graph get it into what they assume, and ask for it.
    """

    def __init__(self, name: str = "graph", document: Optional[Dict[str, Any]] = None):
        self.document: Dict[str, Any] = document if document is not None else {
            "dovetail": 1, "name": name, "modules": {}, "buffers": {}, "launches": []}
        self.align: Dict[str, int] = {}

    # -- files -------------------------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"]) -> "Graph":
        """Read a graph document. Modules `{"file": "k.cu"}` get the file's text, and buffers with
        `"data": {"file": "x.npy"}` the file's content, from the graph's folder. A file that ends in .npy is an array
        (numpy is not needed), whose size, and dtype where one is given, must be the buffer's; any other is its bytes.

        Errors: `bad-json`, `bad-graph` (GraphError) with a pointer; OSError if `path` cannot be read.
        """
        with open(path, encoding="utf-8") as f:
            try:
                doc = json.load(f)
            except ValueError as e:
                raise errors.make("bad-json", f"{os.fspath(path)}: {e}") from None
        if not isinstance(doc, dict):
            raise errors.make("bad-json", f"{os.fspath(path)}: no object", pointer="")
        folder = os.path.dirname(os.fspath(path))
        for name, m in (doc.get("modules") or {}).items() if isinstance(doc.get("modules"), dict) else ():
            _resolve(folder, name, m)
        for name, b in (doc.get("buffers") or {}).items() if isinstance(doc.get("buffers"), dict) else ():
            files.inline(folder, name, b)
        return cls(document=doc)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Write the document as JSON; `load` gives it back, and the command line reads it."""
        with open(path, "w", encoding="utf-8") as f:
            json.dump(self.document, f, indent=1)
            f.write("\n")

    def dumps(self) -> bytes:
        """The document as JSON text, the same for the same graph. Errors: `usage` for what JSON cannot hold."""
        try:
            return json.dumps(self.document, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError) as e:
            raise errors.usage(f"the graph holds what JSON does not: {e}") from None

    # -- building ----------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.document.get("name", "")

    @property
    def buffers(self) -> Dict[str, Any]:
        """The document's buffers by name."""
        return self.document["buffers"]

    @property
    def launches(self) -> List[Dict[str, Any]]:
        """The document's steps: launches, memsets, copies."""
        return self.document["launches"]

    def _add(self, where: str, name: str, what: Dict[str, Any]) -> None:
        if name in self.document[where]:
            raise errors.usage(f"{where}: there is a '{name}' already")
        self.document[where][name] = what

    def module(self, name: str, *, cuda: Optional[str] = None, ptx: Optional[str] = None,
               options: Sequence[str] = ()) -> str:
        """Add a module, CUDA C++ or PTX text; its name comes back. options: of NVRTC, allow-listed."""
        if (cuda is None) == (ptx is None):
            raise errors.usage("a module is either cuda= or ptx=")
        self._add("modules", name, {"ptx": ptx} if cuda is None else {
            "cuda": cuda, **({"options": list(options)} if options else {})})
        return name

    def buffer(self, name: str, bytes: int, *, role: str, fill: Any = None, data: Any = None,  # noqa: A002
               constant: bool = False, seed: int = 0) -> Buffer:
        """Add a buffer of so many bytes.

        role: input, weight, intermediate (nobody outside reads it), output, inout.
        fill: what `run` starts with: "zero", ("uniform", lo, hi, dtype), or the document's own form.
        data: its content instead: any bytes-like object of `bytes` bytes.
        constant: the content is part of the graph's identity (inputs and weights only).
        """
        if role not in ROLES:
            raise errors.usage(f"a role is one of {', '.join(ROLES)}, not {role!r}")
        what: Dict[str, Any] = {"bytes": int(bytes), "role": role}
        if data is not None:
            text = memoryview(data).cast("B")
            if len(text) != what["bytes"]:
                raise errors.usage(f"buffer {name} has {bytes} bytes, its data {len(text)}")
            what["data"] = base64.b64encode(text).decode()
        elif fill == "zero":
            what["fill"] = {"zero": True}
        elif isinstance(fill, (tuple, list)):
            if len(fill) != 4 or fill[0] != "uniform" or fill[3] not in DTYPES:
                raise errors.usage(f"a fill is 'zero' or ('uniform', lo, hi, dtype), not {fill!r}")
            what["fill"] = {"uniform": [fill[1], fill[2]], "dtype": fill[3], "seed": seed}
        elif fill is not None:
            what["fill"] = fill
        if constant:
            what["constant"] = True
        self._add("buffers", name, what)
        return Buffer(name, what["bytes"])

    def __getitem__(self, name: str) -> Buffer:
        """The buffer of this name. Errors: KeyError."""
        return Buffer(name, self.buffers[name]["bytes"])

    def _step(self, kind: str, step: Dict[str, Any], name: Optional[str]) -> str:
        names = {s.get("name") for s in self.launches}
        if name is None:
            name, n = kind, 1
            while name in names:
                n += 1
                name = f"{kind}-{n}"
        elif name in names:
            raise errors.usage(f"launches: there is a '{name}' already")
        self.launches.append({"name": name, **step})
        return name

    def launch(self, module: str, entry: str, *, grid: Union[int, Sequence[int]], block: Union[int, Sequence[int]],
               args: Sequence[Any] = (), shared: int = 0, cluster: Union[None, int, Sequence[int]] = None,
               name: Optional[str] = None) -> str:
        """Add a launch; its name comes back.

        grid, block, cluster: one to three numbers: blocks, threads a block, blocks a cluster.
        args: buffers, scalars with their kind, `raw`, `tensor_map`. shared: dynamic shared memory, bytes.
        """
        if module not in self.document["modules"]:
            raise errors.usage(f"there is no module '{module}'")
        step: Dict[str, Any] = {"module": module, "entry": entry, "grid": _three(grid, "grid"),
                                "block": _three(block, "block")}
        if cluster is not None:
            step["cluster"] = _three(cluster, "cluster")
        step.update(shared=int(shared), args=[_argument(a) for a in args])
        return self._step(entry, step, name)

    def memset(self, buffer: Buffer, *, value: int = 0, bytes: Optional[int] = None,  # noqa: A002
               name: Optional[str] = None) -> str:
        """Add a memset of so many bytes (default: to the buffer's end) to one byte value."""
        n = buffer.bytes - buffer.offset if bytes is None else int(bytes)
        return self._step("memset", {"memset": {"buffer": buffer.name, "offset": buffer.offset, "bytes": n,
                                                "value": value}}, name)

    def copy(self, source: Buffer, to: Buffer, *, bytes: Optional[int] = None,  # noqa: A002
             name: Optional[str] = None) -> str:
        """Add a copy of so many bytes (default: as many as both have)."""
        n = min(source.bytes - source.offset, to.bytes - to.offset) if bytes is None else int(bytes)
        return self._step("copy", {"copy": {"from": source._argument(), "to": to._argument(), "bytes": n}}, name)

    def roles(self, **roles: str) -> "Graph":
        """Say what buffers are: `g.roles(x="input", h="intermediate")`."""
        for name, role in roles.items():
            if role not in ROLES:
                raise errors.usage(f"a role is one of {', '.join(ROLES)}, not {role!r}")
            if name not in self.buffers:
                raise errors.usage(f"there is no buffer '{name}'")
            self.buffers[name]["role"] = role
        return self

    def __repr__(self) -> str:
        return f"<dovetail.Graph {self.name!r}: {len(self.launches)} launches, {len(self.buffers)} buffers>"


def _resolve(folder: str, name: str, module: Any) -> None:
    """{"file": "k.cu"} and {"cuda": {"file": …}} become the file's text, as the command line does."""
    if not isinstance(module, dict):
        return
    holder, kind = module, None
    for k in ("cuda", "ptx"):
        if isinstance(module.get(k), dict):
            holder, kind = module[k], k
    file = holder.get("file")
    if not isinstance(file, str):
        return
    try:
        with open(os.path.join(folder, file), encoding="utf-8") as f:
            text = f.read()
    except (OSError, UnicodeDecodeError) as e:
        at = f"/modules/{name.replace('~', '~0').replace('/', '~1')}" + (f"/{kind}" if kind else "") + "/file"
        raise errors.make("bad-graph", str(e), 422, pointer=at) from None
    module.pop("file", None)
    module[kind or ("ptx" if file.endswith(".ptx") else "cuda")] = text


def as_document(graph: Any) -> bytes:
    """The JSON text of a Graph, a Plan, or a document as a dict."""
    if isinstance(graph, Graph):
        return graph.dumps()
    return Graph(document=graph if isinstance(graph, dict) else graph.document).dumps()
