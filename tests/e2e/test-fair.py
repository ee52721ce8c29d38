#!/usr/bin/env python3
"""Nobody stands in another's way: turns of the workers and shares of the queue, with real users."""
import os
import re
import time
import unittest

from harness import SLOW, ServiceCase, call_as, chain, endless, main

ONE, TWO, THREE = 54401, 54402, 54403


@unittest.skipUnless(os.geteuid() == 0, "needs root, to be several users")
class Fair(ServiceCase):
    config = {"job_timeout": 600, "job_slice": 1, "max_queued": 64}

    def call(self, uid, method, path, body=None):
        return call_as(self.s, uid, method, path, body)

    def endless_jobs(self, uid, n, base):
        """How many of n were taken, and the answer to the last."""
        taken = 0
        for i in range(n):
            r = self.call(uid, "POST", "/v1/jobs?want=run", endless(base + i))
            if r.status != 202:
                break
            taken += 1
        return taken, r

    def clear(self):
        for j in self.s.http("GET", "/v1/jobs").json()["jobs"]:
            if j["state"] in ("queued", "running"):
                self.s.http("DELETE", "/v1/jobs/" + j["id"])

    def tearDown(self):
        self.clear()
        super().tearDown()

    def test_endless_graphs_of_one_delay_another_by_a_slice(self):
        taken, last = self.endless_jobs(ONE, 70, 1)
        self.assertIn(taken, (56, 57))  # one runs; the last eighth of the queue is for others
        p = self.problem(last, 429, "share")
        self.assertIn("your share of the queue", p["detail"])
        self.assertRegex(last.headers["Retry-After"], "^[1-9][0-9]*$")
        for k in range(3):
            begin = time.monotonic()
            posted = self.call(TWO, "POST", "/v1/jobs?want=run", chain(1, factor=10.0 + k))
            self.assertEqual(posted.status, 202, posted.body)
            job = self.call(TWO, "GET", posted.headers["Location"] + "?wait=60").json()
            self.assertEqual(job["state"], "done", job)
            # a slice, the start of a worker, the job; not the ten minutes of an endless one
            self.assertLess(time.monotonic() - begin, 15 * SLOW)
        listed = self.call(ONE, "GET", "/v1/jobs").json()["jobs"]
        lost = [j for j in listed if j.get("turns_lost")]
        self.assertEqual(sorted({j["turns_lost"] for j in lost}), [1])  # each time another one, and it waits again
        self.assertTrue({j["state"] for j in lost} <= {"queued", "running"})
        self.assertGreaterEqual(self.s.metric("dovetail_job_turns_lost_total"), 3)
        log = self.s.read_log()
        self.assertRegex(log, "back to the queue: it is another user's turn")

    def test_alone_nobody_yields(self):
        posted = self.call(ONE, "POST", "/v1/jobs?want=run&timeout=4", endless(100))
        self.call(ONE, "POST", "/v1/jobs?want=run", chain(1, factor=20.0))  # their own job waits for four slices
        job = self.call(ONE, "GET", posted.headers["Location"] + "?wait=60").json()
        self.assertEqual((job["problem"]["code"], job.get("turns_lost")), ("time-limit", None), job)

    def test_the_time_limit_counts_all_turns(self):
        posted = self.call(ONE, "POST", "/v1/jobs?want=run&timeout=3", endless(110))
        self.s.until(posted.headers["Location"], lambda j: j["state"] == "running")
        for k in range(20):
            job = self.call(ONE, "GET", posted.headers["Location"]).json()
            if job["state"] == "failed":
                break
            other = self.call(TWO, "POST", "/v1/jobs?want=run", chain(1, factor=30.0 + k))
            self.call(TWO, "GET", other.headers["Location"] + "?wait=60")
        self.assertEqual(job["problem"]["code"], "time-limit", job)
        self.assertGreaterEqual(job["turns_lost"], 1)
        events = self.call(ONE, "GET", posted.headers["Location"] + "/events").body.decode()
        states = re.findall(r'"event":"(queued|running|failed)"', events.replace('": "', '":"'))
        self.assertEqual(states, ["queued", "running"] * (job["turns_lost"] + 1) + ["failed"])

    def test_whose_turn(self):
        """Users in turn, not posts in order."""
        first = self.call(ONE, "POST", "/v1/jobs?want=run&timeout=3", endless(120))
        self.s.until(first.headers["Location"], lambda j: j["state"] == "running")
        many = [self.call(TWO, "POST", "/v1/jobs?want=run&timeout=0.7", endless(121 + i)) for i in range(6)]
        late = self.call(THREE, "POST", "/v1/jobs?want=run", chain(1, factor=40.0))
        self.assertEqual(self.call(THREE, "GET", late.headers["Location"] + "?wait=60").json()["state"], "done")
        states = [self.call(TWO, "GET", r.headers["Location"]).json()["state"] for r in many]
        self.assertIn("queued", states)  # they were posted before, and are not through

    def test_a_job_of_two_does_not_yield_to_either(self):
        posted = self.call(ONE, "POST", "/v1/jobs?want=run&timeout=4", endless(130))
        self.s.until(posted.headers["Location"], lambda j: j["state"] == "running")
        again = self.call(TWO, "POST", "/v1/jobs?want=run&timeout=4", endless(130))
        self.assertEqual(again.json()["id"], posted.json()["id"])
        self.call(TWO, "POST", "/v1/jobs?want=run", chain(1, factor=50.0))
        job = self.call(TWO, "GET", posted.headers["Location"] + "?wait=60").json()
        self.assertEqual((job["problem"]["code"], job.get("turns_lost")), ("time-limit", None), job)


if __name__ == "__main__":
    main()
