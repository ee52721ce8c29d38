"""Drivers for Triton: one whose device is the software device, and one that only compiles for a named target.

Triton loads cubins, made of PTX by ptxas. For these drivers the last stage hands the PTX on instead: the software
device executes PTX, and needs neither ptxas nor a C compiler for launchers, since kernels are launched from here by
ctypes. What Triton keeps in its cache is then PTX in a cubin's place: the backend's part of the key is another one.

Host tensors (torch on the CPU) are pointers that no device knows: their memory is registered with the device for the
length of the launch.
"""
from __future__ import annotations

import ctypes
import inspect
import itertools
import re
from ctypes import byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_ulonglong, c_void_p
from typing import Any, Dict, List, Optional, Tuple

from .. import cuda, errors, native
from . import params
from .descriptors import TensorMap
from .versions import triton

_FAULTS = {700: "out-of-bounds", 716: "out-of-bounds", 710: "trap", 719: "trap", 702: "deadlock"}


class Fault(errors.GraphError):
    """A kernel did what it must not on the software device. kernel, block, thread; `source`: "PATH:12" of the
    kernel's source, where the PTX says it; `kind`: "race", "uninit", "barrier", or "" of other faults."""
    kernel: str = ""
    block: Tuple[int, ...] = ()
    thread: Tuple[int, ...] = ()
    source: Optional[str] = None
    kind: str = ""


class _FaultText(ctypes.Structure):
    """struct dovetail_fault of softgpu/libcuda/extension.h, as far as `text` and `place`"""
    _fields_ = [("num", c_int), ("kernel", c_char * 256), ("block", c_uint32 * 3), ("thread", c_uint32 * 3),
                ("line", c_uint32), ("bytes", c_uint32), ("address", c_uint64), ("text", c_char * 1280),
                ("kind", c_char * 16), ("place", c_char * 160), ("rest", c_char * 256)]


class _Config(ctypes.Structure):
    """CUlaunchConfig"""
    _fields_ = [("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint), ("stream", c_void_p),
                ("attrs", c_void_p), ("n", c_uint)]


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute"""
    _fields_ = [("id", c_uint), ("pad", c_uint), ("value", c_uint * 16)]


def source_line(ptx: str, line: int) -> Optional[str]:
    """Of a line of PTX: the last .loc before it, as "file:line"."""
    files, at = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', ptx, re.M)), None
    for text in ptx.split("\n")[:line]:
        m = re.match(r"\s*\.loc\s+(\d+)\s+(\d+)", text)
        if m and m[2] != "0":
            at = f"{files.get(m[1], '?')}:{m[2]}"
        elif text.startswith("}"):
            at = None
    return at


# ---- the backend -----------------------------------------------------------------------------------------------------

def _ours() -> bool:
    return isinstance(_active(), _Base)


def _active() -> Any:
    config = triton().runtime.driver
    return config.__dict__.get("_active", config.__dict__.get("active"))


_patched = False


def patch() -> None:
    """Once: the CUDA backend hands PTX on while one of our drivers is active; the autotuner's clock is the model's."""
    global _patched
    if _patched:
        return
    triton()
    from triton.backends import backends
    from triton.runtime import autotuner
    CUDABackend = backends["nvidia"].compiler
    stages_of, hash_of = CUDABackend.add_stages, CUDABackend.hash

    def add_stages(self: Any, stages: Any, *args: Any) -> None:
        stages_of(self, stages, *args)
        if _ours():
            stages["cubin"] = lambda src, metadata: params.stamp(str(src)).encode() + b"\0"

    CUDABackend.add_stages = add_stages
    CUDABackend.hash = lambda self: hash_of(self) + ("-dovetail" if _ours() else "")
    bench = getattr(autotuner, "do_bench", None)
    if bench is not None:  # before drivers had a benchmarker
        autotuner.do_bench = lambda *a, **k: _active().get_benchmarker()(*a, **k) if _ours() else bench(*a, **k)
    _patched = True


def activate(driver: Any) -> Any:
    """Make it Triton's driver; what was before comes back, for `restore`."""
    patch()
    before = _active()
    triton().runtime.driver.set_active(driver)
    return before


def restore(before: Any) -> None:
    config = triton().runtime.driver
    config.__dict__["_active" if "_active" in config.__dict__ else "active"] = before


class _Base:
    """What both drivers have in common, in the shape of Triton's DriverBase."""
    launches = True
    torch_device = "cpu"  # where tensors of an autotuner lie: "cuda" where PyTorch is on the software device, too

    def get_current_stream(self, device: Any) -> int:
        return 0

    def set_current_device(self, device: Any) -> None:
        pass

    @staticmethod
    def is_active() -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_active_torch_device(self) -> Any:
        import torch
        return torch.device(self.torch_device)

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget
        return GPUTarget("cuda", self.arch, 32)  # type: ignore[attr-defined]

    def get_device_capability(self, device: Any = None) -> Tuple[int, int]:
        return divmod(self.arch, 10)  # type: ignore[attr-defined]


def untimed(*_: Any, **__: Any) -> Any:
    raise errors.make("unsupported", "an autotuned kernel with several configurations cannot be timed without a "
                      "device: choose one, or take dovetail.triton.software()", 422)


class TargetDriver(_Base):
    """Compiles for an architecture, launches nothing. arch: 90 for sm_90."""
    launches = False

    def __init__(self, arch: int):
        self.arch = arch

    def get_current_device(self) -> Any:
        return f"sm_{self.arch}"  # a device of its own in Triton's caches

    def get_benchmarker(self) -> Any:
        return untimed


class _Utils:
    """Triton's `driver.active.utils` on the software device."""

    def __init__(self, driver: "SoftDriver"):
        self._driver = driver

    def get_device_properties(self, device: Any) -> Dict[str, int]:
        ask = self._driver.attribute
        return {"max_shared_mem": ask(97), "max_num_regs": ask(82), "multiprocessor_count": ask(16), "warpSize": 32,
                "sm_clock_rate": ask(13), "mem_clock_rate": ask(36), "mem_bus_width": ask(37)}

    def load_binary(self, name: str, kernel: bytes, shared: int, device: Any) -> Tuple[Any, ...]:
        cu, module, function = self._driver.cu, c_void_p(), c_void_p()
        log = ctypes.create_string_buffer(4096)
        options, values = (c_int * 2)(5, 6), (c_void_p * 2)(ctypes.addressof(log), len(log))
        status = cu.lib.cuModuleLoadDataEx(byref(module), c_char_p(bytes(kernel)), c_uint(2), options, values)
        if status != native.SUCCESS:
            problem = cu.error(status, f"kernel {name}").problem
            raise errors.of({**problem, "code": "bad-ptx", "status": 422, "log": log.value.decode(errors="replace")})
        cu.call("cuModuleGetFunction", byref(function), module, name.encode())
        if shared > 49152:
            cu.call("cuFuncSetAttribute", function, c_int(8), c_int(shared))
        text = bytes(kernel).rstrip(b"\0").decode()
        self._driver.texts[function.value] = (text, params.entry(text))
        return (module.value, function.value, 0, 0, 1024)[:self._driver.load_returns]

    def unload_module(self, module: Any) -> None:
        pass  # contexts are reset as a whole

    def set_printf_fifo_size(self, size: int) -> None:
        pass


_contexts = itertools.count()  # a number in Triton's caches for each: what was loaded is its own


class SoftDriver(_Base):
    """The software device. Launches are waited for, so that a fault is raised where its kernel was launched."""

    def __init__(self, model: Optional[str], check: str):
        cuda.software(model)
        self.cu, self.check, self.model = native.driver(), check, model
        self.faulted, self.generation, self.device = False, next(_contexts), self.cu.ordinal()
        self.texts: Dict[Any, Tuple[str, params.Entry]] = {}
        self.utils = _Utils(self)
        from triton.compiler.compiler import CompiledKernel
        self.load_returns = 5 if "n_max_threads" in inspect.getsource(CompiledKernel._init_handles) else 4
        self.arch = 10 * self.attribute(75) + self.attribute(76)
        self._checks()

    def _checks(self) -> None:
        if self.cu.extension("dovetailSetChecks", c_char_p)(self.check.encode()) != native.SUCCESS:
            raise errors.usage(f"checks are race, uninit, barrier, all, none, with commas; not '{self.check}'")

    def attribute(self, number: int) -> int:
        value = c_int()
        self.cu.call("cuDeviceGetAttribute", byref(value), c_int(number), c_int(self.device))
        return value.value

    def get_current_device(self) -> int:
        return self.generation

    def launcher_cls(self, src: Any, metadata: Any) -> Any:
        return _Launcher(self, src, metadata)

    def get_benchmarker(self) -> Any:
        return self.bench

    def bench(self, kernel_call: Any, quantiles: Any = None, return_mode: str = "mean", **_: Any) -> Any:
        """One launch, in milliseconds of the model (no measurement): the same every time."""
        begin, end, ms = c_void_p(), c_void_p(), ctypes.c_float()
        for e in begin, end:
            self.cu.call("cuEventCreate", byref(e), c_uint(0))
        self.cu.call("cuEventRecord", begin, None)
        kernel_call()
        self.cu.call("cuEventRecord", end, None)
        self.cu.call("cuEventSynchronize", end)
        self.cu.call("cuEventElapsedTime", byref(ms), begin, end)
        for e in begin, end:
            self.cu.call("cuEventDestroy_v2", e)
        return [ms.value] * len(quantiles) if quantiles else ms.value

    def reset(self) -> None:
        """A context that had a fault can do nothing more: begin anew. All memory of it is gone."""
        self.cu.call("cuDevicePrimaryCtxReset_v2", c_int(self.device))
        cuda.software(self.model)
        self._checks()
        self.faulted, self.generation = False, next(_contexts)
        self.texts.clear()

    def fault(self, status: int, function: int) -> errors.Error:
        self.faulted = True
        f, text = _FaultText(), self.texts[function][0]
        code = _FAULTS.get(status, "device")
        if self.cu.extension("dovetailGetFault", c_void_p)(ctypes.addressof(f)) != native.SUCCESS or not f.num:
            return self.cu.error(status, self.texts[function][1].name)
        kind = f.kind.decode()
        code = {"race": "race", "uninit": "uninitialised", "barrier": "barrier"}.get(kind, code)
        source = source_line(text, f.line)
        detail = f.text.decode(errors="replace") + (f", at {source}" if source else "")
        e = Fault({"type": "about:blank", "title": "a kernel failed", "status": 422, "code": code, "detail": detail})
        e.kernel, e.kind, e.source = f.kernel.decode(errors="replace"), kind, source
        e.block, e.thread = tuple(f.block), tuple(f.thread)
        return e


class _Launcher:
    """`kernel.run` of Triton: the same arguments as its own launchers."""

    def __init__(self, driver: SoftDriver, src: Any, metadata: Any):
        self.driver, self.src, self.metadata = driver, src, metadata

    def __call__(self, x: int, y: int, z: int, stream: Any, function: int, packed: Any, launch_metadata: Any,
                 enter: Any, leave: Any, *args: Any) -> None:
        names = list(self.src.fn.arg_names)
        if len(args) != len(names):  # before 3.2, without what is declared constexpr
            fixed = {names[i] if isinstance(i, int) else i for i in self.src.fn.constexprs}
            names = [n for n in names if n not in fixed]
        if getattr(self.metadata, "launch_cooperative_grid", False):
            raise errors.make("unsupported", f"{self.metadata.name} is launched cooperatively", 422)
        if 0 in (x, y, z):
            return
        if enter is not None:
            enter(launch_metadata)
        self._launch([x, y, z], function, dict(zip(names, args)), int(stream or 0))
        if leave is not None:
            leave(launch_metadata)

    def _launch(self, grid: List[int], function: int, values: Dict[str, Any], stream: int) -> None:
        cu, (_, entry) = self.driver.cu, self.driver.texts[function]
        bound, hidden = params.bind(self.src, entry, values, self.metadata)
        pieces: List[Any] = []
        registered: List[int] = []
        try:
            for p in bound:
                tensor = p.value.base if isinstance(p.value, TensorMap) else p.value
                at = params.address(tensor) if p.pointer or tensor is not p.value else None
                if at:
                    self._register(at, tensor, registered)
                pieces.append(_piece(p, at) if tensor is p.value else self._tensor_map(at or 0, p.value.fields))
            keep = [cuda.Array(n) if n else None for n in params.scratch(self.metadata, entry, hidden, grid)]
            pieces += [c_uint64(a.data_ptr() if a else 0) for a in keep]
            table = (c_void_p * max(len(pieces), 1))(*(ctypes.addressof(v) for v in pieces))
            status = self._start(grid, entry, function, table, stream)
            if status == native.SUCCESS:
                status = cu.lib.cuCtxSynchronize()
        finally:
            for at in registered:
                cu.lib.cuMemHostUnregister(c_void_p(at))
        if status != native.SUCCESS:
            raise self.driver.fault(status, function)

    def _start(self, grid: List[int], entry: params.Entry, function: int, table: Any, stream: int) -> int:
        n = params.cluster(self.metadata)
        attribute = _Attribute(id=4, value=(n, 1, 1))
        threads = entry.threads or 32 * self.metadata.num_warps
        config = _Config(grid=(grid[0] * n, grid[1], grid[2]), block=(threads, 1, 1), shared=self.metadata.shared,
                         stream=stream, attrs=ctypes.addressof(attribute), n=1 if n > 1 else 0)
        return int(self.driver.cu.lib.cuLaunchKernelEx(byref(config), c_void_p(function), table, None))

    def _tensor_map(self, at: int, fields: Dict[str, Any]) -> Any:
        """128 bytes, aligned to 64 of them, as the driver encodes them."""
        memory, n = (ctypes.c_ubyte * 192)(), fields["tensorRank"]
        there = ctypes.addressof(memory) + -ctypes.addressof(memory) % 64
        self.driver.cu.call(
            "cuTensorMapEncodeTiled", c_void_p(there), c_uint(fields["tensorDataType"]), c_uint(n), c_void_p(at),
            (c_uint64 * n)(*fields["globalDim"]), (c_uint64 * n)(*fields["globalStrides"]),
            (c_uint32 * n)(*fields["boxDim"]), (c_uint32 * n)(*[1] * n), c_uint(0), c_uint(fields["swizzle"]),
            c_uint(fields["l2Promotion"]), c_uint(fields["oobFill"]))
        piece = (ctypes.c_ubyte * 128).from_buffer_copy((ctypes.c_ubyte * 128).from_address(there))
        return piece

    def _register(self, at: int, tensor: Any, registered: List[int]) -> None:
        """Memory of the host, for this launch."""
        cu = self.driver.cu
        if cu.pointer(native.POINTER_MEMORY_TYPE, at) is not None:
            return
        start, size = extent(tensor)
        if size and start not in registered:
            cu.call("cuMemHostRegister_v2", c_void_p(start), c_size_t(size), c_uint(0))
            registered.append(start)


def extent(tensor: Any) -> Tuple[int, int]:
    """(address, bytes) of the memory that a tensor is a view of."""
    if hasattr(tensor, "untyped_storage"):
        s = tensor.untyped_storage()
        return int(s.data_ptr()), int(s.nbytes())
    return int(tensor.data_ptr()), int(getattr(tensor, "nbytes", 0))


def _piece(p: params.Param, at: Optional[int]) -> Any:
    """The parameter's bytes."""
    import struct
    if at is not None:
        return c_uint64(at)
    if p.kind == "bf16":
        return ctypes.c_uint16(bf16_bits(p.number))
    form = {"f16": "<e", "f32": "<f", "f64": "<d"}.get(p.kind)
    data = struct.pack(form, p.number) if form else p.number.to_bytes(p.bytes, "little", signed=p.number < 0)
    return (ctypes.c_ubyte * p.bytes)(*data)


def bf16_bits(value: float) -> int:
    """To nearest even, as a conversion from f32."""
    import struct
    n = struct.unpack("<I", struct.pack("<f", value))[0]
    return 0x7FFF if value != value else (n + 0x7FFF + (n >> 16 & 1)) >> 16


# ---- for users -------------------------------------------------------------------------------------------------------
_soft: Optional[SoftDriver] = None


def software(model: Optional[str] = None, check: str = "none") -> SoftDriver:
    """From now on Triton's kernels run on the software device.

    model: "h200", "h100", "a100", "l4", "b200", "rtx5090"; None: $DOVETAIL_SOFTGPU_MODEL, else h200.
    check: "race", "uninit", "barrier", "all", "none", or several with commas (docs/CHECKING.md); memory that was
        allocated before counts as written.
    Arguments are dovetail.cuda.Array, tensors of torch on the CPU, or anything with `data_ptr()`, `dtype`, `nbytes`.
    Errors: `no-device` where another driver is loaded in this process; `unsupported` for an unknown Triton; `usage`.
    A kernel that does what it must not raises Fault; `reset()` then makes the device usable again.
    """
    global _soft
    triton()
    if _soft is None or (model, check) != (_soft.model, _soft.check):
        _soft = SoftDriver(model, check)
    cuda.software(model)
    activate(_soft)
    return _soft


def reset() -> None:
    """After a Fault: a new context. All device memory of the old one is gone."""
    if _soft is not None:
        _soft.reset()
