"""An entry of an older toolchain on which nothing rests that was verified: it is served, the reply says so, and the
graph is planned again. One that may be wrong is a miss.
"""
import re
import sqlite3

import harness


class Stale(harness.ServiceCase):
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


if __name__ == "__main__":
    harness.main()
