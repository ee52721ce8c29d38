"""The service and its workers beside a driver that goes wrong (fake-gpu.c): the user gets the right error, the service
lives on, and the next job is fine."""
import json
import os
import sqlite3
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from harness import Service, chain, cli, main, single, write  # noqa: E402
from harness import SCALE, SLOW, row_sum  # noqa: E402
from switch import fault  # noqa: E402


class Faults(unittest.TestCase):
    def tearDown(self):
        fault("")

    def test_the_service_survives(self):
        os.environ["DOVETAIL_KERNEL_TIMEOUT_MS"] = "1000"
        fault("")
        s = Service(device="cuda")
        try:
            n = 0
            for words, code in (("hang", "time-limit"), ("sticky", "out-of-bounds"), ("oom", "out-of-memory"),
                                ("noarch", "bad-ptx"), ("bad-ptx", "bad-ptx")):
                fault(words)
                n += 1
                job = s.finish(s.post(chain(2, blocks=n), "want=run"))
                self.assertEqual((job["state"], job.get("problem", {}).get("code")), ("failed", code), (words, job))
                fault("")
                n += 1
                job = s.finish(s.post(chain(2, blocks=n), "want=run"))
                self.assertEqual(job["state"], "done", (words, job))
            self.assertEqual(s.http("GET", "/healthz").status, 200)
        finally:
            status, log = s.stop(), s.read_log()
            s.remove()
        self.assertEqual(status, 0, log)

    def test_a_ping_asks_the_device(self):
        """An idle worker whose device has gone wrong is found by GET /healthz, not by the next job; one that is well
        stays."""
        os.environ["DOVETAIL_KERNEL_TIMEOUT_MS"] = "1000"
        fault("")
        s = Service(device="cuda")
        try:
            for n, words in enumerate(("sticky", "hang")):
                job = s.finish(s.post(chain(4, blocks=n + 3), "want=run"))  # four launches: the fault counts them
                self.assertEqual(job["state"], "done", job)
                well = s.workers()[0]["pid"]
                self.assertEqual(s.http("GET", "/healthz").status, 200)
                self.assertEqual(s.workers()[0]["pid"], well)
                fault(words)
                before = time.monotonic()
                self.assertEqual(s.http("GET", "/healthz").status, 200)  # from the worker that came next
                self.assertLess(time.monotonic() - before, 10 * SLOW)
                self.assertNotEqual(s.workers()[0]["pid"], well, words)
                self.assertIn("its device does not answer", s.read_log())
                fault("")
            self.assertEqual(s.finish(s.post(chain(2, blocks=9), "want=run"))["state"], "done")
        finally:
            status, log = s.stop(), s.read_log()
            s.remove()
        self.assertEqual(status, 0, log)

    def test_a_device_that_cannot_be_had(self):
        with tempfile.TemporaryDirectory() as d:
            g = write(d, "g.json", chain())
            for words, text in (("exclusive", "exclusive"), ("no-device", "no GPU"), ("stub", "stub"),
                                ("old", "CUDA 11.4"), ("mps-down", "MPS")):
                fault(words)
                r = cli("run", g, "--local", "--json", "--device", "cuda")
                self.assertEqual(r.returncode, 4, (words, r.stdout, r.stderr))
                self.assertEqual(json.loads(r.stdout)["code"], "no-device")
                self.assertIn(text, r.stdout)

    def test_another_architecture(self):
        """newer than the device, or for one device alone and not for this one: refused by name before anything is
        loaded"""
        with tempfile.TemporaryDirectory() as d:
            for words, target, device in (("", "sm_100", "sm_90"), ("", "sm_100a", "sm_90"), ("", "sm_80a", "sm_90"),
                                          ("new-arch", "sm_90a", "sm_130")):
                fault(words)
                g = write(d, "g.json", single(SCALE.replace(".target sm_80", ".target " + target), "scale"))
                self.assertIn(".target " + target, open(g, encoding="utf-8").read())
                r = cli("run", g, "--local", "--json", "--device", "cuda")
                problem = json.loads(r.stdout)
                self.assertEqual((r.returncode, problem["code"]), (3, "unsupported"), problem)
                self.assertIn(f"the module is for {target}, the device is {device}", problem["detail"])
            for member in "cubin", "sass", "fatbin":
                doc = single(SCALE, "scale")
                doc["modules"]["m"] = {member: "AA=="}
                r = cli("run", write(d, "g.json", doc), "--local", "--json", "--device", "cuda")
                self.assertEqual((r.returncode, json.loads(r.stdout)["code"]), (3, "unsupported"), r.stdout)

    def test_plans(self):
        """made and verified on the device: nobody chooses the order of blocks there, some are delayed instead"""
        with tempfile.TemporaryDirectory() as d:
            g = write(d, "g.json", chain(2, blocks=9))
            r = cli("optimize", g, "--local", "--device", "cuda", "--budget", "5", "--cache", os.path.join(d, "c.db"),
                    "-o", os.path.join(d, "p"))
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn("bitwise on 3 inputs and in 8 runs with delayed blocks (cuda)", r.stdout)
            with open(os.path.join(d, "p/plan.json"), encoding="utf-8") as f:
                self.assertNotIn("nanosleep", f.read())

    def test_devices(self):
        fault("mig")
        devices = json.loads(cli("devices", "--local", "--json", "--device", "cuda").stdout)
        self.assertEqual((devices["device"]["kind"], devices["device"]["sharing"]), ("cuda", "mig"))
        self.assertIn("a slice of a GPU", cli("devices", "--local", "--device", "cuda").stdout)
        fault("mps")
        self.assertIn("MPS server", cli("devices", "--local", "--device", "cuda").stdout)
        fault("")
        devices = json.loads(cli("devices", "--local", "--json", "--device", "cuda").stdout)
        self.assertNotIn("sharing", devices["device"])
        # until a run on a GPU has passed under enforcement
        self.assertEqual(devices["confinement"]["worker"], {"files": "off", "calls": "logged"})
        held = cli("devices", "--local", "--json", "--device", "cuda", env={"DOVETAIL_CONFINE": "enforce"})
        self.assertEqual(json.loads(held.stdout)["confinement"]["worker"], {"files": "enforced", "calls": "enforced"})

    def test_a_night_on_a_gpu_in_use(self):
        """Stored graphs are planned again only while nobody else uses the GPU: put off is not failed."""
        fault("")
        s = Service(device="cuda")
        try:
            methods = set()
            for words, planned in (("crowd", 0), ("load", 0), ("cupti-busy", 0), ("cupti-privileges", 1), ("", 1)):
                g = chain(2, factor=3.0 + len(words))
                self.assertEqual(s.finish(s.post(g))["state"], "done")
                methods.add(s.post(g).json()["baseline"]["method"])
                db = sqlite3.connect(s.dir + "/cache.db", timeout=60)
                row = list(db.execute("SELECT want, signature, device, toolchain, policy, digest, body, factors FROM "
                                      "entry WHERE want = 'plan'").fetchone())
                row[2] = "another"
                db.execute("UPDATE entry SET device = 'another', sha256 = ? WHERE want = 'plan'", (row_sum(row),))
                db.commit()
                db.close()
                fault(words)
                s.http("POST", "/v1/reprofile", '{"stale": true, "budget_s": 4}')
                doc = s.until("/v1/reprofile/report", lambda doc: doc["state"] != "running", 30)
                put_off = (doc["gpu_in_use"], len(doc["graphs"]), doc["outcomes"]["failed"])
                self.assertEqual(put_off, (1 - planned, planned, 0), (words, doc))
                problems = [j["problem"] for j in s.http("GET", "/v1/jobs").json()["jobs"] if j["state"] == "failed"]
                self.assertTrue(planned or "the GPU is in use: " in problems[-1]["detail"], problems)
                db = sqlite3.connect(s.dir + "/cache.db", timeout=60)
                db.execute("DELETE FROM entry")
                db.commit()
                db.close()
                fault("")
            # a worker of the service has CUPTI; where the machine is busy, events may be taken all the same
            self.assertIn("measured:cupti", methods)
        finally:
            status, log = s.stop(), s.read_log()
            s.remove()
        self.assertEqual(status, 0, log)

    def test_calibrate(self):
        with tempfile.TemporaryDirectory() as d:
            cache = os.path.join(d, "c.db")
            r = cli("devices", "--calibrate", "--local", "--json", "--device", "soft:l4", "--cache", cache)
            doc = json.loads(r.stdout)
            for field, value in (("launch_us", 1.6), ("l2_gbps", 2120), ("sfu_lanes", 16),  # softgpu/model/models.def
                                 ("memcpy_gbps", 25), ("miss_to", 1.3), ("fence_trips", 3)):
                self.assertAlmostEqual(doc["calibration"][field]["value"] / value, 1, delta=0.02)
            for field, row in doc["calibration"].items():  # the others are shown, and no model would take them
                self.assertEqual(field + "=" in doc["figures"], row["figure"], field)
            self.assertFalse(doc["calibration"]["flag_us"]["figure"])
            self.assertEqual(doc["method"], "modeled:l4")
            rows = json.loads(cli("cache", "list", "--local", "--json", "--cache", cache).stdout)["entries"]
            self.assertEqual([(e["want"], e["device"]) for e in rows], [("calibration", "soft:l4")])
            self.assertTrue(json.loads(cli("cache", "verify", "--local", "--json", "--cache", cache).stdout)["ok"])
            # the figures make a model of their own: its times are not the stock model's, and neither are its rows
            g = write(d, "g.json", single(SCALE.replace("scale", "one"), "one") | {"launches": chain()["launches"],
                "buffers": chain()["buffers"], "modules": chain()["modules"]})
            stock = json.loads(cli("run", g, "--local", "--json", "--device", "soft:l4").stdout)
            own = json.loads(cli("run", g, "--local", "--json", "--device", "soft:l4",
                                 env={"DOVETAIL_SOFTGPU_FIGURES": "graph_launch_us=5"}).stdout)
            self.assertTrue(own["method"].startswith("modeled:l4~"), own["method"])
            self.assertGreater(own["time_us"], stock["time_us"] + 8)  # two launches, 4.43 us more each
            r = cli("devices", "--calibrate")
            self.assertEqual(r.returncode, 2)
            r = cli("devices", "--local", "--json", "--device", "soft", env={"DOVETAIL_SOFTGPU_FIGURES": "tea=1"})
            self.assertEqual((r.returncode, json.loads(r.stdout)["code"]), (4, "no-device"))

    def test_planning_measures_in_turns(self):
        """On a real GPU what there is and the candidate run in turns, pass by pass, and a disturbed measurement keeps
        nothing."""
        with tempfile.TemporaryDirectory() as d:
            g = write(d, "g.json", chain(2))

            def optimize(words):
                fault(words)
                r = cli("optimize", g, "--local", "--json", "--device", "cuda", "--cache",
                        os.path.join(d, words.replace(",", "-") + ".db"))
                fault("")
                self.assertEqual(r.returncode, 0, r.stderr)
                return json.loads(r.stdout), [line.split()[1] for line in r.stderr.splitlines()
                                              if line.startswith("graph ")]

            plan, told = optimize("tell")
            self.assertEqual([x["verdict"] for x in plan["rewrites"] if x["kind"] == "block-fusion"], ["kept"])
            for side in ("baseline", "optimized"):
                self.assertRegex(plan[side]["method"], "^measured:(cupti|events)$")
                self.assertGreaterEqual(plan[side]["ci95_us"], 0)
            self.assertEqual(plan["baseline"]["method"], plan["optimized"]["method"])
            self.assertLess(plan["optimized"]["time_us"], plan["baseline"]["time_us"])
            # rounds A B, B A, A B, …: so after each pass of one comes the other, or the same once more, and never three
            # of one
            longest = run = 0
            for i in range(0, len(told) - 3):
                turns = told[i] != told[i + 1] and told[i + 1] == told[i + 2] and told[i + 3] == told[i]
                run = run + 1 if turns or (run and told[i] == told[i + 1]) else 0
                longest = max(longest, run)
            self.assertGreaterEqual(longest, 90, "50 rounds of two arms")
            for words, reason in (("clock", "clock"), ("hot", "slow"), ("crowd", "process")):
                plan, _ = optimize(words)
                self.assertEqual(len(plan["launches"]), 2, words)
                self.assertEqual(plan["optimized"], plan["baseline"])
                dropped = [x for x in plan["rewrites"] if x["kind"] == "block-fusion"]
                self.assertEqual([x["verdict"] for x in dropped], ["dropped"])
                self.assertRegex(dropped[0]["reason"], "the measurement was noisy: .*" + reason)
                self.assertGreater(dropped[0]["before_us"], 0)
                self.assertGreater(dropped[0]["after_us"], 0)


if __name__ == "__main__":
    main()
