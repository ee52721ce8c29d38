#!/usr/bin/env python3
"""The cache through every way in: list, show, verify, gc, export, import; who may change it, and who may cancel a
job."""
import json
import os
import sqlite3
import subprocess
import unittest

from harness import (CLI, UnixHTTP, WaysCase, as_user, came, chain, cli, endless, main, old_bundle, row_sum, unpacked,
                     write)


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

    def export(self, *options):
        """The bytes of a bundle."""
        path = self.dir + "/b.zst"
        self.ok("cache", "export", "-o", path, *options)
        with open(path, "rb") as f:
            return f.read()

    def test_export_of_nothing(self):
        """It says so, whoever reads stdout, and leaves a bundle that can be read."""
        path, nothing = self.dir + "/b.zst", "sha256:" + "0" * 64
        self.fill(self.local, 1)
        for way in (["--local", "--device", "soft", "--cache", self.dir + "/empty.db"],
                    ["--signature", nothing, *self.local], ["--signature", nothing, *self.service]):
            for more in ([], ["--json"]):
                r = cli("cache", "export", "-o", path, *way, *more)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertIn("nothing was selected", r.stderr)
                self.assertEqual(self.doc("cache", "import", path, *self.local), came())
            r = subprocess.run([CLI, "cache", "export", "-o", "-", *way], capture_output=True, check=True)
            self.assertEqual(len(unpacked(r.stdout).splitlines()), 2)
            self.assertIn(b"nothing was selected", r.stderr)
        r = cli("cache", "export", "-o", path, *self.local)
        self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_export_and_import(self):
        sigs = self.fill(self.local, 1, 2)
        bundle = self.dir + "/b.zst"
        packed = self.export(*self.local)
        text = unpacked(packed)
        r = subprocess.run([CLI, "cache", "export", "-o", "-", *self.local], capture_output=True, check=True)
        self.assertEqual(r.stdout, packed)
        self.assertEqual({json.loads(line)["row"][0] for line in text.splitlines()[1:-1]}, set(sigs))
        self.assertNotIn(".entry", text)  # no PTX
        self.ok("cache", "gc", "--max-bytes", "0", *self.service)
        self.assertEqual(self.doc("cache", "import", bundle, *self.service), came(2))
        self.assertEqual(self.doc("cache", "import", bundle, *self.service), came(0, 2))
        self.assertIn("0 imported, 2 there already, 0 left out, 0 refused",
                      self.ok("cache", "import", bundle, *self.service))
        # what waits is nobody's plan yet
        self.assertEqual(unpacked(self.s.http("GET", "/v1/cache/export").body).count("\n"), 2)
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
        self.assertIn("reverified", reply.json()["verified"])
        self.assertEqual(self.doc("cache", "import", bundle, *self.service), came(0, 2))
        self.assertEqual([r["signature"] for r in self.doc("cache", "list", *self.service)["recipes"]], [sigs[0]])
        self.ok("cache", "gc", "--max-bytes", "0", *self.service)
        self.assertEqual(self.doc("cache", "list", *self.service)["recipes"], [])

    def test_hostile_bundles(self):
        """What is no bundle is refused; of one that is damaged the sound rows are taken, and the exit status is 1."""
        sigs = self.fill(self.local, 1, 2)
        packed = self.export(*self.local)
        text = unpacked(packed)
        lines = text.splitlines(keepends=True)
        for i, (bad, taken, word) in enumerate((
                (lines[0] + lines[1].replace("soft", "sofa") + lines[2] + lines[3], 1, "does not match its checksum"),
                (lines[0] + "[" * 100000 + "\n" + lines[2] + lines[3], 1, "is no JSON object"),
                (lines[0] + lines[1] + lines[2][:99], 1, "it is cut off"),
                (lines[0] + lines[2] + lines[3], 1, "counts other rows"),
                (text + lines[1], 2, "stands behind its end"))):
            path = write(self.dir, "bad.jsonl", bad)
            for way in (["--local", "--cache", self.dir + f"/{i}.db"], self.service):
                self.ok("cache", "gc", "--max-bytes", "0", *way)
                doc = self.doc("cache", "import", path, *way, status=1)
                self.assertEqual(doc["imported"], taken, doc)
                self.assertIn(word, json.dumps(doc))
                self.assertEqual((doc["refused"] > 0 or not doc["complete"], len(doc.get("reasons", []))),
                                 (True, doc["refused"]))
                self.assertIn("not complete" if not doc["complete"] else "refused: line 2",
                              cli("cache", "import", path, *way).stdout)
                self.assertEqual(len(self.doc("cache", "list", *way)["recipes"]), taken)
        cut = self.dir + "/cut.zst"
        with open(cut, "wb") as f:
            f.write(packed[:-20])
        # nothing is left of so small a one
        self.assertIn("cut off", self.doc("cache", "import", cut, *self.local, status=3)["detail"])
        # an old bundle: refused as a whole, with the line; what is there stays
        old = old_bundle(self.db)
        lines = old.splitlines()
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
                          ("\n".join(lines[:1] + lines[2:]), "counts other"), (old + "{}\n", "behind the end"),
                          ('{"dovetail_cache": 3}\n', "newer dovetail"),
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
            self.assertEqual(self.doc("cache", "import", write(self.dir, "old.jsonl", old), "--max-bytes", "100", *way,
                                      status=3)["code"], "too-large")
        self.ok("cache", "gc", "--max-bytes", "0", *self.service)
        self.assertEqual(self.doc("cache", "import", self.dir + "/old.jsonl", *self.service), came(2))
        self.assertEqual({r["signature"] for r in self.doc("cache", "list", *self.service)["recipes"]}, set(sigs))

    def test_select(self):
        sigs = self.fill(self.local, 1, 2, 3)
        with sqlite3.connect(self.db) as db:
            db.execute("UPDATE entry SET created = created - 100000, used = used - 100000, hits = 9 "
                       "WHERE signature = ?", [sigs[0]])
            db.execute("UPDATE entry SET device = 'soft:a100' WHERE signature = ?", [sigs[1]])
            for row in db.execute("SELECT id, want, signature, device, toolchain, policy, digest, body, factors "
                                  "FROM entry WHERE signature = ?", [sigs[1]]).fetchall():
                db.execute("UPDATE entry SET sha256 = ? WHERE id = ?", [row_sum(row[1:]), row[0]])
        with sqlite3.connect(self.db) as db:
            rows = db.execute("SELECT * FROM entry").fetchall()
        local = ["--local", "--cache", self.db]
        for options, want in (([], sigs), (["--signature", sigs[2]], sigs[2:]),
                              (["--signature", sigs[2], "--signature", sigs[0]], [sigs[0], sigs[2]]),
                              (["--device", "soft:a100"], [sigs[1]]), (["--device", "soft"], sigs),
                              (["--newer-than", "1d"], sigs[1:]), (["--used-within", "100000m"], sigs),
                              (["--used-within", "3600"], sigs[1:]), (["--min-hits", "9"], sigs[:1]),
                              (["--min-hits", "10"], []), (["--newer-than", "1h", "--device", "soft:h200"], sigs[2:])):
            text = unpacked(self.export(*local, *options))
            self.assertEqual([json.loads(line)["row"][0] for line in text.splitlines()[1:-1]], want, options)
        self.assertEqual(len(rows), 6)
        for bad in (["--signature", "x"], ["--newer-than", "x"], ["--min-hits", "-1"], ["--min-hits", "1h"]):
            r = cli("cache", "export", "-o", "-", *local, *bad)
            self.assertEqual(r.returncode, 2, r.stderr)
        # the same through HTTP
        mine = self.fill(self.service, 1, 2)
        def get(query):
            reply = self.s.http("GET", "/v1/cache/export?" + query)
            return [json.loads(line)["row"][0] for line in unpacked(reply.body).splitlines()[1:-1]]
        self.assertEqual(get(f"signature={mine[1]}&signature={mine[0]}"), mine)
        self.assertEqual(get(f"signature={mine[1]}&device=soft"), mine[1:])
        self.assertEqual((get("newer_than=0&min_hits=70"), get("device=7")), ([], []))
        for query in ("signature=7", "newer_than=x", "min_hits=-1", "signers=/etc/passwd"):
            self.assertEqual(self.s.http("GET", "/v1/cache/export?" + query).status, 400, query)
        self.assertEqual(set(json.loads(line)["row"][0] for line in
                             unpacked(self.export(*self.service, "--used-within", "1d")).splitlines()[1:-1]), set(mine))

    def test_signed(self):
        """Keys, signers, who is believed: unsigned and foreign rows are set aside where a signer is required."""
        def path(name):
            return self.dir + "/" + name
        sigs = self.fill(self.local, 1, 2)
        lines = {}
        for name in ("farm", "barn"):
            lines[name] = self.ok("cache", "keygen", name, "-o", path(name)).strip()
            self.assertEqual(os.stat(path(name)).st_mode & 0o777, 0o600)
            self.assertRegex(lines[name], name + " ed25519:[A-Za-z0-9+/]{43}=")
        self.assertEqual(cli("cache", "keygen", "farm", "-o", path("farm")).returncode, 2)
        self.assertEqual(self.doc("cache", "keygen", "mill", "-o", path("mill"))["signer"], "mill")
        signers = write(self.dir, "signers", lines["farm"] + "\n")
        for name in ("farm", "barn"):
            self.ok("cache", "export", "-o", path(name + ".zst"), "--sign", path(name), *self.local)
        self.ok("cache", "export", "-o", path("none.zst"), *self.local)
        os.chmod(path("mill"), 0o644)
        self.assertIn("chmod 600", cli("cache", "export", "-o", path("x"), "--sign", path("mill"), *self.local).stderr)
        def bring(bundle, *options, status=0):
            way = ["--local", "--cache", path("here.db")]
            for f in ("", "-wal", "-shm"):
                if os.path.exists(path("here.db") + f):
                    os.unlink(path("here.db") + f)
            doc = self.doc("cache", "import", path(bundle), *way, *options, status=status)
            origins = {r["origin"].split(", ")[-1] for r in self.doc("cache", "list", *way)["recipes"]}
            return doc, origins
        me = f"uid {os.getuid()}"
        self.assertEqual(bring("farm.zst"), (came(2), {me}))
        self.assertEqual(bring("farm.zst", "--signers", signers), (came(2, signer="farm"), {"signed by farm"}))
        required = ["--signers", signers, "--require-signer", "farm"]
        self.assertEqual(bring("farm.zst", *required), (came(2, signer="farm"), {"signed by farm"}))
        for bundle, word in (("barn.zst", "another signer"), ("none.zst", "not signed")):
            doc, origins = bring(bundle, *required, status=1)
            self.assertEqual((doc["imported"], doc["refused"], doc["complete"], origins), (0, 2, False, set()))
            self.assertEqual({r["signature"] for r in doc["reasons"]}, set(sigs))
            self.assertIn(word, doc["reasons"][0]["reason"])
            with sqlite3.connect(path("here.db")) as db:
                self.assertIn(word, db.execute("SELECT key FROM aside WHERE tbl = 'bundle'").fetchone()[0])
        self.assertEqual(bring("none.zst", "--signers", signers), (came(2), {me}))
        doc, _ = bring("none.zst", "--signers", signers, "--max-age", "1d", status=1)
        self.assertEqual(doc["refused"], 2)
        self.assertEqual(bring("farm.zst", "--signers", signers, "--max-age", "1d")[0], came(2, signer="farm"))
        write(self.dir, "signers", lines["farm"] + " revoked\n" + lines["barn"] + "\n")
        doc, _ = bring("farm.zst", "--signers", signers, status=1)
        self.assertIn("revoked", doc["reasons"][0]["reason"])
        self.assertEqual(bring("barn.zst", "--signers", signers)[0], came(2, signer="barn"))
        for bad, word in ((["--require-signer", "farm"], "no file of signers"),
                          (["--signers", signers, "--require-signer", "cow"], "not among the signers"),
                          (["--signers", path("farm.zst")], "is no text"),
                          (["--signers", "/nonexistent"], "No such file")):
            r = cli("cache", "import", path("farm.zst"), "--local", "--cache", path("here.db"), *bad)
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(word, r.stderr)
        self.assertEqual(cli("cache", "import", path("farm.zst"), "--signers", signers, *self.service).returncode, 2)

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
