"""dovetail.torch without PyTorch: groups of wrappers' texts, and the wrappers of wrappers/ on the software device,
where the plan's bytes are compared with the kernels'."""
import importlib.util
import os
import struct
import warnings

import pytest

import dovetail
import dovetail.torch
from dovetail.torch import group, planner, reports, settings, wrapper
from dovetail.torch import inductor as swap
from conftest import HERE

HEAD = "k = async_compile.triton('k', '', device_str='cuda')\nj = async_compile.triton('j', '', device_str='cuda')\n"


def groups(body, least=1):
    lines = "".join(f"        {line}\n" for line in body.strip().split("\n"))
    return wrapper.groups(f"{HEAD}def call(args):\n    a, b, s0 = args\n    args.clear()\n    with guard(0):\n{lines}"
                          "    return (a,)\n", least)


# ---- the text --------------------------------------------------------------------------------------------------------

def test_a_group_and_its_intermediate():
    g, = groups("""
x = empty_strided_cuda((4,), (1,), torch.float32)
s = get_raw_stream(0)
k.run(a, x, 4, stream=s)
y = empty_strided_cuda((4,), (1,), torch.float32)
s = get_raw_stream(0)
j.run(x, y, 4, stream=s)
del x
""")
    assert g.kernels == ["k", "j"] and g.outside == ["a"] and g.intermediates == ["x"] and g.stream == "s"
    assert g.allocated == ["x", "y"] and g.held == ["a", "y"]


@pytest.mark.parametrize("end", ["extern_kernels.mm(a, b, out=x)", "x.zero_()", "y = torch.ops.aten.sort(x)",
                                 "y = x[0]", "foo(x)", "if s0: pass", "y = (a, x)[f(1)]",
                                 "k.run(a, x, 4, grid=g, stream=s)", "y = x + a.item()"])
def test_what_ends_a_group(end):
    body = "s = get_raw_stream(0)\nx = empty_strided_cuda((4,), (1,), torch.float32)\nk.run(a, x, 4, stream=s)\n"
    found = groups(f"{body}{end}\nj.run(b, x, 4, stream=s)\ndel x")
    assert [g.kernels for g in found] == [["k"], ["j"]]
    assert all(g.intermediates == [] for g in found)  # nobody knows who else has seen it


@pytest.mark.parametrize("body,gone", [
    ("del x", ["x"]),
    ("y = x\ndel x", []),  # another name of it lives
    ("y = x\ndel x\ndel y", ["x", "y"]),
    ("y = reinterpret_tensor(x, (2, 2), (2, 1), 0)\ndel x", []),
    ("y = reinterpret_tensor(x, (2, 2), (2, 1), 0)\ndel x\nz = y\ndel y", []),
    ("y = reinterpret_tensor(x, (2, 2), (2, 1), 0)\ndel x\nz = y\ndel y\ndel z", ["x", "y", "z"]),
    ("", []),
])
def test_by_each_of_its_names(body, gone):
    g, = groups("x = empty_strided_cuda((4,), (1,), torch.float32)\ns = get_raw_stream(0)\nk.run(a, x, 4, stream=s)\n" +
                body)
    assert g.intermediates == gone
    assert g.held == ["a"] + ([] if gone else ["x"])


def test_names_bound_anew_and_streams():
    found = groups("""
s = get_raw_stream(0)
k.run(a, b, 4, stream=s)
a = b
k.run(a, b, 4, stream=s)
t = get_raw_stream(1)
k.run(a, b, 4, stream=t)
""")
    assert [(g.kernels, g.stream) for g in found] == [(["k"], "s"), (["k"], "s"), (["k"], "t")]


def test_numbers_are_told_from_tensors():
    g, = groups("n = 32*s0\ns = get_raw_stream(0)\nk.run(a, b, n, s0 // 2, stream=s)")
    assert g.numeric == ["s0"]
    g, = groups("n = a * 2\ns = get_raw_stream(0)\nk.run(a, b, n, stream=s)")
    assert g.numeric == ["a"]  # which a tensor must not be (test_calculating_with_a_tensor)


def test_least_and_constants_of_the_module():
    body = "s = get_raw_stream(0)\nk.run(a, _tensor_constant0, 4, stream=s)"
    assert groups(body, least=2) == []
    assert groups(body)[0].outside == ["a", "_tensor_constant0"]


def test_the_originals_stay_as_they_are():
    """Compiled without its groups' switches, a rewritten wrapper has each statement of the original."""
    import ast
    path = os.path.join(HERE, "wrappers/chain.py")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    assert [g.kernels for g in wrapper.groups(text)] == [
        ["triton_poi_fused_add_0", "triton_poi_fused_mul_1", "triton_poi_fused_gelu_2"], ["triton_poi_fused_gelu_2"]]
    seen = []
    real = compile
    wrapper.compile = lambda tree, *a: seen.append(tree) or real(tree, *a)
    try:
        wrapper.rewrite(text, path)
    finally:
        del wrapper.compile

    class Originals(ast.NodeTransformer):
        def visit_Assign(self, n):
            return None if ast.unparse(n).startswith("_dovetail = ") else n

        def visit_If(self, n):
            test = ast.unparse(n.test)
            return n.body if test == "_dovetail is None" else None if "_dovetail" in test else n

    rewritten = Originals().visit(seen[0])
    call = {n.name: n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)}["call"]
    mine = {n.name: n for n in ast.walk(rewritten) if isinstance(n, ast.FunctionDef)}["call"]
    assert ast.unparse(mine) == ast.unparse(call)


# ---- on the software device ------------------------------------------------------------------------------------------

@pytest.fixture
def load(soft, monkeypatch):
    """load(name, client, …): (module as it is, the swapped one)."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setattr(reports, "_said", set())
    monkeypatch.setattr(reports, "_other", {})
    monkeypatch.setattr(reports, "_modules", [])

    def load(name, client, **more):
        path = os.path.join(HERE, "wrappers", name + ".py")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module, swap.swapped(module, settings.of({"client": client, "wait": True, **more}))

    return load


@pytest.fixture
def inductor(load):
    import inductor
    inductor.allocations.clear()
    return inductor


def values(n, seed=1):
    return [struct.unpack("f", struct.pack("f", ((i * 7919 + seed * 104729) % 2003 - 1001) / 977))[0] for i in range(n)]


def chain(inductor, call, seed=1):
    return [t.bytes() for t in call([inductor.tensor(values(4096, seed), (64, 64)),
                                     inductor.tensor(values(4096, seed + 1), (64, 64))])]


def test_chain(inductor, load, local):
    module, new = load("chain", local)
    assert new is not module and module.call.__func__ is not new.call.__func__
    assert new.triton_poi_fused_add_0 is module.triton_poi_fused_add_0
    want = chain(inductor, module.call)
    assert chain(inductor, new.call) == want  # recorded
    runs, inductor.allocations[:] = module.triton_poi_fused_add_0.runs, []
    for seed in 1, 2, 3:
        want = chain(inductor, module.call, seed)
        inductor.allocations.clear()
        assert chain(inductor, new.call, seed) == want
        assert len(inductor.allocations) == 2  # the intermediate is nowhere
    assert module.triton_poi_fused_add_0.runs == runs + 3  # the original module's
    row, = dovetail.torch.report().groups
    assert row["status"] == "planned" and row["ran_plan"] == 3 and row["ran_original"] == 1
    assert row["launches"][0] == 3 and row["launches"][1] < 3 and row["gain"] > 1
    assert dovetail.torch.report().warnings == {} and "planned" in str(dovetail.torch.report())


def test_background(inductor, load, local):
    module, new = load("chain", local, wait=False)
    want = chain(inductor, module.call)
    assert chain(inductor, new.call) == want
    assert dovetail.torch.wait(120)
    assert chain(inductor, new.call) == want
    assert dovetail.torch.report().counts()["ran_plan"] == 1


def dynamic(inductor, call, n, same=False):
    a = inductor.tensor(values(32 * n), (n, 32))
    b = a if same else inductor.tensor(values(32 * n, 5), (n, 32))
    return [t.bytes() for t in call([n, a, b])] + [a.bytes(), b.bytes()]


def test_sizes_and_shared_memory_are_variants(inductor, load, local):
    """What a kernel changes is compared, too; each size, and one tensor given twice, is recorded for itself."""
    module, new = load("dynamic", local)
    for same in False, True:
        for n in 8, 12:
            want = dynamic(inductor, module.call, n, same)
            for _ in range(3):
                assert dynamic(inductor, new.call, n, same) == want
    rows = dovetail.torch.report().groups
    assert len(rows) == 4 and {r["status"] for r in rows} <= {"planned", "unchanged"}
    graphs = [v.recorded.graph for v in new._dovetail_groups[0].variants.values()]
    roles = [{n: b["role"] for n, b in g.buffers.items()} for g in graphs]
    assert roles[0] == {"arg1_1": "input", "buf0": "output", "arg2_1": "inout"}
    assert roles[2] == {"arg1_1": "inout", "buf0": "output"}
    assert {g.buffers["buf0"]["bytes"] for g in graphs} == {32 * 32, 48 * 32}


def test_offsets_are_asked_for(inductor, load, local):
    module, new = load("dynamic", local)

    def run(call, offset):
        memory = inductor.tensor(values(32 * 8 + 64), (320,))
        a = inductor.Tensor(memory._storage, (8, 32), (32, 1), offset)
        b = inductor.tensor(values(32 * 8, 5), (8, 32))
        return [t.bytes() for t in call([8, a, b])] + [b.bytes()]

    for offset in 0, 64, 32:
        want = run(module.call, offset)
        assert [run(new.call, offset) for _ in range(2)] == [want] * 2
    assert len(new._dovetail_groups[0].variants) == 3


def test_each_part_of_the_guard(inductor):
    """One thing differs at a time, and each makes another variant; what does not matter makes none."""
    text = groups("s = get_raw_stream(0)\nk.run(a, b, s0, 1.5, stream=s)")[0]
    g = group.Group("g", text, lambda v: None)
    assert text.outside == ["a", "b", "s0"]
    T, whole = inductor.Tensor, inductor.tensor(values(512))._storage
    plain = T(whole, (8, 8), (8, 1))
    other = T(inductor.tensor(values(512))._storage, (8, 8), (8, 1))
    bases = [(plain, other, 8)]
    for a in (T(whole, (8, 8), (8, 1), dtype="torch.int32"), T(whole, (4, 16), (8, 1)), T(whole, (8, 8), (1, 8)),
              T(whole, (8, 8), (8, 1), 64), T(whole, (8, 8), (8, 1), device="cuda:1"),
              T(inductor.tensor(values(300))._storage, (8, 8), (8, 1))):
        bases.append((a, other, 8))
    bases += [(plain, plain, 8), (plain, other, 9), (plain, other, 8.0), (plain, other, True), (plain, None, 8)]

    class Shifted(inductor.Storage):
        def data_ptr(self):
            return super().data_ptr() + 16

    bases.append((T(Shifted(whole.array), (8, 8), (8, 1)), other, 8))
    keys = [g._key(b) for b in bases]
    assert len(set(keys)) == len(keys)
    assert g._key((T(inductor.tensor(values(512))._storage, (8, 8), (8, 1)), plain, 8)) == keys[0]
    with pytest.raises(dovetail.UsageError, match="s0 is a str"):
        g._key((plain, other, "8"))


def test_streams_are_no_part_of_the_guard():
    text = groups("k.run(a, b, 8, stream=s0)")[0]
    g = group.Group("g", text, lambda v: None)
    assert g._key((1, 2, 7)) == g._key((1, 2, 8)) != g._key((1, 3, 7))


class Refuses:
    def optimize(self, graph, **_):
        raise dovetail.errors.make("unsupported", "not today", 422)


def test_refused(inductor, load):
    module, new = load("chain", Refuses())
    want = chain(inductor, module.call)
    with pytest.warns(reports.DovetailWarning, match="chain/0: not today.*the original kernels run") as seen:
        for _ in range(3):
            assert chain(inductor, new.call) == want
    assert len(seen) == 1
    row, = dovetail.torch.report().groups
    assert (row["status"], row["ran_plan"], row["ran_original"]) == ("failed", 0, 3) and "not today" in row["why"]


def test_a_launch_that_fails(inductor, load, local, monkeypatch):
    module, new = load("chain", local)
    want = chain(inductor, module.call)
    chain(inductor, new.call)

    def launch(self, stream):
        e = dovetail.errors.make("device", "cuLaunchKernelEx: no more", 502)
        e.started = True
        raise e

    with monkeypatch.context() as m:
        m.setattr(group.Bound, "launch", launch)
        with pytest.warns(reports.DovetailWarning, match="no more"):
            assert chain(inductor, new.call) == want  # it reads nothing that it writes: again from the beginning
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chain(inductor, new.call) == want
    assert dovetail.torch.report().counts() == {"planned": 0, "waiting": 0, "failed": 1, "ran_plan": 0,
                                                "ran_original": 3}


@pytest.mark.parametrize("started", [False, True])
def test_a_launch_that_failed_half_way(inductor, load, local, monkeypatch, started):
    """What comes from outside is changed by the group: a second time would be wrong."""
    module, new = load("dynamic", local)
    want = dynamic(inductor, module.call, 8)
    dynamic(inductor, new.call, 8)
    if not dovetail.torch.report().counts()["planned"]:
        pytest.skip("no plan is faster here")

    def launch(self, stream):
        e = dovetail.errors.make("device", "half way", 502)
        e.started = started
        raise e

    monkeypatch.setattr(group.Bound, "launch", launch)
    with pytest.warns(reports.DovetailWarning, match="half way"):
        if started:
            with pytest.raises(dovetail.DeviceError, match="half way"):
                dynamic(inductor, new.call, 8)
        else:
            assert dynamic(inductor, new.call, 8) == want


def test_a_binding_that_breaks_the_plan(inductor, load, local, monkeypatch):
    module, new = load("chain", local)
    want = chain(inductor, module.call)
    chain(inductor, new.call)
    monkeypatch.setattr(group.Bound, "fallback", property(lambda self: "buffers overlap"))
    with pytest.warns(reports.DovetailWarning, match="buffers overlap"):
        assert chain(inductor, new.call) == want


def test_another_device(inductor, load, local, monkeypatch):
    class Other:
        def optimize(self, graph, **more):
            plan = local.optimize(graph)
            plan.document["device"] = {**plan.document["device"], "arch": "sm_80", "name": "another"}
            return plan

    module, new = load("chain", Other())
    want = chain(inductor, module.call)
    with pytest.warns(reports.DovetailWarning, match="the plan is for another"):
        assert [chain(inductor, new.call) for _ in range(2)] == [want] * 2


def test_not_tuned_yet(inductor, load, local):
    module, new = load("chain", local)
    want = chain(inductor, module.call)
    module.triton_poi_fused_mul_1.launchers *= 2
    with pytest.warns(reports.DovetailWarning, match="triton_poi_fused_mul_1: it has 2 launchers"):
        assert [chain(inductor, new.call) for _ in range(2)] == [want] * 2


def test_calculating_with_a_tensor(inductor, load, local, tmp_path, monkeypatch):
    module, _ = load("dynamic", local)
    with open(module.__file__, encoding="utf-8") as f:
        text = f.read().replace("32*s77\n        stream0", "len(arg1_1.bytes()) // 4 * (arg2_1 is not None)\n        "
                                "stream0", 1)
    assert "buf0" in wrapper.groups(text)[0].outside  # a method is called, so the group begins behind it
    text = text.replace("len(arg1_1.bytes()) // 4 * (arg2_1 is not None)", "int(256 * (arg2_1 is not None))")
    new = swap.swapped(module, settings.of({"client": local, "wait": True}), text)
    want = dynamic(inductor, module.call, 8)
    with pytest.warns(reports.DovetailWarning, match="calculates with the tensor arg2_1"):
        assert dynamic(inductor, new.call, 8) == want


def test_too_many_sizes(inductor, load):
    module, new = load("dynamic", Refuses())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(1, group.VARIANTS + 3):
            assert dynamic(inductor, new.call, n) == dynamic(inductor, module.call, n)
    assert len(new._dovetail_groups[0].variants) == group.VARIANTS
    assert "sets of shapes" in new._dovetail_groups[0].why


def test_bounds_are_few(inductor, load, local):
    module, new = load("chain", local)
    keep = [inductor.tensor(values(4096, i), (64, 64)) for i in range(2 * group.BOUNDS)]
    other = inductor.tensor(values(4096, 99), (64, 64))
    for t in keep:
        want = [u.bytes() for u in module.call([t, other])]
        assert [u.bytes() for u in new.call([t, other])] == want
    v, = new._dovetail_groups[0].variants.values()
    assert v.planned and len(v.bounds) <= group.BOUNDS


PARTITIONS = """from inductor import async_compile, empty_strided_cuda, get_raw_stream, torch
k = async_compile.triton('k', 'y = 2.0 in_ptr0,out_ptr0 1.0', device_str='cuda')
j = async_compile.triton('j', 'y = 0.5 in_ptr0,out_ptr0 1.0', device_str='cuda')
made = [0]
made[0] += 1


def partition_0(args):
    arg0_1, = args
    args.clear()
    with torch.cuda._DeviceGuard(0):
        buf0 = empty_strided_cuda((4096, ), (1, ), torch.float32)
        stream0 = get_raw_stream(0)
        k.run(arg0_1, buf0, 4096, stream=stream0)
        buf1 = empty_strided_cuda((4096, ), (1, ), torch.float32)
        j.run(buf0, buf1, 4096, stream=stream0)
        del buf0
    return (buf1, )


class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def call(self, args):
        arg0_1, = args
        args.clear()
        partition0_args = [arg0_1]
        del arg0_1
        (buf1,) = self.partitions[0](partition0_args)
        del partition0_args
        return (buf1, )


runner = Runner(partitions=[partition_0,])
call = runner.call
"""


def test_partitions(inductor, load, local, tmp_path):
    """What graph_partition emits: kernels are in functions that the runner calls. Nothing else of the module runs
    again."""
    import types
    (tmp_path / "parts.py").write_text(PARTITIONS)
    module = types.ModuleType("parts")
    module.__file__ = str(tmp_path / "parts.py")
    exec(compile(PARTITIONS, module.__file__, "exec"), module.__dict__)
    new = swap.swapped(module, settings.of({"client": local, "wait": True}))
    assert new.made == [1] and new.runner is not module.runner and new.k is module.k
    for seed in 1, 2, 3:
        a = inductor.tensor(values(4096, seed))
        assert new.call([a])[0].bytes() == module.call([a])[0].bytes()
    assert dovetail.torch.report().counts()["ran_plan"] == 2


# ---- settings --------------------------------------------------------------------------------------------------------

def test_settings():
    with pytest.raises(dovetail.UsageError, match="no setting is called 'level'; there are allow"):
        dovetail.torch.Backend(level=3)
    assert dovetail.torch.Backend(allow="slice") == dovetail.torch.Backend(allow=["slice"])


def test_uuid_of_two_processes():
    import subprocess
    import sys
    code = ("import dovetail.torch as t, sys; assert 'torch' not in sys.modules; "
            "print(t.uuid(), t.uuid(deny=['slice', 'split']), t.uuid(client=object()))")
    lines = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                            env={**os.environ, "PYTHONHASHSEED": seed}).stdout for seed in ("1", "2")}
    assert len(lines) == 1
    plain, denied, asking = lines.pop().split()
    assert plain == asking != denied and plain == dovetail.torch.uuid()


def test_uuid_changes_with_the_package(monkeypatch):
    before = dovetail.torch.uuid()
    settings._package.cache_clear()
    monkeypatch.setattr(dovetail, "__version__", "0.1.0+other")
    assert dovetail.torch.uuid() != before
    monkeypatch.undo()
    settings._package.cache_clear()
    assert dovetail.torch.uuid() == before
    assert dovetail.torch.uuid(least=3) != before


def test_planner_ends(inductor, load, local):
    assert planner.drain(60)
