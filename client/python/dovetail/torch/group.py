"""A group at run time: guard, recording, plan.

Each set of shapes is a variant of its own. What is asked before a plan may run (`_key`): of every tensor from outside
its dtype, sizes, strides, offset, device, the bytes of its storage, the address modulo ALIGN, and which of them share a
storage; of every number its value. The first run of a variant is recorded while the original kernels run; then a
planner makes its plan, elsewhere; until it is there, the original kernels run. So they do for good where a variant has
no plan: refused, nothing gained, a binding that breaks what the plan assumes, an error in a launch.

    recording ─▶ waiting ─▶ planned, unchanged (nothing gained)
        └───────────┴──────────┴──▶ failed (why)

A plan is bound once for each set of addresses (BOUNDS of them are kept): the memory is torch's, held by whoever calls
the wrapper; scratch memory and intermediates are the Bound's, for each launch in flight.

Nothing of this may break a program: whatever goes wrong here becomes a line of `report()` and a warning, and the
original kernels run. One thing cannot be undone: a launch of a plan that failed after a part of it ran, where the group
reads what it writes. Then the error is raised.
"""
from __future__ import annotations

import collections
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from .. import errors, native
from ..plan import Bound, Plan
from ..tensors import Pointer
from . import kernels, record, reports
from .wrapper import Group as Text

ALIGN, VARIANTS, BOUNDS = 256, 16, 8


class Variant:
    """A group for one set of shapes. What `enter` gives for one that has its plan is itself."""

    def __init__(self, group: "Group"):
        self.group = group
        self.status, self.why = "recording", ""
        self.plan: Optional[Plan] = None
        self.recorded: Optional[record.Recorded] = None
        self.at: List[Tuple[str, int, int]] = []  # buffer, its number in what is held, its bytes
        self.bounds: "collections.OrderedDict[Any, Bound]" = collections.OrderedDict()
        self.runs = {"plan": 0, "original": 0}

    @property
    def planned(self) -> bool:
        return self.status == "planned"

    def fail(self, why: Any, warn: bool = True) -> None:
        """The original kernels from now on."""
        self.status, self.why = "failed", str(why)
        self.bounds.clear()
        if warn:
            reports.warn(f"{self.group.name}: {self.why}")

    def ready(self, plan: Plan) -> None:
        """The planner has it."""
        assert self.recorded is not None
        self.plan = plan
        if not plan.kept:
            self.status = "unchanged"
            return
        self.at = [(name, i, self.recorded.graph.buffers[name]["bytes"]) for name, i in self.recorded.held.items()]
        self.status = "planned"

    def _bound(self, addresses: Tuple[int, ...], held: Tuple[Any, ...]) -> Bound:
        assert self.plan is not None
        bound = self.bounds.get(addresses)
        if bound is None:
            for name, i, size in self.at:
                if record.storage(held[i])[1] != size:
                    raise errors.usage(f"buffer {name} had {size} bytes, and has {record.storage(held[i])[1]}")
            bound = self.plan.bind({name: Pointer(a, size) for a, (name, _, size) in zip(addresses, self.at)})
            if bound.fallback:
                raise errors.usage(bound.fallback)
            while len(self.bounds) >= BOUNDS:
                self.bounds.popitem(last=False)
            self.bounds[addresses] = bound
        else:
            self.bounds.move_to_end(addresses)
        return bound

    def launch(self, stream: Any, held: Tuple[Any, ...]) -> bool:
        """False: nothing was done that matters; the original kernels are to run."""
        try:
            with self.group.lock:
                bound = self._bound(tuple(record.storage(held[i])[0] for _, i, _ in self.at), held)
            bound.launch(int(stream) or native.STREAM_LEGACY)
            if bound.fallback:  # libdovetail ran the posted launches instead, which is as good
                self.fail(bound.fallback)
        except Exception as e:  # noqa: BLE001 (see the head)
            self.fail(e)
            assert self.recorded is not None
            if getattr(e, "started", False) and not self.recorded.restartable:
                raise
            self.runs["original"] += 1
            return False
        self.runs["plan"] += 1
        return True


class _Recording:
    """The first run of a variant: the kernels run as ever, and what they were given is kept until the group's end."""
    planned = False

    def __init__(self, variant: Variant):
        self.variant, self.ran, self.why = variant, [], None  # type: ignore[var-annotated]

    def run(self, kernel: Any, *args: Any, **kwargs: Any) -> None:
        kernel.run(*args, **kwargs)
        if self.why is None:
            try:
                self.ran.append((kernel, kernels.describe(kernel, args, kwargs)))
            except Exception as e:  # noqa: BLE001
                self.why = e

    def recorded(self, values: Tuple[Any, ...]) -> None:
        v, g = self.variant, self.variant.group
        v.runs["original"] += 1
        try:
            if self.why is not None:
                raise self.why
            v.recorded = record.build(g.name, g.text, dict(zip(g.text.names, values)), self.ran)
            v.status = "waiting"
            g.plan(v)
        except Exception as e:  # noqa: BLE001
            v.fail(e)
        finally:
            self.ran = []


class Group:
    """A group of a wrapper. name: "MODULE/0", for people. plan: called with a Variant that was recorded."""

    def __init__(self, name: str, text: Text, plan: Callable[[Variant], None]):
        self.name, self.text, self.plan = name, text, plan
        self.variants: Dict[Any, Variant] = {}
        self.lock = threading.Lock()
        self.why = ""  # of the group as a whole
        self._skip = text.outside.index(text.stream) if text.stream in text.outside else -1

    def enter(self, outside: Tuple[Any, ...]) -> Any:
        """What the wrapper asks first: a Variant with a plan, a recording, or None for the original kernels."""
        if self.why:
            return None
        try:
            key = self._key(outside)
            v = self.variants.get(key)
            if v is None:
                return self._new(key)
            if v.status == "planned":
                return v
            v.runs["original"] += 1
        except Exception as e:  # noqa: BLE001
            self.why = str(e)
            reports.warn(f"{self.name}: {self.why}")
        return None

    def _new(self, key: Any) -> Optional[_Recording]:
        with self.lock:
            if key in self.variants:  # another thread was here first
                return None
            if len(self.variants) >= VARIANTS:
                self.why = f"more than {VARIANTS} sets of shapes"
                reports.warn(f"{self.name}: {self.why}")
                return None
            v = self.variants[key] = Variant(self)
        return _Recording(v)

    def _key(self, outside: Tuple[Any, ...]) -> Any:
        key: List[Any] = []
        storages: Dict[int, int] = {}
        for i, v in enumerate(outside):
            if hasattr(v, "untyped_storage"):
                s = v.untyped_storage()
                at = s.data_ptr()
                key.append((v.dtype, v.size(), v.stride(), v.storage_offset(), v.device, s.nbytes(), at % ALIGN,
                            storages.setdefault(at, len(storages))))
            elif i == self._skip:
                continue
            elif v is None or isinstance(v, (int, float)):
                key.append((type(v), v))
            else:
                raise errors.usage(f"{self.text.outside[i]} is a {type(v).__name__}")
        return tuple(key)
