#!/usr/bin/env python3
"""The cache through every way in: list, show, verify, gc, export, import; who may change it, and who may cancel a
job."""
import json
import os
import sqlite3
import unittest

from harness import UnixHTTP, WaysCase, as_user, chain, endless, main, write


class Cache(WaysCase):
    def fill(self, way, *lengths):
        return [self.doc("optimize", write(self.dir, f"g{n}.json", chain(n)), *way)["signature"] for n in lengths]

    def test_performance_library(self):
        """What trials found out is kept apart from plans: a planning that uses it gives the same plan; damage costs
        nothing but time."""
        graph = write(self.dir, "g.json", chain(3))
        def plan():
            return self.doc("optimize", graph, *self.local)
        def sql(text):
            with sqlite3.connect(self.db) as db:
                return db.execute(text).fetchall()
        first = plan()
        rows = self.doc("cache", "stats", *self.local)["trials"]["rows"]
        self.assertGreater(rows, 0)
        self.assertEqual(self.doc("cache", "list", *self.local)["trials"], rows)
        self.assertIn(f"{rows} trials", self.ok("cache", "list", *self.local))
        bodies = sql("SELECT key, body FROM trial ORDER BY key")
        for damage in ("SELECT 1", "UPDATE trial SET body = x'00'", "UPDATE trial SET key = 'k' || key",
                       "DELETE FROM trial"):
            sql(damage)
            wrong = len(self.doc("cache", "verify", *self.local, status=1)["damaged"]) if "UPDATE" in damage else 0
            self.assertEqual(wrong, rows if "UPDATE" in damage else 0)
            sql("DELETE FROM entry WHERE want = 'plan'")
            self.assertEqual(plan(), first, damage)
            self.ok("cache", "gc", *self.local)
            self.assertTrue(self.doc("cache", "verify", *self.local)["ok"])
            self.assertEqual(sql("SELECT key, body FROM trial ORDER BY key"), bodies)

    def test_list_show_verify(self):
        for way in (self.service, self.local):
            sigs = self.fill(way, 1, 2)
            entries = self.doc("cache", "list", *way)["entries"]
            mine = [e for e in entries if e["signature"] in sigs]
            self.assertEqual(sorted((e["want"], e["signature"]) for e in mine),
                             sorted((w, s) for w in ("plan", "analysis") for s in sigs))
            for e in mine:
                self.assertEqual(e["device"], "soft:h200")
                self.assertGreater(e["bytes"], 100)
                self.assertLess(e["age_s"], 600)
            self.assertEqual(len(self.doc("cache", "list", "--limit", "01", *way)["entries"]), 1)
            before = [e["hits"] for e in mine if e["want"] == "plan" and e["signature"] == sigs[0]][0]
            self.ok("optimize", self.dir + "/g1.json", *way)
            shown = self.doc("cache", "show", sigs[0], *way)["entries"]
            self.assertEqual([e["hits"] for e in shown if e["want"] == "plan"], [before + 1])
            self.assertEqual(shown[0]["factors"]["launches"], "1")
            text = self.ok("cache", "show", sigs[0], *way)
            self.assertRegex(text, r"(?m)^factors.l0.geometry +grid 4,1,1 block 64,1,1 ")
            self.assertIn(sigs[1], self.ok("cache", "list", *way))
            self.assertTrue(self.doc("cache", "verify", *way)["ok"])
            self.assertEqual(self.doc("cache", "show", "sha256:" + "0" * 64, *way, status=3)["code"], "not-found")
        for wrong in (["show"], ["show", "x"], ["list", "x"], ["list", "--limit", "0"], ["gc", "--max-age", "soon"],
                      ["gc", "--max-bytes", "-1"],
                      ["export"], ["export", "-o", "-", "--json"], ["import"], ["import", "/nonexistent"], ["tea"]):
            self.ok("cache", *wrong, *self.local, status=2)
        for path in ("/v1/cache/entries?tea=1", "/v1/cache/entries?limit=x", "/v1/cache/verify?x=1",
                     "/v1/cache/entries?signature=x"):
            self.problem(self.s.http("GET", path), 400, "usage")

    def test_damage_is_found_and_removed(self):
        sigs = self.fill(self.local, 1, 2)
        with sqlite3.connect(self.db) as db:
            db.execute("UPDATE entry SET body = replace(body, 'baseline', 'Baseline') WHERE want = 'plan' AND "
                       "signature = ?", (sigs[0],))
            db.execute("UPDATE graph SET body = body || ' ' WHERE digest = (SELECT min(digest) FROM graph)")
        doc = self.doc("cache", "verify", *self.local, status=1)
        self.assertEqual(sorted(d["table"] for d in doc["damaged"]), ["entry", "graph"])
        self.assertEqual(doc["file"], "ok")
        self.assertEqual(self.doc("cache", "gc", *self.local)["removed"], 1)
        self.assertTrue(self.doc("cache", "verify", *self.local)["ok"])
        self.assertEqual(len(self.doc("cache", "list", *self.local)["entries"]), 3)

    def test_gc(self):
        sigs = self.fill(self.local, 1, 2, 3)
        with sqlite3.connect(self.db) as db:
            db.execute("UPDATE entry SET used = used - 100000 WHERE signature = ?", (sigs[0],))
            db.execute("UPDATE entry SET used = used - 1000 WHERE signature = ?", (sigs[1],))
        doc = self.doc("cache", "gc", "--max-age", "1d", *self.local)
        self.assertEqual((doc["removed"], doc["kept"]), (2, 4))
        self.assertGreater(doc["freed_bytes"], 100)
        stats = self.doc("cache", "stats", *self.local)
        self.assertEqual((stats["entries"], stats["graphs"]), (4, 2))
        doc = self.doc("cache", "gc", "--max-bytes", str(doc["bytes"] - 1), *self.local)
        left = self.doc("cache", "list", *self.local)["entries"]
        self.assertTrue(any(e["signature"] == sigs[2] for e in left))
        self.assertEqual(self.doc("cache", "gc", "--max-bytes", "0", *self.local)["kept"], 0)
        self.assertEqual(self.doc("cache", "stats", *self.local)["graphs"], 0)
        self.fill(self.service, 4)
        self.assertEqual(self.s.http("POST", "/v1/cache/gc?max_bytes=0").json()["kept"], 0)
        self.assertEqual(self.doc("cache", "list", *self.service)["entries"], [])

    def test_export_and_import(self):
        sigs = self.fill(self.local, 1, 2)
        bundle = self.dir + "/b.jsonl"
        self.ok("cache", "export", "-o", bundle, *self.local)
        with open(bundle, encoding="utf-8") as f:
            text = f.read()
        self.assertEqual(self.ok("cache", "export", "-o", "-", *self.local), text)
        self.assertEqual({tuple(json.loads(line)["row"][:2]) for line in text.splitlines()[1:-1]},
                         {("plan", s) for s in sigs})
        self.ok("cache", "gc", "--max-bytes", "0", *self.service)
        self.assertEqual(self.doc("cache", "import", bundle, *self.service),
                         {"imported": 2, "present": 0, "left_out": 0})
        self.assertEqual(self.doc("cache", "import", bundle, *self.service),
                         {"imported": 0, "present": 2, "left_out": 0})
        # what waits is nobody's plan yet
        self.assertEqual(self.s.http("GET", "/v1/cache/export").body.decode().count("\n"), 2)
        self.assertEqual(self.s.http("GET", "/v1/plans/" + sigs[1]).status, 404)
        listed = self.doc("cache", "list", *self.service)
        self.assertEqual((listed["entries"], sorted(r["signature"] for r in listed["recipes"])), ([], sorted(sigs)))
        self.assertIn("a recipe that was not tried yet", self.ok("cache", "list", *self.service))
        self.assertIn("uid 0" if not os.getuid() else "uid ", self.ok("cache", "show", sigs[1], *self.service))
        self.assertTrue(self.doc("cache", "verify", *self.service)["ok"])
        reply = self.s.post(chain(2, names="pqrst"))
        self.assertEqual((reply.status, reply.headers["Dovetail-Cache"]), (202, "miss"))
        self.assertEqual(self.s.finish(reply)["state"], "done")
        reply = self.s.post(chain(2, names="pqrst"))
        self.assertEqual((reply.status, reply.headers["Dovetail-Cache"]), (200, "hit"))
        self.assertEqual(reply.json()["signature"], sigs[1])
        self.assertEqual(self.doc("cache", "import", bundle, *self.service),
                         {"imported": 0, "present": 2, "left_out": 0})
        self.assertEqual([r["signature"] for r in self.doc("cache", "list", *self.service)["recipes"]], [sigs[0]])
        self.ok("cache", "gc", "--max-bytes", "0", *self.service)
        self.assertEqual(self.doc("cache", "list", *self.service)["recipes"], [])
        # hostile: refused as a whole, with the line; what is there stays
        lines = text.splitlines()
        row = json.loads(lines[1])
        row["row"][6] = row["row"][6].replace("1", "2", 1)
        short = json.loads(lines[1])
        short["row"].pop()
        number = json.loads(lines[1])
        number["row"][0] = 7
        for bad, word in (("", "cut off"), ("x", "line 1"), ("{}\n", "line 1"), ("\n".join(lines[:-1]), "cut off"),
                          ("\n".join([lines[0], json.dumps(row)] + lines[2:]), "line 2 does not match"),
                          ("\n".join([lines[0], json.dumps(short)] + lines[2:]), "line 2 is no row"),
                          ("\n".join([lines[0], json.dumps(number)] + lines[2:]), "line 2 has a column"),
                          ("\n".join(lines[:1] + ['{"table": "entry; DROP TABLE entry", "row": []}'] + lines[1:]),
                           "line 2 is no row"),
                          ("\n".join(lines[:1] + lines[2:]), "counts other"), (text + "{}\n", "behind the end"),
                          ("[" * 100000, "line 1"), ("\x00\xff", "line 1")):
            path = write(self.dir, "bad.jsonl", bad)
            for way in (self.service, self.local):
                before = self.doc("cache", "list", *way)["total"]
                doc = self.doc("cache", "import", path, *way, status=3)
                self.assertEqual(doc["code"], "bad-json")
                self.assertIn(word, doc["detail"])
                self.assertEqual(self.doc("cache", "list", *way)["total"], before)
        with open(self.dir + "/bad.bin", "wb") as f:
            f.write(b"\xff\xfe{")
        for way in (self.service, self.local):
            self.assertEqual(self.doc("cache", "import", self.dir + "/bad.bin", *way, status=3)["code"], "bad-json")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be somebody else")
    def test_who_may(self):
        def other(method, path, body="", gid=65534):
            def work():
                c = UnixHTTP(self.s.socket, 20)
                c.request(method, path, body=body)
                a = c.getresponse()
                answer = a.status, json.loads(a.read())
                c.close()
                return answer
            return as_user(65534, gid, [], work)
        os.chmod(self.s.dir, 0o755)
        os.chmod(self.s.socket, 0o666)
        try:
            mine = self.s.post(endless(1)).headers["Location"]
            for method, path in (("POST", "/v1/cache/gc"), ("POST", "/v1/cache/import"), ("GET", "/v1/cache/verify")):
                for gid in (65534, 0):  # 0 owns the socket
                    status, doc = other(method, path, gid=gid)
                    self.assertEqual((status, doc["code"]), (403, "forbidden"), path)
            self.assertEqual(other("DELETE", mine)[0], 404)  # what others posted is not there
            self.assertIn(self.s.http("GET", mine).json()["state"], ("queued", "running"))
            status, job = other("POST", "/v1/jobs?want=run", json.dumps(endless(2)))
            self.assertEqual(status, 202)
            self.assertEqual(other("DELETE", "/v1/jobs/" + job["id"])[0], 200)  # its own
            # who joins somebody else's job can only leave it
            self.assertEqual(other("POST", "/v1/jobs?want=plan", json.dumps(endless(1)))[1]["id"], mine.split("/")[-1])
            self.assertEqual(other("DELETE", mine)[0], 200)
            self.assertIn(self.s.http("GET", mine).json()["state"], ("queued", "running"))
            self.assertEqual(other("DELETE", mine)[0], 200)  # once more is no error, and does no more
            self.assertIn(self.s.http("GET", mine).json()["state"], ("queued", "running"))
            self.assertEqual(self.s.http("DELETE", mine).status, 200)
            self.assertEqual(self.s.http("GET", mine + "?wait=10").json()["state"], "cancelled")
        finally:
            os.chmod(self.s.socket, 0o660)


if __name__ == "__main__":
    main()
