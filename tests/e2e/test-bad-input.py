#!/usr/bin/env python3
"""Bad input: each graph is refused with the right code and exit status, by the service and with --local, and the
service lives on."""
import json
import shutil
import tempfile

from harness import ENDLESS, OUTSIDE, SCALE, TRAP, ServiceCase, chain, changed, cli, single, write, main

CUDA = 'extern "C" __global__ void k(float *x) { x[0] = undeclared_name; }\n'
GOOD = chain(2)

# name, document (or text), code, exit status, what the problem must say
CASES = [
    ("not-json", '{"dovetail": 1,\n "launches": [}', "bad-json", 3, {"detail": "line 2, column"}),
    ("not-an-object", "[1, 2]", "bad-graph", 3, {}),
    ("empty", "", "bad-json", 3, {}),
    ("missing-buffer", changed(GOOD, launches__0__args__0={"buffer": "nope"}), "bad-graph", 3,
     {"pointer": "/launches/0/args/0"}),
    ("negative-size", changed(GOOD, buffers__a__bytes=-4), "bad-graph", 3, {"pointer": "/buffers/a/bytes"}),
    ("huge-size", changed(GOOD, buffers__a__bytes=10**15), "too-large", 3, {}),
    ("offset-outside", changed(GOOD, launches__0__args__0={"buffer": "a", "offset": 4096}), "bad-graph", 3,
     {"pointer": "/launches/0/args/0"}),
    ("writes-a-weight", changed(GOOD, buffers__b__role="weight"), "writes-constant", 3, {}),
    ("no-compile", {**single(TRAP, "k"), "modules": {"m": {"cuda": CUDA}}}, "compile-failed", 3,
     {"log": "undeclared_name"}),
    ("ptx-syntax", changed(GOOD, modules__m={"ptx": SCALE.replace("mul.rn.f32 %f3", "mul.rn.f32 %f3,,")}), "bad-ptx", 3,
     {"detail": f'line {SCALE[:SCALE.index("mul.rn.f32")].count(chr(10)) + 1}, column '}),
    ("no-entry", changed(GOOD, launches__1__entry="nope"), "no-such-entry", 3, {}),
    ("too-few-arguments", changed(GOOD, launches__1__args=[{"buffer": "b"}]), "bad-arguments", 3, {}),
    ("too-many-arguments", changed(GOOD, launches__1__args=GOOD["launches"][1]["args"] + [{"i32": 1}]), "bad-arguments",
     3, {}),
    ("block-too-large", changed(GOOD, launches__0__block=[4096, 1, 1]), "bad-launch", 3, {}),
    ("out-of-bounds", single(OUTSIDE, "outside"), "out-of-bounds", 3, {"detail": "outside"}),
    ("traps", single(TRAP, "traps"), "trap", 3, {}),
    ("never-ends", single(ENDLESS, "endless"), "time-limit", 4, {}),
    ("unknown-instruction", changed(GOOD, modules__m={"ptx": SCALE.replace("mul.rn.f32", "frobnicate.f32")}),
     "bad-ptx|unsupported", 3, {"detail": "frobnicate"}),
    ("streams-without-after", {**changed(GOOD, launches__1__stream=1), "baseline": {}}, "bad-graph", 3,
     {"pointer": "/launches/1", "detail": "does not wait for"}),
    ("programmatic-without-wait", {**changed(GOOD, launches__1__programmatic=True), "baseline": {}}, "bad-graph", 3,
     {"pointer": "/launches/1", "detail": "griddepcontrol.wait"}),
    ("file-for-the-service", changed(GOOD, modules__m={"file": "/etc/passwd"}), "bad-graph", 3, {}),
    ("includes-a-host-file", {**single(TRAP, "k"), "modules": {"m": {"cuda": '#include "/etc/passwd"\n'}}},
     "compile-failed", 3, {}),
    ("wrong-option", {**single(TRAP, "k"), "modules": {"m": {"cuda": "//", "options": ["--time=/tmp/x"]}}}, None, 3,
     {}),
]
WANTS = {"streams-without-after": "run", "programmatic-without-wait": "run", "never-ends": "run", "traps": "run",
         "out-of-bounds": "run", "unknown-instruction": "run"}


def says(test, problem, code, expect):
    test.assertTrue(problem["title"] and problem["detail"], problem)
    test.assertIn(problem["code"], code.split("|") if code else [problem["code"]], problem)
    for member, text in expect.items():
        test.assertIn(text, problem.get(member, ""), problem)


class BadInput(ServiceCase):
    config = {"job_timeout": 5}


def add(name, graph, code, status, expect):
    want = WANTS.get(name, "plan")
    verb = {"plan": "optimize", "run": "run"}[want]
    text = graph if isinstance(graph, str) else json.dumps(graph)

    def by_http(self):
        r = self.s.post(text, f"want={want}&timeout=2")
        if r.status == 202:
            job = self.s.finish(r)
            self.assertEqual(job["state"], "failed", job)
            says(self, job["problem"], code, expect)
            r = self.s.http("GET", job["links"]["self"] + "/result")
        p = self.problem(r, r.status, r.json()["code"])
        self.assertGreaterEqual(r.status, 400)
        says(self, p, code, expect)

    def by_cli(self):
        folder = tempfile.mkdtemp(prefix="dovetail-e2e.")
        try:
            path = write(folder, "graph.json", text)
            for how in (["--socket", self.s.socket], ["--local", "--device", "soft", "--cache", folder + "/c.db"]):
                r = cli(verb, path, "--json", "--timeout", "2", *how)
                if name == "file-for-the-service":  # the command line would read it
                    continue
                self.assertEqual(r.returncode, status, (how, r.stdout, r.stderr))
                says(self, json.loads(r.stdout), code, expect)
                self.assertIn("dovetail: ", r.stderr)
                self.assertNotIn("Sanitizer", r.stderr)
        finally:
            shutil.rmtree(folder)
    setattr(BadInput, "test_http_" + name.replace("-", "_"), by_http)
    setattr(BadInput, "test_cli_" + name.replace("-", "_"), by_cli)


for case in CASES:
    add(*case)


class Good(ServiceCase):
    def test_good_after_bad(self):
        """Whatever was refused before, the next graph is served, and gives the same result."""
        hashes = set()
        for _, graph, *_ in CASES[4:16]:
            self.s.finish(r) if (r := self.s.post(graph, "want=run&timeout=5")).status == 202 else None
            job = self.s.finish(self.s.post(GOOD, "want=run"))
            self.assertEqual(job["state"], "done", job)
            hashes.add(json.dumps(self.s.http("GET", job["links"]["result"]).json()["outputs"]))
        self.assertEqual(len(hashes), 1)

    def test_deep_json(self):
        self.problem(self.s.post("[" * 100000, "want=plan"), 413, "too-large")
        self.problem(self.s.post('{"a":' * 5000 + "1" + "}" * 5000, "want=plan"), 413, "too-large")

    def test_odd_names(self):
        g = json.loads(json.dumps(GOOD).replace('"s0"', '"s\\u001b[31m\\n"'))
        r = self.s.post(g, "want=run")
        if r.status == 202:
            self.assertEqual(self.s.finish(r)["state"], "done")
        else:
            self.assertEqual(r.json()["code"], "bad-graph")


if __name__ == "__main__":
    main()
