"""Device memory of other libraries, by DLPack or by the CUDA array interface; stream numbers as those two have them.

A tensor is taken as it lies: no copy, no conversion. DLPack comes first where there is both, since it knows the device
and every element type. The capsule that a tensor gives is kept, unconsumed: its end gives the memory back.
"""
from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from . import errors, native

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
_DEVICES = {CPU: "the host", CUDA_HOST: "pinned memory of the host", 10: "a ROCm device", 8: "Metal", 7: "Vulkan"}
READ_ONLY = 1


class DLDevice(ctypes.Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device", DLDevice), ("ndim", c_int32), ("code", c_uint8), ("bits", c_uint8),
                ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class DLManaged(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("ctx", c_void_p), ("deleter", c_void_p)]


class DLManagedVersioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("ctx", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
                ("tensor", DLTensor)]


_api = ctypes.pythonapi
_api.PyCapsule_GetPointer.restype = c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Pointer(NamedTuple):
    """Memory by its address, where nothing else describes it: `bytes` bytes at `address`. keep: what holds it."""
    address: int
    bytes: int
    keep: Any = None
    readonly: bool = False


class View(NamedTuple):
    """A tensor as it lies in memory. device: its number, None where the protocol does not say it."""
    address: int
    bytes: int
    readonly: bool
    device: Optional[int]
    stream: Optional[int]  # on which its content is made; None: nothing to wait for
    keep: Any


def compact(shape: Sequence[int], strides: Optional[Sequence[int]], unit: int) -> bool:
    """Are the elements one after the other, the last axis fastest? `unit`: the stride of that one; axes of one element
    say nothing."""
    if strides is None or 0 in shape:
        return True
    for n, s in zip(reversed(shape), reversed(strides)):
        if n != 1 and s != unit:
            return False
        unit *= n
    return True


def _elements(shape: Sequence[int]) -> int:
    n = 1
    for s in shape:
        n *= s
    return n


def _refuse(name: str, why: str) -> errors.Error:
    return errors.usage(f"buffer {name}: {why}")


def _by_interface(name: str, obj: Any) -> View:
    d = obj.__cuda_array_interface__
    shape, (address, readonly) = tuple(d["shape"]), d["data"]
    itemsize = int(str(d["typestr"])[2:])
    if d.get("mask") is not None:
        raise _refuse(name, "an array with a mask")
    if not compact(shape, d.get("strides"), itemsize):
        raise _refuse(name, f"strides {tuple(d['strides'])} of shape {shape} leave gaps or another order; make it "
                      "contiguous")
    stream = d.get("stream")
    if stream == 0:
        raise _refuse(name, "stream 0 in its CUDA array interface, which that protocol forbids (1: legacy default, 2: "
                      "per thread)")
    return View(int(address or 0), _elements(shape) * itemsize, bool(readonly), None, stream, obj)


def _by_dlpack(name: str, obj: Any, stream: int) -> View:
    kind, device = (int(v) for v in obj.__dlpack_device__())
    if kind not in (CUDA, CUDA_MANAGED):
        raise _refuse(name, f"it is on {_DEVICES.get(kind, 'device type %d of DLPack' % kind)}, not on a CUDA device")
    try:
        try:
            capsule = obj.__dlpack__(stream=stream, max_version=(1, 0))
        except TypeError:
            capsule = obj.__dlpack__(stream=stream)
    except (BufferError, RuntimeError) as e:  # torch: a tensor that requires gradients, say
        raise _refuse(name, str(e)) from None
    if _api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        v = DLManagedVersioned.from_address(_api.PyCapsule_GetPointer(capsule, b"dltensor_versioned"))
        if v.major != 1:
            raise _refuse(name, f"DLPack {v.major}.{v.minor}, of which only 1.x is known")
        t, readonly = v.tensor, bool(v.flags & READ_ONLY)
    elif _api.PyCapsule_IsValid(capsule, b"dltensor"):
        t, readonly = DLManaged.from_address(_api.PyCapsule_GetPointer(capsule, b"dltensor")).tensor, False
    else:
        raise _refuse(name, "its __dlpack__ gives no DLPack capsule")
    shape: Tuple[int, ...] = tuple(t.shape[i] for i in range(t.ndim))
    strides = tuple(t.strides[i] for i in range(t.ndim)) if t.strides else None
    if t.bits * t.lanes % 8:
        raise _refuse(name, f"elements of {t.bits} bits")
    if not compact(shape, strides, 1):
        raise _refuse(name, f"strides {strides} of shape {shape} leave gaps or another order; make it contiguous")
    return View((t.data or 0) + t.byte_offset, _elements(shape) * (t.bits * t.lanes // 8), readonly,
                device if kind == CUDA else None, None, (obj, capsule))


def take(name: str, obj: Any, stream: int = -1) -> View:
    """The memory of `obj` for the buffer `name`. stream: on which its content is needed, as DLPack numbers it; -1: it
    is not read now. Errors: `usage`."""
    if isinstance(obj, Pointer):
        return View(obj.address, obj.bytes, obj.readonly, None, None, obj)
    if hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__"):
        return _by_dlpack(name, obj, stream)
    if hasattr(obj, "__cuda_array_interface__"):
        return _by_interface(name, obj)
    raise _refuse(name, f"a {type(obj).__name__} has neither DLPack nor the CUDA array interface; "
                  "dovetail.Pointer(address, bytes) says an address")


def stream_handle(stream: Any) -> int:
    """A stream as the driver takes it. None: the legacy default stream. A number: as both protocols have it (1 legacy
    default, 2 per thread, else a handle; 0 is refused). Objects: torch's, CuPy's, cuda.core's, dovetail.cuda's."""
    if stream is None:
        return native.STREAM_LEGACY
    if isinstance(stream, int):
        if stream == 0:
            raise errors.usage("stream 0 says neither of the two default streams: 1 is the legacy one, 2 per thread")
        if stream < 0:
            raise errors.usage(f"{stream} is no stream")
        return stream
    if hasattr(stream, "__cuda_stream__"):
        v = stream.__cuda_stream__
        value = int((v() if callable(v) else v)[1])
    else:
        for attribute in ("cuda_stream", "ptr", "handle"):
            if hasattr(stream, attribute):
                value = int(getattr(stream, attribute))
                break
        else:
            raise errors.usage(f"a {type(stream).__name__} is no stream")
    return value or native.STREAM_LEGACY  # the object's own word for the default stream
