#!/usr/bin/env python3
"""`dovetail explain` names the instruction behind an edge: PTX line, source line where there is one, and where the data
came from.

Expected lines are looked up in the text that is posted (by marks in it), never taken from an answer.
"""
import json

from harness import HEAD, WaysCase, cli, main, write

PARAMS = "    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c];\n" \
         "    cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2; cvta.to.global.u64 %rd3, %rd3;\n" \
         "    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;\n" \
         "    mul.wide.u32 %rd4, %r4, 4; add.s64 %rd5, %rd1, %rd4; add.s64 %rd6, %rd2, %rd4; " \
         "add.s64 %rd7, %rd3, %rd4;\n"


def entry(name, body):
    return f"\n.visible .entry {name}(.param .u64 a, .param .u64 b, .param .u64 c)\n{{\n" \
           "    .reg .pred %p<4>; .reg .b32 %r<20>; .reg .f32 %f<8>; .reg .b64 %rd<20>;\n" + \
           PARAMS + body + "    ret;\n}\n"


PTX = HEAD + entry("fill", "    .loc 1 4 9\n    ld.global.f32 %f1, [%rd5];\n    .loc 1 5 9\n"
                           "    st.global.f32 [%rd6], %f1; // FILL\n") \
    + entry("gather",
            "    .loc 1 11 3\n    ld.global.u32 %r5, [%rd6]; // INDEX\n    .loc 1 12 5\n    .loc 2 30 7, "
            "function_name $INFO, inlined_at 1 12 5\n"
                      "    mul.wide.u32 %rd8, %r5, 4; add.s64 %rd9, %rd1, %rd8;\n"
                      "    ld.global.f32 %f1, [%rd9]; // READ\n    .loc 1 13 1\n    st.global.f32 [%rd7], %f1;\n") \
    + entry("some", "    ld.global.u32 %r5, [%rd6]; // MASK\n    setp.gt.u32 %p1, %r5, 3;\n"
                    "    ld.global.f32 %f1, [%rd5];\n    @%p1 st.global.f32 [%rd7], %f1; // GUARDED\n") \
    + '.file 1 "made/by/a-generator.py"\n.file 2 "inc/tile.cuh"\n.section .debug_str\n{\n$INFO:\n.b8 116,0\n}\n'


def line(text, mark):
    return text[:text.index("// " + mark)].count("\n") + 1


def graph(ptx):
    n = 4 * 64 * 4
    b = {k: {"bytes": n, "role": "intermediate"} for k in "hyz"}
    b["x"] = {"bytes": n, "role": "input", "fill": {"uniform": [-1, 1], "dtype": "f32", "seed": 3}}
    b["ix"] = {"bytes": n, "role": "input", "fill": {"uniform": [0, 256], "dtype": "i32", "seed": 4}}
    b["z"]["role"] = "output"
    return {"dovetail": 1, "name": "why", "modules": {"m": {"ptx": ptx}}, "buffers": b, "launches": [
        {"name": name, "module": "m", "entry": name, "grid": [4, 1, 1], "block": [64, 1, 1],
         "args": [{"buffer": x} for x in args]}
        for name, args in (("fill", "x h z".split()), ("gather", "h ix y".split()), ("some", "y ix z".split()))]}


CUDA = """__device__ float take(const float *x, int i)
{
    return x[i];
}
extern "C" __global__ void twice(const float *x, float *h)
{
    h[blockIdx.x * blockDim.x + threadIdx.x] = 2 * x[blockIdx.x * blockDim.x + threadIdx.x];
}
extern "C" __global__ void gather(const float *h, const int *ix, float *y)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int i = ix[t];
    y[t] = take(h, i);
}
"""


class Reasons(WaysCase):
    def explain(self, doc, way, *more):
        return self.ok("explain", write(self.dir, "g.json", doc), *more, *self.ways[way])

    def edge(self, doc, way, producer, consumer):
        edges = json.loads(self.explain(doc, way, "--json"))["analysis"]["edges"]
        return next(e for e in edges if (e["producer"], e["consumer"]) == (producer, consumer))

    def check_gather(self, doc, ptx, way):
        e = self.edge(doc, way, "fill", "gather")
        self.assertEqual(e["evidence"], "data-dependent")
        self.assertIn("many-to-many", e["classes"])
        why = [r for r in e["reasons"] if r["of"] == "evidence"]
        self.assertEqual(len(why), 1, why)
        want = {"of": "evidence", "side": "consumer", "access": "read", "buffer": "h", "kernel": "gather",
                "loop": False,
                "ptx_line": line(ptx, "READ"), "instruction": "ld.global.f32 %f1, [%rd9];", "why": "address",
                "source": {"file": "inc/tile.cuh", "line": 30,
                           "inlined_at": {"file": "made/by/a-generator.py", "line": 12}},
                "from": {"ptx_line": line(ptx, "INDEX"), "instruction": "ld.global.u32 %r5, [%rd6];", "buffer": "ix",
                         "source": {"file": "made/by/a-generator.py", "line": 11}}}
        self.assertEqual(why[0], want)
        spread = {(r["side"], r["access"], r["buffer"], r["ptx_line"]) for r in e["reasons"] if r["of"] == "class"}
        self.assertEqual(spread, {("consumer", "read", "h", line(ptx, "READ")),
                                  ("producer", "write", "h", line(ptx, "FILL"))})
        text = self.explain(doc, way)
        for part in (f"gather reads h, PTX line {line(ptx, 'READ')} (line 30 of inc/tile.cuh, inlined at line 12 of "
                     f"made/by/a-generator.py): "
                     "ld.global.f32 %f1, [%rd9];",
                     f"its address is formed by what ix holds, PTX line {line(ptx, 'INDEX')} (line 11 of "
                     f"made/by/a-generator.py): ",
                     f"fill writes h, PTX line {line(ptx, 'FILL')} (line 5 of made/by/a-generator.py): "):
            self.assertIn(part, text)

    def test_ptx(self):
        for way in self.ways:
            self.check_gather(graph(PTX), PTX, way)
            e = self.edge(graph(PTX), way, "gather", "some")
            self.assertEqual((e["evidence"], e["classes"][0], e["reasons"]), ("proved", "one-to-one", []))

    def test_lines_are_of_the_text_posted(self):
        """An equal graph in another spelling is a hit in the cache; its lines are its own."""
        self.check_gather(graph(PTX), PTX, "local")
        other = "// one\n// two\n" + PTX.replace("%rd9", "%rd13").replace("    ret;", "\n    ret;")
        doc = json.loads(self.explain(graph(other), "local", "--json"))
        self.assertTrue(doc["cached"])
        self.check_gather(graph(other.replace("%rd13", "%rd9")), other, "local")

    def test_guard(self):
        g = graph(PTX)
        g["launches"][0]["args"][1] = {"buffer": "z"}  # fill writes z, and so does `some`, perhaps
        g["launches"] = [g["launches"][0], g["launches"][2]]
        e = self.edge(g, "local", "fill", "some")
        self.assertEqual((e["hazards"], e["evidence"]), (["waw"], "data-dependent"))
        self.assertEqual([(r["of"], r["side"], r["access"], r["why"], r["ptx_line"], r["from"]["ptx_line"],
                           r["from"]["buffer"])
                          for r in e["reasons"]],
                         [("evidence", "consumer", "write", "guard", line(PTX, "GUARDED"), line(PTX, "MASK"), "ix")])
        self.assertNotIn("source", e["reasons"][0])
        self.assertIn("whether it does is decided by what ix holds", self.explain(g, "local"))

    def test_lineinfo(self):
        """Lines of CUDA C++ come from -lineinfo; the file is the module's source, by its name in the graph."""
        g = graph(PTX)
        g["modules"] = {"kernels": {"cuda": CUDA, "options": ["-lineinfo"]}}
        g["launches"] = g["launches"][:2]
        for l, name, args in zip(g["launches"], ("twice", "gather"), (("x", "h"), ("h", "ix", "y"))):
            l.update(name=name, module="kernels", entry=name, args=[{"buffer": x} for x in args])
        g["buffers"]["y"]["role"] = "output"
        r = cli("explain", write(self.dir, "g.json", g), "--json", *self.ways["local"])
        if r.returncode and json.loads(r.stdout)["code"] == "no-compiler":
            self.skipTest("NVRTC is not on this machine")
        self.assertEqual(r.returncode, 0, r.stderr)
        why = [r for r in json.loads(r.stdout)["analysis"]["edges"][0]["reasons"] if r["of"] == "evidence"][0]
        at = {k: CUDA[:CUDA.index(k)].count("\n") + 1 for k in ("return x[i]", "int i = ix[t]", "y[t] = take")}
        places = [why["source"], why["source"].get("inlined_at")]
        self.assertIn(places, ([{"module": "kernels", "line": at["return x[i]"],
                                 "inlined_at": {"module": "kernels", "line": at["y[t] = take"]}},
                                {"module": "kernels", "line": at["y[t] = take"]}],))
        self.assertEqual(why["from"]["source"], {"module": "kernels", "line": at["int i = ix[t]"]})
        self.assertIn(f"line {at['int i = ix[t]']} of module kernels", self.explain(g, "local"))
        del g["modules"]["kernels"]["options"]  # without it: PTX lines, and what to do about it
        text = self.explain(g, "local")
        self.assertRegex(text, r"gather reads h, PTX line \d+: ld\.global")
        self.assertIn("-lineinfo", text)


if __name__ == "__main__":
    main()
