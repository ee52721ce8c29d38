"""An entry of an older toolchain on which nothing rests that was verified: it is served, the reply says so, and the
graph is planned again. One that may be wrong is a miss.
"""
import hashlib
import json
import os
import re
import shutil
import sqlite3
import tempfile
import time

import harness


class Store(harness.ServiceCase):
    def age(self, what, by):
        """Put another version into the toolchain of all entries, with the checksum that goes with it."""
        db = sqlite3.connect(self.s.dir + "/cache.db", timeout=60)
        columns = "want, signature, device, toolchain, policy, digest, body, factors"
        for row in db.execute(f"SELECT id, {columns} FROM entry").fetchall():
            new = list(row[1:])
            new[3], n = re.subn(f"{what} [^;]*", f"{what} {by}", new[3])
            self.assertEqual(n, 1, row[4])
            db.execute("UPDATE entry SET toolchain = ?, sha256 = ? WHERE id = ?",
                       (new[3], harness.row_sum(new), row[0]))
        db.commit()
        db.close()

    def plan(self, graph):
        r = self.s.post(graph)
        if r.status == 202:
            self.assertEqual(self.s.finish(r)["state"], "done")
            r = self.s.post(graph)
        self.assertEqual((r.status, r.headers["Dovetail-Cache"]), (200, "hit"))
        return r.body

    def rows(self, sql):
        db = sqlite3.connect(self.s.dir + "/cache.db", timeout=60)
        found = db.execute(sql).fetchall()
        db.commit()
        db.close()
        return found


class Stale(Store):
    def test_served_and_planned_again(self):
        for i, what in enumerate(("dovetail", "nvrtc")):
            graph = harness.chain(2, factor=3 + i)
            first = self.plan(graph)
            self.age(what, "0.0.1")
            r = self.s.post(graph)
            self.assertEqual((r.status, r.headers["Dovetail-Cache"], r.body), (200, "stale", first))
            jobs = self.s.until("/v1/jobs", lambda d: all(j["state"] == "done" for j in d["jobs"]))["jobs"]
            self.assertEqual(jobs[-1]["cache"], "miss")
            self.assertEqual(self.plan(graph), first)
            before = len(jobs)
            self.assertEqual(len(self.s.http("GET", "/v1/jobs").json()["jobs"]), before)

    def test_not_served(self):
        for i, (what, by) in enumerate((("rewriter", "1"), ("rewriter", "999"), ("nvjitlink", "0.0.1"))):
            graph = harness.chain(2, factor=5 + i)
            self.plan(graph)
            self.age(what, by)
            r = self.s.post(graph)
            self.assertEqual((r.status, r.headers["Dovetail-Cache"]), (202, "miss"))
            self.assertEqual(self.s.finish(r)["state"], "done")
            db = sqlite3.connect(self.s.dir + "/cache.db", timeout=60)  # the old one stays: nothing more to age
            db.execute("DELETE FROM entry")
            db.commit()
            db.close()

    def test_carried(self):
        """Of another assembler: the plan is made anew by its recipe and checked, not searched for; at night it is."""
        self.rows("DELETE FROM entry")
        graph = harness.chain(3, factor=11)
        first = json.loads(self.plan(graph))
        self.assertIn("kept", [r["verdict"] for r in first["rewrites"]])
        self.age("nvjitlink", "0.0.1")
        r = self.s.post(graph)
        job = self.s.finish(r)
        self.assertEqual((job["state"], job["cache"]), ("done", "miss"))
        second = json.loads(self.plan(graph))
        self.assertTrue(second["verified"]["reverified"] and second["verified"]["bitwise"])
        self.assertNotIn("carried", second)
        self.assertEqual((second["modules"], second["launches"]), (first["modules"], first["launches"]))
        carried = "SELECT carried FROM entry WHERE want = 'plan' ORDER BY id"
        self.assertEqual(self.rows(carried), [(0,), (1,)])
        self.assertEqual(self.rows("SELECT count(*) FROM recipe"), [(0,)])
        due = self.s.http("POST", "/v1/reprofile", '{"stale": true}').json()
        self.assertEqual(due["due"], 1)
        doc = self.s.until("/v1/reprofile/report", lambda doc: doc["state"] == "done", 60)
        self.assertEqual([(g["reason"], g["outcome"]) for g in doc["graphs"]], [("stale", "unchanged")])
        self.assertEqual(self.rows(carried), [(0,), (0,)])
        third = json.loads(self.plan(graph))
        self.assertNotIn("reverified", third["verified"])
        self.assertEqual(self.s.http("POST", "/v1/reprofile", '{"stale": true}').json()["due"], 0)

    def test_not_carried(self):
        """A recipe that leads to another plan now: it is searched for at once, and the recipe is kept aside, once."""
        self.rows("DELETE FROM entry")
        graph = harness.chain(3, factor=13)
        first = json.loads(self.plan(graph))
        self.age("nvjitlink", "0.0.1")
        ((number, *row),) = self.rows("SELECT id, want, signature, device, toolchain, policy, digest, body, factors "
                                      "FROM entry WHERE want = 'plan'")
        plan = json.loads(row[6])
        plan["launches"][0]["grid"][0] += 1  # the plan that the recipe should lead to
        row[6] = json.dumps(plan)
        db = sqlite3.connect(self.s.dir + "/cache.db", timeout=60)
        db.execute("UPDATE entry SET body = ?, sha256 = ? WHERE id = ?", (row[6], harness.row_sum(row), number))
        db.commit()
        db.close()
        self.assertEqual(self.s.finish(self.s.post(graph))["state"], "done")
        second = json.loads(self.plan(graph))
        self.assertNotIn("reverified", second["verified"])
        self.assertEqual(second["launches"], first["launches"])
        self.assertEqual(self.rows("SELECT origin, state, tries FROM recipe"), [("carried", "refused", 1)])
        self.assertEqual(self.rows("SELECT carried FROM entry WHERE want = 'plan' ORDER BY id"), [(0,), (0,)])
        self.rows("DELETE FROM recipe")


class Alone(Store):
    """A second worker cannot start."""
    switch = tempfile.mkdtemp(prefix="dovetail-e2e.")
    script = os.path.join(switch, "worker")

    @classmethod
    def setUpClass(cls):
        with open(cls.script, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\n[ ! -e {cls.switch}/none ] || exit 3\nexec {os.path.abspath(harness.WORKER)} \"$@\"\n")
        os.chmod(cls.script, 0o755)
        cls.config = {"worker": cls.script}
        cls.addClassCleanup(shutil.rmtree, cls.switch, ignore_errors=True)
        super().setUpClass()

    def test_alone(self):
        """What is planned again is planned by the worker that is there."""
        graphs = [harness.chain(2, factor=17 + i) for i in range(2)]
        first = [self.plan(g) for g in graphs]
        self.age("dovetail", "0.0.1")
        with open(self.switch + "/none", "w", encoding="utf-8"):
            pass
        for g, doc in zip(graphs, first):
            r = self.s.post(g)
            self.assertEqual((r.headers["Dovetail-Cache"], r.body), ("stale", doc))
        jobs = self.s.until("/v1/jobs", lambda d: len(d["jobs"]) == 4 and all(j["state"] == "done" for j in d["jobs"]))
        self.assertEqual(len(jobs["jobs"]), 4)
        self.assertIn(self.s.metric("dovetail_workers_started_total"), (2, 3))  # it is tried again after a minute


class Crowd(Store):
    """With a night that goes on."""
    def test_crowd(self):
        """Ten thousand go stale at once, are asked for and planned again: a new job that comes in the middle of that
        hardly notices, though the service gives up what it was at. DOVETAIL_TEST_STALE=N: so many of them (5)."""
        self.rows("DELETE FROM entry")
        each = int(os.environ.get("DOVETAIL_TEST_STALE", "5"))
        fresh = iter(range(10000, 20000))

        def new(wait):
            """Seconds that a job of six launches takes."""
            wait()
            begun = time.monotonic()
            job = self.s.finish(self.s.post(harness.chain(6, "abcdefg", 1024, float(next(fresh)))))
            took = time.monotonic() - begun
            self.assertEqual((job["state"], job["cache"]), ("done", "miss"))
            return took

        def planning():
            """A graph is being planned again, and has been for a while."""
            for _ in range(2):
                self.s.until("/v1/jobs", lambda d: any(j["state"] == "running" for j in d["jobs"]), 60)
                time.sleep(0.2)
        new(lambda: None)
        before = sorted(new(lambda: time.sleep(0.4)) for _ in range(each))
        workers = [w["pid"] for w in self.s.http("GET", "/healthz").json()["workers"]]
        graphs = [harness.chain(2, factor=30000.0 + i) for i in range(40)]
        for g in graphs:
            self.plan(g)
        self.age("dovetail", "0.0.1")
        many = 10000
        (old,) = self.rows("SELECT want, signature, device, toolchain, policy, digest, body, factors FROM entry "
                           "WHERE want = 'plan' ORDER BY id DESC LIMIT 1")
        db = sqlite3.connect(self.s.dir + "/cache.db", timeout=60)
        for i in range(many):
            signature = "sha256:" + hashlib.sha256(str(i).encode()).hexdigest()
            digest = "sha256:" + hashlib.sha256(b"d" + str(i).encode()).hexdigest()
            row = list(old)
            row[1], row[5] = signature, digest
            body = json.dumps(harness.chain(2, factor=40000.0 + i))
            db.execute("INSERT INTO entry (want, signature, device, toolchain, policy, digest, body, factors, sha256, "
                       "created, used) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 1)", (*row, harness.row_sum(row)))
            db.execute("INSERT INTO graph VALUES (?, ?, ?, 1)", (digest, body, harness.row_sum([digest, body])))
            known = [digest, "sm_90", signature]
            db.execute("INSERT INTO known VALUES (?, ?, ?, ?)", (*known, harness.row_sum(known)))
        db.commit()
        db.close()
        self.assertGreaterEqual(self.s.http("POST", "/v1/reprofile", '{"stale": true}').json()["due"], many)
        for g in graphs:
            self.assertEqual(self.s.post(g).headers["Dovetail-Cache"], "stale")
        among = sorted(new(planning) for _ in range(each))
        report = self.s.http("GET", "/v1/reprofile/report").json()
        self.assertEqual(report["state"], "running")
        # users' jobs have kept their worker, which is warm: one that starts takes some times as long
        self.assertLessEqual(set(workers), {w["pid"] for w in self.s.http("GET", "/healthz").json()["workers"]})
        gave = [j for j in self.s.http("GET", "/v1/jobs").json()["jobs"] if j["state"] == "cancelled"]
        self.assertGreater(len(gave), 0)
        middle = before[each // 2], among[each // 2]
        print(f"\na new job took {middle[0]:.3f} s before, {middle[1]:.3f} s among 10,000 stale ones "
              f"({before[0]:.3f} and {among[0]:.3f} the shortest, {each} each)")
        # the best of each: what else the machine does comes on top by chance, a delay by the service always
        self.assertLess(among[0], 1.3 * before[0] + 0.2 * harness.SLOW)


if __name__ == "__main__":
    harness.main()
