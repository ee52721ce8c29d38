"""Allocations fail, one after the other, in the service and in the worker: those of our own code and of every library
below it (jansson, SQLite, libuv, OpenSSL, the C library), by faulty.c.

A whole job is done again and again: the graph is posted, planned, stored, fetched, posted again and found; then
figures, entries and health are asked for. Each time another allocation fails; at every second one, those behind it
fail as well. Nothing may die of it. Each answer is a right one, or a problem document with a code, or the connection
ends. What is in the store afterwards is right, too.

Usage: test-alloc.py [--from N] [--first N] [--seeded N] [--seed S] [--every K] [--seconds S] [--part job|look]
                     [service] [worker]
The first N allocations, every Kth of them, then N more at places that the seed chooses; no new one after S seconds of a
program (100); of the service both parts of a round, the job and the look at it, or one. Without arguments: a sample.
Rounds mostly wait for workers to start: several runs go side by side, one with --first 2500, one with --from 2501
--first 5000, and more with --first 0 and a seed each.
"""
import argparse
import http.client
import json
import os
import random
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402
from faulty import Faulty  # noqa: E402

# What an answer may say where memory is out; the last two: the worker, or its device, could not go on without.
CODES = {"out-of-memory", "cache", "busy", "internal", "io", "worker-lost", "no-device", "device", "compile-failed",
         "no-compiler"}


# Libraries that do not survive it: libseccomp 2.5 writes to, and frees twice, what its tree of rules has of malloc;
# libcrypto 3 uses a lock that it could not make at its first use. That a worker ends is what workers are for. The first
# frame that is not the C library's says whose it was.
THEIRS = ("libseccomp.so", "libcrypto.so")
FRAME = re.compile(r"^(\S+)\(\S*\)\[\w+\]$", re.M)


def deaths(log):
    """What each process that died of a signal within our own code said before."""
    for part in re.split(r"dovetaild: worker \d+ \([^)]*\): the worker died of signal", log)[:-1]:
        frames = [os.path.basename(f) for f in FRAME.findall(part)]
        theirs = [f for f in frames if not f.startswith(("libfaulty.so", "libc.so"))]
        if not theirs or not theirs[0].startswith(THEIRS):
            yield part[-4000:]


def variant(i):
    """Graphs that differ in one argument only: another signature each, and otherwise the same document. They are as
    small as a graph with a plan can be: what a round takes is links of candidates, in a worker that has none yet."""
    return harness.chain(2, factor=2 + i / 65536)


def plain(doc, i):
    """The document without what is of this graph alone. Two things are by design others, and said: a worker that had no
    memory for NVRTC, which none of these graphs needs, has none; and of the posted launches fewer blocks were checked
    for races where the race detector had no memory (rewrite/gate/original.c). The bytes of machine code are NVIDIA's:
    a section in them has a number as its name that is another after a failed allocation in nvJitLink."""
    doc = {k: v for k, v in doc.items() if k not in ("signature", "digest", "checked")}
    doc["toolchain"] = {**doc["toolchain"], "nvrtc": None}
    doc["modules"] = {name: {k: v for k, v in m.items() if not k.startswith("cubin")}
                      for name, m in doc["modules"].items()}
    return json.dumps(doc, sort_keys=True).replace(str(2 + i / 65536), "2.5")


class Run:
    def __init__(self, program):
        self.faulty = Faulty(program)
        self.program = program
        before = dict(os.environ)
        os.environ.update(self.faulty.env)
        self.s = harness.Service({"max_finished": "4"})
        os.environ.clear()
        os.environ.update(before)
        self.next = 1
        self.right = 0
        self.counts = {"right": 0, "problem": 0, "closed": 0, "another plan": 0, "not reached": 0}
        self.other = None  # the number of the last graph that got another plan
        self.expect = None
        self.in_row = 0  # rounds that ended in a problem

    def ask(self, method, path, body=None):
        """A reply, or None: the connection ended."""
        try:
            r = self.s.http(method, path, body, timeout=60)
        except (ConnectionError, http.client.HTTPException):
            self.counts["closed"] += 1
            return None
        if r.status >= 400:
            code = r.json()["code"]
            assert code in CODES | {"not-found"}, (method, path, r.status, r.body)
            self.counts["problem"] += 1
            return None
        return r

    def document(self, reply, i):
        doc = reply.json()
        now = plain(doc, i)
        if self.expect not in (None, now):
            # a candidate, or a level of one, that could not be built: another plan, which is verified like any
            a, b = json.loads(now), json.loads(self.expect)
            # or none at all: then the posted launches are the plan
            right = a["verified"]["bitwise"] is True and a["buffers"] == b["buffers"] and \
                (a["verified"].get("unchanged") or a["original"] == b["original"])
            assert right, f"a wrong document: {reply.body.decode()}"
            self.counts["another plan"] += 1
            self.other = i
            return doc
        self.counts["right"] += 1
        return doc

    def job(self, i):
        """Post, wait, fetch."""
        r = self.ask("POST", "/v1/jobs?want=plan", variant(i))
        if r is None:
            return None
        if r.status == 200:
            return self.document(r, i)
        at = r.headers["Location"]
        r, state = None, "queued"
        for _ in range(3):  # what has no memory to wait by answers at once
            if state in ("queued", "running"):
                r = self.ask("GET", at + f"?wait={50 * harness.SLOW}")
                state = r.json()["state"] if r else None
        if state == "failed":
            problem = r.json()["problem"]
            assert problem["code"] in CODES, problem
            self.counts["problem"] += 1
            return None
        assert state in ("done", None), r.json()
        r = self.ask("GET", at + "/result")
        return self.document(r, i) if r else None

    def look(self, i):
        """What needs no worker."""
        r = self.ask("POST", "/v1/jobs?want=plan", variant(i))
        if r is not None and r.status == 200:
            doc = self.document(r, i)
            self.ask("GET", "/v1/plans/" + doc["signature"])
            self.ask("GET", "/v1/plans/" + doc["signature"] + "/report")
        for path in ("/v1/cache", "/v1/cache/entries?limit=3", "/v1/devices", "/v1/jobs", "/metrics", "/healthz", "/"):
            self.ask("GET", path)

    def count(self, what, i):
        a = self.faulty.get("count")
        what(i)
        return self.faulty.get("count") - a

    def begin(self):
        """How many allocations a job has, and the look at it; what the document is."""
        for _ in range(2):
            self.next += 1
            doc = self.job(self.next)
            self.expect = None if doc is None else plain(doc, self.next)
        assert self.expect
        self.next += 1
        return self.count(self.job, self.next), self.count(self.look, self.next)

    def once(self, n, everything, fresh):
        self.next += fresh
        problems = self.counts["problem"]
        self.faulty.fail(n, everything)
        (self.job if fresh else self.look)(self.next)
        if not self.faulty.heal():
            self.counts["not reached"] += 1
        # workers that cannot start are tried less and less often, up to every ten seconds, until one starts
        self.in_row = self.in_row + 1 if self.counts["problem"] > problems else 0
        if self.in_row % 3 == 2:
            self.recover("rounds in a row")
        if self.other is not None:  # it served who asked, and is not kept for others
            again, self.other = self.other, None
            self.job(again)
            assert self.other is None, f"another plan was kept:\n{self.s.read_log()[-3000:]}"
        assert self.s.process.poll() is None, "the service died:\n" + self.s.read_log()

    def recover(self, what):
        deadline = time.monotonic() + 30 * harness.SLOW  # the next worker may still be starting
        while self.s.http("GET", "/healthz").status != 200:
            assert time.monotonic() < deadline, f"{what}: it does not recover"
            time.sleep(0.05)

    def well(self, what):
        """Without faults everything is as it should be."""
        self.recover(what)
        self.next += 1
        doc = self.job(self.next)
        assert doc is not None, f"{what}: a job without faults fails"

    def end(self):
        self.faulty.heal()
        self.well("at the end")
        # a file that could not be opened for want of memory is tried again every two seconds
        self.s.until("/v1/cache/verify", lambda doc: doc.get("ok"))
        for e in self.s.http("GET", "/v1/cache/entries?limit=100").json()["entries"]:
            if e["want"] == "plan":
                doc = self.s.http("GET", "/v1/plans/" + e["signature"])
                assert doc.status == 200, doc.body
        log = self.s.read_log()
        for died in deaths(log):
            raise AssertionError(died)
        for word in ("broke the protocol", "Assertion", "Sanitizer", "malformed", "is damaged"):
            assert word not in log, log[log.index(word) - 2000:log.index(word) + 500]
        status = self.s.stop()
        assert status == 0, (status, self.s.read_log()[-2000:])
        self.s.remove()
        self.faulty.close()


def places(a, length, limit):
    """(number, whether everything behind it fails as well)"""
    chosen = [(n, n % 2 == 0) for n in range(a.begin, min(length, limit) + 1, a.every)]
    rng = random.Random(a.seed)
    return chosen + [(rng.randrange(1, length + 1), rng.random() < 0.5) for _ in range(a.seeded)]


def one(program, a):
    run = Run(program)
    job, look = run.begin()
    done = 0
    # the worker has no part in a look; of the service both are small
    rounds = [(job, True)] if program == "dovetail-worker" else [(job, True), (look, False)]
    rounds = [r for r in rounds if a.part in (None, "job" if r[1] else "look")]
    end = time.monotonic() + a.seconds
    for length, fresh in rounds:
        for n, everything in places(a, length, a.first):
            if time.monotonic() > end:
                print(f"{program}: time is up before allocation {n}", flush=True)
                break
            try:
                run.once(n, everything, fresh)
                done += 1
                if done % 100 == 0:
                    run.well(f"after allocation {n}")
            except BaseException:
                print(f"{program}, {'job' if fresh else 'look'}, allocation {n}, all behind it: {everything}",
                      flush=True)
                print(run.s.read_log()[-3000:], flush=True)
                raise
    run.end()
    print(f"{program}: a job has {job} allocations, a look {look}; {done} times one failed: " +
          ", ".join(f"{v} {k}" for k, v in run.counts.items()), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--from", type=int, default=1, dest="begin")
    p.add_argument("--first", type=int, default=5000)
    p.add_argument("--seeded", type=int, default=20)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--every", type=int, default=149)
    p.add_argument("--seconds", type=float, default=100)
    p.add_argument("--part", choices=["job", "look"])
    p.add_argument("program", nargs="*", default=["service", "worker"])
    a = p.parse_args()
    for name in a.program:
        one({"service": "dovetaild", "worker": "dovetail-worker"}[name], a)


if __name__ == "__main__":
    main()
