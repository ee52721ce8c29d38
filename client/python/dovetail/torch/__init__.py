"""PyTorch: what Inductor generated for a module, optimised in groups, and swapped in.

    model = dovetail.torch.optimize(model)          # torch.compile(model, backend=…), and as lazy
    model(x)                                        # compiled, recorded; plans are made in the background
    print(dovetail.torch.report())

Or `torch.compile(model, backend="dovetail")`. The original kernels run until a plan is there, wherever a guard fails,
and whenever anything goes wrong, which `report` counts and a warning says.

PyTorch's releases from OLDEST to NEWEST are known; with another one Inductor is left as it is, and a warning says so.
Importing this package does not import torch.
"""
from __future__ import annotations

from typing import Any, Optional

from . import planner as _planner
from .inductor import Backend, backend, defaults
from .reports import DovetailWarning, Report
from .software import software
from .versions import NEWEST, OLDEST

__all__ = ["Backend", "DovetailWarning", "NEWEST", "OLDEST", "Report", "backend", "defaults", "optimize", "report",
           "software", "uuid", "wait"]


def optimize(model: Any, *, fullgraph: bool = False, dynamic: Optional[bool] = None, mode: Optional[str] = None,
             options: Any = None, **settings: Any) -> Any:
    """torch.compile of a module or function, with plans. settings: of Backend (client, wait, least, allow, deny,
    budget, memory, timeout); the rest is torch.compile's. Errors: `usage` for a setting that there is not."""
    import torch
    more = {k: v for k, v in (("mode", mode), ("options", options)) if v is not None}
    return torch.compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=Backend(**{**defaults, **settings}),
                         **more)


def report() -> Report:
    """What became of each group of the modules that are still there."""
    return Report()


def wait(timeout: Optional[float] = None) -> bool:
    """Until all plans that were asked for are there, or have failed. False: `timeout` seconds were not enough."""
    return _planner.drain(timeout)


def uuid(**settings: Any) -> str:
    """What Inductor's cache keys get: the same in every process, for this package's text and these settings."""
    return Backend(**{**defaults, **settings}).settings.uuid()
