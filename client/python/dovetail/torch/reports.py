"""What became of the groups: counters, reasons, warnings by name (each once)."""
from __future__ import annotations

import threading
import warnings
import weakref
from typing import Any, Dict, List, Set

_lock = threading.Lock()
_said: Set[str] = set()
_modules: "List[weakref.ref[Any]]" = []
_other: Dict[str, int] = {}


class DovetailWarning(UserWarning):
    """Original kernels run where a plan could have: the text says of which group, and why."""


def warn(text: str) -> None:
    """Once for each text."""
    with _lock:
        first = text not in _said
        _said.add(text)
        _other[text] = _other.get(text, 0) + 1
    if first:
        warnings.warn(f"dovetail: {text}; the original kernels run", DovetailWarning, stacklevel=3)


def add(module: Any) -> None:
    """A module that was rewritten: it has `groups`."""
    with _lock:
        _modules.append(weakref.ref(module))


class Report:
    """groups: a dict for each variant of each group: `group`, `kernels`, `status` (recording, waiting, planned,
    failed), `why`; of a plan `launches` and `times` (microseconds): [before, after], and `gain`, how many
    times as fast, by `method`; `ran_plan`, `ran_original`: how often. warnings: text, and how often."""

    def __init__(self) -> None:
        self.groups: List[Dict[str, Any]] = []
        with _lock:
            modules = [m for m in (r() for r in _modules) if m is not None]
            self.warnings = dict(_other)
        for m in modules:
            for g in m.groups:
                rows = [_row(g, v) for v in list(g.variants.values())]
                self.groups += rows or [{"group": g.name, "kernels": len(g.text.kernels), "status": "failed" if g.why
                                         else "not run", "why": g.why, "ran_plan": 0, "ran_original": 0}]

    def counts(self) -> Dict[str, int]:
        """How many variants are planned, waiting, failed …; `ran_plan`, `ran_original`: runs."""
        n: Dict[str, int] = {"planned": 0, "waiting": 0, "failed": 0}
        for g in self.groups:
            n[g["status"]] = n.get(g["status"], 0) + 1
        for k in ("ran_plan", "ran_original"):
            n[k] = sum(g[k] for g in self.groups)
        return n

    def __str__(self) -> str:
        lines = []
        for g in self.groups:
            text = f"{g['group']}: {g['kernels']} kernels, {g['status']}"
            if "gain" in g:
                before, after = g["launches"]
                text += f", {before} launches -> {after}, {g['gain']:.2f} times as fast ({g['method']})"
            if g["why"]:
                text += f": {g['why']}"
            lines.append(f"{text}; ran as plan {g['ran_plan']}, as originals {g['ran_original']} times")
        lines += [f"{n} x {text}" for text, n in self.warnings.items()]
        return "\n".join(lines) or "no group"

    __repr__ = __str__


def _row(g: Any, v: Any) -> Dict[str, Any]:
    row = {"group": g.name, "kernels": len(g.text.kernels), "status": v.status, "why": v.why,
           "ran_plan": v.runs["plan"], "ran_original": v.runs["original"]}
    plan = v.plan
    if plan is not None:
        both = plan.document["baseline"], plan.document["optimized"]
        row.update(launches=[d["launches"] for d in both], times=[d["time_us"] for d in both], gain=plan.gain,
                   method=plan.method)
    return row
