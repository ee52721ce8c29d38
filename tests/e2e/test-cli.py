#!/usr/bin/env python3
"""The command line, through a service and with --local: every verb, its data and its exit status."""
import contextlib
import hashlib
import json
import os
import re
import socket
import stat
import subprocess
import tempfile
import unittest
import urllib.parse

from harness import CLI, HEAD, SCALE, WaysCase, chain, cli, main, single, write

STORE64 = HEAD + """
.visible .entry store64(.param .u64 x, .param .u64 v)
{
    .reg .u64 %rd<4>;
    ld.param.u64 %rd1, [x]; cvta.to.global.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [v];
    st.global.u64 [%rd1], %rd2;
    ret;
}
"""
# printf("%d %d\n", block, thread)
SAYS = HEAD + """
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 words[7] = {37, 100, 32, 37, 100, 10, 0};
.visible .entry says(.param .u64 x)
{
.local .align 8 .b8 depot[8]; .reg .b64 %rd<4>; .reg .b32 %r<4>;
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; st.local.v2.u32 [depot], {%r1, %r2};
mov.u64 %rd1, depot; cvta.local.u64 %rd1, %rd1; mov.u64 %rd2, words; cvta.global.u64 %rd2, %rd2;
{ .param .b64 f; .param .b64 a; .param .b32 n; st.param.b64 [f], %rd2; st.param.b64 [a], %rd1;
call.uni (n), vprintf, (f, a); ld.param.b32 %r3, [n]; }
ld.param.u64 %rd3, [x]; cvta.to.global.u64 %rd3, %rd3; st.global.u32 [%rd3], %r3;
ret;
}
"""


# a worker that answers every request with the document that DOVETAIL_ANSWER names
ANSWERS = """#!/usr/bin/env python3
import os, struct, sys
size, kind, number = struct.unpack("<IcI", sys.stdin.buffer.read(9))
sys.stdin.buffer.read(size - 5)
with open(os.environ["DOVETAIL_ANSWER"], "rb") as f:
    body = b'{"cache": "miss", "signature": "sha256:0", "digest": "sha256:0", "document": ' + f.read() + b"}"
sys.stdout.buffer.write(struct.pack("<IcI", len(body) + 5, b"R", number) + body)
sys.stdout.buffer.flush()
sys.stdin.buffer.read()
"""


class Said(unittest.TestCase):
    """What `optimize` says of what was tried."""
    def show(self, rewrites, *args):
        us = {"time_us": 400.0, "method": "modeled:h200", "launches": 408, "ci95_us": 0, "range_us": [350.0, 450.0],
              "bound_us": 33.25}
        doc = {"device": {"name": "NVIDIA H200 (modeled)", "arch": "sm_90"}, "signature": "sha256:0", "baseline": us,
               "optimized": us | {"time_us": 200.0}, "rewrites": rewrites, "gain_range": [1.5, 2.5],
               "verified": {"bitwise": True, "inputs": 3, "schedules": 8, "device": "soft"},
               "stopped": {"by": "budget", "budget_s": 120, "not_tried": 7, "would_do_s": 150}}
        with tempfile.TemporaryDirectory() as d:
            worker = write(d, "worker", ANSWERS)
            os.chmod(worker, 0o755)
            r = cli("optimize", write(d, "g.json", chain()), "--local", *args,
                    env={"DOVETAIL_WORKER": worker, "DOVETAIL_ANSWER": write(d, "plan.json", doc)})
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    @staticmethod
    def model(layers=12):
        """What planning 408 launches may try: alike in every layer, but for the numbers in the names."""
        rows = []
        for layer in range(layers):
            for k in range(30):
                a, b = f"l{layer}.k{k}", f"l{layer}.k{k + 1}"
                row = {"kind": "block-fusion", "launches": [a, b]}
                if k % 3 == 0:
                    rows.append(row | {"level": "shared", "verdict": "kept", "before_us": 10.0 + k, "after_us": 10.0})
                elif k % 3 == 1:
                    rows.append(row | {"verdict": "refused", "reason": f"level register: no-other-reader: '{a}' is "
                                       f"needed by '{b}' as well; thread-counts: '{a}' has 48 threads"})
                else:
                    rows.append(row | {"verdict": "dropped", "before_us": 10.0, "after_us": 11.0,
                                       "reason": "level shared modeled 10.00 → 11.00 us"})
        return rows

    def test_a_screen(self):
        rows = self.model()
        rows += [{"kind": "split", "launches": ["abcdefghijklmnopqrstuvwxyz"[k] * 90, "z"], "verdict": v, "reason":
                  "r" + "abcdefghijklmnopqrstuvwxyz"[k] * 90 + ": no"} for k in range(25) for v in ("kept", "refused")]
        out = self.show(rows)
        self.assertLessEqual(len(out.splitlines()), 40, out)
        self.assertLessEqual(max(map(len, out.splitlines())), 120, out)
        # kept: alike ones in one row, with what they gained in all; the first names
        self.assertRegex(out, r"\n +120  block-fusion  shared +1620\.00 us  l0\.k0 \+ l0\.k1\n")
        self.assertIn("and 14 more groups that were kept (--all)", out)
        # not kept: by reason, most of them first, once of each rewrite
        self.assertIn("refused 145, dropped 120, by reason (one may have several):\n"
                      "  120 x no-other-reader: … is needed by … as well\n"
                      "  120 x not faster\n"
                      "  120 x thread-counts: … has 48 threads\n", out)
        self.assertRegex(out, r"\n +16 x for 16 other reasons \(--all\)\n")
        self.assertIn("\nbound          33.25 us (modeled:h200) for traffic of inputs and outputs, or arithmetic\n",
                      out)
        self.assertIn("\nstopped    by the budget of 120 s: 7 candidates not tried; about 150 s would do", out)

    def test_a_chain(self):
        """What grew link by link is one group."""
        rows = [{"kind": "block-fusion", "level": "shared", "verdict": "kept", "before_us": 2.0, "after_us": 1.0,
                 "launches": ["+".join(f"l{i}" for i in range(k)), f"l{k}"]} for k in range(1, 100)]
        rows += [{"kind": "block-fusion", "level": "shared", "verdict": "kept", "before_us": 2.0, "after_us": 1.0,
                  "launches": [f"m{k}+n{k}", "n0"]} for k in range(9)]
        out = self.show(rows)
        self.assertRegex(out, r"\n +99  block-fusion  shared +99\.00 us  l0 \+ l1\n"
                              r" +9  block-fusion  shared +9\.00 us  m0")

    def test_all_and_few(self):
        rows = self.model()
        out = self.show(rows, "--all").splitlines()
        self.assertEqual(sum(x.startswith("block-fusion ") for x in out), len(rows))
        self.assertIn("  120 x not faster", out)
        few = self.show(rows[:16])
        self.assertEqual(sum(x.startswith("block-fusion ") for x in few.splitlines()), 16)
        self.assertNotIn(" x not faster", few)
        self.assertEqual(sum(x.startswith("block-fusion ") for x in self.show(rows[:17]).splitlines()), 0)

    def test_bookkeeping(self):
        """Launches that earlier rewrites have placed or taken are no reason that a plan has."""
        here = os.path.dirname(os.path.abspath(__file__))
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(["python3", os.path.join(here, "../models/generate.py"), "bert", "--small", "--layers", "1",
                            "-o", d], check=True, stdout=subprocess.DEVNULL)
            order = []
            for graph, deny in ((os.path.join(here, "../corpus/experts/graph.json"), "versions"),
                                (d + "/graph.json", "recompute,parallel-fusion,split,prefetch,programmatic-launch,"
                                                     "slice,narrow-blocks,calls,copies")):
                r = cli("optimize", graph, "--local", "--device", "soft:h200", "--json", "--cache", d + "/c.db",
                        "--deny", deny)
                self.assertEqual(r.returncode, 0, r.stderr)
                with open(graph, encoding="utf-8") as f:
                    posted = {x["name"] for x in json.load(f)["launches"]}
                rows = json.loads(r.stdout)["rewrites"]
                self.assertGreaterEqual(len(rows), 10)
                self.assertFalse([x for x in rows if "plain-launches" in x.get("reason", "")])
                order += [x for x in rows if x.get("reason", "").startswith("order: ")]
                self.assertFalse([x for x in order if not set(x["launches"]) <= posted])
            self.assertTrue(order)  # what the posted order forbids stays


class Memory(unittest.TestCase):
    """What a plan needs beside what was posted, and its bound."""
    def test_versions(self):
        g = chain(4, "ahyhz")  # a -> h -> y and a -> h -> z through one h: side by side, they need two
        g["buffers"]["y"] = {"bytes": 1024, "role": "output"}
        g["buffers"]["h"] = {"bytes": 1024, "role": "intermediate"}
        for x, (source, to) in zip(g["launches"], ("ah", "hy", "ah", "hz")):
            x["args"][:2] = [{"buffer": source}, {"buffer": to}]
        g["launches"][2]["args"][2] = {"f32": 3.0}
        deny = "block-fusion,recompute,programmatic-launch,split,prefetch"
        with tempfile.TemporaryDirectory() as d:
            graph = write(d, "g.json", g)
            plans = {}
            for size in (None, "1K", "1023", "0"):
                more = ["--memory", size] if size else []
                args = ["optimize", graph, "--local", "--device", "soft:h200", "--cache", d + "/c.db", "--deny", deny]
                r = cli(*args, *more, "--json")
                self.assertEqual(r.returncode, 0, r.stderr)
                plans[size] = json.loads(r.stdout)
                shown = cli(*args, *more).stdout
                self.assertEqual("\nmemory     1024 bytes beside the 4096 that were posted\n" in shown,
                                 size in (None, "1K"), shown)
            for size in (None, "1K"):
                self.assertEqual(plans[size]["assumes"]["memory"], {"posted": 4096, "more": 1024})
                self.assertEqual(len(plans[size]["launches"]), 2)
            for size in ("1023", "0"):
                self.assertEqual(plans[size]["assumes"]["memory"], {"posted": 4096, "more": 0})
                self.assertEqual(plans[size]["scratch"], {})
                self.assertIn(("versions", "refused", "memory: the plan needs 1024 bytes beside what was posted, and "
                               f"{size} are allowed"),
                              [(x["kind"], x["verdict"], x.get("reason")) for x in plans[size]["rewrites"]])
            for size in ("-1", "1T", "x", ""):
                self.assertEqual(cli("optimize", graph, "--local", "--memory", size).returncode, 2)

    def test_flags(self):
        """Counters of dataflow fusion are scratch, too."""
        with tempfile.TemporaryDirectory() as d:
            graph = write(d, "g.json", chain(2))
            for size, refused in (("0", True), ("1M", False)):
                r = cli("optimize", graph, "--local", "--device", "soft:h200", "--cache", d + "/c.db", "--allow",
                        "dataflow-fusion", "--deny", "block-fusion,recompute,programmatic-launch", "--memory", size,
                        "--json")
                self.assertEqual(r.returncode, 0, r.stderr)
                told = [x["reason"] for x in json.loads(r.stdout)["rewrites"] if x["kind"] == "dataflow-fusion"]
                self.assertEqual([x.startswith("memory: it needs ") for x in told], [refused], told)


class Verbs(WaysCase):
    def setUp(self):
        super().setUp()
        self.graph = write(self.dir, "graph.json", chain(3))

    def both(self, *args):
        """The JSON answers of service and --local, which must agree."""
        docs = [json.loads(self.ok(*args, "--json", *way)) for way in self.ways.values()]
        return docs

    def test_analyze(self):
        a, b = self.both("analyze", self.graph)
        self.assertEqual(a, b)
        self.assertEqual([(e["producer"], e["consumer"], e["classes"]) for e in a["edges"]],
                         [("s0", "s1", ["one-to-one"]), ("s1", "s2", ["one-to-one"])])
        maps = self.both("analyze", self.graph, "--maps", "--all-edges")[0]
        self.assertEqual(len(maps["edges"]), 3)
        edge = [e for e in maps["edges"] if (e["producer"], e["consumer"]) == ("s0", "s1")][0]
        self.assertEqual(edge["map"]["raw"], [[i, [i]] for i in range(4)])
        text = self.ok("analyze", self.graph, *self.ways["service"])
        self.assertRegex(text, r"(?m)^s0 -> s1 +one-to-one +one-to-one +4 +4 +proved +raw")
        self.assertNotIn("\033", text)

    def test_analyze_waves(self):
        """The launch table: figures from the occupancy formula of the model named, columns flush right under their
        heads, long names cut."""
        doc = chain(3, blocks=6000)
        doc["launches"][0]["name"] = "a-launch-with-a-name-that-is-much-longer-than-a-column-should-be"
        doc["launches"][1]["grid"] = [4, 1, 1]
        path = write(self.dir, "waves.json", doc)
        for model, sms, threads, slots in (("soft:h200", 132, 2048, 32), ("soft:l4", 58, 1536, 24)):
            way = ["--local", "--cache", self.dir + "/waves.db", "--device", model]
            a = json.loads(self.ok("analyze", path, "--json", *way))
            self.assertEqual(a["device"]["sms"], sms)
            lines = self.ok("analyze", path, *way).split("\n")
            head = next(i for i, line in enumerate(lines) if line.startswith("launch "))
            ends = [m.end() for m in re.finditer(r"\S+( slots)?", lines[head])][1:]
            blocks = total = 0
            for l, line in zip(a["launches"], lines[head + 1:]):
                warps = -(-l["threads"] // 32)
                fit = min(threads // (warps * 32), slots)  # few registers, no shared memory
                waves = -(-l["blocks"] // (fit * sms))
                blocks, total = blocks + l["blocks"], total + waves * fit * sms
                self.assertEqual((l["blocks_per_sm"], l["waves"]), (fit, waves))
                idle = 1 - l["blocks"] / (waves * fit * sms)
                self.assertAlmostEqual(l["idle_slots"], idle, 6)
                want = [str(l[k]) for k in ("blocks", "threads", "registers", "shared_bytes")] + [str(fit), str(waves),
                    f"{100 * idle:.1f} %"]
                for text, end in zip(want, ends):
                    self.assertTrue(line[:end].endswith(" " + text), (line, text, end))
            self.assertRegex(lines[head + 1], "^a-launch-with-a-nam….{20}  ")
            every = lines[head + 1 + len(a["launches"])]
            self.assertTrue(every.startswith("all kernels ") and every.endswith(f" {100 * (1 - blocks / total):.1f} %"),
                            every)

    def test_optimize_then_run(self):
        for name, way in self.ways.items():
            out = f"{self.dir}/plan-{name}"
            text = self.ok("optimize", self.graph, "-o", out, *way)
            self.assertRegex(text, r"(?m)^baseline +[0-9.]+ us \(modeled:h200, [0-9.]+ to [0-9.]+\), 3 launches")
            self.assertRegex(text, r"(?m)^optimized +[0-9.]+ us \(modeled:h200, [0-9.]+ to [0-9.]+\), "
                             r"(1 launch|[23] launches)\b")
            with open(out + "/plan.json", encoding="utf-8") as f:
                plan = json.load(f)
            for m in plan.get("modules", {}):
                with open(f"{out}/{m}.ptx", encoding="utf-8") as f:
                    self.assertEqual(f.read(), plan["modules"][m]["ptx"])
            runs = {}
            for what in (self.graph, out + "/plan.json"):
                dump = f"{self.dir}/dump-{name}-{os.path.basename(what)}"
                doc = json.loads(self.ok("run", what, "--json", "--seed", "5", "--dump", dump, *way))
                self.assertTrue(doc["method"].startswith("modeled"))
                self.assertEqual([o["buffer"] for o in doc["outputs"]], ["d"])
                self.assertNotIn("data", doc["outputs"][0])
                with open(dump + "/d.bin", "rb") as f:
                    content = f.read()
                self.assertEqual(len(content), 1024)
                self.assertEqual(doc["outputs"][0]["sha256"], "sha256:" + hashlib.sha256(content).hexdigest())
                runs[what] = content
            self.assertEqual(len(set(runs.values())), 1)
            text = self.ok("run", self.graph, *way)
            self.assertRegex(text, r"(?m)^d +output +1024 +sha256:[0-9a-f]{64}$")
            self.assertRegex(text, r"time [0-9.]+ us \(modeled:h200\), 3 launches")
            again = json.loads(self.ok("optimize", self.graph, "--json", *way))
            self.assertEqual(again, plan)  # from the cache

    def test_run_is_what_it_should_be(self):
        """The whole way down to the bytes: fill, kernel, seed."""
        import struct

        def mix(seed, i):
            z = (seed + (i + 1) * 0x9E3779B97F4A7C15) & (2**64 - 1)
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
            return z ^ (z >> 31)

        def f32(x):
            return struct.unpack("<f", struct.pack("<f", x))[0]
        for seed in (0, 41):
            expect = b""
            for i in range(256):
                x = f32(-1 + f32(2 * f32((mix(3 + seed, i) >> 40) * 2.0**-24)))
                expect += struct.pack("<f", f32(f32(f32(x * 2) * 2) * 2))
            doc = json.loads(self.ok("run", self.graph, "--json", "--seed", str(seed), *self.ways["local"]))
            self.assertEqual(doc["outputs"][0]["sha256"], "sha256:" + hashlib.sha256(expect).hexdigest())

    def test_whole_numbers_of_64_bits(self):
        """jansson's numbers end at 2^63 - 1; arguments and seeds do not."""
        import struct
        g = single(STORE64, "store64", 8)
        g["buffers"]["x"]["role"] = "output"
        g["buffers"]["z"] = {"bytes": 4, "role": "input",
                             "fill": {"uniform": [0, 9], "dtype": "i32", "seed": 2**64 - 3}}
        g["modules"]["m"] = {"file": "k.ptx"}  # so that the client prints the document anew
        write(self.dir, "k.ptx", STORE64)
        for value in (2**64 - 1, 2**63, 2**63 - 1):
            g["launches"][0]["args"] = [{"buffer": "x"}, {"u64": value}]
            path = write(self.dir, "big.json", g)
            for doc in self.both("run", path):
                self.assertEqual(doc["outputs"][0]["sha256"],
                                 "sha256:" + hashlib.sha256(struct.pack("<Q", value)).hexdigest())
            out = self.dir + "/big-plan"
            for way in self.ways.values():
                self.ok("optimize", path, "-o", out, *way)
                doc = json.loads(self.ok("run", out + "/plan.json", "--json", *way))
                self.assertEqual(doc["outputs"][0]["sha256"],
                                 "sha256:" + hashlib.sha256(struct.pack("<Q", value)).hexdigest())
        text = json.dumps(g)
        g["modules"]["m"] = {"ptx": STORE64}
        reply = self.s.post(text.replace(str(2**63 - 1), str(2**64)).replace('{"file": "k.ptx"}',
            json.dumps(g["modules"]["m"])), "want=run")
        self.assertEqual(self.problem(reply, 422, "bad-graph")["pointer"], "/launches/0/args/1/u64")

    def test_dump_stays_in_its_folder(self):
        names = ["../out", "/abs", "..", ".", "a/b", "a%2Fb", "é"]
        for way in self.ways.values():
            for i, name in enumerate(names):
                text = json.dumps(chain(1)).replace('"b"', json.dumps(name))
                where = f"{self.dir}/deep/{i}"
                self.ok("run", write(self.dir, "named.json", text), "--dump", where, *way)
                files = os.listdir(where)
                self.assertEqual(len(files), 1)
                self.assertEqual(os.path.getsize(f"{where}/{files[0]}"), 1024)
                self.assertEqual(urllib.parse.unquote(files[0]), name + ".bin")
            self.assertEqual(sorted(os.listdir(self.dir + "/deep")), [str(i) for i in range(len(names))])

    def test_whole_lines(self):
        """What goes to stderr goes in whole lines: others write there, too."""
        path = write(self.dir, "lines.json", chain(2))
        there, here = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)  # a message is one write
        here.setblocking(False)
        with there, here:
            r = subprocess.run([CLI, "run", path, *self.ways["local"]], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=there.fileno(), timeout=120)
            self.assertEqual(r.returncode, 0)
            writes = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    writes.append(here.recv(1 << 16))
        self.assertGreater(len(writes), 2)
        self.assertEqual([w for w in writes if not w.endswith(b"\n")], [])

    def test_kernels_print(self):
        """Once, on stderr, with `run --local` alone; stdout stays a document."""
        g = single(SAYS, "says")
        g["launches"][0].update(grid=[2, 1, 1], block=[2, 1, 1])
        path = write(self.dir, "says.json", g)
        for way, args in self.ways.items():
            for verb in ("run", "optimize"):
                r = cli(verb, path, "--json", *args)
                self.assertEqual(r.returncode, 0, r.stderr)
                json.loads(r.stdout)
                found = re.findall(r"\b\d \d$", r.stderr, re.M)
                said = ["0 0", "0 1", "1 0", "1 1"] if (way, verb) == ("local", "run") else []
                self.assertEqual(found, said, r.stderr)
        self.assertNotIn("0 1\n", self.s.read_log())

    def test_explain(self):
        for way in self.ways.values():
            text = self.ok("explain", self.graph, *way)
            self.assertIn("s0 -> s1: one-to-one", text)
            self.assertIn("proved: no address and no guard depends on loaded data", text)
            sig = json.loads(self.ok("explain", self.graph, "--json", *way))["signature"]
            text = self.ok("explain", sig, *way)
            self.assertIn("one-to-one", text)
            self.assertIn(sig, text)
            html = self.dir + "/report.html"
            self.ok("report", sig, "-o", html, *way)
            with open(html, encoding="utf-8") as f:
                report = f.read()
            self.assertTrue(report.startswith("<!doctype html>") and report.endswith("</html>\n"))
            for text in (sig, "(modeled", "block-fusion", ".entry n1", "modeled:h200"):
                self.assertIn(text, report)
            for text in ("<script", "http://", "https://", " src="):
                self.assertNotIn(text, report.replace(' src="data:image/png;base64,', ""))
            self.assertEqual(cli("report", sig, *way).returncode, 2)
        r = cli("explain", "sha256:" + "0" * 64, "--json", *self.ways["service"])
        self.assertEqual((r.returncode, json.loads(r.stdout)["code"]), (3, "not-found"))

    def test_small_verbs(self):
        for way in self.ways.values():
            self.assertIn("soft:h200", self.ok("devices", *way))
            self.assertIn("entries", json.loads(self.ok("cache", "stats", "--json", *way)))
            self.ok("cache", "stats", *way)
            self.ok("status", *way)
            json.loads(self.ok("status", "--json", *way))
        self.assertRegex(self.ok("version"), r"^dovetail \d+\.\d+\.\d+ ")
        self.assertEqual(json.loads(self.ok("version", "--json"))["api"], ["v1"])
        self.assertIn("exit status", self.ok("--help").lower())

    def test_files_are_sent_inline(self):
        os.mkdir(self.dir + "/sub")
        write(self.dir + "/sub", "k.ptx", SCALE)
        g = chain(3)
        g["modules"]["m"] = {"file": "k.ptx"}
        path = write(self.dir + "/sub", "g.json", g)
        a, b = self.both("analyze", path)
        self.assertEqual(a, json.loads(self.ok("analyze", self.graph, "--json", *self.ways["local"])))
        with open(path, encoding="utf-8") as f:  # from stdin, relative to the current folder
            text = f.read().replace("k.ptx", self.dir + "/sub/k.ptx")
        r = cli("analyze", "-", "--json", *self.ways["service"], stdin=text)
        self.assertEqual((r.returncode, json.loads(r.stdout)), (0, a))
        write(self.dir + "/sub", "k.txt", SCALE)
        g["modules"]["m"] = {"ptx": {"file": "k.txt"}}  # the member says what it is
        write(self.dir + "/sub", "g.json", g)
        self.assertEqual(self.both("analyze", path), [a, b])
        g["modules"]["m"] = {"cuda": {"file": "missing.cu"}}
        r = cli("analyze", write(self.dir, "h.json", g), "--json", *self.ways["service"])
        self.assertEqual((r.returncode, json.loads(r.stdout)["pointer"]), (3, "/modules/m/cuda/file"))
        g["modules"]["m"] = {"file": "missing.ptx"}
        r = cli("analyze", write(self.dir, "h.json", g), "--json", *self.ways["service"])
        self.assertEqual((r.returncode, json.loads(r.stdout)["pointer"]), (3, "/modules/m/file"))
        for name, at in (("x/y~z", "x~1y~0z"), ("a" + "\u00e9" * 150, "a" + "\u00e9" * 150)):
            g["modules"][name] = g["modules"].pop(next(iter(g["modules"])))
            r = cli("analyze", write(self.dir, "h.json", g), "--json", *self.ways["service"])
            self.assertEqual((r.returncode, json.loads(r.stdout).get("pointer")), (3, f"/modules/{at}/file"))

    def test_assumptions_of_a_plan_are_checked(self):
        self.ok("optimize", self.graph, "-o", self.dir + "/p", *self.ways["local"])
        with open(self.dir + "/p/plan.json", encoding="utf-8") as f:
            plan = json.load(f)
        plan.setdefault("assumes", {})["constant"] = {"a": "sha256:" + "0" * 64}
        r = cli("run", write(self.dir, "broken.json", plan), "--json", *self.ways["local"])
        self.assertEqual((r.returncode, json.loads(r.stdout)["pointer"]), (3, "/assumes/constant/a"), r.stderr)
        del plan["assumes"]["constant"]
        plan["assumes"]["align"] = {"a": 1 << 40}
        r = cli("run", write(self.dir, "broken.json", plan), "--json", *self.ways["local"])
        self.assertEqual((r.returncode, json.loads(r.stdout)["pointer"]), (3, "/assumes/align/a"), r.stderr)


class Usage(unittest.TestCase):
    def test_wrong_usage_is_2(self):
        for args in ([], ["tea"], ["analyze"], ["analyze", "a", "b"], ["analyze", "x", "--tea"], ["run", "x", "--maps"],
                     ["analyze", "x", "--cache", "f"], ["analyze", "x", "--seed", "1"], ["run", "x", "--seed", "-1"],
                     ["cache", "tea"],
                     ["optimize", "x", "--budget", "soon"], ["analyze", "x", "--socket"],
                     ["analyze", "/nonexistent/graph.json"],
                     ["explain", "sha256:12"], ["analyze", "x", "--local", "--socket", "/tmp/s"]):
            r = cli(*args)
            self.assertEqual(r.returncode, 2, (args, r.stdout, r.stderr))
            self.assertTrue(r.stderr)
            self.assertFalse(r.stdout)
    def test_wrong_usage_in_json(self):
        """--json may stand anywhere, also behind what is wrong"""
        for args in (["tea", "--json"], ["--json"], ["analyze", "x", "--tea", "--json"],
                     ["--tea", "analyze", "x", "--json"], ["optimize", "x", "--allow", "", "--json"],
                     ["optimize", "x", "--json", "--budget"], ["report", "sha256:" + "0" * 64, "-o", "-", "--json"]):
            r = cli(*args)
            self.assertEqual((r.returncode, json.loads(r.stdout or "{}").get("code")), (2, "usage"),
                             (args, r.stdout, r.stderr))

    def test_infrastructure_is_4(self):
        with tempfile.TemporaryDirectory() as d:
            g = write(d, "g.json", chain())
            for args, env, code in ((["analyze", g, "--socket", d + "/none"], {}, "no-service"),
                                    (["status"], {"DOVETAIL_SOCKET": d + "/none"}, "no-service"),
                                    (["analyze", g, "--local", "--device", "soft:none"], {}, "no-device"),
                                    (["analyze", g, "--local"], {"DOVETAIL_DEVICE": "soft:none"}, "no-device"),
                                    (["analyze", g, "--local"], {"DOVETAIL_WORKER": "/bin/false"}, "worker-lost"),
                                    (["analyze", g, "--local"], {"DOVETAIL_WORKER": d}, "worker-lost")):
                r = cli(*args, "--json", env=env)
                self.assertEqual((r.returncode, json.loads(r.stdout)["code"]), (4, code), (args, r.stdout, r.stderr))

    def test_no_time(self):
        """the smallest limits are limits"""
        with tempfile.TemporaryDirectory() as d:
            g = write(d, "g.json", chain())
            common = ["--local", "--device", "soft", "--json", "--cache", d + "/c.db"]
            r = cli("optimize", g, "--timeout", "1e-9", *common)
            self.assertEqual((r.returncode, json.loads(r.stdout)["code"]), (4, "time-limit"), r.stderr)
            r = cli("optimize", g, "--budget", "0", *common)
            plan = json.loads(r.stdout)
            self.assertEqual((r.returncode, [x["verdict"] for x in plan["rewrites"] if x["verdict"] == "kept"]),
                             (0, []))
            self.assertTrue(any("budget:" in x["reason"] for x in plan["rewrites"]), plan["rewrites"])

    def test_output_that_is_no_file(self):
        """Pipes and devices are written to, never replaced; links stay."""
        with tempfile.TemporaryDirectory() as d:
            common = ["--local", "--device", "soft", "--cache", d + "/c.db"]
            r = cli("optimize", write(d, "g.json", chain()), "--json", *common)
            signature = json.loads(r.stdout)["signature"]
            os.mkfifo(d + "/pipe")
            read = os.open(d + "/pipe", os.O_RDONLY | os.O_NONBLOCK)
            try:
                r = cli("trace", signature, "-o", d + "/pipe", *common)
                self.assertEqual(r.returncode, 0, r.stderr)
                self.assertTrue(stat.S_ISFIFO(os.stat(d + "/pipe").st_mode))
                self.assertIn("traceEvents", json.loads(os.read(read, 1 << 16)))
            finally:
                os.close(read)
            os.symlink("real", d + "/link")
            write(d, "real", "old")
            self.assertEqual(cli("trace", signature, "-o", d + "/link", *common).returncode, 0)
            self.assertTrue(os.path.islink(d + "/link"))
            with open(d + "/real", encoding="utf-8") as f:
                self.assertIn("traceEvents", json.load(f))
            self.assertIn("traceEvents", json.loads(cli("trace", signature, "-o", "-", *common).stdout))
            if os.geteuid():  # not as root, who may replace a device by a file
                self.assertEqual(cli("trace", signature, "-o", "/dev/full", *common).returncode, 4)

    def test_closed_stdout(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            import subprocess
            self.assertEqual(subprocess.run([CLI, "version"], stdout=full, stderr=subprocess.DEVNULL,
                                            check=False).returncode, 1)


if __name__ == "__main__":
    main()
