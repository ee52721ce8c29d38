"""Triton kernels: captured as graphs, and run on the software device.

    with dovetail.triton.capture(target="sm_90") as g:     # no GPU: kernels are compiled, and recorded
        kernel[grid](x, y, n, BLOCK=1024)
    dovetail.Client().optimize(g)

    dovetail.triton.software()                              # Triton's programs run on the software device
    kernel[grid](x, y, n, BLOCK=1024)

Triton's releases from OLDEST to NEWEST are known; another one is refused by name.
"""
from .capture import Captured, capture
from .driver import Fault, reset, software
from .versions import NEWEST, OLDEST

__all__ = ["Captured", "Fault", "NEWEST", "OLDEST", "capture", "reset", "software"]
