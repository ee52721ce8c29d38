"""On a real GPU what was measured once is not measured again, where its interval decides (rewrite/plan/times.c): in
other plannings and graphs, on the same chip, driver and toolkit. Noisy, damaged and forged figures are not believed."""
import hashlib
import json
import os
import sqlite3
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from harness import SCALE, chain, cli, main, write  # noqa: E402
from switch import fault  # noqa: E402

HEAD = b"dovetail times 1\n"


def row_sum(texts):
    """Of a row of the cache: each text with its length in front (base/hash.c)."""
    h = hashlib.sha256()
    for t in texts:
        h.update(len(t.encode()).to_bytes(8, "little") + t.encode())
    return "sha256:" + h.hexdigest()


class Measured(unittest.TestCase):
    def tearDown(self):
        fault("")

    def test_measured_once(self):
        """What was measured of the same launches on this device, driver and toolkit decides in other plannings, and
        nothing else does."""
        with tempfile.TemporaryDirectory() as d:
            cache = os.path.join(d, "c.db")

            def optimize(graph, *more, words="tell"):
                fault(words)
                r = cli("optimize", write(d, "g.json", graph), "--local", "--json", "--device", "cuda", "--cache",
                        cache, *more,
                        env={"DOVETAIL_CUDA_LIBS": os.environ["DOVETAIL_CUDA_LIBS"]})  # with CUPTI's times
                fault("")
                self.assertEqual(r.returncode, 0, r.stderr)
                plan = json.loads(r.stdout)
                self.assertTrue(plan["verified"]["bitwise"])
                self.assertLessEqual(plan["optimized"]["time_us"], plan["baseline"]["time_us"])
                passes = sum(line.startswith("graph ") for line in r.stderr.splitlines())
                return plan, (plan["measured"]["comparisons"], plan["measured"]["library"]), passes, r.stderr

            def kept(plan):
                return [(x["kind"], x.get("level"), x["launches"]) for x in plan["rewrites"] if x["verdict"] == "kept"]

            def entries():
                with sqlite3.connect(cache) as db:
                    return [(k, b) for k, b in db.execute("SELECT key, body FROM trial") if b.startswith(HEAD)]

            def forge(change):
                """every entry's numbers as change has them, under right checksums"""
                with sqlite3.connect(cache) as db:
                    for k, b in [(k, b) for k, b in db.execute("SELECT key, body FROM trial") if b.startswith(HEAD)]:
                        count = struct.unpack_from("<Q", b, len(HEAD) + 72)[0]
                        body = change(b[len(HEAD) + 72:], count)
                        inner = hashlib.sha256(len(k).to_bytes(8, "little") + k.encode() + body).hexdigest().encode()
                        b = HEAD + b"sha256:" + inner + b"\n" + body
                        db.execute("UPDATE trial SET body = ?, sha256 = ? WHERE key = ?",
                                   (b, row_sum([k, b.hex().upper()]), k))

            def numbers(gain, lo, hi, us=1.0):
                return lambda body, count: struct.pack(f"<Q3d{count}d", count, gain, lo, hi, *([us] * count))

            cold, cold_count, cold_passes, _ = optimize(chain(2))
            self.assertEqual([x[2] for x in kept(cold)], [["s0", "s1"]])
            true = entries()
            # another planning of the graph: the plan beside the posted launches is measured, and what its two methods
            # of timing do not agree on
            warm, count, passes, _ = optimize(chain(2), "--budget", "100")
            self.assertEqual(kept(warm), kept(cold))
            few = count[0]
            self.assertTrue(1 <= few <= 2 < cold_count[0], (count, cold_count))
            self.assertGreater(count[1], cold_count[1])
            self.assertLess(passes, cold_passes)
            self.assertRegex(next(x["reason"] for x in warm["rewrites"] if x["verdict"] == "kept"),
                             "from the performance library: a gain of")
            # another graph with the same launches in it: other names, an output more, and one more kernel in the module
            other = chain(2, names="uvwxyz")
            other["modules"]["m"]["ptx"] += SCALE[SCALE.index(".visible"):].replace("scale",
                "other").replace("mul.rn.f32", "add.rn.f32")
            other["buffers"]["z"] = {"bytes": 4 * 64 * 8, "role": "inout", "fill": {"zero": True}}
            other["launches"].append({"name": "o", "module": "m", "entry": "other", "grid": [8, 1, 1],
                                      "block": [64, 1, 1],
                                      "args": [{"buffer": "z"}, {"buffer": "z"}, {"f32": 1}]})
            plan, count, _, _ = optimize(other, "--deny", "parallel-fusion,programmatic-launch")
            self.assertEqual(kept(plan), kept(cold))
            self.assertTrue(count[0] <= few + 1 < cold_count[0] and count[1] >= 3, count)
            # another geometry on another driver; the same on that driver (with an option of its own: there is no plan
            # that could be made anew by its recipe): nothing is known of these
            for graph, more in (chain(2, blocks=8), ()), (chain(2), ("--budget", "102")):
                plan, count, _, _ = optimize(graph, *more, words="tell,newer")
                self.assertEqual((count, plan["toolchain"]["driver"]), (cold_count, "cuda 13.1"))
            # an interval that does not decide is measured again, and replaced
            forge(numbers(0.5, -0.1, 1.1))
            plan, count, _, _ = optimize(chain(2), "--budget", "101")
            self.assertEqual((count, kept(plan)), (cold_count, kept(cold)))
            self.assertTrue(set(true) <= set(entries()))
            # numbers that are no times, damage: never used, and the log says so
            wrong = [numbers(float("nan"), 0.1, 0.2), numbers(0.15, 0.1, float("inf")), numbers(0.15, 0.2, 0.1),
                     numbers(0.15, 0.1, 0.2, -1.0),
                     numbers(0.15, 0.1, 0.2, float("nan")), lambda body, count: body[:-8], lambda body,
                     count: body + bytes(8),
                     lambda body, count: struct.pack("<Q", count + 1) + body[8:]]
            for shift in 0, 4:
                turn = iter(wrong[shift:] * 8)
                forge(lambda body, count: next(turn)(body, count))
                plan, count, _, log = optimize(chain(2), "--budget", str(110 + shift))
                self.assertEqual((count, kept(plan)), (cold_count, kept(cold)))
                self.assertRegex(log, "kept trial sha256:[0-9a-f]+ is not used: it has numbers that are no times")
            self.assertRegex(log, "kept trial sha256:[0-9a-f]+ is not used: its form is another")
            with sqlite3.connect(cache) as db:
                db.execute("UPDATE trial SET sha256 = 'sha256:' || substr(sha256, 9) || '0'")
            plan, count, _, log = optimize(chain(2), "--budget", "130")
            self.assertEqual((count, kept(plan)), (cold_count, kept(cold)))
            self.assertIn("does not match its checksum", log)
            # figures that only look right may hide a level; what they recommend is measured beside the posted launches,
            # and then planned without them
            forge(numbers(-0.5, -0.6, -0.4))
            plan, count, _, _ = optimize(chain(2), "--budget", "140")
            self.assertIn("a gain of -0.50 us", " ".join(x.get("reason", "") for x in plan["rewrites"]))
            # a tail; a launch more costs more here than it gains
            wide = (chain(2, blocks=4800), "--deny", "block-fusion,programmatic-launch,slice,narrow-blocks")
            plan, count, _, _ = optimize(*wide)
            self.assertEqual(([(x["kind"], x["verdict"]) for x in plan["rewrites"]], count),
                             ([("split", "dropped")], (1, 0)))
            forge(numbers(1, 0.9, 1.1))
            plan, count, _, _ = optimize(*wide, "--budget", "141")
            self.assertEqual(([(x["kind"], x["verdict"]) for x in plan["rewrites"]], count),
                             ([("split", "dropped")], (3, 0)))
            self.assertEqual(plan["optimized"], plan["baseline"])
            self.assertTrue(any(struct.unpack_from("<d", b, len(HEAD) + 80)[0] < 0 for _, b in entries()),
                            "what was wrong is right now")

    def test_recipe(self):
        """A plan that was imported is made anew by its recipe, with fewer comparisons than the search needs, and
        measured beside the posted launches here."""
        with tempfile.TemporaryDirectory() as d:
            plans = []
            for cache in ("there.db", "here.db"):
                way = ["--local", "--device", "cuda", "--cache", os.path.join(d, cache)]
                if plans:
                    self.assertIn("imported", cli("cache", "import", bundle, *way).stdout)
                fault("tell")
                r = cli("optimize", write(d, "g.json", chain(3)), "--json", *way,
                        env={"DOVETAIL_CUDA_LIBS": os.environ["DOVETAIL_CUDA_LIBS"]})
                fault("")
                self.assertEqual(r.returncode, 0, r.stderr)
                plans.append(json.loads(r.stdout))
                bundle = os.path.join(d, "b.zst")
                self.assertEqual(cli("cache", "export", "-o", bundle, *way).returncode, 0)
            there, here = plans
            self.assertNotIn("reverified", there["verified"])
            self.assertIn("reverified", here["verified"])
            self.assertEqual((here["modules"], here["launches"]), (there["modules"], there["launches"]))
            self.assertLess(len(here["launches"]), 3)
            self.assertLess(here["measured"]["comparisons"], there["measured"]["comparisons"])


if __name__ == "__main__":
    main()
