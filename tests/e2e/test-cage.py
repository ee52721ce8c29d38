"""What processes of the service may not do: files, calls, memory and CPU time; how that is said; what happens where the
kernel cannot. Nothing is skipped where the kernel has Landlock and filters of system calls."""
import ctypes
import errno
import json
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BUILD, DAEMON, FolderCase, Service, ServiceCase, SLOW, chain, cli, endless, main, single, write

HOSTILE = os.path.join(BUILD, "tests/e2e/nvrtc")
KERNEL = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] += 1; }\n'


def landlock():
    """The version of this kernel's Landlock, 0: none."""
    return max(0, ctypes.CDLL(None).syscall(444, None, 0, 1))


CONFINED = landlock() > 0  # then nothing here is skipped


def cuda(source, size=4096):
    g = single("", "k", size)
    g["modules"]["m"] = {"cuda": source}
    g["launches"][0]["block"] = [32, 1, 1]
    return g


def without(*numbers):
    """For preexec_fn: a kernel that does not know these system calls (x86-64)."""
    def install():
        libc = ctypes.CDLL(None, use_errno=True)
        code = [(0x20, 0, 0, 0)]  # the number
        for n in numbers:
            code += [(0x15, 0, 1, n), (0x06, 0, 0, 0x00050000 | errno.ENOSYS)]
        code.append((0x06, 0, 0, 0x7fff0000))
        text = b"".join(struct.pack("HBBI", *c) for c in code)
        buf = ctypes.create_string_buffer(text)
        prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buf)))
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(prog)):
            os._exit(96)
    return install


LANDLOCK, SECCOMP = (444, 445, 446), 317


@unittest.skipUnless(CONFINED, "this kernel has no Landlock")
class Confined(ServiceCase):
    def test_what_is_in_force_is_said(self):
        for path in "/v1/devices", "/healthz":
            c = self.s.http("GET", path).json()["confinement"]
            self.assertEqual(c, {"mode": "try", "landlock": landlock(),
                                 "worker": {"files": "enforced", "calls": "enforced"},
                                 "compiler": {"files": "enforced", "calls": "enforced"}})
        text = self.s.http("GET", "/metrics").body.decode()
        for process in "worker", "compiler":
            for what in "files", "calls":
                self.assertIn(f'dovetail_confined{{process="{process}",what="{what}"}} 1\n', text)
        words = "files enforced, system calls enforced"
        self.assertIn(f"confine = try, Landlock {landlock()}; {words}; compilers: {words}", self.s.read_log())
        said = cli("--socket", self.s.socket, "status").stdout
        self.assertIn(f"confined (try): worker: {words}; compilers: {words}\n", said)

    def test_every_thread_of_a_worker(self):
        """a filter holds for a thread; all of a worker's are made after it"""
        job = self.s.post(endless()).json()["id"]
        self.s.until("/v1/jobs/" + job, lambda d: d["state"] == "running")
        pid = self.s.workers()[0]["pid"]
        for _ in range(20):
            for t in os.listdir(f"/proc/{pid}/task"):
                try:
                    with open(f"/proc/{pid}/task/{t}/status", encoding="utf-8") as f:
                        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
                except (FileNotFoundError, ProcessLookupError):
                    continue
                self.assertEqual((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"), status)
            time.sleep(0.01)
        self.s.http("DELETE", "/v1/jobs/" + job)

    def test_a_source_reads_headers_alone(self):
        done = self.s.finish(self.s.post(cuda("#include <cuda_fp16.h>\n" + KERNEL), "want=run"))
        self.assertEqual(done["state"], "done", done)
        for path in "/usr/lib/os-release", "/etc/passwd", "/etc/nothing":
            job = self.s.finish(self.s.post(cuda(f'#include "{path}"\n' + KERNEL), "want=run"))
            self.assertEqual((job["state"], job["problem"]["code"]), ("failed", "compile-failed"), job)
            self.assertIn(f'cannot open source file "{path}"\n', job["problem"]["log"])
            self.assertNotRegex(json.dumps(job), "PRETTY_NAME|root:|Permission")

    def test_a_call_that_is_not_allowed(self):
        """the kernel's signal for it: the job says so, and the next one is done"""
        job = self.s.post(endless(1)).json()["id"]
        self.s.until("/v1/jobs/" + job, lambda d: d["state"] == "running")
        os.kill(self.s.workers()[0]["pid"], signal.SIGSYS)
        doc = self.s.until("/v1/jobs/" + job, lambda d: d["state"] == "failed")
        self.assertEqual(doc["problem"]["code"], "worker-lost", doc)
        self.assertIn("it made a system call that it may not make", doc["problem"]["detail"])
        self.assertEqual(self.s.finish(self.s.post(chain(3), "want=run"))["state"], "done")


@unittest.skipUnless(CONFINED, "this kernel has no Landlock")
class Hostile(FolderCase):
    """A compiler that has been taken over, by nvrtc/hostile-nvrtc.c."""
    def attempt(self, what):
        g = write(self.dir, "g.json", cuda(KERNEL + "// try " + what + "\n"))
        r = cli("run", g, *self.local, "--json", env={"DOVETAIL_CUDA_LIBS": HOSTILE})
        self.assertEqual(r.returncode, 3, (what, r.stdout, r.stderr))
        problem = json.loads(r.stdout)
        self.assertEqual(problem["code"], "compile-failed", problem)
        return problem

    def test_calls(self):
        for what in "exec", "fork", "socket", "kill":
            if what == "fork" and SLOW > 1:
                continue  # with a sanitizer: its own needs it
            self.assertIn("it made a system call that it may not make", self.attempt(what)["detail"], what)

    def test_files(self):
        made = os.path.join(self.dir, "made")
        self.assertEqual(self.attempt("write " + made)["log"], f"write {made}: {errno.EACCES}")
        self.assertFalse(os.path.exists(made))
        for path in ("/etc/passwd", "/usr/lib/os-release", os.path.join(HOSTILE, "libnvrtc.so.13"), DAEMON,
                     "/proc/self/maps", self.dir):
            self.assertEqual(self.attempt("read " + path)["log"], f"read {path}: {errno.EACCES}")


@unittest.skipUnless(CONFINED, "this kernel has no Landlock")
class Wheels(FolderCase):
    """NVRTC, its built-ins and CUDA's headers anywhere: as the toolkit has them, as the wheels of CUDA 13 and of CUDA
    12 have them, and with headers that are links to another place (conda's)."""
    def compiles(self, lib):
        g = write(self.dir, "g.json", cuda("#include <cuda_fp16.h>\n" + KERNEL.replace("+= 1", "+= __half2float(1)")))
        r = cli("run", g, *self.local, "--json", env={"DOVETAIL_CUDA_LIBS": lib})
        self.assertEqual(r.returncode, 0, (lib, r.stdout, r.stderr))

    def test_layouts(self):
        child = subprocess.Popen([os.path.join(BUILD, "device/dovetail-nvrtc")], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        found = child.communicate(struct.pack("<I", 5) + b"V" + bytes(4))[0][9:].decode().splitlines()
        files = [x.split(" ", 1)[1] for x in found if "/libnvrtc" in x]
        include = [x.split(" ", 1)[1] for x in found if x.startswith("folder ")]
        if not files:
            self.skipTest("NVRTC is not here")
        self.compiles(os.path.dirname(files[0]))
        old, new, conda = (os.path.join(self.dir, x) for x in ("s p/nvidia", "nvidia/cu13", "conda"))
        at = self.dir + "/lib", self.dir + "/include"
        os.makedirs(at[0])
        for f in files:
            shutil.copy(f, at[0])
        shutil.copytree(include[0], at[1], ignore=lambda d, names: [n for n in names if n == "cccl"])
        for lib, headers in ((old + "/cuda_nvrtc/lib", old + "/cuda_runtime/include"), (new + "/lib", new + "/include"),
                             (conda + "/lib", conda + "/targets/include")):
            os.makedirs(os.path.dirname(lib))
            os.makedirs(os.path.dirname(headers), exist_ok=True)
            os.rename(at[0], lib)
            os.rename(at[1], headers)
            at = lib, headers
            if lib.startswith(conda):
                os.makedirs(conda + "/include")
                for n in os.listdir(headers):
                    os.symlink(os.path.join(headers, n), os.path.join(conda, "include", n))
            self.compiles(lib)


class Limits(unittest.TestCase):
    def service(self, env=None, **config):
        saved = dict(os.environ)
        os.environ.update(env or {})
        try:
            s = Service(config)
        finally:
            os.environ.clear()
            os.environ.update(saved)
        self.addCleanup(s.remove)
        self.addCleanup(s.stop)
        return s

    def over(self, s, reply, words):
        """The job failed for its own limit, and cost nobody else anything."""
        job = s.finish(reply)
        self.assertEqual((job["state"], job["problem"]["code"], job["problem"]["status"]), ("failed", "limits", 422),
                         job)
        self.assertIn(words, job["problem"]["detail"])
        self.assertEqual(s.metric("dovetail_workers_over_limits_total"), 1)
        self.assertEqual(s.finish(s.post(chain(2), "want=run"))["state"], "done")
        self.assertEqual(s.http("GET", "/healthz").status, 200)

    def test_cpu_time(self):
        s = self.service(job_cpu=1)
        pid = s.workers()[0]["pid"]
        self.over(s, s.post(endless()), "s of CPU time; the limit is 1 s (job_cpu)")
        self.assertNotEqual(s.workers()[0]["pid"], pid)

    def test_memory_of_a_compiler(self):
        """its own limit is higher: the worker's counts, with all its compilers"""
        s = self.service({"DOVETAIL_CUDA_LIBS": HOSTILE}, worker_memory_mb=700)
        pid = s.workers()[0]["pid"]
        self.over(s, s.post(cuda(KERNEL + "// try memory\n"), "want=run"), "the limit is 700 MB (worker_memory_mb)")
        self.assertNotEqual(s.workers()[0]["pid"], pid)

    def test_memory_of_a_graph(self):
        """refused when it is asked for (the worker's limit of data), or stopped when it is used"""
        s = self.service(worker_memory_mb=700)
        big = chain(2, blocks=4 << 20)  # three buffers of 1 GB
        job = s.finish(s.post(big, "want=run"))
        self.assertEqual(job["state"], "failed", job)
        self.assertIn(job["problem"]["code"], ("limits", "out-of-memory"), job)
        self.assertEqual(s.finish(s.post(chain(2), "want=run"))["state"], "done")


class Local(FolderCase):
    def test_a_call_that_is_not_allowed(self):
        g = write(self.dir, "g.json", endless())
        p = subprocess.Popen([os.path.join(BUILD, "client/dovetail"), "run", g, *self.local, "--json"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        deadline = time.monotonic() + 20 * SLOW
        name = ""
        while not name.startswith("dovetail-worker") and time.monotonic() < deadline:
            with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="utf-8") as f:
                pid = f.read().split()[:1]
            if pid:
                with open(f"/proc/{pid[0]}/comm", encoding="utf-8") as f:
                    name = f.read()
        os.kill(int(pid[0]), signal.SIGSYS)
        problem = json.loads(p.communicate(timeout=60 * SLOW)[0])
        self.assertEqual((p.returncode, problem["code"]), (4, "worker-lost"))
        self.assertIn("it made a system call that it may not make", problem["detail"])


@unittest.skipUnless(CONFINED and platform.machine() == "x86_64", "the kernel has none to be taken away here")
class Unconfined(FolderCase):
    """On a kernel without Landlock, which a filter makes of this one."""
    def start(self, mode, hidden):
        args = [DAEMON, "--socket", self.dir + "/s", "--device", "soft", "--cache", self.db]
        config = os.path.join(self.dir, "config")
        with open(config, "w", encoding="utf-8") as f:
            f.write(f"confine = {mode}\n")
        with open(self.dir + "/log", "wb") as log:
            return subprocess.Popen(args + ["--config", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    preexec_fn=without(*hidden))

    def log(self):
        with open(self.dir + "/log", encoding="utf-8") as f:
            return f.read()

    def test_refuses_to_start(self):
        for mode, hidden, lacks in (("require", LANDLOCK, "Landlock, or it is switched off"),
                                    ("enforce", LANDLOCK, "Landlock, or it is switched off"),
                                    ("require", (SECCOMP,), "filters of system calls")):
            p = self.start(mode, hidden)
            self.assertEqual(p.wait(30 * SLOW), 4, self.log())
            self.assertIn(f"this kernel has no {lacks}; a worker that is not confined must not start "
                          f"(confine = {mode})", self.log())
            self.assertFalse(os.path.exists(self.dir + "/s"))

    def test_goes_on_without(self):
        r = self.local_run("try", KERNEL)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("not confined: this kernel has no Landlock", r.stderr)
        for line in '#include "/usr/lib/os-release"', '#if __has_include("/etc/passwd")\n#endif', \
                "#include <../../../etc/passwd>":
            r = self.local_run("try", line + "\n" + KERNEL)
            self.assertEqual(r.returncode, 3, r.stdout)
            self.assertIn("cannot confine the compiler", json.loads(r.stdout)["detail"])
        r = self.local_run("try", "#include <cuda_fp16.h>\n" + KERNEL)
        self.assertEqual(r.returncode, 0, r.stderr)

    def local_run(self, mode, source):
        g = write(self.dir, "g.json", cuda(source))
        env = dict(os.environ, DOVETAIL_CONFINE=mode)
        return subprocess.run([os.path.join(BUILD, "client/dovetail"), "run", g, *self.local, "--json"], env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60 * SLOW, check=False,
                              preexec_fn=without(*LANDLOCK))


class Words(FolderCase):
    def test_the_option(self):
        config = write(self.dir, "c", "confine = sometimes\n")
        r = subprocess.run([DAEMON, "--check-config", "--config", config], capture_output=True, text=True, check=False)
        self.assertEqual(r.returncode, 2)
        self.assertIn("confine is off, try, require or enforce, not sometimes", r.stderr)

    def test_off(self):
        doc = self.doc("devices", *self.local, env={"DOVETAIL_CONFINE": "off"})["confinement"]
        self.assertEqual(doc["worker"], {"files": "off", "calls": "off"})
        self.assertEqual(doc["mode"], "off")


if __name__ == "__main__":
    main()
