"""The night: what has no plan of this device and toolchain is planned while the service is idle."""
import json
import re
import signal
import sqlite3
import time

import harness


class Night(harness.ServiceCase):
    def rows(self, sql):
        db = sqlite3.connect(self.s.dir + "/cache.db", timeout=60)
        found = db.execute(sql).fetchall()
        db.commit()
        db.close()
        return found

    def plan(self, graph):
        r = self.s.post(graph)
        if r.status == 202:
            self.assertEqual(self.s.finish(r)["state"], "done")
        return self.s.post(graph).json()["signature"]

    def make_old(self, column, value):
        """All plans as another toolchain, or another device, would have left them."""
        columns = ["want", "signature", "device", "toolchain", "policy", "digest", "body", "factors"]
        for row in self.rows(f"SELECT {', '.join(columns)}, id FROM entry WHERE want = 'plan'"):
            new = list(row[:8])
            new[columns.index(column)] = value
            db = sqlite3.connect(self.s.dir + "/cache.db", timeout=60)
            db.execute(f"UPDATE entry SET {column} = ?, sha256 = ? WHERE id = ?",
                       (value, harness.row_sum(new), row[8]))
            db.commit()
            db.close()

    def begin(self, **more):
        r = self.s.http("POST", "/v1/reprofile", json.dumps({"stale": True, **more}))
        self.assertEqual(r.status, 202, r.body)
        return r.json()

    def new_plans(self, old):
        return [s for (s,) in self.rows(f"SELECT signature FROM entry WHERE want = 'plan' AND toolchain <> '{old}' "
                                        f"AND device <> '{old}' ORDER BY id")]

    def until_planned(self, old, n):
        end = time.monotonic() + 90
        while len(self.new_plans(old)) < n and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(len(self.new_plans(old)), n)
        while self.s.http("GET", "/healthz").status != 200 and time.monotonic() < end:
            time.sleep(0.1)

    def test_night(self):
        signatures = [self.plan(harness.chain(n, factor=3.0)) for n in (1, 2, 3)]
        self.rows("UPDATE entry SET hits = CASE signature WHEN '%s' THEN 5 WHEN '%s' THEN 90 ELSE 40 END"
                  % tuple(signatures[:2]))
        self.make_old("toolchain", "old")
        user = self.s.post(harness.endless())  # a user's job: the night waits for its end
        self.assertEqual(user.status, 202)
        self.assertEqual(self.begin(budget_s=600), {"due": 3, "queued": 0, "jobs": [], "begun": True})
        self.assertEqual(self.begin(), {"due": 3, "queued": 0, "jobs": [], "begun": False})
        time.sleep(2)
        self.assertEqual(self.new_plans("old"), [])
        self.assertEqual(len(self.s.http("GET", "/v1/jobs").json()["jobs"]), 4)  # three plans, and the user's
        self.s.http("DELETE", f"/v1/jobs/{user.json()['id']}")
        self.until_planned("old", 3)
        self.assertEqual(self.new_plans("old"), [signatures[1], signatures[2], signatures[0]])

        # another driver, or another model, is another device; and users' jobs come all the time
        time.sleep(0.5)
        self.rows("DELETE FROM entry WHERE toolchain = 'old'")
        self.make_old("device", "other")
        self.assertEqual(json.loads(self.cli("reprofile", "--stale", "--budget", "600", "--json"))["due"], 3)
        for n in range(4):
            self.plan(harness.chain(2, factor=20.0 + n))
        self.until_planned("other", 7)
        time.sleep(0.5)
        self.assertEqual(self.begin()["due"], 0)

    def cli(self, *args, status=0):
        done = harness.cli(*args, "--socket", self.s.socket)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def report(self):
        doc = self.s.http("GET", "/v1/reprofile/report").json()
        self.assertEqual(harness.schema.faults(doc, "night"), [])
        return doc

    def until_over(self):
        return self.s.until("/v1/reprofile/report", lambda doc: doc["state"] != "running", 60)

    def test_report(self):
        """What a night says of itself: as JSON, as a page, by the command line, in figures."""
        g = harness.chain(3, factor=77.0)
        signature = self.plan(g)
        self.rows(f"DELETE FROM entry WHERE signature <> '{signature}'")
        self.make_old("toolchain", "older")
        # the plan that is there is slow; the one that is made is compared with it
        self.rows("UPDATE entry SET after_us = 1000")
        figure = 'dovetail_night_graphs_total{outcome="faster"}'
        before = self.s.metric(figure)
        self.begin(budget_s=600)
        doc = self.until_over()
        self.assertEqual((doc["state"], doc["due"], doc["queue"], doc["budget_s"]), ("done", 1, False, 600))
        (row,) = doc["graphs"]
        self.assertEqual((row["signature"], row["reason"], row["outcome"]), (signature, "stale", "faster"))
        self.assertEqual((row["former_us"], row["before_us"]), (1000, 1000))
        self.assertLess(row["after_us"], row["posted_us"])
        self.assertEqual((doc["before_us"], doc["after_us"], doc["outcomes"]["faster"]), (1000, row["after_us"], 1))
        self.assertGreater(doc["seconds"], 0)
        self.assertEqual(self.s.metric(figure) - before, 1)
        self.assertEqual(self.report(), doc)
        for how in ({"path": "?format=html"}, {"path": "", "headers": {"Accept": "text/html"}}):
            page = self.s.http("GET", "/v1/reprofile/report" + how["path"], headers=how.get("headers"))
            self.assertEqual(page.headers["Content-Type"], "text/html; charset=utf-8")
            self.assertIn(signature, page.body.decode())
            self.assertIn("<td>faster</td>", page.body.decode())
        self.assertEqual(json.loads(self.cli("reprofile", "--report", "--json")), doc)
        self.assertIn("done, begun " + doc["begun"], self.cli("reprofile", "--report"))
        path = self.s.dir + "/night.html"
        self.cli("reprofile", "--report", "-o", path)
        with open(path, encoding="utf-8") as f:
            self.assertIn(signature, f.read())
        for wrong in (("--report", "--stale"), ("--report", "--limit", "3"), ("-o", "x.html")):
            self.cli("reprofile", *wrong, status=2)
        # a graph that cannot be planned any more: said, and not tried again in this night
        self.rows("DELETE FROM entry WHERE toolchain = 'older'")
        self.make_old("toolchain", "older")
        broken = json.loads(json.dumps(g).replace(".version", ".vershun"))
        self.stand_in(self.s, self.rows(f"SELECT digest FROM known WHERE signature = '{signature}'")[0][0], broken)
        self.begin()
        doc = self.until_over()
        self.assertEqual((doc["state"], doc["outcomes"]["failed"]), ("done", 1))
        self.assertTrue(doc["graphs"][0]["failure"])
        self.assertNotIn("after_us", doc["graphs"][0])
        self.rows(f"DELETE FROM entry WHERE signature = '{signature}'")

    def again(self, s, kill):
        """The service ends, killed or as it is asked to, and another begins over the same store."""
        s.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        s.process.wait(30 * harness.SLOW)
        s.start(s.process.args)

    def stored(self, s, change=None):
        """The newest report as it is stored, and changed."""
        db = sqlite3.connect(s.dir + "/cache.db", timeout=60)
        row = db.execute("SELECT id, service, body FROM night ORDER BY id DESC LIMIT 1").fetchone()
        doc = json.loads(row[2]) if row else {"state": "none"}
        if change:
            change(doc)
            body = json.dumps(doc)
            db.execute("UPDATE night SET body = ?, sha256 = ? WHERE id = ?",
                       (body, harness.row_sum([row[1], body]), row[0]))
            db.commit()
        db.close()
        return doc

    def due(self, s, *graphs):
        """Plans of another device of these graphs, the first the most used. Returns their digests."""
        db, digests = sqlite3.connect(s.dir + "/cache.db", timeout=60), []
        for g in graphs:
            r = s.post(g)
            self.assertEqual(s.finish(r)["state"], "done")
            s.http("GET", r.headers["Location"] + "/result")  # or a service that stops waits for somebody to take it
            digests += db.execute("SELECT digest FROM known WHERE signature = ?", (s.post(g).json()["signature"],)
                                  ).fetchone()
        for row in db.execute("SELECT want, signature, device, toolchain, policy, digest, body, factors, id FROM entry "
                              "WHERE want = 'plan'").fetchall():
            new = list(row[:8])
            new[2] = "another"
            db.execute("UPDATE entry SET device = 'another', sha256 = ?, hits = ? WHERE id = ?",
                       (harness.row_sum(new), 10 ** (9 - row[8]), row[8]))
        db.commit()
        db.close()
        return digests

    def stand_in(self, s, was, graph):
        """What has the signature of the graph of this digest is another one, which cannot be planned. Returns what
        undoes it."""
        r = s.post(graph)
        self.assertEqual(r.status, 202)
        digest = re.findall(r"queued job=%s .*digest=(\S+)" % r.json()["id"], s.read_log())[0]
        s.http("DELETE", f"/v1/jobs/{r.json()['id']}")
        db = sqlite3.connect(s.dir + "/cache.db", timeout=60)
        arch, signature = db.execute("SELECT arch, signature FROM known WHERE digest = ?", (was,)).fetchone()
        body = json.dumps(graph)

        def known(old, new):
            db.execute("UPDATE known SET digest = ?, sha256 = ? WHERE digest = ?",
                       (new, harness.row_sum([new, arch, signature]), old))
            db.commit()
        db.execute("INSERT OR REPLACE INTO graph (digest, body, sha256, created) VALUES (?, ?, ?, 1)",
                   (digest, body, harness.row_sum([digest, body])))
        known(was, digest)
        db.close()

        def undo():
            nonlocal db
            db = sqlite3.connect(s.dir + "/cache.db", timeout=60)
            known(digest, was)
            db.close()
        return undo

    def test_goes_on(self):
        """A service that is killed, or restarted, in the middle of a night goes on with it: in the same report, without
        what was done, without what failed, and within the same budget."""
        s = harness.Service()
        try:
            self.assertEqual(s.http("GET", "/v1/reprofile/report").status, 404)
            digests = self.due(s, *(harness.chain(n, factor=5.0) for n in (1, 2, 3, 4)))
            # the second one is never done, so that it is always in the middle
            undo = self.stand_in(s, digests[1], harness.endless())
            s.http("POST", "/v1/reprofile", '{"stale": true, "budget_s": 600}')
            s.until("/healthz", lambda _: len(self.stored(s).get("graphs", [])) == 1, 10)
            before = s.http("GET", "/v1/reprofile/report").json()
            self.assertEqual((before["state"], before["due"]), ("running", 4))
            self.assertEqual(before["graphs"][0]["graph"], digests[0])
            for n, kill in enumerate((True, False, True)):
                self.again(s, kill)
                doc = s.until("/v1/reprofile/report", lambda doc: doc.get("resumed") == n + 1)
                self.assertEqual({**before, "resumed": n + 1}, doc)
                self.assertEqual(json.loads(s.http("POST", "/v1/reprofile", '{"stale": true}').body)["begun"], False)
            s.process.kill()
            s.process.wait()
            # the last one has failed meanwhile; and the second one can be done now
            failed = {**before["graphs"][0], "graph": digests[3], "outcome": "failed", "failure": "x"}
            self.stored(s, lambda doc: doc["graphs"].append(failed))
            undo()
            s.start(s.process.args)
            doc = s.until("/v1/reprofile/report", lambda doc: doc["state"] == "done", 60)
            self.assertEqual((doc["due"], doc["begun"], doc["resumed"], doc["budget_s"]), (4, before["begun"], 4, 600))
            self.assertEqual([g["graph"] for g in doc["graphs"]], [digests[i] for i in (0, 3, 1, 2)])
            self.assertEqual(doc["outcomes"]["failed"], 0)
            self.assertEqual(harness.schema.faults(doc, "night"), [])
            self.assertIn("resumed", s.http("GET", "/v1/reprofile/report?format=html").body.decode())
            self.again(s, False)  # one that is over stays so
            time.sleep(1)
            self.assertEqual(s.http("GET", "/v1/reprofile/report").json(), doc)
        finally:
            s.stop()
            s.remove()

    def test_does_not_go_on(self):
        """Where its budget is over, or it was of another toolchain, the report says that it was interrupted."""
        s = harness.Service()
        try:
            self.due(s, harness.chain(2))
            self.assertEqual(s.post(harness.endless()).status, 202)
            s.http("POST", "/v1/reprofile", '{"stale": true, "budget_s": 600}')
            s.until("/healthz", lambda _: self.stored(s)["state"] == "running")
            for change in ({"begun": "2026-01-01T00:00:00Z"}, {"toolchain": "older"}, {"resumed": 100}):
                was = self.stored(s)
                s.process.kill()
                s.process.wait()
                self.stored(s, lambda doc: doc.update({**was, **change}))
                s.start(s.process.args)
                time.sleep(1)
                doc = s.http("GET", "/v1/reprofile/report").json()
                self.assertEqual((doc["state"], doc["due"]), ("interrupted", 1), change)
                s.process.kill()
                s.process.wait()
                self.stored(s, lambda doc: doc.update(was))
                s.start(s.process.args)
                s.until("/v1/reprofile/report", lambda doc: doc["state"] == "running")
                s.until("/healthz", lambda _: self.stored(s).get("resumed", 0) > was.get("resumed", 0))
        finally:
            s.stop()
            s.remove()

    def test_window(self):
        """Outside of its window a night waits; it ends when the window closes."""
        def window(begin, minutes):
            at = [time.localtime(begin + 60 * m) for m in (0, minutes)]
            return "-".join(time.strftime("%H:%M", t) for t in at)
        now = time.time()
        s = harness.Service({"reprofile_window": window(now + 7200, 60)})
        try:
            s.http("POST", "/v1/reprofile", '{"stale": true}')
            time.sleep(1)
            self.assertEqual(s.http("GET", "/v1/reprofile/report").json()["state"], "running")
            for w, state in ((window(now - 600, 60), "done"), ("25:00-03:00", None), ("1:00-03:00", None)):
                with open(s.dir + "/config", "w", encoding="utf-8") as f:
                    f.write(f"reprofile_window = {w}\n")
                s.process.send_signal(signal.SIGHUP)
                if state:
                    s.until("/v1/reprofile/report", lambda doc: doc["state"] == state)
                else:
                    checked = harness.subprocess.run([harness.DAEMON, "--config", s.dir + "/config", "--check-config"],
                                                     capture_output=True, text=True, check=False)
                    self.assertEqual(checked.returncode, 2, checked.stderr)
                    self.assertIn("HH:MM-HH:MM", checked.stderr)
        finally:
            s.stop()
            s.remove()

    def test_refused(self):
        for body in ("{}", "[1]", "{", '{"stale": false}', '{"stale": true, "budget_s": -1}',
                     '{"stale": true, "budget_s": "1"}', '{"stale": true, "tea": 1}'):
            self.assertEqual(self.s.http("POST", "/v1/reprofile", body).status, 400, body)
        self.assertEqual(self.s.http("POST", "/v1/reprofile?stale=1", '{"stale": true}').status, 400)
        for more in (("--limit", "3"), ("--local",)):
            done = harness.cli("reprofile", "--stale", "--budget", "3", *more)
            self.assertEqual(done.returncode, 2, done.stderr)
        self.cli("reprofile", "--budget", "3", status=2)


if __name__ == "__main__":
    harness.main()
