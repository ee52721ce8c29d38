"""One request over the service's Unix socket (docs/CONTRACT.md §6): post, follow the events, fetch the document."""
from __future__ import annotations

import http.client
import json
import os
import socket
import time
import urllib.parse
from typing import Any, Callable, Dict, Optional, Tuple

from . import errors

PATIENCE_S = 30  # of posts, while the service starts
SILENCE_S = 60


def default_socket() -> str:
    """$DOVETAIL_SOCKET, else $XDG_RUNTIME_DIR/dovetail.sock if somebody listens there, else the system's."""
    named = os.environ.get("DOVETAIL_SOCKET")
    if named:
        return named
    mine = os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), "dovetail.sock")
    return mine if os.environ.get("XDG_RUNTIME_DIR") and listens(mine) else "/run/dovetail/dovetail.sock"


def listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(SILENCE_S)
        try:
            s.connect(path)
        except (OSError, ValueError):
            return False
        return True


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: Optional[float]):
        super().__init__("d", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _lost(path: str, e: BaseException) -> errors.Error:
    return errors.make("no-service", f"{path}: {e or type(e).__name__}", 503)


class Service:
    """The service at a socket. Errors of every call: `no-service` where nobody answers, else the service's own."""

    def __init__(self, path: str):
        self.path = path

    def request(self, method: str, target: str, body: Optional[bytes] = None) -> Tuple[int, Any, bytes]:
        """One exchange: status, header fields, body."""
        c = _Connection(self.path, SILENCE_S)
        try:
            try:
                c.request(method, target, body=body)
            except BrokenPipeError:  # it answers before it has read all of a large body
                pass
            r = c.getresponse()
            return r.status, r.headers, r.read()
        except (OSError, http.client.HTTPException) as e:
            raise _lost(self.path, e) from None
        finally:
            c.close()

    def json(self, method: str, target: str, body: Optional[bytes] = None) -> Tuple[Any, Any]:
        """Header fields and document of an answer below 400; else its problem is raised. A post waits while the service
        starts."""
        for attempt in range(PATIENCE_S):
            status, headers, text = self.request(method, target, body)
            try:
                doc = json.loads(text)
            except ValueError:
                raise _lost(self.path, ValueError("the answer is not JSON")) from None
            if status == 503 and method == "POST" and doc.get("code") == "unavailable" and attempt < PATIENCE_S - 1:
                time.sleep(1)
                continue
            break
        if status >= 400:
            raise errors.of(doc)
        return headers, doc

    def follow(self, job: str, event: Callable[[Dict[str, Any]], None]) -> None:
        """Hand on each event of the job, to its end, over as many connections as it takes."""
        seq, tries = 0, 0
        while True:
            c = _Connection(self.path, SILENCE_S)
            try:
                c.request("GET", f"/v1/jobs/{job}/events?after={seq}")
                r = c.getresponse()
                if r.status >= 400:
                    raise errors.of(json.loads(r.read()))
                for line in iter(r.readline, b""):
                    if not line.strip():
                        continue
                    e = json.loads(line)
                    seq, tries = e["seq"], 0
                    event(e)
                    if e["event"] in ("done", "failed", "cancelled"):
                        return
            except socket.timeout:  # nothing happened for a while; a service that is gone refuses the next connection
                continue
            except (OSError, http.client.HTTPException, ValueError) as e:
                if isinstance(e, errors.Error):
                    raise
                tries += 1
                if tries > 3:
                    raise _lost(self.path, e) from None
                time.sleep(0.1)
            finally:
                c.close()

    def submit(self, want: str, options: Dict[str, Any], graph: bytes, event: Callable[[Dict[str, Any]], None],
               abort: Any) -> Tuple[Dict[str, Any], str, Optional[str]]:
        """(document, cache, signature). Whatever ends this call early cancels the job."""
        query = urllib.parse.urlencode({"want": want, **{k: _text(v) for k, v in options.items()}})
        headers, doc = self.json("POST", f"/v1/jobs?{query}", graph)
        if "Location" not in headers:
            return doc, headers.get("Dovetail-Cache", "miss"), headers.get("Dovetail-Signature")
        job = headers["Location"].rsplit("/", 1)[1]

        def cancel() -> None:
            try:
                self.request("DELETE", f"/v1/jobs/{job}")
            except errors.Error:
                pass

        abort.on(cancel)
        try:
            self.follow(job, event)
        except BaseException:
            cancel()
            raise
        finally:
            abort.on(None)
        _, state = self.json("GET", f"/v1/jobs/{job}")
        if state["state"] == "failed":
            raise errors.of(state["problem"])
        if state["state"] == "cancelled":
            raise errors.make("cancelled", f"job {job} was cancelled", 409)
        headers, doc = self.json("GET", f"/v1/jobs/{job}/result")
        return doc, state.get("cache") or "miss", state.get("signature")


def _text(v: Any) -> str:
    if v is True:
        return "1"
    return ",".join(v) if isinstance(v, (list, tuple)) else str(v)
