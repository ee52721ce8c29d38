"""Plans in another program: libdovetail binds them to its memory and launches them, or goes back to the original
launches and says so.

bind.c is that program; what it computes is compared with what `dovetail run` says of the posted graph.
"""
import base64
import copy
import hashlib
import json
import os
import re
import struct
import subprocess
import tempfile
import unittest

import harness

# another one has libdovetail built with ThreadSanitizer
BIND = os.environ.get("DOVETAIL_BIND", os.path.join(harness.BUILD, "tests/e2e/bind"))
EXAMPLE = os.path.join(harness.BUILD, "client/example-plan")
CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus")
ENV = dict(os.environ, LD_LIBRARY_PATH=os.path.join(harness.BUILD, "softgpu"))
REFUSED, DRIVER = -4, -5


def tool(*args):
    r = subprocess.run(args, env=ENV, capture_output=True, text=True, timeout=120 * harness.SLOW)
    assert r.returncode == 0, (args, r.returncode, r.stderr)
    return r.stdout


def dovetail(*args):
    return tool(harness.CLI, "--local", "--device", "soft", "--cache", os.path.join(DIR.name, "c.db"), *args)


def setUpModule():
    global DIR
    DIR = tempfile.TemporaryDirectory()


def tearDownModule():
    DIR.cleanup()


class Plan:
    def __init__(self, name):
        self.graph = os.path.join(CORPUS, name, "graph.json")
        self.dir = os.path.join(DIR.name, name)
        # gather-constant with an index that makes it one-to-one, so that the fused launch rests on it
        if name == "identity":
            doc = json.load(open(os.path.join(CORPUS, "gather-constant/graph.json")))
            for m in doc["modules"].values():
                m["cuda"] = open(os.path.join(CORPUS, "gather-constant", m.pop("file"))).read()
            doc["buffers"]["index"]["data"] = base64.b64encode(struct.pack("<1024I", *range(1024))).decode()
            self.graph = os.path.join(DIR.name, "identity.json")
            json.dump(doc, open(self.graph, "w"))
        self.path = os.path.join(self.dir, "plan.json")
        if not os.path.exists(self.path):
            dovetail("optimize", self.graph, "-o", self.dir)
        self.doc = json.load(open(self.path))

    def outputs(self, seed=0):
        text = dovetail("run", self.graph, "--json", *(["--seed", str(seed)] if seed else []))
        return {v["buffer"]: v["sha256"] for v in json.loads(text)["outputs"]}

    def bind(self, *args, doc=None):
        path = self.path
        if doc is not None:
            path = os.path.join(DIR.name, "changed.json")
            text = doc if isinstance(doc, str) else json.dumps(doc)
            with open(path, "w") as f:
                f.write(text)
        return json.loads(tool(BIND, path, *map(str, args)))


COUNT = harness.HEAD + """
.visible .entry count(.param .u64 t, .param .u64 y)
{
    .reg .u64 %rd<4>; .reg .u32 %r<4>;
    ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [y];
    cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2;
    atom.global.add.u32 %r1, [%rd1], 1;
    st.global.u32 [%rd2], %r1;
    ret;
}
"""


def counting():
    """A plan whose one launch leaves in y how often it ran before, by a counter in scratch memory."""
    doc = {k: v for k, v in Plan("mlp").doc.items() if k != "original"}
    doc.update(modules={"m": {"ptx": COUNT}}, assumes={"align": {}, "constant": {}, "evidence": "proved"},
               buffers={"y": {"bytes": 4, "role": "output"}}, scratch={"t": {"bytes": 4, "fill": {"zero": True}}},
               launches=[{"name": "c", "module": "m", "entry": "count", "grid": [1, 1, 1], "block": [1, 1, 1],
                          "args": [{"buffer": "t"}, {"buffer": "y"}], "stream": 0, "after": [],
                          "programmatic": False}])
    return doc


class Right(unittest.TestCase):
    def test_every_way_gives_what_the_graph_gives(self):
        for name in "mlp", "pointwise", "inplace", "gather-constant", "identity", "stencil":
            p = Plan(name)
            want = p.outputs()
            ways = [[], ["--graph"], ["--capture"], ["--threads", 4]] + ([["--times", 3]] if name != "inplace" else [])
            for way in ways:
                with self.subTest(name, way=way):
                    got = p.bind(*way)
                    self.assertIsNone(got["fallback"])
                    self.assertEqual(got["outputs"], want)
            with self.subTest(name, way="seed"):
                got = p.bind("--seed", 5)
                self.assertEqual(got["outputs"], p.outputs(5))
                self.assertNotEqual(got["outputs"], want)

    def test_something_was_rewritten(self):
        """else the above says little"""
        p = Plan("pointwise")
        self.assertLess(len(p.doc["launches"]), len(p.doc["original"]["launches"]))

    def test_branches(self):
        """launches on streams, put in order by `after` alone"""
        x = {"bytes": 4096, "role": "input", "fill": {"uniform": [-1, 1], "dtype": "f32", "seed": 3}}
        step = lambda name, src, dst, stream, after, f: {"name": name, "module": "m", "entry": "scale",
                                                         "grid": [16, 1, 1], "block": [64, 1, 1],
            "args": [{"buffer": src}, {"buffer": dst}, {"f32": f}], "stream": stream, "after": after,
                                                         "programmatic": False}
        doc = copy.deepcopy(Plan("pointwise").doc)
        doc.pop("original", None)
        doc.update(modules={"m": {"ptx": harness.SCALE}}, assumes={"align": {}, "constant": {}, "evidence": "proved"},
                   buffers={"x": x, **{k: {"bytes": 4096, "role": "intermediate"} for k in ("a", "b")},
                            "y": {"bytes": 4096, "role": "output"}, "z": {"bytes": 4096, "role": "output"}})
        doc["launches"] = [step("a", "x", "a", 0, [], 3.0), step("b", "x", "b", 2, [], 5.0),
                           step("y", "a", "y", 1, ["a"], 7.0),
                           step("z", "b", "z", 0, ["b"], 0.5)]
        p, flat = Plan("pointwise"), copy.deepcopy(doc)
        for s in flat["launches"]:
            s.update(stream=0, after=[])
        want = p.bind(doc=flat)["outputs"]
        self.assertNotEqual(want["y"], want["z"])
        for way in [], ["--graph"], ["--capture"], ["--times", 3], ["--threads", 6], ["--together", 4, "--times", 5]:
            with self.subTest(way=way):
                got = p.bind(*way, doc=doc)
                self.assertEqual((got["outputs"], got["fallback"]), (want, None))

    def test_nothing_is_allocated(self):
        """A launch allocates nothing, neither on the host nor on the device; what loading and binding need on the host
        shows that the count counts."""
        for name in "mlp", "pointwise", "inplace":
            for way in [], ["--times", 20], ["--graph"]:
                with self.subTest(name, way=way):
                    got = Plan(name).bind("--count", *way)
                    self.assertEqual(got["device"], 0)
                    if "-asan" in harness.BUILD or harness.SLOW > 1:
                        continue  # the sanitizer's malloc is not ours
                    self.assertGreater(got["allocations"]["load"], 0)
                    self.assertGreater(got["allocations"]["bind"], 0)
                    # a graph's list of nodes
                    self.assertEqual(got["allocations"]["launch"], 1 if "--graph" in way else 0)

    def test_memory_of_its_own(self):
        """Scratch and intermediates that nobody gave, side by side, also bound while a stream is being captured; all of
        it goes back."""
        for name in "mlp", "identity", "inplace", "stencil":
            p = Plan(name)
            for way in [], ["--threads", 4], ["--capture"], ["--graph"]:
                with self.subTest(name, way=way):
                    got = p.bind("--own", *way)
                    self.assertEqual((got["outputs"], got["fallback"]), (p.outputs(), None))
        doc = copy.deepcopy(Plan("mlp").doc)
        self.assertTrue(any(b["role"] == "intermediate" for b in doc["buffers"].values()))
        got = Plan("mlp").bind("--own", "--count")
        self.assertGreater(got["device"], 0)
        self.assertEqual(got["left"], 0)

    def test_scratch_of_its_own(self):
        """A counter that starts at zero and that every launch counts up: each binding counts its own."""
        doc = counting()
        for way, counts in (["--own", "--threads", 4], 3), (["--own", "--capture"], 3), (["--own"], 3), ([], 3):
            with self.subTest(way=way):
                got = Plan("mlp").bind(*way, "--times", 3, doc=doc)
                want = hashlib.sha256(struct.pack("<I", counts - 1)).hexdigest()
                self.assertEqual((got["outputs"], got["fallback"]), ({"y": "sha256:" + want}, None))

    def test_like_another(self):
        """What `like` found out holds: the original launches run, and nothing is read again."""
        p = Plan("identity")
        got = p.bind("--own", "--change", "index", "--capture")
        self.assertIn("index does not hold what the plan was made for", got["fallback"])
        self.assertEqual(got["outputs"], p.bind("--change", "index")["outputs"])

    def test_example(self):
        out = tool(EXAMPLE, Plan("mlp").path)
        self.assertEqual(len(re.findall(r"^in a stream: +[0-9.]+ us$", out, re.M)), 3)
        self.assertRegex(out, r"as a graph: +[0-9.]+ us")


class Back(unittest.TestCase):
    """the original launches run, and say why"""

    def back(self, got, want, *words):
        self.assertEqual(got.get("outputs"), want, got)
        for w in words:
            self.assertIn(w, got["fallback"])

    def test_alignment(self):
        p = Plan("pointwise")
        buffer, n = max(p.doc["assumes"]["align"].items(), key=lambda x: x[1])
        self.assertGreaterEqual(n, 4)
        doc = copy.deepcopy(p.doc)  # the kernels themselves need as much: only the assumption is broken here
        doc["assumes"]["align"][buffer] = 4 * n
        self.back(p.bind("--shift", buffer, 2 * n, doc=doc), p.outputs(), buffer, "aligned")

    def test_constant_content(self):
        p = Plan("identity")
        self.assertIn("index", p.doc["assumes"]["constant"])
        got = p.bind("--change", "index")
        self.assertIn("index", got["fallback"])
        twin = copy.deepcopy(p.doc)  # what the original launches make of it
        twin.update(launches=[dict(s, stream=0, after=[], programmatic=False) for s in twin["original"]["launches"]],
                    modules={**twin["modules"], **twin["original"]["modules"]},
                    assumes={"align": {}, "constant": {}, "evidence": "proved"})
        del twin["original"]
        self.assertEqual(p.bind("--change", "index", doc=twin)["outputs"], got["outputs"])

    def test_overlap(self):
        p = Plan("mlp")
        a, b = [k for k, v in p.doc["buffers"].items() if v["role"] == "weight"][:2]
        self.assertIn("share memory", p.bind("--overlap", a, b)["fallback"])

    def test_module_that_does_not_load(self):
        p = Plan("pointwise")
        doc = copy.deepcopy(p.doc)
        for m in doc["modules"].values():
            m["ptx"] = m["ptx"].replace("ret;", "no_such_instruction;")
        self.back(p.bind(doc=doc), p.outputs(), "cannot run here", "module")

    def test_arguments_that_do_not_fit(self):
        p = Plan("pointwise")
        doc = copy.deepcopy(p.doc)
        doc["launches"][0]["args"].pop()
        self.back(p.bind(doc=doc), p.outputs(), "argument")

    def test_launch_that_is_refused(self):
        p = Plan("pointwise")
        doc = copy.deepcopy(p.doc)
        for m in doc["modules"].values():
            m["ptx"] = re.sub(r"\)\s*(\.\w+ [\d, ]+\s*)*\{", ")\n.maxntid 1, 1, 1\n{", m["ptx"], count=1)
        self.back(p.bind(doc=doc), p.outputs(), "refused")
        # each finds it out, or the others did
        self.back(p.bind("--together", 6, "--times", 4, doc=doc), p.outputs(), "refused")


class Wrong(unittest.TestCase):
    def refused(self, got, *words, code=REFUSED):
        self.assertEqual(got.get("error"), code, got)
        for w in words:
            self.assertIn(w, got["problem"])

    def test_bindings(self):
        p = Plan("pointwise")
        first = next(k for k, v in p.doc["buffers"].items() if v["role"] == "input")
        self.refused(p.bind("--omit", first), first, "not bound")
        self.refused(p.bind("--twice", first), first, "twice")
        self.refused(p.bind("--small", first), first, "bytes")
        self.refused(p.bind("--extra", "nobody"), "nobody")

    def test_no_way_back(self):
        """what is broken is named when there is nothing else to run"""
        p = Plan("pointwise")
        doc = copy.deepcopy(p.doc)
        buffer = next(iter(doc["assumes"]["align"]))
        doc["assumes"]["align"][buffer] = 64
        del doc["original"]
        self.refused(p.bind("--shift", buffer, 32, doc=doc), "aligned")
        for m in doc["modules"].values():
            m["ptx"] = "no"
        self.refused(p.bind(doc=doc), "neither", code=DRIVER)

    def test_documents(self):
        p = Plan("pointwise")
        text = json.dumps(p.doc)
        for bad in "", "[]", "{}", "null", text[:-1], text[:4000], json.dumps({"dovetail": 1, "buffers": {},
            "launches": []}):
            with self.subTest(bad[:20]):
                self.refused(p.bind(doc=bad))
        for change in ({"launches": 7}, {"modules": []}, {"buffers": {"x": {"bytes": -1}}},
                       {"original": {"launches": [{"name": 1}]}},
                       {"assumes": {"align": {"x": 3}}}, {"scratch": {"t": {"bytes": 1 << 60}}}):
            with self.subTest(change):
                self.assertIn("error", p.bind(doc={**p.doc, **change}))


if __name__ == "__main__":
    harness.main()
