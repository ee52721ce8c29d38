"""What the tests of ordinary CUDA programs share: where the build and nvcc are, and a folder for each class."""
import os
import shutil
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ["DOVETAIL_BUILD"]
DOVETAIL = os.path.join(BUILD, "client/dovetail")
SOFT = os.path.realpath(os.path.join(BUILD, "softgpu"))
CUDA = os.environ.get("DOVETAIL_CUDA", "")
NVCC = next((p for p in (os.path.join(CUDA, "bin/nvcc"), shutil.which("nvcc")) if p and os.access(p, os.X_OK)), None)


def call(args, cwd=None, **env):
    """Runs it without what would change the program: libraries put into it, another device, checks."""
    clean = {k: v for k, v in os.environ.items()
             if k not in ("LD_LIBRARY_PATH", "LD_PRELOAD", "DOVETAIL_CHECK", "DOVETAIL_DEVICE")}
    return subprocess.run(args, capture_output=True, text=True, timeout=300, cwd=cwd, check=False, env={**clean, **env})


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)
