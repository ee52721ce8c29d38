"""What went wrong, as exceptions. Every one has the problem document (RFC 9457) in `problem`."""
from __future__ import annotations

from typing import Any, Dict, Optional

# Codes of base/err.def by exit status: 4 is infrastructure, 2 is usage.
_SERVICE = {"out-of-memory", "io", "cancelled", "time-limit", "no-device", "no-compiler", "worker-lost", "no-service",
            "no-profiler", "noisy", "cache", "busy", "forbidden", "share", "unavailable"}
_USAGE = {"usage", "method-not-allowed", "unsupported-encoding", "key-reused"}


class Error(Exception):
    """Something went wrong.

    problem: the problem document: `title`, `status`, `code`, and where they apply `detail`, `pointer`, `log`.
    started: a launch failed when some of its work may be in the stream already.
    """
    started = False

    def __init__(self, problem: Dict[str, Any]):
        self.problem: Dict[str, Any] = problem
        text = problem.get("detail") or problem.get("title") or "an unknown problem"
        if problem.get("pointer"):
            text = f"{problem['pointer']}: {text}"
        if problem.get("log"):
            text = f"{text}\n{problem['log']}"
        super().__init__(f"{text} ({self.code})")

    def __reduce__(self):
        return type(self), (self.problem,)

    @property
    def code(self) -> str:
        """The stable code, as `bad-graph`: what programs may compare."""
        return str(self.problem.get("code", "internal"))

    @property
    def pointer(self) -> Optional[str]:
        """JSON pointer into the posted graph, where a document is wrong."""
        return self.problem.get("pointer")

    @property
    def log(self) -> Optional[str]:
        """The compiler's words, for a kernel that does not compile."""
        return self.problem.get("log")


class GraphError(Error):
    """The graph was refused: it, or a kernel of it, is wrong (exit status 3 of the command line)."""


class ServiceError(Error):
    """No service, no device, a worker that died, a time limit (exit status 4)."""


class UsageError(Error, ValueError):
    """A call's arguments are wrong (exit status 2)."""


class DeviceError(Error):
    """The CUDA driver refused something, or there is none."""


def of(problem: Dict[str, Any]) -> Error:
    """The exception for a problem document."""
    code = problem.get("code")
    if code == "device":
        return DeviceError(problem)
    if code in _SERVICE:
        return ServiceError(problem)
    if code in _USAGE:
        return UsageError(problem)
    return Error(problem) if code == "internal" else GraphError(problem)


def make(code: str, detail: str, status: int = 400, **more: Any) -> Error:
    """An exception for a problem of this side."""
    titles = {"usage": "the call's arguments are wrong", "no-service": "the service does not answer",
              "worker-lost": "the worker process died while it had the job", "device": "the device failed",
              "no-device": "no such device, or it cannot be opened", "time-limit": "the time limit passed",
              "cancelled": "the job was cancelled", "unsupported": "this is refused by name"}
    return of({"type": "about:blank", "title": titles.get(code, code), "status": status, "code": code, "detail": detail,
               **more})


def usage(detail: str, **more: Any) -> Error:
    return make("usage", detail, 400, **more)
