#!/usr/bin/env python3
"""Nobody can plant a plan: what members of the socket's group may not, what an import believes (nothing), what becomes
of forged bundles."""
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import unittest

from harness import (DAEMON, FolderCase, ServiceCase, UnixHTTP, as_user, came, chain, cli, endless, main, old_bundle,
                     row_sum, unpacked, write)

MEMBER, OTHER, ADMIN, ADMIN_GROUP = 54321, 54322, 54323, 54324


def bundle_of(rows):
    """A bundle whose rows have right checksums."""
    lines = [{"dovetail_cache": 1}] + [{"table": t, "row": row[:-1] + [row_sum(row[:-1])]}
                                       for t, row in rows] + [{"end": len(rows)}]
    return "".join(json.dumps(line) + "\n" for line in lines)


def edited(text, change):
    """The bundle with change(body) done to each plan, signed again."""
    rows = []
    for line in text.splitlines()[1:-1]:
        row = json.loads(line)["row"]
        body = json.loads(row[6])
        change(body)
        rows.append(("entry", row[:6] + [json.dumps(body)] + row[7:]))
    return bundle_of(rows)


def redirected(text):
    """A bundle whose recipes should lead to other plans, with right checksums."""
    lines = text.splitlines()
    for i, line in enumerate(lines[1:-1], 1):
        row = json.loads(line)["row"]
        row[4] = "sha256:" + "1" * 64
        lines[i] = json.dumps({"table": "recipe", "row": row[:-1] + [row_sum(row[:-1])]})
    return "".join(line + "\n" for line in lines)


def other_bytes(body):
    """The forger's: every product becomes a sum. Where nothing was fused there is nothing of ours in it, but the posted
    kernel."""
    hit = 0
    for m in body["modules"].values():
        hit += m["ptx"].count("mul.rn.f32")
        m["ptx"] = m["ptx"].replace("mul.rn.f32", "add.rn.f32")
        m["cubin"] = "f0VMRg=="
    assert hit


class Exported(FolderCase):
    """A bundle of another host."""
    def setUp(self):
        super().setUp()
        self.elsewhere = ["--local", "--device", "soft", "--cache", self.dir + "/elsewhere.db"]

    def export(self, graph):
        """The plan that is made elsewhere, and the bundle: an old one, which has the whole plan."""
        plan = self.doc("optimize", write(self.dir, "g.json", graph), *self.elsewhere)
        return plan, old_bundle(self.dir + "/elsewhere.db")

    def exported(self, way, *options):
        """The text of a bundle as it is now."""
        self.ok("cache", "export", "-o", self.dir + "/b.zst", *way, *options)
        with open(self.dir + "/b.zst", "rb") as f:
            return unpacked(f.read())


class Recipes(Exported):
    """As any user: with a cache of one's own."""
    def setUp(self):
        super().setUp()
        self.db = self.dir + "/here.db"
        self.here = ["--local", "--device", "soft", "--cache", self.db]

    def bring(self, text):
        return self.doc("cache", "import", write(self.dir, "b.jsonl", text), *self.here)

    def plan(self, graph):
        return self.doc("optimize", write(self.dir, "g.json", graph), *self.here)

    def trials(self, way):
        return self.doc("cache", "stats", *way)["trials"]["rows"]

    def recipe(self, signature, graph=None):
        """The only recipe, as list, show and explain have it."""
        listed, = self.doc("cache", "list", *self.here)["recipes"]
        if graph:
            self.assertEqual(self.doc("cache", "show", signature, *self.here)["recipes"], [listed])
            self.assertEqual(self.doc("explain", write(self.dir, "g.json", graph), *self.here)["recipes"], [listed])
            self.assertEqual(self.doc("explain", signature, *self.here)["recipes"], [listed])
        return listed

    def test_genuine(self):
        graph = chain(4)
        made, text = self.export(graph)
        self.assertEqual(self.bring(text), came(1, 0, 0))
        got = self.plan(chain(4, names="uvwxyz"))
        self.assertRegex(got["verified"].pop("reverified"), r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(got["verified"], made["verified"])
        again = self.plan(graph)  # a hit: in the names of the first poster
        self.assertIn("reverified", again["verified"])
        for member in ("modules", "launches", "optimized", "baseline", "scratch", "assumes", "original", "signature",
                       "timeline"):
            self.assertEqual(again[member], made[member], member)
        # nothing but what it names was tried, and the search tried more
        kept = [r for r in made["rewrites"] if r["verdict"] == "kept"]
        self.assertEqual([r["launches"] for r in again["rewrites"]], [r["launches"] for r in kept])
        self.assertEqual(self.trials(self.here), len(kept))
        self.assertGreater(self.trials(self.elsewhere), len(kept))
        self.assertEqual(self.doc("cache", "list", *self.here)["recipes"], [])
        # it is a plan of this host now, and can be handed on
        row = json.loads(self.exported(self.here).splitlines()[1])["row"]
        self.assertEqual(json.loads(row[5]), json.loads(json.loads(text.splitlines()[1])["row"][6])["recipe"])
        self.assertNotIn("recipe", got)

    def test_forged(self):
        graph = chain(3)
        made, text = self.export(graph)
        def without(body):
            del body["recipe"]["steps"][-1]
        def another_level(body):
            body["recipe"]["steps"][0].update(level="global", way=3)
        for change, word in ((other_bytes, "digest"), (without, "digest"), (another_level, "digest"),
                             (lambda body: body.update(recipe={"steps": [{"kind": "block-fusion"}]}),
                              "step 1 of 1: there is no such rewrite"),
                             (lambda body: body.update(recipe={"steps": "x" * 5000000}), "more bytes"),
                             (lambda body: body.update(launches=[1, {"module": 5}, {"module": "m0"},
                                                                 {"module": "nobody"}], modules={"m0": 1}), "digest")):
            for f in ("", "-wal", "-shm"):
                if os.path.exists(self.db + f):
                    os.unlink(self.db + f)
            self.assertEqual(self.bring(edited(text, change))["imported"], 1)
            got = self.plan(graph)
            self.assertNotIn("reverified", got["verified"])
            self.assertEqual(got, made, word)
            kept, = self.doc("cache", "list", *self.here)["recipes"]
            self.assertEqual(kept["state"], "refused")
            self.assertIn(word, kept["reason"])
        self.assertEqual(self.recipe(made["signature"], graph), kept)
        self.assertIn("its recipe does not hold here: ", self.ok("cache", "list", *self.here))
        self.assertIn("its recipe does not hold here: ", self.ok("explain", made["signature"], *self.here))
        # a right one takes the place of one that was refused; a plan that is there stays
        with sqlite3.connect(self.db) as db:
            db.execute("DELETE FROM entry WHERE want = 'plan'")
        self.assertEqual(self.bring(text), came(1, 0, 0))
        self.assertIn("reverified", self.plan(graph)["verified"])
        self.assertEqual(self.bring(edited(text, other_bytes)), came(0, 1, 0))

    def test_refused_once(self):
        """A reason names nobody's launches, and a recipe that was refused is not tried again."""
        graph = chain(3)
        graph["launches"][2]["args"][1] = {"buffer": "b"}  # again, after s1 has read it
        graph["buffers"]["b"]["role"] = "output"
        made, text = self.export(graph)
        def bad(body):
            body["recipe"]["steps"] = [{"kind": "block-fusion", "level": "register", "way": 0, "launches": [0, 2]}]
        self.bring(edited(text, bad))
        self.plan(graph)
        first = self.recipe(made["signature"])
        self.assertIn("step 1 of 1, block-fusion: order: 'l1' depends on", first["reason"])
        with sqlite3.connect(self.db) as db:
            db.execute("DELETE FROM entry WHERE want = 'plan'")
        self.plan(graph)
        self.assertEqual(self.recipe(made["signature"]), first)

    def test_only_plans_with_recipes(self):
        """Maps, graphs, and which digest has which signature, are claims too: an import leaves them out."""
        graph, victim = chain(2, factor=3.0), chain(2, factor=5.0)
        made, text = self.export(graph)
        with sqlite3.connect(self.dir + "/elsewhere.db") as db:
            analysis, = db.execute("SELECT want, signature, device, toolchain, policy, digest, body, factors, sha256 "
                                   "FROM entry WHERE want = 'analysis'").fetchall()
            stored, = db.execute("SELECT digest, body, sha256 FROM graph").fetchall()
            known, = db.execute("SELECT digest, arch, signature, sha256 FROM known").fetchall()
        plan = json.loads(text.splitlines()[1])["row"]
        bare = json.loads(plan[6])
        del bare["recipe"]
        # the victim's digest, as if its graph were the forger's
        self.doc("optimize", write(self.dir, "v.json", victim), "--local", "--device", "soft", "--cache",
                 self.dir + "/v.db")
        with sqlite3.connect(self.dir + "/v.db") as db:
            digest = db.execute("SELECT digest FROM known").fetchone()[0]
        rows = [("entry", list(analysis)), ("graph", list(stored)), ("known", [digest] + list(known)[1:]),
                ("entry", plan[:6] + [json.dumps(bare)] + plan[7:])]
        self.plan(graph)
        self.assertEqual(self.bring(bundle_of(rows)), came(0, 0, 4))
        with sqlite3.connect(self.db) as db:
            self.assertEqual(db.execute("SELECT count(*) FROM known").fetchone()[0], 1)
        self.assertNotEqual(self.plan(victim)["signature"], made["signature"])
        # another rewriter's recipe has another key, and is never looked at
        old = plan[:3] + [plan[3].replace("rewriter ", "rewriter 0.")] + plan[4:]
        self.assertEqual(self.bring(bundle_of([("entry", old)])), came(1, 0, 0))
        with sqlite3.connect(self.db) as db:
            db.execute("DELETE FROM entry WHERE want = 'plan'")
        self.assertNotIn("reverified", self.plan(graph)["verified"])
        self.assertEqual(self.recipe(made["signature"])["state"], "recipe")

    def test_file_of_others(self):
        """A cache that others can write to is theirs."""
        graph = write(self.dir, "g.json", chain(1))
        self.plan(chain(1))
        os.chmod(self.db, 0o664)
        r = cli("cache", "list", *self.here)
        self.assertEqual(r.returncode, 4, r.stderr)
        self.assertIn("chmod go-w", r.stderr)
        r = cli("optimize", graph, *self.here, "--json")
        self.assertIn("working without a cache", r.stderr)
        self.assertEqual(r.returncode, 0)
        os.chmod(self.db, 0o644)
        self.assertEqual(len(self.doc("cache", "list", *self.here)["entries"]), 2)
        if os.geteuid():
            return
        os.chown(self.db, MEMBER, -1)
        self.assertIn(f"belongs to user {MEMBER}", cli("cache", "list", *self.here).stderr)
        os.chown(self.db, 0, -1)
        with open(self.db + "-wal", "wb"):
            pass
        os.chown(self.db + "-wal", MEMBER, -1)
        self.assertIn(f"-wal belongs to user {MEMBER}", cli("cache", "list", *self.here).stderr)


class Believed(Exported, ServiceCase):
    """A service that takes only what a signer signed; whoever may import can ask for less and not for more."""
    @classmethod
    def setUpClass(cls):
        cls.keys = tempfile.mkdtemp(prefix="dovetail-e2e.")
        cls.lines = {name: cli("cache", "keygen", name, "-o", f"{cls.keys}/{name}").stdout for name in ("farm", "barn")}
        cls.config = {"signers": write(cls.keys, "signers", cls.lines["farm"]), "require_signer": "any",
                      "import_max_mb": 2, "import_max_days": 30}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.keys)

    def post(self, bundle, query=""):
        with open(bundle, "rb") as f:
            return self.s.http("POST", "/v1/cache/import" + query, f.read())

    def bundle(self, name):
        path = f"{self.dir}/{name}.zst"
        self.ok("cache", "export", "-o", path, *self.elsewhere, *(["--sign", f"{self.keys}/{name}"] if name else []))
        return path

    def test_only_signers(self):
        graph = chain(3)
        made, old = self.export(graph)
        self.assertEqual(self.post(self.bundle("barn")).json()["imported"], 0)
        self.assertEqual(self.post(self.bundle("")).json()["refused"], 1)
        reply = self.s.http("POST", "/v1/cache/import", old.encode()).json()
        self.assertEqual((reply["imported"], reply["refused"], reply["complete"]), (0, 1, False))
        hit = self.s.post(graph)
        self.assertEqual(self.s.finish(hit)["state"], "done")
        self.assertNotIn("reverified", self.s.post(graph).json()["verified"])  # nobody's recipe was looked at
        self.s.http("POST", "/v1/cache/gc?max_bytes=0")
        farm = self.bundle("farm")
        # a query cannot name whom to believe, nor a larger bound
        self.assertEqual(self.post(farm, "?signers=/tmp/x").status, 400)
        self.problem(self.post(farm, "?require=barn"), 400, "usage")
        self.problem(self.post(farm, "?max_bytes=100"), 413, "too-large")
        self.assertEqual(self.post(farm, "?max_age=3600&require=farm&max_bytes=999999999").json(),
                         came(1, signer="farm"))
        recipe, = self.s.http("GET", "/v1/cache/entries").json()["recipes"]
        self.assertRegex(recipe["origin"], r"uid \d+, signed by farm")
        self.s.finish(self.s.post(graph))
        plan = self.s.post(graph).json()
        self.assertIn("reverified", plan["verified"])
        self.assertEqual((plan["modules"], plan["launches"]), (made["modules"], made["launches"]))
        # larger than it may be when it is unpacked, and small as a file
        with open(f"{self.dir}/bomb", "wb") as f:
            f.write(subprocess.run(["zstd", "-c"], input=b'{"dovetail_cache": 2}\n' + b"0" * (5 << 20), check=True,
                                   capture_output=True).stdout if shutil.which("zstd") else b"0" * (5 << 20))
        self.problem(self.post(f"{self.dir}/bomb"), 413, "too-large")
        # the file of signers is read anew: revoked, then replaced by another key of that name
        write(self.keys, "signers", self.lines["farm"].strip() + " revoked\n" + self.lines["barn"])
        self.s.http("POST", "/v1/cache/gc?max_bytes=0")
        self.assertIn("revoked", self.post(farm).json()["reasons"][0]["reason"])
        self.assertEqual(self.post(self.bundle("barn")).json(), came(1, signer="barn"))

    def test_check_config(self):
        for config, word in (("require_signer = farm\n", "signers names no file"),
                             ("signers = /nonexistent\n", "No such file"),
                             (f"signers = {self.keys}/signers\nrequire_signer = cow\n", "not among those"),
                             (f"signers = {self.keys}/farm\n", "line 1")):
            path = write(self.dir, "c.conf",
                         config + f"device = soft\nsocket = {self.dir}/s\ncache = {self.dir}/c.db\n")
            r = subprocess.run([DAEMON, "--config", path, "--check-config"], capture_output=True, text=True,
                               check=False)
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(word, r.stderr)


@unittest.skipUnless(os.geteuid() == 0, "needs root, to be somebody else")
class Strangers(Exported, ServiceCase):
    config = {"admin_group": ADMIN_GROUP, "admin_uids": f"{ADMIN}, 54329"}

    def setUp(self):
        super().setUp()
        os.chmod(self.s.dir, 0o755)
        self.assertEqual(os.stat(self.s.socket).st_gid, os.getegid())

    def call(self, uid, method, path, body="", gid=None, groups=()):
        """Somebody who is in the socket's group."""
        def work():
            c = UnixHTTP(self.s.socket, 60)
            c.request(method, path, body=body.encode())
            a = c.getresponse()
            got = a.read()
            packed = a.getheader("Content-Type") == "application/zstd"
            answer = a.status, dict(a.getheaders()), unpacked(got) if packed else got.decode()
            c.close()
            return answer
        return as_user(uid, os.getegid() if gid is None else gid, list(groups), work)

    def forbidden(self, reply):
        self.assertEqual((reply[0], json.loads(reply[2])["code"]), (403, "forbidden"), reply)
        self.assertIn("admin_group", json.loads(reply[2])["detail"])

    def post(self, uid, graph):
        """A plan for a user; whether it was a hit."""
        status, headers, text = self.call(uid, "POST", "/v1/jobs?want=plan", json.dumps(graph))
        if status == 200:
            return True, json.loads(text)
        self.assertEqual(status, 202, text)
        job = json.loads(self.call(uid, "GET", headers["Location"] + "?wait=60")[2])
        self.assertEqual(job["state"], "done", job)
        return False, json.loads(self.call(uid, "GET", headers["Location"] + "/result")[2])

    def owned(self, uid, **kw):
        status, _, text = self.call(uid, "GET", "/v1/cache/export", **kw)
        self.assertEqual(status, 200, text)
        return {json.loads(line)["row"][0] for line in text.splitlines()[1:-1]}

    def test_owned_at_once(self):
        """Who got a hit finds it in an export that follows, also when somebody else was writing just then."""
        graph = chain(3, factor=2.5)
        _, plan = self.post(OTHER, graph)
        db = sqlite3.connect(self.s.dir + "/cache.db", isolation_level=None, timeout=30, check_same_thread=False)
        db.execute("BEGIN IMMEDIATE")
        end = threading.Timer(0.4, db.execute, ["ROLLBACK"])
        end.start()
        self.assertEqual(self.post(MEMBER, graph)[0], True)
        self.assertEqual(db.in_transaction, True)
        self.assertIn(plan["signature"], self.owned(MEMBER))
        end.join()
        db.close()

    def test_planted(self):
        """The attack as it was: export, other PTX, checksum, empty cache, import; the next client's post."""
        graph, outputs = chain(3, factor=3.0), []
        self.call(0, "POST", "/v1/cache/gc?max_bytes=0")
        _, made = self.post(OTHER, graph)
        # a member gets nothing of others, and may neither empty the cache nor fill it
        self.assertEqual(self.owned(MEMBER), set())
        self.assertEqual(self.post(MEMBER, graph)[0], True)
        text = self.call(MEMBER, "GET", "/v1/cache/export")[2]  # now it is theirs too
        forged = redirected(text)
        self.assertNotEqual(forged, text)
        self.forbidden(self.call(MEMBER, "POST", "/v1/cache/gc?max_bytes=0"))
        self.forbidden(self.call(MEMBER, "POST", "/v1/cache/import", forged))
        self.assertEqual(self.post(OTHER, graph)[0], True)
        # an admin who is taken in
        self.assertEqual(self.call(ADMIN, "POST", "/v1/cache/gc?max_bytes=0")[0], 200)
        status, _, answer = self.call(ADMIN, "POST", "/v1/cache/import", forged)
        self.assertEqual((status, json.loads(answer)), (200, came(1, 0, 0)))
        hit, plan = self.post(OTHER, graph)
        self.assertFalse(hit)
        self.assertNotIn("add.rn", "".join(m["ptx"] for m in plan["modules"].values()))
        self.assertNotIn("reverified", plan["verified"])
        for k, doc in enumerate((graph, plan)):
            out = self.dir + f"/out{k}"
            self.ok("run", write(self.dir, f"run{k}.json", doc), "--local", "--device", "soft", "--dump", out)
            with open(out + "/d.bin", "rb") as f:
                outputs.append(f.read())
        self.assertEqual(outputs[0], outputs[1])
        listed, = json.loads(self.call(OTHER, "GET", "/v1/cache/entries?signature=" + made["signature"])[2])["recipes"]
        self.assertEqual((listed["state"], listed["origin"]), ("refused", f"uid {ADMIN}"))
        self.assertIn("digest", listed["reason"])
        # what is genuine is built anew here
        self.assertEqual(self.call(ADMIN, "POST", "/v1/cache/gc?max_bytes=0")[0], 200)
        self.assertEqual(json.loads(self.call(ADMIN, "POST", "/v1/cache/import", text)[2])["imported"], 1)
        hit, plan = self.post(OTHER, graph)
        self.assertFalse(hit)
        self.assertIn("reverified", plan["verified"])
        self.assertEqual((plan["modules"], plan["launches"]), (made["modules"], made["launches"]))
        self.assertTrue(self.post(MEMBER, graph)[0])

    def test_who_may(self):
        self.call(0, "POST", "/v1/cache/gc?max_bytes=0")
        for uid, kw, may in ((MEMBER, {}, False), (MEMBER, {"gid": 1, "groups": [os.getegid(), 7]}, False),
                             (ADMIN, {}, True), (MEMBER, {"gid": ADMIN_GROUP, "groups": [os.getegid()]}, True),
                             (MEMBER, {"groups": [3, ADMIN_GROUP]}, True), (0, {}, True)):
            for path in ("/v1/cache/gc", "/v1/cache/import"):
                reply = self.call(uid, "POST", path, bundle_of([]) if path.endswith("import") else "", **kw)
                if may:
                    self.assertEqual(reply[0], 200, (uid, kw, reply))
                else:
                    self.forbidden(reply)

    def test_time_limits(self):
        """A job that somebody else gave little time is not mine."""
        jobs = [json.loads(self.call(uid, "POST", "/v1/jobs?want=run" + query, json.dumps(endless(5)))[2])["id"]
                for uid, query in ((MEMBER, "&timeout=2"), (OTHER, ""), (ADMIN, "&timeout=2"))]
        self.assertEqual(jobs[0] == jobs[1], False)
        self.assertEqual(jobs[0], jobs[2])
        self.assertEqual(self.s.http("GET", f"/v1/jobs/{jobs[0]}?wait=20").json()["problem"]["code"], "time-limit")
        self.assertIn(self.s.http("GET", "/v1/jobs/" + jobs[1]).json()["state"], ("queued", "running"))
        self.assertEqual(self.call(OTHER, "DELETE", "/v1/jobs/" + jobs[1])[0], 200)
        self.assertEqual(self.s.http("GET", f"/v1/jobs/{jobs[1]}?wait=20").json()["state"], "cancelled")

    def test_exports(self):
        self.call(0, "POST", "/v1/cache/gc?max_bytes=0")
        sig = {}
        for uid, n in ((MEMBER, 1), (OTHER, 2)):
            sig[n] = self.post(uid, chain(n, factor=7.0))[1]["signature"]
        self.assertEqual(self.owned(MEMBER), {sig[1]})
        self.assertEqual(self.owned(OTHER), {sig[2]})
        self.assertEqual(self.owned(54330), set())
        self.assertEqual(self.owned(0), {sig[1], sig[2]})
        self.assertEqual(self.owned(54330, groups=[ADMIN_GROUP]), {sig[1], sig[2]})
        self.assertTrue(self.post(MEMBER, chain(2, names="klmnop", factor=7.0))[1]["signature"], sig[2])
        self.assertEqual(self.owned(MEMBER), {sig[1], sig[2]})  # it is of both
        self.assertEqual(self.owned(OTHER), {sig[2]})
        # planning again what is stored makes nobody an owner
        with sqlite3.connect(self.s.dir + "/cache.db", timeout=20) as db:
            db.execute("DELETE FROM entry WHERE want = 'plan' AND signature = ?", (sig[1],))
        self.assertEqual(json.loads(self.call(OTHER, "POST", "/v1/reprofile")[2])["due"], 0)  # it is not theirs
        jobs = json.loads(self.call(ADMIN, "POST", "/v1/reprofile")[2])["jobs"]
        for j in jobs:
            self.assertEqual(json.loads(self.call(ADMIN, "GET", f"/v1/jobs/{j['id']}?wait=60")[2])["state"], "done")
        self.assertEqual((len(jobs), self.owned(OTHER), self.owned(MEMBER)), (1, {sig[2]}, {sig[1], sig[2]}))


if __name__ == "__main__":
    main()
