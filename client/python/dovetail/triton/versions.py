"""Which releases of Triton are known. What is taken of it is no public interface, so that a new one must be tried."""
from __future__ import annotations

from typing import Any, Tuple

from .. import errors

OLDEST, NEWEST = "3.0", "3.9"


def _number(version: str) -> Tuple[int, int]:
    major, minor = (version.split("+")[0].split(".") + ["0"])[:2]
    return int(major), int(minor)


def triton() -> Any:
    """The module. Errors: `unsupported` where there is none, or one that is not known."""
    try:
        import triton as module
    except ImportError as e:
        raise errors.make("unsupported", f"Triton is not here: {e}", 422) from None
    version = str(getattr(module, "__version__", "?"))
    try:
        known = _number(OLDEST) <= _number(version) <= _number(NEWEST)
    except ValueError:
        known = False
    if not known:
        raise errors.make("unsupported", f"Triton {version} is not known here: {OLDEST} to {NEWEST} are", 422)
    return module
