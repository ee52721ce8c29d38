"""dovetail.torch with PyTorch's CUDA build on the software device: what Inductor generates here, its plans' bytes, its
caches. Skipped where PyTorch is not installed, or is one that does not take the device."""
import importlib.util
import os
import subprocess
import sys
import warnings

import pytest

import dovetail
import dovetail.torch
from dovetail.torch import inductor, kernels, reports, versions
from conftest import BUILD, ROOT

if importlib.util.find_spec("torch") is None:
    pytest.skip("no PyTorch here: ./dev torch fetches its oldest and newest known release", allow_module_level=True)


@pytest.fixture(scope="session")
def torch(folder):
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(folder, "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", os.path.join(folder, "triton"))
    try:
        module = dovetail.torch.software("h200")
    except dovetail.Error as e:
        pytest.skip(str(e))
    return module


@pytest.fixture(autouse=True)
def fresh(torch, monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setattr(reports, "_said", set())
    monkeypatch.setattr(reports, "_other", {})
    monkeypatch.setattr(reports, "_modules", [])
    with warnings.catch_warnings():
        warnings.simplefilter("error", reports.DovetailWarning)
        yield


def norms(torch, x, y):
    """Kernels that Inductor does not make one: norms along each axis in turn, of x and, beside it, of y."""
    F = torch.nn.functional
    a = F.gelu(F.layer_norm(x, (x.size(1),)) + y)
    b = torch.softmax(a.t().contiguous() * 2, -1)
    c = F.layer_norm(torch.softmax(y, 0), (y.size(1),))
    return F.layer_norm(b, (x.size(0),)).sum(0), b, c


def tensors(torch, n=32):
    torch.manual_seed(n)
    return [torch.randn(n, 64) for _ in "xy"]


def run(torch, f, args):
    return [t.detach().cpu() for t in f(*[a.cuda() for a in args])]


def same(torch, one, other):
    return len(one) == len(other) and all(
        torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)) for a, b in zip(one, other))


@pytest.mark.parametrize("static", [True, False])
def test_bits(torch, local, static, monkeypatch):
    """Inductor's two ways to launch; the plan's bytes are those of torch.compile without us."""
    way = []
    for name in "_of_static", "_of_triton":
        f = getattr(kernels, name)
        monkeypatch.setattr(kernels, name, lambda *a, f=f, name=name: way.append(name) or f(*a))
    from torch._inductor.utils import fresh_cache
    with torch._inductor.config.patch(use_static_cuda_launcher=static), fresh_cache():
        f = lambda x, y: norms(torch, x, y)
        args = tensors(torch)
        want = run(torch, torch.compile(f), args)
        assert torch.allclose(want[0], f(*args)[0], atol=1e-4)
        torch._dynamo.reset()
        g = dovetail.torch.optimize(f, client=local)
        assert same(torch, run(torch, g, args), want)
        assert dovetail.torch.wait(300)
        for _ in range(3):
            assert same(torch, run(torch, g, args), want)
    assert set(way) == {"_of_static" if static else "_of_triton"}
    row, = dovetail.torch.report().groups
    assert row["kernels"] >= 2 and row["status"] == "planned" and row["gain"] > 1
    assert (row["ran_plan"], row["ran_original"]) == (3, 1)


def test_other_content_and_memory(torch, local):
    """The plan was verified on fills; here it meets numbers of all sizes, infinities and NaNs, at other addresses."""
    f = lambda x, y: norms(torch, x, y)
    plain, g, keep = torch.compile(f), dovetail.torch.optimize(f, client=local, wait=True), []
    run(torch, g, tensors(torch))
    for seed in range(4):
        x, y = tensors(torch)
        x *= 10.0 ** (3 * seed)
        y[seed] = [0.0, float("inf"), float("-inf"), float("nan")][seed]
        keep.append([x.cuda(), y.cuda()])
        assert same(torch, run(torch, g, keep[-1]), run(torch, plain, keep[-1]))
    assert dovetail.torch.report().counts()["ran_plan"] == 4


def test_backward(torch, local):
    def module():
        torch.manual_seed(5)
        m = torch.nn.Sequential(torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.LayerNorm(64))
        for layer in m:
            for k, p in layer._parameters.items():
                layer._parameters[k] = torch.nn.Parameter(torch.randn(p.shape).cuda())
        return m

    def step(f, m):
        x = torch.randn(32, 64, generator=torch.Generator().manual_seed(3)).cuda().requires_grad_()
        y = f(x)
        y.backward(torch.ones(32, 64).cuda())
        grads = [x.grad.cpu(), *(p.grad.cpu() for p in m.parameters())]
        for p in m.parameters():
            p.grad = None
        return [y.detach().cpu(), *grads]

    m, n = module(), module()
    plain, g = torch.compile(m), dovetail.torch.optimize(n, client=local, wait=True)
    want = step(plain, m)
    for _ in range(3):
        assert same(torch, step(g, n), want)
    assert dovetail.torch.report().counts()["ran_plan"] >= 2


def test_sizes_that_change(torch, local):
    f = lambda x, y: norms(torch, x, y)
    plain, g = torch.compile(f, dynamic=True), dovetail.torch.optimize(f, dynamic=True, client=local, wait=True)
    for n in 32, 48, 32, 48:
        args = tensors(torch, n)
        assert same(torch, run(torch, g, args), run(torch, plain, args))
    rows = dovetail.torch.report().groups
    assert len(rows) == 2 and [r["ran_original"] + r["ran_plan"] for r in rows] == [2, 2]


def test_a_view_of_the_callers(torch, local):
    """A tensor that begins 256 bytes into its memory is another variant than one at its beginning."""
    f = lambda x, y: norms(torch, x, y)
    plain, g = torch.compile(f), dovetail.torch.optimize(f, client=local, wait=True)
    x, y = tensors(torch)
    for offset in 0, 64, 0, 64:
        whole = torch.cat([torch.zeros(offset), x.flatten(), torch.zeros(64 - offset)]).cuda()
        args = [whole.as_strided((32, 64), (64, 1), offset), y.cuda()]
        assert same(torch, run(torch, g, args), run(torch, plain, args))
    assert len(dovetail.torch.report().groups) == 2


@pytest.mark.parametrize("static", [True, False])
def test_a_stream_of_the_callers(torch, local, static):
    """Kernels and plans go where the caller's other work is."""
    from torch._inductor.utils import fresh_cache
    f = lambda x, y: norms(torch, x, y)
    x, y = tensors(torch, 24)
    with torch._inductor.config.patch(use_static_cuda_launcher=static), fresh_cache():
        g = dovetail.torch.optimize(f, client=local, wait=True)
        want = run(torch, g, [x, y])
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3):
                assert same(torch, run(torch, g, [x, y]), want)
    assert dovetail.torch.report().counts()["ran_original"] == len(dovetail.torch.report().groups)


def test_cuda_graph(torch, local):
    """Captured, a plan runs again with the graph, on what its inputs then hold."""
    f = lambda x, y: norms(torch, x, y)
    g = dovetail.torch.optimize(f, client=local, wait=True)
    (x, y), (other, _) = tensors(torch), tensors(torch, 33)
    x, y, other = x.cuda(), y.cuda(), other[:32].cuda()
    g(x, y)
    want = [t.cpu() for t in g(other, y)]
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            out = g(x, y)
    except RuntimeError as e:
        if "no kernel image" not in str(e):
            raise
        pytest.skip("this release of PyTorch launches a kernel of its own to capture a graph, which is not there")
    x.copy_(other)
    graph.replay()
    torch.cuda.synchronize()
    assert same(torch, [t.cpu() for t in out], want)
    assert dovetail.torch.report().counts()["ran_plan"] == 2


def test_kernels_of_ones_own(torch, local):
    """Of a Triton kernel by the user nobody knows what it writes: all that it takes from outside is inout."""
    import own_kernel
    f = own_kernel.function(torch)
    args = tensors(torch)
    plain, g = torch.compile(f), dovetail.torch.optimize(f, client=local, wait=True)
    want = run(torch, plain, args)
    for _ in range(3):
        assert same(torch, run(torch, g, args), want)
    roles = [b["role"] for r in reports._modules for v in r().groups[0].variants.values()
             for b in v.recorded.graph.buffers.values()]
    assert "output" in roles and dovetail.torch.report().counts()["failed"] == 0


def test_others_are_not_touched(torch, local):
    """The same text, compiled with and without us, is one file of Inductor's cache and one module."""
    f = lambda x, y: norms(torch, x, y)
    args = tensors(torch)
    g = dovetail.torch.optimize(f, client=local, wait=True)
    run(torch, g, args)
    torch._dynamo.reset()
    loaded = []
    real = inductor.swapped
    inductor.swapped = lambda *a: loaded.append(1) or real(*a)
    try:
        run(torch, torch.compile(f), args)
    finally:
        inductor.swapped = real
    assert loaded == []
    from torch._inductor.codecache import PyCodeCache
    assert all("_dovetail_groups" not in m.__dict__ for m in PyCodeCache.modules)


def test_by_name(torch, tmp_path, monkeypatch):
    """torch.compile(backend="dovetail"), as an installed package has it."""
    info = tmp_path / "dovetail-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dovetail\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[torch_dynamo_backends]\ndovetail = dovetail.torch:backend\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from torch._dynamo.backends import registry
    registry._discover_entrypoint_backends.cache_clear()
    registry._discover_entrypoint_backends()
    seen = []
    monkeypatch.setitem(dovetail.torch.defaults, "client", type("C", (), {
        "optimize": lambda self, graph, **_: seen.append(graph) or dovetail.Client(
            local=True, device="soft").optimize(graph)})())
    f = lambda x, y: norms(torch, x, y)
    args = tensors(torch)
    g = torch.compile(f, backend="dovetail")
    want = run(torch, torch.compile(f), args)
    assert same(torch, run(torch, g, args), want) and dovetail.torch.wait(300) and len(seen) == 1
    assert same(torch, run(torch, g, args), want) and dovetail.torch.report().counts()["ran_plan"] == 1


def test_a_release_that_is_not_known(torch, monkeypatch):
    monkeypatch.setattr(versions, "OLDEST", "2.0")
    monkeypatch.setattr(versions, "NEWEST", "2.1")
    f = lambda x, y: norms(torch, x, y)
    args = tensors(torch)
    g = dovetail.torch.optimize(f)
    with pytest.warns(reports.DovetailWarning, match=f"PyTorch {torch.__version__.split('+')[0]}.* is not known here"):
        got = run(torch, g, args)
    assert same(torch, got, run(torch, torch.compile(f), args)) and dovetail.torch.report().groups == []


def test_what_cannot_be_rewritten(torch, local, monkeypatch):
    def broken(*_):
        raise SyntaxError("no such text")

    monkeypatch.setattr(inductor.wrapper, "groups", broken)
    f = lambda x, y: norms(torch, x, y)
    args = tensors(torch)
    with pytest.warns(reports.DovetailWarning, match="SyntaxError: no such text"):
        got = run(torch, dovetail.torch.optimize(f, client=local), args)
    assert same(torch, got, run(torch, torch.compile(f), args))


def test_page(torch, tmp_path, monkeypatch):
    """The blocks of docs/PYTHON.md about PyTorch."""
    import pages
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    texts = pages.blocks("python", "PyTorch")
    assert len(texts) == 2
    scope = pages.run(texts, tmp_path)
    rows = dovetail.torch.report().groups
    assert "second" in scope and rows and {(r["ran_plan"], r["ran_original"]) for r in rows} == {(1, 1)}
    with open(pages.PAGE, encoding="utf-8") as f:
        page = f.read()
    assert f"releases {versions.OLDEST} to {versions.NEWEST}" in page
    with open(os.path.join(ROOT, "dev"), encoding="utf-8") as f:
        oldest, newest = f.read().split("torch_releases=(")[1].split(")")[0].split()
    assert all(f"| {v} |" in page for v in (oldest, newest))
    assert oldest.startswith(versions.OLDEST + ".") and newest.startswith(versions.NEWEST + ".")


# ---- caches, in processes of their own -------------------------------------------------------------------------------

SCRIPT = """if True:
    import sys, dovetail, dovetail.torch
    torch = dovetail.torch.software("h200")
    sys.path.insert(0, {tests!r})
    from test_torch import norms, tensors, run
    g = dovetail.torch.optimize(lambda x, y: norms(torch, x, y), client=dovetail.Client(
        local=True, device="soft", cache={cache!r}), wait=True, **eval(sys.argv[1]))
    args = tensors(torch)
    one, two = run(torch, g, args), run(torch, g, args)
    from torch._dynamo.utils import counters
    import hashlib
    hits = counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
    print("hit" if hits else "miss", dovetail.torch.report().counts()["ran_plan"],
          *(hashlib.sha256(t.numpy().tobytes()).hexdigest() for r in (one, two) for t in r))
"""


def test_caches_of_two_processes(torch, tmp_path):
    """What one process compiled another one takes from Inductor's caches, with the same settings only; plans are made
    of it either way."""
    script = SCRIPT.format(tests=os.path.join(ROOT, "client/python/tests"), cache=str(tmp_path / "plans.db"))
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "i"), "TRITON_CACHE_DIR": str(tmp_path / "t")}
    lines = []
    for settings, seed in ("{}", "1"), ("{}", "2"), ("{'deny': 'slice'}", "3"):
        r = subprocess.run([sys.executable, "-W", "ignore", "-c", script, settings], capture_output=True, text=True,
                           env={**env, "PYTHONHASHSEED": seed}, timeout=600)
        assert r.returncode == 0, r.stderr
        lines.append(r.stdout.split())
    assert [line[0] for line in lines] == ["miss", "hit", "miss"]
    assert lines[0][1] == lines[1][1] == "1"
    assert len({tuple(line[2:]) for line in lines}) == 1 and lines[0][2:5] == lines[0][5:8]


PROGRAM = """if True:
    import sys, dovetail.torch
    torch = dovetail.torch.software("h200")
    sys.path.insert(0, {tests!r})
    from test_torch import norms, tensors, run
    f, args = torch.compile(lambda x, y: norms(torch, x, y)), tensors(torch)
    for _ in range(3):
        run(torch, f, args)
"""


def test_the_program_captured(torch, local, tmp_path):
    """`dovetail capture` of a program that Inductor compiles for: what it copied to the host is what the graph's run
    has, and one of its passes has a plan, verified bit for bit."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(tests=os.path.join(ROOT, "client/python/tests")))
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "i"), "TRITON_CACHE_DIR": str(tmp_path / "t")}

    def capture(name, *args):
        r = subprocess.run([os.path.join(BUILD, "client/dovetail"), "capture", "--local", "--device", "soft", *args,
                            "-o", str(tmp_path / name), "--", sys.executable, "-W", "ignore", str(program)],
                           capture_output=True, text=True, env=env, timeout=600)
        assert r.returncode == 0, r.stderr
        return dovetail.Graph.load(tmp_path / name)

    whole = capture("whole.json", "--data", "all").document["captured"]
    assert whole["unknown"] == [] and whole["cut"] == []
    assert (whole["checked"]["of"], whole["checked"]["same"]) == (9, 9)
    step = capture("step.json", "--step", "auto")
    assert step.document["captured"]["step"]["passes"] == 3
    assert all(l["entry"].startswith("triton_") for l in step.launches) and len(step.launches) > 2
    plan = local.optimize(step)
    assert plan.kept and plan.document["verified"]["bitwise"] is True


def test_the_other_pass_is_there(torch):
    from torch._inductor.custom_graph_pass import CustomGraphPass
    seen = []

    class Theirs(CustomGraphPass):
        def __call__(self, graph):
            seen.append(graph)

        def uuid(self):
            return "theirs"

    mine = dovetail.torch.Backend().settings
    both = inductor._pass(mine, Theirs())
    assert inductor._pass(mine, None).uuid() == dovetail.torch.uuid() == mine.uuid()
    assert both.uuid() == (mine.uuid(), "theirs") and inductor._pass(mine, seen.append).uuid() is None
    f = lambda x, y: norms(torch, x, y)
    with torch._inductor.config.patch(force_disable_caches=True):
        run(torch, dovetail.torch.optimize(f, client=object(), least=99, options={
            "post_grad_custom_post_pass": Theirs()}), tensors(torch))
    assert len(seen) == 1


def test_too_late():
    """PyTorch that is imported already has NVIDIA's runtime."""
    code = ("import torch, dovetail, dovetail.torch\ntry:\n    dovetail.torch.software()\n"
            "except dovetail.ServiceError as e:\n    print(e.code, e)")
    r = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300,
                       env={**os.environ, "DOVETAIL_HOME": BUILD})
    assert r.stdout.startswith("no-device PyTorch is imported already"), (r.stdout, r.stderr)
