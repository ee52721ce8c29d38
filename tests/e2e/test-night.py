"""The night: what has no plan of this device and toolchain is planned while the service is idle."""
import json
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
