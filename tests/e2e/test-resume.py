#!/usr/bin/env python3
"""Jobs survive the service: by kill -9 and by SIGTERM; their ids, owners, events and results; and what is not begun
again."""
import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time
import unittest

from harness import DAEMON, SLOW, Service, call_as, chain, endless, main

ONE, TWO = 54421, 54422


class Again(Service):
    """A service that can be started again in its place."""
    def __init__(self, config=None):
        super().__init__(config)
        self.config_path = os.path.join(self.dir, "config")

    def begin(self):
        args = [DAEMON, "--socket", self.socket, "--device", "soft", "--cache", os.path.join(self.dir, "cache.db")]
        if os.path.exists(self.config_path):
            args += ["--config", self.config_path]
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 30 * SLOW
        while time.monotonic() < deadline:
            try:
                self.http("GET", "/v1/jobs")
                return
            except OSError:
                assert self.process.poll() is None, self.read_log()
                time.sleep(0.02)
        raise AssertionError("the service did not start again:\n" + self.read_log())

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def rows(self):
        with sqlite3.connect(os.path.join(self.dir, "cache.db"), timeout=20) as db:
            return {i: (json.loads(state), len(request)) for i, state, request
                    in db.execute("SELECT id, state, request FROM job")}

    def job(self, job, wait=0):
        return self.http("GET", f"/v1/jobs/{job}" + (f"?wait={wait * SLOW}" if wait else ""), timeout=wait + 30).json()


class Resume(unittest.TestCase):
    def service(self, config=None):
        s = Again(config)
        self.addCleanup(s.remove)
        self.addCleanup(lambda: s.process.poll() is None and s.stop())
        return s

    def post(self, s, graph, query="want=plan"):
        r = s.post(graph, query)
        self.assertEqual(r.status, 202, r.body)
        return r.json()

    def running(self, s, job):
        s.until("/v1/jobs/" + job["id"], lambda j: j["state"] == "running")

    def test_killed(self):
        s = self.service()
        done = self.post(s, chain(2, factor=1.5))
        self.assertTrue(done["durable"])
        self.assertEqual(s.job(done["id"], 60)["state"], "done")
        plan = s.http("GET", f"/v1/jobs/{done['id']}/result")
        ran = self.post(s, chain(2, factor=1.5), "want=run")
        self.assertEqual(s.job(ran["id"], 60)["state"], "done")
        endless_one = self.post(s, endless(1), "want=run&timeout=600")
        self.running(s, endless_one)
        waiting = [self.post(s, chain(n, factor=2.5), "want=analysis") for n in (1, 2)]
        seen = s.job(endless_one["id"])["events"]
        s.until(f"/v1/jobs/{endless_one['id']}", lambda j: s.rows()[j["id"]][0]["state"] == "running")
        s.kill()
        s.begin()
        # what had ended: the job, and its result where the store has it
        self.assertEqual({k: v for k, v in s.job(done["id"]).items() if k in ("state", "want", "signature", "digest")},
                         {"state": "done", "want": "plan", "signature": plan.json()["signature"],
                          "digest": s.job(done["id"])["digest"]})
        again = s.http("GET", f"/v1/jobs/{done['id']}/result")
        self.assertEqual((again.status, again.json()["launches"]), (200, plan.json()["launches"]))
        self.assertEqual(again.json()["buffers"], plan.json()["buffers"])  # in the names that were posted
        gone = s.http("GET", f"/v1/jobs/{ran['id']}/result")
        self.assertEqual((gone.status, gone.json()["code"]), (404, "not-found"))
        self.assertIn("Post the graph again", gone.json()["detail"])
        # what had not: it runs again, and the two behind it come after it
        self.running(s, endless_one)
        self.assertGreater(s.job(endless_one["id"])["events"], seen)
        s.http("DELETE", "/v1/jobs/" + endless_one["id"])
        for job in waiting:
            self.assertEqual(s.job(job["id"], 60)["state"], "done")
            self.assertEqual(s.http("GET", f"/v1/jobs/{job['id']}/result").status, 200)
        lines = s.http("GET", f"/v1/jobs/{waiting[0]['id']}/events?after={seen}").body.splitlines()
        numbers = [json.loads(line)["seq"] for line in lines]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual([json.loads(line)["event"] for line in lines if b"progress" not in line],
                         ["queued", "running", "done"])
        # requests of jobs that ended are not kept
        s.until("/v1/jobs", lambda _: all(n == 0 for state, n in s.rows().values()))
        self.assertEqual(s.stop(), 0)

    def test_killed_at_random(self):
        """Every id that a 202 called durable is there afterwards, whenever the service died, and comes to its end."""
        s = self.service({"max_queued": 1000, "max_finished": 1000})
        chance, known, number = random.Random(7), set(), [0]

        def work(over):
            while not over.is_set():
                number[0] += 1
                try:
                    r = s.post(chain(1, factor=100.0 + number[0]), "want=run")
                except (OSError, http.client.HTTPException):
                    return
                if r.status == 202 and r.json()["durable"]:
                    known.add(r.json()["id"])
                time.sleep(0.01)
        for _ in range(6 if SLOW == 1 else 3):
            over = threading.Event()
            threads = [threading.Thread(target=work, args=(over,)) for _ in range(2)]
            for t in threads:
                t.start()
            time.sleep(chance.uniform(0.01, 0.4))
            s.kill()
            over.set()
            for t in threads:
                t.join()
            s.begin()
            here = {j["id"] for j in s.http("GET", "/v1/jobs").json()["jobs"]}
            self.assertEqual(known - here, set())
        s.until("/v1/jobs", lambda doc: all(j["state"] not in ("queued", "running") for j in doc["jobs"]), 120)
        ended = {j["id"]: j for j in s.http("GET", "/v1/jobs").json()["jobs"]}
        for i in known:  # a job that was running twice at such a moment is not begun a third time
            self.assertIn((ended[i]["state"], ended[i].get("problem", {}).get("code")),
                          (("done", None), ("failed", "worker-lost")))

    def test_stopped(self):
        """SIGTERM is no fault: what was running counts nothing, whoever waits is told, and it goes on."""
        s = self.service({"drain_timeout": 1})
        job = self.post(s, endless(1), "want=run")
        behind = self.post(s, chain(1, factor=3.5), "want=run")
        for _ in range(3):
            self.running(s, job)
            got = {}
            path = f"/v1/jobs/{behind['id']}"
            threads = [threading.Thread(target=lambda: got.update(s.http("GET", path + "?wait=60").json())),
                       threading.Thread(target=lambda: got.update(stream=s.http("GET", path + "/events").body))]
            for t in threads:
                t.start()
            time.sleep(0.3)  # both wait by now; one that does not is told by the reply to its call
            self.assertEqual(s.stop(), 0)
            for t in threads:
                t.join(20 * SLOW)
                self.assertFalse(t.is_alive())
            self.assertEqual((got["state"], got["durable"]), ("queued", True))
            self.assertEqual(json.loads(got["stream"].splitlines()[-1])["event"], "queued")
            self.assertEqual({i: state["kills"] for i, (state, _) in s.rows().items()},
                             {job["id"]: 0, behind["id"]: 0})
            s.begin()
        self.running(s, job)
        s.http("DELETE", "/v1/jobs/" + job["id"])
        self.assertEqual(s.job(behind["id"], 60)["state"], "done")

    def test_not_a_third_time(self):
        s = self.service()
        job = self.post(s, endless(1), "want=run")
        for kills in (1, 2):
            self.running(s, job)
            # the row that the kill will find is this start's, not the one that the kill before it left
            s.until("/v1/jobs", lambda _, n=kills: (lambda row: row["state"] == "running" and row["kills"] == n - 1)(
                s.rows()[job["id"]][0]))
            s.kill()
            s.begin()
            if kills == 1:
                self.assertIn(s.job(job["id"])["state"], ("queued", "running"))
        failed = s.job(job["id"])
        self.assertEqual((failed["state"], failed["problem"]["code"]), ("failed", "worker-lost"), failed)
        self.assertIn("not begun again", failed["problem"]["detail"])
        self.assertEqual(s.http("GET", f"/v1/jobs/{job['id']}/result").status, 502)
        self.assertEqual(s.job(self.post(s, chain(1, factor=4.5), "want=run")["id"], 60)["state"], "done")
        s.kill()
        s.begin()
        self.assertEqual(s.job(job["id"])["problem"]["detail"], failed["problem"]["detail"])

    def test_a_job_that_fails_is_not_begun_again(self):
        """A worker that dies takes its job with it, as ever; the row says so."""
        s = self.service()
        job = self.post(s, endless(1), "want=run")
        self.running(s, job)
        os.kill([w for w in s.workers() if w["state"] == "busy"][0]["pid"], signal.SIGKILL)
        self.assertEqual(s.job(job["id"], 30)["problem"]["code"], "worker-lost")
        s.until("/v1/jobs", lambda _: s.rows()[job["id"]][0]["state"] == "failed")
        s.kill()
        s.begin()
        self.assertEqual((s.job(job["id"])["state"], s.job(job["id"])["problem"]["code"]), ("failed", "worker-lost"))

    def test_not_durable(self):
        """Where the row cannot be stored, the 202 says so, and the job is done all the same."""
        s = self.service({"max_durable_mb": 0})
        job = self.post(s, chain(1, factor=5.5), "want=run")
        self.assertFalse(job["durable"])
        self.assertEqual(s.job(job["id"], 60)["state"], "done")
        lost = self.post(s, endless(1), "want=run")
        self.assertEqual(s.rows(), {})
        s.kill()
        s.begin()
        for j in (job, lost):
            self.assertEqual(s.http("GET", "/v1/jobs/" + j["id"]).status, 404)
        self.assertEqual(s.stop(), 0)

    def test_a_store_that_is_held(self):
        s = self.service()
        with sqlite3.connect(os.path.join(s.dir, "cache.db"), timeout=20, isolation_level=None) as db:
            db.execute("BEGIN IMMEDIATE")
            job = self.post(s, chain(1, factor=6.5), "want=run")  # after two seconds, not after the other process
            db.execute("ROLLBACK")
        self.assertFalse(job["durable"])
        self.assertEqual(s.job(job["id"], 60)["state"], "done")
        self.assertIn("jobs are not stored for now", s.read_log())
        self.assertGreaterEqual(s.metric("dovetail_job_rows_failed_total"), 1)
        self.assertTrue(self.post(s, chain(2, factor=6.5), "want=run")["durable"])
        self.assertIn("jobs are stored again", s.read_log())

    def test_damaged_rows_are_left_out(self):
        s = self.service()
        jobs = [self.post(s, endless(n), "want=run") for n in range(4)]
        self.running(s, jobs[0])
        s.kill()
        with sqlite3.connect(os.path.join(s.dir, "cache.db"), timeout=20) as db:
            for job, change in zip(jobs, ("request = request || ' '", "state = replace(state, 'posts', 'p0sts')",
                                          "post = replace(post, 'soft', 'cuda')")):
                self.assertEqual(db.execute(f"UPDATE job SET {change} WHERE id = ?", (job["id"],)).rowcount, 1)
        s.begin()
        self.assertEqual([s.http("GET", "/v1/jobs/" + j["id"]).status for j in jobs], [404, 404, 404, 200])
        self.assertEqual(set(s.rows()), {jobs[3]["id"]})
        self.assertEqual(s.metric("dovetail_cache_damaged_total"), 3)
        self.assertEqual(s.http("GET", "/v1/cache/verify").json()["damaged"], [])

    def test_another_service_on_the_same_file(self):
        """Jobs belong to the service whose socket they came through."""
        s = self.service()
        job = self.post(s, endless(1), "want=run")
        s.kill()
        other = os.path.join(s.dir, "other.sock")
        p = subprocess.Popen([DAEMON, "--socket", other, "--device", "soft", "--cache", s.dir + "/cache.db"],
                             stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 30 * SLOW
            while not os.path.exists(other) and time.monotonic() < deadline:
                time.sleep(0.02)
            mine, s.socket = s.socket, other
            self.assertEqual(s.http("GET", "/v1/jobs").json()["jobs"], [])
            s.socket = mine
        finally:
            p.terminate()
            p.wait()
        s.begin()
        self.assertIn(s.job(job["id"])["state"], ("queued", "running"))

    def test_forgotten_rows_go(self):
        s = self.service({"max_finished": 3})
        for n in range(6):
            self.assertEqual(s.job(self.post(s, chain(1, factor=7.5 + n), "want=run")["id"], 60)["state"], "done")
        kept = {j["id"] for j in s.http("GET", "/v1/jobs").json()["jobs"]}
        self.assertEqual(len(kept), 3)
        s.until("/v1/jobs", lambda _: set(s.rows()) == kept)
        s.kill()
        with sqlite3.connect(os.path.join(s.dir, "cache.db"), timeout=20) as db:
            db.execute("UPDATE job SET changed = unixepoch() - 40 * 86400 WHERE id = ?", (min(kept),))
        s.begin()
        self.assertEqual({j["id"] for j in s.http("GET", "/v1/jobs").json()["jobs"]}, kept - {min(kept)})

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be several users")
    def test_owners(self):
        s = self.service()
        at = call_as(s, ONE, "POST", "/v1/jobs?want=run", endless(1)).headers["Location"]
        joined = call_as(s, TWO, "POST", "/v1/jobs?want=run", endless(1))
        self.assertEqual((joined.headers["Location"], joined.json()["durable"]), (at, True))
        alone = call_as(s, ONE, "POST", "/v1/jobs?want=run", endless(2)).headers["Location"]
        s.kill()
        s.begin()
        self.assertEqual(call_as(s, TWO, "GET", alone).status, 404)
        self.assertEqual(call_as(s, TWO, "DELETE", at).status, 200)
        self.assertIn(call_as(s, ONE, "GET", at).json()["state"], ("queued", "running"))
        self.assertEqual(call_as(s, ONE, "DELETE", at).json()["state"], "cancelled")
        self.assertEqual(call_as(s, ONE, "DELETE", alone).json()["state"], "cancelled")


if __name__ == "__main__":
    main()
