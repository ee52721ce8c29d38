#!/usr/bin/env python3
"""The service as curl sees it: every endpoint, cache hits, events, start and stop."""
import json
import os
import socket
import stat
import subprocess
import unittest

from harness import DAEMON, SLOW, Service, ServiceCase, chain, changed, main


class Endpoints(ServiceCase):
    def test_root(self):
        doc = self.s.http("GET", "/").json()
        self.assertEqual((doc["server"], doc["api"]), ("dovetaild", ["v1"]))
        listed = {(e["method"], e["path"]) for e in doc["endpoints"]}
        self.assertIn(("POST", "/v1/jobs"), listed)
        for method, path in listed:  # what is advertised is there: anything but 404 "nothing at this path"
            r = self.s.http(method, path.replace("*", "x"))
            self.assertNotIn(b"nothing at this path", r.body, path)
            self.assertNotEqual(r.status, 405, path)

    def test_status_calls(self):
        health = self.s.http("GET", "/healthz").json()
        self.assertEqual(health["status"], "ok")
        status = self.s.http("GET", "/v1/status").json()
        self.assertEqual((status["status"], status["confinement"]), ("ok", health["confinement"]))
        devices = self.s.http("GET", "/v1/devices").json()
        self.assertEqual(devices["default"], "soft:h200")
        self.assertEqual(devices["device"]["kind"], "soft")
        self.assertEqual((devices["figures"], devices["key"]), ("stock", "soft:h200"))  # what planning uses
        self.assertTrue(any(d["spec"].startswith("soft") for d in devices["devices"]), devices)
        self.assertIn("entries", self.s.http("GET", "/v1/cache").json())
        metrics = self.s.http("GET", "/metrics")
        self.assertTrue(metrics.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        for line in metrics.body.decode().splitlines():
            if not line.startswith("#"):
                float(line.rsplit(" ", 1)[1])

    def test_head_and_keep_alive(self):
        r = self.s.curl("-I", "http://d/healthz")
        self.assertIn("200 OK", r.stdout)
        r = self.s.curl("-v", "http://d/", "http://d/v1/jobs")
        self.assertIn("Re-using existing connection", r.stderr)

    def test_wrong_calls(self):
        self.problem(self.s.http("GET", "/v2"), 404, "not-found")
        r = self.s.http("PUT", "/v1/jobs")
        self.problem(r, 405, "method-not-allowed")
        self.assertIn("POST", r.headers["Allow"])
        self.problem(self.s.http("GET", "/v1/jobs/none"), 404, "not-found")
        self.problem(self.s.http("DELETE", "/v1/jobs/none"), 404, "not-found")
        self.problem(self.s.http("GET", "/v1/jobs/none/events"), 404, "not-found")
        self.problem(self.s.http("GET", "/v1/plans/none"), 404, "not-found")
        self.problem(self.s.http("GET", "/v1/plans/sha256:" + "0" * 64), 404, "not-found")
        self.problem(self.s.http("GET", "/v1/plans/sha256:" + "0" * 64 + "/report"), 404, "not-found")
        self.problem(self.s.http("GET", "/v1/plans/sha256:" + "0" * 64 + "/trace"), 404, "not-found")
        for query in ("want=tea", "device=tpu", "device=soft:no-such-model/", "allow=A%20B", "colour=red", "budget=-1",
                      "seed=x",
                      "want=%zz", "maps=maybe"):
            self.problem(self.s.post(chain(), query), 400, "usage")
        r = self.s.post(chain(factor=77.0), "device=soft:no-such-model")
        self.assertEqual(self.s.finish(r)["problem"]["code"], "no-device")

    def test_analysis_by_curl(self):
        graph = json.dumps(chain(2, factor=3.0))
        r = self.s.curl("-D", "-", "-d", graph, "http://d/v1/jobs?want=analysis")
        head, body = r.stdout.split("\n\n", 1)
        self.assertIn("202 Accepted", head)
        job = json.loads(body)
        self.assertIn(f"Location: /v1/jobs/{job['id']}", head)
        done = json.loads(self.s.curl(f"http://d/v1/jobs/{job['id']}?wait=60").stdout)
        self.assertEqual(done["state"], "done", done)
        doc = json.loads(self.s.curl("http://d" + done["links"]["result"]).stdout)
        self.assertEqual([(e["producer"], e["consumer"]) for e in doc["edges"]], [("s0", "s1")])
        edge = doc["edges"][0]
        self.assertEqual((edge["classes"], edge["fan"], edge["pairs"], edge["components"], edge["evidence"],
                          edge["hazards"]),
                         (["one-to-one"], "one-to-one", 4, 4, "proved", ["raw"]))
        stored = json.loads(self.s.curl("http://d" + done["links"]["document"]).stdout)
        self.assertEqual(stored["edges"][0]["pairs"], 4)
        self.assertNotEqual(stored["edges"][0]["producer"], "s0")  # canonical names

    def test_cache(self):
        g = chain(3, factor=5.0)
        first = self.s.finish(self.s.post(g))
        self.assertEqual((first["state"], first["cache"]), ("done", "miss"), first)
        made = self.s.http("GET", first["links"]["result"]).json()
        again = self.s.post(g)
        self.assertEqual((again.status, again.headers["Dovetail-Cache"]), (200, "hit"))
        self.assertEqual(again.json(), made)
        # other names of everything, buffers in another order, another fill: a hit, in the caller's names
        other = json.loads(json.dumps(chain(3, names="pqrstu", factor=5.0)).replace('"m"', '"mod"'))
        for i, launch in enumerate(other["launches"]):
            launch["name"] = f"launch {i}"
        other["buffers"] = dict(reversed(other["buffers"].items()))
        other["buffers"]["p"]["fill"]["seed"] = 99
        hit = self.s.post(other)
        self.assertEqual((hit.status, hit.headers["Dovetail-Cache"]), (200, "hit"), hit.body)
        doc = hit.json()
        self.assertEqual(set(doc["buffers"]), {"p", "q", "r", "s"})
        self.assertEqual(doc["buffers"]["p"]["fill"]["seed"], 99)
        self.assertEqual(doc["signature"], made["signature"])
        self.assertNotIn('"s0"', json.dumps(doc["launches"]))
        # a changed constant, shape or kernel misses
        for miss in (chain(3, factor=6.0), chain(3, blocks=5, factor=5.0),
                     changed(g, modules__m={"ptx": g["modules"]["m"]["ptx"].replace("mul.rn.f32", "add.rn.f32")})):
            r = self.s.finish(self.s.post(miss))
            self.assertEqual((r["state"], r["cache"]), ("done", "miss"), r)
            self.assertNotEqual(r["signature"], first["signature"])
        # another policy is another entry
        self.assertEqual(self.s.post(g, "want=plan&deny=block-fusion").status, 202)
        # the kernel's text differs, the kernel does not: found by signature, after compiling
        spaced = changed(g, modules__m={"ptx": g["modules"]["m"]["ptx"].replace("mov.u32", "mov.u32  ").replace("%rd",
            "%q")})
        r = self.s.finish(self.s.post(spaced))
        self.assertEqual((r["state"], r["cache"], r["signature"]), ("done", "hit", first["signature"]), r)

    def test_cache_survives_names_that_clash(self):
        # the canonical names of one graph are the other's own names, crosswise
        g = chain(2, factor=9.0)
        first = self.s.finish(self.s.post(g, "want=analysis"))
        self.assertEqual(first["state"], "done", first)
        text = json.dumps(g)
        for a, b in (("s0", "l1"), ("s1", "l0"), ('"a"', '"b2"'), ('"b"', '"b0"'), ('"c"', '"b1"')):
            text = text.replace(a, b)
        hit = self.s.post(json.loads(text), "want=analysis")
        self.assertEqual(hit.status, 200, hit.body)
        self.assertEqual([(e["producer"], e["consumer"], e["buffers"]) for e in hit.json()["edges"]],
                         [("l1", "l0", ["b0"])])

    def test_events(self):
        job = self.s.finish(self.s.post(chain(2, factor=11.0)))
        r = self.s.http("GET", job["links"]["events"])
        self.assertEqual(r.headers["Content-Type"], "application/x-ndjson")
        events = [json.loads(line) for line in r.body.splitlines()]
        self.assertEqual([e["seq"] for e in events], list(range(1, len(events) + 1)))
        self.assertEqual((events[0]["event"], events[1]["event"], events[-1]["event"]), ("queued", "running", "done"))
        self.assertTrue(any(e["event"] == "progress" and e["stage"] for e in events))
        rest = self.s.http("GET", job["links"]["events"] + "?after=2").body
        self.assertEqual([json.loads(line) for line in rest.splitlines()], events[2:])
        self.assertEqual(self.s.http("GET", job["links"]["events"] + f"?after={len(events)}").body, b"")
        sse = self.s.http("GET", job["links"]["events"], headers={"Accept": "text/event-stream", "Last-Event-ID": "1"})
        self.assertEqual(sse.headers["Content-Type"], "text/event-stream")
        blocks = sse.body.decode().strip().split("\n\n")
        self.assertEqual(len(blocks), len(events) - 1)
        self.assertTrue(blocks[0].startswith("id: 2\nevent: state\ndata: {"))
        self.problem(self.s.http("GET", job["links"]["events"] + "?after=-1"), 400, "usage")

    def test_run_through_the_service(self):
        g = chain(2, factor=0.5)
        job = self.s.finish(self.s.post(g, "want=run&seed=4&dump=1"))
        self.assertEqual(job["state"], "done", job)
        doc = self.s.http("GET", job["links"]["result"]).json()
        self.assertEqual([o["buffer"] for o in doc["outputs"]], ["c"])
        self.assertTrue(doc["outputs"][0]["sha256"].startswith("sha256:"))
        self.assertTrue(doc["method"].startswith("modeled"))
        self.assertIn("data", doc["outputs"][0])


class StartStop(unittest.TestCase):
    def test_socket(self):
        s = Service()
        try:
            mode = os.stat(s.socket)
            self.assertTrue(stat.S_ISSOCK(mode.st_mode))
            self.assertEqual(stat.S_IMODE(mode.st_mode), 0o660)
            second = subprocess.run([DAEMON, "--socket", s.socket, "--device", "soft", "--cache", s.dir + "/other.db"],
                                    timeout=60 * SLOW,
                                    stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
            self.assertEqual(second.returncode, 4)
            self.assertIn("another service listens there", second.stderr)
            nowhere = subprocess.run([DAEMON, "--socket", s.dir + "/none/d.sock", "--device", "soft", "--cache",
                                      s.dir + "/other.db"], timeout=60 * SLOW, stdin=subprocess.DEVNULL,
                                     capture_output=True, text=True, check=False)
            self.assertEqual(nowhere.returncode, 4)
            self.assertIn(f"the folder of the socket {s.dir}/none/d.sock: No such file or directory", nowhere.stderr)
            self.assertEqual(s.http("GET", "/healthz").status, 200)
        finally:
            self.assertEqual(s.stop(), 0)
        self.assertFalse(os.path.exists(s.socket))
        s.remove()

    def test_stale_socket(self):
        s = Service()
        s.process.kill()
        s.process.wait()
        self.assertTrue(os.path.exists(s.socket))
        with socket.socket(socket.AF_UNIX) as c, self.assertRaises(ConnectionRefusedError):
            c.connect(s.socket)
        again = subprocess.Popen([DAEMON, "--socket", s.socket, "--device", "soft", "--cache", s.dir + "/c.db"],
                                 stdin=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        s.process = again
        for _ in range(int(300 * SLOW)):
            try:
                if s.http("GET", "/healthz").status == 200:
                    break
            except OSError:
                pass
            import time
            time.sleep(0.1)
        self.assertEqual(s.http("GET", "/healthz").status, 200)
        self.assertEqual(s.stop(), 0)
        s.remove()

    def test_no_device_no_socket(self):
        r = subprocess.run([DAEMON, "--socket", "/tmp/dovetail-e2e-none.sock", "--device", "soft:no-such-model",
                            "--cache", "/tmp/dovetail-e2e.db"],
                           timeout=60 * SLOW, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(r.returncode, 4, r.stderr)
        self.assertFalse(os.path.exists("/tmp/dovetail-e2e-none.sock"))

    def test_usage_and_config(self):
        def daemon(*args):
            return subprocess.run([DAEMON, *args], timeout=60 * SLOW, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, check=False)
        self.assertEqual(daemon("--tea").returncode, 2)
        self.assertEqual(daemon("--device", "tpu", "--check-config").returncode, 2)
        self.assertEqual(daemon("--config", "/nonexistent", "--check-config").returncode, 2)
        path = "/tmp/dovetail-e2e-config.%d" % os.getpid()
        with open(path, "w", encoding="utf-8") as f:
            f.write("# ours\njob_timeout = 5\nqueue = 3\n")
        r = daemon("--config", path, "--check-config")
        self.assertEqual(r.returncode, 2)
        self.assertIn(f"{path}:3: there is no option queue", r.stderr)
        with open(path, "w", encoding="utf-8") as f:
            f.write("job_timeout = 5\n")
        self.assertEqual(daemon("--config", path, "--socket", "/tmp/dovetail-e2e.sock", "--device", "soft",
                                "--check-config").returncode, 0)
        os.unlink(path)
        self.assertIn("job_timeout", daemon("--help").stdout)


if __name__ == "__main__":
    main()
