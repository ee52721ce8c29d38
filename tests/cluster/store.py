"""The calls of a store, cluster's or local, by driver.c: what tests of both are written against.

    s = Store(url, "space")
    s.put(KEY, plan=…)                 # a Reply: outcome, row, why, ms
    s.end(s.begin("find", key=KEY))    # the same in two steps, as an object
"""
import hashlib
import json
import os
import subprocess
import threading
import time

from server import SLOW

DRIVER = os.path.join(os.environ.get("DOVETAIL_BUILD", "build"), "tests/cluster/cluster-driver")


def signature(name):
    return "sha256:" + hashlib.sha256(str(name).encode()).hexdigest()


def key(name, device="soft:h200, 132 SMs", toolchain="dovetail 0.1, rewriter 7", policy="{}"):
    return [signature(name), device, toolchain, policy]


def plan(n=0):
    """As much of one as makes a digest, and a recipe."""
    return {"recipe": {"steps": [{"kind": "fusion", "n": n}]}, "modules": {}, "launches": [{"entry": f"k{n}"}]}


class Reply:
    def __init__(self, o):
        self.outcome, self.row, self.why, self.ms = o["outcome"], o.get("row"), o.get("why"), o["ms"]

    def __repr__(self):
        return f"{self.outcome} {self.row} {self.why} {self.ms:.1f} ms"


class Store:
    def __init__(self, url, space="default", connections=4, lookup_ms=1000, statement_ms=4000, env=None,
                 keep_days=0, max_bytes=0):
        # time limits for machines under load; tests of deadlines give their own
        self.process = subprocess.Popen([DRIVER, url, space, str(connections), str(lookup_ms), str(statement_ms),
                                         str(keep_days), str(max_bytes)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=dict(os.environ, **(env or {})))
        self.log, self.other, self.replies, self.last = [], [], {}, 0
        self.changed, self.writing = threading.Condition(), threading.Lock()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            o = json.loads(line)
            with self.changed:
                if "log" in o:
                    self.log.append(o["log"])
                elif "id" in o:
                    assert o["id"] not in self.replies, "a call was answered twice"
                    self.replies[o["id"]] = o
                else:
                    self.other.append(o)
                self.changed.notify_all()

    def begin(self, call, **args):
        with self.writing:
            self.last += 1
            self.process.stdin.write(json.dumps({"id": self.last, "call": call, **args}) + "\n")
            self.process.stdin.flush()
            return self.last

    def end(self, handle, seconds=30):
        with self.changed:
            if not self.changed.wait_for(lambda: handle in self.replies, seconds * SLOW):
                raise AssertionError(f"no answer; {self.log}")
            return self.replies[handle]

    def __getattr__(self, call):
        def run(key=None, **args):
            if key:
                args["key"] = key
            return Reply(self.end(self.begin(call, **args)))
        return run

    def forge(self, key, digest, **more):
        """The recipe that is there with another digest, and right sums: as somebody who knows the format would."""
        row = self.find(key).row
        return self.put(key, recipe=row["recipe"], digest=digest, instead=row["digest"], rewriter=row["rewriter"],
                        evidence=row["evidence"], **more)

    def status(self):
        return self.end(self.begin("status"))["status"]

    def counts(self):
        return self.end(self.begin("status"))["counts"]

    def until(self, state, seconds=30):
        """Waits for a state; the status then."""
        deadline = time.monotonic() + seconds * SLOW
        while (s := self.status())["state"] != state:
            assert time.monotonic() < deadline, (s, self.log)
            time.sleep(0.02)
        return s

    def close(self):
        """What is under way is answered; then its exit status, and what it said on stderr (a sanitizer's words)."""
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        status = self.process.wait(30 * SLOW)
        err = self.process.stderr.read()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        assert status == 0 and not err, (status, err)
