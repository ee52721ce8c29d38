#!/usr/bin/env python3
"""Run these tests by pytest, with a python that has it: this one, or Debian's. 77 (skipped) where none has.

Usage: run.py BUILD [PYTEST-ARGUMENT…] | run.py BUILD --triton | run.py BUILD --torch. BUILD is the build folder, whose
worker, service and libraries are tested. With --triton or --torch, those of Triton or PyTorch alone, in each
environment that `./dev triton` or `./dev torch` has made; 77 if there is none.
"""
import glob
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../../.."))


def tests(python, env, *args):
    return subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", HERE, *args],
                          env=env, check=False).returncode


def main():
    build, args = os.path.abspath(sys.argv[1]), sys.argv[2:]
    env = {k: v for k, v in os.environ.items() if not k.startswith("DOVETAIL_") or k == "DOVETAIL_NVRTC"}
    env.pop("LD_LIBRARY_PATH", None)  # meson names the software device's folder there, and Triton looks
    env.update(DOVETAIL_HOME=build, PYTHONPATH=os.path.dirname(HERE), PYTHONDONTWRITEBYTECODE="1")
    if args in (["--triton"], ["--torch"]):
        what = args[0][2:]
        found = sorted(glob.glob(os.path.join(ROOT, ".cache", what, "*/complete")))
        if not found:
            print(f"no environment here: ./dev {what} fetches the oldest and the newest known release")
            return 77
        return max(tests(os.path.join(os.path.dirname(f), "bin/python3"),
                         dict(env, TRITON_CACHE_DIR=os.path.join(os.path.dirname(f), "kernels")),
                         "-W", "ignore", os.path.join(HERE, f"test_{what}.py")) for f in found)
    for python in sys.executable, "/usr/bin/python3":
        if subprocess.run([python, "-c", "import pytest"], capture_output=True, env=env, check=False).returncode == 0:
            return tests(python, env, *args, *([] if any(not a.startswith("-") for a in args) else [HERE]))
    print("no python3 here has pytest (Debian: python3-pytest)")
    return 77


sys.exit(main())
