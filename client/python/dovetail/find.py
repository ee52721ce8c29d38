"""Where worker, library and software device are.

$DOVETAIL_HOME names a build folder of the project or an installation's prefix. Without it: what the wheel brought
(`_native` in this folder), the build folder beside a source tree that this package is used from, then where the
`dovetail` on the path belongs, then /usr/local and /usr.

NVRTC is NVIDIA's, and comes as a package of its own: `environment` says to the worker where Python has it.
"""
from __future__ import annotations

import glob
import os
import shutil
import sys
from typing import Dict, Iterator, List, Optional

from . import errors

_KINDS = {  # below a build folder; below a prefix
    "worker": (["daemon/dovetail-worker"], ["lib/dovetail/dovetail-worker", "lib/*/dovetail/dovetail-worker",
                                            "libexec/dovetail/dovetail-worker", "bin/dovetail-worker"]),
    "library": (["client/libdovetail.so.1"], ["lib/libdovetail.so.1", "lib/*/libdovetail.so.1",
                                              "lib64/libdovetail.so.1"]),
    "device": (["softgpu/libcuda.so.1"], ["lib/dovetail/libcuda.so.1", "lib/*/dovetail/libcuda.so.1",
                                          "libexec/dovetail/libcuda.so.1"]),
}


def homes() -> List[str]:
    """Folders to look in, the first one that fits counts."""
    home = os.environ.get("DOVETAIL_HOME")
    if home:
        return [home]
    here = os.path.dirname(os.path.abspath(__file__))
    found = [os.path.join(here, "_native"), os.path.normpath(os.path.join(here, "../../../build"))]
    cli = shutil.which("dovetail")
    if cli:
        folder = os.path.dirname(os.path.realpath(cli))
        found += [os.path.dirname(folder)]
    return found + ["/usr/local", "/usr"]


def _candidates(kind: str) -> Iterator[str]:
    build, prefix = _KINDS[kind]
    for home in homes():
        for pattern in build + prefix:
            yield from sorted(glob.glob(os.path.join(glob.escape(home), pattern)))


def _find(kind: str) -> Optional[str]:
    return next((p for p in _candidates(kind) if os.path.isfile(p)), None)


def worker() -> str:
    """The worker program: $DOVETAIL_WORKER, or by the rules above."""
    path = os.environ.get("DOVETAIL_WORKER") or _find("worker")
    if not path:
        raise errors.make("worker-lost", "no dovetail-worker here: DOVETAIL_WORKER, DOVETAIL_HOME and the path name "
                          "none", 502)
    return path


def library() -> str:
    """libdovetail.so.1; its bare name, for the dynamic linker, if it is in none of the folders."""
    return _find("library") or "libdovetail.so.1"


def device() -> str:
    """The software device's libcuda.so.1, which lies in a private folder."""
    path = _find("device")
    if not path:
        raise errors.make("no-device", "the software device's libcuda.so.1 is not here: set DOVETAIL_HOME to a build "
                          "folder or a prefix", 503)
    return path


def sample() -> str:
    """The graph of `python -m dovetail demo`: the wheel's, the source tree's, or an installation's."""
    here = os.path.dirname(os.path.abspath(__file__))
    at = [os.path.join(here, "../../../tests/corpus/encoder/graph.json")]
    at += [os.path.join(home, "share/doc/dovetail/examples/encoder/graph.json") for home in homes()]
    path = next((p for p in at if os.path.isfile(p)), None)
    if not path:
        raise errors.make("io", "the sample graph is not here: name a graph file", 500)
    return os.path.normpath(path)


def environment() -> Dict[str, str]:
    """Of a worker: ours, and where NVIDIA's wheels are, unless DOVETAIL_CUDA_LIBS or CUDA_HOME says it."""
    env = dict(os.environ)
    if not env.get("DOVETAIL_CUDA_LIBS") and not env.get("CUDA_HOME"):
        folders = [os.path.join(p, "nvidia/cu13/lib") for p in sys.path if p]
        folders = [f for f in dict.fromkeys(folders) if os.path.isdir(f) and ":" not in f]
        if folders:
            env["DOVETAIL_CUDA_LIBS"] = ":".join(folders)
    return env
