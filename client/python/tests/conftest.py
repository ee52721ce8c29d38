"""A service on a private socket, workers with a private cache, the software device in this process."""
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "../../.."))
BUILD = os.environ["DOVETAIL_HOME"]
CORPUS = os.path.join(ROOT, "tests/corpus")
sys.path[:0] = [os.path.join(ROOT, "tests/e2e")]

import dovetail  # noqa: E402
from dovetail import cuda  # noqa: E402


@pytest.fixture(scope="session")
def folder():
    path = tempfile.mkdtemp(prefix="dovetail-python.")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def service(folder):
    """The socket of a service."""
    path, log = os.path.join(folder, "d.sock"), open(os.path.join(folder, "log"), "wb")
    p = subprocess.Popen([os.path.join(BUILD, "daemon/dovetaild"), "--socket", path, "--device", "soft", "--cache",
                          os.path.join(folder, "service.db")], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    deadline = time.monotonic() + 60
    while not os.path.exists(path):
        assert p.poll() is None and time.monotonic() < deadline, open(log.name).read()
        time.sleep(0.02)
    yield path
    p.send_signal(signal.SIGTERM)
    assert p.wait(60) == 0
    log.close()


@pytest.fixture(scope="session")
def local(folder):
    return dovetail.Client(local=True, device="soft", cache=os.path.join(folder, "c.db"))


@pytest.fixture(params=["service", "local"])
def client(request, local):
    """Both ways to the work."""
    return local if request.param == "local" else dovetail.Client(request.getfixturevalue("service"))


@pytest.fixture(scope="session")
def soft():
    cuda.software()
    return cuda


def corpus(name):
    return dovetail.Graph.load(os.path.join(CORPUS, name, "graph.json"))


def fill(buffer):
    """What `run` starts a buffer with (docs/CONTRACT.md §2): zeroes, uniform f32, or data."""
    import base64
    import struct
    if "data" in buffer:
        return base64.b64decode(buffer["data"])
    f = buffer.get("fill")
    if not f:
        return b"\xff" * buffer["bytes"]
    if f.get("zero"):
        return bytes(buffer["bytes"])
    assert f["dtype"] == "f32"
    mask, out, (lo, hi) = (1 << 64) - 1, [], f["uniform"]
    single = lambda v: struct.unpack("<f", struct.pack("<f", v))[0]
    for i in range(buffer["bytes"] // 4):
        z = (f.get("seed", 0) + (i + 1) * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        z ^= z >> 31
        out.append(single(lo + single(single(hi - lo) * ((z >> 40) * 2.0 ** -24))))
    return struct.pack("<%df" % len(out), *out)


def arrays(graph, roles=("input", "weight", "output", "inout")):
    return {n: cuda.Array(b["bytes"]).set(fill(b)) for n, b in graph.buffers.items() if b["role"] in roles}


def sums(graph, at):
    return {n: "sha256:" + hashlib.sha256(at[n].bytes()).hexdigest() for n, b in graph.buffers.items()
            if b["role"] in ("output", "inout")}
