"""What the end-to-end tests share: a service on a private socket, HTTP over it, the command line, small graphs.

The programs are found in $DOVETAIL_BUILD (meson sets it). Everything a test makes is in a folder of its own under /tmp.
"""
import copy
import ctypes
import errno
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "api"))
import check as schema  # noqa: E402

BUILD = os.environ.get("DOVETAIL_BUILD", "build")
DAEMON = os.path.join(BUILD, "daemon/dovetaild")
WORKER = os.path.join(BUILD, "daemon/dovetail-worker")
CLI = os.path.join(BUILD, "client/dovetail")
SLOW = float(os.environ.get("DOVETAIL_TEST_SLOW", "1"))  # factor on every time limit

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"

# y[i] = 2 x[i] and z[i] = y[i] + 1, 64 threads a block
SCALE = HEAD + """
.visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 f)
{
    .reg .u64 %rd<8>; .reg .u32 %r<8>; .reg .f32 %f<4>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.f32 %f1, [f];
    cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %rd3, %r4, 4;
    add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    mul.rn.f32 %f3, %f2, %f1;
    st.global.f32 [%rd5], %f3;
    ret;
}
"""
# for ever, unless *x is 0xffffffff already: the loop is not known to end
ENDLESS = HEAD + """
.visible .entry endless(.param .u64 x)
{
    .reg .u64 %rd<4>; .reg .u32 %r<4>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [x]; cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r2, 0;
LOOP:
    ld.global.u32 %r1, [%rd1];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%rd1], %r2;
    setp.ne.u32 %p1, %r1, 4294967295;
    @%p1 bra LOOP;
    bra LOOP;
    ret;
}
"""
TRAP = HEAD + """
.visible .entry traps(.param .u64 x)
{
    .reg .u64 %rd<4>; .reg .u32 %r<4>;
    ld.param.u64 %rd1, [x]; cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r1, 1;
    st.global.u32 [%rd1], %r1;
    trap;
    ret;
}
"""
OUTSIDE = HEAD + """
.visible .entry outside(.param .u64 x)
{
    .reg .u64 %rd<4>; .reg .u32 %r<4>;
    ld.param.u64 %rd1, [x]; cvta.to.global.u64 %rd1, %rd1;
    ld.global.u32 %r1, [%rd1+1048576];
    st.global.u32 [%rd1], %r1;
    ret;
}
"""


def chain(n=2, names="abcdef", blocks=4, factor=2.0):
    """n launches of `scale`, one after the other, through buffers of their own."""
    size = blocks * 64 * 4
    g = {"dovetail": 1, "name": "chain", "modules": {"m": {"ptx": SCALE}}, "launches": [],
         "buffers": {names[0]: {"bytes": size, "role": "input",
                                "fill": {"uniform": [-1, 1], "dtype": "f32", "seed": 3}}}}
    for i in range(n):
        g["buffers"][names[i + 1]] = {"bytes": size, "role": "output" if i == n - 1 else "intermediate"}
        g["launches"].append({"name": f"s{i}", "module": "m", "entry": "scale", "grid": [blocks, 1, 1],
                              "block": [64, 1, 1],
                              "args": [{"buffer": names[i]}, {"buffer": names[i + 1]}, {"f32": factor}]})
    return g


def single(ptx, entry, size=256):
    return {"dovetail": 1, "name": entry, "modules": {"m": {"ptx": ptx}},
            "buffers": {"x": {"bytes": size, "role": "inout",
            "fill": {"zero": True}}}, "launches": [{"name": "k", "module": "m", "entry": entry, "grid": [1, 1, 1],
                                                   "block": [1, 1, 1], "args": [{"buffer": "x"}]}]}


def endless(tag=0):
    g = single(ENDLESS, "endless", 256 + 16 * tag)
    return g


class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("d", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


def declared(method, path, reply):
    """Every answer is what schema/api/openapi.json says: status, fields, body."""
    found = schema.reply_faults(method, path, reply.status, reply.headers, reply.body)
    assert not found, f"{method} {path} {reply.status}: {found[:5]}\n{reply.headers}\n{reply.body[:2000]}"


class Service:
    """store: the cache file of another service, whose rows this one begins with."""
    def __init__(self, config=None, device="soft", wait=True, store=None):
        self.dir = tempfile.mkdtemp(prefix="dovetail-e2e.")
        if store:
            db = sqlite3.connect(store, timeout=60)
            db.execute(f"VACUUM INTO '{self.dir}/cache.db'")
            db.close()
        self.socket = os.path.join(self.dir, "d.sock")
        self.log_path = os.path.join(self.dir, "log")
        args = [DAEMON, "--socket", self.socket, "--device", device]
        if "cache" not in (config or {}):
            args += ["--cache", os.path.join(self.dir, "cache.db")]
        if config:
            path = os.path.join(self.dir, "config")
            with open(path, "w", encoding="utf-8") as f:
                f.writelines(f"{k} = {v}\n" for k, v in config.items())
            args += ["--config", path]
        self.log = open(self.log_path, "wb")
        self.start(args, wait)

    def start(self, args, wait=True):
        """Also after it was killed, with process.args of before."""
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 30 * SLOW
        while wait and not self.listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("the service did not start:\n" + self.read_log())
            time.sleep(0.02)

    def listens(self):
        """The file is there a moment before anybody listens at it."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(30 * SLOW)
            return os.path.exists(self.socket) and s.connect_ex(self.socket) != errno.ECONNREFUSED

    def read_log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def http(self, method, path, body=None, headers=None, timeout=60):
        c = UnixHTTP(self.socket, timeout * SLOW)
        try:
            c.request(method, path, body=json.dumps(body) if isinstance(body, (dict, list)) else body,
                      headers=headers or {})
            r = c.getresponse()
            reply = Reply(r.status, r.headers, r.read())
        finally:
            c.close()
        declared(method, path, reply)
        return reply

    def curl(self, *args):
        return subprocess.run(["curl", "-s", "--max-time", str(int(60 * SLOW)), "--unix-socket", self.socket, *args],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def post(self, graph, query="want=plan"):
        return self.http("POST", "/v1/jobs?" + query, graph)

    def finish(self, reply, seconds=60):
        """Wait for the job of a 202."""
        assert reply.status == 202, (reply.status, reply.body)
        return self.http("GET", f"{reply.headers['Location']}?wait={seconds * SLOW}", timeout=seconds + 10).json()

    def until(self, path, test, seconds=20):
        deadline = time.monotonic() + seconds * SLOW
        while True:
            doc = self.http("GET", path).json()
            if test(doc):
                return doc
            if time.monotonic() > deadline:
                raise AssertionError(f"{path}: {doc}")
            time.sleep(0.05)

    def workers(self):
        return self.http("GET", "/v1/devices").json()["workers"]

    def metric(self, name):
        for line in self.http("GET", "/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        raise AssertionError(name)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30 * SLOW)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError("the service did not stop:\n" + self.read_log())
        self.log.close()
        return self.process.returncode

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)


class ServiceCase(unittest.TestCase):
    """One service for all tests of the class; every test checks at its end that it lives."""
    config, device = None, "soft"

    @classmethod
    def setUpClass(cls):
        cls.s = Service(cls.config, cls.device)

    @classmethod
    def tearDownClass(cls):
        status, log = cls.s.stop(), cls.s.read_log()
        cls.s.remove()
        if status != 0:
            raise AssertionError(f"the service ended with {status}:\n{log}")
        if "Sanitizer" in log or "runtime error" in log:
            raise AssertionError("a sanitizer spoke:\n" + log)

    def tearDown(self):
        self.assertIsNone(self.s.process.poll(), "the service died:\n"
                          + (self.s.read_log() if self.s.process.poll() is not None else ""))
        self.assertEqual(self.s.http("GET", "/healthz").status, 200)

    def problem(self, reply, status, code):
        self.assertEqual(reply.status, status, reply.body)
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json")
        p = reply.json()
        self.assertEqual((p["code"], p["status"]), (code, status), p)
        self.assertTrue(p["title"] and p["type"])
        return p


class FolderCase(unittest.TestCase):
    """A folder of each test's own, with a cache file for --local; the command line with what it should answer."""
    def setUp(self):
        super().setUp()
        self.dir = tempfile.mkdtemp(prefix="dovetail-e2e.")
        self.addCleanup(shutil.rmtree, self.dir)
        self.db = self.dir + "/c.db"
        self.local = ["--local", "--device", "soft", "--cache", self.db]

    def ok(self, *args, status=0, **how):
        """What the command line prints; `status` is its exit status."""
        r = cli(*args, **how)
        self.assertEqual(r.returncode, status, (args, r.stdout, r.stderr))
        return r.stdout

    def doc(self, *args, status=0, **how):
        return json.loads(self.ok(*args, "--json", status=status, **how))

    def left(self, path, *args):
        """What running a graph or plan leaves in its outputs, on inputs that no planner has seen."""
        return [(o["buffer"], o["sha256"]) for o in self.doc("run", path, "--seed", "9", *args)["outputs"]]


class WaysCase(FolderCase, ServiceCase):
    """Both ways to the work: through the service of the class, and --local."""
    def setUp(self):
        super().setUp()
        self.service = ["--socket", self.s.socket]
        self.ways = {"service": self.service, "local": self.local}


def cli(*args, stdin=None, env=None, timeout=120):
    e = {k: v for k, v in os.environ.items()
         if not k.startswith("DOVETAIL_") or k in ("DOVETAIL_BUILD", "DOVETAIL_NVRTC")}
    e["XDG_CACHE_HOME"] = os.path.join(tempfile.gettempdir(), f"dovetail-e2e-cache.{os.getpid()}")
    e.update(env or {})
    return subprocess.run([CLI, *args], input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                          capture_output=True,
                          text=True, env=e, timeout=timeout * SLOW, check=False)


def row_sum(row):
    """The checksum of a row of the cache: over its texts, each with its length."""
    h = hashlib.sha256()
    for text in row:
        b = text.encode()
        h.update(struct.pack("<Q", len(b)) + b)
    return "sha256:" + h.hexdigest()


def unpacked(data):
    """The text of a bundle's bytes."""
    z, room = ctypes.CDLL("libzstd.so.1"), ctypes.create_string_buffer(16 << 20)
    z.ZSTD_decompress.restype = ctypes.c_size_t
    z.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    n = z.ZSTD_decompress(room, len(room), data, len(data))
    assert n <= len(room), data[:32]
    return room.raw[:n].decode()


def old_bundle(db):
    """A bundle of version 1 with the plans of a cache's file."""
    with sqlite3.connect(db) as c:
        rows = c.execute("SELECT want, signature, device, toolchain, policy, digest, body, factors, sha256 FROM entry "
                         "WHERE want = 'plan' ORDER BY id").fetchall()
    lines = [{"dovetail_cache": 1}] + [{"table": "entry", "row": list(row)} for row in rows] + [{"end": len(rows)}]
    return "".join(json.dumps(line) + "\n" for line in lines)


def came(imported=0, present=0, left_out=0, refused=0, **more):
    """What an import says."""
    return {"imported": imported, "present": present, "left_out": left_out, "refused": refused, "complete": True,
            **more}


def as_user(uid, gid, groups, work):
    """work() in a process that is somebody else; what it returns, by way of JSON."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            text = json.dumps(work()).encode()
            while text:
                text = text[os.write(w, text):]
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(r, encoding="utf-8") as f:
        text = f.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def call_as(service, uid, method, path, body=None, groups=(), timeout=60):
    """A request of somebody else (root only): status, headers, body, as a Reply. The socket is opened to everybody."""
    os.chmod(service.dir, 0o755)
    os.chmod(service.socket, 0o666)

    def work():
        c = UnixHTTP(service.socket, timeout * SLOW)
        c.request(method, path, body=json.dumps(body) if isinstance(body, (dict, list)) else body)
        a = c.getresponse()
        answer = a.status, list(a.getheaders()), a.read().decode("latin-1")
        c.close()
        return answer
    status, headers, text = as_user(uid, 65534, list(groups), work)
    message = http.client.HTTPMessage()
    for name, value in headers:
        message[name] = value
    reply = Reply(status, message, text.encode("latin-1"))
    declared(method, path, reply)
    return reply


def write(folder, name, graph):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(graph if isinstance(graph, str) else json.dumps(graph))
    return path


def changed(graph, **kw):
    g = copy.deepcopy(graph)
    for path, value in kw.items():
        at = g
        *head, last = path.split("__")
        for p in head:
            at = at[int(p)] if isinstance(at, list) else at[p]
        if isinstance(at, list):
            at[int(last)] = value
        else:
            at[last] = value
    return g


def main():
    """Run the tests of the script that calls it. Arguments name the tests to run, as Class.test_name, Class or
    test_name; options are unittest's (-k PART, -f)."""
    cases = [(n, c) for n, c in vars(sys.modules["__main__"]).items()
             if isinstance(c, type) and issubclass(c, unittest.TestCase)]
    argv = [sys.argv[0]]
    for a in sys.argv[1:]:
        argv += [f"{n}.{a}" for n, c in cases if a.startswith("test") and hasattr(c, a)] or [a]
    unittest.main(argv=argv, verbosity=2)
