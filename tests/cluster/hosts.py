"""What tests of several services on one database share: services, graphs that nobody has seen, what a service says of
its cluster.
"""
import json
import os
import signal
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
from harness import BUILD, DAEMON, SLOW, Service, chain, cli  # noqa: E402
from server import Server, missing  # noqa: E402

ENCODER = os.path.join(HERE, "..", "corpus", "encoder")
factor = iter(range(3, 1000))


def graph(n=3):
    """One that nobody has seen."""
    return chain(n, factor=float(next(factor)))


def slow_graph():
    """One that is planned for seconds."""
    with open(os.path.join(ENCODER, "graph.json"), encoding="utf-8") as f:
        g = json.load(f)
    for m in g["modules"].values():
        if "file" in m:
            with open(os.path.join(ENCODER, m.pop("file")), encoding="utf-8") as f:
                m["cuda"] = f.read()
    return g


def patient(what, seconds=20):
    deadline = time.monotonic() + seconds * SLOW
    while not (got := what()):
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.05)
    return got


class Cluster(unittest.TestCase):
    def setUp(self):
        self.db = Server()
        self.addCleanup(self.db.remove)
        self.services = []

    def tearDown(self):
        for s in self.services:
            status, log = s.stop(), s.read_log()
            s.remove()
            self.assertIn(status, (0, -signal.SIGKILL), log)
            self.assertNotIn("Sanitizer", log)

    def service(self, device="soft", store=None, **config):
        s = Service({"shared": self.db.url(), **config}, device, store=store)
        self.services.append(s)
        return s

    def service_wrong_by(self, seconds, **config):
        """One whose wall clock is wrong. A sanitizer must be the first library: with one the clock is right."""
        clock = os.path.join(BUILD, "tests/cluster/wrong-clock.so")
        env = {"LD_PRELOAD": os.path.abspath(clock), "WRONG_BY": str(seconds)} if SLOW == 1 else {}
        os.environ.update(env)
        try:
            return self.service(**config)
        finally:
            for name in env:
                del os.environ[name]

    def cluster(self, s):
        return s.http("GET", "/healthz").json()["cluster"]

    def made(self, s, g, query="want=plan", seconds=60):
        job = s.finish(s.post(g, query), seconds)
        self.assertEqual(job["state"], "done", job)
        return job

    def drained(self, s):
        patient(lambda: not self.cluster(s)["outbox"]["waiting"])

    def keys(self, *names):
        """A key file of each name; how the signers' file has it."""
        lines = {}
        for name in names:
            r = cli("cache", "keygen", name, "-o", os.path.join(self.db.dir, name))
            self.assertEqual(r.returncode, 0, r.stderr)
            lines[name] = r.stdout
        return lines

    def believe(self, text):
        path = os.path.join(self.db.dir, "signers")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o644)
        return path

    def signing(self, name, **config):
        return self.service(sign_key=os.path.join(self.db.dir, name), **config)

    def untrusted(self, s, seal):
        return s.metric(f'dovetail_cluster_untrusted_total{{seal="{seal}"}}')

    def told(self, s, say):
        return s.metric(f'dovetail_cluster_answers_total{{say="{say}"}}')


def main():
    why = missing(DAEMON)
    if why:
        print(why)
        sys.exit(77)
    unittest.main(verbosity=2)
