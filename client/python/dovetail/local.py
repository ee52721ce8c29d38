"""One request to a worker that is started for it (base/wire.h has the frames): no service is needed.

A worker of its own for each request: requests of several threads run side by side, a kernel that leaves the device
unusable costs one request, and there is nothing to close.
"""
from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import threading
from typing import Any, BinaryIO, Callable, Dict, Optional, Tuple

from . import errors, find

LIMIT_S = 600.0  # as the command line
END_S = 5.0
FRAME_MAX = 512 << 20
REQUEST = 1
VERBS = {"plan": "optimize", "analysis": "analyze", "run": "run", "explain": "explain"}


def _read(f: BinaryIO) -> Optional[Tuple[bytes, bytes]]:
    """(type, body) of the next frame of our request; None at the end, or at what is no frame."""
    head = f.read(9)
    if len(head) < 9:
        return None
    n, kind, number = struct.unpack("<IcI", head)
    if n < 5 or n > FRAME_MAX or number != REQUEST:
        return None
    body = f.read(n - 5)
    return (kind, body) if len(body) == n - 5 else None


class Local:
    """Workers on this machine. device: as `--device`; cache: a file, None: the user's."""

    def __init__(self, device: Optional[str], cache: Optional[str]):
        self.device, self.cache = device, cache

    def submit(self, want: str, options: Dict[str, Any], graph: bytes, event: Callable[[Dict[str, Any]], None],
               abort: Any) -> Tuple[Dict[str, Any], str, Optional[str]]:
        """(document, cache, signature)."""
        options = dict(options)
        limit = float(options.pop("timeout", 0) or LIMIT_S)
        args = [find.worker(), "--print", "--device", self.device or "auto"]
        if self.cache:
            args += ["--cache", self.cache]
        try:
            p = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                                 env=find.environment())
        except OSError as e:
            raise errors.make("worker-lost", f"{args[0]}: {e.strerror}", 502) from None
        late = threading.Event()
        ended = threading.Lock()

        def kill() -> None:
            with ended:
                if p.returncode is None:
                    try:
                        os.killpg(p.pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass

        def too_late() -> None:
            late.set()
            kill()

        timer = threading.Timer(limit, too_late)
        timer.daemon = True
        timer.start()
        abort.on(kill)
        try:
            return self._talk(p, want, options, graph, event, late, abort)
        except errors.Error:
            raise
        except BaseException:  # of a progress callback, or Ctrl-C
            kill()
            raise
        finally:
            timer.cancel()
            abort.on(None)
            for f in (p.stdin, p.stdout):
                try:
                    if f:
                        f.close()
                except OSError:
                    pass
            try:
                with ended:
                    p.wait(END_S if not late.is_set() else None)
            except subprocess.TimeoutExpired:
                kill()
                p.wait()

    def _talk(self, p: Any, want: str, options: Dict[str, Any], graph: bytes, event: Callable[[Dict[str, Any]], None],
              late: threading.Event, abort: Any) -> Tuple[Dict[str, Any], str, Optional[str]]:
        body = b'{"verb":"%s","options":%s,"graph":%s}' % (VERBS[want].encode(), json.dumps(options).encode(), graph)
        try:
            p.stdin.write(struct.pack("<IcI", len(body) + 5, b"Q", REQUEST) + body)
            p.stdin.flush()
        except OSError:
            pass  # shows as an answer that does not come
        while True:
            frame = _read(p.stdout)
            if frame is None:
                if abort.aborted:
                    raise errors.make("cancelled", "the request was cancelled", 409)
                if late.is_set():
                    raise errors.make("time-limit", "the job's time limit passed", 504)
                raise errors.make("worker-lost", "the worker ended without an answer", 502)
            kind, text = frame
            if kind == b"P":
                event({"event": "progress", **json.loads(text)})
            elif kind == b"E":
                raise errors.of(json.loads(text))
            elif kind == b"R":
                a = json.loads(text)
                return a["document"], a.get("cache") or "miss", a.get("signature") or None
