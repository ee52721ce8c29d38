"""Arrays and streams of whatever CUDA device there is, for those who have neither torch nor CuPy.

    from dovetail import cuda
    cuda.software()                        # the software device; cuda.gpu() takes the driver that is there
    x = cuda.Array((64, 64), "float32").set(bytes_like)
    ...
    y.bytes()

An Array has both protocols (`__dlpack__`, `__cuda_array_interface__`), and `data_ptr()` for Triton.
"""
from __future__ import annotations

import ctypes
import threading
import weakref
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any, Optional, Sequence, Tuple, Union

from . import errors, native
from .tensors import DLManaged, DLDevice, stream_handle

# name: (bytes, typestr of the array interface, DLPack's code)
DTYPES = {"int8": (1, "<i1", 0), "int16": (2, "<i2", 0), "int32": (4, "<i4", 0), "int64": (8, "<i8", 0),
          "uint8": (1, "<u1", 1), "uint16": (2, "<u2", 1), "uint32": (4, "<u4", 1), "uint64": (8, "<u8", 1),
          "float16": (2, "<f2", 2), "float32": (4, "<f4", 2), "float64": (8, "<f8", 2), "bfloat16": (2, "<V2", 4),
          "bool": (1, "|b1", 6)}


def software(model: Optional[str] = None) -> None:
    """Take the software device, modelling `model` ("h200", "h100", "a100", "l4", "b200", "rtx5090"; None:
    $DOVETAIL_SOFTGPU_MODEL, else h200), and make its context current in this thread.

    Errors: `no-device` where another driver is loaded in this process already, or there is no such model.
    """
    cu, device = native.software(), c_int()
    if model:
        by_model = cu.extension("dovetailDeviceByModel", c_void_p, c_char_p)
        if by_model(ctypes.addressof(device), model.encode()) != native.SUCCESS:
            raise errors.make("no-device", f"the software device models no '{model}'", 503)
    _enter(cu, device)


def gpu(ordinal: int = 0) -> None:
    """Make the primary context of a GPU current in this thread. Errors: `no-device`, DeviceError."""
    cu, device = native.driver(), c_int()
    cu.call("cuDeviceGet", byref(device), c_int(ordinal))
    _enter(cu, device)


def _enter(cu: native.Driver, device: c_int) -> None:
    ctx = c_void_p()
    cu.call("cuDevicePrimaryCtxRetain", byref(ctx), device)
    cu.call("cuCtxSetCurrent", ctx)


def synchronize() -> None:
    """Wait for everything in the current context."""
    native.driver().call("cuCtxSynchronize")


class Stream:
    """A stream of the current context, which waits for no default stream."""

    def __init__(self) -> None:
        cu, s = native.driver(), c_void_p()
        cu.call("cuStreamCreate", byref(s), c_uint(1))
        self.handle = s.value or 0
        weakref.finalize(self, cu.lib.cuStreamDestroy_v2, c_void_p(self.handle)).atexit = False

    def __cuda_stream__(self) -> Tuple[int, int]:
        return 0, self.handle

    def synchronize(self) -> None:
        native.driver().call("cuStreamSynchronize", c_void_p(self.handle))


class Array:
    """Device memory of a shape and an element type, as bytes unless something is set. It is freed with its last holder;
    work that still uses it must be held apart (Bound does).

    shape: numbers of elements, the last axis fastest. dtype: "float32", "float16", "bfloat16", "int32", "uint8" ….
    """

    def __init__(self, shape: Union[int, Sequence[int]], dtype: str = "uint8"):
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        self.dtype = str(dtype)
        if self.dtype not in DTYPES:
            raise errors.usage(f"no element type is called {dtype!r}")
        self.itemsize = DTYPES[self.dtype][0]
        self.nbytes = self.itemsize
        for n in self.shape:
            self.nbytes *= n
        cu, at = native.driver(), c_ulonglong()
        if self.nbytes:
            cu.call("cuMemAlloc_v2", byref(at), c_size_t(self.nbytes))
            weakref.finalize(self, _free, cu, cu.context(), at.value).atexit = False
        self._address = at.value

    def data_ptr(self) -> int:
        """Its address."""
        return self._address

    def set(self, data: Any) -> "Array":
        """Copy any bytes-like object of its size in; waits. Errors: `usage`."""
        view = memoryview(data).cast("B") if not isinstance(data, bytes) else data
        if len(view) != self.nbytes:
            raise errors.usage(f"an array of {self.nbytes} bytes cannot take {len(view)}")
        if self.nbytes:
            native.driver().call("cuMemcpyHtoD_v2", c_ulonglong(self._address), bytes(view), c_size_t(self.nbytes))
        return self

    def bytes(self) -> bytes:
        """Its content, after what the legacy default stream has."""
        out = ctypes.create_string_buffer(self.nbytes)
        if self.nbytes:
            native.driver().call("cuMemcpyDtoH_v2", out, c_ulonglong(self._address), c_size_t(self.nbytes))
        return out.raw

    @property
    def __cuda_array_interface__(self) -> dict:
        return {"shape": self.shape, "typestr": DTYPES[self.dtype][1], "data": (self._address, False), "version": 3,
                "strides": None}

    def __dlpack_device__(self) -> Tuple[int, int]:
        return 2, native.driver().pointer(native.POINTER_DEVICE_ORDINAL, self._address) or 0

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, **_: Any) -> Any:
        if stream not in (None, -1):
            stream_handle(stream)  # 0 is refused; everything here is set when set() returns
        return _capsule(self)


def _free(cu: native.Driver, ctx: int, at: int) -> None:
    if cu.lib.cuCtxPushCurrent_v2(c_void_p(ctx)) == native.SUCCESS:
        cu.lib.cuMemFree_v2(c_ulonglong(at))
        cu.lib.cuCtxPopCurrent_v2(byref(c_void_p()))


# ---- DLPack ----------------------------------------------------------------------------------------------------------
# A capsule's tensor is kept here, with the array, until its deleter is called.
_exported: dict = {}
_exported_lock = threading.RLock()


@ctypes.CFUNCTYPE(None, c_void_p)
def _delete(managed: Optional[int]) -> None:
    with _exported_lock:
        _exported.pop(managed, None)


@ctypes.CFUNCTYPE(None, c_void_p)
def _capsule_ends(capsule: Optional[int]) -> None:
    """A capsule that nobody has consumed."""
    get, valid = _raw.PyCapsule_GetPointer, _raw.PyCapsule_IsValid
    if valid(capsule, b"dltensor"):
        _delete(get(capsule, b"dltensor"))


_raw = ctypes.PyDLL(None)  # with capsules as addresses: one that ends must not be counted again
_raw.PyCapsule_GetPointer.restype = c_void_p
_raw.PyCapsule_GetPointer.argtypes = [c_void_p, c_char_p]
_raw.PyCapsule_IsValid.argtypes = [c_void_p, c_char_p]
_raw.PyCapsule_New.restype = ctypes.py_object
_raw.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]


def _capsule(a: Array) -> Any:
    n = len(a.shape)
    shape = (ctypes.c_int64 * max(n, 1))(*a.shape)
    m = DLManaged()
    m.tensor.data = a.data_ptr() or None
    m.tensor.device = DLDevice(*a.__dlpack_device__())
    m.tensor.ndim, m.tensor.code = n, DTYPES[a.dtype][2]
    m.tensor.bits, m.tensor.lanes = 8 * a.itemsize, 1
    m.tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    m.deleter = ctypes.cast(_delete, c_void_p)
    with _exported_lock:
        _exported[ctypes.addressof(m)] = (m, shape, a)
    return _raw.PyCapsule_New(ctypes.addressof(m), b"dltensor", ctypes.cast(_capsule_ends, c_void_p))
