"""What a compiled Triton kernel takes: the parameters of its PTX entry, and what goes into each.

Triton passes the arguments that are no constants, in the order of the function; an argument that is 1, None, or
declared constexpr is a constant, and not passed. Behind them the PTX has hidden pointers, none to two by the release:
scratch memory of the whole grid, and that of a profiler. How many there are, the PTX says.
"""
from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Tuple

from .. import errors
from . import descriptors

FLOATS = {"fp16": "f16", "bf16": "bf16", "fp32": "f32", "f32": "f32", "fp64": "f64"}
POINTEES = {"fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64", "i1": "u8", "u1": "u8", **{
    k: k for k in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")}}


NEWEST_PTX = (9, 0)  # what LLVM is asked for at most, by every known release


def stamp(ptx: str) -> str:
    """The text with a `.version` of at most NEWEST_PTX. Triton writes that of the ptxas that it has there, whatever
    LLVM made; assemblers of older toolkits would refuse it for nothing."""
    m = re.search(r"^\.version (\d+)\.(\d+)", ptx, re.M)
    if not m or (int(m[1]), int(m[2])) <= NEWEST_PTX:
        return ptx
    return ptx[:m.start()] + ".version %d.%d" % NEWEST_PTX + ptx[m.end():]


class Entry(NamedTuple):
    """An entry of PTX text: bytes of each parameter; threads that it requires (None: it does not say)."""
    name: str
    bytes: List[int]
    threads: Any


class Param(NamedTuple):
    """An argument that is passed: name, Triton's type ("*fp32", "i32"), value; bytes of the parameter."""
    name: str
    type: str
    value: Any
    bytes: int

    @property
    def pointer(self) -> bool:
        return self.type.startswith("*")

    @property
    def kind(self) -> str:
        """The graph's kind of a scalar, as wide as the parameter."""
        bits = 8 * self.bytes
        if self.type in FLOATS:
            return FLOATS[self.type] if bits == 16 else {32: "f32", 64: "f64"}[bits]
        return ("i" if self.type.startswith("i") and self.type != "i1" else "u") + str(bits)

    @property
    def number(self) -> Any:
        """The scalar's value, wrapped into its kind."""
        if self.type in FLOATS:
            return float(self.value)
        v, bits = int(self.value) & ((1 << 8 * self.bytes) - 1), 8 * self.bytes
        return v - (1 << bits) if self.kind[0] == "i" and v >> (bits - 1) else v


def entry(ptx: str) -> Entry:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", ptx, flags=re.S)
    found = re.findall(r"\.entry\s+([\w$]+)\s*\((.*?)\)([^{]*)\{", text, re.S)
    if len(found) != 1:
        raise errors.make("unsupported", f"the kernel's PTX has {len(found)} entries", 422)
    name, params, directives = found[0]
    sizes = []
    for p in filter(str.strip, params.split(",")):
        m = re.search(r"\.([busf])(\d+)\b(?:.*\[(\d+)\]\s*$)?", p.strip(), re.S)
        if not m:
            raise errors.make("unsupported", f"parameter of {name}: {p.strip()}", 422)
        sizes.append(int(m[2]) // 8 * int(m[3] or 1))
    need = re.search(r"\.(?:reqntid|maxntid)\s+(\d+)", directives)
    return Entry(name, sizes, int(need[1]) if need else None)


def _index(key: Any, names: List[str]) -> Any:
    """A constant's key by release: a name, a number, or a path of numbers. The argument's number."""
    if isinstance(key, str):
        return names.index(key)
    if isinstance(key, tuple):
        return key[0] if len(key) == 1 else None
    return key


def constants(src: Any) -> Dict[str, Any]:
    """Arguments that are constants of the compiled kernel, with their values."""
    names = list(src.fn.arg_names)
    found = {names[i]: v for k, v in (src.constants or {}).items() for i in [_index(k, names)] if i is not None}
    for k, t in src.signature.items():
        if t == "constexpr":
            found.setdefault(names[_index(k, names)], None)
    return found


def passed(src: Any) -> List[Tuple[str, str]]:
    """(name, type) of what is passed, in order."""
    names = list(src.fn.arg_names)
    types = {names[_index(k, names)]: t for k, t in src.signature.items()}
    gone = constants(src)
    found = [(n, types[n]) for n in names if n in types and n not in gone]
    for name, type in found:
        if not isinstance(type, str):
            raise errors.make("unsupported", f"argument {name} is a tuple", 422)
        if type == "nvTmaDesc" or (descriptors.is_descriptor(type) and not _knows_descriptors()):
            raise errors.make("unsupported", f"argument {name} is a tensor descriptor of the host", 422)
    return found


def _knows_descriptors() -> bool:
    """Does this release's compiler say how it wants tensor maps (3.4 and later)?"""
    from .versions import triton
    return tuple(int(n) for n in triton().__version__.split(".")[:2]) >= (3, 4)


def bind(src: Any, e: Entry, values: Dict[str, Any], metadata: Any = None) -> Tuple[List[Param], int]:
    """The arguments with their values, descriptors as what they are passed as; and how many hidden pointers are behind
    them."""
    args, choices = [], list(getattr(metadata, "tensordesc_meta", None) or ())
    for n, t in passed(src):
        if not descriptors.is_descriptor(t):
            args.append((n, t, values[n]))
            continue
        args += descriptors.expand(n, t, values[n], choices.pop(0) if choices else None)
    hidden = len(e.bytes) - len(args)
    if not 0 <= hidden <= 2 or any(n != 8 for n in e.bytes[len(args):]):
        raise errors.make("unsupported", f"{e.name} takes {len(e.bytes)} parameters for {len(args)} arguments", 422)
    return [Param(n, t, v, e.bytes[i]) for i, (n, t, v) in enumerate(args)], hidden


def address(value: Any) -> int:
    """A pointer argument's address."""
    if value is None:
        return 0
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    return int(value)


def divisible(src: Any) -> Dict[str, int]:
    """By argument, what Triton took its value to be divisible by (pointers: bytes)."""
    names, attrs = list(src.fn.arg_names), getattr(src, "attrs", None)
    old = getattr(attrs, "divisible_by_16", None)
    if old is None:
        old = getattr(attrs, "arg_properties", {}).get("tt.divisibility")
    if old is not None:
        return {names[_index(i, names)]: 16 for i in old}
    found = {}
    for path, how in (attrs.items() if isinstance(attrs, dict) else ()):
        for word, n in how:
            i = _index(path, names)
            if word == "tt.divisibility" and i is not None:
                found[names[i]] = int(n)
    return found


def grid3(grid: Any, values: Dict[str, Any]) -> List[int]:
    g = grid(values) if callable(grid) else grid
    g = [int(n) for n in ((g,) if isinstance(g, int) else g)]
    return (g + [1, 1])[:3]


def cluster(metadata: Any) -> int:
    """Blocks of a cluster: they are added along x."""
    dims = getattr(metadata, "cluster_dims", None)
    if dims and tuple(dims)[1:] not in ((1, 1), ()):
        raise errors.make("unsupported", f"a cluster of {tuple(dims)}", 422)
    return int(dims[0]) if dims else int(getattr(metadata, "num_ctas", 1) or 1)


def scratch(metadata: Any, e: Entry, hidden: int, grid: List[int]) -> List[int]:
    """Bytes behind each hidden pointer; 0: it is null."""
    blocks = grid[0] * grid[1] * grid[2] * cluster(metadata)
    sizes = [getattr(metadata, n, 0) or 0 for n in ("global_scratch_size", "profile_scratch_size")]
    return [blocks * n for n in sizes[:hidden]]
