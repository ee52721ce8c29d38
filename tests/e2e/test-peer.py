"""A worker that does not keep to the protocol (base/wire.h): the service drops it with a line in its log, and nobody
else is hurt.

This file is the worker, too: the service starts a script that runs it with `--worker DIR`. What a worker does wrong
with a job is the name of the job's graph (WRONG, PRIVATE); what it does wrong at its start or with a ping stands in
DIR/devices or DIR/ping, once."""
import json
import os
import stat
import struct
import sys
import time

if len(sys.argv) < 3 or sys.argv[1] != "--worker":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from harness import Service, ServiceCase, chain, main

# ---- the worker ------------------------------------------------------------------------------------------------------
SUM = "sha256:" + "5" * 64
DEVICES = {"arch": "sm_90", "key": "soft:fake", "toolchain": "fake", "figures": "stock",
           "device": {"name": "fake", "kind": "soft", "arch": "sm_90", "sms": 1}, "devices": []}


def say(kind, number, body, length=None):
    data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    os.write(1, struct.pack("<IcI", len(data) + 5 if length is None else length, kind.encode(), number) + data)


def answer(document='{"said":1}', cache="hit", signature=SUM, digest=""):
    return '{"cache":%s,"signature":%s,"digest":%s,"document":%s}' % (json.dumps(cache), json.dumps(signature),
                                                                      json.dumps(digest), document)


ASK = {"op": "claim", "signature": SUM, "device": "d", "toolchain": "t", "policy": "p"}
PROGRESS = {"stage": "s", "message": "m", "done": 1, "of": 2}
# what is sent in answer to request n; and whether the job had begun by then: it fails at once, else three workers have
# had it
WRONG = {
    "garbage": (lambda n: os.write(1, b"GET / HTTP/1.1\r\n\r\n"), False),
    "type": (lambda n: say("Z", n, "{}"), False),
    "question": (lambda n: say("Q", n, {"verb": "ping"}), False),
    "number": (lambda n: say("R", n + 1, answer()), False),
    "before": (lambda n: say("R", n - 1, answer()), False),
    "other-progress": (lambda n: say("P", n + 7, PROGRESS), False),
    "other-error": (lambda n: say("E", 0, {"code": "trap"}), False),
    "long-progress": (lambda n: say("P", n, "x" * 70000), False),
    "long-ask": (lambda n: say("S", n, "x" * 70000), False),
    "other-ask": (lambda n: say("S", n + 1, ASK), False),
    "longest": (lambda n: say("R", n, "{", 0xffffffff), False),
    "long-error": (lambda n: say("E", n, "{", 65 << 20), False),
    "shortest": (lambda n: say("R", n, "", 2), False),
    "begun": (lambda n: (say("P", n, PROGRESS), say("R", n + 1, answer())), True),
    "progress-list": (lambda n: say("P", n, "[]"), True),
    "progress-text": (lambda n: say("P", n, "not JSON"), True),
    "progress-below": (lambda n: say("P", n, PROGRESS | {"done": -1}), True),
    "progress-above": (lambda n: say("P", n, PROGRESS | {"of": 1 << 40}), True),
    "ask-text": (lambda n: say("S", n, "what is there?"), True),
    "ask-what": (lambda n: say("S", n, ASK | {"op": "drop"}), True),
    "ask-key": (lambda n: say("S", n, ASK | {"signature": "sha256:x"}), True),
    "ask-part": (lambda n: say("S", n, ASK | {"device": 5}), True),
    "ask-not": (lambda n: say("S", n, ASK | {"not": "../.."}), True),
    "no-document": (lambda n: say("R", n, {"cache": "hit"}), True),
    "nothing": (lambda n: say("R", n, ""), True),
    "no-cache": (lambda n: say("R", n, '{"signature":"","digest":"","document":{}}'), True),
    "header": (lambda n: say("R", n, answer(signature="x\r\nSet-Cookie: y")), True),
    "cache": (lambda n: say("R", n, answer(cache="hit\r\nSet-Cookie: y")), True),
    "digest": (lambda n: say("R", n, answer(digest="sha256:" + "G" * 64)), True),
    "no-object": (lambda n: say("R", n, answer(document='"text"')), True),
    "empty": (lambda n: say("R", n, answer(document="")), True),
    "error-text": (lambda n: say("E", n, "no"), True),
    "error-code": (lambda n: say("E", n, {"detail": "x"}), True),
    "error-unknown": (lambda n: say("E", n, {"code": "tea"}), True),
}
# right answers, and then more than was asked for
AFTER = {
    "then-progress": lambda n: (say("R", n, answer()), say("P", n, PROGRESS)),
    "then-again": lambda n: (say("R", n, answer()), say("R", n, answer())),
    "then-error": lambda n: (say("R", n, answer()), say("E", n, {"code": "trap"})),
    "then-next": lambda n: (say("R", n, answer()), say("R", n + 1, answer())),
    "then-ask": lambda n: (say("R", n, answer()), say("S", n, ASK)),
    "then-half": lambda n: (say("R", n, answer()), os.write(1, b"\x09")),
}
# as an answer to `devices` or `ping`
PRIVATE = {
    "progress": lambda n: say("P", n, PROGRESS),
    "long": lambda n: say("R", n, answer(document='{"x":"%s"}' % ("y" * (1 << 20)))),
    "number": lambda n: say("R", n + 1, answer()),
    "text": lambda n: say("R", n, "yes"),
    "error": lambda n: say("E", n, {"code": "tea"}),
}
# says that it cannot start, and takes its time to end
LATE = {"late": lambda n: (say("E", n, {"code": "no-device", "detail": "not today"}), time.sleep(1.5), sys.exit(0))}


def once(folder, name):
    path = os.path.join(folder, name)
    try:
        with open(path, encoding="utf-8") as f:
            word = f.read()
        os.unlink(path)
        return word
    except FileNotFoundError:
        return None


def work(folder):
    def take(n):
        data = b""
        while len(data) < n:
            piece = os.read(0, n - len(data))
            if not piece:
                sys.exit(0)
            data += piece
        return data
    while True:
        length, _, n = struct.unpack("<IcI", take(9))
        q = json.loads(take(length - 5))
        if q["verb"] in ("devices", "ping"):
            word = once(folder, q["verb"])
            if word:
                (PRIVATE | LATE)[word](n)
            else:
                say("R", n, answer(json.dumps(DEVICES)))
            continue
        name = q["graph"]["name"]
        if name in WRONG:
            with open(os.path.join(folder, "took"), "a", encoding="utf-8") as f:
                f.write(name + "\n")
            WRONG[name][0](n)
        elif name in AFTER:
            AFTER[name](n)
        elif name == "once" and once(folder, "once"):
            say("R", n + 1, answer())
        elif name == "slow":
            say("P", n, PROGRESS)
            while not os.path.exists(os.path.join(folder, "go")):
                time.sleep(0.01)
            say("R", n, answer())
        elif name == "deaf":
            os.close(0)
            say("R", n, answer())
            time.sleep(3600)
        elif name == "mute":
            say("R", n, answer())
            os.close(1)
            while True:
                take(1)
        elif name == "silent":
            time.sleep(3)
            say("R", n, answer())
        elif name in ("lost", "lost-once", "lost-begun") and (name != "lost-once" or once(folder, "lost-once")):
            if name == "lost-begun":
                say("P", n, PROGRESS)
            while True:  # as if it had not been given anything
                say("B", 0, {"failed_writes": 0, "damaged": 0, "request": 0})
                time.sleep(0.2)
        elif name == "at-it":
            for _ in range(20):
                say("B", 0, {"failed_writes": 0, "damaged": 0, "request": n})
                time.sleep(0.2)
            say("R", n, answer())
        elif name == "leaves":  # what it started lives on, in a session of its own, with its pipe
            say("P", n, PROGRESS)
            out, into = os.pipe()
            if os.fork():
                os.read(out, 1)
                os._exit(1)
            os.setsid()
            os.write(into, b"x")
            time.sleep(60)
            os._exit(0)
        elif name == "asks":  # there is no cluster
            say("S", n, ASK)
            length, kind, number = struct.unpack("<IcI", take(9))
            said = json.loads(take(length - 5))
            say("R", n, answer(json.dumps({"kind": kind.decode(), "mine": number == n, "said": said})))
        elif name == "lies":
            say("E", n, {"code": "trap", "status": 200, "type": "x", "title": "all is well", "detail": "d",
                         "pointer": "/launches/0", "log": "l", "more": 1})
        else:
            say("R", n, answer())


if len(sys.argv) > 2 and sys.argv[1] == "--worker":
    work(sys.argv[2])

# ---- the tests -------------------------------------------------------------------------------------------------------


class Peer(ServiceCase):
    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.folder = tempfile.mkdtemp(prefix="dovetail-peer.")
        script = os.path.join(cls.folder, "worker")
        with open(script, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\nexec {sys.executable} {os.path.abspath(__file__)} --worker {cls.folder} \"$@\"\n")
        os.chmod(script, stat.S_IRWXU)
        cls.config = {"worker": script, "job_timeout": "300"}  # longer than all of test_wrong takes on a busy machine
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        import shutil
        super().tearDownClass()
        shutil.rmtree(cls.folder)

    def job(self, name, device="soft"):
        return self.s.post(chain(1) | {"name": name}, f"want=run&device={device}")

    def told(self, before):
        return [line for line in self.s.read_log()[before:].splitlines() if "the worker was ended: " in line
                and "worker " in line]

    def put(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)

    def test_wrong(self):
        slow = self.job("slow", "soft:l4")
        self.assertEqual(slow.status, 202)
        for name, (_, begun) in WRONG.items():
            with self.subTest(name):
                before = len(self.s.read_log())
                self.put("took", "")
                job = self.s.finish(self.job(name))
                self.assertEqual((job["state"], job["problem"]["code"]), ("failed", "worker-lost"), job)
                self.assertRegex(job["problem"]["detail"],
                                 "^the worker was ended: (it broke the protocol|its (progress|answer|error|question) )")
                with open(os.path.join(self.folder, "took"), encoding="utf-8") as f:
                    self.assertEqual(f.read(), (name + "\n") * (1 if begun else 3))
                self.assertIn(job["problem"]["detail"], "\n".join(self.told(before)))
                self.assertNotIn("Set-Cookie", json.dumps(job))
                self.assertEqual(self.s.finish(self.job("good"))["state"], "done")
        self.assertEqual(self.s.http("GET", slow.headers["Location"]).json()["state"], "running")
        self.put("go", "")
        self.assertEqual(self.s.finish(slow)["state"], "done")

    def test_after(self):
        for name in AFTER:
            with self.subTest(name):
                before = len(self.s.read_log())
                self.assertEqual(self.s.finish(self.job(name))["state"], "done")
                self.assertEqual(self.s.finish(self.job("good"))["state"], "done")
                deadline = time.monotonic() + 20
                while not self.told(before) and time.monotonic() < deadline:
                    time.sleep(0.02)
                self.assertRegex("\n".join(self.told(before)),
                                 "it broke the protocol: (it spoke without a request|a frame that it may not send "
                                 "now|an answer to another request)")

    def test_not_begun_goes_to_the_next(self):
        self.put("once", "x")
        job = self.s.finish(self.job("once"))
        self.assertEqual(job["state"], "done", job)

    def test_no_cluster(self):
        """A question that nobody can answer is answered, whatever worker asks it."""
        job = self.s.finish(self.job("asks"))
        self.assertEqual(self.s.http("GET", job["links"]["result"]).body,
                         b'{"kind": "T", "mine": true, "said": {"say": "away"}}')

    def test_the_problem_is_made_here(self):
        job = self.s.finish(self.job("lies"))
        self.assertEqual(job["problem"], {"type": "about:blank", "title": "a kernel trapped or failed an assertion",
                                          "status": 422, "code": "trap", "detail": "d",
                                          "pointer": "/launches/0", "log": "l"})
        self.assertEqual(self.s.http("GET", f"/v1/jobs/{job['id']}/result").status, 422)

    def test_ping(self):
        for word in PRIVATE:
            with self.subTest(word):
                self.assertEqual(self.s.finish(self.job("good"))["state"], "done")
                before = len(self.s.read_log())
                self.put("ping", word)
                self.assertEqual(self.s.http("GET", "/healthz").status, 200)  # of the worker that came next
                self.assertFalse(os.path.exists(os.path.join(self.folder, "ping")))
                self.assertTrue(self.told(before), self.s.read_log()[before:])

    def test_start(self):
        for word in PRIVATE:
            with self.subTest(word):
                before = len(self.s.read_log())
                self.put("devices", word)
                self.s.finish(self.job("then-half"))  # ends the worker, so that another starts
                job = self.s.finish(self.job("good"))
                if job["state"] == "failed":  # posted while no worker could start
                    self.assertEqual(job["problem"]["code"], "no-device", job)
                    job = self.s.finish(self.job("good"))
                self.assertEqual(job["state"], "done", job)
                self.assertFalse(os.path.exists(os.path.join(self.folder, "devices")))
                self.assertIn("could not start: the worker was ended: it", self.s.read_log()[before:])

    def test_deaf(self):
        """A worker that reads no more, and lives: its next job goes to the next worker at once."""
        self.assertEqual(self.s.finish(self.job("deaf"))["state"], "done")
        begun = time.monotonic()
        job = self.s.finish(self.job("good"))
        self.assertEqual(job["state"], "done", job)
        self.assertLess(time.monotonic() - begun, 15)  # it would be killed for its silence after 30

    def test_lost(self):
        """A worker that has its request, and says again and again that it waits for one: what it had not begun goes to
        the next."""
        s = Service({**self.config, "worker_silence": "2"})
        try:
            self.put("lost-once", "x")
            for name, state in (("at-it", "done"), ("lost-once", "done"), ("lost", "failed"), ("lost-begun", "failed"),
                                ("good", "done")):
                begun = time.monotonic()
                job = s.finish(s.post(chain(1) | {"name": name}, "want=run&device=soft"))
                self.assertEqual(job["state"], state, (name, job))
                if state == "failed":
                    self.assertEqual(job["problem"]["code"], "worker-lost", job)
                    self.assertIn("it waits for a request, and was given one", job["problem"]["detail"])
                self.assertLess(time.monotonic() - begun, 15)
        finally:
            status = s.stop()
            s.remove()
        self.assertEqual(status, 0)

    def test_leaves(self):
        """A worker ends, and something that it started keeps its pipe open: its job fails, and the next one begins."""
        begun = time.monotonic()
        job = self.s.finish(self.job("leaves"))
        self.assertEqual((job["state"], job["problem"]["code"]), ("failed", "worker-lost"), job)
        self.assertEqual(self.s.finish(self.job("good"))["state"], "done")
        self.assertLess(time.monotonic() - begun, 20)

    def test_mute(self):
        """A worker that answers no more, and lives: its next job goes to the next worker."""
        self.assertEqual(self.s.finish(self.job("mute"))["state"], "done")
        time.sleep(0.2)
        begun = time.monotonic()
        job = self.s.finish(self.job("good"))
        self.assertEqual(job["state"], "done", job)
        self.assertLess(time.monotonic() - begun, 15)

    def test_late_end(self):
        """A worker that could not start ends when the next one is at work already: that one's job is not its affair."""
        self.put("devices", "late")
        self.s.finish(self.job("then-again"))  # ends the worker, so that another starts
        while os.path.exists(os.path.join(self.folder, "devices")):
            time.sleep(0.01)
        time.sleep(0.1)
        job = self.s.finish(self.job("silent"))
        self.assertEqual(job["state"], "done", job)


if __name__ == "__main__":
    main()
