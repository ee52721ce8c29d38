"""The store that hosts share, call by call, on a real PostgreSQL: directly and through pgbouncer in transaction mode.

What the local store (SQLite) does as well is in Common, which runs against all three.
"""
import base64
import hashlib
import os
import re
import sqlite3
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import SLOW, Server, available  # noqa: E402
from store import Store, key, plan, signature  # noqa: E402

server = None
names = iter(range(1, 1 << 30))


def setUpModule():
    global server
    if not available():
        raise unittest.SkipTest("PostgreSQL is not installed")
    server = Server()


def tearDownModule():
    if server:
        server.remove()


def patient(what, seconds=20):
    """What happens beside the calls."""
    deadline = time.monotonic() + seconds * SLOW
    while not what():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.02)


def statement(name):
    """The text of a row of cluster/statements.def."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../cluster/statements.def"),
              encoding="utf-8") as f:
        row = re.search(rf"STATEMENT\({name}, ((?:\s*\"[^\"]*\")+)\)", f.read())
    return "".join(re.findall(r'"([^"]*)"', row[1]))


class Case(unittest.TestCase):
    bouncer = False

    def store(self, space="default", **options):
        s = Store(server.url(bouncer=self.bouncer), space, **options)
        self.addCleanup(s.close)
        return s

    def new(self):
        return key(next(names))


# ---- what every store does ------------------------------------------------------------------------------------------
class Common:
    def test_put_find(self):
        s, k = self.store(), self.new()
        self.assertEqual(s.find(k).outcome, "none")
        self.assertEqual(s.put(k, plan=plan(1)).outcome, "ok")
        found = s.find(k)
        self.assertEqual((found.outcome, found.row["recipe"]), ("ok", plan(1)["recipe"]))

    def test_every_factor(self):
        """A key that differs in anything is another key."""
        s, k = self.store(), self.new()
        s.put(k, plan=plan(1))
        for i in range(4):
            other = list(k)
            other[i] = signature("other") if i == 0 else k[i] + "x"
            self.assertEqual(s.find(other).outcome, "none", i)
        # parts of a key do not run together
        self.assertEqual(s.find([k[0], k[1] + k[2], "", k[3]][:2] + [k[3], k[2]]).outcome, "none")

    def test_first_stays(self):
        """A later arrival that is no better does not take the place of what is there."""
        s, k = self.store(), self.new()
        self.assertEqual(s.put(k, plan=plan(1)).outcome, "ok")
        self.assertEqual(s.put(k, plan=plan(2)).outcome, "none")
        self.assertEqual(s.put(k, plan=plan(1)).outcome, "none")
        self.assertEqual(s.find(k).row["recipe"], plan(1)["recipe"])

    def test_refused_goes(self):
        """What did not hold here is replaced by what another host found."""
        s, k = self.store(), self.new()
        s.put(k, plan=plan(1))
        digest = s.find(k).row["digest"]
        if self.local:
            s.refuse(k)
        self.assertEqual(s.put(k, plan=plan(2), instead=digest).outcome, "ok")
        self.assertEqual(s.find(k).row["recipe"], plan(2)["recipe"])

    def test_damaged(self):
        """A row that was changed is not there."""
        for column, value in (("body", '{"steps": []}'), ("digest", signature("d")), ("body", "{}x")):
            with self.subTest(column=column, value=value):
                s, k = self.store(), self.new()
                s.put(k, plan=plan(1))
                self.damage(k, column, value)
                self.assertEqual(s.find(k).outcome, "none")
                self.assertEqual(s.find(k).outcome, "none")

    def test_too_large(self):
        s, k = self.store(), self.new()
        large = plan(1)
        large["recipe"]["x"] = "x" * (5 << 20)
        s.put(k, plan=large)
        self.assertEqual(s.find(k).outcome, "none")
        self.assertEqual(s.put(k, plan=plan(2)).outcome, "ok")
        self.assertEqual(s.find(k).row["recipe"], plan(2)["recipe"])

    def test_odd_text(self):
        """Quotes, backslashes and other scripts are text like any other."""
        s = self.store()
        for odd in ("'; DROP TABLE dovetail_entry; --", 'a"b\\c', "{},", "grün 日本 \u2028", "$1", "%s%n", "x" * 4096):
            k = [signature(next(names)), odd, odd, odd]
            p = plan(1)
            p["recipe"]["odd"] = odd
            self.assertEqual(s.put(k, plan=p).outcome, "ok", odd)
            self.assertEqual(s.find(k).row["recipe"], p["recipe"])


class Local(Common, Case):
    local = True

    def store(self):
        if not hasattr(self, "path"):
            self.dir = tempfile.TemporaryDirectory()
            self.path = os.path.join(self.dir.name, "cache.db")
            self.addCleanup(self.dir.cleanup)
        s = Store(self.path)
        self.addCleanup(s.close)
        return s

    def damage(self, k, column, value):
        db = sqlite3.connect(self.path)
        self.assertEqual(db.execute(f"UPDATE recipe SET {column} = ? WHERE signature = ?", (value, k[0])).rowcount, 1)
        db.commit()
        db.close()


class Direct(Common, Case):
    local = False

    def damage(self, k, column, value):
        name = {"body": "recipe"}.get(column, column)
        server.sql(f"UPDATE dovetail_entry SET {name} = '{value}' WHERE signature = '{k[0]}'")

    # ---- recipes ----------------------------------------------------------------------------------------------------
    def test_better_wins(self):
        """The newer rewriter, then the better evidence; not the later arrival."""
        s, k = self.store(), self.new()
        for n, (rewriter, evidence, wins) in enumerate((
                (5, "modeled", True), (5, "modeled", False), (4, "measured", False), (5, "measured", True),
                (5, "modeled", False), (5, "measured", False), (6, "modeled", True), (5, "measured", False),
                (6, "measured:cuda", True))):
            r = s.put(k, plan=plan(n), rewriter=rewriter, evidence=evidence)
            self.assertEqual(r.outcome, "ok" if wins else "none", (n, rewriter, evidence))
            if wins:
                now = plan(n)["recipe"], rewriter, evidence
            row = s.find(k).row
            self.assertEqual((row["recipe"], row["rewriter"], row["evidence"]), now)

    def test_better_wins_at_once(self):
        """Many hosts at one moment: the best is there in the end, and nobody was turned away."""
        hosts, k = [self.store() for _ in range(4)], self.new()
        calls = [(s, s.begin("put", key=k, plan=plan(i), rewriter=i)) for i in range(40) for s in hosts]
        for s, h in calls:
            self.assertIn(s.end(h)["outcome"], ("ok", "none"))
        self.assertEqual(hosts[0].find(k).row["rewriter"], 39)

    def test_all_that_was_put(self):
        s, k = self.store(), self.new()
        s.put(k, plan=plan(1), rewriter=3, evidence="measured", factors={"a": [1, 2]}, stamp=1234567890, signer="me",
              seal="c2VhbA==")
        row = s.find(k).row
        self.assertEqual({n: row[n] for n in ("rewriter", "evidence", "factors", "stamp", "signer", "seal")},
                         {"rewriter": 3, "evidence": "measured", "factors": {"a": [1, 2]}, "stamp": 1234567890,
                          "signer": "me", "seal": "c2VhbA=="})
        self.assertLess(abs(row["created"] - time.time()), 600)

    def test_forged(self):
        """Whoever knows the format can write what they like: the row is given as it is, and the worker's to check."""
        s, k = self.store(), self.new()
        s.put(k, plan=plan(1))
        self.assertEqual(s.forge(k, signature("forged")).outcome, "ok")
        row = s.find(k).row
        self.assertEqual((row["digest"], row["recipe"]), (signature("forged"), plan(1)["recipe"]))

    def test_columns(self):
        """Every factor of a key is a column, for whoever looks for entries by one of them."""
        s, k = self.store(), self.new()
        s.put(k, plan=plan(1))
        self.assertEqual(server.sql("SELECT signature, device, toolchain, policy, space FROM dovetail_entry "
                                    f"WHERE signature = '{k[0]}'"), [k + ["default"]])

    def test_namespaces(self):
        """Held apart by every statement, and by the database for statements that are wrong."""
        a, b, k = self.store("a"), self.store("b"), self.new()
        a.put(k, plan=plan(1))
        a.claim(k, ms=60000)
        self.assertEqual(b.find(k).outcome, "none")
        self.assertEqual(b.near(k).outcome, "none")
        self.assertEqual(b.claim(k, ms=1000).outcome, "ok")
        self.assertEqual(b.put(k, plan=plan(2)).outcome, "ok")
        self.assertEqual(a.find(k).row["recipe"], plan(1)["recipe"])
        tables = [t for t, in server.sql("SELECT relname FROM pg_class WHERE relname LIKE 'dovetail\\_%' AND "
                                         "relkind = 'r' AND relname <> 'dovetail_schema'")]
        self.assertEqual(len(tables), 7)
        server.sql("INSERT INTO dovetail_queue VALUES ('a', 'd', '" + "x" * 71 + "', 1, '', '', 'waiting', 0, '', 0, "
                   "now(), now()) ON CONFLICT DO NOTHING")
        a.queue_add(graph=k[0], device="d", rank=1, reason="r")
        a.measure_put(kind="trial", device="d", rows={"k": "v"})
        a.graph_put(digest=k[0], text="{}")
        self.assertEqual(b.graph_get(digest=k[0]).outcome, "none")
        self.damage(self.put_in(a), "body", "{}")
        a.find(self.last)
        for t in tables:
            seen = f"SELECT count(*) FROM {t} WHERE space = 'a'"
            patient(lambda: server.sql(seen) != [["0"]])
            self.assertEqual(server.sql(seen, role="dovetail"), [["0"]], t)
            self.assertEqual(server.sql(f"SET dovetail.namespace = 'b'; {seen}", role="dovetail"), [["0"]], t)
        with self.assertRaisesRegex(RuntimeError, "row-level security"):
            server.sql("SET dovetail.namespace = 'b'; UPDATE dovetail_lease SET space = 'a'", role="dovetail")

    def put_in(self, s):
        self.last = self.new()
        s.put(self.last, plan=plan(1))
        return self.last

    def test_damaged_is_reported(self):
        """Set aside, counted, logged; then its key is free, for whatever version."""
        s, k = self.store(), self.new()
        s.put(k, plan=plan(1), rewriter=9)
        self.damage(k, "rewriter", 900000)
        self.assertEqual(s.find(k).outcome, "none")
        self.assertEqual(s.counts()["damaged"], 1)
        self.assertTrue(any("its sum does not match" in line for line in s.log), s.log)
        gone = f"SELECT 1 FROM dovetail_entry WHERE signature = '{k[0]}'"
        patient(lambda: not server.sql(gone))
        self.assertEqual(s.put(k, plan=plan(2), rewriter=1).outcome, "ok")
        self.assertEqual(s.find(k).row["recipe"], plan(2)["recipe"])
        self.assertTrue(server.sql("SELECT 1 FROM dovetail_aside WHERE reason LIKE '%sum%'"))

    def test_moved(self):
        """A good row under another key, or in another namespace, is a damaged one."""
        s, other, k, l = self.store(), self.store("elsewhere"), self.new(), self.new()
        s.put(k, plan=plan(1))
        s.put(l, plan=plan(2))
        columns = "digest, recipe, rewriter, checksum"
        server.sql(f"UPDATE dovetail_entry SET ({columns}) = (SELECT {columns} FROM dovetail_entry WHERE signature = "
                   f"'{k[0]}') WHERE signature = '{l[0]}'")
        self.assertEqual(s.find(l).outcome, "none")
        server.sql(f"UPDATE dovetail_entry SET space = 'elsewhere' WHERE signature = '{k[0]}'")
        self.assertEqual(other.find(k).outcome, "none")

    def test_newer_format(self):
        """A row of a later version is not damaged: it is let alone."""
        s, k = self.store(), self.new()
        s.put(k, plan=plan(1), rewriter=1)
        self.damage(k, "format", 2)
        self.assertEqual(s.find(k).outcome, "none")
        self.assertEqual(s.put(k, plan=plan(2), rewriter=5).outcome, "none")
        self.assertEqual(server.sql(f"SELECT format FROM dovetail_entry WHERE signature = '{k[0]}'"), [["2"]])

    def test_bad_arguments(self):
        """Refused before anything is sent, and what the server refuses is refused for good as well."""
        s, k = self.store(), self.new()
        for name, call in {
                "signature": lambda: s.find(["x"] + k[1:]), "long": lambda: s.find([k[0], "d" * 4097] + k[2:]),
                "empty": lambda: s.claim([k[0], "", "t", "p"], ms=10),
                "digest": lambda: s.put(k, plan=plan(1), digest="1"),
                "recipe": lambda: s.put(k, digest=signature(1)),
                "bytes": lambda: s.put(k, digest=signature(1), bytes=5 << 20),
                "rewriter": lambda: s.put(k, plan=plan(1), rewriter=-1),
                "evidence": lambda: s.put(k, plan=plan(1), evidence="x" * 65),
                "seal": lambda: s.put(k, plan=plan(1), seal="x" * 513),
                "keys": lambda: s.measure_get(kind="k", device="d", keys=["a,b"]),
                "none": lambda: s.measure_get(kind="k", device="d", keys=[]),
                "many": lambda: s.measure_get(kind="k", device="d", keys=[str(i) for i in range(65)]),
                "device": lambda: s.queue_add(graph=k[0], device="d" * 201, rank=1, reason="r"),
                "note": lambda: s.queue_add(graph=k[0], device="d", rank=1, reason="r", note={"x": "x" * 5000}),
                }.items():
            r = call()
            self.assertEqual((r.outcome, bool(r.why)), ("refused", True), (name, r))
        self.assertEqual(s.counts()["late"], 0)

    def test_limits_of_the_database(self):
        """Another program that writes to the tables is held to the same limits."""
        s, k = self.store(), self.new()
        s.put(k, plan=plan(1))
        for column, value in (("recipe", "repeat('x', 4194305)"), ("device", "repeat('x', 4097)"), ("space", "''"),
                              ("grade", "2"), ("digest", "''")):
            with self.assertRaisesRegex(RuntimeError, "check constraint", msg=column):
                server.sql(f"UPDATE dovetail_entry SET {column} = {value} WHERE signature = '{k[0]}'")

    def test_near(self):
        s, k = self.store(), self.new()
        self.assertEqual(s.near(k).outcome, "none")
        for i in range(20):
            s.put([k[0], f"device {i}", k[2], k[3]], plan=plan(i), rewriter=i)
        s.put(k, plan=plan(1))
        r = s.near(k)
        self.assertEqual((r.outcome, len(r.row["entries"])), ("ok", 16))
        self.assertEqual(r.row["entries"][0]["device"], "device 19")
        self.assertNotIn(k[1], [e["device"] for e in r.row["entries"]])

    def test_used(self):
        """Written once a day for an entry, not with each find."""
        s, k = self.store(), self.new()
        s.put(k, plan=plan(1))
        server.sql(f"UPDATE dovetail_entry SET used = now() - interval '3 day' WHERE signature = '{k[0]}'")
        s.find(k)
        fresh = f"SELECT used > now() - interval '1 hour' FROM dovetail_entry WHERE signature = '{k[0]}'"
        patient(lambda: server.sql(fresh) == [["t"]])
        mark = server.sql(f"SELECT xmin FROM dovetail_entry WHERE signature = '{k[0]}'")
        for _ in range(5):
            s.find(k)
        time.sleep(0.2)
        self.assertEqual(server.sql(f"SELECT xmin FROM dovetail_entry WHERE signature = '{k[0]}'"), mark)

    # ---- leases -----------------------------------------------------------------------------------------------------
    def test_swept(self):
        """What no host took for long goes, in one's own namespace; by size, what was taken least lately."""
        keys = [self.new() for _ in range(6)]
        swept, other = f"swept-{next(names)}", f"other-{next(names)}"
        for space in (swept, other):
            s = self.store(space)
            for k in keys:
                self.assertEqual(s.put(k, plan=plan(1)).outcome, "ok")
            server.sql(f"INSERT INTO dovetail_measure VALUES ('{space}', 'k', 'd', 'x', '', repeat('0', 71), "
                       "now() - interval '40 day')")
            for k in keys[:3]:
                self.assertEqual(s.graph_put(digest=k[0], text="{}" * 100).outcome, "ok")
        for k, days in (keys[0], 40), (keys[1], 20):
            server.sql(f"UPDATE dovetail_graph SET used = now() - interval '{days} day' WHERE digest = '{k[0]}'")
        for k, days in (keys[0], 40), (keys[1], 40), (keys[2], 20):
            server.sql(f"UPDATE dovetail_entry SET used = now() - interval '{days} day' WHERE signature = '{k[0]}'")

        def left(space, table="entry"):
            return int(server.sql(f"SELECT count(*) FROM dovetail_{table} WHERE space = '{space}'")[0][0])
        self.store(swept, keep_days=30)
        patient(lambda: left(swept) == 4 and left(swept, "measure") == 0 and left(swept, "graph") == 2)
        self.assertEqual((left(other), left(other, "measure"), left(other, "graph")), (6, 1, 3))
        self.store(swept, max_bytes=1)  # what was taken within a day stays, whatever the size
        patient(lambda: left(swept) == 3 and left(swept, "graph") == 1)
        self.store(other, max_bytes=1 << 20, keep_days=60)  # within both
        self.store(other, keep_days=39)
        patient(lambda: left(other) == 4 and left(other, "measure") == 0 and left(other, "graph") == 2)
        self.assertEqual(left(swept), 3)

    def test_lease(self):
        a, b, k = self.store(), self.store(), self.new()
        one = a.claim(k, ms=60000)
        self.assertEqual(one.outcome, "ok")
        busy = b.claim(k, ms=60000)
        self.assertEqual(busy.outcome, "busy")
        self.assertTrue(50000 < busy.row["left_ms"] <= 60000, busy)
        self.assertEqual(b.claim(self.new(), ms=1000).outcome, "ok")
        self.assertEqual(b.renew(k, token=one.row["token"] + 1, ms=1000).outcome, "lost")
        self.assertEqual(b.release(k, token=one.row["token"] + 1).outcome, "lost")
        self.assertEqual(a.renew(k, token=one.row["token"], ms=90000).outcome, "ok")
        self.assertGreater(b.claim(k, ms=1).row["left_ms"], 80000)
        self.assertEqual(a.release(k, token=one.row["token"]).outcome, "ok")
        self.assertEqual(a.renew(k, token=one.row["token"], ms=90000).outcome, "lost")
        two = b.claim(k, ms=60000)
        self.assertEqual(two.outcome, "ok")
        self.assertGreater(two.row["token"], one.row["token"])

    def test_lease_runs_out(self):
        a, b, k = self.store(), self.store(), self.new()
        one = a.claim(k, ms=150)
        time.sleep(0.3)
        self.assertEqual(a.renew(k, token=one.row["token"], ms=100).outcome, "ok")  # nobody has taken it
        time.sleep(0.3)
        two = b.claim(k, ms=60000)
        self.assertEqual(two.outcome, "ok")
        self.assertEqual(a.renew(k, token=one.row["token"], ms=100).outcome, "lost")
        self.assertEqual(a.put(k, token=one.row["token"], plan=plan(1), rewriter=9).outcome, "lost")
        self.assertEqual(a.find(k).outcome, "none")
        self.assertEqual(b.put(k, token=two.row["token"], plan=plan(2)).outcome, "ok")

    def test_lease_ends_with_its_result(self):
        a, b, k = self.store(), self.store(), self.new()
        token = a.claim(k, ms=60000).row["token"]
        self.assertEqual(a.put(k, token=token, plan=plan(1)).outcome, "ok")
        self.assertEqual(b.claim(k, ms=1000).outcome, "ok")
        self.assertEqual(a.put(k, token=token, plan=plan(1)).outcome, "lost")
        self.assertEqual(a.put(k, plan=plan(1)).outcome, "none")

    def test_late_result(self):
        """Its lease ran out and nobody took it: it is as good as one in time."""
        s, k = self.store(), self.new()
        token = s.claim(k, ms=50).row["token"]
        time.sleep(0.2)
        self.assertEqual(s.put(k, token=token, plan=plan(1)).outcome, "ok")

    def test_forgotten_lease(self):
        """A row that was deleted and made again does not give out a number twice."""
        s, k = self.store(), self.new()
        token = s.claim(k, ms=60000).row["token"]
        server.sql("DELETE FROM dovetail_lease")
        self.assertGreater(s.claim(k, ms=1000).row["token"], token)
        self.assertEqual(s.put(k, token=token, plan=plan(1)).outcome, "lost")

    def test_one_lease(self):
        """Of many hosts that claim at once one gets it, each round."""
        hosts = [self.store(connections=2) for _ in range(6)]
        for _ in range(10):
            k = self.new()
            calls = [(s, s.begin("claim", key=k, ms=60000)) for s in hosts for _ in range(4)]
            outcomes = sorted(s.end(h)["outcome"] for s, h in calls)
            self.assertEqual(outcomes, ["busy"] * 23 + ["ok"])

    # ---- measurements -----------------------------------------------------------------------------------------------
    def test_measures(self):
        s, d = self.store(), f"device {next(names)}"
        self.assertEqual(s.measure_get(kind="trial", device=d, keys=["a", "b"]).outcome, "none")
        rows = {"a": "one", "b": "x" * 100000, signature(1): "", "z": "\u00ff"}
        self.assertEqual(s.measure_put(kind="trial", device=d, rows=rows).outcome, "ok")
        self.assertEqual(s.measure_put(kind="trial", device=d, rows={"a": "two", "c": "three"}).outcome, "ok")
        got = s.measure_get(kind="trial", device=d, keys=["a", "b", "c", "d", "z", signature(1)]).row
        self.assertEqual({k: base64.b64decode(v["body"]).decode() for k, v in got.items()}, {**rows, "c": "three"})
        self.assertEqual({frozenset(v) for v in got.values()}, {frozenset(("body", "stamp"))})
        for other in ({"kind": "other", "device": d}, {"kind": "trial", "device": d + "x"}):
            self.assertEqual(s.measure_get(keys=["a"], **other).outcome, "none")

    def test_measure_damaged(self):
        s, d = self.store(), f"device {next(names)}"
        s.measure_put(kind="trial", device=d, rows={"a": "one", "b": "two"})
        server.sql(f"UPDATE dovetail_measure SET body = '!!!!' WHERE device = '{d}' AND key = 'a'")
        self.assertEqual(list(s.measure_get(kind="trial", device=d, keys=["a", "b"]).row), ["b"])
        self.assertEqual(s.counts()["damaged"], 1)
        patient(lambda: server.sql(f"SELECT key FROM dovetail_measure WHERE device = '{d}'") == [["b"]])
        s.measure_put(kind="trial", device=d, rows={"a": "again"})
        self.assertEqual(sorted(s.measure_get(kind="trial", device=d, keys=["a", "b"]).row), ["a", "b"])

    def test_measure_seals(self):
        """A seal comes back as it was put; a row that has one takes the place of one that has none, or of the one that
        it names, and of no other."""
        s, d = self.store(), f"device {next(names)}"

        def put(body, **seal):
            self.assertEqual(s.measure_put(kind="trial", device=d, rows={"a": body}, **seal).outcome, "ok")
            row = s.measure_get(kind="trial", device=d, keys=["a"]).row["a"]
            return base64.b64decode(row.pop("body")).decode(), row
        self.assertEqual(put("one"), ("one", {"stamp": 0}))
        self.assertEqual(put("two"), ("one", {"stamp": 0}))
        self.assertEqual(put("two", instead="x"), ("one", {"stamp": 0}))
        first = {"signer": "farm", "seal": "c2VhbA==", "stamp": 1234567890}
        self.assertEqual(put("three", **first), ("three", first))
        other = {"signer": "barn", "seal": "b3RoZXI=", "stamp": 1234567891}
        self.assertEqual(put("four"), ("three", first))
        self.assertEqual(put("four", instead=first["seal"]), ("three", first))  # without a seal
        self.assertEqual(put("four", **other), ("three", first))
        self.assertEqual(put("four", instead="b3RoZXI=", **other), ("three", first))
        self.assertEqual(put("four", instead=first["seal"], **other), ("four", other))
        for long in {"signer": "x" * 129}, {"seal": "x" * 513}, {"instead": "x" * 513}:
            r = s.measure_put(kind="trial", device=d, rows={"a": "b"}, **long)
            self.assertEqual((r.outcome, bool(r.why)), ("refused", True), long)

    def test_measure_before_seals(self):
        """What a service of the version before writes is read, and what is written now it reads: names of columns and
        the sum are as they were."""
        s, d = self.store(), f"device {next(names)}"
        body = base64.b64encode(b"old").decode()
        text = b"".join(len(t).to_bytes(8, "little") + t.encode() for t in ("default", "trial", d, "a", body))
        checksum = "sha256:" + hashlib.sha256(text).hexdigest()
        server.sql("INSERT INTO dovetail_measure (space, kind, device, key, body, checksum, created) VALUES "
                   f"('default', 'trial', '{d}', 'a', '{body}', '{checksum}', now()) ON CONFLICT (space, kind, device, "
                   "key) DO NOTHING")
        self.assertEqual(s.measure_get(kind="trial", device=d, keys=["a"]).row, {"a": {"body": body, "stamp": 0}})
        s.measure_put(kind="trial", device=d, rows={"a": "old"}, signer="farm", seal="c2VhbA==", stamp=7)
        self.assertEqual(server.sql("SELECT body, checksum, signer FROM dovetail_measure WHERE space = 'default' AND "
                                    f"kind = 'trial' AND device = '{d}'"), [[body, checksum, "farm"]])

    def test_queries(self):
        """With many rows each statement finds its own by an index, under the policies as well."""
        s, d = self.store("crowd"), f"device {next(names)}"
        k = self.new()
        s.put(k, plan=plan(1))
        self.work(s, 1, d)
        other = "'sha256:' || encode(sha256(('x' || i)::bytea), 'hex')"
        many = "generate_series(1, 20000) i WHERE space = 'crowd'"
        server.sql(f"INSERT INTO dovetail_entry SELECT space, {other}, {other}, device, toolchain, policy, format, "
                   "digest, recipe, rewriter, evidence, grade, factors, stamp, signer, seal, checksum, created, used "
                   f"FROM dovetail_entry, {many}; INSERT INTO dovetail_work SELECT space, target, {other}, device, "
                   "i % 100, reason, note, state, tries, failure, token, due, expires, seen "
                   f"FROM dovetail_work, {many}; "
                   "ANALYZE dovetail_entry; ANALYZE dovetail_work")
        ((d,),) = server.sql("SELECT DISTINCT target FROM dovetail_work WHERE space = 'crowd'")
        for name, *values in (("FIND", k[0]), ("NEAR", k[0], k[0]), ("WORK_POISON", d, "3"), ("WORK_LEFT", d),
                              ("WORK_CLAIM", d, "1000", "50", ""), ("WORK_DONE", d, k[0], "1"), ("TOUCH", k[0], k[0])):
            sql = statement(name)
            for i in range(len(values), -1, -1):
                sql = sql.replace(f"${i + 1}", f"'{(['crowd'] + values)[i]}'")
            how = server.sql(f"BEGIN; SET LOCAL dovetail.namespace = 'crowd'; EXPLAIN {sql}; ROLLBACK",
                             role="dovetail")
            self.assertNotIn("Seq Scan", str(how), name)
            self.assertIn("Index", str(how), name)
        server.sql("DELETE FROM dovetail_entry WHERE space = 'crowd'; DELETE FROM dovetail_work WHERE space = 'crowd'")

    # ---- graphs -----------------------------------------------------------------------------------------------------
    def test_graphs(self):
        s, d, other = self.store(), signature(f"graph {next(names)}"), signature(f"graph {next(names)}")
        self.assertEqual(s.graph_get(digest=d).outcome, "none")
        text = '{"dovetail": 1, "name": "grün 日本 \\u2028", "modules": {}}' + " " * 100000
        self.assertEqual(s.graph_put(digest=d, text=text).outcome, "ok")
        self.assertEqual(s.graph_put(digest=d, text="{}").outcome, "none")
        got = s.graph_get(digest=d)
        self.assertEqual((got.outcome, got.row), ("ok", {"body": text}))
        self.assertEqual(s.graph_get(digest=other).outcome, "none")
        ((held, size),) = server.sql(f"SELECT octet_length(body), bytes FROM dovetail_graph WHERE digest = '{d}'")
        self.assertLess(int(held), 1000)
        self.assertEqual(int(size), len(text.encode()))

    def test_graph_at_once(self):
        """Many hosts put the same graph: it is in once, and all are told."""
        hosts, d = [self.store() for _ in range(3)], signature(f"graph {next(names)}")
        calls = [(s, s.begin("graph_put", digest=d, text='{"x": 1}' * 1000)) for s in hosts for _ in range(8)]
        outcomes = [s.end(h)["outcome"] for s, h in calls]
        self.assertEqual((outcomes.count("ok"), outcomes.count("none")), (1, 23))
        calls = [(s, s.begin("graph_get", digest=d)) for s in hosts for _ in range(8)]
        self.assertEqual({s.end(h)["row"]["body"] for s, h in calls}, {'{"x": 1}' * 1000})

    def test_graph_large(self):
        """Up to 16 MiB compressed; beyond that it is refused before it is sent."""
        s, d, other = self.store(), signature(f"graph {next(names)}"), signature(f"graph {next(names)}")
        # characters of 95: 6.57 bits each
        self.assertEqual(s.graph_put(digest=d, noise=19 << 20).outcome, "ok")
        got = s.graph_get(digest=d)
        self.assertEqual((got.outcome, len(got.row["body"])), ("ok", 19 << 20))
        r = s.graph_put(digest=other, noise=21 << 20)
        self.assertEqual((r.outcome, "compressed" in r.why), ("refused", True), r)
        self.assertEqual(s.graph_get(digest=other).outcome, "none")
        for bad in {"digest": other, "text": ""}, {"digest": "x", "text": "{}"}:
            r = s.graph_put(**bad)
            self.assertEqual((r.outcome, bool(r.why)), ("refused", True), bad)
        self.assertEqual(s.graph_get(digest="x").outcome, "refused")
        with self.assertRaisesRegex(RuntimeError, "check constraint"):
            server.sql(f"UPDATE dovetail_graph SET bytes = 268435457 WHERE digest = '{d}'")
        server.sql(f"DELETE FROM dovetail_graph WHERE digest = '{d}'")

    def graph_forge(self, digest, body, size):
        """Another row, with a right sum: as somebody who knows the format would."""
        parts = [b"dovetail graph row 1", b"default", digest.encode()]
        text = b"".join(len(p).to_bytes(8, "little") + p for p in parts)
        text += size.to_bytes(8, "little") + len(body).to_bytes(8, "little") + body.encode()
        server.sql(f"UPDATE dovetail_graph SET body = '{body}', bytes = {size}, checksum = "
                   f"'sha256:{hashlib.sha256(text).hexdigest()}' WHERE digest = '{digest}'")

    def test_graph_damaged(self):
        """A row that was changed, moved, or does not hold what it says is none, and is removed: it can be put again."""
        s, other = self.store(), signature(f"graph {next(names)}")
        self.assertEqual(s.graph_put(digest=other, text='{"other": 1}').outcome, "ok")

        def sql(what):
            return lambda d: server.sql(f"UPDATE dovetail_graph SET {what} WHERE digest = '{d}'")
        raw = base64.b64encode(b"no frame").decode()
        columns = "body, bytes, checksum"
        copied = f"({columns}) = (SELECT {columns} FROM dovetail_graph WHERE digest = '{other}')"
        latin = base64.b64encode(b"\x28\xb5\x2f\xfd\x20\x02\x11\x00\x00\xff\xfe").decode()  # two bytes, stored
        frame = server.sql(f"SELECT body FROM dovetail_graph WHERE digest = '{other}'")[0][0]
        for n, (what, spoil) in enumerate((
                ("body", sql("body = 'A'")), ("bytes", sql("bytes = 7")), ("moved", sql(copied)),
                ("text", lambda d: self.graph_forge(d, "!!!!", 7)), ("frame", lambda d: self.graph_forge(d, raw, 8)),
                ("bomb", lambda d: self.graph_forge(d, frame, 268435456)),
                ("no text", lambda d: self.graph_forge(d, latin, 2)),
                ("cut", lambda d: self.graph_forge(d, frame[:-8], 12)))):
            with self.subTest(what=what):
                d = signature(f"graph {next(names)}")
                self.assertEqual(s.graph_put(digest=d, text="{}").outcome, "ok")
                spoil(d)
                self.assertEqual(s.graph_get(digest=d).outcome, "none")
                self.assertEqual(s.counts()["damaged"], n + 1)
                patient(lambda: not server.sql(f"SELECT 1 FROM dovetail_graph WHERE digest = '{d}'"))
                self.assertEqual(s.graph_put(digest=d, text='{"again": 1}').outcome, "ok")
                self.assertEqual(s.graph_get(digest=d).row, {"body": '{"again": 1}'})
        d = signature(f"graph {next(names)}")
        s.graph_put(digest=d, text="{}")
        self.graph_forge(d, frame, 12)  # the forger is right: what it says is the reader's to check
        self.assertEqual(s.graph_get(digest=d).row, {"body": '{"other": 1}'})

    def test_graph_used(self):
        """Written once a day by gets and puts."""
        s, d = self.store(), signature(f"graph {next(names)}")
        s.graph_put(digest=d, text="{}")
        fresh = f"SELECT used > now() - interval '1 hour' FROM dovetail_graph WHERE digest = '{d}'"
        for call in (lambda: s.graph_get(digest=d), lambda: s.graph_put(digest=d, text="{}")):
            server.sql(f"UPDATE dovetail_graph SET used = now() - interval '3 day' WHERE digest = '{d}'")
            call()
            patient(lambda: server.sql(fresh) == [["t"]])
            mark = server.sql(f"SELECT xmin FROM dovetail_graph WHERE digest = '{d}'")
            call()
            time.sleep(0.2)
            self.assertEqual(server.sql(f"SELECT xmin FROM dovetail_graph WHERE digest = '{d}'"), mark)

    def test_graph_closed(self):
        """A store that is closed while graphs are packed tells each call what became of it."""
        s = self.store()
        calls = [s.begin("graph_put", digest=signature(f"graph {next(names)}"), noise=4 << 20) for _ in range(6)]
        s.close()
        self.assertEqual({s.replies[h]["outcome"] for h in calls} - {"ok", "away"}, set())
        server.sql("DELETE FROM dovetail_graph WHERE bytes > 1000000")

    # ---- the queue --------------------------------------------------------------------------------------------------
    def work(self, s, n, device, **more):
        r = s.queue_add(graph=signature(n), device=device, **{"rank": n, "reason": "stale", **more})
        return r.outcome

    def test_queue(self):
        a, b, d = self.store(), self.store(), f"device {next(names)}"
        for n in (2, 9, 5):
            self.assertEqual(self.work(a, n, d, note={"n": n}), "ok")
        self.assertEqual(self.work(b, 2, d, rank=7), "none")  # now it is before 5
        got = [s.queue_claim(device=d, ms=60000).row for s in (a, b, a)]
        self.assertEqual([g["note"]["n"] for g in got], [9, 2, 5])
        self.assertEqual((got[1]["rank"], got[1]["reason"], got[1]["tries"]), (7, "stale", 1))
        self.assertEqual(a.queue_claim(device=d, ms=1).outcome, "none")
        self.assertEqual(a.queue_claim(device=d + "x", ms=1).outcome, "none")
        nine, two, five = ({"graph": g["graph"], "device": d, "token": g["token"]} for g in got)
        self.assertEqual(a.queue_done(**nine).outcome, "ok")
        self.assertEqual(a.queue_done(**nine).outcome, "lost")
        self.assertEqual(a.queue_renew(**{**two, "token": 1}, ms=1).outcome, "lost")
        self.assertEqual(b.queue_return(**two).outcome, "ok")
        again = a.queue_claim(device=d, ms=60000).row
        self.assertEqual((again["note"]["n"], again["tries"]), (2, 1))
        self.assertGreater(again["token"], two["token"])
        self.assertEqual(b.queue_done(**two).outcome, "lost")
        self.assertEqual(a.queue_renew(**five, ms=60000).outcome, "ok")
        states = {e["rank"]: e["state"] for e in b.queue_list().row["entries"] if e["device"] == d}
        self.assertEqual(states, {7: "leased", 5: "leased"})

    def test_queue_place(self):
        """What a host cannot make it gives back, and asks for what is behind; toolchains have queues of their own."""
        s, d = self.store(), f"device {next(names)}"
        for n, rank in ((1, 5), (2, 9), (3, 5)):
            self.work(s, n, d, rank=rank)
        first = s.queue_claim(device=d, ms=60000).row
        self.assertEqual(first["graph"], signature(2))
        r = s.queue_claim(device=d, toolchain="another", ms=60000)
        self.assertEqual((r.outcome, r.row), ("none", None))
        fives, seen = sorted(signature(n) for n in (1, 3)), first
        for graph in fives:
            s.queue_return(graph=seen["graph"], device=d, token=seen["token"])
            seen = s.queue_claim(device=d, after=seen["graph"], rank=seen["rank"], ms=60000).row
            self.assertEqual(seen["graph"], graph)
        none = s.queue_claim(device=d, after=seen["graph"], rank=seen["rank"], ms=60000)
        self.assertEqual(none.outcome, "none")
        self.assertTrue(50000 < none.row["left_ms"] <= 60000, none)  # the lease on the last
        self.assertEqual(s.queue_claim(device=d, ms=60000).row["graph"], signature(2))

    def test_queue_forgotten(self):
        """What no host has asked for in a month is not made any more."""
        s, d = self.store(), f"device {next(names)}"
        for n in (1, 2):
            self.work(s, n, d)
        server.sql(f"UPDATE dovetail_work SET seen = now() - interval '31 day' WHERE device = '{d}'")
        self.work(s, 2, d)
        server.sql(statement("SWEEP_WORK").replace("$1", "'default'"))
        self.assertEqual([e["graph"] for e in s.queue_list().row["entries"] if e["device"] == d], [signature(2)])

    def test_queue_fails(self):
        """Again after a while that grows; parked at the third time, with the reason."""
        s, d, waits = self.store(), f"device {next(names)}", []
        self.work(s, 1, d)
        for n in range(3):
            begun = time.monotonic()
            while (r := s.queue_claim(device=d, ms=60000)).outcome == "none":
                time.sleep(0.01)
            waits.append(time.monotonic() - begun)
            end = s.queue_fail(graph=r.row["graph"], device=d, token=r.row["token"], reason=f"no {n}", ms=200)
            self.assertEqual((end.outcome, end.row["parked"]), ("ok", n == 2))
        self.assertTrue(0.15 < waits[1] < waits[2] and waits[2] > 0.35, waits)
        self.assertEqual(s.queue_claim(device=d, ms=1).outcome, "none")
        self.assertEqual(self.work(s, 1, d), "none")
        entry = [e for e in s.queue_list().row["entries"] if e["device"] == d]
        self.assertEqual([(e["state"], e["failure"]) for e in entry], [("parked", "no 2")])
        self.assertGreaterEqual(s.queue_unpark().row["n"], 1)
        self.assertEqual(s.queue_claim(device=d, ms=60000).row["tries"], 1)

    def test_queue_poison(self):
        """Whoever has it dies each time: parked as well."""
        s, d = self.store(), f"device {next(names)}"
        self.work(s, 1, d)
        for _ in range(3):
            self.assertEqual(s.queue_claim(device=d, ms=1).outcome, "ok")
            time.sleep(0.02)
        self.assertEqual(s.queue_claim(device=d, ms=1).outcome, "none")
        entry = [e for e in s.queue_list().row["entries"] if e["device"] == d]
        self.assertEqual([e["state"] for e in entry], ["parked"])
        self.assertIn("did not come to an end", entry[0]["failure"])

    def test_queue_once(self):
        """Many hosts that claim at once: each entry goes to one of them."""
        hosts, d = [self.store(connections=2) for _ in range(6)], f"device {next(names)}"
        for n in range(60):
            self.work(hosts[n % 6], n, d)
        got = []

        def take(s):
            while (r := s.queue_claim(device=d, ms=60000)).outcome == "ok":
                got.append(r.row["graph"])
        threads = [threading.Thread(target=take, args=(s,)) for s in hosts]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        # a row that another is just taking is passed over, so that some may be left for a second look
        take(hosts[0])
        self.assertEqual((len(got), len(set(got))), (60, 60))


class Bouncer(Direct):
    """The same through pgbouncer in transaction mode: nothing hangs on a session."""
    bouncer = True

    @classmethod
    def setUpClass(cls):
        from server import program
        if not program("pgbouncer"):
            raise unittest.SkipTest("pgbouncer is not installed")

    def test_no_session(self):
        """More hosts than the pooler has connections; no setting of one is seen by another."""
        hosts = [self.store(f"space{i}") for i in range(12)]
        k = self.new()
        calls = [(s, s.begin("put", key=k, plan=plan(i))) for i, s in enumerate(hosts)]
        self.assertEqual({s.end(h)["outcome"] for s, h in calls}, {"ok"})
        for i, s in enumerate(hosts):
            self.assertEqual(s.find(k).row["recipe"], plan(i)["recipe"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
