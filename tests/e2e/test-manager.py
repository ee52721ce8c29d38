#!/usr/bin/env python3
"""The service and its manager, spoken to directly: a passed socket, readiness, the watchdog, reload, the end; and
what an operator has of it without one: --check-config, the sample configuration, the log, the metrics.

The manager's side of each protocol is played here as its manual pages say (sd_listen_fds(3), sd_notify(3)).
test-operate.py has the real one, where it can be booted.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

from harness import BUILD, CLI, DAEMON, ENDLESS, HEAD, SLOW, WORKER, Service, as_user, chain, main, single, write

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# some seconds of work on the software device
LONG = HEAD + """
.visible .entry long(.param .u64 x)
{
    .reg .u64 %rd<4>; .reg .u32 %r<4>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [x]; cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r2, 0; mov.u32 %r3, 0;
LOOP:
    xor.b32 %r3, %r3, %r2;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 6000000;
    @%p1 bra LOOP;
    st.global.u32 [%rd1], %r3;
    ret;
}
"""


class Managed(Service):
    """A service with a passed socket, a socket for what it tells its manager, or both."""
    def __init__(self, config=None, passed=True, env=None, fds=1, wait=True, group=None):
        self.dir = tempfile.mkdtemp(prefix="dovetail-e2e.")
        self.socket, self.log_path = self.dir + "/d.sock", self.dir + "/log"
        self.config_path = self.dir + "/config"
        self.write_config(**(config or {}))
        self.told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.told.bind(self.dir + "/notify")
        self.states = []
        args = [DAEMON, "--device", "soft", "--cache", self.dir + "/cache.db", "--config", self.config_path]
        e = {**os.environ, "NOTIFY_SOCKET": self.dir + "/notify", **(env or {})}
        listener = None
        if passed:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(self.socket)
            if group:
                os.chown(self.socket, 0, group)
            listener.listen(64)
            # LISTEN_PID is the process that exec makes of the shell
            args = ["bash", "-c", f'export LISTEN_PID=$$ LISTEN_FDS={fds}; exec "$@" 3<&{listener.fileno()} '
                    f'4<&{listener.fileno()} {listener.fileno()}<&-', "bash", *args]
        else:
            args += ["--socket", self.socket]
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=e,
                                        pass_fds=[listener.fileno()] if listener else [])
        if listener:
            listener.close()
        if wait:
            self.until_told("READY=1")

    def write_config(self, **config):
        with open(self.config_path, "w", encoding="utf-8") as f:
            f.writelines(f"{k} = {v}\n" for k, v in config.items())

    def tells(self, seconds):
        """What it tells within so many seconds: the next message, or ""."""
        self.told.settimeout(max(seconds, 0.001))
        try:
            message = self.told.recv(4096).decode()
        except socket.timeout:
            return ""
        self.states.append(message)
        return message

    def until_told(self, what, seconds=60):
        deadline = time.monotonic() + seconds * SLOW
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            message = self.tells(0.2)
            if what in message.split("\n"):
                return message
        raise AssertionError(f"never told {what}: {self.states}\n{self.read_log()}")

    def until_log(self, what, seconds=30):
        deadline = time.monotonic() + seconds * SLOW
        while what not in self.read_log():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} is not in the log:\n{self.read_log()}")
            time.sleep(0.02)

    def wait_end(self, seconds=30):
        status = self.process.wait(seconds * SLOW)
        self.log.close()
        return status


class ManagedCase(unittest.TestCase):
    def managed(self, *args, **how):
        s = Managed(*args, **how)
        self.addCleanup(s.remove)
        self.addCleanup(s.told.close)
        self.addCleanup(lambda: s.process.poll() is None and (s.process.kill(), s.process.wait()))
        self.addCleanup(s.log.close)
        return s

    def refused(self, reply):
        """503 while it starts or stops: a problem document, and when to come again."""
        self.assertEqual(reply.status, 503, reply.body)
        self.assertEqual(reply.json()["code"], "unavailable")
        self.assertGreater(int(reply.headers["Retry-After"]), 0)


class Passed(ManagedCase):
    def test_before_a_worker_answers(self):
        go = tempfile.mktemp(prefix="dovetail-e2e-go.")
        script = tempfile.NamedTemporaryFile("w", prefix="dovetail-e2e-worker.", delete=False)
        with script:
            script.write(f'#!/bin/sh\nwhile [ ! -e {go} ]; do sleep 0.05; done\nexec {os.path.abspath(WORKER)} "$@"\n')
        os.chmod(script.name, 0o700)
        self.addCleanup(os.unlink, script.name)
        self.addCleanup(lambda: os.path.exists(go) and os.unlink(go))
        s = self.managed({"worker": script.name}, wait=False)
        inode = os.stat(s.socket).st_ino
        self.refused(s.http("GET", "/healthz"))
        self.refused(s.post(chain()))
        self.refused(s.http("POST", "/v1/reprofile"))
        self.assertEqual(s.http("GET", "/").status, 200)
        self.assertEqual(s.http("GET", "/v1/jobs").json(), {"jobs": []})
        self.assertEqual(s.metric("dovetail_ready"), 0)
        self.assertNotIn("READY=1", "\n".join(s.states))
        # the command line is patient: what it posts now is answered when the worker is there
        graph = write(s.dir, "graph.json", chain(2, factor=17.0))
        patient = subprocess.Popen([CLI, "analyze", graph, "--socket", s.socket], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 20 * SLOW
        refusals = s.metric('dovetail_http_responses_total{class="5xx"}')
        while s.metric('dovetail_http_responses_total{class="5xx"}') == refusals and time.monotonic() < deadline:
            time.sleep(0.02)
        open(go, "w").close()
        s.until_told("READY=1")
        out, err = patient.communicate(timeout=60 * SLOW)
        self.assertEqual(patient.returncode, 0, out + err)
        self.assertEqual(s.http("GET", "/healthz").status, 200)
        self.assertEqual(s.finish(s.post(chain(), "want=analysis"))["state"], "done")
        self.assertEqual(s.metric("dovetail_ready"), 1)
        # the socket stays when the service goes, and is the one that was passed
        self.assertEqual(s.stop(), 0)
        self.assertEqual(os.stat(s.socket).st_ino, inode)

    def test_what_is_no_such_socket(self):
        self.assertEqual(self.managed(fds=2, wait=False).wait_end(), 2)
        r = subprocess.run(["bash", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@" 3</dev/null', "bash", DAEMON,
                            "--device", "soft"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                           timeout=60 * SLOW)
        self.assertEqual(r.returncode, 2, r.stderr)
        self.assertIn("no listening Unix stream socket", r.stderr)

    @unittest.skipIf(os.geteuid(), "needs root to be other users")
    def test_trust_is_not_of_the_socket(self):
        """Owner and group of the file say nothing: neither is an admin. A user whom the configuration names is."""
        s = self.managed({"admin_uids": "12346", "admin_group": "12347"})
        os.chmod(s.dir, 0o755)
        os.chown(s.socket, 12345, 12345)
        os.chmod(s.socket, 0o666)

        def gc():
            return s.http("POST", "/v1/cache/gc").status
        self.assertEqual(as_user(12345, 12345, [], gc), 403)
        self.assertEqual(as_user(12346, 12345, [], gc), 200)
        self.assertEqual(as_user(12348, 12348, [12347], gc), 200)
        os.unlink(s.socket)  # what lies at the path is of no interest to the service
        self.assertEqual(s.stop(), 0)
        self.assertFalse(os.path.exists(s.socket))

    @unittest.skipIf(os.geteuid(), "needs root to give a file away")
    def test_admin_group_of_the_socket(self):
        s = self.managed({"admin_group": 12345}, group=12345, wait=False)
        self.assertEqual(s.wait_end(), 2)
        self.assertIn("admin_group = 12345 is the group of the socket that was passed", s.read_log())


class End(ManagedCase):
    def running(self, s, graph, query="want=run"):
        r = s.post(graph, query)
        self.assertEqual(r.status, 202, r.body)
        path = r.headers["Location"]
        s.until(path, lambda j: j["state"] != "queued", 30)
        return path

    def drain(self, passed):
        s = self.managed({"drain_timeout": 120, "worker_silence": 600}, passed=passed)
        path = self.running(s, single(LONG, "long"))
        pid = s.workers()[0]["pid"]
        os.kill(pid, signal.SIGSTOP)  # so that the job does not end before we have looked
        try:
            self.assertEqual(s.http("GET", path).json()["state"], "running")
            s.process.send_signal(signal.SIGTERM)
            self.assertIn("EXTEND_TIMEOUT_USEC=125000000", s.until_told("STOPPING=1"))
            self.assertTrue(stat.S_ISSOCK(os.stat(s.socket).st_mode))
            self.refused(s.post(chain(2, factor=123.0)))
            self.refused(s.http("GET", "/healthz"))
            self.assertEqual(s.metric("dovetail_ready"), 0)
            self.assertEqual(s.http("GET", path).json()["state"], "running")
        finally:
            os.kill(pid, signal.SIGCONT)
        job = s.http("GET", path + "?wait=100", timeout=110).json()
        self.assertEqual(job["state"], "done", job)
        self.assertIsNone(s.process.poll())  # its result has not been fetched
        result = s.http("GET", job["links"]["result"])
        self.assertEqual(result.status, 200)
        self.assertEqual(len(result.json()["outputs"]), 1)
        self.assertEqual(s.http("GET", path).json()["state"], "done")  # a moment more: libdovetail asks twice
        self.assertEqual(s.wait_end(), 0)  # nothing is left to wait for
        self.assertEqual(os.path.exists(s.socket), passed)

    def test_drain_of_its_own_socket(self):
        self.drain(False)

    def test_drain_of_a_passed_socket(self):
        self.drain(True)

    def test_deadline(self):
        s = self.managed({"drain_timeout": 2})
        path = self.running(s, single(ENDLESS, "endless"))
        began = time.monotonic()
        s.process.send_signal(signal.SIGTERM)
        s.until_told("STOPPING=1")
        self.assertEqual(s.http("GET", path).json()["state"], "running")
        self.assertEqual(s.wait_end(), 0)
        self.assertGreater(time.monotonic() - began, 1.5)

    def test_second_signal(self):
        s = self.managed({"drain_timeout": 3600})
        self.running(s, single(ENDLESS, "endless"))
        s.process.send_signal(signal.SIGTERM)
        s.until_told("STOPPING=1")
        s.process.send_signal(signal.SIGINT)
        self.assertEqual(s.wait_end(), 0)


class Alive(ManagedCase):
    def test_watchdog(self):
        """It is told while the worker answers, idle or busy, and not while it is stopped."""
        s = self.managed({"worker_silence": 3600}, env={"WATCHDOG_USEC": "1000000"})
        s.until_told("WATCHDOG=1")
        path = s.post(single(ENDLESS, "endless"), "want=run").headers["Location"]
        s.until(path, lambda j: j["state"] == "running")
        del s.states[:]
        for _ in range(3):
            s.until_told("WATCHDOG=1")
        s.http("DELETE", path)
        s.until("/healthz", lambda h: h.get("worker") == "ready")
        s.until_told("WATCHDOG=1")
        pid = [w["pid"] for w in s.workers() if w["state"] in ("idle", "pinging")][0]
        os.kill(pid, signal.SIGSTOP)
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:  # an answer may be under way
            s.tells(0.2)
        del s.states[:]
        while time.monotonic() < deadline + 1.5:
            s.tells(0.2)
        self.assertNotIn("WATCHDOG=1", s.states)
        with contextlib.suppress(ProcessLookupError):  # it may have been replaced by now
            os.kill(pid, signal.SIGCONT)
        s.until_told("WATCHDOG=1")
        self.assertEqual(s.stop(), 0)

    def test_store_that_hangs(self):
        """A disk that does not answer: opening the store's file waits, as opening a pipe does that nobody writes to."""
        s = self.managed(env={"WATCHDOG_USEC": "1000000"})
        s.until_told("WATCHDOG=1")
        db = s.dir + "/cache.db"
        os.rename(db, db + ".away")
        os.mkfifo(db)
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:  # an answer may be under way
            s.tells(0.2)
        del s.states[:]
        while time.monotonic() < deadline + 1.5:
            s.tells(0.2)
        self.assertNotIn("WATCHDOG=1", s.states)
        self.assertEqual(s.http("GET", "/healthz").status, 200)  # the loop and the worker answer
        os.rename(db, s.dir + "/pipe")
        os.rename(db + ".away", db)
        os.close(os.open(s.dir + "/pipe", os.O_WRONLY))  # who waits goes on
        s.until_told("WATCHDOG=1")
        self.assertEqual(s.stop(), 0)

    def stopped(self, graph):
        """A worker that gives no sign of life is killed and replaced: it costs its job, and nothing else."""
        s = self.managed({"worker_silence": int(3 * SLOW)}, passed=False)
        path = None
        if graph:
            path = s.post(graph, "want=run").headers["Location"]
            s.until(path, lambda j: j["state"] == "running")
        pid = s.workers()[0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        s.until_log("it gave no sign of life", 60)
        if path:
            job = s.http("GET", path + "?wait=30").json()
            self.assertEqual((job["state"], job["problem"]["code"]), ("failed", "worker-lost"))
            self.assertIn("no sign of life", job["problem"]["detail"])
        deadline = time.monotonic() + 30 * SLOW
        while s.http("GET", "/healthz").status != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertNotEqual(s.workers()[0]["pid"], pid)
        self.assertEqual(s.metric('dovetail_worker_restarts_total{cause="silent"}'), 1)
        self.assertEqual(s.finish(s.post(chain(), "want=analysis"))["state"], "done")
        self.assertEqual(s.stop(), 0)

    def test_stopped_idle(self):
        self.stopped(None)

    def test_stopped_busy(self):
        self.stopped(single(ENDLESS, "endless"))

    def test_busy_is_alive(self):
        """A job of many times worker_silence is no silence."""
        silence = int(2 * SLOW) + 1
        s = self.managed({"worker_silence": silence}, passed=False)
        path = s.post(single(ENDLESS, "endless"), "want=run").headers["Location"]
        s.until(path, lambda j: j["state"] == "running")
        time.sleep(2 * silence)
        self.assertEqual(s.http("GET", path).json()["state"], "running")
        self.assertEqual(s.http("GET", "/healthz").json()["worker"], "busy")
        s.process.send_signal(signal.SIGTERM)
        s.process.send_signal(signal.SIGTERM)
        s.process.wait(30 * SLOW)

    def test_service_that_was_stopped_itself(self):
        """Back from a stop, the service does not take its own absence for its workers' silence."""
        silence = int(2 * SLOW) + 1
        s = self.managed({"worker_silence": silence}, passed=False)
        pid = s.workers()[0]["pid"]
        s.process.send_signal(signal.SIGSTOP)
        time.sleep(silence + 2)
        s.process.send_signal(signal.SIGCONT)
        self.assertEqual(s.http("GET", "/healthz").status, 200)
        self.assertEqual(s.workers()[0]["pid"], pid, s.read_log())
        self.assertEqual(s.stop(), 0)


class Reload(ManagedCase):
    def test_reload(self):
        s = self.managed({"max_body_mb": 8, "drain_timeout": 7, "max_workers": 2}, passed=False)
        big = json.dumps({"dovetail": 1, "name": "x" * (3 << 20)})
        self.assertNotEqual(s.http("POST", "/v1/jobs", big).status, 413)
        s.write_config(max_body_mb=1, drain_timeout=7, device="soft:a100", max_workers=3)
        s.process.send_signal(signal.SIGHUP)
        self.assertIn("MONOTONIC_USEC=", s.until_told("RELOADING=1"))
        s.until_told("READY=1")
        s.until_log("is in force")
        log = s.read_log()
        self.assertIn("reload: max_body_mb is now 1, no longer 8", log)
        self.assertIn("reload: max_workers is now 3, no longer 2", log)
        self.assertNotIn("drain_timeout", log)
        self.assertEqual(s.http("POST", "/v1/jobs", big).status, 413)
        # the command line wins over the file, so the device is still the same: nothing to say
        self.assertNotIn("reload: device", log)
        self.assertEqual(s.metric('dovetail_config_reloads_total{result="taken"}'), 1)
        # what needs a restart is named
        s.write_config(max_body_mb=1, worker="/bin/true", max_workers=3)
        s.process.send_signal(signal.SIGHUP)
        s.until_log("reload: worker = /bin/true waits for a restart")
        # a wrong file changes nothing
        with open(s.config_path, "w", encoding="utf-8") as f:
            f.write("max_body_mb = 9\nmax_queue = 3\n")
        s.process.send_signal(signal.SIGHUP)
        s.until_log("config:2: there is no option max_queue")
        self.assertEqual(s.http("POST", "/v1/jobs", big).status, 413)
        self.assertEqual(s.metric('dovetail_config_reloads_total{result="refused"}'), 1)
        os.unlink(s.config_path)
        s.process.send_signal(signal.SIGHUP)
        s.until_log("No such file")
        self.assertEqual(s.http("GET", "/healthz").status, 200)
        self.assertEqual(s.stop(), 0)

    @unittest.skipIf(os.geteuid(), "needs root to be other users")
    def test_admins(self):
        s = self.managed(passed=False)
        os.chmod(s.dir, 0o755)
        os.chmod(s.socket, 0o666)

        def gc():
            return s.http("POST", "/v1/cache/gc").status
        self.assertEqual(as_user(12346, 12346, [], gc), 403)
        s.write_config(admin_uids="12346")
        s.process.send_signal(signal.SIGHUP)
        s.until_log("is in force")
        self.assertEqual(as_user(12346, 12346, [], gc), 200)
        self.assertEqual(s.stop(), 0)


class Configuration(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="dovetail-e2e.")
        self.addCleanup(self.folder.cleanup)
        self.dir = self.folder.name

    def check(self, status, says, **config):
        config = {"socket": self.dir + "/d.sock", "cache": self.dir + "/c.db", "device": "soft", **config}
        path = self.dir + "/config"
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(f"{k} = {v}\n" for k, v in config.items())
        r = subprocess.run([DAEMON, "--config", path, "--check-config"], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, check=False, timeout=120 * SLOW)
        self.assertEqual(r.returncode, status, r.stdout + r.stderr)
        self.assertIn(says, r.stdout + r.stderr)
        self.assertEqual(os.listdir(self.dir), ["config"])  # nothing is made

    def test_check(self):
        self.check(0, "the configuration is right")
        self.check(0, "the configuration is right", cache=self.dir + "/new/folder/c.db")
        self.check(2, "No such file", worker=self.dir + "/none")
        self.check(2, "is no program that this user may run", worker="/etc/passwd")
        self.check(4, "device = soft:h200: the worker ended without an answer", worker="/bin/true")
        self.check(2, "socket = /nonexistent/d.sock: the folder /nonexistent: No such file",
                   socket="/nonexistent/d.sock")
        self.check(2, "socket = /etc/passwd/d.sock: /etc/passwd is no folder", socket="/etc/passwd/d.sock")
        self.check(2, "is no file", cache="/tmp")
        self.check(2, "is no folder", cache="/etc/passwd/c.db")
        self.check(4, "device = soft:no-such", device="soft:no-such")

    @unittest.skipIf(os.geteuid(), "needs root to give files away")
    def test_files_of_others(self):
        with tempfile.TemporaryDirectory(prefix="dovetail-e2e.") as d:
            db = d + "/c.db"
            open(db, "w").close()
            os.chmod(db, 0o620)
            self.check(2, "may be written by others", cache=db)
            os.chmod(db, 0o600)
            os.chown(db, 12345, 12345)
            self.check(2, "belongs to user 12345", cache=db)

    def test_sample(self):
        """Every option is in the sample and in the manual page; without its comment signs, the sample is right."""
        with open(os.path.join(BUILD, "daemon/dovetail.conf"), encoding="utf-8") as f:
            sample = f.read()
        options = re.findall(r"^#(\w+) =", sample, re.M)
        told = subprocess.run([DAEMON, "--help"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(options, re.findall(r"^  (\w+) ", told.split("NAME = VALUE:")[1], re.M))
        path = self.dir + "/all"
        with open(path, "w", encoding="utf-8") as f:
            f.write(re.sub(r"^#(\w+ = .)", r"\1", sample, flags=re.M))
            f.write(f"socket = {self.dir}/d.sock\ncache = {self.dir}/c.db\ndevice = soft\n")
        r = subprocess.run([DAEMON, "--config", path, "--check-config"], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, check=False, timeout=120 * SLOW)
        self.assertEqual(r.returncode, 0, r.stderr)
        page = os.path.join(BUILD, "man/config-options.scd")
        if os.path.exists(page):
            with open(page, encoding="utf-8") as f:
                text = f.read().replace("\\", "")
            for o in options:
                self.assertIn(f"\n*{o}*\n", text)

    def test_manual_pages(self):
        """What --help names is in the pages."""
        for program, page in ((CLI, "dovetail.1.scd"), (DAEMON, "dovetaild.8.scd")):
            told = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
            with open(os.path.join(ROOT, "man", page), encoding="utf-8") as f:
                text = f.read()
            for option in set(re.findall(r"--[a-z][a-z-]+", told)):
                self.assertIn(f"*{option}*", text, page)
            if program == CLI:
                for verb in re.findall(r"^  ([a-z]+)  ", told, re.M):
                    self.assertRegex(text, rf"(?m)^\*{verb}\*", page)


@unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
class Units(unittest.TestCase):
    """What can be said of the units without running them; test-operate.py runs them."""
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dovetail-e2e.")
        self.addCleanup(folder.cleanup)
        self.paths = []
        for name in ("dovetaild.service", "dovetaild.socket", "dovetail-reprofile.service", "dovetail-reprofile.timer"):
            with open(os.path.join(BUILD, "systemd", name), encoding="utf-8") as f:
                text = f.read()
            self.assertNotRegex(text, "@[a-z]+@")
            for program in (DAEMON, CLI):  # where they are now, not where they will be installed
                text = re.sub(rf"=\S+/{os.path.basename(program)} ", f"={os.path.abspath(program)} ", text)
            self.paths.append(os.path.join(folder.name, name))
            with open(self.paths[-1], "w", encoding="utf-8") as f:
                f.write(text)

    def analyze(self, *args):
        return subprocess.run(["systemd-analyze", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=60 * SLOW)

    def test_verify(self):
        r = self.analyze("verify", "--man=no", "--recursive-errors=no", *self.paths)
        self.assertEqual((r.returncode, re.findall(r"dovetail.*", r.stderr)), (0, []))
        with open(self.paths[0], "a", encoding="utf-8") as f:
            f.write("[Service]\nWatchdogSec=soon\n")
        self.assertIn("soon", self.analyze("verify", "--man=no", "--recursive-errors=no", self.paths[0]).stderr)

    def test_exposure(self):
        for path in self.paths:
            if path.endswith(".service"):
                r = self.analyze("security", "--offline=yes", "--threshold=15", path)
                self.assertEqual(r.returncode, 0, r.stdout[-300:] + r.stderr)


SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*",?)*)\})? (\S+)$')


def parsed(text):
    """{family: (type, {(name, labels): value})}: the Prometheus text format; ValueError where it is not."""
    families, now = {}, None
    if not text.endswith("\n"):
        raise ValueError("the last line has no end")
    for line in text.split("\n")[:-1]:
        head = re.fullmatch(r"# (HELP|TYPE) ([a-zA-Z_:][\w:]*) (.+)", line)
        if head and head[1] == "HELP":
            if head[2] in families:
                raise ValueError("two of " + head[2])
            now = head[2]
            families[now] = [None, {}]
        elif head:
            if head[2] != now or families[now][0] or head[3] not in ("counter", "gauge", "histogram"):
                raise ValueError(line)
            families[now][0] = head[3]
        else:
            m = SAMPLE.fullmatch(line)
            if not m or not now or not families[now][0]:
                raise ValueError(line)
            labels = tuple(sorted(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m[2] or "")))
            base = re.sub(r"_(bucket|sum|count)$", "", m[1]) if families[now][0] == "histogram" else m[1]
            if base != now or (m[1], labels) in families[now][1] or len(dict(labels)) != len(labels):
                raise ValueError(line)
            families[now][1][m[1], labels] = float(m[3])
    for name, (kind, samples) in families.items():
        if not samples:
            raise ValueError(name + " has no sample")
        if kind == "counter" and (not name.endswith("_total") or min(samples.values()) < 0):
            raise ValueError(name + " is no counter")
        if kind == "histogram":
            histogram(name, samples)
    return {n: (k, v) for n, (k, v) in families.items()}


def histogram(name, samples):
    series = {}
    for (n, labels), v in samples.items():
        rest = tuple(x for x in labels if x[0] != "le")
        series.setdefault(rest, {}).setdefault(n[len(name):], []).append((dict(labels).get("le"), v))
    for rest, parts in series.items():
        buckets = [(float(le), v) for le, v in parts["_bucket"]]
        values = [v for _, v in buckets]
        if buckets != sorted(buckets) or values != sorted(values) or buckets[-1][0] != float("inf") \
                or parts["_count"][0][1] != values[-1] or len(parts["_sum"]) != 1:
            raise ValueError(f"{name}{rest} is no histogram")


class Figures(unittest.TestCase):
    def service(self, config=None):
        """A service that ends well with the test."""
        def end():
            try:
                self.assertEqual(s.stop(), 0)
            finally:
                s.remove()
        s = Service(config)
        self.addCleanup(end)
        return s

    def test_parser(self):
        """The parser refuses what is wrong."""
        good = "# HELP a_total x\n# TYPE a_total counter\na_total{b=\"c\"} 1\n"
        parsed(good)
        for old, new in (("counter", "count"), ("# HELP a_total x\n", ""), (" 1\n", " 1"), (" 1\n", " one\n"),
                         ("\"c\"", "c"), ("a_total{", "b_total{"), ("a_total", "a"), (" 1\n", " -1\n"),
                         (" 1\n", " 1\na_total{b=\"c\"} 1\n")):
            with self.assertRaises(ValueError, msg=new):
                parsed(good.replace(old, new))

    def test_table(self):
        """Every metric stands in the table of docs/OPERATE.md, and nothing else does."""
        with open(os.path.join(ROOT, "docs/OPERATE.md"), encoding="utf-8") as f:
            rows = re.findall(r"^\| `dovetail_.*$", f.read(), re.M)
        s = self.service()
        there = set(parsed(s.http("GET", "/metrics").body.decode()))
        self.assertEqual({name for r in rows for name in re.findall(r"`(dovetail_\w+)`", r)}, there)

    def test_metrics_and_log(self):
        s = self.service({"worker_silence": 600})
        g = chain(3, factor=41.0)
        g["name"] = 'a "name" with=more'
        done = s.finish(s.post(g))
        self.assertEqual((done["state"], done["cache"]), ("done", "miss"))
        self.assertEqual(s.post(g).status, 200)
        self.assertEqual(s.finish(s.post(g, "want=plan&deny=block-fusion"))["state"], "done")
        self.assertEqual(s.finish(s.post(g, "want=run"))["state"], "done")
        self.assertEqual(s.finish(s.post(single(HEAD + "!", "k"), "want=plan"))["state"], "failed")
        text = s.http("GET", "/metrics").body.decode()
        m = parsed(text)

        def value(name, **labels):
            return m[re.sub(r"_(sum|count|bucket)$", "", name)][1][name, tuple(sorted(labels.items()))]
        self.assertEqual(value("dovetail_cache_hits_total"), 1)
        factor = {f: value("dovetail_cache_misses_by_factor_total", factor=f)
                  for f in ("graph", "device", "toolchain", "policy", "uncached")}
        self.assertEqual(factor, {"graph": 2, "device": 0, "toolchain": 0, "policy": 1, "uncached": 1})
        self.assertEqual(sum(factor.values()), value("dovetail_cache_misses_total"))
        self.assertEqual(value("dovetail_job_queue_seconds_count"), 4)
        self.assertEqual(value("dovetail_job_seconds_count"), 4)
        self.assertEqual(value("dovetail_jobs_total", state="done"), 3)
        for stage, at_least in (("compile", 3), ("analysis", 1), ("planning", 1), ("run", 1)):
            self.assertGreaterEqual(value("dovetail_job_stage_seconds_count", stage=stage), at_least, stage)
            self.assertGreater(value("dovetail_job_stage_seconds_sum", stage=stage), 0, stage)
        self.assertGreater(value("dovetail_cache_bytes"), 4096)
        self.assertEqual(value("dovetail_cache_damaged_total"), 0)
        self.assertEqual(value("dovetail_cache_failed_writes_total"), 0)
        os.kill(s.workers()[0]["pid"], signal.SIGKILL)
        s.until("/v1/devices", lambda d: d["workers"] and d["workers"][0]["state"] == "idle"
                and s.metric('dovetail_worker_restarts_total{cause="crash"}') == 1)
        for name in ("cache.db", "cache.db-wal", "cache.db-shm"):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(s.dir, name)).st_mode), 0o600, name)
        line = [x for x in s.read_log().splitlines() if done["id"] in x and "done, cache miss" in x]
        self.assertEqual(len(line), 1)
        self.assertRegex(line[0], rf' job={done["id"]} uid={os.getuid()} graph="a .name. with=more" '
                         rf'digest={done["digest"]} time=\d+\.\d+ '
                         r'trace=00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$')

    def test_store_that_fails(self):
        """Damage and writes that fail are counted, wherever they are met, and cost no job."""
        s = self.service({"worker_silence": 600})
        g = chain(2, factor=51.0)
        self.assertEqual(s.finish(s.post(g))["state"], "done")
        import sqlite3
        db = sqlite3.connect(os.path.join(s.dir, "cache.db"), timeout=30)
        db.execute("UPDATE entry SET body = replace(body, 's', 't')")
        db.commit()
        self.assertEqual(s.finish(s.post(g))["state"], "done")  # the service meets the damage
        self.assertGreaterEqual(s.metric("dovetail_cache_damaged_total"), 1)
        before = s.metric("dovetail_cache_failed_writes_total")
        db.execute("CREATE TRIGGER full BEFORE INSERT ON entry BEGIN SELECT RAISE(FAIL, 'full'); END")
        db.commit()
        db.close()
        self.assertEqual(s.finish(s.post(chain(2, factor=52.0)))["state"], "done")
        deadline = time.monotonic() + 20 * SLOW  # the worker's figures come with its next beat
        while s.metric("dovetail_cache_failed_writes_total") == before and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertGreater(s.metric("dovetail_cache_failed_writes_total"), before)

    def test_mode_of_an_old_file(self):
        """A store that others could read until now is closed to them."""
        s = Service()
        self.assertEqual(s.stop(), 0)
        path = os.path.join(s.dir, "cache.db")
        os.chmod(path, 0o644)
        r = subprocess.run([CLI, "cache", "stats", "--local", "--cache", path], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, check=False, timeout=60 * SLOW)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        s.remove()


if __name__ == "__main__":
    main()
