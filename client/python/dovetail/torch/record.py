"""What a group ran, as a graph. Tensors become buffers by the storage that they lie in, whole; views are offsets.

Roles are not guessed. `intermediate`: the wrapper allocates it in the group and deletes it there, by each of its names,
and no other name has its storage. `output`: it allocates it there. What comes from outside is an `input` if kernels
take it by parameters alone that Inductor calls `in_ptrN` and does not list as mutated; else `inout`, whose bytes are
compared whether or not they are written. No content leaves the process: numbers with fractions get a uniform fill,
others zeros.
"""
from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Tuple

from .. import errors
from ..graph import Graph, Scalar
from ..triton import driver, params
from . import kernels
from .wrapper import Group

BYTES_MAX = 4 << 30  # of all buffers: what verifying may fill
FILLS = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}


def is_tensor(v: Any) -> bool:
    return hasattr(v, "untyped_storage")


def storage(t: Any) -> Tuple[int, int]:
    """(address, bytes) of the memory that a tensor is a view of."""
    s = t.untyped_storage()
    return int(s.data_ptr()), int(s.nbytes())


class Recorded(NamedTuple):
    """graph: of the group. held: by buffer that its plan is bound to, which of Group.held lies in it. restartable: it
    may run again after a part of it ran, since it reads nothing that it writes."""
    graph: Graph
    held: Dict[str, int]
    restartable: bool


class _Memory:
    """A storage: its names in the group; who takes it how."""

    def __init__(self, size: int):
        self.bytes, self.dtype, self.written, self.used, self.align = size, "", False, False, 1
        self.names: List[str] = []


def _refuse(why: str) -> errors.Error:
    return errors.make("unsupported", why, 422)


def build(name: str, group: Group, values: Dict[str, Any], ran: List[Tuple[Any, kernels.Launch]]) -> Recorded:
    """values: by name, of Group.names. ran: each kernel and its launch, in order. Errors: `unsupported`."""
    for n in group.numeric:
        if is_tensor(values[n]):
            raise _refuse(f"the wrapper calculates with the tensor {n}")
    memory: Dict[int, _Memory] = {}
    for n in group.names:
        if n in values and is_tensor(values[n]):
            at, size = storage(values[n])
            m = memory.setdefault(at, _Memory(size))
            m.names.append(n)
            m.dtype = m.dtype or str(values[n].dtype).replace("torch.", "")
    g = Graph(name)
    steps = [_step(g, kernel, launch, memory) for kernel, launch in ran]
    held: Dict[str, int] = {}
    buffers: Dict[int, str] = {}
    restartable = True
    for at, m in memory.items():
        if not m.used:
            continue
        role = _role(group, m)
        buffers[at] = m.names[0]
        if role != "intermediate":
            held[m.names[0]] = next(group.held.index(n) for n in m.names if n in group.held)
        restartable = restartable and role != "inout"
        kind = FILLS.get(m.dtype)
        g.buffer(m.names[0], m.bytes, role=role, fill=("uniform", -1, 1, kind) if kind else "zero",
                 seed=len(g.buffers) + 1)
        if m.align > 1:
            g.align[m.names[0]] = m.align
    if sum(b["bytes"] for b in g.buffers.values()) > BYTES_MAX:
        raise _refuse(f"its buffers have more than {BYTES_MAX >> 30} GiB")
    for step in steps:
        step["args"] = [_place(g, a, buffers) if isinstance(a, tuple) else a for a in step["args"]]
        g._step(step["entry"], step, None)
    return Recorded(g, held, restartable)


def _role(group: Group, m: _Memory) -> str:
    ours = [n for n in m.names if n in group.allocated]
    gone = set(group.intermediates)
    if ours and all(n in gone for n in m.names):
        return "intermediate"
    if any(n in gone for n in m.names):
        raise _refuse(f"{m.names[0]} is deleted, and seen under another name")
    if ours:
        return "output"
    return "inout" if m.written else "input"


def _writes(kernel: Any, p: params.Param) -> bool:
    """May the kernel write through it? Inductor names what it only reads in_ptr0, in_ptr1 …"""
    mutated = (getattr(kernel, "inductor_meta", None) or {}).get("mutated_arg_names")
    return mutated is None or p.name in mutated or not re.fullmatch(r"in_ptr\d+", p.name)


def _step(g: Graph, kernel: Any, launch: kernels.Launch, memory: Dict[int, _Memory]) -> Dict[str, Any]:
    module = next((k for k, v in g.document["modules"].items() if v["ptx"] == launch.ptx), None)
    if module is None:
        module, n = launch.entry, 1
        while module in g.document["modules"]:
            n += 1
            module = f"{launch.entry}-{n}"
        g.module(module, ptx=launch.ptx)
    args: List[Any] = []
    for p in launch.args:
        if not p.pointer:
            value: Any = p.number
            args.append(Scalar(p.kind, "0x%04x" % driver.bf16_bits(value) if p.kind == "bf16" else value)._argument())
        elif p.value is None:
            args.append({"u64": 0})
        else:
            args.append(_pointer(kernel, launch, p, memory))
    args += [("scratch", size) if size else {"u64": 0} for size in launch.scratch]
    return {"module": module, "entry": launch.entry, "grid": launch.grid, "block": [launch.block, 1, 1],
            "shared": launch.shared, **({"cluster": [launch.cluster, 1, 1]} if launch.cluster > 1 else {}),
            "args": args}


def _pointer(kernel: Any, launch: kernels.Launch, p: params.Param, memory: Dict[int, _Memory]) -> Tuple[Any, ...]:
    where = f"{launch.entry}: argument {p.name}"
    if not is_tensor(p.value):
        raise _refuse(f"{where} is a {type(p.value).__name__}, no tensor")
    at, size = storage(p.value)
    m = memory.get(at)
    if m is None:
        raise _refuse(f"{where} lies in memory that the group has no name for")
    if not size:
        raise _refuse(f"{where} is empty")
    m.used = True
    m.written = m.written or _writes(kernel, p)
    offset, align = params.address(p.value) - at, launch.divisible.get(p.name, 1)
    if align > 1 and offset % align == 0:
        m.align = max(m.align, align)
    return ("pointer", at, offset)


def _place(g: Graph, a: Tuple[Any, ...], buffers: Dict[int, str]) -> Dict[str, Any]:
    if a[0] == "scratch":
        n = 1
        while f"scratch-{n}" in g.buffers:
            n += 1
        return g.buffer(f"scratch-{n}", a[1], role="intermediate")._argument()
    return {"buffer": buffers[a[1]], **({"offset": a[2]} if a[2] else {})}
