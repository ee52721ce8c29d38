"""PyTorch's CUDA build on the software device: tensors, copies, streams and Triton's kernels, Inductor's among them.

PyTorch opens NVIDIA's libcudart by its full path while it is imported, and that one does not take the software device.
So ours is opened before, and is what PyTorch gets when it asks for NVIDIA's. Not there: PyTorch's own kernels (their
machine code has no PTX that the device runs; `empty` and copies of contiguous tensors need none), cuBLAS, cuDNN. The
products and convolutions that Inductor's wrappers call are calculated on the CPU instead, whose bits are not cuBLAS's.
"""
from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Optional

from .. import cuda, errors, find


def software(model: Optional[str] = None, check: str = "none") -> Any:
    """Import PyTorch on the software device; the module comes back. Before anything else imports it.

    model, check: as of dovetail.triton.software, which Triton's kernels are launched by. Inductor compiles in this
    process, and tunes by the model's times.
    Errors: `no-device` where PyTorch is imported already, or another driver is loaded; `unsupported` for a release that
    is not known.
    """
    from . import versions
    if "torch" in sys.modules and not _ours():
        raise errors.make("no-device", "PyTorch is imported already, with NVIDIA's CUDA runtime", 503)
    runtime = os.path.join(os.path.dirname(find.device()), "libcudart.so.13")
    if not os.path.isfile(runtime):
        raise errors.make("no-device", f"{runtime} is not here", 503)
    cuda.software(model)
    if "torch" not in sys.modules:
        _import(runtime)
    torch = versions.torch()
    if not torch.cuda.is_available():
        raise errors.make("no-device", f"PyTorch {torch.__version__} (CUDA {torch.version.cuda}) does not take the "
                          "software device's runtime, which is of CUDA 13", 503)
    torch.cuda.init()
    from .. import triton
    driver = triton.software(model, check)
    from torch._inductor import config
    from torch._inductor.runtime import benchmarking, triton_helpers
    config.compile_threads = 1  # other processes would have NVIDIA's driver of Triton
    triton_helpers.set_driver_to_gpu = lambda: None  # it is active already
    benchmarking.benchmarker.benchmark_gpu = lambda call, *_, **__: driver.bench(call)
    driver.torch_device = "cuda"
    _libraries(torch)
    return torch


def _libraries(torch: Any) -> None:
    """What wrappers call of cuBLAS and cuDNN, on the CPU. Memory goes there and back whole, since copies of a part
    would be kernels of PyTorch's own."""
    from torch._inductor.select_algorithm import extern_kernels

    def flat(t: Any) -> Any:
        n = t.untyped_storage().nbytes() // t.element_size()
        return torch.empty(0, dtype=t.dtype, device=t.device).set_(t.untyped_storage(), 0, (n,), (1,))

    def host(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or not t.is_cuda:
            return t
        return flat(t).cpu().as_strided(t.size(), t.stride(), t.storage_offset())

    def back(t: Any, value: Any) -> Any:
        whole = flat(t).cpu()
        whole.as_strided(t.size(), t.stride(), t.storage_offset()).copy_(value)
        flat(t).copy_(whole)
        return t

    def on_the_host(name: str) -> Any:
        f = getattr(torch.ops.aten, name)

        def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
            value = f(*map(host, args), **{k: host(v) for k, v in kwargs.items()})
            if out is None:
                out = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="cuda")
            return back(out, value)

        return call

    for name in "mm", "addmm", "bmm", "baddbmm", "convolution":
        setattr(extern_kernels, name, on_the_host(name))


def _ours() -> bool:
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
        loaded = {line.split(maxsplit=5)[5].strip() for line in f if "/libcudart.so" in line}
    folder = os.path.dirname(os.path.realpath(find.device()))
    return bool(loaded) and all(os.path.dirname(os.path.realpath(p)) == folder for p in loaded)


def _import(runtime: str) -> None:
    ctypes.CDLL(runtime, mode=ctypes.RTLD_GLOBAL)
    theirs = ctypes.CDLL

    class Ours(theirs):  # type: ignore[misc, valid-type]
        def __init__(self, name: Any, *args: Any, **kwargs: Any):
            if isinstance(name, str) and os.path.basename(name).startswith("libcudart.so"):
                name = runtime
            super().__init__(name, *args, **kwargs)

    ctypes.CDLL = Ours  # type: ignore[misc]
    try:
        import torch  # noqa: F401
    finally:
        ctypes.CDLL = theirs  # type: ignore[misc]
