"""The machine code that a plan carries, beside a driver that takes or refuses it (fake-gpu.c). What runs is the code that was compared, or the posted launches."""
import base64
import copy
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import harness  # noqa: E402
from harness import chain, cli, write  # noqa: E402
from switch import fault  # noqa: E402

BIND = os.path.join(harness.BUILD, "tests/e2e/bind")
PASS = {k: os.environ[k] for k in ("DOVETAIL_CUDA_LIBS", "DOVETAIL_SOFTGPU")}
os.environ["LD_LIBRARY_PATH"] = os.path.join(harness.BUILD, "tests/fault")  # meson puts the folders of what `bind` is linked with in front
NO_ASSEMBLER = dict(PASS, DOVETAIL_NVRTC="/nonexistent")


def setUpModule():
    global DIR, GRAPH, PLAN
    DIR = tempfile.TemporaryDirectory()
    GRAPH = write(DIR.name, "g.json", chain(2, blocks=9))
    PLAN = plan(PASS)


def tearDownModule():
    DIR.cleanup()


def plan(env):
    out = os.path.join(DIR.name, "p")
    r = cli("optimize", GRAPH, "--local", "--device", "soft", "--cache", os.path.join(tempfile.mkdtemp(dir=DIR.name), "c.db"), "-o", out, env=env)
    assert r.returncode == 0, r.stderr
    with open(os.path.join(out, "plan.json"), encoding="utf-8") as f:
        return json.load(f)


def outputs(doc):
    return {v["buffer"]: v["sha256"] for v in doc["outputs"]}


def run(doc, *args, env=None):
    return cli("run", write(DIR.name, "changed.json", doc), "--local", "--json", *args, env=env or PASS)


def posted():
    return outputs(json.loads(cli("run", GRAPH, "--local", "--json", "--device", "soft", env=PASS).stdout))


def changed(code=None, digest=True, **assumes):
    """the plan with other machine code: code(bytes) -> bytes or text; NULL: without"""
    doc = copy.deepcopy(PLAN)
    for m in doc["modules"].values():
        if code is None:
            m.pop("cubin", None), m.pop("cubin_sha256", None)
        elif "cubin" in m:
            new = code(base64.b64decode(m["cubin"]))
            m["cubin"] = new if isinstance(new, str) else base64.b64encode(new).decode()
            if digest and not isinstance(new, str):
                m["cubin_sha256"] = "sha256:" + hashlib.sha256(new).hexdigest()
    doc["assumes"].get("machine_code", {}).update(assumes)
    return doc


def newer(b):
    """as another version of the assembler would have made it"""
    return b.replace(b", V13.", b", V14.")


class Document(unittest.TestCase):
    def test_it_carries_what_was_compared(self):
        self.assertEqual(len(PLAN["launches"]), 1)
        code = PLAN["assumes"]["machine_code"]
        self.assertEqual((code["assembler"], code["arch"]), ("nvJitLink", "sm_90"))
        self.assertRegex(code["version"], r"^\d+\.\d+\.\d+$")
        for m in PLAN["modules"].values():
            b = base64.b64decode(m["cubin"])
            self.assertEqual(b[:4], b"\x7fELF")
            self.assertEqual(m["cubin_sha256"], "sha256:" + hashlib.sha256(b).hexdigest())
        for m in PLAN["original"]["modules"].values():
            self.assertNotIn("cubin", m)
        self.assertEqual({k: v for k, v in plan(PASS).items() if k != "name"}, {k: v for k, v in PLAN.items() if k != "name"})

    def test_without_an_assembler(self):
        doc = plan(NO_ASSEMBLER)
        self.assertNotIn("machine_code", doc["assumes"])
        self.assertFalse([m for m in doc["modules"].values() if "cubin" in m])

    def test_damage(self):
        flip = lambda b: b[:1000] + bytes([b[1000] ^ 1]) + b[1001:]
        for what, doc, words in (("a bit", changed(flip, digest=False), "is damaged"), ("no base64", changed(lambda b: "!!!!"), "not base64"), ("nothing", changed(lambda b: ""), "no machine code"),
                                 ("no ELF", changed(lambda b: b"hello, world"), "no machine code"), ("cut", changed(lambda b: b[:900], digest=False), "is damaged")):
            for device in "soft", "cuda":
                with self.subTest(what, device=device):
                    r = run(doc, "--device", device)
                    self.assertEqual(r.returncode, 3, r.stderr)
                    problem = json.loads(r.stdout)
                    self.assertIn(words, problem["detail"])
                    self.assertRegex(problem["pointer"], r"^/modules/f\d+/cubin$")
        for new in (lambda b: b[:900] + b"\xff" * (len(b) - 900), lambda b: b[:900], lambda b: b[:64], lambda b: b[:4]):  # with its right digest: no driver gets it
            r = run(changed(new), "--device", "cuda", env=NO_ASSEMBLER)
            self.assertEqual((r.returncode, "no whole ELF file" in r.stdout), (3, True), r.stdout)


class Run(unittest.TestCase):
    def tearDown(self):
        fault("")

    def test_the_code_runs(self):
        for env, name in ((PASS, "assembled here"), (NO_ASSEMBLER, "carried")):
            with self.subTest(name):
                fault("cubin-only,images")
                r = run(PLAN, "--device", "cuda", env=env)
                self.assertEqual(r.returncode, 0, r.stdout)
                self.assertEqual(outputs(json.loads(r.stdout)), posted())
                self.assertNotIn("image ptx", r.stderr)

    def test_other_code_does_not(self):
        for what, doc, env, words in (("another version", changed(newer), PASS, "nobody has compared"), ("none", changed(), PASS, "carries no machine code"),
                                      ("none, and no assembler", changed(), NO_ASSEMBLER, "carries no machine code")):
            with self.subTest(what):
                r = run(doc, "--device", "cuda", env=env)
                self.assertEqual((r.returncode, json.loads(r.stdout)["code"]), (3, "unsupported"), r.stdout)
                self.assertIn(words, r.stdout)
        fault("no-cubin")
        self.assertNotEqual(run(PLAN, "--device", "cuda", env=NO_ASSEMBLER).returncode, 0)

    def test_the_software_device_takes_ptx(self):
        for doc in PLAN, changed(), changed(newer):
            r = run(doc, "--device", "soft")
            self.assertEqual(outputs(json.loads(r.stdout)), posted())


class Bind(unittest.TestCase):
    """libdovetail in another program, whose libcuda.so.1 is the fake driver"""

    def tearDown(self):
        fault("")

    def bind(self, doc, soft=False):
        env = dict(os.environ)
        if soft:
            env["LD_LIBRARY_PATH"] = os.path.join(harness.BUILD, "softgpu")
        r = subprocess.run([BIND, write(DIR.name, "bound.json", doc)], env=env, capture_output=True, text=True, timeout=120 * harness.SLOW, check=False)
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout), r.stderr

    def test_the_code_is_loaded(self):
        fault("images,cubin-only")
        got, images = self.bind(PLAN)
        self.assertEqual((got["fallback"], got["outputs"]), (None, posted()))
        self.assertEqual(images.splitlines()[0], "image machine code")

    def test_the_posted_launches_run_instead(self):
        fault("images,no-cubin")
        got, images = self.bind(PLAN)
        self.assertEqual(got["outputs"], posted())
        self.assertIn("the machine code that was compared", got["fallback"])
        self.assertIn("CUDA_ERROR_NO_BINARY_FOR_GPU", got["fallback"])
        self.assertEqual(images.split("\n")[:2], ["image machine code", "image ptx"])  # the plan's, refused; the posted
        fault("images")
        got, images = self.bind(changed())
        self.assertEqual(got["outputs"], posted())
        self.assertIn("never compared", got["fallback"])
        self.assertNotIn("machine code", images)

    def test_the_software_device(self):
        for doc in PLAN, changed():
            got, _ = self.bind(doc, soft=True)
            self.assertEqual((got["fallback"], got["outputs"]), (None, posted()))

    def test_damage(self):
        got, _ = self.bind(changed(lambda b: b[:1000] + bytes([b[1000] ^ 1]) + b[1001:], digest=False))
        self.assertIn("is damaged", got["problem"])
        fault("images")
        got, images = self.bind(changed(lambda b: b[:900]))
        self.assertEqual(got["outputs"], posted())
        self.assertIn("no whole ELF file", got["fallback"])
        self.assertNotIn("machine code", images)


if __name__ == "__main__":
    harness.main()
