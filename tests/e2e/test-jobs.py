#!/usr/bin/env python3
"""Jobs that overlap, hang, are cancelled or lose their worker: each costs itself only."""
import json
import os
import signal
import threading
import time
import unittest

from harness import SLOW, Service, ServiceCase, chain, endless, main


class Jobs(ServiceCase):
    config = {"job_timeout": 60, "max_queued": 2}

    def start_endless(self, tag):
        r = self.s.post(endless(tag), "want=run")
        self.assertEqual(r.status, 202, r.body)
        return self.s.until(r.headers["Location"], lambda j: j["state"] != "queued")

    def cancel(self, job):
        return self.s.http("DELETE", "/v1/jobs/" + job["id"]).json()

    def works(self, factor):
        job = self.s.finish(self.s.post(chain(2, factor=factor), "want=run"))
        self.assertEqual(job["state"], "done", job)

    def test_two_posts_share_a_job(self):
        job = self.start_endless(1)
        # the same, written differently
        again = self.s.post(json.dumps(endless(1), indent=3, sort_keys=True), "want=run")
        self.assertEqual(again.headers["Location"], "/v1/jobs/" + job["id"])
        self.assertEqual(again.json()["posts"], 2)
        other = self.s.post(endless(1), "want=run&seed=1")
        self.assertNotEqual(other.headers["Location"], "/v1/jobs/" + job["id"])
        self.assertEqual(self.cancel(other.json())["state"], "cancelled")  # it waits: cancelled without a worker
        self.assertEqual(self.cancel(job)["state"], "cancelled")
        self.works(1.25)

    def test_cancel_ends_waits_and_streams(self):
        job = self.start_endless(2)
        got = {}

        def wait():
            got["wait"] = self.s.http("GET", f"/v1/jobs/{job['id']}?wait=60").json()

        def stream():
            got["events"] = self.s.http("GET", f"/v1/jobs/{job['id']}/events").body
        threads = [threading.Thread(target=f) for f in (wait, stream)]
        for t in threads:
            t.start()
        time.sleep(0.3)
        pid = [w for w in self.s.workers() if w["state"] == "busy"][0]["pid"]
        self.assertEqual(self.cancel(job)["problem"]["code"], "cancelled")
        for t in threads:
            t.join(20 * SLOW)
            self.assertFalse(t.is_alive())
        self.assertEqual(got["wait"]["state"], "cancelled")
        self.assertEqual(json.loads(got["events"].splitlines()[-1])["event"], "cancelled")
        self.assertEqual(self.cancel(job)["state"], "cancelled")  # once more is no error
        self.problem(self.s.http("GET", f"/v1/jobs/{job['id']}/result"), 409, "cancelled")
        deadline = time.monotonic() + 10 * SLOW
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse(os.path.exists(f"/proc/{pid}"), "the worker of a cancelled job still runs")
        self.works(1.5)

    def test_worker_killed_in_mid_job(self):
        job = self.start_endless(3)
        waiting = self.s.post(chain(2, factor=1.75), "want=run")
        pid = [w for w in self.s.workers() if w["state"] == "busy"][0]["pid"]
        os.kill(pid, signal.SIGKILL)
        done = self.s.http("GET", f"/v1/jobs/{job['id']}?wait=30").json()
        self.assertEqual((done["state"], done["problem"]["code"]), ("failed", "worker-lost"), done)
        self.assertIn("signal 9", done["problem"]["detail"])
        self.problem(self.s.http("GET", f"/v1/jobs/{job['id']}/result"), 502, "worker-lost")
        self.assertEqual(self.s.finish(waiting)["state"], "done")  # the one behind it got a fresh worker

    def test_idle_worker_killed(self):
        self.works(2.25)
        os.kill([w for w in self.s.workers() if w["state"] == "idle"][0]["pid"], signal.SIGKILL)
        self.works(2.5)

    def test_time_limit(self):
        r = self.s.post(endless(4), "want=run&timeout=0.5")
        begin = time.monotonic()
        job = self.s.finish(r)
        self.assertEqual((job["state"], job["problem"]["code"], job["problem"]["status"]),
                         ("failed", "time-limit", 504), job)
        self.assertLess(time.monotonic() - begin, 20 * SLOW)
        self.works(2.75)

    def test_stopped_worker(self):
        """A worker that neither works nor dies: the limit ends it."""
        r = self.s.post(endless(5), "want=run&timeout=1")
        self.s.until(r.headers["Location"], lambda j: j["state"] == "running")
        os.kill([w for w in self.s.workers() if w["state"] == "busy"][0]["pid"], signal.SIGSTOP)
        self.assertEqual(self.s.finish(r)["problem"]["code"], "time-limit")
        self.works(3.0)

    def test_queue_is_bounded(self):
        job = self.start_endless(6)
        waiting = [self.s.post(endless(7 + i), "want=run").json() for i in range(2)]
        r = self.s.post(endless(9), "want=run")
        self.problem(r, 503, "busy")
        self.assertIn("Retry-After", r.headers)
        self.assertEqual(self.s.http("GET", "/healthz").json()["queued"], 2)
        listed = {j["id"]: j["state"] for j in self.s.http("GET", "/v1/jobs").json()["jobs"]}
        self.assertEqual([listed[w["id"]] for w in waiting], ["queued", "queued"])
        for j in waiting + [job]:
            self.cancel(j)
        self.works(3.25)

    def test_second_device(self):
        job = self.start_endless(10)
        r = self.s.finish(self.s.post(chain(2, factor=3.5), "want=run&device=soft:a100"))
        self.assertEqual(r["state"], "done", r)  # not behind the job of the other device
        self.assertEqual({w["device"] for w in self.s.workers()}, {"soft:h200", "soft:a100"})
        self.cancel(job)

    def test_long_poll_returns_in_time(self):
        job = self.start_endless(11)
        begin = time.monotonic()
        self.assertEqual(self.s.http("GET", f"/v1/jobs/{job['id']}?wait=0.5").json()["state"], "running")
        self.assertGreater(time.monotonic() - begin, 0.4)
        self.problem(self.s.http("GET", f"/v1/jobs/{job['id']}?wait=soon"), 400, "usage")
        self.problem(self.s.http("GET", f"/v1/jobs/{job['id']}/result"), 404, "not-found")
        self.cancel(job)


class Drain(unittest.TestCase):
    def test_stop_with_a_job_under_way(self):
        s = Service({"drain_timeout": 1})
        r = s.post(endless(1), "want=run")
        s.until(r.headers["Location"], lambda j: j["state"] == "running")
        pid = s.workers()[0]["pid"]
        got = {}
        t = threading.Thread(target=lambda: got.update(s.http("GET", r.headers["Location"] + "?wait=60").json()))
        t.start()
        time.sleep(0.3)
        self.assertEqual(s.stop(), 0)
        t.join(10)
        self.assertEqual((got.get("state"), got.get("durable")), ("queued", True), got)  # it goes on at the next start
        self.assertFalse(os.path.exists(s.socket))
        self.assertFalse(os.path.exists(f"/proc/{pid}"))
        s.remove()

    def test_workers_die_with_the_service(self):
        s = Service()
        r = s.post(endless(1), "want=run")
        s.until(r.headers["Location"], lambda j: j["state"] == "running")
        pid = s.workers()[0]["pid"]
        s.process.kill()
        s.process.wait()
        deadline = time.monotonic() + 10 * SLOW

        def alive():
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                    return f.read().rsplit(")", 1)[1].split()[0] != "Z"
            except OSError:
                return False
        while alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse(alive())
        s.remove()


if __name__ == "__main__":
    main()
