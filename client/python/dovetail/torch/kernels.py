"""What one of Inductor's kernels gives to the driver: PTX, grid, threads, shared memory, arguments.

A kernel of a wrapper (CachingAutotuner) has, once it has been run, one launcher: a small function that Inductor
generated. It calculates the grid and calls `runner`, a global of its own. Here a copy of it is called whose `runner`
only writes down what it is given: so grid and arguments are those of the launch, and nothing is calculated again.

There are two kinds of launcher: Triton's own, whose kernel has its PTX; and Inductor's static one, which forgets all
but the machine code. Its PTX is read beside that, in Triton's cache, by the launcher's key.

Not taken, and refused by name: kernels with several launchers left (not tuned yet), tensor descriptors of the host,
cooperative launches, kernels that are launched through a hook of their own (`extra_launcher_args` are part of the
grid's calculation, and fine).
"""
from __future__ import annotations

import json
import os
import types
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from .. import errors
from ..triton import params

_BEFORE = 9  # what Triton's runner takes before the kernel's arguments: grid, stream, function, 2 metadata, 2 hooks


class Launch(NamedTuple):
    """args: the parameters with their values. divisible: by argument, what its code relies on. scratch: bytes behind
    each hidden pointer."""
    entry: str
    ptx: str
    grid: List[int]
    block: int
    shared: int
    cluster: int
    args: List[params.Param]
    divisible: Dict[str, int]
    scratch: List[int]


def _refuse(kernel: Any, why: str) -> errors.Error:
    return errors.make("unsupported", f"{name(kernel)}: {why}", 422)


def name(kernel: Any) -> str:
    return str(getattr(getattr(kernel, "fn", None), "__name__", None) or
               (getattr(kernel, "inductor_meta", None) or {}).get("kernel_name") or type(kernel).__name__)


def _called(launcher: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Any, ...]:
    """What the launcher would give to its runner."""
    seen: List[Tuple[Any, ...]] = []
    code, scope = launcher.__code__, launcher.__globals__
    copy = types.FunctionType(code, {**scope, "runner": lambda *a: seen.append(a)}, launcher.__name__,
                              launcher.__defaults__, launcher.__closure__)
    copy(*args, **{**kwargs, "stream": 0})
    (given,) = seen
    return given


def describe(kernel: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Launch:
    """A launch `kernel.run(*args, **kwargs)` of a kernel that has been run. Errors: `unsupported`."""
    launchers = list(getattr(kernel, "launchers", None) or ())
    if len(launchers) != 1:
        raise _refuse(kernel, f"it has {len(launchers)} launchers, not one")
    launcher = launchers[0]
    if "runner" not in getattr(launcher, "__globals__", {}) or not isinstance(launcher, types.FunctionType):
        raise _refuse(kernel, f"its launcher is a {type(launcher).__name__}, which is not known")
    if (getattr(kernel, "inductor_meta", None) or {}).get("host_tma_descriptor_args"):
        raise _refuse(kernel, "tensor descriptors of the host")
    kwargs = {k: v for k, v in kwargs.items() if k != "stream"}
    given = _called(launcher, args, kwargs)
    grid = [int(n) for n in given[:3]]
    if "bin" in launcher.__globals__:
        return _of_triton(kernel, launcher.__globals__["bin"], grid, given[_BEFORE:])
    static = getattr(launcher.__globals__["runner"], "__self__", None)
    if not hasattr(static, "full_constexprs"):
        raise _refuse(kernel, "its launcher is of a kind that is not known")
    return _of_static(kernel, launcher, static, grid, given[4:])


def _launch(kernel: Any, ptx: str, metadata: Any, grid: List[int], warps: int, shared: int,
            bound: Any, divisible: Dict[str, int]) -> Launch:
    if getattr(metadata, "launch_cooperative_grid", False):
        raise _refuse(kernel, "it is launched cooperatively")
    entry, given, hidden = bound
    n = params.cluster(metadata)
    known = {p.name for p in given}
    return Launch(entry.name, ptx, [grid[0] * n, *grid[1:]], entry.threads or 32 * warps, shared, n, given,
                  {k: v for k, v in divisible.items() if k in known}, params.scratch(metadata, entry, hidden, grid))


def _of_triton(kernel: Any, binary: Any, grid: List[int], given: Tuple[Any, ...]) -> Launch:
    src, meta = binary.src, binary.metadata
    names = list(src.fn.arg_names)
    if len(given) != len(names):  # before 3.3 of Triton, without what is declared constexpr
        fixed = {names[i] if isinstance(i, int) else i for i in src.fn.constexprs}
        names = [n for n in names if n not in fixed]
    if len(given) != len(names):
        raise _refuse(kernel, f"{len(given)} arguments for {len(names)} names")
    text = binary.asm["ptx"]
    ptx = params.stamp(text if isinstance(text, str) else bytes(text).decode())
    entry = params.entry(ptx)
    bound = (entry, *params.bind(src, entry, dict(zip(names, given))))
    return _launch(kernel, ptx, meta, grid, int(meta.num_warps), int(meta.shared), bound, params.divisible(src))


def _of_static(kernel: Any, launcher: Any, static: Any, grid: List[int], given: Tuple[Any, ...]) -> Launch:
    folder = _cache(kernel, launcher.cache_hash)
    try:
        with open(os.path.join(folder, static.name + ".ptx"), encoding="utf-8") as f:
            ptx = params.stamp(f.read())
        with open(os.path.join(folder, static.name + ".json"), encoding="utf-8") as f:
            metadata = types.SimpleNamespace(**json.load(f))
    except (OSError, ValueError) as e:
        raise _refuse(kernel, f"its PTX is not in Triton's cache: {e}") from None
    names = [n for i, n in enumerate(static.arg_names) if i not in static.full_constexprs]
    signature = dict(_compiled(kernel).get("signature", {}))
    entry = params.entry(ptx)
    if len(names) != len(given) or any(n not in signature for n in names):
        raise _refuse(kernel, f"{len(given)} arguments for {len(names)} names")
    hidden = len(entry.bytes) - len(names)
    if not 0 <= hidden <= 2 or any(n != 8 for n in entry.bytes[len(names):]):
        raise _refuse(kernel, f"its PTX takes {len(entry.bytes)} parameters for {len(names)} arguments")
    bound = [params.Param(n, signature[n], v, entry.bytes[i]) for i, (n, v) in enumerate(zip(names, given))]
    for p in bound:
        if p.type.startswith("tensordesc") or p.type == "nvTmaDesc":
            raise _refuse(kernel, f"argument {p.name} is a tensor descriptor of the host")
    return _launch(kernel, ptx, metadata, grid, int(static.num_warps), int(static.shared), (entry, bound, hidden),
                   _divisible(list(static.arg_names), _compiled(kernel)))


def _compiled(kernel: Any) -> Dict[str, Any]:
    """Of a kernel with one configuration left: what it was compiled with."""
    results = list(getattr(kernel, "compile_results", None) or ())
    return dict(results[0].compile_meta) if len(results) == 1 else dict(getattr(kernel, "triton_meta", None) or {})


def _divisible(names: List[str], meta: Dict[str, Any]) -> Dict[str, int]:
    configs = meta.get("configs") or [None]
    return params.divisible(types.SimpleNamespace(fn=types.SimpleNamespace(arg_names=names), attrs=configs[0]))


def _cache(kernel: Any, key: str) -> str:
    """The folder in Triton's cache."""
    from torch._inductor.runtime.cache_dir_utils import triton_cache_dir
    device: Optional[int] = getattr(getattr(kernel, "device_props", None), "index", None)
    return os.path.join(triton_cache_dir(device or 0), key)
