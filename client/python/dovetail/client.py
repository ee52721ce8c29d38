"""Client: analyze, optimize and run graphs, by the service or by a worker that is started for it."""
from __future__ import annotations

import os
import threading
from typing import Any, Callable, Dict, Optional, Sequence, Union

from . import errors
from .graph import as_document
from .local import Local
from .plan import Plan
from .results import Analysis, Progress, Run
from .service import Service, default_socket, listens

ProgressFn = Callable[[Progress], None]


class Abort:
    """How a request that runs in one thread is ended from another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fn: Optional[Callable[[], None]] = None
        self.aborted = False

    def on(self, fn: Optional[Callable[[], None]]) -> None:
        """Call fn when it is aborted, at once if it is already."""
        with self._lock:
            self._fn = fn
            now = self.aborted and fn is not None
        if now and fn:
            fn()

    def abort(self) -> None:
        with self._lock:
            self.aborted, fn = True, self._fn
        if fn:
            fn()


class Client:
    """Where graphs are worked on. It holds nothing open, and any thread may use it.

    socket: of the service. None: $DOVETAIL_SOCKET, or the usual places (docs/CONTRACT.md §8); if nobody listens there
        and $DOVETAIL_SOCKET names none, a worker is started for each request, as with local=True.
    local: no service in any case.
    device: "auto", "cuda", "cuda:N", "soft", "soft:h100" …; None: $DOVETAIL_DEVICE, else the service's own, or auto.
    cache: the cache's file of local work; None: the user's own.

    Errors of every request: GraphError for a graph or kernel that is refused, ServiceError for no service, no device, a
    worker that died and a time limit; both are `Error`, with the problem document.
    """

    def __init__(self, socket: Optional[str] = None, local: bool = False, device: Optional[str] = None,
                 cache: Optional[Union[str, "os.PathLike[str]"]] = None):
        if local and socket:
            raise errors.usage("either socket= or local=True")
        self.device = device or os.environ.get("DOVETAIL_DEVICE") or None
        self._socket, self._local = socket, local
        self._cache = os.fspath(cache) if cache else None

    @property
    def local(self) -> bool:
        """Would a request now go to a worker of its own?"""
        return isinstance(self._backend(), Local)

    def _backend(self) -> Union[Service, Local]:
        if not self._local and self._socket:
            return Service(self._socket)
        if not self._local:
            path = default_socket()
            if os.environ.get("DOVETAIL_SOCKET") or listens(path):
                return Service(path)
        return Local(self.device, self._cache)

    def _submit(self, want: str, graph: Any, options: Dict[str, Any], progress: Optional[ProgressFn],
                abort: Optional[Abort] = None) -> Any:
        backend = self._backend()
        options = {k: v for k, v in options.items() if v not in (None, False, (), [])}
        for name in ("allow", "deny", "check"):
            if name in options:
                options[name] = [options[name]] if isinstance(options[name], str) else list(options[name])
        if isinstance(backend, Local) and "check" in options:
            options["check"] = ",".join(options["check"])
        if isinstance(backend, Service) and self.device:
            options["device"] = self.device

        def event(e: Dict[str, Any]) -> None:
            if progress and e["event"] == "progress":
                progress(Progress(e["stage"], e.get("message", ""), e.get("done", 0), e.get("of", 0)))
            elif progress and e["event"] == "queued":
                progress(Progress("queued", "", 0, 0))

        return backend.submit(want, options, as_document(graph), event, abort or Abort())

    def analyze(self, graph: Any, *, maps: bool = False, all_edges: bool = False, timeout: Optional[float] = None,
                progress: Optional[ProgressFn] = None, _abort: Optional[Abort] = None) -> Analysis:
        """Which blocks need what from which others (docs/CONTRACT.md §3).

        graph: a Graph, or a document as a dict. maps: with the block maps. all_edges: also pairs of launches that have
        nothing to do with each other. timeout: seconds. progress: called with a Progress, in this thread.
        """
        return Analysis(*self._submit("analysis", graph, {"maps": maps, "all_edges": all_edges, "timeout": timeout},
                                      progress, _abort))

    def optimize(self, graph: Any, *, allow: Sequence[str] = (), deny: Sequence[str] = (),
                 budget: Optional[float] = None, memory: Optional[int] = None, whole: bool = False,
                 timeout: Optional[float] = None, progress: Optional[ProgressFn] = None,
                 _abort: Optional[Abort] = None) -> Plan:
        """A verified plan (docs/CONTRACT.md §4), never slower than the graph under its own method of timing.

        allow, deny: kinds of rewrites. budget: seconds of planning on a machine at rest. memory: bytes that the plan
        may need beside the posted ones. whole: verify every block also where samples would do.
        """
        plan = Plan(*self._submit("plan", graph, {"allow": allow, "deny": deny, "budget": budget, "memory": memory,
                                                  "whole": whole, "timeout": timeout}, progress, _abort))
        plan._require(getattr(graph, "align", {}))
        return plan

    def run(self, graph: Any, *, seed: int = 0, schedule: Optional[int] = None, check: Sequence[str] = (),
            dump: bool = False, timeout: Optional[float] = None, progress: Optional[ProgressFn] = None,
            _abort: Optional[Abort] = None) -> Run:
        """Run a Graph or a Plan once, from its fills; SHA-256 of each output, time in microseconds and its method.

        seed: added to every fill's seed, weights and constants excepted. check: modes of the software device
        (docs/CHECKING.md): "race", "uninit", "barrier", "all"; a finding raises GraphError with its code. schedule:
        another order of blocks. dump: `outputs` of the result has the bytes.
        """
        return Run(*self._submit("run", graph, {"seed": seed or None, "schedule": schedule, "check": check,
                                                "dump": dump, "timeout": timeout}, progress, _abort))
