#!/usr/bin/env python3
"""What is made of stored plans and graphs: traces, the factor that missed, planning again."""
import json
import sqlite3

from harness import WaysCase, chain, changed, main, row_sum, write


class Stored(WaysCase):
    def test_trace(self):
        texts = []
        for way in (self.service, self.local):
            plan = self.doc("optimize", write(self.dir, "g.json", chain(4)), *way)
            path = self.dir + "/t.json"
            self.assertEqual(self.doc("trace", plan["signature"], "-o", path, *way), {"file": path})
            with open(path, encoding="utf-8") as f:
                texts.append(f.read())
            trace = json.loads(texts[-1])
            names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
            self.assertEqual(names, {1: "baseline (modeled:h200)", 2: "optimized (modeled:h200)",
                                     3: "baseline, SM by SM (modeled:h200)", 4: "optimized, SM by SM (modeled:h200)"})
            slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
            self.assertEqual([e["name"] for e in slices if e["pid"] == 1], ["l0", "l1", "l2", "l3"])
            self.assertEqual(len([e for e in slices if e["pid"] == 2]), len(plan["launches"]))
            for pid, which in ((1, "baseline"), (2, "optimized")):
                mine = [e for e in slices if e["pid"] == pid]
                self.assertTrue(all(e["cat"] == "modeled" and e["dur"] > 0 for e in mine))
                self.assertAlmostEqual(max(e["ts"] + e["dur"] for e in mine), plan[which]["time_us"], delta=0.01)
                for tid in {e["tid"] for e in mine}:
                    at = 0
                    for e in sorted((e for e in mine if e["tid"] == tid), key=lambda e: e["ts"]):
                        self.assertGreaterEqual(round(e["ts"] * 1000), at)
                        at = round((e["ts"] + e["dur"]) * 1000)
        self.assertEqual(texts[0], texts[1])
        reply = self.s.http("GET", f"/v1/plans/{plan['signature']}/trace")
        self.assertEqual((reply.status, reply.body.decode()), (200, texts[0]))
        self.problem(self.s.http("GET", f"/v1/plans/sha256:{'0' * 64}/trace"), 404, "not-found")
        self.ok("trace", plan["signature"], *self.local, status=2)

    def test_the_factor_that_missed(self):
        base = chain(3, factor=7.0)
        cases = ((changed(base, launches__1__args__2={"f32": 8.0}), {"l1.arguments"}, "s1",
                  "arguments of launch l1 (s1): here b1+0 b2+0 f32:"),
                 (changed(base, launches__2__block=[32, 1, 1]), {"l2.geometry"}, "s2",
                  "geometry of launch l2 (s2): here grid 4,1,1 block 32,1,1"),
                 (changed(base, buffers__c__bytes=2048), {"b2.shape"}, "c",
                  "size, role of buffer b2 (c): here bytes 2048"),
                 (changed(base, modules__m__ptx=base["modules"]["m"]["ptx"].replace("mul.rn.f32 %f3",
                   "add.rn.f32 %f3")),
                  {"l0.kernel", "l1.kernel", "l2.kernel"}, None, "kernel text of launch l0 (s0): here sha256:"))
        for way in (self.service, self.local):
            first = self.doc("optimize", write(self.dir, "base.json", base), *way)["signature"]
            for graph, factors, name, text in cases:
                path = write(self.dir, "other.json", graph)
                doc = self.doc("explain", path, *way)
                self.assertFalse(doc["cached"])
                self.assertEqual(doc["nearest"]["entry"]["signature"], first)
                self.assertEqual({d["factor"] for d in doc["nearest"]["differs"]}, factors)
                if name:
                    self.assertEqual(doc["nearest"]["differs"][0]["name"], name)
                self.assertIn(text, self.ok("explain", path, *way))
                near = self.doc("explain", doc["signature"], *way)["nearest"]
                self.assertEqual(near["entry"]["signature"], first)
                self.assertEqual({d["factor"] for d in near["differs"]}, factors)
                self.ok("explain", doc["signature"], *way)
                self.forget(way, doc["signature"])
            doc = self.doc("explain", self.dir + "/base.json", "--deny", "split", *way)
            self.assertEqual(doc["nearest"]["entry"]["signature"], first)
            self.assertEqual([(d["factor"], d["mine"], d["stored"]) for d in doc["nearest"]["differs"]],
                             [("policy", "allow= deny=split budget=0", "allow= deny= budget=0")])
            self.assertIn("policy (options): here allow= deny=split",
                          self.ok("explain", self.dir + "/base.json", "--deny", "split", *way))

    def forget(self, way, signature):
        with sqlite3.connect(self.db if way is self.local else self.s.dir + "/cache.db", timeout=20) as db:
            db.execute("DELETE FROM entry WHERE signature = ?", (signature,))

    def make_old(self, path):
        """All plans as an older toolchain would have left them."""
        with sqlite3.connect(path, timeout=20) as db:
            for row in db.execute("SELECT want, signature, device, toolchain, policy, digest, body, factors, id FROM "
                                  "entry "
                                  "WHERE want = 'plan'").fetchall():
                row = list(row)
                row[3] = "dovetail 0.0.1"
                db.execute("UPDATE entry SET toolchain = ?, sha256 = ? WHERE id = ?",
                           (row[3], row_sum(row[:8]), row[8]))

    def change(self, path, sql, key, of, columns):
        """A row of another graph, with the checksum of a right one: its texts are changed by `of`."""
        with sqlite3.connect(path, timeout=20) as db:
            for row in db.execute(f"SELECT {', '.join(columns)}, {key} FROM {sql}").fetchall():
                new = of(dict(zip(columns, row)))
                db.execute(f"UPDATE {sql.split()[0]} SET {', '.join(c + ' = ?' for c in columns)}, sha256 = ? "
                           f"WHERE {key} = ?", (*new.values(), row_sum(new.values()), row[-1]))

    def test_of_another_graph(self):
        """A row that is right by its checksum, and of another graph: it is met once, set aside and counted."""
        entry = ["want", "signature", "device", "toolchain", "policy", "digest", "body", "factors"]
        for n, (way, path) in enumerate(((self.service, self.s.dir + "/cache.db"), (self.local, self.db))):
            def aside(table):
                with sqlite3.connect(path, timeout=20) as db:
                    return db.execute("SELECT count(*) FROM aside WHERE tbl = ?", (table,)).fetchone()[0]

            def damaged():
                return self.doc("cache", "stats", *way)["by_want"]["plan"]["damaged"]
            graphs = [write(self.dir, f"g{k}.json", chain(k, factor=6.5 + n)) for k in (1, 3)]
            one, three = (self.doc("optimize", g, *way) for g in graphs)
            before = aside("entry"), damaged()
            # another graph's document says whose it is; one that does not is found out by its names
            for lie, launches in ((False, 1), (True, 3)):
                with sqlite3.connect(path, timeout=20) as db:
                    wrong = json.loads(db.execute("SELECT body FROM entry WHERE want = 'plan' AND signature = ?", (
                        (one if launches == 1 else three)["signature"],)).fetchone()[0])
                right = (three if launches == 1 else one)["signature"]
                if lie:
                    wrong["signature"] = right
                self.change(path, f"entry WHERE want = 'plan' AND signature = '{right}'", "id",
                            lambda row, wrong=wrong: {**row, "body": json.dumps(wrong)}, entry)
                self.assertEqual(self.doc("cache", "verify", *way, status=0 if lie else 1)["ok"], lie)
                # not the very text that was posted, which a finished reply may answer
                with open(graphs[launches == 1], encoding="utf-8") as f:
                    text = write(self.dir, "again.json", {**json.load(f), "name": f"again{lie}"})
                again = self.doc("optimize", text, *way)
                self.assertEqual((again["signature"], again["verified"]["bitwise"]), (right, True))
                self.assertEqual((aside("entry"), damaged()), (before[0] + 1 + lie, before[1] + 1 + lie))
                self.assertTrue(self.doc("cache", "verify", *way)["ok"])
            # a graph under another's digest is not planned in its place
            self.make_old(path)
            with sqlite3.connect(path, timeout=20) as db:
                body = db.execute("SELECT body FROM graph WHERE digest IN (SELECT digest FROM known WHERE signature = ?"
                                  ")", (one["signature"],)).fetchone()[0]
            self.change(path, "graph WHERE digest IN (SELECT digest FROM known WHERE signature = "
                        f"'{three['signature']}')", "digest", lambda row: {**row, "body": body}, ["digest", "body"])
            graphs_before = aside("graph")
            self.ok("reprofile", "--stale", *way)
            self.assertGreater(aside("graph"), graphs_before)
            with sqlite3.connect(path, timeout=20) as db:
                self.assertEqual(db.execute("SELECT count(*) FROM graph WHERE digest IN (SELECT digest FROM known "
                                            "WHERE signature = ?)", (three["signature"],)).fetchone()[0], 0)

    def test_reprofile(self):
        for way, path in ((self.service, self.s.dir + "/cache.db"), (self.local, self.db)):
            def again(*args):
                d = self.doc("reprofile", *args, *way)
                for j in d.get("jobs", []):
                    self.assertEqual(self.s.http("GET", f"/v1/jobs/{j['id']}?wait=60", timeout=70).json()["state"],
                                     "done")
                self.assertEqual(d.get("queued", d.get("planned")), d["due"], d)
                return d["due"]
            self.ok("cache", "gc", "--max-bytes", "0", *way)
            for n in (1, 2, 3):
                self.ok("optimize", write(self.dir, f"p{n}.json", chain(n, factor=3.0)), *way)
            self.ok("analyze", write(self.dir, "a.json", chain(2, factor=5.0)), *way)
            self.make_old(path)
            self.assertEqual(again("--stale", "--limit", "1"), 1)
            self.assertEqual(again("--stale"), 2)
            self.assertEqual(again("--stale"), 0)
            self.assertEqual(again(), 1)  # the one that was only analysed
            self.assertEqual(again(), 0)
            plans = [e for e in self.doc("cache", "list", *way)["entries"] if e["want"] == "plan"]
            self.assertEqual(sorted(e["toolchain"] == "dovetail 0.0.1" for e in plans), [False] * 4 + [True] * 3)
            self.assertIn(" 0 ", " " + self.ok("reprofile", *way))
            self.ok("reprofile", "--limit", "0", *way, status=2)
        for query in ("limit=0", "limit=x", "stale=2", "tea=1"):
            self.problem(self.s.http("POST", "/v1/reprofile?" + query), 400, "usage")


if __name__ == "__main__":
    main()
