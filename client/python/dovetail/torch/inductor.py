"""torch.compile's backend: Inductor's own, whose wrappers are rewritten when they are loaded.

Inductor compiles a graph, or takes it from its caches, and loads the wrapper's text as a Python module in either case
(PyCodeCache.load_by_key_path). While one of our compilations runs in a thread, the module that comes from there is
replaced by a copy of its own: the same kernels and constants, the functions of `wrapper.rewrite`. The module itself
stays as it was, so that a compilation with another backend that gets the same text is not touched.

Caches. Nothing of ours is in what Inductor keeps: its text is the same with us and without. Even so its keys get our
`uuid` (package and settings), by the protocol that it has for it: a custom pass over the graph, which does nothing.

What does not work, a release that is not known first of all, leaves Inductor as it is, and a warning says so.
"""
from __future__ import annotations

import contextlib
import os
import threading
import types
from typing import Any, Dict, Iterator, List, Optional

from .. import errors
from . import planner, reports, versions, wrapper
from . import settings as settings_
from .group import Group
from .settings import Settings

_here = threading.local()
_hooked = False


class Groups:
    """Of one wrapper, by number."""

    def __init__(self, name: str, settings: Settings):
        self.name, self.settings = name, settings
        self.groups: List[Group] = []

    def fill(self, texts: List[wrapper.Group]) -> None:
        self.groups = [Group(f"{self.name}/{i}", t, self._plan) for i, t in enumerate(texts)]
        reports.add(self)

    def _plan(self, variant: Any) -> None:
        planner.plan(variant, self.settings)

    def __getitem__(self, n: int) -> Group:
        return self.groups[n]


def swapped(module: Any, settings: Settings, text: Optional[str] = None) -> Any:
    """A copy of a wrapper's module whose groups ask for plans; the module itself where it has none. text: of the
    module, if its file does not have it. Errors: SyntaxError, OSError, and what the rewritten text raises."""
    if text is None:
        with open(module.__file__, encoding="utf-8") as f:
            text = f.read()
    if not wrapper.groups(text, settings.least):
        return module
    name = os.path.splitext(os.path.basename(module.__file__ or module.__name__))[0]
    code, texts = wrapper.rewrite(text, module.__file__ or name, settings.least)
    copy = types.ModuleType(module.__name__, module.__doc__)
    groups = Groups(name[:12], settings)
    copy.__dict__.update(module.__dict__)
    copy.__dict__["_dovetail_groups"] = groups
    groups.fill(texts)
    exec(code, copy.__dict__)
    return copy


@contextlib.contextmanager
def _active(settings: Settings) -> Iterator[None]:
    before = getattr(_here, "settings", None)
    _here.settings = settings
    try:
        yield
    finally:
        _here.settings = before


def _hook() -> None:
    """Once: the modules that Inductor loads while one of our compilations runs."""
    global _hooked
    if _hooked:
        return
    from torch._inductor.codecache import PyCodeCache
    load = PyCodeCache.load_by_key_path.__func__

    def load_by_key_path(cls: Any, *args: Any, **kwargs: Any) -> Any:
        settings = getattr(_here, "settings", None)
        with _active(None):  # type: ignore[arg-type]  # it loads kernels in the same way
            module = load(cls, *args, **kwargs)
        if settings is None or not callable(getattr(module, "call", None)):
            return module
        try:
            return swapped(module, settings)
        except Exception as e:  # noqa: BLE001 (it runs as Inductor made it)
            reports.warn(f"{getattr(module, '__file__', module)}: {type(e).__name__}: {e}")
            return module

    PyCodeCache.load_by_key_path = classmethod(load_by_key_path)
    _hooked = True


def _pass(settings: Settings, other: Any) -> Any:
    """The custom pass whose identity is ours, and that of the pass that was there."""
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Identity(CustomGraphPass):
        def __call__(self, graph: Any) -> None:
            for p in others:
                p(graph)

        def uuid(self) -> Any:
            theirs = [p.uuid() if isinstance(p, CustomGraphPass) else None for p in others]
            if not all(theirs):
                return None  # Inductor then keeps nothing, as it would without us
            return (settings.uuid(), *theirs) if theirs else settings.uuid()

    others = [] if other is None else list(other) if isinstance(other, (list, tuple)) else [other]
    return Identity()


class Backend:
    """`torch.compile(model, backend=Backend(…))`. settings: of Settings. mode and options of torch.compile go to
    Inductor."""
    compiler_name = "dovetail"

    def __init__(self, **settings: Any):
        self.settings = settings_.of(settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash((Backend, self.settings))

    def __call__(self, gm: Any, inputs: Any, *, mode: Optional[str] = None, options: Optional[Dict[str, Any]] = None,
                 **_: Any) -> Any:
        import torch
        from torch._inductor.compile_fx import compile_fx, compile_fx_inner
        config = dict(torch._TorchCompileInductorWrapper(mode, options, None).config)
        try:
            versions.torch()
            _hook()
            from torch._inductor import config as inductor
            before = config.get("post_grad_custom_post_pass", inductor.post_grad_custom_post_pass)
            ours = {**config, "post_grad_custom_post_pass": _pass(self.settings, before)}
        except (errors.Error, ImportError, AttributeError) as e:
            reports.warn(f"backend: {e}")
            return compile_fx(gm, inputs, config_patches=config)

        def inner(*args: Any, **kwargs: Any) -> Any:  # also a backward pass that is compiled later
            with _active(self.settings):
                return compile_fx_inner(*args, **kwargs)

        with _active(self.settings):
            return compile_fx(gm, inputs, inner_compile=inner, config_patches=ours)


def backend(gm: Any, inputs: Any, **kwargs: Any) -> Any:
    """`torch.compile(model, backend="dovetail")`, with the settings of `dovetail.torch.defaults`."""
    return Backend(**defaults)(gm, inputs, **kwargs)


defaults: Dict[str, Any] = {}
