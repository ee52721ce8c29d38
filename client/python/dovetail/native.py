"""libdovetail and the CUDA driver by ctypes. Nothing is loaded before it is needed.

The driver is the libcuda.so.1 that the process has, or the software device's, loaded by its full path on request
(`software`). Both at once would be two drivers with one name: the second one is refused.
"""
from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any, Optional

from . import errors, find

SUCCESS, INVALID_HANDLE, NOT_READY, STREAM_LEGACY, STREAM_PER_THREAD = 0, 400, 600, 1, 2
CAPTURE_NONE, CAPTURE_ACTIVE = 0, 1
POINTER_MEMORY_TYPE, POINTER_IS_MANAGED, POINTER_DEVICE_ORDINAL = 2, 8, 9
MEMORY_DEVICE = 2

_lock = threading.Lock()
_driver: Optional["Driver"] = None
_library: Optional[ctypes.CDLL] = None


class BufferInfo(ctypes.Structure):
    """struct dovetail_plan_buffer"""
    _fields_ = [("name", c_char_p), ("role", c_char_p), ("bytes", c_ulonglong), ("align", c_uint), ("constant", c_int),
                ("needed", c_int)]


class PointerArg(ctypes.Structure):
    """struct dovetail_pointer"""
    _fields_ = [("buffer", c_char_p), ("address", c_ulonglong)]


class Driver:
    """The driver of this process. `call(name, …)` raises DeviceError for every status but those in `fine`."""

    def __init__(self, lib: ctypes.CDLL, path: str):
        self.lib, self.path = lib, path
        lib.cuGetErrorName.argtypes = [c_int, POINTER(c_char_p)]
        self.call("cuInit", 0)
        self.model = self._extension("dovetailDeviceModel")
        self.soft = self.model is not None

    def _extension(self, name: str, *types: Any) -> Any:
        """An entry that only the software device has (softgpu/libcuda/extension.h), or None."""
        at, seen = c_void_p(), c_int()
        look = self.lib.cuGetProcAddress_v2
        if look(name.encode(), byref(at), c_int(13000), c_ulonglong(0), byref(seen)) != SUCCESS or not at.value:
            return None
        return ctypes.CFUNCTYPE(c_int, *types)(at.value)

    def extension(self, name: str, *types: Any) -> Any:
        f = self._extension(name, *types)
        if f is None:
            raise errors.make("unsupported", f"{name}: this is not the software device", 422)
        return f

    def call(self, name: str, *args: Any, fine: tuple = ()) -> int:
        status = int(getattr(self.lib, name)(*args))
        if status != SUCCESS and status not in fine:
            raise self.error(status, name)
        return status

    def error(self, status: int, what: str) -> errors.Error:
        text = c_char_p()
        self.lib.cuGetErrorName(status, byref(text))
        return errors.make("device", f"{what}: {(text.value or b'an unknown error').decode()}", 502)

    def context(self) -> int:
        """The calling thread's context. Errors: `device` where none is current."""
        ctx = c_void_p()
        self.call("cuCtxGetCurrent", byref(ctx))
        if not ctx.value:
            raise errors.make("device", "no CUDA context is current in this thread: make one first (torch, CuPy and "
                              "dovetail.cuda do), this package never does by itself", 502)
        return ctx.value

    def context_id(self, ctx: int) -> int:
        n = c_ulonglong()
        self.call("cuCtxGetId", c_void_p(ctx), byref(n))
        return n.value

    def ordinal(self) -> int:
        dev = c_int()
        self.call("cuCtxGetDevice", byref(dev))
        return dev.value

    def stream_id(self, stream: int) -> int:
        n = c_ulonglong()
        self.call("cuStreamGetId", c_void_p(stream), byref(n))
        return n.value

    def pointer(self, attribute: int, address: int) -> Optional[int]:
        """An attribute of memory; None where the driver does not know the address."""
        n = c_int()
        status = self.lib.cuPointerGetAttribute(byref(n), c_int(attribute), c_ulonglong(address))
        return n.value if status == SUCCESS else None


def loaded_driver() -> Optional[str]:
    """The path of a libcuda.so.1 that this process has loaded, by whomever."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
            for line in f:
                path = line.split(maxsplit=5)[5].strip() if line.count(" ") >= 5 and "/" in line else ""
                if os.path.basename(path).startswith("libcuda.so"):
                    return path
    except (OSError, IndexError):
        pass
    return None


def driver() -> Driver:
    """The driver, opened once. Errors: `no-device`."""
    global _driver
    with _lock:
        if _driver is None:
            try:
                lib = ctypes.CDLL("libcuda.so.1")
            except OSError as e:
                raise errors.make("no-device", f"{e}; dovetail.cuda.software() takes the software device",
                                  503) from None
            _driver = Driver(lib, loaded_driver() or "libcuda.so.1")
        return _driver


def software() -> Driver:
    """The software device as this process's driver. Errors: `no-device` where another driver is loaded already."""
    global _driver
    with _lock:
        if _driver is not None and _driver.soft:
            return _driver
        there, path = loaded_driver(), find.device()
        if there and os.path.realpath(there) != os.path.realpath(path):
            raise errors.make("no-device", f"{there} is loaded in this process already; a second driver of that name "
                              "is refused", 503)
        _driver = Driver(ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL), path)
        return _driver


def library() -> ctypes.CDLL:
    """libdovetail, opened once. Errors: `no-device` where it is not here or too old."""
    global _library
    driver()  # first: the library then finds the same one by its name
    with _lock:
        if _library is None:
            path = find.library()
            try:
                lib = ctypes.CDLL(path)
                own = lib.dovetail_plan_bind_own
            except (OSError, AttributeError) as e:
                raise errors.make("no-device", f"libdovetail: {e}", 503) from None
            text = POINTER(c_void_p)
            lib.dovetail_plan_load.argtypes = [c_char_p, c_size_t, c_void_p, text, text]
            lib.dovetail_plan_free.argtypes = [c_void_p]
            lib.dovetail_plan_free.restype = None
            lib.dovetail_plan_buffer.argtypes = [c_void_p, c_uint, POINTER(BufferInfo)]
            own.argtypes = [c_void_p, POINTER(PointerArg), c_size_t, c_void_p, text, text]
            lib.dovetail_bound_free.argtypes = [c_void_p]
            lib.dovetail_bound_free.restype = None
            lib.dovetail_bound_fallback.argtypes = [c_void_p]
            lib.dovetail_bound_fallback.restype = c_char_p
            lib.dovetail_plan_launch.argtypes = [c_void_p, c_void_p, text]
            _library = lib
        return _library


_libc = ctypes.CDLL(None)
_libc.free.argtypes = [c_void_p]


def checked(status: int, problem: c_void_p) -> None:
    """Raise what a call of libdovetail said; its text goes back."""
    text = ctypes.string_at(problem.value).decode(errors="replace") if problem.value else None
    _libc.free(problem)
    if status == 0:
        return
    code, number = {-1: ("out-of-memory", 503), -5: ("device", 502)}.get(status, ("usage", 400))
    raise errors.make(code, text or "out of memory", number)
