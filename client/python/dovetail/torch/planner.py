"""Plans, made in the background: one thread of this process asks the client for one after the other.

The client works in a service or in a worker process; this thread waits for it, and loads the plan into the context in
which its group was recorded, so that the first launch does not wait for the driver's compiler. Loading does not disturb
a stream that is being captured.
"""
from __future__ import annotations

import atexit
import queue
import threading
from typing import Any, List, Optional, Tuple

from .. import errors, native
from ..client import Abort, Client
from ..plan import _Entered
from .group import Variant
from .settings import Settings

_queue: "queue.Queue[Tuple[Variant, Settings, int]]" = queue.Queue()
_lock = threading.Lock()
_thread: List[threading.Thread] = []
_running: List[Abort] = []


def plan(variant: Variant, settings: Settings) -> None:
    """Make the plan of what was recorded; at once with `wait`, else soon."""
    context = native.driver().context()
    if settings.wait:
        _make(variant, settings, context)
        return
    with _lock:
        if not _thread:
            _thread.append(threading.Thread(target=_work, name="dovetail-planner", daemon=True))
            _thread[0].start()
            atexit.register(_end)
    _queue.put((variant, settings, context))


def drain(timeout: Optional[float] = None) -> bool:
    """Wait until nothing is left to plan. False: `timeout` seconds were not enough."""
    end = threading.Event()
    threading.Thread(target=lambda: (_queue.join(), end.set()), daemon=True).start()
    return end.wait(timeout)


def _work() -> None:
    while True:
        variant, settings, context = _queue.get()
        try:
            _make(variant, settings, context)
        finally:
            _queue.task_done()


def _end() -> None:
    for a in list(_running):
        a.abort()


def _make(variant: Variant, settings: Settings, context: int) -> None:
    abort = Abort()
    _running.append(abort)
    try:
        assert variant.recorded is not None
        client: Any = settings.client or Client()
        made = client.optimize(variant.recorded.graph, _abort=abort, **settings.request())
        if made.kept:
            with _Entered(context) as there:
                if not there:
                    raise errors.make("device", "the context is gone in which the group ran", 502)
                _same(made.document["device"])
                made.buffers()
        variant.ready(made)
    except BaseException as e:  # noqa: BLE001 (the original kernels run; group.py)
        variant.fail(e, warn=not abort.aborted)
    finally:
        _running.remove(abort)


def _same(device: Any) -> None:
    """Is the plan for a device of this kind? Errors: `usage`."""
    import ctypes
    cu, number = native.driver(), []
    for attribute in 75, 76:
        v = ctypes.c_int()
        cu.call("cuDeviceGetAttribute", ctypes.byref(v), ctypes.c_int(attribute), ctypes.c_int(cu.ordinal()))
        number.append(v.value)
    arch = "sm_%d%d" % tuple(number)
    if device["arch"].rstrip("af") != arch:
        raise errors.usage(f"the plan is for {device['name']} ({device['arch']}), the group runs on {arch}")
