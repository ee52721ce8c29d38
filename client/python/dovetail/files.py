"""Content of buffers in files, as the command line takes it (client/graphfile.c, client/npy.c): `"data": {"file": …}`.

What numpy.lib.format writes is read without numpy. Not taken, by name: objects (pickles are programs), big-endian and
structured elements, text, dates, arrays in Fortran's order.
"""
from __future__ import annotations

import ast
import base64
import os
import re
from typing import Any, Optional

from . import errors

MOST = 256 << 20
HEAD_MOST = 1 << 16
FITS = {"i": "ib", "u": "ub", "f": "f", "bf": "Vu"}  # kinds of numpy's by that of a dtype


def _array(content: bytes, dtype: Optional[str]) -> memoryview:
    """The elements of a .npy file. ValueError says what is wrong with it."""
    wide = 2 if content[6:7] == b"\1" else 4
    if content[:6] != b"\x93NUMPY" or content[6:7] not in (b"\1", b"\2", b"\3") or len(content) < 8 + wide:
        raise ValueError("this is no .npy file of version 1 to 3")
    at = 8 + wide + int.from_bytes(content[8:8 + wide], "little")
    if at > len(content) or at > HEAD_MOST + 8 + wide:
        raise ValueError(f"its head is cut off, or has over {HEAD_MOST} bytes")
    try:
        head = ast.literal_eval(content[8 + wide:at].decode("latin-1").strip())
        descr, fortran, shape = head["descr"], head["fortran_order"], head["shape"]
        right = len(head) == 3 and isinstance(fortran, bool) and isinstance(shape, tuple) and all(
            type(n) is int and n >= 0 for n in shape)
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError):
        right = False
    if not right:
        raise ValueError("its head is not what numpy writes")
    if not isinstance(descr, str):
        raise ValueError("its elements are structures, which are not taken: save one field")
    m = re.fullmatch(r"([<>|=])([a-zA-Z])([0-9]{0,5})", descr)
    if m and m[2] == "O":
        raise ValueError("its elements are Python objects, which are not read")
    if not m or m[2] not in "biufcV" or not int(m[3] or 0):
        raise ValueError(f"elements {descr!r} are not taken: numbers are, bool, and void")
    size = int(m[3])
    if m[1] == ">" and size > 1:
        raise ValueError(f"its elements ({descr!r}) are big-endian: save a.astype('<{descr[1:]}')")
    if fortran and sum(n > 1 for n in shape) > 1:
        raise ValueError("it is stored in Fortran's order: save numpy.ascontiguousarray(a)")
    if dtype is not None:
        kind, bits = dtype.rstrip("0123456789"), dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
        if m[2] not in FITS.get(kind, "") or str(8 * size) != bits:
            raise TypeError(f"its elements are {descr!r}, and dtype says {dtype}")
    for n in shape:
        size *= n
    elements = memoryview(content)[at:]
    if size != len(elements):
        raise ValueError(f"it should hold the {size} bytes that its head says, and has {len(elements)}")
    return elements


def inline(folder: str, name: str, buffer: Any) -> None:
    """A buffer's `data` that names a file becomes its content, as base64."""
    data = buffer.get("data") if isinstance(buffer, dict) else None
    file = data.get("file") if isinstance(data, dict) else None
    if not isinstance(file, str):
        return

    def wrong(member: str, why: str) -> Exception:
        place = [part.replace("~", "~0").replace("/", "~1") for part in ("buffers", name, "data", member)]
        return errors.make("bad-graph", why, 422, pointer="/" + "/".join(place))
    for member in data:
        if member not in ("file", "dtype"):
            raise wrong(member, f"{file}: data of a file has no other members than file and dtype")
    array, dtype, size = file.endswith(".npy"), data.get("dtype"), buffer.get("bytes")
    if dtype is not None and not (array and isinstance(dtype, str)):
        raise wrong("dtype", f"{file}: only a .npy file says what its elements are: leave dtype out" if isinstance(
            dtype, str) else f"{file}: dtype is a text: f32, i64 …")
    if isinstance(size, bool) or not isinstance(size, (int, float)) or not 1 <= size <= MOST:
        raise wrong("file", f"{file}: the buffer has {size!r} bytes, and a file gives 1 to {MOST}")
    try:
        with open(os.path.join(folder, file), "rb") as f:
            content = f.read(int(size) + (HEAD_MOST + 13 if array else 1))
        elements = _array(content, dtype) if array else memoryview(content)
    except OSError as e:
        raise wrong("file", str(e)) from None
    except TypeError as e:
        raise wrong("dtype", f"{file}: {e}") from None
    except ValueError as e:
        raise wrong("file", f"{file}: {e}") from None
    if len(elements) != size:
        more = "more than " if len(elements) > size else ""
        raise wrong("file", f"{file}: it has {more}{min(len(elements), int(size))} bytes, and the buffer has {size}")
    buffer["data"] = base64.b64encode(elements).decode()
