"""What requests give: objects around the documents of docs/CONTRACT.md §3 to §5."""
from __future__ import annotations

import base64
from typing import Any, Dict, List, NamedTuple, Optional


class Progress(NamedTuple):
    """How far a request is: stage ("queued", "compile", "analyze", …), what it is at, and how many of how many."""
    stage: str
    message: str
    done: int
    of: int


class Result:
    """A document, and what the reply said of it.

    document: the JSON as a dict. cache: "hit", "stale", "shared", "miss". signature: "sha256:…" or None.
    """

    def __init__(self, document: Dict[str, Any], cache: str = "miss", signature: Optional[str] = None):
        self.document = document
        self.cache = cache
        self.signature = signature or document.get("signature")

    @property
    def warnings(self) -> List[Dict[str, Any]]:
        """`code`, `message`, and where they apply `pointer`, `launch`, `line` of each."""
        return self.document.get("warnings", [])


class Analysis(Result):
    """The analysis document (§3): which block needs what from which other block."""

    @property
    def edges(self) -> List[Dict[str, Any]]:
        return self.document["edges"]

    @property
    def launches(self) -> List[Dict[str, Any]]:
        return self.document["launches"]


class Run(Result):
    """What running a graph or plan gave. time_us: microseconds, by `method` (`modeled:…` is no measurement)."""

    @property
    def time_us(self) -> float:
        return self.document["time_us"]

    @property
    def method(self) -> str:
        return self.document["method"]

    @property
    def sha256(self) -> Dict[str, str]:
        """By output and inout buffer, "sha256:…" of its bytes."""
        return {o["buffer"]: o["sha256"] for o in self.document["outputs"]}

    @property
    def outputs(self) -> Dict[str, bytes]:
        """The bytes of each output and inout buffer, of a run with dump=True. Errors: KeyError without."""
        return {o["buffer"]: base64.b64decode(o["data"]) for o in self.document["outputs"]}
