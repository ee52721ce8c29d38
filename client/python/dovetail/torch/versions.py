"""Which releases of PyTorch are known. What is taken of Inductor is no public interface, so that a new one must be
tried.
The tests were run with the oldest and the newest; those between are taken to be like them."""
from __future__ import annotations

from typing import Any, Tuple

from .. import errors

OLDEST, NEWEST = "2.11", "2.15"


def _number(version: str) -> Tuple[int, int]:
    major, minor = (version.split("+")[0].split(".") + ["0"])[:2]
    return int(major), int(minor)


def known(version: str) -> bool:
    try:
        return _number(OLDEST) <= _number(version) <= _number(NEWEST)
    except ValueError:
        return False


def torch() -> Any:
    """The module. Errors: `unsupported` where there is none, or one that is not known."""
    try:
        import torch as module
    except ImportError as e:
        raise errors.make("unsupported", f"PyTorch is not here: {e}", 422) from None
    version = str(getattr(module, "__version__", "?"))
    if not known(version):
        raise errors.make("unsupported", f"PyTorch {version} is not known here: {OLDEST} to {NEWEST} are", 422)
    return module
