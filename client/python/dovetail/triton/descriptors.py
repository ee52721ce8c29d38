"""Tensor descriptors of the host (`triton.tools.tensor_descriptor.TensorDescriptor`): what a kernel is passed for one.

Where the kernel copies by the tensor memory accelerator, that is a tensor map of 128 bytes, which Triton's launcher
encodes from what the compiler chose (swizzle, box) and what the descriptor says (shape, strides, padding). Elsewhere
(before sm_90) it is the pointer, shape and strides as 64-bit numbers, and two flags. Shape and strides follow in both.
Triton counts dimensions from the slowest, cuda.h from the contiguous one on.
"""
from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Tuple

from .. import errors

_HOST_TYPES = {8: 10, 9: 8, 10: 9}  # of the compiler's element types, those that cuda.h numbers otherwise
_TFLOAT32, _L2_128B = 11, 2


class TensorMap(NamedTuple):
    """A tensor map to be: of which tensor, and cuTensorMapEncodeTiled's other parameters by cuda.h's names."""
    base: Any
    fields: Dict[str, Any]


def is_descriptor(type: Any) -> bool:
    return isinstance(type, str) and type.startswith("tensordesc")


def _fields(d: Any, meta: Any, name: str) -> Dict[str, Any]:
    if meta.get("is_im2col"):
        raise errors.make("unsupported", f"argument {name} is an im2col tensor descriptor", 422)
    size, shape, strides = int(meta["elem_size"]), [int(n) for n in d.shape], [int(n) for n in d.strides]
    if meta.get("fp4_padded"):
        shape[-1] *= 2
    kind = int(meta["elem_type"])
    kind = _TFLOAT32 if getattr(d, "round_f32_to_tf32", False) else _HOST_TYPES.get(kind, kind)
    return {"tensorDataType": kind, "tensorRank": len(shape), "globalDim": shape[::-1],
            "globalStrides": [size * n for n in strides[:-1]][::-1],
            "boxDim": [int(n) for n in meta["block_size"]][::-1],
            "swizzle": int(meta["swizzle"]), "l2Promotion": _L2_128B,
            "oobFill": 1 if getattr(d, "padding", "zero") == "nan" else 0}


def expand(name: str, type: str, d: Any, meta: Any) -> List[Tuple[str, str, Any]]:
    """(name, type, value) of each parameter. meta: the compiler's choices for this descriptor, None: it has none."""
    shape, strides = [int(n) for n in d.shape], [int(n) for n in d.strides]
    if meta:
        first: List[Tuple[str, str, Any]] = [(name, "tensor map", TensorMap(d.base, _fields(d, meta, name)))]
    else:
        element = re.match(r"tensordesc\w*<([^[>]*)\[", type)
        first = [(name, f"*{element[1] if element else 'i8'}", d.base)]
        first += [(name, "i64", n) for n in shape + strides]
        first += [(name, "i1", getattr(d, "padding", "zero") == "nan"),
                  (name, "i1", bool(getattr(d, "round_f32_to_tf32", False)))]
    return first + [(name, "i32", n) for n in shape] + [(name, "i64", n) for n in strides]
