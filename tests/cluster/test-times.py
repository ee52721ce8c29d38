"""Measurements are shared: what one host measured decides on another host with the same device, and nothing modelled
ever does. On a driver that is not real (tests/fault/fake-gpu.c), whose times count as measured."""
import base64
import hashlib
import os
import sqlite3
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "fault")]
from harness import SCALE, SLOW, chain  # noqa: E402
from hosts import Cluster, main, patient  # noqa: E402
from store import Store  # noqa: E402
from switch import fault  # noqa: E402

HEAD = b"dovetail times 1\n"
COLUMNS = "SELECT space, device, key, body, signer, seal, stamp FROM dovetail_measure"
fresh = iter(range(2, 1000))


def other(n=1):
    """Another graph with the launches of chain(2) in it, and one more."""
    g = chain(2, names="uvwxyz")
    g["modules"]["m"]["ptx"] += SCALE[SCALE.index(".visible"):].replace("scale", "other").replace("mul.rn.f32",
                                                                                                "add.rn.f32")
    g["buffers"]["z"] = {"bytes": 4 * 64 * 8, "role": "inout", "fill": {"zero": True}}
    g["launches"].append({"name": "o", "module": "m", "entry": "other", "grid": [8, 1, 1], "block": [64, 1, 1],
                          "args": [{"buffer": "z"}, {"buffer": "z"}, {"f32": n}]})
    return g


class Times(Cluster):
    def setUp(self):
        fault("")
        super().setUp()

    def service(self, device="cuda", **config):
        return super().service(device, **config)

    def store(self):
        store = Store(self.db.url())
        self.addCleanup(store.close)
        return store

    def plan(self, s, g, query="want=plan&deny=parallel-fusion,programmatic-launch"):
        job = s.finish(s.post(g, query), 120)
        self.assertEqual((job["state"], job["cache"]), ("done", "miss"), job)
        return s.http("GET", job["links"]["result"]).json()

    def rows(self):
        return self.db.sql("SELECT device, key, body FROM dovetail_measure WHERE kind = 'times'")

    def settled(self):
        """The rows when none has come for a while: they are sent, and nobody waits for that."""
        n = -1
        while n != len(self.rows()):
            n = len(self.rows())
            time.sleep(0.3 * SLOW)
        return self.rows()

    def calls(self, s, call, outcome="ok"):
        return s.metric(f'dovetail_cluster_calls_total{{call="{call}",outcome="{outcome}"}}')

    def test_measured_once(self):
        """Another graph on another host: what the first host measured of its launches is not measured again."""
        a, b, alone = self.service(), self.service(), self.service(shared_namespace="other")
        first = self.plan(a, chain(2))["measured"]
        rows = self.settled()
        self.assertTrue(rows)
        self.assertEqual(self.calls(a, "measure_get", "none"), first["comparisons"] - 1)  # not the plan as a whole
        for device, _, body in rows:
            self.assertNotIn("soft", device)
            self.assertTrue(base64.b64decode(body).startswith(HEAD))
        cold, warm = self.plan(alone, other()), self.plan(b, other())
        self.assertEqual([(x["kind"], x["verdict"], x["launches"]) for x in warm["rewrites"]],
                         [(x["kind"], x["verdict"], x["launches"]) for x in cold["rewrites"]])
        self.assertGreater(warm["measured"]["library"], cold["measured"]["library"])
        self.assertLess(warm["measured"]["comparisons"], cold["measured"]["comparisons"])
        self.assertGreaterEqual(self.calls(b, "measure_get"), 1)
        self.assertTrue(warm["verified"]["bitwise"])

    def test_damaged(self):
        """What is no measurement is not used, and measured here."""
        a, g = self.service(), chain(2)
        cold = self.plan(a, g)["measured"]
        device = {d for d, _, _ in self.settled()}.pop()
        keys = [k for _, k, _ in self.rows()]
        store = self.store()
        self.db.sql("DELETE FROM dovetail_measure")
        for i, k in enumerate(keys):
            body = ("nothing", HEAD.decode() + "sha256:" + "0" * 64 + "\n" + "x" * 48, "dovetail trial 1\n")[i % 3]
            self.assertEqual(store.measure_put(kind="times", device=device, rows={k: body}).outcome, "ok")
        b = self.service()
        self.assertEqual(self.plan(b, other())["measured"]["library"],
                         self.plan(self.service(shared_namespace="other"), other())["measured"]["library"])
        self.assertGreaterEqual(self.calls(b, "measure_get"), 1)
        self.assertTrue(cold["comparisons"])

    def test_modelled(self):
        """The software device's times are modelled: nothing of them is sent, and nothing is asked for."""
        s = self.service("soft")
        job = s.finish(s.post(chain(3)))
        self.assertEqual(job["state"], "done")
        with sqlite3.connect(os.path.join(s.dir, "cache.db")) as db:
            ((n,),) = db.execute("SELECT count(*) FROM trial").fetchall()
        self.assertGreater(n, 0)
        self.assertEqual(self.settled(), [])
        for call in ("measure_get", "measure_put"):
            self.assertEqual([self.calls(s, call, o) for o in ("ok", "none", "away")], [0, 0, 0])

    def signed(self, s):
        """The rows when s, which signs, has planned."""
        self.plan(s, chain(2))
        self.settled()
        return self.db.sql(COLUMNS)

    def forge(self, space, device, key, body, signer, seal, stamp):
        """In the place of what is there, with a right sum: as somebody who knows the format would."""
        texts = [t.encode() for t in (space, "times", device, key, body)]
        total = hashlib.sha256(b"".join(len(t).to_bytes(8, "little") + t for t in texts)).hexdigest()
        where = f"space = '{space}' AND device = '{device}' AND key = '{key}'"
        self.db.sql(f"DELETE FROM dovetail_measure WHERE {where}; INSERT INTO dovetail_measure (space, kind, device, "
                    "key, body, checksum, signer, seal, stamp, created) VALUES "
                    f"('{space}', 'times', '{device}', '{key}', '{body}', 'sha256:{total}', '{signer}', '{seal}', "
                    f"{stamp}, now())")

    def turned(self, seal, **config):
        """A new host that takes nothing of what is there, and counts why. It still plans."""
        s = self.service(**config)
        self.plan(s, other(next(fresh)))  # its plan nobody has
        self.assertGreaterEqual(self.calls(s, "measure_get"), 1)
        self.assertEqual(self.told(s, "times"), 0)
        self.assertGreaterEqual(self.untrusted(s, seal), 1)
        return s

    def taken(self, **config):
        s = self.service(**config)
        self.plan(s, other(next(fresh)))  # its plan nobody has
        self.assertGreaterEqual(self.told(s, "times"), 1)
        self.assertEqual([self.untrusted(s, v) for v in ("unsigned", "stranger", "forged", "revoked")], [0, 0, 0, 0])
        return s

    def test_signed(self):
        """Signed by who is believed: taken where a signer is required; by a stranger: not. A revoked key counts from
        the next question on."""
        lines = self.keys("farm", "barn")
        rows = self.signed(self.signing("farm"))
        self.assertTrue(rows)
        for _, _, _, _, signer, seal, stamp in rows:
            self.assertEqual((signer, len(seal)), ("farm", 88))
            self.assertLess(abs(int(stamp) - time.time()), 600)
        strict = {"signers": self.believe(lines["farm"]), "require_signer": "farm"}
        self.taken(**strict)
        self.taken()
        self.believe(lines["barn"])
        self.turned("stranger", signers=strict["signers"], require_signer="any")
        self.believe(lines["farm"].strip() + " revoked\n")
        self.turned("revoked", **strict)
        self.turned("revoked", signers=strict["signers"])

    def test_unsigned(self):
        """As services of before wrote them: taken, but not where a signer is required. They do not stand in the way of
        a host that signs."""
        lines = self.keys("farm")
        rows = self.signed(self.service())
        self.assertEqual({row[4:] for row in map(tuple, rows)}, {("", "", "0")})
        strict = {"signers": self.believe(lines["farm"]), "require_signer": "any"}
        self.taken(signers=strict["signers"])
        self.turned("unsigned", **strict)
        self.assertEqual({signer for _, _, _, _, signer, _, _ in self.signed(self.signing("farm", **strict))},
                         {"farm"})
        self.taken(**strict)

    def test_replaced(self):
        """What a host that signs does not believe, what it measures replaces."""
        lines = self.keys("farm", "barn")
        self.signed(self.signing("barn"))
        strict = {"signers": self.believe(lines["farm"]), "require_signer": "farm"}
        farm = self.signing("farm", **strict)
        self.assertEqual({row[4] for row in self.signed(farm)} - {"farm", "barn"}, set())
        self.assertGreaterEqual(self.untrusted(farm, "other"), 1)
        self.taken(**strict)

    def test_forged(self):
        """A row that says something else than its seal is over is a miss, also where no signer is required."""
        lines = self.keys("farm")
        signers = self.believe(lines["farm"])
        near = self.signed(self.signing("farm"))
        device, store = near[0][1], self.store()
        for _, _, key, *_ in near:
            self.assertEqual(store.measure_put(kind="times", device="far", rows={key: "text"},
                                               key_file=os.path.join(self.db.dir, "farm")).outcome, "ok")
        far = self.db.sql(f"{COLUMNS} WHERE device = 'far'")
        for what, rows, space in (
                ("body", [(n, d, k, base64.b64encode(base64.b64decode(b)[:-1] + b"\1").decode(), *seal)
                          for n, d, k, b, *seal in near], "default"),
                ("date", [(*row[:6], int(row[6]) - 1) for row in near], "default"),
                ("key", [(*row[:2], key[2], *row[3:]) for row, key in zip(near, near[1:] + near[:1])], "default"),
                ("device", [(row[0], device, *row[2:]) for row in far], "default"),
                ("namespace", [("other", *row[1:]) for row in near], "other")):
            with self.subTest(what=what):
                for row in rows:
                    self.forge(*row)
                self.turned("forged", signers=signers, require_signer="any", shared_namespace=space)
        for row in near:
            self.forge(*row)
        self.taken(signers=signers, require_signer="any")
        for _, _, key, *_ in near:  # what the driver signs is believed, in its place
            self.db.sql(f"DELETE FROM dovetail_measure WHERE device = '{device}' AND key = '{key}'")
            store.measure_put(kind="times", device=device, rows={key: "text"},
                              key_file=os.path.join(self.db.dir, "farm"))
        self.taken(signers=signers, require_signer="any")
        for row in near:
            self.forge(*row[:5], "A" * 88, row[6])
        self.turned("forged", signers=signers)

    def test_no_key(self):
        """A key that cannot be read: nothing goes out unsigned, and the log says so."""
        self.keys("farm")
        a = self.signing("farm")
        os.unlink(os.path.join(self.db.dir, "farm"))
        self.assertEqual(self.signed(a), [])
        patient(lambda: "measurements of this host are not sent" in a.read_log())

    def test_away(self):
        """Without the server everything is measured here, and the job asks a few times only."""
        a = self.service()
        self.db.kill()
        self.plan(a, chain(2))
        self.assertLessEqual(self.calls(a, "measure_get", "away"), 3)


if __name__ == "__main__":
    main()
