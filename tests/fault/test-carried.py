"""The machine code that a plan carries, beside a driver that takes or refuses it (fake-gpu.c). What runs is the code
that was compared, or the posted launches."""
import base64
import copy
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import harness  # noqa: E402
from harness import SCALE, chain, cli, write  # noqa: E402
from switch import fault  # noqa: E402

BIND = os.path.join(harness.BUILD, "tests/e2e/bind")
PASS = {k: os.environ[k] for k in ("DOVETAIL_CUDA_LIBS", "DOVETAIL_SOFTGPU")}
# meson puts the folders of what `bind` is linked with in front
os.environ["LD_LIBRARY_PATH"] = os.path.join(harness.BUILD, "tests/fault")
NO_ASSEMBLER = dict(PASS, DOVETAIL_NVRTC="/nonexistent")


PLUS = SCALE[SCALE.index(".visible"):].replace("scale", "plus").replace("mul.rn.f32", "add.f32")
FMA = (r"add\.f32 (%\S+), (%\S+), (%\S+);", r"fma.rn.f32 \1, \2, \3, \3;")
# nothing hides the product from the sum; its .rn still keeps it out
BARE = (r"xor\.b32 (%\S+), (%\S+), %\S+;", r"mov.b32 \1, \2;")


def setUpModule():
    global DIR, GRAPH, PLAN
    DIR = tempfile.TemporaryDirectory()
    doc = chain(2, blocks=9)  # a product, and a sum of it
    doc["modules"]["m"]["ptx"] += PLUS
    doc["launches"][1]["entry"] = "plus"
    GRAPH = write(DIR.name, "g.json", doc)
    PLAN = plan(PASS)


def tearDownModule():
    DIR.cleanup()


def plan(env, graph=None):
    out = os.path.join(DIR.name, "p")
    r = cli("optimize", graph or GRAPH, "--local", "--device", "soft", "--cache",
            os.path.join(tempfile.mkdtemp(dir=DIR.name), "c.db"), "-o", out, env=env)
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


def altered(*pairs):
    """the plan with other PTX, whose code is not the one that is carried"""
    doc = copy.deepcopy(PLAN)
    m, = [m for m in doc["modules"].values() if "cubin" in m]
    for pattern, new in pairs:
        m["ptx"], n = re.subn(pattern, new, m["ptx"])
        assert n == 1, (pattern, m["ptx"])
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
        self.assertEqual({k: v for k, v in plan(PASS).items() if k != "name"},
                         {k: v for k, v in PLAN.items() if k != "name"})

    def test_without_an_assembler(self):
        doc = plan(NO_ASSEMBLER)
        self.assertNotIn("machine_code", doc["assumes"])
        self.assertFalse([m for m in doc["modules"].values() if "cubin" in m])

    def test_damage(self):
        flip = lambda b: b[:1000] + bytes([b[1000] ^ 1]) + b[1001:]
        for what, doc, words in (("a bit", changed(flip, digest=False), "is damaged"),
                                 ("no base64", changed(lambda b: "!!!!"), "not base64"),
                                 ("nothing", changed(lambda b: ""), "no machine code"),
                                 ("no ELF", changed(lambda b: b"hello, world"), "no machine code"),
                                 ("cut", changed(lambda b: b[:900], digest=False), "is damaged")):
            for device in "soft", "cuda":
                with self.subTest(what, device=device):
                    r = run(doc, "--device", device)
                    self.assertEqual(r.returncode, 3, r.stderr)
                    problem = json.loads(r.stdout)
                    self.assertIn(words, problem["detail"])
                    self.assertRegex(problem["pointer"], r"^/modules/f\d+/cubin$")
        # with its right digest: no driver gets it
        for new in (lambda b: b[:900] + b"\xff" * (len(b) - 900), lambda b: b[:900], lambda b: b[:64], lambda b: b[:4]):
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

    def test_other_code_is_compared_again(self):
        flip = lambda b: b[:2000] + bytes([b[2000] ^ 1]) + b[2001:]
        for what, doc in (("another version", changed(newer)), ("another byte", changed(flip)), ("none", changed()),
                          ("another text", altered(BARE))):
            with self.subTest(what):
                fault("cubin-only,images")
                r = run(doc, "--device", "cuda")
                self.assertEqual(r.returncode, 0, r.stdout)
                answer = json.loads(r.stdout)
                self.assertEqual((answer["kind"], answer["launches"], answer.get("fallback"), outputs(answer)),
                                 ("plan", 1, None, posted()))
                self.assertNotIn("image ptx", r.stderr)

    def test_a_contracted_kernel_is_compared_again(self):
        """its posted text is the one with the contractions written out"""
        graph = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus/rows/graph.json")
        doc = plan(PASS, graph)
        for m in doc["modules"].values():
            m.pop("cubin", None), m.pop("cubin_sha256", None)
        answer = json.loads(run(doc, "--device", "cuda").stdout)
        want = outputs(json.loads(cli("run", graph, "--local", "--json", "--device", "soft", env=PASS).stdout))
        self.assertEqual((answer.get("fallback"), answer["launches"], outputs(answer)),
                         (None, len(doc["launches"]), want))

    def falls_back(self, doc, *words, env=PASS):
        r = run(doc, "--device", "cuda", env=env)
        self.assertEqual(r.returncode, 0, r.stdout)
        answer = json.loads(r.stdout)
        self.assertEqual((answer["launches"], outputs(answer)), (2, posted()))
        self.assertIn("warning: fallback: the posted launches ran", r.stderr)
        for w in words:
            self.assertRegex(answer["fallback"], w)
            self.assertRegex(answer["warnings"][0]["message"], w)

    def test_other_arithmetic_does_not_run(self):
        fma = altered(FMA)
        self.assertNotEqual(outputs(json.loads(run(fma, "--device", "soft").stdout)), posted())
        self.falls_back(fma, "makes other code here", r"FFMA.* line \d+ \(posted-[0-9a-f]{12}\)", "posted are .*FADD")
        # the assembler may contract it
        self.falls_back(altered(BARE, (r"mul\.rn\.f32", "mul.f32")), "FFMA", "posted are")
        gone = altered((r"mul\.rn\.f32 (%\S+), (%\S+), %\S+;", r"mov.f32 \1, \2;"))
        self.falls_back(gone, "FMUL.* of 'scale'", "is gone though its value is needed")
        silent = altered((r'\.file 2 "posted-[0-9a-f]+"', '.file 2 "posted-0123456789ab"'))  # its lines lead nowhere
        self.falls_back(silent, "is made of no posted line")

    def test_the_posted_launches_run_instead(self):
        self.falls_back(changed(), "carries no machine code", env=NO_ASSEMBLER)
        fault("no-cubin")
        self.falls_back(PLAN, "the machine code that was compared", "CUDA_ERROR_NO_BINARY_FOR_GPU", env=NO_ASSEMBLER)

    def test_a_name_in_many_bytes(self):
        """the reason repeats a module's name"""
        doc = json.loads(json.dumps(altered(FMA)).replace('"f0"', '"x' + "\u00e4" * 99 + '"'))
        self.falls_back(doc, "module 'x\u00e4{99}'")

    def test_a_bad_original(self):
        for new in (None, 7, {}, {"launches": 7}, {"launches": [{"module": 7}]},
                    {"launches": PLAN["original"]["launches"], "modules": {}}):
            with self.subTest(original=new):
                doc = changed(newer)
                doc["original"] = new
                r = run(doc, "--device", "cuda")
                self.assertEqual((r.returncode, "detail" in json.loads(r.stdout)), (3, True), r.stdout)

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
        r = subprocess.run([BIND, write(DIR.name, "bound.json", doc)], env=env, capture_output=True, text=True,
                           timeout=120 * harness.SLOW, check=False)
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
