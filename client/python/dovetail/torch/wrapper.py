"""Inductor's wrapper, read and rewritten: which kernels stand beside one another, and what of their memory is theirs.

What Inductor emits for a module is Python text. Its `call(args)` (newer releases: also `partition_N(args)`) allocates
buffers, runs Triton kernels, calls libraries, and deletes buffers:

    buf0 = empty_strided_cuda((64, 64), (64, 1), torch.float32)
    stream0 = get_raw_stream(0)
    triton_poi_fused_0.run(arg0_1, buf0, 4096, stream=stream0)
    buf1 = empty_strided_cuda((64, 64), (64, 1), torch.float32)
    triton_per_fused_1.run(buf0, buf1, 64, 64, stream=stream0)
    del buf0
    extern_kernels.mm(buf1, arg1_1, out=buf2)

A group is a run of statements in which only that happens: allocations, kernels, other names of a tensor (views,
reuse), arithmetic on sizes, checks of sizes, deletions. Whatever else there is ends it. What a group allocates and
deletes itself, by every name that it has, is an intermediate: by the text nobody else can have seen it. All else that
it allocates is an output, and all else that it reads comes from outside.

Each group becomes (`rewrite`), in a copy of the function:

    _dovetail = _dovetail_groups[0].enter((arg0_1,))            # what comes from outside, in the order of `outside`
    if _dovetail is not None and _dovetail.planned:
        <allocations that are no intermediates, names>
        if _dovetail.launch(stream0, (arg0_1, buf1)):           # in the order of `held`
            <deletions>
        else:
            _dovetail = None
    elif _dovetail is not None:
        <the statements, kernels run by _dovetail.run(KERNEL, …), no deletions>
        _dovetail.recorded((arg0_1, buf0, buf1))                # in the order of `names`
        <deletions>
    if _dovetail is None:
        <the statements as they were>

Nothing here imports torch, or runs anything.
"""
from __future__ import annotations

import ast
import copy
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

ALLOCATE = {"empty_strided_cuda"}
VIEW = {"reinterpret_tensor"}
CHECKS = {"assert_size_stride", "assert_size_stride_grouped", "assert_alignment"}
PURE = VIEW | {"get_raw_stream", "max", "min", "abs", "int", "float", "bool", "round"}
_EXPRESSIONS = (ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Tuple, ast.List,
                ast.Attribute, ast.Call, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context,
                ast.keyword)


class Group(NamedTuple):
    """A group of a function. Names are of the function's variables.

    kernels: of the module, one a launch, in order. outside: what it reads and did not make. held: what its plan is
    bound to: outside, then what it allocates and leaves. names: every tensor or number that it knows. intermediates:
    names that are gone at its end. allocated: what it allocates, intermediates among them. numeric: names that are
    calculated with: were one a tensor, its content would be looked at, and the group could not be taken. stream: the
    variable with the stream of its kernels.
    """
    function: str
    kernels: List[str]
    outside: List[str]
    held: List[str]
    names: List[str]
    intermediates: List[str]
    allocated: List[str]
    numeric: List[str]
    stream: str


class _Kind(NamedTuple):
    """A statement that may be in a group. word: run, allocate, bind, check, delete."""
    word: str
    statement: ast.stmt
    stores: List[str]
    loads: List[str]


def _called(node: ast.AST) -> Optional[str]:
    """The name of a function that is called by its bare name."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None


def _pure(node: ast.AST) -> bool:
    """An expression of names, numbers and what is in PURE (or of math): it changes nothing."""
    for n in ast.walk(node):
        if not isinstance(n, _EXPRESSIONS):
            return False
        if isinstance(n, ast.Call) and _called(n) not in PURE and not (
                isinstance(n.func, ast.Attribute) and isinstance(n.func.value, ast.Name) and n.func.value.id == "math"):
            return False
    return True


def _kind(s: ast.stmt, kernels: Set[str], local: Set[str]) -> Optional[_Kind]:
    """None: it ends a group."""
    names = [n for n in ast.walk(s) if isinstance(n, ast.Name)]
    loads = [n.id for n in names if isinstance(n.ctx, ast.Load) and n.id in local]
    if isinstance(s, ast.Delete) and all(isinstance(t, ast.Name) for t in s.targets):
        return _Kind("delete", s, [], [t.id for t in s.targets if isinstance(t, ast.Name)])
    if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
        name, v = s.targets[0].id, s.value
        if isinstance(v, ast.Call) and _called(v) in ALLOCATE:
            return _Kind("allocate", s, [name], loads) if all(map(_pure, v.args)) and not v.keywords else None
        return _Kind("bind", s, [name], loads) if _pure(v) else None
    if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
        c = s.value
        if _called(c) in CHECKS and all(map(_pure, c.args)):
            return _Kind("check", s, [], loads)
        if isinstance(c.func, ast.Attribute) and c.func.attr == "run" and isinstance(c.func.value, ast.Name) and \
                c.func.value.id in kernels and c.func.value.id not in local and all(map(_pure, c.args)) and \
                _stream(c) and {k.arg for k in c.keywords} <= {"stream"}:
            constants = [a.id for a in c.args if isinstance(a, ast.Name) and a.id not in local]
            return _Kind("run", s, [], loads + constants)
    return None


def _stream(call: ast.Call) -> Optional[str]:
    """The variable that a kernel's run takes its stream from."""
    v = next((k.value for k in call.keywords if k.arg == "stream"), None)
    return v.id if isinstance(v, ast.Name) else None


def _source(v: ast.expr, local: Set[str]) -> Optional[str]:
    """Of what is bound: the tensor that it is another name of, or a view of."""
    while _called(v) in VIEW and v.args:  # type: ignore[attr-defined]
        v = v.args[0]  # type: ignore[attr-defined]
    return v.id if isinstance(v, ast.Name) and v.id in local else None


def _numeric(v: ast.expr, local: Set[str]) -> Set[str]:
    """Names in an expression whose values it calculates with: all but that of which it is another name or a view."""
    found: Set[str] = set()
    while _called(v) in VIEW and v.args:  # type: ignore[attr-defined]
        first, *rest = v.args  # type: ignore[attr-defined]
        found |= {n.id for a in rest for n in ast.walk(a) if isinstance(n, ast.Name)}
        v = first
    if not isinstance(v, ast.Name):
        found |= {n.id for n in ast.walk(v) if isinstance(n, ast.Name)}
    return found & local


def _runs(body: Sequence[ast.stmt], kernels: Set[str], local: Set[str]) -> Iterator[Tuple[int, List[_Kind]]]:
    """(where it begins, its statements) of each group of a block: as many as can be in one, and a kernel among them.
    A name that is bound anew begins another one (unless it is the stream, asked for again in the same words), and so
    does another stream."""
    at, run = 0, []  # type: int, List[_Kind]
    seen: Set[str] = set()
    streams: Set[str] = set()

    def whole() -> bool:
        return any(k.word == "run" for k in run)

    def again(k: _Kind) -> bool:
        v = getattr(k.statement, "value", None)
        return _called(v) == "get_raw_stream" and any(  # type: ignore[arg-type]
            k.stores == o.stores and ast.dump(k.statement) == ast.dump(o.statement) for o in run)

    for i, s in enumerate(body):
        k = _kind(s, kernels, local)
        stream = _stream(s.value) if k and k.word == "run" else None  # type: ignore[attr-defined]
        if k is None or (seen & set(k.stores) and not again(k)) or (stream and streams - {stream}):
            if whole():
                yield at, run
            at, run, seen, streams = i, [], set(), set()
        if k is None:
            at = i + 1
            continue
        run.append(k)
        seen.update(k.stores, k.loads)
        streams |= {stream} if stream else set()
    if whole():
        yield at, run


def _describe(function: str, run: List[_Kind], local: Set[str]) -> Group:
    stored: Set[str] = set()
    outside: List[str] = []
    root: Dict[str, str] = {}
    allocated: List[str] = []
    deleted: Set[str] = set()
    numeric: Set[str] = set()
    for k in run:
        value: Any = getattr(k.statement, "value", None)
        for v in [value] if k.word == "bind" else value.args if k.word in ("run", "allocate") else []:
            numeric |= _numeric(v, local)
        if k.word == "delete":
            deleted.update(k.loads)
        else:
            outside += [n for n in dict.fromkeys(k.loads) if n not in stored and n not in outside]
        stored.update(k.stores)
        if k.word == "allocate":
            allocated.append(k.stores[0])
            root[k.stores[0]] = k.stores[0]
        elif k.word == "bind":
            source = _source(k.statement.value, local)  # type: ignore[attr-defined]
            if source is not None:
                root[k.stores[0]] = root.get(source, source)
    families: Dict[str, List[str]] = {}
    for name, r in root.items():
        families.setdefault(r, []).append(name)
    gone = [n for a in allocated if set(families[a]) <= deleted for n in families[a]]
    names = list(dict.fromkeys(outside + [n for k in run for n in k.stores]))
    calls = [k.statement.value for k in run if k.word == "run"]  # type: ignore[attr-defined]
    held = outside + [a for a in allocated if a not in gone]
    return Group(function, [c.func.value.id for c in calls], outside, held, names, gone, allocated,
                 [n for n in names if n in numeric], _stream(calls[0]) or "")


# ---- the text --------------------------------------------------------------------------------------------------------

def _kernels(module: ast.Module) -> Set[str]:
    """Names of the module that are kernels: NAME = async_compile.triton(…)."""
    found = set()
    for s in module.body:
        if isinstance(s, ast.Assign) and isinstance(s.value, ast.Call) and isinstance(s.value.func, ast.Attribute) and \
                isinstance(s.value.func.value, ast.Name) and s.value.func.value.id == "async_compile" and \
                s.value.func.attr == "triton":
            found.update(t.id for t in s.targets if isinstance(t, ast.Name))
    return found


def _is_call(f: ast.AST) -> bool:
    """A function of what Inductor emits that runs kernels: it takes `args` alone (a method: after self)."""
    return isinstance(f, ast.FunctionDef) and [a.arg for a in f.args.args if a.arg != "self"] == ["args"] and \
        not f.args.kwonlyargs and not f.args.vararg and not f.args.kwarg


def _functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    for s in module.body:
        inside = s.body if isinstance(s, ast.ClassDef) and s.name == "Runner" else [s]
        for f in inside:
            if isinstance(f, ast.FunctionDef) and _is_call(f):
                yield f


def _local(f: ast.FunctionDef) -> Set[str]:
    return {a.arg for a in f.args.args} | {n.id for n in ast.walk(f) if isinstance(n, ast.Name)
                                           and isinstance(n.ctx, ast.Store)}


def _blocks(body: List[ast.stmt]) -> Iterator[List[ast.stmt]]:
    """The body, and the bodies of the `with` statements in it (device guards); no others."""
    yield body
    for s in body:
        if isinstance(s, ast.With):
            yield from _blocks(s.body)


def groups(text: str, least: int = 1) -> List[Group]:
    """The groups of a wrapper's text that have `least` kernels or more, in order. Errors: SyntaxError."""
    return [g for _, _, _, g in _find(ast.parse(text), least)]


def _find(module: ast.Module, least: int) -> List[Tuple[List[ast.stmt], int, List[_Kind], Group]]:
    kernels, found = _kernels(module), []
    for f in _functions(module):
        local = _local(f)
        for block in _blocks(f.body):
            for at, run in _runs(block, kernels, local):
                g = _describe(f.name, run, local)
                if len(g.kernels) >= least:
                    found.append((block, at, run, g))
    return found


# ---- rewriting -------------------------------------------------------------------------------------------------------

_FRAME = """
_dovetail = _dovetail_groups[{n}].enter(({outside}))
if _dovetail is not None and _dovetail.planned:
    if _dovetail.launch({stream}, ({held})):
        pass
    else:
        _dovetail = None
elif _dovetail is not None:
    pass
if _dovetail is None:
    pass
"""


def _tuple(names: Sequence[str]) -> str:
    return "".join(n + ", " for n in names)


def _recording(s: ast.stmt) -> ast.stmt:
    """KERNEL.run(…) becomes _dovetail.run(KERNEL, …)"""
    s = copy.deepcopy(s)
    call: Any = s.value  # type: ignore[attr-defined]
    call.args.insert(0, call.func.value)
    call.func = ast.Attribute(ast.Name("_dovetail", ast.Load()), "run", ast.Load())
    return s


def _swapped(n: int, run: List[_Kind], g: Group) -> List[ast.stmt]:
    """What stands in a group's place."""
    frame: Any = ast.parse(_FRAME.format(n=n, outside=_tuple(g.outside), stream=g.stream, held=_tuple(g.held))).body
    gone = set(g.intermediates)
    kept = [k.statement for k in run if k.word in ("allocate", "bind") and k.stores[0] not in gone or
            k.word == "check" and not gone & set(k.loads)]
    deletions = [k.statement for k in run if k.word == "delete"]
    left: List[ast.stmt] = []
    for d in deletions:
        there = [t for t in d.targets if t.id not in gone]  # type: ignore[attr-defined]
        left += [ast.Delete(there)] if there else []
    planned, original = frame[1], frame[2]
    planned.body[0].body = left or planned.body[0].body
    planned.body = kept + planned.body
    note = ast.parse("_dovetail.recorded((%s))" % _tuple(g.names)).body
    planned.orelse[0].body = [_recording(k.statement) if k.word == "run" else k.statement for k in run
                              if k.word != "delete"] + note + deletions
    original.body = [k.statement for k in run]
    return frame


_SWITCHES = {"runner", "call", "recursively_apply_fns"}  # what the module's other names are made of


def rewrite(text: str, filename: str, least: int = 1) -> Tuple[Any, List[Group]]:
    """(code to execute in the module, its groups). The code defines the wrapper's functions anew, and what is made of
    them (`runner`, `call`); kernels, constants and everything else of the module stay. It needs `_dovetail_groups` in
    the module: by number, what has `enter`. Errors: SyntaxError."""
    module = ast.parse(text)
    found = _find(module, least)
    done: Dict[int, Dict[int, Tuple[int, List[ast.stmt]]]] = {}
    blocks: Dict[int, List[ast.stmt]] = {}
    for n, (block, at, run, g) in enumerate(found):
        blocks[id(block)] = block
        done.setdefault(id(block), {})[at] = (len(run), _swapped(n, run, g))
    for key, block in blocks.items():
        new: List[ast.stmt] = []
        i = 0
        while i < len(block):
            length, statements = done[key].get(i, (1, [block[i]]))
            new += statements
            i += length
        block[:] = new

    def keeps(s: ast.stmt) -> bool:
        if isinstance(s, ast.ClassDef):
            return s.name == "Runner"
        if isinstance(s, ast.FunctionDef):
            return _is_call(s)
        return isinstance(s, ast.Assign) and any(isinstance(t, ast.Name) and t.id in _SWITCHES for t in s.targets)

    module.body = [s for s in module.body if keeps(s)]
    ast.fix_missing_locations(module)
    return compile(module, filename, "exec"), [g for _, _, _, g in found]


