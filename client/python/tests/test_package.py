"""`pip install ./client/python` without a network, and what it leaves: no dependency, types, nothing of CUDA loaded."""
import importlib.util
import os
import shutil
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT


def test_install(tmp_path):
    for module in "pip", "setuptools", "wheel":
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module} here")
    source, target = tmp_path / "python", tmp_path / "site"
    shutil.copytree(os.path.join(ROOT, "client/python"), source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env.pop("PYTHONPATH", None)
    r = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps",
                        "--target", str(target), str(source)], env=env, capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr
    assert (target / "dovetail/py.typed").exists() and (target / "dovetail/triton/__init__.py").exists()
    assert (target / "dovetail/torch/__init__.py").exists()
    assert 'dovetail = dovetail.torch:backend' in (next(target.glob("*.dist-info")) / "entry_points.txt").read_text()
    script = """if True:
        import sys, dovetail
        before = set(sys.modules)
        assert not {"numpy", "torch", "triton", "pytest"} & before, before
        assert "libcuda" not in open("/proc/self/maps").read()
        print(dovetail.__file__, dovetail.Client(local=True, device="soft").analyze({
            "dovetail": 1, "modules": {}, "buffers": {"x": {"bytes": 4, "role": "output"}},
            "launches": [{"memset": {"buffer": "x", "offset": 0, "bytes": 4, "value": 0}}]}).launches[0]["blocks"])
    """
    r = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, cwd=tmp_path,
                       env={**env, "PYTHONPATH": str(target), "DOVETAIL_HOME": BUILD, "XDG_CACHE_HOME": str(tmp_path)})
    assert (r.returncode, r.stdout.split()) == (0, [str(target / "dovetail/__init__.py"), "1"]), r.stderr


def test_version():
    import re

    import dovetail
    with open(os.path.join(ROOT, "client/python/pyproject.toml")) as f:
        mine = re.search(r'^version = "(.*)"', f.read(), re.M)[1]
    with open(os.path.join(ROOT, "meson.build")) as f:
        theirs = re.search(r"version: '([0-9.]+)'", f.read())[1]
    assert dovetail.__version__ == mine == theirs


def module(*args, path, **env):
    base = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "DOVETAIL_HOME")}
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=120,
                          env={**base, "PYTHONPATH": path, "DOVETAIL_DEVICE": "soft", **env})


def test_demo(tmp_path):
    """`python -m dovetail demo`: a plan whose bytes are the graph's, or a status and a reason."""
    package = os.path.join(ROOT, "client/python")
    here = {"path": package, "DOVETAIL_HOME": BUILD, "XDG_CACHE_HOME": str(tmp_path)}
    r = module("-m", "dovetail", "demo", os.path.join(ROOT, "tests/corpus/ptx-only/graph.json"), **here)
    assert r.returncode == 0, r.stderr
    assert "2 launches" in r.stdout and "cache hit" in r.stdout
    assert r.stdout.endswith("the plan's bytes are those of the posted launches\n")
    r = module("-m", "dovetail", "demo", str(tmp_path / "none.json"), **here)
    assert (r.returncode, r.stdout) == (1, "") and "none.json" in r.stderr and "Traceback" not in r.stderr
    r = module("-m", "dovetail", "demo", "a", "b", **here)
    assert (r.returncode, r.stdout) == (2, "") and r.stderr.startswith("usage: ")


def test_wheel_layout(tmp_path):
    """What lies in the package's own `_native` comes first; workers are told where Python has NVIDIA's libraries."""
    shutil.copytree(os.path.join(ROOT, "client/python/dovetail"), tmp_path / "dovetail",
                    ignore=shutil.ignore_patterns("_native", "__pycache__"))
    native = tmp_path / "dovetail/_native"
    for name in "bin/dovetail-worker", "lib/libdovetail.so.1", "lib/dovetail/libcuda.so.1":
        (native / name).parent.mkdir(parents=True, exist_ok=True)
        (native / name).touch()
    sample = native / "share/doc/dovetail/examples/encoder/graph.json"
    sample.parent.mkdir(parents=True)
    sample.touch()
    libs = tmp_path / "nvidia/cu13/lib"
    libs.mkdir(parents=True)
    script = ("from dovetail import find; print(find.worker(), find.library(), find.device(), find.sample(), "
              "find.environment().get('DOVETAIL_CUDA_LIBS'), sep='\\n')")
    found = [str(native / n) for n in ("bin/dovetail-worker", "lib/libdovetail.so.1", "lib/dovetail/libcuda.so.1")]
    for env, want in ({"CUDA_HOME": ""}, str(libs)), ({"CUDA_HOME": "/cuda"}, "None"), \
                     ({"CUDA_HOME": "", "DOVETAIL_CUDA_LIBS": "/mine"}, "/mine"):
        r = module("-c", script, path=str(tmp_path), **env)
        assert r.returncode == 0, r.stderr
        lines = r.stdout.splitlines()
        assert lines[:4] == found + [str(sample)]
        assert lines[4].split(":")[0] == want
