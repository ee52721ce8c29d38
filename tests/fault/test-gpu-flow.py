"""./dev gpu from end to end, in its short form: on the software device, and beside the driver of fake-gpu.c, which
shows that the way of a real GPU is walked: CUPTI's records, noise, a chip that slows down, cases that differ. What a
GPU would answer is shown by a GPU only."""
import contextlib
import glob
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
sys.path[:0] = [os.path.join(ROOT, "bench"), os.path.join(ROOT, "tests/api")]
import cases  # noqa: E402
import process  # noqa: E402
import check as schema  # noqa: E402
import results  # noqa: E402
import results_page  # noqa: E402

BUILD = os.environ["DOVETAIL_BUILD"]
SLOW = float(os.environ.get("DOVETAIL_TEST_SLOW", "1"))


THROWS = ("import gpu, sys; sys.argv[0] = 'gpu.py'; setattr(gpu.Run, sys.argv.pop(1), lambda run, s: {}['made up']); "
          "gpu.main()")
ONE = "import gpu, sys; sys.argv[0] = 'gpu.py'; gpu.SHORT = [sys.argv.pop(1)]; gpu.main()"


def flow(device, *sections, fault="", short=True, wrong=None, one=None):
    """one: this graph alone, of the three that the short form has"""
    out = tempfile.mkdtemp(prefix="dovetail-flow.")
    program = (["-c", THROWS, wrong] if wrong else ["-c", ONE, one] if one else [os.path.join(ROOT, "bench/gpu.py")])
    try:
        done = subprocess.run([sys.executable, "-B", *program, "--build", BUILD, "--out", out, "--device", device,
                               "--seconds", str(480 * SLOW)] +
                              (["--short"] if short else []) + list(sections), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True,
                              env={**os.environ, "FAKE_GPU": fault, "PYTHONPATH": os.path.join(ROOT, "bench")},
                              check=False, timeout=560 * SLOW)
        files = glob.glob(out + "/*")
        docs = [json.load(open(f, encoding="utf-8")) for f in files]
        return done, docs[0] if docs else None, "\n".join(results_page.part(out))
    finally:
        shutil.rmtree(out)


class Flow(unittest.TestCase):
    def valid(self, doc):
        self.assertEqual(schema.faults(doc, "results", closed=False), [])

    def test_soft(self):
        done, doc, page = flow("soft:h200", "graphs", "maps", "model", "cases", "onoff", "capture", "torch")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.valid(doc)
        self.assertIsNone(doc["gpu"])
        self.assertTrue(all(s["state"] == "done" for s in doc["sections"].values()), doc["sections"])
        self.assertEqual([p["graph"] for p in doc["plans"]], ["pointwise", "mlp", "rows"])
        for p in doc["plans"]:
            self.assertTrue(p["bitwise"])
            self.assertEqual(p["method"], "modeled:h200")
            self.assertLessEqual(p["plan_us"], p["baseline_us"])
        self.assertTrue(all(m["equal"] for m in doc["maps"]) and len(doc["maps"]) == 3)
        for row in doc["model"]:  # the device is the model
            self.assertAlmostEqual(row["measured_us"], row["modeled_us"], places=6)
        sums = doc["sections"]["cases"]["sums"]
        self.assertEqual((sums["equal"], sums["differs"] + sums["error"]), (sums["cases"], 0), doc["sections"]["cases"])
        self.assertGreater(sums["cases"], 100)
        self.assertEqual([(r["name"], r["launches"], r["of"], r["same"])
                          for r in doc["sections"]["capture"]["rows"]],
                         [("whole", 18, 4, 4), ("step", 3, 1, 1), ("alone", 18, 4, 4)])
        self.assertIn("No GPU has been measured", page)  # a soft run is no GPU's
        rows = [r for r in doc["sections"]["onoff"]["rows"] if r["graph"] == "sweep"]
        self.assertEqual([(r["kind"], set(r["blocks_per_sm"]), r["bitwise"]) for r in rows],
                         [(k, {n}, True) for k in ("programmatic-launch", "prefetch") for n in (1, 4)])
        for r in rows[:2]:  # what comes before the wait overlaps
            self.assertLess(r["on_us"], 0.9 * r["off_us"])

    def test_driver(self):
        done, doc, page = flow("cuda", "graphs", "maps", "model", "cases")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.valid(doc)
        self.assertEqual(doc["gpu"]["name"], "NVIDIA H200 (fake)")
        self.assertEqual(len(doc["plans"]), 3)
        for p in doc["plans"]:
            self.assertTrue(p["bitwise"])
            self.assertEqual(p["method"], "measured:cupti")
            self.assertAlmostEqual(p["tracing_overhead"], 1, places=3)
            self.assertIn(f"| {p['graph']} |", page)
        self.assertIn("Passes under CUPTI's tracing took 1.000 to 1.000 times as long.", page)
        # fake-gpu.c: a kernel takes 1 us and 10 ns a block, 200 ns between; pointwise has four kernels
        blocks = [l["grid"][0] for l in json.load(open(os.path.join(ROOT, "tests/corpus/pointwise/graph.json"),
                                                       encoding="utf-8"))["launches"]]
        self.assertAlmostEqual(doc["plans"][0]["baseline_us"],
                               len(blocks) + 0.01 * sum(blocks) + 0.2 * (len(blocks) - 1), places=3)
        self.assertTrue(all(m["equal"] for m in doc["maps"]) and {m["device"] for m in doc["maps"]} == {"soft", "cuda"})
        self.assertGreater(len(doc["model"]), 5)
        self.assertEqual(doc["sections"]["smoke"]["counters"]["reason"][:8], "cuptiPro")
        self.assertEqual(doc["sections"]["smoke"]["modules"], "ptx" if doc["sections"]["smoke"]["nvjitlink"] == "none"
                         else "cubin")

    def test_machine_code(self):
        """A graph's modules and those of the recorder go to the driver as machine code, where nvJitLink is there: it
        takes nothing else here."""
        tool = [os.path.join(BUILD, "bench/bench-gpu")]
        path = os.path.join(ROOT, "tests/corpus/mlp/graph.json")
        soft = json.loads(subprocess.run(tool + ["maps", "soft:h200", path], capture_output=True, text=True,
                                         check=True).stdout)
        env = {**os.environ, "FAKE_GPU": "cubin-only"}
        smoke = json.loads(subprocess.run(tool + ["smoke", "soft:h200"], capture_output=True, text=True,
                                          check=True).stdout)
        if smoke["nvjitlink"] == "none":
            self.skipTest("no nvJitLink")
        real = json.loads(subprocess.run(tool + ["maps", "cuda", path], capture_output=True, text=True, check=True,
                                         env=env).stdout)
        self.assertEqual(real["edges"], soft["edges"])

    def test_noise(self):
        for fault, why in (("hot", "slowed"), ("crowd", "other processes")):
            done, doc, page = flow("cuda", "graphs", fault=fault, one="mlp")
            self.assertEqual(doc["plans"], [], done.stdout)
            self.assertEqual(len(doc["refused"]), 1)
            self.assertTrue(all(why in r["why"] for r in doc["refused"]), doc["refused"])
            self.assertIn("Not published, mlp", page)

    def test_profilers_that_crash(self):
        """What CUPTI does in one process costs that one: bytes and times by events are there, and it is said."""
        done, doc, _ = flow("cuda", "graphs", fault="cupti-crash,count-crash", one="mlp")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(doc["sections"]["smoke"]["state"], "failed")
        self.assertIn("signal 6", doc["sections"]["smoke"]["cupti"]["reason"])
        self.assertIn("signal 6", doc["sections"]["smoke"]["counters"]["reason"])
        self.assertEqual(doc["sections"]["graphs"]["state"], "done", doc["sections"])
        self.assertEqual([(p["method"], p["bitwise"]) for p in doc["plans"] + doc["refused"]],
                         [("measured:events", True)])

    def test_a_section_that_throws(self):
        """costs more than itself to nobody, and leaves a file that can be read"""
        done, doc, _ = flow("soft:h200", "maps", "onoff", wrong="maps")
        self.assertEqual((doc["sections"]["maps"]["state"], doc["sections"]["onoff"]["state"]), ("failed", "done"),
                         done.stdout)
        self.assertIn("made up", doc["sections"]["maps"]["why"])

    def test_a_process_that_stays(self):
        start = time.monotonic()
        status, out, _ = process.run(["sh", "-c", "sleep 60 & echo here; sleep 60"], 1)
        self.assertEqual((status, out), (None, "here\n"))
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual(process.run(["sh", "-c", "kill -11 $$"], 10)[0], -11)

    def test_no_device(self):
        done, doc, _ = flow("cuda", fault="no-device")
        self.assertEqual((done.returncode, doc), (1, None))
        self.assertIn("no GPU", done.stdout)

    def test_cases(self):
        sums, wrong = cases.compare(BUILD, "soft:h200", [os.path.join(ROOT, "tests/ptx/wrong/value.ptx")], 60 * SLOW)
        self.assertGreater(sums["differs"], 0)
        self.assertTrue(wrong[0]["what"])
        # one entry that the compiler refuses does not cost the others of its module
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "mixed.ptx")
            good = open(os.path.join(ROOT, "tests/ptx/warp.ptx"), encoding="utf-8").read()
            with open(path, "w", encoding="utf-8") as f:
                f.write(good + "\n// RUN broken block=1\n// BUF x u32 1\n// OUT x u32 1\n.visible .entry "
                               "broken(.param .u64 x)\n{\n\tadd.u32 %nonsense, 1, 2;\n\tret;\n}\n")
            sums, wrong = cases.compare(BUILD, "soft:h200", [path], 60 * SLOW)
            self.assertEqual((sums["refused"], sums["differs"], sums["error"]), (1, 0, 0), wrong)
            self.assertGreater(sums["equal"], 10)

    def test_page(self):
        subprocess.run([sys.executable, "-B", os.path.join(ROOT, "bench/results_page.py"), "--check"], check=True)


class Files(unittest.TestCase):
    def test_one_second(self):
        """Runs that end in one second leave a file each."""
        with tempfile.TemporaryDirectory() as out, contextlib.redirect_stdout(io.StringIO()):
            for _ in range(3):
                results.write(out, "models")
            self.assertEqual(len(glob.glob(f"{out}/models-*.json")), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
