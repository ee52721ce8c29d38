"""What a calibration leaves behind: a model with the figures of the GPU that it is of, in every worker with the same
cache."""
import hashlib
import json
import os
import sqlite3
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from harness import Service, chain, cli, main, write  # noqa: E402
from switch import fault  # noqa: E402


def row_sum(texts):
    """Of a row of the cache: each text with its length in front (base/hash.c)."""
    h = hashlib.sha256()
    for t in texts:
        h.update(len(t.encode()).to_bytes(8, "little") + t.encode())
    return "sha256:" + h.hexdigest()


class Calibrated(unittest.TestCase):
    def tearDown(self):
        fault("")

    def test_calibrated_model(self):
        """A calibration of the GPU that a model is of gives that model its figures, in every worker with this cache."""
        with tempfile.TemporaryDirectory() as d:
            cache = os.path.join(d, "c.db")
            g = write(d, "g.json", chain())

            def run(*args, **env):
                r = cli("run", g, "--local", "--json", *args, env=env)
                self.assertEqual(r.returncode, 0, r.stderr)
                return json.loads(r.stdout)

            def calibrate(name):
                fault(name)
                r = cli("devices", "--calibrate", "--local", "--json", "--device", "cuda", "--cache", cache,
                        env={"DOVETAIL_SOFTGPU_FIGURES": "graph_launch_us=5"})
                self.assertEqual(r.returncode, 0, r.stderr)
                fault("")
                return json.loads(r.stdout)["calibration"]["graph_launch_us"]["value"]

            stock = run("--device", "soft:h200", "--cache", cache)
            self.assertEqual(stock["method"], "modeled:h200")
            cold = json.loads(cli("optimize", g, "--local", "--json", "--device", "soft:h200", "--cache", cache).stdout)
            launch_us = calibrate("named")
            self.assertAlmostEqual(launch_us, 5, delta=0.5)
            own = run("--device", "soft:h200", "--cache", cache)
            self.assertRegex(own["method"], "^modeled:h200~[0-9a-f]{7}$")
            self.assertGreater(own["time_us"], stock["time_us"] + 5)  # two launches, about 4 us more each
            self.assertEqual(run("--device", "soft", "--cache", cache)["method"], own["method"])
            self.assertEqual(run("--device", "soft:l4", "--cache", cache)["method"], "modeled:l4")
            self.assertEqual(run("--device", "soft:h200")["method"], "modeled:h200")  # another cache
            # what the environment says wins; empty: the model's own
            self.assertEqual(run("--device", "soft:h200", "--cache", cache, DOVETAIL_SOFTGPU_FIGURES="")["method"],
                             "modeled:h200")
            given = run("--device", "soft:h200", "--cache", cache, DOVETAIL_SOFTGPU_FIGURES="graph_launch_us=9")
            self.assertGreater(given["time_us"], own["time_us"] + 5)
            # plans of the two are never taken for each other
            plan = json.loads(cli("optimize", g, "--local", "--json", "--device", "soft:h200", "--cache", cache).stdout)
            self.assertEqual((cold["baseline"]["method"], plan["baseline"]["method"]), ("modeled:h200", own["method"]))
            self.assertGreater(plan["baseline"]["time_us"], cold["baseline"]["time_us"] + 5)
            again = json.loads(cli("optimize", g, "--local", "--json", "--device", "soft:h200", "--cache", cache,
                                   env={"DOVETAIL_SOFTGPU_FIGURES": ""}).stdout)
            self.assertEqual(again["baseline"], cold["baseline"])
            devices = json.loads(cli("devices", "--local", "--json", "--device", "soft:h200", "--cache", cache).stdout)
            self.assertEqual(devices["figures"], "calibrated")
            self.assertEqual(devices["key"], "soft:" + own["method"][8:])
            self.assertIn("soft:l4", [x["spec"] for x in devices["devices"]])
            self.assertIn("of a stored calibration", cli("devices", "--local", "--device", "soft:h200", "--cache",
                                                         cache).stdout)
            self.assertEqual(json.loads(cli("devices", "--local", "--json", "--device", "soft:h200").stdout)["figures"],
                             "stock")
            # a service with this cache, too; and it says so
            s = Service(device="soft:h200", config={"cache": cache})
            try:
                served = s.http("GET", "/v1/devices").json()
                self.assertEqual([served[x] for x in ("figures", "key")], [devices[x] for x in ("figures", "key")])
                self.assertIn("of a stored calibration", cli("devices", "--socket", s.socket).stdout)
            finally:
                s.stop()
                s.remove()
            # figures that the model does not take, under a right checksum: the model's own, and a word in the log
            with sqlite3.connect(cache) as db:
                rows = db.execute("SELECT id, want, signature, device, toolchain, policy, digest, body, factors FROM "
                                  "entry WHERE signature = 'calibration soft:h200'").fetchall()
                self.assertEqual(len(rows), 1)
                before = [str(x) for x in rows[0][1:]]
                known = db.execute("SELECT sha256 FROM entry WHERE id = ?", (rows[0][0],)).fetchone()[0]
                self.assertEqual(row_sum(before), known)
                before[6] = before[6].replace('"figures":"', '"figures":"tea=1,')
                db.execute("UPDATE entry SET body = ?, sha256 = ? WHERE id = ?",
                           (before[6], row_sum(before), rows[0][0]))
            r = cli("run", g, "--local", "--json", "--device", "soft:h200", "--cache", cache)
            self.assertEqual(json.loads(r.stdout)["method"], "modeled:h200", r.stderr)
            self.assertIn("stored calibration", r.stderr)


if __name__ == "__main__":
    main()
