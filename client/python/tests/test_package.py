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
