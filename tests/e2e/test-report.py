"""What is made to be looked at: report and trace, of a graph, a plan and a signature, and other people's names in them.

Every name that a graph may have holds markup, quotes, syntax of shells and JSON, and characters that turn text around;
PTX has comments with more. The page is taken apart by an HTML parser: nothing is in it but known elements with known
attributes. The same names are looked for in terminals, the service's log and its metrics. Traces are held against the
rules of the trace event format, and against the plan. Perfetto's trace processor is in no package, and not asked."""
import base64
import collections
import copy
import html.parser
import json
import os
import re
import struct
import unittest
import zlib

import harness
from harness import FolderCase, Service, chain, cli

BAD = "<script>alert(1)</script>\"'><img src=x onerror=y>&lt;%n{}`$(id)\\u202e\u202e\u009b31m\u2028é"
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
ALLOWED = {  # element: attributes
    "html": {"lang"}, "head": set(), "meta": {"charset", "http-equiv", "content", "name"}, "title": set(),
    "style": set(), "body": set(), "main": set(),
    "h1": set(), "h2": set(), "h3": set(), "p": {"class"}, "small": set(), "br": set(),
    "b": set(), "code": set(), "table": {"class"}, "tr": {"class"}, "td": {"class"}, "th": set(), "div": {"class",
    "tabindex", "role", "aria-label", "style"}, "figure": set(), "figcaption": {"class"}, "details": {"open"},
    "summary": set(), "pre": {"tabindex"}, "span": {"class"}, "img": {"class", "width", "height", "src", "alt"},
    "svg": {"class", "viewbox", "role", "aria-label", "preserveaspectratio"}, "g": set(), "path": {"class", "d"},
    "text": {"class", "x", "y", "text-anchor"}}


# z[block 64 + thread] = x[thread] + x[thread + 64] + … of all 38,400 elements
FOLD = harness.HEAD + """
.visible .entry fold(.param .u64 x, .param .u64 z)
{
    .reg .u64 %rd<8>; .reg .u32 %r<8>; .reg .f32 %f<4>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [z];
    cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    mul.wide.u32 %rd3, %r4, 4; add.u64 %rd4, %rd2, %rd3;
    mov.f32 %f1, 0f00000000; mov.u32 %r5, 0;
LOOP:
    mad.lo.u32 %r6, %r5, 64, %r3;
    mul.wide.u32 %rd5, %r6, 4; add.u64 %rd6, %rd1, %rd5;
    ld.global.f32 %f2, [%rd6];
    add.rn.f32 %f1, %f1, %f2;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 600;
    @%p1 bra LOOP;
    st.global.f32 [%rd4], %f1;
    ret;
}
"""


def grey(png):
    """Rows of a grey PNG of 8 bits without filters; its checksums are right."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, found = 8, {}
    while at < len(png):
        n, = struct.unpack(">I", png[at:at + 4])
        kind, data = png[at + 4:at + 8], png[at + 8:at + 8 + n]
        assert struct.unpack(">I", png[at + 8 + n:at + 12 + n])[0] == zlib.crc32(kind + data)
        found[kind] = data
        at += 12 + n
    w, h, depth, colour = struct.unpack(">IIBB", found[b"IHDR"][:10])
    assert (depth, colour, found[b"IEND"]) == (8, 0, b"")
    raw = zlib.decompress(found[b"IDAT"])
    assert len(raw) == h * (w + 1) and not any(raw[::w + 1])
    return [raw[y * (w + 1) + 1:(y + 1) * (w + 1)] for y in range(h)]


def hostile(n=3):
    """A chain whose names are all hostile."""
    g, bad = chain(n), BAD
    g["name"] = "graph" + bad
    g["modules"] = {"module" + bad: {"ptx": g["modules"]["m"]["ptx"].replace(
        "    ret;", "    // </pre></table><script>comment()</script> \x1b[31m\n    ret;")}}
    g["buffers"] = {"buffer " + k + bad: v for k, v in g["buffers"].items()}
    for l in g["launches"]:
        l["name"] += bad
        l["module"] = "module" + bad
        for a in l["args"]:
            if "buffer" in a:
                a["buffer"] = "buffer " + a["buffer"] + bad
    return g


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.faults, self.text, self.images, self.policies = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in ALLOWED:
            self.faults.append(f"<{tag}>")
        for name, value in attrs:
            if name not in ALLOWED.get(tag, ()):
                self.faults.append(f"<{tag} {name}={value!r}>")
            if name == "style" and not re.fullmatch(r"width:[0-9.]+%", value or ""):
                self.faults.append(f"style {value!r}")
            if name == "src":
                self.images.append(value)
        if tag == "meta" and ("http-equiv", "Content-Security-Policy") in attrs:
            self.policies.append(dict(attrs)["content"])

    def handle_data(self, data):
        self.text.append(data)

    def unknown_decl(self, data):
        self.faults.append(data)

    def handle_comment(self, data):
        self.faults.append(f"comment {data!r}")


def sound(case, text):
    """A whole page without anything that it may not have. Its text."""
    p = Page(text)
    case.assertEqual(p.faults, [])
    case.assertEqual(p.policies, [POLICY])
    case.assertTrue(text.startswith("<!doctype html>") and text.endswith("</html>\n"))
    for src in p.images:
        case.assertRegex(src, r"^data:image/png;base64,[A-Za-z0-9+/]+=*$")
    shown = "".join(p.text)
    case.assertNotRegex(shown.split("</style>")[0], "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]")
    return shown


def tracks(case, events):
    """The rules of the trace event format. The slices by (pid, tid)."""
    of = collections.defaultdict(list)
    named = {}
    for e in events:
        case.assertIn(e["ph"], "XMsf")
        case.assertIsInstance(e["pid"], int)
        case.assertIsInstance(e["tid"], int)
        if e["ph"] == "X":
            case.assertGreaterEqual(e["ts"], 0)
            case.assertGreaterEqual(e["dur"], 0)
            of[e["pid"], e["tid"]].append(e)
        elif e["ph"] == "M" and e["name"] == "thread_name":
            named[e["pid"], e["tid"]] = e["args"]["name"]
    for at, slices in of.items():
        case.assertIn(at, named)
        slices.sort(key=lambda e: e["ts"])
        for a, b in zip(slices, slices[1:]):
            case.assertLessEqual(a["ts"] + a["dur"], b["ts"] + 1e-6, (named[at], a, b))
    flows = collections.defaultdict(dict)
    for e in events:
        if e["ph"] in "sf":
            case.assertTrue(any(s["ts"] <= e["ts"] <= s["ts"] + s["dur"] for s in of[e["pid"], e["tid"]]), e)
            case.assertNotIn(e["ph"], flows[e["id"]])
            case.assertTrue(e["ph"] == "s" or e["bp"] == "e")
            flows[e["id"]][e["ph"]] = e
    for f in flows.values():
        case.assertEqual(set(f), {"s", "f"})
    return of, named, flows


class Report(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.s = Service()
        cls.addClassCleanup(cls.s.stop)

    def run_cli(self, *args, ok=True):
        p = cli(*args, "--socket", self.s.socket)
        if ok:
            self.assertEqual(p.returncode, 0, p.stderr)
        for stream in (p.stderr,) if "--json" in args else (p.stdout, p.stderr): # data is as it was posted
            self.assertIsNone(re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", stream), args)
        return p.stdout

    def file(self, name, doc):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(doc, f)
        return path

    def made(self, verb, what, ending):
        out = os.path.join(self.dir, f"out.{ending}")
        self.run_cli(verb, what, "-o", out)
        with open(out, encoding="utf-8") as f:
            return f.read()

    def test_hostile(self):
        g = hostile()
        path = self.file("bad.json", g)
        for verb in ("analyze", "optimize", "explain", "run"):
            self.run_cli(verb, path)
        plan = json.loads(self.run_cli("optimize", path, "--json", "-o", os.path.join(self.dir, "plan")))
        self.assertTrue(any(r["verdict"] == "kept" for r in plan["rewrites"]))
        of_plan = os.path.join(self.dir, "plan", "plan.json")
        for what in (path, of_plan, plan["signature"]):
            text = self.made("report", what, "html")
            shown = sound(self, text)
            self.assertNotIn("comment()", text)
            self.assertIn("4 × 4 blocks", shown)
            if what != plan["signature"]:
                self.assertIn("s0<script>alert(1)</script>\"'>", shown)
            else:
                self.assertNotIn("alert(1)", shown)
            trace = json.loads(self.made("trace", what, "json"))
            of, named, flows = tracks(self, trace["traceEvents"])
            names = {e["name"] for slices in of.values() for e in slices}
            if what != plan["signature"]:
                self.assertIn(g["launches"][0]["name"], names)
            else:
                self.assertIn("l0", names)
            self.assertTrue(flows)
        # lines of the log are the service's own, and so are those of the metrics
        for line in self.s.read_log().splitlines():
            self.assertRegex(line, r"^\d\d:\d\d:\d\d [a-z-]+: ")
            self.assertNotRegex(line, "[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
        for line in self.s.http("GET", "/metrics").body.decode().splitlines():
            self.assertRegex(line, r'^(#.*|[a-z_:]+(\{([a-z_]+="[^"<>]*",?)*\})? [-+0-9.eE]+(Inf|NaN)?)$')

    def test_refused_names(self):
        """Line feeds and escape sequences are no part of a name. The refusal does not bring them to a terminal."""
        for bad in ("a\nb", "a\x1b[31mb", "a\x7f"):
            for place in ("launch", "buffer", "module", "graph"):
                g = chain(1)
                text = json.dumps(g)
                name = {"launch": "s0", "buffer": "a", "module": "m", "graph": "chain"}[place]
                text = text.replace(json.dumps(name), json.dumps(bad))
                path = os.path.join(self.dir, "refused.json")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                self.run_cli("report", path, "-o", os.path.join(self.dir, "no.html"), ok=False)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "no.html")))

    def test_whose_names(self):
        """Two users with equal work: the second one's report has none of the first one's names, in PTX either."""
        def graph(who):
            g = chain(3, names=[f"{who}_{c}" for c in "abcd"], factor=0.75)
            ptx = g["modules"].pop("m")["ptx"]
            ptx = ptx.replace("entry scale", f"entry {who}_scale")
            for name in "xyf":
                ptx = re.sub(rf"(?<=\[){name}(?=\])|(?<=u64 ){name}(?=,)|(?<=f32 ){name}(?=\))", f"{who}_{name}",
                             ptx)
            ptx = ptx.replace("%rd", f"%{who}_rd")
            ptx = ptx.replace("\n    ret;", f"\n{who}_label:\n    // {who}_comment\n    ret;")
            g["name"] = f"{who}_graph"
            g["modules"][f"{who}_module"] = {"ptx": ptx}
            for i, l in enumerate(g["launches"]):
                l.update(name=f"{who}_s{i}", module=f"{who}_module", entry=f"{who}_scale")
            return g
        ours, theirs = self.file("a.json", graph("alice")), self.file("b.json", graph("berta"))
        first = sound(self, self.made("report", ours, "html"))
        self.assertIn("alice_scale", first)
        second = self.made("report", theirs, "html")
        self.assertIn("berta_s0", sound(self, second))
        self.assertNotIn("alice", second)
        self.assertIn("Kernels", second)
        for who in (ours, theirs):
            plan = json.loads(self.run_cli("optimize", who, "--json"))
            self.assertEqual(plan.get("text_of_other", False), who == theirs)
        for form in ("report", "trace"):
            by_signature = self.made(form, plan["signature"], "x")
            self.assertNotRegex(by_signature, "alice|berta")
        self.assertNotIn("alice", self.made("trace", theirs, "json"))
        reply = self.s.http("GET", f"/v1/plans/{plan['signature']}/report")
        self.assertEqual(reply.headers["Content-Security-Policy"], POLICY)
        self.assertIn("4 × 4 blocks", sound(self, reply.body.decode()))

    def test_trace(self):
        """Every block of every launch is on an SM; the tracks are those of the plan."""
        g = chain(3, blocks=300, factor=0.5)
        path = self.file("wide.json", g)
        plan = json.loads(self.run_cli("optimize", path, "--json"))
        trace = json.loads(self.made("trace", path, "json"))
        of, named, flows = tracks(self, trace["traceEvents"])
        for pid, side, launches in ((3, "baseline", g["launches"]), (4, "optimized", plan["launches"])):
            blocks = collections.Counter()
            for (p, tid), slices in of.items():
                if p == pid:
                    self.assertRegex(named[p, tid], r"^SM \d+(, beside)?$")
                    for e in slices:
                        blocks[e["name"]] += e["args"]["blocks"]
                        self.assertLessEqual(e["args"]["blocks at once"], e["args"]["slots"] + 0.01)
                        self.assertEqual(e["cat"], "modeled")
            for l in launches:
                grid = l["grid"][0] * l["grid"][1] * l["grid"][2]
                self.assertAlmostEqual(blocks[l["name"]], grid, delta=1)
            ends = max(e["ts"] + e["dur"] for (p, _), s in of.items() if p == pid for e in s)
            self.assertAlmostEqual(ends, max(t[1] for t in plan["timeline"][side]), delta=0.01)
        self.assertEqual(sum(1 for f in flows.values() if f["s"]["pid"] == 1), 2)
        rows = plan["timeline"]["sms"]["baseline"]
        self.assertEqual(sum(r[3] for r in rows), 900)

    def test_pictures(self):
        """From 8 to 100,000 blocks: a diagonal is one, and is seen; equal pictures are one."""
        for blocks, side in ((8, 8), (191, 191), (192, 192), (700, 175), (100000, 192)):
            g = chain(3, blocks=blocks)
            doc = json.loads(self.run_cli("analyze", self.file("g.json", g), "--json"))
            self.assertEqual([e["picture"] for e in doc["edges"]], [0, 0])
            self.assertEqual(len(doc["pictures"]), 1)
            rows = grey(base64.b64decode(doc["pictures"][0]))
            self.assertEqual((len(rows), len(rows[0])), (side, side))
            for y, row in enumerate(rows):
                for x, v in enumerate(row):
                    self.assertEqual(v < 160, x == y, (blocks, x, y, v))
                    self.assertTrue(x == y or v == 255)
        # everything with everything: one reader of what all blocks wrote
        def dense(writers, readers, most):
            g = chain(1, blocks=writers)
            g["modules"]["s"] = {"ptx": FOLD.replace("600;", f"{most};")}
            g["buffers"]["b"]["role"] = "intermediate"
            g["buffers"]["z"] = {"bytes": readers * 256, "role": "output"}
            g["launches"].append({"name": "fold", "module": "s", "entry": "fold", "grid": [readers, 1, 1],
                                  "block": [64, 1, 1], "args": [{"buffer": "b"}, {"buffer": "z"}]})
            doc = json.loads(self.run_cli("analyze", self.file("g.json", g), "--json"))
            self.assertEqual(doc["edges"][0]["pairs"], readers * most)
            if "picture" not in doc["edges"][0]:
                return None
            rows = grey(base64.b64decode(doc["pictures"][doc["edges"][0]["picture"]]))
            return len(rows), len(rows[0]), {v for row in rows for v in row}
        self.assertEqual(dense(600, 2, 600), (150, 2, {0}))
        self.assertEqual(dense(600, 2, 300), (150, 2, {0, 255}))
        # more pairs than are kept: drawn if it is all of them
        self.assertEqual(dense(6000, 6000, 6000), (188, 188, {0}))
        self.assertIsNone(dense(6001, 6000, 6000))

    def test_size(self):
        """A model of 408 launches, with 136 kernels of 250 lines each and long names, stays below 300 KB: the plan of
        three launches, 136 times."""
        times = 136
        self.run_cli("optimize", self.file("g.json", chain(3, blocks=300)), "-o", os.path.join(self.dir, "p"))
        with open(os.path.join(self.dir, "p", "plan.json"), encoding="utf-8") as f:
            plan = json.load(f)
        few = copy.deepcopy(plan)
        sides = {"baseline": few["original"]["launches"], "optimized": few["launches"]}
        for side in plan["original"], plan:
            side["launches"], side["modules"] = [], {}
        plan["rewrites"] = []
        of, time = few["timeline"], few["baseline"]["time_us"]
        sms = plan["timeline"]["sms"]
        for side in sides:
            plan["timeline"][side], plan["timeline"]["bound_us"][side], sms[side], sms["slots"][side] = [], [], [], []
        for i in range(times):
            name = f"_of_fused_nn_dense_add_multiply_sigmoid_softmax_{i}"
            for there, here, side in (plan["original"], few["original"], "baseline"), (plan, few, "optimized"):
                first = len(there["launches"])
                for m, module in here["modules"].items():
                    by = "0f3F8" if side == "baseline" else "0f3F9"  # no line of one is in the other
                    lines = "".join(f"    mul.rn.f32 %f2, %f2, {by}{i:03x}{k:02x};\n" for k in range(250))
                    head, end = module["ptx"].rsplit("ret;", 1)
                    there["modules"][m + name] = {"ptx": head + lines + "ret;" + end}
                for l in here["launches"]:
                    there["launches"].append({**l, "name": l["name"] + name, "module": l["module"] + name})
                plan["timeline"][side] += [[a + i * time, b + i * time] for a, b in of[side]]
                plan["timeline"]["bound_us"][side] += of["bound_us"][side]
                sms["slots"][side] += of["sms"]["slots"][side]
                sms[side] += [[r[0] + first, *r[1:5], r[5] + i * time, r[6] + i * time] for r in of["sms"][side]]
            for r in few["rewrites"]:
                plan["rewrites"].append({**r, "launches": [n + name for n in r["launches"]]})
        for side in "baseline", "optimized":
            plan[side].update(time_us=few[side]["time_us"] * times, launches=len(sides[side]) * times)
        page = self.made("report", self.file("model.json", plan), "html")
        shown = sound(self, page)
        self.assertIn("408 → 136 launches", shown)
        self.assertIn("s0_of_fused_nn_dense", shown)
        self.assertTrue(250000 < len(page.encode()) < 300000, len(page.encode()))

    def test_without_a_service(self):
        """A plan is shown without block maps where nothing can make them, and says why."""
        g = self.file("g.json", chain(2))
        self.run_cli("optimize", g, "-o", os.path.join(self.dir, "p"))
        out = os.path.join(self.dir, "alone.html")
        p = cli("report", os.path.join(self.dir, "p", "plan.json"), "-o", out, "--socket", "/nonexistent/socket")
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("no block maps", p.stderr)
        with open(out, encoding="utf-8") as f:
            self.assertIn("There are no block maps here", sound(self, f.read()))
        for what in (os.path.join(self.dir, "p", "plan.json"), "sha256:" + "0" * 64):
            p = cli("report", what, "-o", out, "--budget", "3", "--socket", self.s.socket)
            self.assertEqual(p.returncode, 2, p.stderr)
        p = cli("report", g, "-o", out, "--socket", "/nonexistent/socket")
        self.assertEqual(p.returncode, 4, p.stderr)

    def test_broken_plans(self):
        """A plan may be anybody's file. Whatever is wrong in it, there is a page or a refusal."""
        g = self.file("g.json", chain(2))
        self.run_cli("optimize", g, "-o", os.path.join(self.dir, "p"))
        with open(os.path.join(self.dir, "p", "plan.json"), encoding="utf-8") as f:
            plan = json.load(f)
        out, none = os.path.join(self.dir, "broken.html"), "/nonexistent/socket"
        for member in list(plan) + ["timeline.sms", "timeline.baseline", "original.launches", "device.sms"]:
            for value in (None, [], {}, "x" * 300, -1e300, [[["<b>"]]], {"<i>": {"<u>": 1}}, 1 << 62):
                doc = copy.deepcopy(plan)
                at, name = doc, member
                if "." in member:
                    at, name = doc.get(member.split(".")[0], {}), member.split(".")[1]
                at[name] = value
                p = cli("report", self.file("broken.json", doc), "-o", out, "--socket", none)
                if member in ("rewrites", "optimized") and value is None:
                    continue
                self.assertEqual(p.returncode, 0, (member, value, p.stderr))
                with open(out, encoding="utf-8") as f:
                    sound(self, f.read())
                p = cli("trace", self.file("broken.json", doc), "-o", out, "--socket", none)
                self.assertGreaterEqual(p.returncode, 0, (member, value, p.stderr))


if __name__ == "__main__":
    unittest.main()
