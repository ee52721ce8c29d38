"""Measurements are shared: what one host measured decides on another host with the same device, and nothing modelled
ever does. On a driver that is not real (tests/fault/fake-gpu.c), whose times count as measured."""
import base64
import os
import sqlite3
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "fault")]
from harness import SCALE, SLOW, chain  # noqa: E402
from hosts import Cluster, main  # noqa: E402
from store import Store  # noqa: E402
from switch import fault  # noqa: E402

HEAD = b"dovetail times 1\n"


def other():
    """Another graph with the launches of chain(2) in it, and one more."""
    g = chain(2, names="uvwxyz")
    g["modules"]["m"]["ptx"] += SCALE[SCALE.index(".visible"):].replace("scale", "other").replace("mul.rn.f32",
                                                                                                "add.rn.f32")
    g["buffers"]["z"] = {"bytes": 4 * 64 * 8, "role": "inout", "fill": {"zero": True}}
    g["launches"].append({"name": "o", "module": "m", "entry": "other", "grid": [8, 1, 1], "block": [64, 1, 1],
                          "args": [{"buffer": "z"}, {"buffer": "z"}, {"f32": 1}]})
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

    def test_signer(self):
        """Measurements have no seals: where a signer is required, nobody else's are taken."""
        a = self.service()
        self.plan(a, chain(2))
        self.settled()
        signers = os.path.join(self.db.dir, "signers")
        with open(signers, "w", encoding="utf-8") as f:
            f.write("# nobody\n")
        os.chmod(signers, 0o644)
        b = self.service(signers=signers, require_signer="any")
        self.plan(b, other())
        self.assertEqual([self.calls(b, "measure_get", o) for o in ("ok", "none", "away")], [0, 0, 0])

    def test_away(self):
        """Without the server everything is measured here, and the job asks a few times only."""
        a = self.service()
        self.db.kill()
        self.plan(a, chain(2))
        self.assertLessEqual(self.calls(a, "measure_get", "away"), 3)


if __name__ == "__main__":
    main()
