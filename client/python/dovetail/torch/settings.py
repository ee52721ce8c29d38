"""Settings, and the identity that Inductor's caches are given (`uuid`)."""
from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from typing import Any, Dict, Optional, Tuple

from .. import errors


@dataclasses.dataclass(frozen=True)
class Settings:
    """client: who optimises; None: dovetail.Client(). wait: the first run of a group waits for its plan (else it is
    made in the background). least: a group has as many kernels. allow, deny, budget, memory, timeout: as of
    Client.optimize."""
    client: Any = None
    wait: bool = False
    least: int = 2
    allow: Tuple[str, ...] = ()
    deny: Tuple[str, ...] = ()
    budget: Optional[float] = None
    memory: Optional[int] = None
    timeout: Optional[float] = None

    def request(self) -> Dict[str, Any]:
        return {"allow": self.allow, "deny": self.deny, "budget": self.budget, "memory": self.memory,
                "timeout": self.timeout}

    def uuid(self) -> str:
        """The same in every process for the same package and settings; who the client asks is no part of it."""
        said = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "client"}
        text = json.dumps({"package": _package(), **said}, sort_keys=True)
        return "dovetail-" + hashlib.sha256(text.encode()).hexdigest()


def of(settings: Dict[str, Any]) -> Settings:
    """Errors: `usage` for one that there is not."""
    names = {f.name for f in dataclasses.fields(Settings)}
    for k in settings:
        if k not in names:
            raise errors.usage(f"no setting is called {k!r}; there are {', '.join(sorted(names))}")
    for k in "allow", "deny":
        if k in settings:
            v = settings[k]
            settings[k] = (v,) if isinstance(v, str) else tuple(v)
    return Settings(**settings)


@functools.lru_cache(maxsize=None)
def _package() -> str:
    """Version of the package, and the text of this folder, where no number was raised for a change of it."""
    from .. import __version__
    h = hashlib.sha256(__version__.encode())
    here = os.path.dirname(os.path.abspath(__file__))
    for name in sorted(os.listdir(here)):
        if name.endswith(".py"):
            with open(os.path.join(here, name), "rb") as f:
                h.update(name.encode() + b"\0" + f.read() + b"\0")
    return h.hexdigest()
